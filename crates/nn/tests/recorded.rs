//! Layers, losses, optimisers and schedules against what PyTorch 2.13 computes: `data/record.py` has the same cases in
//! the same order, and wrote `data/recorded.txt`.

use flambeau::{DType, Tensor, manual_seed};
use flambeau_nn::loss::{self, BinaryOptions, Reduction, TripletOptions};
use flambeau_nn::optim::*;
use flambeau_nn::*;
use std::collections::HashMap;
use std::sync::LazyLock;

static RECORDED: LazyLock<HashMap<&str, Vec<f64>>> = LazyLock::new(|| {
    let lines = include_str!("data/recorded.txt").lines();
    lines
        .map(|line| {
            let (name, numbers) = line.split_once(':').unwrap();
            (name, numbers.split_whitespace().map(|x| x.parse().unwrap()).collect())
        })
        .collect()
});

fn check_numbers(name: &str, got: &[f64], tolerance: f64) {
    let expected = RECORDED.get(name).unwrap_or_else(|| panic!("nothing is recorded for {name}"));
    assert_eq!(got.len(), expected.len(), "{name}: {got:?}, not {expected:?}");
    let fits = got.iter().zip(expected).all(|(a, b)| a == b || (a - b).abs() <= tolerance * (1.0 + b.abs()));
    assert!(fits, "{name}:\n{got:?}, not\n{expected:?}");
}

fn check(name: &str, got: &Tensor) -> Result<()> {
    check_numbers(name, &got.to_vec::<f64>()?, 3e-6);
    Ok(())
}

/// What `make` gives when the seed is 7.
fn seeded<T>(make: impl FnOnce() -> Result<T>) -> Result<T> {
    manual_seed(7);
    make()
}

/// Numbers from `start` in steps of `1 / per`.
fn ramp(sizes: &[i64], start: f64, per: f64) -> Result<Tensor> {
    let n: i64 = sizes.iter().product();
    Tensor::from_slice_of(&(0..n).map(|i| (i as f64 / per + start) as f32).collect::<Vec<_>>(), sizes)
}

/// Numbers between -1 and 1 in no order.
fn wave_by(sizes: &[i64], by: f64) -> Result<Tensor> {
    let n: i64 = sizes.iter().product();
    Tensor::from_slice_of(&(0..n).map(|i| (i as f64 * 2.3 * by + 0.5).sin() as f32).collect::<Vec<_>>(), sizes)
}
fn wave(sizes: &[i64]) -> Result<Tensor> {
    wave_by(sizes, 1.0)
}

/// The sizes of a batch of one with so many channels and `N` dimensions of size `size`.
fn images<const N: usize>(channels: i64, size: i64) -> Vec<i64> {
    [&[1, channels][..], &[size; N]].concat()
}

// All that draw random numbers stand in one test: they share the default generator.
#[test]
fn layers() -> Result<()> {
    dropouts()?;
    convolutions()?;
    tables()?;
    recurrent()?;
    attention()
}

#[test]
fn activations() -> Result<()> {
    let x = ramp(&[9], -4.0, 1.0)?;
    check("ReLU6", &ReLU6.forward(&x)?)?;
    check("SELU", &SELU.forward(&x)?)?;
    check("GELU", &TanhGELU.forward(&x)?)?;
    check("Mish", &Mish.forward(&x)?)?;
    check("LogSigmoid", &LogSigmoid.forward(&x)?)?;
    check("Hardsigmoid", &Hardsigmoid.forward(&x)?)?;
    check("Hardswish", &Hardswish.forward(&x)?)?;
    check("Tanhshrink", &Tanhshrink.forward(&x)?)?;
    check("Softsign", &Softsign.forward(&x)?)?;
    check("ELU", &ELU { alpha: 0.7 }.forward(&x)?)?;
    check("CELU", &CELU { alpha: 0.7 }.forward(&x)?)?;
    check("Hardtanh", &Hardtanh { min_val: -2.0, max_val: 1.5 }.forward(&x)?)?;
    check("Softplus", &Softplus { beta: 2.0, threshold: 3.0 }.forward(&x)?)?;
    check("Hardshrink", &Hardshrink { lambd: 1.0 }.forward(&x)?)?;
    check("Softshrink", &Softshrink { lambd: 1.0 }.forward(&x)?)?;
    check("Threshold", &Threshold { threshold: 0.5, value: -9.0 }.forward(&x)?)?;
    check("PReLU", &PReLU::new(1)?.forward(&x)?)?;
    check("Softmin", &Softmin { dim: 0 }.forward(&x)?)?;
    check("GLU", &GLU::default().forward(&x.narrow(0, 0, 8)?)?)?;
    let rrelu = RReLU::default();
    rrelu.eval();
    check("RReLU, eval", &rrelu.forward(&x)?)
}

