//! Sizes of poolings and the windows along their axes.

use flambeau_base::{Error, Result};

/// The number of windows along an axis by PyTorch's rule, below 1 where none fits; `None` where a sum overflows. Kernel,
/// stride and dilation are at least 1, the padding is not negative.
///
/// With `ceil_mode` a last window may hang over the end, but it starts inside the input or the left padding.
pub fn pool_windows(input: i64, kernel: i64, stride: i64, padding: i64, dilation: i64, ceil_mode: bool) -> Option<i64> {
    let extent = (kernel - 1).checked_mul(dilation)?.checked_add(1)?;
    let room = input.checked_add(padding.checked_mul(2)?)?.checked_sub(extent)?;
    let round = if ceil_mode { stride - 1 } else { 0 };
    let windows = room.saturating_add(round).div_euclid(stride) + 1;
    let beyond = ceil_mode && (windows - 1).saturating_mul(stride) >= input + padding;
    Some(windows - i64::from(beyond))
}

/// [`pool_windows`] of an axis that has one at least.
///
/// # Errors
/// For a kernel, stride or dilation below 1, padding that is negative or more than half the kernel's extent, and when
/// there would be no window.
pub fn pool_output_size(
    input: i64,
    kernel: i64,
    stride: i64,
    padding: i64,
    dilation: i64,
    ceil_mode: bool,
) -> Result<usize> {
    let error = |message: String| Err(Error::runtime(message));
    if kernel <= 0 || stride <= 0 || dilation <= 0 || padding < 0 {
        return error(format!(
            "kernel ({kernel}), stride ({stride}) and dilation ({dilation}) should be greater than zero, padding \
             ({padding}) not negative"
        ));
    }
    let windows = pool_windows(input, kernel, stride, padding, dilation, ceil_mode);
    match windows {
        // As the extent is known to fit.
        Some(n) if n >= 1 && padding <= ((kernel - 1) * dilation + 1) / 2 => Ok(n as usize),
        _ => error(format!(
            "a kernel of size {kernel}, dilation {dilation} and padding {padding} does not fit an input of size {input}"
        )),
    }
}

/// The sizes of a pooling. Arrays are `[depth, height, width]`; fewer dimensions have leading ones of size 1 (kernel 1,
/// stride 1, padding 0, dilation 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Images.
    pub batch: usize,
    /// Channels.
    pub channels: usize,
    /// Input sizes.
    pub input: [usize; 3],
    /// Output sizes, from [`pool_output_size`] or as an adaptive pooling's caller wants them.
    pub output: [usize; 3],
    /// Fixed windows; `None` for adaptive ones.
    pub fixed: Option<FixedWindows>,
    /// Whether input and output are stored channels last.
    pub channels_last: bool,
}

/// Windows of one size at regular distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindows {
    /// Window sizes.
    pub kernel: [usize; 3],
    /// Distances between windows.
    pub stride: [usize; 3],
    /// How far the first window hangs over the edge.
    pub padding: [usize; 3],
    /// Distances between a window's elements.
    pub dilation: [usize; 3],
}

impl PoolShape {
    /// A pooling with fixed windows of contiguous tensors.
    pub fn new(
        batch: usize,
        channels: usize,
        input: [usize; 3],
        kernel: [usize; 3],
        stride: [usize; 3],
        padding: [usize; 3],
        dilation: [usize; 3],
        output: [usize; 3],
    ) -> PoolShape {
        let fixed = Some(FixedWindows { kernel, stride, padding, dilation });
        PoolShape { batch, channels, input, output, fixed, channels_last: false }
    }

    /// A pooling whose windows divide the input evenly: window `i` of `n` covers `floor(i * size / n)` to
    /// `ceil((i + 1) * size / n)`.
    pub fn adaptive(batch: usize, channels: usize, input: [usize; 3], output: [usize; 3]) -> PoolShape {
        PoolShape { batch, channels, input, output, fixed: None, channels_last: false }
    }

    /// The same with input and output stored channels last.
    pub fn channels_last(self) -> PoolShape {
        PoolShape { channels_last: true, ..self }
    }

    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.channels * self.input.iter().product::<usize>()
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.channels * self.output.iter().product::<usize>()
    }
}

/// The part of one window that is inside the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// First position.
    pub start: usize,
    /// Positions.
    pub count: usize,
    /// Distance between positions.
    pub step: usize,
    /// This axis's factor of the average's divisor.
    pub divisor: usize,
}

/// One kernel position of fixed windows along the width: the windows for which it is inside the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    /// First window.
    pub begin: usize,
    /// Past the last window.
    pub end: usize,
    /// Position read by window `begin`.
    pub first: usize,
}

/// The windows along each axis.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// By axis and output position.
    pub axes: [Vec<Window>; 3],
    /// The width's kernel positions, for fixed windows.
    pub taps: Vec<Tap>,
    /// The width's stride, for fixed windows.
    pub stride: usize,
}

impl Windows {
    /// No windows, for the operations that need none.
    pub(super) fn none() -> Windows {
        Windows { axes: Default::default(), taps: Vec::new(), stride: 0 }
    }

    /// Whether they part an input of this size: every position is in one window, and windows are without gaps.
    pub(super) fn part(&self, input: [usize; 3]) -> bool {
        (0..3).all(|a| {
            let joins = |end: usize, w: &Window| (w.step == 1 && w.start == end).then_some(end + w.count);
            self.axes[a].iter().try_fold(0, joins) == Some(input[a])
        })
    }

    /// The windows of a shape; averages include the padding in their divisors or not.
    pub(super) fn new(shape: &PoolShape, include_pad: bool) -> Windows {
        let Some(fixed) = &shape.fixed else {
            let axes = std::array::from_fn(|a| {
                let (size, n) = (shape.input[a], shape.output[a]);
                (0..n)
                    .map(|i| {
                        let start = (i as u128 * size as u128 / n as u128) as usize;
                        let end = ((i as u128 + 1) * size as u128).div_ceil(n as u128) as usize;
                        Window { start, count: end - start, step: 1, divisor: end - start }
                    })
                    .collect()
            });
            return Windows { axes, taps: Vec::new(), stride: 0 };
        };
        let axes = std::array::from_fn(|a| {
            let (size, pad, step) = (shape.input[a], fixed.padding[a], fixed.dilation[a]);
            (0..shape.output[a])
                .map(|i| {
                    let first = i * fixed.stride[a];
                    // Kernel positions that fall into the left padding are skipped.
                    let skip = pad.saturating_sub(first).div_ceil(step);
                    let start = first + skip * step - pad;
                    let count = if start < size { (size - start).div_ceil(step) } else { 0 };
                    let count = count.min(fixed.kernel[a].saturating_sub(skip));
                    let padded = fixed.kernel[a].min((size + 2 * pad).saturating_sub(first));
                    Window { start, count, step, divisor: if include_pad { padded } else { count } }
                })
                .collect()
        });
        let (stride, pad, size) = (fixed.stride[2], fixed.padding[2], shape.input[2]);
        // Positions further on are behind the end in every window.
        let within = (size + pad).div_ceil(fixed.dilation[2]);
        let taps = (0..fixed.kernel[2].min(within))
            .map(|k| {
                let at = k * fixed.dilation[2];
                let begin = pad.saturating_sub(at).div_ceil(stride).min(shape.output[2]);
                // The last window with `i * stride + at - pad < size`.
                let end = (size + pad).saturating_sub(at).div_ceil(stride).min(shape.output[2]).max(begin);
                Tap { begin, end, first: if begin < end { begin * stride + at - pad } else { 0 } }
            })
            .collect();
        Windows { axes, taps, stride }
    }
}
