//! LU and QR of matrices of up to 16 rows and columns, which come in large batches: whole columns of a fixed length, filled up
//! with zeros, so that each step is a few vector instructions and no loop has a remainder.

use crate::Number;
use crate::householder;
use flambeau_base::fast_paths::FastPath;
use num_traits::{Float, NumCast, One, Zero};
use pulp::{Arch, NullaryFnOnce};

/// The largest number of rows and columns.
pub const MOST: usize = 16;

/// Whether a matrix is of these.
pub fn is_small(m: usize, n: usize) -> bool {
    (1..=MOST).contains(&m) && (1..=MOST).contains(&n) && FastPath::LinalgSmall.is_on()
}

/// Columns of `R` elements.
type Columns<T, const R: usize> = [[T; R]; MOST];

#[inline(always)]
fn load<T: Number, const R: usize>(m: usize, a: &[T]) -> Columns<T, R> {
    let mut columns = [[T::zero(); R]; MOST];
    for (to, from) in columns.iter_mut().zip(a.chunks_exact(m)) {
        to[..m].copy_from_slice(from);
    }
    columns
}

#[inline(always)]
fn store<T: Number, const R: usize>(m: usize, columns: &Columns<T, R>, a: &mut [T]) {
    for (to, from) in a.chunks_exact_mut(m).zip(columns) {
        to.copy_from_slice(&from[..m]);
    }
}

/// `x -= y * by`.
#[inline(always)]
fn subtract<T: Number, const R: usize>(x: &mut [T; R], y: &[T; R], by: T) {
    for (x, &y) in x.iter_mut().zip(y) {
        *x -= y * by;
    }
}

/// The sum of products of the first, conjugated, and the second.
#[inline(always)]
fn product<T: Number, const R: usize>(x: &[T; R], y: &[T; R]) -> T {
    let mut parts = [T::zero(); R];
    for ((part, &x), &y) in parts.iter_mut().zip(x).zip(y) {
        *part = x.conjugate() * y;
    }
    let mut count = R;
    while count > 1 {
        count /= 2;
        for i in 0..count {
            let other = parts[i + count];
            parts[i] += other;
        }
    }
    parts[0]
}

// ---- LU -----------------------------------------------------------------------------------------

/// LU factors with partial pivoting in place, and the rows swapped, from 1; gives the place of the first zero pivot.
pub fn lu<T: Number>(m: usize, n: usize, a: &mut [T], pivots: &mut [i32]) -> i32 {
    Arch::new().dispatch(Lu { m, n, a, pivots })
}

struct Lu<'a, T> {
    m: usize,
    n: usize,
    a: &'a mut [T],
    pivots: &'a mut [i32],
}

impl<T: Number> NullaryFnOnce for Lu<'_, T> {
    type Output = i32;

    #[inline(always)]
    fn call(self) -> i32 {
        if self.m <= 8 { self.run::<8>() } else { self.run::<16>() }
    }
}

impl<T: Number> Lu<'_, T> {
    #[inline(always)]
    fn run<const R: usize>(self) -> i32 {
        let Lu { m, n, a, pivots } = self;
        let mut columns = load::<T, R>(m, a);
        let columns = &mut columns[..n];
        let mut info = 0;
        for (j, place) in pivots.iter_mut().enumerate().take(m.min(n)) {
            let (mut p, mut largest) = (j, columns[j][j].rough_size());
            for (i, x) in columns[j].iter().enumerate().take(m).skip(j + 1) {
                let size = x.rough_size();
                let larger = size > largest;
                (p, largest) = (if larger { i } else { p }, if larger { size } else { largest });
            }
            *place = p as i32 + 1;
            let pivot = columns[j][p];
            let mut by = T::one();
            if pivot.is_zero() {
                info = if info == 0 { j as i32 + 1 } else { info };
            } else {
                if p != j {
                    columns.iter_mut().for_each(|column| column.swap(j, p));
                }
                by = T::one() / pivot;
            }
            let (done, rest) = columns.split_at_mut(j + 1);
            let mut below = [T::zero(); R];
            for (i, (below, x)) in below.iter_mut().zip(&mut done[j]).enumerate() {
                *x = if i > j { *x * by } else { *x };
                *below = if i > j { *x } else { T::zero() };
            }
            for column in rest {
                let factor = column[j];
                if !factor.is_zero() {
                    subtract(column, &below, factor);
                }
            }
        }
        for (to, from) in a.chunks_exact_mut(m).zip(&*columns) {
            to.copy_from_slice(&from[..m]);
        }
        info
    }
}

