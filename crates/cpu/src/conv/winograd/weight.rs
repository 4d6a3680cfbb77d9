//! The gradient of the weight: the source's points times those of the result's gradient, summed over all tiles, turned
//! into 3 x 3 weights. What forward turns and multiplies, its transpose takes backwards.

use super::super::access::Access;
use super::super::geometry::Gather;
use super::super::kernel::{Call, Start, Term, rows_of};
use super::super::numbers;
use super::super::pixels::Panels;
use super::super::planes::TASK_WORK;
use super::super::simd::{Dispatch, Number, Scratch, Simd, Task};
use super::super::weight_gradient::{WANTED_TASKS, add_parts};
use super::points::{Area, POINTS, Source, turn, turned};
use super::{by_pixels, layers, tiles};
use flambeau_base::parallel::parallel_for;
use std::ops::Range;

/// Numbers of an area's points: half a second-level cache of `f32`, with the sums that they are added to.
const AREA_POINTS: usize = 1 << 17;
/// Tiles of an area, at least and at most: fewer read and write the sums too often.
const AREA_TILES: [usize; 2] = [48, 192];
/// Layers of a task.
const TASK_LAYERS: usize = 128;
/// Fewer tiles than this are not worth the transforms of the weights.
const LEAST_TILES: usize = 96;
/// Partial weights are kept to this many numbers in all.
const MOST_PARTIAL: usize = 1 << 20;

/// The points of two gradients along one axis.
#[inline(always)]
unsafe fn gradient_line<S: Simd>([a, b]: [S::Vector; 2]) -> [S::Vector; 4] {
    // SAFETY: the caller's: the machine has `S`.
    unsafe { [a, S::plus(a, b), S::minus(a, b), S::minus(S::splat(Default::default()), b)] }
}

/// The three weights of four points along one axis.
#[inline(always)]
unsafe fn weight_line<S: Simd>([a, b, c, d]: [S::Vector; 4], half: S::Vector) -> [S::Vector; 3] {
    // SAFETY: the caller's.
    unsafe {
        let zero = S::splat(Default::default());
        let (outer, inner) = (S::plus(b, c), S::multiply_add(half, S::minus(b, c), zero));
        [S::multiply_add(half, outer, a), inner, S::multiply_add(half, outer, d)]
    }
}

struct Plan<'a, E> {
    source: Source<'a, E>,
    /// The gradient, channels last.
    gradient: *const E,
    channels_last: bool,
    /// Layers of a task, their blocks, and all of them.
    each: usize,
    blocks: usize,
    layers: usize,
    panels: Panels,
    /// Where a tile's points lie in the source's and the gradient's.
    terms: Vec<Term>,
    /// Sums by part, group, result channel, source channel and tap.
    partial: *mut E,
    parts: usize,
}
// SAFETY: its pointers are only read, except the partial sums, of which each task writes its own.
unsafe impl<E> Sync for Plan<'_, E> {}

/// Some layers of a group, and a part of the areas.
struct BlockTask<'a, E> {
    plan: &'a Plan<'a, E>,
    group: usize,
    layers: Range<usize>,
    part: usize,
}

impl<E: Number> Task for BlockTask<'_, E> {
    type Element = E;
    const FAST_PATH: bool = true;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let plan = self.plan;
        let width = plan.panels.padded();
        let source = Scratch::<E>::new(POINTS * plan.source.point);
        let gradient = Scratch::<E>::new(POINTS * plan.source.tiles * width);
        let sums = Scratch::<E>::new(POINTS * self.layers.len() * width);
        let areas = plan.source.areas();
        for i in self.part * areas / plan.parts..(self.part + 1) * areas / plan.parts {
            let area = plan.source.area(i);
            // SAFETY: the caller's; the scratch memory was sized for an area of these layers.
            unsafe {
                plan.source.read::<S>(&area, self.group, self.layers.clone(), source.get());
                self.read_gradient::<S>(&area, gradient.get());
                let first = i == self.part * areas / plan.parts;
                self.multiply::<S>(&area, first, source.get(), gradient.get(), sums.get());
            }
        }
        // SAFETY: as above; these layers' weights in this part are this task's.
        unsafe { self.write::<S>(sums.get()) };
    }
}

