//! The modules.

mod activation;
mod attention;
mod conv;
mod linear;
mod norm;
mod pool;
mod rnn;
mod sequential;
mod shape;
mod transformer;

pub use activation::*;
pub use attention::{AttentionMasks, MultiheadAttention, MultiheadOptions};
pub use conv::*;
pub use linear::{BagMode, Bilinear, Embedding, EmbeddingBag, Linear};
pub use norm::*;
pub use pool::*;
pub use rnn::{GRU, GRUCell, LSTM, LSTMCell, PackedSequence, RNN, RNNCell, RnnOptions, pad_sequence};
pub use sequential::Sequential;
pub use shape::*;
pub use transformer::*;

use crate::init::{self, FanMode, Nonlinearity};
use crate::walk::Parameter;
use flambeau::{Result, Tensor};

/// Fills a weight and its bias as PyTorch's `Linear` and `Conv` do: evenly within one over the root of the fan-in.
fn reset_weight_and_bias(weight: &Tensor, bias: Option<&Parameter>) -> Result<()> {
    init::kaiming_uniform_(weight, FanMode::FanIn, Nonlinearity::LeakyRelu(5f64.sqrt()))?;
    if let Some(bias) = bias {
        let (fan_in, _) = init::fans(weight)?;
        let bound = if fan_in > 0 { 1.0 / (fan_in as f64).sqrt() } else { 0.0 };
        init::uniform_(bias, -bound, bound)?;
    }
    Ok(())
}

/// An uninitialised parameter of the default dtype.
fn empty_parameter(sizes: &[i64]) -> Result<Parameter> {
    Parameter::new(Tensor::empty(sizes, ())?)
}
