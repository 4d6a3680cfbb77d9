//! Symmetric pivoting: Bunch and Kaufman's LDL in LAPACK's format (J. R. Bunch and L. Kaufman, "Some stable methods for
//! calculating inertia and solving symmetric linear systems"). faer's has other pivots, which PyTorch's callers would see.

use crate::Number;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_solve::{
    solve_unit_lower_triangular_in_place_with_conj, solve_unit_upper_triangular_in_place_with_conj,
};
use faer::{Accum, Conj, MatMut, MatRef, Par};
use num_traits::{Float, NumCast, One, Zero};
use pulp::{Arch, NullaryFnOnce};

/// `(1 + sqrt(17)) / 8`, which bounds the growth of elements.
const ALPHA: f64 = 0.640_388_203_202_208;

/// Columns that are factorized before those further on see them.
const PANEL: usize = 32;
/// From this order on panels are worth it, and from this many columns solving by blocks.
const BLOCKED: (usize, usize) = (64, 8);

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
    let (mut start, mut info) = (0, 0);
    while n - start >= BLOCKED.0 {
        let (end, zero) = Arch::new().dispatch(Panel { n, start, hermitian, a, pivots });
        info = if info == 0 { zero } else { info };
        start = end;
    }
    let zero = plain_ldl(n, start, hermitian, a, pivots);
    if info == 0 { zero } else { info }
}

/// Exchanges two rows and columns of the part of a symmetric matrix from `first` on, of which the lower triangle is stored.
fn exchange<T: Number>(a: &mut Square<'_, T>, first: usize, second: usize, conj: impl Fn(T) -> T) {
    for i in second + 1..a.n {
        a.swap((i, first), (i, second));
    }
    for j in first + 1..second {
        let (x, y) = (a.at(j, first), a.at(second, j));
        a.set(j, first, conj(y));
        a.set(second, j, conj(x));
    }
    let x = conj(a.at(second, first));
    a.set(second, first, x);
    a.swap((first, first), (second, second));
}

/// Columns from `start` on, left-looking: each sees those of its panel when its turn comes, and the matrix beyond the panel
/// sees all of them at once. A type, so that its loops are compiled for each set of vector instructions.
struct Panel<'a, T> {
    n: usize,
    start: usize,
    hermitian: bool,
    a: &'a mut [T],
    pivots: &'a mut [i32],
}

/// The columns of a panel that are done, from its first row on, with all exchanges of rows so far.
struct Done<T> {
    rows: usize,
    /// Columns of L.
    l: Vec<T>,
    /// The same times D, conjugated if the matrix is Hermitian.
    by: Vec<T>,
    count: usize,
}

impl<T: Number> Done<T> {
    /// Takes the part of the done columns from a column, from row `top` on, that row `at` of them says.
    #[inline(always)]
    fn subtract(&self, column: &mut [T], top: usize, at: usize) {
        let (l, by) = (&self.l[..self.count * self.rows], &self.by[..self.count * self.rows]);
        let (fours, fours_by) = (l.chunks_exact(4 * self.rows), by.chunks_exact(4 * self.rows));
        let (rest, rest_by) = (fours.remainder(), fours_by.remainder());
        for (four, by) in fours.zip(fours_by) {
            let part = |j: usize| &four[j * self.rows + top..(j + 1) * self.rows];
            let [f0, f1, f2, f3] = [0, 1, 2, 3].map(|j| by[j * self.rows + at]);
            for ((((x, &a), &b), &c), &d) in column.iter_mut().zip(part(0)).zip(part(1)).zip(part(2)).zip(part(3)) {
                *x -= (a * f0 + b * f1) + (c * f2 + d * f3);
            }
        }
        for (one, by) in rest.chunks_exact(self.rows).zip(rest_by.chunks_exact(self.rows)) {
            column.iter_mut().zip(&one[top..]).for_each(|(x, &l)| *x -= l * by[at]);
        }
    }

    fn swap_rows(&mut self, i: usize, j: usize) {
        let columns = |data| <[T]>::chunks_exact_mut(data, self.rows).take(self.count);
        columns(&mut self.l).chain(columns(&mut self.by)).for_each(|column| column.swap(i, j));
    }

    fn push(&mut self, top: usize, l: &[T], by: impl Iterator<Item = T>) {
        let from = self.count * self.rows + top;
        self.l[from..from + l.len()].copy_from_slice(l);
        self.by[from..from + l.len()].iter_mut().zip(by).for_each(|(to, x)| *to = x);
        self.count += 1;
    }
}

