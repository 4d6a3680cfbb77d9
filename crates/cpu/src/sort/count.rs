//! Counting: how often numbers occur, and how many values fall between edges.

use super::PIECE;
use super::keys::Key;
use crate::copy::Shared;
use crate::math::level;
use crate::with_isa;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, dispatch};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Up to so many counts are kept four times and added up: increments of one count in a row wait for each other.
const REPEATED: usize = 1 << 10;
/// Up to so many counts each piece of parallel work has its own.
const SHARED_OUT: usize = 1 << 12;

/// The keys of the least and the greatest of `n` integers (at least one; for booleans, of both that there are); nothing
/// for other dtypes.
///
/// # Safety
/// `values` must be valid for `n` elements of `dtype`.
pub(super) unsafe fn extent(values: *const u8, n: usize, dtype: DType) -> Option<(u64, u64)> {
    if dtype == DType::Bool {
        return Some((0, 1));
    }
    let (least, greatest) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let values = Shared(values.cast_mut());
    dispatch!(dtype, T in [ints] => parallel_for(n, PIECE, &|r| {
        let values = values.get().cast::<T>();
        // SAFETY: elements of the caller's.
        let value = |i: usize| unsafe { values.add(i).read_unaligned() };
        let (min, max) = with_isa!(level(), _I => {
            let first = value(r.start);
            r.fold((first, first), |(min, max), i| {
                let x = value(i);
                (if x < min { x } else { min }, if x > max { x } else { max })
            })
        });
        least.fetch_min(min.key(), Relaxed);
        greatest.fetch_max(max.key(), Relaxed);
    }); else return None);
    Some((least.into_inner(), greatest.into_inner()))
}

/// Adds to `counts` how many of `n` integers or booleans have each key from `base` on; there must be a count for each.
///
/// # Safety
/// `values` must be valid for `n` elements of `dtype`.
pub(super) unsafe fn tally(values: *const u8, n: usize, dtype: DType, base: u64, counts: &mut [i64]) {
    let buckets = counts.len();
    // At most sixteen pieces, so that adding them up stays cheap.
    let piece = PIECE.max(n.div_ceil(16));
    if n <= piece || buckets > SHARED_OUT {
        // SAFETY: the caller's elements.
        return unsafe { tally_piece(values, n, dtype, base, counts) };
    }
    let mut parts = vec![0i64; n.div_ceil(piece) * buckets];
    let (shared, values) = (Shared(parts.as_mut_ptr()), Shared(values.cast_mut()));
    parallel_for(n, piece, &|r| {
        // SAFETY: this piece's elements and counts.
        unsafe {
            let part = std::slice::from_raw_parts_mut(shared.get().add(r.start / piece * buckets), buckets);
            tally_piece(values.get().add(r.start * dtype.size()), r.len(), dtype, base, part);
        }
    });
    for part in parts.chunks_exact(buckets) {
        counts.iter_mut().zip(part).for_each(|(count, part)| *count += part);
    }
}

unsafe fn tally_piece(values: *const u8, n: usize, dtype: DType, base: u64, counts: &mut [i64]) {
    if dtype == DType::Bool && base == 0 && counts.len() == 2 {
        // SAFETY: the caller's elements, a byte each.
        let bytes = unsafe { std::slice::from_raw_parts(values, n) };
        let ones = with_isa!(level(), _I => bytes.iter().map(|&b| i64::from(b != 0)).sum::<i64>());
        counts[0] += n as i64 - ones;
        counts[1] += ones;
        return;
    }
    dispatch!(dtype, T in [bool, ints] => {
        // SAFETY: the caller's elements.
        let offset = |i: usize| unsafe { values.cast::<T>().add(i).read_unaligned().key().wrapping_sub(base) as usize };
        let buckets = counts.len();
        if size_of::<T>() > 1 && (buckets > REPEATED || n < 4 * buckets) || n > u32::MAX as usize {
            return (0..n).for_each(|i| counts[offset(i)] += 1);
        }
        let whole = n - n % 4;
        if size_of::<T>() == 1 {
            // Every byte has a count, so that none is looked for in vain.
            let mut tables = [[0u32; 4]; 256];
            for i in (0..whole).step_by(4) {
                (0..4).for_each(|l| tables[offset(i + l) as u8 as usize][l] += 1);
            }
            (whole..n).for_each(|i| tables[offset(i) as u8 as usize][0] += 1);
            for (i, parts) in tables.iter().enumerate().filter(|(_, parts)| **parts != [0; 4]) {
                counts[i] += parts.iter().map(|&part| i64::from(part)).sum::<i64>();
            }
            return;
        }
        let mut tables = vec![[0u32; 4]; buckets];
        for i in (0..whole).step_by(4) {
            (0..4).for_each(|l| tables[offset(i + l)][l] += 1);
        }
        (whole..n).for_each(|i| tables[offset(i)][0] += 1);
        for (count, parts) in counts.iter_mut().zip(tables) {
            *count += parts.into_iter().map(i64::from).sum::<i64>();
        }
    }; else unreachable!("only integers are counted"));
}

