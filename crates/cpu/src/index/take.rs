//! Reading at index positions.

use super::{BadIndex, Checked, IndexOperand, along, check, contiguous_strides, offsets_in_blocks, widen, without};
use crate::copy::{cast_strip_of_size, copy_strided};
use crate::prefetch::prefetch;
use flambeau_base::DType;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::iter::Iter;
use flambeau_base::parallel::parallel_for;
use smallvec::SmallVec;

/// Bytes of output in one piece of parallel work: random reads cost several times a streamed one.
const PIECE_BYTES: usize = 1 << 16;

/// One of [`copy_short_rows`] or [`copy_pieces`].
type ShortRows = unsafe fn(*const u8, (*mut u8, isize), (*const u8, isize), isize, usize, usize);

/// Advanced indexing: `out[i] = src[i + sum of index[i] * step]` for every position `i` of `sizes`. The source's strides
/// are 0 along the dimensions that exist only in the indices. Elements have `size` bytes.
///
/// # Safety
/// `out`, `src` and the indices must be valid for `sizes` at their strides, the source for every index within its
/// operand's size too; `out` must not overlap the others and its elements must be distinct.
pub unsafe fn index(
    sizes: &[i64],
    out: (*mut u8, &[isize]),
    src: (*const u8, &[isize]),
    indices: &[IndexOperand],
    size: usize,
    wrap: bool,
) -> Result<(), BadIndex> {
    // SAFETY: the caller's contract, unchanged.
    unsafe {
        let checked = check(sizes, indices, wrap)?;
        take(sizes, out, src, checked, size);
    }
    Ok(())
}

/// `out[.., i, ..] = src[.., index[.., i, ..], ..]` along `dim`: `sizes` are the index's, and `src_size` is the
/// source's size along `dim`.
///
/// # Safety
/// As for [`index()`], the source being at least as large as `sizes` in the other dimensions.
pub unsafe fn gather(
    sizes: &[i64],
    dim: usize,
    out: (*mut u8, &[isize]),
    src: (*const u8, &[isize]),
    src_size: i64,
    indices: (*const u8, &[isize], DType),
    size: usize,
    wrap: bool,
) -> Result<(), BadIndex> {
    let step = src.1.get(dim).copied().unwrap_or(0);
    let operand = IndexOperand { data: indices.0, strides: indices.1, dtype: indices.2, size: src_size, step };
    // SAFETY: the caller's contract; the index takes the place of the position along `dim`.
    unsafe { index(sizes, out, (src.0, &without(src.1, dim)), &[operand], size, wrap) }
}

/// `out[.., k, ..] = src[.., index[k], ..]` along `dim`, for a 1-d index given as address, stride and dtype: `sizes` are
/// the output's. Rows that lie together are copied whole, so it serves `embedding` too.
///
/// # Safety
/// As for [`gather`].
pub unsafe fn index_select(
    sizes: &[i64],
    dim: usize,
    out: (*mut u8, &[isize]),
    src: (*const u8, &[isize]),
    src_size: i64,
    indices: (*const u8, isize, DType),
    size: usize,
    wrap: bool,
) -> Result<(), BadIndex> {
    let strides = along(sizes.len(), dim, indices.1);
    // SAFETY: the caller's contract, unchanged.
    unsafe { gather(sizes, dim, out, src, src_size, (indices.0, &strides, indices.2), size, wrap) }
}

