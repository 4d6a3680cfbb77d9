//! What happens to a tile of scores between the matrix products.

use super::AttentionElement;
use crate::buffer::aligned;
use crate::math::{Float, Isa, Kernel, Level, Number, entry, select};
use crate::norm::rows::together;
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
/// Partial maxima: two of them, so that one does not wait for the other.
const MAXIMA: usize = 2 * LANES;

/// The maximum of a row, after it was multiplied by `scale` if it is `SCALED`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
unsafe fn maximum<I: Isa, S: Float, const SCALED: bool>(x: *mut S, len: usize, scale: S) -> S {
    let larger = |a: S, b: S| select(b > a, b, a);
    let mut best = aligned([S::NEG_INFINITY; MAXIMA]);
    let mut rest = S::NEG_INFINITY;
    let whole = len - len % MAXIMA;
    // SAFETY: `x` has `len` elements.
    unsafe {
        for j in (0..whole).step_by(MAXIMA) {
            for l in 0..MAXIMA {
                let value = if SCALED { *x.add(j + l) * scale } else { *x.add(j + l) };
                if SCALED {
                    *x.add(j + l) = value;
                }
                best[l] = larger(best[l], value);
            }
        }
        for j in whole..len {
            if SCALED {
                *x.add(j) = *x.add(j) * scale;
            }
            rest = larger(rest, *x.add(j));
        }
    }
    larger(together::<I, S, MAXIMA, true>(*best), rest)
}

/// The sum of a row.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // As above.
unsafe fn sum<I: Isa, S: Float>(x: *const S, len: usize) -> S {
    let mut sums = aligned([<S as Number>::ZERO; LANES]);
    let whole = len - len % LANES;
    // SAFETY: `x` has `len` elements.
    unsafe {
        for j in (0..whole).step_by(LANES) {
            for l in 0..LANES {
                sums[l] += *x.add(j + l);
            }
        }
        let mut rest = <S as Number>::ZERO;
        for j in whole..len {
            rest += *x.add(j);
        }
        together::<I, S, LANES, false>(*sums) + rest
    }
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
                let mut tile = None;
                if t.scale != <T::Sum as Number>::ONE {
                    tile = Some(maximum::<I, T::Sum, true>(row, len, t.scale));
                }
                if !matches!(t.mask, MaskRows::None) {
                    t.mask.apply(r, row, len);
                    tile = None;
                }
                let tile = tile.unwrap_or_else(|| maximum::<I, T::Sum, false>(row, len, t.scale));
                let old = *t.maxima.add(r);
                let new = if tile > old { tile } else { old };
                // With nothing to attend to so far, zero: `exp(-inf - 0)` is zero, and NaN stays NaN.
                let base = if new == T::Sum::NEG_INFINITY { <T::Sum as Number>::ZERO } else { new };
                for j in 0..len {
                    *row.add(j) = (*row.add(j) - base).exp_not_positive::<I>();
                }
                for j in len..t.columns {
                    *row.add(j) = <T::Sum as Number>::ZERO;
                }
                let total = sum::<I, T::Sum>(row, len);
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
