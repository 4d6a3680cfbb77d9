//! Norms of matrices, and what is made of them.

use super::lu::regular;
use super::matrices::{batch, check_matrix, check_precision, check_square};
use super::reduce::linalg_vector_norm;
use crate::dims::wrap_dim;
use crate::{Body, DType, Error, Op, Result, Scalar, Tensor, ensure, sample};

const NAME: &str = "linalg.matrix_norm";

fn unknown(order: impl std::fmt::Display) -> Error {
    Error::runtime(format!("{NAME}: Order {order} not supported."))
}

/// The two dims, which must differ.
fn two(x: &Tensor, dim: &[i64]) -> Result<[i64; 2]> {
    check_matrix(NAME, "A", x)?;
    let text: Vec<String> = dim.iter().map(i64::to_string).collect();
    ensure!(dim.len() == 2, "{NAME}: dim must be a 2-tuple. Got {}", text.join(" "));
    let wrapped = [wrap_dim(dim[0], x.dim())? as i64, wrap_dim(dim[1], x.dim())? as i64];
    ensure!(wrapped[0] != wrapped[1], "{NAME}: dims must be different. Got ({}, {})", dim[0], dim[1]);
    Ok(wrapped)
}

fn check_dtype(x: &Tensor) -> Result<()> {
    ensure!(
        x.dtype().is_differentiable(),
        "{NAME}: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().scalar_type_name()
    );
    Ok(())
}

fn vector_norm(x: &Tensor, order: Scalar, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    linalg_vector_norm::OP.call(&[x.into(), order.into(), dim.into(), keepdim.into(), dtype.into()])?.one()
}

/// The singular values of the matrices in two dims, with those dims at their end.
fn singular_values(x: &Tensor, dim: [i64; 2], dtype: Option<DType>) -> Result<Tensor> {
    let x = x.movedim(&dim, &[-2, -1])?;
    check_precision("linalg.matrix_norm", &x)?;
    dtype.map_or(Ok(x.clone()), |d| x.to_dtype(d))?.svdvals()
}

/// A result with its two dims back as ones.
fn kept(x: Tensor, dim: [i64; 2], keepdim: bool) -> Result<Tensor> {
    if !keepdim {
        return Ok(x);
    }
    x.unsqueeze(dim[0].min(dim[1]))?.unsqueeze(dim[0].max(dim[1]))
}

/// The largest along a dim; of none, zero.
fn largest(x: &Tensor, dim: i64, keepdim: bool) -> Result<Tensor> {
    if x.size(dim)? == 0 { x.sum_dim(&[dim], keepdim) } else { x.amax(&[dim], keepdim) }
}

fn matrix_norm_any(x: &Tensor, order: Scalar, dim: &[i64], keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let dim = two(x, dim)?;
    check_dtype(x)?;
    let p = order.to_f64();
    let size = p.abs();
    if size != 2.0 && size != 1.0 && size != f64::INFINITY {
        return Err(unknown(order));
    }
    if size == 2.0 {
        let values = singular_values(x, dim, dtype)?;
        let found = if p > 0.0 { largest(&values, -1, false)? } else { values.amin(&[-1], false)? };
        return kept(found, dim, keepdim);
    }
    // Sums over one dim, then the extreme over the other.
    let [mut summed, mut other] = dim;
    if size == f64::INFINITY {
        std::mem::swap(&mut summed, &mut other);
    }
    if !keepdim && summed < other {
        other -= 1;
    }
    let sums = vector_norm(x, Scalar::Int(1), Some(&[summed]), keepdim, dtype)?;
    if p > 0.0 { largest(&sums, other, keepdim) } else { sums.amin(&[other], keepdim) }
}

fn matrix_norm_named(x: &Tensor, order: &str, dim: &[i64], keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    if !matches!(order, "fro" | "nuc") {
        return Err(unknown(order));
    }
    let dim = two(x, dim)?;
    check_dtype(x)?;
    match order {
        "fro" => vector_norm(x, Scalar::Int(2), Some(&dim), keepdim, dtype),
        _ => kept(singular_values(x, dim, dtype)?.sum_dim(&[-1], false)?, dim, keepdim),
    }
}

fn norm_written(op: &str, result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "{op} expected out tensor dtype {} but got: {}",
        result.scalar_type_name(),
        out.scalar_type_name()
    );
    Ok(())
}
fn matrix_norm_writes(result: DType, out: DType) -> Result<()> {
    norm_written("linalg.matrix_norm", result, out)
}
fn norm_writes(result: DType, out: DType) -> Result<()> {
    norm_written("linalg.norm", result, out)
}

