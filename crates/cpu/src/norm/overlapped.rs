//! Layer and RMS norm of rows of `f32` and of halves, with AVX-512: while the results of a row are written, the sums of the one
//! after the next are taken. What is made of sums, across lanes and by roots, takes as long as a short row, and nothing waits for
//! it so. (It is a row's time, too, to pass what [`beside`](super::beside) is passed through memory: rows of 100 take 1.2 to 1.9
//! of the time so.)

use super::beside::{BLOCK, VECTORS};
use super::layer::{moments, moments_of};
use super::lines::{Joint, Results, Row, mask};
use super::rows::{LANES, Rows, total};
use crate::buffer::Scratch;
use crate::copy::{Shared, stream};
use crate::math::Avx512;
use crate::narrow::{Narrow, WIDTH};
use crate::prefetch::{prefetch_near, streams_are_asked_for};
use crate::reduce::Operand;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, bf16, f16};
use std::arch::x86_64::*;

/// Rows in one go: their statistics are kept until they are stored.
const TOGETHER: usize = 64;

/// Elements between those that are added and those that are asked for, where they are.
const AHEAD: usize = 1024;

/// Normalises rows as [`layer_norm`](super::layer_norm) or, if not `CENTRE`, [`rms_norm`](super::rms_norm), past the caches where
/// none holds them.
///
/// # Safety
/// As there, of operands that [it suits](super::beside::suits); there are `n` of both parameters. The machine must have AVX-512 (F,
/// BW, DQ, VL).
pub(super) unsafe fn run<const CENTRE: bool>(
    shape: (usize, usize),
    eps: f64,
    [x, out]: [Operand; 2],
    parameters: [*const f32; 2],
    statistics: &[Option<Rows<f64>>; 2],
) {
    // SAFETY: the caller's.
    unsafe {
        match x.dtype {
            DType::F16 => run_of::<f16, CENTRE>(shape, eps, [x, out], parameters, statistics),
            DType::BF16 => run_of::<bf16, CENTRE>(shape, eps, [x, out], parameters, statistics),
            _ => run_of::<f32, CENTRE>(shape, eps, [x, out], parameters, statistics),
        }
    }
}

