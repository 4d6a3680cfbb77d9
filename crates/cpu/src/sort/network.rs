//! Many short lines sorted at once.
//!
//! A sorting network compares the same places whatever the data, so one network sorts as many lines as a vector has
//! lanes: element `e` of every line lies in row `e` of a matrix, and each step takes the least and the greatest of two
//! rows. Nothing branches on the data, which is what makes short lines slow to sort one by one. (The network is merge
//! exchange: D. Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M.)
//!
//! A lane is one 64-bit integer, `key << bits | index`, so that all of a line differ and the sort is stable. Keys of 64
//! bits whose range leaves no room for the index lose their last bits to it; runs that agree in what is left are put in
//! order afterwards, which is seldom needed.

use super::keys::{Keys, Packed};
use super::{Rank, ties};
use crate::buffer::Buffer;
use crate::math::{Isa, Kernel, Level, level, run};
use flambeau_base::DType;
use flambeau_base::fast_paths::FastPath;
use std::marker::PhantomData;

/// Strips of fewer lines are sorted line by line: most lanes would be idle.
pub(super) const FEWEST: usize = 3;
/// Lanes come in blocks of so many, the most that a vector has.
const BLOCK: usize = 8;
/// Elements of a matrix that stays, with the keys it came from, in L1.
const RESIDENT: usize = 1 << 11;
/// Turns the order of unsigned integers into that of signed ones, which is what machines compare.
const SIGN: u64 = 1 << 63;

/// Whether lines of `n` elements are sorted faster together. Measured on Zen 4: floats from here on gain nothing, as
/// integers from half the length, which are often so few that sorting by their bits is soon done.
pub(super) fn sorts(dtype: DType, n: usize) -> bool {
    let floats = if level() == Level::Baseline { 64 } else { 256 };
    FastPath::SortNetwork.is_on() && n <= if dtype.is_floating_point() { floats } else { floats / 2 }
}

/// Whether sorting lines of `n` elements together beats selecting from each; measured likewise.
pub(super) fn selects(dtype: DType, n: usize) -> bool {
    n <= 64 && sorts(dtype, 2 * n)
}

/// What is wanted of each line.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// The first so many in order, equal ones as they were.
    First(usize),
    /// The first so many in order, of equal ones those that `topk` takes.
    Top(usize),
    /// One order statistic.
    One(Rank),
}

/// What PyTorch takes of a line, with a choice among equal elements (see `ties.rs`).
#[derive(Clone, Copy)]
enum Taken {
    /// The first so many in order.
    Top(usize),
    /// The one at this place in the order.
    Kth(usize),
}

/// Lines next to each other: an address and two strides in bytes, from line to line and along a line.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub data: *mut u8,
    pub line: isize,
    pub along: isize,
}

impl Side {
    /// Whether neighbours in memory are of different lines.
    fn across(&self) -> bool {
        self.line.unsigned_abs() < self.along.unsigned_abs()
    }

    fn at(&self, line: usize, element: usize) -> *mut u8 {
        self.data.wrapping_offset(line as isize * self.line).wrapping_offset(element as isize * self.along)
    }

    fn from(self, line: usize) -> Side {
        Side { data: self.at(line, 0), ..self }
    }
}

/// The sides of the lines that an iterator hands out: addresses, strides from line to line, and strides along a line.
pub(super) fn sides(data: &[*mut u8], lines: &[isize], along: &[isize]) -> [Side; 3] {
    [0, 1, 2].map(|i| Side { data: data[i], line: lines[i], along: along[i] })
}

/// Room for the lines that are sorted together.
#[derive(Default)]
pub(super) struct Batch {
    keys: Buffer<u64>,
    matrix: Buffer<i64>,
}

/// Lines in a matrix.
struct Sorted<'a> {
    keys: Keys,
    /// The keys of the lines, which have `key_strides` from line to line and along a line.
    from: &'a [u64],
    key_strides: [usize; 2],
    /// A row of `width` lanes for each of the `n` elements, of which `lines` are used.
    matrix: &'a mut [i64],
    n: usize,
    width: usize,
    lines: usize,
    /// Bits of the index.
    bits: u32,
    /// What was subtracted from keys to make room for the index, unless they lost their last bits.
    base: Option<u64>,
}

