//! The engine: walks the backward graph from results to leaves, newest node first.
//!
//! A node's id is above those of its arguments' nodes, so when the newest node is taken every later use of its result has
//! already added its share, and no counting of dependencies is needed. Leaves come last.

use super::node::{Edge, Node};
use super::{Grads, set_grad_enabled};
use crate::{DType, Error, Result, Tensor};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Computes the gradients of `tensors` and adds them to the `grad` of the graph's leaves, or of `inputs` alone.
///
/// `gradients` has one entry per tensor, `None` standing for one in a tensor of one element. Unless `retain_graph` (or
/// `create_graph`), what the graph saved is freed; with `create_graph` the gradients have history of their own.
///
/// # Errors
/// When a tensor has no graph, a gradient does not fit, a saved tensor was modified, or a formula fails.
pub fn backward(
    tensors: &[Tensor],
    gradients: &[Option<Tensor>],
    retain_graph: bool,
    create_graph: bool,
    inputs: Option<&[Tensor]>,
) -> Result<()> {
    let roots = roots(tensors, gradients)?;
    let mut call = Backward { retain_graph: retain_graph || create_graph, create_graph, ..Backward::default() };
    let targets = match inputs {
        None => None,
        Some([]) => return Err(Error::runtime("'inputs' argument to backward cannot be empty.")),
        Some(inputs) => {
            for input in inputs.iter().filter(|t| t.requires_grad()) {
                input.retain_grad()?;
            }
            Some(targets(inputs)?)
        }
    };
    call.targets = targets.as_deref();
    run_backward(roots, &call).map(drop)
}

/// The gradients of `outputs` with respect to `inputs`, without touching any `grad`. An input that the outputs do not
/// depend on gives `None` if `allow_unused`.
///
/// # Errors
/// As [`backward()`], and when an input is unused and that is not allowed.
pub fn grad(
    outputs: &[Tensor],
    inputs: &[Tensor],
    grad_outputs: &[Option<Tensor>],
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
) -> Result<Vec<Option<Tensor>>> {
    let roots = roots(outputs, grad_outputs)?;
    let targets = targets(inputs)?;
    let retain_graph = retain_graph || create_graph;
    let call = Backward { retain_graph, create_graph, targets: Some(&targets), collect: true, ..Backward::default() };
    let found = run_backward(roots, &call)?;
    if !allow_unused && let Some(i) = found.iter().position(Option::is_none) {
        return Err(Error::runtime(format!(
            "The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True if \
             this is the desired behavior."
        )));
    }
    Ok(found)
}

/// How [`run_backward`] runs.
#[derive(Default)]
pub struct Backward<'a> {
    /// Keeps what nodes saved, for another run.
    pub retain_graph: bool,
    /// Gives the gradients a history of their own.
    pub create_graph: bool,
    /// Only what leads there is run; everything if `None`.
    pub targets: Option<&'a [Edge]>,
    /// The targets' gradients are the result; else they are added to the `grad` of the leaves among them.
    pub collect: bool,
    /// Called before each node: an error ends the run. For front ends that can be interrupted.
    pub between: Option<fn() -> Result<()>>,
}

/// Runs the graph from `roots`, edges with the gradients that arrive there. The result has an entry for each target if
/// the call collects them (`None` for what nothing depends on), else none.
///
/// # Errors
/// When a gradient does not fit, a saved tensor was modified, or a formula or hook fails.
pub fn run_backward(roots: Vec<(Edge, Tensor)>, call: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
    Engine::new(call).run(roots)
}

fn roots(tensors: &[Tensor], gradients: &[Option<Tensor>]) -> Result<Vec<(Edge, Tensor)>> {
    let mut roots = Vec::with_capacity(tensors.len());
    for (i, t) in tensors.iter().enumerate() {
        let Some(edge) = t.gradient_edge() else {
            return Err(Error::runtime(format!(
                "element {i} of tensors does not require grad and does not have a grad_fn"
            )));
        };
        let g = match gradients.get(i).cloned().flatten() {
            Some(g) => {
                if g.sizes() != t.sizes() && !crate::dims::is_expandable_to(t.sizes(), g.sizes()) {
                    return Err(Error::runtime(format!(
                        "Mismatch in shape: grad_output[{i}] has a shape of {:?} and output[{i}] has a shape of {:?}.",
                        g.sizes(),
                        t.sizes()
                    )));
                }
                g
            }
            None if t.numel() == 1 => {
                if t.dtype().is_complex() {
                    return Err(Error::runtime(
                        "grad can be implicitly created only for real scalar outputs but got complex",
                    ));
                }
                t.detach()?.ones_like()?
            }
            None => return Err(Error::runtime("grad can be implicitly created only for scalar outputs")),
        };
        roots.push((edge, g));
    }
    Ok(roots)
}

