//! Activation functions and dropout as modules.

use crate::walk::Training;
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
    /// [`Tensor::gelu`] by the error function.
    GELU |x| x.gelu("none");
    /// [`Tensor::silu`].
    SiLU |x| x.silu();
    /// [`Tensor::sigmoid`].
    Sigmoid |x| x.sigmoid();
    /// [`Tensor::tanh`].
    Tanh |x| x.tanh();
    /// Its input.
    Identity |x| Ok(x.clone());
}

/// [`Tensor::leaky_relu`].
#[derive(Clone, Copy, Debug, Module)]
pub struct LeakyReLU {
    /// The slope where the input is negative.
    pub negative_slope: f64,
}
impl Default for LeakyReLU {
    fn default() -> Self {
        LeakyReLU { negative_slope: 0.01 }
    }
}
impl Forward for LeakyReLU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.leaky_relu(self.negative_slope)
    }
}

/// [`Tensor::softmax`] over one dimension.
#[derive(Clone, Copy, Debug, Module)]
pub struct Softmax {
    /// The dimension.
    pub dim: i64,
}
impl Forward for Softmax {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.softmax(self.dim, None)
    }
}

/// [`Tensor::log_softmax`] over one dimension.
#[derive(Clone, Copy, Debug, Module)]
pub struct LogSoftmax {
    /// The dimension.
    pub dim: i64,
}
impl Forward for LogSoftmax {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.log_softmax(self.dim, None)
    }
}

/// Zeroes elements at random and scales the others up, in training; otherwise its input.
#[derive(Clone, Debug, Module)]
pub struct Dropout {
    probability: f64,
    training: Training,
}
impl Dropout {
    /// Zeroes each element with the given probability.
    ///
    /// # Errors
    /// When it is not a probability.
    pub fn new(probability: f64) -> Result<Dropout> {
        if !(0.0..=1.0).contains(&probability) {
            let text = format!("dropout probability has to be between 0 and 1, but got {probability}");
            return Err(Error::value(text));
        }
        Ok(Dropout { probability, training: Training::default() })
    }
}
impl Forward for Dropout {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.dropout(self.probability, self.training.get())
    }
}