fn dropouts() -> Result<()> {
    manual_seed(7);
    check("Dropout1d", &Dropout1d::new(0.5)?.forward(&Tensor::ones(&[2, 3, 2], DType::F32)?)?)?;
    check("Dropout2d", &Dropout2d::new(0.5)?.forward(&Tensor::ones(&[1, 4, 1, 2], DType::F32)?)?)?;
    check("AlphaDropout", &AlphaDropout::new(0.5)?.forward(&Tensor::ones(&[4], DType::F32)?)?)?;
    assert!(Dropout2d::new(0.5)?.forward(&Tensor::ones(&[4], DType::F32)?).is_err());
    assert!(Dropout3d::new(1.5).is_err());
    Ok(())
}

fn convolutions() -> Result<()> {
    fn reflecting<const N: usize>() -> Result<()> {
        let options = ConvOptions { padding: [1; N], padding_mode: PadMode::Reflect, ..ConvOptions::default() };
        let m = seeded(|| Conv::<N>::with(2, 2, [2; N], options))?;
        check(&format!("Conv{N}d, reflect"), &m.forward(&wave(&images::<N>(2, 3))?)?)
    }
    fn transposed<const N: usize>() -> Result<()> {
        let options = ConvTransposeOptions {
            stride: [2; N],
            padding: [1; N],
            output_padding: [1; N],
            groups: 2,
            ..ConvTransposeOptions::default()
        };
        let m = seeded(|| ConvTranspose::<N>::with(2, 4, [2; N], options))?;
        check(&format!("ConvTranspose{N}d"), &m.forward(&wave(&images::<N>(2, 2))?)?)
    }
    reflecting::<1>()?;
    reflecting::<2>()?;
    transposed::<1>()?;
    transposed::<2>()?;
    transposed::<3>()?;
    assert!(ConvTranspose2d::with(3, 4, [2, 2], ConvTransposeOptions { groups: 2, ..Default::default() }).is_err());
    Ok(())
}

#[test]
fn pools() -> Result<()> {
    fn all<const N: usize>() -> Result<()> {
        let x = wave(&images::<N>(2, 5))?;
        let options = PoolOptions { stride: Some([2; N]), padding: [1; N], ..PoolOptions::default() };
        let max = MaxPool::with([2; N], PoolOptions { ceil_mode: true, ..options });
        check(&format!("MaxPool{N}d"), &max.forward(&x)?)?;
        let average = AvgPool::with([3; N], PoolOptions { count_include_pad: false, ..options });
        check(&format!("AvgPool{N}d"), &average.forward(&x)?)?;
        check(&format!("AdaptiveAvgPool{N}d"), &AdaptiveAvgPool::new([2; N]).forward(&x)?)?;
        check(&format!("AdaptiveMaxPool{N}d"), &AdaptiveMaxPool::new([3; N]).forward(&x)?)?;
        let norms = LPPool::new(2.0, [2; N], PoolOptions::default());
        check(&format!("LPPool{N}d"), &norms.forward(&x)?)?;
        let pool = MaxPool::new([2; N]);
        let (y, indices) = pool.forward_with_indices(&wave(&images::<N>(2, 4))?)?;
        check(&format!("MaxUnpool{N}d"), &MaxUnpool::of(&pool).forward(&y, &indices, None)?)
    }
    all::<1>()?;
    all::<2>()?;
    all::<3>()?;
    assert!(MaxPool::new([2; 4]).forward(&wave(&[1, 1, 2, 2, 2, 2])?).is_err());
    Ok(())
}

