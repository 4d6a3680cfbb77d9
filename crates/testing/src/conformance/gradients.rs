//! Derivatives agree with differences, to the second order, backward and forward, and in place.

use super::arguments::{call, call_as_is, constants, for_form, tensors, with_tensors};
use super::compare::{Tolerance, difference, value_difference};
use super::{Case, Chart, Verdict, form_of};
use flambeau::autograd::{self, CheckOptions, Derivative};
use flambeau::{DType, ErrorKind, Form, MemoryFormat, Op, OwnedValue, Result, Tensor};

/// More elements than this take too long by differences.
const FIRST_ORDER_ELEMENTS: i64 = 400;
const SECOND_ORDER_ELEMENTS: i64 = 60;

/// The tensors to differentiate by, asking for gradients; `None` where there is nothing to differentiate.
fn variables(case: &Case) -> Result<Option<Vec<Tensor>>> {
    if !matches!(case.dtype, DType::F64 | DType::Complex128) || says_not(case.op) {
        return Ok(None);
    }
    let inputs = tensors(&case.args);
    // Running statistics are state, not variables.
    let mut state = Vec::new();
    for (param, a) in case.op.schema().params.iter().zip(&case.args) {
        let n = tensors(std::slice::from_ref(a)).len();
        state.extend(std::iter::repeat_n(param.name.starts_with("running_"), n));
    }
    let mut found = Vec::with_capacity(inputs.len());
    for ((t, state), constant) in inputs.iter().zip(state).zip(constants(case.op, &case.args)?) {
        let t = t.clone_in(MemoryFormat::Preserve)?;
        let smooth = !state && !constant && matches!(t.dtype(), DType::F64 | DType::Complex128);
        found.push(if smooth { t.requires_grad_(true)? } else { t });
    }
    if !found.iter().any(Tensor::requires_grad) {
        return Ok(None);
    }
    let outputs = call(case.op, &with_tensors(&case.args, &found)?)?;
    Ok(outputs.iter().flatten().any(Tensor::requires_grad).then_some(found))
}

/// Whether the entry says that there is no derivative. That this is so is checked over the list of operators.
fn says_not(op: &'static Op) -> bool {
    !op.is_composite() && !matches!(op.functional().derivative, Derivative::Formulas(_))
}

fn chart_of(case: &Case) -> Option<&'static Chart> {
    case.options.charts.iter().find(|c| c.ops.contains(&case.op.full_name()))
}

fn function(case: &Case) -> impl Fn(&[Tensor]) -> Result<Vec<Tensor>> {
    let (op, args) = (case.op, case.args.clone());
    let first_only = case.options.first_result_only.contains(&op.full_name());
    let chart = chart_of(case);
    move |xs| {
        let mut outputs = match chart {
            Some(chart) => call(op, &with_tensors(&args, &(chart.inputs)(xs)?)?)?,
            None => call(op, &with_tensors(&args, xs)?)?,
        };
        outputs.truncate(if first_only { 1 } else { op.differentiable_results });
        let outputs: Vec<Tensor> = outputs.into_iter().flatten().collect();
        chart.map_or_else(|| Ok(outputs.clone()), |chart| (chart.outputs)(&outputs))
    }
}

fn size(xs: &[Tensor]) -> i64 {
    xs.iter().filter(|x| x.requires_grad()).map(Tensor::numel).sum()
}

/// In lower precision gradients have the dtypes and sizes of their inputs, and are about those in double precision.
pub(crate) fn gradient(case: &Case) -> Verdict {
    let wide = match case.dtype {
        DType::F16 | DType::BF16 | DType::F32 => DType::F64,
        DType::Complex64 => DType::Complex128,
        _ => return Ok(None),
    };
    if case.random || says_not(case.op) {
        return Ok(None);
    }
    let inputs = tensors(&case.args);
    let constants = constants(case.op, &case.args)?;
    let gradients = |dtype: DType| -> Result<Vec<(usize, Tensor)>> {
        let widened = dtype != case.dtype;
        let leaf = |(t, constant): (&Tensor, &bool)| match t.dtype() == case.dtype {
            true => t.detach()?.to_dtype(dtype)?.clone_in(MemoryFormat::Preserve)?.requires_grad_(!constant),
            // What a kernel keeps in single precision beside halves.
            false if widened && t.dtype().is_floating_point() => t.to_dtype(dtype.to_real()),
            false => Ok(t.clone()),
        };
        let xs = inputs.iter().zip(&constants).map(leaf).collect::<Result<Vec<_>>>()?;
        let mut args = with_tensors(&case.args, &xs)?;
        for a in &mut args {
            if matches!(a, OwnedValue::DType(d) if *d == case.dtype) {
                *a = OwnedValue::DType(dtype);
            }
        }
        let results: Vec<Tensor> = call(case.op, &args)?.into_iter().flatten().collect();
        let results = chart_of(case).map_or_else(|| Ok(results.clone()), |chart| (chart.outputs)(&results))?;
        let y = results.into_iter().find(Tensor::requires_grad);
        let Some(y) = y else { return Ok(vec![]) };
        let wanted: Vec<usize> = (0..xs.len()).filter(|i| xs[*i].requires_grad()).collect();
        let leaves: Vec<Tensor> = wanted.iter().map(|i| xs[*i].clone()).collect();
        // Uneven, and exact in every dtype.
        let seed: Vec<f64> = (0..y.numel()).map(|k| 0.5 + (k * 5 % 8) as f64 / 8.0).collect();
        let seed = Tensor::from_slice_of(&seed, y.sizes())?.to_dtype(y.dtype())?;
        let found = autograd::grad(&[y], &leaves, &[Some(seed)], false, false, true)?;
        Ok(wanted.into_iter().zip(found).filter_map(|(i, g)| g.map(|g| (i, g))).collect())
    };
    let (found, right) = (gradients(case.dtype)?, gradients(wide)?);
    if found.len() != right.len() {
        return Ok(Some(format!("{} gradients where {} are right", found.len(), right.len())));
    }
    let tolerance = Tolerance::OfLargest(16.0 * case.op.ulp.max(4.0));
    for ((i, got), (_, want)) in found.iter().zip(&right) {
        if got.dtype() != case.dtype || got.sizes() != inputs[*i].sizes() {
            return Ok(Some(format!("the gradient of input {i} is {} {:?}", got.dtype(), got.sizes())));
        }
        if let Some(what) = value_difference(got, want, tolerance)? {
            return Ok(Some(format!("the gradient of input {i}: {what}")));
        }
    }
    Ok(None)
}

