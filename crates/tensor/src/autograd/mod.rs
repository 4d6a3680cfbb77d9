//! Automatic differentiation: what operators declare ([`Derivative`], [`Forward`]), the one kernel that records them
//! (`kernel`), the graph (`node`, `saved`, `view`), the engine that runs it (`engine`), and forward mode (`forward`).
//!
//! How gradients of particular operators are computed is not here: formulas stand beside the operators in `ops/`.

mod engine;
mod forward;
mod function;
mod gradcheck;
pub(crate) mod kernel;
mod names;
mod node;
mod packing;
pub(crate) mod recipe;
mod saved;
mod view;

pub use engine::{Backward, backward, current_run, grad, run_backward, will_execute};
pub use forward::{enter_dual_level, exit_dual_level, jvp, make_dual, unpack_dual};
pub use function::{CustomNode, Function, FunctionContext, TakeRemains, apply, attach};
pub use gradcheck::{CheckOptions, gradcheck, gradgradcheck};
pub use kernel::GradContext;
pub use node::{Attachment, Edge, Hook, Node, PostHook, PreHook, Remains};
pub use packing::{
    PackedTensor, SavedTensorHooks, disable_saved_tensor_hooks, pop_saved_tensor_hooks, push_saved_tensor_hooks,
    saved_tensor_hooks_disabled,
};
pub use saved::{FromSaved, Geometry, SaveKind, SavedRef, SavedTensor};
pub(crate) use view::check_untracked_write;

use crate::keys::{Key, KeyGuard, KeySet};
use crate::op::Op;
use crate::{Error, Result, Tensor};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::sync::{Arc, OnceLock, Weak};

/// Gradients in the order of a formula's inputs; `None` is zero.
pub type Grads = SmallVec<[Option<Tensor>; 3]>;

/// An operator's reverse-mode derivative.
#[derive(Clone, Copy)]
pub enum Derivative {
    /// Formulas for its differentiable inputs; [`crate::backward!`] writes them.
    Formulas(&'static [Formula]),
    /// The result does not depend smoothly on anything (comparisons, indices), or there is nothing to differentiate.
    NonDifferentiable,
    /// It has a derivative that nobody wrote; backward raises, and says why.
    NotImplemented(&'static str),
}

impl Derivative {
    /// For listings.
    pub fn describe(&self, op: &Op) -> String {
        match self {
            _ if op.is_composite() => "through the operators it is made of".into(),
            Derivative::Formulas(f) => {
                let names: Vec<&str> = f.iter().flat_map(|f| f.inputs.iter().copied()).collect();
                format!("for {}", names.join(", "))
            }
            Derivative::NonDifferentiable => "not differentiable".into(),
            Derivative::NotImplemented(why) => format!("not implemented: {why}"),
        }
    }
}

/// The gradient of one or several inputs.
pub struct Formula {
    /// The inputs' names in the schema (`self_` for `self`).
    pub inputs: &'static [&'static str],
    /// What it reads, and how much of each has to be kept.
    pub saves: &'static [(&'static str, SaveKind)],
    /// Computes the gradients, in the order of `inputs`.
    pub run: fn(&GradContext<'_>) -> Result<Grads>,
}

/// An operator's forward-mode derivative.
#[derive(Clone, Copy)]
pub enum Forward {
    /// Made from the reverse-mode one, by differentiating it with respect to its cotangent. Right for every operator
    /// whose gradient is itself differentiable; the others below are cheaper.
    FromBackward,
    /// The operator is linear in all its tensor arguments together: apply it to the tangents.
    Linear,
    /// It is linear in each tensor argument by itself (products): apply it once per tangent and add.
    Multilinear,
}

