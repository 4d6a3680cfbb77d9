//! Accuracy, special values and speed of the real functions, at every level that the machine has.

use super::*;
use std::time::Instant;

/// A real function of each type with its reference in `f64`.
trait Function {
    const NAME: &'static str;
    fn call<I: Isa, T: Float>(x: T) -> T;
    fn reference(x: f64) -> f64;
}

/// Runs a function over a slice, by blocks where angles matter.
struct Map<F, T>(std::marker::PhantomData<(F, T)>);

impl<F: Function, T: Float> Kernel for Map<F, T> {
    type Args = (*const T, *mut T, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((x, y, n): Self::Args) {
        for i in 0..n {
            // SAFETY: the caller passes `n` readable and `n` writable elements.
            unsafe { *y.add(i) = F::call::<I, T>(*x.add(i)) }
        }
    }
}

fn map<F: Function, T: Float>(level: Level, x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len());
    // SAFETY: the lengths are equal and the callers' levels available.
    unsafe { entry::<Map<F, T>>(level)((x.as_ptr(), y.as_mut_ptr(), x.len())) }
}

macro_rules! functions {
    ($each:ident, $($args:tt)*) => {
        functions! { @ $each, ($($args)*),
            exp |x| x.exp(); exp2 |x| x.exp2(); expm1 |x| x.exp_m1(); log |x| x.ln(); log2 |x| x.log2();
            log10 |x| x.log10(); log1p |x| x.ln_1p(); sin |x| x.sin(); cos |x| x.cos(); tan |x| x.tan();
            asin |x| x.asin(); acos |x| x.acos(); atan |x| x.atan(); sinh |x| x.sinh(); cosh |x| x.cosh();
            tanh |x| x.tanh(); asinh |x| libm::asinh(x); acosh |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }; atanh |x| libm::atanh(x);
            sigmoid |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) };
            erf |x| libm::erf(x); erfc |x| libm::erfc(x); sqrt |x| x.sqrt(); rsqrt |x| 1.0 / x.sqrt();
            reciprocal |x| 1.0 / x; floor |x| x.floor(); ceil |x| x.ceil(); trunc |x| x.trunc();
            round |x| x.round_ties_even();
        }
    };
    (@ $each:ident, $args:tt, $($name:ident |$x:ident| $reference:expr;)*) => { $(
        {
            struct Named;
            impl Function for Named {
                const NAME: &'static str = stringify!($name);
                #[inline(always)]
                fn call<I: Isa, T: Float>(x: T) -> T {
                    x.$name::<I>()
                }
                fn reference($x: f64) -> f64 {
                    $reference
                }
            }
            functions!(@@ $each, $args);
        }
    )* };
    (@@ $each:ident, ($($args:tt)*)) => { $each::<Named>($($args)*) };
}

