//! Runs of contiguous elements with AVX2, for which compilers make vectors of `f32` as short as those of the `f64` that
//! they are added to. The bits are those of `fold_run`.

use super::Block;
use super::fold::{AHEAD, LEAST_SQUARES, RUN, SET};
use super::short::{LONG, NanSum, Product, Sum, SumSquares, TURN, join_four};
use crate::prefetch::{prefetch_run, runs_are_asked_for};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::{Element, bf16, f16};
use std::arch::x86_64::*;

/// An operation on accumulators of eight bytes, whose vectors are written `__m256d` whatever they hold.
///
/// # Safety
/// For all functions: the machine has AVX2.
pub(super) trait Operation {
    /// The elements.
    type In: Element;
    /// Whether accumulators of finite elements may be infinite, and have to be made another way then.
    const OVERFLOWS: bool;
    /// What accumulators are above, or have to be made another way as well.
    const ABOVE: Option<f64> = None;
    /// Whether elements without a bit in the masks are read too: there are no masks for those of two bytes.
    const READS_ALL: bool = false;
    /// An element that adds nothing.
    const NEUTRAL: Self::In;
    /// Accumulators of nothing.
    unsafe fn nothing() -> __m256d;
    /// The accumulators of both.
    unsafe fn join(a: __m256d, b: __m256d) -> __m256d;
    /// The accumulators of the elements of a set that lie `RUN` apart (of two bytes: of neighbours, and those `2 * RUN` on), for
    /// eight lanes from the `at`th on. If this is a `PART`, those without a bit in the [`masks`] count as nothing. What is read must be valid.
    unsafe fn eight<const PART: bool>(x: *const Self::In, at: usize, masks: *const __m256i) -> [__m256d; 2];
}

/// Zeros and then ones, of a vector's bytes each: the mask of all but the first `i` bytes begins at place `32 - i`.
static MASKS: [[u8; 32]; 2] = [[0; 32], [0xff; 32]];

/// The masks of a set's vectors for all but its first `skip` elements.
#[inline]
#[target_feature(enable = "avx2")]
fn masks<T>(skip: usize) -> [__m256i; SET / 4] {
    let lanes = 32 / size_of::<T>();
    std::array::from_fn(|i| {
        let first = skip.saturating_sub(i * lanes).min(lanes) * size_of::<T>();
        // SAFETY: 32 of 64 bytes.
        unsafe { std::ptr::read_unaligned(MASKS.as_ptr().cast::<u8>().add(32 - first).cast()) }
    })
}

/// A vector of `f32`; if this is a `PART`, with `neutral` in place of those without the mask, which are not read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_ps<const PART: bool>(x: *const f32, mask: *const __m256i, neutral: f32) -> __m256 {
    // SAFETY: the caller's elements, and the mask of a part.
    unsafe {
        if !PART {
            return _mm256_loadu_ps(x);
        }
        let mask = _mm256_loadu_si256(mask);
        let read = _mm256_maskload_ps(x, mask);
        if neutral == 0.0 { read } else { _mm256_blendv_ps(_mm256_set1_ps(neutral), read, _mm256_castsi256_ps(mask)) }
    }
}

/// The same of `f64`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_pd<const PART: bool>(x: *const f64, mask: *const __m256i, neutral: f64) -> __m256d {
    // SAFETY: as above.
    unsafe {
        if !PART {
            return _mm256_loadu_pd(x);
        }
        let mask = _mm256_loadu_si256(mask);
        let read = _mm256_maskload_pd(x, mask);
        if neutral == 0.0 { read } else { _mm256_blendv_pd(_mm256_set1_pd(neutral), read, _mm256_castsi256_pd(mask)) }
    }
}

/// The sums of eight pairs of neighbours as `f32`, all of which must be valid; if this is a `PART`, with zeros in place of those
/// without the mask.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn neighbours<const PART: bool>(x: *const bf16, mask: *const __m256i) -> __m256 {
    // SAFETY: as above.
    unsafe {
        let read = _mm256_loadu_si256(x.cast());
        let both = if PART { _mm256_and_si256(read, _mm256_loadu_si256(mask)) } else { read };
        let second = _mm256_and_si256(both, _mm256_set1_epi32(!0xffff));
        let first = _mm256_slli_epi32::<16>(both);
        _mm256_add_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(second))
    }
}

/// The halves of a vector of `f32` in `f64`.
#[inline]
#[target_feature(enable = "avx2")]
fn widened(x: __m256) -> [__m256d; 2] {
    [_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(x))]
}

