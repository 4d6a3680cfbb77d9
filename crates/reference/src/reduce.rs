//! Sums, products, extremes, means, deviations and norms over dims.

use crate::Kernel;
use crate::array::{Arithmetic, Array, Kind, by_kind, indices, outline, place, wrap, write};
use flambeau::value::take;
use flambeau::{Complex64, Op, Outputs, Result, Scalar, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("sum", |op, args| fold(op, args, &[], Total::Sum)),
    ("sum.dim_IntList", |op, args| fold(op, args, listed(op, args)?, Total::Sum)),
    ("nansum", |op, args| fold(op, args, listed(op, args)?, Total::NumericSum)),
    ("prod", |op, args| fold(op, args, &[], Total::Product)),
    ("prod.dim_int", |op, args| fold(op, args, &[take(op, args, 1)?], Total::Product)),
    ("mean", |op, args| fold(op, args, &[], Total::Mean)),
    ("mean.dim", |op, args| fold(op, args, listed(op, args)?, Total::Mean)),
    ("amax", |op, args| extreme(op, args, listed(op, args)?, |x, y| y > x)),
    ("amin", |op, args| extreme(op, args, listed(op, args)?, |x, y| y < x)),
    ("max", |op, args| extreme(op, args, &[], |x, y| y > x)),
    ("min", |op, args| extreme(op, args, &[], |x, y| y < x)),
    ("argmax", |op, args| first(op, args, |x, y| y > x)),
    ("argmin", |op, args| first(op, args, |x, y| y < x)),
    ("any", |op, args| count(op, args, &[], |found, _| found > 0)),
    ("any.dim", |op, args| count(op, args, &[take(op, args, 1)?], |found, _| found > 0)),
    ("any.dims", |op, args| count(op, args, listed(op, args)?, |found, _| found > 0)),
    ("all", |op, args| count(op, args, &[], |found, n| found == n)),
    ("all.dim", |op, args| count(op, args, &[take(op, args, 1)?], |found, n| found == n)),
    ("all.dims", |op, args| count(op, args, listed(op, args)?, |found, n| found == n)),
    ("count_nonzero.dim_IntList", count_nonzero),
    ("logsumexp", logsumexp),
    ("linalg_vector_norm", vector_norm),
    ("var.correction", |op, args| moments(op, args, false, false)),
    ("std.correction", |op, args| moments(op, args, true, false)),
    ("var_mean.correction", |op, args| moments(op, args, false, true)),
    ("std_mean.correction", |op, args| moments(op, args, true, true)),
    ("segment_reduce", segments),
];

#[derive(Clone, Copy, PartialEq)]
enum Total {
    Sum,
    NumericSum,
    Product,
    Mean,
}

/// The dims of the second argument; all without any.
fn listed<'a>(op: &'static Op, args: &[Value<'a>]) -> Result<&'a [i64]> {
    Ok(take::<Option<&[i64]>>(op, args, 1)?.unwrap_or(&[]))
}

/// Which result each element belongs to: the dims that remain, and for each element its place among them.
fn groups(x: &Tensor, dims: &[i64]) -> Result<(usize, Vec<usize>)> {
    let reduced = match x.dim() {
        0 => vec![],
        _ => dims.iter().map(|d| wrap(*d, x)).collect::<Result<Vec<usize>>>()?,
    };
    let kept: Vec<usize> = (0..x.dim()).filter(|d| !dims.is_empty() && !reduced.contains(d)).collect();
    let sizes: Vec<usize> = x.sizes().iter().map(|n| *n as usize).collect();
    let kept_sizes: Vec<usize> = kept.iter().map(|d| sizes[*d]).collect();
    let places = indices(&sizes)
        .iter()
        .map(|index| place(&kept_sizes, &kept.iter().map(|d| index[*d]).collect::<Vec<_>>()))
        .collect();
    Ok((kept_sizes.iter().product(), places))
}

/// The elements that belong to each result.
pub(crate) fn gathered<T: flambeau::Element>(x: &Tensor, dims: &[i64]) -> Result<Vec<Vec<T>>> {
    let (count, places) = groups(x, dims)?;
    let mut members = vec![vec![]; count];
    for (x, place) in Array::<T>::read(x)?.data.into_iter().zip(places) {
        members[place].push(x);
    }
    Ok(members)
}

fn fold(op: &'static Op, args: &[Value<'_>], dims: &[i64], total: Total) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    by_kind!(Kind::of(out.dtype()), T => {
        let mut results = Vec::new();
        for members in gathered::<T>(&x.to_dtype(out.dtype())?, dims)? {
            let n = members.len();
            // What is not equal to itself is NaN.
            #[allow(clippy::eq_op)]
            let counts = |x: &T| total != Total::NumericSum || x == x;
            let members = members.into_iter().filter(counts);
            results.push(match total {
                Total::Product => members.fold(T::one(), T::times),
                Total::Mean if n == 0 => <T as flambeau::Element>::from_f64(f64::NAN),
                Total::Mean => members.fold(T::zero(), T::plus).times(<T as flambeau::Element>::from_f64(1.0 / n as f64)),
                _ => members.fold(T::zero(), T::plus),
            });
        }
        write(&out, &results).map(Outputs::from)
    })
}

