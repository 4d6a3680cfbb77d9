//! Losses, averaged over their elements unless told otherwise.

use crate::operator;
use flambeau::{Error, Result, Scalar, Tensor, ensure};

/// What becomes of the elements' losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// They are the result.
    None = 0,
    /// Their (weighted) mean.
    #[default]
    Mean = 1,
    /// Their sum.
    Sum = 2,
}

/// How classes count in [`cross_entropy_with`] and [`nll_loss_with`].
#[derive(Clone, Debug)]
pub struct ClassOptions {
    /// A factor for each class.
    pub weight: Option<Tensor>,
    /// What becomes of the elements' losses.
    pub reduction: Reduction,
    /// A class that counts nothing.
    pub ignore_index: i64,
    /// The share of the target that is spread over all classes (cross entropy only).
    pub label_smoothing: f64,
}

impl Default for ClassOptions {
    fn default() -> Self {
        ClassOptions { weight: None, reduction: Reduction::Mean, ignore_index: -100, label_smoothing: 0.0 }
    }
}

/// The cross entropy between scores (batch, classes, ...) and classes (batch, ...) or probabilities (batch, classes,
/// ...).
///
/// # Errors
/// When shapes or dtypes do not fit, or a class is out of range.
pub fn cross_entropy(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    cross_entropy_with(input, target, &ClassOptions::default())
}

/// [`cross_entropy`] as `options` say.
///
/// # Errors
/// As [`cross_entropy`].
pub fn cross_entropy_with(input: &Tensor, target: &Tensor, options: &ClassOptions) -> Result<Tensor> {
    let ClassOptions { weight, reduction, ignore_index, label_smoothing } = options;
    input.cross_entropy_loss(target, weight.as_ref(), *reduction as i64, *ignore_index, *label_smoothing)
}

/// Minus the log-probability (batch, classes, ...) of each class (batch, ...).
///
/// # Errors
/// As [`cross_entropy`].
pub fn nll_loss(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    nll_loss_with(input, target, &ClassOptions::default())
}

/// [`nll_loss`] as `options` say.
///
/// # Errors
/// As [`cross_entropy`].
pub fn nll_loss_with(input: &Tensor, target: &Tensor, options: &ClassOptions) -> Result<Tensor> {
    input.nll_loss(target, options.weight.as_ref(), options.reduction as i64, options.ignore_index)
}

/// The mean square of the difference.
///
/// # Errors
/// When the sizes cannot be broadcast.
pub fn mse_loss(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    input.mse_loss(target, Reduction::Mean as i64)
}

/// The mean absolute difference.
///
/// # Errors
/// When the sizes cannot be broadcast.
pub fn l1_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    input.l1_loss(target, reduction as i64)
}

/// The mean of a loss that is quadratic where the difference is below `beta`, and linear elsewhere.
///
/// # Errors
/// When the sizes cannot be broadcast, or `beta` is negative.
pub fn smooth_l1_loss(input: &Tensor, target: &Tensor, beta: f64, reduction: Reduction) -> Result<Tensor> {
    input.smooth_l1_loss(target, reduction as i64, beta)
}

/// The cross entropy between a logit and a probability, element by element.
///
/// # Errors
/// When the sizes differ.
pub fn binary_cross_entropy_with_logits(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    input.binary_cross_entropy_with_logits(target, None, None, reduction as i64)
}

/// The mean, sum or elements of the square of the difference.
///
/// # Errors
/// When the sizes cannot be broadcast.
pub fn mse_loss_with(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    input.mse_loss(target, reduction as i64)
}

/// A loss that is quadratic where the difference is below `delta`, and `delta` times its size elsewhere.
///
/// # Errors
/// When the sizes cannot be broadcast, or `delta` is not positive.
pub fn huber_loss(input: &Tensor, target: &Tensor, delta: f64, reduction: Reduction) -> Result<Tensor> {
    input.huber_loss(target, reduction as i64, delta)
}