/// Operations: their elements, nothing, an element that adds nothing, whether they overflow, the join, and what four vectors
/// of elements (`f32`: eight lanes, else four) become.
macro_rules! operations {
    (@one $load:ident, $lanes:literal, $p:ident, $x:ident, $masks:ident, $at:expr) => {
        $load::<$p>($x.wrapping_add($at), $masks.wrapping_add($at / $lanes), Self::NEUTRAL)
    };
    (@four $load:ident, $lanes:literal, $p:ident, $x:ident, $masks:ident, $at:expr) => {
        [
            operations!(@one $load, $lanes, $p, $x, $masks, $at),
            operations!(@one $load, $lanes, $p, $x, $masks, $at + RUN),
            operations!(@one $load, $lanes, $p, $x, $masks, $at + 2 * RUN),
            operations!(@one $load, $lanes, $p, $x, $masks, $at + 3 * RUN),
        ]
    };
    (@eight f32, $p:ident, $x:ident, $at:ident, $masks:ident, $v:ident, $four:expr) => {{
        let $v = operations!(@four load_ps, 8, $p, $x, $masks, $at);
        $four
    }};
    (@eight f64, $p:ident, $x:ident, $at:ident, $masks:ident, $v:ident, $four:expr) => {
        [
            {
                let $v = operations!(@four load_pd, 4, $p, $x, $masks, $at);
                $four
            },
            {
                let $v = operations!(@four load_pd, 4, $p, $x, $masks, $at + 4);
                $four
            },
        ]
    };
    ($($op:ident<$T:ident>: $neutral:literal, $overflows:literal, $join:ident, |$v:ident| $four:expr
       $(, above $least:expr)?;)*) => { $(
        impl Operation for $op<$T> {
            type In = $T;
            const OVERFLOWS: bool = $overflows;
            $( const ABOVE: Option<f64> = Some($least); )?
            const NEUTRAL: $T = $neutral;
            #[inline]
            #[target_feature(enable = "avx2")]
            unsafe fn nothing() -> __m256d {
                _mm256_set1_pd($neutral)
            }
            #[inline]
            #[target_feature(enable = "avx2")]
            unsafe fn join(a: __m256d, b: __m256d) -> __m256d {
                $join(a, b)
            }
            #[inline]
            #[target_feature(enable = "avx2")]
            unsafe fn eight<const PART: bool>(x: *const $T, at: usize, masks: *const __m256i) -> [__m256d; 2] {
                // SAFETY: the caller's elements.
                unsafe { operations!(@eight $T, PART, x, at, masks, $v, $four) }
            }
        }
    )* };
}

/// Eight elements as `f32`, all of which must be valid; if this is a `PART`, with zeros in place of those without the mask.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn load_f16<const PART: bool>(x: *const f16, mask: *const __m128i) -> __m256 {
    // SAFETY: as above.
    unsafe {
        let read = _mm_loadu_si128(x.cast());
        _mm256_cvtph_ps(if PART { _mm_and_si128(read, _mm_loadu_si128(mask)) } else { read })
    }
}

/// Sums of halves, four of which are added as `f32`: eight times four from a place on, with the masks of a part.
macro_rules! half_sums {
    ($($T:ty: |$x:ident, $at:ident, $masks:ident| $eight:expr;)*) => { $(
        impl Operation for Sum<$T> {
            type In = $T;
            const OVERFLOWS: bool = true;
            const READS_ALL: bool = true;
            const NEUTRAL: $T = <$T>::ZERO;
            #[inline]
            #[target_feature(enable = "avx2")]
            unsafe fn nothing() -> __m256d {
                _mm256_setzero_pd()
            }
            #[inline]
            #[target_feature(enable = "avx2")]
            unsafe fn join(a: __m256d, b: __m256d) -> __m256d {
                _mm256_add_pd(a, b)
            }
            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn eight<const PART: bool>($x: *const $T, $at: usize, $masks: *const __m256i) -> [__m256d; 2] {
                // SAFETY: the caller's elements.
                widened(unsafe { $eight })
            }
        }
    )* };
}
half_sums! {
    bf16: |x, at, masks| {
        let sums = |at: usize| neighbours::<PART>(x.wrapping_add(at), masks.wrapping_add(at / 16));
        _mm256_add_ps(sums(2 * at), sums(2 * (at + RUN)))
    };
    f16: |x, at, masks| {
        let load = |at: usize| load_f16::<PART>(x.wrapping_add(at), masks.cast::<__m128i>().wrapping_add(at / 8));
        let first = _mm256_add_ps(load(at), load(at + RUN));
        _mm256_add_ps(first, _mm256_add_ps(load(at + 2 * RUN), load(at + 3 * RUN)))
    };
}