/// The distance in units in the last place of `f32`, to the reference before it is rounded.
fn ulps32(y: f32, reference: f64) -> f64 {
    let rounded = reference as f32;
    if y.is_nan() || rounded.is_nan() {
        return if y.is_nan() == rounded.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if y == rounded {
        return if y.is_sign_negative() == rounded.is_sign_negative() { 0.0 } else { f64::INFINITY };
    }
    if y.is_infinite() || rounded.is_infinite() {
        // One unit past the largest value.
        let limit = |v: f32| if v.is_infinite() { 2f64.powi(128).copysign(v as f64) } else { v as f64 };
        return (limit(y) - limit(rounded)).abs() / 2f64.powi(104);
    }
    let exponent = reference.abs().max(f32::MIN_POSITIVE as f64).log2().floor() as i32;
    (y as f64 - reference).abs() / 2f64.powi(exponent - 23)
}

pub(super) fn ulps64(y: f64, reference: f64) -> f64 {
    if y.is_nan() || reference.is_nan() {
        return if y.is_nan() == reference.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if y == reference {
        return if y.is_sign_negative() == reference.is_sign_negative() { 0.0 } else { f64::INFINITY };
    }
    let order = |v: f64| {
        let bits = v.to_bits() as i64;
        (if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }) as i128
    };
    (order(y) - order(reference)).abs() as f64
}

/// The worst error at every level, and where.
type Worst32 = [(f64, f32); 3];

/// The worst error of a function over every `step`-th `f32` from number `from` to `to`. Against the reference, or, for all
/// that there are, against our own double precision in vectors, which [`f64_within_four_ulps`] holds to the reference on
/// samples: some units of it are a hundred millionth of one of `f32`.
fn worst32<F: Function>((from, to): (u64, u64), step: usize) -> Worst32 {
    let mut worst = [(0.0, 0.0f32); 3];
    let (mut x, mut y) = (vec![0f32; 4096], vec![0f32; 4096]);
    let (mut wide, mut references) = (vec![0f64; 4096], vec![0f64; 4096]);
    let mut bits = from;
    while bits < to {
        for (v, w) in x.iter_mut().zip(&mut wide) {
            *v = f32::from_bits(bits.min(to - 1) as u32);
            *w = *v as f64;
            bits += step as u64;
        }
        match step {
            1 => map::<F, f64>(level(), &wide, &mut references),
            _ => references.iter_mut().zip(&wide).for_each(|(r, &w)| *r = F::reference(w)),
        }
        for level in Level::available() {
            map::<F, f32>(level, &x, &mut y);
            let worst = &mut worst[level as usize];
            for ((&x, &y), &reference) in x.iter().zip(&y).zip(&references) {
                // Most are near without a closer look: by the reference's own unit, and of the same sign.
                let unit = f64::from_bits(reference.to_bits() & (0x7ff << 52)) * 2f64.powi(-23);
                let near = (y as f64 - reference).abs() <= worst.0 * unit;
                if near & (y.is_sign_negative() == reference.is_sign_negative()) {
                    continue;
                }
                let error = ulps32(y, reference);
                if error > worst.0 {
                    *worst = (error, x);
                }
            }
        }
    }
    worst
}

/// [`worst32`] over everything, on all cores.
fn sweep32<F: Function>(step: usize, limit: f64, failures: &mut Vec<String>) {
    // So that the exhaustive test, an hour in all, can be run piece by piece: FLAMBEAU_FUNCTIONS=cos,tan.
    let chosen = std::env::var("FLAMBEAU_FUNCTIONS");
    if step == 1 && chosen.is_ok_and(|names| !names.split(',').any(|name| name == F::NAME)) {
        return;
    }
    const PARTS: u64 = 64;
    let next = std::sync::atomic::AtomicU64::new(0);
    let part = || {
        let k = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (k < PARTS).then(|| worst32::<F>((k << 32 >> 6, (k + 1) << 32 >> 6), step))
    };
    let parts: Vec<Worst32> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..std::thread::available_parallelism().map_or(1, |n| n.get()))
            .map(|_| s.spawn(|| std::iter::from_fn(part).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let mut worst = [(0.0, 0.0f32); 3];
    for part in parts {
        for (all, one) in worst.iter_mut().zip(part) {
            if one.0 > all.0 {
                *all = one;
            }
        }
    }
    println!("f32 {:10} {:?}", F::NAME, worst);
    if worst.iter().any(|w| w.0 > limit) {
        failures.push(format!("{}: {worst:?}", F::NAME));
    }
}

/// The worst error over `f64` bit patterns spread over all exponents, and over ordinary numbers.
fn sweep64<F: Function>(count: usize, limit: f64, failures: &mut Vec<String>) {
    let mut worst = [(0.0, 0.0f64); 3];
    let (mut x, mut y) = (vec![0f64; 4096], vec![0f64; 4096]);
    let mut state = 1u64;
    for _ in 0..count / 4096 {
        for (i, v) in x.iter_mut().enumerate() {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let z = z ^ (z >> 31);
            let unit = (z >> 11) as f64 * 2f64.powi(-53) - 0.5;
            *v = match i % 4 {
                0 => f64::from_bits(z),
                1 => unit * 4.0,
                2 => unit * 1500.0,
                _ => 2f64.powi((z & 63) as i32 - 40) * (1.0 + unit),
            };
        }
        for level in Level::available() {
            map::<F, f64>(level, &x, &mut y);
            let worst = &mut worst[level as usize];
            for i in 0..x.len() {
                let error = ulps64(y[i], F::reference(x[i]));
                if error > worst.0 {
                    *worst = (error, x[i]);
                }
            }
        }
    }
    println!("f64 {:10} {:?}", F::NAME, worst);
    if worst.iter().any(|w| w.0 > limit) {
        failures.push(format!("{}: {worst:?}", F::NAME));
    }
}

#[test]
fn f32_within_two_ulps() {
    let mut failures = Vec::new();
    functions!(sweep32, 8191, 2.0, &mut failures);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
#[ignore = "all 2^32 arguments of every function"]
fn f32_within_two_ulps_exhaustively() {
    let mut failures = Vec::new();
    functions!(sweep32, 1, 2.0, &mut failures);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn f64_within_four_ulps() {
    let mut failures = Vec::new();
    // The reference may itself be wrong by one.
    functions!(sweep64, 1 << 17, 5.0, &mut failures);
    assert!(failures.is_empty(), "{failures:#?}");
}

/// A function of two arguments.
trait Binary {
    fn call<I: Isa, T: Float>(x: T, y: T) -> T;
}

struct Map2<F, T>(std::marker::PhantomData<(F, T)>);

impl<F: Binary, T: Float> Kernel for Map2<F, T> {
    type Args = (*const T, *const T, *mut T, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((x, y, z, n): Self::Args) {
        for i in 0..n {
            // SAFETY: the caller passes `n` elements each.
            unsafe { *z.add(i) = F::call::<I, T>(*x.add(i), *y.add(i)) }
        }
    }
}

fn map2<F: Binary, T: Float>(level: Level, x: &[T], y: &[T]) -> Vec<T> {
    assert_eq!(x.len(), y.len());
    let mut z = vec![T::ZERO; x.len()];
    // SAFETY: the lengths are equal and the callers' levels available.
    unsafe { entry::<Map2<F, T>>(level)((x.as_ptr(), y.as_ptr(), z.as_mut_ptr(), x.len())) }
    z
}

/// Pairs: every two of the special values, and numbers of ordinary and of any size.
fn pairs() -> (Vec<f64>, Vec<f64>) {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        4.0,
        1.5,
        -2.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-40,
        -1e-40,
        1e30,
        -1e30,
        16777216.0,
        16777217.0,
        33554431.0,
        0.99999994,
        1.0000001,
    ];
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for a in special {
        for b in special {
            x.push(a as f32 as f64);
            y.push(b as f32 as f64);
        }
    }
    let mut state = 7u64;
    for i in 0..200_000 {
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as u32, (state >> 40) as f64 / 16777216.0)
        };
        let (bits, unit) = next();
        let (bits2, unit2) = next();
        if i % 3 == 0 {
            x.push(f32::from_bits(bits) as f64);
            y.push(f32::from_bits(bits2) as f64);
        } else if i % 3 == 1 {
            x.push((unit * 20.0 - 5.0) as f32 as f64);
            y.push((unit2 * 60.0 - 30.0) as f32 as f64);
        } else {
            x.push((1.0 + (unit - 0.5) * 0.01) as f32 as f64);
            y.push((unit2 * 20000.0 - 10000.0) as f32 as f64);
        }
    }
    (x, y)
}

fn check2<F: Binary>(
    name: &str,
    limit: f64,
    limit64: f64,
    reference32: fn(f64, f64) -> f64,
    reference64: fn(f64, f64) -> f64,
) {
    let (x, y) = pairs();
    let narrow = |v: &[f64]| v.iter().map(|&v| v as f32).collect::<Vec<_>>();
    let (x32, y32) = (narrow(&x), narrow(&y));
    for level in Level::available() {
        let mut worst = (0.0, 0.0, 0.0);
        for (i, z) in map2::<F, f32>(level, &x32, &y32).into_iter().enumerate() {
            let error = ulps32(z, reference32(x[i], y[i]));
            if error > worst.0 {
                worst = (error, x[i], y[i]);
            }
        }
        let mut worst64 = (0.0, 0.0, 0.0);
        for (i, z) in map2::<F, f64>(level, &x, &y).into_iter().enumerate() {
            let error = ulps64(z, reference64(x[i], y[i]));
            if error > worst64.0 {
                worst64 = (error, x[i], y[i]);
            }
        }
        println!("{name} {level:?} f32 {worst:?} f64 {worst64:?}");
        assert!(worst.0 <= limit && worst64.0 <= limit64, "{name} {level:?}: f32 {worst:?}, f64 {worst64:?}");
    }
}

macro_rules! binary {
    ($test:ident, $name:ident, $limit:expr, $limit64:expr, $reference:expr) => {
        binary!($test, $name, $limit, $limit64, $reference, $reference);
    };
    ($test:ident, $name:ident, $limit:expr, $limit64:expr, $reference32:expr, $reference64:expr) => {
        #[test]
        fn $test() {
            struct Named;
            impl Binary for Named {
                #[inline(always)]
                fn call<I: Isa, T: Float>(x: T, y: T) -> T {
                    x.$name::<I>(y)
                }
            }
            check2::<Named>(stringify!($name), $limit, $limit64, $reference32, $reference64);
        }
    };
}

fn python_remainder(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

binary!(pow_is_cs, pow, 1.0, 2.0, |x, y| x.powf(y));
binary!(atan2_is_cs, atan2, 2.0, 4.0, |y, x| y.atan2(x));
binary!(hypot_is_cs, hypot, 1.0, 2.0, libm::hypot);
binary!(fmod_is_cs, fmod, 0.5, 0.0, |x, y| x % y);
// The sum of remainder and divisor is rounded once in f32, not twice.
binary!(remainder_is_pythons, remainder, 0.5, 0.0, python_remainder);
binary!(copysign_is_cs, copysign, 0.0, 0.0, |x, y| x.copysign(y));

struct Common<const OP: u8>;
impl<const OP: u8> Binary for Common<OP> {
    #[inline(always)]
    fn call<I: Isa, T: Float>(x: T, y: T) -> T {
        match OP {
            0 => x.fmod_common::<I>(y),
            1 => x.remainder_common::<I>(y),
            2 => x.floor_divide_common::<I>(y),
            3 => x.fmod::<I>(y),
            4 => x.remainder::<I>(y),
            _ => x.floor_divide::<I>(y),
        }
    }
}

fn same<T: Float>(a: T, b: T) -> bool {
    a == b && a.signbit() == b.signbit() || a.is_nan() && b.is_nan()
}

#[test]
fn common_quotients_agree_with_any() {
    fn check<T: Float>() {
        let (x, y) = pairs();
        let (x, y): (Vec<T>, Vec<T>) = x
            .iter()
            .zip(&y)
            .map(|(&x, &y)| (T::from_f64(x), T::from_f64(y)))
            .filter(|(x, y)| x.is_common_quotient(*y))
            .unzip();
        assert!(x.len() > 10_000);
        for level in Level::available() {
            let common = [
                map2::<Common<0>, T>(level, &x, &y),
                map2::<Common<1>, T>(level, &x, &y),
                map2::<Common<2>, T>(level, &x, &y),
            ];
            let any = [
                map2::<Common<3>, T>(level, &x, &y),
                map2::<Common<4>, T>(level, &x, &y),
                map2::<Common<5>, T>(level, &x, &y),
            ];
            for op in 0..3 {
                for i in 0..x.len() {
                    let (a, b) = (common[op][i], any[op][i]);
                    assert!(same(a, b), "{op} {level:?} {:?} {:?}: {a:?} {b:?}", x[i], y[i]);
                }
            }
        }
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn common_angles_agree_with_any() {
    struct Sin;
    impl Function for Sin {
        const NAME: &'static str = "sin_common";
        #[inline(always)]
        fn call<I: Isa, T: Float>(x: T) -> T {
            x.sin_common::<I>()
        }
        fn reference(x: f64) -> f64 {
            x.sin()
        }
    }
    let x: Vec<f32> = (0..200_000).map(|i| (i as f32 - 1e5) * 9.999).collect();
    let mut y = x.clone();
    assert!(x.iter().all(|&x| Float::is_common_angle(x)));
    for level in Level::available() {
        map::<Sin, f32>(level, &x, &mut y);
        let worst = (0..x.len()).map(|i| ulps32(y[i], (x[i] as f64).sin())).fold(0.0, f64::max);
        assert!(worst <= 2.0, "{level:?} {worst}");
    }
}

#[test]
fn common_exponents_agree_with_any() {
    macro_rules! function {
        ($($name:ident)*) => { $(
            pub(super) struct $name;
            impl Function for $name {
                const NAME: &'static str = stringify!($name);
                #[inline(always)]
                fn call<I: Isa, T: Float>(x: T) -> T {
                    x.$name::<I>()
                }
                fn reference(x: f64) -> f64 {
                    x.exp()
                }
            }
        )* };
    }
    #[allow(non_camel_case_types)]
    mod functions {
        use super::*;
        function!(exp exp_common exp_not_positive);
    }
    use functions as f;
    let x: Vec<f32> = (0..400_001).map(|i| (i as f32 - 2e5) * (87.0 / 2e5)).collect();
    assert!(x.iter().all(|&x| Float::is_common_exponent(x)) && !Float::is_common_exponent(f32::NAN));
    let (mut any, mut common, mut not_positive) = (x.clone(), x.clone(), x.clone());
    for level in Level::available() {
        map::<f::exp, f32>(level, &x, &mut any);
        map::<f::exp_common, f32>(level, &x, &mut common);
        map::<f::exp_not_positive, f32>(level, &x, &mut not_positive);
        assert_eq!(any, common, "{level:?}");
        assert_eq!(any[..200_000], not_positive[..200_000], "{level:?}");
    }
}

/// To the bit, and the predicate takes no special case.
#[test]
fn common_forms_agree_with_any() {
    struct Log<const COMMON: bool>;
    impl<const COMMON: bool> Function for Log<COMMON> {
        const NAME: &'static str = "log_common";
        #[inline(always)]
        fn call<I: Isa, T: Float>(x: T) -> T {
            if COMMON { x.log_common::<I>() } else { x.log::<I>() }
        }
        fn reference(x: f64) -> f64 {
            x.ln()
        }
    }
    struct Exp<const COMMON: bool>;
    impl<const COMMON: bool> Function for Exp<COMMON> {
        const NAME: &'static str = "exp_common";
        #[inline(always)]
        fn call<I: Isa, T: Float>(x: T) -> T {
            if COMMON { x.exp_common::<I>() } else { x.exp::<I>() }
        }
        fn reference(x: f64) -> f64 {
            x.exp()
        }
    }
    for x in [0.0, -0.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-40] {
        assert!(!x.is_common_logarithm(), "{x}");
    }
    for x in [f64::NAN, f64::INFINITY, 709.0, -709.0] {
        assert!(!x.is_common_exponent(), "{x}");
    }
    let normal = (f32::MIN_POSITIVE.to_bits()..f32::INFINITY.to_bits()).step_by(8191);
    let x: Vec<f32> = normal.map(f32::from_bits).chain([f32::MIN_POSITIVE, 1.0, f32::MAX]).collect();
    assert!(x.iter().all(|x| x.is_common_logarithm()));
    let wide: Vec<f64> = (0..400_001).map(|i| (i as f64 - 2e5) * (708.0 / 2e5)).collect();
    assert!(wide.iter().all(|x| x.is_common_exponent()));
    let (mut any, mut common) = (x.clone(), x.clone());
    let (mut any_wide, mut common_wide) = (wide.clone(), wide.clone());
    for level in Level::available() {
        map::<Log<false>, f32>(level, &x, &mut any);
        map::<Log<true>, f32>(level, &x, &mut common);
        assert_eq!(any, common, "{level:?}");
        map::<Exp<false>, f64>(level, &wide, &mut any_wide);
        map::<Exp<true>, f64>(level, &wide, &mut common_wide);
        assert_eq!(any_wide, common_wide, "{level:?}");
    }
}

#[test]
fn special_values() {
    fn check<I: Isa, T: Float>() {
        let of = T::from_f64;
        let (inf, nan) = (T::INFINITY, T::NAN);
        assert!(same(of(-0.0).floor::<I>(), of(-0.0)) && same(of(-0.5).ceil::<I>(), of(-0.0)));
        assert!(same(of(-0.5).round::<I>(), of(-0.0)) && same(of(2.5).round::<I>(), T::TWO));
        assert!(same(of(0.5).floor::<I>(), T::ZERO) && same(of(-0.5).floor::<I>(), of(-1.0)));
        assert!(same(nan.sign::<I>(), T::ZERO) && same(of(-0.0).sign::<I>(), T::ZERO));
        assert!(nan.minimum::<I>(T::ONE).is_nan() && T::ONE.maximum::<I>(nan).is_nan());
        assert!(same(nan.fmin::<I>(T::ONE), T::ONE) && same(T::ONE.fmax::<I>(nan), T::ONE));
        assert!(same(inf.hypot::<I>(nan), inf) && inf.frac::<I>().is_nan());
        assert!(same(T::ZERO.nextafter::<I>(-T::ONE), -of(T::ZERO.nextafter::<I>(T::ONE).to_f64())));
        assert!(T::MAX.nextafter::<I>(inf) == inf && inf.nextafter::<I>(T::ZERO) == T::MAX);
        assert!(T::ONE.nextafter::<I>(T::TWO) == T::ONE + T::EPSILON);
        assert!(same(of(-1.0).nextafter::<I>(of(-2.0)), -(T::ONE + T::EPSILON)));
        assert!(same(of(-5.0).floor_divide::<I>(inf), of(-1.0)) && same(of(5.0).floor_divide::<I>(T::ZERO), inf));
        assert!(same(of(5.0).remainder::<I>(-inf), -inf) && same(of(-6.0).remainder::<I>(of(-3.0)), of(-0.0)));
        assert!(same(inf.logaddexp::<I>(inf), inf) && same((-inf).logaddexp::<I>(-inf), -inf));
        assert!(same(inf.logaddexp::<I>(-inf), inf) && same((-inf).logaddexp::<I>(T::ONE), T::ONE));
        assert!(inf.sin::<I>().is_nan() && nan.cos::<I>().is_nan() && (-inf).tan::<I>().is_nan());
        for e in [-2000, -1074, -150, -140, -1, 0, 1, 100, 127, 128, 1023, 1024, 3000] {
            let expected = of(1.5 * 2f64.powi(e / 2) * 2f64.powi(e - e / 2));
            assert!(same(of(1.5).ldexp(e), expected), "{e}: {:?} {expected:?}", of(1.5).ldexp(e));
        }
        for x in [1.0, -0.75, 3e-40, 1e30] {
            let (m, e) = of(x).frexp();
            assert!(m.abs::<I>() >= T::HALF && m.abs::<I>() < T::ONE && m.ldexp(e) == of(x), "{x} {m:?} {e}");
        }
    }
    check::<Baseline, f32>();
    check::<Baseline, f64>();
    // Also the code of the other levels; it is scalar here, and correct wherever it runs.
    check::<Avx512, f32>();
    check::<Avx512, f64>();
}

#[test]
fn slopes_of_common_gamma_numbers() {
    for shape in [0.05f32, 0.3, 1.0, 2.5, 10.0] {
        for x in [1e-30f32, 1e-3, 0.4, 2.0, 9.9] {
            assert!(shape.is_common_incomplete(x));
            let want = special::gamma::gamma_slope(shape.into(), x.into());
            let got = f64::from(shape.gamma_slope_common::<Baseline>(x));
            assert!((got - want).abs() <= 1e-7 * want, "{shape} {x}: {got} {want}");
        }
    }
}

#[test]
fn logit_of_special_doubles() {
    let logit = super::double::logit::<Baseline>;
    assert!(logit(0.0) == f64::NEG_INFINITY && logit(-0.0) == f64::NEG_INFINITY && logit(1.0) == f64::INFINITY);
    for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5, 1.5, -5e-324, 1.0 + f64::EPSILON] {
        assert!(logit(x).is_nan(), "{x}");
    }
    assert!(logit(0.5) == 0.0);
    // The logarithms of the smallest number and of the one that is twice as large as an epsilon is.
    for (x, wanted) in [(5e-324, -744.440_071_921_381_2), (1.0 - f64::EPSILON / 2.0, 36.736_800_569_677_1)] {
        assert!((logit(x) - wanted).abs() <= 1e-13 * wanted.abs(), "{x}: {}", logit(x));
    }
}

/// Nanoseconds per element in the first-level cache.
fn time<F: Function, T: Float>() -> [f64; 3] {
    let x: Vec<T> = (0..2048).map(|i| T::from_f64(i as f64 * 0.01 - 4.0)).collect();
    let mut y = x.clone();
    let mut result = [f64::NAN; 3];
    for level in Level::available() {
        let mut best = f64::INFINITY;
        for _ in 0..20 {
            let start = Instant::now();
            for _ in 0..20 {
                map::<F, T>(level, &x, &mut y);
                std::hint::black_box(&mut y);
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        result[level as usize] = best * 1e9 / (20.0 * 2048.0);
    }
    result
}

fn print_time<F: Function>() {
    println!("{:11} f32 {:7.3?}  f64 {:7.3?}", F::NAME, time::<F, f32>(), time::<F, f64>());
}

#[test]
#[ignore = "prints ns per element at each level"]
fn timing() {
    struct Blocks;
    impl Kernel for Blocks {
        type Args = (*const f32, *mut f32, usize);
        type Output = ();
        #[inline(always)]
        unsafe fn run<I: Isa>((x, y, n): Self::Args) {
            // SAFETY: the caller passes `n` readable and `n` writable elements.
            unsafe {
                by_block!(
                    n,
                    i,
                    if { Float::is_common_angle(*x.add(i)) } {
                        *y.add(i) = Float::sin_common::<I>(*x.add(i))
                    } else {
                        *y.add(i) = Float::sin::<I>(*x.add(i))
                    }
                )
            }
        }
    }
    let (x, mut y) = (vec![2f32; 2048], vec![0f32; 2048]);
    let start = Instant::now();
    for _ in 0..400 {
        // SAFETY: both hold 2048 elements.
        unsafe { run::<Blocks>((x.as_ptr(), y.as_mut_ptr(), x.len())) }
        std::hint::black_box(&mut y);
    }
    println!("sin by block f32 {:.3}", start.elapsed().as_secs_f64() * 1e9 / (400.0 * 2048.0));
    functions!(print_time,);
    macro_rules! common {
        ($($name:ident)*) => { $( {
            struct Named;
            impl Function for Named {
                const NAME: &'static str = stringify!($name);
                #[inline(always)]
                fn call<I: Isa, T: Float>(x: T) -> T {
                    x.$name::<I>()
                }
                fn reference(x: f64) -> f64 {
                    x
                }
            }
            print_time::<Named>();
        } )* };
    }
    common!(sin_common cos_common tan_common);
    macro_rules! constant {
        ($($name:ident $y:expr;)*) => { $( {
            struct Named;
            impl Function for Named {
                const NAME: &'static str = stringify!($name);
                #[inline(always)]
                fn call<I: Isa, T: Float>(x: T) -> T {
                    x.$name::<I>(T::from_f64($y))
                }
                fn reference(x: f64) -> f64 {
                    x
                }
            }
            print_time::<Named>();
        } )* };
    }
    constant!(pow 2.3; atan2 1.7; fmod 0.7; fmod_common 0.7; remainder_common 0.7; floor_divide_common 0.7; hypot 2.0;
        nextafter 1.0; logaddexp 0.5;);
}

/// [`Float::normal`], or `normal_of_half`.
struct Normal<const HALF: bool>;

impl<const HALF: bool> Kernel for Normal<HALF> {
    type Args = f32;
    type Output = (f32, f32);
    #[inline(always)]
    unsafe fn run<I: Isa>(x: f32) -> (f32, f32) {
        if HALF { x.normal_of_half::<I>() } else { x.normal::<I>() }
    }
}

/// Every 1999th `f32`, and every `bfloat16`, of the normal distribution's function and exponential.
#[test]
fn normal_is_exact_in_its_tails() {
    let reference =
        |x: f32| (0.5 * libm::erfc(-x as f64 * std::f64::consts::FRAC_1_SQRT_2), (-0.5 * x as f64 * x as f64).exp());
    for level in Level::available() {
        // SAFETY: the level is available.
        let (whole, half) = unsafe { (|x| entry::<Normal<false>>(level)(x), |x| entry::<Normal<true>>(level)(x)) };
        let mut worst = [0f64; 3];
        for bits in (0..=u32::MAX).step_by(1999) {
            let x = f32::from_bits(bits);
            let (y, e) = whole(x);
            let (function, exponential) = reference(x);
            worst[0] = worst[0].max(ulps32(y, function));
            if !x.is_nan() {
                worst[1] = worst[1].max(ulps32(e, exponential));
            }
        }
        for bits in 0..=u16::MAX {
            let x = f32::from_bits((bits as u32) << 16);
            let (y, e) = half(x);
            let (function, exponential) = reference(x);
            assert_eq!(y.is_nan(), x.is_nan());
            for (y, want) in [(y, function), (e, exponential)] {
                if want > f32::MIN_POSITIVE as f64 {
                    worst[2] = worst[2].max((y as f64 / want - 1.0).abs());
                } else if !x.is_nan() {
                    assert!(y <= f32::MIN_POSITIVE, "{level:?}, {x}: {y}");
                }
            }
        }
        assert!(worst[0] < 6.0 && worst[1] < 3.0 && worst[2] < 2f64.powi(-12), "{level:?} {worst:?}");
    }
}
