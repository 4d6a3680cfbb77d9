//! Distances between vectors, and vectors kept within a norm.

use crate::access::{elements, elements_mut};
use crate::autograd::Derivative;
use crate::dims::{self, Dims, wrap_dim};
use crate::samples::{Maker, Sample};
use crate::{Body, DType, Error, Op, Result, Scalar, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::Real;
use flambeau_cpu::distance::Pairs;

fn dist_any(x: &Tensor, other: &Tensor, p: Option<Scalar>) -> Result<Tensor> {
    let apart = x.sub(other)?;
    ensure!(
        apart.dtype().is_differentiable(),
        "norm(): input dtype should be either floating point or complex. Got {} instead.",
        apart.dtype().scalar_type_name()
    );
    super::reduce::norm::OP.call(&[(&apart).into(), p.unwrap_or(Scalar::Int(2)).into()])?.one()
}

op! {
    /// The p-norm of the difference, broadcast.
    dist: "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
        Out OUT: "dist.out(Tensor self, Tensor other, Scalar p=2, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(dist_any; x, other, p));
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.any(&[3, 4]), m.any(&[4]), Scalar::Int(2)], sample![m.any(&[3, 4]), m.any(&[3, 1]), Scalar::Int(3)]],
        false => vec![],
    };
    ulp: 32.0;
    fn dist(&self, other: &Tensor, p: impl Into<Scalar>) -> Tensor [self, other, p.into()];
}

fn renorm_any(x: &Tensor, p: Scalar, dim: i64, maxnorm: Scalar) -> Result<Tensor> {
    ensure!(!p.is_complex(), "renorm: p must be real-valued");
    ensure!(p.to_f64() > 0.0, "renorm: non-positive-norm not supported");
    ensure!(!maxnorm.is_complex(), "renorm: maxnorm must be real-valued");
    ensure!(maxnorm.to_f64() >= 0.0, "renorm: expected maxnorm to be >= 0 but got {}", maxnorm.to_f64());
    ensure!(x.dim() > 1, "renorm: input needs at least 2 dimensions, got {} dimensions", x.dim());
    let d = wrap_dim(dim, x.dim())?;
    let others: Dims = (0..x.dim()).filter(|&i| i != d).map(|i| i as i64).collect();
    // Halves have their norms in single precision.
    let wide = matches!(x.dtype(), DType::F16 | DType::BF16).then_some(DType::F32);
    let args = [x.into(), p.into(), (&others[..]).into(), true.into(), wide.into()];
    let norm = super::reduce::linalg_vector_norm::OP.call(&args)?.one()?;
    // PyTorch's guard against a norm that is rounded down.
    let shrink = norm.add(1e-7)?.reciprocal()?.mul(maxnorm)?;
    let factor = norm.gt(maxnorm)?.where_(&shrink, Scalar::Int(1))?.to_dtype(x.dtype().to_real())?;
    // The result is row-major, whatever the input is.
    x.contiguous()?.mul(&factor)
}

op! {
    /// A copy in which the parts along `dim` whose p-norm is above `maxnorm` are scaled down to it.
    renorm: "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
        InPlace INPLACE: "renorm_(Tensor(a!) self, Scalar p, int dim, Scalar maxnorm) -> Tensor(a!)",
        Out OUT: "renorm.out(Tensor self, Scalar p, int dim, Scalar maxnorm, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(renorm_any; x, p, dim, maxnorm));
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![
            sample![m.uniform(&[3, 4], 0.2, 2.0), Scalar::Int(2), 0, Scalar::Float(2.5)],
            sample![m.uniform(&[2, 3, 2], 0.2, 2.0), Scalar::Int(3), 1, Scalar::Float(1.0)],
        ],
        false => vec![],
    };
    ulp: 16.0;
    out_rule: crate::OutRule::EXACT;
    fn renorm(&self, p: impl Into<Scalar>, dim: i64, maxnorm: impl Into<Scalar>) -> Tensor [self, p.into(), dim, maxnorm.into()];
}

// ---- all pairs ----------------------------------------------------------------------------------

