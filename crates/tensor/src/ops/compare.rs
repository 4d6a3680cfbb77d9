//! Comparisons and logic: boolean results.

use crate::promotion::Promotion;
use crate::{Op, Result, Tensor, ensure, sample};

/// A comparison: operands are promoted to their common dtype, the result is boolean.
macro_rules! compare {
    ($(#[doc = $doc:expr])* fn $name:ident, $inplace:ident, $out:ident; { $($strips:tt)* } complex $complex:literal;) => {
        binary! {
            $(#[doc = $doc])*
            fn $name, $inplace, $out(x, y): Promotion::Common;
            { $($strips)* }
            samples: |m| match m.dtype.is_complex() && !$complex {
                true => vec![],
                false => vec![sample![m.any(&[2, 3]), m.any(&[2, 3])], sample![m.any(&[2, 3]), m.any(&[3])]],
            };
        }
    };
}

compare! {
    /// Whether `self` equals `other`, element by element.
    fn eq, eq_, eq_out;
    { numbers wrapping -> crate::Bool |x, y| (x == y).into(); bools |x, y| (x == y).into(); }
    complex true;
}
compare! {
    /// Whether `self` differs from `other`, element by element.
    fn ne, ne_, ne_out;
    { numbers wrapping -> crate::Bool |x, y| (x != y).into(); bools |x, y| (x != y).into(); }
    complex true;
}
compare! {
    /// Whether `self` is less than `other`, element by element.
    fn lt, lt_, lt_out;
    { ints -> crate::Bool |x, y| (x < y).into(); floats -> crate::Bool |x, y| (x < y).into(); bools |x, y| (x < y).into(); }
    complex false;
}
compare! {
    /// Whether `self` is less than or equal to `other`, element by element.
    fn le, le_, le_out;
    { ints -> crate::Bool |x, y| (x <= y).into(); floats -> crate::Bool |x, y| (x <= y).into(); bools |x, y| (x <= y).into(); }
    complex false;
}
compare! {
    /// Whether `self` is greater than `other`, element by element.
    fn gt, gt_, gt_out;
    { ints -> crate::Bool |x, y| (x > y).into(); floats -> crate::Bool |x, y| (x > y).into(); bools |x, y| (x > y).into(); }
    complex false;
}
compare! {
    /// Whether `self` is greater than or equal to `other`, element by element.
    fn ge, ge_, ge_out;
    { ints -> crate::Bool |x, y| (x >= y).into(); floats -> crate::Bool |x, y| (x >= y).into(); bools |x, y| (x >= y).into(); }
    complex false;
}

/// A logical operator of two tensors.
macro_rules! logical {
    ($(#[doc = $doc:expr])* fn $name:ident, $inplace:ident, $out:ident; |$x:ident, $y:ident| $e:expr) => {
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor self, Tensor other) -> Tensor"),
                InPlace INPLACE: concat!(stringify!($inplace), "(Tensor(a!) self, Tensor other) -> Tensor(a!)"),
                Out OUT: concat!(stringify!($name), ".out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)");
            crate::Body::Pointwise(&crate::pointwise::Pointwise {
                arity: 2,
                promotion: Promotion::Common,
                strips: strips! {
                    numbers wrapping tensors -> crate::Bool |x, y| { let ($x, $y) = (x.to_bool(), y.to_bool()); ($e).into() };
                    bools |x, y| { let ($x, $y) = (x.get(), y.get()); ($e).into() };
                },
                params: crate::pointwise::scalar_params,
                text: &[("numbers", stringify!($e))],
                cpu_name: "",
            });
            samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 3])], sample![m.any(&[2, 3]), m.any(&[3])]];
            fn $name(&self, other: impl crate::IntoOperand) -> Tensor [self, other.operand()];
            fn $inplace(&self, other: impl crate::IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
            out fn $out(&self, other: impl crate::IntoOperand) [self, other.operand()] in OUT;
        }
    };
}
logical! {
    /// Whether both elements are true (not zero).
    fn logical_and, logical_and_, logical_and_out; |x, y| x & y
}
logical! {
    /// Whether an element of either is true (not zero).
    fn logical_or, logical_or_, logical_or_out; |x, y| x | y
}
logical! {
    /// Whether just one of the elements is true (not zero).
    fn logical_xor, logical_xor_, logical_xor_out; |x, y| x ^ y
}

