//! Writing and combining at index positions.
//!
//! The destination's strides are 0 along the dimensions that exist only in the indices: two positions that differ only
//! there may hit the same element, so those dimensions run in order, on one thread for each element, and the others run in
//! parallel.

use super::strip::{PutStrip, Sum, Times, put_strip, reduce_strip, replace_strip, strip_of};
use super::{BadIndex, Checked, IndexOperand, along, check, contiguous_strides, offsets_in_blocks, without};
use crate::buffer::Buffer;
use crate::copy::copy_strided;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::iter::Iter;
use flambeau_base::parallel::{num_threads, parallel_for};
use flambeau_base::{DType, Element, dispatch};

/// Elements that are worth a piece of work, where its indices are its own or all pieces read the same; and columns of a
/// piece of rows: narrower parts cost more to fetch.
const OWN_PIECE: usize = 1 << 15;
const SHARED_PIECE: usize = 1 << 17;
const NARROW: usize = 256;

/// Columns of a row for which it pays that each thread looks through all indices for its own rows.
const FEWEST_COLUMNS: usize = 64;

/// How values that hit one element are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Their sum (`or` for booleans).
    Sum,
    /// Their product (`and` for booleans).
    Prod,
    /// The greatest; NaN wins. Not for complex numbers.
    Amax,
    /// The least; NaN wins. Not for complex numbers.
    Amin,
    /// Their mean, rounded down for integers.
    Mean,
}

/// `dst[i + sum of index[i] * step] = src[i]` for every position `i` of `sizes`, in row-major order where elements
/// coincide; with `accumulate`, `+=`. The destination's strides are 0 along the dimensions that exist only in the indices.
/// The source may be broadcast.
///
/// # Safety
/// `src` and the indices must be valid for `sizes` at their strides, `dst` for every index within its operand's size;
/// `dst` must not overlap the others, and its elements must be distinct.
pub unsafe fn index_put(
    sizes: &[i64],
    dst: (*mut u8, &[isize]),
    src: (*const u8, &[isize]),
    indices: &[IndexOperand],
    dtype: DType,
    accumulate: bool,
    wrap: bool,
) -> Result<(), BadIndex> {
    // SAFETY: the caller's contract, unchanged.
    unsafe {
        let checked = check(sizes, indices, wrap)?;
        put(sizes, dst, src, &checked, strip_of(dtype, accumulate));
    }
    Ok(())
}

/// `dst[.., index[.., i, ..], ..] = src[.., i, ..]` along `dim`: `sizes` are the index's, and `dst_size` is the
/// destination's size along `dim`. With `reduce` the values that hit an element are combined, what was there taking part
/// if the flag is set: `scatter_add` is a sum with it.
///
/// # Safety
/// As for [`index_put`], the destination being at least as large as `sizes` in the other dimensions.
pub unsafe fn scatter(
    sizes: &[i64],
    dim: usize,
    dst: (*mut u8, &[isize]),
    dst_size: i64,
    src: (*const u8, &[isize]),
    indices: (*const u8, &[isize], DType),
    dtype: DType,
    reduce: Option<(ReduceOp, bool)>,
    wrap: bool,
) -> Result<(), BadIndex> {
    let step = dst.1.get(dim).copied().unwrap_or(0);
    let operand = IndexOperand { data: indices.0, strides: indices.1, dtype: indices.2, size: dst_size, step };
    // SAFETY: the caller's contract; the index takes the place of the position along `dim`.
    unsafe {
        let mut checked = check(sizes, &[operand], wrap)?;
        if sizes.contains(&0) {
            return Ok(());
        }
        let mut hit = sizes.to_vec();
        if let Some(size) = hit.get_mut(dim) {
            *size = dst_size;
        }
        let mut buffer = Buffer::<u8>::default();
        let apart = falls_together(sizes, dim, &hit, step, indices.1).then(|| spread_strides(&hit, dim, dtype.size()));
        let apart = apart.and_then(|(strides, bytes)| Some((buffer.try_room(bytes)?, strides)));
        let Some((data, strides)) = apart else {
            scatter_checked(sizes, dim, dst, &hit, src, checked, dtype, reduce);
            return Ok(());
        };
        let spread = (data, &strides[..]);
        checked.operands[0].step = strides[dim];
        copy_strided(&hit, (spread.0, spread.1, dtype), (dst.0, dst.1, dtype));
        scatter_checked(sizes, dim, spread, &hit, src, checked, dtype, reduce);
        copy_strided(&hit, (dst.0, dst.1, dtype), (spread.0, spread.1, dtype));
    }
    Ok(())
}

