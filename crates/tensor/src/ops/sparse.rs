//! Tensors of coordinates: made, taken apart, put in order, and to and from strided ones. How they are kept is in
//! [`crate::sparse`].

use super::create::{TensorOptions, factory};
use crate::autograd::Geometry;
use crate::sparse::{self, Coo, layout_name};
use crate::{Body, DType, Device, Dims, Error, Layout, Op, Result, Scalar, Tensor, Value, backward, ensure};

// ---- made of coordinates ------------------------------------------------------------------------

/// What coordinates, values and sizes must have in common.
fn check_parts(indices: &Tensor, values: &Tensor, size: &[i64]) -> Result<()> {
    ensure!(
        indices.is_strided() && values.is_strided(),
        "expected indices and values to be strided tensors, but got {} and {}",
        layout_name(indices.layout()),
        layout_name(values.layout())
    );
    ensure!(!indices.dtype().is_floating_point() && !indices.dtype().is_complex(), "indices must be an int64 tensor");
    ensure!(indices.dim() == 2, "indices must be sparse_dim x nnz, but got: {:?}", indices.sizes());
    ensure!(values.dim() > 0, "values must be a tensor with at least one dimension");
    let (sparse_dim, dense_dim) = (indices.sizes()[0], values.dim() as i64 - 1);
    ensure!(
        size.len() as i64 == sparse_dim + dense_dim,
        "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {}, sparse_dim = {sparse_dim}, dense_dim = \
         {dense_dim}",
        size.len()
    );
    let (n, m) = (indices.sizes()[1], values.sizes()[0]);
    ensure!(
        n == m,
        "indices and values must have same nnz, but got nnz from indices: {n}, nnz from values: {m}"
    );
    let mut expected = Dims::from_slice(&[n]);
    expected.extend_from_slice(&size[sparse_dim as usize..]);
    ensure!(
        *values.sizes() == expected[..],
        "values has incorrect size, expected {:?}, got {:?}",
        &expected[..],
        values.sizes()
    );
    ensure!(
        indices.device().kind == values.device().kind,
        "device of indices ({}) must match device of values ({})",
        indices.device(),
        values.device()
    );
    crate::dims::checked_numel(size).map(drop)
}

fn validate_any(
    indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    is_coalesced: Option<bool>,
    _check_pinning: Option<bool>,
) -> Result<()> {
    check_parts(indices, values, size)?;
    if indices.numel() == 0 {
        return Ok(());
    }
    let (least, most) = (indices.amin(&[1], false)?.to_vec::<i64>()?, indices.amax(&[1], false)?.to_vec::<i64>()?);
    for (d, (least, most)) in least.into_iter().zip(most).enumerate() {
        ensure!(least >= 0, "found negative index {least} for dim {d}");
        ensure!(
            most < size[d],
            "size is inconsistent with indices: for dim {d}, size is {} but found index {most}",
            size[d]
        );
    }
    if is_coalesced == Some(true) {
        let places = sparse::flatten(&indices.to_dtype(DType::I64)?, &size[..indices.sizes()[0] as usize])?;
        let places = places.to_vec::<i64>()?;
        ensure!(
            places.windows(2).all(|w| w[0] < w[1]),
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
        );
    }
    Ok(())
}

op! {
    /// Fails unless coordinates are within sizes, and in order if they are said to be.
    validate: "_validate_sparse_coo_tensor_args(Tensor indices, Tensor values, int[] size, bool? is_coalesced=None, bool? check_pinning=None) -> ()";
    Body::Explicit(kernel!(validate_any; indices, values, size, is_coalesced, check_pinning));
}

fn with_dims_and_tensors_any(
    sparse_dim: i64,
    dense_dim: i64,
    size: &[i64],
    indices: &Tensor,
    values: &Tensor,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    is_coalesced: Option<bool>,
) -> Result<Tensor> {
    let device = device.unwrap_or(values.device());
    let indices = indices.to_options(Some(DType::I64), Some(device))?;
    let values = values.to_options(dtype, Some(device))?;
    check_parts(&indices, &values, size)?;
    ensure!(
        indices.sizes()[0] == sparse_dim && values.dim() as i64 - 1 == dense_dim,
        "number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {}",
        size.len()
    );
    let coalesced = is_coalesced.unwrap_or(false);
    sparse::from_coo(size, Coo { indices, values, coalesced })
}

