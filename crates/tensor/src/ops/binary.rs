//! Arithmetic of two operands.

use crate::autograd::Forward;
use super::rounding::{format_of, rounded_to};
use crate::pointwise::{Params, Pointwise, scalar_params};
use crate::promotion::Promotion;
use crate::samples::{Maker, Sample};
use crate::schema::Base;
use crate::value::{Outputs, OwnedValue, missing};
use crate::{
    Body, DType, Error, IntoOperand, Op, Operand, OwnedOperand, Result, Scalar, Tensor, Value, backward, ensure, sample,
};

/// `alpha` of add and sub: one when absent; it must not be wider than the result's category.
#[inline]
fn alpha(args: &[Value<'_>], dtype: DType) -> Result<Params> {
    let alpha = match args {
        [] | [Value::None] | [Value::Scalar(Scalar::Int(1))] => Scalar::Int(1),
        [Value::Scalar(s)] => check_factor("alpha", *s, dtype)?.fit(dtype)?.rounded(dtype),
        args => return scalar_params(args, dtype),
    };
    Ok([alpha, Scalar::Int(0), Scalar::Int(0), Scalar::Int(0)])
}

/// `alpha` of sub, whose negative PyTorch multiplies by: that is what must be in range.
fn alpha_to_subtract(args: &[Value<'_>], dtype: DType) -> Result<Params> {
    match args {
        [Value::Scalar(s)] => {
            check_factor("alpha", *s, dtype)?.negated().fit(dtype)?;
            Ok([s.rounded(dtype), Scalar::Int(0), Scalar::Int(0), Scalar::Int(0)])
        }
        args => alpha(args, dtype),
    }
}

/// A factor called `name`, if its category is not above that of `dtype`, nor a boolean where the dtype is not.
pub(crate) fn check_factor(name: &str, factor: Scalar, dtype: DType) -> Result<Scalar> {
    ensure!(
        dtype == DType::Bool || !matches!(factor, Scalar::Bool(_)),
        "Boolean {name} only supported for Boolean results."
    );
    ensure!(
        !(dtype.is_integral(true) && matches!(factor, Scalar::Float(_) | Scalar::Complex(_))),
        "For integral input tensors, argument {name} must not be a floating point number."
    );
    ensure!(
        dtype.is_complex() || !factor.is_complex(),
        "For non-complex input tensors, argument {name} must not be a complex number."
    );
    Ok(factor)
}

op! {
    /// `self + alpha * other`.
    add: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        InPlace INPLACE: "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        Out OUT: "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        InPlace SCALAR_INPLACE: "add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)",
        Out SCALAR_OUT: "add.Scalar_out(Tensor self, Scalar other, Scalar alpha=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Pointwise(&Pointwise {
        arity: 2,
        promotion: Promotion::Common,
        strips: strips! {
            numbers wrapping light |x, y; p| x.add(y.mul(p[0]));
            bools |x, y; p| x.add(y.mul(p[0]));
        },
        params: alpha,
        text: strip_text! { numbers |x, y; p| x + p[0] * y; bools |x, y| x || y; },
        cpu_name: "add_stub",
    });
    derivative: backward! {
        self_(g) => g.clone(),
        other(g, alpha: Option<Scalar>) => scaled(g, alpha)?,
    };
    forward: Forward::FromBackward;
    samples: |m| vec![
        sample![m.any(&[2, 3]), m.any(&[2, 3])],
        sample![m.any(&[2, 3]), m.any(&[3]), Scalar::Int(2)],
        sample![m.any(&[2, 1]), m.any(&[])],
    ];
    fn add(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn add_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    fn add_scaled(&self, other: impl IntoOperand, alpha: impl Into<Scalar>) -> Tensor [self, other.operand(), alpha.into()];
    fn add_scaled_(&self, other: impl IntoOperand, alpha: impl Into<Scalar>) -> Tensor [self, other.operand(), alpha.into()] in INPLACE;
    out fn add_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

/// `g` times the conjugate of an optional factor.
fn scaled(g: &Tensor, alpha: Option<Scalar>) -> Result<Tensor> {
    match alpha {
        None | Some(Scalar::Int(1)) => Ok(g.clone()),
        Some(a) => g.mul(a.conj()),
    }
}

op! {
    /// `self - alpha * other`.
    sub: "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        InPlace INPLACE: "sub_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        Out OUT: "sub.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        InPlace SCALAR_INPLACE: "sub_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)",
        Out SCALAR_OUT: "sub.Scalar_out(Tensor self, Scalar other, Scalar alpha=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Pointwise(&Pointwise {
        arity: 2,
        promotion: Promotion::Custom(sub_dtype),
        strips: strips! { numbers wrapping light |x, y; p| x.sub(y.mul(p[0])); },
        params: alpha_to_subtract,
        text: strip_text! { numbers |x, y; p| x - p[0] * y; },
        cpu_name: "sub_stub",
    });
    derivative: backward! {
        self_(g) => g.clone(),
        other(g, alpha: Option<Scalar>) => scaled(g, alpha)?.neg()?,
    };
    forward: Forward::FromBackward;
    samples: |m| vec![
        sample![m.any(&[2, 3]), m.any(&[2, 3])],
        sample![m.any(&[2, 3]), m.any(&[3]), Scalar::Int(2)],
    ];
    fn sub(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn sub_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn sub_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

fn sub_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let is_bool = |o: &Operand<'_>| match o {
        Operand::Tensor(t) => t.dtype() == DType::Bool,
        Operand::Scalar(s) => matches!(s, Scalar::Bool(_)),
    };
    ensure!(
        !operands.iter().all(is_bool),
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator \
         instead."
    );
    ensure!(
        !operands.iter().any(is_bool),
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the \
         `~` or `logical_not()` operator instead."
    );
    Ok(crate::promotion::result_type(operands))
}