/// Whether rows of the destination had better be apart in memory of their own: neighbours go to different rows, whose
/// distance is near enough a power of two for them to fall together in the sets of a second-level cache, of which few
/// are used then. There should be values for most rows, since all are copied, both ways.
fn falls_together(sizes: &[i64], dim: usize, hit: &[i64], step: isize, index_strides: &[isize]) -> bool {
    /// What such a cache holds.
    const CACHE: u128 = 1 << 20;
    let scattered = (0..sizes.len()).any(|d| d != dim && sizes[d] > 1 && index_strides[d] != 0);
    scattered && step != 0 && sizes[dim] >= hit[dim] && (hit[dim] as u128) << step.trailing_zeros() > CACHE
}

/// Row-major strides in bytes for elements of `size` bytes, but rows along `dim` that would be a multiple of 1 KiB apart
/// are one cache line further; and the bytes of all.
fn spread_strides(sizes: &[i64], dim: usize, size: usize) -> (Vec<isize>, usize) {
    let mut strides = contiguous_strides(sizes, size);
    let mut step = sizes.iter().skip(dim + 1).product::<i64>() * size as i64;
    if step % 1024 == 0 {
        step += 64;
    }
    for d in (0..sizes.len().min(dim + 1)).rev() {
        strides[d] = step as isize;
        step *= sizes[d];
    }
    (strides, step as usize)
}

/// [`scatter`] with checked indices, where the sizes hold no 0; `hit` are the sizes of the destination's part that
/// indices may name.
unsafe fn scatter_checked(
    sizes: &[i64],
    dim: usize,
    dst: (*mut u8, &[isize]),
    hit: &[i64],
    src: (*const u8, &[isize]),
    checked: Checked,
    dtype: DType,
    reduce: Option<(ReduceOp, bool)>,
) {
    let fixed = (dst.0, &without(dst.1, dim)[..]);
    // SAFETY: the caller's contract.
    unsafe {
        let Some((op, include_self)) = reduce else {
            put(sizes, fixed, src, &checked, replace_strip(dtype.size()));
            return;
        };
        if !include_self {
            let identity = identity(op, dtype);
            let zero = vec![0; sizes.len()];
            put(sizes, fixed, (identity.as_ptr(), &zero), &checked, replace_strip(dtype.size()));
        }
        put(sizes, fixed, src, &checked, reduce_strip(op, dtype));
        if op == ReduceOp::Mean {
            divide_by_counts(sizes, dim, dst, hit, checked, dtype, include_self);
        }
    }
}

/// `dst[.., index[k], ..] = src[.., k, ..]` along `dim`, for a 1-d index given as address, stride and dtype: `sizes` are
/// the source's. With `accumulate`, `+=`. A source whose strides are all 0 fills.
///
/// # Safety
/// As for [`scatter`].
pub unsafe fn index_copy(
    sizes: &[i64],
    dim: usize,
    dst: (*mut u8, &[isize]),
    dst_size: i64,
    src: (*const u8, &[isize]),
    indices: (*const u8, isize, DType),
    dtype: DType,
    accumulate: bool,
    wrap: bool,
) -> Result<(), BadIndex> {
    let strides = along(sizes.len(), dim, indices.1);
    let indices = (indices.0, &strides[..], indices.2);
    let reduce = accumulate.then_some((ReduceOp::Sum, true));
    // SAFETY: the caller's contract, unchanged.
    unsafe { scatter(sizes, dim, dst, dst_size, src, indices, dtype, reduce, wrap) }
}

/// `dst.flatten()[index[i]] = src[i]`, with `accumulate` `+=`: `sizes` are the index's and the source's, `dst_sizes` the
/// destination's.
///
/// # Safety
/// As for [`index_put`].
pub unsafe fn put_flat(
    sizes: &[i64],
    dst_sizes: &[i64],
    dst: (*mut u8, &[isize], DType),
    src: (*const u8, &[isize]),
    indices: (*const u8, &[isize], DType),
    accumulate: bool,
    wrap: bool,
) -> Result<(), BadIndex> {
    let strip = strip_of(dst.2, accumulate);
    let size = dst.2.size();
    let numel: i64 = dst_sizes.iter().product();
    let operand =
        IndexOperand { data: indices.0, strides: indices.1, dtype: indices.2, size: numel, step: size as isize };
    let contiguous = contiguous_strides(dst_sizes, size);
    let is_contiguous = (0..dst_sizes.len()).all(|d| dst_sizes[d] == 1 || dst.1[d] == contiguous[d]);
    let zero = vec![0; sizes.len()];
    // SAFETY: the caller's contract; the buffer holds the destination's elements.
    unsafe {
        let checked = check(sizes, &[operand], wrap)?;
        if is_contiguous {
            put(sizes, (dst.0, &zero), src, &checked, strip);
        } else {
            let mut buffer = vec![0u8; numel as usize * size];
            let data = buffer.as_mut_ptr();
            copy_strided(dst_sizes, (data, &contiguous, dst.2), (dst.0, dst.1, dst.2));
            put(sizes, (data, &zero), src, &checked, strip);
            copy_strided(dst_sizes, dst, (data, &contiguous, dst.2));
        }
    }
    Ok(())
}

