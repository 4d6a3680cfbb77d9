//! Running totals: cumsum, cumprod, logcumsumexp, cummax, cummin.
//!
//! A source of another dtype or with gaps is cast into the destination (or a block on the stack, when that is strided)
//! and scanned in place there, so the kernels see contiguous data of one dtype. Lines that lie next to each other are
//! scanned side by side, a row of accumulators at a time; a long line alone is cut into fixed pieces whose totals are
//! carried in order. No result depends on the number of threads.
//!
//! As in PyTorch, sums and products of `f32` (here also of halves) accumulate in `f64`, those of complex64 in complex128.

mod exponential;
mod extreme;

pub use extreme::cumulative_extreme;

use crate::copy::{CastStrip, Shared, cast_strip, cast_strip_of_size};
use flambeau_base::iter::{GRAIN, Iter};
use flambeau_base::parallel::{num_threads, parallel_for};
use flambeau_base::{Bool, Complex, DType, Element, bf16, dispatch, f16};

/// What a scan accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanOp {
    /// Running sums.
    Sum,
    /// Running products.
    Prod,
    /// The logarithm of running sums of exponentials; for floating-point and complex dtypes.
    LogSumExp,
}

/// Lines scanned side by side: their accumulators (at most 16 bytes each) take 2 KiB.
const WIDTH: usize = 128;
/// Elements of a line scanned at a time when the destination is strided.
const BLOCK: usize = 512;
/// Elements of one piece of a long line.
const PIECE: usize = 1 << 16;

/// Element `i` of `dst` becomes the accumulator combined with elements `..= i` of `src`, for `n` contiguous elements of
/// one dtype; the two may be the same.
type Line = unsafe fn(src: *const u8, dst: *mut u8, n: usize, accumulator: *mut u8);

/// The kernels of one (operator, dtype).
#[derive(Clone, Copy)]
struct Kernels {
    /// Along a line, one accumulator.
    line: Line,
    /// Across lines, one accumulator each.
    row: Line,
    /// Only the accumulator.
    total: unsafe fn(src: *const u8, n: usize, accumulator: *mut u8),
    /// Combines the second accumulator into the first.
    join: unsafe fn(*mut u8, *const u8),
    /// Writes the neutral accumulator.
    start: unsafe fn(*mut u8),
}

/// Scans `src`, converted to the destination's dtype, along `dim` of `sizes`. Operands are addresses, strides in bytes
/// and dtypes; the two may be the same elements.
///
/// # Safety
/// Both must be valid for `sizes` at their strides; the destination's elements must be distinct, and must not overlap
/// the source's unless they are the same elements of the same dtype.
pub unsafe fn scan(
    op: ScanOp,
    sizes: &[i64],
    dim: usize,
    dst: (*mut u8, &[isize], DType),
    src: (*const u8, &[isize], DType),
) {
    if sizes.contains(&0) {
        return;
    }
    let kernels = kernels(op, dst.2);
    let job = Job { kernels, cast: cast_strip(src.2, dst.2), same: src.2 == dst.2, size: dst.2.size() };
    let lines = Lines::new(sizes, dim, &[(dst.0, dst.1), (src.0.cast_mut(), src.1)]);
    let n = lines.length;
    // Pieces cost a second pass: integers, whose bits are the same either way, need several threads to gain by it.
    // The pieces of a floating-point product might overflow where the whole does not.
    let may_cut = if dst.2.is_integral(true) { num_threads() >= 4 } else { op == ScanOp::Sum };
    if may_cut && n >= 4 * PIECE && lines.it.numel() < 8 && dst.2.size() as isize == lines.along[0] {
        for i in 0..lines.it.numel() {
            lines.it.range(i, i + 1, &|p, _, _| {
                // SAFETY: one line of the operands.
                unsafe { job.long_line(p, &lines.along, n) }
            });
        }
        return;
    }
    lines.for_each(&|p, s, count| {
        // SAFETY: `count` lines of the operands.
        unsafe {
            if s[0].unsigned_abs() < lines.along[0].unsigned_abs() && count >= 4 {
                job.side_by_side(p, s, &lines.along, count, n);
            } else {
                for i in 0..count as isize {
                    let mut accumulator = Room([0; 2]);
                    (kernels.start)(accumulator.address());
                    let line = [p[0].offset(i * s[0]), p[1].offset(i * s[1])];
                    job.line(line[0], line[1], &lines.along, n, accumulator.address());
                }
            }
        }
    });
}

