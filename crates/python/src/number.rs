//! Python numbers as scalars, and scalars as Python numbers.

use flambeau::Scalar;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

/// The name of an object's type as messages have it (`int`, `numpy.float32`).
#[cold]
pub fn type_name(object: *mut PyObject) -> String {
    Python::attach(|py| {
        // SAFETY: every caller passes a live object.
        let object = unsafe { Bound::from_borrowed_ptr(py, object) };
        let kind = object.get_type();
        let name = kind.name().map_or_else(|_| "object".into(), |n| n.to_string());
        let module = kind.getattr("__module__").and_then(|m| m.extract::<String>()).unwrap_or_default();
        match (module.as_str(), name.as_str()) {
            ("flambeau", "dtype" | "device" | "layout" | "memory_format" | "Size") => format!("torch.{name}"),
            ("flambeau" | "builtins" | "", _) => name,
            ("numpy", _) => format!("numpy.{name}"),
            _ => name,
        }
    })
}

/// Whether the object is a NumPy scalar (`numpy.float32(1)`).
#[cold]
fn is_numpy_scalar(py: Python<'_>, object: *mut PyObject) -> bool {
    // SAFETY: a live object.
    let object = unsafe { Bound::from_borrowed_ptr(py, object) };
    let kind = object.get_type();
    let from_numpy = kind.getattr("__module__").is_ok_and(|m| m.extract::<String>().is_ok_and(|m| m == "numpy"));
    from_numpy && kind.hasattr("item").unwrap_or(false) && kind.name().is_ok_and(|n| n != "ndarray")
}

/// The number that an object is: a Python number or a NumPy scalar.
#[inline]
pub fn number(py: Python<'_>, object: *mut PyObject) -> Option<Scalar> {
    // SAFETY: a live object; the functions called take objects of the types just checked.
    unsafe {
        if ffi::PyFloat_CheckExact(object) != 0 {
            return Some(Scalar::Float(ffi::PyFloat_AsDouble(object)));
        }
        if ffi::PyBool_Check(object) != 0 {
            return Some(Scalar::Bool(object == ffi::Py_True()));
        }
        if ffi::PyLong_Check(object) != 0 {
            return integer(py, object);
        }
        if crate::object::is_exact(object) || object == ffi::Py_None() {
            return None;
        }
    }
    other_number(py, object)
}

/// A Python integer; one beyond 64 bits is none.
fn integer(py: Python<'_>, object: *mut PyObject) -> Option<Scalar> {
    // SAFETY: a live integer.
    unsafe {
        let mut overflow = 0;
        let i = ffi::PyLong_AsLongLongAndOverflow(object, &mut overflow);
        if overflow == 0 {
            return Some(Scalar::Int(i));
        }
        if overflow > 0 {
            let u = ffi::PyLong_AsUnsignedLongLong(object);
            if ffi::PyErr_Occurred().is_null() {
                return Some(Scalar::UInt(u));
            }
            drop(PyErr::take(py));
        }
        None
    }
}

#[cold]
fn other_number(py: Python<'_>, object: *mut PyObject) -> Option<Scalar> {
    // SAFETY: a live object of the types just checked.
    unsafe {
        if ffi::PyFloat_Check(object) != 0 {
            return Some(Scalar::Float(ffi::PyFloat_AsDouble(object)));
        }
        if ffi::PyComplex_Check(object) != 0 {
            let (re, im) = (ffi::PyComplex_RealAsDouble(object), ffi::PyComplex_ImagAsDouble(object));
            return Some(Scalar::Complex(flambeau::Complex::new(re, im)));
        }
        // Kinds of object that arguments often are, told apart before attributes are looked up.
        if ffi::PyUnicode_Check(object) != 0 || ffi::PyTuple_Check(object) != 0 || ffi::PyList_Check(object) != 0 {
            return None;
        }
    }
    if !crate::object::is_tensor(object) && is_numpy_scalar(py, object) {
        // SAFETY: a live object.
        let item = unsafe { Bound::from_borrowed_ptr(py, object) }.call_method0("item").ok()?;
        let again = item.as_ptr() == object;
        return if again { None } else { number(py, item.as_ptr()) };
    }
    None
}

/// The integer that an object is, also through `__index__`.
pub fn index(py: Python<'_>, object: *mut PyObject) -> Option<i64> {
    match number(py, object) {
        Some(Scalar::Int(i)) => Some(i),
        Some(Scalar::UInt(u)) => Some(u as i64),
        Some(_) => None,
        None => {
            // SAFETY: a live object; an error is taken away again.
            unsafe {
                if crate::object::is_tensor(object) || ffi::PyIndex_Check(object) == 0 {
                    return None;
                }
                let integer = ffi::PyNumber_Index(object);
                if integer.is_null() {
                    drop(PyErr::take(py));
                    return None;
                }
                let integer = Bound::from_owned_ptr(py, integer);
                integer.extract().ok()
            }
        }
    }
}

/// The Python number of a scalar. A new reference.
pub fn to_python(_py: Python<'_>, s: Scalar) -> *mut PyObject {
    // SAFETY: makes new objects; allocation failure gives null, which the caller's caller reports.
    unsafe {
        match s {
            Scalar::Bool(b) => {
                let object = if b { ffi::Py_True() } else { ffi::Py_False() };
                ffi::Py_INCREF(object);
                object
            }
            Scalar::Int(i) => ffi::PyLong_FromLongLong(i),
            Scalar::UInt(u) => ffi::PyLong_FromUnsignedLongLong(u),
            Scalar::Float(f) => ffi::PyFloat_FromDouble(f),
            Scalar::Complex(c) => ffi::PyComplex_FromDoubles(c.re, c.im),
        }
    }
}
