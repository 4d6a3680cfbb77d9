//! The source of a gather as points, tile by tile.

use super::super::geometry::{Axis, Gather};
use super::super::simd::{Dispatch, Number, Shared, Simd, Task};
use flambeau_base::parallel::parallel_for;
use std::ops::Range;

/// Points of a tile.
pub(super) const POINTS: usize = 16;

/// The points of four values along one axis of the source.
#[inline(always)]
unsafe fn source_line<S: Simd>([a, b, c, d]: [S::Vector; 4]) -> [S::Vector; 4] {
    // SAFETY: the caller's: the machine has `S`.
    unsafe { [S::minus(a, c), S::plus(b, c), S::minus(c, b), S::minus(b, d)] }
}

/// Rows as columns.
#[inline(always)]
pub(super) fn turned<T: Copy, const R: usize, const C: usize>(x: [[T; C]; R]) -> [[T; R]; C] {
    let mut y = [[x[0][0]; R]; C];
    for (i, row) in x.iter().enumerate() {
        for (y, x) in y.iter_mut().zip(row) {
            y[i] = *x;
        }
    }
    y
}

/// Where `width` places from `first` on, which may be negative, lie in `size` places.
#[inline(always)]
fn clip(first: isize, width: usize, size: usize) -> (usize, usize) {
    let at = |x: isize| x.clamp(0, width as isize) as usize;
    let (begin, end) = (at(-first), at(size as isize - first));
    (begin.min(end), end)
}

/// The tiles along an axis. Taps some distance apart make as many axes of neighbours, one for every remainder of a
/// position by the distance; their tiles take turns.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    /// Between the positions of a tile, and those that it reads.
    pub distance: usize,
    /// How many there are.
    pub count: usize,
}

impl Tiles {
    /// Those of an axis of three taps.
    pub(super) fn new(axis: &Axis) -> Tiles {
        let distance = (axis.span / 2).max(1);
        Tiles { distance, count: distance.saturating_mul(axis.count.div_ceil(distance).div_ceil(2)) }
    }

    /// Those of both axes of a gather.
    pub(super) fn of(g: &Gather) -> [Tiles; 2] {
        [1, 2].map(|a: usize| Tiles::new(&g.axes[a]))
    }

    /// The first position of a tile.
    #[inline(always)]
    pub(super) fn first(self, tile: usize) -> usize {
        tile + tile / self.distance * self.distance
    }
}

/// A run of tiles in a row.
pub(super) struct Run {
    /// The image.
    pub image: usize,
    /// The slice of it.
    pub slice: usize,
    /// The row of tiles.
    pub row: usize,
    /// The first column of tiles.
    pub column: usize,
    /// How many tiles.
    pub len: usize,
    /// The number of the first one in the area.
    pub index: usize,
}

/// Rows of tiles, of all slices of all images one after the other, and columns.
pub(super) struct Area {
    rows: Range<usize>,
    columns: Range<usize>,
    /// Slices of an image, and rows of a slice.
    slices: usize,
    each: usize,
}

impl Area {
    /// How many tiles it has.
    #[inline(always)]
    pub(super) fn tiles(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Its tiles, in runs of at most `most`.
    #[inline(always)]
    pub(super) fn runs(&self, most: usize) -> impl Iterator<Item = Run> {
        let (slices, each) = (self.slices, self.each);
        self.rows.clone().enumerate().flat_map(move |(i, at)| {
            let columns = self.columns.clone();
            let (width, start, end) = (columns.len(), columns.start, columns.end);
            let (slice, row) = (at / each, at % each);
            columns.step_by(most).map(move |column| Run {
                image: slice / slices,
                slice: slice % slices,
                row,
                column,
                len: (end - column).min(most),
                index: i * width + column - start,
            })
        })
    }
}

/// The source of a gather, cut into areas of tiles, and where an area's points lie in memory.
pub(super) struct Source<'a, E> {
    pub gather: &'a Gather,
    start: *const E,
    channels_last: bool,
    /// The tiles of a slice. In planes they read neighbours.
    pub along: [Tiles; 2],
    /// Rows of tiles in all, and columns.
    rows: usize,
    columns: usize,
    /// Rows and columns of an area.
    area: [usize; 2],
    /// Tiles of an area, filled up to a whole vector.
    pub tiles: usize,
    /// Numbers between neighbouring layers of planes, or neighbouring tiles of pixels.
    pub stride: usize,
    /// Numbers between neighbouring points.
    pub point: usize,
}

