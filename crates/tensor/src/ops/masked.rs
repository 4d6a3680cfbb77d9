//! What boolean masks select: filling, picking, scattering, listing.

use super::copy::{byte_strides, element_bytes};
use super::index::zeros_to_read;
use super::ternary::choose;
use crate::autograd::Geometry;
use crate::dims::{self, Dims};
use crate::{Body, DType, Error, Op, OutRule, Operand, Result, Scalar, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::index::Mask;

// ---- masked_fill --------------------------------------------------------------------------------

fn check_mask(name: &str, mask: &Tensor) -> Result<()> {
    ensure!(
        mask.dtype() == DType::Bool,
        "{name} only supports boolean masks, but got mask with dtype {}",
        mask.dtype().c_name()
    );
    Ok(())
}

fn fill_value(x: &Tensor, value: Operand<'_>) -> Result<Scalar> {
    let value = match value {
        Operand::Scalar(s) => s,
        Operand::Tensor(t) => {
            check_fill_tensor(t)?;
            t.item()?
        }
    };
    value.fit(x.dtype())
}

fn check_fill_tensor(t: &Tensor) -> Result<()> {
    ensure!(
        t.dim() == 0,
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        t.dim()
    );
    Ok(())
}

fn masked_fill_plan(x: &Tensor, mask: &Tensor, value: Operand<'_>) -> Result<TensorSpec> {
    check_mask("masked_fill_", mask)?;
    if let Operand::Tensor(t) = value {
        check_fill_tensor(t)?;
    }
    Ok(TensorSpec::like(dims::broadcast(mask.sizes(), x.sizes())?, x))
}

fn masked_fill_run(x: &Tensor, mask: &Tensor, value: Operand<'_>, outs: &[Tensor]) -> Result<()> {
    choose(mask, Operand::Scalar(fill_value(x, value)?), Operand::Tensor(x), &outs[0])
}

op! {
    /// A copy with `value` where the mask is true; the tensor and the mask are broadcast.
    masked_fill: "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
        Out OUT: "masked_fill.Scalar_out(Tensor self, Tensor mask, Scalar value, *, Tensor(a!) out) -> Tensor(a!)",
        Overload TENSOR: "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
        Out TENSOR_OUT: "masked_fill.Tensor_out(Tensor self, Tensor mask, Tensor value, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(masked_fill_plan; x, mask, value), run: run!(masked_fill_run; x, mask, value) };
    derivative: backward! {
        self_(g, mask: Tensor) => g.masked_fill(&mask, 0)?,
        value(g, mask: Tensor) => mask.where_(g, 0)?,
    };
    samples: |m| vec![
        sample![m.any(&[2, 3]), m.mask(&[2, 3]), Scalar::Int(1)],
        sample![m.any(&[2, 3]), m.mask(&[3]), Scalar::Int(0)],
        sample![m.any(&[3]), m.mask(&[2, 1]), Scalar::Int(1)],
    ];
    fn masked_fill(&self, mask: &Tensor, value: impl Into<Scalar>) -> Tensor [self, mask, value.into()];
    fn masked_fill_tensor(&self, mask: &Tensor, value: &Tensor) -> Tensor [self, mask, value] in TENSOR;
}

/// Checks that a mask can be expanded to a tensor that is to be written in place.
fn check_in_place(name: &str, x: &Tensor, mask: &Tensor) -> Result<()> {
    let sizes = dims::broadcast(x.sizes(), mask.sizes())?;
    ensure!(
        &sizes[..] == x.sizes(),
        "output with shape {:?} doesn't match the broadcast shape {:?}",
        x.sizes(),
        &sizes[..]
    );
    ensure!(
        !dims::may_overlap(x.sizes(), x.strides()),
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
         Please clone() the tensor before performing the operation."
    );
    ensure!(
        x.device().kind == mask.device().kind,
        "{name}: expected self and mask to be on the same device, but got mask on {} and self on {}",
        mask.device(),
        x.device()
    );
    Ok(())
}

/// The mask, or a copy of one that the tensor to be written shares its memory with.
fn apart(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    match mask.shares_storage_with(x) {
        true => mask.clone_in(crate::MemoryFormat::Preserve),
        false => Ok(mask.clone()),
    }
}

fn masked_fill_inplace(x: &Tensor, mask: &Tensor, value: Operand<'_>) -> Result<Tensor> {
    check_mask("masked_fill_", mask)?;
    check_in_place("masked_fill_", x, mask)?;
    let bytes = element_bytes(fill_value(x, value)?, x.dtype());
    if x.numel() == 0 {
        return Ok(x.clone());
    }
    let mask = apart(x, mask)?;
    let mask_strides = byte_strides(&dims::broadcast_strides(mask.sizes(), mask.strides(), x.sizes())?, DType::Bool);
    let _locks = LockSet::new([(x.storage(), true), (mask.storage(), false)])?;
    // SAFETY: the geometry fits both storages, which are locked and not the same; the elements written are distinct.
    unsafe {
        flambeau_cpu::index::masked_fill(
            x.sizes(),
            (x.data_ptr(), &byte_strides(x.strides(), x.dtype())),
            (mask.data_ptr().cast_const(), &mask_strides),
            x.element_size(),
            &bytes,
        );
    }
    Ok(x.clone())
}

op! {
    /// Writes `value` where the mask, broadcast to this tensor, is true.
    masked_fill_: "masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> Tensor(a!)";
    Body::InPlace(kernel!(masked_fill_inplace; x, mask, value), &masked_fill::OP);
    fn masked_fill_(&self, mask: &Tensor, value: impl Into<Scalar>) -> Tensor [self, mask, value.into()];
}
op! {
    /// Writes the value of a 0-d tensor where the mask, broadcast to this tensor, is true.
    masked_fill_tensor_: "masked_fill_.Tensor(Tensor(a!) self, Tensor mask, Tensor value) -> Tensor(a!)";
    Body::InPlace(kernel!(masked_fill_inplace; x, mask, value), &masked_fill::OP);
    fn masked_fill_tensor_(&self, mask: &Tensor, value: &Tensor) -> Tensor [self, mask, value];
}

// ---- selecting, scattering ----------------------------------------------------------------------

/// Whether there is memory to look at a mask of these sizes: a bit for each element, and numbers beside them.
///
/// # Errors
/// When there is not.
pub(super) fn check_room(sizes: &[i64]) -> Result<()> {
    let elements = sizes.iter().fold(1usize, |n, s| n.saturating_mul(*s as usize));
    flambeau_base::allocator::check_available(elements / 4)
}

/// The mask over a locked boolean (or, for `nonzero`, any) tensor.
///
/// # Safety
/// The tensor's storage must stay locked as long as the mask is used.
unsafe fn mask_of(mask: &Tensor, sizes: &[i64]) -> Result<Mask> {
    let strides = dims::broadcast_strides(mask.sizes(), mask.strides(), sizes)?;
    check_room(sizes)?;
    // SAFETY: the geometry fits the storage, which the caller keeps locked.
    Ok(unsafe { Mask::new(sizes, (mask.data_ptr().cast_const(), &byte_strides(&strides, mask.dtype()), mask.dtype())) })
}

fn masked_select_writes(result: DType, out: DType) -> Result<()> {
    ensure!(result == out, "masked_select(): self and result must have the same scalar type");
    Ok(())
}

fn masked_select_cpu(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(mask.dtype() == DType::Bool, "masked_select: expected BoolTensor for mask");
    let sizes = dims::broadcast(x.sizes(), mask.sizes())?;
    let strides = byte_strides(&dims::broadcast_strides(x.sizes(), x.strides(), &sizes)?, x.dtype());
    let _locks = LockSet::new([(x.storage(), false), (mask.storage(), false)])?;
    // SAFETY: the storage is locked until the end of the function.
    let selected = unsafe { mask_of(mask, &sizes)? };
    let out = Tensor::fresh(x.device(), x.dtype(), Dims::from_slice(&[selected.count() as i64]))?;
    // SAFETY: the source has the mask's sizes, the fresh output as many elements as are true.
    unsafe { selected.select((x.data_ptr().cast_const(), &strides), out.data_ptr(), x.dtype()) };
    Ok(out)
}

fn sized_by_data(name: &str) -> Result<Tensor> {
    Err(Error::not_implemented(format!("{name}: the result's size depends on the data, which a meta tensor has not")))
}
fn masked_select_meta(_x: &Tensor, _mask: &Tensor) -> Result<Tensor> {
    sized_by_data("masked_select")
}

op! {
    /// The elements where the mask is true, in row-major order; the tensor and the mask are broadcast.
    masked_select: "masked_select(Tensor self, Tensor mask) -> Tensor",
        Out OUT: "masked_select.out(Tensor self, Tensor mask, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Kernels { cpu: kernel!(masked_select_cpu; x, mask), meta: kernel!(masked_select_meta; x, mask) };
    derivative: backward! {
        self_(g, self_: Geometry, mask: Tensor) => {
            let sizes = dims::broadcast(&self_.sizes, mask.sizes())?;
            zeros_to_read(&sizes, g)?.masked_scatter(&mask, g)?
        },
    };
    samples: |m| vec![
        sample![m.any(&[2, 3]), m.mask(&[2, 3])],
        sample![m.any(&[2, 3]), m.mask(&[3])],
        sample![m.any(&[0, 3]), m.mask(&[3])],
    ];
    out_rule: OutRule::dtype(masked_select_writes).apart(&[0, 1]);
    fn masked_select(&self, mask: &Tensor) -> Tensor [self, mask];
    out fn masked_select_out(&self, mask: &Tensor) [self, mask] in OUT;
}

fn check_scatter(x: &Tensor, mask: &Tensor, source: &Tensor) -> Result<()> {
    ensure!(
        x.dtype() == source.dtype(),
        "masked_scatter: expected self and source to have same dtypes but got{} and {}",
        x.dtype().scalar_type_name(),
        source.dtype().scalar_type_name()
    );
    ensure!(
        mask.dtype() == DType::Bool,
        "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype().scalar_type_name()
    );
    Ok(())
}

fn masked_scatter_any(x: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    check_scatter(x, mask, source)?;
    let sizes = dims::broadcast(x.sizes(), mask.sizes())?;
    x.expand(&sizes)?.clone_in(crate::MemoryFormat::Contiguous)?.masked_scatter_(mask, source)
}

fn masked_scatter_inplace(x: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    check_scatter(x, mask, source)?;
    check_in_place("masked_scatter_", x, mask)?;
    ensure!(x.device().kind == source.device().kind, "masked_scatter_: expected all tensors on {}", x.device());
    if x.numel() == 0 {
        return Ok(x.clone());
    }
    let mask = apart(x, mask)?;
    let source = apart(x, source)?.contiguous()?;
    let _locks = LockSet::new([(x.storage(), true), (mask.storage(), false), (source.storage(), false)])?;
    // SAFETY: the storage is locked until the end of the function.
    let chosen = unsafe { mask_of(&mask, x.sizes())? };
    ensure!(chosen.count() as i64 <= source.numel(), "Number of elements of source < number of ones in mask");
    // SAFETY: the target has the mask's sizes and distinct elements, the source is contiguous and long enough.
    unsafe {
        chosen.scatter(
            (x.data_ptr(), &byte_strides(x.strides(), x.dtype())),
            source.data_ptr().cast_const(),
            x.dtype(),
        );
    }
    Ok(x.clone())
}

op! {
    /// A copy with the elements where the mask is true taken from `source`, in row-major order of both.
    masked_scatter: "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
        Out OUT: "masked_scatter.out(Tensor self, Tensor mask, Tensor source, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(masked_scatter_any; x, mask, source));
    derivative: backward! {
        self_(g, mask: Tensor) => g.masked_fill(&mask, 0)?,
        source(g, mask: Tensor, source: Geometry) => masked_scatter_backward_any(g, &mask, &source.sizes)?,
    };
    samples: |m| vec![
        sample![m.any(&[2, 3]), m.mask(&[2, 3]), m.any(&[6])],
        sample![m.any(&[3]), m.mask(&[2, 3]), m.any(&[2, 4])],
    ];
    fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Tensor [self, mask, source];
}
op! {
    /// Takes the elements where the mask is true from `source`, in row-major order of both.
    masked_scatter_: "masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source) -> Tensor(a!)";
    Body::InPlace(kernel!(masked_scatter_inplace; x, mask, source), &masked_scatter::OP);
    fn masked_scatter_(&self, mask: &Tensor, source: &Tensor) -> Tensor [self, mask, source];
}

fn masked_scatter_backward_any(g: &Tensor, mask: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let total: i64 = dims::checked_numel(sizes)?;
    let read = mask.expand(g.sizes())?;
    let read = g.masked_select(&read)?;
    let rest = total - read.numel();
    ensure!(rest >= 0, "masked_scatter_backward: the mask selects more elements than the sizes hold");
    let zeros = Tensor::zeros(&[rest], (g.dtype(), g.device()))?;
    Tensor::cat(&[read, zeros], 0)?.reshape(sizes)
}

op! {
    /// The gradient of `masked_scatter`'s source, which has the given sizes.
    masked_scatter_backward: "masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor";
    Body::Composite(kernel!(masked_scatter_backward_any; g, mask, sizes));
    samples: |m| vec![sample![m.any(&[2, 3]), m.mask(&[2, 3]), vec![6i64]]];
}

// ---- listing ------------------------------------------------------------------------------------

fn nonzero_cpu(x: &Tensor) -> Result<Tensor> {
    let _lock = LockSet::new([(x.storage(), false)])?;
    // SAFETY: the storage is locked until the end of the function.
    let mask = unsafe { mask_of(x, x.sizes())? };
    let (count, dims) = (mask.count() as i64, x.dim() as i64);
    // Each dim's coordinates lie together, as they are used when they index.
    let sizes = if dims < 2 { [count, dims] } else { [dims, count] };
    let places = Tensor::fresh(x.device(), DType::I64, Dims::from_slice(&sizes))?;
    // SAFETY: a coordinate in every dim for each element that is true.
    unsafe { mask.nonzero(places.data_ptr().cast()) };
    if dims < 2 { Ok(places) } else { places.t() }
}
fn nonzero_meta(_x: &Tensor) -> Result<Tensor> {
    sized_by_data("nonzero")
}

op! {
    /// The coordinates of the elements that are not zero, one row each, in row-major order.
    nonzero: "nonzero(Tensor self) -> Tensor";
    Body::Kernels { cpu: kernel!(nonzero_cpu; x), meta: kernel!(nonzero_meta; x) };
    samples: |m| vec![sample![m.any(&[2, 3])], sample![m.any(&[])], sample![m.any(&[0, 3])]];
    fn nonzero(&self) -> Tensor [self];
}

fn nonzero_out_any(x: &Tensor, out: &Tensor) -> Result<Tensor> {
    ensure!(
        out.dtype() == DType::I64,
        "nonzero: Expected out tensor to have scalar type Long but got scalar type{}",
        out.dtype().scalar_type_name()
    );
    nonzero_to::OP.call(&[x.into(), out.into()])?.one()
}
op! {
    /// Writes the coordinates of the elements that are not zero to `out`.
    nonzero_out: "nonzero.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(nonzero_out_any; x, out));
    out fn nonzero_out(&self) [self] in OP;
}
op! {
    /// Writes the coordinates of the elements that are not zero to `out` of any integer dtype.
    nonzero_to: "nonzero_to(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Variant(crate::Form::Out, &nonzero::OP);
}

fn nonzero_numpy_any(x: &Tensor) -> Result<Vec<Tensor>> {
    let x = if x.dim() == 0 { x.unsqueeze(0)? } else { x.clone() };
    x.nonzero()?.unbind(1)
}
op! {
    /// The coordinates of the elements that are not zero, one vector for each dimension.
    nonzero_numpy: "nonzero_numpy(Tensor self) -> Tensor[]";
    Body::Composite(kernel!(nonzero_numpy_any; x));
    samples: |m| vec![sample![m.any(&[2, 3])], sample![m.any(&[])]];
    fn nonzero_numpy(&self) -> Vec<Tensor> [self];
}

fn nonzero_static_any(x: &Tensor, size: i64, fill_value: Option<i64>) -> Result<Tensor> {
    ensure!(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
    if x.device().is_meta() {
        return Tensor::empty(&[size, x.dim() as i64], (DType::I64, x.device()));
    }
    let found = x.nonzero()?;
    let kept = found.narrow(0, 0, size.min(found.size(0)?))?;
    let rest =
        Tensor::full(&[size - kept.size(0)?, x.dim() as i64], fill_value.unwrap_or(-1), (DType::I64, x.device()))?;
    Tensor::cat(&[kept, rest], 0)
}
op! {
    /// The coordinates of the first `size` elements that are not zero, filled up with rows of `fill_value`.
    nonzero_static: "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
        Out OUT: "nonzero_static.out(Tensor self, *, SymInt size, int fill_value=-1, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(nonzero_static_any; x, size, fill_value));
    samples: |m| vec![sample![m.any(&[2, 3]), 4, -1], sample![m.any(&[2, 3]), 9, 0]];
    fn nonzero_static(&self, size: i64, fill_value: i64) -> Tensor [self, size, fill_value];
}

alias! {
    argwhere: "argwhere(Tensor self) -> Tensor" => nonzero::OP;
    where_listed: "where(Tensor condition) -> Tensor[]" => nonzero_numpy::OP;
}

impl Tensor {
    /// The coordinates of the elements that are not zero; see [`Tensor::nonzero`].
    ///
    /// # Errors
    /// When memory runs out, and for meta tensors.
    pub fn argwhere(&self) -> Result<Tensor> {
        self.nonzero()
    }
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    argwhere::ALL,
    masked_fill::ALL,
    masked_fill_::ALL,
    masked_fill_tensor_::ALL,
    masked_scatter::ALL,
    masked_scatter_::ALL,
    masked_scatter_backward::ALL,
    masked_select::ALL,
    nonzero::ALL,
    nonzero_numpy::ALL,
    nonzero_out::ALL,
    nonzero_static::ALL,
    nonzero_to::ALL,
    where_listed::ALL,
];