/// What a formula may evaluate to.
pub trait IntoGrads {
    /// The gradients in order.
    fn into_grads(self) -> Grads;
}
impl IntoGrads for Tensor {
    fn into_grads(self) -> Grads {
        SmallVec::from_iter([Some(self)])
    }
}
impl IntoGrads for Option<Tensor> {
    fn into_grads(self) -> Grads {
        SmallVec::from_iter([self])
    }
}
impl IntoGrads for Vec<Tensor> {
    fn into_grads(self) -> Grads {
        self.into_iter().map(Some).collect()
    }
}
impl IntoGrads for Vec<Option<Tensor>> {
    fn into_grads(self) -> Grads {
        self.into()
    }
}
impl<const N: usize> IntoGrads for [Option<Tensor>; N] {
    fn into_grads(self) -> Grads {
        self.into_iter().collect()
    }
}
impl IntoGrads for Grads {
    fn into_grads(self) -> Grads {
        self
    }
}

/// Writes an operator's reverse-mode derivative.
///
/// ```ignore
/// backward! {
///     self_(g, other: OwnedOperand) => g.mul(&other.conj()?)?,   // `g` is the gradient of the (first) result
///     other(g, self_: Tensor) => g.mul(&self_.conj()?)?,         // each arm keeps only what it names, if it is needed
///     (weight, bias)([grads], input: Tensor) => [Some(...), None] // several inputs at once; all results' gradients
/// }
/// ```
/// `result` (or `result0`, or a result's name in the schema) is an output. A trailing underscore is dropped from names.
/// The engine sums a gradient over dims that its input was broadcast along, and casts it to the input's dtype.
#[macro_export]
macro_rules! backward {
    ($($inputs:tt $binds:tt => $body:expr),* $(,)?) => {
        $crate::autograd::Derivative::Formulas(&[$($crate::backward!(@formula $inputs $binds $body)),*])
    };
    (@formula $input:ident $binds:tt $body:expr) => { $crate::backward!(@formula ($input) $binds $body) };
    (@formula ($($input:ident),+) ([$grads:ident] $(, $name:ident : $ty:ty)* $(,)?) $body:expr) => {
        $crate::autograd::Formula {
            inputs: &[$(stringify!($input)),+],
            saves: &[$((stringify!($name), <$ty as $crate::autograd::FromSaved>::KIND)),*],
            run: |context| {
                let $grads = context;
                $(#[allow(non_snake_case)] let $name: $ty = context.get(stringify!($name))?;)*
                Ok($crate::autograd::IntoGrads::into_grads($body))
            },
        }
    };
    (@formula ($($input:ident),+) ($g:ident $(, $name:ident : $ty:ty)* $(,)?) $body:expr) => {
        $crate::autograd::Formula {
            inputs: &[$(stringify!($input)),+],
            saves: &[$((stringify!($name), <$ty as $crate::autograd::FromSaved>::KIND)),*],
            run: |context| {
                let $g = &context.gradient()?;
                $(#[allow(non_snake_case)] let $name: $ty = context.get(stringify!($name))?;)*
                Ok($crate::autograd::IntoGrads::into_grads($body))
            },
        }
    };
}

// ---- per-tensor state ---------------------------------------------------------------------------

/// What autograd knows about a tensor; made when first needed.
#[derive(Default)]
pub(crate) struct AutogradMeta {
    pub(crate) state: Mutex<MetaState>,
    /// Held while a gradient is added to `grad`: several threads may run graphs that end in one leaf.
    pub(crate) adding: Mutex<()>,
}

#[derive(Default)]
pub(crate) struct MetaState {
    /// A leaf that asks for a gradient.
    pub requires_grad: bool,
    pub grad: Option<Tensor>,
    /// A leaf's accumulation node, while somebody holds it.
    pub accumulator: Weak<Node>,
    pub retains_grad: bool,
    /// A leaf's hooks; those of other tensors are with their node.
    pub hooks: Vec<(u64, Hook)>,
    /// Called with a leaf after a gradient was added to its own.
    pub accumulated: Vec<(u64, AccumulatedHook)>,
    /// See [`Tensor::autograd_attachment`].
    pub attachment: Option<Attachment>,
    /// The forward-mode tangent.
    pub tangent: Option<Tensor>,
}

/// A function called with a leaf whose `grad` has grown.
pub type AccumulatedHook = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

/// The node that computed a tensor, and which of the node's results it is.
#[derive(Default)]
pub(crate) struct History {
    pub node: Option<Arc<Node>>,
    pub output_number: u32,
}

/// Where a tensor keeps its [`AutogradMeta`], which few tensors need: one pointer, set at most once. (A `OnceLock` would
/// cost more than the rest of recording a call.)
#[derive(Default)]
pub(crate) struct MetaCell(AtomicPtr<AutogradMeta>);

impl MetaCell {
    /// What is there.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&AutogradMeta> {
        // SAFETY: null, or a share of an `Arc` that lives until the cell is dropped; `Acquire` sees its contents.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    #[inline]
    fn get_or_init(&self) -> &AutogradMeta {
        match self.get() {
            Some(meta) => meta,
            None => self.init(),
        }
    }

    /// A handle that does not keep it alive, for hooks and nodes.
    pub(crate) fn weak(&self) -> Weak<AutogradMeta> {
        let meta: *const AutogradMeta = self.get_or_init();
        // SAFETY: made from an `Arc` in `init`; the share that the cell owns is not given up.
        let share = std::mem::ManuallyDrop::new(unsafe { Arc::from_raw(meta) });
        Arc::downgrade(&share)
    }

    /// A cell with the same contents, made if need be.
    pub(crate) fn share(&self) -> MetaCell {
        let share = self.weak().upgrade();
        let meta = share.map_or(std::ptr::null_mut(), |share| Arc::into_raw(share).cast_mut());
        // The accumulation node of a leaf names the tensor it was made for.
        if let Some(meta) = self.get() {
            meta.state.lock().accumulator = Weak::new();
        }
        MetaCell(AtomicPtr::new(meta))
    }

    #[inline(never)]
    fn init(&self) -> &AutogradMeta {
        let new = Arc::into_raw(Arc::<AutogradMeta>::default()).cast_mut();
        match self.0.compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire) {
            // SAFETY: just made from an `Arc`, which the cell owns now.
            Ok(_) => unsafe { &*new },
            Err(first) => {
                // SAFETY: another thread was first: nobody else has seen `new`, and `first` is as in `get`.
                unsafe {
                    drop(Arc::from_raw(new));
                    &*first
                }
            }
        }
    }
}

impl Drop for MetaCell {
    #[inline]
    fn drop(&mut self) {
        let meta = *self.0.get_mut();
        if !meta.is_null() {
            // SAFETY: made from an `Arc` in `init`, and the cell owns that share.
            drop(unsafe { Arc::from_raw(meta) });
        }
    }
}

impl Tensor {
    #[inline]
    pub(crate) fn meta(&self) -> &AutogradMeta {
        self.0.autograd.get_or_init()
    }

    /// Gives a tensor just computed its place in the graph.
    #[inline]
    pub(crate) fn set_history(&self, node: Arc<Node>, output_number: u32) {
        // What was there goes after the lock: it may be the last handle to a long graph.
        let _old = std::mem::replace(&mut *self.0.history.lock(), History { node: Some(node), output_number });
        self.0.has_history.store(true, Release);
        self.set_key(Key::AUTOGRAD, true);
        self.0.view_version.store(self.version(), Relaxed);
    }

    /// As [`Tensor::set_history`] for a tensor that was written: a retained gradient is its newest value's.
    pub(crate) fn move_history(&self, node: Arc<Node>, output_number: u32) {
        if self.retains_grad() {
            let me = self.0.autograd.weak();
            if let Some(old) = self.0.history.lock().node.clone() {
                old.release_grad(&me);
            }
            node.retain_grad(output_number, me);
        }
        self.set_history(node, output_number);
    }

    /// As [`Tensor::set_history`] with result 0; cheaper for a tensor that nobody else has seen.
    #[inline]
    pub(crate) fn set_first_history(&mut self, node: Arc<Node>) {
        match self.0.get_mut() {
            None => self.set_history(node, 0),
            Some(t) => {
                *t.history.get_mut() = History { node: Some(node), output_number: 0 };
                *t.has_history.get_mut() = true;
                t.add_key(Key::AUTOGRAD);
                let version = self.version();
                self.0.view_version.store(version, Relaxed);
            }
        }
    }

    /// Whether gradients flow to it.
    #[inline]
    pub fn requires_grad(&self) -> bool {
        self.key_set().has(Key::AUTOGRAD)
    }

    /// Asks for a gradient of this leaf, or stops asking.
    ///
    /// # Errors
    /// When the dtype is not floating-point or complex, or when it is not a leaf.
    pub fn set_requires_grad(&self, requires_grad: bool) -> Result<()> {
        if requires_grad && self.is_inference() && !is_inference_mode_enabled() {
            return Err(Error::runtime(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
            ));
        }
        if requires_grad && !self.dtype().is_differentiable() {
            return Err(Error::runtime("only Tensors of floating point and complex dtype can require gradients"));
        }
        if !self.is_leaf() {
            if requires_grad {
                return Ok(());
            }
            return Err(Error::runtime(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a \
                 subgraph that doesn't require differentiation use var_no_grad = var.detach().",
            ));
        }
        self.meta().state.lock().requires_grad = requires_grad;
        self.set_key(Key::AUTOGRAD, requires_grad);
        Ok(())
    }

    /// This handle, asking for a gradient: for building leaves.
    ///
    /// # Errors
    /// As [`Tensor::set_requires_grad`].
    pub fn requires_grad_(self, requires_grad: bool) -> Result<Tensor> {
        self.set_requires_grad(requires_grad)?;
        Ok(self)
    }

    /// Whether no operator that autograd recorded computed it.
    pub fn is_leaf(&self) -> bool {
        !self.requires_grad() || self.grad_fn().is_none()
    }

    /// The gradient accumulated by [`Tensor::backward`].
    pub fn grad(&self) -> Option<Tensor> {
        self.0.autograd.get()?.state.lock().grad.clone()
    }

    /// Replaces the accumulated gradient.
    ///
    /// # Errors
    /// When its shape, dtype or device is not the tensor's.
    pub fn set_grad(&self, grad: Option<Tensor>) -> Result<()> {
        if let Some(g) = &grad {
            crate::ensure!(
                g.sizes() == self.sizes(),
                "attempting to assign a gradient of size '{:?}' to a tensor of size '{:?}'. Please ensure that the gradient and the \
                 tensor are the same size",
                g.sizes(),
                self.sizes()
            );
            crate::ensure!(
                g.dtype() == self.dtype(),
                "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient must match the \
                 tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute with a \
                 specific dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and \
                 its gradient may break downstream systems that assume they match.",
                g.dtype().cpp_name(),
                self.dtype().scalar_type_name()
            );
            crate::ensure!(
                g.device().kind == self.device().kind,
                "attempting to assign a gradient with device type '{}' to a tensor with device type '{}'. Please ensure that the \
                 gradient and the tensor are on the same device",
                g.device().kind.name(),
                self.device().kind.name()
            );
        }
        let _old = std::mem::replace(&mut self.meta().state.lock().grad, grad);
        Ok(())
    }

    /// The node of the graph that computed it.
    pub fn grad_fn(&self) -> Option<Arc<Node>> {
        self.refresh_view();
        self.0.history.lock().node.clone()
    }

    /// Which result of its node it is; 0 for a leaf.
    pub fn output_number(&self) -> u32 {
        self.refresh_view();
        self.0.history.lock().output_number
    }

    /// Where a gradient of this tensor goes.
    #[inline(always)]
    pub fn gradient_edge(&self) -> Option<Edge> {
        if !self.requires_grad() {
            return None;
        }
        self.refresh_view();
        if !self.0.has_history.load(Acquire) {
            return Some(Edge::Leaf(self.clone()));
        }
        let history = self.0.history.lock();
        Some(match &history.node {
            Some(node) => Edge::Node { node: node.clone(), input: history.output_number },
            None => Edge::Leaf(self.clone()),
        })
    }

    /// Keeps the gradient of a tensor that is not a leaf, as if it were one.
    ///
    /// # Errors
    /// When it does not require a gradient.
    pub fn retain_grad(&self) -> Result<()> {
        crate::ensure!(self.requires_grad(), "can't retain_grad on Tensor that has requires_grad=False");
        let Some(Edge::Node { node, input }) = self.gradient_edge() else { return Ok(()) };
        if std::mem::replace(&mut self.meta().state.lock().retains_grad, true) {
            return Ok(());
        }
        node.retain_grad(input, self.0.autograd.weak());
        Ok(())
    }

    /// Whether [`Tensor::retain_grad`] was called.
    pub fn retains_grad(&self) -> bool {
        self.0.autograd.get().is_some_and(|m| m.state.lock().retains_grad)
    }

    /// Calls `hook` with every gradient of this tensor; what it returns replaces the gradient.
    ///
    /// # Errors
    /// When it does not require a gradient.
    pub fn register_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        crate::ensure!(self.requires_grad(), "cannot register a hook on a tensor that doesn't require gradient");
        let hook: Hook = Arc::new(hook);
        let id = node::next_id();
        match self.gradient_edge() {
            Some(Edge::Node { node, input }) => {
                node.add_hook(input, id, hook);
                let node = Arc::downgrade(&node);
                Ok(HookHandle(Box::new(move || {
                    if let Some(n) = node.upgrade() {
                        n.remove_hook(id)
                    }
                })))
            }
            _ => {
                self.meta().state.lock().hooks.push((id, hook));
                let meta = self.0.autograd.weak();
                Ok(HookHandle(Box::new(move || {
                    let Some(meta) = meta.upgrade() else { return };
                    let removed = take_where(&mut meta.state.lock().hooks, |(i, _)| *i == id);
                    drop(removed);
                })))
            }
        }
    }

    /// Calls `hook` with this leaf after each time that a gradient was added to its own.
    ///
    /// # Errors
    /// When it is not a leaf that requires a gradient.
    pub fn register_post_accumulate_grad_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        crate::ensure!(self.requires_grad(), "cannot register a hook on a tensor that doesn't require gradient");
        crate::ensure!(self.is_leaf(), "post accumulate grad hooks cannot be registered on non-leaf tensors");
        let id = node::next_id();
        self.meta().state.lock().accumulated.push((id, Arc::new(hook)));
        let meta = self.0.autograd.weak();
        Ok(HookHandle(Box::new(move || {
            let Some(meta) = meta.upgrade() else { return };
            let removed = take_where(&mut meta.state.lock().accumulated, |(i, _)| *i == id);
            drop(removed);
        })))
    }

    /// What a front end has attached to what autograd knows of this tensor, made when first asked for.
    pub fn autograd_attachment(&self, make: impl FnOnce() -> Attachment) -> Attachment {
        if let Some(a) = &self.meta().state.lock().attachment {
            return a.clone();
        }
        let new = make();
        self.meta().state.lock().attachment.get_or_insert(new).clone()
    }

    /// As [`Tensor::autograd_attachment`], if it was made.
    pub fn find_autograd_attachment(&self) -> Option<Attachment> {
        self.0.autograd.get()?.state.lock().attachment.clone()
    }

    /// For a front end's collector of cycles: shows `visit` what would go with this handle, if it is the only one, of what
    /// the front end has attached to the tensor's autograd state and to its node.
    pub fn visit_owned(&self, visit: &mut dyn FnMut(&(dyn Any + Send + Sync))) {
        if self.0.count() != 1 {
            return;
        }
        if let Some(state) = self
            .0
            .autograd
            .get()
            .filter(|_| self.0.autograd.weak().strong_count() == 1)
            .and_then(|m| m.state.try_lock())
            && let Some(a) = &state.attachment
        {
            visit(&**a);
        }
        if let Some(history) = self.0.history.try_lock()
            && let Some(node) = &history.node
        {
            node.visit_owned(1, visit);
        }
    }

    /// Forgets how this tensor was computed and stops asking for its gradient.
    ///
    /// # Errors
    /// For a view.
    pub fn detach_(&self) -> Result<()> {
        crate::ensure!(
            !self.is_view(),
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for \
             training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() \
             cannot be called on these gradients. To fix this error, please refer to the Optimizer.zero_grad() function in \
             torch/optim/optimizer.py as the solution."
        );
        let _old = std::mem::take(&mut *self.0.history.lock());
        self.0.has_history.store(false, Release);
        if let Some(meta) = self.0.autograd.get() {
            let state = &mut meta.state.lock();
            (state.requires_grad, state.retains_grad) = (false, false);
        }
        self.set_key(Key::AUTOGRAD, false);
        Ok(())
    }

    /// The same data without history: gradients do not flow through it. Writes to either are seen by both.
    ///
    /// # Errors
    /// None at present.
    pub fn detach(&self) -> Result<Tensor> {
        let t = self.shallow_detached(true);
        if let (Some(tangent), true) = (self.tangent(), true) {
            t.set_tangent(Some(tangent));
        }
        Ok(t)
    }

    /// The same data without history, and with a version count of its own: writes to it go unnoticed by autograd.
    #[must_use]
    pub fn data(&self) -> Tensor {
        self.shallow_detached(false)
    }

    /// Computes the gradients of this tensor with respect to the graph's leaves and adds them to the leaves' `grad`.
    ///
    /// # Errors
    /// When it has more than one element (use [`backward()`] with a gradient), no graph, or an operator's gradient fails.
    pub fn backward(&self) -> Result<()> {
        backward(std::slice::from_ref(self), &[None], false, false, None)
    }

    /// Like [`Tensor::backward`], starting from `gradient` instead of one.
    ///
    /// # Errors
    /// As [`Tensor::backward`].
    pub fn backward_with(&self, gradient: &Tensor, retain_graph: bool, create_graph: bool) -> Result<()> {
        backward(std::slice::from_ref(self), &[Some(gradient.clone())], retain_graph, create_graph, None)
    }
}

