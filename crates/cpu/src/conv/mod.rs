//! Convolution in one to three dimensions, its transpose, and their gradients.
//!
//! ```
//! use flambeau_base::DType;
//! use flambeau_cpu::conv::{self, ConvShape};
//! let shape = ConvShape::new(1, 1, 1, 1, [1, 1, 4], [1, 1, 2], [1; 3], [0; 3], [1; 3]).unwrap();
//! let (input, weight, mut output) = ([1f32, 2.0, 3.0, 4.0], [1f32, -1.0], [0f32; 3]);
//! // SAFETY: the arrays have the shape's sizes.
//! unsafe {
//!     let (x, w, y) = (input.as_ptr().cast(), weight.as_ptr().cast(), output.as_mut_ptr().cast());
//!     conv::forward(DType::F32, &shape, x, w, None, y);
//! }
//! assert_eq!(output, [-1.0; 3]);
//! ```
//!
//! Everything is a *gather* ([`geometry`]): each position of a result is a weighted sum of source positions at fixed
//! distances. The transpose of a strided convolution is one gather per remainder by the stride, not a scatter, so no
//! result is ever accumulated by two threads. Gathers are implicit matrix multiplications on one micro-kernel
//! ([`kernel`]): with pixels in place and packed weights ([`pixels`]) or, of contiguous tensors with few channels or
//! short sums, with packed pixels ([`planes`]); gathers with one result channel per group (depthwise), or few of them
//! with channels last, go without packing ([`depthwise`], [`grouped`]), those of 3 x 3 neighbours over many channels
//! take fewer products ([`winograd`]), and those whose stride is the kernel's size are of patches, one tap each
//! ([`patches`]). Most of those of one tap at every position are products of matrices as they lie in memory ([`products`],
//! of any dtype). Otherwise halves are computed in `f32`, those of `bf16` two channels at a time where the machine does so
//! (`pairs`, `tiles`), and the gradients of their weights as products of matrices (`weight_products`); integers in `i64`,
//! which wraps to the same bits, by the general ways only; complex numbers as twice as many real channels.

mod access;
mod depthwise;
mod geometry;
mod grouped;
mod kernel;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod patches;
mod pixels;
mod planes;
mod products;
pub(crate) mod simd;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod weight_gradient;
#[cfg(target_arch = "x86_64")]
mod weight_products;
mod winograd;

#[cfg(test)]
mod tests;

use crate::buffer::Buffer;
use access::{Access, Stored};
use flambeau_base::allocator::check_available;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::{num_threads, parallel_for};
use flambeau_base::{Complex, DType, Error, Result, bf16, dispatch};
use geometry::{Gather, Tiling};
use planes::Operands;
use simd::{Dispatch, Scratch, Shared, level};

/// The sizes of a convolution. Arrays are `[depth, height, width]`; fewer dimensions have leading ones of size 1
/// (kernel 1, stride 1, padding 0, dilation 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// Images.
    pub batch: usize,
    /// Input channels.
    pub in_channels: usize,
    /// Output channels.
    pub out_channels: usize,
    /// Groups: both channel counts are multiples of it.
    pub groups: usize,
    /// Input sizes.
    pub input: [usize; 3],
    /// Kernel sizes.
    pub kernel: [usize; 3],
    /// Strides.
    pub stride: [usize; 3],
    /// Zeros added on both sides.
    pub padding: [usize; 3],
    /// Distances between the kernel's positions.
    pub dilation: [usize; 3],
    /// Output sizes.
    pub output: [usize; 3],
    /// Whether input and output are stored channels last (NHWC, NDHWC).
    pub channels_last: bool,
    /// Whether the weight that is read is stored channels last, as `[out_channels, depth, height, width, in_channels /
    /// groups]`. Gradients of weights never are, nor are complex weights.
    pub weight_last: bool,
}

