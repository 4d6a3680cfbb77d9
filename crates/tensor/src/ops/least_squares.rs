//! Least squares, pseudoinverses and ranks: what singular values below a tolerance decide.

use super::loss::check_constant;
use super::lu::regular;
use super::matrices::{batch, check_matrix, check_square, column_strides, is_precise, shape, sizes_of};
use crate::dims;
use crate::{Body, DType, Op, Result, Tensor, backward, ensure, sample};

fn epsilon(x: &Tensor) -> f64 {
    if x.dtype().to_real() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// The tolerances, as tensors that broadcast over a batch. Without a relative one it is `eps * max(m, n)`, or nothing
/// where an absolute one is given.
fn tolerances(op: &str, x: &Tensor, atol: Option<&Tensor>, rtol: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
    let real = x.dtype().to_real();
    let filled = |value: f64| Tensor::full(&[], value, (real, x.device()));
    for (name, t) in [("atol", atol), ("rtol", rtol)] {
        if let Some(t) = t {
            ensure!(
                !t.dtype().is_complex(),
                "{op}: {name} tensor of complex type is not supported. Got {}",
                t.dtype().scalar_type_name()
            );
        }
    }
    let (m, n) = shape(x);
    let usual = epsilon(x) * m.max(n) as f64;
    let rtol = match (rtol, atol) {
        (Some(r), _) => r.clone(),
        (None, None) => filled(usual)?,
        (None, Some(a)) => a.gt(0)?.where_(&filled(0.0)?, &filled(usual)?)?,
    };
    Ok((atol.cloned().map_or_else(|| filled(0.0), Ok)?, rtol))
}

/// Numbers as tensors.
fn as_tensor(x: &Tensor, value: Option<f64>) -> Result<Option<Tensor>> {
    value.map(|v| Tensor::full(&[], v, (DType::F64, x.device()))).transpose()
}

/// Which of the sizes (..., k) count: those above the tolerance.
fn above(sizes: &Tensor, tolerances: (Tensor, Tensor)) -> Result<Tensor> {
    let largest = sizes.amax(&[-1], true)?;
    let (atol, rtol) = tolerances;
    let tolerance = atol.unsqueeze(-1)?.maximum(&rtol.unsqueeze(-1)?.mul(&largest)?)?;
    sizes.gt(&tolerance)
}

// ---- rank ---------------------------------------------------------------------------------------

/// Tolerances by default are of the dtype's rounding error, which is asked of these dtypes only.
fn has_epsilon(x: &Tensor) -> Result<()> {
    ensure!(is_precise(x.dtype()), "This function doesn't handle types other than float and double");
    Ok(())
}

const RANK: &str = "torch.linalg.matrix_rank";

fn rank(x: &Tensor, atol: Option<&Tensor>, rtol: Option<&Tensor>, hermitian: bool) -> Result<Tensor> {
    check_matrix(RANK, "input", x)?;
    if atol.is_none() && rtol.is_none() {
        has_epsilon(x)?;
    }
    let tolerances = tolerances(RANK, x, atol, rtol)?;
    if hermitian {
        check_square("linalg.matrix_rank", "A", x)?;
    }
    let (m, n) = shape(x);
    if m.min(n) == 0 || x.numel() == 0 {
        return Tensor::zeros(batch(x), (DType::I64, x.device()));
    }
    let x = x.detach()?;
    let sizes = if hermitian { x.eigvalsh()?.abs()? } else { x.svdvals()? };
    above(&sizes, tolerances)?.sum_dim(&[-1], false)
}

fn rank_floats(x: &Tensor, atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> Result<Tensor> {
    rank(x, as_tensor(x, atol)?.as_ref(), as_tensor(x, rtol)?.as_ref(), hermitian)
}
fn rank_tolerance(x: &Tensor, tol: f64, hermitian: bool) -> Result<Tensor> {
    rank_floats(x, Some(tol), Some(0.0), hermitian)
}
fn rank_tolerance_tensor(x: &Tensor, tol: &Tensor, hermitian: bool) -> Result<Tensor> {
    rank(x, Some(tol), as_tensor(x, Some(0.0))?.as_ref(), hermitian)
}

op! {
    /// The ranks of matrices: how many singular values are above a tolerance.
    matrix_rank_tensors: "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
        Out OUT: "linalg_matrix_rank.atol_rtol_tensor_out(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(rank; x, atol, rtol, hermitian));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().map(|x| sample![x, (), (), false]).collect();
}
op! {
    /// The ranks of matrices: how many singular values are above a tolerance.
    matrix_rank_floats: "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
        Out OUT: "linalg_matrix_rank.atol_rtol_float_out(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(rank_floats; x, atol, rtol, hermitian));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().map(|x| sample![x, 0.1, (), false]).collect();
}
op! {
    /// The ranks of matrices: how many singular values are above `tol`.
    linalg_matrix_rank: "linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
        Out OUT: "linalg_matrix_rank.out(Tensor self, float tol, bool hermitian=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(rank_tolerance; x, tol, hermitian));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().map(|x| sample![x, 0.1, false]).collect();
}
op! {
    /// The ranks of matrices: how many singular values are above `tol`.
    matrix_rank_tol_tensor: "linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
        Out OUT: "linalg_matrix_rank.out_tol_tensor(Tensor input, Tensor tol, bool hermitian=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(rank_tolerance_tensor; x, tol, hermitian));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().map(|x| {
        let tol = m_real(&x);
        sample![x, tol, false]
    }).collect();
}

