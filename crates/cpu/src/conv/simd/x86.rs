//! Vectors of AVX2 and AVX-512.

use super::super::pairs::Pair;
use super::*;
use crate::gemm::{MASKS, PairsX16, StoreAs, Vector};
use flambeau_base::bf16;
use std::arch::x86_64::*;

macro_rules! tiles {
    ($features:literal, $t:ty, [$($rows:literal),*] $(, $narrow:literal)?) => {{
        #[target_feature(enable = $features)]
        unsafe fn tile<const R: usize, const V: usize>(call: &kernel::Call<<$t as Simd>::Element>) {
            // SAFETY: the caller's.
            unsafe { kernel::tile::<$t, R, V>(call) }
        }
        &[$([tile::<$rows, 1>, tile::<$rows, 2>, tile::<$rows, 3>],)* $([tile::<$narrow, 1>, kernel::no_tile, kernel::no_tile])?]
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
        tiles!("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,bmi1,bmi2", Avx512F32, [1, 2, 3, 4, 8]);
    enter!("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,bmi1,bmi2");
    #[inline(always)]
    unsafe fn pick(v: __m512, lanes: *const u32) -> __m512 {
        // SAFETY: the caller's, of 16 lanes.
        unsafe { _mm512_permutexvar_ps(_mm512_loadu_si512(lanes.cast()), v) }
    }
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
        tiles!("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,bmi1,bmi2", Avx512F64, [1, 2, 3, 4, 8]);
    enter!("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,bmi1,bmi2");
    #[inline(always)]
    unsafe fn pick(v: __m512d, lanes: *const u32) -> __m512d {
        // SAFETY: the caller's, of 8 lanes.
        unsafe { _mm512_permutexvar_pd(_mm512_cvtepu32_epi64(_mm256_loadu_si256(lanes.cast())), v) }
    }
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

/// [`Simd::add_products`] of three vectors. Four rows of them take twelve registers, three more hold the vectors, and one is
/// left: compilers load the next row's number too early, and move sums about and to memory and back for it.
macro_rules! products_of_three {
    ($name:ident, $element:ty, $vector:ty, $broadcast:literal, $fma:literal) => {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $name(left: *const $element, at: usize, right: [$vector; 3], sums: &mut [$vector; 3]) {
            let ([b0, b1, b2], [s0, s1, s2]) = (right, sums);
            // SAFETY: the caller's: the number at `left + at` is readable.
            unsafe {
                std::arch::asm!(
                    $broadcast,
                    concat!($fma, " {s0}, {x}, {b0}"),
                    concat!($fma, " {s1}, {x}, {b1}"),
                    concat!($fma, " {s2}, {x}, {b2}"),
                    x = out(ymm_reg) _,
                    left = in(reg) left,
                    at = in(reg) at,
                    b0 = in(ymm_reg) b0,
                    b1 = in(ymm_reg) b1,
                    b2 = in(ymm_reg) b2,
                    s0 = inout(ymm_reg) *s0,
                    s1 = inout(ymm_reg) *s1,
                    s2 = inout(ymm_reg) *s2,
                    options(pure, readonly, nostack, preserves_flags)
                );
            }
        }
    };
}
products_of_three!(products_f32, f32, __m256, "vbroadcastss {x}, dword ptr [{left} + 4*{at}]", "vfmadd231ps");
products_of_three!(products_f64, f64, __m256d, "vbroadcastsd {x}, qword ptr [{left} + 8*{at}]", "vfmadd231pd");

/// The method that uses one.
macro_rules! add_products {
    ($products:ident) => {
        #[inline(always)]
        unsafe fn add_products<const V: usize>(
            (left, at): (*const Self::Element, usize),
            right: &[Self::Vector; V],
            sums: &mut [Self::Vector; V],
        ) {
            // SAFETY: the caller's.
            unsafe {
                if let (Ok(&right), Ok(sums)) =
                    (<&[_; 3]>::try_from(&right[..]), <&mut [_; 3]>::try_from(&mut sums[..]))
                {
                    return $products(left, at, right, sums);
                }
                add_one_by_one::<Self, V>((left, at), right, sums)
            }
        }
    };
}

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
    const TILES: &'static [[Tile<f32>; 3]] = tiles!("avx2,fma,bmi1,bmi2", Avx2F32, [1, 2, 3, 4], 8);
    add_products!(products_f32);
    enter!("avx2,fma,bmi1,bmi2");
    #[inline(always)]
    unsafe fn pick(v: __m256, lanes: *const u32) -> __m256 {
        // SAFETY: the caller's, of 8 lanes.
        unsafe { _mm256_permutevar8x32_ps(v, _mm256_loadu_si256(lanes.cast())) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> __m256 {
        // SAFETY: the caller's; `n <= 8` keeps the mask inside the table.
        unsafe { _mm256_maskload_ps(p, _mm256_loadu_si256(MASKS.as_ptr().add(8 - n).cast())) }
    }
    /// By parts: some processors take long to store by a mask (Zen 3: 12 cycles, whatever the mask).
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: __m256, n: usize) {
        // SAFETY: the caller's `n` lanes.
        unsafe {
            if n == 8 {
                return _mm256_storeu_ps(p, v);
            }
            let (mut p, mut left) = (p, _mm256_castps256_ps128(v));
            if n & 4 != 0 {
                _mm_storeu_ps(p, left);
                (p, left) = (p.add(4), _mm256_extractf128_ps::<1>(v));
            }
            if n & 2 != 0 {
                _mm_storel_pd(p.cast(), _mm_castps_pd(left));
                (p, left) = (p.add(2), _mm_movehl_ps(left, left));
            }
            if n & 1 != 0 {
                _mm_store_ss(p, left);
            }
        }
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
    #[inline(always)]
    unsafe fn transpose(s: *const f32, ss: usize, rows: usize, columns: usize, t: *mut f32, ts: usize) {
        // SAFETY: the caller's. (Stores by a mask take longer than a few numbers one by one.)
        unsafe {
            match (rows, columns) {
                (8, 8) => transpose_8::<8>(s, ss, 8, t, ts),
                (8, _) => transpose_8::<8>(s, ss, columns, t, ts),
                (4, _) => transpose_8::<4>(s, ss, columns, t, ts),
                _ => transpose_one_by_one::<Self>(s, ss, rows, columns, t, ts),
            }
        }
    }
}

/// Transposes 4x4 blocks inside 128-bit lanes: lane `l` of the `k`-th vector is column `4 l + k` of the rows.
#[inline(always)]
unsafe fn turn_lanes([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
    // SAFETY: the caller's.
    unsafe {
        let (ab, ab2) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (cd, cd2) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0x44>(ab, cd),
            _mm256_shuffle_ps::<0xee>(ab, cd),
            _mm256_shuffle_ps::<0x44>(ab2, cd2),
            _mm256_shuffle_ps::<0xee>(ab2, cd2),
        ]
    }
}

/// [`Simd::transpose`] of four or eight rows of at most eight columns.
#[inline(always)]
unsafe fn transpose_8<const ROWS: usize>(s: *const f32, ss: usize, columns: usize, t: *mut f32, ts: usize) {
    // SAFETY: the caller's; columns past the end are neither read nor written.
    unsafe {
        let mut r = [_mm256_setzero_ps(); 8];
        for (i, r) in r[..ROWS].iter_mut().enumerate() {
            let row = s.add(i * ss);
            *r = if columns == 8 { _mm256_loadu_ps(row) } else { Avx2F32::load_first(row, columns) };
        }
        let upper = turn_lanes([r[0], r[1], r[2], r[3]]);
        if ROWS == 4 {
            for k in 0..columns {
                let lane = match k < 4 {
                    true => _mm256_castps256_ps128(upper[k]),
                    false => _mm256_extractf128_ps::<1>(upper[k - 4]),
                };
                _mm_storeu_ps(t.add(k * ts), lane);
            }
            return;
        }
        let lower = turn_lanes([r[4], r[5], r[6], r[7]]);
        for k in 0..columns {
            let column = match k < 4 {
                true => _mm256_permute2f128_ps::<0x20>(upper[k], lower[k]),
                false => _mm256_permute2f128_ps::<0x31>(upper[k - 4], lower[k - 4]),
            };
            _mm256_storeu_ps(t.add(k * ts), column);
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
    const TILES: &'static [[Tile<f64>; 3]] = tiles!("avx2,fma,bmi1,bmi2", Avx2F64, [1, 2, 3, 4], 8);
    add_products!(products_f64);
    enter!("avx2,fma,bmi1,bmi2");
    #[inline(always)]
    unsafe fn load_first(p: *const f64, n: usize) -> __m256d {
        // SAFETY: the caller's; `n <= 4` keeps the mask inside the table.
        unsafe { _mm256_maskload_pd(p, _mm256_loadu_si256(MASKS.as_ptr().add(8 - 2 * n).cast())) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f64, v: __m256d, n: usize) {
        // SAFETY: the caller's `n` lanes.
        unsafe {
            if n == 4 {
                return _mm256_storeu_pd(p, v);
            }
            let (mut p, mut left) = (p, _mm256_castpd256_pd128(v));
            if n & 2 != 0 {
                _mm_storeu_pd(p, left);
                (p, left) = (p.add(2), _mm256_extractf128_pd::<1>(v));
            }
            if n & 1 != 0 {
                _mm_store_sd(p, left);
            }
        }
    }
    #[inline(always)]
    unsafe fn transpose(s: *const f64, ss: usize, rows: usize, columns: usize, t: *mut f64, ts: usize) {
        // SAFETY: the caller's; columns past the end are neither read nor written.
        unsafe {
            if rows != 4 {
                return transpose_one_by_one::<Self>(s, ss, rows, columns, t, ts);
            }
            let mut r = [_mm256_setzero_pd(); 4];
            for (i, r) in r.iter_mut().enumerate() {
                let row = s.add(i * ss);
                *r = if columns == 4 { _mm256_loadu_pd(row) } else { Self::load_first(row, columns) };
            }
            let [a, b, c, d] = r;
            let (ab, ab2) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            let (cd, cd2) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
            let turned = [
                _mm256_permute2f128_pd::<0x20>(ab, cd),
                _mm256_permute2f128_pd::<0x20>(ab2, cd2),
                _mm256_permute2f128_pd::<0x31>(ab, cd),
                _mm256_permute2f128_pd::<0x31>(ab2, cd2),
            ];
            for (k, column) in turned.into_iter().take(columns).enumerate() {
                _mm256_storeu_pd(t.add(k * ts), column);
            }
        }
    }
}

/// 512-bit vectors of [`Pair`]: 16 sums of `f32`, or 16 factors of two `bf16`.
#[derive(Clone, Copy)]
pub(crate) struct Avx512Pairs;
// SAFETY: the accesses are those of `Avx512F32`, whose elements have the same size.
unsafe impl Simd for Avx512Pairs {
    type Element = Pair;
    type Vector = __m512;
    const LANES: usize = 16;
    const ROWS: usize = 8;
    const ROUNDS: bool = true;
    const TILES: &'static [[Tile<Pair>; 3]] =
        tiles!("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,bmi1,bmi2", Avx512Pairs, [1, 2, 3, 4, 8]);
    enter!("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,bmi1,bmi2");
    #[inline(always)]
    unsafe fn splat(x: Pair) -> __m512 {
        // SAFETY: the caller's.
        unsafe { _mm512_castsi512_ps(_mm512_set1_epi32(x.0 as i32)) }
    }
    #[inline(always)]
    unsafe fn load(p: *const Pair) -> __m512 {
        // SAFETY: the caller's.
        unsafe { Avx512F32::load(p.cast()) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut Pair, v: __m512) {
        // SAFETY: the caller's.
        unsafe { Avx512F32::store(p.cast(), v) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const Pair, n: usize) -> __m512 {
        // SAFETY: the caller's.
        unsafe { Avx512F32::load_first(p.cast(), n) }
    }
    #[inline(always)]
    unsafe fn load_between(p: *const Pair, begin: usize, end: usize) -> __m512 {
        // SAFETY: the caller's.
        unsafe { Avx512F32::load_between(p.cast(), begin, end) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut Pair, v: __m512, n: usize) {
        // SAFETY: the caller's.
        unsafe { Avx512F32::store_first(p.cast(), v, n) }
    }
    #[inline(always)]
    unsafe fn multiply_add(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the caller's; the transmutes keep the bits of a register.
        unsafe {
            let pairs = |x: __m512| std::mem::transmute::<__m512, __m512bh>(x);
            _mm512_dpbf16_ps(c, pairs(a), pairs(b))
        }
    }
    #[inline(always)]
    unsafe fn plus(a: __m512, b: __m512) -> __m512 {
        // SAFETY: the caller's.
        unsafe { Avx512F32::plus(a, b) }
    }
    #[inline(always)]
    unsafe fn minus(a: __m512, b: __m512) -> __m512 {
        // SAFETY: the caller's.
        unsafe { Avx512F32::minus(a, b) }
    }
    #[inline(always)]
    unsafe fn unzip(a: __m512, b: __m512) -> (__m512, __m512) {
        // SAFETY: the caller's.
        unsafe { Avx512F32::unzip(a, b) }
    }
    #[inline(always)]
    unsafe fn zip(a: __m512, b: __m512) -> (__m512, __m512) {
        // SAFETY: the caller's.
        unsafe { Avx512F32::zip(a, b) }
    }
    #[inline(always)]
    unsafe fn transpose(s: *const Pair, ss: usize, rows: usize, columns: usize, t: *mut Pair, ts: usize) {
        // SAFETY: the caller's.
        unsafe { Avx512F32::transpose(s.cast(), ss, rows, columns, t.cast(), ts) }
    }
    #[inline(always)]
    unsafe fn round(source: *const Pair, target: *mut u8, n: usize) {
        let (source, target) = (source.cast::<f32>(), target.cast::<bf16>());
        let whole = n / 16 * 16;
        // SAFETY: the caller's runs have `n` elements; the last ones go through a buffer.
        unsafe {
            for i in (0..whole).step_by(16) {
                PairsX16::load(source.add(i)).store_as(target.add(i));
            }
            if whole < n {
                let mut last = [bf16::default(); 16];
                PairsX16::load_partial(source.add(whole), n - whole).store_as(last.as_mut_ptr());
                std::ptr::copy_nonoverlapping(last.as_ptr(), target.add(whole), n - whole);
            }
        }
    }
}
