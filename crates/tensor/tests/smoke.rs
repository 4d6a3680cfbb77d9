//! The core, end to end: promotion, views, gradients, in-place history, long chains, forward mode.

use flambeau::*;

fn t(x: &[f64]) -> Tensor {
    Tensor::from_slice(x).unwrap()
}

#[test]
fn arithmetic_and_promotion() -> Result<()> {
    let a = Tensor::from_slice(&[1i32, 2, 3])?;
    let b = Tensor::from_slice(&[0.5f32, 1.5, 2.5])?;
    let c = a.add(&b)?;
    assert_eq!(c.dtype(), DType::F32);
    assert_eq!(c.to_vec::<f32>()?, [1.5, 3.5, 5.5]);
    assert_eq!(a.add(1)?.dtype(), DType::I32);
    assert_eq!(a.div(2)?.to_vec::<f32>()?, [0.5, 1.0, 1.5]);
    let h = b.to_dtype(DType::BF16)?;
    assert_eq!(h.mul(&a)?.dtype(), DType::BF16);
    assert_eq!(h.mul(&a)?.to_vec::<f32>()?, [0.5, 3.0, 7.5]);
    let m = Tensor::from_slice(&[1f32, 2., 3., 4., 5., 6.])?.view(&[2, 3])?;
    assert_eq!(m.t()?.add(&m.t()?)?.strides(), [1, 3]);
    assert_eq!(m.add(&b)?.to_vec::<f32>()?, [1.5, 3.5, 5.5, 4.5, 6.5, 8.5]);
    assert!(a.add(&m.t()?.contiguous()?).is_err());
    Ok(())
}

#[test]
fn gradients_and_views() -> Result<()> {
    let x = t(&[1.0, 2.0, 3.0]).requires_grad_(true)?;
    let y = x.mul(&x)?.mul(&x)?;
    y.backward_with(&t(&[1.0, 1.0, 1.0]), false, false)?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [3.0, 12.0, 27.0]);
    assert!(y.backward_with(&t(&[1.0, 1.0, 1.0]), false, false).is_err());
    // in-place through a view rewrites the base's history
    let base = t(&[0.0, 0.0, 0.0]);
    let other = base.select(0, 2)?;
    let w = t(&[5.0]).requires_grad_(true)?;
    let v = base.slice(0, Some(0), Some(1), 1)?;
    v.copy_(&w.mul(2.0)?)?;
    assert!(base.requires_grad() && v.requires_grad() && other.requires_grad());
    assert_eq!(base.to_vec::<f64>()?, [10.0, 0.0, 0.0]);
    let z = base.mul(3.0)?;
    z.backward_with(&t(&[1.0, 1.0, 1.0]), true, false)?;
    assert_eq!(w.grad().unwrap().to_vec::<f64>()?, [6.0]);
    v.mul(&v)?.backward_with(&t(&[1.0]), true, false)?;
    assert_eq!(w.grad().unwrap().to_vec::<f64>()?, [46.0]);
    Ok(())
}

#[test]
fn saved_tensor_modified() -> Result<()> {
    let x = t(&[1.0, 2.0]).requires_grad_(true)?;
    let y = x.mul(2.0)?;
    let z = y.mul(&y)?;
    y.add_(1.0)?;
    let e = z.backward_with(&t(&[1.0, 1.0]), false, false).unwrap_err();
    assert!(e.message().contains("modified by an inplace operation"), "{e}");
    assert!(x.add_(1.0).is_err());
    Ok(())
}

#[test]
fn long_chain() -> Result<()> {
    let x = t(&[1.0]).requires_grad_(true)?;
    let mut y = x.clone();
    for _ in 0..1_000_000 {
        y = y.add(0.0)?;
    }
    y.backward_with(&t(&[1.0]), true, false)?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [1.0]);
    drop(y);
    Ok(())
}

#[test]
fn forward_mode() -> Result<()> {
    let (y, d) =
        autograd::jvp(|x| Ok(vec![x[0].mul(&x[0])?.div(&x[1])?]), &[t(&[3.0]), t(&[2.0])], &[t(&[1.0]), t(&[0.5])])?;
    assert_eq!(y[0].to_vec::<f64>()?, [4.5]);
    assert!((d[0].to_vec::<f64>()?[0] - (3.0 - 9.0 / 4.0 * 0.5)).abs() < 1e-12);
    Ok(())
}

/// A mask of several dims names elements one by one, in row-major order.
#[test]
fn masks_of_two_dims() -> Result<()> {
    let x = Tensor::from_slice(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])?.view(&[2, 3])?;
    let mask = Tensor::from_slice(&[0i64, 1, 0, 1, 1, 0])?.view(&[2, 3])?.ne(0)?;
    assert_eq!(x.index(&[Some(mask.clone())])?.to_vec::<f64>()?, [1.0, 3.0, 4.0]);
    assert_eq!(mask.nonzero()?.contiguous()?.view(&[-1])?.to_vec::<i64>()?, [0, 1, 1, 0, 1, 1]);
    x.index_put_(&[Some(mask)], &Tensor::from_slice(&[7.0, 8.0, 9.0])?, false)?;
    assert_eq!(x.view(&[-1])?.to_vec::<f64>()?, [0.0, 7.0, 2.0, 8.0, 9.0, 5.0]);
    Ok(())
}