/// Runs `f` on contiguous copies in the dtype computed in, and writes the result to `out`.
fn with_rows(
    inputs: &[&Tensor],
    out: &Tensor,
    f: &dyn Fn(&[Tensor], &Tensor) -> Result<()>,
) -> Result<()> {
    let compute = out.dtype().compute();
    let rows = inputs
        .iter()
        .map(|t| t.detach()?.to_dtype(compute)?.contiguous())
        .collect::<Result<Vec<_>>>()?;
    let direct = out.dtype() == compute && out.is_contiguous();
    let target = if direct { out.clone() } else { Tensor::fresh(out.device(), compute, Dims::from_slice(out.sizes()))? };
    {
        let locks = rows.iter().map(|t| (t.storage(), false)).chain([(target.storage(), true)]);
        let _locks = LockSet::new(locks)?;
        f(&rows, &target)?;
    }
    if !direct {
        out.copy_(&target)?;
    }
    Ok(())
}

fn wrong_dtype(op: &str, dtype: DType) -> Error {
    super::reduce::not_for(op, dtype)
}

fn check_rows(name: &str, x: &Tensor) -> Result<()> {
    ensure!(
        x.dtype().is_floating_point(),
        "cdist only supports floating-point dtypes, {name} got: {}",
        x.dtype().scalar_type_name()
    );
    ensure!(x.dim() >= 2, "cdist only supports at least 2D tensors, {name} got: {}D", x.dim());
    Ok(())
}

/// The batch sizes that both broadcast to, and the sizes of a result.
fn cdist_sizes(x1: &Tensor, x2: &Tensor) -> Result<(Dims, Dims)> {
    check_rows("X1", x1)?;
    check_rows("X2", x2)?;
    let (c1, c2) = (x1.size(-1)?, x2.size(-1)?);
    ensure!(c1 == c2, "X1 and X2 must have the same number of columns. X1: {c1} X2: {c2}");
    let batch = dims::broadcast(&x1.sizes()[..x1.dim() - 2], &x2.sizes()[..x2.dim() - 2])?;
    let mut sizes = batch.clone();
    sizes.extend([x1.size(-2)?, x2.size(-2)?]);
    Ok((batch, sizes))
}

fn cdist_plan(x1: &Tensor, x2: &Tensor, p: f64, mode: Option<i64>) -> Result<TensorSpec> {
    ensure!(p >= 0.0, "cdist only supports non-negative p values");
    let mode = mode.unwrap_or(0);
    ensure!((0..=2).contains(&mode), "possible modes: 0, 1, 2, but was: {mode}");
    ensure!(
        x1.dtype() == x2.dtype(),
        "expected scalar type {} but found {}",
        x1.dtype().scalar_type_name(),
        x2.dtype().scalar_type_name()
    );
    dims::checked_numel(&cdist_sizes(x1, x2)?.1)?;
    Ok(TensorSpec::like(cdist_sizes(x1, x2)?.1, x1))
}

fn batched(t: &Tensor, batch: &[i64]) -> Result<Tensor> {
    let mut sizes = Dims::from_slice(batch);
    sizes.extend_from_slice(&t.sizes()[t.dim() - 2..]);
    t.expand(&sizes)
}

fn cdist_run(x1: &Tensor, x2: &Tensor, p: f64, mode: Option<i64>, outs: &[Tensor]) -> Result<()> {
    let (batch, _) = cdist_sizes(x1, x2)?;
    let out = &outs[0];
    let (m, n, width) = (x1.size(-2)?, x2.size(-2)?, x1.size(-1)?);
    if out.numel() == 0 {
        return Ok(());
    }
    if by_product(x1, x2, p, mode)? {
        let _mode = crate::autograd::no_grad();
        out.copy_(&euclidean_any(&x1.detach()?, &x2.detach()?)?)?;
        return Ok(());
    }
    let pairs = Pairs::All(batch.iter().product::<i64>() as usize, m as usize, n as usize);
    with_rows(&[&batched(x1, &batch)?, &batched(x2, &batch)?], out, &|rows, out| {
        crate::dispatch_dtype!(out.dtype(), T in [reals] => {
            // SAFETY: all are locked and of this type.
            let (x, y, out) = unsafe { (elements::<T>(&rows[0]), elements(&rows[1]), elements_mut(out)) };
            Real::distances(pairs, width as usize, p, x, y, out);
            Ok(())
        }; else Err(wrong_dtype("cdist", out.dtype())))
    })
}

