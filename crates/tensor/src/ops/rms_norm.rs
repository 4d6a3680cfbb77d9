//! RMS norm (Zhang & Sennrich, "Root Mean Square Layer Normalization", 2019), by one kernel.

use super::norm::{dense, floats, given, locks, operand, optional, rows_of, statistics, statistics_sizes, with_contiguous};
use crate::dims::Dims;
use crate::{Body, DType, Op, OwnedValue, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_cpu::norm::{self, NormGradients};

/// What is added to the mean square if the call does not say.
fn default_eps(x: &Tensor) -> f64 {
    match x.dtype().to_real().compute() {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

fn plan(x: &Tensor, shape: &[i64], weight: Option<&Tensor>, _eps: Option<f64>) -> Result<[TensorSpec; 2]> {
    floats("rms_norm", x)?;
    rows_of(x, shape, weight, None)?;
    let rstd = TensorSpec::like(statistics_sizes(x, shape), x).dtype(x.dtype().compute());
    Ok([TensorSpec::like(Dims::from_slice(x.sizes()), x), rstd])
}

fn run(x: &Tensor, shape: &[i64], weight: Option<&Tensor>, eps: Option<f64>, outs: &[Tensor]) -> Result<()> {
    let (rows, n) = rows_of(x, shape, weight, None)?;
    let eps = eps.unwrap_or(default_eps(x));
    let (x, weight) = (x.contiguous()?, dense(weight)?);
    with_contiguous(outs, |o| {
        if o[0].numel() == 0 && o[1].numel() == 0 {
            return Ok(());
        }
        let _read = locks([Some(&x), weight.as_ref()].into_iter().flatten())?;
        // SAFETY: all are row-major with the rows' elements; inputs are locked and apart from the outputs.
        unsafe {
            norm::rms_norm((rows, n), eps, operand(&x), optional(&weight), operand(&o[0]), Some(operand(&o[1])));
        }
        Ok(())
    })
}

op! {
    /// Divides by the root mean square over the last dims, then scales; also gives the reciprocal root.
    fused_rms_norm: "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)";
    Body::Structured { plan: plan!(plan; x, shape, weight, eps), run: run!(run; x, shape, weight, eps) };
    derivative: backward! {
        (input, weight)([c], input: Tensor, normalized_shape: Dims, weight: Option<Tensor>, result1: Tensor) => {
            let mask = [c.needs("input"), c.needs("weight")];
            let grads = fused_rms_norm_backward::OP.call(&[
                (&c.gradient()?).into(), (&input).into(), (&normalized_shape).into(), (&result1).into(), (&weight).into(),
                (&mask[..]).into(),
            ])?;
            match grads {
                crate::Outputs::Many(grads) => grads,
                crate::Outputs::One(g) => vec![Some(g), None],
                _ => vec![None, None],
            }
        }
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3, 5]), vec![5i64], m.any(&[5]), 1e-5], sample![m.any(&[2, 3, 4]), vec![3i64, 4], (), ()]],
        false => vec![],
    };
    ulp: 64.0;
}

fn backward_cpu(
    g: &Tensor,
    x: &Tensor,
    shape: &[i64],
    rstd: &Tensor,
    weight: Option<&Tensor>,
    mask: [bool; 2],
) -> Result<[Option<Tensor>; 2]> {
    let (rows, n) = rows_of(x, shape, weight, None)?;
    check_backward(g, x)?;
    let (g, x, rstd, weight) = (g.contiguous()?, x.contiguous()?, rstd.contiguous()?, dense(weight)?);
    ensure!(rstd.numel() as usize == rows, "_fused_rms_norm_backward: statistics do not fit the input");
    let like = weight.as_ref().map_or(x.dtype(), Tensor::dtype);
    let input = if mask[0] { Some(Tensor::empty(x.sizes(), (x.dtype(), x.device()))?) } else { None };
    let dw = if mask[1] { Some(Tensor::empty(shape, (like, x.device()))?) } else { None };
    let _read = locks([Some(&g), Some(&x), Some(&rstd), weight.as_ref()].into_iter().flatten())?;
    let gradients = NormGradients { input: optional(&input), weight: optional(&dw), bias: None };
    // SAFETY: all are row-major with the rows' elements; inputs are locked, outputs fresh.
    unsafe {
        norm::rms_norm_backward((rows, n), operand(&g), operand(&x), operand(&rstd), optional(&weight), gradients);
    }
    Ok([input, dw])
}

fn check_backward(g: &Tensor, x: &Tensor) -> Result<()> {
    let op = "_fused_rms_norm_backward";
    ensure!(g.sizes() == x.sizes(), "{op}: expected a gradient of sizes {:?}, got {:?}", x.sizes(), g.sizes());
    ensure!(g.dtype() == x.dtype(), "{op}: expected a gradient of dtype {}, got {}", x.dtype(), g.dtype());
    Ok(())
}

