//! The gamma function's logarithm and its derivatives, Hurwitz's zeta function, the incomplete gamma functions, and how
//! numbers drawn from gamma and beta distributions move with the shapes of those.

use crate::wide::{APERY, EULER, ONE, PI, Wide, ZERO, wide};

/// The Bernoulli numbers of the orders 2, 4, ... (DLMF 24.2.4), as fractions.
const BERNOULLI: [(f64, f64); 15] = [
    (1.0, 6.0),
    (-1.0, 30.0),
    (1.0, 42.0),
    (-1.0, 30.0),
    (5.0, 66.0),
    (-691.0, 2730.0),
    (7.0, 6.0),
    (-3617.0, 510.0),
    (43867.0, 798.0),
    (-174611.0, 330.0),
    (854513.0, 138.0),
    (-236364091.0, 2730.0),
    (8553103.0, 6.0),
    (-23749461029.0, 870.0),
    (8615841276005.0, 14322.0),
];

/// Asymptotic series are taken from here on: their smallest term is below `exp(-2 pi 30)`.
const FAR: f64 = 30.0;

/// What `log(gamma(x))` has beyond `(x - 1/2) log(x) - x + log(2 pi) / 2` (DLMF 5.11.1), for large `x`.
fn stirling(x: Wide) -> Wide {
    bernoulli_series(x, |j| 2.0 * j * (2.0 * j - 1.0)) * x
}

/// `sum(B(2 j) / (divisor(j) x^(2 j)))` over `j` from 1.
fn bernoulli_series(x: Wide, divisor: impl Fn(f64) -> f64) -> Wide {
    let (inverse, mut power, mut total) = ((x * x).recip(), ONE, ZERO);
    for (j, (above, below)) in (1..).zip(BERNOULLI) {
        power = power * inverse;
        total = total + power * above / (below * divisor(f64::from(j)));
    }
    total
}

/// `log(gamma(x))` where `x` is positive.
fn log_gamma(mut x: Wide) -> Wide {
    let mut product = ONE;
    while x.rounded() < FAR {
        product = product * x;
        x = x + ONE;
    }
    (x - 0.5) * x.ln() - x + (PI * 2.0).ln() * 0.5 + stirling(x) - product.ln()
}

/// `log(gamma(1 + x))` where `x` is not negative, accurate near zero (DLMF 5.7.3).
fn log_gamma_beyond_one(x: Wide) -> Wide {
    if x.rounded() < 1e-8 {
        return -(EULER * x) + PI * PI / 12.0 * x * x - APERY / 3.0 * x * x * x;
    }
    log_gamma(x + ONE)
}

/// The logarithmic derivative of the gamma function where `x` is positive (DLMF 5.5.2 and 5.11.2).
fn psi(mut x: Wide) -> Wide {
    let mut shift = ZERO;
    while x.rounded() < FAR {
        shift = shift + x.recip();
        x = x + ONE;
    }
    x.ln() - x.recip() * 0.5 - bernoulli_series(x, |j| 2.0 * j) - shift
}

/// What a number has beyond the nearest whole one.
fn from_whole(x: f64) -> f64 {
    x - x.round()
}

/// The logarithmic derivative of the gamma function.
pub(crate) fn digamma(x: f64) -> f64 {
    match x {
        0.0 => f64::INFINITY.copysign(-x),
        f64::INFINITY => x,
        x if x > 0.0 => psi(wide(x)).rounded(),
        x if x.is_infinite() || from_whole(x) == 0.0 => f64::NAN,
        x => {
            // Reflection: DLMF 5.5.4.
            let (s, c) = (PI * from_whole(x)).sin_cos();
            (psi(ONE - x) - PI * c / s).rounded()
        }
    }
}

/// The sum of `(k + q)^-s` where `q` is positive: terms one by one, then Euler and Maclaurin's formula (DLMF 2.10.1).
fn zeta_positive(s: f64, q: Wide) -> Wide {
    let power = |x: Wide| (-(x.ln() * s)).exp();
    let (mut x, mut total) = (q, ZERO);
    while x.rounded() < FAR + s {
        let term = power(x);
        total = total + term;
        // Each of the rest is less than this one's ratio to the one before, and the ratios grow to one only about s.
        if term.is_lost_in(total) {
            return total;
        }
        x = x + ONE;
    }
    let end = power(x);
    let mut tail = x / (wide(s) - ONE) + 0.5;
    // s (s + 1) ... (s + 2 j - 2) / ((2 j)! x^(2 j - 1)).
    let mut factor = wide(s) / x * 0.5;
    for (j, (above, below)) in (1..).zip(BERNOULLI) {
        let j = f64::from(j);
        tail = tail + factor * above / below;
        factor = factor * (wide(s) + (2.0 * j - 1.0)) * (wide(s) + 2.0 * j) / (x * x);
        factor = factor / ((2.0 * j + 1.0) * (2.0 * j + 2.0));
    }
    total + end * tail
}

