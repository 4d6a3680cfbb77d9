//! Memory shared with NumPy, through its array interface: a description of the memory that any object can give.

use crate::error::raise;
use crate::function::this;
use crate::number::type_name;
use crate::numpy_api;
use crate::object::Wrapped;
use crate::parse::Call;
use flambeau::{DType, Device, Storage, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use smallvec::SmallVec;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;

/// The array interface's name of a dtype.
fn type_string(d: DType) -> Option<String> {
    let kind = match d {
        DType::Bool => 'b',
        DType::BF16 => return None,
        d if d.is_complex() => 'c',
        d if d.is_floating_point() => 'f',
        d if d.is_signed() => 'i',
        _ => 'u',
    };
    let order = if d.size() == 1 { '|' } else { '<' };
    Some(format!("{order}{kind}{}", d.size()))
}

fn dtype_of_type_string(text: &str) -> Option<DType> {
    let native = text.strip_prefix(['<', '|', '=']);
    DType::ALL.into_iter().find(|d| type_string(*d).is_some_and(|s| Some(&s[1..]) == native))
}

/// A tensor over the memory of an object with an array interface; it keeps the object alive.
///
/// # Errors
/// When the dtype has no counterpart, or a stride is negative or not a multiple of the element size.
pub fn from_array(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = array.py();
    if let Some(a) = numpy_api::read(array) {
        return over(array, a.dtype, a.data, &a.sizes, &a.strides);
    }
    let interface = array.getattr(pyo3::intern!(py, "__array_interface__"))?;
    let interface =
        interface.cast::<PyDict>().map_err(|_| PyTypeError::new_err("__array_interface__ must be a dict"))?;
    let field = |name: &str| -> PyResult<Bound<'_, PyAny>> {
        interface.get_item(name)?.ok_or_else(|| PyTypeError::new_err(format!("the array interface lacks '{name}'")))
    };
    let text: String = field("typestr")?.extract()?;
    if text.starts_with('>') {
        return Err(PyValueError::new_err(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is \
             currently not supported.",
        ));
    }
    let Some(dtype) = dtype_of_type_string(&text) else {
        let name = array.getattr("dtype").and_then(|d| d.getattr("type")).and_then(|t| t.getattr("__name__"));
        let name = name.map_or(text, |n| format!("numpy.{n}"));
        return Err(PyTypeError::new_err(format!(
            "can't convert np.ndarray of type {name}. The only supported types are: float64, float32, float16, complex64, \
             complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
        )));
    };
    let sizes: Vec<i64> = field("shape")?.extract()?;
    let (address, _read_only): (usize, bool) = field("data")?.extract()?;
    let item = dtype.size() as i64;
    let strides: Vec<i64> = match interface.get_item("strides")? {
        Some(s) if !s.is_none() => s.extract()?,
        _ => flambeau::dims::contiguous_strides(&sizes).iter().map(|s| s * item).collect(),
    };
    over(array, dtype, address, &sizes, &strides)
}

/// A tensor over an array's memory; strides are in bytes.
fn over(array: &Bound<'_, PyAny>, dtype: DType, address: usize, sizes: &[i64], strides: &[i64]) -> PyResult<Tensor> {
    let item = dtype.size() as i64;
    if strides.iter().any(|s| *s < 0) {
        return Err(PyValueError::new_err(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently \
             supported. (You can probably work around this by making a copy of your array  with array.copy().) ",
        ));
    }
    if strides.iter().zip(sizes).any(|(s, n)| *n > 1 && s % item != 0) {
        return Err(PyValueError::new_err(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the \
             memory.",
        ));
    }
    let strides: Vec<i64> = strides.iter().map(|s| s / item).collect();
    if sizes.contains(&0) || address == 0 {
        return Tensor::empty(sizes, dtype).map_err(raise);
    }
    let extent = flambeau::dims::storage_extent(sizes, &strides).map_err(raise)?;
    let storage = keep_alive(array.clone().unbind(), address, (extent * item) as usize)?;
    Tensor::from_storage(storage, dtype, sizes, &strides, 0).map_err(raise)
}

