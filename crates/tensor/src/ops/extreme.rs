//! Reductions to extremes and their indices.

use super::index::zeros_to_read;
use super::reduce::{not_for, reduced_dims, reduced_sizes, run_reduction, spread};
use crate::autograd::Geometry;
use crate::dims::Dims;
use crate::{Body, DType, Error, Op, OutRule, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_cpu::reduce::Reduction;
use smallvec::SmallVec;

// ---- extremes -----------------------------------------------------------------------------------

/// Complex numbers are not ordered.
fn no_complex(op: &str, x: &Tensor) -> Result<()> {
    let kernel = match op {
        "amax" => "max_values_cpu",
        "amin" => "min_values_cpu",
        "max" => "max_all",
        "min" => "min_all",
        _ => op,
    };
    if x.dtype().is_complex() { Err(not_for(kernel, x.dtype())) } else { Ok(()) }
}

/// As [`no_complex`], of operators that give indices.
fn no_complex_places(op: &str, x: &Tensor) -> Result<()> {
    ensure!(!x.dtype().is_complex(), "{op}(): does not support complex input");
    Ok(())
}

/// An extreme of nothing does not exist.
fn some_elements(op: &str, x: &Tensor, dim: Option<&[i64]>, reduced: &[usize]) -> Result<()> {
    let whole = dim.is_none_or(<[i64]>::is_empty);
    if whole && x.numel() == 0 {
        let which = "Expected reduction dim to be specified for input.numel() == 0.";
        return Err(match op {
            "argmax" | "argmin" => Error::index(format!("{op}(): {which}")),
            _ => Error::runtime(format!("{op}(): {which} Specify the reduction dim with the 'dim' argument.")),
        });
    }
    match reduced.iter().find(|&&d| x.sizes()[d] == 0) {
        Some(d) => Err(Error::index(format!("{op}(): Expected reduction dim {d} to have non-zero size."))),
        None => Ok(()),
    }
}

fn extreme_plan(op: &str, x: &Tensor, dim: &[i64], keepdim: bool) -> Result<TensorSpec> {
    no_complex(op, x)?;
    let reduced = reduced_dims(x, Some(dim))?;
    some_elements(op, x, Some(dim), &reduced)?;
    Ok(TensorSpec::like(reduced_sizes(x.sizes(), &reduced, keepdim), x))
}

fn extreme_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "Expected the dtype for input and out to match, but got {} for input's dtype and {} for out's dtype.",
        result.scalar_type_name(),
        out.scalar_type_name()
    );
    Ok(())
}

/// The gradient of an extreme: shared evenly by the elements that attain it.
pub(super) fn extreme_backward(g: &Tensor, x: &Tensor, result: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let g = spread(g, x.sizes(), Some(dim), keepdim)?;
    let result = spread(result, x.sizes(), Some(dim), keepdim)?;
    let mask = x.eq(&result)?.logical_or(&x.isnan()?.logical_and(&result.isnan()?)?)?;
    let shares = mask.to_dtype(x.dtype())?.sum_dim(dim, true)?;
    mask.mul(&g.div(&shares)?)
}

fn amax_plan(x: &Tensor, dim: &[i64], keepdim: bool) -> Result<TensorSpec> {
    extreme_plan("amax", x, dim, keepdim)
}
fn amax_run(x: &Tensor, dim: &[i64], _keepdim: bool, outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::Max, x, &reduced_dims(x, Some(dim))?, outs)
}

op! {
    /// The largest element over the given dims (all without any); a NaN counts as largest. Ties share the gradient.
    amax: "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        Out OUT: "amax.out(Tensor self, int[1] dim=[], bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(amax_plan; x, dim, keepdim), run: run!(amax_run; x, dim, keepdim) };
    derivative: backward! {
        self_(g, self_: Tensor, dim: Dims, keepdim: bool, result: Tensor) => extreme_backward(g, &self_, &result, &dim, keepdim)?
    };
    samples: extreme_samples;
    out_rule: OutRule::dtype(extreme_writes);
    fn amax(&self, dim: &[i64], keepdim: bool) -> Tensor [self, dim, keepdim];
}

fn extreme_samples(m: &mut crate::samples::Maker) -> Vec<crate::samples::Sample> {
    if m.dtype.is_complex() {
        return vec![];
    }
    vec![sample![m.any(&[3, 4]), vec![0i64], false], sample![m.any(&[2, 3, 4]), vec![-1i64, 0], true]]
}

fn amin_plan(x: &Tensor, dim: &[i64], keepdim: bool) -> Result<TensorSpec> {
    extreme_plan("amin", x, dim, keepdim)
}
fn amin_run(x: &Tensor, dim: &[i64], _keepdim: bool, outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::Min, x, &reduced_dims(x, Some(dim))?, outs)
}