impl ConvShape {
    /// A convolution of contiguous tensors.
    ///
    /// # Errors
    /// When a size is zero that may not be, the groups do not divide the channels, the kernel is larger than the padded
    /// input, or either reaches over more than 2^40 positions.
    pub fn new(
        batch: usize,
        in_channels: usize,
        out_channels: usize,
        groups: usize,
        input: [usize; 3],
        kernel: [usize; 3],
        stride: [usize; 3],
        padding: [usize; 3],
        dilation: [usize; 3],
    ) -> Result<ConvShape> {
        check(groups, in_channels, out_channels, kernel, stride, dilation)?;
        let padded: [usize; 3] = std::array::from_fn(|a| input[a].saturating_add(padding[a].saturating_mul(2)));
        let extent: [usize; 3] = std::array::from_fn(|a| dilation[a].saturating_mul(kernel[a] - 1).saturating_add(1));
        if (0..3).any(|a| padded[a] < extent[a]) {
            // One and two dims come with ones before them.
            let first = (0..2).find(|&a| padded[a] != 1 || extent[a] != 1).unwrap_or(2);
            let list = |x: [usize; 3]| {
                let sizes: Vec<String> = x[first..].iter().map(usize::to_string).collect();
                format!("({})", sizes.join(" x "))
            };
            return Err(Error::runtime(format!(
                "Calculated padded input size per channel: {}. Kernel size: {}. Kernel size can't be greater than \
                 actual input size",
                list(padded),
                list(extent)
            )));
        }
        check_reach(padded, extent)?;
        let output = std::array::from_fn(|a| (padded[a] - extent[a]) / stride[a] + 1);
        Ok(ConvShape {
            batch,
            in_channels,
            out_channels,
            groups,
            input,
            kernel,
            stride,
            padding,
            dilation,
            output,
            channels_last: false,
            weight_last: false,
        })
    }

    /// The convolution whose transpose takes `in_channels x input` to `out_channels x ((input - 1) * stride -
    /// 2 * padding + dilation * (kernel - 1) + output_padding + 1)`, for [`transposed`] and its gradients. Its own
    /// `input` and `output` are the other way round.
    ///
    /// # Errors
    /// When a size is zero that may not be, the groups do not divide the channels, `output_padding` is not smaller than
    /// stride or dilation, or the output would have a size below 1 or reach over more than 2^40 positions.
    pub fn transposed(
        batch: usize,
        in_channels: usize,
        out_channels: usize,
        groups: usize,
        input: [usize; 3],
        kernel: [usize; 3],
        stride: [usize; 3],
        padding: [usize; 3],
        output_padding: [usize; 3],
        dilation: [usize; 3],
    ) -> Result<ConvShape> {
        check(groups, out_channels, in_channels, kernel, stride, dilation)?;
        if (0..3).any(|a| output_padding[a] >= stride[a].max(dilation[a])) {
            return Err(Error::runtime(format!(
                "output padding must be smaller than either stride or dilation, but got output_padding: \
                 {output_padding:?} stride: {stride:?} dilation: {dilation:?}"
            )));
        }
        let mut output = [0; 3];
        for a in 0..3 {
            let full = (input[a].saturating_sub(1).saturating_mul(stride[a]))
                .saturating_add(dilation[a].saturating_mul(kernel[a] - 1))
                .saturating_add(output_padding[a] + 1);
            output[a] = full.saturating_sub(padding[a].saturating_mul(2));
            if output[a] == 0 || input[a] == 0 {
                return Err(Error::runtime(format!(
                    "Given input size per channel: {input:?}. Calculated output size per channel is too small"
                )));
            }
        }
        let extent = std::array::from_fn(|a| dilation[a].saturating_mul(kernel[a] - 1).saturating_add(1));
        check_reach(std::array::from_fn(|a| output[a].saturating_add(padding[a].saturating_mul(2))), extent)?;
        Ok(ConvShape {
            batch,
            in_channels: out_channels,
            out_channels: in_channels,
            groups,
            input: output,
            kernel,
            stride,
            padding,
            dilation,
            output: input,
            channels_last: false,
            weight_last: false,
        })
    }

    /// The same with input and output stored channels last.
    pub fn channels_last(self) -> ConvShape {
        ConvShape { channels_last: true, ..self }
    }

