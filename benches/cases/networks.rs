//! The networks of the cases: LeNet, ResNet-18, an LSTM and a GPT.

use flambeau::{MemoryFormat, Result, Tensor, autograd};
use flambeau_nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Buffer, Conv2d, ConvOptions, DType, Embedding, Flatten, Forward, LSTM, LayerNorm,
    LeafMut, Linear, MaxPool2d, Module, PoolOptions, ReLU, RnnOptions, Sequential,
};

/// Gives matrices and kernels normally distributed weights scaled by what goes in, and biases small ones.
pub fn filled<M: Module>(net: M) -> Result<M> {
    let _guard = autograd::no_grad();
    for (name, p) in net.named_parameters() {
        let scale = match p.sizes() {
            [_, inner @ ..] if !inner.is_empty() => 1.0 / (inner.iter().product::<i64>() as f64).sqrt(),
            _ if name.contains("bias") => 0.02,
            _ => continue,
        };
        p.copy_(&Tensor::randn(p.sizes(), p.dtype())?.mul_(scale)?)?;
    }
    Ok(net)
}

/// Lays out the kernels of convolutions with their channels densest.
pub fn to_channels_last(net: &mut impl Module) -> Result<()> {
    net.walk_mut(&mut |leaf| {
        let (LeafMut::Parameter(t) | LeafMut::Buffer(t)) = leaf;
        if t.dim() == 4 {
            *t = t.detach()?.contiguous_in(MemoryFormat::ChannelsLast)?.requires_grad_(true)?;
        }
        Ok(())
    })
}

/// Three layers on MNIST's pixels.
pub fn mlp() -> Result<Sequential> {
    let hidden = Sequential::new().then(Linear::new(784, 512)?).then(ReLU);
    Ok(hidden.then(Linear::new(512, 512)?).then(ReLU).then(Linear::new(512, 10)?))
}

/// LeCun's network for digits.
pub fn lenet() -> Result<Sequential> {
    let padded = ConvOptions { padding: [2, 2], ..ConvOptions::default() };
    let first = Sequential::new().then(Conv2d::with(1, 6, [5, 5], padded)?).then(ReLU).then(MaxPool2d::new([2, 2]));
    let both = first.then(Conv2d::new(6, 16, [5, 5])?).then(ReLU).then(MaxPool2d::new([2, 2]));
    let flat = both.then(Flatten::default()).then(Linear::new(400, 120)?).then(ReLU);
    Ok(flat.then(Linear::new(120, 84)?).then(ReLU).then(Linear::new(84, 10)?))
}

fn convolution(inputs: i64, outputs: i64, kernel: i64, stride: i64, padding: i64) -> Result<Conv2d> {
    let options = ConvOptions { stride: [stride; 2], padding: [padding; 2], bias: false, ..ConvOptions::default() };
    Conv2d::with(inputs, outputs, [kernel; 2], options)
}

#[derive(Module)]
struct Residual {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    down: Option<Sequential>,
}

impl Residual {
    fn new(inputs: i64, outputs: i64, stride: i64) -> Result<Residual> {
        let down = if stride == 1 && inputs == outputs {
            None
        } else {
            let conv = convolution(inputs, outputs, 1, stride, 0)?;
            Some(Sequential::new().then(conv).then(BatchNorm2d::new(outputs)?))
        };
        Ok(Residual {
            conv1: convolution(inputs, outputs, 3, stride, 1)?,
            norm1: BatchNorm2d::new(outputs)?,
            conv2: convolution(outputs, outputs, 3, 1, 1)?,
            norm2: BatchNorm2d::new(outputs)?,
            down,
        })
    }
}

impl Forward for Residual {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let past = self.down.as_ref().map_or_else(|| Ok(x.clone()), |down| down.forward(x))?;
        let y = self.norm1.forward(&self.conv1.forward(x)?)?.relu()?;
        self.norm2.forward(&self.conv2.forward(&y)?)?.relu()?.add(&past)
    }
}

/// ResNet-18 over 1000 classes, each block's second activation standing before its sum.
pub fn resnet18() -> Result<Sequential> {
    let pool = PoolOptions { stride: Some([2, 2]), padding: [1, 1], ..PoolOptions::default() };
    let stem = Sequential::new().then(convolution(3, 64, 7, 2, 3)?).then(BatchNorm2d::new(64)?).then(ReLU);
    let mut net = stem.then(MaxPool2d::with([3, 3], pool));
    let mut inputs = 64;
    for (outputs, stride) in [(64, 1), (128, 2), (256, 2), (512, 2)] {
        net = net.then(Residual::new(inputs, outputs, stride)?).then(Residual::new(outputs, outputs, 1)?);
        inputs = outputs;
    }
    Ok(net.then(AdaptiveAvgPool2d::new([1, 1])).then(Flatten::default()).then(Linear::new(512, 1000)?))
}

/// An LSTM with scores for every step.
#[derive(Module)]
pub struct Recurrent {
    rnn: LSTM,
    out: Linear,
}

impl Recurrent {
    /// From 128 features over 256 hidden ones to 64 classes.
    pub fn new() -> Result<Recurrent> {
        let options = RnnOptions { batch_first: true, ..RnnOptions::default() };
        Ok(Recurrent { rnn: LSTM::new(128, 256, options)?, out: Linear::new(256, 64)? })
    }
}

impl Forward for Recurrent {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.out.forward(&self.rnn.forward(x, None)?.0)?.view(&[-1, 64])
    }
}

