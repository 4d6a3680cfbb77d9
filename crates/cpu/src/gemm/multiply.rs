//! One matrix product: which way to go, and how it is cut into pieces.
//!
//! The vector dimension is the columns of C, so a C with contiguous columns is computed as its transpose. Three ways:
//! few rows go through the row kernels (see `rows.rs`) or read B in place, once; so do small or short products; the rest
//! packs all of A's rows (a slab of the inner dimension at a time), then each piece packs a few panels of B, uses them
//! for every row while they are in the cache, and moves on. Pieces depend on sizes and the number of threads, slabs on
//! sizes alone: no piece cuts a sum.

use super::groups::GroupKernels;
use super::kernel::{Block, KernelLane, Kernels};
use super::operand::Entry;
use super::pack::with_buffer;
use super::rows;
use super::simd::Lane;
use super::tiles::Tiles;
use crate::buffer::aligned;
use crate::math::{Level, level};
use crate::prefetch::prefetch_run;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::{in_parallel_region, num_threads, parallel_for};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Steps of the inner dimension packed at a time: a panel of B (two vectors wide) then takes 32 KiB or, of AVX-512, 64. That
/// is more than some first-level caches; but C is read and written once for each slab, and where the third level is slow (on
/// Sapphire Rapids a core reads 28 GB/s of it) half as many of those save more than the second level costs.
const SLAB: usize = 512;
/// With no more rows than these, a small B is hardly used again once it is packed: it is read where it is.
const FEW_ROWS: usize = 16;
/// Steps of [`Product::streamed`] at a time: of a B that a second-level cache holds (this many bytes), and of a larger
/// one, each of whose rows is a stream of its own; it is asked for some panels ahead.
const STREAMED_STEPS: usize = 128;
const STREAMED_CACHED: usize = 256 << 10;
const STREAMS: usize = 32;
const STREAMED_AHEAD: usize = 2;
/// Bytes of the part of C that all steps are added to before the next part.
const STREAMED_RESULTS: usize = 32 << 10;
/// The most steps of short sums.
const SHORT: usize = 32;
/// The most steps for which B is read in place: two vectors of every row then take 32 KiB.
const IN_PLACE: usize = 256;
/// Panels of B that a panel of A is multiplied with before the next: a large A comes from the third-level cache once for
/// all of them. They stay in the second-level cache meanwhile.
const PANELS: usize = 4;
/// [`PANELS`] for tiles, whose steps take an eighth of the time.
const TILES_PANELS: usize = 8;
/// [`PANELS`] of short sums.
const SHORT_PANELS: usize = 16;
/// [`SLAB`] for tiles, in which a product takes an eighth of the time: sums that go through memory, being wide, cost as much.
const TILES_SLAB: usize = 1024;
/// Bytes of A packed at a time: B is packed again for each.
const PACKED_A: usize = 2 << 20;
/// [`PACKED_A`] for tiles: `bf16` of 2048 takes 0.87 of the time so, but `f64`, which has none, a tenth longer.
const TILES_PACKED_A: usize = 8 << 20;
/// Bytes of A that are read in place however many panels of B there are: half of a second-level cache of 1 MiB.
const CACHED_A: usize = 512 << 10;
/// Pieces for each thread, so that all are done at about the same time.
const PIECES_OF_THREAD: usize = 8;
/// Elements of a B that is turned rather than read by columns.
const TINY: usize = 64;
/// Multiply-adds worth a piece of their own: some 10 microseconds.
const PIECE: usize = 1 << 20;
/// Rows and columns of the wide sums of a half-precision product.
const WIDE_ROWS: usize = 2048;
const WIDE_COLUMNS: usize = 1024;

/// A pointer that pieces share.
#[derive(Clone, Copy)]
pub struct Shared<T>(pub *mut T);
// SAFETY: the pieces write disjoint parts.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}
impl<T> Shared<T> {
    /// The pointer.
    #[inline(always)]
    pub fn get(&self) -> *mut T {
        self.0
    }
}

