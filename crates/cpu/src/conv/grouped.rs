//! Gathers with few channels to a group, channels last: vectors run over the result channels of several groups, and read
//! the source where it is, one position beside another.
//!
//! Positions with the same taps in the source are computed together, so that no padding is stored or multiplied. Where
//! groups have several source channels, each of them is brought under all of its group's results by a permutation.

use super::geometry::{Classes, Gather};
use super::kernel::MOST_ROWS;
use super::planes::{Operands, TASK_WORK, pack_rows};
use super::simd::{Dispatch, Number, Scratch, Simd, Task};
use flambeau_base::parallel::parallel_for;
use std::ops::Range;

/// Terms of a sum for which this is used.
const MOST_TERMS: usize = 512;
/// The most result channels of a group: half of the longest vector.
const MOST_CHANNELS: usize = 8;
/// The most lanes of a vector.
const MOST_LANES: usize = 16;
/// Positions whose sums are in registers at once, and the next smaller number.
const POSITIONS: usize = 8;
const FEW_POSITIONS: usize = 4;
/// Taps of a row that are computed together, at most.
const MOST_BESIDE: usize = 7;
/// Vectors of channels of one position, which would else wait for one another.
const VECTORS: usize = 4;
/// Numbers of a tile of converted rows: a quarter of a second-level cache of `f32`.
const CONVERTED: usize = 1 << 16;

/// Neighbouring positions of a row, and the taps that all of them have in the source.
struct Segment {
    positions: Range<usize>,
    taps: Range<usize>,
}

/// One term of a segment's sums, for the first source channel of a group: where its factors lie, from a position of the
/// source and from the weights.
struct Term {
    source: usize,
    weight: usize,
}

struct Plan<'a, E> {
    gather: &'a Gather,
    operands: Operands<E>,
    classes: [Classes; 3],
    segments: Vec<Segment>,
    /// Rows of a tile.
    rows: usize,
    /// Weights by source channel of a group, tap and result channel.
    weight: *const E,
    /// Result channels, filled up to whole vectors.
    padded: usize,
    /// Whether neighbouring taps of a row read neighbouring positions, and so do positions: in which direction, or zero.
    run: isize,
    /// For every source channel of a group, the lane of the source under each lane of the result.
    lanes: [[u32; MOST_LANES]; MOST_CHANNELS],
}
// SAFETY: its pointers are only read, except the result, of which each task writes its own part.
unsafe impl<E> Sync for Plan<'_, E> {}

/// Whether this is the way for a gather with channels last.
pub(crate) fn suits<E: Dispatch>(g: &Gather) -> bool {
    if g.depth() == 0 || g.depth() > MOST_TERMS {
        return false;
    }
    let (from, to, lanes) = (g.source_channels, g.result_channels, E::lanes());
    // Other vectors are too short to be worth a permutation, or have none.
    let shared = lanes >= 8 && 2 * to <= lanes && lanes.is_multiple_of(to) && from <= to && g.groups * to >= lanes;
    from == 1 && to == 1 || shared
}

struct PackTask<'a, E> {
    gather: &'a Gather,
    weight: *const E,
    packed: *mut E,
    padded: usize,
}

impl<E: Number> Task for PackTask<'_, E> {
    type Element = E;
    const FAST_PATH: bool = true;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let g = self.gather;
        let (taps, all) = (g.taps.len(), g.groups * g.result_channels);
        let offsets = g.weight_offsets();
        let even = g.result_channels == 1 || g.weight_result_stride * g.result_channels == g.weight_group_stride;
        let stride = g.weight_group_stride / g.result_channels;
        // SAFETY: channels and terms are inside the weight, and the packed weights hold `padded` numbers of every term.
        unsafe {
            if even {
                for c in (0..all).step_by(S::LANES) {
                    let (from, to) = (self.weight.add(c * stride), self.packed.add(c));
                    pack_rows::<S>(from, stride, (all - c).min(S::LANES), (&offsets, taps), to, self.padded);
                }
            } else {
                for (k, offset) in offsets.iter().enumerate() {
                    for c in 0..all {
                        let (group, channel) = (c / g.result_channels, c % g.result_channels);
                        let from = group * g.weight_group_stride + channel * g.weight_result_stride + offset;
                        *self.packed.add(k * self.padded + c) = *self.weight.add(from);
                    }
                }
            }
            for k in 0..offsets.len() {
                S::clear(self.packed.add(k * self.padded + all), self.padded - all);
            }
        }
    }
}

