//! Activations whose slope or gate is another tensor.

use super::unary::gradient_examples;
use crate::access::{elements, elements_mut};
use crate::pointwise::{Pointwise, scalar_params};
use crate::promotion::Promotion;
use crate::{Body, DType, Device, Op, Result, Tensor, backward, ensure, sample};
use flambeau_base::storage::LockSet;

// ---- prelu and glu ------------------------------------------------------------------------------

/// A pointwise function of two or three tensors that only other operators call.
macro_rules! inner {
    ($(#[doc = $doc:expr])* fn $name:ident: $schema:literal, $arity:literal, $cpu_name:literal; $sig:tt $args:tt { $($strips:tt)* } derivative: $derivative:expr; samples: $samples:expr;) => {
        op! {
            $(#[doc = $doc])*
            $name: $schema;
            Body::Pointwise(&Pointwise {
                arity: $arity,
                promotion: Promotion::Common,
                strips: strips! { $($strips)* },
                params: scalar_params,
                text: strip_text! { $($strips)* },
                cpu_name: $cpu_name,
            });
            derivative: $derivative;
            samples: $samples;
            fn $name $sig -> Tensor $args;
        }
    };
}
inner! {
    /// `self` where it is positive, `weight * self` elsewhere, broadcast.
    fn prelu_kernel: "_prelu_kernel(Tensor self, Tensor weight) -> Tensor", 2, "prelu_cpu";
    (&self, weight: &Tensor) [self, weight]
    { floats light |x, w| if x > T::ZERO { x } else { w * x }; }
    derivative: backward! {
        self_(g, self_: Tensor, weight: Tensor) => g.prelu_gradient(&self_, &weight)?,
        weight(g, self_: Tensor) => g.mul(&self_)?.mul(&self_.gt(0)?.logical_not()?)?,
    };
    samples: |m| gradient_examples(&OP, m, 0.5, 3.0, &[]);
}
inner! {
    /// The gradient of prelu in its argument `x`, times `self`.
    fn prelu_gradient: "_prelu_gradient(Tensor grad_output, Tensor self, Tensor weight) -> Tensor", 3, "prelu_backward_cpu";
    (&self, x: &Tensor, weight: &Tensor) [self, x, weight]
    { floats light tensors |g, x, w| if x > T::ZERO { g } else { w * g }; }
    derivative: backward! {
        grad_output(g, self_: Tensor, weight: Tensor) => g.prelu_gradient(&self_, &weight)?,
        self_(g, self_: Tensor) => self_.zeros_like()?.mul(g)?,
        weight(g, grad_output: Tensor, self_: Tensor) => {
            g.mul(&grad_output)?.mul(&self_.gt(0)?.logical_not()?)?
        },
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[2, 3]), m.uniform(&[2, 3], 0.5, 3.0), m.any(&[3])]],
        false => vec![],
    };
}
fn prelu_any(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    ensure!(
        x.dtype() == weight.dtype(),
        "prelu: Type promoting not supported. Got {} and {}",
        x.dtype().scalar_type_name(),
        weight.dtype().scalar_type_name()
    );
    if weight.numel() != 1 {
        ensure!(x.dim() > 0, "Not allow zero-dim input tensor.");
        let channels = if x.dim() > 1 { x.sizes()[1] } else { 1 };
        ensure!(
            channels == weight.numel(),
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = {channels}.",
            weight.numel()
        );
    }
    ensure!(
        weight.dim() <= 1,
        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
        weight.dim()
    );
    let mut sizes = vec![1i64; x.dim()];
    if x.dim() > 1 {
        sizes[1] = weight.numel();
    }
    x.prelu_kernel(&weight.reshape(&sizes)?)
}
op! {
    /// `self` where it is positive, a learned weight times it elsewhere: one weight, or one for each channel (dim 1).
    prelu: "prelu(Tensor self, Tensor weight) -> Tensor";
    Body::Composite(kernel!(prelu_any; x, weight));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![
            sample![m.uniform(&[2, 3, 2], 0.5, 3.0), m.any(&[3])],
            sample![m.uniform(&[2, 3], -3.0, -0.5), m.any(&[1])],
        ],
        false => vec![],
    };
    fn prelu(&self, weight: &Tensor) -> Tensor [self, weight];
}

inner! {
    /// `self * sigmoid(gate)`.
    fn gated: "_glu(Tensor self, Tensor gate) -> Tensor", 2, "glu_cpu";
    (&self, gate: &Tensor) [self, gate]
    { floats costly |x, y| x * y.sigmoid::<I>(); }
    derivative: backward! {
        self_(g, gate: Tensor) => g.gated(&gate)?,
        gate(g, self_: Tensor, gate: Tensor) => g.mul(&self_)?.sigmoid_backward(&gate.sigmoid()?)?,
    };
    samples: |m| gradient_examples(&OP, m, -3.0, 3.0, &[]);
}

