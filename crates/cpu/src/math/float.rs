//! The real functions.

use super::{Isa, Number, special};
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
    /// The exponential as [`exp_vectors`](Float::exp_vectors) has it; in loops over numbers that is slower. (`common`, a
    /// constant: whether it is a [common](Float::is_common_exponent) exponent.)
    #[inline(always)]
    fn exp_one<I: Isa>(self, common: bool) -> Self {
        if common { self.exp_common::<I>() } else { self.exp::<I>() }
    }
    /// The exponentials of many numbers, where vectors are chosen by hand. (A multiple of a vector's lanes.)
    #[inline(always)]
    fn exp_vectors<I: Isa, const C: usize>(_x: [Self; C]) -> Option<[Self; C]> {
        None
    }
    /// [`exp_not_positive`](Float::exp_not_positive) of many numbers, where vectors are chosen by hand: as accurate, with
    /// other bits. (A multiple of a vector's lanes.)
    #[inline(always)]
    fn exp_not_positive_vectors<I: Isa, const C: usize>(_x: [Self; C]) -> Option<[Self; C]> {
        None
    }
    /// [`pow`](Float::pow) as [`pow_vectors`](Float::pow_vectors) has it; in loops over numbers that is slower.
    #[inline(always)]
    fn pow_one<I: Isa>(self, other: Self) -> Self {
        self.pow::<I>(other)
    }
    /// The powers of many numbers, where vectors are chosen by hand. (A multiple of a vector's lanes.)
    #[inline(always)]
    fn pow_vectors<I: Isa, const C: usize>(_x: [Self; C], _y: [Self; C]) -> Option<[Self; C]> {
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
    fn log_ndtr<I: Isa>(self) -> Self;
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
    /// Whether [`ndtri_common`](Float::ndtri_common) takes it.
    #[inline(always)]
    fn is_common_ndtri(self) -> bool {
        false
    }
    /// [`ndtri`](Float::ndtri) where [`is_common_ndtri`](Float::is_common_ndtri) holds.
    #[inline(always)]
    fn ndtri_common<I: Isa>(self) -> Self {
        self.ndtri::<I>()
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
