//! Strips over halves that convert in registers: what those of [`pairs`](super::pairs) and [`float16`](super::float16) share.
//!
//! Such a strip takes rows of [`CHUNK`] elements at least. What whole chunks leave of a row is the end of one more, which is
//! computed before anything is written, since inputs may be the output, and written after all others.

use super::{CHUNK, MAX_OPERANDS, MAX_PARAMS, StripArgs, StripFn, converted_params, stream};
use crate::copy::CastStrip;
use crate::math::Isa;
use flambeau_base::{DType, Element};
use std::mem::MaybeUninit;

/// Rows whose numbers are converted at a time.
const ROWS: usize = 64;

/// A chunk of `C` elements of `N` inputs, whose numbers are `T`.
pub(super) trait Chunk<T: Element, const N: usize, const C: usize> {
    /// What is stored of a chunk.
    type Results: Copy;
    /// Bytes of a result.
    const SIZE: usize;
    /// Whether there are parameters.
    const PARAMS: bool;
    /// The results of `C` elements from each address, each of them with the bits of its operand's number set as well.
    ///
    /// # Safety
    /// They are readable, and the machine has `I`.
    unsafe fn chunk<I: Isa>(from: [*const u16; N], numbers: [u32; N], p: &[T; MAX_PARAMS]) -> Self::Results;
    /// Stores them, past all caches if that `streams`.
    ///
    /// # Safety
    /// `to` is valid for them, and a cache line's start where it streams.
    unsafe fn store<I: Isa>(to: *mut u8, results: Self::Results, streams: bool);
}

/// The strip of a [`Chunk`]'s elements.
///
/// # Safety
/// As [`StripFn`], of rows of at least `C` elements; inputs are contiguous halves or one `f32`, at a stride of zero; the output
/// is contiguous, or may be one of the inputs. The machine has `I`.
#[inline(always)]
pub(super) unsafe fn rows<I: Isa, K: Chunk<T, N, C>, T: Element, const N: usize, const C: usize>(a: StripArgs) {
    let p = if const { K::PARAMS } { converted_params::<T>(&a.params) } else { [T::default(); MAX_PARAMS] };
    // A number is read from memory as nothing, always in the same place, and added as bits.
    let zeros = [0u16; CHUNK];
    let (mut at, mut row) = (a.data, 0);
    loop {
        let (mut inputs, mut numbers) = ([(zeros.as_ptr(), 0); N], [0u32; N]);
        for k in 0..N {
            let at = at[k + 1].cast_const();
            match a.strides[k + 1] {
                // SAFETY: the caller's number.
                0 => numbers[k] = unsafe { at.cast::<u32>().read_unaligned() },
                _ => inputs[k] = (at.cast::<u16>(), usize::MAX),
            }
        }
        let (whole, last) = (a.n / C * C, a.n - C);
        let streams = a.streams && at[0].addr().is_multiple_of(64);
        let mut ahead = a.n > whole;
        let (mut kept, mut start) = (None, if ahead { last } else { 0 });
        // SAFETY: chunks of the caller's elements, and of the zeros.
        unsafe {
            loop {
                let mut from = [zeros.as_ptr(); N];
                for k in 0..N {
                    from[k] = inputs[k].0.wrapping_add(start & inputs[k].1);
                }
                let results = K::chunk::<I>(from, numbers, &p);
                if ahead {
                    (kept, start, ahead) = (Some(results), 0, false);
                    continue;
                }
                K::store::<I>(at[0].add(start * K::SIZE), results, streams);
                start += C;
                if start == whole {
                    break;
                }
            }
            if let Some(kept) = kept {
                K::store::<I>(at[0].add(last * K::SIZE), kept, false);
            }
        }
        row += 1;
        if row >= a.rows {
            break;
        }
        for (at, stride) in at.iter_mut().zip(a.row_strides).take(N + 1) {
            *at = at.wrapping_offset(stride);
        }
    }
}

/// Stores a chunk's results.
///
/// # Safety
/// `to` is valid for them, and a cache line's start where it `streams`.
#[inline(always)]
pub(super) unsafe fn store<I: Isa, W: Copy, const C: usize>(to: *mut u8, results: [W; C], streams: bool) {
    let to = to.cast::<W>();
    // SAFETY: the caller's.
    unsafe {
        if streams {
            stream::store::<I, _, C>(to, &results);
        } else {
            to.cast::<[W; C]>().write_unaligned(results);
        }
    }
}

/// Whether operands with these strides within a row are as [`run`] takes them: those a half apart that are to be converted are
/// halves of one dtype, the others `f32`, but for the output.
pub(super) fn fit(strides: &[isize], converts: &[Option<CastStrip>], out: DType) -> bool {
    let half = size_of::<u16>() as isize;
    strides[0] == out.size() as isize
        && strides[1..].contains(&half)
        && strides.iter().zip(converts).skip(1).all(|(&s, convert)| s == 0 || s == half && convert.is_some())
}

/// Runs a strip over rows of any number of elements, which are such as [`fit`] says; the output's are of `size` bytes.
///
/// # Safety
/// As [`StripFn`], of operands that `converts` converts.
pub(super) unsafe fn run(strip: StripFn, args: StripArgs, converts: &[Option<CastStrip>], size: usize) {
    let mut numbers = [const { MaybeUninit::<[f32; ROWS]>::uninit() }; MAX_OPERANDS];
    let mut first = 0;
    while first < args.rows {
        let mut part = StripArgs { rows: ROWS.min(args.rows - first), ..args };
        for (at, stride) in part.data.iter_mut().zip(args.row_strides) {
            *at = at.wrapping_offset(stride * first as isize);
        }
        first += part.rows;
        for (k, convert) in converts.iter().enumerate().skip(1) {
            if let (0, Some(widen)) = (args.strides[k], convert) {
                let to = numbers[k].as_mut_ptr().cast::<u8>();
                let size = size_of::<f32>() as isize;
                // SAFETY: a number of each row, and room for as many.
                unsafe { widen(part.data[k], args.row_strides[k], to, size, part.rows) };
                (part.data[k], part.row_strides[k]) = (to, size);
            }
        }
        // SAFETY: the operands are as such a strip takes them.
        unsafe {
            if part.n >= CHUNK {
                strip(part);
            } else {
                short_rows(strip, part, converts.len(), size);
            }
        }
    }
}

/// Rows of fewer elements than a chunk has: each is put into one of its own.
///
/// # Safety
/// As [`run`], of `operands` operands; numbers are `f32`.
unsafe fn short_rows(strip: StripFn, args: StripArgs, operands: usize, size: usize) {
    let mut chunks = [[0u16; CHUNK]; MAX_OPERANDS];
    let mut chunk = StripArgs { n: CHUNK, rows: 1, streams: false, ..args };
    for (k, elements) in chunks.iter_mut().enumerate().take(operands) {
        if k == 0 || args.strides[k] != 0 {
            chunk.data[k] = elements.as_mut_ptr().cast();
        }
    }
    for row in 0..args.rows as isize {
        // SAFETY: the caller's rows; a chunk has room for one.
        unsafe {
            for k in 1..operands {
                let from = args.data[k].wrapping_offset(row * args.row_strides[k]);
                match args.strides[k] {
                    0 => chunk.data[k] = from,
                    _ => std::ptr::copy_nonoverlapping(from, chunk.data[k], size_of::<u16>() * args.n),
                }
            }
            strip(chunk);
            let to = args.data[0].wrapping_offset(row * args.row_strides[0]);
            std::ptr::copy_nonoverlapping(chunk.data[0], to, size * args.n);
        }
    }
}
