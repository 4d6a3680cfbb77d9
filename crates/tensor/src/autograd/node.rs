//! Nodes of the backward graph.

use super::saved::Saved;
use super::{Derivative, GradContext, Grads};
use crate::op::Op;
use crate::tensor::TensorImpl;
use crate::{DType, Device, Dims, Error, Result, Tensor};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A function called with a gradient; what it returns replaces it.
pub type Hook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;
/// A function called with a node's incoming gradients before it runs; what it returns replaces them.
pub type PreHook = Arc<dyn Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;
/// A function called with the gradients a node computed and those it was given; what it returns replaces the former.
pub type PostHook =
    Arc<dyn Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;

/// Where a gradient goes: a node, and which of the results of the operator it stands for.
#[derive(Clone)]
pub struct Edge {
    /// The node.
    pub node: Arc<Node>,
    /// The number of the result.
    pub input: u32,
}

/// What a gradient must look like to enter a node.
#[derive(Clone)]
pub(crate) struct Expected {
    pub sizes: Dims,
    pub dtype: DType,
    pub device: Device,
}

impl Expected {
    #[inline]
    pub fn of(t: &Tensor) -> Expected {
        Expected { sizes: t.0.sizes.clone(), dtype: t.dtype(), device: t.device() }
    }
}

/// A node: an operator call seen from behind. It takes the gradients of the call's results and gives those of its
/// tensor arguments.
pub struct Node {
    /// Ids grow, so a node's id is above those of all nodes its edges lead to; leaves' are below all others'.
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    /// One per differentiable tensor argument, lists spread out.
    pub(crate) edges: SmallVec<[Option<Edge>; 3]>,
    /// One per result.
    pub(crate) expected: SmallVec<[Expected; 1]>,
    pub(crate) state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub saved: Option<Saved>,
    pub extra: Option<Box<Extra>>,
}

/// What few nodes have.
#[derive(Default)]
pub(crate) struct Extra {
    hooks: Vec<(u32, u64, Hook)>,
    pre_hooks: Vec<PreHook>,
    post_hooks: Vec<PostHook>,
    retained: Vec<(u32, Weak<TensorImpl>)>,
    /// Where the forward call was made (anomaly mode).
    pub trace: Option<String>,
}

/// What a node does.
pub(crate) enum Kind {
    /// An operator's formulas. Entry `i` is where the edges of argument `i` start; one more at the end.
    Op { op: &'static Op, edge_starts: SmallVec<[u16; 8]> },
    /// Adds to a leaf's `grad`.
    Accumulate(Tensor),
    /// The history of a base tensor after an in-place write to one of its views.
    CopySlices(Box<super::view::CopySlices>),
    /// A custom function.
    Function(Box<dyn super::function::NodeFunction>),
}

/// Ids of nodes that are not leaves start here.
const FIRST_ID: u64 = 1 << 62;
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A number never given before.
pub(crate) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Relaxed)
}

impl Node {
    pub(crate) fn new(
        kind: Kind,
        edges: SmallVec<[Option<Edge>; 3]>,
        expected: SmallVec<[Expected; 1]>,
        saved: Saved,
    ) -> Node {
        let mut state = State { saved: Some(saved), extra: None };
        if super::is_anomaly_enabled() {
            let trace = std::backtrace::Backtrace::force_capture().to_string();
            state.extra = Some(Box::new(Extra { trace: Some(trace), ..Default::default() }));
        }
        Node { id: FIRST_ID + next_id(), kind, edges, expected, state: Mutex::new(state) }
    }

    /// The node that adds to a leaf's gradient.
    pub(crate) fn accumulate(leaf: Tensor) -> Node {
        Node {
            id: next_id(),
            expected: SmallVec::from_iter([Expected::of(&leaf)]),
            kind: Kind::Accumulate(leaf),
            edges: SmallVec::new(),
            state: Mutex::new(State { saved: Some(Saved::default()), extra: None }),
        }
    }

