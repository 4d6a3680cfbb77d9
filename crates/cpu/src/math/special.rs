//! Special functions in `f64`, which `f32` goes through and rounds once: mostly scalar code, which branches. What takes an
//! instruction set has no branches, for loops that vectorise.

pub mod bessel;
pub mod gamma;
pub mod polynomial;
pub mod single;

use super::double::{self, erfcx_positive};
use super::poly::{fma, horner};
use super::{Baseline, Float, Isa, select};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI, SQRT_2};

// One level for what is scalar, so that results do not depend on the machine.
type I = Baseline;

fn exp(x: f64) -> f64 {
    double::exp::<I>(x)
}

fn log(x: f64) -> f64 {
    double::log::<I>(x)
}

fn log1p(x: f64) -> f64 {
    double::log1p::<I>(x)
}

/// The distance to the nearest integer, exactly, and whether that integer is odd.
#[inline(always)]
fn from_integer<I: Isa>(x: f64) -> (f64, bool) {
    let whole = Float::round::<I>(x);
    let half = whole * 0.5;
    (x - whole, Float::trunc::<I>(half) != half)
}

fn sin_pi(x: f64) -> f64 {
    let (r, odd) = from_integer::<I>(x);
    let s = double::sin::<I>(PI * r);
    if odd { -s } else { s }
}

/// The logarithm of the gamma function's magnitude.
pub fn lgamma(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.is_infinite() || (x <= 0.0 && x.floor() == x) {
        return f64::INFINITY;
    }
    if x.abs() < 1e-20 {
        return -log(x.abs());
    }
    if x < 0.0 {
        // Reflection: gamma(x) gamma(-x) = -pi / (x sin(pi x)).
        return log(PI / (x * sin_pi(x)).abs()) - lgamma(-x);
    }
    // lgamma(2 + z), to the last place also where it is near zero; even and odd powers side by side.
    let near_two = |z: f64| {
        let square = z * z;
        let even = horner!(I, square; 0.42278433509846713, -0.06735230105319814, -0.0073855510286681535, -0.0011927539120010226, -0.00022315475074520367, -4.4926351103833334e-05, -9.438458716242811e-06, -2.0449201467015115e-06, -4.303558760359961e-07, -1.3412819758517287e-07);
        let odd = horner!(I, square; 0.3224670334241132, 0.02058080842778457, 0.002890510330738737, 0.0005096695248853096, 9.945750909889392e-05, 2.050726741605779e-05, 4.374374916915131e-06, 9.578663334114758e-07, 2.0304806751615227e-07, 6.379047507619774e-08);
        z * fma::<I, _>(odd, z, even)
    };
    if x < 0.5 {
        return near_two(x) - log1p(x) - log(x);
    }
    if x < 1.5 {
        return near_two(x - 1.0) - log1p(x - 1.0);
    }
    if x < 10.0 {
        let (mut z, mut product) = (x, 1.0);
        while z >= 2.5 {
            z -= 1.0;
            product *= z;
        }
        return near_two(z - 2.0) + log(product);
    }
    // Stirling's series (Abramowitz and Stegun 6.1.41).
    let r = 1.0 / x;
    let z = r * r;
    let series = r * horner!(I, z; 1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0,
        -691.0 / 360360.0, 1.0 / 156.0, -3617.0 / 122400.0);
    const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_8;
    (x - 0.5) * (log(x) - 1.0) + ((HALF_LOG_TWO_PI - 0.5) + series)
}

/// [`digamma`] on [1, 2], to the last place also near its zero there: the distance from that, in two parts, times the
/// interpolation of the quotient in 22 Chebyshev points (mpmath in 50 digits).
fn digamma_near_one(x: f64) -> f64 {
    let t = x - 1.5;
    let quotient = horner!(I, t; 0.951055876031833, -0.4236274212814606, 0.2405424842407739, -0.14840492305388006,
        0.09498872445498366, -0.06192213327556183, 0.04076083381023946, -0.02697579665686472, 0.017907252496345213,
        -0.011908220169786002, 0.007926943794456376, -0.0052799364178857415, 0.0035190141649363805,
        -0.0023455016279107115, 0.0015565879761797945, -0.0010364227247828023, 0.0007234757252061551,
        -0.00048606417050412354, 0.00022695205071257896, -0.00014460384609240088, 0.0002599100450715037,
        -0.00017837342400462423);
    ((x - 1.4616321449683622) - 9.549995429965697e-17) * quotient
}

