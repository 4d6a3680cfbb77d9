//! Gathers of planes with one result channel per group, where packing would cost as much as computing: vectors run over
//! the positions of a staged plane. The gradient of the weight of such a convolution, in either layout.

use super::access::{Access, PixelStage, PlaneStage, load_run, store_run};
use super::geometry::{Gather, TileRange, Tiling};
use super::planes::{Operands, TASK_WORK};
use super::simd::{Dispatch, Number, Scratch, Shared, Simd, Task};
use flambeau_base::parallel::parallel_for;

/// Terms of a sum for which this is used: longer ones reuse packed panels well enough.
pub(crate) const MOST_TERMS: usize = 512;
/// Staged numbers of a tile: half of a 48 KiB first-level cache with its sums.
const TILE_NUMBERS: usize = 4096;
/// Numbers of a plane that is converted whole, since every other place of a row is read apart: they stay in a
/// second-level cache.
const CONVERTED_NUMBERS: usize = 4 * TILE_NUMBERS;
/// Sums held in registers at once.
const BATCH: usize = 8;
/// Vectors of sums at the end of a tile.
const FEW: usize = 4;
/// Rows of planes that are computed together, of so many vectors.
const ROWS: usize = 4;
const ROW_VECTORS: usize = BATCH / ROWS;

struct Plan<'a, E> {
    gather: &'a Gather,
    operands: Operands<E>,
    tiling: Tiling,
    planes: PlaneStage,
    /// Distances of the terms from a position.
    offsets: Vec<usize>,
    /// Terms that follow one another and lie a row of the stage apart.
    column: usize,
    /// Weights by group and term.
    weight: *const E,
    /// Units whose source is converted together, or whose result.
    together: usize,
    convert: bool,
    round: bool,
}
// SAFETY: its pointers are only read, except the result, of which each task writes its own part.
unsafe impl<E> Sync for Plan<'_, E> {}

struct PlaneTask<'a, E> {
    plan: &'a Plan<'a, E>,
    units: std::ops::Range<usize>,
}

