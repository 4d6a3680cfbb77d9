//! The forms without branches against the functions in double precision, at every level.

use super::super::super::{Float, Level};
use super::super::{bessel, digamma, gamma, i0};
use crate::with_isa;

/// How many units in the last place of `want` apart.
fn distance(got: f32, want: f64) -> f64 {
    let unit = f64::from(f32::EPSILON) * 2f64.powf(want.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor());
    if want as f32 == got { 0.0 } else { (f64::from(got) - want).abs() / unit }
}

/// Checks a function on `n` numbers from `low` to `high`, as far as they are `common`.
macro_rules! check {
    ($name:literal, $low:expr, $high:expr, |$x:ident| if $common:expr, $got:expr, $want:expr, $most:expr) => {
        for level in Level::available() {
            with_isa!(level, I => {
                for k in 0..4000 {
                    let $x = ($low + ($high - $low) * f64::from(k) / 3999.0) as f32;
                    if $common {
                        let (got, want): (f32, f64) = ($got, $want);
                        assert!(distance(got, want) <= $most, "{} of {:?} for {level:?}: {got:?}, not {want:?}", $name, $x);
                    }
                }
            });
        }
    };
}

#[test]
fn gamma_functions_agree() {
    check!("digamma", 0.001, 30.0, |x| if x.is_common_digamma(), x.digamma_common::<I>(), digamma(x.into()), 1.0);
    check!("digamma near its zero", 1.45, 1.47, |x| if x.is_common_digamma(), x.digamma_common::<I>(), digamma(x.into()), 1.0);
    for a in [0.05f32, 0.3, 1.0, 2.5, 7.0, 10.0] {
        let of = |x: f32| (f64::from(a), f64::from(x));
        let (lower, upper) = (|(a, x)| gamma::igamma(a, x), |(a, x)| gamma::igammac(a, x));
        check!("igamma", 1e-4, 10.0, |x| if a.is_common_incomplete(x), a.igamma_common::<I>(x), lower(of(x)), 1.0);
        check!("igammac", 1e-4, 10.0, |x| if a.is_common_incomplete(x), a.igammac_common::<I>(x), upper(of(x)), 2.0);
    }
}

#[test]
fn hurwitz_zeta_agrees() {
    for q in [1e-3f32, 0.5, 1.0, 4.0, 90.0, 1e5] {
        let want = |x: f32| super::super::zeta(x.into(), q.into());
        check!("zeta", 1.001, 16.0, |x| if x.is_common_zeta(q), x.zeta_common::<I>(q), want(x), 1.0);
    }
}

#[test]
fn bessel_functions_agree() {
    check!("j0", -40.0, 40.0, |x| if x.is_common_bessel(), x.bessel_j0_common::<I>(), bessel::j0(x.into()), 1.0);
    check!("j1", -40.0, 40.0, |x| if x.is_common_bessel(), x.bessel_j1_common::<I>(), bessel::j1(x.into()), 1.0);
    check!("y0", 1e-3, 40.0, |x| if x.is_common_bessel(), x.bessel_y0_common::<I>(), bessel::y0(x.into()), 1.0);
    check!("y1", 1e-3, 40.0, |x| if x.is_common_bessel(), x.bessel_y1_common::<I>(), bessel::y1(x.into()), 1.0);
    check!("j0 far out", 1e3, 9e5, |x| if x.is_common_bessel(), x.bessel_j0_common::<I>(), bessel::j0(x.into()), 1.0);
    check!("i0", -80.0, 80.0, |x| if true, x.i0::<I>(), i0(x.into()), 1.0);
    check!("k0", 1e-3, 60.0, |x| if x.is_common_modified(), x.bessel_k_common::<I>(false, false), bessel::k0(x.into()), 1.0);
    check!("k1", 1e-3, 60.0, |x| if x.is_common_modified(), x.bessel_k_common::<I>(true, false), bessel::k1(x.into()), 1.0);
    check!("scaled k0", 1e-3, 60.0, |x| if x.is_common_modified(), x.bessel_k_common::<I>(false, true), bessel::scaled_k0(x.into()), 1.0);
    check!("scaled k1", 1e-3, 60.0, |x| if x.is_common_modified(), x.bessel_k_common::<I>(true, true), bessel::scaled_k1(x.into()), 1.0);
    assert!(!2e6f32.is_common_bessel() && !f32::NAN.is_common_bessel());
    assert_eq!(0f32.bessel_j1_common::<super::super::I>().to_bits(), 0);
}
