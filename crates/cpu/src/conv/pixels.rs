//! Gathers with channels last (NHWC): implicit matrix multiplication, pixels times packed weights.
//!
//! A pixel's channels are contiguous, so the micro-kernel reads pixels in place, at a table of distances, and its
//! vectors run over result channels. Only padding (or a narrower dtype) makes a staged copy of a tile necessary.

use super::access::PixelStage;
use super::access::store_run;
use super::geometry::{Gather, Tiling};
use super::kernel::{Call, Start, rows_of};
use super::planes::{Operands, TASK_WORK};
use super::simd::{Dispatch, Number, Scratch, Shared, Simd, Task};
use flambeau_base::parallel::parallel_for;

/// Positions of a tile.
const TILE_POSITIONS: usize = 256;
/// Terms of a block: see `planes::BLOCK_TERMS`.
const BLOCK_TERMS: usize = 192;

/// Panels of result channels: their number, and the vectors and first channel of one.
#[derive(Clone, Copy)]
pub(crate) struct Panels {
    /// Columns in all.
    pub columns: usize,
    /// Lanes of a vector.
    pub lanes: usize,
    /// Number of panels.
    pub count: usize,
}

impl Panels {
    /// Panels of at most `most` vectors for `columns` columns.
    pub(crate) fn new(columns: usize, lanes: usize, most: usize) -> Panels {
        Panels { columns, lanes, count: columns.div_ceil(lanes).div_ceil(most) }
    }

    /// First column and number of vectors of panel `p`.
    #[inline(always)]
    pub(crate) fn get(&self, p: usize) -> (usize, usize) {
        let vectors = self.columns.div_ceil(self.lanes);
        let (each, more) = (vectors / self.count, vectors % self.count);
        ((p * each + p.min(more)) * self.lanes, each + usize::from(p < more))
    }

    /// Columns with those that fill the last vector.
    pub(crate) fn padded(&self) -> usize {
        self.columns.next_multiple_of(self.lanes)
    }
}

struct Plan<'a, E> {
    gather: &'a Gather,
    operands: Operands<E>,
    tiling: Tiling,
    stage: PixelStage,
    /// Offsets of the terms, taps outermost, from a position.
    offsets: Vec<u32>,
    packed: *const E,
    panels: Panels,
    panels_per_task: usize,
}
// SAFETY: its pointers are only read, except the result, of which each task writes its own part.
unsafe impl<E> Sync for Plan<'_, E> {}

struct TileTask<'a, E> {
    plan: &'a Plan<'a, E>,
    tile: usize,
    group: usize,
    first_panel: usize,
}

impl<E: Number> Task for TileTask<'_, E> {
    type Element = E;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let plan = self.plan;
        let g = plan.gather;
        let op = &plan.operands;
        let tile = plan.tiling.get(self.tile, g.batch, &g.axes);
        let positions = tile.images * tile.size.iter().product::<usize>();
        let depth = g.depth();
        let st = &plan.stage.staged;
        let stage_memory = Scratch::<E>::new(if plan.stage.in_place { 0 } else { tile.images * st.image });
        let all = g.groups * g.source_channels;
        // SAFETY: the tile's first image and the group's first channel exist.
        let base = unsafe {
            let place = tile.image * g.source_positions() * all + self.group * g.source_channels;
            let source = op.source.add(place * op.access.size);
            plan.stage.fill::<S>(&g.axes, &tile, &op.access, source, all, stage_memory.get())
        };

        // Where each position is read and written.
        let all_results = g.groups * g.result_channels;
        let mut reads = Vec::with_capacity(positions);
        let mut writes = Vec::with_capacity(positions);
        for image in 0..tile.images {
            for d in 0..tile.size[0] {
                for h in 0..tile.size[1] {
                    let read = image * st.image + d * g.axes[0].step * st.axis[0] + h * g.axes[1].step * st.axis[1];
                    let at = |a: usize, i: usize| g.axes[a].start + (tile.first[a] + i) * g.axes[a].spacing;
                    let plane = (tile.image + image) * g.result[0] + at(0, d);
                    let write = (plane * g.result[1] + at(1, h)) * g.result[2];
                    for w in 0..tile.size[2] {
                        reads.push(read + w * g.axes[2].step * st.axis[2]);
                        writes.push((write + at(2, w)) * all_results);
                    }
                }
            }
        }

        let last_panel = (self.first_panel + plan.panels_per_task).min(plan.panels.count);
        let first_column = plan.panels.get(self.first_panel).0;
        let end_column = plan.panels.get(last_panel - 1).0 + plan.panels.get(last_panel - 1).1 * S::LANES;
        let columns = end_column.min(g.result_channels) - first_column;
        let direct = op.access.same;
        let sums_memory = Scratch::<E>::new(if direct { 0 } else { positions * columns });
        let mut k0 = 0;
        loop {
            let k1 = (k0 + BLOCK_TERMS).min(depth);
            for p in self.first_panel..last_panel {
                let (column, vectors) = plan.panels.get(p);
                let mut position = 0;
                while position < positions {
                    let (rows, log) = rows_of::<S>(positions - position);
                    let row = |i: usize| position + i.min(rows - 1);
                    let channel = self.group * g.result_channels + column;
                    // SAFETY: reads stay in the staged tile, panels in the packed weights; the tile's positions and
                    // these channels of the result are this task's alone.
                    unsafe {
                        let panel = plan
                            .packed
                            .add((self.group * plan.panels.padded() + column) * depth + k0 * vectors * S::LANES);
                        let call = Call {
                            depth: k1 - k0,
                            a: base,
                            a_rows: std::array::from_fn(|i| reads[row(i)]),
                            a_offsets: plan.offsets.as_ptr().add(k0),
                            b: panel,
                            c: if direct {
                                op.result.cast::<E>().add(channel)
                            } else {
                                sums_memory.get().add(column - first_column)
                            },
                            c_rows: std::array::from_fn(|i| if direct { writes[row(i)] } else { row(i) * columns }),
                            columns: (vectors * S::LANES).min(g.result_channels - column),
                            start: match (k0, op.bias.is_null()) {
                                (0, true) => Start::Zero,
                                (0, false) => Start::ColumnBias(op.bias.add(channel)),
                                _ => Start::Accumulate,
                            },
                        };
                        S::TILES[log][vectors - 1](&call);
                    }
                    position += rows;
                }
            }
            k0 = k1;
            if k0 >= depth {
                break;
            }
        }
        if !direct {
            for (i, write) in writes.iter().enumerate() {
                let place = write + self.group * g.result_channels + first_column;
                // SAFETY: as above.
                unsafe {
                    let to = op.result.add(place * op.access.size);
                    store_run::<S>(&op.access, sums_memory.get().add(i * columns), to, 1, columns);
                }
            }
        }
    }
}

