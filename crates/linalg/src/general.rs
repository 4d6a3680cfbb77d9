//! Eigenvalues and eigenvectors of general real matrices of moderate order: reflectors to Hessenberg form, Francis's doubly
//! shifted QR steps, and back substitution (G. H. Golub and C. F. Van Loan, "Matrix Computations", sections 7.4 to 7.6; the test
//! for what is negligible is that of M. Ahues and F. Tisseur, "A new deflation criterion for the QR algorithm", 1997).
//! Blocked algorithms with many shifts pay off from larger orders on.

use crate::{Number, householder};
use num_complex::Complex;
use num_traits::Zero;
use pulp::{Arch, NullaryFnOnce};

/// The largest order, without and with vectors.
pub const MOST: [usize; 2] = [128, 64];
/// Columns are filled up to a multiple of this length, so that no loop has a remainder.
const LANES: usize = 8;
/// Steps per eigenvalue before it is given up; two or three are common.
const STEPS: usize = 40;
/// The size from which on a vector is divided by it before it grows out of range.
const LARGE: f64 = 1e120;

/// Eigenvalues of a matrix, conjugate pairs one after the other, that with the positive imaginary part first; and
/// eigenvectors if wanted, of a pair the real and the imaginary part in two columns. `false` if they were not found. Squares
/// of the elements must be in range.
pub fn eigen(n: usize, a: &[f64], re: &mut [f64], im: &mut [f64], vectors: Option<&mut [f64]>) -> bool {
    Arch::new().dispatch(Eigen { n, a, re, im, vectors })
}

/// The arguments of [`eigen`]; a type, so that its loops are compiled for each set of vector instructions.
struct Eigen<'a> {
    n: usize,
    a: &'a [f64],
    re: &'a mut [f64],
    im: &'a mut [f64],
    vectors: Option<&'a mut [f64]>,
}

impl NullaryFnOnce for Eigen<'_> {
    type Output = bool;

    #[inline(always)]
    fn call(self) -> bool {
        let Eigen { n, a, re, im, vectors } = self;
        let rows = n.next_multiple_of(LANES);
        let matrix = || vec![0.0; rows * n];
        let mut h = Matrix { rows, data: matrix() };
        for (to, from) in h.data.chunks_exact_mut(rows).zip(a.chunks_exact(n)) {
            to[..n].copy_from_slice(from);
        }
        let Some(vectors) = vectors else {
            h.reduce(n, None);
            return schur(n, &mut h, None, re, im);
        };
        let mut q = Matrix { rows, data: matrix() };
        (0..n).for_each(|i| q.data[i * rows + i] = 1.0);
        h.reduce(n, Some(&mut q));
        if !schur(n, &mut h, Some(&mut q), re, im) {
            return false;
        }
        back_substitute(n, &h, &q, re, im, vectors);
        true
    }
}

/// Columns `rows` apart; what is beyond the matrix is 0.
struct Matrix {
    rows: usize,
    data: Vec<f64>,
}

/// `x += y * by` for whole groups of lanes.
#[inline(always)]
fn add(x: &mut [f64], y: &[f64], by: f64) {
    for (x, y) in x.as_chunks_mut::<LANES>().0.iter_mut().zip(y.as_chunks::<LANES>().0) {
        for (x, &y) in x.iter_mut().zip(y) {
            *x += y * by;
        }
    }
}

/// The sum of products of whole groups of lanes.
#[inline(always)]
fn product(x: &[f64], y: &[f64]) -> f64 {
    let mut parts = [0.0; LANES];
    for (x, y) in x.as_chunks::<LANES>().0.iter().zip(y.as_chunks::<LANES>().0) {
        for ((part, &x), &y) in parts.iter_mut().zip(x).zip(y) {
            *part += x * y;
        }
    }
    let [a, b, c, d, e, f, g, h] = parts;
    ((a + e) + (b + f)) + ((c + g) + (d + h))
}

impl Matrix {
    #[inline(always)]
    fn at(&self, i: usize, j: usize) -> f64 {
        self.data[j * self.rows + i]
    }

    #[inline(always)]
    fn set(&mut self, i: usize, j: usize, x: f64) {
        self.data[j * self.rows + i] = x;
    }

    /// The elements of column `j` above row `end`.
    #[inline(always)]
    fn above(&self, end: usize, j: usize) -> &[f64] {
        &self.data[j * self.rows..j * self.rows + end]
    }

