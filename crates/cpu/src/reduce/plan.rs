//! The walk of a reduction: merges and orders dimensions, cuts tiles and pieces, feeds blocks to the reducer.

use super::{Block, KeptDim, Operand, Output, ReducedDim, Reducer, long_row};
use crate::buffer;
use crate::copy::{CastStrip, Matrix, SHORT_ROW_BYTES, Shared, cast_strip, copy_rows, transpose};
use crate::math::{Level, level};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::{num_threads, parallel_for};
use flambeau_base::{Complex, DType};
use smallvec::SmallVec;
use std::ops::Range;

/// How elements get from the input to blocks.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Load {
    /// Converted to the block's dtype.
    Cast,
    /// `u64` to `i64` in the same order: the top bit flipped.
    Unsigned,
    /// Complex to one where it is not zero.
    Truth,
    /// Complex to its magnitude (`f64`).
    Magnitude,
}

/// Elements of a block that had to be gathered or converted. 4096 doubles are 32 KiB: they stay in L1.
const GATHERED: usize = 4096;

/// Elements in one piece of a long reduction. A piece takes tens of microseconds, and the lanes of its accumulators
/// take few enough elements that even sums of `f64` lose nothing that a pairwise sum would keep.
const PIECE: usize = 1 << 16;

/// Partial results of an output at most, of a tile together.
const MOST_PARTIALS: usize = 1 << 24;
/// Fewest rows of a piece: partial results then take little memory beside the elements.
const PIECE_ROWS: usize = 256;

/// Pieces for each thread where there should be few.
const FEW_PIECES: usize = 2;

/// Columns of a tile whose partial results are merged by one task.
const MERGED: usize = 512;

/// Elements of work worth a parallel task.
const TASK: usize = 1 << 15;

/// Runs that [`Reducer::shortest_run`] counts on.
const SEVERAL: usize = 4;

/// The fewest columns of a tile that there are more of.
const FEWEST_COLUMNS: usize = 256;

/// The fewest columns that rows are transposed to: so many are folded together in registers.
const TURNED_COLUMNS: usize = 64;

/// The most bytes of a run of which several are gathered to one, where all go to one output: to fold a run takes as long as some
/// hundred elements, however few it has.
const SHORT_RUN: isize = 2048;

/// Outputs whose results are written together when each is folded on its own.
const BATCH: usize = 64;

/// The pieces of a run that are folded together. See Note [Streams].
const STREAMS: usize = 4;

// Note [Streams]: what memory gives one reader is bound by how far ahead the processor asks for it, which it does for several
// places that are read in turns as if each were alone. Four give up to 1.4 times what one gives, from the last cache too, on
// Zen 3; where they lie within 16 KiB of each other, or turns are of more than a kilobyte, they give less. So neighbouring
// pieces of a long run, which have accumulators of their own anyway, are the columns of one block, and what folds those reads
// them in turns ([`super::runs`]).

/// Bytes up to which nothing is asked for before it is read: a cache may hold them, and then sums of the columns of `f64` take
/// a third longer with hints.
const NEAR: usize = if cfg!(test) { 1 << 12 } else { 1 << 23 };

#[derive(Clone, Copy)]
struct Reduced {
    size: usize,
    stride: isize,
    /// The distance of neighbours' indices.
    step: i64,
}

