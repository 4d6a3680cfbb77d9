//! QR factors, and reflectors in LAPACK's form.

use super::lu::{padded, regular};
use super::matrices::{
    batch, check_alike, check_floating, check_kernel, check_matrix, column_copy, column_target, columns, deliver, field, for_each,
    row_copy, row_target, shape, sizes_of,
};
use crate::autograd::GradContext;
use crate::dims::Dims;
use crate::{Body, DType, Error, Op, OutRule, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_linalg::Field;

// ---- qr -----------------------------------------------------------------------------------------

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Reduced,
    Complete,
    OnlyR,
}

fn mode_of(mode: &str) -> Result<Mode> {
    match mode {
        "reduced" => Ok(Mode::Reduced),
        "complete" => Ok(Mode::Complete),
        "r" => Ok(Mode::OnlyR),
        _ => Err(Error::runtime(format!("qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"))),
    }
}

fn qr_plan(x: &Tensor, mode: &str) -> Result<[TensorSpec; 2]> {
    check_matrix("linalg.qr", "A", x)?;
    check_floating("linalg.qr", x)?;
    check_kernel("geqrf_cpu", x)?;
    let mode = mode_of(mode)?;
    let (m, n) = shape(x);
    let k = if mode == Mode::Complete { m } else { m.min(n) };
    let spec = |item: [i64; 2]| columns(batch(x), &item, x.dtype(), x.device());
    let q = if mode == Mode::OnlyR { TensorSpec::like(Dims::from_slice(&[0]), x) } else { spec([m, k]) };
    Ok([q, spec([k, n])])
}
fn qr_run(x: &Tensor, mode: &str, outs: &[Tensor]) -> Result<()> {
    let with_q = mode_of(mode)? != Mode::OnlyR;
    let (m, n) = shape(x);
    let k = m.min(n);
    let count: i64 = batch(x).iter().product();
    let a = column_copy(x, x.sizes())?;
    let tau = Tensor::fresh(x.device(), x.dtype(), sizes_of(batch(x), &[k]))?;
    let cost = (2 * m * n * k) as f64;
    let (rows, wide, reflectors) = (m as usize, n as usize, k as usize);
    field!("qr", x.dtype(), T => {
        for_each(count, cost, 2, &[&a, &tau], |items| T::qr(rows, wide, items.write(0), items.write::<T>(1)))?;
        if with_q {
            let q = column_target(&outs[0])?;
            let whole = shape(&q).1 as usize;
            for_each(count, cost, 1, &[&q, &a, &tau], |items| {
                let q = items.write::<T>(0);
                q[..rows * reflectors].copy_from_slice(&items.read::<T>(1)[..rows * reflectors]);
                T::reflectors_to_matrix(rows, whole, q, items.read(2));
            })?;
            deliver(&outs[0], &q)?;
        }
    });
    outs[1].copy_(&a.narrow(-2, 0, shape(&outs[1]).0)?.triu(0)?)?;
    Ok(())
}