fn targets(inputs: &[Tensor]) -> Result<Vec<Edge>> {
    inputs
        .iter()
        .map(|t| {
            t.gradient_edge().ok_or_else(|| Error::runtime("One of the differentiated Tensors does not require grad"))
        })
        .collect()
}

/// Gradients that wait for a node, one per result of its call.
struct Task {
    node: Arc<Node>,
    grads: Grads,
}

struct Engine<'a> {
    call: &'a Backward<'a>,
    /// The nodes that lie between the roots and a target, and whether a gradient has to pass through them; empty when
    /// there are no targets.
    needed: Rc<HashMap<u64, bool>>,
    found: Vec<Option<Tensor>>,
    tasks: BTreeMap<u64, Task>,
    /// The leaves that gradients reached, in that order, and their places there by id.
    leaves: Vec<(Tensor, Option<Tensor>)>,
    places: HashMap<usize, usize>,
}

impl<'a> Engine<'a> {
    fn new(call: &'a Backward<'a>) -> Engine<'a> {
        Engine {
            call,
            needed: Rc::default(),
            found: vec![None; if call.collect { call.targets.map_or(0, <[Edge]>::len) } else { 0 }],
            tasks: BTreeMap::new(),
            leaves: Vec::new(),
            places: HashMap::new(),
        }
    }

    fn run(mut self, roots: Vec<(Edge, Tensor)>) -> Result<Vec<Option<Tensor>>> {
        let _mode = set_grad_enabled(self.call.create_graph);
        if self.call.targets.is_some() {
            for (edge, _) in &roots {
                if let Edge::Node { node, .. } = edge {
                    self.mark_needed(node);
                }
            }
        }
        let _run = CurrentRun::begin(&roots, self.call.targets, &self.needed);
        for (edge, g) in roots {
            self.push(&edge, g, None)?;
        }
        while let Some((_, task)) = self.tasks.pop_last() {
            if let Some(between) = self.call.between {
                between()?;
            }
            self.step(task)?;
        }
        for (leaf, g) in std::mem::take(&mut self.leaves) {
            if let Some(g) = g {
                self.finish(&leaf, g)?;
            }
        }
        Ok(self.found)
    }

    fn step(&mut self, task: Task) -> Result<()> {
        let Task { node, mut grads } = task;
        let extra = node.has_extra();
        if extra {
            node.run_tensor_hooks(&mut grads)?;
        }
        if let Some(targets) = self.call.targets {
            for (target, found) in targets.iter().zip(&mut self.found) {
                if matches!(target, Edge::Node { node: n, .. } if Arc::ptr_eq(n, &node)) {
                    *found = grads[target.input() as usize].clone();
                }
            }
            if !self.needed.get(&node.id).copied().unwrap_or(false) {
                return Ok(());
            }
        }
        if extra {
            node.run_pre_hooks(&mut grads)?;
        }
        let mut results = node.apply(&grads, self.call.retain_graph).map_err(|e| failed(&node, e))?;
        if extra {
            node.run_post_hooks(&mut results, &grads)?;
        }
        drop(grads);
        if super::is_anomaly_enabled() && super::is_anomaly_check_nan_enabled() {
            check_nan(&node, &results)?;
        }
        if results.len() > node.edges.len() && results[node.edges.len()..].iter().any(Option::is_some) {
            return Err(Error::runtime(format!(
                "Function {} returned an invalid number of gradients - expected {}, but got {}",
                node.name(),
                node.edges.len(),
                results.len()
            )));
        }
        for (i, (edge, g)) in node.edges.iter().zip(results).enumerate() {
            if let (Some(edge), Some(g)) = (edge, g) {
                self.push(edge, g, Some((&node, i)))?;
            }
        }
        Ok(())
    }

    /// A leaf's whole gradient: through its hooks, to whoever asked for it or to `grad`.
    fn finish(&mut self, leaf: &Tensor, g: Tensor) -> Result<()> {
        let (hooks, accumulated, node) = match leaf.0.autograd.get() {
            None => Default::default(),
            Some(meta) => {
                let state = meta.state.lock();
                (state.hooks.clone(), state.accumulated.clone(), state.accumulator.upgrade())
            }
        };
        let mut g = g;
        for (_, hook) in hooks {
            super::node::run_hook(&hook, &mut g)?;
        }
        if self.call.collect {
            for (target, found) in self.call.targets.unwrap_or(&[]).iter().zip(&mut self.found) {
                if matches!(target, Edge::Leaf(t) if t.is_same(leaf)) {
                    *found = Some(g.clone());
                }
            }
            return Ok(());
        }
        let mut grads: Grads = SmallVec::from_iter([Some(g)]);
        if let Some(node) = &node {
            node.run_pre_hooks(&mut grads)?;
        }
        // One handle if nobody looks at it any more: a gradient of one's own can become the leaf's as it is.
        let given = node.as_ref().map(|_| grads.clone());
        if let Some(Some(g)) = grads.into_iter().next() {
            add_to_grad(leaf, g, self.call.create_graph)?;
            accumulated.into_iter().try_for_each(|(_, hook)| hook(leaf))?;
        }
        match (node, given) {
            (Some(node), Some(given)) => node.run_post_hooks(&mut Grads::new(), &given),
            _ => Ok(()),
        }
    }

    /// Adds a gradient to what waits for `edge`.
    fn push(&mut self, edge: &Edge, g: Tensor, from: Option<(&Node, usize)>) -> Result<()> {
        let slot = match edge {
            Edge::Leaf(leaf) => {
                if self.call.targets.is_some_and(|targets| !targets.iter().any(|t| t.same(edge))) {
                    return Ok(());
                }
                let place = *self.places.entry(leaf.id()).or_insert_with(|| {
                    self.leaves.push((leaf.clone(), None));
                    self.leaves.len() - 1
                });
                &mut self.leaves[place].1
            }
            Edge::Node { node, input } => {
                if self.call.targets.is_some() && !self.needed.contains_key(&node.id) {
                    return Ok(());
                }
                let task = self.tasks.entry(node.id).or_insert_with(|| Task {
                    node: node.clone(),
                    grads: SmallVec::from_elem(None, node.expected.len()),
                });
                &mut task.grads[*input as usize]
            }
        };
        let g = match edge {
            Edge::Leaf(leaf) => fit(leaf.sizes(), leaf.dtype(), g, from)?,
            Edge::Node { node, input } => {
                let e = &node.expected[*input as usize];
                fit(&e.sizes, e.dtype, g, from)?
            }
        };
        *slot = Some(match slot.take() {
            None => g,
            Some(old) => accumulate(old, g, self.call.create_graph)?,
        });
        Ok(())
    }

    /// Finds out which nodes lead to a target: a depth-first walk without recursion.
    fn mark_needed(&mut self, root: &Arc<Node>) {
        let targets = self.call.targets.unwrap_or(&[]);
        let is_target = |edge: &Edge| targets.iter().any(|t| t.same(edge));
        let mut stack: Vec<(Arc<Node>, usize)> = vec![(root.clone(), 0)];
        let mut seen = Rc::unwrap_or_clone(std::mem::take(&mut self.needed));
        // Every node that the walk has come to, and whether it leads to a target or is one.
        let mut leads: HashMap<u64, bool> = HashMap::new();
        while let Some((node, next)) = stack.pop() {
            if next == 0 && (leads.contains_key(&node.id) || seen.contains_key(&node.id)) {
                continue;
            }
            if let Some(edge) = node.edges.get(next) {
                stack.push((node.clone(), next + 1));
                if next == 0 {
                    leads.insert(node.id, false);
                }
                if let Some(Edge::Node { node: e, .. }) = edge
                    && !leads.contains_key(&e.id)
                    && !seen.contains_key(&e.id)
                {
                    stack.push((e.clone(), 0));
                }
                continue;
            }
            let through = node.edges.iter().flatten().any(|edge| match edge {
                Edge::Leaf(_) => is_target(edge),
                Edge::Node { node: e, .. } => leads.get(&e.id).copied().unwrap_or(false) || seen.contains_key(&e.id),
            });
            let target = targets.iter().any(|t| matches!(t, Edge::Node { node: n, .. } if Arc::ptr_eq(n, &node)));
            leads.insert(node.id, through || target);
            if through || target {
                // A target whose gradient is handed out need not run itself.
                let runs = through || !self.call.collect;
                match seen.entry(node.id) {
                    Entry::Vacant(v) => drop(v.insert(runs)),
                    Entry::Occupied(mut o) => *o.get_mut() |= runs,
                }
            }
        }
        self.needed = Rc::new(seen);
    }
}

