//! Weights as a direction times a magnitude (Salimans & Kingma 2016, "Weight normalization").

use super::norm::{locks, operand};
use crate::dims::{Dims, wrap_dim};
use crate::{Body, DType, Op, Result, Tensor, backward, ensure, sample};
use flambeau_cpu::norm::{self, Parts};

/// Reduces a tensor over all dims but `dim`, which are kept, or over all for -1: `reduce` takes it, the dims, and whether to
/// keep them.
fn over_others(
    x: &Tensor,
    dim: i64,
    reduce: impl Fn(&Tensor, &[i64], bool) -> Result<Tensor>,
) -> Result<Tensor> {
    let kept = if dim == -1 { None } else { Some(wrap_dim(dim, x.dim())?) };
    let others: Dims = (0..x.dim()).filter(|d| Some(*d) != kept).map(|d| d as i64).collect();
    match kept.is_some() && others.is_empty() {
        // No dims would mean all.
        true => reduce(&x.unsqueeze(-1)?, &[-1], false),
        false => reduce(x, &others, kept.is_some()),
    }
}

fn norm_except_dim_any(v: &Tensor, pow: i64, dim: i64) -> Result<Tensor> {
    over_others(v, dim, |v, dims, keep| {
        let args = [v.into(), crate::Scalar::from(pow).into(), dims.into(), keep.into(), None::<DType>.into()];
        super::reduce::linalg_vector_norm::OP.call(&args)?.one()
    })
}
op! {
    /// The `pow`-norms of the parts along `dim`, as many dims as `v` has; of all of it for -1.
    norm_except_dim: "norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor";
    Body::Composite(kernel!(norm_except_dim_any; v, pow, dim));
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.uniform(&[2, 3, 2], 0.5, 2.0), 2, 1], sample![m.uniform(&[2, 3], 0.5, 2.0), 1, -1]],
        false => vec![],
    };
    ulp: 16.0;
}

fn weight_norm_any(v: &Tensor, g: &Tensor, dim: i64) -> Result<Tensor> {
    let [weight, _] = _weight_norm_interface::OP.call(&[v.into(), g.into(), dim.into()])?.array()?;
    Ok(weight)
}
op! {
    /// The weight `g v / |v|`, the norms over all dims but `dim`.
    _weight_norm: "_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor";
    Body::Composite(kernel!(weight_norm_any; v, g, dim));
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.uniform(&[2, 3, 2], 0.5, 2.0), m.any(&[2, 1, 1]), 0]],
        false => vec![],
    };
    ulp: 16.0;
}

fn interface_any(v: &Tensor, g: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    let norms = norm_except_dim_any(v, 2, dim)?;
    Ok((v.mul(&g.div(&norms)?)?, norms))
}

/// The gradients of [`interface_any`] by `v` and `g`, for those of its results.
fn interface_backward(
    (gw, gn): (&Tensor, Option<&Tensor>),
    v: &Tensor,
    g: &Tensor,
    norms: &Tensor,
    dim: i64,
) -> Result<[Option<Tensor>; 2]> {
    let given = v.dtype();
    if matches!(given, DType::F16 | DType::BF16) {
        // Once rounded, what cancels would leave the roundings.
        let wide = |t: &Tensor| t.to_dtype(DType::F32);
        let gn = gn.map(wide).transpose()?;
        let [by_v, by_g] = interface_backward((&wide(gw)?, gn.as_ref()), &wide(v)?, &wide(g)?, &wide(norms)?, dim)?;
        let narrow = |t: Option<Tensor>| t.map(|t| t.to_dtype(given)).transpose();
        return Ok([narrow(by_v)?, narrow(by_g)?]);
    }
    let sum = |t: &Tensor| over_others(t, dim, Tensor::sum_dim);
    let factor = g.div(norms)?.conj()?;
    let product = gw.mul(&v.conj()?)?;
    // How the weight changes with the magnitude, and with it through the norms.
    let (by_g, mut through) = match g.sizes() == norms.sizes() {
        true => {
            let by_g = sum(&product)?.div(norms)?;
            (by_g.clone(), by_g.mul(&factor)?)
        }
        false => {
            let through = sum(&product.mul(&factor)?)?.div(norms)?;
            (product.div(norms)?.sum_to_size(g.sizes())?, through)
        }
    };
    if through.dtype().is_complex() {
        through = through.real()?;
    }
    if let Some(gn) = gn {
        through = through.sub(gn)?;
    }
    let by_v = gw.mul(&factor)?.addcmul(v, &through.div(norms)?, -1)?;
    Ok([Some(by_v.sum_to_size(v.sizes())?), Some(by_g)])
}

op! {
    /// The weight `g v / |v|`, and the norms.
    _weight_norm_interface: "_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)";
    Body::Explicit(kernel!(interface_any; v, g, dim));
    derivative: backward! {
        (v, g)([c], v: Tensor, g: Tensor, dim: i64, result1: Tensor) => match c.grad(0) {
            Some(gw) if c.grad(1).is_none() && has_kernel(gw, &v, &g, &result1, dim)? => {
                let args = [gw.into(), (&v).into(), (&g).into(), (&result1).into(), dim.into()];
                _weight_norm_interface_backward::OP.call(&args)?.array()?.map(Some)
            }
            _ => interface_backward((&c.grad_or_zeros(0)?, c.grad(1)), &v, &g, &result1, dim)?,
        }
    };
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.uniform(&[2, 3], 0.5, 2.0), m.any(&[2, 1]), 0], sample![m.uniform(&[3], 0.5, 2.0), m.any(&[3]), 0]],
        false => vec![],
    };
    ulp: 16.0;
}

