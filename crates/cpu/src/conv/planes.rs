//! Gathers over contiguous planes (NCHW): implicit matrix multiplication, weights times panels of pixels.
//!
//! A tile's source channels are staged as padded planes ([`PlaneStage`]); from there each panel of pixels is packed
//! for a block of terms and multiplied with every weight row while it is in the first-level cache. Where there are
//! so few weight rows that packing would take as long as multiplying, and rows of pixels are long enough for panels of
//! their own, these are read where they are staged. The whole im2col matrix never exists.

use super::access::{Access, PlaneStage, store_run};
use super::geometry::{Gather, TileRange, Tiling};
use super::kernel::{Call, MOST_ROWS, Start, TILE_ROWS, Term, block_terms, rows_of};
use super::simd::{Dispatch, Number, Scratch, Shared, Simd, Task};
use crate::prefetch::prefetch_run;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use std::ops::Range;

/// The arrays of a gather.
#[derive(Clone, Copy)]
pub(crate) struct Operands<E> {
    /// How the source is stored.
    pub access: Access<E>,
    /// How the result is stored.
    pub stored: Access<E>,
    /// The source.
    pub source: *const u8,
    /// The weight, as numbers.
    pub weight: *const E,
    /// The bias, as numbers; null for none.
    pub bias: *const E,
    /// The result.
    pub result: *mut u8,
}

/// Positions of a tile (measured: 400 to 1000 are alike; fewer re-read the weights too often).
const TILE_POSITIONS: usize = 800;
/// Positions of a tile of several images, whose sums are kept in working memory.
const BUFFERED_POSITIONS: usize = 400;
/// Terms of a block when one channel has more taps than [`block_terms`].
const MOST_TERMS: usize = 1024;
/// Result channels of a task at most.
const MOST_CHANNELS: usize = 256;
/// Result channels of a task at least: every task stages or packs its pixels anew.
pub(crate) const LEAST_CHANNELS: usize = 128;
/// With at most this many tiles, tasks pack the weights they use, block by block: all of them are used only once or
/// twice, and packing them beforehand would write and read them once more.
const FEW_TILES: usize = 3;
/// Numbers of a tile's pixels that are packed at once then: half a second-level cache of `f32`.
const MOST_PACKED: usize = 1 << 16;
/// Multiply-adds below which work is not split.
pub(crate) const TASK_WORK: usize = 200_000;

/// Splits `rows` weight rows, so that `units * blocks` tasks keep many cores busy and none is tiny.
pub(crate) fn channel_block(rows: usize, units: usize, work_per_row: usize, most: usize, multiple: usize) -> usize {
    let wanted = 32usize.div_ceil(units.max(1));
    let by_work = (4 * TASK_WORK).div_ceil(work_per_row.max(1));
    rows.div_ceil(wanted).max(by_work).max(LEAST_CHANNELS).min(most).next_multiple_of(multiple)
}

/// Bytes of the lines that a panel's pixels lie in, where they are read in place: what is left of a first-level cache.
const LINES_BYTES: usize = 24 << 10;
/// Numbers that are staged for a block whose panels are read in place: half a second-level cache of `f32`.
const MOST_STAGED: usize = 1 << 16;

/// Up to three vectors of a tile's positions.
struct Panel {
    /// The first of them.
    position: usize,
    /// Their number.
    columns: usize,
    /// Where they begin if every panel is filled up to whole vectors.
    column: usize,
}

/// Cuts runs of positions into panels.
fn panels(runs: impl IntoIterator<Item = usize>, lanes: usize) -> Vec<Panel> {
    let (mut panels, mut position, mut column) = (Vec::new(), 0, 0);
    for len in runs {
        let (vectors, end) = (len.div_ceil(lanes), position + len);
        let count = vectors.div_ceil(3);
        for p in 0..count {
            let width = (vectors / count + usize::from(p < vectors % count)) * lanes;
            let columns = width.min(end - position);
            panels.push(Panel { position, columns, column });
            (position, column) = (position + columns, column + width);
        }
    }
    panels
}

