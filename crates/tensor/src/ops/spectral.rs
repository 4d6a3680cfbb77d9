//! Singular values, and eigenvalues of Hermitian and of general matrices.

use super::lu::regular;
use super::matrices::{
    batch, check_info, check_floating, check_kernel, check_matrix, check_square, column_copy, column_target, columns, deliver,
    diagonal_of, field, for_each, row_target, shape, sizes_of,
};
use crate::autograd::GradContext;
use crate::dims::Dims;
use crate::{Body, DType, Error, ErrorKind, Op, OutRule, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_linalg::{Field, Number};

/// What a kernel reports for a matrix with infinities or NaNs.
const NOT_FINITE: i32 = -1;

/// Whether a gradient or a tangent may be wanted, so that vectors are needed.
pub(super) fn is_tracked(x: &Tensor) -> bool {
    (x.requires_grad() && crate::autograd::is_grad_enabled()) || x.tangent().is_some()
}

fn none_like(x: &Tensor) -> TensorSpec {
    TensorSpec::like(Dims::from_slice(&[0]), x)
}

/// `x / (b_j - b_i)` off the diagonal, and 0 on it.
fn over_gaps(x: &Tensor, b: &Tensor) -> Result<Tensor> {
    let gaps = b.unsqueeze(-2)?.sub(&b.unsqueeze(-1)?)?;
    let unit = Tensor::eye(shape(x).0, shape(x).1, (DType::Bool, x.device()))?;
    x.masked_fill(&unit, 0)?.div(&gaps.masked_fill(&unit, 1)?)
}

/// Refuses gradients that see the phase of complex vectors, which is free.
fn check_phase(what: &str, vectors: &str, turn: &Tensor) -> Result<()> {
    if turn.device().is_meta() || turn.numel() == 0 {
        return Ok(());
    }
    let largest = turn.detach()?.abs()?.amax(&[], false)?.item()?.to_f64();
    ensure!(
        largest <= 1e-2 || largest.is_nan(),
        "{what}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss \
         function depends on this quantity, so it is ill-defined."
    );
    Ok(())
}

// ---- singular values ----------------------------------------------------------------------------

fn svd_plan(x: &Tensor, full: bool, vectors: bool, driver: Option<&str>) -> Result<[TensorSpec; 3]> {
    check_matrix("linalg.svd", "A", x)?;
    check_floating("linalg.svd", x)?;
    check_kernel("linalg_svd_cpu", x)?;
    ensure!(driver.is_none(), "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.");
    let (m, n) = shape(x);
    let k = m.min(n);
    let s = TensorSpec::new(sizes_of(batch(x), &[k]), x.dtype().to_real(), x.device());
    if !vectors {
        return Ok([none_like(x), s, none_like(x)]);
    }
    let spec = |item: [i64; 2]| columns(batch(x), &item, x.dtype(), x.device());
    Ok([spec([m, if full { m } else { k }]), s, spec([if full { n } else { k }, n])])
}
fn svd_run(x: &Tensor, _full: bool, vectors: bool, _driver: Option<&str>, outs: &[Tensor]) -> Result<()> {
    let (m, n) = shape(x);
    let count: i64 = batch(x).iter().product();
    let a = column_copy(x, x.sizes())?;
    let s = row_target(&outs[1])?;
    let info = Tensor::zeros(batch(x), (DType::I32, x.device()))?;
    let cost = 20.0 * (m * n * m.min(n)) as f64;
    let (m, n) = (m as usize, n as usize);
    let (u, vh) = match vectors {
        true => (column_target(&outs[0])?, column_target(&outs[2])?),
        false => (outs[0].clone(), outs[2].clone()),
    };
    let tensors = [&info, &s, &u, &vh, &a];
    field!("svd", x.dtype(), T => match vectors {
        true => for_each(count, cost, 4, &tensors, |items| {
            let a = items.read::<T>(4);
            let (s, u, vh) = (items.write(1), items.write::<T>(2), items.write::<T>(3));
            items.write::<i32>(0)[0] = match a.iter().all(|x| x.is_regular()) {
                true => T::svd(m, n, a, s, Some((u, vh))),
                false => NOT_FINITE,
            };
        })?,
        false => for_each(count, cost, 2, &[&info, &s, &a], |items| {
            let (a, s) = (items.read::<T>(2), items.write(1));
            items.write::<i32>(0)[0] = match a.iter().all(|x| x.is_regular()) {
                true => T::svd(m, n, a, s, None),
                false => NOT_FINITE,
            };
        })?,
    });
    check_info("linalg.svd", &info, ErrorKind::LinAlg, |i| match i {
        NOT_FINITE => "The algorithm failed to converge because the input matrix contained non-finite values.".into(),
        i => format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular \
             values (error code: {i})."
        ),
    })?;
    deliver(&outs[1], &s)?;
    if vectors {
        deliver(&outs[0], &u)?;
        deliver(&outs[2], &vh)?;
    }
    Ok(())
}

