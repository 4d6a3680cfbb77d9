//! Running totals along a dim: cumsum, cumprod, logcumsumexp, cummax, cummin.

use super::copy::byte_strides;
use super::index::zeros_to_read;
use super::random::largest;
use crate::autograd::{Forward, Geometry, is_grad_enabled};
use crate::dims::{Dims, wrap_dim};
use crate::{Body, DType, Error, Op, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::scan::ScanOp;

fn not_for(op: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{op}\" not implemented for '{}'", dtype.scalar_type_name()))
}

/// A 0-d tensor as a 1-d one, so that kernels see at least one dim.
fn at_least_1d(x: &Tensor) -> Result<Tensor> {
    if x.dim() == 0 { x.view(&[1]) } else { Ok(x.clone()) }
}

fn run_scan(op: ScanOp, x: &Tensor, dim: i64, outs: &[Tensor]) -> Result<()> {
    let d = wrap_dim(dim, x.dim())?;
    if x.numel() == 0 {
        return Ok(());
    }
    if x.dim() == 0 {
        return outs[0].copy_(x).map(drop);
    }
    let out = &outs[0];
    let _locks = LockSet::new([(x.storage(), false), (out.storage(), true)])?;
    // SAFETY: both have the same sizes and are locked; they share no memory.
    unsafe {
        flambeau_cpu::scan::scan(
            op,
            x.sizes(),
            d,
            (out.data_ptr(), &byte_strides(out.strides(), out.dtype()), out.dtype()),
            (x.data_ptr(), &byte_strides(x.strides(), x.dtype()), x.dtype()),
        );
    }
    Ok(())
}

/// Sums and products of integers are 64 bits wide unless a dtype is named.
fn total_plan(op: &str, x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<TensorSpec> {
    wrap_dim(dim, x.dim())?;
    let dtype = dtype.unwrap_or(if x.dtype().is_integral(true) { DType::I64 } else { x.dtype() });
    // (There is nothing to compute of one element or none.)
    if dtype == DType::Bool && x.dim() > 0 && x.numel() > 0 {
        return Err(not_for(&format!("{op}_out_cpu"), dtype));
    }
    Ok(TensorSpec::like(Dims::from_slice(x.sizes()), x).dtype(dtype))
}

fn total_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "expected scalar_type {} but found {}",
        result.scalar_type_name(),
        out.scalar_type_name()
    );
    Ok(())
}

// ---- cumsum -------------------------------------------------------------------------------------

fn cumsum_plan(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<TensorSpec> {
    total_plan("cumsum", x, dim, dtype)
}
fn cumsum_run(x: &Tensor, dim: i64, _dtype: Option<DType>, outs: &[Tensor]) -> Result<()> {
    run_scan(ScanOp::Sum, x, dim, outs)
}

/// Sums from each element to the end.
fn reversed_cumsum(x: &Tensor, dim: i64) -> Result<Tensor> {
    if x.dim() == 0 || x.numel() == 0 {
        return Ok(x.clone());
    }
    x.flip(&[dim])?.cumsum(dim)?.flip(&[dim])
}

op! {
    /// Running sums along a dim. Integers add up in 64 bits unless `dtype` says otherwise.
    cumsum: "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        InPlace INPLACE: "cumsum_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!)",
        Out OUT: "cumsum.out(Tensor self, int dim, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(cumsum_plan; x, dim, dtype), run: run!(cumsum_run; x, dim, dtype) };
    derivative: backward! { self_(g, dim: i64) => reversed_cumsum(g, dim)? };
    forward: Forward::Linear;
    samples: |m| vec![
        sample![m.any(&[3, 4]), 0, ()], sample![m.any(&[2, 3, 4]), -2, ()], sample![m.any(&[]), 0, ()], sample![m.any(&[2, 0]), 1, ()],
    ];
    ulp: 16.0;
    out_rule: crate::OutRule::EXACT.computing_in(2);
    fn cumsum(&self, dim: i64) -> Tensor [self, dim];
    fn cumsum_(&self, dim: i64) -> Tensor [self, dim] in INPLACE;
    fn cumsum_dtype(&self, dim: i64, dtype: DType) -> Tensor [self, dim, dtype];
}

// ---- cumprod ------------------------------------------------------------------------------------

