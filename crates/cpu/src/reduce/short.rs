//! Many runs of contiguous elements with AVX-512: what short ones spend on the masks of their ends and on joining their
//! accumulators is shared by four. The bits are those of `fold_run`.

use super::Block;
use super::fold::{LEAST_SQUARES, RUN, SET};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::{Element, bf16, f16};
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// An operation on accumulators of eight bytes, whose vectors are written `__m512d` whatever they hold.
///
/// # Safety
/// For all functions: the machine has AVX-512 (F, BW, DQ, VL).
pub(super) trait Operation {
    /// The elements.
    type In: Element;
    /// Whether accumulators of finite elements may be infinite, and have to be made another way then.
    const OVERFLOWS: bool = false;
    /// What accumulators are above, or have to be made another way as well.
    const ABOVE: Option<f64> = None;
    /// The longest runs that are faster this way: others are folded with AVX2.
    const LONGEST: usize = usize::MAX;
    /// Accumulators of nothing.
    unsafe fn nothing() -> __m512d;
    /// The accumulators of both.
    unsafe fn join(a: __m512d, b: __m512d) -> __m512d;
    /// The same of half as many: vectors of 64 bytes are two to some processors.
    unsafe fn join_half(a: __m256d, b: __m256d) -> __m256d;
    /// The accumulators of lanes' elements (the fold's: `RUN` apart, or neighbours), of `SET` elements; those without a bit in
    /// `mask` are not read, and count as nothing. What is read must be valid.
    unsafe fn four(x: *const Self::In, mask: u64) -> [__m512d; 2];
}

pub(super) struct Sum<T>(PhantomData<T>);
pub(super) struct SumSquares<T>(PhantomData<T>);
pub(super) struct NanSum<T>(PhantomData<T>);
pub(super) struct Product<T>(PhantomData<T>);

/// Joins four vectors that `$load` gives for elements `0`, `RUN`, ... in pairs, as `fold_run` does.
macro_rules! in_pairs {
    ($join:expr, |$at:ident| $load:expr) => {{
        let [a, b, c, d] = [
            {
                let $at = 0;
                $load
            },
            {
                let $at = RUN;
                $load
            },
            {
                let $at = 2 * RUN;
                $load
            },
            {
                let $at = 3 * RUN;
                $load
            },
        ];
        $join($join(a, b), $join(c, d))
    }};
}

/// Operations on elements of eight bytes: nothing, the joins, and what is made of elements as they are read, `$m` being the
/// mask for them.
macro_rules! of_eight_bytes {
    ($($op:ty: $T:ty = $nothing:expr, |$a:ident, $b:ident| $join:expr, $half:expr, |$x:ident, $m:ident| $load:expr;)*) => { $(
        impl Operation for $op {
            type In = $T;
            #[inline]
            #[target_feature(enable = "avx512f,avx512dq")]
            unsafe fn nothing() -> __m512d {
                $nothing
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512dq")]
            unsafe fn join($a: __m512d, $b: __m512d) -> __m512d {
                $join
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn join_half($a: __m256d, $b: __m256d) -> __m256d {
                $half
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512dq")]
            unsafe fn four(x: *const $T, mask: u64) -> [__m512d; 2] {
                // SAFETY: only elements of the mask are read.
                unsafe {
                    let part = |at: usize| {
                        let ($x, $m) = (x.wrapping_add(at).cast::<f64>(), (mask >> at) as u8);
                        $load
                    };
                    [
                        in_pairs!(Self::join, |at| part(at)),
                        in_pairs!(Self::join, |at| part(at + 8)),
                    ]
                }
            }
        }
    )* };
}

of_eight_bytes! {
    Sum<f64>: f64 = _mm512_setzero_pd(), |a, b| _mm512_add_pd(a, b), _mm256_add_pd(a, b),
        |x, m| _mm512_maskz_loadu_pd(m, x);
    NanSum<f64>: f64 = _mm512_setzero_pd(), |a, b| _mm512_add_pd(a, b), _mm256_add_pd(a, b), |x, m| {
        let x = _mm512_maskz_loadu_pd(m, x);
        _mm512_maskz_mov_pd(_mm512_cmp_pd_mask::<_CMP_ORD_Q>(x, x), x)
    };
    Product<f64>: f64 = _mm512_set1_pd(1.0), |a, b| _mm512_mul_pd(a, b), _mm256_mul_pd(a, b),
        |x, m| _mm512_mask_loadu_pd(_mm512_set1_pd(1.0), m, x);
    Sum<i64>: i64 = _mm512_setzero_pd(),
        |a, b| _mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(a), _mm512_castpd_si512(b))),
        _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b))),
        |x, m| _mm512_maskz_loadu_pd(m, x);
    Product<i64>: i64 = _mm512_castsi512_pd(_mm512_set1_epi64(1)),
        |a, b| _mm512_castsi512_pd(_mm512_mullo_epi64(_mm512_castpd_si512(a), _mm512_castpd_si512(b))),
        _mm256_castsi256_pd(_mm256_mullo_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b))),
        |x, m| _mm512_mask_loadu_pd(_mm512_castsi512_pd(_mm512_set1_epi64(1)), m, x);
}