/// From `Q^H dA R^-1 = W + T` with skew-Hermitian `W = Q^H dQ` and upper triangular `T = dR R^-1` with a real diagonal.
fn qr_backward(grads: &GradContext<'_>, q: &Tensor, r: &Tensor, mode: &str) -> Result<Option<Tensor>> {
    let (m, n) = (if q.dim() < 2 { 0 } else { shape(q).0 }, shape(r).1);
    match mode_of(mode)? {
        Mode::OnlyR => {
            return Err(Error::runtime(
                "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, \
                 mode='reduced') if you are going to require gradients.",
            ));
        }
        Mode::Complete if m > n => {
            return Err(Error::runtime("The QR decomposition is not differentiable when mode='complete' and nrows > ncols."));
        }
        _ => {}
    }
    if grads.grad(0).is_none() && grads.grad(1).is_none() {
        return Ok(None);
    }
    let (mut gq, mut gr) = (grads.grad_or_zeros(0)?, grads.grad_or_zeros(1)?);
    let k = m.min(n);
    let mut rest = None;
    let first = r.narrow(-1, 0, k)?;
    if n > k {
        // The further columns of R are Q^H times those of A.
        let (r2, g2) = (r.narrow(-1, k, n - k)?, gr.narrow(-1, k, n - k)?);
        rest = Some(q.matmul(&g2)?);
        gq = gq.add(&q.matmul(&r2)?.matmul(&g2.mh()?)?)?;
        gr = gr.narrow(-1, 0, k)?;
    }
    let seen = gr.matmul(&first.mh()?)?.sub(&q.mh()?.matmul(&gq)?)?;
    let half = super::matrices::lower_half(&seen.mh()?)?.mh()?;
    let inner = half.add(&half.mh()?)?;
    // (gQ + Q inner) R^-H
    let left = gq.add(&q.matmul(&inner)?)?;
    let g = first.mh()?.solve_triangular(&left, false, false, false)?;
    Ok(Some(match rest {
        Some(rest) => Tensor::cat(&[g, rest], -1)?,
        None => g,
    }))
}

op! {
    /// Orthonormal columns and an upper triangular matrix whose product is `A`: as many columns as `A` has ('reduced'), as
    /// many as it has rows ('complete'), or only the triangular matrix ('r').
    linalg_qr: "linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)",
        Out OUT: "linalg_qr.out(Tensor A, str mode=\"reduced\", *, Tensor(a!) Q, Tensor(b!) R) -> (Tensor(a!) Q, Tensor(b!) R)";
    Body::Structured { plan: plan!(qr_plan; x, mode), run: run!(qr_run; x, mode) };
    derivative: backward! { A([grads], mode: String, Q: Tensor, R: Tensor) => qr_backward(grads, &Q, &R, &mode)? };
    samples: |m| [&[3i64, 3][..], &[2, 4, 2], &[2, 3]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x, "reduced"]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn qr_in_mode(&self, mode: &str) -> (Tensor, Tensor) [self, mode];
    fn qr(&self) -> (Tensor, Tensor) [self, "reduced"];
}

fn old_qr_any(x: &Tensor, some: bool) -> Result<(Tensor, Tensor)> {
    x.qr_in_mode(if some { "reduced" } else { "complete" })
}

op! {
    /// Orthonormal columns and an upper triangular matrix whose product is `self`; see `linalg_qr`.
    qr: "qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
        Out OUT: "qr.Q(Tensor self, bool some=True, *, Tensor(a!) Q, Tensor(b!) R) -> (Tensor(a!) Q, Tensor(b!) R)";
    Body::Composite(kernel!(old_qr_any; x, some));
    samples: |m| regular(m, &[4, 3]).into_iter().map(|x| sample![x, true]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
}

// ---- reflectors ---------------------------------------------------------------------------------

fn geqrf_plan(x: &Tensor) -> Result<[TensorSpec; 2]> {
    check_matrix("geqrf", "input", x)?;
    check_kernel("geqrf_cpu", x)?;
    let (m, n) = shape(x);
    let tau = TensorSpec::like(sizes_of(batch(x), &[m.min(n)]), x);
    Ok([columns(batch(x), &[m, n], x.dtype(), x.device()), tau])
}
fn geqrf_run(x: &Tensor, outs: &[Tensor]) -> Result<()> {
    let (m, n) = shape(x);
    let (a, tau) = (column_target(&outs[0])?, row_target(&outs[1])?);
    a.copy_(x)?;
    let count = batch(x).iter().product();
    field!("geqrf", x.dtype(), T => for_each(count, (2 * m * n * m.min(n)) as f64, 2, &[&a, &tau], |items| {
        T::qr(m as usize, n as usize, items.write(0), items.write::<T>(1));
    }))?;
    deliver(&outs[0], &a)?;
    deliver(&outs[1], &tau)
}

op! {
    /// R, and below it the reflectors whose product is Q, in LAPACK's form, and their factors.
    geqrf: "geqrf(Tensor self) -> (Tensor a, Tensor tau)", Out OUT: "geqrf.a(Tensor self, *, Tensor(a!) a, Tensor(b!) tau) -> (Tensor(a!) a, Tensor(b!) tau)";
    Body::Structured { plan: plan!(geqrf_plan; x), run: run!(geqrf_run; x) };
    derivative: crate::autograd::Derivative::NotImplemented("derivative for geqrf is not implemented");
    samples: |m| [&[3i64, 3][..], &[2, 4, 2], &[2, 3]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x]).collect();
    ulp: 256.0;
    out_rule: OutRule::call(|w| w.safely_castable("torch.geqrf", &["a", "tau"])).row_major_if_unfit();
    fn geqrf(&self) -> (Tensor, Tensor) [self];
}

