//! Gathers as implicit matrix multiplication, pixels times packed weights.
//!
//! The micro-kernel reads pixels in place, at a table of distances, and its vectors run over result channels. Whether a
//! source keeps its channels together (channels last) or in planes changes the distances only, and how finished sums are
//! stored: those of planes are kept in working memory, and transposed at the end.
//!
//! Products with padding are left out as far as the pixels of a register tile agree on them: the positions of a tile
//! are put together by the taps they have in the source ([`Kinds`]). Of 3 x 3 taps on 7 x 7 pixels a fifth is padding.
//! Where hardly a tile would have to be smaller for it, no products with padding are left, and the source need not be
//! staged. Else positions that are left over share tiles, if that is cheaper ([`put_together`]).

use super::access::{Stage, store_run};
use super::geometry::{Gather, Kinds, TileRange, Tiling};
use super::kernel::{Call, MOST_ROWS, Start, Term, block_terms, most_rows, rows_of};
use super::planes::{LEAST_CHANNELS, Operands, TASK_WORK, channel_block, pack_rows};
use super::simd::{Dispatch, Number, Scratch, Shared, Simd, Task};
use crate::prefetch::prefetch_run;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use std::ops::Range;

/// Positions of a tile, with channels last.
const TILE_POSITIONS: usize = 256;
/// Positions of a tile of planes, at least and at most: fewer read the weights too often, more are no gain.
const PLANE_POSITIONS: [usize; 2] = [392, 800];
/// Sums kept in working memory: half a second-level cache of `f32`.
const MOST_SUMS: usize = 1 << 17;
/// Groups of positions to choose from when they are put together, at most.
const MOST_GROUPS: usize = 16;
/// Multiply-adds for a position from which that pays.
const GROUPS_WORK: usize = 100_000;
/// With at most this many tiles, tasks pack the weights they use, panel by panel.
const FEW_TILES: usize = 2;

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

    /// The same columns in so many panels of at most `most` vectors that `tasks` tasks have the same work. (Panels of one
    /// vector are not worth it.)
    pub(crate) fn in_tasks(self, tasks: usize, most: usize) -> Panels {
        let vectors = self.columns.div_ceil(self.lanes);
        let count = tasks * vectors.div_ceil(tasks * most);
        Panels { count: count.min(self.count.max(vectors / 2)), ..self }
    }

    /// First column and number of vectors of panel `p`.
    #[inline(always)]
    pub(crate) fn get(&self, p: usize) -> (usize, usize) {
        let vectors = self.columns.div_ceil(self.lanes);
        let start = |p: usize| (p * vectors).div_ceil(self.count);
        (start(p) * self.lanes, start(p + 1) - start(p))
    }

    /// The fewest vectors of a panel; none has two more.
    pub(crate) fn least(&self) -> usize {
        self.columns.div_ceil(self.lanes) / self.count
    }

    /// The columns of the widest panel.
    pub(crate) fn widest(&self) -> usize {
        self.get(0).1 * self.lanes
    }

    /// Columns with those that fill the last vector.
    pub(crate) fn padded(&self) -> usize {
        self.columns.next_multiple_of(self.lanes)
    }
}

/// The taps of a position along each axis: those that lie in the source.
type Valid = [(usize, usize); 3];

/// Taps of any of two positions, at least.
fn either(a: Valid, b: Valid) -> Valid {
    std::array::from_fn(|i| (a[i].0.min(b[i].0), a[i].1.max(b[i].1)))
}

/// Positions that have the same taps, as where each is read and its number.
type Group = (Valid, Vec<(usize, usize)>);

