//! Rows of elements of any float dtype, seen as rows of the type arithmetic is done in.

use crate::buffer::aligned;
use crate::copy::{CastStrip, Shared, cast_strip, move_bytes, stream};
use crate::math::{Float, Isa, Kernel, Level, Number, select};
use crate::reduce::Operand;
use flambeau_base::DType;
use std::marker::PhantomData;
use std::ops::Deref;

/// The dtype to compute in, for data of these dtypes: `f64` if any is, else `f32`.
pub(crate) fn compute_dtype(dtypes: &[DType]) -> DType {
    if dtypes.contains(&DType::F64) { DType::F64 } else { DType::F32 }
}

/// Contiguous memory, read or written as `T` wherever it lies and whatever its dtype is.
#[derive(Clone, Copy)]
pub(crate) struct Rows<T> {
    data: Shared<T>,
    size: usize,
    direct: bool,
    load: CastStrip,
    store: CastStrip,
}

impl<T: Float> Rows<T> {
    pub(crate) fn new(operand: Operand) -> Rows<T> {
        Rows {
            data: Shared(operand.data.cast()),
            size: operand.dtype.size(),
            direct: operand.dtype == T::DTYPE && operand.data.cast::<T>().is_aligned(),
            load: cast_strip(operand.dtype, T::DTYPE),
            store: cast_strip(T::DTYPE, operand.dtype),
        }
    }

    /// Whether reads and writes need no conversion.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    fn address(&self, at: usize) -> *mut u8 {
        self.data.get().cast::<u8>().wrapping_add(at * self.size)
    }

    /// The `n` elements from `at` on: in place, or converted into `scratch`.
    ///
    /// # Safety
    /// They must be valid for reads; `scratch` for `n` elements.
    pub(crate) unsafe fn read(&self, at: usize, n: usize, scratch: *mut T) -> *const T {
        if self.direct {
            return self.address(at).cast();
        }
        // SAFETY: the caller's contract.
        unsafe { (self.load)(self.address(at), self.size as isize, scratch.cast(), size_of::<T>() as isize, n) };
        scratch
    }

    /// Where to compute the `n` elements from `at` on: in place or `scratch`. [`Rows::written`] follows. (`scratch` is best
    /// none that inputs were read to: compilers vectorise loops for memory that does not overlap.)
    pub(crate) fn target(&self, at: usize, scratch: *mut T) -> *mut T {
        if self.direct { self.address(at).cast() } else { scratch }
    }

    /// [`Rows::read`] into `scratch` in any case: memory is then read in order, however the elements are used.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn read_in_order(&self, at: usize, n: usize, scratch: *mut T) -> *const T {
        // SAFETY: the caller's contract.
        unsafe {
            if self.direct {
                move_bytes(self.address(at), scratch.cast(), n * size_of::<T>());
                return scratch;
            }
            self.read(at, n, scratch)
        }
    }

    /// Stores the `n` elements from `at` on past the caches, in order, if they are stored as they are ([`stream::finish`] follows
    /// before others read them).
    ///
    /// # Safety
    /// They must be valid for writes; `scratch` for `n` elements.
    pub(crate) unsafe fn write_past(&self, at: usize, n: usize, scratch: *const T) {
        // SAFETY: the caller's contract.
        unsafe {
            match self.direct {
                true => stream::move_past(scratch.cast(), self.address(at), n * size_of::<T>()),
                false => self.written(at, n, scratch),
            }
        }
    }

    /// Stores what was computed at [`Rows::target`].
    ///
    /// # Safety
    /// The elements must be valid for writes; `scratch` for `n` elements.
    pub(crate) unsafe fn written(&self, at: usize, n: usize, scratch: *const T) {
        if !self.direct {
            // SAFETY: the caller's contract.
            unsafe { (self.store)(scratch.cast(), size_of::<T>() as isize, self.address(at), self.size as isize, n) };
        }
    }

    /// Reads elements `stride` apart into `scratch`.
    ///
    /// # Safety
    /// They must be valid for reads; `scratch` for `n` elements.
    pub(crate) unsafe fn read_strided(&self, at: usize, stride: usize, n: usize, scratch: *mut T) {
        let stride = (stride * self.size) as isize;
        // SAFETY: the caller's contract.
        unsafe { (self.load)(self.address(at), stride, scratch.cast(), size_of::<T>() as isize, n) }
    }

    /// Writes elements `stride` apart from `scratch`.
    ///
    /// # Safety
    /// They must be valid for writes; `scratch` for `n` elements.
    pub(crate) unsafe fn write_strided(&self, at: usize, stride: usize, n: usize, scratch: *const T) {
        let stride = (stride * self.size) as isize;
        // SAFETY: the caller's contract.
        unsafe { (self.store)(scratch.cast(), size_of::<T>() as isize, self.address(at), stride, n) }
    }
}

