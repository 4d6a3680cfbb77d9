//! The complex functions, with the branch cuts and special values of C99's Annex G.
//!
//! All are computed in `f64`, whatever the type, and branch: loops over them do not vectorise, except over [`abs`],
//! [`angle`], [`sgn`] and [`reciprocal`]. Where the standard leaves one part's sign open, it is what PyTorch gives.
//!
//! The inverse functions are Kahan's ("Branch Cuts for Complex Elementary Functions", 1987), which get the cuts right
//! through signed zeros; the trigonometric ones are the hyperbolic ones of `iz`.

use super::{Baseline, Float, Isa, Number, double};
use flambeau_base::DType;
use num_complex::Complex;
use std::f64::consts::{FRAC_PI_2, LN_2, LN_10, PI};

type C = Complex<f64>;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[inline]
        pub fn $name<I: Isa, T: Float>(z: Complex<T>) -> Complex<T> {
            let w = functions::$name(Complex::new(z.re.to_f64(), z.im.to_f64()));
            Complex::new(T::from_f64(w.re), T::from_f64(w.im))
        }
    )* };
}

unary! {
    /// The exponential.
    exp;
    /// Two to the power.
    exp2;
    /// `exp(z) - 1`.
    expm1;
    /// The natural logarithm, cut along the negative axis.
    log;
    /// `log(1 + z)`, accurate near zero.
    log1p;
    /// The root with a real part that is not negative.
    sqrt;
    /// One over the square root.
    rsqrt;
    /// The sine.
    sin;
    /// The cosine.
    cos;
    /// The tangent.
    tan;
    /// The arcsine, cut along the real axis beyond -1 and 1.
    asin;
    /// The arccosine, cut along the real axis beyond -1 and 1.
    acos;
    /// The arctangent, cut along the imaginary axis beyond `-i` and `i`.
    atan;
    /// The hyperbolic sine.
    sinh;
    /// The hyperbolic cosine.
    cosh;
    /// The hyperbolic tangent.
    tanh;
    /// The inverse hyperbolic sine, cut along the imaginary axis beyond `-i` and `i`.
    asinh;
    /// The inverse hyperbolic cosine, cut along the real axis below 1.
    acosh;
    /// The inverse hyperbolic tangent, cut along the real axis beyond -1 and 1.
    atanh;
}

/// The binary logarithm: the natural one, rounded, over that of 2.
#[inline]
pub fn log2<I: Isa, T: Float>(z: Complex<T>) -> Complex<T> {
    let (w, base) = (log::<I, T>(z), T::from_f64(LN_2));
    Complex::new(w.re / base, w.im / base)
}

/// The decimal logarithm: the natural one, rounded, over that of 10.
#[inline]
pub fn log10<I: Isa, T: Float>(z: Complex<T>) -> Complex<T> {
    let (w, base) = (log::<I, T>(z), T::from_f64(LN_10));
    Complex::new(w.re / base, w.im / base)
}

/// `1 / (1 + exp(-z))`, where the exponential overflows as it does in `T`: one over an infinity of finite angle is NaN.
#[inline]
pub fn sigmoid<I: Isa, T: Float>(z: Complex<T>) -> Complex<T> {
    let e = functions::exp(Complex::new(-z.re.to_f64(), -z.im.to_f64()));
    let held = |x: f64| if T::from_f64(x).is_finite() { x } else { T::from_f64(x).to_f64() };
    let w = Number::div(C::new(1.0, 0.0), C::new(1.0 + held(e.re), held(e.im)));
    Complex::new(T::from_f64(w.re), T::from_f64(w.im))
}

fn widened<T: Float>(z: Complex<T>) -> C {
    Complex::new(z.re.to_f64(), z.im.to_f64())
}
fn narrowed<T: Float>(z: C) -> Complex<T> {
    Complex::new(T::from_f64(z.re), T::from_f64(z.im))
}

