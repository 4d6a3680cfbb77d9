//! Dispatch modes: Python code that stands below autograd and gets every call that would reach a backend
//! (`__torch_dispatch__` of `utils._python_dispatch.TorchDispatchMode`).

use crate::error::carry;
use crate::object::{bound, tensor_of};
use crate::types::{self, GeneratorObject};
use flambeau::keys::set_included;
use flambeau::op::Op;
use flambeau::schema::{Default, Param};
use flambeau::value::Outputs;
use flambeau::{Key, KeyGuard, KeySet, Result, Scalar, Tensor, Value, registry};
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static MODES: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
}

/// Finds the Python object of an overload; written in Python.
static FIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Calls of this thread pass through the modes while there are any.
fn announce() {
    let any = MODES.with_borrow(|m| !m.is_empty());
    set_included(KeySet::of(Key::PYTHON), any);
}

/// A mode that is away while it handles a call: what it calls goes to those below it.
struct Away(Option<Py<PyAny>>);

impl Away {
    fn take() -> Option<Away> {
        let mode = MODES.with_borrow_mut(Vec::pop)?;
        announce();
        Some(Away(Some(mode)))
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        MODES.with_borrow_mut(|m| m.extend(self.0.take()));
        announce();
    }
}

/// The kernel of the Python key.
fn kernel(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let below = keys.below(Key::PYTHON);
    // What is made of other operators is not seen, but those are. What makes tensors of numbers is seen all the same: nothing
    // is lost for autograd, and a mode wants to know what was made rather than that it was filled.
    if op.is_composite() && args.iter().any(has_tensor) {
        return op.redispatch(below, args);
    }
    let Some(away) = Away::take() else { return op.redispatch(below, args) };
    // Also where no argument requires a gradient: what a mode calls stands below autograd, too.
    let _below_autograd = KeyGuard::exclude(KeySet::of(Key::AUTOGRAD).with(KeySet::of(Key::FORWARD)));
    Python::attach(|py| hand_over(py, op, args, away.0.as_ref())).map_err(carry)
}

fn has_tensor(value: &Value<'_>) -> bool {
    match value {
        Value::Tensor(_) => true,
        Value::Tensors(all) => !all.is_empty(),
        Value::OptionalTensors(all) => all.iter().any(Option::is_some),
        _ => false,
    }
}

