//! Batch norm: statistics of each channel over all samples and positions.

use super::layer::NormGradients;
use super::rows::{Rows, compute, compute_dtype, store, sums, values};
use crate::buffer::Scratch;
use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, Number, entry, level};
use crate::reduce::{KeptDim, Operand, ReduceShape, ReducedDim, Reduction, reduce};
use flambeau_base::Element;
use flambeau_base::parallel::parallel_for;
use std::borrow::Cow;
use std::marker::PhantomData;

/// Elements of work worth a parallel task.
const TASK: usize = 1 << 15;

/// Rows of channels whose sums are one partial result.
const PIECE_ROWS: usize = 256;

/// Where the channels are: `outer` blocks of `channels` rows of `inner` elements. Contiguous (N, C, H, W) has outer N
/// and inner H·W; channels last has outer N·H·W and inner 1.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormShape {
    /// The product of the sizes before the channels.
    pub outer: usize,
    /// The number of channels.
    pub channels: usize,
    /// The product of the sizes after the channels.
    pub inner: usize,
}

impl BatchNormShape {
    fn per_channel(self) -> f64 {
        (self.outer * self.inner) as f64
    }
}

/// Each channel's mean and biased variance (the running statistics and the inverse standard deviation follow from
/// these).
///
/// # Safety
/// `x` must be valid for all elements, the outputs for one element per channel.
pub unsafe fn batch_norm_statistics(shape: BatchNormShape, x: Operand, mean: Operand, variance: Operand) {
    let size = x.dtype.size() as isize;
    let (channel, block) = (shape.inner as isize * size, (shape.channels * shape.inner) as isize * size);
    let out_strides = [variance.dtype.size() as isize, mean.dtype.size() as isize];
    let kept = [KeptDim { size: shape.channels, stride: channel, out_strides }];
    let reduced = [ReducedDim { size: shape.outer, stride: block }, ReducedDim { size: shape.inner, stride: size }];
    let shape = ReduceShape { kept: &kept, reduced: &reduced };
    // SAFETY: the caller's contract.
    unsafe { reduce(Reduction::Variance { correction: 0.0 }, shape, x, &[variance, mean]) };
}

/// `(x - mean) * invstd * weight + bias` per channel; the statistics are the batch's or the running ones.
///
/// # Safety
/// Operands must be valid for all elements or one per channel; `out` may equal `x`, and nothing else may overlap.
pub unsafe fn batch_norm(
    shape: BatchNormShape,
    x: Operand,
    (mean, invstd): (Operand, Operand),
    weight: Option<Operand>,
    bias: Option<Operand>,
    out: Operand,
) {
    compute!(compute_dtype(&[x.dtype, out.dtype]), T => {
        let c = shape.channels;
        // SAFETY: the caller's contract.
        unsafe {
            let (mean, invstd) = (values::<T>(Some(mean), c, T::ONE), values::<T>(Some(invstd), c, T::ONE));
            let (weight, bias) = (values::<T>(weight, c, T::ONE), values::<T>(bias, c, <T as Number>::ZERO));
            let scale: Vec<T> = (0..c).map(|c| invstd[c] * weight[c]).collect();
            apply::<T, Transform>(shape, 1, x, x, out, [&mean, &scale, &bias, &bias]);
        }
    })
}

/// The gradients of [`batch_norm`]: with `training`, the statistics are the batch's own and depend on the input; else
/// they are constants.
///
/// # Safety
/// Operands must be valid for all elements or one per channel; `gradients.input` may equal `grad`, and nothing else may
/// overlap.
pub unsafe fn batch_norm_backward(
    shape: BatchNormShape,
    training: bool,
    grad: Operand,
    x: Operand,
    (mean, invstd): (Operand, Operand),
    weight: Option<Operand>,
    gradients: NormGradients,
) {
    compute!(compute_dtype(&[grad.dtype, x.dtype]), T => {
        let c = shape.channels;
        // SAFETY: the caller's contract.
        unsafe {
            let (mean, invstd) = (values::<T>(Some(mean), c, T::ONE), values::<T>(Some(invstd), c, T::ONE));
            let weight = values::<T>(weight, c, T::ONE);
            let needs_sums = gradients.weight.is_some() || gradients.bias.is_some() || training;
            // Per channel: the sum of gradient times normalised input, and of the gradient.
            let sums = if needs_sums {
                channel_sums::<T>(shape, 1, grad, x, &mean, &invstd)
            } else {
                vec![[0.0; 2]; c]
            };
            if let Some(out) = gradients.input {
                let n = if training { shape.per_channel() } else { f64::INFINITY };
                let scale: Vec<T> = (0..c).map(|c| invstd[c] * weight[c]).collect();
                let shift: Vec<T> = (0..c).map(|c| T::from_f64(sums[c][1] / n)).collect();
                let slope: Vec<T> =
                    (0..c).map(|c| T::from_f64(sums[c][0] / n * invstd[c].to_f64())).collect();
                if training {
                    apply::<T, TrainingGradient>(shape, 1, grad, x, out, [&mean, &scale, &shift, &slope]);
                } else {
                    apply::<T, EvaluationGradient>(shape, 1, grad, grad, out, [&mean, &scale, &shift, &slope]);
                }
            }
            for (k, operand) in [gradients.weight, gradients.bias].into_iter().enumerate() {
                if let Some(operand) = operand {
                    store(operand, 0, &sums.iter().map(|s| s[k]).collect::<Vec<_>>());
                }
            }
        }
    })
}

