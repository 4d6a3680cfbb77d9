//! Group norm: statistics of each sample's groups of channels.

use super::group_last;
use super::layer::{NormGradients, moments};
use super::rows::{Rows, SharedOperand, compute, compute_dtype, store, sums, values};
use crate::buffer::Scratch;
use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, Number, entry, level};
use crate::reduce::Operand;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;

/// Elements of work worth a parallel task.
pub(super) const TASK: usize = 1 << 15;

/// The sizes of (N, C, H, W), contiguous or with channels last: `spatial` is all that follows the channels. `groups` divides
/// `channels`.
#[derive(Clone, Copy, Debug)]
pub struct GroupNormShape {
    /// N.
    pub batch: usize,
    /// C.
    pub channels: usize,
    /// The product of the sizes after the channels.
    pub spatial: usize,
    /// The number of groups.
    pub groups: usize,
    /// Whether the channels of a position lie side by side, as (N, H, W, C).
    pub channels_last: bool,
}

impl GroupNormShape {
    pub(super) fn per_group(self) -> usize {
        self.channels / self.groups.max(1)
    }
}

/// Normalises each group of channels of each sample to mean 0 and variance 1, then applies each channel's weight and
/// bias. Writes the means and reciprocal standard deviations (N by groups) where asked. Instance norm is one group per
/// channel.
///
/// # Safety
/// Operands must be valid for their elements; `out` may equal `x`, and nothing else may overlap.
pub unsafe fn group_norm(
    shape: GroupNormShape,
    eps: f64,
    x: Operand,
    weight: Option<Operand>,
    bias: Option<Operand>,
    out: Operand,
    (mean, rstd): (Option<Operand>, Option<Operand>),
) {
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[x.dtype, out.dtype]), T => unsafe {
        match shape.channels_last {
            true => group_last::forward::<T>(shape, eps, x, weight, bias, out, (mean, rstd)),
            false => forward::<T>(shape, eps, x, weight, bias, out, (mean, rstd)),
        }
    })
}

/// The gradients of [`group_norm`], from what it saved.
///
/// # Safety
/// Operands must be valid for their elements; `gradients.input` may equal `grad`, and nothing else may overlap.
pub unsafe fn group_norm_backward(
    shape: GroupNormShape,
    grad: Operand,
    x: Operand,
    (mean, rstd): (Operand, Operand),
    weight: Option<Operand>,
    gradients: NormGradients,
) {
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[grad.dtype, x.dtype]), T => unsafe {
        match shape.channels_last {
            true => group_last::backward::<T>(shape, grad, x, (mean, rstd), weight, gradients),
            false => backward::<T>(shape, grad, x, (mean, rstd), weight, gradients),
        }
    })
}

/// A group: its channels' rows lie end to end.
struct ForwardGroup<T>(PhantomData<T>);
impl<T: Float> Kernel for ForwardGroup<T> {
    /// Input, output, (channels, elements of each), weights, biases, eps.
    type Args = (*const T, *mut T, (usize, usize), *const T, *const T, f64);
    type Output = (f64, f64);
    #[inline(always)]
    unsafe fn run<I: Isa>((x, out, (channels, spatial), weight, bias, eps): Self::Args) -> (f64, f64) {
        // SAFETY: the caller's contract: `channels * spatial` elements, `channels` parameters.
        unsafe {
            let (mean, rstd) = moments::<I, T, true>(x, channels * spatial, eps);
            let m = T::from_f64(mean);
            for c in 0..channels {
                let (scale, shift) = (T::from_f64(rstd) * *weight.add(c), *bias.add(c));
                for i in c * spatial..(c + 1) * spatial {
                    *out.add(i) = (*x.add(i) - m).mul_add::<I>(scale, shift);
                }
            }
            (mean, rstd)
        }
    }
}

unsafe fn forward<T: Float>(
    shape: GroupNormShape,
    eps: f64,
    x: Operand,
    weight: Option<Operand>,
    bias: Option<Operand>,
    out: Operand,
    (mean, rstd): (Option<Operand>, Option<Operand>),
) {
    let (channels, groups) = (shape.per_group(), shape.groups);
    let n = channels * shape.spatial;
    let group = entry::<ForwardGroup<T>>(level());
    // SAFETY: the caller's contract.
    let (weight, bias) = unsafe {
        (values::<T>(weight, shape.channels, T::ONE), values::<T>(bias, shape.channels, <T as Number>::ZERO))
    };
    let (x, out) = (Rows::<T>::new(x), Rows::<T>::new(out));
    let (mean, rstd) = (mean.map(SharedOperand::new), rstd.map(SharedOperand::new));
    parallel_for(shape.batch * groups, (TASK / n.max(1)).max(1), &|range| {
        let scratch = Scratch::<T>::new(2 * n);
        for r in range {
            let c = r % groups * channels;
            // SAFETY: a group of `n` elements, `channels` parameters, and one element of each statistic.
            unsafe {
                let from = x.read(r * n, n, scratch.get());
                let to = out.target(r * n, scratch.get().add(n));
                let (w, b) = (weight[c..].as_ptr(), bias[c..].as_ptr());
                let (m, s) = group((from, to, (channels, shape.spatial), w, b, eps));
                out.written(r * n, n, to);
                mean.inspect(|o| store(o.get(), r, &[m]));
                rstd.inspect(|o| store(o.get(), r, &[s]));
            }
        }
    });
}

