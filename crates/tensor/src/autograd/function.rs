//! Custom functions: a forward computation with a backward of the user's own.

use super::node::{Edge, Expected, Kind, NewNode, Node};
use super::saved::{Saved, SavedRef, SavedTensor, SavedValue};
use super::{FromSaved, Grads, no_grad};
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

/// A custom function as a node sees it.
pub(crate) trait NodeFunction: Send + Sync {
    fn name(&self) -> String;
    fn backward(&self, node: &Arc<Node>, saved: &Saved, grads: &Grads) -> Result<Grads>;
}

struct Custom<F> {
    function: F,
    context: parking_lot::Mutex<FunctionContext>,
    needs: Vec<bool>,
}

impl<F: Function> NodeFunction for Custom<F> {
    fn name(&self) -> String {
        self.function.name()
    }
    fn backward(&self, node: &Arc<Node>, saved: &Saved, grads: &Grads) -> Result<Grads> {
        let context = FunctionContext {
            saved: saved.clone(),
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
        Ok(out.into())
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
    let expected = outputs.iter().map(Expected::of).collect();
    let needs = edges.iter().map(Option::is_some).collect();
    // A result that is an input itself gets a handle of its own; a written input takes the new history.
    let outputs: Vec<Tensor> = outputs
        .into_iter()
        .map(|y| match inputs.iter().any(|x| x.is_same(&y)) && !context.dirty.contains(&y.id()) {
            true => y.shallow_detached(true),
            false if y.is_view() => y.with_view_kind(ViewKind::CustomFunction),
            false => y,
        })
        .collect();
    let number = |t: &Tensor| outputs.iter().position(|y| y.is_same(t));
    let values = std::mem::take(&mut context.to_save)
        .iter()
        .map(|t| {
            Ok(SavedValue::Tensor(match number(t) {
                Some(i) => SavedTensor::output(t, i as u32),
                None => SavedTensor::input(t)?,
            }))
        })
        .collect::<Result<_>>()?;
    let skip = std::mem::take(&mut context.non_differentiable);
    let custom = Custom { function, context: parking_lot::Mutex::new(context), needs };
    let mut node = NewNode::new(Kind::Function(Box::new(custom)));
    let parts = node.parts();
    (parts.edges, parts.expected) = (edges, expected);
    parts.state.get_mut().saved = Some(Saved { values });
    let node = node.finish();
    for (i, y) in outputs.iter().enumerate() {
        if y.dtype().is_differentiable() && !skip.contains(&y.id()) {
            y.set_history(node.clone(), i as u32);
        }
    }
    Ok(outputs)
}
