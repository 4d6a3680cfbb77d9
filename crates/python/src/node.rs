//! Nodes of the graph as Python objects, and what Python hangs on nodes and tensors.

use crate::error::raise;
use crate::hooks;
use crate::object::{Wrapped, bound, tensor_of};
use flambeau::Tensor;
use flambeau::autograd::{Attachment, Edge, Node};
use flambeau::value::OwnedValue;
use parking_lot::Mutex;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType, PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};
use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A Python object owned by something of Rust that may be dropped on any thread, with or without the interpreter's lock:
/// it is let go of at once, not when Python code runs next.
pub struct Owned(ManuallyDrop<Py<PyAny>>);

impl Owned {
    /// Owns the object.
    pub fn new(object: Bound<'_, PyAny>) -> Owned {
        Owned(ManuallyDrop::new(object.unbind()))
    }
    /// The object.
    pub fn bind<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.0.bind(py)
    }
    /// The object, for a collector.
    pub fn as_py(&self) -> &Py<PyAny> {
        &self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: not used after this.
        let object = unsafe { ManuallyDrop::take(&mut self.0) };
        // When the interpreter is gone, so is what there was to free.
        let _ = Python::try_attach(|py| drop(object.into_bound(py)));
    }
}

/// What Python hangs on a node, or on what autograd knows of a tensor.
#[derive(Default)]
pub struct Attached {
    /// What there is.
    pub parts: Mutex<Parts>,
}

/// See [`Attached`].
#[derive(Default)]
pub struct Parts {
    /// A weak reference to the node's Python object.
    object: Option<Owned>,
    metadata: Option<Owned>,
    /// Dictionaries of hooks: those of each result of the node (or of the leaf) that ever had hooks.
    pub tensor_hooks: Vec<(u32, Option<Owned>)>,
    /// The node's own, before it runs.
    pub pre_hooks: Option<Owned>,
    /// The node's own, after it ran.
    pub post_hooks: Option<Owned>,
    /// A leaf's, after its gradient has grown.
    pub accumulated: Option<Owned>,
}

fn new_attachment() -> Attachment {
    Arc::new(Attached::default())
}

fn downcast(attachment: Attachment) -> Arc<Attached> {
    // Nobody else attaches anything.
    attachment.downcast::<Attached>().unwrap_or_default()
}

/// What hangs on a node.
pub fn attached(node: &Node) -> Arc<Attached> {
    downcast(node.attachment(new_attachment))
}

/// What hangs on a leaf.
pub fn attached_to_leaf(leaf: &Tensor) -> Arc<Attached> {
    downcast(leaf.autograd_attachment(new_attachment))
}

/// What hangs on a leaf, if anything does.
pub fn find_attached_to_leaf(leaf: &Tensor) -> Option<Arc<Attached>> {
    leaf.find_autograd_attachment().map(downcast)
}

/// Shows a collector of cycles the Python objects within something that Rust code owns.
pub fn each_object(owner: &(dyn Any + Send + Sync), f: &mut dyn FnMut(&Py<PyAny>)) {
    if let Some(attached) = owner.downcast_ref::<Attached>()
        && let Some(parts) = attached.parts.try_lock()
    {
        let hooks = parts.tensor_hooks.iter().filter_map(|(_, o)| o.as_ref());
        let single = [&parts.object, &parts.metadata, &parts.pre_hooks, &parts.post_hooks, &parts.accumulated];
        hooks.chain(single.into_iter().flatten()).for_each(|o| f(o.as_py()));
    } else if let Some(function) = owner.downcast_ref::<crate::custom::PyFunction>() {
        function.each_object(f);
    }
}

/// The same for a node's Python object, which has one of `handles` handles to the node.
pub fn traverse(node: &Arc<Node>, handles: usize, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
    let mut result = Ok(());
    node.visit_owned(handles, &mut |owner| {
        each_object(owner, &mut |object| {
            if result.is_ok() {
                result = visit.call(object);
            }
        });
    });
    result
}

/// A node of the graph. Its class is a subclass called as the node is: `MulBackward0`.
#[pyclass(frozen, subclass, weakref, name = "Node", module = "flambeau._C")]
pub struct NodeObject {
    /// The node.
    pub node: Arc<Node>,
}

thread_local! {
    /// The node whose object is being made.
    static NEW: RefCell<Option<Arc<Node>>> = const { RefCell::new(None) };
}

/// The classes of nodes by name.
static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    if let Some(class) = classes.get_item(name)? {
        return Ok(class);
    }
    let contents = PyDict::new(py);
    contents.set_item("__slots__", PyTuple::empty(py))?;
    contents.set_item("__module__", "builtins")?;
    let bases = (PyType::new::<NodeObject>(py),);
    let class = py.get_type::<PyType>().call1((name, bases, contents))?;
    classes.set_item(name, &class)?;
    Ok(class)
}

