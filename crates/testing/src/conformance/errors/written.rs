//! Tensors that must not be written to: of a dtype that cannot hold the result, with elements that share memory, leaves.

use super::super::arguments::{call_as_is, tensors};
use super::super::{Case, Verdict, form_of, is_pointwise};
use super::{Attempts, Must, right};
use flambeau::{DType, ErrorKind, Form, MemoryFormat, OwnedValue, Tensor};

/// An `out=` tensor of a dtype that the result cannot be cast to is refused.
pub(crate) fn out_dtype(case: &Case) -> Verdict {
    let mut attempts = Attempts::new(case);
    // What is made from numbers is made in the dtype of `out`.
    if tensors(&case.args).is_empty() {
        return Ok(None);
    }
    for call in right(case)?.into_iter().filter(|c| form_of(c.op) == Some(Form::Out)) {
        let Some(last) = call.args.len().checked_sub(1) else { continue };
        let OwnedValue::Tensor(out) = &call.args[last] else { continue };
        for dtype in [DType::Bool, DType::I64, DType::F32, DType::F64, DType::Complex64] {
            let mut args = call.args.clone();
            args[last] = OwnedValue::Tensor(Tensor::full(out.sizes(), 1, dtype)?);
            let in_its_dtype = call.op.functional().out_rule.computes_in.is_some();
            let must = match in_its_dtype || out.dtype().can_cast(dtype) {
                true => Must::End,
                // Joining tensors fails as in PyTorch, with a TypeError; means name the sums that they lack.
                false => Must::Fail(&[ErrorKind::Runtime, ErrorKind::Type, ErrorKind::NotImplemented], vec![]),
            };
            attempts.make(call.op, &args, &format!("out in {dtype} for {}", out.dtype()), must)?;
        }
    }
    attempts.verdict()
}

/// A tensor to be written whose elements lie on one another, or partly on those of an argument.
pub(crate) fn overlapping(case: &Case) -> Verdict {
    let mut attempts = Attempts::new(case);
    for call in right(case)? {
        for i in (0..call.args.len()).filter(|i| call.op.mutated() >> i & 1 == 1) {
            let OwnedValue::Tensor(out) = &call.args[i] else { continue };
            if out.numel() < 2 {
                continue;
            }
            let mut args = call.args.clone();
            let one = Tensor::full(&vec![1; out.dim()], 1, (out.dtype(), out.device()))?.expand(out.sizes())?;
            args[i] = OwnedValue::Tensor(one);
            // A view's in-place form writes no element.
            let view = call.op.functional().is_view() || case.op.is_view();
            let strict = form_of(call.op).is_some() && !view;
            let must = match strict {
                true => Must::FailToWrite(&[ErrorKind::Runtime], vec!["a single memory location".into()]),
                false => Must::End,
            };
            attempts.make(call.op, &args, "elements to write on one another", must)?;
            // One element further in the same memory.
            let memory = Tensor::full(&[out.numel() + 1], 1, (out.dtype(), out.device()))?;
            for (k, a) in call.args.iter().enumerate() {
                let OwnedValue::Tensor(x) = a else { continue };
                if k == i || x.sizes() != out.sizes() || x.dtype() != out.dtype() {
                    continue;
                }
                let mut args = call.args.clone();
                args[k] = OwnedValue::Tensor(memory.narrow(0, 0, out.numel())?.view(out.sizes())?);
                args[i] = OwnedValue::Tensor(memory.narrow(0, 1, out.numel())?.view(out.sizes())?);
                let must = match is_pointwise(case.op) && form_of(call.op).is_some() {
                    true => Must::Fail(&[ErrorKind::Runtime], vec!["a single memory location".into()]),
                    false => Must::End,
                };
                attempts.make_as_is(call.op, &args, "what it reads partly where it writes", must)?;
            }
        }
    }
    attempts.verdict()
}

/// A leaf that requires a gradient, or a view of one, is not written in place; nor are gradients lost in `out=`.
pub(crate) fn leaf(case: &Case) -> Verdict {
    let mut attempts = Attempts::new(case);
    if !case.dtype.is_differentiable() {
        return Ok(None);
    }
    for call in right(case)?.into_iter().filter(|c| c.op.mutates() && !c.op.is_view()) {
        let Some(OwnedValue::Tensor(first)) = call.args.first() else { continue };
        if !first.dtype().is_differentiable() {
            continue;
        }
        let leaf = first.detach()?.clone_in(MemoryFormat::Preserve)?.requires_grad_(true)?;
        let mut args = call.args.clone();
        args[0] = OwnedValue::Tensor(leaf.clone());
        if form_of(call.op) == Some(Form::Out) {
            // Indices and counts have no gradient to lose.
            let functional: Vec<OwnedValue> = [&[args[0].clone()], &case.args[1..]].concat();
            let lost = call_as_is(case.op, &functional)?.iter().flatten().any(Tensor::requires_grad);
            let must = match lost {
                true => Must::Fail(&[ErrorKind::Runtime], vec!["functions with out=... arguments".into()]),
                false => Must::End,
            };
            attempts.make(call.op, &args, "a leaf", must)?;
        } else if call.op.mutated() & 1 == 1 {
            let says = |text: &str| {
                Must::Fail(
                    &[ErrorKind::Runtime],
                    vec![format!("{text} requires grad is being used in an in-place operation.")],
                )
            };
            attempts.make_as_is(call.op, &args, "a leaf", says("a leaf Variable that"))?;
            args[0] = OwnedValue::Tensor(leaf.view_as(&leaf)?);
            attempts.make_as_is(call.op, &args, "a view of a leaf", says("a view of a leaf Variable that"))?;
        }
    }
    attempts.verdict()
}