impl<E: Number> BlockTask<'_, E> {
    /// Turns an area's gradient into points: of each point, tile by tile, the channels.
    #[inline(always)]
    unsafe fn read_gradient<S: Simd<Element = E>>(&self, area: &Area, target: *mut E) {
        let g = self.plan.source.gather;
        let [depth, height, width] = &g.axes;
        let padded = self.plan.panels.padded();
        let point = self.plan.source.tiles * padded;
        let [rows, columns] = self.plan.source.along;
        for run in area.runs(1) {
            let slice = (run.image * depth.count + run.slice) * height.count * width.count;
            let (x, y) = (columns.first(run.column), rows.first(run.row));
            for channel in (0..g.result_channels).step_by(S::LANES) {
                let n = (g.result_channels - channel).min(S::LANES);
                // SAFETY: pixels inside the gradient, and channels of them; the target has a place for every tile.
                unsafe {
                    let zero = S::splat(E::default());
                    let mut values = [[zero; 4]; 2];
                    for (i, line) in values.iter_mut().enumerate() {
                        let mut v = [zero; 2];
                        for (j, v) in v.iter_mut().enumerate() {
                            let (y, x) = (y + i * rows.distance, x + j * columns.distance);
                            if y < height.count && x < width.count {
                                let pixel = (slice + y * width.count + x) * g.groups + self.group;
                                *v = S::load_first(self.plan.gradient.add(pixel * g.result_channels + channel), n);
                            }
                        }
                        *line = gradient_line::<S>(v);
                    }
                    let target = target.add(run.index * padded + channel);
                    for (j, column) in turned(values).into_iter().enumerate() {
                        for (i, v) in gradient_line::<S>(column).into_iter().enumerate() {
                            S::store(target.add((4 * i + j) * point), v);
                        }
                    }
                }
            }
        }
    }

    /// Adds an area's products to the sums: of each point, layer by layer, the result channels.
    #[inline(always)]
    unsafe fn multiply<S: Simd<Element = E>>(
        &self,
        area: &Area,
        first: bool,
        source: *const E,
        gradient: *const E,
        sums: *mut E,
    ) {
        let plan = self.plan;
        let (layers, width) = (self.layers.len(), plan.panels.padded());
        let row = if plan.channels_last { 1 } else { plan.source.stride };
        for point in 0..POINTS {
            // SAFETY: points of the area's tiles, and sums of these layers.
            unsafe {
                let source = source.add(point * plan.source.point);
                let gradient = gradient.add(point * plan.source.tiles * width);
                let sums = sums.add(point * layers * width);
                for panel in 0..plan.panels.count {
                    let (column, vectors) = plan.panels.get(panel);
                    let mut layer = 0;
                    while layer < layers {
                        let (rows, index) = rows_of(layers - layer, S::ROWS);
                        let call = Call {
                            depth: area.tiles(),
                            a: source.add(layer * row),
                            a_rows: std::array::from_fn(|i| i * row),
                            terms: plan.terms.as_ptr(),
                            b: gradient.add(column),
                            c: sums.add(layer * width + column),
                            c_rows: std::array::from_fn(|i| i * width),
                            columns: vectors * S::LANES,
                            start: if first { Start::Zero } else { Start::Accumulate },
                        };
                        S::TILES[index][vectors - 1](&call);
                        layer += rows;
                    }
                }
            }
        }
    }

    /// Turns the sums into weights.
    #[inline(always)]
    unsafe fn write<S: Simd<Element = E>>(&self, sums: *const E) {
        let plan = self.plan;
        let g = plan.source.gather;
        let (layers, width) = (self.layers.len(), plan.panels.padded());
        let depth = g.depth();
        let taps = Scratch::<E>::new(9 * S::LANES);
        for (at, layer) in self.layers.clone().enumerate() {
            for column in (0..g.result_channels).step_by(S::LANES) {
                let n = (g.result_channels - column).min(S::LANES);
                // SAFETY: the sums have every layer's place, and so has the part of the weights.
                unsafe {
                    let half = S::splat(E::HALF.unwrap_or_default());
                    let from = sums.add(at * width + column);
                    let mut columns = [[half; 3]; 4];
                    for (j, column) in columns.iter_mut().enumerate() {
                        let mut v = [half; 4];
                        for (i, v) in v.iter_mut().enumerate() {
                            *v = S::load(from.add((4 * i + j) * layers * width));
                        }
                        *column = weight_line::<S>(v, half);
                    }
                    for (i, row) in turned(columns).into_iter().enumerate() {
                        for (j, v) in weight_line::<S>(row, half).into_iter().enumerate() {
                            S::store(taps.get().add((3 * i + j) * S::LANES), v);
                        }
                    }
                    let result = (self.part * g.groups + self.group) * g.result_channels + column;
                    let tap = layer / g.source_channels;
                    let place = layer % g.source_channels * g.axes[0].taps.len() + tap;
                    let to = plan.partial.add(result * depth + place * 9);
                    S::transpose(taps.get(), S::LANES, 9, n, to, depth);
                }
            }
        }
    }
}

