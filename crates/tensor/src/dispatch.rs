//! What fills an operator's kernel table: backends' kernels from the operator's body, functionality layers, fall-backs.

use crate::keys::{Key, KeyGuard, KeySet};
use crate::op::{Body, DynKernel, Form, KernelFn, Op, Plan};
use crate::out::{RowMajor, Write};
use crate::value::{Outputs, OwnedValue, Value};
use crate::{Error, MemoryFormat, Result, Tensor, autograd, ensure};
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::cell::RefCell;

/// Fall-back kernels by key: newest last.
pub(crate) static FALLBACKS: RwLock<Vec<(Key, u64, &'static DynKernel)>> = RwLock::new(Vec::new());

/// Whether a kernel is registered for `key` and every operator without one of its own.
pub(crate) fn has_fallback(key: Key) -> bool {
    FALLBACKS.read().iter().any(|(k, ..)| *k == key)
}

/// The kernel of a functionality key that an operator does not override.
pub(crate) fn functionality_kernel(key: Key) -> KernelFn {
    if has_fallback(key) {
        return run_fallback;
    }
    match key {
        Key::AUTOGRAD | Key::FORWARD => crate::autograd::kernel::autograd_kernel,
        Key::TRACE => trace_kernel,
        _ => fall_through,
    }
}

/// Passes a call on to the next key: for a layer that has nothing to do for an operator.
///
/// # Errors
/// As the kernel that runs.
pub fn fall_through(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    match keys.highest() {
        Some(key) => op.redispatch(keys.below(key), args),
        None => op.redispatch(keys, args),
    }
}

fn run_fallback(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let key = keys.highest();
    let kernel = FALLBACKS.read().iter().rev().find(|(k, ..)| Some(*k) == key).map(|(.., kernel)| *kernel);
    match kernel {
        Some(kernel) => kernel(op, keys, args),
        None => op.run_next(keys, args),
    }
}

/// The kernel that an operator's body gives for a backend.
pub(crate) fn backend_kernel(op: &'static Op, key: Key) -> Option<KernelFn> {
    let meta = key == Key::META;
    let fallback = || has_fallback(key).then_some(run_fallback as KernelFn);
    match op.body {
        Body::AnyBackend(kernel) | Body::Composite(kernel) | Body::Explicit(kernel) => Some(kernel),
        // Pointwise, structured and plain kernels of other backends come by registration; forms derived from them
        // need only the functional one and `copy_`.
        // What other crates registered for the functional operator serves its overloads too.
        Body::Variant(Form::Overload, base) if base.has_override(key) => Some(of_functional),
        Body::Variant(Form::Overload, base) => base.resolve(key),
        Body::InPlace(kernel, _) if key == Key::CPU => Some(kernel),
        // Where the functional form is a copy and this one, there is nothing to derive it from.
        Body::InPlace(_, Op { body: Body::Composite(_) | Body::Explicit(_), .. }) => match meta {
            true => Some(written_meta),
            false => fallback(),
        },
        Body::InPlace(_, base) => base.resolve(key).map(|_| derived_variant as KernelFn),
        Body::Variant(form, base) => match key {
            Key::CPU | Key::META => Some(match (form, base.body) {
                (_, Body::Pointwise(_)) => crate::pointwise::kernel,
                (_, Body::Structured { .. }) => structured_variant,
                _ => derived_variant,
            }),
            _ => base.resolve(key).map(|_| derived_variant as KernelFn),
        },
        Body::Pointwise(_) if key == Key::CPU || meta => Some(crate::pointwise::kernel),
        Body::Structured { .. } if key == Key::CPU || meta => Some(structured),
        Body::Kernels { meta: kernel, .. } if meta => Some(kernel),
        Body::Kernels { cpu: kernel, .. } if key == Key::CPU => Some(kernel),
        _ => fallback(),
    }
}

/// Every backend there is.
pub(crate) fn known_backends() -> Vec<Key> {
    crate::DeviceKind::all().into_iter().map(Key::backend).collect()
}

fn outputs_of(mut tensors: Vec<Tensor>) -> Outputs {
    match tensors.len() {
        1 => tensors.pop().map_or(Outputs::None, Outputs::One),
        _ => tensors.into(),
    }
}

fn structured_parts(op: &'static Op) -> Result<(crate::op::PlanFn, crate::op::RunFn)> {
    match op.functional().body {
        Body::Structured { plan, run } => Ok((plan, run)),
        _ => Err(Error::runtime(format!("{} is not structured", op.full_name()))),
    }
}

/// The in-place form on Meta of an operator whose functional form is a copy and this: nothing is written.
fn written_meta(op: &'static Op, _keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let target = crate::value::take::<&Tensor>(op, args, 0)?;
    check_meta_target(target)?;
    Ok(Outputs::One(target.clone()))
}

/// A call with any meta tensor computes nothing: what it should write to must be one, too.
pub(crate) fn check_meta_target(target: &Tensor) -> Result<()> {
    check_same_device(target, crate::Device::META)
}

/// Checks that a tensor is on the same kind of device as others.
pub(crate) fn check_same_device(t: &Tensor, device: crate::Device) -> Result<()> {
    ensure!(
        t.device().kind == device.kind,
        "Expected all tensors to be on the same device, but found at least two devices, {} and {device}!",
        t.device()
    );
    Ok(())
}

/// An overload with the same arguments as the operator it stands for.
fn of_functional(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    op.functional().run_next(keys, args)
}

/// The functional form of a structured operator on the CPU or Meta: plan, allocate, run.
fn structured(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let (plan, run) = structured_parts(op)?;
    let mut specs = plan(args)?;
    let data = !keys.has(Key::META);
    if specs.len() == 1 {
        let out = match specs.pop() {
            Some(spec) => on_backend(spec, keys).allocate()?,
            None => return Ok(Outputs::None),
        };
        if data {
            run(args, std::slice::from_ref(&out))?;
        }
        return Ok(Outputs::One(out));
    }
    let outs = specs.into_iter().map(|s| on_backend(s, keys).allocate()).collect::<Result<Vec<_>>>()?;
    if data {
        run(args, &outs)?;
    }
    Ok(outputs_of(outs))
}

/// A call with any meta tensor gives meta results.
fn on_backend(mut spec: crate::op::TensorSpec, keys: KeySet) -> crate::op::TensorSpec {
    if keys.has(Key::META) {
        spec.device = crate::Device::META;
    }
    spec
}

/// The in-place and `out=` forms of a structured operator on the CPU or Meta.
fn structured_variant(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let Body::Variant(form, _) = op.body else { return structured(op, keys, args) };
    let (plan, run) = structured_parts(op)?;
    let (given, targets) = split_arguments(op, form, args)?;
    let named = computing_in(op, form, given, &targets);
    let inputs = named.as_deref().unwrap_or(given);
    let specs: Plan = plan(inputs)?;
    let results = specs.iter().map(|s| (&s.sizes[..], s.dtype, s.strides.as_deref()));
    if keys.has(Key::META) {
        targets.iter().try_for_each(|t| check_meta_target(t))?;
    }
    let compute = || -> Result<Vec<Tensor>> {
        let fresh = specs.iter().map(|s| s.clone().allocate()).collect::<Result<Vec<_>>>()?;
        run(inputs, &fresh)?;
        Ok(fresh)
    };
    // What a kernel may fail at is done before anything is resized or written.
    let early = op.functional().out_rule.fallible && !keys.has(Key::META);
    let done = if early { Some(compute()?) } else { None };
    let targets = prepare_targets(op, form, given, &targets, results)?;
    if keys.has(Key::META) {
        return Ok(outputs_of(targets));
    }
    // The kernel may write where it still has to read, unless outputs and inputs are apart and dtypes agree.
    let apart = |t: &Tensor| {
        inputs.iter().all(|a| match a {
            Value::Tensor(x) => !x.shares_storage_with(t),
            Value::Tensors(xs) => xs.iter().all(|x| !x.shares_storage_with(t)),
            Value::OptionalTensors(xs) => xs.iter().flatten().all(|x| !x.shares_storage_with(t)),
            _ => true,
        })
    };
    let direct = done.is_none() && targets.iter().zip(&specs).all(|(t, s)| t.dtype() == s.dtype && apart(t));
    if direct {
        run(inputs, &targets)?;
        return Ok(outputs_of(targets));
    }
    let results = done.map_or_else(compute, Ok)?;
    for (t, r) in targets.iter().zip(&results) {
        t.copy_(r)?;
    }
    Ok(outputs_of(targets))
}

/// The arguments of a call that computes in the dtype of its `out=` tensor, where it does.
fn computing_in<'v>(
    op: &'static Op,
    form: Form,
    given: &[Value<'v>],
    targets: &[&Tensor],
) -> Option<SmallVec<[Value<'v>; 5]>> {
    let at = op.functional().out_rule.computes_in.filter(|_| form == Form::Out)?;
    let target = targets.first().filter(|_| matches!(given.get(at), Some(Value::None)))?;
    let mut values = SmallVec::from_iter(given.iter().cloned());
    values[at] = Value::from(target.dtype());
    Some(values)
}

/// The in-place and `out=` forms of any operator on any backend: the functional form, then a copy.
fn derived_variant(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let (form, base) = match op.body {
        Body::Variant(form, base) => (form, base),
        Body::InPlace(_, base) => (Form::InPlace, base),
        _ => return Err(Error::runtime(format!("{} has no functional form", op.full_name()))),
    };
    let (given, targets) = split_arguments(op, form, args)?;
    let named = computing_in(op, form, given, &targets);
    let inputs = named.as_deref().unwrap_or(given);
    if keys.has(Key::META) {
        targets.iter().try_for_each(|t| check_meta_target(t))?;
        for (_, a) in inputs.iter().enumerate().filter(|(i, _)| base.mutated() >> i & 1 == 1) {
            if let Value::Tensor(t) = a {
                check_meta_target(t)?;
            }
        }
    }
    // What a composite keeps of its input for the gradient must outlive the write.
    let kept = match (form, inputs.first()) {
        (Form::InPlace, Some(Value::Tensor(x)))
            if op.is_composite() && x.requires_grad() && autograd::is_grad_enabled() =>
        {
            Some(x.clone_in(MemoryFormat::Preserve)?)
        }
        _ => None,
    };
    // What the functional form writes itself is written to copies until the targets are known to fit.
    let copies = match form == Form::Out && base.mutates() {
        true => Some(inputs.iter().enumerate().map(|(i, a)| written_copy(base, i, a)).collect::<Result<Vec<_>>>()?),
        false => None,
    };
    let results = match (&kept, &copies) {
        (Some(x), _) => base.run_next(keys, &[&[Value::Tensor(x)], &inputs[1..]].concat())?,
        (None, Some(copies)) => base.run_next(keys, &copies.iter().map(OwnedValue::borrow).collect::<Vec<_>>())?,
        (None, None) => base.run_next(keys, inputs)?,
    };
    let results = results.list()?;
    if form == Form::Out && autograd::is_grad_enabled() && results.iter().any(Tensor::requires_grad) {
        return Err(autograd::kernel::not_for_out(op));
    }
    ensure!(
        results.len() == targets.len(),
        "{}(): expected {} output tensors, got {}",
        op.name(),
        results.len(),
        targets.len()
    );
    let written: Vec<(&Tensor, &Tensor)> = copies.iter().flatten().zip(inputs).filter_map(written_since).collect();
    written.iter().try_for_each(|(_, input)| check_writable(input, input.dtype()))?;
    let shapes = results.iter().map(|r| (r.sizes(), r.dtype(), Some(r.strides())));
    let targets = prepare_targets(op, form, given, &targets, shapes)?;
    for (t, r) in targets.iter().zip(&results) {
        if !t.is_set_to(r) {
            t.copy_(r)?;
        }
    }
    written.iter().try_for_each(|(copy, input)| input.copy_(copy).map(drop))?;
    Ok(outputs_of(targets))
}

/// Argument `i`, copied where `op` may write it.
fn written_copy(op: &'static Op, i: usize, a: &Value<'_>) -> Result<OwnedValue> {
    match a {
        Value::Tensor(t) if op.mutated() >> i & 1 == 1 => t.clone_in(MemoryFormat::Preserve).map(OwnedValue::Tensor),
        other => Ok(other.to_owned()),
    }
}

/// A copy that was written, with what it is a copy of.
fn written_since<'a>((copy, input): (&'a OwnedValue, &Value<'a>)) -> Option<(&'a Tensor, &'a Tensor)> {
    match (copy, *input) {
        (OwnedValue::Tensor(copy), Value::Tensor(input)) if !copy.is_same(input) && copy.version() > 0 => {
            Some((copy, input))
        }
        _ => None,
    }
}

