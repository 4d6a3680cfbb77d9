//! LU factors, and what comes from them: solutions, inverses, determinants.

use super::matrices::{
    batch, check_alike, check_info, check_floating, check_kernel, check_matrix, check_square, check_square_field, column_copy,
    column_major, column_target, columns, deliver, field, for_each, identity, row_copy, row_target, shape, sizes_of,
};
use crate::access::elements;
use crate::dims::{self, Dims};
use crate::samples::Maker;
use crate::{Body, DType, ErrorKind, Op, OutRule, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::Element;
use flambeau_base::storage::LockSet;
use flambeau_linalg::Field;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};

const NO_PIVOT: &str = "linalg.lu_factor: LU without pivoting is not implemented on the CPU";

fn says_zero(info: i32) -> String {
    format!(
        "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform \
         the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )
}

// ---- factors ------------------------------------------------------------------------------------

fn lu_factor_ex_plan(x: &Tensor, pivot: bool, _check_errors: bool) -> Result<[TensorSpec; 3]> {
    check_matrix("torch.lu_factor", "A", x)?;
    check_kernel("lu_cpu", x)?;
    ensure!(pivot, "{NO_PIVOT}");
    let (m, n) = shape(x);
    Ok([
        columns(batch(x), &[m, n], x.dtype(), x.device()),
        TensorSpec::new(sizes_of(batch(x), &[m.min(n)]), DType::I32, x.device()),
        TensorSpec::new(batch(x), DType::I32, x.device()),
    ])
}
fn lu_factor_ex_run(x: &Tensor, _pivot: bool, check_errors: bool, outs: &[Tensor]) -> Result<()> {
    let (m, n) = shape(x);
    let (factors, pivots, info) = (column_target(&outs[0])?, row_target(&outs[1])?, row_target(&outs[2])?);
    factors.copy_(x)?;
    let cost = (m * n * m.min(n)) as f64;
    field!("lu_factor", x.dtype(), T => for_each(info.numel(), cost, 3, &[&factors, &pivots, &info], |items| {
        let result = T::lu(m as usize, n as usize, items.write::<T>(0), items.write::<i32>(1));
        items.write::<i32>(2)[0] = result;
    }))?;
    for (out, target) in outs.iter().zip([&factors, &pivots, &info]) {
        deliver(out, target)?;
    }
    if check_errors {
        check_info("torch.linalg.lu_factor_ex", &outs[2], ErrorKind::Runtime, says_zero)?;
    }
    Ok(())
}

/// L of a packed factorization: ones on the diagonal, `m * k`.
fn unit_lower(packed: &Tensor) -> Result<Tensor> {
    let (m, n) = shape(packed);
    let k = m.min(n);
    packed.narrow(-1, 0, k)?.tril(-1)?.add(&Tensor::eye(m, k, (packed.dtype(), packed.device()))?)
}

/// U of a packed factorization, `k * n`.
fn upper(packed: &Tensor) -> Result<Tensor> {
    let (m, n) = shape(packed);
    packed.narrow(-2, 0, m.min(n))?.triu(0)
}

/// `a^-H b` for a lower triangular `a` with ones on the diagonal.
fn lower_adjoint_solve(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.mh()?.solve_triangular(b, true, true, true)
}

/// `b a^-H` for an upper triangular `a`.
fn solve_upper_adjoint(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.mh()?.solve_triangular(b, false, false, false)
}

/// From `P^T dA = dL U + L dU`: the square part of `L^-1 P^T dA U^-1` splits into the strict lower triangle, which moves L,
/// and the upper one, which moves U; the rest of L or U follows.
fn lu_factor_backward(g: &Tensor, packed: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let (m, n) = shape(packed);
    let k = m.min(n);
    let (p, l, u) = packed.lu_unpack(pivots, true, true)?;
    let (gl, gu) = (g.narrow(-1, 0, k)?.tril(-1)?, g.narrow(-2, 0, k)?.triu(0)?);
    let (l1, u1) = (l.narrow(-2, 0, k)?, u.narrow(-1, 0, k)?);
    let mut lower = l1.mh()?.matmul(&gl.narrow(-2, 0, k)?)?;
    let mut above = gu.narrow(-1, 0, k)?.matmul(&u1.mh()?)?;
    let rest = m.max(n) - k;
    if m > n {
        let (l2, gl2) = (l.narrow(-2, k, rest)?, gl.narrow(-2, k, rest)?);
        above = above.sub(&l2.mh()?.matmul(&gl2)?)?;
    } else if n > m {
        let (u2, gu2) = (u.narrow(-1, k, rest)?, gu.narrow(-1, k, rest)?);
        lower = lower.sub(&gu2.matmul(&u2.mh()?)?)?;
    }
    let inner = lower.tril(-1)?.add(&above.triu(0)?)?;
    let square = solve_upper_adjoint(&u1, &lower_adjoint_solve(&l1, &inner)?)?;
    let whole = if m > n {
        Tensor::cat(&[square, solve_upper_adjoint(&u1, &gl.narrow(-2, k, rest)?)?], -2)?
    } else if n > m {
        Tensor::cat(&[square, lower_adjoint_solve(&l1, &gu.narrow(-1, k, rest)?)?], -1)?
    } else {
        square
    };
    p.matmul(&whole)
}

/// Matrices that are far from singular, with pivots that differ by far.
pub(super) fn regular(m: &mut Maker, sizes: &[i64]) -> Vec<Tensor> {
    if !m.dtype.is_differentiable() {
        return vec![];
    }
    let (rows, columns) = (sizes[sizes.len() - 2], sizes[sizes.len() - 1]);
    let x = m.uniform_of(m.wide(), sizes, -0.5, 0.5);
    let shifted = Tensor::eye(rows, columns, (x.dtype(), x.device())).and_then(|e| x.add(&e.roll(&[1], &[0])?.mul(3.0)?));
    shifted.and_then(|s| s.to_dtype(m.dtype)).into_iter().collect()
}

op! {
    /// The LU factors of matrices in one, the rows swapped (from 1), and the first zero on each U's diagonal (0: none).
    linalg_lu_factor_ex: "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)",
        Out OUT: "linalg_lu_factor_ex.out(Tensor A, *, bool pivot=True, bool check_errors=False, Tensor(a!) LU, Tensor(b!) pivots, Tensor(c!) info) -> (Tensor(a!) LU, Tensor(b!) pivots, Tensor(c!) info)";
    Body::Structured { plan: plan!(lu_factor_ex_plan; x, pivot, check_errors), run: run!(lu_factor_ex_run; x, pivot, check_errors) };
    derivative: backward! { A(g, LU: Tensor, pivots: Tensor) => lu_factor_backward(g, &LU, &pivots)? };
    samples: |m| [&[3i64, 3][..], &[2, 4, 2], &[2, 4]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x, true, false]).collect();
    ulp: 64.0;
    out_rule: OutRule::EXACT;
    fn lu_factor_ex(&self, pivot: bool, check_errors: bool) -> (Tensor, Tensor, Tensor) [self, pivot, check_errors];
}