    /// Times `1 - tau v v^T` from the right, where `v` is 0 before column `first`.
    #[inline(always)]
    fn reflect_from_right(&mut self, first: usize, v: &[f64], tau: f64, room: &mut [f64]) {
        room.fill(0.0);
        for (column, &by) in self.data.chunks_exact(self.rows).zip(v).skip(first) {
            add(room, column, by);
        }
        for (column, &by) in self.data.chunks_exact_mut(self.rows).zip(v).skip(first) {
            add(column, room, -tau * by);
        }
    }

    /// To Hessenberg form, by reflectors that `q` is multiplied by.
    #[inline(always)]
    fn reduce(&mut self, n: usize, mut q: Option<&mut Matrix>) {
        let rows = self.rows;
        let mut room = vec![0.0; 2 * rows];
        let (v, room) = room.split_at_mut(rows);
        for k in 0..n.saturating_sub(2) {
            let column = &mut self.data[k * rows..k * rows + n];
            let tau = householder::reflector(&mut column[k + 1..]);
            v.fill(0.0);
            v[k + 1] = 1.0;
            v[k + 2..n].copy_from_slice(&column[k + 2..]);
            column[k + 2..].fill(0.0);
            if tau == 0.0 {
                continue;
            }
            let start = (k + 1) / LANES * LANES;
            for column in self.data.chunks_exact_mut(rows).skip(k + 1) {
                let by = product(&v[start..], &column[start..]) * tau;
                add(&mut column[start..], &v[start..], -by);
            }
            self.reflect_from_right(k + 1, v, tau, room);
            if let Some(q) = q.as_deref_mut() {
                q.reflect_from_right(k + 1, v, tau, room);
            }
        }
    }

    /// Rows `k..k + 3` of columns `from..to` times the reflector `1 - tau v v^T` with `v[0] = 1`.
    #[inline(always)]
    fn reflect_rows(&mut self, k: usize, from: usize, to: usize, v: [f64; 2], tau: f64) {
        for column in self.data.chunks_exact_mut(self.rows).take(to).skip(from) {
            if let [x, y, z] = &mut column[k..k + 3] {
                let by = (*x + v[0] * *y + v[1] * *z) * tau;
                *x -= by;
                *y -= by * v[0];
                *z -= by * v[1];
            }
        }
    }

    /// Columns `k..k + 3`, the groups of lanes of rows `from..to`, times the same.
    #[inline(always)]
    fn reflect_columns(&mut self, k: usize, from: usize, to: usize, v: [f64; 2], tau: f64) {
        let rows = self.rows;
        let (from, to) = (from / LANES * LANES, to.next_multiple_of(LANES).min(rows));
        let (x, rest) = self.data[k * rows..(k + 3) * rows].split_at_mut(rows);
        let (y, z) = rest.split_at_mut(rows);
        let parts = [x, y, z].map(|column| column[from..to].as_chunks_mut::<LANES>().0);
        let [x, y, z] = parts;
        for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
            for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
                let by = (*x + v[0] * *y + v[1] * *z) * tau;
                *x -= by;
                *y -= by * v[0];
                *z -= by * v[1];
            }
        }
    }

    /// The same for two rows and columns.
    #[inline(always)]
    fn reflect_two_rows(&mut self, k: usize, from: usize, to: usize, v: f64, tau: f64) {
        for column in self.data.chunks_exact_mut(self.rows).take(to).skip(from) {
            if let [x, y] = &mut column[k..k + 2] {
                let by = (*x + v * *y) * tau;
                *x -= by;
                *y -= by * v;
            }
        }
    }

    #[inline(always)]
    fn reflect_two_columns(&mut self, k: usize, from: usize, to: usize, v: f64, tau: f64) {
        let rows = self.rows;
        let (from, to) = (from / LANES * LANES, to.next_multiple_of(LANES).min(rows));
        let (x, y) = self.data[k * rows..(k + 2) * rows].split_at_mut(rows);
        let [x, y] = [x, y].map(|column| column[from..to].as_chunks_mut::<LANES>().0);
        for (x, y) in x.iter_mut().zip(y) {
            for (x, y) in x.iter_mut().zip(y) {
                let by = (*x + v * *y) * tau;
                *x -= by;
                *y -= by * v;
            }
        }
    }

    /// Whether the element left of the diagonal in row `k` may be taken for 0.
    #[inline(always)]
    fn is_negligible(&self, k: usize, end: usize) -> bool {
        let least = f64::MIN_POSITIVE / f64::EPSILON;
        let (below, above) = (self.at(k, k - 1).abs(), self.at(k - 1, k).abs());
        let (before, here) = (self.at(k - 1, k - 1), self.at(k, k));
        let mut sum = before.abs() + here.abs();
        if sum == 0.0 {
            let left = if k >= 2 { self.at(k - 1, k - 2).abs() } else { 0.0 };
            sum = left + if k + 1 < end { self.at(k + 1, k).abs() } else { 0.0 };
        }
        if below > f64::EPSILON * sum && below > least {
            return false;
        }
        let (large, small) = (below.max(above), below.min(above));
        let (a, b) = (here.abs(), (before - here).abs());
        let (a, b) = (a.max(b), a.min(b));
        let s = a + large;
        below <= least || small * (large / s) <= least.max(f64::EPSILON * (b * (a / s)))
    }
}