    /// The same with a weight stored channels last.
    pub fn weight_last(self) -> ConvShape {
        ConvShape { weight_last: true, ..self }
    }

    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.in_channels * self.input.iter().product::<usize>()
    }

    /// Elements of the weight, stored `[out_channels, in_channels / groups, depth, height, width]` unless the channels
    /// come last.
    pub fn weight_len(&self) -> usize {
        self.out_channels * (self.in_channels / self.groups) * self.kernel.iter().product::<usize>()
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.out_channels * self.output.iter().product::<usize>()
    }

    /// Whether there is memory for what tasks lay out: of a tile, all that lies between its first and its last tap. With
    /// `transposed`, for the transpose.
    ///
    /// # Errors
    /// When there is not.
    pub fn check_memory(&self, transposed: bool) -> Result<()> {
        /// Bytes that no machine is asked for in vain.
        const FEW: usize = 1 << 28;
        /// No task has larger tiles, nor more terms of a sum at a time.
        const POSITIONS: usize = 1024;
        const TERMS: usize = 576;
        let channels = self.in_channels.max(self.out_channels) / self.groups;
        let roughly = (0..3).fold(channels.saturating_mul(8), |bytes, a| {
            let positions = self.input[a].max(self.output[a]).min(POSITIONS);
            let taps = self.dilation[a] * (self.kernel[a] - 1) + 1;
            bytes.saturating_mul(self.stride[a].saturating_mul(positions).saturating_add(taps))
        });
        if roughly <= FEW {
            return Ok(());
        }
        let gathers = if transposed { Gather::backward(self) } else { vec![Gather::forward(self)] };
        for g in gathers {
            let tiling = Tiling::new(g.batch, &g.axes, POSITIONS);
            let channels = g.source_channels.min(TERMS / g.taps.len().max(1) + 2);
            let tasks = tiling.len().min(num_threads());
            let needed = (0..3).fold(8 * channels * tiling.images * tasks, |bytes, a| {
                let (axis, size) = (&g.axes[a], tiling.size[a]);
                let whole = (size - 1).saturating_mul(axis.step).saturating_add(axis.span + 1);
                // Of planes, only the residues that are read.
                let read = (size + axis.reach).saturating_mul(axis.residues.len().max(1));
                bytes.saturating_mul(if self.channels_last { whole } else { whole.min(read) })
            });
            check_available(needed)?;
        }
        Ok(())
    }

    /// The real convolution that computes a complex one: every channel becomes a real and an imaginary one.
    fn doubled(&self) -> ConvShape {
        ConvShape { in_channels: 2 * self.in_channels, out_channels: 2 * self.out_channels, ..*self }
    }
}

/// An error for sizes whose distances could overflow.
fn check_reach(padded: [usize; 3], extent: [usize; 3]) -> Result<()> {
    const FARTHEST: usize = 1 << 40;
    match padded.iter().chain(&extent).find(|&&size| size > FARTHEST) {
        Some(size) => Err(Error::runtime(format!("convolution over {size} positions is not supported"))),
        None => Ok(()),
    }
}

fn check(
    groups: usize,
    in_channels: usize,
    out_channels: usize,
    kernel: [usize; 3],
    stride: [usize; 3],
    dilation: [usize; 3],
) -> Result<()> {
    let message = if groups == 0 {
        "non-positive groups is not supported"
    } else if !in_channels.is_multiple_of(groups) || !out_channels.is_multiple_of(groups) {
        "the number of groups must divide the numbers of input and output channels"
    } else if kernel.contains(&0) {
        "kernel size should be greater than zero"
    } else if stride.contains(&0) {
        "non-positive stride is not supported"
    } else if dilation.contains(&0) {
        "dilation should be greater than zero"
    } else {
        return Ok(());
    };
    Err(Error::runtime(message))
}

/// Whether convolutions of this dtype exist: all but `bool`.
pub fn supports(dtype: DType) -> bool {
    dtype != DType::Bool
}