/// `c = alpha * a @ b + beta * c` with every stride in elements.
pub struct Product<T: Entry> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: T::Factor,
    pub a: *const T,
    pub a_row: isize,
    pub a_column: isize,
    pub conj_a: bool,
    pub b: *const T,
    pub b_row: isize,
    pub b_column: isize,
    pub conj_b: bool,
    /// `None` if the old value is not to be read.
    pub beta: Option<T::Factor>,
    pub c: *mut T::Out,
    pub c_row: isize,
    pub c_column: isize,
}

impl<T: Entry> Clone for Product<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Entry> Copy for Product<T> {}
// SAFETY: the pieces read A and B and write disjoint parts of C.
unsafe impl<T: Entry> Sync for Product<T> {}

impl<T: Entry> Product<T> {
    /// The same product, transposed.
    fn transposed(&self) -> Self {
        Product {
            m: self.n,
            n: self.m,
            a: self.b,
            a_row: self.b_column,
            a_column: self.b_row,
            conj_a: self.conj_b,
            b: self.a,
            b_row: self.a_column,
            b_column: self.a_row,
            conj_b: self.conj_a,
            c_row: self.c_column,
            c_column: self.c_row,
            ..*self
        }
    }

    /// Computes it.
    ///
    /// # Safety
    /// The pointers must be valid for their sizes and strides, and C must not overlap A, B or itself.
    #[inline]
    pub unsafe fn run(self, level: Level) {
        let mut p = self;
        if p.m == 0 || p.n == 0 {
            return;
        }
        if p.n == 1 && p.m > 1 || p.m > 1 && p.c_column != 1 && p.c_row.abs() < p.c_column.abs() {
            p = p.transposed();
        }
        if p.n == 1 {
            p.c_column = 1;
        }
        // SAFETY: forwarded contract.
        unsafe {
            if p.k == 0 || p.alpha == T::ZERO {
                return p.scale();
            }
            // B is read from memory, and once.
            let large = p.b_column == 1 && p.k > 1 && p.n * p.k >= 16 * rows::PIECE;
            let few = if p.m == 1 { p.n * p.k >= 256 } else { p.m <= rows::MOST && large };
            if few && FastPath::GemmRows.is_on() && rows::run(&p, level) {
                return;
            }
            let kernels = T::Lane::kernels(level);
            if T::PLAIN && p.c_column == 1 {
                let reach = reach::<T>(p.b_row);
                let in_place = p.b_column == 1 && (p.m <= kernels.direct.len() || p.k <= reach);
                if in_place && p.n * p.k <= 1 << 14 && FastPath::GemmInPlace.is_on() {
                    return p.in_place(kernels);
                }
                let tiny = p.b_row == 1 && p.n * p.k <= TINY && (p.m <= kernels.direct.len() || p.k <= reach);
                if tiny && FastPath::GemmInPlace.is_on() {
                    return p.turned(kernels);
                }
                let dots = p.m <= 16 && p.a_column == 1 && p.b_row == 1 && p.k >= 2 * kernels.lanes;
                if dots && FastPath::GemmRows.is_on() && rows::run(&p, level) {
                    return;
                }
                let cached = p.n * p.k * size_of::<T>() <= STREAMED_CACHED;
                let most = if cached { FEW_ROWS } else { kernels.direct.len() };
                if p.m <= most && p.b_column == 1 && FastPath::GemmRows.is_on() {
                    return p.streamed(kernels, cached);
                }
            }
            let groups = FastPath::GemmGroups.is_on();
            if groups && T::few_rows(&p, level) {
                return;
            }
            p.blocked(kernels, T::group_kernels(level, [p.conj_a, p.conj_b]).filter(|_| groups));
        }
    }

    /// `c = beta * c`.
    unsafe fn scale(&self) {
        for i in 0..self.m {
            for j in 0..self.n {
                // SAFETY: one element of C; the tile is one zero.
                unsafe {
                    let c = self.c.offset(i as isize * self.c_row + j as isize * self.c_column);
                    let zero = [T::Lane::ZERO; 4];
                    T::finish(zero.as_ptr(), 2, 1, 1, T::ONE, self.beta, c, 0, 0);
                }
            }
        }
    }