/// What a gradient says of the values at coordinates.
fn values_gradient(g: &Tensor, indices: &Tensor, values: &Geometry) -> Result<Tensor> {
    if !g.is_strided() {
        sparse::first_order("sparse_coo_tensor", &[g])?;
    }
    sparse::at_places(g, &indices.to_dtype(DType::I64)?)?.reshape(&values.sizes)
}

op! {
    /// A tensor of coordinates (sparse dims, entries) and values (entries, dense sizes...).
    with_dims_and_tensors: "_sparse_coo_tensor_with_dims_and_tensors(int sparse_dim, int dense_dim, SymInt[] size, Tensor indices, Tensor values, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False, bool? is_coalesced=None) -> Tensor";
    Body::Explicit(kernel!(with_dims_and_tensors_any; sparse_dim, dense_dim, size, indices, values, dtype, layout, device, pin_memory, is_coalesced));
    derivative: backward! {
        values(g, indices: Tensor, values: Geometry) => values_gradient(g, &indices, &values)?
    };
}

/// Coordinates and values as a tensor of known sizes.
fn assemble(
    indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    options: [Value<'_>; 4],
    is_coalesced: Option<bool>,
) -> Result<Tensor> {
    check_parts(indices, values, size)?;
    let [dtype, layout, device, pin] = options;
    with_dims_and_tensors::OP
        .call(&[
            indices.sizes()[0].into(),
            (values.dim() as i64 - 1).into(),
            size.into(),
            indices.into(),
            values.into(),
            dtype,
            layout,
            device,
            pin,
            is_coalesced.into(),
        ])?
        .one()
}

/// The dtype, layout, device and pinning of a call, which start at argument `i`, and whether it is coalesced.
fn tail<'a>(args: &[Value<'a>], i: usize) -> ([Value<'a>; 4], Option<bool>) {
    let at = |k: usize| args.get(i + k).copied().unwrap_or(Value::None);
    let coalesced = match at(4) {
        Value::Bool(b) => Some(b),
        _ => None,
    };
    ([at(0), at(1), at(2), at(3)], coalesced)
}

op! {
    /// A tensor of coordinates (sparse dims, entries) and values (entries, dense sizes...), without a look at whether the
    /// coordinates are within `size`.
    unsafe_: "_sparse_coo_tensor_unsafe(Tensor indices, Tensor values, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool? is_coalesced=None) -> Tensor";
    Body::Composite(|op, _keys, args| {
        let (options, coalesced) = tail(args, 3);
        let take = |i| crate::value::take(op, args, i);
        assemble(take(0)?, take(1)?, crate::value::take(op, args, 2)?, options, coalesced).map(crate::Outputs::One)
    });
}

op! {
    /// A tensor of `size` with values (entries, dense sizes...) at coordinates (sparse dims, entries).
    sized: "sparse_coo_tensor.indices_size(Tensor indices, Tensor values, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool? is_coalesced=None) -> Tensor";
    Body::Composite(|op, _keys, args| {
        let (options, coalesced) = tail(args, 3);
        let take = |i| crate::value::take(op, args, i);
        assemble(take(0)?, take(1)?, crate::value::take(op, args, 2)?, options, coalesced).map(crate::Outputs::One)
    });
}

/// The smallest sizes that hold all coordinates.
fn inferred_size(indices: &Tensor, values: &Tensor) -> Result<Dims> {
    ensure!(indices.dim() == 2, "indices must be sparse_dim x nnz, but got: {:?}", indices.sizes());
    ensure!(values.dim() > 0, "values must be a tensor with at least one dimension");
    let mut size = Dims::new();
    if indices.numel() > 0 {
        let least = indices.amin(&[1], false)?.to_vec::<i64>()?;
        for (d, &i) in least.iter().enumerate() {
            ensure!(i >= 0, "found negative index {i} for dim {d}");
        }
        size.extend(indices.amax(&[1], false)?.to_vec::<i64>()?.into_iter().map(|i| i + 1));
    } else {
        size.extend((0..indices.sizes()[0]).map(|_| 0));
    }
    size.extend_from_slice(&values.sizes()[1..]);
    Ok(size)
}

op! {
    /// A tensor with values at coordinates, as large as they need.
    inferred: "sparse_coo_tensor.indices(Tensor indices, Tensor values, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool? is_coalesced=None) -> Tensor";
    Body::Composite(|op, _keys, args| {
        let (options, coalesced) = tail(args, 2);
        let (indices, values): (&Tensor, &Tensor) = (crate::value::take(op, args, 0)?, crate::value::take(op, args, 1)?);
        let size = inferred_size(indices, values)?;
        assemble(indices, values, &size, options, coalesced).map(crate::Outputs::One)
    });
}

fn no_entries_any(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    with_dims_any(size.len() as i64, 0, size, dtype, layout, device, pin_memory)
}

op! {
    /// A tensor of `size` without entries.
    no_entries: "sparse_coo_tensor.size(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor";
    Body::Explicit(kernel!(no_entries_any; size, dtype, layout, device, pin_memory));
}

fn with_dims_any(
    sparse_dim: i64,
    dense_dim: i64,
    size: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        sparse_dim >= 0 && dense_dim >= 0 && sparse_dim.checked_add(dense_dim) == Some(size.len() as i64),
        "number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {}",
        size.len()
    );
    let (dtype, device) = TensorOptions { dtype, device }.or_default();
    sparse::empty(Layout::SparseCoo, size, sparse_dim as usize, dtype, device)
}

