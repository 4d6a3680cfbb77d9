//! Linear maps and tables.

use super::{empty_parameter, reset_weight_and_bias};
use crate::init;
use crate::operator;
use crate::walk::Parameter;
use crate::{Forward, Module};
use flambeau::{Result, Tensor, Value, ensure};

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

/// `x1 A x2 + b` over the last dimensions, for every output's own A.
#[derive(Module)]
pub struct Bilinear {
    /// The weight, (outputs, first inputs, second inputs).
    pub weight: Parameter,
    /// The bias, (outputs).
    pub bias: Option<Parameter>,
}

impl Bilinear {
    /// From two vectors of `inputs1` and `inputs2` features to `outputs`, with a bias.
    ///
    /// # Errors
    /// When a number is not positive or memory runs out.
    pub fn new(inputs1: i64, inputs2: i64, outputs: i64) -> Result<Bilinear> {
        ensure!(inputs1 > 0, "in1_features must be > 0, but got {inputs1}");
        let (weight, bias) = (empty_parameter(&[outputs, inputs1, inputs2])?, empty_parameter(&[outputs])?);
        let bound = 1.0 / (inputs1 as f64).sqrt();
        init::uniform_(&weight, -bound, bound)?;
        init::uniform_(&bias, -bound, bound)?;
        Ok(Bilinear { weight, bias: Some(bias) })
    }

    /// Computes it.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        let arguments = [x1.into(), x2.into(), Value::Tensor(&self.weight), self.bias.as_deref().into()];
        operator("bilinear")?.call(&arguments)?.one()
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

impl Embedding {
    /// A table that is there already.
    ///
    /// # Errors
    /// When it has not 2 dimensions, or its dtype cannot have a gradient.
    pub fn from_weight(weight: Tensor) -> Result<Embedding> {
        ensure!(weight.dim() == 2, "Embeddings parameter is expected to be 2-dimensional");
        Ok(Embedding { weight: Parameter::new(weight)?, padding_index: None })
    }
}

impl Forward for Embedding {
    fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        self.weight.embedding_with(indices, self.padding_index.unwrap_or(-1), false)
    }
}

/// What an [`EmbeddingBag`] makes of the vectors of a bag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagMode {
    /// Their sum.
    Sum = 0,
    /// Their mean.
    #[default]
    Mean = 1,
    /// Their maximum, element by element.
    Max = 2,
}

/// A table of vectors, looked up by bags of numbers.
#[derive(Module)]
pub struct EmbeddingBag {
    /// The table, (entries, features).
    pub weight: Parameter,
    #[module(skip)]
    mode: BagMode,
}

impl EmbeddingBag {
    /// `entries` vectors of `features` numbers, drawn normally.
    ///
    /// # Errors
    /// When a number is negative or memory runs out.
    pub fn new(entries: i64, features: i64, mode: BagMode) -> Result<EmbeddingBag> {
        let weight = empty_parameter(&[entries, features])?;
        init::normal_(&weight, 0.0, 1.0)?;
        Ok(EmbeddingBag { weight, mode })
    }

    /// From the numbers of all bags, one bag after another, and where each begins. In sums, every number's vector may
    /// have a weight.
    ///
    /// # Errors
    /// When a number is out of range, or the sizes do not fit.
    pub fn forward_bags(&self, indices: &Tensor, offsets: &Tensor, weights: Option<&Tensor>) -> Result<Tensor> {
        let arguments = [
            Value::Tensor(&self.weight),
            indices.into(),
            offsets.into(),
            false.into(),
            (self.mode as i64).into(),
            false.into(),
            weights.into(),
            false.into(),
        ];
        let results = operator("embedding_bag")?.call(&arguments)?.list()?;
        results.into_iter().next().ok_or_else(|| flambeau::Error::runtime("embedding_bag gave nothing"))
    }
}

impl Forward for EmbeddingBag {
    /// From bags of the same size, (bags, numbers).
    fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        ensure!(
            indices.dim() == 2,
            "EmbeddingBag: bags of the same size are 2-dimensional, got {} dims",
            indices.dim()
        );
        let (bags, size) = (indices.sizes()[0], indices.sizes()[1]);
        let starts: Vec<i64> = (0..bags).map(|bag| bag * size).collect();
        self.forward_bags(&indices.reshape(&[-1])?, &Tensor::from_slice(&starts)?, None)
    }
}
