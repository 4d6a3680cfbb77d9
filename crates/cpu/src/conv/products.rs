//! Convolutions of one tap at every position, which are products of matrices as they lie in memory: the weight, channels
//! by channels, times an image, channels by positions. Channels last, positions of all images by channels times the weight.

use super::ConvShape;
use super::simd::{Shared, level};
use crate::copy::copy_strided;
use crate::gemm::{Entry, Matrix, MatrixMut, Sizes, Summand, gemm};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::{num_threads, parallel_for};
use flambeau_base::{DType, Scalar};
use std::ops::Range;

/// The most channels of a result of `f32` or `f64` that are computed another way: it packs less.
const FEW_CHANNELS: usize = 16;
/// The fewest terms of sums that are added to a bias: it is written first.
const DEEP_SUMS: usize = 256;
/// The fewest positions of several images: each is a product, for which the weight is read again.
const MANY_POSITIONS: usize = 128;
/// Products for each thread from which on each is one thread's.
const PRODUCTS_OF_THREAD: usize = 4;
/// Multiply-adds worth a task: some 10 microseconds.
const PIECE: usize = 1 << 20;

/// Whether every result position is under one tap, at the same position.
fn is_product(s: &ConvShape) -> bool {
    s.groups == 1 && s.kernel == [1; 3] && s.stride == [1; 3] && s.padding == [0; 3] && s.input == s.output
}

/// Computes the convolution or its transpose, with the weight or its conjugate. `false` if it is no product, or if
/// another way is faster.
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
        // (Where pairs are not quick, pixels of halves are widened once for many channels.)
        _ if s.channels_last => {
            dtype == DType::BF16 && bias.is_none() && Summand::group_kernels(level(), [false; 2]).is_some()
        }
        _ if s.batch > 1 && positions < MANY_POSITIONS || bias.is_some() && depth < DEEP_SUMS => false,
        DType::F32 | DType::F64 => channels > FEW_CHANNELS,
        _ => true,
    };
    if !FastPath::ConvProducts.is_on() || !is_product(s) || !faster || s.batch * positions * channels * depth == 0 {
        return false;
    }
    let (row_stride, column_stride) = if transpose { (1, s.in_channels as isize) } else { (s.in_channels as isize, 1) };
    let matrix =
        |start: *const u8, width: usize| Matrix { start, row_stride: width as isize, column_stride: 1, conj: false };
    let one = Scalar::Int(1);
    if s.channels_last {
        let sizes = Sizes { m: s.batch * positions, n: channels, k: depth };
        let weight = Matrix { start: weight, row_stride: column_stride, column_stride: row_stride, conj: conjugate };
        let c = MatrixMut { start: result, row_stride: channels as isize, column_stride: 1 };
        // SAFETY: the caller's.
        unsafe { gemm(dtype, sizes, one, matrix(source, depth), weight, Scalar::Int(0), c) };
        return true;
    }
    let sizes = Sizes { m: channels, n: positions, k: depth };
    let (source, weight, result) = (Shared(source.cast_mut()), Shared(weight.cast_mut()), Shared(result));
    let bias = bias.map(|bias| Shared(bias.cast_mut()));
    let size = dtype.size();
    let images = |range: Range<usize>| {
        for image in range {
            // SAFETY: the caller's; each image of the result is written by one task.
            unsafe {
                let start = result.get().add(image * channels * positions * size);
                if let Some(bias) = &bias {
                    let strides = [(positions * size) as isize, size as isize];
                    let rows = (bias.get().cast_const(), &[size as isize, 0][..], dtype);
                    copy_strided(&[channels as i64, positions as i64], (start, &strides, dtype), rows);
                }
                let weight = Matrix { start: weight.get().cast_const(), row_stride, column_stride, conj: conjugate };
                let pixels = matrix(source.get().add(image * depth * positions * size), positions);
                let c = MatrixMut { start, row_stride: positions as isize, column_stride: 1 };
                gemm(dtype, sizes, one, weight, pixels, Scalar::Int(bias.is_some() as i64), c);
            }
        }
    };
    let threads = num_threads();
    let apart = s.batch.is_multiple_of(threads) || s.batch >= PRODUCTS_OF_THREAD * threads;
    if apart {
        parallel_for(s.batch, PIECE.div_ceil(channels * positions * depth), &images)
    } else {
        images(0..s.batch)
    }
    true
}