impl Batch {
    /// Writes what is wanted of `count` lines of `n` elements.
    ///
    /// # Safety
    /// The source must be valid for `n` elements in each of `count` lines, the outputs for as many as are wanted; they
    /// must not overlap. Lines must be as short as those that [`sorts`], and ranks and counts be within the line.
    pub(super) unsafe fn run(
        &mut self,
        keys: Keys,
        n: usize,
        count: usize,
        wanted: Wanted,
        (values, indices, src): (Option<Side>, Option<Side>, Side),
    ) {
        // An odd number of blocks: rows a power of two apart would fall on the same cache sets.
        let most = (RESIDENT / n / BLOCK).clamp(1, 31);
        let most = (most - (most + 1) % 2) * BLOCK;
        for first in (0..count).step_by(most) {
            let lines = most.min(count - first);
            let src = src.from(first);
            // SAFETY: some of the caller's lines.
            let mut sorted = unsafe { self.load(keys, n, lines, src) };
            // SAFETY: the kernel has no conditions of its own.
            unsafe { run::<Arrange>(&mut sorted) };
            let rows = match wanted {
                Wanted::First(rows) => rows,
                Wanted::Top(rows) => {
                    let tied = sorted.tied_lines(0, rows + 1);
                    sorted.choose_among_ties(&tied, Taken::Top(rows));
                    rows
                }
                Wanted::One(Rank::Kth(at)) => {
                    let tied = sorted.tied_lines(at.saturating_sub(1), at + 2);
                    sorted.matrix.copy_within(at * sorted.width..(at + 1) * sorted.width, 0);
                    sorted.choose_among_ties(&tied, Taken::Kth(at));
                    1
                }
                Wanted::One(rank) => {
                    sorted.choose_median(rank == Rank::NanMedian);
                    1
                }
            };
            // SAFETY: as above.
            unsafe {
                if let Some(out) = indices {
                    sorted.emit_indices(rows, out.from(first));
                }
                if let Some(out) = values {
                    sorted.emit_values(rows, out.from(first), src);
                }
            }
        }
    }

    /// Reads the keys of some lines.
    unsafe fn load(&mut self, keys: Keys, n: usize, lines: usize, src: Side) -> Sorted<'_> {
        let width = lines.next_multiple_of(BLOCK);
        let (from, matrix) = (self.keys.room(n * width), self.matrix.room(n * width));
        // SAFETY: the caller's elements, and room for them.
        unsafe {
            let key_strides = if src.across() {
                for e in 0..n {
                    keys.load(src.at(0, e), src.line, from.add(e * lines), lines);
                }
                [1, lines]
            } else {
                if src.line == src.along.saturating_mul(n as isize) {
                    keys.load(src.data, src.along, from, n * lines);
                } else {
                    for l in 0..lines {
                        keys.load(src.at(l, 0), src.along, from.add(l * n), n);
                    }
                }
                [n, 1]
            };
            // Lanes of no line must hold something, too.
            matrix.write_bytes(0, n * width);
            Sorted {
                keys,
                from: std::slice::from_raw_parts(from, n * lines),
                key_strides,
                matrix: std::slice::from_raw_parts_mut(matrix, n * width),
                n,
                width,
                lines,
                bits: usize::BITS - (n - 1).leading_zeros(),
                base: Some(0),
            }
        }
    }
}

/// [`Sorted::arrange`], compiled for each instruction set.
struct Arrange<'a, 'b>(PhantomData<&'a mut Sorted<'b>>);

impl<'a, 'b> Kernel for Arrange<'a, 'b> {
    type Args = &'a mut Sorted<'b>;
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>(sorted: Self::Args) {
        sorted.arrange::<I>();
    }
}