/// `out[i] = src.flatten()[index[i]]`: `sizes` are the index's and the output's, `src_sizes` the source's.
///
/// # Safety
/// As for [`index()`].
pub unsafe fn take_flat(
    sizes: &[i64],
    out: (*mut u8, &[isize]),
    src_sizes: &[i64],
    src: (*const u8, &[isize], DType),
    indices: (*const u8, &[isize], DType),
    wrap: bool,
) -> Result<(), BadIndex> {
    let size = src.2.size();
    let numel: i64 = src_sizes.iter().product();
    let contiguous = contiguous_strides(src_sizes, size);
    let is_contiguous = (0..src_sizes.len()).all(|d| src_sizes[d] == 1 || src.1[d] == contiguous[d]);
    let mut buffer = Vec::new();
    let mut data = src.0;
    if !is_contiguous {
        buffer.resize(numel as usize * size, 0u8);
        // SAFETY: the buffer holds the source's elements.
        unsafe { copy_strided(src_sizes, (buffer.as_mut_ptr(), &contiguous, src.2), src) };
        data = buffer.as_ptr();
    }
    let operand =
        IndexOperand { data: indices.0, strides: indices.1, dtype: indices.2, size: numel, step: size as isize };
    let zero = vec![0; sizes.len()];
    // SAFETY: the caller's contract; the flattened source lies end to end.
    unsafe { index(sizes, out, (data, &zero), &[operand], size, wrap) }
}

unsafe fn take(sizes: &[i64], out: (*mut u8, &[isize]), src: (*const u8, &[isize]), mut checked: Checked, size: usize) {
    if sizes.contains(&0) {
        return;
    }
    let (mut sizes, mut out_strides, mut src_strides) = (sizes.to_vec(), out.1.to_vec(), src.1.to_vec());
    let size = widen(&mut sizes, [&mut out_strides, &mut src_strides], &mut checked, size);
    let mut operands: Vec<(*mut u8, &[isize])> = vec![(out.0, &out_strides), (src.0.cast_mut(), &src_strides)];
    operands.extend(checked.operands.iter().map(|o| (o.data.cast_mut(), o.strides.as_slice())));
    let it = Iter::new(&sizes, &operands);
    let grain = (PIECE_BYTES / size).max(1);
    let elements = element_strip(size);
    if it.strides(0)[2..].iter().any(|&s| s != 0) || checked.operands.is_empty() {
        let copy = cast_strip_of_size(size);
        it.for_each_rows_grain(grain, &|p, [s, outer], [n, count]| {
            // SAFETY: strips of the caller's operands; indices are in range.
            unsafe {
                if let [one] = &checked.operands[..] {
                    let rows = Rows { count, src: outer[1], out: outer[0], index: outer[2] };
                    return elements(p[1], s[1], p[0], s[0], p[2].cast(), s[2], one.step as i64, n, rows);
                }
                let mut at: SmallVec<[*mut u8; 8]> = SmallVec::from_slice(p);
                for row in 0..count {
                    if row > 0 {
                        at.iter_mut().zip(outer).for_each(|(p, s)| *p = p.wrapping_offset(*s));
                    }
                    let p = &at[..];
                    if checked.operands.is_empty() {
                        copy(p[1], s[1], p[0], s[0], n);
                        continue;
                    }
                    offsets_in_blocks(&p[2..], &s[2..], &checked, n, &mut |at, offsets| {
                        let at = at as isize;
                        let (src, out) = (p[1].offset(at * s[1]), p[0].offset(at * s[0]));
                        elements(src, s[1], out, s[0], offsets.as_ptr(), 8, 1, offsets.len(), Rows::ONE);
                    });
                }
            }
        });
        return;
    }
    // Whole rows share one index: walk the other dimensions, and copy a row at each position.
    let row = it.shape()[0];
    let row_strides = (it.strides(0)[0], it.strides(0)[1]);
    let contiguous = row_strides == (size as isize, size as isize);
    let outer_sizes: Vec<i64> = it.shape()[1..].iter().rev().map(|&n| n as i64).collect();
    let outer_strides: Vec<Vec<isize>> =
        (0..operands.len()).map(|k| (1..it.shape().len()).rev().map(|d| it.strides(d)[k]).collect()).collect();
    let outer_operands: Vec<(*mut u8, &[isize])> =
        outer_strides.iter().zip(it.data()).map(|(s, &p)| (p, s.as_slice())).collect();
    let outer = Iter::new(&outer_sizes, &outer_operands);
    let strip = cast_strip_of_size(size);
    let copy_rows = |from: usize, to: usize, p: &[*mut u8], s: &[isize], n: usize| {
        // SAFETY: rows of the caller's operands; indices are in range.
        let row_at = |i: isize| unsafe {
            let mut src = p[1].offset(i * s[1]);
            if let [operand] = &checked.operands[..] {
                return src.offset(p[2].offset(i * s[2]).cast::<i64>().read_unaligned() as isize * operand.step);
            }
            for (k, operand) in checked.operands.iter().enumerate() {
                let value = p[2 + k].offset(i * s[2 + k]).cast::<i64>().read_unaligned();
                src = src.offset(value as isize * operand.step);
            }
            src
        };
        let bytes = (to - from) * size;
        let lines = if contiguous { bytes.min(1024) } else { 0 };
        if let ([operand], true) = (&checked.operands[..], contiguous && s[1] == 0)
            && FastPath::IndexRows.is_on()
        {
            let short = match bytes {
                16 => Some(copy_short_rows::<16> as ShortRows),
                32 => Some(copy_short_rows::<32> as ShortRows),
                64 => Some(copy_short_rows::<64> as ShortRows),
                128 => Some(copy_short_rows::<128> as ShortRows),
                256 => Some(copy_short_rows::<256> as ShortRows),
                33..256 => Some(copy_pieces::<32> as ShortRows),
                17..32 => Some(copy_pieces::<16> as ShortRows),
                8..16 => Some(copy_pieces::<8> as ShortRows),
                4..8 => Some(copy_pieces::<4> as ShortRows),
                _ => None,
            };
            if let Some(short) = short {
                // SAFETY: whole rows of the caller's operands, or as large parts of them.
                return unsafe {
                    let (src, dst) = (p[1].add(from * size), p[0].add(from * size));
                    short(src, (dst, s[0]), (p[2], s[2]), operand.step, bytes, n)
                };
            }
        }
        for i in 0..n as isize {
            // Rows lie anywhere: ask for the one after the next while this one is copied.
            if i + 2 < n as isize {
                let next = row_at(i + 2);
                for line in (0..lines).step_by(64) {
                    prefetch(next.wrapping_add(line));
                }
            }
            // SAFETY: rows of the caller's operands; indices are in range.
            unsafe {
                let src = row_at(i);
                let src = src.offset(from as isize * row_strides.1);
                let dst = p[0].offset(i * s[0] + from as isize * row_strides.0);
                if contiguous {
                    crate::copy::move_bytes(src, dst, bytes);
                } else {
                    strip(src, row_strides.1, dst, row_strides.0, to - from);
                }
            }
        }
    };
    let rows = outer.numel();
    if row > grain {
        // Long rows are split too.
        let parts = row.div_ceil(grain);
        parallel_for(rows * parts, 1, &|r| {
            for piece in r {
                let (i, part) = (piece / parts, piece % parts);
                let (from, to) = (part * grain, row.min((part + 1) * grain));
                outer.range(i, i + 1, &|p, s, n| copy_rows(from, to, p, s, n));
            }
        });
    } else {
        parallel_for(rows, grain.div_ceil(row), &|r| {
            outer.range(r.start, r.end, &|p, s, n| copy_rows(0, row, p, s, n));
        });
    }
}

