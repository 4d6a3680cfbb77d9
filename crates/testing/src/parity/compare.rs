//! Comparison of results with recorded ones: structure, dtype, sizes, strides and values within tolerances.

use super::array::{Array, Numbers, index_of};
use super::store::{Case, Compare, Entry, Store};
use super::target::{Failure, Outcome, Target};
use super::value::{Recorded, Value};
use flambeau_base::{DType, Error, Scalar};
use num_complex::Complex;

fn wrong<T>(message: impl Into<String>) -> Outcome<T> {
    Err(Failure::Wrong(message.into()))
}

/// Relative and absolute tolerance for a dtype: the defaults of `torch.testing.assert_close`.
fn default_tolerance(dtype: DType) -> Option<(f64, f64)> {
    Some(match dtype {
        DType::F64 | DType::Complex128 => (1e-7, 1e-7),
        DType::F32 | DType::Complex64 => (1.3e-6, 1e-5),
        DType::F16 => (1e-3, 1e-5),
        DType::BF16 => (1.6e-2, 1e-5),
        _ => return None,
    })
}

/// Relative and absolute tolerance of output `k` of dtype `output`: the wider one of its dtype's and the sample's,
/// widened by what the case asks for. Integers and booleans must be equal.
pub fn tolerance(case: &Case, sample: Option<DType>, output: DType, k: Option<usize>) -> (f64, f64) {
    let wider = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.max(b.1));
    let mut t = (0.0, 0.0);
    if let Some(of_output) = default_tolerance(output) {
        t = of_output;
        if let Some(of_sample) = sample.and_then(default_tolerance) {
            t = wider(t, of_sample);
        }
        if let Some(of_case) = case.tolerance {
            t = wider(t, of_case);
        }
    }
    t.1 += k.and_then(|k| case.extra.get(k)).copied().unwrap_or(0.0);
    t
}

/// Compares element by element: `|actual - expected| <= atol + rtol |expected|`, infinities and NaN in the same places.
///
/// # Errors
/// [`Failure::Wrong`] says how many differ and shows the first.
pub fn check_close(expected: &Array, actual: &Array, (rtol, atol): (f64, f64), what: &str) -> Outcome<()> {
    if expected.sizes != actual.sizes {
        return wrong(format!("{what}sizes {:?}, expected {:?}", actual.sizes, expected.sizes));
    }
    let complex = |n: &Numbers| -> Vec<Complex<f64>> {
        match n {
            Numbers::Complex(v) => v.clone(),
            n => n.reals().unwrap_or_default().into_iter().map(Complex::from).collect(),
        }
    };
    let differ: Vec<usize> = match (&expected.numbers, &actual.numbers) {
        (Numbers::Exact(e), Numbers::Exact(a)) => (0..e.len()).filter(|i| e[*i] != a[*i]).collect(),
        (e @ Numbers::Complex(_), a) | (e, a @ Numbers::Complex(_)) => {
            let (e, a) = (complex(e), complex(a));
            let same = |e: Complex<f64>, a: Complex<f64>| {
                let nan = |x: Complex<f64>| x.re.is_nan() || x.im.is_nan();
                e == a || (nan(e) && nan(a)) || (a - e).norm() <= atol + rtol * e.norm()
            };
            (0..e.len()).filter(|i| !same(e[*i], a[*i])).collect()
        }
        (e, a) => {
            let (e, a) = (e.reals().unwrap_or_default(), a.reals().unwrap_or_default());
            let same = |e: f64, a: f64| {
                e == a || (e.is_nan() && a.is_nan()) || (e.is_finite() && (a - e).abs() <= atol + rtol * e.abs())
            };
            (0..e.len()).filter(|i| !same(e[*i], a[*i])).collect()
        }
    };
    let Some(first) = differ.first().copied() else { return Ok(()) };
    wrong(format!(
        "{what}{} of {} values differ; at {:?} got {}, expected {} (rtol {rtol:e}, atol {atol:e})",
        differ.len(),
        expected.numbers.len(),
        index_of(&expected.sizes, first),
        actual.numbers.show(first),
        expected.numbers.show(first),
    ))
}

/// An entry of a file's table.
pub(super) fn entry(store: &Store, i: usize) -> Outcome<&Entry> {
    store.entry(i).ok_or_else(|| Failure::Unread("a sparse tensor, or of a dtype that does not exist here".into()))
}

