//! Searching sorted sequences.

use crate::buffer::Scratch;
use crate::copy::{Shared, cast_strip};
use crate::math::level;
use crate::with_isa;
use flambeau_base::fast_paths::FastPath;
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
    if matches!(dtype, DType::BF16 | DType::F16) {
        // Halves are compared as `f32`: converted once, and not each time they are looked at.
        let widen = |from: *const u8, n: usize| {
            let to = Scratch::<f32>::new(n);
            let [half, single] = [size_of::<u16>(), size_of::<f32>()].map(|size| size as isize);
            // SAFETY: the caller's array, and room for as many numbers.
            unsafe { cast_strip(dtype, DType::F32)(from, half, to.get().cast(), single, n) };
            to
        };
        let wide = [widen(boundaries, boundary_rows * length), widen(values, rows * width)];
        let [boundaries, values] = wide.each_ref().map(|numbers| numbers.get().cast::<u8>().cast_const());
        // SAFETY: the same numbers in the same order.
        return unsafe {
            searchsorted(boundaries, boundary_rows, length, sorter, values, rows, width, DType::F32, out, right)
        };
    }
    let (boundaries, values) = (Shared(boundaries.cast_mut()), Shared(values.cast_mut()));
    let (target, sorter) = (Shared(out.0), sorter.map(|s| Shared(s.cast_mut())));
    let wide = out.1 == DType::I64;
    dispatch!(dtype, T in [bool, ints, reals] => {
        // SAFETY: elements of the caller's arrays.
        let value = |i: usize| unsafe { values.get().cast::<T>().add(i).read_unaligned() };
        // SAFETY: as above.
        let boundary = |at: usize| unsafe { boundaries.get().cast::<T>().add(at).read_unaligned() };
        let row = |i: usize| if boundary_rows == 1 { 0 } else { i / width * length };
        // SAFETY: as above; one output for each value.
        let put = |i: usize, place: usize| unsafe {
            if wide {
                target.get().cast::<i64>().add(i).write_unaligned(place as i64);
            } else {
                target.get().cast::<i32>().add(i).write_unaligned(place as i32);
            }
        };
        // Among boundaries in order, of which none is NaN, or of a single one, every way to search finds the same place.
        let in_order = sorter.is_none()
            && boundary_rows == 1
            && FastPath::SearchInOrder.is_on()
            && (1..=rows * width).contains(&length)
            && (1..length).all(|j| boundary(j - 1) <= boundary(j));
        parallel_for(rows * width, 1 << 11, &|r| {
            let end = r.end;
            if in_order && length <= SCANNED {
                for start in r.step_by(BLOCK) {
                    let n = BLOCK.min(end - start);
                    let (mut block, mut places) = ([T::default(); BLOCK], [0u32; BLOCK]);
                    block[..n].iter_mut().enumerate().for_each(|(i, x)| *x = value(start + i));
                    let (block, places) = (&block[..n], &mut places[..n]);
                    with_isa!(level(), _I => (0..length).for_each(|j| pass(boundary(j), block, right, places)));
                    places.iter().enumerate().for_each(|(i, &place)| put(start + i, place as usize));
                }
                return;
            }
            for i in r.step_by(TOGETHER) {
                // What is left of the last group is searched for again and again.
                let at: [usize; TOGETHER] = std::array::from_fn(|l| (i + l).min(end - 1));
                let (rows, values) = (at.map(row), at.map(value));
                let places = match sorter {
                    None if in_order => search_in_order(length, &values, right, boundary),
                    None => search(length, &values, right, |l, j| boundary(rows[l] + j)),
                    Some(sorter) => search(length, &values, right, |l, j| {
                        // SAFETY: the caller's sorter, of which every row stays in its row of boundaries.
                        boundary(rows[l] + unsafe { sorter.get().add(rows[l] + j).read() } as usize)
                    }),
                };
                at.into_iter().zip(places).for_each(|(i, place)| put(i, place));
            }
        });
    }; else unreachable!("complex numbers have no order"));
}

/// Up to so many boundaries in order are all compared with every value, many values at once.
const SCANNED: usize = 16;
/// Values that are compared at a time.
const BLOCK: usize = 64;

/// Moves each value past a boundary that does not stop it.
#[inline(always)]
fn pass<T: Copy + PartialOrd>(boundary: T, values: &[T], right: bool, places: &mut [u32]) {
    let pairs = places.iter_mut().zip(values);
    match right {
        true => pairs.for_each(|(place, &value)| *place += 1 - u32::from(boundary > value)),
        false => pairs.for_each(|(place, &value)| *place += 1 - u32::from(boundary >= value)),
    }
}

/// Values that are searched for together: each step of a search waits for the one before, but not for other searches.
const TOGETHER: usize = 8;

/// Where each value goes among `length` boundaries in order, at least one: all searches take the same steps.
#[inline(always)]
fn search_in_order<T: Copy + PartialOrd>(
    length: usize,
    values: &[T; TOGETHER],
    right: bool,
    boundary: impl Fn(usize) -> T,
) -> [usize; TOGETHER] {
    let passes = |at: usize, l: usize| {
        let (x, value) = (boundary(at), values[l]);
        !((x > value) | ((x >= value) & !right)) as usize
    };
    let (mut places, mut left) = ([0; TOGETHER], length);
    while left > 1 {
        let half = left / 2;
        for (l, place) in places.iter_mut().enumerate() {
            // Without branches: nothing predicts which way a search goes.
            *place += half * passes(*place + half - 1, l);
        }
        left -= half;
    }
    for (l, place) in places.iter_mut().enumerate() {
        *place += passes(*place, l);
    }
    places
}

/// Where each value goes among `length` boundaries, which PyTorch looks at in this order: it is seen where they are not
/// in order.
#[inline(always)]
fn search<T: Copy + PartialOrd>(
    length: usize,
    values: &[T; TOGETHER],
    right: bool,
    boundary: impl Fn(usize, usize) -> T,
) -> [usize; TOGETHER] {
    let (mut start, mut end) = ([0; TOGETHER], [length; TOGETHER]);
    // What is left of a search is at least halved, rounding down.
    for _ in 0..usize::BITS - length.leading_zeros() {
        for l in 0..TOGETHER {
            let middle = start[l] + (end[l] - start[l]) / 2;
            // A search that has ended must still look somewhere.
            let x = boundary(l, middle.min(length - 1));
            // Not before and not after NaN: PyTorch moves right past whatever does not compare.
            let stop = (x > values[l]) | ((x >= values[l]) & !right);
            // Selects, not branches: nothing predicts which way a search goes.
            let moves = !stop & (start[l] < end[l]);
            end[l] = if stop { middle } else { end[l] };
            start[l] = if moves { middle + 1 } else { start[l] };
        }
    }
    start
}
