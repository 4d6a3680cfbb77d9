//! Strips over `bfloat16` that round in registers.
//!
//! Two neighbours are read as one word. Its upper half is the second one's `f32` with nothing below, and shifted, it is the
//! first one's: both are computed with, rounded, and put together again, in lanes of 32 bits all the way. Strips without
//! such a loop convert blocks into `f32` and back.

use super::halves::{self, Chunk};
use super::{CHUNK, MAX_PARAMS, Map, StripArgs, StripFn};
use crate::buffer::aligned;
use crate::math::{Isa, Kernel, Level, entry};
use flambeau_base::halves::bf16_in_upper_half;
use flambeau_base::{DType, Element};
use std::marker::PhantomData;

/// Words of a chunk.
const WORDS: usize = CHUNK / 2;

/// The strip of `M` over pairs, if it has one: its inputs are contiguous `bfloat16` or one `f32`, at a stride of zero (not
/// all of them); its output is contiguous, of `bfloat16` for `f32`. It is called by [`halves::run`].
pub(super) fn strip<M: Map<T, N>, T: Element, const N: usize>(level: Level) -> Option<StripFn> {
    if PairStrip::<M, T, N>::EXISTS && level.has_fast_paths() { Some(entry::<PairStrip<M, T, N>>(level)) } else { None }
}

struct PairStrip<M, T, const N: usize>(PhantomData<(M, T)>);

impl<M: Map<T, N>, T: Element, const N: usize> PairStrip<M, T, N> {
    /// Whether it gives numbers, and not booleans.
    const ROUNDS: bool = matches!(M::Out::DTYPE, DType::F32);
    /// Strips with two forms compute for much longer than conversions take, but for those with one for halves.
    const EXISTS: bool = cfg!(target_endian = "little")
        && matches!(T::DTYPE, DType::F32)
        && (Self::ROUNDS || matches!(M::Out::DTYPE, DType::Bool))
        && (!M::CHOICE || M::HALVES)
        && M::HIGHEST as u8 == Level::Avx512 as u8;

    /// The elements of word `i`.
    ///
    /// # Safety
    /// It is readable.
    #[inline(always)]
    unsafe fn load(words: [*const u16; N], numbers: [u32; N], i: usize) -> [[T; N]; 2] {
        let mut both = [[T::default(); N]; 2];
        for k in 0..N {
            // SAFETY: the caller's.
            let pair = unsafe { words[k].cast::<u32>().add(i).read_unaligned() };
            // (An only operand is no number.)
            let number = if N == 1 { 0 } else { numbers[k] };
            both[0][k] = T::from_f32(f32::from_bits((pair << 16) | number));
            both[1][k] = T::from_f32(f32::from_bits((pair & UPPER) | number));
        }
        both
    }

    /// Two results in one word.
    #[inline(always)]
    fn pair(first: M::Out, second: M::Out) -> u32 {
        if Self::ROUNDS {
            (bf16_in_upper_half(first.to_f32()) >> 16) | (bf16_in_upper_half(second.to_f32()) & UPPER)
        } else {
            u32::from(first.to_bool()) | u32::from(second.to_bool()) << 8
        }
    }
}

/// The half of a word that is a `bfloat16`.
const UPPER: u32 = 0xffff_0000;

impl<M: Map<T, N>, T: Element, const N: usize> Chunk<T, N, CHUNK> for PairStrip<M, T, N> {
    /// A pair in each word.
    type Results = [u32; WORDS];
    const SIZE: usize = if Self::ROUNDS { 2 } else { 1 };
    const PARAMS: bool = M::PARAMS;

    #[inline(always)]
    unsafe fn chunk<I: Isa>(words: [*const u16; N], numbers: [u32; N], p: &[T; MAX_PARAMS]) -> [u32; WORDS] {
        // (In memory where the loops below are long.)
        let mut results = aligned([0; WORDS]);
        // SAFETY: the caller's.
        unsafe {
            let mut rare = u32::from(!M::CHOICE);
            if M::CHOICE {
                for i in 0..WORDS {
                    let [first, second] = Self::load(words, numbers, i);
                    rare |= u32::from(!M::chosen(first, p)) | u32::from(!M::chosen(second, p));
                }
            }
            if M::CHOICE && rare == 0 {
                for (i, result) in results.iter_mut().enumerate() {
                    let [first, second] = Self::load(words, numbers, i);
                    *result = Self::pair(M::map_halves::<I>(first, p), M::map_halves::<I>(second, p));
                }
            } else {
                for (i, result) in results.iter_mut().enumerate() {
                    let [first, second] = Self::load(words, numbers, i);
                    *result = Self::pair(M::map::<I>(first, p), M::map::<I>(second, p));
                }
            }
        }
        *results
    }