/// A function of one or two elements and four parameters of their channel: mean, scale, and two more.
pub(super) trait ChannelFunction: 'static {
    fn of<I: Isa, T: Float>(a: T, b: T, parameters: [T; 4]) -> T;
}

pub(super) struct Transform;
impl ChannelFunction for Transform {
    #[inline(always)]
    fn of<I: Isa, T: Float>(x: T, _: T, [mean, scale, bias, _]: [T; 4]) -> T {
        (x - mean).mul_add::<I>(scale, bias)
    }
}

struct TrainingGradient;
impl ChannelFunction for TrainingGradient {
    #[inline(always)]
    fn of<I: Isa, T: Float>(grad: T, x: T, [mean, scale, shift, slope]: [T; 4]) -> T {
        (grad - shift - (x - mean) * slope) * scale
    }
}

struct EvaluationGradient;
impl ChannelFunction for EvaluationGradient {
    #[inline(always)]
    fn of<I: Isa, T: Float>(grad: T, _: T, [_, scale, _, _]: [T; 4]) -> T {
        grad * scale
    }
}

/// Rows of elements of a channel each, one channel after the other.
struct ChannelRows<T, F>(PhantomData<(T, F)>);
impl<T: Float, F: ChannelFunction> Kernel for ChannelRows<T, F> {
    /// Inputs and output; how many rows of how many elements; the first one's channel, how many there are, and their parameters.
    type Args = (*const T, *const T, *mut T, [usize; 2], (usize, usize), [*const T; 4]);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((a, b, out, [rows, n], (first, channels), [p, q, r, s]): Self::Args) {
        let mut channel = first;
        for row in 0..rows {
            // SAFETY: `n` elements of each row, and a channel's parameters, by the caller's contract.
            unsafe {
                let parameters = [*p.add(channel), *q.add(channel), *r.add(channel), *s.add(channel)];
                let (a, b, out) = (a.add(row * n), b.add(row * n), out.add(row * n));
                for i in 0..n {
                    *out.add(i) = F::of::<I, T>(*a.add(i), *b.add(i), parameters);
                }
            }
            channel = if channel + 1 == channels { 0 } else { channel + 1 };
        }
    }
}

/// One element of each channel.
struct PixelRow<T, F>(PhantomData<(T, F)>);
impl<T: Float, F: ChannelFunction> Kernel for PixelRow<T, F> {
    type Args = (*const T, *const T, *mut T, usize, [*const T; 4]);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((a, b, out, n, [p, q, r, s]): Self::Args) {
        for i in 0..n {
            // SAFETY: `n` elements each by the caller's contract.
            unsafe {
                let parameters = [*p.add(i), *q.add(i), *r.add(i), *s.add(i)];
                *out.add(i) = F::of::<I, T>(*a.add(i), *b.add(i), parameters);
            }
        }
    }
}

/// Elements that are worth a call: so many pixels of few channels are one row.
const WIDE: usize = 128;

/// Elements of rows that are converted together.
const TOGETHER: usize = 2048;

/// How many of `pixels` pixels are one row: not so many that their parameters are as much work as their elements.
pub(super) fn pixels_of_row(channels: usize, pixels: usize) -> usize {
    (WIDE / channels.max(1)).clamp(1, (pixels / 16).max(1))
}

/// `parameters` of each of `sets` sets of channels, as often as `times` says.
fn repeated<T: Float>(parameters: &[T], sets: usize, times: usize) -> Cow<'_, [T]> {
    if times == 1 {
        return Cow::Borrowed(parameters);
    }
    let mut all = Vec::with_capacity(parameters.len() * times);
    for set in parameters.chunks((parameters.len() / sets.max(1)).max(1)) {
        (0..times).for_each(|_| all.extend_from_slice(set));
    }
    Cow::Owned(all)
}

