//! Products of matrices, and of vectors of three elements.

use crate::Kernel;
use crate::array::{Arithmetic, Array, Kind, by_kind, outline, sizes_of, wrap, write};
use crate::lines::lines;
use flambeau::value::take;
use flambeau::{Element, Op, Outputs, Result, Scalar, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("mm", matrices),
    ("_int_mm", matrices),
    ("bmm", matrices),
    ("addmm", sum_of_products),
    ("baddbmm", sum_of_products),
    ("linalg_cross", cross),
];

fn matrices(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let out = outline(op, args)?.remove(0);
    by_kind!(Kind::of(out.dtype()), T => {
        write(&out, &products::<T>(take(op, args, 0)?, take(op, args, 1)?)?).map(Outputs::from)
    })
}

/// `beta` times the first operand and `alpha` times the product of the others; without `beta` the first is not read.
fn sum_of_products(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let out = outline(op, args)?.remove(0);
    let number = |i: usize| take::<Option<Scalar>>(op, args, i).map(|s| s.unwrap_or(Scalar::Int(1)));
    let (beta, alpha) = (number(3)?, number(4)?);
    by_kind!(Kind::of(out.dtype()), T => {
        let (beta, alpha) = (T::from_scalar(beta), T::from_scalar(alpha));
        let mut results = products::<T>(take(op, args, 1)?, take(op, args, 2)?)?;
        for (r, added) in results.iter_mut().zip(Array::<T>::read_as(take(op, args, 0)?, out.sizes())?.data) {
            *r = r.times(alpha);
            if beta != T::zero() {
                *r = r.plus(added.times(beta));
            }
        }
        write(&out, &results).map(Outputs::from)
    })
}

/// Products of matrices, each at the same place in two batches.
fn products<T: Arithmetic>(x: &Tensor, y: &Tensor) -> Result<Vec<T>> {
    let (x, y) = (Array::<T>::read(x)?, Array::<T>::read(y)?);
    let n = x.sizes.len();
    let (rows, inner, columns) = (x.sizes[n - 2], x.sizes[n - 1], y.sizes[n - 1]);
    let batches: usize = x.sizes[..n - 2].iter().product();
    let mut results = Vec::with_capacity(batches * rows * columns);
    for b in 0..batches {
        for i in 0..rows {
            for j in 0..columns {
                let mut total = T::zero();
                for k in 0..inner {
                    total = total.plus(x.data[(b * rows + i) * inner + k].times(y.data[(b * inner + k) * columns + j]));
                }
                results.push(total);
            }
        }
    }
    Ok(results)
}

/// Element `i` of `x * y` is `x[i + 1] y[i + 2] - x[i + 2] y[i + 1]`, the indices going around.
fn cross(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, y): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let out = outline(op, args)?.remove(0);
    let dim = wrap(take::<Option<i64>>(op, args, 2)?.unwrap_or(-1), &out)?;
    by_kind!(Kind::of(out.dtype()), T => {
        let (x, y) = (Array::<T>::read_as(x, out.sizes())?.data, Array::<T>::read_as(y, out.sizes())?.data);
        let mut results = x.clone();
        for line in lines(&sizes_of(&out), dim) {
            for i in 0..3 {
                let (a, b) = (line[(i + 1) % 3], line[(i + 2) % 3]);
                results[line[i]] = x[a].times(y[b]).plus(x[b].times(y[a]).times(T::from_f64(-1.0)));
            }
        }
        write(&out, &results).map(Outputs::from)
    })
}
