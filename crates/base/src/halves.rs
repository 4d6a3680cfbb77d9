//! Conversions of halves that loops over them can be vectorised with, on any instruction set.
//!
//! They are those of IEEE 754: to nearest, ties to even, beyond the largest to infinity; a NaN keeps its sign and upper
//! bits and turns quiet. (Those of the crate `half` ask the processor first, for every element.)

use crate::{bf16, f16};

/// The `f16` nearest to `x`.
#[inline(always)]
pub fn f16_from_f32(x: f32) -> f16 {
    /// 2^-14, the least normal number; below, the distance of neighbours is that of `f32` about 0.5.
    const NORMAL: u32 = 0x3880_0000;
    /// 2^16, which the largest number's upper half of an ulp rounds to.
    const TOO_LARGE: u32 = 0x4780_0000;
    const INFINITY: u32 = 0x7f80_0000;
    let sign = (x.to_bits() >> 16) & 0x8000;
    let bits = x.to_bits() & 0x7fff_ffff;
    let rounded = bits.wrapping_add(0xfff).wrapping_add((bits >> 13) & 1);
    let normal = rounded.wrapping_sub(112 << 23) >> 13;
    let small = (f32::from_bits(bits) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if bits < NORMAL { small } else { normal };
    let large = if rounded >= TOO_LARGE { 0x7c00 } else { finite };
    let half = if bits > INFINITY { 0x7e00 | ((bits >> 13) & 0x3ff) } else { large };
    f16::from_bits((sign | half) as u16)
}

/// `x` as an `f32`, exactly.
#[inline(always)]
pub fn f16_to_f32(x: f16) -> f32 {
    let bits = u32::from(x.to_bits());
    let sign = (bits & 0x8000) << 16;
    let magnitude = (bits & 0x7fff) << 13;
    // As an `f32` it is 2^112 times too small, or denormal.
    let finite = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
    let quiet = if magnitude > 0x0f80_0000 { 0x0040_0000 } else { 0 };
    let special = if magnitude >= 0x0f80_0000 { magnitude | 0x7f80_0000 | quiet } else { finite };
    f32::from_bits(sign | special)
}

/// Bits whose upper half is the `bf16` nearest to `x`; the lower one is anything.
#[inline(always)]
pub fn bf16_in_upper_half(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff).wrapping_add((bits >> 16) & 1);
    if x.is_nan() { bits | 0x40_0000 } else { rounded }
}

/// The `bf16` nearest to `x`.
#[inline(always)]
pub fn bf16_from_f32(x: f32) -> bf16 {
    bf16::from_bits((bf16_in_upper_half(x) >> 16) as u16)
}

/// `x` as an `f32`, exactly.
#[inline(always)]
pub fn bf16_to_f32(x: bf16) -> f32 {
    let bits = u32::from(x.to_bits()) << 16;
    f32::from_bits(if f32::from_bits(bits).is_nan() { bits | 0x40_0000 } else { bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_as_the_crate_half_has_it() {
        for bits in 0..=u16::MAX {
            let (x, y) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert_eq!(f16_to_f32(x).to_bits(), x.to_f32_const().to_bits(), "{bits:x}");
            assert_eq!(bf16_to_f32(y).to_bits(), y.to_f32_const().to_bits(), "{bits:x}");
        }
    }

    /// All that differs in the bits about the places where `f16` and `bf16` round, and a stride over the others.
    #[test]
    fn every_rounding_is_as_the_crate_half_has_it() {
        let near =
            (0..=u16::MAX as u32).flat_map(|upper| [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| upper << 16 | low));
        let ties = (0..1u32 << 19).flat_map(|upper| [0, 1, 0xfff, 0x1000, 0x1001].map(|low| upper << 13 | low));
        for bits in near.chain(ties).chain((0..u32::MAX).step_by(1013)) {
            let x = f32::from_bits(bits);
            assert_eq!(f16_from_f32(x).to_bits(), f16::from_f32_const(x).to_bits(), "{bits:x}");
            assert_eq!(bf16_from_f32(x).to_bits(), bf16::from_f32_const(x).to_bits(), "{bits:x}");
        }
    }
}