op! {
    /// A norm of matrices: 2 and -2 (the largest and the smallest singular value), 1 and -1 (of column sums), inf and -inf
    /// (of row sums).
    linalg_matrix_norm: "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "linalg_matrix_norm.out(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(matrix_norm_any; x, order, dim, keepdim, dtype));
    samples: |m| [2.0, -2.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY].into_iter()
        .filter_map(|p| Some(sample![regular(m, &[2, 3, 3]).pop()?, Scalar::Float(p), vec![-2i64, -1], p > 0.0, ()])).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::dtype(matrix_norm_writes);
}
op! {
    /// A norm of matrices: 'fro' (Frobenius) or 'nuc' (the sum of the singular values).
    matrix_norm_named: "linalg_matrix_norm.str_ord(Tensor self, str ord=\"fro\", int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "linalg_matrix_norm.str_ord_out(Tensor self, str ord=\"fro\", int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(matrix_norm_named; x, order, dim, keepdim, dtype));
    samples: |m| ["fro", "nuc"].into_iter()
        .filter_map(|p| Some(sample![regular(m, &[2, 3, 3]).pop()?, p, vec![-2i64, -1], p == "nuc", ()])).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::dtype(matrix_norm_writes);
}

fn norm_any(x: &Tensor, order: Option<Scalar>, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let matrix = check_norm(x, order.is_some(), dim)?;
    match (matrix, order) {
        (Some(dim), Some(order)) => matrix_norm_any(x, order, &dim, keepdim, dtype),
        (_, order) => vector_norm(x, order.unwrap_or(Scalar::Int(2)), dim, keepdim, dtype),
    }
}
fn norm_named(x: &Tensor, order: &str, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    ensure!(
        dim.is_none_or(|d| d.len() == 2 || d.len() == 1),
        "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {:?}",
        dim.unwrap_or(&[])
    );
    ensure!(
        dim.is_some() || matches!(x.dim(), 1 | 2),
        "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
        x.dim()
    );
    matrix_norm_named(x, order, dim.unwrap_or(&[0, 1]), keepdim, dtype)
}

/// The dims of matrices, if it is matrices whose norm is asked for.
fn check_norm(x: &Tensor, has_order: bool, dim: Option<&[i64]>) -> Result<Option<[i64; 2]>> {
    if let Some(dim) = dim {
        ensure!(
            matches!(dim.len(), 1 | 2),
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dim:?}"
        );
        return Ok(if dim.len() == 2 && has_order { Some([dim[0], dim[1]]) } else { None });
    }
    ensure!(
        !has_order || matches!(x.dim(), 1 | 2),
        "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
        x.dim()
    );
    Ok((has_order && x.dim() == 2).then_some([0, 1]))
}

