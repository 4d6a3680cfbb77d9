//! The gradient of the weight: for every tap and input channel, the input under the tap times the output's gradient,
//! summed over all positions.
//!
//! The same micro-kernel: its rows are (channel, tap) pairs, read in place from staged tiles of the input; its columns
//! are output channels, packed position by position; its sums run over the positions of a tile, but for those whose
//! product with the tap is padding.

use super::access::{Access, Stage, load_run};
use super::geometry::{Gather, Kinds, TileRange, Tiling};
use super::kernel::{Call, MOST_ROWS, Start, Term, most_rows, rows_of};
use super::pixels::Panels;
use super::planes::TASK_WORK;
use super::simd::{Dispatch, Number, Scratch, Shared, Simd, Task};
use crate::prefetch::prefetch_run;
use flambeau_base::parallel::parallel_for;

/// Positions of a tile: a panel of 48 `f32` columns and what is staged are in the second-level cache then. (Measured:
/// the fewer positions, the more the sums' way to the caches costs.)
const TILE_POSITIONS: usize = 800;
/// Rows of a task: its sums, 48 columns wide, share the second-level cache with a tile.
const TASK_ROWS: usize = 576;
/// With more taps than this, products with padding are not left out.
const MOST_TAPS: usize = 64;
/// Tasks to aim for when the weight alone gives fewer.
pub(super) const WANTED_TASKS: usize = 16;
/// Partial weights are kept to this many numbers in all.
const MOST_PARTIAL: usize = 1 << 20;

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
    kinds: Kinds,
    /// For each kind of tile, the fewest vectors of a panel and one more: the terms of each tap, and then all.
    terms: Vec<[Vec<Vec<Term>>; 2]>,
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
        let st = plan.stage.staged();
        let stage_len = plan.stage.len(plan.tiling.images, plan.channels);
        let stage_memory = Scratch::<E>::new(stage_len);
        let panel_memory = Scratch::<E>::new(plan.tiling.positions() * width);
        let row_memory = Scratch::<E>::new(plan.tiling.positions() * S::LANES);
        let sums = Scratch::<E>::new(rows * width);
        // SAFETY: the sums were sized for it.
        unsafe { S::clear(sums.get(), rows * width) };

        let tiles = plan.tiling.len();
        for t in self.part * tiles / plan.parts..(self.part + 1) * tiles / plan.parts {
            let tile = plan.tiling.get(t, g.batch, &g.axes);
            let terms = &plan.terms[plan.kinds.of(t)][vectors - plan.panels.least()];
            // SAFETY: the tile's positions of these channels exist; the panel was sized for them.
            unsafe {
                match plan.stage {
                    Stage::Planes(_) => {
                        self.pack_planes::<S>(&tile, column, columns, width, row_memory.get(), panel_memory.get());
                    }
                    Stage::Pixels(_) => self.pack_pixels::<S>(&tile, column, columns, width, panel_memory.get()),
                }
            }
            let read = (self.group * g.source_channels + c0, channels, g.groups * g.source_channels);
            // SAFETY: channels and images exist; scratch memory was sized for them.
            let base =
                unsafe { plan.stage.fill::<S>(&g.axes, &tile, &plan.access, plan.input, read, stage_memory.get()) };
            if let (Stage::Planes(_), true) = (plan.stage, t + 1 < tiles) {
                // While this tile is multiplied, the next one comes nearer.
                let next = plan.tiling.get(t + 1, g.batch, &g.axes);
                plan.stage.prefetch(&g.axes, &next, &plan.access, plan.input, read);
                let place = (next.first[0] * g.result[1] + next.first[1]) * g.result[2] + next.first[2];
                let each = next.size.iter().product::<usize>();
                for image in next.image..next.image + next.images {
                    for o in 0..columns {
                        let channel = (image * g.groups + self.group) * g.result_channels + column + o;
                        let from = (channel * g.result_positions() + place) * plan.access.size;
                        prefetch_run(plan.gradient.wrapping_add(from), each * plan.access.size);
                    }
                }
            }
            // Rows of several channels and one tap have its terms; what channels are left over go row by row with all.
            let most = most_rows(S::ROWS, vectors);
            let together = if terms.len() > 1 { channels / S::ROWS * S::ROWS } else { 0 };
            let tile_rows = |rows: &[(usize, usize); MOST_ROWS], n: usize, terms: &[Term]| {
                let at = |i: usize| rows[i.min(n - 1)];
                // SAFETY: every row's start plus every term's offset is a staged position.
                unsafe {
                    let call = Call {
                        depth: terms.len(),
                        a: base,
                        a_rows: std::array::from_fn(|i| at(i).0 * st.channel + plan.tap_offsets[at(i).1]),
                        terms: terms.as_ptr(),
                        b: panel_memory.get(),
                        c: sums.get(),
                        c_rows: std::array::from_fn(|i| (at(i).0 * taps + at(i).1) * width),
                        columns: width,
                        start: Start::Accumulate,
                    };
                    S::TILES[rows_of(n, most).1][vectors - 1](&call);
                }
            };
            let mut c = 0;
            while c < together {
                let n = if together - c >= most { most } else { S::ROWS };
                for (tap, terms) in terms[..taps].iter().enumerate() {
                    tile_rows(&std::array::from_fn(|i| (c + i, tap)), n, terms);
                }
                c += n;
            }
            let mut row = together * taps;
            while row < rows {
                let (n, _) = rows_of(rows - row, most);
                tile_rows(&std::array::from_fn(|i| ((row + i) / taps, (row + i) % taps)), n, &terms[terms.len() - 1]);
                row += n;
            }
        }

        let depth = g.depth();
        let channel = (self.part * g.groups + self.group) * g.result_channels + column;
        for o in (0..columns).step_by(S::LANES) {
            for row in (0..rows).step_by(S::LANES) {
                let (n, m) = ((rows - row).min(S::LANES), (columns - o).min(S::LANES));
                // SAFETY: these output channels' terms `c0 * taps ..` in this part are this task's.
                unsafe {
                    let to = plan.partial.add((channel + o) * depth + c0 * taps + row);
                    S::transpose(sums.get().add(row * width + o), width, n, m, to, depth);
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

/// The terms of each tap, if they are wanted and few, and then of all, for a kind of tile.
fn terms(g: &Gather, stage: &Stage, kinds: &Kinds, tile: &TileRange, width: usize, each: bool) -> Vec<Vec<Term>> {
    let neighbours = stage.neighbours(&g.axes);
    let counts: [usize; 3] = std::array::from_fn(|a| g.axes[a].taps.len());
    let taps = if each && g.taps.len() <= MOST_TAPS { g.taps.len() } else { 0 };
    let positions: usize = tile.size.iter().product();
    let of_tap = |tap: Option<[usize; 3]>| {
        // Whether a position's product with the tap is not with padding.
        let inside = |a: usize, i: usize| {
            let (begin, end) = kinds.classes[a].ranges[kinds.classes[a].of[tile.first[a] + i]];
            tap.is_none_or(|tap| (begin..end).contains(&tap[a]))
        };
        let widths: Vec<usize> = (0..tile.size[2]).filter(|&w| inside(2, w)).collect();
        let mut terms = Vec::with_capacity(tile.images * positions);
        for image in 0..tile.images {
            for d in (0..tile.size[0]).filter(|&d| inside(0, d)) {
                for h in (0..tile.size[1]).filter(|&h| inside(1, h)) {
                    let a = image * stage.staged().image + d * neighbours[0] + h * neighbours[1];
                    let row = image * positions + (d * tile.size[1] + h) * tile.size[2];
                    terms.extend(
                        widths
                            .iter()
                            .map(|&w| Term { a: (a + w * neighbours[2]) as u32, b: ((row + w) * width) as u32 }),
                    );
                }
            }
        }
        terms
    };
    let tap = |t: usize| [t / (counts[1] * counts[2]), t / counts[2] % counts[1], t % counts[2]];
    (0..taps).map(|t| of_tap(Some(tap(t)))).chain([of_tap(None)]).collect()
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
    let mut channels = g.source_channels.div_ceil(g.source_channels.div_ceil(most));
    let rows = most_rows(E::rows(), panels.widest() / panels.lanes);
    if channels < g.source_channels && channels > rows {
        channels = channels.next_multiple_of(rows);
    }
    let blocks = g.source_channels.div_ceil(channels);
    let all = g.groups * g.source_channels;
    let stage = Stage::new(&g.axes, channels_last, tiling.images, tiling.size, access.same, channels, all);
    let units = g.groups * panels.count * blocks;
    let work = channels * taps * panels.columns.min(3 * panels.lanes) * tiling.positions();
    let parts = WANTED_TASKS.div_ceil(units).min(MOST_PARTIAL / len).min(tiles * work / TASK_WORK).clamp(1, tiles);
    let memory = Scratch::<E>::new(if parts > 1 { parts * len } else { 0 });
    let kinds = Kinds::new(&tiling, g.batch, &g.axes);
    let plan = Plan {
        gather: g,
        access,
        input,
        gradient,
        tiling,
        stage,
        channels,
        panels,
        tap_offsets: g.taps.iter().map(|t| stage.tap(&t.1)).collect(),
        terms: (kinds.tiles.iter())
            .map(|tile| {
                [0, 1].map(|more| {
                    let width = (panels.least() + more) * panels.lanes;
                    if width <= panels.widest() {
                        terms(g, &stage, &kinds, tile, width, channels >= E::rows())
                    } else {
                        vec![]
                    }
                })
            })
            .collect(),
        kinds,
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
        // SAFETY: every part has written its `len` sums; the weight holds as many.
        unsafe { add_parts(memory.get(), parts, len, weight) };
    }
}

/// Adds up parts of `len` sums, one after the other in memory.
///
/// # Safety
/// The memory and the sum's are valid, and apart.
pub(super) unsafe fn add_parts<E: Number>(partial: *const E, parts: usize, len: usize, sum: *mut E) {
    let (partial, weight) = (Shared(partial.cast_mut()), Shared(sum));
    parallel_for(len, 1 << 15, &|range| {
        for i in range {
            // SAFETY: the caller's; the pieces are disjoint.
            unsafe {
                let first = *partial.get().add(i);
                *weight.get().add(i) = (1..parts).fold(first, |sum, p| sum.plus(*partial.get().add(p * len + i)));
            }
        }
    });
}
