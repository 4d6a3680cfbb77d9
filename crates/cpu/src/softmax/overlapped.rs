//! Softmax and its logarithm of rows of `f32` and of halves, with AVX-512: while the terms of one row are computed, the results of
//! the row before are written and the maximum of the next is found. Either by itself waits for stores and loads, and nothing is
//! computed meanwhile; nor are sums and maxima of lanes waited for.

use super::{RowFunction, TASK};
use crate::buffer::Scratch;
use crate::copy::{Shared, stream};
use crate::math::Avx512;
use crate::math::vectors::x86::exp_of_sixteen;
use crate::narrow::{Narrow, WIDTH};
use crate::norm::lines::{Joint, Results, Row, mask};
use crate::norm::rows::{LANES, LINE_BYTES, total};
use crate::prefetch::prefetch_near;
use crate::processor::{Processor, processor};
use crate::reduce::Operand;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, bf16, f16};
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Vectors that are computed together.
const VECTORS: usize = LANES / WIDTH;

/// Elements of the rows that are computed so: a cache line at least, and neighbours stay in the second-level cache.
const LENGTHS: std::ops::RangeInclusive<usize> = 2 * WIDTH..=1 << 14;

/// Elements between those of the next row that are compared and those that are asked for: as many as a row has. Of Intel's
/// processors, not more than the first-level cache holds beside the rows in use, as long as it holds any of these (Emerald Rapids:
/// rows of 2500 and 4000 take 0.9 to 0.98 of the time; of 10000, which it does not hold, 1.1).
fn ahead(n: usize) -> usize {
    const MOST: usize = 2048;
    if processor() == Processor::Intel && n <= 2 * MOST { n.min(MOST) } else { n }
}

/// Elements of room for what the results of a row are made of.
pub(super) fn room(n: usize) -> usize {
    (n + LINE_BYTES / size_of::<f32>()).next_multiple_of(WIDTH)
}

/// Whether rows of `n` elements from `x` to `out` are computed so, on a machine that has AVX-512.
pub(super) fn suits(n: usize, x: Operand, out: Operand) -> bool {
    let aligned = |operand: Operand| operand.data.addr().is_multiple_of(operand.dtype.size());
    let narrow = matches!(x.dtype, DType::F32 | DType::F16 | DType::BF16);
    LENGTHS.contains(&n) && narrow && x.dtype == out.dtype && aligned(x) && aligned(out)
}

/// Softmax, or a logarithm of it, of rows of `n` elements; past the caches where none holds them.
///
/// # Safety
/// Both operands must be valid for the rows and [suit](suits); they may be the same. The machine must have AVX-512 (F, BW, DQ,
/// VL).
pub(super) unsafe fn run<F: RowFunction>(shape: (usize, usize), x: Operand, out: Operand) {
    // SAFETY: the caller's.
    unsafe {
        match x.dtype {
            DType::F16 => run_of::<f16, F>(shape, x, out),
            DType::BF16 => run_of::<bf16, F>(shape, x, out),
            _ => run_of::<f32, F>(shape, x, out),
        }
    }
}

/// [`run`] of elements of a type.
///
/// # Safety
/// As there; both operands have that type.
unsafe fn run_of<E: Narrow, F: RowFunction>((count, n): (usize, usize), x: Operand, out: Operand) {
    let streams = x.data != out.data && stream::streams(2 * count * n * size_of::<E>());
    let rows = if streams { rows::<E, F, true> } else { rows::<E, F, false> };
    let (x, out) = (Shared(x.data.cast::<E>()), Shared(out.data.cast::<E>()));
    parallel_for(count, (TASK / n).max(1), &|range| {
        let room = Scratch::<f32>::new(if E::IS_HALF || streams { 2 * room(n) } else { 0 });
        let at = range.start * n;
        let (x, out) = (x.get().wrapping_add(at).cast_const(), out.get().wrapping_add(at));
        // SAFETY: some of the caller's rows.
        unsafe { rows((x, out), (range.len(), n), room.get()) };
        if streams {
            stream::finish();
        }
    });
}

/// Results are the term at `from` times the scale; of a logarithm, the element at `from` less the maximum less the scale.
#[derive(Clone, Copy)]
struct Scaled<E, F> {
    from: *const f32,
    max: f32,
    scale: f32,
    of: PhantomData<(E, F)>,
}

impl<E: Narrow, F: RowFunction> Results for Scaled<E, F> {
    type Out = E;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn sixteen(&self, at: isize, mask: __mmask16) -> __m512 {
        let (max, scale) = (_mm512_set1_ps(self.max), _mm512_set1_ps(self.scale));
        // SAFETY: the caller's elements.
        let x = unsafe { f32::some(self.from.wrapping_offset(at), mask) };
        if F::SCALED_TERM { _mm512_mul_ps(x, scale) } else { _mm512_sub_ps(_mm512_sub_ps(x, max), scale) }
    }
}

