//! The k greatest or least, and single order statistics.

use super::keys::{GROUP, Keys, Packed, bound, groups_below, summary};
use super::network::{self, Batch, Wanted};
use super::{PIECE, Row, Scratch};
use crate::buffer::Buffer;
use crate::copy::Shared;
use crate::scan::Lines;
use flambeau_base::DType;
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;

/// Keys computed at a time: at most 64 groups.
const BLOCK: usize = 512;

/// The `k` greatest (`largest`) or least elements along `dim`, in that order, with their `i64` indices. Among equal
/// elements the earlier ones are taken. (PyTorch's `sorted=False` allows any order, so also this one.) `sizes` are the
/// source's; the outputs have `k` along `dim`.
///
/// # Safety
/// All must be valid for those sizes at their strides in bytes and must not overlap; the outputs' elements must be
/// distinct. `k` must be at most the size along `dim`. `dtype` must not be complex.
pub unsafe fn topk(
    sizes: &[i64],
    dim: usize,
    k: usize,
    largest: bool,
    values: (*mut u8, &[isize]),
    indices: (*mut u8, &[isize]),
    src: (*const u8, &[isize]),
    dtype: DType,
) {
    if sizes.contains(&0) || k == 0 {
        return;
    }
    let lines = Lines::new(sizes, dim, &[values, indices, (src.0.cast_mut(), src.1)]);
    let n = lines.length;
    let keys = Keys::new(dtype, largest);
    let row = |p: &[*mut u8], i: isize, s: &[isize]| Row {
        keys,
        values: Some((p[0].wrapping_offset(i * s[0]), lines.along[0])),
        indices: Some((p[1].wrapping_offset(i * s[1]), lines.along[1])),
        src: p[2].wrapping_offset(i * s[2]),
        src_stride: lines.along[2],
    };
    let narrow = keys.narrow() && n <= u32::MAX as usize;
    let cut = n >= 4 * PIECE && k <= PIECE / 16;
    let grain = if cut { usize::MAX } else { GRAIN / n + 1 };
    let some_lines = |p: &[*mut u8], s: &[isize], count: usize| {
        if network::selects(dtype, n) && count >= network::FEWEST {
            let [values, indices, src] = network::sides(p, s, &lines.along);
            let sides = (Some(values), Some(indices), src);
            // SAFETY: some of the caller's lines.
            return unsafe { Batch::default().run(keys, n, count, Wanted::First(k), sides) };
        }
        for i in 0..count as isize {
            // SAFETY: one line of the caller's operands.
            unsafe {
                match narrow {
                    true => row(p, i, s).top::<u64>(n, k, cut),
                    false => row(p, i, s).top::<u128>(n, k, cut),
                }
            }
        }
    };
    if cut { lines.it.range(0, lines.it.numel(), &some_lines) } else { lines.it.for_each_grain(grain, &some_lines) }
}

/// Which order statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// The k-th smallest, counting from zero; NaN is greatest.
    Kth(usize),
    /// The lower median; NaN if there is one.
    Median,
    /// The lower median of the elements that are not NaN.
    NanMedian,
}

