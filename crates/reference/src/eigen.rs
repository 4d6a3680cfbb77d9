//! Eigenvalues and singular values: by Jacobi's rotations, and for general matrices by QR steps.
//!
//! Eigenvectors and singular vectors have a free phase (of real matrices a sign), and eigenvalues of general matrices
//! any order: other devices may choose otherwise.

use crate::Kernel;
use crate::array::{outline, write};
use crate::matrix::{Matrix, batch, inner, length, raise, read_matrices, write_matrices};
use flambeau::value::take;
use flambeau::{Complex64, Error, ErrorKind, Op, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] =
    &[("_linalg_eigh", eigh), ("_linalg_svd", svd), ("linalg_eig", eig), ("_linalg_eigvals", eig)];

type Complex = Matrix<Complex64>;

/// More rounds than any matrix takes.
const ROUNDS: usize = 200;

const ZERO: Complex64 = Complex64::new(0.0, 0.0);

// ---- rotations ----------------------------------------------------------------------------------

/// A unitary matrix of two rows and columns: the first row is `[c, s]`, the second `[-conj(s), c]`.
#[derive(Clone, Copy)]
struct Rotation {
    c: f64,
    s: Complex64,
}

impl Rotation {
    /// That which makes `J^H [p, x; conj(x), q] J` diagonal, by the smaller of the two angles (Golub and Van Loan,
    /// "Matrix computations", 8.5).
    fn diagonalizing(p: f64, q: f64, x: Complex64) -> Rotation {
        let ratio = (q - p) / (2.0 * x.norm());
        let t = ratio.signum() / (ratio.abs() + ratio.hypot(1.0));
        let c = 1.0 / t.hypot(1.0);
        Rotation { c, s: x / x.norm() * (t * c) }
    }

    /// Columns `p` and `q` of a matrix times it.
    fn turn_columns(self, a: &mut Complex, p: usize, q: usize) {
        for i in 0..a.rows {
            let (x, y) = (a[(i, p)], a[(i, q)]);
            (a[(i, p)], a[(i, q)]) = (x * self.c - y * self.s.conj(), x * self.s + y * self.c);
        }
    }

    /// Its adjoint times rows `p` and `q` of a matrix.
    fn turn_rows(self, a: &mut Complex, p: usize, q: usize) {
        for j in 0..a.columns {
            let (x, y) = (a[(p, j)], a[(q, j)]);
            (a[(p, j)], a[(q, j)]) = (x * self.c - y * self.s, x * self.s.conj() + y * self.c);
        }
    }
}

/// Every pair of numbers below `n`.
fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |p| (p + 1..n).map(move |q| (p, q)))
}

// ---- Hermitian matrices -------------------------------------------------------------------------

