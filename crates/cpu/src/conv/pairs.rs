//! Convolutions of `bf16` on processors that multiply two of them and add both products to an `f32` in the time of one
//! multiply-add of `f32`, or has tiles ([`tiles`](super::tiles)).
//!
//! Two source channels are one channel of pairs: with the source and the weight rearranged so, the drivers of other
//! types compute half as many terms. Channels last, neighbouring channels are pairs already.

use super::access::Access;
use super::geometry::Gather;
use super::planes::Operands;
use super::simd::x86::Avx512Pairs;
use super::simd::{Dispatch, Number, Shared, Simd, Task, level};
use super::{ConvShape, depthwise, grouped, numbers, patches, pixels, planes, tiles};
use crate::buffer::Buffer;
use crate::copy::cast_strip;
use crate::gemm::{pairs_are_fast, zip};
use crate::math::Level;
use flambeau_base::DType;
use flambeau_base::dtype::bf16;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;

/// As a factor two `bf16`, the first in the low bits; as a sum the bits of an `f32`.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
#[repr(transparent)]
pub(crate) struct Pair(pub u32);

impl Pair {
    /// From the bits of two `bf16`.
    pub(crate) fn new(low: u16, high: u16) -> Pair {
        Pair(low as u32 | (high as u32) << 16)
    }

    fn factors(self) -> [f32; 2] {
        [self.0 as u16, (self.0 >> 16) as u16].map(|bits| bf16::from_bits(bits).to_f32())
    }