/// How elements count in binary cross entropies.
#[derive(Clone, Debug, Default)]
pub struct BinaryOptions {
    /// A factor for each element.
    pub weight: Option<Tensor>,
    /// A factor for the positive part of each (with logits only).
    pub pos_weight: Option<Tensor>,
    /// What becomes of the elements' losses.
    pub reduction: Reduction,
}

/// [`binary_cross_entropy_with_logits`] as `options` say.
///
/// # Errors
/// When the sizes differ, or the weights' cannot be broadcast.
pub fn binary_cross_entropy_with_logits_with(
    input: &Tensor,
    target: &Tensor,
    options: &BinaryOptions,
) -> Result<Tensor> {
    let BinaryOptions { weight, pos_weight, reduction } = options;
    input.binary_cross_entropy_with_logits(target, weight.as_ref(), pos_weight.as_ref(), *reduction as i64)
}

/// The cross entropy between two probabilities, element by element.
///
/// # Errors
/// When the sizes differ, or the input is not between 0 and 1.
pub fn binary_cross_entropy(input: &Tensor, target: &Tensor, options: &BinaryOptions) -> Result<Tensor> {
    ensure!(
        input.sizes() == target.sizes(),
        "Using a target size ({:?}) that is different to the input size ({:?}) is deprecated. Please ensure they have the \
         same size.",
        target.sizes(),
        input.sizes()
    );
    input.binary_cross_entropy(target, options.weight.as_ref(), options.reduction as i64)
}

/// The divergence from `target`, probabilities, to `input`, logarithms of them, element by element; `log_target` says
/// that the target is logarithms too. The divergence of distributions is the sum over their elements.
///
/// # Errors
/// When the sizes cannot be broadcast.
pub fn kl_div(input: &Tensor, target: &Tensor, log_target: bool, reduction: Reduction) -> Result<Tensor> {
    input.kl_div(target, reduction as i64, log_target)
}

/// Minus the log-likelihood of counts under Poisson distributions, whose means the input is, or their logarithms;
/// `full` adds Stirling's approximation of the term without the input.
///
/// # Errors
/// When the sizes cannot be broadcast.
pub fn poisson_nll_loss(
    input: &Tensor,
    target: &Tensor,
    log_input: bool,
    full: bool,
    reduction: Reduction,
) -> Result<Tensor> {
    input.poisson_nll_loss(target, log_input, full, 1e-8, reduction as i64)
}

/// Minus the log-likelihood of numbers under normal distributions of these means and variances; `full` adds the constant
/// term.
///
/// # Errors
/// When the sizes cannot be broadcast, or a variance is negative.
pub fn gaussian_nll_loss(
    input: &Tensor,
    target: &Tensor,
    variance: &Tensor,
    full: bool,
    reduction: Reduction,
) -> Result<Tensor> {
    if variance.detach()?.lt(0.0)?.any()?.item()?.to_bool() {
        return Err(Error::value("var has negative entry/entries"));
    }
    // Variances below are taken for this one, and get no gradient by it.
    const LEAST: f64 = 1e-6;
    let clamped = variance.detach()?.clamp_min(LEAST)?;
    let variance = variance.add(&clamped.sub(&variance.detach()?)?)?;
    let mut loss = variance.log()?.add(&input.sub(target)?.square()?.div(&variance)?)?.mul(0.5)?;
    if full {
        loss = loss.add(0.5 * (2.0 * std::f64::consts::PI).ln())?;
    }
    reduced(loss, reduction)
}

/// From two vectors each and 1 or -1: one less their cosine, or how far it is above `margin`.
///
/// # Errors
/// When the sizes do not fit.
pub fn cosine_embedding_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    Tensor::cosine_embedding_loss(input1, input2, target, margin, reduction as i64)
}

/// From a distance each and 1 or -1: the distance, or how far it is below `margin`.
///
/// # Errors
/// When the sizes cannot be broadcast.
pub fn hinge_embedding_loss(input: &Tensor, target: &Tensor, margin: f64, reduction: Reduction) -> Result<Tensor> {
    input.hinge_embedding_loss(target, margin, reduction as i64)
}

