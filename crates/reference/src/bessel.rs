//! Bessel functions of the orders 0 and 1, plain, modified and spherical, and Airy's function.
//!
//! Near zero by their power series, far out by their asymptotic ones, whose smallest term is below `exp(-50)` there;
//! those that decay by an integral.

use crate::wide::{EULER, LN_2, ONE, PI, Wide, ZERO, wide};

/// From here on the asymptotic series are taken.
const FAR: f64 = 25.0;

/// `sum(c(k) (sign x^2 / 4)^k / (k! (k + n)!)) (x / 2)^n`: with `c = 1` Bessel's function of the first kind (DLMF
/// 10.2.2) or, if the sign is positive, the modified one (DLMF 10.25.2).
fn ascending(n: u32, x: f64, sign: f64, mut c: impl FnMut(u32) -> Wide) -> Wide {
    let half = wide(x) * 0.5;
    let (mut term, mut total) = (half.powi(n), ZERO);
    for k in 0.. {
        total = total + term * c(k);
        term = term * half * half * sign / (f64::from(k + 1) * f64::from(k + 1 + n));
        if f64::from(k) > x && term.is_lost_in(total) {
            break;
        }
    }
    total
}

/// The terms `a_k(n) / x^k` of the asymptotic series (DLMF 10.17.1), down to the smallest.
fn descending(n: u32, x: f64) -> Vec<Wide> {
    let (square, mut term, mut terms) = (f64::from(4 * n * n), ONE, vec![]);
    for k in 1.. {
        terms.push(term);
        let odd = f64::from(2 * k - 1);
        let next = term / x * ((square - odd * odd) / (8.0 * f64::from(k)));
        if next.is_lost_in(ONE) || next.abs().rounded() > term.abs().rounded() {
            break;
        }
        term = next;
    }
    terms
}

/// The sum of every second term from one on, where two and two terms have the same sign.
fn every_second(terms: &[Wide], from: usize) -> Wide {
    let signed = |k: usize| if (k / 2).is_multiple_of(2) { terms[k] } else { -terms[k] };
    (from..terms.len()).step_by(2).fold(ZERO, |sum, k| sum + signed(k))
}

/// `z^n / d(z)`, `d` being given from the highest power down: what PyTorch has too much of a function, as a part of it.
/// It follows Moshier's Cephes Library, whose rational approximations have the denominators `z^n + d(z)`, and leaves the
/// first term out. The same program should give the same numbers, so this belongs to the definition.
fn excess(z: Wide, d: &[f64]) -> Wide {
    z.powi(d.len() as u32) / d.iter().fold(ZERO, |value, d| value * z + *d)
}

/// Cephes's denominators of `Q`, of the orders 0 and 1.
const REST: [[f64; 7]; 2] = [
    [
        64.3178256118178,
        856.4300259769806,
        3882.4018360540163,
        7240.467741956525,
        5930.727011873169,
        2062.0933166032783,
        242.0057402402914,
    ],
    [
        74.23732770356752,
        1056.4488603826283,
        4986.410583376536,
        9562.318924047562,
        7997.041604473507,
        2826.1927851763908,
        336.0936078106983,
    ],
];

/// The functions of the first and second kind where `x` is positive.
fn both(n: u32, x: f64) -> (f64, f64) {
    // The sine and cosine of x - n pi / 2 - pi / 4.
    let (s, c) = wide(x).sin_cos();
    let root = wide(2.0).sqrt();
    let (s, c) = if n == 0 { ((s - c) / root, (s + c) / root) } else { (-(s + c) / root, (s - c) / root) };
    let scale = (wide(2.0) / PI / x).sqrt();
    let (first, second) = if x < FAR {
        let first = ascending(n, x, -1.0, |_| ONE);
        // DLMF 10.8.1, where psi(k + 1) is the k-th harmonic number less Euler's constant.
        let (mut harmonic, mut shifted) = (ZERO, if n == 0 { ZERO } else { ONE });
        let rest = ascending(n, x, -1.0, |k| {
            let weight = harmonic + shifted - EULER * 2.0;
            harmonic = harmonic + wide(1.0) / f64::from(k + 1);
            shifted = shifted + wide(1.0) / f64::from(k + 1 + n);
            weight
        });
        let pole = if n == 0 { ZERO } else { wide(2.0) / x };
        (first, ((wide(x).ln() - LN_2) * first * 2.0 - rest - pole) / PI)
    } else {
        // DLMF 10.17.3 and 10.17.4.
        let terms = descending(n, x);
        let (p, q) = (every_second(&terms, 0), every_second(&terms, 1));
        (scale * (p * c - q * s), scale * (p * s + q * c))
    };
    if x <= 5.0 {
        return (first.rounded(), second.rounded());
    }
    let q = (second * c - first * s) * excess(wide(5.0) / x * 5.0 / x, &REST[n as usize]);
    ((first - q * s).rounded(), (second + q * c).rounded())
}

