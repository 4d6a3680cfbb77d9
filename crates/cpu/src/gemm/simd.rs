//! The vectors that the kernels are written with: one trait, implemented for AVX-512, AVX2 and plain arrays.
//!
//! Every method is `inline(always)`, so that a kernel instantiated inside a function with the right
//! `#[target_feature]` compiles to single instructions.

use flambeau_base::Element;
use flambeau_base::dtype::{bf16, f16};

/// A type that kernels multiply and accumulate in.
pub trait Lane: Element {
    /// `self * b + c` for one lane; integers wrap.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `self * b`; integers wrap.
    fn times(self, b: Self) -> Self;
    /// `self + b`; integers wrap.
    fn plus(self, b: Self) -> Self;
    /// The additive identity.
    const ZERO: Self;
    /// The multiplicative identity.
    const ONE: Self;
}

macro_rules! float_lane {
    ($($t:ty)*) => { $(
        impl Lane for $t {
            // Not `f32::mul_add`, which is a library call where the baseline has no such instruction.
            #[inline(always)] fn mul_add(self, b: $t, c: $t) -> $t { self * b + c }
            #[inline(always)] fn times(self, b: $t) -> $t { self * b }
            #[inline(always)] fn plus(self, b: $t) -> $t { self + b }
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
        }
    )* };
}
float_lane! { f32 f64 }

macro_rules! integer_lane {
    ($($t:ty)*) => { $(
        impl Lane for $t {
            #[inline(always)] fn mul_add(self, b: $t, c: $t) -> $t { self.wrapping_mul(b).wrapping_add(c) }
            #[inline(always)] fn times(self, b: $t) -> $t { self.wrapping_mul(b) }
            #[inline(always)] fn plus(self, b: $t) -> $t { self.wrapping_add(b) }
            const ZERO: $t = 0;
            const ONE: $t = 1;
        }
    )* };
}
integer_lane! { i16 i32 i64 }

/// A SIMD vector.
///
/// # Safety
/// The methods of a vector may be called only where the instruction set it is named for is present; the pointers of
/// `load` and `store` must be valid for `LANES` lanes, those of the partial forms for `len <= LANES` lanes. No alignment
/// is needed.
pub unsafe trait Vector: Copy {
    /// The type of one lane.
    type Lane: Lane;
    /// How many lanes there are.
    const LANES: usize;
    /// All lanes equal to `x`.
    unsafe fn splat(x: Self::Lane) -> Self;
    /// Loads `LANES` lanes.
    unsafe fn load(p: *const Self::Lane) -> Self;
    /// Loads `len` lanes; the others are zero.
    unsafe fn load_partial(p: *const Self::Lane, len: usize) -> Self;
    /// Stores every lane.
    unsafe fn store(self, p: *mut Self::Lane);
    /// Stores the first `len` lanes.
    unsafe fn store_partial(self, p: *mut Self::Lane, len: usize);
    /// `self * b + c`.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// `self * b`.
    unsafe fn mul(self, b: Self) -> Self;
    /// `self + b`.
    unsafe fn add(self, b: Self) -> Self;
    /// `self * b + c` for sums, where those are not what [`Vector::mul_add`] multiplies.
    #[inline(always)]
    unsafe fn mul_add_sums(self, b: Self, c: Self) -> Self {
        // SAFETY: forwarded contract.
        unsafe { self.mul_add(b, c) }
    }
    /// The sum of the lanes, by halves.
    #[inline(always)]
    unsafe fn sum(self) -> Self::Lane {
        let mut lanes = [Self::Lane::ZERO; 64];
        // SAFETY: the buffer has room for the widest vector.
        unsafe { self.store(lanes.as_mut_ptr()) };
        let mut n = Self::LANES;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                lanes[i] = lanes[i].plus(lanes[i + n]);
            }
        }
        lanes[0]
    }
}

/// Loading elements of another type, converted to the vector's lanes.
///
/// # Safety
/// As for [`Vector`].
pub unsafe trait LoadFrom<S>: Vector {
    /// Loads and converts `LANES` elements.
    unsafe fn load_from(p: *const S) -> Self;
}

// SAFETY: the load is the vector's own.
unsafe impl<V: Vector> LoadFrom<V::Lane> for V {
    #[inline(always)]
    unsafe fn load_from(p: *const V::Lane) -> V {
        // SAFETY: forwarded contract.
        unsafe { V::load(p) }
    }
}