    /// [`Product::in_place`] of a B of at most [`TINY`] elements whose columns are contiguous, and of a copy that has its rows so.
    unsafe fn turned(self, kernels: &Kernels<T::Lane>) {
        let mut b = [MaybeUninit::uninit(); TINY];
        for step in 0..self.k {
            for j in 0..self.n {
                // SAFETY: an element of B.
                b[step * self.n + j]
                    .write(unsafe { *self.b.offset(step as isize * self.b_row + j as isize * self.b_column) });
            }
        }
        // SAFETY: the caller's; the copy has all elements, and its rows follow one another.
        unsafe { Product { b: b.as_ptr().cast(), b_row: self.n as isize, b_column: 1, ..self }.in_place(kernels) }
    }

    /// Plain element types, contiguous columns of B and C: no packing at all.
    unsafe fn in_place(&self, kernels: &Kernels<T::Lane>) {
        let blocks = self.m.div_ceil(kernels.direct.len());
        let piece = |range: Range<usize>| {
            let mut j = 0;
            while j < self.n {
                let columns = kernels.width().min(self.n - j);
                for i in range.clone() {
                    let rows = i * self.m / blocks..(i + 1) * self.m / blocks;
                    // SAFETY: the block is inside the product.
                    unsafe { self.block_in_place(kernels, rows, 0..self.k, j..j + columns) };
                }
                j += columns;
            }
        };
        let grain = (PIECE * blocks).div_ceil((self.m * self.n * self.k).max(1));
        if grain >= blocks {
            piece(0..blocks);
        } else {
            parallel_for(blocks, grain, &piece);
        }
    }

    /// Few rows: as [`Product::in_place`], of a B of any size. Some of its rows at a time are added to a part of C that stays
    /// in the first-level cache, so that each is read once and in order.
    unsafe fn streamed(&self, kernels: &Kernels<T::Lane>, cached: bool) {
        let blocks = self.m.div_ceil(kernels.direct.len());
        let width = kernels.width();
        let steps = if cached { STREAMED_STEPS } else { STREAMS };
        let most_pieces = if in_parallel_region() { 1 } else { 2 * num_threads() };
        let pieces = (self.m * self.n * self.k).div_ceil(PIECE / 4).clamp(1, most_pieces);
        let results = STREAMED_RESULTS / (self.m * size_of::<T>());
        let part = results.min(self.n.div_ceil(pieces)).max(1).next_multiple_of(width);
        let piece = |range: Range<usize>| {
            for first in range.map(|i| i * part) {
                let end = self.n.min(first + part);
                for step in (0..self.k).step_by(steps) {
                    let steps = step..self.k.min(step + steps);
                    for j in (first..end).step_by(width) {
                        let columns = j..end.min(j + width);
                        if !cached {
                            for i in steps.clone() {
                                let row = self.b.wrapping_offset(i as isize * self.b_row);
                                let ahead = row.wrapping_add(j + STREAMED_AHEAD * width);
                                prefetch_run(ahead.cast(), width * size_of::<T>());
                            }
                        }
                        for i in 0..blocks {
                            let rows = i * self.m / blocks..(i + 1) * self.m / blocks;
                            // SAFETY: the block is inside the product, and in this piece's columns.
                            unsafe { self.block_in_place(kernels, rows, steps.clone(), columns.clone()) };
                        }
                    }
                }
            }
        };
        let parts = self.n.div_ceil(part);
        if parts == 1 { piece(0..1) } else { parallel_for(parts, parts.div_ceil(pieces), &piece) }
    }