/// Whether distances are computed by a product of matrices: faster for many rows, and less exact; the bound is PyTorch's.
fn by_product(x1: &Tensor, x2: &Tensor, p: f64, mode: Option<i64>) -> Result<bool> {
    let many = x1.size(-2)? > 25 || x2.size(-2)? > 25;
    let wanted = p == 2.0 && (mode == Some(1) || (mode.unwrap_or(0) == 0 && many));
    Ok(wanted && x1.size(-1)? > 0)
}

/// Euclidean distances from `|x|^2 - 2 x y + |y|^2`, as one product of matrices.
fn euclidean_any(x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
    let squares = |t: &Tensor| t.mul(t)?.sum_dim(&[-1], true);
    let (n1, n2) = (squares(x1)?, squares(x2)?);
    let left = Tensor::cat(&[x1.mul(-2)?, n1.clone(), n1.ones_like()?], -1)?;
    let right = Tensor::cat(&[x2.clone(), n2.ones_like()?, n2], -1)?;
    left.matmul(&right.transpose(-2, -1)?)?.clamp_min(0)?.sqrt()
}

/// The gradients of [`euclidean_any`]: of a distance by its rows, their difference divided by it; the differences' sum is
/// one of the rows less one of the products.
fn euclidean_backward(g: &Tensor, x1: &Tensor, x2: &Tensor, dist: &Tensor) -> Result<[Option<Tensor>; 2]> {
    let weights = g.div(dist)?.masked_fill(&dist.eq(0)?, 0)?;
    let turned = weights.transpose(-2, -1)?;
    let by_rows = |weights: &Tensor, x: &Tensor, other: &Tensor| {
        let g = x.mul(&weights.sum_dim(&[-1], true)?)?.sub(&weights.matmul(other)?)?;
        g.sum_to_size(x.sizes())
    };
    Ok([Some(by_rows(&weights, x1, x2)?), Some(by_rows(&turned, x2, x1)?)])
}

fn pair_samples(m: &mut Maker) -> Vec<Sample> {
    match m.dtype.is_floating_point() {
        true => [2.0, 1.0, 3.0, f64::INFINITY, 0.5]
            .map(|p| sample![m.any(&[2, 3, 4]), m.any(&[3, 4]), p, ()])
            .to_vec(),
        false => vec![],
    }
}

op! {
    /// Euclidean distances between the rows of two matrices, by a product.
    _euclidean_dist: "_euclidean_dist(Tensor x1, Tensor x2) -> Tensor",
        Out OUT: "_euclidean_dist.out(Tensor x1, Tensor x2, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(euclidean_any; x1, x2));
    derivative: backward! {
        (x1, x2)([c], x1: Tensor, x2: Tensor, result: Tensor) => euclidean_backward(&c.grad_or_zeros(0)?, &x1, &x2, &result)?
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3, 4]), m.any(&[2, 4])], sample![m.any(&[2, 3, 4]), m.any(&[2, 4])]],
        false => vec![],
    };
    ulp: 256.0;
}
op! {
    /// Distances (..., m, n) between the rows of (..., m, k) and of (..., n, k) by the p-norm.
    _cdist_forward: "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
        Out OUT: "_cdist_forward.out(Tensor x1, Tensor x2, float p, int? compute_mode, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(cdist_plan; x1, x2, p, mode), run: run!(cdist_run; x1, x2, p, mode) };
    derivative: backward! {
        x1(g, x1: Tensor, x2: Tensor, p: f64, result: Tensor) => cdist_gradient(g, &x1, &x2, p, &result)?,
        x2(g, x1: Tensor, x2: Tensor, p: f64, result: Tensor) =>
            cdist_gradient(&g.transpose(-2, -1)?, &x2, &x1, p, &result.transpose(-2, -1)?)?,
    };
    samples: pair_samples;
    ulp: 32.0;
}

fn cdist_gradient(g: &Tensor, x1: &Tensor, x2: &Tensor, p: f64, dist: &Tensor) -> Result<Tensor> {
    _cdist_backward::OP.call(&[g.into(), x1.into(), x2.into(), p.into(), dist.into()])?.one()
}