/// Storing lanes as elements of another type.
///
/// # Safety
/// As for [`Vector`].
pub unsafe trait StoreAs<S>: Vector {
    /// Rounds to nearest and stores `LANES` elements.
    unsafe fn store_as(self, p: *mut S);
}

/// A vector in plain Rust, for machines without a wider instruction set.
#[derive(Clone, Copy)]
pub struct Array<L, const N: usize>([L; N]);

// SAFETY: plain Rust; pointers are used within the contract.
unsafe impl<L: Lane, const N: usize> Vector for Array<L, N> {
    type Lane = L;
    const LANES: usize = N;
    #[inline(always)]
    unsafe fn splat(x: L) -> Self {
        Array([x; N])
    }
    #[inline(always)]
    unsafe fn load(p: *const L) -> Self {
        // SAFETY: the caller's pointer is valid for `N` lanes.
        unsafe { Array(p.cast::<[L; N]>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn load_partial(p: *const L, len: usize) -> Self {
        let mut lanes = [L::ZERO; N];
        // SAFETY: the caller's pointer is valid for `len <= N` lanes.
        unsafe { std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), len) };
        Array(lanes)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut L) {
        // SAFETY: the caller's pointer is valid for `N` lanes.
        unsafe { p.cast::<[L; N]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut L, len: usize) {
        // SAFETY: the caller's pointer is valid for `len <= N` lanes.
        unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), p, len) };
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        let mut out = c;
        for i in 0..N {
            out.0[i] = self.0[i].mul_add(b.0[i], c.0[i]);
        }
        out
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        let mut out = self;
        for i in 0..N {
            out.0[i] = self.0[i].times(b.0[i]);
        }
        out
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        let mut out = self;
        for i in 0..N {
            out.0[i] = self.0[i].plus(b.0[i]);
        }
        out
    }
}

macro_rules! array_load_half {
    ($($t:ty)*) => { $(
        // SAFETY: plain Rust; reads `N` elements.
        unsafe impl<const N: usize> LoadFrom<$t> for Array<f32, N> {
            #[inline(always)]
            unsafe fn load_from(p: *const $t) -> Self {
                // SAFETY: the caller's pointer is valid for `N` elements.
                let halves = unsafe { p.cast::<[$t; N]>().read_unaligned() };
                let mut lanes = [0.0; N];
                for i in 0..N {
                    lanes[i] = Element::to_f32(halves[i]);
                }
                Array(lanes)
            }
        }
    )* };
}
array_load_half! { f16 bf16 }

macro_rules! array_store_half {
    ($($t:ty)*) => { $(
        // SAFETY: plain Rust; writes `N` elements.
        unsafe impl<const N: usize> StoreAs<$t> for Array<f32, N> {
            #[inline(always)]
            unsafe fn store_as(self, p: *mut $t) {
                // SAFETY: the caller's pointer is valid for `N` elements.
                unsafe { p.cast::<[$t; N]>().write_unaligned(self.0.map(<$t>::from_f32)) }
            }
        }
    )* };
}
array_store_half! { f16 bf16 }

