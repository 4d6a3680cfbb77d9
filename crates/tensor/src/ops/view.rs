//! Views: other sizes, strides and offsets over the same storage.

use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims, wrap_dim};
use crate::tensor::check_geometry;
use crate::{Body, DType, Error, Op, Result, Tensor, backward, ensure, sample};

pub(super) fn dims_of(x: &[i64]) -> Dims {
    Dims::from_slice(x)
}

// ---- as_strided ---------------------------------------------------------------------------------

fn as_strided_any(x: &Tensor, size: &[i64], stride: &[i64], offset: Option<i64>) -> Result<Tensor> {
    let offset = offset.unwrap_or(x.storage_offset());
    check_geometry(x.storage(), x.dtype(), size, stride, offset)?;
    Ok(x.make_view(dims_of(size), dims_of(stride), offset))
}

op! {
    /// A view with any sizes, strides and offset that fit the storage.
    as_strided: "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)";
    Body::AnyBackend(kernel!(as_strided_any; x, size, stride, offset));
    derivative: backward! {
        self_(g, self_: Geometry, size: Dims, stride: Dims, storage_offset: Option<i64>) =>
            as_strided_backward(g, &self_, &size, &stride, storage_offset)?
    };
    forward: Forward::FromBackward;
    samples: |m| vec![
        sample![m.any(&[3, 4]), vec![2i64, 3], vec![4i64, 1], 1],
        sample![m.any(&[3, 4]), vec![2i64, 2, 2], vec![1i64, 1, 4], ()],
    ];
    fn as_strided(&self, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Tensor [self, size, stride, storage_offset];
}

/// The gradient of `as_strided` in the input's geometry: added up over one stretch of storage that covers both, since
/// either geometry may reach an element more than once.
fn as_strided_backward(
    g: &Tensor,
    input: &Geometry,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let out_offset = offset.unwrap_or(input.storage_offset);
    let low = out_offset.min(input.storage_offset);
    let extent =
        |sizes: &[i64], strides: &[i64], offset: i64| dims::storage_extent(sizes, strides).map(|e| e.saturating_add(offset - low));
    let length = extent(size, stride, out_offset)?.max(extent(&input.sizes, &input.strides, input.storage_offset)?);
    let flat = Tensor::zeros(&[length], (g.dtype(), g.device()))?;
    let flat = match dims::may_overlap(size, stride) {
        false => {
            let part = flat.as_strided(size, stride, Some(out_offset - low))?;
            part.copy_(g)?;
            flat
        }
        true => {
            let places = Tensor::arange(length, DType::I64)?.to_device(g.device())?;
            let places = places.as_strided(size, stride, Some(out_offset - low))?.reshape(&[-1])?;
            flat.index_add(0, &places, &g.reshape(&[-1])?)?
        }
    };
    // Elements that the input reaches several times share their gradient.
    let flat = match dims::may_overlap(&input.sizes, &input.strides) {
        false => flat,
        true => {
            let ones = Tensor::ones(&input.sizes, (g.dtype(), g.device()))?.reshape(&[-1])?;
            let places = Tensor::arange(length, DType::I64)?.to_device(g.device())?;
            let places =
                places.as_strided(&input.sizes, &input.strides, Some(input.storage_offset - low))?.reshape(&[-1])?;
            let count = Tensor::zeros(&[length], (g.dtype(), g.device()))?.index_add(0, &places, &ones)?;
            flat.div(&count)?
        }
    };
    flat.as_strided(&input.sizes, &input.strides, Some(input.storage_offset - low))
}

// ---- one dim ------------------------------------------------------------------------------------

/// The dim and the index in it that a selection means.
#[inline]
pub(crate) fn selected(x: &Tensor, dim: i64, index: i64) -> Result<(usize, i64)> {
    if x.dim() == 0 {
        return Err(Error::index("select() cannot be applied to a 0-dim tensor."));
    }
    let d = wrap_dim(dim, x.dim())?;
    let size = x.sizes()[d];
    if index < -size || index >= size {
        return Err(Error::index(format!(
            "select(): index {index} out of range for tensor of size {:?} at dimension {d}",
            x.sizes()
        )));
    }
    Ok((d, if index < 0 { index + size } else { index }))
}

pub(super) fn select_any(x: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let (d, index) = selected(x, dim, index)?;
    Ok(x.edited_view(dims::advanced(x.storage_offset(), index, x.strides()[d]), |sizes, strides| {
        sizes.remove(d);
        strides.remove(d);
    }))
}

op! {
    /// The part with one index along a dim, without that dim.
    select: "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)";
    Body::AnyBackend(kernel!(select_any; x, dim, index));
    derivative: backward! {
        self_(g, self_: Geometry, dim: i64, index: i64) => Tensor::select_backward(g, &self_.sizes, dim, index)?
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 4]), 0, 1], sample![m.any(&[3, 4]), -1, -2]];
    fn select(&self, dim: i64, index: i64) -> Tensor [self, dim, index];
}