/// Groups of few positions, put together: neighbours until `most` groups are left, then those that are cheaper to compute
/// together than apart.
fn put_together(mut groups: Vec<Group>, most: usize) -> Vec<Group> {
    let join = |to: &mut Group, (valid, positions): Group| {
        to.0 = either(to.0, valid);
        to.1.extend(positions);
    };
    while groups.len() > most {
        let mut all = groups.into_iter();
        groups = Vec::with_capacity(all.len().div_ceil(2));
        while let Some(mut group) = all.next() {
            if let Some(next) = all.next() {
                join(&mut group, next);
            }
            groups.push(group);
        }
    }
    // A tile of one row takes as long as one of two: its sums wait for one another.
    let cost = |n: usize, valid: Valid| n.max(2) * valid.iter().map(|v| v.1 - v.0).product::<usize>();
    let saved = |a: &Group, b: &Group| {
        let (a, b) = ((a.1.len(), a.0), (b.1.len(), b.0));
        (cost(a.0, a.1) + cost(b.0, b.1)).saturating_sub(cost(a.0 + b.0, either(a.1, b.1)))
    };
    while groups.len() > 1 {
        let pairs = (1..groups.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let Some((a, b)) = pairs.max_by_key(|&(a, b)| saved(&groups[a], &groups[b])) else { break };
        if saved(&groups[a], &groups[b]) == 0 {
            break;
        }
        let group = groups.swap_remove(b);
        join(&mut groups[a], group);
    }
    groups
}

/// The terms of a block for positions with certain taps, for panels of the fewest vectors and of one more.
struct TermSet {
    valid: Valid,
    per_channel: usize,
    terms: [Vec<Term>; 2],
}

/// Positions that are computed together, and the micro-kernel for so many.
struct RowTile {
    kernel: usize,
    set: usize,
    reads: [usize; MOST_ROWS],
    positions: [usize; MOST_ROWS],
}

struct Plan<'a, E> {
    gather: &'a Gather,
    operands: Operands<E>,
    /// Whether the result keeps its channels last.
    channels_last: bool,
    tiling: Tiling,
    stage: Stage,
    sets: Vec<TermSet>,
    kinds: Kinds,
    /// Whether no register tile reads padding.
    exact: bool,
    /// For each kind of tile, its positions by the taps they have: whole register tiles of positions that have the same,
    /// and then the rest.
    row_tiles: Vec<Vec<RowTile>>,
    /// Source channels of a block.
    block: usize,
    /// Offsets of the terms in a row of the weight.
    weight_offsets: Vec<usize>,
    /// Packed weights by group and panel, or null: then tasks pack them.
    packed: *const E,
    panels: Panels,
    panels_per_task: usize,
    /// Rows of the largest register tile. (No panel has one vector and others more.)
    rows: usize,
}
// SAFETY: its pointers are only read, except the result, of which each task writes its own part.
unsafe impl<E> Sync for Plan<'_, E> {}

