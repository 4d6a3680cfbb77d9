//! Sorting and what follows from it.
//!
//! Every element becomes an unsigned *key* of the same order (`keys.rs`), and a key with its index becomes one
//! integer, `key << bits | index`. Those integers are all different, so any sort of them is a stable sort of the
//! elements, the code exists for two integer widths instead of thirteen dtypes, and a result does not depend on how the
//! work was split. Short rows are sorted many at once (`network.rs`). Large rows are split by the top bits of the key until
//! the buckets fit in cache; those are sorted by the standard library. NaN is the greatest value, and zeros of both signs are
//! equal, as in PyTorch.

mod count;
mod keys;
mod network;
mod search;
mod select;
mod ties;
mod unique;

pub use count::{bincount, bincount_weighted, bins, histogram};
pub use search::searchsorted;
pub use select::{Rank, select_rank, topk};
pub use unique::{Unique, runs, unique, unique_consecutive, unique_rows};

use crate::buffer::Buffer;
use crate::copy::Shared;
use crate::scan::Lines;
use flambeau_base::DType;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use keys::{Keys, Packed};
use network::{Batch, Wanted};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Rows at least this long are sorted by several threads each; shorter ones are shared out whole.
const LONG: usize = 1 << 16;
/// Buckets up to this many elements go to the standard library's sort, which inserts them one by one.
const LEAF: usize = 16;
/// Bits of the key that one split looks at, at most. 4096 counters fit in L1, and 4096 open pages in a second-level TLB.
const DIGIT: u32 = 12;
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
        if network::sorts(dtype, n) && count >= network::FEWEST {
            let [values, indices, src] = network::sides(p, s, &lines.along);
            let sides = (wants_values.then_some(values), wants_indices.then_some(indices), src);
            // SAFETY: some of the caller's lines.
            return unsafe { Batch::default().run(keys, n, count, Wanted::First(n), sides) };
        }
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
    narrow: [Buffer<u64>; 2],
    wide: [Buffer<u128>; 2],
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
        let (least, greatest) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        let row = &self;
        parallel_for(n, PIECE, &|r| {
            let (mut min, mut max) = (u64::MAX, 0);
            let mut fold = |_: usize, keys: &[u64]| {
                for &key in keys {
                    min = min.min(key);
                    max = max.max(key);
                }
            };
            // SAFETY: the piece's elements.
            unsafe { row.keys_in_blocks(r.start, r.end, &mut fold) };
            least.fetch_min(min, Relaxed);
            greatest.fetch_max(max, Relaxed);
        });
        let (min, max) = (least.into_inner(), greatest.into_inner());
        // SAFETY: the caller's row; its keys are within these bounds.
        unsafe {
            // Keys that span 32 bits fit in half the memory.
            if max - min <= u32::MAX as u64 && n <= u32::MAX as usize {
                self.keys.base = min;
                self.sort_packed::<u64>(n, max - min, &mut scratch.narrow)
            } else {
                self.sort_packed::<u128>(n, max, &mut scratch.wide)
            }
        }
    }

    unsafe fn sort_packed<P: Packed>(&self, n: usize, range: u64, buffers: &mut [Buffer<P>; 2]) {
        let [a, b] = buffers;
        let packed = Shared(a.room(n));
        parallel_for(n, PIECE, &|r| {
            let base = self.keys.base;
            let mut pack = |start: usize, keys: &[u64]| {
                for (i, &key) in keys.iter().enumerate() {
                    // SAFETY: this piece's slots.
                    unsafe { packed.get().add(start + i).write(P::pack(key - base, start + i)) };
                }
            };
            // SAFETY: the piece's elements.
            unsafe { self.keys_in_blocks(r.start, r.end, &mut pack) };
        });
        // SAFETY: the slots were just written.
        let a = unsafe { std::slice::from_raw_parts_mut(packed.get(), n) };
        if n <= LEAF || !FastPath::SortSplit.is_on() {
            a.sort_unstable();
            // SAFETY: `n` outputs.
            return unsafe { self.emit(a, 0) };
        }
        let target = Shared(b.room(n));
        if n < LONG {
            // SAFETY: `n` outputs; `split` writes its scratch before it reads it.
            return unsafe { self.split(a, target.get(), 0) };
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
                    self.split(data, free.get().add(start), start);
                }
            }
        });
    }

    /// Sorts `data`, whose first element's place is `start`, and writes it out; `free` is scratch of the same length,
    /// maybe uninitialised.
    unsafe fn split<P: Packed>(&self, data: &mut [P], free: *mut P, start: usize) {
        if data.len() <= LEAF {
            insert(data);
            // SAFETY: the caller's outputs.
            return unsafe { self.emit(data, start) };
        }
        if data.len() > u32::MAX as usize {
            // More than the counters below can count.
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
        // About one bucket for each element: evenly spread keys are then done but for neighbours.
        let digit = data.len().ilog2().min(DIGIT);
        let shift = (64 - (max - min).leading_zeros()).saturating_sub(digit);
        let buckets = ((max - min) >> shift) as usize + 1;
        let mut ends = [const { MaybeUninit::<u32>::uninit() }; 1 << DIGIT];
        let ends = &mut ends[..buckets];
        ends.fill(MaybeUninit::new(0));
        // SAFETY: just filled.
        let ends = unsafe { &mut *(ends as *mut [MaybeUninit<u32>] as *mut [u32]) };
        for x in data.iter() {
            ends[((x.key() - min) >> shift) as usize] += 1;
        }
        let mut at = 0;
        for end in ends.iter_mut() {
            at += std::mem::replace(end, at);
        }
        for &x in data.iter() {
            let end = &mut ends[((x.key() - min) >> shift) as usize];
            // SAFETY: the counts add up to the length, so each element has its own place.
            unsafe { free.add(*end as usize).write(x) };
            *end += 1;
        }
        // SAFETY: every place was just written.
        let free = unsafe { std::slice::from_raw_parts_mut(free, data.len()) };
        // Runs of small buckets are nearly sorted; a large bucket is split again.
        let (mut run, mut from) = (0, 0);
        for &end in ends.iter() {
            let end = end as usize;
            if end - from > LEAF {
                insert(&mut free[run..from]);
                // SAFETY: the caller's outputs.
                unsafe {
                    self.emit(&free[run..from], start + run);
                    self.split(&mut free[from..end], data[from..end].as_mut_ptr(), start + from);
                }
                run = end;
            }
            from = end;
        }
        insert(&mut free[run..]);
        // SAFETY: the caller's outputs.
        unsafe { self.emit(&free[run..], start + run) };
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

/// Insertion sort, for data whose elements are near their places.
fn insert<P: Copy + Ord>(data: &mut [P]) {
    for i in 1..data.len() {
        let x = data[i];
        let mut j = i;
        while j > 0 && data[j - 1] > x {
            data[j] = data[j - 1];
            j -= 1;
        }
        data[j] = x;
    }
}

#[cfg(test)]
mod tests;
