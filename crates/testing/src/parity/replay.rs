//! Runs the cases of a file against a target.

use super::array::pseudo;
use super::call::{Arguments, call};
use super::compare::{
    Depth, check_close, check_outputs, entry, entry_array, expected_entries, read, significant_strides, tolerance,
};
use super::report::{CaseResult, Status};
use super::store::{Case, Expectation, OutMode, Sample, Section, Statistics, Step, Store};
use super::target::{Failure, Outcome, Target};
use super::value::{Recorded, Value};
use flambeau_base::{DType, ErrorKind};
use std::collections::HashMap;

/// Which cases are run.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only these sections; empty for all.
    pub sections: Vec<Section>,
    /// Only these dtypes; empty for all.
    pub dtypes: Vec<DType>,
    /// Only cases whose name contains this.
    pub name: String,
}

impl Selection {
    fn section(&self, section: Section) -> bool {
        self.sections.is_empty() || self.sections.contains(&section)
    }

    fn case(&self, case: &Case) -> bool {
        let strides = case.section == Section::Forward && case.via.is_none() && self.section(Section::Strides);
        (self.section(case.section) || strides)
            && (self.dtypes.is_empty() || case.dtype.is_some_and(|d| self.dtypes.contains(&d)))
            && case.id.contains(&self.name)
    }
}

/// Runs the selected cases of a file. A forward case without another spelling also gives a result for its strides.
pub fn replay<T: Target>(target: &T, store: &Store, selection: &Selection) -> Vec<CaseResult> {
    let mut results = Vec::new();
    for case in store.cases.iter().filter(|c| selection.case(c)) {
        let run = Run { target, store, case };
        // A panic costs the one case that caused it.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.all()));
        let (outcome, strides) = ended.unwrap_or_else(|cause| (wrong(format!("panicked: {}", said(&*cause))), None));
        let mut tell = |section: Section, outcome: Outcome<()>| {
            if selection.section(section) {
                let (status, message) = outcome.err().map_or((Status::Pass, String::new()), |f| f.report());
                let reproduce = if status == Status::Pass { String::new() } else { reproduce(store, case) };
                results.push(CaseResult { id: case.id.clone(), section, status, message, reproduce });
            }
        };
        if case.section == Section::Forward && case.via.is_none() {
            // When the call itself failed, its strides are as wrong as its values.
            tell(Section::Strides, strides.unwrap_or_else(|| outcome.clone()));
        }
        tell(case.section, outcome);
    }
    results
}

/// What a panic said.
fn said(cause: &(dyn std::any::Any + Send)) -> &str {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// The call as a user would write it, tensors as dtype and sizes.
fn reproduce(store: &Store, case: &Case) -> String {
    let show = |v: &Value<Recorded>| {
        let named = v.map(&mut |r: &Recorded| {
            Ok::<_, std::convert::Infallible>(Value::<Shown>::Tensor(Shown(match r {
                Recorded::Entry(i) => match store.entry(*i) {
                    Some(e) => format!(
                        "{}{:?}{}",
                        e.dtype,
                        e.sizes,
                        e.strides.as_ref().map_or(String::new(), |s| format!(" strides {s:?}"))
                    ),
                    None => "sparse".into(),
                },
                other => format!("{other:?}"),
            })))
        });
        match named {
            Ok(v) => format!("{v:?}"),
            Err(never) => match never {},
        }
    };
    let join = |args: &[Value<Recorded>], kwargs: &[(String, Value<Recorded>)]| {
        let by_name = kwargs.iter().map(|(n, v)| format!("{n}={}", show(v)));
        args.iter().map(show).chain(by_name).collect::<Vec<_>>().join(", ")
    };
    if let Expectation::Program { steps, .. } = &case.expect {
        let lines: Vec<String> = steps.iter().map(|s| format!("{}({})", s.call, join(&s.args, &s.kwargs))).collect();
        return lines.join("; ");
    }
    let call = case.via.as_deref().unwrap_or(&store.call);
    match case.sample.and_then(|i| store.samples.get(i)?.as_ref()) {
        Some(s) => format!("{call}({})", join(&s.args, &s.kwargs)),
        None => call.to_string(),
    }
}

struct Shown(String);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The inputs of one case: one tensor per entry, however often it is named.
struct Inputs<'a, T: Target> {
    target: &'a T,
    store: &'a Store,
    leaves: bool,
    built: HashMap<usize, T::Tensor>,
}

