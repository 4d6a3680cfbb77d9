//! Arithmetic of every element kind.

use super::{Float, Isa, select};
use flambeau_base::{Bool, Element};
use num_complex::Complex;

/// A type with PyTorch's arithmetic: integers wrap, `bool` is logical, halves are not numbers (they compute as `f32`).
///
/// The methods are named as the operators' but never panic: integer division by zero gives 0.
pub trait Number: Element {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The sum (`bool`: or).
    fn add(self, other: Self) -> Self;
    /// The difference (`bool`: exclusive or).
    fn sub(self, other: Self) -> Self;
    /// The product (`bool`: and).
    fn mul(self, other: Self) -> Self;
    /// The quotient: true division for floats and complex, truncated for integers (by zero: 0; `bool`: and).
    fn div(self, other: Self) -> Self;
    /// The negative (`bool`: itself).
    fn neg(self) -> Self;
    /// `self * a + b`; floats fuse it exactly where the hardware does.
    #[inline(always)]
    fn mul_add<I: Isa>(self, a: Self, b: Self) -> Self {
        self.mul(a).add(b)
    }
    /// The conjugate; real numbers give themselves.
    #[inline(always)]
    fn conj(self) -> Self {
        self
    }
    /// The square.
    #[inline(always)]
    fn square(self) -> Self {
        self.mul(self)
    }
}

/// An integer with PyTorch's semantics where Rust's or C's leave holes. Nothing panics.
pub trait Integer: Number + Ord {
    /// Bits in the type.
    const BITS: u32;
    /// Whether it has a sign.
    const SIGNED: bool;
    /// The smallest value.
    const MIN: Self;
    /// The largest value.
    const MAX: Self;
    /// Bitwise and.
    fn bit_and(self, other: Self) -> Self;
    /// Bitwise or.
    fn bit_or(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn bit_xor(self, other: Self) -> Self;
    /// Bitwise complement.
    fn bit_not(self) -> Self;
    /// `self << count`; a count outside `0..BITS` gives 0.
    fn shift_left(self, count: Self) -> Self;
    /// `self >> count`, copying the sign; a count outside `0..BITS` gives 0, or -1 if `self` is negative.
    fn shift_right(self, count: Self) -> Self;
    /// The absolute value (the smallest value wraps to itself).
    fn abs(self) -> Self;
    /// -1, 0 or 1.
    fn sign(self) -> Self;
    /// The quotient rounded towards zero; by zero: 0.
    fn div_trunc(self, other: Self) -> Self;
    /// The quotient rounded towards negative infinity; by zero: 0.
    fn floor_divide(self, other: Self) -> Self;
    /// The remainder with the divisor's sign; by zero: 0.
    fn remainder(self, other: Self) -> Self;
    /// The remainder with the dividend's sign; by zero: 0.
    fn fmod(self, other: Self) -> Self;
    /// Whether the number is exact as a double, and so are whole quotients of such numbers. Never so for the types that
    /// programs seldom divide, which would get second loops for nothing.
    fn is_small(self) -> bool;
    /// A small number as a double.
    fn small_to_double(self) -> f64;
    /// A whole double of a small number's magnitude, wrapping.
    fn small_from_double(x: f64) -> Self;
    /// Whether the quotient is one of small numbers, not by zero. No instruction set divides vectors of integers.
    #[inline(always)]
    fn is_small_quotient(self, other: Self) -> bool {
        self.is_small() & other.is_small() & (other != Self::ZERO)
    }
    /// [`div_trunc`](Integer::div_trunc) of a small quotient.
    #[inline(always)]
    fn div_trunc_small<I: Isa>(self, other: Self) -> Self {
        Self::small_from_double(Float::trunc::<I>(self.small_to_double() / other.small_to_double()))
    }
    /// [`floor_divide`](Integer::floor_divide) of a small quotient.
    #[inline(always)]
    fn floor_divide_small<I: Isa>(self, other: Self) -> Self {
        Self::small_from_double(Float::floor::<I>(self.small_to_double() / other.small_to_double()))
    }
    /// [`remainder`](Integer::remainder) of a small quotient.
    #[inline(always)]
    fn remainder_small<I: Isa>(self, other: Self) -> Self {
        let (x, y) = (self.small_to_double(), other.small_to_double());
        Self::small_from_double(x - Float::floor::<I>(x / y) * y)
    }
    /// [`fmod`](Integer::fmod) of a small quotient.
    #[inline(always)]
    fn fmod_small<I: Isa>(self, other: Self) -> Self {
        let (x, y) = (self.small_to_double(), other.small_to_double());
        Self::small_from_double(x - Float::trunc::<I>(x / y) * y)
    }
    /// The greatest common divisor, not negative unless it wraps.
    fn gcd(self, other: Self) -> Self;
    /// The least common multiple, wrapping.
    fn lcm(self, other: Self) -> Self;
    /// `self` to the power, wrapping. A negative exponent gives 0, except for bases 1 and -1.
    fn pow(self, exponent: Self) -> Self;
    /// The smaller.
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        if other < self { other } else { self }
    }
    /// The larger.
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
}

