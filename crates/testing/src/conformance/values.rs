//! What an operator computes: from untouched inputs, the same every time, right to the last places.

use super::arguments::{call, map, tensors};
use super::compare::{Tolerance, differences, value_difference};
use super::{Case, Verdict, is_pointwise};
use flambeau::parallel::{num_threads, set_num_threads};
use flambeau::{DType, Device, OwnedValue, Result, Scalar, Tensor};

/// Only arguments that the schema marks are written.
pub(crate) fn inputs_untouched(case: &Case) -> Verdict {
    let bytes = |t: &Tensor| t.to_bytes();
    let before = tensors(&case.args);
    let contents = before.iter().map(bytes).collect::<Result<Vec<_>>>()?;
    let versions: Vec<u32> = before.iter().map(Tensor::version).collect();
    call(case.op, &case.args)?;
    for (i, t) in before.iter().enumerate() {
        if t.to_bytes()? != contents[i] {
            return Ok(Some(format!("tensor argument {i} was changed")));
        }
        if t.version() != versions[i] {
            return Ok(Some(format!("a write to tensor argument {i} was counted")));
        }
    }
    Ok(None)
}

/// A second call gives the same bits.
pub(crate) fn same_again(case: &Case) -> Verdict {
    same_bits(&call(case.op, &case.args)?, &case.expected)
}

fn same_bits(got: &[Option<Tensor>], want: &[Option<Tensor>]) -> Verdict {
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        if let (Some(a), Some(b)) = (a, b)
            && a.to_bytes()? != b.to_bytes()?
        {
            return Ok(Some(format!("result {i} has other bits")));
        }
    }
    Ok(None)
}

/// One thread and two give the same bits, also on inputs large enough to be split.
pub(crate) fn threads(case: &Case) -> Verdict {
    if !matches!(case.dtype, DType::F32 | DType::BF16 | DType::I64) {
        return Ok(None);
    }
    let Some(args) = enlarged(case)? else { return Ok(None) };
    let before = num_threads();
    set_num_threads(1);
    let one = call(case.op, &args);
    set_num_threads(2);
    let two = call(case.op, &args);
    set_num_threads(before);
    match (one, two) {
        (Ok(one), Ok(two)) => same_bits(&two, &one),
        (Err(_), Err(_)) => Ok(None),
        _ => Ok(Some("raises with one number of threads only".into())),
    }
}

/// The arguments repeated along the first dim to some ten thousand elements, if the operator takes them so.
fn enlarged(case: &Case) -> Result<Option<Vec<OwnedValue>>> {
    const ELEMENTS: i64 = 70_000;
    let repeat = |t: &Tensor, times: i64| -> Result<Tensor> {
        let mut sizes = vec![times];
        sizes.extend(t.sizes());
        let mut merged = t.sizes().to_vec();
        merged[0] *= times;
        t.unsqueeze(0)?.expand(&sizes)?.reshape(&merged)
    };
    let times = tensors(&case.args).iter().map(Tensor::numel).max().filter(|n| *n > 0).map(|n| ELEMENTS / n + 1);
    let Some(times) = times else { return Ok(None) };
    for only_first in [false, true] {
        let mut first = true;
        let args = map(&case.args, &mut |t| {
            let change = std::mem::replace(&mut first, false) || !only_first;
            if change && t.dim() > 0 && t.numel() > 0 { repeat(t, times) } else { Ok(t.clone()) }
        })?;
        // Outer products and the like would grow too large: ask for the shape first.
        let meta = map(&args, &mut |t| Tensor::empty_strided(t.sizes(), t.strides(), (t.dtype(), Device::META)))?;
        let Ok(shapes) = super::guarded(|| call(case.op, &meta)) else { continue };
        if shapes.iter().flatten().map(Tensor::numel).sum::<i64>() <= 4 * ELEMENTS {
            return Ok(Some(args));
        }
    }
    Ok(None)
}

