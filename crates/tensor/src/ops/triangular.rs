//! Triangular systems.

use super::lu::solution_sizes;
use super::matrices::{check_kernel, column_copy, column_target, columns, deliver, field, for_each, shape, sizes_of};
use crate::samples::Maker;
use crate::{Body, Op, OutRule, Result, Tensor, TensorSpec, backward, sample};
use flambeau_linalg::{Field, Triangle};

const NAME: &str = "linalg.solve_triangular";

fn solve_plan(a: &Tensor, b: &Tensor, _upper: bool, left: bool, _unit: bool) -> Result<TensorSpec> {
    check_kernel("triangular_solve_cpu", a)?;
    let sizes = solution_sizes(NAME, a, b, left)?;
    let n = sizes.len();
    Ok(columns(&sizes[..n - 2], &sizes[n - 2..], b.dtype(), b.device()))
}
fn solve_run(a: &Tensor, b: &Tensor, upper: bool, left: bool, unit: bool, outs: &[Tensor]) -> Result<()> {
    let target = column_target(&outs[0])?;
    target.copy_(b)?;
    let n = shape(a).0;
    let k = if left { shape(b).1 } else { shape(b).0 };
    let over = &target.sizes()[..target.dim() - 2];
    // A matrix in row-major order is its transpose in column-major order.
    let turned = !a.dtype().is_complex() && a.is_contiguous();
    let whole = sizes_of(over, &[n, n]);
    let a = if turned { column_copy(&a.mt()?, &whole)? } else { column_copy(a, &whole)? };
    let triangle = Triangle { upper: upper != turned, unit, adjoint: turned };
    let count = over.iter().product();
    field!("triangular_solve", b.dtype(), T => for_each(count, (n * n * k) as f64, 1, &[&target, &a], |items| {
        T::solve_triangular(n as usize, k as usize, items.read::<T>(1), triangle, left, items.write::<T>(0));
    }))?;
    deliver(&outs[0], &target)
}

/// The elements that are read: with ones on the diagonal, none of it.
fn triangle_of(x: &Tensor, upper: bool, unit: bool) -> Result<Tensor> {
    if upper { x.triu(unit as i64) } else { x.tril(-(unit as i64)) }
}

fn gradient_of_b(g: &Tensor, a: &Tensor, upper: bool, left: bool, unit: bool) -> Result<Tensor> {
    a.mh()?.solve_triangular(g, !upper, left, unit)
}

fn gradient_of_a(g: &Tensor, a: &Tensor, upper: bool, left: bool, unit: bool, x: &Tensor) -> Result<Tensor> {
    let gb = gradient_of_b(g, a, upper, left, unit)?;
    let whole = if left { gb.matmul(&x.mh()?)? } else { x.mh()?.matmul(&gb)? };
    triangle_of(&whole, upper, unit)?.neg()
}

/// Matrices with a diagonal far from zero, and right-hand sides for the left and the right.
fn systems(m: &mut Maker) -> Vec<(Tensor, Tensor, bool)> {
    if !m.dtype.is_differentiable() {
        return vec![];
    }
    let sizes: [(&[i64], &[i64], bool); 3] = [(&[3, 3], &[3, 2], true), (&[2, 3, 3], &[3, 2], true), (&[3, 3], &[2, 2, 3], false)];
    sizes.into_iter().map(|(a, b, left)| (m.uniform(a, 0.5, 2.0), m.any(b), left)).collect()
}

op! {
    /// The solution of `A X = B` (or `X A = B` if not `left`) for triangular A, of which the other triangle is not read.
    linalg_solve_triangular: "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
        Out OUT: "linalg_solve_triangular.out(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(solve_plan; a, b, upper, left, unit), run: run!(solve_run; a, b, upper, left, unit) };
    derivative: backward! {
        self_(g, self_: Tensor, upper: bool, left: bool, unitriangular: bool, result: Tensor) =>
            gradient_of_a(g, &self_, upper, left, unitriangular, &result)?,
        B(g, self_: Tensor, upper: bool, left: bool, unitriangular: bool) => gradient_of_b(g, &self_, upper, left, unitriangular)?,
    };
    samples: |m| systems(m).into_iter().flat_map(|(a, b, left)| [
        sample![a.clone(), b.clone(), true, left, false], sample![a, b, false, left, true],
    ]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
    fn solve_triangular(&self, b: &Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor [self, b, upper, left, unitriangular];
}

fn triangular_solve_any(b: &Tensor, a: &Tensor, upper: bool, transpose: bool, unit: bool) -> Result<(Tensor, Tensor)> {
    check_kernel("triangular_solve_cpu", b)?;
    let sizes = solution_sizes("triangular_solve", a, b, true)?;
    let n = shape(a).0;
    let copy = a.expand(&sizes_of(&sizes[..sizes.len() - 2], &[n, n]))?.mt()?.clone_in(crate::MemoryFormat::Contiguous)?.mt()?;
    let solution = match transpose {
        true => a.mt()?.solve_triangular(b, !upper, true, unit)?,
        false => a.solve_triangular(b, upper, true, unit)?,
    };
    Ok((solution, copy))
}

op! {
    /// The solution of `A X = self` for triangular A, or for its transpose, and a copy of A; see `linalg_solve_triangular`.
    triangular_solve: "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
        Out OUT: "triangular_solve.X(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False, *, Tensor(a!) X, Tensor(b!) M) -> (Tensor(a!) solution, Tensor(b!) cloned_coefficient)";
    Body::Composite(kernel!(triangular_solve_any; b, a, upper, transpose, unit));
    samples: |m| systems(m).into_iter().filter(|s| s.2).flat_map(|(a, b, _)| [
        sample![b.clone(), a.clone(), true, false, false], sample![b, a, false, true, true],
    ]).collect();
    ulp: 256.0;
    out_rule: OutRule::EXACT;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[linalg_solve_triangular::ALL, triangular_solve::ALL];
