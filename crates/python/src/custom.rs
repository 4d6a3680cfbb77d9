//! Nodes written in Python: what `autograd.Function` stands on.
//!
//! The graph owns a node, the node owns its Python object, and the object knows its node without owning it, so that
//! nothing is left when the graph goes. If a program still holds the object then, the object becomes the owner of what
//! remains of the node ([`CustomNode::orphaned`]): its edges and hooks can still be looked at, and run.

use crate::error::{carry, raise};
use crate::node::{self, Owned};
use crate::object::{bound, tensor_of};
use crate::{hooks, number};
use flambeau::autograd::{CustomNode, Node, TakeRemains, attach, no_grad};
use flambeau::{Error, Tensor};
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};
use std::any::Any;
use std::sync::{Arc, Weak};

/// The Python half as its node in the graph sees it.
pub struct PyFunction {
    object: Object,
    what: Arc<Description>,
}

enum Object {
    Owned(Owned),
    /// The object owns the node: a weak reference to it.
    Owner(Owned),
}

struct Description {
    name: String,
    /// The argument that each edge leads to.
    arguments: Vec<usize>,
    /// Which results are tensors.
    tensors: Vec<bool>,
}

/// The Python half of a custom node.
pub fn function_of(node: &Node) -> Option<&PyFunction> {
    node.custom()?.as_any().downcast_ref()
}

impl PyFunction {
    /// The node's Python object.
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.object {
            Object::Owned(o) => Ok(o.bind(py).clone()),
            Object::Owner(weak) => {
                let weak = weak.bind(py).cast::<PyWeakrefReference>()?;
                weak.upgrade().ok_or_else(|| PyRuntimeError::new_err("a node of the graph has lost its Python object"))
            }
        }
    }

    /// Shows a collector what it owns.
    pub fn each_object(&self, f: &mut dyn FnMut(&Py<PyAny>)) {
        let (Object::Owned(o) | Object::Owner(o)) = &self.object;
        f(o.as_py());
    }

    fn run(&self, py: Python<'_>, node: &Node, grads: &[Option<Tensor>], keep: bool) -> PyResult<Vec<Option<Tensor>>> {
        let object = self.object(py)?;
        let materialize = object.getattr(pyo3::intern!(py, "materialize_grads"))?.is_truthy()?;
        let mut given = Vec::with_capacity(grads.len());
        for (i, g) in grads.iter().enumerate() {
            given.push(match (g, node.input_metadata(i)) {
                (Some(g), _) => bound(py, g.clone())?,
                (None, Some((sizes, dtype, device))) if materialize && self.what.tensors[i] => {
                    bound(py, Tensor::zeros(sizes, (dtype, device)).map_err(raise)?)?
                }
                _ => py.None().into_bound(py),
            });
        }
        let results = object.call_method1(pyo3::intern!(py, "apply"), PyTuple::new(py, given)?)?;
        let Ok(results) = results.cast::<PyTuple>() else {
            return Err(PyTypeError::new_err(format!(
                "apply() of {} returned {} instead of a tuple",
                self.what.name,
                number::type_name(results.as_ptr())
            )));
        };
        let mut out = Vec::with_capacity(self.what.arguments.len());
        for &i in &self.what.arguments {
            out.push(match results.get_item(i) {
                Ok(g) => tensor_of(g.as_ptr()),
                Err(_) => None,
            });
        }
        if !keep {
            object.call_method0(pyo3::intern!(py, "_release"))?;
        }
        Ok(out)
    }
}

impl CustomNode for PyFunction {
    fn name(&self) -> String {
        self.what.name.clone()
    }
    fn backward(&self, node: &Arc<Node>, grads: &[Option<Tensor>], keep: bool) -> Result<Vec<Option<Tensor>>, Error> {
        Python::attach(|py| self.run(py, node, grads, keep)).map_err(carry)
    }
    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }
    fn orphaned(&self) -> Option<TakeRemains> {
        let Object::Owned(object) = &self.object else { return None };
        let (object, weak) = Python::try_attach(|py| {
            let object = object.bind(py);
            // SAFETY: a live object.
            if unsafe { pyo3::ffi::Py_REFCNT(object.as_ptr()) } < 2 {
                return None;
            }
            let weak = PyWeakrefReference::new(object).ok()?;
            let object = object.cast::<PyNode>().ok()?.clone().unbind();
            Some((Owned::new(object.into_bound(py).into_any()), Owned::new(weak.into_any())))
        })??;
        let what = self.what.clone();
        Some(Box::new(move |remains| {
            let node = remains.revive(Box::new(PyFunction { object: Object::Owner(weak), what }));
            Python::try_attach(|py| {
                if let Ok(object) = object.bind(py).cast::<PyNode>() {
                    *object.get().place.lock() = Place::Orphan(node);
                }
            });
        }))
    }
}