unary! {
    /// Whether the element is false (zero).
    fn logical_not, logical_not_, logical_not_out(x): Promotion::Common;
    { numbers wrapping -> crate::Bool |x| (!x.to_bool()).into(); bools |x| (!x.get()).into(); }
    samples: |m| vec![sample![m.any(&[2, 3])]];
}

fn isclose_any(x: &Tensor, y: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor> {
    ensure!(x.dtype() == y.dtype(), "{} did not match {}", x.dtype().scalar_type_name(), y.dtype().scalar_type_name());
    ensure!(rtol >= 0.0, "rtol must be greater than or equal to zero, but got {rtol}");
    ensure!(atol >= 0.0, "atol must be greater than or equal to zero, but got {atol}");
    let mut close = x.eq(y)?;
    if equal_nan && x.dtype().is_differentiable() {
        close = close.logical_or(&x.isnan()?.logical_and(&y.isnan()?)?)?;
    }
    if rtol == 0.0 && atol == 0.0 {
        return Ok(close);
    }
    let (x, y) = match x.dtype().is_differentiable() {
        true => (x.clone(), y.clone()),
        false => (x.to_dtype(crate::default_dtype())?, y.to_dtype(crate::default_dtype())?),
    };
    let allowed = y.abs()?.mul(rtol)?.add(atol)?;
    let error = x.sub(&y)?.abs()?;
    close.logical_or(&error.isfinite()?.logical_and(&error.le(&allowed)?)?)
}

op! {
    /// Whether `|self - other| <= atol + rtol |other|`, element by element.
    isclose: "isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> Tensor";
    crate::Body::Composite(kernel!(isclose_any; x, y, rtol, atol, equal_nan));
    samples: |m| vec![sample![m.any(&[3]), m.any(&[3]), 1e-5, 1e-8, false]];
    fn isclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Tensor [self, other, rtol, atol, equal_nan];
}

fn allclose_any(x: &Tensor, y: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
    Ok(x.isclose(y, rtol, atol, equal_nan)?.all()?.item()?.to_bool())
}

op! {
    /// Whether all elements are close; see `isclose`.
    allclose: "allclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> bool";
    crate::Body::Composite(kernel!(allclose_any; x, y, rtol, atol, equal_nan));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1e-5, 1e-8, false], sample![m.any(&[2, 3]), m.any(&[3]), 100.0, 1.0, false]];
    fn allclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> bool [self, other, rtol, atol, equal_nan];
}

fn equal_any(x: &Tensor, y: &Tensor) -> Result<bool> {
    ensure!(
        x.device().kind == y.device().kind,
        "Cannot compare two tensors on different devices. Got: {} and {}",
        x.device(),
        y.device()
    );
    if x.sizes() != y.sizes() {
        return Ok(false);
    }
    Ok(x.eq(y)?.all()?.item()?.to_bool())
}

op! {
    /// Whether both have the same sizes and elements.
    equal: "equal(Tensor self, Tensor other) -> bool";
    crate::Body::Explicit(kernel!(equal_any; x, y));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 3])], sample![m.any(&[0]), m.any(&[0])]];
    fn equal(&self, other: &Tensor) -> bool [self, other];
}

alias! {
    compare greater, greater_ => gt;
    compare greater_equal, greater_equal_ => ge;
    compare less, less_ => lt;
    compare less_equal, less_equal_ => le;
    compare not_equal, not_equal_ => ne;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    allclose::ALL,
    eq::ALL,
    equal::ALL,
    ge::ALL,
    greater::ALL,
    greater_equal::ALL,
    gt::ALL,
    isclose::ALL,
    le::ALL,
    less::ALL,
    less_equal::ALL,
    logical_and::ALL,
    logical_not::ALL,
    logical_or::ALL,
    logical_xor::ALL,
    lt::ALL,
    ne::ALL,
    not_equal::ALL,
];