/// `z` to the power `w`, as `exp(w log(z))`: NaN for zero to the power zero, as PyTorch has it. In single precision, as
/// there, the magnitude, the logarithm and the product are rounded, which the exponential magnifies.
#[inline]
pub fn pow<I: Isa, T: Float>(z: Complex<T>, w: Complex<T>) -> Complex<T> {
    let (z, w) = (widened(z), widened(w));
    if T::DTYPE == DType::F64 {
        return narrowed(functions::exp(functions::times(w, functions::log(z))));
    }
    let single = |x: f64| T::from_f64(x).to_f64();
    let log = functions::log(z);
    let magnitude = single((z.re * z.re + z.im * z.im).sqrt());
    let re = if log.re.is_finite() { single(magnitude.ln()) } else { log.re };
    let product = functions::times_in::<T>(w, C::new(re, single(log.im)));
    narrowed(functions::exp(product))
}

/// `sin(pi z) / (pi z)`, 1 at 0; the product is rounded, as PyTorch has it.
#[inline]
pub fn sinc<I: Isa, T: Float>(z: Complex<T>) -> Complex<T> {
    let pi = T::from_f64(PI);
    if z.re == T::ZERO && z.im == T::ZERO {
        return Complex::new(T::ONE, T::ZERO);
    }
    let t = widened(Complex::new(z.re * pi, z.im * pi));
    narrowed(Number::div(functions::sin(t), t))
}

/// The magnitude.
#[inline(always)]
pub fn abs<I: Isa, T: Float>(z: Complex<T>) -> T {
    z.re.hypot::<I>(z.im)
}

/// The angle from the positive axis.
#[inline(always)]
pub fn angle<I: Isa, T: Float>(z: Complex<T>) -> T {
    z.im.atan2::<I>(z.re)
}

/// `z / |z|`, 0 at 0.
#[inline(always)]
pub fn sgn<I: Isa, T: Float>(z: Complex<T>) -> Complex<T> {
    let r = abs::<I, T>(z);
    let zero = r == T::ZERO;
    Complex::new(if zero { T::ZERO } else { z.re / r }, if zero { T::ZERO } else { z.im / r })
}

/// One over `z`.
#[inline(always)]
pub fn reciprocal<I: Isa, T: Float>(z: Complex<T>) -> Complex<T>
where
    Complex<T>: Number,
{
    Number::div(<Complex<T> as Number>::ONE, z)
}

/// The functions themselves. One level for all, so that results do not depend on the machine.
mod functions {
    use super::*;

    type I = Baseline;

    fn times_i(z: C) -> C {
        C::new(-z.im, z.re)
    }

    fn over_i(z: C) -> C {
        C::new(z.im, -z.re)
    }

    /// `x exp(a) factor`, where the exponential may overflow before the product does.
    fn scaled_exp(a: f64, x: f64, factor: f64) -> f64 {
        if a < 700.0 || a.is_infinite() {
            return double::exp::<I>(a) * x * factor;
        }
        let root = double::exp::<I>(a * 0.5);
        x * root * (root * factor)
    }

    pub fn exp(z: C) -> C {
        let (x, y) = (z.re, z.im);
        if y == 0.0 {
            return C::new(double::exp::<I>(x), y);
        }
        if !y.is_finite() {
            if x == f64::NEG_INFINITY {
                return C::new(0.0, 0.0f64.copysign(y));
            }
            return C::new(if x == f64::INFINITY { x } else { f64::NAN }, f64::NAN);
        }
        let (s, c) = (double::sin::<I>(y), double::cos::<I>(y));
        if x < 700.0 {
            let e = double::exp::<I>(x);
            return C::new(e * c, e * s);
        }
        C::new(scaled_exp(x, c, 1.0), scaled_exp(x, s, 1.0))
    }

    pub fn exp2(z: C) -> C {
        exp(C::new(z.re * LN_2, z.im * LN_2))
    }

    pub fn expm1(z: C) -> C {
        // exp(x) cos(y) - 1 without cancellation where both are near one.
        let half = double::sin::<I>(z.im * 0.5);
        let m = double::expm1::<I>(z.re);
        let e = double::exp::<I>(z.re);
        C::new(m * double::cos::<I>(z.im) - 2.0 * half * half, e * double::sin::<I>(z.im))
    }

    /// The logarithm of the magnitude of `(1 + x) + iy`.
    fn log_abs1p(x: f64, y: f64) -> f64 {
        0.5 * double::log1p::<I>(x * (2.0 + x) + y * y)
    }