/// How far ahead rows are asked for, since they lie anywhere.
const AHEAD: usize = 8;

/// Copies `n` rows of `N` bytes: source, output and its stride, indices, their stride, step, `N` again, count.
unsafe fn copy_short_rows<const N: usize>(
    src: *const u8,
    out: (*mut u8, isize),
    index: (*const u8, isize),
    step: isize,
    _bytes: usize,
    n: usize,
) {
    // SAFETY: the caller's rows.
    unsafe { copy_pieces::<N>(src, out, index, step, N, n) }
}

/// [`copy_short_rows`] of `bytes` bytes, in pieces of `P`, of which the last may overlap the one before.
#[inline(always)]
unsafe fn copy_pieces<const P: usize>(
    src: *const u8,
    (out, out_stride): (*mut u8, isize),
    (index, index_stride): (*const u8, isize),
    step: isize,
    bytes: usize,
    n: usize,
) {
    let last = bytes - P;
    // SAFETY: the caller's rows; indices are in range.
    unsafe {
        let row = |i: usize| {
            let value = index.offset(i as isize * index_stride).cast::<i64>().read_unaligned();
            src.wrapping_offset(value as isize * step)
        };
        for i in 0..n {
            if i + AHEAD < n {
                let next = row(i + AHEAD);
                for line in (0..bytes).step_by(64) {
                    prefetch(next.wrapping_add(line));
                }
            }
            let (from, to) = (row(i), out.offset(i as isize * out_stride));
            for at in (0..last).step_by(P) {
                to.add(at).cast::<[u8; P]>().write(from.add(at).cast::<[u8; P]>().read());
            }
            to.add(last).cast::<[u8; P]>().write(from.add(last).cast::<[u8; P]>().read());
        }
    }
}

