//! Strips over `float16` that convert in registers. Those without one convert blocks into `f32` and back.

use super::halves::{self, Chunk};
use super::{MAX_PARAMS, Map, StripArgs, StripFn};
use crate::buffer::aligned;
use crate::math::{Isa, Kernel, Level, entry};
use flambeau_base::{DType, Element, f16};
use std::marker::PhantomData;

/// Elements of a chunk: two vectors of `f32` with AVX-512, four with AVX2.
const CHUNK: usize = 32;

/// The strip of `M` over `float16`, if it has one: for functions that take less time than conversions through memory
/// do, with AVX2 or AVX-512 (of those with two forms, such as have a strip over [`pairs`](super::pairs)). Its inputs are
/// contiguous `float16` or one `f32`, at a stride of zero (not all of them); its output is contiguous `float16`. It is called
/// by [`halves::run`].
pub(super) fn strip<M: Map<T, N>, T: Element, const N: usize>(level: Level) -> Option<StripFn> {
    let exists = const {
        cfg!(target_arch = "x86_64")
            && matches!(T::DTYPE, DType::F32)
            && matches!(M::Out::DTYPE, DType::F32)
            && (!M::CHOICE || M::HALVES)
            && !M::COSTLY
            && M::HIGHEST as u8 == Level::Avx512 as u8
    };
    if exists && level != Level::Baseline { Some(entry::<HalfStrip<M, T, N>>(level)) } else { None }
}

struct HalfStrip<M, T, const N: usize>(PhantomData<(M, T)>);

impl<M: Map<T, N>, T: Element, const N: usize> HalfStrip<M, T, N> {
    /// Element `i` of a chunk, of which an operand that is a number is zero.
    #[inline(always)]
    fn element(x: &[[f32; CHUNK]; N], numbers: &[u32; N], i: usize) -> [T; N] {
        let mut of = [T::default(); N];
        for k in 0..N {
            // (An only operand is no number.)
            let number = if N == 1 { 0 } else { numbers[k] };
            of[k] = T::from_f32(f32::from_bits(x[k][i].to_bits() | number));
        }
        of
    }
}

impl<M: Map<T, N>, T: Element, const N: usize> Chunk<T, N, CHUNK> for HalfStrip<M, T, N> {
    type Results = [u16; CHUNK];
    const SIZE: usize = 2;
    const PARAMS: bool = M::PARAMS;

    #[inline(always)]
    unsafe fn chunk<I: Isa>(from: [*const u16; N], numbers: [u32; N], p: &[T; MAX_PARAMS]) -> [u16; CHUNK] {
        let mut x = [[0f32; CHUNK]; N];
        for k in 0..N {
            // SAFETY: the caller's.
            x[k] = unsafe { widened::<I>(from[k]) };
        }
        // (In memory where the loops below are long.)
        let mut results = aligned([0f32; CHUNK]);
        let mut vectors = None;
        if const { M::VECTORS && matches!(I::LEVEL, Level::Avx512) } {
            let mut elements = [[T::default(); CHUNK]; N];
            for (k, operand) in elements.iter_mut().enumerate() {
                for (i, element) in operand.iter_mut().enumerate() {
                    *element = Self::element(&x, &numbers, i)[k];
                }
            }
            vectors = M::map_vectors::<I, CHUNK>(elements, p);
        }
        let mut rare = u32::from(!M::CHOICE);
        if M::CHOICE {
            for i in 0..CHUNK {
                rare |= u32::from(!M::chosen(Self::element(&x, &numbers, i), p));
            }
        }
        if let Some(vectors) = vectors {
            for i in 0..CHUNK {
                results[i] = vectors[i].to_f32();
            }
        } else if M::CHOICE && rare == 0 {
            for (i, result) in results.iter_mut().enumerate() {
                *result = M::map_chosen::<I>(Self::element(&x, &numbers, i), p).to_f32();
            }
        } else {
            for (i, result) in results.iter_mut().enumerate() {
                *result = M::map::<I>(Self::element(&x, &numbers, i), p).to_f32();
            }
        }
        // SAFETY: the caller's.
        unsafe { rounded::<I>(*results) }
    }

    #[inline(always)]
    unsafe fn store<I: Isa>(to: *mut u8, results: [u16; CHUNK], streams: bool) {
        // SAFETY: the caller's.
        unsafe { halves::store::<I, _, CHUNK>(to, results, streams) }
    }
}

impl<M: Map<T, N>, T: Element, const N: usize> Kernel for HalfStrip<M, T, N> {
    type Args = StripArgs;
    type Output = ();
    /// (With AVX-512, whose conversions are slower, Zen 4 takes 1.1 to 1.25 of the time.)
    const HIGHEST: Level = if M::LIGHT { Level::Avx2 } else { Level::Avx512 };

    #[inline(always)]
    unsafe fn run<I: Isa>(a: StripArgs) {
        if I::LEVEL != Level::Baseline {
            // SAFETY: the caller's.
            unsafe { halves::rows::<I, Self, T, N, CHUNK>(a) }
        }
    }
}

/// The numbers of a chunk.
///
/// # Safety
/// The chunk is readable, and the machine has `I`.
#[inline(always)]
unsafe fn widened<I: Isa>(x: *const u16) -> [f32; CHUNK] {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's.
    unsafe {
        match I::LEVEL {
            Level::Avx512 => return x86::widened_avx512(x),
            Level::Avx2 => return x86::widened_avx2(x),
            Level::Baseline => {}
        }
    }
    // SAFETY: the caller's.
    unsafe { x.cast::<[f16; CHUNK]>().read_unaligned() }.map(f16::to_f32)
}