#[test]
fn norms() -> Result<()> {
    fn instance<const N: usize>() -> Result<()> {
        let x = wave(&[&[2, 2][..], &[2; N]].concat())?;
        check(&format!("InstanceNorm{N}d"), &InstanceNorm::<N>::new(2)?.forward(&x)?)
    }
    instance::<1>()?;
    instance::<2>()?;
    instance::<3>()?;
    let options = InstanceNormOptions { affine: true, track_running_stats: true, ..InstanceNormOptions::default() };
    let m = InstanceNorm1d::with(2, options)?;
    let x = wave(&[2, 2, 3])?;
    check("InstanceNorm1d, tracking", &m.forward(&x)?)?;
    let running = [m.running_mean.as_deref().unwrap().clone(), m.running_var.as_deref().unwrap().clone()];
    check("InstanceNorm1d, running", &Tensor::cat(&running, 0)?)?;
    m.eval();
    check("InstanceNorm1d, eval", &m.forward(&x)?)?;
    check("RMSNorm", &RMSNorm::new(&[3])?.forward(&wave(&[2, 3])?)?)?;
    let response = LocalResponseNorm { alpha: 0.5, ..LocalResponseNorm::new(3) };
    check("LocalResponseNorm", &response.forward(&wave(&[1, 4, 2, 2])?)?)
}

fn tables() -> Result<()> {
    let m = seeded(|| Bilinear::new(2, 3, 2))?;
    check("Bilinear", &m.forward(&wave(&[2, 2])?, &wave(&[2, 3])?)?)?;
    for (name, mode) in [("sum", BagMode::Sum), ("mean", BagMode::Mean), ("max", BagMode::Max)] {
        let m = seeded(|| EmbeddingBag::new(5, 2, mode))?;
        let bags = Tensor::from_slice_of(&[0i64, 2, 4, 4], &[2, 2])?;
        check(&format!("EmbeddingBag, {name}"), &m.forward(&bags)?)?;
        let (numbers, offsets) = (Tensor::from_slice(&[0i64, 2, 3, 1])?, Tensor::from_slice(&[0i64, 3])?);
        check(&format!("EmbeddingBag, {name}, offsets"), &m.forward_bags(&numbers, &offsets, None)?)?;
    }
    Ok(())
}

