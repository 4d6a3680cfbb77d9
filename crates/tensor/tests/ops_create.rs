//! Ranges, running totals, random numbers and embeddings, against numbers from PyTorch 2.13.

#![allow(clippy::approx_constant, clippy::cloned_ref_to_slice_refs, clippy::excessive_precision)]

use flambeau::{Complex32, DType, Result, Tensor, manual_seed};
use std::sync::Mutex;

/// The default generator belongs to the process, and tests run side by side.
static SEEDED: Mutex<()> = Mutex::new(());

fn seeded<R>(f: impl FnOnce() -> R) -> R {
    let _guard = SEEDED.lock().unwrap_or_else(|e| e.into_inner());
    manual_seed(7);
    f()
}

fn close(x: &Tensor, expected: &[f64]) -> Result<()> {
    let got = x.to_dtype(DType::F64)?.reshape(&[-1])?.to_vec::<f64>()?;
    assert_eq!(got.len(), expected.len());
    for (g, e) in got.iter().zip(expected) {
        assert!((g - e).abs() <= 2e-6 * e.abs().max(1.0), "{got:?} is not {expected:?}");
    }
    Ok(())
}

#[test]
fn ranges() -> Result<()> {
    assert_eq!(Tensor::arange_step(0i64, 5i64, 2i64, ())?.to_vec::<i64>()?, [0, 2, 4]);
    assert_eq!(Tensor::arange_step(5i64, 0i64, -2i64, ())?.to_vec::<i64>()?, [5, 3, 1]);
    assert_eq!(Tensor::arange_step(0i64, 2i64, 0.3, ())?.numel(), 7);
    assert_eq!(Tensor::arange_step(0.5, 5i64, 1.5, DType::I32)?.to_vec::<i32>()?, [0, 1, 2]);
    let whole = i64::MAX;
    assert_eq!(Tensor::arange_step(whole - 1, whole, 1i64, ())?.to_vec::<i64>()?, [whole - 1]);
    assert!(Tensor::arange_step(0i64, 5i64, 0i64, ()).is_err());
    assert!(Tensor::arange_step(0i64, 5i64, -1i64, ()).is_err());
    assert!(Tensor::arange_step(0i64, f64::NAN, 1i64, ()).is_err());
    assert_eq!(Tensor::linspace(3i64, 10i64, 4, DType::U8)?.to_vec::<u8>()?, [3, 5, 7, 10]);
    assert_eq!(Tensor::linspace(3i64, 10i64, 1, ())?.to_vec::<f32>()?, [3.0]);
    close(&Tensor::logspace(0i64, 2i64, 5, 10.0, ())?, &[1.0, 3.16227769, 10.0, 31.6227763, 100.0])?;
    close(&Tensor::logspace(0i64, 3i64, 4, -2.0, ())?, &[1.0, -2.0, 4.0, -8.0])?;
    assert_eq!(Tensor::eye(2, 3, DType::I64)?.to_vec::<i64>()?, [1, 0, 0, 0, 1, 0]);
    let x = Tensor::arange(6, DType::I64)?.view(&[2, 3])?;
    assert_eq!(x.tril(0)?.to_vec::<i64>()?, [0, 0, 0, 3, 4, 0]);
    assert_eq!(x.t()?.triu(-1)?.to_vec::<i64>()?, [0, 3, 1, 4, 0, 5]);
    assert_eq!(x.triu(i64::MAX)?.to_vec::<i64>()?, [0; 6]);
    Ok(())
}

#[test]
fn gradients_of_running_totals() -> Result<()> {
    let x = Tensor::from_slice(&[1.0f32, 0.0, 2.0, 3.0, 2.0, 0.0, 0.0, 3.0, 4.0, 5.0, 6.0, 7.0])?.view(&[3, 4])?;
    let g = Tensor::arange_step(1i64, 13i64, 1i64, DType::F32)?.view(&[3, 4])?;
    let expected = [1.0, 32.0, 0.0, 0.0, 5.0, 12.0, 0.0, 0.0, 2909.0, 2320.0, 1900.0, 1440.0];
    for recorded in [false, true] {
        let x = x.clone_in(flambeau::MemoryFormat::Preserve)?.requires_grad_(true)?;
        x.cumprod(1)?.backward_with(&g, false, recorded)?;
        close(&x.grad().ok_or_else(|| flambeau::Error::runtime("no gradient"))?.detach()?, &expected)?;
    }
    let x = Tensor::from_slice(&[1.0f32, -2.0, 0.5])?.requires_grad_(true)?;
    x.logcumsumexp(0)?.backward_with(&Tensor::from_slice(&[1.0f32, -2.0, 3.0])?, false, false)?;
    close(
        &x.grad().ok_or_else(|| flambeau::Error::runtime("no gradient"))?,
        &[0.9060983657836914, -0.004675090312957764, 1.0985766649246216],
    )
}

