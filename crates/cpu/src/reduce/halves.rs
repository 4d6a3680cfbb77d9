//! Sums of halves, without a conversion of all of them beforehand.

use super::fold::Fold;
use crate::math::{Isa, select};
use flambeau_base::{bf16, f16};
#[cfg(target_arch = "x86_64")]
use {
    super::columns::LOOK,
    super::{Block, quick_rows, runs, short},
    crate::math::{Level, level},
    flambeau_base::fast_paths::FastPath,
};

/// [`Fold::fold_runs`] of a sum, by the vectors of the machine's level.
macro_rules! fold_runs {
    ($T:ty) => {
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        unsafe fn fold_runs<I: Isa>(block: &Block, first: usize, states: *mut f64) -> usize {
            if const { I::COMPACT } || !FastPath::ReduceShort.is_on() {
                return 0;
            }
            // SAFETY: the caller's; the machine has that level.
            unsafe {
                match level() {
                    Level::Avx512 => short::fold_runs::<short::Sum<$T>>(block, first, states),
                    Level::Avx2 => runs::fold_runs::<short::Sum<$T>>(block, first, states),
                    Level::Baseline => 0,
                }
            }
        }
    };
}

/// The sum of `bf16`.
#[derive(Clone, Copy)]
pub(super) struct SumBf16;

/// Exact, by operations that vectorise.
#[inline(always)]
fn widen(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

impl Fold for SumBf16 {
    type In = bf16;
    type State = f64;
    type Param = ();
    const IDENTITY: f64 = 0.0;
    const QUICK: bool = true;
    const NEIGHBOURS: bool = true;
    #[inline(always)]
    fn neutral() -> Option<bf16> {
        Some(bf16::ZERO)
    }
    #[inline(always)]
    fn one<I: Isa>(self, x: bf16, _: ()) -> f64 {
        f64::from(widen(x))
    }
    #[inline(always)]
    fn merge(self, a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn quick_four<I: Isa>(self, [a, b, c, d]: [bf16; 4], _: ()) -> f64 {
        f64::from((widen(a) + widen(b)) + (widen(c) + widen(d)))
    }
    #[inline(always)]
    fn stands(sum: f64) -> bool {
        sum.is_finite()
    }
    fold_runs!(bf16);
}

/// The sum of `f16`, four of which are added as `f32`: no sum of finite ones is infinite.
#[derive(Clone, Copy)]
pub(super) struct SumF16;

impl Fold for SumF16 {
    type In = f16;
    type State = f64;
    type Param = ();
    const IDENTITY: f64 = 0.0;
    const QUICK: bool = true;
    #[inline(always)]
    fn neutral() -> Option<f16> {
        Some(f16::ZERO)
    }
    #[inline(always)]
    fn one<I: Isa>(self, x: f16, _: ()) -> f64 {
        f64::from(f32_of(x))
    }
    #[inline(always)]
    fn merge(self, a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn quick_four<I: Isa>(self, [a, b, c, d]: [f16; 4], _: ()) -> f64 {
        f64::from((f32_of(a) + f32_of(b)) + (f32_of(c) + f32_of(d)))
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn quick_rows<I: Isa>(rows: [*const f16; 4], sums: &mut [f64; LOOK]) -> bool {
        // SAFETY: the caller's.
        unsafe { quick_rows::add::<I, f16>(rows, sums) }
    }
    fold_runs!(f16);
}

/// Exact, by operations that vectorise and meet no subnormal `f32`.
#[inline(always)]
fn f32_of(x: f16) -> f32 {
    /// The exponent of the least number that is not subnormal, as the bits of an `f32`.
    const LEAST: u32 = (127 - 14) << 23;
    let bits = u32::from(x.to_bits());
    let (sign, rest) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
    let subnormal = f32::from_bits(rest + LEAST) - f32::from_bits(LEAST);
    let number = select(rest < 1 << 23, subnormal.to_bits(), rest + (112 << 23));
    // What is infinite or not a number has all bits of an exponent set.
    f32::from_bits(sign | select(rest >= 0x0f80_0000, rest | 0x7f80_0000, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_widened_exactly() {
        for x in (0..=u16::MAX).map(f16::from_bits) {
            let (got, want) = (f32_of(x), x.to_f32());
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x:?}: {got}");
        }
    }
}
