//! LDL factors of symmetric and Hermitian matrices, which need not be definite.

use super::lu::solution_sizes;
use super::matrices::{
    batch, check_info, check_floating, check_kernel, check_square, column_copy, column_target, columns, deliver, field, for_each,
    row_copy, row_target, shape, sizes_of,
};
use crate::{Body, DType, ErrorKind, Op, OutRule, Result, Tensor, TensorSpec, ensure, sample};
use flambeau_linalg::Field;
use std::sync::atomic::{AtomicBool, Ordering};

fn says_zero(info: i32) -> String {
    format!("The factorization was completed, but D[{info},{info}] is zero: a solution would divide by it.")
}

fn factor_plan(x: &Tensor, _hermitian: bool, _check_errors: bool) -> Result<[TensorSpec; 3]> {
    check_square("torch.linalg.ldl_factor_ex", "self", x)?;
    check_floating("torch.linalg.ldl_factor_ex", x)?;
    check_kernel("ldl_factor_kernel_cpu", x)?;
    let (n, _) = shape(x);
    Ok([
        columns(batch(x), &[n, n], x.dtype(), x.device()),
        TensorSpec::new(sizes_of(batch(x), &[n]), DType::I32, x.device()),
        TensorSpec::new(batch(x), DType::I32, x.device()),
    ])
}
fn factor_run(x: &Tensor, hermitian: bool, check_errors: bool, outs: &[Tensor]) -> Result<()> {
    let n = shape(x).0 as usize;
    let targets = [column_target(&outs[0])?, row_target(&outs[1])?, row_target(&outs[2])?];
    targets[0].copy_(&x.tril(0)?)?;
    let [a, pivots, info] = &targets;
    field!("ldl_factor", x.dtype(), T => for_each(info.numel(), (n * n * n) as f64 / 3.0, 3, &[a, pivots, info], |items| {
        let result = T::ldl(n, hermitian, items.write::<T>(0), items.write(1));
        items.write::<i32>(2)[0] = result;
    }))?;
    for (out, target) in outs.iter().zip(&targets) {
        deliver(out, target)?;
    }
    if check_errors {
        check_info("torch.linalg.ldl_factor_ex", &outs[2], ErrorKind::LinAlg, says_zero)?;
    }
    Ok(())
}

fn samples(m: &mut crate::samples::Maker) -> Vec<(Tensor, bool)> {
    let made = [crate::ops::cholesky::definite(m, &[3, 3]), crate::ops::cholesky::definite(m, &[2, 3, 3])].concat();
    made.into_iter().zip([false, true]).collect()
}

op! {
    /// The LDL factors of symmetric (or Hermitian) matrices in LAPACK's form, the pivots, and where each failed.
    linalg_ldl_factor_ex: "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)",
        Out OUT: "linalg_ldl_factor_ex.out(Tensor self, *, bool hermitian=False, bool check_errors=False, Tensor(a!) LD, Tensor(b!) pivots, Tensor(c!) info) -> (Tensor(a!) LD, Tensor(b!) pivots, Tensor(c!) info)";
    Body::Structured { plan: plan!(factor_plan; x, hermitian, check_errors), run: run!(factor_run; x, hermitian, check_errors) };
    derivative: crate::autograd::Derivative::NotImplemented("derivative for linalg_ldl_factor_ex is not implemented");
    samples: |m| samples(m).into_iter().map(|(x, hermitian)| sample![x, hermitian, false]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn ldl_factor_ex(&self, hermitian: bool, check_errors: bool) -> (Tensor, Tensor, Tensor) [self, hermitian, check_errors];
}

fn ldl_factor_any(x: &Tensor, hermitian: bool) -> Result<(Tensor, Tensor)> {
    let (factors, pivots, info) = x.ldl_factor_ex(hermitian, false)?;
    check_info("torch.linalg.ldl_factor", &info, ErrorKind::LinAlg, says_zero)?;
    Ok((factors, pivots))
}

op! {
    /// The LDL factors of symmetric (or Hermitian) matrices in LAPACK's form, and the pivots.
    linalg_ldl_factor: "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
        Out OUT: "linalg_ldl_factor.out(Tensor self, *, bool hermitian=False, Tensor(a!) LD, Tensor(b!) pivots) -> (Tensor(a!) LD, Tensor(b!) pivots)";
    Body::Composite(kernel!(ldl_factor_any; x, hermitian));
    samples: |m| samples(m).into_iter().map(|(x, hermitian)| sample![x, hermitian]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
}

const SOLVE: &str = "torch.linalg.ldl_solve";

fn solve_plan(factors: &Tensor, pivots: &Tensor, b: &Tensor, _hermitian: bool) -> Result<TensorSpec> {
    check_floating(SOLVE, factors)?;
    check_kernel("ldl_solve_kernel_cpu", factors)?;
    let sizes = solution_sizes(SOLVE, factors, b, true)?;
    ensure!(
        pivots.dtype() == DType::I32 || pivots.dtype() == DType::I64,
        "{SOLVE}: Expected pivots to be integers. Got {}",
        pivots.dtype().scalar_type_name()
    );
    ensure!(
        pivots.dim() + 1 == factors.dim() && pivots.sizes() == &factors.sizes()[..pivots.dim()],
        "{SOLVE}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {:?} instead.",
        pivots.sizes()
    );
    let n = sizes.len();
    Ok(columns(&sizes[..n - 2], &sizes[n - 2..], b.dtype(), b.device()))
}
fn solve_run(factors: &Tensor, pivots: &Tensor, b: &Tensor, hermitian: bool, outs: &[Tensor]) -> Result<()> {
    let (n, k) = (shape(factors).0, shape(b).1);
    let target = column_target(&outs[0])?;
    target.copy_(b)?;
    let over = &target.sizes()[..target.dim() - 2];
    let factors = column_copy(factors, &sizes_of(over, &[n, n]))?;
    let pivots = row_copy(&pivots.to_dtype(DType::I32)?, &sizes_of(over, &[n]))?;
    let wrong = AtomicBool::new(false);
    let count = over.iter().product();
    let order = n as usize;
    field!("ldl_solve", b.dtype(), T => for_each(count, (n * n * k) as f64, 1, &[&target, &factors, &pivots], |items| {
        let pivots = items.read::<i32>(2);
        if pivots.iter().any(|p| *p == 0 || p.unsigned_abs() as usize > order) {
            return wrong.store(true, Ordering::Relaxed);
        }
        T::ldl_solve(order, k as usize, items.read::<T>(1), pivots, hermitian, items.write(0));
    }))?;
    ensure!(!wrong.load(Ordering::Relaxed), "{SOLVE}: the pivots must be places of rows, as linalg.ldl_factor gives them");
    deliver(&outs[0], &target)
}

op! {
    /// The solution of `A X = B` from A's LDL factors.
    linalg_ldl_solve: "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
        Out OUT: "linalg_ldl_solve.out(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(solve_plan; factors, pivots, b, hermitian), run: run!(solve_run; factors, pivots, b, hermitian) };
    derivative: crate::autograd::Derivative::NotImplemented("derivative for linalg_ldl_solve is not implemented");
    samples: |m| samples(m).into_iter().filter_map(|(x, hermitian)| {
        let (factors, pivots, _) = x.ldl_factor_ex(hermitian, false).ok()?;
        Some(sample![factors, pivots, m.any(&[3, 2]), hermitian])
    }).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[linalg_ldl_factor::ALL, linalg_ldl_factor_ex::ALL, linalg_ldl_solve::ALL];
