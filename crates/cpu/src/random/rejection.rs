//! Distributions sampled by rejection: Poisson, gamma and binomial numbers, one parameter per element.

use super::generator::Generator;
use flambeau_base::{DType, Element, Error, Result};

/// Fills `out` with Poisson numbers of the given rates; floating-point types of the same length. Fails at a rate that
/// is negative or NaN.
pub fn poisson<T: Element>(generator: &mut Generator, out: &mut [T], rates: &[T]) -> Result<()> {
    debug_assert_eq!(out.len(), rates.len());
    for (o, rate) in out.iter_mut().zip(rates) {
        let rate = rate.to_f64();
        if rate.is_nan() || rate < 0.0 {
            return Err(Error::runtime("invalid Poisson rate, expected rate to be non-negative"));
        }
        *o = T::from_f64(poisson_number(generator, rate));
    }
    Ok(())
}

/// Fills `out` with standard gamma numbers of the given shapes (at least zero); floating-point types of the same
/// length. Results are at least the smallest normal number, which is also the answer to an impossible shape.
pub fn standard_gamma<T: Element>(generator: &mut Generator, out: &mut [T], shapes: &[T]) {
    debug_assert_eq!(out.len(), shapes.len());
    let tiny = match T::DTYPE {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 => f64::from(half::f16::MIN_POSITIVE),
        _ => f64::from(f32::MIN_POSITIVE),
    };
    for (o, &shape) in out.iter_mut().zip(shapes) {
        let x = T::from_f64(gamma_number(generator, shape));
        *o = if x.to_f64() >= tiny { x } else { T::from_f64(tiny) };
    }
}

/// Fills `out` with the gamma numbers that Dirichlet samples of these concentrations are made of: always doubles,
/// and without a least value. A sample is the quotient of the numbers and their sum, still as doubles, clamped between
/// the type's smallest normal number and the largest float below one.
pub fn dirichlet_gammas<T: Element>(generator: &mut Generator, out: &mut [f64], concentrations: &[T]) {
    debug_assert_eq!(out.len(), concentrations.len());
    for (o, concentration) in out.iter_mut().zip(concentrations) {
        *o = gamma_number(generator, concentration.to_f64());
    }
}

/// Fills `out` with the number of successes in `counts` trials of probability `probabilities`, element by element;
/// floating-point types of the same length. A NaN gives NaN.
pub fn binomial<T: Element>(generator: &mut Generator, out: &mut [T], counts: &[T], probabilities: &[T]) {
    debug_assert!(out.len() == counts.len() && out.len() == probabilities.len());
    for ((o, n), p) in out.iter_mut().zip(counts).zip(probabilities) {
        *o = T::from_f64(binomial_number(generator, n.to_f64(), p.to_f64()));
    }
}

/// One Poisson number: the transformed rejection method PTRS (Hörmann 1993) from rate 10 on, else multiplication
/// (Knuth).
fn poisson_number(generator: &mut Generator, rate: f64) -> f64 {
    if rate >= 10.0 {
        let log_rate = rate.ln();
        let b = 0.931 + 2.53 * rate.sqrt();
        let a = -0.059 + 0.02483 * b;
        let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        let v_r = 0.9277 - 3.6224 / (b - 2.0);
        loop {
            let u = generator.next_f64() - 0.5;
            let v = generator.next_f64();
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + rate + 0.43).floor();
            if us >= 0.07 && v <= v_r {
                return k;
            }
            if k < 0.0 || (us < 0.013 && v > us) {
                continue;
            }
            if v.ln() + inverse_alpha.ln() - (a / (us * us) + b).ln() <= -rate + k * log_rate - log_factorial(k) {
                return k;
            }
        }
    }
    if rate == 0.0 {
        return 0.0;
    }
    let limit = (-rate).exp();
    let mut product = 1.0;
    let mut k = 0.0;
    loop {
        product *= generator.next_f64();
        if product <= limit {
            return k;
        }
        k += 1.0;
    }
}

/// log(k!) of an integer that is not negative: exact products, then Stirling's series.
fn log_factorial(k: f64) -> f64 {
    if k < 20.0 {
        return ((2..=k as u64).product::<u64>() as f64).ln();
    }
    let r = 1.0 / k;
    let r2 = r * r;
    let series = r * (1.0 / 12.0 - r2 * (1.0 / 360.0 - r2 * (1.0 / 1260.0 - r2 * (1.0 / 1680.0))));
    (k + 0.5) * k.ln() - k + 0.918_938_533_204_672_8 + series
}