/// Runs an expression for the dtype's type; callers have asked [`supports`].
macro_rules! dispatch_real {
    ($dtype:expr, $t:ident => $body:expr) => {
        dispatch!($dtype, $t in [ints, floats] => $body; else unreachable!("convolution of {}", $dtype))
    };
}

/// Computes `output = input * weight + bias`.
///
/// # Safety
/// The dtype is [supported](supports), the arrays hold the shape's elements (the bias `out_channels`), contiguous or
/// channels last as the shape says, and nobody else uses `output`.
pub unsafe fn forward(
    dtype: DType,
    shape: &ConvShape,
    input: *const u8,
    weight: *const u8,
    bias: Option<*const u8>,
    output: *mut u8,
) {
    // SAFETY: the caller's.
    unsafe { linear(dtype, shape, false, false, input, weight, bias, output) }
}

/// Computes the gradient of the input. For complex dtypes it takes the conjugate of the weight, as gradients do.
///
/// # Safety
/// As for [`forward`].
pub unsafe fn backward_input(
    dtype: DType,
    shape: &ConvShape,
    grad_output: *const u8,
    weight: *const u8,
    grad_input: *mut u8,
) {
    // SAFETY: the caller's.
    unsafe { linear(dtype, shape, true, true, grad_output, weight, None, grad_input) }
}

/// Computes the gradient of the weight. For complex dtypes it takes the conjugate of the input.
///
/// # Safety
/// As for [`forward`].
pub unsafe fn backward_weight(
    dtype: DType,
    shape: &ConvShape,
    input: *const u8,
    grad_output: *const u8,
    grad_weight: *mut u8,
) {
    // SAFETY: the caller's.
    unsafe { outer(dtype, shape, false, input, grad_output, grad_weight) }
}

/// Computes the transposed convolution: `shape` comes from [`ConvShape::transposed`], `input` has its `output`
/// sizes, `output` its `input` sizes, and the bias `shape.in_channels` elements.
///
/// # Safety
/// As for [`forward`].
pub unsafe fn transposed(
    dtype: DType,
    shape: &ConvShape,
    input: *const u8,
    weight: *const u8,
    bias: Option<*const u8>,
    output: *mut u8,
) {
    // SAFETY: the caller's.
    unsafe { linear(dtype, shape, true, false, input, weight, bias, output) }
}

/// Computes the gradient of the input of a transposed convolution.
///
/// # Safety
/// As for [`transposed`].
pub unsafe fn transposed_backward_input(
    dtype: DType,
    shape: &ConvShape,
    grad_output: *const u8,
    weight: *const u8,
    grad_input: *mut u8,
) {
    // SAFETY: the caller's.
    unsafe { linear(dtype, shape, false, true, grad_output, weight, None, grad_input) }
}

/// Computes the gradient of the weight of a transposed convolution.
///
/// # Safety
/// As for [`transposed`].
pub unsafe fn transposed_backward_weight(
    dtype: DType,
    shape: &ConvShape,
    input: *const u8,
    grad_output: *const u8,
    grad_weight: *mut u8,
) {
    // SAFETY: the caller's; the roles of the two are exchanged.
    unsafe { outer(dtype, shape, true, grad_output, input, grad_weight) }
}

/// The convolution or its transpose, with the weight or its conjugate.
unsafe fn linear(
    dtype: DType,
    shape: &ConvShape,
    transpose: bool,
    conjugate: bool,
    source: *const u8,
    weight: *const u8,
    bias: Option<*const u8>,
    result: *mut u8,
) {
    // SAFETY: the caller's.
    unsafe {
        if products::linear(dtype, shape, (transpose, conjugate), source, weight, bias, result) {
            return;
        }
        match dtype {
            DType::Complex64 => complex_linear::<f32>(shape, transpose, conjugate, source, weight, bias, result),
            DType::Complex128 => complex_linear::<f64>(shape, transpose, conjugate, source, weight, bias, result),
            _ => {
                #[cfg(target_arch = "x86_64")]
                if dtype == DType::BF16 && pairs::linear(shape, transpose, source, weight, bias, result) {
                    return;
                }
                dispatch_real!(dtype, T => real_linear(Access::of::<T>(), shape, transpose, source, weight, bias, result))
            }
        }
    }
}

