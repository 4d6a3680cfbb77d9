//! Type promotion: which dtype an operator on mixed arguments computes in and gives.

use crate::value::Operand;
use crate::{DType, Result, Scalar, Tensor};
use flambeau_base::dtype::Category;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

static DEFAULT: AtomicU8 = AtomicU8::new(DType::F32 as u8);

/// The dtype of floating-point results that nothing else decides; `float32` unless changed.
#[inline]
pub fn default_dtype() -> DType {
    DType::ALL[usize::from(DEFAULT.load(Relaxed))]
}

/// Changes the default dtype.
///
/// # Errors
/// When `dtype` is not a real floating-point one.
pub fn set_default_dtype(dtype: DType) -> Result<()> {
    if !dtype.is_floating_point() {
        return Err(crate::Error::type_(format!(
            "only floating-point types are supported as the default type, not {dtype}"
        )));
    }
    DEFAULT.store(dtype as u8, Relaxed);
    Ok(())
}

/// Which dtype an operator computes in, from its operands' common dtype.
#[derive(Clone, Copy)]
pub enum Promotion {
    /// The common dtype.
    Common,
    /// The common dtype, integers and booleans becoming the default float.
    Float,
    /// Whatever the function says.
    Custom(fn(&[Operand<'_>]) -> Result<DType>),
    /// As the rule says, but numbers and 0-d tensors after the first operand keep their values, where others are rounded
    /// to the common dtype before anything is computed. (That shows beside halves, which are computed in `f32`.)
    KeepNumbers(&'static Promotion),
}

/// The dtype a pointwise call is computed in.
///
/// # Errors
/// As a custom rule says.
#[inline]
pub fn common_dtype(promotion: &Promotion, operands: &[Operand<'_>]) -> Result<DType> {
    match promotion {
        Promotion::Common => Ok(result_type(operands)),
        Promotion::Float => {
            let d = result_type(operands);
            Ok(if d.is_differentiable() { d } else { default_dtype() })
        }
        Promotion::Custom(rule) => rule(operands),
        Promotion::KeepNumbers(rule) => common_dtype(rule, operands),
    }
}

/// The dtype of a result, from the dtype computed in and the one the strip writes.
#[inline]
pub fn result_dtype(common: DType, strip_out: DType) -> DType {
    if strip_out == common.compute() { common } else { strip_out }
}

/// PyTorch's `result_type`: tensors with dimensions decide, then 0-d tensors, then numbers, a lower one counting only
/// where its category is higher.
#[inline]
pub fn result_type(operands: &[Operand<'_>]) -> DType {
    // Two tensors of one dtype: the commonest call.
    if let [Operand::Tensor(a), rest @ ..] = operands
        && rest.iter().all(|o| matches!(o, Operand::Tensor(b) if b.dtype() == a.dtype()))
    {
        return a.dtype();
    }
    let (mut dim, mut zero, mut number): (Option<DType>, Option<DType>, Option<DType>) = (None, None, None);
    for o in operands {
        let (place, dtype) = match o {
            Operand::Tensor(t) if t.dim() > 0 => (&mut dim, t.dtype()),
            Operand::Tensor(t) => (&mut zero, t.dtype()),
            Operand::Scalar(s) => (&mut number, DType::of_scalar(s, default_dtype())),
        };
        *place = Some(place.map_or(dtype, |d| d.promote(dtype)));
    }
    combine(dim, combine(zero, number)).unwrap_or_else(default_dtype)
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    let (Some(h), Some(l)) = (higher, lower) else { return higher.or(lower) };
    Some(match (h.category(), l.category()) {
        (Category::Complex, _) => h,
        (Category::Float, Category::Complex) => h.to_complex(),
        (Category::Float, _) => h,
        (Category::Bool, _) | (_, Category::Float | Category::Complex) => h.promote(l),
        _ => h,
    })
}

/// The common dtype of tensors alone.
pub fn result_type_of(tensors: &[&Tensor]) -> DType {
    let operands: smallvec::SmallVec<[Operand<'_>; 4]> = tensors.iter().map(|t| Operand::Tensor(t)).collect();
    result_type(&operands)
}

/// The common dtype of a tensor and a number.
pub fn result_type_with(tensor: &Tensor, s: Scalar) -> DType {
    result_type(&[Operand::Tensor(tensor), Operand::Scalar(s)])
}