/// From `U^H dA V = W S + dS - S Z` with skew-Hermitian `W = U^H dU` and `Z = V^H dV` (Townsend, "Differentiating the
/// singular value decomposition").
fn svd_backward(grads: &GradContext<'_>, u: &Tensor, s: &Tensor, vh: &Tensor) -> Result<Option<Tensor>> {
    let k = *s.sizes().last().unwrap_or(&0);
    if grads.grad(0).is_none() && grads.grad(1).is_none() && grads.grad(2).is_none() {
        return Ok(None);
    }
    ensure!(
        u.dim() >= 2,
        "svd_backward: Setting compute_uv to false in torch.svd doesn't compute singular matrices, and hence we cannot compute \
         backward. Please use torch.svd(compute_uv=True)"
    );
    let (u, vh) = (u.narrow(-1, 0, k)?, vh.narrow(-2, 0, k)?);
    if let (None, Some(gs), None) = (grads.grad(0), grads.grad(1), grads.grad(2)) {
        let rows = gs.to_dtype(u.dtype())?.unsqueeze(-2)?;
        return Ok(Some(u.mul(&rows)?.matmul(&vh)?));
    }
    let gu = grads.grad(0).map(|g| g.narrow(-1, 0, k)).transpose()?;
    let gv = grads.grad(2).map(|g| g.narrow(-2, 0, k)?.mh()).transpose()?;
    let (m, n) = (shape(&u).0, shape(&vh).1);
    let v = vh.mh()?;
    let dtype = u.dtype();
    let mut inner = grads.grad_or_zeros(1)?.to_dtype(dtype)?.diag_embed()?;
    let (rows, squares) = (s.unsqueeze(-2)?, s.mul(s)?);
    let mut turn: Option<Tensor> = None;
    let skew = |x: &Tensor| x.sub(&x.mh()?);
    if let Some(gu) = &gu {
        let x = u.mh()?.matmul(gu)?;
        inner = inner.add(&over_gaps(&skew(&x)?, &squares)?.mul(&rows)?)?;
        if dtype.is_complex() {
            let phase = diagonal_of(&x)?.sub(&diagonal_of(&x)?.conj()?)?.mul(0.5)?;
            inner = inner.add(&phase.div(&rows)?)?;
            turn = Some(phase);
        }
    }
    if let Some(gv) = &gv {
        let x = vh.matmul(gv)?;
        inner = inner.add(&over_gaps(&skew(&x)?, &squares)?.mul(&s.unsqueeze(-1)?)?)?;
        if dtype.is_complex() {
            let phase = diagonal_of(&x)?.sub(&diagonal_of(&x)?.conj()?)?.mul(0.5)?;
            turn = Some(match turn {
                Some(t) => t.add(&phase)?,
                None => phase,
            });
        }
    }
    if let Some(turn) = turn {
        check_phase("svd_backward", "singular vectors", &turn)?;
    }
    let mut g = u.matmul(&inner)?.matmul(&vh)?;
    if let (Some(gu), true) = (&gu, m > k) {
        let scaled = gu.div(&rows)?;
        g = g.add(&scaled.sub(&u.matmul(&u.mh()?.matmul(&scaled)?)?)?.matmul(&vh)?)?;
    }
    if let (Some(gv), true) = (&gv, n > k) {
        let scaled = gv.div(&rows)?;
        g = g.add(&u.matmul(&scaled.sub(&v.matmul(&vh.matmul(&scaled)?)?)?.mh()?)?)?;
    }
    Ok(Some(g))
}

