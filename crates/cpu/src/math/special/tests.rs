//! Special functions in `f64` against values of others, and their forms for loops against the general ones.

use super::polynomial::{self, Kind};
use super::*;
use crate::math::Level;
use crate::math::tests::ulps64;
use crate::with_isa;

#[test]
fn values() {
    // Values by mpmath.
    type Function = fn(f64) -> f64;
    let cases: [(Function, f64, f64); 14] = [
        (lgamma, 0.5, 0.572_364_942_924_700_1),
        (lgamma, -2.5, -0.056_243_716_497_674_05),
        (lgamma, 2.000_001, 4.227_846_576_245_292_4e-7),
        (digamma, 0.1, -10.423_754_940_411_077),
        (erfinv, 0.99, 1.821_386_367_718_449_5),
        (erfcx, 30.0, 0.018_795_888_861_416_75),
        (i0, 10.0, 2_815.716_628_466_254),
        (i1, -2.0, -1.590_636_854_637_329),
        (ndtri, 1e-300, -37.047_096_299_361_2),
        (log_ndtr::<Baseline>, -30.0, -454.321_243_956_343_2),
        (sinc::<Baseline>, 2.5, 0.127_323_954_473_516_27),
        (double::logit::<Baseline>, 0.3, -0.847_297_860_387_203_6),
        (entr, 0.5, 0.346_573_590_279_972_65),
        (|x| polygamma(2, x), 1.0, -2.404_113_806_319_188_6),
    ];
    for (i, (f, x, expected)) in cases.into_iter().enumerate() {
        let y = f(x);
        assert!((y - expected).abs() <= 1e-13 * expected.abs().max(1e-6), "{i}: {y} {expected}");
    }
    assert!(lgamma(-3.0) == f64::INFINITY && digamma(-3.0).is_nan());
    assert!(digamma(0.0) == f64::NEG_INFINITY && zeta(1.0, 2.0) == f64::INFINITY);
    assert!(erfinv(1.0) == f64::INFINITY && erfinv(1.1).is_nan());
    assert!(xlogy(0.0, 0.0) == 0.0 && xlogy(0.0, f64::NAN).is_nan());
    assert!(entr(-1.0) == f64::NEG_INFINITY && i0(800.0) == f64::INFINITY);
}

#[test]
fn inverse_error_function_of_doubles() {
    let tails = (2..34).flat_map(|k| [1.0, 1.3, 1.7].map(|m| 1.0 - m * (0.5f64).powi(k)));
    let mut worst = 0f64;
    for x in (1..20_000).map(|i| i as f64 / 20_000.0).chain(tails).flat_map(|x| [x, -x]).chain([1e-300, -1e-9]) {
        assert!(is_common_erfinv(x));
        worst = worst.max(ulps64(erfinv_common::<Baseline>(x), erfinv(x)));
    }
    assert!(worst <= 7.0, "{worst}");
    for (p, wanted) in [(0.025, -1.959_963_984_540_054), (1e-9, -5.997_807_015_007_686), (0.9, 1.281_551_565_544_600_4)]
    {
        let quantile = ndtri(p);
        assert!(ulps64(quantile, wanted) <= 4.0, "{p}: {quantile}");
    }
    let tiny = erfinv_common::<Baseline>(f64::MIN_POSITIVE);
    assert!(ulps64(tiny, f64::MIN_POSITIVE * 0.886_226_925_452_758) <= 2.0, "{tiny}");
    for x in [0.0, -0.0] {
        assert_eq!(erfinv_common::<Baseline>(x).to_bits(), f64::to_bits(x));
        assert_eq!(erfinv(x).to_bits(), f64::to_bits(x));
    }
    assert!(erfinv(-1.0) == f64::NEG_INFINITY);
    for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, -1.0] {
        assert!(!is_common_erfinv(x), "{x}");
    }
}

/// Against values computed with mpmath in 30 digits.
#[test]
fn values_of_polynomials_gamma_and_bessel_functions() {
    let cases = [
        (bessel::j0(2.5), -0.048383776468198),
        (bessel::j0(30.0), -0.08636798358104021),
        (bessel::j1(-3.5), -0.1373775273623272),
        (bessel::y0(0.75), -0.1371727693857724),
        (bessel::y1(20.0), -0.1655116143625213),
        (bessel::k0(0.5), 0.9244190712276659),
        (bessel::k1(7.0), 0.00045418248688489695),
        (bessel::scaled_k0(900.0), 0.04177133915254879),
        (bessel::airy_ai(1.5), 0.07174949700810541),
        (bessel::airy_ai(4.0), 0.0009515638512048018),
        (bessel::airy_ai(-5.0), 0.35076100902411433),
        (bessel::airy_ai(-30.0), -0.08796818845684216),
        (gamma::igamma(3.0, 2.5), 0.45618688411667047),
        (gamma::igamma(0.25, 0.125), 0.6401572060830841),
        (gamma::igammac(500.0, 480.0), 0.8137180268096754),
        (gamma::igammac(2.0, 40.0), 1.7418252446695514e-16),
        (gamma::igamma(100.0, 50.0), 3.200065324585125e-10),
        (gamma::gamma_slope(2.0, 0.75), 0.636247057832148),
        (gamma::gamma_slope(2.0, 5.0), 1.6580687280597064),
        (gamma::gamma_slope(30.0, 20.0), 0.8154222242260368),
        (gamma::beta_slope(0.25, 2.0, 5.0), 0.18019050060195269),
        (gamma::beta_slope(0.75, 2.0, 5.0), 0.3168539890495213),
        (polynomial::chebyshev(Kind::T, 0.25, 20.0), 0.33463335037231445),
        (polynomial::chebyshev(Kind::U, 1.5, 5.0), 144.0),
        (polynomial::hermite_h(1.5, 6.0), -201.0),
        (polynomial::laguerre(2.5, 7.0), 0.10795665922619048),
        (polynomial::legendre(-0.75, 9.0), -0.3103318512439728),
    ];
    for (i, (got, want)) in cases.into_iter().enumerate() {
        assert!((got - want).abs() <= 1e-12 * want.abs(), "case {i}: {got:e}, not {want:e}");
    }
}