/// One dimension that runs in order: its size and the strides of [dst, src, indices...].
struct Ordered {
    size: usize,
    strides: Vec<isize>,
}

unsafe fn put(sizes: &[i64], dst: (*mut u8, &[isize]), src: (*const u8, &[isize]), checked: &Checked, strip: PutStrip) {
    if sizes.contains(&0) {
        return;
    }
    let mut operands: Vec<(*mut u8, &[isize])> = vec![dst, (src.0.cast_mut(), src.1)];
    operands.extend(checked.operands.iter().map(|o| (o.data.cast_mut(), o.strides.as_slice())));
    let (mut free_sizes, mut free) = (Vec::new(), vec![Vec::new(); operands.len()]);
    let mut ordered: Vec<Ordered> = Vec::new();
    for (d, &size) in sizes.iter().enumerate() {
        let strides: Vec<isize> = operands.iter().map(|o| o.1[d]).collect();
        if size == 1 {
            continue;
        }
        if strides[0] != 0 {
            free_sizes.push(size);
            for (list, stride) in free.iter_mut().zip(strides) {
                list.push(stride);
            }
            continue;
        }
        let size = size as usize;
        match ordered.last_mut() {
            Some(last) if last.strides.iter().zip(&strides).all(|(&o, &i)| o == i * size as isize) => {
                *last = Ordered { size: last.size * size, strides };
            }
            _ => ordered.push(Ordered { size, strides }),
        }
    }
    let free_operands: Vec<(*mut u8, &[isize])> =
        operands.iter().zip(&free).map(|(o, s)| (o.0, s.as_slice())).collect();
    let it = Iter::new(&free_sizes, &free_operands);
    let steps: Vec<isize> = checked.operands.iter().map(|o| o.step).collect();
    let last = ordered.pop();
    let outer_count: usize = ordered.iter().map(|o| o.size).product();
    let in_order = outer_count * last.as_ref().map_or(1, |l| l.size);
    let columns = it.numel();
    let own = free[2..].iter().all(|strides| strides.first().is_some_and(|&s| s != 0));
    let far = free[0].last().is_some_and(|s| s.unsigned_abs() >= 64);
    let (worth, narrow) = (if own { OWN_PIECE } else { SHARED_PIECE }, if far { 1 } else { NARROW });
    // All pieces of near columns visit all rows, and may read all indices: one for a thread.
    let pieces = num_threads().saturating_mul(if far { 4 } else { 1 });
    let grain = columns.div_ceil(pieces).max(worth / in_order).max(narrow);
    // One strip with the addresses `p`, strides `s` and `n` elements, several times if there is one index.
    let run = |p: &[*mut u8], s: &[isize], n: usize, times: Times| {
        // SAFETY: a strip of the caller's operands; indices are in range.
        unsafe {
            match &steps[..] {
                [] => strip(p[0], s[0], p[1], s[1], [0i64].as_ptr(), 0, 0, n, Times::ONCE),
                &[step] => strip(p[0], s[0], p[1], s[1], p[2].cast(), s[2], step, n, times),
                _ if s[2..].iter().all(|&s| s == 0) => {
                    let mut dst = p[0];
                    for (&p, &step) in p[2..].iter().zip(&steps) {
                        dst = dst.offset(p.cast::<i64>().read_unaligned() as isize * step);
                    }
                    strip(dst, s[0], p[1], s[1], [0i64].as_ptr(), 0, 0, n, Times::ONCE);
                }
                _ => offsets_in_blocks(&p[2..], &s[2..], checked, n, &mut |at, offsets| {
                    let at = at as isize;
                    let (dst, src) = (p[0].offset(at * s[0]), p[1].offset(at * s[1]));
                    strip(dst, s[0], src, s[1], offsets.as_ptr(), 8, 1, offsets.len(), Times::ONCE);
                }),
            }
        }
    };
    // All ordered positions over `dims` (outermost first), then `each`.
    let walk = |dims: &[&Ordered], start: &[*mut u8], each: &mut dyn FnMut(&[*mut u8])| {
        let mut p = start.to_vec();
        let mut at = vec![0usize; dims.len()];
        loop {
            each(&p);
            let mut d = dims.len();
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                at[d] += 1;
                let back = if at[d] == dims[d].size { dims[d].size as isize - 1 } else { -1 };
                for (p, &s) in p.iter_mut().zip(&dims[d].strides) {
                    *p = p.wrapping_offset(-back * s);
                }
                if back < 0 {
                    break;
                }
                at[d] = 0;
            }
        }
    };
    let outer_dims: Vec<&Ordered> = ordered.iter().collect();
    let all_dims: Vec<&Ordered> = ordered.iter().chain(&last).collect();
    let piece = |start: usize, end: usize| {
        it.range(start, end, &|p, s, n| {
            let rows = s[2..].iter().all(|&s| s == 0) && n >= 4;
            // Strips that would touch another cache line with every element.
            let far = s[0].unsigned_abs() >= 64;
            let nearer = |last: &Ordered| {
                let (inner, outer) = (last.strides[1].unsigned_abs(), s[1].unsigned_abs());
                if far { inner <= outer } else { !rows && inner < outer }
            };
            match &last {
                // Each column's values in turn: in one call, since they may be few.
                Some(last) if steps.len() == 1 && outer_dims.is_empty() && (n == 1 || nearer(last)) => {
                    let times = Times::each(n, s[0], s[1], s[2]);
                    run(p, &last.strides, last.size, times);
                }
                Some(last) if n == 1 || nearer(last) => {
                    let mut column = p.to_vec();
                    for _ in 0..n {
                        walk(&outer_dims, &column, &mut |p| run(p, &last.strides, last.size, Times::ONCE));
                        for (p, s) in column.iter_mut().zip(s) {
                            *p = p.wrapping_offset(*s);
                        }
                    }
                }
                Some(last) if steps.len() == 1 => {
                    let times = Times::each(last.size, 0, last.strides[1], last.strides[2]);
                    walk(&outer_dims, p, &mut |p| run(p, s, n, times));
                }
                _ => walk(&all_dims, p, &mut |p| run(p, s, n, Times::ONCE)),
            }
        });
    };
    // Where columns are too few for all threads, these share the rows of the destination.
    let by_rows = last.as_ref().filter(|_| {
        let worth = columns >= FEWEST_COLUMNS && in_order.saturating_mul(columns) >= 2 * OWN_PIECE;
        worth && !far && columns.div_ceil(grain) < num_threads() && outer_dims.is_empty() && it.shape().len() == 1
    });
    match (by_rows, &steps[..]) {
        (Some(last), &[step]) if it.strides(0)[2] == 0 && FastPath::IndexThreads.is_on() => {
            let parts = num_threads();
            parallel_for(parts, 1, &|range| {
                // SAFETY: all positions of the caller's operands; no two parts have rows in common.
                range.for_each(|part| unsafe { put_part(&it, last, step, strip, (part, parts)) });
            });
        }
        _ => parallel_for(columns, grain, &|r| piece(r.start, r.end)),
    }
}

