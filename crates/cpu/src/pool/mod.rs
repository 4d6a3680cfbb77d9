//! Pooling in one to three dimensions: maxima and averages over fixed or adaptive windows, and their gradients.
//!
//! ```
//! use flambeau_base::DType;
//! use flambeau_cpu::pool::{PoolShape, max_pool, pool_output_size};
//! let width = pool_output_size(5, 2, 2, 0, 1, true).unwrap();
//! let shape = PoolShape::new(1, 1, [1, 1, 5], [1, 1, 2], [1, 1, 2], [0; 3], [1; 3], [1, 1, width]);
//! let (x, mut y, mut at) = ([1f32, 5.0, 2.0, 0.0, 3.0], [0f32; 3], [0i64; 3]);
//! // SAFETY: the arrays have the shape's sizes.
//! unsafe { max_pool(DType::F32, &shape, x.as_ptr().cast(), y.as_mut_ptr().cast(), Some(at.as_mut_ptr())) };
//! assert_eq!((y, at), ([5.0, 2.0, 3.0], [1, 2, 4]));
//! ```
//!
//! Windows are lists of positions per axis ([`window`]), so fixed and adaptive pooling are one code. Contiguous planes
//! are pooled a row of outputs at a time ([`planes`]), channels-last images a pixel of channels at a time ([`pixels`]):
//! both loops vectorise. Halves are pooled in `f32`, averages of integers in 64
//! bits.

mod pixels;
mod planes;
mod window;

#[cfg(test)]
mod tests;

pub use window::{PoolShape, pool_output_size, pool_windows};

use crate::math::{self, Isa, Number};
use flambeau_base::dtype::cast;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, Element, bf16, dispatch, f16};
use window::Windows;

/// Elements below which work is not split.
const GRAIN: usize = 1 << 15;

/// What a pooling kernel computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    /// The largest element of each window.
    Max,
    /// The average of each window; the divisor, or 0 for the window's own.
    Average(i64),
    /// Distributes each output gradient evenly over its window.
    AverageBackward(i64),
    /// Adds each output gradient to the position of its maximum.
    MaxBackward,
}

/// One pooling, without types.
struct Plan<'a> {
    shape: &'a PoolShape,
    windows: Windows,
    operation: Operation,
    /// The input, or the output gradient.
    source: *const u8,
    /// The output, or the input gradient.
    result: *mut u8,
    /// Positions of the maxima, or null. Only [`Operation::Max`] writes it.
    indices: *mut i64,
}
// SAFETY: the source is only read; every piece of work writes its own planes.
unsafe impl Sync for Plan<'_> {}

/// Real numbers that can be pooled.
trait Pooled: Element<Compute: Number + PartialOrd> {
    /// The type of sums: `f32` for halves, 64 bits for integers.
    type Sum: Number + PartialOrd;
}

macro_rules! pooled {
    ($($t:ty: $sum:ty),*) => { $( impl Pooled for $t { type Sum = $sum; } )* };
}
pooled!(u8: i64, u16: i64, u32: i64, u64: u64, i8: i64, i16: i64, i32: i64, i64: i64);
pooled!(f16: f32, bf16: f32, f32: f32, f64: f64);

/// The least number: what an empty maximum is.
#[inline(always)]
fn lowest<C: Element>() -> C {
    match C::DTYPE {
        d if d.is_floating_point() => C::from_f64(f64::NEG_INFINITY),
        d if d.is_signed() => C::from_i64(i64::MIN >> (64 - 8 * d.size())),
        _ => C::default(),
    }
}

/// Whether `x` replaces `best`: it is greater, or NaN. Of equal numbers the first stays, of NaNs the last.
#[inline(always)]
#[allow(clippy::eq_op)]
fn replaces<C: PartialOrd>(x: C, best: C) -> bool {
    (x > best) | (x != x)
}

/// Reads a run in the type it is computed in.
///
/// # Safety
/// Both runs have `len` elements.
#[inline(always)]
unsafe fn widen<T: Element, C: Element>(source: *const T, target: *mut C, len: usize) {
    // SAFETY: the caller's; of equal dtypes the types are equal.
    unsafe {
        if T::DTYPE == DType::F16 && C::DTYPE == DType::F32 {
            let source = std::slice::from_raw_parts(source.cast::<f16>(), len);
            let target = std::slice::from_raw_parts_mut(target.cast::<f32>(), len);
            half::slice::HalfFloatSliceExt::convert_to_f32_slice(source, target);
        } else {
            for i in 0..len {
                *target.add(i) = cast(*source.add(i));
            }
        }
    }
}

/// Writes a run from the type it is computed in.
///
/// # Safety
/// Both runs have `len` elements.
#[inline(always)]
unsafe fn narrow<T: Element, C: Element>(source: *const C, target: *mut T, len: usize) {
    // SAFETY: the caller's; of equal dtypes the types are equal.
    unsafe {
        if T::DTYPE == DType::F16 && C::DTYPE == DType::F32 {
            let source = std::slice::from_raw_parts(source.cast::<f32>(), len);
            let target = std::slice::from_raw_parts_mut(target.cast::<f16>(), len);
            half::slice::HalfFloatSliceExt::convert_from_f32_slice(target, source);
        } else {
            for i in 0..len {
                *target.add(i) = cast(*source.add(i));
            }
        }
    }
}