impl<E: Dispatch> Plan<'_, E> {
    /// Adds the register tiles of every kind of tile, and the sets of terms they need.
    fn add_row_tiles(&mut self) {
        for kind in 0..self.kinds.tiles.len() {
            let row_tiles = self.row_tiles_of(&self.kinds.tiles[kind].clone());
            self.row_tiles.push(row_tiles);
        }
    }

    fn row_tiles_of(&mut self, tile: &TileRange) -> Vec<RowTile> {
        let classes = &self.kinds.classes;
        let most = self.rows;
        let image_stride = self.stage.staged().image;
        let neighbours = self.stage.neighbours(&self.gather.axes);
        let counts: [usize; 3] = std::array::from_fn(|a| classes[a].ranges.len());
        let mut buckets = vec![Vec::new(); counts.iter().product()];
        let mut position = 0usize;
        for image in 0..tile.images {
            for d in 0..tile.size[0] {
                for h in 0..tile.size[1] {
                    for w in 0..tile.size[2] {
                        let [cd, ch, cw] =
                            [(0, d), (1, h), (2, w)].map(|(a, i): (usize, usize)| classes[a].of[tile.first[a] + i]);
                        let read = image * image_stride + d * neighbours[0] + h * neighbours[1] + w * neighbours[2];
                        buckets[(cd * counts[1] + ch) * counts[2] + cw].push((read, position));
                        position += 1;
                    }
                }
            }
        }
        let valid: Vec<Valid> = (0..buckets.len())
            .map(|i| [i / (counts[1] * counts[2]), i / counts[2] % counts[1], i % counts[2]])
            .map(|of| std::array::from_fn(|a| classes[a].ranges[of[a]]))
            .collect();
        let groups = if self.gather.depth() * self.gather.result_channels < GROUPS_WORK { 1 } else { MOST_GROUPS };
        let mut row_tiles = Vec::with_capacity(position.div_ceil(most) + 2);
        let mut rest = Vec::new();
        for (bucket, valid) in buckets.iter().zip(valid) {
            let left = self.cut(bucket, valid, if self.exact { 1 } else { 4 }, &mut row_tiles);
            if !left.is_empty() {
                rest.push((valid, left.to_vec()));
            }
        }
        for (valid, positions) in put_together(rest, groups) {
            self.cut(&positions, valid, 1, &mut row_tiles);
        }
        row_tiles
    }

    /// Adds register tiles of positions as long as `least` are left, and gives what is left then.
    fn cut<'p>(
        &mut self,
        mut left: &'p [(usize, usize)],
        valid: Valid,
        least: usize,
        row_tiles: &mut Vec<RowTile>,
    ) -> &'p [(usize, usize)] {
        while left.len() >= least {
            let (now, later) = left.split_at(rows_of(left.len(), self.rows).0);
            row_tiles.push(self.row_tile(now, valid));
            left = later;
        }
        left
    }

    fn row_tile(&mut self, at: &[(usize, usize)], valid: Valid) -> RowTile {
        let set = self.sets.iter().position(|s| s.valid == valid).unwrap_or_else(|| {
            self.sets.push(self.term_set(valid));
            self.sets.len() - 1
        });
        let kernel = rows_of(at.len(), self.rows).1;
        let (mut reads, mut positions) = ([0; MOST_ROWS], [0; MOST_ROWS]);
        for (i, &(read, position)) in at.iter().enumerate() {
            (reads[i], positions[i]) = (read, position);
        }
        RowTile { kernel, set, reads, positions }
    }

    fn term_set(&self, valid: Valid) -> TermSet {
        let g = self.gather;
        let counts: [usize; 3] = std::array::from_fn(|a| g.axes[a].taps.len());
        let mut taps = Vec::new();
        for d in valid[0].0..valid[0].1 {
            for h in valid[1].0..valid[1].1 {
                taps.extend((valid[2].0..valid[2].1).map(|w| (d * counts[1] + h) * counts[2] + w));
            }
        }
        let channel = self.stage.staged().channel;
        let offsets: Vec<usize> = taps.iter().map(|&t| self.stage.tap(&g.taps[t].1)).collect();
        let terms = [0, 1].map(|more| {
            let width = (self.panels.least() + more) * self.panels.lanes;
            let term = |c: usize, i: usize| Term {
                a: (c * channel + offsets[i]) as u32,
                b: ((c * g.taps.len() + taps[i]) * width) as u32,
            };
            let mut terms = Vec::with_capacity(self.block * taps.len());
            for c in 0..self.block {
                terms.extend((0..taps.len()).map(|i| term(c, i)));
            }
            terms
        });
        TermSet { valid, per_channel: taps.len(), terms }
    }
}

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
        let row_tiles = &plan.row_tiles[plan.kinds.of(self.tile)];
        let positions = tile.images * tile.size.iter().product::<usize>();
        let taps = g.taps.len();
        let all = g.groups * g.source_channels;
        let stage_memory = Scratch::<E>::new(plan.stage.len(tile.images, plan.block));
        let few = plan.packed.is_null();
        let panel_memory = Scratch::<E>::new(if few { plan.block * taps * 3 * S::LANES } else { 0 });

        let last_panel = (self.first_panel + plan.panels_per_task).min(plan.panels.count);
        let first_column = plan.panels.get(self.first_panel).0;
        let end_column = plan.panels.get(last_panel - 1).0 + plan.panels.get(last_panel - 1).1 * S::LANES;
        let columns = end_column.min(g.result_channels) - first_column;
        let first_result = self.group * g.result_channels + first_column;
        let direct = plan.channels_last && op.stored.same;
        let writes = if plan.channels_last { pixel_places(g, &tile) } else { Vec::new() };
        let stride = end_column - first_column;
        let sums_memory = Scratch::<E>::new(if direct { 0 } else { positions * stride });
        let mut c0 = 0;
        loop {
            let c1 = (c0 + plan.block).min(g.source_channels);
            let read = (self.group * g.source_channels + c0, c1 - c0, all);
            // SAFETY: the channels exist; the scratch memory was sized for a block of them.
            let base = unsafe { plan.stage.fill::<S>(&g.axes, &tile, &op.access, op.source, read, stage_memory.get()) };
            let next = (c1 + plan.block).min(g.source_channels);
            if next > c1 {
                let read = (self.group * g.source_channels + c1, next - c1, all);
                plan.stage.prefetch(&g.axes, &tile, &op.access, op.source, read);
            }
            for p in self.first_panel..last_panel {
                let (column, vectors) = plan.panels.get(p);
                // SAFETY: the panel's weights exist, and a panel's place.
                let panel = unsafe {
                    if few {
                        plan.pack::<S>(self.group, p, c0..c1, panel_memory.get());
                        panel_memory.get().cast_const()
                    } else {
                        plan.packed.add(plan.panel_start(self.group, p) + c0 * taps * vectors * S::LANES)
                    }
                };
                let (after, block) = if p + 1 < last_panel { (p + 1, c0..c1) } else { (self.first_panel, c1..next) };
                let mut ahead = plan.ahead(self.group, after, block, row_tiles.len());
                for t in row_tiles {
                    ahead.some();
                    let set = &plan.sets[t.set];
                    // SAFETY: reads stay in the source or the staged tile, terms in the panel; the tile's positions and these
                    // channels of the result are this task's alone.
                    unsafe {
                        let c = if direct {
                            op.result.cast::<E>().add(self.group * g.result_channels + column)
                        } else {
                            sums_memory.get().add(column - first_column)
                        };
                        // (A loop, which is compiled in line: compilers leave `map` a call.)
                        let mut c_rows = [0; MOST_ROWS];
                        for (row, &i) in c_rows.iter_mut().zip(&t.positions) {
                            *row = if direct { writes[i] } else { i * stride };
                        }
                        let call = Call {
                            depth: (c1 - c0) * set.per_channel,
                            a: base,
                            a_rows: t.reads,
                            terms: set.terms[vectors - plan.panels.least()].as_ptr(),
                            b: panel,
                            c,
                            c_rows,
                            columns: (vectors * S::LANES).min(g.result_channels - column),
                            start: match (c0, op.bias.is_null()) {
                                (0, true) => Start::Zero,
                                (0, false) => Start::ColumnBias(op.bias.add(first_result + column - first_column)),
                                _ => Start::Accumulate,
                            },
                        };
                        S::TILES[t.kernel][vectors - 1](&call);
                    }
                }
            }
            c0 = c1;
            if c0 >= g.source_channels {
                break;
            }
        }
        // SAFETY: as above; the sums are complete.
        unsafe {
            if !plan.channels_last {
                self.store_planes::<S>(&tile, first_result, columns, stride, sums_memory.get());
            } else if !direct {
                for (i, write) in writes.iter().enumerate() {
                    let to = op.result.add((write + first_result) * op.stored.size);
                    store_run::<S>(&op.stored, sums_memory.get().add(i * stride), to, 1, columns);
                }
            }
        }
    }
}