/// [`run`] of elements of a type.
///
/// # Safety
/// As there; both operands have that type.
unsafe fn run_of<E: Narrow, const CENTRE: bool>(
    (rows, n): (usize, usize),
    eps: f64,
    [x, out]: [Operand; 2],
    parameters: [*const f32; 2],
    statistics: &[Option<Rows<f64>>; 2],
) {
    let streams = x.data != out.data && stream::streams(2 * rows * n * size_of::<E>());
    let normalise = if streams { normalise::<E, CENTRE, true> } else { normalise::<E, CENTRE, false> };
    let (x, out, parameters) =
        (Shared(x.data.cast::<E>()), Shared(out.data.cast::<E>()), parameters.map(|p| Shared(p.cast_mut())));
    parallel_for(rows, (super::layer::TASK / n).max(1), &|range| {
        let row = |row: usize| (x.get().wrapping_add(row * n).cast_const(), out.get().wrapping_add(row * n));
        let parameters = parameters.map(|p| p.get().cast_const());
        // SAFETY: the machine has AVX-512.
        let mut joint = unsafe { Joint::before(row(range.start).1) };
        for first in range.clone().step_by(TOGETHER) {
            let count = TOGETHER.min(range.end - first);
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
struct Normal<E> {
    from: *const E,
    parameters: [*const f32; 2],
    mean: f32,
    rstd: f32,
}

impl<E: Narrow> Results for Normal<E> {
    type Out = E;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn sixteen(&self, at: isize, mask: __mmask16) -> __m512 {
        let [weight, bias] = self.parameters;
        // SAFETY: the caller's elements.
        let (x, weight, bias) = unsafe {
            (
                E::some(self.from.wrapping_offset(at), mask),
                f32::some(weight.wrapping_offset(at), mask),
                f32::some(bias.wrapping_offset(at), mask),
            )
        };
        let normal = _mm512_mul_ps(_mm512_sub_ps(x, _mm512_set1_ps(self.mean)), _mm512_set1_ps(self.rstd));
        _mm512_fmadd_ps(normal, weight, bias)
    }
}

/// The sum of all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn sum(lanes: [__m512; VECTORS]) -> f64 {
    // SAFETY: so many vectors are an array of their elements.
    total::<Avx512, f32>(&unsafe { std::mem::transmute::<[__m512; VECTORS], [f32; LANES]>(lanes) })
}

/// The mean of some elements of a row, from its beginning to its end, which is near enough to that of all for most rows.
///
/// # Safety
/// `x` must be valid for `n` elements, [`LANES`] at least.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pilot<E: Narrow, const CENTRE: bool>(x: *const E, n: usize) -> f32 {
    if !CENTRE {
        return 0.0;
    }
    // SAFETY: the caller's elements.
    let some =
        unsafe { [E::sixteen(x), E::sixteen(x.add(n / 4)), E::sixteen(x.add(n / 2)), E::sixteen(x.add(n - WIDTH))] };
    (sum(some) * const { 1.0 / LANES as f64 }) as f32
}

/// The sums of the squared differences of a row's elements from its pilot, and of these, while `row` is written; asks for what is
/// `ahead` elements further on, unless that is 0.
///
/// # Safety
/// `x` must be valid for `n` elements, and the row as [`Row::write_rest`] says.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn sums_beside<E: Narrow, const CENTRE: bool, const PAST: bool>(
    (x, n): (*const E, usize),
    pilot: f32,
    ahead: usize,
    row: Row<Normal<E>>,
    joint: &mut Joint<E>,
) -> [f64; 2] {
    let pilot = _mm512_set1_ps(pilot);
    let (mut squares, mut rest) = ([_mm512_setzero_ps(); VECTORS], [_mm512_setzero_ps(); VECTORS]);
    let (full, mut at, mut done) = (n / LANES * LANES, 0, 0);
    let mut sums = [0.0; 2];
    // SAFETY: the caller's elements.
    unsafe {
        loop {
            let end = full.min(at + BLOCK);
            while at < end {
                done = row.write_some::<LANES, PAST>(done);
                for v in 0..VECTORS {
                    let x = x.add(at + v * WIDTH);
                    if PAST && ahead > 0 && (v * WIDTH).is_multiple_of(E::OF_LINE) {
                        prefetch_near(x.wrapping_add(ahead).cast());
                    }
                    let d = _mm512_sub_ps(E::sixteen(x), pilot);
                    squares[v] = _mm512_fmadd_ps(d, d, squares[v]);
                    if CENTRE {
                        rest[v] = _mm512_add_ps(rest[v], d);
                    }
                }
                at += LANES;
            }
            if at == full {
                break;
            }
            sums = [sums[0] + sum(squares), if CENTRE { sums[1] + sum(rest) } else { 0.0 }];
            (squares, rest) = ([_mm512_setzero_ps(); VECTORS], [_mm512_setzero_ps(); VECTORS]);
        }
        for v in 0..VECTORS {
            let at = full + v * WIDTH;
            let mask = mask(at, n) as __mmask16;
            if mask == 0 {
                break;
            }
            let d = _mm512_maskz_sub_ps(mask, E::some(x.add(at), mask), pilot);
            squares[v] = _mm512_fmadd_ps(d, d, squares[v]);
            if CENTRE {
                rest[v] = _mm512_add_ps(rest[v], d);
            }
        }
        // (Sums are scalars before anything is called, so that they stay in registers.)
        sums = [sums[0] + sum(squares), if CENTRE { sums[1] + sum(rest) } else { 0.0 }];
        row.write_rest::<PAST>(done, joint);
        sums
    }
}

/// [`moments`], for rows whose pilot will not do.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma,f16c")]
unsafe fn moments_of_few<E: Narrow, const CENTRE: bool>(x: *const E, n: usize, eps: f64) -> (f64, f64) {
    if const { matches!(E::DTYPE, DType::F32) } {
        // SAFETY: the caller's.
        return unsafe { moments::<Avx512, f32, CENTRE>(x.cast(), n, eps) };
    }
    let room = Scratch::<f32>::new(n);
    // SAFETY: the caller's elements, and room for as many.
    unsafe {
        for i in 0..n {
            *room.get().add(i) = (*x.add(i)).to_f32();
        }
        moments::<Avx512, f32, CENTRE>(room.get(), n, eps)
    }
}

/// Normalises rows, [`TOGETHER`] at most, and gives their means and reciprocal deviations; past the caches with what the rows
/// before left, to which nothing is added if these are the `last`.
///
/// # Safety
/// As [`run`], of these rows, which begin where those before end.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn normalise<E: Narrow, const CENTRE: bool, const PAST: bool>(
    (x, out): (*const E, *mut E),
    (rows, n): (usize, usize),
    parameters: [*const f32; 2],
    eps: f64,
    (joint, last): (&mut Joint<E>, bool),
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
                moments_of_few::<E, CENTRE>(row(of), n, eps)
            }
        };
        let nothing = to(0, 0, (0.0, 0.0));
        let mut known = [(0.0, 0.0); 2];
        for (of, known) in known.iter_mut().enumerate().take(rows) {
            let pilot = pilot::<E, CENTRE>(row(of), n);
            *known = moments(of, pilot, sums_beside::<E, CENTRE, false>((row(of), n), pilot, 0, nothing, joint));
        }
        let mut next = if rows > 2 { pilot::<E, CENTRE>(row(2), n) } else { 0.0 };
        for of in 0..rows {
            (means[of], rstds[of]) = known[0];
            let results = to(of, n, known[0]);
            let (after, pilot_of_after) = (of + 2, next);
            if of + 3 < rows {
                next = pilot::<E, CENTRE>(row(of + 3), n);
            }
            let left = if after < rows { n } else { 0 };
            let sums = sums_beside::<E, CENTRE, PAST>((row(after), left), pilot_of_after, ahead, results, joint);
            known = [known[1], if left > 0 { moments(after, pilot_of_after, sums) } else { (0.0, 0.0) }];
            if PAST && last && of + 1 == rows {
                results.finish(joint);
            }
        }
    }
}