const PRODUCT: &str = "torch.linalg.householder_product";

fn check_tau(op: &str, v: &Tensor, tau: &Tensor) -> Result<()> {
    check_alike(op, ("input", v), ("tau", tau))?;
    ensure!(
        tau.dim() + 1 == v.dim() && tau.sizes()[..tau.dim() - 1] == *batch(v),
        "{op}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {:?}",
        &tau.sizes()[..tau.dim().saturating_sub(1)]
    );
    Ok(())
}

fn product_plan(v: &Tensor, tau: &Tensor) -> Result<TensorSpec> {
    check_matrix(PRODUCT, "input", v)?;
    check_kernel("orgqr_cpu", v)?;
    ensure!(tau.dim() >= 1, "{PRODUCT}: tau must have at least 1 dimension.");
    let (m, n) = shape(v);
    ensure!(m >= n, "{PRODUCT}: input.shape[-2] must be greater than or equal to input.shape[-1]");
    ensure!(n >= tau.size(-1)?, "{PRODUCT}: input.shape[-1] must be greater than or equal to tau.shape[-1]");
    check_tau(PRODUCT, v, tau)?;
    Ok(columns(batch(v), &[m, n], v.dtype(), v.device()))
}
fn product_run(v: &Tensor, tau: &Tensor, outs: &[Tensor]) -> Result<()> {
    let (m, n) = shape(v);
    let (target, tau) = (column_target(&outs[0])?, row_copy(tau, tau.sizes())?);
    target.copy_(v)?;
    let count = batch(v).iter().product();
    field!("householder_product", v.dtype(), T => for_each(count, (4 * m * n * n) as f64, 1, &[&target, &tau], |items| {
        T::reflectors_to_matrix(m as usize, n as usize, items.write(0), items.read::<T>(1));
    }))?;
    deliver(&outs[0], &target)
}