op! {
    /// A norm of vectors or matrices, by how many dims are given; of all elements without an order or dims.
    linalg_norm: "linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "linalg_norm.out(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(norm_any; x, order, dim, keepdim, dtype));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().flat_map(|x| [
        sample![x.clone(), (), (), false, ()], sample![x.clone(), Scalar::Int(1), vec![0i64, 2], false, ()],
        sample![x, Scalar::Int(3), vec![1i64], true, ()],
    ]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::dtype(norm_writes);
}
op! {
    /// A norm of matrices by name: 'fro' or 'nuc'.
    linalg_norm_named: "linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "linalg_norm.ord_str_out(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(norm_named; x, order, dim, keepdim, dtype));
    samples: |m| regular(m, &[3, 3]).into_iter().flat_map(|x| [
        sample![x.clone(), "fro", (), false, ()], sample![x, "nuc", vec![0i64, 1], true, ()],
    ]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::dtype(norm_writes);
}

fn frobenius_any(x: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    ensure!(dim.len() <= 2, "Expected at most 2 dimensions, but got {} dimensions instead.", dim.len());
    vector_norm(x, Scalar::Int(2), Some(dim), keepdim, None)
}
fn nuclear_any(x: &Tensor, keepdim: bool) -> Result<Tensor> {
    ensure!(x.dim() == 2, "Expected a tensor with 2 dimensions, but got a tensor with {} dimensions instead.", x.dim());
    matrix_norm_named(x, "nuc", &[0, 1], keepdim, None)
}
fn nuclear_dim_any(x: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    ensure!(dim.len() == 2, "nuclear norm requires a 'dim' argument of size 2");
    matrix_norm_named(x, "nuc", dim, keepdim, None)
}

op! {
    /// The square root of the sum of squares over at most two dims.
    frobenius_norm: "frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
        Out OUT: "frobenius_norm.out(Tensor self, int[1] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(frobenius_any; x, dim, keepdim));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().map(|x| sample![x, vec![0i64, 1], false]).collect();
    ulp: 16.0;
    out_rule: crate::OutRule::EXACT;
}
op! {
    /// The sum of the singular values of a matrix.
    nuclear_norm: "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
        Out OUT: "nuclear_norm.out(Tensor self, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(nuclear_any; x, keepdim));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x, false]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::dtype(matrix_norm_writes);
}
op! {
    /// The sums of the singular values of the matrices in two dims.
    nuclear_norm_dim: "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor",
        Out OUT: "nuclear_norm.dim_out(Tensor self, int[2] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(nuclear_dim_any; x, dim, keepdim));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().map(|x| sample![x, vec![1i64, 2], true]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::dtype(matrix_norm_writes);
}

// ---- condition ----------------------------------------------------------------------------------

fn zeros(x: &Tensor) -> Result<Tensor> {
    Tensor::zeros(batch(x), (x.dtype().to_real(), x.device()))
}

/// The norm of a matrix times that of its inverse: infinite where there is none.
fn by_inverse(x: &Tensor, norm: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    if x.numel() == 0 {
        return zeros(x);
    }
    let (inverse, info) = x.inv_ex(false)?;
    norm(x)?.mul(&norm(&inverse)?)?.masked_fill(&info.gt(0)?, f64::INFINITY)
}

fn cond_any(x: &Tensor, p: Option<Scalar>) -> Result<Tensor> {
    check_matrix("linalg.cond", "A", x)?;
    let order = p.map_or(2.0, Scalar::to_f64);
    let size = order.abs();
    if size == 2.0 {
        if x.numel() == 0 {
            return zeros(x);
        }
        let values = x.svdvals()?;
        let (largest, smallest) = (values.narrow(-1, 0, 1)?, values.narrow(-1, values.size(-1)? - 1, 1)?);
        let found = if order > 0.0 { largest.div(&smallest)? } else { smallest.div(&largest)? };
        return found.squeeze_dim(-1);
    }
    let text = p.map_or(String::new(), |p| p.to_string());
    ensure!(size == 1.0 || size == f64::INFINITY, "linalg.cond got an invalid norm type: {text}");
    check_square(&format!("linalg.cond(ord={text})"), "A", x)?;
    by_inverse(x, |x| matrix_norm_any(x, Scalar::Float(order), &[-2, -1], false, None))
}
fn cond_named(x: &Tensor, p: &str) -> Result<Tensor> {
    ensure!(matches!(p, "fro" | "nuc"), "linalg.cond got an invalid norm type: {p}");
    check_square(&format!("linalg.cond(ord={p})"), "A", x)?;
    if p == "nuc" && x.numel() > 0 {
        // From the singular values alone.
        let values = x.svdvals()?;
        return values.sum_dim(&[-1], false)?.mul(&values.reciprocal()?.sum_dim(&[-1], false)?);
    }
    by_inverse(x, |x| matrix_norm_named(x, p, &[-2, -1], false, None))
}

op! {
    /// The condition numbers of matrices: a norm times that of the inverse.
    linalg_cond: "linalg_cond(Tensor self, Scalar? p=None) -> Tensor", Out OUT: "linalg_cond.out(Tensor self, Scalar? p=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(cond_any; x, p));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().flat_map(|x| [
        sample![x.clone(), ()], sample![x.clone(), Scalar::Int(1)], sample![x, Scalar::Int(-2)],
    ]).collect();
    ulp: 1024.0;
}
op! {
    /// The condition numbers of matrices in a norm given by name.
    linalg_cond_named: "linalg_cond.p_str(Tensor self, str p) -> Tensor", Out OUT: "linalg_cond.p_str_out(Tensor self, str p, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(cond_named; x, p));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().flat_map(|x| [sample![x.clone(), "fro"], sample![x, "nuc"]]).collect();
    ulp: 1024.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    frobenius_norm::ALL,
    linalg_cond::ALL,
    linalg_cond_named::ALL,
    linalg_matrix_norm::ALL,
    linalg_norm::ALL,
    linalg_norm_named::ALL,
    matrix_norm_named::ALL,
    nuclear_norm::ALL,
    nuclear_norm_dim::ALL,
];
