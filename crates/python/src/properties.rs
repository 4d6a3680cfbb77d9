//! Properties of `Tensor`.

use crate::error::raise;
use crate::function::guarded;
use crate::number::{to_python, type_name};
use crate::object::{is_tensor, replace, tensor_of, tensor_type, wrap};
use crate::overrides;
use flambeau::{Scalar, Tensor};
use pyo3::exceptions::{PyAttributeError, PyRuntimeError, PyTypeError, PyUserWarning};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};

type Getter = fn(Python<'_>, &Tensor) -> PyResult<*mut PyObject>;
/// Sets a property of the tensor object; null deletes.
type Setter = fn(Python<'_>, *mut PyObject, *mut PyObject) -> PyResult<()>;

struct Property {
    name: &'static CStr,
    get: Getter,
    set: Option<Setter>,
}

unsafe extern "C" fn get(object: *mut PyObject, closure: *mut c_void) -> *mut PyObject {
    // SAFETY: called by the interpreter with a live tensor and the property that the definition names.
    unsafe {
        let property = &*closure.cast::<Property>();
        guarded(|py| {
            if overrides::is_overriding_tensor(py, object)
                && let Some(result) = overrides::handle_property(py, name(property), "__get__", &[object])?
            {
                return Ok(result);
            }
            let t = tensor_of(object).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?;
            (property.get)(py, &t)
        })
    }
}

fn name(property: &Property) -> &str {
    property.name.to_str().unwrap_or_default()
}

unsafe extern "C" fn set(object: *mut PyObject, value: *mut PyObject, closure: *mut c_void) -> c_int {
    // SAFETY: as in `get`; `value` is live or null.
    unsafe {
        let property = &*closure.cast::<Property>();
        let done = guarded(|py| {
            if !value.is_null()
                && overrides::is_overriding_tensor(py, object)
                && let Some(result) = overrides::handle_property(py, name(property), "__set__", &[object, value])?
            {
                return Ok(result);
            }
            let setter = property.set.ok_or_else(|| {
                PyAttributeError::new_err(format!(
                    "attribute '{}' of 'torch._C.TensorBase' objects is not writable",
                    name(property)
                ))
            })?;
            setter(py, object, value)?;
            Ok(py.None().into_ptr())
        });
        if done.is_null() {
            return -1;
        }
        ffi::Py_DECREF(done);
        0
    }
}

fn boolean(py: Python<'_>, yes: bool) -> PyResult<*mut PyObject> {
    Ok(to_python(py, Scalar::Bool(yes)))
}

fn none(py: Python<'_>) -> PyResult<*mut PyObject> {
    Ok(py.None().into_ptr())
}

fn optional(py: Python<'_>, t: Option<Tensor>) -> PyResult<*mut PyObject> {
    t.map_or_else(|| none(py), |t| wrap(py, t))
}

/// The property as an operator of the same tensor (`x.T`).
fn operator(py: Python<'_>, t: &Tensor, op: &str) -> PyResult<*mut PyObject> {
    let op = flambeau::registry::find(op)
        .ok_or_else(|| PyRuntimeError::new_err(format!("the operator '{op}' does not exist")))?;
    wrap(py, op.call(&[flambeau::Value::Tensor(t)]).and_then(|o| o.one()).map_err(raise)?)
}

fn set_requires_grad(py: Python<'_>, object: *mut PyObject, value: *mut PyObject) -> PyResult<()> {
    // SAFETY: a live object or null.
    if value.is_null() || unsafe { ffi::PyBool_Check(value) == 0 } {
        return Err(PyRuntimeError::new_err("requires_grad must be a bool"));
    }
    let t = tensor_of(object).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?;
    let _ = py;
    // SAFETY: a comparison of addresses.
    t.set_requires_grad(unsafe { value == ffi::Py_True() }).map_err(raise)
}

fn set_grad(py: Python<'_>, object: *mut PyObject, value: *mut PyObject) -> PyResult<()> {
    let t = tensor_of(object).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?;
    let _ = py;
    // SAFETY: a comparison of addresses.
    if value.is_null() || unsafe { value == ffi::Py_None() } {
        return t.set_grad(None).map_err(raise);
    }
    let Some(g) = tensor_of(value) else {
        return Err(PyTypeError::new_err(format!(
            "assigned grad expected to be a Tensor or None but got grad of type {}",
            type_name(value)
        )));
    };
    if g.is_same(&t) {
        return Err(PyRuntimeError::new_err("can't assign Variable as its own grad"));
    }
    t.set_grad(Some(g)).map_err(raise)
}

/// The gradient, with a warning where there will be none.
fn grad(py: Python<'_>, t: &Tensor) -> PyResult<*mut PyObject> {
    let found = t.grad();
    if found.is_none() && t.requires_grad() && !t.is_leaf() && !t.retains_grad() {
        warn(
            py,
            c"The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be \
              populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, \
              use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the \
              leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more information.",
        )?;
    }
    optional(py, found)
}

/// A `UserWarning` at the line of the program.
fn warn(py: Python<'_>, text: &CStr) -> PyResult<()> {
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), text, 1)
}

