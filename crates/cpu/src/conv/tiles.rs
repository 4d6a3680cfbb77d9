//! Convolutions of `bf16` over planes in tiles (AMX): implicit products of weights, which lie in rows, and panels of 32
//! positions, for which every pair of pixels is laid out that their sums have. (Pairs of channels, as in [`super::pairs`].)
//!
//! A panel is read straight from the planes. Which lanes of a vector a tap reads, and from where, is the same for every
//! channel, so that it is found once; what lies in the padding are lanes that are not read.

use super::access::Access;
use super::geometry::{Gather, Tap};
use super::numbers;
use super::pairs::{Pair, join_planes};
use super::simd::{Shared, level};
use crate::buffer::{Buffer, aligned};
use crate::gemm::{Block, Entry, GroupKernels, Summand, Sums, Tiles, bf16_kernels, with_buffer, zip};
use crate::math::Level;
use flambeau_base::dtype::bf16;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;

/// Positions of a panel: two vectors.
const COLUMNS: usize = 32;
/// Lanes of a vector.
const LANES: usize = 16;
/// Weight rows that are multiplied at once; they come in halves of that.
const ROWS: usize = 32;
/// Bytes of a task's panels: they are read for every tile of weight rows, those from memory once.
const PANEL_BYTES: usize = 768 << 10;
/// The most panels of a task.
const MOST_PANELS: usize = 16;
/// Tasks wanted; with fewer, weight rows are divided too.
const TASKS: usize = 8;
/// Weight rows of a task at least.
const LEAST_ROWS: usize = 64;

/// The kernels, where the processor has tiles of `bf16`.
pub(crate) fn kernels() -> Option<GroupKernels<Summand>> {
    if !FastPath::ConvPairs.is_on() {
        return None;
    }
    Summand::group_kernels(level(), [false; 2]).filter(|kernels| kernels.tiles)
}

/// What a vector reads of a plane: lane `i`, if its bit is set, from `start + i * step`.
#[derive(Clone, Copy)]
struct Read {
    start: isize,
    lanes: u16,
}

/// Neighbouring positions along the last axis.
struct Segment {
    /// Its first column in the panel, and their number.
    column: usize,
    len: usize,
    image: usize,
    /// Its first position.
    at: [usize; 3],
}

/// The segments of positions from number `first` on, of all images, in order.
fn segments(g: &Gather, first: usize, columns: usize) -> Vec<Segment> {
    let [depth, height, width] = [0, 1, 2].map(|a| g.axes[a].count);
    let (mut segments, mut column) = (Vec::new(), 0);
    while column < columns {
        let (row, w) = ((first + column) / width, (first + column) % width);
        let len = (width - w).min(columns - column);
        let at = [row / height % depth, row % height, w];
        segments.push(Segment { column, len, image: row / (height * depth), at });
        column += len;
    }
    segments
}

/// One gather with its operands.
struct Plan<'a> {
    gather: &'a Gather,
    kernels: GroupKernels<Summand>,
    /// Planes of pairs.
    source: *const Pair,
    /// By group and result channel, rows of pairs and taps, with zeros up to whole tiles of both.
    weight: *const Pair,
    /// By group and result channel, or null.
    bias: *const f32,
    result: *mut bf16,
    /// Pairs of channels of a group.
    pairs: usize,
    /// Weight rows of a group, and terms of a row, with those of zeros.
    rows: usize,
    depth: usize,
}
// SAFETY: its pointers are only read, except the result, of which each task writes its own part.
unsafe impl Sync for Plan<'_> {}

/// The convolution or its transpose, as gathers of one source. `false` if memory is short: nothing is written then.
///
/// # Safety
/// As for [`forward`](super::forward), of `bf16` over planes; `kernels` are [`kernels()`].
pub(crate) unsafe fn linear(
    gathers: &[Gather],
    kernels: GroupKernels<Summand>,
    source: *const u8,
    weight: *const u8,
    bias: Option<*const u8>,
    result: *mut u8,
) -> bool {
    let g = &gathers[0];
    let (channels, pairs) = (g.source_channels, g.source_channels.div_ceil(2));
    let planes = g.batch * g.groups;
    let rows = g.result_channels.next_multiple_of(LANES);
    let taps = gathers.iter().map(|g| g.taps.len()).max().unwrap_or(0);
    let (mut sources, mut weights) = (Buffer::<Pair>::default(), Buffer::<Pair>::default());
    let Some(paired) = sources.try_room(planes * pairs * g.source_positions()) else { return false };
    let Some(packed) = weights.try_room(g.groups * rows * kernels.packed_steps(2 * pairs * taps)) else { return false };
    // SAFETY: the caller's; the copies were sized for what they take, and live until the end.
    unsafe {
        join_planes(source.cast(), planes, channels, g.source_positions(), paired);
        let (_biases, bias) =
            bias.map_or((None, std::ptr::null()), |b| numbers(&Access::of::<bf16>(), b, g.groups * g.result_channels));
        for gather in gathers {
            let depth = kernels.packed_steps(2 * pairs * gather.taps.len());
            pack_weight(gather, (rows, depth), weight.cast(), packed);
            let plan = Plan {
                gather,
                kernels,
                source: paired,
                weight: packed,
                bias,
                result: result.cast(),
                pairs,
                rows,
                depth,
            };
            plan.run();
        }
    }
    true
}

