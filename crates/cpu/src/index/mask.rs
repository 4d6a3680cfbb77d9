//! What boolean masks select.

use super::contiguous_strides;
use crate::copy::{Shared, cast_strip_of_size, copy_strided};
use crate::math::{Isa, Kernel, run};
use flambeau_base::DType;
use flambeau_base::iter::Iter;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;
use std::ops::Range;

/// Elements of a mask in one piece of parallel work.
const PIECE: usize = 1 << 15;

/// The true elements of a tensor, counted: allocate [`Mask::count`] outputs, then select, list or scatter.
///
/// ```ignore
/// let mask = Mask::new(sizes, (data, strides, DType::Bool));
/// let mut out = vec![0f32; mask.count()];
/// mask.select((src, src_strides), out.as_mut_ptr().cast(), DType::F32);
/// ```
pub struct Mask {
    sizes: Vec<i64>,
    /// One byte per element, row-major.
    bytes: *const u8,
    numel: usize,
    /// How many are true before each piece, and in all.
    before: Vec<usize>,
    _owned: Vec<u8>,
}

// SAFETY: the bytes are only read, while the caller keeps the mask alive and unchanged.
unsafe impl Sync for Mask {}

impl Mask {
    /// Counts the elements that are not zero of a tensor of any dtype.
    ///
    /// # Safety
    /// The tensor must be valid for `sizes` at its strides, and stay so, unchanged, as long as the mask is used.
    pub unsafe fn new(sizes: &[i64], (data, strides, dtype): (*const u8, &[isize], DType)) -> Mask {
        let numel = sizes.iter().product::<i64>() as usize;
        let wanted = contiguous_strides(sizes, 1);
        let bytes_wide = matches!(dtype, DType::Bool | DType::U8 | DType::I8);
        let in_place = bytes_wide && (0..sizes.len()).all(|d| sizes[d] == 1 || strides[d] == wanted[d]);
        let mut owned = Vec::new();
        let mut bytes = data;
        if !in_place && numel > 0 {
            owned.resize(numel, 0u8);
            // SAFETY: the buffer holds one byte per element.
            unsafe { copy_strided(sizes, (owned.as_mut_ptr(), &wanted, DType::Bool), (data, strides, dtype)) };
            bytes = owned.as_ptr();
        }
        let pieces = numel.div_ceil(PIECE);
        let mut before = vec![0usize; pieces + 1];
        let mut mask = Mask { sizes: sizes.to_vec(), bytes, numel, before: Vec::new(), _owned: owned };
        let counts = Shared(before.as_mut_ptr());
        parallel_for(numel, PIECE, &|r| {
            let mut count = 0;
            for start in r.clone().step_by(64) {
                count += mask.word(start, r.end).count_ones() as usize;
            }
            // SAFETY: each piece has its own slot.
            unsafe { counts.get().add(r.start / PIECE + 1).write(count) };
        });
        for i in 0..pieces {
            before[i + 1] += before[i];
        }
        mask.before = before;
        mask
    }

    /// How many elements are true.
    pub fn count(&self) -> usize {
        self.before.last().copied().unwrap_or(0)
    }

