//! Custom functions: a forward computation with a backward of the user's own.

use super::node::{Edge, Expected, Kind, NewNode, Node, Remains};
use super::saved::{Saved, SavedRef, SavedTensor, SavedValue};
use super::view::rebase_history;
use super::{FromSaved, no_grad};
use crate::tensor::ViewKind;
use crate::{Error, Result, Tensor};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// A forward computation with a backward of its own; [`apply`] runs it.
///
/// ```
/// use flambeau::autograd::{Function, FunctionContext, apply};
/// use flambeau::{Result, Tensor};
/// struct Square;
/// impl Function for Square {
///     fn forward(&self, context: &mut FunctionContext, x: &[Tensor]) -> Result<Vec<Tensor>> {
///         context.save_for_backward(&x[..1]);
///         Ok(vec![x[0].mul(&x[0])?])
///     }
///     fn backward(&self, context: &FunctionContext, g: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
///         let x = &context.saved_tensors()?[0];
///         Ok(vec![g[0].as_ref().map(|g| g.mul(x)?.mul(2.0)).transpose()?])
///     }
/// }
/// # fn main() -> Result<()> {
/// let x = Tensor::from_slice(&[3.0f64])?.requires_grad_(true)?;
/// apply(Square, &[x.clone()])?[0].sum()?.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [6.0]);
/// # Ok(())
/// # }
/// ```
pub trait Function: Send + Sync + 'static {
    /// Computes the results; runs without recording. What backward needs goes into the context.
    ///
    /// # Errors
    /// The function's own.
    fn forward(&self, context: &mut FunctionContext, inputs: &[Tensor]) -> Result<Vec<Tensor>>;

    /// The gradients of the inputs from those of the results (`None`: nothing depends on that result). Recorded like
    /// any other computation when the caller asks for a graph of the gradients.
    ///
    /// # Errors
    /// The function's own.
    fn backward(&self, context: &FunctionContext, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>;

    /// The node's name.
    fn name(&self) -> String {
        let full = std::any::type_name::<Self>();
        format!("{}Backward", full.rsplit("::").next().unwrap_or(full))
    }
}

/// What a custom function keeps from forward to backward.
#[derive(Default)]
pub struct FunctionContext {
    to_save: Vec<Tensor>,
    non_differentiable: Vec<usize>,
    dirty: Vec<usize>,
    /// Anything else.
    pub data: Option<Box<dyn Any + Send + Sync>>,
    saved: Saved,
    node: Option<Arc<Node>>,
    needs: Vec<bool>,
}

impl FunctionContext {
    /// Keeps tensors for backward, noticing if they are modified meanwhile. Replaces what was kept before.
    pub fn save_for_backward(&mut self, tensors: &[Tensor]) {
        self.to_save = tensors.to_vec();
    }
    /// Says that a result (by handle) gets no gradient.
    pub fn mark_non_differentiable(&mut self, t: &Tensor) {
        self.non_differentiable.push(t.id());
    }
    /// Says that an input (by handle) was written in place and is returned.
    pub fn mark_dirty(&mut self, t: &Tensor) {
        self.dirty.push(t.id());
    }
    /// The tensors kept.
    ///
    /// # Errors
    /// When one was modified in place since.
    pub fn saved_tensors(&self) -> Result<Vec<Tensor>> {
        let node = self.node.as_ref().ok_or_else(|| Error::runtime("saved tensors are there in backward only"))?;
        self.saved.values.iter().map(|value| Tensor::from_saved(SavedRef { value, node })).collect()
    }
    /// Whether anybody wants the gradient of input `i`.
    pub fn needs_input_grad(&self, i: usize) -> bool {
        self.needs.get(i).copied().unwrap_or(false)
    }
}

/// A node whose backward is not an operator's: a custom function's, or a front end's. See [`attach`].
pub trait CustomNode: Send + Sync {
    /// Its name.
    fn name(&self) -> String;

    /// The gradients of the inputs, one for each edge, from those of the results. Unless `keep`, what it saved is not
    /// needed again.
    ///
    /// # Errors
    /// Its own.
    fn backward(&self, node: &Arc<Node>, grads: &[Option<Tensor>], keep: bool) -> Result<Vec<Option<Tensor>>>;

    /// Itself, for whoever made it.
    fn as_any(&self) -> &(dyn Any + Send + Sync);

    /// Asked when the last handle to the node goes: what to do with its remains, if a program still sees it.
    fn orphaned(&self) -> Option<TakeRemains> {
        None
    }
}

/// Takes over what is left of a node: see [`CustomNode::orphaned`].
pub type TakeRemains = Box<dyn FnOnce(Remains<'_>)>;

struct Custom<F> {
    function: F,
    context: parking_lot::Mutex<FunctionContext>,
    needs: Vec<bool>,
}

impl<F: Function> CustomNode for Custom<F> {
    fn name(&self) -> String {
        self.function.name()
    }
    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }
    fn backward(&self, node: &Arc<Node>, grads: &[Option<Tensor>], keep: bool) -> Result<Vec<Option<Tensor>>> {
        let context = FunctionContext {
            saved: node.take_saved(keep)?,
            node: Some(node.clone()),
            needs: self.needs.clone(),
            data: self.context.lock().data.take(),
            ..Default::default()
        };
        let result = self.function.backward(&context, grads);
        self.context.lock().data = context.data;
        let out = result?;
        if out.len() != node.edges.len() {
            return Err(Error::runtime(format!(
                "function {} returned an incorrect number of gradients (expected {}, got {})",
                self.name(),
                node.edges.len(),
                out.len()
            )));
        }
        Ok(out)
    }
}

