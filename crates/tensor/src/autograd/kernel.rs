//! The one autograd kernel: every operator's call passes here when a tensor of it requires a gradient or carries a
//! tangent. It runs the layers below, then writes down what backward will need, as the operator's entry says.

use super::forward;
use super::node::{Edge, Expected, Kind, Node};
use super::saved::{FromSaved, SaveKind, Saved, SavedRef, SavedTensor, SavedValue};
use super::view;
use super::{Derivative, Grads};
use crate::keys::{Key, KeyGuard, KeySet};
use crate::op::{Body, Form, Op};
use crate::value::{Outputs, Value};
use crate::{Error, Result, Tensor};
use smallvec::SmallVec;
use std::sync::Arc;

/// What a derivative formula sees: the gradients of the results, and what was saved of the call.
pub struct GradContext<'a> {
    pub(crate) op: &'static Op,
    pub(crate) grads: &'a Grads,
    pub(crate) saved: &'a Saved,
    pub(crate) node: &'a Arc<Node>,
    pub(crate) edge_starts: &'a [u16],
}

impl GradContext<'_> {
    /// The gradient of result `i`, if anything depends on it.
    pub fn grad(&self, i: usize) -> Option<&Tensor> {
        self.grads.get(i)?.as_ref()
    }

    /// The gradient of result `i`, zeros if nothing depends on it.
    ///
    /// # Errors
    /// When zeros cannot be allocated.
    pub fn grad_or_zeros(&self, i: usize) -> Result<Tensor> {
        match self.grad(i) {
            Some(g) => Ok(g.clone()),
            None => {
                let e = &self.node.expected[i];
                Tensor::zeros(&e.sizes, (e.dtype, e.device))
            }
        }
    }

    /// The gradient of the first result.
    ///
    /// # Errors
    /// When zeros cannot be allocated.
    pub fn gradient(&self) -> Result<Tensor> {
        self.grad_or_zeros(0)
    }

    /// A saved argument or result by name.
    ///
    /// # Errors
    /// When it was modified in place since, or the formula asks for the wrong type.
    pub fn get<T: FromSaved>(&self, name: &str) -> Result<T> {
        let i = saved_index(self.op, name)
            .ok_or_else(|| Error::runtime(format!("{} has no argument or result '{name}'", self.op.full_name())))?;
        let value = self.saved.values.get(i).unwrap_or(&SavedValue::Nothing);
        T::from_saved(SavedRef { value, node: self.node }).map_err(|e| match value {
            SavedValue::Nothing => e.context(format!("{}: '{name}' was not saved", self.op.full_name())),
            _ => e,
        })
    }

    /// Whether anybody wants the gradient of an argument.
    pub fn needs(&self, name: &str) -> bool {
        let Some(i) = self.argument(name) else { return false };
        (self.edge_starts[i]..self.edge_starts[i + 1]).any(|e| self.node.edges[e as usize].is_some())
    }

    /// Whether anybody wants the gradient of element `k` of a list argument.
    pub fn needs_element(&self, name: &str, k: usize) -> bool {
        self.argument(name).is_some_and(|i| {
            let slot = self.edge_starts[i] as usize + k;
            slot < self.edge_starts[i + 1] as usize && self.node.edges[slot].is_some()
        })
    }

    /// The gradients of `inputs` for a formula whose operator is itself a gradient: `expression` writes its results out
    /// with recorded operators, and is differentiated. An input that is not there has no gradient.
    ///
    /// # Errors
    /// Those of the expression and of its derivative.
    pub fn differentiate(
        &self,
        inputs: &[Option<&Tensor>],
        expression: impl FnOnce(&[Option<Tensor>]) -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Option<Tensor>>> {
        let _mode = super::enable_grad();
        let leaf = |t: &Tensor| if t.requires_grad() { t.view_as(t) } else { t.detach_all()?.requires_grad_(true) };
        let leaves = inputs.iter().map(|t| t.map(leaf).transpose()).collect::<Result<Vec<_>>>()?;
        let (mut results, mut seeds) = (Vec::new(), Vec::new());
        for (i, result) in expression(&leaves)?.into_iter().enumerate() {
            if let Some(seed) = self.grad(i) {
                results.push(result);
                seeds.push(Some(seed.clone()));
            }
        }
        let present: Vec<Tensor> = leaves.iter().flatten().cloned().collect();
        let mut found = super::grad(&results, &present, &seeds, true, true, true)?.into_iter();
        Ok(leaves.iter().map(|leaf| leaf.as_ref().and_then(|_| found.next().flatten())).collect())
    }

    pub(crate) fn argument(&self, name: &str) -> Option<usize> {
        let i = self.op.functional().schema().position(plain(name))?;
        (i + 1 < self.edge_starts.len()).then_some(i)
    }
}