/// One order statistic along `dim`, with its `i64` index (the first of equal elements that qualifies). `sizes` are the
/// source's; the outputs have 1 along `dim`.
///
/// # Safety
/// As for [`topk`]; a `Kth` rank must be below the size along `dim`.
pub unsafe fn select_rank(
    rank: Rank,
    sizes: &[i64],
    dim: usize,
    values: (*mut u8, &[isize]),
    indices: (*mut u8, &[isize]),
    src: (*const u8, &[isize]),
    dtype: DType,
) {
    if sizes.contains(&0) {
        return;
    }
    let lines = Lines::new(sizes, dim, &[values, indices, (src.0.cast_mut(), src.1)]);
    let n = lines.length;
    let keys = Keys::new(dtype, false);
    let narrow = keys.narrow() && n <= u32::MAX as usize;
    lines.it.for_each_grain(GRAIN / 4 / n + 1, &|p, s, count| {
        if network::selects(dtype, n) && count >= network::FEWEST {
            let [values, indices, src] = network::sides(p, s, &lines.along);
            let sides = (Some(values), Some(indices), src);
            // SAFETY: some of the caller's lines.
            return unsafe { Batch::default().run(keys, n, count, Wanted::One(rank), sides) };
        }
        let mut scratch = Scratch::default();
        for i in 0..count as isize {
            let row = Row {
                keys,
                values: Some((p[0].wrapping_offset(i * s[0]), lines.along[0])),
                indices: Some((p[1].wrapping_offset(i * s[1]), lines.along[1])),
                src: p[2].wrapping_offset(i * s[2]),
                src_stride: lines.along[2],
            };
            // SAFETY: one line of the caller's operands.
            unsafe {
                match narrow {
                    true => row.ranked::<u64>(n, rank, &mut scratch.narrow[0]),
                    false => row.ranked::<u128>(n, rank, &mut scratch.narrow[0]),
                }
            }
        }
    });
}

impl Row {
    /// Runs `each(first index, keys)` over elements `from..to`.
    pub(super) unsafe fn keys_in_blocks(&self, from: usize, to: usize, each: &mut dyn FnMut(usize, &[u64])) {
        let mut block = [0u64; BLOCK];
        for start in (from..to).step_by(BLOCK) {
            let count = BLOCK.min(to - start);
            // SAFETY: elements of the caller's row.
            unsafe {
                let src = self.src.offset(start as isize * self.src_stride);
                self.keys.load(src, self.src_stride, block.as_mut_ptr(), count);
            }
            each(start, &block[..count]);
        }
    }

    /// The `k` least keys of elements `from..to`, in no order.
    unsafe fn least<P: Packed>(&self, from: usize, to: usize, k: usize) -> Vec<P> {
        let room = (3 * k).max(128).min(to - from).max(k);
        let mut best: Vec<P> = Vec::with_capacity(room);
        // Keys from this one on cannot be among the least; equal keys come later, so they lose.
        let mut limit = u64::MAX;
        let mut limited = false;
        let mut keep = |start: usize, keys: &[u64]| {
            if start == from
                && let Some(limit_of_block) = bound(keys, k).and_then(|key| key.checked_add(1))
            {
                (limit, limited) = (limit_of_block, true);
            }
            // Most groups hold nothing of interest: one vectorised look at the block dismisses them.
            let mut groups = if limited { groups_below(keys, limit) } else { u64::MAX };
            while groups != 0 {
                let group = groups.trailing_zeros() as usize * GROUP;
                groups &= groups - 1;
                let end = keys.len().min(group + GROUP);
                for (i, &key) in keys.iter().enumerate().take(end).skip(group) {
                    if limited && key >= limit {
                        continue;
                    }
                    if best.len() == room {
                        best.select_nth_unstable(k - 1);
                        best.truncate(k);
                        limit = best[k - 1].key();
                        limited = true;
                        if key >= limit {
                            continue;
                        }
                    }
                    best.push(P::pack(key, start + i));
                }
            }
        };
        // SAFETY: elements of the caller's row.
        unsafe { self.keys_in_blocks(from, to, &mut keep) };
        if best.len() > k {
            best.select_nth_unstable(k - 1);
            best.truncate(k);
        }
        best
    }

    unsafe fn top<P: Packed>(&self, n: usize, k: usize, cut: bool) {
        let mut best = if cut {
            // Each piece's best, then the best of those: keys and indices order them fully.
            let pieces = n.div_ceil(PIECE);
            let mut all: Vec<Vec<P>> = (0..pieces).map(|_| Vec::new()).collect();
            let shared = Shared(all.as_mut_ptr());
            parallel_for(n, PIECE, &|r| {
                // SAFETY: this piece's elements and slot.
                unsafe { *shared.get().add(r.start / PIECE) = self.least::<P>(r.start, r.end, k.min(r.len())) };
            });
            let mut best = all.concat();
            if best.len() > k {
                best.select_nth_unstable(k - 1);
                best.truncate(k);
            }
            best
        } else {
            // SAFETY: the caller's row.
            unsafe { self.least::<P>(0, n, k) }
        };
        best.sort_unstable();
        // SAFETY: `k` outputs.
        unsafe { self.emit(&best, 0) };
    }

