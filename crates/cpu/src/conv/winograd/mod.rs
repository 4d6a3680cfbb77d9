//! Gathers of 3 x 3 neighbours with fewer multiplications: Winograd's minimal filtering F(2x2, 3x3), after A. Lavin and
//! S. Gray, Fast Algorithms for Convolutional Neural Networks (2016).
//!
//! Results are computed in tiles of 2 x 2. The 4 x 4 source positions under a tile and the 3 x 3 weights are each turned
//! into 4 x 4 *points*; at every point, the sums over source channels, of volumes also over the taps along the depth, are
//! a product of matrices; and the points of the
//! sums are turned into the tile's results. That takes 16 multiplications where the definition has 36, and a few
//! additions. The sums are shorter, so that errors are no larger than the direct way's; but every result of a tile reads
//! all its 16 positions, so that an infinity or NaN spreads further than it should. [`gather`] notices.
//!
//! Taps that are further apart make several convolutions of neighbours, each of every so many positions: their tiles take
//! turns. Tiles lie row after row, image after image. Vectors run over tiles where channels are planes, and over channels where
//! they are last; products are the micro-kernel's ([`kernel`](super::kernel)).

mod points;
mod weight;

pub(crate) use weight::weight_gradient;

use super::geometry::{Axis, Gather};
use super::kernel::{Call, Start, Term, rows_of};
use super::numbers;
use super::pixels::Panels;
use super::planes::{Operands, TASK_WORK, pack_rows};
use super::simd::{Dispatch, Number, Scratch, Shared, Simd, Task};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use points::{Area, POINTS, Source, Tiles, turn, turned};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Numbers of a task's source points: half a second-level cache of `f32`.
const TASK_POINTS: usize = 1 << 17;
/// Tiles of a task, at least and at most: fewer read the weights too often.
const TASK_TILES: [usize; 2] = [64, 192];
/// Numbers of transformed weights that are made at a time.
const MOST_WEIGHTS: usize = 2 << 20;
/// Layers multiplied at a time: a panel of 48 `f32` columns then stays in a first-level cache, nearly.
const BLOCK_LAYERS: usize = 256;
/// Channels on either side, pairs of layers and result channels, and tiles in all, below which the transforms cost more than
/// they save.
const LEAST_CHANNELS: usize = 16;
const LEAST_PAIRS: usize = 1024;
const LEAST_TILES: usize = 32;
/// Rows of at most so many tiles leave vectors over them too empty.
const NARROW_TILES: usize = 15;

/// Whether this way is open, and the better one.
pub(crate) fn suits<E: Dispatch>(g: &Gather) -> bool {
    let [depth, height, width] = &g.axes;
    // Three taps at the same distance, in either order.
    let three = |a: &Axis| a.taps.len() == 3 && a.span >= 2 && plain(a);
    E::HALF.is_some()
        && plain(depth)
        && three(height)
        && three(width)
        && g.source_channels.min(g.result_channels) >= LEAST_CHANNELS
        && layers(g) * g.result_channels >= LEAST_PAIRS
        && tiles(g) >= LEAST_TILES
        // Distant taps leave the ends of many rows to tiles that are nearly empty.
        && tiles(g).saturating_mul(2) <= g.batch * g.positions()
        && FastPath::ConvWinograd.is_on()
}

/// What is summed over: the source channels in the slice of every tap along the depth, tap by tap.
fn layers(g: &Gather) -> usize {
    g.axes[0].taps.len() * g.source_channels
}

/// Tiles of all images.
fn tiles(g: &Gather) -> usize {
    let [rows, columns] = Tiles::of(g).map(|t| t.count);
    rows.saturating_mul(columns).saturating_mul(g.batch * g.axes[0].count)
}

/// Whether vectors run over channels, also of planes, which are turned into pixels and back: where rows are narrow, and
/// where the taps are not of neighbours.
fn by_pixels(g: &Gather) -> bool {
    let [rows, columns] = Tiles::of(g);
    columns.count <= NARROW_TILES || rows.distance.max(columns.distance) > 1
}

