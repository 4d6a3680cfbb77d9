//! Householder reflections, one by one, in LAPACK's form: `H = I - tau v v^H`, where `v` has zeros above its place, a
//! one there, and below what is stored below the diagonal.

use crate::Kernel;
use crate::array::{Arithmetic, outline, write};
use crate::matrix::{Matrix, Number, batch, by_number, inner, length, read_matrices, read_vectors, write_matrices};
use flambeau::value::take;
use flambeau::{Op, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] =
    &[("geqrf", geqrf), ("linalg_householder_product", product), ("ormqr", applied), ("linalg_qr", qr)];

/// The reflection `j` of those that are stored in the columns of a matrix.
fn stored<T: Number>(a: &Matrix<T>, j: usize) -> Vec<T> {
    let element = |i: usize| match i.cmp(&j) {
        std::cmp::Ordering::Less => T::zero(),
        std::cmp::Ordering::Equal => T::one(),
        std::cmp::Ordering::Greater => a[(i, j)],
    };
    (0..a.rows).map(element).collect()
}

/// `(I - tau v v^H) c`.
fn reflect<T: Number>(c: &mut Matrix<T>, v: &[T], tau: T) {
    for j in 0..c.columns {
        let column = c.column(j);
        let share = tau.times(inner(v, &column));
        let reflected: Vec<T> = column.iter().zip(v).map(|(x, v)| x.minus(share.times(*v))).collect();
        c.set_column(j, &reflected);
    }
}

/// R and the reflections below it, and their factors: `H_k^H ... H_1^H a = R`. Each makes a column a multiple of a unit
/// vector, of the other sign than the element that was there. (Golub and Van Loan, "Matrix computations", 5.2.)
fn reflections<T: Number>(mut a: Matrix<T>) -> (Matrix<T>, Vec<T>) {
    let mut taus = vec![];
    for j in 0..a.rows.min(a.columns) {
        let column = a.column(j);
        let (first, below) = (column[j], &column[j + 1..]);
        if length(below) == 0.0 && first == T::from_real(first.real()) {
            taus.push(T::zero());
            continue;
        }
        let size = length(&column[j..]);
        let beta = T::from_real(if first.real() < 0.0 { size } else { -size });
        let tau = beta.minus(first).over(beta);
        for i in j + 1..a.rows {
            a[(i, j)] = a[(i, j)].over(first.minus(beta));
        }
        let v = stored(&a, j);
        let mut rest = Matrix::new(a.rows, a.columns - j - 1, |i, k| a[(i, j + 1 + k)]);
        reflect(&mut rest, &v, tau.conjugate());
        (0..rest.columns).for_each(|k| a.set_column(j + 1 + k, &rest.column(k)));
        a[(j, j)] = beta;
        taus.push(tau);
    }
    (a, taus)
}

/// `H_1 ... H_k c`, or `H_k^H ... H_1^H c`.
fn times<T: Number>(a: &Matrix<T>, taus: &[T], mut c: Matrix<T>, adjoint: bool) -> Matrix<T> {
    match adjoint {
        false => (0..taus.len()).rev().for_each(|j| reflect(&mut c, &stored(a, j), taus[j])),
        true => (0..taus.len()).for_each(|j| reflect(&mut c, &stored(a, j), taus[j].conjugate())),
    }
    c
}

fn geqrf(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let outs = outline(op, args)?;
    by_number!(x.dtype(), T => {
        let found = read_matrices::<T>(x, batch(x))?.into_iter().map(reflections);
        let (matrices, taus): (Vec<_>, Vec<_>) = found.unzip();
        Ok(vec![write_matrices(&outs[0], &matrices)?, write(&outs[1], &taus.concat())?].into())
    })
}

fn product(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, taus): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let out = outline(op, args)?.remove(0);
    by_number!(x.dtype(), T => {
        let pairs = read_matrices::<T>(x, batch(x))?.into_iter().zip(read_vectors::<T>(taus, batch(x))?);
        let unit = |a: &Matrix<T>| Matrix::identity(a.rows, a.columns);
        let first_columns = |(a, taus): (Matrix<T>, Vec<T>)| times(&a, &taus, unit(&a), false);
        write_matrices(&out, &pairs.map(first_columns).collect::<Vec<_>>()).map(Outputs::from)
    })
}

fn applied(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, taus, c): (&Tensor, &Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?, take(op, args, 2)?);
    let left = take::<Option<bool>>(op, args, 3)?.unwrap_or(true);
    let adjoint = take::<Option<bool>>(op, args, 4)?.unwrap_or(false);
    let out = outline(op, args)?.remove(0);
    by_number!(x.dtype(), T => {
        let pairs = read_matrices::<T>(x, batch(x))?.into_iter().zip(read_vectors::<T>(taus, batch(x))?);
        // `c Q` is the adjoint of `Q^H c^H`.
        let apply = |((a, taus), c): ((Matrix<T>, Vec<T>), Matrix<T>)| match left {
            true => times(&a, &taus, c, adjoint),
            false => times(&a, &taus, c.adjoint(), !adjoint).adjoint(),
        };
        write_matrices(&out, &pairs.zip(read_matrices::<T>(c, batch(c))?).map(apply).collect::<Vec<_>>())
            .map(Outputs::from)
    })
}

fn qr(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, mode): (&Tensor, &str) = (take(op, args, 0)?, take::<Option<&str>>(op, args, 1)?.unwrap_or("reduced"));
    let outs = outline(op, args)?;
    // How many columns Q has, and rows R.
    let size = outs[1].sizes()[outs[1].dim() - 2] as usize;
    by_number!(x.dtype(), T => {
        let (mut qs, mut rs) = (vec![], vec![]);
        for a in read_matrices::<T>(x, batch(x))? {
            let (packed, taus) = reflections(a);
            let above = |i: usize, j: usize| if i <= j { packed[(i, j)] } else { T::zero() };
            rs.push(Matrix::new(size, packed.columns, above));
            if mode != "r" {
                qs.push(times(&packed, &taus, Matrix::identity(packed.rows, size), false));
            }
        }
        Ok(vec![write_matrices(&outs[0], &qs)?, write_matrices(&outs[1], &rs)?].into())
    })
}
