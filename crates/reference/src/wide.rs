//! Real numbers of some 31 digits: series may lose half of them and still give a double to the last place.
//!
//! A number is the sum of two doubles, the second at most half a unit in the last place of the first (Dekker, "A
//! floating-point technique for extending the available precision", 1971). The range is that of doubles.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// The unevaluated sum of two doubles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wide {
    high: f64,
    low: f64,
}

/// The constants' parts are computed with mpmath.
pub(crate) const PI: Wide = Wide { high: std::f64::consts::PI, low: 1.2246467991473532e-16 };
pub(crate) const LN_2: Wide = Wide { high: std::f64::consts::LN_2, low: 2.3190468138462996e-17 };
/// Euler's constant.
pub(crate) const EULER: Wide = Wide { high: 0.5772156649015329, low: -4.942915152430645e-18 };
/// Apery's constant, `zeta(3)`.
pub(crate) const APERY: Wide = Wide { high: 1.2020569031595942, low: 4.875891010379532e-17 };
pub(crate) const ZERO: Wide = Wide { high: 0.0, low: 0.0 };
pub(crate) const ONE: Wide = Wide { high: 1.0, low: 0.0 };

/// From here on multiples of pi are left to the standard library, which knows more digits of it.
const FAR: f64 = 1e9;

/// A number as it is.
pub(crate) fn wide(x: f64) -> Wide {
    Wide { high: x, low: 0.0 }
}

/// The exact sum of two doubles (Knuth, "The Art of Computer Programming", 4.2.2, theorem B).
fn sum(x: f64, y: f64) -> Wide {
    let high = x + y;
    if !high.is_finite() {
        return wide(high);
    }
    let shown = high - x;
    Wide { high, low: (x - (high - shown)) + (y - shown) }
}

impl Wide {
    /// The sum of two doubles.
    pub const fn of(high: f64, low: f64) -> Wide {
        Wide { high, low }
    }

    /// The nearest double.
    pub fn rounded(self) -> f64 {
        self.high
    }

    pub fn is_negative(self) -> bool {
        self.high < 0.0
    }

    pub fn abs(self) -> Wide {
        if self.high < 0.0 { -self } else { self }
    }

    /// Whether adding this to `sum` no longer matters.
    pub fn is_lost_in(self, sum: Wide) -> bool {
        // NaN has to end a loop too.
        self.high.is_nan() || sum.high.is_nan() || self.high.abs() <= 1e-33 * sum.high.abs()
    }

    /// Times a power of two, exactly while it is not subnormal.
    pub fn times_two_to(self, exponent: i32) -> Wide {
        // In parts, for one factor may overflow where the product does not.
        let part = exponent.clamp(-1000, 1000);
        let scale = 2f64.powi(part);
        let scaled = Wide { high: self.high * scale, low: self.low * scale };
        match exponent - part {
            0 => sum(scaled.high, scaled.low),
            rest if rest.abs() > 2000 => wide(if rest > 0 { self.high * f64::INFINITY } else { self.high * 0.0 }),
            rest => scaled.times_two_to(rest),
        }
    }

    pub fn recip(self) -> Wide {
        ONE / self
    }

    pub fn sqrt(self) -> Wide {
        let root = self.high.sqrt();
        if root == 0.0 || !root.is_finite() {
            return wide(root);
        }
        // A step of Newton's method doubles the digits.
        let root = wide(root);
        root + (self - root * root) / (root + root)
    }

    /// A whole power, by squaring.
    pub fn powi(self, n: u32) -> Wide {
        let half = if n > 1 { self.powi(n / 2) } else { ONE };
        if n % 2 == 1 { half * half * self } else { half * half }
    }

    /// The exponential function by its series, after multiples of `log(2)` are taken out.
    pub fn exp(self) -> Wide {
        match self.high {
            x if x.is_nan() => return self,
            x if x > 710.0 => return wide(f64::INFINITY),
            x if x < -760.0 => return ZERO,
            _ => {}
        }
        let twos = (self.high / LN_2.high).round();
        ((self - LN_2 * twos).exp_m1_series() + ONE).times_two_to(twos as i32)
    }

    /// `exp(self) - 1`.
    pub fn exp_m1(self) -> Wide {
        if self.high.abs() < 0.5 { self.exp_m1_series() } else { self.exp() - ONE }
    }

