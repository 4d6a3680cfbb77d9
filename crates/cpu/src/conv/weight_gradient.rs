//! The gradient of the weight: for every tap and input channel, the input under the tap times the output's gradient,
//! summed over all positions.
//!
//! The same micro-kernel: its rows are (channel, tap) pairs, read in place from staged tiles of the input; its columns
//! are output channels, packed position by position; its sums run over the positions of a tile.

use super::access::{Access, PixelStage, PlaneStage, load_run, prefetch};
use super::geometry::{Gather, Tiling};
use super::kernel::{Call, MOST_ROWS, Start, rows_of};
use super::pixels::Panels;
use super::planes::TASK_WORK;
use super::simd::{Dispatch, Number, Scratch, Shared, Simd, Task};
use flambeau_base::parallel::parallel_for;

/// Positions of a tile: 48 packed columns of `f32` then take half of a 48 KiB first-level cache.
const TILE_POSITIONS: usize = 144;
/// Rows of a task: its sums, 48 columns wide, share the caches with a tile (more rows were measured slower).
const TASK_ROWS: usize = 192;
/// Tasks to aim for when the weight alone gives fewer.
const WANTED_TASKS: usize = 16;
/// Partial weights are kept to this many numbers in all.
const MOST_PARTIAL: usize = 1 << 20;

#[derive(Clone, Copy)]
enum Stage {
    Planes(PlaneStage),
    Pixels(PixelStage),
}

struct Plan<'a, E> {
    gather: &'a Gather,
    access: Access<E>,
    input: *const u8,
    gradient: *const u8,
    tiling: Tiling,
    stage: Stage,
    /// Channels of a task.
    channels: usize,
    panels: Panels,
    tap_offsets: Vec<usize>,
    /// Sums by part, group, output channel, and term.
    partial: *mut E,
    parts: usize,
}
// SAFETY: its pointers are only read, except the partial sums, of which each task writes its own.
unsafe impl<E> Sync for Plan<'_, E> {}

struct BlockTask<'a, E> {
    plan: &'a Plan<'a, E>,
    group: usize,
    panel: usize,
    first_channel: usize,
    part: usize,
}