/// A channel function of all elements. Where channels are innermost, the outer size falls into `sets` equal parts with
/// parameters of their own; else there is one set.
///
/// # Safety
/// The operands must be valid for all elements; `b` may equal `a`, and `out` may equal `a`.
pub(super) unsafe fn apply<T: Float, F: ChannelFunction>(
    shape: BatchNormShape,
    sets: usize,
    a: Operand,
    b: Operand,
    out: Operand,
    parameters: [&[T]; 4],
) {
    let BatchNormShape { outer, channels, inner } = shape;
    let one_input = std::ptr::eq(a.data, b.data);
    let (a, b, out) = (Rows::<T>::new(a), Rows::<T>::new(b), Rows::<T>::new(out));
    if outer * channels * inner == 0 {
        return;
    }
    // Runs `each` on elements in place or in scratch memory.
    let run = |at: usize, n: usize, scratch: *mut T, each: &dyn Fn(*const T, *const T, *mut T)| {
        // SAFETY: `n` elements of the caller's; the scratch memory holds them three times.
        unsafe {
            let first = a.read(at, n, scratch);
            let second = if one_input { first } else { b.read(at, n, scratch.add(n)) };
            let to = out.target(at, scratch.add(2 * n));
            each(first, second, to);
            out.written(at, n, to);
        }
    };
    if inner > 1 {
        let all_rows = entry::<ChannelRows<T, F>>(level());
        let parameters = parameters.map(|p| Shared(p.as_ptr().cast_mut()));
        let together = (TOGETHER / inner).max(1);
        parallel_for(outer * channels, (TASK / inner).max(1), &|range| {
            let scratch = Scratch::<T>::new(3 * together * inner);
            for first in range.clone().step_by(together) {
                let rows = together.min(range.end - first);
                let parameters = parameters.map(|p| p.get().cast_const());
                run(first * inner, rows * inner, scratch.get(), &|a, b, to| {
                    // SAFETY: rows of `inner` elements each, and parameters of every channel.
                    unsafe { all_rows((a, b, to, [rows, inner], (first % channels, channels), parameters)) };
                });
            }
        });
        return;
    }
    let row = entry::<PixelRow<T, F>>(level());
    let pixels = outer / sets;
    let pixels_of_row = pixels_of_row(channels, pixels);
    let parameters = parameters.map(|p| repeated(p, sets, pixels_of_row));
    let n = pixels_of_row * channels;
    let together = (TOGETHER / n).max(1) * pixels_of_row;
    let blocks = pixels.div_ceil(together);
    parallel_for(sets * blocks, (TASK / (together * channels)).max(1), &|range| {
        let scratch = Scratch::<T>::new(3 * together * channels);
        for block in range {
            let (set, first) = (block / blocks, block % blocks * together);
            let elements = together.min(pixels - first) * channels;
            let parameters = parameters.each_ref().map(|p| p[set * n..].as_ptr());
            run((set * pixels + first) * channels, elements, scratch.get(), &|a, b, to| {
                for at in (0..elements).step_by(n) {
                    // SAFETY: some of the elements, and as many parameters.
                    unsafe { row((a.add(at), b.add(at), to.add(at), n.min(elements - at), parameters)) };
                }
            });
        }
    });
}

struct ChannelSums<T>(PhantomData<T>);
impl<T: Float> Kernel for ChannelSums<T> {
    type Args = (*const T, *const T, usize, T, T);
    type Output = [f64; 2];
    #[inline(always)]
    unsafe fn run<I: Isa>((grad, x, n, mean, invstd): Self::Args) -> [f64; 2] {
        // SAFETY: `n` elements each by the caller's contract.
        sums::<I, T, _>(n, |i| unsafe {
            let g = *grad.add(i);
            [g * ((*x.add(i) - mean) * invstd), g]
        })
    }
}

/// Adds one element of each channel to the channels' sums.
struct PixelSums<T>(PhantomData<T>);
impl<T: Float> Kernel for PixelSums<T> {
    type Args = (*const T, *const T, *mut T, *mut T, usize, *const T, *const T);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((grad, x, dots, totals, n, mean, invstd): Self::Args) {
        // SAFETY: `n` elements each, none overlapping, by the caller's contract.
        let (dots, totals) =
            unsafe { (std::slice::from_raw_parts_mut(dots, n), std::slice::from_raw_parts_mut(totals, n)) };
        for i in 0..n {
            // SAFETY: as above.
            let (g, normal) = unsafe { (*grad.add(i), (*x.add(i) - *mean.add(i)) * *invstd.add(i)) };
            dots[i] = g.mul_add::<I>(normal, dots[i]);
            totals[i] += g;
        }
    }
}