fn select_backward_any(g: &Tensor, sizes: &[i64], dim: i64, index: i64) -> Result<Tensor> {
    let out = Tensor::zeros(sizes, (g.dtype(), g.device()))?;
    out.select(dim, index)?.copy_(g)?;
    Ok(out)
}

op! {
    /// Zeros of the given sizes with `grad_output` at one index of a dim.
    select_backward: "select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor";
    Body::Explicit(kernel!(select_backward_any; g, sizes, dim, index));
    derivative: backward! { grad_output(g, dim: i64, index: i64) => g.select(dim, index)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 4]), vec![2i64, 3, 4], 1, 2]];
    fn select_backward(grad_output: &Tensor, sizes: &[i64], dim: i64, index: i64) -> Tensor [grad_output, sizes, dim, index];
}

/// The clamped start of a slice of a dim of `size`, and how many elements it has.
#[inline]
fn slice_bounds(size: i64, start: Option<i64>, end: Option<i64>, step: i64) -> (i64, i64) {
    let wrap = |i: i64| if i < 0 { i.saturating_add(size) } else { i }.clamp(0, size);
    let start = wrap(start.unwrap_or(0));
    let end = wrap(end.unwrap_or(i64::MAX)).max(start);
    let length = end - start;
    (start, if step == 1 || length == 0 { length } else { (length - 1) / step + 1 })
}

pub(super) fn slice_any(x: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
    ensure!(x.dim() > 0, "slice() cannot be applied to a 0-dim tensor.");
    let d = wrap_dim(dim, x.dim())?;
    ensure!(step > 0, "slice step must be positive");
    let (size, stride) = (x.sizes()[d], x.strides()[d]);
    let (start, count) = slice_bounds(size, start, end, step);
    Ok(x.edited_view(dims::advanced(x.storage_offset(), start, stride), |sizes, strides| {
        sizes[d] = count;
        // A step beyond all memory leaves one element at most, which has no use for a stride.
        strides[d] = stride.checked_mul(step).filter(|s| s.unsigned_abs() < 1 << 48).unwrap_or(stride);
    }))
}

op! {
    /// Every `step`th part from `start` to `end` (exclusive) along a dim; bounds count from the end when negative.
    slice: "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)";
    Body::AnyBackend(kernel!(slice_any; x, dim, start, end, step));
    derivative: backward! {
        self_(g, self_: Geometry, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) =>
            Tensor::slice_backward(g, &self_.sizes, dim, start.unwrap_or(0), end.unwrap_or(i64::MAX), step)?
    };
    forward: Forward::Linear;
    samples: |m| vec![
        sample![m.any(&[5, 4]), 0, 1, 4, 2], sample![m.any(&[5, 4]), 1, (), (), 1], sample![m.any(&[5, 4]), -1, -3, -1, 1],
    ];
    fn slice(&self, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Tensor [self, dim, start, end, step];
}

fn slice_backward_any(g: &Tensor, sizes: &[i64], dim: i64, start: i64, end: i64, step: i64) -> Result<Tensor> {
    let out = Tensor::zeros(sizes, (g.dtype(), g.device()))?;
    out.slice(dim, Some(start), Some(end), step)?.copy_(g)?;
    Ok(out)
}

op! {
    /// Zeros of the given sizes with `grad_output` in a slice of a dim.
    slice_backward: "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor";
    Body::Explicit(kernel!(slice_backward_any; g, sizes, dim, start, end, step));
    derivative: backward! {
        grad_output(g, dim: i64, start: i64, end: i64, step: i64) => g.slice(dim, Some(start), Some(end), step)?
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 2, 4]), vec![2i64, 5, 4], 1, 0, 4, 2]];
    fn slice_backward(grad_output: &Tensor, sizes: &[i64], dim: i64, start: i64, end: i64, step: i64) -> Tensor
        [grad_output, sizes, dim, start, end, step];
}