/// Whether gradients that nobody differentiates again have a kernel: of parts along the first or the last dim. (Halves are
/// computed wide: what cancels would leave the roundings of single precision, which they have digits for.)
fn has_kernel(gw: &Tensor, v: &Tensor, g: &Tensor, norms: &Tensor, dim: i64) -> Result<bool> {
    let here = v.device().is_cpu() || v.device().is_meta();
    let outer = dim != -1 && v.dim() > 0 && [0, v.dim() - 1].contains(&wrap_dim(dim, v.dim())?);
    let alike = [gw, g, norms].iter().all(|t| t.dtype() == v.dtype()) && matches!(v.dtype(), DType::F32 | DType::F64);
    let fits = gw.sizes() == v.sizes() && g.sizes() == norms.sizes();
    Ok(here && outer && alike && fits && !crate::autograd::is_grad_enabled())
}

fn kernel_sizes(gw: &Tensor, v: &Tensor, g: &Tensor, norms: &Tensor, dim: i64) -> Result<(Parts, usize, usize)> {
    let op = "_weight_norm_interface_backward";
    let (n, kept) = (v.dim(), if v.dim() > 0 { wrap_dim(dim, v.dim())? } else { 0 });
    ensure!(n > 0 && (kept == 0 || kept == n - 1), "{op}: only the first or the last dim can be kept");
    let size = v.sizes()[kept];
    let fits = gw.sizes() == v.sizes() && g.numel() == size && norms.numel() == size;
    ensure!(fits, "{op}: a gradient of {:?} and {} norms do not fit {:?}", gw.sizes(), norms.numel(), v.sizes());
    let alike = [gw, g, norms].iter().all(|t| t.dtype() == v.dtype()) && v.dtype().is_floating_point();
    ensure!(alike, "{op}: all tensors must have the same floating-point dtype");
    let (size, others) = (size as usize, if size > 0 { (v.numel() / size) as usize } else { 0 });
    Ok(if kept == 0 { (Parts::Rows, size, others) } else { (Parts::Columns, others, size) })
}

fn backward_cpu(gw: &Tensor, v: &Tensor, g: &Tensor, norms: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    let (parts, rows, columns) = kernel_sizes(gw, v, g, norms, dim)?;
    let (gw, v, g, norms) = (gw.contiguous()?, v.contiguous()?, g.contiguous()?, norms.contiguous()?);
    let by_v = Tensor::empty(v.sizes(), (v.dtype(), v.device()))?;
    let by_g = Tensor::empty(g.sizes(), (g.dtype(), g.device()))?;
    if rows * columns == 0 {
        return Ok((by_v, by_g.zero_()?));
    }
    let _read = locks([&gw, &v, &g, &norms])?;
    let inputs = (operand(&g), operand(&norms));
    // SAFETY: all are row-major with the parts' elements; inputs are locked, outputs fresh.
    unsafe {
        let outputs = (operand(&by_v), operand(&by_g));
        norm::weight_norm_backward(parts, (rows, columns), operand(&gw), operand(&v), inputs, outputs);
    }
    Ok((by_v, by_g))
}

fn backward_meta(gw: &Tensor, v: &Tensor, g: &Tensor, norms: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    kernel_sizes(gw, v, g, norms, dim)?;
    let like = |t: &Tensor| Tensor::empty(t.sizes(), (t.dtype(), crate::Device::META));
    Ok((like(v)?, like(g)?))
}

op! {
    /// The gradients of weights `g v / |v|` with respect to `v` and `g`, of parts along the first or the last dim.
    _weight_norm_interface_backward: "_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int dim) -> (Tensor, Tensor)";
    Body::Kernels {
        cpu: kernel!(backward_cpu; gw, v, g, norms, dim),
        meta: kernel!(backward_meta; gw, v, g, norms, dim),
    };
    derivative: backward! {
        (grad_w, saved_v, saved_g, saved_norms)([c], grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: i64) =>
            c.differentiate(&[Some(&grad_w), Some(&saved_v), Some(&saved_g), Some(&saved_norms)], |leaves| {
                let [Some(gw), Some(v), Some(g), Some(norms)] = leaves else { return Ok(vec![]) };
                Ok(interface_backward((gw, None), v, g, norms, dim)?.into_iter().flatten().collect())
            })?
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![
            sample![m.any(&[2, 3, 2]), m.any(&[2, 3, 2]), m.any(&[2, 1, 1]), m.uniform(&[2, 1, 1], 1.0, 2.0), 0],
            sample![m.any(&[4, 3]), m.any(&[4, 3]), m.any(&[1, 3]), m.uniform(&[1, 3], 1.0, 2.0), 1],
        ],
        false => vec![],
    };
    ulp: 256.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] =
    &[_weight_norm::ALL, _weight_norm_interface::ALL, _weight_norm_interface_backward::ALL, norm_except_dim::ALL];
