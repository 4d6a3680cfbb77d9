//! The real functions, for `f32` and `f64`.

use super::{Isa, Level, Number, special, trig, vectors};
use std::f64::consts::PI;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// `f32` or `f64`, with every real function.
///
/// The instruction set is a parameter (see [`isa`](super::isa)). Code without branches, except where said, so that a
/// loop over a function vectorises. Results are within 2 units in the last place for `f32` and 4 for `f64` unless said
/// otherwise, and NaN, infinities, signed zeros and subnormals are treated as IEEE 754 and C's Annex F have it.
///
/// Concrete `f32` and `f64` have inherent methods of the same names: call `Float::exp::<I>(x)` there, `x.exp::<I>()` in
/// code generic over `T: Float`.
///
/// A few functions have rare arguments that cannot be had without branches: huge angles and huge quotients. Their
/// plain form takes any argument and branches; a loop that should vectorise first checks a block of arguments with
/// the predicate and then runs the `_common` form over the block where all are common, the plain form where not
/// (a few hundred elements make a good block).
pub trait Float:
    Number
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
{
    /// One half.
    const HALF: Self;
    /// Two.
    const TWO: Self;
    /// A quiet NaN.
    const NAN: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// Negative infinity.
    const NEG_INFINITY: Self;
    /// The distance from one to the next larger value.
    const EPSILON: Self;
    /// The largest finite value.
    const MAX: Self;
    /// The smallest finite value, `-MAX`.
    const MIN: Self;
    /// The smallest positive normal value.
    const MIN_POSITIVE: Self;
    /// The circle constant.
    const PI: Self;
    /// The natural logarithm of 2.
    const LN_2: Self;
    /// The natural logarithm of 10.
    const LN_10: Self;
    /// The square root of 2.
    const SQRT_2: Self;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
    /// Whether it is infinite.
    fn is_inf(self) -> bool;
    /// Whether it is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Whether the sign bit is set.
    fn signbit(self) -> bool;
    /// Whether the `_common` forms of `sin`, `cos` and `tan` take it.
    fn is_common_angle(self) -> bool;
    /// Whether the `_common` forms of `fmod`, `remainder` and `floor_divide` take the pair.
    fn is_common_quotient(self, other: Self) -> bool;
    /// `self` times two to the power `exponent`, rounded once.
    fn ldexp(self, exponent: i32) -> Self;
    /// The mantissa in [0.5, 1) and the exponent such that `self = mantissa * 2^exponent`; zero, infinities and NaN
    /// have exponent 0.
    fn frexp(self) -> (Self, i32);
    /// The square root.
    fn sqrt<I: Isa>(self) -> Self;
    /// One over the square root.
    fn rsqrt<I: Isa>(self) -> Self;
    /// One over `self`.
    fn reciprocal<I: Isa>(self) -> Self;
    /// The magnitude.
    fn abs<I: Isa>(self) -> Self;
    /// The largest integer not above.
    fn floor<I: Isa>(self) -> Self;
    /// The smallest integer not below.
    fn ceil<I: Isa>(self) -> Self;
    /// The integer part.
    fn trunc<I: Isa>(self) -> Self;
    /// The nearest integer, ties to even.
    fn round<I: Isa>(self) -> Self;
    /// `self - trunc(self)`.
    fn frac<I: Isa>(self) -> Self;
    /// -1, 0 or 1; 0 for NaN, as PyTorch has it.
    fn sign<I: Isa>(self) -> Self;
    /// The magnitude of `self` with the sign of `other`.
    fn copysign<I: Isa>(self, other: Self) -> Self;
    /// The smaller; NaN if either is.
    fn minimum<I: Isa>(self, other: Self) -> Self;
    /// The larger; NaN if either is.
    fn maximum<I: Isa>(self, other: Self) -> Self;
    /// The smaller of `high` and the larger of `self` and `low`; NaN if any is.
    fn between<I: Isa>(self, low: Self, high: Self) -> Self;
    /// The smaller; a NaN gives way to a number.
    fn fmin<I: Isa>(self, other: Self) -> Self;
    /// The larger; a NaN gives way to a number.
    fn fmax<I: Isa>(self, other: Self) -> Self;
    /// C's remainder, with the sign of `self`, for any arguments; loops over it do not vectorise (see
    /// [`fmod_common`](Float::fmod_common)).
    fn fmod<I: Isa>(self, other: Self) -> Self;
    /// [`fmod`](Float::fmod) where [`is_common_quotient`](Float::is_common_quotient) holds.
    fn fmod_common<I: Isa>(self, other: Self) -> Self;
    /// The remainder with the sign of `other` (Python's `%`); vectorises as [`fmod`](Float::fmod) does.
    fn remainder<I: Isa>(self, other: Self) -> Self;
    /// [`remainder`](Float::remainder) where [`is_common_quotient`](Float::is_common_quotient) holds.
    fn remainder_common<I: Isa>(self, other: Self) -> Self;
    /// The floored quotient as Python's `//` finds it, from the exact remainder; vectorises as [`fmod`](Float::fmod)
    /// does.
    fn floor_divide<I: Isa>(self, other: Self) -> Self;
    /// [`floor_divide`](Float::floor_divide) where [`is_common_quotient`](Float::is_common_quotient) holds.
    fn floor_divide_common<I: Isa>(self, other: Self) -> Self;
    /// `sqrt(self^2 + other^2)` without overflow.
    fn hypot<I: Isa>(self, other: Self) -> Self;
    /// The next representable value towards `other`.
    fn nextafter<I: Isa>(self, other: Self) -> Self;
    /// The angle of the point with ordinate `self` and abscissa `other`.
    fn atan2<I: Isa>(self, other: Self) -> Self;
    /// `self` to the power `other`, with C's special cases.
    fn pow<I: Isa>(self, other: Self) -> Self;
    /// `log(exp(self) + exp(other))`.
    fn logaddexp<I: Isa>(self, other: Self) -> Self;
    /// `log2(exp2(self) + exp2(other))`.
    fn logaddexp2<I: Isa>(self, other: Self) -> Self;
    /// The exponential.
    fn exp<I: Isa>(self) -> Self;
    /// The exponential of a number that is not positive (or NaN), at less cost.
    #[inline(always)]
    fn exp_not_positive<I: Isa>(self) -> Self {
        self.exp::<I>()
    }
    /// Whether [`exp_common`](Float::exp_common) takes it.
    #[inline(always)]
    fn is_common_exponent(self) -> bool {
        true
    }
    /// The exponential of a number for which [`is_common_exponent`](Float::is_common_exponent) holds, at less cost.
    #[inline(always)]
    fn exp_common<I: Isa>(self) -> Self {
        self.exp::<I>()
    }
    /// The same of many numbers, where vectors are chosen by hand. (A multiple of a vector's lanes.)
    #[inline(always)]
    fn exp_vectors<I: Isa, const C: usize>(_x: [Self; C]) -> Option<[Self; C]> {
        None
    }
    /// Whether [`log_common`](Float::log_common) takes it.
    #[inline(always)]
    fn is_common_logarithm(self) -> bool {
        true
    }
    /// The natural logarithm of a number for which [`is_common_logarithm`](Float::is_common_logarithm) holds, at less cost.
    #[inline(always)]
    fn log_common<I: Isa>(self) -> Self {
        self.log::<I>()
    }
    /// Two to the power.
    fn exp2<I: Isa>(self) -> Self;
    /// `exp(x) - 1`, accurate near zero.
    fn expm1<I: Isa>(self) -> Self;
    /// The natural logarithm.
    fn log<I: Isa>(self) -> Self;
    /// The binary logarithm.
    fn log2<I: Isa>(self) -> Self;
    /// The decimal logarithm.
    fn log10<I: Isa>(self) -> Self;
    /// `log(1 + x)`, accurate near zero.
    fn log1p<I: Isa>(self) -> Self;
    /// The sine of any angle; loops over it do not vectorise (see [`sin_common`](Float::sin_common)).
    fn sin<I: Isa>(self) -> Self;
    /// The cosine of any angle; loops over it do not vectorise (see [`cos_common`](Float::cos_common)).
    fn cos<I: Isa>(self) -> Self;
    /// The tangent of any angle; loops over it do not vectorise (see [`tan_common`](Float::tan_common)).
    fn tan<I: Isa>(self) -> Self;
    /// The sine of an angle for which [`is_common_angle`](Float::is_common_angle) holds.
    fn sin_common<I: Isa>(self) -> Self;
    /// The cosine of an angle for which [`is_common_angle`](Float::is_common_angle) holds.
    fn cos_common<I: Isa>(self) -> Self;
    /// The tangent of an angle for which [`is_common_angle`](Float::is_common_angle) holds.
    fn tan_common<I: Isa>(self) -> Self;
    /// The arcsine.
    fn asin<I: Isa>(self) -> Self;
    /// The arccosine.
    fn acos<I: Isa>(self) -> Self;
    /// The arctangent.
    fn atan<I: Isa>(self) -> Self;
    /// The hyperbolic sine.
    fn sinh<I: Isa>(self) -> Self;
    /// The hyperbolic cosine.
    fn cosh<I: Isa>(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh<I: Isa>(self) -> Self;
    /// The inverse hyperbolic sine.
    fn asinh<I: Isa>(self) -> Self;
    /// The inverse hyperbolic cosine.
    fn acosh<I: Isa>(self) -> Self;
    /// The inverse hyperbolic tangent.
    fn atanh<I: Isa>(self) -> Self;
    /// `1 / (1 + exp(-x))`.
    fn sigmoid<I: Isa>(self) -> Self;
    /// The error function.
    fn erf<I: Isa>(self) -> Self;
    /// `1 - erf(x)`, accurate where that is small.
    fn erfc<I: Isa>(self) -> Self;
    /// The normal distribution function.
    fn ndtr<I: Isa>(self) -> Self;
    /// The number times [`ndtr`](Float::ndtr).
    #[inline(always)]
    fn gelu<I: Isa>(self) -> Self {
        self * self.ndtr::<I>()
    }
    /// The same of many numbers, where vectors are chosen by hand.
    #[inline(always)]
    fn gelu_vectors<I: Isa, const C: usize>(_x: [Self; C]) -> Option<[Self; C]> {
        None
    }
    /// [`ndtr`](Float::ndtr) and `exp(-x^2 / 2)`, which is anything where `x` is NaN.
    #[inline(always)]
    fn normal<I: Isa>(self) -> (Self, Self) {
        (self.ndtr::<I>(), (-Self::HALF * self * self).exp::<I>())
    }
    /// The same, as exact as results that are rounded to halves need it, of a `bfloat16`.
    #[inline(always)]
    fn normal_of_half<I: Isa>(self) -> (Self, Self) {
        self.normal::<I>()
    }

    // The rest branches, in `f64`; where loops vectorise, `f32` has a form of its own (`special::single`).

    /// The inverse of the error function.
    #[inline]
    fn erfinv<I: Isa>(self) -> Self {
        Self::from_f64(special::erfinv(self.to_f64()))
    }
    /// `exp(x^2) erfc(x)`.
    #[inline]
    fn erfcx<I: Isa>(self) -> Self {
        Self::from_f64(special::erfcx(self.to_f64()))
    }
    /// The logarithm of the gamma function's magnitude.
    #[inline]
    fn lgamma<I: Isa>(self) -> Self {
        Self::from_f64(special::lgamma(self.to_f64()))
    }
    /// The logarithmic derivative of the gamma function.
    #[inline]
    fn digamma<I: Isa>(self) -> Self {
        Self::from_f64(special::digamma(self.to_f64()))
    }
    /// The modified Bessel function of the first kind, order 0.
    #[inline]
    fn i0<I: Isa>(self) -> Self {
        Self::from_f64(special::i0(self.to_f64()))
    }
    /// `exp(-|x|) i0(x)`.
    #[inline]
    fn i0e<I: Isa>(self) -> Self {
        Self::from_f64(special::i0e(self.to_f64()))
    }
    /// The modified Bessel function of the first kind, order 1.
    #[inline]
    fn i1<I: Isa>(self) -> Self {
        Self::from_f64(special::i1(self.to_f64()))
    }
    /// `exp(-|x|) i1(x)`.
    #[inline]
    fn i1e<I: Isa>(self) -> Self {
        Self::from_f64(special::i1e(self.to_f64()))
    }
    /// The inverse of the normal distribution function.
    #[inline]
    fn ndtri<I: Isa>(self) -> Self {
        Self::from_f64(special::ndtri(self.to_f64()))
    }
    /// The logarithm of the normal distribution function.
    #[inline]
    fn log_ndtr<I: Isa>(self) -> Self {
        Self::from_f64(special::log_ndtr(self.to_f64()))
    }
    /// `sin(pi x) / (pi x)`, 1 at 0.
    #[inline(always)]
    fn sinc<I: Isa>(self) -> Self {
        Self::from_f64(special::sinc::<I>(self.to_f64()))
    }
    /// `log(x / (1 - x))`.
    fn logit<I: Isa>(self) -> Self;
    /// `-x log(x)`, 0 at 0, negative infinity below.
    #[inline]
    fn entr<I: Isa>(self) -> Self {
        Self::from_f64(special::entr(self.to_f64()))
    }
    /// `x log(y)`, 0 where `x` is 0 and `y` is not NaN.
    #[inline]
    fn xlogy<I: Isa>(self, other: Self) -> Self {
        Self::from_f64(special::xlogy(self.to_f64(), other.to_f64()))
    }
    /// `x log1p(y)`, 0 where `x` is 0 and `y` is not NaN.
    #[inline]
    fn xlog1py<I: Isa>(self, other: Self) -> Self {
        Self::from_f64(special::xlog1py(self.to_f64(), other.to_f64()))
    }
    /// The Hurwitz zeta function of `self` and `other`.
    #[inline]
    fn zeta<I: Isa>(self, other: Self) -> Self {
        Self::from_f64(special::zeta(self.to_f64(), other.to_f64()))
    }
    /// Whether [`erfinv_common`](Float::erfinv_common) takes it.
    #[inline(always)]
    fn is_common_erfinv(self) -> bool {
        false
    }
    /// [`erfinv`](Float::erfinv) where [`is_common_erfinv`](Float::is_common_erfinv) holds.
    #[inline(always)]
    fn erfinv_common<I: Isa>(self) -> Self {
        self.erfinv::<I>()
    }
    /// Whether [`lgamma_common`](Float::lgamma_common) and [`trigamma_common`](Float::trigamma_common) take it.
    #[inline(always)]
    fn is_common_gamma(self) -> bool {
        false
    }
    /// [`lgamma`](Float::lgamma) where [`is_common_gamma`](Float::is_common_gamma) holds.
    #[inline]
    fn lgamma_common<I: Isa>(self) -> Self {
        self.lgamma::<I>()
    }
    /// The derivative of [`digamma`](Float::digamma) where [`is_common_gamma`](Float::is_common_gamma) holds.
    #[inline]
    fn trigamma_common<I: Isa>(self) -> Self {
        self.polygamma::<I>(1)
    }
    /// Whether [`zeta_common`](Float::zeta_common) takes these.
    #[inline(always)]
    fn is_common_zeta(self, _q: Self) -> bool {
        false
    }
    /// [`zeta`](Float::zeta) where [`is_common_zeta`](Float::is_common_zeta) holds.
    #[inline]
    fn zeta_common<I: Isa>(self, q: Self) -> Self {
        self.zeta::<I>(q)
    }
    /// Whether [`digamma_common`](Float::digamma_common) takes it.
    #[inline(always)]
    fn is_common_digamma(self) -> bool {
        false
    }
    /// [`digamma`](Float::digamma) where [`is_common_digamma`](Float::is_common_digamma) holds.
    #[inline]
    fn digamma_common<I: Isa>(self) -> Self {
        self.digamma::<I>()
    }
    /// Whether the common forms of the Bessel functions take it.
    #[inline(always)]
    fn is_common_bessel(self) -> bool {
        false
    }
    /// The Bessel function of the first kind of order 0 where [`is_common_bessel`](Float::is_common_bessel) holds.
    #[inline]
    fn bessel_j0_common<I: Isa>(self) -> Self {
        Self::from_f64(special::bessel::j0(self.to_f64()))
    }
    /// The Bessel function of the first kind of order 1 where [`is_common_bessel`](Float::is_common_bessel) holds.
    #[inline]
    fn bessel_j1_common<I: Isa>(self) -> Self {
        Self::from_f64(special::bessel::j1(self.to_f64()))
    }
    /// The Bessel function of the second kind of order 0 where [`is_common_bessel`](Float::is_common_bessel) holds.
    #[inline]
    fn bessel_y0_common<I: Isa>(self) -> Self {
        Self::from_f64(special::bessel::y0(self.to_f64()))
    }
    /// The Bessel function of the second kind of order 1 where [`is_common_bessel`](Float::is_common_bessel) holds.
    #[inline]
    fn bessel_y1_common<I: Isa>(self) -> Self {
        Self::from_f64(special::bessel::y1(self.to_f64()))
    }
    /// Whether [`bessel_k_common`](Float::bessel_k_common) takes it.
    #[inline(always)]
    fn is_common_modified(self) -> bool {
        false
    }
    /// The modified Bessel function of the second kind, order 0 or 1, times `exp(self)` if `scaled`; for common arguments.
    #[inline]
    fn bessel_k_common<I: Isa>(self, order_1: bool, scaled: bool) -> Self {
        let x = self.to_f64();
        Self::from_f64(match (order_1, scaled) {
            (false, false) => special::bessel::k0(x),
            (true, false) => special::bessel::k1(x),
            (false, true) => special::bessel::scaled_k0(x),
            (true, true) => special::bessel::scaled_k1(x),
        })
    }
    /// Whether [`igamma_common`](Float::igamma_common) and [`igammac_common`](Float::igammac_common) take this shape and `x`.
    #[inline(always)]
    fn is_common_incomplete(self, _x: Self) -> bool {
        false
    }
    /// [`igamma`](Float::igamma) where [`is_common_incomplete`](Float::is_common_incomplete) holds.
    #[inline]
    fn igamma_common<I: Isa>(self, x: Self) -> Self {
        self.igamma(x)
    }
    /// [`igammac`](Float::igammac) where [`is_common_incomplete`](Float::is_common_incomplete) holds.
    #[inline]
    fn igammac_common<I: Isa>(self, x: Self) -> Self {
        self.igammac(x)
    }
    /// How a gamma number `x` of this shape moves with it where [`is_common_incomplete`](Float::is_common_incomplete) holds.
    #[inline]
    fn gamma_slope_common<I: Isa>(self, x: Self) -> Self {
        Self::from_f64(special::gamma::gamma_slope(self.to_f64(), x.to_f64()))
    }
    /// The regularised lower incomplete gamma function of this shape.
    #[inline]
    fn igamma(self, x: Self) -> Self {
        Self::from_f64(special::gamma::igamma(self.to_f64(), x.to_f64()))
    }
    /// The regularised upper incomplete gamma function of this shape.
    #[inline]
    fn igammac(self, x: Self) -> Self {
        Self::from_f64(special::gamma::igammac(self.to_f64(), x.to_f64()))
    }
    /// The `order`-th derivative of [`digamma`](Float::digamma).
    #[inline]
    fn polygamma<I: Isa>(self, order: i64) -> Self {
        if order == 1 && self < Self::ZERO && self.round::<I>() == self {
            // As PyTorch, which takes pi's product with the integer, so not the pole, but what is next to it.
            let quotient = Self::from_f64(PI) / (Self::from_f64(PI) * self).sin::<I>();
            return quotient * quotient - Self::from_f64(special::zeta(2.0, 1.0 - self.to_f64()));
        }
        Self::from_f64(special::polygamma(order, self.to_f64()))
    }
}

macro_rules! float {
    ($t:ident, $module:ident, $bits:ident, $signed:ident, $integral:literal, $fmod_common:ident, $hypot:ident, { $($more:tt)* } [$($unary:ident)*], [$($binary:ident)*]) => {
        impl Float for $t {
            $($more)*
            const HALF: Self = 0.5;
            const TWO: Self = 2.0;
            const NAN: Self = <$t>::NAN;
            const INFINITY: Self = <$t>::INFINITY;
            const NEG_INFINITY: Self = <$t>::NEG_INFINITY;
            const EPSILON: Self = <$t>::EPSILON;
            const MAX: Self = <$t>::MAX;
            const MIN: Self = <$t>::MIN;
            const MIN_POSITIVE: Self = <$t>::MIN_POSITIVE;
            const PI: Self = std::$t::consts::PI;
            const LN_2: Self = std::$t::consts::LN_2;
            const LN_10: Self = std::$t::consts::LN_10;
            const SQRT_2: Self = std::$t::consts::SQRT_2;
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline(always)]
            fn is_inf(self) -> bool {
                self.abs() == <$t>::INFINITY
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.abs() < <$t>::INFINITY
            }
            #[inline(always)]
            fn signbit(self) -> bool {
                self.is_sign_negative()
            }
            #[inline(always)]
            fn is_common_angle(self) -> bool {
                self.abs() <= trig::COMMON as $t
            }
            #[inline(always)]
            fn is_common_quotient(self, other: Self) -> bool {
                // Below this the truncated quotient is exact or one too large; false for NaN.
                (self / other).abs() < $integral / 4.0
            }
            fn ldexp(self, exponent: i32) -> Self {
                // Three exact steps at most, and one that may round: never two.
                const BIAS: i32 = <$t>::MAX_EXP - 1;
                const LOW: i32 = 1 - BIAS + <$t>::MANTISSA_DIGITS as i32;
                let power = |e: i32| <$t>::from_bits(((e + BIAS) as $bits) << (<$t>::MANTISSA_DIGITS - 1));
                let (mut x, mut e) = (self, exponent);
                for _ in 0..2 {
                    let step = if e > BIAS { BIAS } else if e < 1 - BIAS { LOW } else { 0 };
                    x *= power(step);
                    e -= step;
                }
                x * power(e.clamp(1 - BIAS, BIAS))
            }
            fn frexp(self) -> (Self, i32) {
                if self == 0.0 || !Float::is_finite(self) {
                    return (self, 0);
                }
                const DIGITS: u32 = <$t>::MANTISSA_DIGITS;
                let subnormal = self.abs() < <$t>::MIN_POSITIVE;
                let bits = (if subnormal { self * $integral } else { self }).to_bits();
                let field = ((bits << 1) >> DIGITS) as i32;
                let exponent = field - (<$t>::MAX_EXP - 2) - if subnormal { DIGITS as i32 - 1 } else { 0 };
                let mantissa_mask = !((<$bits>::MAX >> DIGITS) << (DIGITS - 1));
                let half = (0.5 as $t).to_bits();
                (<$t>::from_bits((bits & mantissa_mask) | half), exponent)
            }
            #[inline(always)]
            fn sqrt<I: Isa>(self) -> Self {
                <$t>::sqrt(self)
            }
            #[inline(always)]
            fn rsqrt<I: Isa>(self) -> Self {
                1.0 / <$t>::sqrt(self)
            }
            #[inline(always)]
            fn reciprocal<I: Isa>(self) -> Self {
                1.0 / self
            }
            #[inline(always)]
            fn abs<I: Isa>(self) -> Self {
                <$t>::abs(self)
            }
            #[inline(always)]
            fn floor<I: Isa>(self) -> Self {
                if I::ROUND {
                    return <$t>::floor(self);
                }
                let r = Float::round::<I>(self);
                // The sign is the argument's also where the result is zero.
                (if r > self { r - 1.0 } else { r }).copysign(self)
            }
            #[inline(always)]
            fn ceil<I: Isa>(self) -> Self {
                if I::ROUND {
                    return <$t>::ceil(self);
                }
                let r = Float::round::<I>(self);
                (if r < self { r + 1.0 } else { r }).copysign(self)
            }
            #[inline(always)]
            fn trunc<I: Isa>(self) -> Self {
                if I::ROUND {
                    return <$t>::trunc(self);
                }
                let x = self.abs();
                let r = Float::round::<I>(x);
                (if r > x { r - 1.0 } else { r }).copysign(self)
            }
            #[inline(always)]
            fn round<I: Isa>(self) -> Self {
                if I::ROUND {
                    return <$t>::round_ties_even(self);
                }
                // Adding 2^(digits - 1) leaves no bits for a fraction.
                let x = self.abs();
                let r = (x + $integral) - $integral;
                (if x < $integral { r } else { x }).copysign(self)
            }
            #[inline(always)]
            fn frac<I: Isa>(self) -> Self {
                self - Float::trunc::<I>(self)
            }
            #[inline(always)]
            fn sign<I: Isa>(self) -> Self {
                let positive: $t = if self > 0.0 { 1.0 } else { 0.0 };
                if self < 0.0 { -1.0 } else { positive }
            }
            #[inline(always)]
            fn copysign<I: Isa>(self, other: Self) -> Self {
                <$t>::copysign(self, other)
            }
            #[inline(always)]
            fn minimum<I: Isa>(self, other: Self) -> Self {
                if (other < self) | Float::is_nan(other) { other } else { self }
            }
            #[inline(always)]
            fn maximum<I: Isa>(self, other: Self) -> Self {
                if (other > self) | Float::is_nan(other) { other } else { self }
            }
            #[inline(always)]
            fn between<I: Isa>(self, low: Self, high: Self) -> Self {
                // Written as instructions have it, which choose the second operand where there is a NaN.
                let raised = if low > self { low } else { self };
                let lowered = if high < raised { high } else { raised };
                if Float::is_nan(low) | Float::is_nan(high) { low + high } else { lowered }
            }
            #[inline(always)]
            fn fmin<I: Isa>(self, other: Self) -> Self {
                if (other < self) | Float::is_nan(self) { other } else { self }
            }
            #[inline(always)]
            fn fmax<I: Isa>(self, other: Self) -> Self {
                if (other > self) | Float::is_nan(self) { other } else { self }
            }
            #[inline(always)]
            fn fmod<I: Isa>(self, other: Self) -> Self {
                self % other
            }
            #[inline(always)]
            fn fmod_common<I: Isa>(self, other: Self) -> Self {
                $fmod_common::<I>(self, other)
            }
            #[inline(always)]
            fn remainder<I: Isa>(self, other: Self) -> Self {
                remainder(self % other, other)
            }
            #[inline(always)]
            fn remainder_common<I: Isa>(self, other: Self) -> Self {
                remainder(Float::fmod_common::<I>(self, other), other)
            }
            #[inline(always)]
            fn floor_divide<I: Isa>(self, other: Self) -> Self {
                floor_divide::<I, $t>(self, other, self % other)
            }
            #[inline(always)]
            fn floor_divide_common<I: Isa>(self, other: Self) -> Self {
                floor_divide::<I, $t>(self, other, Float::fmod_common::<I>(self, other))
            }
            #[inline(always)]
            fn hypot<I: Isa>(self, other: Self) -> Self {
                let h = $hypot::<I>(self, other);
                // Infinite even where the other is NaN.
                if Float::is_inf(self) | Float::is_inf(other) { <$t>::INFINITY } else { h }
            }
            #[inline(always)]
            fn nextafter<I: Isa>(self, other: Self) -> Self {
                let bits = self.to_bits() as $signed;
                // Away from zero is up in the bits.
                let step: $signed = if (other > self) == (self > 0.0) { 1 } else { -1 };
                let next = <$t>::from_bits(bits.wrapping_add(step) as $bits);
                let next = if self == 0.0 { <$t>::from_bits(1).copysign(other) } else { next };
                let next = if self == other { other } else { next };
                if Float::is_nan(self) | Float::is_nan(other) { self + other } else { next }
            }
            $(
                #[inline(always)]
                fn $unary<I: Isa>(self) -> Self {
                    super::$module::$unary::<I>(self)
                }
            )*
            $(
                #[inline(always)]
                fn $binary<I: Isa>(self, other: Self) -> Self {
                    super::$module::$binary::<I>(self, other)
                }
            )*
        }
    };
}