impl<E: Number> Task for PlaneTask<'_, E> {
    type Element = E;
    const FAST_PATH: bool = true;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let plan = self.plan;
        let g = plan.gather;
        let op = &plan.operands;
        let st = &plan.planes.staged;
        // (Whole vectors are read and written, up to four of them beyond the end.)
        let beyond = FEW * S::LANES;
        let stage_len = if plan.planes.in_place { 0 } else { g.source_channels * st.channel };
        let stage = Scratch::<E>::new(if plan.planes.in_place { 0 } else { stage_len + beyond });
        let size = plan.tiling.size;
        let most = (size[0] - 1) * st.axis[0] + (size[1] - 1) * st.axis[1] + size[2];
        let sums = Scratch::<E>::new(most + beyond);
        let depth = g.depth();
        let spaced = g.axes.iter().any(|a| a.spacing != 1);
        let (source_len, result_len) = (g.source_channels * g.source_positions(), g.result_positions());
        let converted = Scratch::<E>::new(if plan.convert { plan.together * source_len } else { 0 });
        let rounded = Scratch::<E>::new(if plan.round { plan.together * result_len } else { 0 });
        if !plan.planes.in_place {
            // SAFETY: as many numbers follow the stage.
            unsafe { S::clear(stage.get().add(stage_len), beyond) };
        }
        let access = match plan.convert {
            true => Access { same: true, size: size_of::<E>(), ..op.access },
            false => op.access,
        };
        let straight = (op.stored.same || plan.round) && !spaced;
        for (i, unit) in self.units.clone().enumerate() {
            let (tile, group) = (plan.tiling.get(unit / g.groups, g.batch, &g.axes), unit % g.groups);
            let plane = tile.image * g.groups + group;
            let of = i % plan.together;
            let together = plan.together.min(self.units.end - unit);
            // SAFETY: staged positions cover every read up to `len`; the tile's positions are this task's alone. Planes that
            // are converted together follow one another.
            unsafe {
                let source = op.source.add(plane * source_len * op.access.size);
                if plan.convert && of == 0 {
                    (op.access.load)(source, 1, together * source_len, converted.get());
                }
                let source = if plan.convert { converted.get().add(of * source_len).cast() } else { source.cast_mut() };
                let base = plan.planes.fill::<S>(&g.axes, &tile, &access, source, 0, g.source_channels, stage.get());
                let weight = plan.weight.add(group * depth);
                let zero = if op.bias.is_null() { E::default() } else { *op.bias.add(group) };
                let at = |a: usize, i: usize| g.axes[a].start + (tile.first[a] + i) * g.axes[a].spacing;
                let place = |d: usize, h: usize| (at(0, d) * g.result[1] + at(1, h)) * g.result[2] + at(2, 0);
                let result =
                    if plan.round { rounded.get() } else { op.result.cast::<E>().wrapping_add(plane * result_len) };
                let size = tile.size;
                let result = if plan.round { result.add(of * result_len) } else { result };
                let by_rows = plan.by_rows::<S>(&tile);
                if by_rows {
                    for d in 0..size[0] {
                        let from = base.add(d * st.axis[0]);
                        let to = match straight {
                            true => (result.add(place(d, 0)), g.result[2]),
                            false => (sums.get().add(d * st.axis[0]), st.axis[1]),
                        };
                        plan.rows::<S>((from, st.axis[1]), [size[1], size[2]], weight, zero, to);
                    }
                } else {
                    plan.stretches::<S>(base, &tile, weight, zero, sums.get());
                }
                for d in 0..if by_rows && straight { 0 } else { size[0] } {
                    for h in 0..size[1] {
                        let from = sums.get().add(d * st.axis[0] + h * st.axis[1]);
                        if straight {
                            S::copy(from, result.add(place(d, h)), size[2]);
                        } else {
                            let to = op.result.add((plane * result_len + place(d, h)) * op.stored.size);
                            store_run::<S>(&op.stored, from, to, g.axes[2].spacing, size[2]);
                        }
                    }
                }
                if plan.round && (of + 1 == plan.together || unit + 1 == self.units.end) {
                    let to = op.result.add((plane - of) * result_len * op.stored.size);
                    (op.stored.store)(rounded.get(), to, 1, (of + 1) * result_len);
                }
            }
        }
    }
}

