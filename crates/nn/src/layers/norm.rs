//! Normalisation.

use crate::operator;
use crate::walk::{Buffer, Leaf, LeafMut, Parameter, Path, Training, Walk};
use crate::{Forward, Module};
use flambeau::autograd::no_grad;
use flambeau::{DType, Error, Result, Tensor};

fn ones(sizes: &[i64]) -> Result<Option<Parameter>> {
    Ok(Some(Parameter::new(Tensor::ones(sizes, ())?)?))
}
fn zeros(sizes: &[i64]) -> Result<Option<Parameter>> {
    Ok(Some(Parameter::new(Tensor::zeros(sizes, ())?)?))
}

/// How a batch is normalised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormOptions {
    /// Added to the variance.
    pub eps: f64,
    /// The weight of a batch in the running statistics; `None` averages all batches evenly.
    pub momentum: Option<f64>,
    /// Whether there are a weight and a bias.
    pub affine: bool,
    /// Whether running statistics are kept, and used outside training.
    pub track_running_stats: bool,
}

impl Default for BatchNormOptions {
    fn default() -> Self {
        BatchNormOptions { eps: 1e-5, momentum: Some(0.1), affine: true, track_running_stats: true }
    }
}

/// Declares a module that normalises channels, with running statistics.
macro_rules! with_statistics {
    (
        $(#[doc = $doc:expr])* $name:ident($options:ident) $what:literal, $one:ident $two:ident $three:ident;
        $(#[doc = $new_doc:expr])* new
    ) => {
        $(#[doc = $doc])*
        pub struct $name<const N: usize> {
            /// The scale.
            pub weight: Option<Parameter>,
            /// The shift.
            pub bias: Option<Parameter>,
            /// The mean over the batches so far.
            pub running_mean: Option<Buffer>,
            /// The variance over the batches so far.
            pub running_var: Option<Buffer>,
            /// How many batches there were.
            pub num_batches_tracked: Option<Buffer>,
            training: Training,
            options: $options,
        }

        #[doc = concat!($what, " of (batch, channels, length).")]
        pub type $one = $name<1>;
        #[doc = concat!($what, " of (batch, channels, height, width).")]
        pub type $two = $name<2>;
        #[doc = concat!($what, " of (batch, channels, depth, height, width).")]
        pub type $three = $name<3>;

        impl<const N: usize> $name<N> {
            $(#[doc = $new_doc])*
            ///
            /// # Errors
            /// When the number is negative.
            pub fn new(channels: i64) -> Result<Self> {
                Self::with(channels, $options::default())
            }

            /// The same as `options` say.
            ///
            /// # Errors
            /// When the number is negative.
            pub fn with(channels: i64, options: $options) -> Result<Self> {
                let (affine, tracked) = (options.affine, options.track_running_stats);
                let buffer = |t: Result<Tensor>| if tracked { t.map(|t| Some(Buffer::new(t))) } else { Ok(None) };
                Ok($name {
                    weight: if affine { ones(&[channels])? } else { None },
                    bias: if affine { zeros(&[channels])? } else { None },
                    running_mean: buffer(Tensor::zeros(&[channels], ()))?,
                    running_var: buffer(Tensor::ones(&[channels], ()))?,
                    num_batches_tracked: buffer(Tensor::zeros(&[], DType::I64))?,
                    training: Training::default(),
                    options,
                })
            }
        }

        impl<const N: usize> Walk for $name<N> {
            fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
                path.enter("weight", |path| self.weight.walk(path, visit));
                path.enter("bias", |path| self.bias.walk(path, visit));
                path.enter("running_mean", |path| self.running_mean.walk(path, visit));
                path.enter("running_var", |path| self.running_var.walk(path, visit));
                path.enter("num_batches_tracked", |path| self.num_batches_tracked.walk(path, visit));
                self.training.walk(path, visit);
            }
            fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
                self.weight.walk_mut(visit)?;
                self.bias.walk_mut(visit)?;
                self.running_mean.walk_mut(visit)?;
                self.running_var.walk_mut(visit)?;
                self.num_batches_tracked.walk_mut(visit)
            }
        }
        impl<const N: usize> Module for $name<N> {
            fn type_name(&self) -> &'static str {
                let names = [stringify!($one), stringify!($two), stringify!($three)];
                names.get(N.wrapping_sub(1)).copied().unwrap_or(stringify!($name))
            }
        }
    };
}

with_statistics! {
    /// Every channel of a batch with `N` spatial dimensions brought to mean 0 and variance 1, then scaled and shifted.
    BatchNorm(BatchNormOptions) "Batch normalisation", BatchNorm1d BatchNorm2d BatchNorm3d;
    /// Over `channels` channels.
    new
}

impl<const N: usize> Forward for BatchNorm<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.dim() != N + 2 && !(N == 1 && x.dim() == 2) {
            let wanted = if N == 1 { "2D or 3D".to_owned() } else { format!("{}D", N + 2) };
            return Err(Error::value(format!("expected {wanted} input (got {}D input)", x.dim())));
        }
        let training = self.training.get();
        let mut momentum = self.options.momentum.unwrap_or(0.0);
        if let (true, Some(count)) = (training, &self.num_batches_tracked) {
            let _guard = no_grad();
            count.add_(1)?;
            if self.options.momentum.is_none() {
                momentum = 1.0 / count.item()?.to_f64();
            }
        }
        x.batch_norm(
            self.weight.as_deref(),
            self.bias.as_deref(),
            self.running_mean.as_deref(),
            self.running_var.as_deref(),
            training || self.running_mean.is_none(),
            momentum,
            self.options.eps,
        )
    }
}