/// Whether to read the panels of a tile with these runs in place, each for `tiles` tiles of rows. (In half
/// cycles on AVX2: what a panel costs per term and tile of rows by its vectors, loads across lines included, and what
/// packing a piece of a vector does.)
fn pays_in_place(runs: &[(usize, usize)], lanes: usize, tiles: usize) -> bool {
    const IN_PLACE: [usize; 3] = [9, 10, 13];
    const PACKED: [usize; 3] = [8, 9, 12];
    const PACKING: usize = 3;
    let cost = |panels: &[Panel], of: [usize; 3]| {
        panels.iter().map(|p| of[p.columns.div_ceil(lanes) - 1] * tiles).sum::<usize>()
    };
    let packed = panels([runs.iter().map(|r| r.1).sum()], lanes);
    let packing = PACKING * cut(runs, 1, &packed, lanes).iter().map(Vec::len).sum::<usize>();
    cost(&panels(runs.iter().map(|r| r.1), lanes), IN_PLACE) < cost(&packed, PACKED) + packing
}

/// Source channels of a block whose panels are read in place: a panel's lines stay in the first-level cache, and what is
/// staged in the second.
fn unpacked_channels<E: Dispatch>(g: &Gather, stage: &PlaneStage) -> usize {
    let lines = (3 * E::lanes() + g.axes[2].reach) * size_of::<E>() / 64 + 2;
    let rows = g.axes[0].taps.len() * g.axes[1].taps.len() * g.axes[2].residues.len();
    let staged = if stage.in_place { usize::MAX } else { MOST_STAGED / stage.staged.channel };
    (LINES_BYTES / (64 * lines * rows)).min(MOST_TERMS / g.taps.len()).min(staged)
}

#[derive(Clone, Copy)]
struct Piece {
    offset: usize,
    column: usize,
    len: usize,
}

/// Appends a run, or lengthens the last one if this one continues it.
fn push_run(runs: &mut Vec<(usize, usize)>, offset: usize, len: usize, merge: bool) {
    match runs.last_mut() {
        Some(last) if merge && last.0 + last.1 == offset => last.1 += len,
        _ => runs.push((offset, len)),
    }
}

/// Cuts runs, whose neighbours are `spacing` apart, into each panel's pieces of at most `most` columns.
fn cut(runs: &[(usize, usize)], spacing: usize, panels: &[Panel], most: usize) -> Vec<Vec<Piece>> {
    let mut pieces = vec![Vec::new(); panels.len()];
    let (mut panel, mut column) = (0, 0);
    for &(mut offset, mut len) in runs {
        while len > 0 {
            if column == panels[panel].columns {
                (panel, column) = (panel + 1, 0);
            }
            let n = len.min(panels[panel].columns - column).min(most);
            pieces[panel].push(Piece { offset, column, len: n });
            (offset, len, column) = (offset + n * spacing, len - n, column + n);
        }
    }
    pieces
}

struct Plan<'a, E> {
    gather: &'a Gather,
    operands: Operands<E>,
    tiling: Tiling,
    stage: PlaneStage,
    tap_offsets: Vec<usize>,
    /// Packed weights by group and row, or null: then tasks pack them.
    packed: *const E,
    /// Offsets of the terms in a row of the weight.
    weight_offsets: Vec<usize>,
    /// The terms of packed tiles of so many rows and panels of 1 to 3 vectors.
    terms: [[Vec<Term>; 3]; TILE_ROWS.len()],
    /// Whether panels are read where they are staged.
    in_place: bool,
    block: usize,
    channel_block: usize,
    /// Whether sums go straight to the result.
    direct: bool,
}
// SAFETY: its pointers are only read, except the result, of which each task writes its own part.
unsafe impl<E> Sync for Plan<'_, E> {}