/// The contents of an entry.
pub(super) fn entry_array(store: &Store, i: usize) -> Outcome<Array> {
    Ok(store.array(entry(store, i)?)?)
}

/// A tensor's contents.
pub(super) fn read<T: Target>(target: &T, t: &T::Tensor) -> Outcome<Array> {
    let d = target.describe(t);
    let bytes = target.elements(t)?;
    let numel: i64 = d.sizes.iter().product();
    if bytes.len() != numel as usize * d.dtype.size() {
        return wrong(format!("{} bytes for {numel} elements of {}", bytes.len(), d.dtype));
    }
    Ok(Array::read(d.dtype, &d.sizes, &bytes))
}

/// Structure and what is not a tensor; tensors are compared apart.
pub(super) fn check_structure<A>(expected: &Value<Recorded>, actual: &Value<A>, path: &str) -> Outcome<()> {
    let got = actual.type_name();
    match (expected, actual) {
        (Value::Tensor(Recorded::Any), _) | (Value::Tensor(_), Value::Tensor(_)) | (Value::None, Value::None) => Ok(()),
        (Value::Tensor(_), _) => wrong(format!("{path}got {got}, expected a tensor")),
        (Value::List(e) | Value::Tuple(e), Value::List(a) | Value::Tuple(a)) => {
            if e.len() != a.len() {
                return wrong(format!("{path}got {} outputs, expected {}", a.len(), e.len()));
            }
            for (k, (e, a)) in e.iter().zip(a).enumerate() {
                check_structure(e, a, &format!("{path}[{k}] "))?;
            }
            Ok(())
        }
        (Value::DType(e), Value::DType(a)) if e == a => Ok(()),
        (Value::Str(e), Value::Str(a)) if e == a => Ok(()),
        (Value::Number(e), Value::Number(a)) => {
            let one = |s: &Scalar| Array {
                sizes: vec![],
                numbers: match s {
                    Scalar::Bool(b) => Numbers::Exact(vec![*b as i128]),
                    Scalar::Int(i) => Numbers::Exact(vec![*i as i128]),
                    Scalar::UInt(u) => Numbers::Exact(vec![*u as i128]),
                    Scalar::Float(x) => Numbers::Real(vec![*x]),
                    Scalar::Complex(c) => Numbers::Complex(vec![*c]),
                },
            };
            if matches!(e, Scalar::Bool(_)) != matches!(a, Scalar::Bool(_)) {
                return wrong(format!("{path}got {a}, expected {e}"));
            }
            check_close(&one(e), &one(a), (1e-6, 1e-6), path)
        }
        (e, _) => wrong(format!("{path}got {got}, expected {e:?}")),
    }
}

/// The entries that a result is expected to hold, in order.
pub(super) fn expected_entries(expected: &Value<Recorded>) -> Vec<usize> {
    let entry = |r: &&Recorded| match r {
        Recorded::Entry(i) => Some(*i),
        _ => None,
    };
    expected.tensors().iter().filter_map(entry).collect()
}

fn row_major(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d].max(1);
    }
    strides
}

/// Strides of dimensions in which there is more than one element.
pub(super) fn significant_strides(sizes: &[i64], strides: &[i64]) -> Vec<i64> {
    sizes.iter().zip(strides).filter(|(n, _)| **n > 1).map(|(_, s)| *s).collect()
}

/// What of the results is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Structure, dtypes, sizes and values.
    Values,
    /// Structure, dtypes, sizes and strides.
    Strides,
    /// Structure, dtypes and sizes.
    Meta,
}

