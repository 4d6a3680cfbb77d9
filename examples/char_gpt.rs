//! A small GPT that learns to write like Shakespeare, character by character.
//!
//! ```text
//! cargo run --release --example char_gpt [-- --steps N --batch N --seed N --text PATH --checkpoint PATH]
//! cargo run --release --example char_gpt -- generate [--prompt TEXT --length N --temperature X --checkpoint PATH]
//! ```

use flambeau::autograd;
use flambeau_nn::checkpoint::Checkpoint;
use flambeau_nn::optim::{LambdaLR, Optimizer, Scheduler, clip_grad_norm_};
use flambeau_nn::{
    AdamW, AttentionMasks, DType, Embedding, Error, LayerNorm, Linear, Module, Result, Tensor, TransformerActivation,
    TransformerEncoder, TransformerEncoderLayer, TransformerOptions, init, loss,
};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How far back the network sees, and its size.
const CONTEXT: i64 = 64;
const LAYERS: usize = 4;
const HEADS: i64 = 4;
const WIDTH: i64 = 128;

#[derive(Module)]
struct Gpt {
    token: Embedding,
    position: Embedding,
    blocks: TransformerEncoder,
    head: Linear,
}

impl Gpt {
    fn new(characters: i64) -> Result<Gpt> {
        let options = TransformerOptions {
            feedforward: 4 * WIDTH,
            dropout: 0.0,
            activation: TransformerActivation::Gelu,
            batch_first: true,
            norm_first: true,
            ..TransformerOptions::default()
        };
        let layers = (0..LAYERS).map(|_| TransformerEncoderLayer::new(WIDTH, HEADS, options));
        let blocks =
            TransformerEncoder { layers: layers.collect::<Result<_>>()?, norm: Some(LayerNorm::new(&[WIDTH])?) };
        let token = Embedding::new(characters, WIDTH)?;
        // The same table reads characters and writes them.
        let head = Linear { weight: token.weight.clone(), bias: None };
        let net = Gpt { token, position: Embedding::new(CONTEXT, WIDTH)?, blocks, head };
        for matrix in net.parameters().iter().filter(|p| p.dim() > 1) {
            init::normal_(matrix, 0.0, 0.02)?;
        }
        Ok(net)
    }

    /// From characters (batch, length) to the scores of the next ones (batch, length, characters).
    fn forward(&self, characters: &Tensor) -> Result<Tensor> {
        use flambeau_nn::Forward;
        let places = Tensor::arange(characters.sizes()[1], DType::I64)?;
        let x = self.token.forward(characters)?.add(&self.position.forward(&places)?)?; // (batch, length, WIDTH)
        let causal = AttentionMasks { causal: true, ..AttentionMasks::default() };
        self.head.forward(&self.blocks.forward_masked(&x, causal)?)
    }

    /// The mean loss of predicting every character of (batch, length + 1) from those before.
    fn loss(&self, characters: &Tensor) -> Result<Tensor> {
        let length = characters.sizes()[1] - 1;
        let scores = self.forward(&characters.narrow(1, 0, length)?)?;
        loss::cross_entropy(&scores.flatten(0, 1)?, &characters.narrow(1, 1, length)?.flatten(0, 1)?)
    }
}

/// The characters of a text, and their numbers.
struct Vocabulary(Vec<char>);

impl Vocabulary {
    fn of(text: &str) -> Vocabulary {
        Vocabulary(text.chars().collect::<BTreeSet<_>>().into_iter().collect())
    }
    /// The numbers of the characters that are in it.
    fn encode(&self, text: &str) -> Vec<i64> {
        text.chars().filter_map(|c| self.0.binary_search(&c).ok()).map(|i| i as i64).collect()
    }
}

/// The plays, where the project was built or below the current directory.
fn default_text() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tinyshakespeare.txt");
    if built.exists() { built } else { PathBuf::from("data/tinyshakespeare.txt") }
}

/// `count` pieces of a text from random places: (count, CONTEXT + 1).
fn pieces(text: &Tensor, count: i64) -> Result<Tensor> {
    let starts = Tensor::randint(0, text.numel() - CONTEXT, &[count, 1], DType::I64)?;
    let places = starts.add(&Tensor::arange(CONTEXT + 1, DType::I64)?)?;
    text.index_select(0, &places.flatten(0, 1)?)?.reshape(&[count, CONTEXT + 1])
}

/// The loss on a text that is not learnt from.
fn held_out_loss(net: &Gpt, text: &Tensor) -> Result<f64> {
    let _guard = autograd::no_grad();
    let rows = (text.numel() / (CONTEXT + 1)).min(512);
    net.loss(&text.narrow(0, 0, rows * (CONTEXT + 1))?.reshape(&[rows, CONTEXT + 1])?)?.item().map(|x| x.to_f64())
}

