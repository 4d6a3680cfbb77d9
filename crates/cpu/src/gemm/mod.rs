//! Matrix products of every element type: `C = alpha * A @ B + beta * C`.
//!
//! [`gemm`] takes a dtype and any strides; [`gemm_typed`] is the same for a known element type; [`batched_gemm`] and
//! [`gemm_at_offsets`] do many products of one shape. Floating-point types compute in themselves and halves in `f32`,
//! rounded once at the end; integers wrap; complex operands can be conjugated on the way.
//!
//! Bits depend on sizes and on the machine's instruction set, never on the number of threads.

mod groups;
mod kernel;
mod multiply;
mod one_sum;
mod operand;
mod pack;
mod panels;
mod rows;
mod simd;
mod tiles;

#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
pub(crate) use groups::{GroupKernels, pairs_are_fast, zip};
#[cfg(target_arch = "x86_64")]
pub(crate) use kernel::{Block, Sums, bf16_kernels};
pub use operand::{Entry, Operand, Summand};
pub(crate) use pack::with_buffer;
pub(crate) use panels::Panels;
#[cfg(target_arch = "x86_64")]
pub(crate) use simd::{MASKS, PairsX16, StoreAs, Vector};
#[cfg(target_arch = "x86_64")]
pub(crate) use tiles::Tiles;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
pub(crate) use tiles::emulator;

use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, Scalar, dispatch};
use multiply::{Product, Shared};
use operand::Byte;

/// The sizes of a product: `C` is `m` by `n`, `A` is `m` by `k`, `B` is `k` by `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
}

/// A matrix that is read: where it starts, its strides in elements (any sign, zero too), and whether it is conjugated.
#[derive(Debug)]
pub struct Matrix<T> {
    /// Element (0, 0).
    pub start: *const T,
    /// From one row to the next.
    pub row_stride: isize,
    /// From one column to the next.
    pub column_stride: isize,
    /// Whether the complex conjugate is meant (no effect on real types).
    pub conj: bool,
}

impl<T> Clone for Matrix<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Matrix<T> {}

/// The matrix that is written.
#[derive(Debug)]
pub struct MatrixMut<T> {
    /// Element (0, 0).
    pub start: *mut T,
    /// From one row to the next.
    pub row_stride: isize,
    /// From one column to the next.
    pub column_stride: isize,
}

impl<T> Clone for MatrixMut<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for MatrixMut<T> {}

/// `C = alpha * A @ B + beta * C`.
///
/// `beta == 0` does not read C, so NaN there goes nowhere; `alpha == 0` or `k == 0` does not read A and B.
///
/// # Safety
/// The matrices must be valid for the sizes and strides; C's elements must not overlap one another, A or B.
#[inline]
pub unsafe fn gemm_typed<T: Entry>(
    sizes: Sizes,
    alpha: T::Factor,
    a: Matrix<T>,
    b: Matrix<T>,
    beta: T::Factor,
    c: MatrixMut<T::Out>,
) {
    // SAFETY: forwarded contract.
    unsafe {
        multiply::run(Product {
            m: sizes.m,
            n: sizes.n,
            k: sizes.k,
            alpha,
            a: a.start,
            a_row: a.row_stride,
            a_column: a.column_stride,
            conj_a: a.conj,
            b: b.start,
            b_row: b.row_stride,
            b_column: b.column_stride,
            conj_b: b.conj,
            beta: (beta != T::ZERO).then_some(beta),
            c: c.start,
            c_row: c.row_stride,
            c_column: c.column_stride,
        })
    }
}

/// `C = A @ B` of bytes, each with a sign or (`unsigned`) without, with `i32` sums, which wrap.
///
/// # Safety
/// As for [`gemm_typed`].
pub unsafe fn byte_gemm(sizes: Sizes, a: Matrix<u8>, b: Matrix<u8>, unsigned: [bool; 2], c: MatrixMut<i32>) {
    let Sizes { m, n, k } = sizes;
    // SAFETY: forwarded contract; a `Byte` is a `u8`.
    unsafe {
        multiply::run(Product::<Byte> {
            m,
            n,
            k,
            alpha: 1,
            a: a.start.cast(),
            a_row: a.row_stride,
            a_column: a.column_stride,
            conj_a: unsigned[0],
            b: b.start.cast(),
            b_row: b.row_stride,
            b_column: b.column_stride,
            conj_b: unsigned[1],
            beta: None,
            c: c.start,
            c_row: c.row_stride,
            c_column: c.column_stride,
        })
    }
}

/// [`gemm_typed`] for a dtype known at run time; every dtype but `bool`, which has no matrix product and is left alone.
///
/// # Safety
/// As for [`gemm_typed`], with the pointers pointing to elements of `dtype`.
#[inline(never)] // Else callers' crates compile the products of every dtype again.
pub unsafe fn gemm(
    dtype: DType,
    sizes: Sizes,
    alpha: Scalar,
    a: Matrix<u8>,
    b: Matrix<u8>,
    beta: Scalar,
    c: MatrixMut<u8>,
) {
    debug_assert!(dtype != DType::Bool);
    // (Of integers with signs: the bits are the same.)
    // SAFETY: forwarded contract.
    dispatch!(dtype.to_signed(), T in [reals, halves, complexes, signed] => unsafe {
        gemm_typed::<T>(sizes, <T as Entry>::factor(alpha), a.cast(), b.cast(), <T as Entry>::factor(beta), c.cast())
    }; else ())
}

