//! The gradient of the weight of a convolution of `bf16`, as products of matrices.
//!
//! The output's gradient, channels by positions, is multiplied by what lies under the taps, positions by channels and taps,
//! where the processor multiplies pairs or tiles of `bf16` faster than `f32`. What lies under the taps is laid out for
//! some positions or channels at a time; sums stay `f32`.

use super::geometry::{Axis, Gather};
use super::simd::{Scratch, Shared, level};
use crate::gemm::{Entry, Matrix, MatrixMut, Sizes, Summand, gemm_typed};
use flambeau_base::dtype::bf16;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Elements under the taps that are laid out at a time, about.
const MOST_ELEMENTS: usize = if cfg!(test) { 1 << 13 } else { 1 << 21 };
/// Positions of several images that are multiplied at a time.
const POSITIONS: usize = 1024;
/// The fewest channels, positions and terms for which laying out pays.
const LEAST: usize = 16;
/// Elements that are copied at once; so many may be read or written past the end of a run.
const RUN: usize = 16;
/// Elements that a task lays out at least.
const TASK_ELEMENTS: usize = 1 << 15;

/// Computes the gradient. `false` if it is to be computed another way: that is faster, or a sum is not finite.
///
/// # Safety
/// The operands are valid for the gather of a convolution, whose weight is nobody else's.
pub(super) unsafe fn weight_gradient(
    g: &Gather,
    channels_last: bool,
    input: *const u8,
    gradient: *const u8,
    weight: *mut f32,
) -> bool {
    let positions = g.batch * g.positions();
    let few = g.result_channels.min(g.depth()).min(positions) < LEAST;
    // One channel's planes with their padding, and what lies under the taps.
    let padded = g.axes.iter().fold(1usize, |n, a| n.saturating_mul(extent(a)));
    let large = padded.max(g.taps.len().saturating_mul(g.positions())) > 4 * MOST_ELEMENTS && !channels_last;
    let fast = FastPath::ConvPairs.is_on() && Summand::group_kernels(level(), [false; 2]).is_some();
    if g.groups != 1 || few || large || !fast {
        return false;
    }
    let (input, gradient) = (input.cast::<bf16>(), gradient.cast::<bf16>());
    // SAFETY: the caller's.
    unsafe {
        if channels_last {
            pixels(g, input, gradient, weight);
        } else {
            planes(g, input, gradient, weight);
        }
        // An infinity times a padding's zero is no number, but there is no such product.
        g.axes.iter().all(Axis::inside) || is_finite(weight, g.result_channels * g.depth())
    }
}

/// Whether so many numbers are finite.
unsafe fn is_finite(numbers: *const f32, len: usize) -> bool {
    let (numbers, finite) = (Shared(numbers.cast_mut()), AtomicBool::new(true));
    parallel_for(len, TASK_ELEMENTS, &|range| {
        // SAFETY: the caller's.
        let numbers = unsafe { std::slice::from_raw_parts(numbers.get().add(range.start), range.len()) };
        // (The largest of their bits without the sign: a loop without branches.)
        let largest = numbers.iter().fold(0, |most, x| (x.to_bits() & !(1 << 31)).max(most));
        if largest >= f32::INFINITY.to_bits() {
            finite.store(false, Ordering::Relaxed);
        }
    });
    finite.into_inner()
}

/// Adds a product to the sums, or begins them.
unsafe fn add_product(
    sizes: Sizes,
    (gradient, row, column): (*const bf16, usize, usize),
    (under, step, term): (*const bf16, usize, usize),
    (sums, width): (*mut f32, usize),
    begin: bool,
) {
    let matrix = |start: *const bf16, row: usize, column: usize| {
        let (row_stride, column_stride) = (row as isize, column as isize);
        Matrix { start: start.cast::<Summand>(), row_stride, column_stride, conj: false }
    };
    let c = MatrixMut { start: sums, row_stride: width as isize, column_stride: 1 };
    let beta = if begin { 0.0 } else { 1.0 };
    // SAFETY: the caller's; a `Summand` is a `bf16`.
    unsafe { gemm_typed(sizes, 1.0, matrix(gradient, row, column), matrix(under, step, term), beta, c) }
}

/// Whether what lies under the taps is the source as it is.
fn is_source(g: &Gather) -> bool {
    g.axes.iter().all(|a| a.taps.len() == 1 && a.low == 0 && a.step == 1 && a.count == a.source)
}

/// Places of an axis from the first that is read to the last.
fn extent(a: &Axis) -> usize {
    (a.count.saturating_sub(1).saturating_mul(a.step)).saturating_add(a.span).saturating_add(1)
}