binary! {
    /// `self * other`.
    fn mul, mul_, mul_out(x, y): Promotion::KeepNumbers(&Promotion::Common);
    { numbers wrapping light |x, y| x.mul(y); bools |x, y| x.mul(y); }
    derivative: backward! {
        self_(g, other: OwnedOperand) => g.mul(&other.conj()?)?,
        other(g, self_: OwnedOperand) => g.mul(&self_.conj()?)?,
    };
    forward: Forward::Multilinear;
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 3])], sample![m.any(&[2, 3]), m.any(&[3])]];
}

binary! {
    /// `self / other`, a real or complex number also for integers.
    fn div, div_, div_out(x, y): Promotion::KeepNumbers(&Promotion::Float);
    { floats |x, y| x / y; complexes |x, y| x.div(y); }
    derivative: backward! {
        self_(g, other: OwnedOperand) => g.div(&other.conj()?)?,
        other(g, self_: OwnedOperand, other: OwnedOperand) => {
            let other = other.to_tensor(g)?;
            g.neg()?.mul(&self_.to_tensor(g)?.div(&other)?.div(&other)?.conj()?)?
        },
    };
    samples: |m| vec![sample![m.any(&[2, 3]), m.uniform(&[2, 3], 1.0, 3.0)], sample![m.any(&[2, 3]), m.uniform(&[3], 1.0, 3.0)]];
}

unary! {
    /// The negative.
    fn neg, neg_, neg_out(x): Promotion::Custom(neg_dtype);
    { numbers wrapping light |x| x.neg(); }
    sign: [0xffff, 0x8000];
    derivative: backward! { self_(g) => g.neg()? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3])]];
    out_rule: crate::OutRule::UNCAST;
}

fn neg_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = crate::promotion::result_type(operands);
    ensure!(
        dtype != DType::Bool,
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or \
         `logical_not()` operator instead."
    );
    Ok(dtype)
}

