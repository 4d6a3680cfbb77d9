//! A convolutional network that learns handwritten digits.
//!
//! ```text
//! cargo run --release --example mnist [-- --epochs N --limit N --seed N --checkpoint PATH]
//! cargo run --release --example mnist -- predict [--checkpoint PATH] [--count N]
//! ```

use flambeau::autograd;
use flambeau::io::{Array, npy::load_npz};
use flambeau_nn::checkpoint::Checkpoint;
use flambeau_nn::data::LoaderOptions;
use flambeau_nn::optim::{OneCycleLR, Scheduler};
use flambeau_nn::{
    Adam, Conv2d, DType, DataLoader, Dropout, Error, Forward, Linear, Module, Optimizer, Result, Tensor, TensorDataset,
    loss,
};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Module)]
struct Net {
    conv1: Conv2d,
    conv2: Conv2d,
    hidden: Linear,
    dropout: Dropout,
    output: Linear,
}

impl Net {
    fn new() -> Result<Net> {
        Ok(Net {
            conv1: Conv2d::new(1, 16, [3, 3])?,
            conv2: Conv2d::new(16, 32, [3, 3])?,
            hidden: Linear::new(32 * 5 * 5, 64)?,
            dropout: Dropout::new(0.25)?,
            output: Linear::new(64, 10)?,
        })
    }
}

impl Forward for Net {
    /// From (batch, 1, 28, 28) to the scores (batch, 10).
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let halve = |x: Tensor| x.relu()?.max_pool2d(&[2, 2], &[2, 2], &[0, 0], &[1, 1], false);
        let x = halve(self.conv1.forward(x)?)?; // (batch, 16, 13, 13)
        let x = halve(self.conv2.forward(&x)?)?; // (batch, 32, 5, 5)
        let x = self.hidden.forward(&x.flatten(1, -1)?)?.relu()?;
        self.output.forward(&self.dropout.forward(&x)?)
    }
}

/// The digits, where the project was built or below the current directory.
fn data() -> Result<BTreeMap<String, Array>> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/mnist_10k.npz");
    let here = PathBuf::from("data/mnist_10k.npz");
    load_npz(if built.exists() { built } else { here })
}

/// The mean and deviation of the pixels, and what black becomes by them.
const MEAN: f64 = 0.1307;
const DEVIATION: f64 = 0.3081;
const BACKGROUND: f64 = -MEAN / DEVIATION;

/// Images brought to mean 0 and deviation 1, and their labels.
fn split(arrays: &BTreeMap<String, Array>, name: &str) -> Result<(Tensor, Tensor)> {
    let tensor = |name: String| -> Result<Tensor> {
        let array = arrays.get(&name).ok_or_else(|| Error::io(format!("the data has no array '{name}'")))?;
        Tensor::from_bytes(&array.data, array.dtype, &array.sizes)
    };
    let images = tensor(format!("{name}_images"))?.to_dtype(DType::F32)?.unsqueeze(1)?;
    let images = images.div(255.0)?.sub(MEAN)?.div(DEVIATION)?;
    Ok((images, tensor(format!("{name}_labels"))?.to_dtype(DType::I64)?))
}

/// A batch moved by up to two pixels: the network should not learn where exactly a digit stands.
fn shifted(images: &Tensor) -> Result<Tensor> {
    let by = Tensor::randint(0, 5, &[2], DType::I64)?.to_vec::<i64>()?;
    let padded = images.constant_pad_nd(&[2, 2, 2, 2], BACKGROUND)?;
    padded.narrow(2, by[0], 28)?.narrow(3, by[1], 28)?.contiguous()
}

/// How many of the labels the network finds.
fn count_right(net: &Net, images: &Tensor, labels: &Tensor) -> Result<i64> {
    let _guard = autograd::no_grad();
    net.eval();
    let mut right = 0;
    for (x, y) in images.split(500, 0)?.iter().zip(labels.split(500, 0)?) {
        right += net.forward(x)?.argmax(Some(1), false)?.eq(&y)?.sum()?.item()?.to_i64();
    }
    Ok(right)
}

