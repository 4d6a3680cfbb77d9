//! Gathers over contiguous planes (NCHW): implicit matrix multiplication, weights times panels of pixels.
//!
//! A tile's source channels are staged as padded planes ([`PlaneStage`]); from there each panel of pixels is packed
//! for a block of terms and multiplied with every weight row while it is in the first-level cache. The whole im2col
//! matrix never exists.

use super::access::{Access, PlaneStage, store_run};
use super::geometry::{Gather, TileRange, Tiling};
use super::kernel::{Call, MOST_ROWS, Start, rows_of};
use super::simd::{Dispatch, Number, Scratch, Shared, Simd, Task};
use flambeau_base::parallel::parallel_for;

/// The arrays of a gather.
#[derive(Clone, Copy)]
pub(crate) struct Operands<E> {
    /// How source and result are stored.
    pub access: Access<E>,
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
const TILE_POSITIONS: usize = 768;
/// Positions of a tile of several images, whose sums are kept in working memory.
const BUFFERED_POSITIONS: usize = 400;
/// Terms of a block: a panel of 48 `f32` columns then fills three quarters of a 48 KiB first-level cache.
const BLOCK_TERMS: usize = 192;
/// Terms of a block when one channel has more taps than `BLOCK_TERMS`.
const MOST_TERMS: usize = 1024;
/// Result channels of a task at most.
const MOST_CHANNELS: usize = 256;
/// From this many positions on, packing the weights pays.
const PACKED_POSITIONS: usize = 512;
/// Multiply-adds below which work is not split.
pub(crate) const TASK_WORK: usize = 200_000;

/// Splits `rows` weight rows, so that `units * blocks` tasks keep many cores busy and none is tiny.
pub(crate) fn channel_block(rows: usize, units: usize, work_per_row: usize, most: usize, multiple: usize) -> usize {
    let wanted = 32usize.div_ceil(units.max(1));
    let by_work = (4 * TASK_WORK).div_ceil(work_per_row.max(1));
    rows.div_ceil(wanted).max(by_work).max(multiple).min(most).next_multiple_of(multiple)
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

/// Cuts runs, whose neighbours are `spacing` apart, into pieces of at most `most` columns for panels of `widths`
/// columns each.
fn cut(runs: &[(usize, usize)], spacing: usize, widths: &[usize], most: usize) -> Vec<Vec<Piece>> {
    let mut panels = vec![Vec::new(); widths.len()];
    let (mut panel, mut column) = (0, 0);
    for &(mut offset, mut len) in runs {
        while len > 0 {
            if column == widths[panel] {
                (panel, column) = (panel + 1, 0);
            }
            let n = len.min(widths[panel] - column).min(most);
            panels[panel].push(Piece { offset, column, len: n });
            (offset, len, column) = (offset + n * spacing, len - n, column + n);
        }
    }
    panels
}

struct Plan<'a, E> {
    gather: &'a Gather,
    operands: Operands<E>,
    tiling: Tiling,
    stage: PlaneStage,
    tap_offsets: Vec<usize>,
    /// Packed weights by group and row, or null: then rows are read where they are.
    packed: *const E,
    /// Offsets of the terms in an unpacked row.
    weight_offsets: Vec<u32>,
    /// Multiples of 1, 2, 4 and 8: offsets of the terms in packed rows.
    multiples: [Vec<u32>; 4],
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
        let positions = tile.images * tile.size.iter().product::<usize>();
        let vectors = positions.div_ceil(lanes);
        let panels = vectors.div_ceil(3);
        let widths: Vec<usize> = (0..panels)
            .scan(positions, |left, p| {
                let width = (vectors / panels + usize::from(p < vectors % panels)) * lanes;
                let columns = width.min(*left);
                *left -= columns;
                Some(columns)
            })
            .collect();
        let sources = cut(&source_runs(plan, &tile), 1, &widths, lanes);
        let result_plane = g.result_positions();
        let results = result_runs(plan, &tile);
        let stored = if plan.direct { Vec::new() } else { cut(&results, g.axes[2].spacing, &widths, usize::MAX) };
        let result_base = (tile.image * g.groups + self.group) * g.result_channels;

        let taps = g.taps.len();
        let depth = g.depth();
        let source_plane = g.source_positions();
        let image_stride = g.groups * g.source_channels * source_plane;
        // A block may begin and end inside a channel's taps.
        let most_channels = (plan.block + taps).saturating_sub(2).checked_div(taps).map_or(0, |n| n + 1);
        let stage_len = if plan.stage.in_place { 0 } else { most_channels * plan.stage.staged.channel };
        let stage_memory = Scratch::<E>::new(stage_len);
        let panel_memory = Scratch::<E>::new((plan.block + 1) * 3 * lanes);
        let sums_memory =
            Scratch::<E>::new(if plan.direct { 0 } else { panels * 3 * lanes * (channels.end - channels.start) });
        let mut offsets = vec![0u32; plan.block];

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
                    plan.stage.fill::<S>(&g.axes, &tile, &op.access, source, image_stride, c1 - c0, stage_memory.get())
                };
            }
            let mut column = 0;
            for p in 0..panels {
                let count = widths[p].div_ceil(lanes);
                let width = count * lanes;
                // SAFETY: staged positions, the panel and the weights cover every index by construction; a tile's
                // result positions belong to this task alone.
                unsafe {
                    pack::<S>(base, &offsets[..k1 - k0], &sources[p], width, panel_memory.get());
                    let mut row = channels.start;
                    while row < channels.end {
                        let (rows, log) = rows_of::<S>(channels.end - row);
                        let channel = self.group * g.result_channels + row;
                        let mut call = Call {
                            depth: k1 - k0,
                            a: op.weight,
                            a_rows: [0; MOST_ROWS],
                            a_offsets: std::ptr::null(),
                            b: panel_memory.get(),
                            c: sums_memory.get(),
                            c_rows: [0; MOST_ROWS],
                            columns: widths[p],
                            start: match (k0, op.bias.is_null()) {
                                (0, true) => Start::Zero,
                                (0, false) => Start::RowBias(op.bias.add(channel)),
                                _ => Start::Accumulate,
                            },
                        };
                        if plan.packed.is_null() {
                            call.a = op.weight.add(self.group * g.weight_group_stride + row * g.weight_result_stride);
                            call.a_rows = std::array::from_fn(|i| i * g.weight_result_stride);
                            call.a_offsets = plan.weight_offsets.as_ptr().add(k0);
                        } else {
                            call.a = plan.packed.add(channel * depth + k0 * rows);
                            call.a_rows = std::array::from_fn(|i| i);
                            call.a_offsets = plan.multiples[log].as_ptr();
                        }
                        if plan.direct {
                            let place = (result_base + row) * result_plane + results[0].0 + column;
                            call.c = op.result.cast::<E>().add(place);
                            call.c_rows = std::array::from_fn(|i| i * result_plane);
                        } else {
                            let place = column * (channels.end - channels.start) + (row - channels.start) * width;
                            call.c = call.c.add(place);
                            call.c_rows = std::array::from_fn(|i| i * width);
                        }
                        S::TILES[log][count - 1](&call);
                        row += rows;
                    }
                }
                column += width;
            }
            k0 = k1;
            if k0 >= depth {
                break;
            }
        }
        if !plan.direct {
            let spacing = g.axes[2].spacing;
            let mut column = 0;
            for (p, pieces) in stored.iter().enumerate() {
                let width = widths[p].next_multiple_of(lanes);
                for row in channels.clone() {
                    let sums = column * (channels.end - channels.start) + (row - channels.start) * width;
                    for piece in pieces {
                        let place = (result_base + row) * result_plane + piece.offset;
                        // SAFETY: as above.
                        unsafe {
                            let from = sums_memory.get().add(sums + piece.column);
                            let to = op.result.add(place * op.access.size);
                            store_run::<S>(&op.access, from, to, spacing, piece.len);
                        }
                    }
                }
                column += width;
            }
        }
    }
}