/// A tolerance for samples.
fn m_real(x: &Tensor) -> Tensor {
    match Tensor::full(&[], 0.01, (x.dtype().to_real(), x.device())) {
        Ok(t) => t,
        Err(e) => unreachable!("{e}"),
    }
}

// ---- pseudoinverse ------------------------------------------------------------------------------

fn pinv_any(x: &Tensor, atol: Option<&Tensor>, rtol: Option<&Tensor>, hermitian: bool) -> Result<Tensor> {
    ensure!(
        x.dim() >= 2 && is_precise(x.dtype()),
        "linalg.pinv({}{{{:?}}}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types",
        x.dtype().scalar_type_name(),
        x.sizes()
    );
    check_constant("linalg_pinv", "atol", atol)?;
    check_constant("linalg_pinv", "rtol", rtol)?;
    let tolerances = tolerances("torch.linalg.pinv", x, atol, rtol)?;
    if hermitian {
        check_square("linalg.pinv", "A", x)?;
    }
    let (m, n) = shape(x);
    if x.numel() == 0 {
        return Tensor::zeros(&sizes_of(batch(x), &[n, m]), (x.dtype(), x.device()));
    }
    let inverted = |values: &Tensor, counts: &Tensor| {
        values.reciprocal()?.masked_fill(&counts.logical_not()?, 0)?.to_dtype(x.dtype())
    };
    if hermitian {
        let (values, vectors) = x.eigh()?;
        let factors = inverted(&values, &above(&values.abs()?, tolerances)?)?;
        return vectors.mul(&factors.unsqueeze(-2)?)?.matmul(&vectors.mh()?);
    }
    let (u, s, vh) = x.svd_thin()?;
    let factors = inverted(&s, &above(&s, tolerances)?)?;
    vh.mh()?.matmul(&u.mh()?.mul(&factors.unsqueeze(-1)?)?)
}

/// Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables
/// separate".
fn pinv_backward(g: &Tensor, x: &Tensor, inverse: &Tensor) -> Result<Tensor> {
    let (turned, g) = (inverse.mh()?, g.mh()?);
    let main = turned.matmul(&g.mh()?)?.matmul(&turned)?;
    let left = g.matmul(inverse)?.matmul(&turned)?;
    let right = turned.matmul(&inverse.matmul(&g)?)?;
    let left = left.sub(&x.matmul(&inverse.matmul(&left)?)?)?;
    let right = right.sub(&right.matmul(inverse)?.matmul(x)?)?;
    left.add(&right)?.sub(&main)
}

