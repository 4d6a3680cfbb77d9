//! Autograd for Python: modes, the engine, and what tensors know of the graph.
//!
//! Nodes are in `node.rs`, those written in Python in `custom.rs`, hooks in `hooks.rs`, saved tensors in `saved.rs`.

use crate::error::{carry, raise};
use crate::function::{self, Kind, Native, this};
use crate::hooks;
use crate::methods::argument;
use crate::node::{self, edge_of, node_of, object_of};
use crate::object::{Argument, Wrapped, bound, tensor_of, wrap};
use crate::parse::Call;
use flambeau::Error;
use flambeau::autograd::{self, AnomalyReporter, Backward, run_backward};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::Cell;
use std::time::{Duration, Instant};

// ---- modes -----------------------------------------------------------------------------------------

#[pyfunction]
fn is_grad_enabled() -> bool {
    autograd::is_grad_enabled()
}

#[pyfunction]
fn _set_grad_enabled(mode: bool) {
    autograd::switch_grad_mode(mode);
}

#[pyfunction]
fn is_inference_mode_enabled() -> bool {
    autograd::is_inference_mode_enabled()
}

/// `inference_mode` for the duration of a `with` block.
#[pyclass(module = "flambeau._C")]
struct _InferenceMode {
    mode: bool,
    before: Vec<(bool, bool)>,
}

#[pymethods]
impl _InferenceMode {
    #[new]
    fn new(mode: bool) -> _InferenceMode {
        _InferenceMode { mode, before: Vec::new() }
    }
    fn __enter__(mut slf: PyRefMut<'_, Self>) -> PyRefMut<'_, Self> {
        slf.before.push((autograd::is_grad_enabled(), autograd::is_inference_mode_enabled()));
        autograd::switch_grad_mode(!slf.mode);
        autograd::switch_inference_mode(slf.mode);
        slf
    }
    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, _exception: &Bound<'_, PyTuple>) {
        if let Some((grad, inference)) = self.before.pop() {
            autograd::switch_grad_mode(grad);
            autograd::switch_inference_mode(inference);
        }
    }
}