fn narrow_any(x: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    ensure!(x.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
    ensure!(length >= 0, "narrow(): length must be non-negative.");
    let size = x.size(dim)?;
    if start < -size || start > size {
        return Err(Error::index(format!(
            "start out of range (expected to be in range of [{}, {size}], but got {start})",
            -size
        )));
    }
    let start = if start < 0 { start + size } else { start };
    ensure!(length <= size - start, "start ({start}) + length ({length}) exceeds dimension size ({size}).");
    x.slice(dim, Some(start), Some(start + length), 1)
}

op! {
    /// `length` parts from `start` along a dim.
    narrow: "narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)";
    Body::Composite(kernel!(narrow_any; x, dim, start, length));
    samples: |m| vec![sample![m.any(&[5, 4]), 0, 1, 3]];
    fn narrow(&self, dim: i64, start: i64, length: i64) -> Tensor [self, dim, start, length];
}

fn narrow_from_tensor(x: &Tensor, dim: i64, start: &Tensor, length: i64) -> Result<Tensor> {
    ensure!(start.dim() == 0 && start.dtype().is_integral(false), "start must be an 0-dim integral Tensor.");
    narrow_any(x, dim, start.item()?.to_i64(), length)
}

op! {
    /// `length` parts along a dim, from where a tensor without dims says.
    narrow_tensor: "narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)";
    Body::Composite(kernel!(narrow_from_tensor; x, dim, start, length));
    samples: |m| vec![sample![m.any(&[5, 4]), 0, m.indices(&[], 2), 3]];
}

// ---- order of dims ------------------------------------------------------------------------------

fn transpose_any(x: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    let (a, b) = (wrap_dim(dim0, x.dim())?, wrap_dim(dim1, x.dim())?);
    Ok(x.edited_view(x.storage_offset(), |sizes, strides| {
        // (A tensor without dims has none to swap.)
        if a != b {
            sizes.swap(a, b);
            strides.swap(a, b);
        }
    }))
}

op! {
    /// Two dims swapped.
    transpose: "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)";
    Body::AnyBackend(kernel!(transpose_any; x, dim0, dim1));
    derivative: backward! { self_(g, dim0: i64, dim1: i64) => g.transpose(dim0, dim1)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3, 4]), 0, -1]];
    fn transpose(&self, dim0: i64, dim1: i64) -> Tensor [self, dim0, dim1];
}

fn t_any(x: &Tensor) -> Result<Tensor> {
    ensure!(x.dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is {}D", x.dim());
    transpose_any(x, 0, if x.dim() < 2 { 0 } else { 1 })
}

op! {
    /// A matrix transposed; vectors and numbers as they are.
    t: "t(Tensor(a) self) -> Tensor(a)";
    Body::AnyBackend(kernel!(t_any; x));
    derivative: backward! { self_(g) => g.t()? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3])], sample![m.any(&[3])]];
    fn t(&self) -> Tensor [self];
}

fn mt_any(x: &Tensor) -> Result<Tensor> {
    ensure!(x.dim() != 1, "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.");
    if x.dim() == 0 { x.alias() } else { x.transpose(-2, -1) }
}

op! {
    /// The last two dims swapped.
    mt: "mT(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(mt_any; x));
    samples: |m| vec![sample![m.any(&[2, 3, 4])]];
    fn mt(&self) -> Tensor [self];
}

fn permute_any(x: &Tensor, order: &[i64]) -> Result<Tensor> {
    ensure!(
        order.len() == x.dim(),
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering \
         of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
        x.dim(),
        order.len()
    );
    let (mut sizes, mut strides) = (Dims::new(), Dims::new());
    let mut seen = Dims::new();
    for &d in order {
        let d = wrap_dim(d, x.dim())?;
        ensure!(!seen.contains(&(d as i64)), "permute(): duplicate dims are not allowed.");
        seen.push(d as i64);
        sizes.push(x.sizes()[d]);
        strides.push(x.strides()[d]);
    }
    Ok(x.make_view(sizes, strides, x.storage_offset()))
}

