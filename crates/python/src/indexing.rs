//! `x[...]` and `x[...] = y`.

use crate::error::raise;
use crate::function::{released, this};
use crate::number::{index as integer, number, type_name};
use crate::object::{tensor_of, wrap};
use crate::parse::Call;
use flambeau::{DType, Index, OwnedOperand, Tensor};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyUserWarning, PyValueError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use smallvec::SmallVec;

type Parts = SmallVec<[Index; 4]>;

/// `x[index]`.
pub fn get_item(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    let index = call.args.last().copied().ok_or_else(|| PyTypeError::new_err("expected an index"))?;
    let parts = parse(call.py, index)?;
    let result = match parts.as_slice() {
        [Index::At(i)] if t.dim() > 0 => {
            let n = t.sizes()[0];
            if *i < -n || *i >= n {
                return Err(PyIndexError::new_err(format!("index {i} is out of bounds for dimension 0 with size {n}")));
            }
            t.select(0, *i)
        }
        [Index::Slice { start, end, step }] if t.dim() > 0 && *step > 0 => t.slice(0, *start, *end, *step),
        _ => {
            zero_dim(&t, &parts)?;
            let large = parts.iter().any(|p| matches!(p, Index::Tensor(_))) && t.numel() > 4096;
            match large {
                true => released(call.py, || t.at(&parts)),
                false => t.at(&parts),
            }
        }
    };
    let result = result.map_err(raise)?;
    // Indexing always gives a new tensor: `x[...]` is a view of x.
    let result = if result.is_same(&t) { t.alias().map_err(raise)? } else { result };
    wrap(call.py, result)
}

/// `x[index] = value`.
pub fn set_item(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    let (Some(&index), Some(&value)) = (call.args.get(call.args.len().wrapping_sub(2)), call.args.last()) else {
        return Err(PyTypeError::new_err("expected an index and a value"));
    };
    let parts = parse(call.py, index)?;
    zero_dim(&t, &parts)?;
    let value = match (tensor_of(value), number(call.py, value)) {
        (Some(v), _) => OwnedOperand::Tensor(v),
        (None, Some(s)) => OwnedOperand::Scalar(s),
        (None, None) => {
            return Err(PyTypeError::new_err(format!(
                "can't assign a {} to a torch.{}Tensor",
                type_name(value),
                t.dtype().scalar_type_name()
            )));
        }
    };
    match t.numel() > 4096 {
        true => released(call.py, || t.set_at(&parts, &value)),
        false => t.set_at(&parts, &value),
    }
    .map_err(raise)?;
    Ok(call.py.None().into_ptr())
}

fn zero_dim(t: &Tensor, parts: &[Index]) -> PyResult<()> {
    if t.dim() == 0 && parts.iter().any(|p| matches!(p, Index::At(_) | Index::Slice { .. })) {
        return Err(PyIndexError::new_err(match parts {
            [Index::At(_)] => {
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a \
                 0-dim tensor to a number"
            }
            [Index::Slice { .. }] => "slice() cannot be applied to a 0-dim tensor.",
            _ => "too many indices for tensor of dimension 0",
        }));
    }
    Ok(())
}

/// The parts of an index.
fn parse(py: Python<'_>, index: *mut PyObject) -> PyResult<Parts> {
    let mut parts = Parts::new();
    // SAFETY: a live object; items are borrowed from it.
    unsafe {
        if ffi::PyTuple_Check(index) != 0 {
            for i in 0..ffi::PyTuple_Size(index) {
                parts.push(part(py, ffi::PyTuple_GetItem(index, i))?);
            }
            return Ok(parts);
        }
        // An old NumPy habit: a list with slices or nested sequences in it is a tuple.
        if ffi::PyList_Check(index) != 0 && is_tuple_in_disguise(index) {
            let text = c"Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch \
                         2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, \
                         x[torch.tensor(seq)], which will result either in an error or a different result";
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), text, 1)?;
            for i in 0..ffi::PyList_Size(index) {
                parts.push(part(py, ffi::PyList_GetItem(index, i))?);
            }
            return Ok(parts);
        }
    }
    parts.push(part(py, index)?);
    Ok(parts)
}

/// Whether a list stands for a tuple of indices: it is short and has a part that no list of numbers has.
fn is_tuple_in_disguise(list: *mut PyObject) -> bool {
    // SAFETY: a live list.
    unsafe {
        let n = ffi::PyList_Size(list);
        n < 32
            && (0..n).any(|i| {
                let item = ffi::PyList_GetItem(list, i);
                item == ffi::Py_None()
                    || item == ffi::Py_Ellipsis()
                    || ffi::Py_TYPE(item) == &raw mut ffi::PySlice_Type
                    || crate::object::is_tensor(item)
                    || ffi::PySequence_Check(item) != 0
            })
    }
}