impl<T: Target> Inputs<'_, T> {
    fn tensor(&mut self, i: usize) -> Outcome<T::Tensor> {
        if let Some(t) = self.built.get(&i) {
            return Ok(t.clone());
        }
        let e = entry(self.store, i)?;
        let bytes = self.store.bytes(e);
        let mut t = match &e.strides {
            Some(strides) if !e.logical => {
                let base = self.target.tensor(e.dtype, &[e.count as i64], bytes)?;
                let mut args = [Value::Tensor(base), Value::ints(&e.sizes), Value::ints(strides), Value::int(e.offset)];
                tensor(self.target.call("as_strided", &mut args, &mut [])?)?
            }
            _ => self.target.tensor(e.dtype, &e.sizes, bytes)?,
        };
        if e.conj {
            t = tensor(self.target.call("conj", &mut [Value::Tensor(t)], &mut [])?)?;
        }
        if self.leaves && e.requires_grad {
            t = self.target.leaf(&t)?;
        }
        self.built.insert(i, t.clone());
        Ok(t)
    }

    fn value(&mut self, v: &Value<Recorded>, results: &[Value<T::Tensor>]) -> Outcome<Value<T::Tensor>> {
        let absent = || Failure::Unread("a step refers to a result that is not there".into());
        v.map(&mut |r| match r {
            Recorded::Entry(i) => Ok(Value::Tensor(self.tensor(*i)?)),
            Recorded::Result(k) => results.get(*k).cloned().ok_or_else(absent),
            Recorded::Item(k, i) => results.get(*k).and_then(|v| v.items()?.get(*i).cloned()).ok_or_else(absent),
            Recorded::Any => Err(absent()),
        })
    }

    fn arguments(
        &mut self,
        args: &[Value<Recorded>],
        kwargs: &[(String, Value<Recorded>)],
        results: &[Value<T::Tensor>],
    ) -> Outcome<Arguments<T::Tensor>> {
        Ok(Arguments {
            positional: args.iter().map(|a| self.value(a, results)).collect::<Outcome<_>>()?,
            keyword: kwargs.iter().map(|(n, a)| Ok((n.clone(), self.value(a, results)?))).collect::<Outcome<_>>()?,
        })
    }
}

/// The one tensor of a result.
fn tensor<T>(v: Value<T>) -> Outcome<T> {
    match v {
        Value::Tensor(t) => Ok(t),
        v => Err(Failure::Wrong(format!("got {}, expected a tensor", v.type_name()))),
    }
}

fn wrong<T>(message: impl Into<String>) -> Outcome<T> {
    Err(Failure::Wrong(message.into()))
}

/// Relative and absolute tolerance of derivatives, the second relative to the largest entry.
fn derivative_tolerance(case: &Case) -> (f64, f64) {
    let (r, a): (f64, f64) = if case.section == Section::GradGrad { (1e-5, 1e-6) } else { (1e-6, 1e-7) };
    let wider = case.gradient_tolerance.unwrap_or(0.0);
    (r.max(wider), a.max(wider))
}

struct Run<'a, T: Target> {
    target: &'a T,
    store: &'a Store,
    case: &'a Case,
}

