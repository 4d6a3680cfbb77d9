//! `__torch_function__`: classes and modes that take calls over.

use crate::object::{is_exact, is_tensor, tensor_type};
use crate::parse::Call;
use flambeau::{DType, Layout, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// What is switched off on this thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disabled {
    Nothing,
    Classes,
    Everything,
}

thread_local! {
    static DISABLED: Cell<Disabled> = const { Cell::new(Disabled::Nothing) };
    static MODES: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
    static MODE_COUNT: Cell<usize> = const { Cell::new(0) };
}

/// What a class sets `__torch_function__` to for none.
static NO_OVERRIDE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
/// Classes known to have no override of their own: `flambeau.nn.Parameter`, which most calls in training meet, and this
/// module's.
static PLAIN_CLASSES: [AtomicPtr<ffi::PyTypeObject>; 6] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 6];

/// Whether anybody may take the call over.
#[inline]
pub fn wanted(call: &Call<'_>) -> bool {
    if DISABLED.get() == Disabled::Everything {
        return false;
    }
    MODE_COUNT.get() > 0 || (DISABLED.get() == Disabled::Nothing && overridden(call))
}

#[inline]
fn overridden(call: &Call<'_>) -> bool {
    (!call.this.is_null() && has_override(call.py, call.this))
        || call.args.iter().any(|a| has_override_within(call.py, *a))
        || call.named.iter().any(|(_, a)| has_override_within(call.py, *a))
}

/// Whether an argument, or an item of it if it is a list, has `__torch_function__`.
#[inline]
fn has_override_within(py: Python<'_>, object: *mut PyObject) -> bool {
    if is_exact(object) {
        return false;
    }
    // SAFETY: a live object; items are borrowed from it.
    unsafe {
        if ffi::PyTuple_Check(object) != 0 {
            return (0..ffi::PyTuple_Size(object)).any(|i| has_override(py, ffi::PyTuple_GetItem(object, i)));
        }
        if ffi::PyList_Check(object) != 0 {
            return (0..ffi::PyList_Size(object)).any(|i| has_override(py, ffi::PyList_GetItem(object, i)));
        }
    }
    has_override(py, object)
}

/// Whether one operator may do what several on each tensor would: parameters, their gradients and states (lists as long,
/// one after the other) are in single or double precision on the CPU, those of a parameter alike in dtype and shape, and
/// nobody takes calls over.
#[pyfunction]
pub fn _are_alike(
    py: Python<'_>,
    parameters: &Bound<'_, PyList>,
    gradients: &Bound<'_, PyList>,
    states: &Bound<'_, PyList>,
) -> bool {
    let plain = |object: &Bound<'_, PyAny>| match has_override(py, object.as_ptr()) {
        true => None,
        false => crate::object::tensor_of(object.as_ptr()),
    };
    let heard = MODE_COUNT.get() > 0 && DISABLED.get() != Disabled::Everything;
    let known: Option<Vec<Tensor>> = parameters.iter().map(|p| plain(&p)).collect();
    let Some(known) = known.filter(|known| !heard && !known.is_empty()) else { return false };
    let fits = |p: &Tensor| {
        matches!(p.dtype(), DType::F32 | DType::F64) && p.device().is_cpu() && p.layout() == Layout::Strided
    };
    let alike = |list: &Bound<'_, PyList>| {
        let like = |(object, p): (Bound<'_, PyAny>, &Tensor)| {
            plain(&object).is_some_and(|t| fits(&t) && t.dtype() == p.dtype() && t.sizes() == p.sizes())
        };
        list.len().is_multiple_of(known.len()) && list.iter().zip(known.iter().cycle()).all(like)
    };
    known.iter().all(fits) && alike(gradients) && alike(states)
}

/// Whether the object's class takes calls over.
#[inline]
pub fn has_override(py: Python<'_>, object: *mut PyObject) -> bool {
    // SAFETY: a live object.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        // Types that are not made at run time have no such attribute: numbers, strings, slices, arrays.
        if kind == tensor_type()
            || ffi::PyType_GetFlags(kind) & ffi::Py_TPFLAGS_HEAPTYPE == 0
            || PLAIN_CLASSES.iter().any(|c| c.load(Relaxed) == kind)
        {
            return false;
        }
    }
    class_override(py, object).is_some()
}

