//! Functions of one element.

use super::rounding::{format_of, rounded_to};
use super::elementary::{acos, acosh, asin, asinh, atan, atanh};
use crate::pointwise::{Params, Pointwise, any_params, scalar_params};
use crate::promotion::Promotion;
use crate::samples::{Maker, Sample};
use crate::value::OwnedValue;
use crate::{Body, Bool, Complex, DType, Op, Operand, Result, Scalar, Tensor, Value, backward, ensure};
use flambeau_cpu::math::complex;

/// Whether a pointwise operator takes tensors like `x`.
fn takes(op: &'static Op, x: &Tensor) -> bool {
    let Body::Pointwise(pointwise) = op.body else { return false };
    let common = crate::promotion::common_dtype(&pointwise.promotion, &[Operand::Tensor(x)]);
    common.is_ok_and(|d| (pointwise.strips)(d.compute(), flambeau_cpu::math::Level::Baseline).is_some())
}

/// Example arguments of a function of one tensor: elements in a range, then `rest`; none for dtypes it does not take.
pub(super) fn examples(op: &'static Op, m: &mut Maker, low: f64, high: f64, rest: &[OwnedValue]) -> Vec<Sample> {
    let with = |x: Tensor| Sample::new([&[OwnedValue::from(x)], rest].concat());
    match takes(op, &m.uniform(&[], low, high)) {
        false => vec![],
        true => vec![
            with(m.uniform(&[2, 3], low, high)),
            with(m.uniform(&[], low, high)),
            with(m.uniform(&[0, 2], low, high)),
        ],
    }
}

/// Example arguments of a function's gradient: the result's gradient and a tensor, then `rest`.
pub(super) fn gradient_examples(
    op: &'static Op,
    m: &mut Maker,
    low: f64,
    high: f64,
    rest: &[OwnedValue],
) -> Vec<Sample> {
    match takes(op, &m.uniform(&[], low, high)) {
        false => vec![],
        true => vec![Sample::new([&[m.any(&[2, 3]).into(), m.uniform(&[2, 3], low, high).into()], rest].concat())],
    }
}

// ---- parts and signs ----------------------------------------------------------------------------