impl<E: Number> TileTask<'_, E> {
    /// Stores the sums of a tile, position by position, into planes.
    #[inline(always)]
    unsafe fn store_planes<S: Simd<Element = E>>(
        &self,
        tile: &TileRange,
        first_result: usize,
        columns: usize,
        stride: usize,
        sums: *const E,
    ) {
        let g = self.plan.gather;
        let op = &self.plan.operands;
        let plane = g.result_positions();
        let each = tile.size.iter().product::<usize>();
        let straight = op.stored.same && g.axes.iter().all(|a| a.spacing == 1);
        let at = |a: usize, i: usize| g.axes[a].start + (tile.first[a] + i) * g.axes[a].spacing;
        let place = |d: usize, h: usize| (at(0, d) * g.result[1] + at(1, h)) * g.result[2] + at(2, 0);
        let rows = Scratch::<E>::new(if straight { 0 } else { each * S::LANES });
        for image in 0..tile.images {
            let first = ((tile.image + image) * g.groups * g.result_channels + first_result) * plane;
            for column in (0..columns).step_by(S::LANES) {
                let n = (columns - column).min(S::LANES);
                // SAFETY: the caller's: sums, and the places of these channels' positions, which follow one another if
                // they are not spaced.
                unsafe {
                    let from = sums.add(image * each * stride + column);
                    let to = first + column * plane;
                    let (target, target_stride) = if straight {
                        (op.result.cast::<E>().add(to + place(0, 0)), plane)
                    } else {
                        (rows.get(), each)
                    };
                    for position in (0..each).step_by(S::LANES) {
                        let m = (each - position).min(S::LANES);
                        S::transpose(from.add(position * stride), stride, m, n, target.add(position), target_stride);
                    }
                    if straight {
                        continue;
                    }
                    for channel in 0..n {
                        for row in 0..tile.size[0] * tile.size[1] {
                            let (d, h) = (row / tile.size[1], row % tile.size[1]);
                            let run = rows.get().add(channel * each + row * tile.size[2]);
                            let to = op.result.add((to + channel * plane + place(d, h)) * op.stored.size);
                            store_run::<S>(&op.stored, run, to, g.axes[2].spacing, tile.size[2]);
                        }
                    }
                }
            }
        }
    }
}