/// The functional form's arguments, and the tensors to write.
pub(crate) fn split_arguments<'a, 'v>(
    op: &'static Op,
    form: Form,
    args: &'a [Value<'v>],
) -> Result<(&'a [Value<'v>], Vec<&'v Tensor>)> {
    match form {
        Form::InPlace => Ok((args, vec![crate::value::take(op, args, 0)?])),
        Form::Overload => Ok((args, Vec::new())),
        Form::Out => {
            let (inputs, outs) = split_outs(op, args)?;
            match outs {
                [Value::Tensors(list)] if op.schema().params[inputs.len()].ty.list.is_some() => {
                    Ok((inputs, list.iter().collect()))
                }
                _ => {
                    let outs = (inputs.len()..args.len()).map(|i| crate::value::take(op, args, i));
                    Ok((inputs, outs.collect::<Result<_>>()?))
                }
            }
        }
    }
}

/// Checks that an `out=` form's arguments are as many as it has: were one missing, an input would be taken for one to write.
pub(crate) fn check_count(op: &'static Op, args: &[Value<'_>]) -> Result<()> {
    match args.len() < op.parameters() {
        true => Err(crate::value::missing(op, args.len())),
        false => check_surplus(op, args),
    }
}

/// Checks that a call has no more arguments than there are parameters.
#[inline(always)]
pub(crate) fn check_surplus(op: &'static Op, args: &[Value<'_>]) -> Result<()> {
    match args.len() > op.parameters() {
        true => Err(surplus(op, args.len())),
        false => Ok(()),
    }
}

