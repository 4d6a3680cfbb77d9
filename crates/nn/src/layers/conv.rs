//! Convolutions, and their transposes.

use super::{PadMode, empty_parameter, reset_weight_and_bias};
use crate::walk::{Leaf, LeafMut, Parameter, Path, Walk};
use crate::{Forward, Module};
use flambeau::{Error, Result, Tensor, ensure};

/// How a convolution of `N` dimensions moves over its input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvOptions<const N: usize> {
    /// Steps between places of the kernel.
    pub stride: [i64; N],
    /// Places added around the input.
    pub padding: [i64; N],
    /// What stands in them.
    pub padding_mode: PadMode,
    /// Steps between elements of the kernel.
    pub dilation: [i64; N],
    /// Groups of channels that do not see each other.
    pub groups: i64,
    /// Whether to add a bias.
    pub bias: bool,
}

impl<const N: usize> Default for ConvOptions<N> {
    fn default() -> Self {
        ConvOptions {
            stride: [1; N],
            padding: [0; N],
            padding_mode: PadMode::Constant(0.0),
            dilation: [1; N],
            groups: 1,
            bias: true,
        }
    }
}

fn check_channels<const N: usize>(inputs: i64, outputs: i64, groups: i64) -> Result<()> {
    ensure!((1..=3).contains(&N), "a convolution has 1, 2 or 3 dimensions, not {N}");
    for (name, value) in [("groups", groups), ("in_channels", inputs), ("out_channels", outputs)] {
        if value < i64::from(name == "groups") {
            return Err(Error::value(format!("{name} must be a positive integer, not {value}")));
        }
    }
    for (name, channels) in [("in_channels", inputs), ("out_channels", outputs)] {
        if channels % groups != 0 {
            return Err(Error::value(format!("{name} must be divisible by groups: {channels}, {groups}")));
        }
    }
    Ok(())
}

/// The kernel, with the sizes before its own, and the bias, filled.
fn parameters(before: [i64; 2], kernel: &[i64], outputs: i64, bias: bool) -> Result<(Parameter, Option<Parameter>)> {
    let weight = empty_parameter(&[&before, kernel].concat())?;
    let bias = if bias { Some(empty_parameter(&[outputs])?) } else { None };
    reset_weight_and_bias(&weight, bias.as_ref())?;
    Ok((weight, bias))
}

/// A convolution over `N` dimensions.
pub struct Conv<const N: usize> {
    /// The kernel, (outputs, inputs / groups, sizes...).
    pub weight: Parameter,
    /// The bias, (outputs).
    pub bias: Option<Parameter>,
    options: ConvOptions<N>,
}

/// A convolution of (batch, channels, length).
pub type Conv1d = Conv<1>;
/// A convolution of (batch, channels, height, width).
pub type Conv2d = Conv<2>;
/// A convolution of (batch, channels, depth, height, width).
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    /// From `inputs` to `outputs` channels with a kernel of the given sizes.
    ///
    /// # Errors
    /// As [`Conv::with`].
    pub fn new(inputs: i64, outputs: i64, kernel: [i64; N]) -> Result<Self> {
        Self::with(inputs, outputs, kernel, ConvOptions::default())
    }

    /// The same, moving as `options` say.
    ///
    /// # Errors
    /// When the channels cannot be divided by the groups, or a number is negative.
    pub fn with(inputs: i64, outputs: i64, kernel: [i64; N], options: ConvOptions<N>) -> Result<Self> {
        check_channels::<N>(inputs, outputs, options.groups)?;
        let (weight, bias) = parameters([outputs, inputs / options.groups], &kernel, outputs, options.bias)?;
        Ok(Conv { weight, bias, options })
    }

    /// How it moves.
    #[must_use]
    pub fn options(&self) -> &ConvOptions<N> {
        &self.options
    }
}

/// How a transposed convolution of `N` dimensions moves over its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTransposeOptions<const N: usize> {
    /// Steps between places of the kernel.
    pub stride: [i64; N],
    /// Places taken away around the output.
    pub padding: [i64; N],
    /// Places added at the output's end: several outputs have the same input's size.
    pub output_padding: [i64; N],
    /// Steps between elements of the kernel.
    pub dilation: [i64; N],
    /// Groups of channels that do not see each other.
    pub groups: i64,
    /// Whether to add a bias.
    pub bias: bool,
}

