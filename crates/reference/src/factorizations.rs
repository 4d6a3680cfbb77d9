//! Cholesky, LU and LDL factors, with the pivots that LAPACK takes.

use crate::Kernel;
use crate::array::{Arithmetic, Array, Kind, by_kind, outline, write};
use crate::matrix::{Matrix, Number, batch, by_number, raise, read_matrices, write_matrices};
use flambeau::value::take;
use flambeau::{Error, ErrorKind, Op, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("linalg_cholesky_ex", cholesky),
    ("linalg_lu_factor_ex", lu),
    ("lu_unpack", unpack),
    ("linalg_ldl_factor_ex", ldl),
];

// ---- cholesky -----------------------------------------------------------------------------------

/// The lower factor of a Hermitian matrix of which the lower triangle is read, column by column, and the order of the
/// first leading part that is not positive definite, or 0 (Golub and Van Loan, "Matrix computations", 4.2).
fn cholesky_of<T: Number>(a: &Matrix<T>) -> (Matrix<T>, i64) {
    let n = a.rows;
    let mut l = Matrix::new(n, n, |i, j| if i >= j { a[(i, j)] } else { T::zero() });
    for j in 0..n {
        for i in j..n {
            for k in 0..j {
                l[(i, j)] = l[(i, j)].minus(l[(i, k)].times(l[(j, k)].conjugate()));
            }
        }
        let square = l[(j, j)].real();
        // NaN is not positive either.
        if square.is_nan() || square <= 0.0 {
            return (l, j as i64 + 1);
        }
        l[(j, j)] = T::from_real(square.sqrt());
        for i in j + 1..n {
            l[(i, j)] = l[(i, j)].over(l[(j, j)]);
        }
    }
    (l, 0)
}

fn cholesky(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, upper): (&Tensor, bool) = (take(op, args, 0)?, take::<Option<bool>>(op, args, 1)?.unwrap_or(false));
    let outs = outline(op, args)?;
    by_number!(x.dtype(), T => {
        let (mut factors, mut reports) = (vec![], vec![]);
        for a in read_matrices::<T>(x, batch(x))? {
            let (factor, report) = cholesky_of(&if upper { a.adjoint() } else { a });
            factors.push(if upper { factor.adjoint() } else { factor });
            reports.push(report);
        }
        if take::<Option<bool>>(op, args, 2)?.unwrap_or(false) {
            raise("linalg.cholesky_ex", &reports, x.dim() > 2, ErrorKind::LinAlg, |i| {
                format!(
                    "The factorization could not be completed because the input is not positive-definite (the leading \
                     minor of order {i} is not positive-definite)."
                )
            })?;
        }
        Ok(vec![write_matrices(&outs[0], &factors)?, write(&outs[1], &reports)?].into())
    })
}

// ---- lu -----------------------------------------------------------------------------------------

/// L (below the diagonal) and U by Gaussian elimination with partial pivoting, the rows that were exchanged (from 1),
/// and the place of the first zero on U's diagonal, or 0 (Golub and Van Loan, "Matrix computations", 3.4).
fn lu_of<T: Number>(mut a: Matrix<T>) -> (Matrix<T>, Vec<i64>, i64) {
    let (mut pivots, mut report) = (vec![], 0);
    for j in 0..a.rows.min(a.columns) {
        let larger = |p: usize, i: usize| if a[(i, j)].rough_size() > a[(p, j)].rough_size() { i } else { p };
        let p = (j..a.rows).fold(j, larger);
        pivots.push(p as i64 + 1);
        if a[(p, j)] == T::zero() {
            report = if report == 0 { j as i64 + 1 } else { report };
            continue;
        }
        a.swap_rows(j, p);
        for i in j + 1..a.rows {
            a[(i, j)] = a[(i, j)].over(a[(j, j)]);
            for k in j + 1..a.columns {
                a[(i, k)] = a[(i, k)].minus(a[(i, j)].times(a[(j, k)]));
            }
        }
    }
    (a, pivots, report)
}

