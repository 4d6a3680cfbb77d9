//! QR by Householder's reflectors as LAPACK makes them: `H = I - tau v v^H` with `v[0] = 1`, and R with a real diagonal.
//! (faer's complex reflectors leave R's diagonal complex, and PyTorch shows reflectors.) Reflectors are applied in blocks,
//! `I - V T V^H` (Schreiber and Van Loan, "A storage-efficient WY representation for products of Householder
//! transformations"), so that nearly all work is in matrix products.

use crate::{Number, small};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use flambeau_base::parallel::parallel_for;
use num_traits::{Float, One, ToPrimitive, Zero};
use pulp::{Arch, NullaryFnOnce};
use std::sync::Mutex;

/// Reflectors per block.
const BLOCK: usize = 32;
/// Reflectors that are made one after the other before columns further on see them.
const GROUP: usize = 4;
/// Columns that blocks are applied to in one piece of parallel work.
const COLUMNS: usize = 64;

/// Makes the reflector that takes `x` to a real multiple of the first unit vector: `x` becomes that multiple and the
/// rest of the reflector. Gives tau.
#[inline(always)]
pub fn reflector<T: Number>(x: &mut [T]) -> T {
    let Some((first, rest)) = x.split_first_mut() else { return T::zero() };
    let tail = norm(rest);
    if tail.is_zero() && first.im().is_zero() {
        return T::zero();
    }
    let length = Float::hypot(first.size(), tail);
    let beta = if first.re() < T::Part::zero() { length } else { -length };
    let tau = (T::from_real(beta) - *first).scaled(T::Part::one() / beta);
    let divisor = *first - T::from_real(beta);
    rest.iter_mut().for_each(|x| *x /= divisor);
    *first = T::from_real(beta);
    tau
}

/// The Euclidean norm; scaled, for its square may be out of range.
#[inline(always)]
fn norm<T: Number>(x: &[T]) -> T::Part {
    let largest = x.iter().fold(T::Part::zero(), |m, x| m.max(x.rough_size()));
    let exponent = largest.to_f64().unwrap_or(f64::NAN);
    if (1e-12..1e12).contains(&exponent) || largest.is_zero() || !Float::is_finite(largest) {
        return Float::sqrt(sum(x, x, |x, _| x.size_squared()));
    }
    let scale = T::Part::one() / largest;
    Float::sqrt(sum(x, x, |x, _| x.scaled(scale).size_squared())) * largest
}

/// The sum of `term` of each pair of elements, in parts that the compiler can vectorise; the longer, the more of them.
#[inline(always)]
fn sum<T: Copy, R: Copy + Zero + std::ops::AddAssign>(x: &[T], y: &[T], term: impl Fn(T, T) -> R) -> R {
    if x.len() < 64 { sum_in_parts::<T, R, 4>(x, y, term) } else { sum_in_parts::<T, R, 32>(x, y, term) }
}

#[inline(always)]
fn sum_in_parts<T: Copy, R: Copy + Zero + std::ops::AddAssign, const N: usize>(
    x: &[T],
    y: &[T],
    term: impl Fn(T, T) -> R,
) -> R {
    let mut parts = [R::zero(); N];
    let (mut xs, mut ys) = (x.chunks_exact(N), y.chunks_exact(N));
    for (x, y) in (&mut xs).zip(&mut ys) {
        for ((part, &x), &y) in parts.iter_mut().zip(x).zip(y) {
            *part += term(x, y);
        }
    }
    for ((part, &x), &y) in parts.iter_mut().zip(xs.remainder()).zip(ys.remainder()) {
        *part += term(x, y);
    }
    let mut count = N;
    while count > 1 {
        count /= 2;
        let (low, high) = parts[..2 * count].split_at_mut(count);
        low.iter_mut().zip(high).for_each(|(x, y)| *x += *y);
    }
    parts[0]
}

/// `c -= factor * v (v^H c)` for each column from `offset` on, where `v[0]` is taken for 1.
pub fn reflect<T: Number>(v: &[T], factor: T, columns: &mut [T], stride: usize, offset: usize) {
    if !factor.is_zero() {
        Arch::new().dispatch(Reflection { v, factor, columns, stride, offset });
    }
}