    fn sum(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl Number for Pair {
    const HALF: Option<Pair> = None;
    #[inline(always)]
    fn multiply_add(self, b: Pair, c: Pair) -> Pair {
        let ([a0, a1], [b0, b1]) = (self.factors(), b.factors());
        Pair((c.sum() + a0 * b0 + a1 * b1).to_bits())
    }
    #[inline(always)]
    fn plus(self, b: Pair) -> Pair {
        Pair((self.sum() + b.sum()).to_bits())
    }
    #[inline(always)]
    fn minus(self, b: Pair) -> Pair {
        Pair((self.sum() - b.sum()).to_bits())
    }
}

impl Dispatch for Pair {
    unsafe fn dispatch<T: Task<Element = Pair>>(task: &T) {
        // SAFETY: pairs are only computed with by `linear`, which has asked for the instructions.
        unsafe { Avx512Pairs::enter(task) }
    }
    fn lanes() -> usize {
        Avx512Pairs::LANES
    }
    fn rows() -> usize {
        Avx512Pairs::ROWS
    }
}

/// Reads pairs.
unsafe fn load(source: *const u8, stride: usize, len: usize, target: *mut Pair) {
    for i in 0..len {
        // SAFETY: the caller's runs have `len` elements.
        unsafe { *target.add(i) = *source.cast::<Pair>().add(i * stride) };
    }
}

/// Rounds sums.
unsafe fn store(source: *const Pair, target: *mut u8, stride: usize, len: usize) {
    // SAFETY: the caller's runs have `len` elements.
    unsafe { cast_strip(DType::F32, DType::BF16)(source.cast(), 4, target, 2 * stride as isize, len) }
}

/// How sources are read.
const PAIRS: Access<Pair> = Access { load, store, size: 4, same: true };
/// How results are written.
const SUMS: Access<Pair> = Access { load, store, size: 2, same: false };

/// Whether the machine multiplies pairs, and is quick at it; tests do wherever it can.
fn are_used() -> bool {
    let level = level();
    let are_there = || cfg!(test) && level == Level::Avx512 && is_x86_feature_detected!("avx512bf16");
    FastPath::ConvPairs.is_on() && (pairs_are_fast(level) || are_there())
}

/// Whether a gather is faster in pairs.
fn suits(g: &Gather, channels_last: bool) -> bool {
    let depthwise = g.result_channels == 1 && g.depth() <= depthwise::MOST_TERMS;
    g.source_channels > 1 && !depthwise && !(channels_last && grouped::suits::<f32>(g))
}

/// The convolution or its transpose. `false` if other ways are faster or memory is short: nothing is written then.
///
/// # Safety
/// As for [`forward`](super::forward), of `bf16`.
pub(crate) unsafe fn linear(
    shape: &ConvShape,
    transpose: bool,
    source: *const u8,
    weight: *const u8,
    bias: Option<*const u8>,
    result: *mut u8,
) -> bool {
    let tiles = tiles::kernels().filter(|_| !shape.channels_last);
    if tiles.is_none() && !are_used() {
        return false;
    }
    // (Of patches, too many gathers of a tap each.)
    if transpose && patches::suits(shape, true) {
        return false;
    }
    // All of them have the same source.
    let mut gathers = if transpose { Gather::backward(shape) } else { vec![Gather::forward(shape)] };
    let Some(g) = gathers.first().filter(|g| suits(g, shape.channels_last)) else { return false };
    if let Some(kernels) = tiles {
        // SAFETY: the caller's.
        return unsafe { tiles::linear(&gathers, kernels, source, weight, bias, result) };
    }
    let (channels, pairs) = (g.source_channels, g.source_channels.div_ceil(2));
    let (groups, results, taps) = (g.groups, g.result_channels, shape.kernel.iter().product::<usize>());
    let positions = g.batch * g.source_positions();
    let aligned = shape.channels_last && channels.is_multiple_of(2) && source.cast::<Pair>().is_aligned();
    let (mut sources, mut weights) = (Buffer::default(), Buffer::default());
    let room = sources.try_room(if aligned { 0 } else { positions * groups * pairs });
    let layout = WeightLayout::of(g, weight);
    let weight_room = weights.try_room(if layout == WeightLayout::Ready { 0 } else { groups * results * pairs * taps });
    let (Some(paired), Some(packed)) = (room, weight_room) else { return false };
    // SAFETY: the caller's; the copies were sized for what they take, and live until the end.
    unsafe {
        let source = match (aligned, shape.channels_last) {
            (true, _) => source,
            (false, true) => {
                join_pixels(source.cast(), positions * groups, channels, paired);
                paired.cast_const().cast()
            }
            (false, false) => {
                join_planes(source.cast(), g.batch * groups, channels, g.source_positions(), paired);
                paired.cast_const().cast()
            }
        };
        let rows = groups * results;
        match layout {
            WeightLayout::Ready => {}
            WeightLayout::Channels => join_pixels(weight.cast(), rows * taps, channels, packed),
            WeightLayout::Results => join_results(g, taps, weight.cast(), packed),
            WeightLayout::Taps => join_taps(g, taps, weight.cast(), packed),
        }
        let weight = if layout == WeightLayout::Ready { weight.cast() } else { packed.cast_const() };
        // Of source channels, result channels and taps.
        let strides = match layout {
            WeightLayout::Ready | WeightLayout::Channels => (1, pairs * taps, pairs),
            WeightLayout::Results => (results * taps, 1, results),
            WeightLayout::Taps => (taps, pairs * taps, 1),
        };
        let (_biases, bias) =
            bias.map_or((None, std::ptr::null()), |b| numbers(&Access::of::<bf16>(), b, groups * results));
        let operands = Operands { access: PAIRS, stored: SUMS, source, weight, bias: bias.cast(), result };
        for g in &mut gathers {
            g.source_channels = pairs;
            (g.weight_source_stride, g.weight_result_stride, g.weight_tap_stride) = strides;
            g.weight_group_stride = results * pairs * taps;
            if shape.channels_last || pixels::suits::<Pair>(g) {
                pixels::gather(g, [shape.channels_last; 2], operands);
            } else {
                planes::gather(g, operands);
            }
        }
    }
    true
}

/// Joins neighbouring planes; of an odd number of `channels` the last is joined with zeros.
pub(crate) unsafe fn join_planes(source: *const bf16, images: usize, channels: usize, len: usize, target: *mut Pair) {
    let pairs = channels.div_ceil(2);
    let (source, target) = (Shared(source.cast_mut()), Shared(target));
    parallel_for(images * pairs, (1usize << 15).div_ceil(len.max(1)), &|range| {
        for i in range {
            let (image, pair) = (i / pairs, i % pairs);
            // SAFETY: the caller's planes; each pair of planes is written once.
            unsafe {
                let first = source.get().cast_const().add((image * channels + 2 * pair) * len);
                let second = if 2 * pair + 1 < channels { first.add(len) } else { std::ptr::null() };
                join(first, second, len, target.get().add(i * len));
            }
        }
    });
}

/// Joins neighbouring channels of pixels; see [`join_planes`].
unsafe fn join_pixels(source: *const bf16, pixels: usize, channels: usize, target: *mut Pair) {
    let pairs = channels.div_ceil(2);
    let (source, target) = (Shared(source.cast_mut()), Shared(target));
    parallel_for(pixels, (1usize << 15).div_ceil(channels), &|range| {
        for i in range {
            // SAFETY: the caller's pixels; each is written once.
            unsafe {
                let (from, to) = (source.get().cast_const().add(i * channels), target.get().add(i * pairs));
                std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), 2 * channels);
                if channels % 2 == 1 {
                    to.cast::<bf16>().add(channels).write(bf16::from_bits(0));
                }
            }
        }
    });
}