fn cdist_backward_plan(g: &Tensor, x1: &Tensor, x2: &Tensor, _p: f64, dist: &Tensor) -> Result<TensorSpec> {
    let (batch, sizes) = cdist_sizes(x1, x2)?;
    ensure!(
        g.sizes() == &sizes[..] && dist.sizes() == &sizes[..],
        "_cdist_backward: the gradient {:?} and the distances {:?} must have sizes {:?}",
        g.sizes(),
        dist.sizes(),
        &sizes[..]
    );
    let same = [g, x2, dist].iter().all(|t| t.dtype() == x1.dtype());
    ensure!(same, "_cdist_backward: all tensors must have the same dtype");
    let mut sizes = batch;
    sizes.extend([x1.size(-2)?, x1.size(-1)?]);
    Ok(TensorSpec::like(sizes, x1))
}
fn cdist_backward_run(g: &Tensor, x1: &Tensor, x2: &Tensor, p: f64, dist: &Tensor, outs: &[Tensor]) -> Result<()> {
    let (batch, _) = cdist_sizes(x1, x2)?;
    let (m, n, width) = (x1.size(-2)?, x2.size(-2)?, x1.size(-1)?);
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let pairs = Pairs::All(batch.iter().product::<i64>() as usize, m as usize, n as usize);
    slopes(pairs, width as usize, p, &[&batched(x1, &batch)?, &batched(x2, &batch)?, g, dist], &outs[0])
}

fn slopes(pairs: Pairs, width: usize, p: f64, inputs: &[&Tensor; 4], out: &Tensor) -> Result<()> {
    with_rows(inputs, out, &|rows, out| {
        crate::dispatch_dtype!(out.dtype(), T in [reals] => {
            // SAFETY: all are locked and of this type.
            unsafe {
                let (x, y, g, dist) = (elements::<T>(&rows[0]), elements(&rows[1]), elements(&rows[2]), elements(&rows[3]));
                Real::distances_backward(pairs, width, p, x, y, (g, dist), elements_mut(out));
            }
            Ok(())
        }; else Err(wrong_dtype("cdist_backward", out.dtype())))
    })
}

op! {
    /// The gradient of distances by the first matrix.
    _cdist_backward: "_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
        Out OUT: "_cdist_backward.out(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(cdist_backward_plan; g, x1, x2, p, dist), run: run!(cdist_backward_run; g, x1, x2, p, dist) };
    derivative: Derivative::NotImplemented("the derivative for '_cdist_backward' is not implemented.");
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3, 2]), m.any(&[3, 4]), m.any(&[2, 4]), 2.0, m.uniform(&[3, 2], 1.0, 3.0)]],
        false => vec![],
    };
    ulp: 32.0;
}

fn cdist_any(x1: &Tensor, x2: &Tensor, p: Option<f64>, mode: Option<i64>) -> Result<Tensor> {
    let p = p.unwrap_or(2.0);
    cdist_plan(x1, x2, p, mode)?;
    if by_product(x1, x2, p, mode)? {
        return _euclidean_dist::OP.call(&[x1.into(), x2.into()])?.one();
    }
    _cdist_forward::OP.call(&[x1.into(), x2.into(), p.into(), mode.into()])?.one()
}

op! {
    /// Distances (..., m, n) between the rows of (..., m, k) and of (..., n, k) by the p-norm.
    cdist: "cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor";
    Body::Composite(kernel!(cdist_any; x1, x2, p, mode));
    samples: pair_samples;
    ulp: 32.0;
    fn cdist(&self, other: &Tensor, p: f64) -> Tensor [self, other, p];
}

// ---- pairs of one matrix ------------------------------------------------------------------------

