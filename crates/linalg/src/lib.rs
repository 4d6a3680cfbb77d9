//! Factorizations of one matrix, in LAPACK's formats: numbers in, numbers out. No tensors, no batches.
//!
//! Matrices are slices in column-major order without gaps; sizes come first, then what is read, then what is written.
//! Cholesky, LU, triangular solves, singular values and general eigenvalues are faer's algorithms; what faer does not have in
//! the form that LAPACK (and so PyTorch) shows (reflectors with real diagonals, symmetric pivoting) is in `householder` and
//! `symmetric`. Hermitian matrices become tridiagonal in `reduction`; eigenvalues alone come from there by `tridiagonal`,
//! eigenvectors by `conquer`. So do singular values and vectors of narrow numbers, by `bidiagonal`. Small matrices, which come
//! in large batches, have loops of their own: LU and QR in `small`, general eigenvalues in `general`. [`Field`] has one method per factorization; each is compiled here, once for each
//! of four dtypes, so that nothing that uses this crate compiles faer's generic code again.

mod bidiagonal;
mod conquer;
mod factor;
mod general;
mod householder;
mod number;
mod plain;
mod reduction;
mod secular;
mod small;
mod spectral;
mod symmetric;
mod tridiagonal;

pub use number::Number;

use flambeau_base::Element;
use num_complex::Complex;

/// How a triangular matrix is meant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Triangle {
    /// Whether its elements are on and above the diagonal, not on and below.
    pub upper: bool,
    /// Whether the diagonal is taken for ones.
    pub unit: bool,
    /// Whether its conjugate transpose is meant. (The other two say how it is stored.)
    pub adjoint: bool,
}

/// The numbers that matrices are factorized in.
///
/// Methods that give an `i32` give LAPACK's `info`: 0, or what went wrong, or where.
pub trait Field: Element + Number<Part: Element> {
    /// The lower Cholesky factor in place of an `n * n` matrix whose lower triangle is read; zeros above. A positive
    /// result is the order of the first leading minor that is not positive definite.
    fn cholesky(n: usize, a: &mut [Self]) -> i32;

    /// LU factors with partial pivoting in place of an `m * n` matrix, and the rows swapped, from 1. A positive result is
    /// the place of the first zero on U's diagonal.
    fn lu(m: usize, n: usize, a: &mut [Self], pivots: &mut [i32]) -> i32;

    /// Solves `A x = b` (or with `A`'s conjugate transpose) for `k` columns in place, from what [`Field::lu`] gave. The
    /// pivots must be in `1..=n`.
    fn lu_solve(n: usize, k: usize, lu: &[Self], pivots: &[i32], adjoint: bool, b: &mut [Self]);

    /// Solves `A x = b` for `k` columns in place, `A` triangular; `x A = b` for `k` rows if not `left`.
    fn solve_triangular(n: usize, k: usize, a: &[Self], triangle: Triangle, left: bool, b: &mut [Self]);

    /// Bunch and Kaufman's LDL in place of a symmetric (or Hermitian) matrix whose lower triangle is read, as LAPACK's
    /// `sytrf` and `hetrf`: a pair of equal negative pivots stands for a 2 * 2 block.
    fn ldl(n: usize, hermitian: bool, a: &mut [Self], pivots: &mut [i32]) -> i32;

    /// Solves `A x = b` for `k` columns in place, from what [`Field::ldl`] gave. The pivots must be in `1..=n` or
    /// `-n..=-1`.
    fn ldl_solve(n: usize, k: usize, ld: &[Self], pivots: &[i32], hermitian: bool, b: &mut [Self]);

    /// Householder's reflectors and R in place of an `m * n` matrix, as LAPACK's `geqrf`: R's diagonal is real.
    fn qr(m: usize, n: usize, a: &mut [Self], tau: &mut [Self]);

    /// The first `n` columns of the product of the `tau.len()` reflectors stored in an `m * n` matrix, in place of it.
    fn reflectors_to_matrix(m: usize, n: usize, a: &mut [Self], tau: &[Self]);