/// Makes a gradient what its receiver expects: summed over broadcast dims, of the right dtype.
#[inline]
fn fit(sizes: &[i64], dtype: DType, g: Tensor, from: Option<(&Node, usize)>) -> Result<Tensor> {
    let mut g = g;
    if g.sizes() != sizes {
        if !crate::dims::is_expandable_to(sizes, g.sizes()) {
            let (name, i) = from.map_or_else(|| ("root".into(), 0), |(node, i)| (node.name(), i));
            return Err(Error::runtime(format!(
                "Function {name} returned an invalid gradient at index {i} - got {:?} but expected shape compatible with \
                 {sizes:?}",
                g.sizes(),
            )));
        }
        g = g.sum_to_size(sizes)?;
    }
    if g.dtype() != dtype {
        if g.dtype().is_complex() && !dtype.is_complex() {
            g = g.real()?;
        }
        g = g.to_dtype(dtype)?;
    }
    Ok(g)
}

/// Whether nobody else can see the tensor's memory. (A view shares it with its base.)
fn is_own(t: &Tensor) -> bool {
    t.0.count() == 1 && t.storage().use_count() == 1 && t.base().is_none()
}

/// The sum of two gradients, in place where nobody else can see the first.
fn accumulate(old: Tensor, new: Tensor, create_graph: bool) -> Result<Tensor> {
    if !old.is_strided() && new.is_strided() {
        return new.add(&old);
    }
    if !create_graph && is_own(&old) && old.dtype() == new.dtype() && old.is_non_overlapping_and_dense() {
        return old.add_(&new);
    }
    old.add(&new)
}