/// The halves of a tensor along a dim.
fn halves(x: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    ensure!(x.dim() > 0, "glu does not support 0-dimensional tensors");
    let wrapped = crate::dims::wrap_dim(dim, x.dim())?;
    let size = x.sizes()[wrapped];
    ensure!(size % 2 == 0, "Halving dimension must be even, but dimension {wrapped} is size {size}");
    Ok((x.narrow(dim, 0, size / 2)?, x.narrow(dim, size / 2, size / 2)?))
}
fn glu_any(x: &Tensor, dim: i64) -> Result<Tensor> {
    let (value, gate) = halves(x, dim)?;
    value.gated(&gate)
}
fn glu_backward_any(g: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let (value, gate) = halves(x, dim)?;
    let width: i64 = value.sizes()[crate::dims::wrap_dim(dim, x.dim())?..].iter().product();
    let has_kernel = g.sizes() == value.sizes()
        && g.dtype() == x.dtype()
        && matches!(x.dtype(), DType::F32 | DType::F64)
        && [g, x].iter().all(|t| t.device() == Device::CPU)
        && width >= 16;
    if !has_kernel {
        return Tensor::cat(&[g.gated(&gate)?, g.mul(&value)?.sigmoid_backward(&gate.sigmoid()?)?], dim);
    }
    let (g, x) = (g.contiguous()?, x.contiguous()?);
    let out = Tensor::empty(x.sizes(), (x.dtype(), Device::CPU))?;
    if x.numel() > 0 {
        let _locks = LockSet::new([(g.storage(), false), (x.storage(), false), (out.storage(), true)])?;
        crate::dispatch_dtype!(x.dtype(), T in [reals] => {
            // SAFETY: all are locked, contiguous and of this type, and the result fresh.
            unsafe { <T as flambeau_cpu::Real>::glu_backward(width as usize, elements(&g), elements(&x), elements_mut(&out)) };
        }; else unreachable!("checked"));
    }
    Ok(out)
}

/// The gradient of [`glu_backward_any`] by `x`, for the gradient `gg` of its result.
fn glu_backward_by_input(gg: &Tensor, g: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let ((value, gate), (by_value, by_gate)) = (halves(x, dim)?, halves(gg, dim)?);
    let open = gate.sigmoid()?;
    let bent = by_gate.mul(&value)?.mul(&open.mul(-2)?.add(1)?)?.add(&by_value)?;
    Tensor::cat(&[by_gate.mul(g)?.sigmoid_backward(&open)?, bent.mul(g)?.sigmoid_backward(&open)?], dim)
}
op! {
    /// The first half along `dim` times the sigmoid of the second.
    glu: "glu(Tensor self, int dim=-1) -> Tensor",
        Out OUT: "glu.out(Tensor self, int dim=-1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(glu_any; x, dim));
    derivative: backward! { self_(g, self_: Tensor, dim: i64) => g.glu_backward(&self_, dim)? };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[2, 4]), -1], sample![m.any(&[4, 3]), 0]],
        false => vec![],
    };
    fn glu(&self, dim: i64) -> Tensor [self, dim];
}
op! {
    /// The gradient of [`Tensor::glu`] at `x`, times `self`.
    glu_backward: "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor",
        Out OUT: "glu_backward.grad_input(Tensor grad_output, Tensor self, int dim, *, Tensor(a!) grad_input) -> Tensor(a!)";
    Body::Explicit(kernel!(glu_backward_any; g, x, dim));
    derivative: backward! {
        grad_output(g, self_: Tensor, dim: i64) => {
            let ((value, gate), (by_value, by_gate)) = (halves(&self_, dim)?, halves(g, dim)?);
            by_value.gated(&gate)?.add(&by_gate.mul(&value)?.sigmoid_backward(&gate.sigmoid()?)?)?
        },
        self_(g, grad_output: Tensor, self_: Tensor, dim: i64) => glu_backward_by_input(g, &grad_output, &self_, dim)?,
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[2, 3]), m.any(&[2, 6]), 1], sample![m.any(&[2, 8, 2]), m.any(&[2, 16, 2]), 1]],
        false => vec![],
    };
    fn glu_backward(&self, x: &Tensor, dim: i64) -> Tensor [self, x, dim];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    gated::ALL,
    glu::ALL,
    glu_backward::ALL,
    prelu::ALL,
    prelu_gradient::ALL,
    prelu_kernel::ALL,
];