#[test]
fn shapes() -> Result<()> {
    let x = wave(&[1, 4, 2, 2])?;
    check("PixelShuffle", &PixelShuffle(2).forward(&x)?)?;
    check("PixelUnshuffle", &PixelUnshuffle(2).forward(&x)?)?;
    check("ChannelShuffle", &ChannelShuffle(2).forward(&x)?)?;
    check("Pad, constant", &Pad::new(&[1, 0, 0, 2], PadMode::Constant(3.5)).forward(&x)?)?;
    check("Pad, reflect", &Pad::new(&[1, 0, 0, 1], PadMode::Reflect).forward(&x)?)?;
    check("Pad, replicate", &Pad::new(&[1, 0, 0, 2], PadMode::Replicate).forward(&x)?)?;
    check("Pad, circular", &Pad::new(&[1, 0, 0, 1], PadMode::Circular).forward(&x)?)?;
    let upsample = |to, mode| Upsample { to, mode };
    let (sizes, scales) = (UpsampleTo::Sizes, UpsampleTo::Scales);
    let nearest = upsample(scales(vec![1.5]), UpsampleMode::Nearest);
    check("Upsample, nearest", &nearest.forward(&wave(&[1, 1, 3])?)?)?;
    check("Upsample, exact", &upsample(sizes(vec![3, 3]), UpsampleMode::NearestExact).forward(&x)?)?;
    let linear = upsample(sizes(vec![3, 3]), UpsampleMode::Linear { align_corners: true });
    check("Upsample, bilinear", &linear.forward(&x)?)?;
    let cubic = upsample(scales(vec![2.0, 1.5]), UpsampleMode::Cubic { align_corners: false });
    check("Upsample, bicubic", &cubic.forward(&x)?)?;
    assert!(cubic.forward(&wave(&[1, 1, 3])?).is_err());
    let unfold = Unfold { kernel: [2, 2], options: FoldOptions { padding: [1, 1], ..FoldOptions::default() } };
    check("Unfold", &unfold.forward(&x.narrow(1, 0, 2)?)?)?;
    let fold = Fold { output: [3, 3], kernel: [2, 2], options: FoldOptions::default() };
    check("Fold", &fold.forward(&wave(&[1, 8, 4])?)?)?;
    let (a, b) = (wave(&[2, 3])?, ramp(&[2, 3], -1.0, 7.0)?);
    check("CosineSimilarity", &CosineSimilarity::default().forward(&a, &b)?)?;
    check("PairwiseDistance", &PairwiseDistance { keepdim: true, ..Default::default() }.forward(&a, &b)?)
}

fn recurrent() -> Result<()> {
    let x = wave(&[3, 2, 4])?;
    let options = RnnOptions { num_layers: 2, bidirectional: true, ..RnnOptions::default() };
    let (y, h) = seeded(|| RNN::new(4, 2, options))?.forward(&x, None)?;
    check("RNN", &y)?;
    check("RNN, state", &h)?;
    let projected = RnnOptions { proj_size: 2, batch_first: true, ..RnnOptions::default() };
    let m = seeded(|| LSTM::new(4, 3, projected))?;
    let (y, (h, c)) = m.forward(&x.transpose(0, 1)?, None)?;
    check("LSTM, projected", &y)?;
    check("LSTM, projected, states", &Tensor::cat(&[h.flatten(0, -1)?, c.flatten(0, -1)?], 0)?)?;
    assert!(GRU::new(4, 3, projected).is_err());

    let packed = PackedSequence::pack(&x, &[3, 2], false)?;
    let (y, h) = seeded(|| GRU::new(4, 2, options))?.forward_packed(&packed, None)?;
    let (padded, lengths) = y.pad(false)?;
    assert_eq!(lengths.to_vec::<i64>()?, [3, 2]);
    check("GRU, packed", &padded)?;
    check("GRU, packed, state", &h)?;
    let x0 = x.select(0, 0)?;
    let (h, c) = seeded(|| LSTMCell::new(4, 2))?.forward(&x0, None)?;
    check("LSTMCell", &Tensor::cat(&[h, c], 0)?)?;
    check("GRUCell", &seeded(|| GRUCell::new(4, 2))?.forward(&x0, Some(&wave(&[2, 2])?))?)?;
    check("RNNCell", &seeded(|| RNNCell::new(4, 2))?.forward(&x0.select(0, 0)?, None)?)?;
    let side_by_side = pad_sequence(&[wave(&[2])?, wave(&[3])?], true, -1.0)?;
    assert_eq!((side_by_side.sizes(), side_by_side.to_vec::<f32>()?[2]), (&[2, 3][..], -1.0));
    Ok(())
}

