//! Weights as a direction times a magnitude (Salimans & Kingma 2016, "Weight normalization").

use crate::dims::{Dims, wrap_dim};
use crate::{Body, DType, Op, Result, Tensor, sample};

fn norm_except_dim_any(v: &Tensor, pow: i64, dim: i64) -> Result<Tensor> {
    let kept = if dim == -1 { None } else { Some(wrap_dim(dim, v.dim())?) };
    let others: Dims = (0..v.dim()).filter(|d| Some(*d) != kept).map(|d| d as i64).collect();
    let args = [v.into(), crate::Scalar::from(pow).into(), (&others[..]).into(), kept.is_some().into(), None::<DType>.into()];
    super::reduce::linalg_vector_norm::OP.call(&args)?.one()
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
    v.mul(&g.div(&norm_except_dim_any(v, 2, dim)?)?)
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
op! {
    /// The weight `g v / |v|`, and the norms.
    _weight_norm_interface: "_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)";
    Body::Composite(kernel!(interface_any; v, g, dim));
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.uniform(&[2, 3], 0.5, 2.0), m.any(&[2, 1]), 0]],
        false => vec![],
    };
    ulp: 16.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[_weight_norm::ALL, _weight_norm_interface::ALL, norm_except_dim::ALL];