op! {
    /// A tensor of `size` without entries, with coordinates for its first dims.
    with_dims: "_sparse_coo_tensor_with_dims(int sparse_dim, int dense_dim, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor";
    Body::Explicit(kernel!(with_dims_any; sparse_dim, dense_dim, size, dtype, layout, device, pin_memory));
}

// ---- taken apart --------------------------------------------------------------------------------

fn coordinates(name: &str, x: &Tensor) -> Result<Coo> {
    ensure!(
        x.layout() == Layout::SparseCoo,
        "{name} expected sparse coordinate tensor layout but got {}",
        layout_name(x.layout())
    );
    sparse::coo(x)
}

fn alias(t: &Tensor) -> Tensor {
    t.shallow_detached(true)
}

fn raw_indices_any(x: &Tensor) -> Result<Tensor> {
    Ok(alias(&coordinates("_indices", x)?.indices))
}
fn raw_values_any(x: &Tensor) -> Result<Tensor> {
    Ok(alias(&coordinates("_values", x)?.values))
}
fn indices_any(x: &Tensor) -> Result<Tensor> {
    let c = coordinates("indices", x)?;
    ensure!(c.coalesced, "Cannot get indices on an uncoalesced tensor, please call .coalesce() first");
    Ok(alias(&c.indices))
}
fn values_any(x: &Tensor) -> Result<Tensor> {
    ensure!(!x.is_strided(), "values expected sparse tensor layout but got Strided");
    if x.layout() == Layout::SparseCoo {
        ensure!(sparse::coo(x)?.coalesced, "Cannot get values on an uncoalesced tensor, please call .coalesce() first");
    }
    Ok(alias(&sparse::stored_values(x)?))
}
/// A gradient of the values where the entries are.
fn placed(g: &Tensor, x: &Tensor) -> Result<Tensor> {
    sparse::first_order("values", &[g])?;
    sparse::with_values(x, g.clone())
}
fn is_coalesced_any(x: &Tensor) -> Result<bool> {
    Ok(coordinates("is_coalesced", x)?.coalesced)
}
fn sparse_dim_any(x: &Tensor) -> Result<Scalar> {
    Ok(Scalar::Int(if x.is_strided() { 0 } else { sparse::coo(x)?.sparse_dim() as i64 }))
}
fn dense_dim_any(x: &Tensor) -> Result<Scalar> {
    Ok(Scalar::Int(x.dim() as i64 - if x.is_strided() { 0 } else { sparse::coo(x)?.sparse_dim() as i64 }))
}
fn entries_any(x: &Tensor) -> Result<Scalar> {
    if x.is_strided() {
        return Err(Error::not_implemented("Could not run 'aten::_nnz' with arguments from the 'CPU' backend."));
    }
    Ok(Scalar::Int(sparse::stored_values(x)?.sizes()[0]))
}

