//! Variances and standard deviations, alone and with the mean.

use super::reduce::{count, reduced_dims, reduced_sizes, run_reduction, spread};
use crate::dims::Dims;
use crate::{Body, Op, Result, Scalar, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_cpu::reduce::Reduction;

fn correction_of(correction: Option<Scalar>) -> f64 {
    correction.map_or(1.0, Scalar::to_f64)
}

fn plan_one(name: &str, x: &Tensor, dim: Option<&[i64]>, keepdim: bool) -> Result<TensorSpec> {
    ensure!(x.dtype().is_differentiable(), "{name} only support floating point and complex dtypes, not {}", x.dtype());
    let reduced = reduced_dims(x, dim)?;
    Ok(TensorSpec::new(reduced_sizes(x.sizes(), &reduced, keepdim), x.dtype().to_real(), x.device()))
}

fn var_plan(x: &Tensor, dim: Option<&[i64]>, _correction: Option<Scalar>, keepdim: bool) -> Result<TensorSpec> {
    plan_one("std and var", x, dim, keepdim)
}
fn var_run(x: &Tensor, dim: Option<&[i64]>, correction: Option<Scalar>, _keepdim: bool, outs: &[Tensor]) -> Result<()> {
    run_reduction(Reduction::Variance { correction: correction_of(correction) }, x, &reduced_dims(x, dim)?, outs)
}
fn std_run(x: &Tensor, dim: Option<&[i64]>, correction: Option<Scalar>, _keepdim: bool, outs: &[Tensor]) -> Result<()> {
    run_reduction(
        Reduction::StandardDeviation { correction: correction_of(correction) },
        x,
        &reduced_dims(x, dim)?,
        outs,
    )
}
fn pair_plan(x: &Tensor, dim: Option<&[i64]>, _correction: Option<Scalar>, keepdim: bool) -> Result<[TensorSpec; 2]> {
    let var = plan_one("std_mean and var_mean", x, dim, keepdim)?;
    let mean = var.clone().dtype(x.dtype());
    Ok([var, mean])
}

/// The gradient of a variance: `2 (x - mean) g / (n - correction)`.
fn var_backward(
    g: &Tensor,
    x: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let n = count(x.sizes(), dim)? as f64 - correction_of(correction);
    let g = spread(g, x.sizes(), dim, keepdim)?;
    let mean = x.mean_dim(dim.unwrap_or(&[]), true)?;
    x.sub(&mean)?.mul(&g.mul(2.0 / n)?)
}

/// The gradient of a standard deviation, zero where it is.
fn std_backward(
    g: &Tensor,
    x: &Tensor,
    std: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let g = g.div(&std.mul(2.0)?)?.masked_fill(&std.eq(0.0)?, 0.0)?;
    var_backward(&g, x, dim, correction, keepdim)
}

/// The part of a pair's gradient that comes through the mean.
fn mean_backward(g: &Tensor, x: &Tensor, dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    spread(g, x.sizes(), dim, keepdim)?.expand(x.sizes())?.div(count(x.sizes(), dim)?)
}

fn plus(a: Option<Tensor>, b: Option<Tensor>) -> Result<Option<Tensor>> {
    Ok(match (a, b) {
        (Some(a), Some(b)) => Some(a.add(&b)?),
        (a, b) => a.or(b),
    })
}

fn samples(m: &mut crate::samples::Maker) -> Vec<crate::samples::Sample> {
    match m.dtype.is_differentiable() {
        true => vec![
            sample![m.any(&[3, 4]), vec![1i64], (), false],
            sample![m.any(&[2, 3, 4]), vec![0i64, 2], Scalar::Int(0), true],
            sample![m.any(&[5]), (), Scalar::Int(2), false],
        ],
        false => vec![],
    }
}

op! {
    /// The variance over the given dims (all without any), divided by the number of elements less `correction` (1).
    var: "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
        Out OUT: "var.correction_out(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(var_plan; x, dim, correction, keepdim), run: run!(var_run; x, dim, correction, keepdim) };
    derivative: backward! {
        self_(g, self_: Tensor, dim: Option<Dims>, correction: Option<Scalar>, keepdim: bool) =>
            var_backward(g, &self_, dim.as_deref(), correction, keepdim)?
    };
    samples: samples;
    ulp: 32.0;
    fn var(&self, dim: &[i64], correction: f64, keepdim: bool) -> Tensor [self, dim, Scalar::Float(correction), keepdim];
}

op! {
    /// The standard deviation over the given dims (all without any); see `var`.
    std: "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
        Out OUT: "std.correction_out(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(var_plan; x, dim, correction, keepdim), run: run!(std_run; x, dim, correction, keepdim) };
    derivative: backward! {
        self_(g, self_: Tensor, dim: Option<Dims>, correction: Option<Scalar>, keepdim: bool, result: Tensor) =>
            std_backward(g, &self_, &result, dim.as_deref(), correction, keepdim)?
    };
    samples: samples;
    ulp: 32.0;
    fn std(&self, dim: &[i64], correction: f64, keepdim: bool) -> Tensor [self, dim, Scalar::Float(correction), keepdim];
}

op! {
    /// The variance and the mean over the given dims (all without any); see `var`.
    var_mean: "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
        Out OUT: "var_mean.correction_out(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))";
    Body::Structured { plan: plan!(pair_plan; x, dim, correction, keepdim), run: run!(var_run; x, dim, correction, keepdim) };
    derivative: backward! {
        self_([c], self_: Tensor, dim: Option<Dims>, correction: Option<Scalar>, keepdim: bool) => {
            let var = c.grad(0).map(|g| var_backward(g, &self_, dim.as_deref(), correction, keepdim)).transpose()?;
            let mean = c.grad(1).map(|g| mean_backward(g, &self_, dim.as_deref(), keepdim)).transpose()?;
            plus(var, mean)?
        }
    };
    samples: samples;
    ulp: 32.0;
    fn var_mean(&self, dim: &[i64], correction: f64, keepdim: bool) -> (Tensor, Tensor) [self, dim, Scalar::Float(correction), keepdim];
}

op! {
    /// The standard deviation and the mean over the given dims (all without any); see `var`.
    std_mean: "std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
        Out OUT: "std_mean.correction_out(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))";
    Body::Structured { plan: plan!(pair_plan; x, dim, correction, keepdim), run: run!(std_run; x, dim, correction, keepdim) };
    derivative: backward! {
        self_([c], self_: Tensor, dim: Option<Dims>, correction: Option<Scalar>, keepdim: bool, result0: Tensor) => {
            let std = c.grad(0).map(|g| std_backward(g, &self_, &result0, dim.as_deref(), correction, keepdim)).transpose()?;
            let mean = c.grad(1).map(|g| mean_backward(g, &self_, dim.as_deref(), keepdim)).transpose()?;
            plus(std, mean)?
        }
    };
    samples: samples;
    ulp: 32.0;
    fn std_mean(&self, dim: &[i64], correction: f64, keepdim: bool) -> (Tensor, Tensor) [self, dim, Scalar::Float(correction), keepdim];
}

// The older spellings: a flag for Bessel's correction.
fn flag(unbiased: bool) -> f64 {
    if unbiased { 1.0 } else { 0.0 }
}
fn var_flag(x: &Tensor, unbiased: bool) -> Result<Tensor> {
    x.var(&[], flag(unbiased), false)
}
fn var_dim_flag(x: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<Tensor> {
    x.var(dim.unwrap_or(&[]), flag(unbiased), keepdim)
}
fn std_flag(x: &Tensor, unbiased: bool) -> Result<Tensor> {
    x.std(&[], flag(unbiased), false)
}
fn std_dim_flag(x: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<Tensor> {
    x.std(dim.unwrap_or(&[]), flag(unbiased), keepdim)
}
fn var_mean_flag(x: &Tensor, unbiased: bool) -> Result<(Tensor, Tensor)> {
    x.var_mean(&[], flag(unbiased), false)
}
fn var_mean_dim_flag(x: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<(Tensor, Tensor)> {
    x.var_mean(dim.unwrap_or(&[]), flag(unbiased), keepdim)
}
fn std_mean_flag(x: &Tensor, unbiased: bool) -> Result<(Tensor, Tensor)> {
    x.std_mean(&[], flag(unbiased), false)
}
fn std_mean_dim_flag(x: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<(Tensor, Tensor)> {
    x.std_mean(dim.unwrap_or(&[]), flag(unbiased), keepdim)
}

op! {
    /// The variance of all elements, with Bessel's correction or without.
    var_all: "var(Tensor self, bool unbiased=True) -> Tensor";
    Body::Composite(kernel!(var_flag; x, unbiased));
    samples: |m| vec![sample![m.any(&[3, 4]), true]];
}
op! {
    /// The variance over the given dims, with Bessel's correction or without.
    var_dim: "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        Out OUT: "var.out(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(var_dim_flag; x, dim, unbiased, keepdim));
    samples: |m| vec![sample![m.any(&[3, 4]), vec![1i64], true, false]];
}
op! {
    /// The standard deviation of all elements, with Bessel's correction or without.
    std_all: "std(Tensor self, bool unbiased=True) -> Tensor";
    Body::Composite(kernel!(std_flag; x, unbiased));
    samples: |m| vec![sample![m.any(&[3, 4]), false]];
}
op! {
    /// The standard deviation over the given dims, with Bessel's correction or without.
    std_dim: "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        Out OUT: "std.out(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(std_dim_flag; x, dim, unbiased, keepdim));
    samples: |m| vec![sample![m.any(&[3, 4]), vec![0i64], false, true]];
}
op! {
    /// The variance and the mean of all elements, with Bessel's correction or without.
    var_mean_all: "var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)";
    Body::Composite(kernel!(var_mean_flag; x, unbiased));
    samples: |m| vec![sample![m.any(&[3, 4]), true]];
}
op! {
    /// The variance and the mean over the given dims, with Bessel's correction or without.
    var_mean_dim: "var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)";
    Body::Composite(kernel!(var_mean_dim_flag; x, dim, unbiased, keepdim));
    samples: |m| vec![sample![m.any(&[3, 4]), vec![1i64], true, false]];
}
op! {
    /// The standard deviation and the mean of all elements, with Bessel's correction or without.
    std_mean_all: "std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)";
    Body::Composite(kernel!(std_mean_flag; x, unbiased));
    samples: |m| vec![sample![m.any(&[3, 4]), false]];
}
op! {
    /// The standard deviation and the mean over the given dims, with Bessel's correction or without.
    std_mean_dim: "std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)";
    Body::Composite(kernel!(std_mean_dim_flag; x, dim, unbiased, keepdim));
    samples: |m| vec![sample![m.any(&[3, 4]), vec![0i64], false, true]];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    std::ALL,
    std_all::ALL,
    std_dim::ALL,
    std_mean::ALL,
    std_mean_all::ALL,
    std_mean_dim::ALL,
    var::ALL,
    var_all::ALL,
    var_dim::ALL,
    var_mean::ALL,
    var_mean_all::ALL,
    var_mean_dim::ALL,
];
