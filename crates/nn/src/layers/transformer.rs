//! Transformers (Vaswani et al. 2017), with PyTorch's parameter names.

use super::{AttentionMasks, Dropout, LayerNorm, Linear, MultiheadAttention, MultiheadOptions};
use crate::init;
use crate::{Forward, Module};
use flambeau::{Generator, Result, Tensor};

/// What stands between the two maps of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransformerActivation {
    /// [`Tensor::relu`].
    #[default]
    Relu,
    /// [`Tensor::gelu`] by the error function.
    Gelu,
}

/// The shape of a transformer's layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransformerOptions {
    /// The features between the two maps of a layer.
    pub feedforward: i64,
    /// The probability with which elements are zeroed in training.
    pub dropout: f64,
    /// What stands between the two maps.
    pub activation: TransformerActivation,
    /// Added to the variance by the normalisations.
    pub layer_norm_eps: f64,
    /// Whether the first dimension is the batch, not the sequence.
    pub batch_first: bool,
    /// Whether to normalise before attention and maps instead of after.
    pub norm_first: bool,
    /// Whether maps and normalisations have biases.
    pub bias: bool,
}

impl Default for TransformerOptions {
    fn default() -> Self {
        TransformerOptions {
            feedforward: 2048,
            dropout: 0.1,
            activation: TransformerActivation::Relu,
            layer_norm_eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
        }
    }
}

impl TransformerOptions {
    fn attention(&self, features: i64, heads: i64) -> Result<MultiheadAttention> {
        let &TransformerOptions { dropout, bias, batch_first, .. } = self;
        MultiheadAttention::with(features, heads, MultiheadOptions { dropout, bias, batch_first })
    }
    fn linear(&self, inputs: i64, outputs: i64) -> Result<Linear> {
        if self.bias { Linear::new(inputs, outputs) } else { Linear::without_bias(inputs, outputs) }
    }
    fn norm(&self, features: i64) -> Result<LayerNorm> {
        let mut norm = LayerNorm::new(&[features])?;
        norm.eps = self.layer_norm_eps;
        norm.bias = norm.bias.filter(|_| self.bias);
        Ok(norm)
    }
    fn activate(&self, x: &Tensor) -> Result<Tensor> {
        match self.activation {
            TransformerActivation::Relu => x.relu(),
            TransformerActivation::Gelu => x.gelu("none"),
        }
    }
}

/// A sub-layer around which the input goes too, with the normalisation before it or after the sum.
fn residual(
    x: &Tensor,
    norm: &LayerNorm,
    first: bool,
    inner: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if first { x.add(&inner(&norm.forward(x)?)?) } else { norm.forward(&x.add(&inner(x)?)?) }
}

/// Attention to itself, then two maps.
#[derive(Module)]
pub struct TransformerEncoderLayer {
    /// The attention.
    pub self_attn: MultiheadAttention,
    /// The first map.
    pub linear1: Linear,
    dropout: Dropout,
    /// The second map.
    pub linear2: Linear,
    /// The normalisation of the attention.
    pub norm1: LayerNorm,
    /// The normalisation of the maps.
    pub norm2: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    #[module(skip)]
    options: TransformerOptions,
}

impl TransformerEncoderLayer {
    /// Over `features` features, with so many heads.
    ///
    /// # Errors
    /// As [`MultiheadAttention::new`].
    pub fn new(features: i64, heads: i64, options: TransformerOptions) -> Result<Self> {
        let dropout = Dropout::new(options.dropout)?;
        Ok(TransformerEncoderLayer {
            self_attn: options.attention(features, heads)?,
            linear1: options.linear(features, options.feedforward)?,
            dropout: dropout.clone(),
            linear2: options.linear(options.feedforward, features)?,
            norm1: options.norm(features)?,
            norm2: options.norm(features)?,
            dropout1: dropout.clone(),
            dropout2: dropout,
            options,
        })
    }