/// Double precision agrees with the result to the entry's units in the last place: the reference device's, or else the
/// CPU's own.
pub(crate) fn precision(case: &Case) -> Verdict {
    if case.random {
        // Another dtype takes other numbers from the stream.
        return Ok(None);
    }
    let wide = match case.dtype {
        DType::F16 | DType::BF16 | DType::F32 => DType::F64,
        DType::Complex64 => DType::Complex128,
        _ if case.options.reference.is_none() => return Ok(None),
        other => other,
    };
    if wide == case.dtype && !case.expected.iter().flatten().any(|t| t.dtype().is_differentiable()) {
        return reference(case, &case.args, 0.0);
    }
    let mut args = map(&case.args, &mut |t| match t.dtype().is_differentiable() {
        true if t.dtype().is_complex() => t.to_dtype(DType::Complex128),
        true => t.to_dtype(DType::F64),
        false => Ok(t.clone()),
    })?;
    for a in &mut args {
        // Numbers are taken in the dtype of the computation.
        match a {
            OwnedValue::DType(d) if *d == case.dtype => *d = wide,
            OwnedValue::Float(x) if wide != case.dtype => *x = f64::from(*x as f32),
            OwnedValue::Scalar(Scalar::Float(x)) if wide != case.dtype => *x = f64::from(*x as f32),
            _ => {}
        }
    }
    reference(case, &args, case.op.ulp)
}

fn reference(case: &Case, args: &[OwnedValue], ulp: f64) -> Verdict {
    let args = match case.options.reference {
        Some(device) => map(args, &mut |t| t.to_device(device))?,
        None => args.to_vec(),
    };
    let want = match call(case.op, &args) {
        Ok(want) => want,
        Err(e) => return Ok(Some(format!("in double precision it raises: {}", e.message()))),
    };
    // Half a unit is the rounding of the result itself, and in the same precision the reference is rounded too; sums are
    // measured at their largest element.
    let rounded = matches!(case.dtype, DType::F64 | DType::Complex128);
    let tolerance = match is_pointwise(case.op) {
        true => Tolerance::Ulp(if rounded { 2.0 * ulp } else { ulp } + 0.5),
        false => Tolerance::OfLargest(ulp.max(4.0) * 2.0),
    };
    let want = want.iter().map(|t| t.as_ref().map(|t| t.to_device(Device::CPU)).transpose());
    let want = want.collect::<Result<Vec<_>>>()?;
    let (expected, want) = (fixed(case, &case.expected)?, fixed(case, &want)?);
    for (i, (got, want)) in expected.iter().zip(&want).enumerate() {
        if let (Some(got), Some(want)) = (got, want)
            && let Some(what) = value_difference(got, want, tolerance)?
        {
            return Ok(Some(format!("result {i}: {what}")));
        }
    }
    Ok(None)
}

/// What does not hang on a free choice, of all results of an operator that makes one.
fn fixed(case: &Case, results: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let chart = case.options.charts.iter().find(|c| c.ops.contains(&case.op.full_name()));
    match (chart, results.iter().cloned().collect::<Option<Vec<Tensor>>>()) {
        (Some(chart), Some(all)) => Ok((chart.fixed)(&all)?.into_iter().map(Some).collect()),
        _ => Ok(results.to_vec()),
    }
}

/// The device of the options agrees with the CPU.
pub(crate) fn device(case: &Case) -> Verdict {
    let Some(device) = case.options.device else { return Ok(None) };
    let args = map(&case.args, &mut |t| t.to_device(device))?;
    if tensors(&args).is_empty() {
        return Ok(None);
    }
    let got = call(case.op, &args)?;
    let tolerance = match is_pointwise(case.op) {
        true => Tolerance::Ulp(2.0 * case.op.ulp),
        false => Tolerance::OfLargest(64.0),
    };
    if let Some(t) = got.iter().flatten().find(|t| t.device() != device && t.dim() > 0) {
        return Ok(Some(format!("the result is on {} where {device} is right", t.device())));
    }
    differences(&got, &case.expected, tolerance)
}