/// The halves of a vector of `f32` in `f64`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn widened(x: __m512) -> [__m512d; 2] {
    [_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(x))]
}

/// Elements of a mask, of which those that are masked off are zero.
///
/// # Safety
/// What is read must be valid, and the machine must have AVX-512 (F).
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(x: *const f32, mask: u64, at: usize) -> __m512 {
    // SAFETY: the caller's.
    unsafe { _mm512_maskz_loadu_ps((mask >> at) as u16, x.wrapping_add(at)) }
}

/// The sums of pairs of neighbours.
///
/// # Safety
/// What is read must be valid, and the machine must have AVX-512 (F, BW).
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn neighbours(x: *const bf16, mask: u64, at: usize) -> __m512 {
    // SAFETY: the caller's.
    let both = unsafe { _mm512_maskz_loadu_epi16((mask >> at) as u32, x.wrapping_add(at).cast()) };
    let second = _mm512_and_si512(both, _mm512_set1_epi32(!0xffff));
    let first = _mm512_slli_epi32::<16>(both);
    _mm512_add_ps(_mm512_castsi512_ps(first), _mm512_castsi512_ps(second))
}

/// Elements of a mask as `f32`, of which those that are masked off are zero.
///
/// # Safety
/// What is read must be valid, and the machine must have AVX-512 (F, BW, VL).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn load_f16(x: *const f16, mask: u64, at: usize) -> __m512 {
    // SAFETY: the caller's.
    unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((mask >> at) as u16, x.wrapping_add(at).cast())) }
}

/// Sums of `f32`, or of halves as such, four of which are added before they are widened.
macro_rules! narrow_sums {
    ($($op:ty: $T:ty, |$x:ident, $mask:ident| $four:expr $(, above $least:expr)? $(, up to $longest:literal)?;)*) => { $(
        impl Operation for $op {
            type In = $T;
            const OVERFLOWS: bool = true;
            $( const ABOVE: Option<f64> = Some($least); )?
            $( const LONGEST: usize = $longest; )?
            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn nothing() -> __m512d {
                _mm512_setzero_pd()
            }
            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn join(a: __m512d, b: __m512d) -> __m512d {
                _mm512_add_pd(a, b)
            }
            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn join_half(a: __m256d, b: __m256d) -> __m256d {
                _mm256_add_pd(a, b)
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn four($x: *const $T, $mask: u64) -> [__m512d; 2] {
                // SAFETY: only elements of the mask are read.
                widened(unsafe { $four })
            }
        }
    )* };
}
narrow_sums! {
    Sum<f32>: f32, |x, mask| in_pairs!(_mm512_add_ps, |at| load(x, mask, at)), up to 4096;
    Sum<f16>: f16, |x, mask| in_pairs!(_mm512_add_ps, |at| load_f16(x, mask, at)), up to 64;
    Sum<bf16>: bf16, |x, mask| _mm512_add_ps(neighbours(x, mask, 0), neighbours(x, mask, 2 * RUN));
    SumSquares<f32>: f32, |x, mask| in_pairs!(_mm512_add_ps, |at| {
        let x = load(x, mask, at);
        _mm512_mul_ps(x, x)
    }), above LEAST_SQUARES;
    NanSum<f32>: f32, |x, mask| in_pairs!(_mm512_add_ps, |at| {
        let x = load(x, mask, at);
        _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(x, x), x)
    });
}

