//! Softmax and its logarithm of `f32` rows, with AVX-512: while the terms of one row are computed, the results of the row before
//! are written and the maximum of the next is found. Either by itself waits for stores and loads, and nothing is computed
//! meanwhile; nor are sums and maxima of lanes waited for.

use super::TASK;
use crate::buffer::Scratch;
use crate::copy::stream;
use crate::math::vectors::x86::exp_of_sixteen;
use crate::math::{Avx512, Float};
use crate::norm::rows::{LANES, LINE_BYTES, Rows, largest, together, total};
use crate::prefetch::prefetch_near;
use crate::processor::{Processor, processor};
use flambeau_base::parallel::parallel_for;
use std::arch::x86_64::*;

/// Elements of a vector, and vectors that are computed together.
pub(super) const WIDTH: usize = 16;
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

/// A row of `n` elements whose results are to be written, `whole` of them, from element `lead` on, as vectors. They are what is at
/// `from` times the scale; of a logarithm, that less the maximum less the scale.
#[derive(Clone, Copy)]
struct Row {
    from: *const f32,
    out: *mut f32,
    n: usize,
    lead: usize,
    whole: usize,
    max: f32,
    scale: f32,
}

/// Which of the 16 elements from `at` on are among the first `n`.
#[inline]
fn mask(at: usize, n: usize) -> __mmask16 {
    ((1u32 << n.saturating_sub(at).min(WIDTH)) - 1) as __mmask16
}

impl Row {
    /// What comes of 16 elements at `from`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn results<const LOG: bool>(&self, x: __m512) -> __m512 {
        let (max, scale) = (_mm512_set1_ps(self.max), _mm512_set1_ps(self.scale));
        if LOG { _mm512_sub_ps(_mm512_sub_ps(x, max), scale) } else { _mm512_mul_ps(x, scale) }
    }

    /// Writes results of vectors from element `start` up to `end`.
    ///
    /// # Safety
    /// They are there, whole vectors, at the beginning of a cache line if they go `PAST` the caches.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn write<const LOG: bool, const PAST: bool>(&self, start: usize, end: usize) {
        for at in (start..end).step_by(WIDTH) {
            // SAFETY: the caller's elements.
            unsafe {
                let results = self.results::<LOG>(_mm512_loadu_ps(self.from.add(at)));
                if PAST {
                    _mm512_stream_ps(self.out.add(at), results);
                } else {
                    _mm512_storeu_ps(self.out.add(at), results);
                }
            }
        }
    }

    /// Writes what is left when `done` results are written as vectors, past the caches if there is a `joint`.
    ///
    /// # Safety
    /// As [`Row::write`], of all elements; the row before it ends where this one begins, if its last results are in the joint.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn write_rest<const LOG: bool>(&self, done: usize, joint: Option<&mut Joint>) {
        let (start, end) = (self.lead + done, self.lead + self.whole);
        // SAFETY: the caller's elements: as vectors, or those of a mask.
        unsafe {
            let Some(joint) = joint else {
                self.write::<LOG, false>(start, end);
                if end < self.n {
                    let mask = mask(end, self.n);
                    let results = self.results::<LOG>(_mm512_maskz_loadu_ps(mask, self.from.add(end)));
                    _mm512_mask_storeu_ps(self.out.add(end), mask, results);
                }
                return;
            };
            self.write::<LOG, true>(start, end);
            if self.lead > 0 {
                // (What is masked off may lie before the row.)
                let before = WIDTH - self.lead;
                let mask = u16::MAX << before;
                let x = _mm512_maskz_loadu_ps(mask, self.from.wrapping_sub(before));
                joint.line = _mm512_mask_mov_ps(joint.line, mask, self.results::<LOG>(x));
                joint.put(self.out.wrapping_sub(before), WIDTH);
            }
            if end < self.n {
                joint.line = self.results::<LOG>(_mm512_maskz_loadu_ps(mask(end, self.n), self.from.add(end)));
                joint.first = 0;
            }
        }
    }
}

/// The results that share a cache line with those of another row, which are written together: what is stored as usual beside
/// what goes past the caches has its line read first, and stores behind it wait.
struct Joint {
    line: __m512,
    /// The first that are known: all but those of a row before the first, which are somebody else's.
    first: usize,
}

impl Joint {
    /// Writes those below `end` of the line that begins `at`.
    ///
    /// # Safety
    /// They are there.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn put(&self, at: *mut f32, end: usize) {
        // SAFETY: the caller's elements, at the beginning of a cache line.
        unsafe {
            if self.first == 0 && end == WIDTH {
                return _mm512_stream_ps(at, self.line);
            }
            // (Stores by a mask to a line that the first-level cache does not have take long.)
            let line = std::mem::transmute::<__m512, [f32; WIDTH]>(self.line);
            for (i, result) in line.into_iter().enumerate().take(end).skip(self.first) {
                *at.wrapping_add(i) = result;
            }
        }
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
        let mut before = Row { from: x, out, n: 0, lead: 0, whole: 0, max, scale: 0.0 };
        let mut joint = Joint { line: _mm512_setzero_ps(), first: out.addr() % LINE_BYTES / size_of::<f32>() };
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
                if done + LANES <= before.whole {
                    before.write::<LOG, PAST>(before.lead + done, before.lead + done + LANES);
                    done += LANES;
                }
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
            before.write_rest::<LOG>(done, if PAST { Some(&mut joint) } else { None });
            let lead = if PAST { out.addr().wrapping_neg() % LINE_BYTES / size_of::<f32>() } else { 0 };
            before = Row {
                from: if LOG { x } else { kept },
                out,
                n,
                lead,
                whole: (n - lead) / WIDTH * WIDTH,
                max,
                scale: if LOG { sum.ln() } else { 1.0 / sum } as f32,
            };
            max = max_of_next;
        }
        before.write_rest::<LOG>(0, if PAST { Some(&mut joint) } else { None });
        let end = before.lead + before.whole;
        if PAST && end < n {
            // What comes after the last row is somebody else's, too.
            joint.put(before.out.add(end), n - end);
        }
    }
}
