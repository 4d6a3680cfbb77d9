//! Elements that vectors of `f32` are read from and rounded to: `f32` itself, and the halves.

use crate::math::Avx512;
use crate::norm::rows::together;
use crate::processor::rounds_to_bf16;
use flambeau_base::{Element, bf16, f16};
use std::arch::asm;
use std::arch::x86_64::*;

/// Elements of a vector of AVX-512.
pub(crate) const WIDTH: usize = 16;

/// Such elements. (What takes a mask reads or writes those of the mask alone: others need not be there.)
pub(crate) trait Narrow: Element {
    /// Elements of a cache line, which are one vector or two.
    const OF_LINE: usize = 64 / size_of::<Self>();
    /// Whether to read them is more than to load them.
    const IS_HALF: bool = size_of::<Self>() == 2;
    /// Sixteen of them.
    ///
    /// # Safety
    /// They are valid, and the machine has AVX-512 (F).
    unsafe fn sixteen(x: *const Self) -> __m512;
    /// Some of sixteen, and zeros.
    ///
    /// # Safety
    /// Those are valid, and the machine has AVX-512 (F, BW, VL).
    unsafe fn some(x: *const Self, mask: __mmask16) -> __m512;
    /// Eight of them.
    ///
    /// # Safety
    /// They are valid, and the machine has AVX2 and F16C.
    unsafe fn eight(x: *const Self) -> __m256;
    /// The least there is for [`Narrow::larger`]: as negative infinity.
    ///
    /// # Safety
    /// The machine has AVX-512 (F).
    unsafe fn least() -> __m512i;
    /// The larger ones of a line's elements and of those that were found so far, as what compares fastest. NaN is passed over or
    /// found; negative zero may be less than zero.
    ///
    /// # Safety
    /// They are valid, and the machine has AVX-512 (F, BW).
    unsafe fn larger(found: __m512i, x: *const Self) -> __m512i;
    /// The same of some.
    ///
    /// # Safety
    /// Those are valid, and the machine has AVX-512 (F, BW).
    unsafe fn larger_of_some(found: __m512i, mask: __mmask32, x: *const Self) -> __m512i;
    /// The largest of all that were found.
    ///
    /// # Safety
    /// The machine has AVX-512 (F, BW, DQ, VL).
    unsafe fn largest(found: [__m512i; 4]) -> f32;
    /// A line of numbers rounded to nearest, of one vector or two.
    ///
    /// # Safety
    /// The machine has AVX-512 (F, BW, DQ).
    unsafe fn line(x: [__m512; 2]) -> __m512i;
    /// A line, of which some elements are another's.
    ///
    /// # Safety
    /// The machine has AVX-512 (F, BW).
    unsafe fn mixed(line: __m512i, mask: __mmask32, other: __m512i) -> __m512i;
    /// Stores some elements of a line.
    ///
    /// # Safety
    /// Those are valid for writes, and the machine has AVX-512 (F, BW).
    unsafe fn put_some(to: *mut Self, mask: __mmask32, line: __m512i);
}

