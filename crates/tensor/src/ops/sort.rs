//! Order: sorting, selecting by rank, searching, counting, and distinct elements.

use super::copy::byte_strides;
use super::extreme::{extreme_backward, picked_backward};
use super::reduce::reduced_sizes;
use crate::access::{elements, elements_mut};
use crate::autograd::Geometry;
use crate::dims::{self, Dims, wrap_dim};
use crate::{Body, DType, Error, Op, OutRule, Operand, Result, Scalar, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::sort::{self as kernels, Rank, Unique};

fn not_for(op: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{op}\" not implemented for '{}'", dtype.scalar_type_name()))
}

/// A 0-d tensor as a 1-d one, so that kernels see at least one dim.
fn at_least_1d(x: &Tensor) -> Result<Tensor> {
    if x.dim() == 0 { x.view(&[1]) } else { Ok(x.clone()) }
}

/// Runs `f` on a source and two results, locked, with their strides in bytes.
fn with_two(
    x: &Tensor,
    outs: &[Tensor],
    f: impl FnOnce((*const u8, &[isize]), (*mut u8, &[isize]), (*mut u8, &[isize])),
) -> Result<()> {
    ensure!(outs.len() == 2, "two results are needed");
    let _locks = LockSet::new([(x.storage(), false), (outs[0].storage(), true), (outs[1].storage(), true)])?;
    let strides = |t: &Tensor| byte_strides(t.strides(), t.dtype());
    f((x.data_ptr(), &strides(x)), (outs[0].data_ptr(), &strides(&outs[0])), (outs[1].data_ptr(), &strides(&outs[1])));
    Ok(())
}

// ---- sort ---------------------------------------------------------------------------------------

fn sort_plan(
    x: &Tensor,
    _stable: Option<bool>,
    dim: Option<i64>,
    _descending: Option<bool>,
) -> Result<[TensorSpec; 2]> {
    wrap_dim(dim.unwrap_or(-1), x.dim())?;
    ensure!(!x.dtype().is_complex(), " Sort does not support complex dtypes on CPU");
    let values =
        TensorSpec::like(Dims::from_slice(x.sizes()), x).strided(dims::preserved_strides(x.sizes(), x.strides()));
    Ok([values.clone(), values.dtype(DType::I64)])
}
fn sort_run(
    x: &Tensor,
    _stable: Option<bool>,
    dim: Option<i64>,
    descending: Option<bool>,
    outs: &[Tensor],
) -> Result<()> {
    let d = wrap_dim(dim.unwrap_or(-1), x.dim())?;
    if x.numel() == 0 {
        return Ok(());
    }
    let (x, outs) = (at_least_1d(x)?, [at_least_1d(&outs[0])?, at_least_1d(&outs[1])?]);
    with_two(&x, &outs, |src, values, indices| {
        // SAFETY: all three have the same sizes and are locked; they share no memory.
        unsafe {
            kernels::sort(x.sizes(), d, Some(values), Some(indices), src, x.dtype(), descending.unwrap_or(false));
        }
    })
}

fn sort_samples(m: &mut crate::samples::Maker) -> Vec<(Tensor, i64)> {
    match m.dtype.is_complex() {
        true => vec![],
        false => vec![(m.any(&[3, 4]), 0), (m.any(&[2, 3, 4]), -1), (m.any(&[]), 0), (m.any(&[2, 0]), 1)],
    }
}

op! {
    /// The elements in order along a dim, equal ones as they were, and where each came from. NaN is greatest.
    sort_stable: "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        Out OUT: "sort.values_stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)";
    Body::Structured { plan: plan!(sort_plan; x, stable, dim, descending), run: run!(sort_run; x, stable, dim, descending) };
    derivative: backward! {
        self_(g, self_: Geometry, indices: Tensor, dim: i64) => picked_backward(g, &self_, &indices, dim, true)?
    };
    samples: |m| sort_samples(m).into_iter().map(|(x, dim)| sample![x, true, dim, dim == 0]).collect();
    out_rule: OutRule::EXACT;
    fn sort(&self, dim: i64, descending: bool) -> (Tensor, Tensor) [self, true, dim, descending];
}

fn sort_any(x: &Tensor, dim: Option<i64>, descending: Option<bool>) -> Result<(Tensor, Tensor)> {
    x.sort(dim.unwrap_or(-1), descending.unwrap_or(false))
}

