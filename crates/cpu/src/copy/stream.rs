//! Stores of whole cache lines: such that go past the caches, and such that do not.
//!
//! An output that no cache will hold costs memory traffic twice when it is stored as usual: its lines are read before
//! they are written. Measured on a core with 32 MiB of last-level cache, in GiB/s: a copy of 40 MB 21 with plain stores,
//! 24 by `memcpy` and 32 past the caches; a sum of two arrays of 40 MB 21 and 30, of 8 MB 23 and 34. Operands that fit
//! the cache are better kept there: a copy of 8 MB 61 and 51, and whoever reads it next finds it there.

use super::move_bytes;
use crate::math::{Isa, Kernel, run};
use crate::prefetch::{prefetch, prefetch_near};
use flambeau_base::fast_paths::FastPath;

/// Operands larger than this, together, do not stay in a last-level cache: two thirds of one of 32 MiB, since others use it
/// too.
const CACHED_BYTES: usize = if cfg!(test) { 1 << 16 } else { 22 << 20 };

/// Bytes between what is copied and what is asked for.
const AHEAD: usize = 1024;

/// Whether an output should be stored past the caches: `bytes` are those of all operands. One that is also an input
/// should not, since its lines are in the cache by then.
pub(crate) fn streams(bytes: usize) -> bool {
    cfg!(target_arch = "x86_64") && bytes > CACHED_BYTES && FastPath::CopyStream.is_on()
}

/// Stores `block`, a whole number of cache lines, past the caches. [`finish`] follows before others read it.
///
/// # Safety
/// `to` must be valid for it and aligned to a cache line, and the machine must have `I`.
#[inline(always)]
pub(crate) unsafe fn store<I: Isa, T: Copy, const N: usize>(to: *mut T, block: &[T; N]) {
    // SAFETY: the caller's contract.
    unsafe { put::<I, T, N, true>(to, block) }
}

/// Stores `block`, a whole number of cache lines, by the widest vectors: of a loop over an array of bytes, compilers make
/// narrower ones, which do not keep up with a cache.
///
/// # Safety
/// `to` must be valid for it, and the machine must have `I`.
#[inline(always)]
pub(crate) unsafe fn keep<I: Isa, T: Copy, const N: usize>(to: *mut T, block: &[T; N]) {
    // SAFETY: the caller's contract.
    unsafe { put::<I, T, N, false>(to, block) }
}

/// As [`store`] or [`keep`].
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn put<I: Isa, T: Copy, const N: usize, const PAST: bool>(to: *mut T, block: &[T; N]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's contract; `I` has the instructions of its width.
    unsafe {
        use std::arch::x86_64::*;
        let (to, from) = (to.cast::<u8>(), (&raw const *block).cast::<u8>());
        for at in (0..size_of_val(block)).step_by(I::VECTOR_BYTES) {
            let (to, from) = (to.add(at), from.add(at));
            match (I::VECTOR_BYTES, PAST) {
                (64, true) => _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast())),
                (64, false) => _mm512_storeu_si512(to.cast(), _mm512_loadu_si512(from.cast())),
                (32, true) => _mm256_stream_si256(to.cast(), _mm256_loadu_si256(from.cast())),
                (32, false) => _mm256_storeu_si256(to.cast(), _mm256_loadu_si256(from.cast())),
                (_, true) => _mm_stream_si128(to.cast(), _mm_loadu_si128(from.cast())),
                (_, false) => _mm_storeu_si128(to.cast(), _mm_loadu_si128(from.cast())),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's contract.
    unsafe {
        to.cast::<[T; N]>().write_unaligned(*block)
    }
}

/// Makes what was stored past the caches visible before what follows.
#[inline(always)]
pub(crate) fn finish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}

/// Fewer bytes are not worth the lines of which part is kept.
pub(crate) const LEAST_BYTES: usize = 256;

/// [`move_bytes`] past the caches. [`finish`] follows before others read them.
///
/// # Safety
/// As there.
pub(crate) unsafe fn move_past(src: *const u8, dst: *mut u8, n: usize) {
    let overlaps = dst.addr().wrapping_sub(src.addr()) < n || src.addr().wrapping_sub(dst.addr()) < n;
    // SAFETY: the caller's contract.
    unsafe { if n < LEAST_BYTES || overlaps { move_bytes(src, dst, n) } else { run::<MovePast>((src, dst, n)) } }
}

struct MovePast;

impl Kernel for MovePast {
    /// Where from, where to, and how many bytes, more than those of a cache line.
    type Args = (*const u8, *mut u8, usize);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((src, dst, n): Self::Args) {
        const STEP: usize = 256;
        const LINE: usize = 64;
        ask_for_shared(dst.wrapping_add(n));
        let mut at = dst.addr().wrapping_neg() % LINE;
        // SAFETY: the caller's bytes; those of a step are read before they are written.
        unsafe {
            std::ptr::copy_nonoverlapping(src, dst, at);
            while at + STEP <= n {
                for line in (0..STEP).step_by(LINE) {
                    prefetch(src.wrapping_add(at + AHEAD + line));
                }
                store::<I, u8, STEP>(dst.add(at), &*src.add(at).cast::<[u8; STEP]>());
                at += STEP;
            }
            while at + LINE <= n {
                store::<I, u8, LINE>(dst.add(at), &*src.add(at).cast::<[u8; LINE]>());
                at += LINE;
            }
            std::ptr::copy_nonoverlapping(src.add(at), dst.add(at), n - at);
        }
    }
}

/// Asks for the line that what ends there shares with what follows. It is stored as usual, and stores behind it wait for it.
#[inline(always)]
pub(crate) fn ask_for_shared<T>(end: *mut T) {
    if !end.addr().is_multiple_of(64) {
        prefetch_near(end.cast_const().cast());
    }
}