fn lu_factor_any(x: &Tensor, pivot: bool) -> Result<(Tensor, Tensor)> {
    let (factors, pivots, info) = x.lu_factor_ex(pivot, false)?;
    check_info("torch.linalg.lu_factor", &info, ErrorKind::Runtime, says_zero)?;
    Ok((factors, pivots))
}
fn lu_with_info_any(x: &Tensor, pivot: bool, check_errors: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let _ = check_errors; // As PyTorch, which has this for `torch.lu` alone.
    x.lu_factor_ex(pivot, false)
}

op! {
    /// The LU factors of matrices in one, and the rows swapped (from 1).
    linalg_lu_factor: "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
        Out OUT: "linalg_lu_factor.out(Tensor A, *, bool pivot=True, Tensor(a!) LU, Tensor(b!) pivots) -> (Tensor(a!) LU, Tensor(b!) pivots)";
    Body::Composite(kernel!(lu_factor_any; x, pivot));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x, true]).collect();
    ulp: 64.0;
    out_rule: OutRule::EXACT;
    fn lu_factor(&self, pivot: bool) -> (Tensor, Tensor) [self, pivot];
}
op! {
    /// The LU factors of matrices in one, the rows swapped (from 1), and where each failed: for `torch.lu`.
    _lu_with_info: "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor info)";
    Body::Composite(kernel!(lu_with_info_any; x, pivot, check_errors));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x, true, true]).collect();
    ulp: 64.0;
}

