//! Losses. `reduction` is 0 for none, 1 for the mean, 2 for the sum.

use crate::dims::Dims;
use crate::{Body, DType, Error, Op, Result, Tensor, ensure, sample};

pub(super) fn reduce(loss: Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        0 => Ok(loss),
        1 => loss.mean(),
        2 => loss.sum(),
        r => Err(Error::value(format!("{r} is not a valid value for reduction"))),
    }
}

/// Inputs and targets broadcast, as PyTorch's losses do.
fn float_pair(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    x.sub(target)
}

/// A loss's elements from the differences. Those of halves are worked out in single precision and rounded once.
fn elements(kernel: &str, x: &Tensor, target: &Tensor, loss: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let dtype = x.dtype().promote(target.dtype());
    if !dtype.is_floating_point() {
        return Err(super::reduce::not_for(kernel, dtype));
    }
    if !matches!(dtype, DType::F16 | DType::BF16) {
        return loss(&float_pair(x, target)?);
    }
    loss(&float_pair(&x.to_dtype(DType::F32)?, &target.to_dtype(DType::F32)?)?)?.to_dtype(dtype)
}

// ---- regression ---------------------------------------------------------------------------------

fn mse_any(x: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    reduce(elements("mse_cpu", x, target, |d| d.mul(d))?, reduction)
}

op! {
    /// The squared difference.
    mse_loss: "mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
        Out OUT: "mse_loss.out(Tensor self, Tensor target, int reduction=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(mse_any; x, target, reduction));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1], sample![m.any(&[2, 3]), m.any(&[3]), 0]] } else { vec![] };
    ulp: 8.0;
    fn mse_loss(&self, target: &Tensor, reduction: i64) -> Tensor [self, target, reduction];
}

fn l1_any(x: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    reduce(float_pair(x, target)?.abs()?, reduction)
}

op! {
    /// The absolute difference.
    l1_loss: "l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor";
    Body::Composite(kernel!(l1_any; x, target, reduction));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1], sample![m.any(&[2, 3]), m.any(&[2, 3]), 2]];
    fn l1_loss(&self, target: &Tensor, reduction: i64) -> Tensor [self, target, reduction];
}

/// Half the square up to `limit`, and on as a line: with `c` the difference within the limit, `c (d - c / 2)`.
fn bent_square(d: &Tensor, limit: f64) -> Result<Tensor> {
    let within = d.clamp(-limit, limit)?;
    d.add_scaled(&within, -0.5)?.mul(&within)
}

fn smooth_l1_any(x: &Tensor, target: &Tensor, reduction: i64, beta: f64) -> Result<Tensor> {
    ensure!(beta >= 0.0, "smooth_l1_loss does not support negative values for beta.");
    if beta == 0.0 {
        return l1_any(x, target, reduction);
    }
    let element = |d: &Tensor| {
        let loss = bent_square(d, beta)?;
        if beta == 1.0 { Ok(loss) } else { loss.div(beta) }
    };
    reduce(elements("smooth_l1_cpu", x, target, element)?, reduction)
}

op! {
    /// Half the square (over `beta`) where the difference is below `beta`, linear beyond.
    smooth_l1_loss: "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor",
        Out OUT: "smooth_l1_loss.out(Tensor self, Tensor target, int reduction=1, float beta=1., *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(smooth_l1_any; x, target, reduction, beta));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1, 1.0], sample![m.any(&[2, 3]), m.any(&[2, 3]), 0, 0.5]] } else { vec![] };
    fn smooth_l1_loss(&self, target: &Tensor, reduction: i64, beta: f64) -> Tensor [self, target, reduction, beta];
}

fn huber_any(x: &Tensor, target: &Tensor, reduction: i64, delta: f64) -> Result<Tensor> {
    ensure!(delta > 0.0, "huber_loss does not support non-positive values for delta.");
    reduce(elements("huber_cpu", x, target, |d| bent_square(d, delta))?, reduction)
}