fn extreme(op: &'static Op, args: &[Value<'_>], dims: &[i64], better: fn(f64, f64) -> bool) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    let best = |members: Vec<f64>| members[place_of_best(&members, better)];
    write(&out, &gathered::<f64>(x, dims)?.into_iter().map(best).collect::<Vec<_>>()).map(Outputs::from)
}

/// The first NaN, else the first of the best.
fn place_of_best(members: &[f64], better: fn(f64, f64) -> bool) -> usize {
    let replaces = |b: usize, k: usize| !members[b].is_nan() && (members[k].is_nan() || better(members[b], members[k]));
    (0..members.len()).fold(0, |b, k| if replaces(b, k) { k } else { b })
}

fn first(op: &'static Op, args: &[Value<'_>], better: fn(f64, f64) -> bool) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    let dims: Vec<i64> = take::<Option<i64>>(op, args, 1)?.into_iter().collect();
    let found = gathered::<f64>(x, &dims)?.into_iter().map(|members| place_of_best(&members, better) as i64);
    write(&out, &found.collect::<Vec<_>>()).map(Outputs::from)
}

fn count(op: &'static Op, args: &[Value<'_>], dims: &[i64], test: fn(usize, usize) -> bool) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    let found = gathered::<Complex64>(x, dims)?.into_iter().map(|members| {
        let nonzero = members.iter().filter(|z| **z != Complex64::new(0.0, 0.0)).count();
        i64::from(test(nonzero, members.len()))
    });
    write(&out, &found.collect::<Vec<_>>()).map(Outputs::from)
}

fn count_nonzero(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    let found = gathered::<Complex64>(x, take(op, args, 1)?)?.into_iter();
    let found = found.map(|members| members.iter().filter(|z| **z != Complex64::new(0.0, 0.0)).count() as i64);
    write(&out, &found.collect::<Vec<_>>()).map(Outputs::from)
}

fn logsumexp(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    if x.dtype().is_complex() {
        let found = gathered::<Complex64>(x, listed(op, args)?)?.into_iter();
        let found = found.map(|members| members.iter().map(|z| z.exp()).sum::<Complex64>().ln());
        return write(&out, &found.collect::<Vec<_>>()).map(Outputs::from);
    }
    let found = gathered::<f64>(&x.to_dtype(out.dtype())?, listed(op, args)?)?.into_iter().map(|members| {
        let largest = members.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shift = if largest.is_finite() { largest } else { 0.0 };
        shift + members.iter().map(|x| (x - shift).exp()).sum::<f64>().ln()
    });
    write(&out, &found.collect::<Vec<_>>()).map(Outputs::from)
}

