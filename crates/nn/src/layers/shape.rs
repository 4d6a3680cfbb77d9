//! Modules that move, repeat, add or resize places, and have nothing to learn.

use crate::operator;
use crate::{Forward, Module};
use flambeau::{Error, Result, Tensor, Value};

/// Several dimensions made one.
#[derive(Clone, Copy, Debug, Module)]
pub struct Flatten {
    /// The first of them.
    pub start_dim: i64,
    /// The last of them.
    pub end_dim: i64,
}

impl Default for Flatten {
    /// All but the first dimension.
    fn default() -> Self {
        Flatten { start_dim: 1, end_dim: -1 }
    }
}

impl Forward for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.flatten(self.start_dim, self.end_dim)
    }
}

/// One dimension made several.
#[derive(Clone, Debug, Module)]
pub struct Unflatten {
    /// The dimension.
    pub dim: i64,
    /// The sizes of the new ones.
    pub sizes: Vec<i64>,
}

impl Forward for Unflatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.unflatten(self.dim, &self.sizes)
    }
}

macro_rules! by_factor {
    ($($(#[doc = $doc:expr])* $name:ident $operator:literal;)*) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $name(pub i64);
        impl Forward for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                operator($operator)?.call(&[x.into(), self.0.into()])?.one()
            }
        }
    )* };
}
by_factor! {
    /// From (..., channels r r, height, width) to (..., channels, height r, width r), by the factor r.
    PixelShuffle "pixel_shuffle";
    /// From (..., channels, height r, width r) to (..., channels r r, height, width), by the factor r.
    PixelUnshuffle "pixel_unshuffle";
    /// Mixes this many groups of the channels of (batch, channels, ...).
    ChannelShuffle "channel_shuffle";
}

/// What stands in the places that a [`Pad`] adds, or a convolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// This number.
    Constant(f64),
    /// What stands as far on the other side of the edge.
    Reflect,
    /// What stands at the edge.
    Replicate,
    /// What stands at the other end.
    Circular,
}

impl PadMode {
    /// `x` with places added: so many before and after its last dimension, then the one before, and so on.
    pub(super) fn apply(self, x: &Tensor, amounts: &[i64]) -> Result<Tensor> {
        match self {
            PadMode::Constant(value) => x.pad(amounts, "constant", Some(value)),
            PadMode::Reflect => x.pad(amounts, "reflect", None),
            PadMode::Replicate => x.pad(amounts, "replicate", None),
            PadMode::Circular => x.pad(amounts, "circular", None),
        }
    }
}

/// Adds places around its input; negative numbers take some away.
#[derive(Clone, Debug, Module)]
pub struct Pad {
    amounts: Vec<i64>,
    #[module(skip)]
    mode: PadMode,
}

impl Pad {
    /// So many before and after the last dimension, then the one before, and so on: `[left, right, top, bottom]`.
    #[must_use]
    pub fn new(amounts: &[i64], mode: PadMode) -> Pad {
        Pad { amounts: amounts.to_vec(), mode }
    }
}

impl Forward for Pad {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.mode.apply(x, &self.amounts)
    }
}

/// How [`Upsample`] finds the values between places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpsampleMode {
    /// The place before.
    Nearest,
    /// The nearest place, by the centres of places.
    NearestExact,
    /// A line, plane or the like between neighbours, by the number of spatial dimensions; `align_corners` makes the
    /// outermost centres meet.
    Linear {
        /// Whether they do.
        align_corners: bool,
    },
    /// Cubic curves, in two dimensions.
    Cubic {
        /// Whether the outermost centres meet.
        align_corners: bool,
    },
}

/// To what an [`Upsample`] resizes.
#[derive(Clone, Debug, PartialEq)]
pub enum UpsampleTo {
    /// These sizes.
    Sizes(Vec<i64>),
    /// The input's, times these.
    Scales(Vec<f64>),
}

/// Resizes (batch, channels, ...).
#[derive(Clone, Debug, Module)]
pub struct Upsample {
    /// To what.
    #[module(skip)]
    pub to: UpsampleTo,
    /// How values between places are found.
    #[module(skip)]
    pub mode: UpsampleMode,
}