/// The lines along one dimension of operands of one shape.
pub(crate) struct Lines {
    /// Walks the other dimensions.
    pub it: Iter,
    /// Elements in a line.
    pub length: usize,
    /// Each operand's stride along a line.
    pub along: Vec<isize>,
}

impl Lines {
    /// Plans the lines along `dim` (a tensor without dimensions is one line of one element).
    pub(crate) fn new(sizes: &[i64], dim: usize, operands: &[(*mut u8, &[isize])]) -> Lines {
        let drop = |s: &[isize]| s.iter().enumerate().filter(|&(d, _)| d != dim).map(|(_, &s)| s).collect::<Vec<_>>();
        let others: Vec<i64> = sizes.iter().enumerate().filter(|&(d, _)| d != dim).map(|(_, &n)| n).collect();
        let strides: Vec<Vec<isize>> = operands.iter().map(|o| drop(o.1)).collect();
        let kept: Vec<(*mut u8, &[isize])> = operands.iter().zip(&strides).map(|(o, s)| (o.0, s.as_slice())).collect();
        Lines {
            it: Iter::new(&others, &kept),
            length: sizes.get(dim).map_or(1, |&n| n as usize),
            along: operands.iter().map(|o| o.1.get(dim).copied().unwrap_or(0)).collect(),
        }
    }

    /// Runs `strip` over lines, in pieces of whole blocks of lines.
    fn for_each(&self, strip: &flambeau_base::iter::Strip) {
        let adjacent = self.it.strides(0)[0].unsigned_abs() < self.along[0].unsigned_abs();
        let least = if adjacent { 16 } else { 1 };
        self.it.for_each_grain((GRAIN / self.length).max(least), strip);
    }
}

/// Room for one accumulator.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Room([u64; 2]);