    fn log_abs(z: C) -> f64 {
        let (a, b) = (z.re.abs(), z.im.abs());
        let (large, small) = if a < b { (b, a) } else { (a, b) };
        if large > 0.5 && large < 3.0 {
            return log_abs1p(large - 1.0, small);
        }
        if a.is_infinite() || b.is_infinite() {
            return f64::INFINITY;
        }
        // Twice a subnormal magnitude or half of a huge one is exact.
        let scale = if large > 1e300 {
            0.5
        } else if large < 1e-300 {
            1e300
        } else {
            1.0
        };
        double::log::<I>(Float::hypot::<I>(a * scale, b * scale)) - double::log::<I>(scale)
    }

    pub fn log(z: C) -> C {
        C::new(log_abs(z), double::atan2::<I>(z.im, z.re))
    }

    pub fn log1p(z: C) -> C {
        if z.re.is_nan() || z.im.is_nan() {
            return C::new(f64::NAN, f64::NAN);
        }
        let re = if z.re.abs() < 1.0 && z.im.abs() < 1.0 {
            log_abs1p(z.re, z.im)
        } else {
            log_abs(C::new(1.0 + z.re, z.im))
        };
        C::new(re, double::atan2::<I>(z.im, 1.0 + z.re))
    }

    pub fn sqrt(z: C) -> C {
        let (x, y) = (z.re, z.im);
        if y.is_infinite() {
            return C::new(f64::INFINITY, y);
        }
        if x.is_infinite() {
            let other = if y.is_nan() { y } else { 0.0 };
            return if x > 0.0 {
                C::new(x, other.copysign(y))
            } else if y.is_nan() {
                C::new(y, f64::INFINITY)
            } else {
                C::new(0.0, f64::INFINITY.copysign(y))
            };
        }
        if x.is_nan() || y.is_nan() {
            return C::new(f64::NAN, f64::NAN);
        }
        if x == 0.0 && y == 0.0 {
            return C::new(0.0, y);
        }
        // Even powers of two keep |x| + |z| in range.
        let large = x.abs().max(y.abs());
        let (up, down) = if large > 1e300 {
            (0.25, 2.0)
        } else if large < 1e-290 {
            (2f64.powi(108), 2f64.powi(-54))
        } else {
            (1.0, 1.0)
        };
        let (x, y) = (x * up, y * up);
        let root = ((x.abs() + Float::hypot::<I>(x, y)) * 0.5).sqrt();
        let other = y.abs() / (2.0 * root);
        let (re, im) = if x >= 0.0 { (root, other) } else { (other, root) };
        C::new(re * down, (im * down).copysign(z.im))
    }

    pub fn rsqrt(z: C) -> C {
        Number::div(C::new(1.0, 0.0), sqrt(z))
    }

    /// A part where it is zero however large the other is: zero times infinity is zero here.
    fn product(a: f64, b: f64) -> f64 {
        if b == 0.0 && !a.is_nan() { b.copysign(a * b.signum()) } else { a * b }
    }

    pub fn sinh(z: C) -> C {
        let (x, y) = (z.re, z.im);
        if x == 0.0 && !y.is_finite() {
            return C::new(x, f64::NAN);
        }
        if y == 0.0 {
            return C::new(double::sinh::<I>(x), y);
        }
        if x.is_infinite() && !y.is_finite() {
            return C::new(f64::INFINITY, f64::NAN);
        }
        let (s, c) = (double::sin::<I>(y), double::cos::<I>(y));
        if x.abs() > 700.0 {
            let half = 0.5f64.copysign(x);
            return C::new(scaled_exp(x.abs(), c, half), scaled_exp(x.abs(), s, 0.5));
        }
        C::new(double::sinh::<I>(x) * c, double::cosh::<I>(x) * s)
    }

    pub fn cosh(z: C) -> C {
        let (x, y) = (z.re, z.im);
        if x == 0.0 && !y.is_finite() {
            return C::new(f64::NAN, x);
        }
        if y == 0.0 {
            let im = if x.is_nan() { y } else { y * 1f64.copysign(x) };
            return C::new(double::cosh::<I>(x), im);
        }
        if x.is_infinite() && !y.is_finite() {
            return C::new(f64::INFINITY, f64::NAN);
        }
        let (s, c) = (double::sin::<I>(y), double::cos::<I>(y));
        if x.abs() > 700.0 {
            let half = 0.5f64.copysign(x);
            return C::new(scaled_exp(x.abs(), c, 0.5), scaled_exp(x.abs(), s, half));
        }
        C::new(double::cosh::<I>(x) * c, product(s, double::sinh::<I>(x)))
    }

