//! Powers and other functions of two numbers.

use crate::pointwise::scalar_params;
use crate::promotion::{Promotion, result_type, result_type_with};
use crate::value::Operand;
use crate::{Body, DType, Error, IntoOperand, Op, OwnedOperand, Result, Scalar, Tensor, backward, ensure, sample};
use flambeau_cpu::math::complex;

// ---- pow ----------------------------------------------------------------------------------------

fn pow_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = result_type(operands);
    if dtype == DType::Bool {
        return Err(Error::not_implemented("\"pow\" not implemented for 'Bool'"));
    }
    if let [Operand::Tensor(_), Operand::Scalar(exponent)] = operands {
        check_exponent(dtype, *exponent)?;
    }
    Ok(dtype)
}

fn check_exponent(dtype: DType, exponent: Scalar) -> Result<()> {
    ensure!(
        !dtype.is_integral(true) || exponent.to_f64() >= 0.0,
        "Integers to negative integer powers are not allowed."
    );
    Ok(())
}

/// The exponent less one.
fn decremented(exponent: Scalar) -> Scalar {
    match exponent {
        Scalar::Complex(c) => Scalar::Complex(c - 1.0),
        Scalar::Float(x) => Scalar::Float(x - 1.0),
        s => Scalar::Int(s.to_i64().wrapping_sub(1)),
    }
}

/// Where a base is zero and the exponent not negative: the power does not depend on the exponent there.
fn flat(base: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let real = if exponent.dtype().is_complex() { exponent.real()? } else { exponent.clone() };
    base.eq(0)?.logical_and(&real.ge(0)?)
}

op! {
    /// `self` to the power `exponent`, element by element, with C's special cases. Integers wrap, and give 0 for
    /// negative exponents (1 and -1 excepted).
    pow: "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
        InPlace INPLACE: "pow_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)",
        Out OUT: "pow.Tensor_Tensor_out(Tensor self, Tensor exponent, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
        Out SCALAR_OUT: "pow.Scalar_out(Scalar self, Tensor exponent, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(pow_dtype), scalar_params, "pow";
        ints |x, y| x.pow(y);
        floats |x, y| x.pow::<I>(y);
        complexes |x, y| complex::pow::<I, R>(x, y);
    );
    derivative: backward! {
        self_(g, self_: Tensor, exponent: Tensor) => {
            let slope = self_.pow(&exponent.sub(1)?)?.mul(&exponent)?;
            g.mul(&slope.conj()?)?.masked_fill(&exponent.eq(0)?, 0)?
        },
        exponent(g, self_: OwnedOperand, exponent: Tensor, result: Tensor) => {
            let base = self_.to_tensor(g)?;
            g.mul(&result.mul(&base.log()?)?.conj()?)?.masked_fill(&flat(&base, &exponent)?, 0)?
        },
    };
    samples: |m| match m.dtype {
        DType::Bool => vec![],
        _ => vec![
            sample![m.uniform(&[2, 3], 1.0, 3.0), m.uniform(&[2, 3], 0.5, 3.0)],
            sample![m.uniform(&[2, 1], 1.0, 3.0), m.uniform(&[3], 0.5, 3.0)],
        ],
    };
    ulp: 4.0;
}

/// Small whole exponents are products; everything else, and every change of dtype, is the general power.
fn pow_scalar_any(x: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let dtype = result_type_with(x, exponent);
    check_exponent(dtype, exponent)?;
    if dtype == x.dtype() && !exponent.is_complex() {
        let e = exponent.to_f64();
        if e == 0.0 {
            return x.ones_like();
        } else if e == 1.0 {
            return x.clone_in(crate::MemoryFormat::Preserve);
        } else if e == 2.0 && dtype != DType::Bool {
            return x.mul(x);
        } else if e == 3.0 && dtype.compute() == dtype {
            return x.mul(x)?.mul(x);
        }
    }
    pow::OP.call(&[x.into(), exponent.into()])?.one()
}

op! {
    /// `self` to the power of a number.
    pow_scalar: "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
        InPlace INPLACE: "pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)",
        Out OUT: "pow.Tensor_Scalar_out(Tensor self, Scalar exponent, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(pow_scalar_any; x, exponent));
    derivative: backward! {
        self_(g, self_: Tensor, exponent: Scalar) => match exponent.to_bool() {
            false => g.zeros_like()?,
            true => g.mul(&self_.pow(decremented(exponent))?.mul(exponent)?.conj()?)?,
        },
    };
    samples: |m| match m.dtype {
        DType::Bool => vec![],
        _ => vec![
            sample![m.any(&[2, 3]), Scalar::Int(2)],
            sample![m.any(&[2, 3]), Scalar::Int(3)],
            sample![m.uniform(&[2, 3], 1.0, 3.0), Scalar::Float(1.5)],
            sample![m.any(&[0, 3]), Scalar::Int(0)],
        ],
    };
    ulp: 4.0;
}

impl Tensor {
    /// `self` to the power of a tensor or a number, element by element.
    ///
    /// # Errors
    /// When the sizes do not broadcast, for booleans, and for integers to a negative number.
    pub fn pow(&self, exponent: impl IntoOperand) -> Result<Tensor> {
        let exponent = exponent.operand();
        let op = match exponent {
            Operand::Tensor(_) => &pow::OP,
            Operand::Scalar(_) => &pow_scalar::OP,
        };
        op.call(&[self.into(), exponent.into()])?.one()
    }

    /// Raises this tensor to the power of a tensor or a number in place.
    ///
    /// # Errors
    /// As [`Tensor::pow`], and when the result's dtype or sizes are not this tensor's.
    pub fn pow_(&self, exponent: impl IntoOperand) -> Result<Tensor> {
        let exponent = exponent.operand();
        let op = match exponent {
            Operand::Tensor(_) => &pow::INPLACE,
            Operand::Scalar(_) => &pow_scalar::INPLACE,
        };
        op.call(&[self.into(), exponent.into()])?.one()
    }
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[pow::ALL, pow_scalar::ALL];
