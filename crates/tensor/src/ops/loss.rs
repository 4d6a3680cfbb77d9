//! Losses. `reduction` is 0 for none, 1 for the mean, 2 for the sum.

use super::loss_elements::{
    _binary_cross_entropy, _binary_cross_entropy_slope, _binary_cross_entropy_with_logits,
    _binary_cross_entropy_with_logits_slope, _huber_loss, _huber_loss_slope, _mse_loss, _mse_loss_slope, _smooth_l1_loss,
    _smooth_l1_loss_slope,
};
use crate::autograd::Forward;
use crate::dims::{self, Dims};
use crate::samples::Maker;
use crate::value::OwnedValue;
use crate::{Body, DType, Error, Op, Result, Tensor, Value, backward, ensure, sample};
use smallvec::SmallVec;

pub(super) fn reduce(loss: Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        0 => Ok(loss),
        1 => loss.mean(),
        2 => loss.sum(),
        r => Err(Error::value(format!("{r} is not a valid value for reduction"))),
    }
}

/// Refuses gradients by an argument that has none.
pub(super) fn check_constant(function: &str, argument: &str, t: Option<&Tensor>) -> Result<()> {
    ensure!(
        !(crate::autograd::is_grad_enabled() && t.is_some_and(Tensor::requires_grad)),
        "The function '{function}' is not differentiable with respect to argument '{argument}'. This input cannot have \
         requires_grad True."
    );
    Ok(())
}

/// A loss's elements, reduced.
fn reduced(elements: &'static Op, args: &[Value<'_>], reduction: i64) -> Result<Tensor> {
    reduce(elements.call(args)?.one()?, reduction)
}

/// What the gradient of each element is multiplied by.
fn factor(x: &Tensor, target: &Tensor, reduction: i64) -> Result<f64> {
    match reduction {
        1 => Ok(1.0 / dims::broadcast(x.sizes(), target.sizes())?.iter().product::<i64>() as f64),
        _ => Ok(1.0),
    }
}

/// The gradient of a loss by its first argument, from the slope of its elements, whose numbers end with the factor.
fn sloped(slope: &'static Op, g: &Tensor, [x, target]: [&Tensor; 2], reduction: i64, number: Option<f64>) -> Result<Tensor> {
    let factor = factor(x, target, reduction)?;
    let args = [x.into(), target.into(), g.into()].into_iter().chain(number.map(Value::from)).chain([factor.into()]);
    slope.call(&args.collect::<SmallVec<[Value<'_>; 5]>>())?.one()
}

// ---- regression ---------------------------------------------------------------------------------

fn mse_any(x: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    reduced(&_mse_loss::OP, &[x.into(), target.into()], reduction)
}

op! {
    /// The squared difference.
    mse_loss: "mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
        Out OUT: "mse_loss.out(Tensor self, Tensor target, int reduction=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(mse_any; x, target, reduction));
    derivative: backward! {
        self_(g, self_: Tensor, target: Tensor, reduction: i64) => sloped(&_mse_loss_slope::OP, g, [&self_, &target], reduction, None)?,
        target(g, self_: Tensor, target: Tensor, reduction: i64) => sloped(&_mse_loss_slope::OP, g, [&target, &self_], reduction, None)?,
    };
    forward: Forward::FromBackward;
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1], sample![m.any(&[2, 3]), m.any(&[3]), 0]] } else { vec![] };
    ulp: 8.0;
    fn mse_loss(&self, target: &Tensor, reduction: i64) -> Tensor [self, target, reduction];
}

fn l1_any(x: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    reduce(x.sub(target)?.abs()?, reduction)
}

op! {
    /// The absolute difference.
    l1_loss: "l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor";
    Body::Composite(kernel!(l1_any; x, target, reduction));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1], sample![m.any(&[2, 3]), m.any(&[2, 3]), 2]];
    fn l1_loss(&self, target: &Tensor, reduction: i64) -> Tensor [self, target, reduction];
}

fn smooth_l1_any(x: &Tensor, target: &Tensor, reduction: i64, beta: f64) -> Result<Tensor> {
    ensure!(beta >= 0.0, "smooth_l1_loss does not support negative values for beta.");
    if beta == 0.0 {
        return l1_any(x, target, reduction);
    }
    reduced(&_smooth_l1_loss::OP, &[x.into(), target.into(), beta.into()], reduction)
}

fn smooth_l1_gradient(g: &Tensor, x: &Tensor, target: &Tensor, reduction: i64, beta: f64) -> Result<Tensor> {
    match beta == 0.0 {
        true => x.sub(target)?.sign()?.mul(g)?.mul(factor(x, target, reduction)?),
        false => sloped(&_smooth_l1_loss_slope::OP, g, [x, target], reduction, Some(beta)),
    }
}

