//! The scatter forms of views: a copy of a tensor with another tensor's elements where the view would be.

use super::index::zeros_to_read;
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims};
use crate::{Body, Op, Result, Tensor, backward, ensure, sample};

/// A copy with the same strides and offset, gaps included, so that a view of it lies where it would in the original.
fn clone_as_it_lies(x: &Tensor) -> Result<Tensor> {
    if dims::may_overlap(x.sizes(), x.strides()) {
        return x.clone_in(crate::MemoryFormat::Preserve);
    }
    let extent = dims::storage_extent(x.sizes(), x.strides())?.saturating_add(x.storage_offset());
    let all = x.as_strided(&[extent], &[1], Some(0))?.clone_in(crate::MemoryFormat::Contiguous)?;
    all.as_strided(x.sizes(), x.strides(), Some(x.storage_offset()))
}

/// A copy of `x` with `src` in the part that `view` shows.
fn placed(x: &Tensor, src: &Tensor, view: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let out = clone_as_it_lies(x)?;
    let part = view(&out)?;
    ensure!(
        part.sizes() == src.sizes(),
        "expected src to have a size equal to the slice of self. src size = {:?}, slice size = {:?}",
        src.sizes(),
        part.sizes()
    );
    part.copy_(src)?;
    Ok(out)
}

/// Zeros of an argument's sizes, to erase the gradient of what it replaced.
fn nothing(like: &Geometry, g: &Tensor) -> Result<Tensor> {
    zeros_to_read(&like.sizes, g)
}

fn select_scatter_any(x: &Tensor, src: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    placed(x, src, |t| t.select(dim, index))
}

op! {
    /// This tensor with `src` at one index of a dim.
    select_scatter: "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
        Out OUT: "select_scatter.out(Tensor self, Tensor src, int dim, SymInt index, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(select_scatter_any; x, src, dim, index));
    derivative: backward! {
        self_(g, src: Geometry, dim: i64, index: i64) => g.select_scatter(&nothing(&src, g)?, dim, index)?,
        src(g, dim: i64, index: i64) => g.select(dim, index)?,
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 4]), m.any(&[3]), 1, -2]];
    out_rule: crate::OutRule::EXACT;
    fn select_scatter(&self, src: &Tensor, dim: i64, index: i64) -> Tensor [self, src, dim, index];
}

fn slice_scatter_any(x: &Tensor, src: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
    placed(x, src, |t| t.slice(dim, start, end, step))
}

op! {
    /// This tensor with `src` in a slice of a dim.
    slice_scatter: "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
        Out OUT: "slice_scatter.out(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(slice_scatter_any; x, src, dim, start, end, step));
    derivative: backward! {
        self_(g, src: Geometry, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) =>
            g.slice_scatter(&nothing(&src, g)?, dim, start, end, step)?,
        src(g, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) => g.slice(dim, start, end, step)?,
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[5, 4]), m.any(&[2, 4]), 0, 1, 4, 2], sample![m.any(&[3, 4]), m.any(&[3, 4]), 1, (), (), 1]];
    out_rule: crate::OutRule::EXACT;
    fn slice_scatter(&self, src: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Tensor
        [self, src, dim, start, end, step];
}

fn diagonal_scatter_any(x: &Tensor, src: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    placed(x, src, |t| t.diagonal(offset, dim1, dim2))
}

op! {
    /// This tensor with `src` on a diagonal of two dims.
    diagonal_scatter: "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
        Out OUT: "diagonal_scatter.out(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(diagonal_scatter_any; x, src, offset, dim1, dim2));
    derivative: backward! {
        self_(g, src: Geometry, offset: i64, dim1: i64, dim2: i64) =>
            g.diagonal_scatter(&nothing(&src, g)?, offset, dim1, dim2)?,
        src(g, offset: i64, dim1: i64, dim2: i64) => g.diagonal(offset, dim1, dim2)?,
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 4]), m.any(&[3]), 0, 0, 1], sample![m.any(&[2, 3, 4]), m.any(&[2, 3]), 1, -2, -1]];
    out_rule: crate::OutRule::EXACT;
    fn diagonal_scatter(&self, src: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Tensor [self, src, offset, dim1, dim2];
}

fn as_strided_scatter_any(x: &Tensor, src: &Tensor, size: &[i64], stride: &[i64], offset: Option<i64>) -> Result<Tensor> {
    placed(x, src, |t| t.as_strided(size, stride, offset))
}

/// A gradient with the strides and offset of the input, so that `as_strided` finds the same elements in both.
fn laid_out_like(g: &Tensor, input: &Geometry) -> Result<Tensor> {
    if input.storage_offset == 0 && dims::is_contiguous(&input.sizes, &input.strides) {
        return g.contiguous();
    }
    let extent = dims::storage_extent(&input.sizes, &input.strides)? + input.storage_offset;
    if !dims::may_overlap(&input.sizes, &input.strides) {
        let place = |t: &Tensor| t.as_strided(&input.sizes, &input.strides, Some(input.storage_offset));
        let all = Tensor::zeros(&[extent], (g.dtype(), g.device()))?;
        place(&all)?.copy_(g)?;
        return place(&all);
    }
    let places = Tensor::arange(extent, crate::DType::I64)?.to_device(g.device())?;
    let places = places.as_strided(&input.sizes, &input.strides, Some(input.storage_offset))?.reshape(&[-1])?;
    let flat = Tensor::zeros(&[extent], (g.dtype(), g.device()))?.index_add(0, &places, &g.reshape(&[-1])?)?;
    flat.as_strided(&input.sizes, &input.strides, Some(input.storage_offset))
}

op! {
    /// This tensor with `src` at the elements that `as_strided` would show.
    as_strided_scatter: "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
        Out OUT: "as_strided_scatter.out(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(as_strided_scatter_any; x, src, size, stride, offset));
    derivative: backward! {
        self_(g, self_: Geometry, src: Geometry, size: Dims, stride: Dims, storage_offset: Option<i64>) =>
            laid_out_like(g, &self_)?.as_strided_scatter(&nothing(&src, g)?, &size, &stride, storage_offset)?,
        src(g, self_: Geometry, size: Dims, stride: Dims, storage_offset: Option<i64>) =>
            laid_out_like(g, &self_)?.as_strided(&size, &stride, storage_offset)?,
    };
    forward: Forward::FromBackward;
    samples: |m| vec![sample![m.any(&[3, 4]), m.any(&[2, 3]), vec![2i64, 3], vec![4i64, 1], 1]];
    fn as_strided_scatter(&self, src: &Tensor, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Tensor
        [self, src, size, stride, storage_offset];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] =
    &[as_strided_scatter::ALL, diagonal_scatter::ALL, select_scatter::ALL, slice_scatter::ALL];