macro_rules! grad_mode_guard {
    ($(#[doc = $doc:literal])* $name:ident, $mode:expr) => {
        $(#[doc = $doc])*
        #[pyclass(module = "flambeau._C")]
        #[derive(Default)]
        #[expect(non_camel_case_types, reason = "the name that Python programs use")]
        struct $name {
            before: Vec<bool>,
        }
        #[pymethods]
        impl $name {
            #[new]
            fn new() -> $name {
                $name::default()
            }
            fn __enter__(mut slf: PyRefMut<'_, Self>) -> PyRefMut<'_, Self> {
                slf.before.push(autograd::is_grad_enabled());
                autograd::switch_grad_mode($mode);
                slf
            }
            #[pyo3(signature = (*_exception))]
            fn __exit__(&mut self, _exception: &Bound<'_, PyTuple>) {
                if let Some(before) = self.before.pop() {
                    autograd::switch_grad_mode(before);
                }
            }
        }
    };
}
grad_mode_guard! {
    /// No operation is recorded inside.
    no_grad, false
}
grad_mode_guard! {
    /// Operations are recorded inside, also within `no_grad`.
    enable_grad, true
}

#[pyfunction]
fn is_anomaly_enabled() -> bool {
    autograd::is_anomaly_enabled()
}

#[pyfunction]
fn is_anomaly_check_nan_enabled() -> bool {
    autograd::is_anomaly_check_nan_enabled()
}

#[pyfunction]
#[pyo3(signature = (mode, check_nan=true))]
fn set_anomaly_enabled(mode: bool, check_nan: bool) {
    autograd::set_anomaly_enabled(mode);
    autograd::set_anomaly_check_nan(check_nan);
}

/// Python's tracebacks and warnings for anomaly mode.
struct Reporter;

impl AnomalyReporter for Reporter {
    fn place(&self) -> String {
        let stack = |py: Python<'_>| -> PyResult<String> {
            let lines: Vec<String> = py.import("traceback")?.call_method0("format_stack")?.extract()?;
            Ok(lines.concat())
        };
        Python::try_attach(stack).and_then(Result::ok).unwrap_or_default()
    }
    fn report(&self, node: &str, place: Option<&str>) {
        let text = match place {
            Some(place) => {
                format!("Error detected in {node}. Traceback of forward call that caused the error:\n{place}")
            }
            None => format!(
                "Error detected in {node}. No forward pass information available. Enable detect anomaly during forward pass \
                 for more information."
            ),
        };
        Python::try_attach(|py| {
            let warned = py.import("warnings").and_then(|w| w.call_method1("warn", (text,)));
            if let Err(e) = warned {
                // The error that is under way matters more than the warning made one.
                e.write_unraisable(py, None);
            }
        });
    }
}

// ---- the engine ------------------------------------------------------------------------------------

/// Lets signals that arrived during a long backward (Ctrl-C) raise.
fn interrupted() -> Result<(), Error> {
    /// How long a program may wait for an answer.
    const EVERY: Duration = Duration::from_millis(20);
    thread_local! {
        static NEXT: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = Instant::now();
    if NEXT.get().is_some_and(|next| now < next) {
        return Ok(());
    }
    NEXT.set(Some(now + EVERY));
    Python::attach(|py| py.check_signals()).map_err(carry)
}

/// Runs the graph from `tensors` (tensors or edges) with the gradients `grads`: adds to the `grad` of leaves if
/// `accumulate`, else gives the gradients of `inputs`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parameters that the Python half passes")]
fn _run_backward<'py>(
    py: Python<'py>,
    tensors: &Bound<'py, PyTuple>,
    grads: &Bound<'py, PyTuple>,
    retain_graph: bool,
    create_graph: bool,
    inputs: &Bound<'py, PyTuple>,
    allow_unreachable: bool,
    accumulate: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    if tensors.len() != grads.len() {
        return Err(PyRuntimeError::new_err(format!("got {} tensors and {} gradients", tensors.len(), grads.len())));
    }
    let mut roots = Vec::with_capacity(tensors.len());
    for (i, (t, g)) in tensors.iter().zip(grads).enumerate() {
        let Some(edge) = edge_of(&t)? else {
            return Err(PyRuntimeError::new_err(format!(
                "element {i} of tensors does not require grad and does not have a grad_fn"
            )));
        };
        let g = match tensor_of(g.as_ptr()) {
            Some(g) => g,
            None if !g.is_none() => {
                return Err(PyTypeError::new_err(format!("element {i} of gradients tuple is not a Tensor or None")));
            }
            None if tensor_of(t.as_ptr()).is_some() => {
                return Err(PyRuntimeError::new_err(format!(
                    "element {i} of gradients tuple is None, but the corresponding Tensor requires grad"
                )));
            }
            None => one(&edge)?,
        };
        roots.push((edge, g));
    }
    let mut targets = Vec::with_capacity(inputs.len());
    for input in inputs {
        if let Some(t) = tensor_of(input.as_ptr())
            && accumulate
        {
            t.retain_grad().map_err(raise)?;
        }
        targets.push(
            edge_of(&input)?
                .ok_or_else(|| PyRuntimeError::new_err("One of the differentiated Tensors does not require grad"))?,
        );
    }
    let call = Backward {
        retain_graph,
        create_graph,
        targets: if targets.is_empty() && accumulate { None } else { Some(&targets) },
        collect: !accumulate,
        between: Some(interrupted),
    };
    let found = py.detach(|| run_backward(roots, &call)).map_err(raise)?;
    if !allow_unreachable && let Some(i) = found.iter().position(Option::is_none) {
        return Err(PyRuntimeError::new_err(format!(
            "The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True if \
             this is the desired behavior."
        )));
    }
    PyTuple::new(py, found.into_iter().map(|g| g.map(Wrapped)))
}

/// The gradient that an edge starts from when none is given.
fn one(edge: &autograd::Edge) -> PyResult<flambeau::Tensor> {
    let node = edge.node();
    match node.input_metadata(edge.input() as usize) {
        Some((sizes, dtype, device)) if sizes.iter().product::<i64>() == 1 => {
            flambeau::Tensor::ones(sizes, (dtype, device)).map_err(raise)
        }
        _ => Err(PyRuntimeError::new_err("grad can be implicitly created only for scalar outputs")),
    }
}

/// The number of the backward run under way, -1 outside.
#[pyfunction]
fn _current_graph_task_id() -> i64 {
    autograd::current_run().unwrap_or(-1)
}

/// Whether the run under way executes the node.
#[pyfunction]
fn _will_engine_execute_node(node: &Bound<'_, PyAny>) -> PyResult<bool> {
    autograd::will_execute(&node_of(node)?).ok_or_else(|| {
        PyRuntimeError::new_err("_get_should_execute_nodes should only be called during the backward pass")
    })
}

// ---- tensors ---------------------------------------------------------------------------------------

fn hook<'a>(call: &Call<'a>, name: &str) -> PyResult<Bound<'a, PyAny>> {
    let hook = argument(call, 0, "hook").ok_or_else(|| {
        PyTypeError::new_err(format!("Tensor.{name}() missing 1 required positional argument: 'hook'"))
    })?;
    // SAFETY: a live object.
    Ok(unsafe { Bound::from_borrowed_ptr(call.py, hook) })
}