/// The runs of a tile's positions in staged memory.
fn source_runs<E>(plan: &Plan<E>, tile: &TileRange) -> Vec<(usize, usize)> {
    let st = &plan.stage.staged;
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

/// Packs the weights: for each tile of rows, the rows' numbers term by term.
unsafe fn pack_weights<E: Dispatch>(g: &Gather, weight: *const E, offsets: &[u32], packed: &Shared<E>) {
    let weight = Shared(weight.cast_mut());
    let (rows_most, depth) = (E::rows(), offsets.len());
    let tiles = g.result_channels.div_ceil(rows_most);
    let grain = (TASK_WORK / 4).div_ceil(depth * rows_most);
    parallel_for(g.groups * tiles, grain, &|range| {
        for i in range {
            let (group, first) = (i / tiles, i % tiles * rows_most);
            let end = (first + rows_most).min(g.result_channels);
            let mut row = first;
            while row < end {
                let rows = 1 << (end - row).ilog2();
                // SAFETY: rows and terms are inside the weight; the packed rows belong to this piece.
                unsafe {
                    let source = weight.get().add(group * g.weight_group_stride + row * g.weight_result_stride);
                    let target = packed.get().add((group * g.result_channels + row) * depth);
                    for (k, &offset) in offsets.iter().enumerate() {
                        for r in 0..rows {
                            *target.add(k * rows + r) = *source.add(r * g.weight_result_stride + offset as usize);
                        }
                    }
                }
                row += rows;
            }
        }
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
    let target = if spaced || 2 * positions <= BUFFERED_POSITIONS || !operands.access.same {
        BUFFERED_POSITIONS
    } else {
        TILE_POSITIONS
    };
    let tiling = Tiling::new(g.batch, &g.axes, target);
    let direct = operands.access.same && !spaced && tiling.images == 1;
    let source_plane = g.source_positions();
    let image_stride = g.groups * g.source_channels * source_plane;
    let stage =
        PlaneStage::new(&g.axes, tiling.images, tiling.size, operands.access.same, g.source_channels, image_stride);
    let block = if taps > MOST_TERMS {
        MOST_TERMS
    } else {
        let most = (BLOCK_TERMS / taps.max(1)).max(1);
        let blocks = g.source_channels.div_ceil(most).max(1);
        g.source_channels.div_ceil(blocks) * taps
    };
    let weight_offsets: Vec<u32> = (0..g.source_channels)
        .flat_map(|c| g.taps.iter().map(move |t| (c * g.weight_source_stride + t.0) as u32))
        .collect();
    let packed_memory = (g.batch * positions >= PACKED_POSITIONS && depth > 0)
        .then(|| Scratch::<E>::new(g.groups * g.result_channels * depth));
    if let Some(memory) = &packed_memory {
        // SAFETY: the weight is valid; the memory was sized for it.
        unsafe { pack_weights(g, operands.weight, &weight_offsets, &Shared(memory.get())) };
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
        tap_offsets: g.taps.iter().map(|t| stage.tap(&t.1)).collect(),
        packed: packed_memory.as_ref().map_or(std::ptr::null(), |m| m.get()),
        weight_offsets,
        multiples: std::array::from_fn(|log| (0..block as u32).map(|k| k << log).collect()),
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