unsafe fn real_linear<E: Dispatch + Stored<Number = E>>(
    access: Access<E>,
    shape: &ConvShape,
    transpose: bool,
    source: *const u8,
    weight: *const u8,
    bias: Option<*const u8>,
    result: *mut u8,
) {
    // SAFETY: the caller's; widened copies live until the end.
    unsafe {
        let (_weights, weight) = numbers(&access, weight, shape.weight_len());
        let channels = if transpose { shape.in_channels } else { shape.out_channels };
        let (_biases, bias) = bias.map_or((None, std::ptr::null()), |b| numbers(&access, b, channels));
        let operands = Operands { access, stored: access, source, weight, bias, result };
        if const { E::FAST_PATHS } && level().has_fast_paths() && patches::linear(shape, transpose, operands) {
            return;
        }
        let gathers = if transpose { Gather::backward(shape) } else { vec![Gather::forward(shape)] };
        for gather in &gathers {
            if const { E::FAST_PATHS } && level().has_fast_paths() && special(gather, shape.channels_last, operands) {
                continue;
            }
            if shape.channels_last || pixels::suits::<E>(gather) {
                pixels::gather(gather, [shape.channels_last; 2], operands);
            } else {
                planes::gather(gather, operands);
            }
        }
    }
}

/// A gather of 3 x 3 neighbours with fewer products, or one with few channels to a group without packing. `false` if it is
/// neither: nothing is written then.
unsafe fn special<E: Dispatch + Stored<Number = E>>(
    gather: &Gather,
    channels_last: bool,
    operands: Operands<E>,
) -> bool {
    let depthwise = gather.result_channels == 1 && gather.depth() <= depthwise::MOST_TERMS;
    // SAFETY: the caller's.
    unsafe {
        match channels_last {
            _ if winograd::suits::<E>(gather) && winograd::gather(gather, channels_last, operands) => {}
            _ if !FastPath::ConvDepthwise.is_on() => return false,
            true if grouped::suits::<E>(gather) => grouped::gather(gather, operands),
            false if depthwise => depthwise::gather(gather, operands),
            _ => return false,
        }
    }
    true
}

/// `len` elements as numbers: themselves, or a widened copy.
unsafe fn numbers<E: Dispatch>(access: &Access<E>, source: *const u8, len: usize) -> (Option<Scratch<E>>, *const E) {
    if access.same {
        return (None, source.cast());
    }
    let copy = Scratch::<E>::new(len);
    // SAFETY: the caller's.
    unsafe { widen(access, source, len, copy.get()) };
    let numbers = copy.get().cast_const();
    (Some(copy), numbers)
}

/// Reads `len` elements as numbers.
unsafe fn widen<E: Dispatch>(access: &Access<E>, source: *const u8, len: usize, target: *mut E) {
    let (from, to) = (Shared(source.cast_mut()), Shared(target));
    parallel_for(len, 1 << 16, &|range| {
        // SAFETY: the caller's; pieces are disjoint.
        unsafe { (access.load)(from.get().add(range.start * access.size), 1, range.len(), to.get().add(range.start)) }
    });
}

/// Writes `len` numbers as elements.
unsafe fn narrow<E: Dispatch>(stored: &Access<E>, source: *const E, target: *mut u8, len: usize) {
    let (from, to) = (Shared(source.cast_mut()), Shared(target));
    parallel_for(len, 1 << 16, &|range| {
        // SAFETY: the caller's; pieces are disjoint.
        unsafe { (stored.store)(from.get().add(range.start), to.get().add(range.start * stored.size), 1, range.len()) }
    });
}