/// Runs a strip for each position in order whose row is the part's, `(part, parts)`: neighbours mostly are of the same one.
///
/// # Safety
/// As for [`put`], whose free positions are `it`'s one dim, and none of whose columns have an index of their own.
unsafe fn put_part(it: &Iter, last: &Ordered, step: isize, strip: PutStrip, (part, parts): (usize, usize)) {
    /// Positions that are looked through before their values are combined.
    const BLOCK: usize = 512;
    let (n, s, data) = (it.numel(), it.strides(0), it.data());
    let (strides, mut found) = (&last.strides, [0u32; BLOCK]);
    for start in (0..last.size).step_by(BLOCK) {
        let at = |p: usize| data[p].wrapping_offset(start as isize * strides[p]);
        let mut count = 0;
        for i in 0..BLOCK.min(last.size - start) {
            // SAFETY: a position's index.
            let row = unsafe { at(2).offset(i as isize * strides[2]).cast::<i64>().read_unaligned() };
            // (Fibonacci hashing: any rows are spread well.)
            let hash = ((row >> 4) as u32).wrapping_mul(0x9e37_79b1);
            found[count] = i as u32;
            count += usize::from((u64::from(hash) * parts as u64) >> 32 == part as u64);
        }
        let times = Times { count, dst: 0, src: strides[1], index: strides[2], steps: Some(&found[..count]) };
        // SAFETY: the caller's values of these positions.
        unsafe { strip(at(0), s[0], at(1), s[1], at(2).cast(), 0, step, n, times) };
    }
}

