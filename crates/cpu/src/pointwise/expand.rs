//! Short rows of broadcast operands, several at a time.
//!
//! A strip takes rows one by one, and those that are shorter than its chunks element by element. Here what is broadcast
//! among such rows is laid out for a block of them, so that the strip runs over the block as over one row. So are longer rows
//! of results that go past the caches, if they do not end where cache lines do: blocks of their own begin and end there.

use super::{BLOCK, CHUNK, MAX_OPERANDS, SHORT};
use crate::buffer::Scratch;
use flambeau_base::fast_paths::FastPath;
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// The longest rows that are laid out where operands are converted around the strip. Where not, only those are that are shorter
/// than a chunk of it.
const CONVERTED: usize = 256;

/// The longest rows that are cut at cache lines, where each is laid out, and where one that is repeated is laid out once: in longer
/// ones the first and the last line count little.
const PAST: [usize; 2] = [1 << 11, 1 << 14];

/// The elements that are computed at once then.
const PAST_BLOCK: usize = 2048;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The shortest rows for which laying out pays where nothing is converted.
const LEAST: usize = 12;

/// Elements that a number is written as at once. What is written beyond a row is the next row's.
const AT_ONCE: usize = 16;

/// A loop over one row: addresses, strides in bytes, and the number of elements.
type Row<'a> = dyn Fn(&[*mut u8], &[isize], usize) + 'a;

/// Room for a block of an operand of any dtype, and what is written beyond.
#[repr(C, align(64))]
struct Buffer(MaybeUninit<[u8; (BLOCK + AT_ONCE) * 16]>);

/// How an operand's rows lie.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    /// End to end, or one number for all: no buffer is needed.
    Plain,
    /// The same one again.
    Repeated,
    /// One number each.
    Number,
    /// Apart.
    Apart,
}

/// Whether rows of `n` elements, `rows` of them, had better be laid out; `sizes` are those of the operands' elements.
///
/// What is laid out is read before the rows before it are written: an input that lies in the output, other than as the same
/// elements, is left to the strip.
pub(super) fn fits(
    data: &[*mut u8],
    [inner, outer]: [&[isize]; 2],
    [n, rows]: [usize; 2],
    sizes: &[usize],
    converted: bool,
) -> bool {
    let chunk = if sizes.contains(&1) { CHUNK } else { SHORT };
    // One row again and again is laid out once.
    let once = || rows * n >= 2 * BLOCK && repeats(inner, outer, n, sizes);
    let short = if converted { n <= CONVERTED } else { n < chunk && (n >= LEAST || once()) };
    short && n > 1 && can_be_laid_out(data, [inner, outer], [n, rows], sizes)
}

/// Whether rows of `n` elements, `rows` of them, whose results go past the caches, had better be cut at cache lines. (Those of
/// fewer bytes are too small a part of the memory that is read and written.)
pub(super) fn fits_past(
    data: &[*mut u8],
    [inner, outer]: [&[isize]; 2],
    [n, rows]: [usize; 2],
    sizes: &[usize],
) -> bool {
    let ends_within = !(n * sizes[0]).is_multiple_of(LINE) && data[0].addr().is_multiple_of(sizes[0]);
    let once = repeats(inner, outer, n, sizes);
    sizes[0] >= 4 && ends_within && n <= PAST[once as usize] && can_be_laid_out(data, [inner, outer], [n, rows], sizes)
}

/// Whether no operand has to be laid out again for other rows.
fn repeats(inner: &[isize], outer: &[isize], n: usize, sizes: &[usize]) -> bool {
    (1..sizes.len()).all(|k| matches!(kind(inner[k], outer[k], n, sizes[k]), Some(Rows::Plain | Rows::Repeated)))
}

/// Whether results lie end to end, and operands are rows, or numbers, that can be read before results are written.
fn can_be_laid_out(data: &[*mut u8], [inner, outer]: [&[isize]; 2], [n, rows]: [usize; 2], sizes: &[usize]) -> bool {
    let kind_of = |k: usize| kind(inner[k], outer[k], n, sizes[k]);
    rows >= 4
        && FastPath::PointwiseExpand.is_on()
        && kind_of(0) == Some(Rows::Plain)
        && inner[0] != 0
        && (1..sizes.len()).all(|k| match kind_of(k) {
            None => false,
            Some(Rows::Plain) => true,
            Some(_) => {
                let [a, b] = [0, k].map(|k| extent(data[k], [inner[k], outer[k]], [n, rows], sizes[k]));
                a.1 <= b.0 || b.1 <= a.0
            }
        })
}

