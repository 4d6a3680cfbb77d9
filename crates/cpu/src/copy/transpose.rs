//! Moving a matrix whose source and destination run along different dimensions.
//!
//! The matrix is walked in blocks that fit in the second-level cache, so that every cache line of both sides is fetched
//! once and used whole. (Non-temporal stores measured no better.) Inside a block, squares of one 16-byte register by as many rows are transposed in
//! registers: `log2` steps of a perfect shuffle, each interleaving register `i` with register `i + n/2`.

#[cfg(target_arch = "x86_64")]
use crate::math::{Level, level};
use crate::prefetch::prefetch_run;

/// Bytes of a block along the source: 4 lines, so that the adjacent-line prefetch of x86 is not wasted.
const BLOCK_BYTES: usize = 256;

/// A two-dimensional move. The destination is fast along `a`, the source along `b`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    pub dst: *mut u8,
    pub src: *const u8,
    /// Elements along the destination's and the source's fast dimensions.
    pub size: (usize, usize),
    /// Strides in bytes along `a` and `b`.
    pub dst_stride: (isize, isize),
    pub src_stride: (isize, isize),
}

/// Elements along each side of a block for elements of `size` bytes.
pub(super) const fn block_side(size: usize) -> usize {
    BLOCK_BYTES / size
}

/// Copies `m` for elements of `size` bytes.
///
/// # Safety
/// Both sides must be valid for the sizes and strides, and must not overlap.
pub(crate) unsafe fn transpose(size: usize, m: Matrix) {
    // SAFETY: the caller's contract, unchanged.
    unsafe {
        match size {
            1 => blocks::<u8>(m),
            2 => blocks::<u16>(m),
            4 => blocks::<u32>(m),
            8 => blocks::<u64>(m),
            _ => blocks::<[u64; 2]>(m),
        }
    }
}

/// Turns rows of contiguous elements, as many as `size` says and each of its second number, into columns. Strides are those
/// of either side's rows.
///
/// # Safety
/// Both sides must be valid for the sizes and strides, and must not overlap.
pub(crate) unsafe fn turn<T: Copy>(
    from: *const T,
    from_stride: usize,
    to: *mut T,
    to_stride: usize,
    size: (usize, usize),
) {
    let bytes = size_of::<T>() as isize;
    let matrix = Matrix {
        dst: to.cast(),
        src: from.cast(),
        size,
        dst_stride: (bytes, to_stride as isize * bytes),
        src_stride: (from_stride as isize * bytes, bytes),
    };
    // SAFETY: the caller's contract.
    unsafe { transpose(size_of::<T>(), matrix) }
}

unsafe fn blocks<T: Copy>(m: Matrix) {
    let size = size_of::<T>() as isize;
    let side = block_side(size_of::<T>());
    let (square, turn) = square_kernel::<T>();
    let unit = m.dst_stride.0 == size && m.src_stride.1 == size;
    let simd = cfg!(target_arch = "x86_64") && unit && square > 1 && m.size.0 >= square && m.size.1 >= square;
    if !simd {
        // A thin side takes longer blocks of the other, to keep the inner loop long.
        let longer = |thin: usize| if thin < side { side * side / thin.max(1) } else { side };
        let (step_a, step_b) = (longer(m.size.1), longer(m.size.0));
        for b in (0..m.size.1).step_by(step_b) {
            for a in (0..m.size.0).step_by(step_a) {
                let part = sub(&m, a, b, step_a.min(m.size.0 - a), step_b.min(m.size.1 - b));
                // SAFETY: a part of the caller's matrix.
                unsafe { plain::<T>(part) };
            }
        }
        return;
    }
    // Blocks four times as long along the destination measured fastest: its writes then form longer runs.
    let wide = 4 * side;
    for b in (0..m.size.1).step_by(side) {
        let rows = side.min(m.size.1 - b);
        for a in (0..m.size.0).step_by(wide) {
            let columns = wide.min(m.size.0 - a);
            let (full_a, full_b) = (columns / square * square, rows / square * square);
            let lines = rows * size_of::<T>();
            // Two squares of 32 bytes use a line of the source up at once, which matters where rows share cache sets.
            let step = if square * size_of::<T>() == 32 { 2 * square } else { square };
            // The next block's rows start lines that no hardware prefetcher can guess: a share of them is asked for at every
            // step. (After the last, the same rows further on, which may be another matrix's.)
            let (next_a, next_b) = if a + wide < m.size.0 { (a + wide, b) } else { (0, b + side) };
            let next_rows = wide.min(m.size.0 - next_a);
            let share = next_rows.div_ceil(full_b.div_ceil(step).max(1));
            for i in (0..full_b).step_by(step) {
                let first = i / step * share;
                for row in next_a + first.min(next_rows)..next_a + (first + share).min(next_rows) {
                    let p = m.src.wrapping_offset(row as isize * m.src_stride.0 + next_b as isize * m.src_stride.1);
                    prefetch_run(p, lines);
                }
                for j in (0..full_a).step_by(square) {
                    for i in (i..full_b.min(i + step)).step_by(square) {
                        let part = sub(&m, a + j, b + i, square, square);
                        // SAFETY: a full square inside the caller's matrix, unit strides checked above.
                        unsafe { turn(part.src, m.src_stride.0, part.dst, m.dst_stride.1) };
                    }
                }
            }
            // SAFETY: parts of the caller's matrix.
            unsafe {
                if full_a < columns {
                    plain::<T>(sub(&m, a + full_a, b, columns - full_a, rows));
                }
                if full_b < rows {
                    plain::<T>(sub(&m, a, b + full_b, full_a, rows - full_b));
                }
            }
        }
    }
}