/// An operand's elements as values: in place, or a copy.
pub(crate) struct Values<T> {
    start: *const T,
    n: usize,
    _copy: Vec<T>,
}

// SAFETY: they are only read.
unsafe impl<T: Sync> Sync for Values<T> {}

impl<T> Deref for Values<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `n` elements of the copy, or of an operand that outlives this by the contract of `values`.
        unsafe { std::slice::from_raw_parts(self.start, self.n) }
    }
}

/// All of an operand's `n` elements as values, or `n` copies of `default` where there is none.
///
/// # Safety
/// The operand must be valid for reads of `n` elements, and not be written to, for as long as the values are used.
pub(crate) unsafe fn values<T: Float>(operand: Option<Operand>, n: usize, default: T) -> Values<T> {
    if let Some(Operand { data, dtype }) = operand
        && dtype == T::DTYPE
        && data.cast::<T>().is_aligned()
        && !data.is_null()
    {
        return Values { start: data.cast(), n, _copy: Vec::new() };
    }
    let mut copy = vec![default; n];
    if let Some(operand) = operand {
        let (strip, size) = (cast_strip(operand.dtype, T::DTYPE), operand.dtype.size() as isize);
        // SAFETY: the caller's contract.
        unsafe { strip(operand.data, size, copy.as_mut_ptr().cast(), size_of::<T>() as isize, n) };
    }
    Values { start: copy.as_ptr(), n, _copy: copy }
}

/// Writes values to an operand from element `at` on.
///
/// # Safety
/// The operand must be valid for writes of that many elements.
pub(crate) unsafe fn store<T: Float>(operand: Operand, at: usize, values: &[T]) {
    let (strip, size) = (cast_strip(T::DTYPE, operand.dtype), operand.dtype.size());
    // SAFETY: the caller's contract.
    unsafe {
        let to = operand.data.wrapping_add(at * size);
        strip(values.as_ptr().cast(), size_of::<T>() as isize, to, size as isize, values.len());
    }
}

/// An operand that pieces of parallel work write disjoint parts of.
#[derive(Clone, Copy)]
pub(crate) struct SharedOperand(Shared<u8>, DType);

impl SharedOperand {
    pub(crate) fn new(operand: Operand) -> SharedOperand {
        SharedOperand(Shared(operand.data), operand.dtype)
    }
    pub(crate) fn get(self) -> Operand {
        Operand { data: self.0.get(), dtype: self.1 }
    }
}

/// Accumulators side by side: four AVX-512 vectors of `f32` hide the latency of an addition.
pub(crate) const LANES: usize = 64;

/// Elements summed in `T` before the sum goes on in `f64`.
pub(crate) const BLOCK: usize = 4096;

// Note [Lanes]: accumulators must stay in registers, which the compiler manages only for an array that is indexed by
// loops with constant bounds: what is left of a row goes through an array of its own, and both are joined afterwards. The
// array starts from a constant, since 64 stores of one value are more uses of it than alias analysis looks at. And 64
// elements are too many for a loop to be unrolled before it is vectorised, which leaves vectors of two. What may leave an
// accumulator as it is, a maximum, goes to an array of its own first: compilers make of it a store under a mask, which
// keeps the accumulators in memory (at least where a crate is optimised once, by `codegen-units = 1`).

/// [`LANES`] zeros, and as many ones.
static STEP: [u32; 2 * LANES] = {
    let mut step = [0; 2 * LANES];
    let mut i = LANES;
    while i < step.len() {
        step[i] = 1;
        i += 1;
    }
    step
};

/// Zeros up to element `first`, at most [`LANES`], and ones from there. (From memory: of a comparison of indices compilers
/// make vectors of 64-bit integers, and shuffles.)
#[inline(always)]
pub(crate) fn ones_from<const W: usize>(first: usize) -> [u32; W] {
    const { assert!(W <= LANES) };
    let start = LANES - first.min(LANES);
    // SAFETY: at most `LANES` elements, from one of the first `LANES` of twice as many or the one behind them.
    unsafe { STEP.as_ptr().add(start).cast::<[u32; W]>().read_unaligned() }
}

