//! Softmax and its logarithm of `f32` rows, with AVX-512: while the terms of one row are computed, the results of the row before
//! are written and the maximum of the next is found. Either by itself waits for stores and loads, and nothing is computed
//! meanwhile; nor are sums and maxima of lanes waited for.

use super::TASK;
use crate::buffer::Scratch;
use crate::copy::stream;
use crate::math::vectors::x86::exp_of_sixteen;
use crate::math::{Avx512, Float};
use crate::norm::lines::{Joint, Results, Row, WIDTH, mask};
use crate::norm::rows::{LANES, LINE_BYTES, Rows, largest, together, total};
use crate::prefetch::prefetch_near;
use crate::processor::{Processor, processor};
use flambeau_base::parallel::parallel_for;
use std::arch::x86_64::*;

/// Vectors that are computed together.
const VECTORS: usize = LANES / WIDTH;

/// Elements of the longest rows that are computed so: neighbours stay in the second-level cache.
pub(super) const LONGEST: usize = 1 << 14;

/// Elements between those of the next row that are compared and those that are asked for: as many as a row has. Of Intel's
/// processors, not more than the first-level cache holds beside the rows in use, as long as it holds any of these (Emerald Rapids:
/// rows of 2500 and 4000 take 0.9 to 0.98 of the time; of 10000, which it does not hold, 1.1).
fn ahead(n: usize) -> usize {
    const MOST: usize = 2048;
    if processor() == Processor::Intel && n <= 2 * MOST { n.min(MOST) } else { n }
}

/// Elements of room for the terms of a row.
pub(super) fn room(n: usize) -> usize {
    (n + LINE_BYTES / size_of::<f32>()).next_multiple_of(WIDTH)
}

/// Softmax of rows of `n` elements, [`WIDTH`] at least, or its logarithm; past the caches if it `streams`.
///
/// # Safety
/// `x` and `out` must be valid for the rows, of `f32` that need no conversion; they may be the same unless it streams. The machine
/// must have AVX-512 (F, DQ).
pub(super) unsafe fn run<T: Float>(log: bool, (count, n): (usize, usize), x: &Rows<T>, out: &Rows<T>, streams: bool) {
    let rows = match (log, streams) {
        (true, true) => rows::<true, true>,
        (true, false) => rows::<true, false>,
        (false, true) => rows::<false, true>,
        (false, false) => rows::<false, false>,
    };
    parallel_for(count, (TASK / n).max(1), &|range| {
        let room = Scratch::<f32>::new(if streams { 2 * room(n) } else { 0 });
        let (at, none) = (range.start * n, std::ptr::null_mut());
        // SAFETY: some of the caller's rows.
        unsafe { rows((x.read(at, 0, none).cast(), out.target(at, none).cast()), (range.len(), n), room.get()) };
        if streams {
            stream::finish();
        }
    });
}

/// Results are what is at `from` times the scale; of a logarithm, that less the maximum less the scale.
#[derive(Clone, Copy)]
struct Scaled<const LOG: bool> {
    from: *const f32,
    max: f32,
    scale: f32,
}

impl<const LOG: bool> Results for Scaled<LOG> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn sixteen(&self, at: isize, mask: __mmask16) -> __m512 {
        let (max, scale) = (_mm512_set1_ps(self.max), _mm512_set1_ps(self.scale));
        // SAFETY: the caller's elements.
        let x = unsafe { _mm512_maskz_loadu_ps(mask, self.from.wrapping_offset(at)) };
        if LOG { _mm512_sub_ps(_mm512_sub_ps(x, max), scale) } else { _mm512_mul_ps(x, scale) }
    }
}

/// Rows of `n` elements, [`WIDTH`] at least, one behind the other; `LOG`: the logarithms. Results go `PAST` the caches, with twice
/// the [`room`] for terms, or terms wait in the output.
///
/// # Safety
/// `x` and `out` must be valid for the rows, and may be the same unless results go past the caches; the machine must have AVX-512
/// (F, DQ). [`stream::finish`] follows before others read what went past the caches.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn rows<const LOG: bool, const PAST: bool>(
    (x, out): (*const f32, *mut f32),
    (rows, n): (usize, usize),
    room: *mut f32,
) {
    let (full, ahead) = (n / LANES * LANES, ahead(n));
    // SAFETY: all that is read and written are elements of the caller's rows, or of the room for two.
    unsafe {
        let mut max = largest::<Avx512, f32>(x, n);
        let mut before = Row::new(Scaled::<LOG> { from: x, max, scale: 0.0 }, out, 0, PAST);
        let mut joint = Joint::before(out);
        for row in 0..rows {
            let (x, out) = (x.add(row * n), out.add(row * n));
            // (The last row's maximum is found again.)
            let next = if row + 1 < rows { x.add(n) } else { x };
            // What is kept for a line of the output begins with a line, too.
            let kept = match PAST {
                true => room.add(row % 2 * self::room(n)).wrapping_byte_add(out.addr() % LINE_BYTES),
                false => out,
            };
            let mut sums = [_mm512_setzero_ps(); VECTORS];
            let mut best = [_mm512_set1_ps(f32::NEG_INFINITY); VECTORS];
            let mut done = 0;
            for at in (0..full).step_by(LANES) {
                done = before.write_some::<VECTORS, PAST>(done);
                for v in 0..VECTORS {
                    let at = at + v * WIDTH;
                    prefetch_near(next.wrapping_add(ahead + at).cast());
                    let term = exp_of_sixteen(_mm512_sub_ps(_mm512_loadu_ps(x.add(at)), _mm512_set1_ps(max)));
                    sums[v] = _mm512_add_ps(sums[v], term);
                    // (Of NaN and a number, the second operand.)
                    best[v] = _mm512_max_ps(_mm512_loadu_ps(next.add(at)), best[v]);
                    if !LOG {
                        if !PAST {
                            prefetch_near(out.wrapping_add(n + at).cast_const().cast());
                        }
                        _mm512_storeu_ps(kept.add(at), term);
                    }
                }
            }
            for v in 0..VECTORS {
                let at = full + v * WIDTH;
                let mask = mask(at, n);
                if mask == 0 {
                    break;
                }
                let term = exp_of_sixteen(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x.add(at)), _mm512_set1_ps(max)));
                sums[v] = _mm512_mask_add_ps(sums[v], mask, sums[v], term);
                best[v] = _mm512_mask_max_ps(best[v], mask, _mm512_maskz_loadu_ps(mask, next.add(at)), best[v]);
                if !LOG {
                    _mm512_mask_storeu_ps(kept.add(at), mask, term);
                }
            }
            let sum = total::<Avx512, f32>(&std::mem::transmute::<[__m512; VECTORS], [f32; LANES]>(sums));
            let max_of_next =
                together::<Avx512, f32, LANES, true>(std::mem::transmute::<[__m512; VECTORS], [f32; LANES]>(best));
            // (Sums and maxima are scalars before anything is called, so that they stay in registers.)
            before.write_rest::<PAST>(done, &mut joint);
            let scale = if LOG { sum.ln() } else { 1.0 / sum } as f32;
            before = Row::new(Scaled { from: if LOG { x } else { kept }, max, scale }, out, n, PAST);
            max = max_of_next;
        }
        before.write_rest::<PAST>(0, &mut joint);
        if PAST {
            before.finish(&joint);
        }
    }
}
