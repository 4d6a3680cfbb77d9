//! Reductions: sums, means, products, truth, norms.

use super::copy::byte_strides;
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims, wrap_dims};
use crate::{Body, DType, Error, Op, OutRule, Result, Scalar, Tensor, TensorSpec, backward, default_dtype, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::reduce::{KeptDim, Operand, ReduceShape, ReducedDim, Reduction};
use smallvec::SmallVec;

/// The dims to reduce; none or an empty list means all.
pub(super) fn reduced_dims(x: &Tensor, dim: Option<&[i64]>) -> Result<SmallVec<[usize; 5]>> {
    wrap_dims(dim.unwrap_or(&[]), x.dim())
}

/// The sizes of a reduction's result.
pub(super) fn reduced_sizes(sizes: &[i64], reduced: &[usize], keepdim: bool) -> Dims {
    let mut out = Dims::new();
    for (d, &s) in sizes.iter().enumerate() {
        match (reduced.contains(&d), keepdim) {
            (false, _) => out.push(s),
            (true, true) => out.push(1),
            (true, false) => {}
        }
    }
    out
}

/// Runs a reduction of `x` over `reduced` into `outs`, which have the result's sizes (with or without the reduced dims).
pub(super) fn run_reduction(op: Reduction, x: &Tensor, reduced: &[usize], outs: &[Tensor]) -> Result<()> {
    let strides = byte_strides(x.strides(), x.dtype());
    let keepdim = outs[0].dim() == x.dim();
    let out_strides: SmallVec<[SmallVec<[isize; 5]>; 2]> =
        outs.iter().map(|o| byte_strides(o.strides(), o.dtype())).collect();
    let mut kept: SmallVec<[KeptDim; 5]> = SmallVec::new();
    let mut gone: SmallVec<[ReducedDim; 5]> = SmallVec::new();
    for (d, &stride) in strides.iter().enumerate() {
        let size = x.sizes()[d] as usize;
        if reduced.contains(&d) {
            gone.push(ReducedDim { size, stride });
            continue;
        }
        let at = if keepdim { d } else { kept.len() };
        let out = |k: usize| out_strides.get(k).map_or(0, |s| s[at]);
        kept.push(KeptDim { size, stride, out_strides: [out(0), out(1)] });
    }
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let _locks = LockSet::new(outs.iter().map(|o| (o.storage(), true)).chain([(x.storage(), false)]))?;
    let operands: SmallVec<[Operand; 2]> =
        outs.iter().map(|o| Operand { data: o.data_ptr(), dtype: o.dtype() }).collect();
    let shape = ReduceShape { kept: &kept, reduced: &gone };
    // SAFETY: the geometry fits the storages, which are locked; the outputs are apart from the input.
    unsafe { flambeau_cpu::reduce::reduce(op, shape, Operand { data: x.data_ptr(), dtype: x.dtype() }, &operands) };
    Ok(())
}

/// A gradient of a reduced result, given its dims back so that it broadcasts over the input.
pub(super) fn spread(g: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    if keepdim || sizes.is_empty() {
        return Ok(g.clone());
    }
    let mut shape = Dims::from_slice(sizes);
    for d in wrap_dims(dim.unwrap_or(&[]), sizes.len())? {
        shape[d] = 1;
    }
    g.reshape(&shape)
}

/// The number of elements reduced to one.
pub(super) fn count(sizes: &[i64], dim: Option<&[i64]>) -> Result<i64> {
    Ok(wrap_dims(dim.unwrap_or(&[]), sizes.len())?.iter().map(|&d| sizes[d]).product())
}

pub(super) fn not_for(op: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{op}\" not implemented for '{}'", dtype.scalar_type_name()))
}

// ---- sum ----------------------------------------------------------------------------------------

/// Integers add up in 64 bits.
fn sum_dtype(x: &Tensor, dtype: Option<DType>) -> DType {
    dtype.unwrap_or(if x.dtype().is_integral(true) { DType::I64 } else { x.dtype() })
}

fn sum_plan(x: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<TensorSpec> {
    let reduced = reduced_dims(x, dim)?;
    Ok(TensorSpec::new(reduced_sizes(x.sizes(), &reduced, keepdim), sum_dtype(x, dtype), x.device()))
}

fn sum_run(x: &Tensor, dim: Option<&[i64]>, _keepdim: bool, _dtype: Option<DType>, outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::Sum, x, &reduced_dims(x, dim)?, outs)
}

