//! Bessel functions of the first and second kind, modified ones of the second, and Airy's.
//!
//! Each is a Chebyshev series in a variable that covers a range, times what the function does at its ends; beyond the
//! last range that is the asymptotic form. The division into ranges is that of Clenshaw, "Chebyshev series for
//! mathematical functions" (1962); the coefficients were computed with mpmath in 45 digits and cut where they no longer
//! matter to a double.

use super::super::{Isa, double, select};
use super::{I, exp, i0, i1, log};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_4, PI, SQRT_2};

/// The Chebyshev series `sum c[k] T_k(t)` by Clenshaw's recurrence.
fn series(c: &[f64], t: f64) -> f64 {
    let (mut b1, mut b2) = (0.0, 0.0);
    for &c in c[1..].iter().rev() {
        (b1, b2) = (2.0 * t * b1 - b2 + c, b1);
    }
    t * b1 - b2 + c[0]
}

/// [`series`] at `u - 1` by Reinsch's form of the recurrence (Oliver, "An error analysis of the modified Clenshaw
/// method", 1977): for small `u` the other one magnifies errors, first of all that of the difference.
#[inline(always)]
fn series_from_left(c: &[f64], u: f64) -> f64 {
    let (mut b, mut d) = (0.0, 0.0);
    for &c in c[1..].iter().rev() {
        d = 2.0 * u * b - d + c;
        b = d - b;
    }
    u * b - d + c[0]
}

/// The sine and cosine of `x - shift` for a quarter or three quarters of pi, right also where they are small.
fn shifted(x: f64, three: bool) -> (f64, f64) {
    let (sin, cos) = (double::sin::<I>, double::cos::<I>);
    if x > 1e6 {
        let (sum, difference) = ((sin(x) + cos(x)) / SQRT_2, (sin(x) - cos(x)) / SQRT_2);
        return if three { (-sum, difference) } else { (difference, sum) };
    }
    // The shift in two doubles, and what the subtraction of the first loses.
    let (shift, shift_rest) =
        if three { (3.0 * FRAC_PI_4, 9.184850993605148e-17) } else { (FRAC_PI_4, 3.061616997868383e-17) };
    let turned = x - shift;
    let rest = ((x - turned) - shift) - shift_rest;
    let (s, c) = (sin(turned), cos(turned));
    (s + c * rest, c - s * rest)
}

/// Hankel's form of the first and second kind beyond 5: `[P, x Q]` up to 8 and beyond, and `d` for [`leading`].
fn hankel(x: f64, middle: [&[f64]; 2], far: [&[f64]; 2], d: &[f64], three: bool) -> (f64, f64) {
    let ([p, q], t) = if x <= 8.0 { (middle, 80.0 / (3.0 * x) - 13.0 / 3.0) } else { (far, 128.0 / x / x - 1.0) };
    let (p, q) = (series(p, t), series(q, t) / x * (1.0 + leading(25.0 / x / x, d)));
    let (s, c) = shifted(x, three);
    let scale = (FRAC_2_PI / x).sqrt();
    (scale * (p * c - q * s), scale * (p * s + q * c))
}

fn hankel_0(x: f64) -> (f64, f64) {
    hankel(x, [&P0_MIDDLE, &Q0_MIDDLE], [&P0, &Q0], &REST_0, false)
}

fn hankel_1(x: f64) -> (f64, f64) {
    hankel(x, [&P1_MIDDLE, &Q1_MIDDLE], [&P1, &Q1], &REST_1, true)
}

/// Note [Leading terms]: PyTorch's Bessel and Airy functions leave the leading 1 out of the denominators of Cephes's
/// rational forms of `Q` (and, for Airy's, `P`). That shows up to the seventh digit where those forms begin, at 5, and
/// to the ninth at 10; the same program should give the same numbers. A denominator is `z^n + d`, `d` being given from
/// the highest power down, so that what it divides is too large by this part of itself.
fn leading(z: f64, d: &[f64]) -> f64 {
    z.powi(d.len() as i32) / d.iter().fold(0.0, |sum, d| sum * z + d)
}

/// Cephes's denominators of `Q`, of the orders 0 and 1.
pub(super) const REST_0: [f64; 7] = [
    64.3178256118178,
    856.4300259769806,
    3882.4018360540163,
    7240.467741956525,
    5930.727011873169,
    2062.0933166032783,
    242.0057402402914,
];
pub(super) const REST_1: [f64; 7] = [
    74.23732770356752,
    1056.4488603826283,
    4986.410583376536,
    9562.318924047562,
    7997.041604473507,
    2826.1927851763908,
    336.0936078106983,
];