impl<E: Number> Plan<'_, E> {
    /// The sums of a tile, row after row as it is staged.
    #[inline(always)]
    unsafe fn stretches<S: Simd<Element = E>>(
        &self,
        base: *const E,
        tile: &TileRange,
        weight: *const E,
        zero: E,
        sums: *mut E,
    ) {
        let st = &self.planes.staged;
        // Positions between rows are computed too and thrown away: the vectors stay full.
        let len = (tile.size[0] - 1) * st.axis[0] + (tile.size[1] - 1) * st.axis[1] + tile.size[2];
        let mut i = 0;
        // SAFETY: the caller's: staged positions cover every read up to `len`, and there are as many sums.
        unsafe {
            while i + BATCH * S::LANES <= len {
                stretch::<S, BATCH>(base.add(i), &self.offsets, weight, zero, sums.add(i));
                i += BATCH * S::LANES;
            }
            // What is staged goes on beyond its end, and what is read there is thrown away.
            while i < len && !self.planes.in_place {
                let vectors = (len - i).div_ceil(S::LANES).min(FEW);
                match vectors {
                    1 => stretch::<S, 1>(base.add(i), &self.offsets, weight, zero, sums.add(i)),
                    2 => stretch::<S, 2>(base.add(i), &self.offsets, weight, zero, sums.add(i)),
                    _ => stretch::<S, FEW>(base.add(i), &self.offsets, weight, zero, sums.add(i)),
                }
                i += vectors * S::LANES;
            }
            while i + 2 * S::LANES <= len {
                stretch::<S, 2>(base.add(i), &self.offsets, weight, zero, sums.add(i));
                i += 2 * S::LANES;
            }
            while i < len {
                let n = (len - i).min(S::LANES);
                let mut sum = S::splat(zero);
                for (k, &offset) in self.offsets.iter().enumerate() {
                    let x = S::load_first(base.add(i + offset), n);
                    sum = S::multiply_add(S::splat(*weight.add(k)), x, sum);
                }
                S::store_first(sums.add(i), sum, n);
                i += n;
            }
        }
    }

    /// Whether a tile is computed by [`Plan::rows`].
    #[inline(always)]
    fn by_rows<S: Simd<Element = E>>(&self, tile: &TileRange) -> bool {
        let [_, height, width] = tile.size;
        let narrow = !self.planes.in_place && 2 * width >= S::LANES && height >= ROW_VECTORS * ROWS;
        self.column >= ROWS && height >= ROWS && (width > S::LANES || narrow)
    }

    /// The sums of a tile's plane, blocks of [`ROWS`] rows at a time: a row of the source is read once for all of them. The
    /// last blocks of either direction overlap those before. Where a row is less than two vectors, they overlap, too, and
    /// where it is less than one, two blocks of rows are computed together.
    #[inline(always)]
    unsafe fn rows<S: Simd<Element = E>>(
        &self,
        (base, row): (*const E, usize),
        [height, width]: [usize; 2],
        weight: *const E,
        zero: E,
        (to, to_row): (*mut E, usize),
    ) {
        let across = ROW_VECTORS * S::LANES;
        let (below, apart) = match width {
            w if w >= across => (ROWS, S::LANES),
            w if w > S::LANES => (ROWS, w - S::LANES),
            _ => (ROW_VECTORS * ROWS, ROWS * row),
        };
        let to_apart = if below == ROWS { apart } else { ROWS * to_row };
        let terms = (&self.offsets[..], self.column);
        for h in (0..height).step_by(below).map(|h| h.min(height - below)) {
            for w in (0..width).step_by(across).map(|w| w.min(width.max(across) - across)) {
                // SAFETY: the caller's: staged positions cover every read, and the sums every row.
                unsafe {
                    let sums = block_of_rows::<S>((base.add(h * row + w), row, apart), terms, weight, zero);
                    for (r, sums) in sums.into_iter().enumerate() {
                        for (v, sum) in sums.into_iter().enumerate() {
                            let to = to.add((h + r) * to_row + w + v * to_apart);
                            if width < S::LANES {
                                S::store_first(to, sum, width);
                            } else {
                                S::store(to, sum);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// [`ROWS`] rows of [`ROW_VECTORS`] vectors of sums, which lie `apart`. The terms are columns of so many taps, at least as
/// many as rows: row `i` of the source under one is under tap `i - r` of row `r`.
#[inline(always)]
unsafe fn block_of_rows<S: Simd>(
    (base, row, apart): (*const S::Element, usize, usize),
    (offsets, column): (&[usize], usize),
    weight: *const S::Element,
    zero: S::Element,
) -> [[S::Vector; ROW_VECTORS]; ROWS] {
    // SAFETY: the caller's.
    unsafe {
        let mut sums = [[S::splat(zero); ROW_VECTORS]; ROWS];
        for (k, &offset) in offsets.iter().enumerate().step_by(column) {
            let mut taps = weight.add(k);
            let mut from = base.add(offset);
            for i in 0..ROWS - 1 {
                let x = [S::load(from), S::load(from.add(apart))];
                for (r, sums) in sums.iter_mut().enumerate().take(i + 1) {
                    add_row::<S>(*taps.add(i - r), &x, sums);
                }
                from = from.add(row);
            }
            for _ in ROWS - 1..column {
                let x = [S::load(from), S::load(from.add(apart))];
                for (r, sums) in sums.iter_mut().enumerate() {
                    add_row::<S>(*taps.add(ROWS - 1 - r), &x, sums);
                }
                (from, taps) = (from.add(row), taps.add(1));
            }
            for i in 0..ROWS - 1 {
                let x = [S::load(from), S::load(from.add(apart))];
                for (r, sums) in sums.iter_mut().enumerate().skip(i + 1) {
                    add_row::<S>(*taps.add(ROWS - 1 + i - r), &x, sums);
                }
                from = from.add(row);
            }
        }
        sums
    }
}

#[inline(always)]
unsafe fn add_row<S: Simd>(weight: S::Element, x: &[S::Vector; ROW_VECTORS], sums: &mut [S::Vector; ROW_VECTORS]) {
    // SAFETY: the caller's.
    unsafe {
        let weight = S::splat(weight);
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum = S::multiply_add(weight, *x, *sum);
        }
    }
}

/// `V` vectors of sums side by side.
#[inline(always)]
unsafe fn stretch<S: Simd, const V: usize>(
    base: *const S::Element,
    offsets: &[usize],
    weight: *const S::Element,
    zero: S::Element,
    sums: *mut S::Element,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut acc = [S::splat(zero); V];
        for (k, &offset) in offsets.iter().enumerate() {
            let w = S::splat(*weight.add(k));
            let x = base.add(offset);
            for (v, sum) in acc.iter_mut().enumerate() {
                *sum = S::multiply_add(w, S::load(x.add(v * S::LANES)), *sum);
            }
        }
        for (v, sum) in acc.into_iter().enumerate() {
            S::store(sums.add(v * S::LANES), sum);
        }
    }
}

/// Computes a gather with one result channel per group.
///
/// # Safety
/// The operands are valid for the gather's sizes, the result is nobody else's.
pub(crate) unsafe fn gather<E: Dispatch>(g: &Gather, operands: Operands<E>) {
    if g.batch * g.groups * g.positions() == 0 {
        return;
    }
    let same = operands.access.same;
    let taps = g.taps.len();
    let depth = g.depth();
    let mut tiling = Tiling::new(g.batch, &g.axes, (TILE_NUMBERS / g.source_channels.max(1)).max(256));
    if tiling.images > 1 {
        tiling = Tiling { images: 1, counts: [g.batch, 1, 1, 1], ..tiling };
    }
    let planes = PlaneStage::new(&g.axes, 1, tiling.size, same, g.source_channels, 0, true);
    let mut order: Vec<usize> = (0..taps).collect();
    // Taps that lie below one another follow one another, from above.
    let heights = &g.axes[1].taps;
    let apart = |i: usize, j: usize| heights[j].place as isize - heights[i].place as isize;
    let column = match heights.len() {
        n @ ROWS.. if g.axes[1].residues.len() == 1 && apart(0, n - 1).unsigned_abs() == n - 1 => {
            order.sort_by_key(|&t| {
                let [d, h, w] = g.taps[t].1;
                (d.kernel, w.kernel, h.place)
            });
            n
        }
        _ => 1,
    };
    let memory = Scratch::<E>::new(g.groups * depth);
    for group in 0..g.groups {
        for c in 0..g.source_channels {
            for (t, tap) in order.iter().map(|&t| &g.taps[t]).enumerate() {
                // SAFETY: indices are inside the weight and its copy.
                unsafe {
                    let from = group * g.weight_group_stride + c * g.weight_source_stride + tap.0 * g.weight_tap_stride;
                    *memory.get().add(group * depth + c * taps + t) = *operands.weight.add(from);
                }
            }
        }
    }
    let of_channel = |c: usize| order.iter().map(move |&t| (c, t));
    let tap = |(c, t): (usize, usize)| c * planes.staged.channel + planes.tap(&g.taps[t].1);
    let offsets = (0..g.source_channels).flat_map(of_channel).map(tap).collect();
    // Where tiles are whole images, those of one task follow one another.
    let whole = tiling.counts[1..] == [1; 3];
    let len = g.source_channels * g.source_positions();
    let together = if whole { (TILE_NUMBERS / len.max(g.positions())).max(1) } else { 1 };
    let convert = !same && whole && g.axes[2].step <= 2 && len <= CONVERTED_NUMBERS;
    let dense = g.positions() == g.result_positions();
    let round = !operands.stored.same && whole && dense && len <= TILE_NUMBERS;
    let plan =
        Plan { gather: g, operands, tiling, planes, offsets, column, weight: memory.get(), together, convert, round };
    let plan = &plan;
    let work = tiling.positions() * depth.max(4);
    parallel_for(tiling.len() * g.groups, (TASK_WORK / 2).div_ceil(work), &|units| {
        // SAFETY: the caller's.
        unsafe { E::dispatch(&PlaneTask { plan, units }) };
    });
}

struct GradientPlan<'a, E> {
    gather: &'a Gather,
    channels_last: bool,
    access: Access<E>,
    input: *const u8,
    gradient: *const u8,
    tiling: Tiling,
    planes: PlaneStage,
    pixels: PixelStage,
    offsets: Vec<usize>,
    weight: *mut E,
}
// SAFETY: its pointers are only read, except the weight, of which each task writes its own part.
unsafe impl<E> Sync for GradientPlan<'_, E> {}

struct GradientTask<'a, E> {
    plan: &'a GradientPlan<'a, E>,
    /// Channels, or with channels last vectors of channels.
    units: std::ops::Range<usize>,
}

impl<E: Number> Task for GradientTask<'_, E> {
    type Element = E;
    const FAST_PATH: bool = true;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        for unit in self.units.clone() {
            // SAFETY: the caller's.
            unsafe {
                if self.plan.channels_last {
                    self.pixels::<S>(unit * S::LANES);
                } else {
                    self.planes::<S>(unit);
                }
            }
        }
    }
}

impl<E: Number> GradientTask<'_, E> {
    /// All taps of one channel: sums over rows, a vector of positions at a time.
    #[inline(always)]
    unsafe fn planes<S: Simd<Element = E>>(&self, channel: usize) {
        let plan = self.plan;
        let g = plan.gather;
        let st = &plan.planes.staged;
        let taps = plan.offsets.len();
        let stage = Scratch::<E>::new(if plan.planes.in_place { 0 } else { st.channel });
        let row_memory = Scratch::<E>::new(if plan.access.same { 0 } else { plan.tiling.positions() });
        let sums = Scratch::<E>::new(taps * S::LANES);
        // SAFETY: staged positions cover every read; rows of the gradient exist; this channel's weight is this task's.
        unsafe {
            S::clear(sums.get(), taps * S::LANES);
            for t in 0..plan.tiling.len() {
                let tile = plan.tiling.get(t, g.batch, &g.axes);
                let plane = tile.image * g.groups + channel;
                let source = plan.input.add(plane * g.source_positions() * plan.access.size);
                let base = plan.planes.fill::<S>(&g.axes, &tile, &plan.access, source, 0, 1, stage.get());
                let first = (tile.first[0] * g.result[1] + tile.first[1]) * g.result[2] + tile.first[2];
                let gradient = plan.gradient.add((plane * g.result_positions() + first) * plan.access.size);
                // A tile is contiguous in the gradient's plane.
                let mut rows = gradient.cast::<E>();
                if !plan.access.same {
                    (plan.access.load)(gradient, 1, tile.size.iter().product(), row_memory.get());
                    rows = row_memory.get();
                }
                let mut tap = 0;
                while tap < taps {
                    let place = sums.get().add(tap * S::LANES);
                    let offsets = &plan.offsets[tap..];
                    tap += match taps - tap {
                        9 => correlate::<S, 9, 1>(base, st.axis, tile.size, offsets, rows, place),
                        8.. => correlate::<S, 8, 1>(base, st.axis, tile.size, offsets, rows, place),
                        3.. => correlate::<S, 3, 3>(base, st.axis, tile.size, offsets, rows, place),
                        _ => correlate::<S, 1, 4>(base, st.axis, tile.size, offsets, rows, place),
                    };
                }
            }
            for tap in 0..taps {
                let lanes = sums.get().add(tap * S::LANES);
                *plan.weight.add(channel * taps + tap) = (1..S::LANES).fold(*lanes, |sum, i| sum.plus(*lanes.add(i)));
            }
        }
    }

    /// All taps of a vector of channels.
    #[inline(always)]
    unsafe fn pixels<S: Simd<Element = E>>(&self, first: usize) {
        let plan = self.plan;
        let g = plan.gather;
        let channels = (g.groups - first).min(S::LANES);
        let st = &plan.pixels.staged;
        let taps = plan.offsets.len();
        let stage = Scratch::<E>::new(if plan.pixels.in_place { 0 } else { plan.tiling.images * st.image });
        let rows = Scratch::<E>::new(if plan.access.same { 0 } else { plan.tiling.positions() * S::LANES });
        let sums = Scratch::<E>::new(taps * S::LANES);
        let mut reads = Vec::with_capacity(plan.tiling.positions());
        // SAFETY: staged positions cover every read; pixels of the gradient exist; these channels' weights are this
        // task's.
        unsafe {
            S::clear(sums.get(), taps * S::LANES);
            for t in 0..plan.tiling.len() {
                let tile = plan.tiling.get(t, g.batch, &g.axes);
                let place = tile.image * g.source_positions() * g.groups + first;
                let source = plan.input.add(place * plan.access.size);
                let mut stage_pixels = plan.pixels;
                stage_pixels.channels = channels;
                let base = stage_pixels.fill::<S>(&g.axes, &tile, &plan.access, source, g.groups, stage.get());
                reads.clear();
                for image in 0..tile.images {
                    for d in 0..tile.size[0] {
                        for h in 0..tile.size[1] {
                            let row =
                                image * st.image + d * g.axes[0].step * st.axis[0] + h * g.axes[1].step * st.axis[1];
                            reads.extend((0..tile.size[2]).map(|w| row + w * g.axes[2].step * st.axis[2]));
                        }
                    }
                }
                // A tile is contiguous in the gradient: whole images, or one image's slice.
                let position = (tile.first[0] * g.result[1] + tile.first[1]) * g.result[2] + tile.first[2];
                let pixel = tile.image * g.result_positions() + position;
                let from = plan.gradient.add((pixel * g.groups + first) * plan.access.size);
                let mut gradient = (from.cast::<E>(), g.groups);
                if !plan.access.same {
                    for i in 0..reads.len() {
                        let from = from.add(i * g.groups * plan.access.size);
                        load_run::<S>(&plan.access, from, 1, channels, rows.get().add(i * S::LANES));
                    }
                    gradient = (rows.get().cast_const(), S::LANES);
                }
                let mut tap = 0;
                while tap < taps {
                    let place = sums.get().add(tap * S::LANES);
                    let offsets = &plan.offsets[tap..];
                    tap += match taps - tap {
                        9 => accumulate::<S, 9, 1>(base, &reads, channels, offsets, gradient, place),
                        8.. => accumulate::<S, 8, 1>(base, &reads, channels, offsets, gradient, place),
                        3.. => accumulate::<S, 3, 3>(base, &reads, channels, offsets, gradient, place),
                        _ => accumulate::<S, 1, 4>(base, &reads, channels, offsets, gradient, place),
                    };
                }
            }
            for c in 0..channels {
                for tap in 0..taps {
                    *plan.weight.add((first + c) * taps + tap) = *sums.get().add(tap * S::LANES + c);
                }
            }
        }
    }
}