/// Eigenvalues in ascending order, and eigenvectors in columns (Jacobi, "Über ein leichtes Verfahren, die in der
/// Theorie der Säcularstörungen vorkommenden Gleichungen numerisch aufzulösen", 1846).
fn hermitian(mut a: Complex) -> (Vec<f64>, Complex) {
    let n = a.rows;
    let mut vectors = Complex::identity(n, n);
    for _ in 0..ROUNDS {
        let mut turned = false;
        for (p, q) in pairs(n) {
            let (x, d) = (a[(p, q)], (a[(p, p)].re.abs(), a[(q, q)].re.abs()));
            if x.norm() <= 1e-18 * d.0.max(d.1) || x == ZERO {
                continue;
            }
            let rotation = Rotation::diagonalizing(a[(p, p)].re, a[(q, q)].re, x);
            rotation.turn_columns(&mut a, p, q);
            rotation.turn_rows(&mut a, p, q);
            rotation.turn_columns(&mut vectors, p, q);
            turned = true;
        }
        if !turned {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| a[(*i, *i)].re.total_cmp(&a[(*j, *j)].re));
    (order.iter().map(|i| a[(*i, *i)].re).collect(), Matrix::new(n, n, |i, j| vectors[(i, order[j])]))
}

fn eigh(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, triangle): (&Tensor, &str) = (take(op, args, 0)?, take::<Option<&str>>(op, args, 1)?.unwrap_or("L"));
    let with_vectors = take::<Option<bool>>(op, args, 2)?.unwrap_or(true);
    let outs = outline(op, args)?;
    let upper = triangle.eq_ignore_ascii_case("U");
    let (mut values, mut vectors, mut reports) = (vec![], vec![], vec![]);
    for a in read_matrices::<Complex64>(x, batch(x))? {
        let read = |i: usize, j: usize| match (i == j, (i > j) != upper) {
            (true, _) => a[(i, i)].re.into(),
            (_, true) => a[(i, j)],
            _ => a[(j, i)].conj(),
        };
        let whole = Matrix::new(a.rows, a.columns, read);
        reports.push(if whole.is_finite() { 0 } else { a.rows as i64 - 1 });
        if whole.is_finite() {
            let (found, columns) = hermitian(whole);
            values.extend(found);
            vectors.push(columns);
        }
    }
    raise("linalg.eigh", &reports, x.dim() > 2, ErrorKind::LinAlg, |code| {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated \
             eigenvalues (error code: {code})."
        )
    })?;
    if !with_vectors {
        vectors.clear();
    }
    Ok(vec![write(&outs[0], &values)?, write_matrices(&outs[1], &vectors)?].into())
}

// ---- singular values ----------------------------------------------------------------------------

/// Makes a unit vector of what a vector has beside some orthonormal ones, if that is anything.
fn beside(mut x: Vec<Complex64>, others: &[Vec<Complex64>]) -> Option<Vec<Complex64>> {
    // Twice, for what rounding left.
    for _ in 0..2 {
        for other in others {
            let share = inner(other, &x);
            x.iter_mut().zip(other).for_each(|(x, y)| *x -= y * share);
        }
    }
    let size = length(&x);
    (size > 0.5 / (x.len() as f64).sqrt()).then(|| x.into_iter().map(|x| x / size).collect())
}

/// Singular values in descending order with as many columns of U as `whole` says, at least those of the values, and V's
/// square matrix, of a matrix with at least as many rows as columns: its columns are rotated until they are orthogonal
/// (Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958).
fn tall(mut a: Complex, whole: usize) -> (Complex, Vec<f64>, Complex) {
    let n = a.columns;
    let mut v = Complex::identity(n, n);
    for _ in 0..ROUNDS {
        let mut turned = false;
        for (p, q) in pairs(n) {
            let (x, y) = (a.column(p), a.column(q));
            let (product, sizes) = (inner(&x, &y), (length(&x), length(&y)));
            // What is less is rounding.
            if product.norm() <= f64::EPSILON * a.rows as f64 * sizes.0 * sizes.1 || product == ZERO {
                continue;
            }
            let rotation = Rotation::diagonalizing(sizes.0 * sizes.0, sizes.1 * sizes.1, product);
            rotation.turn_columns(&mut a, p, q);
            rotation.turn_columns(&mut v, p, q);
            turned = true;
        }
        if !turned {
            break;
        }
    }
    let sizes: Vec<f64> = (0..n).map(|j| length(&a.column(j))).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| sizes[*j].total_cmp(&sizes[*i]));
    // Columns of zeros, and those that a whole U has more, are any that are orthogonal to the others.
    let mut columns: Vec<Vec<Complex64>> = vec![];
    for &j in order.iter().filter(|j| sizes[**j] > 0.0) {
        columns.push(a.column(j).into_iter().map(|x| x / sizes[j]).collect());
    }
    for k in 0..a.rows {
        let unit = (0..a.rows).map(|i| if i == k { Complex64::new(1.0, 0.0) } else { ZERO }).collect();
        if columns.len() < whole {
            columns.extend(beside(unit, &columns));
        }
    }
    let u = Matrix::new(a.rows, whole, |i, j| columns.get(j).map_or(ZERO, |c| c[i]));
    (u, order.iter().map(|j| sizes[*j]).collect(), Matrix::new(n, n, |i, j| v[(i, order[j])]))
}