fn lu_unpack_plan(packed: &Tensor, pivots: &Tensor, data: bool, with_pivots: bool) -> Result<[TensorSpec; 3]> {
    check_matrix("torch.lu_unpack", "LU_data", packed)?;
    if with_pivots {
        ensure!(
            pivots.dtype() == DType::I32,
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function is \
             intended to be used with the output produced by torch.linalg.lu_factor"
        );
    }
    let (m, n) = shape(packed);
    let k = m.min(n);
    let spec = |wanted: bool, item: [i64; 2]| match wanted {
        true => TensorSpec::like(sizes_of(batch(packed), &item), packed),
        false => TensorSpec::like(Dims::from_slice(&[0]), packed),
    };
    if with_pivots {
        ensure!(
            pivots.sizes() == &sizes_of(batch(packed), &[k])[..],
            "torch.lu_unpack: LU_pivots of shape {:?} do not fit LU_data of shape {:?}",
            pivots.sizes(),
            packed.sizes()
        );
    }
    Ok([spec(with_pivots, [m, m]), spec(data, [m, k]), spec(data, [k, n])])
}
/// Up to this many elements a matrix is taken apart element by element; larger ones are transposed in tiles.
const SMALL: i64 = 4096;

/// Writes the permutation (row-major) that pivots make. (One out of range, which another thread may have written since
/// they were looked at, changes nothing.)
fn permutation<T: Element>(m: usize, pivots: &[i32], p: &mut [T]) {
    let mut row_at: SmallVec<[usize; 64]> = (0..m).collect();
    for (i, &pivot) in pivots.iter().enumerate() {
        match (pivot as usize).checked_sub(1) {
            Some(other) if pivot > 0 && other < m => row_at.swap(i, other),
            _ => {}
        }
    }
    p.fill(T::default());
    for (i, row) in row_at.into_iter().enumerate() {
        p[row * m + i] = T::from_bool(true);
    }
}

/// Writes L and U (row-major) of a packed `m * n` factorization.
fn take_apart<T: Element>(m: usize, n: usize, packed: &[T], l: &mut [T], u: &mut [T]) {
    let k = m.min(n);
    for (i, row) in l.chunks_exact_mut(k.max(1)).enumerate() {
        let (below, rest) = row.split_at_mut(i.min(k));
        below.iter_mut().enumerate().for_each(|(j, x)| *x = packed[j * m + i]);
        rest.fill(T::default());
        rest.iter_mut().take(1).for_each(|x| *x = T::from_bool(true));
    }
    for (i, row) in u.chunks_exact_mut(n.max(1)).enumerate() {
        let (below, rest) = row.split_at_mut(i);
        below.fill(T::default());
        rest.iter_mut().zip(i..).for_each(|(x, j)| *x = packed[j * m + i]);
    }
}