/// Of contiguous tensors.
unsafe fn planes(g: &Gather, input: *const bf16, gradient: *const bf16, weight: *mut f32) {
    let (positions, source, taps) = (g.positions(), g.source_positions(), g.taps.len());
    let (results, depth) = (g.result_channels, g.depth());
    let images = (POSITIONS / positions).clamp(1, g.batch);
    // (Every term has room for what is written past its end.)
    let term = images * positions + RUN;
    let channels = (MOST_ELEMENTS / (taps * term)).clamp(1, g.source_channels);
    let in_place = is_source(g) && images == 1;
    let under = Scratch::<bf16>::new(if in_place { 0 } else { channels * taps * term });
    let joined = Scratch::<bf16>::new(if images > 1 { results * images * positions } else { 0 });
    for first in (0..g.batch).step_by(images) {
        let images = images.min(g.batch - first);
        let k = images * positions;
        let mut factor = (gradient.wrapping_add(first * results * positions), positions, 1);
        if images > 1 {
            let (from, to) = (Shared(factor.0.cast_mut()), Shared(joined.get()));
            parallel_for(results, TASK_ELEMENTS.div_ceil(k), &|rows| {
                for row in rows {
                    for image in 0..images {
                        // SAFETY: the gradient's planes; each is written once.
                        unsafe {
                            let from = from.get().cast_const().add((image * results + row) * positions);
                            from.copy_to_nonoverlapping(to.get().add(row * k + image * positions), positions);
                        }
                    }
                }
            });
            factor = (joined.get().cast_const(), k, 1);
        }
        for c in (0..g.source_channels).step_by(channels) {
            let channels = channels.min(g.source_channels - c);
            let from = input.wrapping_add((first * g.source_channels + c) * source);
            let terms = if in_place {
                (from, 1, source)
            } else {
                let (from, to) = (Shared(from.cast_mut()), Shared(under.get()));
                parallel_for(channels, TASK_ELEMENTS.div_ceil(taps * k), &|range| {
                    // SAFETY: the caller's; every channel's terms are written once.
                    unsafe { under_planes(g, images, from.get(), range, to.get(), term) };
                });
                (under.get().cast_const(), 1, term)
            };
            let sizes = Sizes { m: results, n: channels * taps, k };
            // SAFETY: the operands and the weight's columns of these channels.
            unsafe { add_product(sizes, factor, terms, (weight.add(c * taps), depth), first == 0) };
        }
    }
}

/// Lays out what lies under the taps of some channels' planes, of neighbouring images: by channel and tap, `term` elements
/// apart.
unsafe fn under_planes(
    g: &Gather,
    images: usize,
    source: *const bf16,
    channels: Range<usize>,
    target: *mut bf16,
    term: usize,
) {
    let [depth, height, width] = &g.axes;
    let (deep, high) = (extent(depth), extent(height));
    // Rows with their padding, a run for every residue.
    let row = width.count + width.reach + RUN;
    let each = deep * high * row;
    let stage = Scratch::<bf16>::new(width.residues.len() * each);
    let plane = g.source_positions();
    for channel in channels {
        for image in 0..images {
            // SAFETY: the caller's planes; rows are inside the stage, and what is copied past their end, too.
            unsafe {
                let source = source.add((image * g.source_channels + channel) * plane);
                for (r, &residue) in width.residues.iter().enumerate() {
                    let left = width.low + residue as isize;
                    let len = width.count + width.reach;
                    let (begin, end) = width.valid(left, width.step, len);
                    for z in 0..deep {
                        for y in 0..high {
                            let to = stage.get().add(r * each + (z * high + y) * row);
                            let to = std::slice::from_raw_parts_mut(to, row);
                            let (z, y) = (depth.low + z as isize, height.low + y as isize);
                            let inside = (0..depth.source as isize).contains(&z)
                                && (0..height.source as isize).contains(&y)
                                && begin < end;
                            if !inside {
                                to.fill(bf16::ZERO);
                                continue;
                            }
                            to[..begin].fill(bf16::ZERO);
                            to[end..].fill(bf16::ZERO);
                            let line = (z as usize * height.source + y as usize) * width.source;
                            let from = source.add(line + (left + (begin * width.step) as isize) as usize);
                            match width.step {
                                1 => from.copy_to_nonoverlapping(to[begin..].as_mut_ptr(), end - begin),
                                2 => (to[begin..end].iter_mut().enumerate()).for_each(|(i, x)| *x = *from.add(2 * i)),
                                s => (to[begin..end].iter_mut().enumerate()).for_each(|(i, x)| *x = *from.add(s * i)),
                            }
                        }
                    }
                }
                for (t, (_, tap)) in g.taps.iter().enumerate() {
                    let mut to = target.add((channel * g.taps.len() + t) * term + image * g.positions());
                    for d in 0..depth.count {
                        let z = d * depth.step + tap[0].shift;
                        for h in 0..height.count {
                            let y = h * height.step + tap[1].shift;
                            let from = stage.get().add(tap[2].residue * each + (z * high + y) * row + tap[2].place);
                            for i in (0..width.count).step_by(RUN) {
                                let run = from.add(i).cast::<[bf16; RUN]>().read_unaligned();
                                to.add(i).cast::<[bf16; RUN]>().write_unaligned(run);
                            }
                            to = to.add(width.count);
                        }
                    }
                }
            }
        }
    }
}