/// The gradients of reflectors, their factors and `c` from that of the reflectors' product (or its conjugate transpose)
/// times `c`, which is the identity's first columns if not given. The product is `I - V T V^H` with `T = diag(tau) M^-1`; M has
/// ones on the diagonal and `V^H V diag(tau)` above it (T. Joffrain et al., "Accumulating Householder transformations,
/// revisited", 2006), so that no factor is divided by.
fn reflected_backward(g: &Tensor, v: &Tensor, tau: &Tensor, c: Option<&Tensor>, adjoint: bool) -> Result<[Tensor; 3]> {
    let ((m, n), k) = (shape(v), tau.size(-1)?);
    let v = v.narrow(-1, 0, k)?.tril(-1)?.add(&Tensor::eye(m, k, (v.dtype(), v.device()))?)?;
    let (vh, rows, conj) = (v.mh()?, tau.unsqueeze(-1)?, tau.conj()?);
    let products = vh.matmul(&v)?.triu(1)?;
    let above = products.mul(&tau.unsqueeze(-2)?)?;
    // What is computed is C - V X, where X is T (or T^H) times this.
    let found = match c {
        Some(c) => vh.matmul(c)?,
        None => vh.narrow(-1, 0, g.size(-1)?)?,
    };
    // From here on, names are of gradients with the sign turned.
    let gx = vh.matmul(g)?;
    let (x, g_found, g_above, g_tau) = if adjoint {
        let x = above.mh()?.solve_triangular(&found.mul(&conj.unsqueeze(-1)?)?, false, true, true)?;
        let gy = above.solve_triangular(&gx, true, true, true)?;
        (x.clone(), gy.mul(&rows)?, x.matmul(&gy.mh()?)?, found.mul(&gy.conj()?)?.sum_dim(&[-1], false)?)
    } else {
        let y = above.solve_triangular(&found, true, true, true)?;
        let g_found = above.mh()?.solve_triangular(&gx.mul(&conj.unsqueeze(-1)?)?, false, true, true)?;
        let g_above = g_found.matmul(&y.mh()?)?;
        (y.mul(&rows)?, g_found, g_above, gx.mul(&y.conj()?)?.sum_dim(&[-1], false)?)
    };
    // These two have their own sign: M's inverse turns it once more.
    let g_above = g_above.triu(1)?;
    let g_products = g_above.mul(&conj.unsqueeze(-2)?)?;
    let g_tau = products.conj()?.mul(&g_above)?.sum_dim(&[-2], false)?.sub(&g_tau)?;
    let of_found = match c {
        Some(c) => c.matmul(&g_found.mh()?)?,
        None => padded(&g_found.mh()?, m, k)?,
    };
    let gv = v.matmul(&g_products.add(&g_products.mh()?)?)?.sub(&of_found)?.sub(&g.matmul(&x.mh()?)?)?;
    Ok([padded(&gv.tril(-1)?, m, n)?, g_tau, g.sub(&v.matmul(&g_found)?)?])
}

op! {
    /// The first columns of the product of reflectors in LAPACK's form.
    linalg_householder_product: "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
        Out OUT: "linalg_householder_product.out(Tensor input, Tensor tau, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(product_plan; v, tau), run: run!(product_run; v, tau) };
    derivative: backward! {
        (input, tau)(g, input: Tensor, tau: Tensor) => {
            if input.numel() == 0 || tau.numel() == 0 {
                return Ok([None, None].into_iter().collect());
            }
            let [gv, g_tau, _] = reflected_backward(g, &input, &tau, None, false)?;
            [Some(gv), Some(g_tau)]
        }
    };
    samples: |m| [&[3i64, 2][..], &[2, 3, 3]].into_iter().flat_map(|s| regular(m, s)).collect::<Vec<_>>().into_iter().map(|x| {
        let tau = m.uniform(&sizes_of(batch(&x), &[2]), 0.2, 1.0);
        sample![x, tau]
    }).collect();
    ulp: 256.0;
    out_rule: OutRule::call(|w| w.safely_castable("torch.linalg.householder_product", &[])).row_major_if_unfit();
    fn householder_product(&self, tau: &Tensor) -> Tensor [self, tau];
}
alias! {
    /// The first columns of the product of reflectors in LAPACK's form.
    orgqr: "orgqr(Tensor self, Tensor input2) -> Tensor" => linalg_householder_product::OP;
    orgqr_out: "orgqr.out(Tensor self, Tensor input2, *, Tensor(a!) out) -> Tensor(a!)" => linalg_householder_product::OUT;
}