/// [`channel_sums`] where channels are innermost.
///
/// # Safety
/// As there.
unsafe fn pixel_sums<T: Float>(
    (sets, pixels, channels): (usize, usize, usize),
    (grad, x): (Rows<T>, Rows<T>),
    (mean, invstd): (&[T], &[T]),
) -> Vec<[f64; 2]> {
    let row = entry::<PixelSums<T>>(level());
    let pixels_of_row = pixels_of_row(channels, pixels);
    let (mean, invstd) = (repeated(mean, sets, pixels_of_row), repeated(invstd, sets, pixels_of_row));
    let n = pixels_of_row * channels;
    let piece = PIECE_ROWS * pixels_of_row;
    let together = (TOGETHER / n.max(1)).max(1) * pixels_of_row;
    let pieces = pixels.div_ceil(piece);
    let mut partials = vec![<T as Number>::ZERO; sets * pieces * 2 * n];
    let shared = Shared(partials.as_mut_ptr());
    parallel_for(sets * pieces, (TASK / (PIECE_ROWS * n).max(1)).max(1), &|range| {
        let scratch = Scratch::<T>::new(2 * together * channels);
        for p in range {
            let (set, first) = (p / pieces, p % pieces * piece);
            let end = pixels.min(first + piece);
            let statistics = (mean[set * n..].as_ptr(), invstd[set * n..].as_ptr());
            for first in (first..end).step_by(together) {
                let elements = together.min(end - first) * channels;
                let at = (set * pixels + first) * channels;
                // SAFETY: whole pixels of the caller's; each piece has its own partial sums.
                unsafe {
                    let g = grad.read(at, elements, scratch.get());
                    let x = x.read(at, elements, scratch.get().add(together * channels));
                    let dots = shared.get().add(p * 2 * n);
                    for at in (0..elements).step_by(n) {
                        let (n_here, totals) = (n.min(elements - at), dots.add(n));
                        row((g.add(at), x.add(at), dots, totals, n_here, statistics.0, statistics.1));
                    }
                }
            }
        }
    });
    let mut sums = vec![[0.0; 2]; sets * channels];
    for set in 0..sets {
        let partials = &partials[set * pieces * 2 * n..];
        for k in 0..2 {
            let added = super::add_pieces(partials, pieces, n, 2, k);
            for pixel in added.chunks(channels) {
                for (sum, x) in sums[set * channels..].iter_mut().zip(pixel) {
                    sum[k] += x;
                }
            }
        }
    }
    sums
}

/// Per channel (of each set, see [`apply`]): the sum of gradient times normalised input, and of the gradient.
///
/// # Safety
/// The operands must be valid for all elements.
pub(super) unsafe fn channel_sums<T: Float>(
    shape: BatchNormShape,
    sets: usize,
    grad: Operand,
    x: Operand,
    mean: &[T],
    invstd: &[T],
) -> Vec<[f64; 2]> {
    let BatchNormShape { outer, channels, inner } = shape;
    let (grad, x) = (Rows::<T>::new(grad), Rows::<T>::new(x));
    if inner == 1 {
        let sizes = (sets, outer / sets.max(1), channels);
        // SAFETY: the caller's contract.
        return unsafe { pixel_sums::<T>(sizes, (grad, x), (mean, invstd)) };
    }
    let row = entry::<ChannelSums<T>>(level());
    // Long rows are cut, so that few channels still make work for many threads.
    let piece = inner.clamp(1, TASK);
    let pieces = inner.div_ceil(piece);
    let mut partials = vec![[0.0; 2]; outer * channels * pieces];
    let shared = Shared(partials.as_mut_ptr());
    parallel_for(outer * channels * pieces, (TASK / piece).max(1), &|range| {
        let scratch = Scratch::<T>::new(2 * piece);
        for i in range {
            let (r, start) = (i / pieces, i % pieces * piece);
            let (at, n, c) = (r * inner + start, piece.min(inner - start), r % channels);
            // SAFETY: `n` elements of one channel; the scratch memory holds them twice.
            unsafe {
                let g = grad.read(at, n, scratch.get());
                let x = x.read(at, n, scratch.get().add(n));
                *shared.get().add(i) = row((g, x, n, mean[c], invstd[c]));
            }
        }
    });
    let mut sums = vec![[0.0; 2]; channels];
    for (i, partial) in partials.iter().enumerate() {
        let sum = &mut sums[i / pieces % channels];
        *sum = [sum[0] + partial[0], sum[1] + partial[1]];
    }
    sums
}

/// The inverse standard deviations that [`batch_norm`] takes, from variances.
///
/// # Safety
/// Both must be valid for `channels` elements.
pub unsafe fn batch_norm_invstd(channels: usize, eps: f64, variance: Operand, invstd: Operand) {
    // SAFETY: the caller's contract.
    unsafe {
        let variance = values::<f64>(Some(variance), channels, 0.0);
        let inverse: Vec<f64> = variance.iter().map(|v| 1.0 / (v + eps).sqrt()).collect();
        store(invstd, 0, &inverse);
    }
}
