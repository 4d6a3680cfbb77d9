//! What boolean masks select: filling, picking, scattering, listing.

use super::copy::byte_strides;
use super::ternary::{choose, element_bytes};
use crate::dims;
use crate::{Body, DType, Op, Operand, Result, Scalar, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;

// ---- masked_fill --------------------------------------------------------------------------------

/// C++'s name of an element type, as PyTorch's messages have it.
fn element_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "uint8_t",
        DType::U16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int",
        DType::I64 => "int64_t",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::Complex64 => "c10::complex<float>",
        DType::Complex128 => "c10::complex<double>",
    }
}

/// Whether a number has a place in the dtype's range; unsigned dtypes also take the negatives, which wrap.
fn check_value(value: Scalar, dtype: DType) -> Result<()> {
    let imaginary = matches!(value, Scalar::Complex(c) if c.im != 0.0);
    let x = value.to_f64();
    let limit = |bits: i32| 2f64.powi(bits);
    let fits = match dtype {
        DType::Bool | DType::F64 | DType::Complex128 => true,
        DType::F16 => !x.is_finite() || x.abs() <= 65504.0,
        DType::BF16 => !x.is_finite() || x.abs() <= 255.0 * limit(120),
        DType::F32 | DType::Complex64 => !x.is_finite() || x.abs() <= f32::MAX as f64,
        _ => {
            let bits = dtype.size() as i32 * 8;
            match dtype.is_signed() {
                true => x.trunc() >= -limit(bits - 1) && x.trunc() < limit(bits - 1),
                false => x.trunc().abs() < limit(bits),
            }
        }
    };
    ensure!(
        fits && (dtype.is_complex() || !imaginary),
        "value cannot be converted to type {} without overflow",
        element_name(dtype)
    );
    Ok(())
}

fn check_mask(name: &str, mask: &Tensor) -> Result<()> {
    ensure!(
        mask.dtype() == DType::Bool,
        "{name} only supports boolean masks, but got mask with dtype {}",
        element_name(mask.dtype())
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
    check_value(value, x.dtype())?;
    Ok(value)
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
    Ok(TensorSpec::like(dims::broadcast(x.sizes(), mask.sizes())?, x))
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
        "{name}: unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
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

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[masked_fill::ALL, masked_fill_::ALL, masked_fill_tensor_::ALL];