fn train(options: &Options) -> Result<()> {
    flambeau::manual_seed(options.seed);
    let path = options.text.clone().unwrap_or_else(default_text);
    let text = std::fs::read_to_string(&path).map_err(|e| Error::io(format!("{}: {e}", path.display())))?;
    let vocabulary = Vocabulary::of(&text);
    let numbers = vocabulary.encode(&text);
    let (learnt, held_out) = numbers.split_at(numbers.len() / 10 * 9);
    if held_out.len() as i64 <= CONTEXT {
        return Err(Error::value(format!("{} is too short to learn from", path.display())));
    }
    let (learnt, held_out) = (Tensor::from_slice(learnt)?, Tensor::from_slice(held_out)?);

    let net = Gpt::new(vocabulary.0.len() as i64)?;
    let parameters = net.parameters();
    let count: i64 = parameters.iter().map(Tensor::numel).sum();
    println!("{} characters of {} sorts, {count} parameters", numbers.len(), vocabulary.0.len());
    // Matrices decay, biases and scales do not.
    let (matrices, others) = parameters.iter().cloned().partition(|p| p.dim() > 1);
    let adam = AdamW { lr: 3e-3, beta2: 0.99, weight_decay: 0.1, ..AdamW::default() };
    let mut optimizer = Optimizer::new(matrices, adam)?;
    optimizer.add_group(others, AdamW { weight_decay: 0.0, ..adam })?;
    let (warmup, steps) = (100.0, options.steps as f64);
    let mut schedule = Scheduler::new(
        &mut optimizer,
        LambdaLR(|step| {
            let cosine = 0.5 * (1.0 + (std::f64::consts::PI * step as f64 / steps).cos());
            ((step + 1) as f64 / warmup).min(1.0) * (0.1 + 0.9 * cosine)
        }),
    )?;

    let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} steps  {msg}  {eta} left")
        .map_err(|e| Error::value(e.to_string()))?
        .progress_chars("=> ");
    let bar = ProgressBar::new(options.steps).with_style(style);
    let start = Instant::now();
    let mut smooth = None;
    for step in 1..=options.steps {
        let loss = net.loss(&pieces(&learnt, options.batch)?)?;
        loss.backward()?;
        clip_grad_norm_(&parameters, 1.0, 2.0)?;
        optimizer.step()?;
        optimizer.zero_grad()?;
        schedule.step(&mut optimizer)?;
        let now = loss.item()?.to_f64();
        let average = smooth.map_or(now, |before| 0.98 * before + 0.02 * now);
        smooth = Some(average);
        let rate = (step * options.batch as u64 * CONTEXT as u64) as f64 / start.elapsed().as_secs_f64();
        bar.set_message(format!("loss {average:.3}  {rate:.0} characters/s"));
        bar.inc(1);
    }
    let summary = bar.message();
    bar.finish_and_clear();
    let held_out = held_out_loss(&net, &held_out)?;
    println!("{} steps: {summary}", options.steps);
    println!("held-out loss {held_out:.3} after {:.1} s", start.elapsed().as_secs_f64());

    let mut checkpoint = Checkpoint::new();
    checkpoint.state.insert_section("model", &net.state_dict()?);
    checkpoint.state.insert_section("optimizer", &optimizer.state_dict()?);
    checkpoint.metadata.insert("characters".into(), vocabulary.0.iter().collect());
    checkpoint.metadata.insert("held-out loss".into(), format!("{held_out:.3}"));
    checkpoint.save(&options.checkpoint)?;
    println!("saved {}; let it write with `-- generate`", options.checkpoint.display());
    Ok(())
}

fn generate(options: &Options) -> Result<()> {
    flambeau::manual_seed(options.seed);
    let checkpoint = Checkpoint::load(&options.checkpoint)?;
    let characters = checkpoint.metadata.get("characters");
    let characters = characters.ok_or_else(|| Error::io("the checkpoint does not name its characters"))?;
    let vocabulary = Vocabulary::of(characters);
    let net = Gpt::new(vocabulary.0.len() as i64)?;
    net.load_state_dict(&checkpoint.state.section("model"), true)?;
    net.eval();
    let mut text = vocabulary.encode(&options.prompt);
    if text.is_empty() {
        return Err(Error::value("the prompt has no character that the network knows"));
    }
    let _guard = autograd::no_grad();
    let mut out = std::io::stdout().lock();
    write!(out, "{}", options.prompt)?;
    for _ in 0..options.length {
        let seen = &text[text.len().saturating_sub(CONTEXT as usize)..];
        let scores = net.forward(&Tensor::from_slice(seen)?.unsqueeze(0)?)?.select(1, -1)?;
        let next = if options.temperature > 0.0 {
            scores.div(options.temperature)?.softmax(-1, None)?.multinomial(1, true)?
        } else {
            scores.argmax(Some(-1), true)?
        };
        let next = next.item()?.to_i64();
        text.push(next);
        write!(out, "{}", vocabulary.0[next as usize])?;
        out.flush()?;
    }
    writeln!(out)?;
    Ok(())
}

struct Options {
    generate: bool,
    steps: u64,
    batch: i64,
    seed: u64,
    text: Option<PathBuf>,
    prompt: String,
    length: u64,
    temperature: f64,
    checkpoint: PathBuf,
}

fn options() -> std::result::Result<Options, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options {
        generate: false,
        steps: 1500,
        batch: 16,
        seed: 0,
        text: None,
        prompt: "\n".to_owned(),
        length: 500,
        temperature: 0.8,
        checkpoint: PathBuf::from("char_gpt.checkpoint.safetensors"),
    };
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Value(word) if word == "generate" => options.generate = true,
            Long("steps") => options.steps = arguments.value()?.parse()?,
            Long("batch") => options.batch = arguments.value()?.parse()?,
            Long("seed") => options.seed = arguments.value()?.parse()?,
            Long("text") => options.text = Some(arguments.value()?.into()),
            Long("prompt") => options.prompt = arguments.value()?.string()?,
            Long("length") => options.length = arguments.value()?.parse()?,
            Long("temperature") => options.temperature = arguments.value()?.parse()?,
            Long("checkpoint") => options.checkpoint = arguments.value()?.into(),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(options)
}

fn main() {
    let outcome = match options() {
        Err(e) => Err(e.to_string()),
        Ok(o) => if o.generate { generate(&o) } else { train(&o) }.map_err(|e| e.to_string()),
    };
    if let Err(e) = outcome {
        eprintln!("error: {e}");
        std::process::exit(1);
    }
}
