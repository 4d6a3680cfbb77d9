//! Symmetric pivoting: Bunch and Kaufman's LDL in LAPACK's format (J. R. Bunch and L. Kaufman, "Some stable methods for
//! calculating inertia and solving symmetric linear systems"). faer's has other pivots, which PyTorch's callers would see.

use crate::Number;
use num_traits::{Float, NumCast, One, Zero};

/// `(1 + sqrt(17)) / 8`, which bounds the growth of elements.
const ALPHA: f64 = 0.640_388_203_202_208;

/// A matrix in place: element `(i, j)`.
struct Square<'a, T> {
    n: usize,
    data: &'a mut [T],
}

impl<T: Number> Square<'_, T> {
    fn at(&self, i: usize, j: usize) -> T {
        self.data[j * self.n + i]
    }
    fn set(&mut self, i: usize, j: usize, x: T) {
        self.data[j * self.n + i] = x;
    }
    fn swap(&mut self, a: (usize, usize), b: (usize, usize)) {
        self.data.swap(a.1 * self.n + a.0, b.1 * self.n + b.0);
    }
    /// `a[i.., j] -= factor * a[i.., k]` below row `i`.
    fn subtract(&mut self, i: usize, j: usize, k: usize, factor: T) {
        let (before, after) = self.data.split_at_mut(j * self.n);
        let source = &before[k * self.n + i..(k + 1) * self.n];
        for (x, &s) in after[i..self.n].iter_mut().zip(source) {
            *x -= factor * s;
        }
    }
}

pub fn ldl<T: Number>(n: usize, hermitian: bool, a: &mut [T], pivots: &mut [i32]) -> i32 {
    let alpha = <T::Part as NumCast>::from(ALPHA).unwrap_or_else(T::Part::one);
    let conj = |x: T| if hermitian { x.conjugate() } else { x };
    let size = |x: T| if hermitian { Float::abs(x.re()) } else { x.rough_size() };
    let mut a = Square { n, data: a };
    let mut info = 0;
    let mut k = 0;
    while k < n {
        let mut step = 1;
        let diagonal = size(a.at(k, k));
        // The largest element below the diagonal, and its row.
        let (mut row, mut largest) = (k, T::Part::zero());
        for i in k + 1..n {
            if a.at(i, k).rough_size() > largest {
                (row, largest) = (i, a.at(i, k).rough_size());
            }
        }
        let mut p = k;
        if Float::max(diagonal, largest).is_zero() || Float::is_nan(diagonal) {
            info = if info == 0 { k as i32 + 1 } else { info };
            if hermitian {
                let d = T::from_real(a.at(k, k).re());
                a.set(k, k, d);
            }
            pivots[k] = k as i32 + 1;
            k += 1;
            continue;
        }
        if diagonal < alpha * largest {
            // The largest element off the diagonal in that row.
            let in_row = (k..row).map(|j| a.at(row, j).rough_size());
            let in_column = (row + 1..n).map(|i| a.at(i, row).rough_size());
            let other = in_row.chain(in_column).fold(T::Part::zero(), Float::max);
            if diagonal < alpha * largest * (largest / other) {
                p = row;
                step = if size(a.at(row, row)) >= alpha * other { 1 } else { 2 };
            }
        }
        let kk = k + step - 1;
        if p != kk {
            for i in p + 1..n {
                a.swap((i, kk), (i, p));
            }
            for j in kk + 1..p {
                let (x, y) = (a.at(j, kk), a.at(p, j));
                a.set(j, kk, conj(y));
                a.set(p, j, conj(x));
            }
            let x = conj(a.at(p, kk));
            a.set(p, kk, x);
            a.swap((kk, kk), (p, p));
            if step == 2 {
                a.swap((k + 1, k), (p, k));
            }
        }
        if hermitian {
            for i in [k, kk, p] {
                let d = T::from_real(a.at(i, i).re());
                a.set(i, i, d);
            }
        }
        if step == 1 {
            let inverse = T::one() / a.at(k, k);
            for j in k + 1..n {
                let factor = conj(a.at(j, k)) * inverse;
                a.subtract(j, j, k, factor);
                if hermitian {
                    let d = T::from_real(a.at(j, j).re());
                    a.set(j, j, d);
                }
            }
            for i in k + 1..n {
                let x = a.at(i, k) * inverse;
                a.set(i, k, x);
            }
            pivots[k] = p as i32 + 1;
        } else {
            // The inverse of D = [d11 d21*; d21 d22], divided by its off-diagonal element, which may be large.
            let d21 = a.at(k + 1, k);
            let (d11, d22) = (a.at(k + 1, k + 1) / d21, a.at(k, k) / conj(d21));
            let t = T::one() / (d11 * d22 - T::one());
            for j in k + 2..n {
                let (x, y) = (a.at(j, k), a.at(j, k + 1));
                // (w0, w1) = (x, y) D^-1
                let w0 = (d11 * x - y) * t / conj(d21);
                let w1 = (d22 * y - x) * t / d21;
                a.subtract(j, j, k, conj(w0));
                a.subtract(j, j, k + 1, conj(w1));
                a.set(j, k, w0);
                a.set(j, k + 1, w1);
                if hermitian {
                    let d = T::from_real(a.at(j, j).re());
                    a.set(j, j, d);
                }
            }
            pivots[k] = -(p as i32 + 1);
            pivots[k + 1] = pivots[k];
        }
        k += step;
    }
    info
}

