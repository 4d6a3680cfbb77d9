//! Indexing: reading and writing elements at positions that index tensors name.
//!
//! Everything is one of two walks. A *take* (`take.rs`) reads `src[offset]` for every output element, where the offset
//! is the sum over the index operands of index × step: gather, index_select, advanced indexing and take differ only in
//! the strides they pass. A *put* (`put.rs`) writes or combines at such offsets: scatter, index_copy, index_add,
//! index_put. `mask.rs` has what boolean masks select, `embedding.rs` the gradient of an embedding.
//!
//! Indices are checked before anything is written: the first one out of range, in row-major order, is returned as a
//! [`BadIndex`]. Duplicates are combined in row-major order of the index, whatever the number of threads: the last
//! write wins, and sums come out with the same bits every time.

mod embedding;
mod mask;
mod put;
mod select;
mod strip;
mod take;

pub use embedding::{embedding_backward, largest_of_bags, sum_bags};
pub use mask::{Mask, masked_fill};
pub use put::{ReduceOp, index_copy, index_put, put_flat, scatter};
pub use select::select;
pub use take::{gather, index, index_select, take_flat};

use crate::copy::copy_strided;
use crate::math::level;
use crate::with_isa;
use flambeau_base::DType;
use flambeau_base::iter::Iter;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// An index tensor, broadcast to the shape of the walk.
#[derive(Clone, Copy)]
pub struct IndexOperand<'a> {
    /// The first index.
    pub data: *const u8,
    /// Strides in bytes, one per dimension of the walk (0 where it is broadcast).
    pub strides: &'a [isize],
    /// `I64`, or `I32`; no other dtype is an index.
    pub dtype: DType,
    /// Size of the dimension it indexes.
    pub size: i64,
    /// Stride in bytes of the dimension it indexes.
    pub step: isize,
}

/// An index out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadIndex {
    /// Which index operand.
    pub operand: usize,
    /// Its row-major position in the walk's shape.
    pub position: usize,
    /// The index found there.
    pub value: i64,
    /// The size of the dimension it indexes.
    pub size: i64,
}

/// Index operands after checking: `i64`, in range, not negative.
struct Checked {
    operands: Vec<CheckedOperand>,
}

struct CheckedOperand {
    data: *const u8,
    strides: Vec<isize>,
    step: isize,
    /// What `data` points into, when the caller's indices had to be widened or wrapped.
    _owned: Option<Vec<i64>>,
}

// SAFETY: the addresses are only read, while the caller keeps the index tensors alive and unchanged.
unsafe impl Sync for CheckedOperand {}

/// Checks every index; negative ones count from the end when `wrap` is set.
unsafe fn check(sizes: &[i64], indices: &[IndexOperand], wrap: bool) -> Result<Checked, BadIndex> {
    let mut operands = Vec::with_capacity(indices.len());
    if sizes.contains(&0) {
        return Ok(Checked { operands });
    }
    for (number, operand) in indices.iter().enumerate() {
        // Look at each index once, however often it is broadcast.
        let compact: Vec<i64> = sizes.iter().zip(operand.strides).map(|(&n, &s)| if s == 0 { 1 } else { n }).collect();
        let low = if wrap { -operand.size } else { 0 };
        let (dtype, high) = (operand.dtype, operand.size);
        let (bad, negative) = (AtomicBool::new(false), AtomicBool::new(false));
        let it = Iter::new(&compact, &[(operand.data.cast_mut(), operand.strides)]);
        it.for_each(&|p, s, n| {
            // SAFETY: `n` indices of the caller's operand.
            let (min, max) = unsafe {
                match dtype {
                    DType::I32 => extremes::<i32>(p[0], s[0], n),
                    _ => extremes::<i64>(p[0], s[0], n),
                }
            };
            if min < low || max >= high {
                bad.store(true, Relaxed);
            }
            if min < 0 {
                negative.store(true, Relaxed);
            }
        });
        if bad.into_inner() {
            // SAFETY: the caller's operand.
            return Err(unsafe { first_bad(sizes, operand, number, low) });
        }
        if operand.dtype == DType::I64 && !negative.into_inner() {
            operands.push(CheckedOperand {
                data: operand.data,
                strides: operand.strides.to_vec(),
                step: operand.step,
                _owned: None,
            });
            continue;
        }
        let mut owned = vec![0i64; compact.iter().product::<i64>() as usize];
        let mut strides = contiguous_strides(&compact, 8);
        // SAFETY: the buffer holds the compact shape.
        unsafe {
            copy_strided(
                &compact,
                (owned.as_mut_ptr().cast(), &strides, DType::I64),
                (operand.data, operand.strides, operand.dtype),
            );
        }
        for value in &mut owned {
            *value += operand.size & (*value >> 63);
        }
        for (stride, &size) in strides.iter_mut().zip(&compact) {
            if size == 1 {
                *stride = 0;
            }
        }
        operands.push(CheckedOperand { data: owned.as_ptr().cast(), strides, step: operand.step, _owned: Some(owned) });
    }
    Ok(Checked { operands })
}

