//! Choosing between two operands.

use crate::copy::stream;
use crate::math::{Isa, Kernel, Level, entry, level};
use flambeau_base::iter::Iter;
use std::marker::PhantomData;

/// The addresses of some rows (output, condition, the two operands), the byte strides along a row and from row to row, the
/// length and number of rows, and whether stores go past the caches.
type Args = ([*mut u8; 4], [[isize; 4]; 2], [usize; 2], bool);

struct Select<T>(PhantomData<T>);

impl<T: Copy + Default> Kernel for Select<T> {
    type Args = Args;
    type Output = ();
    /// (Zen 4 takes 0.95 to 1.0 of the time with AVX2.)
    const HIGHEST: Level = Level::Avx2;

    #[inline(always)]
    unsafe fn run<I: Isa>((data, [strides, outer], [n, rows], streams): Args) {
        let size = size_of::<T>() as isize;
        let dense = |k: usize| strides[k] == size || strides[k] == 0;
        let plain = strides[0] == size && dense(2) && dense(3);
        // Numbers that all rows share, as many times as are read at once.
        let mut numbers = [[T::default(); CHUNK]; 2];
        let shared = |k: usize| strides[k] == size || outer[k] == 0;
        let whole = plain && strides[1] == 0 && n > 1 && shared(2) && shared(3);
        if whole {
            for (k, numbers) in numbers.iter_mut().enumerate() {
                // SAFETY: the caller's operand.
                *numbers = [unsafe { data[k + 2].cast::<T>().read_unaligned() }; CHUNK];
            }
        }
        for row in 0..rows as isize {
            let data: [*mut u8; 4] = std::array::from_fn(|k| data[k].wrapping_offset(row * outer[k]));
            // SAFETY: the caller vouches for `n` elements of every operand in every row.
            unsafe {
                if whole {
                    // (Which of the two cannot be predicted: both are known, and one is chosen.)
                    let from = |k: usize| match strides[k] {
                        0 => (numbers[k - 2].as_ptr(), 0),
                        _ => (data[k].cast::<T>().cast_const(), usize::MAX),
                    };
                    let (x, y) = (from(2), from(3));
                    copy_row(if *data[1] != 0 { x } else { y }, data[0].cast::<T>(), n);
                } else if plain && strides[1] == 1 {
                    match (strides[2] == 0, strides[3] == 0) {
                        (false, false) => chosen::<I, T, false, false>(data, n, streams),
                        (true, false) => chosen::<I, T, true, false>(data, n, streams),
                        (false, true) => chosen::<I, T, false, true>(data, n, streams),
                        (true, true) => chosen::<I, T, true, true>(data, n, streams),
                    }
                } else {
                    for i in 0..n as isize {
                        let k = if *data[1].offset(i * strides[1]) != 0 { 2 } else { 3 };
                        let x = data[k].offset(i * strides[k]).cast::<T>().read_unaligned();
                        data[0].offset(i * strides[0]).cast::<T>().write_unaligned(x);
                    }
                }
            }
        }
    }
}

/// Elements computed before they are stored: the output may be one of the operands.
const CHUNK: usize = 64;
/// The same where fewer are left.
const PART: usize = 8;

/// Copies `n` elements from an address, with the bits of an index that count there: none where it is a chunk of one number.
///
/// # Safety
/// Both are valid for them, and the same or apart.
#[inline(always)]
unsafe fn copy_row<T: Copy>((from, bits): (*const T, usize), out: *mut T, n: usize) {
    let mut start = 0;
    // SAFETY: elements before `n`; of a chunk, its first ones.
    unsafe {
        while start + CHUNK <= n {
            out.add(start)
                .cast::<[T; CHUNK]>()
                .write_unaligned(from.add(start & bits).cast::<[T; CHUNK]>().read_unaligned());
            start += CHUNK;
        }
        while start + PART <= n {
            out.add(start)
                .cast::<[T; PART]>()
                .write_unaligned(from.add(start & bits).cast::<[T; PART]>().read_unaligned());
            start += PART;
        }
        for i in start..n {
            out.add(i).write_unaligned(from.add(i & bits).read_unaligned());
        }
    }
}

/// A dense output and condition; each operand dense or (`FIXED`) one element.
///
/// # Safety
/// As [`select`], for `n` elements.
#[inline(always)]
unsafe fn chosen<I: Isa, T: Copy + Default, const FIXED_X: bool, const FIXED_Y: bool>(
    data: [*mut u8; 4],
    n: usize,
    streams: bool,
) {
    let (out, mask, x, y) = (data[0].cast::<T>(), data[1], data[2].cast::<T>(), data[3].cast::<T>());
    let streams = streams && out.addr().is_multiple_of(64);
    // SAFETY: indices below `n`, or 0 where the operand is one element.
    unsafe {
        let (first_x, first_y) = (x.read_unaligned(), y.read_unaligned());
        let at = |i: usize| {
            let x = if FIXED_X { first_x } else { x.add(i).read_unaligned() };
            let y = if FIXED_Y { first_y } else { y.add(i).read_unaligned() };
            crate::math::select(*mask.add(i) != 0, x, y)
        };
        let mut start = 0;
        while start + CHUNK <= n {
            let mut buffer = [T::default(); CHUNK];
            for (i, b) in buffer.iter_mut().enumerate() {
                *b = at(start + i);
            }
            if streams {
                stream::store::<I, _, CHUNK>(out.add(start), &buffer);
            } else {
                out.add(start).cast::<[T; CHUNK]>().write_unaligned(buffer);
            }
            start += CHUNK;
        }
        while const { !I::COMPACT } && start + PART <= n {
            let mut buffer = [T::default(); PART];
            for (i, b) in buffer.iter_mut().enumerate() {
                *b = at(start + i);
            }
            out.add(start).cast::<[T; PART]>().write_unaligned(buffer);
            start += PART;
        }
        for i in start..n {
            out.add(i).write_unaligned(at(i));
        }
    }
}

