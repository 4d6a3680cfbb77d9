//! Distances between rows by a p-norm, and their gradients.

use crate::Kernel;
use crate::array::{Array, outline, write};
use flambeau::value::take;
use flambeau::{Op, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("_cdist_forward", all_pairs),
    ("_cdist_backward", all_pairs_backward),
    ("_pdist_forward", own_pairs),
    ("_pdist_backward", own_pairs_backward),
];

/// `(sum |x - y|^p)^(1/p)`; for `p` 0 how many differ, for infinity the largest difference.
fn distance(x: &[f64], y: &[f64], p: f64) -> f64 {
    let sizes = x.iter().zip(y).map(|(x, y)| (x - y).abs());
    match p {
        0.0 => sizes.filter(|d| *d != 0.0).count() as f64,
        f64::INFINITY => sizes.fold(0.0, |most, d| if d > most || d.is_nan() { d } else { most }),
        p => sizes.map(|d| d.powf(p)).sum::<f64>().powf(1.0 / p),
    }
}

/// The sign of a number, that of zero being zero.
fn sign(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x.signum() }
}

/// Adds to `to` the gradient by `x` of the distance of `x` and `y`, which is `distance`, times `g`.
fn add_slopes(to: &mut [f64], x: &[f64], y: &[f64], p: f64, g: f64, distance: f64) {
    let largest = x.iter().zip(y).fold(0.0, |most: f64, (x, y)| most.max((x - y).abs()));
    for (to, (x, y)) in to.iter_mut().zip(x.iter().zip(y)) {
        let d = x - y;
        *to += match p {
            0.0 => 0.0,
            1.0 => g * sign(d),
            // All that attain the largest difference; the distance itself may be rounded.
            f64::INFINITY => {
                if d.abs() == largest {
                    g * sign(d)
                } else {
                    0.0
                }
            }
            _ if d == 0.0 || distance == 0.0 => 0.0,
            p => g * sign(d) * (d.abs() / distance).powf(p - 1.0),
        };
    }
}

/// The rows of matrices, of which each is `width` long.
struct Rows {
    data: Vec<f64>,
    width: usize,
}

impl Rows {
    /// Of a tensor with its batch dims broadcast to `batch`.
    fn of(t: &Tensor, batch: &[i64]) -> Result<Rows> {
        let item = &t.sizes()[t.dim() - 2..];
        let data = Array::<f64>::read_as(t, &[batch, item].concat())?.data;
        Ok(Rows { data, width: item[1] as usize })
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.width..(i + 1) * self.width]
    }
}

/// Which rows of two lists of matrices are paired: batch after batch, every one with every one.
fn pairs(batches: usize, rows: usize, others: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..batches * rows).flat_map(move |i| (0..others).map(move |j| (i, i / rows * others + j)))
}

/// The batch dims of a list of matrices, how many matrices these are, and how many rows each has.
fn batch_of(t: &Tensor) -> (Vec<i64>, usize, usize) {
    let batch = t.sizes()[..t.dim() - 2].to_vec();
    let count = batch.iter().product::<i64>() as usize;
    (batch, count, t.sizes()[t.dim() - 2] as usize)
}

fn all_pairs(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, y, p): (&Tensor, &Tensor, f64) = (take(op, args, 0)?, take(op, args, 1)?, take(op, args, 2)?);
    let out = outline(op, args)?.remove(0);
    let (batch, batches, rows) = batch_of(&out);
    let others = out.sizes()[out.dim() - 1] as usize;
    let (x, y) = (Rows::of(x, &batch)?, Rows::of(y, &batch)?);
    let found = pairs(batches, rows, others).map(|(i, j)| distance(x.row(i), y.row(j), p));
    write(&out, &found.collect::<Vec<_>>()).map(Outputs::from)
}

fn all_pairs_backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (g, x, y): (&Tensor, &Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?, take(op, args, 2)?);
    let (p, found): (f64, &Tensor) = (take(op, args, 3)?, take(op, args, 4)?);
    let out = outline(op, args)?.remove(0);
    let (batch, batches, rows) = batch_of(&out);
    let others = y.sizes()[y.dim() - 2] as usize;
    let (x, y) = (Rows::of(x, &batch)?, Rows::of(y, &batch)?);
    let (g, found) = (Array::<f64>::read(g)?.data, Array::<f64>::read(found)?.data);
    let mut slopes = vec![0.0; x.data.len()];
    for (k, (i, j)) in pairs(batches, rows, others).enumerate() {
        add_slopes(&mut slopes[i * x.width..(i + 1) * x.width], x.row(i), y.row(j), p, g[k], found[k]);
    }
    write(&out, &slopes).map(Outputs::from)
}

/// Every row with every later one.
fn later_pairs(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |i| (i + 1..rows).map(move |j| (i, j)))
}

fn own_pairs(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, p): (&Tensor, f64) = (take(op, args, 0)?, take::<Option<f64>>(op, args, 1)?.unwrap_or(2.0));
    let out = outline(op, args)?.remove(0);
    let (n, x) = (x.sizes()[0] as usize, Rows::of(x, &[])?);
    let found = later_pairs(n).map(|(i, j)| distance(x.row(i), x.row(j), p));
    write(&out, &found.collect::<Vec<_>>()).map(Outputs::from)
}

fn own_pairs_backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (g, x): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let (p, found): (f64, &Tensor) = (take(op, args, 2)?, take(op, args, 3)?);
    let out = outline(op, args)?.remove(0);
    let (n, x) = (x.sizes()[0] as usize, Rows::of(x, &[])?);
    let (g, found) = (Array::<f64>::read(g)?.data, Array::<f64>::read(found)?.data);
    let mut slopes = vec![0.0; x.data.len()];
    for (k, (i, j)) in later_pairs(n).enumerate() {
        add_slopes(&mut slopes[i * x.width..(i + 1) * x.width], x.row(i), x.row(j), p, g[k], found[k]);
        add_slopes(&mut slopes[j * x.width..(j + 1) * x.width], x.row(j), x.row(i), p, g[k], found[k]);
    }
    write(&out, &slopes).map(Outputs::from)
}
