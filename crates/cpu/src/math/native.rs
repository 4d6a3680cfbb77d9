//! `f32` and `f64` as [`Float`]: what is a line of code here, and what is of the type's own by name.

use super::{Baseline, Float, Isa, Level, Number, special, trig, vectors};

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
            functions! { $t, super::$module: $($unary)*; $($binary(other: $t) -> $t = super::$module::$binary;)* }
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

/// Methods that are functions of the type's own: named so in the module given, or in full. Where code should be
/// [small](Isa::COMPACT), all who call one share it.
macro_rules! functions {
    ($t:ty, $module:path: $($name:ident)*; $($full:ident($($x:ident: $x_t:ty),*) -> $out:ty = $($function:ident)::+;)*) => {
        $(
            #[inline(always)]
            fn $name<I: Isa>(self) -> Self {
                use $module as module;
                #[inline(never)]
                fn shared(x: $t) -> $t {
                    module::$name::<Baseline>(x)
                }
                if const { I::COMPACT } { shared(self) } else { module::$name::<I>(self) }
            }
        )*
        $(
            #[inline(always)]
            fn $full<I: Isa>(self, $($x: $x_t),*) -> $out {
                #[inline(never)]
                fn shared(x: $t, $($x: $x_t),*) -> $out {
                    $($function)::+::<Baseline>(x, $($x),*)
                }
                if const { I::COMPACT } { shared(self, $($x),*) } else { $($function)::+::<I>(self, $($x),*) }
            }
        )*
    };
}

/// Forms for many numbers, where vectors are chosen by hand.
macro_rules! vectors {
    ($t:ty; $($name:ident($($x:ident),*) = $form:ident;)*) => {
        $(
            #[inline(always)]
            fn $name<I: Isa, const C: usize>($($x: [$t; C]),*) -> Option<[$t; C]> {
                #[cfg(target_arch = "x86_64")]
                if const { I::LEVEL as u8 == Level::Avx512 as u8 } {
                    // SAFETY: who names a set vouches that the machine has it.
                    return Some(unsafe { vectors::x86::$form($($x),*) });
                }
                $(let _ = $x;)*
                None
            }
        )*
    };
}

/// Whether those take a number, or two.
macro_rules! takes {
    ($($name:ident($($x:ident)?) = $($function:ident)::+;)*) => {
        $(
            #[inline(always)]
            fn $name(self $(, $x: Self)?) -> bool {
                $($function)::+(self $(, $x)?)
            }
        )*
    };
}

float! {
    f32, single, u32, i32, 8388608.0, fmod_common_f32, hypot_f32,
    {
        functions! {
            f32, special::single: erfcx erfinv_common erfinv ndtri i0 i0e i1 i1e log_ndtr entr lgamma_common digamma_common trigamma_common;
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
        fn exp_one<I: Isa>(self, common: bool) -> f32 {
            vectors::exp::<I>(self, common)
        }
        #[inline(always)]
        fn pow_one<I: Isa>(self, other: f32) -> f32 {
            vectors::pow::<I>(self, other)
        }
        vectors! {
            f32; exp_vectors(x) = exp_of_f32; exp_not_positive_vectors(x) = exp_not_positive; pow_vectors(x, y) = pow;
            gelu_vectors(x) = gelu;
        }
        takes! {
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
        functions! {
            f64, special: erfinv_common ndtri_common log_ndtr;
            exp_common() -> f64 = super::double::exp_common;
            bessel_j0_common() -> f64 = special::bessel::j0_near;
            bessel_j1_common() -> f64 = special::bessel::j1_near;
            bessel_y0_common() -> f64 = special::bessel::y0_near;
            bessel_y1_common() -> f64 = special::bessel::y1_near;
        }
        takes! {
            is_common_exponent() = super::double::is_common_exponent;
            is_common_erfinv() = special::is_common_erfinv;
            is_common_ndtri() = special::is_common_ndtri;
            is_common_bessel() = special::bessel::is_near;
        }
        vectors! { f64; exp_vectors(x) = exp; }
    }
    [exp exp2 expm1 log logit log2 log10 log1p sin cos tan sin_common cos_common tan_common asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf erfc ndtr],
    [atan2 pow logaddexp logaddexp2]
}