fn vector_norm(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let order = take::<Option<Scalar>>(op, args, 1)?.map_or(2.0, |s| s.to_f64());
    let dims = take::<Option<&[i64]>>(op, args, 2)?.unwrap_or(&[]);
    let out = outline(op, args)?.remove(0);
    let found = gathered::<Complex64>(x, dims)?.into_iter().map(|members| {
        let sizes = members.iter().map(|z| z.norm());
        match order {
            0.0 => sizes.filter(|s| *s != 0.0).count() as f64,
            f64::INFINITY => sizes.fold(0.0, f64::max),
            f64::NEG_INFINITY => sizes.fold(f64::INFINITY, f64::min),
            p => sizes.map(|s| s.powf(p)).sum::<f64>().powf(1.0 / p),
        }
    });
    write(&out, &found.collect::<Vec<_>>()).map(Outputs::from)
}

/// Variance or standard deviation, and the mean if it is asked for.
fn moments(op: &'static Op, args: &[Value<'_>], root: bool, with_mean: bool) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let correction = take::<Option<Scalar>>(op, args, 2)?.map_or(1.0, |s| s.to_f64());
    let outs = outline(op, args)?;
    let (mut spreads, mut means) = (vec![], vec![]);
    for members in gathered::<Complex64>(x, listed(op, args)?)? {
        let n = members.len() as f64;
        let mean = members.iter().sum::<Complex64>() / n;
        let variance = members.iter().map(|z| (z - mean).norm_sqr()).sum::<f64>() / (n - correction).max(0.0);
        spreads.push(if root { variance.sqrt() } else { variance });
        means.push(mean);
    }
    let spreads = write(&outs[0], &spreads)?;
    match with_mean {
        true => Ok(vec![spreads, write(&outs[1], &means)?].into()),
        false => Ok(spreads.into()),
    }
}

fn segments(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, how): (&Tensor, &str) = (take(op, args, 0)?, take(op, args, 1)?);
    let (lengths, offsets): (Option<&Tensor>, Option<&Tensor>) = (take(op, args, 2)?, take(op, args, 4)?);
    let initial: Option<Scalar> = take(op, args, 7)?;
    let dim = wrap(take::<Option<i64>>(op, args, 5)?.unwrap_or(0), x)?;
    let out = outline(op, args)?.remove(0);
    let (x, lengths) = (Array::<f64>::read(x)?, lengths.map(Array::<i64>::read).transpose()?);
    let offsets = offsets.map(Array::<i64>::read).transpose()?;
    let sizes: Vec<usize> = out.sizes().iter().map(|n| *n as usize).collect();
    let mut results = Vec::new();
    for index in indices(&sizes) {
        let read = |t: &Array<i64>, k: usize| t.data[place(&t.sizes, &[&index[..dim], &[k]].concat())] as usize;
        let (from, to) = match (&offsets, &lengths) {
            (Some(offsets), _) => (read(offsets, index[dim]), read(offsets, index[dim] + 1)),
            (None, Some(lengths)) => {
                let from: usize = (0..index[dim]).map(|k| read(lengths, k)).sum();
                (from, from + read(lengths, index[dim]))
            }
            (None, None) => (0, 0),
        };
        let members = (from..to).map(|k| {
            let mut at = index.clone();
            at[dim] = k;
            x.data[place(&x.sizes, &at)]
        });
        let folded = |start: f64, step: fn(f64, f64) -> f64| members.fold(initial.map_or(start, Scalar::to_f64), step);
        let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
        let smaller = |a: f64, b: f64| if a.is_nan() || a < b { a } else { b };
        results.push(match how {
            "sum" => folded(0.0, |a, b| a + b),
            "mean" if to == from => initial.map_or(f64::NAN, Scalar::to_f64),
            "mean" => folded(0.0, |a, b| a + b) / (to - from) as f64,
            "prod" => folded(1.0, |a, b| a * b),
            "max" | "amax" => folded(f64::NEG_INFINITY, larger),
            _ => folded(f64::INFINITY, smaller),
        });
    }
    write(&out, &results).map(Outputs::from)
}
