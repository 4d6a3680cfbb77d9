//! Powers, exponentials, logarithms and trigonometry of one element.

use super::unary::examples;
use crate::promotion::{Promotion, result_type};
use crate::{DType, Op, Operand, Result, Tensor, backward};
use flambeau_cpu::math::complex;

// ---- powers -------------------------------------------------------------------------------------

unary! {
    /// One over the element.
    fn reciprocal, reciprocal_, reciprocal_out(x): Promotion::Float;
    { floats |x| x.reciprocal::<I>(); complexes |x| complex::reciprocal::<I, R>(x); }
    derivative: backward! { self_(g, result: Tensor) => g.neg()?.mul(&result.mul(&result)?.conj()?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
unary! {
    /// The square root; of a complex number, the one with a real part that is not negative.
    fn sqrt, sqrt_, sqrt_out(x): Promotion::Float;
    { floats |x| x.sqrt::<I>(); complexes scalar |x| complex::sqrt::<I, R>(x); }
    derivative: backward! { self_(g, result: Tensor) => g.div(&result.conj()?.mul(2)?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
unary! {
    /// One over the square root.
    fn rsqrt, rsqrt_, rsqrt_out(x): Promotion::Float;
    { floats |x| x.rsqrt::<I>(); complexes scalar |x| complex::rsqrt::<I, R>(x); }
    derivative: backward! {
        self_(g, result: Tensor) => g.mul(-0.5)?.mul(&result.mul(&result)?.mul(&result)?.conj()?)?
    };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}

fn square_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = result_type(operands);
    Ok(if dtype == DType::Bool { DType::I64 } else { dtype })
}
unary! {
    /// The square.
    fn square, square_, square_out(x): Promotion::Custom(square_dtype);
    { numbers wrapping light |x| x.square(); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.mul(2)?.conj()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}

// ---- exponentials and logarithms ----------------------------------------------------------------

unary! {
    /// The exponential.
    fn exp, exp_, exp_out(x): Promotion::Float;
    {
        floats |x| => x.exp_one::<I>(true), if x.is_common_exponent(), halves x.exp_common::<I>(),
            vectors T::exp_vectors::<I, C>(x), else x.exp_one::<I>(false);
        complexes scalar |x| complex::exp::<I, R>(x);
    }
    derivative: backward! { self_(g, result: Tensor) => g.mul(&result.conj()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
unary! {
    /// The natural logarithm.
    fn log, log_, log_out(x): Promotion::Float;
    { floats |x| => x.log_common::<I>(), if x.is_common_logarithm(), halves x.log_common::<I>(), else x.log::<I>(); complexes scalar |x| complex::log::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.div(&self_.conj()?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
unary! {
    /// Two to the power.
    fn exp2, exp2_, exp2_out(x): Promotion::Float;
    { floats |x| x.exp2::<I>(); complexes scalar |x| complex::exp2::<I, R>(x); }
    derivative: backward! { self_(g, result: Tensor) => g.mul(&result.conj()?)?.mul(std::f64::consts::LN_2)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
unary! {
    /// `exp(self) - 1`, accurate near zero.
    fn expm1, expm1_, expm1_out(x): Promotion::Float;
    { floats |x| x.expm1::<I>(); complexes scalar |x| complex::expm1::<I, R>(x); }
    derivative: backward! { self_(g, result: Tensor) => g.mul(&result.add(1)?.conj()?)? };
    samples: |m| super::examples(&OP, m, -2.0, 2.0, &[]);
}
unary! {
    /// The binary logarithm.
    fn log2, log2_, log2_out(x): Promotion::Float;
    { floats |x| x.log2::<I>(); complexes scalar |x| complex::log2::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.div(&self_.mul(std::f64::consts::LN_2)?.conj()?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
unary! {
    /// The decimal logarithm.
    fn log10, log10_, log10_out(x): Promotion::Float;
    { floats |x| x.log10::<I>(); complexes scalar |x| complex::log10::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.div(&self_.mul(std::f64::consts::LN_10)?.conj()?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
unary! {
    /// `log(1 + self)`, accurate near zero.
    fn log1p, log1p_, log1p_out(x): Promotion::Float;
    { floats |x| x.log1p::<I>(); complexes scalar |x| complex::log1p::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.div(&self_.add(1)?.conj()?)? };
    samples: |m| super::examples(&OP, m, -0.5, 3.0, &[]);
}

// ---- trigonometry -------------------------------------------------------------------------------

unary! {
    /// The sine of an angle in radians.
    fn sin, sin_, sin_out(x): Promotion::Float;
    { floats |x| => x.sin_common::<I>(), if x.is_common_angle(), else x.sin::<I>(); complexes scalar |x| complex::sin::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.cos()?.conj()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
unary! {
    /// The cosine of an angle in radians.
    fn cos, cos_, cos_out(x): Promotion::Float;
    { floats |x| => x.cos_common::<I>(), if x.is_common_angle(), else x.cos::<I>(); complexes scalar |x| complex::cos::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.neg()?.mul(&self_.sin()?.conj()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
unary! {
    /// The tangent of an angle in radians.
    fn tan, tan_, tan_out(x): Promotion::Float;
    { floats |x| => x.tan_common::<I>(), if x.is_common_angle(), else x.tan::<I>(); complexes scalar |x| complex::tan::<I, R>(x); }
    derivative: backward! { self_(g, result: Tensor) => g.mul(&result.mul(&result)?.add(1)?.conj()?)? };
    samples: |m| super::examples(&OP, m, -1.2, 1.2, &[]);
}
unary! {
    /// The arcsine, in radians.
    fn asin, asin_, asin_out(x): Promotion::Float;
    { floats |x| x.asin::<I>(); complexes scalar |x| complex::asin::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.mul(&self_)?.neg()?.add(1)?.rsqrt()?.conj()?)? };
    samples: |m| super::examples(&OP, m, -0.9, 0.9, &[]);
}
unary! {
    /// The arccosine, in radians.
    fn acos, acos_, acos_out(x): Promotion::Float;
    { floats |x| x.acos::<I>(); complexes scalar |x| complex::acos::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.neg()?.mul(&self_.mul(&self_)?.neg()?.add(1)?.rsqrt()?.conj()?)? };
    samples: |m| super::examples(&OP, m, -0.9, 0.9, &[]);
}
unary! {
    /// The arctangent, in radians.
    fn atan, atan_, atan_out(x): Promotion::Float;
    { floats |x| x.atan::<I>(); complexes scalar |x| complex::atan::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.div(&self_.mul(&self_)?.add(1)?.conj()?)? };
    samples: |m| super::examples(&OP, m, -0.9, 0.9, &[]);
}
unary! {
    /// The hyperbolic sine.
    fn sinh, sinh_, sinh_out(x): Promotion::Float;
    { floats |x| x.sinh::<I>(); complexes scalar |x| complex::sinh::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.cosh()?.conj()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
unary! {
    /// The hyperbolic cosine.
    fn cosh, cosh_, cosh_out(x): Promotion::Float;
    { floats |x| x.cosh::<I>(); complexes scalar |x| complex::cosh::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.sinh()?.conj()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
unary! {
    /// The inverse hyperbolic sine.
    fn asinh, asinh_, asinh_out(x): Promotion::Float;
    { floats |x| x.asinh::<I>(); complexes scalar |x| complex::asinh::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.mul(&self_)?.add(1)?.rsqrt()?.conj()?)? };
    samples: |m| super::examples(&OP, m, -0.9, 0.9, &[]);
}
unary! {
    /// The inverse hyperbolic cosine.
    fn acosh, acosh_, acosh_out(x): Promotion::Float;
    { floats |x| x.acosh::<I>(); complexes scalar |x| complex::acosh::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => match self_.dtype().is_complex() {
            // Apart from the branch cuts the same, but PyTorch gives a real argument below -1 a slope too.
            false => g.mul(&self_.mul(&self_)?.sub(1)?.rsqrt()?)?,
            true => g.mul(&self_.sub(1)?.rsqrt()?.mul(&self_.add(1)?.rsqrt()?)?.conj()?)?,
        } };
    samples: |m| super::examples(&OP, m, 1.2, 3.0, &[]);
}
unary! {
    /// The inverse hyperbolic tangent.
    fn atanh, atanh_, atanh_out(x): Promotion::Float;
    { floats |x| x.atanh::<I>(); complexes scalar |x| complex::atanh::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => g.div(&self_.mul(&self_)?.neg()?.add(1)?.conj()?)? };
    samples: |m| super::examples(&OP, m, -0.9, 0.9, &[]);
}
unary! {
    /// `sin(pi self) / (pi self)`, 1 at 0.
    fn sinc, sinc_, sinc_out(x): Promotion::Float;
    { floats |x| x.sinc::<I>(); complexes scalar |x| complex::sinc::<I, R>(x); }
    derivative: backward! { self_(g, self_: Tensor) => sinc_gradient(g, &self_)? };
    samples: |m| super::examples(&OP, m, 0.2, 2.0, &[]);
}

/// `g (pi x cos(pi x) - sin(pi x)) / (pi x^2)`; nothing at zero.
fn sinc_gradient(g: &Tensor, x: &Tensor) -> Result<Tensor> {
    let angle = x.mul(std::f64::consts::PI)?;
    let square = angle.mul(x)?;
    let rise = angle.cos()?.mul(&angle)?.sub(&angle.sin()?)?;
    g.mul(&rise.div(&square.add(&square.eq(0)?)?)?.conj()?)
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    acos::ALL,
    acosh::ALL,
    asin::ALL,
    asinh::ALL,
    atan::ALL,
    atanh::ALL,
    cos::ALL,
    cosh::ALL,
    exp2::ALL,
    exp::ALL,
    expm1::ALL,
    log10::ALL,
    log1p::ALL,
    log2::ALL,
    log::ALL,
    reciprocal::ALL,
    rsqrt::ALL,
    sin::ALL,
    sinc::ALL,
    sinh::ALL,
    sqrt::ALL,
    square::ALL,
    tan::ALL,
];
