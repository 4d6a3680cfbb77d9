//! Determinants, from LU factors.

use super::lu::{factorizes_transpose, regular};
use super::matrices::{batch, check_floating, check_square, check_square_field, column_major, field, for_each, identity, shape, sizes_of};
use crate::autograd::{GradContext, is_grad_enabled};
use crate::{Body, DType, Op, Result, Scalar, Tensor, backward, sample};
use flambeau_base::Element;

/// The sign of the permutation that LAPACK's pivots make.
fn sign_of(pivots: &Tensor, dtype: DType) -> Result<Tensor> {
    let n = pivots.size(-1)?;
    let unmoved = Tensor::arange(n, DType::I32)?.add(1)?.to_dtype(DType::I32)?.to_device(pivots.device())?;
    pivots.ne(&unmoved)?.sum_dim(&[-1], false)?.remainder(2)?.mul(-2)?.add(1)?.to_dtype(dtype)
}

/// The factors of `a` or of its transpose, which has the same determinant.
fn factors(op: &str, a: &Tensor) -> Result<(Tensor, Tensor)> {
    check_square(op, "A", a)?;
    check_floating(op, a)?;
    let turned = if factorizes_transpose(a) { a.mt()? } else { a.clone() };
    let (packed, pivots, _) = turned.lu_factor_ex(true, false)?;
    Ok((packed, pivots))
}

/// The determinant from the factors.
fn product(packed: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    if packed.device().is_cpu() {
        return product_in_one_pass(packed, pivots);
    }
    packed.diagonal(0, -2, -1)?.prod_dim(-1, false)?.mul(&sign_of(pivots, packed.dtype())?)
}

/// [`product`] by one loop: small matrices are many, and their determinants cheap.
fn product_in_one_pass(packed: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let order = shape(packed).0 as usize;
    let out = Tensor::fresh(packed.device(), packed.dtype(), sizes_of(batch(packed), &[]))?;
    let (packed, pivots) = (column_major(packed)?, pivots.contiguous()?);
    field!("det", packed.dtype(), T => for_each(out.numel(), order as f64, 1, &[&out, &packed, &pivots], |items| {
        let (packed, pivots) = (items.read::<T>(1), items.read::<i32>(2));
        let diagonal = packed.iter().step_by(order + 1);
        let product = diagonal.fold(T::from_bool(true), |product, &x| product * x);
        let moved = pivots.iter().zip(1..).filter(|(pivot, i)| **pivot != *i).count();
        items.write::<T>(0)[0] = if moved % 2 == 1 { -product } else { product };
    }))?;
    Ok(out)
}

fn det_with_factors(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let (packed, pivots) = factors("linalg.det", a)?;
    Ok((product(&packed, &pivots)?, packed, pivots))
}

/// A scalar for each matrix, as matrices that broadcast.
fn per_matrix(x: &Tensor) -> Result<Tensor> {
    x.unsqueeze(-1)?.unsqueeze(-1)
}

/// `a^-H c` for a multiple `c` of the identity, by the factors where nobody differentiates the result.
fn adjoint_inverse(a: &Tensor, c: &Tensor, packed: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let scaled = identity(shape(a).0, a)?.mul(&per_matrix(c)?)?;
    match is_grad_enabled() {
        true => a.mh()?.solve(&scaled, true),
        false => packed.lu_solve(pivots, &scaled, true, !factorizes_transpose(a)),
    }
}

/// `g conj(det A) A^-H`; the limit of that where A is singular.
fn det_backward(g: &Tensor, a: &Tensor, det: &Tensor, packed: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let c = g.mul(&det.conj()?)?;
    if !is_grad_enabled() {
        // A zero on U's diagonal is replaced by a very small number: the determinant is smooth there.
        let diagonal = packed.diagonal(0, -2, -1)?;
        let eps = if a.dtype().to_real() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let fill = diagonal.eq(0)?.to_dtype(a.dtype())?.mul(eps)?.diag_embed()?;
        let packed = packed.add(&fill)?;
        let c = g.mul(&product(&packed, pivots)?.conj()?)?;
        return adjoint_inverse(a, &c, &packed, pivots);
    }
    if a.device().is_meta() || !det.detach()?.eq(0)?.any()?.item()?.to_bool() {
        return adjoint_inverse(a, &c, packed, pivots);
    }
    // det A = det U * prod S * det V^H, where each singular value's factor is the product of the others.
    let (u, s, vh) = a.svd_thin()?;
    let n = shape(a).0;
    let one = s.narrow(-1, 0, 1)?.ones_like()?;
    let before = Tensor::cat(&[one.clone(), s.narrow(-1, 0, n - 1)?], -1)?.cumprod(-1)?;
    let after = Tensor::cat(&[one, s.flip(&[-1])?.narrow(-1, 0, n - 1)?], -1)?.cumprod(-1)?.flip(&[-1])?;
    let others = before.mul(&after)?.to_dtype(a.dtype())?;
    let phase = u.linalg_det()?.mul(&vh.linalg_det()?)?.conj()?.mul(g)?;
    u.mul(&others.unsqueeze(-2)?)?.matmul(&vh)?.mul(&per_matrix(&phase)?)
}