/// The logarithmic derivative of the gamma function; NaN at negative integers, infinite at zero.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if x < 0.0 {
        let (r, _) = from_integer::<I>(x);
        if r == 0.0 || x.is_infinite() {
            return f64::NAN;
        }
        return digamma(1.0 - x) - PI / double::tan::<I>(PI * r);
    }
    if x < 10.0 {
        // To [1, 2]: down from above, where the sum has no differences.
        let (mut x, mut shift) = (x, 0.0);
        while x > 2.0 {
            x -= 1.0;
            shift += 1.0 / x;
        }
        return if x < 1.0 { digamma_near_one(x + 1.0) - 1.0 / x } else { shift + digamma_near_one(x) };
    }
    // Abramowitz and Stegun 6.3.18.
    let r = 1.0 / x;
    let z = r * r;
    let series = z * horner!(I, z; 1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0,
        -691.0 / 32760.0, 1.0 / 12.0, -3617.0 / 8160.0);
    log(x) - 0.5 * r - series
}

/// The Hurwitz zeta function, the sum of `(k + q)^-x`.
pub fn zeta(x: f64, q: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    if q.is_nan() || x < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q.floor() == q {
            return f64::INFINITY;
        }
        if x.floor() != x {
            // A negative number to a broken power.
            return f64::NAN;
        }
    }
    if x.is_nan() || q == f64::INFINITY {
        return f64::NAN;
    }
    // The first terms one by one, then Euler and Maclaurin's formula; (2k)! / B_2k are its constants.
    const DIVISORS: [f64; 12] = [
        12.0,
        -720.0,
        30240.0,
        -1209600.0,
        47900160.0,
        -1.8924375803183791606e9,
        7.47242496e10,
        -2.950130727918164224e12,
        1.1646782814350067249e14,
        -4.5979787224074726105e15,
        1.8152105401943546773e17,
        -7.1661652561756670113e18,
    ];
    // Whole exponents, which derivatives of the gamma function have, are products.
    let whole = if x <= 32.0 && x.floor() == x { x as i32 } else { 0 };
    let power = |a: f64| if whole > 0 { a.powi(whole).recip() } else { double::pow::<I>(a, -x) };
    let mut sum = power(q);
    let mut a = q;
    let mut term = sum;
    let mut count = 0;
    while count < 9 || a <= 9.0 {
        count += 1;
        a += 1.0;
        term = power(a);
        sum += term;
        if (term / sum).abs() < f64::EPSILON / 2.0 {
            return sum;
        }
    }
    sum += term * a / (x - 1.0) - 0.5 * term;
    let (mut factor, mut k) = (1.0, 0.0);
    for divisor in DIVISORS {
        factor *= x + k;
        term /= a;
        let step = factor * term / divisor;
        sum += step;
        if (step / sum).abs() < f64::EPSILON / 2.0 {
            break;
        }
        k += 1.0;
        factor *= x + k;
        term /= a;
        k += 1.0;
    }
    sum
}

/// The `order`-th derivative of [`digamma`]; NaN for negative orders.
pub fn polygamma(order: i64, x: f64) -> f64 {
    match order {
        ..0 => f64::NAN,
        0 => digamma(x),
        // Where the general form has the product of infinity and zero.
        1 if x == f64::INFINITY => 0.0,
        1 if x < 0.5 => {
            // Reflection (Abramowitz and Stegun 6.4.7).
            let s = sin_pi(x);
            (PI / s) * (PI / s) - zeta(2.0, 1.0 - x)
        }
        _ => {
            let n = order as f64;
            let magnitude = if order <= 170 {
                (2..=order).fold(1.0, |product, k| product * k as f64)
            } else {
                exp(lgamma(n + 1.0))
            };
            magnitude * zeta(n + 1.0, x) * if order % 2 == 0 { -1.0 } else { 1.0 }
        }
    }
}