    /// Multiplies an `m * n` matrix in place by the product of reflectors (of `m` elements each, or `n` if not `left`) or
    /// its conjugate transpose.
    fn apply_reflectors(m: usize, n: usize, v: &[Self], tau: &[Self], left: bool, adjoint: bool, c: &mut [Self]);

    /// Singular values of an `m * n` matrix in descending order; with vectors, U and V's conjugate transpose, whose
    /// lengths say whether all columns and rows are wanted or only the first `min(m, n)`. A positive result says that it
    /// did not converge.
    fn svd(m: usize, n: usize, a: &[Self], s: &mut [Self::Part], vectors: Option<(&mut [Self], &mut [Self])>) -> i32;

    /// Eigenvalues in ascending order of a Hermitian matrix whose lower triangle is read, and its eigenvectors if wanted.
    fn eigh(n: usize, a: &[Self], values: &mut [Self::Part], vectors: Option<&mut [Self]>) -> i32;

    /// Eigenvalues of any matrix, and its eigenvectors if wanted: of length one, the largest element real.
    fn eig(
        n: usize,
        a: &[Self],
        values: &mut [Complex<Self::Part>],
        vectors: Option<&mut [Complex<Self::Part>]>,
    ) -> i32;
}

/// `$wide` is what eigenvalues and singular values are computed in: single precision loses a digit that LAPACK keeps.
macro_rules! fields {
    ($($t:ty, $wide:ty, $eig:ident;)*) => { $(
        impl Field for $t {
            fn cholesky(n: usize, a: &mut [Self]) -> i32 {
                factor::cholesky(n, a)
            }
            fn lu(m: usize, n: usize, a: &mut [Self], pivots: &mut [i32]) -> i32 {
                factor::lu(m, n, a, pivots)
            }
            fn lu_solve(n: usize, k: usize, lu: &[Self], pivots: &[i32], adjoint: bool, b: &mut [Self]) {
                factor::lu_solve(n, k, lu, pivots, adjoint, b);
            }
            fn solve_triangular(n: usize, k: usize, a: &[Self], triangle: Triangle, left: bool, b: &mut [Self]) {
                factor::solve_triangular(n, k, a, triangle, left, b);
            }
            fn ldl(n: usize, hermitian: bool, a: &mut [Self], pivots: &mut [i32]) -> i32 {
                symmetric::ldl(n, hermitian, a, pivots)
            }
            fn ldl_solve(n: usize, k: usize, ld: &[Self], pivots: &[i32], hermitian: bool, b: &mut [Self]) {
                symmetric::ldl_solve(n, k, ld, pivots, hermitian, b);
            }
            fn qr(m: usize, n: usize, a: &mut [Self], tau: &mut [Self]) {
                householder::qr(m, n, a, tau);
            }
            fn reflectors_to_matrix(m: usize, n: usize, a: &mut [Self], tau: &[Self]) {
                householder::reflectors_to_matrix(m, n, a, tau);
            }
            fn apply_reflectors(m: usize, n: usize, v: &[Self], tau: &[Self], left: bool, adjoint: bool, c: &mut [Self]) {
                householder::apply(m, n, v, tau, left, adjoint, c);
            }
            fn svd(
                m: usize,
                n: usize,
                a: &[Self],
                s: &mut [Self::Part],
                vectors: Option<(&mut [Self], &mut [Self])>,
            ) -> i32 {
                spectral::svd::<Self, $wide>(m, n, a, s, vectors)
            }
            fn eigh(n: usize, a: &[Self], values: &mut [Self::Part], vectors: Option<&mut [Self]>) -> i32 {
                spectral::eigh::<Self, $wide>(n, a, values, vectors)
            }
            fn eig(
                n: usize,
                a: &[Self],
                values: &mut [Complex<Self::Part>],
                vectors: Option<&mut [Complex<Self::Part>]>,
            ) -> i32 {
                spectral::$eig::<Self>(n, a, values, vectors)
            }
        }
    )* };
}
fields! {
    f32, f64, eig_real;
    f64, f64, eig_real;
    Complex<f32>, Complex<f64>, eig_complex;
    Complex<f64>, Complex<f64>, eig_complex;
}
