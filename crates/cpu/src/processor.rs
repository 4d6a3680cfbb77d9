//! Which processor this is, for choices that depend on what its hardware does by itself, not on which instructions it has.
//! (Its number is asked for, not an instruction that newer ones have: virtual machines hide these.)

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU8, Ordering};

/// A family of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Processor {
    /// None of the others, or not looked at yet.
    Other,
    /// AMD's up to Zen 3.
    AmdBeforeZen4,
    /// AMD's from Zen 4 on.
    Amd,
    /// Intel's.
    Intel,
}

static PROCESSOR: AtomicU8 = AtomicU8::new(Processor::Other as u8);

/// The processor, which is known once the [`level`](crate::math::level) is.
#[inline(always)]
pub(crate) fn processor() -> Processor {
    // Relaxed: the answer only makes a difference in speed.
    match PROCESSOR.load(Ordering::Relaxed) {
        1 => Processor::AmdBeforeZen4,
        2 => Processor::Amd,
        3 => Processor::Intel,
        _ => Processor::Other,
    }
}

/// Whether it has instructions that round to `bf16`.
#[cfg(target_arch = "x86_64")]
static ROUNDS_TO_BF16: AtomicBool = AtomicBool::new(false);

/// Whether it rounds `f32` to `bf16` itself, which is known once the [`level`](crate::math::level) is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn rounds_to_bf16() -> bool {
    ROUNDS_TO_BF16.load(Ordering::Relaxed)
}

/// Looks which processor it is.
#[cfg(target_arch = "x86_64")]
pub(crate) fn know() {
    use std::arch::x86_64::__cpuid;
    let id = __cpuid(0);
    let found = match [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes).as_flattened() {
        b"AuthenticAMD" if is_before_zen_4(__cpuid(1).eax) => Processor::AmdBeforeZen4,
        b"AuthenticAMD" => Processor::Amd,
        b"GenuineIntel" => Processor::Intel,
        _ => Processor::Other,
    };
    PROCESSOR.store(found as u8, Ordering::Relaxed);
    ROUNDS_TO_BF16.store(is_x86_feature_detected!("avx512bf16"), Ordering::Relaxed);
}

/// Whether a processor of AMD's is older than Zen 4, by what `cpuid` says of its family and model.
#[cfg(target_arch = "x86_64")]
fn is_before_zen_4(signature: u32) -> bool {
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    let model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);
    // Family 25 is Zen 3 and Zen 4.
    family < 25 || family == 25 && !matches!(model, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn processors_are_told_apart() {
        // Rome, Milan and Vermeer; Genoa, Raphael, Bergamo and Turin.
        assert!([0x0083_0f10, 0x00a0_0f11, 0x00a2_0f10].into_iter().all(is_before_zen_4));
        assert!(![0x00a1_0f11, 0x00a6_0f12, 0x00aa_0f02, 0x00b0_0f21].into_iter().any(is_before_zen_4));
    }

    #[test]
    fn one_is_found_with_the_level() {
        crate::math::level();
        let known = processor();
        know();
        assert_eq!(processor(), known);
    }
}