    pub fn tanh(z: C) -> C {
        let (x, y) = (z.re, z.im);
        if x.is_infinite() || (x.abs() > 22.0 && y.is_finite()) {
            // The imaginary part is 4 sin(y) cos(y) exp(-2 |x|).
            let turn = if y.is_finite() { double::sin::<I>(y) * double::cos::<I>(y) } else { y };
            let im = if y.is_finite() { 4.0 * turn * double::exp::<I>(-2.0 * x.abs()) } else { 0.0 };
            return C::new(1f64.copysign(x), im.abs().copysign(turn));
        }
        if y == 0.0 {
            return C::new(double::tanh::<I>(x), y);
        }
        if !y.is_finite() {
            return C::new(if x == 0.0 { x } else { f64::NAN }, f64::NAN);
        }
        let t = double::tan::<I>(y);
        let b = 1.0 + t * t;
        let s = double::sinh::<I>(x);
        let r = (1.0 + s * s).sqrt();
        let d = 1.0 + b * s * s;
        if t.is_infinite() {
            return C::new(r / s, 1.0 / t);
        }
        C::new(b * r * s / d, t / d)
    }

    pub fn sin(z: C) -> C {
        if z.im.is_infinite() && !z.re.is_finite() {
            return C::new(f64::NAN, f64::INFINITY);
        }
        over_i(sinh(times_i(z)))
    }

    pub fn cos(z: C) -> C {
        cosh(times_i(z))
    }

    pub fn tan(z: C) -> C {
        over_i(tanh(times_i(z)))
    }

    /// `1 - z` and `1 + z`, with the signs of their imaginary parts.
    fn around_one(z: C) -> (C, C) {
        (C::new(1.0 - z.re, -z.im), C::new(1.0 + z.re, z.im))
    }

    /// Magnitudes whose squares overflow, or whose one does not matter.
    fn huge(z: C) -> bool {
        z.re.abs() > 1e150 || z.im.abs() > 1e150
    }

    /// `(|re|, |im|)` of `log(2z)` in the first quadrant.
    fn log_twice(z: C) -> C {
        let w = log(C::new(z.re.abs(), z.im.abs()));
        C::new(w.re + LN_2, w.im)
    }

    pub fn asin(z: C) -> C {
        if z.re.is_infinite() && z.im.is_nan() {
            return C::new(f64::NAN, f64::INFINITY);
        }
        over_i(asinh(times_i(z)))
    }

    pub fn acos(z: C) -> C {
        let (x, y) = (z.re, z.im);
        if x.is_nan() || y.is_nan() {
            if x.is_infinite() {
                return C::new(f64::NAN, f64::NEG_INFINITY);
            }
            if y.is_infinite() {
                return C::new(f64::NAN, -y);
            }
            return C::new(if x == 0.0 { FRAC_PI_2 } else { f64::NAN }, f64::NAN);
        }
        if huge(z) {
            let w = log_twice(z);
            let re = if x.is_sign_negative() { PI - w.im } else { w.im };
            return C::new(re, w.re.copysign(-y));
        }
        let (minus, plus) = around_one(z);
        let (minus, plus) = (sqrt(minus), sqrt(plus));
        let re = 2.0 * double::atan2::<I>(minus.re, plus.re);
        // Im(conj(plus) * minus)
        let im = plus.re * minus.im - plus.im * minus.re;
        C::new(re, double::asinh::<I>(im).abs().copysign(-y))
    }

    pub fn acosh(z: C) -> C {
        let w = acos(z);
        // Plus or minus i times it, whichever has the positive real part.
        if w.re.is_nan() && w.im.is_nan() {
            return w;
        }
        if z.im.is_nan() && z.re == 0.0 {
            return C::new(f64::NAN, FRAC_PI_2);
        }
        if w.re.is_nan() {
            return C::new(w.im.abs(), f64::NAN);
        }
        C::new(w.im.abs(), w.re.copysign(z.im))
    }