op! {
    /// The singular value decomposition of matrices; without vectors only the values.
    _linalg_svd: "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
        Out OUT: "_linalg_svd.U(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None, Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh) -> (Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh)";
    Body::Structured { plan: plan!(svd_plan; x, full, vectors, driver), run: run!(svd_run; x, full, vectors, driver) };
    derivative: backward! { A([grads], U: Tensor, S: Tensor, Vh: Tensor) => svd_backward(grads, &U, &S, &Vh)? };
    samples: |m| [&[3i64, 3][..], &[2, 4, 2], &[2, 3]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x, false, true, ()]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT.fallible();
    fn svd_parts(&self, full_matrices: bool, compute_uv: bool) -> (Tensor, Tensor, Tensor) [self, full_matrices, compute_uv];
    fn svd_thin(&self) -> (Tensor, Tensor, Tensor) [self, false, true];
}

type Three = (Tensor, Tensor, Tensor);

fn linalg_svd_any(x: &Tensor, full: bool, driver: Option<&str>) -> Result<Three> {
    _linalg_svd::OP.call(&[x.into(), full.into(), true.into(), driver.into()])?.array::<3>().map(|[u, s, v]| (u, s, v))
}
fn svdvals_any(x: &Tensor, driver: Option<&str>) -> Result<Tensor> {
    let parts = _linalg_svd::OP.call(&[x.into(), false.into(), is_tracked(x).into(), driver.into()])?;
    parts.array::<3>().map(|[_, s, _]| s)
}
fn svd_any(x: &Tensor, some: bool, vectors: bool) -> Result<Three> {
    check_matrix("linalg.svd", "input", x)?;
    if vectors {
        let (u, s, vh) = linalg_svd_any(x, !some, None)?;
        return Ok((u, s, vh.mh()?));
    }
    let (m, n) = shape(x);
    let zeros = |n: i64| Tensor::zeros(&sizes_of(batch(x), &[n, n]), (x.dtype(), x.device()));
    Ok((zeros(m)?, svdvals_any(x, None)?, zeros(n)?.mt()?))
}

op! {
    /// The singular value decomposition `U diag(S) Vh` of matrices.
    linalg_svd: "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
        Out OUT: "linalg_svd.U(Tensor A, bool full_matrices=True, *, str? driver=None, Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh) -> (Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh)";
    Body::Composite(kernel!(linalg_svd_any; x, full, driver));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x, true, ()]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
}
op! {
    /// The singular values of matrices, largest first.
    linalg_svdvals: "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
        Out OUT: "linalg_svdvals.out(Tensor A, *, str? driver=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(svdvals_any; x, driver));
    samples: |m| [&[3i64, 3][..], &[2, 4, 2]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x, ()]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn svdvals(&self) -> Tensor [self];
}
op! {
    /// The singular value decomposition `U diag(S) V^H` of matrices, with V; see `linalg_svd`.
    svd: "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
        Out OUT: "svd.U(Tensor self, bool some=True, bool compute_uv=True, *, Tensor(a!) U, Tensor(b!) S, Tensor(c!) V) -> (Tensor(a!) U, Tensor(b!) S, Tensor(c!) V)";
    Body::Composite(kernel!(svd_any; x, some, vectors));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x, true, true]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
}

// ---- Hermitian eigenvalues ----------------------------------------------------------------------

fn is_upper(uplo: &str) -> Result<bool> {
    match uplo {
        "L" | "l" => Ok(false),
        "U" | "u" => Ok(true),
        _ => Err(Error::runtime(format!("Expected UPLO argument to be 'L' or 'U', but got {uplo}"))),
    }
}