/// First derivatives agree with differences, and forward mode with backward.
pub(crate) fn gradcheck(case: &Case) -> Verdict {
    let Some(xs) = variables(case)? else { return Ok(None) };
    if size(&xs) > FIRST_ORDER_ELEMENTS {
        return Ok(None);
    }
    let options = CheckOptions { forward: true, ..CheckOptions::default() };
    // Differences of values around 1e3 have no more digits.
    match autograd::gradcheck(&function(case), &xs, options) {
        Ok(()) => Ok(None),
        Err(e) => Ok(Some(e.message().into())),
    }
}

/// Second derivatives agree with differences of the first.
pub(crate) fn gradgradcheck(case: &Case) -> Verdict {
    let Some(xs) = variables(case)? else { return Ok(None) };
    let outputs: i64 = case.expected.iter().flatten().map(Tensor::numel).sum();
    if size(&xs) + outputs > SECOND_ORDER_ELEMENTS {
        return Ok(None);
    }
    match autograd::gradgradcheck(&function(case), &xs, CheckOptions::default()) {
        Ok(()) => Ok(None),
        // An entry may say that the derivative of its derivative is not there.
        Err(e) if e.kind() == ErrorKind::NotImplemented => Ok(None),
        Err(e) => Ok(Some(e.message().into())),
    }
}

/// The gradient through the in-place form is that of the functional one.
pub(crate) fn in_place(case: &Case) -> Verdict {
    for &form in case.forms.iter().filter(|f| form_of(f) == Some(Form::InPlace)) {
        let Some(xs) = variables(case)? else { return Ok(None) };
        let (Some(want), [Some(result)]) = (xs.first(), &case.expected[..]) else { continue };
        if result.sizes() != want.sizes() || result.dtype() != want.dtype() {
            continue;
        }
        if for_form(case.op, &case.args, form).is_none() || !matches!(case.args[0], OwnedValue::Tensor(_)) {
            continue;
        }
        let functional = call(case.op, &with_tensors(&case.args, &xs)?)?;
        let mut moved = xs.clone();
        moved[0] = xs[0].clone_in(MemoryFormat::Preserve)?;
        let Some(args) = for_form(case.op, &with_tensors(&case.args, &moved)?, form) else { continue };
        let written = call_as_is(form, &args)?;
        let wanted: Vec<Tensor> = xs.iter().filter(|x| x.requires_grad()).cloned().collect();
        let gradients = |y: &Option<Tensor>| match y {
            Some(y) if y.requires_grad() => {
                let seed = Tensor::full(y.sizes(), 0.7, (y.dtype(), y.device()))?;
                autograd::grad(std::slice::from_ref(y), &wanted, &[Some(seed)], false, false, true)
            }
            _ => Ok(vec![None; wanted.len()]),
        };
        for (i, pair) in gradients(&written[0])?.iter().zip(&gradients(&functional[0])?).enumerate() {
            let found = match pair {
                (Some(a), Some(b)) => difference(a, b, Tolerance::OfLargest(16.0))?,
                (None, None) => None,
                // None is as good as zero.
                (Some(g), None) | (None, Some(g)) => difference(g, &g.zeros_like()?, Tolerance::Exact)?,
            };
            if let Some(what) = found {
                return Ok(Some(format!("{}: the gradient of input {i}: {what}", form.full_name())));
            }
        }
    }
    Ok(None)
}
