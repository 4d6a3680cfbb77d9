//! Singular values and vectors of matrices of numbers narrower than what is computed in, by way of the square of a bidiagonal
//! matrix: what that loses of small values and of the angles between their vectors, the narrower numbers do not have.

use crate::number::convert;
use crate::{Number, conquer, householder, plain, tridiagonal};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::matmul::matmul;
use faer::linalg::svd::bidiag;
use faer::{Accum, MatMut, MatRef, Par};
use num_traits::One;

/// From this order on the way by the square is shorter.
const LEAST: usize = 32;
/// Of the largest singular value: vectors of those below the first are made orthogonal to the others once more, and below
/// the second directions are not known.
const SMALL: (f64, f64) = (1e-3, 1e-7);

/// A bidiagonal matrix and the reflectors that lead to it, of a matrix with at least as many rows as columns.
struct Reduced<W> {
    rows: usize,
    order: usize,
    /// Column-major; reflectors from the left stand below the diagonal, those from the right beyond the one above it.
    data: Vec<W>,
    left: Vec<W>,
    /// The first is of no reflector.
    right: Vec<W>,
}

impl<W: Number> Reduced<W> {
    /// Of an `m * n` matrix, or of its transpose if that has more rows.
    fn new(m: usize, n: usize, a: &[W]) -> Reduced<W> {
        let (rows, order) = (m.max(n), m.min(n));
        let mut data = match m < n {
            true => (0..m).flat_map(|i| a[i..].iter().step_by(m).copied()).collect(),
            false => a.to_vec(),
        };
        let (mut left, mut right) = (vec![W::zero(); order], vec![W::zero(); order]);
        let scratch = bidiag::bidiag_in_place_scratch::<W>(rows, order, Par::Seq, Default::default());
        bidiag::bidiag_in_place(
            MatMut::from_column_major_slice_mut(&mut data, rows, order),
            MatMut::from_column_major_slice_mut(&mut left, 1, order),
            MatMut::from_column_major_slice_mut(&mut right[1..], 1, order - 1),
            Par::Seq,
            MemStack::new(&mut MemBuffer::new(scratch)),
            Default::default(),
        );
        Reduced { rows, order, data, left, right }
    }

    fn diagonal(&self, i: usize) -> W {
        self.data[i * self.rows + i]
    }

    /// The element right of the diagonal in row `i`; 0 in the last.
    fn above(&self, i: usize) -> W {
        if i + 1 < self.order { self.data[(i + 1) * self.rows + i] } else { W::zero() }
    }

    /// Multiplies columns in place by the reflectors from the left.
    fn apply_left<T: Number>(&self, columns: &mut [T]) {
        let v: Vec<T> = self.data.iter().map(|&x| convert(x)).collect();
        let count = columns.len() / self.rows;
        householder::apply(self.rows, count, &v, &factors(&self.left), true, false, columns);
    }

    /// Multiplies columns in place by the reflectors from the right.
    fn apply_right<T: Number>(&self, columns: &mut [T]) {
        let n = self.order;
        let mut v = vec![T::zero(); n * n];
        for i in 0..n - 1 {
            for j in i + 2..n {
                v[(i + 1) * n + j] = convert(self.data[j * self.rows + i].conjugate());
            }
        }
        householder::apply(n, columns.len() / n, &v, &factors(&self.right), true, false, columns);
    }
}

/// faer's factors are inverse.
fn factors<W: Number, T: Number>(given: &[W]) -> Vec<T> {
    let inverse = |x: f64| if x == 0.0 { 0.0 } else { 1.0 / x };
    given.iter().map(|x| T::from_parts(inverse(convert(x.re())), 0.0)).collect()
}

/// The singular values of an `m * n` matrix, descending. `false` if they were not found.
pub fn values<W: Number, R: Number<Part = R>>(m: usize, n: usize, a: &[W], s: &mut [R]) -> bool {
    // The squares of the bidiagonal matrix's elements.
    let (diagonal, above): (Vec<f64>, Vec<f64>) = if m.min(n) <= plain::MOST {
        plain::squares(m, n, a).into_iter().unzip()
    } else {
        let reduced = Reduced::new(m, n, a);
        let square = |x: W| -> f64 { convert(x.size_squared()) };
        (0..reduced.order).map(|i| (square(reduced.diagonal(i)), square(reduced.above(i)))).unzip()
    };
    let n = diagonal.len();
    let mut squares: Vec<f64> = (0..n).map(|i| diagonal[i] + if i > 0 { above[i - 1] } else { 0.0 }).collect();
    let mut beside: Vec<f64> = (1..n).map(|i| (diagonal[i - 1] * above[i - 1]).sqrt()).collect();
    // Roots want all the digits that there are.
    let found = tridiagonal::eigenvalues(&mut squares, &mut beside, 0.0);
    for (s, value) in s.iter_mut().zip(squares.iter().rev()) {
        *s = convert(value.max(0.0).sqrt());
    }
    found
}