/// Takes elements out, so that they can be dropped after a lock: hooks own what may run code of its own when it goes.
fn take_where<T>(all: &mut Vec<T>, which: impl FnMut(&mut T) -> bool) -> Vec<T> {
    all.extract_if(.., which).collect()
}

/// Removes a hook when asked; dropping the handle keeps the hook.
pub struct HookHandle(Box<dyn FnOnce() + Send + Sync>);

impl HookHandle {
    /// Removes the hook.
    pub fn remove(self) {
        (self.0)()
    }
}

// ---- modes --------------------------------------------------------------------------------------

thread_local! {
    static GRAD_MODE: Cell<bool> = const { Cell::new(true) };
    static INFERENCE: Cell<bool> = const { Cell::new(false) };
}

/// Puts a thread's gradient mode back when dropped.
#[must_use = "the mode changes back when the guard is dropped"]
pub struct GradModeGuard {
    mode: bool,
    inference: bool,
    _keys: KeyGuard,
}

impl Drop for GradModeGuard {
    fn drop(&mut self) {
        GRAD_MODE.set(self.mode);
        INFERENCE.set(self.inference);
    }
}

/// Records history while the guard lives, or not.
pub fn set_grad_enabled(enabled: bool) -> GradModeGuard {
    let keys = KeySet::of(Key::AUTOGRAD);
    let guard = if enabled { KeyGuard::allow(keys) } else { KeyGuard::exclude(keys) };
    GradModeGuard { mode: GRAD_MODE.replace(enabled), inference: INFERENCE.get(), _keys: guard }
}