op! {
    /// `other - alpha * self`.
    rsub: "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        Out OUT: "rsub.Tensor_out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        Out SCALAR_OUT: "rsub.Scalar_out(Tensor self, Scalar other, Scalar alpha=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(|op, _keys, args| match args {
        [x, other] => sub::OP.call(&[*other, *x]),
        [x, other, alpha, ..] => sub::OP.call(&[*other, *x, *alpha]),
        _ => Err(missing(op, args.len())),
    });
    derivative: backward! {
        self_(g, alpha: Option<Scalar>) => scaled(g, alpha)?.neg()?,
        other(g) => g.clone(),
    };
    forward: Forward::FromBackward;
    samples: |m| vec![
        sample![m.any(&[2, 3]), m.any(&[2, 3])],
        sample![m.any(&[2, 3]), m.any(&[3]), Scalar::Int(2)],
    ];
    fn rsub(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
}

// ---- the larger and the smaller -----------------------------------------------------------------

/// The common dtype of operands that must be ordered.
fn ordered(name: &str, operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = crate::promotion::result_type(operands);
    ensure!(!dtype.is_complex(), "{name} not implemented for complex tensors.");
    Ok(dtype)
}

/// Half the gradient where two elements tie, all of it where `keep` loses to nobody.
fn tie(g: &Tensor, mine: &OwnedOperand, theirs: &OwnedOperand, larger: bool) -> Result<Tensor> {
    let (mine, theirs) = (mine.to_tensor(g)?, theirs.to_tensor(g)?);
    let lost = if larger { mine.lt(&theirs)? } else { mine.gt(&theirs)? };
    let half = mine.eq(&theirs)?.where_(&g.div(2.0)?, g)?;
    half.masked_fill(&lost, 0.0)
}

op! {
    /// The larger of the two elements; NaN if either is.
    maximum: "maximum(Tensor self, Tensor other) -> Tensor",
        Out OUT: "maximum.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(|o| ordered("maximum", o)), scalar_params, "";
        ints |x, y| x.maximum(y);
        floats light |x, y| x.maximum::<I>(y);
        bools |x, y| x.add(y);
    );
    derivative: backward! {
        self_(g, self_: OwnedOperand, other: OwnedOperand) => tie(g, &self_, &other, true)?,
        other(g, self_: OwnedOperand, other: OwnedOperand) => tie(g, &other, &self_, true)?,
    };
    samples: ordered_samples;
    fn maximum(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    out fn maximum_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// The smaller of the two elements; NaN if either is.
    minimum: "minimum(Tensor self, Tensor other) -> Tensor",
        Out OUT: "minimum.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(|o| ordered("minimum", o)), scalar_params, "";
        ints |x, y| x.minimum(y);
        floats light |x, y| x.minimum::<I>(y);
        bools |x, y| x.mul(y);
    );
    derivative: backward! {
        self_(g, self_: OwnedOperand, other: OwnedOperand) => tie(g, &self_, &other, false)?,
        other(g, self_: OwnedOperand, other: OwnedOperand) => tie(g, &other, &self_, false)?,
    };
    samples: ordered_samples;
    fn minimum(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    out fn minimum_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

/// Two operands of a dtype that is ordered.
pub(super) fn ordered_samples(m: &mut crate::samples::Maker) -> Vec<crate::samples::Sample> {
    match m.dtype.is_complex() {
        true => vec![],
        false => vec![
            sample![m.any(&[2, 3]), m.any(&[2, 3])],
            sample![m.any(&[2, 3]), m.any(&[3])],
            sample![m.any(&[0, 3]), m.any(&[])],
        ],
    }
}

op! {
    /// The larger of the two elements; a NaN gives way to a number.
    fmax: "fmax(Tensor self, Tensor other) -> Tensor",
        Out OUT: "fmax.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(|o| ordered("fmax", o)), scalar_params, "";
        ints tensors |x, y| x.maximum(y);
        floats light tensors |x, y| x.fmax::<I>(y);
        bools |x, y| x.add(y);
    );
    derivative: backward! {
        self_(g, self_: Tensor, other: Tensor) => self_.ge(&other)?.logical_or(&other.isnan()?)?.where_(g, 0)?,
        other(g, self_: Tensor, other: Tensor) => self_.ge(&other)?.logical_or(&other.isnan()?)?.where_(0, g)?,
    };
    samples: ordered_samples;
    fn fmax(&self, other: &Tensor) -> Tensor [self, other];
    out fn fmax_out(&self, other: &Tensor) [self, other] in OUT;
}