/// The permutation that undoes `order`.
fn inverse(order: &[i64]) -> Result<Dims> {
    let mut out = Dims::from_elem(0, order.len());
    for (i, &d) in order.iter().enumerate() {
        out[wrap_dim(d, order.len())?] = i as i64;
    }
    Ok(out)
}

op! {
    /// The dims in another order.
    permute: "permute(Tensor(a) self, int[] dims) -> Tensor(a)";
    Body::AnyBackend(kernel!(permute_any; x, order));
    derivative: backward! { self_(g, dims: Dims) => g.permute(&inverse(&dims)?)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3, 4]), vec![2i64, 0, 1]], sample![m.any(&[2, 3, 4]), vec![0i64, -1, 1]]];
    fn permute(&self, order: &[i64]) -> Tensor [self, order];
}

fn movedim_any(x: &Tensor, source: &[i64], destination: &[i64]) -> Result<Tensor> {
    ensure!(
        source.len() == destination.len(),
        "movedim: Invalid source or destination dims: source ({source:?} dims) should contain the same number of dims as \
         destination ({destination:?} dims)"
    );
    let n = x.dim();
    let wrap = |dims: &[i64], what: &str| -> Result<Vec<usize>> {
        let out = dims.iter().map(|&d| wrap_dim(d, n)).collect::<Result<Vec<_>>>()?;
        let repeated = out.iter().enumerate().any(|(i, d)| out[..i].contains(d));
        ensure!(!repeated, "movedim: repeated dim in `{what}` ({dims:?})");
        Ok(out)
    };
    let (source, destination) = (wrap(source, "source")?, wrap(destination, "destination")?);
    if n == 0 {
        return x.alias();
    }
    let mut order = vec![None; n];
    for (s, d) in source.iter().zip(&destination) {
        order[*d] = Some(*s);
    }
    let mut rest = (0..n).filter(|d| !source.contains(d));
    let order: Dims = order.into_iter().map(|o| o.or_else(|| rest.next()).unwrap_or(0) as i64).collect();
    x.permute(&order)
}

op! {
    /// Moves dims to other places; the rest keep their order.
    movedim: "movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)";
    Body::Composite(kernel!(movedim_any; x, source, destination));
    samples: |m| vec![sample![m.any(&[2, 3, 4]), vec![0i64], vec![2i64]]];
    fn movedim(&self, source: &[i64], destination: &[i64]) -> Tensor [self, source, destination];
}

fn movedim_one(x: &Tensor, source: i64, destination: i64) -> Result<Tensor> {
    movedim_any(x, &[source], &[destination])
}

op! {
    /// Moves one dim to another place; the rest keep their order.
    movedim_int: "movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)";
    Body::Composite(kernel!(movedim_one; x, source, destination));
    samples: |m| vec![sample![m.any(&[2, 3, 4]), 0, -1]];
}

// ---- shape --------------------------------------------------------------------------------------

fn view_any(x: &Tensor, size: &[i64]) -> Result<Tensor> {
    let size = dims::infer_size(size, x.numel())?;
    let strides = dims::view_strides(x.sizes(), x.strides(), &size).ok_or_else(|| {
        Error::runtime(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
             contiguous subspaces). Use .reshape(...) instead.",
        )
    })?;
    Ok(x.make_view(size, strides, x.storage_offset()))
}

op! {
    /// The same memory in another shape; one size may be -1.
    view: "view(Tensor(a) self, SymInt[] size) -> Tensor(a)";
    Body::AnyBackend(kernel!(view_any; x, size));
    derivative: backward! { self_(g, self_: Geometry) => g.reshape(&self_.sizes)? };
    forward: Forward::FromBackward;
    samples: |m| vec![sample![m.any(&[2, 6]), vec![3i64, -1]], sample![m.any(&[2, 6]), vec![12i64]]];
    fn view(&self, size: &[i64]) -> Tensor [self, size];
}

fn unsafe_view_any(x: &Tensor, size: &[i64]) -> Result<Tensor> {
    x.view(size)
}

