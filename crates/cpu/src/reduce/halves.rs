//! Sums of halves, without a conversion of all of them beforehand.

use super::fold::Fold;
use crate::math::Isa;
use flambeau_base::halves::f16_to_f32;
use flambeau_base::{bf16, f16};
#[cfg(target_arch = "x86_64")]
use {
    super::{Block, quick_rows, runs, short},
    crate::math::{Level, level},
    flambeau_base::fast_paths::FastPath,
};

/// Declares the sum of a dtype, four of which are added as `f32`: how one is widened, and what is particular to the [`Fold`].
macro_rules! half_sum {
    ($(#[$doc:meta])* $name:ident: $T:ident by $widen:ident; $($particular:item)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name;

        impl Fold for $name {
            type In = $T;
            type State = f64;
            type Param = ();
            const IDENTITY: f64 = 0.0;
            const QUICK: bool = true;
            $($particular)*
            #[inline(always)]
            fn neutral() -> Option<$T> {
                Some($T::ZERO)
            }
            #[inline(always)]
            fn one<I: Isa>(self, x: $T, _: ()) -> f64 {
                f64::from($widen(x))
            }
            #[inline(always)]
            fn merge(self, a: f64, b: f64) -> f64 {
                a + b
            }
            #[inline(always)]
            fn quick_four<I: Isa>(self, [a, b, c, d]: [$T; 4], _: ()) -> f64 {
                f64::from(($widen(a) + $widen(b)) + ($widen(c) + $widen(d)))
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn fold_runs<I: Isa>(block: &Block, first: usize, states: *mut f64) -> usize {
                if const { I::COMPACT } || !FastPath::ReduceShort.is_on() {
                    return 0;
                }
                // SAFETY: the caller's; the machine has that level.
                unsafe {
                    match level() {
                        Level::Avx512 if short::are_short::<short::Sum<$T>>(block) => {
                            short::fold_runs::<short::Sum<$T>>(block, first, states)
                        }
                        Level::Avx2 | Level::Avx512 => runs::fold_runs::<short::Sum<$T>>(block, first, states),
                        Level::Baseline => 0,
                    }
                }
            }
        }
    };
}

half_sum! {
    /// The sum of `bf16`.
    SumBf16: bf16 by bf16_to_f32;
    const NEIGHBOURS: bool = true;
    #[inline(always)]
    fn stands(sum: f64) -> bool {
        sum.is_finite()
    }
}

half_sum! {
    /// The sum of `f16`: none of four finite ones is infinite as `f32`.
    SumF16: f16 by f16_to_f32;
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn quick_rows<I: Isa, const W: usize>(rows: [*const f16; 4], sums: &mut [f64; W]) -> bool {
        // SAFETY: the caller's.
        unsafe { quick_rows::add::<I, f16, W>(rows, sums) }
    }
}

/// Exact, by operations that vectorise. (A sum turns NaN quiet.)
#[inline(always)]
fn bf16_to_f32(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}