/// Joins accumulators, a power of two of them, in a tree.
#[inline(always)]
pub(crate) fn joined<T: Copy, const N: usize>(lanes: [T; N], join: impl Fn(T, T) -> T) -> T {
    let mut lanes = aligned(lanes);
    let mut half = N;
    while half > 1 {
        half /= 2;
        for l in 0..half {
            lanes[l] = join(lanes[l], lanes[l + half]);
        }
    }
    lanes[0]
}

/// The sum of all elements, or the largest, of an array of 16, 32 or 64, in a tree. (An array for each step: Note [Lanes].)
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
pub(crate) fn together<I: Isa, T: Float, const W: usize, const MAX: bool>(lanes: [T; W]) -> T {
    const { assert!(matches!(W, 16 | 32 | 64)) };
    let zero = <T as Number>::ZERO;
    let (mut x16, mut x8, mut x4, mut x2) = (aligned([zero; 16]), [zero; 8], [zero; 4], [zero; 2]);
    let join = |a: T, b: T| if MAX { select(b > a, b, a) } else { a + b };
    for l in 0..16 {
        x16[l] = match W {
            16 => lanes[l],
            32 => join(lanes[l], lanes[(16 + l) % W]),
            _ => join(join(lanes[l], lanes[(32 + l) % W]), join(lanes[(16 + l) % W], lanes[(48 + l) % W])),
        };
    }
    #[cfg(target_arch = "x86_64")]
    if const { !matches!(I::LEVEL, Level::Baseline) && matches!(T::DTYPE, DType::F32) } {
        // SAFETY: the caller runs at that level, and the elements are `f32`.
        unsafe {
            let sixteen = (&raw const x16).cast::<[f32; 16]>().read();
            return T::from_f32(if MAX { x86::largest(sixteen) } else { x86::sum(sixteen) });
        }
    }
    for l in 0..8 {
        x8[l] = join(x16[l], x16[8 + l]);
    }
    for l in 0..4 {
        x4[l] = join(x8[l], x8[4 + l]);
    }
    for l in 0..2 {
        x2[l] = join(x4[l], x4[2 + l]);
    }
    join(x2[0], x2[1])
}

/// What compilers do through memory.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    macro_rules! trees {
        ($($name:ident $half:ident $quarter:ident $last:ident;)*) => { $(
            /// # Safety
            /// The machine has AVX2.
            #[inline]
            #[target_feature(enable = "avx2")]
            pub(super) unsafe fn $name(x: [f32; 16]) -> f32 {
                // SAFETY: an array of 16 is two vectors.
                let [low, high]: [__m256; 2] = unsafe { std::mem::transmute(x) };
                let eight = $half(low, high);
                let four = $quarter(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
                let two = $quarter(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32($last(two, _mm_movehdup_ps(two)))
            }
        )* };
    }
    // (Of equal elements, and where one is not a number, the maximum of instructions is their second operand.)
    #[inline]
    #[target_feature(enable = "avx")]
    fn larger_of_eight(a: __m256, b: __m256) -> __m256 {
        _mm256_max_ps(b, a)
    }
    #[inline]
    #[target_feature(enable = "avx")]
    fn larger_of_four(a: __m128, b: __m128) -> __m128 {
        _mm_max_ps(b, a)
    }
    trees! {
        sum _mm256_add_ps _mm_add_ps _mm_add_ss;
        largest larger_of_eight larger_of_four larger_of_four;
    }
}

/// The sum of lanes.
#[inline(always)]
pub(crate) fn total<I: Isa, T: Float>(lanes: &[T; LANES]) -> f64 {
    together::<I, T, LANES, false>(*lanes).to_f64()
}

/// `K` sums of terms over `0..n` at once: in `T` over lanes within a block, in `f64` from there.
#[inline(always)]
pub(crate) fn sums<I: Isa, T: Float, const K: usize>(n: usize, term: impl Fn(usize) -> [T; K]) -> [f64; K] {
    folds::<I, T, K>(n, |i, mut sums| {
        let terms = term(i);
        for k in 0..K {
            sums[k] += terms[k];
        }
        sums
    })
}