/// The sizes of a [`Gpt`], and whether its attention is one operator or written out.
#[derive(Clone, Copy)]
pub struct GptOptions {
    pub vocabulary: i64,
    pub context: i64,
    pub layers: usize,
    pub heads: i64,
    pub width: i64,
    pub fused_attention: bool,
}

impl GptOptions {
    /// One that learns characters.
    pub const SMALL: GptOptions =
        GptOptions { vocabulary: 65, context: 128, layers: 4, heads: 4, width: 128, fused_attention: true };
    /// The sizes of the smallest GPT-2.
    pub const GPT2: GptOptions =
        GptOptions { vocabulary: 50257, context: 1024, layers: 12, heads: 12, width: 768, fused_attention: true };
}

/// The keys and values of the tokens so far.
pub type Cache = Option<(Tensor, Tensor)>;

#[derive(Module)]
struct Attention {
    qkv: Linear,
    out: Linear,
    mask: Buffer,
    #[module(skip)]
    options: GptOptions,
}

impl Attention {
    fn new(options: GptOptions) -> Result<Attention> {
        let GptOptions { context, width, .. } = options;
        let mask = Tensor::ones(&[context, context], DType::F32)?.tril(0)?.view(&[1, 1, context, context])?;
        let (qkv, out) = (Linear::new(width, 3 * width)?, Linear::new(width, width)?);
        Ok(Attention { qkv, out, mask: Buffer::new(mask), options })
    }

    fn forward(&self, x: &Tensor, cache: Option<&mut Cache>) -> Result<Tensor> {
        let GptOptions { heads, width, fused_attention, .. } = self.options;
        let (batch, length) = (x.size(0)?, x.size(1)?);
        let by_head = |t: &Tensor| t.view(&[batch, length, heads, width / heads])?.transpose(1, 2);
        let parts = self.qkv.forward(x)?.split(width, 2)?;
        let (q, mut k, mut v) = (by_head(&parts[0])?, by_head(&parts[1])?, by_head(&parts[2])?);
        if let Some(cache) = cache {
            if let Some((keys, values)) = cache.take() {
                (k, v) = (Tensor::cat(&[keys, k], 2)?, Tensor::cat(&[values, v], 2)?);
            }
            *cache = Some((k.clone(), v.clone()));
        }
        let y = if fused_attention {
            q.scaled_dot_product_attention(&k, &v, None, 0.0, length > 1, None, false)?
        } else {
            let scores = q.matmul(&k.transpose(-2, -1)?)?.mul(1.0 / (k.size(-1)? as f64).sqrt())?;
            let later = self.mask.narrow(2, 0, length)?.narrow(3, 0, length)?.eq(0.0)?;
            scores.masked_fill(&later, f64::NEG_INFINITY)?.softmax(-1, None)?.matmul(&v)?
        };
        self.out.forward(&y.transpose(1, 2)?.contiguous()?.view(&[batch, length, width])?)
    }
}

#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    attention: Attention,
    norm2: LayerNorm,
    hidden: Linear,
    out: Linear,
}

impl Block {
    fn new(options: GptOptions) -> Result<Block> {
        let width = options.width;
        Ok(Block {
            norm1: LayerNorm::new(&[width])?,
            attention: Attention::new(options)?,
            norm2: LayerNorm::new(&[width])?,
            hidden: Linear::new(width, 4 * width)?,
            out: Linear::new(4 * width, width)?,
        })
    }

    fn forward(&self, x: &Tensor, cache: Option<&mut Cache>) -> Result<Tensor> {
        let x = x.add(&self.attention.forward(&self.norm1.forward(x)?, cache)?)?;
        let hidden = self.hidden.forward(&self.norm2.forward(&x)?)?.gelu("none")?;
        x.add(&self.out.forward(&hidden)?)
    }
}

/// A transformer that predicts the next token, without dropout.
#[derive(Module)]
pub struct Gpt {
    token: Embedding,
    position: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Gpt {
    /// One of these sizes; the same table reads tokens and writes them.
    pub fn new(options: GptOptions) -> Result<Gpt> {
        let GptOptions { vocabulary, context, layers, width, .. } = options;
        let token = Embedding::new(vocabulary, width)?;
        let head = Linear { weight: token.weight.clone(), bias: None };
        let blocks = (0..layers).map(|_| Block::new(options)).collect::<Result<_>>()?;
        let position = Embedding::new(context, width)?;
        Ok(Gpt { token, position, blocks, norm: LayerNorm::new(&[width])?, head })
    }

    /// How many blocks there are, each of which has a [`Cache`].
    pub fn layers(&self) -> usize {
        self.blocks.len()
    }

    fn embedded(&self, tokens: &Tensor, past: i64) -> Result<Tensor> {
        let places = Tensor::arange_step(past, past + tokens.size(1)?, 1i64, ())?;
        self.token.forward(tokens)?.add(&self.position.forward(&places)?)
    }

    /// The scores of the token after the last, from tokens that come after those in the caches.
    pub fn next(&self, tokens: &Tensor, caches: &mut [Cache]) -> Result<Tensor> {
        let past = caches.first().and_then(Option::as_ref).map_or(Ok(0), |(keys, _)| keys.size(2))?;
        let mut x = self.embedded(tokens, past)?;
        for (block, cache) in self.blocks.iter().zip(caches) {
            x = block.forward(&x, Some(cache))?;
        }
        self.head.forward(&self.norm.forward(&x.narrow(1, x.size(1)? - 1, 1)?)?)
    }
}

impl Forward for Gpt {
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        let x = self.blocks.iter().try_fold(self.embedded(tokens, 0)?, |x, block| block.forward(&x, None))?;
        self.head.forward(&self.norm.forward(&x)?)
    }
}
