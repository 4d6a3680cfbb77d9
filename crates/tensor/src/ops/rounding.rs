//! Rounding to halves in the middle of a computation, where PyTorch computes a function of halves in several steps and so
//! rounds more than once.

use crate::{DType, Element, Scalar};
use flambeau_base::halves::{bf16_from_f32, bf16_to_f32, f16_from_f32, f16_to_f32};

/// What [`rounded_to`] rounds to, as a parameter of a pointwise operator.
pub(super) fn format_of(dtype: DType) -> Scalar {
    Scalar::Int(match dtype {
        DType::F16 => 1,
        DType::BF16 => 2,
        _ => 0,
    })
}

/// The number as the half with this [`format_of`] holds it, or itself.
#[inline(always)]
pub(super) fn rounded_to<T: Element>(x: T, format: T) -> T {
    match format.to_i64() {
        1 => T::from_f32(f16_to_f32(f16_from_f32(x.to_f32()))),
        2 => T::from_f32(bf16_to_f32(bf16_from_f32(x.to_f32()))),
        _ => x,
    }
}