/// `out[i] = src[i + index[i] * step]`: source, its stride, output, its stride, indices, their stride, step, count; and for how
/// many rows.
type TakeStrip = unsafe fn(*const u8, isize, *mut u8, isize, *const i64, isize, i64, usize, Rows);

/// How many rows there are, and how far apart those of source, output and indices are, in bytes.
#[derive(Clone, Copy)]
struct Rows {
    count: usize,
    src: isize,
    out: isize,
    index: isize,
}

impl Rows {
    const ONE: Rows = Rows { count: 1, src: 0, out: 0, index: 0 };
}

fn element_strip(size: usize) -> TakeStrip {
    match size {
        1 => take_strip::<u8>,
        2 => take_strip::<u16>,
        4 => take_strip::<u32>,
        8 => take_strip::<u64>,
        _ => take_strip::<[u64; 2]>,
    }
}

unsafe fn take_strip<T: Copy>(
    src: *const u8,
    src_stride: isize,
    out: *mut u8,
    out_stride: isize,
    index: *const i64,
    index_stride: isize,
    step: i64,
    n: usize,
    rows: Rows,
) {
    for row in 0..rows.count as isize {
        let (src, out) = (src.wrapping_offset(row * rows.src), out.wrapping_offset(row * rows.out));
        let index = index.wrapping_byte_offset(row * rows.index);
        // SAFETY: the caller's `n` elements of this row; indices are in range.
        unsafe { take_row::<T>(src, src_stride, out, out_stride, index, index_stride, step, n) };
    }
}

/// [`take_strip`] of one row.
#[inline(always)]
unsafe fn take_row<T: Copy>(
    src: *const u8,
    src_stride: isize,
    out: *mut u8,
    out_stride: isize,
    index: *const i64,
    index_stride: isize,
    step: i64,
    n: usize,
) {
    let index = index.cast::<u8>();
    // SAFETY: the caller's `n` elements; indices are in range.
    unsafe {
        if out_stride == size_of::<T>() as isize && index_stride == 8 && src_stride == 0 {
            // The common case: one row looked up by contiguous indices.
            let (index, out) = (index.cast::<i64>(), out.cast::<T>());
            if step == size_of::<T>() as i64 {
                let src = src.cast::<T>();
                for i in 0..n {
                    out.add(i).write_unaligned(src.offset(index.add(i).read_unaligned() as isize).read_unaligned());
                }
            } else {
                for i in 0..n {
                    let at = index.add(i).read_unaligned() as isize * step as isize;
                    out.add(i).write_unaligned(src.offset(at).cast::<T>().read_unaligned());
                }
            }
        } else if out_stride == size_of::<T>() as isize && index_stride == 8 {
            let (index, out) = (index.cast::<i64>(), out.cast::<T>());
            for i in 0..n {
                let at = index.add(i).read_unaligned() as isize * step as isize + i as isize * src_stride;
                out.add(i).write_unaligned(src.offset(at).cast::<T>().read_unaligned());
            }
        } else {
            for i in 0..n as isize {
                let value = index.offset(i * index_stride).cast::<i64>().read_unaligned();
                let at = value as isize * step as isize + i * src_stride;
                out.offset(i * out_stride).cast::<T>().write_unaligned(src.offset(at).cast::<T>().read_unaligned());
            }
        }
    }
}