/// Of tensors with channels last.
unsafe fn pixels(g: &Gather, input: *const bf16, gradient: *const bf16, weight: *mut f32) {
    let (taps, channels, results, depth) = (g.taps.len(), g.source_channels, g.result_channels, g.depth());
    let all = g.batch * g.positions();
    let in_place = is_source(g);
    let most = if in_place { all } else { (MOST_ELEMENTS / depth).clamp(1, all) };
    let most = all.div_ceil(all.div_ceil(most));
    let under = Scratch::<bf16>::new(if in_place { 0 } else { most * depth });
    // Taps by channels become channels by taps, before or after, of whichever there is less.
    let (before, after) = (taps > 1 && all < results, taps > 1 && all >= results);
    let sums = Scratch::<f32>::new(if after { results * depth } else { 0 });
    let to = if after { sums.get() } else { weight };
    for first in (0..all).step_by(most) {
        let k = most.min(all - first);
        let mut terms = (input, channels, 1);
        if !in_place {
            let (from, to) = (Shared(input.cast_mut()), Shared(under.get()));
            parallel_for(k, TASK_ELEMENTS.div_ceil(depth), &|range| {
                let line = Scratch::<bf16>::new(if before { depth } else { 0 });
                for i in range {
                    // SAFETY: the caller's; every position's terms are written once.
                    unsafe {
                        let to = to.get().add(i * depth);
                        under_pixel(g, from.get(), first + i, if before { line.get() } else { to });
                        if before {
                            turn(line.get(), to, [taps, channels]);
                        }
                    }
                }
            });
            terms = (under.get().cast_const(), depth, 1);
        }
        let sizes = Sizes { m: results, n: depth, k };
        // SAFETY: the operands, and all of the sums.
        unsafe { add_product(sizes, (gradient.add(first * results), 1, results), terms, (to, depth), first == 0) };
    }
    if !after {
        return;
    }
    let (from, to) = (Shared(sums.get()), Shared(weight));
    parallel_for(results, TASK_ELEMENTS.div_ceil(depth), &|rows| {
        for row in rows {
            // SAFETY: a row of the sums and of the weight.
            unsafe { turn(from.get().add(row * depth), to.get().add(row * depth), [taps, channels]) };
        }
    });
}

/// Writes taps by channels as channels by taps.
unsafe fn turn<T: Copy>(from: *const T, to: *mut T, [taps, channels]: [usize; 2]) {
    for c in 0..channels {
        for t in 0..taps {
            // SAFETY: the caller's, of as many elements.
            unsafe { *to.add(c * taps + t) = *from.add(t * channels + c) };
        }
    }
}

/// Lays out what lies under the taps of a position: by tap and channel.
unsafe fn under_pixel(g: &Gather, source: *const bf16, position: usize, target: *mut bf16) {
    let [depth, height, width] = &g.axes;
    let channels = g.source_channels;
    let (w, h) = (position % width.count, position / width.count % height.count);
    let (d, image) = (position / (width.count * height.count) % depth.count, position / g.positions());
    let at = |a: &Axis, i: usize, t: usize| {
        let place = a.low + (i * a.step + a.taps[t].shift) as isize;
        (0..a.source as isize).contains(&place).then_some(place as usize)
    };
    // Taps follow one another in a convolution, and what they read does where they are neighbours.
    let inside = |t: &usize| at(width, w, *t).is_some();
    let (begin, end) = match (0..width.taps.len()).find(inside) {
        Some(begin) => (begin, (begin..width.taps.len()).rfind(inside).unwrap_or(begin) + 1),
        None => (0, 0),
    };
    let together = width.span + 1 == width.taps.len();
    let mut to = target;
    for td in 0..depth.taps.len() {
        for th in 0..height.taps.len() {
            // SAFETY: the caller's; the target has a place for every tap and channel.
            unsafe {
                let line = std::slice::from_raw_parts_mut(to, width.taps.len() * channels);
                to = to.add(line.len());
                let (Some(z), Some(y), true) = (at(depth, d, td), at(height, h, th), begin < end) else {
                    line.fill(bf16::ZERO);
                    continue;
                };
                line[..begin * channels].fill(bf16::ZERO);
                line[end * channels..].fill(bf16::ZERO);
                let row = ((image * depth.source + z) * height.source + y) * width.source;
                let each = if together { end - begin } else { 1 };
                for t in (begin..end).step_by(each) {
                    let x = (width.low + (w * width.step + width.taps[t].shift) as isize) as usize;
                    let from = source.add((row + x) * channels);
                    from.copy_to_nonoverlapping(line[t * channels..].as_mut_ptr(), each * channels);
                }
            }
        }
    }
}