fn lu_unpack_run(packed: &Tensor, pivots: &Tensor, data: bool, with_pivots: bool, outs: &[Tensor]) -> Result<()> {
    let (m, n) = shape(packed);
    let apart = data && m * n <= SMALL && !outs.iter().any(|out| out.shares_storage_with(packed));
    let targets = outs.iter().map(row_target).collect::<Result<Vec<_>>>()?;
    let pivots = pivots.contiguous()?;
    let source = if apart { column_major(packed)? } else { pivots.clone() };
    if with_pivots {
        let _lock = LockSet::new([(pivots.storage(), false)])?;
        // SAFETY: contiguous, of the dtype that the plan asks for, and locked.
        let fits = unsafe { elements::<i32>(&pivots) }.iter().all(|p| (1..=m).contains(&i64::from(*p)));
        ensure!(
            fits,
            "torch.lu_unpack: the elements of LU_pivots must be between 1 and LU_data.size(-2) inclusive. Did you properly pass \
             the result of torch.linalg.lu_factor?"
        );
    }
    let count = batch(packed).iter().product();
    let (cost, rows, columns) = ((m * (m + n)) as f64, m as usize, n as usize);
    let tensors = [&targets[0], &targets[1], &targets[2], &source, &pivots];
    crate::dispatch_dtype!(packed.dtype(), T => for_each(count, cost, 3, &tensors, |items| {
        if apart {
            take_apart::<T>(rows, columns, items.read(3), items.write(1), items.write(2));
        }
        if with_pivots {
            permutation::<T>(rows, items.read(4), items.write(0));
        }
    }))?;
    deliver(&outs[0], &targets[0])?;
    match (data, apart) {
        (false, _) => Ok(()),
        (true, true) => (1..3).try_for_each(|i| deliver(&outs[i], &targets[i])),
        (true, false) => {
            let (lower, upper) = (unit_lower(packed)?, upper(packed)?);
            outs[1].copy_(&lower)?;
            outs[2].copy_(&upper).map(drop)
        }
    }
}

/// `x` with columns of zeros to the right or rows below, up to `m * n`.
pub(super) fn padded(x: &Tensor, m: i64, n: i64) -> Result<Tensor> {
    let (rows, columns) = shape(x);
    if (rows, columns) == (m, n) { Ok(x.clone()) } else { x.constant_pad_nd(&[0, n - columns, 0, m - rows], 0) }
}

op! {
    /// The permutation, the lower and the upper factor of a packed LU factorization.
    lu_unpack: "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
        Out OUT: "lu_unpack.out(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True, *, Tensor(a!) P, Tensor(b!) L, Tensor(c!) U) -> (Tensor(a!) P, Tensor(b!) L, Tensor(c!) U)";
    Body::Structured { plan: plan!(lu_unpack_plan; packed, pivots, data, with_pivots), run: run!(lu_unpack_run; packed, pivots, data, with_pivots) };
    derivative: backward! { LU_data([grads], LU_data: crate::autograd::Geometry, unpack_data: bool) => {
        let n = LU_data.dim();
        let (m, n) = (LU_data.sizes[n - 2], LU_data.sizes[n - 1]);
        match (unpack_data, grads.grad(1), grads.grad(2)) {
            (false, ..) | (_, None, None) => None,
            (_, Some(l), None) => Some(padded(&l.tril(-1)?, m, n)?),
            (_, None, Some(u)) => Some(padded(&u.triu(0)?, m, n)?),
            (_, Some(l), Some(u)) => Some(padded(&l.tril(-1)?, m, n)?.add(&padded(&u.triu(0)?, m, n)?)?),
        }
    } };
    samples: |m| [&[3i64, 3][..], &[2, 4, 2], &[2, 4]].into_iter().flat_map(|s| regular(m, s))
        .filter_map(|x| x.lu_factor_ex(true, false).ok())
        .flat_map(|(lu, pivots, _)| [sample![lu.clone(), pivots.clone(), true, true], sample![lu, pivots, true, false]]).collect();
    out_rule: OutRule::EXACT;
    fn lu_unpack(&self, pivots: &Tensor, unpack_data: bool, unpack_pivots: bool) -> (Tensor, Tensor, Tensor) [self, pivots, unpack_data, unpack_pivots];
}

fn linalg_lu_any(x: &Tensor, pivot: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let (packed, pivots, _) = x.lu_factor_ex(pivot, false)?;
    packed.lu_unpack(&pivots, true, true)
}

