//! Arithmetic of two operands.

use crate::autograd::Forward;
use crate::pointwise::{Params, Pointwise, scalar_params};
use crate::promotion::Promotion;
use crate::{
    Body, DType, IntoOperand, Op, Operand, OwnedOperand, Result, Scalar, Tensor, Value, backward, ensure, sample,
};

/// `alpha` of add and sub: one when absent; it must not be wider than the result's category.
fn alpha(args: &[Value<'_>]) -> Result<Params> {
    let mut params = scalar_params(args)?;
    if matches!(args.first(), None | Some(Value::None)) {
        params[0] = Scalar::Int(1);
    }
    Ok(params)
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
            numbers |x, y; p| x.add(y.mul(p[0]));
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
        strips: strips! { numbers |x, y; p| x.sub(y.mul(p[0])); },
        params: alpha,
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
    fn mul, mul_, mul_out(x, y): Promotion::Common;
    { numbers |x, y| x.mul(y); bools |x, y| x.mul(y); }
    derivative: backward! {
        self_(g, other: OwnedOperand) => g.mul(&other.conj()?)?,
        other(g, self_: OwnedOperand) => g.mul(&self_.conj()?)?,
    };
    forward: Forward::Multilinear;
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 3])], sample![m.any(&[2, 3]), m.any(&[3])]];
}

binary! {
    /// `self / other`, a real or complex number also for integers.
    fn div, div_, div_out(x, y): Promotion::Float;
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
    { numbers |x| x.neg(); }
    derivative: backward! { self_(g) => g.neg()? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3])]];
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
    pointwise!(2, Promotion::Custom(sub_dtype), alpha, "sub_stub"; numbers |x, y; p| y.sub(x.mul(p[0])););
    derivative: backward! {
        self_(g, alpha: Option<Scalar>) => scaled(g, alpha)?.neg()?,
        other(g) => g.clone(),
    };
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
        floats |x, y| x.maximum::<I>(y);
        bools |x, y| x.add(y);
    );
    derivative: backward! {
        self_(g, self_: OwnedOperand, other: OwnedOperand) => tie(g, &self_, &other, true)?,
        other(g, self_: OwnedOperand, other: OwnedOperand) => tie(g, &other, &self_, true)?,
    };
    samples: |m| ordered_samples(m);
    fn maximum(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    out fn maximum_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// The smaller of the two elements; NaN if either is.
    minimum: "minimum(Tensor self, Tensor other) -> Tensor",
        Out OUT: "minimum.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(|o| ordered("minimum", o)), scalar_params, "";
        ints |x, y| x.minimum(y);
        floats |x, y| x.minimum::<I>(y);
        bools |x, y| x.mul(y);
    );
    derivative: backward! {
        self_(g, self_: OwnedOperand, other: OwnedOperand) => tie(g, &self_, &other, false)?,
        other(g, self_: OwnedOperand, other: OwnedOperand) => tie(g, &other, &self_, false)?,
    };
    samples: |m| ordered_samples(m);
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

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[add::ALL, div::ALL, maximum::ALL, minimum::ALL, mul::ALL, neg::ALL, rsub::ALL, sub::ALL];
