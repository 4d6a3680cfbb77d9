//! Many short rows: what a call, a choice of instructions and the end of a row cost counts for more than the elements do.

use crate::math::{Isa, Kernel, entry, level};
use std::marker::PhantomData;

/// Rows of more bytes are left to `memcpy`.
pub(crate) const SHORT_ROW_BYTES: usize = 1024;

/// Source and destination, the distances of their rows in bytes, and the length and number of rows.
pub(crate) type RowsArgs = (*const u8, isize, *mut u8, isize, usize, usize);

/// Copies rows of contiguous bytes, at most [`SHORT_ROW_BYTES`].
///
/// # Safety
/// Source and destination are valid for the rows; they are the same, or do not overlap.
pub(crate) unsafe fn copy_rows(args: RowsArgs) {
    // SAFETY: the caller's; the machine has its level.
    unsafe { entry::<CopyRows>(level())(args) }
}

struct CopyRows;

impl Kernel for CopyRows {
    type Args = RowsArgs;
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((src, src_step, dst, dst_step, n, rows): RowsArgs) {
        // The largest piece that a row has room for.
        // SAFETY: the caller's rows, which are at least as long as the pieces.
        unsafe {
            match n {
                0 => {}
                64.. if I::VECTOR_BYTES >= 64 => copy_in::<64>(src, src_step, dst, dst_step, n, rows),
                32.. if I::VECTOR_BYTES >= 32 => copy_in::<32>(src, src_step, dst, dst_step, n, rows),
                16.. => copy_in::<16>(src, src_step, dst, dst_step, n, rows),
                8.. => copy_in::<8>(src, src_step, dst, dst_step, n, rows),
                4.. => copy_in::<4>(src, src_step, dst, dst_step, n, rows),
                2.. => copy_in::<2>(src, src_step, dst, dst_step, n, rows),
                _ => copy_in::<1>(src, src_step, dst, dst_step, n, rows),
            }
        }
    }
}

/// In pieces of `P` bytes, of which the last overlaps the one before.
///
/// # Safety
/// As [`copy_rows`], of rows of `P` bytes at least.
#[inline(always)]
unsafe fn copy_in<const P: usize>(
    src: *const u8,
    src_step: isize,
    dst: *mut u8,
    dst_step: isize,
    n: usize,
    rows: usize,
) {
    let last = n - P;
    for row in 0..rows as isize {
        let (src, dst) = (src.wrapping_offset(row * src_step), dst.wrapping_offset(row * dst_step));
        // SAFETY: pieces of a row.
        unsafe {
            for at in (0..last).step_by(P) {
                dst.add(at).cast::<[u8; P]>().write_unaligned(src.add(at).cast::<[u8; P]>().read_unaligned());
            }
            dst.add(last).cast::<[u8; P]>().write_unaligned(src.add(last).cast::<[u8; P]>().read_unaligned());
        }
    }
}

/// Copies rows backwards: `src` is the last element, of `size` bytes (at most 8), of the first row.
///
/// # Safety
/// As [`copy_rows`], of elements; the two do not overlap.
pub(super) unsafe fn turn_rows(size: usize, args: RowsArgs) {
    // SAFETY: the caller's; the machine has its level.
    unsafe {
        match size {
            1 => entry::<TurnRows<u8>>(level())(args),
            2 => entry::<TurnRows<u16>>(level())(args),
            4 => entry::<TurnRows<u32>>(level())(args),
            _ => entry::<TurnRows<u64>>(level())(args),
        }
    }
}

struct TurnRows<T>(PhantomData<T>);

impl<T: Copy> Kernel for TurnRows<T> {
    type Args = RowsArgs;
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((src, src_step, dst, dst_step, n, rows): RowsArgs) {
        for row in 0..rows as isize {
            let src = src.wrapping_offset(row * src_step).cast::<T>();
            let dst = dst.wrapping_offset(row * dst_step).cast::<T>();
            // SAFETY: the row's elements.
            unsafe {
                let at = turn_blocks::<T, 32>(src, dst, 0, n);
                let at = turn_blocks::<T, 8>(src, dst, at, n);
                for i in at..n {
                    dst.add(i).write_unaligned(src.sub(i).read_unaligned());
                }
            }
        }
    }
}

/// Blocks of `N` elements from `at` on, while they are whole. Gives where they end.
///
/// # Safety
/// Elements `at..n` of both, those of the source backwards.
#[inline(always)]
unsafe fn turn_blocks<T: Copy, const N: usize>(src: *const T, dst: *mut T, mut at: usize, n: usize) -> usize {
    while at + N <= n {
        // A block is read before it is written, which the compiler cannot see to be apart.
        // SAFETY: a block of the caller's elements.
        unsafe {
            let block = src.sub(at + N - 1).cast::<[T; N]>().read_unaligned();
            let turned: [T; N] = std::array::from_fn(|i| block[N - 1 - i]);
            dst.add(at).cast::<[T; N]>().write_unaligned(turned);
        }
        at += N;
    }
    at
}