op! {
    /// The smallest element over the given dims (all without any); a NaN counts as smallest. Ties share the gradient.
    amin: "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        Out OUT: "amin.out(Tensor self, int[1] dim=[], bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(amin_plan; x, dim, keepdim), run: run!(amin_run; x, dim, keepdim) };
    derivative: backward! {
        self_(g, self_: Tensor, dim: Dims, keepdim: bool, result: Tensor) => extreme_backward(g, &self_, &result, &dim, keepdim)?
    };
    samples: extreme_samples;
    out_rule: OutRule::dtype(extreme_writes);
    fn amin(&self, dim: &[i64], keepdim: bool) -> Tensor [self, dim, keepdim];
}

fn max_all_plan(x: &Tensor) -> Result<TensorSpec> {
    extreme_plan("max", x, &[], false)
}
fn max_all_run(x: &Tensor, outs: &[Tensor]) -> Result<()> {
    amax_run(x, &[], false, outs)
}

fn whole_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result.can_cast(out),
        "Expected canCast( typeMetaToScalarType(self.dtype()), typeMetaToScalarType(out.dtype())) to be true, but got \
         false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
    );
    Ok(())
}

op! {
    /// The largest element; a NaN counts as largest.
    max: "max(Tensor self) -> Tensor", Out OUT: "max.unary_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(max_all_plan; x), run: run!(max_all_run; x) };
    derivative: backward! { self_(g, self_: Tensor, result: Tensor) => extreme_backward(g, &self_, &result, &[], false)? };
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![m.any(&[3, 4])]] };
    out_rule: OutRule::dtype(whole_writes);
    fn max(&self) -> Tensor [self];
}

fn min_all_plan(x: &Tensor) -> Result<TensorSpec> {
    extreme_plan("min", x, &[], false)
}
fn min_all_run(x: &Tensor, outs: &[Tensor]) -> Result<()> {
    amin_run(x, &[], false, outs)
}

op! {
    /// The smallest element; a NaN counts as smallest.
    min: "min(Tensor self) -> Tensor", Out OUT: "min.unary_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(min_all_plan; x), run: run!(min_all_run; x) };
    derivative: backward! { self_(g, self_: Tensor, result: Tensor) => extreme_backward(g, &self_, &result, &[], false)? };
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![m.any(&[3, 4])]] };
    out_rule: OutRule::dtype(whole_writes);
    fn min(&self) -> Tensor [self];
}

fn with_index_plan(op: &str, x: &Tensor, dim: i64, keepdim: bool) -> Result<[TensorSpec; 2]> {
    no_complex_places(op, x)?;
    let values = extreme_plan(op, x, &[dim], keepdim)?;
    let indices = values.clone().dtype(DType::I64);
    Ok([values, indices])
}

/// The gradient of values picked along a dim: put back where they came from.
pub(crate) fn picked_backward(g: &Tensor, x: &Geometry, indices: &Tensor, dim: i64, keepdim: bool) -> Result<Tensor> {
    if x.dim() == 0 {
        return Ok(g.clone());
    }
    let (g, indices) = match keepdim {
        true => (g.clone(), indices.clone()),
        false => (g.unsqueeze(dim)?, indices.unsqueeze(dim)?),
    };
    zeros_to_read(&x.sizes, &g)?.scatter(dim, &indices, &g)
}

fn max_dim_plan(x: &Tensor, dim: i64, keepdim: bool) -> Result<[TensorSpec; 2]> {
    with_index_plan("max", x, dim, keepdim)
}
fn max_dim_run(x: &Tensor, dim: i64, _keepdim: bool, outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::MaxWithIndex, x, &reduced_dims(x, Some(&[dim]))?, outs)
}

op! {
    /// The largest elements along a dim and the indices of their first occurrences.
    max_dim: "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Out OUT: "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> (Tensor(a!) values, Tensor(b!) indices)";
    Body::Structured { plan: plan!(max_dim_plan; x, dim, keepdim), run: run!(max_dim_run; x, dim, keepdim) };
    derivative: backward! {
        self_(g, self_: Geometry, indices: Tensor, dim: i64, keepdim: bool) => picked_backward(g, &self_, &indices, dim, keepdim)?
    };
    samples: with_index_samples;
    out_rule: OutRule::EXACT;
    fn max_dim(&self, dim: i64, keepdim: bool) -> (Tensor, Tensor) [self, dim, keepdim];
}

fn with_index_samples(m: &mut crate::samples::Maker) -> Vec<crate::samples::Sample> {
    if m.dtype.is_complex() {
        return vec![];
    }
    vec![sample![m.any(&[3, 4]), 0, false], sample![m.any(&[2, 3, 4]), -1, true]]
}