/// How each image is normalised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstanceNormOptions {
    /// Added to the variance.
    pub eps: f64,
    /// The weight of a batch in the running statistics.
    pub momentum: f64,
    /// Whether there are a weight and a bias.
    pub affine: bool,
    /// Whether running statistics are kept, and used outside training.
    pub track_running_stats: bool,
}

impl Default for InstanceNormOptions {
    fn default() -> Self {
        InstanceNormOptions { eps: 1e-5, momentum: 0.1, affine: false, track_running_stats: false }
    }
}

with_statistics! {
    /// Every channel of every image with `N` spatial dimensions brought to mean 0 and variance 1.
    InstanceNorm(InstanceNormOptions) "Instance normalisation", InstanceNorm1d InstanceNorm2d InstanceNorm3d;
    /// Over `channels` channels, without weights, by each image's own statistics.
    new
}

impl<const N: usize> Forward for InstanceNorm<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.dim() == N + 1 {
            return self.forward(&x.unsqueeze(0)?)?.squeeze_dim(0);
        }
        if x.dim() != N + 2 {
            return Err(Error::value(format!("expected {}D or {}D input (got {}D input)", N + 1, N + 2, x.dim())));
        }
        let own = self.training.get() || self.running_mean.is_none();
        operator("instance_norm")?
            .call(&[
                x.into(),
                self.weight.as_deref().into(),
                self.bias.as_deref().into(),
                self.running_mean.as_deref().into(),
                self.running_var.as_deref().into(),
                own.into(),
                self.options.momentum.into(),
                self.options.eps.into(),
                false.into(),
            ])?
            .one()
    }
}

/// The last dimensions together brought to mean 0 and variance 1, then scaled and shifted.
#[derive(Module)]
pub struct LayerNorm {
    /// The scale.
    pub weight: Option<Parameter>,
    /// The shift.
    pub bias: Option<Parameter>,
    sizes: Vec<i64>,
    /// Added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// Over dimensions of the given sizes.
    ///
    /// # Errors
    /// When a size is negative.
    pub fn new(sizes: &[i64]) -> Result<LayerNorm> {
        Ok(LayerNorm { weight: ones(sizes)?, bias: zeros(sizes)?, sizes: sizes.to_vec(), eps: 1e-5 })
    }
}

impl Forward for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.layer_norm(&self.sizes, self.weight.as_deref(), self.bias.as_deref(), self.eps)
    }
}

/// Groups of channels brought to mean 0 and variance 1 within each example, then scaled and shifted by channel.
#[derive(Module)]
pub struct GroupNorm {
    /// The scale.
    pub weight: Option<Parameter>,
    /// The shift.
    pub bias: Option<Parameter>,
    groups: i64,
    /// Added to the variance.
    pub eps: f64,
}

impl GroupNorm {
    /// `groups` groups of `channels` channels.
    ///
    /// # Errors
    /// When the channels cannot be divided by the groups.
    pub fn new(groups: i64, channels: i64) -> Result<GroupNorm> {
        if groups < 1 || channels % groups != 0 {
            return Err(Error::value(format!("num_channels ({channels}) must be divisible by num_groups ({groups})")));
        }
        Ok(GroupNorm { weight: ones(&[channels])?, bias: zeros(&[channels])?, groups, eps: 1e-5 })
    }
}

impl Forward for GroupNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.group_norm(self.groups, self.weight.as_deref(), self.bias.as_deref(), self.eps)
    }
}

/// The last dimensions together divided by their root mean square, then scaled.
#[derive(Module)]
pub struct RMSNorm {
    /// The scale.
    pub weight: Option<Parameter>,
    sizes: Vec<i64>,
    /// Added to the mean square; the dtype's machine epsilon where `None`.
    pub eps: Option<f64>,
}

impl RMSNorm {
    /// Over dimensions of the given sizes.
    ///
    /// # Errors
    /// When a size is negative.
    pub fn new(sizes: &[i64]) -> Result<RMSNorm> {
        Ok(RMSNorm { weight: ones(sizes)?, sizes: sizes.to_vec(), eps: None })
    }
}

impl Forward for RMSNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.rms_norm(&self.sizes, self.weight.as_deref(), self.eps)
    }
}

/// Every element divided by a power of the mean square of its neighbours in other channels (Krizhevsky et al. 2012).
#[derive(Clone, Copy, Debug, Module)]
pub struct LocalResponseNorm {
    /// How many channels are neighbours.
    pub size: i64,
    /// The weight of the mean square.
    pub alpha: f64,
    /// The power.
    pub beta: f64,
    /// Added to it.
    pub k: f64,
}

impl LocalResponseNorm {
    /// Over `size` channels, with PyTorch's defaults.
    #[must_use]
    pub fn new(size: i64) -> LocalResponseNorm {
        LocalResponseNorm { size, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }
}

impl Forward for LocalResponseNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.dim() < 3 {
            return Err(Error::value(format!(
                "Expected 3D or higher dimensionality input (got {} dimensions)",
                x.dim()
            )));
        }
        // Channels last, so that they can be averaged along.
        let squares = x.square()?.flatten(2, -1)?.transpose(1, 2)?;
        let around = squares.constant_pad_nd(&[self.size / 2, self.size.saturating_sub(1) / 2], 0.0)?;
        let means = around.avg_pool1d(&[self.size], &[1], &[0], false, true)?.transpose(1, 2)?.reshape(x.sizes())?;
        x.div(&means.mul(self.alpha)?.add(self.k)?.pow(self.beta)?)
    }
}