/// Whether the functions of the first and second kind are power series, which need no branches: `j0_near` and so on take
/// it. (Those of the second kind need a positive number as well.)
#[inline(always)]
pub fn is_near(x: f64) -> bool {
    x.abs() <= 5.0
}

/// [`j0`] of a number that [is near](is_near).
#[inline(always)]
pub fn j0_near<I: Isa>(x: f64) -> f64 {
    let square = x * x;
    select(square < 1e-10, 1.0 - square / 4.0, series_from_left(&J0, square / 32.0))
}

/// [`j1`] of a number that [is near](is_near).
#[inline(always)]
pub fn j1_near<I: Isa>(x: f64) -> f64 {
    x * series_from_left(&J1, x * x / 32.0)
}

/// [`y0`] of a positive number that [is near](is_near).
#[inline(always)]
pub fn y0_near<I: Isa>(x: f64) -> f64 {
    let u = x * x / 32.0;
    FRAC_2_PI * double::log::<I>(x) * series_from_left(&J0, u) + series_from_left(&Y0, u)
}

/// [`y1`] of a positive number that [is near](is_near).
#[inline(always)]
pub fn y1_near<I: Isa>(x: f64) -> f64 {
    let u = x * x / 32.0;
    FRAC_2_PI * (double::log::<I>(x) * x * series_from_left(&J1, u) - 1.0 / x) + x * series_from_left(&Y1, u)
}

/// The Bessel function of the first kind, order 0.
pub fn j0(x: f64) -> f64 {
    let x = x.abs();
    if x == f64::INFINITY {
        // As PyTorch has it, here and below: the sine of infinity.
        return f64::NAN;
    }
    if is_near(x) { j0_near::<I>(x) } else { hankel_0(x).0 }
}

/// The Bessel function of the first kind, order 1.
pub fn j1(x: f64) -> f64 {
    let a = x.abs();
    if a == f64::INFINITY {
        return f64::NAN;
    }
    if is_near(x) { j1_near::<I>(x) } else { hankel_1(a).0 * 1f64.copysign(x) }
}

/// The Bessel function of the second kind, order 0.
pub fn y0(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_nan() || x < 0.0 || x == f64::INFINITY {
        return f64::NAN;
    }
    if is_near(x) { y0_near::<I>(x) } else { hankel_0(x).1 }
}

/// The Bessel function of the second kind, order 1.
pub fn y1(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_nan() || x < 0.0 || x == f64::INFINITY {
        return f64::NAN;
    }
    if is_near(x) { y1_near::<I>(x) } else { hankel_1(x).1 }
}

/// `exp(x)` times the modified Bessel function of the second kind of order 0.
pub fn scaled_k0(x: f64) -> f64 {
    k(x, |x| series(&K0, x * x / 2.0 - 1.0) - log(0.5 * x) * i0(x), &K0_LARGE, true)
}

/// `exp(x)` times the modified Bessel function of the second kind of order 1.
pub fn scaled_k1(x: f64) -> f64 {
    k(x, |x| series(&K1, x * x / 2.0 - 1.0) / x + log(0.5 * x) * i1(x), &K1_LARGE, true)
}

/// The modified Bessel function of the second kind, order 0.
pub fn k0(x: f64) -> f64 {
    k(x, |x| series(&K0, x * x / 2.0 - 1.0) - log(0.5 * x) * i0(x), &K0_LARGE, false)
}

/// The modified Bessel function of the second kind, order 1.
pub fn k1(x: f64) -> f64 {
    k(x, |x| series(&K1, x * x / 2.0 - 1.0) / x + log(0.5 * x) * i1(x), &K1_LARGE, false)
}

fn k(x: f64, small: fn(f64) -> f64, large: &[f64], scaled: bool) -> f64 {
    if x == 0.0 {
        f64::INFINITY
    } else if x.is_nan() || x < 0.0 {
        f64::NAN
    } else if x == f64::INFINITY {
        0.0
    } else if x <= 2.0 {
        small(x) * if scaled { exp(x) } else { 1.0 }
    } else {
        series(large, 4.0 / x - 1.0) / x.sqrt() * if scaled { 1.0 } else { exp(-x) }
    }
}

/// `sin(x) / x`, 1 at 0.
pub fn spherical_j0(x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    if x.abs() < 1e-4 {
        return 1.0 - x * x / 6.0;
    }
    double::sin::<I>(x) / x
}