struct TileTask<'a, E> {
    plan: &'a Plan<'a, E>,
    tile: usize,
    group: usize,
    first_channel: usize,
}

impl<E: Number> Task for TileTask<'_, E> {
    type Element = E;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let plan = self.plan;
        let g = plan.gather;
        let op = &plan.operands;
        let tile = plan.tiling.get(self.tile, g.batch, &g.axes);
        let channels = self.first_channel..(self.first_channel + plan.channel_block).min(g.result_channels);
        let lanes = S::LANES;
        let sources = source_runs(&plan.stage, &tile);
        let panels = match plan.in_place {
            true => panels(sources.iter().map(|r| r.1), lanes),
            false => panels([tile.images * tile.size.iter().product::<usize>()], lanes),
        };
        let padded = panels.last().map_or(0, |p| p.column + p.columns.next_multiple_of(lanes));
        let sources = cut(&sources, 1, &panels, lanes);
        let result_plane = g.result_positions();
        let results = result_runs(plan, &tile);
        let stored = if plan.direct { Vec::new() } else { cut(&results, g.axes[2].spacing, &panels, usize::MAX) };
        let result_base = (tile.image * g.groups + self.group) * g.result_channels;

        let taps = g.taps.len();
        let depth = g.depth();
        let source_plane = g.source_positions();
        let image_stride = g.groups * g.source_channels * source_plane;
        // A block may begin and end inside a channel's taps.
        let most_channels = (plan.block + taps).saturating_sub(2).checked_div(taps).map_or(0, |n| n + 1);
        let stage_len = if plan.stage.in_place { 0 } else { most_channels * plan.stage.staged.channel };
        // (The last vector of a run that is read in place may reach beyond it, at the end beyond what is staged: zeros.)
        let stage_memory = Scratch::<E>::new(stage_len + lanes);
        let few = plan.packed.is_null();
        let columns = match (plan.in_place, few) {
            (true, _) => 0,
            (_, true) => padded,
            _ => 3 * lanes,
        };
        let panel_memory = Scratch::<E>::new((plan.block + 1) * columns);
        let row_memory = Scratch::<E>::new(if few { plan.block * S::ROWS } else { 0 });
        let sums_memory = Scratch::<E>::new(if plan.direct { 0 } else { padded * channels.len() });
        let mut offsets = vec![0u32; plan.block];
        // Multiplies a tile of weight rows with a panel.
        let multiply = |row: usize, index: usize, a: *const E, (b, panel): (*const E, &Panel), k: Range<usize>| {
            let channel = self.group * g.result_channels + row;
            let width = panel.columns.next_multiple_of(lanes);
            // SAFETY: the caller's: these rows and columns are this task's.
            unsafe {
                let (c, stride, columns) = if plan.direct {
                    let place = (result_base + row) * result_plane + results[0].0 + panel.position;
                    (op.result.cast::<E>().add(place), result_plane, panel.columns)
                } else {
                    let place = panel.column * channels.len() + (row - channels.start) * width;
                    (sums_memory.get().add(place), width, width)
                };
                let call = Call {
                    depth: k.len(),
                    a,
                    a_rows: std::array::from_fn(|i| i),
                    terms: plan.terms[index][width / lanes - 1].as_ptr(),
                    b,
                    c,
                    c_rows: std::array::from_fn(|i| i * stride),
                    columns,
                    start: match (k.start, op.bias.is_null()) {
                        (0, true) => Start::Zero,
                        (0, false) => Start::RowBias(op.bias.add(channel)),
                        _ => Start::Accumulate,
                    },
                };
                S::TILES[index][width / lanes - 1](&call);
            }
        };

        let mut k0 = 0;
        loop {
            let k1 = (k0 + plan.block).min(depth);
            let mut base = stage_memory.get().cast_const();
            if k1 > k0 {
                let c0 = k0 / taps;
                let c1 = (k1 - 1) / taps + 1;
                for (offset, k) in offsets.iter_mut().zip(k0..k1) {
                    *offset = ((k / taps - c0) * plan.stage.staged.channel + plan.tap_offsets[k % taps]) as u32;
                }
                let channel = (tile.image * g.groups + self.group) * g.source_channels + c0;
                // SAFETY: the channel exists; the scratch memory was sized for `most_channels`.
                base = unsafe {
                    let source = op.source.add(channel * source_plane * op.access.size);
                    if plan.in_place && !plan.stage.in_place {
                        S::clear(stage_memory.get().add((c1 - c0) * plan.stage.staged.channel), lanes);
                    }
                    plan.stage.fill::<S>(&g.axes, &tile, &op.access, source, image_stride, c1 - c0, stage_memory.get())
                };
            }
            if k1 < depth {
                let (c0, c1) = (k1 / taps, ((k1 + plan.block).min(depth) - 1) / taps + 1);
                let channel = (tile.image * g.groups + self.group) * g.source_channels + c0;
                let source = op.source.wrapping_add(channel * source_plane * op.access.size);
                plan.stage.prefetch(&g.axes, &tile, &op.access, source, image_stride, c1 - c0);
            }
            let terms = k1 - k0;
            for (panel, pieces) in panels.iter().zip(&sources) {
                // SAFETY: staged positions, the panel and the weights cover every index by construction; a tile's
                // result positions belong to this task alone.
                unsafe {
                    let width = panel.columns.next_multiple_of(lanes);
                    let mut pixels = base.wrapping_add(pieces[0].offset);
                    if !plan.in_place {
                        let packed = panel_memory.get().add(if few { panel.column * terms } else { 0 });
                        pack::<S>(base, &offsets[..terms], pieces, width, packed);
                        pixels = packed;
                    }
                    let mut row = channels.start;
                    while row < channels.end && !few {
                        let (rows, index) = rows_of(channels.end - row, S::ROWS);
                        let channel = self.group * g.result_channels + row;
                        let a = plan.packed.add(channel * depth + k0 * rows);
                        multiply(row, index, a, (pixels, panel), k0..k1);
                        row += rows;
                    }
                }
            }
            let mut row = channels.start;
            while row < channels.end && few {
                let (rows, index) = rows_of(channels.end - row, S::ROWS);
                // SAFETY: as above.
                unsafe {
                    let source = op.weight.add(self.group * g.weight_group_stride + row * g.weight_result_stride);
                    let terms_of = &plan.weight_offsets[k0..k1];
                    pack_rows::<S>(source, g.weight_result_stride, rows, (terms_of, taps), row_memory.get(), rows);
                    if row + rows < channels.end {
                        prefetch_rows(source.wrapping_add(rows * g.weight_result_stride), g, rows, terms_of);
                    }
                    for panel in &panels {
                        let pixels = panel_memory.get().add(panel.column * terms).cast_const();
                        multiply(row, index, row_memory.get(), (pixels, panel), k0..k1);
                    }
                }
                row += rows;
            }
            k0 = k1;
            if k0 >= depth {
                break;
            }
        }
        if !plan.direct {
            let spacing = g.axes[2].spacing;
            for (panel, pieces) in panels.iter().zip(&stored) {
                let width = panel.columns.next_multiple_of(lanes);
                for row in channels.clone() {
                    let sums = panel.column * channels.len() + (row - channels.start) * width;
                    for piece in pieces {
                        let place = (result_base + row) * result_plane + piece.offset;
                        // SAFETY: as above.
                        unsafe {
                            let from = sums_memory.get().add(sums + piece.column);
                            let to = op.result.add(place * op.stored.size);
                            store_run::<S>(&op.stored, from, to, spacing, piece.len);
                        }
                    }
                }
            }
        }
    }
}