/// The first and the last address, exclusively, of an operand's elements.
fn extent(data: *mut u8, strides: [isize; 2], counts: [usize; 2], size: usize) -> (isize, isize) {
    let mut ends = (data.addr() as isize, data.addr() as isize + size as isize);
    for (stride, count) in strides.into_iter().zip(counts) {
        let reach = stride * (count as isize - 1);
        ends = (ends.0 + reach.min(0), ends.1 + reach.max(0));
    }
    ends
}

fn kind(inner: isize, outer: isize, n: usize, size: usize) -> Option<Rows> {
    let size = size as isize;
    match inner {
        0 if outer == 0 => Some(Rows::Plain),
        0 => Some(Rows::Number),
        _ if inner != size => None,
        _ if outer == size * n as isize => Some(Rows::Plain),
        _ if outer == 0 => Some(Rows::Repeated),
        _ => Some(Rows::Apart),
    }
}

/// Runs `row` over blocks of rows that [`fits`] was asked about.
///
/// # Safety
/// The operands, of which the output is the first, are valid for `rows` times `n` elements at their strides.
pub(super) unsafe fn run(
    data: &[*mut u8],
    [inner, outer]: [&[isize]; 2],
    [n, rows]: [usize; 2],
    sizes: &[usize],
    row: &Row<'_>,
) {
    let mut buffers = [const { Buffer(MaybeUninit::uninit()) }; MAX_OPERANDS];
    let mut at = [std::ptr::null_mut(); MAX_OPERANDS];
    let mut strides = [0; MAX_OPERANDS];
    let mut kinds = [Rows::Plain; MAX_OPERANDS];
    let at_once = (BLOCK / n).min(rows);
    for k in 0..data.len() {
        let Some(kind) = kind(inner[k], outer[k], n, sizes[k]) else { return };
        (kinds[k], at[k], strides[k]) = (kind, data[k], inner[k]);
        if kind != Rows::Plain {
            (at[k], strides[k]) = (buffers[k].0.as_mut_ptr().cast(), sizes[k] as isize);
        }
        if kind == Rows::Repeated {
            let (mut filled, all) = (n * sizes[k], at_once * n * sizes[k]);
            // SAFETY: the operand's row; the buffer holds `BLOCK` elements, of which as many again are copied as there are.
            unsafe {
                at[k].copy_from_nonoverlapping(data[k], filled);
                while filled < all {
                    let more = filled.min(all - filled);
                    at[k].add(filled).copy_from_nonoverlapping(at[k], more);
                    filled += more;
                }
            }
        }
    }
    for first in (0..rows).step_by(at_once) {
        let count = at_once.min(rows - first);
        for k in 0..data.len() {
            let from = data[k].wrapping_offset(first as isize * outer[k]);
            match kinds[k] {
                Rows::Plain => at[k] = from,
                Rows::Repeated => {}
                // SAFETY: `count` rows of the operand; the buffer holds as many elements, and `AT_ONCE` more.
                Rows::Number => unsafe { spread(sizes[k], from, outer[k], at[k], n, count) },
                Rows::Apart => {
                    let bytes = n * sizes[k];
                    for i in 0..count {
                        let from = from.wrapping_offset(i as isize * outer[k]);
                        // SAFETY: as above.
                        unsafe { at[k].add(i * bytes).copy_from_nonoverlapping(from, bytes) };
                    }
                }
            }
        }
        row(&at[..data.len()], &strides[..data.len()], count * n);
    }
}