/// The reflector that takes `x` to a multiple of the first unit vector: that multiple, the rest of the reflector, and tau.
#[inline(always)]
fn reflector(x: [f64; 3]) -> (f64, [f64; 2], f64) {
    let mut sum = x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
    let (mut scale, mut x) = (1.0, x);
    if !(1e-250..1e250).contains(&sum) {
        scale = x[0].abs().max(x[1].abs()).max(x[2].abs());
        if scale == 0.0 {
            return (0.0, [0.0; 2], 0.0);
        }
        x = x.map(|x| x / scale);
        sum = x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
    }
    let beta = -sum.sqrt().copysign(x[0]);
    let inverse = 1.0 / (x[0] - beta);
    (beta * scale, [x[1] * inverse, x[2] * inverse], (beta - x[0]) / beta)
}

/// Eigenvalues of a Hessenberg matrix; with `q`, it becomes quasi-triangular, and the columns of `q` turn with it.
#[inline(always)]
fn schur(n: usize, h: &mut Matrix, mut q: Option<&mut Matrix>, re: &mut [f64], im: &mut [f64]) -> bool {
    let whole = q.is_some();
    let (mut end, mut steps, mut left) = (n, 0, STEPS * n);
    while end > 0 {
        let start = (1..end).rev().find(|&k| h.is_negligible(k, end)).unwrap_or(0);
        if start > 0 {
            h.set(start, start - 1, 0.0);
        }
        match end - start {
            1 => (re[start], im[start]) = (h.at(start, start), 0.0),
            2 => pair(n, h, q.as_deref_mut(), start, re, im),
            _ if left == 0 => return false,
            _ => {
                steps += 1;
                left -= 1;
                let (first, last) = if whole { (0, n) } else { (start, end) };
                step(h, q.as_deref_mut(), (start, end), (first, last), steps);
                continue;
            }
        }
        (end, steps) = (start, 0);
    }
    re.iter().chain(im.iter()).all(|x| x.is_finite())
}

/// One doubly shifted step on the block `start..end`; rows from `first` on and columns up to `last` take part.
#[inline(always)]
fn step(
    h: &mut Matrix,
    mut q: Option<&mut Matrix>,
    (start, end): (usize, usize),
    (first, last): (usize, usize),
    steps: usize,
) {
    let (i, j) = (end - 2, end - 1);
    // The shifts are the eigenvalues of [a b; c d].
    let (mut a, mut d) = (h.at(i, i), h.at(j, j));
    let mut bc = h.at(i, j) * h.at(j, i);
    if steps.is_multiple_of(10) {
        // Others, where these go in circles.
        let size = h.at(j, i).abs() + if i > start { h.at(i, i - 1).abs() } else { 0.0 };
        a = 0.75 * size + if steps.is_multiple_of(20) { h.at(start, start) } else { d };
        (d, bc) = (a, -0.4375 * size * size);
    }
    // The first place where the step may begin: two small elements in a row hide what is before.
    let mut from = end - 3;
    let mut x: [f64; 3];
    loop {
        let (here, next) = (h.at(from, from), h.at(from + 1, from + 1));
        let below = h.at(from + 1, from);
        let (r, s) = (a - here, d - here);
        x = [(r * s - bc) / below + h.at(from, from + 1), next - here - r - s, h.at(from + 2, from + 1)];
        let size = x[0].abs() + x[1].abs() + x[2].abs();
        x = x.map(|x| x / size);
        if from == start {
            break;
        }
        let neighbours = h.at(from - 1, from - 1).abs() + here.abs() + next.abs();
        let hidden = h.at(from, from - 1).abs() * (x[1].abs() + x[2].abs());
        if hidden <= f64::EPSILON * x[0].abs() * neighbours {
            break;
        }
        from -= 1;
    }
    for k in from..end - 2 {
        if k > from {
            x = [h.at(k, k - 1), h.at(k + 1, k - 1), h.at(k + 2, k - 1)];
        }
        let (beta, v, tau) = reflector(x);
        if k > from {
            h.set(k, k - 1, beta);
            h.set(k + 1, k - 1, 0.0);
            h.set(k + 2, k - 1, 0.0);
        } else if k > start {
            let turned = h.at(k, k - 1) * (1.0 - tau);
            h.set(k, k - 1, turned);
        }
        h.reflect_rows(k, k, last, v, tau);
        h.reflect_columns(k, first, (k + 4).min(end), v, tau);
        if let Some(q) = q.as_deref_mut() {
            q.reflect_columns(k, 0, q.rows, v, tau);
        }
    }
    let k = end - 2;
    let (beta, v, tau) = reflector([h.at(k, k - 1), h.at(k + 1, k - 1), 0.0]);
    h.set(k, k - 1, beta);
    h.set(k + 1, k - 1, 0.0);
    h.reflect_two_rows(k, k, last, v[0], tau);
    h.reflect_two_columns(k, first, end, v[0], tau);
    if let Some(q) = q {
        q.reflect_two_columns(k, 0, q.rows, v[0], tau);
    }
}

