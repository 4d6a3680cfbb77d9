//! Connectionist temporal classification (Graves et al., 2006): the probability of a sequence of labels, summed over all
//! its alignments with the time steps.
//!
//! Like PyTorch's, the gradient is the one through the softmax that the log-probabilities come from: for numbers that are
//! not normalised it is not the derivative.

use super::loss::reduce;
use crate::{Body, DType, Error, Op, Result, Tensor, backward, ensure, sample};
use flambeau_cpu::ctc::{self as kernels, Sample};

/// A batch of problems.
struct Batch<'a> {
    /// Time steps, samples, labels.
    steps: usize,
    samples: usize,
    labels: usize,
    /// By sample: how many steps count, and where its labels are in `targets`.
    inputs: &'a [i64],
    targets: Vec<Vec<usize>>,
    blank: usize,
    /// States of the longest sample: its labels, and blanks around each.
    states: usize,
}

impl Batch<'_> {
    fn of<'a>(lp: &Tensor, targets: &Tensor, inputs: &'a [i64], lengths: &[i64], blank: i64) -> Result<Batch<'a>> {
        const WHERE: &str = "(while checking arguments for ctc_loss_allocate_outputs)";
        ensure!(lp.numel() > 0, "log_probs tensor must not be empty");
        ensure!(lp.dim() == 3, "Expected 3-dimensional tensor, but got {}-dimensional tensor for argument #1 'log_probs' {WHERE}", lp.dim());
        if !matches!(lp.dtype(), DType::F32 | DType::F64 | DType::F16 | DType::BF16) {
            let name = lp.dtype().scalar_type_name();
            return Err(Error::not_implemented(format!("\"ctc_loss_cpu\" not implemented for '{name}'")));
        }
        ensure!(matches!(targets.dtype(), DType::I64 | DType::I32), "targets must be of integral type, but got {}", targets.dtype().scalar_type_name());
        let [steps, samples, labels] = [lp.sizes()[0], lp.sizes()[1], lp.sizes()[2]];
        ensure!((0..labels).contains(&blank), "blank must be in label range");
        ensure!(inputs.len() as i64 == samples, "input_lengths must be of size batch_size");
        ensure!(lengths.len() as i64 == samples, "target_lengths must be of size batch_size");
        for (name, lengths) in [("target_lengths", lengths), ("input_lengths", inputs)] {
            if let Some(n) = lengths.iter().find(|n| **n < 0) {
                return Err(Error::runtime(format!("Expected {name} to have value at least 0, but got value {n} {WHERE}")));
            }
        }
        if let Some(n) = inputs.iter().find(|n| **n > steps) {
            return Err(Error::runtime(format!("Expected input_lengths to have value at most {steps}, but got value {n} {WHERE}")));
        }
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let total = lengths.iter().try_fold(0i64, |sum, n| sum.checked_add(*n));
        let total = total.ok_or_else(|| Error::runtime("target_lengths are too large"))?;
        let size_error = |size: String, d: usize, got: i64| {
            Error::runtime(format!("Expected tensor to have size {size} at dimension {d}, but got size {got} for argument #2 'targets' {WHERE}"))
        };
        let starts: Vec<i64> = match targets.sizes() {
            [n] => {
                if *n != total {
                    return Err(size_error(total.to_string(), 0, *n));
                }
                lengths.iter().scan(0, |at, n| { let start = *at; *at += n; Some(start) }).collect()
            }
            [n, width] => {
                if *n != samples {
                    return Err(size_error(samples.to_string(), 0, *n));
                }
                if *width < longest {
                    return Err(size_error(format!("at least {longest}"), 1, *width));
                }
                (0..samples).map(|b| b * width).collect()
            }
            other => return Err(Error::runtime(format!("targets must have one or two dims, but got {other:?}"))),
        };
        let flat = if targets.device().is_meta() { vec![0; targets.numel() as usize] } else { targets.to_vec::<i64>()? };
        let targets = starts
            .iter()
            .zip(lengths)
            .map(|(&start, &n)| {
                let own = &flat[start as usize..(start + n) as usize];
                match own.iter().find(|l| !(0..labels).contains(*l)) {
                    Some(l) => Err(Error::runtime(format!("ctc_loss: target {l} is not in the range of {labels} labels"))),
                    None => Ok(own.iter().map(|l| *l as usize).collect()),
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let states = longest.checked_mul(2).and_then(|n| n.checked_add(1));
        Ok(Batch {
            steps: steps as usize,
            samples: samples as usize,
            labels: labels as usize,
            inputs,
            targets,
            blank: blank as usize,
            states: states.ok_or_else(|| Error::runtime("target_lengths are too large"))? as usize,
        })
    }

    /// The labels of a sample's states, of which every other one is blank, and 0 for those that may be reached from two
    /// before: if both have labels, and different ones.
    fn path(&self, b: usize) -> (Vec<usize>, Vec<f64>) {
        let targets = &self.targets[b];
        let label = |s: usize| if s.is_multiple_of(2) { self.blank } else { targets[s / 2] };
        let skips = |s: usize| s % 2 == 1 && s >= 3 && targets[s / 2] != targets[s / 2 - 1];
        let states = 0..2 * targets.len() + 1;
        (states.clone().map(label).collect(), states.map(|s| if skips(s) { 0.0 } else { NEVER }).collect())
    }

    /// A sample among the log-probabilities of all.
    fn sample<'a>(&self, b: usize, log_probabilities: &'a [f64], (states, skips): &'a (Vec<usize>, Vec<f64>)) -> Sample<'a> {
        Sample {
            log_probabilities: &log_probabilities[b * self.labels..],
            stride: self.samples * self.labels,
            labels: self.labels,
            steps: self.inputs[b] as usize,
            states,
            skips,
        }
    }
}

const NEVER: f64 = f64::NEG_INFINITY;

fn forward_any(lp: &Tensor, targets: &Tensor, inputs: &[i64], lengths: &[i64], blank: i64, _zero_infinity: bool) -> Result<(Tensor, Tensor)> {
    let batch = Batch::of(lp, targets, inputs, lengths, blank)?;
    let sizes = [batch.samples as i64, batch.steps as i64, batch.states as i64];
    crate::dims::checked_numel(&sizes)?;
    let (dtype, device) = (lp.dtype(), lp.device());
    if device.is_meta() {
        return Ok((Tensor::empty(&sizes[..1], (dtype, device))?, Tensor::empty(&sizes, (dtype, device))?));
    }
    let p = lp.to_vec::<f64>()?;
    let mut losses = vec![0.0; batch.samples];
    let plane = batch.steps * batch.states;
    let mut alphas = vec![NEVER; batch.samples * plane];
    for b in 0..batch.samples {
        let path = batch.path(b);
        losses[b] = kernels::forward(batch.sample(b, &p, &path), &mut alphas[b * plane..][..plane], batch.states);
    }
    Ok((Tensor::from_slice(&losses)?.to_dtype(dtype)?, Tensor::from_slice_of(&alphas, &sizes)?.to_dtype(dtype)?))
}

fn backward_any(
    g: &Tensor,
    lp: &Tensor,
    targets: &Tensor,
    inputs: &[i64],
    lengths: &[i64],
    losses: &Tensor,
    alphas: &Tensor,
    blank: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let batch = Batch::of(lp, targets, inputs, lengths, blank)?;
    let sizes = [batch.samples as i64, batch.steps as i64, batch.states as i64];
    ensure!(
        g.sizes() == &sizes[..1] && losses.sizes() == &sizes[..1] && alphas.sizes() == sizes,
        "_ctc_loss_backward: the gradient or the saved results do not fit the input"
    );
    if lp.device().is_meta() {
        return Tensor::empty(lp.sizes(), (lp.dtype(), lp.device()));
    }
    let (p, g, losses, alphas) = (lp.to_vec::<f64>()?, g.to_vec::<f64>()?, losses.to_vec::<f64>()?, alphas.to_vec::<f64>()?);
    let plane = batch.steps * batch.states;
    let mut out = vec![0.0; p.len()];
    for b in 0..batch.samples {
        if zero_infinity && losses[b] == f64::INFINITY {
            continue;
        }
        let (path, alphas) = (batch.path(b), &alphas[b * plane..][..plane]);
        let out = &mut out[b * batch.labels..];
        kernels::backward(batch.sample(b, &p, &path), alphas, batch.states, losses[b], g[b], out);
    }
    Tensor::from_slice_of(&out, lp.sizes())?.to_dtype(lp.dtype())
}

op! {
    /// The negative log-probabilities of label sequences (N, S), or all in a row, given log-probabilities (T, N, C); and the
    /// forward variables.
    ctc_forward: "_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
        Out OUT: "_ctc_loss.out(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, bool zero_infinity=False, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))";
    Body::Explicit(kernel!(forward_any; lp, targets, inputs, lengths, blank, zero_infinity));
    derivative: backward! {
        log_probs(g, log_probs: Tensor, targets: Tensor, input_lengths: crate::Dims, target_lengths: crate::Dims, result0: Tensor, result1: Tensor, blank: i64, zero_infinity: bool) =>
            ctc_backward::OP.call(&[
                g.into(), (&log_probs).into(), (&targets).into(), (&input_lengths).into(), (&target_lengths).into(), (&result0).into(),
                (&result1).into(), blank.into(), zero_infinity.into(),
            ])?.one()?
    };
    // Not of doubles: the gradient is not that of the numbers given, see above.
    samples: |m| match m.dtype {
        DType::F32 => vec![sample![m.uniform(&[5, 2, 4], -3.0, -0.1), m.uniform_of(DType::I64, &[2, 2], 1.0, 4.0), vec![5i64, 4], vec![2i64, 1], 0, false]],
        _ => vec![],
    };
    ulp: 256.0;
}
op! {
    /// The gradient of connectionist temporal classification, through the softmax that the log-probabilities come from.
    ctc_backward: "_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) -> Tensor",
        Out OUT: "_ctc_loss_backward.out(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(backward_any; g, lp, targets, inputs, lengths, losses, alphas, blank, zero_infinity));
    derivative: crate::autograd::Derivative::NotImplemented("as in PyTorch, ctc_loss can be differentiated once");
    samples: |m| match m.dtype {
        DType::F32 => {
            let (lp, targets) = (m.uniform(&[5, 2, 4], -3.0, -0.1), m.uniform_of(DType::I64, &[2, 2], 1.0, 4.0));
            match forward_any(&lp, &targets, &[5, 4], &[2, 1], 0, false) {
                Ok((losses, alphas)) => vec![sample![m.any(&[2]), lp, targets, vec![5i64, 4], vec![2i64, 1], losses, alphas, 0, false]],
                Err(_) => vec![],
            }
        }
        _ => vec![],
    };
    ulp: 256.0;
}

fn lengths_of(name: &str, lengths: &Tensor) -> Result<Vec<i64>> {
    ensure!(lengths.dtype().is_integral(false), "{name} must be integral");
    lengths.to_vec::<i64>()
}

fn forward_tensors(lp: &Tensor, targets: &Tensor, inputs: &Tensor, lengths: &Tensor, blank: i64, zero_infinity: bool) -> Result<(Tensor, Tensor)> {
    let (inputs, lengths) = (lengths_of("input_lengths", inputs)?, lengths_of("target_lengths", lengths)?);
    let results = ctc_forward::OP.call(&[lp.into(), targets.into(), inputs[..].into(), lengths[..].into(), blank.into(), zero_infinity.into()])?;
    results.array().map(|[losses, alphas]| (losses, alphas))
}

op! {
    /// [`ctc_forward`] with lengths in tensors.
    ctc_forward_tensors: "_ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
        Out OUT: "_ctc_loss.Tensor_out(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, bool zero_infinity=False, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))";
    Body::Composite(kernel!(forward_tensors; lp, targets, inputs, lengths, blank, zero_infinity));
    samples: |m| lengths_in_tensors(m, |sample| sample);
    ulp: 256.0;
}

/// The samples with their lengths as tensors.
fn lengths_in_tensors(m: &mut crate::samples::Maker, change: fn(crate::samples::Sample) -> crate::samples::Sample) -> Vec<crate::samples::Sample> {
    let mut samples = crate::samples::of(&ctc_forward::OP, m);
    for sample in &mut samples {
        for i in [2, 3] {
            if let crate::OwnedValue::Ints(lengths) = &sample.args[i]
                && let Ok(t) = Tensor::from_slice(lengths)
            {
                sample.args[i] = t.into();
            }
        }
    }
    samples.into_iter().map(change).collect()
}

/// With the reduction before the last argument.
fn with_reduction(mut sample: crate::samples::Sample) -> crate::samples::Sample {
    sample.args.insert(5, 1i64.into());
    sample
}

fn ctc_loss_any(lp: &Tensor, targets: &Tensor, inputs: &[i64], lengths: &[i64], blank: i64, reduction: i64, zero_infinity: bool) -> Result<Tensor> {
    let batched = lp.dim() == 3;
    let lp = if batched { lp.clone() } else { lp.unsqueeze(1)? };
    let targets = if batched || targets.dim() != 1 { targets.clone() } else { targets.unsqueeze(0)? };
    let results = ctc_forward::OP.call(&[(&lp).into(), (&targets).into(), inputs.into(), lengths.into(), blank.into(), zero_infinity.into()])?;
    let [mut losses, _] = results.array()?;
    if zero_infinity {
        losses = Tensor::where_(&losses.eq(f64::INFINITY)?, &losses.zeros_like()?, &losses)?;
    }
    if reduction == 1 {
        let lengths = Tensor::from_slice(lengths)?.to_options(Some(losses.dtype()), Some(losses.device()))?.clamp_min(1)?;
        return losses.div(&lengths)?.mean();
    }
    let losses = reduce(losses, reduction)?;
    if batched || reduction != 0 { Ok(losses) } else { losses.squeeze_dim(0) }
}

op! {
    /// The loss of label sequences (N, S), or all in a row, given log-probabilities (T, N, C) or (T, C). The mean is over the
    /// samples, each divided by its length.
    ctc_loss: "ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor";
    Body::Composite(kernel!(ctc_loss_any; lp, targets, inputs, lengths, blank, reduction, zero_infinity));
    samples: |m| crate::samples::of(&ctc_forward::OP, m).into_iter().map(with_reduction).collect();
    ulp: 256.0;
    fn ctc_loss(log_probs: &Tensor, targets: &Tensor, input_lengths: &[i64], target_lengths: &[i64], blank: i64, reduction: i64, zero_infinity: bool) -> Tensor
        [log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity];
}

fn ctc_loss_tensors(lp: &Tensor, targets: &Tensor, inputs: &Tensor, lengths: &Tensor, blank: i64, reduction: i64, zero_infinity: bool) -> Result<Tensor> {
    let (inputs, lengths) = (lengths_of("input_lengths", inputs)?, lengths_of("target_lengths", lengths)?);
    ctc_loss_any(lp, targets, &inputs, &lengths, blank, reduction, zero_infinity)
}

op! {
    /// [`Tensor::ctc_loss`] with lengths in tensors.
    ctc_loss_tensors: "ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor";
    Body::Composite(kernel!(ctc_loss_tensors; lp, targets, inputs, lengths, blank, reduction, zero_infinity));
    samples: |m| lengths_in_tensors(m, with_reduction);
    ulp: 256.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] =
    &[ctc_backward::ALL, ctc_forward::ALL, ctc_forward_tensors::ALL, ctc_loss::ALL, ctc_loss_tensors::ALL];