/// The arguments of [`reflect`]; a type, so that its loops are compiled for each set of vector instructions.
struct Reflection<'a, T> {
    v: &'a [T],
    factor: T,
    columns: &'a mut [T],
    stride: usize,
    offset: usize,
}

impl<T: Number> NullaryFnOnce for Reflection<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let rest = &self.v[1..];
        for column in self.columns.chunks_exact_mut(self.stride) {
            let (first, column) = column[self.offset..self.offset + self.v.len()].split_at_mut(1);
            let product = first[0] + sum(rest, column, |v, x| v.conjugate() * x);
            let product = product * self.factor;
            first[0] -= product;
            for (x, &v) in column.iter_mut().zip(rest) {
                *x -= v * product;
            }
        }
    }
}

/// The conjugate transpose of a product of reflectors `first..first + GROUP`, and the columns it is applied to, each read twice
/// for all of them.
struct Reflections<'a, T> {
    m: usize,
    first: usize,
    /// `GROUP` columns, ones on the diagonal and zeros above.
    v: Vec<T>,
    tau: [T; GROUP],
    columns: &'a mut [T],
}

impl<'a, T: Number> Reflections<'a, T> {
    fn new(m: usize, first: usize, a: &[T], tau: [T; GROUP], columns: &'a mut [T]) -> Reflections<'a, T> {
        let mut v = a[first * m..(first + GROUP) * m].to_vec();
        for (j, column) in v.chunks_exact_mut(m).enumerate() {
            column[..first + j].fill(T::zero());
            column[first + j] = T::one();
        }
        Reflections { m, first, v, tau, columns }
    }

    #[inline(always)]
    fn apply<const N: usize>(self) {
        let Reflections { m, first, v, tau, columns } = self;
        let v: [&[T]; GROUP] = std::array::from_fn(|j| &v[j * m + first..(j + 1) * m]);
        // T of `I - V T V^H`.
        let mut t = [[T::zero(); GROUP]; GROUP];
        for j in 0..GROUP {
            let products = products::<T, N>(&v, v[j]);
            for (i, row) in t.iter_mut().enumerate().take(j) {
                let sum = (i..j).fold(T::zero(), |sum, k| sum + row[k] * products[k]);
                row[j] = -tau[j] * sum;
            }
            t[j][j] = tau[j];
        }
        for column in columns.chunks_exact_mut(m) {
            let column = &mut column[first..];
            let found = products::<T, N>(&v, column);
            let mut by = [T::zero(); GROUP];
            for (j, by) in by.iter_mut().enumerate() {
                *by = (0..=j).fold(T::zero(), |sum, i| sum + t[i][j].conjugate() * found[i]);
            }
            let [v0, v1, v2, v3] = v;
            for ((((x, &a), &b), &c), &d) in column.iter_mut().zip(v0).zip(v1).zip(v2).zip(v3) {
                *x -= (a * by[0] + b * by[1]) + (c * by[2] + d * by[3]);
            }
        }
    }
}

impl<T: Number> NullaryFnOnce for Reflections<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        // As many lanes as leave the sums in registers.
        if size_of::<T>() <= 4 { self.apply::<16>() } else { self.apply::<8>() }
    }
}

/// The inner products of several columns with one.
#[inline(always)]
fn products<T: Number, const N: usize>(v: &[&[T]; GROUP], column: &[T]) -> [T; GROUP] {
    let mut parts = [[T::zero(); N]; GROUP];
    let (chunks, rest) = column.as_chunks::<N>();
    let [v0, v1, v2, v3] = v.map(|v| v.as_chunks::<N>());
    for ((((x, a), b), c), d) in chunks.iter().zip(v0.0).zip(v1.0).zip(v2.0).zip(v3.0) {
        for lane in 0..N {
            parts[0][lane] += a[lane].conjugate() * x[lane];
            parts[1][lane] += b[lane].conjugate() * x[lane];
            parts[2][lane] += c[lane].conjugate() * x[lane];
            parts[3][lane] += d[lane].conjugate() * x[lane];
        }
    }
    for (part, v) in parts.iter_mut().zip([v0.1, v1.1, v2.1, v3.1]) {
        part.iter_mut().zip(v).zip(rest).for_each(|((sum, v), &x)| *sum += v.conjugate() * x);
    }
    parts.map(|part| {
        let mut part = part;
        let mut count = N;
        while count > 1 {
            count /= 2;
            let (low, high) = part[..2 * count].split_at_mut(count);
            low.iter_mut().zip(high).for_each(|(x, y)| *x += *y);
        }
        part[0]
    })
}