/// The eigenvalues of the block of order 2 at `k`; with `q`, one that has real ones becomes triangular.
#[inline(always)]
fn pair(n: usize, h: &mut Matrix, q: Option<&mut Matrix>, k: usize, re: &mut [f64], im: &mut [f64]) {
    let (a, b, c, d) = (h.at(k, k), h.at(k, k + 1), h.at(k + 1, k), h.at(k + 1, k + 1));
    let half = 0.5 * (a - d);
    // The root of half^2 + b c, without squares out of range.
    let size = half.abs().max(b.abs()).max(c.abs());
    let inside = if size == 0.0 { 0.0 } else { (half / size) * (half / size) + (b / size) * (c / size) };
    let root = inside.abs().sqrt() * size;
    if inside < 0.0 {
        (re[k], re[k + 1]) = (d + half, d + half);
        (im[k], im[k + 1]) = (root, -root);
        return;
    }
    let far = half + root.copysign(half);
    let large = d + far;
    let small = if far == 0.0 { large } else { d - b * (c / far) };
    (re[k], re[k + 1], im[k], im[k + 1]) = (large, small, 0.0, 0.0);
    if let Some(q) = q {
        // The first column is to be the eigenvector of `large`, (far, c).
        if c != 0.0 {
            let (_, v, tau) = reflector([far, c, 0.0]);
            h.reflect_two_rows(k, k, n, v[0], tau);
            h.reflect_two_columns(k, 0, k + 2, v[0], tau);
            q.reflect_two_columns(k, 0, q.rows, v[0], tau);
        }
        h.set(k + 1, k, 0.0);
        h.set(k, k, large);
        h.set(k + 1, k + 1, small);
    }
}

/// Eigenvectors of a quasi-triangular matrix, times `q`.
#[inline(always)]
fn back_substitute(n: usize, t: &Matrix, q: &Matrix, re: &[f64], im: &[f64], vectors: &mut [f64]) {
    let rows = t.rows;
    let norm = t.data.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let least = (f64::EPSILON * norm).max(f64::MIN_POSITIVE / f64::EPSILON);
    let mut room = vec![0.0; 4 * rows];
    let (parts, sums) = room.split_at_mut(2 * rows);
    let (x, y) = parts.split_at_mut(rows);
    let mut k = n;
    while k > 0 {
        k -= 1;
        x.fill(0.0);
        y.fill(0.0);
        let pair = im[k] != 0.0;
        if pair {
            // (T - value) v = 0 for the value with the positive imaginary part, from the better of two rows.
            let value = Complex::new(re[k - 1], im[k - 1]);
            let (above, below) = (t.at(k - 1, k), t.at(k, k - 1));
            let (first, second) = match above.abs() > below.abs() {
                true => (Complex::new(1.0, 0.0), (value - t.at(k - 1, k - 1)) / above),
                false => ((value - t.at(k, k)) / below, Complex::new(1.0, 0.0)),
            };
            (x[k - 1], y[k - 1], x[k], y[k]) = (first.re, first.im, second.re, second.im);
            solve_complex(t, k - 1, value, least, x, y);
        } else {
            x[k] = 1.0;
            solve_real(t, k, re[k], im, least, x);
        }
        let count = 1 + pair as usize;
        for (part, target) in [&*x, &*y].into_iter().zip(vectors[(k + 1 - count) * n..].chunks_exact_mut(n)).take(count)
        {
            let sum = &mut sums[..rows];
            sum.fill(0.0);
            for (column, &by) in q.data.chunks_exact(rows).zip(part).take(k + 1) {
                add(sum, column, by);
            }
            target.copy_from_slice(&sum[..n]);
        }
        k -= pair as usize;
    }
}

