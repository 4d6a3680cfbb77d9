//! Layer and RMS norm of `f32` rows, with AVX-512: while the results of a row are written, the sums of the one after the next are
//! taken. What is made of sums, across lanes and by roots, takes as long as a short row, and nothing waits for it so.

use super::layer::{moments, moments_of};
use super::lines::{Joint, Results, Row, WIDTH, mask};
use super::rows::{LANES, Rows, total};
use crate::copy::stream;
use crate::math::Avx512;
use crate::prefetch::{prefetch_near, streams_are_asked_for};
use flambeau_base::parallel::parallel_for;
use std::arch::x86_64::*;

/// Vectors that are added side by side.
const VECTORS: usize = LANES / WIDTH;

/// Elements of the rows that are computed so: some vectors, and not more than the first-level cache holds of three rows and two
/// parameters.
pub(super) const LENGTHS: std::ops::RangeInclusive<usize> = LANES..=1024;

/// Rows in one go: their statistics are kept until they are stored.
const TOGETHER: usize = 64;

/// Elements between those that are added and those that are asked for, where they are.
const AHEAD: usize = 1024;

/// Normalises rows as [`layer_norm`](super::layer_norm) or, if not `CENTRE`, [`rms_norm`](super::rms_norm); past the caches if it
/// `streams`.
///
/// # Safety
/// As there, of `f32` that need no conversion, so many as [`LENGTHS`] says in a row; there are `n` of both parameters. The machine
/// must have AVX-512 (F, DQ).
pub(super) unsafe fn run<T: crate::math::Float, const CENTRE: bool>(
    (rows, n): (usize, usize),
    eps: f64,
    (x, out): (&Rows<T>, &Rows<T>),
    (weight, bias): (&[T], &[T]),
    statistics: &[Option<Rows<f64>>; 2],
    streams: bool,
) {
    let normalise = if streams { normalise::<CENTRE, true> } else { normalise::<CENTRE, false> };
    parallel_for(rows, (super::layer::TASK / n).max(1), &|range| {
        let none = std::ptr::null_mut();
        let row = |row: usize| {
            // SAFETY: a row of the caller's, or the end of the last one.
            let x = unsafe { x.read(row * n, 0, none) };
            (x.cast::<f32>(), out.target(row * n, none).cast::<f32>())
        };
        // SAFETY: the machine has AVX-512.
        let mut joint = unsafe { Joint::before(row(range.start).1) };
        for first in range.clone().step_by(TOGETHER) {
            let count = TOGETHER.min(range.end - first);
            let parameters = (weight.as_ptr().cast(), bias.as_ptr().cast());
            let last = first + count == range.end;
            let mut found = [[0.0; TOGETHER]; 2];
            // SAFETY: rows of the caller's.
            unsafe {
                normalise(row(first), (count, n), parameters, eps, (&mut joint, last), &mut found);
                for (operand, of) in statistics.iter().zip(&found) {
                    operand.inspect(|o| o.write_strided(first, 1, count, of.as_ptr()));
                }
            }
        }
        if streams {
            stream::finish();
        }
    });
}

/// Results are what is at `from` less the mean, times the reciprocal deviation and the weight, plus the bias.
#[derive(Clone, Copy)]
struct Normal {
    from: *const f32,
    parameters: (*const f32, *const f32),
    mean: f32,
    rstd: f32,
}

impl Results for Normal {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn sixteen(&self, at: isize, mask: __mmask16) -> __m512 {
        let (weight, bias) = self.parameters;
        // SAFETY: the caller's elements.
        let [x, weight, bias] =
            [self.from, weight, bias].map(|from| unsafe { _mm512_maskz_loadu_ps(mask, from.wrapping_offset(at)) });
        let normal = _mm512_mul_ps(_mm512_sub_ps(x, _mm512_set1_ps(self.mean)), _mm512_set1_ps(self.rstd));
        _mm512_fmadd_ps(normal, weight, bias)
    }
}

/// The sum of all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn sum(lanes: [__m512; VECTORS]) -> f64 {
    // SAFETY: so many vectors are an array of their elements.
    total::<Avx512, f32>(&unsafe { std::mem::transmute::<[__m512; VECTORS], [f32; LANES]>(lanes) })
}

/// The mean of some elements of a row, from its beginning to its end, which is near enough to that of all for most rows.
///
/// # Safety
/// `x` must be valid for `n` elements, [`LANES`] at least.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn pilot<const CENTRE: bool>(x: *const f32, n: usize) -> f32 {
    if !CENTRE {
        return 0.0;
    }
    // SAFETY: the caller's elements.
    let some = [0, n / 4, n / 2, n - WIDTH].map(|at| unsafe { _mm512_loadu_ps(x.add(at)) });
    (sum(some) * const { 1.0 / LANES as f64 }) as f32
}