pub(super) struct Plan<'a> {
    reducer: &'a dyn Reducer,
    load: Load,
    first: CastStrip,
    second: CastStrip,
    size: isize,
    domain_size: usize,
    input: Shared<u8>,
    outputs: SmallVec<[(Shared<u8>, DType); 2]>,
    /// The kept dimension that a tile runs along.
    col: KeptDim,
    /// The reduced dimension that a block's rows run along.
    row: Reduced,
    outer_kept: SmallVec<[KeptDim; 6]>,
    outer_reduced: SmallVec<[Reduced; 6]>,
    /// Whether each column of a tile is folded on its own, its rows being what is contiguous.
    single: bool,
    /// Whether blocks can be read in place.
    direct: bool,
    /// Whether elements are of the blocks' dtype as they lie.
    in_place: bool,
    /// Whether short runs are gathered to longer ones.
    joined: bool,
    /// Whether blocks are transposed, because the reduced dimension is what is contiguous.
    turned: bool,
    /// Whether elements have indices.
    indexed: bool,
    /// Whether caches may not hold all elements.
    far: bool,
    reduced_count: usize,
    /// Columns of a tile, and tiles along `col`.
    tile: usize,
    tiles: usize,
    outer_count: usize,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        reducer: &'a dyn Reducer,
        load: Load,
        indexed: bool,
        kept: &[KeptDim],
        reduced: &[ReducedDim],
        (data, source): (*mut u8, DType),
        outputs: &[Operand],
    ) -> Plan<'a> {
        let reduced_count: usize = reduced.iter().map(|d| d.size).product();
        let outer_count: usize = kept.iter().map(|d| d.size).product();
        let mut kept = merge_kept(kept);
        let mut reduced = merge_reduced(reduced, indexed);
        let domain = reducer.domain();
        let size = source.size() as isize;

        // Which dimensions a block has. Candidates are those with the smallest strides.
        let none_kept = KeptDim { size: 1, stride: 0, out_strides: [0; 2] };
        let none_reduced = Reduced { size: 1, stride: 0, step: 0 };
        let (col_stride, row_stride) =
            (kept.first().map_or(isize::MAX, |d| d.stride.abs()), reduced.first().map(|d| d.stride.abs()));
        let far = reduced_count.saturating_mul(outer_count).saturating_mul(source.size()) > NEAR;
        // Whether tiles are of several columns, which some operations have a way of their own for.
        let several = PIECE / reduced_count.max(1) >= SEVERAL && kept.first().is_some_and(|d| d.size >= SEVERAL);
        let single = row_stride.is_some_and(|s| {
            let (n, dense) = (reduced[0].size, s == size && col_stride == reduced[0].size as isize * size);
            let shortest = if several { reducer.shortest_run(dense, far) } else { long_row(dense) };
            s < col_stride && (kept.is_empty() || n >= shortest)
        });
        let mut row_at = 0;
        if !single && let Some(c) = kept.first() {
            // Prefer rows that lie end to end, else the nearest, unless there are too few of them.
            let end_to_end = reduced.iter().position(|r| c.stride == size && r.stride == c.stride * c.size as isize);
            let longest = (0..reduced.len()).rev().max_by_key(|&i| reduced[i].size).unwrap_or(0);
            row_at = end_to_end.unwrap_or(if reduced.first().is_some_and(|r| r.size < 8) { longest } else { 0 });
        }
        let row = if reduced.is_empty() { none_reduced } else { reduced.remove(row_at) };
        let col = if kept.is_empty() { none_kept } else { kept.remove(0) };

        let in_place = source == domain && load == Load::Cast && {
            let align = if domain == DType::Complex128 { 8 } else { size };
            let aligned = |s: isize| s % size == 0;
            data as isize % align == 0
                && aligned(col.stride)
                && aligned(row.stride)
                && kept.iter().all(|d| aligned(d.stride))
                && reduced.iter().all(|d| aligned(d.stride))
        };
        let direct = in_place
            && if single {
                row.stride == size
            } else {
                (col.stride == size || col.size == 1)
                    && (col.size >= 16 || row.stride == col.stride * col.size as isize || reduced_count == 1)
            };

        // (Where elements have indices, those of a gathered run have to be as far apart.)
        let in_order = || {
            let dims = || std::iter::once(&row).chain(&reduced);
            dims().zip(dims().skip(1)).all(|(inner, outer)| outer.step == inner.step * inner.size as i64)
        };
        let short = row.stride == size && row.size as isize * size <= SHORT_RUN && col.size == 1 && !reduced.is_empty();
        let joined = single && short && (!indexed || in_order());

        let turned = !single && !direct && row.stride == size && col.size > 1;
        let widest = match (single, turned) {
            (true, _) => (PIECE / reduced_count.max(1)).clamp(1, BATCH),
            // Whole rows at a time, if there is room for enough of them.
            (_, true) => (GATHERED / row.size.max(1)).max(TURNED_COLUMNS).min(reducer.tile(false, far)),
            // Few rows make one piece: there should be several tiles.
            _ if reduced_count < 2 * PIECE_ROWS => reducer.tile(direct, far).min((col.size / 4).max(FEWEST_COLUMNS)),
            _ => reducer.tile(direct, far),
        };
        let tiles = col.size.div_ceil(widest).max(1);
        // Tiles of equal width, in whole cache lines.
        let tile = if tiles == 1 { col.size } else { col.size.div_ceil(tiles).next_multiple_of(16).min(widest) }.max(1);
        let (first, second) = match load {
            Load::Cast => (cast_strip(source, domain), cast_strip(domain, domain)),
            Load::Unsigned => (cast_strip(source, DType::I64), cast_strip(domain, domain)),
            Load::Truth => (cast_strip(source, DType::Bool), cast_strip(DType::Bool, domain)),
            Load::Magnitude => (cast_strip(source, DType::Complex128), cast_strip(domain, domain)),
        };
        Plan {
            reducer,
            load,
            first,
            second,
            size,
            domain_size: domain.size(),
            input: Shared(data),
            outputs: outputs.iter().map(|o| (Shared(o.data), o.dtype)).collect(),
            outer_count: outer_count.checked_div(col.size).unwrap_or(0),
            tiles: col.size.div_ceil(tile),
            col,
            row,
            outer_kept: kept,
            outer_reduced: reduced,
            single,
            direct,
            in_place,
            joined,
            turned,
            indexed,
            far,
            reduced_count,
            tile,
        }
    }

    /// # Safety
    /// As [`super::reduce`].
    pub(super) unsafe fn run(&self) {
        let count = self.outer_count * self.tiles;
        let few = !self.single && self.reducer.prefers_few_pieces();
        let rows = if few { self.reduced_count.div_ceil(FEW_PIECES * num_threads()) } else { 0 };
        let rows = rows.max(self.reduced_count / (MOST_PARTIALS / self.tile).max(1));
        let piece = (PIECE / self.tile).max(PIECE_ROWS).max(rows);
        let pieces = if self.reduced_count < 2 * piece { 1 } else { self.reduced_count.div_ceil(piece) };
        let state = self.reducer.state_size();
        if pieces == 1 {
            let weight = (self.tile * self.reduced_count).max(1);
            let whole = self.direct && !self.single && self.outer_reduced.is_empty();
            return parallel_for(count, (TASK / weight).max(1), &|range| {
                let mut scratch = Scratch::new(self);
                for t in range {
                    let (tile, states) = (self.tile_at(t), scratch.states());
                    if whole {
                        let (row_stride, index_step) = (self.row.stride / self.size, self.row.step);
                        let (data, rows, cols) = (tile.data, self.row.size, tile.cols);
                        let far = self.far;
                        let block = Block { data, rows, row_stride, cols, col_stride: 1, index: 0, index_step, far };
                        // SAFETY: a tile's elements, aligned and of the domain's dtype where `direct`, and its outputs.
                        if unsafe { self.reducer.whole(block, &tile.outputs) } {
                            continue;
                        }
                    }
                    // SAFETY: the scratch memory holds a tile's states and a gathered block.
                    unsafe {
                        self.reducer.init(states, tile.cols);
                        self.fold_rows(&tile, 0..self.reduced_count, states, &mut scratch);
                        self.reducer.finish(states, tile.cols, &tile.outputs);
                    }
                }
            });
        }
        // One run of states per (tile, piece).
        let bytes = state * self.tile;
        let partials = buffer::Scratch::<u64>::new((count * pieces * bytes).div_ceil(8));
        let partials = Shared(partials.get().cast::<u8>());
        let grain = if self.pieces_together() {
            // Several to each task, if there are enough of them.
            (pieces / (4 * STREAMS)).clamp(1, STREAMS)
        } else {
            (TASK / (piece * self.tile)).max(1)
        };
        parallel_for(count * pieces, grain, &|mut range| {
            let mut scratch = Scratch::new(self);
            while let Some(i) = range.next() {
                let (tile, p) = (self.tile_at(i / pieces), i % pieces);
                // Those that are as long are folded together.
                let whole = (self.reduced_count / piece).saturating_sub(p);
                let together = if self.pieces_together() { whole.min(1 + range.len()) } else { 1 };
                if together > 1 {
                    // SAFETY: each run of states belongs to one piece, and follows the one before.
                    unsafe {
                        let states = partials.get().add(i * bytes);
                        self.reducer.init(states, together);
                        let data = tile.data.wrapping_add(p * piece * self.size as usize);
                        self.reducer.fold(Block::runs(data, piece, together, piece as isize), states);
                    }
                    range.nth(together - 2);
                    continue;
                }
                let rows = p * piece..((p + 1) * piece).min(self.reduced_count);
                // SAFETY: each run of states belongs to one piece.
                unsafe {
                    let states = partials.get().add(i * bytes);
                    self.reducer.init(states, tile.cols);
                    self.fold_rows(&tile, rows, states, &mut scratch);
                }
            }
        });
        // Wide tiles are merged a part at a time.
        let parts = self.tile.div_ceil(MERGED);
        parallel_for(count * parts, (TASK / (pieces * self.tile.min(MERGED))).max(1), &|range| {
            for i in range {
                let (t, start) = (i / parts, i % parts * MERGED);
                let mut tile = self.tile_at(t);
                let cols = MERGED.min(tile.cols.saturating_sub(start));
                for output in &mut tile.outputs {
                    output.data = output.data.wrapping_offset(start as isize * output.stride);
                }
                // SAFETY: the runs of states of this part of the tile, all initialised above.
                unsafe {
                    let states = partials.get().add(t * pieces * bytes + start * state);
                    let mut distance = 1;
                    while distance < pieces {
                        for p in (0..pieces - distance).step_by(2 * distance) {
                            let (into, from) = (states.add(p * bytes), states.add((p + distance) * bytes));
                            self.reducer.merge(into, from, cols);
                        }
                        distance *= 2;
                    }
                    self.reducer.finish(states, cols, &tile.outputs);
                }
            }
        });
    }

    /// Whether pieces are one block's columns: those of one run that is read in place, and whose elements have no indices.
    fn pieces_together(&self) -> bool {
        let one_run = self.single && self.direct && self.tile == 1 && self.outer_reduced.is_empty();
        one_run && !self.indexed && level() >= Level::Avx2 && FastPath::ReduceStreams.is_on()
    }

    fn tile_at(&self, t: usize) -> Tile {
        let (mut outer, start) = (t / self.tiles, (t % self.tiles) * self.tile);
        let mut offset = start as isize * self.col.stride;
        let mut out_offsets = self.col.out_strides.map(|s| start as isize * s);
        for d in &self.outer_kept {
            let i = (outer % d.size) as isize;
            outer /= d.size;
            offset += i * d.stride;
            out_offsets[0] += i * d.out_strides[0];
            out_offsets[1] += i * d.out_strides[1];
        }
        let outputs = self.outputs.iter().enumerate().map(|(k, &(data, dtype))| Output {
            data: data.get().wrapping_offset(out_offsets[k]),
            stride: self.col.out_strides[k],
            dtype,
        });
        Tile {
            data: self.input.get().wrapping_offset(offset),
            cols: self.tile.min(self.col.size - start),
            outputs: outputs.collect(),
        }
    }

    /// Folds the reduced elements `range` (in the walk's order) of a tile.
    unsafe fn fold_rows(&self, tile: &Tile, range: Range<usize>, states: *mut u8, scratch: &mut Scratch) {
        if self.joined {
            // SAFETY: the caller's.
            return unsafe { self.fold_joined(tile.data, range, states, scratch) };
        }
        let mut at = range.start;
        while at < range.end {
            let rows = (self.row.size - at % self.row.size).min(range.end - at);
            let (offset, index) = self.reduced_at(at);
            let data = tile.data.wrapping_offset(offset);
            at += rows;
            // SAFETY: `rows` rows of the tile, by the caller's contract.
            unsafe {
                match self.single {
                    true => self.fold_runs(data, rows, tile.cols, index, states, scratch),
                    false => self.fold_block(data, rows, tile.cols, index, states, scratch),
                }
            }
        }
    }

    /// Where the reduced element `at` (in the walk's order) lies, in bytes from the first, and its index.
    #[inline(always)]
    fn reduced_at(&self, at: usize) -> (isize, i64) {
        let (mut outer, r) = (at / self.row.size, at % self.row.size);
        let (mut offset, mut index) = (r as isize * self.row.stride, r as i64 * self.row.step);
        for d in &self.outer_reduced {
            let i = outer % d.size;
            outer /= d.size;
            offset += i as isize * d.stride;
            index += i as i64 * d.step;
        }
        (offset, index)
    }

    /// Folds the reduced elements `range` (in the walk's order) of one output, as many runs together as the scratch memory holds.
    unsafe fn fold_joined(&self, data: *const u8, range: Range<usize>, states: *mut u8, scratch: &mut Scratch) {
        let Some(next) = self.outer_reduced.first() else { return };
        let (to, length, size) = (scratch.gathered(), self.row.size, self.domain_size as isize);
        let mut at = range.start;
        while at < range.end {
            let index = self.reduced_at(at).1;
            let mut filled = 0;
            while at < range.end && filled < GATHERED {
                let room = (range.end - at).min(GATHERED - filled);
                let from = data.wrapping_offset(self.reduced_at(at).0);
                let whole = if at.is_multiple_of(length) { room / length } else { 0 };
                let (n, runs) = match whole {
                    0 => (room.min(length - at % length), 1),
                    _ => (length, whole.min(next.size - at / length % next.size)),
                };
                let bytes = n * self.domain_size;
                // SAFETY: runs of the caller's elements; the scratch memory holds as many.
                unsafe {
                    let to = to.offset(filled as isize * size);
                    if self.in_place && bytes <= SHORT_ROW_BYTES {
                        copy_rows((from, next.stride, to, bytes as isize, bytes, runs));
                    } else {
                        for i in 0..runs as isize {
                            let from = from.wrapping_offset(i * next.stride);
                            self.load_strip(from, self.size, to.offset(i * bytes as isize), size, n);
                        }
                    }
                }
                filled += n * runs;
                at += n * runs;
            }
            let run = Block { index, index_step: self.row.step, ..Block::runs(to, filled, 1, filled as isize) };
            // SAFETY: what was gathered, aligned and of the domain's dtype.
            unsafe { self.reducer.fold(run, states) };
        }
    }

    /// Folds columns that are contiguous elements, or are made such.
    unsafe fn fold_runs(
        &self,
        data: *const u8,
        rows: usize,
        cols: usize,
        index: i64,
        states: *mut u8,
        scratch: &mut Scratch,
    ) {
        let index_step = self.row.step;
        if self.direct {
            let col_stride = self.col.stride / self.size;
            let block = Block { index, index_step, ..Block::runs(data, rows, cols, col_stride) };
            // SAFETY: the caller's block, aligned and of the domain's dtype where `direct`.
            return unsafe { self.reducer.fold(block, states) };
        }
        let (row, col, size) = (self.row.stride, self.col.stride, self.domain_size as isize);
        // Several short columns at a time, or a part of a long one, that leave room for what they are made from.
        let most_rows = rows.min(GATHERED / 2);
        let most_cols = (GATHERED / 2 / rows).max(1);
        for j in (0..cols).step_by(most_cols) {
            let count = most_cols.min(cols - j);
            for r in (0..rows).step_by(most_rows) {
                let n = most_rows.min(rows - r);
                let from = data.wrapping_offset(j as isize * col + r as isize * row);
                let (strips, length) = if col == row * n as isize { (1, count * n) } else { (count, n) };
                let to = scratch.gathered();
                // SAFETY: the caller's elements, scratch memory that holds them, and their columns' states.
                unsafe {
                    for i in 0..strips as isize {
                        self.load_strip(
                            from.wrapping_offset(i * col),
                            row,
                            to.offset(i * size * n as isize),
                            size,
                            length,
                        );
                    }
                    let index = index + r as i64 * index_step;
                    let col_stride = n as isize;
                    let block = Block { index, index_step, ..Block::runs(to, n, count, col_stride) };
                    self.reducer.fold(block, states.add(j * self.reducer.state_size()));
                }
            }
        }
    }

    /// Folds rows of contiguous elements, or such as are made so.
    unsafe fn fold_block(
        &self,
        data: *const u8,
        rows: usize,
        cols: usize,
        index: i64,
        states: *mut u8,
        scratch: &mut Scratch,
    ) {
        let step = self.row.step;
        if self.direct {
            let row_stride = self.row.stride / self.size;
            let (index_step, far) = (step, self.far);
            let block = Block { data, rows, row_stride, cols, col_stride: 1, index, index_step, far };
            // SAFETY: the caller's block, aligned and of the domain's dtype where `direct`.
            return unsafe { self.reducer.fold(block, states) };
        }
        let at_once = (GATHERED / cols).max(1);
        let mut r = 0;
        while r < rows {
            let count = at_once.min(rows - r);
            let from = data.wrapping_offset(r as isize * self.row.stride);
            // SAFETY: `count` rows of the caller's, to scratch memory that holds them.
            unsafe {
                self.gather(from, count, cols, scratch);
                let data = scratch.gathered();
                let index = index + r as i64 * step;
                let (row_stride, index_step, far) = (cols as isize, step, false);
                let block = Block { data, rows: count, row_stride, cols, col_stride: 1, index, index_step, far };
                self.reducer.fold(block, states);
            }
            r += count;
        }
    }

    /// Fills the scratch memory with rows of contiguous elements in the domain's dtype.
    unsafe fn gather(&self, data: *const u8, rows: usize, cols: usize, scratch: &mut Scratch) {
        let to = scratch.gathered();
        let (size, row, col) = (self.domain_size as isize, self.row.stride, self.col.stride);
        if self.turned {
            let (mut src, mut src_stride) = (data, col);
            if !self.in_place {
                // Converted first, as it lies.
                (src, src_stride) = (scratch.unturned(), size * rows as isize);
                let dense = col == row * rows as isize;
                let (strips, n) = if dense { (1, rows * cols) } else { (cols, rows) };
                for j in 0..strips as isize {
                    // SAFETY: the caller's elements, and scratch memory for `rows * cols`.
                    unsafe {
                        self.load_strip(data.offset(j * col), row, src.cast_mut().offset(j * src_stride), size, n)
                    };
                }
            }
            let (dst_stride, src_stride) = ((size, size * cols as isize), (src_stride, size));
            // SAFETY: as above.
            return unsafe {
                transpose(self.domain_size, Matrix { dst: to, src, size: (cols, rows), dst_stride, src_stride })
            };
        }
        // Strips run along the longer dimension, except that contiguous rows go first, as one if they lie end to end.
        let along_cols = cols >= rows || (col == self.size && cols >= 16);
        let (strips, n, from_outer, from_inner, to_outer, to_inner) = if row == col * cols as isize {
            (1, rows * cols, 0, col, 0, size)
        } else if along_cols {
            (rows, cols, row, col, size * cols as isize, size)
        } else {
            (cols, rows, col, row, size, size * cols as isize)
        };
        for i in 0..strips as isize {
            // SAFETY: the caller's elements, and scratch memory for `rows * cols`.
            unsafe { self.load_strip(data.offset(i * from_outer), from_inner, to.offset(i * to_outer), to_inner, n) };
        }
    }

    unsafe fn load_strip(&self, from: *const u8, from_stride: isize, to: *mut u8, to_stride: isize, n: usize) {
        const STEP: usize = 256;
        if self.load == Load::Cast {
            // SAFETY: the caller's contract.
            return unsafe { (self.first)(from, from_stride, to, to_stride, n) };
        }
        let mut block = [Complex::<f64>::default(); STEP];
        let mut at = 0;
        while at < n {
            let count = STEP.min(n - at);
            let from = from.wrapping_offset(at as isize * from_stride);
            let to = to.wrapping_offset(at as isize * to_stride);
            let bytes = block.as_mut_ptr().cast::<u8>();
            // SAFETY: the caller's elements; the block holds `count` elements of any dtype.
            unsafe {
                match self.load {
                    Load::Truth => {
                        (self.first)(from, from_stride, bytes, 1, count);
                        (self.second)(bytes, 1, to, to_stride, count);
                    }
                    Load::Magnitude => {
                        (self.first)(from, from_stride, bytes, 16, count);
                        for (i, z) in block[..count].iter().enumerate() {
                            to.offset(i as isize * to_stride).cast::<f64>().write(z.re.hypot(z.im));
                        }
                    }
                    Load::Cast | Load::Unsigned => {
                        (self.first)(from, from_stride, to, to_stride, count);
                        for i in 0..count as isize {
                            *to.offset(i * to_stride).cast::<i64>() ^= i64::MIN;
                        }
                    }
                }
            }
            at += count;
        }
    }
}

