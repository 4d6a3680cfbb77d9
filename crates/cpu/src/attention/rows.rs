//! What happens to a tile of scores between the matrix products.

use super::AttentionElement;
use crate::buffer::aligned;
use crate::math::{Float, Isa, Kernel, Level, Number, entry};
use flambeau_base::{Bool, Element};
use std::marker::PhantomData;

/// The part of a mask over a tile: pointer, row stride, column stride.
pub enum MaskRows<T: AttentionElement> {
    /// Nothing is masked.
    None,
    /// True attends.
    Boolean(*const Bool, isize, isize),
    /// Added to the scores.
    Additive(*const T, isize, isize),
    /// Added to the scores.
    AdditiveWide(*const T::Sum, isize, isize),
}

impl<T: AttentionElement> MaskRows<T> {
    /// Masks the first `len` scores of row `r`.
    #[inline(always)]
    unsafe fn apply(&self, r: usize, scores: *mut T::Sum, len: usize) {
        /// `scores[j] = f(scores[j], mask[j])`, with a loop of its own for neighbouring elements.
        #[inline(always)]
        unsafe fn each<S: Copy, M: Copy>(
            scores: *mut S,
            mask: *const M,
            stride: isize,
            len: usize,
            f: impl Fn(S, M) -> S,
        ) {
            // SAFETY: the caller's scores and mask have `len` elements.
            unsafe {
                if stride == 1 {
                    for j in 0..len {
                        *scores.add(j) = f(*scores.add(j), *mask.add(j));
                    }
                } else {
                    for j in 0..len {
                        *scores.add(j) = f(*scores.add(j), *mask.offset(j as isize * stride));
                    }
                }
            }
        }
        let r = r as isize;
        // SAFETY: row `r` of the tile is inside the mask.
        unsafe {
            match *self {
                MaskRows::None => {}
                MaskRows::Boolean(m, row, column) => {
                    each(scores, m.offset(r * row), column, len, |s, m| if m.get() { s } else { T::Sum::NEG_INFINITY })
                }
                MaskRows::Additive(m, row, column) => {
                    each(scores, m.offset(r * row), column, len, |s, m| s + from_element::<T>(m))
                }
                MaskRows::AdditiveWide(m, row, column) => each(scores, m.offset(r * row), column, len, |s, m| s + m),
            }
        }
    }
}

#[inline(always)]
fn from_element<T: AttentionElement>(x: T) -> T::Sum {
    // A double's sum is a double; every other type is exact in `f32`.
    if size_of::<T::Sum>() == 8 { T::Sum::from_f64(x.to_f64()) } else { T::Sum::from_f32(x.to_f32()) }
}

/// Partial results of a row's reductions, so that they vectorise: one 512-bit vector of `f32`.
const LANES: usize = 16;

#[inline(always)]
unsafe fn maximum<S: Float>(x: *const S, len: usize) -> S {
    let larger = |a: S, b: S| if b > a { b } else { a };
    let mut best = aligned([S::NEG_INFINITY; LANES]);
    let mut j = 0;
    // SAFETY: `x` has `len` elements.
    unsafe {
        while j + LANES <= len {
            for (l, b) in best.iter_mut().enumerate() {
                *b = larger(*b, *x.add(j + l));
            }
            j += LANES;
        }
        while j < len {
            best[0] = larger(best[0], *x.add(j));
            j += 1;
        }
    }
    best.into_iter().fold(S::NEG_INFINITY, larger)
}

#[inline(always)]
unsafe fn sum<S: Float>(x: *const S, len: usize) -> S {
    let mut sums = aligned([<S as Number>::ZERO; LANES]);
    let mut j = 0;
    // SAFETY: `x` has `len` elements.
    unsafe {
        while j + LANES <= len {
            for (l, s) in sums.iter_mut().enumerate() {
                *s += *x.add(j + l);
            }
            j += LANES;
        }
        while j < len {
            sums[0] += *x.add(j);
            j += 1;
        }
    }
    let mut n = LANES;
    while n > 1 {
        n /= 2;
        for l in 0..n {
            let other = sums[l + n];
            sums[l] += other;
        }
    }
    sums[0]
}

/// How many of `columns` row `r` sees.
#[inline(always)]
fn visible(first_length: isize, r: usize, columns: usize) -> usize {
    (first_length.saturating_add(r as isize)).clamp(0, columns as isize) as usize
}

/// A tile of scores to be turned into weights.
pub struct SoftmaxRows<T: AttentionElement> {
    /// Row-major scores, overwritten by `exp(scale * score - maximum)`.
    pub scores: *mut T::Sum,
    /// Their factor.
    pub scale: T::Sum,
    /// Rows of the tile.
    pub rows: usize,
    /// Columns of the tile.
    pub columns: usize,
    /// How many columns the first row sees; each further row sees one more.
    pub first_length: isize,
    /// The mask.
    pub mask: MaskRows<T>,
    /// Each row's maximum so far, updated.
    pub maxima: *mut T::Sum,
    /// Each row's sum of weights so far, updated.
    pub totals: *mut T::Sum,
    /// Each row's weighted sum of values so far, rescaled to the new maximum.
    pub sums: *mut T::Sum,
    /// Columns of `sums`.
    pub width: usize,
}

