//! Pooling with channels last, a pixel of channels at a time.

use super::planes::Index;
use super::{Operation, Plan, lowest, only_max, replaces};
use crate::math::Number;
use std::ops::Range;

/// Channels handled together: their accumulators stay in the first-level cache.
const CHANNELS: usize = 256;

/// Units of work: forward, rows of outputs; backward, blocks of channels of images.
pub(super) fn units(plan: &Plan<'_>) -> usize {
    let s = plan.shape;
    match plan.operation {
        Operation::Max | Operation::Average(_) => s.batch * s.output[0] * s.output[1],
        _ => s.batch * s.channels.div_ceil(CHANNELS),
    }
}

/// Elements of a unit.
pub(super) fn unit_len(plan: &Plan<'_>) -> usize {
    let s = plan.shape;
    match plan.operation {
        Operation::Max | Operation::Average(_) => {
            let rows = (s.output[0] * s.output[1]).max(1);
            (s.input.iter().product::<usize>() / rows).max(s.output[2]) * s.channels
        }
        _ => s.input.iter().product::<usize>() * s.channels.min(CHANNELS),
    }
}

/// Pools a range of units.
///
/// # Safety
/// The plan's arrays are valid.
#[inline(always)]
pub(super) unsafe fn pool<C: Number + PartialOrd>(plan: &Plan<'_>, units: Range<usize>) {
    let input: usize = plan.shape.input.iter().product();
    // SAFETY: the caller's.
    unsafe {
        if plan.indices.is_null() {
            forward::<C, i32, false>(plan, units);
        } else if const { size_of::<C>() <= 4 } && input <= i32::MAX as usize {
            forward::<C, i32, true>(plan, units);
        } else {
            forward::<C, i64, true>(plan, units);
        }
    }
}

/// Maxima (with indices if `INDEX`) and averages.
#[inline(always)]
unsafe fn forward<C: Number + PartialOrd, I: Index, const INDEX: bool>(plan: &Plan<'_>, rows: Range<usize>) {
    let shape = plan.shape;
    let channels = shape.channels;
    let [depth, height, width] = shape.output;
    let input: usize = shape.input.iter().product();
    let same = plan.is_of::<C>();
    let max = only_max::<C>(INDEX) || plan.operation == Operation::Max;
    let zero = if max { lowest(plan.dtype) } else { C::default() };
    let mut sums = [C::default(); CHANNELS];
    let mut pixel = [C::default(); CHANNELS];
    let mut at = [I::default(); CHANNELS];
    for line in rows {
        let (image, d, h) = (line / (depth * height), line / height % depth, line % height);
        let (wd, wh) = (&plan.windows.axes[0][d], &plan.windows.axes[1][h]);
        for (w, ww) in plan.windows.axes[2].iter().enumerate() {
            for c in (0..channels).step_by(CHANNELS) {
                let n = CHANNELS.min(channels - c);
                let base = (wd.start * shape.input[1] + wh.start) * shape.input[2] + ww.start;
                sums[..n].fill(zero);
                if INDEX {
                    at[..n].fill(I::of(base));
                }
                for i in 0..wd.count {
                    for j in 0..wh.count {
                        for k in 0..ww.count {
                            let position =
                                base + (i * wd.step * shape.input[1] + j * wh.step) * shape.input[2] + k * ww.step;
                            // SAFETY: windows are inside the image.
                            let x = unsafe {
                                let from = plan.source((image * input + position) * channels + c);
                                if same {
                                    std::slice::from_raw_parts(from.cast::<C>(), n)
                                } else {
                                    plan.widen(from, pixel.as_mut_ptr(), n);
                                    &pixel[..n]
                                }
                            };
                            if !max {
                                sums[..n].iter_mut().zip(x).for_each(|(s, x)| *s = s.add(*x));
                            } else if INDEX {
                                let index = I::of(position);
                                for ((best, at), &x) in sums[..n].iter_mut().zip(&mut at[..n]).zip(x) {
                                    let wins = replaces(x, *best);
                                    *best = if wins { x } else { *best };
                                    *at = if wins { index } else { *at };
                                }
                            } else {
                                for (best, &x) in sums[..n].iter_mut().zip(x) {
                                    *best = if replaces(x, *best) { x } else { *best };
                                }
                            }
                        }
                    }
                }
                if !max && let Operation::Average(divisor) = plan.operation {
                    let own = wd.divisor * wh.divisor * ww.divisor;
                    let by = if divisor != 0 { divisor } else { own as i64 };
                    // A window without elements is zero, whatever its divisor.
                    if by != 0 {
                        let by = C::from_i64(by);
                        sums[..n].iter_mut().for_each(|s| *s = s.div(by));
                    }
                }
                let place = (line * width + w) * channels + c;
                // SAFETY: this output pixel is this unit's.
                unsafe {
                    plan.narrow(sums.as_ptr(), plan.result(place), n);
                    if INDEX {
                        for (i, at) in at[..n].iter().enumerate() {
                            *plan.indices.add(place + i) = at.to_i64();
                        }
                    }
                }
            }
        }
    }
}