fn svd(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let full = take::<Option<bool>>(op, args, 1)?.unwrap_or(false);
    let with_vectors = take::<Option<bool>>(op, args, 2)?.unwrap_or(true);
    let outs = outline(op, args)?;
    let (mut us, mut values, mut vs, mut reports) = (vec![], vec![], vec![], vec![]);
    for a in read_matrices::<Complex64>(x, batch(x))? {
        reports.push(i64::from(!a.is_finite()));
        if !a.is_finite() {
            continue;
        }
        // The adjoint of a wide matrix is tall, and has U and V exchanged.
        let is_tall = a.rows >= a.columns;
        let a = if is_tall { a } else { a.adjoint() };
        let whole = if full { a.rows } else { a.columns };
        let (u, found, v) = tall(a, whole);
        values.extend(found);
        us.push(if is_tall { u.clone() } else { v.clone() });
        vs.push(if is_tall { v.adjoint() } else { u.adjoint() });
    }
    raise("linalg.svd", &reports, x.dim() > 2, ErrorKind::LinAlg, |_| {
        "The algorithm failed to converge because the input matrix contained non-finite values.".into()
    })?;
    if !with_vectors {
        (us, vs) = (vec![], vec![]);
    }
    Ok(vec![write_matrices(&outs[0], &us)?, write(&outs[1], &values)?, write_matrices(&outs[2], &vs)?].into())
}

// ---- general matrices ---------------------------------------------------------------------------

/// The rotation whose adjoint takes `(x, y)` to a multiple of `(1, 0)`.
fn annihilating(x: Complex64, y: Complex64) -> Rotation {
    let size = x.norm().hypot(y.norm());
    if x == ZERO {
        // `c` is real: the other row's phase is free.
        return Rotation { c: 0.0, s: -y.conj() / size };
    }
    Rotation { c: x.norm() / size, s: -(x / x.norm()) * y.conj() / size }
}

/// The eigenvalue of `[a, b; c, d]` that is nearer to `d` (Wilkinson's shift).
fn shift(a: Complex64, b: Complex64, c: Complex64, d: Complex64) -> Complex64 {
    let (middle, half) = ((a + d) / 2.0, (a - d) / 2.0);
    let root = (half * half + b * c).sqrt();
    let (x, y) = (middle + root, middle - root);
    if (x - d).norm() <= (y - d).norm() { x } else { y }
}

/// An upper triangular matrix `T` and a unitary `Q` with `a = Q T Q^H`: rotations make it zero below the first
/// subdiagonal, and QR steps with shifts the subdiagonal (Francis, "The QR transformation", 1961). `None` if that takes
/// too long.
fn schur(mut a: Complex) -> Option<(Complex, Complex)> {
    let n = a.rows;
    let mut q = Complex::identity(n, n);
    let turn = |a: &mut Complex, q: &mut Complex, rotation: Rotation, i: usize, j: usize| {
        rotation.turn_rows(a, i, j);
        rotation.turn_columns(a, i, j);
        rotation.turn_columns(q, i, j);
    };
    for j in 0..n.saturating_sub(2) {
        for i in j + 2..n {
            if a[(i, j)] != ZERO {
                let rotation = annihilating(a[(j + 1, j)], a[(i, j)]);
                turn(&mut a, &mut q, rotation, j + 1, i);
                a[(i, j)] = ZERO;
            }
        }
    }
    let mut end = n;
    let mut steps = 0;
    while end > 1 {
        // The block that ends there and has no zero on its subdiagonal.
        let negligible = |a: &Complex, i: usize| {
            a[(i, i - 1)].norm() <= f64::EPSILON * 0.5 * (a[(i, i)].norm() + a[(i - 1, i - 1)].norm())
        };
        let start = (1..end).rev().find(|i| negligible(&a, *i)).unwrap_or(0);
        if start > 0 {
            a[(start, start - 1)] = ZERO;
        }
        if start + 1 == end {
            (end, steps) = (end - 1, 0);
            continue;
        }
        steps += 1;
        if steps > ROUNDS {
            return None;
        }
        let last = end - 1;
        let by = match steps % 10 {
            // A matrix may be its own QR step: any other shift ends that.
            0 => a[(last, last)] + a[(last, last - 1)].norm(),
            _ => shift(a[(last - 1, last - 1)], a[(last - 1, last)], a[(last, last - 1)], a[(last, last)]),
        };
        // `a - by = Q R`, and the new matrix is `R Q + by`, one rotation following the other down the diagonal.
        let (mut x, mut y) = (a[(start, start)] - by, a[(start + 1, start)]);
        for i in start..last {
            if i > start {
                (x, y) = (a[(i, i - 1)], a[(i + 1, i - 1)]);
            }
            if y != ZERO || x != ZERO {
                turn(&mut a, &mut q, annihilating(x, y), i, i + 1);
            }
            if i > start {
                a[(i + 1, i - 1)] = ZERO;
            }
        }
    }
    Some((a, q))
}