op! {
    /// The elements in order along a dim, and where each came from.
    sort: "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        Out OUT: "sort.values(Tensor self, int dim=-1, bool descending=False, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)";
    Body::Explicit(kernel!(sort_any; x, dim, descending));
    derivative: backward! {
        self_(g, self_: Geometry, indices: Tensor, dim: Option<i64>) => {
            picked_backward(g, &self_, &indices, dim.unwrap_or(-1), true)?
        }
    };
    samples: |m| sort_samples(m).into_iter().map(|(x, dim)| sample![x, dim, dim == 0]).collect();
    out_rule: OutRule::EXACT;
}

fn argsort_any(x: &Tensor, dim: Option<i64>, descending: Option<bool>) -> Result<Tensor> {
    Ok(sort_any(x, dim, descending)?.1)
}
fn argsort_stable_any(x: &Tensor, _stable: bool, dim: Option<i64>, descending: Option<bool>) -> Result<Tensor> {
    Ok(sort_any(x, dim, descending)?.1)
}

op! {
    /// The indices that would sort along a dim.
    argsort: "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor";
    Body::Composite(kernel!(argsort_any; x, dim, descending));
    samples: |m| sort_samples(m).into_iter().map(|(x, dim)| sample![x, dim, dim == 0]).collect();
    fn argsort(&self, dim: i64, descending: bool) -> Tensor [self, dim, descending];
}
op! {
    /// The indices that would sort along a dim, equal elements as they were.
    argsort_stable: "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
        Out OUT: "argsort.stable_out(Tensor self, *, bool stable, int dim=-1, bool descending=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(argsort_stable_any; x, stable, dim, descending));
    samples: |m| sort_samples(m).into_iter().map(|(x, dim)| sample![x, true, dim, dim == 0]).collect();
    out_rule: OutRule::EXACT;
}

fn msort_any(x: &Tensor) -> Result<Tensor> {
    let sorted = sort::OP.call(&[x.into(), 0i64.into(), false.into()])?;
    Ok(sorted.list()?.swap_remove(0))
}

op! {
    /// The elements in order along the first dim.
    msort: "msort(Tensor self) -> Tensor", Out OUT: "msort.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(msort_any; x));
    samples: |m| sort_samples(m).into_iter().map(|(x, _)| sample![x]).collect();
    out_rule: crate::OutRule::EXACT;
    fn msort(&self) -> Tensor [self];
}

// ---- topk ---------------------------------------------------------------------------------------

fn topk_plan(
    x: &Tensor,
    k: i64,
    dim: Option<i64>,
    _largest: Option<bool>,
    _sorted: Option<bool>,
) -> Result<[TensorSpec; 2]> {
    let d = wrap_dim(dim.unwrap_or(-1), x.dim())?;
    ensure!(!x.dtype().is_complex(), " topk does not support complex dtypes on CPU");
    ensure!(x.dtype() != DType::Bool, "topk does not support bool dtypes on CPU");
    let size = if x.dim() == 0 { 1 } else { x.sizes()[d] };
    ensure!((0..=size).contains(&k), "selected index k out of range");
    let mut sizes = Dims::from_slice(x.sizes());
    if x.dim() > 0 {
        sizes[d] = k;
    }
    let values = TensorSpec::like(sizes, x);
    Ok([values.clone(), values.dtype(DType::I64)])
}
fn topk_run(
    x: &Tensor,
    k: i64,
    dim: Option<i64>,
    largest: Option<bool>,
    sorted: Option<bool>,
    outs: &[Tensor],
) -> Result<()> {
    let d = wrap_dim(dim.unwrap_or(-1), x.dim())?;
    if outs[0].numel() == 0 {
        return Ok(());
    }
    // A number is its own selection, whatever `k`.
    let k = if x.dim() == 0 { 1 } else { k as usize };
    // Pieces of a long line are looked at apart; where much of it is wanted, a thread may take the keys of all of it, and
    // these again with their indices.
    let line = if x.dim() == 0 { 1 } else { x.sizes()[d] as usize };
    let threads = flambeau_base::parallel::num_threads().min(outs[0].numel() as usize / k);
    let needed = if k > line / 64 { line.saturating_mul(threads * 3 * size_of::<u64>()) } else { line / 256 };
    flambeau_base::allocator::check_available(needed)?;
    let (x, outs) = (at_least_1d(x)?, [at_least_1d(&outs[0])?, at_least_1d(&outs[1])?]);
    with_two(&x, &outs, |src, values, indices| {
        let order = (largest.unwrap_or(true), sorted.unwrap_or(true));
        // SAFETY: the results have `k` along the dim, which has at least so many, and otherwise the source's sizes; all
        // are locked and share no memory.
        unsafe { kernels::topk(x.sizes(), d, k, order, values, indices, src, x.dtype()) };
    })
}