op! {
    /// Half the square where the difference is at most `delta`, linear beyond.
    huber_loss: "huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor",
        Out OUT: "huber_loss.out(Tensor self, Tensor target, int reduction=1, float delta=1., *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(huber_any; x, target, reduction, delta));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1, 1.0], sample![m.any(&[2, 3]), m.any(&[2, 3]), 0, 1.5]] } else { vec![] };
    fn huber_loss(&self, target: &Tensor, reduction: i64, delta: f64) -> Tensor [self, target, reduction, delta];
}

// ---- binary classification ----------------------------------------------------------------------

fn bce_any(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64) -> Result<Tensor> {
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
            let inside = t.ge(0.0)?.logical_and(&t.le(1.0)?)?.all()?.item()?.to_bool();
            ensure!(inside, "all elements of {name} should be between 0 and 1");
        }
    }
    // Logarithms are held above -100, so that a certain mistake has a finite loss.
    let log = x.log()?.clamp_min(-100.0)?;
    let log1m = x.neg()?.log1p()?.clamp_min(-100.0)?;
    let mut loss = target.sub(1.0)?.mul(&log1m)?.sub(&target.mul(&log)?)?;
    if let Some(w) = weight {
        loss = loss.mul(w)?;
    }
    reduce(loss, reduction)
}

op! {
    /// Cross entropy of probabilities with targets between 0 and 1.
    binary_cross_entropy: "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
        Out OUT: "binary_cross_entropy.out(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(bce_any; x, target, weight, reduction));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.uniform(&[2, 3], 0.1, 0.9), m.uniform(&[2, 3], 0.1, 0.9), (), 1], sample![m.uniform(&[2, 3], 0.1, 0.9), m.uniform(&[2, 3], 0.1, 0.9), m.uniform(&[3], 0.5, 2.0), 0]] } else { vec![] };
    fn binary_cross_entropy(&self, target: &Tensor, weight: Option<&Tensor>, reduction: i64) -> Tensor [self, target, weight, reduction];
}

fn bce_logits_any(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, pos_weight: Option<&Tensor>, reduction: i64) -> Result<Tensor> {
    if x.sizes() != target.sizes() {
        return Err(Error::value(format!(
            "Target size ({:?}) must be the same as input size ({:?})",
            target.sizes(),
            x.sizes()
        )));
    }
    if target.dtype().is_integral(false) {
        (crate::OutRule::CASTABLE.dtype)(x.dtype(), target.dtype())?;
    }
    let log_sigmoid = x.log_sigmoid()?;
    let one_minus = target.rsub(1.0)?;
    let mut loss = match pos_weight {
        Some(p) => one_minus.mul(x)?.sub(&p.sub(1.0)?.mul(target)?.add(1.0)?.mul(&log_sigmoid)?)?,
        None => one_minus.mul(x)?.sub(&log_sigmoid)?,
    };
    if let Some(w) = weight {
        loss = loss.mul(w)?;
    }
    reduce(loss, reduction)
}

op! {
    /// Cross entropy of logits with targets between 0 and 1; `pos_weight` weighs the positive part.
    binary_cross_entropy_with_logits: "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor",
        Out OUT: "binary_cross_entropy_with_logits.out(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(bce_logits_any; x, target, weight, pos_weight, reduction));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), m.uniform(&[2, 3], 0.1, 0.9), (), (), 1], sample![m.any(&[2, 3]), m.uniform(&[2, 3], 0.1, 0.9), m.uniform(&[3], 0.5, 2.0), m.uniform(&[3], 0.5, 2.0), 0]] } else { vec![] };
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
        true => vec![sample![m.any(&[3, 4]), m.indices(&[3], 4), (), 1, -100, 0.0], sample![m.any(&[2, 4, 3]), m.indices(&[2, 3], 4), m.uniform_of(crate::DType::I64, &[4], 1.0, 4.0), 2, 1, 0.1]],
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

