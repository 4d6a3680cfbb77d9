//! Vectors of numbers, one type per instruction set, and the memory that kernels work in.
//!
//! A driver is written once, generic over [`Simd`], and entered through [`Simd::enter`], which compiles it with the
//! instruction set's features. Everything generic is `#[inline(always)]` so that it is compiled inside that function.

use super::kernel::{self, Tile};
use std::cell::RefCell;
use std::ptr::NonNull;

/// A type convolutions are computed in.
pub(crate) trait Number: Copy + Default + Send + Sync + PartialEq + 'static {
    /// A half, where the type has one.
    const HALF: Option<Self>;
    /// `self * b + c`, in one or two roundings.
    fn multiply_add(self, b: Self, c: Self) -> Self;
    /// `self + b`.
    fn plus(self, b: Self) -> Self;
    /// `self - b`.
    fn minus(self, b: Self) -> Self;
}

macro_rules! number {
    ($($t:ty: $half:expr, |$a:ident, $b:ident, $c:ident| $fma:expr, $add:expr, $sub:expr;)*) => { $(
        impl Number for $t {
            const HALF: Option<Self> = $half;
            #[inline(always)]
            fn multiply_add(self, $b: Self, $c: Self) -> Self { let $a = self; $fma }
            #[inline(always)]
            fn plus(self, $b: Self) -> Self { let $a = self; $add }
            #[inline(always)]
            fn minus(self, $b: Self) -> Self { let $a = self; $sub }
        }
    )* };
}
// Without hardware FMA `mul_add` is a library call; the portable path rounds twice instead.
number! {
    f32: Some(0.5), |a, b, c| a * b + c, a + b, a - b;
    f64: Some(0.5), |a, b, c| a * b + c, a + b, a - b;
    i64: None, |a, b, c| a.wrapping_mul(b).wrapping_add(c), a.wrapping_add(b), a.wrapping_sub(b);
}

/// Work compiled once per instruction set.
pub(crate) trait Task {
    /// The type it computes in.
    type Element: Number;
    /// Does the work. Implementations are `#[inline(always)]`.
    ///
    /// # Safety
    /// The machine has `S`'s instructions; the task's pointers are valid.
    unsafe fn run<S: Simd<Element = Self::Element>>(&self);
}

