//! Convolutions.

use super::{empty_parameter, reset_weight_and_bias};
use crate::walk::{Leaf, LeafMut, Parameter, Path, Walk};
use crate::{Forward, Module};
use flambeau::{Error, Result, Tensor, ensure};

/// How a convolution of `N` dimensions moves over its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvOptions<const N: usize> {
    /// Steps between places of the kernel.
    pub stride: [i64; N],
    /// Zeros around the input.
    pub padding: [i64; N],
    /// Steps between elements of the kernel.
    pub dilation: [i64; N],
    /// Groups of channels that do not see each other.
    pub groups: i64,
    /// Whether to add a bias.
    pub bias: bool,
}

impl<const N: usize> Default for ConvOptions<N> {
    fn default() -> Self {
        ConvOptions { stride: [1; N], padding: [0; N], dilation: [1; N], groups: 1, bias: true }
    }
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
        ensure!((1..=3).contains(&N), "a convolution has 1, 2 or 3 dimensions, not {N}");
        for (name, value) in [("groups", options.groups), ("in_channels", inputs), ("out_channels", outputs)] {
            if value < i64::from(name == "groups") {
                return Err(Error::value(format!("{name} must be a positive integer, not {value}")));
            }
        }
        for (name, channels) in [("in_channels", inputs), ("out_channels", outputs)] {
            if channels % options.groups != 0 {
                return Err(Error::value(format!(
                    "{name} must be divisible by groups: {channels}, {}",
                    options.groups
                )));
            }
        }
        let mut sizes = vec![outputs, inputs / options.groups];
        sizes.extend(kernel);
        let weight = empty_parameter(&sizes)?;
        let bias = if options.bias { Some(empty_parameter(&[outputs])?) } else { None };
        reset_weight_and_bias(&weight, bias.as_ref())?;
        Ok(Conv { weight, bias, options })
    }

    /// How it moves.
    #[must_use]
    pub fn options(&self) -> &ConvOptions<N> {
        &self.options
    }
}

impl<const N: usize> Walk for Conv<N> {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        path.enter("weight", |path| self.weight.walk(path, visit));
        path.enter("bias", |path| self.bias.walk(path, visit));
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        self.weight.walk_mut(visit)?;
        self.bias.walk_mut(visit)
    }
}
impl<const N: usize> Module for Conv<N> {
    fn type_name(&self) -> &'static str {
        ["Conv1d", "Conv2d", "Conv3d"][N - 1]
    }
}

impl<const N: usize> Forward for Conv<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let ConvOptions { stride, padding, dilation, groups, .. } = &self.options;
        let bias = self.bias.as_deref();
        match N {
            1 => x.conv1d(&self.weight, bias, stride, padding, dilation, *groups),
            2 => x.conv2d(&self.weight, bias, stride, padding, dilation, *groups),
            _ => x.conv3d(&self.weight, bias, stride, padding, dilation, *groups),
        }
    }
}