op! {
    /// The coordinates (sparse dims, entries), in order or not.
    raw_indices: "_indices(Tensor(a) self) -> Tensor(a)";
    Body::Explicit(kernel!(raw_indices_any; x));
}
op! {
    /// The values (entries, dense sizes...), without their history.
    raw_values: "_values(Tensor(a) self) -> Tensor(a)";
    Body::Explicit(kernel!(raw_values_any; x));
}
op! {
    /// The coordinates (sparse dims, entries) of a coalesced tensor.
    indices: "indices(Tensor(a) self) -> Tensor(a)";
    Body::Explicit(kernel!(indices_any; x));
}
op! {
    /// The values (entries, dense sizes...) of a coalesced tensor, or of one in compressed rows.
    values: "values(Tensor(a) self) -> Tensor(a)";
    Body::Explicit(kernel!(values_any; x));
    derivative: backward! { self_(g, self_: Tensor) => placed(g, &self_)? };
}
op! {
    /// Whether the coordinates are in order and none repeats.
    is_coalesced: "is_coalesced(Tensor self) -> bool";
    Body::Explicit(kernel!(is_coalesced_any; x));
    fn is_coalesced(&self) -> bool [self];
}
op! {
    /// How many dims the coordinates have.
    sparse_dim: "sparse_dim(Tensor self) -> int";
    Body::Explicit(kernel!(sparse_dim_any; x));
}
op! {
    /// How many dims each value has.
    dense_dim: "dense_dim(Tensor self) -> int";
    Body::Explicit(kernel!(dense_dim_any; x));
}
op! {
    /// How many dims the coordinates have.
    index_dim: "_dimI(Tensor self) -> int";
    Body::Explicit(kernel!(sparse_dim_any; x));
}
op! {
    /// How many dims each value has.
    value_dim: "_dimV(Tensor self) -> int";
    Body::Explicit(kernel!(dense_dim_any; x));
}
op! {
    /// How many entries there are, repeated coordinates counted each time.
    entries: "_nnz(Tensor self) -> int";
    Body::Explicit(kernel!(entries_any; x));
}

// ---- in order -----------------------------------------------------------------------------------

fn coalesce_any(x: &Tensor) -> Result<Tensor> {
    match coordinates("coalesce", x)?.coalesced {
        true => Ok(x.clone()),
        false => coalesce_new::OP.call(&[x.into()])?.one(),
    }
}

op! {
    /// The tensor with its coordinates in order and the values of repeated ones added up; itself if it is so.
    coalesce: "coalesce(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(coalesce_any; x));
    fn coalesce(&self) -> Tensor [self];
}
op! {
    /// A copy with coordinates in order and the values of repeated ones added up.
    coalesce_new: "_coalesce(Tensor self) -> Tensor";
    Body::Explicit(kernel!(sparse::coalesced; x));
    derivative: backward! { self_(g) => g.clone() };
}

fn mark_any(x: &Tensor, coalesced: bool) -> Result<Tensor> {
    let c = coordinates("_coalesced_", x)?;
    sparse::replace(x, &sparse::from_coo(x.sizes(), Coo { coalesced, ..c })?)?;
    Ok(x.clone())
}

op! {
    /// Says whether the coordinates are in order, without a look at them.
    mark: "_coalesced_(Tensor(a!) self, bool coalesced) -> Tensor(a!)";
    Body::Explicit(kernel!(mark_any; x, coalesced));
}