/// Writes `x` where the condition (one byte per element, not zero is true) is set and `y` elsewhere; elements are of
/// `size` bytes (1, 2, 4, 8 or 16).
///
/// # Safety
/// All operands must be valid for `sizes` at their byte strides; the output's elements must be distinct, and be those
/// of an operand exactly or apart from it.
pub unsafe fn select(
    sizes: &[i64],
    out: (*mut u8, &[isize]),
    condition: (*const u8, &[isize]),
    x: (*const u8, &[isize]),
    y: (*const u8, &[isize]),
    size: usize,
) {
    let read = |(data, strides): (*const u8, _)| (data.cast_mut(), strides);
    let walk = Iter::new(sizes, &[out, read(condition), read(x), read(y)]);
    let run = match size {
        1 => entry::<Select<u8>>(level()),
        2 => entry::<Select<u16>>(level()),
        4 => entry::<Select<u32>>(level()),
        8 => entry::<Select<u64>>(level()),
        _ => entry::<Select<[u64; 2]>>(level()),
    };
    let in_place = std::ptr::eq(out.0, x.0) || std::ptr::eq(out.0, y.0);
    let wide = [out.1, x.1, y.1].iter().filter(|s| !s.contains(&0)).count();
    let streams = !in_place && stream::streams(walk.numel().saturating_mul(wide * size + 1));
    walk.for_each_rows(&|p, strides, counts| {
        let strides = strides.map(|s| [s[0], s[1], s[2], s[3]]);
        // SAFETY: rows of the caller's operands.
        unsafe { run(([p[0], p[1], p[2], p[3]], strides, counts, streams)) }
        if streams {
            stream::finish();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_dense_strided_and_fixed() {
        let n = 150;
        let mask: Vec<u8> = (0..n).map(|i| (i % 3 == 0) as u8 * 7).collect();
        let x: Vec<u32> = (0..2 * n as u32).collect();
        let y = 1_000_000u32;
        for step in [1usize, 2] {
            let mut out = vec![0u32; n];
            let (wide, fixed) = ([4 * step as isize], [0isize]);
            // SAFETY: `n` elements of each at the strides given.
            unsafe {
                select(
                    &[n as i64],
                    (out.as_mut_ptr().cast(), &[4]),
                    (mask.as_ptr(), &[1]),
                    (x.as_ptr().cast(), &wide),
                    (std::ptr::from_ref(&y).cast(), &fixed),
                    4,
                );
            }
            for i in 0..n {
                assert_eq!(out[i], if i % 3 == 0 { x[i * step] } else { y }, "{i} {step}");
            }
        }
    }

    /// Rows long and short; every operand's rows end to end, apart, repeated, one number each or for all; in place too.
    #[test]
    fn rows_of_broadcast_operands() {
        fn check<T: Copy + Default + PartialEq + std::fmt::Debug>(of: impl Fn(usize) -> T) {
            let size = size_of::<T>() as isize;
            for (rows, n) in [(1usize, 9usize), (30, 1), (30, 3), (21, 7), (9, 16), (5, 100), (3, 200)] {
                let room = rows * (n + 3);
                let (x, y): (Vec<T>, Vec<T>) =
                    ((0..room).map(&of).collect(), (0..room).map(|i| of(i + 7777)).collect());
                let mask: Vec<u8> = (0..room).map(|i| ((i * 7919) % 5 % 2) as u8 * 3).collect();
                let (n_bytes, apart) = (n as isize, n as isize + 3);
                let layouts = [[n_bytes, 1], [apart, 1], [0, 1], [1, 0], [0, 0]];
                for m in layouts {
                    for a in layouts {
                        for b in layouts {
                            let in_place = a == layouts[0] && b != layouts[0];
                            let bytes = |s: [isize; 2]| s.map(|s| s * size);
                            let mut out = if in_place { x.clone() } else { vec![T::default(); room] };
                            let to = out.as_mut_ptr().cast::<u8>();
                            let from = if in_place { to.cast_const() } else { x.as_ptr().cast() };
                            // SAFETY: arrays that these layouts lie in; the output is the first operand or apart.
                            unsafe {
                                let sizes = [rows as i64, n as i64];
                                let (wide, first, second) = (bytes([n_bytes, 1]), bytes(a), bytes(b));
                                let second = (y.as_ptr().cast(), &second[..]);
                                select(&sizes, (to, &wide), (mask.as_ptr(), &m), (from, &first), second, size as usize);
                            }
                            for i in 0..rows {
                                for j in 0..n {
                                    let at = |s: [isize; 2]| i * s[0] as usize + j * s[1] as usize;
                                    let want = if mask[at(m)] != 0 { x[at(a)] } else { y[at(b)] };
                                    assert_eq!(out[i * n + j], want, "{rows} x {n}, {m:?} {a:?} {b:?}, {i} {j}");
                                }
                            }
                        }
                    }
                }
            }
        }
        check(|i| i as u8);
        check(|i| i as u16);
        check(|i| i as u32);
        check(|i| i as u64);
        check(|i| [i as u64, !i as u64]);
    }
}