op! {
    /// The pseudoinverses of matrices, by singular values above a tolerance.
    linalg_pinv: "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
        Out OUT: "linalg_pinv.atol_rtol_tensor_out(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(pinv_any; x, atol, rtol, hermitian));
    derivative: backward! { self_(g, self_: Tensor, result: Tensor) => pinv_backward(g, &self_, &result)? };
    samples: |m| [&[3i64, 3][..], &[2, 4, 2], &[2, 3]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x, (), (), false]).collect();
    ulp: 256.0;
    fn pinv_within(&self, atol: Option<&Tensor>, rtol: Option<&Tensor>, hermitian: bool) -> Tensor [self, atol, rtol, hermitian];
    fn pinv(&self) -> Tensor [self, Option::<&Tensor>::None, Option::<&Tensor>::None, false];
}

fn pinv_floats(x: &Tensor, atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> Result<Tensor> {
    x.pinv_within(as_tensor(x, atol)?.as_ref(), as_tensor(x, rtol)?.as_ref(), hermitian)
}
fn pinv_rcond(x: &Tensor, rcond: f64, hermitian: bool) -> Result<Tensor> {
    pinv_floats(x, Some(0.0), Some(rcond), hermitian)
}
fn pinv_rcond_tensor(x: &Tensor, rcond: &Tensor, hermitian: bool) -> Result<Tensor> {
    x.pinv_within(as_tensor(x, Some(0.0))?.as_ref(), Some(rcond), hermitian)
}
fn pinverse_any(x: &Tensor, rcond: f64) -> Result<Tensor> {
    pinv_rcond(x, rcond, false)
}

op! {
    /// The pseudoinverses of matrices, by singular values above a tolerance.
    pinv_floats: "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
        Out OUT: "linalg_pinv.atol_rtol_float_out(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(pinv_floats; x, atol, rtol, hermitian));
    samples: |m| regular(m, &[3, 2]).into_iter().map(|x| sample![x, 0.01, (), false]).collect();
    ulp: 256.0;
}
op! {
    /// The pseudoinverses of matrices, by singular values above `rcond` times the largest.
    pinv_rcond: "linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
        Out OUT: "linalg_pinv.out(Tensor self, float rcond, bool hermitian=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(pinv_rcond; x, rcond, hermitian));
    samples: |m| regular(m, &[3, 2]).into_iter().map(|x| sample![x, 0.01, false]).collect();
    ulp: 256.0;
}
op! {
    /// The pseudoinverses of matrices, by singular values above `rcond` times the largest.
    pinv_rcond_tensor: "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
        Out OUT: "linalg_pinv.out_rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(pinv_rcond_tensor; x, rcond, hermitian));
    samples: |m| regular(m, &[3, 2]).into_iter().map(|x| {
        let rcond = m_real(&x);
        sample![x, rcond, false]
    }).collect();
    ulp: 256.0;
}
op! {
    /// The pseudoinverses of matrices; see `linalg_pinv`.
    pinverse: "pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor";
    Body::Composite(kernel!(pinverse_any; x, rcond));
    samples: |m| regular(m, &[3, 2]).into_iter().map(|x| sample![x, 1e-15]).collect();
    ulp: 256.0;
    fn pinverse(&self, rcond: f64) -> Tensor [self, rcond];
}

// ---- least squares ------------------------------------------------------------------------------

const LSTSQ: &str = "torch.linalg.lstsq";

/// The triangular factor R (among other numbers below its diagonal) and the first rows of `Q^H b`, of tall matrices `Q R`.
fn triangular_form(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    let n = shape(a).1;
    let (reflectors, tau) = a.geqrf()?;
    let b = reflectors.ormqr(&tau, b, true, true)?;
    Ok((reflectors.narrow(-2, 0, n)?, b.narrow(-2, 0, n)?))
}

/// The solutions by QR, if all singular values are certainly above `limit` times the largest: the norm of the triangular
/// factor bounds that one, and the norm of its inverse the smallest.
fn well_conditioned(a: &Tensor, b: &Tensor, limit: f64) -> Result<Option<Tensor>> {
    if a.device().is_meta() {
        return Ok(None);
    }
    let (t, b) = triangular_form(a, b)?;
    let (n, t) = (shape(a).1, t.triu(0)?);
    let one = Tensor::eye(n, n, (a.dtype(), a.device()))?.expand(&sizes_of(batch(a), &[n, n]))?;
    let inverse = t.solve_triangular(&one, true, true, false)?;
    let size = |t: &Tensor| t.abs()?.square()?.sum_dim(&[-2, -1], false)?.sqrt();
    // Of what is not finite, nothing is certain.
    if !size(&t)?.mul(&size(&inverse)?)?.mul(limit)?.lt(1.0)?.all()?.item()?.to_bool() {
        return Ok(None);
    }
    t.solve_triangular(&b, true, true, false).map(Some)
}

fn lstsq_any(a: &Tensor, b: &Tensor, rcond: Option<f64>, driver: Option<&str>) -> Result<Vec<Tensor>> {
    ensure!(a.dim() >= 2, "{LSTSQ}: input must have at least 2 dimensions.");
    ensure!(b.dim() >= 1, "{LSTSQ}: other must have at least 1 dimension.");
    ensure!(
        a.dim() >= b.dim() && a.dim() - b.dim() <= 1,
        "{LSTSQ}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
    );
    ensure!(
        a.dtype() == b.dtype(),
        "{LSTSQ}: Expected input and other to have the same dtype, but got input's dtype {} and other's dtype {}",
        a.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    has_epsilon(a)?;
    let driver = driver.unwrap_or("gelsy");
    ensure!(
        matches!(driver, "gels" | "gelsy" | "gelsd" | "gelss"),
        "{LSTSQ}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
    );
    let (m, n) = shape(a);
    let vectors = a.dim() == b.dim() + 1;
    let b = if vectors { b.unsqueeze(-1)? } else { b.clone() };
    ensure!(shape(&b).0 == m, "{LSTSQ}: input.size(-2) should match other.size({})", if vectors { -1 } else { -2 });
    let over = dims::broadcast(batch(a), batch(&b))?;
    let (r, k) = (m.min(n), shape(&b).1);
    let b = b.expand(&sizes_of(&over, &[m, k]))?;
    let (own, a) = (a.clone(), a.expand(&sizes_of(&over, &[m, n]))?);
    let real = (a.dtype().to_real(), a.device());
    let empty = |dtype: DType| Tensor::zeros(&[0], (dtype, a.device()));
    let (mut ranks, mut values) = (empty(DType::I64)?, empty(real.0)?);
    let usual = epsilon(&a) * m.max(n) as f64;
    let limit = rcond.map_or(usual, |x| if x < 0.0 { epsilon(&a) } else { x });
    let solution = if r == 0 || a.numel() == 0 {
        if driver != "gels" {
            ranks = Tensor::zeros(batch(&own), (DType::I64, a.device()))?;
        }
        if matches!(driver, "gelsd" | "gelss") {
            values = Tensor::zeros(&sizes_of(batch(&own), &[r]), real)?;
        }
        Tensor::zeros(&sizes_of(&over, &[n, k]), (a.dtype(), a.device()))?
    } else if driver == "gels" {
        match m >= n {
            true => {
                let (t, b) = triangular_form(&a, &b)?;
                t.solve_triangular(&b, true, true, false)?
            }
            false => {
                let (q, t) = a.mh()?.qr()?;
                q.matmul(&t.mh()?.solve_triangular(&b, false, true, false)?)?
            }
        }
    } else if let Some(solution) = if driver == "gelsy" && m >= n { well_conditioned(&a, &b, limit)? } else { None } {
        ranks = Tensor::full(batch(&own), n, (DType::I64, a.device()))?;
        solution
    } else {
        let (u, s, vh) = own.svd_thin()?;
        let counts = s.gt(&s.amax(&[-1], true)?.mul(limit)?)?;
        ranks = counts.sum_dim(&[-1], false)?;
        let factors = s.reciprocal()?.masked_fill(&counts.logical_not()?, 0)?.to_dtype(a.dtype())?;
        if driver != "gelsy" {
            values = s;
        }
        vh.mh()?.matmul(&u.mh()?.matmul(&b)?.mul(&factors.unsqueeze(-1)?)?)?
    };
    let full_rank = || -> Result<bool> {
        let known = ranks.numel() == 0 || a.device().is_meta();
        Ok(known || ranks.eq(n)?.all()?.item()?.to_bool())
    };
    let residuals = match m > n && driver != "gelsy" && full_rank()? {
        true => a.matmul(&solution)?.sub(&b)?.abs()?.square()?.sum_dim(&[-2], false)?,
        false => empty(real.0)?,
    };
    // LAPACK's solution stands in the memory of the right-hand side.
    let whole = sizes_of(&over, &[m.max(n), k]);
    let place = Tensor::fresh_strided(a.device(), a.dtype(), whole.clone(), column_strides(&whole))?.narrow(-2, 0, n)?;
    place.copy_(&solution)?;
    let solution = if vectors { place.squeeze_dim(-1)? } else { place };
    Ok(vec![solution, residuals, ranks, values])
}

/// The gradients of the solution `A^+ B` and of the residuals.
fn lstsq_backward(grads: &crate::autograd::GradContext<'_>, a: &Tensor, b: &Tensor) -> Result<[Option<Tensor>; 2]> {
    let vectors = a.dim() == b.dim() + 1;
    let column = |t: &Tensor| if vectors { t.unsqueeze(-1) } else { Ok(t.clone()) };
    let b = column(b)?;
    let inverse = a.pinv()?;
    let (mut ga, mut gb) = (None, None);
    if let Some(g) = grads.grad(0) {
        let g = column(g)?;
        gb = Some(inverse.mh()?.matmul(&g)?);
        ga = Some(pinv_backward(&g.matmul(&b.mh()?)?, a, &inverse)?);
    }
    if let Some(g) = grads.grad(1).filter(|g| g.numel() > 0) {
        let x = inverse.matmul(&b)?;
        let rest = a.matmul(&x)?.sub(&b)?.mul(&g.unsqueeze(-2)?)?.mul(2.0)?;
        let more = rest.matmul(&x.mh()?)?;
        ga = Some(ga.map_or_else(|| Ok(more.clone()), |ga: Tensor| ga.add(&more))?);
        gb = Some(gb.map_or_else(|| rest.neg(), |gb: Tensor| gb.sub(&rest))?);
    }
    let gb = gb.map(|g| if vectors { g.squeeze_dim(-1) } else { Ok(g) }).transpose()?;
    Ok([ga, gb])
}

op! {
    /// The solution of `A X = B` by least squares (the smallest where there are several), the sums of squares of what
    /// remains, the ranks and the singular values, as far as the driver gives them.
    linalg_lstsq: "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
        Out OUT: "linalg_lstsq.out(Tensor self, Tensor b, float? rcond=None, *, str? driver=None, Tensor(a!) solution, Tensor(b!) residuals, Tensor(c!) rank, Tensor(d!) singular_values) -> (Tensor(a!) solution, Tensor(b!) residuals, Tensor(c!) rank, Tensor(d!) singular_values)";
    Body::Explicit(kernel!(lstsq_any; a, b, rcond, driver));
    derivative: backward! { (self_, b)([grads], self_: Tensor, b: Tensor) => lstsq_backward(grads, &self_, &b)? };
    differentiable_results: 2;
    samples: |m| {
        let shapes: [(&[i64], &[i64], &str); 4] =
            [(&[4, 2], &[4, 2], "gels"), (&[2, 4, 2], &[2, 4], "gelsy"), (&[2, 3], &[2, 1], "gelsd"), (&[3, 2], &[3], "gelss")];
        shapes.into_iter().filter_map(|(a, b, driver)| Some(sample![regular(m, a).pop()?, m.any(b), (), driver])).collect()
    };
    ulp: 1024.0;
    out_rule: crate::OutRule::CASTABLE.row_major_if_unfit();
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    linalg_lstsq::ALL,
    linalg_matrix_rank::ALL,
    linalg_pinv::ALL,
    matrix_rank_floats::ALL,
    matrix_rank_tensors::ALL,
    matrix_rank_tol_tensor::ALL,
    pinv_floats::ALL,
    pinv_rcond::ALL,
    pinv_rcond_tensor::ALL,
    pinverse::ALL,
];