/// The runs of a tile's positions in staged memory.
fn source_runs(stage: &PlaneStage, tile: &TileRange) -> Vec<(usize, usize)> {
    let st = &stage.staged;
    let mut runs = Vec::new();
    for image in 0..tile.images {
        for d in 0..tile.size[0] {
            for h in 0..tile.size[1] {
                push_run(&mut runs, image * st.image + d * st.axis[0] + h * st.axis[1], tile.size[2], true);
            }
        }
    }
    runs
}

/// The runs of a tile's positions in the result, from the tile's first image's first position. Lengths count
/// positions, which may be spaced.
fn result_runs<E>(plan: &Plan<E>, tile: &TileRange) -> Vec<(usize, usize)> {
    let g = plan.gather;
    let image_stride = g.groups * g.result_channels * g.result_positions();
    let at = |a: usize, i: usize| g.axes[a].start + (tile.first[a] + i) * g.axes[a].spacing;
    let mut runs = Vec::new();
    for image in 0..tile.images {
        for d in 0..tile.size[0] {
            for h in 0..tile.size[1] {
                let row = (at(0, d) * g.result[1] + at(1, h)) * g.result[2] + at(2, 0);
                push_run(&mut runs, image * image_stride + row, tile.size[2], g.axes[2].spacing == 1);
            }
        }
    }
    runs
}