/// A vector of [`Simd::LANES`] numbers.
///
/// # Safety
/// Implementations read and write exactly the elements that each method names.
pub(crate) unsafe trait Simd: Copy + 'static {
    /// The number.
    type Element: Number;
    /// The register.
    type Vector: Copy;
    /// Numbers per vector.
    const LANES: usize;
    /// Rows of the largest micro-tile; a power of two.
    const ROWS: usize;
    /// The micro-kernels by `[log2(rows)][vectors - 1]`.
    const TILES: &'static [[Tile<Self::Element>; 3]];

    /// All lanes `x`.
    unsafe fn splat(x: Self::Element) -> Self::Vector;
    /// Reads a whole vector.
    unsafe fn load(p: *const Self::Element) -> Self::Vector;
    /// Writes a whole vector.
    unsafe fn store(p: *mut Self::Element, v: Self::Vector);
    /// Reads the first `n <= LANES` lanes; the others are zero.
    unsafe fn load_first(p: *const Self::Element, n: usize) -> Self::Vector;
    /// Writes the first `n <= LANES` lanes.
    unsafe fn store_first(p: *mut Self::Element, v: Self::Vector, n: usize);
    /// `a * b + c`.
    unsafe fn multiply_add(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `a + b`.
    unsafe fn plus(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a - b`.
    unsafe fn minus(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Runs `task` compiled for this instruction set.
    unsafe fn enter<T: Task<Element = Self::Element>>(task: &T);

    /// The lanes of even number of `a` and then of `b`, and those of odd number.
    #[inline(always)]
    unsafe fn unzip(a: Self::Vector, b: Self::Vector) -> (Self::Vector, Self::Vector) {
        let (from, mut to) = ([a, b], [a, b]);
        // SAFETY: two vectors may be read and written as their lanes.
        unsafe {
            let (from, to) = (from.as_ptr().cast::<Self::Element>(), to.as_mut_ptr().cast::<Self::Element>());
            for i in 0..Self::LANES {
                *to.add(i) = *from.add(2 * i);
                *to.add(Self::LANES + i) = *from.add(2 * i + 1);
            }
        }
        (to[0], to[1])
    }

    /// The lanes of `a` and `b` in turns: what [`Simd::unzip`] undoes.
    #[inline(always)]
    unsafe fn zip(a: Self::Vector, b: Self::Vector) -> (Self::Vector, Self::Vector) {
        let (from, mut to) = ([a, b], [a, b]);
        // SAFETY: as above.
        unsafe {
            let (from, to) = (from.as_ptr().cast::<Self::Element>(), to.as_mut_ptr().cast::<Self::Element>());
            for i in 0..Self::LANES {
                *to.add(2 * i) = *from.add(i);
                *to.add(2 * i + 1) = *from.add(Self::LANES + i);
            }
        }
        (to[0], to[1])
    }

    /// Writes the transpose of the `rows x columns` block at `source` (rows `source_stride` apart, at most `LANES` of
    /// each) to `target`, whose rows are `target_stride` apart.
    #[inline(always)]
    unsafe fn transpose(
        source: *const Self::Element,
        source_stride: usize,
        rows: usize,
        columns: usize,
        target: *mut Self::Element,
        target_stride: usize,
    ) {
        for row in 0..rows {
            for column in 0..columns {
                // SAFETY: the caller's blocks hold these positions.
                unsafe { *target.add(column * target_stride + row) = *source.add(row * source_stride + column) };
            }
        }
    }

    /// Reads the lanes from `begin` to `end`, at most `LANES`; the others are zero.
    #[inline(always)]
    unsafe fn load_between(p: *const Self::Element, begin: usize, end: usize) -> Self::Vector {
        // SAFETY: the caller's; a vector may be read as its lanes.
        unsafe {
            let mut v = Self::splat(Self::Element::default());
            let lanes = (&raw mut v).cast::<Self::Element>();
            for i in begin..end {
                *lanes.add(i) = *p.wrapping_add(i);
            }
            v
        }
    }

    /// [`Simd::load_between`] of every second element.
    #[inline(always)]
    unsafe fn load_even_between(p: *const Self::Element, begin: usize, end: usize) -> Self::Vector {
        let lanes = Self::LANES;
        // What follows the last lane's element is not read: it may be past the end.
        let (first, last) = (2 * begin, (2 * end).saturating_sub(1).max(2 * begin));
        // SAFETY: the caller's lanes, and what lies between them.
        unsafe {
            let low = Self::load_between(p, first.min(lanes), last.min(lanes));
            let high = p.wrapping_add(lanes);
            let high = Self::load_between(high, first.saturating_sub(lanes), last.saturating_sub(lanes));
            Self::unzip(low, high).0
        }
    }

    /// Copies elements `begin..end`, `STEP` apart (one or two), of each of `rows` rows to their places among `n`; the
    /// others become zero.
    #[inline(always)]
    unsafe fn copy_between<const STEP: usize>(
        (source, source_stride): (*const Self::Element, usize),
        (begin, end): (usize, usize),
        (target, target_stride): (*mut Self::Element, usize),
        n: usize,
        rows: usize,
    ) {
        for i in (0..n).step_by(Self::LANES) {
            let (first, last) = (begin.saturating_sub(i).min(Self::LANES), end.saturating_sub(i).min(Self::LANES));
            let width = (n - i).min(Self::LANES);
            for row in 0..rows {
                // SAFETY: the named elements of the source and `n` of the target exist in every row.
                unsafe {
                    let from = source.wrapping_add(row * source_stride + STEP * i);
                    let v = match STEP {
                        1 => Self::load_between(from, first, last),
                        _ => Self::load_even_between(from, first, last),
                    };
                    let to = target.add(row * target_stride + i);
                    if width == Self::LANES { Self::store(to, v) } else { Self::store_first(to, v, width) }
                }
            }
        }
    }

    /// Copies `n` elements.
    #[inline(always)]
    unsafe fn copy(source: *const Self::Element, target: *mut Self::Element, n: usize) {
        let mut i = 0;
        // SAFETY: both runs have `n` elements.
        unsafe {
            while i + Self::LANES <= n {
                Self::store(target.add(i), Self::load(source.add(i)));
                i += Self::LANES;
            }
            if i < n {
                Self::store_first(target.add(i), Self::load_first(source.add(i), n - i), n - i);
            }
        }
    }

    /// Sets `n` elements to zero.
    #[inline(always)]
    unsafe fn clear(target: *mut Self::Element, n: usize) {
        let mut i = 0;
        // SAFETY: the run has `n` elements.
        unsafe {
            let zero = Self::splat(Self::Element::default());
            while i + Self::LANES <= n {
                Self::store(target.add(i), zero);
                i += Self::LANES;
            }
            if i < n {
                Self::store_first(target.add(i), zero, n - i);
            }
        }
    }
}

/// Four numbers in an array: what the compiler makes of it on any machine (SSE2 on x86-64).
#[derive(Clone, Copy)]
pub(crate) struct Portable<E>(std::marker::PhantomData<E>);

const PORTABLE_LANES: usize = 4;

// SAFETY: plain array accesses of the named elements.
unsafe impl<E: Number> Simd for Portable<E> {
    type Element = E;
    type Vector = [E; PORTABLE_LANES];
    const LANES: usize = PORTABLE_LANES;
    const ROWS: usize = 4;
    const TILES: &'static [[Tile<E>; 3]] = &[
        [kernel::tile::<Self, 1, 1>, kernel::tile::<Self, 1, 2>, kernel::tile::<Self, 1, 3>],
        [kernel::tile::<Self, 2, 1>, kernel::tile::<Self, 2, 2>, kernel::tile::<Self, 2, 3>],
        [kernel::tile::<Self, 4, 1>, kernel::tile::<Self, 4, 2>, kernel::tile::<Self, 4, 3>],
    ];
    #[inline(always)]
    unsafe fn splat(x: E) -> Self::Vector {
        [x; PORTABLE_LANES]
    }
    #[inline(always)]
    unsafe fn load(p: *const E) -> Self::Vector {
        // SAFETY: the caller's.
        unsafe { p.cast::<Self::Vector>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(p: *mut E, v: Self::Vector) {
        // SAFETY: the caller's.
        unsafe { p.cast::<Self::Vector>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const E, n: usize) -> Self::Vector {
        let mut v = [E::default(); PORTABLE_LANES];
        // SAFETY: the caller's, for the first `n`.
        v.iter_mut().take(n).enumerate().for_each(|(i, x)| *x = unsafe { *p.add(i) });
        v
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut E, v: Self::Vector, n: usize) {
        // SAFETY: the caller's, for the first `n`.
        v.iter().take(n).enumerate().for_each(|(i, x)| unsafe { *p.add(i) = *x });
    }
    #[inline(always)]
    unsafe fn multiply_add(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        std::array::from_fn(|i| a[i].multiply_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn plus(a: Self::Vector, b: Self::Vector) -> Self::Vector {
        std::array::from_fn(|i| a[i].plus(b[i]))
    }
    #[inline(always)]
    unsafe fn minus(a: Self::Vector, b: Self::Vector) -> Self::Vector {
        std::array::from_fn(|i| a[i].minus(b[i]))
    }
    #[inline(always)]
    unsafe fn enter<T: Task<Element = E>>(task: &T) {
        // SAFETY: the caller's; no special instructions.
        unsafe { task.run::<Self>() }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use std::arch::x86_64::*;

    macro_rules! tiles {
        ($features:literal, $t:ty, [$($rows:literal),*]) => {{
            #[target_feature(enable = $features)]
            unsafe fn tile<const R: usize, const V: usize>(call: &kernel::Call<<$t as Simd>::Element>) {
                // SAFETY: the caller's.
                unsafe { kernel::tile::<$t, R, V>(call) }
            }
            &[$([tile::<$rows, 1>, tile::<$rows, 2>, tile::<$rows, 3>]),*]
        }};
    }
    macro_rules! enter {
        ($features:literal) => {
            #[inline(always)]
            unsafe fn enter<T: Task<Element = Self::Element>>(task: &T) {
                #[target_feature(enable = $features)]
                unsafe fn inside<S: Simd, T: Task<Element = S::Element>>(task: &T) {
                    // SAFETY: the caller's; the features are on here.
                    unsafe { task.run::<S>() }
                }
                // SAFETY: the caller's: the machine has these features.
                unsafe { inside::<Self, T>(task) }
            }
        };
    }
    /// The methods that are one intrinsic each.
    macro_rules! plain {
        ($vector:ty, $element:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $fma:ident, $add:ident, $sub:ident) => {
            type Element = $element;
            type Vector = $vector;
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn splat(x: $element) -> $vector {
                // SAFETY: the caller's.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn load(p: *const $element) -> $vector {
                // SAFETY: the caller's.
                unsafe { $load(p) }
            }
            #[inline(always)]
            unsafe fn store(p: *mut $element, v: $vector) {
                // SAFETY: the caller's.
                unsafe { $store(p, v) }
            }
            #[inline(always)]
            unsafe fn multiply_add(a: $vector, b: $vector, c: $vector) -> $vector {
                // SAFETY: the caller's.
                unsafe { $fma(a, b, c) }
            }
            #[inline(always)]
            unsafe fn plus(a: $vector, b: $vector) -> $vector {
                // SAFETY: the caller's.
                unsafe { $add(a, b) }
            }
            #[inline(always)]
            unsafe fn minus(a: $vector, b: $vector) -> $vector {
                // SAFETY: the caller's.
                unsafe { $sub(a, b) }
            }
        };
    }

    /// 512-bit vectors of `f32`.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512F32;
    // SAFETY: the intrinsics touch exactly the named elements; masked-off lanes do not fault.
    unsafe impl Simd for Avx512F32 {
        plain!(
            __m512,
            f32,
            16,
            _mm512_set1_ps,
            _mm512_loadu_ps,
            _mm512_storeu_ps,
            _mm512_fmadd_ps,
            _mm512_add_ps,
            _mm512_sub_ps
        );
        const ROWS: usize = 8;
        const TILES: &'static [[Tile<f32>; 3]] =
            tiles!("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,bmi1,bmi2", Avx512F32, [1, 2, 4, 8]);
        enter!("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,bmi1,bmi2");
        #[inline(always)]
        unsafe fn load_first(p: *const f32, n: usize) -> __m512 {
            // SAFETY: the caller's.
            unsafe { _mm512_maskz_loadu_ps(((1u32 << n) - 1) as u16, p) }
        }
        #[inline(always)]
        unsafe fn load_between(p: *const f32, begin: usize, end: usize) -> __m512 {
            // SAFETY: the caller's.
            unsafe { _mm512_maskz_loadu_ps(((1u32 << end) - (1u32 << begin)) as u16, p) }
        }
        #[inline(always)]
        unsafe fn store_first(p: *mut f32, v: __m512, n: usize) {
            // SAFETY: the caller's.
            unsafe { _mm512_mask_storeu_ps(p, ((1u32 << n) - 1) as u16, v) }
        }
        #[inline(always)]
        unsafe fn unzip(a: __m512, b: __m512) -> (__m512, __m512) {
            // SAFETY: the caller's.
            unsafe {
                let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
                (_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b))
            }
        }
        #[inline(always)]
        unsafe fn zip(a: __m512, b: __m512) -> (__m512, __m512) {
            // SAFETY: the caller's.
            unsafe {
                let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
                (_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b))
            }
        }
        #[inline(always)]
        unsafe fn transpose(s: *const f32, ss: usize, rows: usize, columns: usize, t: *mut f32, ts: usize) {
            // SAFETY: the caller's. The usual case is compiled apart.
            unsafe {
                if rows == 16 && columns == 16 {
                    transpose_16(s, ss, 16, 16, t, ts);
                } else {
                    transpose_16(s, ss, rows, columns, t, ts);
                }
            }
        }
    }

    /// [`Simd::transpose`] of at most 16 rows and columns.
    #[inline(always)]
    unsafe fn transpose_16(s: *const f32, ss: usize, rows: usize, columns: usize, t: *mut f32, ts: usize) {
        // SAFETY: the caller's; rows and columns past the end are neither read nor written.
        unsafe {
            let mask = ((1u32 << columns) - 1) as u16;
            let mut r = [_mm512_setzero_ps(); 16];
            for (i, r) in r.iter_mut().enumerate() {
                *r = _mm512_maskz_loadu_ps(if i < rows { mask } else { 0 }, s.wrapping_add(i * ss));
            }
            // 4x4 blocks inside 128-bit lanes, then the lanes.
            let mut u = r;
            for q in 0..4 {
                let (a, b, c, d) = (r[4 * q], r[4 * q + 1], r[4 * q + 2], r[4 * q + 3]);
                let (ab, ab2) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let (cd, cd2) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                u[4 * q] = _mm512_shuffle_ps::<0x44>(ab, cd);
                u[4 * q + 1] = _mm512_shuffle_ps::<0xee>(ab, cd);
                u[4 * q + 2] = _mm512_shuffle_ps::<0x44>(ab2, cd2);
                u[4 * q + 3] = _mm512_shuffle_ps::<0xee>(ab2, cd2);
            }
            let mask = ((1u32 << rows) - 1) as u16;
            for k in 0..4 {
                // Lane l of u[4 q + k] is column 4 l + k of rows 4 q .. 4 q + 4.
                let x = _mm512_shuffle_f32x4::<0x88>(u[k], u[4 + k]);
                let y = _mm512_shuffle_f32x4::<0xdd>(u[k], u[4 + k]);
                let z = _mm512_shuffle_f32x4::<0x88>(u[8 + k], u[12 + k]);
                let v = _mm512_shuffle_f32x4::<0xdd>(u[8 + k], u[12 + k]);
                let w = [
                    _mm512_shuffle_f32x4::<0x88>(x, z),
                    _mm512_shuffle_f32x4::<0x88>(y, v),
                    _mm512_shuffle_f32x4::<0xdd>(x, z),
                    _mm512_shuffle_f32x4::<0xdd>(y, v),
                ];
                for (l, w) in w.into_iter().enumerate() {
                    if 4 * l + k < columns {
                        _mm512_mask_storeu_ps(t.add((4 * l + k) * ts), mask, w);
                    }
                }
            }
        }
    }

    /// 512-bit vectors of `f64`.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512F64;
    // SAFETY: the intrinsics touch exactly the named elements; masked-off lanes do not fault.
    unsafe impl Simd for Avx512F64 {
        plain!(
            __m512d,
            f64,
            8,
            _mm512_set1_pd,
            _mm512_loadu_pd,
            _mm512_storeu_pd,
            _mm512_fmadd_pd,
            _mm512_add_pd,
            _mm512_sub_pd
        );
        const ROWS: usize = 8;
        const TILES: &'static [[Tile<f64>; 3]] =
            tiles!("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,bmi1,bmi2", Avx512F64, [1, 2, 4, 8]);
        enter!("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,bmi1,bmi2");
        #[inline(always)]
        unsafe fn load_first(p: *const f64, n: usize) -> __m512d {
            // SAFETY: the caller's.
            unsafe { _mm512_maskz_loadu_pd(((1u32 << n) - 1) as u8, p) }
        }
        #[inline(always)]
        unsafe fn load_between(p: *const f64, begin: usize, end: usize) -> __m512d {
            // SAFETY: the caller's.
            unsafe { _mm512_maskz_loadu_pd(((1u32 << end) - (1u32 << begin)) as u8, p) }
        }
        #[inline(always)]
        unsafe fn store_first(p: *mut f64, v: __m512d, n: usize) {
            // SAFETY: the caller's.
            unsafe { _mm512_mask_storeu_pd(p, ((1u32 << n) - 1) as u8, v) }
        }
    }

    /// All-ones in the first `8 - i` places when read from place `i`, for AVX2's masks.
    static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    /// 256-bit vectors of `f32`.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2F32;
    // SAFETY: the intrinsics touch exactly the named elements; masked-off lanes do not fault.
    unsafe impl Simd for Avx2F32 {
        plain!(
            __m256,
            f32,
            8,
            _mm256_set1_ps,
            _mm256_loadu_ps,
            _mm256_storeu_ps,
            _mm256_fmadd_ps,
            _mm256_add_ps,
            _mm256_sub_ps
        );
        const ROWS: usize = 4;
        const TILES: &'static [[Tile<f32>; 3]] = tiles!("avx2,fma,bmi1,bmi2", Avx2F32, [1, 2, 4]);
        enter!("avx2,fma,bmi1,bmi2");
        #[inline(always)]
        unsafe fn load_first(p: *const f32, n: usize) -> __m256 {
            // SAFETY: the caller's; `n <= 8` keeps the mask inside the table.
            unsafe { _mm256_maskload_ps(p, _mm256_loadu_si256(MASKS.as_ptr().add(8 - n).cast())) }
        }
        #[inline(always)]
        unsafe fn store_first(p: *mut f32, v: __m256, n: usize) {
            // SAFETY: the caller's; `n <= 8` keeps the mask inside the table.
            unsafe { _mm256_maskstore_ps(p, _mm256_loadu_si256(MASKS.as_ptr().add(8 - n).cast()), v) }
        }
        #[inline(always)]
        unsafe fn load_between(p: *const f32, begin: usize, end: usize) -> __m256 {
            // SAFETY: the caller's; both are at most 8.
            unsafe {
                let [begin, end] = [begin, end].map(|n| _mm256_loadu_si256(MASKS.as_ptr().add(8 - n).cast()));
                _mm256_maskload_ps(p, _mm256_andnot_si256(begin, end))
            }
        }
        #[inline(always)]
        unsafe fn unzip(a: __m256, b: __m256) -> (__m256, __m256) {
            // SAFETY: the caller's.
            unsafe {
                let (low, high) = (_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b));
                let (even, odd) = (_mm256_shuffle_ps::<0x88>(low, high), _mm256_shuffle_ps::<0xdd>(low, high));
                (even, odd)
            }
        }
        #[inline(always)]
        unsafe fn zip(a: __m256, b: __m256) -> (__m256, __m256) {
            // SAFETY: the caller's.
            unsafe {
                let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                (_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high))
            }
        }
    }

    /// 256-bit vectors of `f64`.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2F64;
    // SAFETY: the intrinsics touch exactly the named elements; masked-off lanes do not fault.
    unsafe impl Simd for Avx2F64 {
        plain!(
            __m256d,
            f64,
            4,
            _mm256_set1_pd,
            _mm256_loadu_pd,
            _mm256_storeu_pd,
            _mm256_fmadd_pd,
            _mm256_add_pd,
            _mm256_sub_pd
        );
        const ROWS: usize = 4;
        const TILES: &'static [[Tile<f64>; 3]] = tiles!("avx2,fma,bmi1,bmi2", Avx2F64, [1, 2, 4]);
        enter!("avx2,fma,bmi1,bmi2");
        #[inline(always)]
        unsafe fn load_first(p: *const f64, n: usize) -> __m256d {
            // SAFETY: the caller's; `n <= 4` keeps the mask inside the table.
            unsafe { _mm256_maskload_pd(p, _mm256_loadu_si256(MASKS.as_ptr().add(8 - 2 * n).cast())) }
        }
        #[inline(always)]
        unsafe fn store_first(p: *mut f64, v: __m256d, n: usize) {
            // SAFETY: the caller's; `n <= 4` keeps the mask inside the table.
            unsafe { _mm256_maskstore_pd(p, _mm256_loadu_si256(MASKS.as_ptr().add(8 - 2 * n).cast()), v) }
        }
    }
}

/// Types with a choice of instruction sets.
pub(crate) trait Dispatch: Number {
    /// Runs `task` with the widest instructions this machine has.
    ///
    /// # Safety
    /// The task's pointers are valid.
    unsafe fn dispatch<T: Task<Element = Self>>(task: &T);
    /// The lanes that [`Dispatch::dispatch`] will choose.
    fn lanes() -> usize;
    /// The rows of the micro-tile that [`Dispatch::dispatch`] will choose.
    fn rows() -> usize;
}

/// Tests turn the wide paths off with it, one at a time: 2 = AVX-512 allowed, 1 = AVX2, 0 = neither.
#[cfg(test)]
pub(crate) static WIDEST: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(2);

/// The instruction set to use: 2 = AVX-512, 1 = AVX2 with FMA, 0 = anything.
#[inline]
pub(crate) fn level() -> u8 {
    #[cfg(target_arch = "x86_64")]
    {
        let wide = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq");
        let middle = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        let level = if middle { 1 + wide as u8 } else { 0 };
        #[cfg(test)]
        let level = level.min(WIDEST.load(std::sync::atomic::Ordering::Relaxed));
        level
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

macro_rules! dispatch_float {
    ($t:ty, $wide:ident, $middle:ident) => {
        impl Dispatch for $t {
            unsafe fn dispatch<T: Task<Element = Self>>(task: &T) {
                // SAFETY: the level says that the machine has the instructions.
                unsafe {
                    match level() {
                        #[cfg(target_arch = "x86_64")]
                        2 => x86::$wide::enter(task),
                        #[cfg(target_arch = "x86_64")]
                        1 => x86::$middle::enter(task),
                        _ => Portable::<$t>::enter(task),
                    }
                }
            }
            fn lanes() -> usize {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    2 => x86::$wide::LANES,
                    #[cfg(target_arch = "x86_64")]
                    1 => x86::$middle::LANES,
                    _ => PORTABLE_LANES,
                }
            }
            fn rows() -> usize {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    2 => x86::$wide::ROWS,
                    #[cfg(target_arch = "x86_64")]
                    1 => x86::$middle::ROWS,
                    _ => Portable::<$t>::ROWS,
                }
            }
        }
    };
}
dispatch_float!(f32, Avx512F32, Avx2F32);
dispatch_float!(f64, Avx512F64, Avx2F64);

impl Dispatch for i64 {
    unsafe fn dispatch<T: Task<Element = Self>>(task: &T) {
        // SAFETY: the caller's; no special instructions.
        unsafe { Portable::<i64>::enter(task) }
    }
    fn lanes() -> usize {
        PORTABLE_LANES
    }
    fn rows() -> usize {
        Portable::<i64>::ROWS
    }
}

/// A pointer that pieces of parallel work share; each uses its own part.
pub(crate) struct Shared<T>(pub *mut T);
// SAFETY: the users write disjoint parts, or only read.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}
impl<T> Shared<T> {
    /// The pointer. (A method, so that closures capture the wrapper and not its field.)
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}

/// How many bytes of working memory a thread keeps for its next call.
const KEPT_BYTES: usize = 16 << 20;

struct Blocks(Vec<(NonNull<u8>, usize)>);

impl Drop for Blocks {
    fn drop(&mut self) {
        for (block, bytes) in self.0.drain(..) {
            // SAFETY: allocated by `Scratch::new` with this layout.
            unsafe { std::alloc::dealloc(block.as_ptr(), Scratch::<u8>::layout(bytes)) };
        }
    }
}

thread_local! {
    static BLOCKS: RefCell<Blocks> = const { RefCell::new(Blocks(Vec::new())) };
}

/// Working memory of this thread, uninitialised at first and reused from call to call: fresh pages cost more to fault
/// in than a tile costs to compute.
pub(crate) struct Scratch<E> {
    block: NonNull<u8>,
    bytes: usize,
    element: std::marker::PhantomData<E>,
}

impl<E: Copy> Scratch<E> {
    fn layout(bytes: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(bytes, 64).expect("working memory larger than the address space")
    }

    /// Memory for `len` elements.
    pub(crate) fn new(len: usize) -> Scratch<E> {
        let bytes = (len * size_of::<E>()).next_multiple_of(4096).max(4096);
        let kept = BLOCKS.try_with(|blocks| {
            let blocks = &mut blocks.borrow_mut().0;
            let best = (0..blocks.len()).filter(|&i| blocks[i].1 >= bytes).min_by_key(|&i| blocks[i].1)?;
            Some(blocks.swap_remove(best))
        });
        let (block, bytes) = kept.ok().flatten().unwrap_or_else(|| {
            let layout = Self::layout(bytes);
            // SAFETY: the size is not zero.
            let block = unsafe { std::alloc::alloc(layout) };
            (NonNull::new(block).unwrap_or_else(|| std::alloc::handle_alloc_error(layout)), bytes)
        });
        Scratch { block, bytes, element: std::marker::PhantomData }
    }

    /// Its start, aligned to 64 bytes.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut E {
        self.block.as_ptr().cast()
    }
}

impl<E> Drop for Scratch<E> {
    fn drop(&mut self) {
        let (block, bytes) = (self.block, self.bytes);
        let kept = BLOCKS.try_with(|blocks| {
            let blocks = &mut blocks.borrow_mut().0;
            let fits = blocks.iter().map(|b| b.1).sum::<usize>() + bytes <= KEPT_BYTES;
            if fits {
                blocks.push((block, bytes));
            }
            fits
        });
        if !kept.unwrap_or(false) {
            // SAFETY: allocated by `new` with this layout; nobody else has it.
            unsafe { std::alloc::dealloc(block.as_ptr(), Scratch::<u8>::layout(bytes)) };
        }
    }
}