/// Where each position of a tile is written with channels last.
fn pixel_places(g: &Gather, tile: &TileRange) -> Vec<usize> {
    let at = |a: usize, i: usize| g.axes[a].start + (tile.first[a] + i) * g.axes[a].spacing;
    let mut places = Vec::with_capacity(tile.images * tile.size.iter().product::<usize>());
    for image in tile.image..tile.image + tile.images {
        for d in 0..tile.size[0] {
            for h in 0..tile.size[1] {
                let row = ((image * g.result[0] + at(0, d)) * g.result[1] + at(1, h)) * g.result[2];
                places.extend((0..tile.size[2]).map(|w| (row + at(2, w)) * g.groups * g.result_channels));
            }
        }
    }
    places
}

impl<E: Number> Plan<'_, E> {
    /// Where a panel begins in the packed weights.
    #[inline(always)]
    fn panel_start(&self, group: usize, panel: usize) -> usize {
        (group * self.panels.padded() + self.panels.get(panel).0) * self.gather.depth()
    }

    /// Packs the weights of a panel and a block of source channels: terms by result channels, missing ones zero.
    ///
    /// # Safety
    /// The weight is valid; `target` holds the block.
    #[inline(always)]
    unsafe fn pack<S: Simd<Element = E>>(&self, group: usize, panel: usize, block: Range<usize>, target: *mut E) {
        let g = self.gather;
        let (first, vectors) = self.panels.get(panel);
        let width = vectors * S::LANES;
        let offsets = &self.weight_offsets[block.start * g.taps.len()..block.end * g.taps.len()];
        let n = (g.result_channels - first).min(width);
        let place = group * g.weight_group_stride + first * g.weight_result_stride;
        // SAFETY: the caller's.
        unsafe {
            let source = self.operands.weight.add(place);
            pack_rows::<S>(source, g.weight_result_stride, n, (offsets, g.taps.len()), target, width);
            if n < width {
                for k in 0..offsets.len() {
                    S::clear(target.add(k * width + n), width - n);
                }
            }
        }
    }

    /// What multiplying by a panel will read, to be asked for in `parts` parts: its packed weights, or what they are
    /// packed from.
    fn ahead(&self, group: usize, panel: usize, block: Range<usize>, parts: usize) -> Ahead<E> {
        let g = self.gather;
        let taps = g.taps.len();
        let (first, vectors) = self.panels.get(panel);
        let width = vectors * self.panels.lanes;
        let (start, stride, each, left) = if !self.packed.is_null() {
            let line = 64 / size_of::<E>();
            let start = self.packed.wrapping_add(self.panel_start(group, panel) + block.start * taps * width);
            (start, line, line, (block.len() * taps * width).div_ceil(line))
        } else {
            let place =
                group * g.weight_group_stride + first * g.weight_result_stride + block.start * g.weight_source_stride;
            let start = self.operands.weight.wrapping_add(place);
            let columns = width.min(g.result_channels - first);
            let tap = g.weight_tap_stride;
            match (g.weight_result_stride, g.weight_source_stride) {
                // Channels last, in runs that are a tap apart.
                (_, 1) if taps > 1 => (start, tap, block.len(), columns * taps),
                (1, _) if taps > 1 => (start, tap, columns, block.len() * taps),
                (result, source) if result >= source => (start, result, block.len() * source, columns),
                (result, source) => (start, source, columns * result, block.len()),
            }
        };
        Ahead { start, stride, each, left, part: left.div_ceil(parts) }
    }
}

