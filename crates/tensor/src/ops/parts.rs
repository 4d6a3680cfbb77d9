//! Views of parts: diagonals, windows, and several at once.

use super::view::{select_any, slice_any};
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims, wrap_dim};
use crate::tensor::ViewKind;
use crate::{Body, Error, Op, Result, Tensor, backward, ensure, sample};

// ---- diagonals and windows ----------------------------------------------------------------------

fn diagonal_any(x: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let (a, b) = (wrap_dim(dim1, x.dim())?, wrap_dim(dim2, x.dim())?);
    ensure!(x.dim() >= 2 && a != b, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    let (rows, columns) = (x.sizes()[a], x.sizes()[b]);
    let n = match offset >= 0 {
        true => rows.min(columns.saturating_sub(offset)),
        false => rows.saturating_add(offset).min(columns),
    }
    .max(0);
    let start = match (n, offset >= 0) {
        (0, _) => x.storage_offset(),
        (_, true) => dims::advanced(x.storage_offset(), offset, x.strides()[b]),
        (_, false) => dims::advanced(x.storage_offset(), -offset, x.strides()[a]),
    };
    let rest = |v: &[i64]| -> Dims { (0..v.len()).filter(|d| *d != a && *d != b).map(|d| v[d]).collect() };
    let (mut sizes, mut strides) = (rest(x.sizes()), rest(x.strides()));
    sizes.push(n);
    strides.push(x.strides()[a].saturating_add(x.strides()[b]));
    Ok(x.make_view(sizes, strides, start))
}

op! {
    /// A diagonal of two dims, as the last dim.
    diagonal: "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)";
    Body::AnyBackend(kernel!(diagonal_any; x, offset, dim1, dim2));
    derivative: backward! {
        self_(g, self_: Geometry, offset: i64, dim1: i64, dim2: i64) =>
            Tensor::diagonal_backward(g, &self_.sizes, offset, dim1, dim2)?
    };
    forward: Forward::Linear;
    samples: |m| vec![
        sample![m.any(&[3, 4]), 0, 0, 1], sample![m.any(&[2, 3, 4]), 1, -2, -1], sample![m.any(&[3, 4]), -1, 0, 1],
    ];
    fn diagonal(&self, offset: i64, dim1: i64, dim2: i64) -> Tensor [self, offset, dim1, dim2];
}

fn diagonal_backward_any(g: &Tensor, sizes: &[i64], offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let out = Tensor::zeros(sizes, (g.dtype(), g.device()))?;
    out.diagonal(offset, dim1, dim2)?.copy_(g)?;
    Ok(out)
}

op! {
    /// Zeros of the given sizes with `grad_output` on a diagonal.
    diagonal_backward: "diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor";
    Body::Explicit(kernel!(diagonal_backward_any; g, sizes, offset, dim1, dim2));
    derivative: backward! { grad_output(g, offset: i64, dim1: i64, dim2: i64) => g.diagonal(offset, dim1, dim2)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3]), vec![2i64, 3, 4], 1, 1, 2]];
    fn diagonal_backward(grad_output: &Tensor, sizes: &[i64], offset: i64, dim1: i64, dim2: i64) -> Tensor
        [grad_output, sizes, offset, dim1, dim2];
}

fn unfold_any(x: &Tensor, dim: i64, size: i64, step: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim())?;
    let (length, stride) = if x.dim() == 0 { (1, 1) } else { (x.sizes()[d], x.strides()[d]) };
    ensure!(size >= 0, "size is {size} but must be >= 0");
    ensure!(size <= length, "maximum size for tensor at dimension {d} is {length} but size is {size}");
    ensure!(step > 0, "step is {step} but must be > 0");
    let (mut sizes, mut strides) = (crate::dims::copy(&x.0.sizes), crate::dims::copy(&x.0.strides));
    if x.dim() > 0 {
        sizes[d] = (length - size) / step + 1;
        strides[d] = stride.saturating_mul(step);
    }
    sizes.push(size);
    strides.push(stride);
    crate::dims::check_countable(&sizes)?;
    Ok(x.make_view(sizes, strides, x.storage_offset()))
}

