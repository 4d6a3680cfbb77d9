//! The gradient of an embedding table.

use super::{BadIndex, IndexOperand, check};
use crate::copy::Shared;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, Element, dispatch};

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
