//! Operators that look along one dim: sorting, selecting, running results, softmax.

use crate::Kernel;
use crate::array::{Arithmetic, Array, Kind, by_kind, outline, wrap, write};
use flambeau::value::take;
use flambeau::{Op, Outputs, Result, Tensor, Value};
use std::cmp::Ordering;

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("cumsum", |op, args| running(op, args, false)),
    ("cumprod", |op, args| running(op, args, true)),
    ("cummax", |op, args| running_extreme(op, args, |x, best| x >= best)),
    ("cummin", |op, args| running_extreme(op, args, |x, best| x <= best)),
    ("logcumsumexp", logcumsumexp),
    ("_softmax", |op, args| softmax(op, args, |x, total| x.exp() / total)),
    ("_log_softmax", |op, args| softmax(op, args, |x, total| x - total.ln())),
    ("_softmax_backward_data", |op, args| softmax_backward(op, args, |g, y, total, _| y * (g - total))),
    ("_log_softmax_backward_data", |op, args| softmax_backward(op, args, |g, y, _, sum| g - y.exp() * sum)),
    ("sort.stable", |op, args| {
        let descending = take::<Option<bool>>(op, args, 3)?.unwrap_or(false);
        ordered(op, args, 2, descending, usize::MAX)
    }),
    ("topk", |op, args| {
        let largest = take::<Option<bool>>(op, args, 3)?.unwrap_or(true);
        ordered(op, args, 2, largest, take::<i64>(op, args, 1)? as usize)
    }),
    ("kthvalue", |op, args| picked(op, args, 2, Pick::Smallest(take::<i64>(op, args, 1)? as usize - 1))),
    ("median.dim", |op, args| picked(op, args, 1, Pick::Median)),
    ("nanmedian.dim", |op, args| picked(op, args, 1, Pick::NumericMedian)),
    ("max.dim", |op, args| picked(op, args, 1, Pick::Greatest)),
    ("min.dim", |op, args| picked(op, args, 1, Pick::Least)),
];

/// The places of each line of elements along a dim.
pub(crate) fn lines(sizes: &[usize], dim: usize) -> Vec<Vec<usize>> {
    let Some(&n) = sizes.get(dim) else { return vec![vec![0]] };
    let inner: usize = sizes[dim + 1..].iter().product();
    let outer: usize = sizes[..dim].iter().product();
    let line = |o: usize, i: usize| (0..n).map(|k| (o * n + k) * inner + i).collect();
    (0..outer).flat_map(|o| (0..inner).map(move |i| line(o, i))).collect()
}

fn dim_of(op: &'static Op, args: &[Value<'_>], i: usize, x: &Tensor) -> Result<usize> {
    let dim = take::<Option<i64>>(op, args, i)?.unwrap_or(-1);
    if x.dim() == 0 { Ok(0) } else { wrap(dim, x) }
}

fn running(op: &'static Op, args: &[Value<'_>], product: bool) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    let dim = dim_of(op, args, 1, x)?;
    by_kind!(Kind::of(out.dtype()), T => {
        let mut x = Array::<T>::read(&x.to_dtype(out.dtype())?)?;
        for line in lines(&x.sizes, dim) {
            for pair in line.windows(2) {
                let (before, here) = (x.data[pair[0]], x.data[pair[1]]);
                x.data[pair[1]] = if product { before.times(here) } else { before.plus(here) };
            }
        }
        write(&out, &x.data).map(Outputs::from)
    })
}

fn running_extreme(op: &'static Op, args: &[Value<'_>], better: fn(f64, f64) -> bool) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let outs = outline(op, args)?;
    let dim = dim_of(op, args, 1, x)?;
    let mut x = Array::<f64>::read(x)?;
    let mut indices = vec![0i64; x.data.len()];
    for line in lines(&x.sizes, dim) {
        let mut best = 0;
        for (k, &at) in line.iter().enumerate() {
            let (here, so_far) = (x.data[at], x.data[line[best]]);
            if here.is_nan() || !so_far.is_nan() && better(here, so_far) {
                best = k;
            }
            indices[at] = best as i64;
        }
        let values: Vec<f64> = line.iter().map(|&at| x.data[line[indices[at] as usize]]).collect();
        line.iter().zip(values).for_each(|(&at, v)| x.data[at] = v);
    }
    pair(&outs, &x.data, &indices)
}

fn logcumsumexp(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    let dim = dim_of(op, args, 1, x)?;
    if x.dtype().is_complex() {
        let x = Array::<flambeau::Complex64>::read(x)?;
        let mut y = x.data.clone();
        for line in lines(&x.sizes, dim) {
            // The phase goes on from that of the larger one, as far as it gets.
            for k in 1..line.len() {
                let (sum, term) = (y[line[k - 1]], x.data[line[k]]);
                let (low, high) = if sum.re <= term.re { (sum, term) } else { (term, sum) };
                y[line[k]] = high + ((low - high).exp() + 1.0).ln();
            }
        }
        return write(&out, &y).map(Outputs::from);
    }
    let x = Array::<f64>::read(x)?;
    let mut y = x.data.clone();
    for line in lines(&x.sizes, dim) {
        for k in 0..line.len() {
            let largest = line[..=k].iter().fold(f64::NEG_INFINITY, |m, &at| m.max(x.data[at]));
            let shift = if largest.is_finite() { largest } else { 0.0 };
            y[line[k]] = shift + line[..=k].iter().map(|&at| (x.data[at] - shift).exp()).sum::<f64>().ln();
        }
    }
    write(&out, &y).map(Outputs::from)
}