fn reshape_any(x: &Tensor, size: &[i64]) -> Result<Tensor> {
    let size = dims::infer_size(size, x.numel())?;
    match dims::view_strides(x.sizes(), x.strides(), &size) {
        Some(_) => x.view(&size),
        None => x.clone_in(crate::MemoryFormat::Contiguous)?._unsafe_view(&size),
    }
}

op! {
    /// The elements of a tensor that nobody else holds in another shape: as `view`, but the result counts as no view.
    _unsafe_view: "_unsafe_view(Tensor self, SymInt[] size) -> Tensor";
    Body::Explicit(kernel!(unsafe_view_any; x, size));
    derivative: backward! { self_(g, self_: Geometry) => g.reshape(&self_.sizes)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 6]), vec![3i64, -1]]];
    fn _unsafe_view(&self, size: &[i64]) -> Tensor [self, size];
}

op! {
    /// The elements in another shape: a view where possible, else a copy. One size may be -1.
    reshape: "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)";
    Body::Composite(kernel!(reshape_any; x, size));
    samples: |m| vec![sample![m.any(&[2, 6]), vec![3i64, -1]]];
    fn reshape(&self, shape: &[i64]) -> Tensor [self, shape];
}

fn view_as_any(x: &Tensor, other: &Tensor) -> Result<Tensor> {
    x.view(other.sizes())
}

op! {
    /// The same memory in the shape of another tensor.
    view_as: "view_as(Tensor(a) self, Tensor other) -> Tensor(a)";
    Body::Composite(kernel!(view_as_any; x, other));
    samples: |m| vec![sample![m.any(&[2, 6]), m.any(&[3, 4])]];
    fn view_as(&self, other: &Tensor) -> Tensor [self, other];
}

fn flatten_any(x: &Tensor, start: i64, end: i64) -> Result<Tensor> {
    let (start, end) = (wrap_dim(start, x.dim())?, wrap_dim(end, x.dim())?);
    ensure!(start <= end, "flatten() has invalid args: start_dim cannot come after end_dim");
    if x.dim() == 0 {
        return x.reshape(&[1]);
    }
    if start == end {
        return Ok(x.clone());
    }
    let mut shape = dims_of(&x.sizes()[..start]);
    shape.push(x.sizes()[start..=end].iter().product());
    shape.extend_from_slice(&x.sizes()[end + 1..]);
    x.reshape(&shape)
}

op! {
    /// The dims from `start_dim` to `end_dim` merged into one.
    flatten: "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)";
    Body::Composite(kernel!(flatten_any; x, start, end));
    samples: |m| vec![sample![m.any(&[2, 3, 4]), 1, -1], sample![m.any(&[]), 0, -1]];
    fn flatten(&self, start_dim: i64, end_dim: i64) -> Tensor [self, start_dim, end_dim];
}

fn unflatten_any(x: &Tensor, dim: i64, sizes: &[i64]) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim())?;
    ensure!(!sizes.is_empty(), "unflatten: sizes must be non-empty");
    let inner = dims::infer_size(sizes, x.size(dim)?).map_err(|e| {
        Error::runtime(match e.message().contains("is invalid for input") {
            true => format!(
                "unflatten: Provided sizes {sizes:?} don't multiply up to the size of dim {d} ({}) in the input tensor",
                x.sizes().get(d).copied().unwrap_or(1)
            ),
            false => format!("unflatten got an unexpected error:\n{e}"),
        })
    })?;
    let mut shape = dims_of(&x.sizes()[..d]);
    shape.extend_from_slice(&inner);
    shape.extend_from_slice(&x.sizes()[d + 1..]);
    x.view(&shape)
}

op! {
    /// One dim split into several; one size may be -1.
    unflatten: "unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)";
    Body::Composite(kernel!(unflatten_any; x, dim, sizes));
    samples: |m| vec![sample![m.any(&[2, 6]), 1, vec![2i64, -1]]];
    fn unflatten(&self, dim: i64, sizes: &[i64]) -> Tensor [self, dim, sizes];
}