impl<T> Matrix<T> {
    /// The same matrix with elements of another type.
    #[inline]
    pub fn cast<U>(self) -> Matrix<U> {
        let Matrix { start, row_stride, column_stride, conj } = self;
        Matrix { start: start.cast(), row_stride, column_stride, conj }
    }
}

impl<T> MatrixMut<T> {
    /// The same matrix with elements of another type.
    #[inline]
    pub fn cast<U>(self) -> MatrixMut<U> {
        let MatrixMut { start, row_stride, column_stride } = self;
        MatrixMut { start: start.cast(), row_stride, column_stride }
    }
}

/// Multiply-adds worth a piece of a batch.
const PIECE: usize = 1 << 18;
/// Multiply-adds from which one product is cut into pieces itself.
const LARGE: usize = 1 << 24;

/// `batch` products of one shape, each matrix `stride` elements after the one before (zero repeats it).
///
/// # Safety
/// As for [`gemm`], for every product of the batch; the results must not overlap.
pub unsafe fn batched_gemm(
    dtype: DType,
    batch: usize,
    sizes: Sizes,
    alpha: Scalar,
    (a, a_stride): (Matrix<u8>, isize),
    (b, b_stride): (Matrix<u8>, isize),
    beta: Scalar,
    (c, c_stride): (MatrixMut<u8>, isize),
) {
    let Sizes { m, .. } = sizes;
    let tall = |row: isize, stride: isize| stride == row * m as isize;
    // One B for every A, and the rows of A and C go on through the batch: one tall product.
    let is_tall = b_stride == 0 && tall(a.row_stride, a_stride) && tall(c.row_stride, c_stride);
    if is_tall && FastPath::GemmTall.is_on() {
        // SAFETY: the tall matrices consist of the batch's.
        return unsafe { gemm(dtype, Sizes { m: m * batch, ..sizes }, alpha, a, b, beta, c) };
    }
    let at = |i: usize| (i as isize * a_stride, i as isize * b_stride, i as isize * c_stride);
    // SAFETY: forwarded contract.
    unsafe { for_each(dtype, batch, sizes, alpha, a, b, beta, c, &at) }
}

/// Products of one shape at irregular places: `offsets` holds, for each, how many elements after the matrices' starts
/// its A, B and C begin.
///
/// # Safety
/// As for [`batched_gemm`].
pub unsafe fn gemm_at_offsets(
    dtype: DType,
    offsets: &[[isize; 3]],
    sizes: Sizes,
    alpha: Scalar,
    a: Matrix<u8>,
    b: Matrix<u8>,
    beta: Scalar,
    c: MatrixMut<u8>,
) {
    let at = |i: usize| (offsets[i][0], offsets[i][1], offsets[i][2]);
    // SAFETY: forwarded contract.
    unsafe { for_each(dtype, offsets.len(), sizes, alpha, a, b, beta, c, &at) }
}

unsafe fn for_each(
    dtype: DType,
    batch: usize,
    sizes: Sizes,
    alpha: Scalar,
    a: Matrix<u8>,
    b: Matrix<u8>,
    beta: Scalar,
    c: MatrixMut<u8>,
    at: &(dyn Fn(usize) -> (isize, isize, isize) + Sync),
) {
    let size = dtype.size() as isize;
    let (a_start, b_start, c_start) = (Shared(a.start.cast_mut()), Shared(b.start.cast_mut()), Shared(c.start));
    let (a_strides, b_strides) = ((a.row_stride, a.column_stride, a.conj), (b.row_stride, b.column_stride, b.conj));
    let c_strides = (c.row_stride, c.column_stride);
    let run = |range: std::ops::Range<usize>| {
        for i in range {
            let (ao, bo, co) = at(i);
            // SAFETY: product i of the caller's batch.
            unsafe {
                let matrix = |start: *const u8, (row_stride, column_stride, conj)| Matrix {
                    start,
                    row_stride,
                    column_stride,
                    conj,
                };
                let c = MatrixMut {
                    start: c_start.get().offset(co * size),
                    row_stride: c_strides.0,
                    column_stride: c_strides.1,
                };
                let a = matrix(a_start.get().offset(ao * size), a_strides);
                let b = matrix(b_start.get().offset(bo * size), b_strides);
                gemm(dtype, sizes, alpha, a, b, beta, c);
            }
        }
    };
    let work = (sizes.m * sizes.n).saturating_mul(sizes.k.max(1)).max(1);
    if work >= LARGE {
        run(0..batch);
    } else {
        parallel_for(batch, PIECE.div_ceil(work), &run);
    }
}