fn softmax(op: &'static Op, args: &[Value<'_>], f: fn(f64, f64) -> f64) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    let dim = dim_of(op, args, 1, x)?;
    let mut x = Array::<f64>::read(x)?;
    for line in lines(&x.sizes, dim) {
        let largest = line.iter().fold(f64::NEG_INFINITY, |m, &at| m.max(x.data[at]));
        let total: f64 = line.iter().map(|&at| (x.data[at] - largest).exp()).sum();
        line.iter().for_each(|&at| x.data[at] = f(x.data[at] - largest, total));
    }
    write(&out, &x.data).map(Outputs::from)
}

/// `f` of the gradient, the result, the sum of their products and the sum of the gradients along the dim.
fn softmax_backward(op: &'static Op, args: &[Value<'_>], f: fn(f64, f64, f64, f64) -> f64) -> Result<Outputs> {
    let (g, y): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let out = outline(op, args)?.remove(0);
    let dim = dim_of(op, args, 2, g)?;
    let (mut g, y) = (Array::<f64>::read(g)?, Array::<f64>::read(y)?);
    for line in lines(&g.sizes, dim) {
        let total: f64 = line.iter().map(|&at| g.data[at] * y.data[at]).sum();
        let sum: f64 = line.iter().map(|&at| g.data[at]).sum();
        line.iter().for_each(|&at| g.data[at] = f(g.data[at], y.data[at], total, sum));
    }
    write(&out, &g.data).map(Outputs::from)
}

/// Numbers in order, NaN greatest.
fn order(x: f64, y: f64) -> Ordering {
    x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()))
}

/// Values and where they came from.
fn pair(outs: &[Tensor], values: &[f64], indices: &[i64]) -> Result<Outputs> {
    Ok(vec![write(&outs[0], values)?, write(&outs[1], indices)?].into())
}

/// The first `count` elements of each line in order, equal ones as they were.
fn ordered(op: &'static Op, args: &[Value<'_>], at: usize, descending: bool, count: usize) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let outs = outline(op, args)?;
    let dim = dim_of(op, args, at, x)?;
    let x = Array::<f64>::read(x)?;
    let sizes: Vec<usize> = outs[0].sizes().iter().map(|n| *n as usize).collect();
    let (mut values, mut indices) = (vec![0.0; sizes.iter().product()], vec![0i64; sizes.iter().product()]);
    for (from, to) in lines(&x.sizes, dim).iter().zip(lines(&sizes, dim)) {
        let mut ranks: Vec<usize> = (0..from.len()).collect();
        ranks.sort_by(|&a, &b| {
            let o = order(x.data[from[a]], x.data[from[b]]);
            if descending { o.reverse() } else { o }
        });
        for (&to, &rank) in to.iter().zip(ranks.iter().take(count)) {
            (values[to], indices[to]) = (x.data[from[rank]], rank as i64);
        }
    }
    pair(&outs, &values, &indices)
}

#[derive(Clone, Copy)]
enum Pick {
    Smallest(usize),
    /// The lower of two; NaN if there is one.
    Median,
    /// Among those that are not NaN.
    NumericMedian,
    Greatest,
    Least,
}

/// One element of each line, and where it was: the first of equals.
fn picked(op: &'static Op, args: &[Value<'_>], at: usize, pick: Pick) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let outs = outline(op, args)?;
    let dim = dim_of(op, args, at, x)?;
    let x = Array::<f64>::read(x)?;
    let (mut values, mut indices) = (vec![], vec![]);
    for line in lines(&x.sizes, dim) {
        let mut ranks: Vec<usize> = (0..line.len()).collect();
        let value = |k: usize| x.data[line[k]];
        ranks.sort_by(|&a, &b| order(value(a), value(b)));
        let numbers = ranks.iter().filter(|k| !value(**k).is_nan()).count();
        let first_nan = (0..line.len()).find(|k| value(*k).is_nan());
        let best = match pick {
            Pick::Smallest(k) => ranks[k],
            Pick::Median | Pick::Greatest | Pick::Least if first_nan.is_some() => first_nan.unwrap_or(0),
            Pick::Median => ranks[(line.len() - 1) / 2],
            Pick::NumericMedian => ranks[numbers.max(1).div_ceil(2) - 1],
            Pick::Greatest => (0..line.len()).fold(0, |b, k| if value(k) > value(b) { k } else { b }),
            Pick::Least => ranks[0],
        };
        values.push(value(best));
        indices.push(best as i64);
    }
    pair(&outs, &values, &indices)
}