/// [`sums`] of the squares of elements less a centre, and of what is squared.
#[inline(always)]
pub(crate) fn deviations<I: Isa, T: Float>(n: usize, centre: T, at: impl Fn(usize) -> T) -> [f64; 2] {
    folds::<I, T, 2>(n, |i, [squares, rest]| {
        let d = at(i) - centre;
        [d.mul_add::<I>(d, squares), rest + d]
    })
}

/// Distances that [`long_deviations`] adds one after the other in `T` before their sums go on in `f64`.
const QUICK: usize = 16;

/// [`deviations`] of contiguous elements in one pass whose accumulators stay in registers, where that begins again for each
/// half of the lanes.
///
/// # Safety
/// `x` must be valid for `n` elements, [`LANES`] at least.
#[inline(always)]
pub(crate) unsafe fn long_deviations<I: Isa, T: Float>(x: *const T, n: usize, centre: T) -> [f64; 2] {
    // Four vectors of each sum.
    // SAFETY: the caller's elements.
    unsafe {
        match const { (matches!(I::LEVEL, Level::Avx512), size_of::<T>()) } {
            (true, 4) => distances::<I, T, LANES>(x, n, centre),
            (true, _) | (false, 4) => distances::<I, T, { LANES / 2 }>(x, n, centre),
            (false, _) => distances::<I, T, { LANES / 4 }>(x, n, centre),
        }
    }
}

/// [`long_deviations`] by `W` accumulators.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn distances<I: Isa, T: Float, const W: usize>(x: *const T, n: usize, centre: T) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for start in (0..n).step_by(QUICK * W) {
        let end = n.min(start + QUICK * W);
        // SAFETY: elements of the caller's, as many before `end` as make whole lanes.
        let [squares, rest] = unsafe { few_distances::<I, T, W>(x.add(end), end - start, centre) };
        sums = [sums[0] + squares, sums[1] + rest];
    }
    sums
}

/// [`long_deviations`] as a function of its own.
pub(crate) struct LongDeviations<T>(PhantomData<T>);
impl<T: Float> Kernel for LongDeviations<T> {
    type Args = (*const T, usize, T);
    type Output = [f64; 2];
    #[inline(always)]
    unsafe fn run<I: Isa>((x, n, centre): Self::Args) -> [f64; 2] {
        // SAFETY: the caller's contract.
        unsafe { long_deviations::<I, T>(x, n, centre) }
    }
}

/// The sums of the squares of distances from a centre, and of the distances, of the `n` elements before `end`.
///
/// # Safety
/// `end` must be the end of `n` valid elements, and of `W`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops countable, and their bounds constant.
unsafe fn few_distances<I: Isa, T: Float, const W: usize>(end: *const T, n: usize, centre: T) -> [f64; 2] {
    // SAFETY: the caller's elements.
    let before = |left: usize| unsafe { end.sub(left).cast::<[T; W]>().read_unaligned() };
    let mut square = aligned([<T as Number>::ZERO; W]);
    let mut rest = aligned([<T as Number>::ZERO; W]);
    for set in 0..n / W {
        let x = before(n - set * W);
        for l in 0..W {
            let d = x[l] - centre;
            rest[l] += d;
            square[l] = d.mul_add::<I>(d, square[l]);
        }
    }
    if !n.is_multiple_of(W) {
        // The last, of which those count that were not added yet.
        let (x, counts) = (before(W), ones_from::<W>(W - n % W));
        for l in 0..W {
            let d = select(counts[l] != 0, x[l] - centre, <T as Number>::ZERO);
            rest[l] += d;
            square[l] = d.mul_add::<I>(d, square[l]);
        }
    }
    [together::<I, T, W, false>(*square).to_f64(), together::<I, T, W, false>(*rest).to_f64()]
}

/// [`sums`], by a function that adds an element's terms to what it is given.
#[inline(always)]
fn folds<I: Isa, T: Float, const K: usize>(n: usize, term: impl Fn(usize, [T; K]) -> [T; K]) -> [f64; K] {
    let mut sums = [0.0; K];
    for start in (0..n).step_by(BLOCK) {
        let block = block_sums::<I, T, K>(start, n.min(start + BLOCK), &term);
        for k in 0..K {
            sums[k] += block[k];
        }
    }
    sums
}