/// The value that changes nothing, as the first bytes.
fn identity(op: ReduceOp, dtype: DType) -> [u8; 16] {
    let mut out = [0u8; 16];
    // The extremes of the signed integers, and of the unsigned ones by wrapping.
    let (low, high) = match dtype {
        DType::I8 => (i8::MIN as i64, i8::MAX as i64),
        DType::I16 => (i16::MIN as i64, i16::MAX as i64),
        DType::I32 => (i32::MIN as i64, i32::MAX as i64),
        DType::I64 => (i64::MIN, i64::MAX),
        DType::Bool => (0, 1),
        _ => (0, -1),
    };
    dispatch!(dtype, T => {
        let infinite = dtype.is_floating_point();
        let value = match op {
            ReduceOp::Sum | ReduceOp::Mean => T::from_i64(0),
            ReduceOp::Prod => T::from_i64(1),
            ReduceOp::Amax if infinite => T::from_f64(f64::NEG_INFINITY),
            ReduceOp::Amin if infinite => T::from_f64(f64::INFINITY),
            ReduceOp::Amax => T::from_i64(low),
            ReduceOp::Amin => T::from_i64(high),
        };
        // SAFETY: no element is larger than 16 bytes.
        unsafe { out.as_mut_ptr().cast::<T>().write_unaligned(value) };
    });
    out
}

/// Divides every element that was hit by the number of values that it holds: those of the sizes `hit` at `dst`.
unsafe fn divide_by_counts(
    sizes: &[i64],
    dim: usize,
    dst: (*mut u8, &[isize]),
    hit: &[i64],
    mut checked: Checked,
    dtype: DType,
    include_self: bool,
) {
    // Positions that share their indices share their counts too.
    let shared: Vec<bool> = (0..sizes.len()).map(|d| d != dim && checked.operands[0].strides[d] == 0).collect();
    let counted = |sizes: &[i64]| -> Vec<i64> {
        sizes.iter().zip(&shared).map(|(&size, &shared)| if shared { 1 } else { size }).collect()
    };
    let (mut strides, bytes) = spread_strides(&counted(hit), dim, 8);
    for (stride, _) in strides.iter_mut().zip(&shared).filter(|(_, shared)| **shared) {
        *stride = 0;
    }
    let mut counts = Buffer::<u8>::default();
    let data = counts.room(bytes);
    let one = 1i64;
    checked.operands[0].step = strides.get(dim).copied().unwrap_or(0);
    // SAFETY: the counts have the destination's shape, cut to the index's in the other dimensions.
    unsafe {
        data.write_bytes(0, bytes);
        let zero = vec![0; sizes.len()];
        let ones = ((&raw const one).cast(), &zero[..]);
        put(&counted(sizes), (data, &without(&strides, dim)), ones, &checked, put_strip::<i64, Sum>);
    }
    let extra = include_self as i64;
    let it = Iter::new(hit, &[dst, (data, &strides)]);
    it.for_each(&|p, s, n| {
        dispatch!(dtype, T => for i in 0..n as isize {
            // SAFETY: an element of the destination, and its count.
            unsafe {
                let count = p[1].offset(i * s[1]).cast::<i64>().read_unaligned();
                let x = p[0].offset(i * s[0]).cast::<T>();
                // What was not hit is divided by 1: which elements are cannot be predicted.
                x.write_unaligned(mean(x.read_unaligned(), (count + extra).max(1)));
            }
        });
    });
}

/// `sum / count`, rounded down for integers; a boolean stays.
fn mean<T: Element>(sum: T, count: i64) -> T {
    match T::DTYPE {
        DType::Bool => sum,
        DType::U64 => T::from_i64((sum.to_i64() as u64 / count as u64) as i64),
        d if d.is_integral(false) => T::from_i64(sum.to_i64().div_euclid(count)),
        d if d.is_complex() => T::from_c128(sum.to_c128() / count as f64),
        DType::F64 => T::from_f64(sum.to_f64() / count as f64),
        _ => T::from_f32(sum.to_f32() / count as f32),
    }
}