/// `type(object).__torch_function__`, unless it is the one that stands for none.
#[cold]
fn class_override(py: Python<'_>, object: *mut PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: a live object.
    let kind = unsafe { Bound::from_borrowed_ptr(py, object) }.get_type();
    let found = kind.getattr_opt(pyo3::intern!(py, "__torch_function__")).ok().flatten()?;
    let none = NO_OVERRIDE.get(py).is_some_and(|n| n.is(&found));
    (!none).then_some(found)
}

/// The arguments that take calls over, one per class: subclasses before their bases, else in order.
fn overriding<'py>(py: Python<'py>, objects: &[*mut PyObject]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut found: Vec<Bound<'py, PyAny>> = Vec::new();
    for &object in objects {
        if !has_override(py, object) {
            continue;
        }
        // SAFETY: a live object.
        let object = unsafe { Bound::from_borrowed_ptr(py, object) };
        let kind = object.get_type();
        if found.iter().any(|f| f.get_type().is(&kind)) {
            continue;
        }
        let mut at = found.len();
        for (i, f) in found.iter().enumerate() {
            if kind.is_subclass(&f.get_type())? {
                at = i;
                break;
            }
        }
        found.insert(at, object);
    }
    Ok(found)
}

/// All arguments of a call, items of lists too.
fn all_objects(call: &Call<'_>) -> Vec<*mut PyObject> {
    let mut all = Vec::new();
    if !call.this.is_null() {
        all.push(call.this);
    }
    for object in call.args.iter().copied().chain(call.named.iter().map(|(_, v)| *v)) {
        match crate::parse::Items::of(object) {
            Some(items) => all.extend(items.iter().copied()),
            None => all.push(object),
        }
    }
    all
}

/// Offers the call to modes and classes. `None`: nobody took it, because only tensors without an override are there.
pub fn handle(function: *mut PyObject, call: &Call<'_>) -> PyResult<Option<*mut PyObject>> {
    let py = call.py;
    let mut args = Vec::with_capacity(call.args.len() + 1);
    if !call.this.is_null() {
        args.push(call.this);
    }
    args.extend_from_slice(call.args);
    // SAFETY: live objects.
    let args = args.into_iter().map(|a| unsafe { Bound::from_borrowed_ptr(py, a) });
    let args = PyTuple::new(py, args.collect::<Vec<_>>())?;
    let kwargs = PyDict::new(py);
    for &(name, value) in &call.named {
        // SAFETY: live objects.
        unsafe { kwargs.set_item(Bound::from_borrowed_ptr(py, name), Bound::from_borrowed_ptr(py, value))? };
    }
    // SAFETY: functions are never freed.
    let function = unsafe { Bound::from_borrowed_ptr(py, function) };
    let objects = all_objects(call);
    let classes = if DISABLED.get() == Disabled::Nothing { overriding(py, &objects)? } else { Vec::new() };
    offer(&function, classes, &args, &kwargs).map(|r| r.map(Bound::into_ptr))
}

/// Offers a call to the innermost mode, then to the given objects' classes.
fn offer<'py>(
    function: &Bound<'py, PyAny>,
    objects: Vec<Bound<'py, PyAny>>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = function.py();
    let types = PyTuple::new(py, objects.iter().map(|o| o.get_type()))?;
    let not_implemented = py.NotImplemented();
    if let Some(mode) = _pop_torch_function_mode_if_any(py) {
        let result =
            mode.bind(py).call_method1(pyo3::intern!(py, "__torch_function__"), (function, &types, args, kwargs));
        _push_torch_function_mode(mode);
        let result = result?;
        if !result.is(&not_implemented) {
            return Ok(Some(result));
        }
    } else if objects.is_empty() {
        return Ok(None);
    }
    for o in &objects {
        let Some(method) = class_override(py, o.as_ptr()) else { continue };
        let result = method.call1((function, &types, args, kwargs))?;
        if !result.is(&not_implemented) {
            return Ok(Some(result));
        }
    }
    let name = function.getattr("__name__").map_or_else(|_| "function".into(), |n| n.to_string());
    let kinds: Vec<String> = objects.iter().map(|o| o.get_type().to_string()).collect();
    Err(PyTypeError::new_err(format!(
        "Multiple dispatch failed for 'torch.{name}'; all __torch_function__ handlers returned NotImplemented:\n\n  - \
         tensor subclass {}\n\nFor more information, try re-running with TORCH_LOGS=not_implemented",
        kinds.join("\n  - tensor subclass ")
    )))
}