impl Sorted<'_> {
    #[inline(always)]
    fn index(&self, line: usize, row: usize) -> usize {
        (self.matrix[row * self.width + line] as u64 & ((1 << self.bits) - 1)) as usize
    }

    /// The key that an element of a line was read with.
    #[inline(always)]
    fn key(&self, line: usize, index: usize) -> u64 {
        self.from[line * self.key_strides[0] + index * self.key_strides[1]]
    }

    /// Sorts every line.
    #[inline(always)]
    fn arrange<I: Isa>(&mut self) {
        if !self.keys.narrow() {
            let (mut min, mut max) = (u64::MAX, 0);
            for &key in self.from {
                min = min.min(key);
                max = max.max(key);
            }
            let fits = max - min <= u64::MAX >> self.bits;
            self.base = fits.then_some(min);
        }
        let (bits, width, lines) = (self.bits, self.width, self.lines);
        let (base, lost) = match self.base {
            Some(base) => (base, 0),
            None => (0, bits),
        };
        // Keys that make way for the index are shifted out and back.
        let pack = |key: u64, e: usize| ((((key - base) >> lost) << bits | e as u64) ^ SIGN) as i64;
        if self.key_strides[0] == 1 {
            for (e, (row, keys)) in self.matrix.chunks_exact_mut(width).zip(self.from.chunks_exact(lines)).enumerate() {
                for (x, &key) in row[..lines].iter_mut().zip(keys) {
                    *x = pack(key, e);
                }
            }
        } else {
            for (l, keys) in self.from.chunks_exact(self.n).enumerate() {
                for (x, (e, &key)) in self.matrix[l..].iter_mut().step_by(width).zip(keys.iter().enumerate()) {
                    *x = pack(key, e);
                }
            }
        }
        network::<I>(self.matrix, self.n, width);
        if self.base.is_none() {
            self.settle();
        }
    }

    /// Puts runs that agree in the bits that were kept in the order of their keys.
    #[inline(always)]
    fn settle(&mut self) {
        if any_tied(self.matrix, self.width, self.lines, self.bits) {
            (0..self.lines).for_each(|line| self.settle_line(line));
        }
    }

    #[cold]
    fn settle_line(&mut self, line: usize) {
        let kept = |x: i64| x >> self.bits;
        let mut start = 0;
        while start < self.n {
            let first = kept(self.matrix[start * self.width + line]);
            let same = |e: &usize| kept(self.matrix[*e * self.width + line]) == first;
            let end = start + 1 + (start + 1..self.n).take_while(same).count();
            let pair = |e: usize| (self.key(line, self.index(line, e)), self.index(line, e));
            if (start + 1..end).any(|e| pair(e - 1) > pair(e)) {
                let mut run: Vec<(u64, usize)> = (start..end).map(pair).collect();
                run.sort_unstable();
                for (e, (_, index)) in (start..end).zip(run) {
                    self.matrix[e * self.width + line] = first << self.bits | index as i64;
                }
            }
            start = end;
        }
    }

    /// Puts the median of every sorted line first: the first NaN, unless they do not count.
    fn choose_median(&mut self, of_numbers: bool) {
        let (n, nan) = (self.n, self.keys.nan());
        for line in 0..self.lines {
            let is_nan = |e: &usize| Some(self.key(line, self.index(line, *e))) == nan;
            let nans = (0..n).rev().take_while(is_nan).count();
            // Of nothing but NaN, the first.
            let at = if nans > 0 && !of_numbers { n - nans } else { (n - nans).saturating_sub(1) / 2 };
            self.matrix[line] = self.matrix[at * self.width + line];
        }
    }

    /// Lines with equal keys next to each other in some rows (those that there are); where keys have lost bits, maybe more.
    fn tied_lines(&self, from: usize, to: usize) -> Vec<usize> {
        let width = self.width;
        let rows = &self.matrix[from * width..to.min(self.n) * width];
        // SAFETY: the kernel has no conditions of its own.
        if !unsafe { run::<AnyTied>((rows, width, self.lines, self.bits)) } {
            return vec![];
        }
        let tied = |line: &usize| any_tied(&rows[*line..], width, 1, self.bits);
        (0..self.lines).filter(tied).collect()
    }

    /// Puts what PyTorch takes first in some lines.
    fn choose_among_ties(&mut self, lines: &[usize], taken: Taken) {
        match self.keys.narrow() {
            true => lines.iter().for_each(|&line| self.choose_by_steps::<u64>(line, taken)),
            false => lines.iter().for_each(|&line| self.choose_by_steps::<u128>(line, taken)),
        }
    }

    fn choose_by_steps<P: Packed>(&mut self, line: usize, taken: Taken) {
        let mut elements: Vec<P> = (0..self.n).map(|e| P::pack(self.key(line, e), e)).collect();
        match taken {
            Taken::Top(k) => {
                ties::top(&mut elements, k, true);
                for (row, x) in elements[..k].iter().enumerate() {
                    self.matrix[row * self.width + line] = x.index() as i64;
                }
            }
            Taken::Kth(at) => self.matrix[line] = ties::kth(&mut elements, at).index() as i64,
        }
    }

    /// Writes the indices of the first `rows` elements of every line.
    unsafe fn emit_indices(&self, rows: usize, out: Side) {
        // SAFETY: the caller's outputs.
        self.each(rows, out.across(), |line, e, index| unsafe {
            out.at(line, e).cast::<i64>().write_unaligned(index as i64);
        });
    }

    /// Writes the first `rows` elements of every line: read where they were, so that their bits are kept.
    unsafe fn emit_values(&self, rows: usize, out: Side, src: Side) {
        // SAFETY: the caller's elements.
        unsafe {
            match self.keys.dtype {
                // Any byte but zero is true, and true is one.
                DType::Bool => self.each(rows, out.across(), |line, e, index| {
                    *out.at(line, e) = u8::from(*src.at(line, index) != 0);
                }),
                dtype => match dtype.size() {
                    1 => self.emit::<u8>(rows, out, src),
                    2 => self.emit::<u16>(rows, out, src),
                    4 => self.emit::<u32>(rows, out, src),
                    _ => self.emit::<u64>(rows, out, src),
                },
            }
        }
    }

    unsafe fn emit<T: Copy>(&self, rows: usize, out: Side, src: Side) {
        // SAFETY: the caller's elements.
        self.each(rows, out.across(), |line, e, index| unsafe {
            out.at(line, e).cast::<T>().write_unaligned(src.at(line, index).cast::<T>().read_unaligned());
        });
    }

    /// Runs `f(line, row, index)` over the first `rows` elements of every line, in the order of memory.
    #[inline(always)]
    fn each(&self, rows: usize, across: bool, f: impl Fn(usize, usize, usize)) {
        let mask = (1u64 << self.bits) - 1;
        if across {
            for (e, row) in self.matrix.chunks_exact(self.width).take(rows).enumerate() {
                row[..self.lines].iter().enumerate().for_each(|(line, &x)| f(line, e, (x as u64 & mask) as usize));
            }
        } else {
            for line in 0..self.lines {
                let column = self.matrix[line..].iter().step_by(self.width).take(rows);
                column.enumerate().for_each(|(e, &x)| f(line, e, (x as u64 & mask) as usize));
            }
        }
    }
}

