//! Sums of rows of an embedding table, and its gradient.

use super::{BadIndex, IndexOperand, check};
use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, run};
use crate::prefetch::prefetch;
use flambeau_base::dtype::cast;
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, Element, bf16, dispatch, f16};
use std::marker::PhantomData;
use std::ops::Range;

/// Adds up, for every row of the table, the rows of `grad` whose index names it: `grad` is `count` contiguous rows of
/// `width` elements, `indices` is `count` contiguous indices, and `out` is the table's `rows` contiguous rows, which
/// are overwritten. Rows of `grad` with index `padding` are left out; with `by_frequency`, each table row's sum is
/// divided by how often it was named. Rows are added in order: the same bits on any number of threads.
///
/// # Safety
/// The three arrays must be valid for those sizes, and `out` must not overlap the others. `dtype` must be floating-point
/// or complex.
pub unsafe fn embedding_backward(
    out: *mut u8,
    rows: i64,
    width: usize,
    grad: *const u8,
    indices: (*const u8, DType),
    count: usize,
    dtype: DType,
    padding: Option<i64>,
    by_frequency: bool,
) -> Result<(), BadIndex> {
    let stride = [indices.1.size() as isize];
    let operand = IndexOperand { data: indices.0, strides: &stride, dtype: indices.1, size: rows, step: 1 };
    // SAFETY: the caller's contract, unchanged.
    let checked = unsafe { check(&[count as i64], &[operand], false)? };
    let out = Shared(out);
    let row_bytes = width * dtype.size();
    parallel_for(rows as usize * row_bytes, 1 << 18, &|r| {
        // SAFETY: a piece of the output.
        unsafe { std::ptr::write_bytes(out.get().add(r.start), 0, r.len()) };
    });
    let indices = match checked.operands.first() {
        // SAFETY: `count` contiguous indices.
        Some(operand) if count > 0 => unsafe { std::slice::from_raw_parts(operand.data.cast::<i64>(), count) },
        _ => return Ok(()),
    };
    let mut counts = Vec::new();
    if by_frequency {
        counts.resize(rows as usize, 0u32);
        for &i in indices {
            counts[i as usize] += 1;
        }
    }
    // Columns in at most 16 pieces of whole cache lines: each piece reads all indices.
    let grain = width.div_ceil(16).max((1 << 15) / count).max(64);
    let grad = Shared(grad.cast_mut());
    parallel_for(width, grain, &|columns| {
        dispatch!(dtype, T in [floats, complexes] => {
            for (k, &i) in indices.iter().enumerate() {
                if Some(i) == padding {
                    continue;
                }
                let scale = counts.get(i as usize).map_or(1.0, |&n| 1.0 / n as f64);
                // SAFETY: these columns of one row of each.
                unsafe {
                    let from = grad.get().cast::<T>().add(k * width + columns.start);
                    let to = out.get().cast::<T>().add(i as usize * width + columns.start);
                    add_row::<T>(to, from, columns.len(), scale);
                }
            }
        }; else unreachable!("the gradient of an embedding is floating-point"));
    });
    Ok(())
}

/// `to += from * scale`.
unsafe fn add_row<T: Element>(to: *mut T, from: *const T, n: usize, scale: f64) {
    // SAFETY: `n` elements of each by the caller's contract.
    unsafe {
        for j in 0..n {
            let (a, b) = (to.add(j).read_unaligned(), from.add(j).read_unaligned());
            let sum = match T::DTYPE {
                DType::Complex64 | DType::Complex128 => T::from_c128(a.to_c128() + b.to_c128() * scale),
                DType::F64 => T::from_f64(a.to_f64() + b.to_f64() * scale),
                _ => T::from_f32(a.to_f32() + b.to_f32() * scale as f32),
            };
            to.add(j).write_unaligned(sum);
        }
    }
}

/// Adds up rows of a table in bags: `out` is `count` contiguous rows of `width` elements, of which row `b` is the sum of
/// the table's rows `indices[starts[b]..starts[b + 1]]`, each times its factor if there are `factors` (one per index, of the
/// table's dtype), all divided by `sizes[b]` where that is above 1 if there are `sizes`. Rows with index `padding` are left
/// out. Halves are added up in single precision.
///
/// # Safety
/// `table` must be contiguous rows of `width` elements, one for each index, `out` as above, and the factors as many as the
/// indices; `out` must not overlap the others. `dtype` must be floating-point.
pub unsafe fn sum_bags(
    out: *mut u8,
    width: usize,
    (table, dtype): (*const u8, DType),
    indices: &[i64],
    starts: &[usize],
    factors: Option<*const u8>,
    sizes: Option<&[i64]>,
    padding: Option<i64>,
) {
    let given = Bags { width, indices, starts, factors, sizes, padding };
    // SAFETY: the caller's contract, of the dtype's type.
    unsafe {
        match dtype {
            DType::F16 => add_bags::<f16, f32>(out.cast(), table.cast(), &given),
            DType::BF16 => add_bags::<bf16, f32>(out.cast(), table.cast(), &given),
            DType::F32 => add_bags::<f32, f32>(out.cast(), table.cast(), &given),
            _ => add_bags::<f64, f64>(out.cast(), table.cast(), &given),
        }
    }
}

