//! Further names of batch norm: with the running statistics as results, or without them.

use super::norm::native_batch_norm;
use crate::value::check_sorts;
use crate::{Body, DType, Error, Op, Result, Tensor, Value, sample};

type Statistic<'a> = Option<&'a Tensor>;

fn normalised(
    x: &Tensor,
    (weight, bias): (Statistic<'_>, Statistic<'_>),
    (mean, var): (Statistic<'_>, Statistic<'_>),
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<[Tensor; 3]> {
    native_batch_norm::OP
        .call(&[x.into(), weight.into(), bias.into(), mean.into(), var.into(), training.into(), momentum.into(), eps.into()])?
        .array()
}

/// What PyTorch's accelerators keep between a batch norm and its gradient; nothing here.
fn reserve(x: &Tensor) -> Result<Tensor> {
    Tensor::empty(&[0], (DType::U8, x.device()))
}

fn no_stats(x: &Tensor, weight: Statistic<'_>, bias: Statistic<'_>, training: bool, momentum: f64, eps: f64) -> Result<(Tensor, Tensor, Tensor)> {
    normalised(x, (weight, bias), (None, None), training, momentum, eps).map(|[y, mean, invstd]| (y, mean, invstd))
}
fn no_training(x: &Tensor, weight: Statistic<'_>, bias: Statistic<'_>, mean: &Tensor, var: &Tensor, momentum: f64, eps: f64) -> Result<(Tensor, Tensor, Tensor)> {
    normalised(x, (weight, bias), (Some(mean), Some(var)), false, momentum, eps).map(|[y, mean, invstd]| (y, mean, invstd))
}
fn legit_functional(x: &Tensor, weight: Statistic<'_>, bias: Statistic<'_>, mean: &Tensor, var: &Tensor, training: bool, momentum: f64, eps: f64) -> Result<Vec<Tensor>> {
    let moved = [mean, var].map(|t| t.detach().and_then(|t| t.clone_in(crate::MemoryFormat::Preserve)));
    let [mean, var] = moved;
    let (mean, var) = (mean?, var?);
    let mut all = Vec::from(normalised(x, (weight, bias), (Some(&mean), Some(&var)), training, momentum, eps)?);
    all.extend([mean, var]);
    Ok(all)
}
fn with_update(x: &Tensor, weight: Statistic<'_>, bias: Statistic<'_>, mean: &Tensor, var: &Tensor, momentum: f64, eps: f64) -> Result<Vec<Tensor>> {
    let [y, mean, invstd] = normalised(x, (weight, bias), (Some(mean), Some(var)), true, momentum, eps)?;
    Ok(vec![y, mean, invstd, reserve(x)?])
}
fn no_update(x: &Tensor, weight: Statistic<'_>, bias: Statistic<'_>, mean: Statistic<'_>, var: Statistic<'_>, momentum: f64, eps: f64) -> Result<Vec<Tensor>> {
    let mut all = Vec::from(normalised(x, (weight, bias), (mean, var), false, momentum, eps)?);
    all.push(reserve(x)?);
    Ok(all)
}
fn with_update_functional(x: &Tensor, weight: Statistic<'_>, bias: Statistic<'_>, mean: &Tensor, var: &Tensor, momentum: f64, eps: f64) -> Result<Vec<Tensor>> {
    let mut all = legit_functional(x, weight, bias, mean, var, true, momentum, eps)?;
    if all.len() != 5 {
        return Err(Error::runtime("batch_norm gave too few results"));
    }
    all.insert(3, reserve(x)?);
    Ok(all)
}

/// One operator per line: its schemas, its kernel's arguments, and what its samples have between the affine parameters
/// and the end.
macro_rules! forms {
    ($($(#[doc = $doc:expr])* $name:ident $schema:literal $(, $out:literal)?: $kernel:ident($($arg:ident),*), |$m:ident| [$($sample:expr),*];)*) => {
        $(
            op! {
                $(#[doc = $doc])*
                $name: $schema $(, Out OUT: $out)?;
                Body::Composite(kernel!($kernel; x, weight, bias, $($arg),*));
                differentiable_results: 1;
                samples: |$m| match $m.dtype.is_floating_point() {
                    true => vec![sample![$m.any(&[3, 4, 2]), $m.any(&[4]), $m.any(&[4]), $($sample),*]],
                    false => vec![],
                };
                ulp: 64.0;
                out_rule: crate::OutRule::dtype(crate::ops::norm::accessed);
            }
        )*
    };
}
forms! {
    /// A batch norm by the batch's own statistics only.
    no_stats "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        "_native_batch_norm_legit.no_stats_out(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps, *, Tensor(a!) out, Tensor(b!) save_mean, Tensor(c!) save_invstd) -> (Tensor(a!), Tensor(b!), Tensor(c!))":
        no_stats(training, momentum, eps), |m| [true, 0.1, 1e-5];
    /// A batch norm by the running statistics only.
    no_training "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        "_native_batch_norm_legit_no_training.out(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2) -> (Tensor(a!), Tensor(b!), Tensor(c!))":
        no_training(mean, var, momentum, eps), |m| [m.any(&[4]), m.uniform(&[4], 0.5, 2.0), 0.1, 1e-5];
    /// A batch norm that gives the moved running statistics instead of writing them.
    legit_functional "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)":
        legit_functional(mean, var, training, momentum, eps), |m| [m.any(&[4]), m.uniform(&[4], 0.5, 2.0), true, 0.1, 1e-5];
    /// A batch norm in training, with an empty fourth result.
    with_update "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)":
        with_update(mean, var, momentum, eps), |m| [m.any(&[4]), m.uniform(&[4], 0.5, 2.0), 0.1, 1e-5];
    /// A batch norm by the running statistics, with an empty fourth result.
    no_update "_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
        "_batch_norm_no_update.out(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2, Tensor(d!) out3) -> (Tensor(a!), Tensor(b!), Tensor(c!), Tensor(d!))":
        no_update(mean, var, momentum, eps), |m| [m.any(&[4]), m.uniform(&[4], 0.5, 2.0), 0.1, 1e-5];
    /// A batch norm in training that gives the moved running statistics instead of writing them.
    with_update_functional "_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)":
        with_update_functional(mean, var, momentum, eps), |m| [m.any(&[4]), m.uniform(&[4], 0.5, 2.0), 0.1, 1e-5];
}

op! {
    /// A batch norm that moves the running statistics in training.
    legit: "_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        Out OUT: "_native_batch_norm_legit.out(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum, float eps, *, Tensor(d!) out, Tensor(e!) save_mean, Tensor(f!) save_invstd) -> (Tensor(d!), Tensor(e!), Tensor(f!))";
    Body::Composite(|op, _keys, args: &[Value<'_>]| {
        check_sorts(op, args)?;
        native_batch_norm::OP.call(args)
    });
    differentiable_results: 1;
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3, 4, 2]), m.any(&[4]), m.any(&[4]), m.any(&[4]), m.uniform(&[4], 0.5, 2.0), true, 0.1, 1e-5]],
        false => vec![],
    };
    ulp: 64.0;
    out_rule: crate::OutRule::dtype(crate::ops::norm::accessed);
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    legit::ALL,
    legit_functional::ALL,
    no_stats::ALL,
    no_training::ALL,
    no_update::ALL,
    with_update::ALL,
    with_update_functional::ALL,
];
