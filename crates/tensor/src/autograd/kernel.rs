//! The one autograd kernel: every operator's call passes here when a tensor of it requires a gradient or carries a
//! tangent. It runs the layers below, then writes down what backward will need, as the operator's entry says.

use super::forward;
use super::node::{EdgeStarts, Expected, Kind, NewNode, Node};
use super::recipe::{Recipe, Source, plain};
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
    pub(crate) recipe: &'static Recipe,
    pub(crate) saved: &'a Saved,
    pub(crate) node: &'a Arc<Node>,
    pub(crate) edge_starts: &'a [u32],
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
        let i = self.recipe.slot(name).ok_or_else(|| {
            Error::runtime(format!("{}: no formula says that it reads '{name}'", self.op.full_name()))
        })?;
        let value = self.saved.values.get(i).unwrap_or(&SavedValue::Nothing);
        T::from_saved(SavedRef { value, node: self.node }).map_err(|e| match value {
            SavedValue::Nothing => e.context(format!("{}: '{name}' was not saved", self.op.full_name())),
            _ => e,
        })
    }

    /// Whether anybody wants the gradient of an argument.
    pub fn needs(&self, name: &str) -> bool {
        self.argument(name).is_some_and(|i| self.needs_argument(i))
    }

    /// Whether anybody wants the gradient of element `k` of a list argument.
    pub fn needs_element(&self, name: &str, k: usize) -> bool {
        self.argument(name).is_some_and(|i| {
            let slot = self.edge_starts[i] as usize + k;
            slot < self.edge_starts[i + 1] as usize && self.node.edges[slot].is_some()
        })
    }

    /// Whether anybody wants the gradient of the argument at a position.
    #[inline]
    pub(crate) fn needs_argument(&self, i: usize) -> bool {
        (self.edge_starts[i]..self.edge_starts[i + 1]).any(|e| self.node.edges[e as usize].is_some())
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

    fn argument(&self, name: &str) -> Option<usize> {
        self.op.functional().schema().position(plain(name))
    }
}

/// The kernel of the autograd and forward keys.
pub(crate) fn autograd_kernel(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let below = keys.below(Key::AUTOGRAD);
    if op.mutates() || op.is_composite() || keys.has(Key::FORWARD) || !keys.has(Key::AUTOGRAD) {
        return other_call(op, keys, below, args);
    }
    // Most calls: new results, and gradients only.
    let Some(recorder) = Recorder::before(op, args)? else { return below_autograd(op, below, args) };
    let mut outputs = below_autograd(op, below, args)?;
    separate_results(op, args, &mut outputs);
    recorder.after(op, args, &mut outputs)?;
    Ok(outputs)
}

/// A call that writes to its arguments, has tangents, or is made of other calls.
#[inline(never)]
fn other_call(op: &'static Op, keys: KeySet, below: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let reverse = keys.has(Key::AUTOGRAD);
    let mutates = op.mutates();
    if op.is_composite() {
        // One that gives the written tensor another shape is made of no other that writes.
        if reverse
            && mutates
            && op.mutated() & 1 == 1
            && let Some(Value::Tensor(t)) = args.first()
        {
            view::check_in_place(t)?;
        }
        return op.run_next(below, args);
    }
    if matches!(op.body, Body::Variant(Form::Out, _)) {
        if reverse && args.iter().any(|a| matches!(a, Value::Tensor(t) if t.requires_grad())) {
            return Err(not_for_out(op));
        }
        let result = below_autograd(op, below, args)?;
        op.bump_versions(args);
        return Ok(result);
    }
    if reverse
        && mutates
        && let Some(Value::Tensor(t)) = args.first()
    {
        view::check_in_place(t)?;
    }
    let recorder = if reverse { Recorder::before(op, args)? } else { None };
    let tangents = if keys.has(Key::FORWARD) { forward::tangents(op, args)? } else { None };
    let mut outputs = below_autograd(op, below, args)?;
    if mutates {
        op.bump_versions(args);
    }
    if let Some(recorder) = recorder {
        if !mutates {
            separate_results(op, args, &mut outputs);
        }
        recorder.after(op, args, &mut outputs)?;
    }
    if let Some(tangents) = tangents {
        forward::attach(op, args, &outputs, tangents)?;
    }
    Ok(outputs)
}