    /// PyTorch's name for it (`AddBackward0`).
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Op { op, .. } => {
                let mut name = String::new();
                for part in op.functional().name().split('_') {
                    let mut chars = part.chars();
                    name.extend(chars.next().map(|c| c.to_ascii_uppercase()));
                    name.push_str(chars.as_str());
                }
                name + "Backward0"
            }
            Kind::Accumulate(_) => "AccumulateGrad".into(),
            Kind::CopySlices(_) => "CopySlices".into(),
            Kind::Function(f) => f.name(),
        }
    }

    /// The nodes that this one's gradients go to, one per tensor argument.
    pub fn next_functions(&self) -> Vec<Option<Edge>> {
        self.edges.to_vec()
    }

    /// The leaf that an accumulation node adds to.
    pub fn variable(&self) -> Option<&Tensor> {
        match &self.kind {
            Kind::Accumulate(t) => Some(t),
            _ => None,
        }
    }

    /// How many results the call had.
    pub fn num_inputs(&self) -> usize {
        self.expected.len()
    }

    /// A number that grows in the order in which nodes are made.
    pub fn sequence_number(&self) -> u64 {
        self.id
    }

    fn extra<R>(&self, f: impl FnOnce(&mut Extra) -> R) -> R {
        f(self.state.lock().extra.get_or_insert_default())
    }

    pub(crate) fn add_hook(&self, number: u32, id: u64, hook: Hook) {
        self.extra(|e| e.hooks.push((number, id, hook)));
    }
    pub(crate) fn remove_hook(&self, id: u64) {
        self.extra(|e| e.hooks.retain(|(_, i, _)| *i != id));
    }
    pub(crate) fn retain_grad(&self, number: u32, t: &Tensor) {
        self.extra(|e| e.retained.push((number, Arc::downgrade(&t.0))));
    }

    /// Calls `hook` before the node runs.
    pub fn register_prehook(
        &self,
        hook: impl Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
    ) {
        self.extra(|e| e.pre_hooks.push(Arc::new(hook)));
    }
    /// Calls `hook` after the node ran, with its results and what it was given.
    pub fn register_hook(
        &self,
        hook: impl Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
    ) {
        self.extra(|e| e.post_hooks.push(Arc::new(hook)));
    }

    /// Tensor hooks, node pre-hooks and retained gradients, in PyTorch's order.
    pub(crate) fn run_pre_hooks(&self, grads: &mut Grads) -> Result<()> {
        if let Kind::Accumulate(leaf) = &self.kind {
            let hooks: Vec<Hook> = leaf.meta().state.lock().hooks.iter().map(|h| h.1.clone()).collect();
            for hook in hooks {
                if let Some(g) = &grads[0]
                    && let Some(new) = hook(g)?
                {
                    grads[0] = Some(new);
                }
            }
        }
        let (hooks, pre_hooks, retained) = match &self.state.lock().extra {
            None => return Ok(()),
            Some(e) => (e.hooks.clone(), e.pre_hooks.clone(), e.retained.clone()),
        };
        for (number, _, hook) in hooks {
            if let Some(g) = &grads[number as usize]
                && let Some(new) = hook(g)?
            {
                grads[number as usize] = Some(new);
            }
        }
        for hook in pre_hooks {
            if let Some(new) = hook(grads)? {
                *grads = new.into();
            }
        }
        for (number, tensor) in retained {
            if let (Some(t), Some(g)) = (tensor.upgrade(), &grads[number as usize]) {
                let t = Tensor(t);
                let sum = match t.grad() {
                    Some(old) => old.add(g)?,
                    None => g.clone(),
                };
                t.meta().state.lock().grad = Some(sum);
            }
        }
        Ok(())
    }

    pub(crate) fn run_post_hooks(&self, results: &mut Grads, given: &Grads) -> Result<()> {
        let hooks = match &self.state.lock().extra {
            None => return Ok(()),
            Some(e) => e.post_hooks.clone(),
        };
        for hook in hooks {
            if let Some(new) = hook(results, given)? {
                *results = new.into();
            }
        }
        Ok(())
    }

    /// Where the forward call was made, if anomaly mode was on.
    pub(crate) fn trace(&self) -> Option<String> {
        self.state.lock().extra.as_ref()?.trace.clone()
    }

    /// Computes the gradients of the arguments from those of the results. Unless `keep`, what was saved is freed.
    pub(crate) fn apply(self: &Arc<Node>, grads: &Grads, keep: bool) -> Result<Grads> {
        match &self.kind {
            Kind::Accumulate(_) => Ok(Grads::new()),
            Kind::CopySlices(c) => c.apply(self, grads, keep),
            Kind::Op { op, edge_starts } => {
                let saved = self.take_saved(keep)?;
                apply_op(op, edge_starts, self, &saved, grads)
            }
            Kind::Function(f) => {
                let saved = self.take_saved(keep)?;
                f.backward(self, &saved, grads)
            }
        }
    }

    pub(crate) fn take_saved(&self, keep: bool) -> Result<Saved> {
        let mut state = self.state.lock();
        let saved = if keep { state.saved.clone() } else { state.saved.take() };
        saved.ok_or_else(|| {
            Error::runtime(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have \
                 already been freed). Saved intermediate values of the graph are freed when you call .backward() or \
                 autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or \
                 if you need to access saved tensors after calling backward.",
            )
        })
    }
}

