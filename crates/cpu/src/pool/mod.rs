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
//! Windows are lists of positions per axis ([`window`]), so fixed and adaptive pooling are one code. Of contiguous planes
//! ([`planes`]) several windows are computed at a time, beside each other or gathered from wherever they are ([`parts`]);
//! channels-last images are pooled a few vectors of channels at a time ([`pixels`]). These loops exist for the few types
//! that are computed in; other dtypes are converted a plane or the rows of a line's windows at a time.

mod parts;
mod pixels;
mod planes;
mod window;

#[cfg(test)]
mod tests;

pub use window::{PoolShape, pool_output_size, pool_windows};

use crate::copy::{CastStrip, cast_strip};
use crate::math::{self, Isa, Level, Number};
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, Element};
use window::Windows;

/// Elements below which work is not split.
const GRAIN: usize = 1 << 15;

/// Elements of a plane that an index as wide as an `f32` counts.
const NEAR: usize = if cfg!(test) { 300 } else { i32::MAX as usize };

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
    dtype: DType,
    /// From the dtype to the one that is computed in, and back.
    widen: CastStrip,
    narrow: CastStrip,
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

/// The least number of a dtype, in the type it is computed in: what an empty maximum is.
fn lowest<C: Element>(dtype: DType) -> C {
    match dtype {
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

impl Plan<'_> {
    /// The address of element `i` of the source.
    fn source(&self, i: usize) -> *const u8 {
        self.source.wrapping_add(i * self.dtype.size())
    }

    /// The address of element `i` of the result.
    fn result(&self, i: usize) -> *mut u8 {
        self.result.wrapping_add(i * self.dtype.size())
    }

    /// Whether elements are computed with as they are.
    fn is_of<C: Element>(&self) -> bool {
        self.dtype == C::DTYPE
    }

    /// Reads a run in the type it is computed in.
    ///
    /// # Safety
    /// Both runs have `len` elements.
    unsafe fn widen<C: Element>(&self, source: *const u8, target: *mut C, len: usize) {
        let (from, to) = (self.dtype.size() as isize, size_of::<C>() as isize);
        // SAFETY: the caller's.
        unsafe { (self.widen)(source, from, target.cast(), to, len) }
    }

    /// Writes a run from the type it is computed in.
    ///
    /// # Safety
    /// Both runs have `len` elements.
    unsafe fn narrow<C: Element>(&self, source: *const C, target: *mut u8, len: usize) {
        let (from, to) = (size_of::<C>() as isize, self.dtype.size() as isize);
        // SAFETY: the caller's.
        unsafe { (self.narrow)(source.cast(), from, target, to, len) }
    }
}

/// Maxima and averages, computed in a type.
struct Forward<C>(std::marker::PhantomData<C>);

impl<C: Number + PartialOrd> math::Kernel for Forward<C> {
    type Args = (*const Plan<'static>, usize, usize);
    type Output = ();
    // Compiling these loops takes long: those for integers, which few pool, are not written for every machine. With
    // AVX-512 they take up to three times as long on Zen 4 as with AVX2: many registers are put together of single elements.
    const HIGHEST: Level = if matches!(C::DTYPE, DType::U64 | DType::I64) { Level::Baseline } else { Level::Avx2 };
    #[inline(always)]
    unsafe fn run<I: Isa>((plan, start, end): Self::Args) {
        // SAFETY: the plan outlives the call; its arrays are valid.
        unsafe {
            let plan: &Plan<'_> = &*plan;
            if plan.shape.channels_last {
                pixels::pool::<I, C>(plan, start..end);
            } else {
                planes::pool::<I, C>(plan, start..end);
            }
        }
    }
}

/// Gradients, computed in a type.
struct Backward<C>(std::marker::PhantomData<C>);

impl<C: Number> math::Kernel for Backward<C> {
    type Args = (*const Plan<'static>, usize, usize);
    type Output = ();
    const HIGHEST: Level = Level::Avx2;
    #[inline(always)]
    unsafe fn run<I: Isa>((plan, start, end): Self::Args) {
        // SAFETY: the plan outlives the call; its arrays are valid.
        unsafe {
            let plan: &Plan<'_> = &*plan;
            if plan.shape.channels_last {
                pixels::backward::<C>(plan, start..end);
            } else {
                planes::backward::<C>(plan, start..end);
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

/// The dtype that poolings of a dtype are computed in: `f32` for halves, 64 bits for sums of integers, and for their
/// maxima a floating-point type that has all of them, and, in planes of that many elements, is as wide as their indices.
fn computed_in(dtype: DType, operation: Operation, input: usize) -> DType {
    let wide = operation == Operation::Max && input > NEAR;
    match dtype {
        DType::F64 | DType::U64 | DType::I64 => dtype,
        d if d.is_floating_point() && !wide => DType::F32,
        _ if operation != Operation::Max => DType::I64,
        DType::I32 | DType::U32 => DType::F64,
        _ if wide => DType::F64,
        _ => DType::F32,
    }
}

/// The plan and the dtype it is computed in.
fn plan<'a>(
    dtype: DType,
    shape: &'a PoolShape,
    windows: Windows,
    operation: Operation,
    source: *const u8,
    result: *mut u8,
    indices: *mut i64,
) -> (Plan<'a>, DType) {
    let computed = computed_in(dtype, operation, shape.input.iter().product());
    let (widen, narrow) = (cast_strip(dtype, computed), cast_strip(computed, dtype));
    (Plan { shape, dtype, widen, narrow, windows, operation, source, result, indices }, computed)
}

fn forward((plan, computed): (Plan<'_>, DType)) {
    match computed {
        DType::F32 => pool::<Forward<f32>>(&plan),
        DType::F64 => pool::<Forward<f64>>(&plan),
        DType::U64 => pool::<Forward<u64>>(&plan),
        _ => pool::<Forward<i64>>(&plan),
    }
}

fn backward((plan, computed): (Plan<'_>, DType)) {
    match computed {
        DType::F32 => pool::<Backward<f32>>(&plan),
        _ => pool::<Backward<f64>>(&plan),
    }
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
    forward(plan(dtype, shape, windows, Operation::Max, input, output, indices));
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
    let operation = Operation::MaxBackward;
    backward(plan(dtype, shape, Windows::none(), operation, grad_output, grad_input, indices.cast_mut()));
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
    let (windows, operation) = (Windows::new(shape, count_include_pad), Operation::Average(divisor.unwrap_or(0)));
    forward(plan(dtype, shape, windows, operation, input, output, std::ptr::null_mut()));
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
    let windows = Windows::new(shape, count_include_pad);
    let operation = Operation::AverageBackward(divisor.unwrap_or(0));
    backward(plan(dtype, shape, windows, operation, grad_output, grad_input, std::ptr::null_mut()));
}