/// The dims in reverse order, which PyTorch wants of matrices only.
fn reversed(py: Python<'_>, t: &Tensor) -> PyResult<*mut PyObject> {
    match t.dim() {
        2 => {}
        0 => warn(py, c"Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.")?,
        1 => {}
        _ => warn(
            py,
            c"The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an \
              error in a future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - \
              1, -1, -1))` to reverse the dimensions of a tensor.",
        )?,
    }
    operator(py, t, "numpy_T")
}

fn set_backward_hooks(py: Python<'_>, object: *mut PyObject, value: *mut PyObject) -> PyResult<()> {
    let t = tensor_of(object).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?;
    // SAFETY: a live object or null.
    let hooks = unsafe { Bound::from_borrowed_ptr_or_opt(py, value) };
    crate::hooks::set_backward_hooks(&t, hooks.filter(|h| !h.is_none()))
}

fn set_data(py: Python<'_>, object: *mut PyObject, value: *mut PyObject) -> PyResult<()> {
    let _ = py;
    if value.is_null() {
        return Err(PyRuntimeError::new_err("Deleting tensor data is not allowed"));
    }
    if !is_tensor(value) {
        return Err(PyTypeError::new_err(format!("Variable data has to be a tensor, but got {}", type_name(value))));
    }
    let (Some(t), Some(data)) = (tensor_of(object), tensor_of(value)) else {
        return Err(PyTypeError::new_err("expected a Tensor"));
    };
    let new = t.with_data(&data).map_err(raise)?;
    // SAFETY: a live tensor, and the lock is held.
    unsafe { replace(object, new) };
    Ok(())
}

fn set_part(py: Python<'_>, object: *mut PyObject, value: *mut PyObject, part: &str) -> PyResult<()> {
    // SAFETY: live objects.
    unsafe {
        let tensor = Bound::from_borrowed_ptr(py, object);
        tensor.getattr(part)?.call_method1("copy_", (Bound::from_borrowed_ptr(py, value),))?;
    }
    Ok(())
}

macro_rules! properties {
    ($($name:literal: $get:expr $(, set: $set:expr)?;)*) => {
        &[$(Property { name: $name, get: $get, set: properties!(@set $($set)?) }),*]
    };
    (@set) => { None };
    (@set $set:expr) => { Some($set) };
}