/// The Python object of a node: the one that there is, or a new one.
pub fn object_of<'py>(py: Python<'py>, node: &Arc<Node>) -> PyResult<Bound<'py, PyAny>> {
    if let Some(function) = crate::custom::function_of(node) {
        return function.object(py);
    }
    let attached = attached(node);
    let known = attached.parts.lock().object.as_ref().map(|o| o.bind(py).clone());
    if let Some(object) = known.and_then(|k| k.cast_into::<PyWeakrefReference>().ok()?.upgrade()) {
        return Ok(object);
    }
    NEW.set(Some(node.clone()));
    let object = class(py, &node.name()).and_then(|c| c.call0());
    NEW.set(None);
    let object = object?;
    let weak = Owned::new(PyWeakrefReference::new(&object)?.into_any());
    let _old = attached.parts.lock().object.replace(weak);
    Ok(object)
}

/// The node of a Python object.
pub fn node_of(object: &Bound<'_, PyAny>) -> PyResult<Arc<Node>> {
    if let Ok(n) = object.cast::<NodeObject>() {
        return Ok(n.get().node.clone());
    }
    match object.cast::<crate::custom::PyNode>() {
        Ok(n) => n.get().node("node"),
        Err(_) => Err(PyTypeError::new_err(format!(
            "expected a node of the graph, not {}",
            crate::number::type_name(object.as_ptr())
        ))),
    }
}

/// The edge that a tensor or a `GradientEdge` stands for.
pub fn edge_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Edge>> {
    if let Some(t) = tensor_of(object.as_ptr()) {
        return Ok(t.gradient_edge());
    }
    let Ok(node) = object.getattr("node") else {
        return Err(pyo3::exceptions::PyRuntimeError::new_err(format!(
            "all inputs have to be Tensors or GradientEdges, but got {}",
            crate::number::type_name(object.as_ptr())
        )));
    };
    let node = node_of(&node)?;
    Edge::to(node, object.getattr("output_nr")?.extract()?).map(Some).map_err(raise)
}

// ---- what nodes of all kinds have ------------------------------------------------------------------

/// Pairs of a node and a result's number, or of `None` and 0.
pub fn next_functions<'py>(py: Python<'py>, node: &Arc<Node>) -> PyResult<Bound<'py, PyTuple>> {
    let mut items = Vec::new();
    for next in node.next_nodes() {
        items.push(match next {
            Some((node, input)) => (object_of(py, &node)?, input).into_pyobject(py)?,
            None => (py.None(), 0).into_pyobject(py)?,
        });
    }
    PyTuple::new(py, items)
}

/// The node's dictionary.
pub fn metadata<'py>(py: Python<'py>, node: &Arc<Node>) -> Bound<'py, PyAny> {
    let attached = attached(node);
    if let Some(m) = &attached.parts.lock().metadata {
        return m.bind(py).clone();
    }
    let new = PyDict::new(py).into_any();
    attached.parts.lock().metadata.get_or_insert(Owned::new(new)).bind(py).clone()
}

/// The shape, dtype and device of one result of a node's call.
#[pyclass(frozen, name = "_InputMetadata", module = "flambeau._C")]
pub struct InputMetadata {
    #[pyo3(get)]
    shape: Py<PyAny>,
    #[pyo3(get)]
    dtype: Py<PyAny>,
    #[pyo3(get)]
    device: Py<PyAny>,
}

#[pymethods]
impl InputMetadata {
    #[getter]
    fn is_nested_tensor(&self) -> bool {
        false
    }
}

/// What every gradient that enters the node looks like.
pub fn input_metadata<'py>(py: Python<'py>, node: &Arc<Node>) -> PyResult<Bound<'py, PyTuple>> {
    let mut items = Vec::new();
    for (sizes, dtype, device) in (0..node.num_inputs()).filter_map(|i| node.input_metadata(i)) {
        let size = crate::types::size(py, sizes)?;
        items.push(Py::new(
            py,
            InputMetadata {
                // SAFETY: a new reference.
                shape: unsafe { Bound::from_owned_ptr(py, size) }.unbind(),
                dtype: crate::types::dtype(py, dtype).into_any(),
                device: crate::types::device(py, device)?.into_any(),
            },
        )?);
    }
    PyTuple::new(py, items)
}

