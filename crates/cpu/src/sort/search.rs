//! Searching sorted sequences, and counting.

use crate::copy::Shared;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, dispatch};

/// Where each value would go in a sorted sequence: before its equals, or after them with `right`. `boundaries` is
/// `boundary_rows` (1, or as many as the values have) contiguous rows of `length`, `values` is `rows` contiguous rows
/// of `width`, both of `dtype`; `sorter`, if given, is the order in which to read each row of boundaries. The outputs
/// are `I64`, or `I32` when `out` says so. `bucketize` is one row of boundaries.
///
/// # Safety
/// The arrays must be valid for those sizes; sorter values must be within `0..length`. `dtype` must not be complex.
pub unsafe fn searchsorted(
    boundaries: *const u8,
    boundary_rows: usize,
    length: usize,
    sorter: Option<*const i64>,
    values: *const u8,
    rows: usize,
    width: usize,
    dtype: DType,
    out: (*mut u8, DType),
    right: bool,
) {
    let (boundaries, values) = (Shared(boundaries.cast_mut()), Shared(values.cast_mut()));
    let (target, sorter) = (Shared(out.0), sorter.map(|s| Shared(s.cast_mut())));
    let wide = out.1 == DType::I64;
    parallel_for(rows * width, 1 << 11, &|r| {
        dispatch!(dtype, T in [bool, ints, floats] => for i in r {
            let row = if boundary_rows == 1 { 0 } else { i / width * length };
            // SAFETY: elements of the caller's arrays.
            unsafe {
                let value = values.get().cast::<T>().add(i).read_unaligned();
                let at = |j: usize| {
                    let j = sorter.map_or(j, |s| s.get().add(row + j).read() as usize);
                    boundaries.get().cast::<T>().add(row + j).read_unaligned()
                };
                let (mut start, mut end) = (0, length);
                while start < end {
                    let middle = start + (end - start) / 2;
                    let x = at(middle);
                    // Not before and not after NaN: PyTorch moves right past whatever does not compare.
                    let stop = if right { x > value } else { x >= value };
                    // Selects, not branches: nothing predicts which way a search goes.
                    end = if stop { middle } else { end };
                    start = if stop { start } else { middle + 1 };
                }
                if wide {
                    target.get().cast::<i64>().add(i).write_unaligned(start as i64);
                } else {
                    target.get().cast::<i32>().add(i).write_unaligned(start as i32);
                }
            }
        }; else unreachable!("complex numbers have no order"));
    });
}

/// How many counts numbers from zero up need, at least `least`. A negative value is returned with its position.
pub fn bins(values: &[i64], least: usize) -> Result<usize, (usize, i64)> {
    let (min, max) = values.iter().fold((0, -1), |(min, max), &v| (v.min(min), v.max(max)));
    match values.iter().position(|&v| min < 0 && v < 0) {
        Some(position) => Err((position, values[position])),
        None => Ok(least.max(max.saturating_add(1) as usize)),
    }
}

/// Adds to `counts` how often each of `0..` occurs; there are as many as [`bins`] says.
pub fn bincount(values: &[i64], counts: &mut [i64]) {
    for &value in values {
        counts[value as usize] += 1;
    }
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
