//! Short ways: tensors made like another, shapes taken from another, matrices turned over, resizing, and small
//! expressions.

use super::create::{TensorOptions, empty, empty_strided, full, full_out, ones, zeros};
use super::view::{as_strided, squeeze, squeeze_dim, squeeze_dims, t, transpose, unsqueeze};
use crate::dispatch::resize_output;
use crate::{Body, DType, Dims, MemoryFormat, Op, Result, Scalar, Tensor, Value, backward, dims};
use crate::{ensure, sample};

// ---- made like another --------------------------------------------------------------------------

/// Calls a factory with what is left open taken from `x`.
fn like(op: &'static Op, x: &Tensor, own: &[Value<'_>], rest: [Value<'_>; 4]) -> Result<Tensor> {
    let [dtype, layout, device, pin] = rest;
    let mut args: smallvec::SmallVec<[Value<'_>; 8]> = own.iter().copied().collect();
    let (own_dtype, own_device) = (Value::DType(x.dtype()), Value::Device(x.device()));
    let dtype = if matches!(dtype, Value::None) { own_dtype } else { dtype };
    let device = if matches!(device, Value::None) { own_device } else { device };
    args.extend([dtype, layout, device, pin]);
    op.call(&args)?.one()
}

/// `new_empty` and the like: a factory with the dtype and device of a tensor.
macro_rules! new_like {
    ($($(#[doc = $doc:expr])* $name:ident, $factory:ident, $own:expr, [$($arg:ident: $ty:ty),*], [$($example:expr),*];)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor self, ", $own, ", *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"),
                Out OUT: concat!(stringify!($name), ".out(Tensor self, ", $own, ", *, Tensor(a!) out) -> Tensor(a!)");
            Body::Explicit(|op, _keys, args| {
                let x: &Tensor = $crate::value::take(op, args, 0)?;
                let own = 1 + [$(stringify!($arg)),*].len();
                let rest = |i: usize| args.get(own + i).copied().unwrap_or(Value::None);
                like(&$factory::OP, x, args.get(1..own).ok_or_else(|| $crate::value::missing(op, args.len()))?, [rest(0), rest(1), rest(2), rest(3)]).map($crate::Outputs::One)
            });
            samples: |m| vec![sample![m.any(&[2, 3]), $($example),*]];
            fn $name(&self, $($arg: $ty),*) -> Tensor [self, $($arg),*];
        }
    )* };
}
new_like! {
    /// An uninitialised tensor of the given sizes with the dtype and device of this one.
    new_empty, empty, "SymInt[] size", [size: &[i64]], [vec![0i64, 2]];
    /// An uninitialised tensor of the given sizes and strides with the dtype and device of this one.
    new_empty_strided, empty_strided, "SymInt[] size, SymInt[] stride", [size: &[i64], stride: &[i64]], [vec![0i64, 2], vec![1i64, 1]];
    /// One value everywhere, with the dtype and device of this tensor.
    new_full, full, "SymInt[] size, Scalar fill_value", [size: &[i64], fill_value: Scalar], [vec![3i64], Scalar::Float(2.5)];
    /// Ones with the dtype and device of this tensor.
    new_ones, ones, "SymInt[] size", [size: &[i64]], [vec![4i64, 2]];
    /// Zeros with the dtype and device of this tensor.
    new_zeros, zeros, "SymInt[] size", [size: &[i64]], [vec![4i64, 2]];
}

fn scalar_tensor_any(
    value: Scalar,
    options: TensorOptions,
) -> Result<Tensor> {
    let (dtype, device) = options.or_default();
    Tensor::full(&[], value, (dtype, device))
}

op! {
    /// A number as a tensor without dims, of the default dtype unless another is given.
    scalar_tensor: "scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Explicit(kernel!(scalar_tensor_any; value, options));
    samples: |m| vec![sample![Scalar::Float(2.5), m.dtype]];
}

fn scalar_tensor_out_any(value: Scalar, out: &Tensor) -> Result<Tensor> {
    let none: &[i64] = &[];
    full_out::OP.call(&[none.into(), value.into(), out.into()])?.one()
}

op! {
    /// A number in `out`, which loses its dims and keeps its dtype.
    scalar_tensor_out: "scalar_tensor.out(Scalar s, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(scalar_tensor_out_any; value, out));
}

fn empty_permuted_any(
    size: &[i64],
    order: &[i64],
    options: TensorOptions,
) -> Result<Tensor> {
    dims::checked_numel(size)?;
    ensure!(
        size.len() == order.len(),
        "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {} is not equal \
         to len(physical_layout) = {}",
        size.len(),
        order.len()
    );
    let mut seen = vec![false; size.len()];
    for (i, &d) in order.iter().enumerate() {
        ensure!(
            d >= 0 && (d as usize) < size.len(),
            "Dimension out of range (expected to be between 0 and {}, but got {d} at index {i}).  NB: negative dims not \
             currently supported; file an issue if you want it.",
            size.len() as i64 - 1
        );
        ensure!(!std::mem::replace(&mut seen[d as usize], true), "Duplicate dim not allowed");
    }
    let inner_first: Vec<usize> = order.iter().rev().map(|&d| d as usize).collect();
    let strides = dims::strides_in_order(size, &inner_first);
    Tensor::empty_strided(size, &strides, options)
}

op! {
    /// An uninitialised dense tensor whose dims lie in memory in the given order, outermost first.
    empty_permuted: "empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Explicit(kernel!(empty_permuted_any; size, physical_layout, options));
    samples: |m| vec![sample![vec![0i64, 2], vec![1i64, 0], m.dtype]];
}

fn fill_any(x: &Tensor, value: Scalar) -> Result<Tensor> {
    x.empty_like()?.fill_(value).map(Tensor::unwritten)
}

op! {
    /// One value everywhere, in the shape, dtype and memory order of a tensor.
    fill: "fill.Scalar(Tensor self, Scalar value) -> Tensor",
        Out OUT: "fill.Scalar_out(Tensor self, Scalar value, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(fill_any; x, value));
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| vec![sample![m.any(&[2, 3]), Scalar::Int(2)]];
    fn fill(&self, value: impl Into<Scalar>) -> Tensor [self, value.into()];
}

fn fill_tensor_any(x: &Tensor, value: &Tensor) -> Result<Tensor> {
    x.empty_like()?.fill_tensor_(value)
}

op! {
    /// The value of a tensor without dims everywhere, in the shape, dtype and memory order of another.
    fill_tensor: "fill.Tensor(Tensor self, Tensor value) -> Tensor",
        Out OUT: "fill.Tensor_out(Tensor self, Tensor value, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(fill_tensor_any; x, value));
    derivative: backward! { self_(g) => g.zeros_like()?, value(g) => g.sum()? };
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[])]];
    fn fill_tensor(&self, value: &Tensor) -> Tensor [self, value];
}