/// Hurwitz's zeta function.
pub(crate) fn zeta(s: f64, q: f64) -> f64 {
    match (s, q) {
        (1.0, _) => f64::INFINITY,
        (s, _) if s < 1.0 => f64::NAN,
        (_, q) if q <= 0.0 && q == q.floor() => f64::INFINITY,
        // A negative number to a broken power.
        (s, q) if s.is_nan() || q.is_nan() || (q < 0.0 && s != s.floor()) => f64::NAN,
        // As PyTorch has it: the product of zero and infinity.
        (_, f64::INFINITY) => f64::NAN,
        // Some term's number is below one, or PyTorch multiplies infinity by zero.
        (f64::INFINITY, q) if q < 1.0 => f64::INFINITY,
        (f64::INFINITY, q) => {
            if q == 1.0 {
                1.0
            } else {
                f64::NAN
            }
        }
        (s, q) if q > 0.0 => zeta_positive(s, wide(q)).rounded(),
        (s, q) => {
            // The terms of negative numbers are a piece of another such sum.
            let (low, count) = (wide(q) - q.floor(), -q.floor());
            let below = zeta_positive(s, ONE - low);
            let below = below - zeta_positive(s, ONE - low + count);
            let sign = if s % 2.0 == 0.0 { 1.0 } else { -1.0 };
            (zeta_positive(s, low) + below * sign).rounded()
        }
    }
}

/// The `n`-th derivative of [`digamma`] (DLMF 25.11.12).
pub(crate) fn polygamma(n: f64, x: f64) -> f64 {
    match n {
        0.0 => digamma(x),
        // Where PyTorch's general form has the product of infinity and zero.
        1.0 if x == f64::INFINITY => 0.0,
        1.0 if x == f64::NEG_INFINITY => f64::NAN,
        n if n > 0.0 => {
            // Infinite from 171 on, as in PyTorch.
            let factorial = (1..=n.min(200.0) as u32).fold(ONE, |product, k| product * f64::from(k));
            let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
            sign * factorial.rounded() * zeta(n + 1.0, x)
        }
        _ => f64::NAN,
    }
}

/// `log(1 + u) - u`.
fn bend_of_log(u: Wide) -> Wide {
    if u.abs().rounded() > 0.1 {
        return u.ln_1p() - u;
    }
    // The series of the logarithm without its first term.
    let (mut power, mut total) = (u, ZERO);
    for k in 2.. {
        power = -(power * u);
        let term = power / f64::from(k);
        total = total + term;
        if term.is_lost_in(total) {
            break;
        }
    }
    total
}

/// `x^a exp(-x) / gamma(a)`.
fn density_times(a: Wide, x: Wide) -> Wide {
    if a.rounded() < FAR {
        return (a * x.ln() - x - log_gamma_beyond_one(a)).exp() * a;
    }
    // With Stirling's series, which leaves differences of numbers close to each other in one logarithm.
    (a * bend_of_log((x - a) / a) - stirling(a)).exp() * (a / (PI * 2.0)).sqrt()
}

/// From this shape on the numbers of terms of series and fractions are too large.
const MANY: f64 = 1e8;

/// The incomplete function from 0 to `x`, over `x^a exp(-x)` (DLMF 8.7.1): every term is positive.
fn lower_part(a: Wide, x: Wide) -> Wide {
    if a.rounded() > MANY {
        return density_beyond(a, x, -1.0, |_| ONE);
    }
    let (mut term, mut total, mut k) = (a.recip(), ZERO, a);
    while !term.is_lost_in(total) {
        total = total + term;
        k = k + ONE;
        term = term * x / k;
    }
    total
}

/// The incomplete function from `x` on, over `x^a exp(-x)`: a continued fraction (DLMF 8.9.2, its even part) by the
/// recurrence of its numerators and denominators.
fn upper_part(a: Wide, x: Wide) -> Wide {
    if a.rounded() > MANY {
        return density_beyond(a, x, 1.0, |_| ONE);
    }
    let mut b = x + ONE - a;
    let (mut above, mut below) = ((ZERO, ONE), (ONE, b));
    let mut value = ONE / b;
    for k in 1..10_000_000 {
        let step = -((wide(f64::from(k)) - a) * f64::from(k));
        b = b + 2.0;
        above = (above.1, b * above.1 + step * above.0);
        below = (below.1, b * below.1 + step * below.0);
        let next = above.1 / below.1;
        let change = (next - value) / next;
        value = next;
        if change.abs().rounded() < 1e-25 {
            break;
        }
        // Only their ratios count.
        let scale = below.1.abs().recip();
        above = (above.0 * scale, above.1 * scale);
        below = (below.0 * scale, below.1 * scale);
    }
    value
}