fn eigh_plan(x: &Tensor, uplo: &str, vectors: bool) -> Result<[TensorSpec; 2]> {
    check_square("linalg.eigh", "A", x)?;
    check_kernel("linalg_eigh_cpu", x)?;
    is_upper(uplo)?;
    let (n, _) = shape(x);
    let values = TensorSpec::new(sizes_of(batch(x), &[n]), x.dtype().to_real(), x.device());
    Ok([values, if vectors { columns(batch(x), &[n, n], x.dtype(), x.device()) } else { none_like(x) }])
}
fn eigh_run(x: &Tensor, uplo: &str, vectors: bool, outs: &[Tensor]) -> Result<()> {
    let n = shape(x).0 as usize;
    let count: i64 = batch(x).iter().product();
    let a = column_copy(&if is_upper(uplo)? { x.mh()? } else { x.clone() }, x.sizes())?;
    let values = row_target(&outs[0])?;
    let info = Tensor::zeros(batch(x), (DType::I32, x.device()))?;
    let found = if vectors { column_target(&outs[1])? } else { outs[1].clone() };
    let cost = 9.0 * (n * n * n) as f64;
    field!("eigh", x.dtype(), T => match vectors {
        true => for_each(count, cost, 3, &[&info, &values, &found, &a], |items| {
            let (a, values) = (items.read::<T>(3), items.write(1));
            let vectors = items.write::<T>(2);
            items.write::<i32>(0)[0] = if lower_is_finite(n, a) { T::eigh(n, a, values, Some(vectors)) } else { NOT_FINITE };
        })?,
        false => for_each(count, cost, 2, &[&info, &values, &a], |items| {
            let (a, values) = (items.read::<T>(2), items.write(1));
            items.write::<i32>(0)[0] = if lower_is_finite(n, a) { T::eigh(n, a, values, None) } else { NOT_FINITE };
        })?,
    });
    check_info("linalg.eigh", &info, ErrorKind::LinAlg, |i| {
        let code = if i == NOT_FINITE { n as i32 - 1 } else { i };
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated \
             eigenvalues (error code: {code})."
        )
    })?;
    deliver(&outs[0], &values)?;
    if vectors { deliver(&outs[1], &found) } else { Ok(()) }
}

/// Whether the triangle that is read has no infinities or NaNs.
fn lower_is_finite<T: Number>(n: usize, a: &[T]) -> bool {
    (0..n).all(|j| a[j * n + j..(j + 1) * n].iter().all(|x| x.is_regular()))
}

/// From `dV = V (V^H dA V / gaps)` (Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
/// differentiation").
fn eigh_backward(grads: &GradContext<'_>, values: &Tensor, vectors: &Tensor) -> Result<Option<Tensor>> {
    if grads.grad(0).is_none() && grads.grad(1).is_none() {
        return Ok(None);
    }
    ensure!(vectors.dim() >= 2, "linalg.eigvalsh: its gradient needs the eigenvectors, which were not computed");
    let adjoint = vectors.mh()?;
    let Some(g) = grads.grad(1) else {
        let scaled = vectors.mul(&grads.grad_or_zeros(0)?.to_dtype(vectors.dtype())?.unsqueeze(-2)?)?;
        return Ok(Some(scaled.matmul(&adjoint)?));
    };
    let x = adjoint.matmul(g)?;
    if x.dtype().is_complex() {
        check_phase("linalg_eigh_backward", "eigenvectors", &x.diagonal(0, -2, -1)?.imag()?)?;
    }
    let mut inner = over_gaps(&x, values)?;
    if let Some(g) = grads.grad(0) {
        inner = inner.add(&g.to_dtype(x.dtype())?.diag_embed()?)?;
    }
    Ok(Some(vectors.matmul(&inner)?.matmul(&adjoint)?))
}

/// Hermitian matrices with eigenvalues that differ.
fn hermitian(m: &mut crate::samples::Maker, sizes: &[i64]) -> Vec<Tensor> {
    let made = super::cholesky::definite(m, sizes);
    let n = sizes[sizes.len() - 1];
    let spread = |x: Tensor| x.add(&Tensor::arange(n, DType::F64)?.mul(2.0)?.sub(1.0)?.to_dtype(x.dtype())?.diag_embed()?);
    made.into_iter().filter_map(|x| spread(x).ok()).collect()
}

