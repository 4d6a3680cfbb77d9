//! Softmax and its logarithm.

use crate::autograd::Forward;
use crate::dims::{Dims, wrap_dim};
use crate::{Body, DType, Error, Op, OutRule, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::reduce::Operand;
use flambeau_cpu::softmax::{
    SoftmaxShape, log_softmax_of_halves, softmax as softmax_kernel, softmax_backward as backward_kernel,
};

fn shape_of(x: &Tensor, dim: i64) -> Result<SoftmaxShape> {
    let d = wrap_dim(dim, x.dim())?;
    let product = |s: &[i64]| s.iter().product::<i64>() as usize;
    Ok(match x.dim() {
        0 => SoftmaxShape { outer: 1, dim: 1, inner: 1 },
        _ => SoftmaxShape { outer: product(&x.sizes()[..d]), dim: x.sizes()[d] as usize, inner: product(&x.sizes()[d + 1..]) },
    })
}

fn operand(t: &Tensor) -> Operand {
    Operand { data: t.data_ptr(), dtype: t.dtype() }
}

fn plan_one(name: &str, x: &Tensor, dim: i64, half_to_float: bool) -> Result<TensorSpec> {
    wrap_dim(dim, x.dim())?;
    if !x.dtype().is_floating_point() {
        return Err(Error::not_implemented(format!(
            "\"{name}_lastdim_kernel_impl\" not implemented for '{}'",
            x.dtype().scalar_type_name()
        )));
    }
    ensure!(!half_to_float, "{name} with half to float conversion is not supported on CPU");
    Ok(TensorSpec::like(Dims::from_slice(x.sizes()), x))
}

/// Runs `kernel` on row-major memory, writing straight to `out` if it is that.
fn dense(out: &Tensor, inputs: &[&Tensor], kernel: impl Fn(&[Tensor], &Tensor) -> Result<()>) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let row_major = |t: &&Tensor| if t.is_contiguous() { Ok(Tensor::clone(t)) } else { t.contiguous() };
    let inputs = inputs.iter().map(row_major).collect::<Result<Vec<_>>>()?;
    let target = if out.is_contiguous() { out.clone() } else { Tensor::empty(out.sizes(), (out.dtype(), out.device()))? };
    {
        let _locks = LockSet::new(inputs.iter().map(|t| (t.storage(), false)).chain([(target.storage(), true)]))?;
        kernel(&inputs, &target)?;
    }
    if !out.is_contiguous() {
        out.copy_(&target)?;
    }
    Ok(())
}

fn forward_run(log: bool, x: &Tensor, dim: i64, out: &Tensor) -> Result<()> {
    let shape = shape_of(x, dim)?;
    let last = wrap_dim(dim, x.dim())? + 1 >= x.dim();
    dense(out, &[x], |x, out| {
        // SAFETY: both are row-major with the shape's elements, locked and apart.
        unsafe {
            match log && last {
                true => log_softmax_of_halves(shape, operand(&x[0]), operand(out)),
                false => softmax_kernel(log, shape, operand(&x[0]), operand(out)),
            }
        };
        Ok(())
    })
}

fn softmax_plan(x: &Tensor, dim: i64, half_to_float: bool) -> Result<TensorSpec> {
    plan_one("softmax", x, dim, half_to_float)
}
fn softmax_run(x: &Tensor, dim: i64, _half_to_float: bool, outs: &[Tensor]) -> Result<()> {
    forward_run(false, x, dim, &outs[0])
}

fn samples(m: &mut crate::samples::Maker) -> Vec<crate::samples::Sample> {
    match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3, 4]), 1, false], sample![m.any(&[2, 3, 4]), 0, false], sample![m.any(&[]), 0, false]],
        false => vec![],
    }
}