/// Small numbers are those of magnitudes up to this: a quotient of two, rounded to a double, is whole only if the exact
/// one is, for two doubles that differ by a fraction of a divisor this small cannot be so close.
const SMALL: i64 = 1 << 51;

/// A double whose last bit is worth one: in those around it the low bits are a whole number's, in two's complement. It
/// converts small numbers in vectors on machines that have no instructions for that.
const UNIT: f64 = 1.5 * (1u64 << 52) as f64;

macro_rules! integer {
    ($($t:ty, $unsigned:ty;)*) => { $(
        impl Number for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self.div_trunc(other)
            }
            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
        }
        #[allow(unused_comparisons)]
        impl Integer for $t {
            const BITS: u32 = <$t>::BITS;
            const SIGNED: bool = <$t>::MIN < 0;
            const MIN: Self = <$t>::MIN;
            const MAX: Self = <$t>::MAX;
            #[inline(always)]
            fn bit_and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn bit_or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn bit_xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn bit_not(self) -> Self {
                !self
            }
            #[inline(always)]
            fn shift_left(self, count: Self) -> Self {
                let shifted = self.wrapping_shl(count as u32);
                if (count as $unsigned) < Self::BITS as $unsigned { shifted } else { 0 }
            }
            #[inline(always)]
            fn shift_right(self, count: Self) -> Self {
                let last = (Self::BITS - 1) as $unsigned;
                let shifted = self.wrapping_shr((count as $unsigned).min(last) as u32);
                // An unsigned value's last bit must go too.
                if !Self::SIGNED && (count as $unsigned) > last { 0 } else { shifted }
            }
            #[inline(always)]
            fn abs(self) -> Self {
                if self < 0 { self.wrapping_neg() } else { self }
            }
            #[inline(always)]
            fn sign(self) -> Self {
                ((self > 0) as Self).wrapping_sub((self < 0) as Self)
            }
            #[inline(always)]
            fn div_trunc(self, other: Self) -> Self {
                if Self::BITS < 32 {
                    // As C divides them, by vectors of `f32`: rounded, a quotient of so few bits is whole only if the exact one
                    // is. (No branch: what is divided by zero is divided by one.)
                    let quotient = self as f32 / select(other == 0, 1, other) as f32;
                    // SAFETY: no quotient has more than 16 bits.
                    let whole = unsafe { quotient.to_int_unchecked::<i32>() };
                    return select(other == 0, 0, whole as Self);
                }
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn floor_divide(self, other: Self) -> Self {
                let quotient = self.div_trunc(other);
                let rest = self.wrapping_sub(quotient.wrapping_mul(other));
                let below = (other != 0) & (rest != 0) & ((rest < 0) != (other < 0));
                quotient.wrapping_sub(below as Self)
            }
            #[inline(always)]
            fn remainder(self, other: Self) -> Self {
                let rest = self.fmod(other);
                select((rest != 0) & ((rest < 0) != (other < 0)), rest.wrapping_add(other), rest)
            }
            #[inline(always)]
            fn fmod(self, other: Self) -> Self {
                if Self::BITS < 32 {
                    let rest = self.wrapping_sub(self.div_trunc(other).wrapping_mul(other));
                    return select(other == 0, 0, rest);
                }
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn is_small(self) -> bool {
                let common = Self::SIGNED && Self::BITS >= 32;
                common && (Self::BITS == 32 || ((self as i64).wrapping_add(SMALL) as u64) < 2 * SMALL as u64)
            }
            #[inline(always)]
            fn small_to_double(self) -> f64 {
                f64::from_bits(UNIT.to_bits().wrapping_add(self as u64)) - UNIT
            }
            #[inline(always)]
            fn small_from_double(x: f64) -> Self {
                (x + UNIT).to_bits().wrapping_sub(UNIT.to_bits()) as Self
            }
            #[inline]
            fn gcd(self, other: Self) -> Self {
                if self == Self::MIN || other == Self::MIN {
                    // The smallest number has no magnitude in its type: Euclid's algorithm on what C's `abs` gives.
                    let (mut a, mut b) = (Integer::abs(self), Integer::abs(other));
                    while a != 0 {
                        (a, b) = (b.wrapping_rem(a), a);
                    }
                    return b;
                }
                // Stein's algorithm on the magnitudes.
                let mut a = Integer::abs(self) as $unsigned;
                let mut b = Integer::abs(other) as $unsigned;
                if a == 0 || b == 0 {
                    return (a | b) as Self;
                }
                let shift = (a | b).trailing_zeros();
                a >>= a.trailing_zeros();
                while b != 0 {
                    b >>= b.trailing_zeros();
                    (a, b) = (a.min(b), a.abs_diff(b));
                }
                (a << shift) as Self
            }
            #[inline]
            fn lcm(self, other: Self) -> Self {
                let multiple = self.div_trunc(self.gcd(other));
                if Self::BITS < 32 {
                    // C widens these to `int`, so the sign is taken before the result wraps.
                    Integer::abs(multiple).wrapping_mul(Integer::abs(other))
                } else {
                    Integer::abs(multiple.wrapping_mul(other))
                }
            }
            #[inline]
            fn pow(self, exponent: Self) -> Self {
                if exponent < 0 {
                    return match self {
                        1 => 1,
                        // -1: only a signed type gets here.
                        x if x == !0 => if exponent & 1 == 0 { 1 } else { self },
                        _ => 0,
                    };
                }
                let (mut base, mut exponent, mut result) = (self, exponent, 1 as Self);
                while exponent != 0 {
                    if exponent & 1 != 0 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    exponent >>= 1;
                }
                result
            }
        }
    )* };
}
integer! { u8, u8; u16, u16; u32, u32; u64, u64; i8, u8; i16, u16; i32, u32; i64, u64; }