// ---- to and from strided ------------------------------------------------------------------------

fn to_dense_any(x: &Tensor, dtype: Option<DType>, masked_grad: Option<bool>) -> Result<Tensor> {
    if x.is_strided() {
        return x.to_options(dtype, None);
    }
    to_dense_new::OP.call(&[x.into(), dtype.into(), masked_grad.into()])?.one()
}
fn to_dense_new_any(x: &Tensor, dtype: Option<DType>, _masked_grad: Option<bool>) -> Result<Tensor> {
    if x.is_strided() {
        return x.to_options(dtype, None)?.clone_in(crate::MemoryFormat::Preserve);
    }
    sparse::dense(x)?.to_options(dtype, None)
}

/// A gradient of the strided form in the layout of what it was made of.
fn to_dense_gradient(g: &Tensor, x: &Tensor, masked: bool) -> Result<Tensor> {
    match (x.layout(), masked) {
        (Layout::SparseCsr, true) => Tensor::sparse_mask(g, &x.detach()?),
        (_, true) => Tensor::sparse_mask(g, &x.detach()?.coalesce()?),
        (Layout::SparseCsr, false) => g.to_sparse_csr(),
        (_, false) => to_sparse_dims::OP.call(&[g.into(), (sparse::coo(x)?.sparse_dim() as i64).into()])?.one(),
    }
}

op! {
    /// The strided tensor of the same elements; itself if it is one. With `masked_grad`, the default, its gradient goes only
    /// to where there are entries.
    to_dense: "to_dense(Tensor self, ScalarType? dtype=None, *, bool? masked_grad=None) -> Tensor";
    Body::Composite(kernel!(to_dense_any; x, dtype, masked_grad));
    fn to_dense(&self) -> Tensor [self, Value::None, Value::None];
}
op! {
    /// A strided copy.
    to_dense_new: "_to_dense(Tensor self, ScalarType? dtype=None, bool? masked_grad=None) -> Tensor";
    Body::Explicit(kernel!(to_dense_new_any; x, dtype, masked_grad));
    derivative: backward! {
        self_(g, self_: Tensor, masked_grad: Option<bool>) => to_dense_gradient(g, &self_, masked_grad.unwrap_or(true))?
    };
}

fn to_sparse_any(x: &Tensor, layout: Option<Layout>, blocks: Option<&[i64]>, dense_dim: Option<i64>) -> Result<Tensor> {
    let layout = layout.unwrap_or(Layout::SparseCoo);
    ensure!(blocks.is_none(), "to_sparse: blocks are not supported");
    if layout == x.layout() {
        return Ok(x.clone());
    }
    to_sparse_new::OP.call(&[x.into(), layout.into(), Value::None, dense_dim.into()])?.one()
}
fn to_sparse_new_any(
    x: &Tensor,
    layout: Option<Layout>,
    _blocks: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    match layout.unwrap_or(Layout::SparseCoo) {
        Layout::SparseCoo => to_sparse_dims_new_any(x, x.dim() as i64 - dense_dim.unwrap_or(0)),
        Layout::SparseCsr => {
            ensure!(dense_dim.unwrap_or(0) == 0, "to_sparse_csr: dense dims are not supported");
            super::compressed::to_csr(x)
        }
        layout => Err(Error::not_implemented(format!("to_sparse: conversion to {layout} is not supported"))),
    }
}
fn to_sparse_dims_any(x: &Tensor, sparse_dim: i64) -> Result<Tensor> {
    if x.layout() == Layout::SparseCoo {
        ensure!(
            sparse::coo(x)?.sparse_dim() as i64 == sparse_dim,
            "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not supported"
        );
        return Ok(x.clone());
    }
    to_sparse_dims_new::OP.call(&[x.into(), sparse_dim.into()])?.one()
}
fn to_sparse_dims_new_any(x: &Tensor, sparse_dim: i64) -> Result<Tensor> {
    if x.layout() == Layout::SparseCsr {
        ensure!(
            sparse_dim == 2,
            "sparse_compressed_to_sparse: conversion from SparseCsr to Sparse with sparse_dim argument !=2 is not supported"
        );
        return sparse::from_coo(x.sizes(), sparse::coo(x)?);
    }
    let n = x.dim() as i64;
    if n == 0 {
        ensure!(sparse_dim == 0, "to_sparse: expected sparse_dim 0 for a 0-dim tensor, got {sparse_dim}");
    } else {
        ensure!(sparse_dim > 0, "sparse_dim must be >0, but got {sparse_dim}");
    }
    ensure!(
        sparse_dim <= n,
        "sparse_dim must be less than or equal to self.dim() ({n}), but got {sparse_dim}"
    );
    sparse::sparse(x, sparse_dim as usize)
}