// ---- shapes -------------------------------------------------------------------------------------

fn reshape_as_any(x: &Tensor, other: &Tensor) -> Result<Tensor> {
    x.reshape(other.sizes())
}

op! {
    /// The elements in the sizes of another tensor; a view where that is possible.
    reshape_as: "reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)";
    Body::Composite(kernel!(reshape_as_any; x, other));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[3, 2])]];
    fn reshape_as(&self, other: &Tensor) -> Tensor [self, other];
}

fn broadcast_to_any(x: &Tensor, size: &[i64]) -> Result<Tensor> {
    x.expand(size)
}

op! {
    /// A view of the given sizes in which dims of size one repeat.
    broadcast_to: "broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)";
    Body::Composite(kernel!(broadcast_to_any; x, size));
    samples: |m| vec![sample![m.any(&[3]), vec![2i64, 3]]];
    fn broadcast_to(&self, size: &[i64]) -> Tensor [self, size];
}

fn reversed_any(x: &Tensor) -> Result<Tensor> {
    x.permute(&(0..x.dim() as i64).rev().collect::<Vec<_>>())
}

op! {
    /// All dims in reversed order.
    numpy_t: "numpy_T(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(reversed_any; x));
    samples: |m| vec![sample![m.any(&[2, 3, 4])]];
    fn numpy_t(&self) -> Tensor [self];
}

/// The last two dims swapped and the elements conjugated; numbers are their own transpose.
fn conjugate_transpose(x: &Tensor, name: &str) -> Result<Tensor> {
    ensure!(x.dim() != 1, "tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.");
    let turned = if x.dim() == 0 { x.alias()? } else { x.transpose(-2, -1)? };
    if x.dtype().is_complex() { turned.conj() } else { Ok(turned) }
}

fn mh_any(x: &Tensor) -> Result<Tensor> {
    conjugate_transpose(x, "mH")
}