op! {
    /// The `k` largest (or smallest) elements along a dim, in order if they are to be sorted, and where they are; of equal
    /// ones those that PyTorch takes.
    topk: "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
        Out OUT: "topk.values(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)";
    Body::Structured { plan: plan!(topk_plan; x, k, dim, largest, sorted), run: run!(topk_run; x, k, dim, largest, sorted) };
    derivative: backward! {
        self_(g, self_: Geometry, indices: Tensor, dim: i64) => picked_backward(g, &self_, &indices, dim, true)?
    };
    samples: |m| match m.dtype.is_complex() || m.dtype == DType::Bool {
        true => vec![],
        false => vec![sample![m.any(&[3, 4]), 2, 0, true, true], sample![m.any(&[2, 5]), 3, -1, false, true], sample![m.any(&[]), 1, 0, true, true]],
    };
    out_rule: OutRule::EXACT;
    fn topk(&self, k: i64, dim: i64, largest: bool) -> (Tensor, Tensor) [self, k, dim, largest, true];
}

// ---- ranks --------------------------------------------------------------------------------------

fn rank_plan(op: &str, x: &Tensor, dim: i64, keepdim: bool) -> Result<[TensorSpec; 2]> {
    let d = wrap_dim(dim, x.dim())?;
    if x.dtype().is_complex() || x.dtype() == DType::Bool {
        return Err(not_for(&format!("{op}_cpu"), x.dtype()));
    }
    if x.dim() > 0 && x.sizes()[d] == 0 {
        return Err(Error::index(format!("{op}(): Expected reduction dim {d} to have non-zero size.")));
    }
    let values = TensorSpec::like(reduced_sizes(x.sizes(), &[d], keepdim), x);
    Ok([values.clone(), values.dtype(DType::I64)])
}
fn rank_run(rank: Rank, x: &Tensor, dim: i64, outs: &[Tensor]) -> Result<()> {
    let d = wrap_dim(dim, x.dim())?;
    if outs[0].numel() == 0 {
        return Ok(());
    }
    // The kernel wants the dim kept.
    let kept = |t: &Tensor| if t.dim() < x.dim().max(1) { t.unsqueeze(d as i64) } else { Ok(t.clone()) };
    let (x, outs) = (at_least_1d(x)?, [kept(&outs[0])?, kept(&outs[1])?]);
    // Every thread takes the keys of a line, and where equal ones are to be told apart also their indices.
    let threads = flambeau_base::parallel::num_threads().min(outs[0].numel() as usize);
    let each = if matches!(rank, Rank::Kth(_)) { 3 } else { 1 } * size_of::<u64>();
    flambeau_base::allocator::check_available((x.sizes()[d] as usize).saturating_mul(threads * each))?;
    with_two(&x, &outs, |src, values, indices| {
        // SAFETY: the results have one along the dim, which is not empty, and otherwise the source's sizes; all are
        // locked and share no memory.
        unsafe { kernels::select_rank(rank, x.sizes(), d, values, indices, src, x.dtype()) };
    })
}

fn kthvalue_plan(x: &Tensor, k: i64, dim: Option<i64>, keepdim: Option<bool>) -> Result<[TensorSpec; 2]> {
    let dim = dim.unwrap_or(-1);
    let specs = rank_plan("kthvalue", x, dim, keepdim.unwrap_or(false))?;
    let d = wrap_dim(dim, x.dim())?;
    let size = if x.dim() == 0 { 1 } else { x.sizes()[d] };
    ensure!((1..=size).contains(&k), "kthvalue(): selected number k out of range for dimension {d}");
    Ok(specs)
}
fn kthvalue_run(x: &Tensor, k: i64, dim: Option<i64>, _keepdim: Option<bool>, outs: &[Tensor]) -> Result<()> {
    rank_run(Rank::Kth(k as usize - 1), x, dim.unwrap_or(-1), outs)
}

fn kthvalue_writes(write: &crate::out::Write<'_, '_>) -> Result<()> {
    let message = match write.output {
        0 => "output values must be of same type as input",
        _ => "output indices must be of scalar type Long",
    };
    ensure!(write.result == write.out, "{message}");
    Ok(())
}