fn cumprod_plan(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<TensorSpec> {
    total_plan("cumprod", x, dim, dtype)
}
fn cumprod_run(x: &Tensor, dim: i64, _dtype: Option<DType>, outs: &[Tensor]) -> Result<()> {
    run_scan(ScanOp::Prod, x, dim, outs)
}

/// The gradient of running products: what each element contributes to the products from it on.
///
/// Without zeros that is a reversed running sum, divided by the element. Of a line with zeros, elements after the first
/// one get nothing, and it gets the products that leave it out. That is not differentiable again (the zero's own
/// second derivatives are missing), so with a graph to record every product is formed, in quadratic time.
fn cumprod_backward(g: &Tensor, x: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    if x.dim() == 0 || x.numel() <= 1 {
        return Ok(g.clone());
    }
    let x = x.to_dtype(result.dtype())?;
    let zero = x.eq(0i64)?;
    if !zero.any()?.item()?.to_bool() {
        return reversed_cumsum(&g.mul(&result.conj()?)?, dim)?.div(&x.conj()?);
    }
    if is_grad_enabled() {
        return cumprod_backward_recorded(g, &x.conj()?, dim);
    }
    let first = zero.logical_and(&zero.cumsum(dim)?.eq(1i64)?)?;
    let filled = x.masked_fill(&first, 1i64)?;
    let at_first = reversed_cumsum(&g.mul(&filled.cumprod(dim)?.conj()?)?, dim)?.mul(&first)?;
    let before = zero.cumsum(dim)?.eq(0i64)?;
    let divisor = x.masked_fill(&zero, 1i64)?;
    reversed_cumsum(&g.mul(&result.conj()?)?, dim)?.div(&divisor.conj()?)?.mul(&before)?.add(&at_first)
}

fn cumprod_backward_recorded(g: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let n = x.size(dim)?;
    let one = x.narrow(dim, 0, 1)?.ones_like()?;
    let mut before = one.clone();
    let mut parts = Vec::with_capacity(n as usize);
    for k in 0..n {
        let after = Tensor::cat(&[one.clone(), x.narrow(dim, k + 1, n - k - 1)?], dim)?.cumprod(dim)?;
        parts.push(g.narrow(dim, k, n - k)?.mul(&after)?.sum_dim(&[dim], true)?.mul(&before)?);
        before = before.mul(&x.narrow(dim, k, 1)?)?;
    }
    Tensor::cat(&parts, dim)
}

op! {
    /// Running products along a dim. Integers multiply in 64 bits unless `dtype` says otherwise.
    cumprod: "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        InPlace INPLACE: "cumprod_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!)",
        Out OUT: "cumprod.out(Tensor self, int dim, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(cumprod_plan; x, dim, dtype), run: run!(cumprod_run; x, dim, dtype) };
    derivative: backward! {
        self_(g, self_: Tensor, dim: i64, result: Tensor) => cumprod_backward(g, &self_, &result, dim)?
    };
    samples: |m| {
        let with_zeros = m.any(&[2, 4]);
        let mask = Tensor::from_slice(&[0i64, 0, 1, 0, 1, 0, 1, 0]).and_then(|t| t.view(&[2, 4])).and_then(|t| with_zeros.mul(&t.eq(0i64)?));
        let mut all = vec![sample![m.any(&[3, 4]), 0, ()], sample![m.any(&[2, 3, 2]), -1, ()], sample![m.any(&[]), 0, ()]];
        all.extend(mask.ok().map(|t| sample![t, 1, ()]));
        all
    };
    ulp: 16.0;
    out_rule: crate::OutRule::EXACT.computing_in(2);
    fn cumprod(&self, dim: i64) -> Tensor [self, dim];
    fn cumprod_(&self, dim: i64) -> Tensor [self, dim] in INPLACE;
    fn cumprod_dtype(&self, dim: i64, dtype: DType) -> Tensor [self, dim, dtype];
}

// ---- logcumsumexp -------------------------------------------------------------------------------

fn logcumsumexp_plan(x: &Tensor, dim: i64) -> Result<TensorSpec> {
    wrap_dim(dim, x.dim())?;
    if !x.dtype().is_differentiable() {
        return Err(not_for("logcumsumexp_out_cpu", x.dtype()));
    }
    Ok(TensorSpec::like(Dims::from_slice(x.sizes()), x))
}
fn logcumsumexp_run(x: &Tensor, dim: i64, outs: &[Tensor]) -> Result<()> {
    run_scan(ScanOp::LogSumExp, x, dim, outs)
}

/// Sums of `g * exp(x - result)` from each element to the end.
///
/// With `h[i]` the sum of `g[j] * exp(result[i] - result[j])` over `j` from `i` on, that is `h * exp(x - result)`. Results
/// only grow along the dim, so no factor overflows; and `h`, a linear recurrence, is built up by doubling the number of
/// terms (Hillis & Steele, "Data parallel algorithms", 1986). It is linear in `g`, as forward mode needs.
fn logcumsumexp_backward(g: &Tensor, x: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    if x.dim() == 0 || x.numel() == 0 {
        return Ok(g.clone());
    }
    // Two results that are infinite alike are no distance apart.
    let levels = match x.dtype().is_complex() {
        true => result.clone(),
        false => result.clamp_min(-largest(x.dtype()))?.clamp_max(largest(x.dtype()))?,
    };
    let (n, mut terms, mut sums) = (x.size(dim)?, 1, g.clone());
    while terms < n {
        let rest = n - terms;
        let decay = levels.narrow(dim, 0, rest)?.sub(&levels.narrow(dim, terms, rest)?)?.exp()?.conj()?;
        let further = sums.narrow(dim, terms, rest)?.mul(&decay)?;
        let head = sums.narrow(dim, 0, rest)?.add(&further)?;
        sums = Tensor::cat(&[head, sums.narrow(dim, rest, terms)?], dim)?;
        terms *= 2;
    }
    sums.mul(&x.sub(result)?.exp()?.conj()?)
}