/// Offers a call of Python's syntax to modes and classes, as one of the method `name` of `Tensor`.
#[cold]
pub fn handle_method(name: &str, call: &Call<'_>) -> PyResult<Option<*mut PyObject>> {
    // SAFETY: the type is never freed.
    let kind = unsafe { Bound::from_borrowed_ptr(call.py, tensor_type().cast()) };
    let method = kind.getattr(name)?;
    handle(method.as_ptr(), call)
}

/// Whether a mode hears of calls.
pub fn has_mode() -> bool {
    MODE_COUNT.get() > 0
}

/// Whether an argument is of a class of this package that stands for other tensors (a batch under `vmap`, nested ones), so
/// that what it has is not its data.
pub fn has_stand_in(call: &Call<'_>) -> bool {
    let name = pyo3::intern!(call.py, "_stands_for_another");
    all_objects(call).into_iter().any(|object| {
        // SAFETY: a live object.
        let kind = unsafe { Bound::from_borrowed_ptr(call.py, object) }.get_type();
        kind.hasattr(name).unwrap_or(false)
    })
}

/// Offers a property's getter (`Tensor.shape.__get__`) to the object's class.
pub fn handle_property(
    py: Python<'_>,
    name: &str,
    accessor: &str,
    args: &[*mut PyObject],
) -> PyResult<Option<*mut PyObject>> {
    // SAFETY: the type is never freed.
    let kind = unsafe { Bound::from_borrowed_ptr(py, tensor_type().cast()) };
    let function = kind.getattr(name)?.getattr(accessor)?;
    let call = Call { py, this: args[0], args: &args[1..], named: Default::default() };
    let objects = all_objects(&call);
    let classes = if DISABLED.get() == Disabled::Nothing { overriding(py, &objects)? } else { Vec::new() };
    // SAFETY: live objects.
    let args: Vec<_> = args.iter().map(|a| unsafe { Bound::from_borrowed_ptr(py, *a) }).collect();
    offer(&function, classes, &PyTuple::new(py, args)?, &PyDict::new(py)).map(|r| r.map(Bound::into_ptr))
}

// ---- for Python ------------------------------------------------------------------------------------

/// Makes `_disabled_torch_function_impl` known: what a class has as `__torch_function__` for none.
#[pyfunction]
fn _disabled_torch_function_impl(
    py: Python<'_>,
    function: Bound<'_, PyAny>,
    _types: Bound<'_, PyAny>,
    args: Bound<'_, PyTuple>,
    kwargs: Option<Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let before = DISABLED.replace(Disabled::Classes);
    let result = function.call(args, kwargs.as_ref()).map(Bound::unbind);
    DISABLED.set(before);
    let _ = py;
    result
}

/// Says that a class has no override of its own.
#[pyfunction]
fn _set_parameter_class(class: Bound<'_, pyo3::types::PyType>) {
    PLAIN_CLASSES[0].store(class.into_ptr().cast(), Relaxed);
}

/// Whether any of the objects takes calls over.
#[pyfunction]
fn has_torch_function(objects: Bound<'_, PyAny>) -> PyResult<bool> {
    let py = objects.py();
    if MODE_COUNT.get() > 0 && DISABLED.get() != Disabled::Everything {
        return Ok(true);
    }
    for o in objects.try_iter()? {
        if has_torch_function_unary(&o?) {
            return Ok(true);
        }
    }
    let _ = py;
    Ok(false)
}

/// Whether the object takes calls over.
#[pyfunction]
fn has_torch_function_unary(object: &Bound<'_, PyAny>) -> bool {
    match DISABLED.get() {
        Disabled::Everything => false,
        _ if MODE_COUNT.get() > 0 => true,
        Disabled::Classes => false,
        Disabled::Nothing => has_override(object.py(), object.as_ptr()),
    }
}

/// Whether any of the arguments takes calls over.
#[pyfunction]
#[pyo3(signature = (*objects))]
fn has_torch_function_variadic(objects: &Bound<'_, PyTuple>) -> bool {
    objects.iter().any(|o| has_torch_function_unary(&o))
}

/// Runs a function written in Python through the protocol: modes first, then the relevant arguments' classes.
#[pyfunction]
#[pyo3(signature = (function, relevant, *args, **kwargs))]
fn handle_torch_function<'py>(
    function: Bound<'py, PyAny>,
    relevant: Bound<'py, PyAny>,
    args: Bound<'py, PyTuple>,
    kwargs: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let objects: Vec<Bound<'py, PyAny>> = relevant.try_iter()?.collect::<PyResult<_>>()?;
    let pointers: Vec<*mut PyObject> = objects.iter().map(|o| o.as_ptr()).collect();
    let classes = if DISABLED.get() == Disabled::Nothing { overriding(py, &pointers)? } else { Vec::new() };
    let kwargs = kwargs.unwrap_or_else(|| PyDict::new(py));
    match offer(&function, classes, &args, &kwargs)? {
        Some(result) => Ok(result),
        None => Err(PyTypeError::new_err("no argument implements __torch_function__")),
    }
}

