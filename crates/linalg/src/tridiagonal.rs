//! Eigenvalues alone of symmetric tridiagonal matrices: the QL iteration without square roots or rotations (Pal, Walker and
//! Kahan's form; B. N. Parlett, The Symmetric Eigenvalue Problem, 1998, section 8.15), which LAPACK has as `sterf`.
//!
//! faer accumulates rotations for eigenvectors even where none are wanted, which takes it twice as long as all before it.

/// Sweeps per eigenvalue before it is given up; two are common.
const SWEEPS: usize = 30;
/// The least product of neighbours on the diagonal that an element beside them is compared with, for a norm of 1.
const FLOOR: f64 = 1e-20;

/// The eigenvalues, ascending, in place of the `diagonal`; `beside` (one shorter) is overwritten. Their errors are as large
/// as the roundings of the largest, or `precision` times it where that is more. `false` if an element is not finite or an eigenvalue was not found: then both slices
/// hold nothing of use.
pub fn eigenvalues(diagonal: &mut [f64], beside: &mut [f64], precision: f64) -> bool {
    let limit = precision.max(0.5 * f64::EPSILON).powi(2);
    let norm = diagonal.iter().chain(beside.iter()).fold(0.0, |most: f64, x| most.max(x.abs()));
    // `max` passes over NaN.
    if !(diagonal.iter().chain(beside.iter()).all(|x| x.is_finite())) {
        return false;
    }
    if norm == 0.0 {
        return true;
    }
    diagonal.iter_mut().for_each(|x| *x /= norm);
    beside.iter_mut().for_each(|x| *x = (*x / norm) * (*x / norm));
    let mut start = 0;
    for end in 0..diagonal.len() {
        if end + 1 == diagonal.len() || negligible(limit, beside[end], diagonal[end], diagonal[end + 1]) {
            if !block(&mut diagonal[start..=end], &mut beside[start..end], limit) {
                return false;
            }
            start = end + 1;
        }
    }
    diagonal.iter_mut().for_each(|x| *x *= norm);
    diagonal.sort_unstable_by(f64::total_cmp);
    diagonal.iter().all(|x| x.is_finite())
}

/// Whether an element with this square may be taken for 0 beside `a` and `b` on the diagonal.
fn negligible(limit: f64, square: f64, a: f64, b: f64) -> bool {
    square <= limit * (a * b).abs().max(FLOOR)
}

/// [`eigenvalues`] of a matrix of norm up to 1 without zeros beside the diagonal, whose squares are given.
fn block(d: &mut [f64], squares: &mut [f64], limit: f64) -> bool {
    let n = d.len();
    // The iteration finds the eigenvalues from the first place on, and the small ones more exactly.
    if d[n - 1].abs() < d[0].abs() {
        d.reverse();
        squares.reverse();
    }
    let (mut first, mut sweeps) = (0, SWEEPS * n);
    while first < n {
        let last = (first..n - 1).find(|&i| negligible(limit, squares[i], d[i], d[i + 1])).unwrap_or(n - 1);
        match last - first {
            0 => first += 1,
            1 => {
                (d[first], d[last]) = pair(d[first], squares[first], d[last]);
                first += 2;
            }
            _ if sweeps == 0 => return false,
            _ => {
                sweep(&mut d[first..=last], &mut squares[first..last]);
                sweeps -= 1;
            }
        }
    }
    true
}

/// The eigenvalues of a matrix of order 2, the square of whose element beside the diagonal is given.
fn pair(a: f64, square: f64, b: f64) -> (f64, f64) {
    let (middle, half) = (0.5 * (a + b), 0.5 * (a - b));
    let large = middle + (half * half + square).sqrt().copysign(middle);
    (large, if large == 0.0 { 0.0 } else { (a * b - square) / large })
}

/// One step of QL with Wilkinson's shift, on squares.
fn sweep(d: &mut [f64], squares: &mut [f64]) {
    let last = d.len() - 1;
    let root = squares[0].sqrt();
    let half = (d[1] - d[0]) / (2.0 * root);
    let shift = d[0] - root / (half + (half * half + 1.0).sqrt().copysign(half));
    let (mut cosine, mut sine) = (1.0, 0.0);
    let mut gamma = d[last] - shift;
    let mut p = gamma * gamma;
    for i in (0..last).rev() {
        let square = squares[i];
        let r = p + square;
        if i + 1 < last {
            squares[i + 1] = sine * r;
        }
        let before = cosine;
        // The divisions are independent of one another: each step waits for one of them only.
        let inverse = r / p;
        (cosine, sine) = (p / r, square / r);
        let (old, alpha) = (gamma, d[i]);
        gamma = cosine * (alpha - shift) - sine * old;
        d[i + 1] = old + (alpha - gamma);
        p = if cosine > 1e-300 { gamma * gamma * inverse } else { before * square };
    }
    squares[0] = sine * p;
    d[0] = shift + gamma;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many eigenvalues are below `x`: Sturm's count of negative pivots.
    fn below(d: &[f64], e: &[f64], x: f64) -> usize {
        let (mut count, mut pivot) = (0, 1.0);
        for i in 0..d.len() {
            let beside = if i == 0 { 0.0 } else { e[i - 1] * e[i - 1] };
            pivot = d[i] - x - if beside == 0.0 { 0.0 } else { beside / pivot };
            if pivot == 0.0 {
                pivot = f64::MIN_POSITIVE;
            }
            count += (pivot < 0.0) as usize;
        }
        count
    }

    fn check(d: &[f64], e: &[f64]) {
        let (mut values, mut rest) = (d.to_vec(), e.to_vec());
        assert!(eigenvalues(&mut values, &mut rest, 0.0));
        let norm = d.iter().chain(e).fold(0.0f64, |m, x| m.max(x.abs()));
        let error = 1e-14 * norm * (d.len() as f64).sqrt() + f64::MIN_POSITIVE;
        for (i, x) in values.iter().enumerate() {
            assert!(below(d, e, x - error) <= i && below(d, e, x + error) > i, "{i}: {x} of {d:?}, {e:?}");
        }
    }

    #[test]
    fn eigenvalues_stand_where_sturm_counts_them() {
        check(&[3.0], &[]);
        check(&[1.0, 1.0], &[0.0]);
        check(&[0.0, 0.0], &[2.0]);
        check(&[0.0; 9], &[1.0; 8]);
        check(&[2.0; 40], &[-1.0; 39]);
        check(&[0.0; 5], &[0.0; 4]);
        let mut seed = 1u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        for n in 1..60 {
            for power in [0, 20, 200] {
                let d: Vec<f64> = (0..n).map(|_| next() * 10f64.powf(next() * power as f64)).collect();
                let e: Vec<f64> = (1..n).map(|_| next() * 10f64.powf(next() * power as f64)).collect();
                check(&d, &e);
            }
        }
    }

    #[test]
    fn what_is_not_finite_is_refused() {
        assert!(!eigenvalues(&mut [1.0, f64::NAN], &mut [1.0], 0.0));
        assert!(!eigenvalues(&mut [1.0, 1.0], &mut [f64::INFINITY], 0.0));
    }
}