/// The gradient of the weight of a convolution, or, with `conjugate`, its conjugate.
unsafe fn outer(
    dtype: DType,
    shape: &ConvShape,
    conjugate: bool,
    input: *const u8,
    gradient: *const u8,
    weight: *mut u8,
) {
    // SAFETY: the caller's.
    unsafe {
        match dtype {
            DType::Complex64 => complex_outer::<f32>(shape, conjugate, input, gradient, weight),
            DType::Complex128 => complex_outer::<f64>(shape, conjugate, input, gradient, weight),
            _ => {
                #[cfg(target_arch = "x86_64")]
                if dtype == DType::BF16 {
                    let sums = Scratch::<f32>::new(shape.weight_len());
                    let g = Gather::forward(shape);
                    if weight_products::weight_gradient(&g, shape.channels_last, input, gradient, sums.get()) {
                        return narrow(&Access::of::<bf16>(), sums.get(), weight, shape.weight_len());
                    }
                }
                dispatch_real!(dtype, T => real_outer(Access::of::<T>(), shape, input, gradient, weight))
            }
        }
    }
}

unsafe fn real_outer<E: Dispatch + Stored<Number = E>>(
    mut access: Access<E>,
    shape: &ConvShape,
    mut input: *const u8,
    mut gradient: *const u8,
    weight: *mut u8,
) {
    let len = shape.weight_len();
    let copy = (!access.same).then(|| Scratch::<E>::new(len));
    let sums = copy.as_ref().map_or(weight.cast(), |c| c.get());
    let stored = access;
    let gather = Gather::forward(shape);
    // SAFETY: the caller's; the copy holds the weight.
    unsafe {
        let one_channel = gather.source_channels == 1 && gather.result_channels == 1;
        let depthwise = one_channel && gather.taps.len() <= depthwise::MOST_TERMS;
        // Channels of halves are read several times, a few of each pixel: all are widened before, where there is room.
        let widened = access.size == 2 && E::HALF.is_some() && shape.channels_last && !depthwise;
        let (mut inputs, mut gradients) = (Buffer::default(), Buffer::default());
        if widened
            && let (Some(x), Some(y)) = (inputs.try_room(shape.input_len()), gradients.try_room(shape.output_len()))
        {
            widen(&access, input, shape.input_len(), x);
            widen(&access, gradient, shape.output_len(), y);
            (input, gradient) = (x.cast_const().cast(), y.cast_const().cast());
            access = Access::of::<E>();
        }
        let fast_paths = level().has_fast_paths();
        if const { E::FAST_PATHS } && fast_paths && depthwise && FastPath::ConvDepthwise.is_on() {
            depthwise::weight_gradient(&gather, shape.channels_last, access, input, gradient, sums);
        } else if !(const { E::FAST_PATHS }
            && fast_paths
            && winograd::suits::<E>(&gather)
            && winograd::weight_gradient(&gather, shape.channels_last, access, input, gradient, sums))
        {
            weight_gradient::weight_gradient(&gather, shape.channels_last, access, input, gradient, sums);
        }
        if !stored.same {
            narrow(&stored, sums, weight, len);
        }
    }
}

/// Splits complex planes into real and imaginary ones.
unsafe fn split<E: Dispatch>(source: *const u8, planes: usize, len: usize) -> Scratch<E> {
    let parts = Scratch::<E>::new(2 * planes * len);
    let (from, to) = (Shared(source.cast_mut()), Shared(parts.get()));
    parallel_for(planes, (1usize << 15).div_ceil(len.max(1)), &|range| {
        for plane in range {
            // SAFETY: the caller's; each plane is written once.
            unsafe {
                let from = from.get().cast::<E>().add(2 * plane * len);
                let to = to.get().add(2 * plane * len);
                for i in 0..len {
                    *to.add(i) = *from.add(2 * i);
                    *to.add(len + i) = *from.add(2 * i + 1);
                }
            }
        }
    });
    parts
}

/// Joins real and imaginary planes into complex ones.
unsafe fn join<E: Dispatch>(parts: &Scratch<E>, planes: usize, len: usize, target: *mut u8) {
    let (from, to) = (Shared(parts.get()), Shared(target));
    parallel_for(planes, (1usize << 15).div_ceil(len.max(1)), &|range| {
        for plane in range {
            // SAFETY: the caller's; each plane is written once.
            unsafe {
                let from = from.get().add(2 * plane * len);
                let to = to.get().cast::<E>().add(2 * plane * len);
                for i in 0..len {
                    *to.add(2 * i) = *from.add(i);
                    *to.add(2 * i + 1) = *from.add(len + i);
                }
            }
        }
    });
}

