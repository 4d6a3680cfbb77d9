//! Polynomials.

use super::{Isa, Number};

/// `a * b + c`, fused where the hardware fuses.
#[inline(always)]
pub fn fma<I: Isa, T: Number>(a: T, b: T, c: T) -> T {
    T::mul_add::<I>(a, b, c)
}

/// A polynomial, from its constant coefficient up, by Horner's rule.
macro_rules! horner {
    ($I:ty, $x:expr; $c:expr) => { $c };
    ($I:ty, $x:expr; $c:expr, $($rest:expr),+) => {
        $crate::math::poly::fma::<$I, _>($crate::math::poly::horner!($I, $x; $($rest),+), $x, $c)
    };
}
pub(crate) use horner;

/// The same by pairs of coefficients, with the argument's square, `$z`, at hand: as many steps, of which only half as many wait
/// for one another. A loop whose chain of steps is longer than what a processor holds back (some hundred instructions) takes
/// the chain's time, and not the instructions'.
macro_rules! paired {
    ($I:ty, $x:expr, $z:expr; $c:expr) => { $c };
    ($I:ty, $x:expr, $z:expr; $c:expr, $d:expr) => { $crate::math::poly::fma::<$I, _>($d, $x, $c) };
    ($I:ty, $x:expr, $z:expr; $c:expr, $d:expr, $($rest:expr),+) => {
        $crate::math::poly::fma::<$I, _>(
            $crate::math::poly::paired!($I, $x, $z; $($rest),+),
            $z,
            $crate::math::poly::fma::<$I, _>($d, $x, $c),
        )
    };
}
pub(crate) use paired;

/// `a` or `b`, both computed: the optimiser may turn a plain `if` into a branch around one, or into two copies of what
/// follows, and neither vectorises well.
#[inline(always)]
pub fn select<T>(condition: bool, a: T, b: T) -> T {
    std::hint::select_unpredictable(condition, a, b)
}
