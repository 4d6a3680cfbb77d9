//! Distinct elements.

use super::count::{extent, tally};
use super::keys::{Key, Keys};
use super::{PIECE, sort};
use crate::buffer::Buffer;
use crate::copy::Shared;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, dispatch};

/// Distinct elements (or rows), as positions in the source: select them from there for the values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unique {
    /// The first position of each distinct element, in the order of the result.
    pub positions: Vec<i64>,
    /// For each element of the source, which of the results equals it.
    pub inverse: Vec<i64>,
    /// How often each occurs.
    pub counts: Vec<i64>,
}

impl Unique {
    /// From an order of the elements and whether each differs from the one before it in that order.
    fn from_order(order: impl Iterator<Item = i64>, n: usize, differs: impl Fn(usize) -> bool) -> Unique {
        let mut out = Unique { inverse: vec![0; n], ..Unique::default() };
        for (i, position) in order.enumerate() {
            if i == 0 || differs(i) {
                out.positions.push(position);
                out.counts.push(0);
            }
            let last = out.counts.len() - 1;
            out.counts[last] += 1;
            out.inverse[position as usize] = last as i64;
        }
        out
    }
}

/// The runs of equal elements among `n` contiguous ones: writes where each begins to `starts` and, if asked for, which one
/// every element is in; says how many there are. Without branches: which elements differ cannot be predicted.
///
/// # Safety
/// `src` must be valid for `n` elements of `dtype`.
pub unsafe fn runs(src: *const u8, n: usize, dtype: DType, starts: &mut [i64], inverse: Option<&mut [i64]>) -> usize {
    assert!(starts.len() == n && inverse.as_ref().is_none_or(|i| i.len() == n), "a place for every element");
    if n == 0 {
        return 0;
    }
    dispatch!(dtype, T => {
        let data = src.cast::<T>();
        // SAFETY: the caller's elements.
        let differs = |i: usize| unsafe { data.add(i).read_unaligned() != data.add(i - 1).read_unaligned() };
        let mut count = 1;
        starts[0] = 0;
        match inverse {
            None => {
                for i in 1..n {
                    // Written down as the start of the next run, until it is one; there are fewer than `i + 1` before it.
                    starts[count] = i as i64;
                    count += usize::from(differs(i));
                }
            }
            Some(inverse) => {
                inverse[0] = 0;
                for (i, inverse) in inverse.iter_mut().enumerate().skip(1) {
                    starts[count] = i as i64;
                    count += usize::from(differs(i));
                    *inverse = count as i64 - 1;
                }
            }
        }
        count
    })
}

/// Sorts `n` contiguous elements to `sorted` and says how many distinct ones there are; every NaN is. Where each begins
/// among the sorted ones goes to `starts` and, if asked for, which of them every element of the source is to `inverse`.
/// Only the places that `starts` names are sure to be written to `sorted`.
///
/// # Safety
/// `src` and `sorted` must be valid for `n` elements of `dtype`, which must not be complex, and not overlap.
pub unsafe fn unique(
    src: *const u8,
    n: usize,
    dtype: DType,
    sorted: *mut u8,
    starts: &mut [i64],
    inverse: Option<&mut [i64]>,
) -> usize {
    let mut inverse = inverse;
    if FastPath::SortCounting.is_on() {
        // SAFETY: the caller's contract.
        let counted = unsafe { unique_by_counting(src, n, dtype, sorted, starts, inverse.as_deref_mut()) };
        if let Some(count) = counted {
            return count;
        }
    }
    let stride = [dtype.size() as isize];
    let (mut order, mut runs_of_sorted) = (Buffer::<i64>::default(), Buffer::<i64>::default());
    let room = if inverse.is_some() { n } else { 0 };
    let (order, in_run) = (order.room(room), runs_of_sorted.room(room));
    // SAFETY: the outputs hold `n` elements, the indices if they are asked for.
    unsafe {
        let indices = inverse.is_some().then_some((order.cast::<u8>(), &[8isize][..]));
        sort(&[n as i64], 0, Some((sorted, &stride)), indices, (src, &stride), dtype, false);
        let Some(inverse) = inverse else {
            return runs(sorted, n, dtype, starts, None);
        };
        in_run.write_bytes(0, n);
        let in_run = std::slice::from_raw_parts_mut(in_run, n);
        let count = runs(sorted, n, dtype, starts, Some(&mut *in_run));
        for (&position, &run) in std::slice::from_raw_parts(order, n).iter().zip(&*in_run) {
            inverse[position as usize] = run;
        }
        count
    }
}

