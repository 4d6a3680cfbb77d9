//! Activations that move elements towards zero.

use super::activation::{activation, defaults, gradient_with};
use super::unary::{examples, gradient_examples, largest};
use crate::pointwise::{Pointwise, scalar_params};
use crate::promotion::Promotion;
use crate::text::general;
use crate::{Body, DType, Error, Op, Scalar, Tensor, backward, ensure};

activation! {
    /// Zero where the element is within `[-lambd, lambd]`, itself elsewhere.
    fn hardshrink; hardshrink_out: "Scalar lambd=0.5", "hardshrink_cpu";
    (&self, lambd: impl Into<Scalar>) [self, lambd.into()]
    Promotion::Common, |args, dtype| defaults(args, dtype, [0.5]);
    { floats light |x; p| if (x >= -p[0]) & (x <= p[0]) { T::ZERO } else { x }; }
    derivative: backward! { self_(g, self_: Tensor, lambd: Scalar) => g.hardshrink_backward(&self_, lambd)? };
    samples: |m| examples(&OP, m, 1.0, 3.0, &[0.5.into()]);
}
/// The gradient of a shrinking: nothing passes where the element became zero.
macro_rules! shrink_gradient {
    ($(#[doc = $doc:expr])* fn $name:ident: $grad:ident, $grad_text:literal) => {
        gradient_with! {
            $(#[doc = $doc])*
            fn $name: $grad_text, "Scalar lambd", "shrink_backward_cpu";
            (&self, x: &Tensor, lambd: impl Into<Scalar>) [self, x, lambd.into()]
            |args, dtype| scalar_params(args, dtype);
            { floats light tensors |g, x; p| if (x >= -p[0]) & (x <= p[0]) { T::ZERO } else { g }; }
            derivative: backward! {
                $grad(g, self_: Tensor, lambd: Scalar) => g.$name(&self_, lambd)?,
                self_(g) => g.zeros_like()?,
            };
            samples: |m| gradient_examples(&OP, m, 1.0, 3.0, &[0.5.into()]);
        }
    };
}
shrink_gradient! {
    /// The gradient of [`Tensor::hardshrink`] at `x`, times `self`.
    fn hardshrink_backward: grad_out, "grad_out"
}
shrink_gradient! {
    /// The gradient of [`Tensor::softshrink`] at `x`, times `self`.
    fn softshrink_backward: grad_output, "grad_output"
}
activation! {
    /// The element moved towards zero by `lambd`, at most to zero.
    fn softshrink; softshrink_out: "Scalar lambd=0.5", "softshrink_cpu";
    (&self, lambd: impl Into<Scalar>) [self, lambd.into()]
    Promotion::Common, |args, dtype| {
        let params = defaults(args, DType::F64, [0.5])?;
        if !dtype.is_floating_point() {
            return Err(Error::not_implemented(format!(
                "\"softshrink_check\" not implemented for '{}'",
                dtype.scalar_type_name()
            )));
        }
        let (lambda, most) = (params[0].to_f64(), largest(dtype));
        ensure!(
            (0.0..=most).contains(&lambda),
            "lambda must be in range [0, {}] for input dtype {}, but found {}",
            general(most),
            dtype.scalar_type_name(),
            general(lambda)
        );
        Ok(params)
    };
    // NaN, and the sign of what becomes zero, pass through the product.
    { floats |x; p| {
        let outside = if x > p[0] { x - p[0] } else { x + p[0] };
        if (x > p[0]) | (x < -p[0]) { outside } else { x * T::ZERO }
    }; }
    derivative: backward! { self_(g, self_: Tensor, lambd: Scalar) => g.softshrink_backward(&self_, lambd)? };
    samples: |m| examples(&OP, m, 1.0, 3.0, &[0.5.into()]);
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[hardshrink::ALL, hardshrink_backward::ALL, softshrink::ALL, softshrink_backward::ALL];
