//! How often elements occur: histograms and the most frequent element; and hashes.

use crate::Kernel;
use crate::array::{Array, Kind, by_kind, outline, wrap, write};
use crate::lines::lines;
use crate::reduce::gathered;
use flambeau::value::take;
use flambeau::{Error, Op, Outputs, Result, Scalar, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[("mode", mode), ("hash_tensor", hash), ("histc", histogram)];

/// The most frequent element of each line, the least of several, and where it last is. A NaN equals nothing.
fn mode(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let outs = outline(op, args)?;
    let dim = if x.dim() == 0 { 0 } else { wrap(take::<Option<i64>>(op, args, 1)?.unwrap_or(-1), x)? };
    // Numbers that are complex were refused on Meta.
    let kind = if Kind::of(x.dtype()) == Kind::Integer { Kind::Integer } else { Kind::Real };
    by_kind!(kind, T => {
        let x = Array::<T>::read(x)?;
        let (mut values, mut places) = (vec![], vec![]);
        for line in lines(&x.sizes, dim) {
            let value = |k: usize| x.data[line[k]];
            let count = |k: usize| (0..line.len()).filter(|i| value(*i) == value(k)).count().max(1);
            // What is not equal to itself is NaN.
            #[allow(clippy::eq_op)]
            let is_number = |k: usize| value(k) == value(k);
            let mut best = 0;
            for k in 1..line.len() {
                let same = value(k) == value(best);
                let less = if is_number(best) { below(value(k), value(best)) } else { is_number(k) };
                if same || count(k) > count(best) || count(k) == count(best) && less {
                    best = k;
                }
            }
            values.push(value(best));
            places.push(best as i64);
        }
        Ok(vec![write(&outs[0], &values)?, write(&outs[1], &places)?].into())
    })
}

/// Whether a number is less than another; false for NaN.
fn below<T: flambeau::Element>(x: T, y: T) -> bool {
    match Kind::of(T::DTYPE) {
        Kind::Integer => x.to_i64() < y.to_i64(),
        _ => x.to_f64() < y.to_f64(),
    }
}

/// The exclusive or of the elements as 64-bit integers, or as the bits of doubles.
fn hash(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, dims): (&Tensor, &[i64]) = (take(op, args, 0)?, take::<Option<&[i64]>>(op, args, 1)?.unwrap_or(&[]));
    let out = outline(op, args)?.remove(0);
    let words: Vec<Vec<u64>> = match x.dtype().is_floating_point() {
        true => gathered::<f64>(x, dims)?.into_iter().map(|m| m.into_iter().map(f64::to_bits).collect()).collect(),
        false => gathered::<i64>(x, dims)?.into_iter().map(|m| m.into_iter().map(|i| i as u64).collect()).collect(),
    };
    let hashes: Vec<u64> = words.iter().map(|members| members.iter().fold(0, |a, b| a ^ b)).collect();
    write(&out, &hashes).map(Outputs::from)
}

/// How many elements lie in each of equal intervals, of which the last has both its ends.
fn histogram(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    let end = |i: usize| take::<Option<Scalar>>(op, args, i).map(|s| s.map_or(0.0, Scalar::to_f64));
    let (mut low, mut high): (f64, f64) = (end(2)?, end(3)?);
    let x = Array::<f64>::read(x)?.data;
    if low == high && !x.is_empty() {
        let finds_nan = x.iter().any(|x| x.is_nan());
        low = if finds_nan { f64::NAN } else { x.iter().copied().fold(f64::INFINITY, f64::min) };
        high = if finds_nan { f64::NAN } else { x.iter().copied().fold(f64::NEG_INFINITY, f64::max) };
    }
    if low == high {
        (low, high) = (low - 1.0, high + 1.0);
    }
    if !(low.is_finite() && high.is_finite()) {
        // As C's streams write them.
        let text = |x: f64| if x.is_nan() { "nan".into() } else { x.to_string() };
        return Err(Error::runtime(format!("torch.histc: range of [{}, {}] is not finite", text(low), text(high))));
    }
    if low >= high {
        return Err(Error::runtime("torch.histc: max must be larger than min"));
    }
    let bins = out.numel() as usize;
    let mut counts = vec![0i64; bins];
    for x in x.into_iter().filter(|x| (low..=high).contains(x)) {
        let widths = (x - low) * bins as f64 / (high - low);
        counts[(widths as usize).min(bins - 1)] += 1;
    }
    write(&out, &counts).map(Outputs::from)
}