op! {
    /// The conjugate transpose of each matrix.
    mh: "mH(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(mh_any; x));
    samples: |m| vec![sample![m.any(&[2, 3, 4])]];
    fn mh(&self) -> Tensor [self];
}

fn adjoint_any(x: &Tensor) -> Result<Tensor> {
    conjugate_transpose(x, "adjoint()")
}

op! {
    /// The conjugate transpose of each matrix.
    adjoint: "adjoint(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(adjoint_any; x));
    samples: |m| vec![sample![m.any(&[2, 3, 4])]];
    fn adjoint(&self) -> Tensor [self];
}

fn matrix_h_any(x: &Tensor) -> Result<Tensor> {
    let hint = if x.dim() > 2 { " For batches of matrices, consider using tensor.mH" } else { "" };
    ensure!(
        matches!(x.dim(), 0 | 2),
        "tensor.H is only supported on matrices (2-D tensors). Got {}-D tensor.{hint}",
        x.dim()
    );
    conjugate_transpose(x, "H")
}

op! {
    /// The conjugate transpose of a matrix.
    matrix_h: "matrix_H(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(matrix_h_any; x));
    samples: |m| vec![sample![m.any(&[2, 3])]];
    fn matrix_h(&self) -> Tensor [self];
}

/// Views that take the place of what they view: the handle returned, over the same memory.
macro_rules! in_place_views {
    ($($(#[doc = $doc:expr])* $name:ident: $schema:expr => $view:ident($($arg:ident: $ty:ty),*);)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: $schema;
            Body::Composite(|_op, _keys, args| $view::OP.call(args));
            samples: |m| $crate::samples::of(&$view::OP, m);
            fn $name(&self, $($arg: $ty),*) -> Tensor [self, $($arg),*];
        }
    )* };
}

in_place_views! {
    /// [`Tensor::as_strided`] as an in-place call: the handle returned replaces this one.
    as_strided_: "as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a!)"
        => as_strided(size: &[i64], stride: &[i64], storage_offset: Option<i64>);
    /// [`Tensor::transpose`] as an in-place call: the handle returned replaces this one.
    transpose_: "transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)" => transpose(dim0: i64, dim1: i64);
    /// [`Tensor::transpose`] as an in-place call: the handle returned replaces this one.
    swapaxes_: "swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)" => transpose(axis0: i64, axis1: i64);
    /// [`Tensor::transpose`] as an in-place call: the handle returned replaces this one.
    swapdims_: "swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)" => transpose(dim0: i64, dim1: i64);
    /// [`Tensor::t`] as an in-place call: the handle returned replaces this one.
    t_: "t_(Tensor(a!) self) -> Tensor(a!)" => t();
    /// [`Tensor::unsqueeze`] as an in-place call: the handle returned replaces this one.
    unsqueeze_: "unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)" => unsqueeze(dim: i64);
    /// [`Tensor::squeeze`] as an in-place call: the handle returned replaces this one.
    squeeze_: "squeeze_(Tensor(a!) self) -> Tensor(a!)" => squeeze();
    /// [`Tensor::squeeze_dim`] as an in-place call: the handle returned replaces this one.
    squeeze_dim_: "squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)" => squeeze_dim(dim: i64);
    /// [`Tensor::squeeze_dims`] as an in-place call: the handle returned replaces this one.
    squeeze_dims_: "squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)" => squeeze_dims(dim: &[i64]);
}

fn resize_any(x: &Tensor, size: &[i64], format: Option<MemoryFormat>) -> Result<Tensor> {
    ensure!(!x.requires_grad(), "cannot resize variables that require grad");
    dims::checked_numel(size)?;
    let strides = match format {
        None | Some(MemoryFormat::Contiguous) => dims::contiguous_strides(size),
        Some(MemoryFormat::Preserve) => {
            return Err(crate::Error::runtime("Unsupported memory format Preserve"));
        }
        Some(format) => dims::strides_for(size, format)?,
    };
    if format.is_none() && x.sizes() == size {
        return Ok(x.clone());
    }
    if !super::create::fills() {
        return resize_output(x, size, Some(&strides));
    }
    let room = x.storage().nbytes() / x.element_size();
    let resized = resize_output(x, size, Some(&strides))?;
    let all = resized.storage().nbytes() / x.element_size();
    if all > room {
        super::create::fill_new(resized.as_strided(&[(all - room) as i64], &[1], Some(room as i64))?)?;
    }
    Ok(resized)
}