op! {
    /// Half the square (over `beta`) where the difference is below `beta`, linear beyond.
    smooth_l1_loss: "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor",
        Out OUT: "smooth_l1_loss.out(Tensor self, Tensor target, int reduction=1, float beta=1., *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(smooth_l1_any; x, target, reduction, beta));
    derivative: backward! {
        self_(g, self_: Tensor, target: Tensor, reduction: i64, beta: f64) => {
            smooth_l1_gradient(g, &self_, &target, reduction, beta)?
        },
        target(g, self_: Tensor, target: Tensor, reduction: i64, beta: f64) => {
            smooth_l1_gradient(g, &target, &self_, reduction, beta)?
        },
    };
    forward: Forward::FromBackward;
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1, 1.0], sample![m.any(&[2, 3]), m.any(&[2, 3]), 0, 0.5]] } else { vec![] };
    fn smooth_l1_loss(&self, target: &Tensor, reduction: i64, beta: f64) -> Tensor [self, target, reduction, beta];
}

fn huber_any(x: &Tensor, target: &Tensor, reduction: i64, delta: f64) -> Result<Tensor> {
    ensure!(delta > 0.0, "huber_loss does not support non-positive values for delta.");
    reduced(&_huber_loss::OP, &[x.into(), target.into(), delta.into()], reduction)
}

op! {
    /// Half the square where the difference is at most `delta`, linear beyond.
    huber_loss: "huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor",
        Out OUT: "huber_loss.out(Tensor self, Tensor target, int reduction=1, float delta=1., *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(huber_any; x, target, reduction, delta));
    derivative: backward! {
        self_(g, self_: Tensor, target: Tensor, reduction: i64, delta: f64) => {
            sloped(&_huber_loss_slope::OP, g, [&self_, &target], reduction, Some(delta))?
        },
        target(g, self_: Tensor, target: Tensor, reduction: i64, delta: f64) => {
            sloped(&_huber_loss_slope::OP, g, [&target, &self_], reduction, Some(delta))?
        },
    };
    forward: Forward::FromBackward;
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1, 1.0], sample![m.any(&[2, 3]), m.any(&[2, 3]), 0, 1.5]] } else { vec![] };
    fn huber_loss(&self, target: &Tensor, reduction: i64, delta: f64) -> Tensor [self, target, reduction, delta];
}

// ---- binary classification ----------------------------------------------------------------------

fn bce_any(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64) -> Result<Tensor> {
    check_constant("binary_cross_entropy", "weight", weight)?;
    ensure!(
        x.sizes() == target.sizes(),
        "Using a target size ({:?}) that is different to the input size ({:?}) is deprecated. Please ensure they have the same \
         size.",
        target.sizes(),
        x.sizes()
    );
    ensure!(
        x.dtype() == target.dtype(),
        "Found dtype {} but expected {}",
        target.dtype().scalar_type_name(),
        x.dtype().scalar_type_name()
    );
    if !x.dtype().is_floating_point() {
        return Err(super::reduce::not_for("binary_cross_entropy", x.dtype()));
    }
    if x.numel() > 0 && !x.device().is_meta() {
        for (name, t) in [("input", x), ("target", target)] {
            let (least, most) = t.aminmax(None, false)?;
            let (least, most) = (least.item()?.to_f64(), most.item()?.to_f64());
            ensure!(least >= 0.0 && most <= 1.0, "all elements of {name} should be between 0 and 1");
        }
    }
    let loss = _binary_cross_entropy::OP.call(&[x.into(), target.into()])?.one()?;
    reduce(weighed(loss, weight)?, reduction)
}

/// Times the weights, if there are any.
fn weighed(x: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    match weight {
        Some(w) => x.mul(w),
        None => Ok(x),
    }
}

op! {
    /// Cross entropy of probabilities with targets between 0 and 1.
    binary_cross_entropy: "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
        Out OUT: "binary_cross_entropy.out(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(bce_any; x, target, weight, reduction));
    derivative: backward! {
        self_(g, self_: Tensor, target: Tensor, weight: Option<Tensor>, reduction: i64) => {
            let g = weighed(g.clone(), weight.as_ref())?;
            sloped(&_binary_cross_entropy_slope::OP, &g, [&self_, &target], reduction, None)?
        },
        target(g, self_: Tensor, target: Tensor, weight: Option<Tensor>, reduction: i64) => {
            let slope = self_.neg()?.log1p()?.clamp_min(-100.0)?.sub(&self_.log()?.clamp_min(-100.0)?)?;
            weighed(slope.mul(g)?, weight.as_ref())?.mul(factor(&self_, &target, reduction)?)?
        },
    };
    forward: Forward::FromBackward;
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.uniform(&[2, 3], 0.1, 0.9), m.uniform(&[2, 3], 0.1, 0.9), (), 1], sample![m.uniform(&[2, 3], 0.1, 0.9), m.uniform(&[2, 3], 0.1, 0.9), m.uniform_of(DType::I64, &[3], 1.0, 4.0), 0]] } else { vec![] };
    fn binary_cross_entropy(&self, target: &Tensor, weight: Option<&Tensor>, reduction: i64) -> Tensor [self, target, weight, reduction];
}

