//! Eigenvectors of symmetric tridiagonal matrices by divide and conquer (J. J. M. Cuppen, "A divide and conquer method for the
//! symmetric tridiagonal eigenproblem", 1981; M. Gu and S. C. Eisenstat, "A divide-and-conquer algorithm for the symmetric
//! tridiagonal eigenproblem", 1995). Small blocks by implicit QL.

use crate::secular::{self, Poles};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use flambeau_base::parallel::parallel_for;
use pulp::{Arch, NullaryFnOnce};
use std::sync::Mutex;

/// Up to this order rotations are faster than halves.
const LEAF: usize = 24;
/// Sweeps per eigenvalue before it is given up; two are common.
const SWEEPS: usize = 40;
/// Elements beside the diagonal below this are taken for 0, for a norm of 1: their squares may be out of range.
const FLOOR: f64 = 1e-150;
/// Columns in one piece of parallel work.
const COLUMNS: usize = 64;
/// Half of the root of 2.
const COSINE: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// The eigenvalues, ascending, in place of the `diagonal`, and their vectors, one column each; `beside` (one shorter) is
/// overwritten. `false` if an element is not finite or an eigenvalue was not found: then nothing here is of use.
pub fn eigenvectors(diagonal: &mut [f64], beside: &mut [f64], vectors: &mut [f64]) -> bool {
    let n = diagonal.len();
    vectors.fill(0.0);
    let norm = diagonal.iter().chain(beside.iter()).fold(0.0, |most: f64, x| most.max(x.abs()));
    if !diagonal.iter().chain(beside.iter()).all(|x| x.is_finite()) {
        return false;
    }
    if norm == 0.0 {
        (0..n).for_each(|i| vectors[i * n + i] = 1.0);
        return true;
    }
    diagonal.iter_mut().chain(beside.iter_mut()).for_each(|x| *x /= norm);
    let mut room = Room::new(if n > LEAF { n } else { 0 });
    let found = divide(diagonal, beside, vectors, n, &mut room);
    diagonal.iter_mut().for_each(|x| *x *= norm);
    found && diagonal.iter().all(|x| x.is_finite())
}

/// Memory that every merge uses again.
struct Room {
    /// The columns that take part, in the order of their kinds.
    columns: Vec<f64>,
    /// What they are multiplied by.
    factors: Vec<f64>,
    product: Vec<f64>,
}

impl Room {
    fn new(n: usize) -> Room {
        let square = || vec![0.0; n * n];
        Room { columns: square(), factors: square(), product: square() }
    }
}

/// Eigenvalues in place of `d`, vectors in columns of `q` that are `stride` apart and hold zeros.
fn divide(d: &mut [f64], e: &mut [f64], q: &mut [f64], stride: usize, room: &mut Room) -> bool {
    let n = d.len();
    if n <= LEAF {
        (0..n).for_each(|i| q[i * stride + i] = 1.0);
        return Arch::new().dispatch(Leaf { d, e, q, stride });
    }
    let half = n / 2;
    let link = e[half - 1];
    d[half - 1] -= link.abs();
    d[half] -= link.abs();
    let ((d0, d1), (e0, e1)) = (d.split_at_mut(half), e.split_at_mut(half));
    let found = divide(d0, &mut e0[..half - 1], q, stride, room)
        && divide(d1, e1, &mut q[half * stride + half..], stride, room);
    if found {
        merge(d, link, q, stride, room);
    }
    found
}

/// Where a column has elements other than 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Top,
    Both,
    Bottom,
}