/// The size of a complex number is real: it is cast to what may be, while other results are not cast.
fn abs_writes(write: &crate::out::Write<'_, '_>) -> Result<()> {
    match write.input_dtype(0) {
        Some(x) if x.is_complex() && !write.out.is_complex() => crate::out::castable(write.result, write.out),
        x => crate::out::uncast(x.unwrap_or(write.result), write.out),
    }
}
unary! {
    /// The absolute value; of a complex number, its distance from zero.
    fn abs, abs_, abs_out(x): Promotion::Common;
    { ints |x| x.abs(); floats light |x| x.abs::<I>(); complexes -> R |x| complex::abs::<I, R>(x); }
    sign: [0x7fff, 0];
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.sgn()?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
    out_rule: crate::OutRule::call(abs_writes);
}
unary! {
    /// -1, 0 or 1 as the element's sign is; of a complex number, the point of the unit circle in its direction.
    fn sgn, sgn_, sgn_out(x): Promotion::Common;
    {
        bools |x| x;
        ints |x| x.sign();
        floats |x| x.sign::<I>();
        complexes |x| complex::sgn::<I, R>(x);
    }
    derivative: backward! {
        self_(g, self_: Tensor, result: Tensor) => match self_.dtype().is_complex() {
            false => g.zeros_like()?,
            // Half of `(g - conj(g) sgn^2) / |x|`; nothing at zero.
            true => {
                let size = self_.abs()?;
                let across = g.sub(&g.conj()?.mul(&result.mul(&result)?)?)?.mul(&size.ne(0)?)?;
                across.div(&size.add(&size.eq(0)?)?.mul(2)?)?
            }
        }
    };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
    out_rule: crate::OutRule::UNCAST;
}
op! {
    /// The complex conjugate, written out; a real tensor's elements as they are.
    conjugated: "_conj_physical(Tensor self) -> Tensor",
        InPlace INPLACE: "conj_physical_(Tensor(a!) self) -> Tensor(a!)",
        Out OUT: "conj_physical.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(1, Promotion::Common, scalar_params, "conj_physical"; bools |x| x; numbers wrapping |x| x.conj(););
    derivative: backward! { self_(g) => g.conj()? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
    out_rule: crate::OutRule::UNCAST;
    fn conjugated(&self) -> Tensor [self];
    fn conj_physical_(&self) -> Tensor [self] in INPLACE;
    out fn conj_physical_out(&self) [self] in OUT;
}

fn conj_physical_any(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { x.conjugated() } else { Ok(x.clone()) }
}
op! {
    /// The complex conjugate, written out; a real tensor is given back itself.
    conj_physical: "conj_physical(Tensor self) -> Tensor";
    Body::Composite(kernel!(conj_physical_any; x));
    samples: |m| vec![crate::sample![m.any(&[2, 3])]];
    fn conj_physical(&self) -> Tensor [self];
}

fn conj_any(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { x.conj_physical() } else { Ok(x.clone()) }
}
op! {
    /// The complex conjugate; a real tensor is given back itself.
    conj: "conj(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(conj_any; x));
    samples: |m| vec![crate::sample![m.any(&[2, 3])]];
    fn conj(&self) -> Tensor [self];
}

unary! {
    /// -1, 0 or 1 as the element's sign is; 0 for NaN.
    fn sign, sign_, sign_out(x): Promotion::Common;
    { bools |x| x; ints |x| x.sign(); floats |x| x.sign::<I>(); }
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
    out_rule: crate::OutRule::UNCAST;
}
op! {
    /// The tensor itself.
    positive: "positive(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(positive_any; x));
    samples: |m| match m.dtype {
        DType::Bool => vec![],
        _ => vec![crate::sample![m.any(&[2, 3])]],
    };
    fn positive(&self) -> Tensor [self];
}
op! {
    /// The tensor itself: conjugates are always written out.
    resolve_conj: "resolve_conj(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(itself; x));
    samples: |m| vec![crate::sample![m.any(&[2, 3])]];
    fn resolve_conj(&self) -> Tensor [self];
}

fn itself(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}
fn positive_any(x: &Tensor) -> Result<Tensor> {
    ensure!(x.dtype() != DType::Bool, "The `+` operator, on a bool tensor is not supported.");
    Ok(x.clone())
}
unary! {
    /// The bitwise complement of an integer; of a boolean, its negation.
    fn bitwise_not, bitwise_not_, bitwise_not_out(x): Promotion::Common;
    { bools |x| (!x.get()).into(); ints wrapping |x| x.bit_not(); }
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
    out_rule: crate::OutRule::UNCAST;
}
unary! {
    /// Degrees to radians.
    fn deg2rad, deg2rad_, deg2rad_out(x): Promotion::Float;
    { floats light |x| x * T::from_f64(std::f64::consts::PI / 180.0); }
    derivative: backward! { self_(g) => g.deg2rad()? };
    forward: crate::autograd::Forward::Linear;
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
unary! {
    /// Radians to degrees.
    fn rad2deg, rad2deg_, rad2deg_out(x): Promotion::Float;
    { floats light |x| x * T::from_f64(180.0 / std::f64::consts::PI); }
    derivative: backward! { self_(g) => g.rad2deg()? };
    forward: crate::autograd::Forward::Linear;
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}

// ---- predicates ---------------------------------------------------------------------------------

fn boolean_writes(write: &crate::out::Write<'_, '_>) -> Result<()> {
    ensure!(write.out == DType::Bool, "{} does not support non-boolean outputs.", write.op.name());
    Ok(())
}

/// A function of one element that has no in-place form, for the result's dtype may be another.
macro_rules! predicate {
    ($(#[doc = $doc:expr])* fn $name:ident $(, $out:ident)?; $strips:tt) => {
        predicate! { $(#[doc = $doc])* fn $name $(, $out)?: Promotion::Common; $strips }
    };
    (
        $(#[doc = $doc:expr])*
        fn $name:ident $(, $out:ident)?: $promotion:expr;
        { $($strips:tt)* }
        $(derivative: $derivative:expr;)?
        $(out_rule: $out_rule:expr;)?
    ) => {
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor self) -> Tensor")
                $(, Out OUT: { let _ = stringify!($out); concat!(stringify!($name), ".out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)") })?;
            Body::Pointwise(&crate::pointwise::Pointwise {
                arity: 1,
                promotion: $promotion,
                strips: strips! { $($strips)* },
                params: crate::pointwise::scalar_params,
                text: strip_text! { $($strips)* },
                cpu_name: "",
            });
            $(derivative: $derivative;)?
            samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
            $(out_rule: $out_rule;)?
            fn $name(&self) -> Tensor [self];
            $(out fn $out(&self) [self] in OUT;)?
        }
    };
}

op! {
    /// The angle from the positive axis in radians: of a real number, 0 or pi.
    angle_of: "_angle(Tensor self) -> Tensor";
    pointwise!(1, Promotion::Float, scalar_params, "angle";
        floats |x| {
            let turned = if x < T::ZERO { T::PI } else { T::ZERO };
            if x.is_nan() { x } else { turned }
        };
        complexes -> R |x| complex::angle::<I, R>(x);
    );
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}

/// PyTorch's angles of complex numbers are row-major, whatever the order of the numbers.
fn angle_any(x: &Tensor) -> Result<Tensor> {
    let angles = angle_of::OP.call(&[x.into()])?.one()?;
    if x.dtype().is_complex() { angles.contiguous() } else { Ok(angles) }
}
op! {
    /// The angle from the positive axis in radians: of a real number, 0 or pi.
    angle: "angle(Tensor self) -> Tensor", Out OUT: "angle.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(angle_any; x));
    derivative: backward! {
        self_(g, self_: Tensor) => match self_.dtype().is_complex() {
            false => g.zeros_like()?,
            // `i x / |x|^2`; nothing at zero.
            true => {
                let size = self_.abs()?;
                let square = size.mul(&size)?.add(&size.eq(0)?)?;
                g.mul(&self_)?.div(&square)?.mul(Scalar::Complex(Complex::new(0.0, 1.0)))?
            }
        }
    };
    samples: |m| super::examples(&angle_of::OP, m, -3.0, 3.0, &[]);
    fn angle(&self) -> Tensor [self];
    out fn angle_out(&self) [self] in OUT;
}
predicate! {
    /// Whether the element (or a part of it) is NaN.
    fn isnan, isnan_out;
    {
        bools |_x| Bool(0);
        ints wrapping -> Bool |_x| Bool(0);
        floats -> Bool |x| x.is_nan().into();
        complexes -> Bool |x| (x.re.is_nan() | x.im.is_nan()).into();
    }
}
predicate! {
    /// Whether the element (in all its parts) is neither infinite nor NaN.
    fn isfinite;
    {
        bools |_x| Bool(1);
        ints wrapping -> Bool |_x| Bool(1);
        floats -> Bool |x| x.is_finite().into();
        complexes -> Bool |x| (x.re.is_finite() & x.im.is_finite()).into();
    }
}

predicate! {
    /// Whether the element (or a part of it) is infinite.
    fn isinf, isinf_out;
    {
        bools |_x| Bool(0);
        ints wrapping -> Bool |_x| Bool(0);
        floats -> Bool |x| x.is_inf().into();
        complexes -> Bool |x| (x.re.is_inf() | x.im.is_inf()).into();
    }
}
predicate! {
    /// Whether the element is positive infinity.
    fn isposinf, isposinf_out: Promotion::Custom(|o| real("isposinf does not support complex inputs.", o));
    { bools |_x| Bool(0); ints wrapping -> Bool |_x| Bool(0); floats -> Bool |x| (x == T::INFINITY).into(); }
    out_rule: crate::OutRule::call(boolean_writes);
}
predicate! {
    /// Whether the element is negative infinity.
    fn isneginf, isneginf_out: Promotion::Custom(|o| real("isneginf does not support complex inputs.", o));
    { bools |_x| Bool(0); ints wrapping -> Bool |_x| Bool(0); floats -> Bool |x| (x == T::NEG_INFINITY).into(); }
    out_rule: crate::OutRule::call(boolean_writes);
}
predicate! {
    /// Whether the sign bit is set: of negative numbers, also of -0.
    fn signbit, signbit_out: Promotion::Common;
    { bools |_x| Bool(0); ints -> Bool |x| (x < T::ZERO).into(); floats -> Bool |x| x.signbit().into(); }
    out_rule: crate::OutRule::call(boolean_writes);
}

/// The largest finite value of a dtype's (real parts').
pub(super) fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
        DType::F32 | DType::Complex64 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}
/// The dtype of an operand that must not be complex.
fn real(message: &str, operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = crate::promotion::result_type(operands);
    ensure!(!dtype.is_complex(), "{message}");
    Ok(dtype)
}
op! {
    /// `self` with other numbers for NaN and the infinities.
    replace_nonfinite: "_nan_to_num(Tensor self, float nan, float posinf, float neginf) -> Tensor",
        InPlace INPLACE: "_nan_to_num_(Tensor(a!) self, float nan, float posinf, float neginf) -> Tensor(a!)";
    Body::Pointwise(&Pointwise {
        arity: 1,
        promotion: Promotion::Common,
        strips: strips! {
            bools |x| x;
            ints wrapping |x| x;
            floats |x; p| replaced(x, p[0], p[1], p[2]);
            complexes |x; p| Complex::new(
                replaced(x.re, p[0].re, p[1].re, p[2].re),
                replaced(x.im, p[0].re, p[1].re, p[2].re),
            );
        },
        // What an element cannot hold becomes infinite.
        params: |args, _| any_params(args),
        text: &[],
        cpu_name: "nan_to_num",
    });
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.isfinite()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[0.0.into(), 1.0.into(), (-1.0).into()]);
}

#[inline(always)]
fn replaced<T: flambeau_cpu::math::Float>(x: T, nan: T, posinf: T, neginf: T) -> T {
    let x = if x == T::INFINITY { posinf } else { x };
    let x = if x == T::NEG_INFINITY { neginf } else { x };
    if x.is_nan() { nan } else { x }
}
fn nan_to_num_with(
    op: &'static Op,
    x: &Tensor,
    nan: Option<f64>,
    pos: Option<f64>,
    neg: Option<f64>,
) -> Result<Tensor> {
    let largest = largest(x.dtype());
    let (nan, pos, neg) = (nan.unwrap_or(0.0), pos.unwrap_or(largest), neg.unwrap_or(-largest));
    op.call(&[Value::Tensor(x), Value::Float(nan), Value::Float(pos), Value::Float(neg)])?.one()
}
fn nan_to_num_any(x: &Tensor, nan: Option<f64>, pos: Option<f64>, neg: Option<f64>) -> Result<Tensor> {
    nan_to_num_with(&replace_nonfinite::OP, x, nan, pos, neg)
}
fn nan_to_num_in_place(x: &Tensor, nan: Option<f64>, pos: Option<f64>, neg: Option<f64>) -> Result<Tensor> {
    nan_to_num_with(&replace_nonfinite::INPLACE, x, nan, pos, neg)
}
fn nan_to_num_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "nan_to_num: dtype of out: {} should be same as input: {}",
        out.scalar_type_name(),
        result.scalar_type_name()
    );
    Ok(())
}
op! {
    /// `self` with `nan` (0) for NaN, and `posinf` and `neginf` (the dtype's largest and smallest finite values) for the
    /// infinities.
    nan_to_num: "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
        Out OUT: "nan_to_num.out(Tensor self, float? nan=None, float? posinf=None, float? neginf=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(nan_to_num_any; x, nan, posinf, neginf));
    samples: |m| vec![crate::sample![m.any(&[2, 3]), 1.0, (), ()]];
    out_rule: crate::OutRule::dtype(nan_to_num_writes);
    fn nan_to_num(&self, nan: Option<f64>, posinf: Option<f64>, neginf: Option<f64>) -> Tensor [self, nan, posinf, neginf];
}
op! {
    /// [`Tensor::nan_to_num`] in place.
    nan_to_num_: "nan_to_num_(Tensor(a!) self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor(a!)";
    Body::Composite(kernel!(nan_to_num_in_place; x, nan, posinf, neginf));
    fn nan_to_num_(&self, nan: Option<f64>, posinf: Option<f64>, neginf: Option<f64>) -> Tensor [self, nan, posinf, neginf];
}