/// Gradients: each image's block of channels is cleared and then added to.
///
/// # Safety
/// The plan's arrays are valid.
#[inline(always)]
pub(super) unsafe fn backward<C: Number>(plan: &Plan<'_>, units: Range<usize>) {
    let shape = plan.shape;
    let channels = shape.channels;
    let blocks = channels.div_ceil(CHANNELS);
    let [depth, height, width] = shape.output;
    let input: usize = shape.input.iter().product();
    let output = depth * height * width;
    let same = plan.is_of::<C>();
    let mut image_memory = vec![C::default(); if same { 0 } else { input * channels.min(CHANNELS) }];
    let mut pixel = [C::default(); CHANNELS];
    for unit in units {
        let (image, c) = (unit / blocks, unit % blocks * CHANNELS);
        let n = CHANNELS.min(channels - c);
        // SAFETY: the image and channels are inside the arrays; windows and indices are inside the image.
        unsafe {
            let result = plan.result(image * input * channels + c);
            let (y, stride) = if same { (result.cast::<C>(), channels) } else { (image_memory.as_mut_ptr(), n) };
            for position in 0..input {
                std::slice::from_raw_parts_mut(y.add(position * stride), n).fill(C::default());
            }
            for p in 0..output {
                let place = (image * output + p) * channels + c;
                plan.widen(plan.source(place), pixel.as_mut_ptr(), n);
                let Operation::AverageBackward(divisor) = plan.operation else {
                    for (i, g) in pixel[..n].iter().enumerate() {
                        let to = y.add(*plan.indices.add(place + i) as usize * stride + i);
                        *to = (*to).add(*g);
                    }
                    continue;
                };
                let axes = &plan.windows.axes;
                let (wd, wh, ww) = (&axes[0][p / (height * width)], &axes[1][p / width % height], &axes[2][p % width]);
                let own = wd.divisor * wh.divisor * ww.divisor;
                let by = if divisor != 0 { divisor } else { own as i64 };
                if by != 0 {
                    let by = C::from_i64(by);
                    pixel[..n].iter_mut().for_each(|g| *g = g.div(by));
                }
                let base = (wd.start * shape.input[1] + wh.start) * shape.input[2] + ww.start;
                for i in 0..wd.count {
                    for j in 0..wh.count {
                        for k in 0..ww.count {
                            let at = base + (i * wd.step * shape.input[1] + j * wh.step) * shape.input[2] + k * ww.step;
                            let to = std::slice::from_raw_parts_mut(y.add(at * stride), n);
                            to.iter_mut().zip(&pixel[..n]).for_each(|(t, g)| *t = t.add(*g));
                        }
                    }
                }
            }
            if !same {
                for position in 0..input {
                    plan.narrow(y.add(position * n), result.add(position * channels * plan.dtype.size()), n);
                }
            }
        }
    }
}