op! {
    /// The smaller of the two elements; a NaN gives way to a number.
    fmin: "fmin(Tensor self, Tensor other) -> Tensor",
        Out OUT: "fmin.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(|o| ordered("fmin", o)), scalar_params, "";
        ints tensors |x, y| x.minimum(y);
        floats light tensors |x, y| x.fmin::<I>(y);
        bools |x, y| x.mul(y);
    );
    derivative: backward! {
        self_(g, self_: Tensor, other: Tensor) => self_.le(&other)?.logical_or(&other.isnan()?)?.where_(g, 0)?,
        other(g, self_: Tensor, other: Tensor) => self_.le(&other)?.logical_or(&other.isnan()?)?.where_(0, g)?,
    };
    samples: ordered_samples;
    fn fmin(&self, other: &Tensor) -> Tensor [self, other];
    out fn fmin_out(&self, other: &Tensor) [self, other] in OUT;
}

// ---- division with a whole quotient, and its remainders -----------------------------------------

/// The common dtype of a division; a whole one by zero is refused before anything is written.
fn whole_division(operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = crate::promotion::result_type(operands);
    let nobody = operands.iter().any(|o| matches!(o, Operand::Tensor(t) if t.numel() == 0));
    if !dtype.is_integral(false) || nobody {
        return Ok(dtype);
    }
    let zero = match operands.get(1) {
        Some(Operand::Scalar(s)) => super::copy::element_bytes(*s, dtype) == [0; 16],
        // A divisor without elements in memory cannot be looked at.
        Some(Operand::Tensor(t)) if t.device().is_cpu() => !t.to_dtype(dtype)?.all()?.item()?.to_bool(),
        _ => false,
    };
    ensure!(!zero, "ZeroDivisionError");
    Ok(dtype)
}

/// Dividends and divisors that are not zero.
fn division_samples(m: &mut crate::samples::Maker) -> Vec<crate::samples::Sample> {
    match m.dtype.is_complex() || m.dtype == DType::Bool {
        true => vec![],
        false => vec![
            sample![m.any(&[2, 3]), m.uniform(&[2, 3], 1.0, 4.0)],
            sample![m.any(&[2, 3]), m.uniform(&[3], 1.0, 4.0)],
            sample![m.any(&[0, 3]), m.uniform(&[], 1.0, 4.0)],
        ],
    }
}

/// The format that quotients are rounded to before they are cut: none where the divisor is a number.
fn quotient_params(args: &[Value<'_>], dtype: DType) -> Result<Params> {
    let mut params = crate::pointwise::NO_PARAMS;
    match args.first() {
        Some(Value::Bool(true)) => {}
        None | Some(Value::None | Value::Bool(false)) => params[0] = format_of(dtype),
        Some(other) => return Err(crate::value::expected("bool", *other)),
    }
    Ok(params)
}

op! {
    /// `self / other` rounded towards zero. Dividing integers by zero is an error. Quotients of halves are rounded to halves
    /// first, unless the divisor is a number.
    div_trunc: "div_trunc.Tensor(Tensor self, Tensor other, bool number=False) -> Tensor",
        InPlace INPLACE: "div_trunc_.Tensor(Tensor(a!) self, Tensor other, bool number=False) -> Tensor(a!)",
        Out OUT: "div_trunc.out(Tensor self, Tensor other, bool number=False, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::KeepNumbers(&Promotion::Custom(whole_division)), quotient_params, "div_trunc_cpu";
        ints |x, y| => x.div_trunc_small::<I>(y), if x.is_small_quotient(y), else x.div_trunc(y);
        floats |x, y; p| => (x / y).trunc::<I>(), if p[0] == T::ZERO, else rounded_to(x / y, p[0]).trunc::<I>();
    );
    derivative: backward! { self_(g) => g.zeros_like()?, other(g) => g.zeros_like()? };
    samples: division_samples;
}