/// How far the first input is not `margin` above the second, or below where the target is -1.
///
/// # Errors
/// When the sizes do not fit.
pub fn margin_ranking_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    Tensor::margin_ranking_loss(input1, input2, target, margin, reduction as i64)
}

/// How distances are compared in [`triplet_margin_loss`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TripletOptions {
    /// How much nearer the positive is to be.
    pub margin: f64,
    /// The norm of the distances.
    pub p: f64,
    /// Added to the differences.
    pub eps: f64,
    /// Whether the negative is to be far from the positive too (Balntas et al. 2016).
    pub swap: bool,
    /// What becomes of the elements' losses.
    pub reduction: Reduction,
}

impl Default for TripletOptions {
    fn default() -> Self {
        TripletOptions { margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}

/// How far the anchor is not nearer to the positive than to the negative by a margin; all are (batch, features).
///
/// # Errors
/// When the sizes do not fit.
pub fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    options: &TripletOptions,
) -> Result<Tensor> {
    let &TripletOptions { margin, p, eps, swap, reduction } = options;
    let reduction = reduction as i64;
    let tensors = [anchor.into(), positive.into(), negative.into()];
    let numbers = [margin.into(), p.into(), eps.into(), swap.into(), reduction.into()];
    operator("triplet_margin_loss")?.call(&[&tensors[..], &numbers[..]].concat())?.one()
}

/// `log(1 + exp(-target * input))` for targets of 1 and -1.
///
/// # Errors
/// When the sizes cannot be broadcast.
pub fn soft_margin_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    input.soft_margin_loss(target, reduction as i64)
}

/// How far each other class's score (batch, classes) comes within `margin` of that of the class (batch), to the power
/// `p` (1 or 2), over the number of classes.
///
/// # Errors
/// When the sizes do not fit, or a class is out of range.
pub fn multi_margin_loss(
    input: &Tensor,
    target: &Tensor,
    p: i64,
    margin: f64,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    let (p, margin) = (Scalar::Int(p), Scalar::Float(margin));
    let arguments = [input.into(), target.into(), p.into(), margin.into(), weight.into(), (reduction as i64).into()];
    operator("multi_margin_loss")?.call(&arguments)?.one()
}

/// How far the scores (batch, classes) of classes that a row of the target does not name come within 1 of those that it
/// names, over the number of classes. A row of the target (batch, classes) ends at its first -1.
///
/// # Errors
/// When the sizes do not fit, or a class is out of range.
pub fn multilabel_margin_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    operator("multilabel_margin_loss")?.call(&[input.into(), target.into(), (reduction as i64).into()])?.one()
}

/// The mean over the classes of their binary cross entropies, from scores and targets (batch, classes).
///
/// # Errors
/// When the sizes cannot be broadcast.
pub fn multilabel_soft_margin_loss(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    let positive = target.mul(&input.log_sigmoid()?)?;
    let negative = target.neg()?.add(1.0)?.mul(&input.neg()?.log_sigmoid()?)?;
    let mut loss = positive.add(&negative)?.neg()?;
    if let Some(weight) = weight {
        loss = loss.mul(weight)?;
    }
    reduced(loss.mean_dim(&[-1], false)?, reduction)
}

/// Minus the log-probability of labels (batch, length) or one after another, under any alignment with the
/// log-probabilities of labels over time (time, batch, labels) (Graves et al. 2006). `blank` is the label of none;
/// `zero_infinity` lets labels that cannot be aligned count nothing.
///
/// # Errors
/// When the sizes do not fit.
pub fn ctc_loss(
    log_probabilities: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
    reduction: Reduction,
    zero_infinity: bool,
) -> Result<Tensor> {
    let reduction = reduction as i64;
    Tensor::ctc_loss(log_probabilities, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
}

fn reduced(loss: Tensor, reduction: Reduction) -> Result<Tensor> {
    match reduction {
        Reduction::None => Ok(loss),
        Reduction::Mean => loss.mean(),
        Reduction::Sum => loss.sum(),
    }
}