impl<const N: usize> Default for ConvTransposeOptions<N> {
    fn default() -> Self {
        ConvTransposeOptions {
            stride: [1; N],
            padding: [0; N],
            output_padding: [0; N],
            dilation: [1; N],
            groups: 1,
            bias: true,
        }
    }
}

/// What a [`Conv`] does to its output's gradient, as a module: it makes images larger.
pub struct ConvTranspose<const N: usize> {
    /// The kernel, (inputs, outputs / groups, sizes...).
    pub weight: Parameter,
    /// The bias, (outputs).
    pub bias: Option<Parameter>,
    options: ConvTransposeOptions<N>,
}

/// A transposed convolution of (batch, channels, length).
pub type ConvTranspose1d = ConvTranspose<1>;
/// A transposed convolution of (batch, channels, height, width).
pub type ConvTranspose2d = ConvTranspose<2>;
/// A transposed convolution of (batch, channels, depth, height, width).
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> ConvTranspose<N> {
    /// From `inputs` to `outputs` channels with a kernel of the given sizes.
    ///
    /// # Errors
    /// As [`ConvTranspose::with`].
    pub fn new(inputs: i64, outputs: i64, kernel: [i64; N]) -> Result<Self> {
        Self::with(inputs, outputs, kernel, ConvTransposeOptions::default())
    }

    /// The same, moving as `options` say.
    ///
    /// # Errors
    /// When the channels cannot be divided by the groups, or a number is negative.
    pub fn with(inputs: i64, outputs: i64, kernel: [i64; N], options: ConvTransposeOptions<N>) -> Result<Self> {
        check_channels::<N>(inputs, outputs, options.groups)?;
        let (weight, bias) = parameters([inputs, outputs / options.groups], &kernel, outputs, options.bias)?;
        Ok(ConvTranspose { weight, bias, options })
    }

    /// How it moves.
    #[must_use]
    pub fn options(&self) -> &ConvTransposeOptions<N> {
        &self.options
    }
}

macro_rules! weight_and_bias {
    ($($name:ident $one:literal $two:literal $three:literal)*) => { $(
        impl<const N: usize> Walk for $name<N> {
            fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
                path.enter("weight", |path| self.weight.walk(path, visit));
                path.enter("bias", |path| self.bias.walk(path, visit));
            }
            fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
                self.weight.walk_mut(visit)?;
                self.bias.walk_mut(visit)
            }
        }
        impl<const N: usize> Module for $name<N> {
            fn type_name(&self) -> &'static str {
                [$one, $two, $three][N - 1]
            }
        }
    )* };
}
weight_and_bias! {
    Conv "Conv1d" "Conv2d" "Conv3d"
    ConvTranspose "ConvTranspose1d" "ConvTranspose2d" "ConvTranspose3d"
}

impl<const N: usize> Forward for Conv<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let ConvOptions { stride, padding, padding_mode, dilation, groups, .. } = &self.options;
        let bias = self.bias.as_deref();
        // The operators add zeros themselves.
        let (x, padding) = if *padding_mode == PadMode::Constant(0.0) || *padding == [0; N] {
            (x, *padding)
        } else {
            let around: Vec<i64> = padding.iter().rev().flat_map(|&p| [p, p]).collect();
            (&padding_mode.apply(x, &around)?, [0; N])
        };
        match N {
            1 => x.conv1d(&self.weight, bias, stride, &padding, dilation, *groups),
            2 => x.conv2d(&self.weight, bias, stride, &padding, dilation, *groups),
            _ => x.conv3d(&self.weight, bias, stride, &padding, dilation, *groups),
        }
    }
}

impl<const N: usize> Forward for ConvTranspose<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let ConvTransposeOptions { stride, padding, output_padding, dilation, groups, .. } = &self.options;
        let bias = self.bias.as_deref();
        match N {
            1 => x.conv_transpose1d(&self.weight, bias, stride, padding, output_padding, *groups, dilation),
            2 => x.conv_transpose2d(&self.weight, bias, stride, padding, output_padding, *groups, dilation),
            _ => x.conv_transpose3d(&self.weight, bias, stride, padding, output_padding, *groups, dilation),
        }
    }
}