/// The same over a block.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // `lanes[k][l]` runs along `l` for several `k`.
fn block_sums<I: Isa, T: Float, const K: usize>(
    start: usize,
    end: usize,
    term: &impl Fn(usize, [T; K]) -> [T; K],
) -> [f64; K] {
    let nothing = [<T as Number>::ZERO; K];
    let mut lanes = aligned([[<T as Number>::ZERO; LANES]; K]);
    let (sets, left) = ((end - start) / LANES, (end - start) % LANES);
    if end < LANES {
        // A row that is short.
        for l in 0..left {
            let terms = term(start + l, nothing);
            for k in 0..K {
                lanes[k][l] = terms[k];
            }
        }
    } else {
        // What stays in registers, of which there are 32 or 16.
        if K == 1 || const { matches!(I::LEVEL, Level::Avx512) } {
            add_sets::<T, K, LANES>(sets, start, term, &mut lanes);
        } else {
            add_sets::<T, K, { LANES / 2 }>(sets, start, term, &mut lanes);
        }
        if left > 0 {
            // A whole set of terms, of which those count that were not added yet.
            let mut rest = aligned([[<T as Number>::ZERO; LANES]; K]);
            let (first, counts) = (end - LANES, ones_from::<LANES>(LANES - left));
            for l in 0..LANES {
                let terms = term(first + l, nothing);
                for k in 0..K {
                    rest[k][l] = select(counts[l] != 0, terms[k], <T as Number>::ZERO);
                }
            }
            for k in 0..K {
                for l in 0..LANES {
                    lanes[k][l] += rest[k][l];
                }
            }
        }
    }
    let mut sums = [0.0; K];
    for k in 0..K {
        sums[k] = together::<I, T, LANES, false>(lanes[k]).to_f64();
    }
    sums
}

/// Adds `sets` sets of [`LANES`] terms from `first` on to lanes, `W` lanes at a time, whose accumulators stay in registers.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // As above.
fn add_sets<T: Float, const K: usize, const W: usize>(
    sets: usize,
    first: usize,
    term: &impl Fn(usize, [T; K]) -> [T; K],
    lanes: &mut [[T; LANES]; K],
) {
    for lane in (0..LANES).step_by(W) {
        let mut some = aligned([[<T as Number>::ZERO; W]; K]);
        for set in 0..sets {
            for l in 0..W {
                let mut sums = [<T as Number>::ZERO; K];
                for k in 0..K {
                    sums[k] = some[k][l];
                }
                let sums = term(first + set * LANES + lane + l, sums);
                for k in 0..K {
                    some[k][l] = sums[k];
                }
            }
        }
        for k in 0..K {
            lanes[k][lane..lane + W].copy_from_slice(&some[k]);
        }
    }
}

/// Bytes of a cache line, and elements that are a whole number of them.
pub(crate) const LINE_BYTES: usize = 64;
pub(super) const LINE: usize = 16;

/// The largest of `n` elements, negative infinity for none. NaN is passed over.
///
/// # Safety
/// `x` must be valid for `n` elements.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
pub(crate) unsafe fn largest<I: Isa, T: Float>(x: *const T, n: usize) -> T {
    let larger = |a: T, b: T| select(b > a, b, a);
    // SAFETY: `i < n` wherever it is called.
    let at = |i: usize| unsafe { *x.add(i) };
    let mut lanes = const { aligned([T::NEG_INFINITY; LANES]) };
    let mut i = 0;
    while i + LANES <= n {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], at(i + l));
        }
        i += LANES;
    }
    let mut rest = const { aligned([T::NEG_INFINITY; LANES]) };
    if n >= LANES {
        // Some are looked at twice, which is cheaper than to look at a few one by one.
        for l in 0..LANES {
            rest[l] = at(n - LANES + l);
        }
    } else {
        for l in 0..n {
            rest[l] = at(l);
        }
    }
    let mut all = const { aligned([T::NEG_INFINITY; LANES]) };
    for l in 0..LANES {
        all[l] = larger(lanes[l], rest[l]);
    }
    together::<I, T, LANES, true>(*all)
}

/// Calls `f` with the compute type that `dtype` names (`f64` or `f32`).
macro_rules! compute {
    ($dtype:expr, $T:ident => $body:expr) => {
        if $dtype == flambeau_base::DType::F64 {
            type $T = f64;
            $body
        } else {
            type $T = f32;
            $body
        }
    };
}
pub(crate) use compute;
