//! The k greatest or least, and single order statistics.

use super::keys::{GROUP, Keys, Packed, bound, groups_below, summary};
use super::network::{self, Batch, Wanted};
use super::{PIECE, Row, ties};
use crate::buffer::Buffer;
use crate::copy::Shared;
use crate::math::level;
use crate::scan::Lines;
use crate::with_isa;
use flambeau_base::DType;
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;
use std::ops::RangeInclusive;

/// Keys computed at a time: at most 64 groups.
const BLOCK: usize = 512;

/// The `k` greatest (`largest`) or least elements along `dim`, with their `i64` indices: in that order if `sorted`, else
/// in the one that PyTorch leaves them in. Among equal elements those are taken that PyTorch takes (see `ties.rs`).
/// `sizes` are the source's; the outputs have `k` along `dim`.
///
/// # Safety
/// All must be valid for those sizes at their strides in bytes and must not overlap; the outputs' elements must be
/// distinct. `k` must be at most the size along `dim`. `dtype` must not be complex.
pub unsafe fn topk(
    sizes: &[i64],
    dim: usize,
    k: usize,
    (largest, sorted): (bool, bool),
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
    // A heap gives them in order in any case.
    let sorted = sorted || k == 1 || ties::by_heap(n, k);
    let narrow = keys.narrow() && n <= u32::MAX as usize;
    let cut = n >= 4 * PIECE && k <= PIECE / 16;
    let grain = if cut { usize::MAX } else { GRAIN / n + 1 };
    let some_lines = |p: &[*mut u8], s: &[isize], count: usize| {
        let by_steps = !ties::by_heap(n, k) && BY_STEPS.contains(&n);
        if sorted && !by_steps && network::selects(dtype, n) && count >= network::FEWEST {
            let [values, indices, src] = network::sides(p, s, &lines.along);
            let sides = (Some(values), Some(indices), src);
            // SAFETY: some of the caller's lines.
            return unsafe { Batch::default().run(keys, n, count, Wanted::Top(k), sides) };
        }
        let rows = (0..count as isize).map(|i| row(keys, p, s, &lines.along, i));
        // SAFETY: lines of the caller's operands.
        unsafe {
            match narrow {
                true => top_of_rows::<u64>(rows, n, k, (sorted, by_steps), cut),
                false => top_of_rows::<u128>(rows, n, k, (sorted, by_steps), cut),
            }
        }
    };
    if cut { lines.it.range(0, lines.it.numel(), &some_lines) } else { lines.it.for_each_grain(grain, &some_lines) }
}

/// Line `i` of those that an iterator hands out.
fn row(keys: Keys, data: &[*mut u8], lines: &[isize], along: &[isize], i: isize) -> Row {
    Row {
        keys,
        values: Some((data[0].wrapping_offset(i * lines[0]), along[0])),
        indices: Some((data[1].wrapping_offset(i * lines[1]), along[1])),
        src: data[2].wrapping_offset(i * lines[2]),
        src_stride: along[2],
    }
}

/// The lengths of rows for which PyTorch's own steps take no longer than others and a look for ties.
const BY_STEPS: RangeInclusive<usize> = 33..=160;

/// Rows that are selected from by PyTorch's steps after one that has ties: where one has, others do.
const TIED: usize = 15;

unsafe fn top_of_rows<P: Packed>(
    rows: impl Iterator<Item = Row>,
    n: usize,
    k: usize,
    (sorted, by_steps): (bool, bool),
    cut: bool,
) {
    let mut room = Room::<P> { keys: Buffer::default(), elements: vec![] };
    let mut tied = 0;
    for row in rows {
        // SAFETY: the caller's rows.
        unsafe {
            if tied > 0 {
                tied -= 1;
            } else if sorted && !by_steps {
                if row.top::<P>(n, k, cut) {
                    continue;
                }
                tied = TIED;
            }
            row.top_with_ties(n, k, sorted, &mut room);
        }
    }
}

/// Room for a row that is selected from step by step.
struct Room<P> {
    keys: Buffer<u64>,
    elements: Vec<P>,
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

/// One order statistic along `dim`, with its `i64` index: of equal elements the first that qualifies is a median, and the
/// one that PyTorch takes is the k-th (see `ties.rs`). `sizes` are the source's; the outputs have 1 along `dim`.
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
        let rows = (0..count as isize).map(|i| row(keys, p, s, &lines.along, i));
        // SAFETY: lines of the caller's operands.
        unsafe {
            match narrow {
                true => ranked_of_rows::<u64>(rows, n, rank),
                false => ranked_of_rows::<u128>(rows, n, rank),
            }
        }
    });
}