op! {
    /// The logarithms of running sums of exponentials along a dim, without overflow.
    logcumsumexp: "logcumsumexp(Tensor self, int dim) -> Tensor",
        Out OUT: "logcumsumexp.out(Tensor self, int dim, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(logcumsumexp_plan; x, dim), run: run!(logcumsumexp_run; x, dim) };
    derivative: backward! {
        self_(g, self_: Tensor, dim: i64, result: Tensor) => logcumsumexp_backward(g, &self_, &result, dim)?
    };
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.any(&[3, 4]), 0], sample![m.any(&[2, 3, 2]), -1], sample![m.any(&[]), 0]],
        false => vec![],
    };
    ulp: 16.0;
    out_rule: crate::OutRule::dtype(total_writes);
    fn logcumsumexp(&self, dim: i64) -> Tensor [self, dim];
}

// ---- running extremes ---------------------------------------------------------------------------

fn extreme_plan(op: &str, x: &Tensor, dim: i64) -> Result<[TensorSpec; 2]> {
    wrap_dim(dim, x.dim())?;
    if x.dtype().is_complex() {
        return Err(not_for(&format!("{op}_cpu"), x.dtype()));
    }
    let values = TensorSpec::like(Dims::from_slice(x.sizes()), x);
    Ok([values.clone(), values.dtype(DType::I64)])
}

fn extreme_run(greatest: bool, x: &Tensor, dim: i64, outs: &[Tensor]) -> Result<()> {
    let d = wrap_dim(dim, x.dim())?;
    ensure!(outs.len() == 2, "running extremes have two results");
    if x.numel() == 0 {
        return Ok(());
    }
    let (x, values, indices) = (at_least_1d(x)?, at_least_1d(&outs[0])?, at_least_1d(&outs[1])?);
    let _locks = LockSet::new([(x.storage(), false), (values.storage(), true), (indices.storage(), true)])?;
    // SAFETY: all three have the same sizes and are locked; they share no memory.
    unsafe {
        flambeau_cpu::scan::cumulative_extreme(
            greatest,
            x.sizes(),
            d,
            (values.data_ptr(), &byte_strides(values.strides(), values.dtype())),
            (indices.data_ptr(), &byte_strides(indices.strides(), indices.dtype())),
            (x.data_ptr(), &byte_strides(x.strides(), x.dtype())),
            x.dtype(),
        );
    }
    Ok(())
}

fn cummax_plan(x: &Tensor, dim: i64) -> Result<[TensorSpec; 2]> {
    extreme_plan("cummax", x, dim)
}
fn cummax_run(x: &Tensor, dim: i64, outs: &[Tensor]) -> Result<()> {
    extreme_run(true, x, dim, outs)
}
fn cummin_plan(x: &Tensor, dim: i64) -> Result<[TensorSpec; 2]> {
    extreme_plan("cummin", x, dim)
}
fn cummin_run(x: &Tensor, dim: i64, outs: &[Tensor]) -> Result<()> {
    extreme_run(false, x, dim, outs)
}

/// The gradient of running extremes: added up where each came from.
fn extreme_backward(g: &Tensor, x: &Geometry, indices: &Tensor, dim: i64) -> Result<Tensor> {
    if x.dim() == 0 || x.numel() == 0 {
        return Ok(g.clone());
    }
    zeros_to_read(&x.sizes, g)?.scatter_add(dim, indices, g)
}

fn extreme_samples(m: &mut crate::samples::Maker) -> Vec<crate::samples::Sample> {
    match m.dtype.is_complex() {
        true => vec![],
        false => vec![sample![m.any(&[3, 4]), 0], sample![m.any(&[2, 3, 4]), -1], sample![m.any(&[]), 0]],
    }
}

op! {
    /// The largest elements so far along a dim, and where they are; of equal ones the last.
    cummax: "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        Out OUT: "cummax.out(Tensor self, int dim, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)";
    Body::Structured { plan: plan!(cummax_plan; x, dim), run: run!(cummax_run; x, dim) };
    derivative: backward! {
        self_(g, self_: Geometry, indices: Tensor, dim: i64) => extreme_backward(g, &self_, &indices, dim)?
    };
    samples: extreme_samples;
    out_rule: crate::OutRule::dtype(total_writes);
    fn cummax(&self, dim: i64) -> (Tensor, Tensor) [self, dim];
}
op! {
    /// The smallest elements so far along a dim, and where they are; of equal ones the last.
    cummin: "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        Out OUT: "cummin.out(Tensor self, int dim, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)";
    Body::Structured { plan: plan!(cummin_plan; x, dim), run: run!(cummin_run; x, dim) };
    derivative: backward! {
        self_(g, self_: Geometry, indices: Tensor, dim: i64) => extreme_backward(g, &self_, &indices, dim)?
    };
    samples: extreme_samples;
    out_rule: crate::OutRule::dtype(total_writes);
    fn cummin(&self, dim: i64) -> (Tensor, Tensor) [self, dim];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[cummax::ALL, cummin::ALL, cumprod::ALL, cumsum::ALL, logcumsumexp::ALL];