    fn exp_m1_series(self) -> Wide {
        let (mut term, mut total) = (self, ZERO);
        for k in 2.. {
            total = total + term;
            term = term * self / f64::from(k);
            if term.is_lost_in(total) {
                break;
            }
        }
        total
    }

    /// The natural logarithm: that of the power of two, and twice the inverse hyperbolic tangent of
    /// `(m - 1) / (m + 1)` for what is left.
    pub fn ln(self) -> Wide {
        if !(self.high > 0.0 && self.high < f64::INFINITY) {
            return wide(self.high.ln());
        }
        let (m, exponent) = libm::frexp(self.high);
        // What is left is between the root of one half and that of two.
        let exponent = if m < std::f64::consts::FRAC_1_SQRT_2 { exponent - 1 } else { exponent };
        let m = self.times_two_to(-exponent);
        LN_2 * f64::from(exponent) + twice_atanh((m - ONE) / (m + ONE))
    }

    /// `log(1 + self)`.
    pub fn ln_1p(self) -> Wide {
        if self.high.abs() < 0.3 { twice_atanh(self / (self + wide(2.0))) } else { (self + ONE).ln() }
    }

    /// Sine and cosine, by their series after quarter turns are taken out.
    pub fn sin_cos(self) -> (Wide, Wide) {
        if self.high.is_nan() || self.high.abs() > FAR {
            let (s, c) = (wide(self.high.sin()), wide(self.high.cos()));
            return (s + c * self.low, c - s * self.low);
        }
        let quarters = (self.high / (0.5 * PI.high)).round();
        let x = self - PI * (0.5 * quarters);
        let series = |from: u32| {
            let mut term = if from == 0 { ONE } else { x };
            let mut total = term;
            for k in (from + 1..).step_by(2) {
                term = -(term * x * x) / f64::from(k * (k + 1));
                total = total + term;
                if term.is_lost_in(total) {
                    break;
                }
            }
            total
        };
        let (s, c) = (series(1), series(0));
        match quarters.rem_euclid(4.0) as u8 {
            0 => (s, c),
            1 => (c, -s),
            2 => (-s, -c),
            _ => (-c, s),
        }
    }
}

/// `log((1 + s) / (1 - s))` for small `s`.
fn twice_atanh(s: Wide) -> Wide {
    let (mut power, mut total) = (s, s);
    for k in (3..).step_by(2) {
        power = power * s * s;
        let term = power / f64::from(k);
        total = total + term;
        if term.is_lost_in(total) {
            break;
        }
    }
    total + total
}

impl From<f64> for Wide {
    fn from(x: f64) -> Wide {
        wide(x)
    }
}

impl Neg for Wide {
    type Output = Wide;
    fn neg(self) -> Wide {
        Wide { high: -self.high, low: -self.low }
    }
}

impl<T: Into<Wide>> Add<T> for Wide {
    type Output = Wide;
    fn add(self, other: T) -> Wide {
        let other = other.into();
        let (high, low) = (sum(self.high, other.high), sum(self.low, other.low));
        let high = sum(high.high, high.low + low.high);
        sum(high.high, high.low + low.low)
    }
}

impl<T: Into<Wide>> Sub<T> for Wide {
    type Output = Wide;
    fn sub(self, other: T) -> Wide {
        self + -other.into()
    }
}

impl<T: Into<Wide>> Mul<T> for Wide {
    type Output = Wide;
    fn mul(self, other: T) -> Wide {
        let other = other.into();
        let high = self.high * other.high;
        if high == 0.0 || !high.is_finite() {
            return wide(high);
        }
        let low = self.high.mul_add(other.high, -high) + (self.high * other.low + self.low * other.high);
        sum(high, low)
    }
}

impl<T: Into<Wide>> Div<T> for Wide {
    type Output = Wide;
    fn div(self, other: T) -> Wide {
        let other = other.into();
        let first = self.high / other.high;
        if first == 0.0 || !first.is_finite() || other.high.is_infinite() {
            return wide(first);
        }
        // Long division: each digit is a double.
        let rest = self - other * first;
        let second = rest.high / other.high;
        let rest = rest - other * second;
        sum(first, second) + rest.high / other.high
    }
}