fn bce_logits_any(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, pos_weight: Option<&Tensor>, reduction: i64) -> Result<Tensor> {
    for (name, t) in [("weight", weight), ("pos_weight", pos_weight)] {
        check_constant("binary_cross_entropy_with_logits", name, t)?;
    }
    if x.sizes() != target.sizes() {
        return Err(Error::value(format!(
            "Target size ({:?}) must be the same as input size ({:?})",
            target.sizes(),
            x.sizes()
        )));
    }
    if target.dtype().is_integral(false) {
        crate::out::castable(x.dtype(), target.dtype())?;
    }
    let loss = if pos_weight.is_none() && x.dtype() == target.dtype() {
        _binary_cross_entropy_with_logits::OP.call(&[x.into(), target.into()])?.one()?
    } else {
        // The result has the target's dtype.
        let mut positive = x.log_sigmoid()?;
        if let Some(p) = pos_weight {
            positive = p.sub(1.0)?.mul(target)?.add(1.0)?.mul(&positive)?;
        }
        target.rsub(1.0)?.mul(x)?.to_dtype(target.dtype())?.sub(&positive)?.to_dtype(target.dtype())?
    };
    reduce(weighed(loss, weight)?, reduction)
}

op! {
    /// Cross entropy of logits with targets between 0 and 1; `pos_weight` weighs the positive part.
    binary_cross_entropy_with_logits: "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor",
        Out OUT: "binary_cross_entropy_with_logits.out(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(bce_logits_any; x, target, weight, pos_weight, reduction));
    derivative: backward! {
        self_(g, self_: Tensor, target: Tensor, weight: Option<Tensor>, pos_weight: Option<Tensor>, reduction: i64) => {
            let g = weighed(g.clone(), weight.as_ref())?;
            match pos_weight {
                None => sloped(&_binary_cross_entropy_with_logits_slope::OP, &g, [&self_, &target], reduction, None)?,
                Some(p) => {
                    let positive = p.mul(&target)?;
                    let all = positive.add(1.0)?.sub(&target)?;
                    all.mul(&self_.sigmoid()?)?.sub(&positive)?.mul(&g)?.mul(factor(&self_, &target, reduction)?)?
                }
            }
        },
        target(g, self_: Tensor, target: Tensor, weight: Option<Tensor>, pos_weight: Option<Tensor>, reduction: i64) => {
            let slope = match pos_weight {
                None => self_.neg()?,
                Some(p) => self_.neg()?.log_sigmoid()?.sub(&p.mul(&self_.log_sigmoid()?)?)?,
            };
            weighed(slope.mul(g)?, weight.as_ref())?.mul(factor(&self_, &target, reduction)?)?
        },
    };
    forward: Forward::FromBackward;
    samples: |m| {
        let logits = |weight: OwnedValue, positive: OwnedValue, reduction: i64, m: &mut Maker| {
            sample![m.any(&[2, 3]), m.uniform(&[2, 3], 0.1, 0.9), weight, positive, reduction]
        };
        // Weights have no gradients, so these are integers, which would be wider than halves in the middle of it.
        let integers = |m: &mut Maker| OwnedValue::Tensor(m.uniform_of(DType::I64, &[3], 1.0, 4.0));
        match m.dtype {
            DType::F32 | DType::F64 => {
                let (weight, positive) = (integers(m), integers(m));
                vec![logits(OwnedValue::None, OwnedValue::None, 1, m), logits(weight, positive, 0, m)]
            }
            DType::F16 | DType::BF16 => vec![logits(OwnedValue::None, OwnedValue::None, 1, m)],
            _ => vec![],
        }
    };
    fn binary_cross_entropy_with_logits(&self, target: &Tensor, weight: Option<&Tensor>, pos_weight: Option<&Tensor>, reduction: i64) -> Tensor
        [self, target, weight, pos_weight, reduction];
}

// ---- classification -----------------------------------------------------------------------------

/// Which dim holds the classes.
pub(super) fn class_dim(x: &Tensor) -> i64 {
    if x.dim() == 1 { 0 } else { 1 }
}