/// Runs `row` over blocks, which begin and end where cache lines of the output do, of rows that [`fits_past`] was asked about.
///
/// # Safety
/// As [`run`].
pub(super) unsafe fn run_past(
    data: &[*mut u8],
    [inner, outer]: [&[isize]; 2],
    [n, rows]: [usize; 2],
    sizes: &[usize],
    row: &Row<'_>,
) {
    // A row that is repeated, and as much again as a block may go on from its last element; or a block.
    let mut rooms = SmallVec::<[Scratch<u8>; MAX_OPERANDS]>::new();
    let mut at = [std::ptr::null_mut::<u8>(); MAX_OPERANDS];
    let mut strides = [0; MAX_OPERANDS];
    let mut kinds = [Rows::Plain; MAX_OPERANDS];
    for k in 0..data.len() {
        let Some(kind) = kind(inner[k], outer[k], n, sizes[k]) else { return };
        (kinds[k], strides[k]) = (kind, if kind == Rows::Plain { inner[k] } else { sizes[k] as isize });
        let elements = match kind {
            Rows::Plain => 0,
            Rows::Repeated => n + PAST_BLOCK,
            Rows::Number | Rows::Apart => PAST_BLOCK + AT_ONCE,
        };
        rooms.push(Scratch::new(elements * sizes[k]));
        let (mut filled, all) = (0, if kind == Rows::Repeated { elements * sizes[k] } else { 0 });
        while filled < all {
            let more = (n * sizes[k]).min(all - filled);
            // SAFETY: the operand's row; there is room for all.
            unsafe { rooms[k].get().add(filled).copy_from_nonoverlapping(data[k], more) };
            filled += more;
        }
    }
    let (total, before) = (rows * n, data[0].addr().wrapping_neg() % LINE / sizes[0]);
    let mut start = 0;
    while start < total {
        let len = if start < before { before } else { PAST_BLOCK }.min(total - start);
        for k in 0..data.len() {
            let size = sizes[k];
            at[k] = match kinds[k] {
                Rows::Plain => data[k].wrapping_offset(start as isize * inner[k]),
                Rows::Repeated => rooms[k].get().wrapping_add(start % n * size),
                Rows::Number | Rows::Apart => {
                    let (to, mut done) = (rooms[k].get(), 0);
                    while done < len {
                        let (i, j) = ((start + done) / n, (start + done) % n);
                        let count = (n - j).min(len - done);
                        let from = data[k].wrapping_offset(i as isize * outer[k] + j as isize * inner[k]);
                        // SAFETY: `count` elements of the operand's row, or its number; the buffer holds as many, and `AT_ONCE` more.
                        unsafe {
                            let to = to.add(done * size);
                            match kinds[k] {
                                Rows::Number => spread(size, from, 0, to, count, 1),
                                _ => to.copy_from_nonoverlapping(from, count * size),
                            }
                        }
                        done += count;
                    }
                    to
                }
            };
        }
        row(&at[..data.len()], &strides[..data.len()], len);
        start += len;
    }
}

/// Writes each of `rows` numbers of `size` bytes, `stride` bytes apart, `n` times.
///
/// # Safety
/// The numbers are readable, and `to` has room for `rows * n + AT_ONCE` of them.
unsafe fn spread(size: usize, from: *const u8, stride: isize, to: *mut u8, n: usize, rows: usize) {
    // SAFETY: the caller's; any bits are an element of as many bytes.
    unsafe {
        match size {
            1 => spread_elements::<u8>(from, stride, to, n, rows),
            2 => spread_elements::<u16>(from, stride, to, n, rows),
            4 => spread_elements::<u32>(from, stride, to, n, rows),
            8 => spread_elements::<u64>(from, stride, to, n, rows),
            _ => spread_elements::<[u64; 2]>(from, stride, to, n, rows),
        }
    }
}

