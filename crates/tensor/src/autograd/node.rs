//! Nodes of the backward graph.

use super::function::CustomNode;
use super::recipe::Source;
use super::saved::{Saved, SavedValue};
use super::{AutogradMeta, Derivative, GradContext, Grads};
use crate::op::Op;
use crate::value::OwnedValue;
use crate::{DType, Device, Dims, Error, Result, Tensor};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A function called with a gradient; what it returns replaces it.
pub type Hook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;
/// A function called with a node's incoming gradients before it runs; what it returns replaces them.
pub type PreHook = Arc<dyn Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;
/// A function called with the gradients a node computed and those it was given; what it returns replaces the former.
pub type PostHook =
    Arc<dyn Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;

/// What a front end hangs on a node or a tensor.
pub type Attachment = Arc<dyn Any + Send + Sync>;

/// Where a gradient goes.
#[derive(Clone)]
pub enum Edge {
    /// To a result of the call that a node stands for.
    Node {
        /// The node.
        node: Arc<Node>,
        /// The number of the result.
        input: u32,
    },
    /// To the `grad` of a leaf. Its node is made only when somebody asks for it.
    Leaf(Tensor),
}

impl Edge {
    /// The edge to a result of a node's call, or to the leaf that the node adds to.
    ///
    /// # Errors
    /// When the call had no such result.
    pub fn to(node: Arc<Node>, input: u32) -> Result<Edge> {
        if let Kind::Accumulate(leaf) = &node.kind {
            return Ok(Edge::Leaf(leaf.clone()));
        }
        crate::ensure!(
            (input as usize) < node.expected.len(),
            "{} has {} results: there is no number {input}",
            node.name(),
            node.expected.len()
        );
        Ok(Edge::Node { node, input })
    }

    /// The node: a leaf's is one that adds to its gradient.
    pub fn node(&self) -> Arc<Node> {
        match self {
            Edge::Node { node, .. } => node.clone(),
            Edge::Leaf(leaf) => {
                let accumulator = &mut leaf.meta().state.lock().accumulator;
                accumulator.upgrade().unwrap_or_else(|| {
                    let node = Arc::new(Node::accumulate(leaf.clone()));
                    *accumulator = Arc::downgrade(&node);
                    node
                })
            }
        }
    }

    /// The node's id; 0, below all others, for a leaf.
    #[inline]
    pub(crate) fn node_id(&self) -> u64 {
        match self {
            Edge::Node { node, .. } => node.id,
            Edge::Leaf(_) => 0,
        }
    }

    /// Which of the node's results.
    pub fn input(&self) -> u32 {
        match self {
            Edge::Node { input, .. } => *input,
            Edge::Leaf(_) => 0,
        }
    }