impl Operation for Sum<i64> {
    type In = i64;
    const OVERFLOWS: bool = false;
    const NEUTRAL: i64 = 0;
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn nothing() -> __m256d {
        _mm256_setzero_pd()
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn join(a: __m256d, b: __m256d) -> __m256d {
        _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b)))
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn eight<const PART: bool>(x: *const i64, at: usize, masks: *const __m256i) -> [__m256d; 2] {
        let mut eight = [_mm256_setzero_pd(); 2];
        for (at, four) in [at, at + 4].into_iter().zip(&mut eight) {
            let at = |i: usize| (x.cast::<f64>().wrapping_add(at + i * RUN), masks.wrapping_add((at + i * RUN) / 4));
            // SAFETY: the caller's elements.
            unsafe {
                let ((a, p), (b, q), (c, r), (d, s)) = (at(0), at(1), at(2), at(3));
                let first = Self::join(load_pd::<PART>(a, p, 0.0), load_pd::<PART>(b, q, 0.0));
                *four = Self::join(first, Self::join(load_pd::<PART>(c, r, 0.0), load_pd::<PART>(d, s, 0.0)));
            }
        }
        eight
    }
}

/// A vector without its NaN.
macro_rules! ordered {
    ($and:ident, $cmp:ident, $x:expr) => {{
        let x = $x;
        $and(x, $cmp::<_CMP_ORD_Q>(x, x))
    }};
}

operations! {
    Sum<f32>: 0.0, true, _mm256_add_pd,
        |v| widened(_mm256_add_ps(_mm256_add_ps(v[0], v[1]), _mm256_add_ps(v[2], v[3])));
    SumSquares<f32>: 0.0, true, _mm256_add_pd, |v| {
        let [a, b, c, d] = v.map(|x| _mm256_mul_ps(x, x));
        widened(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)))
    }, above LEAST_SQUARES;
    Sum<f64>: 0.0, false, _mm256_add_pd,
        |v| _mm256_add_pd(_mm256_add_pd(v[0], v[1]), _mm256_add_pd(v[2], v[3]));
    NanSum<f32>: 0.0, true, _mm256_add_pd, |v| widened(_mm256_add_ps(
        _mm256_add_ps(ordered!(_mm256_and_ps, _mm256_cmp_ps, v[0]), ordered!(_mm256_and_ps, _mm256_cmp_ps, v[1])),
        _mm256_add_ps(ordered!(_mm256_and_ps, _mm256_cmp_ps, v[2]), ordered!(_mm256_and_ps, _mm256_cmp_ps, v[3])),
    ));
    NanSum<f64>: 0.0, false, _mm256_add_pd, |v| _mm256_add_pd(
        _mm256_add_pd(ordered!(_mm256_and_pd, _mm256_cmp_pd, v[0]), ordered!(_mm256_and_pd, _mm256_cmp_pd, v[1])),
        _mm256_add_pd(ordered!(_mm256_and_pd, _mm256_cmp_pd, v[2]), ordered!(_mm256_and_pd, _mm256_cmp_pd, v[3])),
    );
    Product<f64>: 1.0, false, _mm256_mul_pd,
        |v| _mm256_mul_pd(_mm256_mul_pd(v[0], v[1]), _mm256_mul_pd(v[2], v[3]));
    Product<f32>: 1.0, false, _mm256_mul_pd, |v| {
        let ([a, b], [c, d]) = (widened(v[0]), widened(v[1]));
        let ([e, f], [g, h]) = (widened(v[2]), widened(v[3]));
        [
            _mm256_mul_pd(_mm256_mul_pd(a, c), _mm256_mul_pd(e, g)),
            _mm256_mul_pd(_mm256_mul_pd(b, d), _mm256_mul_pd(f, h)),
        ]
    };
}

/// The accumulators of a run: of its elements `RUN` apart, for each four.
type Lanes = [__m256d; 4];

/// Adds `n` elements, whole sets, to the accumulators of a run.
///
/// # Safety
/// As [`fold_runs`].
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn add_sets<O: Operation>(x: *const O::In, n: usize, lanes: Lanes) -> Lanes {
    let [mut a, mut b, mut c, mut d] = lanes;
    let ask = runs_are_asked_for();
    for at in (0..n).step_by(SET) {
        // SAFETY: elements of the run. (Whole sets have no masks.)
        unsafe {
            let x = x.add(at);
            if ask {
                prefetch_run(x.cast::<u8>().wrapping_add(AHEAD), SET * size_of::<O::In>());
            }
            let masks = std::ptr::null();
            let ([e, f], [g, h]) = (O::eight::<false>(x, 0, masks), O::eight::<false>(x, 8, masks));
            (a, b, c, d) = (O::join(a, e), O::join(b, f), O::join(c, g), O::join(d, h));
        }
    }
    [a, b, c, d]
}