/// A run of outputs along the column dimension.
struct Tile {
    data: *const u8,
    cols: usize,
    outputs: SmallVec<[Output; 2]>,
}

/// One task's memory: a tile's states, a gathered block, and one before it is transposed.
struct Scratch {
    memory: buffer::Scratch<u64>,
    states: usize,
    block: usize,
}

impl Scratch {
    fn new(plan: &Plan) -> Scratch {
        let states = (plan.reducer.state_size() * plan.tile).div_ceil(64) * 8;
        let block = plan.domain_size.div_ceil(8).max(1) * GATHERED.max(plan.tile);
        let blocks = if plan.direct && !plan.joined { 0 } else { 1 + (plan.turned && !plan.in_place) as usize };
        Scratch { memory: buffer::Scratch::new(states + blocks * block), states, block }
    }
    fn states(&mut self) -> *mut u8 {
        self.memory.get().cast()
    }
    fn gathered(&mut self) -> *mut u8 {
        self.memory.get().wrapping_add(self.states).cast()
    }
    fn unturned(&mut self) -> *mut u8 {
        self.memory.get().wrapping_add(self.states + self.block).cast()
    }
}

/// Drops dimensions of size 1, orders the rest by stride, innermost first (repeats last), and merges what lies end to
/// end.
fn merge_kept(dims: &[KeptDim]) -> SmallVec<[KeptDim; 6]> {
    let mut sorted: SmallVec<[KeptDim; 6]> = dims.iter().rev().filter(|d| d.size != 1).copied().collect();
    sorted.sort_by_key(|d| if d.stride == 0 { usize::MAX } else { d.stride.unsigned_abs() });
    let mut merged: SmallVec<[KeptDim; 6]> = SmallVec::new();
    for d in sorted {
        match merged.last_mut() {
            Some(last)
                if d.stride == last.stride * last.size as isize
                    && (0..2).all(|k| d.out_strides[k] == last.out_strides[k] * last.size as isize) =>
            {
                last.size *= d.size;
            }
            _ => merged.push(d),
        }
    }
    merged
}

fn merge_reduced(dims: &[ReducedDim], indexed: bool) -> SmallVec<[Reduced; 6]> {
    let mut step = 1;
    let mut sorted: SmallVec<[Reduced; 6]> = SmallVec::new();
    for d in dims.iter().rev() {
        if d.size != 1 {
            sorted.push(Reduced { size: d.size, stride: d.stride, step });
        }
        step *= d.size as i64;
    }
    // (Of windows that overlap, the dimension of the more elements goes inside.)
    let stride = |d: &Reduced| if d.stride == 0 { usize::MAX } else { d.stride.unsigned_abs() };
    sorted.sort_by_key(|d| (stride(d), std::cmp::Reverse(d.size)));
    let mut merged: SmallVec<[Reduced; 6]> = SmallVec::new();
    for d in sorted {
        match merged.last_mut() {
            Some(last)
                if d.stride == last.stride * last.size as isize
                    && (!indexed || d.step == last.step * last.size as i64) =>
            {
                last.size *= d.size;
            }
            _ => merged.push(d),
        }
    }
    merged
}