fn pdist_plan(x: &Tensor, p: Option<f64>) -> Result<TensorSpec> {
    ensure!(x.dim() == 2, "pdist only supports 2D tensors, got: {}D", x.dim());
    ensure!(x.dtype().is_floating_point(), "pdist only supports floating-point dtypes");
    ensure!(p.unwrap_or(2.0) >= 0.0, "pdist only supports non-negative p values");
    let n = x.size(0)?;
    Ok(TensorSpec::like(Dims::from_slice(&[n * (n - 1).max(0) / 2]), x))
}
fn pdist_run(x: &Tensor, p: Option<f64>, outs: &[Tensor]) -> Result<()> {
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let (n, width) = (x.size(0)? as usize, x.size(1)? as usize);
    with_rows(&[x], &outs[0], &|rows, out| {
        crate::dispatch_dtype!(out.dtype(), T in [reals] => {
            // SAFETY: both are locked and of this type.
            let (x, out) = unsafe { (elements::<T>(&rows[0]), elements_mut(out)) };
            Real::distances(Pairs::Upper(n), width, p.unwrap_or(2.0), x, x, out);
            Ok(())
        }; else Err(wrong_dtype("pdist", out.dtype())))
    })
}

fn pdist_samples(m: &mut Maker) -> Vec<Sample> {
    match m.dtype.is_floating_point() {
        true => [2.0, 1.0, 3.0, f64::INFINITY].map(|p| sample![m.any(&[4, 3]), p]).to_vec(),
        false => vec![],
    }
}

op! {
    /// Distances by the p-norm between every row and every later one.
    _pdist_forward: "_pdist_forward(Tensor self, float p=2.) -> Tensor",
        Out OUT: "_pdist_forward.out(Tensor self, float p=2., *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(pdist_plan; x, p), run: run!(pdist_run; x, p) };
    derivative: backward! {
        self_(g, self_: Tensor, p: f64, result: Tensor) =>
            _pdist_backward::OP.call(&[g.into(), (&self_).into(), p.into(), (&result).into()])?.one()?
    };
    samples: pdist_samples;
    ulp: 32.0;
}

fn pdist_backward_plan(g: &Tensor, x: &Tensor, p: f64, dist: &Tensor) -> Result<TensorSpec> {
    let sizes = pdist_plan(x, Some(p))?.sizes;
    ensure!(
        g.sizes() == &sizes[..] && dist.sizes() == &sizes[..] && g.dtype() == x.dtype() && dist.dtype() == x.dtype(),
        "_pdist_backward: the gradient {:?} and the distances {:?} must be {} of sizes {:?}",
        g.sizes(),
        dist.sizes(),
        x.dtype(),
        &sizes[..]
    );
    Ok(TensorSpec::like(Dims::from_slice(x.sizes()), x))
}
fn pdist_backward_run(g: &Tensor, x: &Tensor, p: f64, dist: &Tensor, outs: &[Tensor]) -> Result<()> {
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let (n, width) = (x.size(0)? as usize, x.size(1)? as usize);
    slopes(Pairs::Upper(n), width, p, &[x, x, g, dist], &outs[0])
}

op! {
    /// The gradient of distances between the rows of a matrix.
    _pdist_backward: "_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor",
        Out OUT: "_pdist_backward.out(Tensor grad, Tensor self, float p, Tensor pdist, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(pdist_backward_plan; g, x, p, dist), run: run!(pdist_backward_run; g, x, p, dist) };
    derivative: Derivative::NotImplemented("the derivative for '_pdist_backward' is not implemented.");
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3]), m.any(&[3, 4]), 2.0, m.uniform(&[3], 1.0, 3.0)]],
        false => vec![],
    };
    ulp: 32.0;
}

fn pdist_any(x: &Tensor, p: Option<f64>) -> Result<Tensor> {
    pdist_plan(x, p)?;
    _pdist_forward::OP.call(&[(&x.contiguous()?).into(), p.unwrap_or(2.0).into()])?.one()
}

op! {
    /// Distances by the p-norm between every row and every later one.
    pdist: "pdist(Tensor self, float p=2.) -> Tensor";
    Body::Composite(kernel!(pdist_any; x, p));
    samples: pdist_samples;
    ulp: 32.0;
    fn pdist(&self, p: f64) -> Tensor [self, p];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    _cdist_backward::ALL,
    _cdist_forward::ALL,
    _euclidean_dist::ALL,
    _pdist_backward::ALL,
    _pdist_forward::ALL,
    cdist::ALL,
    dist::ALL,
    pdist::ALL,
    renorm::ALL,
];