/// Compares the results of a call with those recorded.
pub(super) fn check_outputs<T: Target>(
    target: &T,
    store: &Store,
    case: &Case,
    expected: &Value<Recorded>,
    actual: &Value<T::Tensor>,
    sample: Option<DType>,
    depth: Depth,
) -> Outcome<()> {
    check_structure(expected, actual, "")?;
    let ids = expected_entries(expected);
    let tensors = actual.tensors();
    let any = expected.tensors().iter().any(|r| **r == Recorded::Any);
    if ids.len() != tensors.len() {
        return if any { Ok(()) } else { wrong(format!("got {} tensors, expected {}", tensors.len(), ids.len())) };
    }
    let what = |k: usize| if ids.len() > 1 { format!("output {k}: ") } else { String::new() };
    let mut entries = Vec::with_capacity(ids.len());
    for (k, (i, t)) in ids.iter().zip(&tensors).enumerate() {
        let e = entry(store, *i)?;
        let d = target.describe(t);
        if d.sizes != e.sizes {
            return wrong(format!("{}sizes {:?}, expected {:?}", what(k), d.sizes, e.sizes));
        }
        if d.dtype != e.dtype {
            return wrong(format!("{}dtype {}, expected {}", what(k), d.dtype, e.dtype));
        }
        if depth == Depth::Strides && !e.sizes.contains(&0) {
            let strides = e.strides.clone().unwrap_or_else(|| row_major(&e.sizes));
            if significant_strides(&e.sizes, &d.strides) != significant_strides(&e.sizes, &strides) {
                return wrong(format!("{}strides {:?}, expected {strides:?}", what(k), d.strides));
            }
        }
        entries.push(e);
    }
    if depth != Depth::Values {
        return Ok(());
    }
    let mut expected = ids.iter().map(|i| entry_array(store, *i)).collect::<Outcome<Vec<_>>>()?;
    let mut actual = tensors.iter().map(|t| read(target, t)).collect::<Outcome<Vec<_>>>()?;
    if let (Some(mask), false) = (case.mask, expected.is_empty()) {
        let mask = entry_array(store, mask)?;
        blank(&mut expected[0], &mask);
        blank(&mut actual[0], &mask);
    }
    if matches!(case.compare, Compare::Elements) {
        for (k, (e, a)) in expected.iter().zip(&actual).enumerate() {
            check_close(e, a, tolerance(case, sample, entries[k].dtype, Some(k)), &what(k))?;
        }
        return Ok(());
    }
    let mut widest = (0.0f64, 0.0f64);
    for (k, e) in entries.iter().enumerate() {
        let t = tolerance(case, sample, e.dtype, Some(k));
        widest = (widest.0.max(t.0), widest.1.max(t.1));
    }
    check_free_choice(store, &case.compare, &expected, &actual, widest)
}

/// Sets what a mask leaves out to zero.
fn blank(array: &mut Array, mask: &Array) {
    let Numbers::Exact(mask) = &mask.numbers else { return };
    if mask.len() != array.numbers.len() {
        return;
    }
    for (i, _) in mask.iter().enumerate().filter(|(_, m)| **m == 0) {
        match &mut array.numbers {
            Numbers::Exact(v) => v[i] = 0,
            Numbers::Real(v) => v[i] = 0.0,
            Numbers::Complex(v) => v[i] = Complex::default(),
        }
    }
}

/// Comparisons of results that leave an implementation a choice.
fn check_free_choice(
    store: &Store,
    how: &Compare,
    expected: &[Array],
    actual: &[Array],
    tolerance: (f64, f64),
) -> Outcome<()> {
    match how {
        Compare::Elements => Ok(()),
        Compare::Decomposition(name) => Err(Failure::Unread(format!("comparison of a decomposition: {name}"))),
        Compare::Ties { input, dim, indices, unsorted } => {
            let input = entry_array(store, *input)?;
            let rank = input.sizes.len();
            let dim = if *dim < 0 { dim + rank as i64 } else { *dim } as usize;
            for (k, (e, a)) in expected.iter().zip(actual).enumerate() {
                if k != *indices {
                    let sort = |x: &Array| if *unsorted { sorted(x, dim) } else { x.clone() };
                    check_close(&sort(e), &sort(a), tolerance, "values: ")?;
                } else if rank == 0 {
                    check_close(e, a, (0.0, 0.0), "indices: ")?;
                } else {
                    let (e, a) = (take_along(&input, e, dim)?, take_along(&input, a, dim)?);
                    let sort = |x: Array| if *unsorted { sorted(&x, dim) } else { x };
                    check_close(&sort(e), &sort(a), (0.0, 0.0), "values at the returned indices: ")?;
                }
            }
            Ok(())
        }
        Compare::Unique { inverse, counts } => {
            let (e, a) = (unique_parts(expected, *inverse, *counts)?, unique_parts(actual, *inverse, *counts)?);
            e.iter().zip(&a).try_for_each(|(e, a)| check_close(e, a, tolerance, ""))
        }
    }
}