/// A complex gather as a real one of twice the channels. Channels last, a complex channel already is a real and an
/// imaginary one.
unsafe fn complex_linear<E: Dispatch + Stored<Number = E> + std::ops::Neg<Output = E>>(
    shape: &ConvShape,
    transpose: bool,
    conjugate: bool,
    source: *const u8,
    weight: *const u8,
    bias: Option<*const u8>,
    result: *mut u8,
) {
    let (rows, columns) = (shape.out_channels, shape.in_channels / shape.groups);
    let taps: usize = shape.kernel.iter().product();
    let doubled = Scratch::<E>::new(4 * rows * columns * taps);
    let weight = weight.cast::<Complex<E>>();
    // The transpose of the doubled matrix is that of the conjugate.
    let negate = conjugate != transpose;
    for row in 0..rows {
        for column in 0..columns {
            for t in 0..taps {
                // SAFETY: indices are inside the weight and its doubled copy.
                unsafe {
                    let w = *weight.add((row * columns + column) * taps + t);
                    let im = if negate { -w.im } else { w.im };
                    let at = |r: usize, c: usize| {
                        doubled.get().add(((2 * row + r) * 2 * columns + 2 * column + c) * taps + t)
                    };
                    *at(0, 0) = w.re;
                    *at(0, 1) = -im;
                    *at(1, 0) = im;
                    *at(1, 1) = w.re;
                }
            }
        }
    }
    let access = Access::of::<E>();
    let weight = doubled.get().cast_const().cast::<u8>();
    let real = shape.doubled();
    // SAFETY: the caller's; the split copies have the doubled shape's sizes.
    unsafe {
        if shape.channels_last {
            return real_linear(access, &real, transpose, source, weight, bias, result);
        }
        let input = (shape.batch * shape.in_channels, shape.input.iter().product::<usize>());
        let output = (shape.batch * shape.out_channels, shape.output.iter().product::<usize>());
        let (from, to) = if transpose { (output, input) } else { (input, output) };
        let source = split::<E>(source, from.0, from.1);
        let parts = Scratch::<E>::new(2 * to.0 * to.1);
        real_linear(access, &real, transpose, source.get().cast(), weight, bias, parts.get().cast());
        join(&parts, to.0, to.1, result);
    }
}

/// The gradient of a complex weight: sums of the four products of real and imaginary parts.
unsafe fn complex_outer<E: Dispatch + Stored<Number = E> + std::ops::Neg<Output = E>>(
    shape: &ConvShape,
    conjugate: bool,
    input: *const u8,
    gradient: *const u8,
    weight: *mut u8,
) {
    let access = Access::of::<E>();
    let real = shape.doubled();
    let doubled = Scratch::<E>::new(real.weight_len());
    let sums = doubled.get();
    // SAFETY: the caller's; the split copies have the doubled shape's sizes.
    unsafe {
        if shape.channels_last {
            real_outer(access, &real, input, gradient, sums.cast());
        } else {
            let input = split::<E>(input, shape.batch * shape.in_channels, shape.input.iter().product());
            let gradient = split::<E>(gradient, shape.batch * shape.out_channels, shape.output.iter().product());
            real_outer(access, &real, input.get().cast(), gradient.get().cast(), sums.cast());
        }
        let (rows, columns) = (shape.out_channels, shape.in_channels / shape.groups);
        let taps: usize = shape.kernel.iter().product();
        for row in 0..rows {
            for column in 0..columns {
                for t in 0..taps {
                    let at = |r: usize, c: usize| *sums.add(((2 * row + r) * 2 * columns + 2 * column + c) * taps + t);
                    let re = at(0, 0).plus(at(1, 1));
                    let im = at(1, 0).plus(-at(0, 1));
                    *weight.cast::<Complex<E>>().add((row * columns + column) * taps + t) =
                        Complex { re, im: if conjugate { -im } else { im } };
                }
            }
        }
    }
}
