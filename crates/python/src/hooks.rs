//! Hooks of tensors and nodes: dictionaries of Python functions, one Rust hook for each dictionary.

use crate::error::{carry, raise};
use crate::node::{Attached, Owned, attached, attached_to_leaf, find_attached_to_leaf};
use crate::number::type_name;
use crate::object::{bound, tensor_of};
use flambeau::autograd::{Edge, Node};
use flambeau::{Error, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use std::sync::Arc;

static DICTIONARY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static HANDLE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

fn new_dictionary(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    DICTIONARY.import(py, "collections", "OrderedDict")?.call0()
}

/// Puts a hook into its dictionary; the handle that removes it.
fn insert<'py>(dictionary: &Bound<'py, PyAny>, hook: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let handle = HANDLE.import(dictionary.py(), "flambeau.utils.hooks", "RemovableHandle")?.call1((dictionary,))?;
    dictionary.set_item(handle.getattr("id")?, hook)?;
    Ok(handle)
}

/// The functions in a dictionary, as they are now.
fn functions<'py>(dictionary: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    dictionary.call_method0("values")?.try_iter()?.collect()
}

/// A hook's name in messages.
fn hook_name(hook: &Bound<'_, PyAny>) -> String {
    hook.getattr("__name__").map_or_else(|_| "<unknown>".into(), |n| n.to_string())
}

/// Checks that what a hook returned can take a gradient's place.
fn checked(hook: &Bound<'_, PyAny>, old: Option<&Tensor>, new: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    if new.is_none() {
        return Ok(None);
    }
    let Some(old) = old else {
        return Err(PyRuntimeError::new_err("can't replace a None gradient with a non-None value"));
    };
    let Some(t) = tensor_of(new.as_ptr()) else {
        return Err(PyTypeError::new_err(format!(
            "expected Variable, but hook returned '{}'",
            type_name(new.as_ptr())
        )));
    };
    if t.dtype() != old.dtype() || t.device().kind != old.device().kind {
        return Err(PyRuntimeError::new_err(format!(
            "hook '{}' has changed the type of value (was torch.{}Tensor got torch.{}Tensor)",
            hook_name(hook),
            old.dtype().scalar_type_name(),
            t.dtype().scalar_type_name()
        )));
    }
    if t.sizes() != old.sizes() {
        return Err(PyRuntimeError::new_err(format!("hook '{}' has changed the size of value", hook_name(hook))));
    }
    Ok(Some(t))
}

/// Runs a tensor's hooks on its gradient.
fn run_tensor_hooks(attached: &Attached, number: u32, g: &Tensor) -> Result<Option<Tensor>, Error> {
    let run = |py: Python<'_>| -> PyResult<Option<Tensor>> {
        let Some(dictionary) = tensor_dictionary(py, attached, number) else { return Ok(None) };
        let mut now: Option<Tensor> = None;
        for hook in functions(&dictionary)? {
            let old = now.as_ref().unwrap_or(g);
            let result = hook.call1((bound(py, old.clone())?,))?;
            if let Some(new) = checked(&hook, Some(old), &result)? {
                now = Some(new);
            }
        }
        Ok(now)
    };
    Python::attach(run).map_err(carry)
}

fn tensor_dictionary<'py>(py: Python<'py>, attached: &Attached, number: u32) -> Option<Bound<'py, PyAny>> {
    let parts = attached.parts.lock();
    let (_, dictionary) = parts.tensor_hooks.iter().find(|(n, _)| *n == number)?;
    dictionary.as_ref().map(|d| d.bind(py).clone())
}

/// The place of a tensor's hooks: with its node, or its own if it is a leaf.
fn place(t: &Tensor) -> (Arc<Attached>, u32) {
    match t.gradient_edge() {
        Some(Edge::Node { node, input }) => (attached(&node), input),
        _ => (attached_to_leaf(t), 0),
    }
}