/// `left` runs of `each` numbers to be asked for.
struct Ahead<E> {
    start: *const E,
    stride: usize,
    each: usize,
    left: usize,
    part: usize,
}

impl<E> Ahead<E> {
    /// Asks for some of them.
    #[inline(always)]
    fn some(&mut self) {
        let now = self.part.min(self.left);
        for _ in 0..now {
            prefetch_run(self.start.cast(), self.each * size_of::<E>());
            self.start = self.start.wrapping_add(self.stride);
        }
        self.left -= now;
    }
}

struct PackTask<'a, E> {
    plan: &'a Plan<'a, E>,
    packed: *mut E,
    units: Range<usize>,
}

impl<E: Number> Task for PackTask<'_, E> {
    type Element = E;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let plan = self.plan;
        let g = plan.gather;
        let blocks = g.source_channels.div_ceil(plan.block);
        for unit in self.units.clone() {
            let (group, panel, block) =
                (unit / blocks / plan.panels.count, unit / blocks % plan.panels.count, unit % blocks);
            let channels = block * plan.block..((block + 1) * plan.block).min(g.source_channels);
            let width = plan.panels.get(panel).1 * S::LANES;
            // SAFETY: the packed weights have a place for every panel, which belongs to this unit.
            unsafe {
                let place = plan.panel_start(group, panel) + channels.start * g.taps.len() * width;
                plan.pack::<S>(group, panel, channels, self.packed.add(place));
            }
        }
    }
}

/// Whether this is the better way for a gather over planes: its sums must be worth storing twice, and its vectors not
/// too empty. Tiles of few rows read every line of a plane more often, which only taps in two dims make up for.
pub(crate) fn suits<E: Dispatch>(g: &Gather) -> bool {
    let padded = g.result_channels.next_multiple_of(E::lanes());
    let deep = if E::rows() == MOST_ROWS {
        g.depth() >= g.result_channels && g.depth() >= 64
    } else {
        let spread = g.axes.iter().filter(|a| a.taps.len() > 1).count() > 1;
        g.depth() >= 4 * g.result_channels && spread
    };
    deep && 5 * g.result_channels >= 4 * padded && FastPath::ConvPixels.is_on()
}