// ---- rounding -----------------------------------------------------------------------------------

unary! {
    /// The largest integer not above; integers are themselves.
    fn floor, floor_, floor_out(x): Promotion::Common;
    { ints wrapping |x| x; floats costly |x| x.floor::<I>(); }
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| super::examples(&OP, m, 0.1, 0.9, &[]);
    out_rule: crate::OutRule::UNCAST;
}

unary! {
    /// The smallest integer not below; integers are themselves.
    fn ceil, ceil_, ceil_out(x): Promotion::Common;
    { ints wrapping |x| x; floats costly |x| x.ceil::<I>(); }
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| super::examples(&OP, m, 0.1, 0.4, &[]);
    out_rule: crate::OutRule::UNCAST;
}
unary! {
    /// The nearest integer, halves to the even one; integers are themselves.
    fn round, round_, round_out(x): Promotion::Common;
    { ints wrapping |x| x; floats costly |x| x.round::<I>(); }
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| super::examples(&OP, m, 0.1, 0.4, &[]);
    out_rule: crate::OutRule::UNCAST;
}
unary! {
    /// The integer part; integers are themselves.
    fn trunc, trunc_, trunc_out(x): Promotion::Common;
    { ints wrapping |x| x; floats costly |x| x.trunc::<I>(); }
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| super::examples(&OP, m, 0.1, 0.4, &[]);
    out_rule: crate::OutRule::UNCAST;
}
unary! {
    /// What is left of the element without its integer part.
    fn frac, frac_, frac_out(x): Promotion::Common;
    { floats light |x| x.frac::<I>(); }
    derivative: backward! { self_(g) => g.clone() };
    samples: |m| super::examples(&OP, m, 0.1, 0.9, &[]);
    out_rule: crate::OutRule::UNCAST;
}