// ---- QR -----------------------------------------------------------------------------------------

/// Reflectors and R in place, and the reflectors' factors.
pub fn qr<T: Number>(m: usize, n: usize, a: &mut [T], tau: &mut [T]) {
    Arch::new().dispatch(Qr { m, a, tau, n });
}

struct Qr<'a, T> {
    m: usize,
    n: usize,
    a: &'a mut [T],
    tau: &'a mut [T],
}

impl<T: Number> NullaryFnOnce for Qr<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        if self.m <= 8 { self.run::<8>() } else { self.run::<16>() }
    }
}

/// The reflector of a column from row `j` on: it becomes R's element there and what is above; gives the reflector, with
/// zeros above and the one in its place, and tau.
#[inline(always)]
fn reflector<T: Number, const R: usize>(j: usize, m: usize, column: &mut [T; R]) -> ([T; R], T) {
    let mut v = *column;
    v.iter_mut().take(j + 1).for_each(|x| *x = T::zero());
    let first = column[j];
    let rest = product(&v, &v).re();
    let total = rest + first.size_squared();
    let limit = |x: f64| <T::Part as NumCast>::from(x).unwrap_or_else(T::Part::one);
    // Squares that are in range; NaN is not.
    let tau = if rest > limit(1e-24) && total < limit(1e30) {
        let length = Float::sqrt(total);
        let beta = if first.re() < T::Part::zero() { length } else { -length };
        let by = T::one() / (first - T::from_real(beta));
        v.iter_mut().for_each(|x| *x *= by);
        column[j] = T::from_real(beta);
        (T::from_real(beta) - first).scaled(T::Part::one() / beta)
    } else {
        let tau = householder::reflector(&mut column[j..m]);
        v[j + 1..m].copy_from_slice(&column[j + 1..m]);
        tau
    };
    v[j] = T::one();
    (v, tau)
}

impl<T: Number> Qr<'_, T> {
    #[inline(always)]
    fn run<const R: usize>(self) {
        let Qr { m, n, a, tau } = self;
        let mut columns = load::<T, R>(m, a);
        for (j, tau) in tau.iter_mut().enumerate().take(m.min(n)) {
            let (done, rest) = columns[..n].split_at_mut(j + 1);
            let (v, factor) = reflector::<T, R>(j, m, &mut done[j]);
            *tau = factor;
            for column in rest {
                let by = product(&v, column) * factor.conjugate();
                subtract(column, &v, by);
            }
            done[j][j + 1..m].copy_from_slice(&v[j + 1..m]);
        }
        store(m, &columns, a);
    }
}

/// The first `n` columns of the product of reflectors, in place of them.
pub fn reflectors_to_matrix<T: Number>(m: usize, a: &mut [T], tau: &[T]) {
    Arch::new().dispatch(Product { m, a, tau });
}

struct Product<'a, T> {
    m: usize,
    a: &'a mut [T],
    tau: &'a [T],
}

impl<T: Number> NullaryFnOnce for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        if self.m <= 8 { self.run::<8>() } else { self.run::<16>() }
    }
}

impl<T: Number> Product<'_, T> {
    #[inline(always)]
    fn run<const R: usize>(self) {
        let Product { m, a, tau } = self;
        let n = a.len() / m;
        let mut columns = load::<T, R>(m, a);
        for (j, column) in columns[..n].iter_mut().enumerate().skip(tau.len()) {
            *column = [T::zero(); R];
            column[j] = T::one();
        }
        for (j, &factor) in tau.iter().enumerate().rev() {
            let (before, rest) = columns[..n].split_at_mut(j + 1);
            let mut v = before[j];
            v.iter_mut().take(j).for_each(|x| *x = T::zero());
            v[j] = T::one();
            for column in rest {
                let by = product(&v, column) * factor;
                subtract(column, &v, by);
            }
            // The unit vector, which this reflector is the first to see.
            let column = &mut before[j];
            *column = [T::zero(); R];
            column[j] = T::one();
            subtract(column, &v, factor);
        }
        store(m, &columns, a);
    }
}