/// Sorted along a dimension.
fn sorted(x: &Array, dim: usize) -> Array {
    if x.sizes.is_empty() {
        return x.clone();
    }
    let mut order: Vec<usize> = (0..x.numbers.len()).collect();
    for line in x.lines(dim) {
        let mut by_value = line.clone();
        x.numbers.ascending(&mut by_value);
        for (place, from) in line.iter().zip(by_value) {
            order[*place] = from;
        }
    }
    Array { sizes: x.sizes.clone(), numbers: x.numbers.pick(order.into_iter()) }
}

/// The values of `input` that `indices` point at along `dim`; `indices` may lack that dimension.
fn take_along(input: &Array, indices: &Array, dim: usize) -> Outcome<Array> {
    let mut sizes = indices.sizes.clone();
    if sizes.len() < input.sizes.len() {
        sizes.insert(dim, 1);
    }
    let Numbers::Exact(at) = &indices.numbers else { return wrong("indices are not integers") };
    let strides = row_major(&input.sizes);
    let mut positions = Vec::with_capacity(at.len());
    for (i, k) in at.iter().enumerate() {
        if *k < 0 || *k >= input.sizes[dim] as i128 {
            return wrong(format!("index {k} is out of range for a dimension of size {}", input.sizes[dim]));
        }
        let mut index = index_of(&sizes, i);
        index[dim] = *k as i64;
        positions.push(index.iter().zip(&strides).map(|(i, s)| (i * s) as usize).sum());
    }
    Ok(Array { sizes, numbers: input.numbers.pick(positions.into_iter()) })
}

/// Unique values in ascending order; the input rebuilt from its inverse indices; counts in the same order.
fn unique_parts(outputs: &[Array], inverse: bool, counts: bool) -> Outcome<Vec<Array>> {
    let absent = || Failure::Raised(Error::io("a result of unique is absent"));
    let values = outputs.first().ok_or_else(absent)?;
    let mut order: Vec<usize> = (0..values.numbers.len()).collect();
    values.numbers.ascending(&mut order);
    let in_order = |x: &Array| Array { sizes: x.sizes.clone(), numbers: x.numbers.pick(order.iter().copied()) };
    let mut parts = vec![in_order(values)];
    let mut rest = outputs[1..].iter();
    if inverse {
        let indices = rest.next().ok_or_else(absent)?;
        let Numbers::Exact(at) = &indices.numbers else { return wrong("inverse indices are not integers") };
        if at.iter().any(|i| *i < 0 || *i >= values.numbers.len() as i128) {
            return wrong("an inverse index is out of range");
        }
        let numbers = values.numbers.pick(at.iter().map(|i| *i as usize));
        parts.push(Array { sizes: indices.sizes.clone(), numbers });
    }
    if counts {
        let counts = rest.next().ok_or_else(absent)?;
        if counts.numbers.len() != order.len() {
            return wrong("there are not as many counts as values");
        }
        parts.push(in_order(counts));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(v: &[f64]) -> Array {
        Array { sizes: vec![v.len() as i64], numbers: Numbers::Real(v.to_vec()) }
    }

    #[test]
    fn closeness() {
        let inf = f64::INFINITY;
        let same = |e: &[f64], a: &[f64]| check_close(&real(e), &real(a), (1e-3, 1e-6), "").is_ok();
        assert!(same(&[1.0, f64::NAN, inf], &[1.0009, f64::NAN, inf]));
        assert!(!same(&[1.0], &[1.0011]));
        assert!(!same(&[inf], &[1.0]) && !same(&[1.0], &[inf]) && !same(&[inf], &[-inf]));
        assert!(!same(&[f64::NAN], &[0.0]) && !same(&[0.0], &[f64::NAN]));
        assert!(!same(&[1.0, 1.0], &[1.0]));
    }

    #[test]
    fn free_order_is_free_and_nothing_else() {
        let x = Array { sizes: vec![2, 2], numbers: Numbers::Real(vec![2.0, 1.0, 3.0, 4.0]) };
        assert!(matches!(sorted(&x, 1).numbers, Numbers::Real(v) if v == [1.0, 2.0, 3.0, 4.0]));
        let at = |v: &[i128]| Array { sizes: vec![2], numbers: Numbers::Exact(v.to_vec()) };
        let taken = take_along(&x, &at(&[1, 0]), 1).unwrap();
        assert!(matches!(taken.numbers, Numbers::Real(v) if v == [1.0, 3.0]));
        assert!(take_along(&x, &at(&[2, 0]), 1).is_err());
    }
}