struct RowTask<'a, E> {
    plan: &'a Plan<'a, E>,
    tiles: Range<usize>,
}

impl<E: Number> Task for RowTask<'_, E> {
    type Element = E;
    const FAST_PATH: bool = true;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let plan = self.plan;
        let g = plan.gather;
        let op = &plan.operands;
        let [depth, height, width] = &g.axes;
        let (inputs, outputs) = (g.groups * g.source_channels, g.groups * g.result_channels);
        let source_row = width.source * inputs;
        let most_rows = (plan.rows - 1) * height.step + height.span + 1;
        let plane = most_rows.min(height.source) * source_row;
        let converted = Scratch::<E>::new(if op.access.same { 0 } else { depth.taps.len() * plane });
        let sums = Scratch::<E>::new(if op.stored.same { 0 } else { width.count * outputs });
        let (mut lines, mut terms) = (Vec::new(), Vec::new());
        let blocks = height.count.div_ceil(plan.rows);
        for tile in self.tiles.clone() {
            let (image, d, first) =
                (tile / blocks / depth.count, tile / blocks % depth.count, tile % blocks * plan.rows);
            let rows = plan.rows.min(height.count - first);
            let (d0, d1) = plan.classes[0].ranges[plan.classes[0].of[d]];
            let z = |t: usize| (depth.low + (d * depth.step + depth.taps[t].shift) as isize) as usize;
            let row = |z: usize, y: usize| ((image * depth.source + z) * height.source + y) * source_row;
            let limit = |y: isize| y.clamp(0, height.source as isize) as usize;
            let top = height.low + (first * height.step) as isize;
            let (y0, y1) = (limit(top), limit(top + ((rows - 1) * height.step + height.span + 1) as isize));
            if !op.access.same && y0 < y1 {
                for t in d0..d1 {
                    // SAFETY: these rows are inside the source, and no more than there is room for.
                    unsafe {
                        let from = op.source.add(row(z(t), y0) * op.access.size);
                        (op.access.load)(from, 1, (y1 - y0) * source_row, converted.get().add(t * plane));
                    }
                }
            }
            let source = if op.access.same { op.source.cast::<E>() } else { converted.get().cast_const() };
            for h in first..first + rows {
                let (h0, h1) = plan.classes[1].ranges[plan.classes[1].of[h]];
                lines.clear();
                for td in d0..d1 {
                    for th in h0..h1 {
                        let y = (height.low + (h * height.step + height.taps[th].shift) as isize) as usize;
                        let source = if op.access.same { row(z(td), y) } else { td * plane + (y - y0) * source_row };
                        lines.push((source, (td * height.taps.len() + th) * width.taps.len()));
                    }
                }
                let at = |a: usize, i: usize| g.axes[a].start + i * g.axes[a].spacing;
                let place = ((image * g.result[0] + at(0, d)) * g.result[1] + at(1, h)) * g.result[2] + width.start;
                // SAFETY: the taps of a segment are inside the source; a row of the result is one task's.
                unsafe {
                    let (to, spacing) = match op.stored.same {
                        true => (op.result.cast::<E>().add(place * outputs), width.spacing * outputs),
                        false => (sums.get(), outputs),
                    };
                    for segment in &plan.segments {
                        terms.clear();
                        for &(source, tap) in &lines {
                            terms.extend(segment.taps.clone().map(|t| Term {
                                source: source + width.taps[t].shift * inputs,
                                weight: (tap + t) * plan.padded,
                            }));
                        }
                        plan.segment::<S>(segment, &terms, source, (to, spacing));
                    }
                    if !op.stored.same {
                        let to = |i: usize| op.result.add((place + i * width.spacing) * outputs * op.stored.size);
                        let each = if width.spacing == 1 { width.count } else { 1 };
                        for i in (0..width.count).step_by(each) {
                            (op.stored.store)(sums.get().add(i * outputs), to(i), 1, each * outputs);
                        }
                    }
                }
            }
        }
    }
}