fn min_dim_plan(x: &Tensor, dim: i64, keepdim: bool) -> Result<[TensorSpec; 2]> {
    with_index_plan("min", x, dim, keepdim)
}
fn min_dim_run(x: &Tensor, dim: i64, _keepdim: bool, outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::MinWithIndex, x, &reduced_dims(x, Some(&[dim]))?, outs)
}

op! {
    /// The smallest elements along a dim and the indices of their first occurrences.
    min_dim: "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Out OUT: "min.dim_min(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) min, Tensor(b!) min_indices) -> (Tensor(a!) values, Tensor(b!) indices)";
    Body::Structured { plan: plan!(min_dim_plan; x, dim, keepdim), run: run!(min_dim_run; x, dim, keepdim) };
    derivative: backward! {
        self_(g, self_: Geometry, indices: Tensor, dim: i64, keepdim: bool) => picked_backward(g, &self_, &indices, dim, keepdim)?
    };
    samples: with_index_samples;
    out_rule: OutRule::EXACT;
    fn min_dim(&self, dim: i64, keepdim: bool) -> (Tensor, Tensor) [self, dim, keepdim];
}

fn arg_plan(op: &str, x: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<TensorSpec> {
    no_complex_places(op, x)?;
    if x.dtype() == DType::Bool {
        return Err(not_for(op, DType::Bool));
    }
    let dims: SmallVec<[i64; 1]> = dim.into_iter().collect();
    let reduced = reduced_dims(x, Some(&dims))?;
    some_elements(op, x, Some(&dims), &reduced)?;
    Ok(TensorSpec::new(reduced_sizes(x.sizes(), &reduced, keepdim), DType::I64, x.device()))
}

fn argmax_plan(x: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<TensorSpec> {
    arg_plan("argmax", x, dim, keepdim)
}
fn argmax_run(x: &Tensor, dim: Option<i64>, _keepdim: bool, outs: &[Tensor]) -> Result<()> {
    let dims: SmallVec<[i64; 1]> = dim.into_iter().collect();
    run_reduction(Reduction::ArgMax, x, &reduced_dims(x, Some(&dims))?, outs)
}

op! {
    /// The index of the first largest element along a dim, or of all elements in row-major order.
    argmax: "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        Out OUT: "argmax.out(Tensor self, int? dim=None, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(argmax_plan; x, dim, keepdim), run: run!(argmax_run; x, dim, keepdim) };
    samples: arg_samples;
    out_rule: OutRule::EXACT;
    fn argmax(&self, dim: Option<i64>, keepdim: bool) -> Tensor [self, dim, keepdim];
}

fn arg_samples(m: &mut crate::samples::Maker) -> Vec<crate::samples::Sample> {
    if m.dtype.is_complex() || m.dtype == DType::Bool {
        return vec![];
    }
    vec![sample![m.any(&[3, 4]), (), false], sample![m.any(&[2, 3, 4]), 1, true]]
}

fn argmin_plan(x: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<TensorSpec> {
    arg_plan("argmin", x, dim, keepdim)
}
fn argmin_run(x: &Tensor, dim: Option<i64>, _keepdim: bool, outs: &[Tensor]) -> Result<()> {
    let dims: SmallVec<[i64; 1]> = dim.into_iter().collect();
    run_reduction(Reduction::ArgMin, x, &reduced_dims(x, Some(&dims))?, outs)
}

op! {
    /// The index of the first smallest element along a dim, or of all elements in row-major order.
    argmin: "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        Out OUT: "argmin.out(Tensor self, int? dim=None, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(argmin_plan; x, dim, keepdim), run: run!(argmin_run; x, dim, keepdim) };
    samples: arg_samples;
    out_rule: OutRule::EXACT;
    fn argmin(&self, dim: Option<i64>, keepdim: bool) -> Tensor [self, dim, keepdim];
}

fn aminmax_any(x: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<(Tensor, Tensor)> {
    ensure!(
        dim.is_some() || x.numel() > 0,
        "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
    );
    let dims: SmallVec<[i64; 1]> = dim.into_iter().collect();
    Ok((x.amin(&dims, keepdim)?, x.amax(&dims, keepdim)?))
}

op! {
    /// The smallest and the largest element, of all or along a dim.
    aminmax: "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
        Out OUT: "aminmax.out(Tensor self, *, int? dim=None, bool keepdim=False, Tensor(a!) min, Tensor(b!) max) -> (Tensor(a!) min, Tensor(b!) max)";
    Body::Composite(kernel!(aminmax_any; x, dim, keepdim));
    samples: arg_samples;
    out_rule: OutRule::EXACT;
    fn aminmax(&self, dim: Option<i64>, keepdim: bool) -> (Tensor, Tensor) [self, dim, keepdim];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    amax::ALL,
    amin::ALL,
    aminmax::ALL,
    argmax::ALL,
    argmin::ALL,
    max::ALL,
    max_dim::ALL,
    min::ALL,
    min_dim::ALL,
];