fn register_hook(call: &Call<'_>) -> PyResult<*mut pyo3::ffi::PyObject> {
    hooks::register_hook(&this(call)?, hook(call, "register_hook")?).map(Bound::into_ptr)
}

fn register_post_accumulate_grad_hook(call: &Call<'_>) -> PyResult<*mut pyo3::ffi::PyObject> {
    let hook = hook(call, "register_post_accumulate_grad_hook")?;
    hooks::register_accumulated_hook(&this(call)?, hook).map(Bound::into_ptr)
}

fn retain_grad(call: &Call<'_>) -> PyResult<*mut pyo3::ffi::PyObject> {
    this(call)?.retain_grad().map_err(raise)?;
    Ok(call.py.None().into_ptr())
}

fn detach(call: &Call<'_>) -> PyResult<*mut pyo3::ffi::PyObject> {
    wrap(call.py, this(call)?.detach().map_err(raise)?)
}

fn detach_(call: &Call<'_>) -> PyResult<*mut pyo3::ffi::PyObject> {
    let t = this(call)?;
    t.detach_().map_err(raise)?;
    wrap(call.py, t)
}

/// Puts the methods into the table.
///
/// # Errors
/// When the table is full.
pub fn add_methods() -> PyResult<()> {
    let methods: [(&str, Native); 5] = [
        ("register_hook", register_hook),
        ("register_post_accumulate_grad_hook", register_post_accumulate_grad_hook),
        ("retain_grad", retain_grad),
        ("detach", detach),
        ("detach_", detach_),
    ];
    for (name, f) in methods {
        function::add(name, Kind::Native(f))?;
    }
    Ok(())
}

/// `x.grad_fn`.
pub fn grad_fn(py: Python<'_>, t: &flambeau::Tensor) -> PyResult<*mut pyo3::ffi::PyObject> {
    match t.grad_fn() {
        Some(node) => object_of(py, &node).map(Bound::into_ptr),
        None => Ok(py.None().into_ptr()),
    }
}

/// Says that the memory was written behind autograd's back.
#[pyfunction]
fn _increment_version(tensor: Argument) {
    tensor.0.bump_version();
}

// ---- forward mode ----------------------------------------------------------------------------------

#[pyfunction]
fn _enter_dual_level() -> PyResult<i64> {
    autograd::enter_dual_level().map_err(raise)?;
    Ok(0)
}

#[pyfunction]
fn _exit_dual_level(level: i64) -> PyResult<()> {
    if level != 0 {
        return Err(PyRuntimeError::new_err(
            "Exiting a forward AD level that is not the last that was created is not support. Ensure they are released in \
             the reverse order they were created.",
        ));
    }
    autograd::exit_dual_level().map_err(raise)
}

#[pyfunction]
#[pyo3(signature = (primal, tangent, level=0))]
fn _make_dual(primal: Argument, tangent: Argument, level: i64) -> PyResult<Wrapped> {
    let _ = level;
    autograd::make_dual(&primal.0, &tangent.0).map(Wrapped).map_err(raise)
}

#[pyfunction]
#[pyo3(signature = (tensor, level=0))]
fn _unpack_dual<'py>(
    py: Python<'py>,
    tensor: Argument,
    level: i64,
) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)> {
    let _ = level;
    let (primal, tangent) = autograd::unpack_dual(&tensor.0).map_err(raise)?;
    Ok((bound(py, primal)?, tangent.map(|t| bound(py, t)).transpose()?))
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    autograd::set_anomaly_reporter(&Reporter);
    m.add_function(wrap_pyfunction!(is_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_set_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(is_inference_mode_enabled, m)?)?;
    m.add_class::<_InferenceMode>()?;
    m.add_class::<no_grad>()?;
    m.add_class::<enable_grad>()?;
    m.add_function(wrap_pyfunction!(is_anomaly_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(is_anomaly_check_nan_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(set_anomaly_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_run_backward, m)?)?;
    m.add_function(wrap_pyfunction!(_current_graph_task_id, m)?)?;
    m.add_function(wrap_pyfunction!(_will_engine_execute_node, m)?)?;
    m.add_function(wrap_pyfunction!(_increment_version, m)?)?;
    m.add_function(wrap_pyfunction!(_enter_dual_level, m)?)?;
    m.add_function(wrap_pyfunction!(_exit_dual_level, m)?)?;
    m.add_function(wrap_pyfunction!(_make_dual, m)?)?;
    m.add_function(wrap_pyfunction!(_unpack_dual, m)?)?;
    m.add_class::<node::NodeObject>()?;
    m.add_class::<node::InputMetadata>()?;
    m.add_class::<crate::custom::PyNode>()?;
    crate::saved::register(m)
}