impl<T: Target> Run<'_, T> {
    /// How the case went, and its strides if it got so far.
    fn all(&self) -> (Outcome<()>, Option<Outcome<()>>) {
        let mut strides = None;
        let outcome = self.run(&mut strides);
        (outcome, strides)
    }

    fn run(&self, strides: &mut Option<Outcome<()>>) -> Outcome<()> {
        if let Some(what) = &self.case.wrapped {
            return Err(Failure::Unread(format!("a derivative of a function of the results: {what}")));
        }
        match &self.case.expect {
            Expectation::Unreadable(what) => Err(Failure::Unread(what.clone())),
            Expectation::Outputs(expected) => self.forward(expected, strides),
            Expectation::Out(mode, expected) => self.out(*mode, expected),
            Expectation::InPlace { returns_self, outputs } => self.in_place(*returns_self, outputs),
            Expectation::Gradients { outputs, inputs, expected, keep, in_place } => {
                self.gradients(outputs, inputs, expected, keep, *in_place)
            }
            Expectation::Tangents { inputs, expected } => self.tangents(inputs, expected),
            Expectation::Error { types, regex } => self.error(types, regex),
            Expectation::Program { steps, checks, statistics } => self.program(steps, checks, statistics),
        }
    }

    fn spec(&self) -> &str {
        self.case.via.as_deref().unwrap_or(&self.store.call)
    }

    fn sample(&self) -> Outcome<&Sample> {
        let unread = || Failure::Unread("arguments that this reader has no form for".into());
        self.case.sample.and_then(|i| self.store.samples.get(i)?.as_ref()).ok_or_else(unread)
    }

    fn inputs(&self, leaves: bool) -> Inputs<'_, T> {
        Inputs { target: self.target, store: self.store, leaves, built: HashMap::new() }
    }

    fn seed(&self, sample: &Sample) -> Outcome<()> {
        if let Some(seed) = sample.seed {
            self.target.call("manual_seed", &mut [Value::int(seed)], &mut [])?;
        }
        Ok(())
    }

    fn forward(&self, expected: &Value<Recorded>, strides: &mut Option<Outcome<()>>) -> Outcome<()> {
        let (target, store, case) = (self.target, self.store, self.case);
        let sample = self.sample()?;
        let mut inputs = self.inputs(false);
        let mut args = inputs.arguments(&sample.args, &sample.kwargs, &[])?;
        self.seed(sample)?;
        let actual = call(target, self.spec(), &mut args)?;
        let check = |depth| check_outputs(target, store, case, expected, &actual, sample.dtype, depth);
        *strides = Some(check(Depth::Strides).and_then(|()| self.check_views(&inputs, &actual)));
        check(if case.meta_only { Depth::Meta } else { Depth::Values })?;
        for (input, changed) in &case.mutated {
            let e = entry(store, *changed)?;
            let t = inputs.tensor(*input)?;
            let expected = store.array(e)?;
            check_close(
                &expected,
                &read(target, &t)?,
                tolerance(case, None, e.dtype, None),
                "input changed in place: ",
            )?;
        }
        Ok(())
    }

    /// Outputs that are views begin where it was recorded.
    fn check_views(&self, inputs: &Inputs<'_, T>, actual: &Value<T::Tensor>) -> Outcome<()> {
        let tensors = actual.tensors();
        for (k, input, distance) in &self.case.alias {
            let (Some(output), Some(input)) = (tensors.get(*k), inputs.built.get(input)) else {
                return wrong(format!("output {k} is not there"));
            };
            let (to, from) = (self.target.describe(output).data_ptr, self.target.describe(input).data_ptr);
            let got = to as i64 - from as i64;
            if got != *distance {
                return wrong(format!(
                    "output {k} is not the recorded view of its input (byte offset {got}, expected {distance})"
                ));
            }
        }
        Ok(())
    }

    fn in_place(&self, returns_self: bool, expected: &Value<Recorded>) -> Outcome<()> {
        let (target, store, case) = (self.target, self.store, self.case);
        let sample = self.sample()?;
        let mut args = self.inputs(false).arguments(&sample.args, &sample.kwargs, &[])?;
        self.seed(sample)?;
        let actual = call(target, self.spec(), &mut args)?;
        let first = args.positional.swap_remove(0);
        if let (true, Value::Tensor(x)) = (returns_self, &first) {
            let Value::Tensor(y) = &actual else { return wrong("does not return its first argument") };
            if target.describe(x).data_ptr != target.describe(y).data_ptr {
                return wrong("does not return its first argument");
            }
        }
        check_outputs(target, store, case, expected, &actual, sample.dtype, Depth::Values)?;
        let written = if actual.items().is_some() { &actual } else { &first };
        check_outputs(target, store, case, expected, written, sample.dtype, Depth::Values)
    }

    fn out(&self, mode: OutMode, expected: &Value<Recorded>) -> Outcome<()> {
        let (target, store, case) = (self.target, self.store, self.case);
        let sample = self.sample()?;
        let mut args = self.inputs(false).arguments(&sample.args, &sample.kwargs, &[])?;
        let mut outs = Vec::new();
        let ids = expected_entries(expected);
        for i in &ids {
            let e = entry(store, *i)?;
            // What is there before must not show through: 77, or true.
            let fill = |n: usize| fill_with_77(e.dtype, n);
            outs.push(match mode {
                OutMode::Resize => target.tensor(e.dtype, &[0], &[])?,
                OutMode::Strided if e.sizes.len() >= 2 => {
                    let base = target.tensor(e.dtype, &[e.numel() as i64], &fill(e.numel()))?;
                    let strides = transposed_strides(&e.sizes);
                    let mut args = [Value::Tensor(base), Value::ints(&e.sizes), Value::ints(&strides), Value::int(0)];
                    tensor(target.call("as_strided", &mut args, &mut [])?)?
                }
                _ => target.tensor(e.dtype, &e.sizes, &fill(e.numel()))?,
            });
        }
        let before: Vec<usize> = outs.iter().map(|o| target.describe(o).data_ptr).collect();
        let single = matches!(expected, Value::Tensor(_));
        args.keyword.push((
            "out".into(),
            match single {
                true => Value::Tensor(outs[0].clone()),
                false => Value::Tuple(outs.into_iter().map(Value::Tensor).collect()),
            },
        ));
        self.seed(sample)?;
        let actual = call(target, self.spec(), &mut args)?;
        let Some((_, out)) = args.keyword.pop() else { return wrong("the out= argument is gone") };
        let (returned, outs) = (actual.tensors(), out.tensors());
        if returned.len() != outs.len() {
            return wrong(format!("returns {} tensors, expected {}", returned.len(), outs.len()));
        }
        let pointer = |t: &T::Tensor| target.describe(t).data_ptr;
        if returned.iter().zip(&outs).any(|(r, o)| pointer(r) != pointer(o)) {
            return wrong("the result is not the out= tensor");
        }
        check_outputs(target, store, case, expected, &out, sample.dtype, Depth::Values)?;
        if mode == OutMode::Resize {
            return Ok(());
        }
        for ((o, p), i) in outs.iter().zip(before).zip(&ids) {
            let e = entry(store, *i)?;
            if e.sizes.contains(&0) {
                continue;
            }
            let d = target.describe(o);
            if d.data_ptr != p {
                return wrong("the out= tensor was reallocated although its sizes were right");
            }
            let wanted = transposed_strides(&e.sizes);
            if mode == OutMode::Strided
                && e.sizes.len() >= 2
                && significant_strides(&e.sizes, &d.strides) != significant_strides(&e.sizes, &wanted)
            {
                return wrong("the strides of the out= tensor changed");
            }
        }
        Ok(())
    }

    /// The call's outputs, and the leaves.
    fn outputs_for_gradient(&self, in_place: bool) -> Outcome<(Inputs<'_, T>, Vec<T::Tensor>)> {
        let sample = self.sample()?;
        let mut inputs = self.inputs(true);
        let mut args = inputs.arguments(&sample.args, &sample.kwargs, &[])?;
        self.seed(sample)?;
        if in_place && let Some(first) = args.positional.first_mut() {
            *first = self.target.call("clone", std::slice::from_mut(&mut first.clone()), &mut [])?;
        }
        let out = call(self.target, self.spec(), &mut args)?;
        Ok((inputs, out.tensors().into_iter().cloned().collect()))
    }

    fn cotangent(&self, like: &T::Tensor, seed: usize) -> Outcome<T::Tensor> {
        let d = self.target.describe(like);
        let numel = d.sizes.iter().product::<i64>() as usize;
        self.target.tensor(d.dtype, &d.sizes, &pseudo(numel, d.dtype, seed as u64))
    }

    fn gradients(
        &self,
        which: &[usize],
        wanted: &[usize],
        expected: &[Option<usize>],
        keep: &[usize],
        in_place: bool,
    ) -> Outcome<()> {
        let target = self.target;
        let (mut inputs, outputs) = self.outputs_for_gradient(in_place)?;
        let mut chosen = Vec::new();
        for k in which {
            let Some(t) = outputs.get(*k) else {
                return wrong(format!("got {} output tensors, expected at least {}", outputs.len(), k + 1));
            };
            if !target.describe(t).requires_grad {
                return wrong(format!("output {k} does not require grad"));
            }
            chosen.push(t.clone());
        }
        let mut leaves = wanted.iter().map(|i| inputs.tensor(*i)).collect::<Outcome<Vec<_>>>()?;
        let mut cotangents =
            chosen.iter().enumerate().map(|(k, t)| self.cotangent(t, 10 + k)).collect::<Outcome<Vec<_>>>()?;
        let second = self.case.section == Section::GradGrad;
        if second {
            cotangents = cotangents.iter().map(|c| target.leaf(c)).collect::<Outcome<Vec<_>>>()?;
        }
        let gradients = target.gradients(&chosen, &leaves, &cotangents, second)?;
        let mut names: Vec<String> = wanted.iter().map(|i| format!("input {i}")).collect();
        if !second {
            return self.check_derivatives(expected, &gradients, &names);
        }
        let mut first = Vec::new();
        for k in keep {
            match gradients.get(*k) {
                Some(Some(g)) if target.describe(g).requires_grad => first.push(g.clone()),
                _ => return wrong(format!("first-order gradient {k} is not differentiable")),
            }
        }
        let weights = first.iter().enumerate().map(|(k, t)| self.cotangent(t, 50 + k)).collect::<Outcome<Vec<_>>>()?;
        names = wanted.iter().map(|i| format!("input {i} (2nd)")).collect();
        names.extend((0..cotangents.len()).map(|k| format!("cotangent {k}")));
        leaves.extend(cotangents);
        let gradients = target.gradients(&first, &leaves, &weights, false)?;
        self.check_derivatives(expected, &gradients, &names)
    }

    fn tangents(&self, wanted: &[usize], expected: &[Option<usize>]) -> Outcome<()> {
        let mut outcome = Ok(());
        self.target.forward_level(&mut || outcome = self.tangents_in_level(wanted, expected));
        outcome
    }

    fn tangents_in_level(&self, wanted: &[usize], expected: &[Option<usize>]) -> Outcome<()> {
        let target = self.target;
        let sample = self.sample()?;
        let mut inputs = self.inputs(false);
        for (k, i) in wanted.iter().enumerate() {
            let primal = inputs.tensor(*i)?;
            let dual = target.dual(&primal, &self.cotangent(&primal, 30 + k)?)?;
            inputs.built.insert(*i, dual);
        }
        let mut args = inputs.arguments(&sample.args, &sample.kwargs, &[])?;
        self.seed(sample)?;
        let out = call(target, self.spec(), &mut args)?;
        let outputs = out.tensors();
        if outputs.len() != expected.len() {
            return wrong(format!("got {} output tensors, expected {}", outputs.len(), expected.len()));
        }
        let tangents = outputs
            .iter()
            .map(|t| match target.describe(t).dtype.is_differentiable() {
                true => target.tangent(t),
                false => Ok(None),
            })
            .collect::<Outcome<Vec<_>>>()?;
        let names: Vec<String> = (0..tangents.len()).map(|k| format!("(tangent of output {k})")).collect();
        self.check_derivatives(expected, &tangents, &names)
    }

    fn check_derivatives(
        &self,
        expected: &[Option<usize>],
        actual: &[Option<T::Tensor>],
        names: &[String],
    ) -> Outcome<()> {
        let (target, store) = (self.target, self.store);
        let (rtol, arel) = derivative_tolerance(self.case);
        for ((e, g), name) in expected.iter().zip(actual).zip(names) {
            let what = format!("grad of {name}: ");
            match (e, g) {
                (None, None) => {}
                (None, Some(g)) => {
                    if read(target, g)?.numbers.magnitudes().iter().any(|x| *x != 0.0) {
                        return wrong(what + "expected none, got a non-zero one");
                    }
                }
                (Some(e), None) => {
                    if entry_array(store, *e)?.numbers.magnitudes().iter().any(|x| *x != 0.0) {
                        return wrong(what + "none, expected one");
                    }
                }
                (Some(e), Some(g)) => {
                    let (e, d) = (entry(store, *e)?, target.describe(g));
                    if d.dtype != e.dtype {
                        return wrong(format!("{what}dtype {}, expected {}", d.dtype, e.dtype));
                    }
                    let expected = store.array(e)?;
                    let finite = expected.numbers.magnitudes().into_iter().filter(|x| x.is_finite());
                    let scale = finite.fold(1.0, f64::max);
                    check_close(&expected, &read(target, g)?, (rtol, arel * scale), &what)?;
                }
            }
        }
        Ok(())
    }

    fn error(&self, types: &[String], regex: &str) -> Outcome<()> {
        let sample = self.sample()?;
        let mut args = self.inputs(false).arguments(&sample.args, &sample.kwargs, &[])?;
        self.seed(sample)?;
        let e = match call(self.target, self.spec(), &mut args) {
            Ok(_) => return wrong(format!("did not raise {} ({regex:?})", types.join("/"))),
            Err(Failure::Raised(e)) => e,
            Err(other) => return Err(other),
        };
        if !types.iter().any(|t| is_instance(e.kind(), t)) {
            return wrong(format!("raised {e:?}, expected {}", types.join("/")));
        }
        let pattern = regex_lite::Regex::new(regex).map_err(|e| Failure::Unread(format!("pattern {regex:?}: {e}")))?;
        if !pattern.is_match(e.message()) {
            return wrong(format!("raised {e:?}, which does not match {regex:?}"));
        }
        Ok(())
    }

    fn program(&self, steps: &[Step], checks: &[(usize, Value<Recorded>)], statistics: &[Statistics]) -> Outcome<()> {
        let (target, store, case) = (self.target, self.store, self.case);
        let mut inputs = self.inputs(false);
        let mut results: Vec<Value<T::Tensor>> = Vec::new();
        for step in steps {
            let mut args = inputs.arguments(&step.args, &step.kwargs, &results)?;
            results.push(call(target, &step.call, &mut args)?);
        }
        let result =
            |i: usize| results.get(i).ok_or_else(|| Failure::Unread("a check of a step that is not there".into()));
        for (i, expected) in checks {
            check_outputs(target, store, case, expected, result(*i)?, case.dtype, Depth::Values)?;
        }
        for s in statistics {
            let Value::Tensor(t) = result(s.step)? else { return wrong("expected a tensor") };
            let values = read(target, t)?.numbers.reals().unwrap_or_default();
            check_statistics(&values, s)?;
        }
        Ok(())
    }
}