/// Of the first kind.
pub(crate) fn j(n: u32, x: f64) -> f64 {
    match x.abs() {
        0.0 => {
            if n == 0 {
                1.0
            } else {
                x
            }
        }
        a if a.is_finite() => both(n, a).0 * if n == 1 && x < 0.0 { -1.0 } else { 1.0 },
        _ => f64::NAN,
    }
}

/// Of the second kind.
pub(crate) fn y(n: u32, x: f64) -> f64 {
    match x {
        0.0 => f64::NEG_INFINITY,
        x if x > 0.0 && x.is_finite() => both(n, x).1,
        _ => f64::NAN,
    }
}

/// `sin(x) / x`.
pub(crate) fn spherical_j0(x: f64) -> f64 {
    match x.abs() {
        0.0 => 1.0,
        f64::INFINITY => 0.0,
        _ => (wide(x).sin_cos().0 / x).rounded(),
    }
}

/// The modified function of the first kind, times `exp(-|x|)` if it is scaled.
pub(crate) fn i(n: u32, x: f64, scaled: bool) -> f64 {
    let a = x.abs();
    if a == f64::INFINITY {
        // As PyTorch has them: zero, and the product of zero and infinity.
        return if scaled { 0.0 } else { f64::NAN };
    }
    let value = if a < FAR {
        ascending(n, a, 1.0, |_| ONE) * if scaled { (-wide(a)).exp() } else { ONE }
    } else {
        // DLMF 10.40.1. The exponential may overflow before its product does.
        let signed = descending(n, a).into_iter().enumerate().map(|(k, t)| if k % 2 == 0 { t } else { -t });
        let series = signed.fold(ZERO, |sum, term| sum + term) / (PI * a * 2.0).sqrt();
        if scaled { series } else { (wide(a) * 0.5).exp() * series * (wide(a) * 0.5).exp() }
    };
    // PyTorch's zero has no sign.
    value.rounded() * if n == 1 && x < 0.0 { -1.0 } else { 1.0 }
}

/// The integral of `exp(-x (cosh t - 1)) cosh(order t)` over the positive numbers: the modified function of the second
/// kind, scaled (DLMF 10.32.9). The trapezoidal rule converges exponentially for it.
fn decaying(order: Wide, x: Wide) -> Wide {
    // The integrand is a bell of the width 1 / sqrt(x), or analytic within pi / 2 of the real numbers.
    let step = wide(0.1 / x.rounded().max(1.0).sqrt());
    let mut total = wide(0.5);
    for k in 1.. {
        let t = step * f64::from(k);
        let grown = (t * 0.5).exp_m1();
        let half_sinh = (grown + grown / (grown + ONE)) * 0.5;
        // x (cosh t - 1), and one exponential of a sum: the factors may overflow where the product does not.
        let fall = x * half_sinh * half_sinh * 2.0;
        let value = ((order * t - fall).exp() + (-(order * t) - fall).exp()) * 0.5;
        total = total + value;
        if value.is_lost_in(total) {
            break;
        }
    }
    total * step
}

