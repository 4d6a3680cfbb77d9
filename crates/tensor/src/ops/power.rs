//! Powers and other functions of two numbers.

use crate::autograd::Derivative;
use crate::dims;
use crate::pointwise::{map_one, scalar_params};
use crate::promotion::{Promotion, result_type, result_type_with};
use crate::samples::{Maker, Sample};
use crate::value::Operand;
use crate::{Body, DType, Error, IntoOperand, Op, OwnedOperand, Result, Scalar, Tensor, backward, ensure, sample};
use flambeau_base::Element;
use flambeau_cpu::math::{Isa, complex, level};
use flambeau_cpu::pointwise::{MAX_PARAMS, Map, strip};

// ---- pow ----------------------------------------------------------------------------------------

fn pow_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = result_type(operands);
    if dtype == DType::Bool {
        return Err(Error::not_implemented("\"pow\" not implemented for 'Bool'"));
    }
    if let [Operand::Tensor(_), Operand::Scalar(exponent)] = operands {
        check_exponent(dtype, *exponent)?;
        // Other powers of what is not a half are computed without writing the exponent as an element.
        if dtype.is_integral(true) || dtype != dtype.compute() {
            exponent.fit(dtype)?;
        }
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
    let at_zero = base.eq(0)?;
    match exponent.dtype().is_complex() {
        true => at_zero.logical_and(&exponent.real()?.ge(0)?)?.logical_and(&exponent.imag()?.eq(0)?),
        false => at_zero.logical_and(&exponent.ge(0)?),
    }
}