impl Forward for Upsample {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let spatial = x.dim().wrapping_sub(2);
        let (name, align) = match (self.mode, spatial) {
            (UpsampleMode::Nearest, 1..=3) => (format!("upsample_nearest{spatial}d.vec"), None),
            (UpsampleMode::NearestExact, 1..=3) => (format!("_upsample_nearest_exact{spatial}d.vec"), None),
            (UpsampleMode::Linear { align_corners }, 1..=3) => {
                let kind = ["linear1d", "bilinear2d", "trilinear3d"][spatial - 1];
                (format!("upsample_{kind}.vec"), Some(align_corners))
            }
            (UpsampleMode::Cubic { align_corners }, 2) => ("upsample_bicubic2d.vec".to_owned(), Some(align_corners)),
            _ => {
                return Err(Error::not_implemented(format!(
                    "Upsample: {:?} is not there for an input of {} dimensions",
                    self.mode,
                    x.dim()
                )));
            }
        };
        let (sizes, scales) = match &self.to {
            UpsampleTo::Sizes(sizes) => (Value::Ints(sizes), Value::None),
            UpsampleTo::Scales(scales) => (Value::None, Value::Floats(scales)),
        };
        let mut arguments = vec![x.into(), sizes];
        arguments.extend(align.map(Value::Bool));
        arguments.push(scales);
        operator(&name)?.call(&arguments)?.one()
    }
}

/// How the blocks of [`Unfold`] and [`Fold`] move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldOptions {
    /// Steps between elements of a block.
    pub dilation: [i64; 2],
    /// Zeros around the image.
    pub padding: [i64; 2],
    /// Steps between blocks.
    pub stride: [i64; 2],
}

impl Default for FoldOptions {
    fn default() -> Self {
        FoldOptions { dilation: [1, 1], padding: [0, 0], stride: [1, 1] }
    }
}

/// From images (batch, channels, height, width) to their blocks (batch, channels times block size, blocks).
#[derive(Clone, Copy, Debug, Module)]
pub struct Unfold {
    /// The size of a block.
    pub kernel: [i64; 2],
    /// How it moves.
    #[module(skip)]
    pub options: FoldOptions,
}

impl Forward for Unfold {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let FoldOptions { dilation, padding, stride } = &self.options;
        x.im2col(&self.kernel, dilation, padding, stride)
    }
}

/// The way back from [`Unfold`]: where blocks lie on each other, they are added.
#[derive(Clone, Copy, Debug, Module)]
pub struct Fold {
    /// The size of the images.
    pub output: [i64; 2],
    /// The size of a block.
    pub kernel: [i64; 2],
    /// How it moves.
    #[module(skip)]
    pub options: FoldOptions,
}

impl Forward for Fold {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let FoldOptions { dilation, padding, stride } = &self.options;
        x.col2im(&self.output, &self.kernel, dilation, padding, stride)
    }
}

/// The cosine of the angle between two vectors along a dimension.
#[derive(Clone, Copy, Debug, Module)]
pub struct CosineSimilarity {
    /// The dimension.
    pub dim: i64,
    /// The smallest product of lengths that is divided by.
    pub eps: f64,
}

impl Default for CosineSimilarity {
    fn default() -> Self {
        CosineSimilarity { dim: 1, eps: 1e-8 }
    }
}

impl CosineSimilarity {
    /// Computes it.
    ///
    /// # Errors
    /// When the sizes cannot be broadcast.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        Tensor::cosine_similarity(x1, x2, self.dim, self.eps)
    }
}

/// The `p`-norm of the difference of two vectors along the last dimension.
#[derive(Clone, Copy, Debug, Module)]
pub struct PairwiseDistance {
    /// The norm.
    pub p: f64,
    /// Added to the difference.
    pub eps: f64,
    /// Whether the last dimension stays, with size 1.
    pub keepdim: bool,
}

impl Default for PairwiseDistance {
    fn default() -> Self {
        PairwiseDistance { p: 2.0, eps: 1e-6, keepdim: false }
    }
}

impl PairwiseDistance {
    /// Computes it.
    ///
    /// # Errors
    /// When the sizes cannot be broadcast.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        let arguments = [x1.into(), x2.into(), self.p.into(), self.eps.into(), self.keepdim.into()];
        operator("pairwise_distance")?.call(&arguments)?.one()
    }
}