static PROPERTIES: &[Property] = properties! {
    c"shape": |py, t| crate::types::size(py, t.sizes());
    c"dtype": |py, t| Ok(crate::types::dtype(py, t.dtype()).into_ptr());
    c"device": |py, t| Ok(crate::types::device(py, t.device())?.into_ptr());
    c"layout": |py, t| Ok(crate::types::layout(py, t.layout()).into_ptr());
    c"ndim": |py, t| Ok(to_python(py, Scalar::Int(t.dim() as i64)));
    c"itemsize": |py, t| Ok(to_python(py, Scalar::Int(t.element_size() as i64)));
    c"nbytes": |py, t| match t.layout() {
        flambeau::Layout::SparseCoo => Err(PyRuntimeError::new_err(
            "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the nbytes of \
             the indices and values.  If you want the size of the  equivalent dense tensor, multiply numel() by \
             element_size()",
        )),
        _ => Ok(to_python(py, Scalar::Int(t.element_size() as i64 * t.numel()))),
    };
    c"requires_grad": |py, t| boolean(py, t.requires_grad()), set: set_requires_grad;
    c"is_leaf": |py, t| boolean(py, t.is_leaf());
    c"grad": grad, set: set_grad;
    c"_grad": |py, t| optional(py, t.grad()), set: set_grad;
    c"retains_grad": |py, t| boolean(py, t.retains_grad());
    c"grad_fn": crate::autograd::grad_fn;
    c"output_nr": |py, t| Ok(to_python(py, Scalar::Int(t.output_number().into())));
    c"_backward_hooks": |py, t| Ok(crate::hooks::backward_hooks(py, t).map_or_else(|| py.None().into_ptr(), Bound::into_ptr)),
        set: set_backward_hooks;
    c"_post_accumulate_grad_hooks": |py, t| {
        Ok(crate::hooks::accumulated_hooks(py, t).map_or_else(|| py.None().into_ptr(), Bound::into_ptr))
    };
    c"data": |py, t| wrap(py, t.data()), set: set_data;
    c"T": reversed;
    c"mT": |py, t| operator(py, t, "mT");
    c"H": |py, t| operator(py, t, "matrix_H");
    c"mH": |py, t| operator(py, t, "mH");
    c"real": |py, t| wrap(py, if t.dtype().is_complex() { t.real().map_err(raise)? } else { t.clone() }),
        set: |py, o, v| set_part(py, o, v, "real");
    c"imag": |py, t| wrap(py, t.imag().map_err(raise)?), set: |py, o, v| set_part(py, o, v, "imag");
    c"_version": |py, t| match t.is_inference() {
        true => Err(PyRuntimeError::new_err("Inference tensors do not track version counter.")),
        false => Ok(to_python(py, Scalar::Int(t.version().into()))),
    };
    c"_base": |py, t| optional(py, t.base().cloned());
    c"is_cpu": |py, t| boolean(py, t.device().is_cpu());
    c"is_meta": |py, t| boolean(py, t.device().is_meta());
    c"is_cuda": |py, t| boolean(py, t.device().kind.name() == "cuda");
    c"is_mps": |py, _t| boolean(py, false);
    c"is_xpu": |py, _t| boolean(py, false);
    c"is_xla": |py, _t| boolean(py, false);
    c"is_hpu": |py, _t| boolean(py, false);
    c"is_ipu": |py, _t| boolean(py, false);
    c"is_maia": |py, _t| boolean(py, false);
    c"is_mtia": |py, _t| boolean(py, false);
    c"is_vulkan": |py, _t| boolean(py, false);
    c"is_sparse": |py, t| boolean(py, t.layout() == flambeau::Layout::SparseCoo);
    c"is_sparse_csr": |py, t| boolean(py, t.layout() == flambeau::Layout::SparseCsr);
    c"is_mkldnn": |py, _t| boolean(py, false);
    c"is_quantized": |py, _t| boolean(py, false);
    c"is_nested": |py, _t| boolean(py, false);
};

/// Adds the properties to the type.
///
/// # Errors
/// When Python cannot.
pub fn add_all(kind: &Bound<'_, PyAny>) -> PyResult<()> {
    for p in PROPERTIES {
        let definition = Box::leak(Box::new(ffi::PyGetSetDef {
            name: p.name.as_ptr(),
            get: Some(get),
            set: Some(set),
            doc: std::ptr::null(),
            closure: std::ptr::from_ref(p).cast_mut().cast(),
        }));
        // SAFETY: a complete definition that lives on.
        let object =
            unsafe { Bound::from_owned_ptr_or_err(kind.py(), ffi::PyDescr_NewGetSet(tensor_type(), definition))? };
        kind.setattr(name(p), object)?;
    }
    Ok(())
}