op! {
    /// The sum over the given dims (all without any). Integers add up in 64 bits unless `dtype` says otherwise.
    sum_dim: "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "sum.IntList_out(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(sum_plan; x, dim, keepdim, dtype), run: run!(sum_run; x, dim, keepdim, dtype) };
    derivative: backward! {
        self_(g, self_: Geometry, dim: Option<Dims>, keepdim: bool) =>
            spread(g, &self_.sizes, dim.as_deref(), keepdim)?.expand(&self_.sizes)?
    };
    forward: Forward::Linear;
    samples: |m| vec![
        sample![m.any(&[3, 4]), vec![0i64], false, ()],
        sample![m.any(&[2, 3, 4]), vec![-1i64, 0], true, ()],
        sample![m.any(&[3, 0]), vec![1i64], false, ()],
        sample![m.any(&[]), vec![0i64], false, ()],
    ];
    ulp: 16.0;
    out_rule: OutRule::EXACT.computing_in(3);
    fn sum_dim(&self, dim: &[i64], keepdim: bool) -> Tensor [self, dim, keepdim];
    fn sum_dim_dtype(&self, dim: &[i64], keepdim: bool, dtype: DType) -> Tensor [self, dim, keepdim, dtype];
}

fn sum_all_plan(x: &Tensor, dtype: Option<DType>) -> Result<TensorSpec> {
    sum_plan(x, None, false, dtype)
}
fn sum_all_run(x: &Tensor, dtype: Option<DType>, outs: &[Tensor]) -> Result<()> {
    sum_run(x, None, false, dtype, outs)
}

op! {
    /// The sum of all elements. Integers add up in 64 bits unless `dtype` says otherwise.
    sum: "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "sum.out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(sum_all_plan; x, dtype), run: run!(sum_all_run; x, dtype) };
    derivative: backward! { self_(g, self_: Geometry) => g.expand(&self_.sizes)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 4]), ()], sample![m.any(&[0]), ()], sample![m.any(&[]), ()]];
    ulp: 16.0;
    fn sum(&self) -> Tensor [self];
}

fn sum_to_size_any(x: &Tensor, size: &[i64]) -> Result<Tensor> {
    ensure!(
        dims::is_expandable_to(size, x.sizes()),
        "size {{{size:?}}} is not expandable to size {{{:?}}}.",
        x.sizes()
    );
    // The sum over no dims is that of all: PyTorch's choice for a tensor without dims.
    if size.is_empty() {
        return x.sum();
    }
    let lead = x.dim() - size.len();
    let over: Dims =
        (0..x.dim()).filter(|&d| d < lead || (size[d - lead] == 1 && x.sizes()[d] != 1)).map(|d| d as i64).collect();
    let summed = if over.is_empty() { x.clone() } else { x.sum_dim(&over, true)? };
    if lead > 0 { summed.view(size) } else { Ok(summed) }
}

op! {
    /// The sum over the dims along which a tensor of `size` was broadcast to this shape.
    sum_to_size: "sum_to_size(Tensor self, SymInt[] size) -> Tensor";
    Body::Composite(kernel!(sum_to_size_any; x, size));
    samples: |m| vec![sample![m.any(&[2, 3, 4]), vec![3i64, 1]]];
    fn sum_to_size(&self, size: &[i64]) -> Tensor [self, size];
}

fn nansum_plan(x: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<TensorSpec> {
    ensure!(!x.dtype().is_complex(), "nansum on CPU does not support complex inputs");
    sum_plan(x, dim, keepdim, dtype)
}
fn nansum_run(x: &Tensor, dim: Option<&[i64]>, _keepdim: bool, _dtype: Option<DType>, outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::NanSum, x, &reduced_dims(x, dim)?, outs)
}