fn train(options: &Options) -> Result<()> {
    flambeau::manual_seed(options.seed);
    let arrays = data()?;
    let (mut images, mut labels) = split(&arrays, "train")?;
    let (test_images, test_labels) = split(&arrays, "test")?;
    if let Some(limit) = options.limit {
        let limit = limit.clamp(1, images.sizes()[0]);
        (images, labels) = (images.narrow(0, 0, limit)?, labels.narrow(0, 0, limit)?);
    }
    let net = Net::new()?;
    let mut optimizer = Optimizer::new(net.parameters(), Adam::default())?;
    let loader = DataLoader::new(
        TensorDataset::new(vec![images, labels])?,
        LoaderOptions { batch_size: 64, shuffle: true, workers: 1, ..LoaderOptions::default() },
    )?;
    let steps = options.epochs * loader.len() as u64;
    let mut schedule = Scheduler::new(&mut optimizer, OneCycleLR::new(4e-3, steps.max(1)))?;
    let style = ProgressStyle::with_template("epoch {prefix} [{bar:30}] {pos}/{len} batches  {msg}")
        .map_err(|e| Error::value(e.to_string()))?
        .progress_chars("=> ");
    let start = Instant::now();
    for epoch in 1..=options.epochs {
        let bar = ProgressBar::new(loader.len() as u64).with_style(style.clone());
        bar.set_prefix(format!("{epoch}/{}", options.epochs));
        let (begin, mut seen, mut right, mut total) = (Instant::now(), 0i64, 0i64, 0.0);
        for batch in loader.iter()? {
            let batch = batch?;
            let [x, y] = &batch[..] else { return Err(Error::runtime("a batch is images and labels")) };
            let scores = net.forward(&shifted(x)?)?;
            let loss = loss::cross_entropy(&scores, y)?;
            loss.backward()?;
            optimizer.step()?;
            optimizer.zero_grad()?;
            schedule.step(&mut optimizer)?;
            let n = y.sizes()[0];
            seen += n;
            total += loss.item()?.to_f64() * n as f64;
            right += scores.detach()?.argmax(Some(1), false)?.eq(y)?.sum()?.item()?.to_i64();
            bar.set_message(format!(
                "loss {:.4}  accuracy {:.2} %  {:.0} images/s",
                total / seen as f64,
                100.0 * right as f64 / seen as f64,
                seen as f64 / begin.elapsed().as_secs_f64()
            ));
            bar.inc(1);
        }
        let summary = bar.message();
        bar.finish_and_clear();
        println!("epoch {epoch}/{}: {summary}", options.epochs);
    }
    let seconds = start.elapsed().as_secs_f64();
    let accuracy = 100.0 * count_right(&net, &test_images, &test_labels)? as f64 / test_labels.numel() as f64;
    println!("held-out accuracy {accuracy:.2} % after {seconds:.1} s");

    let mut checkpoint = Checkpoint::new();
    checkpoint.state.insert_section("model", &net.state_dict()?);
    checkpoint.state.insert_section("optimizer", &optimizer.state_dict()?);
    checkpoint.metadata.insert("accuracy".into(), format!("{accuracy:.2}"));
    checkpoint.save(&options.checkpoint)?;
    println!("saved {}; see it at work with `-- predict`", options.checkpoint.display());
    Ok(())
}

fn predict(options: &Options) -> Result<()> {
    let checkpoint = Checkpoint::load(&options.checkpoint)?;
    let net = Net::new()?;
    net.load_state_dict(&checkpoint.state.section("model"), true)?;
    net.eval();
    let (images, labels) = split(&data()?, "test")?;
    let count = options.count.clamp(1, images.sizes()[0]);
    let (images, labels) = (images.narrow(0, 0, count)?, labels.narrow(0, 0, count)?);
    let _guard = autograd::no_grad();
    let probabilities = net.forward(&images)?.softmax(1, None)?;
    let (best, classes) = probabilities.max_dim(1, false)?;
    let (best, classes, labels) = (best.to_vec::<f32>()?, classes.to_vec::<i64>()?, labels.to_vec::<i64>()?);
    for i in 0..count as usize {
        draw(&images.select(0, i as i64)?.squeeze()?)?;
        println!("prediction {} ({:.1} %), label {}\n", classes[i], 100.0 * best[i], labels[i]);
    }
    Ok(())
}

/// Draws an image (28, 28), two rows of pixels to a line of text.
fn draw(image: &Tensor) -> Result<()> {
    let pixels = image.accessor::<f32, 2>()?;
    let [height, width] = pixels.sizes();
    let ink = |row, column| pixels.get([row, column]).is_some_and(|p| p > 1.0);
    for row in (0..height).step_by(2) {
        let line: String = (0..width)
            .map(|column| match (ink(row, column), ink(row + 1, column)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            })
            .collect();
        println!("{}", line.trim_end());
    }
    Ok(())
}

struct Options {
    predict: bool,
    epochs: u64,
    limit: Option<i64>,
    seed: u64,
    count: i64,
    checkpoint: PathBuf,
}

fn options() -> std::result::Result<Options, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options {
        predict: false,
        epochs: 8,
        limit: None,
        seed: 0,
        count: 4,
        checkpoint: PathBuf::from("mnist.checkpoint.safetensors"),
    };
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Value(word) if word == "predict" => options.predict = true,
            Long("epochs") => options.epochs = arguments.value()?.parse()?,
            Long("limit") => options.limit = Some(arguments.value()?.parse()?),
            Long("seed") => options.seed = arguments.value()?.parse()?,
            Long("count") => options.count = arguments.value()?.parse()?,
            Long("checkpoint") => options.checkpoint = arguments.value()?.into(),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(options)
}

fn main() {
    let outcome = match options() {
        Err(e) => Err(e.to_string()),
        Ok(o) => if o.predict { predict(&o) } else { train(&o) }.map_err(|e| e.to_string()),
    };
    if let Err(e) = outcome {
        eprintln!("error: {e}");
        std::process::exit(1);
    }
}