/// Whether the gradient of the weight of a forward gather that [suits](super::suits) is better computed this way.
fn pays(g: &Gather) -> bool {
    tiles(g) >= LEAST_TILES
}

/// Computes the gradient of the weight of a forward gather that [suits](super::suits). `false`, with nothing computed or
/// all of it to be computed again, where another way is better or a sum is not finite.
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
) -> bool {
    if !pays(g) {
        return false;
    }
    let turns = |yes: bool, channels: usize, positions: usize| {
        Scratch::<E>::new(if yes { g.batch * channels * positions } else { 0 })
    };
    let (sources, results) = (g.groups * g.source_channels, g.groups * g.result_channels);
    let narrow = !channels_last && by_pixels(g);
    let source = turns(narrow, sources, g.source_positions());
    let result = turns(!channels_last, results, g.result_positions());
    // SAFETY: the caller's; the scratch memory has the tensors' sizes.
    unsafe {
        // Halves are widened as a whole: every one is read by several tiles.
        let (_input, mut input) = numbers(&access, input, g.batch * sources * g.source_positions());
        let (_gradient, mut gradient) = numbers(&access, gradient, g.batch * results * g.result_positions());
        if narrow {
            turn(input, source.get(), g.batch, sources, g.source_positions());
            input = source.get();
        }
        if !channels_last {
            turn(gradient, result.get(), g.batch, results, g.result_positions());
            gradient = result.get();
        }
        sum(g, channels_last || narrow, input, gradient, weight);
        (0..results * g.depth()).all(|i| {
            let x = *weight.add(i);
            x.minus(x) == E::default()
        })
    }
}

/// The gradient of the weight; the result's gradient is stored channels last.
unsafe fn sum<E: Dispatch>(g: &Gather, channels_last: bool, input: *const E, gradient: *const E, weight: *mut E) {
    let panels = Panels::new(g.result_channels, E::lanes(), 3);
    let layers = layers(g);
    let blocks = layers.div_ceil(TASK_LAYERS);
    let each = layers.div_ceil(blocks);
    let most = (AREA_POINTS / (POINTS * (each + panels.padded()))).clamp(AREA_TILES[0], AREA_TILES[1]);
    let source = Source::new(g, input, channels_last, each, most);
    let (areas, len) = (source.areas(), g.groups * g.result_channels * g.depth());
    let units = g.groups * blocks;
    let parts = WANTED_TASKS.div_ceil(units).min(MOST_PARTIAL / len).min(areas / 2).max(1);
    let memory = Scratch::<E>::new(if parts > 1 { parts * len } else { 0 });
    let tile = if channels_last { source.stride } else { 1 };
    let term = |t: usize| Term { a: (t * tile) as u32, b: (t * panels.padded()) as u32 };
    let plan = Plan {
        terms: (0..source.tiles).map(term).collect(),
        source,
        gradient,
        channels_last,
        each,
        blocks,
        layers,
        panels,
        partial: if parts > 1 { memory.get() } else { weight },
        parts,
    };
    let plan = &plan;
    let work = POINTS * each * panels.padded() * plan.source.area_tiles() * areas.div_ceil(parts);
    parallel_for(units * parts, TASK_WORK.div_ceil(work), &|range| {
        for i in range {
            let (unit, part) = (i / parts, i % parts);
            let first = unit % plan.blocks * plan.each;
            let layers = first..(first + plan.each).min(plan.layers);
            let task = BlockTask { plan, group: unit / plan.blocks, layers, part };
            // SAFETY: the caller's.
            unsafe { E::dispatch(&task) };
        }
    });
    if parts > 1 {
        // SAFETY: every part has written its `len` sums; the weight holds as many.
        unsafe { add_parts(memory.get(), parts, len, weight) };
    }
}