impl<E: Number> Task for BlockTask<'_, E> {
    type Element = E;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let plan = self.plan;
        let g = plan.gather;
        let taps = g.taps.len();
        let c0 = self.first_channel;
        let channels = plan.channels.min(g.source_channels - c0);
        let rows = channels * taps;
        let (column, vectors) = plan.panels.get(self.panel);
        let width = vectors * S::LANES;
        let columns = width.min(g.result_channels - column);
        let st = match plan.stage {
            Stage::Planes(s) => s.staged,
            Stage::Pixels(s) => s.staged,
        };
        let stage_len = match plan.stage {
            Stage::Planes(s) => plan.channels * s.staged.channel * usize::from(!s.in_place),
            Stage::Pixels(s) => plan.tiling.images * s.staged.image * usize::from(!s.in_place),
        };
        let stage_memory = Scratch::<E>::new(stage_len);
        let panel_memory = Scratch::<E>::new(plan.tiling.positions() * width);
        let row_memory = Scratch::<E>::new(plan.tiling.positions() * S::LANES);
        let sums = Scratch::<E>::new(rows * width);
        let term_offsets: Vec<usize> =
            (0..plan.channels * taps).map(|r| r / taps * st.channel + plan.tap_offsets[r % taps]).collect();
        // SAFETY: the sums were sized for it.
        unsafe { S::clear(sums.get(), rows * width) };

        let tiles = plan.tiling.len();
        let mut offsets: Vec<u32> = Vec::with_capacity(plan.tiling.positions());
        for t in self.part * tiles / plan.parts..(self.part + 1) * tiles / plan.parts {
            let tile = plan.tiling.get(t, g.batch, &g.axes);
            let positions = tile.images * tile.size.iter().product::<usize>();
            let step: [usize; 3] = match plan.stage {
                Stage::Planes(_) => [1; 3],
                Stage::Pixels(_) => std::array::from_fn(|a| g.axes[a].step),
            };
            offsets.clear();
            for image in 0..tile.images {
                for d in 0..tile.size[0] {
                    for h in 0..tile.size[1] {
                        let row = image * st.image + d * step[0] * st.axis[0] + h * step[1] * st.axis[1];
                        offsets.extend((0..tile.size[2]).map(|w| (row + w * step[2] * st.axis[2]) as u32));
                    }
                }
            }
            // SAFETY: the tile's positions of these channels exist; the panel was sized for them.
            unsafe {
                match plan.stage {
                    Stage::Planes(_) => {
                        self.pack_planes::<S>(&tile, column, columns, width, row_memory.get(), panel_memory.get());
                    }
                    Stage::Pixels(_) => self.pack_pixels::<S>(&tile, column, columns, width, panel_memory.get()),
                }
            }
            let all = g.groups * g.source_channels;
            let first = self.group * g.source_channels + c0;
            // SAFETY: channels and images exist; scratch memory was sized for them.
            let base = unsafe {
                match plan.stage {
                    Stage::Planes(s) => {
                        let plane = g.source_positions();
                        let source = plan.input.add((tile.image * all + first) * plane * plan.access.size);
                        s.fill::<S>(&g.axes, &tile, &plan.access, source, all * plane, channels, stage_memory.get())
                    }
                    Stage::Pixels(mut s) => {
                        s.channels = channels;
                        let place = tile.image * g.source_positions() * all + first;
                        let source = plan.input.add(place * plan.access.size);
                        s.fill::<S>(&g.axes, &tile, &plan.access, source, all, stage_memory.get())
                    }
                }
            };
            if let (Stage::Planes(s), true) = (plan.stage, t + 1 < tiles) {
                // While this tile is multiplied, the next one comes nearer.
                let next = plan.tiling.get(t + 1, g.batch, &g.axes);
                let plane = g.source_positions();
                let source = plan.input.wrapping_add((next.image * all + first) * plane * plan.access.size);
                s.prefetch(&g.axes, &next, &plan.access, source, all * plane, channels);
                let place = (next.first[0] * g.result[1] + next.first[1]) * g.result[2] + next.first[2];
                let each = next.size.iter().product::<usize>();
                for image in next.image..next.image + next.images {
                    for o in 0..columns {
                        let channel = (image * g.groups + self.group) * g.result_channels + column + o;
                        let from = (channel * g.result_positions() + place) * plan.access.size;
                        prefetch(plan.gradient.wrapping_add(from), each * plan.access.size);
                    }
                }
            }
            let mut row = 0;
            while row < rows {
                let (n, log) = rows_of::<S>(rows - row);
                // SAFETY: every offset plus every term's offset is a staged position.
                unsafe {
                    let call = Call {
                        depth: positions,
                        a: base,
                        a_rows: std::array::from_fn(|i| term_offsets[row + i.min(n - 1)]),
                        a_offsets: offsets.as_ptr(),
                        b: panel_memory.get(),
                        c: sums.get().add(row * width),
                        c_rows: std::array::from_fn::<_, MOST_ROWS, _>(|i| i * width),
                        columns: width,
                        start: Start::Accumulate,
                    };
                    S::TILES[log][vectors - 1](&call);
                }
                row += n;
            }
        }

        let depth = g.depth();
        for o in 0..columns {
            let channel = (self.part * g.groups + self.group) * g.result_channels + column + o;
            // SAFETY: this output channel's terms `c0 * taps ..` in this part are this task's.
            unsafe {
                let to = plan.partial.add(channel * depth + c0 * taps);
                for r in 0..rows {
                    *to.add(r) = *sums.get().add(r * width + o);
                }
            }
        }
    }
}

impl<E: Number> BlockTask<'_, E> {
    /// Packs the gradient of a tile's positions from planes: positions by columns, missing columns zero.
    #[inline(always)]
    unsafe fn pack_planes<S: Simd<Element = E>>(
        &self,
        tile: &super::geometry::TileRange,
        column: usize,
        columns: usize,
        width: usize,
        rows: *mut E,
        panel: *mut E,
    ) {
        let plan = self.plan;
        let g = plan.gather;
        let lanes = S::LANES;
        let plane = g.result_positions();
        let each = tile.size.iter().product::<usize>();
        let place = (tile.first[0] * g.result[1] + tile.first[1]) * g.result[2] + tile.first[2];
        for image in 0..tile.images {
            let first = ((tile.image + image) * g.groups + self.group) * g.result_channels + column;
            // A tile of one image is contiguous in each plane, and one of several holds whole planes.
            for group in (0..width).step_by(lanes) {
                let n = columns.saturating_sub(group).min(lanes);
                // SAFETY: the caller's.
                unsafe {
                    let source = plan.gradient.wrapping_add(((first + group) * plane + place) * plan.access.size);
                    let (mut from, mut stride) = (source.cast::<E>(), plane);
                    if !plan.access.same {
                        for i in 0..n {
                            let run = source.add(i * plane * plan.access.size);
                            (plan.access.load)(run, 1, each, rows.add(i * each));
                        }
                        (from, stride) = (rows.cast_const(), each);
                    }
                    let target = panel.add(image * each * width + group);
                    let mut position = 0;
                    while position < each {
                        let m = (each - position).min(lanes);
                        S::transpose(from.add(position), stride, n, m, target.add(position * width), width);
                        position += m;
                    }
                    if n < lanes {
                        for position in 0..each {
                            S::clear(target.add(position * width + n), lanes - n);
                        }
                    }
                }
            }
        }
    }

    /// Packs the gradient of a tile's positions with channels last.
    #[inline(always)]
    unsafe fn pack_pixels<S: Simd<Element = E>>(
        &self,
        tile: &super::geometry::TileRange,
        column: usize,
        columns: usize,
        width: usize,
        panel: *mut E,
    ) {
        let plan = self.plan;
        let g = plan.gather;
        let all = g.groups * g.result_channels;
        let each = tile.size.iter().product::<usize>();
        let place = (tile.first[0] * g.result[1] + tile.first[1]) * g.result[2] + tile.first[2];
        for image in 0..tile.images {
            let first = ((tile.image + image) * g.result_positions() + place) * all;
            for position in 0..each {
                // SAFETY: the caller's.
                unsafe {
                    let place = first + position * all + self.group * g.result_channels + column;
                    let target = panel.add((image * each + position) * width);
                    load_run::<S>(&plan.access, plan.gradient.add(place * plan.access.size), 1, columns, target);
                    if columns < width {
                        S::clear(target.add(columns), width - columns);
                    }
                }
            }
        }
    }
}

