//! Attention.

use super::{Linear, empty_parameter};
use crate::Module;
use crate::init;
use crate::walk::{Parameter, Training};
use flambeau::{DType, Error, Result, Tensor, ensure};

/// The shape of a [`MultiheadAttention`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MultiheadOptions {
    /// The probability with which attention is dropped in training.
    pub dropout: f64,
    /// Whether the projections have biases.
    pub bias: bool,
    /// Whether the first dimension is the batch, not the sequence.
    pub batch_first: bool,
}

impl Default for MultiheadOptions {
    fn default() -> Self {
        MultiheadOptions { dropout: 0.0, bias: true, batch_first: false }
    }
}

/// What attention may not see. Masks are added to the scores, or hide what is true in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionMasks<'a> {
    /// From position to position: (L, S), (N heads, L, S), or what is broadcast to (N, heads, L, S).
    pub mask: Option<&'a Tensor>,
    /// Keys that are only padding, (N, S), or (S) without a batch.
    pub key_padding: Option<&'a Tensor>,
    /// Whether position l sees the keys up to l only.
    pub causal: bool,
}

/// Attention in several heads, with PyTorch's parameter names.
#[derive(Module)]
pub struct MultiheadAttention {
    /// The projections of query, key and value, one below the other: (3 features, features).
    pub in_proj_weight: Parameter,
    /// Their biases.
    pub in_proj_bias: Option<Parameter>,
    /// The projection of the result.
    pub out_proj: Linear,
    heads: i64,
    dropout: f64,
    /// Whether the first dimension is the batch, not the sequence.
    pub batch_first: bool,
    training: Training,
}

impl MultiheadAttention {
    /// `heads` heads over `features` features together; sequence first, as PyTorch has it (set `batch_first` to change
    /// that).
    ///
    /// # Errors
    /// When the features cannot be divided by the heads, or `dropout` is not a probability.
    pub fn new(features: i64, heads: i64, dropout: f64) -> Result<MultiheadAttention> {
        Self::with(features, heads, MultiheadOptions { dropout, ..MultiheadOptions::default() })
    }

    /// The same as `options` say.
    ///
    /// # Errors
    /// As [`MultiheadAttention::new`].
    pub fn with(features: i64, heads: i64, options: MultiheadOptions) -> Result<MultiheadAttention> {
        let MultiheadOptions { dropout, bias, batch_first } = options;
        if features < 1 || heads < 1 || features % heads != 0 {
            return Err(Error::value(format!(
                "embed_dim must be divisible by num_heads, both positive: got embed_dim={features} and num_heads={heads}"
            )));
        }
        if !(0.0..=1.0).contains(&dropout) {
            return Err(Error::value(format!("dropout probability has to be between 0 and 1, but got {dropout}")));
        }
        // The order of the draws is PyTorch's: the output projection's come first.
        let out_proj = if bias { Linear::new(features, features)? } else { Linear::without_bias(features, features)? };
        let in_proj_weight = empty_parameter(&[3 * features, features])?;
        init::xavier_uniform_(&in_proj_weight, 1.0)?;
        let in_proj_bias = if bias { Some(empty_parameter(&[3 * features])?) } else { None };
        if let Some(bias) = &in_proj_bias {
            init::zeros_(bias)?;
        }
        if let Some(bias) = &out_proj.bias {
            init::zeros_(bias)?;
        }
        Ok(MultiheadAttention {
            in_proj_weight,
            in_proj_bias,
            out_proj,
            heads,
            dropout,
            batch_first,
            training: Training::default(),
        })
    }