/// The least and the greatest of `n` indices.
unsafe fn extremes<T: Copy + Into<i64> + Ord>(data: *const u8, stride: isize, n: usize) -> (i64, i64) {
    // SAFETY: the caller's `n` indices.
    let at = |i: usize| unsafe { data.offset(i as isize * stride).cast::<T>().read_unaligned() };
    let first = at(0);
    let widest = |(min, max): (T, T), x: T| (min.min(x), max.max(x));
    let (min, max) = if stride == size_of::<T>() as isize {
        // SAFETY: the caller's `n` indices, end to end.
        let at = |i: usize| unsafe { data.cast::<T>().add(i).read_unaligned() };
        with_isa!(level(), _I => (0..n).map(at).fold((first, first), widest))
    } else {
        (1..n).map(at).fold((first, first), widest)
    };
    (min.into(), max.into())
}

/// The first bad index in row-major order; there is one.
unsafe fn first_bad(sizes: &[i64], operand: &IndexOperand, number: usize, low: i64) -> BadIndex {
    let numel = sizes.iter().product::<i64>() as usize;
    for position in 0..numel {
        let (mut rest, mut p) = (position, operand.data);
        for d in (0..sizes.len()).rev() {
            p = p.wrapping_offset((rest % sizes[d] as usize) as isize * operand.strides[d]);
            rest /= sizes[d] as usize;
        }
        // SAFETY: an index of the caller's operand.
        let value = unsafe {
            match operand.dtype {
                DType::I32 => p.cast::<i32>().read_unaligned() as i64,
                _ => p.cast::<i64>().read_unaligned(),
            }
        };
        if value < low || value >= operand.size {
            return BadIndex { operand: number, position, value, size: operand.size };
        }
    }
    unreachable!("first_bad is called when a bad index was seen")
}

/// Row-major strides in bytes for elements of `size` bytes.
fn contiguous_strides(sizes: &[i64], size: usize) -> Vec<isize> {
    let mut strides = vec![0; sizes.len()];
    let mut step = size as isize;
    for d in (0..sizes.len()).rev() {
        strides[d] = step;
        step *= sizes[d].max(1) as isize;
    }
    strides
}

/// `strides` with dimension `dim` broadcast.
fn without(strides: &[isize], dim: usize) -> Vec<isize> {
    let mut strides = strides.to_vec();
    if let Some(stride) = strides.get_mut(dim) {
        *stride = 0;
    }
    strides
}

/// The strides of a 1-d index along dimension `dim` of `ndim`.
fn along(ndim: usize, dim: usize, stride: isize) -> Vec<isize> {
    let mut strides = vec![0; ndim];
    if let Some(s) = strides.get_mut(dim) {
        *s = stride;
    }
    strides
}

/// Drops dimensions that only make an element wider: short rows, contiguous on both sides, that no index tells apart.
/// `operands` are the strides of the two sides. Returns the wider element size.
fn widen(sizes: &mut Vec<i64>, sides: [&mut Vec<isize>; 2], checked: &mut Checked, mut size: usize) -> usize {
    let [a, b] = sides;
    loop {
        let row = |d: usize| sizes[d] as usize * size;
        let dim = (0..sizes.len()).find(|&d| {
            sizes[d] > 1
                && a[d] == size as isize
                && b[d] == size as isize
                && matches!(row(d), 2 | 4 | 8 | 16)
                && checked.operands.iter().all(|o| o.strides[d] == 0)
        });
        let Some(d) = dim else { return size };
        size = row(d);
        sizes.remove(d);
        a.remove(d);
        b.remove(d);
        for operand in &mut checked.operands {
            operand.strides.remove(d);
        }
    }
}

/// Runs `run` with the total offset of each of `n` elements, block by block: `run(first element, offsets)`.
unsafe fn offsets_in_blocks(
    data: &[*mut u8],
    strides: &[isize],
    checked: &Checked,
    n: usize,
    run: &mut dyn FnMut(usize, &[i64]),
) {
    const BLOCK: usize = 256;
    let mut block = [0i64; BLOCK];
    for start in (0..n).step_by(BLOCK) {
        let count = BLOCK.min(n - start);
        block[..count].fill(0);
        for ((&p, &stride), operand) in data.iter().zip(strides).zip(&checked.operands) {
            for (i, offset) in block[..count].iter_mut().enumerate() {
                // SAFETY: an index of the caller's operand.
                let value = unsafe { p.offset((start + i) as isize * stride).cast::<i64>().read_unaligned() };
                *offset += value * operand.step as i64;
            }
        }
        run(start, &block[..count]);
    }
}

#[cfg(test)]
mod tests;