/// Joins the halves: their eigenvalues and `2 |link|` times the square of a vector of length 1.
fn merge(d: &mut [f64], link: f64, q: &mut [f64], stride: usize, room: &mut Room) {
    let (n, half) = (d.len(), d.len() / 2);
    let sign = COSINE.copysign(link);
    let mut z: Vec<f64> = (0..n)
        .map(|j| if j < half { COSINE * q[j * stride + half - 1] } else { sign * q[j * stride + half] })
        .collect();
    let rho = 2.0 * link.abs();
    let mut kinds: Vec<Kind> = (0..n).map(|j| if j < half { Kind::Top } else { Kind::Bottom }).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[i].total_cmp(&d[j]));
    let (kept, deflated) = deflate(d, &mut z, rho, q, stride, &order, &mut kinds);
    let k = kept.len();
    let poles = Poles { d: kept.iter().map(|&i| d[i]).collect(), z: kept.iter().map(|&i| z[i]).collect(), rho };
    // By kinds, so that zeros are not multiplied.
    let mut by_kind: Vec<usize> = (0..k).collect();
    by_kind.sort_by_key(|&i| kinds[kept[i]]);
    let count = |kind: Kind| kept.iter().filter(|&&i| kinds[i] == kind).count();
    let (top, both) = (count(Kind::Top), count(Kind::Both));
    let mut values = vec![0.0; k];
    secular::solve(&poles, &by_kind, &mut values, &mut room.factors[..k * k], &mut room.product[..k * k]);
    for (&i, column) in by_kind.iter().zip(room.columns.chunks_exact_mut(n)) {
        column.copy_from_slice(&q[kept[i] * stride..][..n]);
    }
    if k > 0 {
        let columns = MatRef::from_column_major_slice(&room.columns[..n * k], n, k);
        let factors = MatRef::from_column_major_slice(&room.factors[..k * k], k, k);
        let parts: Vec<_> = room.product[..n * k].chunks_mut(n * COLUMNS).map(Mutex::new).collect();
        parallel_for(parts.len(), 1, &|range| {
            for part in range {
                let mut product = parts[part].lock().unwrap_or_else(|e| e.into_inner());
                let width = product.len() / n;
                let (upper, lower) = MatMut::from_column_major_slice_mut(&mut product, n, width).split_at_row_mut(half);
                let factors = factors.subcols(part * COLUMNS, width);
                let (first, second) = (columns.subrows(0, half), columns.subrows(half, n - half));
                let (left, right) = (first.subcols(0, top + both), second.subcols(top, k - top));
                matmul(upper, Accum::Replace, left, factors.subrows(0, top + both), 1.0, Par::Seq);
                matmul(lower, Accum::Replace, right, factors.subrows(top, k - top), 1.0, Par::Seq);
            }
        });
    }
    // What did not take part goes to the end of the columns that did.
    for (&i, column) in deflated.iter().zip(room.columns.chunks_exact_mut(n)) {
        column.copy_from_slice(&q[i * stride..][..n]);
    }
    let mut all: Vec<(f64, &[f64])> = values.iter().copied().zip(room.product.chunks_exact(n)).collect();
    all.extend(deflated.iter().map(|&i| d[i]).zip(room.columns.chunks_exact(n)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (j, (value, column)) in all.into_iter().enumerate() {
        d[j] = value;
        q[j * stride..][..n].copy_from_slice(column);
    }
}

/// Finds columns that are eigenvectors of the whole already, or are after a rotation with a neighbour of nearly the same
/// eigenvalue. Gives the others in ascending order, and these.
fn deflate(
    d: &mut [f64],
    z: &mut [f64],
    rho: f64,
    q: &mut [f64],
    stride: usize,
    order: &[usize],
    kinds: &mut [Kind],
) -> (Vec<usize>, Vec<usize>) {
    let n = d.len();
    let largest = d.iter().chain(z.iter()).fold(0.0, |most: f64, x| most.max(x.abs()));
    let limit = 4.0 * f64::EPSILON * largest;
    let (mut kept, mut deflated): (Vec<usize>, Vec<usize>) = (Vec::with_capacity(n), Vec::new());
    for &j in order {
        if rho * z[j].abs() <= limit {
            deflated.push(j);
            continue;
        }
        if let Some(&i) = kept.last() {
            let length = z[i].hypot(z[j]);
            let (cosine, sine) = (z[j] / length, z[i] / length);
            if ((d[j] - d[i]) * cosine * sine).abs() <= limit {
                // A rotation takes all of the vector to the second.
                z[j] = length;
                let (left, right) = q.split_at_mut(i.max(j) * stride);
                let (low, high) = (&mut left[i.min(j) * stride..][..n], &mut right[..n]);
                let (x, y) = if i < j { (low, high) } else { (high, low) };
                for (x, y) in x.iter_mut().zip(y) {
                    (*x, *y) = (cosine * *x - sine * *y, cosine * *y + sine * *x);
                }
                let (a, b) = (d[i], d[j]);
                (d[i], d[j]) = (a * cosine * cosine + b * sine * sine, a * sine * sine + b * cosine * cosine);
                if kinds[i] != kinds[j] {
                    (kinds[i], kinds[j]) = (Kind::Both, Kind::Both);
                }
                kept.pop();
                deflated.push(i);
            }
        }
        kept.push(j);
    }
    (kept, deflated)
}

/// The arguments of implicit QL; a type, so that its loops are compiled for each set of vector instructions.
struct Leaf<'a> {
    d: &'a mut [f64],
    e: &'a mut [f64],
    q: &'a mut [f64],
    stride: usize,
}