/// The integral from 0 to infinity of a function that decays at about the given rate: the trapezoidal rule after the
/// substitution `y = exp(t - exp(-t)) / rate` (Takahasi and Mori, "Double exponential formulas", 1974).
fn one_sided(rate: f64, f: impl Fn(Wide) -> Wide) -> Wide {
    const STEP: f64 = 1.0 / 64.0;
    let mut total = ZERO;
    for k in -270..=450 {
        let t = wide(f64::from(k) * STEP);
        let e = (-t).exp();
        let y = (t - e).exp() / rate;
        let term = f(y) * y * (e + ONE);
        // Far out the function may be zero times infinity.
        if term.rounded().is_finite() {
            total = total + term;
        }
    }
    total * STEP
}

/// `exp(y) - 1 - y`.
fn bend_of_exp(y: Wide) -> Wide {
    if y.abs().rounded() > 0.1 {
        return y.exp_m1() - y;
    }
    let (mut term, mut total) = (y, ZERO);
    for k in 2.. {
        term = term * y / f64::from(k);
        total = total + term;
        if term.is_lost_in(total) {
            break;
        }
    }
    total
}

/// The integral of the gamma density of shape `a`, times `f`, on one side of `x`, over the density at `x` and `x`, by
/// the distance `y` of the variable's logarithm from that of `x`. It does not matter how large `a` is.
fn density_beyond(a: Wide, x: Wide, side: f64, f: impl Fn(Wide) -> Wide) -> Wide {
    let rate = (a - x).abs().rounded().max(a.rounded().min(x.rounded()).sqrt());
    one_sided(rate, |y| ((a - x) * y * side - x * bend_of_exp(y * side)).exp() * f(y))
}

/// The lower function at the ends of its domain, as PyTorch has it.
fn incomplete_edge(a: f64, x: f64) -> Option<f64> {
    match (a, x) {
        (a, x) if x < 0.0 || a < 0.0 => Some(f64::NAN),
        (0.0, x) => Some(if x > 0.0 { 1.0 } else { f64::NAN }),
        (_, 0.0) => Some(0.0),
        (f64::INFINITY, f64::INFINITY) => Some(f64::NAN),
        (f64::INFINITY, _) => Some(0.0),
        (_, f64::INFINITY) => Some(1.0),
        (a, x) if a.is_nan() || x.is_nan() => Some(f64::NAN),
        _ => None,
    }
}

/// The regularised lower and upper incomplete gamma functions.
fn incomplete(a: f64, x: f64) -> (Wide, Wide) {
    let (a, x) = (wide(a), wide(x));
    if x.rounded() >= 1.0 && x.rounded() > a.rounded() {
        let upper = density_times(a, x) * upper_part(a, x);
        return (ONE - upper, upper);
    }
    let lower = density_times(a, x) * lower_part(a, x);
    if a.rounded() > 1.0 {
        return (lower, ONE - lower);
    }
    // One less x^a / gamma(a + 1) (1 + a sum((-x)^n / ((a + n) n!))), DLMF 8.7.1, without the difference of numbers
    // close to one.
    let (mut term, mut total) = (ONE, ZERO);
    for n in 1.. {
        let n = f64::from(n);
        term = -(term * x) / n;
        let part = term / (a + n);
        total = total + part;
        if part.is_lost_in(total) {
            break;
        }
    }
    let log_front = a * x.ln() - log_gamma_beyond_one(a);
    (lower, -(log_front.exp_m1() + log_front.exp() * a * total))
}

/// The regularised lower incomplete gamma function of shape `a` at `x`.
pub(crate) fn igamma(a: f64, x: f64) -> f64 {
    incomplete_edge(a, x).unwrap_or_else(|| incomplete(a, x).0.rounded())
}

/// The regularised upper incomplete gamma function.
pub(crate) fn igammac(a: f64, x: f64) -> f64 {
    incomplete_edge(a, x).map_or_else(|| incomplete(a, x).1.rounded(), |lower| 1.0 - lower)
}