/// Runs the formulas whose results somebody wants.
pub(crate) fn apply_op(
    op: &'static Op,
    edge_starts: &[u16],
    node: &Arc<Node>,
    saved: &Saved,
    grads: &Grads,
) -> Result<Grads> {
    let formulas = match op.functional().derivative {
        Derivative::Formulas(f) => f,
        Derivative::NonDifferentiable => &[],
        Derivative::NotImplemented(why) => {
            return Err(Error::not_implemented(format!(
                "the derivative for '{}' is not implemented. {why}",
                op.functional().name()
            )));
        }
    };
    let mut out: Grads = SmallVec::from_elem(None, node.edges.len());
    let context = GradContext { op, grads, saved, node, edge_starts };
    for formula in formulas {
        if !formula.inputs.iter().any(|name| context.needs(name)) {
            continue;
        }
        let results = (formula.run)(&context)?;
        let mut results = results.into_iter();
        for name in formula.inputs {
            let Some(i) = context.argument(name) else { continue };
            let one = op.functional().schema().params[i].ty.list.is_none();
            if one && edge_starts[i] == edge_starts[i + 1] {
                // An optional tensor that was not given has a place among the gradients, but no edge.
                results.next();
            }
            for slot in edge_starts[i]..edge_starts[i + 1] {
                if let Some(g) = results.next() {
                    out[slot as usize] = g;
                }
            }
        }
    }
    Ok(out)
}

// ---- iterative drop -----------------------------------------------------------------------------

/// What a node owns.
type Remains = (SmallVec<[Option<Edge>; 3]>, Option<Saved>);

thread_local! {
    static DYING: RefCell<Vec<Remains>> = const { RefCell::new(Vec::new()) };
    static DRAINING: Cell<bool> = const { Cell::new(false) };
}

/// Dropping the last handle to a chain of a million nodes must not recurse a million times: what a node owns is put on
/// a list, and the outermost drop empties the list.
impl Drop for Node {
    fn drop(&mut self) {
        let edges = std::mem::take(&mut self.edges);
        let saved = self.state.get_mut().saved.take();
        if edges.iter().all(Option::is_none) && saved.as_ref().is_none_or(|s| s.values.is_empty()) {
            return;
        }
        let queued = DYING.try_with(|list| list.borrow_mut().push((edges, saved)));
        if queued.is_err() || DRAINING.try_with(|d| d.replace(true)).unwrap_or(true) {
            return;
        }
        while let Some(item) = DYING.with(|list| list.borrow_mut().pop()) {
            drop(item);
        }
        DRAINING.set(false);
    }
}