fn plain(name: &str) -> &str {
    name.strip_suffix('_').unwrap_or(name)
}

/// The place of an argument (or, after them, a result) among the saved values.
pub(crate) fn saved_index(op: &'static Op, name: &str) -> Option<usize> {
    let name = plain(name);
    let schema = op.functional().schema();
    if let Some(i) = schema.position(name) {
        return Some(i);
    }
    let n = schema.params.len();
    if let Some(number) = name.strip_prefix("result") {
        return Some(n + if number.is_empty() { 0 } else { number.parse::<usize>().ok()? });
    }
    schema.returns.iter().position(|r| r.name.as_deref() == Some(name)).map(|i| n + i)
}

/// The kernel of the autograd and forward keys.
pub(crate) fn autograd_kernel(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let below = keys.below(Key::AUTOGRAD);
    if op.is_composite() {
        return op.redispatch(below, args);
    }
    let reverse = keys.has(Key::AUTOGRAD);
    let mutates = op.mutates();
    if matches!(op.body, Body::Variant(Form::Out, _)) {
        if reverse && args.iter().any(|a| matches!(a, Value::Tensor(t) if t.requires_grad())) {
            return Err(Error::runtime(format!(
                "{}(): functions with out=... arguments don't support automatic differentiation, but one of the \
                 arguments requires grad.",
                op.functional().name()
            )));
        }
        let result = below_autograd(op, below, args)?;
        op.bump_versions(args);
        return Ok(result);
    }
    if reverse
        && mutates
        && let Some(Value::Tensor(t)) = args.first()
    {
        view::check_in_place(t, op)?;
    }
    let recorder = if reverse { Recorder::before(op, args)? } else { None };
    let tangents = if keys.has(Key::FORWARD) { forward::tangents(op, args)? } else { None };
    let outputs = below_autograd(op, below, args)?;
    if mutates {
        op.bump_versions(args);
    }
    if let Some(recorder) = recorder {
        recorder.after(op, args, &outputs)?;
    }
    if let Some(tangents) = tangents {
        forward::attach(op, args, &outputs, tangents)?;
    }
    Ok(outputs)
}

fn below_autograd(op: &'static Op, below: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let _guard = KeyGuard::exclude(KeySet::of(Key::AUTOGRAD).with(KeySet::of(Key::FORWARD)));
    op.redispatch(below, args)
}

/// A node in the making: what has to be known before the call, since the call may write to its arguments.
struct Recorder {
    edges: SmallVec<[Option<Edge>; 3]>,
    edge_starts: SmallVec<[u16; 8]>,
    saved: Saved,
    /// Results to save, one bit each.
    save_results: u64,
}

