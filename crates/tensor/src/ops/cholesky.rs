//! Cholesky factors and what is solved with them.

use super::matrices::{
    batch, check_alike, check_info, check_matrix, check_square, check_floating, check_kernel,
    column_target, columns, deliver, diagonal_of, field, for_each, identity, row_target, shape, sizes_of,
};
use crate::autograd::Geometry;
use crate::samples::Maker;
use crate::{Body, DType, ErrorKind, MemoryFormat, Op, OutRule, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_linalg::Field;

fn says_not_definite(info: i32) -> String {
    format!(
        "The factorization could not be completed because the input is not positive-definite (the leading minor of order \
         {info} is not positive-definite)."
    )
}

fn cholesky_ex_plan(x: &Tensor, _upper: bool, _check_errors: bool) -> Result<[TensorSpec; 2]> {
    check_square("linalg.cholesky", "A", x)?;
    check_floating("linalg.cholesky", x)?;
    check_kernel("cholesky_cpu", x)?;
    let (m, n) = shape(x);
    Ok([columns(batch(x), &[m, n], x.dtype(), x.device()), TensorSpec::new(batch(x), DType::I32, x.device())])
}
fn cholesky_ex_run(x: &Tensor, upper: bool, check_errors: bool, outs: &[Tensor]) -> Result<()> {
    let n = shape(x).0 as usize;
    let (factors, info) = (column_target(&outs[0])?, row_target(&outs[1])?);
    factors.copy_(&if upper { x.mh()? } else { x.clone() })?;
    field!("cholesky", x.dtype(), T => for_each(info.numel(), (n * n * n) as f64 / 3.0, 2, &[&factors, &info], |items| {
        let result = T::cholesky(n, items.write::<T>(0));
        items.write::<i32>(1)[0] = result;
    }))?;
    match upper {
        true => outs[0].copy_(&factors.mh()?.clone_in(MemoryFormat::Contiguous)?).map(drop)?,
        false => deliver(&outs[0], &factors)?,
    }
    deliver(&outs[1], &info)?;
    if check_errors {
        check_info("linalg.cholesky_ex", &outs[1], ErrorKind::LinAlg, says_not_definite)?;
    }
    Ok(())
}

/// From `dL = L (L^-1 dA L^-H)` with the strict upper half and half of the diagonal left out (Murray, "Differentiation of
/// the Cholesky decomposition").
fn cholesky_backward(g: &Tensor, upper: bool, factor: &Tensor) -> Result<Tensor> {
    let (lower, g) = if upper { (factor.mh()?, g.mh()?) } else { (factor.clone(), g.clone()) };
    let adjoint = lower.mh()?;
    let product = adjoint.matmul(&g)?;
    let below = product.tril(-1)?;
    // A diagonal that is not real, which no function of the real one gives, is kept: so does PyTorch.
    let inner = below.add(&below.mh()?)?.add(&diagonal_of(&product)?)?.mul(0.5)?;
    // L^-H inner L^-1.
    lower.solve_triangular(&adjoint.solve_triangular(&inner, true, true, false)?, false, false, false)
}

/// Positive definite matrices.
pub(super) fn definite(m: &mut Maker, sizes: &[i64]) -> Vec<Tensor> {
    if !m.dtype.is_differentiable() {
        return vec![];
    }
    let n = sizes[sizes.len() - 1];
    let x = m.uniform_of(m.wide(), sizes, -1.0, 1.0);
    let made = x.mh().and_then(|h| x.matmul(&h)).and_then(|s| s.add(&identity(n, &x)?));
    made.and_then(|s| s.to_dtype(m.dtype)).into_iter().collect()
}

op! {
    /// The Cholesky factor of positive definite matrices, and where each failed (0: nowhere).
    linalg_cholesky_ex: "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
        Out OUT: "linalg_cholesky_ex.L(Tensor self, *, bool upper=False, bool check_errors=False, Tensor(a!) L, Tensor(b!) info) -> (Tensor(a!) L, Tensor(b!) info)";
    Body::Structured { plan: plan!(cholesky_ex_plan; x, upper, check_errors), run: run!(cholesky_ex_run; x, upper, check_errors) };
    derivative: backward! { self_(g, upper: bool, L: Tensor) => cholesky_backward(g, upper, &L)? };
    samples: |m| [definite(m, &[3, 3]), definite(m, &[2, 2, 2])].concat().into_iter()
        .flat_map(|x| [sample![x.clone(), false, false], sample![x, true, false]]).collect();
    ulp: 64.0;
    out_rule: OutRule::EXACT;
    fn cholesky_ex(&self, upper: bool, check_errors: bool) -> (Tensor, Tensor) [self, upper, check_errors];
}

fn cholesky_named(op: &str, x: &Tensor, upper: bool) -> Result<Tensor> {
    check_square(op, "A", x)?;
    let (factor, info) = x.cholesky_ex(upper, false)?;
    check_info(op, &info, ErrorKind::LinAlg, says_not_definite)?;
    Ok(factor)
}
fn linalg_cholesky_any(x: &Tensor, upper: bool) -> Result<Tensor> {
    cholesky_named("linalg.cholesky", x, upper)
}
fn cholesky_any(x: &Tensor, upper: bool) -> Result<Tensor> {
    check_square("cholesky", "A", x)?;
    check_kernel("cholesky_cpu", x)?;
    cholesky_named("cholesky", x, upper)
}

op! {
    /// The Cholesky factor of positive definite matrices: lower, or upper if asked.
    linalg_cholesky: "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
        Out OUT: "linalg_cholesky.out(Tensor self, *, bool upper=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(linalg_cholesky_any; x, upper));
    samples: |m| definite(m, &[2, 3, 3]).into_iter().map(|x| sample![x, false]).collect();
    ulp: 64.0;
    out_rule: crate::OutRule::EXACT;
}
op! {
    /// The Cholesky factor of positive definite matrices; see `linalg_cholesky`.
    cholesky: "cholesky(Tensor self, bool upper=False) -> Tensor",
        Out OUT: "cholesky.out(Tensor self, bool upper=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(cholesky_any; x, upper));
    samples: |m| definite(m, &[3, 3]).into_iter().map(|x| sample![x, true]).collect();
    ulp: 64.0;
    out_rule: crate::OutRule::call(|w| w.safely_castable("cholesky", &[])).row_major();
    fn cholesky(&self, upper: bool) -> Tensor [self, upper];
}

fn cholesky_solve_any(b: &Tensor, factor: &Tensor, upper: bool) -> Result<Tensor> {
    ensure!(b.dim() >= 2, "b should have at least 2 dimensions, but has {} dimensions instead", b.dim());
    ensure!(factor.dim() >= 2, "u should have at least 2 dimensions, but has {} dimensions instead", factor.dim());
    check_square("cholesky_solve", "A", factor)?;
    check_alike("cholesky_solve", ("b", b), ("A", factor))?;
    check_kernel("cholesky_solve_cpu", b)?;
    let (lower, turned) = if upper { (factor.mh()?, factor.clone()) } else { (factor.clone(), factor.mh()?) };
    turned.solve_triangular(&lower.solve_triangular(b, false, true, false)?, true, true, false)
}

/// With `X` the solution and `G = A^-1 g` the gradient of the right side: `-(G X^H + X G^H) L`, of the whole factor.
fn cholesky_solve_backward(g: &Tensor, factor: &Tensor, upper: bool, solution: &Tensor) -> Result<Tensor> {
    let product = g.cholesky_solve(factor, upper)?.matmul(&solution.mh()?)?;
    let sum = product.add(&product.mh()?)?.neg()?;
    if upper { factor.matmul(&sum) } else { sum.matmul(factor) }
}

/// Right sides, and factors that are lower and upper.
fn triangular_samples(m: &mut Maker) -> Vec<(Tensor, [Tensor; 2])> {
    let factors = [definite(m, &[3, 3]), definite(m, &[2, 3, 3])].concat();
    let both = |a: Tensor| Ok([a.tril(0)?, a.triu(0)?]);
    let factors: Vec<_> = factors.into_iter().map(both).collect::<Result<_>>().unwrap_or_default();
    factors.into_iter().map(|f| (m.any(&[2, 3, 2]), f)).collect()
}

op! {
    /// The solution of `A x = self` from the Cholesky factor `input2` of A.
    cholesky_solve: "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
        Out OUT: "cholesky_solve.out(Tensor self, Tensor input2, bool upper=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(cholesky_solve_any; b, factor, upper));
    derivative: backward! {
        self_(g, self_: Geometry, input2: Tensor, upper: bool) => g.cholesky_solve(&input2, upper)?.sum_to_size(&self_.sizes)?,
        input2(g, input2: Tensor, upper: bool, result: Tensor) =>
            cholesky_solve_backward(g, &input2, upper, &result)?.sum_to_size(input2.sizes())?,
    };
    samples: |m| triangular_samples(m).into_iter().flat_map(|(b, [lower, upper])| [sample![b.clone(), lower, false], sample![b, upper, true]]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::call(|w| w.safely_castable("cholesky_solve", &[])).row_major();
    fn cholesky_solve(&self, factor: &Tensor, upper: bool) -> Tensor [self, factor, upper];
}

fn cholesky_inverse_any(factor: &Tensor, upper: bool) -> Result<Tensor> {
    check_matrix("cholesky_inverse", "A", factor)?;
    check_square("cholesky_inverse", "A", factor)?;
    check_kernel("cholesky_inverse_out_cpu", factor)?;
    // The other triangle is not read.
    let lower = if upper { factor.mh()? } else { factor.clone() };
    let n = shape(factor).0;
    let unit = identity(n, factor)?.expand(&sizes_of(batch(factor), &[n, n]))?;
    let inverse = lower.solve_triangular(&unit, false, true, false)?;
    // It is its own adjoint, which is in column-major order.
    inverse.mh()?.matmul(&inverse)?.mh()
}

/// `-X (g + g^H) X` is the gradient of `L L^H`. The whole factor counts, also the triangle that is not read: as in PyTorch.
fn cholesky_inverse_backward(g: &Tensor, factor: &Tensor, upper: bool, inverse: &Tensor) -> Result<Tensor> {
    let middle = inverse.matmul(&g.add(&g.mh()?)?)?.matmul(inverse)?.neg()?;
    if upper { factor.matmul(&middle) } else { middle.matmul(factor) }
}

op! {
    /// The inverse of a positive definite matrix from its Cholesky factor.
    cholesky_inverse: "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
        Out OUT: "cholesky_inverse.out(Tensor self, bool upper=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(cholesky_inverse_any; factor, upper));
    derivative: backward! { self_(g, self_: Tensor, upper: bool, result: Tensor) => cholesky_inverse_backward(g, &self_, upper, &result)? };
    samples: |m| triangular_samples(m).into_iter().flat_map(|(_, [lower, upper])| [sample![lower, false], sample![upper, true]]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::call(|w| w.safely_castable("cholesky_inverse", &[])).row_major_if_unfit();
    fn cholesky_inverse(&self, upper: bool) -> Tensor [self, upper];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    cholesky::ALL,
    cholesky_inverse::ALL,
    cholesky_solve::ALL,
    linalg_cholesky::ALL,
    linalg_cholesky_ex::ALL,
];