/// Sums of integers are the plain sums, with words of their own.
fn nansum_writes(write: &crate::out::Write<'_, '_>) -> Result<()> {
    let reals = write.input_dtype(0).is_some_and(|x| !x.is_integral(true));
    let named = !matches!(write.inputs.get(3), None | Some(crate::Value::None));
    if reals && !named && !write.out.is_floating_point() {
        return Err(not_for("nansum_cpu", write.out));
    }
    ensure!(
        write.result == write.out || !reals,
        "nansum: provided dtype must match dtype of result. Got {} and {}.",
        write.out.scalar_type_name(),
        write.result.scalar_type_name()
    );
    crate::out::exact(write.result, write.out)
}

op! {
    /// The sum over the given dims (all without any), NaN counting as zero.
    nansum: "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "nansum.out(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(nansum_plan; x, dim, keepdim, dtype), run: run!(nansum_run; x, dim, keepdim, dtype) };
    derivative: backward! {
        self_(g, self_: Tensor, dim: Option<Dims>, keepdim: bool) =>
            spread(g, self_.sizes(), dim.as_deref(), keepdim)?.mul(&self_.isnan()?.logical_not()?)?
    };
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![m.any(&[3, 4]), vec![0i64], false, ()]] };
    ulp: 16.0;
    out_rule: crate::OutRule::call(nansum_writes).computing_in(3);
    fn nansum(&self, dim: &[i64], keepdim: bool) -> Tensor [self, dim, keepdim];
}

// ---- mean ---------------------------------------------------------------------------------------

fn mean_plan(x: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<TensorSpec> {
    let out = dtype.unwrap_or(x.dtype());
    ensure!(
        out.is_differentiable(),
        "mean(): {} dtype. Got: {}{}",
        if dtype.is_some() {
            "could not infer output dtype. Optional dtype must be either a floating point or complex"
        } else {
            "could not infer output dtype. Input dtype must be either a floating point or complex"
        },
        out.scalar_type_name(),
        ""
    );
    Ok(sum_plan(x, dim, keepdim, dtype)?.dtype(out))
}
fn mean_run(x: &Tensor, dim: Option<&[i64]>, _keepdim: bool, _dtype: Option<DType>, outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::Mean, x, &reduced_dims(x, dim)?, outs)
}

/// As in PyTorch a complex mean may be written to a real tensor, which loses the imaginary part.
fn mean_writes(write: &crate::out::Write<'_, '_>) -> Result<()> {
    match write.inputs.get(3) {
        None | Some(crate::Value::None) if write.result.is_complex() && write.out.is_floating_point() => Ok(()),
        None | Some(crate::Value::None) => crate::out::castable(write.result, write.out),
        Some(_) => crate::out::exact(write.result, write.out),
    }
}
fn mean_all_writes(write: &crate::out::Write<'_, '_>) -> Result<()> {
    if !matches!(write.inputs.get(1), None | Some(crate::Value::None)) {
        return crate::out::exact(write.result, write.out);
    }
    ensure!(
        write.result.can_cast(write.out),
        "mean.dtype_out(): input types can't be cast to the desired output type {}",
        write.out.scalar_type_name()
    );
    Ok(())
}

op! {
    /// The mean over the given dims (all without any), of floating-point or complex elements.
    mean_dim: "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "mean.out(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(mean_plan; x, dim, keepdim, dtype), run: run!(mean_run; x, dim, keepdim, dtype) };
    derivative: backward! {
        self_(g, self_: Geometry, dim: Option<Dims>, keepdim: bool) => {
            let n = count(&self_.sizes, dim.as_deref())?;
            spread(g, &self_.sizes, dim.as_deref(), keepdim)?.expand(&self_.sizes)?.div(n)?
        }
    };
    forward: Forward::Linear;
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.any(&[3, 4]), vec![0i64], false, ()], sample![m.any(&[2, 3, 4]), vec![-1i64, 0], true, ()]],
        false => vec![],
    };
    ulp: 16.0;
    out_rule: crate::OutRule::call(mean_writes);
    fn mean_dim(&self, dim: &[i64], keepdim: bool) -> Tensor [self, dim, keepdim];
}

fn mean_all_plan(x: &Tensor, dtype: Option<DType>) -> Result<TensorSpec> {
    mean_plan(x, None, false, dtype)
}
fn mean_all_run(x: &Tensor, dtype: Option<DType>, outs: &[Tensor]) -> Result<()> {
    mean_run(x, None, false, dtype, outs)
}