#[cold]
fn surplus(op: &'static Op, given: usize) -> Error {
    Error::type_(format!("{}() takes {} arguments but {given} were given", op.name(), op.parameters()))
}

/// An `out=` form's inputs, and what it writes.
fn split_outs<'a, 'v>(op: &'static Op, args: &'a [Value<'v>]) -> Result<(&'a [Value<'v>], &'a [Value<'v>])> {
    check_count(op, args)?;
    // What the functional form writes too is an input.
    let outs = (op.mutated().count_ones() - op.functional().mutated().count_ones()) as usize;
    Ok(args.split_at(args.len() - outs))
}

/// Checks that results of the given sizes and dtypes may be written to the targets, and resizes `out=` ones.
fn prepare_targets<'a>(
    op: &'static Op,
    form: Form,
    inputs: &[Value<'_>],
    targets: &[&Tensor],
    results: impl Iterator<Item = (&'a [i64], crate::DType, Option<&'a [i64]>)>,
) -> Result<Vec<Tensor>> {
    let mut out = Vec::with_capacity(targets.len());
    let rule = op.functional().out_rule;
    for (&given, (sizes, dtype, strides)) in targets.iter().zip(results) {
        let write = Write { op: op.functional(), inputs, output: out.len(), result: dtype, out: given.dtype() };
        match form {
            // Where nothing is computed, what kernels cannot write does not matter.
            Form::Out if given.device().is_meta() && !rule.is_exact() => {
                rule.check(&write).or_else(|_| crate::out::castable(dtype, given.dtype()))?;
            }
            Form::Out => rule.check(&write)?,
            _ => crate::out::castable(dtype, given.dtype())?,
        }
        check_distinct(given)?;
        let target = match form {
            _ if given.sizes() == sizes => given.clone(),
            Form::InPlace if rule.resizes_self => resize_output(given, sizes, None)?,
            Form::InPlace | Form::Overload => {
                let given = given.sizes();
                return Err(Error::runtime(match op.functional().body {
                    // Elementwise expressions.
                    Body::Explicit(_) => {
                        format!("output with shape {given:?} doesn't match the broadcast shape {sizes:?}")
                    }
                    _ => format!(
                        "Bad in-place call: input tensor size {given:?} and output tensor size {sizes:?} should match"
                    ),
                }));
            }
            Form::Out => {
                let ordered = match rule.row_major {
                    RowMajor::None => true,
                    RowMajor::Unfit => given.numel() == 0 && given.dtype() == dtype,
                    RowMajor::All => false,
                    RowMajor::If(condition) => !condition(&write),
                };
                resize_output(given, sizes, strides.filter(|_| ordered))?
            }
        };
        for &i in rule.apart.iter().filter(|_| out.len() < rule.apart_results) {
            check_apart(inputs.get(i), given, &target)?;
        }
        out.push(target);
    }
    Ok(out)
}

/// Which memory two tensors have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// None, or it is too hard to tell: one of them has gaps.
    None,
    /// Some.
    Partial,
    /// Each element of one is the same element of the other.
    Full,
}

/// Which memory two tensors have in common.
pub(crate) fn overlap(a: &Tensor, b: &Tensor) -> Overlap {
    if a.is_same(b) {
        return Overlap::Full;
    }
    let dense = a.is_non_overlapping_and_dense() && b.is_non_overlapping_and_dense();
    if !a.shares_storage_with(b) || a.numel() == 0 || b.numel() == 0 || !dense {
        return Overlap::None;
    }
    let range = |t: &Tensor| {
        let start = t.data_ptr() as usize;
        start..start.saturating_add((t.numel() as usize).saturating_mul(t.element_size()))
    };
    let (x, y) = (range(a), range(b));
    if x == y && a.strides() == b.strides() {
        return Overlap::Full;
    }
    if x.start < y.end && y.start < x.end { Overlap::Partial } else { Overlap::None }
}

/// That an operator would write where it reads.
#[cold]
pub(crate) fn overlaps() -> Error {
    Error::runtime(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single \
         memory location. Please clone() the tensor before performing the operation.",
    )
}

/// That an argument shares no memory with the tensor to write, which was `given` with other sizes perhaps.
fn check_apart(argument: Option<&Value<'_>>, given: &Tensor, target: &Tensor) -> Result<()> {
    let check = |x: &Tensor| match (x.is_same(given) && target.numel() > 0) || overlap(x, target) != Overlap::None {
        true => Err(overlaps()),
        false => Ok(()),
    };
    match argument {
        Some(Value::Tensor(x)) => check(x),
        Some(Value::Tensors(xs)) => xs.iter().try_for_each(check),
        _ => Ok(()),
    }
}

/// Whether a result of `dtype` may be written to `target`.
pub(crate) fn check_writable(target: &Tensor, dtype: crate::DType) -> Result<()> {
    crate::out::castable(dtype, target.dtype())?;
    check_distinct(target)
}

/// That no two elements of a tensor to write share memory.
pub(crate) fn check_distinct(target: &Tensor) -> Result<()> {
    if crate::dims::may_overlap(target.sizes(), target.strides()) {
        return Err(Error::runtime(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please \
             clone() the tensor before performing the operation.",
        ));
    }
    Ok(())
}

/// An `out=` tensor given new sizes: a new handle over the same storage, grown if need be.
pub(crate) fn resize_output(target: &Tensor, sizes: &[i64], strides: Option<&[i64]>) -> Result<Tensor> {
    let sizes = crate::Dims::from_slice(sizes);
    let strides = strides.map_or_else(|| crate::dims::contiguous_strides(&sizes), crate::Dims::from_slice);
    let extent = crate::dims::storage_extent(&sizes, &strides)?;
    let bytes = crate::tensor::nbytes(&[extent.saturating_add(target.storage_offset())], target.dtype())?;
    if bytes > target.storage().nbytes() {
        target.storage().resize(bytes)?;
    }
    Ok(Tensor::from_parts(target.storage().clone(), target.dtype(), sizes, strides, target.storage_offset()))
}

// ---- tracing ------------------------------------------------------------------------------------

thread_local! {
    static TRACE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static DEPTH: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Runs `f` and gives, beside its result, one line for every operator call that it made on this thread: the operator,
/// the keys it passed through, and the arguments' shapes; calls made by a call are indented.
pub fn trace<T>(f: impl FnOnce() -> T) -> (T, Vec<String>) {
    let outer = TRACE.take();
    let guard = KeyGuard::include(KeySet::of(Key::TRACE));
    let value = f();
    drop(guard);
    (value, TRACE.replace(outer))
}

fn trace_kernel(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let below = keys.below(Key::TRACE);
    if let Some(result) = crate::profiler::record(op, below, args) {
        return result;
    }
    let describe = |a: &Value<'_>| match a {
        Value::Tensor(t) => format!("{}{:?}", t.dtype(), t.sizes()),
        Value::Scalar(s) => s.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Ints(i) => format!("{i:?}"),
        Value::Bool(b) => b.to_string(),
        other => other.kind_name().to_string(),
    };
    let args_text: Vec<String> = args.iter().map(describe).collect();
    let keys_text: Vec<String> = below.iter().map(Key::name).collect();
    let line =
        format!("{}{}({}) [{}]", "  ".repeat(DEPTH.get()), op.full_name(), args_text.join(", "), keys_text.join(" > "));
    TRACE.with_borrow_mut(|t| t.push(line));
    DEPTH.set(DEPTH.get() + 1);
    let result = op.run_next(below, args);
    DEPTH.set(DEPTH.get() - 1);
    result
}