/// Makes results that are views of what the kernel made, and not of an argument, tensors of their own: an in-place write to
/// such a view would otherwise be recorded for its base, which nobody has and no gradient reaches.
#[inline]
fn separate_results(op: &'static Op, args: &[Value<'_>], outputs: &mut Outputs) {
    match outputs {
        Outputs::One(t) if t.is_view() => separate(op, args, t),
        Outputs::Many(all) => all.iter_mut().flatten().filter(|t| t.is_view()).for_each(|t| separate(op, args, t)),
        _ => {}
    }
}

#[inline(never)]
fn separate(op: &'static Op, args: &[Value<'_>], t: &mut Tensor) {
    if !op.is_view() && !args.iter().any(|a| shares_storage(a, t)) {
        *t = t.on_the_same_storage();
    }
}

fn shares_storage(argument: &Value<'_>, t: &Tensor) -> bool {
    let same = |a: &Tensor| a.storage().same(t.storage());
    match argument {
        Value::Tensor(a) => same(a),
        Value::Tensors(all) => all.iter().any(same),
        Value::OptionalTensors(all) => all.iter().flatten().any(same),
        _ => false,
    }
}

/// That what is written to `out=` has no history.
#[cold]
pub(crate) fn not_for_out(op: &'static Op) -> Error {
    Error::runtime(format!(
        "{}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires \
         grad.",
        op.functional().name()
    ))
}

fn below_autograd(op: &'static Op, below: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let _guard = KeyGuard::exclude(KeySet::of(Key::AUTOGRAD).with(KeySet::of(Key::FORWARD)));
    op.run_next(below, args)
}

/// A node in the making: what has to be known before the call, since the call may write to its arguments.
struct Recorder {
    node: NewNode,
    recipe: &'static Recipe,
    /// The slots to fill with results, one bit each.
    results: u64,
}