/// Computes the gradient of the weight. `gather` is the forward one; `weight` receives numbers.
///
/// # Safety
/// The arrays are valid for the gather's sizes; `weight` is nobody else's.
pub(crate) unsafe fn weight_gradient<E: Dispatch>(
    g: &Gather,
    channels_last: bool,
    access: Access<E>,
    input: *const u8,
    gradient: *const u8,
    weight: *mut E,
) {
    let depth = g.depth();
    let taps = g.taps.len();
    let len = g.groups * g.result_channels * depth;
    if len == 0 {
        return;
    }
    if g.batch * g.positions() == 0 {
        // SAFETY: the weight holds `len` numbers.
        unsafe { (0..len).for_each(|i| *weight.add(i) = E::default()) };
        return;
    }
    let tiling = Tiling::new(g.batch, &g.axes, TILE_POSITIONS);
    let tiles = tiling.len();
    let panels = Panels::new(g.result_channels, E::lanes(), 3);
    let most = (TASK_ROWS / taps).max(1);
    let channels = g.source_channels.div_ceil(g.source_channels.div_ceil(most));
    let blocks = g.source_channels.div_ceil(channels);
    let all = g.groups * g.source_channels;
    let stage = if channels_last {
        Stage::Pixels(PixelStage::new(&g.axes, tiling.images, tiling.size, access.same, channels, all))
    } else {
        let image_stride = all * g.source_positions();
        Stage::Planes(PlaneStage::new(&g.axes, tiling.images, tiling.size, access.same, channels, image_stride))
    };
    let units = g.groups * panels.count * blocks;
    let work = channels * taps * panels.columns.min(3 * panels.lanes) * tiling.positions();
    let parts = WANTED_TASKS.div_ceil(units).min(MOST_PARTIAL / len).min(tiles * work / TASK_WORK).clamp(1, tiles);
    let memory = Scratch::<E>::new(if parts > 1 { parts * len } else { 0 });
    let plan = Plan {
        gather: g,
        access,
        input,
        gradient,
        tiling,
        stage,
        channels,
        panels,
        tap_offsets: g
            .taps
            .iter()
            .map(|t| match &stage {
                Stage::Planes(s) => s.tap(&t.1),
                Stage::Pixels(s) => s.tap(&t.1),
            })
            .collect(),
        partial: if parts > 1 { memory.get() } else { weight },
        parts,
    };
    let plan = &plan;
    let grain = TASK_WORK.div_ceil((work * tiles / parts).max(1));
    parallel_for(units * parts, grain, &|range| {
        for i in range {
            let (unit, part) = (i / parts, i % parts);
            let (block, panel) = (unit % blocks, unit / blocks % plan.panels.count);
            let group = unit / (blocks * plan.panels.count);
            let task = BlockTask { plan, group, panel, first_channel: block * plan.channels, part };
            // SAFETY: the caller's.
            unsafe { E::dispatch(&task) };
        }
    });
    if parts > 1 {
        let (partial, weight) = (Shared(memory.get()), Shared(weight));
        parallel_for(len, 1 << 15, &|range| {
            for i in range {
                // SAFETY: every part holds `len` sums; the pieces are disjoint.
                unsafe {
                    let sum =
                        (1..parts).fold(*partial.get().add(i), |sum, p| sum.plus(*partial.get().add(p * len + i)));
                    *weight.get().add(i) = sum;
                }
            }
        });
    }
}