fn squeeze_where(x: &Tensor, drop: impl Fn(usize) -> bool) -> Tensor {
    let keep = |d: &usize| x.sizes()[*d] != 1 || !drop(*d);
    let kept: Vec<usize> = (0..x.dim()).filter(keep).collect();
    let sizes = kept.iter().map(|&d| x.sizes()[d]).collect();
    let strides = kept.iter().map(|&d| x.strides()[d]).collect();
    x.make_view(sizes, strides, x.storage_offset())
}

fn squeeze_any(x: &Tensor) -> Result<Tensor> {
    Ok(squeeze_where(x, |_| true))
}

op! {
    /// Without the dims of size 1.
    squeeze: "squeeze(Tensor(a) self) -> Tensor(a)";
    Body::AnyBackend(kernel!(squeeze_any; x));
    derivative: backward! { self_(g, self_: Geometry) => g.reshape(&self_.sizes)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[1, 3, 1])]];
    fn squeeze(&self) -> Tensor [self];
}

fn squeeze_dim_any(x: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim())?;
    Ok(squeeze_where(x, |i| i == d))
}

op! {
    /// Without one dim, if its size is 1.
    squeeze_dim: "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)";
    Body::AnyBackend(kernel!(squeeze_dim_any; x, dim));
    derivative: backward! { self_(g, self_: Geometry) => g.reshape(&self_.sizes)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[1, 3, 1]), -1]];
    fn squeeze_dim(&self, dim: i64) -> Tensor [self, dim];
}

fn squeeze_dims_any(x: &Tensor, list: &[i64]) -> Result<Tensor> {
    let list = list.iter().map(|&d| wrap_dim(d, x.dim())).collect::<Result<Vec<_>>>()?;
    Ok(squeeze_where(x, |i| list.contains(&i)))
}

op! {
    /// Without those of the given dims whose size is 1.
    squeeze_dims: "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)";
    Body::AnyBackend(kernel!(squeeze_dims_any; x, dim));
    derivative: backward! { self_(g, self_: Geometry) => g.reshape(&self_.sizes)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[1, 3, 1]), vec![0i64, 2]]];
    fn squeeze_dims(&self, dims: &[i64]) -> Tensor [self, dims];
}

fn unsqueeze_any(x: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim() + 1)?;
    let (mut sizes, mut strides) = (dims::copy(&x.0.sizes), dims::copy(&x.0.strides));
    let stride = if d < x.dim() { sizes[d] * strides[d] } else { 1 };
    sizes.insert(d, 1);
    strides.insert(d, stride);
    Ok(x.make_view(sizes, strides, x.storage_offset()))
}

op! {
    /// With a dim of size 1 put in.
    unsqueeze: "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)";
    Body::AnyBackend(kernel!(unsqueeze_any; x, dim));
    derivative: backward! { self_(g, dim: i64) => g.squeeze_dim(dim)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3]), 1], sample![m.any(&[2, 3]), -1]];
    fn unsqueeze(&self, dim: i64) -> Tensor [self, dim];
}

fn expand_any(x: &Tensor, size: &[i64], _implicit: bool) -> Result<Tensor> {
    ensure!(
        size.len() >= x.dim(),
        "expand(torch.{}Tensor{{{:?}}}, size={size:?}): the number of sizes provided ({}) must be greater or equal to the number \
         of dimensions in the tensor ({})",
        x.dtype().scalar_type_name(),
        x.sizes(),
        size.len(),
        x.dim()
    );
    let skip = size.len() - x.dim();
    let mut target = dims_of(size);
    for (d, s) in target.iter_mut().enumerate() {
        if *s == -1 {
            ensure!(
                d >= skip,
                "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {d}"
            );
            *s = x.sizes()[d - skip];
        }
    }
    let mut strides = dims::broadcast_strides(x.sizes(), x.strides(), &target)?;
    ensure!(target.iter().all(|s| *s >= 0), "numel: integer multiplication overflow");
    dims::check_countable(&target)?;
    for d in 0..x.dim() {
        // A dim that is not expanded keeps its stride even at size 1.
        if target[skip + d] == x.sizes()[d] {
            strides[skip + d] = x.strides()[d];
        }
    }
    Ok(x.make_view(target, strides, x.storage_offset()))
}

