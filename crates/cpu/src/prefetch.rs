//! Asking for memory before it is read. Addresses need not be valid: a hint never faults.

#[cfg(target_arch = "x86_64")]
use crate::math::isa::is_amd;
use std::sync::atomic::{AtomicBool, Ordering};

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

static RUNS_ARE_ASKED_FOR: AtomicBool = AtomicBool::new(false);

/// Whether the lines of a run, which are read one after the other, are asked for: of AMD's processors up to Zen 3, whose
/// hardware asks for no page that was not read yet. Newer ones see runs coming across pages, too, and lose by what they are
/// told (Zen 4: sums of 4 MB take a third longer with hints, of 40 MB half as long again; Zen 3: a sixth less).
#[inline(always)]
pub(crate) fn runs_are_asked_for() -> bool {
    // Relaxed: the answer only makes a difference in speed.
    RUNS_ARE_ASKED_FOR.load(Ordering::Relaxed)
}

/// Looks which processor it is. Until then, no run is asked for.
#[cfg(target_arch = "x86_64")]
pub(crate) fn know_processor() {
    let before_zen_4 = is_amd() && is_before_zen_4(std::arch::x86_64::__cpuid(1).eax);
    RUNS_ARE_ASKED_FOR.store(before_zen_4, Ordering::Relaxed);
}

/// Whether a processor of AMD's is older than Zen 4, by what `cpuid` says of its family and model.
#[cfg(target_arch = "x86_64")]
fn is_before_zen_4(signature: u32) -> bool {
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    let model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);
    // Family 25 is Zen 3 and Zen 4.
    family < 25 || family == 25 && !matches!(model, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf)
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::is_before_zen_4;

    #[test]
    fn processors_are_told_apart() {
        // Rome, Milan and Vermeer; Genoa, Raphael, Bergamo and Turin.
        assert!([0x0083_0f10, 0x00a0_0f11, 0x00a2_0f10].into_iter().all(is_before_zen_4));
        assert!(![0x00a1_0f11, 0x00a6_0f12, 0x00aa_0f02, 0x00b0_0f21].into_iter().any(is_before_zen_4));
    }
}