/// Packs a panel: for every offset, the pieces side by side in a row of `width` numbers.
#[inline(always)]
unsafe fn pack<S: Simd>(
    base: *const S::Element,
    offsets: &[u32],
    pieces: &[Piece],
    width: usize,
    panel: *mut S::Element,
) {
    // SAFETY: the caller's: pieces lie in staged memory and inside the panel's rows.
    unsafe {
        let end = pieces.last().map_or(0, |p| p.column + p.len);
        if end < width {
            for k in 0..offsets.len() {
                S::clear(panel.add(k * width + end), width - end);
            }
        }
        for piece in pieces {
            let (base, mut panel) = (base.wrapping_add(piece.offset), panel.add(piece.column));
            if piece.len == S::LANES {
                for &offset in offsets {
                    S::store(panel, S::load(base.wrapping_add(offset as usize)));
                    panel = panel.wrapping_add(width);
                }
            } else if piece.column + S::LANES <= width {
                // What is written beyond the piece is overwritten by the next ones.
                for &offset in offsets {
                    S::store(panel, S::load_first(base.wrapping_add(offset as usize), piece.len));
                    panel = panel.wrapping_add(width);
                }
            } else {
                for &offset in offsets {
                    let v = S::load_first(base.wrapping_add(offset as usize), piece.len);
                    S::store_first(panel, v, piece.len);
                    panel = panel.wrapping_add(width);
                }
            }
        }
    }
}

/// Packs `rows` rows of the weight term by term, of channels of `taps` taps each; terms are `width` numbers apart.
#[inline(always)]
pub(crate) unsafe fn pack_rows<S: Simd>(
    source: *const S::Element,
    stride: usize,
    rows: usize,
    (offsets, taps): (&[usize], usize),
    target: *mut S::Element,
    width: usize,
) {
    // What is neighbours in memory is transposed together: all terms, or channels, or runs of terms.
    let in_line = offsets.windows(2).fold(true, |all, pair| all & (pair[1] == pair[0] + 1));
    let channels = offsets.len() / taps.max(1);
    let together = !in_line
        && taps > 1
        && channels > 1
        && offsets.len() == channels * taps
        && (1..channels).all(|c| offsets[c * taps] == offsets[0] + c);
    for first in (0..rows).step_by(S::LANES) {
        let n = (rows - first).min(S::LANES);
        // SAFETY: rows and terms are inside the weight; the target holds `rows` numbers per term.
        unsafe {
            let (source, target) = (source.add(first * stride), target.add(first));
            if together {
                for tap in 0..taps {
                    for c in (0..channels).step_by(S::LANES) {
                        let (terms, k) = ((channels - c).min(S::LANES), c * taps + tap);
                        S::transpose(source.add(offsets[k]), stride, n, terms, target.add(k * width), taps * width);
                    }
                }
                continue;
            }
            let mut k = 0;
            while k < offsets.len() {
                let most = (offsets.len() - k).min(S::LANES);
                let ends = |&terms: &usize| offsets[k + terms] != offsets[k] + terms;
                let terms = if in_line { most } else { (1..most).find(ends).unwrap_or(most) };
                let (from, to) = (source.add(offsets[k]), target.add(k * width));
                if stride == 1 && terms == 1 {
                    S::copy(from, to, n);
                } else {
                    S::transpose(from, stride, n, terms, to, width);
                }
                k += terms;
            }
        }
    }
}

