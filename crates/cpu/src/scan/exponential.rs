//! Running logarithms of sums of exponentials, of real numbers: the exponentials and logarithms of a block at a time.

use super::{LogSumExp, Operator, Scanned};
use crate::buffer::aligned;
use crate::math::{Float, Isa, Kernel, run, select};
use flambeau_base::DType;

/// Elements of a line that are made sums of exponentials together.
const SUMMED: usize = 64;

/// How far below the largest of a block a number may be: the exponential of the difference is a normal number.
const DEEPEST: f64 = 600.0;

/// Scans `n` elements of a line, continuing from the accumulator. Sums within a block are of exponentials relative to the
/// block's largest number, whose logarithms lose what an `f64` holds beyond the digits of smaller dtypes: `f64` itself is
/// scanned element by element.
///
/// # Safety
/// `src` and `dst` are valid for `n` elements (they may be the same), `accumulator` for an `f64`.
pub(super) unsafe fn line<T: Scanned<Accumulator = f64>>(src: *const u8, dst: *mut u8, n: usize, accumulator: *mut u8) {
    let (src, dst, accumulator) = (src.cast::<T>(), dst.cast::<T>(), accumulator.cast::<f64>());
    let mut block = aligned([0.0; SUMMED]);
    for start in (0..n).step_by(SUMMED) {
        let count = SUMMED.min(n - start);
        // SAFETY: elements of the caller's, and its accumulator; the machine has its level.
        unsafe {
            for (i, x) in block.iter_mut().enumerate() {
                *x = if i < count { src.add(start + i).read_unaligned().widen() } else { LogSumExp::NEUTRAL };
            }
            let carry = accumulator.read();
            if T::DTYPE == DType::F64 || !run::<Sums>((&mut *block, carry)) {
                let mut carry = carry;
                for x in &mut block[..count] {
                    carry = LogSumExp::combine(carry, *x);
                    *x = carry;
                }
            }
            accumulator.write(block[count - 1]);
            for (i, &x) in block[..count].iter().enumerate() {
                dst.add(start + i).write_unaligned(T::narrow(x));
            }
        }
    }
}

/// Lines of so many elements are scanned beside each other: as [`line`], each takes as long as one of [`SUMMED`].
const FEW: usize = 24;

/// Numbers that [`Pairs`] takes at a time, and those that are a vector: any less take as long as that many.
const TOGETHER: usize = 64;
const VECTOR: usize = 8;

/// Scans `count` lines of `n` elements that follow one another, short ones an element of many lines at a time.
///
/// # Safety
/// `src` and `dst` are valid for the lines; they may be the same.
pub(super) unsafe fn lines<T: Scanned<Accumulator = f64>>(src: *const u8, dst: *mut u8, n: usize, count: usize) {
    let (src, dst) = (src.cast::<T>(), dst.cast::<T>());
    for first in (0..count).step_by(TOGETHER) {
        let many = TOGETHER.min(count - first);
        let neutral = [<LogSumExp as Operator<f64>>::NEUTRAL; TOGETHER];
        let (mut sums, mut terms) = (aligned(neutral), aligned(neutral));
        // SAFETY: lines of the caller's, and accumulators for them; the machine has its level.
        unsafe {
            let (src, dst) = (src.add(first * n), dst.add(first * n));
            if T::DTYPE != DType::F64 && n > FEW {
                for (l, sum) in sums[..many].iter_mut().enumerate() {
                    line::<T>(src.add(l * n).cast(), dst.add(l * n).cast(), n, std::ptr::from_mut(sum).cast());
                }
                continue;
            }
            let vectors = many.next_multiple_of(VECTOR);
            for i in 0..n {
                for (l, term) in terms[..many].iter_mut().enumerate() {
                    *term = src.add(l * n + i).read_unaligned().widen();
                }
                run::<Pairs>((&mut sums[..vectors], &terms[..vectors]));
                for (l, &sum) in sums[..many].iter().enumerate() {
                    dst.add(l * n + i).write_unaligned(T::narrow(sum));
                }
            }
        }
    }
}

struct Sums;

impl Kernel for Sums {
    /// A block, and what goes before it.
    type Args = (*mut [f64; SUMMED], f64);
    /// Whether the numbers lie close enough together; if not, nothing was done.
    type Output = bool;

    #[inline(always)]
    unsafe fn run<I: Isa>((block, carry): Self::Args) -> bool {
        const LANES: usize = 8;
        // SAFETY: the caller's block.
        let block = unsafe { &mut *block };
        let mut largest = aligned([carry; LANES]);
        for part in block.chunks_exact(LANES) {
            for (largest, &x) in largest.iter_mut().zip(part) {
                *largest = select(x > *largest, x, *largest);
            }
        }
        let largest = largest.into_iter().fold(carry, |a, b| select(b > a, b, a));
        let lowest = largest - DEEPEST;
        let fits = |x: f64| (x >= lowest) | (x == f64::NEG_INFINITY);
        let rare = block.iter().fold(0u64, |rare, &x| rare | u64::from(!fits(x)));
        if rare != 0 || !fits(carry) || largest.is_infinite() {
            return false;
        }
        for x in block.iter_mut() {
            *x = Float::exp::<I>(*x - largest);
        }
        let mut sum = Float::exp::<I>(carry - largest);
        for x in block.iter_mut() {
            sum += *x;
            *x = sum;
        }
        for x in block.iter_mut() {
            *x = largest + Float::log::<I>(*x);
        }
        true
    }
}

/// Adds a row of `n` elements to as many accumulators.
///
/// # Safety
/// As [`line`], with an accumulator for each element.
pub(super) unsafe fn row<T: Scanned<Accumulator = f64>>(src: *const u8, dst: *mut u8, n: usize, accumulators: *mut u8) {
    let (src, dst, accumulators) = (src.cast::<T>(), dst.cast::<T>(), accumulators.cast::<f64>());
    for start in (0..n).step_by(TOGETHER) {
        let many = TOGETHER.min(n - start);
        let neutral = [<LogSumExp as Operator<f64>>::NEUTRAL; TOGETHER];
        let (mut sums, mut terms) = (aligned(neutral), aligned(neutral));
        // SAFETY: the caller's elements and accumulators; the machine has its level.
        unsafe {
            let (src, dst, accumulators) = (src.add(start), dst.add(start), accumulators.add(start));
            for i in 0..many {
                (sums[i], terms[i]) = (accumulators.add(i).read(), src.add(i).read_unaligned().widen());
            }
            let vectors = many.next_multiple_of(VECTOR);
            run::<Pairs>((&mut sums[..vectors], &terms[..vectors]));
            for (i, &sum) in sums[..many].iter().enumerate() {
                accumulators.add(i).write(sum);
                dst.add(i).write_unaligned(T::narrow(sum));
            }
        }
    }
}

struct Pairs;

impl Kernel for Pairs {
    /// Sums, and what is added to each.
    type Args = (*mut [f64], *const [f64]);
    type Output = ();

    /// As [`Operator::combine`], without branches; a NaN stays one on every way.
    #[inline(always)]
    unsafe fn run<I: Isa>((sums, terms): Self::Args) {
        // SAFETY: the caller's slices.
        let (sums, terms) = unsafe { (&mut *sums, &*terms) };
        for (sum, &b) in sums.iter_mut().zip(terms) {
            let a = *sum;
            let (low, high) = (select(a < b, a, b), select(a < b, b, a));
            let joined = high + Float::log1p::<I>(Float::exp::<I>(low - high));
            *sum = select((low == high) & (low.abs() == f64::INFINITY), low, joined);
        }
    }
}