/// A block of reflectors, and what their product is made of.
struct Block<T> {
    rows: usize,
    count: usize,
    /// `rows * count`, ones on the diagonal and zeros above.
    v: Vec<T>,
    /// `count * count`, upper triangular.
    t: Vec<T>,
}

impl<T: Number> Block<T> {
    /// Reflectors `first..first + tau.len()` of a matrix with `m` rows.
    fn new(m: usize, first: usize, a: &[T], tau: &[T]) -> Block<T> {
        let (rows, count) = (m - first, tau.len());
        let mut v = vec![T::zero(); rows * count];
        for (j, column) in v.chunks_exact_mut(rows).enumerate() {
            let source = &a[(first + j) * m + first..(first + j + 1) * m];
            column[j] = T::one();
            column[j + 1..].copy_from_slice(&source[j + 1..]);
        }
        let mut products = vec![T::zero(); count * count];
        let whole = MatRef::from_column_major_slice(&v, rows, count);
        let target = MatMut::from_column_major_slice_mut(&mut products, count, count);
        matmul(target, Accum::Replace, whole.adjoint(), whole, one(), Par::Seq);
        // Column j of T is -tau[j] T V^H v[j] above the diagonal.
        let mut t = vec![T::zero(); count * count];
        for j in 0..count {
            for i in 0..j {
                let column = (i..j).fold(T::zero(), |s, k| s + t[k * count + i] * products[j * count + k]);
                t[j * count + i] = -tau[j] * column;
            }
            t[j * count + j] = tau[j];
        }
        Block { rows, count, v, t }
    }

    /// `c = (I - V T V^H) c`, or with its conjugate transpose.
    fn apply_left(&self, adjoint: bool, mut c: MatMut<'_, T>) {
        let n = c.ncols();
        let v = MatRef::from_column_major_slice(&self.v, self.rows, self.count);
        let t = MatRef::from_column_major_slice(&self.t, self.count, self.count);
        let (mut first, mut second) = (vec![T::zero(); self.count * n], vec![T::zero(); self.count * n]);
        let mut inner = MatMut::from_column_major_slice_mut(&mut first, self.count, n);
        let mut scaled = MatMut::from_column_major_slice_mut(&mut second, self.count, n);
        matmul(inner.rb_mut(), Accum::Replace, v.adjoint(), c.rb(), one(), Par::Seq);
        match adjoint {
            true => matmul(scaled.rb_mut(), Accum::Replace, t.adjoint(), inner.rb(), one(), Par::Seq),
            false => matmul(scaled.rb_mut(), Accum::Replace, t, inner.rb(), one(), Par::Seq),
        }
        matmul(c.rb_mut(), Accum::Add, v, scaled.rb(), -one::<T>(), Par::Seq);
    }

    /// `c = c (I - V T V^H)`, or with its conjugate transpose.
    fn apply_right(&self, adjoint: bool, mut c: MatMut<'_, T>) {
        let m = c.nrows();
        let v = MatRef::from_column_major_slice(&self.v, self.rows, self.count);
        let t = MatRef::from_column_major_slice(&self.t, self.count, self.count);
        let (mut first, mut second) = (vec![T::zero(); self.count * m], vec![T::zero(); self.count * m]);
        let mut inner = MatMut::from_column_major_slice_mut(&mut first, m, self.count);
        let mut scaled = MatMut::from_column_major_slice_mut(&mut second, m, self.count);
        matmul(inner.rb_mut(), Accum::Replace, c.rb(), v, one(), Par::Seq);
        match adjoint {
            true => matmul(scaled.rb_mut(), Accum::Replace, inner.rb(), t.adjoint(), one(), Par::Seq),
            false => matmul(scaled.rb_mut(), Accum::Replace, inner.rb(), t, one(), Par::Seq),
        }
        matmul(c.rb_mut(), Accum::Add, scaled.rb(), v.adjoint(), -one::<T>(), Par::Seq);
    }
}