/// Lays out rows of weights: by group and result channel `depth` lanes, pair by pair and tap by tap, and zeros.
unsafe fn pack_weight(g: &Gather, (rows, depth): (usize, usize), weight: *const bf16, packed: *mut Pair) {
    let (channels, taps) = (g.source_channels, g.taps.len());
    let (weight, packed) = (Shared(weight.cast_mut()), Shared(packed));
    // Taps of one channel that lie side by side, and in the kernel's order.
    let in_order = g.weight_tap_stride == 1 && g.taps.iter().enumerate().all(|(i, t)| t.0 == i);
    parallel_for(g.groups * rows, (1usize << 14).div_ceil(depth.max(1)), &|range| {
        for row in range {
            let (group, result) = (row / rows, row % rows);
            // SAFETY: the caller's weights and room; each row is written once.
            unsafe {
                let to = packed.get().add(row * depth);
                let mut terms = 0;
                if result < g.result_channels {
                    let from = weight.get().cast_const();
                    let from = from.add(group * g.weight_group_stride + result * g.weight_result_stride);
                    for c in (0..channels).step_by(2) {
                        let low = from.add(c * g.weight_source_stride);
                        let high = (c + 1 < channels).then(|| low.add(g.weight_source_stride));
                        match high {
                            Some(high) if in_order => zip((low.cast(), high.cast()), taps, to.add(terms).cast()),
                            _ => {
                                for (i, tap) in g.taps.iter().enumerate() {
                                    let at = tap.0 * g.weight_tap_stride;
                                    let high = high.map_or(0, |high| (*high.add(at)).to_bits());
                                    *to.add(terms + i) = Pair::new((*low.add(at)).to_bits(), high);
                                }
                            }
                        }
                        terms += taps;
                    }
                }
                std::ptr::write_bytes(to.add(terms), 0, depth - terms);
            }
        }
    });
}