    /// Whether gradients arrive at one place through both.
    pub(crate) fn same(&self, other: &Edge) -> bool {
        match (self, other) {
            (Edge::Leaf(a), Edge::Leaf(b)) => a.is_same(b),
            (Edge::Node { node: a, .. }, Edge::Node { node: b, .. }) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// What a gradient must look like to enter a node.
#[derive(Clone)]
pub(crate) struct Expected {
    pub sizes: Dims,
    pub dtype: DType,
    pub device: Device,
}

impl Expected {
    /// For a result that was not asked for.
    pub fn nothing() -> Expected {
        Expected { sizes: Dims::new(), dtype: DType::F32, device: Device::CPU }
    }

    #[inline]
    pub fn of(t: &Tensor) -> Expected {
        Expected { sizes: crate::dims::copy(&t.0.sizes), dtype: t.dtype(), device: t.device() }
    }
}

/// A node: an operator call seen from behind. It takes the gradients of the call's results and gives those of its
/// tensor arguments.
pub struct Node {
    /// Above those of all nodes that its edges lead to.
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
    retained: Vec<(u32, Weak<AutogradMeta>)>,
    /// The nodes of leaves that somebody saw through this one: their hooks live as long as it does.
    accumulators: Vec<Arc<Node>>,
    /// See [`Node::attachment`].
    attachment: Option<Attachment>,
    /// Where the forward call was made (anomaly mode).
    pub trace: Option<super::CallPlace>,
}

/// Where the edges of each argument of an operator start; one more at the end.
pub(crate) type EdgeStarts = SmallVec<[u32; 4]>;

/// What a node does.
pub(crate) enum Kind {
    /// An operator's formulas. The starts are empty where they are those of every call, which are the recipe's.
    Op { op: &'static Op, edge_starts: EdgeStarts },
    /// Adds to a leaf's `grad`.
    Accumulate(Tensor),
    /// The history of a base tensor after an in-place write to one of its views.
    CopySlices(Box<super::view::CopySlices>),
    /// A custom function.
    Function(Box<dyn CustomNode>),
}

/// A node that nobody else has seen: its large parts are cheaper filled in here than moved there.
pub(crate) struct NewNode(Arc<Node>);

impl NewNode {
    #[inline]
    pub(crate) fn new(kind: Kind) -> NewNode {
        // (`new_uninit` computes the layout at run time.)
        let memory = Arc::new(MaybeUninit::<Node>::uninit());
        let p = Arc::as_ptr(&memory).cast_mut().cast::<Node>();
        // SAFETY: nobody else has the memory, and every field is written. (A whole node, written elsewhere, would be moved.)
        let mut node = unsafe {
            (&raw mut (*p).id).write(0);
            (&raw mut (*p).kind).write(kind);
            (&raw mut (*p).edges).write(SmallVec::new());
            (&raw mut (*p).expected).write(SmallVec::new());
            (&raw mut (*p).state).write(Mutex::new(State { saved: Some(Saved::default()), extra: None }));
            NewNode(memory.assume_init())
        };
        if super::is_anomaly_enabled() {
            let trace = super::CallPlace::now();
            node.parts().state.get_mut().extra = Some(Box::new(Extra { trace: Some(trace), ..Default::default() }));
        }
        node
    }

    /// What it is made of.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> &mut Node {
        // SAFETY: the only handle, made above and never cloned or downgraded before `finish` gives it away. (`get_mut` would
        // find that out by an atomic exchange.)
        unsafe { &mut *Arc::as_ptr(&self.0).cast_mut() }
    }

    /// The node, numbered. Its edges must be there.
    #[inline]
    pub(crate) fn finish(mut self) -> Arc<Node> {
        let node = self.parts();
        node.id = node.newest_edge();
        self.numbered()
    }

    /// As [`NewNode::finish`] for a node whose id is that of its newest edge.
    #[inline]
    pub(crate) fn numbered(mut self) -> Arc<Node> {
        let node = self.parts();
        node.id = id_above(node.id);
        self.0
    }
}

/// How many ids a thread takes at a time.
const ID_BLOCK: u64 = 1024;
static NEXT_BLOCK: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// This thread's next id and the end of its block.
    static IDS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// A number never given before, and above `other`, which was.
#[inline]
fn id_above(other: u64) -> u64 {
    let (next, end) = IDS.get();
    // The block is used up, or the other id is of a block that another thread took later: a new block is above all.
    let (id, end) = match next > other && next < end {
        true => (next, end),
        false => {
            let start = NEXT_BLOCK.fetch_add(1, Relaxed) * ID_BLOCK;
            (start, start + ID_BLOCK)
        }
    };
    IDS.set((id + 1, end));
    id
}

/// A number never given before.
pub(crate) fn next_id() -> u64 {
    id_above(0)
}

impl Node {
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

    /// The highest id of the nodes that its edges lead to.
    pub(crate) fn newest_edge(&self) -> u64 {
        self.edges.iter().flatten().map(Edge::node_id).max().unwrap_or(0)
    }

    /// PyTorch's name for it (`AddBackward0`).
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Op { op, .. } => super::names::node_name(op),
            Kind::Accumulate(_) => "AccumulateGrad".into(),
            Kind::CopySlices(_) => "CopySlices".into(),
            Kind::Function(f) => f.name(),
        }
    }

    /// The name as error messages have it (`Add`).
    pub(crate) fn short_name(&self) -> String {
        let name = self.name();
        match &self.kind {
            Kind::CopySlices(_) => "torch::autograd::CopySlices".into(),
            Kind::Accumulate(_) => "torch::autograd::AccumulateGrad".into(),
            _ if name == "CopyBackwards" => "torch::autograd::CopyBackwards".into(),
            _ => name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches("Backward").into(),
        }
    }

    /// Where this node's gradients go, one entry per tensor argument.
    pub fn next_functions(&self) -> Vec<Option<Edge>> {
        self.edges.to_vec()
    }

    /// The nodes that its gradients go to, and which results of theirs. Those of leaves live on with this node.
    pub fn next_nodes(&self) -> Vec<Option<(Arc<Node>, u32)>> {
        let next: Vec<_> = self.edges.iter().map(|e| e.as_ref().map(|e| (e.node(), e.input()))).collect();
        let leaf = |n: &(Arc<Node>, u32)| matches!(n.0.kind, Kind::Accumulate(_)).then(|| n.0.clone());
        let accumulators: Vec<_> = next.iter().flatten().filter_map(leaf).collect();
        if !accumulators.is_empty() {
            let _old = self.extra(|e| std::mem::replace(&mut e.accumulators, accumulators));
        }
        next
    }

    /// The sizes, dtype and device of result `i` of the call.
    pub fn input_metadata(&self, i: usize) -> Option<(&[i64], DType, Device)> {
        self.expected.get(i).map(|e| (&e.sizes[..], e.dtype, e.device))
    }

    /// What a front end has attached, made when first asked for.
    pub fn attachment(&self, make: impl FnOnce() -> Attachment) -> Attachment {
        if let Some(a) = self.find_attachment() {
            return a;
        }
        let new = make();
        self.extra(|e| e.attachment.get_or_insert(new).clone())
    }

    /// What a front end has attached.
    pub fn find_attachment(&self) -> Option<Attachment> {
        self.state.lock().extra.as_ref()?.attachment.clone()
    }

    /// The custom node that a front end made, if it is one.
    pub fn custom(&self) -> Option<&dyn CustomNode> {
        match &self.kind {
            Kind::Function(f) => Some(&**f),
            _ => None,
        }
    }

    /// As [`Tensor::visit_owned`], if there are no more than `handles` handles to the node.
    pub fn visit_owned(self: &Arc<Node>, handles: usize, visit: &mut dyn FnMut(&(dyn Any + Send + Sync))) {
        if Arc::strong_count(self) > handles {
            return;
        }
        if let Some(state) = self.state.try_lock()
            && let Some(a) = state.extra.as_ref().and_then(|e| e.attachment.as_ref())
        {
            visit(&**a);
        }
        if let Kind::Function(f) = &self.kind {
            visit(f.as_any());
        }
    }

    /// The names of what was saved of the call: arguments and results that some formula reads.
    pub fn saved_names(&self) -> Vec<String> {
        match &self.kind {
            Kind::Op { op, .. } => op.recipe().map(|r| r.names()).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// What was saved under a name: `None` if nobody needed it.
    ///
    /// # Errors
    /// When there is no such name, it was freed, or it was modified since.
    pub fn saved(self: &Arc<Node>, name: &str) -> Result<OwnedValue> {
        let slot = match &self.kind {
            Kind::Op { op, .. } => op.recipe()?.place(name),
            _ => None,
        };
        let slot = slot.ok_or_else(|| Error::runtime(format!("{} saves no '{name}'", self.name())))?;
        let saved = self.take_saved(true)?;
        saved.values.get(slot).map_or(Ok(OwnedValue::None), |v| v.unpack(self))
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

    /// A number that grows in the order in which a thread makes nodes.
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
        let _removed = self.extra(|e| super::take_where(&mut e.hooks, |(_, i, _)| *i == id));
    }
    pub(crate) fn retain_grad(&self, number: u32, tensor: Weak<AutogradMeta>) {
        self.extra(|e| e.retained.push((number, tensor)));
    }
    pub(crate) fn release_grad(&self, tensor: &Weak<AutogradMeta>) {
        self.extra(|e| e.retained.retain(|(_, t)| !t.ptr_eq(tensor)));
    }
    /// Whether there is anything that few nodes have.
    #[inline]
    pub(crate) fn has_extra(&self) -> bool {
        self.state.lock().extra.is_some()
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

    /// Hooks of the call's results, and those of them that retain their gradients.
    pub(crate) fn run_tensor_hooks(&self, grads: &mut Grads) -> Result<()> {
        let (hooks, retained) = match &self.state.lock().extra {
            None => return Ok(()),
            Some(e) => (e.hooks.clone(), e.retained.clone()),
        };
        for (number, _, hook) in hooks {
            if let Some(g) = &mut grads[number as usize] {
                run_hook(&hook, g)?;
            }
        }
        for (number, tensor) in retained {
            if let (Some(meta), Some(g)) = (tensor.upgrade(), &grads[number as usize]) {
                let old = meta.state.lock().grad.clone();
                let sum = match old {
                    Some(old) => old.add(g)?,
                    None => g.clone(),
                };
                let _old = meta.state.lock().grad.replace(sum);
            }
        }
        Ok(())
    }

    /// The node's own hooks before it runs.
    pub(crate) fn run_pre_hooks(&self, grads: &mut Grads) -> Result<()> {
        let hooks = match &self.state.lock().extra {
            None => return Ok(()),
            Some(e) => e.pre_hooks.clone(),
        };
        for hook in hooks {
            if let Some(new) = hook(grads)? {
                *grads = self.checked(new, grads.len())?;
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
                *results = self.checked(new, results.len())?;
            }
        }
        Ok(())
    }

    /// What a hook of this node returned, if there is as much of it as was there before.
    fn checked(&self, new: Vec<Option<Tensor>>, expected: usize) -> Result<Grads> {
        crate::ensure!(
            new.len() == expected,
            "a hook of {} has returned an incorrect number of values (got {}, but expected {expected})",
            self.name(),
            new.len()
        );
        Ok(new.into())
    }

    /// Where the forward call was made, if anomaly mode was on.
    pub(crate) fn trace(&self) -> Option<String> {
        self.state.lock().extra.as_ref()?.trace.as_ref().map(ToString::to_string)
    }

    /// Computes the gradients of the arguments from those of the results, outside of a run of the engine; what was saved is
    /// kept.
    ///
    /// # Errors
    /// As [`super::backward()`], and when there are not as many gradients as results.
    pub fn call(self: &Arc<Node>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        crate::ensure!(
            grads.len() == self.expected.len(),
            "{} takes {} gradients, but got {}",
            self.name(),
            self.expected.len(),
            grads.len()
        );
        self.apply(&grads.iter().cloned().collect(), true).map(SmallVec::into_vec)
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
            Kind::Function(f) => f.backward(self, grads, keep).map(Grads::from),
        }
    }

    fn holds_tensors(&self, saved: &Saved) -> bool {
        // A number in the place of a tensor is one to PyTorch.
        let stands_for_tensor = |slot: usize| match &self.kind {
            Kind::Op { op, .. } => op.recipe().is_ok_and(|recipe| match recipe.slots.get(slot) {
                Some(Source::Argument(i)) => recipe.numbers >> i & 1 == 1,
                _ => false,
            }),
            _ => false,
        };
        saved.values.iter().enumerate().any(|(slot, value)| match value {
            SavedValue::Tensor(_) => true,
            SavedValue::Tensors(tensors) => tensors.iter().any(Option::is_some),
            SavedValue::Other(OwnedValue::Scalar(_)) => stands_for_tensor(slot),
            _ => false,
        })
    }

    pub(crate) fn take_saved(&self, keep: bool) -> Result<Saved> {
        let mut state = self.state.lock();
        // What holds no tensors has nothing to free, and may run again.
        let keep = keep || state.saved.as_ref().is_some_and(|saved| !self.holds_tensors(saved));
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
    edge_starts: &[u32],
    node: &Arc<Node>,
    saved: &Saved,
    grads: &Grads,
) -> Result<Grads> {
    if let Derivative::NotImplemented(why) = op.functional().derivative {
        return Err(Error::not_implemented(format!(
            "the derivative for '{}' is not implemented. {why}",
            op.functional().name()
        )));
    }
    let mut out: Grads = SmallVec::from_elem(None, node.edges.len());
    if grads.iter().all(Option::is_none) {
        return Ok(out);
    }
    let recipe = op.recipe()?;
    let edge_starts = recipe.edge_starts.as_deref().unwrap_or(edge_starts);
    let context = GradContext { op, grads, recipe, saved, node, edge_starts };
    for step in &recipe.steps {
        if !step.inputs.iter().any(|i| context.needs_argument(*i)) {
            continue;
        }
        let mut results = (step.formula.run)(&context)?.into_iter();
        for &i in &step.inputs {
            let slots = edge_starts[i]..edge_starts[i + 1];
            if slots.is_empty() && op.functional().schema().params[i].ty.list.is_none() {
                // A number has a place among the gradients, but no edge.
                results.next();
            }
            for slot in slots {
                if let Some(g) = results.next() {
                    out[slot as usize] = g;
                }
            }
        }
    }
    Ok(out)
}

/// Puts what a hook makes of a gradient, which must look like it, in its place.
pub(crate) fn run_hook(hook: &Hook, g: &mut Tensor) -> Result<()> {
    let Some(new) = hook(g)? else { return Ok(()) };
    crate::ensure!(
        new.dtype() == g.dtype() && new.device() == g.device(),
        "a hook has changed the type of a gradient from {} on {} to {} on {}",
        g.dtype(),
        g.device(),
        new.dtype(),
        new.device()
    );
    crate::ensure!(
        new.sizes() == g.sizes(),
        "a hook has changed the size of a gradient from {:?} to {:?}",
        g.sizes(),
        new.sizes()
    );
    *g = new;
    Ok(())
}

// ---- iterative drop -----------------------------------------------------------------------------

/// What is left of a custom node to which there are no handles any more: see [`CustomNode::orphaned`].
pub struct Remains<'a>(&'a mut Node);

impl Remains<'_> {
    /// A node with the same edges, hooks and number, for a front end that still shows it to a program.
    pub fn revive(self, function: Box<dyn CustomNode>) -> Arc<Node> {
        let node = self.0;
        Arc::new(Node {
            id: node.id,
            kind: Kind::Function(function),
            edges: std::mem::take(&mut node.edges),
            expected: std::mem::take(&mut node.expected),
            state: Mutex::new(std::mem::take(node.state.get_mut())),
        })
    }
}

/// What a node owns that may lead to others.
struct Owned {
    _edges: SmallVec<[Option<Edge>; 3]>,
    _state: State,
    _function: Option<Box<dyn CustomNode>>,
}

/// In the place of a function that is gone.
struct Gone;

impl CustomNode for Gone {
    fn name(&self) -> String {
        "Gone".into()
    }
    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }
    fn backward(&self, _: &Arc<Node>, _: &[Option<Tensor>], _: bool) -> Result<Vec<Option<Tensor>>> {
        Err(Error::runtime("the node is being dropped"))
    }
}

thread_local! {
    static DYING: RefCell<Vec<Owned>> = const { RefCell::new(Vec::new()) };
    static DRAINING: Cell<bool> = const { Cell::new(false) };
}

/// Dropping the last handle to a chain of a million nodes must not recurse a million times: what a node owns is put on
/// a list, and the outermost drop empties the list.
impl Drop for Node {
    fn drop(&mut self) {
        if let Kind::Function(f) = &self.kind
            && let Some(orphaned) = f.orphaned()
        {
            orphaned(Remains(self));
        }
        let function = match &mut self.kind {
            Kind::Function(f) => Some(std::mem::replace(f, Box::new(Gone))),
            _ => None,
        };
        // Leaves end every chain: what leads only to them may go at once. (Functions and hooks hold what they like.)
        let deep = |e: &Edge| matches!(e, Edge::Node { .. });
        if function.is_none() && self.state.get_mut().extra.is_none() && !self.edges.iter().flatten().any(deep) {
            return;
        }
        let edges = std::mem::take(&mut self.edges);
        let owned = Owned { _edges: edges, _state: std::mem::take(self.state.get_mut()), _function: function };
        let queued = DYING.try_with(|list| list.borrow_mut().push(owned));
        if queued.is_err() || DRAINING.try_with(|d| d.replace(true)).unwrap_or(true) {
            return;
        }
        while let Some(item) = DYING.with(|list| list.borrow_mut().pop()) {
            drop(item);
        }
        DRAINING.set(false);
    }
}
