//! Copying: any dtype, any strides to any dtype, any strides.
//!
//! Moves are generic over element *size*, never dtype. The plan (dimension order, merging) is the iterator's; then one
//! of three walks runs: rows (memcpy or a cast strip), short rows (two dimensions in one loop), or blocks (source and
//! destination run along different dimensions, see `transpose.rs`).

mod cast;
mod fill;
mod join;
mod rows;
pub(crate) mod stream;
pub(crate) mod transpose;

pub use cast::{CastStrip, cast_strip};
pub(crate) use cast::{bf16_to_f32, f16_to_f32};
pub use fill::fill_strided;
pub use join::{Part, join_rows};

use flambeau_base::fast_paths::FastPath;
use flambeau_base::iter::Iter;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{Complex, DType};
use rows::{RowsArgs, turn_rows};
pub(crate) use rows::{SHORT_ROW_BYTES, copy_rows};
use transpose::block_side;
pub(crate) use transpose::{Matrix, transpose};

/// Bytes moved by one piece of parallel work. Far above the cost of handing out a piece, far below a last-level cache.
const PIECE_BYTES: usize = 1 << 18;

/// Rows up to this many elements are walked two dimensions at a time.
const SHORT_ROW: usize = 32;

/// Rows up to this many elements are turned round without a call for each.
const SHORT_TURNED: usize = 128;

/// From here on, one element is better written to a row by whole cache lines.
const LONG_ROW: usize = 64;

/// Copies `src` to `dst` with `flambeau_base::dtype::cast`: `sizes` outermost first, each operand an address, its
/// strides in bytes and its dtype. The source may be broadcast (stride 0).
///
/// # Safety
/// Both operands must be valid for `sizes` at their strides; the destination's elements must be distinct; the two must
/// not overlap, unless they are the same elements of the same dtype.
pub unsafe fn copy_strided(sizes: &[i64], dst: (*mut u8, &[isize], DType), src: (*const u8, &[isize], DType)) {
    // SAFETY: the caller's contract, unchanged.
    unsafe { copy_strided_conj(sizes, dst, src, false) }
}

/// [`copy_strided`], conjugating complex values on the way when `conj` is set.
///
/// # Safety
/// As for [`copy_strided`].
pub unsafe fn copy_strided_conj(
    sizes: &[i64],
    dst: (*mut u8, &[isize], DType),
    src: (*const u8, &[isize], DType),
    conj: bool,
) {
    let it = Iter::new(sizes, &[(dst.0, dst.1), (src.0.cast_mut(), src.1)]);
    if it.numel() == 0 {
        return;
    }
    let strides = (0..it.shape().len()).map(|d| (it.strides(d)[0], it.strides(d)[1])).collect();
    let plan = Plan { dst: dst.0, src: src.0, shape: it.shape().to_vec(), strides };
    let conj = conj && src.2.is_complex() && dst.2.is_complex();
    // SAFETY: the plan walks the operands' elements.
    unsafe {
        if dst.2 == src.2 && !conj {
            plan.moves(dst.2.size());
        } else {
            plan.casts(src.2, dst.2, conj);
        }
    }
}

/// Copies `n` bytes, from and to the same address too.
///
/// A processor's string instructions, which the C library takes for some thousand bytes, may crawl (Zen 4: 3 GB/s) where the
/// destination lies less than a cache line after the source within a page; a plain loop takes its place there.
///
/// # Safety
/// Both sides are valid for `n` bytes; they are the same or apart.
#[inline]
pub(crate) unsafe fn move_bytes(src: *const u8, dst: *mut u8, n: usize) {
    const PIECE: usize = 64;
    let ahead = dst.addr().wrapping_sub(src.addr());
    // SAFETY: the caller's contract.
    unsafe {
        if n < 2048 || ahead < n || !(1..64).contains(&(ahead % 4096)) {
            return std::ptr::copy(src, dst, n);
        }
        for start in (0..n / PIECE * PIECE).step_by(PIECE) {
            dst.add(start).cast::<[u8; PIECE]>().write_unaligned(src.add(start).cast::<[u8; PIECE]>().read_unaligned());
        }
        let rest = n % PIECE;
        std::ptr::copy(src.add(n - rest), dst.add(n - rest), rest);
    }
}

/// [`move_bytes`], or its like past the caches.
#[derive(Clone, Copy)]
pub(crate) struct Mover {
    past: bool,
}

impl Mover {
    /// For a copy that reads and writes `total` bytes in all.
    pub(crate) fn of(total: usize) -> Mover {
        Mover { past: stream::streams(total) }
    }

    /// Moves some of them.
    ///
    /// # Safety
    /// As [`move_bytes`].
    pub(crate) unsafe fn run(self, src: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's contract.
        unsafe { if self.past { stream::move_past(src, dst, n) } else { move_bytes(src, dst, n) } }
    }