/// Runs a custom function, recording it as one node.
///
/// # Errors
/// Whatever the function gives.
pub fn apply<F: Function>(function: F, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut context = FunctionContext::default();
    let outputs = {
        let _mode = no_grad();
        function.forward(&mut context, inputs)?
    };
    let edges: SmallVec<[Option<Edge>; 3]> = inputs.iter().map(Tensor::gradient_edge).collect();
    if !super::is_grad_enabled() || edges.iter().all(Option::is_none) {
        return Ok(outputs);
    }
    let needs = edges.iter().map(Option::is_some).collect();
    let places =
        |ids: Vec<usize>| -> Vec<usize> { (0..outputs.len()).filter(|i| ids.contains(&outputs[*i].id())).collect() };
    let constant = places(std::mem::take(&mut context.non_differentiable));
    let dirty = places(std::mem::take(&mut context.dirty));
    let to_save = std::mem::take(&mut context.to_save);
    let custom = Custom { function, context: parking_lot::Mutex::new(context), needs };
    let outputs: Vec<Option<Tensor>> = outputs.into_iter().map(Some).collect();
    let (node, results) = attach(Box::new(custom), edges, inputs, &outputs, &dirty, &constant)?;
    let values = to_save
        .iter()
        .map(|t| {
            let number = outputs.iter().position(|y| y.as_ref().is_some_and(|y| y.is_same(t)));
            Ok(SavedValue::Tensor(match number {
                Some(i) => SavedTensor::output(t, i as u32)?,
                None => SavedTensor::input(t)?,
            }))
        })
        .collect::<Result<_>>()?;
    node.state.lock().saved = Some(Saved { values });
    Ok(results.into_iter().flatten().collect())
}

/// Makes a node with these edges and hangs the results of a call on it, made without recording. Those in `dirty` are
/// inputs that the call wrote; those in `constant` get no gradient; `None` stands for what is no tensor. Gives the node,
/// and the results: an input that comes back unwritten is a view of itself.
///
/// # Errors
/// When a written input may not be written.
pub fn attach(
    function: Box<dyn CustomNode>,
    edges: SmallVec<[Option<Edge>; 3]>,
    inputs: &[Tensor],
    outputs: &[Option<Tensor>],
    dirty: &[usize],
    constant: &[usize],
) -> Result<(Arc<Node>, Vec<Option<Tensor>>)> {
    for &i in dirty {
        let Some(y) = &outputs[i] else { continue };
        if y.requires_grad() && y.is_leaf() && y.base().is_none() {
            return Err(Error::runtime("a leaf Variable that requires grad has been used in an in-place operation."));
        }
        if y.is_view() && outputs.len() > 1 {
            return Err(Error::runtime(
                "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return \
                 more than one Tensor. This is not supported by the current autograd engine. You should either make sure \
                 the input is not a view (using .clone() for example) or make your Function only return one Tensor \
                 (potentially splitting it into two Functions: one doing the inplace that returns a single Tensor and a \
                 second one that does the other operations). You can ask on the forum https://discuss.pytorch.org/ if you \
                 need help to do this change.",
            ));
        }
        super::view::check_in_place(y)?;
    }
    let mut node = NewNode::new(Kind::Function(function));
    let parts = node.parts();
    parts.edges = edges;
    parts.expected = outputs.iter().map(|y| y.as_ref().map_or_else(Expected::nothing, Expected::of)).collect();
    let node = node.finish();
    let mut results = Vec::with_capacity(outputs.len());
    for (i, y) in outputs.iter().enumerate() {
        let Some(y) = y else {
            results.push(None);
            continue;
        };
        let is_input = inputs.iter().any(|x| x.is_same(y));
        let is_dirty = dirty.contains(&i);
        if is_dirty {
            y.bump_version();
        }
        let whole = || y.make_view(y.0.sizes.clone(), y.0.strides.clone(), y.storage_offset());
        results.push(Some(if constant.contains(&i) || !y.dtype().is_differentiable() {
            match (y.requires_grad(), is_input && !is_dirty) {
                (false, _) => y.clone(),
                (true, true) => y.shallow_detached(true),
                (true, false) => {
                    y.detach_()?;
                    y.clone()
                }
            }
        } else if is_dirty {
            rebase_history(y, node.clone(), i as u32)?;
            y.clone()
        } else {
            let y = match is_input || y.is_view() {
                true if outputs.len() > 1 => whole().with_view_kind(ViewKind::MultiOutput),
                true => whole().with_view_kind(ViewKind::CustomFunction),
                false => y.clone(),
            };
            y.set_history(node.clone(), i as u32);
            y
        }));
    }
    Ok((node, results))
}