op! {
    /// A permutation, a lower triangular matrix with ones on the diagonal, and an upper one, whose product is `A`.
    linalg_lu: "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
        Out OUT: "linalg_lu.out(Tensor A, *, bool pivot=True, Tensor(a!) P, Tensor(b!) L, Tensor(c!) U) -> (Tensor(a!) P, Tensor(b!) L, Tensor(c!) U)";
    Body::Composite(kernel!(linalg_lu_any; x, pivot));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x, true]).collect();
    ulp: 64.0;
    out_rule: OutRule::EXACT;
    fn linalg_lu(&self, pivot: bool) -> (Tensor, Tensor, Tensor) [self, pivot];
}

// ---- solutions ----------------------------------------------------------------------------------

/// The sizes of a solution: those of `b` with the batch dims broadcast against `a`'s.
pub(super) fn solution_sizes(op: &str, a: &Tensor, b: &Tensor, left: bool) -> Result<Dims> {
    check_square(op, "A", a)?;
    check_matrix(op, "B", b)?;
    check_alike(op, ("A", a), ("B", b))?;
    let ((n, _), (rows, columns)) = (shape(a), shape(b));
    ensure!(
        n == if left { rows } else { columns },
        "{op}: Incompatible shapes of A and B for the equation {} ({n}x{n} and {rows}x{columns})",
        if left { "AX = B" } else { "XA = B" }
    );
    Ok(sizes_of(&dims::broadcast(batch(a), batch(b))?, &[rows, columns]))
}

fn lu_solve_plan(packed: &Tensor, pivots: &Tensor, b: &Tensor, left: bool, _adjoint: bool) -> Result<TensorSpec> {
    check_floating("torch.linalg.lu_solve", packed)?;
    check_kernel("linalg.lu_solve_cpu", packed)?;
    let sizes = solution_sizes("torch.linalg.lu_solve", packed, b, left)?;
    ensure!(
        pivots.dtype() == DType::I32,
        "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32"
    );
    ensure!(
        pivots.dim() == packed.dim() - 1 && pivots.sizes() == &packed.sizes()[..packed.dim() - 1],
        "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix"
    );
    let n = sizes.len();
    Ok(match left {
        true => columns(&sizes[..n - 2], &sizes[n - 2..], b.dtype(), b.device()),
        false => TensorSpec::like(sizes, b),
    })
}
fn lu_solve_run(packed: &Tensor, pivots: &Tensor, b: &Tensor, left: bool, adjoint: bool, outs: &[Tensor]) -> Result<()> {
    let n = shape(packed).0;
    let over = &outs[0].sizes()[..outs[0].dim() - 2];
    let packed = column_copy(packed, &sizes_of(over, &[n, n]))?;
    let pivots = row_copy(pivots, &sizes_of(over, &[n]))?;
    // x A = b is A^H x^H = b^H.
    let target = match left {
        true => {
            let target = column_target(&outs[0])?;
            target.copy_(b)?;
            target
        }
        false => {
            let (rows, columns) = shape(&outs[0]);
            column_copy(&b.mh()?, &sizes_of(over, &[columns, rows]))?
        }
    };
    let k = shape(&target).1;
    let wrong = AtomicBool::new(false);
    let count = over.iter().product();
    let (cost, order) = ((n * n * k) as f64, n as usize);
    field!("lu_solve", b.dtype(), T => for_each(count, cost, 1, &[&target, &packed, &pivots], |items| {
        let pivots = items.read::<i32>(2);
        if pivots.iter().any(|p| *p < 1 || *p as usize > order) {
            return wrong.store(true, Ordering::Relaxed);
        }
        T::lu_solve(order, k as usize, items.read::<T>(1), pivots, adjoint == left, items.write::<T>(0));
    }))?;
    ensure!(
        !wrong.load(Ordering::Relaxed),
        "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of lu_factor?"
    );
    match left {
        true => deliver(&outs[0], &target),
        false => outs[0].copy_(&target.mh()?).map(drop),
    }
}