/// Counts tried in place of sorting, at most: those of two bytes.
const COUNTED: u64 = 1 << 16;

/// [`unique`] of integers within a narrow range (and of booleans), by counting how often each occurs.
///
/// # Safety
/// As for [`unique`].
unsafe fn unique_by_counting(
    src: *const u8,
    n: usize,
    dtype: DType,
    sorted: *mut u8,
    starts: &mut [i64],
    inverse: Option<&mut [i64]>,
) -> Option<usize> {
    assert!(starts.len() == n && inverse.as_ref().is_none_or(|i| i.len() == n), "a place for every element");
    if n == 0 {
        return Some(0);
    }
    // SAFETY: the caller's elements.
    let (least, greatest) = unsafe { extent(src, n, dtype)? };
    if greatest - least >= COUNTED.min((n as u64).saturating_mul(4)).max(256) {
        return None;
    }
    let mut counts = vec![0i64; (greatest - least) as usize + 1];
    // SAFETY: the caller's elements, whose keys are within these bounds.
    unsafe { tally(src, n, dtype, least, &mut counts) };
    let mut found = 0;
    dispatch!(dtype, T in [bool, ints] => {
        let mut at = 0;
        for (i, count) in counts.iter_mut().enumerate() {
            let key = least + i as u64;
            let (begin, rank) = (at, found);
            if *count > 0 {
                starts[rank] = begin;
                // Integers do not share keys.
                let element = <T as Key>::element(key).unwrap_or_default();
                // SAFETY: the counts add up to the elements that there is room for.
                unsafe { sorted.cast::<T>().add(begin as usize).write_unaligned(element) };
                found += 1;
            }
            at += std::mem::replace(count, rank as i64);
        }
        if let Some(inverse) = inverse {
            let (ranks, places, from) = (&counts[..], Shared(inverse.as_mut_ptr()), Shared(src.cast_mut()));
            parallel_for(n, PIECE, &|r| for i in r {
                // SAFETY: this piece's elements, and a place for each.
                unsafe {
                    let key = from.get().cast::<T>().add(i).read_unaligned().key();
                    places.get().add(i).write(ranks[(key - least) as usize]);
                }
            });
        }
    }; else return None);
    Some(found)
}

/// The elements (rows of `width` contiguous ones, `rows` of them) that differ from the one before.
///
/// # Safety
/// `src` must be valid for `rows * width` elements of `dtype`.
pub unsafe fn unique_consecutive(src: *const u8, rows: usize, width: usize, dtype: DType) -> Unique {
    // SAFETY: two rows of the source.
    Unique::from_order(0..rows as i64, rows, |i| unsafe { !rows_equal(src, i, i - 1, width, dtype) })
}

/// The distinct rows of `rows` contiguous ones of `width` elements, in lexicographic order.
///
/// # Safety
/// `src` must be valid for `rows * width` elements of `dtype`, which must not be complex.
pub unsafe fn unique_rows(src: *const u8, rows: usize, width: usize, dtype: DType) -> Unique {
    let mut keys = vec![0u64; rows * width];
    // SAFETY: one key per element.
    unsafe { Keys::new(dtype, false).load(src, dtype.size() as isize, keys.as_mut_ptr(), rows * width) };
    let row = |i: usize| &keys[i * width..(i + 1) * width];
    let mut order: Vec<i64> = (0..rows as i64).collect();
    order.sort_by(|&a, &b| row(a as usize).cmp(row(b as usize)));
    // SAFETY: two rows of the source.
    let differs = |i: usize| unsafe { !rows_equal(src, order[i] as usize, order[i - 1] as usize, width, dtype) };
    Unique::from_order(order.iter().copied(), rows, differs)
}

unsafe fn rows_equal(src: *const u8, a: usize, b: usize, width: usize, dtype: DType) -> bool {
    dispatch!(dtype, T => {
        let data = src.cast::<T>();
        // SAFETY: two of the caller's rows.
        (0..width).all(|j| unsafe {
            data.add(a * width + j).read_unaligned() == data.add(b * width + j).read_unaligned()
        })
    })
}