/// Mean and deviation within six standard errors, range as given.
fn check_statistics(values: &[f64], s: &Statistics) -> Outcome<()> {
    let n = values.len() as f64;
    if values.len() != s.count {
        return wrong(format!("got {} values, expected {}", values.len(), s.count));
    }
    if let Some(x) = values.iter().find(|x| s.min.is_some_and(|m| **x < m) || s.max.is_some_and(|m| **x > m)) {
        return wrong(format!("value {x} outside the range"));
    }
    let mean = values.iter().sum::<f64>() / n;
    let error = 6.0 * s.std / n.sqrt();
    if (mean - s.mean).abs() > error + 1e-12 {
        return wrong(format!("mean {mean}, expected {} +- {error}", s.mean));
    }
    if let Some(kurtosis) = s.kurtosis {
        let std = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let error = 6.0 * s.std * ((kurtosis - 1.0).max(0.01) / 4.0 / n).sqrt();
        if (std - s.std).abs() > error + 1e-12 {
            return wrong(format!("standard deviation {std}, expected {} +- {error}", s.std));
        }
    }
    Ok(())
}

/// Whether Python's exception for an error of this kind is one of type `name`.
fn is_instance(kind: ErrorKind, name: &str) -> bool {
    match name {
        "Exception" => true,
        "RuntimeError" => {
            matches!(kind, ErrorKind::Runtime | ErrorKind::NotImplemented | ErrorKind::OutOfMemory | ErrorKind::Io)
        }
        "NotImplementedError" => kind == ErrorKind::NotImplemented,
        "IndexError" => kind == ErrorKind::Index,
        // A method called on what has no such method is a wrong type where methods are functions.
        "TypeError" | "AttributeError" => kind == ErrorKind::Type,
        "ValueError" => kind == ErrorKind::Value,
        _ => false,
    }
}