/// Where an object's node is.
enum Place {
    /// Forward is still running, or nothing was recorded.
    Nowhere,
    Graph(Weak<Node>),
    /// The graph is gone; the object owns what remains.
    Orphan(Arc<Node>),
}

/// The base class of the nodes of custom functions: `ctx`.
#[pyclass(frozen, subclass, weakref, name = "_PyNode", module = "flambeau._C")]
pub struct PyNode {
    place: Mutex<Place>,
}

impl PyNode {
    /// The node. `what` is what somebody asked of it.
    pub fn node(&self, what: &str) -> PyResult<Arc<Node>> {
        let node = match &*self.place.lock() {
            Place::Nowhere => None,
            Place::Graph(node) => node.upgrade(),
            Place::Orphan(node) => Some(node.clone()),
        };
        node.ok_or_else(|| {
            PyRuntimeError::new_err(format!(
                "Attribute '{what}' is invalid for this instance of _C._FunctionBase. Accessing this attribute directly on \
                 an instance of autograd.Function is a legacy access pattern that is no longer supported. For examples on \
                 how to use new-style autograd functions, see \
                 https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function "
            ))
        })
    }
}

#[pymethods]
impl PyNode {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, pyo3::types::PyDict>>) -> PyNode {
        PyNode { place: Mutex::new(Place::Nowhere) }
    }

    /// Hangs forward's results on this node, if `recording`. `inputs` has a tensor or `None` for each argument, `dirty`
    /// and `constant` are places in `outputs`. Gives the results, the same objects where it can.
    fn _attach<'py>(
        slf: &Bound<'py, Self>,
        inputs: &Bound<'py, PyTuple>,
        outputs: &Bound<'py, PyTuple>,
        dirty: Vec<usize>,
        constant: Vec<usize>,
        recording: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let made: Vec<Option<Tensor>> = outputs.iter().map(|o| tensor_of(o.as_ptr())).collect();
        let arguments: Vec<(usize, Tensor)> =
            inputs.iter().enumerate().filter_map(|(i, o)| Some((i, tensor_of(o.as_ptr())?))).collect();
        let tensors: Vec<Tensor> = arguments.iter().map(|(_, t)| t.clone()).collect();
        let hung = if recording {
            let what = Description {
                name: slf.get_type().name()?.to_string(),
                arguments: arguments.iter().map(|(i, _)| *i).collect(),
                tensors: made.iter().map(Option::is_some).collect(),
            };
            let object = Object::Owned(Owned::new(slf.clone().into_any()));
            let function = Box::new(PyFunction { object, what: Arc::new(what) });
            let edges = tensors.iter().map(Tensor::gradient_edge).collect();
            let (node, hung) = attach(function, edges, &tensors, &made, &dirty, &constant).map_err(raise)?;
            *slf.get().place.lock() = Place::Graph(Arc::downgrade(&node));
            hung
        } else {
            let _mode = no_grad();
            let mut hung = made.clone();
            for (i, y) in hung.iter_mut().enumerate() {
                let Some(t) = y else { continue };
                if dirty.contains(&i) {
                    t.bump_version();
                } else if tensors.iter().any(|x| x.is_same(t)) {
                    *y = Some(t.view_as(t).map_err(raise)?);
                }
            }
            hung
        };
        let mut items = Vec::with_capacity(hung.len());
        for ((before, made), after) in outputs.iter().zip(made).zip(hung) {
            items.push(match (made, after) {
                (Some(made), Some(after)) if !made.is_same(&after) => bound(py, after)?,
                _ => before,
            });
        }
        PyTuple::new(py, items)
    }

    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        node::next_functions(py, &self.node("next_functions")?)
    }
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(node::metadata(py, &self.node("metadata")?))
    }
    #[getter]
    fn _input_metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        node::input_metadata(py, &self.node("_input_metadata")?)
    }
    #[getter]
    fn requires_grad(&self) -> bool {
        self.node("requires_grad").is_ok()
    }
    fn _sequence_nr(&self) -> PyResult<u64> {
        Ok(self.node("_sequence_nr")?.sequence_number())
    }
    fn register_hook<'py>(&self, fn_: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        hooks::register_post_hook(&self.node("register_hook")?, fn_)
    }
    fn register_prehook<'py>(&self, fn_: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        hooks::register_pre_hook(&self.node("register_prehook")?, fn_)
    }
    fn _register_hook_dict(&self, tensor: Bound<'_, PyAny>) -> PyResult<()> {
        hooks::register_dictionary_of(&tensor)
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.place.try_lock().as_deref() {
            Some(Place::Orphan(node)) => node::traverse(node, 1, &visit),
            _ => Ok(()),
        }
    }
}