/// Adds to `T` vectors of sums the products of a tile's rows with its source under `T` taps. Of few taps, `U` vectors of
/// neighbours are summed apart, as one sum's products wait for one another. Returns `T`.
#[inline(always)]
unsafe fn correlate<S: Simd, const T: usize, const U: usize>(
    base: *const S::Element,
    axis: [usize; 3],
    size: [usize; 3],
    offsets: &[usize],
    mut rows: *const S::Element,
    place: *mut S::Element,
) -> usize {
    // SAFETY: the caller's.
    unsafe {
        let offsets: [usize; T] = std::array::from_fn(|t| offsets[t]);
        let mut sums = [[S::splat(Default::default()); T]; U];
        for d in 0..size[0] {
            for h in 0..size[1] {
                let source = base.add(d * axis[0] + h * axis[1]);
                let mut w = 0;
                while w + U * S::LANES <= size[2] {
                    for (u, sums) in sums.iter_mut().enumerate() {
                        let at = w + u * S::LANES;
                        let y = S::load(rows.add(at));
                        for (t, sum) in sums.iter_mut().enumerate() {
                            *sum = S::multiply_add(y, S::load(source.add(offsets[t] + at)), *sum);
                        }
                    }
                    w += U * S::LANES;
                }
                while U > 1 && w + S::LANES <= size[2] {
                    let y = S::load(rows.add(w));
                    for (t, sum) in sums[0].iter_mut().enumerate() {
                        *sum = S::multiply_add(y, S::load(source.add(offsets[t] + w)), *sum);
                    }
                    w += S::LANES;
                }
                if w < size[2] {
                    let n = size[2] - w;
                    let y = S::load_first(rows.add(w), n);
                    for (t, sum) in sums[U - 1].iter_mut().enumerate() {
                        *sum = S::multiply_add(y, S::load_first(source.add(offsets[t] + w), n), *sum);
                    }
                }
                rows = rows.add(size[2]);
            }
        }
        add_sums::<S, T, U>(sums, place)
    }
}