op! {
    /// Softmax along a dim, of floating-point elements.
    softmax_kernel_op: "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
        Out OUT: "_softmax.out(Tensor self, int dim, bool half_to_float, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(softmax_plan; x, dim, half), run: run!(softmax_run; x, dim, half) };
    derivative: backward! {
        self_(g, self_: crate::autograd::Geometry, dim: i64, result: Tensor) => Tensor::softmax_backward(g, &result, dim, self_.dtype)?
    };
    samples: samples;
    ulp: 8.0;
    out_rule: OutRule::EXACT;
}

fn log_softmax_plan(x: &Tensor, dim: i64, half_to_float: bool) -> Result<TensorSpec> {
    plan_one("log_softmax", x, dim, half_to_float)
}
fn log_softmax_run(x: &Tensor, dim: i64, _half_to_float: bool, outs: &[Tensor]) -> Result<()> {
    forward_run(true, x, dim, &outs[0])
}

op! {
    /// The logarithm of the softmax along a dim, of floating-point elements.
    log_softmax_kernel_op: "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
        Out OUT: "_log_softmax.out(Tensor self, int dim, bool half_to_float, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(log_softmax_plan; x, dim, half), run: run!(log_softmax_run; x, dim, half) };
    derivative: backward! {
        self_(g, self_: crate::autograd::Geometry, dim: i64, result: Tensor) => Tensor::log_softmax_backward(g, &result, dim, self_.dtype)?
    };
    samples: samples;
    ulp: 8.0;
    out_rule: OutRule::EXACT;
}

fn backward_plan(g: &Tensor, output: &Tensor, dim: i64, dtype: DType) -> Result<TensorSpec> {
    wrap_dim(dim, g.dim())?;
    ensure!(
        g.sizes() == output.sizes() && g.dtype().is_floating_point() && output.dtype().is_floating_point(),
        "softmax_backward: expected a gradient like the output {:?}, got {:?}",
        output.sizes(),
        g.sizes()
    );
    Ok(TensorSpec::like(Dims::from_slice(g.sizes()), g).dtype(dtype))
}
fn backward_run(log: bool, g: &Tensor, output: &Tensor, dim: i64, out: &Tensor) -> Result<()> {
    let shape = shape_of(g, dim)?;
    dense(out, &[g, output], |x, out| {
        // SAFETY: all are row-major with the shape's elements, locked, and the output is apart.
        unsafe { backward_kernel(log, shape, operand(&x[0]), operand(&x[1]), operand(out)) };
        Ok(())
    })
}
fn softmax_backward_run(g: &Tensor, output: &Tensor, dim: i64, _dtype: DType, outs: &[Tensor]) -> Result<()> {
    backward_run(false, g, output, dim, &outs[0])
}
fn log_softmax_backward_run(g: &Tensor, output: &Tensor, dim: i64, _dtype: DType, outs: &[Tensor]) -> Result<()> {
    backward_run(true, g, output, dim, &outs[0])
}

fn backward_samples(m: &mut crate::samples::Maker) -> Vec<crate::samples::Sample> {
    match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3, 4]), m.uniform(&[3, 4], 0.1, 0.9), 1, m.dtype], sample![m.any(&[2, 3, 4]), m.uniform(&[2, 3, 4], 0.1, 0.9), 0, m.dtype]],
        false => vec![],
    }
}

op! {
    /// The gradient of a softmax's input, from its result.
    softmax_backward: "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        Out OUT: "_softmax_backward_data.out(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype, *, Tensor(a!) grad_input) -> Tensor(a!)";
    Body::Structured { plan: plan!(backward_plan; g, output, dim, dtype), run: run!(softmax_backward_run; g, output, dim, dtype) };
    derivative: backward! {
        grad_output(g, output: Tensor, dim: i64, input_dtype: DType) => Tensor::softmax_backward(g, &output, dim, input_dtype)?,
        output(g, grad_output: Tensor, output: Tensor, dim: i64) => {
            let inner = grad_output.sub(&grad_output.mul(&output)?.sum_dim(&[dim], true)?)?;
            g.mul(&inner)?.sub(&grad_output.mul(&g.mul(&output)?.sum_dim(&[dim], true)?)?)?
        },
    };
    forward: Forward::FromBackward;
    samples: backward_samples;
    ulp: 16.0;
    fn softmax_backward(grad_output: &Tensor, output: &Tensor, dim: i64, input_dtype: DType) -> Tensor [grad_output, output, dim, input_dtype];
}