op! {
    /// The mean of all elements, floating-point or complex.
    mean: "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "mean.dtype_out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(mean_all_plan; x, dtype), run: run!(mean_all_run; x, dtype) };
    derivative: backward! { self_(g, self_: Geometry) => g.expand(&self_.sizes)?.div(self_.numel())? };
    forward: Forward::Linear;
    samples: |m| if m.dtype.is_differentiable() { vec![sample![m.any(&[3, 4]), ()], sample![m.any(&[]), ()]] } else { vec![] };
    ulp: 16.0;
    out_rule: OutRule::call(mean_all_writes);
    fn mean(&self) -> Tensor [self];
}

// ---- product ------------------------------------------------------------------------------------

fn prod_plan(x: &Tensor, dim: i64, keepdim: bool, dtype: Option<DType>) -> Result<TensorSpec> {
    sum_plan(x, Some(&[dim]), keepdim, dtype)
}
fn prod_run(x: &Tensor, dim: i64, _keepdim: bool, _dtype: Option<DType>, outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::Product, x, &reduced_dims(x, Some(&[dim]))?, outs)
}

op! {
    /// The product over a dim. Integers multiply in 64 bits unless `dtype` says otherwise.
    prod_dim: "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "prod.int_out(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(prod_plan; x, dim, keepdim, dtype), run: run!(prod_run; x, dim, keepdim, dtype) };
    derivative: backward! {
        self_(g, self_: Tensor, dim: i64, keepdim: bool, result: Tensor) => {
            let kept = |t: &Tensor| if keepdim || self_.dim() == 0 { Ok(t.clone()) } else { t.unsqueeze(dim) };
            prod_backward(&kept(g)?, &self_, dim, &kept(&result)?)?
        }
    };
    samples: |m| vec![sample![m.any(&[3, 4]), 1, false, ()], sample![m.any(&[2, 3]), 0, true, ()]];
    ulp: 16.0;
    out_rule: OutRule::EXACT.computing_in(3);
    fn prod_dim(&self, dim: i64, keepdim: bool) -> Tensor [self, dim, keepdim];
}

/// `g` times the product of all other elements along `dim`: a quotient if that is exact enough; else running products from
/// both sides, right also where there are zeros.
fn prod_backward(g: &Tensor, x: &Tensor, dim: i64, product: &Tensor) -> Result<Tensor> {
    if x.dim() == 0 {
        return Ok(g.clone());
    }
    if !g.device().is_meta() && are_ordinary(product)? {
        return g.mul(&product.div(x)?.conj()?);
    }
    let n = x.size(dim)?;
    if n == 0 {
        return x.zeros_like();
    }
    let first = x.narrow(dim, 0, 1)?.ones_like()?;
    let before = Tensor::cat(&[first.clone(), x.narrow(dim, 0, n - 1)?], dim)?.cumprod(dim)?;
    let flipped = x.flip(&[dim])?;
    let after = Tensor::cat(&[first, flipped.narrow(dim, 0, n - 1)?], dim)?.cumprod(dim)?.flip(&[dim])?;
    g.mul(&before.mul(&after)?.conj()?)
}

/// Whether all products are normal numbers, so that no factor was zero. (What was lost on the way to one is lost in its
/// gradients too, as in PyTorch.)
fn are_ordinary(products: &Tensor) -> Result<bool> {
    let (least, largest) = match products.dtype().to_real() {
        DType::F16 => (f64::from(crate::f16::MIN_POSITIVE), f64::from(crate::f16::MAX)),
        DType::F64 => (f64::MIN_POSITIVE, f64::MAX),
        _ => (f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)),
    };
    let size = products.detach()?.abs()?;
    size.ge(least)?.logical_and(&size.le(largest)?)?.all()?.item().map(Scalar::to_bool)
}

fn prod_all_plan(x: &Tensor, dtype: Option<DType>) -> Result<TensorSpec> {
    sum_plan(x, None, false, dtype)
}
fn prod_all_run(x: &Tensor, _dtype: Option<DType>, outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::Product, x, &reduced_dims(x, None)?, outs)
}