fn backward_meta(
    g: &Tensor,
    x: &Tensor,
    shape: &[i64],
    _rstd: &Tensor,
    weight: Option<&Tensor>,
    mask: [bool; 2],
) -> Result<[Option<Tensor>; 2]> {
    rows_of(x, shape, weight, None)?;
    check_backward(g, x)?;
    let meta = |sizes: &[i64], dtype: DType, wanted: bool| match wanted {
        true => Tensor::fresh(crate::Device::META, dtype, Dims::from_slice(sizes)).map(Some),
        false => Ok(None),
    };
    Ok([meta(x.sizes(), x.dtype(), mask[0])?, meta(shape, weight.map_or(x.dtype(), Tensor::dtype), mask[1])?])
}

/// The gradient with respect to the input, and the normalised input, as an expression that can be differentiated again.
fn gradient_over(g: &Tensor, x: &Tensor, weight: Option<&Tensor>, eps: &Tensor, over: &[i64]) -> Result<(Tensor, Tensor)> {
    let rstd = x.mul(x)?.mean_dim(over, true)?.add(eps)?.rsqrt()?;
    let xhat = x.mul(&rstd)?;
    let gw = match weight {
        Some(w) => g.mul(w)?,
        None => g.clone(),
    };
    let dx = gw.sub(&xhat.mul(&gw.mul(&xhat)?.mean_dim(over, true)?)?)?.mul(&rstd)?;
    Ok((dx, xhat))
}

op! {
    /// The gradients of an RMS norm with respect to input and weight, as far as `output_mask` asks.
    fused_rms_norm_backward: "_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)";
    Body::Kernels {
        cpu: kernel!(backward_cpu; g, x, shape, rstd, weight, mask),
        meta: kernel!(backward_meta; g, x, shape, rstd, weight, mask),
    };
    derivative: backward! {
        (grad_out, input, weight)([c], grad_out: Tensor, input: Tensor, normalized_shape: Dims, rstd: Tensor, weight: Option<Tensor>) => {
            let over: Dims = (0..normalized_shape.len() as i64).map(|d| -1 - d).collect();
            let lead: Dims = (0..(input.dim() - normalized_shape.len()) as i64).collect();
            let square = input.detach_all()?.mul(&input.detach_all()?)?.mean_dim(&over, true)?;
            let eps = rstd.detach_all()?.view(square.sizes())?.pow(-2.0)?.sub(&square)?;
            c.differentiate(&[Some(&grad_out), Some(&input), weight.as_ref()], |leaves| {
                let (g, x) = (given(leaves, 0)?, given(leaves, 1)?);
                let (dx, xhat) = gradient_over(g, x, leaves[2].as_ref(), &eps, &over)?;
                let dw = g.mul(&xhat)?;
                Ok(vec![dx, if lead.is_empty() { dw } else { dw.sum_dim(&lead, false)? }])
            })?
        }
    };
    samples: |m| {
        let (x, w, shape) = (m.any(&[3, 5]), m.any(&[5]), vec![5i64]);
        match &statistics(&fused_rms_norm::OP, &[(&x).into(), shape[..].into(), (&w).into(), 1e-5.into()])[..] {
            [rstd] => vec![sample![m.any(&[3, 5]), x, shape, rstd.clone(), w, OwnedValue::Bools(vec![true; 2])]],
            _ => vec![],
        }
    };
    ulp: 64.0;
}

fn rms_norm_any(x: &Tensor, shape: &[i64], weight: Option<&Tensor>, eps: Option<f64>) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        floats("rms_norm", x)?;
    }
    rows_of(x, shape, weight, None)?;
    // Complex numbers take the expression: their root is that of the mean of squares, not of absolute squares.
    let here = (x.device().is_cpu() || x.device().is_meta()) && !x.dtype().is_complex();
    if here && weight.is_none_or(|w| w.dtype() == x.dtype()) {
        let both = fused_rms_norm::OP.call(&[x.into(), shape.into(), weight.into(), eps.into()])?;
        return Ok(both.list()?.swap_remove(0));
    }
    let over: Dims = (0..shape.len() as i64).map(|d| -1 - d).collect();
    let wide = x.to_dtype(x.dtype().compute())?;
    let mean = wide.mul(&wide)?.mean_dim(&over, true)?.add(eps.unwrap_or(default_eps(x)))?;
    let scaled = wide.mul(&mean.rsqrt()?)?;
    match weight {
        Some(w) => scaled.mul(w)?.to_dtype(x.dtype()),
        None => scaled.to_dtype(x.dtype()),
    }
}

op! {
    /// Divides by the root mean square over the last dims (`normalized_shape`), then scales by `weight`.
    rms_norm: "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor";
    Body::Composite(kernel!(rms_norm_any; x, shape, weight, eps));
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.any(&[3, 5]), vec![5i64], m.any(&[5]), 1e-5]],
        false => vec![],
    };
    ulp: 64.0;
    fn rms_norm(&self, normalized_shape: &[i64], weight: Option<&Tensor>, eps: Option<f64>) -> Tensor [self, normalized_shape, weight, eps];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[fused_rms_norm::ALL, fused_rms_norm_backward::ALL, rms_norm::ALL];