op! {
    /// A handle over the same memory with other sizes; the memory grows if need be, and new elements are uninitialised.
    resize_: "resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)";
    Body::AnyBackend(kernel!(resize_any; x, size, format));
    samples: |m| vec![sample![m.any(&[2, 3]), vec![3i64, 2], ()]];
    fn resize_(&self, size: &[i64]) -> Tensor [self, size, Value::None];
}

fn resize_as_any(x: &Tensor, template: &Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
    ensure!(!x.requires_grad(), "cannot resize variables that require grad");
    let format = match format {
        Some(MemoryFormat::Preserve) => Some(template.suggested_memory_format()),
        given => given,
    };
    resize_any(x, template.sizes(), format)
}

op! {
    /// [`Tensor::resize_`] to the sizes of another tensor.
    resize_as_: "resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)";
    Body::AnyBackend(kernel!(resize_as_any; x, template, format));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[6]), ()]];
    fn resize_as_(&self, template: &Tensor) -> Tensor [self, template, Value::None];
}

// ---- small expressions --------------------------------------------------------------------------

fn isreal_any(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return x.imag()?.eq(0);
    }
    let sizes = Dims::from_slice(x.sizes());
    let strides = dims::preserved_strides(&sizes, x.strides());
    Tensor::empty_strided(&sizes, &strides, (DType::Bool, x.device()))?.fill_(Scalar::Bool(true))
}

op! {
    /// Whether the imaginary part is zero.
    isreal: "isreal(Tensor self) -> Tensor";
    Body::Composite(kernel!(isreal_any; x));
    samples: |m| vec![sample![m.any(&[2, 3])]];
    fn isreal(&self) -> Tensor [self];
}

fn native_dropout_backward_any(g: &Tensor, mask: &Tensor, scale: f64) -> Result<Tensor> {
    g.mul(&mask.to_dtype(g.dtype())?.mul(scale)?)
}

op! {
    /// The gradient of a dropout's input: that of its result where an element was kept, scaled.
    native_dropout_backward: "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
        Out OUT: "native_dropout_backward.out(Tensor grad_output, Tensor mask, float scale, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(native_dropout_backward_any; g, mask, scale));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), m.mask(&[2, 3]), 2.0]] } else { vec![] };
    fn native_dropout_backward(&self, mask: &Tensor, scale: f64) -> Tensor [self, mask, scale];
}

fn embedding_renorm_any(weight: &Tensor, indices: &Tensor, max_norm: f64, norm_type: f64) -> Result<Tensor> {
    ensure!(weight.dim() == 2, "'weight' must be 2-D");
    let flat = indices.reshape(&[-1])?;
    let rows = weight.index_select(0, &flat)?;
    let norms = rows.vector_norm(norm_type, &[1], true)?;
    let factors = norms.add(1e-7)?.reciprocal()?.mul(max_norm)?.masked_fill(&norms.le(max_norm)?, 1)?;
    weight.index_copy_(0, &flat, &rows.mul(&factors)?)
}

op! {
    /// Scales the rows of `self` that `indices` name and whose norm is larger down to `max_norm`.
    embedding_renorm_: "embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)";
    Body::Explicit(kernel!(embedding_renorm_any; weight, indices, max_norm, norm_type));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[4, 3]), m.indices(&[2], 4), 1.0, 2.0]] } else { vec![] };
    fn embedding_renorm_(&self, indices: &Tensor, max_norm: f64, norm_type: f64) -> Tensor
        [self, indices, max_norm, norm_type];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    adjoint::ALL,
    as_strided_::ALL,
    broadcast_to::ALL,
    embedding_renorm_::ALL,
    empty_permuted::ALL,
    fill::ALL,
    fill_tensor::ALL,
    isreal::ALL,
    matrix_h::ALL,
    mh::ALL,
    native_dropout_backward::ALL,
    new_empty::ALL,
    new_empty_strided::ALL,
    new_full::ALL,
    new_ones::ALL,
    new_zeros::ALL,
    numpy_t::ALL,
    reshape_as::ALL,
    resize_::ALL,
    resize_as_::ALL,
    scalar_tensor::ALL,
    scalar_tensor_out::ALL,
    squeeze_::ALL,
    squeeze_dim_::ALL,
    squeeze_dims_::ALL,
    swapaxes_::ALL,
    swapdims_::ALL,
    t_::ALL,
    transpose_::ALL,
    unsqueeze_::ALL,
];
