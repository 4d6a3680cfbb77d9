//! Views and in-place writes: keeping history right when several tensors share memory.
//!
//! Every view knows its base (never itself a view). An in-place write through a view makes a new history for the base:
//! a `CopySlices` node, which routes the written part's gradient through the operator and the rest straight on. Other
//! views of that base then have an outdated `grad_fn`; they notice by their version and take a new one from the base,
//! as an `as_strided` of it. (The scheme is PyTorch's.)

use super::node::{Expected, Kind, NewNode, Node};
use super::saved::Geometry;
use super::{Grads, History};
use crate::tensor::ViewKind;
use crate::{Error, Result, Tensor};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Whether `t` may be written in place while history is recorded.
pub(super) fn check_in_place(t: &Tensor) -> Result<()> {
    if !super::is_grad_enabled() {
        return Ok(());
    }
    if let Some(base) = t.base() {
        let tracked = t.requires_grad() || base.requires_grad();
        match t.0.view_kind {
            ViewKind::Ordinary => {}
            ViewKind::NoGrad | ViewKind::Inference if !tracked => {}
            kind => return Err(forbidden(t, kind)),
        }
        if base.requires_grad() && base.is_leaf() {
            return Err(Error::runtime(
                "a view of a leaf Variable that requires grad is being used in an in-place operation.",
            ));
        }
    }
    if t.requires_grad() && t.is_leaf() {
        return Err(Error::runtime("a leaf Variable that requires grad is being used in an in-place operation."));
    }
    Ok(())
}

/// What has to be checked before any write, also one that is not recorded.
#[inline]
pub(crate) fn check_untracked_write(t: &Tensor) -> Result<()> {
    if t.is_inference() && !super::is_inference_mode_enabled() {
        return Err(Error::runtime(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal \
             tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.",
        ));
    }
    match t.0.view_kind {
        ViewKind::NoGrad | ViewKind::Inference => check_in_place(t),
        _ => Ok(()),
    }
}

/// Why a view of this kind may not be written.
#[cold]
fn forbidden(t: &Tensor, kind: ViewKind) -> Error {
    let mode = |made: &str, written: &str, block: &str| {
        format!(
            "A view was created in {made} mode and is being modified inplace {written}. Given that this use case is \
             ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace \
             either both inside the {block} block (if you don't want the inplace to be tracked) or both outside (if you \
             want the inplace to be tracked)."
        )
    };
    let origin =
        t.gradient_edge().map_or("a view".into(), |e| format!("Output {} of {}", e.input(), e.node().short_name()));
    Error::runtime(match kind {
        ViewKind::Inference => mode("inference", "in normal mode", "inference_mode"),
        ViewKind::NoGrad | ViewKind::Ordinary => mode("no_grad", "with grad mode enabled", "no_grad"),
        ViewKind::MultiOutput => format!(
            "{origin} is a view and is being modified inplace. This view is the output of a function that returns \
             multiple views. Such functions do not allow the output views to be modified inplace. You should replace the \
             inplace operation by an out-of-place one."
        ),
        ViewKind::CustomFunction => format!(
            "{origin} is a view and is being modified inplace. This view was created inside a custom Function (or because \
             an input was returned as-is) and the autograd logic to handle view+inplace would override the custom backward \
             associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix \
             this by cloning the output of the custom Function."
        ),
    })
}

/// Gives a tensor that `node` has just written, as this result of its call, its new history.
pub(super) fn rebase_history(t: &Tensor, node: Arc<Node>, output: u32) -> Result<()> {
    let Some(base) = t.base() else {
        t.move_history(node, output);
        return Ok(());
    };
    // The written view's edge is the node's first; the base takes its place.
    let mut edges = node.edges.clone();
    if edges.is_empty() {
        edges.push(None);
    }
    edges[0] = base.gradient_edge();
    let body = CopySlices { base: Geometry::of(base), view: Geometry::of(t), node };
    let mut copy = NewNode::new(Kind::CopySlices(Box::new(body)));
    let parts = copy.parts();
    parts.edges = edges;
    parts.expected.push(Expected::of(base));
    base.move_history(copy.finish(), 0);
    // The view's own history now comes from the base.
    let _old = std::mem::take(&mut *t.0.history.lock());
    t.set_key(crate::Key::AUTOGRAD, true);
    t.0.view_version.store(t.version().wrapping_sub(1), Relaxed);
    Ok(())
}

impl Tensor {
    /// Brings the history of a view up to date with its base's.
    #[inline(always)]
    pub(crate) fn refresh_view(&self) {
        if let Some(base) = self.base() {
            self.refresh_view_of(base);
        }
    }

    fn refresh_view_of(&self, base: &Tensor) {
        let version = self.version();
        if self.0.view_version.load(Relaxed) == version
            || matches!(self.0.view_kind, ViewKind::NoGrad | ViewKind::Inference)
            || !base.requires_grad()
        {
            return;
        }
        let _grad = super::enable_grad();
        let again = self.dtype().is_differentiable().then(|| slice_of(base, &Geometry::of(self)));
        if let Some(Ok(view)) = again {
            let History { node, output_number } = std::mem::take(&mut *view.0.history.lock());
            if let Some(node) = node {
                self.move_history(node, output_number);
            }
        }
        self.0.view_version.store(version, Relaxed);
    }
}

/// The part of `base` that a view of the given geometry covers, as a recorded view.
fn slice_of(base: &Tensor, view: &Geometry) -> Result<Tensor> {
    let base = match (base.dtype().is_complex(), view.dtype.is_complex()) {
        (true, false) => base.view_as_real()?,
        (false, true) => base.view_as_complex()?,
        _ => base.clone(),
    };
    base.as_strided(&view.sizes, &view.strides, Some(view.storage_offset))
}

/// See the module's first lines.
pub(crate) struct CopySlices {
    base: Geometry,
    view: Geometry,
    /// The operator that wrote, as if the view were all there is.
    node: Arc<Node>,
}

impl CopySlices {
    pub fn apply(&self, me: &Arc<Node>, grads: &Grads, keep: bool) -> Result<Grads> {
        let mut out: Grads = SmallVec::from_elem(None, me.edges.len());
        let Some(g) = &grads[0] else { return Ok(out) };
        // A copy of the gradient in the base's own geometry, so that the view's strides fit it.
        let whole = Tensor::empty_strided(&self.base.sizes, &self.base.strides, (g.dtype(), g.device()))?;
        whole.copy_(g)?;
        let mut view = self.view.clone();
        // The copy's storage starts where the base does.
        let scale = |offset: i64, from: crate::DType| offset * from.size() as i64;
        let bytes = scale(view.storage_offset, view.dtype) - scale(self.base.storage_offset, self.base.dtype);
        view.storage_offset = bytes / view.dtype.size() as i64;
        let part = slice_of(&whole, &view)?;
        let mut inner: Grads = SmallVec::from_elem(None, self.node.expected.len().max(1));
        inner[0] = Some(part.clone_in(crate::MemoryFormat::Contiguous)?);
        let results = self.node.apply(&inner, keep)?;
        for (i, r) in results.into_iter().enumerate() {
            if i == 0 {
                match r {
                    Some(r) => part.copy_(&r)?,
                    None => part.zero_()?,
                };
            } else {
                out[i] = r;
            }
        }
        if me.edges[0].is_some() {
            out[0] = Some(whole);
        }
        Ok(out)
    }
}