/// Adds to `T` vectors of sums at `place` those of `U` parts. Returns `T`.
#[inline(always)]
unsafe fn add_sums<S: Simd, const T: usize, const U: usize>(
    sums: [[S::Vector; T]; U],
    place: *mut S::Element,
) -> usize {
    for t in 0..T {
        // SAFETY: the caller's.
        unsafe {
            let place = place.add(t * S::LANES);
            S::store(place, sums.iter().fold(S::load(place), |sum, part| S::plus(sum, part[t])));
        }
    }
    T
}

/// Adds to `T` vectors of sums, one lane per channel, the products of gradients and pixels under `T` taps; see
/// [`correlate`]. Returns `T`.
#[inline(always)]
unsafe fn accumulate<S: Simd, const T: usize, const U: usize>(
    base: *const S::Element,
    reads: &[usize],
    channels: usize,
    offsets: &[usize],
    (gradient, stride): (*const S::Element, usize),
    place: *mut S::Element,
) -> usize {
    // SAFETY: the caller's.
    unsafe {
        let offsets: [usize; T] = std::array::from_fn(|t| offsets[t]);
        let mut sums = [[S::splat(Default::default()); T]; U];
        let whole = if channels == S::LANES { reads.len() / U * U } else { 0 };
        let mut i = 0;
        while i < whole {
            for (u, sums) in sums.iter_mut().enumerate() {
                let from = base.add(*reads.get_unchecked(i + u));
                let y = S::load(gradient.add((i + u) * stride));
                for (t, sum) in sums.iter_mut().enumerate() {
                    *sum = S::multiply_add(y, S::load(from.add(offsets[t])), *sum);
                }
            }
            i += U;
        }
        for (i, &read) in reads.iter().enumerate().skip(whole) {
            let y = S::load_first(gradient.add(i * stride), channels);
            for (t, sum) in sums[0].iter_mut().enumerate() {
                *sum = S::multiply_add(y, S::load_first(base.add(read + offsets[t]), channels), *sum);
            }
        }
        add_sums::<S, T, U>(sums, place)
    }
}

