//! The iterator: walks any number of strided operands of one shape as a few long 1-d strips.
//!
//! This is the only place that knows about dimensions: it drops dimensions of size 1, orders the others by stride,
//! merges neighbours that lie end to end, and splits the work over threads. It is compiled once; a kernel is a 1-d
//! strip behind a `dyn Fn`, so (operator, dtype) pairs add only the strip to the binary.

use crate::parallel;
use smallvec::SmallVec;

/// One strip: the operands' addresses, their strides in bytes, and the number of elements.
pub type Strip<'a> = dyn Fn(&[*mut u8], &[isize], usize) + Sync + 'a;

/// Some rows: the operands' addresses, their strides in bytes along a row and from one row to the next, the elements of a row
/// and the number of rows.
pub type Rows<'a> = dyn Fn(&[*mut u8], [&[isize]; 2], [usize; 2]) + Sync + 'a;

/// Elements in one piece of parallel work. Splitting costs about a microsecond; so does this many cheap elements.
pub const GRAIN: usize = 1 << 15;

/// About `grain`, but so that the pieces of `numel` elements are equal and of an even number: else the last one would leave a
/// core without work, for a third of the time where there are four pieces.
fn even_grain(numel: usize, grain: usize) -> usize {
    /// What vectors and lines of the cache are whole with, where elements are so many that it hardly matters.
    const ROUND: usize = 64;
    let even = numel.div_ceil(numel.div_ceil(grain).next_multiple_of(2));
    if grain >= 16 * ROUND { even.next_multiple_of(ROUND) } else { even }
}

/// A planned walk over operands of one shape.
pub struct Iter {
    /// Sizes, innermost first.
    shape: SmallVec<[usize; 5]>,
    /// Strides in bytes: `strides[dim * operands + operand]`, innermost dim first.
    strides: SmallVec<[isize; 20]>,
    data: SmallVec<[*mut u8; 4]>,
}

// SAFETY: the pointers are only dereferenced by strips, whose callers hold the storages' locks.
unsafe impl Sync for Iter {}
// SAFETY: as above.
unsafe impl Send for Iter {}

impl Iter {
    /// Plans a walk over `sizes` (outermost first). Each operand is an address and its strides in bytes, one per
    /// dimension (0 where it is broadcast). Operand 0 (the output) has the first say in the order of dimensions.
    pub fn new(sizes: &[i64], operands: &[(*mut u8, &[isize])]) -> Iter {
        let n = operands.len();
        // Outermost first in the end, so collect reversed: index 0 is the innermost candidate.
        let mut order: SmallVec<[usize; 5]> = (0..sizes.len()).rev().filter(|&d| sizes[d] != 1).collect();
        // Insertion sort by stride. Dimensions that no operand can tell apart keep their order.
        for i in 1..order.len() {
            let mut j = i;
            while j > 0 && Self::should_swap(order[j - 1], order[j], sizes, operands) {
                order.swap(j - 1, j);
                j -= 1;
            }
        }
        let mut it =
            Iter { shape: SmallVec::new(), strides: SmallVec::new(), data: operands.iter().map(|o| o.0).collect() };
        for &d in &order {
            if let Some(&inner) = it.shape.last() {
                let base = (it.shape.len() - 1) * n;
                let mergeable = (0..n).all(|k| it.strides[base + k] * inner as isize == operands[k].1[d]);
                if mergeable {
                    *it.shape.last_mut().expect("not empty") = inner * sizes[d] as usize;
                    continue;
                }
            }
            it.shape.push(sizes[d] as usize);
            it.strides.extend(operands.iter().map(|o| o.1[d]));
        }
        if it.shape.is_empty() {
            it.shape.push(1);
            it.strides.extend(std::iter::repeat_n(0, n));
        }
        it
    }