/// Adds the elements of a run of `n` that are in no whole set, whose masks are `last`, and leaves four accumulators.
///
/// # Safety
/// As [`fold_runs`]; what is masked off may lie before the run where it is not read.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn join_lanes<O: Operation>(x: *const O::In, n: usize, last: *const __m256i, lanes: Lanes) -> __m256d {
    let [mut a, mut b, mut c, mut d] = lanes;
    // SAFETY: elements of the run.
    unsafe {
        if !n.is_multiple_of(SET) {
            let x = x.wrapping_add(n).wrapping_sub(SET);
            let ([e, f], [g, h]) = (O::eight::<true>(x, 0, last), O::eight::<true>(x, 8, last));
            (a, b, c, d) = (O::join(a, e), O::join(b, f), O::join(c, g), O::join(d, h));
        }
        O::join(O::join(a, c), O::join(b, d))
    }
}

/// The accumulators of a run of `n` elements, of which four are left; `last` are the masks of its last `SET` elements for those
/// that are in no whole set.
///
/// # Safety
/// As [`fold_runs`].
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn lanes<O: Operation>(x: *const O::In, n: usize, last: *const __m256i) -> __m256d {
    // SAFETY: the caller's.
    unsafe {
        let whole = add_sets::<O>(x, n / SET * SET, [O::nothing(); 4]);
        join_lanes::<O>(x, n, last, whole)
    }
}

/// [`lanes`] of four runs. Long ones take turns, so that memory is read in four places at a time: Note [Streams] in
/// [`super::plan`].
///
/// # Safety
/// As [`fold_runs`].
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn lanes_of_four<O: Operation>(x: [*const O::In; 4], n: usize, last: *const __m256i) -> [__m256d; 4] {
    // SAFETY: the caller's.
    unsafe {
        let whole = n / SET * SET;
        if n * size_of::<O::In>() < LONG || !FastPath::ReduceStreams.is_on() {
            let [x, y, z, w] = x;
            return [lanes::<O>(x, n, last), lanes::<O>(y, n, last), lanes::<O>(z, n, last), lanes::<O>(w, n, last)];
        }
        let mut all = [[O::nothing(); 4]; 4];
        for at in (0..whole).step_by(TURN) {
            for (lanes, x) in all.iter_mut().zip(x) {
                *lanes = add_sets::<O>(x.add(at), TURN.min(whole - at), *lanes);
            }
        }
        let [a, b, c, d] = all;
        [
            join_lanes::<O>(x[0], n, last, a),
            join_lanes::<O>(x[1], n, last, b),
            join_lanes::<O>(x[2], n, last, c),
            join_lanes::<O>(x[3], n, last, d),
        ]
    }
}

/// Folds a block's runs from `first` on into their states, of eight bytes, until some have to be folded another way. Gives how
/// many it did.
///
/// # Safety
/// The block's columns must be runs of valid elements, with a state for each, and the machine must have AVX2 and F16C.
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn fold_runs<O: Operation>(b: &Block, first: usize, states: *mut f64) -> usize {
    if O::READS_ALL && b.rows < SET {
        return 0;
    }
    let last = masks::<O::In>((SET - b.rows % SET) % SET);
    let last = last.as_ptr();
    let mut j = first;
    while j < b.cols {
        let count = (b.cols - j).min(4);
        let x = b.data.cast::<O::In>().wrapping_offset(j as isize * b.col_stride);
        // SAFETY: up to four runs of the block, and their states.
        unsafe {
            let [p, q, r, s] = if count == 4 {
                let (y, z) = (x.wrapping_offset(b.col_stride), x.wrapping_offset(2 * b.col_stride));
                lanes_of_four::<O>([x, y, z, x.wrapping_offset(3 * b.col_stride)], b.rows, last)
            } else {
                [lanes::<O>(x, b.rows, last); 4]
            };
            let folded = join_four!(O::join, p, q, r, s);
            if O::OVERFLOWS {
                let finite = _mm256_cmp_pd::<_CMP_ORD_Q>(_mm256_sub_pd(folded, folded), folded);
                if _mm256_movemask_pd(finite) != 0b1111 {
                    break;
                }
            }
            if let Some(least) = O::ABOVE
                && _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_GT_OQ>(folded, _mm256_set1_pd(least))) != 0b1111
            {
                break;
            }
            let to = states.add(j);
            if count == 4 {
                _mm256_storeu_pd(to, O::join(_mm256_loadu_pd(to), folded));
                j += 4;
            } else {
                *to = _mm256_cvtsd_f64(O::join(_mm256_set1_pd(*to), folded));
                j += 1;
            }
        }
    }
    j - first
}
