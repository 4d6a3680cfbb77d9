//! Solutions of linear systems from factors: triangular, LU and LDL.

use crate::Kernel;
use crate::array::outline;
use crate::matrix::{Matrix, Number, batch, by_number, read_matrices, read_vectors, write_matrices};
use flambeau::value::take;
use flambeau::{Error, Op, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] =
    &[("linalg_solve_triangular", triangular), ("linalg_lu_solve", lu), ("linalg_ldl_solve", ldl)];

/// The solution of `a x = b` by substitution, one triangle of `a` being read; with `unit` its diagonal holds ones.
fn substituted<T: Number>(a: &Matrix<T>, mut b: Matrix<T>, upper: bool, unit: bool) -> Matrix<T> {
    let n = a.rows;
    for step in 0..n {
        let i = if upper { n - 1 - step } else { step };
        let known = if upper { i + 1..n } else { 0..i };
        for column in 0..b.columns {
            let sum = known.clone().fold(b[(i, column)], |s: T, k| s.minus(a[(i, k)].times(b[(k, column)])));
            b[(i, column)] = if unit { sum } else { sum.over(a[(i, i)]) };
        }
    }
    b
}

fn flag(op: &'static Op, args: &[Value<'_>], i: usize, default: bool) -> Result<bool> {
    Ok(take::<Option<bool>>(op, args, i)?.unwrap_or(default))
}

fn triangular(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (a, b): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let (upper, left, unit) = (flag(op, args, 2, false)?, flag(op, args, 3, true)?, flag(op, args, 4, false)?);
    let out = outline(op, args)?.remove(0);
    by_number!(out.dtype(), T => {
        let pairs = read_matrices::<T>(a, batch(&out))?.into_iter().zip(read_matrices::<T>(b, batch(&out))?);
        // `x a = b` is `a^T x^T = b^T`.
        let solve = |(a, b): (Matrix<T>, Matrix<T>)| match left {
            true => substituted(&a, b, upper, unit),
            false => substituted(&a.transpose(), b.transpose(), !upper, unit).transpose(),
        };
        write_matrices(&out, &pairs.map(solve).collect::<Vec<_>>()).map(Outputs::from)
    })
}

/// With `A = P L U`, where P makes the pivots' exchanges from the last to the first.
fn lu_solution<T: Number>(lu: &Matrix<T>, pivots: &[i64], mut b: Matrix<T>, adjoint: bool) -> Matrix<T> {
    let exchanges = pivots.iter().map(|p| *p as usize - 1).enumerate();
    if adjoint {
        let b = substituted(&lu.adjoint(), b, false, false);
        let mut b = substituted(&lu.adjoint(), b, true, true);
        exchanges.rev().for_each(|(i, p)| b.swap_rows(i, p));
        return b;
    }
    exchanges.for_each(|(i, p)| b.swap_rows(i, p));
    substituted(lu, substituted(lu, b, false, true), true, false)
}

fn lu(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (packed, pivots, b): (&Tensor, &Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?, take(op, args, 2)?);
    let (left, adjoint) = (flag(op, args, 3, true)?, flag(op, args, 4, false)?);
    let out = outline(op, args)?.remove(0);
    let pivots = read_vectors::<i64>(pivots, batch(&out))?;
    if pivots.iter().any(|all| all.iter().any(|p| *p < 1 || *p as usize > all.len())) {
        return Err(Error::runtime(
            "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of \
             lu_factor?",
        ));
    }
    by_number!(out.dtype(), T => {
        let factors = read_matrices::<T>(packed, batch(&out))?;
        let mut found = vec![];
        for ((lu, pivots), b) in factors.iter().zip(&pivots).zip(read_matrices::<T>(b, batch(&out))?) {
            // `x A = b` is `A^H x^H = b^H`.
            found.push(match left {
                true => lu_solution(lu, pivots, b, adjoint),
                false => lu_solution(lu, pivots, b.adjoint(), !adjoint).adjoint(),
            });
        }
        write_matrices(&out, &found).map(Outputs::from)
    })
}

/// With `A = L D L^T` (or `L^H`) in LAPACK's form, where L is a product of exchanges of rows and of columns, block by
/// block.
fn ldl_solution<T: Number>(ld: &Matrix<T>, pivots: &[i64], mut b: Matrix<T>, hermitian: bool) -> Matrix<T> {
    let n = ld.rows;
    let turned = |x: T| if hermitian { x.conjugate() } else { x };
    // Where blocks begin, how long they are, and which row was exchanged with their last.
    let mut blocks = vec![];
    let mut at = 0;
    while at < n {
        let size = if pivots[at] < 0 && at + 1 < n { 2 } else { 1 };
        blocks.push((at, size, pivots[at].unsigned_abs() as usize - 1));
        at += size;
    }
    for &(k, size, with) in &blocks {
        b.swap_rows(k + size - 1, with);
        for column in 0..b.columns {
            for i in k + size..n {
                for j in k..k + size {
                    b[(i, column)] = b[(i, column)].minus(ld[(i, j)].times(b[(j, column)]));
                }
            }
        }
    }
    for &(k, size, _) in &blocks {
        let d = |i: usize| if hermitian { T::from_real(ld[(i, i)].real()) } else { ld[(i, i)] };
        for column in 0..b.columns {
            if size == 1 {
                b[(k, column)] = b[(k, column)].over(d(k));
                continue;
            }
            let (d11, d21, d22) = (d(k), ld[(k + 1, k)], d(k + 1));
            let determinant = d11.times(d22).minus(d21.times(turned(d21)));
            let (x, y) = (b[(k, column)], b[(k + 1, column)]);
            b[(k, column)] = d22.times(x).minus(turned(d21).times(y)).over(determinant);
            b[(k + 1, column)] = d11.times(y).minus(d21.times(x)).over(determinant);
        }
    }
    for &(k, size, with) in blocks.iter().rev() {
        for column in 0..b.columns {
            for j in k..k + size {
                for i in k + size..n {
                    b[(j, column)] = b[(j, column)].minus(turned(ld[(i, j)]).times(b[(i, column)]));
                }
            }
        }
        b.swap_rows(k + size - 1, with);
    }
    b
}

fn ldl(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (factors, pivots, b): (&Tensor, &Tensor, &Tensor) =
        (take(op, args, 0)?, take(op, args, 1)?, take(op, args, 2)?);
    let hermitian = flag(op, args, 3, false)?;
    let out = outline(op, args)?.remove(0);
    let pivots = read_vectors::<i64>(pivots, batch(&out))?;
    if pivots.iter().any(|all| all.iter().any(|p| *p == 0 || p.unsigned_abs() as usize > all.len())) {
        return Err(Error::runtime(
            "torch.linalg.ldl_solve: the pivots must be places of rows, as linalg.ldl_factor gives them",
        ));
    }
    by_number!(out.dtype(), T => {
        let factors = read_matrices::<T>(factors, batch(&out))?;
        let sides = read_matrices::<T>(b, batch(&out))?;
        let solve = |((ld, pivots), b): ((&Matrix<T>, &Vec<i64>), Matrix<T>)| ldl_solution(ld, pivots, b, hermitian);
        write_matrices(&out, &factors.iter().zip(&pivots).zip(sides).map(solve).collect::<Vec<_>>()).map(Outputs::from)
    })
}