/// Computes a gather. `last` says whether the source and the result keep their channels last.
///
/// # Safety
/// The operands are valid for the gather's sizes, the result is nobody else's.
pub(crate) unsafe fn gather<E: Dispatch>(g: &Gather, last: [bool; 2], operands: Operands<E>) {
    let [source_last, channels_last] = last;
    let positions = g.positions();
    if g.batch * g.groups * g.result_channels * positions == 0 {
        return;
    }
    let depth = g.depth();
    let taps = g.taps.len();
    let panels = Panels::new(g.result_channels, E::lanes(), 3);
    let [least, most] = PLANE_POSITIONS;
    let width = 3 * panels.lanes;
    let target = if channels_last {
        TILE_POSITIONS
    } else {
        // Smaller ones where else there would be hardly a task for each of a few cores.
        let tiles = 4usize.div_ceil(g.groups * g.result_channels.div_ceil(LEAST_CHANNELS));
        let each = (g.batch * positions).div_ceil(tiles).max(least / 2);
        let columns = panels.padded().min(LEAST_CHANNELS.next_multiple_of(width));
        (MOST_SUMS / columns).clamp(least, most).min(each)
    };
    let tiling = Tiling::new(g.batch, &g.axes, target);
    let block = {
        let widest = panels.get(0).1 * panels.lanes;
        let most = (block_terms::<E>(widest) / taps.max(1)).max(1);
        let block = g.source_channels.div_ceil(g.source_channels.div_ceil(most).max(1)).max(1);
        // Blocks of whole vectors of terms: those of weights in a line begin where a line of a cache does.
        let whole = (1..=block).find(|c| (c * taps).is_multiple_of(panels.lanes)).unwrap_or(1);
        block / whole * whole
    };
    let all = g.groups * g.source_channels;
    let same = operands.access.same;
    let kinds = Kinds::new(&tiling, g.batch, &g.axes);
    let in_place = match source_last {
        _ if !kinds.suit_tiles() => None,
        // (Tiles of one vector are too many when they are small, and a part of the channels is too far apart.)
        true if block < all || panels.widest() == panels.lanes => None,
        true => Stage::pixels_in_place(&g.axes, same, tiling.images, all),
        false => Stage::planes_in_place::<E>(&g.axes, same, block, all),
    };
    let exact = in_place.is_some();
    let stage =
        in_place.unwrap_or_else(|| Stage::new(&g.axes, source_last, tiling.images, tiling.size, same, block, all));
    let units = tiling.len() * g.groups;
    let most = if channels_last { usize::MAX / 2 } else { MOST_SUMS / tiling.positions() };
    let channels = channel_block(g.result_channels, units, tiling.positions() * depth.max(1), most, 1);
    let panels = panels.in_tasks(g.result_channels.div_ceil(channels), 3);
    let panels_per_task = panels.count.div_ceil(g.result_channels.div_ceil(channels));
    let blocks = panels.count.div_ceil(panels_per_task);
    let mut plan = Plan {
        gather: g,
        operands,
        channels_last,
        tiling,
        stage,
        sets: Vec::new(),
        kinds,
        exact,
        row_tiles: Vec::new(),
        block,
        weight_offsets: g.weight_offsets(),
        packed: std::ptr::null(),
        panels,
        panels_per_task,
        rows: most_rows(E::rows(), panels.widest() / panels.lanes),
    };
    plan.add_row_tiles();
    let memory = (tiling.len() > FEW_TILES && depth > 0).then(|| Scratch::<E>::new(g.groups * panels.padded() * depth));
    if let Some(memory) = &memory {
        let packed = Shared(memory.get());
        let units = g.groups * panels.count * g.source_channels.div_ceil(block);
        parallel_for(units, (TASK_WORK / 4).div_ceil(block * taps * width), &|units| {
            // SAFETY: the weight is valid; the memory was sized for its panels.
            unsafe { E::dispatch(&PackTask { plan: &plan, packed: packed.get(), units }) };
        });
        plan.packed = memory.get();
    }
    let plan = &plan;
    let grain = TASK_WORK.div_ceil(channels.min(g.result_channels) * tiling.positions() * depth.max(1));
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