    /// Some rows and steps of A times some steps and columns of B, where they are. The first steps set C, others add to it.
    #[inline(always)]
    unsafe fn block_in_place(
        &self,
        kernels: &Kernels<T::Lane>,
        rows: Range<usize>,
        steps: Range<usize>,
        columns: Range<usize>,
    ) {
        let (row, step, column) = (rows.start as isize, steps.start as isize, columns.start as isize);
        let vectors = columns.len().div_ceil(kernels.lanes);
        // SAFETY: the caller's block is inside the product; plain elements are lanes.
        unsafe {
            kernels.direct[rows.len() - 1][vectors - 1](&Block {
                k: steps.len(),
                a: self.a.offset(row * self.a_row + step * self.a_column).cast(),
                a_row: self.a_row,
                a_step: self.a_column,
                b: self.b.offset(step * self.b_row + column).cast(),
                b_step: self.b_row,
                c: self.c.offset(row * self.c_row + column).cast(),
                c_row: self.c_row,
                rows: rows.len(),
                columns: columns.len(),
                alpha: T::factor_lane(self.alpha),
                beta: if step == 0 { self.beta.map(T::factor_lane) } else { Some(T::Lane::ONE) },
            });
        }
    }

    /// Everything else.
    unsafe fn blocked(&self, kernels: &Kernels<T::Lane>, groups: Option<GroupKernels<T>>) {
        let steps = groups.map_or(1, |g| g.steps);
        let tiles = groups.is_some_and(|g| g.tiles);
        let (slab, packed_a) = if tiles { (TILES_SLAB, TILES_PACKED_A) } else { (SLAB, PACKED_A) };
        let slabs = self.k.div_ceil(steps * slab);
        // Groups of steps stay whole.
        let unit = steps * groups.map_or(1, |g| g.unit);
        let cut = |s: usize| if s == slabs { self.k } else { s * self.k / slabs / unit * unit };
        let wide = T::WIDE_SUMS && slabs > 1;
        // Rows at a time: what fits the cache, in equal parts.
        let row = self.k.div_ceil(slabs * steps) * T::PARTS * size_of::<T::Lane>();
        let most = (packed_a / row).max(64);
        let most = if wide { most.min(WIDE_ROWS) } else { most };
        let row_parts = self.m.div_ceil(most);
        let column_parts = if wide { self.n.div_ceil(WIDE_COLUMNS) } else { 1 };
        for part in 0..row_parts * column_parts {
            let (i, j) = (part / column_parts, part % column_parts);
            let rows = i * self.m / row_parts..(i + 1) * self.m / row_parts;
            let columns = j * self.n / column_parts..(j + 1) * self.n / column_parts;
            let (m, n) = (rows.len(), columns.len());
            // SAFETY: the part is inside the product.
            unsafe {
                let c = self.c.offset(rows.start as isize * self.c_row + columns.start as isize * self.c_column);
                let part = Product {
                    m,
                    n,
                    a: self.a.offset(rows.start as isize * self.a_row),
                    b: self.b.offset(columns.start as isize * self.b_column),
                    c,
                    ..*self
                };
                if !wide {
                    for s in 0..slabs {
                        let steps = cut(s)..cut(s + 1);
                        part.slab(kernels, groups, steps, None, if s == 0 { self.beta } else { Some(T::ONE) });
                    }
                    continue;
                }
                with_buffer(m * n, |sums: *mut T::Lane| {
                    for s in 0..slabs {
                        let steps = cut(s)..cut(s + 1);
                        part.slab(kernels, groups, steps, Some((Shared(sums), s > 0)), None);
                    }
                    let sums = Shared(sums);
                    parallel_for(m, (PIECE / 16).div_ceil(n), &|range| {
                        let part: &Product<T> = &part;
                        let from = sums.get().add(range.start * n);
                        let to = part.c.offset(range.start as isize * part.c_row);
                        let len = range.len();
                        T::finish(from, n, len, n, part.alpha, part.beta, to, part.c_row, part.c_column);
                    });
                });
            }
        }
    }