unsafe fn ranked_of_rows<P: Packed>(rows: impl Iterator<Item = Row>, n: usize, rank: Rank) {
    let mut room = Room::<P> { keys: Buffer::default(), elements: vec![] };
    for row in rows {
        // SAFETY: the caller's rows.
        unsafe { row.ranked::<P>(n, rank, &mut room) };
    }
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

    /// The `k` least keys of elements `from..to`, in no order, and the key of one that was left out, if the greatest of
    /// those has an equal there.
    unsafe fn least<P: Packed>(&self, from: usize, to: usize, k: usize) -> (Vec<P>, Option<u64>) {
        let room = (3 * k).max(128).min(to - from).max(k);
        let mut best: Vec<P> = Vec::with_capacity(room);
        // Keys from this one on cannot be among the least; equal keys come later, so they lose.
        let mut limit = u64::MAX;
        let mut limited = false;
        // Equal to the limit then; limits only fall, so that the last one tells.
        let mut left_out = None;
        let mut keep = |start: usize, keys: &[u64]| {
            if start == from
                && let Some(limit_of_block) = bound(keys, k).and_then(|key| key.checked_add(1))
            {
                (limit, limited) = (limit_of_block, true);
            }
            // Most groups hold nothing of interest: one vectorised look at the block dismisses them.
            let mut groups = if limited { groups_below(keys, limit.saturating_add(1)) } else { u64::MAX };
            while groups != 0 {
                let group = groups.trailing_zeros() as usize * GROUP;
                groups &= groups - 1;
                let end = keys.len().min(group + GROUP);
                for (i, &key) in keys.iter().enumerate().take(end).skip(group) {
                    // Without a limit nothing but the room is asked about: `k` may be large.
                    if limited {
                        if key > limit {
                            continue;
                        }
                        if key == limit {
                            left_out = Some(limit);
                            continue;
                        }
                    }
                    if best.len() == room {
                        left_out = keep_least(&mut best, k).or(left_out);
                        (limit, limited) = (best[k - 1].key(), true);
                        if key >= limit {
                            left_out = if key == limit { Some(limit) } else { left_out };
                            continue;
                        }
                    }
                    best.push(P::pack(key, start + i));
                }
            }
        };
        // SAFETY: elements of the caller's row.
        unsafe { self.keys_in_blocks(from, to, &mut keep) };
        left_out = keep_least(&mut best, k).or(left_out);
        (best, left_out)
    }

    /// Writes the `k` least in order, unless there is a choice among equal elements: whether there was none.
    unsafe fn top<P: Packed>(&self, n: usize, k: usize, cut: bool) -> bool {
        let (mut best, left_out) = if cut {
            // Each piece's best, then the best of those: keys and indices order them fully.
            let pieces = n.div_ceil(PIECE);
            let mut all: Vec<(Vec<P>, Option<u64>)> = (0..pieces).map(|_| (vec![], None)).collect();
            let shared = Shared(all.as_mut_ptr());
            parallel_for(n, PIECE, &|r| {
                // SAFETY: this piece's elements and slot.
                unsafe { *shared.get().add(r.start / PIECE) = self.least::<P>(r.start, r.end, k.min(r.len())) };
            });
            let mut best: Vec<P> = all.iter().flat_map(|piece| piece.0.iter().copied()).collect();
            let among_best = keep_least(&mut best, k);
            // What a piece leaves out is no less than the last one taken.
            (best, all.iter().map(|piece| piece.1).chain([among_best]).flatten().min())
        } else {
            // SAFETY: the caller's row.
            unsafe { self.least::<P>(0, n, k) }
        };
        best.sort_unstable();
        let tied = left_out == Some(best[k - 1].key()) || has_equals(&best);
        if !tied {
            // SAFETY: `k` outputs.
            unsafe { self.emit(&best, 0) };
        }
        !tied
    }

    /// Writes the `k` least as PyTorch's own way leaves them, which is also where only that order will do.
    unsafe fn top_with_ties<P: Packed>(&self, n: usize, k: usize, sorted: bool, room: &mut Room<P>) {
        if ties::by_heap(n, k) {
            // SAFETY: the caller's row, and `k` outputs.
            return unsafe { self.emit(&self.least_in_heap::<P>(n, k), 0) };
        }
        let keys = room.keys.room(n);
        // SAFETY: the caller's row, room for its keys, and `k` outputs.
        unsafe {
            self.keys.load(self.src, self.src_stride, keys, n);
            let row = pack(std::slice::from_raw_parts(keys, n), &mut room.elements);
            ties::top(row, k, sorted);
            self.emit(&row[..k], 0);
        }
    }

    /// The `k` least in order; only those that get into the heap are looked at one by one.
    unsafe fn least_in_heap<P: Packed>(&self, n: usize, k: usize) -> Vec<P> {
        let mut first: Vec<P> = Vec::with_capacity(k);
        let mut take = |start: usize, keys: &[u64]| {
            first.extend(keys.iter().enumerate().map(|(i, &key)| P::pack(key, start + i)));
        };
        // SAFETY: elements of the caller's row.
        unsafe { self.keys_in_blocks(0, k, &mut take) };
        let mut least = ties::Least::of(first);
        let mut offer = |start: usize, keys: &[u64]| {
            let mut groups = groups_below(keys, least.limit());
            while groups != 0 {
                let group = groups.trailing_zeros() as usize * GROUP;
                groups &= groups - 1;
                let end = keys.len().min(group + GROUP);
                for (i, &key) in keys.iter().enumerate().take(end).skip(group) {
                    if key < least.limit() {
                        least.replace(P::pack(key, start + i));
                    }
                }
            }
        };
        // SAFETY: elements of the caller's row.
        unsafe { self.keys_in_blocks(k, n, &mut offer) };
        least.into_sorted()
    }

    unsafe fn ranked<P: Packed>(&self, n: usize, rank: Rank, room: &mut Room<P>) {
        let keys = room.keys.room(n);
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
        let (chosen, tied) = nth(keys, at, (min, max));
        let chosen = match rank {
            Rank::Kth(k) if tied => ties::kth(pack(keys, &mut room.elements), k),
            _ => P::pack(keys[chosen], chosen),
        };
        // SAFETY: one output.
        unsafe { self.emit(&[chosen], 0) };
    }
}