/// A gradient of a sparse form in the layout of what it was made of.
fn to_sparse_gradient(g: &Tensor, x: &Geometry) -> Result<Tensor> {
    match x.layout {
        Layout::SparseCsr => g.to_sparse_csr(),
        _ => g.to_dense(),
    }
}

op! {
    /// The tensor in a sparse layout, by default as coordinates: the elements that are not zero. Itself if it has the layout.
    to_sparse: "to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None) -> Tensor";
    Body::Composite(kernel!(to_sparse_any; x, layout, blocks, dense_dim));
}
op! {
    /// A copy in a sparse layout, by default as coordinates.
    to_sparse_new: "_to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None) -> Tensor";
    Body::Explicit(kernel!(to_sparse_new_any; x, layout, blocks, dense_dim));
    derivative: backward! { self_(g, self_: Geometry) => to_sparse_gradient(g, &self_)? };
}
op! {
    /// The elements that are not zero, by coordinates in the first `sparse_dim` dims.
    to_sparse_dims: "to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor";
    Body::Composite(kernel!(to_sparse_dims_any; x, sparse_dim));
}
op! {
    /// A copy by coordinates in the first `sparse_dim` dims.
    to_sparse_dims_new: "_to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor";
    Body::Explicit(kernel!(to_sparse_dims_new_any; x, sparse_dim));
    derivative: backward! { self_(g, self_: Geometry) => to_sparse_gradient(g, &self_)? };
}

// ---- where another tensor has entries -----------------------------------------------------------

fn sparse_mask_any(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(
        x.sizes() == mask.sizes(),
        "sparse_mask(): operands have incompatible sizes; self has size {:?} but mask has size {:?}",
        x.sizes(),
        mask.sizes()
    );
    ensure!(!mask.is_strided(), "sparse_mask(): expected mask to be sparse, but it is strided");
    sparse::with_values(mask, sparse::at_places(x, &sparse::coo(mask)?.indices)?)
}

op! {
    /// The elements of a tensor where `mask` has entries, in its layout.
    sparse_mask: "sparse_mask(Tensor self, Tensor mask) -> Tensor";
    Body::Explicit(kernel!(sparse_mask_any; x, mask));
    derivative: backward! {
        self_(g, self_: Geometry, mask: Tensor) => {
            let g = Tensor::sparse_mask(g, &mask)?;
            if self_.layout == Layout::Strided { g.to_dense()? } else { g }
        }
    };
    fn sparse_mask(&self, mask: &Tensor) -> Tensor [self, mask];
}

// ---- gradients of tables ------------------------------------------------------------------------