/// Maxima and averages.
struct Forward<T>(std::marker::PhantomData<T>);

impl<T: Pooled> math::Kernel for Forward<T> {
    type Args = (*const Plan<'static>, usize, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((plan, start, end): Self::Args) {
        // SAFETY: the plan outlives the call; its arrays are valid.
        unsafe {
            let plan: &Plan<'_> = &*plan;
            if plan.shape.channels_last {
                pixels::pool::<T>(plan, start..end);
            } else {
                planes::pool::<T>(plan, start..end);
            }
        }
    }
}

/// Gradients.
struct Backward<T>(std::marker::PhantomData<T>);

impl<T: Pooled> math::Kernel for Backward<T> {
    type Args = (*const Plan<'static>, usize, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((plan, start, end): Self::Args) {
        // SAFETY: the plan outlives the call; its arrays are valid.
        unsafe {
            let plan: &Plan<'_> = &*plan;
            if plan.shape.channels_last {
                pixels::backward::<T>(plan, start..end);
            } else {
                planes::backward::<T>(plan, start..end);
            }
        }
    }
}

fn pool<K: math::Kernel<Args = (*const Plan<'static>, usize, usize), Output = ()>>(plan: &Plan<'_>) {
    let shape = plan.shape;
    let positions = shape.input.iter().product::<usize>().max(shape.output.iter().product());
    let address = plan as *const Plan<'_> as usize;
    let (units, size) = if shape.channels_last {
        (pixels::units(plan), pixels::unit_len(plan))
    } else {
        (shape.batch * shape.channels, positions)
    };
    parallel_for(units, GRAIN.div_ceil(size.max(1)), &|range| {
        // SAFETY: the plan lives until `parallel_for` returns; units are disjoint.
        unsafe { math::run::<K>((address as *const Plan<'static>, range.start, range.end)) }
    });
}

fn forward(dtype: DType, plan: &Plan<'_>) {
    dispatch!(dtype, T in [ints, floats] => pool::<Forward<T>>(plan); else unreachable!("pooling of {dtype}"))
}

fn backward(dtype: DType, plan: &Plan<'_>) {
    dispatch!(dtype, T in [floats] => pool::<Backward<T>>(plan); else unreachable!("gradient of a pooling of {dtype}"))
}

/// Whether pooling of this dtype exists: every real number.
pub fn supports(dtype: DType) -> bool {
    dtype != DType::Bool && !dtype.is_complex()
}

/// Computes maxima, and their flat positions in their planes if `indices` is given.
///
/// NaN is the largest number. Of equal maxima the first is found, of NaNs the last.
///
/// # Safety
/// The dtype is [supported](supports); the arrays hold the shape's elements, contiguous or channels last as it says
/// (indices like the output); nobody else uses `output` and `indices`.
pub unsafe fn max_pool(dtype: DType, shape: &PoolShape, input: *const u8, output: *mut u8, indices: Option<*mut i64>) {
    let indices = indices.unwrap_or(std::ptr::null_mut());
    let windows = Windows::new(shape, false);
    forward(dtype, &Plan { shape, windows, operation: Operation::Max, source: input, result: output, indices });
}

/// Computes the gradient of [`max_pool`]: every output's gradient goes to where its maximum was.
///
/// Works for adaptive shapes and any other indices into the input planes.
///
/// # Safety
/// As for [`max_pool`]; the dtype is floating-point; every index is less than the input plane's size.
pub unsafe fn max_pool_backward(
    dtype: DType,
    shape: &PoolShape,
    grad_output: *const u8,
    indices: *const i64,
    grad_input: *mut u8,
) {
    let plan = Plan {
        shape,
        windows: Windows::none(),
        operation: Operation::MaxBackward,
        source: grad_output,
        result: grad_input,
        indices: indices.cast_mut(),
    };
    backward(dtype, &plan);
}

/// Computes averages. Windows that hang over the edge are divided by their size in the padded input if
/// `count_include_pad`, else by their number of elements; all by `divisor` if given (not 0). Integers truncate.
///
/// # Safety
/// As for [`max_pool`].
pub unsafe fn avg_pool(
    dtype: DType,
    shape: &PoolShape,
    count_include_pad: bool,
    divisor: Option<i64>,
    input: *const u8,
    output: *mut u8,
) {
    let plan = Plan {
        shape,
        windows: Windows::new(shape, count_include_pad),
        operation: Operation::Average(divisor.unwrap_or(0)),
        source: input,
        result: output,
        indices: std::ptr::null_mut(),
    };
    forward(dtype, &plan);
}

/// Computes the gradient of [`avg_pool`].
///
/// # Safety
/// As for [`max_pool`]; the dtype is floating-point.
pub unsafe fn avg_pool_backward(
    dtype: DType,
    shape: &PoolShape,
    count_include_pad: bool,
    divisor: Option<i64>,
    grad_output: *const u8,
    grad_input: *mut u8,
) {
    let plan = Plan {
        shape,
        windows: Windows::new(shape, count_include_pad),
        operation: Operation::AverageBackward(divisor.unwrap_or(0)),
        source: grad_output,
        result: grad_input,
        indices: std::ptr::null_mut(),
    };
    backward(dtype, &plan);
}