/// One gamma number of the given shape and scale 1 (Marsaglia & Tsang 2000). PyTorch takes 1/3 and 0.0331 in single
/// precision, and everything that involves the shape alone in the output's type.
fn gamma_number<T: Element>(generator: &mut Generator, shape: T) -> f64 {
    let round = |x: f64| if matches!(T::DTYPE, DType::F64) { x } else { f64::from(x as f32) };
    const THIRD: f64 = (1.0f32 / 3.0f32) as f64;
    const SQUEEZE: f64 = 0.0331f32 as f64;
    let mut shape = shape.to_f64();
    let mut scale = 1.0;
    if shape < 1.0 {
        if shape == 0.0 {
            return 0.0;
        }
        scale *= (1.0 - generator.next_f64()).powf(round(1.0 / shape));
        shape = T::from_f64(shape + 1.0).to_f64();
    }
    let d = round(shape - THIRD);
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let (x, y) = loop {
            let x = generator.next_normal();
            let y = 1.0 + c * x;
            // An impossible shape makes this NaN.
            if y > 0.0 || y.is_nan() {
                break (x, y);
            }
        };
        let v = y * y * y;
        let u = 1.0 - generator.next_f64();
        let xx = x * x;
        if u < 1.0 - SQUEEZE * xx * xx || u.ln() < 0.5 * xx + d * (1.0 - v + v.ln()) {
            return scale * d * v;
        }
    }
}

/// One binomial number: by sums of geometric numbers, or BTRS (Hörmann 1993) when the mean is at least 10.
fn binomial_number(generator: &mut Generator, count: f64, p: f64) -> f64 {
    let sample = |generator: &mut Generator, p: f64| {
        if count * p >= 10.0 { binomial_btrs(generator, count, p) } else { binomial_inversion(generator, count, p) }
    };
    if count.is_nan() || p.is_nan() {
        f64::NAN
    } else if count <= 0.0 || p <= 0.0 {
        0.0
    } else if p >= 1.0 {
        count
    } else if p <= 0.5 {
        sample(generator, p)
    } else {
        count - sample(generator, 1.0 - p)
    }
}

fn binomial_inversion(generator: &mut Generator, count: f64, p: f64) -> f64 {
    let log = (-p).ln_1p();
    let mut sum = 0.0;
    let mut successes = 0.0;
    loop {
        sum += (generator.next_f64().ln() / log).ceil();
        if sum > count {
            return successes;
        }
        successes += 1.0;
    }
}

fn binomial_btrs(generator: &mut Generator, count: f64, p: f64) -> f64 {
    if count == f64::INFINITY {
        return f64::NAN;
    }
    let deviation = (count * p * (1.0 - p)).sqrt();
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let c = count * p + 0.5;
    let v_r = 0.92 - 4.2 / b;
    let r = p / (1.0 - p);
    let alpha = (2.83 + 5.1 / b) * deviation;
    let m = ((count + 1.0) * p).floor();
    loop {
        let u = generator.next_f64() - 0.5;
        let v = generator.next_f64();
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + c).floor();
        if k < 0.0 || k > count {
            continue;
        }
        if us >= 0.07 && v <= v_r {
            return k;
        }
        let v = (v * alpha / (a / (us * us) + b)).ln();
        let bound = (m + 0.5) * ((m + 1.0) / (r * (count - m + 1.0))).ln()
            + (count + 1.0) * ((count - m + 1.0) / (count - k + 1.0)).ln()
            + (k + 0.5) * (r * (count - k + 1.0) / (k + 1.0)).ln()
            + stirling_tail(m)
            + stirling_tail(count - m)
            - stirling_tail(k)
            - stirling_tail(count - k);
        if v <= bound {
            return k;
        }
    }
}

/// What Stirling's formula leaves of log(k!): a table (Hörmann 1993), then the series.
fn stirling_tail(k: f64) -> f64 {
    const TAIL: [f64; 10] = [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ];
    if k <= 9.0 {
        return TAIL[k as usize];
    }
    let square = (k + 1.0) * (k + 1.0);
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)
}