#[inline]
fn part(py: Python<'_>, object: *mut PyObject) -> PyResult<Index> {
    // SAFETY: a live object.
    unsafe {
        if ffi::PyLong_CheckExact(object) != 0 {
            let i = ffi::PyLong_AsLongLong(object);
            if i == -1 && !ffi::PyErr_Occurred().is_null() {
                return Err(PyErr::fetch(py));
            }
            return Ok(Index::At(i));
        }
        if ffi::Py_TYPE(object) == &raw mut ffi::PySlice_Type {
            return slice(py, object);
        }
        if object == ffi::Py_None() {
            return Ok(Index::NewAxis);
        }
        if object == ffi::Py_Ellipsis() {
            return Ok(Index::Ellipsis);
        }
        if ffi::PyBool_Check(object) != 0 {
            let t = Tensor::scalar(flambeau::Bool::from(object == ffi::Py_True())).map_err(raise)?;
            return Ok(Index::Tensor(t));
        }
    }
    if let Some(t) = tensor_of(object) {
        // A 0-d integer tensor is an integer, and of bytes a mask.
        if t.dim() == 0 && t.dtype().is_integral(false) && t.dtype() != DType::U8 && !t.device().is_meta() {
            return t.item().map(|s| Index::At(s.to_i64())).map_err(raise);
        }
        if !t.dtype().is_integral(true) {
            return Err(PyIndexError::new_err("tensors used as indices must be long, int, byte or bool tensors"));
        }
        if t.dtype() == DType::U8 && t.dim() > 0 {
            let text = c"indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.";
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), text, 1)?;
        }
        return Ok(Index::Tensor(t));
    }
    if let Some(i) = integer(py, object) {
        return Ok(Index::At(i));
    }
    // SAFETY: a live object.
    let sequence = unsafe { ffi::PySequence_Check(object) } != 0;
    // SAFETY: a live object.
    let array = unsafe { Bound::from_borrowed_ptr(py, object) }.hasattr("__array_interface__").unwrap_or(false);
    if (sequence || array) && number(py, object).is_none() {
        let t = crate::construct::from_data(py, object, None)?;
        let t = if t.dtype().is_floating_point() { t.to_dtype(DType::I64).map_err(raise)? } else { t };
        if !t.dtype().is_integral(true) {
            return Err(PyIndexError::new_err("tensors used as indices must be long, int, byte or bool tensors"));
        }
        return Ok(Index::Tensor(t));
    }
    Err(PyIndexError::new_err(format!(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})",
        type_name(object)
    )))
}

fn slice(py: Python<'_>, object: *mut PyObject) -> PyResult<Index> {
    // SAFETY: a live slice.
    let bound = unsafe { Bound::from_borrowed_ptr(py, object) };
    // Plain integers, without looking attributes up.
    let (mut start, mut end, mut step) = (0, 0, 0);
    // SAFETY: a live slice.
    if unsafe { ffi::PySlice_Unpack(object, &mut start, &mut end, &mut step) } == 0 {
        if step < 0 {
            return Err(PyValueError::new_err("step must be greater than zero"));
        }
        // What is absent is the smallest or the largest there is.
        let present = |i: isize| (i != 0 && i < isize::MAX && i > isize::MIN).then_some(i as i64);
        return Ok(Index::Slice {
            start: present(start),
            end: (end < isize::MAX).then_some(end as i64),
            step: step as i64,
        });
    }
    let error = PyErr::fetch(py);
    if !error.is_instance_of::<PyTypeError>(py) {
        return Err(error);
    }
    let field = |name: &Bound<'_, pyo3::types::PyString>| -> PyResult<Option<i64>> {
        let value = bound.getattr(name)?;
        if value.is_none() {
            return Ok(None);
        }
        if let Some(t) = tensor_of(value.as_ptr())
            && t.numel() == 1
            && t.dtype().is_integral(false)
        {
            return t.item().map(|s| Some(s.to_i64())).map_err(raise);
        }
        integer(py, value.as_ptr()).map(Some).ok_or_else(|| {
            PyTypeError::new_err(match crate::object::is_tensor(value.as_ptr()) {
                true => "only integer tensors of a single element can be converted to an index",
                false => "slice indices must be integers or None or have an __index__ method",
            })
        })
    };
    let step = field(pyo3::intern!(py, "step"))?.unwrap_or(1);
    if step <= 0 {
        return Err(PyValueError::new_err("step must be greater than zero"));
    }
    Ok(Index::Slice { start: field(pyo3::intern!(py, "start"))?, end: field(pyo3::intern!(py, "stop"))?, step })
}
