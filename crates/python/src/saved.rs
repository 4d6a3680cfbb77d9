//! Saved tensors in Python, and hooks that pack and unpack them.

use crate::error::{carry, raise};
use crate::node::{Owned, node_of};
use crate::number::type_name;
use crate::object::{Argument, bound, tensor_of};
use flambeau::autograd::{
    self, PackedTensor, SavedTensorHooks, disable_saved_tensor_hooks, pop_saved_tensor_hooks, push_saved_tensor_hooks,
};
use flambeau::{Error, Tensor};
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use std::sync::Arc;

/// A pair of Python functions.
struct Hooks {
    pack: Owned,
    unpack: Arc<Owned>,
}

/// What `pack` returned.
struct Packed {
    value: Owned,
    unpack: Arc<Owned>,
}

impl Hooks {
    fn new(pack: Bound<'_, PyAny>, unpack: Bound<'_, PyAny>) -> Hooks {
        Hooks { pack: Owned::new(pack), unpack: Arc::new(Owned::new(unpack)) }
    }
}

impl SavedTensorHooks for Hooks {
    fn pack(&self, tensor: &Tensor) -> Result<Box<dyn PackedTensor>, Error> {
        let run = |py: Python<'_>| self.pack.bind(py).call1((bound(py, tensor.clone())?,)).map(Owned::new);
        let value = Python::attach(run).map_err(carry)?;
        Ok(Box::new(Packed { value, unpack: self.unpack.clone() }))
    }
}

impl PackedTensor for Packed {
    fn unpack(&self) -> Result<Tensor, Error> {
        let run = |py: Python<'_>| {
            let result = self.unpack.bind(py).call1((self.value.bind(py),))?;
            tensor_of(result.as_ptr()).ok_or_else(|| {
                PyTypeError::new_err(format!(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {}",
                    type_name(result.as_ptr())
                ))
            })
        };
        Python::attach(run).map_err(carry)
    }
}

/// A tensor that a custom function saved.
#[pyclass(frozen, weakref, name = "SavedTensor", module = "flambeau._C")]
pub struct SavedTensor {
    saved: Mutex<Option<autograd::SavedTensor>>,
    /// An argument's Python object, whose class and attributes come back with it.
    object: Mutex<Option<Owned>>,
}

impl SavedTensor {
    fn get(&self) -> PyResult<autograd::SavedTensor> {
        self.saved.lock().clone().ok_or_else(|| PyRuntimeError::new_err("the saved tensor is being packed"))
    }
}

#[pymethods]
impl SavedTensor {
    #[new]
    #[pyo3(signature = (tensor, is_output=false))]
    fn new(tensor: Bound<'_, PyAny>, is_output: bool) -> PyResult<SavedTensor> {
        let Argument(t) = tensor.extract()?;
        let saved = match is_output {
            true => autograd::SavedTensor::output(&t, t.output_number()),
            false => autograd::SavedTensor::input(&t),
        };
        let saved = saved.map_err(raise)?;
        let plain = saved.unchecked().is_some() && !is_output;
        let object = plain.then(|| Owned::new(tensor));
        Ok(SavedTensor { saved: Mutex::new(Some(saved)), object: Mutex::new(object) })
    }

    /// The tensor as it was. An output's `grad_fn` is `node`.
    #[pyo3(signature = (node=None))]
    fn unpack<'py>(&self, py: Python<'py>, node: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let node = node.map(node_of).transpose()?;
        let t = self.get()?.unpack_for(node.as_ref(), true).map_err(raise)?;
        let known = self.object.lock().as_ref().map(|o| o.bind(py).clone());
        match known {
            Some(o) if tensor_of(o.as_ptr()).is_some_and(|o| o.is_same(&t)) => Ok(o),
            _ => bound(py, t),
        }
    }

    /// Packs it at once with `pack`, and unpacks it with `unpack` from now on.
    fn register_hooks(&self, pack: Bound<'_, PyAny>, unpack: Bound<'_, PyAny>) -> PyResult<()> {
        if !pack.is_callable() || !unpack.is_callable() {
            return Err(PyTypeError::new_err("register_hooks(): both hooks must be callable"));
        }
        let mut saved = self.get()?;
        saved.register_hooks(&Hooks::new(pack, unpack)).map_err(raise)?;
        let _old = self.saved.lock().replace(saved);
        let _object = self.object.lock().take();
        Ok(())
    }

    /// The tensor as it is now; `None` if it is packed.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.get()?.unchecked().map(|t| bound(py, t.clone())).transpose()
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        match self.object.try_lock().as_deref() {
            Some(Some(o)) => visit.call(o.as_py()),
            _ => Ok(()),
        }
    }
    fn __clear__(&self) {
        let _object = self.object.lock().take();
    }
}

/// Tensors saved from now on pass through the hooks.
#[pyfunction]
fn _push_saved_tensors_hooks(pack_hook: Bound<'_, PyAny>, unpack_hook: Bound<'_, PyAny>) -> PyResult<()> {
    push_saved_tensor_hooks(Arc::new(Hooks::new(pack_hook, unpack_hook))).map_err(raise)
}

#[pyfunction]
fn _pop_saved_tensors_hooks() {
    pop_saved_tensor_hooks();
}

#[pyfunction]
fn _disable_saved_tensors_hooks(error_message: String) -> PyResult<()> {
    disable_saved_tensor_hooks(Some(error_message)).map_err(raise)
}

#[pyfunction]
fn _enable_saved_tensors_hooks() -> PyResult<()> {
    disable_saved_tensor_hooks(None).map_err(raise)
}

#[pyfunction]
fn _disabled_saved_tensors_hooks_message() -> Option<String> {
    autograd::saved_tensor_hooks_disabled()
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<SavedTensor>()?;
    m.add_function(wrap_pyfunction!(_push_saved_tensors_hooks, m)?)?;
    m.add_function(wrap_pyfunction!(_pop_saved_tensors_hooks, m)?)?;
    m.add_function(wrap_pyfunction!(_disable_saved_tensors_hooks, m)?)?;
    m.add_function(wrap_pyfunction!(_enable_saved_tensors_hooks, m)?)?;
    m.add_function(wrap_pyfunction!(_disabled_saved_tensors_hooks_message, m)?)?;
    Ok(())
}