#[pymethods]
impl NodeObject {
    #[new]
    #[classmethod]
    fn new(cls: &Bound<'_, PyType>) -> PyResult<NodeObject> {
        match NEW.take() {
            Some(node) => Ok(NodeObject { node }),
            None => Err(PyTypeError::new_err(format!("cannot create '{}' instances", cls.name()?))),
        }
    }
    fn name(&self) -> String {
        match self.node.name() {
            name if matches!(name.as_str(), "AccumulateGrad" | "CopySlices" | "CopyBackwards") => {
                format!("torch::autograd::{name}")
            }
            name => name,
        }
    }
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        next_functions(py, &self.node)
    }
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        metadata(py, &self.node)
    }
    #[getter]
    fn _input_metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        input_metadata(py, &self.node)
    }
    #[getter]
    fn requires_grad(&self) -> bool {
        true
    }
    fn _sequence_nr(&self) -> u64 {
        self.node.sequence_number()
    }
    fn register_hook<'py>(&self, fn_: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        hooks::register_post_hook(&self.node, fn_)
    }
    fn register_prehook<'py>(&self, fn_: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        hooks::register_pre_hook(&self.node, fn_)
    }
    fn _register_hook_dict(&self, tensor: Bound<'_, PyAny>) -> PyResult<()> {
        hooks::register_dictionary_of(&tensor)
    }
    /// Runs the node on gradients.
    #[pyo3(signature = (*grads))]
    fn __call__<'py>(&self, py: Python<'py>, grads: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let grads: Vec<Option<Tensor>> = grads.iter().map(|g| tensor_of(g.as_ptr())).collect();
        let node = &self.node;
        if grads.len() != node.num_inputs() {
            return Err(PyTypeError::new_err(format!(
                "expected {} arguments, got {} instead",
                node.num_inputs(),
                grads.len()
            )));
        }
        let results = py.detach(|| node.call(&grads)).map_err(raise)?;
        let mut items = Vec::new();
        for r in results {
            items.push(r.map_or_else(|| Ok(py.None().into_bound(py)), |t| bound(py, t))?);
        }
        match items.len() {
            1 => Ok(items.remove(0)),
            _ => Ok(PyTuple::new(py, items)?.into_any()),
        }
    }
    /// `_saved_NAME`: what was saved of the call, and `variable` of the node of a leaf.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let node = &slf.get().node;
        if name == "variable"
            && let Some(t) = node.variable()
        {
            return bound(py, t.clone());
        }
        match name.strip_prefix("_saved_") {
            Some(saved) if node.saved_names().iter().any(|n| n == saved) => {
                to_python(py, node.saved(saved).map_err(raise)?)
            }
            _ => {
                Err(PyAttributeError::new_err(format!("'{}' object has no attribute '{name}'", slf.get_type().name()?)))
            }
        }
    }
    fn __dir__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let names = slf.py().get_type::<PyAny>().call_method1("__dir__", (slf,))?;
        let node = &slf.get().node;
        for name in node.saved_names() {
            names.call_method1("append", (format!("_saved_{name}"),))?;
        }
        if node.variable().is_some() {
            names.call_method1("append", ("variable",))?;
        }
        Ok(names)
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        traverse(&self.node, 1, &visit)
    }
}

/// A value that a node saved.
fn to_python(py: Python<'_>, value: OwnedValue) -> PyResult<Bound<'_, PyAny>> {
    let tensor = |t: Option<Tensor>| t.map(Wrapped);
    Ok(match value {
        OwnedValue::Tensor(t) => bound(py, t)?,
        OwnedValue::Tensors(ts) => PyTuple::new(py, ts.into_iter().map(Wrapped))?.into_any(),
        OwnedValue::OptionalTensors(ts) => PyTuple::new(py, ts.into_iter().map(tensor))?.into_any(),
        // SAFETY: a new reference.
        OwnedValue::Scalar(s) => unsafe { Bound::from_owned_ptr(py, crate::number::to_python(py, s)) },
        OwnedValue::Int(i) => i.into_pyobject(py)?.into_any(),
        OwnedValue::Ints(v) => PyTuple::new(py, v)?.into_any(),
        OwnedValue::Float(x) => x.into_pyobject(py)?.into_any(),
        OwnedValue::Floats(v) => PyTuple::new(py, v)?.into_any(),
        OwnedValue::Bool(b) => pyo3::types::PyBool::new(py, b).to_owned().into_any(),
        OwnedValue::Bools(v) => PyTuple::new(py, v)?.into_any(),
        OwnedValue::DType(d) => crate::types::dtype(py, d).into_bound(py).into_any(),
        OwnedValue::Device(d) => crate::types::device(py, d)?.into_bound(py).into_any(),
        OwnedValue::Layout(l) => crate::types::layout(py, l).into_bound(py).into_any(),
        OwnedValue::MemoryFormat(f) => crate::types::memory_format(py, f).into_bound(py).into_any(),
        OwnedValue::Str(s) => s.into_pyobject(py)?.into_any(),
        OwnedValue::None | OwnedValue::Scalars(_) | OwnedValue::Generator(_) => py.None().into_bound(py),
    })
}