op! {
    /// `self / other` rounded towards negative infinity. Dividing integers by zero is an error.
    floor_divide: "floor_divide(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "floor_divide.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor",
        InPlace SCALAR_INPLACE: "floor_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        Out SCALAR_OUT: "floor_divide.Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::KeepNumbers(&Promotion::Custom(whole_division)), scalar_params, "div_floor_cpu";
        ints |x, y| => x.floor_divide_small::<I>(y), if x.is_small_quotient(y), else x.floor_divide(y);
        floats |x, y| => x.floor_divide_common::<I>(y), if x.is_common_quotient(y), else x.floor_divide::<I>(y);
    );
    derivative: backward! { self_(g) => g.zeros_like()?, other(g) => g.zeros_like()? };
    samples: division_samples;
    fn floor_divide(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn floor_divide_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn floor_divide_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

/// `other * quotient` is what a remainder takes away.
fn quotient(g: &Tensor, x: &OwnedOperand, y: &Tensor, mode: &Op2) -> Result<Tensor> {
    g.mul(&mode(&x.to_tensor(y)?, y)?)?.neg()
}
type Op2 = dyn Fn(&Tensor, &Tensor) -> Result<Tensor>;

op! {
    /// The remainder of `self / other` with the divisor's sign (Python's `%`). Dividing integers by zero is an error.
    remainder: "remainder.Tensor(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "remainder_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "remainder.Tensor_out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "remainder.Scalar(Tensor self, Scalar other) -> Tensor",
        InPlace SCALAR_INPLACE: "remainder_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        Out SCALAR_OUT: "remainder.Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR_TENSOR: "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
        Out SCALAR_TENSOR_OUT: "remainder.Scalar_Tensor_out(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(whole_division), scalar_params, "remainder_cpu";
        ints |x, y| => x.remainder_small::<I>(y), if x.is_small_quotient(y), else x.remainder(y);
        floats |x, y| => x.remainder_common::<I>(y), if x.is_common_quotient(y), else x.remainder::<I>(y);
    );
    derivative: backward! {
        self_(g) => g.clone(),
        other(g, self_: OwnedOperand, other: Tensor) => quotient(g, &self_, &other, &|x, y| x.floor_divide(y))?,
    };
    samples: division_samples;
    fn remainder(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn remainder_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn remainder_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// The remainder of `self / other` with the dividend's sign (C's `fmod`). Dividing integers by zero is an error.
    fmod: "fmod.Tensor(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "fmod_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "fmod.Tensor_out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "fmod.Scalar(Tensor self, Scalar other) -> Tensor",
        InPlace SCALAR_INPLACE: "fmod_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        Out SCALAR_OUT: "fmod.Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(whole_division), scalar_params, "fmod_cpu";
        ints |x, y| => x.fmod_small::<I>(y), if x.is_small_quotient(y), else x.fmod(y);
        floats |x, y| => x.fmod_common::<I>(y), if x.is_common_quotient(y), else x.fmod::<I>(y);
    );
    derivative: backward! {
        self_(g) => g.clone(),
        other(g, self_: OwnedOperand, other: Tensor) => quotient(g, &self_, &other, &|x, y| x.div_mode(y, Some("trunc")))?,
    };
    samples: division_samples;
    fn fmod(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn fmod_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn fmod_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

/// Calls the division that the third argument names: `ops` are for no rounding, `trunc` and `floor`.
fn div_by_mode(args: &[Value<'_>], ops: [&'static Op; 3]) -> Result<Outputs> {
    let op = match args.get(2) {
        None | Some(Value::None) => ops[0],
        Some(Value::Str("trunc")) => ops[1],
        Some(Value::Str("floor")) => ops[2],
        Some(Value::Str(mode)) => {
            return Err(Error::runtime(format!(
                "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'"
            )));
        }
        Some(v) => return Err(Error::type_(format!("div(): rounding_mode must be str, not {}", v.kind_name()))),
    };
    let number = match args.get(1) {
        Some(Value::Tensor(t)) => t.dim() == 0,
        _ => true,
    };
    let number = std::ptr::eq(op, ops[1]).then_some(Value::Bool(number));
    let call: smallvec::SmallVec<[Value<'_>; 4]> =
        args.iter().take(2).copied().chain(number).chain(args.iter().skip(3).copied()).collect();
    op.call(&call)
}

/// Examples of a division with a rounding mode, by a tensor or a number.
fn mode_samples(op: &'static Op, m: &mut Maker) -> Vec<Sample> {
    if m.dtype.is_complex() {
        return vec![];
    }
    let by_number = matches!(op.schema().params[1].ty.base, Base::Scalar);
    let mut other = || match by_number {
        true => OwnedValue::Scalar(Scalar::Float(1.5)),
        false => m.uniform(&[3], 1.0, 3.0).into(),
    };
    let others = [other(), other()];
    let [a, b] = others;
    vec![sample![m.any(&[2, 3]), a, "floor"], sample![m.any(&[2, 3]), b, "trunc"]]
}

/// The forms of division with a rounding mode.
macro_rules! div_mode {
    ($($(#[doc = $doc:expr])* $name:ident: $schema:expr => $form:ident;)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: $schema;
            Body::Composite(|_op, _keys, args| div_by_mode(args, [&div::$form, &div_trunc::$form, &floor_divide::$form]));
            samples: |m| mode_samples(&OP, m);
        }
    )* };
}
div_mode! {
    /// `self / other`, rounded as the mode says: not at all (`None`), towards zero (`trunc`) or down (`floor`).
    div_tensor_mode: "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor" => OP;
    /// `self / other` in place, rounded as the mode says.
    div_tensor_mode_: "div_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? rounding_mode) -> Tensor(a!)" => INPLACE;
    /// `self / other` into `out`, rounded as the mode says.
    div_out_mode: "div.out_mode(Tensor self, Tensor other, *, str? rounding_mode, Tensor(a!) out) -> Tensor(a!)" => OUT;
    /// `self / other`, rounded as the mode says.
    div_scalar_mode: "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor" => OP;
    /// `self / other` in place, rounded as the mode says.
    div_scalar_mode_: "div_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? rounding_mode) -> Tensor(a!)" => INPLACE;
    /// `self / other` into `out`, rounded as the mode says.
    div_scalar_mode_out: "div.Scalar_mode_out(Tensor self, Scalar other, *, str? rounding_mode, Tensor(a!) out) -> Tensor(a!)" => OUT;
}

impl Tensor {
    /// `self / other`, rounded as the mode says: not at all (`None`), towards zero (`trunc`) or down (`floor`).
    ///
    /// # Errors
    /// For another mode, sizes that do not broadcast, and integers divided by zero.
    pub fn div_mode(&self, other: impl IntoOperand, rounding_mode: Option<&str>) -> Result<Tensor> {
        div_tensor_mode::OP.call(&[self.into(), other.operand().into(), rounding_mode.into()])?.one()
    }

    /// [`Tensor::div_mode`] in place.
    ///
    /// # Errors
    /// As [`Tensor::div_mode`], and when the result's dtype or sizes are not this tensor's.
    pub fn div_mode_(&self, other: impl IntoOperand, rounding_mode: Option<&str>) -> Result<Tensor> {
        div_tensor_mode_::OP.call(&[self.into(), other.operand().into(), rounding_mode.into()])?.one()
    }
}

// ---- further names ------------------------------------------------------------------------------

alias! {
    max_other: "max.other(Tensor self, Tensor other) -> Tensor" => maximum::OP;
    max_out: "max.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => maximum::OUT;
    min_other: "min.other(Tensor self, Tensor other) -> Tensor" => minimum::OP;
    min_out: "min.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => minimum::OUT;
    multiply: "multiply.Tensor(Tensor self, Tensor other) -> Tensor" => mul::OP;
    multiply_: "multiply_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)" => mul::INPLACE;
    multiply_out: "multiply.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => mul::OUT;
    multiply_scalar: "multiply.Scalar(Tensor self, Scalar other) -> Tensor" => mul::SCALAR;
    multiply_scalar_: "multiply_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)" => mul::SCALAR_INPLACE;
    subtract: "subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" => sub::OP;
    subtract_: "subtract_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)" => sub::INPLACE;
    subtract_out: "subtract.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)" => sub::OUT;
    subtract_scalar: "subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor" => sub::SCALAR;
    subtract_scalar_: "subtract_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)" => sub::SCALAR_INPLACE;
    negative: "negative(Tensor self) -> Tensor" => neg::OP;
    negative_: "negative_(Tensor(a!) self) -> Tensor(a!)" => neg::INPLACE;
    negative_out: "negative.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)" => neg::OUT;
    divide: "divide.Tensor(Tensor self, Tensor other) -> Tensor" => div::OP;
    divide_: "divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)" => div::INPLACE;
    divide_out: "divide.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => div::OUT;
    divide_scalar: "divide.Scalar(Tensor self, Scalar other) -> Tensor" => div::SCALAR;
    divide_scalar_: "divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)" => div::SCALAR_INPLACE;
    divide_tensor_mode: "divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor" => div_tensor_mode::OP;
    divide_tensor_mode_: "divide_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? rounding_mode) -> Tensor(a!)" => div_tensor_mode_::OP;
    divide_out_mode: "divide.out_mode(Tensor self, Tensor other, *, str? rounding_mode, Tensor(a!) out) -> Tensor(a!)" => div_out_mode::OP;
    divide_scalar_mode: "divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor" => div_scalar_mode::OP;
    divide_scalar_mode_: "divide_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? rounding_mode) -> Tensor(a!)" => div_scalar_mode_::OP;
    true_divide: "true_divide.Tensor(Tensor self, Tensor other) -> Tensor" => div::OP;
    true_divide_: "true_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)" => div::INPLACE;
    true_divide_out: "true_divide.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => div::OUT;
    true_divide_scalar: "true_divide.Scalar(Tensor self, Scalar other) -> Tensor" => div::SCALAR;
    true_divide_scalar_: "true_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)" => div::SCALAR_INPLACE;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    add::ALL,
    div::ALL,
    div_out_mode::ALL,
    div_scalar_mode::ALL,
    div_scalar_mode_::ALL,
    div_scalar_mode_out::ALL,
    div_tensor_mode::ALL,
    div_tensor_mode_::ALL,
    div_trunc::ALL,
    divide::ALL,
    divide_::ALL,
    divide_out::ALL,
    divide_out_mode::ALL,
    divide_scalar::ALL,
    divide_scalar_::ALL,
    divide_scalar_mode::ALL,
    divide_scalar_mode_::ALL,
    divide_tensor_mode::ALL,
    divide_tensor_mode_::ALL,
    floor_divide::ALL,
    fmax::ALL,
    fmin::ALL,
    fmod::ALL,
    max_other::ALL,
    max_out::ALL,
    maximum::ALL,
    min_other::ALL,
    min_out::ALL,
    minimum::ALL,
    mul::ALL,
    multiply::ALL,
    multiply_::ALL,
    multiply_out::ALL,
    multiply_scalar::ALL,
    multiply_scalar_::ALL,
    neg::ALL,
    negative::ALL,
    negative_::ALL,
    negative_out::ALL,
    remainder::ALL,
    rsub::ALL,
    sub::ALL,
    subtract::ALL,
    subtract_::ALL,
    subtract_out::ALL,
    subtract_scalar::ALL,
    subtract_scalar_::ALL,
    true_divide::ALL,
    true_divide_::ALL,
    true_divide_out::ALL,
    true_divide_scalar::ALL,
    true_divide_scalar_::ALL,
];