fn lu(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let outs = outline(op, args)?;
    by_number!(x.dtype(), T => {
        let (mut factors, mut pivots, mut reports) = (vec![], vec![], vec![]);
        for a in read_matrices::<T>(x, batch(x))? {
            let (packed, rows, report) = lu_of(a);
            factors.push(packed);
            pivots.extend(rows);
            reports.push(report);
        }
        if take::<Option<bool>>(op, args, 2)?.unwrap_or(false) {
            raise("torch.linalg.lu_factor_ex", &reports, x.dim() > 2, ErrorKind::Runtime, |i| {
                format!(
                    "U[{i},{i}] is zero and using it on lu_solve would result in a division by zero. If you still \
                     want to perform the factorization, consider calling linalg.lu(A, pivot) or \
                     linalg.lu_factor_ex(A, pivot)"
                )
            })?;
        }
        Ok(vec![write_matrices(&outs[0], &factors)?, write(&outs[1], &pivots)?, write(&outs[2], &reports)?].into())
    })
}

/// The rows of the identity after the exchanges that pivots say, in reverse: where each row of `L U` goes.
fn unpack(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, pivots): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let flag = |i: usize| take::<Option<bool>>(op, args, i).map(|f| f.unwrap_or(true));
    let (data, with_pivots): (bool, bool) = (flag(2)?, flag(3)?);
    let outs = outline(op, args)?;
    let n = x.dim();
    let (rows, columns) = (x.sizes()[n - 2] as usize, x.sizes()[n - 1] as usize);
    let (k, count) = (rows.min(columns), batch(x).iter().product::<i64>() as usize);
    let pivots = if with_pivots { Array::<i64>::read(pivots)?.data } else { vec![] };
    let mut permutations = vec![];
    for b in 0..if with_pivots { count } else { 0 } {
        let mut order: Vec<usize> = (0..rows).collect();
        for (i, &pivot) in pivots[b * k..(b + 1) * k].iter().enumerate() {
            if pivot < 1 || pivot as usize > rows {
                return Err(Error::runtime(
                    "torch.lu_unpack: the elements of LU_pivots must be between 1 and LU_data.size(-2) inclusive. Did \
                     you properly pass the result of torch.linalg.lu_factor?",
                ));
            }
            order.swap(i, pivot as usize - 1);
        }
        permutations.extend((0..rows * rows).map(|at| i64::from(order[at % rows] == at / rows)));
    }
    by_kind!(Kind::of(x.dtype()), T => {
        let (packed, mut lower, mut upper) = (Array::<T>::read(x)?.data, vec![], vec![]);
        for b in 0..if data { count } else { 0 } {
            let at = |i: usize, j: usize| packed[(b * rows + i) * columns + j];
            let below = |i: usize, j: usize| match i.cmp(&j) {
                std::cmp::Ordering::Greater => at(i, j),
                std::cmp::Ordering::Equal => T::one(),
                std::cmp::Ordering::Less => T::zero(),
            };
            lower.extend((0..rows * k).map(|p| below(p / k, p % k)));
            let above = |i: usize, j: usize| if i <= j { at(i, j) } else { T::zero() };
            upper.extend((0..k * columns).map(|p| above(p / columns, p % columns)));
        }
        Ok(vec![write(&outs[0], &permutations)?, write(&outs[1], &lower)?, write(&outs[2], &upper)?].into())
    })
}

// ---- ldl ----------------------------------------------------------------------------------------

