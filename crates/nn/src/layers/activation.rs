//! Activation functions and dropout as modules.

use crate::walk::{Parameter, Training};
use crate::{Forward, Module};
use flambeau::{Error, Result, Tensor};

macro_rules! activations {
    ($($(#[doc = $doc:expr])* $name:ident |$x:ident| $e:expr;)*) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Default, Module)]
        pub struct $name;
        impl Forward for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                $e
            }
        }
    )* };
}
activations! {
    /// [`Tensor::relu`].
    ReLU |x| x.relu();
    /// [`Tensor::relu6`].
    ReLU6 |x| x.relu6();
    /// [`Tensor::selu`].
    SELU |x| x.selu();
    /// [`Tensor::gelu`] by the error function.
    GELU |x| x.gelu("none");
    /// [`Tensor::gelu`] by the hyperbolic tangent.
    TanhGELU |x| x.gelu("tanh");
    /// [`Tensor::silu`].
    SiLU |x| x.silu();
    /// [`Tensor::mish`].
    Mish |x| x.mish();
    /// [`Tensor::sigmoid`].
    Sigmoid |x| x.sigmoid();
    /// [`Tensor::log_sigmoid`].
    LogSigmoid |x| x.log_sigmoid();
    /// [`Tensor::hardsigmoid`].
    Hardsigmoid |x| x.hardsigmoid();
    /// [`Tensor::hardswish`].
    Hardswish |x| x.hardswish();
    /// [`Tensor::tanh`].
    Tanh |x| x.tanh();
    /// Its input less its hyperbolic tangent.
    Tanhshrink |x| x.sub(&x.tanh()?);
    /// Its input over one more than its size.
    Softsign |x| x.div(&x.abs()?.add(1)?);
    /// Its input.
    Identity |x| Ok(x.clone());
}

/// Activations with options, and PyTorch's defaults for them.
macro_rules! activations_with {
    ($(
        $(#[doc = $doc:expr])* $name:ident {
            $($(#[doc = $field_doc:expr])* $field:ident: $type:ty $(= $default:expr)?,)*
        } |$self:ident, $x:ident| $e:expr;
    )*) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $name {
            $($(#[doc = $field_doc])* pub $field: $type,)*
        }
        activations_with! { @default $name $($field $($default)?,)* }
        impl Forward for $name {
            fn forward(&$self, $x: &Tensor) -> Result<Tensor> {
                $e
            }
        }
    )* };
    (@default $name:ident $($field:ident $default:expr,)*) => {
        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default),* }
            }
        }
    };
    (@default $name:ident $($field:ident,)*) => {};
}
activations_with! {
    /// [`Tensor::leaky_relu`].
    LeakyReLU {
        /// The slope where the input is negative.
        negative_slope: f64 = 0.01,
    } |self, x| x.leaky_relu(self.negative_slope);
    /// [`Tensor::elu`].
    ELU {
        /// Minus the lowest value.
        alpha: f64 = 1.0,
    } |self, x| x.elu(self.alpha, 1, 1);
    /// [`Tensor::celu`].
    CELU {
        /// Minus the lowest value.
        alpha: f64 = 1.0,
    } |self, x| x.celu(self.alpha);
    /// [`Tensor::hardtanh`].
    Hardtanh {
        /// The lowest value.
        min_val: f64 = -1.0,
        /// The highest value.
        max_val: f64 = 1.0,
    } |self, x| x.hardtanh(self.min_val, self.max_val);
    /// [`Tensor::softplus`].
    Softplus {
        /// How sharp the bend is.
        beta: f64 = 1.0,
        /// Where it ends.
        threshold: f64 = 20.0,
    } |self, x| x.softplus(self.beta, self.threshold);
    /// [`Tensor::hardshrink`].
    Hardshrink {
        /// Half the width of what becomes zero.
        lambd: f64 = 0.5,
    } |self, x| x.hardshrink(self.lambd);
    /// [`Tensor::softshrink`].
    Softshrink {
        /// Half the width of what becomes zero.
        lambd: f64 = 0.5,
    } |self, x| x.softshrink(self.lambd);
    /// [`Tensor::threshold`].
    Threshold {
        /// What the input has to be above.
        threshold: f64,
        /// What stands for it elsewhere.
        value: f64,
    } |self, x| x.threshold(self.threshold, self.value);
    /// [`Tensor::glu`]: one half of a dimension, times the sigmoid of the other.
    GLU {
        /// The dimension.
        dim: i64 = -1,
    } |self, x| x.glu(self.dim);
    /// [`Tensor::softmax`] over one dimension.
    Softmax {
        /// The dimension.
        dim: i64,
    } |self, x| x.softmax(self.dim, None);
    /// [`Tensor::softmax`] of minus the input over one dimension.
    Softmin {
        /// The dimension.
        dim: i64,
    } |self, x| x.neg()?.softmax(self.dim, None);
    /// [`Tensor::log_softmax`] over one dimension.
    LogSoftmax {
        /// The dimension.
        dim: i64,
    } |self, x| x.log_softmax(self.dim, None);
}

