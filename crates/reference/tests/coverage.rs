//! Every primitive has a kernel here.

use flambeau::{Body, DType, Op, Result, Tensor, registry};

#[test]
fn every_primitive_has_a_kernel() {
    let primitive = |op: &&&'static Op| match op.body {
        Body::Pointwise(_) | Body::Structured { .. } | Body::Kernels { .. } => true,
        Body::InPlace(_, base) => matches!(base.body, Body::Composite(_) | Body::Explicit(_)),
        _ => false,
    };
    let ops = registry::all();
    let missing = ops.iter().filter(primitive).filter(|o| !flambeau_reference::has_kernel(o));
    let missing: Vec<&str> = missing.map(|o| o.full_name()).collect();
    assert!(missing.is_empty(), "write reference kernels for {missing:?}");
}

#[test]
fn kernels_loop_over_strided_and_broadcast_operands() -> Result<()> {
    let device = flambeau_reference::device()?;
    let x = Tensor::from_slice(&[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0])?.view(&[2, 3])?.to_device(device)?;
    assert_eq!(x.t()?.sum_dim(&[0], false)?.to_vec::<f64>()?, [6.0, 15.0]);
    assert_eq!(x.t()?.mm(&x)?.to_vec::<f64>()?, [17.0, 22.0, 27.0, 22.0, 29.0, 36.0, 27.0, 36.0, 45.0]);
    let row = Tensor::from_slice(&[10i32, 20, 30])?.to_device(device)?;
    let y = x.add(&row)?;
    assert_eq!((y.dtype(), y.to_vec::<f64>()?), (DType::F64, vec![11.0, 22.0, 33.0, 14.0, 25.0, 36.0]));
    assert_eq!(y.device(), device);
    Ok(())
}

#[test]
fn batch_norm_moves_the_running_statistics() -> Result<()> {
    let device = flambeau_reference::device()?;
    let moved = |device: flambeau::Device| -> Result<Vec<f64>> {
        let x = Tensor::from_slice(&[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0])?.view(&[3, 2])?.to_device(device)?;
        let (mean, var) = (Tensor::zeros(&[2], (DType::F64, device))?, Tensor::ones(&[2], (DType::F64, device))?);
        let args = [
            (&x).into(),
            flambeau::Value::None,
            flambeau::Value::None,
            (&mean).into(),
            (&var).into(),
            true.into(),
            0.1.into(),
            1e-5.into(),
        ];
        let op = registry::find("native_batch_norm").ok_or_else(|| flambeau::Error::runtime("no native_batch_norm"))?;
        op.call(&args)?;
        Ok([mean.to_vec::<f64>()?, var.to_vec::<f64>()?].concat())
    };
    let (there, here) = (moved(device)?, moved(flambeau::Device::CPU)?);
    assert!(there.iter().zip(&here).all(|(a, b)| (a - b).abs() < 1e-12), "{there:?} where the CPU has {here:?}");
    Ok(())
}