use faer::prelude::{Reborrow, ReborrowMut};

fn one<T: Number>() -> T {
    <T as One>::one()
}

pub fn qr<T: Number>(m: usize, n: usize, a: &mut [T], tau: &mut [T]) {
    if small::is_small(m, n) {
        return small::qr(m, n, a, tau);
    }
    let k = m.min(n);
    for start in (0..k).step_by(BLOCK) {
        let end = (start + BLOCK).min(k);
        // What is left is one panel unless it is wider than a block.
        let panel = if n - start <= BLOCK * 2 { n } else { end };
        for first in (start..end).step_by(GROUP) {
            let last = (first + GROUP).min(end);
            for j in first..last {
                let (left, right) = a.split_at_mut((j + 1) * m);
                let column = &mut left[j * m + j..];
                tau[j] = reflector(column);
                reflect(column, tau[j].conjugate(), &mut right[..(last - j - 1) * m], m, j);
            }
            let (left, right) = a.split_at_mut(last * m);
            let columns = &mut right[..(panel - last) * m];
            match <&[T; GROUP]>::try_from(&tau[first..last]) {
                Ok(tau) => Arch::new().dispatch(Reflections::new(m, first, left, *tau, columns)),
                Err(_) => (first..last)
                    .for_each(|j| reflect(&left[j * m + j..(j + 1) * m], tau[j].conjugate(), columns, m, j)),
            }
        }
        if panel < n {
            let block = Block::new(m, start, a, &tau[start..end]);
            let rest = MatMut::from_column_major_slice_mut(&mut a[end * m..], m, n - end);
            block.apply_left(true, rest.split_at_row_mut(start).1);
        }
    }
}

pub fn reflectors_to_matrix<T: Number>(m: usize, n: usize, a: &mut [T], tau: &[T]) {
    let k = tau.len();
    if m == 0 || n == 0 {
        return;
    }
    if small::is_small(m, n) {
        return small::reflectors_to_matrix(m, a, tau);
    }
    let v = a[..k * m].to_vec();
    a.fill(T::zero());
    for j in 0..n {
        a[j * m + j] = T::one();
    }
    for start in (0..k).step_by(BLOCK).rev() {
        let end = (start + BLOCK).min(k);
        if n - start <= BLOCK {
            for j in (start..end).rev() {
                reflect(&v[j * m + j..(j + 1) * m], tau[j], &mut a[j * m..], m, j);
            }
        } else {
            // The columns before are unit vectors still, which these reflectors leave alone.
            let block = Block::new(m, start, &v, &tau[start..end]);
            let rest = MatMut::from_column_major_slice_mut(&mut a[start * m..], m, n - start);
            block.apply_left(false, rest.split_at_row_mut(start).1);
        }
    }
}

pub fn apply<T: Number>(m: usize, n: usize, v: &[T], tau: &[T], left: bool, adjoint: bool, c: &mut [T]) {
    let k = tau.len();
    if m == 0 || n == 0 {
        return;
    }
    let order = if left { m } else { n };
    let mut one_block = |start: usize| {
        let block = Block::new(order, start, v, &tau[start..(start + BLOCK).min(k)]);
        if left {
            let parts: Vec<_> = c.chunks_mut(m * COLUMNS).map(Mutex::new).collect();
            parallel_for(parts.len(), 1, &|range| {
                for part in range {
                    let mut part = parts[part].lock().unwrap_or_else(|e| e.into_inner());
                    let columns = part.len() / m;
                    let part = MatMut::from_column_major_slice_mut(&mut part[..], m, columns);
                    block.apply_left(adjoint, part.split_at_row_mut(start).1);
                }
            });
        } else {
            let c = MatMut::from_column_major_slice_mut(c, m, n);
            block.apply_right(adjoint, c.split_at_col_mut(start).1);
        }
    };
    // H1 H2 ... c begins with the last, its conjugate transpose with the first; from the right it is the other way.
    match left == adjoint {
        true => (0..k).step_by(BLOCK).for_each(&mut one_block),
        false => (0..k).step_by(BLOCK).rev().for_each(&mut one_block),
    }
}
