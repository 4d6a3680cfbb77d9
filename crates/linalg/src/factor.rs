//! Cholesky, LU and triangular solves: faer's, with LAPACK's pivots and `info`.

use crate::{Number, Triangle, small};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{LltError, cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::linalg::triangular_solve as triangular;
use faer::reborrow::ReborrowMut;
use faer::{Conj, MatMut, MatRef, Par};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use num_traits::{Float, One, Zero};
use std::sync::Mutex;

/// Below this order a plain loop is faster than the blocked algorithm's set-up.
const PLAIN: usize = 16;

/// From this order of a triangle on, the columns of its right side are shared out among threads: into so many parts, none of
/// them too narrow to be solved quickly.
const SHARED: usize = 128;
const PARTS: usize = 4;
const LEAST_COLUMNS: usize = 64;
const MOST_COLUMNS: usize = 128;

/// From this order on whole columns as vectors are faster than a plain loop.
const VECTORS: usize = 8;

pub fn cholesky<T: Number>(n: usize, a: &mut [T]) -> i32 {
    if n == 0 {
        return 0;
    }
    for i in 0..n {
        // The diagonal is meant to be real.
        a[i * n + i] = T::from_real(a[i * n + i].re());
    }
    if n <= PLAIN && FastPath::LinalgPlain.is_on() {
        return plain_cholesky(n, a);
    }
    let mut memory = MemBuffer::new(cholesky_in_place_scratch::<T>(n, Par::Seq, Default::default()));
    let result = cholesky_in_place(
        MatMut::from_column_major_slice_mut(a, n, n),
        Default::default(),
        Par::Seq,
        MemStack::new(&mut memory),
        Default::default(),
    );
    for j in 0..n {
        a[j * n..j * n + j].fill(T::zero());
        // Rounding does not leave the factor's diagonal real, where LAPACK's is.
        a[j * n + j] = T::from_real(a[j * n + j].re());
    }
    match result {
        Ok(_) => 0,
        Err(LltError::NonPositivePivot { index }) => index as i32 + 1,
    }
}

/// Column by column, each from those before it.
fn plain_cholesky<T: Number>(n: usize, a: &mut [T]) -> i32 {
    (1..n).for_each(|j| a[j * n..j * n + j].fill(T::zero()));
    for j in 0..n {
        let (before, here) = a.split_at_mut(j * n);
        let column = &mut here[j..n];
        for factor in before.chunks_exact(n) {
            let factor = &factor[j..];
            let times = factor[0].conjugate();
            column.iter_mut().zip(factor).for_each(|(x, &f)| *x -= f * times);
        }
        let pivot = column[0].re();
        if pivot.is_nan() || pivot <= T::Part::zero() {
            return j as i32 + 1;
        }
        let root = Float::sqrt(pivot);
        column[0] = T::from_real(root);
        column[1..].iter_mut().for_each(|x| *x = x.scaled(T::Part::one() / root));
    }
    0
}

pub fn lu<T: Number>(m: usize, n: usize, a: &mut [T], pivots: &mut [i32]) -> i32 {
    let k = m.min(n);
    if k >= VECTORS && small::is_small(m, n) {
        return small::lu(m, n, a, pivots);
    }
    if k <= PLAIN && FastPath::LinalgPlain.is_on() {
        return plain_lu(m, n, a, pivots);
    }
    let original = a.to_vec();
    let mut memory = MemBuffer::new(lu_in_place_scratch::<usize, T>(m, n, Par::Seq, Default::default()));
    let (mut order, mut inverse) = (vec![0usize; m], vec![0usize; m]);
    lu_in_place(
        MatMut::from_column_major_slice_mut(a, m, n),
        &mut order,
        &mut inverse,
        Par::Seq,
        MemStack::new(&mut memory),
        Default::default(),
    );
    // faer divides by a zero pivot; LAPACK leaves the column and goes on.
    if (0..k).any(|i| a[i * m + i].is_zero() || !a[i * m + i].is_regular()) {
        a.copy_from_slice(&original);
        return plain_lu(m, n, a, pivots);
    }
    swaps_of(&order, pivots);
    0
}

/// The swaps, row `i` with a later one each, that put row `order[i]` at place `i`.
fn swaps_of(order: &[usize], pivots: &mut [i32]) {
    let mut row_at: Vec<usize> = (0..order.len()).collect();
    let mut place_of = row_at.clone();
    for (i, pivot) in pivots.iter_mut().enumerate() {
        let p = place_of[order[i]];
        *pivot = p as i32 + 1;
        row_at.swap(i, p);
        place_of[row_at[i]] = i;
        place_of[row_at[p]] = p;
    }
}

/// Column by column (Golub and Van Loan, "Matrix Computations", algorithm 3.4.1).
fn plain_lu<T: Number>(m: usize, n: usize, a: &mut [T], pivots: &mut [i32]) -> i32 {
    let mut info = 0;
    for j in 0..m.min(n) {
        let column = &a[j * m..(j + 1) * m];
        let mut p = j;
        for i in j + 1..m {
            if column[i].rough_size() > column[p].rough_size() {
                p = i;
            }
        }
        pivots[j] = p as i32 + 1;
        let pivot = column[p];
        if pivot.is_zero() {
            info = if info == 0 { j as i32 + 1 } else { info };
        } else {
            if p != j {
                for column in a.chunks_exact_mut(m) {
                    column.swap(j, p);
                }
            }
            let inverse = T::one() / pivot;
            for x in &mut a[j * m + j + 1..(j + 1) * m] {
                *x *= inverse;
            }
        }
        let (done, rest) = a.split_at_mut((j + 1) * m);
        let column = &done[j * m + j + 1..];
        for other in rest.chunks_exact_mut(m) {
            let factor = other[j];
            if !factor.is_zero() {
                for (x, &l) in other[j + 1..].iter_mut().zip(column) {
                    *x -= l * factor;
                }
            }
        }
    }
    info
}

pub fn lu_solve<T: Number>(n: usize, k: usize, lu: &[T], pivots: &[i32], adjoint: bool, b: &mut [T]) {
    if n == 0 || k == 0 {
        return;
    }
    let lower = Triangle { upper: false, unit: true, adjoint };
    let upper = Triangle { upper: true, unit: false, adjoint };
    let swap = |b: &mut [T], i: usize| {
        let p = pivots[i] as usize - 1;
        if p != i {
            for column in b.chunks_exact_mut(n) {
                column.swap(i, p);
            }
        }
    };
    if adjoint {
        solve_triangular(n, k, lu, upper, true, b);
        solve_triangular(n, k, lu, lower, true, b);
        (0..n).rev().for_each(|i| swap(b, i));
    } else {
        (0..n).for_each(|i| swap(b, i));
        solve_triangular(n, k, lu, lower, true, b);
        solve_triangular(n, k, lu, upper, true, b);
    }
}

pub fn solve_triangular<T: Number>(n: usize, k: usize, a: &[T], triangle: Triangle, left: bool, b: &mut [T]) {
    if n == 0 || k == 0 {
        return;
    }
    let mut a = MatRef::from_column_major_slice(a, n, n);
    let Triangle { mut upper, unit, adjoint } = triangle;
    let b = match left {
        true => MatMut::from_column_major_slice_mut(b, n, k),
        // x A = b is A^T x^T = b^T.
        false => MatMut::from_column_major_slice_mut(b, k, n).transpose_mut(),
    };
    if adjoint == left {
        a = a.transpose();
        upper = !upper;
    }
    let conj = if adjoint { Conj::Yes } else { Conj::No };
    let solve = |b: MatMut<'_, T>| match (upper, unit) {
        (false, false) => triangular::solve_lower_triangular_in_place_with_conj(a, conj, b, Par::Seq),
        (false, true) => triangular::solve_unit_lower_triangular_in_place_with_conj(a, conj, b, Par::Seq),
        (true, false) => triangular::solve_upper_triangular_in_place_with_conj(a, conj, b, Par::Seq),
        (true, true) => triangular::solve_unit_upper_triangular_in_place_with_conj(a, conj, b, Par::Seq),
    };
    let part = (k / PARTS).clamp(LEAST_COLUMNS, MOST_COLUMNS);
    if n < SHARED || k <= part {
        return solve(b);
    }
    let (mut parts, mut rest) = (Vec::new(), b);
    while rest.ncols() > part {
        let (first, others) = rest.split_at_col_mut(part);
        parts.push(Mutex::new(first));
        rest = others;
    }
    parts.push(Mutex::new(rest));
    parallel_for(parts.len(), 1, &|range| {
        parts[range].iter().for_each(|part| solve(part.lock().unwrap_or_else(|e| e.into_inner()).rb_mut()));
    });
}
