//! What boolean masks select.

use super::contiguous_strides;
use crate::copy::{Shared, cast_strip_of_size, copy_strided};
use flambeau_base::DType;
use flambeau_base::iter::Iter;
use flambeau_base::parallel::parallel_for;

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

    /// Writes the coordinates of the true elements: `count` rows of one `i64` per dimension.
    ///
    /// # Safety
    /// `out` must hold `count * sizes.len()` values.
    pub unsafe fn nonzero(&self, out: *mut i64) {
        let ndim = self.sizes.len();
        let shared = Shared(out);
        if ndim == 0 {
            return;
        }
        let width = self.sizes[ndim - 1] as usize;
        self.words(&|start, mut word, rank| {
            // SAFETY: this word's rows of the output.
            let mut out = unsafe { shared.get().add(rank * ndim) };
            if ndim == 1 {
                while word != 0 {
                    // SAFETY: as above.
                    unsafe {
                        out.write((start + word.trailing_zeros() as usize) as i64);
                        out = out.add(1);
                    }
                    word &= word - 1;
                }
                return;
            }
            let (mut row, mut row_start) = (start / width, start / width * width);
            let mut outer = self.coordinates(row);
            while word != 0 {
                let at = start + word.trailing_zeros() as usize;
                word &= word - 1;
                if at - row_start >= width {
                    row = at / width;
                    row_start = row * width;
                    outer = self.coordinates(row);
                }
                // SAFETY: as above.
                unsafe {
                    for (d, &i) in outer[..(ndim - 1).min(8)].iter().enumerate() {
                        out.add(d).write(i);
                    }
                    if ndim > 9 {
                        self.write_coordinates(row, out);
                    }
                    out.add(ndim - 1).write((at - row_start) as i64);
                    out = out.add(ndim);
                }
            }
        });
    }

    /// The coordinates of a row, for up to nine dimensions.
    fn coordinates(&self, mut row: usize) -> [i64; 8] {
        let mut out = [0; 8];
        let outer = self.sizes.len() - 1;
        if outer <= 8 {
            for d in (0..outer).rev() {
                out[d] = (row % self.sizes[d] as usize) as i64;
                row /= self.sizes[d] as usize;
            }
        }
        out
    }

    /// The coordinates of a row, for any number of dimensions.
    unsafe fn write_coordinates(&self, mut row: usize, out: *mut i64) {
        for d in (0..self.sizes.len() - 1).rev() {
            // SAFETY: the caller's row of the output.
            unsafe { out.add(d).write((row % self.sizes[d] as usize) as i64) };
            row /= self.sizes[d] as usize;
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