fn hand_over(py: Python<'_>, op: &'static Op, args: &[Value<'_>], mode: Option<&Py<PyAny>>) -> PyResult<Outputs> {
    let mode = mode.ok_or_else(|| PyRuntimeError::new_err("there is no mode"))?.bind(py);
    let schema = op.schema();
    let find = FIND.get(py).ok_or_else(|| PyRuntimeError::new_err("nothing finds operators"))?;
    let overload = if schema.overload.is_empty() { "default" } else { &schema.overload };
    let function = find.bind(py).call1((&schema.namespace, &schema.name, overload))?;
    let given = || schema.params.iter().zip(args);
    let positional = given().take_while(|(p, _)| !p.keyword_only).count();
    // Defaults at the end are left out.
    let told = given().take(positional).rposition(|(p, v)| !is_default(p, *v)).map_or(0, |i| i + 1);
    let list = args.iter().take(told).map(|v| to_python(py, *v)).collect::<PyResult<Vec<_>>>()?;
    let kwargs = PyDict::new(py);
    for (p, value) in given().skip(positional).filter(|(p, v)| !is_default(p, **v)) {
        kwargs.set_item(&p.name, to_python(py, *value)?)?;
    }
    let result =
        mode.call_method1("__torch_dispatch__", (function, PyTuple::empty(py), PyTuple::new(py, list)?, kwargs))?;
    from_python(op, &result)
}

fn is_default(p: &Param, value: Value<'_>) -> bool {
    match (&p.default, value) {
        (None, _) => false,
        // What is left out is `None` on its way here.
        (Some(_), Value::None) => true,
        (Some(Default::Scalar(Scalar::Bool(d))), Value::Bool(b)) => *d == b,
        (Some(Default::Scalar(d)), Value::Int(i)) => *d == Scalar::Int(i),
        (Some(Default::Scalar(d)), Value::Float(x)) => d.to_f64() == x,
        (Some(Default::Scalar(d)), Value::Scalar(s)) => *d == s,
        (Some(Default::Ints(d)), Value::Ints(i)) => d == i,
        (Some(Default::Str(d)), Value::Str(s)) => d == s,
        _ => false,
    }
}

fn to_python<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `to_python` gives a new reference.
    let number = |s: Scalar| unsafe { Bound::from_owned_ptr_or_err(py, crate::number::to_python(py, s)) };
    let tensor = |t: &Tensor| bound(py, t.clone());
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::Tensor(t) => tensor(t)?,
        Value::Tensors(ts) => PyList::new(py, ts.iter().map(tensor).collect::<PyResult<Vec<_>>>()?)?.into_any(),
        Value::OptionalTensors(ts) => {
            let each = |t: &Option<Tensor>| t.as_ref().map(tensor).transpose();
            PyList::new(py, ts.iter().map(each).collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Value::Scalar(s) => number(s)?,
        Value::Scalars(all) => {
            PyList::new(py, all.iter().map(|s| number(*s)).collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Value::Int(i) => number(Scalar::Int(i))?,
        Value::Ints(all) => PyList::new(py, all)?.into_any(),
        Value::Float(x) => number(Scalar::Float(x))?,
        Value::Floats(all) => PyList::new(py, all)?.into_any(),
        Value::Bool(b) => number(Scalar::Bool(b))?,
        Value::Bools(all) => PyList::new(py, all)?.into_any(),
        Value::DType(d) => types::dtype(py, d).into_bound(py).into_any(),
        Value::Device(d) => types::device(py, d)?.into_bound(py).into_any(),
        Value::Layout(l) => types::layout(py, l).into_bound(py).into_any(),
        Value::MemoryFormat(f) => types::memory_format(py, f).into_bound(py).into_any(),
        Value::Str(s) => s.into_pyobject(py)?.into_any(),
        Value::Generator(g) => Bound::new(py, GeneratorObject(g.clone()))?.into_any(),
    })
}

/// What a mode gave back as an operator's results.
fn from_python(op: &'static Op, result: &Bound<'_, PyAny>) -> PyResult<Outputs> {
    let refused = |object: &Bound<'_, PyAny>| {
        PyTypeError::new_err(format!(
            "Unable to cast Python instance of type {} to C++ type '?' (of a result of {})",
            object.get_type(),
            op.full_name()
        ))
    };
    if let Some(t) = tensor_of(result.as_ptr()) {
        return Ok(Outputs::One(t));
    }
    if result.is_none() {
        let one = op.schema().returns.len() == 1;
        return Ok(if one { Outputs::Many(vec![None]) } else { Outputs::None });
    }
    if let Ok(items) = result.cast::<PyTuple>().map(|t| t.to_list()).or_else(|_| result.cast::<PyList>().cloned()) {
        let each = |item: Bound<'_, PyAny>| match tensor_of(item.as_ptr()) {
            Some(t) => Ok(Some(t)),
            None if item.is_none() => Ok(None),
            None => Err(refused(&item)),
        };
        return items.iter().map(each).collect::<PyResult<Vec<_>>>().map(Outputs::Many);
    }
    match crate::convert::number_of(result.py(), result.as_ptr()) {
        Ok(s) => Ok(Outputs::Scalar(s)),
        Err(_) => Err(refused(result)),
    }
}

#[pyfunction]
fn _push_torch_dispatch_mode(mode: Py<PyAny>) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| registry::register_fallback(Key::PYTHON, kernel).forever());
    MODES.with_borrow_mut(|m| m.push(mode));
    announce();
}

#[pyfunction]
fn _pop_torch_dispatch_mode() -> PyResult<Py<PyAny>> {
    let mode = MODES.with_borrow_mut(Vec::pop);
    announce();
    mode.ok_or_else(|| PyRuntimeError::new_err("there is no mode to take off"))
}

#[pyfunction]
fn _len_torch_dispatch_stack() -> usize {
    MODES.with_borrow(Vec::len)
}

#[pyfunction]
fn _get_dispatch_stack_at(py: Python<'_>, i: usize) -> PyResult<Py<PyAny>> {
    MODES.with_borrow(|m| m.get(i).map(|m| m.clone_ref(py))).ok_or_else(|| PyIndexError::new_err("no such mode"))
}

/// Tells the module how to find an overload's object.
#[pyfunction]
fn _set_overload_finder(py: Python<'_>, function: Py<PyAny>) {
    let _ = FIND.set(py, function);
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_push_torch_dispatch_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_pop_torch_dispatch_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_len_torch_dispatch_stack, m)?)?;
    m.add_function(wrap_pyfunction!(_get_dispatch_stack_at, m)?)?;
    m.add_function(wrap_pyfunction!(_set_overload_finder, m)?)?;
    Ok(())
}
