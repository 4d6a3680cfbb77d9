//! Functions of one element.

use crate::promotion::Promotion;
use crate::samples::{Maker, Sample};
use crate::value::OwnedValue;
use crate::{Body, Bool, Complex, Op, Operand, Result, Tensor, backward};

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

unary! {
    /// The absolute value; of a complex number, its distance from zero.
    fn abs, abs_, abs_out(x): Promotion::Common;
    { ints |x| x.abs(); floats |x| x.abs::<I>(); complexes -> R |x| x.re.hypot::<I>(x.im); }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.sgn()?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
unary! {
    /// -1, 0 or 1 as the element's sign is; of a complex number, the point of the unit circle in its direction.
    fn sgn, sgn_, sgn_out(x): Promotion::Common;
    {
        bools |x| x;
        ints |x| x.sign();
        floats |x| x.sign::<I>();
        complexes |x| {
            let size = x.re.hypot::<I>(x.im);
            if size == R::ZERO { Complex::new(R::ZERO, R::ZERO) } else { Complex::new(x.re / size, x.im / size) }
        };
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
}
unary! {
    /// The complex conjugate, written out; a real tensor's elements as they are.
    fn conj_physical, conj_physical_, conj_physical_out(x): Promotion::Common;
    { bools |x| x; numbers |x| x.conj(); }
    derivative: backward! { self_(g) => g.conj()? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
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

// ---- predicates ---------------------------------------------------------------------------------

/// A boolean function of one element.
macro_rules! predicate {
    ($(#[doc = $doc:expr])* fn $name:ident $(, $out:ident)?; { $($strips:tt)* }) => {
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor self) -> Tensor")
                $(, Out OUT: { let _ = stringify!($out); concat!(stringify!($name), ".out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)") })?;
            Body::Pointwise(&crate::pointwise::Pointwise {
                arity: 1,
                promotion: Promotion::Common,
                strips: strips! { $($strips)* },
                params: crate::pointwise::scalar_params,
                text: strip_text! { $($strips)* },
                cpu_name: "",
            });
            samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
            fn $name(&self) -> Tensor [self];
            $(out fn $out(&self) [self] in OUT;)?
        }
    };
}

predicate! {
    /// Whether the element (or a part of it) is NaN.
    fn isnan, isnan_out;
    {
        bools |_x| Bool(0);
        ints -> Bool |_x| Bool(0);
        floats -> Bool |x| x.is_nan().into();
        complexes -> Bool |x| (x.re.is_nan() | x.im.is_nan()).into();
    }
}
predicate! {
    /// Whether the element (in all its parts) is neither infinite nor NaN.
    fn isfinite;
    {
        bools |_x| Bool(1);
        ints -> Bool |_x| Bool(1);
        floats -> Bool |x| x.is_finite().into();
        complexes -> Bool |x| (x.re.is_finite() & x.im.is_finite()).into();
    }
}

// ---- rounding -----------------------------------------------------------------------------------

unary! {
    /// The largest integer not above; integers are themselves.
    fn floor, floor_, floor_out(x): Promotion::Common;
    { ints |x| x; floats |x| x.floor::<I>(); }
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| super::examples(&OP, m, 0.1, 0.9, &[]);
}

// ---- powers -------------------------------------------------------------------------------------

unary! {
    /// One over the element.
    fn reciprocal, reciprocal_, reciprocal_out(x): Promotion::Float;
    { floats |x| x.reciprocal::<I>(); complexes |x| Complex::new(R::ONE, R::ZERO).div(x); }
    derivative: backward! { self_(g, result: Tensor) => g.neg()?.mul(&result.mul(&result)?.conj()?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
unary! {
    /// The square root; of a complex number, the one with a real part that is not negative.
    fn sqrt, sqrt_, sqrt_out(x): Promotion::Float;
    { floats |x| x.sqrt::<I>();  }
    derivative: backward! { self_(g, result: Tensor) => g.div(&result.conj()?.mul(2)?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
unary! {
    /// One over the square root.
    fn rsqrt, rsqrt_, rsqrt_out(x): Promotion::Float;
    { floats |x| x.rsqrt::<I>();  }
    derivative: backward! {
        self_(g, result: Tensor) => g.mul(-0.5)?.mul(&result.mul(&result)?.mul(&result)?.conj()?)?
    };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}

// ---- exponentials and logarithms ----------------------------------------------------------------

unary! {
    /// The exponential.
    fn exp, exp_, exp_out(x): Promotion::Float;
    { floats |x| x.exp::<I>();  }
    derivative: backward! { self_(g, result: Tensor) => g.mul(&result.conj()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
unary! {
    /// The natural logarithm.
    fn log, log_, log_out(x): Promotion::Float;
    { floats |x| x.log::<I>();  }
    derivative: backward! { self_(g, self_: Tensor) => g.div(&self_.conj()?)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}

// ---- trigonometry -------------------------------------------------------------------------------

unary! {
    /// The sine of an angle in radians.
    fn sin, sin_, sin_out(x): Promotion::Float;
    { floats |x| x.sin::<I>();  }
    derivative: backward! { self_(g, self_: Tensor) => g.mul(&self_.cos()?.conj()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
unary! {
    /// The cosine of an angle in radians.
    fn cos, cos_, cos_out(x): Promotion::Float;
    { floats |x| x.cos::<I>();  }
    derivative: backward! { self_(g, self_: Tensor) => g.neg()?.mul(&self_.sin()?.conj()?)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    abs::ALL,
    conj::ALL,
    conj_physical::ALL,
    cos::ALL,
    exp::ALL,
    floor::ALL,
    isfinite::ALL,
    isnan::ALL,
    log::ALL,
    reciprocal::ALL,
    rsqrt::ALL,
    sgn::ALL,
    sin::ALL,
    sqrt::ALL,
];