/// See [`sum_bags`].
struct Bags<'a> {
    width: usize,
    indices: &'a [i64],
    starts: &'a [usize],
    factors: Option<*const u8>,
    sizes: Option<&'a [i64]>,
    padding: Option<i64>,
}
// SAFETY: the factors are only read.
unsafe impl Sync for Bags<'_> {}

unsafe fn add_bags<T: Element, C: Float + Element>(out: *mut T, table: *const T, given: &Bags<'_>) {
    let (out, table) = (Shared(out), Shared(table.cast_mut()));
    let count = given.starts.len().saturating_sub(1);
    let each = given.width * given.indices.len().div_ceil(count.max(1)).max(1);
    parallel_for(count, GRAIN.div_ceil(each.max(1)), &|bags| {
        // SAFETY: the caller's; every bag is one piece of work's.
        unsafe { run::<AddBags<'_, T, C>>((given, bags, table.get().cast_const(), out.get())) };
    });
}

struct AddBags<'a, T, C>(PhantomData<&'a (T, C)>);

impl<'a, T: Element, C: Float + Element> Kernel for AddBags<'a, T, C> {
    /// What is given, the bags, the table and the whole output.
    type Args = (&'a Bags<'a>, Range<usize>, *const T, *mut T);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((given, bags, table, out): Self::Args) {
        let width = given.width;
        for bag in bags {
            let mut column = 0;
            while column < width {
                // What is left of a row goes with the columns before it into as many as fit a vector: columns that are
                // added up twice come out the same.
                let rest = width - column;
                let size = [64, 16, 4].into_iter().find(|&n| width >= n && rest > n / 4).unwrap_or(1);
                let first = column.min(width - size);
                // SAFETY: so many columns of the bag's rows and of its result.
                unsafe {
                    let (table, out) = (table.add(first), out.add(bag * width + first));
                    match size {
                        64 => Self::columns::<I, 64>(given, bag, table, out),
                        16 => Self::columns::<I, 16>(given, bag, table, out),
                        4 => Self::columns::<I, 4>(given, bag, table, out),
                        _ => Self::columns::<I, 1>(given, bag, table, out),
                    }
                }
                column = first + size;
            }
        }
    }
}

impl<'a, T: Element, C: Float + Element> AddBags<'a, T, C> {
    /// The first `N` columns from the table's and the result's addresses on, added up in registers.
    ///
    /// # Safety
    /// As [`sum_bags`].
    #[inline(always)]
    unsafe fn columns<I: Isa, const N: usize>(given: &Bags<'_>, bag: usize, table: *const T, out: *mut T) {
        /// Rows between the one that is added and the one that is asked for: they lie anywhere.
        const AHEAD: usize = 8;
        let Bags { width, indices, starts, factors, sizes, padding } = *given;
        let row = |k: usize| table.wrapping_add(indices[k] as usize * width);
        let mut sum = [C::ZERO; N];
        for k in starts[bag]..starts[bag + 1] {
            if k + AHEAD < indices.len() {
                for j in (0..N).step_by(64 / size_of::<T>()) {
                    prefetch(row(k + AHEAD).wrapping_add(j).cast());
                }
            }
            if Some(indices[k]) == padding {
                continue;
            }
            // SAFETY: a part of a row of the table, and a factor.
            unsafe {
                let factor = factors.map_or(C::ONE, |f| cast(f.cast::<T>().add(k).read_unaligned()));
                let row = row(k).cast::<[T; N]>().read_unaligned();
                (0..N).for_each(|j| sum[j] = C::mul_add::<I>(cast(row[j]), factor, sum[j]));
            }
        }
        let divisor = C::from_i64(sizes.map_or(1, |sizes| sizes[bag].max(1)));
        for (j, s) in sum.iter().enumerate() {
            // SAFETY: an element of this bag's row.
            unsafe { out.add(j).write(cast(*s / divisor)) };
        }
    }
}

/// For every bag and column the row with the largest element, -1 for a bag without rows: `out` is as many contiguous rows
/// of `width` as there are bags. See [`sum_bags`].
///
/// # Safety
/// `table` must be contiguous rows of `width` real elements, one for each index.
pub unsafe fn largest_of_bags(
    out: &mut [i64],
    width: usize,
    (table, dtype): (*const u8, DType),
    indices: &[i64],
    starts: &[usize],
    padding: Option<i64>,
) {
    out.fill(-1);
    dispatch!(dtype, T in [floats] => {
        let mut best = vec![T::default(); width];
        for (bag, out) in starts.windows(2).zip(out.chunks_exact_mut(width.max(1))) {
            for &i in indices[bag[0]..bag[1]].iter().filter(|i| Some(**i) != padding) {
                // SAFETY: a row of the table, read where it may not be aligned.
                let row = |d: usize| unsafe { table.cast::<T>().add(i as usize * width + d).read_unaligned() };
                for (d, (best, out)) in best.iter_mut().zip(&mut *out).enumerate() {
                    let x = row(d);
                    if *out < 0 || x > *best {
                        (*best, *out) = (x, i);
                    }
                }
            }
        }
    }; else unreachable!("tables hold floats"))
}