op! {
    /// Windows of `size` every `step` along a dim; the window is the last dim.
    unfold: "unfold(Tensor(a) self, int dimension, SymInt size, SymInt step) -> Tensor(a)";
    Body::AnyBackend(kernel!(unfold_any; x, dim, size, step));
    derivative: backward! {
        self_(g, self_: Geometry, dimension: i64, size: i64, step: i64) =>
            Tensor::unfold_backward(g, &self_.sizes, dimension, size, step)?
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[7, 2]), 0, 3, 2], sample![m.any(&[6]), 0, 4, 1]];
    fn unfold(&self, dim: i64, size: i64, step: i64) -> Tensor [self, dim, size, step];
}

fn unfold_backward_any(g: &Tensor, sizes: &[i64], dim: i64, size: i64, step: i64) -> Result<Tensor> {
    if sizes.is_empty() {
        return g.reshape(&[]);
    }
    let d = wrap_dim(dim, sizes.len())? as i64;
    let out = Tensor::zeros(sizes, (g.dtype(), g.device()))?;
    // As many offsets within the windows at a time as one is from the next: those never overlap.
    let windows = g.size(d)?;
    for k in (0..size).step_by(step.max(1) as usize) {
        let width = step.min(size - k);
        let place = out.slice(d, Some(k), Some(k + (windows - 1) * step + width), 1)?;
        place.unfold(d, width, step)?.add_(&g.narrow(-1, k, width)?)?;
    }
    Ok(out)
}

op! {
    /// Windows added back to where `unfold` took them.
    unfold_backward: "unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, SymInt size, SymInt step) -> Tensor";
    Body::Explicit(kernel!(unfold_backward_any; g, sizes, dim, size, step));
    derivative: backward! { grad_in(g, dim: i64, size: i64, step: i64) => g.unfold(dim, size, step)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3, 3]), vec![2i64, 7], 1, 3, 2]];
    fn unfold_backward(grad_in: &Tensor, sizes: &[i64], dim: i64, size: i64, step: i64) -> Tensor
        [grad_in, sizes, dim, size, step];
}

// ---- several views ------------------------------------------------------------------------------

/// Whether there is memory for `count` views.
///
/// # Errors
/// When there is not.
pub(super) fn check_count(count: i64) -> Result<()> {
    /// More or less what one takes, with its place in lists.
    const EACH: usize = 256;
    flambeau_base::allocator::check_available((count as usize).saturating_mul(EACH))
}

/// Marks views that one call returned together.
fn several(views: Vec<Tensor>) -> Vec<Tensor> {
    views.into_iter().map(|v| v.with_view_kind(ViewKind::MultiOutput)).collect()
}

fn split_with_sizes_any(x: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    ensure!(x.dim() > 0, "split expects at least a 1-dimensional tensor");
    let total = sizes.iter().try_fold(0i64, |sum, s| sum.checked_add(*s));
    let size = x.size(dim)?;
    ensure!(
        sizes.iter().all(|s| *s >= 0),
        "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes:?}"
    );
    ensure!(
        total == Some(size),
        "split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), but got \
         split_sizes={sizes:?}"
    );
    check_count(sizes.len() as i64)?;
    let mut start = 0;
    let mut out = Vec::with_capacity(sizes.len());
    for &s in sizes {
        out.push(slice_any(x, dim, Some(start), Some(start + s), 1)?);
        start += s;
    }
    Ok(several(out))
}

op! {
    /// Parts of the given sizes along a dim.
    split_with_sizes: "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]";
    Body::AnyBackend(kernel!(split_with_sizes_any; x, sizes, dim));
    derivative: backward! {
        self_([c], self_: Geometry, split_sizes: Dims, dim: i64) => {
            let parts = (0..split_sizes.len()).map(|i| c.grad_or_zeros(i)).collect::<Result<Vec<_>>>()?;
            if parts.is_empty() { self_.zeros()? } else { Tensor::cat(&parts, dim)? }
        }
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[5, 2]), vec![2i64, 0, 3], 0]];
    fn split_with_sizes(&self, sizes: &[i64], dim: i64) -> Vec<Tensor> [self, sizes, dim];
}