/// The part of `m` that starts at `(a, b)`.
fn sub(m: &Matrix, a: usize, b: usize, size_a: usize, size_b: usize) -> Matrix {
    let (i, j) = (a as isize, b as isize);
    Matrix {
        dst: m.dst.wrapping_offset(i * m.dst_stride.0 + j * m.dst_stride.1),
        src: m.src.wrapping_offset(i * m.src_stride.0 + j * m.src_stride.1),
        size: (size_a, size_b),
        ..*m
    }
}

/// Element by element, the longer side inside.
unsafe fn plain<T: Copy>(m: Matrix) {
    let (inner, outer) = if m.size.0 >= m.size.1 { (m.size.0, m.size.1) } else { (m.size.1, m.size.0) };
    let pick = |s: (isize, isize)| if m.size.0 >= m.size.1 { s } else { (s.1, s.0) };
    let (dst_stride, src_stride) = (pick(m.dst_stride), pick(m.src_stride));
    for o in 0..outer as isize {
        let dst = m.dst.wrapping_offset(o * dst_stride.1);
        let src = m.src.wrapping_offset(o * src_stride.1);
        // SAFETY: `inner` elements of the caller's matrix.
        unsafe { super::cast::move_strip::<T>(src, src_stride.0, dst, dst_stride.0, inner) };
    }
}

/// Transposes one square: source, its row stride, destination, its row stride.
type Square = unsafe fn(*const u8, isize, *mut u8, isize);