/// The slope of a gamma number `x` in its shape `a` where its place in the distribution stays: the derivative of the
/// distribution function by `a` over that by `x`, negative.
pub(crate) fn gamma_slope(a: f64, x: f64) -> f64 {
    if a.is_nan() || x.is_nan() || a <= 0.0 || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 || x.is_infinite() || a.is_infinite() {
        return 0.0;
    }
    let (a, x) = (wide(a), wide(x));
    let lean = x.ln() - psi(a);
    if a.rounded() > MANY {
        // The integral of the density's derivative by a, over the side that x is on.
        let side = if lean.is_negative() { -1.0 } else { 1.0 };
        return (x * density_beyond(a, x, side, |y| y + lean * side)).rounded();
    }
    if x.rounded() < FAR || x.rounded() < a.rounded() {
        // The series of the lower function, differentiated term by term. Above the middle its first terms have another
        // sign, and cancel all but exp(-x) of the rest.
        let (mut term, mut k, mut lean) = (x / a, a, a.recip() - lean);
        let mut total = term * lean;
        while k.rounded() < x.rounded() || !(term * lean).is_lost_in(total) {
            k = k + ONE;
            term = term * x / k;
            lean = lean + k.recip();
            total = total + term * lean;
        }
        return total.rounded();
    }
    // Differences of the upper function, by Richardson's extrapolation right to the fourth order.
    let step = 1e-4 * a.rounded().min(1.0);
    let difference = |h: f64| (upper_part(a + h, x) - upper_part(a - h, x)) / (2.0 * h);
    let derivative = (difference(0.5 * step) * 4.0 - difference(step)) / 3.0;
    (x * (derivative + upper_part(a, x) * lean)).rounded()
}

/// The slope of a beta number `x` in its first shape `a` where its place in the distribution stays, the other shape
/// being `total - a`, divided by `1 - x`.
pub(crate) fn beta_slope(x: f64, a: f64, total: f64) -> f64 {
    let b = wide(total) - a;
    if x.is_nan() || !(a > 0.0 && b.rounded() > 0.0) {
        return f64::NAN;
    }
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (a, x, total) = (wide(a), wide(x), wide(total));
    let rest = ONE - x;
    let lean = psi(a) - psi(total) - x.ln();
    // The hypergeometric series of the distribution function (DLMF 8.17.8), differentiated term by term; about the
    // other end it is the other shape's.
    let series = |x: Wide, a: Wide, mut lean: Wide, first: bool| {
        let (mut term, mut sum, mut k) = (x / a, ZERO, ZERO);
        loop {
            if first {
                lean = lean + (a + k).recip();
            }
            let part = term * lean;
            sum = sum + part;
            // While terms grow they may pass through zero.
            if k.rounded() > 10.0 && (x * (total + k)).rounded() < (a + k).rounded() && part.is_lost_in(sum) {
                return sum;
            }
            lean = lean - (total + k).recip();
            term = term * x * (total + k) / (a + k + ONE);
            k = k + ONE;
        }
    };
    // How many digits a series loses beyond the middle of the distribution, as a power of e.
    let below = (x * total).rounded() < a.rounded();
    let lost = if below { -(a * x.ln()).rounded() } else { -(b * rest.ln()).rounded() };
    let near = x.rounded() < 0.5;
    if total.rounded() > MANY || (x.rounded().min(rest.rounded()) < 1e-4 && below != near && lost > 30.0) {
        return beta_slope_by_integral(x, a, b, lean);
    }
    let this_end = if below { near || lost > 30.0 } else { near && lost < 30.0 };
    if this_end {
        return series(x, a, lean, true).rounded();
    }
    // The same density, by the other end's distribution function.
    (x / rest * -series(rest, b, lean, false)).rounded()
}

/// [`beta_slope`] by the integral of the density's derivative by `a`, over the side that `x` is on, by the distance `y`
/// of the logarithm of the variable (or of one less it) from that of `x`; for shapes whose series have too many terms.
fn beta_slope_by_integral(x: Wide, a: Wide, b: Wide, lean: Wide) -> f64 {
    let rest = ONE - x;
    let integral = |x: Wide, rest: Wide, a: Wide, b: Wide, f: &dyn Fn(Wide, Wide) -> Wide| {
        let odds = x / rest;
        // The first two derivatives of the density's logarithm at x.
        let tilt = ((b - ONE) * odds - a).abs().rounded();
        let bend = ((b - ONE).abs() * odds * (odds + ONE)).sqrt().rounded();
        one_sided(tilt.max(bend).max(a.rounded().min(1.0)), |y| {
            let grown = (-(odds * (-y).exp_m1())).ln_1p();
            ((b - ONE) * grown - a * y).exp() * f(y, grown)
        })
    };
    match lean.is_negative() {
        false => (x / rest * integral(x, rest, a, b, &|y, _| y + lean)).rounded(),
        true => integral(rest, x, b, a, &|_, grown| grown - lean).rounded(),
    }
}