impl Recorder {
    /// `None` when no gradient can flow.
    #[inline]
    fn before(op: &'static Op, args: &[Value<'_>]) -> Result<Option<Recorder>> {
        let derivative = op.functional().derivative;
        if matches!(derivative, Derivative::NonDifferentiable) && !op.mutates() {
            return Ok(None);
        }
        let mut edges: SmallVec<[Option<Edge>; 3]> = SmallVec::new();
        let mut edge_starts: SmallVec<[u16; 8]> = SmallVec::new();
        for a in args {
            edge_starts.push(edges.len() as u16);
            match a {
                Value::Tensor(t) => edges.push(t.gradient_edge()),
                Value::Tensors(ts) => edges.extend(ts.iter().map(Tensor::gradient_edge)),
                Value::OptionalTensors(ts) => {
                    edges.extend(ts.iter().map(|t| t.as_ref().and_then(Tensor::gradient_edge)));
                }
                _ => {}
            }
        }
        edge_starts.push(edges.len() as u16);
        if edges.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut saved = Saved::default();
        let mut save_results = 0;
        if let Derivative::Formulas(formulas) = derivative {
            let params = op.functional().schema().params.len();
            for formula in formulas {
                let wanted = formula.inputs.iter().any(|name| {
                    op.functional().schema().position(plain(name)).is_some_and(|i| {
                        i + 1 < edge_starts.len()
                            && (edge_starts[i]..edge_starts[i + 1]).any(|e| edges[e as usize].is_some())
                    })
                });
                if !wanted {
                    continue;
                }
                for (name, kind) in formula.saves {
                    let Some(i) = saved_index(op, name) else {
                        return Err(Error::runtime(format!("{}: no argument or result '{name}'", op.full_name())));
                    };
                    if i >= params {
                        save_results |= 1 << (i - params);
                        continue;
                    }
                    if saved.values.len() <= i {
                        saved.values.resize(i + 1, SavedValue::Nothing);
                    }
                    let replace = matches!(
                        (&saved.values[i], kind),
                        (SavedValue::Nothing, _)
                            | (SavedValue::Geometry(_) | SavedValue::Geometries(_), SaveKind::Data)
                    );
                    if replace {
                        let value = args.get(i).unwrap_or(&Value::None);
                        saved.values[i] = match value {
                            // The call is about to overwrite it: keep it as it is now.
                            Value::Tensor(t) if *kind == SaveKind::Data && op.mutated() >> i & 1 == 1 => {
                                SavedValue::input(&Value::Tensor(&t.clone_in(crate::MemoryFormat::Preserve)?), *kind)
                            }
                            value => SavedValue::input(value, *kind),
                        };
                    }
                }
            }
        }
        Ok(Some(Recorder { edges, edge_starts, saved, save_results }))
    }

    /// Makes the node and hangs the results on it.
    #[inline]
    fn after(mut self, op: &'static Op, args: &[Value<'_>], outputs: &Outputs) -> Result<()> {
        let count = outputs.len();
        let mut expected: SmallVec<[Expected; 1]> = SmallVec::new();
        for i in 0..count {
            expected.push(match outputs.get(i) {
                Some(t) => Expected::of(t),
                None => Expected { sizes: Default::default(), dtype: crate::DType::F32, device: crate::Device::CPU },
            });
        }
        let mut results = self.save_results;
        if results != 0 {
            let params = op.functional().schema().params.len();
            let whole_list = op.functional().schema().returns.first().is_some_and(|r| r.ty.list.is_some());
            while results != 0 {
                let i = results.trailing_zeros() as usize;
                results &= results - 1;
                if self.saved.values.len() <= params + i {
                    self.saved.values.resize(params + i + 1, SavedValue::Nothing);
                }
                self.saved.values[params + i] = if whole_list {
                    let list = (0..count).map(|k| outputs.get(k).map(|t| SavedTensor::output(t, k as u32)));
                    SavedValue::Tensors(list.collect())
                } else {
                    match outputs.get(i) {
                        Some(t) => SavedValue::Tensor(SavedTensor::output(t, i as u32)),
                        None => SavedValue::Other(crate::value::OwnedValue::None),
                    }
                };
            }
        }
        let kind = Kind::Op { op, edge_starts: self.edge_starts };
        let node = Arc::new(Node::new(kind, self.edges, expected, self.saved));
        if op.mutates() {
            return match args.first() {
                Some(Value::Tensor(t)) => view::rebase_history(t, node),
                _ => Ok(()),
            };
        }
        let several_views = count > 1 && op.is_view();
        for i in 0..count {
            if let Some(t) = outputs.get(i)
                && t.dtype().is_differentiable()
            {
                t.set_history(node.clone(), i as u32);
                debug_assert!(!several_views || t.0.view_kind != crate::tensor::ViewKind::NoGrad);
            }
        }
        Ok(())
    }
}