    /// Whether dimension `outer` (now further out) should go inside `inner`.
    fn should_swap(inner: usize, outer: usize, sizes: &[i64], operands: &[(*mut u8, &[isize])]) -> bool {
        for (_, strides) in operands {
            let (a, b) = (strides[inner].unsigned_abs(), strides[outer].unsigned_abs());
            if a == 0 || b == 0 {
                continue;
            }
            if a != b {
                return a > b;
            }
            if sizes[inner] > sizes[outer] {
                return true;
            }
        }
        false
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// Sizes after merging, innermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Strides in bytes of dimension `dim` (0 is innermost), one per operand.
    pub fn strides(&self, dim: usize) -> &[isize] {
        let n = self.data.len();
        &self.strides[dim * n..(dim + 1) * n]
    }

    /// The operands' addresses.
    pub fn data(&self) -> &[*mut u8] {
        &self.data
    }

    /// Whether `parallel` runs would write one element from two threads: the output is broadcast along a dimension.
    fn output_overlaps(&self) -> bool {
        let n = self.data.len();
        n > 0 && (0..self.shape.len()).any(|d| self.strides[d * n] == 0 && self.shape[d] > 1)
    }

    /// Runs `strip` over everything, on several threads when there is enough work.
    pub fn for_each(&self, strip: &Strip) {
        self.for_each_grain(GRAIN, strip);
    }

    /// Like [`Iter::for_each`], splitting into pieces of `grain` elements.
    pub fn for_each_grain(&self, grain: usize, strip: &Strip) {
        self.split(grain, &|start, end| self.range(start, end, strip));
    }

    /// Like [`Iter::for_each`], with all rows at once that lie along the second dimension.
    pub fn for_each_rows(&self, rows: &Rows) {
        self.for_each_rows_grain(GRAIN, rows);
    }

    /// Like [`Iter::for_each_rows`], splitting into pieces of `grain` elements.
    pub fn for_each_rows_grain(&self, grain: usize, rows: &Rows) {
        self.split(grain, &|start, end| self.rows(start, end, rows));
    }

    fn split(&self, grain: usize, piece: &(dyn Fn(usize, usize) + Sync)) {
        let numel = self.numel();
        if numel == 0 {
            return;
        }
        if numel <= grain || self.output_overlaps() {
            return piece(0, numel);
        }
        parallel::parallel_for(numel, even_grain(numel, grain), &|r| piece(r.start, r.end));
    }

    /// Runs `strip` over elements `start..end` in iteration order, on this thread.
    pub fn range(&self, start: usize, end: usize, strip: &Strip) {
        self.rows(start, end, &|data, [inner, outer], [n, rows]| {
            if rows == 1 {
                return strip(data, inner, n);
            }
            let mut at: SmallVec<[*mut u8; 4]> = SmallVec::from_slice(data);
            for row in 0..rows {
                if row > 0 {
                    at.iter_mut().zip(outer).for_each(|(p, s)| *p = p.wrapping_offset(*s));
                }
                strip(&at, inner, n);
            }
        });
    }

    /// [`Iter::range`], with all rows at once that lie along the second dimension.
    pub fn rows(&self, start: usize, end: usize, run: &Rows) {
        let dims = self.shape.len();
        let inner = self.shape[0];
        let mut data = self.data.clone();
        if dims == 1 {
            self.advance(&mut data, 0, start);
            return run(&data, [self.strides(0); 2], [end - start, 1]);
        }
        // Where `start` is, as one index per dimension.
        let mut index: SmallVec<[usize; 5]> = SmallVec::with_capacity(dims);
        let mut rest = start;
        for d in 0..dims {
            let i = rest % self.shape[d];
            rest /= self.shape[d];
            index.push(i);
            self.advance(&mut data, d, i);
        }
        let mut left = end - start;
        while left > 0 {
            let whole = index[0] == 0 && left >= inner;
            let rows = if whole { (self.shape[1] - index[1]).min(left / inner) } else { 1 };
            let count = if whole { inner } else { (inner - index[0]).min(left) };
            run(&data, [self.strides(0), self.strides(1)], [count, rows]);
            left -= count * rows;
            if left == 0 {
                return;
            }
            // To the start of the row after these.
            self.retreat(&mut data, 0, index[0]);
            index[0] = 0;
            index[1] += rows;
            self.advance(&mut data, 1, rows);
            for d in 1..dims {
                if index[d] < self.shape[d] {
                    break;
                }
                self.retreat(&mut data, d, self.shape[d]);
                index[d] = 0;
                if d + 1 < dims {
                    index[d + 1] += 1;
                    self.advance(&mut data, d + 1, 1);
                }
            }
        }
    }

    #[inline(always)]
    fn advance(&self, data: &mut [*mut u8], dim: usize, by: usize) {
        for (p, s) in data.iter_mut().zip(self.strides(dim)) {
            *p = p.wrapping_offset(s * by as isize);
        }
    }

    #[inline(always)]
    fn retreat(&self, data: &mut [*mut u8], dim: usize, by: usize) {
        for (p, s) in data.iter_mut().zip(self.strides(dim)) {
            *p = p.wrapping_offset(-(s * by as isize));
        }
    }
}