    /// Whether rows of so many bytes are rather copied many in one call.
    pub(crate) fn is_short(self, bytes: usize) -> bool {
        bytes <= if self.past { stream::LEAST_BYTES } else { SHORT_ROW_BYTES }
    }

    /// Makes what a thread moved visible to others.
    pub(crate) fn finish(self) {
        if self.past {
            stream::finish();
        }
    }
}

/// The strip that moves elements of `size` bytes, a power of two up to 128.
pub(crate) fn cast_strip_of_size(size: usize) -> CastStrip {
    match size {
        1 => cast::move_strip::<u8>,
        2 => cast::move_strip::<u16>,
        4 => cast::move_strip::<u32>,
        8 => cast::move_strip::<u64>,
        32 => cast::move_strip::<[u64; 4]>,
        64 => cast::move_strip::<[u64; 8]>,
        128 => cast::move_strip::<[u64; 16]>,
        _ => cast::move_strip::<[u64; 2]>,
    }
}

/// An address that several threads may use; each touches its own elements only.
pub(crate) struct Shared<T>(pub *mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: users write disjoint elements from different threads.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}

impl<T> Shared<T> {
    /// The address. (A method, so that closures capture the whole wrapper.)
    #[inline(always)]
    pub(crate) fn get(self) -> *mut T {
        self.0
    }
}

/// Rows that are so few that they had better follow each other along another dimension, one of so many after the second that
/// does not go further than so many bytes.
const FEW_ROWS: usize = 8;
const NEXT_DIMS: usize = 3;
const REACH: usize = 1 << 14;

/// Elements of matrices that are not worth a call each.
const SMALL: usize = 32;

/// A planned copy: merged sizes and (destination, source) strides, innermost first.
struct Plan {
    dst: *mut u8,
    src: *const u8,
    shape: Vec<usize>,
    strides: Vec<(isize, isize)>,
}

// SAFETY: the addresses are used by the pieces of one copy, each on its own elements.
unsafe impl Sync for Plan {}

impl Plan {
    /// The same dtype on both sides: elements of `size` bytes.
    unsafe fn moves(mut self, mut size: usize) {
        // A short row that is contiguous on both sides is one wider element.
        while self.shape.len() > 1 && FastPath::CopyWide.is_on() {
            let row = self.shape[0] * size;
            if self.strides[0] != (size as isize, size as isize) || !matches!(row, 2 | 4 | 8 | 16 | 32 | 64 | 128) {
                break;
            }
            size = row;
            self.shape.remove(0);
            self.strides.remove(0);
        }
        let strip = cast_strip_of_size(size);
        // Wide elements fill cache lines in any order, and so do those of small matrices beside a longer dimension.
        let longer = self.longer_dim();
        let small = |fast: usize| longer.is_some() && self.shape[0] * self.shape[fast] <= SMALL;
        if let Some(fast) = self.source_dim().filter(|&fast| size <= 16 && !small(fast)) {
            // SAFETY: the blocks partition the plan.
            return self.blocks(fast, block_side(size), size, &|m| unsafe { transpose(size, m) });
        }
        if let Some(longer) = longer {
            self.shape[1..=longer].rotate_right(1);
            self.strides[1..=longer].rotate_right(1);
        }
        let (row, element) = (self.shape[0] * size, size as isize);
        let mover = Mover::of(2 * size * self.shape.iter().product::<usize>());
        if self.shape.len() > 1 && row <= SHORT_ROW_BYTES && FastPath::CopyRows.is_on() {
            let n = self.shape[0];
            match self.strides[0] {
                strides if strides == (element, element) && mover.is_short(row) => {
                    // SAFETY: rows of the plan; its contract is theirs.
                    return self.short_rows(row, &|args| unsafe { copy_rows(args) });
                }
                strides if strides == (element, -element) && size <= 8 && n <= SHORT_TURNED => {
                    let turn = |(src, src_step, dst, dst_step, _, rows): RowsArgs| {
                        // SAFETY: as above.
                        unsafe { turn_rows(size, (src, src_step, dst, dst_step, n, rows)) }
                    };
                    return self.short_rows(row, &turn);
                }
                _ => {}
            }
        }
        if self.strides[0] == (element, element) {
            let move_row = |src: *const u8, ss: isize, dst: *mut u8, ds: isize, n: usize| {
                // (Short rows may be walked along the second dimension.)
                let runs = (ss, ds) == (element, element);
                // SAFETY: elements of the plan; its contract is the mover's and the strip's.
                unsafe { if runs { mover.run(src, dst, n * size) } else { strip(src, ss, dst, ds, n) } }
            };
            return self.rows(size, &move_row, &|| mover.finish());
        }
        // SAFETY: strips of the plan; its contract is the strip's.
        self.rows(size, &|src, ss, dst, ds, n| unsafe { strip(src, ss, dst, ds, n) }, &|| {});
    }