/// [`Tensor::prelu`]: the slope where the input is negative is learnt.
#[derive(Module)]
pub struct PReLU {
    /// The slopes, one for all channels or for each.
    pub weight: Parameter,
}
impl PReLU {
    /// Slopes of 0.25: one, or as many as there are channels.
    ///
    /// # Errors
    /// When the number is negative.
    pub fn new(slopes: i64) -> Result<PReLU> {
        Ok(PReLU { weight: Parameter::new(Tensor::full(&[slopes], 0.25, ())?)? })
    }
}
impl Forward for PReLU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.prelu(&self.weight)
    }
}

/// [`Tensor::rrelu`]: in training the slope where the input is negative is drawn, otherwise it is the middle.
#[derive(Clone, Debug, Module)]
pub struct RReLU {
    /// The lowest slope.
    pub lower: f64,
    /// The highest slope.
    pub upper: f64,
    training: Training,
}
impl RReLU {
    /// Slopes between these.
    #[must_use]
    pub fn new(lower: f64, upper: f64) -> RReLU {
        RReLU { lower, upper, training: Training::default() }
    }
}
impl Default for RReLU {
    fn default() -> Self {
        RReLU::new(1.0 / 8.0, 1.0 / 3.0)
    }
}
impl Forward for RReLU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.rrelu(self.lower, self.upper, self.training.get())
    }
}

macro_rules! dropouts {
    ($($(#[doc = $doc:expr])* $name:ident($($dims:literal)*) |$x:ident, $p:ident, $training:ident| $e:expr;)*) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $name {
            probability: f64,
            training: Training,
        }
        impl $name {
            /// Drops with the given probability.
            ///
            /// # Errors
            /// When it is not a probability.
            pub fn new(probability: f64) -> Result<$name> {
                if !(0.0..=1.0).contains(&probability) {
                    let text = format!("dropout probability has to be between 0 and 1, but got {probability}");
                    return Err(Error::value(text));
                }
                Ok($name { probability, training: Training::default() })
            }
        }
        impl Forward for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let allowed: &[usize] = &[$($dims),*];
                if !allowed.is_empty() && !allowed.contains(&$x.dim()) {
                    return Err(Error::runtime(format!(
                        "{}: Expected input of {allowed:?} dimensions, but received a {}-D input",
                        stringify!($name),
                        $x.dim()
                    )));
                }
                let ($p, $training) = (self.probability, self.training.get());
                $e
            }
        }
    )* };
}
dropouts! {
    /// Zeroes elements at random and scales the others up, in training; otherwise its input.
    Dropout() |x, p, training| x.dropout(p, training);
    /// [`Dropout`] of whole channels of (batch, channels, length) or (channels, length).
    Dropout1d(2 3) |x, p, training| over_channels(x, 3, |x| x.feature_dropout(p, training));
    /// [`Dropout`] of whole channels of (batch, channels, height, width).
    Dropout2d(4) |x, p, training| x.feature_dropout(p, training);
    /// [`Dropout`] of whole channels of (batch, channels, depth, height, width) or without the batch.
    Dropout3d(4 5) |x, p, training| over_channels(x, 5, |x| x.feature_dropout(p, training));
    /// Dropout that keeps mean and deviation, for networks of [`SELU`].
    AlphaDropout() |x, p, training| x.alpha_dropout(p, training);
    /// [`AlphaDropout`] of whole channels.
    FeatureAlphaDropout() |x, p, training| x.feature_alpha_dropout(p, training);
}

/// Lets an input without a batch pass as a batch of one.
fn over_channels(x: &Tensor, dims: usize, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    if x.dim() == dims { f(x) } else { f(&x.unsqueeze(0)?)?.squeeze_dim(0) }
}