/// The remainder with the sign of `b`, given the one with the sign of the dividend.
#[inline(always)]
fn remainder<T: Float>(fmod: T, b: T) -> T {
    if (fmod != T::ZERO) & ((b < T::ZERO) != (fmod < T::ZERO)) { fmod + b } else { fmod }
}

/// Python's floored quotient, given the exact remainder: the quotient of what is divisible, which rounding can only
/// bring close to an integer, and then that integer.
#[inline(always)]
fn floor_divide<I: Isa, T: Float>(a: T, b: T, fmod: T) -> T {
    let quotient = (a - fmod) / b;
    let adjust = (fmod != T::ZERO) & ((b < T::ZERO) != (fmod < T::ZERO));
    let quotient = if adjust { quotient - T::ONE } else { quotient };
    let floor = quotient.floor::<I>();
    let floor = if quotient - floor > T::HALF { floor + T::ONE } else { floor };
    let floor = if quotient == T::ZERO { T::ZERO.copysign::<I>(a / b) } else { floor };
    if b == T::ZERO { a / b } else { floor }
}

#[inline(always)]
fn fmod_common_f32<I: Isa>(a: f32, b: f32) -> f32 {
    // In f64 the quotient's integer part is exact, and so are the product and the difference.
    let (x, y) = (a.abs() as f64, b.abs() as f64);
    let quotient = Float::trunc::<I>(x / y);
    // An infinite divisor times a zero quotient is NaN.
    let rest = if quotient == 0.0 { x } else { x - quotient * y };
    (rest as f32).copysign(a)
}