/// What PyTorch's values of Airy's function below -2.09 have beyond the function's; see Note [Leading terms].
fn beyond_airy(x: f64, z: f64) -> f64 {
    const P: [f64; 9] = [13.356, 32.683, 26.737, 9.1871, 1.4753, 0.115687, 4.4029e-3, 7.5472e-5, 4.5185e-7];
    const Q: [f64; 10] =
        [9.3089, 19.835, 15.565, 5.4769, 0.95429, 8.6458e-2, 4.1266e-3, 1.0126e-4, 1.1717e-6, 4.9183e-9];
    if x >= -2.09 {
        return 0.0;
    }
    // Fits of the functions themselves.
    let y = 1.0 / (z * z);
    let p = y * (-0.036749708 + y * (0.042296073 - y * 0.050564775)) * leading(y, &P);
    let q = (0.069281506 - y * (0.031771131 - y * 0.029498637)) / z * leading(y, &Q);
    let (s, c) = (double::sin::<I>(z + FRAC_PI_4), double::cos::<I>(z + FRAC_PI_4));
    (p * s - q * c) / (PI.sqrt() * x.abs().sqrt().sqrt())
}

/// `2/3 a^(3/2)`, and what its rounding left out: far out that is much of a sine's argument or of an exponential's.
fn airy_argument(a: f64) -> (f64, f64) {
    let root = a.sqrt();
    let (square, below) = double::two_product::<I>(root, root);
    let root_rest = ((a - square) - below) / (2.0 * root);
    let (product, rest) = double::two_product::<I>(a, root);
    let z = 2.0 * product / 3.0;
    let (thrice, below) = double::two_product::<I>(3.0, z);
    (z, ((2.0 * product - thrice) - below + 2.0 * (rest + a * root_rest)) / 3.0)
}

/// Airy's function.
pub fn airy_ai(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::NAN;
    }
    // 2/3 |x|^(3/2) at the ends of the ranges, 2 and 8.
    const Z2: f64 = 1.885_618_083_164_126_8;
    const Z8: f64 = 15.084_944_665_313_014;
    let a = x.abs();
    let (z, rest) = airy_argument(a);
    if x > 103.892 {
        0.0
    } else if x > 2.0 {
        series(&AI_DECAY, 2.0 * Z2 / z - 1.0) * (exp(-z) * (1.0 - rest)) / (2.0 * PI.sqrt() * a.sqrt().sqrt())
    } else if x >= -2.0 {
        series(&AI_MIDDLE, x / 2.0)
    } else if x >= -8.0 {
        series(&AI_OSCILLATING, (x + 5.0) / 3.0) + beyond_airy(x, z)
    } else {
        let t = 2.0 * (Z8 / z) * (Z8 / z) - 1.0;
        let (s, c) = (double::sin::<I>(z), double::cos::<I>(z));
        let (rest_s, rest_c) = (double::sin::<I>(rest), double::cos::<I>(rest));
        let (s, c) = (s * rest_c + c * rest_s, c * rest_c - s * rest_s);
        let (s, c) = ((c + s) / SQRT_2, (c - s) / SQRT_2);
        (s * series(&AI_P, t) - c * series(&AI_Q, t) / z) / (PI.sqrt() * a.sqrt().sqrt())
    }
}