/// # Safety
/// As [`spread`].
unsafe fn spread_elements<T: Copy>(from: *const u8, stride: isize, to: *mut u8, n: usize, rows: usize) {
    for i in 0..rows {
        // SAFETY: number `i`; what is written beyond its row is within the room, and written again by the next.
        unsafe {
            let number = from.offset(i as isize * stride).cast::<T>().read_unaligned();
            let to = to.cast::<T>().add(i * n);
            for start in (0..n).step_by(AT_ONCE) {
                to.add(start).cast::<[T; AT_ONCE]>().write_unaligned([number; AT_ONCE]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_PARAMS, Map, Operand, run, strip};
    use crate::math::{Isa, level};
    use flambeau_base::{DType, Element, Scalar, bf16, f16};

    struct Difference;
    impl<T: Element + std::ops::Sub<Output = T>> Map<T, 2> for Difference {
        type Out = T;
        fn map<I: Isa>([x, y]: [T; 2], _: &[T; MAX_PARAMS]) -> T {
            x - y
        }
    }

    fn value<T: Element>(i: usize) -> T {
        T::from_f64(((i * 7919) % 61) as f64 * 0.25)
    }

    /// Rows of `n` elements, less one row for all, a number for each row, or rows that lie apart; to an output of its own and in
    /// place. `S` is what the operands are, `T` what is computed in.
    fn check<S: Element, T: Element + std::ops::Sub<Output = T>>(rows: usize, n: usize) {
        let size = size_of::<S>() as isize;
        let x: Vec<S> = (0..rows * n).map(value).collect();
        let y: Vec<S> = (0..rows * (n + 3)).map(|i| value(i * 3 + 5)).collect();
        let dense = [size * n as isize, size];
        for (strides, at) in [
            ([0, size], Box::new(|_, j| j) as Box<dyn Fn(usize, usize) -> usize>),
            ([size * (n + 3) as isize, 0], Box::new(|i, _| i * (n + 3))),
            ([size * (n + 3) as isize, size], Box::new(|i, j| i * (n + 3) + j)),
        ] {
            for in_place in [false, true] {
                let mut got = if in_place { x.clone() } else { vec![S::default(); rows * n] };
                let out = Operand { data: got.as_mut_ptr().cast(), strides: &dense, dtype: S::DTYPE };
                let x_data = if in_place { out.data } else { x.as_ptr() as *mut u8 };
                let first = Operand { data: x_data, strides: &dense, dtype: S::DTYPE };
                let second = Operand { data: y.as_ptr() as *mut u8, strides: &strides, dtype: S::DTYPE };
                // SAFETY: every operand holds what its strides reach; the output is an input or apart.
                unsafe {
                    let strip = strip::<Difference, T, 2>(level());
                    let params = [Scalar::Int(0); MAX_PARAMS];
                    run(strip, T::DTYPE, params, &[rows as i64, n as i64], &[out, first, second]);
                }
                for i in 0..rows {
                    for j in 0..n {
                        let wanted = S::from_f64(x[i * n + j].to_f64() - y[at(i, j)].to_f64()).to_f64();
                        let got = got[i * n + j].to_f64();
                        assert_eq!(got, wanted, "{} {rows} x {n} by {strides:?}, {i} {j}", S::DTYPE);
                    }
                }
            }
        }
    }

    #[test]
    fn short_rows_of_broadcast_operands() {
        for n in [2, 3, 5, 11, 12, 15, 16, 17, 31, 44, 61, 127, 128, 129, 200, 256, 257] {
            for rows in [4, 5, 33, 300, 600] {
                check::<f32, f32>(rows, n);
                check::<f64, f64>(rows, n);
                check::<bf16, f32>(rows, n);
                check::<f16, f32>(rows, n);
                check::<flambeau_base::Complex<f64>, flambeau_base::Complex<f64>>(rows, n);
            }
        }
    }

    /// Rows that are cut at cache lines, longer and shorter than what is computed at once.
    #[test]
    fn rows_of_results_past_the_caches() {
        for (rows, n) in [(4, 2049), (5, 5000), (41, 1001), (700, 33)] {
            check::<f32, f32>(rows, n);
            check::<f64, f64>(rows, n);
            check::<i32, i32>(rows, n);
        }
    }

    /// Rows that lie one element after those they are computed to: each element is read before it is written.
    #[test]
    fn rows_that_lie_in_the_output() {
        for n in [20, 33, 40, 44, 63, 64, 100, 127, 600] {
            for rows in [1, 5] {
                let apart = n + 2;
                let mut x: Vec<f32> = (0..rows * apart).map(value).collect();
                let y: Vec<f32> = (0..rows * n).map(|i| value(i + 7)).collect();
                let mut wanted = x.clone();
                for i in 0..rows {
                    for j in 0..n {
                        wanted[i * apart + j] = x[i * apart + j + 1] - y[i * n + j];
                    }
                }
                let data: *mut u8 = x.as_mut_ptr().cast();
                let operand = |data, strides| Operand { data, strides, dtype: DType::F32 };
                let (gaps, dense) = ([4 * apart as isize, 4], [4 * n as isize, 4]);
                // SAFETY: rows of two arrays; an output ahead of its input is gone through in order.
                unsafe {
                    let y = operand(y.as_ptr() as *mut u8, &dense);
                    let operands = [operand(data, &gaps), operand(data.add(4), &gaps), y];
                    let params = [Scalar::Int(0); MAX_PARAMS];
                    let strip = strip::<Difference, f32, 2>(level());
                    run(strip, DType::F32, params, &[rows as i64, n as i64], &operands);
                }
                assert_eq!(x, wanted, "{rows} x {n}");
            }
        }
    }

    /// A row of the output itself, taken from all: every row meets what became of it by then.
    #[test]
    fn a_row_of_the_output() {
        let (rows, n) = (6usize, 20usize);
        let mut x: Vec<f32> = (0..rows * n).map(value).collect();
        let mut wanted = x.clone();
        for i in 0..rows {
            for j in 0..n {
                wanted[i * n + j] -= wanted[2 * n + j];
            }
        }
        let data: *mut u8 = x.as_mut_ptr().cast();
        let operand = |data, strides| Operand { data, strides, dtype: DType::F32 };
        let dense = [4 * n as isize, 4];
        // SAFETY: rows of one array; what is read and written is that of the test.
        unsafe {
            let operands = [operand(data, &dense), operand(data, &dense), operand(data.add(8 * n), &[0, 4])];
            let params = [Scalar::Int(0); MAX_PARAMS];
            run(strip::<Difference, f32, 2>(level()), DType::F32, params, &[rows as i64, n as i64], &operands);
        }
        assert_eq!(x, wanted);
    }
}