/// The key of zero: what to subtract from keys for the numbers themselves.
fn key_of_zero(dtype: DType) -> u64 {
    dispatch!(dtype, T in [ints] => Key::key(T::default()); else 0)
}

/// How many counts numbers from zero up need, at least `least`. Nothing if there is a negative number, or one that no
/// `i64` can be.
///
/// # Safety
/// `values` must be valid for `n` elements of `dtype`, an integer type.
pub unsafe fn bins(values: *const u8, n: usize, dtype: DType, least: usize) -> Option<usize> {
    if n == 0 {
        return Some(least);
    }
    // SAFETY: the caller's elements.
    let (min, max) = unsafe { extent(values, n, dtype)? };
    let zero = key_of_zero(dtype);
    let max = i64::try_from(max.checked_sub(zero)?).ok()?;
    (min >= zero).then_some(least.max(max.saturating_add(1) as usize))
}

/// Adds to `counts` how often each of `0..` occurs; there are as many as [`bins`] says.
///
/// # Safety
/// As for [`bins`].
pub unsafe fn bincount(values: *const u8, n: usize, dtype: DType, counts: &mut [i64]) {
    // SAFETY: the caller's elements.
    unsafe { tally(values, n, dtype, key_of_zero(dtype), counts) }
}

/// [`bincount`], adding up weights (one per value) instead of ones.
pub fn bincount_weighted<W: Copy + std::ops::AddAssign>(values: &[i64], weights: &[W], sums: &mut [W]) {
    for (&value, &weight) in values.iter().zip(weights) {
        sums[value as usize] += weight;
    }
}

/// Sums of weights (ones without any) of the values between consecutive edges; the last bin includes its right edge,
/// and what lies outside, or is NaN, is not counted. `uniform` says that edges are evenly spaced, so that a bin can be
/// computed instead of searched; with `exact`, a computed bin is checked against the edges, as `torch.histogram` does
/// and `torch.histc` does not.
pub fn histogram<T>(values: &[T], weights: Option<&[T]>, edges: &[T], uniform: bool, exact: bool) -> Vec<T>
where
    T: num_traits::Float + std::ops::AddAssign + Default,
{
    let bins = edges.len().saturating_sub(1);
    let mut sums = vec![T::default(); bins];
    if bins == 0 {
        return sums;
    }
    let (first, last) = (edges[0], edges[bins]);
    let count = T::from(bins).unwrap_or_else(T::one);
    for (i, &value) in values.iter().enumerate() {
        if !(value >= first && value <= last) {
            continue;
        }
        let mut bin = if uniform {
            ((value - first) * count / (last - first)).to_usize().unwrap_or(0)
        } else {
            edges.partition_point(|&edge| edge <= value).saturating_sub(1)
        };
        bin = bin.min(bins - 1);
        if uniform && exact {
            if bin > 0 && value < edges[bin] {
                bin -= 1;
            } else if bin + 1 < bins && value >= edges[bin + 1] {
                bin += 1;
            }
        }
        sums[bin] += weights.map_or(T::one(), |w| w[i]);
    }
    sums
}