/// Ten to the power of the decimals' magnitude, and whether they are negative.
fn decimals_params(args: &[Value<'_>], _dtype: DType) -> Result<Params> {
    let mut params = any_params(args)?;
    if let Some(v) = args.first()
        && !matches!(v, Value::Int(_) | Value::Scalar(Scalar::Int(_)))
    {
        return Err(crate::value::expected("int", *v));
    }
    let decimals = params[0].to_f64();
    params[0] = Scalar::Float(10f64.powf(decimals.abs()));
    params[1] = Scalar::Bool(decimals < 0.0);
    Ok(params)
}
op! {
    /// The nearest number with that many decimals; a negative count rounds to tens, hundreds and so on.
    round_decimals: "round.decimals(Tensor self, *, int decimals) -> Tensor",
        InPlace INPLACE: "round_.decimals(Tensor(a!) self, *, int decimals) -> Tensor(a!)",
        Out OUT: "round.decimals_out(Tensor self, *, int decimals, Tensor(a!) out) -> Tensor(a!)";
    Body::Pointwise(&Pointwise {
        arity: 1,
        promotion: Promotion::Common,
        // The second parameter says whether there are less than no decimals.
        strips: strips! { floats |x; p| => (x * p[0]).round::<I>() / p[0], if p[1] == T::ZERO,
            else if p[1] == T::ZERO { (x * p[0]).round::<I>() / p[0] } else { (x / p[0]).round::<I>() * p[0] };
        },
        params: decimals_params,
        text: &[],
        cpu_name: "round_cpu",
    });
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| super::examples(&OP, m, 0.01, 0.04, &[1.into()]);
    out_rule: crate::OutRule::UNCAST;
    fn round_decimals(&self, decimals: i64) -> Tensor [self, decimals];
    fn round_decimals_(&self, decimals: i64) -> Tensor [self, decimals] in INPLACE;
    out fn round_decimals_out(&self, decimals: i64) [self, decimals] in OUT;
}

// ---- special functions --------------------------------------------------------------------------

unary! {
    /// The error function.
    fn erf, erf_, erf_out(x): Promotion::Float;
    { floats |x| x.erf::<I>(); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.mul(&self_)?.neg()?.exp()?)?.mul(std::f64::consts::FRAC_2_SQRT_PI)? };
    samples: |m| super::examples(&OP, m, -2.0, 2.0, &[]);
}
unary! {
    /// `1 - erf(self)`, accurate where that is small.
    fn erfc, erfc_, erfc_out(x): Promotion::Float;
    { floats |x| x.erfc::<I>(); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.mul(&self_)?.neg()?.exp()?)?.mul(-std::f64::consts::FRAC_2_SQRT_PI)? };
    samples: |m| super::examples(&OP, m, -2.0, 2.0, &[]);
}
unary! {
    /// The inverse of the error function.
    fn erfinv, erfinv_, erfinv_out(x): Promotion::Float;
    { floats |x| => x.erfinv_common::<I>(), if x.is_common_erfinv(), else x.erfinv::<I>(); }
    derivative: backward! { self_(g, result: Tensor) => g.mul(&result.mul(&result)?.exp()?)?.div(std::f64::consts::FRAC_2_SQRT_PI)? };
    samples: |m| super::examples(&OP, m, -0.9, 0.9, &[]);
}
unary! {
    /// The logarithm of the gamma function's magnitude.
    fn lgamma, lgamma_, lgamma_out(x): Promotion::Float;
    { floats |x| => x.lgamma_common::<I>(), if x.is_common_gamma(), else x.lgamma::<I>(); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.digamma()?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
unary! {
    /// The logarithmic derivative of the gamma function.
    fn digamma, digamma_, digamma_out(x): Promotion::Float;
    { floats |x| => x.digamma_common::<I>(), if x.is_common_digamma(), else x.digamma::<I>(); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.polygamma(1)?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
op! {
    /// The `n`-th derivative of the digamma function, `n` not negative.
    polygamma_of: "_polygamma(Tensor self, int n) -> Tensor",
        InPlace INPLACE: "_polygamma_(Tensor(a!) self, int n) -> Tensor(a!)",
        Out OUT: "_polygamma.out(Tensor self, int n, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Pointwise(&Pointwise {
        arity: 1,
        promotion: Promotion::Float,
        strips: strips! { floats rare |x; p| => x.trigamma_common::<I>(), if (p[0] == T::ONE) & x.is_common_gamma(), else x.polygamma::<I>(p[0].to_i64()); },
        params: order_params,
        text: &[],
        cpu_name: "polygamma",
    });
    derivative: backward! { self_(g, self_: Tensor, n: i64) => g.mul(&self_.polygamma(n + 1)?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[1.into()]);
    fn polygamma(&self, n: i64) -> Tensor [self, n];
    fn polygamma_(&self, n: i64) -> Tensor [self, n] in INPLACE;
    out fn polygamma_out(&self, n: i64) [self, n] in OUT;
}

fn order_params(args: &[Value<'_>], _dtype: DType) -> Result<Params> {
    let params = any_params(args)?;
    ensure!(params[0].to_f64() >= 0.0, "polygamma(n, x) does not support negative n.");
    Ok(params)
}
fn polygamma_any(n: i64, x: &Tensor) -> Result<Tensor> {
    x.polygamma(n)
}
fn polygamma_in_place(x: &Tensor, n: i64) -> Result<Tensor> {
    x.polygamma_(n)
}
op! {
    /// The `n`-th derivative of the digamma function, `n` not negative.
    polygamma: "polygamma(int n, Tensor self) -> Tensor",
        Out OUT: "polygamma.out(int n, Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(polygamma_any; n, x));
    samples: |m| match m.dtype.is_complex() {
        true => vec![],
        false => vec![crate::sample![2, m.uniform(&[2, 3], 0.5, 3.0)]],
    };
}
op! {
    /// [`Tensor::polygamma`] in place.
    polygamma_: "polygamma_(Tensor(a!) self, int n) -> Tensor(a!)";
    Body::Composite(kernel!(polygamma_in_place; x, n));
}
unary! {
    /// The modified Bessel function of the first kind, order 0.
    fn i0, i0_, i0_out(x): Promotion::Float;
    { floats rare |x| x.i0::<I>(); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.special_i1()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
predicate! {
    /// The modified Bessel function of the first kind, order 1.
    fn special_i1, special_i1_out: Promotion::Float;
    { floats rare |x| x.i1::<I>(); }
    derivative: backward! {
        self_(g, self_: Tensor, result: Tensor) => {
            // `i0(x) - i1(x) / x`, one half at zero, where it is flat.
            let zero = crate::ops::special::about_zero(&self_)?;
            let slope = self_.i0()?.sub(&result.div(&self_.masked_fill(&zero, 1)?)?)?;
            g.mul(&slope.masked_fill(&zero, 0.5)?)?
        }
    };
}

/// The bound of logit's arguments as a parameter: negative for none.
fn logit_params(args: &[Value<'_>], dtype: DType) -> Result<Params> {
    let mut params = match args {
        [] | [Value::None] => [Scalar::Int(-1); _],
        args => scalar_params(args, dtype)?,
    };
    params[1] = format_of(dtype);
    Ok(params)
}

/// `x` clamped to `[low, 1 - low]`, unless `low` is negative.
#[inline(always)]
fn within<T: flambeau_cpu::math::Float>(x: T, low: T) -> T {
    let high = T::ONE - low;
    let raised = if x < low { low } else { x };
    let clamped = if raised > high { high } else { raised };
    if low < T::ZERO { x } else { clamped }
}

op! {
    /// `log(self / (1 - self))`; with `eps`, of `self` clamped to `[eps, 1 - eps]`.
    logit: "logit(Tensor self, float? eps=None) -> Tensor",
        InPlace INPLACE: "logit_(Tensor(a!) self, float? eps=None) -> Tensor(a!)",
        Out OUT: "logit.out(Tensor self, float? eps=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Pointwise(&Pointwise {
        arity: 1,
        promotion: Promotion::Float,
        strips: strips! { floats |x; p| => within(x, p[0]).logit::<I>(), if p[1] == T::ZERO, else {
            let x = within(x, p[0]);
            rounded_to(x / rounded_to(T::ONE - x, p[1]), p[1]).log::<I>()
        }; },
        params: logit_params,
        text: &[],
        cpu_name: "logit_cpu",
    });
    derivative: backward! { self_(g, self_: Tensor, eps: Option<f64>) => g.logit_backward(&self_, eps)? };
    samples: |m| [super::examples(&OP, m, 0.1, 0.9, &[]), super::examples(&OP, m, 0.3, 0.7, &[0.2.into()])].concat();
    fn logit(&self, eps: Option<f64>) -> Tensor [self, eps];
    fn logit_(&self, eps: Option<f64>) -> Tensor [self, eps] in INPLACE;
    out fn logit_out(&self, eps: Option<f64>) [self, eps] in OUT;
}
op! {
    /// The gradient of [`Tensor::logit`] at `x`, times `self`.
    logit_backward: "logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor",
        Out OUT: "logit_backward.grad_input(Tensor grad_output, Tensor self, float? eps=None, *, Tensor(a!) grad_input) -> Tensor(a!)";
    Body::Pointwise(&Pointwise {
        arity: 2,
        promotion: Promotion::Common,
        strips: strips! { floats costly |g, x; p| {
            let bounded = p[0] >= T::ZERO;
            let (low, high) = if bounded { (p[0], T::ONE - p[0]) } else { (T::ZERO, T::ONE) };
            let outside = if bounded { T::ZERO } else { T::NAN };
            let product = x * (T::ONE - x);
            let inside = if product == T::ZERO { g * T::INFINITY } else { g / product };
            if (x < low) | (x > high) { outside } else { inside }
        }; },
        params: logit_params,
        text: &[],
        cpu_name: "logit_backward_cpu",
    });
    derivative: backward! {
        grad_output(g, self_: Tensor, eps: Option<f64>) => g.logit_backward(&self_, eps)?,
        self_(g, grad_output: Tensor, self_: Tensor, eps: Option<f64>) => {
            let twice = g.mul(&grad_output)?.logit_backward(&self_, eps)?.logit_backward(&self_, eps)?;
            twice.mul(&self_.mul(2)?.sub(1)?)?
        },
    };
    samples: |m| gradient_examples(&OP, m, 0.1, 0.9, &[]);
    fn logit_backward(&self, x: &Tensor, eps: Option<f64>) -> Tensor [self, x, eps];
}

// ---- other names --------------------------------------------------------------------------------

alias! {
    unary absolute, absolute_ => abs;
    unary arccos, arccos_ => acos;
    unary arccosh, arccosh_ => acosh;
    unary arcsin, arcsin_ => asin;
    unary arcsinh, arcsinh_ => asinh;
    unary arctan, arctan_ => atan;
    unary arctanh, arctanh_ => atanh;
    unary fix, fix_ => trunc;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    abs::ALL,
    absolute::ALL,
    angle::ALL,
    angle_of::ALL,
    arccos::ALL,
    arccosh::ALL,
    arcsin::ALL,
    arcsinh::ALL,
    arctan::ALL,
    arctanh::ALL,
    bitwise_not::ALL,
    ceil::ALL,
    conj::ALL,
    conj_physical::ALL,
    conjugated::ALL,
    deg2rad::ALL,
    digamma::ALL,
    erf::ALL,
    erfc::ALL,
    erfinv::ALL,
    fix::ALL,
    floor::ALL,
    frac::ALL,
    i0::ALL,
    isfinite::ALL,
    isinf::ALL,
    isnan::ALL,
    isneginf::ALL,
    isposinf::ALL,
    lgamma::ALL,
    logit::ALL,
    logit_backward::ALL,
    nan_to_num::ALL,
    nan_to_num_::ALL,
    polygamma::ALL,
    polygamma_::ALL,
    polygamma_of::ALL,
    positive::ALL,
    rad2deg::ALL,
    replace_nonfinite::ALL,
    resolve_conj::ALL,
    round::ALL,
    round_decimals::ALL,
    sgn::ALL,
    sign::ALL,
    signbit::ALL,
    special_i1::ALL,
    trunc::ALL,
];
