//! Attention.

use super::{Linear, empty_parameter};
use crate::Module;
use crate::init;
use crate::walk::{Parameter, Training};
use flambeau::{DType, Error, Result, Tensor, ensure};

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
        if features < 1 || heads < 1 || features % heads != 0 {
            return Err(Error::value(format!(
                "embed_dim must be divisible by num_heads, both positive: got embed_dim={features} and num_heads={heads}"
            )));
        }
        if !(0.0..=1.0).contains(&dropout) {
            return Err(Error::value(format!("dropout probability has to be between 0 and 1, but got {dropout}")));
        }
        // The order of the draws is PyTorch's: the output projection's come first.
        let out_proj = Linear::new(features, features)?;
        let in_proj_weight = empty_parameter(&[3 * features, features])?;
        init::xavier_uniform_(&in_proj_weight, 1.0)?;
        let in_proj_bias = empty_parameter(&[3 * features])?;
        init::zeros_(&in_proj_bias)?;
        if let Some(bias) = &out_proj.bias {
            init::zeros_(bias)?;
        }
        Ok(MultiheadAttention {
            in_proj_weight,
            in_proj_bias: Some(in_proj_bias),
            out_proj,
            heads,
            dropout,
            batch_first: false,
            training: Training::default(),
        })
    }

    /// Attends from `query` (L, N, E) to `key` and `value` (S, N, E), or all three without the batch N. `mask`, which
    /// is broadcast to (N, heads, L, S), is added to the scores, or hides what is true in it.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(&self, query: &Tensor, key: &Tensor, value: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        self.attend(query, key, value, mask, false)
    }

    /// Attends without looking ahead: position l sees the keys up to l.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    pub fn forward_causal(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor> {
        self.attend(query, key, value, None, true)
    }

    fn attend(&self, q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, causal: bool) -> Result<Tensor> {
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
        // To (N, heads, length, features of a head).
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
        let (q, k, v) = (split(q, 0)?, split(k, 1)?, split(v, 2)?);
        let mask = match mask {
            // True hides here, and shows in the operator.
            Some(m) if m.dtype() == DType::Bool => Some(m.logical_not()?),
            other => other.cloned(),
        };
        let dropout = if self.training.get() { self.dropout } else { 0.0 };
        let y = q.scaled_dot_product_attention(&k, &v, mask.as_ref(), dropout, causal, None, false)?;
        let y = match (batched, self.batch_first) {
            (false, _) => y.squeeze_dim(0)?.transpose(0, 1)?.flatten(1, 2)?,
            (true, true) => y.transpose(1, 2)?.flatten(2, 3)?,
            (true, false) => y.permute(&[2, 0, 1, 3])?.flatten(2, 3)?,
        };
        crate::Forward::forward(&self.out_proj, &y)
    }
}