fn split_any(x: &Tensor, size: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(x.dim() > 0, "split expects at least a 1-dimensional tensor");
    ensure!(size >= 0, "split expects split_size be non-negative, but got split_size={size}");
    let length = x.size(dim)?;
    ensure!(
        size > 0 || length == 0,
        "split_size can only be 0 if dimension size is 0, but got dimension size of {length}"
    );
    check_count(length / size.max(1))?;
    let sizes: Dims = match length {
        0 => Dims::from_elem(0, 1),
        n => (0..n).step_by(size as usize).map(|s| size.min(n - s)).collect(),
    };
    split_with_sizes_any(x, &sizes, dim)
}

op! {
    /// Parts of one size along a dim; the last may be smaller.
    split: "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]";
    Body::AnyBackend(kernel!(split_any; x, size, dim));
    derivative: backward! {
        self_([c], self_: Geometry, split_size: i64, dim: i64) => {
            let length = self_.sizes[wrap_dim(dim, self_.dim())?];
            let parts = (length + split_size - 1).checked_div(split_size).unwrap_or(0).max(1);
            let parts = (0..parts as usize).map(|i| c.grad_or_zeros(i)).collect::<Result<Vec<_>>>()?;
            Tensor::cat(&parts, dim)?
        }
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[5, 2]), 2, 0]];
    fn split(&self, size: i64, dim: i64) -> Vec<Tensor> [self, size, dim];
}

alias! {
    /// Parts of the given sizes along a dim.
    split_sizes: "split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]" => split_with_sizes::OP;
}

fn chunk_any(x: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(x.dim() > 0, "chunk expects at least a 1-dimensional tensor");
    ensure!(chunks > 0, "chunk expects `chunks` to be greater than 0, got: {chunks}");
    let length = x.size(dim)?;
    let size = length / chunks + i64::from(length % chunks > 0);
    check_count(if size == 0 { chunks } else { length / size })?;
    match (size, length) {
        (0, 0) => x.split_with_sizes(&Dims::from_elem(0, chunks as usize), dim),
        _ => x.split(size, dim),
    }
}

op! {
    /// At most `chunks` parts of equal size along a dim; the last may be smaller.
    chunk: "chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]";
    Body::Composite(kernel!(chunk_any; x, chunks, dim));
    samples: |m| vec![sample![m.any(&[5, 2]), 3, 0]];
    fn chunk(&self, chunks: i64, dim: i64) -> Vec<Tensor> [self, chunks, dim];
}

fn unbind_any(x: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    if x.dim() == 0 {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    let n = x.size(dim)?;
    check_count(n)?;
    Ok(several((0..n).map(|i| select_any(x, dim, i)).collect::<Result<_>>()?))
}

op! {
    /// The parts along a dim, without that dim.
    unbind: "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]";
    Body::AnyBackend(kernel!(unbind_any; x, dim));
    derivative: backward! {
        self_([c], self_: Geometry, dim: i64) => {
            let n = self_.sizes[wrap_dim(dim, self_.dim())?];
            let parts = (0..n as usize).map(|i| c.grad_or_zeros(i)).collect::<Result<Vec<_>>>()?;
            if parts.is_empty() { self_.zeros()? } else { Tensor::stack(&parts, dim)? }
        }
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 2]), 1]];
    fn unbind(&self, dim: i64) -> Vec<Tensor> [self, dim];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    chunk::ALL,
    diagonal::ALL,
    diagonal_backward::ALL,
    split::ALL,
    split_sizes::ALL,
    split_with_sizes::ALL,
    unbind::ALL,
    unfold::ALL,
    unfold_backward::ALL,
];
