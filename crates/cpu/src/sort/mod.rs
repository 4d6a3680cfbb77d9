//! Sorting and what follows from it.
//!
//! Every element becomes an unsigned *key* of the same order (`keys.rs`), and a key with its index becomes one
//! integer, `key << bits | index`. Those integers are all different, so any sort of them is a stable sort of the
//! elements, the code exists for two integer widths instead of thirteen dtypes, and a result does not depend on how the
//! work was split. Large rows are split by the top bits of the key until the buckets fit in cache; those are sorted by
//! the standard library. NaN is the greatest value, and zeros of both signs are equal, as in PyTorch.

mod keys;
mod search;
mod select;
mod unique;

pub use search::{bincount, bincount_weighted, histogram, searchsorted};
pub use select::{Rank, select_rank, topk};
pub use unique::{Unique, unique, unique_consecutive, unique_rows};

use crate::copy::Shared;
use crate::scan::Lines;
use flambeau_base::DType;
use flambeau_base::parallel::parallel_for;
use keys::{Keys, Packed};

/// Rows at least this long are sorted by several threads each; shorter ones are shared out whole.
const LONG: usize = 1 << 16;
/// Buckets up to this many elements go to the standard library's sort: they and their scratch fit in L1.
const LEAF: usize = 1 << 9;
/// Bits of the key that one split looks at. 2048 counters fit in L1, and 2048 open pages in a second-level TLB.
const DIGIT: u32 = 11;
/// Elements in one piece of a parallel split.
const PIECE: usize = 1 << 16;

/// Sorts along `dim` of `sizes`, stably. Operands are addresses and strides in bytes; indices are `i64`. Either output
/// may be left out.
///
/// # Safety
/// All must be valid for `sizes` at their strides and must not overlap; the outputs' elements must be distinct.
/// `dtype` must not be complex.
pub unsafe fn sort(
    sizes: &[i64],
    dim: usize,
    values: Option<(*mut u8, &[isize])>,
    indices: Option<(*mut u8, &[isize])>,
    src: (*const u8, &[isize]),
    dtype: DType,
    descending: bool,
) {
    if sizes.contains(&0) {
        return;
    }
    let source = (src.0.cast_mut(), src.1);
    // An output that is left out stands in as the source and is never written.
    let lines = Lines::new(sizes, dim, &[values.unwrap_or(source), indices.unwrap_or(source), source]);
    let n = lines.length;
    let keys = Keys::new(dtype, descending);
    let (wants_values, wants_indices) = (values.is_some(), indices.is_some());
    let row = |p: &[*mut u8], i: isize, s: &[isize]| Row {
        keys,
        values: wants_values.then(|| (p[0].wrapping_offset(i * s[0]), lines.along[0])),
        indices: wants_indices.then(|| (p[1].wrapping_offset(i * s[1]), lines.along[1])),
        src: p[2].wrapping_offset(i * s[2]),
        src_stride: lines.along[2],
    };
    if n >= LONG {
        for line in 0..lines.it.numel() {
            lines.it.range(line, line + 1, &|p, s, _| {
                // SAFETY: one line of the caller's operands.
                unsafe { row(p, 0, s).sort(n, &mut Scratch::default()) }
            });
        }
        return;
    }
    lines.it.for_each_grain((1 << 13) / n + 1, &|p, s, count| {
        let mut scratch = Scratch::default();
        for i in 0..count as isize {
            // SAFETY: one line of the caller's operands.
            unsafe { row(p, i, s).sort(n, &mut scratch) };
        }
    });
}

/// Buffers that rows share.
#[derive(Default)]
struct Scratch {
    keys: Vec<u64>,
    narrow: [Vec<u64>; 2],
    wide: [Vec<u128>; 2],
}

/// One row and where it goes: addresses and strides in bytes.
#[derive(Clone, Copy)]
struct Row {
    keys: Keys,
    values: Option<(*mut u8, isize)>,
    indices: Option<(*mut u8, isize)>,
    src: *const u8,
    src_stride: isize,
}

// SAFETY: threads write different elements of the row.
unsafe impl Sync for Row {}

impl Row {
    /// Sorts `n` elements.
    unsafe fn sort(mut self, n: usize, scratch: &mut Scratch) {
        scratch.keys.resize(n, 0);
        let all = Shared(scratch.keys.as_mut_ptr());
        let row = &self;
        parallel_for(n, PIECE, &|r| {
            // SAFETY: the piece's elements and keys.
            unsafe {
                let src = row.src.offset(r.start as isize * row.src_stride);
                row.keys.load(src, row.src_stride, all.get().add(r.start), r.len());
            }
        });
        let (mut min, mut max) = (u64::MAX, 0);
        for &key in &scratch.keys {
            min = min.min(key);
            max = max.max(key);
        }
        // Keys that span 32 bits fit in half the memory.
        if max - min <= u32::MAX as u64 && n <= u32::MAX as usize {
            self.keys.base = min;
            // SAFETY: as above.
            unsafe { self.sort_packed::<u64>(&scratch.keys, max - min, &mut scratch.narrow) }
        } else {
            // SAFETY: as above.
            unsafe { self.sort_packed::<u128>(&scratch.keys, max, &mut scratch.wide) }
        }
    }