/// The eigenvalues of any matrix, and eigenvectors of length one: those of the triangular matrix by substitution, each
/// with a one in its own place. The largest element of each is real.
fn general(a: Complex, is_real: bool) -> Option<(Vec<Complex64>, Complex)> {
    let n = a.rows;
    let (t, q) = schur(a)?;
    let norm = (0..n).flat_map(|j| t.column(j)).fold(0.0, |m: f64, x| m.max(x.norm()));
    let smallest = (norm * f64::EPSILON).max(f64::MIN_POSITIVE);
    let mut values: Vec<Complex64> = (0..n).map(|i| t[(i, i)]).collect();
    let mut vectors = Complex::identity(n, n);
    for j in 0..n {
        let mut x = vec![ZERO; n];
        x[j] = Complex64::new(1.0, 0.0);
        for i in (0..j).rev() {
            let sum: Complex64 = (i + 1..=j).map(|k| t[(i, k)] * x[k]).sum();
            let gap = t[(i, i)] - values[j];
            // Of equal eigenvalues the vectors may be equal, too.
            x[i] = -sum / if gap.norm() < smallest { smallest.into() } else { gap };
        }
        let mut column: Vec<Complex64> = (0..n).map(|i| (0..n).map(|k| q[(i, k)] * x[k]).sum()).collect();
        let size = length(&column);
        let largest = column.iter().fold(ZERO, |m, x| if x.norm() > m.norm() { *x } else { m });
        let phase = if largest == ZERO { Complex64::new(1.0, 0.0) } else { largest.conj() / largest.norm() };
        column.iter_mut().for_each(|x| *x = *x * phase / size);
        // Those of real matrices that are not one of a pair are real, but for rounding.
        let alone = is_real && values[j].im.abs() <= 1e-12 * norm.max(f64::MIN_POSITIVE);
        if alone {
            column.iter_mut().for_each(|x| x.im = 0.0);
        }
        vectors.set_column(j, &column);
        if alone {
            values[j].im = 0.0;
        }
    }
    Some((values, vectors))
}