/// The gradient of a solution with respect to the factors. From the right it is that of the adjoint problem.
fn lu_solve_backward(g: &Tensor, x: &Tensor, packed: &Tensor, pivots: &Tensor, left: bool, adjoint: bool) -> Result<Tensor> {
    if !left {
        return lu_solve_backward(&g.mh()?, &x.mh()?, packed, pivots, true, !adjoint);
    }
    let (p, l, u) = packed.lu_unpack(pivots, true, true)?;
    if adjoint {
        // A^H x = b with A = P L U: U^H w = b, L^H y = w, x = P y.
        let y = p.mt()?.matmul(x)?;
        let w = l.mh()?.matmul(&y)?;
        let gw = l.solve_triangular(&p.mt()?.matmul(g)?, false, true, true)?;
        let gb = u.solve_triangular(&gw, true, true, false)?;
        let gl = y.matmul(&gw.mh()?)?.tril(-1)?;
        let gu = w.matmul(&gb.mh()?)?.triu(0)?;
        return gl.add(&gu)?.neg();
    }
    // L y = P^T b, U x = y.
    let gy = u.mh()?.solve_triangular(g, false, true, false)?;
    let gu = gy.matmul(&x.mh()?)?.triu(0)?;
    let gl = lower_adjoint_solve(&l, &gy)?.matmul(&u.matmul(x)?.mh()?)?.tril(-1)?;
    gl.add(&gu)?.neg()
}

fn solve_samples(m: &mut Maker) -> Vec<(Tensor, Tensor, bool)> {
    let sizes: [(&[i64], &[i64], bool); 3] = [(&[3, 3], &[3, 2], true), (&[2, 3, 3], &[3, 2], true), (&[3, 3], &[2, 2, 3], false)];
    sizes.into_iter().filter_map(|(a, b, left)| Some((regular(m, a).pop()?, m.any(b), left))).collect()
}

