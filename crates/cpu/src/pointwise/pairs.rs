//! Strips over `bfloat16` that round in registers.
//!
//! Two neighbours are read as one word. Its upper half is the second one's `f32` with nothing below, and shifted, it is the
//! first one's: both are computed with, rounded, and put together again, in lanes of 32 bits all the way. Strips without
//! such a loop convert blocks into `f32` and back.

use super::{CHUNK, MAX_OPERANDS, MAX_PARAMS, Map, StripArgs, StripFn, converted_params, stream};
use crate::buffer::aligned;
use crate::copy::CastStrip;
use crate::math::{Isa, Kernel, Level, entry};
use flambeau_base::halves::bf16_in_upper_half;
use flambeau_base::{DType, Element};
use std::marker::PhantomData;

/// Words of a chunk.
const WORDS: usize = CHUNK / 2;

/// The strip of `M` over pairs, if it has one: its inputs are contiguous `bfloat16` or one `f32`, at a stride of zero (not
/// all of them); its output is contiguous, of `bfloat16` for `f32`. It takes whole chunks: call it by [`run`].
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
        && (!M::CHOICE || M::HALVES);

    /// The results of a chunk, a pair in each word.
    ///
    /// # Safety
    /// The words are readable.
    #[inline(always)]
    unsafe fn chunk<I: Isa>(words: [*const u32; N], numbers: [u32; N], p: &[T; MAX_PARAMS]) -> [u32; WORDS] {
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

    /// The elements of word `i`.
    ///
    /// # Safety
    /// It is readable.
    #[inline(always)]
    unsafe fn load(words: [*const u32; N], numbers: [u32; N], i: usize) -> [[T; N]; 2] {
        let mut both = [[T::default(); N]; 2];
        for k in 0..N {
            // SAFETY: the caller's.
            let pair = unsafe { words[k].add(i).read_unaligned() };
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

/// Whether operands of a strip with these strides are as [`strip`] takes them: those a half apart that are to be converted
/// are halves of one dtype, the others `f32`, but for the output.
pub(super) fn fit(strides: &[isize], converts: &[Option<CastStrip>], out: DType) -> bool {
    let half = size_of::<u16>() as isize;
    strides[0] == out.size() as isize
        && strides[1..].contains(&half)
        && strides.iter().zip(converts).skip(1).all(|(&s, convert)| s == 0 || s == half && convert.is_some())
}

/// The half of a word that is a `bfloat16`.
const UPPER: u32 = 0xffff_0000;

impl<M: Map<T, N>, T: Element, const N: usize> Kernel for PairStrip<M, T, N> {
    type Args = StripArgs;
    type Output = ();
    const FAST_PATH: bool = true;

    #[inline(always)]
    unsafe fn run<I: Isa>(a: StripArgs) {
        let p = if const { M::PARAMS } { converted_params::<T>(&a.params) } else { [T::default(); MAX_PARAMS] };
        let streams = a.streams && a.data[0].addr().is_multiple_of(64);
        // A number is read from memory as nothing, always in the same place, and added as bits.
        let zeros = [0u32; WORDS];
        let (mut inputs, mut numbers) = ([(zeros.as_ptr(), 0); N], [0u32; N]);
        for k in 0..N {
            let at = a.data[k + 1] as *const u32;
            match a.strides[k + 1] {
                // SAFETY: the caller's number.
                0 => numbers[k] = unsafe { at.read_unaligned() },
                _ => inputs[k] = (at, usize::MAX),
            }
        }
        for start in (0..a.n / 2).step_by(WORDS) {
            // SAFETY: a chunk of the caller's elements.
            unsafe {
                let mut words = [zeros.as_ptr(); N];
                for k in 0..N {
                    words[k] = inputs[k].0.wrapping_add(start & inputs[k].1);
                }
                let results = Self::chunk::<I>(words, numbers, &p);
                if Self::ROUNDS {
                    store::<I, _, WORDS>((a.data[0] as *mut u32).add(start), results, streams);
                } else {
                    store::<I, _, WORDS>((a.data[0] as *mut u16).add(start), results.map(|pair| pair as u16), streams);
                }
            }
        }
        if a.streams {
            stream::finish();
        }
    }
}

/// Stores a chunk's results.
///
/// # Safety
/// `to` is valid for them, and a cache line's start where it `streams`.
#[inline(always)]
pub(super) unsafe fn store<I: Isa, W: Copy, const C: usize>(to: *mut W, results: [W; C], streams: bool) {
    // SAFETY: the caller's.
    unsafe {
        if streams {
            stream::store::<I, _, C>(to, &results);
        } else {
            to.cast::<[W; C]>().write_unaligned(results);
        }
    }
}

/// Runs a strip that takes whole chunks over any number of elements, of which its inputs, `inputs` of them, and its output
/// with elements of `size` bytes are as [`strip`] says.
///
/// # Safety
/// As [`StripFn`].
pub(super) unsafe fn run(strip: StripFn, mut args: StripArgs, inputs: usize, size: usize) {
    let rest = args.n % CHUNK;
    args.n -= rest;
    let whole = args.n;
    // SAFETY: the caller's elements; the chunks hold what is left of them.
    unsafe {
        if whole > 0 {
            strip(args);
        }
        if rest == 0 {
            return;
        }
        // What is left is put into a chunk of its own.
        let mut chunks = [[0u16; CHUNK]; MAX_OPERANDS];
        let to = args.data[0].add(size * whole);
        for (k, chunk) in chunks.iter_mut().enumerate().take(inputs + 1) {
            if k > 0 && args.strides[k] == 0 {
                continue;
            }
            let from = (args.data[k] as *const u16).wrapping_add(whole).cast::<u8>();
            args.data[k] = chunk.as_mut_ptr().cast();
            if k > 0 {
                std::ptr::copy_nonoverlapping(from, args.data[k], 2 * rest);
            }
        }
        (args.n, args.streams) = (CHUNK, false);
        strip(args);
        std::ptr::copy_nonoverlapping(chunks[0].as_ptr().cast::<u8>(), to, size * rest);
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