/// Records history on this thread from now on, or not: [`set_grad_enabled`] for those who cannot keep a guard.
#[inline]
pub fn switch_grad_mode(enabled: bool) {
    GRAD_MODE.set(enabled);
    crate::keys::set_excluded(KeySet::of(Key::AUTOGRAD), !enabled);
}

/// Switches [`inference_mode`] on this thread; whether history is recorded is left to [`switch_grad_mode`].
pub fn switch_inference_mode(enabled: bool) {
    INFERENCE.set(enabled);
}

/// Records no history while the guard lives.
pub fn no_grad() -> GradModeGuard {
    set_grad_enabled(false)
}

/// Records history while the guard lives, also inside [`no_grad`].
pub fn enable_grad() -> GradModeGuard {
    set_grad_enabled(true)
}

/// Records no history while the guard lives, and marks the tensors made meanwhile ([`Tensor::is_inference`]): autograd
/// never meets them again, so nothing has to be counted or checked for it.
pub fn inference_mode() -> GradModeGuard {
    let mut guard = set_grad_enabled(false);
    guard.inference = INFERENCE.replace(true);
    guard
}

/// Whether history is being recorded.
#[inline]
pub fn is_grad_enabled() -> bool {
    GRAD_MODE.get()
}

/// Whether an [`inference_mode`] guard is alive on this thread.
pub fn is_inference_mode_enabled() -> bool {
    INFERENCE.get()
}