    #[inline(always)]
    unsafe fn store<I: Isa>(to: *mut u8, results: [u32; WORDS], streams: bool) {
        // SAFETY: the caller's.
        unsafe {
            if Self::ROUNDS {
                halves::store::<I, _, WORDS>(to, results, streams);
            } else {
                halves::store::<I, _, WORDS>(to, results.map(|pair| pair as u16), streams);
            }
        }
    }
}

impl<M: Map<T, N>, T: Element, const N: usize> Kernel for PairStrip<M, T, N> {
    type Args = StripArgs;
    type Output = ();
    const FAST_PATH: bool = true;
    /// (Booleans take Zen 4 1.2 of the time with AVX-512.)
    const HIGHEST: Level = if Self::ROUNDS { Level::Avx512 } else { Level::Avx2 };

    #[inline(always)]
    unsafe fn run<I: Isa>(a: StripArgs) {
        // SAFETY: the caller's.
        unsafe { halves::rows::<I, Self, T, N, CHUNK>(a) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, run, strip};
    use super::*;
    use flambeau_base::{Bool, Scalar, bf16};

    struct Quotient;
    impl Map<f32, 2> for Quotient {
        type Out = f32;
        fn map<I: Isa>([x, y]: [f32; 2], p: &[f32; MAX_PARAMS]) -> f32 {
            x / y + p[0]
        }
    }

    struct Less;
    impl Map<f32, 2> for Less {
        type Out = Bool;
        fn map<I: Isa>([x, y]: [f32; 2], _: &[f32; MAX_PARAMS]) -> Bool {
            (x < y).into()
        }
    }

    /// Operands of every length about a chunk, apart or a number or in place of the output, against a plain loop.
    #[test]
    fn pairs_round_as_elements_do() {
        let params = [Scalar::Float(0.1); MAX_PARAMS];
        let value = |i: usize| match i % 61 {
            7 => bf16::NAN,
            8 => bf16::INFINITY,
            9 => bf16::NEG_ZERO,
            10 => bf16::MIN_POSITIVE,
            i => bf16::from_f32((i as f32 - 29.0) * 0.37),
        };
        let same = |got: bf16, want: f32| bf16::from_f32(want) == got || got.is_nan() && want.is_nan();
        for level in Level::available() {
            for n in [1, 2, 63, 64, 65, 127, 128, 131, 1000] {
                let x: Vec<bf16> = (0..n).map(value).collect();
                let y: Vec<bf16> = (0..n).map(|i| value(i * 7 + 3)).collect();
                for number in [false, true] {
                    let y_at = |i: usize| if number { y[0] } else { y[i] };
                    let (mut got, mut less) = (x.clone(), vec![Bool(9); n]);
                    let [one, two, none] = [[1isize], [2], [0]];
                    let second = Operand {
                        data: y.as_ptr() as *mut u8,
                        strides: if number { &none } else { &two },
                        dtype: DType::BF16,
                    };
                    let first = Operand { data: got.as_mut_ptr().cast(), strides: &two, dtype: DType::BF16 };
                    let out = Operand { data: less.as_mut_ptr().cast(), strides: &one, dtype: DType::Bool };
                    // SAFETY: every operand has `n` elements or is one number; the output is an input or apart.
                    unsafe {
                        run(strip::<Less, f32, 2>(level), DType::F32, params, &[n as i64], &[out, first, second]);
                        run(strip::<Quotient, f32, 2>(level), DType::F32, params, &[n as i64], &[first, first, second]);
                    }
                    for i in 0..n {
                        let (x, y) = (x[i].to_f32(), y_at(i).to_f32());
                        assert!(same(got[i], x / y + 0.1), "{x} / {y}, {level:?}, {i} of {n}");
                        assert_eq!(less[i].get(), x < y, "{x} < {y}, {level:?}, {i} of {n}");
                    }
                }
            }
        }
    }
}