struct BackwardGroup<T>(PhantomData<T>);
impl<T: Float> Kernel for BackwardGroup<T> {
    /// Gradient, input, output if any, (channels, elements of each), weights, mean, reciprocal deviation, and per
    /// channel the two sums: of the gradient times the normalised input, and of the gradient.
    type Args = (*const T, *const T, Option<*mut T>, (usize, usize), *const T, T, T, *mut [f64; 2]);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((grad, x, out, (channels, spatial), weight, mean, rstd, channel_sums): Self::Args) {
        // SAFETY: the caller's contract: `channels * spatial` elements, `channels` parameters and sums.
        unsafe {
            let (mut sum, mut dot) = (0.0, 0.0);
            for c in 0..channels {
                let (grad, x) = (grad.add(c * spatial), x.add(c * spatial));
                let channel = sums::<I, T, _>(spatial, |i| {
                    let g = *grad.add(i);
                    [g * ((*x.add(i) - mean) * rstd), g]
                });
                let w = (*weight.add(c)).to_f64();
                dot += w * channel[0];
                sum += w * channel[1];
                *channel_sums.add(c) = channel;
            }
            let Some(out) = out else { return };
            let n = (channels * spatial) as f64;
            let (a, b) = (T::from_f64(sum / n), T::from_f64(dot / n));
            for c in 0..channels {
                let w = *weight.add(c);
                for i in c * spatial..(c + 1) * spatial {
                    let normal = (*x.add(i) - mean) * rstd;
                    *out.add(i) = (*grad.add(i) * w - a - normal * b) * rstd;
                }
            }
        }
    }
}

unsafe fn backward<T: Float>(
    shape: GroupNormShape,
    grad: Operand,
    x: Operand,
    (mean, rstd): (Operand, Operand),
    weight: Option<Operand>,
    gradients: NormGradients,
) {
    let (channels, groups, batch) = (shape.per_group(), shape.groups, shape.batch);
    let n = channels * shape.spatial;
    let group = entry::<BackwardGroup<T>>(level());
    // SAFETY: the caller's contract.
    let (weight, mean, rstd) = unsafe {
        (
            values::<T>(weight, shape.channels, T::ONE),
            values::<T>(Some(mean), batch * groups, <T as Number>::ZERO),
            values::<T>(Some(rstd), batch * groups, T::ONE),
        )
    };
    let (grad, x) = (Rows::<T>::new(grad), Rows::<T>::new(x));
    let input = gradients.input.map(Rows::<T>::new);
    let mut channel_sums = vec![[0.0f64; 2]; batch * shape.channels];
    let shared = Shared(channel_sums.as_mut_ptr());
    parallel_for(batch * groups, (TASK / n.max(1)).max(1), &|range| {
        let scratch = Scratch::<T>::new(3 * n);
        for r in range {
            let c = r % groups * channels;
            // SAFETY: a group of `n` elements; the scratch memory holds three; each group has its own channels' sums.
            unsafe {
                let g = grad.read(r * n, n, scratch.get());
                let x = x.read(r * n, n, scratch.get().add(n));
                let to = input.as_ref().map(|out| out.target(r * n, scratch.get().add(2 * n)));
                let w = weight[c..].as_ptr();
                let sums = shared.get().add(r * channels);
                group((g, x, to, (channels, shape.spatial), w, mean[r], rstd[r], sums));
                if let (Some(out), Some(to)) = (&input, to) {
                    out.written(r * n, n, to);
                }
            }
        }
    });
    // SAFETY: the caller's contract.
    unsafe { store_parameter_gradients(shape, &channel_sums, gradients) };
}

/// Adds up the sums of samples' channels, and stores them.
///
/// # Safety
/// The parameters' gradients must be valid for one element per channel.
pub(super) unsafe fn store_parameter_gradients(
    shape: GroupNormShape,
    channel_sums: &[[f64; 2]],
    gradients: NormGradients,
) {
    for (k, operand) in [gradients.weight, gradients.bias].into_iter().enumerate() {
        if let Some(operand) = operand {
            let sum = |c: usize| (0..shape.batch).map(|b| channel_sums[b * shape.channels + c][k]).sum::<f64>();
            // SAFETY: the caller's contract.
            unsafe { store(operand, 0, &(0..shape.channels).map(sum).collect::<Vec<_>>()) };
        }
    }
}