/// The modified function of the second kind, times `exp(x)` if it is scaled.
pub(crate) fn k(n: u32, x: f64, scaled: bool) -> f64 {
    match x {
        0.0 => f64::INFINITY,
        f64::INFINITY => 0.0,
        x if x > 0.0 => {
            let value = decaying(wide(f64::from(n)), wide(x));
            (if scaled { value } else { value * (-wide(x)).exp() }).rounded()
        }
        _ => f64::NAN,
    }
}

/// Cephes's denominators of what goes with the sine and with the cosine in Airy's function.
const AIRY_REST: (&[f64], &[f64]) = (
    &[
        13.356042070655324,
        32.682503279522464,
        26.736704094149957,
        9.187074029072596,
        1.4752914677166642,
        0.11568717379518804,
        0.004402916416152112,
        7.547203482874142e-5,
        4.5185009297058035e-7,
    ],
    &[
        9.30892908077442,
        19.835292871831214,
        15.564662893286462,
        5.476860694229755,
        0.9542936116189619,
        0.08645808263523921,
        0.004126565238242226,
        0.00010125908511650914,
        1.1716673321441352e-6,
        4.9183457006293e-9,
    ],
);

/// `Ai` and `Bi` by their power series (DLMF 9.4.1 and 9.4.3).
fn airy_near(x: Wide) -> (Wide, Wide) {
    // Ai and its derivative at zero, computed with mpmath.
    let level = Wide::of(0.3550280538878172, 2.05233632436212e-17);
    let slope = Wide::of(0.2588194037928068, -2.522243111610832e-17);
    let series = |first: Wide, from: f64| {
        let (mut term, mut total) = (first, first);
        for k in 1.. {
            let n = 3.0 * f64::from(k) + from;
            term = term * x * x * x / (n * (n - 1.0));
            total = total + term;
            if n > x.abs().rounded() * 4.0 && term.is_lost_in(total) {
                break;
            }
        }
        total
    };
    let (f, g) = (series(ONE, 0.0) * level, series(x, 1.0) * slope);
    (f - g, (f + g) * wide(3.0).sqrt())
}

/// The coefficients `u_k / z^k` of Airy's asymptotic series (DLMF 9.7.2), down to the smallest.
fn airy_terms(z: Wide) -> Vec<Wide> {
    let (mut term, mut terms) = (ONE, vec![]);
    for k in 1.. {
        terms.push(term);
        let k = f64::from(k);
        let next = term * ((6.0 * k - 5.0) * (6.0 * k - 3.0) * (6.0 * k - 1.0)) / (z * (216.0 * k * (2.0 * k - 1.0)));
        if next.is_lost_in(ONE) || next.rounded() > term.rounded() {
            break;
        }
        term = next;
    }
    terms
}

/// Airy's function.
pub(crate) fn airy_ai(x: f64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let a = wide(x.abs());
    let z = a * a.sqrt() * 2.0 / 3.0;
    if x > 103.892 {
        // Where PyTorch takes it to underflow.
        return 0.0;
    }
    if x > 1.0 {
        // DLMF 9.6.2: by the modified Bessel function of the order 1 / 3.
        let third = wide(1.0) / 3.0;
        return (decaying(third, z) * (-z).exp() * (a / 3.0).sqrt() / PI).rounded();
    }
    if x >= -2.09 {
        return airy_near(wide(x)).0.rounded();
    }
    let (s, c) = (z + PI * 0.25).sin_cos();
    let scale = (PI * a.sqrt()).sqrt().recip();
    // Ai = scale ((1 + f) s - g c), Bi = scale ((1 + f) c + g s): DLMF 9.7.9 and 9.7.11.
    let (f, g) = if x > -12.0 {
        let (ai, bi) = airy_near(wide(x));
        ((ai * s + bi * c) / scale - ONE, (bi * s - ai * c) / scale)
    } else {
        let terms = airy_terms(z);
        (every_second(&terms, 2), every_second(&terms, 1))
    };
    let y = z.recip() * z.recip();
    let (f, g) = (f + f * excess(y, AIRY_REST.0), g + g * excess(y, AIRY_REST.1));
    (scale * ((f + ONE) * s - g * c)).rounded()
}
