//! Single arguments: whether a Python object may be given for a parameter, and what it becomes there.

use crate::number::{index, number};
use crate::object::{is_tensor, peek, tensor_of};
use crate::parse::{Converted, Items, Parameter, cost, text};
use crate::types::{DTypeObject, DeviceObject, GeneratorObject, LayoutObject, MemoryFormatObject};
use flambeau::schema::Base;
use flambeau::{DType, Device, Dims, OwnedValue, Scalar};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyString;
use smallvec::SmallVec;

/// Whether it is an integer and no boolean: a Python or NumPy one, or a 0-d integer tensor.
#[inline]
pub fn is_int(py: Python<'_>, object: *mut PyObject) -> bool {
    // SAFETY: a live object.
    unsafe {
        if ffi::PyLong_CheckExact(object) != 0 {
            return true;
        }
        if is_tensor(object) {
            let t = peek(object);
            return t.dim() == 0 && t.dtype().is_integral(false);
        }
        ffi::PyFloat_Check(object) == 0
            && ffi::PyBool_Check(object) == 0
            && ffi::PyIndex_Check(object) != 0
            && index(py, object).is_some()
    }
}

/// Whether it may stand in a list of integers: as [`is_int`], or any tensor of one integer.
#[inline]
pub fn is_int_in_list(py: Python<'_>, object: *mut PyObject) -> bool {
    if !is_tensor(object) {
        return is_int(py, object);
    }
    // SAFETY: checked to be a live tensor.
    let t = unsafe { peek(object) };
    t.numel() == 1 && t.dtype().is_integral(false)
}

/// The integer that [`is_int`] or [`is_int_in_list`] saw.
#[inline]
pub fn int_of(py: Python<'_>, object: *mut PyObject) -> Option<i64> {
    // SAFETY: a live object.
    if unsafe { ffi::PyLong_CheckExact(object) != 0 } {
        return index(py, object);
    }
    match tensor_of(object) {
        Some(t) => t.item().ok().map(Scalar::to_i64),
        None => index(py, object),
    }
}

/// The integer at a place (from 0) of a list of integers. A boolean is one too, as in PyTorch, but not in the first place,
/// which decides whether it is a list of integers at all.
#[inline]
pub fn int_in_list(py: Python<'_>, place: usize, object: *mut PyObject) -> Option<i64> {
    let integer = int_of(py, object).filter(|_| is_int_in_list(py, object));
    // SAFETY: a live object.
    integer
        .or_else(|| unsafe { (place > 0 && ffi::PyBool_Check(object) != 0).then(|| (object == ffi::Py_True()).into()) })
}

#[cold]
pub fn overflow() -> PyErr {
    pyo3::exceptions::PyValueError::new_err("Overflow when unpacking long long")
}

/// Whether a tensor may stand for a number.
fn stands_for_number(object: *mut PyObject) -> Option<DType> {
    // SAFETY: checked to be a live tensor.
    let t = is_tensor(object).then(|| unsafe { peek(object) })?;
    (t.dim() == 0 && !t.requires_grad()).then(|| t.dtype())
}

/// Whether an object may be given for a parameter, and what its conversion costs.
#[inline]
pub fn check(py: Python<'_>, p: &Parameter, object: *mut PyObject) -> Option<u32> {
    if p.ty.base == Base::Tensor && p.ty.list.is_none() && is_tensor(object) {
        return Some(0);
    }
    // SAFETY: a comparison of addresses.
    if object == unsafe { ffi::Py_None() } {
        // `stride=None` where an empty list means that none is given.
        let empty = matches!(&p.default, Some(OwnedValue::Ints(v)) if v.is_empty());
        return (p.ty.optional || empty).then_some(0);
    }
    match p.ty.list {
        None => check_one(py, p, object),
        Some(length) => match Items::of(object) {
            None if p.ty.base == Base::Tensor => None,
            None => {
                length?;
                check_one(py, p, object).map(|c| c + cost::EXPANDED)
            }
            // As PyTorch does, only the first integer decides; the others are looked at when they are read.
            Some(items) if p.ty.base == Base::Int && !p.ty.optional_elements => match items.0.first() {
                Some(&first) if is_tensor(first) => is_int_in_list(py, first).then_some(cost::TENSOR_TO_NUMBER),
                Some(&first) => check_one(py, p, first),
                None => Some(0),
            },
            Some(items) => {
                let mut total = 0;
                for &item in items.iter() {
                    // SAFETY: a comparison of addresses.
                    if p.ty.optional_elements && item == unsafe { ffi::Py_None() } {
                        continue;
                    }
                    total += check_one(py, p, item)?;
                }
                Some(total)
            }
        },
    }
}