op! {
    /// The product of all elements. Integers multiply in 64 bits unless `dtype` says otherwise.
    prod: "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "prod.out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(prod_all_plan; x, dtype), run: run!(prod_all_run; x, dtype) };
    derivative: backward! {
        self_(g, self_: Tensor, result: Tensor) => {
            prod_backward(&g.reshape(&[1])?, &self_.reshape(&[-1])?, 0, &result.reshape(&[1])?)?.reshape(self_.sizes())?
        }
    };
    samples: |m| vec![sample![m.any(&[3, 2]), ()], sample![m.any(&[]), ()]];
    ulp: 16.0;
    fn prod(&self) -> Tensor [self];
}

// ---- truth --------------------------------------------------------------------------------------

/// `uint8` keeps its dtype, as in PyTorch.
fn truth_plan(x: &Tensor, dim: Option<&[i64]>, keepdim: bool) -> Result<TensorSpec> {
    let reduced = reduced_dims(x, dim)?;
    let dtype = if x.dtype() == DType::U8 { DType::U8 } else { DType::Bool };
    Ok(TensorSpec::new(reduced_sizes(x.sizes(), &reduced, keepdim), dtype, x.device()))
}

fn truth_writes(op: &str, out: DType) -> Result<()> {
    ensure!(
        matches!(out, DType::Bool | DType::U8),
        "{op} only supports bool tensor for result, got: {}",
        out.scalar_type_name()
    );
    Ok(())
}