op! {
    /// The determinants of matrices, and the LU factors used.
    _linalg_det: "_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
        Out OUT: "_linalg_det.result(Tensor A, *, Tensor(a!) result, Tensor(b!) LU, Tensor(c!) pivots) -> (Tensor(a!) result, Tensor(b!) LU, Tensor(c!) pivots)";
    Body::Explicit(kernel!(det_with_factors; a));
    derivative: backward! { A(g, A: Tensor, result: Tensor, LU: Tensor, pivots: Tensor) => det_backward(g, &A, &result, &LU, &pivots)? };
    samples: |m| [&[3i64, 3][..], &[2, 2, 2]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::EXACT;
    fn det_with_factors(&self) -> (Tensor, Tensor, Tensor) [self];
}

fn det_any(a: &Tensor) -> Result<Tensor> {
    Ok(a.det_with_factors()?.0)
}

op! {
    /// The determinants of matrices.
    linalg_det: "linalg_det(Tensor A) -> Tensor", Out OUT: "linalg_det.out(Tensor A, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(det_any; a));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::EXACT;
    fn linalg_det(&self) -> Tensor [self];
}
alias! {
    /// The determinants of matrices.
    det: "det(Tensor self) -> Tensor" => linalg_det::OP;
}

fn slogdet_with_factors(a: &Tensor) -> Result<Vec<Tensor>> {
    check_square_field("linalg.slogdet", "A", a)?;
    let (packed, pivots) = factors("linalg.slogdet", a)?;
    let sign = sign_of(&pivots, a.dtype())?;
    let diagonal = packed.diagonal(0, -2, -1)?;
    let signs = diagonal.sgn()?.prod_dim(-1, false)?.mul(&sign)?;
    Ok(vec![signs, diagonal.abs()?.log()?.sum_dim(&[-1], false)?, packed, pivots])
}

/// `d log det A = tr(A^-1 dA)`: its real part moves the logarithm, its imaginary part the phase.
fn slogdet_backward(grads: &GradContext<'_>, a: &Tensor, sign: &Tensor, packed: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let mut c = grads.grad_or_zeros(1)?.to_dtype(a.dtype())?;
    if let (true, Some(g)) = (a.dtype().is_complex(), grads.grad(0)) {
        let turn = g.conj()?.mul(sign)?.imag()?.neg()?.to_dtype(a.dtype())?;
        c = c.add(&turn.mul(Scalar::from(crate::Complex64::new(0.0, 1.0)))?)?;
    }
    adjoint_inverse(a, &c, packed, pivots)
}

op! {
    /// The signs (or phases) and the logarithms of the absolute values of determinants, and the LU factors used.
    _linalg_slogdet: "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
        Out OUT: "_linalg_slogdet.sign(Tensor A, *, Tensor(a!) sign, Tensor(b!) logabsdet, Tensor(c!) LU, Tensor(d!) pivots) -> (Tensor(a!) sign, Tensor(b!) logabsdet, Tensor(c!) LU, Tensor(d!) pivots)";
    Body::Explicit(kernel!(slogdet_with_factors; a));
    derivative: backward! { A([grads], A: Tensor, sign: Tensor, LU: Tensor, pivots: Tensor) => slogdet_backward(grads, &A, &sign, &LU, &pivots)? };
    samples: |m| [&[3i64, 3][..], &[2, 2, 2]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::EXACT;
    fn slogdet_with_factors(&self) -> Vec<Tensor> [self];
}

fn slogdet_any(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut all = a.slogdet_with_factors()?;
    all.truncate(2);
    let [sign, log] = <[Tensor; 2]>::try_from(all).map_err(|_| crate::Error::runtime("slogdet has two results"))?;
    Ok((sign, log))
}

op! {
    /// The signs (or phases) and the logarithms of the absolute values of determinants.
    linalg_slogdet: "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
        Out OUT: "linalg_slogdet.out(Tensor A, *, Tensor(a!) sign, Tensor(b!) logabsdet) -> (Tensor(a!) sign, Tensor(b!) logabsdet)";
    Body::Composite(kernel!(slogdet_any; a));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::EXACT;
    fn slogdet(&self) -> (Tensor, Tensor) [self];
}
op! {
    /// The signs (or phases) and the logarithms of the absolute values of determinants; see `linalg_slogdet`.
    slogdet: "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
        Out OUT: "slogdet.out(Tensor self, *, Tensor(a!) sign, Tensor(b!) logabsdet) -> (Tensor(a!) sign, Tensor(b!) logabsdet)";
    Body::Composite(kernel!(slogdet_any; a));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::EXACT;
}

fn logdet_any(a: &Tensor) -> Result<Tensor> {
    check_square_field("logdet", "A", a)?;
    let (sign, log) = slogdet_any(a)?;
    match a.dtype().is_complex() {
        true => sign.log()?.add(&log),
        false => log.masked_fill(&sign.eq(-1)?, f64::NAN),
    }
}

op! {
    /// The logarithms of determinants: NaN where a real one is negative.
    logdet: "logdet(Tensor self) -> Tensor";
    Body::Composite(kernel!(logdet_any; a));
    samples: |m| crate::ops::cholesky::definite(m, &[2, 3, 3]).into_iter().map(|x| sample![x]).collect();
    ulp: 256.0;
    fn logdet(&self) -> Tensor [self];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    _linalg_det::ALL,
    _linalg_slogdet::ALL,
    det::ALL,
    linalg_det::ALL,
    linalg_slogdet::ALL,
    logdet::ALL,
    slogdet::ALL,
];