impl Recorder {
    /// `None` when no gradient can flow.
    #[inline]
    fn before(op: &'static Op, args: &[Value<'_>]) -> Result<Option<Recorder>> {
        // What writes to lists without results has no history to give.
        let silent = !op.mutates() || matches!(args.first(), Some(Value::Tensors(_)));
        if matches!(op.functional().derivative, Derivative::NonDifferentiable) && silent {
            return Ok(None);
        }
        let recipe = op.recipe()?;
        let mut node = NewNode::new(Kind::Op { op, edge_starts: EdgeStarts::new() });
        let wanted = match recipe.edge_starts {
            Some(_) => Self::add_edges(node.parts(), recipe, args),
            None => Self::add_edges_of_lists(node.parts(), recipe, op, args),
        };
        if wanted == 0 {
            return Ok(None);
        }
        let results = Self::save(node.parts(), recipe, op, args, wanted)?;
        Ok(Some(Recorder { node, recipe, results }))
    }

    /// Gives the node its edges, one for each of the recipe's inputs; returns the arguments to which gradients flow, one bit
    /// each.
    #[inline]
    fn add_edges(node: &mut Node, recipe: &Recipe, args: &[Value<'_>]) -> u64 {
        let inputs = &recipe.inputs[..];
        node.edges.reserve(inputs.len());
        let (edges, mut wanted) = (node.edges.as_mut_ptr(), 0);
        for (k, &i) in inputs.iter().enumerate() {
            let edge = match args.get(i) {
                Some(Value::Tensor(t)) => t.gradient_edge(),
                _ => None,
            };
            if let Some(edge) = &edge {
                wanted |= 1 << i;
                node.id = node.id.max(edge.node_id());
            }
            // SAFETY: a new node has none, and there is room for as many.
            unsafe { edges.add(k).write(edge) };
        }
        // SAFETY: as many are written.
        unsafe { node.edges.set_len(inputs.len()) };
        wanted
    }

    /// As [`Recorder::add_edges`] where lists have an edge for each of their tensors.
    #[inline(never)]
    fn add_edges_of_lists(node: &mut Node, recipe: &Recipe, op: &'static Op, args: &[Value<'_>]) -> u64 {
        let Node { kind: Kind::Op { edge_starts, .. }, edges, .. } = node else { return 0 };
        let mut wanted = 0;
        for i in 0..op.functional().schema().params.len() {
            let start = edges.len();
            edge_starts.push(start as u32);
            match args.get(i) {
                _ if !recipe.inputs.contains(&i) => {}
                Some(Value::Tensor(t)) => edges.push(t.gradient_edge()),
                Some(Value::Tensors(ts)) => edges.extend(ts.iter().map(Tensor::gradient_edge)),
                Some(Value::OptionalTensors(ts)) => {
                    edges.extend(ts.iter().map(|t| t.as_ref().and_then(Tensor::gradient_edge)));
                }
                _ if recipe.numbers >> i & 1 == 1 => edges.push(None),
                _ => {}
            }
            wanted |= u64::from(edges[start..].iter().any(Option::is_some)) << i;
        }
        edge_starts.push(edges.len() as u32);
        node.id = node.newest_edge();
        wanted
    }

    /// Saves what its formulas read of the arguments; returns the slots of results that they read.
    #[inline]
    fn save(node: &mut Node, recipe: &Recipe, op: &'static Op, args: &[Value<'_>], wanted: u64) -> Result<u64> {
        let saved = node.state.get_mut().saved.get_or_insert_default();
        let mut results = 0;
        for step in recipe.steps.iter().filter(|step| step.wants & wanted != 0) {
            for &(slot, kind) in &step.saves {
                match recipe.slots[usize::from(slot)] {
                    Source::Argument(i) => save_argument(saved.slot(slot.into()), op, args, i, kind)?,
                    Source::Result(_) => results |= 1 << slot,
                }
            }
        }
        Ok(results)
    }

    /// Completes the node with what it needs of the results, and hangs them on it.
    #[inline]
    fn after(mut self, op: &'static Op, args: &[Value<'_>], outputs: &mut Outputs) -> Result<()> {
        let count = outputs.len();
        let node = self.node.parts();
        match &*outputs {
            // (There is nothing in the empty list to drop.)
            Outputs::One(t) => {
                std::mem::forget(std::mem::replace(&mut node.expected, SmallVec::from_buf([Expected::of(t)])))
            }
            _ => node.expected.extend((0..count).map(|i| outputs.get(i).map_or_else(Expected::nothing, Expected::of))),
        }
        while self.results != 0 {
            let slot = self.results.trailing_zeros() as usize;
            self.results &= self.results - 1;
            let Source::Result(i) = self.recipe.slots[slot] else { continue };
            let saved = node.state.get_mut().saved.get_or_insert_default();
            let save = |k: usize| {
                let result =
                    outputs.get(k).map(|t| match k < op.differentiable_results && t.dtype().is_differentiable() {
                        true => SavedTensor::output(t, k as u32),
                        // It gets no history, which it would otherwise be given when it is unpacked.
                        false => SavedTensor::input(t),
                    });
                result.transpose()
            };
            *saved.slot(slot) = match self.recipe.list_result {
                true => SavedValue::Tensors((0..count).map(save).collect::<Result<_>>()?),
                false => save(i)?.map_or(SavedValue::Other(crate::value::OwnedValue::None), SavedValue::Tensor),
            };
        }
        let node = self.node.numbered();
        if op.mutates() {
            return match args.first() {
                Some(Value::Tensor(t)) => view::rebase_history(t, node, 0),
                _ => Ok(()),
            };
        }
        if let Outputs::One(t) = outputs {
            if t.dtype().is_differentiable() {
                t.set_first_history(node);
            }
            return Ok(());
        }
        for i in 0..count.min(op.differentiable_results) {
            if let Some(t) = outputs.get(i).filter(|t| t.dtype().is_differentiable()) {
                t.set_history(node.clone(), i as u32);
            }
        }
        Ok(())
    }
}

/// Keeps what a formula reads of an argument, unless another formula kept as much.
#[inline]
fn save_argument(place: &mut SavedValue, op: &'static Op, args: &[Value<'_>], i: usize, kind: SaveKind) -> Result<()> {
    let replace = match place {
        SavedValue::Nothing => true,
        SavedValue::Geometry(_) | SavedValue::Geometries(_) => kind == SaveKind::Data,
        _ => false,
    };
    if replace {
        *place = match args.get(i).unwrap_or(&Value::None) {
            // The call is about to overwrite it: keep it as it is now.
            Value::Tensor(t) if kind == SaveKind::Data && op.mutated() >> i & 1 == 1 => {
                SavedValue::input(&Value::Tensor(&t.clone_in(crate::MemoryFormat::Preserve)?), kind)?
            }
            value => SavedValue::input(value, kind)?,
        };
    }
    Ok(())
}