fn attention() -> Result<()> {
    let (x, memory) = (wave(&[3, 2, 4])?, wave_by(&[5, 2, 4], 0.7)?);
    let hidden = [0u8, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    let padding = Tensor::from_slice_of(&hidden, &[2, 5])?.to_dtype(DType::Bool)?;
    let padding = AttentionMasks { key_padding: Some(&padding), ..AttentionMasks::default() };
    let mask = Tensor::ones(&[3, 3], DType::Bool)?.triu(1)?;
    let causal = AttentionMasks { mask: Some(&mask), ..AttentionMasks::default() };
    let m = seeded(|| MultiheadAttention::new(4, 2, 0.0))?;
    let (y, weights) = m.forward_with_weights(&x, &memory, &memory, padding)?;
    check("MultiheadAttention, padding", &y)?;
    check("MultiheadAttention, weights", &weights)?;
    check("MultiheadAttention, padding", &m.forward_masked(&x, &memory, &memory, padding)?)?;
    // The same in other words.
    let apart = m.forward_causal(&x, &x, &x)?;
    assert!(apart.allclose(&m.forward_masked(&x, &x, &x, causal)?, 1e-5, 1e-6, false)?);
    let both = AttentionMasks { causal: true, ..causal };
    assert!(apart.allclose(&m.forward_with_weights(&x, &x, &x, both)?.0, 1e-5, 1e-6, false)?);

    let after = TransformerOptions { feedforward: 8, dropout: 0.0, ..TransformerOptions::default() };
    let before = TransformerOptions { norm_first: true, activation: TransformerActivation::Gelu, bias: false, ..after };
    for (name, options) in [("after", after), ("before", before)] {
        let m = seeded(|| TransformerEncoderLayer::new(4, 2, options))?;
        check(&format!("TransformerEncoderLayer, norm {name}"), &m.forward_masked(&x, causal)?)?;
        let m = seeded(|| TransformerDecoderLayer::new(4, 2, options))?;
        check(&format!("TransformerDecoderLayer, norm {name}"), &m.forward(&x, &memory, causal, padding)?)?;
    }
    let m = seeded(|| Transformer::new(4, 2, 2, 2, after))?;
    check("Transformer", &m.forward(&memory, &x, padding, causal, AttentionMasks::default())?)?;
    assert_eq!(m.named_parameters()[0].0, "encoder.layers.0.self_attn.in_proj_weight");
    Ok(())
}

#[test]
fn losses() -> Result<()> {
    let (x, y) = (wave(&[3, 4])?.requires_grad_(true)?, wave_by(&[3, 4], 0.6)?);
    let (positive, sign) = (y.sigmoid()?, Tensor::from_slice(&[1.0f32, -1.0, 1.0])?);
    let classes = Tensor::from_slice(&[2i64, 0, 3])?;
    let named = Tensor::from_slice_of(&[1i64, 3, -1, 0, 0, -1, 1, 2, 2, 1, 0, -1], &[3, 4])?;
    for (r, reduction) in [("none", Reduction::None), ("mean", Reduction::Mean), ("sum", Reduction::Sum)] {
        let with = |name: &str, value: Tensor| -> Result<()> {
            x.set_grad(None)?;
            value.sum()?.backward()?;
            check(&format!("{name}, {r}"), &value)?;
            check(&format!("{name}, {r}, gradient"), &x.grad().unwrap())
        };
        with("huber", loss::huber_loss(&x, &y, 0.3, reduction)?)?;
        let weighted = BinaryOptions { weight: Some(positive.add(1)?), pos_weight: None, reduction };
        with("bce", loss::binary_cross_entropy(&x.sigmoid()?, &positive, &weighted)?)?;
        let weighted = BinaryOptions { pos_weight: Some(positive.select(0, 0)?.add(2)?), ..weighted };
        with("bce with logits", loss::binary_cross_entropy_with_logits_with(&x, &positive, &weighted)?)?;
        with("kl", loss::kl_div(&x.log_softmax(1, None)?, &y.softmax(1, None)?, false, reduction)?)?;
        with("poisson", loss::poisson_nll_loss(&x, &positive.mul(5)?, true, true, reduction)?)?;
        with("gaussian", loss::gaussian_nll_loss(&x, &y, &positive, true, reduction)?)?;
        with("cosine embedding", loss::cosine_embedding_loss(&x, &y, &sign, 0.1, reduction)?)?;
        with("hinge embedding", loss::hinge_embedding_loss(&x, &y.sign()?, 1.5, reduction)?)?;
        let order = wave_by(&[3, 4], 0.3)?.sign()?;
        with("margin ranking", loss::margin_ranking_loss(&x, &y, &order, 0.2, reduction)?)?;
        let options = TripletOptions { margin: 1.2, swap: true, reduction, ..TripletOptions::default() };
        with("triplet", loss::triplet_margin_loss(&x, &y, &positive, &options)?)?;
        with("soft margin", loss::soft_margin_loss(&x, &y.sign()?, reduction)?)?;
        let weight = positive.select(0, 0)?;
        with("multi margin", loss::multi_margin_loss(&x, &classes, 2, 0.9, Some(&weight), reduction)?)?;
        with("multilabel margin", loss::multilabel_margin_loss(&x, &named, reduction)?)?;
        let soft = loss::multilabel_soft_margin_loss(&x, &positive, Some(&weight), reduction)?;
        with("multilabel soft margin", soft)?;
        let times = x.reshape(&[3, 2, 2])?.log_softmax(2, None)?;
        let labels = Tensor::from_slice_of(&[1i64, 1, 1, 0], &[2, 2])?;
        with("ctc", loss::ctc_loss(&times, &labels, &[3, 3], &[2, 1], 0, reduction, false)?)?;
    }
    assert!(loss::gaussian_nll_loss(&x, &y, &positive.neg()?, false, Reduction::Mean).is_err());
    assert!(loss::binary_cross_entropy(&positive, &sign, &BinaryOptions::default()).is_err());
    Ok(())
}

#[test]
fn update_rules() -> Result<()> {
    /// Eight steps; then the same with a state saved and loaded after the fifth.
    fn rule<A: Algorithm>(name: &str, algorithm: A) -> Result<()> {
        let new = |start: &[f32]| -> Result<(Tensor, Optimizer<A>)> {
            let p = Tensor::from_slice(start)?.requires_grad_(true)?;
            Ok((p.clone(), Optimizer::new(vec![p], algorithm.clone())?))
        };
        let steps = |p: &Tensor, optimizer: &mut Optimizer<A>, count: usize| -> Result<()> {
            for _ in 0..count {
                optimizer.zero_grad()?;
                p.mul(p)?.mul(&Tensor::from_slice(&[1.0f32, 2.0, 0.5])?)?.sum()?.backward()?;
                optimizer.step()?;
            }
            Ok(())
        };
        let (p, mut optimizer) = new(&[1.0, -2.0, 3.0])?;
        steps(&p, &mut optimizer, 5)?;
        let (q, mut resumed) = new(&p.to_vec()?)?;
        resumed.load_state_dict(&optimizer.state_dict()?)?;
        for (p, optimizer) in [(&p, &mut optimizer), (&q, &mut resumed)] {
            steps(p, optimizer, 3)?;
            check(name, p)?;
        }
        Ok(())
    }
    rule("Adamax", Adamax { lr: 0.1, weight_decay: 0.01, ..Adamax::default() })?;
    let nadam = NAdam { lr: 0.1, weight_decay: 0.01, ..NAdam::default() };
    rule("NAdam", nadam)?;
    rule("NAdam, decoupled", NAdam { decoupled_weight_decay: true, ..nadam })?;
    rule("RAdam", RAdam { lr: 0.1, beta2: 0.7, weight_decay: 0.01, ..RAdam::default() })?;
    rule("RAdam, not yet adapting", RAdam { lr: 0.1, ..RAdam::default() })?;
    let initial_accumulator_value = 0.2;
    let adagrad =
        Adagrad { lr: 0.1, lr_decay: 0.1, weight_decay: 0.01, initial_accumulator_value, ..Adagrad::default() };
    rule("Adagrad", adagrad)?;
    rule("Adadelta", Adadelta { weight_decay: 0.01, ..Adadelta::default() })?;
    rule("Rprop", Rprop { lr: 0.6, ..Rprop::default() })?;
    rule("ASGD", ASGD { lr: 0.1, lambd: 0.1, t0: 1.0, weight_decay: 0.01, ..ASGD::default() })?;
    let p = || -> Result<Vec<Tensor>> { Ok(vec![Tensor::ones(&[1], DType::F32)?.requires_grad_(true)?]) };
    assert!(Optimizer::new(p()?, Rprop { eta_plus: 0.9, ..Rprop::default() }).is_err());
    assert!(Optimizer::new(p()?, Adadelta { rho: 1.5, ..Adadelta::default() }).is_err());
    Ok(())
}

#[test]
fn lbfgs() -> Result<()> {
    for (name, lr, strong_wolfe) in [("None", 0.1, false), ("strong_wolfe", 1.0, true)] {
        let p = Tensor::from_slice(&[-1.2f64, 1.0])?.requires_grad_(true)?;
        let options = LBFGSOptions { lr, max_iter: 7, strong_wolfe, ..LBFGSOptions::default() };
        let mut optimizer = LBFGS::new(vec![p.clone()], options)?;
        for _ in 0..3 {
            optimizer.step(|| {
                let (a, b) = (p.select(0, 0)?, p.select(0, 1)?);
                b.sub(&a.square()?)?.square()?.mul(100.0)?.add(&a.neg()?.add(1.0)?.square()?)
            })?;
        }
        let mut got = p.to_vec::<f64>()?;
        got.push(optimizer.evaluations() as f64);
        check_numbers(&format!("LBFGS, {name}"), &got, 3e-6);
    }
    assert!(LBFGS::new(vec![], LBFGSOptions::default()).is_err());
    Ok(())
}

fn sgd() -> Result<Optimizer<SGD>> {
    Optimizer::new(vec![Tensor::zeros(&[1], DType::F32)?], SGD { lr: 0.2, momentum: 0.9, ..SGD::default() })
}

#[test]
fn rates() -> Result<()> {
    /// Ten steps, the last five by a schedule that goes on from a state.
    fn plan<S: Schedule>(name: &str, make: impl Fn() -> S) -> Result<()> {
        let mut optimizer = sgd()?;
        let mut schedule = Scheduler::new(&mut optimizer, make())?;
        let mut got = Vec::new();
        for step in 0..10 {
            got.extend([optimizer.groups[0].options.lr, optimizer.groups[0].options.momentum]);
            schedule.step(&mut optimizer)?;
            if step == 5 {
                let mut resumed = Scheduler::new(&mut sgd()?, make())?;
                resumed.load_state_dict(&schedule.state_dict()?)?;
                schedule = resumed;
            }
        }
        check_numbers(name, &got, 1e-6);
        Ok(())
    }
    plan("StepLR", || StepLR { step_size: 2, gamma: 0.5 })?;
    plan("MultiStepLR", || MultiStepLR { milestones: vec![2, 5, 5], gamma: 0.5 })?;
    plan("ExponentialLR", || ExponentialLR { gamma: 0.9 })?;
    plan("ConstantLR", || ConstantLR { factor: 0.25, total_iters: 4 })?;
    plan("LinearLR", || LinearLR { start_factor: 0.25, end_factor: 0.75, total_iters: 4 })?;
    plan("PolynomialLR", || PolynomialLR { total_iters: 6, power: 2.0 })?;
    plan("LambdaLR", || LambdaLR(|epoch| 0.95f64.powi(epoch as i32)))?;
    plan("MultiplicativeLR", || MultiplicativeLR(|epoch| 1.0 - epoch as f64 / 20.0))?;
    plan("CosineAnnealingWarmRestarts", || CosineAnnealingWarmRestarts { t_0: 2, t_mult: 2, eta_min: 0.01 })?;
    let cyclic = CyclicLR { step_size_up: 2, ..CyclicLR::new(0.1, 0.5) };
    plan("CyclicLR", || CyclicLR { step_size_down: Some(3), ..cyclic })?;
    plan("CyclicLR, halved", || CyclicLR { mode: CyclicMode::Triangular2, cycle_momentum: false, ..cyclic })?;
    plan("CyclicLR, decaying", || CyclicLR { mode: CyclicMode::ExpRange(0.9), ..cyclic })?;
    plan("OneCycleLR", || OneCycleLR { three_phase: true, linear: true, ..OneCycleLR::new(1.0, 12) })?;
    plan("SequentialLR", || SequentialLR {
        schedules: vec![
            Box::new(LinearLR { start_factor: 0.25, end_factor: 1.0, total_iters: 3 }),
            Box::new(CosineAnnealingLR { t_max: 4, eta_min: 0.0 }),
            Box::new(ExponentialLR { gamma: 0.5 }),
        ],
        milestones: vec![3, 7],
    })?;
    plan("ChainedLR", || {
        ChainedLR(vec![Box::new(ConstantLR { factor: 0.1, total_iters: 3 }), Box::new(ExponentialLR { gamma: 0.9 })])
    })?;
    let fails = |rule: Box<dyn Schedule>| -> Result<bool> { Ok(Scheduler::new(&mut sgd()?, rule).is_err()) };
    assert!(fails(Box::new(StepLR { step_size: 0, gamma: 0.1 }))?);
    assert!(fails(Box::new(LinearLR { start_factor: 0.0, ..LinearLR::default() }))?);
    assert!(fails(Box::new(SequentialLR { schedules: vec![], milestones: vec![] }))?);
    Ok(())
}

#[test]
fn plateaus() -> Result<()> {
    let metrics = [1.0, 0.9, 0.95, 0.95, 0.9, 0.89995, 0.95, 0.96, 0.5, 0.6, 0.6, 0.6];
    let common = PlateauOptions { factor: 0.5, ..PlateauOptions::default() };
    let least = PlateauOptions { patience: 1, cooldown: 1, ..common };
    let most = PlateauOptions { goal: Goal::Max, patience: 2, absolute: true, threshold: 0.04, min_lr: 0.05, ..common };
    for (name, options) in [("min", least), ("max", most)] {
        let (mut optimizer, mut schedule) = (sgd()?, ReduceLROnPlateau::new(options)?);
        let mut got = Vec::new();
        for (i, metric) in metrics.into_iter().enumerate() {
            schedule.step(metric, &mut optimizer);
            got.extend(optimizer.learning_rates());
            if i == 5 {
                let state = schedule.state_dict()?;
                schedule = ReduceLROnPlateau::new(options)?;
                schedule.load_state_dict(&state)?;
            }
        }
        check_numbers(&format!("ReduceLROnPlateau, {name}"), &got, 1e-6);
    }
    Ok(())
}

#[test]
fn averages() -> Result<()> {
    let net = PReLU::new(2)?;
    let set = |x: f64| init::constant_(&net.weight, x);
    let mut equal = AveragedModel::new(&net, Averaging::Equal)?;
    let mut decaying = AveragedModel::new(&net, Averaging::Exponential(0.75))?;
    for x in [1.0, 2.0, 6.0] {
        set(x)?;
        equal.update(&net)?;
        decaying.update(&net)?;
    }
    assert_eq!(equal.state_dict()["weight"].to_vec::<f32>()?, [3.0; 2]);
    assert_eq!(decaying.state_dict()["weight"].to_vec::<f32>()?, [2.4375; 2]);
    let mut resumed = AveragedModel::new(&net, Averaging::Equal)?;
    resumed.load_state_dict(equal.state_dict(), equal.updates())?;
    set(7.0)?;
    resumed.update(&net)?;
    assert_eq!(resumed.state_dict()["weight"].to_vec::<f32>()?, [4.0; 2]);
    assert!(AveragedModel::new(&net, Averaging::Exponential(1.5)).is_err());
    assert!(equal.update(&PReLU::new(3)?).is_err());
    Ok(())
}
