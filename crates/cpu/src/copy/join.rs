//! Rows put together from a part of each of several arrays: concatenation along an inner dimension.

use super::rows::copy_rows;
use super::{Mover, PIECE_BYTES, Shared};
use crate::math::{Isa, Kernel, Level, entry, level};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use smallvec::SmallVec;
use std::marker::PhantomData;

/// Bytes of the rows that one array after the other is copied to: they stay in the first-level cache meanwhile.
const BLOCK_BYTES: usize = 1 << 14;

/// Rows of which fewer stay in the cache are written one after the other.
const FEW_ROWS: usize = 8;

/// A part of every row: the address of the first, its bytes, and the distance to the next row's.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The address of the first row's.
    pub data: *const u8,
    /// How many.
    pub bytes: usize,
    /// From row to row, in bytes.
    pub step: isize,
}

// SAFETY: what it points to is only read, and the caller of [`join_rows`] vouches for it.
unsafe impl Sync for Part {}

impl Part {
    /// The parts of the rows from `row` on.
    fn at_row(self, row: usize) -> Part {
        Part { data: self.data.wrapping_offset(row as isize * self.step), ..self }
    }
}

/// Writes `rows` contiguous rows, each of a part of every array.
///
/// # Safety
/// Each array must be valid for `rows` parts, and `to` for `rows` rows; they must not overlap.
pub unsafe fn join_rows(to: *mut u8, parts: &[Part], rows: usize) {
    let row: usize = parts.iter().map(|part| part.bytes).sum();
    if row == 0 {
        return;
    }
    let (to, mover) = (Shared(to), Mover::of(2 * row * rows));
    parallel_for(rows, (PIECE_BYTES / row).max(1), &|range| {
        let from: SmallVec<[Part; 8]> = parts.iter().map(|part| part.at_row(range.start)).collect();
        // SAFETY: rows `range` of the caller's arrays; no other piece writes to them.
        unsafe { join_some(to.get().add(range.start * row), row, &from, range.len(), mover) }
        mover.finish();
    });
}

/// [`join_rows`] on one thread; `row` is the sum of the parts, `mover` moves a long one.
unsafe fn join_some(to: *mut u8, row: usize, parts: &[Part], rows: usize, mover: Mover) {
    // SAFETY: the caller's contract.
    unsafe {
        if FastPath::CopyInterleave.is_on() && interleaved(to, parts, rows) {
            return;
        }
        let block = BLOCK_BYTES / row;
        if block < FEW_ROWS {
            for r in 0..rows {
                let mut at = to.add(r * row);
                for part in parts {
                    mover.run(part.at_row(r).data, at, part.bytes);
                    at = at.add(part.bytes);
                }
            }
            return;
        }
        for start in (0..rows).step_by(block) {
            let count = block.min(rows - start);
            let mut at = to.add(start * row);
            for part in parts {
                let Part { data, bytes, step } = part.at_row(start);
                if mover.is_short(bytes) {
                    copy_rows((data, step, at, row as isize, bytes, count));
                } else {
                    for i in 0..count {
                        mover.run(data.offset(i as isize * step), at.add(i * row), bytes);
                    }
                }
                at = at.add(bytes);
            }
        }
    }
}

/// Joins parts that are one number each, of few arrays, in vectors. False if they are not.
unsafe fn interleaved(to: *mut u8, parts: &[Part], rows: usize) -> bool {
    let size = parts[0].bytes;
    if parts.iter().any(|part| part.bytes != size || part.step != size as isize) {
        return false;
    }
    macro_rules! of {
        ($T:ty, $N:literal) => {{
            let from = std::array::from_fn(|k| parts[k].data.cast());
            // With wider vectors the shuffles take longer than the stores that they save.
            let interleave = entry::<Interleave<$T, $N>>(level().min(Level::Avx2));
            // SAFETY: the caller's contract: `rows` elements of each array; the machine has the level.
            unsafe { interleave((to.cast(), from, rows)) };
            true
        }};
    }
    match (size, parts.len()) {
        (1, 2) => of!(u8, 2),
        (1, 3) => of!(u8, 3),
        (1, 4) => of!(u8, 4),
        (2, 2) => of!(u16, 2),
        (2, 3) => of!(u16, 3),
        (2, 4) => of!(u16, 4),
        (4, 2) => of!(u32, 2),
        (4, 3) => of!(u32, 3),
        (4, 4) => of!(u32, 4),
        (8, 2) => of!(u64, 2),
        (8, 3) => of!(u64, 3),
        _ => false,
    }
}

/// One element of each of `N` arrays in turn: where to, the arrays, and how many of each.
struct Interleave<T, const N: usize>(PhantomData<T>);

impl<T: Copy, const N: usize> Kernel for Interleave<T, N> {
    type Args = (*mut [T; N], [*const T; N], usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((to, from, n): Self::Args) {
        // SAFETY: the caller's `n` elements of each array, and as many places.
        unsafe {
            // A plain loop, in which the compiler sees that the stores interleave; of blocks of arrays it makes scalar moves.
            for i in 0..n {
                to.add(i).write_unaligned(std::array::from_fn(|k| from[k].add(i).read_unaligned()));
            }
        }
    }
}