#[test]
fn streams() -> Result<()> {
    let f32s = |x: Tensor| x.contiguous()?.to_vec::<f32>();
    seeded(|| {
        let expected = [0.5349225401878357f32, 0.19880318641662598, 0.6592116951942444, 0.6568902730941772];
        assert_eq!(f32s(Tensor::rand(&[5], ())?)?[..4], expected);
        manual_seed(7);
        assert_eq!(f32s(Tensor::randn(&[20], ())?)?[..2], [-0.8201345205307007, 0.39563116431236267]);
        manual_seed(7);
        let x = Tensor::empty(&[3, 7], ())?.t()?.normal_(0.0, 1.0)?;
        assert_eq!(f32s(x)?[..4], [-0.1467950940132141, 1.2323857545852661, 1.3954508304595947, 0.7861412763595581]);
        manual_seed(7);
        let z = Tensor::randn(&[3], DType::Complex64)?.to_vec::<Complex32>()?;
        assert_eq!(z[0], Complex32::new(-0.10379981249570847, 0.5558858513832092));
        manual_seed(7);
        assert_eq!(Tensor::randint(-5, 100, &[6], ())?.to_vec::<i64>()?, [70, 92, 71, 66, 38, 97]);
        manual_seed(7);
        assert_eq!(Tensor::randperm(8)?.to_vec::<i64>()?, [7, 0, 3, 4, 1, 5, 2, 6]);
        manual_seed(7);
        let weights = Tensor::from_slice(&[0.1f32, 0.2, 0.3, 0.4])?;
        assert_eq!(weights.multinomial(3, false)?.to_vec::<i64>()?, [1, 3, 0]);
        assert_eq!(weights.multinomial(5, true)?.to_vec::<i64>()?, [3, 3, 1, 2, 3]);
        manual_seed(7);
        let rates = Tensor::arange_step(1i64, 6i64, 1i64, DType::F32)?;
        assert_eq!(f32s(rates.poisson()?)?, [0.0, 4.0, 4.0, 1.0, 1.0]);
        manual_seed(7);
        let p = Tensor::linspace(0i64, 1i64, 8, ())?;
        assert_eq!(f32s(p.bernoulli()?)?, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        manual_seed(7);
        assert_eq!(f32s(Tensor::empty(&[5], ())?.geometric_(0.3)?)?, [4.0, 4.0, 1.0, 2.0, 1.0]);
        manual_seed(7);
        let x = Tensor::empty(&[4], DType::I32)?.random_()?;
        assert_eq!(x.to_vec::<i32>()?, [327741615, 976413892, 1202242073, 1369975286]);
        let x = Tensor::empty(&[4], ())?.random_from_(-3, None)?;
        assert_eq!(f32s(x)?, [3904640.0, 7130344.0, 3473584.0, 10564756.0]);
        manual_seed(7);
        let (mean, std) = (Tensor::arange(3, DType::F32)?, Tensor::arange_step(1i64, 4i64, 1i64, DType::F32)?);
        assert_eq!(
            f32s(Tensor::normal_tensors(&mean, &std)?)?,
            [-0.1467950940132141, 2.572282552719116, 4.8404645919799805]
        );
        Ok(())
    })
}

#[test]
fn dropouts() -> Result<()> {
    seeded(|| {
        let x = Tensor::arange_step(1i64, 9i64, 1i64, DType::F32)?;
        let expected =
            [1.4285714626312256f32, 2.857142925262451, 0.0, 5.714285850524902, 0.0, 0.0, 10.0, 11.428571701049805];
        assert_eq!(x.dropout(0.3, true)?.to_vec::<f32>()?, expected);
        manual_seed(7);
        let across = x.view(&[2, 4])?.t()?.dropout(0.3, true)?;
        assert_eq!(across.t()?.contiguous()?.to_vec::<f32>()?, expected);
        manual_seed(7);
        close(
            &x.narrow(0, 0, 6)?.alpha_dropout(0.3, true)?,
            &[
                1.315044641494751,
                2.175997257232666,
                -1.059548258781433,
                3.897902488708496,
                -1.059548258781433,
                -1.059548258781433,
            ],
        )?;
        assert!(x.dropout(0.5, false)?.is_set_to(&x));
        assert!(x.dropout(1.5, true).is_err());
        let x = x.requires_grad_(true)?;
        x.mul(1.0)?.uniform_(0.0, 1.0)?.sum()?.backward()?;
        close(&x.grad().ok_or_else(|| flambeau::Error::runtime("no gradient"))?, &[0.0; 8])
    })
}

#[test]
fn bad_random_arguments() -> Result<()> {
    let x = Tensor::ones(&[3], ())?;
    assert!(x.uniform_(3.0, 2.0).is_err());
    assert!(x.normal_(0.0, -1.0).is_err());
    assert!(x.normal_(0.0, f64::NAN).is_err());
    assert!(x.bernoulli_p_(1.5).is_err());
    assert!(x.exponential_(0.0).is_err());
    assert!(x.geometric_(1.0).is_err());
    assert!(x.random_from_(5, Some(2)).is_err());
    assert!(Tensor::ones(&[3], DType::U8)?.random_from_(0, Some(300)).is_err());
    assert!(Tensor::ones(&[3], DType::I64)?.uniform_(0.0, 1.0).is_err());
    assert!(x.multinomial(4, false).is_err());
    assert!(Tensor::zeros(&[3], ())?.multinomial(2, true).is_err());
    assert!(x.expand(&[2, 3])?.uniform_(0.0, 1.0).is_err());
    assert!(Tensor::randperm(-1).is_err());
    Ok(())
}

#[test]
fn embeddings() -> Result<()> {
    let table = Tensor::arange(8, DType::F32)?.view(&[4, 2])?.requires_grad_(true)?;
    let indices = Tensor::from_slice(&[1i64, 3, 1, 0])?.view(&[2, 2])?;
    let rows = table.embedding_with(&indices, 3, true)?;
    assert_eq!(rows.sizes(), [2, 2, 2]);
    assert_eq!(rows.detach()?.to_vec::<f32>()?, [2.0, 3.0, 6.0, 7.0, 2.0, 3.0, 0.0, 1.0]);
    rows.sum()?.backward()?;
    close(
        &table.grad().ok_or_else(|| flambeau::Error::runtime("no gradient"))?,
        &[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
    )?;
    assert!(table.embedding(&Tensor::from_slice(&[4i64])?).is_err());
    assert!(table.embedding(&Tensor::from_slice(&[-1i64])?).is_err());
    assert_eq!(Tensor::from_slice(&[2i64, 0])?.one_hot(-1)?.to_vec::<i64>()?, [0, 0, 1, 1, 0, 0]);
    Ok(())
}

#[test]
fn order() -> Result<()> {
    let x = Tensor::from_slice(&[3.0f32, f32::NAN, 1.0, 2.0, 0.0, -0.0, 5.0, -1.0])?.view(&[2, 4])?;
    assert_eq!(x.sort(1, false)?.1.to_vec::<i64>()?, [2, 3, 0, 1, 3, 0, 1, 2]);
    assert_eq!(x.argsort(1, true)?.to_vec::<i64>()?, [1, 0, 3, 2, 2, 0, 1, 3]);
    assert_eq!(x.t()?.sort(0, false)?.1.t()?.contiguous()?.to_vec::<i64>()?, [2, 3, 0, 1, 3, 0, 1, 2]);
    assert_eq!(x.topk(1, 1, true)?.1.to_vec::<i64>()?, [1, 2]);
    assert_eq!(x.kthvalue(2, 0, false)?.1.to_vec::<i64>()?, [0, 0, 1, 0]);
    assert_eq!(x.median_dim(1, false)?.1.to_vec::<i64>()?, [1, 0]);
    assert_eq!(x.nanmedian_dim(1, true)?.1.to_vec::<i64>()?, [3, 0]);
    assert!(x.median()?.item()?.to_f64().is_nan());
    assert_eq!(x.nanmedian()?.item()?.to_f64(), 1.0);
    assert!(x.topk(5, 1, true).is_err());
    assert!(x.kthvalue(0, 1, false).is_err());
    assert_eq!(Tensor::scalar(3i64)?.sort(0, false)?.1.to_vec::<i64>()?, [0]);
    let y = x.narrow(0, 1, 1)?.clone_in(flambeau::MemoryFormat::Preserve)?.requires_grad_(true)?;
    // Of the two zeros the one that PyTorch takes.
    y.topk(2, 1, true)?.0.sum()?.backward()?;
    close(&y.grad().ok_or_else(|| flambeau::Error::runtime("no gradient"))?, &[0.0, 1.0, 1.0, 0.0])
}

#[test]
fn searching_and_counting() -> Result<()> {
    let edges = Tensor::from_slice(&[1.0f32, 3.0, 3.0, 7.0])?;
    let values = Tensor::from_slice(&[0.0f32, 3.0, 8.0, f32::NAN])?;
    assert_eq!(values.bucketize(&edges, false)?.to_vec::<i64>()?, [0, 1, 4, 4]);
    assert_eq!(edges.searchsorted(&values, true)?.to_vec::<i64>()?, [0, 3, 4, 4]);
    let numbers = Tensor::from_slice(&[3i64, 1, 1, 2])?;
    assert_eq!(numbers.bincount(None, 6)?.to_vec::<i64>()?, [0, 2, 1, 1, 0, 0]);
    assert!(Tensor::from_slice(&[-1i64])?.bincount(None, 0).is_err());
    let (distinct, inverse, counts) = numbers.view(&[2, 2])?.unique(true, true)?;
    assert_eq!(distinct.to_vec::<i64>()?, [1, 2, 3]);
    assert_eq!((inverse.sizes(), inverse.to_vec::<i64>()?), (&[2i64, 2][..], vec![2, 0, 0, 1]));
    assert_eq!(counts.to_vec::<i64>()?, [2, 1, 1]);
    let rows = Tensor::from_slice(&[3i64, 1, 1, 2, 1, 2])?.view(&[3, 2])?;
    assert_eq!(rows.unique_dim(0, false, true)?.2.to_vec::<i64>()?, [2, 1]);
    assert_eq!(numbers.unique_consecutive(false, true, None)?.2.to_vec::<i64>()?, [1, 2, 1]);
    Ok(())
}