/// Whether a gradient lies in memory as its leaf does, or row-major if that has gaps: programs view gradients so.
fn lies_like(g: &Tensor, leaf: &Tensor) -> bool {
    match leaf.is_non_overlapping_and_dense() {
        true => g.sizes() == leaf.sizes() && crate::dims::same_strides(g.sizes(), g.strides(), leaf.strides()),
        false => g.is_contiguous(),
    }
}

/// A copy that lies so.
fn laid_out_like(g: &Tensor, leaf: &Tensor) -> Result<Tensor> {
    match leaf.is_non_overlapping_and_dense() && g.sizes() == leaf.sizes() {
        true => Tensor::fresh_strided(g.device(), g.dtype(), g.sizes().into(), leaf.strides().into())?
            .copy_(g)
            .map(Tensor::unwritten),
        false => g.clone_in(crate::MemoryFormat::Contiguous),
    }
}

/// Adds a gradient to a leaf's `grad`.
fn add_to_grad(leaf: &Tensor, g: Tensor, create_graph: bool) -> Result<()> {
    let _adding = leaf.meta().adding.lock();
    let old = leaf.grad();
    let new = match old {
        None if create_graph => g,
        None => {
            if !g.is_strided() {
                g.detach()?.clone_in(crate::MemoryFormat::Preserve)?
            } else if is_own(&g) && lies_like(&g, leaf) && !g.requires_grad() {
                g
            } else {
                laid_out_like(&g.detach()?, leaf)?
            }
        }
        Some(old) if !old.is_strided() && g.is_strided() => g.add(&old)?,
        Some(old) if create_graph => old.add(&g)?,
        Some(old) => {
            old.add_(&g)?;
            return Ok(());
        }
    };
    let _old = leaf.meta().state.lock().grad.replace(new);
    Ok(())
}