impl<E: Number> Plan<'_, E> {
    /// Computes a segment of a row. What is left of a number of positions is computed with some of those before.
    #[inline(always)]
    unsafe fn segment<S: Simd<Element = E>>(
        &self,
        segment: &Segment,
        terms: &[Term],
        source: *const E,
        (to, spacing): (*mut E, usize),
    ) {
        let g = self.gather;
        let positions = &segment.positions;
        // Vectors under all of a row's taps are read once, where there are registers for them.
        let run = if S::ROWS == MOST_ROWS && self.run != 0 { segment.taps.len() } else { 0 };
        let (inputs, outputs) = (g.groups * g.source_channels, g.groups * g.result_channels);
        let (step, low) = (g.axes[2].step * inputs, g.axes[2].low * inputs as isize);
        let each = [POSITIONS, FEW_POSITIONS].into_iter().find(|&n| positions.len() >= n).unwrap_or(1);
        let one = g.source_channels == 1 && g.result_channels == 1;
        for w in positions.clone().step_by(each).map(|w| w.min(positions.end - each)) {
            let from = source.wrapping_offset(low).wrapping_add(w * step);
            let wide = VECTORS * S::LANES;
            let rest = if each == 1 && one { outputs / wide * wide } else { 0 };
            for c in (0..rest).step_by(wide) {
                // SAFETY: as below; so many vectors have all of their channels.
                unsafe { self.alone::<S>(c, terms, from, to.add(w * spacing + c)) };
            }
            for c in (rest..outputs).step_by(S::LANES) {
                // SAFETY: the caller's; these positions are in the segment.
                unsafe {
                    let (from, to) = ((from, step), (to.add(w * spacing + c), spacing));
                    match (each, one) {
                        (POSITIONS, true) if run == 3 && outputs - c >= S::LANES => {
                            self.beside::<S, 3>(c, terms, from, to)
                        }
                        (POSITIONS, true) if run == 5 && outputs - c >= S::LANES => {
                            self.beside::<S, 5>(c, terms, from, to)
                        }
                        (POSITIONS, true) if run == 7 && outputs - c >= S::LANES => {
                            self.beside::<S, 7>(c, terms, from, to)
                        }
                        (POSITIONS, true) => self.own::<S, POSITIONS>(c, terms, from, to),
                        (POSITIONS, false) => self.shared::<S, POSITIONS>(c, terms, from, to),
                        (FEW_POSITIONS, true) => self.own::<S, FEW_POSITIONS>(c, terms, from, to),
                        (FEW_POSITIONS, false) => self.shared::<S, FEW_POSITIONS>(c, terms, from, to),
                        (_, true) => self.own::<S, 1>(c, terms, from, to),
                        (_, false) => self.shared::<S, 1>(c, terms, from, to),
                    }
                }
            }
        }
    }

    /// A vector of channels of `N` neighbouring positions, each of one channel of the source.
    #[inline(always)]
    unsafe fn own<S: Simd<Element = E>, const N: usize>(
        &self,
        c: usize,
        terms: &[Term],
        (from, step): (*const E, usize),
        (to, spacing): (*mut E, usize),
    ) {
        let from: [*const E; N] = std::array::from_fn(|i| from.wrapping_add(i * step + c));
        let weight = self.weight.wrapping_add(c);
        let n = (self.gather.groups - c).min(S::LANES);
        // SAFETY: the caller's; packed weights have whole vectors.
        unsafe {
            let mut sums = [self.start::<S>(c, n); N];
            if n == S::LANES {
                for term in terms {
                    let weight = S::load(weight.add(term.weight));
                    for (sum, from) in sums.iter_mut().zip(&from) {
                        *sum = S::multiply_add(weight, S::load(from.wrapping_add(term.source)), *sum);
                    }
                }
                for (i, sum) in sums.into_iter().enumerate() {
                    S::store(to.add(i * spacing), sum);
                }
            } else {
                for term in terms {
                    let weight = S::load(weight.add(term.weight));
                    for (sum, from) in sums.iter_mut().zip(&from) {
                        *sum = S::multiply_add(weight, S::load_first(from.wrapping_add(term.source), n), *sum);
                    }
                }
                for (i, sum) in sums.into_iter().enumerate() {
                    S::store_first(to.add(i * spacing), sum, n);
                }
            }
        }
    }

    /// A vector of channels of [`POSITIONS`] neighbouring positions, of one channel of the source, in rows of `T` taps beside
    /// one another.
    #[inline(always)]
    unsafe fn beside<S: Simd<Element = E>, const T: usize>(
        &self,
        c: usize,
        terms: &[Term],
        (from, step): (*const E, usize),
        (to, spacing): (*mut E, usize),
    ) {
        // From the last position on, where taps lie in the other direction.
        let last = if self.run < 0 { POSITIONS - 1 } else { 0 };
        let (from, to) = (from.wrapping_add(last * step + c), to.wrapping_add(last * spacing));
        let (step, spacing) = (step as isize * self.run, spacing as isize * self.run);
        let weight = self.weight.wrapping_add(c);
        // SAFETY: the caller's.
        unsafe {
            let mut sums = [self.start::<S>(c, S::LANES); POSITIONS];
            for line in terms.chunks_exact(T) {
                let mut x = [sums[0]; POSITIONS + MOST_BESIDE - 1];
                for (i, x) in x.iter_mut().enumerate().take(POSITIONS + T - 1) {
                    *x = S::load(from.wrapping_add(line[0].source).wrapping_offset(i as isize * step));
                }
                for (t, term) in line.iter().enumerate() {
                    let weight = S::load(weight.add(term.weight));
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = S::multiply_add(weight, x[i + t], *sum);
                    }
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                S::store(to.offset(i as isize * spacing), sum);
            }
        }
    }

    /// [`VECTORS`] vectors of channels of one position.
    #[inline(always)]
    unsafe fn alone<S: Simd<Element = E>>(&self, c: usize, terms: &[Term], from: *const E, to: *mut E) {
        let (from, weight) = (from.wrapping_add(c), self.weight.wrapping_add(c));
        // SAFETY: the caller's.
        unsafe {
            let mut sums: [S::Vector; VECTORS] = std::array::from_fn(|v| self.start::<S>(c + v * S::LANES, S::LANES));
            for term in terms {
                let (x, weight) = (from.wrapping_add(term.source), weight.add(term.weight));
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = S::multiply_add(S::load(weight.add(v * S::LANES)), S::load(x.add(v * S::LANES)), *sum);
                }
            }
            for (v, sum) in sums.into_iter().enumerate() {
                S::store(to.add(v * S::LANES), sum);
            }
        }
    }

    /// A vector of channels of `N` neighbouring positions, of several channels of the source.
    #[inline(always)]
    unsafe fn shared<S: Simd<Element = E>, const N: usize>(
        &self,
        c: usize,
        terms: &[Term],
        (from, step): (*const E, usize),
        (to, spacing): (*mut E, usize),
    ) {
        let g = self.gather;
        let (inputs, outputs) = (g.groups * g.source_channels, g.groups * g.result_channels);
        let first = c / g.result_channels * g.source_channels;
        let from: [*const E; N] = std::array::from_fn(|i| from.wrapping_add(i * step + first));
        let (n, left) = ((outputs - c).min(S::LANES), (inputs - first).min(S::LANES));
        // SAFETY: the caller's; packed weights have whole vectors.
        unsafe {
            let mut sums = [self.start::<S>(c, n); N];
            for (j, lanes) in self.lanes.iter().enumerate().take(g.source_channels) {
                let weight = self.weight.add(j * g.taps.len() * self.padded + c);
                for term in terms {
                    let weight = S::load(weight.add(term.weight));
                    for (sum, from) in sums.iter_mut().zip(&from) {
                        let from = from.wrapping_add(term.source);
                        let x = if left == S::LANES { S::load(from) } else { S::load_first(from, left) };
                        *sum = S::multiply_add(weight, S::pick(x, lanes.as_ptr()), *sum);
                    }
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                S::store_first(to.add(i * spacing), sum, n);
            }
        }
    }

    /// What the sums of `n` channels start from.
    #[inline(always)]
    unsafe fn start<S: Simd<Element = E>>(&self, c: usize, n: usize) -> S::Vector {
        let bias = self.operands.bias;
        // SAFETY: the caller's channels.
        unsafe { if bias.is_null() { S::splat(E::default()) } else { S::load_first(bias.add(c), n) } }
    }
}

