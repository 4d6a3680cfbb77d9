//! Reading and writing by index along one dim: gather, scatter, index_select and their relatives.

use super::copy::byte_strides;
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims, wrap_dim};
use crate::dispatch::{Overlap, overlap, overlaps};
use crate::{Body, DType, Error, Op, OutRule, Result, Scalar, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::index::{BadIndex, ReduceOp};

fn out_of_bounds(e: BadIndex, dim: usize) -> Error {
    Error::runtime(format!("index {} is out of bounds for dimension {dim} with size {}", e.value, e.size))
}

/// 64-bit indices of an index argument.
fn index_dtype(op: &str, index: &Tensor) -> Result<()> {
    ensure!(
        matches!(index.dtype(), DType::I64 | DType::I32) || index.numel() == 0,
        "{op}(): Expected dtype int32/int64 for index"
    );
    Ok(())
}

/// A 0-d tensor as a 1-d one, so that kernels see at least one dim.
pub(super) fn at_least_1d(x: &Tensor) -> Result<Tensor> {
    if x.dim() == 0 { x.view(&[1]) } else { Ok(x.clone()) }
}

// ---- gather -------------------------------------------------------------------------------------

fn gather_check(x: &Tensor, dim: i64, index: &Tensor) -> Result<usize> {
    let d = wrap_dim(dim, x.dim())?;
    index_dtype("gather", index)?;
    ensure!(
        index.dim().max(1) == x.dim().max(1) || index.numel() == 0,
        "Index tensor must have the same number of dimensions as input tensor"
    );
    for i in 0..x.dim().min(index.dim()) {
        ensure!(
            i == d || index.sizes()[i] <= x.sizes()[i] || index.numel() == 0,
            "Size does not match at dimension {i} expected index {:?} to be no larger than self {:?} apart from dimension {d}",
            index.sizes(),
            x.sizes()
        );
    }
    Ok(d)
}

fn gather_plan(x: &Tensor, dim: i64, index: &Tensor, _sparse_grad: bool) -> Result<TensorSpec> {
    gather_check(x, dim, index)?;
    Ok(TensorSpec::like(Dims::from_slice(index.sizes()), x))
}

fn gather_run(x: &Tensor, dim: i64, index: &Tensor, _sparse_grad: bool, outs: &[Tensor]) -> Result<()> {
    let d = gather_check(x, dim, index)?;
    if index.numel() == 0 {
        return Ok(());
    }
    let (x, index, out) = (at_least_1d(x)?, at_least_1d(index)?, at_least_1d(&outs[0])?);
    let _locks = LockSet::new([(x.storage(), false), (index.storage(), false), (out.storage(), true)])?;
    // SAFETY: sizes were checked, indices are checked by the kernel, and the storages are locked.
    unsafe {
        flambeau_cpu::index::gather(
            index.sizes(),
            d,
            (out.data_ptr(), &byte_strides(out.strides(), out.dtype())),
            (x.data_ptr(), &byte_strides(x.strides(), x.dtype())),
            x.sizes()[d],
            (index.data_ptr(), &byte_strides(index.strides(), index.dtype()), index.dtype()),
            x.element_size(),
            false,
        )
    }
    .map_err(|e| out_of_bounds(e, d))
}

op! {
    /// `out[i][j] = self[index[i][j]][j]` for `dim` 0, and likewise for other dims. The result has the index's sizes.
    gather: "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
        Out OUT: "gather.out(Tensor self, int dim, Tensor index, *, bool sparse_grad=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(gather_plan; x, dim, index, sparse_grad), run: run!(gather_run; x, dim, index, sparse_grad) };
    derivative: backward! {
        self_(g, self_: Geometry, dim: i64, index: Tensor, sparse_grad: Option<bool>) => {
            let zeros = || zeros_to_read(&self_.sizes, g);
            match sparse_grad {
                Some(true) => zeros()?.gather_sparse_backward(dim, &index, g)?,
                _ => zeros()?.scatter_add(dim, &index, g)?,
            }
        }
    };
    samples: |m| vec![
        sample![m.any(&[3, 4]), 0, m.indices(&[2, 4], 3), false],
        sample![m.any(&[3, 4]), -1, m.indices(&[3, 6], 4), false],
    ];
    out_rule: OutRule::EXACT.apart(&[0]);
    fn gather(&self, dim: i64, index: &Tensor) -> Tensor [self, dim, index, false];
}

// ---- scatter ------------------------------------------------------------------------------------

pub(super) fn scatter_check(op: &str, x: &Tensor, dim: i64, index: &Tensor, src: Option<&Tensor>) -> Result<usize> {
    let d = wrap_dim(dim, x.dim())?;
    index_dtype(op, index)?;
    if let Some(src) = src {
        ensure!(src.dtype() == x.dtype(), "{op}(): Expected self.dtype to be equal to src.dtype");
    }
    if index.numel() == 0 {
        return Ok(d);
    }
    ensure!(
        index.dim().max(1) == x.dim().max(1),
        "Index tensor must have the same number of dimensions as self tensor"
    );
    let at = |t: &Tensor, i: usize| t.sizes().get(i).copied().unwrap_or(1);
    if let Some(src) = src {
        ensure!(
            src.dim().max(1) == x.dim().max(1),
            "Index tensor must have the same number of dimensions as src tensor"
        );
    }
    for i in 0..x.dim().max(1) {
        let fits_self = i == d || at(index, i) <= at(x, i);
        let fits_src = src.is_none_or(|s| at(index, i) <= at(s, i));
        ensure!(
            fits_self && fits_src,
            "Expected index {:?} to be no larger than self {:?} apart from dimension {d}{}",
            index.sizes(),
            x.sizes(),
            src.map_or(String::new(), |s| format!(" and to be no larger size than src {:?}", s.sizes()))
        );
    }
    Ok(d)
}

/// What is scattered: elements of a tensor, or one number.
pub(super) enum Source<'a> {
    Tensor(&'a Tensor),
    Value(Scalar),
}

pub(super) fn scatter_into(
    op: &str,
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: Source<'_>,
    reduce: Option<(ReduceOp, bool)>,
) -> Result<Tensor> {
    let src = match source {
        Source::Tensor(t) => t.clone(),
        Source::Value(v) => {
            v.fit(x.dtype())?;
            Tensor::full(&[], v, (x.dtype(), x.device()))?.expand(index.sizes())?
        }
    };
    let d = scatter_check(op, x, dim, index, Some(&src))?;
    check_distinct(x)?;
    if index.numel() == 0 {
        return Ok(x.clone());
    }
    let (src, index) = (apart(x, &at_least_1d(&src)?)?, apart(x, &at_least_1d(index)?)?);
    let dst = at_least_1d(&x.detach_all()?)?;
    let _locks = LockSet::new([(dst.storage(), true), (index.storage(), false), (src.storage(), false)])?;
    let dst_strides = byte_strides(dst.strides(), dst.dtype());
    let src_strides = byte_strides(src.strides(), src.dtype());
    let index_strides = byte_strides(index.strides(), index.dtype());
    let indices = (index.data_ptr() as *const u8, &index_strides[..], index.dtype());
    let source = (src.data_ptr() as *const u8, &src_strides[..]);
    // SAFETY: sizes were checked, indices are checked by the kernel, the storages are locked, and the destination's
    // elements are distinct and apart from the others.
    unsafe {
        flambeau_cpu::index::scatter(
            index.sizes(),
            d,
            (dst.data_ptr(), &dst_strides),
            dst.sizes()[d],
            source,
            indices,
            dst.dtype(),
            reduce,
            false,
        )
    }
    .map_err(|e| out_of_bounds(e, d))?;
    Ok(x.clone())
}

/// A tensor that is written by index must not reach an element twice.
pub(super) fn check_distinct(x: &Tensor) -> Result<()> {
    ensure!(
        !dims::may_overlap(x.sizes(), x.strides()),
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
         Please clone() the tensor before performing the operation."
    );
    Ok(())
}

/// What is read while `x` is written by index: a copy of what may share memory with it, and an error if it surely does.
pub(super) fn apart(x: &Tensor, t: &Tensor) -> Result<Tensor> {
    match overlap(x, t) {
        Overlap::None if t.shares_storage_with(x) => copy_of(t),
        Overlap::None => Ok(t.clone()),
        _ => Err(overlaps()),
    }
}

/// Zeros of the given sizes, and of a gradient's dtype and device, for operators that read them or write to a copy: one
/// zero, expanded.
pub(super) fn zeros_to_read(sizes: &[i64], g: &Tensor) -> Result<Tensor> {
    match sizes.iter().product::<i64>() {
        0 | 1 => Tensor::zeros(sizes, (g.dtype(), g.device())),
        _ => Tensor::zeros(&[], (g.dtype(), g.device()))?.expand(sizes),
    }
}

/// A copy to write into, row-major as PyTorch's results of these operators are.
pub(super) fn copy_of(x: &Tensor) -> Result<Tensor> {
    x.clone_in(crate::MemoryFormat::Contiguous)
}

fn scatter_inplace(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_into("scatter", x, dim, index, Source::Tensor(src), None)
}
fn scatter_any(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_check("scatter", x, dim, index, Some(src))?;
    copy_of(x)?.scatter_(dim, index, src)
}

op! {
    /// A copy with `out[index[i][j]][j] = src[i][j]` for `dim` 0, and likewise for other dims. Of several writes to one
    /// element the last in row-major order stays.
    scatter: "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        Out OUT: "scatter.src_out(Tensor self, int dim, Tensor index, Tensor src, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(scatter_any; x, dim, index, src));
    derivative: backward! {
        self_(g, dim: i64, index: Tensor) => g.scatter_value(dim, &index, 0)?,
        src(g, dim: i64, index: Tensor, src: Geometry) => gathered(g, dim, &index, &src)?,
    };
    forward: Forward::FromBackward;
    samples: |m| vec![sample![m.any(&[3, 4]), 0, Tensor::from_slice(&[2i64, 0, 1, 1]).and_then(|t| t.view(&[1, 4])).unwrap_or_else(|e| unreachable!("{e}")), m.any(&[2, 4])]];
    out_rule: OutRule::EXACT.apart(&[2, 3]);
    fn scatter(&self, dim: i64, index: &Tensor, src: &Tensor) -> Tensor [self, dim, index, src];
}
op! {
    /// Writes `self[index[i][j]][j] = src[i][j]` for `dim` 0, and likewise for other dims.
    scatter_: "scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)";
    Body::InPlace(kernel!(scatter_inplace; x, dim, index, src), &scatter::OP);
    fn scatter_(&self, dim: i64, index: &Tensor, src: &Tensor) -> Tensor [self, dim, index, src];
}

/// The gradient of a scattered source: what `gather` reads, and zero where the index does not reach.
fn gathered(g: &Tensor, dim: i64, index: &Tensor, src: &Geometry) -> Result<Tensor> {
    let read = g.gather(dim, index)?;
    if index.sizes() == &src.sizes[..] {
        return Ok(read);
    }
    let mut pad = Dims::new();
    for d in (0..src.dim()).rev() {
        pad.extend([0, src.sizes[d] - index.sizes()[d]]);
    }
    read.constant_pad_nd(&pad, 0)
}

fn scatter_value_inplace(x: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    scatter_into("scatter", x, dim, index, Source::Value(value), None)
}
fn scatter_value_any(x: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    scatter_check("scatter", x, dim, index, None)?;
    copy_of(x)?.scatter_value_(dim, index, value)
}

op! {
    /// A copy with `out[index[i][j]][j] = value` for `dim` 0, and likewise for other dims.
    scatter_value: "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        Out OUT: "scatter.value_out(Tensor self, int dim, Tensor index, Scalar value, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(scatter_value_any; x, dim, index, value));
    derivative: backward! { self_(g, dim: i64, index: Tensor) => g.scatter_value(dim, &index, 0)? };
    samples: |m| vec![sample![m.any(&[3, 4]), 0, m.indices(&[2, 4], 3), Scalar::Int(1)]];
    out_rule: OutRule::EXACT.apart(&[2]);
    fn scatter_value(&self, dim: i64, index: &Tensor, value: impl Into<Scalar>) -> Tensor [self, dim, index, value.into()];
}
op! {
    /// Writes `self[index[i][j]][j] = value` for `dim` 0, and likewise for other dims.
    scatter_value_: "scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)";
    Body::InPlace(kernel!(scatter_value_inplace; x, dim, index, value), &scatter_value::OP);
    fn scatter_value_(&self, dim: i64, index: &Tensor, value: impl Into<Scalar>) -> Tensor [self, dim, index, value.into()];
}

fn scatter_add_inplace(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_into("scatter", x, dim, index, Source::Tensor(src), Some((ReduceOp::Sum, true)))
}
fn scatter_add_any(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_check("scatter", x, dim, index, Some(src))?;
    copy_of(x)?.scatter_add_(dim, index, src)
}

op! {
    /// A copy with `src[i][j]` added to `out[index[i][j]][j]` for `dim` 0, and likewise for other dims; in row-major
    /// order, so that results do not depend on the number of threads.
    scatter_add: "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        Out OUT: "scatter_add.out(Tensor self, int dim, Tensor index, Tensor src, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(scatter_add_any; x, dim, index, src));
    derivative: backward! {
        self_(g) => g.clone(),
        src(g, dim: i64, index: Tensor, src: Geometry) => gathered(g, dim, &index, &src)?,
    };
    samples: |m| vec![sample![m.any(&[3, 4]), 0, m.indices(&[2, 4], 3), m.any(&[2, 4])], sample![m.any(&[3]), 0, m.indices(&[5], 3), m.any(&[5])]];
    out_rule: OutRule::EXACT.apart(&[2, 3]);
    fn scatter_add(&self, dim: i64, index: &Tensor, src: &Tensor) -> Tensor [self, dim, index, src];
}
op! {
    /// Adds `src[i][j]` to `self[index[i][j]][j]` for `dim` 0, and likewise for other dims.
    scatter_add_: "scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)";
    Body::InPlace(kernel!(scatter_add_inplace; x, dim, index, src), &scatter_add::OP);
    fn scatter_add_(&self, dim: i64, index: &Tensor, src: &Tensor) -> Tensor [self, dim, index, src];
}

fn reduce_of(reduce: &str) -> Result<Option<(ReduceOp, bool)>> {
    match reduce {
        "add" => Ok(Some((ReduceOp::Sum, true))),
        "multiply" => Ok(Some((ReduceOp::Prod, true))),
        _ => Err(Error::runtime("reduce argument must be either add or multiply.")),
    }
}

fn scatter_reducing_inplace(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<Tensor> {
    scatter_into("scatter", x, dim, index, Source::Tensor(src), reduce_of(reduce)?)
}
fn scatter_reducing_any(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<Tensor> {
    scatter_check("scatter", x, dim, index, Some(src))?;
    reduce_of(reduce)?;
    let copy = copy_of(x)?;
    let args = [(&copy).into(), dim.into(), index.into(), src.into(), reduce.into()];
    scatter_reducing_::OP.call(&args)?.one()
}

op! {
    /// A copy with `src[i][j]` combined by `reduce` (`add` or `multiply`) with `out[index[i][j]][j]` for `dim` 0, and
    /// likewise for other dims.
    scatter_reducing: "scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
        Out OUT: "scatter.reduce_out(Tensor self, int dim, Tensor index, Tensor src, *, str reduce, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(scatter_reducing_any; x, dim, index, src, reduce));
    derivative: crate::autograd::Derivative::NotImplemented("Use scatter_add.");
    samples: |m| ["add", "multiply"].map(|how| sample![m.any(&[3, 4]), 0, m.indices(&[2, 4], 3), m.any(&[2, 4]), how]).to_vec();
    out_rule: OutRule::EXACT.apart(&[2, 3]);
}
op! {
    /// Combines `src[i][j]` by `reduce` (`add` or `multiply`) with `self[index[i][j]][j]` for `dim` 0, and likewise for
    /// other dims.
    scatter_reducing_: "scatter_.reduce(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor(a!)";
    Body::InPlace(kernel!(scatter_reducing_inplace; x, dim, index, src, reduce), &scatter_reducing::OP);
}

fn scatter_value_reducing_inplace(x: &Tensor, dim: i64, index: &Tensor, value: Scalar, reduce: &str) -> Result<Tensor> {
    scatter_into("scatter", x, dim, index, Source::Value(value), reduce_of(reduce)?)
}
fn scatter_value_reducing_any(x: &Tensor, dim: i64, index: &Tensor, value: Scalar, reduce: &str) -> Result<Tensor> {
    scatter_check("scatter", x, dim, index, None)?;
    reduce_of(reduce)?;
    let copy = copy_of(x)?;
    let args = [(&copy).into(), dim.into(), index.into(), value.into(), reduce.into()];
    scatter_value_reducing_::OP.call(&args)?.one()
}

op! {
    /// A copy with `value` combined by `reduce` (`add` or `multiply`) with `out[index[i][j]][j]` for `dim` 0, and likewise
    /// for other dims.
    scatter_value_reducing: "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
        Out OUT: "scatter.value_reduce_out(Tensor self, int dim, Tensor index, Scalar value, *, str reduce, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(scatter_value_reducing_any; x, dim, index, value, reduce));
    derivative: crate::autograd::Derivative::NotImplemented("Use scatter_add.");
    samples: |m| ["add", "multiply"].map(|how| sample![m.any(&[3, 4]), -1, m.indices(&[3, 2], 4), Scalar::Int(2), how]).to_vec();
    out_rule: OutRule::EXACT.apart(&[2]);
}
op! {
    /// Combines `value` by `reduce` (`add` or `multiply`) with `self[index[i][j]][j]` for `dim` 0, and likewise for other
    /// dims.
    scatter_value_reducing_: "scatter_.value_reduce(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor(a!)";
    Body::InPlace(kernel!(scatter_value_reducing_inplace; x, dim, index, value, reduce), &scatter_value_reducing::OP);
}

// ---- one index vector ---------------------------------------------------------------------------

fn vector_index(op: &str, index: &Tensor) -> Result<Tensor> {
    if index.dim() > 1 {
        return Err(Error::index(format!("{op}(): Index is supposed to be a vector")));
    }
    ensure!(matches!(index.dtype(), DType::I64 | DType::I32), "{op}(): Expected dtype int32 or int64 for index");
    at_least_1d(index)
}

fn index_select_plan(x: &Tensor, dim: i64, index: &Tensor) -> Result<TensorSpec> {
    let d = wrap_dim(dim, x.dim())?;
    let index = vector_index("index_select", index)?;
    let mut sizes = Dims::from_slice(x.sizes());
    match x.dim() {
        0 => ensure!(
            index.numel() == 1,
            "index_select(): Index to scalar can have only 1 value, got {} value(s)",
            index.numel()
        ),
        _ => {
            ensure!(sizes[d] > 0 || index.numel() == 0, "index_select(): self indexing axis dim should be positive");
            sizes[d] = index.numel();
        }
    }
    Ok(TensorSpec::like(sizes, x))
}

fn index_select_writes(result: DType, out: DType) -> Result<()> {
    ensure!(result == out, "index_select(): self and result must have the same scalar type");
    Ok(())
}

fn index_select_run(x: &Tensor, dim: i64, index: &Tensor, outs: &[Tensor]) -> Result<()> {
    let d = wrap_dim(dim, x.dim())?;
    let (x, index, out) = (at_least_1d(x)?, at_least_1d(index)?, at_least_1d(&outs[0])?);
    let _locks = LockSet::new([(x.storage(), false), (index.storage(), false), (out.storage(), true)])?;
    // SAFETY: the output has the planned sizes, indices are checked by the kernel, the storages are locked.
    unsafe {
        flambeau_cpu::index::index_select(
            out.sizes(),
            d,
            (out.data_ptr(), &byte_strides(out.strides(), out.dtype())),
            (x.data_ptr(), &byte_strides(x.strides(), x.dtype())),
            x.sizes()[d],
            (index.data_ptr(), index.strides()[0] as isize * index.element_size() as isize, index.dtype()),
            x.element_size(),
            false,
        )
    }
    .map_err(|_| Error::index("index out of range in self"))
}

op! {
    /// The parts along `dim` that a vector of indices names.
    index_select: "index_select(Tensor self, int dim, Tensor index) -> Tensor",
        Out OUT: "index_select.out(Tensor self, int dim, Tensor index, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(index_select_plan; x, dim, index), run: run!(index_select_run; x, dim, index) };
    derivative: backward! {
        self_(g, self_: Geometry, dim: i64, index: Tensor) =>
            zeros_to_read(&self_.sizes, g)?.index_add(dim, &index, g)?
    };
    samples: |m| vec![sample![m.any(&[3, 4]), 0, m.indices(&[5], 3)], sample![m.any(&[3, 4]), -1, m.indices(&[2], 4)]];
    out_rule: OutRule::dtype(index_select_writes).apart(&[0]);
    fn index_select(&self, dim: i64, index: &Tensor) -> Tensor [self, dim, index];
}

/// The parts of `source` that are written to parts of `x`, with the dim and a vector of indices.
type Parts = (usize, Tensor, Tensor);

fn index_add_parts(x: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Parts> {
    let d = wrap_dim(dim, x.dim())?;
    let index_error = |m: String| Err(Error::index(m));
    if index.dim() > 1 {
        return index_error(format!(
            "index_add_(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {:?}",
            index.dim(),
            index.dtype().scalar_type_name(),
            index.sizes()
        ));
    }
    ensure!(
        matches!(index.dtype(), DType::I64 | DType::I32),
        "index_add_(): Expected dtype int32/int64 for index but got: {}",
        index.dtype().scalar_type_name()
    );
    ensure!(
        source.dtype() == x.dtype(),
        "index_add_(): self ({}) and source ({}) must have the same scalar type",
        x.dtype().scalar_type_name(),
        source.dtype().scalar_type_name()
    );
    if d > 0 && d >= source.dim() {
        return index_error(format!(
            "index_add_(): Indexing dim {d} is out of bounds of the source tensor with dim {}",
            source.dim()
        ));
    }
    let n = index.numel();
    if source.dim() == 0 && n != 1 {
        return index_error(format!("Dimension specified as {d} but tensor has no dimensions"));
    }
    ensure!(
        source.dim() == 0 || source.sizes()[d] == n,
        "index_add_(): Number of indices ({n}) should be equal to source.size(dim): ({}), for dim: {d}",
        source.sizes()[d]
    );
    let others = |t: &Tensor| -> Dims {
        let gone = if x.dim() > 0 && source.dim() > 0 { d } else { usize::MAX };
        t.sizes().iter().enumerate().filter(|(i, _)| *i != gone).map(|(_, s)| *s).collect()
    };
    ensure!(
        others(x) == others(source),
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {:?} \
         source.shape = {:?}",
        x.sizes(),
        source.sizes()
    );
    Ok((d, at_least_1d(index)?, at_least_1d(source)?))
}

fn index_copy_parts(x: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Parts> {
    let d = wrap_dim(dim, x.dim())?;
    let index_error = |m: String| Err(Error::index(format!("index_copy_(): {m}")));
    if index.dim() > 1 {
        return index_error(format!("Index should have dimension 1 or 0 (got {})", index.dim()));
    }
    let n = index.numel();
    if source.dim() == 0 && n != 1 {
        return index_error(format!("When source is scalar, index should have one element (got {n})"));
    }
    if source.dim() != x.dim() && source.dim() > 0 && x.dim() > 0 {
        return index_error(format!(
            "When source and destination are not scalars, their dimensionality must match. Source dimensionality ({}), \
             destination dimensionality ({})",
            source.dim(),
            x.dim()
        ));
    }
    ensure!(
        index.dtype() == DType::I64,
        "index_copy_(): Expected a long tensor for index, but got {}",
        index.dtype().scalar_type_name()
    );
    ensure!(
        source.dtype() == x.dtype(),
        "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
        x.dtype().scalar_type_name(),
        source.dtype().scalar_type_name()
    );
    let slice = |t: &Tensor| -> Vec<String> {
        t.sizes().iter().enumerate().filter(|(i, _)| *i != d).map(|(_, s)| s.to_string()).collect()
    };
    let (to, from) = (slice(x), slice(source));
    ensure!(
        to == from,
        "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {} at dimension \
         {d} and source slice shape: {} at dimension 0.",
        to.join(", "),
        from.join(", ")
    );
    if source.dim() > 0 && source.sizes()[d] != n {
        return index_error(format!(
            "Number of indices ({n}) should be equal to source.size(dim) ({})",
            source.sizes()[d]
        ));
    }
    Ok((d, at_least_1d(index)?, at_least_1d(source)?))
}

fn index_write(x: &Tensor, (d, index, source): Parts, add: bool) -> Result<Tensor> {
    check_distinct(x)?;
    if index.numel() == 0 || source.numel() == 0 {
        return Ok(x.clone());
    }
    let (index, source) = (apart(x, &index)?, apart(x, &source)?);
    let dst = at_least_1d(&x.detach_all()?)?;
    let _locks = LockSet::new([(dst.storage(), true), (index.storage(), false), (source.storage(), false)])?;
    let dst_strides = byte_strides(dst.strides(), dst.dtype());
    let source_strides = byte_strides(source.strides(), source.dtype());
    let indices =
        (index.data_ptr() as *const u8, index.strides()[0] as isize * index.element_size() as isize, index.dtype());
    let from = (source.data_ptr() as *const u8, &source_strides[..]);
    let to = (dst.data_ptr(), &dst_strides[..]);
    // SAFETY: as in `scatter_into`.
    unsafe {
        flambeau_cpu::index::index_copy(source.sizes(), d, to, dst.sizes()[d], from, indices, dst.dtype(), add, false)
    }
    .map_err(|e| match add {
        true => out_of_bounds(e, d),
        false => Error::index(format!("index_copy_(): {}", out_of_bounds(e, d).message())),
    })?;
    Ok(x.clone())
}

fn index_add_inplace(x: &Tensor, dim: i64, index: &Tensor, source: &Tensor, alpha: Option<Scalar>) -> Result<Tensor> {
    let (d, index, source) = index_add_parts(x, dim, index, source)?;
    let source = match alpha {
        None | Some(Scalar::Int(1)) => source,
        Some(a) => source.mul(a.fit(x.dtype())?)?.to_dtype(source.dtype())?,
    };
    index_write(x, (d, index, source), true)
}
fn index_add_any(x: &Tensor, dim: i64, index: &Tensor, source: &Tensor, alpha: Option<Scalar>) -> Result<Tensor> {
    index_add_parts(x, dim, index, source)?;
    index_add_::OP.call(&[(&copy_of(x)?).into(), dim.into(), index.into(), source.into(), alpha.into()])?.one()
}

op! {
    /// A copy with `alpha * source` added, part by part, to the parts along `dim` that a vector of indices names.
    index_add: "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
        Out OUT: "index_add.out(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(index_add_any; x, dim, index, source, alpha));
    derivative: backward! {
        self_(g) => g.clone(),
        source(g, dim: i64, index: Tensor, source: Geometry, alpha: Option<Scalar>) => {
            let g = g.index_select(dim, &index)?.reshape(&source.sizes)?;
            match alpha { None | Some(Scalar::Int(1)) => g, Some(a) => g.mul(a.conj())? }
        },
    };
    samples: |m| vec![sample![m.any(&[3, 4]), 0, m.indices(&[5], 3), m.any(&[5, 4]), Scalar::Int(2)]];
    out_rule: OutRule::EXACT.apart(&[2, 3]);
    fn index_add(&self, dim: i64, index: &Tensor, source: &Tensor) -> Tensor [self, dim, index, source];
}
op! {
    /// Adds `alpha * source`, part by part, to the parts along `dim` that a vector of indices names.
    index_add_: "index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor(a!)";
    Body::InPlace(kernel!(index_add_inplace; x, dim, index, source, alpha), &index_add::OP);
    fn index_add_(&self, dim: i64, index: &Tensor, source: &Tensor) -> Tensor [self, dim, index, source];
}

fn index_copy_inplace(x: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    index_write(x, index_copy_parts(x, dim, index, source)?, false)
}
fn index_copy_any(x: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    index_copy_parts(x, dim, index, source)?;
    copy_of(x)?.index_copy_(dim, index, source)
}

op! {
    /// A copy with the parts along `dim` that a vector of indices names replaced by those of `source`.
    index_copy: "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
        Out OUT: "index_copy.out(Tensor self, int dim, Tensor index, Tensor source, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(index_copy_any; x, dim, index, source));
    derivative: backward! {
        self_(g, dim: i64, index: Tensor, source: Geometry) => g.index_copy(dim, &index, &zeros_to_read(&source.sizes, g)?)?,
        source(g, dim: i64, index: Tensor, source: Geometry) => g.index_select(dim, &index)?.reshape(&source.sizes)?,
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 4]), 0, Tensor::from_slice(&[2i64, 0]).unwrap_or_else(|e| unreachable!("{e}")), m.any(&[2, 4])]];
    out_rule: OutRule::EXACT.apart(&[2, 3]);
    fn index_copy(&self, dim: i64, index: &Tensor, source: &Tensor) -> Tensor [self, dim, index, source];
}
op! {
    /// Replaces the parts along `dim` that a vector of indices names by those of `source`.
    index_copy_: "index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> Tensor(a!)";
    Body::InPlace(kernel!(index_copy_inplace; x, dim, index, source), &index_copy::OP);
    fn index_copy_(&self, dim: i64, index: &Tensor, source: &Tensor) -> Tensor [self, dim, index, source];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    gather::ALL,
    index_add::ALL,
    index_add_::ALL,
    index_copy::ALL,
    index_copy_::ALL,
    index_select::ALL,
    scatter::ALL,
    scatter_::ALL,
    scatter_add::ALL,
    scatter_add_::ALL,
    scatter_reducing::ALL,
    scatter_reducing_::ALL,
    scatter_value::ALL,
    scatter_value_::ALL,
    scatter_value_reducing::ALL,
    scatter_value_reducing_::ALL,
];