/// Whether sorted keys have equal ones among them.
fn has_equals<P: Packed>(sorted: &[P]) -> bool {
    let pairs = sorted.iter().zip(&sorted[1..]);
    let equal: u64 = with_isa!(level(), _I => pairs.map(|(a, b)| u64::from(a.key() == b.key())).sum());
    equal > 0
}

/// Leaves the `k` least; the key of another one if the greatest of them has an equal there.
fn keep_least<P: Packed>(best: &mut Vec<P>, k: usize) -> Option<u64> {
    if best.len() <= k {
        return None;
    }
    let (_, last, others) = best.select_nth_unstable(k - 1);
    let last = last.key();
    // Counted, which vectorises.
    let equal: u64 = with_isa!(level(), _I => others.iter().map(|x| u64::from(x.key() == last)).sum());
    best.truncate(k);
    (equal > 0).then_some(last)
}

/// All elements of a row, with their indices.
pub(super) fn pack<'a, P: Packed>(keys: &[u64], elements: &'a mut Vec<P>) -> &'a mut [P] {
    elements.clear();
    elements.extend(keys.iter().enumerate().map(|(i, &key)| P::pack(key, i)));
    elements
}

/// So few are selected from by comparing.
const FEW: usize = 24;

/// Where the element is that is at place `at` in the order of keys and, among equal keys, of indices; all keys are within
/// `range`. One pass counts how many keys fall into each of some equal parts of the range, another lists those of the
/// part that the place is in; what is left is cut in the same way, by its own range. And whether there are equal keys.
fn nth(keys: &[u64], mut at: usize, range: (u64, u64)) -> (usize, bool) {
    let mut left =
        if keys.len() <= FEW { (0..keys.len()).collect() } else { part(keys.len(), |i| i, keys, &mut at, range) };
    while left.len() > FEW {
        let range = left.iter().fold((u64::MAX, 0), |(min, max), &i| (keys[i].min(min), keys[i].max(max)));
        if range.0 == range.1 {
            // Equal keys lie in the order of their indices.
            return (left[at], true);
        }
        left = part(left.len(), |i| left[i], keys, &mut at, range);
    }
    let chosen = *left.select_nth_unstable_by_key(at, |&i| (keys[i], i)).1;
    // Equal keys were never parted.
    (chosen, left.iter().any(|&i| i != chosen && keys[i] == keys[chosen]))
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