impl Room {
    fn address(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

struct Job {
    kernels: Kernels,
    cast: CastStrip,
    /// Whether the source has the destination's dtype already.
    same: bool,
    /// Bytes of a destination element.
    size: usize,
}

impl Job {
    /// `n` elements of the source as contiguous ones of the destination's dtype: the source itself, or cast into `room`.
    unsafe fn contiguous(&self, src: *const u8, stride: isize, room: *mut u8, n: usize) -> *const u8 {
        if self.same && stride == self.size as isize {
            return src;
        }
        // SAFETY: the caller's elements and room for them.
        unsafe { (self.cast)(src, stride, room, self.size as isize, n) };
        room
    }

    /// One line of `n` elements, continuing from the accumulator.
    unsafe fn line(&self, dst: *mut u8, src: *const u8, along: &[isize], n: usize, accumulator: *mut u8) {
        let size = self.size as isize;
        let mut block = [0u64; 2 * BLOCK];
        let block = block.as_mut_ptr().cast::<u8>();
        let store = cast_strip_of_size(self.size);
        for start in (0..n).step_by(BLOCK) {
            let count = BLOCK.min(n - start);
            let (dst, src) =
                (dst.wrapping_offset(start as isize * along[0]), src.wrapping_offset(start as isize * along[1]));
            // SAFETY: part of the caller's line; the block holds BLOCK elements.
            unsafe {
                let work = if along[0] == size { dst } else { block };
                let from = self.contiguous(src, along[1], work, count);
                (self.kernels.line)(from, work, count, accumulator);
                if along[0] != size {
                    store(block, size, dst, along[0], count);
                }
            }
        }
    }

    /// `count` lines that lie next to each other.
    unsafe fn side_by_side(&self, p: &[*mut u8], s: &[isize], along: &[isize], count: usize, n: usize) {
        let size = self.size as isize;
        let store = cast_strip_of_size(self.size);
        let mut accumulators = [const { Room([0; 2]) }; WIDTH];
        let accumulators = accumulators.as_mut_ptr().cast::<u8>();
        let mut block = [const { Room([0; 2]) }; WIDTH];
        let block = block.as_mut_ptr().cast::<u8>();
        let step = accumulator_size(self.size) as isize;
        for first in (0..count).step_by(WIDTH) {
            let width = WIDTH.min(count - first);
            for i in 0..width as isize {
                // SAFETY: WIDTH accumulators fit.
                unsafe { (self.kernels.start)(accumulators.offset(i * step)) };
            }
            let mut dst = p[0].wrapping_offset(first as isize * s[0]);
            let mut src: *const u8 = p[1].wrapping_offset(first as isize * s[1]);
            for _ in 0..n {
                // SAFETY: one row of the caller's lines.
                unsafe {
                    let work = if s[0] == size { dst } else { block };
                    let from = self.contiguous(src, s[1], work, width);
                    (self.kernels.row)(from, work, width, accumulators);
                    if s[0] != size {
                        store(block, size, dst, s[0], width);
                    }
                }
                dst = dst.wrapping_offset(along[0]);
                src = src.wrapping_offset(along[1]);
            }
        }
    }

    /// A long line with a contiguous destination: totals of fixed pieces, carried in order, then the pieces.
    unsafe fn long_line(&self, p: &[*mut u8], along: &[isize], n: usize) {
        let (dst, src) = (Shared(p[0]), Shared(p[1]));
        let pieces = n.div_ceil(PIECE);
        let mut totals: Vec<Room> = (0..=pieces).map(|_| Room([0; 2])).collect();
        let shared = Shared(totals.as_mut_ptr());
        let kernels = self.kernels;
        parallel_for(n, PIECE, &|r| {
            let mut block = [0u64; 2 * BLOCK];
            let block = block.as_mut_ptr().cast::<u8>();
            // SAFETY: one piece's slot and elements; the block holds BLOCK of them.
            unsafe {
                let total = shared.get().add(r.start / PIECE + 1).cast::<u8>();
                (kernels.start)(total);
                for start in r.clone().step_by(BLOCK) {
                    let count = BLOCK.min(r.end - start);
                    let from = self.contiguous(src.get().offset(start as isize * along[1]), along[1], block, count);
                    (kernels.total)(from, count, total);
                }
            }
        });
        // SAFETY: accumulators of this job.
        unsafe {
            (kernels.start)(totals[0].address());
            for i in 0..pieces {
                let before = totals[i].address();
                let mut sum = Room([0; 2]);
                std::ptr::copy_nonoverlapping(before, sum.address(), 16);
                (kernels.join)(sum.address(), totals[i + 1].address());
                totals[i + 1] = sum;
            }
        }
        let shared = Shared(totals.as_mut_ptr());
        parallel_for(n, PIECE, &|r| {
            // SAFETY: one piece's carry and elements.
            unsafe {
                let carry = shared.get().add(r.start / PIECE).cast::<u8>();
                let at = r.start as isize;
                self.line(dst.get().offset(at * along[0]), src.get().offset(at * along[1]), along, r.len(), carry);
            }
        });
    }
}

// SAFETY: function pointers and sizes.
unsafe impl Sync for Job {}

/// Bytes of an accumulator for elements of `size` bytes: see `Scanned`. (Complex64 shares its size with `f64` and
/// takes 16; a larger step is harmless.)
const fn accumulator_size(size: usize) -> usize {
    match size {
        8 | 16 => 16,
        _ => 8,
    }
}

/// A dtype with its accumulator.
trait Scanned: Element {
    type Accumulator: Copy + Send + Sync;
    fn widen(self) -> Self::Accumulator;
    fn narrow(a: Self::Accumulator) -> Self;
}

macro_rules! scanned {
    ($($t:ty => $a:ty, $widen:ident, $narrow:ident;)*) => { $(
        impl Scanned for $t {
            type Accumulator = $a;
            #[inline(always)]
            fn widen(self) -> $a { <$t as Element>::$widen(self) }
            #[inline(always)]
            fn narrow(a: $a) -> $t { <$t as Element>::$narrow(a) }
        }
    )* };
}
scanned! {
    Bool => i64, to_i64, from_i64;
    u8 => i64, to_i64, from_i64; u16 => i64, to_i64, from_i64; u32 => i64, to_i64, from_i64; u64 => i64, to_i64, from_i64;
    i8 => i64, to_i64, from_i64; i16 => i64, to_i64, from_i64; i32 => i64, to_i64, from_i64; i64 => i64, to_i64, from_i64;
    f16 => f64, to_f64, from_f64; bf16 => f64, to_f64, from_f64; f32 => f64, to_f64, from_f64; f64 => f64, to_f64, from_f64;
    Complex<f32> => Complex<f64>, to_c128, from_c128; Complex<f64> => Complex<f64>, to_c128, from_c128;
}

trait Operator<A> {
    const NEUTRAL: A;
    fn combine(a: A, b: A) -> A;
}
struct Sum;
struct Prod;
struct LogSumExp;

impl Operator<i64> for Sum {
    const NEUTRAL: i64 = 0;
    #[inline(always)]
    fn combine(a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }
}
impl Operator<i64> for Prod {
    const NEUTRAL: i64 = 1;
    #[inline(always)]
    fn combine(a: i64, b: i64) -> i64 {
        a.wrapping_mul(b)
    }
}
impl Operator<f64> for Sum {
    const NEUTRAL: f64 = 0.0;
    #[inline(always)]
    fn combine(a: f64, b: f64) -> f64 {
        a + b
    }
}
impl Operator<f64> for Prod {
    const NEUTRAL: f64 = 1.0;
    #[inline(always)]
    fn combine(a: f64, b: f64) -> f64 {
        a * b
    }
}
impl Operator<f64> for LogSumExp {
    const NEUTRAL: f64 = f64::NEG_INFINITY;
    fn combine(a: f64, b: f64) -> f64 {
        if a.is_nan() || b.is_nan() {
            return f64::NAN;
        }
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        // Two equal infinities have no difference.
        if low == high && low.is_infinite() { low } else { high + (low - high).exp().ln_1p() }
    }
}
impl Operator<Complex<f64>> for Sum {
    const NEUTRAL: Complex<f64> = Complex::new(0.0, 0.0);
    #[inline(always)]
    fn combine(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
        a + b
    }
}
impl Operator<Complex<f64>> for Prod {
    const NEUTRAL: Complex<f64> = Complex::new(1.0, 0.0);
    #[inline(always)]
    fn combine(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
        a * b
    }
}
impl Operator<Complex<f64>> for LogSumExp {
    const NEUTRAL: Complex<f64> = Complex::new(f64::NEG_INFINITY, 0.0);
    fn combine(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
        if a.re.is_nan() || a.im.is_nan() || b.re.is_nan() || b.im.is_nan() {
            return Complex::new(f64::NAN, f64::NAN);
        }
        let (low, high) = if a.re < b.re { (a, b) } else { (b, a) };
        if low.re == high.re && low.re.is_infinite() {
            return if low.re < 0.0 { low } else { (low.exp() + high.exp()).ln() };
        }
        // log(1 + z), without cancellation for small z.
        let z = (low - high).exp();
        let log = Complex::new(0.5 * (z.re * (2.0 + z.re) + z.im * z.im).ln_1p(), z.im.atan2(1.0 + z.re));
        let sum = high + log;
        // As PyTorch: the phase stays within -pi..pi.
        Complex::new(sum.re, sum.im.sin().atan2(sum.im.cos()))
    }
}

/// The kernels for a pair, chosen once per call.
fn kernels(op: ScanOp, dtype: DType) -> Kernels {
    match op {
        ScanOp::Sum => dispatch!(dtype, T => kernels_of::<T, Sum>()),
        ScanOp::Prod => dispatch!(dtype, T => kernels_of::<T, Prod>()),
        ScanOp::LogSumExp => dispatch!(dtype, T in [floats] => Kernels {
                line: exponential::line::<T>,
                row: exponential::row::<T>,
                ..kernels_of::<T, LogSumExp>()
            };
            else dispatch!(dtype, T in [complexes] => kernels_of::<T, LogSumExp>();
                else unreachable!("logcumsumexp of integers"))),
    }
}

fn kernels_of<T: Scanned, O: Operator<T::Accumulator>>() -> Kernels {
    Kernels {
        line: line::<T, O>,
        row: row::<T, O>,
        total: total::<T, O>,
        join: join::<T::Accumulator, O>,
        start: start::<T::Accumulator, O>,
    }
}

/// Elements combined among themselves before the carry joins them: the carry's chain of dependent operations is then
/// this much shorter. Not for integers, whose operations take one cycle, nor for `f64` and complex numbers, whose
/// partial results might overflow where the whole does not (no eight smaller floats overflow their `f64` accumulator).
const CHUNK: usize = 8;

unsafe fn line<T: Scanned, O: Operator<T::Accumulator>>(src: *const u8, dst: *mut u8, n: usize, accumulator: *mut u8) {
    let (src, dst) = (src.cast::<T>(), dst.cast::<T>());
    // SAFETY: `n` elements and one accumulator by the caller's contract.
    unsafe {
        let mut carry = accumulator.cast::<T::Accumulator>().read();
        let mut done = 0;
        if matches!(T::DTYPE, DType::F16 | DType::BF16 | DType::F32) {
            while done + CHUNK <= n {
                let mut part = [O::NEUTRAL; CHUNK];
                for (i, part) in part.iter_mut().enumerate() {
                    *part = src.add(done + i).read_unaligned().widen();
                }
                for i in 1..CHUNK {
                    part[i] = O::combine(part[i - 1], part[i]);
                }
                for (i, &part) in part.iter().enumerate() {
                    dst.add(done + i).write_unaligned(T::narrow(O::combine(carry, part)));
                }
                carry = O::combine(carry, part[CHUNK - 1]);
                done += CHUNK;
            }
        }
        for i in done..n {
            carry = O::combine(carry, src.add(i).read_unaligned().widen());
            dst.add(i).write_unaligned(T::narrow(carry));
        }
        accumulator.cast::<T::Accumulator>().write(carry);
    }
}

unsafe fn row<T: Scanned, O: Operator<T::Accumulator>>(src: *const u8, dst: *mut u8, n: usize, accumulators: *mut u8) {
    let (src, dst) = (src.cast::<T>(), dst.cast::<T>());
    let step = accumulator_size(size_of::<T>());
    // SAFETY: `n` elements and accumulators by the caller's contract.
    unsafe {
        for i in 0..n {
            let slot = accumulators.add(i * step).cast::<T::Accumulator>();
            let next = O::combine(slot.read(), src.add(i).read_unaligned().widen());
            slot.write(next);
            dst.add(i).write_unaligned(T::narrow(next));
        }
    }
}

unsafe fn total<T: Scanned, O: Operator<T::Accumulator>>(src: *const u8, n: usize, accumulator: *mut u8) {
    let src = src.cast::<T>();
    // SAFETY: `n` elements and one accumulator by the caller's contract.
    unsafe {
        let mut part = [O::NEUTRAL; CHUNK];
        let full = n / CHUNK * CHUNK;
        for start in (0..full).step_by(CHUNK) {
            for (i, part) in part.iter_mut().enumerate() {
                *part = O::combine(*part, src.add(start + i).read_unaligned().widen());
            }
        }
        let slot = accumulator.cast::<T::Accumulator>();
        let mut sum = part.iter().fold(slot.read(), |a, &b| O::combine(a, b));
        for i in full..n {
            sum = O::combine(sum, src.add(i).read_unaligned().widen());
        }
        slot.write(sum);
    }
}

unsafe fn join<A: Copy, O: Operator<A>>(a: *mut u8, b: *const u8) {
    // SAFETY: two accumulators by the caller's contract.
    unsafe { a.cast::<A>().write(O::combine(a.cast::<A>().read(), b.cast::<A>().read())) }
}

unsafe fn start<A: Copy, O: Operator<A>>(a: *mut u8) {
    // SAFETY: one accumulator by the caller's contract.
    unsafe { a.cast::<A>().write(O::NEUTRAL) }
}

#[cfg(test)]
mod tests;