/// What are neighbours in a weight.
#[derive(Clone, Copy, PartialEq)]
enum WeightLayout {
    /// Source channels, which are pairs already.
    Ready,
    /// Source channels.
    Channels,
    /// Result channels.
    Results,
    /// Taps.
    Taps,
}

impl WeightLayout {
    fn of(g: &Gather, weight: *const u8) -> WeightLayout {
        if g.weight_result_stride == 1 {
            WeightLayout::Results
        } else if g.weight_source_stride != 1 {
            WeightLayout::Taps
        } else if g.source_channels.is_multiple_of(2) && weight.cast::<Pair>().is_aligned() {
            WeightLayout::Ready
        } else {
            WeightLayout::Channels
        }
    }
}

/// Joins the weights of neighbouring source channels: by group, pair, tap and result channel.
unsafe fn join_results(g: &Gather, taps: usize, source: *const bf16, target: *mut Pair) {
    let (channels, pairs, results) = (g.source_channels, g.source_channels.div_ceil(2), g.result_channels);
    let (source, target) = (Shared(source.cast_mut()), Shared(target));
    parallel_for(g.groups * pairs * taps, (1usize << 14).div_ceil(results.max(1)), &|range| {
        for i in range {
            let (group, pair, tap) = (i / (pairs * taps), i / taps % pairs, i % taps);
            let at = group * g.weight_group_stride + 2 * pair * g.weight_source_stride + tap * g.weight_tap_stride;
            // SAFETY: the caller's weights; each pair of them is written once.
            unsafe {
                let first = source.get().cast_const().add(at);
                let second = if 2 * pair + 1 < channels { first.add(g.weight_source_stride) } else { std::ptr::null() };
                join(first, second, results, target.get().add(i * results));
            }
        }
    });
}

/// Joins the weights of neighbouring source channels: by group, result channel, pair and tap.
unsafe fn join_taps(g: &Gather, taps: usize, source: *const bf16, target: *mut Pair) {
    let (channels, pairs) = (g.source_channels, g.source_channels.div_ceil(2));
    let (source, target) = (Shared(source.cast_mut()), Shared(target));
    let rows = g.groups * g.result_channels;
    parallel_for(rows, (1usize << 14).div_ceil(channels * taps), &|range| {
        for row in range {
            let (group, result) = (row / g.result_channels, row % g.result_channels);
            for pair in 0..pairs {
                // SAFETY: the caller's weights; each pair of them is written once.
                unsafe {
                    let at = group * g.weight_group_stride
                        + result * g.weight_result_stride
                        + 2 * pair * g.weight_source_stride;
                    let first = source.get().cast_const().add(at);
                    let second =
                        if 2 * pair + 1 < channels { first.add(g.weight_source_stride) } else { std::ptr::null() };
                    join(first, second, taps, target.get().add((row * pairs + pair) * taps));
                }
            }
        }
    });
}

/// Joins the elements of two runs, or of one and zeros.
///
/// # Safety
/// The runs have `len` elements, the target as many.
unsafe fn join(first: *const bf16, second: *const bf16, len: usize, target: *mut Pair) {
    // SAFETY: the caller's.
    unsafe {
        if !second.is_null() {
            return zip((first.cast(), second.cast()), len, target.cast());
        }
        for i in 0..len {
            *target.add(i) = Pair::new((*first.add(i)).to_bits(), 0);
        }
    }
}