    /// Different dtypes, or a conjugation.
    unsafe fn casts(self, from: DType, to: DType, conj: bool) {
        let cast = cast_strip(from, to);
        let convert = |src: *const u8, ss: isize, dst: *mut u8, ds: isize, n: usize| {
            // SAFETY: a strip of the plan.
            unsafe {
                cast(src, ss, dst, ds, n);
                if conj {
                    conjugate(to, dst, ds, n);
                }
            }
        };
        let Some(fast) = self.source_dim() else { return self.rows(to.size().max(from.size()), &convert, &|| {}) };
        // Turn a block in its own dtype first, then convert its rows, which now run as the destination's do.
        let side = block_side(from.size());
        self.blocks(fast, side, from.size().max(to.size()), &|m| {
            let size = from.size() as isize;
            let mut buffer = vec![0u64; side * side * from.size() / 8];
            let buffer = buffer.as_mut_ptr().cast::<u8>();
            for a in (0..m.size.0).step_by(side) {
                let columns = side.min(m.size.0 - a);
                for b in (0..m.size.1).step_by(side) {
                    let rows = side.min(m.size.1 - b);
                    let (i, j) = (a as isize, b as isize);
                    let block = Matrix {
                        dst: buffer,
                        src: m.src.wrapping_offset(i * m.src_stride.0 + j * m.src_stride.1),
                        size: (columns, rows),
                        dst_stride: (size, size * side as isize),
                        src_stride: m.src_stride,
                    };
                    // SAFETY: the buffer holds `side` rows of `side` elements.
                    unsafe { transpose(from.size(), block) };
                    for r in 0..rows as isize {
                        let dst = m.dst.wrapping_offset(i * m.dst_stride.0 + (j + r) * m.dst_stride.1);
                        let row = buffer.wrapping_offset(r * size * side as isize);
                        convert(row, size, dst, m.dst_stride.0, columns);
                    }
                }
            }
        });
    }

    /// The dimension along which the source runs fastest, when that is not the innermost and it matters.
    fn source_dim(&self) -> Option<usize> {
        let inner = self.strides[0].1.unsigned_abs();
        if inner == 0 || !FastPath::CopyBlocks.is_on() {
            return None;
        }
        let fastest = (1..self.shape.len()).filter(|&d| self.strides[d].1 != 0 && self.shape[d] > 1);
        fastest.min_by_key(|&d| self.strides[d].1.unsigned_abs()).filter(|&d| self.strides[d].1.unsigned_abs() < inner)
    }

    /// A dimension that short rows had better follow each other along than the second, which is shorter.
    fn longer_dim(&self) -> Option<usize> {
        if self.shape.len() < 3 || self.shape[0] > SHORT_ROW || self.shape[1] > FEW_ROWS || !FastPath::CopyRows.is_on()
        {
            return None;
        }
        let reach = |d: usize| self.shape[d] * self.strides[d].0.unsigned_abs().max(self.strides[d].1.unsigned_abs());
        let near = (2..self.shape.len().min(2 + NEXT_DIMS)).filter(|&d| reach(d) <= REACH);
        near.max_by_key(|&d| self.shape[d]).filter(|&d| self.shape[d] >= 2 * self.shape[1])
    }

    /// Runs `copy` over all rows, of `bytes` bytes, with those at once that follow each other along the second dimension.
    fn short_rows(&self, bytes: usize, copy: &(dyn Fn(RowsArgs) + Sync)) {
        let rows: usize = self.shape[1..].iter().product();
        let (inner, (ds, ss)) = (self.shape[1], self.strides[1]);
        parallel_for(rows, (PIECE_BYTES / bytes.max(1)).max(1), &|r| {
            let mut row = r.start;
            while row < r.end {
                let (dst, src) = self.at(1, row);
                let count = (inner - row % inner).min(r.end - row);
                copy((src, ss, dst, ds, bytes, count));
                row += count;
            }
        });
    }