impl Number for Bool {
    const ZERO: Self = Bool(0);
    const ONE: Self = Bool(1);
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        (self.get() | other.get()).into()
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        (self.get() ^ other.get()).into()
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        (self.get() & other.get()).into()
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        (self.get() & other.get()).into()
    }
    #[inline(always)]
    fn neg(self) -> Self {
        self.get().into()
    }
}

macro_rules! float {
    ($($t:ty),*) => { $(
        impl Number for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self / other
            }
            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
            #[inline(always)]
            fn mul_add<I: Isa>(self, a: Self, b: Self) -> Self {
                if I::FMA { <$t>::mul_add(self, a, b) } else { self * a + b }
            }
        }
        impl Number for Complex<$t> {
            const ZERO: Self = Complex::new(0.0, 0.0);
            const ONE: Self = Complex::new(1.0, 0.0);
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Complex::new(self.re + other.re, self.im + other.im)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Complex::new(self.re - other.re, self.im - other.im)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Complex::new(
                    self.re * other.re - self.im * other.im,
                    self.re * other.im + self.im * other.re,
                )
            }
            // Smith's method (CACM 5(8), 1962): divides by the divisor's larger part, so that nothing overflows early.
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                let (c, d) = (other.re, other.im);
                let swap = c.abs() < d.abs();
                let (large, small) = if swap { (d, c) } else { (c, d) };
                let (a, b) = if swap { (self.im, -self.re) } else { (self.re, self.im) };
                let ratio = small / large;
                let divisor = large + small * ratio;
                // With `s` the smaller part's sign: (a + bi)/(c + di), or (b - ai)/(d - ci) where they are swapped.
                let sign = if swap { -ratio } else { ratio };
                let quotient = Complex::new((a + b * sign) / divisor, (b - a * sign) / divisor);
                let zero = (c == 0.0) & (d == 0.0);
                Complex::new(
                    if zero { self.re / c.abs() } else { quotient.re },
                    if zero { self.im / c.abs() } else { quotient.im },
                )
            }
            #[inline(always)]
            fn neg(self) -> Self {
                Complex::new(-self.re, -self.im)
            }
            #[inline(always)]
            fn mul_add<I: Isa>(self, a: Self, b: Self) -> Self {
                let (x, y) = (self, a);
                let re = Number::mul_add::<I>(x.re, y.re, Number::mul_add::<I>(-x.im, y.im, b.re));
                let im = Number::mul_add::<I>(x.re, y.im, Number::mul_add::<I>(x.im, y.re, b.im));
                Complex::new(re, im)
            }
            #[inline(always)]
            fn conj(self) -> Self {
                Complex::new(self.re, -self.im)
            }
        }
    )* };
}
float! { f32, f64 }