/// The largest of `n` elements, as many as [`LENGTHS`] says.
///
/// # Safety
/// `x` must be valid for them, and the machine must have AVX-512 (F, BW, DQ, VL).
#[inline]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn largest<E: Narrow>(x: *const E, n: usize) -> f32 {
    // SAFETY: the caller's elements. (The last lines have some that others have.)
    unsafe {
        let mut best = [E::least(); VECTORS];
        for at in (0..n / LANES * LANES).step_by(LANES) {
            for l in 0..LANES / E::OF_LINE {
                best[l] = E::larger(best[l], x.add(at + l * E::OF_LINE));
            }
        }
        for l in 0..LANES / E::OF_LINE {
            best[l] = E::larger(best[l], x.add(n.saturating_sub((l + 1) * E::OF_LINE)));
        }
        E::largest(best)
    }
}

/// Rows of `n` elements, as many as [`LENGTHS`] says, one behind the other. Results go `PAST` the caches or not. There is twice the
/// [`room`], for terms, or elements of halves that their logarithms are made of; terms of `f32` wait in an output that does not go
/// past.
///
/// # Safety
/// `x` and `out` must be valid for the rows, and may be the same unless results go past the caches; the machine must have AVX-512
/// (F, BW, DQ, VL). [`stream::finish`] follows before others read what went past the caches.
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn rows<E: Narrow, F: RowFunction, const PAST: bool>(
    (x, out): (*const E, *mut E),
    (rows, n): (usize, usize),
    room: *mut f32,
) {
    let (full, ahead) = (n / LANES * LANES, ahead(n));
    let row_of = |from: *const f32, out: *mut E, n: usize, max: f32, scale: f32| {
        Row::new(Scaled::<E, F> { from, max, scale, of: PhantomData }, out, n, PAST)
    };
    // SAFETY: all that is read and written are elements of the caller's rows, or of the room for two.
    unsafe {
        let mut max = largest(x, n);
        let mut before = row_of(room, out, 0, max, 0.0);
        let mut joint = Joint::before(out);
        for row in 0..rows {
            let (x, out) = (x.add(row * n), out.add(row * n));
            // (The last row's maximum is found again.)
            let next = if row + 1 < rows { x.add(n) } else { x };
            let kept: *mut f32 = match const { !E::IS_HALF && !PAST } {
                true => out.cast(),
                // What is kept for a line of the output begins with a line, too.
                false => room.add(row % 2 * self::room(n) + out.addr() / size_of::<E>() % WIDTH),
            };
            let mut sums = [_mm512_setzero_ps(); VECTORS];
            let mut best = [E::least(); VECTORS];
            let mut done = 0;
            for at in (0..full).step_by(LANES) {
                done = before.write_some::<LANES, PAST>(done);
                for l in 0..LANES / E::OF_LINE {
                    let at = at + l * E::OF_LINE;
                    prefetch_near(next.wrapping_add(ahead + at).cast());
                    if F::SCALED_TERM && !PAST {
                        prefetch_near(out.wrapping_add(n + at).cast_const().cast());
                    }
                    best[l] = E::larger(best[l], next.add(at));
                }
                for v in 0..VECTORS {
                    let at = at + v * WIDTH;
                    let x = E::sixteen(x.add(at));
                    let term = exp_of_sixteen(_mm512_sub_ps(x, _mm512_set1_ps(max)));
                    sums[v] = _mm512_add_ps(sums[v], term);
                    if F::SCALED_TERM || E::IS_HALF {
                        _mm512_storeu_ps(kept.add(at), if F::SCALED_TERM { term } else { x });
                    }
                }
            }
            for l in 0..LANES / E::OF_LINE {
                let at = full + l * E::OF_LINE;
                if at < n {
                    best[l] = E::larger_of_some(best[l], mask(at, n), next.add(at));
                }
            }
            for v in 0..VECTORS {
                let at = full + v * WIDTH;
                let mask = mask(at, n) as __mmask16;
                if mask == 0 {
                    break;
                }
                let x = E::some(x.add(at), mask);
                let term = exp_of_sixteen(_mm512_sub_ps(x, _mm512_set1_ps(max)));
                sums[v] = _mm512_mask_add_ps(sums[v], mask, sums[v], term);
                if F::SCALED_TERM || E::IS_HALF {
                    _mm512_mask_storeu_ps(kept.add(at), mask, if F::SCALED_TERM { term } else { x });
                }
            }
            let sum = total::<Avx512, f32>(&std::mem::transmute::<[__m512; VECTORS], [f32; LANES]>(sums));
            let max_of_next = E::largest(best);
            // (Sums and maxima are scalars before anything is called, so that they stay in registers.)
            before.write_rest::<PAST>(done, &mut joint);
            let from = if F::SCALED_TERM || E::IS_HALF { kept.cast_const() } else { x.cast() };
            before = row_of(from, out, n, max, F::scale(sum) as f32);
            max = max_of_next;
        }
        before.write_rest::<PAST>(0, &mut joint);
        if PAST {
            before.finish(&joint);
        }
    }
}