static ANOMALY: AtomicBool = AtomicBool::new(false);
static CHECK_NAN: AtomicBool = AtomicBool::new(true);
static REPORTER: OnceLock<&'static dyn AnomalyReporter> = OnceLock::new();

/// Anomaly mode: forward calls remember where they were made, and backward stops at the first gradient with a NaN,
/// naming that place.
pub fn set_anomaly_enabled(enabled: bool) {
    ANOMALY.store(enabled, Relaxed);
}

/// Whether anomaly mode is on.
#[inline]
pub fn is_anomaly_enabled() -> bool {
    ANOMALY.load(Relaxed)
}

/// Whether backward looks for NaNs in anomaly mode.
pub fn set_anomaly_check_nan(check: bool) {
    CHECK_NAN.store(check, Relaxed);
}

/// As set by [`set_anomaly_check_nan`]; at first it does.
pub fn is_anomaly_check_nan_enabled() -> bool {
    CHECK_NAN.load(Relaxed)
}

/// A front end's part in anomaly mode: its programs' places are not in this library's call stack.
pub trait AnomalyReporter: Send + Sync {
    /// Where the program is.
    fn place(&self) -> String;
    /// Tells the user that the node's backward failed, and where its forward call was made.
    fn report(&self, node: &str, place: Option<&str>);
}

/// Installs the front end's reporter, once. Without one, errors name the place in the Rust program.
pub fn set_anomaly_reporter(reporter: &'static dyn AnomalyReporter) {
    let _ = REPORTER.set(reporter);
}

/// Where the program was at some time. (To find the names of a stack's functions takes much longer than to note it.)
pub(crate) enum CallPlace {
    Text(String),
    Stack(Box<std::backtrace::Backtrace>),
}

impl CallPlace {
    #[cold]
    pub(crate) fn now() -> CallPlace {
        match REPORTER.get() {
            Some(r) => CallPlace::Text(r.place()),
            None => CallPlace::Stack(Box::new(std::backtrace::Backtrace::force_capture())),
        }
    }
}

impl std::fmt::Display for CallPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallPlace::Text(text) => f.write_str(text),
            CallPlace::Stack(stack) => stack.fmt(f),
        }
    }
}