/// The LDL factors of a symmetric or Hermitian matrix, of which the lower triangle is read, with blocks of one or two
/// on D's diagonal, in LAPACK's form: a pivot is the row (from 1) exchanged with the block's last, negative for a block
/// of two. Rows of columns that are done are not exchanged. (Bunch and Kaufman, "Some stable methods for calculating
/// inertia and solving symmetric linear systems", 1977.)
fn ldl_of<T: Number>(a: &Matrix<T>, hermitian: bool) -> (Matrix<T>, Vec<i64>, i64) {
    let n = a.rows;
    let alpha = (1.0 + 17f64.sqrt()) / 8.0;
    let turned = |x: T| if hermitian { x.conjugate() } else { x };
    let on_diagonal = |x: T| if hermitian { T::from_real(x.real()) } else { x };
    // The whole matrix, so that rows and columns are exchanged alike.
    let mut s = Matrix::new(n, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Greater => a[(i, j)],
        std::cmp::Ordering::Equal => on_diagonal(a[(i, i)]),
        std::cmp::Ordering::Less => turned(a[(j, i)]),
    });
    let mut factors = Matrix::new(n, n, |_, _| T::zero());
    let (mut pivots, mut report, mut k) = (vec![], 0, 0);
    while k < n {
        let size = |s: &Matrix<T>, i: usize| s[(i, i)].rough_size();
        // The first of the largest elements of a column from row `k` on, but for the diagonal.
        let largest = |s: &Matrix<T>, column: usize| {
            let better = |best: (usize, f64), i: usize| match s[(i, column)].rough_size() {
                size if size > best.1 && i != column => (i, size),
                _ => best,
            };
            (k..n).fold((column, 0.0), better)
        };
        let (row, below) = largest(&s, k);
        let mut block = 1;
        let mut with = k;
        let stuck = size(&s, k).max(below) == 0.0 || size(&s, k).is_nan();
        if stuck {
            report = if report == 0 { k as i64 + 1 } else { report };
        } else if size(&s, k) < alpha * below {
            let beside = largest(&s, row).1;
            if size(&s, k) >= alpha * below * (below / beside) {
                // The diagonal element will do.
            } else if size(&s, row) >= alpha * beside {
                with = row;
            } else {
                (with, block) = (row, 2);
            }
        }
        let last = k + block - 1;
        // Only what is not done yet: `factors` holds the rest.
        s.swap_rows(last, with);
        s.swap_columns(last, with);
        pivots.extend(vec![if block == 1 { with as i64 + 1 } else { -(with as i64) - 1 }; block]);
        let columns: Vec<Vec<T>> = (k..k + block).map(|j| s.column(j)).collect();
        if block == 1 {
            let d = s[(k, k)];
            factors[(k, k)] = d;
            for i in k + 1..n {
                factors[(i, k)] = if stuck { columns[0][i] } else { columns[0][i].over(d) };
            }
        } else {
            let (d11, d21, d22) = (s[(k, k)], s[(k + 1, k)], s[(k + 1, k + 1)]);
            (factors[(k, k)], factors[(k + 1, k)], factors[(k + 1, k + 1)]) = (d11, d21, d22);
            // The inverse of [d11, d12; d21, d22] from the right, d12 being d21 or its conjugate.
            let determinant = d11.times(d22).minus(d21.times(turned(d21)));
            for i in k + 2..n {
                let (x, y) = (columns[0][i], columns[1][i]);
                factors[(i, k)] = x.times(d22).minus(y.times(d21)).over(determinant);
                factors[(i, k + 1)] = y.times(d11).minus(x.times(turned(d21))).over(determinant);
            }
        }
        if !stuck {
            for i in k + block..n {
                for j in k + block..n {
                    for (b, column) in columns.iter().enumerate() {
                        s[(i, j)] = s[(i, j)].minus(factors[(i, k + b)].times(turned(column[j])));
                    }
                }
                s[(i, i)] = on_diagonal(s[(i, i)]);
            }
        }
        k += block;
    }
    (factors, pivots, report)
}

fn ldl(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, hermitian): (&Tensor, bool) = (take(op, args, 0)?, take::<Option<bool>>(op, args, 1)?.unwrap_or(false));
    let outs = outline(op, args)?;
    by_number!(x.dtype(), T => {
        let (mut factors, mut pivots, mut reports) = (vec![], vec![], vec![]);
        for a in read_matrices::<T>(x, batch(x))? {
            let (factor, rows, report) = ldl_of(&a, hermitian);
            factors.push(factor);
            pivots.extend(rows);
            reports.push(report);
        }
        if take::<Option<bool>>(op, args, 2)?.unwrap_or(false) {
            raise("torch.linalg.ldl_factor_ex", &reports, x.dim() > 2, ErrorKind::LinAlg, |i| {
                format!("The factorization was completed, but D[{i},{i}] is zero: a solution would divide by it.")
            })?;
        }
        Ok(vec![write_matrices(&outs[0], &factors)?, write(&outs[1], &pivots)?, write(&outs[2], &reports)?].into())
    })
}