impl NullaryFnOnce for Leaf<'_> {
    type Output = bool;

    #[inline(always)]
    fn call(self) -> bool {
        let Leaf { d, e, q, stride } = self;
        let n = d.len();
        let mut sweeps = SWEEPS * n;
        for first in 0..n {
            loop {
                let negligible =
                    |i: &usize| e[*i].abs() <= (0.5 * f64::EPSILON * (d[*i].abs() + d[i + 1].abs())).max(FLOOR);
                let last = (first..n - 1).find(negligible).unwrap_or(n - 1);
                if last == first {
                    break;
                }
                if sweeps == 0 {
                    return false;
                }
                sweeps -= 1;
                sweep(d, e, q, stride, first, last);
            }
        }
        for i in 0..n {
            let least = (i..n).min_by(|&a, &b| d[a].total_cmp(&d[b])).unwrap_or(i);
            if least != i {
                d.swap(i, least);
                let (left, right) = q.split_at_mut(least * stride);
                left[i * stride..][..n].swap_with_slice(&mut right[..n]);
            }
        }
        true
    }
}

/// One step of QL with Wilkinson's shift on the block `first..=last`, with its rotations applied to columns of `q`.
#[inline(always)]
fn sweep(d: &mut [f64], e: &mut [f64], q: &mut [f64], stride: usize, first: usize, last: usize) {
    let n = d.len();
    let half = (d[first + 1] - d[first]) / (2.0 * e[first]);
    let mut g = d[last] - d[first] + e[first] / (half + half.hypot(1.0).copysign(half));
    let (mut cosine, mut sine, mut moved) = (1.0, 1.0, 0.0);
    for i in (first..last).rev() {
        let (f, b) = (sine * e[i], cosine * e[i]);
        let length = (f * f + g * g).sqrt();
        if i + 1 < last {
            e[i + 1] = length;
        }
        if length == 0.0 {
            // The block falls apart here.
            d[i + 1] -= moved;
            return;
        }
        (sine, cosine) = (f / length, g / length);
        g = d[i + 1] - moved;
        let turned = (d[i] - g) * sine + 2.0 * cosine * b;
        moved = sine * turned;
        d[i + 1] = g + moved;
        g = cosine * turned - b;
        let (left, right) = q.split_at_mut((i + 1) * stride);
        for (x, y) in left[i * stride..][..n].iter_mut().zip(&mut right[..n]) {
            (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
        }
    }
    d[first] -= moved;
    e[first] = g;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(d: &[f64], e: &[f64]) {
        let n = d.len();
        let (mut values, mut rest, mut q) = (d.to_vec(), e.to_vec(), vec![0.0; n * n]);
        assert!(eigenvectors(&mut values, &mut rest, &mut q));
        assert!(values.is_sorted());
        let norm = d.iter().chain(e).fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
        let limit = 1e-15 * n as f64 + 1e-15;
        for (j, x) in q.chunks_exact(n).enumerate() {
            for i in 0..n {
                let above = if i > 0 { e[i - 1] * x[i - 1] } else { 0.0 };
                let below = if i + 1 < n { e[i] * x[i + 1] } else { 0.0 };
                let residual = (above + d[i] * x[i] + below - values[j] * x[i]) / norm;
                assert!(residual.abs() < limit, "vector {j} of {n}: {residual:e}");
            }
            for (k, y) in q.chunks_exact(n).enumerate() {
                let product: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
                assert!((product - f64::from(k == j)).abs() < limit, "{j} and {k} of {n}: {product:e}");
            }
        }
    }

    #[test]
    fn vectors_are_orthogonal_and_belong_to_their_values() {
        let mut seed = 1u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        for n in [1, 2, 3, 24, 25, 49, 50, 97, 150] {
            check(&vec![0.0; n], &vec![0.0; n - 1]);
            check(&vec![2.0; n], &vec![-1.0; n - 1]);
            check(&vec![1.0; n], &vec![1e-17; n - 1]);
            let distance: Vec<f64> = (0..n).map(|i| (i as f64 - (n / 2) as f64).abs()).collect();
            check(&distance, &vec![1.0; n - 1]);
            let glued: Vec<f64> = (1..n).map(|i| if i % 5 == 0 { 1e-9 } else { 1.0 }).collect();
            check(&(0..n).map(|i| (i % 5) as f64).collect::<Vec<_>>(), &glued);
            for power in [0, 20, 200] {
                let mut some =
                    |n: usize| (0..n).map(|_| next() * 10f64.powf(next() * power as f64)).collect::<Vec<_>>();
                check(&some(n), &some(n - 1));
            }
        }
    }

    #[test]
    fn what_is_not_finite_is_refused() {
        assert!(!eigenvectors(&mut [1.0, f64::NAN], &mut [1.0], &mut [0.0; 4]));
    }
}