macro_rules! truth {
    ($reduction:ident; $(#[doc = $doc:expr])* $all:ident $all_plan:ident $all_run:ident $all_schema:literal $all_out:literal;
     $dim:ident $dim_plan:ident $dim_run:ident $dim_schema:literal $dim_out:literal;
     $dims:ident $dims_run:ident $dims_schema:literal $dims_out:literal;) => {
        fn $all_plan(x: &Tensor) -> Result<TensorSpec> {
            truth_plan(x, None, false)
        }
        fn $all_run(x: &Tensor, outs: &[Tensor]) -> Result<()> {
            run_reduction(Reduction::$reduction, x, &reduced_dims(x, None)?, outs)
        }
        fn $dim_plan(x: &Tensor, dim: i64, keepdim: bool) -> Result<TensorSpec> {
            truth_plan(x, Some(&[dim]), keepdim)
        }
        fn $dim_run(x: &Tensor, dim: i64, _keepdim: bool, outs: &[Tensor]) -> Result<()> {
            run_reduction(Reduction::$reduction, x, &reduced_dims(x, Some(&[dim]))?, outs)
        }
        fn $dims_run(x: &Tensor, dim: Option<&[i64]>, _keepdim: bool, outs: &[Tensor]) -> Result<()> {
            run_reduction(Reduction::$reduction, x, &reduced_dims(x, dim)?, outs)
        }
        op! {
            $(#[doc = $doc])*
            $all: $all_schema, Out OUT: $all_out;
            Body::Structured { plan: plan!($all_plan; x), run: run!($all_run; x) };
            samples: |m| vec![sample![m.any(&[3, 4])], sample![m.any(&[0])]];
            out_rule: OutRule::dtype(|_, out| truth_writes(stringify!($all), out));
            fn $all(&self) -> Tensor [self];
        }
        op! {
            $(#[doc = $doc])*
            $dim: $dim_schema, Out OUT: $dim_out;
            Body::Structured { plan: plan!($dim_plan; x, dim, keepdim), run: run!($dim_run; x, dim, keepdim) };
            samples: |m| vec![sample![m.any(&[3, 4]), 0, false], sample![m.any(&[3, 4]), -1, true]];
            out_rule: OutRule::dtype(|_, out| truth_writes(stringify!($all), out));
            fn $dim(&self, dim: i64, keepdim: bool) -> Tensor [self, dim, keepdim];
        }
        op! {
            $(#[doc = $doc])*
            $dims: $dims_schema, Out OUT: $dims_out;
            Body::Structured { plan: plan!(truth_plan; x, dim, keepdim), run: run!($dims_run; x, dim, keepdim) };
            samples: |m| vec![sample![m.any(&[2, 3, 4]), vec![0i64, 2], false]];
            out_rule: OutRule::dtype(|_, out| truth_writes(stringify!($all), out));
            fn $dims(&self, dim: &[i64], keepdim: bool) -> Tensor [self, dim, keepdim];
        }
    };
}
truth! {
    Any;
    /// Whether any element, of all or over the given dims, is not zero.
    any any_all_plan any_all_run "any(Tensor self) -> Tensor" "any.all_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    any_dim any_dim_plan any_dim_run "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor" "any.out(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    any_dims any_dims_run "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor" "any.dims_out(Tensor self, int[]? dim=None, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
}
truth! {
    All;
    /// Whether all elements, of all or over the given dims, are not zero.
    all all_all_plan all_all_run "all(Tensor self) -> Tensor" "all.all_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    all_dim all_dim_plan all_dim_run "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor" "all.out(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    all_dims all_dims_run "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor" "all.dims_out(Tensor self, int[]? dim=None, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
}

fn count_nonzero_plan(x: &Tensor, dim: &[i64]) -> Result<TensorSpec> {
    let reduced = reduced_dims(x, Some(dim))?;
    Ok(TensorSpec::new(reduced_sizes(x.sizes(), &reduced, false), DType::I64, x.device()))
}
fn count_nonzero_run(x: &Tensor, dim: &[i64], outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::CountNonzero, x, &reduced_dims(x, Some(dim))?, outs)
}

op! {
    /// How many elements are not zero, over the given dims (all without any).
    count_nonzero: "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
        Out OUT: "count_nonzero.dim_IntList_out(Tensor self, int[] dim, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(count_nonzero_plan; x, dim), run: run!(count_nonzero_run; x, dim) };
    samples: |m| vec![sample![m.any(&[3, 4]), vec![1i64]], sample![m.any(&[3, 4]), Vec::<i64>::new()]];
    fn count_nonzero(&self, dim: &[i64]) -> Tensor [self, dim];
}

fn count_nonzero_one(x: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let dims: SmallVec<[i64; 1]> = dim.into_iter().collect();
    x.count_nonzero(&dims)
}

op! {
    /// How many elements are not zero, of all or along a dim.
    count_nonzero_dim: "count_nonzero(Tensor self, int? dim=None) -> Tensor",
        Out OUT: "count_nonzero.out(Tensor self, int? dim=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(count_nonzero_one; x, dim));
    samples: |m| vec![sample![m.any(&[3, 4]), 0]];
}

// ---- norms --------------------------------------------------------------------------------------

fn vector_norm_plan(
    x: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<TensorSpec> {
    ensure!(
        x.dtype().is_differentiable(),
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().scalar_type_name()
    );
    ensure!(!ord.is_complex(), "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
    let reduced = reduced_dims(x, dim)?;
    let p = ord.to_f64();
    let empty = reduced.iter().any(|&d| x.sizes()[d] == 0);
    ensure!(
        !(empty && (p < 0.0 || p == f64::INFINITY)),
        "linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an \
         identity"
    );
    if let Some(d) = dtype {
        ensure!(d.is_differentiable(), "linalg.vector_norm: dtype should be floating point or complex, but got {d}");
    }
    let out = dtype.unwrap_or(x.dtype()).to_real();
    Ok(TensorSpec::new(reduced_sizes(x.sizes(), &reduced, keepdim), out, x.device()))
}
fn vector_norm_run(
    x: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    _keepdim: bool,
    dtype: Option<DType>,
    outs: &[Tensor],
) -> Result<()> {
    let x = match dtype {
        Some(d) => x.to_dtype(d)?,
        None => x.clone(),
    };
    run_reduction(Reduction::Norm(ord.to_f64()), &x, &reduced_dims(&x, dim)?, outs)
}

op! {
    /// The p-norm of the elements over the given dims (all without any); `ord` may be 0, infinite or negative.
    linalg_vector_norm: "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "linalg_vector_norm.out(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(vector_norm_plan; x, ord, dim, keepdim, dtype), run: run!(vector_norm_run; x, ord, dim, keepdim, dtype) };
    derivative: backward! {
        self_(g, self_: Tensor, ord: Scalar, dim: Option<Dims>, keepdim: bool, result: Tensor) =>
            norm_backward(g, &self_, ord.to_f64(), dim.as_deref(), keepdim, &result)?
    };
    samples: |m| match m.dtype.is_differentiable() {
        false => vec![],
        true => [2.0, 1.0, 0.0, 3.0, f64::INFINITY, f64::NEG_INFINITY, -1.5, 0.5].into_iter()
            .map(|p| sample![m.uniform(&[3, 4], 0.5, 2.0), Scalar::Float(p), vec![1i64], false, ()]).collect(),
    };
    ulp: 16.0;
    out_rule: OutRule::EXACT;
    fn vector_norm(&self, ord: f64, dim: &[i64], keepdim: bool) -> Tensor [self, Scalar::Float(ord), dim, keepdim];
}

/// The gradient of a p-norm; zero where the norm is, and none for a count.
fn norm_backward(
    g: &Tensor,
    x: &Tensor,
    p: f64,
    dim: Option<&[i64]>,
    keepdim: bool,
    norm: &Tensor,
) -> Result<Option<Tensor>> {
    if p == 0.0 {
        return Ok(None);
    }
    smooth_norm_backward(g, x, p, dim, keepdim, norm).map(Some)
}

fn smooth_norm_backward(
    g: &Tensor,
    x: &Tensor,
    p: f64,
    dim: Option<&[i64]>,
    keepdim: bool,
    norm: &Tensor,
) -> Result<Tensor> {
    let g = spread(g, x.sizes(), dim, keepdim)?;
    let norm = spread(norm, x.sizes(), dim, keepdim)?;
    if p == 1.0 {
        return x.sgn()?.mul(&g);
    }
    // Nothing of a norm of zero, in its derivatives too: so what is divided by is infinite there.
    let zero = norm.eq(0.0)?;
    if p == 2.0 {
        return x.mul(&g.div(&norm.masked_fill(&zero, f64::INFINITY)?)?);
    }
    if p.is_infinite() {
        // The reduction may round the sizes of complex numbers differently.
        let size = x.abs()?;
        let extreme = match (x.dtype().is_complex(), p > 0.0) {
            (false, _) => norm,
            (true, true) => size.amax(dim.unwrap_or(&[]), true)?,
            (true, false) => size.amin(dim.unwrap_or(&[]), true)?,
        };
        let attains = size.eq(&extreme)?.logical_or(&extreme.isnan()?)?;
        let shares = attains.sum_dim(dim.unwrap_or(&[]), true)?;
        return x.sgn()?.mul(&g.div(&shares)?.mul(&attains)?);
    }
    let scaled = match p {
        p if p < 1.0 => x.sgn()?.mul(&x.abs()?.pow(p - 1.0)?)?.masked_fill(&x.eq(0.0)?, 0.0)?,
        p if p < 2.0 => x.sgn()?.mul(&x.abs()?.pow(p - 1.0)?)?,
        p => x.mul(&x.abs()?.pow(p - 2.0)?)?,
    };
    let divisor = norm.masked_fill(&zero, 1.0)?.pow(p - 1.0)?.masked_fill(&zero, f64::INFINITY)?;
    scaled.mul(&g.div(&divisor)?)
}

fn norm_any(x: &Tensor, p: Option<Scalar>, dim: &[i64], keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let p = p.unwrap_or(Scalar::Int(2));
    linalg_vector_norm::OP.call(&[x.into(), p.into(), dim.into(), keepdim.into(), dtype.into()])?.one()
}
fn norm_scalar_any(x: &Tensor, p: Scalar) -> Result<Tensor> {
    norm_any(x, Some(p), &[], false, None)
}
fn norm_dim_any(x: &Tensor, p: Option<Scalar>, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    norm_any(x, p, dim, keepdim, None)
}
fn norm_dtype_any(x: &Tensor, p: Option<Scalar>, dtype: DType) -> Result<Tensor> {
    norm_any(x, p, &[], false, Some(dtype))
}

op! {
    /// The p-norm of all elements.
    norm: "norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
        Out OUT: "norm.Scalar_out(Tensor self, Scalar p=2, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(norm_scalar_any; x, p));
    samples: |m| if m.dtype.is_differentiable() { vec![sample![m.any(&[3, 4]), Scalar::Int(2)]] } else { vec![] };
    ulp: 16.0;
    out_rule: crate::OutRule::EXACT;
    fn norm(&self) -> Tensor [self, Scalar::Int(2)];
}

op! {
    /// The p-norm over the given dims (all without any).
    norm_dim: "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
        Out OUT: "norm.out(Tensor self, Scalar? p, int[1] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(norm_dim_any; x, p, dim, keepdim));
    samples: |m| if m.dtype.is_differentiable() { vec![sample![m.any(&[3, 4]), Scalar::Int(1), vec![0i64], true]] } else { vec![] };
    ulp: 16.0;
    out_rule: crate::OutRule::EXACT;
}

op! {
    /// The p-norm over the given dims (all without any), computed in another dtype.
    norm_dim_dtype: "norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
        Out OUT: "norm.dtype_out(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(norm_any; x, p, dim, keepdim, dtype));
    samples: |m| if m.dtype.is_differentiable() { vec![sample![m.any(&[3, 4]), Scalar::Int(2), vec![1i64], false, m.wide()]] } else { vec![] };
    ulp: 16.0;
    out_rule: crate::OutRule::EXACT;
}

op! {
    /// The p-norm of all elements, computed in another dtype.
    norm_dtype: "norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
        Out OUT: "norm.ScalarOpt_dtype_out(Tensor self, Scalar? p, *, ScalarType dtype, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(norm_dtype_any; x, p, dtype));
    samples: |m| if m.dtype.is_differentiable() { vec![sample![m.any(&[3, 4]), Scalar::Float(1.5), m.wide()]] } else { vec![] };
    ulp: 16.0;
    out_rule: crate::OutRule::EXACT;
}

// ---- logsumexp ----------------------------------------------------------------------------------

fn logsumexp_plan(x: &Tensor, dim: &[i64], keepdim: bool) -> Result<TensorSpec> {
    let reduced = reduced_dims(x, Some(dim))?;
    let dtype = if x.dtype().is_differentiable() { x.dtype() } else { default_dtype() };
    Ok(TensorSpec::new(reduced_sizes(x.sizes(), &reduced, keepdim), dtype, x.device()))
}
fn logsumexp_run(x: &Tensor, dim: &[i64], _keepdim: bool, outs: &[Tensor]) -> Result<()> {
    let x = if x.dtype().is_differentiable() { x.clone() } else { x.to_dtype(outs[0].dtype())? };
    run_reduction(Reduction::LogSumExp, &x, &reduced_dims(&x, Some(dim))?, outs)
}

fn logsumexp_writes(_result: DType, out: DType) -> Result<()> {
    ensure!(
        out.is_differentiable(),
        "logsumexp(): Expected floating point type for result tensor, but got: {}",
        out.scalar_type_name()
    );
    Ok(())
}

op! {
    /// The logarithm of the sum of exponentials over the given dims, without overflow.
    logsumexp: "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
        Out OUT: "logsumexp.out(Tensor self, int[1] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(logsumexp_plan; x, dim, keepdim), run: run!(logsumexp_run; x, dim, keepdim) };
    derivative: backward! {
        self_(g, self_: Tensor, dim: Dims, keepdim: bool, result: Tensor) => {
            let result = spread(&result, self_.sizes(), Some(&dim), keepdim)?;
            spread(g, self_.sizes(), Some(&dim), keepdim)?.mul(&self_.sub(&result)?.exp()?.conj()?)?
        }
    };
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![
        sample![m.any(&[3, 4]), vec![1i64], false], sample![m.any(&[2, 3, 4]), vec![0i64, 2], true],
    ] };
    ulp: 16.0;
    out_rule: crate::OutRule::dtype(logsumexp_writes);
    fn logsumexp(&self, dim: &[i64], keepdim: bool) -> Tensor [self, dim, keepdim];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    all::ALL,
    all_dim::ALL,
    all_dims::ALL,
    any::ALL,
    any_dim::ALL,
    any_dims::ALL,
    count_nonzero::ALL,
    count_nonzero_dim::ALL,
    linalg_vector_norm::ALL,
    logsumexp::ALL,
    mean::ALL,
    mean_dim::ALL,
    nansum::ALL,
    norm::ALL,
    norm_dim::ALL,
    norm_dim_dtype::ALL,
    norm_dtype::ALL,
    prod::ALL,
    prod_dim::ALL,
    sum::ALL,
    sum_dim::ALL,
    sum_to_size::ALL,
];