/// Singular values and vectors, as `Field::svd`. `false` if another way must be gone: for small or long matrices, and where
/// directions are not known.
pub fn vectors<T: Number, W: Number>(
    m: usize,
    n: usize,
    a: &[W],
    s: &mut [T::Part],
    u: &mut [T],
    vh: &mut [T],
) -> bool {
    if m.min(n) < LEAST || m.max(n) > 2 * m.min(n) {
        return false;
    }
    let reduced = Reduced::new(m, n, a);
    let (rows, order) = (reduced.rows, reduced.order);
    let Some((values, first, second, phases)) = of_bidiagonal(&reduced) else { return false };
    s.iter_mut().zip(values).for_each(|(s, value)| *s = convert(value));
    // Of the matrix or of its transpose: then U is V conjugated, and the other way round.
    let turned = m < n;
    let wanted = if turned { vh.len() / n } else { u.len() / m };
    let mut left = vec![T::zero(); rows * wanted];
    for (j, to) in left.chunks_exact_mut(rows).enumerate() {
        match first.get(j * order..(j + 1) * order) {
            Some(own) => in_phase(own, phases.iter().map(|p| p.0), to),
            None => to[j] = T::one(),
        }
    }
    reduced.apply_left(&mut left);
    let mut right = vec![T::zero(); order * order];
    for (own, to) in second.chunks_exact(order).zip(right.chunks_exact_mut(order)) {
        in_phase(own, phases.iter().map(|p| p.1), to);
    }
    reduced.apply_right(&mut right);
    let rows_of = |columns: &[T], height: usize, to: &mut [T], change: fn(T) -> T| {
        let width = columns.len() / height;
        for (row, to) in to.chunks_exact_mut(width).enumerate() {
            to.iter_mut().zip(columns[row..].iter().step_by(height)).for_each(|(to, &x)| *to = change(x));
        }
    };
    if turned {
        u.iter_mut().zip(right).for_each(|(to, x)| *to = x.conjugate());
        rows_of(&left, rows, vh, |x| x);
    } else {
        u.copy_from_slice(&left);
        rows_of(&right, order, vh, T::conjugate);
    }
    true
}

/// Real numbers turned by phases.
fn in_phase<T: Number, W: Number>(own: &[f64], phases: impl Iterator<Item = W>, to: &mut [T]) {
    for ((to, &own), phase) in to.iter_mut().zip(own).zip(phases) {
        *to = convert(phase.scaled(convert(own)));
    }
}

type OfBidiagonal<W> = (Vec<f64>, Vec<f64>, Vec<f64>, Vec<(W, W)>);

/// The singular values of a bidiagonal matrix B, descending, the left and right vectors of the real one that it is but for
/// phases, and those from the left and the right.
fn of_bidiagonal<W: Number>(reduced: &Reduced<W>) -> Option<OfBidiagonal<W>> {
    let n = reduced.order;
    let one = <W as One>::one();
    let turn = |x: W| if x.is_zero() { one } else { x.scaled(<W::Part as One>::one() / x.size()) };
    let mut phases = vec![(one, one); n];
    for i in 0..n {
        phases[i].0 = turn(reduced.diagonal(i)) * phases[i].1;
        if i + 1 < n {
            phases[i + 1].1 = phases[i].0 * turn(reduced.above(i)).conjugate();
        }
    }
    let diagonal: Vec<f64> = (0..n).map(|i| convert(reduced.diagonal(i).size())).collect();
    let above: Vec<f64> = (0..n).map(|i| convert(reduced.above(i).size())).collect();
    // B^T B
    let mut squares: Vec<f64> =
        (0..n).map(|i| diagonal[i].powi(2) + if i > 0 { above[i - 1].powi(2) } else { 0.0 }).collect();
    let mut beside: Vec<f64> = (1..n).map(|i| diagonal[i - 1] * above[i - 1]).collect();
    let mut found = vec![0.0; n * n];
    if !conquer::eigenvectors(&mut squares, &mut beside, &mut found) {
        return None;
    }
    // The length of B v has more digits than the root of the eigenvalue.
    let images: Vec<f64> = found.chunks_exact(n).flat_map(|v| image(&diagonal, &above, v)).collect();
    let mut order: Vec<(f64, usize)> =
        images.chunks_exact(n).enumerate().map(|(j, y)| (y.iter().map(|x| x * x).sum::<f64>().sqrt(), j)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (largest, least) = (order[0].0, order[n - 1].0);
    if !largest.is_finite() || least <= SMALL.1 * largest {
        return None;
    }
    let (mut left, mut right) = (vec![0.0; n * n], vec![0.0; n * n]);
    for (j, &(value, from)) in order.iter().enumerate() {
        right[j * n..(j + 1) * n].copy_from_slice(&found[from * n..(from + 1) * n]);
        let (before, rest) = left.split_at_mut(j * n);
        let column = &mut rest[..n];
        column.iter_mut().zip(&images[from * n..]).for_each(|(to, x)| *to = x / value);
        if value < SMALL.0 * largest {
            make_orthogonal(before, column);
        }
    }
    Some((order.into_iter().map(|(value, _)| value).collect(), left, right, phases))
}

/// B times a vector.
fn image<'a>(diagonal: &'a [f64], above: &'a [f64], v: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    let next = v[1..].iter().chain(&[0.0]);
    diagonal.iter().zip(above).zip(v.iter().zip(next)).map(|((d, a), (v, next))| d * v + a * next)
}

/// Takes from a vector what it has of others, and gives it length 1 again. Twice, for the first time rounds.
fn make_orthogonal(others: &[f64], column: &mut [f64]) {
    let n = column.len();
    let count = others.len() / n;
    let others = MatRef::from_column_major_slice(others, n, count);
    let mut parts = vec![0.0; count];
    for _ in 0..2 {
        let target = MatMut::from_column_major_slice_mut(&mut parts, count, 1);
        let given = MatRef::from_column_major_slice(&*column, n, 1);
        matmul(target, Accum::Replace, others.transpose(), given, 1.0, Par::Seq);
        let found = MatRef::from_column_major_slice(&parts, count, 1);
        matmul(MatMut::from_column_major_slice_mut(column, n, 1), Accum::Add, others, found, -1.0, Par::Seq);
        let length = column.iter().map(|x| x * x).sum::<f64>().sqrt();
        column.iter_mut().for_each(|x| *x /= length);
    }
}