/// `_backward_hooks`.
pub fn backward_hooks<'py>(py: Python<'py>, t: &Tensor) -> Option<Bound<'py, PyAny>> {
    if !t.requires_grad() {
        return None;
    }
    let (attached, number) = match t.gradient_edge() {
        Some(Edge::Node { node, input }) => (attached(&node), input),
        _ => (find_attached_to_leaf(t)?, 0),
    };
    tensor_dictionary(py, &attached, number)
}

/// `_backward_hooks = dictionary`, or none of them.
pub fn set_backward_hooks(t: &Tensor, dictionary: Option<Bound<'_, PyAny>>) -> PyResult<()> {
    if !t.requires_grad() {
        return match dictionary {
            None => Ok(()),
            Some(_) => Err(no_gradient()),
        };
    }
    let (attached, number) = place(t);
    let new = dictionary.map(Owned::new);
    let mut parts = attached.parts.lock();
    let known = parts.tensor_hooks.iter_mut().find(|(n, _)| *n == number);
    let (_old, is_known) = match known {
        Some((_, place)) => (std::mem::replace(place, new), true),
        None => {
            parts.tensor_hooks.push((number, new));
            (None, false)
        }
    };
    drop(parts);
    if !is_known {
        t.register_hook(move |g: &Tensor| run_tensor_hooks(&attached, number, g)).map_err(raise)?;
    }
    Ok(())
}

fn no_gradient() -> PyErr {
    PyRuntimeError::new_err("cannot register a hook on a tensor that doesn't require gradient")
}

/// `x.register_hook(hook)`.
pub fn register_hook<'py>(t: &Tensor, hook: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = hook.py();
    if !t.requires_grad() {
        return Err(no_gradient());
    }
    let dictionary = match backward_hooks(py, t) {
        Some(d) => d,
        None => {
            let new = new_dictionary(py)?;
            set_backward_hooks(t, Some(new.clone()))?;
            new
        }
    };
    insert(&dictionary, hook)
}

/// `node._register_hook_dict(tensor)`: the tensor's dictionary is with its node already.
pub fn register_dictionary_of(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    match tensor_of(tensor.as_ptr()) {
        Some(_) => Ok(()),
        None => Err(PyTypeError::new_err("_register_hook_dict expected a Tensor")),
    }
}

/// `_post_accumulate_grad_hooks`.
pub fn accumulated_hooks<'py>(py: Python<'py>, t: &Tensor) -> Option<Bound<'py, PyAny>> {
    find_attached_to_leaf(t)?.parts.lock().accumulated.as_ref().map(|d| d.bind(py).clone())
}

/// `x.register_post_accumulate_grad_hook(hook)`.
pub fn register_accumulated_hook<'py>(t: &Tensor, hook: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = hook.py();
    let dictionary = match accumulated_hooks(py, t) {
        Some(d) => d,
        None => {
            let new = new_dictionary(py)?;
            let attached = attached_to_leaf(t);
            let mine = attached.clone();
            t.register_post_accumulate_grad_hook(move |t| run_accumulated_hooks(&mine, t)).map_err(raise)?;
            let _old = attached.parts.lock().accumulated.replace(Owned::new(new.clone()));
            new
        }
    };
    insert(&dictionary, hook)
}

fn run_accumulated_hooks(attached: &Attached, leaf: &Tensor) -> Result<(), Error> {
    let run = |py: Python<'_>| -> PyResult<()> {
        let dictionary = attached.parts.lock().accumulated.as_ref().map(|d| d.bind(py).clone());
        let Some(dictionary) = dictionary else { return Ok(()) };
        for hook in functions(&dictionary)? {
            let result = hook.call1((bound(py, leaf.clone())?,))?;
            // A hook that ends with an operation in place returns the tensor itself.
            match tensor_of(result.as_ptr()) {
                _ if result.is_none() => {}
                Some(t) if t.is_same(leaf) => {}
                Some(_) => {
                    return Err(PyRuntimeError::new_err("Tensor post accumulate grad hooks should return None."));
                }
                None => {
                    let got = type_name(result.as_ptr());
                    return Err(PyTypeError::new_err(format!("expected Variable, but hook returned '{got}'")));
                }
            }
        }
        Ok(())
    };
    Python::attach(run).map_err(carry)
}