/// The widest square for elements of a size on this processor, and its side.
fn square_kernel<T: Copy>() -> (usize, Square) {
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::Avx2 {
        match size_of::<T>() {
            4 => return (8, x86::square_of_words),
            8 => return (4, x86::square_of_doubles),
            _ => {}
        }
    }
    (16 / size_of::<T>(), square_of::<T>)
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::columns_of_words;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Eight rows of eight 4-byte elements, whose strides are in bytes.
    ///
    /// # Safety
    /// They must be valid on both sides.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn square_of_words(src: *const u8, src_stride: isize, dst: *mut u8, dst_stride: isize) {
        let rows = std::array::from_fn(|i| src.wrapping_offset(i as isize * src_stride).cast());
        // SAFETY: the caller's square.
        unsafe {
            for (i, row) in columns_of_words(rows, 0).into_iter().enumerate() {
                _mm256_storeu_ps(dst.offset(i as isize * dst_stride).cast(), row);
            }
        }
    }

    /// Eight columns of eight rows of 4-byte elements, from the `at`th on.
    ///
    /// # Safety
    /// They must be valid.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn columns_of_words(rows: [*const u32; 8], at: usize) -> [__m256; 8] {
        // Rows `i` and `i + 4` share a register, so that only moves within halves are left to do.
        let load = |i: usize, at: usize| {
            // SAFETY: half a row of the caller's.
            unsafe {
                let low = _mm_loadu_ps(rows[i].add(at).cast());
                let high = _mm_loadu_ps(rows[i + 4].add(at).cast());
                _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
            }
        };
        let mut columns = [_mm256_setzero_ps(); 8];
        for half in 0..2 {
            let at = at + half * 4;
            let (a, b, c, d) = (load(0, at), load(1, at), load(2, at), load(3, at));
            let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
            let (ef, gh) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
            columns[half * 4] = _mm256_shuffle_ps::<0x44>(ab, cd);
            columns[half * 4 + 1] = _mm256_shuffle_ps::<0xee>(ab, cd);
            columns[half * 4 + 2] = _mm256_shuffle_ps::<0x44>(ef, gh);
            columns[half * 4 + 3] = _mm256_shuffle_ps::<0xee>(ef, gh);
        }
        columns
    }

    /// Four rows of four 8-byte elements.
    #[target_feature(enable = "avx2")]
    pub unsafe fn square_of_doubles(src: *const u8, src_stride: isize, dst: *mut u8, dst_stride: isize) {
        for half in 0..2 {
            let load = |i: isize| {
                // SAFETY: half a row of the caller's square.
                unsafe {
                    let low = _mm_loadu_pd(src.offset(i * src_stride + half * 16).cast());
                    let high = _mm_loadu_pd(src.offset((i + 2) * src_stride + half * 16).cast());
                    _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(low), high)
                }
            };
            let (a, b) = (load(0), load(1));
            // SAFETY: two rows of the caller's square.
            unsafe {
                _mm256_storeu_pd(dst.offset(half * 2 * dst_stride).cast(), _mm256_unpacklo_pd(a, b));
                _mm256_storeu_pd(dst.offset((half * 2 + 1) * dst_stride).cast(), _mm256_unpackhi_pd(a, b));
            }
        }
    }
}

/// Transposes one square of `16 / size_of::<T>()` elements a side: rows of the source become columns.
#[cfg(target_arch = "x86_64")]
unsafe fn square_of<T: Copy>(src: *const u8, src_stride: isize, dst: *mut u8, dst_stride: isize) {
    use std::arch::x86_64::*;
    let n = 16 / size_of::<T>();
    // SAFETY: SSE2 is part of x86-64; `n` rows of 16 bytes on both sides by the caller's contract.
    unsafe {
        let mut rows = [_mm_setzero_si128(); 16];
        for (i, row) in rows.iter_mut().enumerate().take(n) {
            *row = _mm_loadu_si128(src.offset(i as isize * src_stride).cast());
        }
        let mut step = 1;
        while step < n {
            let mut next = rows;
            for i in 0..n / 2 {
                let (x, y) = (rows[i], rows[i + n / 2]);
                (next[2 * i], next[2 * i + 1]) = match size_of::<T>() {
                    1 => (_mm_unpacklo_epi8(x, y), _mm_unpackhi_epi8(x, y)),
                    2 => (_mm_unpacklo_epi16(x, y), _mm_unpackhi_epi16(x, y)),
                    4 => (_mm_unpacklo_epi32(x, y), _mm_unpackhi_epi32(x, y)),
                    _ => (_mm_unpacklo_epi64(x, y), _mm_unpackhi_epi64(x, y)),
                };
            }
            rows = next;
            step *= 2;
        }
        for (i, row) in rows.iter().enumerate().take(n) {
            _mm_storeu_si128(dst.offset(i as isize * dst_stride).cast(), *row);
        }
    }
}

/// Transposes one square; other processors have no register form yet.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn square_of<T: Copy>(src: *const u8, src_stride: isize, dst: *mut u8, dst_stride: isize) {
    let size = size_of::<T>() as isize;
    let n = 16 / size_of::<T>();
    let m = Matrix { dst, src, size: (n, n), dst_stride: (size, dst_stride), src_stride: (src_stride, size) };
    // SAFETY: the caller's square.
    unsafe { plain::<T>(m) }
}
