//! Reductions of segments that lie one after the other.

use crate::dims::{Dims, wrap_dim};
use crate::{Body, DType, Op, Result, Scalar, Tensor, ensure, sample};

/// The segment of every place along the axis, in one row for each row of lengths; what belongs to none has the number of
/// segments.
fn segments(lengths: &[i64], per_row: usize, starts: Option<&[i64]>, size: i64) -> Result<Vec<i64>> {
    let size = size as usize;
    let mut out = Vec::new();
    for (r, row) in lengths.chunks_exact(per_row.max(1)).enumerate() {
        let mut places = vec![per_row as i64; size];
        let mut at = 0;
        for (k, &length) in row.iter().enumerate() {
            if let Some(starts) = starts {
                at = starts[r * (per_row + 1) + k];
            }
            let segment = usize::try_from(at).ok().zip(usize::try_from(length).ok());
            let range = segment.and_then(|(at, n)| places.get_mut(at..at.checked_add(n)?));
            let Some(range) = range else {
                return Err(crate::Error::runtime(format!(
                    "segment_reduce(): a segment of length {length} from {at} on lies outside of {size} elements"
                )));
            };
            range.fill(k as i64);
            at += length;
        }
        out.extend(places);
    }
    Ok(out)
}

fn segment_reduce_any(
    data: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    indices: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: Option<i64>,
    is_unsafe: Option<bool>,
    initial: Option<Scalar>,
) -> Result<Tensor> {
    ensure!(indices.is_none(), "segment_reduce(): indices based reduction is not supported yet.");
    ensure!(
        offsets.is_some() || lengths.is_some(),
        "segment_reduce(): Either lengths or offsets must be defined."
    );
    ensure!(
        matches!(reduce, "sum" | "prod" | "mean" | "max" | "min" | "amax" | "amin"),
        "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
    );
    if !data.dtype().is_floating_point() {
        return Err(super::reduce::not_for("_segment_reduce_cpu", data.dtype()));
    }
    let given = match (offsets, lengths) {
        (Some(t), _) | (None, Some(t)) => t,
        (None, None) => data,
    };
    ensure!(
        data.dim() >= given.dim() && given.dim() > 0,
        "segment_reduce(): expected lengths or offsets to have between 1 and {} dimensions, but got {}",
        data.dim(),
        given.dim()
    );
    let d = wrap_dim(axis.unwrap_or(0), data.dim())?;
    ensure!(
        d + 1 == given.dim(),
        "segment_reduce(): Expected axis to be the last dimension of {} but got {d}.",
        if offsets.is_some() { "offsets" } else { "lengths" }
    );
    ensure!(
        given.sizes()[..d] == data.sizes()[..d],
        "segment_reduce(): expected the dimensions before the axis to be those of data {:?}, but got {:?}",
        data.sizes(),
        given.sizes()
    );
    if !matches!(given.dtype(), DType::I32 | DType::I64) {
        return Err(super::reduce::not_for("_segment_reduce_lengths_cpu_kernel1", given.dtype()));
    }
    let (size, columns) = (data.sizes()[d], given.sizes()[d] as usize);
    let numbers = given.to_vec::<i64>()?;
    let (lengths, per_row, starts) = match offsets {
        Some(_) => {
            ensure!(columns >= 1, "segment_reduce(): offsets must have at least one element");
            let lengths: Vec<i64> =
                numbers.chunks_exact(columns).flat_map(|row| row.windows(2).map(|w| w[1].saturating_sub(w[0]))).collect();
            (lengths, columns - 1, Some(&numbers[..]))
        }
        None => {
            ensure!(numbers.iter().all(|&n| n >= 0), "lengths contains negative value!");
            let sums = |row: &[i64]| row.iter().fold(0i64, |sum, n| sum.saturating_add(*n));
            let whole = numbers.chunks_exact(columns.max(1)).all(|row| sums(row) == size) && (columns > 0 || size == 0);
            ensure!(
                is_unsafe.unwrap_or(false) || whole,
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when \
                 !unsafe."
            );
            (numbers.clone(), columns, None)
        }
    };
    let places = segments(&lengths, per_row, starts, size)?;
    let outer: Dims = Dims::from_slice(&data.sizes()[..d]);
    let shaped = |values: &[i64], n: i64| {
        let mut shape = outer.clone();
        shape.push(n);
        shape.resize(data.dim(), 1);
        Tensor::from_slice(values)?.reshape(&shape)?.to_device(data.device())
    };
    let mut sizes = Dims::from_slice(data.sizes());
    sizes[d] = per_row as i64 + 1;
    let (how, identity) = match reduce {
        "prod" => ("prod", 1.0),
        "max" | "amax" => ("amax", f64::NEG_INFINITY),
        "min" | "amin" => ("amin", f64::INFINITY),
        _ => ("sum", 0.0),
    };
    let start = initial.map_or(identity, Scalar::to_f64);
    let start = Tensor::full(&sizes, start, (data.dtype(), data.device()))?;
    let reduced = match places.is_empty() || data.numel() == 0 {
        true => start,
        false => start.scatter_reduce(d as i64, &shaped(&places, size)?.expand(data.sizes())?, data, how, true)?,
    };
    let reduced = reduced.narrow(d as i64, 0, per_row as i64)?;
    if reduce != "mean" {
        return reduced.contiguous();
    }
    let counts = shaped(&lengths, per_row as i64)?;
    // An empty segment has no mean, but for what it starts with.
    let divisor = if initial.is_some() { counts.clamp_min(1)? } else { counts };
    reduced.div(&divisor)
}

op! {
    /// Segments along an axis reduced (`sum`, `prod`, `mean`, `max` or `min`) to one element each: of the given lengths, or
    /// between the given offsets.
    segment_reduce: "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
        Out OUT: "segment_reduce.out(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(segment_reduce_any; data, reduce, lengths, indices, offsets, axis, is_unsafe, initial));
    samples: |m| match (m.dtype.is_floating_point(), Tensor::from_slice(&[2i64, 0, 3])) {
        (true, Ok(lengths)) => ["sum", "prod", "mean", "max", "min"]
            .map(|how| sample![m.any(&[5, 2]), how, lengths.clone(), (), (), 0, false, Scalar::Float(0.5)])
            .to_vec(),
        _ => vec![],
    };
    ulp: 8.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[segment_reduce::ALL];
