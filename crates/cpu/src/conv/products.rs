//! Convolutions of one tap at every position, which are products of matrices as they lie in memory: the weight, channels by
//! channels, times an image, channels by positions. Channels last, positions of all images by channels times the weight.

use super::ConvShape;
use super::simd::{Shared, level};
use crate::gemm::{Entry, Matrix, MatrixMut, Sizes, Summand, batched_gemm};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, Scalar, dispatch};

/// The most channels of a result of `f32` or `f64` that are computed another way: it packs less.
const FEW_CHANNELS: usize = 16;
/// Bytes of results that get their bias before products are added to them: half of a second-level cache of 1 MiB.
const WITH_BIAS: usize = 512 << 10;
/// Numbers of a bias that a task writes at least.
const TASK_NUMBERS: usize = 1 << 15;

/// Whether every result position is under one tap, at the same position.
fn is_product(s: &ConvShape) -> bool {
    s.groups == 1 && s.kernel == [1; 3] && s.stride == [1; 3] && s.padding == [0; 3] && s.input == s.output
}

/// Computes the convolution or its transpose, with the weight or its conjugate. `false` if it is no product, or if another way
/// is faster.
///
/// # Safety
/// As for [`super::forward`].
pub(super) unsafe fn linear(
    dtype: DType,
    s: &ConvShape,
    (transpose, conjugate): (bool, bool),
    source: *const u8,
    weight: *const u8,
    bias: Option<*const u8>,
    result: *mut u8,
) -> bool {
    let (depth, channels) = if transpose { (s.out_channels, s.in_channels) } else { (s.in_channels, s.out_channels) };
    let positions: usize = s.input.iter().product();
    let faster = match dtype {
        DType::F32 | DType::F64 => !s.channels_last && channels > FEW_CHANNELS,
        // (Where pairs are not quick, pixels of halves are widened once for many channels.)
        DType::BF16 => !s.channels_last || Summand::group_kernels(level(), [false; 2]).is_some(),
        _ => !s.channels_last,
    };
    if !FastPath::ConvProducts.is_on() || !is_product(s) || !faster || s.batch * positions * channels * depth == 0 {
        return false;
    }
    let (row_stride, column_stride) = if transpose { (1, s.in_channels as isize) } else { (s.in_channels as isize, 1) };
    let weight = Matrix { start: weight, row_stride, column_stride, conj: conjugate };
    if s.channels_last {
        let sizes = Sizes { m: s.batch * positions, n: channels, k: depth };
        let rows = |start: *const u8, width: usize| Matrix {
            start,
            row_stride: width as isize,
            column_stride: 1,
            conj: false,
        };
        let weight = Matrix { row_stride: column_stride, column_stride: row_stride, ..weight };
        // SAFETY: the caller's.
        unsafe { product(dtype, (1, sizes), (rows(source, depth), 0), (weight, 0), bias.map(|b| (b, [0, 1])), result) };
    } else {
        let sizes = Sizes { m: channels, n: positions, k: depth };
        let image = Matrix { start: source, row_stride: positions as isize, column_stride: 1, conj: false };
        let apart = (depth * positions) as isize;
        // SAFETY: the caller's.
        unsafe { product(dtype, (s.batch, sizes), (weight, 0), (image, apart), bias.map(|b| (b, [1, 0])), result) };
    }
    true
}

/// Several products, with a bias that has these distances between rows and columns of every result. Results follow one another.
unsafe fn product(
    dtype: DType,
    (batch, sizes): (usize, Sizes),
    (a, a_apart): (Matrix<u8>, isize),
    (b, b_apart): (Matrix<u8>, isize),
    bias: Option<(*const u8, [usize; 2])>,
    result: *mut u8,
) {
    let Sizes { m, n, .. } = sizes;
    let size = dtype.size();
    let beta = Scalar::Int(bias.is_some() as i64);
    // Few results at a time have their bias: they are in a cache when products are added.
    let at_once = if bias.is_some() { (WITH_BIAS / (m * n * size)).clamp(1, batch) } else { batch };
    for first in (0..batch).step_by(at_once) {
        let count = at_once.min(batch - first);
        // SAFETY: matrices of the caller's batch.
        unsafe {
            let start = result.add(first * m * n * size);
            if let Some((bias, strides)) = bias {
                dispatch!(dtype, T in [ints, floats, complexes] => {
                    fill::<T>(bias.cast(), strides, [count * m, m, n], start.cast())
                }; else ());
            }
            let at = |x: Matrix<u8>, apart: isize| Matrix {
                start: x.start.offset(first as isize * apart * size as isize),
                ..x
            };
            let c = MatrixMut { start, row_stride: n as isize, column_stride: 1 };
            let apart = (m * n) as isize;
            batched_gemm(
                dtype,
                count,
                sizes,
                Scalar::Int(1),
                (at(a, a_apart), a_apart),
                (at(b, b_apart), b_apart),
                beta,
                (c, apart),
            );
        }
    }
}

/// `result[r, j] = bias[r % m * strides[0] + j * strides[1]]` for so many rows, `m` of each matrix, of `n`.
unsafe fn fill<T: Copy>(bias: *const T, strides: [usize; 2], [rows, m, n]: [usize; 3], result: *mut T) {
    let (from, to) = (Shared(bias.cast_mut()), Shared(result));
    parallel_for(rows, TASK_NUMBERS.div_ceil(n), &|range| {
        for row in range {
            // SAFETY: the caller's bias and rows; each is written once.
            unsafe {
                let from = from.get().cast_const().add(row % m * strides[0]);
                let to = to.get().add(row * n);
                if strides[1] == 0 {
                    let number = *from;
                    (0..n).for_each(|j| to.add(j).write(number));
                } else {
                    from.copy_to_nonoverlapping(to, n);
                }
            }
        }
    });
}
