//! Losses of an input and a target: their elements and slopes as formulas, and the likelihood of classes.

use crate::Kernel;
use crate::array::{Array, outline, write};
use crate::functions::{larger, log_logistic, logistic};
use crate::pointwise::Real;
use flambeau::value::take;
use flambeau::{Error, Op, Outputs, Result, Tensor, Value};

/// Losses of an input and a target, and a parameter; slopes have the gradient before it and a factor at the end.
pub(crate) const REAL: &[Real] = &[
    ("_mse_loss", 2, |a| (a[0] - a[1]) * (a[0] - a[1])),
    ("_mse_loss_slope", 3, |a| 2.0 * (a[0] - a[1]) * a[2] * a[3]),
    ("_smooth_l1_loss", 2, |a| match (a[0] - a[1]).abs() {
        d if d < a[2] => 0.5 * d * d / a[2],
        d => d - 0.5 * a[2],
    }),
    ("_smooth_l1_loss_slope", 3, |a| match a[0] - a[1] {
        d if d.abs() < a[3] => a[4] * d * a[2] / a[3],
        d if d < 0.0 => -a[4] * a[2],
        _ => a[4] * a[2],
    }),
    ("_huber_loss", 2, |a| match (a[0] - a[1]).abs() {
        d if d <= a[2] => 0.5 * d * d,
        d => a[2] * (d - 0.5 * a[2]),
    }),
    ("_huber_loss_slope", 3, |a| match a[0] - a[1] {
        d if d.abs() < a[3] => a[4] * d * a[2],
        d if d < 0.0 => -a[4] * a[2] * a[3],
        _ => a[4] * a[2] * a[3],
    }),
    ("_binary_cross_entropy", 2, |a| {
        // PyTorch holds the logarithms above -100.
        (a[1] - 1.0) * larger((-a[0]).ln_1p(), -100.0) - a[1] * larger(a[0].ln(), -100.0)
    }),
    ("_binary_cross_entropy_slope", 3, |a| a[3] * a[2] * (a[0] - a[1]) / larger((1.0 - a[0]) * a[0], 1e-12)),
    ("_binary_cross_entropy_with_logits", 2, |a| (1.0 - a[1]) * a[0] - log_logistic(a[0])),
    ("_binary_cross_entropy_with_logits_slope", 3, |a| a[3] * a[2] * (logistic(a[0]) - a[1])),
];

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("nll_loss_forward", likelihood),
    ("nll_loss2d_forward", likelihood),
    ("nll_loss_backward", likelihood_slope),
    ("nll_loss2d_backward", likelihood_slope),
];

/// A target: its place among the targets, that of its class in the input, and the weight of the class.
struct Target {
    at: usize,
    place: usize,
    weight: f64,
}

/// The targets that count: an input is (classes), or (samples, classes, ...) for a target of (samples, ...).
fn targets(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, ignored: i64) -> Result<Vec<Target>> {
    let class_dim = if x.dim() > 1 { 1 } else { 0 };
    let classes = x.sizes()[class_dim];
    let inner = x.sizes()[class_dim + 1..].iter().product::<i64>() as usize;
    let weights = weight.map(Array::<f64>::read).transpose()?;
    let mut all = vec![];
    for (at, &class) in Array::<i64>::read(target)?.data.iter().enumerate().filter(|(_, class)| **class != ignored) {
        if !(0..classes).contains(&class) {
            return Err(Error::index(format!("Target {class} is out of bounds.")));
        }
        let place = (at / inner * classes as usize + class as usize) * inner + at % inner;
        all.push(Target { at, place, weight: weights.as_ref().map_or(1.0, |w| w.data[class as usize]) });
    }
    Ok(all)
}

/// The negative logarithms of the classes' probabilities: each by itself, their weighted mean or their sum; and the sum
/// of the weights.
fn likelihood(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, target): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let outs = outline(op, args)?;
    let all = targets(x, target, take(op, args, 2)?, take(op, args, 4)?)?;
    let x = Array::<f64>::read(x)?.data;
    let loss = |t: &Target| -t.weight * x[t.place];
    let reduction: i64 = take(op, args, 3)?;
    if reduction == 0 {
        let mut losses = vec![0.0; target.numel() as usize];
        all.iter().for_each(|t| losses[t.at] = loss(t));
        return Ok(vec![write(&outs[0], &losses)?, write(&outs[1], &[0.0])?].into());
    }
    let (sum, total): (f64, f64) = (all.iter().map(loss).sum(), all.iter().map(|t| t.weight).sum());
    let loss = if reduction == 1 { sum / total } else { sum };
    Ok(vec![write(&outs[0], &[loss])?, write(&outs[1], &[total])?].into())
}

/// The gradient of [`likelihood`]: where the targets' classes are.
fn likelihood_slope(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (g, x, target): (&Tensor, &Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?, take(op, args, 2)?);
    let out = outline(op, args)?.remove(0);
    let all = targets(x, target, take(op, args, 3)?, take(op, args, 5)?)?;
    let reduction: i64 = take(op, args, 4)?;
    let g = Array::<f64>::read_as(g, if reduction == 0 { target.sizes() } else { &[] })?.data;
    let total = Array::<f64>::read(take(op, args, 6)?)?.data;
    let mut slopes = vec![0.0; x.numel() as usize];
    for t in all {
        slopes[t.place] = match reduction {
            0 => -t.weight * g[t.at],
            1 => -t.weight * g[0] / total[0],
            _ => -t.weight * g[0],
        };
    }
    write(&out, &slopes).map(Outputs::from)
}