    unsafe fn ranked<P: Packed>(&self, n: usize, rank: Rank, room: &mut Buffer<u64>) {
        let keys = room.room(n);
        // SAFETY: the caller's row, and room for its keys.
        let keys = unsafe {
            self.keys.load(self.src, self.src_stride, keys, n);
            std::slice::from_raw_parts(keys, n)
        };
        let nan = self.keys.nan();
        let (min, max, greatest) = summary(keys, nan.unwrap_or_default());
        let nans = if nan.is_some() { greatest } else { 0 };
        let at = match rank {
            Rank::Kth(k) => k,
            // The first NaN: before it are all the others.
            Rank::Median if nans > 0 => n - nans,
            // Of nothing but NaN, the first.
            Rank::Median | Rank::NanMedian => (n - nans).saturating_sub(1) / 2,
        };
        let chosen = nth(keys, at, (min, max));
        // SAFETY: one output.
        unsafe { self.emit(&[P::pack(keys[chosen], chosen)], 0) };
    }
}

/// So few are selected from by comparing.
const FEW: usize = 24;

/// Where the element is that is at place `at` in the order of keys and, among equal keys, of indices; all keys are within
/// `range`. One pass counts how many keys fall into each of some equal parts of the range, another lists those of the
/// part that the place is in; what is left is cut in the same way, by its own range.
fn nth(keys: &[u64], mut at: usize, range: (u64, u64)) -> usize {
    let mut left =
        if keys.len() <= FEW { (0..keys.len()).collect() } else { part(keys.len(), |i| i, keys, &mut at, range) };
    while left.len() > FEW {
        let range = left.iter().fold((u64::MAX, 0), |(min, max), &i| (keys[i].min(min), keys[i].max(max)));
        if range.0 == range.1 {
            // Equal keys lie in the order of their indices.
            return left[at];
        }
        left = part(left.len(), |i| left[i], keys, &mut at, range);
    }
    *left.select_nth_unstable_by_key(at, |&i| (keys[i], i)).1
}

/// Lists, in order, those of `n` indices whose keys are in the part of the range that place `at` is in; `at` becomes the
/// place among them.
#[inline(always)]
fn part(n: usize, index: impl Fn(usize) -> usize, keys: &[u64], at: &mut usize, (min, max): (u64, u64)) -> Vec<usize> {
    // About four keys in each part, were they even, but no more counters than fit in L1.
    let digit = n.ilog2().saturating_sub(2).clamp(4, 11);
    let shift = (64 - (max - min).leading_zeros()).saturating_sub(digit);
    let bucket = |i: usize| ((keys[index(i)] - min) >> shift) as usize;
    // Neighbours count apart: increments of one counter in a row wait for each other.
    let mut counts = vec![[0usize; 2]; 1 << digit];
    let even = n - n % 2;
    for i in (0..even).step_by(2) {
        counts[bucket(i)][0] += 1;
        counts[bucket(i + 1)][1] += 1;
    }
    (even..n).for_each(|i| counts[bucket(i)][0] += 1);
    let (mut chosen, mut count) = (0, 0);
    for (i, [even, odd]) in counts.iter().enumerate() {
        (chosen, count) = (i, even + odd);
        if *at < count {
            break;
        }
        *at -= count;
    }
    // Every index is written down, and the next one over it unless it belongs: which ones do cannot be predicted.
    let mut left = vec![0; count + 1];
    let mut found = 0;
    for i in 0..n {
        left[found] = index(i);
        found += usize::from(bucket(i) == chosen);
    }
    left.truncate(count);
    left
}
