//! Arguments that are missing, too many, or of another sort than the schema says.

use super::super::arguments::{call, call_as_is, complete, map, with_copies};
use super::super::compare::{Tolerance, differences};
use super::super::{Case, Verdict, guarded, is_pointwise};
use super::{Attempts, Must, Right, right};
use flambeau::schema::{Base, Param};
use flambeau::{DType, Device, ErrorKind, MemoryFormat, Op, OwnedValue, Result, Scalar, Tensor};

/// The calls as they are and, where there is something to differentiate, with gradients to record.
fn recorded_too(case: &Case) -> Result<Vec<Right>> {
    let mut calls = right(case)?;
    if case.dtype.is_differentiable() {
        for plain in right(case)? {
            if plain.op.mutates() {
                continue;
            }
            let leaf = |t: &Tensor| match t.dtype().is_differentiable() {
                true => t.detach()?.clone_in(MemoryFormat::Preserve)?.requires_grad_(true),
                false => Ok(t.clone()),
            };
            let args = map(&plain.args, &mut |t| leaf(t))?;
            calls.push(Right { args, ..plain });
        }
    }
    Ok(calls)
}

/// What the error for an argument of the wrong sort has to name.
fn names(call: &Right, param: &Param) -> Must {
    Must::Fail(&[ErrorKind::Type], vec![call.op.name().to_string(), format!("'{}'", param.name)])
}

/// Every argument that has to be there is asked for; one more than there are does no harm.
pub(crate) fn missing(case: &Case) -> Verdict {
    let mut attempts = Attempts::new(case);
    for call in recorded_too(case)? {
        for (i, param) in call.op.schema().params.iter().enumerate() {
            let needed = param.default.is_none() && !param.ty.optional && param.ty.base != Base::Generator;
            // What an elementwise expression is not given is zero: to count its numbers would cost every call.
            let number = is_pointwise(call.op) && !matches!(param.ty.base, Base::Tensor);
            let must = if needed && !number { names(&call, param) } else { Must::End };
            attempts.make(call.op, &call.args[..i.min(call.args.len())], &format!("no '{}'", param.name), must)?;
        }
        let more = [&call.args[..], &[OwnedValue::Str("more".into())]].concat();
        attempts.make(call.op, &more, "one argument more", Must::End)?;
    }
    attempts.verdict()
}

/// What is left out, at the end or as `None`, is as the schema's default: of the operator, and of its forms that write,
/// which must not do it twice.
pub(crate) fn left_out(case: &Case) -> Verdict {
    if case.random {
        return Ok(None);
    }
    for Right { op, args } in right(case)? {
        let params = &op.schema().params;
        for (i, param) in params.iter().enumerate().filter(|(_, p)| p.default.is_some()) {
            let mut with_default = args.clone();
            with_default[i] = complete(op, args[..i].to_vec()).swap_remove(i);
            let mut as_none = with_default.clone();
            as_none[i] = OwnedValue::None;
            let mut ways = vec![("as None", as_none, with_default)];
            if params[i..].iter().all(|p| p.default.is_some()) {
                ways.push(("at the end", args[..i].to_vec(), complete(op, args[..i].to_vec())));
            }
            for (how, without, with) in ways {
                let Ok(want) = call(op, &with) else { continue };
                let what = match guarded(|| {
                    call_as_is(op, &with_copies(op, &without, &|t| t.clone_in(MemoryFormat::Preserve))?)
                }) {
                    Ok(got) => differences(&got, &want, Tolerance::Exact)?,
                    Err(e) => Some(format!("it is an error: {}", e.message())),
                };
                if let Some(what) = what {
                    let name = op.full_name();
                    return Ok(Some(format!(
                        "{name}: '{}' left out {how} is not the schema's default: {what}",
                        param.name
                    )));
                }
            }
        }
    }
    Ok(None)
}

/// One value of every sort.
fn of_every_sort() -> Result<Vec<OwnedValue>> {
    let t = Tensor::scalar(1f32)?;
    Ok(vec![
        OwnedValue::None,
        OwnedValue::Tensor(t.clone()),
        OwnedValue::Tensors(vec![t.clone()]),
        OwnedValue::OptionalTensors(vec![None, Some(t)]),
        OwnedValue::Scalar(Scalar::Complex(flambeau::Complex64::new(1.0, 1.0))),
        OwnedValue::Scalars(vec![Scalar::Int(1)]),
        OwnedValue::Int(1),
        OwnedValue::Ints(vec![1]),
        OwnedValue::Float(0.5),
        OwnedValue::Floats(vec![0.5]),
        OwnedValue::Bool(true),
        OwnedValue::Bools(vec![true]),
        OwnedValue::DType(DType::F32),
        OwnedValue::Device(Device::CPU),
        OwnedValue::MemoryFormat(MemoryFormat::Contiguous),
        OwnedValue::Str("text".into()),
    ])
}

/// Whether a parameter takes a value; `None` is also what an argument is that was not given.
fn takes(op: &'static Op, param: &Param, value: &OwnedValue) -> bool {
    let one_number =
        param.ty.list.is_none() && matches!(param.ty.base, Base::Scalar | Base::Float | Base::Int | Base::Bool);
    param.ty.takes(&value.borrow())
        || match value {
            OwnedValue::None => param.default.is_some(),
            // The overloads with a number and with a tensor may be one kernel.
            OwnedValue::Tensor(_) => one_number && matches!(param.ty.base, Base::Scalar | Base::Float),
            // Parameters of elementwise expressions are numbers of the dtype computed in.
            OwnedValue::Scalar(_) | OwnedValue::Int(_) | OwnedValue::Float(_) | OwnedValue::Bool(_) => {
                one_number && is_pointwise(op)
            }
            _ => false,
        }
}

/// An argument of another sort is refused by name.
pub(crate) fn sorts(case: &Case) -> Verdict {
    let mut attempts = Attempts::new(case);
    let values = of_every_sort()?;
    for call in recorded_too(case)? {
        for (i, param) in call.op.schema().params.iter().enumerate().take(call.args.len()) {
            for value in &values {
                let mut args = call.args.clone();
                args[i] = value.clone();
                let what = format!("{} for '{}'", value.borrow().kind_name(), param.name);
                let must = if takes(call.op, param, value) { Must::End } else { names(&call, param) };
                attempts.make(call.op, &args, &what, must)?;
            }
        }
    }
    attempts.verdict()
}
