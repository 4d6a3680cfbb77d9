//! Asking for memory before it is read. Addresses need not be valid: a hint never faults.

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