/// `J0` on [0, 8] in `x^2 / 32 - 1`.
pub(super) const J0: [f64; 17] = [
    0.15772797147489012,
    -0.008723442352852221,
    0.2651786132033368,
    -0.37009499387264977,
    0.15806710233209725,
    -0.034893769411408884,
    0.004819180069467605,
    -0.00046062616620627504,
    3.246032882100508e-05,
    -1.7619469077621507e-06,
    7.608163592418782e-08,
    -2.679253530557673e-09,
    7.848696314479465e-11,
    -1.9438346867370164e-12,
    4.125320595634374e-14,
    -7.588508125447546e-16,
    1.2218515873961411e-17,
];
/// `J1 / x`, likewise.
pub(super) const J1: [f64; 16] = [
    0.08104484632565812,
    -0.1489751450676521,
    0.1609992623572097,
    -0.08268049176681791,
    0.022213639654966037,
    -0.003646940600769276,
    0.0004050337728354822,
    -3.255554866857259e-05,
    1.9858774049915165e-06,
    -9.521984756750436e-08,
    3.687133759097148e-09,
    -1.178026622695885e-10,
    3.160154580348003e-12,
    -7.221755239651773e-14,
    1.4232144003513942e-15,
    -2.4441972916190464e-17,
];
/// `Y0 - 2 / pi log(x) J0`, likewise.
pub(super) const Y0: [f64; 17] = [
    -0.03314611320328494,
    -0.2744743055297453,
    0.17903431407718265,
    0.26156734625504663,
    -0.17730201278114358,
    0.04719668959576339,
    -0.007287962479552079,
    0.0007531135932577742,
    -5.632079141056987e-05,
    3.206532537654801e-06,
    -1.44072332740187e-07,
    5.248794787330516e-09,
    -1.5837552541812015e-10,
    4.02633081830612e-12,
    -8.747341203310769e-14,
    1.6434898714919468e-15,
    -2.6977881152566837e-17,
];
/// `(Y1 - 2 / pi (log(x) J1 - 1 / x)) / x`, likewise.
pub(super) const Y1: [f64; 17] = [
    0.0025380132357417816,
    -0.01608717304766875,
    -0.09591204536083074,
    0.08445197259652346,
    -0.028328123944594365,
    0.005289897544167113,
    -0.0006414551451326356,
    5.505982873338744e-05,
    -3.53808001868935e-06,
    1.7707804556154404e-07,
    -7.11055004989928e-09,
    2.344337905911516e-10,
    -6.4651518414115946e-12,
    1.51429151205002e-13,
    -3.0511859694473254e-15,
    5.34668038572867e-17,
    -8.224911372021585e-19,
];
/// `P` of Hankel's asymptotic form (Abramowitz and Stegun 9.2.5) between 5 and 8, in `80 / (3 x) - 13 / 3`.
const P0_MIDDLE: [f64; 11] = [
    0.9981732349858513,
    -0.0007940113510142363,
    -3.981946606831815e-05,
    5.784902456049964e-07,
    3.475844885193338e-09,
    -4.657212298752137e-10,
    1.4140828545207728e-11,
    -8.815539350421692e-14,
    -1.5823794489321456e-14,
    1.0848787005642545e-15,
    -3.9951392498234963e-17,
];
/// `x Q`, likewise.
const Q0_MIDDLE: [f64; 12] = [
    -0.1231662176343795,
    0.0007743728852134879,
    3.409743771829319e-05,
    -9.424938030309792e-07,
    2.8685914818958776e-09,
    8.09563106037046e-10,
    -3.9901648771526926e-11,
    8.472961728866187e-13,
    2.1728306509332535e-14,
    -3.1759818060356423e-15,
    1.7753018169371295e-16,
    -5.6402827045995414e-18,
];
/// `P` of Hankel's asymptotic form (Abramowitz and Stegun 9.2.5) between 5 and 8, in `80 / (3 x) - 13 / 3`.
const P1_MIDDLE: [f64; 11] = [
    1.003073789591058,
    0.001346225397682878,
    6.977149327235652e-05,
    -7.743912773605948e-07,
    -6.069637598227435e-09,
    5.956775824764035e-10,
    -1.6428752711415195e-11,
    6.169464939003534e-14,
    1.9613878885912762e-14,
    -1.2474130040767966e-15,
    4.3369087390301354e-17,
];
/// `x Q`, likewise.
const Q1_MIDDLE: [f64; 12] = [
    0.3724075693400465,
    -0.0011032607066001558,
    -5.040269138845059e-05,
    1.1987938081820041e-06,
    -1.507187294601152e-09,
    -1.0188957840640807e-09,
    4.649632895537494e-11,
    -8.949039075890268e-13,
    -2.8907179179964836e-14,
    3.6843379714371766e-15,
    -1.9670276364991622e-16,
    5.886160947845838e-18,
];
/// `P` of Hankel's asymptotic form (Abramowitz and Stegun 9.2.5) beyond 8, in `128 / x^2 - 1`.
pub(super) const P0: [f64; 13] = [
    0.9994603493475187,
    -0.0005365220468132117,
    3.0751847875194745e-06,
    -5.1705945376060975e-08,
    1.6306464635151382e-09,
    -7.86409137723707e-11,
    5.168262387349193e-12,
    -4.3045788699253914e-13,
    4.3265957431549404e-14,
    -5.069034095935236e-15,
    6.748072215733873e-16,
    -1.0011513723467786e-16,
    1.6305919233744186e-17,
];
/// `x Q`, likewise.
pub(super) const Q0: [f64; 16] = [
    -0.12444683684269607,
    0.0005470815954089319,
    -5.9315987288485175e-06,
    1.4377965798375193e-07,
    -5.817532749493056e-09,
    3.376097523734991e-10,
    -2.565397936797308e-11,
    2.404916100281365e-12,
    -2.6690625482579414e-13,
    3.4041800321963686e-14,
    -4.87994410531204e-15,
    7.729703176242605e-16,
    -1.3348852171502517e-16,
    2.4865952389390515e-17,
    -4.952892629886516e-18,
    1.0473158973776097e-18,
];
/// `P` of Hankel's asymptotic form (Abramowitz and Stegun 9.2.5) beyond 8, in `128 / x^2 - 1`.
pub(super) const P1: [f64; 13] = [
    1.0009030408600137,
    0.0008989898330859408,
    -3.987284300488908e-06,
    6.177633960644299e-08,
    -1.8718907491063067e-09,
    8.816898659582339e-11,
    -5.704863640395645e-12,
    4.699195515230542e-13,
    -4.6842237839904895e-14,
    5.452674896044717e-15,
    -7.221180842274018e-16,
    1.0667689114335412e-16,
    -1.7312313216116335e-17,
];
/// `x Q`, likewise.
pub(super) const Q1: [f64; 15] = [
    0.3742222965562826,
    -0.0007702178839325664,
    7.3108922063643636e-06,
    -1.676782510726674e-07,
    6.583354662120443e-09,
    -3.749090950541556e-10,
    2.8121750359748866e-11,
    -2.61145253946232e-12,
    2.8774212663332235e-13,
    -3.649001916061838e-14,
    5.206626366226707e-15,
    -8.215318025458595e-16,
    1.4141084390211833e-16,
    -2.626761589838529e-17,
    5.2192649196714085e-18,
];
/// `K0 + log(x / 2) I0` on [0, 2] in `x^2 / 2 - 1`.
pub(super) const K0: [f64; 10] = [
    -0.2676636966169514,
    0.3442898999246285,
    0.0359799365153615,
    0.001264615411446926,
    2.286212103119452e-05,
    2.5347910790261494e-07,
    1.904516377220209e-09,
    1.0349695257633625e-11,
    4.2598161427910826e-14,
    1.3744654358807508e-16,
];
/// `x (K1 - log(x / 2) I1)`, likewise.
pub(super) const K1: [f64; 11] = [
    0.7626501136694739,
    -0.3531559607765449,
    -0.12261118082265715,
    -0.006975723859639864,
    -0.0001730288957513052,
    -2.4334061415659684e-06,
    -2.213387630734726e-08,
    -1.4114883926335278e-10,
    -6.666901694199329e-13,
    -2.427449850519366e-15,
    -7.023863479386288e-18,
];
/// `exp(x) sqrt(x) K0` beyond 2 in `4 / x - 1`.
pub(super) const K0_LARGE: [f64; 24] = [
    1.2201515410329777,
    -0.0314481013119645,
    0.0015698838857300533,
    -0.00012849549581627802,
    1.39498137188765e-05,
    -1.8317555227191195e-06,
    2.766813639445015e-07,
    -4.660489897687948e-08,
    8.574034017414225e-09,
    -1.6975345093890614e-09,
    3.5773972814003283e-10,
    -7.957489244477396e-11,
    1.8559491149549264e-11,
    -4.514597883374519e-12,
    1.1403405882073441e-12,
    -2.9800969231481784e-13,
    8.032890775068375e-14,
    -2.2275133267462965e-14,
    6.340076476276646e-15,
    -1.848593377920907e-15,
    5.5120559994043335e-16,
    -1.6782311257549006e-16,
    5.2103917776435543e-17,
    -1.6475805939842632e-17,
];
/// `exp(x) sqrt(x) K1`, likewise.
pub(super) const K1_LARGE: [f64; 24] = [
    1.3603130952422213,
    0.10392373657681724,
    -0.002857816859622779,
    0.00019521551847135162,
    -1.936197974166083e-05,
    2.406484947837217e-06,
    -3.5019606030878126e-07,
    5.7410841254500495e-08,
    -1.0345762465678097e-08,
    2.0150497551970347e-09,
    -4.1903547593419254e-10,
    9.218315187605315e-11,
    -2.129967838427791e-11,
    5.139639673482343e-12,
    -1.2891739609498229e-12,
    3.348419666052243e-13,
    -8.976705182010146e-14,
    2.4771544242195988e-14,
    -7.0198370892147685e-15,
    2.038703166239861e-15,
    -6.057047270643018e-16,
    1.8380935752430455e-16,
    -5.689462849193648e-17,
    1.7940510478863572e-17,
];
/// `Ai` on [-2, 2] in `x / 2`.
const AI_MIDDLE: [f64; 26] = [
    0.26381798191440015,
    -0.19176745775077353,
    -0.11544587863809751,
    0.10129229869705277,
    -0.020634225363441998,
    -0.005263460235879724,
    0.003521327342050992,
    -0.0005522127136308693,
    -8.722346961097546e-05,
    4.9972155304858785e-05,
    -6.58209616965938e-06,
    -7.465940980665808e-07,
    3.8371005050115145e-07,
    -4.427726202518875e-08,
    -3.901520676114033e-09,
    1.8443828865292734e-09,
    -1.9121426939191717e-10,
    -1.3741370931826864e-11,
    6.069496004903079e-12,
    -5.749799143489761e-13,
    -3.483089713417748e-14,
    1.452966097730621e-14,
    -1.2731201711598244e-15,
    -6.658181469864444e-17,
    2.6436799630296418e-17,
    -2.162377737234879e-18,
];
/// `2 sqrt(pi) x^(1/4) exp(z) Ai(x)` beyond 2, `z = 2/3 x^(3/2)`, in `2 z(2) / z - 1`.
const AI_DECAY: [f64; 24] = [
    0.9844053049171552,
    -0.014792784850104199,
    0.0007327177465426715,
    -6.12595423417825e-05,
    6.83476697557269e-06,
    -9.237229735403982e-07,
    1.436225340438052e-07,
    -2.489319422322096e-08,
    4.709793440054328e-09,
    -9.583863708112733e-10,
    2.0745855483677591e-10,
    -4.737267332192277e-11,
    1.1336099808224236e-11,
    -2.827706782319351e-12,
    7.320712095125598e-13,
    -1.9599793911089723e-13,
    5.4101162570683925e-14,
    -1.5356466802223836e-14,
    4.472340393300025e-15,
    -1.3338094674756683e-15,
    4.066582046456231e-16,
    -1.265583225645289e-16,
    4.015126334015871e-17,
    -1.2969972135960937e-17,
];
/// `Ai(x)` on [-8, -2] in `x / 3 + 5 / 3`.
const AI_OSCILLATING: [f64; 35] = [
    0.008211707665311681,
    -0.0728797289203074,
    0.0709902874410081,
    0.09365605237669514,
    0.12436666036834287,
    0.1851850924086498,
    -0.18526566701769376,
    -0.06789145818277069,
    0.08483873684822452,
    -0.0012108490180038633,
    -0.01741150467717718,
    0.00392522918742804,
    0.0016515217920118114,
    -0.0008024965246025223,
    -1.948638705413569e-05,
    7.803666115062975e-05,
    -1.2447733966111957e-05,
    -3.6344179149395517e-06,
    1.4587700868917968e-06,
    -1.6890546691311816e-08,
    -8.001874692970888e-08,
    1.3454447592537027e-08,
    1.8259126177951898e-09,
    -8.825753229745724e-10,
    5.198749925127941e-11,
    2.7580389520277003e-11,
    -5.811387953316283e-12,
    -1.7214179063364052e-13,
    2.1670484634796728e-13,
    -2.32324887640088e-14,
    -3.476548497354827e-15,
    1.1056455607876884e-15,
    -4.408086925735383e-17,
    -2.325193994495019e-17,
    3.910625186875424e-18,
];
/// `P` of the asymptotic form (Abramowitz and Stegun 10.4.60) of `Ai(-x)` beyond 8, in `2 z(8)^2 / z^2 - 1`.
const AI_P: [f64; 8] = [
    0.9999188179179308,
    -8.104660923669418e-05,
    1.3475665984689078e-07,
    -7.085584714312658e-10,
    7.48184186508309e-12,
    -1.2902774343407968e-13,
    3.225040209748759e-15,
    -1.0809146475761038e-16,
];
/// `z Q`, likewise.
const AI_Q: [f64; 10] = [
    0.0693617822693956,
    -8.239286225558228e-05,
    2.672091950986567e-07,
    -2.074236853681907e-09,
    2.87339259334291e-11,
    -6.087352091889245e-13,
    1.7924891244638023e-14,
    -6.875999019684054e-16,
    3.279803636500588e-17,
    -1.8787767960871875e-18,
];