    /// Attends from `query` (L, N, E) to `key` and `value` (S, N, E), or all three without the batch N. `mask`, which
    /// is broadcast to (N, heads, L, S), is added to the scores, or hides what is true in it.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(&self, query: &Tensor, key: &Tensor, value: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        self.forward_masked(query, key, value, AttentionMasks { mask, ..AttentionMasks::default() })
    }

    /// Attends without looking ahead: position l sees the keys up to l.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    pub fn forward_causal(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor> {
        self.forward_masked(query, key, value, AttentionMasks { causal: true, ..AttentionMasks::default() })
    }

    /// Attends to what `masks` leave.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    pub fn forward_masked(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: AttentionMasks<'_>,
    ) -> Result<Tensor> {
        let (q, k, v) = self.heads(query, key, value)?;
        let (mask, causal) = self.combined(masks, &q, &k)?;
        // True hides here, and shows in the operator.
        let mask = match mask {
            Some(m) if m.dtype() == DType::Bool => Some(m.logical_not()?),
            other => other,
        };
        let dropout = if self.training.get() { self.dropout } else { 0.0 };
        let y = q.scaled_dot_product_attention(&k, &v, mask.as_ref(), dropout, causal, None, false)?;
        self.output(&y, query)
    }

    /// The same, and how much of each key every position took, as the mean over the heads: (N, L, S), or (L, S).
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    pub fn forward_with_weights(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: AttentionMasks<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let (q, k, v) = self.heads(query, key, value)?;
        let scale = 1.0 / (q.sizes()[3] as f64).sqrt();
        let scores = q.mul(scale)?.matmul(&k.transpose(2, 3)?)?;
        let (mask, causal) = self.combined(masks, &q, &k)?;
        let mut scores = match mask {
            None => scores,
            Some(mask) if mask.dtype() == DType::Bool => scores.masked_fill(&mask, f64::NEG_INFINITY)?,
            Some(mask) => scores.add(&mask)?,
        };
        if causal {
            let ahead = Tensor::ones(&scores.sizes()[2..], (DType::Bool, scores.device()))?.triu(1)?;
            scores = scores.masked_fill(&ahead, f64::NEG_INFINITY)?;
        }
        let weights = scores.softmax(-1, None)?.dropout(self.dropout, self.training.get())?;
        let y = self.output(&weights.matmul(&v)?, query)?;
        let weights = weights.mean_dim(&[1], false)?;
        Ok((y, if query.dim() == 3 { weights } else { weights.squeeze_dim(0)? }))
    }

    /// Query, key and value projected, as (N, heads, length, features of a head).
    fn heads(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        ensure!(
            matches!(q.dim(), 2 | 3) && k.dim() == q.dim() && v.dim() == q.dim(),
            "MultiheadAttention: query, key and value must all have 2 or all 3 dimensions, but have sizes {:?}, {:?} and \
             {:?}",
            q.sizes(),
            k.sizes(),
            v.sizes()
        );
        let features = self.out_proj.weight.sizes()[0];
        for (name, x) in [("query", q), ("key", k), ("value", v)] {
            let last = x.sizes()[x.dim() - 1];
            ensure!(
                last == features,
                "MultiheadAttention: was expecting {name} of {features} features, but got {last}"
            );
        }
        let batched = q.dim() == 3;
        let split = |x: &Tensor, number: i64| -> Result<Tensor> {
            let weight = self.in_proj_weight.narrow(0, number * features, features)?;
            let bias = match &self.in_proj_bias {
                Some(b) => Some(b.narrow(0, number * features, features)?),
                None => None,
            };
            let x = x.linear(&weight, bias.as_ref())?.unflatten(-1, &[self.heads, features / self.heads])?;
            match (batched, self.batch_first) {
                (false, _) => x.transpose(0, 1)?.unsqueeze(0),
                (true, true) => x.transpose(1, 2),
                (true, false) => x.permute(&[1, 2, 0, 3]),
            }
        };
        Ok((split(q, 0)?, split(k, 1)?, split(v, 2)?))
    }

    /// All masks as one that is broadcast to (N, heads, L, S); the causal one stays apart if it is alone.
    fn combined(&self, masks: AttentionMasks<'_>, q: &Tensor, k: &Tensor) -> Result<(Option<Tensor>, bool)> {
        let [batch, heads, length, _] = q.sizes() else { return Err(Error::runtime("attention is 4-dimensional")) };
        let keys = k.sizes()[2];
        let mut all = Vec::new();
        if let Some(mask) = masks.mask {
            let per_head = mask.dim() == 3 && mask.sizes()[0] == batch * heads && *batch > 1;
            all.push(if per_head { mask.reshape(&[*batch, *heads, *length, keys])? } else { mask.clone() });
        }
        if let Some(padding) = masks.key_padding {
            ensure!(
                padding.numel() == batch * keys,
                "key_padding_mask: expected sizes {:?}, got {:?}",
                [*batch, keys],
                padding.sizes()
            );
            all.push(padding.reshape(&[*batch, 1, 1, keys])?);
        }
        if masks.causal && !all.is_empty() {
            all.push(Tensor::ones(&[*length, keys], (DType::Bool, q.device()))?.triu(1)?);
        }
        let additive = |mask: &Tensor| -> Result<Tensor> {
            match mask.dtype() {
                DType::Bool => {
                    Tensor::zeros(mask.sizes(), (q.dtype(), q.device()))?.masked_fill(mask, f64::NEG_INFINITY)
                }
                _ => Ok(mask.clone()),
            }
        };
        let only_causal = masks.causal && all.is_empty();
        let combined = all.into_iter().map(Ok).reduce(|a, b| -> Result<Tensor> {
            let (a, b) = (a?, b?);
            match (a.dtype(), b.dtype()) {
                (DType::Bool, DType::Bool) => a.logical_or(&b),
                _ => additive(&a)?.add(&additive(&b)?),
            }
        });
        Ok((combined.transpose()?, only_causal))
    }

    /// From the heads back to the shape of `query`, projected.
    fn output(&self, y: &Tensor, query: &Tensor) -> Result<Tensor> {
        let y = match (query.dim() == 3, self.batch_first) {
            (false, _) => y.squeeze_dim(0)?.transpose(0, 1)?.flatten(1, 2)?,
            (true, true) => y.transpose(1, 2)?.flatten(2, 3)?,
            (true, false) => y.permute(&[2, 0, 1, 3])?.flatten(2, 3)?,
        };
        crate::Forward::forward(&self.out_proj, &y)
    }
}