    unsafe fn sort_packed<P: Packed>(&self, keys: &[u64], range: u64, buffers: &mut [Vec<P>; 2]) {
        let n = keys.len();
        let [a, b] = buffers;
        a.resize(n, P::default());
        let packed = Shared(a.as_mut_ptr());
        let base = self.keys.base;
        parallel_for(n, PIECE, &|r| {
            for i in r {
                // SAFETY: this piece's slots.
                unsafe { packed.get().add(i).write(P::pack(keys[i] - base, i)) };
            }
        });
        if n <= LEAF {
            a.sort_unstable();
            // SAFETY: `n` outputs.
            return unsafe { self.emit(a, 0) };
        }
        b.resize(n, P::default());
        if n < LONG {
            // SAFETY: `n` outputs.
            return unsafe { self.split(a, b, 0) };
        }
        // The first split of a long row runs in pieces: count, then place each piece's elements after the earlier ones'.
        let shift = (64 - range.leading_zeros()).saturating_sub(DIGIT);
        let buckets = (range >> shift) as usize + 1;
        let piece = PIECE.max(n.div_ceil(64));
        let pieces = n.div_ceil(piece);
        let mut counts = vec![0usize; pieces * buckets];
        let shared = Shared(counts.as_mut_ptr());
        let source = &a[..];
        parallel_for(n, piece, &|r| {
            // SAFETY: this piece's counters.
            let counts =
                unsafe { std::slice::from_raw_parts_mut(shared.get().add(r.start / piece * buckets), buckets) };
            for x in &source[r] {
                counts[(x.key() >> shift) as usize] += 1;
            }
        });
        let mut starts = Vec::with_capacity(buckets + 1);
        let mut at = 0;
        for bucket in 0..buckets {
            starts.push(at);
            for p in 0..pieces {
                let count = std::mem::replace(&mut counts[p * buckets + bucket], at);
                at += count;
            }
        }
        starts.push(n);
        let shared = Shared(counts.as_mut_ptr());
        let target = Shared(b.as_mut_ptr());
        parallel_for(n, piece, &|r| {
            // SAFETY: this piece's counters, and places that no other piece has.
            unsafe {
                let places = std::slice::from_raw_parts_mut(shared.get().add(r.start / piece * buckets), buckets);
                for &x in &source[r] {
                    let place = &mut places[(x.key() >> shift) as usize];
                    target.get().add(*place).write(x);
                    *place += 1;
                }
            }
        });
        let free = Shared(a.as_mut_ptr());
        parallel_for(buckets, 8, &|r| {
            for bucket in r {
                let (start, end) = (starts[bucket], starts[bucket + 1]);
                // SAFETY: this bucket's part of both buffers and of the outputs.
                unsafe {
                    let data = std::slice::from_raw_parts_mut(target.get().add(start), end - start);
                    let free = std::slice::from_raw_parts_mut(free.get().add(start), end - start);
                    self.split(data, free, start);
                }
            }
        });
    }

    /// Sorts `data`, whose first element's place is `start`, and writes it out; `free` is scratch of the same length.
    unsafe fn split<P: Packed>(&self, data: &mut [P], free: &mut [P], start: usize) {
        if data.len() <= LEAF {
            data.sort_unstable();
            // SAFETY: the caller's outputs.
            return unsafe { self.emit(data, start) };
        }
        let (mut min, mut max) = (u64::MAX, 0);
        for x in data.iter() {
            min = min.min(x.key());
            max = max.max(x.key());
        }
        if min == max {
            // All equal, and splits keep the order of the indices.
            // SAFETY: the caller's outputs.
            return unsafe { self.emit(data, start) };
        }
        let shift = (64 - (max - min).leading_zeros()).saturating_sub(DIGIT);
        let buckets = ((max - min) >> shift) as usize + 1;
        let mut ends = [0u32; 1 << DIGIT];
        let ends = &mut ends[..buckets];
        for x in data.iter() {
            ends[((x.key() - min) >> shift) as usize] += 1;
        }
        let mut at = 0;
        for end in ends.iter_mut() {
            at += std::mem::replace(end, at);
        }
        for &x in data.iter() {
            let end = &mut ends[((x.key() - min) >> shift) as usize];
            free[*end as usize] = x;
            *end += 1;
        }
        let mut from = 0;
        for &end in ends.iter() {
            let to = end as usize;
            if to > from {
                // SAFETY: the caller's outputs.
                unsafe { self.split(&mut free[from..to], &mut data[from..to], start + from) };
            }
            from = to;
        }
    }

    /// Writes sorted elements to places `start..`.
    unsafe fn emit<P: Packed>(&self, sorted: &[P], start: usize) {
        // SAFETY: the caller's outputs, and elements of the source.
        unsafe {
            if let Some((data, stride)) = self.indices {
                for (i, x) in sorted.iter().enumerate() {
                    let place = data.offset((start + i) as isize * stride).cast::<i64>();
                    place.write_unaligned(x.index() as i64);
                }
            }
            if let Some((data, stride)) = self.values {
                let data = data.offset(start as isize * stride);
                self.keys.store(sorted, self.src, self.src_stride, data, stride);
            }
        }
    }
}

#[cfg(test)]
mod tests;