fn cross_entropy_any(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    label_smoothing: f64,
) -> Result<Tensor> {
    // What is below zero counts as none.
    ensure!(label_smoothing <= 1.0, "label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}");
    if target.sizes() == x.sizes() {
        ensure!(
            target.dtype().is_differentiable(),
            "Expected floating point type for target with class probabilities, got {}",
            target.dtype().scalar_type_name()
        );
        ensure!(ignore_index < 0, "ignore_index is not supported for floating point target");
    }
    let dim = class_dim(x);
    let classes = x.size(dim)? as f64;
    let log_p = x.log_softmax(dim, None)?;
    let along = |w: &Tensor| {
        let mut sizes = Dims::from_elem(1, x.dim());
        sizes[dim as usize] = w.numel();
        w.view(&sizes)
    };
    if target.sizes() == x.sizes() {
        // Targets are probabilities.
        let target = match label_smoothing > 0.0 {
            true => target.mul(1.0 - label_smoothing)?.add(label_smoothing / classes)?,
            false => target.clone(),
        };
        let mut weighted = log_p.mul(&target)?;
        if let Some(w) = weight {
            weighted = weighted.mul(&along(w)?)?;
        }
        let loss = weighted.sum_dim(&[dim], false)?.neg()?;
        return match reduction {
            1 => {
                let n = if x.dim() == 1 { 1 } else { x.numel() / x.size(dim)?.max(1) };
                loss.sum()?.div(n)
            }
            r => reduce(loss, r),
        };
    }
    let loss = log_p.nll_loss(target, weight, reduction, ignore_index)?;
    if label_smoothing <= 0.0 {
        return Ok(loss);
    }
    let spread = match weight {
        Some(w) => log_p.mul(&along(w)?)?,
        None => log_p.clone(),
    };
    let smooth = spread.sum_dim(&[dim], false)?.neg()?;
    let ignored = target.eq(ignore_index)?;
    let smooth = smooth.masked_fill(&ignored, 0)?;
    let smooth = match reduction {
        1 => match weight {
            Some(w) => {
                let safe = target.to_dtype(crate::DType::I64)?.masked_fill(&ignored, 0)?;
                smooth.sum()?.div(&w.index(&[Some(safe)])?.masked_fill(&ignored, 0)?.sum()?)?
            }
            None => smooth.sum()?.div(&ignored.logical_not()?.sum()?.to_dtype(x.dtype())?)?,
        },
        r => reduce(smooth, r)?,
    };
    loss.mul(1.0 - label_smoothing)?.add(&smooth.mul(label_smoothing / classes)?)
}

op! {
    /// Cross entropy of logits (N, C, ...) with class indices (N, ...) or class probabilities (N, C, ...).
    cross_entropy_loss: "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor";
    Body::Composite(kernel!(cross_entropy_any; x, target, weight, reduction, ignore_index, label_smoothing));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3, 4]), m.indices(&[3], 4), (), 1, -100, 0.0], sample![m.any(&[2, 4, 3]), m.indices(&[2, 3], 4), m.uniform_of(DType::I64, &[4], 1.0, 4.0), 2, 1, 0.1]],
        false => vec![],
    };
    ulp: 32.0;
    fn cross_entropy_loss(&self, target: &Tensor, weight: Option<&Tensor>, reduction: i64, ignore_index: i64, label_smoothing: f64) -> Tensor
        [self, target, weight, reduction, ignore_index, label_smoothing];
}

fn kl_div_any(x: &Tensor, target: &Tensor, reduction: i64, log_target: bool) -> Result<Tensor> {
    ensure!(
        x.dtype().is_differentiable() && target.dtype().is_differentiable(),
        "kl_div: Integral inputs not supported."
    );
    let loss = match log_target {
        true => target.exp()?.mul(&target.sub(x)?)?,
        false => target.xlogy(target)?.sub(&target.mul(x)?)?,
    };
    reduce(loss, reduction)
}

op! {
    /// The Kullback-Leibler divergence of log-probabilities from a target (probabilities, or their logarithms).
    kl_div: "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor";
    Body::Composite(kernel!(kl_div_any; x, target, reduction, log_target));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), m.uniform(&[2, 3], 0.1, 0.9), 1, false], sample![m.any(&[2, 3]), m.any(&[2, 3]), 2, true]] } else { vec![] };
    ulp: 32.0;
    fn kl_div(&self, target: &Tensor, reduction: i64, log_target: bool) -> Tensor [self, target, reduction, log_target];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    binary_cross_entropy::ALL,
    binary_cross_entropy_with_logits::ALL,
    cross_entropy_loss::ALL,
    huber_loss::ALL,
    kl_div::ALL,
    l1_loss::ALL,
    mse_loss::ALL,
    smooth_l1_loss::ALL,
];