op! {
    /// The solution of `A X = B` (or of `X A = B`, or with the conjugate transpose of A) from A's LU factors.
    linalg_lu_solve: "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
        Out OUT: "linalg_lu_solve.out(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(lu_solve_plan; packed, pivots, b, left, adjoint), run: run!(lu_solve_run; packed, pivots, b, left, adjoint) };
    derivative: backward! {
        LU(g, LU: Tensor, pivots: Tensor, left: bool, adjoint: bool, result: Tensor) => lu_solve_backward(g, &result, &LU, &pivots, left, adjoint)?,
        B(g, LU: Tensor, pivots: Tensor, left: bool, adjoint: bool) => LU.lu_solve(&pivots, g, left, !adjoint)?,
    };
    samples: |m| solve_samples(m).into_iter().filter_map(|(a, b, left)| Some((a.lu_factor_ex(true, false).ok()?, b, left)))
        .flat_map(|((lu, pivots, _), b, left)| [sample![lu.clone(), pivots.clone(), b.clone(), left, false], sample![lu, pivots, b, left, true]]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn lu_solve(&self, pivots: &Tensor, b: &Tensor, left: bool, adjoint: bool) -> Tensor [self, pivots, b, left, adjoint];
}

fn old_lu_solve_any(b: &Tensor, packed: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    packed.lu_solve(pivots, b, true, false)
}

op! {
    /// The solution of `A X = self` from A's LU factors; see `linalg_lu_solve`.
    lu_solve: "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
        Out OUT: "lu_solve.out(Tensor self, Tensor LU_data, Tensor LU_pivots, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(old_lu_solve_any; b, packed, pivots));
    samples: |m| solve_samples(m).into_iter().filter(|s| s.2).filter_map(|(a, b, _)| Some((a.lu_factor_ex(true, false).ok()?, b)))
        .map(|((lu, pivots, _), b)| sample![b, lu, pivots]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::EXACT;
}

fn says_singular(_info: i32) -> String {
    "The solver failed because the input matrix is singular.".into()
}
fn says_not_invertible(info: i32) -> String {
    format!(
        "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is singular."
    )
}

/// Whether the transpose is factorized, as PyTorch does for a row-major matrix, which needs no rearranging then. Here it
/// is so in any order of memory, which results must not depend on.
pub(super) fn factorizes_transpose(a: &Tensor) -> bool {
    !a.dtype().is_complex()
}

/// Whether `b` is a batch of vectors.
fn is_vectors(a: &Tensor, b: &Tensor) -> bool {
    b.dim() == 1 || a.dim() == b.dim() + 1 && a.sizes().starts_with(b.sizes())
}

type Solved = Vec<Tensor>;

fn solve_ex_any(a: &Tensor, b: &Tensor, left: bool, check_errors: bool) -> Result<Solved> {
    check_square("linalg.solve", "A", a)?;
    check_floating("linalg.solve", a)?;
    let vectors = is_vectors(a, b);
    ensure!(left || !vectors, "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)");
    let columns = if vectors { b.unsqueeze(-1)? } else { b.clone() };
    solution_sizes("linalg.solve", a, &columns, left)?;
    let turned = factorizes_transpose(a);
    let (packed, pivots, info) = if turned { a.mt()? } else { a.clone() }.lu_factor_ex(true, false)?;
    let mut x = packed.lu_solve(&pivots, &columns, left, turned)?;
    if vectors {
        x = x.squeeze_dim(-1)?;
        x = column_copy(&x, &Dims::from_slice(x.sizes()))?;
    }
    if check_errors {
        check_info("torch.linalg.solve_ex", &info, ErrorKind::LinAlg, says_singular)?;
    }
    Ok(vec![x, packed, pivots, info])
}

/// `gB = A^-H g` and `gA = -gB X^H`.
fn solve_backward(grads: &crate::autograd::GradContext<'_>, a: &Tensor, b: &crate::autograd::Geometry, left: bool) -> Result<[Option<Tensor>; 2]> {
    let Some(g) = grads.grad(0) else { return Ok([None, None]) };
    let x: Tensor = grads.get("result")?;
    let vectors = b.dim() == 1 || a.dim() == b.dim() + 1 && a.sizes().starts_with(&b.sizes);
    let column = |t: &Tensor| if vectors { t.unsqueeze(-1) } else { Ok(t.clone()) };
    let gb = match crate::autograd::is_grad_enabled() {
        true => a.mh()?.solve(&column(g)?, left)?,
        false => {
            let (packed, pivots): (Tensor, Tensor) = (grads.get("LU")?, grads.get("pivots")?);
            packed.lu_solve(&pivots, &column(g)?, left, !factorizes_transpose(a))?
        }
    };
    let x = column(&x)?;
    let ga = if left { gb.matmul(&x.mh()?)? } else { x.mh()?.matmul(&gb)? }.neg()?;
    Ok([Some(ga), Some(if vectors { gb.squeeze_dim(-1)? } else { gb })])
}

op! {
    /// The solution of `A X = B` (or `X A = B`), with the LU factors used and where each failed (0: nowhere).
    _linalg_solve_ex: "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
        Out OUT: "_linalg_solve_ex.result(Tensor A, Tensor B, *, bool left=True, bool check_errors=False, Tensor(a!) result, Tensor(b!) LU, Tensor(c!) pivots, Tensor(d!) info) -> (Tensor(a!) result, Tensor(b!) LU, Tensor(c!) pivots, Tensor(d!) info)";
    Body::Explicit(kernel!(solve_ex_any; a, b, left, check_errors));
    derivative: backward! {
        (A, B)([grads], A: Tensor, B: crate::autograd::Geometry, left: bool, result: Tensor, LU: Tensor, pivots: Tensor) => {
            let _ = (&result, &LU, &pivots);
            solve_backward(grads, &A, &B, left)?
        }
    };
    samples: |m| solve_samples(m).into_iter().map(|(a, b, left)| sample![a, b, left, false]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn solve_with_factors(&self, b: &Tensor, left: bool, check_errors: bool) -> Vec<Tensor> [self, b, left, check_errors];
}

fn linalg_solve_ex_any(a: &Tensor, b: &Tensor, left: bool, check_errors: bool) -> Result<(Tensor, Tensor)> {
    let [x, _, _, info] = <[Tensor; 4]>::try_from(a.solve_with_factors(b, left, check_errors)?)
        .map_err(|_| crate::Error::runtime("a solution has four parts"))?;
    Ok((x, info))
}
fn linalg_solve_any(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    let (x, info) = linalg_solve_ex_any(a, b, left, false)?;
    check_info("torch.linalg.solve", &info, ErrorKind::LinAlg, says_singular)?;
    Ok(x)
}

op! {
    /// The solution of `A X = B` (or `X A = B`), and where each failed (0: nowhere).
    linalg_solve_ex: "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
        Out OUT: "linalg_solve_ex.out(Tensor A, Tensor B, *, bool left=True, bool check_errors=False, Tensor(a!) result, Tensor(b!) info) -> (Tensor(a!) result, Tensor(b!) info)";
    Body::Composite(kernel!(linalg_solve_ex_any; a, b, left, check_errors));
    samples: |m| solve_samples(m).into_iter().map(|(a, b, left)| sample![a, b, left, false]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
}
op! {
    /// The solution of `A X = B`, or of `X A = B` if not `left`; B may be a vector.
    linalg_solve: "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
        Out OUT: "linalg_solve.out(Tensor A, Tensor B, *, bool left=True, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(linalg_solve_any; a, b, left));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().map(|a| sample![a, m.any(&[2, 3]), true]).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::EXACT;
    fn solve(&self, b: &Tensor, left: bool) -> Tensor [self, b, left];
}

fn inv_ex_any(a: &Tensor, check_errors: bool) -> Result<(Tensor, Tensor)> {
    check_square_field("linalg.inv", "A", a)?;
    let n = shape(a).0;
    let turned = factorizes_transpose(a);
    let (packed, pivots, info) = if turned { a.mt()? } else { a.clone() }.lu_factor_ex(true, false)?;
    let inverse = packed.lu_solve(&pivots, &identity(n, a)?, true, turned)?;
    if check_errors {
        check_info("linalg.inv_ex", &info, ErrorKind::LinAlg, says_not_invertible)?;
    }
    Ok((inverse, info))
}

op! {
    /// The inverses of matrices, and where each failed (0: nowhere).
    linalg_inv_ex: "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
        Out OUT: "linalg_inv_ex.inverse(Tensor A, *, bool check_errors=False, Tensor(a!) inverse, Tensor(b!) info) -> (Tensor(a!) inverse, Tensor(b!) info)";
    Body::Explicit(kernel!(inv_ex_any; a, check_errors));
    derivative: backward! { A(g, inverse: Tensor) => {
        let turned = inverse.mh()?;
        turned.matmul(&g.matmul(&turned)?)?.neg()?
    } };
    samples: |m| [&[3i64, 3][..], &[2, 2, 2]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x, false]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn inv_ex(&self, check_errors: bool) -> (Tensor, Tensor) [self, check_errors];
}

/// The inverse, under the name that its errors are to have.
pub(super) fn inverse_named(op: &str, a: &Tensor) -> Result<Tensor> {
    let (inverse, info) = a.inv_ex(false)?;
    check_info(op, &info, ErrorKind::LinAlg, says_not_invertible)?;
    Ok(inverse)
}
fn inv_any(a: &Tensor) -> Result<Tensor> {
    inverse_named("linalg.inv", a)
}

op! {
    /// The inverses of matrices.
    linalg_inv: "linalg_inv(Tensor A) -> Tensor", Out OUT: "linalg_inv.out(Tensor A, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(inv_any; a));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn inv(&self) -> Tensor [self];
}
op! {
    /// The inverses of matrices; see `linalg_inv`.
    inverse: "inverse(Tensor self) -> Tensor", Out OUT: "inverse.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(inv_any; a));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn inverse(&self) -> Tensor [self];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    _linalg_solve_ex::ALL,
    _lu_with_info::ALL,
    inverse::ALL,
    linalg_inv::ALL,
    linalg_inv_ex::ALL,
    linalg_lu::ALL,
    linalg_lu_factor::ALL,
    linalg_lu_factor_ex::ALL,
    linalg_lu_solve::ALL,
    linalg_solve::ALL,
    linalg_solve_ex::ALL,
    lu_solve::ALL,
    lu_unpack::ALL,
];
