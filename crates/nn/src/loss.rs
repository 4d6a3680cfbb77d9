//! Losses, averaged over their elements unless told otherwise.

use flambeau::{Result, Tensor};

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
