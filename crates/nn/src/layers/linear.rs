//! Linear maps and tables.

use super::{empty_parameter, reset_weight_and_bias};
use crate::init;
use crate::walk::Parameter;
use crate::{Forward, Module};
use flambeau::{Result, Tensor, ensure};

/// `x W^T + b` over the last dimension.
#[derive(Module)]
pub struct Linear {
    /// The weight, (outputs, inputs).
    pub weight: Parameter,
    /// The bias, (outputs).
    pub bias: Option<Parameter>,
}

impl Linear {
    /// From `inputs` to `outputs` features, with a bias.
    ///
    /// # Errors
    /// When a number is negative or memory runs out.
    pub fn new(inputs: i64, outputs: i64) -> Result<Linear> {
        let linear = Linear { weight: empty_parameter(&[outputs, inputs])?, bias: Some(empty_parameter(&[outputs])?) };
        reset_weight_and_bias(&linear.weight, linear.bias.as_ref())?;
        Ok(linear)
    }

    /// From `inputs` to `outputs` features, without a bias.
    ///
    /// # Errors
    /// As [`Linear::new`].
    pub fn without_bias(inputs: i64, outputs: i64) -> Result<Linear> {
        let linear = Linear { weight: empty_parameter(&[outputs, inputs])?, bias: None };
        reset_weight_and_bias(&linear.weight, None)?;
        Ok(linear)
    }
}

impl Forward for Linear {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.linear(&self.weight, self.bias.as_deref())
    }
}

/// A table of vectors, looked up by number.
#[derive(Module)]
pub struct Embedding {
    /// The table, (entries, features).
    pub weight: Parameter,
    padding_index: Option<i64>,
}

impl Embedding {
    /// `entries` vectors of `features` numbers, drawn normally.
    ///
    /// # Errors
    /// When a number is negative or memory runs out.
    pub fn new(entries: i64, features: i64) -> Result<Embedding> {
        let weight = empty_parameter(&[entries, features])?;
        init::normal_(&weight, 0.0, 1.0)?;
        Ok(Embedding { weight, padding_index: None })
    }

    /// The same with one entry that is zero and gets no gradient, counted from the end when negative.
    ///
    /// # Errors
    /// As [`Embedding::new`], and when there is no such entry.
    pub fn with_padding(entries: i64, features: i64, padding_index: i64) -> Result<Embedding> {
        ensure!((-entries..entries).contains(&padding_index), "Padding_idx must be within num_embeddings");
        let index = padding_index.rem_euclid(entries);
        let embedding = Embedding { padding_index: Some(index), ..Embedding::new(entries, features)? };
        init::zeros_(&embedding.weight.detach()?.select(0, index)?)?;
        Ok(embedding)
    }
}

impl Forward for Embedding {
    fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        self.weight.embedding_with(indices, self.padding_index.unwrap_or(-1), false)
    }
}