op! {
    /// Dims of size 1 repeated, and new dims in front, without copying; -1 keeps a size.
    expand: "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)";
    Body::AnyBackend(kernel!(expand_any; x, size, implicit));
    derivative: backward! { self_(g, self_: Geometry) => g.sum_to_size(&self_.sizes)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 1]), vec![2i64, 3, 4], false], sample![m.any(&[]), vec![2i64], false]];
    fn expand(&self, size: &[i64]) -> Tensor [self, size, false];
}

fn expand_as_any(x: &Tensor, other: &Tensor) -> Result<Tensor> {
    x.expand(other.sizes())
}

op! {
    /// Expanded to the sizes of another tensor.
    expand_as: "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)";
    Body::Composite(kernel!(expand_as_any; x, other));
    samples: |m| vec![sample![m.any(&[3, 1]), m.any(&[2, 3, 4])]];
    fn expand_as(&self, other: &Tensor) -> Tensor [self, other];
}

// ---- the same elements otherwise ----------------------------------------------------------------

fn alias_any(x: &Tensor) -> Result<Tensor> {
    Ok(x.make_view(dims::copy(&x.0.sizes), dims::copy(&x.0.strides), x.storage_offset()))
}

op! {
    /// Another tensor over the same elements.
    alias: "alias(Tensor(a) self) -> Tensor(a)";
    Body::AnyBackend(kernel!(alias_any; x));
    derivative: backward! { self_(g) => g.clone() };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3])]];
    fn alias(&self) -> Tensor [self];
}

fn view_dtype_any(x: &Tensor, dtype: DType) -> Result<Tensor> {
    let (from, to) = (x.element_size() as i64, dtype.size() as i64);
    let (mut sizes, mut strides) = (dims::copy(&x.0.sizes), dims::copy(&x.0.strides));
    if from == to {
        return Ok(x.make_view_as(dtype, sizes, strides, x.storage_offset()));
    }
    ensure!(x.dim() > 0, "self.dim() cannot be 0 to view {} as {} (different element sizes)", x.dtype().scalar_type_name(), dtype.scalar_type_name());
    let last = x.dim() - 1;
    ensure!(
        strides[last] == 1,
        "self.stride(-1) must be 1 to view {} as {} (different element sizes), but got {}",
        x.dtype().scalar_type_name(),
        dtype.scalar_type_name(),
        strides[last]
    );
    if from > to {
        let ratio = from / to;
        sizes[last] = sizes[last].saturating_mul(ratio);
        dims::check_countable(&sizes)?;
        for s in &mut strides[..last] {
            *s = s.saturating_mul(ratio);
        }
        return Ok(x.make_view_as(dtype, sizes, strides, x.storage_offset().saturating_mul(ratio)));
    }
    let ratio = to / from;
    ensure!(
        sizes[last] % ratio == 0,
        "self.size(-1) must be divisible by {ratio} to view {} as {} (different element sizes), but got {}",
        x.dtype().scalar_type_name(),
        dtype.scalar_type_name(),
        sizes[last]
    );
    ensure!(
        x.storage_offset() % ratio == 0,
        "self.storage_offset() must be divisible by {ratio} to view {} as {} (different element sizes), but got {}",
        x.dtype().scalar_type_name(),
        dtype.scalar_type_name(),
        x.storage_offset()
    );
    sizes[last] /= ratio;
    for (d, s) in strides[..last].iter_mut().enumerate() {
        ensure!(
            *s % ratio == 0,
            "self.stride({d}) must be divisible by {ratio} to view {} as {} (different element sizes), but got {s}",
            x.dtype().scalar_type_name(),
            dtype.scalar_type_name()
        );
        *s /= ratio;
    }
    Ok(x.make_view_as(dtype, sizes, strides, x.storage_offset() / ratio))
}

op! {
    /// The same bytes as another dtype; the last dim shrinks or grows with the element size.
    view_dtype: "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)";
    Body::AnyBackend(kernel!(view_dtype_any; x, dtype));
    samples: |m| vec![sample![m.any(&[2, 3]), m.dtype]];
    fn view_dtype(&self, dtype: DType) -> Tensor [self, dtype];
}

