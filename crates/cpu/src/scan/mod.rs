//! Running totals: cumsum, cumprod, logcumsumexp, cummax, cummin.
//!
//! A source of another dtype or with gaps is cast into the destination (or a block on the stack, when that is strided or
//! of halves, which are scanned as `f32`) and scanned in place there, so the kernels see contiguous data of one dtype.
//! Lines that lie next to each other are scanned side by side, a row of accumulators at a time, short lines that lie end
//! to end several at a time; a long line alone is cut into fixed pieces whose totals are carried in order. No result
//! depends on the number of threads.
//!
//! As in PyTorch, sums and products of `f32` (here also of halves) accumulate in `f64`, those of complex64 in complex128.

mod exponential;
mod extreme;

pub use extreme::cumulative_extreme;

use crate::buffer::{Aligned, aligned};
use crate::copy::{CastStrip, Shared, cast_strip, copy_rows, move_bytes, stream};
use crate::math::{Isa, Kernel, Level, run};
use crate::prefetch::prefetch_run;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::iter::{GRAIN, Iter};
use flambeau_base::parallel::{num_threads, parallel_for};
use flambeau_base::{Bool, Complex, DType, Element, dispatch};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

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

/// Bytes between short lines that are read in turns from which on no processor sees them coming.
const FAR: usize = 512;

/// Lines scanned side by side, in rows that are long enough for memory: their accumulators, of at most 16 bytes, take
/// 16 KiB.
const TILE: usize = 1024;
/// The most elements of a row that a kernel takes.
const WIDTH: usize = 256;
/// Rows of at most so many elements are scanned by one call for all.
const NARROW: usize = 64;
/// Rows between the one that is scanned and the one that is asked for.
const AHEAD: isize = 8;
/// Elements of a line scanned at a time when they are not scanned where they lie.
const BLOCK: usize = 512;
/// The longest line of which several are scanned together.
const SHORT: usize = 128;
/// Elements of one piece of a long line.
const PIECE: usize = 1 << 16;

/// Element `i` of `dst` becomes the accumulator combined with elements `..= i` of `src`, for `n` contiguous elements of
/// one dtype; the two may be the same.
type Line = unsafe fn(src: *const u8, dst: *mut u8, n: usize, accumulator: *mut u8);

/// As [`Line`], for each of the second count of lines with as many elements as the first says, which follow one another.
type Lined = unsafe fn(src: *const u8, dst: *mut u8, n: usize, count: usize);

/// As [`Line`], for each of the second count of rows with as many elements as the first says, and as many accumulators; the
/// strides are the distances of rows, in bytes.
type Rows = unsafe fn(src: (*const u8, isize), dst: (*mut u8, isize), n: usize, count: usize, accumulators: *mut u8);