impl Operation for Product<f32> {
    type In = f32;
    /// Beyond, what vectors of 64 bytes take longer for counts (see the fold).
    const LONGEST: usize = 64;
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn nothing() -> __m512d {
        _mm512_set1_pd(1.0)
    }
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn join(a: __m512d, b: __m512d) -> __m512d {
        _mm512_mul_pd(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn join_half(a: __m256d, b: __m256d) -> __m256d {
        _mm256_mul_pd(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn four(x: *const f32, mask: u64) -> [__m512d; 2] {
        // SAFETY: only elements of the mask are read.
        unsafe {
            let both = |a: [__m512d; 2], b: [__m512d; 2]| [_mm512_mul_pd(a[0], b[0]), _mm512_mul_pd(a[1], b[1])];
            in_pairs!(both, |at| {
                let (m, x) = ((mask >> at) as u16, x.wrapping_add(at));
                widened(_mm512_mask_loadu_ps(_mm512_set1_ps(1.0), m, x))
            })
        }
    }
}

/// Joins the four accumulators of each of four runs, to one of each.
macro_rules! join_four {
    ($join:path, $p:expr, $q:expr, $r:expr, $s:expr) => {{
        // The first and third of a run's four with the second and fourth, and then those.
        let (p, q, r, s) = ($p, $q, $r, $s);
        let pq = $join(_mm256_permute2f128_pd::<0x20>(p, q), _mm256_permute2f128_pd::<0x31>(p, q));
        let rs = $join(_mm256_permute2f128_pd::<0x20>(r, s), _mm256_permute2f128_pd::<0x31>(r, s));
        let folded = $join(_mm256_unpacklo_pd(pq, rs), _mm256_unpackhi_pd(pq, rs));
        _mm256_permute4x64_pd::<0b11_01_10_00>(folded)
    }};
}
pub(super) use join_four;

/// Elements of a run that are folded before other runs' turn.
pub(super) const TURN: usize = 4 * SET;

/// Bytes of the runs that are read in turns: the shortest for which memory gives more then.
pub(super) const LONG: usize = 1 << 14;

/// The accumulators of a run: of its elements `RUN` apart, for each four.
type Lanes = [__m512d; 2];

/// Adds `n` elements, whole sets, to the accumulators of a run.
///
/// # Safety
/// As [`fold_runs`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn add_sets<O: Operation>(x: *const O::In, n: usize, [mut low, mut high]: Lanes) -> Lanes {
    for at in (0..n).step_by(SET) {
        // SAFETY: elements of the run.
        unsafe {
            let [a, b] = O::four(x.wrapping_add(at), u64::MAX);
            (low, high) = (O::join(low, a), O::join(high, b));
        }
    }
    [low, high]
}

/// Adds the elements of a run of `n` that are in no whole set, whose mask is `last`, and leaves four accumulators.
///
/// # Safety
/// As [`fold_runs`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn join_lanes<O: Operation>(x: *const O::In, n: usize, last: u64, [mut low, mut high]: Lanes) -> __m256d {
    // SAFETY: elements of the run.
    unsafe {
        if !n.is_multiple_of(SET) {
            let [a, b] = O::four(x.wrapping_add(n).wrapping_sub(SET), last);
            (low, high) = (O::join(low, a), O::join(high, b));
        }
        let all = O::join(low, high);
        O::join_half(_mm512_castpd512_pd256(all), _mm512_extractf64x4_pd::<1>(all))
    }
}

/// The accumulators of a run of `n` elements, of which four are left; `last` is the mask of its last `SET` elements for those
/// that are in no whole set.
///
/// # Safety
/// As [`fold_runs`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn lanes<O: Operation>(x: *const O::In, n: usize, last: u64) -> __m256d {
    // SAFETY: the caller's.
    unsafe {
        let whole = add_sets::<O>(x, n / SET * SET, [O::nothing(); 2]);
        join_lanes::<O>(x, n, last, whole)
    }
}

/// [`lanes`] of four runs. Long ones take turns: Note [Streams] in [`super::plan`].
///
/// # Safety
/// As [`fold_runs`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn lanes_of_four<O: Operation>(x: [*const O::In; 4], n: usize, last: u64) -> [__m256d; 4] {
    // SAFETY: the caller's.
    unsafe {
        let whole = n / SET * SET;
        if n * size_of::<O::In>() < LONG || !FastPath::ReduceStreams.is_on() {
            return [
                lanes::<O>(x[0], n, last),
                lanes::<O>(x[1], n, last),
                lanes::<O>(x[2], n, last),
                lanes::<O>(x[3], n, last),
            ];
        }
        let mut all = [[O::nothing(); 2]; 4];
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

/// Whether a block's runs are short enough.
pub(super) fn are_short<O: Operation>(b: &Block) -> bool {
    b.rows <= O::LONGEST
}

/// Folds a block's runs from `first` on into their states, of eight bytes, four at a time where so many are left, until some
/// have to be folded another way. Gives how many it did.
///
/// # Safety
/// The block's columns must be runs of valid elements, with a state for each, and the machine must have AVX-512 (F, BW, DQ, VL).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn fold_runs<O: Operation>(b: &Block, first: usize, states: *mut f64) -> usize {
    let n = b.rows;
    let last = u64::MAX << ((SET - n % SET) % SET);
    let mut j = first;
    while j < b.cols {
        let count = if j + 4 <= b.cols { 4 } else { 1 };
        let x = b.data.cast::<O::In>().wrapping_offset(j as isize * b.col_stride);
        // SAFETY: up to four runs of the block, and their states.
        unsafe {
            let [p, q, r, s] = if count == 4 {
                let (y, z) = (x.wrapping_offset(b.col_stride), x.wrapping_offset(2 * b.col_stride));
                lanes_of_four::<O>([x, y, z, x.wrapping_offset(3 * b.col_stride)], n, last)
            } else {
                [lanes::<O>(x, n, last); 4]
            };
            let folded = join_four!(O::join_half, p, q, r, s);
            if O::OVERFLOWS && _mm256_cmp_pd_mask::<_CMP_UNORD_Q>(_mm256_sub_pd(folded, folded), folded) != 0 {
                break;
            }
            if let Some(least) = O::ABOVE
                && _mm256_cmp_pd_mask::<_CMP_NGT_UQ>(folded, _mm256_set1_pd(least)) != 0
            {
                break;
            }
            let to = states.add(j);
            if count == 4 {
                _mm256_storeu_pd(to, O::join_half(_mm256_loadu_pd(to), folded));
            } else {
                *to = _mm256_cvtsd_f64(O::join_half(_mm256_set1_pd(*to), folded));
            }
        }
        j += count;
    }
    j - first
}