// ---- hooks of nodes --------------------------------------------------------------------------------

/// Gradients as a tuple of tensors and `None`.
fn tuple<'py>(py: Python<'py>, grads: &[Option<Tensor>]) -> PyResult<Bound<'py, PyTuple>> {
    let mut items = Vec::with_capacity(grads.len());
    for g in grads {
        items.push(match g {
            Some(g) => bound(py, g.clone())?,
            None => py.None().into_bound(py),
        });
    }
    PyTuple::new(py, items)
}

/// Runs a node's hooks; `call` calls one with the gradients as they are now.
fn run_node_hooks<'py>(
    py: Python<'py>,
    dictionary: Option<Bound<'py, PyAny>>,
    grads: &[Option<Tensor>],
    call: impl Fn(&Bound<'py, PyAny>, Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Option<Vec<Option<Tensor>>>> {
    let Some(dictionary) = dictionary else { return Ok(None) };
    let mut now: Option<Vec<Option<Tensor>>> = None;
    for hook in functions(&dictionary)? {
        let old = now.as_deref().unwrap_or(grads);
        let result = call(&hook, tuple(py, old)?)?;
        if result.is_none() {
            continue;
        }
        let Ok(result) = result.cast::<PyTuple>() else {
            let text = format!("expected tuple, but hook returned '{}'", type_name(result.as_ptr()));
            return Err(PyTypeError::new_err(text));
        };
        if result.len() != old.len() {
            return Err(PyRuntimeError::new_err(format!(
                "hook '{}' has returned an incorrect number of values (got {}, but expected {})",
                hook_name(&hook),
                result.len(),
                old.len()
            )));
        }
        let new = result.iter().zip(old).map(|(r, old)| checked(&hook, old.as_ref(), &r));
        let new = new.collect::<PyResult<Vec<_>>>()?;
        now = Some(new);
    }
    Ok(now)
}

/// `node.register_prehook(hook)`.
pub fn register_pre_hook<'py>(node: &Arc<Node>, hook: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = hook.py();
    let attached = attached(node);
    let known = attached.parts.lock().pre_hooks.as_ref().map(|d| d.bind(py).clone());
    let dictionary = match known {
        Some(d) => d,
        None => {
            let new = new_dictionary(py)?;
            let _old = attached.parts.lock().pre_hooks.replace(Owned::new(new.clone()));
            node.register_prehook(move |grads| {
                let run = |py: Python<'_>| {
                    let dictionary = attached.parts.lock().pre_hooks.as_ref().map(|d| d.bind(py).clone());
                    run_node_hooks(py, dictionary, grads, |hook, grads| hook.call1((grads,)))
                };
                Python::attach(run).map_err(carry)
            });
            new
        }
    };
    insert(&dictionary, hook)
}

/// `node.register_hook(hook)`.
pub fn register_post_hook<'py>(node: &Arc<Node>, hook: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = hook.py();
    let attached = attached(node);
    let known = attached.parts.lock().post_hooks.as_ref().map(|d| d.bind(py).clone());
    let dictionary = match known {
        Some(d) => d,
        None => {
            let new = new_dictionary(py)?;
            let _old = attached.parts.lock().post_hooks.replace(Owned::new(new.clone()));
            node.register_hook(move |results, given| {
                let run = |py: Python<'_>| {
                    let dictionary = attached.parts.lock().post_hooks.as_ref().map(|d| d.bind(py).clone());
                    let given = tuple(py, given)?;
                    run_node_hooks(py, dictionary, results, |hook, grads| hook.call1((grads, &given)))
                };
                Python::attach(run).map_err(carry)
            });
            new
        }
    };
    insert(&dictionary, hook)
}