#[inline(always)]
fn fmod_common_f64<I: Isa>(a: f64, b: f64) -> f64 {
    if !I::FMA {
        return a % b;
    }
    let (x, y) = (a.abs(), b.abs());
    let quotient = Float::trunc::<I>(x / y);
    // Exact, because fused; negative where the quotient was rounded up to an integer.
    let rest = if quotient == 0.0 { x } else { f64::mul_add(-quotient, y, x) };
    (if rest < 0.0 { rest + y } else { rest }).copysign(a)
}

#[inline(always)]
fn hypot_f32<I: Isa>(x: f32, y: f32) -> f32 {
    let (x, y) = (x as f64, y as f64);
    Number::mul_add::<I>(x, x, y * y).sqrt() as f32
}

#[inline(always)]
fn hypot_f64<I: Isa>(x: f64, y: f64) -> f64 {
    // Powers of two that keep the squares in range.
    const BIG: f64 = f64::from_bits((1023 + 600) << 52);
    const SMALL: f64 = f64::from_bits((1023 - 600) << 52);
    let large = Float::maximum::<I>(x.abs(), y.abs());
    let (up, down) = (large < f64::from_bits((1023 - 450) << 52), large > f64::from_bits((1023 + 500) << 52));
    let scale = if up {
        BIG
    } else if down {
        SMALL
    } else {
        1.0
    };
    let back = if up {
        SMALL
    } else if down {
        BIG
    } else {
        1.0
    };
    let (x, y) = (x * scale, y * scale);
    Number::mul_add::<I>(x, x, y * y).sqrt() * back
}