fn eig(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let outs = outline(op, args)?;
    let (mut values, mut vectors, mut reports) = (vec![], vec![], vec![]);
    for a in read_matrices::<Complex64>(x, batch(x))? {
        if !a.is_finite() {
            return Err(Error::runtime("torch.linalg.eig: input tensor should not contain infs or NaNs."));
        }
        let found = general(a, !x.dtype().is_complex());
        reports.push(i64::from(found.is_none()));
        let (found, columns) = found.unwrap_or((vec![], Matrix::identity(0, 0)));
        values.extend(found);
        vectors.push(columns);
    }
    raise("linalg.eig", &reports, x.dim() > 2, ErrorKind::LinAlg, |code| {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated \
             eigenvalues (error code: {code})."
        )
    })?;
    let values = write(&outs[0], &values)?;
    match outs.get(1) {
        Some(out) => Ok(vec![values, write_matrices(out, &vectors)?].into()),
        None => Ok(values.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(all: [&Complex; 3]) -> Complex {
        let two = |a: &Complex, b: &Complex| {
            Matrix::new(a.rows, b.columns, |i, j| (0..a.columns).map(|k| a[(i, k)] * b[(k, j)]).sum())
        };
        two(&two(all[0], all[1]), all[2])
    }

    /// Numbers without a pattern.
    fn matrix(rows: usize, columns: usize, complex: bool) -> Complex {
        let number = |k: usize| ((k * 7919 + 13) % 101) as f64 / 50.0 - 1.0;
        let part = |k: usize| if complex { number(k + 57) } else { 0.0 };
        Matrix::new(rows, columns, |i, j| Complex64::new(number(i * columns + j), part(i * columns + j)))
    }

    fn largest_difference(a: &Complex, b: &Complex) -> f64 {
        let columns = (0..a.columns).flat_map(|j| a.column(j).into_iter().zip(b.column(j)));
        columns.map(|(x, y)| (x - y).norm()).fold(0.0, f64::max)
    }

    fn diagonal(values: &[Complex64], rows: usize, columns: usize) -> Complex {
        Matrix::new(rows, columns, |i, j| if i == j { values[i] } else { ZERO })
    }

    #[test]
    fn products_of_the_factors_are_the_matrix() {
        for (n, complex) in [(1, false), (2, false), (3, true), (5, false), (8, true), (12, false)] {
            let a = matrix(n, n, complex);
            let symmetric = Matrix::new(n, n, |i, j| (a[(i, j)] + a[(j, i)].conj()) / 2.0);
            let (values, v) = hermitian(symmetric.clone());
            let values: Vec<Complex64> = values.into_iter().map(Complex64::from).collect();
            let back = product([&v, &diagonal(&values, n, n), &v.adjoint()]);
            assert!(largest_difference(&back, &symmetric) < 1e-13 * n as f64, "hermitian {n}");
            let (values, v) = general(a.clone(), !complex).unwrap();
            let unit = Matrix::identity(n, n);
            let (left, right) = (product([&a, &v, &unit]), product([&v, &diagonal(&values, n, n), &unit]));
            assert!(largest_difference(&left, &right) < 1e-12 * n as f64, "general {n}");
            for columns in 1..=n {
                let a = matrix(n, columns, complex);
                let (u, values, v) = tall(a.clone(), n);
                let values: Vec<Complex64> = values.into_iter().map(Complex64::from).collect();
                let back = product([&u, &diagonal(&values, n, columns), &v.adjoint()]);
                assert!(largest_difference(&back, &a) < 1e-13 * n as f64, "tall {n} {columns}");
                let unit = product([&u.adjoint(), &u, &unit]);
                assert!(largest_difference(&unit, &Matrix::identity(n, n)) < 1e-13 * n as f64, "U {n} {columns}");
            }
        }
    }

    #[test]
    fn matrices_that_are_their_own_step_have_eigenvalues() {
        // A cyclic permutation: the roots of unity.
        let a = Matrix::new(4, 4, |i, j| Complex64::new(if (i + 1) % 4 == j { 1.0 } else { 0.0 }, 0.0));
        let (values, _) = general(a, true).unwrap();
        assert!(values.iter().all(|x| (x.norm() - 1.0).abs() < 1e-14), "{values:?}");
        let zero = Matrix::new(3, 3, |_, _| ZERO);
        assert_eq!(general(zero.clone(), true).unwrap().0, [ZERO; 3]);
        assert_eq!(tall(zero, 3).1, [0.0; 3]);
    }
}