impl<T: Number> NullaryFnOnce for Panel<'_, T> {
    /// Where the panel ended, and the place (from 1) of the first zero in D.
    type Output = (usize, i32);

    #[inline(always)]
    fn call(self) -> (usize, i32) {
        let Panel { n, start, hermitian, a, pivots } = self;
        let alpha = <T::Part as NumCast>::from(ALPHA).unwrap_or_else(T::Part::one);
        let conj = |x: T| if hermitian { x.conjugate() } else { x };
        let size = |x: T| if hermitian { Float::abs(x.re()) } else { x.rough_size() };
        let real = |x: &mut T| *x = if hermitian { T::from_real(x.re()) } else { *x };
        let mut a = Square { n, data: a };
        let rows = n - start;
        let zeros = || vec![T::zero(); rows * PANEL];
        let mut done = Done { rows, l: zeros(), by: zeros(), count: 0 };
        let (mut info, mut k) = (0, start);
        while k + 1 < start + PANEL {
            // The column as it would be had all before been subtracted.
            let mut first = a.data[k * n + k..(k + 1) * n].to_vec();
            let top = k - start;
            done.subtract(&mut first, top, top);
            real(&mut first[0]);
            let diagonal = size(first[0]);
            let (mut row, mut largest) = (0, T::Part::zero());
            for (i, x) in first.iter().enumerate().skip(1) {
                if x.rough_size() > largest {
                    (row, largest) = (i, x.rough_size());
                }
            }
            if Float::max(diagonal, largest).is_zero() || Float::is_nan(diagonal) {
                info = if info == 0 { k as i32 + 1 } else { info };
                a.data[k * n + k..(k + 1) * n].copy_from_slice(&first);
                pivots[k] = k as i32 + 1;
                done.count += 1;
                k += 1;
                continue;
            }
            // The column of the row with the largest element, where that is to be looked at.
            let mut second = Vec::new();
            let (mut p, mut step) = (k, 1);
            if diagonal < alpha * largest {
                let at = k + row;
                second.extend((k..at).map(|j| conj(a.at(at, j))));
                second.extend_from_slice(&a.data[at * n + at..(at + 1) * n]);
                done.subtract(&mut second, top, at - start);
                real(&mut second[row]);
                let others = second.iter().enumerate().filter(|(i, _)| *i != row);
                let other = others.fold(T::Part::zero(), |most, (_, x)| Float::max(most, x.rough_size()));
                if diagonal < alpha * largest * (largest / other) {
                    p = at;
                    step = if size(second[row]) >= alpha * other { 1 } else { 2 };
                }
            }
            let kk = k + step - 1;
            if step == 1 && p != k {
                std::mem::swap(&mut first, &mut second);
            }
            if p != kk {
                exchange(&mut a, kk, p, conj);
                done.swap_rows(kk - start, p - start);
                first.swap(kk - k, p - k);
                if step == 2 {
                    second.swap(kk - k, p - k);
                }
            }
            if step == 1 {
                let inverse = T::one() / first[0];
                let column = &mut a.data[k * n + k..(k + 1) * n];
                column[0] = first[0];
                column[1..].iter_mut().zip(&first[1..]).for_each(|(to, &x)| *to = x * inverse);
                done.push(top, column, first.iter().map(|&x| conj(x)));
                pivots[k] = p as i32 + 1;
            } else {
                let d21 = first[1];
                let (d11, d22) = (second[1] / d21, first[0] / conj(d21));
                let t = T::one() / (d11 * d22 - T::one());
                let (t0, t1) = (t / conj(d21), t / d21);
                let (left, right) = a.data.split_at_mut((k + 1) * n);
                let (left, right) = (&mut left[k * n + k..], &mut right[k..n]);
                left[..2].copy_from_slice(&first[..2]);
                right[1] = second[1];
                for (((l0, l1), &x), &y) in left.iter_mut().zip(&mut *right).zip(&first).zip(&second).skip(2) {
                    (*l0, *l1) = ((d11 * x - y) * t0, (d22 * y - x) * t1);
                }
                done.push(top, left, first.iter().map(|&x| conj(x)));
                done.push(top + 1, &right[1..], second[1..].iter().map(|&x| conj(x)));
                pivots[k] = -(p as i32 + 1);
                pivots[k + 1] = pivots[k];
            }
            k += step;
        }
        let (left, top) = (n - k, k - start);
        let whole = |data: &[T]| -> Vec<T> {
            data.chunks_exact(rows).take(done.count).flat_map(|column| column[top..].iter().copied()).collect()
        };
        let (l, by) = (whole(&done.l), whole(&done.by));
        let rest = MatMut::from_column_major_slice_mut(&mut a.data[k * n..], n, left).split_at_row_mut(k).1;
        triangular::matmul(
            rest,
            BlockStructure::TriangularLower,
            Accum::Add,
            MatRef::from_column_major_slice(&l, left, done.count),
            BlockStructure::Rectangular,
            MatRef::from_column_major_slice(&by, left, done.count).transpose(),
            BlockStructure::Rectangular,
            -<T as One>::one(),
            Par::Seq,
        );
        (k..n).for_each(|i| real(&mut a.data[i * n + i]));
        (k, info)
    }
}