/// A reference that is given up at once, by whichever thread: an exported buffer must not wait for it.
struct Owner(Option<Py<PyAny>>);

impl Drop for Owner {
    fn drop(&mut self) {
        let mut owner = self.0.take();
        // When the interpreter is gone, so is the object.
        if Python::try_attach(|_| drop(owner.take())).is_none() {
            std::mem::forget(owner);
        }
    }
}

/// A storage over memory that a Python object owns.
///
/// # Errors
/// When the address is null.
pub fn keep_alive(owner: Py<PyAny>, address: usize, nbytes: usize) -> PyResult<Storage> {
    let owner = Owner(Some(owner));
    let data = NonNull::new(address as *mut u8).ok_or_else(|| PyValueError::new_err("the memory's address is null"))?;
    // SAFETY: the owner, which lives as long as the closure, says that this memory is its own. Others may write it
    // through the owner at any time, as with PyTorch; Python code does so under the interpreter's lock.
    Ok(unsafe {
        Storage::from_foreign(
            Device::CPU,
            data,
            nbytes,
            Box::new(move || {
                let _ = &owner;
            }),
        )
    })
}

/// `x.numpy(force=False)`.
pub fn numpy(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    crate::methods::at_most(call, "numpy", 0)?;
    let force = match crate::methods::argument(call, 0, "force") {
        Some(f) => crate::methods::flag(call.py, "numpy", "force", f)?,
        None => false,
    };
    let t = if force { t.detach().map_err(raise)? } else { t };
    if t.requires_grad() && flambeau::autograd::is_grad_enabled() {
        return Err(PyRuntimeError::new_err(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        ));
    }
    if !t.device().is_cpu() {
        return Err(PyTypeError::new_err(format!(
            "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
            t.device()
        )));
    }
    if !t.is_strided() {
        let layout = if t.layout() == flambeau::Layout::SparseCsr { "SparseCsr" } else { "Sparse" };
        return Err(PyTypeError::new_err(format!(
            "can't convert {layout} layout tensor to numpy. Use Tensor.to_dense() first."
        )));
    }
    let item = t.element_size() as isize;
    let sizes: SmallVec<[isize; 6]> = t.sizes().iter().map(|s| *s as isize).collect();
    let strides: SmallVec<[isize; 6]> = t.strides().iter().map(|s| *s as isize * item).collect();
    let data = if t.numel() == 0 { std::ptr::null_mut() } else { t.data_ptr() as *mut std::ffi::c_void };
    let dtype = t.dtype();
    t.storage().fix_address();
    // The object of this very tensor, which keeps its memory.
    let owner = crate::object::bound(call.py, t)?;
    // SAFETY: the tensor's own memory, which lives as long as the tensor.
    unsafe { numpy_api::make(owner, data, dtype, &sizes, &strides) }
}

/// Says, once, that a tensor over an array that nobody may write to can be written to all the same.
///
/// # Errors
/// When the program has made warnings errors.
pub fn warn_of_writing(array: &Bound<'_, PyAny>) -> PyResult<()> {
    static DONE: AtomicBool = AtomicBool::new(false);
    match numpy_api::read(array) {
        Some(a) if !a.writable => crate::error::warn_once(
            array.py(),
            &DONE,
            c"The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to \
              this tensor will result in undefined behavior. You may want to copy the array to protect its data or make it \
              writable before converting it to a tensor. This type of warning will be suppressed for the rest of this program.",
        ),
        _ => Ok(()),
    }
}

/// `from_numpy(array)`.
#[pyfunction]
fn from_numpy(array: &Bound<'_, PyAny>) -> PyResult<Wrapped> {
    if !numpy_api::is_array(array) {
        return Err(PyTypeError::new_err(format!("expected np.ndarray (got {})", type_name(array.as_ptr()))));
    }
    warn_of_writing(array)?;
    from_array(array).map(Wrapped)
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(from_numpy, m)?)?;
    Ok(())
}