#[cfg(target_arch = "x86_64")]
pub use x86::*;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LoadFrom, StoreAs, Vector, bf16, f16};
    use std::arch::x86_64::*;

    macro_rules! avx512 {
        ($($name:ident $t:ty, $lanes:literal, $reg:ty, $mask:ty, $splat:ident $load:ident $maskz_load:ident $store:ident
            $mask_store:ident $add:ident $mul:ident, |$a:ident, $b:ident, $c:ident| $fma:expr;)*) => { $(
            /// A 512-bit vector.
            #[derive(Clone, Copy)]
            pub struct $name($reg);
            // SAFETY: each method is the instruction of its name; AVX-512 F, BW, DQ and VL are the caller's promise.
            unsafe impl Vector for $name {
                type Lane = $t;
                const LANES: usize = $lanes;
                #[inline(always)]
                unsafe fn splat(x: $t) -> Self {
                    // SAFETY: see the impl.
                    unsafe { Self($splat(x)) }
                }
                #[inline(always)]
                unsafe fn load(p: *const $t) -> Self {
                    // SAFETY: see the impl; the pointer is valid for the whole vector.
                    unsafe { Self($load(p.cast())) }
                }
                #[inline(always)]
                unsafe fn load_partial(p: *const $t, len: usize) -> Self {
                    // SAFETY: see the impl; masked-off lanes are not accessed.
                    unsafe { Self($maskz_load(((1u64 << len) - 1) as $mask, p.cast())) }
                }
                #[inline(always)]
                unsafe fn store(self, p: *mut $t) {
                    // SAFETY: see the impl; the pointer is valid for the whole vector.
                    unsafe { $store(p.cast(), self.0) }
                }
                #[inline(always)]
                unsafe fn store_partial(self, p: *mut $t, len: usize) {
                    // SAFETY: see the impl; masked-off lanes are not accessed.
                    unsafe { $mask_store(p.cast(), ((1u64 << len) - 1) as $mask, self.0) }
                }
                #[inline(always)]
                unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                    let ($a, $b, $c) = (self.0, b.0, c.0);
                    // SAFETY: see the impl.
                    unsafe { Self($fma) }
                }
                #[inline(always)]
                unsafe fn mul(self, b: Self) -> Self {
                    // SAFETY: see the impl.
                    unsafe { Self($mul(self.0, b.0)) }
                }
                #[inline(always)]
                unsafe fn add(self, b: Self) -> Self {
                    // SAFETY: see the impl.
                    unsafe { Self($add(self.0, b.0)) }
                }
            }
        )* };
    }
    avx512! {
        F32x16 f32, 16, __m512, __mmask16, _mm512_set1_ps _mm512_loadu_ps _mm512_maskz_loadu_ps _mm512_storeu_ps
            _mm512_mask_storeu_ps _mm512_add_ps _mm512_mul_ps, |a, b, c| _mm512_fmadd_ps(a, b, c);
        F64x8 f64, 8, __m512d, __mmask8, _mm512_set1_pd _mm512_loadu_pd _mm512_maskz_loadu_pd _mm512_storeu_pd
            _mm512_mask_storeu_pd _mm512_add_pd _mm512_mul_pd, |a, b, c| _mm512_fmadd_pd(a, b, c);
        I16x32 i16, 32, __m512i, __mmask32, _mm512_set1_epi16 _mm512_loadu_si512 _mm512_maskz_loadu_epi16
            _mm512_storeu_si512 _mm512_mask_storeu_epi16 _mm512_add_epi16 _mm512_mullo_epi16,
            |a, b, c| _mm512_add_epi16(_mm512_mullo_epi16(a, b), c);
        I32x16 i32, 16, __m512i, __mmask16, _mm512_set1_epi32 _mm512_loadu_si512 _mm512_maskz_loadu_epi32
            _mm512_storeu_si512 _mm512_mask_storeu_epi32 _mm512_add_epi32 _mm512_mullo_epi32,
            |a, b, c| _mm512_add_epi32(_mm512_mullo_epi32(a, b), c);
        I64x8 i64, 8, __m512i, __mmask8, _mm512_set1_epi64 _mm512_loadu_si512 _mm512_maskz_loadu_epi64
            _mm512_storeu_si512 _mm512_mask_storeu_epi64 _mm512_add_epi64 _mm512_mullo_epi64,
            |a, b, c| _mm512_add_epi64(_mm512_mullo_epi64(a, b), c);
    }

    macro_rules! avx2 {
        ($($name:ident $t:ty, $lanes:literal, $reg:ty, $splat:ident $load:ident $partial:ident $store:ident $add:ident,
            |$x:ident, $y:ident| $mul:expr, |$a:ident, $b:ident, $c:ident| $fma:expr;)*) => { $(
            /// A 256-bit vector.
            #[derive(Clone, Copy)]
            pub struct $name($reg);
            // SAFETY: each method is the instruction of its name; AVX2 and FMA are the caller's promise.
            unsafe impl Vector for $name {
                type Lane = $t;
                const LANES: usize = $lanes;
                #[inline(always)]
                unsafe fn splat(x: $t) -> Self {
                    // SAFETY: see the impl.
                    unsafe { Self($splat(x)) }
                }
                #[inline(always)]
                unsafe fn load(p: *const $t) -> Self {
                    // SAFETY: see the impl; the pointer is valid for the whole vector.
                    unsafe { Self($load(p.cast())) }
                }
                #[inline(always)]
                unsafe fn load_partial(p: *const $t, len: usize) -> Self {
                    // SAFETY: the pointer is valid for `len` lanes, and what is masked off is not read.
                    unsafe { Self($partial(p, len)) }
                }
                #[inline(always)]
                unsafe fn store(self, p: *mut $t) {
                    // SAFETY: see the impl; the pointer is valid for the whole vector.
                    unsafe { $store(p.cast(), self.0) }
                }
                #[inline(always)]
                unsafe fn store_partial(self, p: *mut $t, len: usize) {
                    let mut lanes = [<$t>::default(); $lanes];
                    // SAFETY: the buffer holds a whole vector and the pointer is valid for `len` lanes.
                    unsafe {
                        self.store(lanes.as_mut_ptr());
                        std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, len);
                    }
                }
                #[inline(always)]
                unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                    let ($a, $b, $c) = (self.0, b.0, c.0);
                    // SAFETY: see the impl.
                    unsafe { Self($fma) }
                }
                #[inline(always)]
                unsafe fn mul(self, b: Self) -> Self {
                    let ($x, $y) = (self.0, b.0);
                    // SAFETY: see the impl.
                    unsafe { Self($mul) }
                }
                #[inline(always)]
                unsafe fn add(self, b: Self) -> Self {
                    // SAFETY: see the impl.
                    unsafe { Self($add(self.0, b.0)) }
                }
            }
        )* };
    }
    avx2! {
        F32x8 f32, 8, __m256, _mm256_set1_ps _mm256_loadu_ps first_f32 _mm256_storeu_ps _mm256_add_ps,
            |a, b| _mm256_mul_ps(a, b), |a, b, c| _mm256_fmadd_ps(a, b, c);
        F64x4 f64, 4, __m256d, _mm256_set1_pd _mm256_loadu_pd first_f64 _mm256_storeu_pd _mm256_add_pd,
            |a, b| _mm256_mul_pd(a, b), |a, b, c| _mm256_fmadd_pd(a, b, c);
        I16x16 i16, 16, __m256i, _mm256_set1_epi16 _mm256_loadu_si256 first_i16 _mm256_storeu_si256 _mm256_add_epi16,
            |a, b| _mm256_mullo_epi16(a, b), |a, b, c| _mm256_add_epi16(_mm256_mullo_epi16(a, b), c);
        I32x8 i32, 8, __m256i, _mm256_set1_epi32 _mm256_loadu_si256 first_i32 _mm256_storeu_si256 _mm256_add_epi32,
            |a, b| _mm256_mullo_epi32(a, b), |a, b, c| _mm256_add_epi32(_mm256_mullo_epi32(a, b), c);
        I64x4 i64, 4, __m256i, _mm256_set1_epi64x _mm256_loadu_si256 first_i64 _mm256_storeu_si256 _mm256_add_epi64,
            |a, b| mul_i64(a, b), |a, b, c| _mm256_add_epi64(mul_i64(a, b), c);
    }

    /// All-ones in the first `8 - i` places when read from place `i`, for AVX2's masks.
    pub static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    macro_rules! first_lanes {
        ($($name:ident $t:ty, $reg:ty, $words:literal, $load:ident;)*) => { $(
            /// The first `len` lanes, of so many 32-bit words each; the others are zero.
            #[inline(always)]
            unsafe fn $name(p: *const $t, len: usize) -> $reg {
                // SAFETY: the caller's; the mask lies within the table, as `len` is at most the lanes of a vector.
                unsafe { $load(p, _mm256_loadu_si256(MASKS.as_ptr().add(8 - $words * len).cast())) }
            }
        )* };
    }
    first_lanes! {
        first_f32 f32, __m256, 1, _mm256_maskload_ps;
        first_f64 f64, __m256d, 2, _mm256_maskload_pd;
        first_i32 i32, __m256i, 1, _mm256_maskload_epi32;
        first_i64 i64, __m256i, 2, _mm256_maskload_epi64;
    }

    /// The first `len` lanes of 16 bits, for which there are no masks; the others are zero.
    #[inline(always)]
    unsafe fn first_i16(p: *const i16, len: usize) -> __m256i {
        let mut lanes = [0; 16];
        // SAFETY: the caller's `len` lanes, and at most a vector of them.
        unsafe {
            if len == 16 {
                return _mm256_loadu_si256(p.cast());
            }
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), len);
            _mm256_loadu_si256(lanes.as_ptr().cast())
        }
    }

    /// The low 64 bits of 64-bit products, which AVX2 lacks: the cross products of the halves, then the low ones.
    #[inline(always)]
    unsafe fn mul_i64(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: called from AVX2 code only.
        unsafe {
            let cross = _mm256_mullo_epi32(a, _mm256_shuffle_epi32::<0b10_11_00_01>(b));
            let cross = _mm256_add_epi32(cross, _mm256_srli_epi64::<32>(cross));
            _mm256_add_epi64(_mm256_slli_epi64::<32>(cross), _mm256_mul_epu32(a, b))
        }
    }

    /// Vectors of sums whose factors are groups of narrower numbers, in the bits of a lane.
    macro_rules! groups {
        ($($(#[doc = $doc:expr])* $name:ident($inner:ident), |$a:ident, $b:ident, $c:ident| $dot:expr;)*) => { $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy)]
            pub struct $name($inner);
            // SAFETY: AVX-512 F and the instruction of the product are the caller's promise; the rest is the inner vector's.
            unsafe impl Vector for $name {
                type Lane = <$inner as Vector>::Lane;
                const LANES: usize = $inner::LANES;
                #[inline(always)]
                unsafe fn splat(x: Self::Lane) -> Self {
                    // SAFETY: forwarded contract.
                    unsafe { Self($inner::splat(x)) }
                }
                #[inline(always)]
                unsafe fn load(p: *const Self::Lane) -> Self {
                    // SAFETY: forwarded contract.
                    unsafe { Self($inner::load(p)) }
                }
                #[inline(always)]
                unsafe fn load_partial(p: *const Self::Lane, len: usize) -> Self {
                    // SAFETY: forwarded contract.
                    unsafe { Self($inner::load_partial(p, len)) }
                }
                #[inline(always)]
                unsafe fn store(self, p: *mut Self::Lane) {
                    // SAFETY: forwarded contract.
                    unsafe { self.0.store(p) }
                }
                #[inline(always)]
                unsafe fn store_partial(self, p: *mut Self::Lane, len: usize) {
                    // SAFETY: forwarded contract.
                    unsafe { self.0.store_partial(p, len) }
                }
                #[inline(always)]
                unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                    let ($a, $b, $c) = (self.0.0, b.0.0, c.0.0);
                    // SAFETY: see the impl; transmutes keep the bits of a register.
                    unsafe { Self($inner($dot)) }
                }
                #[inline(always)]
                unsafe fn mul(self, b: Self) -> Self {
                    // SAFETY: forwarded contract.
                    unsafe { Self(self.0.mul(b.0)) }
                }
                #[inline(always)]
                unsafe fn add(self, b: Self) -> Self {
                    // SAFETY: forwarded contract.
                    unsafe { Self(self.0.add(b.0)) }
                }
                #[inline(always)]
                unsafe fn mul_add_sums(self, b: Self, c: Self) -> Self {
                    // SAFETY: forwarded contract.
                    unsafe { Self(self.0.mul_add(b.0, c.0)) }
                }
            }
        )* };
    }
    groups! {
        /// Sixteen `f32` sums, whose factors are pairs of `bf16` in the bits of an `f32`.
        PairsX16(F32x16), |a, b, c| {
            _mm512_dpbf16_ps(c, std::mem::transmute::<__m512, __m512bh>(a), std::mem::transmute::<__m512, __m512bh>(b))
        };
        /// Sixteen `i32` sums, whose factors are four bytes each: the first factor's without sign, the second's with one.
        QuadsX16(I32x16), |a, b, c| _mm512_dpbusd_epi32(c, a, b);
    }

    // SAFETY: AVX-512 F is the caller's promise.
    unsafe impl LoadFrom<bf16> for PairsX16 {
        #[inline(always)]
        unsafe fn load_from(p: *const bf16) -> Self {
            // SAFETY: forwarded contract.
            unsafe { Self(F32x16::load_from(p)) }
        }
    }
    impl PairsX16 {
        /// The lanes that are smaller than any normal number and not zero: the processor rounds them to zero.
        ///
        /// # Safety
        /// As for [`Vector`], with AVX-512 DQ.
        #[inline(always)]
        pub unsafe fn subnormal(self) -> u16 {
            const SUBNORMAL: i32 = 0x20;
            // SAFETY: the caller's promise.
            unsafe { _mm512_fpclass_ps_mask::<SUBNORMAL>(self.0.0) }
        }

        /// Rounds to nearest and stores sixteen elements, of which none is [`subnormal`](PairsX16::subnormal).
        ///
        /// # Safety
        /// As for [`StoreAs::store_as`].
        #[inline(always)]
        pub unsafe fn store_rounded(self, p: *mut bf16) {
            // SAFETY: writes sixteen elements, within the caller's contract; the transmute keeps the bits of a register.
            unsafe {
                let rounded = std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(self.0.0));
                _mm256_storeu_si256(p.cast(), rounded);
            }
        }

        /// [`PairsX16::store_rounded`] of one and then another.
        ///
        /// # Safety
        /// As there, for 32 elements.
        #[inline(always)]
        pub unsafe fn store_both_rounded(first: Self, second: Self, p: *mut bf16) {
            // SAFETY: writes 32 elements, within the caller's contract; the transmute keeps the bits of a register.
            unsafe {
                let rounded = _mm512_cvtne2ps_pbh(second.0.0, first.0.0);
                _mm512_storeu_si512(p.cast(), std::mem::transmute::<__m512bh, __m512i>(rounded));
            }
        }
    }
    // SAFETY: AVX-512 F, DQ and BF16 are the caller's promise.
    unsafe impl StoreAs<bf16> for PairsX16 {
        #[inline(always)]
        unsafe fn store_as(self, p: *mut bf16) {
            // SAFETY: writes sixteen elements, within the caller's contract.
            unsafe {
                match self.subnormal() {
                    0 => self.store_rounded(p),
                    _ => self.0.store_as(p),
                }
            }
        }
    }

    // SAFETY: AVX-512 F is the caller's promise.
    unsafe impl LoadFrom<bf16> for F32x16 {
        #[inline(always)]
        unsafe fn load_from(p: *const bf16) -> Self {
            // SAFETY: reads sixteen elements, within the caller's contract.
            unsafe {
                let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
                Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)))
            }
        }
    }
    // SAFETY: AVX-512 F is the caller's promise.
    unsafe impl LoadFrom<f16> for F32x16 {
        #[inline(always)]
        unsafe fn load_from(p: *const f16) -> Self {
            // SAFETY: reads sixteen elements, within the caller's contract.
            unsafe { Self(_mm512_cvtph_ps(_mm256_loadu_si256(p.cast()))) }
        }
    }
    // SAFETY: AVX2 is the caller's promise.
    unsafe impl LoadFrom<bf16> for F32x8 {
        #[inline(always)]
        unsafe fn load_from(p: *const bf16) -> Self {
            // SAFETY: reads eight elements, within the caller's contract.
            unsafe {
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
                Self(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits)))
            }
        }
    }
    // SAFETY: F16C is the caller's promise (`Level::Avx2` includes it).
    unsafe impl LoadFrom<f16> for F32x8 {
        #[inline(always)]
        unsafe fn load_from(p: *const f16) -> Self {
            // SAFETY: reads eight elements, within the caller's contract.
            unsafe { Self(_mm256_cvtph_ps(_mm_loadu_si128(p.cast()))) }
        }
    }

    // To nearest, ties to even: add just less than half, and the bit that decides ties. NaN is made quiet instead.
    // SAFETY: AVX-512 F is the caller's promise.
    unsafe impl StoreAs<bf16> for F32x16 {
        #[inline(always)]
        unsafe fn store_as(self, p: *mut bf16) {
            // SAFETY: writes sixteen elements, within the caller's contract.
            unsafe {
                let bits = _mm512_castps_si512(self.0);
                let high = _mm512_srli_epi32::<16>(bits);
                let odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
                let sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
                let quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
                let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0);
                let rounded = _mm512_mask_blend_epi32(nan, _mm512_srli_epi32::<16>(sum), quiet);
                _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(rounded));
            }
        }
    }
    // SAFETY: AVX-512 F is the caller's promise.
    unsafe impl StoreAs<f16> for F32x16 {
        #[inline(always)]
        unsafe fn store_as(self, p: *mut f16) {
            // SAFETY: writes sixteen elements, within the caller's contract.
            unsafe { _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
        }
    }
    // SAFETY: AVX2 is the caller's promise.
    unsafe impl StoreAs<bf16> for F32x8 {
        #[inline(always)]
        unsafe fn store_as(self, p: *mut bf16) {
            // SAFETY: writes eight elements, within the caller's contract.
            unsafe {
                let bits = _mm256_castps_si256(self.0);
                let high = _mm256_srli_epi32::<16>(bits);
                let odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
                let sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
                let quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
                let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0));
                let rounded = _mm256_blendv_epi8(_mm256_srli_epi32::<16>(sum), quiet, nan);
                // Packing works within halves of the register: the first quarter of each is wanted.
                let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(rounded, rounded));
                _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(packed));
            }
        }
    }
    // SAFETY: F16C is the caller's promise (`Level::Avx2` includes it).
    unsafe impl StoreAs<f16> for F32x8 {
        #[inline(always)]
        unsafe fn store_as(self, p: *mut f16) {
            // SAFETY: writes eight elements, within the caller's contract.
            unsafe { _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
        }
    }
}
