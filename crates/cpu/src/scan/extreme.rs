//! Running extremes with their positions.

use super::Lines;
use crate::copy::Shared;
use flambeau_base::halves::f16_to_f32;
use flambeau_base::{Bool, DType, bf16, dispatch, f16};

/// Running maxima (`greatest`) or minima along `dim`, and where they are. Among equal values the last wins, and a NaN
/// stays, as in PyTorch. Operands are addresses and strides in bytes; the indices are `i64`.
///
/// # Safety
/// All three must be valid for `sizes` at their strides and must not overlap; the outputs' elements must be distinct.
/// `dtype` must not be complex.
pub unsafe fn cumulative_extreme(
    greatest: bool,
    sizes: &[i64],
    dim: usize,
    values: (*mut u8, &[isize]),
    indices: (*mut u8, &[isize]),
    src: (*const u8, &[isize]),
    dtype: DType,
) {
    if sizes.contains(&0) {
        return;
    }
    let lines = Lines::new(sizes, dim, &[values, indices, (src.0.cast_mut(), src.1)]);
    let along = &lines.along;
    let n = lines.length;
    lines.for_each(&|p, s, count| {
        dispatch!(dtype, T in [bool, ints, floats] => {
            // SAFETY: `count` lines of the caller's operands.
            unsafe {
                if count >= 4 && s[0].unsigned_abs() < along[0].unsigned_abs() {
                    side_by_side::<T>(greatest, p, s, along, count, n);
                } else {
                    for i in 0..count as isize {
                        let line = [p[0].offset(i * s[0]), p[1].offset(i * s[1]), p[2].offset(i * s[2])];
                        one_line::<T>(greatest, line, along, n);
                    }
                }
            }
        }; else unreachable!("complex numbers have no order"));
    });
}

/// An element, and what it is compared by: comparing halves themselves takes several times as long.
trait Ordered: Copy {
    type Key: PartialOrd + Copy;
    fn key(self) -> Self::Key;
}

macro_rules! ordered {
    ($($t:ty => $key:ty: |$x:ident| $by:expr;)*) => { $(
        impl Ordered for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key { let $x = self; $by }
        }
    )* };
}
ordered! {
    Bool => Bool: |x| x;
    u8 => u8: |x| x; u16 => u16: |x| x; u32 => u32: |x| x; u64 => u64: |x| x;
    i8 => i8: |x| x; i16 => i16: |x| x; i32 => i32: |x| x; i64 => i64: |x| x;
    f16 => f32: |x| f16_to_f32(x); bf16 => f32: |x| f32::from_bits(u32::from(x.to_bits()) << 16); f32 => f32: |x| x; f64 => f64: |x| x;
}

/// Whether `x` replaces `best`.
#[inline(always)]
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
fn replaces<K: PartialOrd + Copy>(greatest: bool, x: K, best: K) -> bool {
    x != x || (best == best && if greatest { x >= best } else { x <= best })
}

/// Asks for a branch where the compiler might choose between values, whose chain a line would wait for: what a branch
/// guesses is hardly ever wrong here.
#[cold]
#[inline]
fn rarely() {}

unsafe fn one_line<T: Ordered>(greatest: bool, p: [*mut u8; 3], along: &[isize], n: usize) {
    // SAFETY: `n` elements of each operand by the caller's contract.
    unsafe {
        let mut best = p[2].cast::<T>().read_unaligned();
        let mut key = best.key();
        let mut at = 0;
        for i in 0..n as isize {
            let x = p[2].offset(i * along[2]).cast::<T>().read_unaligned();
            if replaces(greatest, x.key(), key) {
                rarely();
                (best, key, at) = (x, x.key(), i as i64);
            }
            p[0].offset(i * along[0]).cast::<T>().write_unaligned(best);
            p[1].offset(i * along[1]).cast::<i64>().write_unaligned(at);
        }
    }
}

/// Row by row: the previous row of the outputs is the state.
unsafe fn side_by_side<T: Ordered>(
    greatest: bool,
    p: &[*mut u8],
    s: &[isize],
    along: &[isize],
    count: usize,
    n: usize,
) {
    let p: Vec<Shared<u8>> = p.iter().map(|&p| Shared(p)).collect();
    for i in 0..n as isize {
        let at = |k: usize, i: isize, j: isize| p[k].get().wrapping_offset(i * along[k] + j * s[k]);
        let before = (i - 1).max(0);
        for j in 0..count as isize {
            // SAFETY: element (i, j) of each operand, and the row before it.
            unsafe {
                let x = at(2, i, j).cast::<T>().read_unaligned();
                let (best, from) = if i == 0 {
                    (x, 0)
                } else {
                    (at(0, before, j).cast::<T>().read_unaligned(), at(1, before, j).cast::<i64>().read_unaligned())
                };
                let replace = replaces(greatest, x.key(), best.key());
                at(0, i, j).cast::<T>().write_unaligned(if replace { x } else { best });
                at(1, i, j).cast::<i64>().write_unaligned(if replace { i as i64 } else { from });
            }
        }
    }
}