/// The error of a node, with the place of its forward call if anomaly mode knows it.
#[cold]
fn failed(node: &Node, e: Error) -> Error {
    let place = node.trace();
    match (super::REPORTER.get(), place) {
        (Some(reporter), place) if super::is_anomaly_enabled() => {
            reporter.report(&node.name(), place.as_deref());
            e
        }
        (None, Some(place)) => {
            Error::new(e.kind(), format!("{}\nThe forward call was made here:\n{place}", e.message()))
        }
        _ => e,
    }
}

#[cold]
fn check_nan(node: &Node, results: &Grads) -> Result<()> {
    for (i, g) in results.iter().enumerate() {
        let Some(g) = g else { continue };
        let _mode = super::no_grad();
        if g.isnan()?.any()?.item()?.to_bool() {
            let text = format!("Function '{}' returned nan values in its {i}th output.", node.name());
            return Err(failed(node, Error::runtime(text)));
        }
    }
    Ok(())
}

// ---- what hooks may ask ---------------------------------------------------------------------------

/// A run as hooks see it.
struct CurrentRun {
    id: i64,
    roots: Vec<Edge>,
    targets: Option<Vec<Edge>>,
    needed: Rc<HashMap<u64, bool>>,
    /// Without targets: all nodes and leaves of the graph, found when first asked for.
    reached: Option<(HashSet<u64>, HashSet<usize>)>,
}

thread_local! {
    /// The runs under way on this thread, the innermost last.
    static RUNS: RefCell<Vec<CurrentRun>> = const { RefCell::new(Vec::new()) };
}
static NEXT_RUN: AtomicI64 = AtomicI64::new(0);

/// Takes the run off when dropped.
struct RunGuard;

impl Drop for RunGuard {
    fn drop(&mut self) {
        // The edges go after the list is free again: they may own what asks for it.
        let run = RUNS.with_borrow_mut(Vec::pop);
        drop(run);
    }
}

impl CurrentRun {
    fn begin(roots: &[(Edge, Tensor)], targets: Option<&[Edge]>, needed: &Rc<HashMap<u64, bool>>) -> RunGuard {
        let run = CurrentRun {
            id: NEXT_RUN.fetch_add(1, Relaxed),
            roots: roots.iter().map(|(e, _)| e.clone()).collect(),
            targets: targets.map(<[Edge]>::to_vec),
            needed: needed.clone(),
            reached: None,
        };
        RUNS.with_borrow_mut(|runs| runs.push(run));
        RunGuard
    }

    fn reaches(&mut self, node: &Arc<Node>) -> bool {
        let leaf = node.variable();
        if let Some(targets) = &self.targets {
            return match leaf {
                None => self.needed.contains_key(&node.id),
                Some(leaf) => targets.iter().any(|t| matches!(t, Edge::Leaf(t) if t.is_same(leaf))),
            };
        }
        let roots = &self.roots;
        let (nodes, leaves) = self.reached.get_or_insert_with(|| reached(roots));
        match leaf {
            None => nodes.contains(&node.id),
            Some(leaf) => leaves.contains(&leaf.id()),
        }
    }
}

fn reached(roots: &[Edge]) -> (HashSet<u64>, HashSet<usize>) {
    let (mut nodes, mut leaves) = (HashSet::new(), HashSet::new());
    let mut stack = roots.to_vec();
    while let Some(edge) = stack.pop() {
        match edge {
            Edge::Leaf(leaf) => {
                leaves.insert(leaf.id());
            }
            Edge::Node { node, .. } => {
                if nodes.insert(node.id) {
                    stack.extend(node.edges.iter().flatten().cloned());
                }
            }
        }
    }
    (nodes, leaves)
}

/// The number of the run under way on this thread.
pub fn current_run() -> Option<i64> {
    RUNS.with_borrow(|runs| runs.last().map(|r| r.id))
}

/// Whether the run under way executes the node; `None` outside of runs.
pub fn will_execute(node: &Arc<Node>) -> Option<bool> {
    RUNS.with_borrow_mut(|runs| runs.last_mut().map(|r| r.reaches(node)))
}