fn ormqr_plan(v: &Tensor, tau: &Tensor, c: &Tensor, left: bool, _transpose: bool) -> Result<TensorSpec> {
    check_matrix("torch.ormqr", "input", v)?;
    check_matrix("torch.ormqr", "other", c)?;
    let (rows, k) = shape(v);
    let side = if left { shape(c).0 } else { shape(c).1 };
    let name = if left { "-2" } else { "-1" };
    ensure!(tau.dim() >= 1, "torch.ormqr: tau must have at least one dimension");
    ensure!(side == rows, "torch.ormqr: other.shape[{name}] must be equal to input.shape[-2]");
    ensure!(
        tau.size(-1)? == side.min(k),
        "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{name}], input.shape[-1])"
    );
    let dtype = v.dtype();
    if !dtype.is_differentiable() || matches!(dtype, DType::F16 | DType::BF16) {
        let name = dtype.scalar_type_name();
        return Err(crate::Error::not_implemented(format!("\"ormqr_cpu\" not implemented for '{name}'")));
    }
    check_tau("torch.ormqr", v, tau)?;
    check_alike("torch.ormqr", ("input", v), ("other", c))?;
    ensure!(
        batch(c) == batch(v),
        "torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but got {:?}",
        batch(c)
    );
    let (m, n) = shape(c);
    Ok(columns(batch(c), &[m, n], c.dtype(), c.device()))
}
fn ormqr_run(v: &Tensor, tau: &Tensor, c: &Tensor, left: bool, transpose: bool, outs: &[Tensor]) -> Result<()> {
    let target = column_target(&outs[0])?;
    target.copy_(c)?;
    let (v, tau) = (column_copy(v, v.sizes())?, row_copy(tau, tau.sizes())?);
    let (m, n) = shape(c);
    let count = batch(c).iter().product();
    let cost = (4 * m * n * tau.size(-1)?) as f64;
    field!("ormqr", c.dtype(), T => for_each(count, cost, 1, &[&target, &v, &tau], |items| {
        T::apply_reflectors(m as usize, n as usize, items.read(1), items.read::<T>(2), left, transpose, items.write(0));
    }))?;
    deliver(&outs[0], &target)
}

op! {
    /// `self`'s reflectors' product (or its conjugate transpose) times `input3`, from the left or the right.
    ormqr: "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
        Out OUT: "ormqr.out(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(ormqr_plan; v, tau, c, left, transpose), run: run!(ormqr_run; v, tau, c, left, transpose) };
    derivative: backward! {
        (self_, input2, input3)(g, self_: Tensor, input2: Tensor, input3: Tensor, left: bool, transpose: bool) => {
            // Without reflectors the product is `input3`.
            if self_.numel() == 0 || input2.numel() == 0 {
                return Ok([None, None, Some(g.clone())].into_iter().collect());
            }
            let [gv, g_tau, gc] = match left {
                true => reflected_backward(g, &self_, &input2, Some(&input3), transpose)?,
                // c Q is the adjoint of Q^H c^H.
                false => {
                    let [gv, g_tau, gc] = reflected_backward(&g.mh()?, &self_, &input2, Some(&input3.mh()?), !transpose)?;
                    [gv, g_tau, gc.mh()?]
                }
            };
            [Some(gv), Some(g_tau), Some(gc)]
        }
    };
    samples: |m| regular(m, &[2, 3, 2]).into_iter().flat_map(|v| {
        let tau = m.uniform(&[2, 2], 0.2, 1.0);
        let (a, b) = (m.uniform(&[2, 3, 2], -1.0, 1.0), m.uniform(&[2, 2, 3], -1.0, 1.0));
        [sample![v.clone(), tau.clone(), a.clone(), true, false], sample![v.clone(), tau.clone(), a, true, true],
            sample![v.clone(), tau.clone(), b.clone(), false, false], sample![v, tau, b, false, true]]
    }).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT.row_major_if_unfit();
    fn ormqr(&self, tau: &Tensor, other: &Tensor, left: bool, transpose: bool) -> Tensor [self, tau, other, left, transpose];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    geqrf::ALL,
    linalg_householder_product::ALL,
    linalg_qr::ALL,
    orgqr::ALL,
    orgqr_out::ALL,
    ormqr::ALL,
    qr::ALL,
];