impl Narrow for f32 {
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn sixteen(x: *const f32) -> __m512 {
        // SAFETY: the caller's elements.
        unsafe { _mm512_loadu_ps(x) }
    }
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn some(x: *const f32, mask: __mmask16) -> __m512 {
        // SAFETY: the caller's elements.
        unsafe { _mm512_maskz_loadu_ps(mask, x) }
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn eight(x: *const f32) -> __m256 {
        // SAFETY: the caller's elements.
        unsafe { _mm256_loadu_ps(x) }
    }
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn least() -> __m512i {
        _mm512_set1_epi32(f32::NEG_INFINITY.to_bits() as i32)
    }
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn larger(found: __m512i, x: *const f32) -> __m512i {
        // (Of NaN and a number, the second operand.)
        // SAFETY: the caller's elements.
        _mm512_castps_si512(_mm512_max_ps(unsafe { _mm512_loadu_ps(x) }, _mm512_castsi512_ps(found)))
    }
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn larger_of_some(found: __m512i, mask: __mmask32, x: *const f32) -> __m512i {
        let (mask, found) = (mask as __mmask16, _mm512_castsi512_ps(found));
        // SAFETY: the caller's elements.
        _mm512_castps_si512(_mm512_mask_max_ps(found, mask, unsafe { _mm512_maskz_loadu_ps(mask, x) }, found))
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn largest(found: [__m512i; 4]) -> f32 {
        // SAFETY: vectors are arrays of their elements; the machine has AVX-512.
        unsafe { together::<Avx512, f32, 64, true>(std::mem::transmute::<[__m512i; 4], [f32; 64]>(found)) }
    }
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn line([x, _]: [__m512; 2]) -> __m512i {
        _mm512_castps_si512(x)
    }
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn mixed(line: __m512i, mask: __mmask32, other: __m512i) -> __m512i {
        _mm512_mask_mov_epi32(line, mask as __mmask16, other)
    }
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn put_some(to: *mut f32, mask: __mmask32, line: __m512i) {
        // SAFETY: the caller's elements.
        unsafe { _mm512_mask_storeu_epi32(to.cast(), mask as __mmask16, line) }
    }
}

macro_rules! halves {
    ($($T:ty: $sixteen:ident, $eight:ident, $line:ident;)*) => { $(
        impl Narrow for $T {
            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn sixteen(x: *const $T) -> __m512 {
                // SAFETY: the caller's elements.
                $sixteen(unsafe { _mm256_loadu_si256(x.cast()) })
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            unsafe fn some(x: *const $T, mask: __mmask16) -> __m512 {
                // SAFETY: the caller's elements.
                $sixteen(unsafe { _mm256_maskz_loadu_epi16(mask, x.cast()) })
            }
            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn eight(x: *const $T) -> __m256 {
                // SAFETY: the caller's elements.
                $eight(unsafe { _mm_loadu_si128(x.cast()) })
            }
            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn least() -> __m512i {
                _mm512_set1_epi16(order(<$T>::NEG_INFINITY.to_bits()) as i16)
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            unsafe fn larger(found: __m512i, x: *const $T) -> __m512i {
                // SAFETY: the caller's elements.
                _mm512_max_epi16(ordered(unsafe { _mm512_loadu_si512(x.cast()) }), found)
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            unsafe fn larger_of_some(found: __m512i, mask: __mmask32, x: *const $T) -> __m512i {
                // SAFETY: the caller's elements.
                let x = unsafe { _mm512_maskz_loadu_epi16(mask, x.cast()) };
                _mm512_mask_max_epi16(found, mask, ordered(x), found)
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn largest(found: [__m512i; 4]) -> f32 {
                <$T>::from_bits(order(largest_order(found))).to_f32()
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
            unsafe fn line([first, second]: [__m512; 2]) -> __m512i {
                $line(first, second)
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            unsafe fn mixed(line: __m512i, mask: __mmask32, other: __m512i) -> __m512i {
                _mm512_mask_mov_epi16(line, mask, other)
            }
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            unsafe fn put_some(to: *mut $T, mask: __mmask32, line: __m512i) {
                // SAFETY: the caller's elements.
                unsafe { _mm512_mask_storeu_epi16(to.cast(), mask, line) }
            }
        }
    )* };
}
halves! {
    f16: sixteen_of_f16, eight_of_f16, line_of_f16;
    bf16: sixteen_of_bf16, eight_of_bf16, line_of_bf16;
}

/// Bits of a half that compare as an integer with a sign as the half does (NaN with a sign below all, others above), and back.
#[inline(always)]
fn order(bits: u16) -> u16 {
    bits ^ ((bits as i16 >> 15) as u16 & 0x7fff)
}

/// [`order`] of 32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn ordered(bits: __m512i) -> __m512i {
    _mm512_xor_si512(bits, _mm512_and_si512(_mm512_srai_epi16::<15>(bits), _mm512_set1_epi16(0x7fff)))
}

/// The largest of all.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn largest_order([a, b, c, d]: [__m512i; 4]) -> u16 {
    let x = _mm512_max_epi16(_mm512_max_epi16(a, b), _mm512_max_epi16(c, d));
    let x = _mm256_max_epi16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
    let x = _mm_max_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
    // There is an instruction for the least of eight without a sign: of the same from behind.
    let least = _mm_minpos_epu16(_mm_xor_si128(x, _mm_set1_epi16(0x7fff)));
    _mm_extract_epi16::<0>(least) as u16 ^ 0x7fff
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sixteen_of_f16(bits: __m256i) -> __m512 {
    _mm512_cvtph_ps(bits)
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn eight_of_f16(bits: __m128i) -> __m256 {
    _mm256_cvtph_ps(bits)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn line_of_f16(first: __m512, second: __m512) -> __m512i {
    let (low, high) =
        (_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(first), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(second));
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sixteen_of_bf16(bits: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn eight_of_bf16(bits: __m128i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
}

/// The upper halves of 32 numbers.
static UPPER: [u16; 32] = {
    let mut places = [0; 32];
    let mut i = 0;
    while i < 32 {
        places[i] = 2 * i as u16 + 1;
        i += 1;
    }
    places
};

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn line_of_bf16(first: __m512, second: __m512) -> __m512i {
    // (The processor rounds what is smaller than any normal number to zero.)
    const SUBNORMAL: i32 = 0x20;
    if rounds_to_bf16() && _mm512_fpclass_ps_mask::<SUBNORMAL>(first) | _mm512_fpclass_ps_mask::<SUBNORMAL>(second) == 0
    {
        return line_by_processor(first, second);
    }
    let (mut low, mut high) = (rounded_to_bf16(first), rounded_to_bf16(second));
    if _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(first, second) != 0 {
        (low, high) = (quieted(low, first), quieted(high, second));
    }
    // SAFETY: 32 places.
    let places = unsafe { _mm512_loadu_si512(UPPER.as_ptr().cast()) };
    _mm512_permutex2var_epi16(low, places, high)
}

/// [`line_of_bf16`] of numbers that are normal, zero, infinite or none, by an instruction that not all have who have AVX-512: it is
/// part of loops that are compiled for all of them.
#[inline]
#[target_feature(enable = "avx512f")]
fn line_by_processor(first: __m512, second: __m512) -> __m512i {
    let line;
    // SAFETY: registers alone are read and written; the processor has the instruction.
    unsafe {
        asm!("vcvtne2ps2bf16 {}, {}, {}", lateout(zmm_reg) line, in(zmm_reg) second, in(zmm_reg) first,
            options(pure, nomem, nostack, preserves_flags));
    }
    line
}

/// Numbers whose upper halves are those rounded to nearest: just less than half a unit is added, and one more if that decides a
/// tie. (Of NaN it may make anything.)
#[inline]
#[target_feature(enable = "avx512f")]
fn rounded_to_bf16(x: __m512) -> __m512i {
    let bits = _mm512_castps_si512(x);
    let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1 << 16));
    let sum = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    _mm512_mask_add_epi32(sum, odd, sum, _mm512_set1_epi32(1))
}

/// What is `rounded`, with NaN where `x` is one.
#[inline]
#[target_feature(enable = "avx512f")]
fn quieted(rounded: __m512i, x: __m512) -> __m512i {
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    _mm512_mask_or_epi32(rounded, nan, _mm512_castps_si512(x), _mm512_set1_epi32(0x40_0000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::{Level, level};

    /// All halves there are and back, and what lies between two, a tie or next to it.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn all<T: Narrow>(from_bits: impl Fn(u16) -> T, same: impl Fn(T, T) -> bool) {
        let halves: Vec<T> = (0..=u16::MAX).map(from_bits).collect();
        let line = |x: &[f32]| {
            let mut out = [T::default(); 32];
            // SAFETY: 32 elements.
            unsafe {
                let line = T::line([_mm512_loadu_ps(x.as_ptr()), _mm512_loadu_ps(x[16..].as_ptr())]);
                T::put_some(out.as_mut_ptr(), !0, line);
            }
            out
        };
        for chunk in halves.as_chunks::<32>().0 {
            let mut wide = [0f32; 32];
            for half in [0, 16] {
                // SAFETY: sixteen elements each.
                unsafe { _mm512_storeu_ps(wide[half..].as_mut_ptr(), T::sixteen(chunk[half..].as_ptr())) };
            }
            let (mut some, mut eight) = ([7f32; 16], [7f32; 8]);
            // SAFETY: sixteen elements, or those of the mask, or eight.
            unsafe {
                _mm512_storeu_ps(some.as_mut_ptr(), T::some(chunk.as_ptr(), 0x00ff));
                _mm256_storeu_ps(eight.as_mut_ptr(), T::eight(chunk.as_ptr()));
            }
            for i in 0..32 {
                let x = chunk[i].to_f32();
                assert!(wide[i].to_bits() == x.to_bits() || wide[i].is_nan() && x.is_nan(), "{x}: {}", wide[i]);
                assert!(i >= 16 || some[i] == if i < 8 { x } else { 0.0 } || x.is_nan());
                assert!(i >= 8 || eight[i] == x || x.is_nan());
            }
            for (i, (got, want)) in line(&wide).into_iter().zip(chunk).enumerate() {
                assert!(same(got, *want), "{i}: {got:?} for {want:?}");
            }
            for ulps in [0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001] {
                let between = wide.map(|x| if x.is_nan() { x } else { f32::from_bits(x.to_bits() + ulps) });
                for (i, got) in line(&between).into_iter().enumerate() {
                    assert!(same(got, T::from_f32(between[i])), "{}: {got:?}", between[i]);
                }
            }
        }
    }

    #[test]
    fn halves_round_as_elements_do() {
        if level() != Level::Avx512 {
            return;
        }
        // SAFETY: the machine has AVX-512.
        unsafe {
            all(f16::from_bits, |a, b| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
            all(bf16::from_bits, |a, b| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
        }
    }
}
