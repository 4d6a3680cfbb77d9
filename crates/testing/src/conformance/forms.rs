//! In-place, `out=` and overloaded forms agree with the functional one.

use super::arguments::{call, call_as_is, for_form, map};
use super::compare::{Tolerance, difference, differences};
use super::{Case, Verdict, form_of};
use flambeau::{Form, OwnedValue, Result, Tensor};

/// The in-place form writes what the functional form gives, or refuses where that does not fit.
pub(crate) fn in_place(case: &Case) -> Verdict {
    for &form in case.forms.iter().filter(|f| form_of(f) == Some(Form::InPlace)) {
        let Some(mut args) = for_form(case.op, &case.args, form) else { continue };
        let (Some(OwnedValue::Tensor(x)), [Some(want)]) = (args.first(), &case.expected[..]) else { continue };
        // A view's in-place form changes how the memory is seen.
        let view = case.op.is_view();
        let fits = (view || want.sizes() == x.sizes()) && want.dtype().can_cast(x.dtype());
        let before = x.clone();
        let target = x.contiguous()?.clone_in(flambeau::MemoryFormat::Contiguous)?;
        let version = target.version();
        args[0] = OwnedValue::Tensor(target.clone());
        let got = call_as_is(form, &args);
        match (fits, got) {
            (false, Err(_)) => {}
            (false, Ok(_)) => {
                return Ok(Some(format!("{} accepts a result that does not fit its tensor", form.full_name())));
            }
            (true, Err(e)) => return Ok(Some(format!("{} raises: {}", form.full_name(), e.message()))),
            (true, Ok(got)) => {
                let want = want.to_dtype(target.dtype())?;
                if let (true, [Some(got)]) = (view, &got[..]) {
                    match difference(got, &want, Tolerance::Exact)? {
                        Some(what) => return Ok(Some(format!("{}: {what}", form.full_name()))),
                        None if got.shares_storage_with(&target) => continue,
                        None => return Ok(Some(format!("{} copies its tensor", form.full_name()))),
                    }
                }
                if let Some(what) = difference(&target, &want, tolerance(case))? {
                    return Ok(Some(format!("{}: {what}", form.full_name())));
                }
                if !matches!(&got[..], [Some(t)] if t.is_set_to(&target)) {
                    return Ok(Some(format!("{} does not return its tensor", form.full_name())));
                }
                // A composite need not write what stands there.
                let silent = form.is_composite() && difference(&target, &before, Tolerance::Exact)?.is_none();
                if target.version() == version && !silent {
                    return Ok(Some(format!("{} does not count its write", form.full_name())));
                }
            }
        }
    }
    Ok(None)
}

/// In double rounding the functional form may keep more than the tensor written to.
fn tolerance(case: &Case) -> Tolerance {
    if super::is_pointwise(case.op) { Tolerance::Exact } else { Tolerance::OfLargest(4.0) }
}

/// The `out=` form writes what the functional form gives into tensors that are empty, right, or in another order.
pub(crate) fn out(case: &Case) -> Verdict {
    for &form in case.forms.iter().filter(|f| form_of(f) == Some(Form::Out)) {
        let Some(args) = for_form(case.op, &case.args, form) else { continue };
        // Without a dtype or device argument the result may be another one's, where a sample gave them.
        let wanted: Vec<&Tensor> = case.expected.iter().flatten().collect();
        // One argument may be a list of tensors; and what the functional form writes, too, is not an output.
        let listed = form.schema().params.last().is_some_and(|p| p.ty.list.is_some());
        let written = (form.mutated().count_ones() - case.op.mutated().count_ones()) as usize;
        if !listed && wanted.len() != written || wanted.len() != case.expected.len() {
            return Ok(Some(format!("{} has another number of outputs", form.full_name())));
        }
        for kind in &["empty", "right", "transposed"][..if case.random { 2 } else { 3 }] {
            let targets = wanted.iter().map(|w| target(w, kind)).collect::<Result<Vec<_>>>()?;
            let mut all = args.clone();
            match listed {
                true => all.push(OwnedValue::Tensors(targets.clone())),
                false => all.extend(targets.iter().cloned().map(OwnedValue::Tensor)),
            }
            let got = match call_as_is(form, &all) {
                Ok(got) => got,
                Err(e) => return Ok(Some(format!("{} into {kind} raises: {}", form.full_name(), e.message()))),
            };
            if let Some(what) = differences(&got, &case.expected, tolerance(case))? {
                return Ok(Some(format!("{} into {kind}: {what}", form.full_name())));
            }
            for (got, target) in got.iter().flatten().zip(&targets) {
                if !got.shares_storage_with(target) || *kind != "empty" && got.strides() != target.strides() {
                    return Ok(Some(format!("{} into {kind}: the result is not the tensor given", form.full_name())));
                }
            }
        }
    }
    Ok(None)
}

fn target(like: &Tensor, kind: &str) -> Result<Tensor> {
    let options = (like.dtype(), like.device());
    match kind {
        "empty" => Tensor::empty(&[0], options),
        "right" => Tensor::full(like.sizes(), 1, options),
        _ => super::layouts::column_major(&Tensor::full(like.sizes(), 1, options)?),
    }
}

/// Other overloads with the same arguments agree, with a number where the sample has a 0-d tensor.
pub(crate) fn overload(case: &Case) -> Verdict {
    for &form in case.forms.iter().filter(|f| form_of(f) == Some(Form::Overload)) {
        let Some(args) = for_form(case.op, &case.args, form) else { continue };
        let args = map(&args, &mut |t| Ok(t.clone()))?;
        let got = call(form, &args)?;
        if let Some(what) = differences(&got, &case.expected, tolerance(case))? {
            return Ok(Some(format!("{}: {what}", form.full_name())));
        }
    }
    Ok(None)
}