    /// The truth of the (up to 64) elements from `start`, one bit each.
    #[inline(always)]
    fn word(&self, start: usize, end: usize) -> u64 {
        let n = (end - start).min(64);
        // SAFETY: `n` bytes of the mask.
        let bytes = unsafe { std::slice::from_raw_parts(self.bytes.add(start), n) };
        #[cfg(target_arch = "x86_64")]
        if n == 64 {
            use std::arch::x86_64::*;
            let mut zeros = 0u64;
            for i in 0..4 {
                // SAFETY: SSE2 is part of x86-64; 16 bytes of the 64.
                unsafe {
                    let block = _mm_loadu_si128(bytes.as_ptr().add(16 * i).cast());
                    let mask = _mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_setzero_si128()));
                    zeros |= (mask as u16 as u64) << (16 * i);
                }
            }
            return !zeros;
        }
        bytes.iter().enumerate().fold(0, |word, (i, &b)| word | (((b != 0) as u64) << i))
    }

    /// Runs `each(first element of the word, its bits, how many are true before it)` in order over pieces.
    fn words(&self, each: &(dyn Fn(usize, u64, usize) + Sync)) {
        parallel_for(self.numel, PIECE, &|r| {
            let mut rank = self.before[r.start / PIECE];
            for start in r.clone().step_by(64) {
                let word = self.word(start, r.end);
                if word != 0 {
                    each(start, word, rank);
                    rank += word.count_ones() as usize;
                }
            }
        });
    }

    /// Writes the coordinates of the true elements in row-major order: `count` of the first dimension, then `count` of
    /// the next.
    ///
    /// # Safety
    /// `out` must hold `count * sizes.len()` values.
    pub unsafe fn nonzero(&self, out: *mut i64) {
        let Some((&width, outer)) = self.sizes.split_last() else { return };
        let (width, count, shared) = (width as usize, self.count(), Shared(out));
        parallel_for(self.numel, PIECE, &|r| {
            // SAFETY: this piece's places in the output, at most those of all its elements that are true.
            unsafe { run::<Listing>((self, r, width, outer, count, shared.get())) };
        });
    }

    /// [`Mask::nonzero`] for one piece of the elements.
    #[inline(always)]
    unsafe fn list(&self, piece: Range<usize>, width: usize, outer: &[i64], count: usize, out: *mut i64) {
        let mut rank = self.before[piece.start / PIECE];
        // The row that the elements are in, its end, and its coordinates.
        let mut end = (piece.start / width + 1) * width;
        let mut row = vec![0i64; outer.len()];
        coordinates(piece.start / width, outer, &mut row);
        let mut places = [0u8; 64 + 8];
        for start in piece.clone().step_by(64) {
            let word = self.word(start, piece.end);
            let found = list_bits(word, &mut places);
            let mut done = 0;
            while done < found {
                let first = start + places[done] as usize;
                if first >= end {
                    let skipped = (first - end) / width;
                    end += (skipped + 1) * width;
                    match skipped {
                        0 => next_row(outer, &mut row),
                        _ => coordinates(end / width - 1, outer, &mut row),
                    }
                }
                // Those of this row.
                let until = match end - start {
                    ahead @ 0..64 => (word & ((1 << ahead) - 1)).count_ones() as usize,
                    _ => found,
                };
                // SAFETY: the coordinates of some of this piece's elements, which only this thread writes.
                unsafe {
                    for (d, &i) in row.iter().enumerate() {
                        let out = out.add(d * count + rank + done);
                        std::slice::from_raw_parts_mut(out, until - done).fill(i);
                    }
                    let out = out.add(outer.len() * count + rank + done);
                    let out = std::slice::from_raw_parts_mut(out, until - done);
                    // The row's start may come after the word's.
                    let before = (start + width).wrapping_sub(end) as i64;
                    for (out, &place) in out.iter_mut().zip(&places[done..until]) {
                        *out = before + place as i64;
                    }
                }
                done = until;
            }
            rank += found;
        }
    }

    /// Writes the elements of `src` where the mask is true, in row-major order, to contiguous `out`.
    ///
    /// # Safety
    /// `src` must be valid for the mask's sizes at its strides, `out` for `count` elements; they must not overlap.
    pub unsafe fn select(&self, src: (*const u8, &[isize]), out: *mut u8, dtype: DType) {
        let size = dtype.size();
        let wanted = contiguous_strides(&self.sizes, size);
        let contiguous = (0..self.sizes.len()).all(|d| self.sizes[d] == 1 || src.1[d] == wanted[d]);
        let mut buffer = Vec::new();
        let mut data = src.0;
        if !contiguous && self.numel > 0 {
            buffer.resize(self.numel * size, 0u8);
            // SAFETY: the buffer holds the source's elements.
            unsafe { copy_strided(&self.sizes, (buffer.as_mut_ptr(), &wanted, dtype), (src.0, src.1, dtype)) };
            data = buffer.as_ptr();
        }
        // SAFETY: contiguous source and output.
        unsafe {
            match size {
                1 => self.compress::<u8>(data, out),
                2 => self.compress::<u16>(data, out),
                4 => self.compress::<u32>(data, out),
                8 => self.compress::<u64>(data, out),
                _ => self.compress::<[u64; 2]>(data, out),
            }
        }
    }

    unsafe fn compress<T: Copy>(&self, src: *const u8, out: *mut u8) {
        let (src, out) = (Shared(src.cast_mut().cast::<T>()), Shared(out.cast::<T>()));
        self.words(&|start, mut word, rank| {
            // SAFETY: the elements of this word, and their places in the output.
            unsafe {
                let (src, mut out) = (src.get().add(start), out.get().add(rank));
                if word == u64::MAX {
                    return std::ptr::copy_nonoverlapping(src.cast::<u8>(), out.cast::<u8>(), 64 * size_of::<T>());
                }
                while word != 0 {
                    out.write_unaligned(src.add(word.trailing_zeros() as usize).read_unaligned());
                    out = out.add(1);
                    word &= word - 1;
                }
            }
        });
    }

    /// `masked_scatter`: writes the first `count` elements of contiguous `src` where the mask is true.
    ///
    /// # Safety
    /// `dst` must be valid for the mask's sizes at its strides, `src` for `count` elements; they must not overlap.
    pub unsafe fn scatter(&self, dst: (*mut u8, &[isize]), src: *const u8, dtype: DType) {
        let size = dtype.size();
        if self.numel == 0 {
            return;
        }
        let wanted = contiguous_strides(&self.sizes, size);
        if (0..self.sizes.len()).all(|d| self.sizes[d] == 1 || dst.1[d] == wanted[d]) {
            // SAFETY: contiguous destination and source.
            return unsafe { self.expand(dst.0, src, size) };
        }
        let mut buffer = vec![0u8; self.numel * size];
        let data = buffer.as_mut_ptr();
        // SAFETY: the buffer holds the destination's elements.
        unsafe {
            copy_strided(&self.sizes, (data, &wanted, dtype), (dst.0, dst.1, dtype));
            self.expand(data, src, size);
            copy_strided(&self.sizes, (dst.0, dst.1, dtype), (data, &wanted, dtype));
        }
    }

    unsafe fn expand(&self, dst: *mut u8, src: *const u8, size: usize) {
        let (dst, src) = (Shared(dst), Shared(src.cast_mut()));
        self.words(&|start, mut word, rank| {
            let mut at = rank;
            while word != 0 {
                let i = start + word.trailing_zeros() as usize;
                // SAFETY: one element of each.
                unsafe {
                    std::ptr::copy_nonoverlapping(src.get().add(at * size), dst.get().add(i * size), size);
                }
                at += 1;
                word &= word - 1;
            }
        });
    }
}