pub fn ldl_solve<T: Number>(n: usize, k: usize, ld: &[T], pivots: &[i32], hermitian: bool, b: &mut [T]) {
    if n == 0 || k == 0 {
        return;
    }
    let conj = |x: T| if hermitian { x.conjugate() } else { x };
    let at = |i: usize, j: usize| ld[j * n + i];
    // Column `j` of L from row `i` on.
    let below = |i: usize, j: usize| &ld[j * n + i..(j + 1) * n];
    // A lone negative pivot at the end can only come from outside; it is taken for a 1 * 1 block.
    let is_pair = |i: usize| pivots[i] < 0 && i + 1 < n;
    let place = |i: usize| pivots[i].unsigned_abs() as usize - 1;
    for column in b.chunks_exact_mut(n) {
        let mut i = 0;
        while i < n {
            if is_pair(i) {
                column.swap(i + 1, place(i));
                let (x, y) = (column[i], column[i + 1]);
                for ((value, a), b) in column[i + 2..].iter_mut().zip(below(i + 2, i)).zip(below(i + 2, i + 1)) {
                    *value -= *a * x + *b * y;
                }
                let d21 = at(i + 1, i);
                let (d11, d22) = (at(i, i) / conj(d21), at(i + 1, i + 1) / d21);
                let t = d11 * d22 - T::one();
                let (x, y) = (x / conj(d21), y / d21);
                column[i] = (d22 * x - y) / t;
                column[i + 1] = (d11 * y - x) / t;
                i += 2;
            } else {
                column.swap(i, place(i));
                let x = column[i];
                for (value, a) in column[i + 1..].iter_mut().zip(below(i + 1, i)) {
                    *value -= *a * x;
                }
                column[i] = x / if hermitian { T::from_real(at(i, i).re()) } else { at(i, i) };
                i += 1;
            }
        }
        let mut i = n;
        while i > 0 {
            i -= 1;
            let second = pivots[i] < 0 && i > 0 && pairs_end(pivots, i);
            let product = |column: &[T], j: usize| dot(below(i + 1, j), &column[i + 1..], hermitian);
            if second {
                let (x, y) = (product(column, i - 1), product(column, i));
                column[i - 1] -= x;
                column[i] -= y;
                column.swap(i, place(i));
                i -= 1;
            } else {
                let x = product(column, i);
                column[i] -= x;
                column.swap(i, place(i));
            }
        }
    }
}

/// The sum of products of two columns, the first conjugated if asked for, in partial sums that vectorise.
fn dot<T: Number>(a: &[T], b: &[T], conjugate: bool) -> T {
    const LANES: usize = 16;
    let conj = |x: T| if conjugate { x.conjugate() } else { x };
    let (wide_a, wide_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = wide_a.remainder().iter().zip(wide_b.remainder());
    let rest = rest.fold(T::zero(), |sum, (a, b)| sum + conj(*a) * *b);
    let mut sums = [T::zero(); LANES];
    for (a, b) in wide_a.zip(wide_b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += conj(*a) * *b;
        }
    }
    sums.into_iter().fold(rest, |sum, x| sum + x)
}

/// Whether `i` is the second of a pair: the run of negative pivots that ends there is even.
fn pairs_end(pivots: &[i32], i: usize) -> bool {
    pivots[..=i].iter().rev().take_while(|p| **p < 0).count() % 2 == 0
}