struct Softmax<T>(PhantomData<T>);

impl<T: AttentionElement> Kernel for Softmax<T> {
    type Args = SoftmaxRows<T>;
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>(t: SoftmaxRows<T>) {
        for r in 0..t.rows {
            // SAFETY: the caller's tile, totals and sums have `rows` rows.
            unsafe {
                let row = t.scores.add(r * t.columns);
                let len = visible(t.first_length, r, t.columns);
                if t.scale != <T::Sum as Number>::ONE {
                    for j in 0..len {
                        *row.add(j) = *row.add(j) * t.scale;
                    }
                }
                t.mask.apply(r, row, len);
                let old = *t.maxima.add(r);
                let tile = maximum(row, len);
                let new = if tile > old { tile } else { old };
                // With nothing to attend to so far, zero: `exp(-inf - 0)` is zero, and NaN stays NaN.
                let base = if new == T::Sum::NEG_INFINITY { <T::Sum as Number>::ZERO } else { new };
                for j in 0..len {
                    *row.add(j) = (*row.add(j) - base).exp::<I>();
                }
                for j in len..t.columns {
                    *row.add(j) = <T::Sum as Number>::ZERO;
                }
                let total = sum(row, len);
                let shrink = (old - base).exp::<I>();
                *t.totals.add(r) = *t.totals.add(r) * shrink + total;
                *t.maxima.add(r) = new;
                if shrink != <T::Sum as Number>::ONE {
                    let sums = t.sums.add(r * t.width);
                    for j in 0..t.width {
                        *sums.add(j) = *sums.add(j) * shrink;
                    }
                }
            }
        }
    }
}

/// The softmax of a tile, compiled for a level.
pub fn softmax_rows<T: AttentionElement>(level: Level) -> unsafe fn(SoftmaxRows<T>) {
    entry::<Softmax<T>>(level)
}

/// A tile of scores to be turned into weights whose normaliser is known.
pub struct WeightRows<T: AttentionElement> {
    /// Row-major scores, overwritten by `exp(score - logsumexp)`.
    pub scores: *mut T::Sum,
    /// Rows of the tile.
    pub rows: usize,
    /// Columns of the tile.
    pub columns: usize,
    /// As in [`SoftmaxRows`].
    pub first_length: isize,
    /// The mask.
    pub mask: MaskRows<T>,
    /// Each row's log-sum-exp.
    pub logsumexp: *const T::Sum,
}

struct Weights<T>(PhantomData<T>);

impl<T: AttentionElement> Kernel for Weights<T> {
    type Args = WeightRows<T>;
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>(t: WeightRows<T>) {
        for r in 0..t.rows {
            // SAFETY: the caller's tile and log-sum-exps have `rows` rows.
            unsafe {
                let row = t.scores.add(r * t.columns);
                let len = visible(t.first_length, r, t.columns);
                t.mask.apply(r, row, len);
                let base = *t.logsumexp.add(r);
                for j in 0..len {
                    *row.add(j) = (*row.add(j) - base).exp::<I>();
                }
                for j in len..t.columns {
                    *row.add(j) = <T::Sum as Number>::ZERO;
                }
            }
        }
    }
}

/// The weights of a tile, compiled for a level.
pub fn weight_rows<T: AttentionElement>(level: Level) -> unsafe fn(WeightRows<T>) {
    entry::<Weights<T>>(level)
}

/// A tile's weights and their gradients, to be turned into the gradients of the scores.
pub struct GradientRows<S> {
    /// Row-major weights.
    pub weights: *const S,
    /// Row-major gradients of the weights, overwritten by `weight * (gradient - delta)`.
    pub gradients: *mut S,
    /// Rows of the tile.
    pub rows: usize,
    /// Columns of the tile.
    pub columns: usize,
    /// Each row's dot product of the output and its gradient.
    pub delta: *const S,
}

struct Gradients<S>(PhantomData<S>);

impl<S: Float> Kernel for Gradients<S> {
    type Args = GradientRows<S>;
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>(t: GradientRows<S>) {
        for r in 0..t.rows {
            // SAFETY: the caller's tiles and deltas have `rows` rows.
            unsafe {
                let delta = *t.delta.add(r);
                let weights = t.weights.add(r * t.columns);
                let gradients = t.gradients.add(r * t.columns);
                for j in 0..t.columns {
                    *gradients.add(j) = *weights.add(j) * (*gradients.add(j) - delta);
                }
            }
        }
    }
}

/// The gradients of a tile's scores, compiled for a level.
pub fn gradient_rows<S: Float>(level: Level) -> unsafe fn(GradientRows<S>) {
    entry::<Gradients<S>>(level)
}
