//! Paddings with what the tensor itself holds, and what comes back through them.

use crate::Kernel;
use crate::array::{Arithmetic, Array, Kind, by_kind, indices, outline, place, write};
use flambeau::value::take;
use flambeau::{Op, Outputs, Result, Tensor, Value};

/// The place that place `i` of a dim of some size is a copy of, with what its padding is before and after.
type Origin = fn(i64, i64, &[i64]) -> i64;

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("reflection_pad1d", |op, args| pad(op, args, mirrored)),
    ("reflection_pad2d", |op, args| pad(op, args, mirrored)),
    ("reflection_pad3d", |op, args| pad(op, args, mirrored)),
    ("replication_pad1d", |op, args| pad(op, args, nearest)),
    ("replication_pad2d", |op, args| pad(op, args, nearest)),
    ("replication_pad3d", |op, args| pad(op, args, nearest)),
    ("_pad_circular", |op, args| pad(op, args, around)),
    ("reflection_pad1d_backward", |op, args| pad_backward(op, args, mirrored)),
    ("reflection_pad2d_backward", |op, args| pad_backward(op, args, mirrored)),
    ("reflection_pad3d_backward", |op, args| pad_backward(op, args, mirrored)),
    ("replication_pad1d_backward", |op, args| pad_backward(op, args, nearest)),
    ("replication_pad2d_backward", |op, args| pad_backward(op, args, nearest)),
    ("replication_pad3d_backward", |op, args| pad_backward(op, args, nearest)),
    ("_pad_circular_backward", |op, args| pad_backward(op, args, around)),
];

fn mirrored(i: i64, size: i64, _padding: &[i64]) -> i64 {
    let last = size - 1;
    last - (last - i.abs()).abs()
}

fn nearest(i: i64, size: i64, _padding: &[i64]) -> i64 {
    i.max(0).min(size - 1)
}

/// What padding cuts off is not gone round to.
fn around(i: i64, size: i64, padding: &[i64]) -> i64 {
    let (first, end) = ((-padding[0]).max(0), size + padding[1].min(0));
    match i {
        i if i < first => i + (end - first),
        i if i >= end => i - (end - first),
        i => i,
    }
}

/// Where the element at an index of the result comes from.
fn source(index: &[usize], sizes: &[usize], padding: &[i64], origin: Origin) -> usize {
    let mut from = index.to_vec();
    for (k, pair) in padding.chunks(2).enumerate() {
        let d = index.len() - 1 - k;
        from[d] = origin(index[d] as i64 - pair[0], sizes[d] as i64, pair) as usize;
    }
    place(sizes, &from)
}

fn pad(op: &'static Op, args: &[Value<'_>], origin: Origin) -> Result<Outputs> {
    let (x, padding): (&Tensor, &[i64]) = (take(op, args, 0)?, take(op, args, 1)?);
    let out = outline(op, args)?.remove(0);
    by_kind!(Kind::of(x.dtype()), T => {
        let x = Array::<T>::read(x)?;
        let sizes: Vec<usize> = out.sizes().iter().map(|n| *n as usize).collect();
        let result: Vec<T> = indices(&sizes).iter().map(|i| x.data[source(i, &x.sizes, padding, origin)]).collect();
        write(&out, &result).map(Outputs::from)
    })
}

fn pad_backward(op: &'static Op, args: &[Value<'_>], origin: Origin) -> Result<Outputs> {
    let (g, padding): (&Tensor, &[i64]) = (take(op, args, 0)?, take(op, args, 2)?);
    let out = outline(op, args)?.remove(0);
    by_kind!(Kind::of(out.dtype()), T => {
        let (g, sizes) = (Array::<T>::read(g)?, out.sizes().iter().map(|n| *n as usize).collect::<Vec<_>>());
        let mut result = vec![T::zero(); out.numel() as usize];
        for (index, g) in indices(&g.sizes).iter().zip(&g.data) {
            let at = source(index, &sizes, padding, origin);
            result[at] = result[at].plus(*g);
        }
        write(&out, &result).map(Outputs::from)
    })
}