fn check_one(py: Python<'_>, p: &Parameter, object: *mut PyObject) -> Option<u32> {
    // SAFETY: a live object.
    let bound = || unsafe { Bound::from_borrowed_ptr(py, object) };
    let free = |yes: bool| yes.then_some(0);
    match p.ty.base {
        Base::Tensor if is_tensor(object) => Some(0),
        Base::Tensor if p.numbers => number(py, object).map(|_| cost::NUMBER_TO_TENSOR),
        Base::Tensor => None,
        Base::Scalar => match stands_for_number(object) {
            Some(_) => Some(cost::TENSOR_TO_NUMBER),
            None => number(py, object).map(|_| 0),
        },
        Base::Int if is_tensor(object) => is_int(py, object).then_some(cost::TENSOR_TO_NUMBER),
        Base::Int => free(is_int(py, object)),
        Base::Float => match stands_for_number(object) {
            Some(d) => (!d.is_complex()).then_some(cost::TENSOR_TO_NUMBER),
            None => match number(py, object)? {
                Scalar::Float(_) => Some(0),
                Scalar::Complex(_) => None,
                _ => Some(cost::NUMBER_TO_WIDER),
            },
        },
        Base::Bool => free(matches!(number(py, object), Some(Scalar::Bool(_)))),
        // SAFETY: a live object.
        Base::Str => free(unsafe { ffi::PyUnicode_Check(object) != 0 }),
        Base::ScalarType => free(!matches!(dtype_of(&bound()), Ok(None))),
        Base::Layout => free(bound().cast::<LayoutObject>().is_ok()),
        Base::Device => {
            let o = bound();
            free(o.cast::<DeviceObject>().is_ok() || o.cast::<PyString>().is_ok() || is_int(py, object))
        }
        Base::MemoryFormat => free(bound().cast::<MemoryFormatObject>().is_ok()),
        Base::Generator => free(bound().cast::<GeneratorObject>().is_ok()),
    }
}

/// The dtype that an object names: one, or Python's `float`, `int`, `bool`, `complex`.
///
/// # Errors
/// When it is a dtype that exists as a name only.
pub fn dtype_of(object: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    if let Ok(d) = object.cast::<DTypeObject>() {
        return d.get().known().map(Some);
    }
    // The addresses of built-in types.
    let p = object.as_ptr();
    let is = |t: *mut ffi::PyTypeObject| p == t.cast();
    Ok(if is(&raw mut ffi::PyFloat_Type) {
        Some(DType::F64)
    } else if is(&raw mut ffi::PyLong_Type) {
        Some(DType::I64)
    } else if is(&raw mut ffi::PyBool_Type) {
        Some(DType::Bool)
    } else if is(&raw mut ffi::PyComplex_Type) {
        Some(DType::Complex128)
    } else {
        None
    })
}

/// The device of a tensor that is asked for on the device that an object names. There is one host memory, and one place
/// without data, whatever number is said: tensors there have none.
pub fn device_of(object: &Bound<'_, PyAny>) -> PyResult<Device> {
    let named = numbered_device_of(object)?;
    Ok(if named.is_cpu() || named.is_meta() { Device::new(named.kind) } else { named })
}

/// The device that an object names, with its number.
pub fn numbered_device_of(object: &Bound<'_, PyAny>) -> PyResult<Device> {
    if let Ok(d) = object.cast::<DeviceObject>() {
        return d.get().device();
    }
    match object.cast::<PyString>() {
        Ok(s) => DeviceObject::parse(&s.to_string_lossy())?.device(),
        Err(_) => DeviceObject::numbered(object.extract()?)?.device(),
    }
}