    /// Runs `strip` over every row, and on each thread `finish` after its own.
    fn rows(
        &self,
        size: usize,
        strip: &(dyn Fn(*const u8, isize, *mut u8, isize, usize) + Sync),
        finish: &(dyn Fn() + Sync),
    ) {
        let n = self.shape[0];
        let (ds, ss) = self.strides[0];
        if self.shape.len() == 1 {
            return parallel_for(n, PIECE_BYTES / size, &|r| {
                let at = r.start as isize;
                strip(self.src.wrapping_offset(at * ss), ss, self.dst.wrapping_offset(at * ds), ds, r.len());
                finish();
            });
        }
        // Pieces of `long` elements along the row, or of whole rows when those are short.
        let long = n.min((PIECE_BYTES / size).max(1));
        let parts = n.div_ceil(long);
        let rows: usize = self.shape[1..].iter().product();
        let grain = ((PIECE_BYTES / size) / long).max(1);
        let inner = self.shape[1];
        let (ds1, ss1) = self.strides[1];
        parallel_for(rows * parts, grain, &|r| {
            let mut row = r.start;
            while row < r.end {
                let (part, index) = if parts == 1 { (0, row) } else { (row % parts, row / parts) };
                let (mut dst, mut src) = self.at(1, index);
                if parts > 1 {
                    let at = (part * long) as isize;
                    dst = dst.wrapping_offset(at * ds);
                    src = src.wrapping_offset(at * ss);
                    strip(src, ss, dst, ds, long.min(n - part * long));
                    row += 1;
                    continue;
                }
                let count = (inner - index % inner).min(r.end - row);
                if n <= SHORT_ROW && count > n {
                    // Short rows: the longer dimension inside, while the lines of `SHORT_ROW` passes stay in L1.
                    for start in (0..count).step_by(64) {
                        let run = 64.min(count - start);
                        let (d, s) =
                            (dst.wrapping_offset(ds1 * start as isize), src.wrapping_offset(ss1 * start as isize));
                        for i in 0..n as isize {
                            strip(s.wrapping_offset(i * ss), ss1, d.wrapping_offset(i * ds), ds1, run);
                        }
                    }
                } else {
                    for i in 0..count as isize {
                        strip(src.wrapping_offset(i * ss1), ss, dst.wrapping_offset(i * ds1), ds, n);
                    }
                }
                row += count;
            }
            finish();
        });
    }

    /// Runs `each` over matrices of the innermost dimension by dimension `fast`, cut along `fast` into whole blocks.
    fn blocks(&self, fast: usize, side: usize, size: usize, each: &(dyn Fn(Matrix) + Sync)) {
        let (size_a, size_b) = (self.shape[0], self.shape[fast]);
        let mut outer = Plan { dst: self.dst, src: self.src, shape: self.shape.clone(), strides: self.strides.clone() };
        outer.shape.remove(fast);
        outer.strides.remove(fast);
        let matrices: usize = outer.shape[1..].iter().product();
        // Rows along `fast` in one piece, a multiple of the block's side, and several matrices when they are small.
        let rows = ((PIECE_BYTES / size) / size_a / side * side).max(side);
        let parts = size_b.div_ceil(rows);
        // A matrix with few rows is cut along the other side too.
        let columns = if size_b <= side { ((PIECE_BYTES / size) / size_b / side * side).max(side) } else { size_a };
        let cuts = size_a.div_ceil(columns);
        let grain = ((PIECE_BYTES / size) / (columns.min(size_a) * rows.min(size_b))).max(1);
        parallel_for(matrices * parts * cuts, grain, &|r| {
            for piece in r {
                let (dst, src) = outer.at(1, piece / (parts * cuts));
                let (part, cut) = (piece / cuts % parts, piece % cuts);
                let (i, j) = ((cut * columns) as isize, (part * rows) as isize);
                let (a, b) = (self.strides[0], self.strides[fast]);
                each(Matrix {
                    dst: dst.wrapping_offset(i * a.0 + j * b.0),
                    src: src.wrapping_offset(i * a.1 + j * b.1),
                    size: (columns.min(size_a - cut * columns), rows.min(size_b - part * rows)),
                    dst_stride: (a.0, b.0),
                    src_stride: (a.1, b.1),
                });
            }
        });
    }

    /// The addresses of the `index`-th position over the dimensions from `dim` outwards.
    fn at(&self, dim: usize, mut index: usize) -> (*mut u8, *const u8) {
        let (mut dst, mut src) = (self.dst, self.src);
        for d in dim..self.shape.len() {
            let i = (index % self.shape[d]) as isize;
            index /= self.shape[d];
            dst = dst.wrapping_offset(i * self.strides[d].0);
            src = src.wrapping_offset(i * self.strides[d].1);
        }
        (dst, src)
    }
}

/// Conjugates `n` complex elements in place.
unsafe fn conjugate(dtype: DType, data: *mut u8, stride: isize, n: usize) {
    for i in 0..n as isize {
        // SAFETY: the caller's `n` elements.
        unsafe {
            if dtype == DType::Complex64 {
                let p = data.offset(i * stride).cast::<Complex<f32>>();
                p.write_unaligned(p.read_unaligned().conj());
            } else {
                let p = data.offset(i * stride).cast::<Complex<f64>>();
                p.write_unaligned(p.read_unaligned().conj());
            }
        }
    }
}

#[cfg(test)]
mod tests;
