//! Modules, losses and initialisers against numbers recorded from PyTorch 2.13 under the same seed.

use flambeau::{DType, Tensor, manual_seed};
use flambeau_nn::loss::{self, ClassOptions, Reduction};
use flambeau_nn::*;

fn close(name: &str, t: &Tensor, expected: &[f64]) {
    let got = t.to_vec::<f64>().unwrap();
    assert_eq!(got.len(), expected.len(), "{name}: {got:?}");
    let fits = got.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 2e-6 + 2e-6 * b.abs());
    assert!(fits, "{name}: {got:?}, not {expected:?}");
}

/// What `make` gives when the seed is 7.
fn seeded<T>(make: impl FnOnce() -> Result<T>) -> T {
    manual_seed(7);
    make().unwrap()
}

/// `n` numbers from `start` in steps of `1 / per`.
fn ramp(sizes: &[i64], start: f64, per: f64) -> Tensor {
    let n: i64 = sizes.iter().product();
    let numbers: Vec<f32> = (0..n).map(|i| (i as f64 / per + start) as f32).collect();
    Tensor::from_slice_of(&numbers, sizes).unwrap()
}

// One test: all of them share the default generator.
#[test]
fn same_seed_same_numbers_as_pytorch() -> Result<()> {
    let x = ramp(&[2, 3], -0.5, 4.0);
    let m = seeded(|| Linear::new(3, 2));
    close("linear.weight", &m.weight, &[0.04032508, -0.3477921, 0.1838418, 0.1811613, -0.3085804, -0.08653163]);
    close("linear.bias", m.bias.as_ref().unwrap(), &[-0.3382279, 0.1498066]);
    close("linear", &m.forward(&x)?, &[-0.2714424, 0.1363711, -0.3641613, -0.02409193]);

    let m = seeded(|| Conv2d::new(2, 2, [2, 2]));
    let y = m.forward(&ramp(&[1, 2, 3, 3], 0.0, 10.0))?;
    close(
        "conv",
        &y,
        &[-0.1396623, -0.1718729, -0.2362942, -0.2685047, -0.7066187, -0.7122758, -0.7235898, -0.7292469],
    );

    let m = seeded(|| Embedding::with_padding(3, 2, -1));
    close("embedding", &m.weight, &[-0.1467951, 0.7861413, 0.9468216, -1.114344, 0.0, 0.0]);
    assert_eq!(m.forward(&Tensor::from_slice(&[1i64, 2])?)?.sizes(), [2, 2]);

    let sequence = ramp(&[3, 1, 4], -1.0, 6.0);
    let m = seeded(|| MultiheadAttention::new(4, 2, 0.0));
    let y = m.forward(&sequence, &sequence, &sequence, None)?;
    close(
        "attention",
        &y,
        &[
            -0.06918377,
            0.05708514,
            0.0614039,
            -0.01103067,
            -0.0579737,
            0.06237106,
            0.05438216,
            -0.001688227,
            -0.04666539,
            0.06771483,
            0.04725678,
            0.007780246,
        ],
    );
    let masked = [
        0.1158028,
        0.1027779,
        0.09716618,
        -0.01597293,
        0.02910177,
        0.08269815,
        0.07552771,
        -0.008538999,
        -0.04666539,
        0.06771483,
        0.04725678,
        0.007780246,
    ];
    close("causal attention", &m.forward_causal(&sequence, &sequence, &sequence)?, &masked);
    let mask = Tensor::ones(&[3, 3], DType::Bool)?.triu(1)?;
    close("masked attention", &m.forward(&sequence, &sequence, &sequence, Some(&mask))?, &masked);

    let options = RnnOptions { num_layers: 2, bidirectional: true, ..RnnOptions::default() };
    let m = seeded(|| LSTM::new(4, 2, options));
    let (y, (_, c)) = m.forward(&sequence, None)?;
    close(
        "lstm",
        &y,
        &[
            0.146159,
            0.150583,
            -0.0458186,
            0.2634342,
            0.2105531,
            0.1932863,
            -0.04667003,
            0.245281,
            0.235159,
            0.2105348,
            -0.04154415,
            0.2025957,
        ],
    );
    close(
        "lstm cells",
        &c,
        &[0.4837351, -0.05158654, -0.3006856, -0.2068011, 0.4502543, 0.3325776, -0.1788042, 0.7241702],
    );
    let m = seeded(|| GRU::new(4, 2, options));
    let (y, h) = m.forward(&sequence, None)?;
    close(
        "gru",
        &y,
        &[
            -0.151684,
            0.1177957,
            -0.03995972,
            0.3290209,
            -0.2804657,
            0.2323227,
            -0.03241485,
            0.2976034,
            -0.3672687,
            0.2676076,
            -0.01957238,
            0.1408572,
        ],
    );
    close(
        "gru state",
        &h,
        &[0.1528678, -0.06887394, 0.009208649, 0.1502684, -0.3672687, 0.2676076, -0.03995972, 0.3290209],
    );
    let names: Vec<String> = m.named_parameters().into_iter().map(|(n, _)| n).collect();
    assert_eq!(names[..5], ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse"]);

    let normal = [-0.1467951, 0.7861413, 0.9468216, -1.114344, 1.69079, -0.8948279];
    let filled = |sizes: &[i64], fill: &dyn Fn(&Tensor) -> Result<()>| {
        seeded(|| {
            let t = Tensor::empty(sizes, DType::F32)?;
            fill(&t)?;
            Ok(t)
        })
    };
    close("trunc_normal_", &filled(&[2, 3], &|t| init::trunc_normal_(t, 0.0, 1.0, -2.0, 2.0)), &normal);
    let relu = init::Nonlinearity::Relu;
    close("kaiming_normal_", &filled(&[2, 3], &|t| init::kaiming_normal_(t, init::FanMode::FanOut, relu)), &normal);
    close(
        "xavier_normal_",
        &filled(&[2, 3], &|t| init::xavier_normal_(t, 1.0)),
        &[-0.09284137, 0.4971994, 0.5988226, -0.7047731, 1.06935, -0.5659388],
    );
    close(
        "orthogonal_, wide",
        &filled(&[2, 3], &|t| init::orthogonal_(t, 1.0)),
        &[-0.1184433, 0.6343071, 0.7639539, -0.4892109, 0.632237, -0.6007904],
    );
    close(
        "orthogonal_, tall",
        &filled(&[3, 2], &|t| init::orthogonal_(t, 1.0)),
        &[-0.0755353, 0.7852973, 0.4871993, -0.5086231, 0.8700179, 0.3530025],
    );
    close(
        "sparse_, half",
        &filled(&[4, 3], &|t| init::sparse_(t, 0.5, 0.1)),
        &[0.0, 0.07861413, 0.09468216, -0.1114344, 0.0, -0.08948278, -0.0355625, 0.1232386, 0.0, 0.0, 0.0, 0.0],
    );
    close(
        "sparse_, rounded up",
        &filled(&[5, 2], &|t| init::sparse_(t, 0.1, 0.1)),
        &[-0.01467951, 0.07861413, 0.0, -0.1114344, 0.169079, -0.08948278, -0.0355625, 0.0, 0.01381727, -0.1682198],
    );
    close("sparse_, all", &filled(&[3, 2], &|t| init::sparse_(t, 1.0, 0.1)), &[0.0; 6]);

    let dropout = Dropout::new(0.5)?;
    let ones = Tensor::ones(&[8], DType::F32)?;
    close("dropout", &seeded(|| dropout.forward(&ones)), &[2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
    dropout.eval();
    close("dropout, eval", &dropout.forward(&ones)?, &[1.0; 8]);

    loaders_keep_pytorchs_order()
}

fn loaders_keep_pytorchs_order() -> Result<()> {
    use flambeau_nn::data::LoaderOptions;
    let numbers = || TensorDataset::new(vec![Tensor::arange(10, DType::I64)?]);
    for workers in [0, 1, 3] {
        let options = LoaderOptions { batch_size: 4, shuffle: true, workers, ..LoaderOptions::default() };
        let pass = |options: LoaderOptions| -> Result<Vec<Vec<i64>>> {
            DataLoader::new(numbers()?, options)?.iter()?.map(|batch| batch?[0].to_vec()).collect()
        };
        manual_seed(3);
        assert_eq!(pass(options.clone())?, [vec![6, 2, 0, 1], vec![8, 3, 5, 4], vec![7, 9]]);
        let generator = Some(flambeau::Generator::new(5));
        let own = pass(LoaderOptions { generator, drop_last: true, ..options })?;
        assert_eq!(own, [[7, 4, 8, 1], [2, 3, 6, 5]]);
    }
    Ok(())
}

/// However many batches may be made ahead, and whatever the sizes: an error, or the same batches.
#[test]
fn numbers_at_the_limit() -> Result<()> {
    use flambeau_nn::data::LoaderOptions;
    for prefetch in [usize::MAX, usize::MAX / 2] {
        let options = LoaderOptions {
            workers: 3,
            prefetch,
            generator: Some(flambeau::Generator::new(5)),
            ..LoaderOptions::default()
        };
        let dataset = TensorDataset::new(vec![ramp(&[5, 2], 0.0, 1.0)])?;
        assert_eq!(DataLoader::new(dataset, options)?.iter()?.filter(Result::is_ok).count(), 5);
    }
    assert!(LSTM::new(i64::MAX, i64::MAX, RnnOptions::default()).is_err());
    assert!(GRUCell::new(i64::MAX, i64::MAX).is_err());
    assert!(Bilinear::new(5, 0, i64::MAX).is_err());
    for size in [i64::MIN, i64::MAX, 0] {
        assert!(LocalResponseNorm::new(size).forward(&ramp(&[1, 2, 3], 0.0, 1.0)).is_err(), "{size}");
    }
    Ok(())
}

#[test]
fn norms() -> Result<()> {
    let x = ramp(&[2, 3], -0.5, 4.0);
    let m = BatchNorm1d::new(3)?;
    close("batch norm", &m.forward(&x)?, &[-0.9999645, -0.9999645, -0.9999645, 0.9999645, 0.9999645, 0.9999644]);
    close("running mean", m.running_mean.as_ref().unwrap(), &[-0.0125, 0.0125, 0.0375]);
    close("running var", m.running_var.as_ref().unwrap(), &[0.928125; 3]);
    close("batches", m.num_batches_tracked.as_ref().unwrap(), &[1.0]);
    m.eval();
    let expected = [-0.5060216, -0.2724732, -0.03892474, 0.2724732, 0.5060216, 0.73957];
    close("batch norm, eval", &m.forward(&x)?, &expected);
    assert!(BatchNorm2d::new(3)?.forward(&x).is_err());
    let expected = [-1.224598, 0.0, 1.224598, -1.224598, 0.0, 1.224598];
    close("layer norm", &LayerNorm::new(&[3])?.forward(&x)?, &expected);
    close("group norm", &GroupNorm::new(1, 3)?.forward(&x.unsqueeze(2)?)?, &expected);
    assert!(GroupNorm::new(2, 3).is_err());
    Ok(())
}

#[test]
fn losses() -> Result<()> {
    let scores = Tensor::from_slice_of(&[1.0f32, 2.0, -1.0, 0.5, -0.5, 0.0], &[2, 3])?;
    let classes = Tensor::from_slice(&[2i64, 0])?;
    close("cross entropy", &loss::cross_entropy(&scores, &classes)?, &[2.014641]);
    let weight = Some(Tensor::from_slice(&[1.0f32, 2.0, 3.0])?);
    let options = ClassOptions { weight, label_smoothing: 0.1, ..ClassOptions::default() };
    close("smoothed", &loss::cross_entropy_with(&scores, &classes, &options)?, &[2.577608]);
    let options = ClassOptions { reduction: Reduction::Sum, ..ClassOptions::default() };
    close("nll", &loss::nll_loss_with(&scores.log_softmax(1, None)?, &classes, &options)?, &[4.029282]);
    assert!(loss::cross_entropy(&scores, &Tensor::from_slice(&[3i64, 0])?).is_err());
    let target = Tensor::from_slice_of(&[0.0f32, 1.0, 1.0, 1.0, 0.0, 0.5], &[2, 3])?;
    let mean = Reduction::Mean;
    close("mse", &loss::mse_loss(&scores, &target)?, &[1.125]);
    close("l1", &loss::l1_loss(&scores, &target, mean)?, &[0.9166667]);
    close("smooth l1", &loss::smooth_l1_loss(&scores, &target, 0.7, mean)?, &[0.5809523]);
    close("bce", &loss::binary_cross_entropy_with_logits(&scores, &target, mean)?, &[0.7324588]);
    Ok(())
}

#[test]
fn identities() -> Result<()> {
    // Where the ones are when everything else is zero; a parameter is written without history.
    let ones = |sizes: &[i64], fill: &dyn Fn(&Tensor) -> Result<()>| -> Result<Vec<i64>> {
        let t = Tensor::full(sizes, 5, DType::F32)?.requires_grad_(true)?;
        fill(&t)?;
        assert!(t.is_leaf() && t.requires_grad());
        let places = t.detach()?.nonzero()?;
        assert_eq!(t.sum()?.item()?.to_f64() as i64, places.sizes()[0], "{t}");
        places.to_vec::<i64>()
    };
    assert_eq!(ones(&[2, 3], &init::eye_)?, [0, 0, 1, 1]);
    assert_eq!(ones(&[3, 2], &init::eye_)?, [0, 0, 1, 1]);
    assert_eq!(ones(&[4, 2, 3], &|t| init::dirac_(t, 2))?, [0, 0, 1, 1, 1, 1, 2, 0, 1, 3, 1, 1]);
    assert_eq!(ones(&[2, 3, 2, 5], &|t| init::dirac_(t, 1))?, [0, 0, 1, 2, 1, 1, 1, 2]);
    assert_eq!(ones(&[3, 2, 1, 2, 3], &|t| init::dirac_(t, 1))?, [0, 0, 0, 1, 1, 1, 1, 0, 1, 1]);
    assert_eq!(ones(&[6, 1, 3], &|t| init::dirac_(t, 3))?, [0, 0, 1, 2, 0, 1, 4, 0, 1]);

    // A convolution with it gives its input back, each group its own channels.
    let weight = Tensor::empty(&[4, 2, 3, 3], DType::F32)?;
    init::dirac_(&weight, 2)?;
    let x = ramp(&[1, 4, 3, 4], -1.0, 7.0);
    let y = x.conv2d(&weight, None, &[1, 1], &[1, 1], &[1, 1], 2)?;
    assert_eq!(y.to_vec::<f32>()?, x.to_vec::<f32>()?);

    let message = |r: Result<()>| r.err().map_or(String::new(), |e| e.message().to_string());
    let t = |sizes: &[i64]| Tensor::zeros(sizes, DType::F32).unwrap();
    assert_eq!(message(init::eye_(&t(&[2]))), "Only tensors with 2 dimensions are supported");
    assert_eq!(message(init::sparse_(&t(&[2, 2, 2]), 0.5, 1.0)), "Only tensors with 2 dimensions are supported");
    assert!(message(init::sparse_(&t(&[2, 2]), 1.5, 1.0)).contains("between 0 and 1, not 1.5"));
    for sizes in [&[2, 2][..], &[2, 2, 1, 1, 1, 1]] {
        let wanted = "Only tensors with 3, 4, or 5 dimensions are supported";
        assert_eq!(message(init::dirac_(&t(sizes), 1)), wanted);
    }
    for groups in [0, 3] {
        assert_eq!(message(init::dirac_(&t(&[4, 2, 3]), groups)), "dim 0 must be divisible by groups");
    }
    Ok(())
}