impl Plan<'_> {
    fn run(&self) {
        let g = self.gather;
        let panels = (g.batch * g.positions()).div_ceil(COLUMNS);
        if panels == 0 {
            return;
        }
        let most = (PANEL_BYTES / (self.depth * COLUMNS * size_of::<Pair>()).max(1)).clamp(1, MOST_PANELS);
        let chunks = panels.div_ceil(most.min(panels.div_ceil(TASKS).max(1)).max(1)).min(panels);
        let row_chunks = (TASKS / (g.groups * chunks)).clamp(1, g.result_channels.div_ceil(LEAST_ROWS).max(1));
        parallel_for(g.groups * chunks * row_chunks, 1, &|range| {
            // SAFETY: the kernels are those of tiles, so they are there.
            let _tiles = unsafe { Tiles::configure() };
            for task in range {
                let (part, rows) = (task / row_chunks, task % row_chunks);
                let (group, chunk) = (part / chunks, part % chunks);
                let blocks = g.result_channels.div_ceil(ROWS);
                let block = |i: usize| (i * blocks / row_chunks * ROWS).min(g.result_channels);
                let panels = chunk * panels / chunks..(chunk + 1) * panels / chunks;
                // SAFETY: the rows and panels of this task alone.
                unsafe { self.task(group, panels, block(rows)..block(rows + 1)) }
            }
        });
    }

    /// The results of some positions and channels of a group.
    unsafe fn task(&self, group: usize, panels: std::ops::Range<usize>, rows: std::ops::Range<usize>) {
        let g = self.gather;
        let positions = g.batch * g.positions();
        let panel_len = self.depth * COLUMNS;
        let narrow = bf16_kernels(level()).narrow;
        with_buffer(panels.len() * panel_len, |packed: *mut Pair| {
            let mut segments_of = Vec::with_capacity(panels.len());
            for (i, panel) in panels.clone().enumerate() {
                let first = panel * COLUMNS;
                let segments = segments(g, first, COLUMNS.min(positions - first));
                // SAFETY: the buffer has room for every panel.
                unsafe { self.pack(group, &segments, packed.add(i * panel_len)) };
                segments_of.push(segments);
            }
            let mut sums = aligned([0f32; ROWS * COLUMNS]);
            let mut rounded = aligned([bf16::from_bits(0); ROWS * COLUMNS]);
            for row in rows.clone().step_by(ROWS) {
                let count = ROWS.min(rows.end - row);
                let channel = group * g.result_channels + row;
                for (i, segments) in segments_of.iter().enumerate() {
                    let columns = segments.last().map_or(0, |s| s.column + s.len);
                    let vectors = columns.div_ceil(LANES);
                    let whole_rows = count.next_multiple_of(LANES);
                    // SAFETY: whole tiles of weights and of the panel, which are there; `count` biases.
                    unsafe {
                        if !self.bias.is_null() {
                            for (r, sums) in sums.chunks_exact_mut(COLUMNS).enumerate().take(count) {
                                sums.fill(*self.bias.add(channel + r));
                            }
                        }
                        self.kernels.multiply[whole_rows - 1][vectors - 1](&Block {
                            k: self.depth,
                            a: self.weight.add((group * self.rows + row) * self.depth).cast(),
                            a_row: self.depth as isize,
                            a_step: 1,
                            b: packed.add(i * panel_len).cast_const().cast(),
                            b_step: COLUMNS as isize,
                            c: sums.as_mut_ptr(),
                            c_row: COLUMNS as isize,
                            rows: whole_rows,
                            columns: vectors * LANES,
                            alpha: 1.0,
                            beta: (!self.bias.is_null()).then_some(1.0),
                        });
                        narrow(&Sums {
                            sums: sums.as_ptr(),
                            sums_row: COLUMNS,
                            rows: count,
                            columns,
                            alpha: 1.0,
                            beta: None,
                            out: rounded.as_mut_ptr(),
                            out_row: COLUMNS as isize,
                        });
                        self.store(channel, count, segments, rounded.as_ptr());
                    }
                }
            }
        });
    }

    /// Writes rows of a panel's results to their planes.
    unsafe fn store(&self, channel: usize, rows: usize, segments: &[Segment], rounded: *const bf16) {
        let g = self.gather;
        let (plane, channels) = (g.result_positions(), g.groups * g.result_channels);
        for segment in segments {
            let at = |a: usize| g.axes[a].start + segment.at[a] * g.axes[a].spacing;
            let place = (at(0) * g.result[1] + at(1)) * g.result[2] + at(2);
            for r in 0..rows {
                // SAFETY: positions of the result, which this task alone writes.
                unsafe {
                    let from = rounded.add(r * COLUMNS + segment.column);
                    let to = self.result.add((segment.image * channels + channel + r) * plane + place);
                    match (g.axes[2].spacing, segment.len) {
                        (1, COLUMNS) => {
                            to.cast::<[bf16; COLUMNS]>().write_unaligned(from.cast::<[bf16; COLUMNS]>().read())
                        }
                        (1, len) => std::ptr::copy_nonoverlapping(from, to, len),
                        (spacing, len) => {
                            for i in 0..len {
                                *to.add(i * spacing) = *from.add(i);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Lays out the pixels of a panel: by pair of channels and tap, and zeros up to whole tiles.
    unsafe fn pack(&self, group: usize, segments: &[Segment], panel: *mut Pair) {
        let g = self.gather;
        let (plane, step) = (g.source_positions(), g.axes[2].step);
        let mut reads = Vec::with_capacity(4 * g.taps.len());
        let mut ends = Vec::with_capacity(2 * g.taps.len());
        for (_, tap) in &g.taps {
            for vector in 0..COLUMNS / LANES {
                reads.extend(segments.iter().filter_map(|s| self.read(s, tap, vector)));
                ends.push(reads.len());
            }
        }
        // SAFETY: the pairs of the group's first image; reads add the image. The panel has `depth` rows.
        unsafe {
            let source = self.source.add(group * self.pairs * plane);
            let terms = self.pairs * g.taps.len();
            for pair in 0..self.pairs {
                let (from, to) = (source.add(pair * plane), panel.add(pair * g.taps.len() * COLUMNS));
                match (level(), step) {
                    (Level::Avx512, 1) => pack_vectors(from, &reads, &ends, to),
                    (Level::Avx512, 2) => pack_every_second(from, &reads, &ends, to),
                    _ => pack_lanes(from, step, &reads, &ends, to),
                }
            }
            std::ptr::write_bytes(panel.add(terms * COLUMNS), 0, (self.depth - terms) * COLUMNS);
        }
    }

    /// What a vector reads for a tap of a segment's positions, if anything.
    fn read(&self, segment: &Segment, tap: &[Tap; 3], vector: usize) -> Option<Read> {
        let g = self.gather;
        let from = |a: usize| g.axes[a].low + (segment.at[a] * g.axes[a].step + tap[a].shift) as isize;
        let rows = [from(0), from(1)];
        if (0..2).any(|a| !(0..g.axes[a].source as isize).contains(&rows[a])) {
            return None;
        }
        let (first, step) = (from(2), g.axes[2].step);
        let (begin, end) = g.axes[2].valid(first, step, segment.len);
        // In lanes of this vector.
        let lane = |column: usize| (segment.column + column).saturating_sub(vector * LANES).min(LANES);
        let (begin, end) = (lane(begin), lane(end));
        if begin >= end {
            return None;
        }
        let image = segment.image * g.groups * self.pairs * g.source_positions();
        let row = (rows[0] as usize * g.axes[1].source + rows[1] as usize) * g.axes[2].source;
        let column = segment.column as isize - (vector * LANES) as isize;
        let start = (image + row) as isize + first - column * step as isize;
        Some(Read { start, lanes: ((1u32 << end) - (1u32 << begin)) as u16 })
    }
}

/// Fills two vectors for every tap, with the reads up to each vector's end.
unsafe fn pack_lanes(from: *const Pair, step: usize, reads: &[Read], ends: &[usize], to: *mut Pair) {
    let mut next = 0;
    for (i, &end) in ends.iter().enumerate() {
        let mut vector = [Pair::default(); LANES];
        for read in &reads[next..end] {
            for (lane, pair) in vector.iter_mut().enumerate().filter(|(lane, _)| read.lanes >> lane & 1 == 1) {
                // SAFETY: lanes that are read lie in the plane.
                *pair = unsafe { *from.offset(read.start + (lane * step) as isize) };
            }
        }
        next = end;
        // SAFETY: the caller's panel has a vector for each end.
        unsafe { to.add(i * LANES).cast::<[Pair; LANES]>().write(vector) };
    }
}

/// [`pack_lanes`] of neighbours.
#[target_feature(enable = "avx512f")]
unsafe fn pack_vectors(from: *const Pair, reads: &[Read], ends: &[usize], to: *mut Pair) {
    use std::arch::x86_64::*;
    let mut next = 0;
    for (i, &end) in ends.iter().enumerate() {
        let mut vector = _mm512_setzero_si512();
        for read in &reads[next..end] {
            // SAFETY: lanes that are read lie in the plane, and no others are.
            vector = unsafe { _mm512_mask_loadu_epi32(vector, read.lanes, from.wrapping_offset(read.start).cast()) };
        }
        next = end;
        // SAFETY: the caller's panel has a vector for each end.
        unsafe { _mm512_storeu_si512(to.add(i * LANES).cast(), vector) };
    }
}

/// [`pack_lanes`] with a step of two.
#[target_feature(enable = "avx512f")]
unsafe fn pack_every_second(from: *const Pair, reads: &[Read], ends: &[usize], to: *mut Pair) {
    use std::arch::x86_64::*;
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let mut next = 0;
    for (i, &end) in ends.iter().enumerate() {
        let mut vector = _mm512_setzero_si512();
        for read in &reads[next..end] {
            let start = from.wrapping_offset(read.start);
            // Bit `i` to bit `2 * i`.
            let spread = |byte: u16| (0..8).fold(0u16, |bits, i| bits | (byte >> i & 1) << (2 * i));
            let (low, high) = (spread(read.lanes & 0xff), spread(read.lanes >> 8));
            // SAFETY: lanes that are read lie in the plane, and no others are.
            let pairs = unsafe {
                let low = _mm512_maskz_loadu_epi32(low, start.cast());
                let high = _mm512_maskz_loadu_epi32(high, start.wrapping_add(LANES).cast());
                _mm512_permutex2var_epi32(low, even, high)
            };
            vector = _mm512_or_si512(vector, pairs);
        }
        next = end;
        // SAFETY: the caller's panel has a vector for each end.
        unsafe { _mm512_storeu_si512(to.add(i * LANES).cast(), vector) };
    }
}