/// Column by column from `start` on.
fn plain_ldl<T: Number>(n: usize, start: usize, hermitian: bool, a: &mut [T], pivots: &mut [i32]) -> i32 {
    let alpha = <T::Part as NumCast>::from(ALPHA).unwrap_or_else(T::Part::one);
    let conj = |x: T| if hermitian { x.conjugate() } else { x };
    let size = |x: T| if hermitian { Float::abs(x.re()) } else { x.rough_size() };
    let mut a = Square { n, data: a };
    let mut info = 0;
    let mut k = start;
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
            exchange(&mut a, kk, p, conj);
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
    if n >= BLOCKED.0 && k >= BLOCKED.1 {
        return blocked_solve(n, k, ld, pivots, hermitian, b);
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

/// The same with all exchanges of rows before L, whose rows they move.
fn blocked_solve<T: Number>(n: usize, k: usize, ld: &[T], pivots: &[i32], hermitian: bool, b: &mut [T]) {
    let conj = |x: T| if hermitian { x.conjugate() } else { x };
    // Where a block of D begins, the element beside its diagonal if it has one, and the rows exchanged.
    let mut blocks: Vec<(usize, Option<T>, (usize, usize))> = Vec::with_capacity(n);
    let mut i = 0;
    while i < n {
        let pair = pivots[i] < 0 && i + 1 < n;
        let rows = (i + pair as usize, pivots[i].unsigned_abs() as usize - 1);
        blocks.push((i, pair.then(|| ld[i * n + i + 1]), rows));
        i += 1 + pair as usize;
    }
    let exchanges: Vec<(usize, usize, usize)> =
        blocks.iter().filter(|(_, _, rows)| rows.0 != rows.1).map(|&(i, _, rows)| (i, rows.0, rows.1)).collect();
    let mut l = ld.to_vec();
    for &(i, beside, _) in &blocks {
        if beside.is_some() {
            l[i * n + i + 1] = T::zero();
        }
    }
    let mut later = &exchanges[..];
    for (j, column) in l.chunks_exact_mut(n).enumerate() {
        while let Some((&(i, ..), rest)) = later.split_first()
            && i <= j
        {
            later = rest;
        }
        later.iter().for_each(|&(_, a, b)| column.swap(a, b));
    }
    for column in b.chunks_exact_mut(n) {
        exchanges.iter().for_each(|&(_, a, b)| column.swap(a, b));
    }
    let lower = MatRef::from_column_major_slice(&l, n, n);
    let target = MatMut::from_column_major_slice_mut(b, n, k);
    solve_unit_lower_triangular_in_place_with_conj(lower, Conj::No, target, Par::Seq);
    for column in b.chunks_exact_mut(n) {
        for &(i, beside, _) in &blocks {
            if let Some(d21) = beside {
                let (d11, d22) = (l[i * n + i] / conj(d21), l[(i + 1) * n + i + 1] / d21);
                let t = d11 * d22 - T::one();
                let (x, y) = (column[i] / conj(d21), column[i + 1] / d21);
                column[i] = (d22 * x - y) / t;
                column[i + 1] = (d11 * y - x) / t;
            } else {
                let d = l[i * n + i];
                column[i] /= if hermitian { T::from_real(d.re()) } else { d };
            }
        }
    }
    let conjugates = if hermitian { Conj::Yes } else { Conj::No };
    let target = MatMut::from_column_major_slice_mut(b, n, k);
    solve_unit_upper_triangular_in_place_with_conj(lower.transpose(), conjugates, target, Par::Seq);
    for column in b.chunks_exact_mut(n) {
        exchanges.iter().rev().for_each(|&(_, a, b)| column.swap(a, b));
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
