//! How results are compared.

use flambeau::{Complex64, DType, Result, Tensor};

/// How far apart two results may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tolerance {
    /// Not at all, but any NaN is as good as another.
    Exact,
    /// By so many units in the last place of the first one's dtype at each element.
    Ulp(f64),
    /// By so many units in the last place at the largest element: for sums.
    OfLargest(f64),
}

/// The distance between 1 and the next number.
pub(crate) fn epsilon(dtype: DType) -> f64 {
    match dtype.to_real() {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F32 => f32::EPSILON as f64,
        _ => f64::EPSILON,
    }
}

/// The smallest positive number.
fn smallest(dtype: DType) -> f64 {
    match dtype.to_real() {
        DType::F16 => 2f64.powi(-24),
        DType::BF16 => 2f64.powi(-133),
        DType::F32 => 2f64.powi(-149),
        _ => f64::from_bits(1),
    }
}

/// The largest finite number.
fn largest(dtype: DType) -> f64 {
    match dtype.to_real() {
        DType::F16 => 65504.0,
        DType::BF16 => 3.3895313892515355e38,
        DType::F32 => f32::MAX as f64,
        _ => f64::MAX,
    }
}

fn close(a: f64, b: f64, bound: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= bound
}

/// Says where two tensors differ: sizes, dtype, then elements.
pub(crate) fn difference(got: &Tensor, want: &Tensor, tolerance: Tolerance) -> Result<Option<String>> {
    if got.dtype() != want.dtype() {
        return Ok(Some(format!("dtype {} where {} is right", got.dtype(), want.dtype())));
    }
    value_difference(got, want, tolerance)
}

/// Says where two tensors differ, whatever their dtypes.
pub(crate) fn value_difference(got: &Tensor, want: &Tensor, tolerance: Tolerance) -> Result<Option<String>> {
    if got.sizes() != want.sizes() {
        return Ok(Some(format!("sizes {:?} where {:?} are right", got.sizes(), want.sizes())));
    }
    let dtype = got.dtype();
    if !dtype.is_differentiable() && !want.dtype().is_differentiable() {
        let (a, b) = (got.to_vec::<i64>()?, want.to_vec::<i64>()?);
        let at = a.iter().zip(&b).position(|(a, b)| a != b);
        return Ok(at.map(|i| format!("element {i} is {} where {} is right", a[i], b[i])));
    }
    let (a, b) = (got.to_vec::<Complex64>()?, want.to_vec::<Complex64>()?);
    let finite = b.iter().flat_map(|z| [z.re, z.im]).filter(|x| x.is_finite());
    let size = finite.fold(0.0, |m: f64, x| m.max(x.abs()));
    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
        let unit = |x: f64| {
            let x = if x.is_finite() { x.abs() } else { 1.0 };
            // A unit in the last place at x: the distance of 1 to the next number, scaled by the power of two below x.
            (epsilon(dtype) * 2f64.powi(x.log2().floor().max(-1000.0) as i32)).max(smallest(dtype))
        };
        let bound = match tolerance {
            Tolerance::Exact => 0.0,
            Tolerance::Ulp(ulp) => ulp * unit(b.norm()),
            Tolerance::OfLargest(ulp) => ulp * unit(size),
        };
        // What overflows the dtype may be infinite.
        let overflows = |a: f64, b: f64| {
            !matches!(tolerance, Tolerance::Exact)
                && a.is_infinite()
                && b.abs() >= largest(dtype) - bound
                && a * b > 0.0
        };
        let same = |a: f64, b: f64| close(a, b, bound) || overflows(a, b);
        if !(same(a.re, b.re) && same(a.im, b.im)) {
            let shown = |z: &Complex64| if dtype.is_complex() { format!("{z}") } else { format!("{:e}", z.re) };
            let units = (a - b).norm() / unit(b.norm());
            return Ok(Some(format!("element {i} is {} where {} is right ({units:.1} ulp)", shown(a), shown(b))));
        }
    }
    Ok(None)
}

/// Says where two lists of results differ.
pub(crate) fn differences(
    got: &[Option<Tensor>],
    want: &[Option<Tensor>],
    tolerance: Tolerance,
) -> Result<Option<String>> {
    if got.len() != want.len() {
        return Ok(Some(format!("{} results where {} are right", got.len(), want.len())));
    }
    for (i, pair) in got.iter().zip(want).enumerate() {
        let found = match pair {
            (Some(a), Some(b)) => difference(a, b, tolerance)?,
            (None, None) => None,
            _ => Some("is there or absent where the other is not".into()),
        };
        if let Some(what) = found {
            return Ok(Some(format!("result {i}: {what}")));
        }
    }
    Ok(None)
}