    /// Adds one slab of the inner dimension, into `wide` sums (and whether they have values already) or into C.
    unsafe fn slab(
        &self,
        kernels: &Kernels<T::Lane>,
        groups: Option<GroupKernels<T>>,
        steps: Range<usize>,
        wide: Option<(Shared<T::Lane>, bool)>,
        beta: Option<T::Factor>,
    ) {
        let steps_len = steps.len();
        // Steps of the packed panels (those of B may have rows before them), and the kernels that read them.
        let k = groups.map_or(steps_len, |g| g.packed_steps(steps_len));
        let panel_rows = k + groups.map_or(0, |g| g.head);
        let packed_kernels = groups.map_or(kernels.packed, |g| g.multiply);
        let tiles = groups.is_some_and(|g| g.tiles);
        let lanes_of_vector = groups.map_or(kernels.lanes, |g| g.lanes);
        let panel_lanes = 2 * lanes_of_vector;
        // What tiles read of A where it is: whole tiles of rows, each of whole cache lines.
        let whole_lines = |elements: usize| (elements * size_of::<T>()).is_multiple_of(64);
        let ready = tiles
            && self.a_column == 1
            && self.a_row > 0
            && whole_lines(self.a_row as usize)
            && whole_lines(steps_len)
            && (self.a as usize).is_multiple_of(64);
        let is_ready = move |rows: &Range<usize>| ready && rows.len().is_multiple_of(16);
        // SAFETY: the slab is inside the product.
        let (a, b) = unsafe {
            let a = self.a.offset(steps.start as isize * self.a_column);
            let b = self.b.offset(steps.start as isize * self.b_row);
            (Shared(a.cast_mut()), Shared(b.cast_mut()))
        };
        // Few columns do not repay packing A.
        let unpacked = FastPath::GemmUnpacked.is_on();
        let few_columns = self.n <= 4 * panel_lanes;
        let direct = T::PLAIN && few_columns && unpacked;
        // Nor does an A that stays in the second-level cache, where kernels read lanes of several steps from its rows.
        let grouped = groups.and_then(|g| g.in_place.filter(|_| steps_len.is_multiple_of(g.steps))).filter(|_| {
            let bytes = self.m * steps_len * size_of::<T>();
            unpacked && self.a_column == 1 && (few_columns || bytes <= CACHED_A)
        });
        let a_in_place = direct || grouped.is_some();
        let packed_kernels = grouped.map_or(packed_kernels, |g| g.multiply);
        let rounded = groups
            .filter(|_| wide.is_none() && beta.is_none() && self.c_column == 1)
            .and_then(|groups| grouped.map_or(groups.rounded, |g| g.rounded));
        let row_limit = if direct { kernels.direct.len() } else { packed_kernels.len() / T::PARTS };
        let row_panels = self.m.div_ceil(row_limit);
        // Rows in equal parts, without divisions: the first are longer by one.
        let (rows, longer) = (self.m / row_panels, self.m % row_panels);
        let rows_of = move |i: usize| match tiles {
            true => i * row_limit..self.m.min((i + 1) * row_limit),
            false => {
                let start = i * rows + i.min(longer);
                start..start + rows + (i < longer) as usize
            }
        };
        let width = panel_lanes / T::PARTS;
        let panels = self.n.div_ceil(width);

        // The cut: a few panels of columns a piece, or, of short sums, many, so that C is written in long runs (else more time
        // goes into asking for lines of it, two at a place, than into the products); if that leaves few pieces, the rows are
        // cut too, and B is packed for each: not in more parts than threads need, where sums are so long that this takes
        // time. (No sum is cut: the number of threads changes no bits.)
        let work = self.m * self.n * k * T::PARTS * T::PARTS;
        let most_pieces = match if in_parallel_region() { 1 } else { num_threads() } {
            _ if k <= SHORT => 64,
            1 => 1,
            threads => (PIECES_OF_THREAD * threads).min(64),
        };
        let wanted = (work / PIECE).clamp(1, most_pieces);
        let group = match tiles {
            _ if k <= SHORT => panels.min(SHORT_PANELS),
            false => (panels / wanted).clamp(1, PANELS),
            true => (panels / wanted).clamp(1, TILES_PANELS),
        };
        let columns_groups = panels.div_ceil(group);
        let row_groups = (wanted / columns_groups).clamp(1, row_panels.div_ceil(8));

        // One block of rows by one panel of columns.
        let multiply = |packed_a: *const T::Lane, i: usize, panel: usize, panel_b: *const T::Lane| {
            let columns = width.min(self.n - panel * width);
            let lanes = columns * T::PARTS;
            let vectors = 1 + (lanes > lanes_of_vector) as usize;
            // SAFETY: the block is inside the product and the buffers; pieces write disjoint blocks of C.
            unsafe {
                let rows = rows_of(i);
                let kernel_rows = rows.len() * T::PARTS;
                let (kernel, a, a_row, a_step) = if a_in_place {
                    let a = a.get().offset(rows.start as isize * self.a_row).cast::<T::Lane>();
                    let kernels = if direct { kernels.direct } else { packed_kernels };
                    (kernels[kernel_rows - 1][vectors - 1], a.cast_const(), self.a_row, self.a_column)
                } else if is_ready(&rows) {
                    let a = a.get().offset(rows.start as isize * self.a_row).cast::<T::Lane>();
                    let a_row = self.a_row * size_of::<T>() as isize / size_of::<T::Lane>() as isize;
                    (packed_kernels[kernel_rows - 1][vectors - 1], a.cast_const(), a_row, 1)
                } else {
                    let a = packed_a.add(rows.start * T::PARTS * k);
                    let (a_row, a_step) = if tiles { (k, 1) } else { (1, kernel_rows) };
                    let kernel = packed_kernels[kernel_rows - 1][vectors - 1];
                    (kernel, a, a_row as isize, a_step as isize)
                };
                let mut block = Block {
                    k,
                    a,
                    a_row,
                    a_step,
                    b: panel_b,
                    b_step: panel_lanes as isize,
                    c: std::ptr::null_mut(),
                    c_row: 0,
                    rows: kernel_rows,
                    columns: lanes,
                    alpha: T::Lane::ONE,
                    beta: None,
                };
                if let Some((sums, add)) = wide {
                    block.c = sums.get().add(rows.start * self.n + panel * width);
                    block.c_row = self.n as isize;
                    block.beta = add.then_some(T::Lane::ONE);
                    kernel(&block);
                    return;
                }
                let c = self.c.offset(rows.start as isize * self.c_row + (panel * width) as isize * self.c_column);
                if let Some(rounded) = rounded
                    && lanes.is_multiple_of(lanes_of_vector)
                {
                    block.c = c.cast();
                    block.c_row = self.c_row;
                    block.alpha = T::factor_lane(self.alpha);
                    rounded[kernel_rows - 1][vectors - 1](&block);
                } else if T::STORED && self.c_column == 1 {
                    block.c = c.cast();
                    block.c_row = self.c_row;
                    block.alpha = T::factor_lane(self.alpha);
                    block.beta = beta.map(T::factor_lane);
                    kernel(&block);
                } else {
                    let mut tile = aligned(std::mem::MaybeUninit::<[T::Lane; TILE]>::uninit());
                    block.c = tile.as_mut_ptr().cast();
                    block.c_row = panel_lanes as isize;
                    kernel(&block);
                    T::finish(
                        block.c,
                        panel_lanes,
                        rows.len(),
                        columns,
                        self.alpha,
                        beta,
                        c,
                        self.c_row,
                        self.c_column,
                    );
                }
            }
        };

        let piece = |packed_a: *const T::Lane, range: Range<usize>| {
            with_buffer((group + 1) * panel_rows * panel_lanes, |packed_b: *mut T::Lane| {
                // SAFETY: kernels of tiles are there where the processor has tiles.
                let _tiles = tiles.then(|| unsafe { Tiles::configure() });
                for index in range {
                    let (g, rg) = (index % columns_groups, index / columns_groups);
                    let group_panels = g * group..((g + 1) * group).min(panels);
                    let row_panel_range = rg * row_panels / row_groups..(rg + 1) * row_panels / row_groups;
                    // SAFETY: every panel is inside the product and its buffer.
                    unsafe { self.pack_b(kernels, panel_lanes, groups, b.get(), steps_len, &group_panels, packed_b) };
                    // A, which may come from far, is gone through once for all of the panels.
                    for i in row_panel_range {
                        for panel in group_panels.clone() {
                            let start = (panel - group_panels.start) * panel_rows * panel_lanes;
                            multiply(packed_a, i, panel, packed_b.wrapping_add(start));
                        }
                    }
                }
            })
        };

        let pieces = columns_groups * row_groups;
        if a_in_place {
            return if pieces == 1 {
                piece(std::ptr::null(), 0..1)
            } else {
                parallel_for(pieces, 1, &|r| piece(std::ptr::null(), r))
            };
        }
        // Tiles are read whole.
        let packed_rows = if tiles { self.m.next_multiple_of(row_limit) } else { self.m * T::PARTS };
        with_buffer(packed_rows * k, |packed_a: *mut T::Lane| {
            let shared = Shared(packed_a);
            let pack = |range: Range<usize>| {
                for rows in range.map(rows_of).filter(|rows| !is_ready(rows)) {
                    // SAFETY: the panel is inside A and the buffer.
                    unsafe {
                        let from = a.get().offset(rows.start as isize * self.a_row);
                        let to = shared.get().add(rows.start * T::PARTS * k);
                        let lanes = rows.len() * T::PARTS;
                        if let Some(groups) = groups {
                            (groups.pack_a)(from, self.a_row, self.a_column, rows.len(), lanes, steps_len, to);
                        } else {
                            T::pack(from, self.a_row, self.a_column, rows.len(), lanes, k, to, self.conj_a);
                        }
                    }
                }
            };
            let grain = (PIECE / 32).div_ceil(k * row_limit);
            if grain >= row_panels {
                pack(0..row_panels)
            } else {
                parallel_for(row_panels, grain, &pack)
            }
            if pieces == 1 { piece(packed_a, 0..1) } else { parallel_for(pieces, 1, &|r| piece(shared.get(), r)) }
        })
    }

