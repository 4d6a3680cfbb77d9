//! Asking for memory before it is read. Addresses need not be valid: a hint never faults.

use crate::processor::{Processor, processor};

/// Asks for the cache line of an address to come into the second-level cache: for what is read later. (The first-level
/// cache waits for few lines at a time, and those that are read now would wait with them: sums of columns took twice as
/// long.)
#[inline(always)]
pub(crate) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that reads nothing and never faults; SSE is always there.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// [`prefetch`] of all lines of `bytes` bytes.
#[inline(always)]
pub(crate) fn prefetch_run(start: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(64) {
        prefetch(start.wrapping_add(offset));
    }
}

/// Whether the lines of a run, which are read one after the other, are asked for: of AMD's processors up to Zen 3, whose
/// hardware asks for no page that was not read yet. Newer ones see runs coming across pages, too, and lose by what they are
/// told (Zen 4: sums of 4 MB take a third longer with hints, of 40 MB half as long again; Zen 3: a sixth less).
#[inline(always)]
pub(crate) fn runs_are_asked_for() -> bool {
    processor() == Processor::AmdBeforeZen4
}

/// Whether what is read next is asked for where much is computed and results go past the caches: of Intel's processors, whose
/// stores wait in the same places as reads (Emerald Rapids: exponentials of 40 and 160 MB take 0.68 to 0.95 of the time, layer norm
/// of rows of 100 to 4000 0.8 to 0.95).
#[inline(always)]
pub(crate) fn streams_are_asked_for() -> bool {
    processor() == Processor::Intel
}

/// [`prefetch`] into the first-level cache: for what is read or written next.
#[inline(always)]
pub(crate) fn prefetch_near(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// [`prefetch_near`] of all lines of `bytes` bytes.
#[inline(always)]
pub(crate) fn prefetch_run_near(start: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(64) {
        prefetch_near(start.wrapping_add(offset));
    }
}