/// The least tail that [`normal_quantile`] takes.
const LEAST_TAIL: f64 = 1.0 / (1u64 << 36) as f64;

/// The normal quantile of one half plus `q`; `tail` is the smaller of that and one minus it. Algorithm AS 241 (Wichura, "The
/// percentage points of the normal distribution", Applied Statistics 37, 1988) without its far tails.
#[inline(always)]
fn normal_quantile<I: Isa>(q: f64, tail: f64) -> f64 {
    let near = q.abs() <= 0.425;
    let z = 0.180625 - q * q;
    let s = (-double::log::<I>(tail)).sqrt() - 1.6;
    let above = select(
        near,
        q * horner!(I, z; 3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
            45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
        horner!(I, s; 1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
            1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833, 7.74545014278341407640e-4)
        .copysign(q),
    );
    let below = select(
        near,
        horner!(I, z; 1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077, 21213.794301586595867,
            39307.895800092710610, 28729.085735721942674, 5226.4952788528545610),
        horner!(I, s; 1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
            0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
    );
    above / below
}

/// Whether [`erfinv_common`] takes it.
#[inline(always)]
pub fn is_common_erfinv(x: f64) -> bool {
    x.abs() < 1.0 - 2.0 * LEAST_TAIL
}

/// The inverse of the error function of a number not too close to 1 or -1, within 7 ulp.
#[inline(always)]
pub fn erfinv_common<I: Isa>(x: f64) -> f64 {
    FRAC_1_SQRT_2 * normal_quantile::<I>(0.5 * x, 0.5 * (1.0 - x.abs()))
}

/// The inverse of `erfc` where the result is not negative, for `0 < y <= 1`.
fn erfc_inverse(y: f64) -> f64 {
    // Giles's approximation of erfinv for single precision (GPU Computing Gems 2, 2012), then Halley's steps.
    let w = -log(y * (2.0 - y));
    let p = if w < 5.0 {
        horner!(I, w - 2.5; 1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
            -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08)
    } else {
        let s = w.sqrt().min(7.0) - 3.0;
        horner!(I, s; 2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
            0.00134934322, 0.000100950558, -0.000200214257)
    };
    // Far out the solution of y = exp(-t^2) / (t sqrt(pi)) is the better start.
    let mut t = if w < 16.0 { p * (1.0 - y) } else { (w + LN_2 - 0.5 * log(PI * w)).sqrt() };
    for _ in 0..4 {
        // erfc(t) / erfc'(t) without underflow.
        let scaled = if y < 1e-290 { exp(t * t + log(y)) } else { y * exp(t * t) };
        let excess = erfcx(t) - scaled;
        let step = excess * (0.5 * PI.sqrt());
        t += step / (1.0 + t * step);
    }
    t
}

/// The inverse of the error function.
pub fn erfinv(x: f64) -> f64 {
    let a = x.abs();
    if a == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if a.is_nan() || a > 1.0 {
        return f64::NAN;
    }
    if a > 0.5 {
        return erfc_inverse(1.0 - a).copysign(x);
    }
    let w = -log1p(-a * a) - 2.5;
    let p = horner!(I, w; 1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
        -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08);
    let mut t = p * a;
    for _ in 0..2 {
        let step = (double::erf::<I>(t) - a) * (0.5 * PI.sqrt()) * exp(t * t);
        t -= step / (1.0 + t * step);
    }
    t.copysign(x)
}

/// `exp(x^2) erfc(x)`.
pub fn erfcx(x: f64) -> f64 {
    if x < 0.0 {
        let (square, rest) = double::two_product::<I>(x, x);
        if x < -27.0 {
            return f64::INFINITY;
        }
        let e = exp(square);
        return 2.0 * (e + e * rest) - erfcx(-x);
    }
    if x > 28.0 { erfcx_far::<I>(x) } else { erfcx_positive::<I>(x) }
}

/// [`erfcx`] of more than 28: the asymptotic series (Abramowitz and Stegun 7.1.23).
#[inline(always)]
fn erfcx_far<I: Isa>(x: f64) -> f64 {
    let z = 0.5 / x / x;
    horner!(I, z; 1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0) / (x * PI.sqrt())
}

/// `exp(-|x|)` times the Bessel function `I_0`: fits of it in `|x| / 4 - 1`, and of its product with the root in
/// `16 / |x| - 1` beyond 8 (the ranges are Cephes's).
pub fn i0e(x: f64) -> f64 {
    i0e_of::<I>(x.abs())
}

/// [`i0e`] of a number that is not negative.
#[inline(always)]
fn i0e_of<I: Isa>(a: f64) -> f64 {
    let t = a * 0.25 - 1.0;
    let near = horner!(I, t; 0.2070019212239867, -0.11300432688620549, 0.09451562853995128, -0.08904344136075963, 0.08734341617550435, -0.08496338091616289, 0.07927522590771639, -0.06954119561719706, 0.056777032011386216, -0.04298594945476025, 0.030177912102218134, -0.019682654690840354, 0.011960077426792047, -0.006792399871927492, 0.0036171284436899067, -0.0018118867976067608, 0.0008563094235043086, -0.0003829020871854531, 0.00016241773604398465, -6.55086273259746e-05, 2.518366139612992e-05, -9.251665226971573e-06, 3.249540060602951e-06, -1.0883515439592516e-06, 3.523604963439924e-07, -1.1383482679942732e-07, 3.385378043608712e-08, -7.725039968045779e-09, 2.2221132168174095e-09, -1.1849657986148584e-09, 2.997850940661288e-10);
    let t = 16.0 / a - 1.0;
    let far = horner!(I, t; 0.4021765094450081, 0.0033605519836678844, 0.00013621607439240856, 1.1143033788559087e-05, 1.4838475391383468e-06, 2.9735993216471474e-07, 8.872278303607728e-08, 3.9324793517123454e-08, 2.1541699603632043e-08, 7.563107589679047e-09, -6.7023325619894366e-09, -1.3450608319883882e-08, -5.6022211783247e-09, 7.687473295440412e-09, 8.006764881281122e-09, -3.799241020140616e-09, -7.1046429701883025e-09, 1.9518431205146255e-09, 5.2159872385826355e-09, -9.961827005971165e-10, -3.0791787996480336e-09, 4.1991218209463363e-10, 1.3291938884143105e-09, -1.1746991110551324e-10, -3.6353603909526465e-10, 1.556423962829591e-11, 4.655655751294525e-11)
        / a.sqrt();
    select(a == 0.0, 1.0, select(a <= 8.0, near, far))
}

/// [`i0`] of a finite number that is not negative, for loops.
#[inline(always)]
pub fn i0_finite<I: Isa>(a: f64) -> f64 {
    i0e_of::<I>(a) * double::exp::<I>(a)
}

/// The modified Bessel function of the first kind, order 0.
pub fn i0(x: f64) -> f64 {
    grow(x, i0e(x))
}

/// `exp(-|x|)` times the Bessel function `I_1`, as [`i0e`].
pub fn i1e(x: f64) -> f64 {
    let y = i1e_of::<I>(x.abs());
    // Zero for both zeros, as PyTorch has it.
    if x < 0.0 { -y } else { y }
}

/// [`i1e`] of a number that is not negative.
#[inline(always)]
fn i1e_of<I: Isa>(a: f64) -> f64 {
    let t = a * 0.25 - 1.0;
    let near = a
        * horner!(I, t; 0.044687709875608835, -0.06112433802966629, 0.06805759990951162, -0.06848260620582547, 0.06376740371340577, -0.05528003922705145, 0.044674572621297426, -0.03367135551992345, 0.023686016957069872, -0.015571309256761071, 0.00958396215685903, -0.0055345677592584745, 0.0030057623826419107, -0.0015388749695928036, 0.0007445124987600121, -0.00034117472470779683, 0.00014842079087416368, -6.142655661897402e-05, 2.423470540495527e-05, -9.131776664168443e-06, 3.2924557329085607e-06, -1.1381555648107214e-06, 3.774988459780846e-07, -1.1994064721626751e-07, 3.685261019396175e-08, -1.122403584956652e-08, 3.19001022454089e-09, -7.278385771188532e-10, 1.9897866775946007e-10, -9.50499529391487e-11, 2.3182083168309976e-11);
    let t = 16.0 / a - 1.0;
    let far = horner!(I, t; 0.38939845902587233, -0.009749577193235758, -0.00021923576383438729, -1.5038547198351201e-05, -1.8349101048965518e-06, -3.483856445811428e-07, -1.000134929730233e-07, -4.312819645562664e-08, -2.336697227282623e-08, -8.435630024967513e-09, 6.687257309165881e-09, 1.4073201407347145e-08, 6.180080050252965e-09, -7.768471997806944e-09, -8.488549054437278e-09, 3.7003762012994875e-09, 7.441519822394391e-09, -1.842354234931444e-09, -5.438072168110142e-09, 9.265252428334351e-10, 3.2055586346236238e-09, -3.8986710944632543e-10, -1.3834389708637022e-09, 1.0940884042721056e-10, 3.784510012514866e-10, -1.4553819054184817e-11, -4.848238653363404e-11)
        / a.sqrt();
    select(a <= 8.0, near, far)
}

/// The modified Bessel function of the first kind, order 1.
pub fn i1(x: f64) -> f64 {
    grow(x, i1e(x))
}

/// `y exp(|x|)`: as PyTorch has it, infinite where the exponential is, and NaN at infinities, where `y` is zero.
fn grow(x: f64, y: f64) -> f64 {
    y * exp(x.abs())
}

/// The inverse of [`double::ndtr`].
pub fn ndtri(p: f64) -> f64 {
    if p == 0.0 {
        f64::NEG_INFINITY
    } else if p == 1.0 {
        f64::INFINITY
    } else if !(p > 0.0 && p < 1.0) {
        f64::NAN
    } else if is_common_ndtri(p) {
        ndtri_common::<I>(p)
    } else if p < 0.5 {
        -SQRT_2 * erfc_inverse(2.0 * p)
    } else {
        SQRT_2 * erfc_inverse(2.0 * (1.0 - p))
    }
}

/// Whether [`ndtri_common`] takes it.
#[inline(always)]
pub fn is_common_ndtri(p: f64) -> bool {
    (LEAST_TAIL..=1.0 - LEAST_TAIL).contains(&p)
}

/// [`ndtri`] of a probability not too close to 0 or 1.
#[inline(always)]
pub fn ndtri_common<I: Isa>(p: f64) -> f64 {
    normal_quantile::<I>(p - 0.5, select(p < 0.5, p, 1.0 - p))
}

/// The logarithm of [`double::ndtr`].
#[inline(always)]
pub fn log_ndtr<I: Isa>(x: f64) -> f64 {
    let y = x * FRAC_1_SQRT_2;
    let a = y.abs();
    let scaled = select(a > 28.0, erfcx_far::<I>(a), erfcx_positive::<I>(a));
    let tail = double::log::<I>(0.5 * scaled) - 0.5 * x * x;
    select(x < -1.0, tail, double::log1p::<I>(-0.5 * double::erfc::<I>(y)))
}

/// `sin(pi x) / (pi x)`, 1 at 0.
#[inline(always)]
pub fn sinc<I: Isa>(x: f64) -> f64 {
    let (r, odd) = from_integer::<I>(x);
    let s = double::sin_common::<I>(PI * r);
    select(x == 0.0, 1.0, select(odd, -s, s) / (PI * x))
}

/// `-x log(x)`.
pub fn entr(x: f64) -> f64 {
    if x > 0.0 {
        -x * log(x)
    } else if x == 0.0 {
        0.0
    } else if x < 0.0 {
        f64::NEG_INFINITY
    } else {
        x
    }
}

/// `x log(y)`, 0 where `x` is 0 and `y` is not NaN.
pub fn xlogy(x: f64, y: f64) -> f64 {
    if y.is_nan() {
        f64::NAN
    } else if x == 0.0 {
        0.0
    } else {
        x * log(y)
    }
}

/// `x log1p(y)`, 0 where `x` is 0 and `y` is not NaN.
pub fn xlog1py(x: f64, y: f64) -> f64 {
    if y.is_nan() {
        f64::NAN
    } else if x == 0.0 {
        0.0
    } else {
        x * log1p(y)
    }
}

#[cfg(test)]
mod tests;