#[pyfunction]
fn _push_torch_function_mode(mode: Py<PyAny>) {
    MODES.with_borrow_mut(|m| m.push(mode));
    MODE_COUNT.set(MODE_COUNT.get() + 1);
}

fn _pop_torch_function_mode_if_any(_py: Python<'_>) -> Option<Py<PyAny>> {
    let mode = MODES.with_borrow_mut(Vec::pop)?;
    MODE_COUNT.set(MODE_COUNT.get() - 1);
    Some(mode)
}

#[pyfunction]
fn _pop_torch_function_mode(py: Python<'_>) -> PyResult<Py<PyAny>> {
    _pop_torch_function_mode_if_any(py).ok_or_else(|| PyRuntimeError::new_err("there is no mode to take off"))
}

#[pyfunction]
fn _len_torch_function_stack() -> usize {
    MODE_COUNT.get()
}

#[pyfunction]
fn _get_torch_function_mode_at(py: Python<'_>, i: usize) -> PyResult<Py<PyAny>> {
    MODES
        .with_borrow(|m| m.get(i).map(|m| m.clone_ref(py)))
        .ok_or_else(|| pyo3::exceptions::PyIndexError::new_err("no such mode"))
}

macro_rules! disabling_guard {
    ($(#[doc = $doc:literal])* $name:ident, $what:expr) => {
        $(#[doc = $doc])*
        #[pyclass(module = "flambeau._C")]
        #[derive(Default)]
        struct $name {
            before: Vec<Disabled>,
        }
        #[pymethods]
        impl $name {
            #[new]
            fn new() -> $name {
                $name::default()
            }
            fn __enter__(mut slf: PyRefMut<'_, Self>) -> PyRefMut<'_, Self> {
                let before = DISABLED.get();
                slf.before.push(before);
                if before != Disabled::Everything {
                    DISABLED.set($what);
                }
                slf
            }
            #[pyo3(signature = (*_exception))]
            fn __exit__(&mut self, _exception: &Bound<'_, PyTuple>) {
                if let Some(before) = self.before.pop() {
                    DISABLED.set(before);
                }
            }
        }
    };
}
disabling_guard! {
    /// No class takes calls over inside.
    DisableTorchFunctionSubclass, Disabled::Classes
}
disabling_guard! {
    /// Neither classes nor modes take calls over inside.
    DisableTorchFunction, Disabled::Everything
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_disabled_torch_function_impl, m)?)?;
    let none = m.getattr("_disabled_torch_function_impl")?;
    m.add("_default_torch_function", &none)?;
    let _ = NO_OVERRIDE.set(m.py(), none.unbind());
    m.add_function(wrap_pyfunction!(_set_parameter_class, m)?)?;
    for (place, name) in PLAIN_CLASSES[1..].iter().zip(["dtype", "device", "layout", "memory_format", "Generator"]) {
        // Never freed: the module holds on to its classes.
        place.store(m.getattr(name)?.into_ptr().cast(), Relaxed);
    }
    m.add_function(wrap_pyfunction!(_are_alike, m)?)?;
    m.add_function(wrap_pyfunction!(has_torch_function, m)?)?;
    m.add_function(wrap_pyfunction!(has_torch_function_unary, m)?)?;
    m.add_function(wrap_pyfunction!(has_torch_function_variadic, m)?)?;
    m.add_function(wrap_pyfunction!(handle_torch_function, m)?)?;
    m.add_function(wrap_pyfunction!(_push_torch_function_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_pop_torch_function_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_len_torch_function_stack, m)?)?;
    m.add_function(wrap_pyfunction!(_get_torch_function_mode_at, m)?)?;
    m.add_class::<DisableTorchFunctionSubclass>()?;
    m.add_class::<DisableTorchFunction>()?;
    Ok(())
}

/// Whether an object is a tensor of a class that takes calls over.
pub fn is_overriding_tensor(py: Python<'_>, object: *mut PyObject) -> bool {
    !is_exact(object) && is_tensor(object) && wanted_for(py, object)
}

fn wanted_for(py: Python<'_>, object: *mut PyObject) -> bool {
    DISABLED.get() == Disabled::Nothing && has_override(py, object)
}
