//! Discrete Fourier transforms by their definition: every result is a sum over all elements.

use crate::Kernel;
use crate::array::{Array, indices, outline, place, sizes_of, wrap, write};
use crate::lines::lines;
use flambeau::value::take;
use flambeau::{Complex64, Op, Outputs, Result, Tensor, Value};
use std::f64::consts::TAU;

pub(crate) const KERNELS: &[(&str, Kernel)] =
    &[("_fft_c2c", complex), ("_fft_r2c", real_to_complex), ("_fft_c2r", complex_to_real)];

/// `exp(i 2 pi k / n)`, or with the other sign.
fn root(k: usize, n: usize, forward: bool) -> Complex64 {
    let angle = TAU * (k % n) as f64 / n as f64;
    Complex64::from_polar(1.0, if forward { -angle } else { angle })
}

/// The transform of a line.
fn transformed(line: &[Complex64], forward: bool) -> Vec<Complex64> {
    let n = line.len();
    (0..n).map(|k| line.iter().enumerate().map(|(j, x)| x * root(j * k, n, forward)).sum()).collect()
}

/// Transforms an array along some dims, one after the other.
fn transform(x: &mut Array<Complex64>, over: &[usize], forward: bool) {
    for &d in over {
        for line in lines(&x.sizes, d) {
            let values: Vec<Complex64> = line.iter().map(|at| x.data[*at]).collect();
            line.iter().zip(transformed(&values, forward)).for_each(|(at, y)| x.data[*at] = y);
        }
    }
}

/// The factor of a transform of so many elements.
fn factor(normalization: i64, count: usize) -> f64 {
    match normalization {
        0 => 1.0,
        1 => 1.0 / (count as f64).sqrt(),
        _ => 1.0 / count as f64,
    }
}

/// The transformed dims, from the front.
fn dims(op: &'static Op, args: &[Value<'_>]) -> Result<Vec<usize>> {
    let x: &Tensor = take(op, args, 0)?;
    take::<&[i64]>(op, args, 1)?.iter().map(|d| wrap(*d, x)).collect()
}

fn complex(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let out = outline(op, args)?.remove(0);
    let (over, forward) = (dims(op, args)?, take(op, args, 3)?);
    let mut x = Array::<Complex64>::read(take(op, args, 0)?)?;
    transform(&mut x, &over, forward);
    let scale = factor(take(op, args, 2)?, over.iter().map(|d| x.sizes[*d]).product());
    write(&out, &x.data.iter().map(|y| y * scale).collect::<Vec<_>>()).map(Outputs::from)
}

/// The transform of complex numbers, of which with `onesided` only the first half along the last dim is kept.
fn real_to_complex(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let out = outline(op, args)?.remove(0);
    let over = dims(op, args)?;
    let mut x = Array::<Complex64>::read(take(op, args, 0)?)?;
    transform(&mut x, &over, true);
    let scale = factor(take(op, args, 2)?, over.iter().map(|d| x.sizes[*d]).product());
    let kept = indices(&sizes_of(&out)).into_iter().map(|index| x.data[place(&x.sizes, &index)] * scale);
    write(&out, &kept.collect::<Vec<_>>()).map(Outputs::from)
}

/// The transform whose results are real because the other half along the last dim would be conjugates of the first.
/// What would have to be real there is taken to be.
fn complex_to_real(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let out = outline(op, args)?.remove(0);
    let mut over = dims(op, args)?;
    let Some(last) = over.pop() else { return write(&out, &[] as &[f64]).map(Outputs::from) };
    let mut x = Array::<Complex64>::read(take(op, args, 0)?)?;
    transform(&mut x, &over, false);
    let sizes = sizes_of(&out);
    let (n, whole) = (sizes[last], over.iter().map(|d| sizes[*d]).product::<usize>());
    let scale = factor(take(op, args, 2)?, whole * n);
    let mut results = vec![0.0; sizes.iter().product()];
    for (from, to) in lines(&x.sizes, last).iter().zip(lines(&sizes, last)) {
        // Element `n - k` is the conjugate of element `k`, so that the first and the middle one are their own.
        let element = |k: usize| match (k == 0 || 2 * k == n, 2 * k < n) {
            (true, _) => x.data[from[k]].re.into(),
            (_, true) => x.data[from[k]],
            _ => x.data[from[n - k]].conj(),
        };
        let line: Vec<Complex64> = (0..n).map(element).collect();
        to.iter().zip(transformed(&line, false)).for_each(|(at, y)| results[*at] = y.re * scale);
    }
    write(&out, &results).map(Outputs::from)
}
