//! Short rows of broadcast operands, several at a time.
//!
//! A strip takes rows of a few dozen elements one by one, and what does not fill its vectors element by element. Here what
//! is broadcast among such rows is laid out for a block of them, so that the strip runs over the block as over one row.

use super::{BLOCK, MAX_OPERANDS};
use std::mem::MaybeUninit;

/// Rows from which on a strip takes them as well one by one: where operands are converted around it, and where not.
const CONVERTED: usize = 256;
const PLAIN: usize = 128;

/// Elements that a strip is left with, after its whole chunks, from which on laying out pays where nothing is converted.
const MANY_LEFT: usize = 12;

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
pub(super) fn fits([inner, outer]: [&[isize]; 2], [n, rows]: [usize; 2], sizes: &[usize], converted: bool) -> bool {
    let short = if converted { n <= CONVERTED } else { n <= PLAIN && n % 32 >= MANY_LEFT };
    short
        && n > 1
        && rows >= 4
        && kind(inner[0], outer[0], n, sizes[0]) == Some(Rows::Plain)
        && inner[0] != 0
        && (1..sizes.len()).all(|k| kind(inner[k], outer[k], n, sizes[k]).is_some())
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
/// The operands are valid for `rows` times `n` elements at their strides; the output, which is first, overlaps no input
/// that is broadcast.
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
            let bytes = n * sizes[k];
            for i in 0..at_once {
                // SAFETY: the operand's row; the buffer holds `BLOCK` elements.
                unsafe { at[k].add(i * bytes).copy_from_nonoverlapping(data[k], bytes) };
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