/// The sums of the squared differences of a row's elements from its pilot, and of these, while `row` is written; asks for what is
/// `ahead` elements further on, unless that is 0.
///
/// # Safety
/// `x` must be valid for `n` elements, and the row as [`Row::write_rest`] says.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn sums_beside<const CENTRE: bool, const PAST: bool>(
    (x, n): (*const f32, usize),
    pilot: f32,
    ahead: usize,
    row: Row<Normal>,
    joint: &mut Joint,
) -> [f64; 2] {
    let pilot = _mm512_set1_ps(pilot);
    let (mut squares, mut rest) = ([_mm512_setzero_ps(); VECTORS], [_mm512_setzero_ps(); VECTORS]);
    let (full, mut done) = (n / LANES * LANES, 0);
    // SAFETY: the caller's elements.
    unsafe {
        for at in (0..full).step_by(LANES) {
            done = row.write_some::<VECTORS, PAST>(done);
            for v in 0..VECTORS {
                let x = x.add(at + v * WIDTH);
                if PAST && ahead > 0 {
                    prefetch_near(x.wrapping_add(ahead).cast());
                }
                let d = _mm512_sub_ps(_mm512_loadu_ps(x), pilot);
                squares[v] = _mm512_fmadd_ps(d, d, squares[v]);
                if CENTRE {
                    rest[v] = _mm512_add_ps(rest[v], d);
                }
            }
        }
        for v in 0..VECTORS {
            let at = full + v * WIDTH;
            let mask = mask(at, n);
            if mask == 0 {
                break;
            }
            let d = _mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, x.add(at)), pilot);
            squares[v] = _mm512_fmadd_ps(d, d, squares[v]);
            if CENTRE {
                rest[v] = _mm512_add_ps(rest[v], d);
            }
        }
        // (Sums are scalars before anything is called, so that they stay in registers.)
        let sums = [sum(squares), if CENTRE { sum(rest) } else { 0.0 }];
        row.write_rest::<PAST>(done, joint);
        sums
    }
}

/// [`moments`], for rows whose pilot will not do.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma,f16c")]
unsafe fn moments_of_few<const CENTRE: bool>(x: *const f32, n: usize, eps: f64) -> (f64, f64) {
    // SAFETY: the caller's.
    unsafe { moments::<Avx512, f32, CENTRE>(x, n, eps) }
}

/// Normalises rows, [`TOGETHER`] at most, and gives their means and reciprocal deviations; past the caches with what the rows
/// before left, to which nothing is added if these are the `last`.
///
/// # Safety
/// As [`run`], of these rows, which begin where those before end.
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn normalise<const CENTRE: bool, const PAST: bool>(
    (x, out): (*const f32, *mut f32),
    (rows, n): (usize, usize),
    parameters: (*const f32, *const f32),
    eps: f64,
    (joint, last): (&mut Joint, bool),
    [means, rstds]: &mut [[f64; TOGETHER]; 2],
) {
    let share = 1.0 / n as f64;
    let ahead = if streams_are_asked_for() { AHEAD } else { 0 };
    let row = |row: usize| x.wrapping_add(row * n);
    let to = |of: usize, n: usize, (mean, rstd): (f64, f64)| {
        let normal = Normal { from: row(of), parameters, mean: mean as f32, rstd: rstd as f32 };
        Row::new(normal, out.wrapping_add(of * n), n, PAST)
    };
    // SAFETY: the caller's rows.
    unsafe {
        let moments = |of: usize, pilot: f32, [squares, rest]: [f64; 2]| {
            // As in `row_sums`: what the mean's distance takes from the squares leaves at least half of them.
            if !CENTRE || rest.is_finite() && 2.0 * rest * rest * share <= squares {
                moments_of::<CENTRE>(pilot.into(), squares, rest, share, eps)
            } else {
                moments_of_few::<CENTRE>(row(of), n, eps)
            }
        };
        let nothing = to(0, 0, (0.0, 0.0));
        let mut known = [(0.0, 0.0); 2];
        for (of, known) in known.iter_mut().enumerate().take(rows) {
            let pilot = pilot::<CENTRE>(row(of), n);
            *known = moments(of, pilot, sums_beside::<CENTRE, false>((row(of), n), pilot, 0, nothing, joint));
        }
        let mut next = if rows > 2 { pilot::<CENTRE>(row(2), n) } else { 0.0 };
        for of in 0..rows {
            (means[of], rstds[of]) = known[0];
            let results = to(of, n, known[0]);
            let (after, pilot_of_after) = (of + 2, next);
            if of + 3 < rows {
                next = pilot::<CENTRE>(row(of + 3), n);
            }
            let left = if after < rows { n } else { 0 };
            let sums = sums_beside::<CENTRE, PAST>((row(after), left), pilot_of_after, ahead, results, joint);
            known = [known[1], if left > 0 { moments(after, pilot_of_after, sums) } else { (0.0, 0.0) }];
            if PAST && last && of + 1 == rows {
                results.finish(joint);
            }
        }
    }
}