#[test]
fn ends_of_domains() {
    assert_eq!((bessel::j0(0.0), bessel::j1(0.0), bessel::spherical_j0(0.0)), (1.0, 0.0, 1.0));
    assert_eq!(
        (bessel::y0(0.0), bessel::y1(0.0), bessel::k0(0.0)),
        (f64::NEG_INFINITY, f64::NEG_INFINITY, f64::INFINITY)
    );
    assert!(bessel::y0(-1.0).is_nan() && bessel::k1(-1.0).is_nan() && bessel::airy_ai(f64::INFINITY).is_nan());
    // Far to the left it is bounded by 1 / (sqrt(pi) |x|^(1/4)), whatever its argument's rounding is.
    for x in [-1e7, -1e10, -1e12, -1e20, -1e100] {
        let largest = 1.0 / (std::f64::consts::PI.sqrt() * f64::powf(-x, 0.25));
        assert!(bessel::airy_ai(x).abs() <= 1.000001 * largest, "{x} {}", bessel::airy_ai(x));
    }
    assert_eq!((gamma::igamma(2.0, 0.0), gamma::igamma(0.0, 2.0), gamma::igamma(2.0, f64::INFINITY)), (0.0, 1.0, 1.0));
    assert!(gamma::igamma(-1.0, 2.0).is_nan() && gamma::igammac(0.0, 0.0).is_nan());
    assert_eq!(polynomial::chebyshev(Kind::T, 0.5f64, f64::NAN), 0.0);
    assert_eq!(polynomial::legendre(0.5f32, -2.0), 0.0);
    assert!(polynomial::hermite_h(0.5f32, 200.0).is_nan());
    // No order takes for ever.
    assert!(polynomial::laguerre(0.5f64, 9e18).is_nan());
}

#[test]
fn forms_for_loops_agree_at_every_level() {
    for level in Level::available() {
        with_isa!(level, I => {
            for k in 1..=20_000 {
                let x = f64::from(k) * 0.000_25;
                assert_eq!(bessel::j0_near::<I>(-x), bessel::j0(x));
                assert_eq!(bessel::j1_near::<I>(-x), -bessel::j1(x));
                // What the logarithm's rounding is times.
                let unit = f64::EPSILON * (1.0 + log(x).abs());
                assert!((bessel::y0_near::<I>(x) - bessel::y0(x)).abs() <= unit, "{level:?} {x}");
                assert!((bessel::y1_near::<I>(x) - bessel::y1(x)).abs() <= unit, "{level:?} {x}");
                let p = f64::from(k) / 20_001.0;
                assert!(is_common_ndtri(p));
                let (got, want) = (ndtri_common::<I>(p), ndtri(p));
                // (`normal_quantile` itself is that exact.)
                assert!(ulps64(got, want) <= 7.0, "{level:?} {p}: {got}, not {want}");
                for x in [10.0 * x - 40.0, 10.0 * x, -40.0 * x] {
                    let (got, want) = (log_ndtr::<I>(x), log_ndtr::<Baseline>(x));
                    assert!(ulps64(got, want) <= 4.0, "{level:?} {x}: {got}, not {want}");
                }
            }
            assert!(log_ndtr::<I>(f64::NEG_INFINITY) == f64::NEG_INFINITY && log_ndtr::<I>(f64::INFINITY) == 0.0);
            assert!(log_ndtr::<I>(f64::NAN).is_nan());
        });
    }
    assert_eq!((bessel::j0_near::<I>(0.0), bessel::j1_near::<I>(-0.0).to_bits()), (1.0, (-0.0f64).to_bits()));
    for x in [f64::NAN, f64::INFINITY, 5.000_001] {
        assert!(!bessel::is_near(x));
    }
    for p in [f64::NAN, 0.0, 1.0, -0.5, 1e-300] {
        assert!(!is_common_ndtri(p));
    }
}