/// Packs the weights into panels: terms (taps outermost) by columns of result channels, missing ones zero.
unsafe fn pack_weights<E: Dispatch>(g: &Gather, weight: *const E, panels: Panels, packed: &Shared<E>) {
    let depth = g.depth();
    let lanes = panels.lanes;
    let weight = Shared(weight.cast_mut());
    let grain = (TASK_WORK / 4).div_ceil((depth * 3 * lanes).max(1));
    parallel_for(g.groups * panels.count, grain, &|range| {
        for i in range {
            let (group, (first, vectors)) = (i / panels.count, panels.get(i % panels.count));
            let width = vectors * lanes;
            // SAFETY: rows and terms are inside the weight; the panel belongs to this piece.
            unsafe {
                let source = weight.get().add(group * g.weight_group_stride + first * g.weight_result_stride);
                let target = packed.get().add((group * panels.padded() + first) * depth);
                let columns = width.min(g.result_channels - first);
                for c in 0..g.source_channels {
                    for column in 0..width {
                        let from = source.wrapping_add(column * g.weight_result_stride + c * g.weight_source_stride);
                        for (t, tap) in g.taps.iter().enumerate() {
                            let x = if column < columns { *from.add(tap.0) } else { E::default() };
                            *target.add((t * g.source_channels + c) * width + column) = x;
                        }
                    }
                }
            }
        }
    });
}

/// Computes a gather with channels last.
///
/// # Safety
/// The operands are valid for the gather's sizes, the result is nobody else's.
pub(crate) unsafe fn gather<E: Dispatch>(g: &Gather, operands: Operands<E>) {
    let positions = g.positions();
    if g.batch * g.groups * g.result_channels * positions == 0 {
        return;
    }
    let depth = g.depth();
    let tiling = Tiling::new(g.batch, &g.axes, TILE_POSITIONS);
    let stage = PixelStage::new(
        &g.axes,
        tiling.images,
        tiling.size,
        operands.access.same,
        g.source_channels,
        g.groups * g.source_channels,
    );
    let panels = Panels::new(g.result_channels, E::lanes(), 3);
    let memory = Scratch::<E>::new(g.groups * panels.padded() * depth);
    // SAFETY: the weight is valid; the memory was sized for its panels.
    unsafe { pack_weights(g, operands.weight, panels, &Shared(memory.get())) };
    let units = tiling.len() * g.groups;
    let width = 3 * panels.lanes;
    let block = super::planes::channel_block(
        g.result_channels,
        units,
        tiling.positions() * depth.max(1),
        usize::MAX / 2,
        width,
    );
    let panels_per_task = (block / width).min(panels.count);
    let blocks = panels.count.div_ceil(panels_per_task);
    let plan = Plan {
        gather: g,
        operands,
        tiling,
        stage,
        offsets: g
            .taps
            .iter()
            .flat_map(|t| (0..g.source_channels).map(move |c| (stage.tap(&t.1) + c) as u32))
            .collect(),
        packed: memory.get(),
        panels,
        panels_per_task,
    };
    let plan = &plan;
    let grain = TASK_WORK.div_ceil(block.min(g.result_channels) * tiling.positions() * depth.max(1));
    parallel_for(units * blocks, grain, &|range| {
        for i in range {
            let (unit, block) = (i / blocks, i % blocks);
            let task = TileTask {
                plan,
                tile: unit / plan.gather.groups,
                group: unit % plan.gather.groups,
                first_panel: block * plan.panels_per_task,
            };
            // SAFETY: the caller's.
            unsafe { E::dispatch(&task) };
        }
    });
}