    pub fn asinh(z: C) -> C {
        let (x, y) = (z.re, z.im);
        if x.is_nan() || y.is_nan() {
            if x.is_infinite() {
                return C::new(x, f64::NAN);
            }
            if y.is_infinite() {
                return C::new(y.abs(), f64::NAN);
            }
            return C::new(f64::NAN, if y == 0.0 { y } else { f64::NAN });
        }
        if huge(z) {
            let w = log_twice(z);
            return C::new(w.re.copysign(x), w.im.copysign(y));
        }
        // asinh(z) = -i asin(iz), by way of the roots of 1 - iz and 1 + iz.
        let (minus, plus) = around_one(times_i(z));
        let (minus, plus) = (sqrt(minus), sqrt(plus));
        // Re(minus * plus) and Im(conj(minus) * plus), which is asinh's argument up to sign.
        let re = minus.re * plus.re - minus.im * plus.im;
        let sine = minus.re * plus.im - minus.im * plus.re;
        C::new(double::asinh::<I>(sine).abs().copysign(x), double::atan2::<I>(y, re.abs()).abs().copysign(y))
    }

    pub fn atan(z: C) -> C {
        over_i(atanh(times_i(z)))
    }

    pub fn atanh(z: C) -> C {
        let (x, y) = (z.re, z.im);
        let (a, b) = (x.abs(), y.abs());
        if a.is_nan() || b.is_nan() {
            if a.is_infinite() {
                return C::new(0f64.copysign(x), f64::NAN);
            }
            if b.is_infinite() {
                return C::new(0f64.copysign(x), FRAC_PI_2.copysign(y));
            }
            return C::new(if a == 0.0 { x } else { f64::NAN }, f64::NAN);
        }
        if a > 1e150 || b > 1e150 {
            // atanh(z) is 1 / z and a right angle.
            let re = if a.is_infinite() || b.is_infinite() {
                0.0
            } else {
                let h = Float::hypot::<I>(a * 0.5, b * 0.5);
                a / h / h * 0.25
            };
            return C::new(re.copysign(x), FRAC_PI_2.copysign(y));
        }
        if a == 1.0 && b == 0.0 {
            return C::new(f64::INFINITY.copysign(x), y);
        }
        // log(|1 + z| / |1 - z|) / 2 and half the angle between them.
        let gap = 1.0 - a;
        let square = b * b;
        let re = if a == 1.0 && b < 1e-150 {
            // The square of the distance to the pole would vanish.
            0.5 * (LN_2 - double::log::<I>(b))
        } else {
            0.25 * double::log1p::<I>(4.0 * a / (gap * gap + square))
        };
        let im = 0.5 * double::atan2::<I>(2.0 * b, gap * (1.0 + a) - square);
        C::new(re.copysign(x), im.copysign(y))
    }

    /// The product, with the infinities that the plain one loses to NaN (C11, Annex G.5.1, example 1).
    pub fn times(z: C, w: C) -> C {
        recovered(z, w, Number::mul(z, w))
    }

    /// [`times`] with all of it rounded to `T`.
    pub fn times_in<T: Float>(z: C, w: C) -> C {
        let (a, b): (Complex<T>, Complex<T>) = (narrowed(z), narrowed(w));
        let product = Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
        recovered(z, w, widened(product))
    }