/// The gradient of the weight when every group has one input and one output channel.
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
    if g.batch * g.positions() == 0 {
        let weight = Shared(weight);
        // SAFETY: the weight holds that many numbers.
        return (0..g.groups * g.taps.len()).for_each(|i| unsafe { *weight.get().add(i) = E::default() });
    }
    let mut tiling = Tiling::new(g.batch, &g.axes, if channels_last { 512 } else { TILE_NUMBERS });
    if !channels_last && tiling.images > 1 {
        tiling = Tiling { images: 1, counts: [g.batch, 1, 1, 1], ..tiling };
    }
    let lanes = E::lanes().min(g.groups);
    let planes = PlaneStage::new(&g.axes, 1, tiling.size, access.same, 1, 0, true);
    let pixels = PixelStage::new(&g.axes, tiling.images, tiling.size, access.same, lanes, g.groups);
    let offsets = g.taps.iter().map(|t| if channels_last { pixels.tap(&t.1) } else { planes.tap(&t.1) }).collect();
    let plan =
        GradientPlan { gather: g, channels_last, access, input, gradient, tiling, planes, pixels, offsets, weight };
    let plan = &plan;
    let (units, width) = if channels_last { (g.groups.div_ceil(E::lanes()), E::lanes()) } else { (g.groups, 1) };
    let work = g.batch * g.positions() * g.taps.len() * width;
    parallel_for(units, (TASK_WORK / 2).div_ceil(work), &|units| {
        // SAFETY: the caller's.
        unsafe { E::dispatch(&GradientTask { plan, units }) };
    });
}