/// Whether neighbouring positions read neighbours and are stored as neighbours.
fn plain(a: &Axis) -> bool {
    a.step == 1 && a.spacing == 1 && a.start == 0
}

/// The points of three weights along one axis.
#[inline(always)]
unsafe fn weight_line<S: Simd>([a, b, c]: [S::Vector; 3], half: S::Vector) -> [S::Vector; 4] {
    // SAFETY: the caller's.
    unsafe {
        let zero = S::splat(Default::default());
        let (outer, inner) = (S::multiply_add(half, S::plus(a, c), zero), S::multiply_add(half, b, zero));
        [a, S::plus(outer, inner), S::minus(outer, inner), c]
    }
}

/// The two results of four points along one axis.
#[inline(always)]
unsafe fn result_line<S: Simd>([a, b, c, d]: [S::Vector; 4]) -> [S::Vector; 2] {
    // SAFETY: the caller's.
    unsafe { [S::plus(S::plus(a, b), c), S::minus(S::minus(b, c), d)] }
}

struct Plan<'a, E> {
    gather: &'a Gather,
    operands: Operands<E>,
    channels_last: bool,
    source: Source<'a, E>,
    /// How many are summed over.
    layers: usize,
    panels: Panels,
    /// Terms of a block of layers for panels of the fewest vectors and of one more.
    terms: [Vec<Term>; 2],
    /// Places in a weight row of a layer's taps, and which of them each of 3 x 3 neighbours is.
    offsets: Vec<usize>,
    neighbours: [[usize; 3]; 3],
    /// Set where a result is not finite.
    broken: AtomicBool,
}
// SAFETY: its pointers are only read, except the result, of which each task writes its own part.
unsafe impl<E> Sync for Plan<'_, E> {}

/// Turns the weights of some panels of a group into points.
struct WeightTask<'a, E> {
    plan: &'a Plan<'a, E>,
    group: usize,
    panels: Range<usize>,
    weights: *mut E,
    /// Blocks of [`WEIGHT_LAYERS`] layers, panel by panel.
    units: Range<usize>,
}

/// Layers whose weights are packed together.
const WEIGHT_LAYERS: usize = 16;