    fn recovered(z: C, w: C, product: C) -> C {
        if !(product.re.is_nan() && product.im.is_nan()) {
            return product;
        }
        let infinite = |z: C| z.re.is_infinite() || z.im.is_infinite();
        let boxed = |z: C| {
            let part = |x: f64| (if x.is_infinite() { 1.0f64 } else { 0.0 }).copysign(x);
            C::new(part(z.re), part(z.im))
        };
        let zeroed = |z: C| {
            let part = |x: f64| if x.is_nan() { 0f64.copysign(x) } else { x };
            C::new(part(z.re), part(z.im))
        };
        let (z, w) = match (infinite(z), infinite(w)) {
            (true, true) => (boxed(z), boxed(w)),
            (true, false) => (boxed(z), zeroed(w)),
            (false, true) => (zeroed(z), boxed(w)),
            (false, false) => return product,
        };
        let product: C = Number::mul(z, w);
        C::new(f64::INFINITY * product.re, f64::INFINITY * product.im)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;

    fn c(re: f64, im: f64) -> C {
        C::new(re, im)
    }

    fn close(a: f64, b: f64) -> bool {
        if a.is_nan() || b.is_nan() {
            return a.is_nan() == b.is_nan();
        }
        (a == b && a.is_sign_negative() == b.is_sign_negative()) || (a - b).abs() <= 1e-14 * b.abs()
    }

    fn check(f: fn(C) -> C, z: C, expected: C) {
        let w = f(z);
        assert!(close(w.re, expected.re) && close(w.im, expected.im), "{z:?}: {w:?}, not {expected:?}");
    }

    #[test]
    fn special_values_of_annex_g() {
        use functions::*;
        check(exp, c(-INF, INF), c(0.0, 0.0));
        check(exp, c(INF, 0.0), c(INF, 0.0));
        check(exp, c(NAN, -0.0), c(NAN, -0.0));

        check(log, c(-0.0, 0.0), c(-INF, PI));
        check(log, c(-INF, NAN), c(INF, NAN));
        check(sqrt, c(-4.0, -0.0), c(0.0, -2.0));
        check(sqrt, c(-INF, NAN), c(NAN, INF));
        check(sqrt, c(NAN, -INF), c(INF, -INF));
        check(sinh, c(0.0, INF), c(0.0, NAN));
        check(cosh, c(-INF, 0.0), c(INF, -0.0));
        check(tanh, c(INF, 2.0), c(1.0, -0.0));
        check(tanh, c(0.0, NAN), c(0.0, NAN));
        check(acos, c(0.0, 0.0), c(FRAC_PI_2, -0.0));
        check(acos, c(2.0, 0.0), c(0.0, -1.316_957_896_924_816_6));
        check(acos, c(2.0, -0.0), c(0.0, 1.316_957_896_924_816_6));
        check(acosh, c(-2.0, -0.0), c(1.316_957_896_924_816_6, -PI));
        check(asin, c(-2.0, 0.0), c(-FRAC_PI_2, 1.316_957_896_924_816_6));
        check(asinh, c(INF, INF), c(INF, FRAC_PI_2 * 0.5));
        check(atanh, c(1.0, 0.0), c(INF, 0.0));
        check(atanh, c(2.0, -0.0), c(0.549_306_144_334_054_8, -FRAC_PI_2));
        check(atan, c(0.0, 2.0), c(FRAC_PI_2, 0.549_306_144_334_054_8));
    }

    #[test]
    fn inverses_invert() {
        use functions::*;
        type Function = fn(C) -> C;
        let pairs: [(Function, Function); 7] =
            [(exp, log), (sin, asin), (cos, acos), (tan, atan), (sinh, asinh), (cosh, acosh), (tanh, atanh)];
        for x in [-3.0, -0.7, 0.001, 0.4, 1.5, 20.0] {
            for y in [-2.0, -0.3, 0.002, 0.9, 5.0] {
                let z = c(x, y);
                for (i, (f, inverse)) in pairs.iter().enumerate() {
                    let back = f(inverse(z));
                    let error = (back - z).norm() / z.norm();
                    assert!(error < 1e-13, "{i} {z:?} {back:?}");
                }
                let root = sqrt(z);
                assert!((root * root - z).norm() < 1e-15 * z.norm());
                let power = super::pow::<Baseline, f64>(z, c(2.0, 0.0));
                assert!((power - z * z).norm() < 1e-14 * (z * z).norm());
            }
        }
    }

    #[test]
    fn small_arguments_keep_their_digits() {
        use functions::*;
        let tiny: [fn(C) -> C; 8] = [sin, tan, asin, atan, sinh, tanh, asinh, atanh];
        for (i, f) in tiny.iter().enumerate() {
            let (z, w) = (c(1e-12, -3e-11), f(c(1e-12, -3e-11)));
            assert!(close(w.re, z.re) && close(w.im, z.im), "{i}: {w:?}");
        }
        check(expm1, c(1e-12, 0.0), c(1e-12 + 5e-25, 0.0));
        check(log1p, c(1e-12, 0.0), c(1e-12 - 5e-25, 0.0));
    }
}