/// Whether a base is a number that is zero in no dtype.
fn never_zero(base: &OwnedOperand) -> bool {
    match base {
        OwnedOperand::Scalar(Scalar::Int(n)) => *n != 0,
        OwnedOperand::Scalar(Scalar::Float(x)) => x.abs() > 1e-7,
        _ => false,
    }
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
        // Always chosen: what chooses may have forms for vectors and for halves.
        floats |x, y| => x.pow_one::<I>(y), if true, halves x.pow::<I>(y), vectors T::pow_vectors::<I, C>(x, y), else
            x.pow::<I>(y);
        complexes scalar |x, y| complex::pow::<I, R>(x, y);
    );
    derivative: backward! {
        self_(g, self_: Tensor, exponent: Tensor) => {
            let slope = self_.pow(&exponent.sub(1)?)?.mul(&exponent)?;
            g.mul(&slope.conj()?)?.masked_fill(&exponent.eq(0)?, 0)?
        },
        exponent(g, self_: OwnedOperand, exponent: Tensor, result: Tensor) => {
            let base = self_.to_tensor(g)?;
            let g = g.mul(&result.mul(&base.log()?)?.conj()?)?;
            if never_zero(&self_) { g } else { g.masked_fill(&flat(&base, &exponent)?, 0)? }
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

/// The third power of each element, multiplied in this order.
struct Cube;
impl<T: Element + std::ops::Mul<Output = T>> Map<T, 1> for Cube {
    type Out = T;
    const PARAMS: bool = false;
    #[inline(always)]
    fn map<I: Isa>([x]: [T; 1], _: &[T; MAX_PARAMS]) -> T {
        x * x * x
    }
}

/// Every factor rounded, as PyTorch has it; in one pass where nothing is rounded between them.
fn cube(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::F32 if x.device().is_cpu() => map_one(strip::<Cube, f32, 1>(level()), x),
        DType::F64 if x.device().is_cpu() => map_one(strip::<Cube, f64, 1>(level()), x),
        _ => x.mul(x)?.mul(x),
    }
}

/// Small whole exponents are products, and one half is a root; everything else, and every change of dtype, is the general
/// power. Of `float16`, PyTorch rounds only the result.
fn pow_scalar_any(x: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let dtype = result_type_with(x, exponent);
    check_exponent(dtype, exponent)?;
    if dtype == x.dtype() && !exponent.is_complex() {
        let e = exponent.to_f64();
        let roots = dtype.is_floating_point() && dtype != DType::F16;
        if e == 0.0 {
            return x.ones_like();
        } else if e == 1.0 {
            return x.clone_in(crate::MemoryFormat::Preserve);
        } else if e == 2.0 && dtype != DType::Bool {
            return x.mul(x);
        } else if e == 3.0 && dtype != DType::Bool && dtype != DType::F16 {
            return cube(x);
        } else if e == 0.5 && roots {
            return x.sqrt();
        } else if e == -0.5 && roots {
            return x.rsqrt();
        } else if e == -1.0 && roots {
            return x.reciprocal();
        } else if e == -2.0 && roots {
            return x.mul(x)?.reciprocal_();
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

// ---- float_power --------------------------------------------------------------------------------

/// Base and exponent in double precision.
fn doubled(x: Operand<'_>, e: Operand<'_>) -> Result<(Tensor, Tensor)> {
    let complex = result_type(&[x, e]).is_complex();
    let dtype = if complex { DType::Complex128 } else { DType::F64 };
    let like = |o: Operand<'_>, other: Operand<'_>| match (o, other) {
        (Operand::Tensor(t), _) => t.to_dtype(dtype),
        (Operand::Scalar(s), Operand::Tensor(t)) => Tensor::full(&[], s, (dtype, t.device())),
        (Operand::Scalar(s), _) => Tensor::full(&[], s, dtype),
    };
    Ok((like(x, e)?, like(e, x)?))
}

fn float_power_any(x: Operand<'_>, e: Operand<'_>) -> Result<Tensor> {
    if let Operand::Scalar(s) = e {
        return doubled(x, e)?.0.pow(s);
    }
    let (x, e) = doubled(x, e)?;
    x.pow(&e)
}

fn float_power_inplace(x: &Tensor, e: Operand<'_>) -> Result<Tensor> {
    let complex = result_type(&[Operand::Tensor(x), e]).is_complex();
    let dtype = if complex { DType::Complex128 } else { DType::F64 };
    ensure!(
        x.dtype() == dtype,
        "the base given to float_power_ has dtype {} but the operation's result requires dtype {}",
        x.dtype().scalar_type_name(),
        dtype.scalar_type_name()
    );
    match e {
        Operand::Scalar(s) => x.pow_(s),
        Operand::Tensor(e) => x.pow_(&e.to_dtype(dtype)?),
    }
}

fn float_power_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "the output given to float_power has dtype {} but the operation's result requires dtype {}",
        out.scalar_type_name(),
        result.scalar_type_name()
    );
    Ok(())
}

op! {
    /// `self` to the power `exponent` in double precision.
    float_power: "float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
        Out OUT: "float_power.Tensor_Tensor_out(Tensor self, Tensor exponent, *, Tensor(a!) out) -> Tensor(a!)",
        Overload TENSOR_SCALAR: "float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
        Out TENSOR_SCALAR_OUT: "float_power.Tensor_Scalar_out(Tensor self, Scalar exponent, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "float_power.Scalar(Scalar self, Tensor exponent) -> Tensor",
        Out SCALAR_OUT: "float_power.Scalar_out(Scalar self, Tensor exponent, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(float_power_any; x, exponent));
    samples: |m| vec![sample![m.uniform(&[2, 3], 1.0, 3.0), m.uniform(&[2, 3], 1.0, 3.0)]];
    ulp: 4.0;
    out_rule: crate::OutRule::dtype(float_power_writes);
    fn float_power(&self, exponent: impl IntoOperand) -> Tensor [self, exponent.operand()];
}
op! {
    /// Raises this tensor, of double precision, to a power in place.
    float_power_: "float_power_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)";
    Body::Composite(kernel!(float_power_inplace; x, exponent));
    fn float_power_(&self, exponent: impl IntoOperand) -> Tensor [self, exponent.operand()];
}
op! {
    /// Raises this tensor, of double precision, to the power of a number in place.
    float_power_scalar_: "float_power_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)";
    Body::Composite(kernel!(float_power_inplace; x, exponent));
}

fn ldexp_any(x: &Tensor, other: &Tensor) -> Result<Tensor> {
    match x.dtype().is_floating_point() && other.dtype().is_integral(true) {
        true => scaled_by_power(x, other),
        false => x.mul(&two_to(other)?),
    }
}
fn ldexp_inplace(x: &Tensor, other: &Tensor) -> Result<Tensor> {
    if x.dtype().is_integral(true) {
        ldexp_writes(crate::default_dtype(), x.dtype())?;
    }
    match x.dtype().is_floating_point() && other.dtype().is_integral(true) {
        true => x.copy_(&scaled_by_power(x, other)?),
        false => x.mul_(&two_to(other)?),
    }
}
/// `x * 2^exponent` in `x`'s dtype, rounded once: the power itself may be out of range.
fn scaled_by_power(x: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    if exponent.dtype() == DType::Bool {
        return Err(Error::not_implemented("\"ldexp_cpu_exp\" not implemented for 'Bool'"));
    }
    // From the least subnormal number to the largest in three steps, none of which leaves double precision's range.
    let exponent = exponent.to_dtype(DType::F64)?.clamp(-2200.0, 2200.0)?;
    let third = exponent.div(3.0)?.trunc()?;
    let rest = exponent.sub(&third.mul(2.0)?)?;
    let (third, rest) = (two_to(&third)?, two_to(&rest)?);
    x.to_dtype(DType::F64)?.mul(&third)?.mul(&third)?.mul(&rest)?.to_dtype(x.dtype())
}
fn two_to(exponent: &Tensor) -> Result<Tensor> {
    pow::OP.call(&[Scalar::Float(2.0).into(), exponent.into()])?.one()
}
fn ldexp_writes(result: DType, out: DType) -> Result<()> {
    ensure!(result.can_cast(out), "ldexp can't be cast to the desired output type {}", out.scalar_type_name());
    Ok(())
}
op! {
    /// `self * 2^other`.
    ldexp: "ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
        Out OUT: "ldexp.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(ldexp_any; x, other));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 3])]];
    out_rule: crate::OutRule::dtype(ldexp_writes);
    fn ldexp(&self, other: &Tensor) -> Tensor [self, other];
}
op! {
    /// `self * 2^other` in place.
    ldexp_: "ldexp_(Tensor(a!) self, Tensor other) -> Tensor(a!)";
    Body::Composite(kernel!(ldexp_inplace; x, other));
    fn ldexp_(&self, other: &Tensor) -> Tensor [self, other];
}

// ---- functions of two real numbers --------------------------------------------------------------

fn real_samples(m: &mut Maker) -> Vec<Sample> {
    match m.dtype.is_complex() {
        true => vec![],
        false => vec![
            sample![m.any(&[2, 3]), m.uniform(&[2, 3], 1.0, 3.0)],
            sample![m.any(&[2, 3]), m.uniform(&[3], 1.0, 3.0)],
            sample![m.any(&[0, 3]), m.uniform(&[], 1.0, 3.0)],
        ],
    }
}
fn float_samples(m: &mut Maker) -> Vec<Sample> {
    if m.dtype.is_floating_point() { real_samples(m) } else { vec![] }
}

/// One over the squared distance from the origin, and zero there.
fn inverse_square(y: &Tensor, x: &Tensor) -> Result<Tensor> {
    let inverse = y.mul(y)?.add(&x.mul(x)?)?.reciprocal()?;
    inverse.masked_fill(&inverse.isinf()?, 0)
}

op! {
    /// The angle, in radians, of the point with ordinate `self` and abscissa `other`.
    atan2: "atan2(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "atan2_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "atan2.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Float, scalar_params, "atan2_cpu";
        floats costly |x, y| x.atan2::<I>(y);
    );
    derivative: backward! {
        self_(g, self_: OwnedOperand, other: OwnedOperand) => {
            let (y, x) = (self_.to_tensor(g)?, other.to_tensor(g)?);
            g.mul(&x.mul(&inverse_square(&y, &x)?)?)?
        },
        other(g, self_: OwnedOperand, other: OwnedOperand) => {
            let (y, x) = (self_.to_tensor(g)?, other.to_tensor(g)?);
            g.mul(&y.neg()?.mul(&inverse_square(&y, &x)?)?)?
        },
    };
    samples: real_samples;
    ulp: 4.0;
    fn atan2(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn atan2_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn atan2_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// `sqrt(self^2 + other^2)` without overflow on the way.
    hypot: "hypot(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "hypot_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "hypot.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, scalar_params, "hypot_cpu";
        floats costly |x, y| x.hypot::<I>(y);
    );
    derivative: backward! {
        self_(g, self_: Tensor, result: Tensor) => g.mul(&self_.div(&result)?)?,
        other(g, other: Tensor, result: Tensor) => g.mul(&other.div(&result)?)?,
    };
    samples: float_samples;
    ulp: 4.0;
    fn hypot(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn hypot_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn hypot_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// `log(exp(self) + exp(other))` without overflow on the way.
    logaddexp: "logaddexp(Tensor self, Tensor other) -> Tensor",
        Out OUT: "logaddexp.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, scalar_params, "logaddexp_cpu";
        floats costly |x, y| x.logaddexp::<I>(y);
        complexes scalar |x, y| {
            // The one with the larger real part goes out of the exponential.
            let (high, low) = if x.re < y.re { (y, x) } else { (x, y) };
            if [x.re, x.im, y.re, y.im].into_iter().any(|part| part.is_nan()) {
                crate::Complex::new(R::NAN, R::NAN)
            } else if high.re == low.re && high.re.is_inf() {
                match high.re < R::ZERO {
                    true => low,
                    false => complex::log::<I, R>(complex::exp::<I, R>(high).add(complex::exp::<I, R>(low))),
                }
            } else {
                high.add(complex::log1p::<I, R>(complex::exp::<I, R>(low.sub(high))))
            }
        };
    );
    derivative: backward! {
        self_(g, self_: Tensor, other: Tensor) => g.mul(&self_.sub(&other)?.sigmoid()?.conj()?)?,
        other(g, self_: Tensor, other: Tensor) => g.mul(&other.sub(&self_)?.sigmoid()?.conj()?)?,
    };
    samples: float_samples;
    ulp: 4.0;
    fn logaddexp(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    out fn logaddexp_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// `log2(2^self + 2^other)` without overflow on the way.
    logaddexp2: "logaddexp2(Tensor self, Tensor other) -> Tensor",
        Out OUT: "logaddexp2.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, scalar_params, "logaddexp2_cpu";
        floats costly |x, y| x.logaddexp2::<I>(y);
    );
    derivative: backward! {
        self_(g, self_: Tensor, other: Tensor) => g.mul(&self_.sub(&other)?.mul(std::f64::consts::LN_2)?.sigmoid()?)?,
        other(g, self_: Tensor, other: Tensor) => g.mul(&other.sub(&self_)?.mul(std::f64::consts::LN_2)?.sigmoid()?)?,
    };
    samples: float_samples;
    ulp: 4.0;
    fn logaddexp2(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    out fn logaddexp2_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

fn heaviside_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = result_type(operands);
    ensure!(!dtype.is_complex(), "heaviside is not yet implemented for complex tensors.");
    if let [Operand::Tensor(x), Operand::Tensor(y)] = operands {
        ensure!(x.dtype() == y.dtype(), "heaviside is not yet implemented for tensors with different dtypes.");
    }
    Ok(dtype)
}

fn heaviside_writes(result: DType, out: DType) -> Result<()> {
    ensure!(!out.is_complex(), "heaviside is not yet implemented for complex tensors.");
    ensure!(result == out, "heaviside is not yet implemented for tensors with different dtypes.");
    Ok(())
}

op! {
    /// 0 where the element is negative, 1 where it is positive, and `values` where it is zero.
    heaviside: "heaviside(Tensor self, Tensor values) -> Tensor",
        InPlace INPLACE: "heaviside_(Tensor(a!) self, Tensor values) -> Tensor(a!)",
        Out OUT: "heaviside.out(Tensor self, Tensor values, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(heaviside_dtype), scalar_params, "heaviside_cpu";
        ints tensors |x, y| if x == T::ZERO { y } else if x > T::ZERO { T::ONE } else { T::ZERO };
        floats light tensors |x, y| if x == T::ZERO { y } else if x > T::ZERO { T::ONE } else { T::ZERO };
        bools |x, y| x.add(y);
    );
    derivative: Derivative::NotImplemented("derivative for aten::heaviside is not implemented");
    samples: real_samples;
    out_rule: crate::OutRule::dtype(heaviside_writes);
    fn heaviside(&self, values: &Tensor) -> Tensor [self, values];
    fn heaviside_(&self, values: &Tensor) -> Tensor [self, values] in INPLACE;
}

op! {
    /// `self * log(other)`; 0 where `self` is 0, unless `other` is NaN.
    xlogy: "xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "xlogy_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "xlogy.OutTensor(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR_SELF: "xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor",
        Out SCALAR_SELF_OUT: "xlogy.OutScalar_Self(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR_OTHER: "xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor",
        InPlace SCALAR_OTHER_INPLACE: "xlogy_.Scalar_Other(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        Out SCALAR_OTHER_OUT: "xlogy.OutScalar_Other(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Float, scalar_params, "xlogy_cpu";
        floats costly |x, y| {
            let product = x * y.log::<I>();
            let zero = if y.is_nan() { y } else { T::ZERO };
            if x == T::ZERO || y.is_nan() { zero } else { product }
        };
    );
    derivative: backward! {
        self_(g, self_: Tensor, other: OwnedOperand) => {
            let other = other.to_tensor(g)?;
            let flat = self_.eq(0)?.logical_and(&other.le(0)?)?;
            g.mul(&other.log()?.masked_fill(&flat, 0)?)?
        },
        other(g, self_: OwnedOperand, other: Tensor) => g.mul(&self_.to_tensor(g)?.div(&other)?)?,
    };
    samples: real_samples;
    ulp: 4.0;
    fn xlogy(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn xlogy_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
}

op! {
    /// The magnitude of `self` with the sign of `other`.
    copysign: "copysign.Tensor(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "copysign_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "copysign.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "copysign.Scalar(Tensor self, Scalar other) -> Tensor",
        InPlace SCALAR_INPLACE: "copysign_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        Out SCALAR_OUT: "copysign.Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Float, scalar_params, "copysign_cpu"; floats light tensors |x, y| x.copysign::<I>(y););
    derivative: backward! {
        self_(g, self_: Tensor, result: Tensor) => g.mul(&result.div(&self_)?.masked_fill(&self_.eq(0)?, 0)?)?,
        other(g) => g.zeros_like()?,
    };
    samples: real_samples;
    fn copysign(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn copysign_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
}

/// Halves step on their own grid: as integers, whose order is that of the magnitudes.
fn nextafter_half(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let shape = dims::broadcast(x.sizes(), y.sizes())?;
    // What a pointwise operator's result looks like.
    let like = x.eq(y)?;
    let out = Tensor::empty_strided(like.sizes(), like.strides(), (x.dtype(), x.device()))?;
    let (x, y) = (x.expand(&shape)?.contiguous()?, y.expand(&shape)?.contiguous()?);
    let bits = x.view_dtype(DType::I16)?;
    // Away from zero the bits grow with the magnitude, whatever the sign.
    let outward = x.lt(&y)?.eq(&bits.ge(0)?)?;
    let stepped = outward.where_(&bits.add(1)?, &bits.sub(1)?)?.view_dtype(x.dtype())?;
    let smallest = y.lt(0)?.where_(i16::MIN.wrapping_add(1), 1i16)?.to_dtype(DType::I16)?.view_dtype(x.dtype())?;
    let stepped = x.eq(0)?.where_(&smallest, &stepped)?;
    let same = x.eq(&y)?.where_(&y, &stepped)?;
    out.copy_(&x.ne(&x)?.logical_or(&y.ne(&y)?)?.where_(f64::NAN, &same)?)
}

fn nextafter_any(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let half = |t: &Tensor| t.dtype().is_floating_point() && t.element_size() == 2;
    if half(x) && x.dtype() == y.dtype() {
        return nextafter_half(x, y);
    }
    nextafter_wide::OP.call(&[x.into(), y.into()])?.one()
}

op! {
    /// The next number after `self` in the direction of `other`, in single or double precision.
    nextafter_wide: "nextafter_wide(Tensor self, Tensor other) -> Tensor";
    pointwise!(2, Promotion::Common, scalar_params, "nextafter_cpu"; floats rare |x, y| x.nextafter::<I>(y););
    samples: |m| match m.dtype { DType::F32 | DType::F64 => real_samples(m), _ => vec![] };
}
op! {
    /// The next number of the dtype after `self` in the direction of `other`.
    nextafter: "nextafter(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "nextafter_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "nextafter.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(nextafter_any; x, y));
    derivative: backward! {
        self_(g, self_: Tensor, other: Tensor) => g.masked_fill(&self_.eq(&other)?, 0)?,
        other(g) => g.zeros_like()?,
    };
    samples: float_samples;
    fn nextafter(&self, other: &Tensor) -> Tensor [self, other];
    fn nextafter_(&self, other: &Tensor) -> Tensor [self, other] in INPLACE;
}

alias! {
    arctan2: "arctan2(Tensor self, Tensor other) -> Tensor" => atan2::OP;
    arctan2_: "arctan2_(Tensor(a!) self, Tensor other) -> Tensor(a!)" => atan2::INPLACE;
    arctan2_out: "arctan2.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => atan2::OUT;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    arctan2::ALL,
    arctan2_::ALL,
    arctan2_out::ALL,
    atan2::ALL,
    copysign::ALL,
    float_power::ALL,
    float_power_::ALL,
    float_power_scalar_::ALL,
    heaviside::ALL,
    hypot::ALL,
    ldexp::ALL,
    ldexp_::ALL,
    logaddexp2::ALL,
    logaddexp::ALL,
    nextafter::ALL,
    nextafter_wide::ALL,
    pow::ALL,
    pow_scalar::ALL,
    xlogy::ALL,
];