impl<'a, E: Dispatch> Source<'a, E> {
    /// Areas of about `most` tiles, of which `layers` layers are read at a time.
    pub(super) fn new(g: &'a Gather, start: *const E, channels_last: bool, layers: usize, most: usize) -> Self {
        let along = Tiles::of(g);
        let [rows, columns] = along.map(|t| t.count);
        let rows = g.batch * g.axes[0].count * rows;
        let width = columns.div_ceil(columns.div_ceil(most));
        let area = [rows.div_ceil(rows.div_ceil((most / width).max(1))), width];
        let lanes = E::lanes();
        let tiles = (area[0] * area[1]).next_multiple_of(lanes);
        // A line more than the layers take: tiles a power of two apart would share few sets of a cache.
        let pixel = layers.next_multiple_of(lanes) + lanes;
        let (stride, point) = if channels_last { (pixel, tiles * pixel) } else { (tiles, layers * tiles) };
        Source { gather: g, start, channels_last, along, rows, columns, area, tiles, stride, point }
    }
}

impl<E: Number> Source<'_, E> {
    /// How many areas there are.
    pub(super) fn areas(&self) -> usize {
        self.rows.div_ceil(self.area[0]) * self.columns.div_ceil(self.area[1])
    }

    /// Tiles of a whole area.
    pub(super) fn area_tiles(&self) -> usize {
        self.area[0] * self.area[1]
    }

    /// Area number `i`.
    pub(super) fn area(&self, i: usize) -> Area {
        let across = self.columns.div_ceil(self.area[1]);
        let part = |i: usize, each: usize, all: usize| i * each..((i + 1) * each).min(all);
        Area {
            rows: part(i / across, self.area[0], self.rows),
            columns: part(i % across, self.area[1], self.columns),
            slices: self.gather.axes[0].count,
            each: self.along[0].count,
        }
    }

    /// Turns an area's source into points.
    ///
    /// # Safety
    /// The source is valid for the gather; the target has [`POINTS`] times `point` numbers.
    #[inline(always)]
    pub(super) unsafe fn read<S: Simd<Element = E>>(
        &self,
        area: &Area,
        group: usize,
        layers: Range<usize>,
        target: *mut E,
    ) {
        // SAFETY: the caller's.
        unsafe {
            match self.channels_last {
                true => self.read_pixels::<S>(area, group, layers, target),
                false => self.read_planes::<S>(area, group, layers, target),
            }
        }
    }

    /// Planes: of each point, layer by layer, the tiles.
    #[inline(always)]
    unsafe fn read_planes<S: Simd<Element = E>>(
        &self,
        area: &Area,
        group: usize,
        layers: Range<usize>,
        target: *mut E,
    ) {
        let g = self.gather;
        let [depth, height, width] = &g.axes;
        let lanes = S::LANES;
        for (i, layer) in layers.enumerate() {
            let (tap, channel) = (layer / g.source_channels, layer % g.source_channels);
            // SAFETY: the target has `tiles` numbers for each layer and point; reads are clipped to the source's rows.
            unsafe {
                let target = target.add(i * self.stride);
                let zero = S::splat(E::default());
                for point in 0..POINTS {
                    S::store(target.add(point * self.point + self.tiles - lanes), zero);
                }
                for run in area.runs(lanes) {
                    let plane = ((run.image * g.groups + group) * g.source_channels + channel) * depth.source;
                    let slice = self.slice(&run, tap);
                    let plane = self.start.add((plane + slice.unwrap_or(0)) * height.source * width.source);
                    let (x, y) = (width.low + 2 * run.column as isize, height.low + 2 * run.row as isize);
                    let starts = [0, lanes, 2, lanes + 2];
                    let limits = starts.map(|i| clip(x + i as isize, lanes, width.source));
                    let inside = limits == [(0, lanes); 4];
                    let mut values = [[zero; 4]; 4];
                    for (i, line) in values.iter_mut().enumerate() {
                        let y = y + i as isize;
                        if slice.is_none() || y < 0 || y >= height.source as isize {
                            continue;
                        }
                        let row = plane.wrapping_offset(y * width.source as isize + x);
                        let mut v = [zero; 4];
                        for ((v, at), limits) in v.iter_mut().zip(starts).zip(limits) {
                            *v = match inside {
                                true => S::load(row.add(at)),
                                false => S::load_between(row.wrapping_add(at), limits.0, limits.1),
                            };
                        }
                        let ((a, b), (c, d)) = (S::unzip(v[0], v[1]), S::unzip(v[2], v[3]));
                        *line = source_line::<S>([a, b, c, d]);
                    }
                    // What a vector writes past its run is written again by the next.
                    let n = lanes.min(self.tiles - run.index);
                    for (j, column) in turned(values).into_iter().enumerate() {
                        for (i, v) in source_line::<S>(column).into_iter().enumerate() {
                            let to = target.add((4 * i + j) * self.point + run.index);
                            S::store_first(to, v, n)
                        }
                    }
                }
            }
        }
    }

    /// The slice of the source that a tap along the depth reads for a run of tiles, if it has it.
    #[inline(always)]
    fn slice(&self, run: &Run, tap: usize) -> Option<usize> {
        let depth = &self.gather.axes[0];
        let at = depth.low + (run.slice + depth.taps[tap].shift) as isize;
        (at >= 0 && at < depth.source as isize).then_some(at as usize)
    }

    /// Channels last: of each point, tile by tile, the layers.
    #[inline(always)]
    unsafe fn read_pixels<S: Simd<Element = E>>(
        &self,
        area: &Area,
        group: usize,
        layers: Range<usize>,
        target: *mut E,
    ) {
        let g = self.gather;
        let [depth, height, width] = &g.axes;
        let (each, all) = (g.source_channels, g.groups * g.source_channels);
        let [rows, columns] = self.along;
        for run in area.runs(1) {
            let (x, y) = (width.low + columns.first(run.column) as isize, height.low + rows.first(run.row) as isize);
            for tap in layers.start / each..layers.end.div_ceil(each) {
                let slice = self.slice(&run, tap);
                let slice = slice.map(|at| (run.image * depth.source + at) * height.source * width.source);
                let pixels: [[Option<usize>; 4]; 4] = std::array::from_fn(|i| {
                    std::array::from_fn(|j| {
                        let (y, x) = (y + (i * rows.distance) as isize, x + (j * columns.distance) as isize);
                        let inside = y >= 0 && y < height.source as isize && x >= 0 && x < width.source as isize;
                        slice.filter(|_| inside).map(|at| (at + y as usize * width.source + x as usize) * all)
                    })
                });
                // What a vector writes past its tap's layers is written again by the next tap.
                let first = tap * each;
                let (begin, end) = (layers.start.max(first) - first, layers.end.min(first + each) - first);
                for channel in (begin..end).step_by(S::LANES) {
                    let n = (end - channel).min(S::LANES);
                    // SAFETY: pixels of the source, and channels of them; the target has `stride` numbers for each tile
                    // and point, a vector more than the layers need.
                    unsafe {
                        let source = self.start.add(group * each + channel);
                        let zero = S::splat(E::default());
                        let mut values = [[zero; 4]; 4];
                        for (line, pixels) in values.iter_mut().zip(&pixels) {
                            let mut v = [zero; 4];
                            for (v, pixel) in v.iter_mut().zip(pixels) {
                                match *pixel {
                                    None => {}
                                    Some(at) if n == S::LANES => *v = S::load(source.add(at)),
                                    Some(at) => *v = S::load_first(source.add(at), n),
                                }
                            }
                            *line = source_line::<S>(v);
                        }
                        let target = target.add(run.index * self.stride + first + channel - layers.start);
                        for (j, column) in turned(values).into_iter().enumerate() {
                            for (i, v) in source_line::<S>(column).into_iter().enumerate() {
                                S::store(target.add((4 * i + j) * self.point), v);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Turns matrices, each of `rows x columns` numbers, around.
struct TurnTask<E> {
    source: *const E,
    target: *mut E,
    rows: usize,
    columns: usize,
    /// Strips of a vector's rows, matrix by matrix.
    strips: Range<usize>,
}

impl<E: Number> Task for TurnTask<E> {
    type Element = E;
    const FAST_PATH: bool = true;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let each = self.rows.div_ceil(S::LANES);
        for strip in self.strips.clone() {
            let (matrix, row) = (strip / each * self.rows * self.columns, strip % each * S::LANES);
            for column in (0..self.columns).step_by(S::LANES) {
                let sizes = [self.rows - row, self.columns - column].map(|n| n.min(S::LANES));
                // SAFETY: a block of the caller's matrix.
                unsafe {
                    let from = self.source.add(matrix + row * self.columns + column);
                    let to = self.target.add(matrix + column * self.rows + row);
                    S::transpose(from, self.columns, sizes[0], sizes[1], to, self.rows);
                }
            }
        }
    }
}

/// Turns `count` matrices around.
pub(super) unsafe fn turn<E: Dispatch>(source: *const E, target: *mut E, count: usize, rows: usize, columns: usize) {
    let (source, target) = (Shared(source.cast_mut()), Shared(target));
    let grain = (1usize << 15).div_ceil(E::lanes() * columns.max(1));
    parallel_for(count * rows.div_ceil(E::lanes()), grain, &|strips| {
        let task = TurnTask { source: source.get().cast_const(), target: target.get(), rows, columns, strips };
        // SAFETY: the caller's; every strip has its own place.
        unsafe { E::dispatch(&task) };
    });
}