impl<E: Number> Task for WeightTask<'_, E> {
    type Element = E;
    const FAST_PATH: bool = true;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let (plan, g) = (self.plan, self.plan.gather);
        let packed = Scratch::<E>::new(WEIGHT_LAYERS * 9 * S::LANES);
        let blocks = plan.layers.div_ceil(WEIGHT_LAYERS);
        for unit in self.units.clone() {
            let (panel, block) = (self.panels.start + unit / blocks, unit % blocks);
            let layers = block * WEIGHT_LAYERS..((block + 1) * WEIGHT_LAYERS).min(plan.layers);
            let (first, vectors) = plan.panels.get(panel);
            let width = vectors * S::LANES;
            for column in (0..width).step_by(S::LANES) {
                let n = (g.result_channels - first - column).min(S::LANES);
                let place = self.group * g.weight_group_stride + (first + column) * g.weight_result_stride;
                // SAFETY: every vector of a panel has a channel; the scratch holds a block, and the weights' place every
                // panel.
                unsafe {
                    let half = S::splat(E::HALF.unwrap_or_default());
                    let source = plan.operands.weight.add(place);
                    let offsets = &plan.offsets[9 * layers.start..9 * layers.end];
                    pack_rows::<S>(source, g.weight_result_stride, n, (offsets, 9), packed.get(), S::LANES);
                    let target = self.weights.add(plan.weights_of(&self.panels, panel) + column);
                    for layer in layers.clone() {
                        let from = packed.get().add(9 * (layer - layers.start) * S::LANES);
                        let mut rows = [[half; 4]; 3];
                        for (row, taps) in rows.iter_mut().zip(&plan.neighbours) {
                            let mut values = [half; 3];
                            for (v, tap) in values.iter_mut().zip(taps) {
                                *v = S::load_first(from.add(tap * S::LANES), n);
                            }
                            *row = weight_line::<S>(values, half);
                        }
                        for (j, column) in turned(rows).into_iter().enumerate() {
                            for (i, v) in weight_line::<S>(column, half).into_iter().enumerate() {
                                S::store(target.add(((4 * i + j) * plan.layers + layer) * width), v);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Computes an area of tiles for some panels of result channels of a group.
struct TileTask<'a, E> {
    plan: &'a Plan<'a, E>,
    group: usize,
    area: Area,
    panels: Range<usize>,
    /// The points of the weights of `known` panels.
    weights: *const E,
    known: Range<usize>,
}

impl<E: Number> Task for TileTask<'_, E> {
    type Element = E;
    const FAST_PATH: bool = true;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let plan = self.plan;
        let source = Scratch::<E>::new(POINTS * plan.source.point);
        let sums = Scratch::<E>::new(POINTS * plan.panels.widest() * plan.source.tiles);
        // SAFETY: the caller's; the scratch memory was sized for an area.
        unsafe {
            plan.source.read::<S>(&self.area, self.group, 0..plan.layers, source.get());
            for panel in self.panels.clone() {
                self.multiply::<S>(panel, source.get(), sums.get());
                let check = match plan.channels_last {
                    true => self.write_pixels::<S>(panel, sums.get()),
                    false => self.write_planes::<S>(panel, sums.get()),
                };
                // Finite numbers times zero are zero.
                let lanes = std::slice::from_raw_parts((&raw const check).cast::<E>(), S::LANES);
                if lanes.iter().any(|x| *x != E::default()) {
                    plan.broken.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

impl<E: Number> TileTask<'_, E> {
    /// Multiplies a panel's weights with the source, point by point.
    #[inline(always)]
    unsafe fn multiply<S: Simd<Element = E>>(&self, panel: usize, source: *const E, sums: *mut E) {
        let (plan, g) = (self.plan, self.plan.gather);
        let (first, vectors) = plan.panels.get(panel);
        let (width, layers) = (vectors * S::LANES, plan.layers);
        let columns = width.min(g.result_channels - first);
        let terms = plan.terms[vectors - plan.panels.least()].as_ptr();
        let tile_panels = Panels::new(self.area.tiles(), S::LANES, 3);
        for point in 0..POINTS {
            // SAFETY: the weights of the panel are known; source and sums have every tile's place.
            unsafe {
                let weights = self.weights.add(plan.weights_of(&self.known, panel) + point * layers * width);
                let source = source.add(point * plan.source.point);
                let sums = sums.add(point * width * plan.source.tiles);
                for layer in (0..layers).step_by(BLOCK_LAYERS) {
                    let depth = (layers - layer).min(BLOCK_LAYERS);
                    let start = if layer == 0 { Start::Zero } else { Start::Accumulate };
                    let weights = weights.add(layer * width);
                    if plan.channels_last {
                        let mut tile = 0;
                        while tile < self.area.tiles() {
                            let (rows, index) = rows_of(self.area.tiles() - tile, S::ROWS);
                            let call = Call {
                                depth,
                                a: source.add(tile * plan.source.stride + layer),
                                a_rows: std::array::from_fn(|i| i * plan.source.stride),
                                terms,
                                b: weights,
                                c: sums.add(tile * width),
                                c_rows: std::array::from_fn(|i| i * width),
                                columns: width,
                                start,
                            };
                            S::TILES[index][vectors - 1](&call);
                            tile += rows;
                        }
                        continue;
                    }
                    for tiles in 0..tile_panels.count {
                        let (tile, vectors) = tile_panels.get(tiles);
                        let mut column = 0;
                        while column < columns {
                            let (rows, index) = rows_of(columns - column, S::ROWS);
                            let call = Call {
                                depth,
                                a: weights.add(column),
                                a_rows: std::array::from_fn(|i| i),
                                terms,
                                b: source.add(layer * plan.source.stride + tile),
                                c: sums.add(column * plan.source.tiles + tile),
                                c_rows: std::array::from_fn(|i| i * plan.source.tiles),
                                columns: vectors * S::LANES,
                                start,
                            };
                            S::TILES[index][vectors - 1](&call);
                            column += rows;
                        }
                    }
                }
            }
        }
    }

    /// Turns a panel's sums into results in planes. The vector it gives is zero where all of them are finite.
    #[inline(always)]
    unsafe fn write_planes<S: Simd<Element = E>>(&self, panel: usize, sums: *const E) -> S::Vector {
        let (plan, g) = (self.plan, self.plan.gather);
        let op = &plan.operands;
        let [depth, height, width] = &g.axes;
        let (first, vectors) = plan.panels.get(panel);
        let point = vectors * S::LANES * plan.source.tiles;
        // SAFETY: the sums of every tile and channel are there; the places are this task's.
        unsafe {
            let zero = S::splat(E::default());
            let mut check = zero;
            for column in 0..(vectors * S::LANES).min(g.result_channels - first) {
                let channel = self.group * g.result_channels + first + column;
                let bias = if op.bias.is_null() { zero } else { S::splat(*op.bias.add(channel)) };
                for run in self.area.runs(S::LANES) {
                    let from = sums.add(column * plan.source.tiles + run.index);
                    let mut columns = [[zero; 2]; 4];
                    for (j, column) in columns.iter_mut().enumerate() {
                        let mut v = [zero; 4];
                        for (i, v) in v.iter_mut().enumerate() {
                            let from = from.add((4 * i + j) * point);
                            *v = if run.len == S::LANES { S::load(from) } else { S::load_first(from, run.len) };
                        }
                        *column = result_line::<S>(v);
                    }
                    let plane = (run.image * g.groups * g.result_channels + channel) * depth.count + run.slice;
                    let (x, y) = (2 * run.column, 2 * run.row);
                    let n = (2 * run.len).min(width.count - x);
                    for (i, row) in turned(columns).into_iter().enumerate() {
                        let [a, b] = result_line::<S>(row);
                        check = S::multiply_add(a, zero, S::multiply_add(b, zero, check));
                        if y + i < height.count {
                            let (low, high) = S::zip(S::plus(a, bias), S::plus(b, bias));
                            let to = (plane * height.count + y + i) * width.count + x;
                            let to = op.result.cast::<E>().add(to);
                            S::store_first(to, low, n.min(S::LANES));
                            if n > S::LANES {
                                S::store_first(to.add(S::LANES), high, n - S::LANES);
                            }
                        }
                    }
                }
            }
            check
        }
    }

    /// As [`TileTask::write_planes`], channels last.
    #[inline(always)]
    unsafe fn write_pixels<S: Simd<Element = E>>(&self, panel: usize, sums: *const E) -> S::Vector {
        let (plan, g) = (self.plan, self.plan.gather);
        let op = &plan.operands;
        let [depth, height, width] = &g.axes;
        let (first, vectors) = plan.panels.get(panel);
        let point = vectors * S::LANES * plan.source.tiles;
        let all = g.groups * g.result_channels;
        let [rows, columns] = plan.source.along;
        // SAFETY: as there.
        unsafe {
            let zero = S::splat(E::default());
            let mut check = zero;
            for run in self.area.runs(1) {
                let slice = (run.image * depth.count + run.slice) * height.count * width.count;
                let (x, y) = (columns.first(run.column), rows.first(run.row));
                for column in (0..vectors * S::LANES).step_by(S::LANES) {
                    let n = (g.result_channels - first - column).min(S::LANES);
                    let channel = self.group * g.result_channels + first + column;
                    let bias = if op.bias.is_null() { zero } else { S::load_first(op.bias.add(channel), n) };
                    let from = sums.add(run.index * vectors * S::LANES + column);
                    let mut lines = [[zero; 2]; 4];
                    for (j, line) in lines.iter_mut().enumerate() {
                        let mut v = [zero; 4];
                        for (i, v) in v.iter_mut().enumerate() {
                            *v = S::load(from.add((4 * i + j) * point));
                        }
                        *line = result_line::<S>(v);
                    }
                    for (i, row) in turned(lines).into_iter().enumerate() {
                        for (j, v) in result_line::<S>(row).into_iter().enumerate() {
                            check = S::multiply_add(v, zero, check);
                            let (y, x) = (y + i * rows.distance, x + j * columns.distance);
                            if y < height.count && x < width.count {
                                let at = (slice + y * width.count + x) * all + channel;
                                S::store_first(op.result.cast::<E>().add(at), S::plus(v, bias), n);
                            }
                        }
                    }
                }
            }
            check
        }
    }
}

impl<E> Plan<'_, E> {
    /// Where a panel begins in the weights' points of some panels.
    fn weights_of(&self, known: &Range<usize>, panel: usize) -> usize {
        (self.panels.get(panel).0 - self.panels.get(known.start).0) * POINTS * self.layers
    }
}

/// Computes a gather that [suits](suits). `false` where a result is not finite: then all of them are to be computed the
/// direct way.
///
/// # Safety
/// The operands are valid for the gather's sizes, the result is nobody else's.
pub(crate) unsafe fn gather<E: Dispatch>(g: &Gather, channels_last: bool, operands: Operands<E>) -> bool {
    let access = operands.access;
    if access.same {
        // SAFETY: the caller's.
        return unsafe { gather_numbers(g, channels_last, operands) };
    }
    // Halves are widened as a whole: every one is read by several tiles.
    let len = g.batch * g.groups * g.result_channels * g.result_positions();
    let result = Scratch::<E>::new(len);
    // SAFETY: the caller's; the copies live until the end.
    unsafe {
        let (_copy, source) =
            numbers(&access, operands.source, g.batch * g.groups * g.source_channels * g.source_positions());
        let wide = Operands { source: source.cast(), result: result.get().cast(), ..operands };
        let finite = gather_numbers(g, channels_last, wide);
        if finite {
            let (from, to) = (Shared(result.get()), Shared(operands.result));
            parallel_for(len, 1 << 16, &|range| {
                let (from, to) = (from.get().add(range.start), to.get().add(range.start * access.size));
                (access.store)(from, to, 1, range.len());
            });
        }
        finite
    }
}

/// As [`gather`], for tensors of the numbers computed in.
unsafe fn gather_numbers<E: Dispatch>(g: &Gather, channels_last: bool, operands: Operands<E>) -> bool {
    if channels_last || !by_pixels(g) {
        // SAFETY: the caller's.
        return unsafe { gather_as_stored(g, channels_last, operands) };
    }
    let sources = (g.groups * g.source_channels, g.source_positions());
    let results = (g.groups * g.result_channels, g.result_positions());
    let source = Scratch::<E>::new(g.batch * sources.0 * sources.1);
    let result = Scratch::<E>::new(g.batch * results.0 * results.1);
    // SAFETY: the caller's; the scratch memory has the tensors' sizes.
    unsafe {
        turn(operands.source.cast(), source.get(), g.batch, sources.0, sources.1);
        let turned = Operands { source: source.get().cast_const().cast(), result: result.get().cast(), ..operands };
        let finite = gather_as_stored(g, true, turned);
        if finite {
            turn(result.get(), operands.result.cast(), g.batch, results.1, results.0);
        }
        finite
    }
}

/// As [`gather`], in the layout that the tensors have.
unsafe fn gather_as_stored<E: Dispatch>(g: &Gather, channels_last: bool, operands: Operands<E>) -> bool {
    let lanes = E::lanes();
    let layers = layers(g);
    let most = (TASK_POINTS / (POINTS * layers)).clamp(TASK_TILES[0], TASK_TILES[1]);
    let source = Source::new(g, operands.source.cast(), channels_last, layers, most);
    let panels = Panels::new(g.result_channels, lanes, 3);
    let terms = [0, 1].map(|more| {
        let width = (panels.least() + more) * lanes;
        let term = |c: usize| match channels_last {
            true => Term { a: c as u32, b: (c * width) as u32 },
            false => Term { a: (c * width) as u32, b: (c * source.stride) as u32 },
        };
        (0..BLOCK_LAYERS.min(layers)).map(term).collect()
    });
    let along = source.along;
    let shift = |y: usize, x: usize| {
        let [y, x] = [y * along[0].distance, x * along[1].distance];
        g.taps.iter().find(|(_, taps)| (taps[1].shift, taps[2].shift) == (y, x)).map_or(0, |(kernel, _)| kernel % 9)
    };
    let plan = Plan {
        gather: g,
        operands,
        channels_last,
        source,
        layers,
        panels,
        terms,
        offsets: (0..layers)
            .map(|layer| (layer % g.source_channels, 9 * g.axes[0].taps[layer / g.source_channels].kernel))
            .flat_map(|(c, first)| {
                (first..first + 9).map(move |t| c * g.weight_source_stride + t * g.weight_tap_stride)
            })
            .collect(),
        neighbours: std::array::from_fn(|y| std::array::from_fn(|x| shift(y, x))),
        broken: AtomicBool::new(false),
    };
    let each = MOST_WEIGHTS / (POINTS * panels.widest() * layers);
    let each = panels.count.div_ceil(panels.count.div_ceil(each.max(1)));
    let weights = Scratch::<E>::new(POINTS * each * panels.widest() * layers);
    for group in 0..g.groups {
        for first in (0..panels.count).step_by(each) {
            let known = first..(first + each).min(panels.count);
            // SAFETY: the caller's; the weights' memory was sized for as many panels.
            unsafe {
                plan.turn_weights(group, known.clone(), weights.get());
                plan.compute(group, known, weights.get());
            }
        }
    }
    !plan.broken.into_inner()
}

impl<E: Dispatch> Plan<'_, E> {
    /// Turns the weights of some panels of a group into points.
    unsafe fn turn_weights(&self, group: usize, panels: Range<usize>, weights: *mut E) {
        let blocks = self.layers.div_ceil(WEIGHT_LAYERS);
        let grain = (TASK_WORK / 8).div_ceil(WEIGHT_LAYERS * POINTS * self.panels.widest());
        let weights = Shared(weights);
        parallel_for(panels.len() * blocks, grain, &|units| {
            let task = WeightTask { plan: self, group, panels: panels.clone(), weights: weights.get(), units };
            // SAFETY: the caller's; every unit has its own place.
            unsafe { E::dispatch(&task) };
        });
    }

    /// Computes the results of some panels of a group.
    unsafe fn compute(&self, group: usize, known: Range<usize>, weights: *mut E) {
        let areas = self.source.areas();
        // Few areas are cut by channels too, so that several threads have work.
        let parts = 4usize.div_ceil(areas).min(known.len());
        let each = known.len().div_ceil(parts);
        let work = self.layers * each * self.panels.widest() * self.source.area_tiles() * POINTS;
        let weights = Shared(weights);
        parallel_for(areas * parts, TASK_WORK.div_ceil(work), &|range| {
            for i in range {
                let first = known.start + i % parts * each;
                let task = TileTask {
                    plan: self,
                    group,
                    area: self.source.area(i / parts),
                    panels: first.min(known.end)..(first + each).min(known.end),
                    weights: weights.get(),
                    known: known.clone(),
                };
                // SAFETY: the caller's.
                unsafe { E::dispatch(&task) };
            }
        });
    }
}
