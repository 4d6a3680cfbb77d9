//! Special functions of the `torch.special` namespace that have no other name.

use super::rounding::{format_of, rounded_to};
use super::unary::examples;
use crate::pointwise::scalar_params;
use crate::promotion::Promotion;
use crate::value::OwnedOperand;
use crate::{DType, IntoOperand, Op, Result, Tensor, backward, sample};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

/// Functions of one tensor, which have no in-place form.
macro_rules! special {
    ($($(#[doc = $doc:expr])* fn $name:ident, $out:ident, $cpu_name:expr; { $($strips:tt)* } $low:expr, $high:expr; $derivative:expr;)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor self) -> Tensor"),
                Out OUT: concat!(stringify!($name), ".out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)");
            pointwise!(1, Promotion::Float, scalar_params, $cpu_name; floats rare $($strips)*;);
            derivative: $derivative;
            samples: |m| super::examples(&OP, m, $low, $high, &[]);
            ulp: 4.0;
            fn $name(&self) -> Tensor [self];
            out fn $out(&self) [self] in OUT;
        }
    )* };
}

special! {
    /// `-self log(self)`: 0 at 0, negative infinity below.
    fn special_entr, special_entr_out, "entr_cpu";
    { |x| x.entr::<I>() } 0.1, 3.0;
    backward! { self_(g, self_: Tensor) => g.mul(&self_.log()?.add(1)?.neg()?)? };

    /// `exp(self^2) erfc(self)`.
    fn special_erfcx, special_erfcx_out, "erfcx_cpu";
    { |x| x.erfcx::<I>() } -1.0, 3.0;
    backward! { self_(g, self_: Tensor, result: Tensor) => g.mul(&self_.mul(&result)?.mul(2)?.sub(FRAC_2_SQRT_PI)?)? };

    /// `exp(-|self|)` times the modified Bessel function of the first kind of order 0.
    fn special_i0e, special_i0e_out, "i0e_cpu";
    { |x| x.i0e::<I>() } 0.2, 3.0;
    backward! {
        self_(g, self_: Tensor, result: Tensor) => g.mul(&self_.special_i1e()?.sub(&self_.sgn()?.mul(&result)?)?)?
    };

    /// `exp(-|self|)` times the modified Bessel function of the first kind of order 1.
    fn special_i1e, special_i1e_out, "i1e_cpu";
    { |x| x.i1e::<I>() } 0.2, 3.0;
    backward! { self_(g, self_: Tensor, result: Tensor) => g.mul(&i1e_slope(&self_, &result)?)? };

    /// The logarithm of the normal distribution function, accurate where that is small.
    fn special_log_ndtr, special_log_ndtr_out, "log_ndtr_cpu";
    { |x| x.log_ndtr::<I>() } -3.0, 3.0;
    backward! {
        self_(g, self_: Tensor) => {
            let tail = self_.mul(-FRAC_1_SQRT_2)?.special_erfcx()?;
            g.div(&tail)?.mul((2.0 / PI).sqrt())?
        }
    };

    /// The inverse of the normal distribution function.
    fn special_ndtri, special_ndtri_out, "ndtri_cpu";
    { |x| => x.ndtri_common::<I>(), if x.is_common_ndtri(), else x.ndtri::<I>() } 0.1, 0.9;
    backward! {
        self_(g, result: Tensor) => g.mul(&result.mul(&result)?.mul(0.5)?.exp()?.mul((2.0 * PI).sqrt())?)?
    };
}

op! {
    /// The normal distribution function.
    special_ndtr: "special_ndtr(Tensor self) -> Tensor",
        Out OUT: "special_ndtr.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(1, Promotion::Float, |_args, dtype| {
        let mut params = crate::pointwise::NO_PARAMS;
        params[0] = format_of(dtype);
        Ok(params)
    }, "ndtr_cpu";
        floats |x; p| => x.ndtr::<I>(), if p[0] == T::ZERO, else {
            let erf = rounded_to(rounded_to(x * T::from_f64(FRAC_1_SQRT_2), p[0]).erf::<I>(), p[0]);
            rounded_to(T::ONE + erf, p[0]) * T::HALF
        };
    );
    derivative: backward! {
        self_(g, self_: Tensor) => g.mul(&self_.mul(&self_)?.mul(-0.5)?.exp()?.mul(1.0 / (2.0 * PI).sqrt())?)?
    };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
    ulp: 4.0;
    fn special_ndtr(&self) -> Tensor [self];
    out fn special_ndtr_out(&self) [self] in OUT;
}

/// Where `x` is so small (or NaN) that a function's slope there is taken to be its slope at zero.
pub(super) fn about_zero(x: &Tensor) -> Result<Tensor> {
    let epsilon = if x.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    x.abs()?.gt(epsilon)?.logical_not()
}

/// `i0e(x) - i1e(x) (sgn(x) + 1 / x)`, one half at zero.
fn i1e_slope(x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let at_zero = about_zero(x)?;
    let apart = x.masked_fill(&at_zero, 1)?;
    let slope = x.special_i0e()?.sub(&result.mul(&apart.sgn()?.add(&apart.reciprocal()?)?)?)?;
    slope.masked_fill(&at_zero, 0.5)
}

op! {
    /// `self log1p(other)`; 0 where `self` is 0 and `other` is not NaN.
    special_xlog1py: "special_xlog1py(Tensor self, Tensor other) -> Tensor",
        Out OUT: "special_xlog1py.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SELF_SCALAR: "special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor",
        Out SELF_SCALAR_OUT: "special_xlog1py.self_scalar_out(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload OTHER_SCALAR: "special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor",
        Out OTHER_SCALAR_OUT: "special_xlog1py.other_scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Float, scalar_params, "xlog1py_cpu"; floats costly |x, y| x.xlog1py::<I>(y););
    derivative: backward! {
        self_(g, self_: Tensor, other: OwnedOperand) => {
            let other = other.to_tensor(g)?;
            let flat = self_.eq(0)?.logical_and(&other.le(-1)?)?;
            g.mul(&other.log1p()?.masked_fill(&flat, 0)?)?
        },
        other(g, self_: OwnedOperand, other: Tensor) => g.mul(&self_.to_tensor(g)?)?.div(&other.add(1)?)?,
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![
            sample![m.uniform(&[2, 3], 0.5, 2.0), m.uniform(&[3], 0.1, 2.0)],
            sample![m.uniform(&[], 0.5, 2.0), m.uniform(&[2], 0.1, 2.0)],
        ],
        false => vec![],
    };
    ulp: 4.0;
    fn special_xlog1py(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    out fn special_xlog1py_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    special_entr::ALL,
    special_erfcx::ALL,
    special_i0e::ALL,
    special_i1e::ALL,
    special_log_ndtr::ALL,
    special_ndtr::ALL,
    special_ndtri::ALL,
    special_xlog1py::ALL,
];