/// Asks for rows of the weight that are packed next: one run per row, or where rows are interleaved one per channel.
#[inline(always)]
fn prefetch_rows<E>(source: *const E, g: &Gather, rows: usize, offsets: &[usize]) {
    let Some(&first) = offsets.first() else { return };
    if g.weight_result_stride >= g.weight_source_stride {
        for row in 0..rows {
            let from = source.wrapping_add(row * g.weight_result_stride + first);
            prefetch_run(from.cast(), offsets.len() * size_of::<E>());
        }
    } else {
        for &offset in offsets.iter().step_by(g.taps.len()) {
            prefetch_run(source.wrapping_add(offset).cast(), rows * g.weight_result_stride * size_of::<E>());
        }
    }
}

struct PackTask<'a, E> {
    gather: &'a Gather,
    weight: *const E,
    offsets: &'a [usize],
    packed: *mut E,
    units: Range<usize>,
}

impl<E: Number> Task for PackTask<'_, E> {
    type Element = E;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let g = self.gather;
        let tiles = g.result_channels.div_ceil(S::ROWS);
        for unit in self.units.clone() {
            let (group, mut row) = (unit / tiles, unit % tiles * S::ROWS);
            let end = (row + S::ROWS).min(g.result_channels);
            while row < end {
                let (rows, _) = rows_of(end - row, S::ROWS);
                // SAFETY: the rows are inside the weight; their packed places belong to this task.
                unsafe {
                    let source = self.weight.add(group * g.weight_group_stride + row * g.weight_result_stride);
                    let target = self.packed.add((group * g.result_channels + row) * self.offsets.len());
                    pack_rows::<S>(source, g.weight_result_stride, rows, (self.offsets, g.taps.len()), target, rows);
                }
                row += rows;
            }
        }
    }
}

/// Packs all weights: for each tile of rows, the rows' numbers term by term.
unsafe fn pack_weights<E: Dispatch>(g: &Gather, weight: *const E, offsets: &[usize], packed: *mut E) {
    let tiles = g.groups * g.result_channels.div_ceil(E::rows());
    let grain = (TASK_WORK / 4).div_ceil(offsets.len() * E::rows());
    let (weight, packed) = (Shared(weight.cast_mut()), Shared(packed));
    parallel_for(tiles, grain, &|units| {
        let task = PackTask { gather: g, weight: weight.get(), offsets, packed: packed.get(), units };
        // SAFETY: the caller's.
        unsafe { E::dispatch(&task) };
    });
}