/// The kernels of one (operator, dtype).
#[derive(Clone, Copy)]
struct Kernels {
    /// Along a line, one accumulator.
    line: Line,
    /// Across lines, one accumulator each.
    row: Line,
    /// The same for a number of rows, where there is such a kernel.
    rows: Option<Rows>,
    /// Along a number of lines that lie end to end, where there is such a kernel.
    lines: Option<Lined>,
    /// Only the accumulator.
    total: unsafe fn(src: *const u8, n: usize, accumulator: *mut u8),
    /// Combines the second accumulator into the first.
    join: unsafe fn(*mut u8, *const u8),
    /// Writes the neutral accumulator.
    start: unsafe fn(*mut u8),
    /// Bytes of an accumulator.
    accumulator: usize,
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
    let work = if matches!(dst.2, DType::F16 | DType::BF16) { DType::F32 } else { dst.2 };
    let job = Job {
        kernels: kernels(op, work),
        cast: (src.2 != dst.2).then(|| cast_strip(src.2, dst.2)),
        widen: (work != dst.2).then(|| cast_strip(dst.2, work)),
        store: cast_strip(work, dst.2),
        size: dst.2.size(),
        work: work.size(),
        past: src.0 != dst.0 && src.2 == work && sizes[dim] as usize * work.size() >= FAR && {
            let elements: i64 = sizes.iter().product();
            stream::streams(2 * elements as usize * work.size())
        },
    };
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
    // (Asked of all of them: pieces depend on the number of threads, and the two ways differ in how they round.)
    let neighbours = lines.it.shape().first().copied().unwrap_or(1);
    lines.for_each(&|p, s, count| {
        // SAFETY: `count` lines of the operands.
        unsafe {
            let beside = s[0].unsigned_abs() < lines.along[0].unsigned_abs() && neighbours >= 4;
            let short = n <= SHORT && job.end_to_end(s, &lines.along, n) && job.kernels.lines.is_some();
            if beside && FastPath::ScanSideBySide.is_on() {
                job.side_by_side(p, s, &lines.along, count, n);
            } else if short && FastPath::ScanLines.is_on() {
                job.short_lines(p, &lines.along, count, n);
            } else {
                for i in 0..count as isize {
                    let mut accumulator = Room([0; 2]);
                    (job.kernels.start)(accumulator.address());
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
        // Neighbours share the lines of memory, and long stretches of it are read faster: as many as leave every thread some.
        let neighbours = self.it.shape().first().map_or(1, |&n| n.div_ceil(num_threads()));
        let least = if adjacent { neighbours.clamp(16, TILE) } else { 1 };
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

/// Memory on the stack for a block, not cleared: most lines are shorter.
struct Block(Aligned<MaybeUninit<[Room; BLOCK]>>);

impl Block {
    fn new() -> Block {
        Block(aligned(MaybeUninit::uninit()))
    }
    fn address(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

struct Job {
    kernels: Kernels,
    /// To the destination's dtype, where the source is of another.
    cast: Option<CastStrip>,
    /// From the destination's dtype to the one that is scanned, if that is another; and back.
    widen: Option<CastStrip>,
    store: CastStrip,
    /// Bytes of a destination element, and of one that is scanned.
    size: usize,
    work: usize,
    /// Whether elements are scanned as they are, no cache holds them, and lines are [`FAR`] apart.
    past: bool,
}

impl Job {
    /// `n` elements of the source, [`BLOCK`] at most unless that is `room`'s own, as contiguous ones of the dtype that is
    /// scanned: the source itself, or cast into `room`.
    unsafe fn contiguous(&self, src: *const u8, stride: isize, room: *mut u8, n: usize) -> *const u8 {
        let (size, work) = (self.size as isize, self.work as isize);
        // SAFETY: the caller's elements and room for them; the block holds `n` halves.
        unsafe {
            match (self.cast, self.widen) {
                (None, None) if stride == size => return src,
                (None, None) => (self.store)(src, stride, room, work, n),
                (Some(cast), None) => cast(src, stride, room, work, n),
                (None, Some(widen)) => widen(src, stride, room, work, n),
                (Some(cast), Some(widen)) => {
                    let mut halves = [MaybeUninit::<u16>::uninit(); BLOCK];
                    let halves = halves.as_mut_ptr().cast();
                    cast(src, stride, halves, size, n);
                    widen(halves, size, room, work, n);
                }
            }
        }
        room
    }

    /// Whether elements are scanned where the destination lies, if they are that far apart.
    fn in_place(&self, stride: isize) -> bool {
        self.widen.is_none() && stride == self.size as isize
    }

    /// Whether neighbours that are these strides apart are scanned from where they lie to where they go.
    fn dense(&self, s: &[isize]) -> bool {
        self.cast.is_none() && self.in_place(s[0]) && s[1] == s[0]
    }

    /// Whether contiguous lines of `n` elements follow one another, in the destination and in the source.
    fn end_to_end(&self, lines: &[isize], along: &[isize], n: usize) -> bool {
        along[0] == self.size as isize && (0..2).all(|k| lines[k] == along[k] * n as isize)
    }

    /// `count` lines of `n` elements, [`SHORT`] at most, that lie [`Job::end_to_end`].
    unsafe fn short_lines(&self, p: &[*mut u8], along: &[isize], count: usize, n: usize) {
        let Some(scan) = self.kernels.lines else { return };
        let mut block = Block::new();
        let (at_once, in_place) = (BLOCK / n, self.in_place(along[0]));
        for first in (0..count).step_by(at_once) {
            let lines = at_once.min(count - first);
            let at = (first * n) as isize;
            // SAFETY: lines of the caller's; the block holds as many elements.
            unsafe {
                let (dst, src) = (p[0].offset(at * along[0]), p[1].offset(at * along[1]));
                if self.past && in_place && along[1] == along[0] {
                    // Several lines are read in turns, which no processor sees coming: memory is gone through in order.
                    let (work, bytes) = (block.address(), lines * n * self.size);
                    move_bytes(src, work, bytes);
                    scan(work, work, n, lines);
                    stream::move_past(work, dst, bytes);
                    continue;
                }
                let work = if in_place { dst } else { block.address() };
                let from = self.contiguous(src, along[1], work, lines * n);
                scan(from, work, n, lines);
                if !in_place {
                    (self.store)(work, self.work as isize, dst, along[0], lines * n);
                }
            }
        }
        if self.past {
            stream::finish();
        }
    }

    /// One line of `n` elements, continuing from the accumulator.
    unsafe fn line(&self, dst: *mut u8, src: *const u8, along: &[isize], n: usize, accumulator: *mut u8) {
        let mut block = Block::new();
        let in_place = self.in_place(along[0]);
        for start in (0..n).step_by(BLOCK) {
            let count = BLOCK.min(n - start);
            let (dst, src) =
                (dst.wrapping_offset(start as isize * along[0]), src.wrapping_offset(start as isize * along[1]));
            // SAFETY: part of the caller's line; the block holds BLOCK elements.
            unsafe {
                let work = if in_place { dst } else { block.address() };
                let from = self.contiguous(src, along[1], work, count);
                (self.kernels.line)(from, work, count, accumulator);
                if !in_place {
                    (self.store)(work, self.work as isize, dst, along[0], count);
                }
            }
        }
    }

    /// `count` lines that lie next to each other.
    unsafe fn side_by_side(&self, p: &[*mut u8], s: &[isize], along: &[isize], count: usize, n: usize) {
        let mut accumulators = MaybeUninit::<[Room; TILE]>::uninit();
        let accumulators = accumulators.as_mut_ptr().cast::<u8>();
        let together = self.widen.is_some() && self.cast.is_none() && s[..2] == [self.size as isize; 2];
        let (tile, step) = (if together { WIDTH } else { TILE }, self.kernels.accumulator);
        for first in (0..count).step_by(tile) {
            let width = tile.min(count - first);
            for i in 0..width {
                // SAFETY: TILE accumulators fit.
                unsafe { (self.kernels.start)(accumulators.add(i * step)) };
            }
            let at =
                |k: usize, i: usize| p[k].wrapping_offset(first as isize * s[k]).wrapping_offset(i as isize * along[k]);
            if together {
                // SAFETY: the caller's lines, and accumulators for them.
                unsafe { self.rows_of_halves([at(0, 0), at(1, 0)], along, width, n, accumulators) };
                continue;
            }
            if let (Some(rows), true) = (self.kernels.rows, width <= NARROW && self.dense(s)) {
                // SAFETY: as above.
                unsafe { rows((at(1, 0), along[1]), (at(0, 0), along[0]), width, n, accumulators) };
                continue;
            }
            for i in 0..n {
                for (k, &step) in s[..2].iter().enumerate() {
                    let next = at(k, i).wrapping_offset(AHEAD * along[k]);
                    prefetch_run(next, width * step.unsigned_abs().min(self.size));
                }
                // SAFETY: one row of the caller's lines, and their accumulators.
                unsafe { self.row([at(0, i), at(1, i)], s, width, accumulators) };
            }
        }
    }

    /// One row of `width` elements of lines that lie next to each other.
    unsafe fn row(&self, [dst, src]: [*mut u8; 2], s: &[isize], width: usize, accumulators: *mut u8) {
        let mut block = Block::new();
        let in_place = self.in_place(s[0]);
        for start in (0..width).step_by(WIDTH) {
            let (count, at) = (WIDTH.min(width - start), start as isize);
            // SAFETY: part of the caller's row, and its accumulators; the block holds WIDTH elements.
            unsafe {
                let (dst, src) = (dst.offset(at * s[0]), src.offset(at * s[1]));
                let work = if in_place { dst } else { block.address() };
                let from = self.contiguous(src, s[1], work, count);
                (self.kernels.row)(from, work, count, accumulators.add(start * self.kernels.accumulator));
                if !in_place {
                    (self.store)(work, self.work as isize, dst, s[0], count);
                }
            }
        }
    }

    /// `n` rows of `width` contiguous halves, [`WIDTH`] at most: several are put together and converted at once.
    unsafe fn rows_of_halves(&self, p: [*mut u8; 2], along: &[isize], width: usize, n: usize, accumulators: *mut u8) {
        let (mut block, mut halves) = (Block::new(), Block::new());
        let (work, halves) = (block.address(), halves.address());
        let (at_once, bytes) = (BLOCK / width, width * self.size);
        for start in (0..n).step_by(at_once) {
            let rows = at_once.min(n - start);
            let [dst, src] = [0, 1].map(|k| p[k].wrapping_offset(start as isize * along[k]));
            // SAFETY: rows of the caller's; the blocks hold as many elements as these have.
            unsafe {
                copy_rows((src, along[1], halves, bytes as isize, bytes, rows));
                self.contiguous(halves, self.size as isize, work, rows * width);
                for row in 0..rows {
                    let row = work.add(row * width * self.work);
                    (self.kernels.row)(row, row, width, accumulators);
                }
                (self.store)(work, self.work as isize, halves, self.size as isize, rows * width);
                copy_rows((halves, bytes as isize, dst, along[0], bytes, rows));
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
            let mut block = Block::new();
            // SAFETY: one piece's slot and elements; the block holds BLOCK of them.
            unsafe {
                let total = shared.get().add(r.start / PIECE + 1).cast::<u8>();
                (kernels.start)(total);
                for start in r.clone().step_by(BLOCK) {
                    let count = BLOCK.min(r.end - start);
                    let from =
                        self.contiguous(src.get().offset(start as isize * along[1]), along[1], block.address(), count);
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
    f32 => f64, to_f64, from_f64; f64 => f64, to_f64, from_f64;
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
        // (Of two as large the later one, and of two minus infinities the former, which decides the phase as in PyTorch.)
        let (low, high) = if a.re <= b.re { (a, b) } else { (b, a) };
        if low.re == high.re && low.re.is_infinite() {
            return if low.re < 0.0 { low } else { (low.exp() + high.exp()).ln() };
        }
        // log(1 + z), without cancellation for small z.
        let z = (low - high).exp();
        let log = Complex::new(0.5 * (z.re * (2.0 + z.re) + z.im * z.im).ln_1p(), z.im.atan2(1.0 + z.re));
        high + log
    }
}

/// The kernels for a pair, chosen once per call; `dtype` is not a half.
fn kernels(op: ScanOp, dtype: DType) -> Kernels {
    match op {
        ScanOp::Sum => dispatch!(dtype, T in [bool, ints, reals, complexes] => kernels_of::<T, Sum>();
            else unreachable!("halves are scanned as f32")),
        ScanOp::Prod => dispatch!(dtype, T in [bool, ints, reals, complexes] => kernels_of::<T, Prod>();
            else unreachable!("halves are scanned as f32")),
        ScanOp::LogSumExp => dispatch!(dtype, T in [reals] => Kernels {
                line: exponential::line::<T>,
                row: exponential::row::<T>,
                rows: None,
                lines: Some(exponential::lines::<T>),
                ..kernels_of::<T, LogSumExp>()
            };
            else dispatch!(dtype, T in [complexes] => Kernels { rows: None, lines: None, ..kernels_of::<T, LogSumExp>() };
                else unreachable!("logcumsumexp of integers"))),
    }
}

fn kernels_of<T: Scanned, O: Operator<T::Accumulator>>() -> Kernels {
    Kernels {
        line: line::<T, O>,
        row: if const { matches!(T::DTYPE, DType::F32 | DType::F64) } { vector_row::<T, O> } else { row::<T, O> },
        rows: Some(rows::<T, O>),
        lines: Some(lines::<T, O>),
        total: total::<T, O>,
        join: join::<T::Accumulator, O>,
        start: start::<T::Accumulator, O>,
        accumulator: size_of::<T::Accumulator>(),
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
        if matches!(T::DTYPE, DType::F32) {
            while done + CHUNK <= n {
                let mut part = aligned([O::NEUTRAL; CHUNK]);
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

/// Four lines at a time: the operations of one depend on each other, those of different ones do not.
unsafe fn lines<T: Scanned, O: Operator<T::Accumulator>>(src: *const u8, dst: *mut u8, n: usize, count: usize) {
    let (src, dst) = (src.cast::<T>(), dst.cast::<T>());
    let mut done = 0;
    // SAFETY: `count` lines of `n` elements by the caller's contract.
    unsafe {
        while done + 4 <= count {
            let (src, dst) = (src.add(done * n), dst.add(done * n));
            let mut carry = [O::NEUTRAL; 4];
            for i in 0..n {
                for (l, carry) in carry.iter_mut().enumerate() {
                    *carry = O::combine(*carry, src.add(l * n + i).read_unaligned().widen());
                    dst.add(l * n + i).write_unaligned(T::narrow(*carry));
                }
            }
            done += 4;
        }
        for l in done..count {
            let mut carry = O::NEUTRAL;
            for i in l * n..(l + 1) * n {
                carry = O::combine(carry, src.add(i).read_unaligned().widen());
                dst.add(i).write_unaligned(T::narrow(carry));
            }
        }
    }
}

#[inline]
unsafe fn row<T: Scanned, O: Operator<T::Accumulator>>(src: *const u8, dst: *mut u8, n: usize, accumulators: *mut u8) {
    let (src, dst, accumulators) = (src.cast::<T>(), dst.cast::<T>(), accumulators.cast::<T::Accumulator>());
    // SAFETY: `n` elements and accumulators by the caller's contract.
    unsafe {
        for i in 0..n {
            let next = O::combine(accumulators.add(i).read(), src.add(i).read_unaligned().widen());
            accumulators.add(i).write(next);
            dst.add(i).write_unaligned(T::narrow(next));
        }
    }
}

/// [`row`], row by row.
unsafe fn rows<T: Scanned, O: Operator<T::Accumulator>>(
    (src, src_step): (*const u8, isize),
    (dst, dst_step): (*mut u8, isize),
    n: usize,
    count: usize,
    accumulators: *mut u8,
) {
    let vectors = matches!(T::DTYPE, DType::F32 | DType::F64);
    for i in 0..count as isize {
        let (src, dst) = (src.wrapping_offset(i * src_step), dst.wrapping_offset(i * dst_step));
        prefetch_run(src.wrapping_offset(AHEAD * src_step), n * size_of::<T>());
        prefetch_run(dst.wrapping_offset(AHEAD * dst_step), n * size_of::<T>());
        // SAFETY: a row of the caller's, and its accumulators.
        unsafe {
            if vectors && n >= STEP {
                vector_row::<T, O>(src, dst, n, accumulators);
            } else {
                row::<T, O>(src, dst, n, accumulators);
            }
        }
    }
}

/// Elements that are read before they are written.
const STEP: usize = 16;

/// [`row`] in vectors, where the source may be the destination.
unsafe fn vector_row<T: Scanned, O: Operator<T::Accumulator>>(
    src: *const u8,
    dst: *mut u8,
    n: usize,
    accumulators: *mut u8,
) {
    // SAFETY: the caller's contract; the machine has its level.
    unsafe { run::<Row<T, O>>((src.cast(), dst.cast(), n, accumulators.cast())) }
}

struct Row<T, O>(PhantomData<(T, O)>);

impl<T: Scanned, O: Operator<T::Accumulator>> Kernel for Row<T, O> {
    type Args = (*const T, *mut T, usize, *mut T::Accumulator);
    type Output = ();
    const HIGHEST: Level = Level::Avx2;

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
    unsafe fn run<I: Isa>((src, dst, n, accumulators): Self::Args) {
        // SAFETY: `n` elements and accumulators by the caller's contract.
        unsafe {
            let full = n / STEP * STEP;
            for start in (0..full).step_by(STEP) {
                let x = src.add(start).cast::<[T; STEP]>().read_unaligned();
                let sums = accumulators.add(start).cast::<[T::Accumulator; STEP]>();
                let (mut next, mut results) = (sums.read(), x);
                for l in 0..STEP {
                    next[l] = O::combine(next[l], x[l].widen());
                    results[l] = T::narrow(next[l]);
                }
                sums.write(next);
                dst.add(start).cast::<[T; STEP]>().write_unaligned(results);
            }
            row::<T, O>(src.add(full).cast(), dst.add(full).cast(), n - full, accumulators.add(full).cast());
        }
    }
}

unsafe fn total<T: Scanned, O: Operator<T::Accumulator>>(src: *const u8, n: usize, accumulator: *mut u8) {
    let src = src.cast::<T>();
    // SAFETY: `n` elements and one accumulator by the caller's contract.
    unsafe {
        let mut part = aligned([O::NEUTRAL; CHUNK]);
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