/// Divides a vector that has grown large by its size.
#[inline(always)]
fn tame(size: f64, parts: &mut [&mut [f64]]) {
    if size > LARGE {
        parts.iter_mut().flat_map(|part| part.iter_mut()).for_each(|x| *x /= size);
    }
}

/// `x -= c * by` for as many elements as the first has.
#[inline(always)]
fn subtract(column: &[f64], x: &mut [f64], by: f64) {
    column.iter().zip(x).for_each(|(&c, x)| *x -= c * by);
}

/// Solves a system of two equations, `[a b; c d] x = r`, by elimination with the larger of `a` and `c`.
#[inline(always)]
fn solve_pair<T: Number>(
    [a, b, c, d]: [T; 4],
    [r, s]: [T; 2],
    guarded: impl Fn(T) -> T,
    size: impl Fn(T) -> f64,
) -> (T, T) {
    let ([a, b, r], [c, d, s]) = if size(a) < size(c) { ([c, d, s], [a, b, r]) } else { ([a, b, r], [c, d, s]) };
    let a = guarded(a);
    let by = c / a;
    let second = (s - r * by) / guarded(d - b * by);
    ((r - b * second) / a, second)
}

/// Solves `(T - value) x = 0` upwards from `x[k]`.
#[inline(always)]
fn solve_real(t: &Matrix, k: usize, value: f64, im: &[f64], least: f64, x: &mut [f64]) {
    let known = x[k];
    subtract(t.above(k, k), x, known);
    let mut i = k;
    while i > 0 {
        i -= 1;
        if im[i] == 0.0 {
            let gap = t.at(i, i) - value;
            x[i] /= if gap.abs() < least { least } else { gap };
            tame(x[i].abs(), &mut [&mut *x]);
            let by = x[i];
            subtract(t.above(i, i), x, by);
        } else {
            i -= 1;
            let (a, b, c, d) = (t.at(i, i) - value, t.at(i, i + 1), t.at(i + 1, i), t.at(i + 1, i + 1) - value);
            (x[i], x[i + 1]) =
                solve_pair([a, b, c, d], [x[i], x[i + 1]], |z| if z.abs() < least { least } else { z }, f64::abs);
            tame(x[i].abs().max(x[i + 1].abs()), &mut [&mut *x]);
            let (first, second) = (x[i], x[i + 1]);
            subtract(t.above(i, i), x, first);
            subtract(t.above(i, i + 1), x, second);
        }
    }
}

/// Solves `(T - value) (x + i y) = 0` upwards from elements `k` and `k + 1`.
#[inline(always)]
fn solve_complex(t: &Matrix, k: usize, value: Complex<f64>, least: f64, x: &mut [f64], y: &mut [f64]) {
    for j in [k, k + 1] {
        let (re, im) = (x[j], y[j]);
        subtract(t.above(k, j), x, re);
        subtract(t.above(k, j), y, im);
    }
    let guarded = |z: Complex<f64>, least: f64| if z.l1_norm() < least { Complex::new(least, 0.0) } else { z };
    let mut i = k;
    while i > 0 {
        i -= 1;
        let here = Complex::new(x[i], y[i]);
        if i == 0 || t.at(i, i - 1).is_zero() {
            let found = here / guarded(t.at(i, i) - value, least);
            (x[i], y[i]) = (found.re, found.im);
            tame(found.l1_norm(), &mut [&mut *x, &mut *y]);
            let (re, im) = (x[i], y[i]);
            subtract(t.above(i, i), x, re);
            subtract(t.above(i, i), y, im);
        } else {
            i -= 1;
            let above = Complex::new(x[i], y[i]);
            let (a, d) = (t.at(i, i) - value, t.at(i + 1, i + 1) - value);
            let (b, c) = (t.at(i, i + 1), t.at(i + 1, i));
            let matrix = [a, b.into(), c.into(), d];
            let (first, second) =
                solve_pair(matrix, [above, here], |z| guarded(z, least), |z: Complex<f64>| z.l1_norm());
            (x[i], y[i], x[i + 1], y[i + 1]) = (first.re, first.im, second.re, second.im);
            tame(first.l1_norm().max(second.l1_norm()), &mut [&mut *x, &mut *y]);
            for j in [i, i + 1] {
                let (re, im) = (x[j], y[j]);
                subtract(t.above(i, j), x, re);
                subtract(t.above(i, j), y, im);
            }
        }
    }
}