    /// From (S, N, E) to the same sizes, seeing what `masks` leave.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward_masked(&self, x: &Tensor, masks: AttentionMasks<'_>) -> Result<Tensor> {
        let first = self.options.norm_first;
        let x = residual(x, &self.norm1, first, |x| {
            self.dropout1.forward(&self.self_attn.forward_masked(x, x, x, masks)?)
        })?;
        residual(&x, &self.norm2, first, |x| {
            let hidden = self.dropout.forward(&self.options.activate(&self.linear1.forward(x)?)?)?;
            self.dropout2.forward(&self.linear2.forward(&hidden)?)
        })
    }
}

impl Forward for TransformerEncoderLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_masked(x, AttentionMasks::default())
    }
}

/// Attention to itself and to an encoder's output, then two maps.
#[derive(Module)]
pub struct TransformerDecoderLayer {
    /// The attention to itself.
    pub self_attn: MultiheadAttention,
    /// The attention to the encoder's output.
    pub multihead_attn: MultiheadAttention,
    /// The first map.
    pub linear1: Linear,
    dropout: Dropout,
    /// The second map.
    pub linear2: Linear,
    /// The normalisation of the attention to itself.
    pub norm1: LayerNorm,
    /// The normalisation of the other attention.
    pub norm2: LayerNorm,
    /// The normalisation of the maps.
    pub norm3: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    dropout3: Dropout,
    #[module(skip)]
    options: TransformerOptions,
}

impl TransformerDecoderLayer {
    /// Over `features` features, with so many heads.
    ///
    /// # Errors
    /// As [`MultiheadAttention::new`].
    pub fn new(features: i64, heads: i64, options: TransformerOptions) -> Result<Self> {
        let dropout = Dropout::new(options.dropout)?;
        Ok(TransformerDecoderLayer {
            self_attn: options.attention(features, heads)?,
            multihead_attn: options.attention(features, heads)?,
            linear1: options.linear(features, options.feedforward)?,
            dropout: dropout.clone(),
            linear2: options.linear(options.feedforward, features)?,
            norm1: options.norm(features)?,
            norm2: options.norm(features)?,
            norm3: options.norm(features)?,
            dropout1: dropout.clone(),
            dropout2: dropout.clone(),
            dropout3: dropout,
            options,
        })
    }

    /// From (T, N, E) and the encoder's output (S, N, E) to (T, N, E), seeing what the masks of each leave.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(
        &self,
        x: &Tensor,
        memory: &Tensor,
        masks: AttentionMasks<'_>,
        memory_masks: AttentionMasks<'_>,
    ) -> Result<Tensor> {
        let first = self.options.norm_first;
        let x = residual(x, &self.norm1, first, |x| {
            self.dropout1.forward(&self.self_attn.forward_masked(x, x, x, masks)?)
        })?;
        let x = residual(&x, &self.norm2, first, |x| {
            self.dropout2.forward(&self.multihead_attn.forward_masked(x, memory, memory, memory_masks)?)
        })?;
        residual(&x, &self.norm3, first, |x| {
            let hidden = self.dropout.forward(&self.options.activate(&self.linear1.forward(x)?)?)?;
            self.dropout3.forward(&self.linear2.forward(&hidden)?)
        })
    }
}

/// Modules that begin alike, as PyTorch's copies of one layer do; only the first takes random numbers.
fn alike<M: Module>(count: usize, make: impl Fn() -> Result<M>) -> Result<Vec<M>> {
    let mut modules = Vec::with_capacity(count);
    if count > 0 {
        modules.push(make()?);
        let first = modules[0].state_dict()?;
        let generator = Generator::default_generator();
        let place = generator.get_state();
        for _ in 1..count {
            let module = make()?;
            module.load_state_dict(&first, true)?;
            modules.push(module);
        }
        generator.set_state(&place)?;
    }
    Ok(modules)
}