/// Methods of `f32` that are functions of its own: named so in `special::single`, or in full.
macro_rules! of_single {
    ($($name:ident)*; $($full:ident($($x:ident: $t:ty),*) -> $out:ty = $($function:ident)::+;)*) => {
        $(
            #[inline(always)]
            fn $name<I: Isa>(self) -> f32 {
                special::single::$name::<I>(self)
            }
        )*
        $(
            #[inline(always)]
            fn $full<I: Isa>(self, $($x: $t),*) -> $out {
                $($function)::+::<I>(self, $($x),*)
            }
        )*
    };
}

/// Whether those of `f32` take a number, or two.
macro_rules! single_is {
    ($($name:ident($($x:ident)?) = $($function:ident)::+;)*) => {
        $(
            #[inline(always)]
            fn $name(self $(, $x: f32)?) -> bool {
                $($function)::+(self $(, $x)?)
            }
        )*
    };
}

float! {
    f32, single, u32, i32, 8388608.0, fmod_common_f32, hypot_f32,
    {
        of_single! {
            erfcx erfinv_common erfinv ndtri i0 i0e i1 i1e log_ndtr entr lgamma_common digamma_common trigamma_common;
            exp_common() -> f32 = super::single::exp_common;
            log_common() -> f32 = super::single::log_common;
            gelu() -> f32 = vectors::gelu;
            normal() -> (f32, f32) = super::single::normal;
            normal_of_half() -> (f32, f32) = super::single::normal_of_half;
            zeta_common(q: f32) -> f32 = special::single::zeta_common;
            igamma_common(x: f32) -> f32 = special::single::igamma_common;
            igammac_common(x: f32) -> f32 = special::single::igammac_common;
            gamma_slope_common(x: f32) -> f32 = special::single::gamma_slope_common;
            bessel_j0_common() -> f32 = special::single::bessel::j0;
            bessel_j1_common() -> f32 = special::single::bessel::j1;
            bessel_y0_common() -> f32 = special::single::bessel::y0;
            bessel_y1_common() -> f32 = special::single::bessel::y1;
            bessel_k_common(order_1: bool, scaled: bool) -> f32 = special::single::bessel::k;
        }
        #[inline(always)]
        fn gelu_vectors<I: Isa, const C: usize>(x: [f32; C]) -> Option<[f32; C]> {
            #[cfg(target_arch = "x86_64")]
            if const { I::LEVEL as u8 == Level::Avx512 as u8 } {
                // SAFETY: who names a set vouches that the machine has it.
                return Some(unsafe { vectors::x86::gelu(x) });
            }
            let _ = x;
            None
        }
        single_is! {
            is_common_exponent() = super::single::is_common_exponent;
            is_common_logarithm() = super::single::is_common_logarithm;
            is_common_gamma() = special::single::is_common_gamma;
            is_common_erfinv() = special::single::is_common_erfinv;
            is_common_digamma() = special::single::is_common_digamma;
            is_common_zeta(q) = special::single::is_common_zeta;
            is_common_incomplete(x) = special::single::is_common_incomplete;
            is_common_bessel() = special::single::bessel::is_common_bessel;
            is_common_modified() = special::single::bessel::is_common_modified;
        }
    }
    [exp exp_not_positive exp2 expm1 log logit log2 log10 log1p sin cos tan sin_common cos_common tan_common asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf erfc ndtr],
    [atan2 pow logaddexp logaddexp2]
}
float! {
    f64, double, u64, i64, 4503599627370496.0, fmod_common_f64, hypot_f64,
    {
        #[inline(always)]
        fn is_common_exponent(self) -> bool {
            super::double::is_common_exponent(self)
        }
        #[inline(always)]
        fn exp_common<I: Isa>(self) -> Self {
            super::double::exp_common::<I>(self)
        }
        #[inline(always)]
        fn exp_vectors<I: Isa, const C: usize>(x: [f64; C]) -> Option<[f64; C]> {
            #[cfg(target_arch = "x86_64")]
            if const { I::LEVEL as u8 == Level::Avx512 as u8 } {
                // SAFETY: who names a set vouches that the machine has it.
                return Some(unsafe { vectors::x86::exp(x) });
            }
            let _ = x;
            None
        }
        #[inline(always)]
        fn is_common_erfinv(self) -> bool {
            special::is_common_erfinv(self)
        }
        #[inline(always)]
        fn erfinv_common<I: Isa>(self) -> Self {
            special::erfinv_common::<I>(self)
        }
    }
    [exp exp2 expm1 log logit log2 log10 log1p sin cos tan sin_common cos_common tan_common asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf erfc ndtr],
    [atan2 pow logaddexp logaddexp2]
}