fn view_as_real_any(x: &Tensor) -> Result<Tensor> {
    ensure!(x.dtype().is_complex(), "view_as_real is only supported for complex tensors");
    let mut sizes = dims::copy(&x.0.sizes);
    let mut strides: Dims = x.strides().iter().map(|s| s.saturating_mul(2)).collect();
    sizes.push(2);
    strides.push(1);
    dims::check_countable(&sizes)?;
    Ok(x.make_view_as(x.dtype().to_real(), sizes, strides, x.storage_offset().saturating_mul(2)))
}

op! {
    /// A complex tensor as a real one with a last dim of real and imaginary parts.
    view_as_real: "view_as_real(Tensor(a) self) -> Tensor(a)";
    Body::AnyBackend(kernel!(view_as_real_any; x));
    derivative: backward! { self_(g) => g.contiguous()?.view_as_complex()? };
    forward: Forward::Linear;
    samples: |m| if m.dtype.is_complex() { vec![sample![m.any(&[2, 3])]] } else { vec![] };
    fn view_as_real(&self) -> Tensor [self];
}

fn view_as_complex_any(x: &Tensor) -> Result<Tensor> {
    ensure!(
        matches!(x.dtype(), DType::F32 | DType::F64),
        "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {}",
        x.dtype().scalar_type_name()
    );
    ensure!(x.dim() > 0, "Input tensor must have one or more dimensions");
    let last = x.dim() - 1;
    ensure!(x.sizes()[last] == 2, "Tensor must have a last dimension of size 2");
    ensure!(x.strides()[last] == 1, "Tensor must have a last dimension with stride 1");
    ensure!(x.storage_offset() % 2 == 0, "Tensor must have a storage_offset divisible by 2");
    ensure!(
        x.strides()[..last].iter().zip(x.sizes()).all(|(s, n)| s % 2 == 0 || *n == 1),
        "Tensor must have a stride divisible by 2 for all but last dimension"
    );
    let sizes = dims_of(&x.sizes()[..last]);
    let strides = x.strides()[..last].iter().map(|s| s / 2).collect();
    Ok(x.make_view_as(x.dtype().to_complex(), sizes, strides, x.storage_offset() / 2))
}

op! {
    /// A real tensor with a last dim of two as complex numbers.
    view_as_complex: "view_as_complex(Tensor(a) self) -> Tensor(a)";
    Body::AnyBackend(kernel!(view_as_complex_any; x));
    derivative: backward! { self_(g) => g.contiguous()?.view_as_real()? };
    forward: Forward::Linear;
    samples: |m| match m.dtype { DType::F32 | DType::F64 => vec![sample![m.any(&[3, 2])]], _ => vec![] };
    fn view_as_complex(&self) -> Tensor [self];
}

fn real_any(x: &Tensor) -> Result<Tensor> {
    match x.dtype().is_complex() {
        true => x.view_as_real()?.select(-1, 0),
        false => Ok(x.clone()),
    }
}

op! {
    /// The real parts; a real tensor itself.
    real: "real(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(real_any; x));
    samples: |m| vec![sample![m.any(&[2, 3])]];
    fn real(&self) -> Tensor [self];
}

fn imag_any(x: &Tensor) -> Result<Tensor> {
    ensure!(x.dtype().is_complex(), "imag is not implemented for tensors with non-complex dtypes.");
    x.view_as_real()?.select(-1, 1)
}

op! {
    /// The imaginary parts.
    imag: "imag(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(imag_any; x));
    samples: |m| if m.dtype.is_complex() { vec![sample![m.any(&[2, 3])]] } else { vec![] };
    fn imag(&self) -> Tensor [self];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    _unsafe_view::ALL,
    alias::ALL,
    as_strided::ALL,
    expand::ALL,
    expand_as::ALL,
    flatten::ALL,
    imag::ALL,
    movedim::ALL,
    movedim_int::ALL,
    mt::ALL,
    narrow::ALL,
    narrow_tensor::ALL,
    permute::ALL,
    real::ALL,
    reshape::ALL,
    select::ALL,
    select_backward::ALL,
    slice::ALL,
    slice_backward::ALL,
    squeeze::ALL,
    squeeze_dim::ALL,
    squeeze_dims::ALL,
    t::ALL,
    transpose::ALL,
    unflatten::ALL,
    unsqueeze::ALL,
    view::ALL,
    view_as::ALL,
    view_as_complex::ALL,
    view_as_real::ALL,
    view_dtype::ALL,
];