pub fn number_of(py: Python<'_>, object: *mut PyObject) -> PyResult<Scalar> {
    match tensor_of(object) {
        Some(t) => t.item().map_err(crate::error::raise),
        None => number(py, object).ok_or_else(overflow),
    }
}

/// An argument that [`check`] accepted.
#[inline]
pub fn convert(py: Python<'_>, p: &Parameter, object: *mut PyObject) -> PyResult<Converted> {
    if p.ty.base == Base::Tensor
        && p.ty.list.is_none()
        && let Some(t) = tensor_of(object)
    {
        return Ok(Converted::Tensor(t));
    }
    // SAFETY: a comparison of addresses.
    if object == unsafe { ffi::Py_None() } {
        return Ok(if p.ty.optional { Converted::None } else { p.default_of() });
    }
    if let Some(length) = p.ty.list {
        return convert_list(py, p, object, length);
    }
    // SAFETY: a live object.
    let bound = unsafe { Bound::from_borrowed_ptr(py, object) };
    let stranger = || PyTypeError::new_err(format!("argument '{}' changed while it was read", p.text));
    Ok(Converted::Other(match p.ty.base {
        Base::Tensor | Base::Scalar => OwnedValue::Scalar(number_of(py, object)?),
        Base::Int => OwnedValue::Int(int_of(py, object).ok_or_else(overflow)?),
        Base::Float => OwnedValue::Float(number_of(py, object)?.to_f64()),
        Base::Bool => OwnedValue::Bool(number_of(py, object)?.to_bool()),
        Base::Str => OwnedValue::Str(text(object)),
        Base::ScalarType => OwnedValue::DType(dtype_of(&bound)?.ok_or_else(stranger)?),
        Base::Layout => OwnedValue::Layout(bound.cast::<LayoutObject>().map_err(|_| stranger())?.get().known()?),
        Base::Device => OwnedValue::Device(device_of(&bound)?),
        Base::MemoryFormat => {
            OwnedValue::MemoryFormat(bound.cast::<MemoryFormatObject>().map_err(|_| stranger())?.get().0)
        }
        Base::Generator => {
            let g = bound.cast::<GeneratorObject>().map_err(|_| stranger())?;
            return Ok(Converted::Generator(g.get().0.clone()));
        }
    }))
}

impl Parameter {
    fn default_of(&self) -> Converted {
        match &self.default {
            Some(v) => Converted::Other(v.clone()),
            None => Converted::None,
        }
    }
}

fn convert_list(py: Python<'_>, p: &Parameter, object: *mut PyObject, length: Option<usize>) -> PyResult<Converted> {
    let items = match Items::of(object) {
        Some(items) => items,
        // One number for all.
        None => Items(SmallVec::from_elem(object, length.unwrap_or(1))),
    };
    let numbers = || items.iter().map(|o| number_of(py, *o));
    Ok(match p.ty.base {
        Base::Int => {
            let ints = items.iter().enumerate().map(|(place, o)| int_in_list(py, place, *o));
            Converted::Ints(ints.collect::<Option<Dims>>().ok_or_else(overflow)?)
        }
        Base::Tensor if p.ty.optional_elements => {
            Converted::Other(OwnedValue::OptionalTensors(items.iter().map(|o| tensor_of(*o)).collect()))
        }
        Base::Tensor => Converted::Other(OwnedValue::Tensors(items.iter().filter_map(|o| tensor_of(*o)).collect())),
        Base::Float => {
            Converted::Other(OwnedValue::Floats(numbers().map(|s| s.map(Scalar::to_f64)).collect::<PyResult<_>>()?))
        }
        Base::Bool => {
            Converted::Other(OwnedValue::Bools(numbers().map(|s| s.map(Scalar::to_bool)).collect::<PyResult<_>>()?))
        }
        _ => Converted::Other(OwnedValue::Scalars(numbers().collect::<PyResult<_>>()?)),
    })
}