/// The coordinates of a row.
fn coordinates(mut row: usize, outer: &[i64], out: &mut [i64]) {
    for (i, &size) in out.iter_mut().zip(outer).rev() {
        *i = (row % size as usize) as i64;
        row /= size as usize;
    }
}

/// [`Mask::list`], compiled for each instruction set.
struct Listing<'a>(PhantomData<&'a Mask>);

impl<'a> Kernel for Listing<'a> {
    type Args = (&'a Mask, Range<usize>, usize, &'a [i64], usize, *mut i64);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((mask, piece, width, outer, count, out): Self::Args) {
        // SAFETY: the caller's contract.
        unsafe { mask.list(piece, width, outer, count, out) }
    }
}

/// Moves coordinates on to the next row.
fn next_row(sizes: &[i64], row: &mut [i64]) {
    for (i, &size) in row.iter_mut().zip(sizes).rev() {
        *i += 1;
        if *i < size {
            return;
        }
        *i = 0;
    }
}

/// The places of the bits that are set in each byte.
static PLACES: [[u8; 8]; 256] = {
    let mut all = [[0u8; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut found) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 != 0 {
                all[byte][found] = bit;
                found += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    all
};

/// Lists the places of the bits that are set, a byte of them at a time, and says how many there are; what comes after
/// them is arbitrary.
#[inline(always)]
fn list_bits(word: u64, out: &mut [u8; 64 + 8]) -> usize {
    if word == 0 {
        return 0;
    }
    if word == u64::MAX {
        (0..64).for_each(|i| out[i] = i as u8);
        return 64;
    }
    let mut found = 0;
    for (i, byte) in word.to_le_bytes().into_iter().enumerate() {
        // No carries: places are below 64.
        let places = u64::from_le_bytes(PLACES[byte as usize]) + 0x0101_0101_0101_0101 * (8 * i as u64);
        out[found..found + 8].copy_from_slice(&places.to_le_bytes());
        found += byte.count_ones() as usize;
    }
    found
}

/// Writes one value where the mask (one byte per element, not zero is true) is set; `value` starts with its bytes.
///
/// # Safety
/// Both operands must be valid for `sizes` at their strides and must not overlap; the destination's elements must be
/// distinct.
pub unsafe fn masked_fill(
    sizes: &[i64],
    dst: (*mut u8, &[isize]),
    mask: (*const u8, &[isize]),
    size: usize,
    value: &[u8; 16],
) {
    let it = Iter::new(sizes, &[dst, (mask.0.cast_mut(), mask.1)]);
    let value = *value;
    let all = cast_strip_of_size(size);
    it.for_each(&|p, s, n| {
        // SAFETY: a strip of the caller's operands.
        unsafe {
            if s[1] == 0 {
                if *p[1] != 0 {
                    all(value.as_ptr(), 0, p[0], s[0], n);
                }
                return;
            }
            match size {
                1 => fill_strip::<u8>(p, s, n, &value),
                2 => fill_strip::<u16>(p, s, n, &value),
                4 => fill_strip::<u32>(p, s, n, &value),
                8 => fill_strip::<u64>(p, s, n, &value),
                _ => fill_strip::<[u64; 2]>(p, s, n, &value),
            }
        }
    });
}

unsafe fn fill_strip<T: Copy>(p: &[*mut u8], s: &[isize], n: usize, value: &[u8; 16]) {
    // SAFETY: a strip of the caller's operands; the value holds one element.
    unsafe {
        let value = value.as_ptr().cast::<T>().read_unaligned();
        if s[0] == size_of::<T>() as isize && s[1] == 1 {
            // A select and a store for every element vectorise; this thread owns the strip.
            let (dst, mask) = (p[0].cast::<T>(), p[1]);
            for i in 0..n {
                let old = dst.add(i).read_unaligned();
                dst.add(i).write_unaligned(if *mask.add(i) != 0 { value } else { old });
            }
        } else {
            for i in 0..n as isize {
                if *p[1].offset(i * s[1]) != 0 {
                    p[0].offset(i * s[0]).cast::<T>().write_unaligned(value);
                }
            }
        }
    }
}
