//! Rows put together from a part of each of several arrays: concatenation along an inner dimension.

use super::{PIECE_BYTES, Shared, cast_strip_of_size, move_bytes};
use crate::math::{Isa, Kernel, Level, entry, level};
use flambeau_base::parallel::parallel_for;
use smallvec::SmallVec;
use std::marker::PhantomData;

/// Bytes of the rows that one array after the other is copied to: they stay in the first-level cache meanwhile.
const BLOCK_BYTES: usize = 1 << 14;

/// Parts of more bytes are left to `memcpy`.
const LONG_PART: usize = 256;

/// Rows of which fewer stay in the cache are written one after the other.
const FEW_ROWS: usize = 8;

/// Writes `rows` contiguous rows, each of a part of every array: `parts` has an array's address and the bytes of one of
/// its parts, which lie end to end.
///
/// # Safety
/// Each array must be valid for `rows` parts, and `to` for `rows` rows; they must not overlap.
pub unsafe fn join_rows(to: *mut u8, parts: &[(*const u8, usize)], rows: usize) {
    let row: usize = parts.iter().map(|part| part.1).sum();
    if row == 0 {
        return;
    }
    let to = Shared(to);
    let parts: SmallVec<[(Shared<u8>, usize); 8]> = parts.iter().map(|p| (Shared(p.0.cast_mut()), p.1)).collect();
    parallel_for(rows, (PIECE_BYTES / row).max(1), &|range| {
        let from: SmallVec<[(*const u8, usize); 8]> =
            parts.iter().map(|p| (p.0.get().wrapping_add(range.start * p.1).cast_const(), p.1)).collect();
        // SAFETY: rows `range` of the caller's arrays; no other piece writes to them.
        unsafe { join_some(to.get().add(range.start * row), row, &from, range.len()) }
    });
}

/// [`join_rows`] on one thread; `row` is the sum of the parts.
unsafe fn join_some(to: *mut u8, row: usize, parts: &[(*const u8, usize)], rows: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        if interleaved(to, parts, rows) {
            return;
        }
        let block = BLOCK_BYTES / row;
        if block < FEW_ROWS {
            for r in 0..rows {
                let mut at = to.add(r * row);
                for &(from, part) in parts {
                    move_bytes(from.add(r * part), at, part);
                    at = at.add(part);
                }
            }
            return;
        }
        for start in (0..rows).step_by(block) {
            let count = block.min(rows - start);
            let mut at = to.add(start * row);
            for &(from, part) in parts {
                copy_parts(from.add(start * part), part, at, row, count);
                at = at.add(part);
            }
        }
    }
}

/// Copies `count` parts that lie end to end to places that are `row` bytes apart.
unsafe fn copy_parts(from: *const u8, part: usize, to: *mut u8, row: usize, count: usize) {
    // SAFETY: the caller's parts and places.
    unsafe {
        if part > LONG_PART {
            for i in 0..count {
                move_bytes(from.add(i * part), to.add(i * row), part);
            }
        } else if part > 0 {
            // One piece of a size that has instructions, or two that overlap.
            let size = (1 << part.ilog2()).min(LONG_PART / 2);
            let strip = cast_strip_of_size(size);
            strip(from, part as isize, to, row as isize, count);
            if part > size {
                let last = part - size;
                strip(from.add(last), part as isize, to.add(last), row as isize, count);
            }
        }
    }
}

/// Joins parts that are one number each, of few arrays, in vectors. False if they are not.
unsafe fn interleaved(to: *mut u8, parts: &[(*const u8, usize)], rows: usize) -> bool {
    let size = parts[0].1;
    if parts.iter().any(|part| part.1 != size) {
        return false;
    }
    macro_rules! of {
        ($T:ty, $N:literal) => {{
            let from = std::array::from_fn(|k| parts[k].0.cast());
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