/// [`any_tied`], compiled for each instruction set.
struct AnyTied<'a>(PhantomData<&'a [i64]>);

impl<'a> Kernel for AnyTied<'a> {
    type Args = (&'a [i64], usize, usize, u32);
    type Output = bool;
    #[inline(always)]
    unsafe fn run<I: Isa>((matrix, width, lines, bits): Self::Args) -> bool {
        any_tied(matrix, width, lines, bits)
    }
}

/// Whether rows next to each other have equal keys in any line.
#[inline(always)]
fn any_tied(matrix: &[i64], width: usize, lines: usize, bits: u32) -> bool {
    let rest = matrix.get(width..).unwrap_or_default();
    matrix.chunks(width).zip(rest.chunks(width)).fold(false, |tied, (a, b)| {
        let pairs = a[..lines].iter().zip(&b[..lines]);
        // As unsigned, which more machines can shift.
        pairs.fold(tied, |tied, (a, b)| tied | ((a ^ b) as u64 >> bits == 0))
    })
}

/// Sorts every column of `n` rows of `width` lanes.
#[inline(always)]
fn network<I: Isa>(matrix: &mut [i64], n: usize, width: usize) {
    assert!(matrix.len() == n * width && width.is_multiple_of(BLOCK), "rows of whole blocks");
    if n < 2 {
        return;
    }
    let top = n.next_power_of_two() / 2;
    let mut p = top;
    while p > 0 {
        let (mut q, mut r, mut distance) = (top, 0, p);
        loop {
            for i in (0..n - distance).filter(|i| i & p == r) {
                let (low, high) = matrix.split_at_mut((i + distance) * width);
                exchange::<I>(&mut low[i * width..][..width], &mut high[..width]);
            }
            if q == p {
                break;
            }
            distance = q - p;
            q /= 2;
            r = p;
        }
        p /= 2;
    }
}

/// Leaves the lesser of each two lanes in `a` and the greater in `b`. With instructions by name: plain loops of this were
/// compiled lane by lane, three times as slow.
#[inline(always)]
fn exchange<I: Isa>(a: &mut [i64], b: &mut [i64]) {
    debug_assert!(a.len() == b.len() && a.len().is_multiple_of(BLOCK));
    #[cfg(target_arch = "x86_64")]
    if const { I::LEVEL as u8 != Level::Baseline as u8 } {
        use std::arch::x86_64::*;
        for (a, b) in a.chunks_exact_mut(BLOCK).zip(b.chunks_exact_mut(BLOCK)) {
            // SAFETY: this code runs only where the machine has the level; each chunk holds eight lanes.
            unsafe {
                if const { I::LEVEL as u8 == Level::Avx512 as u8 } {
                    let (a, b) = (a.as_mut_ptr().cast::<__m512i>(), b.as_mut_ptr().cast::<__m512i>());
                    let (x, y) = (_mm512_loadu_si512(a), _mm512_loadu_si512(b));
                    _mm512_storeu_si512(a, _mm512_min_epi64(x, y));
                    _mm512_storeu_si512(b, _mm512_max_epi64(x, y));
                } else {
                    let (a, b) = (a.as_mut_ptr().cast::<__m256i>(), b.as_mut_ptr().cast::<__m256i>());
                    for half in 0..2 {
                        let (a, b) = (a.add(half), b.add(half));
                        let (x, y) = (_mm256_loadu_si256(a), _mm256_loadu_si256(b));
                        let greater = _mm256_cmpgt_epi64(x, y);
                        _mm256_storeu_si256(a, _mm256_blendv_epi8(x, y, greater));
                        _mm256_storeu_si256(b, _mm256_blendv_epi8(y, x, greater));
                    }
                }
            }
        }
        return;
    }
    for (a, b) in a.iter_mut().zip(b) {
        (*a, *b) = ((*a).min(*b), (*a).max(*b));
    }
}