    /// Packs panels of B one after the other.
    unsafe fn pack_b(
        &self,
        kernels: &Kernels<T::Lane>,
        panel_lanes: usize,
        groups: Option<GroupKernels<T>>,
        b: *const T,
        steps: usize,
        panels: &Range<usize>,
        packed: *mut T::Lane,
    ) {
        let width = panel_lanes / T::PARTS;
        let rows = groups.map_or(steps, |g| g.head + g.packed_steps(steps));
        let mut copied = 0;
        if self.b_column == 1 {
            // Panels of full width.
            let whole = (self.n / width).min(panels.end).saturating_sub(panels.start);
            let from = b.wrapping_add(panels.start * width);
            // SAFETY: the panels are inside B and the buffer.
            unsafe {
                if let Some(pack_rows) = groups.and_then(|g| g.pack_rows_of_b) {
                    pack_rows(from, self.b_row, steps, whole, packed);
                    copied = whole;
                } else if groups.is_none() && T::PLAIN {
                    (kernels.copy_rows)(from.cast(), self.b_row, steps, whole, packed);
                    copied = whole;
                }
            }
        }
        for (i, panel) in panels.clone().enumerate().skip(copied) {
            let columns = width.min(self.n - panel * width);
            // SAFETY: the panel is inside B and the buffer.
            unsafe {
                let from = b.offset((panel * width) as isize * self.b_column);
                let to = packed.add(i * rows * panel_lanes);
                if let Some(groups) = groups {
                    (groups.pack_b)(from, self.b_column, self.b_row, columns, panel_lanes, steps, to);
                } else {
                    T::pack(from, self.b_column, self.b_row, columns, panel_lanes, steps, to, self.conj_b);
                }
            }
        }
    }
}

/// Lanes of the largest block: 32 rows of two 512-bit vectors of 32-bit lanes, twelve of 16-bit ones.
const TILE: usize = 32 * 32;

/// How many rows of B, `stride` elements apart, a first-level cache of 64 sets holds without two-line rows evicting one
/// another: strides with a large power of two fall into few sets.
fn reach<T>(stride: isize) -> usize {
    let bytes = stride.unsigned_abs() * size_of::<T>();
    let period = (1usize << bytes.trailing_zeros().min(12)).max(64);
    (4096 / period * 8).min(IN_PLACE)
}

/// Computes a product with the machine's widest kernels.
///
/// # Safety
/// As for [`Product::run`].
#[inline]
pub unsafe fn run<T: Entry>(p: Product<T>) {
    // SAFETY: forwarded contract; `level` names what the machine has.
    unsafe { p.run(level()) }
}