op! {
    /// The `k`th smallest element, from one, along a dim, and where it is.
    kthvalue: "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Out OUT: "kthvalue.values(Tensor self, SymInt k, int dim=-1, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)";
    Body::Structured { plan: plan!(kthvalue_plan; x, k, dim, keepdim), run: run!(kthvalue_run; x, k, dim, keepdim) };
    derivative: backward! {
        self_(g, self_: Geometry, indices: Tensor, dim: i64, keepdim: bool) => picked_backward(g, &self_, &indices, dim, keepdim)?
    };
    samples: |m| match m.dtype.is_complex() || m.dtype == DType::Bool {
        true => vec![],
        false => vec![sample![m.any(&[3, 4]), 2, 0, false], sample![m.any(&[2, 5]), 3, -1, true]],
    };
    out_rule: OutRule::call(kthvalue_writes).first_apart(&[0]);
    fn kthvalue(&self, k: i64, dim: i64, keepdim: bool) -> (Tensor, Tensor) [self, k, dim, keepdim];
}

/// A median: along a dim, and of everything.
macro_rules! medians {
    ($( $(#[doc = $doc:expr])* $name:ident $rank:ident, $dim:ident $dim_schema:literal $dim_out:literal,
        $plan:ident $run:ident, $schema:literal $out:literal, $all:ident; )*) => { $(
        fn $plan(x: &Tensor, dim: i64, keepdim: Option<bool>) -> Result<[TensorSpec; 2]> {
            rank_plan("median", x, dim, keepdim.unwrap_or(false))
        }
        fn $run(x: &Tensor, dim: i64, _keepdim: Option<bool>, outs: &[Tensor]) -> Result<()> {
            rank_run(Rank::$rank, x, dim, outs)
        }
        fn $all(x: &Tensor) -> Result<Tensor> {
            if x.numel() == 0 && !x.dtype().is_complex() && x.dtype() != DType::Bool {
                // PyTorch's answer: NaN, which as an integer is the least 64-bit one.
                let nothing = if x.dtype().is_integral(true) { Scalar::Int(i64::MIN) } else { Scalar::Float(f64::NAN) };
                return Tensor::full(&[], nothing, (x.dtype(), x.device()));
            }
            Ok(x.reshape(&[-1])?.$dim(0, false)?.0)
        }
        op! {
            $(#[doc = $doc])*
            $dim: $dim_schema, Out OUT: $dim_out;
            Body::Structured { plan: plan!($plan; x, dim, keepdim), run: run!($run; x, dim, keepdim) };
            derivative: backward! {
                self_(g, self_: Geometry, indices: Tensor, dim: i64, keepdim: bool) => picked_backward(g, &self_, &indices, dim, keepdim)?
            };
            samples: |m| match m.dtype.is_complex() || m.dtype == DType::Bool {
                true => vec![],
                false => vec![sample![m.any(&[3, 4]), 0, false], sample![m.any(&[2, 5]), -1, true], sample![m.any(&[]), 0, false]],
            };
            fn $dim(&self, dim: i64, keepdim: bool) -> (Tensor, Tensor) [self, dim, keepdim];
        }
        op! {
            $(#[doc = $doc])*
            $name: $schema, Out OUT: $out;
            Body::Explicit(kernel!($all; x));
            derivative: backward! { self_(g, self_: Tensor, result: Tensor) => extreme_backward(g, &self_, &result, &[], false)? };
            samples: |m| match m.dtype.is_complex() || m.dtype == DType::Bool {
                true => vec![],
                false => vec![sample![m.any(&[3, 4])]],
            };
            fn $name(&self) -> Tensor [self];
        }
    )* };
}
medians! {
    /// The median, the lower of two, of all elements or along a dim with its index; NaN where there is one.
    median Median, median_dim
        "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
        "median.dim_values(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)",
        median_plan median_run, "median(Tensor self) -> Tensor" "median.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", median_all;
    /// The median, the lower of two, of the elements that are not NaN: of all or along a dim with its index.
    nanmedian NanMedian, nanmedian_dim
        "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
        "nanmedian.dim_values(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)",
        nanmedian_plan nanmedian_run, "nanmedian(Tensor self) -> Tensor" "nanmedian.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", nanmedian_all;
}

// ---- searching ----------------------------------------------------------------------------------

fn searchsorted_any(
    sorted: &Tensor,
    values: &Tensor,
    out_int32: Option<bool>,
    right: Option<bool>,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    let mut right = right.unwrap_or(false);
    if let Some(side) = side {
        ensure!(
            side == "left" || side == "right",
            "torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        );
        ensure!(
            !right || side == "right",
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        );
        right = side == "right";
    }
    ensure!(
        sorted.dim() > 0 && (values.dim() > 0 || sorted.dim() == 1),
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got \
         boundaries tensor dim({}) and input value's dim({}) numel({})",
        sorted.dim(),
        values.dim(),
        values.numel()
    );
    let lead = sorted.dim() - 1;
    ensure!(
        sorted.dim() == 1 || (values.dim() == sorted.dim() && sorted.sizes()[..lead] == values.sizes()[..lead]),
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor \
         and input value tensor must match, but we got boundaries tensor {:?} and input value tensor {:?}",
        sorted.sizes(),
        values.sizes()
    );
    let dtype = crate::promotion::result_type_of(&[sorted, values]);
    if dtype.is_complex() {
        return Err(not_for("searchsorted_out_cpu", dtype));
    }
    let length = sorted.sizes()[lead];
    let sorter = match sorter {
        None => None,
        Some(sorter) => {
            ensure!(
                sorter.sizes() == sorted.sizes(),
                "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {:?}and got \
                 sorter tensor {:?}",
                sorted.sizes(),
                sorter.sizes()
            );
            ensure!(
                sorter.dtype() == DType::I64,
                "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
                sorter.dtype().scalar_type_name()
            );
            // A copy of its own: no one may change an index between the check and the search.
            let sorter = sorter.detach()?.to_device(crate::Device::CPU)?.clone_in(crate::MemoryFormat::Contiguous)?;
            let within = sorter.to_vec::<i64>()?.iter().all(|i| (0..length).contains(i));
            ensure!(within, "torch.searchsorted(): sorter index out of range");
            Some(sorter)
        }
    };
    let out_dtype = if out_int32.unwrap_or(false) { DType::I32 } else { DType::I64 };
    ensure!(
        out_dtype == DType::I64 || length < i64::from(i32::MAX),
        "torch.searchsorted(): the size of boundaries' last dimension should be less than {}, but we got {length}",
        i32::MAX
    );
    let device = values.device();
    if device == crate::Device::META || sorted.device() == crate::Device::META || values.numel() == 0 {
        return Tensor::empty(values.sizes(), (out_dtype, device));
    }
    let on_cpu = |t: &Tensor| t.detach()?.to_options(Some(dtype), Some(crate::Device::CPU))?.contiguous();
    let (boundaries, inputs) = (on_cpu(sorted)?, on_cpu(values)?);
    let out = Tensor::fresh(crate::Device::CPU, out_dtype, Dims::from_slice(values.sizes()))?;
    let width = match lead {
        0 => inputs.numel(),
        _ => inputs.sizes()[lead],
    };
    let rows = inputs.numel() / width.max(1);
    let mut wanted = vec![(boundaries.storage(), false), (inputs.storage(), false), (out.storage(), true)];
    wanted.extend(sorter.as_ref().map(|s| (s.storage(), false)));
    let locks = LockSet::new(wanted)?;
    // SAFETY: all are contiguous, of the sizes that were checked, and locked; the sorter's indices were checked.
    unsafe {
        kernels::searchsorted(
            boundaries.data_ptr(),
            if lead == 0 { 1 } else { rows as usize },
            length as usize,
            sorter.as_ref().map(|s| s.data_ptr() as *const i64),
            inputs.data_ptr(),
            rows as usize,
            width as usize,
            dtype,
            (out.data_ptr(), out_dtype),
            right,
        );
    }
    drop(locks);
    out.to_device(device)
}

/// A number as a 0-d tensor that promotes like the boundaries.
fn number_like(sorted: &Tensor, value: Scalar) -> Result<Tensor> {
    let dtype = crate::promotion::result_type(&[Operand::Tensor(sorted), Operand::Scalar(value)]);
    Tensor::full(&[], value, (dtype, sorted.device()))
}

fn searchsorted_number_any(
    sorted: &Tensor,
    value: Scalar,
    out_int32: Option<bool>,
    right: Option<bool>,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    searchsorted_any(sorted, &number_like(sorted, value)?, out_int32, right, side, sorter)
}
fn bucketize_any(values: &Tensor, boundaries: &Tensor, out_int32: Option<bool>, right: Option<bool>) -> Result<Tensor> {
    ensure!(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim({})", boundaries.dim());
    searchsorted_any(boundaries, values, out_int32, right, None, None)
}
fn bucketize_number_any(
    value: Scalar,
    boundaries: &Tensor,
    out_int32: Option<bool>,
    right: Option<bool>,
) -> Result<Tensor> {
    bucketize_any(&number_like(boundaries, value)?, boundaries, out_int32, right)
}

fn boundaries(m: &mut crate::samples::Maker) -> Option<Tensor> {
    if m.dtype.is_complex() { None } else { m.any(&[5]).sort(-1, false).ok().map(|(sorted, _)| sorted) }
}

fn position_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on \
         whether out_int32 flag is True, but we got output tensor's dtype {} and out_int32 flag is {}",
        out.scalar_type_name(),
        if result == DType::I32 { "True" } else { "False" }
    );
    Ok(())
}

op! {
    /// Where each value would go in the sorted last dim of this tensor: before its equals, or after them if `right`.
    searchsorted: "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
        Out OUT: "searchsorted.Tensor_out(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(searchsorted_any; sorted, values, out_int32, right, side, sorter));
    samples: |m| match m.dtype.is_complex() {
        true => vec![],
        false => {
            let sorted = m.any(&[2, 5]).sort(-1, false);
            let mut all = vec![];
            all.extend(sorted.ok().map(|(s, _)| sample![s, m.any(&[2, 3]), false, false, (), ()]));
            all
        }
    };
    out_rule: OutRule::dtype(position_writes);
    fn searchsorted(&self, values: &Tensor, right: bool) -> Tensor [self, values, false, right];
}
op! {
    /// Where a number would go in a sorted vector.
    searchsorted_number: "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
        Out OUT: "searchsorted.Scalar_out(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(searchsorted_number_any; sorted, value, out_int32, right, side, sorter));
    samples: |m| boundaries(m).into_iter().map(|s| sample![s, Scalar::Int(1), false, true, (), ()]).collect();
    out_rule: OutRule::dtype(position_writes);
}
op! {
    /// The bucket that each element falls into, by the sorted boundaries between them; `right` says that a boundary
    /// belongs to the bucket after it.
    bucketize: "bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
        Out OUT: "bucketize.Tensor_out(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(bucketize_any; values, boundaries, out_int32, right));
    samples: |m| boundaries(m).into_iter().map(|s| sample![m.any(&[2, 3]), s, false, true]).collect();
    out_rule: OutRule::dtype(position_writes);
    fn bucketize(&self, boundaries: &Tensor, right: bool) -> Tensor [self, boundaries, false, right];
}
op! {
    /// The bucket that a number falls into.
    bucketize_number: "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor";
    Body::Explicit(kernel!(bucketize_number_any; value, boundaries, out_int32, right));
    samples: |m| boundaries(m).into_iter().map(|s| sample![Scalar::Int(1), s, true, false]).collect();
}

// ---- counting -----------------------------------------------------------------------------------

fn bincount_any(x: &Tensor, weights: Option<&Tensor>, minlength: Option<i64>) -> Result<Tensor> {
    let least = minlength.unwrap_or(0);
    ensure!(least >= 0, "minlength should be >= 0");
    if !x.dtype().is_integral(false) {
        return Err(not_for("bincount_cpu", x.dtype()));
    }
    let unfit = "bincount only supports 1-d non-negative integral inputs.";
    ensure!(x.dim() == 1, "{unfit}");
    if x.numel() == 0 {
        return Tensor::zeros(&[least], (DType::I64, x.device()));
    }
    if let Some(w) = weights {
        ensure!(w.dim() == 1 && w.numel() == x.numel(), "weights should be 1-d and have the same length as input");
        ensure!(!w.dtype().is_complex(), "bincount: complex weights are not supported");
    }
    ensure!(!x.device().is_meta(), "Cannot copy out of meta tensor; no data!");
    let read = |t: &Tensor, dtype| t.detach_all()?.to_device(crate::Device::CPU)?.to_dtype(dtype)?.contiguous();
    let numbers = read(x, x.dtype())?;
    let (count, dtype) = (numbers.numel() as usize, numbers.dtype());
    // Kept while they are counted: a greater number that came meanwhile would have no bin.
    let lock = LockSet::new([(numbers.storage(), false)])?;
    // SAFETY: locked, contiguous and of this type.
    let bins = unsafe { kernels::bins(numbers.data_ptr(), count, dtype, least as usize) };
    let bins = bins.ok_or_else(|| Error::runtime(unfit))?;
    let out_dtype = match weights.map(Tensor::dtype) {
        None => DType::I64,
        Some(DType::F32) => DType::F32,
        Some(_) => DType::F64,
    };
    dims::checked_numel(&[bins as i64])?;
    let out = Tensor::zeros(&[bins as i64], (out_dtype, crate::Device::CPU))?;
    let Some(weights) = weights else {
        let written = LockSet::new([(out.storage(), true)])?;
        if count > 0 {
            // SAFETY: both are locked and of these types, the output fresh.
            unsafe { kernels::bincount(numbers.data_ptr(), count, dtype, elements_mut(&out)) };
        }
        drop(written);
        return out.to_device(x.device());
    };
    drop(lock);
    // The sums of weights are made by one kernel.
    let (weights, values) = (read(weights, out_dtype)?, read(&numbers, DType::I64)?);
    if count > 0 {
        let inputs = [&values, &weights].into_iter().map(|t| (t.storage(), false));
        let _locks = LockSet::new(inputs.chain([(out.storage(), true)]))?;
        // SAFETY: all are locked and of these types, the output fresh.
        unsafe {
            match out_dtype {
                DType::F32 => {
                    kernels::bincount_weighted(elements(&values), elements::<f32>(&weights), elements_mut(&out))
                }
                _ => kernels::bincount_weighted(elements(&values), elements::<f64>(&weights), elements_mut(&out)),
            }
        }
    }
    out.to_device(x.device())
}

op! {
    /// How often each number from zero up to the greatest occurs, or the sum of its weights; at least `minlength` counts.
    bincount: "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
        Out OUT: "bincount.out(Tensor self, Tensor? weights=None, SymInt minlength=0, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(bincount_any; x, weights, minlength));
    samples: |m| match m.dtype {
        d if d.is_integral(false) => vec![sample![m.uniform(&[6], 0.0, 4.0), (), 5]],
        d if d.is_floating_point() => vec![sample![m.indices(&[6], 4), m.any(&[6]), 2]],
        _ => vec![],
    };
    fn bincount(&self, weights: Option<&Tensor>, minlength: i64) -> Tensor [self, weights, minlength];
}

// ---- distinct elements --------------------------------------------------------------------------

/// Positions of the distinct parts as a tensor, and the inverse and counts if they are asked for.
fn unique_parts(found: &Unique, inverse: bool, counts: bool, shape: &[i64]) -> Result<(Tensor, Tensor, Tensor)> {
    let none: &[i64] = &[];
    let inverse = match inverse {
        true => Tensor::from_slice(&found.inverse)?.view(shape)?,
        false => Tensor::from_slice(none)?,
    };
    let counts = Tensor::from_slice(if counts { &found.counts } else { none })?;
    Ok((Tensor::from_slice(&found.positions)?, inverse, counts))
}

fn locked<R>(x: &Tensor, f: impl FnOnce(*const u8) -> R) -> Result<R> {
    let _lock = LockSet::new([(x.storage(), false)])?;
    Ok(f(x.data_ptr()))
}

fn on_devices(x: &Tensor, (a, b, c): (Tensor, Tensor, Tensor)) -> Result<(Tensor, Tensor, Tensor)> {
    Ok((a.to_device(x.device())?, b.to_device(x.device())?, c.to_device(x.device())?))
}

fn check_unique(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return Err(not_for("unique", x.dtype()));
    }
    x.detach()?.to_device(crate::Device::CPU)?.contiguous()
}

fn unique_any(
    x: &Tensor,
    _sorted: Option<bool>,
    inverse: Option<bool>,
    counts: Option<bool>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let data = check_unique(x)?;
    let n = data.numel();
    let fresh = |sizes: &[i64], dtype| Tensor::empty(sizes, (dtype, crate::Device::CPU));
    let (sorted, starts) = (fresh(&[n], data.dtype())?, fresh(&[n], DType::I64)?);
    let inverse = fresh(if inverse == Some(true) { x.sizes() } else { &[0] }, DType::I64)?;
    let count = if n == 0 { 0 } else {
        let outs = [&sorted, &starts, &inverse].map(|t| (t.storage(), true));
        let _locks = LockSet::new(outs.into_iter().chain([(data.storage(), false)]))?;
        // SAFETY: all are locked, contiguous and of their types, and the outputs fresh.
        unsafe {
            let places = (inverse.numel() == n).then(|| elements_mut(&inverse));
            let from = data.data_ptr().cast_const();
            kernels::unique(from, n as usize, data.dtype(), sorted.data_ptr(), elements_mut(&starts), places) as i64
        }
    };
    let starts = starts.narrow(0, 0, count)?;
    let counts = if counts == Some(true) { run_lengths(&starts, n)? } else { fresh(&[0], DType::I64)? };
    on_devices(x, (sorted.index_select(0, &starts)?, inverse, counts))
}

/// How long runs of `n` elements are, by their starts.
fn run_lengths(starts: &Tensor, n: i64) -> Result<Tensor> {
    match starts.numel() {
        0 => Ok(starts.clone()),
        count => Tensor::cat(&[starts.narrow(0, 1, count - 1)?, Tensor::from_slice(&[n])?], 0)?.sub(starts),
    }
}

fn unique_consecutive_any(
    x: &Tensor,
    inverse: Option<bool>,
    counts: Option<bool>,
    dim: Option<i64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let data = check_unique(x)?;
    let (inverse, counts) = (inverse.unwrap_or(false), counts.unwrap_or(false));
    let Some(dim) = dim else {
        let n = data.numel();
        let fresh = |sizes: &[i64]| Tensor::empty(sizes, (DType::I64, crate::Device::CPU));
        let (starts, inverse) = (fresh(&[n])?, fresh(if inverse { x.sizes() } else { &[0] })?);
        let count = if n == 0 { 0 } else {
            let _locks = LockSet::new([(data.storage(), false), (starts.storage(), true), (inverse.storage(), true)])?;
            // SAFETY: all are locked, contiguous and of their types, and the outputs fresh.
            unsafe {
                let places = (inverse.numel() == n).then(|| elements_mut(&inverse));
                kernels::runs(data.data_ptr(), n as usize, data.dtype(), elements_mut(&starts), places) as i64
            }
        };
        let starts = starts.narrow(0, 0, count)?;
        let values = data.view(&[-1])?.index_select(0, &starts)?;
        let counts = if counts { run_lengths(&starts, n)? } else { fresh(&[0])? };
        return on_devices(x, (values, inverse, counts));
    };
    distinct_rows(x, &data, dim, inverse, counts, false)
}

fn distinct_rows(
    x: &Tensor,
    data: &Tensor,
    dim: i64,
    inverse: bool,
    counts: bool,
    anywhere: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let data = at_least_1d(data)?;
    let d = wrap_dim(dim, data.dim())? as i64;
    let rows = data.size(d)?;
    ensure!(
        data.numel() > 0 || rows == 0,
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
    );
    let lines = data.movedim(&[d], &[0])?.contiguous()?;
    let width = (lines.numel() / rows.max(1)) as usize;
    // SAFETY: `rows` contiguous rows of `width` elements, locked.
    let found = locked(&lines, |p| unsafe {
        match anywhere {
            true => kernels::unique_rows(p, rows as usize, width, lines.dtype()),
            false => kernels::unique_consecutive(p, rows as usize, width, lines.dtype()),
        }
    })?;
    let (positions, inverse, counts) = unique_parts(&found, inverse, counts, &[rows])?;
    // The rows found, moved back to where they were.
    on_devices(x, (lines.index_select(0, &positions)?.movedim(&[0], &[d])?, inverse, counts))
}

fn unique_dim_any(
    x: &Tensor,
    dim: i64,
    _sorted: Option<bool>,
    inverse: Option<bool>,
    counts: Option<bool>,
) -> Result<(Tensor, Tensor, Tensor)> {
    distinct_rows(x, &check_unique(x)?, dim, inverse.unwrap_or(false), counts.unwrap_or(false), true)
}

op! {
    /// The distinct elements in order; with `return_inverse` which of them each element is, with `return_counts` how
    /// often each occurs (both empty otherwise). Every NaN is distinct.
    unique: "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)";
    Body::Explicit(kernel!(unique_any; x, sorted, inverse, counts));
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![m.any(&[2, 6]), true, true, true]] };
    fn unique(&self, return_inverse: bool, return_counts: bool) -> (Tensor, Tensor, Tensor) [self, true, return_inverse, return_counts];
}
op! {
    /// The distinct parts along a dim in lexicographic order, with inverse and counts if asked for.
    unique_dim: "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)";
    Body::Explicit(kernel!(unique_dim_any; x, dim, sorted, inverse, counts));
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![m.any(&[2, 6]), 1, true, true, true]] };
    fn unique_dim(&self, dim: i64, return_inverse: bool, return_counts: bool) -> (Tensor, Tensor, Tensor)
        [self, dim, true, return_inverse, return_counts];
}
op! {
    /// The elements (or parts along a dim) that differ from the one before, with inverse and counts if asked for.
    unique_consecutive: "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)";
    Body::Explicit(kernel!(unique_consecutive_any; x, inverse, counts, dim));
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![m.any(&[2, 6]), true, true, ()]] };
    fn unique_consecutive(&self, return_inverse: bool, return_counts: bool, dim: Option<i64>) -> (Tensor, Tensor, Tensor)
        [self, return_inverse, return_counts, dim];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    argsort::ALL,
    argsort_stable::ALL,
    bincount::ALL,
    bucketize::ALL,
    bucketize_number::ALL,
    kthvalue::ALL,
    median::ALL,
    median_dim::ALL,
    msort::ALL,
    nanmedian::ALL,
    nanmedian_dim::ALL,
    searchsorted::ALL,
    searchsorted_number::ALL,
    sort::ALL,
    sort_stable::ALL,
    topk::ALL,
    unique::ALL,
    unique_consecutive::ALL,
    unique_dim::ALL,
];