#[cfg(test)]
mod tests {
    use super::super::Baseline;
    use super::*;

    #[test]
    fn division_signs() {
        for (a, b, floor, rest) in [(7i32, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (5, 0, 0, 0)] {
            assert_eq!((a.floor_divide(b), a.remainder(b)), (floor, rest), "{a} {b}");
        }
        assert_eq!((-7i8).fmod(2), -1);
        assert_eq!(i64::MIN.floor_divide(-1), i64::MIN);
        assert_eq!(i64::MIN.remainder(-1), 0);
        assert_eq!(Number::div(9u16, 0), 0);
    }

    /// Quotients of few bits are made by floats.
    #[test]
    fn narrow_quotients() {
        fn check<T: Integer + TryFrom<i32>>(numbers: impl Iterator<Item = i32> + Clone, wrapped: impl Fn(i32) -> T) {
            for (x, y) in numbers.clone().flat_map(|x| numbers.clone().map(move |y| (x, y))) {
                let (a, b) = (wrapped(x), wrapped(y));
                let got = [a.div_trunc(b), a.floor_divide(b), a.remainder(b), a.fmod(b)];
                let want = match y {
                    0 => [0; 4],
                    _ => {
                        let rest = (x % y + y) % y;
                        [x / y, (x - rest) / y, rest, x % y]
                    }
                };
                assert!(got == want.map(&wrapped), "{x} {y}: {got:?} {want:?}");
            }
        }
        check(-128..128, |x| x as i8);
        check(0..256, |x| x as u8);
        let near = |of: i32| (1..24).chain(of / 3 - 9..of / 3 + 9).chain(of - 9..of);
        check(near(1 << 16), |x| x as u16);
        let negative = near(1 << 15).map(|x| -x - 1);
        check(near(1 << 15).chain(negative), |x| x as i16);
    }

    /// The small forms against the plain ones, where quotients are whole or next to it and at the ends of the range.
    fn small_quotients_of<T: Integer>(numbers: &[T]) {
        let mut small = 0;
        for &x in numbers {
            for &y in numbers.iter().filter(|&&y| x.is_small_quotient(y)) {
                let fast = [
                    x.div_trunc_small::<Baseline>(y),
                    x.floor_divide_small::<Baseline>(y),
                    x.remainder_small::<Baseline>(y),
                    x.fmod_small::<Baseline>(y),
                ];
                let plain = [x.div_trunc(y), x.floor_divide(y), x.remainder(y), x.fmod(y)];
                assert!(fast == plain, "{x:?} {y:?}: {fast:?} {plain:?}");
                small += 1;
            }
        }
        assert!(small > numbers.len());
    }

    #[test]
    fn small_quotients() {
        let mut wide = vec![0, SMALL - 1, SMALL, -SMALL, -SMALL - 1, i64::MAX, i64::MIN];
        for divisor in [1i64, 2, 3, 7, 10, 641, 65_537, (1 << 31) - 1, (1 << 50) - 27] {
            for multiple in [1, 2, 3, 1 << 20, (SMALL - 2) / divisor] {
                let near = divisor.wrapping_mul(multiple);
                wide.extend([near - 1, near, near + 1, -near - 1, -near, -near + 1]);
            }
        }
        small_quotients_of(&wide);
        let narrow: Vec<i32> = wide.iter().map(|&x| x as i32).chain([i32::MIN, i32::MAX]).collect();
        small_quotients_of(&narrow);
        assert!(!5u8.is_small_quotient(2) && !5i64.is_small_quotient(0) && !5i64.is_small_quotient(SMALL));
    }

    #[test]
    fn shifts_out_of_range() {
        assert_eq!(((-5i32).shift_left(33), (-5i32).shift_right(33)), (0, -1));
        assert_eq!(((-5i32).shift_left(-1), (-5i32).shift_right(-1)), (0, -1));
        assert_eq!((200u8.shift_left(8), 200u8.shift_right(8), 200u8.shift_right(7)), (0, 0, 1));
        assert_eq!(((-5i64).shift_right(64), 5i64.shift_right(64), 1i64.shift_left(63)), (-1, 0, i64::MIN));
    }

    #[test]
    fn divisors_and_powers() {
        assert_eq!((12i32.gcd(-18), 0i32.gcd(-4), 0u8.gcd(0)), (6, 4, 0));
        assert_eq!(((-128i8).gcd(0), (-128i8).gcd(-128), (-128i8).lcm(3), 100i8.lcm(99)), (-128, -128, -128, -84));
        assert_eq!((0i32.lcm(0), 4i32.lcm(-6)), (0, 12));
        let power = |base: i64, exponent: i64| Integer::pow(base, exponent);
        assert_eq!([power(2, -1), power(1, -1), power(-1, -1), power(-1, -2), power(0, -1)], [0, 1, -1, 1, 0]);
        assert_eq!((Integer::pow(3u8, 5), Integer::pow(3u8, 6), Integer::pow(0i32, 0)), (243, 217, 1));
    }

    #[test]
    fn complex_division_scales() {
        let c = Complex::<f32>::new;
        assert_eq!(Number::div(c(1e38, 1e38), c(1e38, 1e38)), c(1.0, 0.0));
        assert_eq!(Number::div(c(1.0, 2.0), c(3.0, 4.0)), c(0.44, 0.08));
        assert_eq!(Number::div(c(1.0, 2.0), c(0.0, 2.0)), c(1.0, -0.5));
        let q = Number::div(c(1.0, 1.0), c(0.0, 0.0));
        assert!(q.re == f32::INFINITY && q.im == f32::INFINITY);
        assert!(Number::div(c(0.0, 0.0), c(0.0, 0.0)).re.is_nan());
    }

    #[test]
    fn bool_is_logical() {
        assert_eq!(Number::add(Bool(2), Bool(0)).0, 1);
        assert_eq!(Number::mul(Bool(2), Bool(1)).0, 1);
        assert_eq!(Number::sub(Bool(2), Bool(1)).0, 0);
    }
}