/// Computes a gather with channels last that this [`suits`].
///
/// # Safety
/// The operands are valid for the gather's sizes, the result is nobody else's.
pub(crate) unsafe fn gather<E: Dispatch>(g: &Gather, operands: Operands<E>) {
    if g.batch * g.groups * g.positions() == 0 {
        return;
    }
    let [depth, height, width] = &g.axes;
    let outputs = g.groups * g.result_channels;
    let padded = outputs.next_multiple_of(E::lanes());
    let memory = Scratch::<E>::new(padded * g.depth());
    // SAFETY: the weight is valid; the memory was sized for it.
    unsafe { E::dispatch(&PackTask { gather: g, weight: operands.weight, packed: memory.get(), padded }) };
    let classes: [Classes; 3] = std::array::from_fn(|a| Classes::new(&g.axes[a]));
    let mut segments = Vec::<Segment>::new();
    for (w, &class) in classes[2].of.iter().enumerate() {
        let (first, end) = classes[2].ranges[class];
        let taps = first.min(end)..end;
        match segments.last_mut() {
            Some(last) if last.taps == taps => last.positions.end = w + 1,
            _ => segments.push(Segment { positions: w..w + 1, taps }),
        }
    }
    let rows = if operands.access.same {
        1
    } else {
        // What neighbouring tiles both convert are few rows, and one image is more than one tile.
        let room = CONVERTED / (depth.taps.len() * width.source * g.groups * g.source_channels).max(1);
        let overlap = 4 * (height.span / height.step + 1);
        let most = (room.saturating_sub(height.span) / height.step).min(overlap.max(height.count.div_ceil(4)));
        let least = if g.batch * depth.count == 1 { 2 } else { 1 };
        height.count.div_ceil(height.count.div_ceil(most.max(1)).max(least))
    };
    let under = |j: usize, lane: usize| lane / g.result_channels * g.source_channels + j;
    let lanes = std::array::from_fn(|j| std::array::from_fn(|lane| under(j, lane) as u32));
    let shift = |t: usize| width.taps[t].shift as isize;
    let beside = |by: isize| (1..width.taps.len()).all(|t| shift(t) == shift(t - 1) + by);
    let run = match width.step {
        1 if beside(1) => 1,
        1 if beside(-1) => -1,
        _ => 0,
    };
    let plan = Plan { gather: g, operands, classes, segments, rows, weight: memory.get(), padded, run, lanes };
    let plan = &plan;
    let tiles = g.batch * depth.count * height.count.div_ceil(rows);
    let work = rows * width.count * outputs * g.depth().max(4);
    parallel_for(tiles, (TASK_WORK / 2).div_ceil(work), &|tiles| {
        // SAFETY: the caller's.
        unsafe { E::dispatch(&RowTask { plan, tiles }) };
    });
}