/// Strides of the reversed sizes' row-major order.
fn transposed_strides(sizes: &[i64]) -> Vec<i64> {
    let mut next = 1;
    let advance = |n: &i64| {
        let stride = next;
        next *= n;
        stride
    };
    sizes.iter().map(advance).collect()
}

/// Little-endian elements of value 77; booleans are true.
fn fill_with_77(dtype: DType, n: usize) -> Vec<u8> {
    use flambeau_base::{bf16, f16};
    let one: Vec<u8> = match dtype {
        DType::Bool => vec![1],
        DType::F16 => f16::from_f64(77.0).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(77.0).to_le_bytes().to_vec(),
        DType::F32 => 77f32.to_le_bytes().to_vec(),
        DType::F64 => 77f64.to_le_bytes().to_vec(),
        DType::Complex64 => [77f32.to_le_bytes(), 0f32.to_le_bytes()].concat(),
        DType::Complex128 => [77f64.to_le_bytes(), 0f64.to_le_bytes()].concat(),
        integer => 77i64.to_le_bytes()[..integer.size()].to_vec(),
    };
    one.repeat(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_reject_what_is_off() {
        let s = |mean| Statistics { step: 0, count: 4, mean, std: 1.0, kurtosis: None, min: Some(0.0), max: None };
        assert!(check_statistics(&[0.0, 1.0, 2.0, 3.0], &s(1.5)).is_ok());
        assert!(check_statistics(&[0.0, 1.0, 2.0, 3.0], &s(9.0)).is_err());
        assert!(check_statistics(&[0.0, 1.0, 2.0], &s(1.0)).is_err());
        assert!(check_statistics(&[-1.0, 1.0, 2.0, 3.0], &s(1.5)).is_err());
    }

    #[test]
    fn exceptions() {
        assert!(is_instance(ErrorKind::NotImplemented, "RuntimeError"));
        assert!(!is_instance(ErrorKind::Value, "RuntimeError"));
        assert!(is_instance(ErrorKind::Value, "Exception"));
    }
}