/// Encoder layers one after another.
#[derive(Module)]
pub struct TransformerEncoder {
    /// The layers.
    pub layers: Vec<TransformerEncoderLayer>,
    /// A normalisation at the end.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// `count` layers that begin alike, without a normalisation at the end.
    ///
    /// # Errors
    /// As [`TransformerEncoderLayer::new`].
    pub fn new(count: usize, features: i64, heads: i64, options: TransformerOptions) -> Result<Self> {
        let layers = alike(count, || TransformerEncoderLayer::new(features, heads, options))?;
        Ok(TransformerEncoder { layers, norm: None })
    }

    /// From (S, N, E) to the same sizes, seeing what `masks` leave.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward_masked(&self, x: &Tensor, masks: AttentionMasks<'_>) -> Result<Tensor> {
        let x = self.layers.iter().try_fold(x.clone(), |x, layer| layer.forward_masked(&x, masks))?;
        self.norm.as_ref().map_or(Ok(x.clone()), |norm| norm.forward(&x))
    }
}

impl Forward for TransformerEncoder {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_masked(x, AttentionMasks::default())
    }
}

/// Decoder layers one after another.
#[derive(Module)]
pub struct TransformerDecoder {
    /// The layers.
    pub layers: Vec<TransformerDecoderLayer>,
    /// A normalisation at the end.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// `count` layers that begin alike, without a normalisation at the end.
    ///
    /// # Errors
    /// As [`TransformerDecoderLayer::new`].
    pub fn new(count: usize, features: i64, heads: i64, options: TransformerOptions) -> Result<Self> {
        let layers = alike(count, || TransformerDecoderLayer::new(features, heads, options))?;
        Ok(TransformerDecoder { layers, norm: None })
    }

    /// As [`TransformerDecoderLayer::forward`], through all layers.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(
        &self,
        x: &Tensor,
        memory: &Tensor,
        masks: AttentionMasks<'_>,
        memory_masks: AttentionMasks<'_>,
    ) -> Result<Tensor> {
        let layers = self.layers.iter();
        let x = { layers }.try_fold(x.clone(), |x, layer| layer.forward(&x, memory, masks, memory_masks))?;
        self.norm.as_ref().map_or(Ok(x.clone()), |norm| norm.forward(&x))
    }
}

/// An encoder and a decoder.
#[derive(Module)]
pub struct Transformer {
    /// The encoder.
    pub encoder: TransformerEncoder,
    /// The decoder.
    pub decoder: TransformerDecoder,
}

impl Transformer {
    /// So many layers of each over `features` features, with a normalisation at the end of both.
    ///
    /// # Errors
    /// As [`MultiheadAttention::new`].
    pub fn new(
        features: i64,
        heads: i64,
        encoder_layers: usize,
        decoder_layers: usize,
        options: TransformerOptions,
    ) -> Result<Transformer> {
        let mut encoder = TransformerEncoder::new(encoder_layers, features, heads, options)?;
        encoder.norm = Some(options.norm(features)?);
        let mut decoder = TransformerDecoder::new(decoder_layers, features, heads, options)?;
        decoder.norm = Some(options.norm(features)?);
        let transformer = Transformer { encoder, decoder };
        for parameter in transformer.parameters().iter().filter(|p| p.dim() > 1) {
            init::xavier_uniform_(parameter, 1.0)?;
        }
        Ok(transformer)
    }

    /// From a source (S, N, E) and a target (T, N, E) to (T, N, E). `memory_masks` are those of the decoder's attention
    /// to the encoder's output.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(
        &self,
        source: &Tensor,
        target: &Tensor,
        source_masks: AttentionMasks<'_>,
        target_masks: AttentionMasks<'_>,
        memory_masks: AttentionMasks<'_>,
    ) -> Result<Tensor> {
        let memory = self.encoder.forward_masked(source, source_masks)?;
        self.decoder.forward(target, &memory, target_masks, memory_masks)
    }
}