op! {
    /// The gradient of a log-softmax's input, from its result.
    log_softmax_backward: "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        Out OUT: "_log_softmax_backward_data.out(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(backward_plan; g, output, dim, dtype), run: run!(log_softmax_backward_run; g, output, dim, dtype) };
    derivative: backward! {
        grad_output(g, output: Tensor, dim: i64) => g.sub(&g.mul(&output.exp()?)?.sum_dim(&[dim], true)?)?,
        output(g, grad_output: Tensor, output: Tensor, dim: i64) =>
            g.mul(&output.exp()?)?.mul(&grad_output.sum_dim(&[dim], true)?)?.neg()?,
    };
    forward: Forward::FromBackward;
    samples: backward_samples;
    ulp: 16.0;
    fn log_softmax_backward(grad_output: &Tensor, output: &Tensor, dim: i64, input_dtype: DType) -> Tensor [grad_output, output, dim, input_dtype];
}

fn converted(x: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    dtype.map_or_else(|| Ok(x.clone()), |d| x.to_dtype(d))
}
fn softmax_any(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    softmax_kernel_op::OP.call(&[(&converted(x, dtype)?).into(), dim.into(), false.into()])?.one()
}
fn log_softmax_any(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    log_softmax_kernel_op::OP.call(&[(&converted(x, dtype)?).into(), dim.into(), false.into()])?.one()
}

op! {
    /// Exponentials along a dim divided by their sum, without overflow; computed in `dtype` if given.
    softmax: "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        Out OUT: "softmax.int_out(Tensor self, int dim, ScalarType? dtype=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(softmax_any; x, dim, dtype));
    samples: |m| vec![sample![m.any(&[2, 3]), -1, ()], sample![m.any(&[2, 3]), 0, m.wide()]];
    out_rule: OutRule::EXACT;
    fn softmax(&self, dim: i64, dtype: Option<DType>) -> Tensor [self, dim, dtype];
}
op! {
    /// The logarithm of the softmax along a dim; computed in `dtype` if given.
    log_softmax: "log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        Out OUT: "log_softmax.int_out(Tensor self, int dim, ScalarType? dtype=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(log_softmax_any; x, dim, dtype));
    samples: |m| vec![sample![m.any(&[2, 3]), -1, ()], sample![m.any(&[2, 3]), 0, m.wide()]];
    out_rule: OutRule::EXACT;
    fn log_softmax(&self, dim: i64, dtype: Option<DType>) -> Tensor [self, dim, dtype];
}

fn safe_softmax_any(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    let out = x.softmax(dim, dtype)?;
    let nothing = x.eq(f64::NEG_INFINITY)?.all_dim(dim, true)?;
    out.masked_fill(&nothing, 0)
}

op! {
    /// As softmax, but zeros where all elements along the dim are negative infinity.
    _safe_softmax: "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor";
    Body::Explicit(kernel!(safe_softmax_any; x, dim, dtype));
    derivative: backward! {
        self_(g, self_: crate::autograd::Geometry, dim: i64, result: Tensor) => Tensor::softmax_backward(g, &result, dim, self_.dtype)?
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[2, 3]), -1, ()], sample![m.any(&[2, 3]), 0, m.wide()]],
        false => vec![],
    };
    ulp: 8.0;
    fn safe_softmax(&self, dim: i64, dtype: Option<DType>) -> Tensor [self, dim, dtype];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    _safe_softmax::ALL,
    log_softmax::ALL,
    log_softmax_backward::ALL,
    log_softmax_kernel_op::ALL,
    softmax::ALL,
    softmax_backward::ALL,
    softmax_kernel_op::ALL,
];