/// Computes a gather over contiguous planes.
///
/// # Safety
/// The operands are valid for the gather's sizes, the result is nobody else's.
pub(crate) unsafe fn gather<E: Dispatch>(g: &Gather, operands: Operands<E>) {
    let positions = g.positions();
    if g.batch * g.groups * g.result_channels * positions == 0 {
        return;
    }
    let depth = g.depth();
    let taps = g.taps.len();
    let spaced = g.axes.iter().any(|a| a.spacing != 1);
    let target = if spaced || 2 * positions <= BUFFERED_POSITIONS || !operands.stored.same {
        // Of few channels more: the fewer rows a tile has, the more of them are staged twice.
        (BUFFERED_POSITIONS * LEAST_CHANNELS / g.result_channels).clamp(BUFFERED_POSITIONS, 2 * TILE_POSITIONS)
    } else {
        TILE_POSITIONS
    };
    let tiling = Tiling::new(g.batch, &g.axes, target);
    let direct = operands.stored.same && !spaced && tiling.images == 1;
    let source_plane = g.source_positions();
    let image_stride = g.groups * g.source_channels * source_plane;
    let stage = PlaneStage::new(
        &g.axes,
        tiling.images,
        tiling.size,
        operands.access.same,
        g.source_channels,
        image_stride,
        true,
    );
    let lanes = E::lanes();
    let packed = tiling.positions() * depth.min(block_terms::<E>(3 * lanes));
    let few = tiling.len() <= FEW_TILES && packed <= MOST_PACKED || depth == 0;
    let channels = g.result_channels.min(LEAST_CHANNELS);
    let whole = TileRange { image: 0, images: tiling.images, first: [0; 3], size: tiling.size };
    let runs = source_runs(&stage, &whole);
    // What a run's last vector reads beyond it has to be there: the next run, or whatever else is staged.
    let divides =
        g.batch.is_multiple_of(tiling.images) && (0..3).all(|a| g.axes[a].count.is_multiple_of(tiling.size[a]));
    let readable = runs.iter().all(|r| r.1 % lanes == 0) || !stage.in_place && divides;
    let in_place = !few
        && readable
        && taps <= MOST_TERMS
        && FastPath::ConvUnpacked.is_on()
        && pays_in_place(&runs, lanes, channels.div_ceil(E::rows()));
    let block = if taps > MOST_TERMS {
        MOST_TERMS
    } else {
        let most = if in_place { unpacked_channels::<E>(g, &stage) } else { block_terms::<E>(3 * lanes) / taps.max(1) };
        let blocks = g.source_channels.div_ceil(most.max(1)).max(1);
        g.source_channels.div_ceil(blocks) * taps
    };
    let tap_offsets: Vec<usize> = g.taps.iter().map(|t| stage.tap(&t.1)).collect();
    // The terms of a packed panel follow one another; those of one in place lie where their taps do.
    let terms = TILE_ROWS.map(|rows| {
        std::array::from_fn(|v| {
            let width = (v + 1) * lanes;
            let b = |k: usize| match in_place {
                true => k / taps * stage.staged.channel + tap_offsets[k % taps],
                false => k * width,
            };
            let used = if rows <= E::rows() { block } else { 0 };
            (0..used).map(|k| Term { a: (k * rows) as u32, b: b(k) as u32 }).collect()
        })
    });
    let weight_offsets = g.weight_offsets();
    let packed_memory = (!few).then(|| Scratch::<E>::new(g.groups * g.result_channels * depth));
    if let Some(memory) = &packed_memory {
        // SAFETY: the weight is valid; the memory was sized for it.
        unsafe { pack_weights(g, operands.weight, &weight_offsets, memory.get()) };
    }
    let units = tiling.len() * g.groups;
    let channel_block =
        channel_block(g.result_channels, units, tiling.positions() * depth.max(1), MOST_CHANNELS, MOST_ROWS);
    let blocks = g.result_channels.div_ceil(channel_block);
    let plan = Plan {
        gather: g,
        operands,
        tiling,
        stage,
        tap_offsets,
        packed: packed_memory.as_ref().map_or(std::ptr::null(), |m| m.get()),
        weight_offsets,
        terms,
        in_place,
        block,
        channel_block,
        direct,
    };
    let plan = &plan;
    let grain = TASK_WORK.div_ceil(channel_block * tiling.positions() * depth.max(1));
    parallel_for(units * blocks, grain, &|range| {
        for i in range {
            let (unit, block) = (i / blocks, i % blocks);
            let task = TileTask {
                plan,
                tile: unit / plan.gather.groups,
                group: unit % plan.gather.groups,
                first_channel: block * plan.channel_block,
            };
            // SAFETY: the caller's.
            unsafe { E::dispatch(&task) };
        }
    });
}
