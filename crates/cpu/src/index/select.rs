//! Choosing between two operands.

use crate::copy::stream;
use crate::math::{Isa, Kernel, entry, level};
use flambeau_base::iter::Iter;
use std::marker::PhantomData;

/// A strip's addresses and byte strides (output, condition, the two operands), its length, and whether stores go past
/// the caches.
type Args = ([*mut u8; 4], [isize; 4], usize, bool);

struct Select<T>(PhantomData<T>);

impl<T: Copy + Default> Kernel for Select<T> {
    type Args = Args;
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((data, strides, n, streams): Args) {
        let size = size_of::<T>() as isize;
        let dense = |k: usize| strides[k] == size || strides[k] == 0;
        // SAFETY: the caller vouches for `n` elements of every operand.
        unsafe {
            if strides[0] == size && strides[1] == 1 && dense(2) && dense(3) {
                match (strides[2] == 0, strides[3] == 0) {
                    (false, false) => chosen::<I, T, false, false>(data, n, streams),
                    (true, false) => chosen::<I, T, true, false>(data, n, streams),
                    (false, true) => chosen::<I, T, false, true>(data, n, streams),
                    (true, true) => chosen::<I, T, true, true>(data, n, streams),
                }
                return;
            }
            for i in 0..n as isize {
                let k = if *data[1].offset(i * strides[1]) != 0 { 2 } else { 3 };
                let x = data[k].offset(i * strides[k]).cast::<T>().read_unaligned();
                data[0].offset(i * strides[0]).cast::<T>().write_unaligned(x);
            }
        }
    }
}

/// Elements computed before they are stored: the output may be one of the operands.
const CHUNK: usize = 64;

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
        if streams {
            stream::finish();
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
    walk.for_each(&|p, s, n| {
        // SAFETY: a strip of the caller's operands.
        unsafe { run(([p[0], p[1], p[2], p[3]], [s[0], s[1], s[2], s[3]], n, streams)) }
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
}