op! {
    /// The eigenvalues, in ascending order, and the eigenvectors of Hermitian matrices, of which one triangle is read;
    /// without vectors only the values.
    _linalg_eigh: "_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
        Out OUT: "_linalg_eigh.eigenvalues(Tensor A, str UPLO=\"L\", bool compute_v=True, *, Tensor(a!) eigenvalues, Tensor(b!) eigenvectors) -> (Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)";
    Body::Structured { plan: plan!(eigh_plan; x, uplo, vectors), run: run!(eigh_run; x, uplo, vectors) };
    derivative: backward! { A([grads], eigenvalues: Tensor, eigenvectors: Tensor) => eigh_backward(grads, &eigenvalues, &eigenvectors)? };
    samples: |m| [&[3i64, 3][..], &[2, 2, 2]].into_iter().flat_map(|s| hermitian(m, s))
        .flat_map(|x| [sample![x.clone(), "L", true], sample![x, "U", true]]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT.fallible();
    fn eigh_parts(&self, uplo: &str, compute_v: bool) -> (Tensor, Tensor) [self, uplo, compute_v];
}

fn eigh_any(x: &Tensor, uplo: &str) -> Result<(Tensor, Tensor)> {
    x.eigh_parts(uplo, true)
}
fn eigvalsh_any(x: &Tensor, uplo: &str) -> Result<Tensor> {
    Ok(x.eigh_parts(uplo, is_tracked(x))?.0)
}

op! {
    /// The eigenvalues, in ascending order, and the eigenvectors of Hermitian matrices, of which one triangle is read.
    linalg_eigh: "linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor eigenvalues, Tensor eigenvectors)",
        Out OUT: "linalg_eigh.eigvals(Tensor self, str UPLO=\"L\", *, Tensor(a!) eigvals, Tensor(b!) eigvecs) -> (Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)";
    Body::Composite(kernel!(eigh_any; x, uplo));
    samples: |m| hermitian(m, &[3, 3]).into_iter().map(|x| sample![x, "L"]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn eigh(&self) -> (Tensor, Tensor) [self, "L"];
}
op! {
    /// The eigenvalues of Hermitian matrices, in ascending order; one triangle is read.
    linalg_eigvalsh: "linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor",
        Out OUT: "linalg_eigvalsh.out(Tensor self, str UPLO=\"L\", *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(eigvalsh_any; x, uplo));
    samples: |m| hermitian(m, &[2, 3, 3]).into_iter().map(|x| sample![x, "U"]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn eigvalsh(&self) -> Tensor [self, "L"];
}

// ---- general eigenvalues ------------------------------------------------------------------------

fn eig_plan(x: &Tensor) -> Result<[TensorSpec; 2]> {
    check_square("linalg.eig", "A", x)?;
    let dtype = x.dtype();
    ensure!(dtype.is_differentiable(), "Unknown Complex ScalarType for {}", dtype.scalar_type_name());
    check_kernel("linalg_eig_out_cpu", x)?;
    let (n, _) = shape(x);
    let dtype = x.dtype().to_complex();
    Ok([TensorSpec::new(sizes_of(batch(x), &[n]), dtype, x.device()), columns(batch(x), &[n, n], dtype, x.device())])
}
fn eigvals_plan(x: &Tensor) -> Result<TensorSpec> {
    let [values, _] = eig_plan(x)?;
    Ok(values)
}
fn eig_run(x: &Tensor, outs: &[Tensor]) -> Result<()> {
    let n = shape(x).0 as usize;
    let count: i64 = batch(x).iter().product();
    let a = column_copy(x, x.sizes())?;
    let values = row_target(&outs[0])?;
    let info = Tensor::zeros(batch(x), (DType::I32, x.device()))?;
    let cost = 25.0 * (n * n * n) as f64;
    let vectors = outs.get(1).map(column_target).transpose()?;
    field!("eig", x.dtype(), T => match &vectors {
        Some(vectors) => for_each(count, cost, 3, &[&info, &values, vectors, &a], |items| {
            let (a, values) = (items.read::<T>(3), items.write(1));
            let vectors = items.write(2);
            let finite = a.iter().all(|x| x.is_regular());
            items.write::<i32>(0)[0] = if finite { T::eig(n, a, values, Some(vectors)) } else { NOT_FINITE };
        })?,
        None => for_each(count, cost, 2, &[&info, &values, &a], |items| {
            let (a, values) = (items.read::<T>(2), items.write(1));
            let finite = a.iter().all(|x| x.is_regular());
            items.write::<i32>(0)[0] = if finite { T::eig(n, a, values, None) } else { NOT_FINITE };
        })?,
    });
    ensure!(
        !info.to_vec::<i32>()?.contains(&NOT_FINITE),
        "torch.linalg.eig: input tensor should not contain infs or NaNs."
    );
    check_info("linalg.eig", &info, ErrorKind::LinAlg, |i| {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated \
             eigenvalues (error code: {i})."
        )
    })?;
    deliver(&outs[0], &values)?;
    vectors.map_or(Ok(()), |vectors| deliver(&outs[1], &vectors))
}

/// From `V^-1 dA V = dL + gaps * (V^-1 dV)`, each vector keeping its length (Boeddeker et al., "On the computation of
/// complex-valued gradients with application to statistically optimum beamforming", section 4.5).
fn eig_backward(grads: &GradContext<'_>, x: DType, values: &Tensor, vectors: &Tensor) -> Result<Option<Tensor>> {
    if grads.grad(0).is_none() && grads.grad(1).is_none() {
        return Ok(None);
    }
    let adjoint = vectors.mh()?;
    let mut inner = grads.grad_or_zeros(0)?.diag_embed()?;
    if let Some(g) = grads.grad(1) {
        let seen = adjoint.matmul(g)?;
        let diagonal = seen.diagonal(0, -2, -1)?;
        check_phase("linalg_eig_backward", "eigenvectors", &diagonal.imag()?)?;
        let lengths = adjoint.matmul(vectors)?.mul(&diagonal.real()?.to_dtype(seen.dtype())?.unsqueeze(-2)?)?;
        inner = inner.add(&over_gaps(&seen.sub(&lengths)?, &values.conj()?)?)?;
    }
    let g = adjoint.solve(&inner.matmul(&adjoint)?, true)?;
    Ok(Some(if x.is_complex() { g } else { g.real()? }))
}

op! {
    /// The eigenvalues and eigenvectors, of length one, of any square matrices.
    linalg_eig: "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
        Out OUT: "linalg_eig.out(Tensor self, *, Tensor(a!) eigenvalues, Tensor(b!) eigenvectors) -> (Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)";
    Body::Structured { plan: plan!(eig_plan; x), run: run!(eig_run; x) };
    derivative: backward! { self_([grads], self_: crate::autograd::Geometry, eigenvalues: Tensor, eigenvectors: Tensor) =>
        eig_backward(grads, self_.dtype, &eigenvalues, &eigenvectors)?
    };
    samples: |m| [&[3i64, 3][..], &[2, 2, 2]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x]).collect();
    ulp: 256.0;
    out_rule: OutRule::call(|w| w.safely_castable("torch.linalg.eig", &["eigenvalues", "eigenvectors"])).fallible().row_major_if_unfit();
    fn eig(&self) -> (Tensor, Tensor) [self];
}
op! {
    /// The eigenvalues of any square matrices, for which no gradient is wanted.
    _linalg_eigvals: "_linalg_eigvals(Tensor self) -> Tensor";
    Body::Structured { plan: plan!(eigvals_plan; x), run: run!(eig_run; x) };
    derivative: crate::autograd::Derivative::NotImplemented("it needs the vectors, which linalg_eigvals asks for itself");
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x]).collect();
    ulp: 256.0;
    fn eigvals_only(&self) -> Tensor [self];
}

fn eigvals_any(x: &Tensor) -> Result<Tensor> {
    if is_tracked(x) { Ok(x.eig()?.0) } else { x.eigvals_only() }
}

op! {
    /// The eigenvalues of any square matrices.
    linalg_eigvals: "linalg_eigvals(Tensor self) -> Tensor", Out OUT: "linalg_eigvals.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(eigvals_any; x));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x]).collect();
    ulp: 256.0;
    out_rule: OutRule::call(|w| w.safely_castable("torch.linalg.eigvals", &["eigenvalues"]));
    fn eigvals(&self) -> Tensor [self];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    _linalg_eigh::ALL,
    _linalg_eigvals::ALL,
    _linalg_svd::ALL,
    linalg_eig::ALL,
    linalg_eigh::ALL,
    linalg_eigvals::ALL,
    linalg_eigvalsh::ALL,
    linalg_svd::ALL,
    linalg_svdvals::ALL,
    svd::ALL,
];