fn embedding_gradient_any(g: &Tensor, indices: &Tensor, rows: i64, padding: i64, by_frequency: bool) -> Result<Tensor> {
    ensure!(!by_frequency, "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
    let width = g.sizes().last().copied().unwrap_or(1);
    let (mut at, mut values) = (indices.reshape(&[-1])?.to_dtype(DType::I64)?, g.reshape(&[indices.numel(), width])?);
    if padding >= 0 {
        let kept = at.ne(padding)?.nonzero()?.select(1, 0)?;
        at = at.index_select(0, &kept)?;
        values = values.index_select(0, &kept)?;
    }
    sized::OP.call(&[(&at.unsqueeze(0)?).into(), (&values).into(), (&[rows, width][..]).into()])?.one()
}

op! {
    /// The gradient of an embedding's table, with entries for the rows that were named.
    embedding_gradient: "embedding_sparse_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq) -> Tensor";
    Body::Composite(kernel!(embedding_gradient_any; g, indices, rows, padding, by_frequency));
    fn embedding_sparse_backward(grad: &Tensor, indices: &Tensor, rows: i64, padding_idx: i64, by_frequency: bool) -> Tensor
        [grad, indices, rows, padding_idx, by_frequency];
}

fn gather_gradient_any(x: &Tensor, dim: i64, index: &Tensor, g: &Tensor) -> Result<Tensor> {
    let d = crate::dims::wrap_dim(dim, x.dim())?;
    let n = index.numel();
    if x.dim() == 0 {
        let indices = Tensor::zeros(&[0, 1], (DType::I64, g.device()))?;
        return sized::OP.call(&[(&indices).into(), (&g.reshape(&[1])?).into(), x.sizes().into()])?.one();
    }
    let mut rows = Vec::new();
    for k in 0..x.dim() {
        rows.push(if k == d {
            index.reshape(&[-1])?
        } else {
            let mut shape = Dims::from_elem(1, x.dim());
            shape[k] = index.sizes()[k];
            let counted = Tensor::arange(index.sizes()[k], DType::I64)?.to_device(index.device())?.view(&shape)?;
            counted.expand(index.sizes())?.reshape(&[-1])?
        });
    }
    sized::OP.call(&[(&Tensor::stack(&rows, 0)?).into(), (&g.reshape(&[n])?).into(), x.sizes().into()])?.one()
}

op! {
    /// The gradient of a gather's source, with an entry for each element that was taken.
    gather_gradient: "_gather_sparse_backward(Tensor self, int dim, Tensor index, Tensor grad) -> Tensor";
    Body::Composite(kernel!(gather_gradient_any; x, dim, index, g));
    fn gather_sparse_backward(&self, dim: i64, index: &Tensor, grad: &Tensor) -> Tensor [self, dim, index, grad];
}

impl Tensor {
    /// A tensor of `size` with values (entries, dense sizes...) at coordinates (sparse dims, entries); those of repeated
    /// coordinates add up.
    ///
    /// # Errors
    /// When the parts do not fit each other, or a coordinate is outside.
    pub fn sparse_coo(indices: &Tensor, values: &Tensor, size: &[i64]) -> Result<Tensor> {
        validate::OP.call(&[indices.into(), values.into(), size.into()])?;
        sized::OP.call(&[indices.into(), values.into(), size.into()])?.one()
    }

    /// The elements that are not zero, by their coordinates.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn to_sparse(&self) -> Result<Tensor> {
        to_sparse::OP.call(&[self.into()])?.one()
    }

    /// Zeros without entries.
    ///
    /// # Errors
    /// When a size is negative.
    pub fn sparse_zeros(size: &[i64], options: impl Into<TensorOptions>) -> Result<Tensor> {
        factory(&no_entries::OP, &[size.into()], options.into())
    }
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    coalesce::ALL,
    coalesce_new::ALL,
    dense_dim::ALL,
    embedding_gradient::ALL,
    entries::ALL,
    gather_gradient::ALL,
    index_dim::ALL,
    indices::ALL,
    inferred::ALL,
    is_coalesced::ALL,
    mark::ALL,
    no_entries::ALL,
    raw_indices::ALL,
    raw_values::ALL,
    sized::ALL,
    sparse_dim::ALL,
    sparse_mask::ALL,
    to_dense::ALL,
    to_dense_new::ALL,
    to_sparse::ALL,
    to_sparse_dims::ALL,
    to_sparse_dims_new::ALL,
    to_sparse_new::ALL,
    unsafe_::ALL,
    validate::ALL,
    value_dim::ALL,
    values::ALL,
    with_dims::ALL,
    with_dims_and_tensors::ALL,
];