/// Numbers rounded to nearest.
///
/// # Safety
/// The machine has `I`.
#[inline(always)]
unsafe fn rounded<I: Isa>(x: [f32; CHUNK]) -> [u16; CHUNK] {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's.
    unsafe {
        match I::LEVEL {
            Level::Avx512 => return x86::rounded_avx512(x),
            Level::Avx2 => return x86::rounded_avx2(x),
            Level::Baseline => {}
        }
    }
    x.map(|x| f16::from_f32(x).to_bits())
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::CHUNK;
    use std::arch::x86_64::*;
    use std::mem::transmute;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn widened_avx512(x: *const u16) -> [f32; CHUNK] {
        // SAFETY: 16 elements each, and vectors are arrays of their lanes.
        unsafe {
            let half = |at: usize| _mm512_cvtph_ps(_mm256_loadu_si256(x.add(at).cast()));
            transmute::<[__m512; 2], [f32; CHUNK]>([half(0), half(16)])
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn widened_avx2(x: *const u16) -> [f32; CHUNK] {
        // SAFETY: 8 elements each, and vectors are arrays of their lanes.
        unsafe {
            let quarter = |at: usize| _mm256_cvtph_ps(_mm_loadu_si128(x.add(at).cast()));
            transmute::<[__m256; 4], [f32; CHUNK]>([quarter(0), quarter(8), quarter(16), quarter(24)])
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn rounded_avx512(x: [f32; CHUNK]) -> [u16; CHUNK] {
        // SAFETY: vectors are arrays of their lanes.
        unsafe {
            let [a, b] = transmute::<[f32; CHUNK], [__m512; 2]>(x);
            let half = |x: __m512| _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
            transmute::<[__m256i; 2], [u16; CHUNK]>([half(a), half(b)])
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn rounded_avx2(x: [f32; CHUNK]) -> [u16; CHUNK] {
        // SAFETY: vectors are arrays of their lanes.
        unsafe {
            let [a, b, c, d] = transmute::<[f32; CHUNK], [__m256; 4]>(x);
            let quarter = |x: __m256| _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
            transmute::<[__m128i; 4], [u16; CHUNK]>([quarter(a), quarter(b), quarter(c), quarter(d)])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, run};
    use super::*;
    use flambeau_base::Scalar;

    struct Quotient;
    impl Map<f32, 2> for Quotient {
        type Out = f32;
        fn map<I: Isa>([x, y]: [f32; 2], p: &[f32; MAX_PARAMS]) -> f32 {
            x / y + p[0]
        }
    }

    struct Half;
    impl Map<f32, 1> for Half {
        type Out = f32;
        fn map<I: Isa>([x]: [f32; 1], _: &[f32; MAX_PARAMS]) -> f32 {
            x * 0.5
        }
    }

    /// Operands of every length about a chunk, apart or a number or in place of the output, against a plain loop.
    #[test]
    fn registers_round_as_elements_do() {
        let params = [Scalar::Float(0.1); MAX_PARAMS];
        let value = |i: usize| match i % 61 {
            7 => f16::NAN,
            8 => f16::INFINITY,
            9 => f16::NEG_ZERO,
            10 => f16::MIN_POSITIVE_SUBNORMAL,
            11 => f16::MAX,
            i => f16::from_f32((i as f32 - 29.0) * 0.37),
        };
        let same =
            |got: f16, want: f32| f16::from_f32(want).to_bits() == got.to_bits() || got.is_nan() && want.is_nan();
        for level in Level::available() {
            for n in [1, 2, 31, 32, 63, 64, 65, 127, 128, 131, 1000] {
                let x: Vec<f16> = (0..n).map(value).collect();
                let y: Vec<f16> = (0..n).map(|i| value(i * 7 + 3)).collect();
                for number in [false, true] {
                    let (mut got, mut halved) = (x.clone(), vec![f16::NAN; n]);
                    let [two, none] = [[2isize], [0]];
                    let operand =
                        |data: *const f16, strides| Operand { data: data as *mut u8, strides, dtype: DType::F16 };
                    let second = operand(y.as_ptr(), if number { &none } else { &two });
                    let (first, out) = (operand(got.as_mut_ptr(), &two), operand(halved.as_mut_ptr(), &two));
                    // SAFETY: every operand has `n` elements or is one number; the output is an input or apart.
                    unsafe {
                        let (half, quotient) = (
                            super::super::strip::<Half, f32, 1>(level),
                            super::super::strip::<Quotient, f32, 2>(level),
                        );
                        run(half, DType::F32, params, &[n as i64], &[out, first]);
                        run(quotient, DType::F32, params, &[n as i64], &[first, first, second]);
                    }
                    for i in 0..n {
                        let (x, y) = (x[i].to_f32(), y[if number { 0 } else { i }].to_f32());
                        assert!(same(got[i], x / y + 0.1), "{x} / {y}, {level:?}, {i} of {n}: {}", got[i]);
                        assert!(same(halved[i], x * 0.5), "{x} / 2, {level:?}, {i} of {n}: {}", halved[i]);
                    }
                }
            }
        }
    }
}
