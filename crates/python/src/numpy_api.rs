//! NumPy's C interface, looked up at run time: arrays are read and made without calls through Python.
//!
//! The table of functions and the fields below are part of NumPy's stable binary interface ("Array API" in its
//! reference, version 1 and 2).

use flambeau::DType;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::{c_char, c_int, c_void};

/// Places in the table.
const ARRAY_TYPE: usize = 2;
const NEW: usize = 93;
const SET_BASE_OBJECT: usize = 282;
/// Flags of an array over given memory.
const ALIGNED_AND_WRITEABLE: c_int = 0x0100 | 0x0400;

type New = unsafe extern "C" fn(
    *mut PyTypeObject,
    c_int,
    *const isize,
    c_int,
    *const isize,
    *mut c_void,
    c_int,
    c_int,
    *mut PyObject,
) -> *mut PyObject;
type SetBaseObject = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> c_int;

/// NumPy's table of functions and types.
struct Table(*const *const c_void);
// SAFETY: NumPy never changes or frees its table.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

#[repr(C)]
struct ArrayFields {
    head: ffi::PyObject,
    data: *mut c_char,
    dims: c_int,
    sizes: *const isize,
    strides: *const isize,
    base: *mut PyObject,
    descriptor: *const DescriptorFields,
    flags: c_int,
}

/// The bit of `flags` of an array that may be written to.
const WRITABLE: c_int = 0x0400;

#[repr(C)]
struct DescriptorFields {
    head: ffi::PyObject,
    element_type: *mut PyTypeObject,
    kind: c_char,
    letter: c_char,
    byte_order: c_char,
    flags: c_char,
    number: c_int,
}

/// The table; imports NumPy.
fn table(py: Python<'_>) -> PyResult<&'static Table> {
    static TABLE: PyOnceLock<Table> = PyOnceLock::new();
    TABLE.get_or_try_init(py, || {
        let module =
            py.import("numpy._core._multiarray_umath").or_else(|_| py.import("numpy.core._multiarray_umath"))?;
        let capsule = module.getattr("_ARRAY_API")?;
        // SAFETY: a live object; a capsule without a name, or an error.
        let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null()) };
        match pointer.is_null() {
            true => Err(PyErr::fetch(py)),
            false => Ok(Table(pointer.cast())),
        }
    })
}

/// NumPy's number of a dtype's elements; none if it has no such dtype.
fn number_of(d: DType) -> Option<c_int> {
    let long = |short: c_int, longest: c_int| if size_of::<std::ffi::c_long>() == 8 { short } else { longest };
    Some(match d {
        DType::Bool => 0,
        DType::I8 => 1,
        DType::U8 => 2,
        DType::I16 => 3,
        DType::U16 => 4,
        DType::I32 => 5,
        DType::U32 => 6,
        DType::I64 => long(7, 9),
        DType::U64 => long(8, 10),
        DType::F16 => 23,
        DType::F32 => 11,
        DType::F64 => 12,
        DType::Complex64 => 14,
        DType::Complex128 => 15,
        DType::BF16 => return None,
    })
}

/// The memory of an array.
pub struct Array {
    /// Its first element.
    pub data: usize,
    /// Its dtype.
    pub dtype: DType,
    /// Its sizes.
    pub sizes: Vec<i64>,
    /// Its strides in bytes.
    pub strides: Vec<i64>,
    /// Whether NumPy lets programs write to it.
    pub writable: bool,
}

/// Whether an object is an array, or of a class made from it. It is none before NumPy is imported.
pub fn is_array(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    // Looked up once; classes that only look like arrays have no such module.
    let named = |class: &Bound<'_, PyAny>| class.getattr("__module__").is_ok_and(|m| m.to_string() == "numpy");
    static ARRAY: PyOnceLock<usize> = PyOnceLock::new();
    // SAFETY: a live object; a type is compared and asked for its bases.
    unsafe {
        let class = ffi::Py_TYPE(object.as_ptr());
        let array = match ARRAY.get(py) {
            Some(array) => *array as *mut PyTypeObject,
            None => {
                if !object.get_type().mro().iter().any(|c| named(&c)) {
                    return false;
                }
                let Ok(table) = table(py) else { return false };
                let array = *table.0.add(ARRAY_TYPE);
                *ARRAY.get_or_init(py, || array as usize) as *mut PyTypeObject
            }
        };
        std::ptr::eq(class, array) || ffi::PyType_IsSubtype(class, array) != 0
    }
}

/// The memory of an array; nothing if it is none, or has elements that no tensor has.
pub fn read(object: &Bound<'_, PyAny>) -> Option<Array> {
    if !is_array(object) {
        return None;
    }
    // SAFETY: an array; its sizes and strides are as many as its dims (dangling when there are none).
    unsafe {
        let fields = &*object.as_ptr().cast::<ArrayFields>();
        let descriptor = &*fields.descriptor;
        let swapped = if cfg!(target_endian = "little") { b'>' } else { b'<' };
        if descriptor.byte_order as u8 == swapped {
            return None;
        }
        // NumPy has two numbers for integers of 64 bits.
        let dtype = match descriptor.number {
            9 => DType::I64,
            10 => DType::U64,
            number => DType::ALL.into_iter().find(|d| number_of(*d) == Some(number))?,
        };
        let list = |p: *const isize| (0..fields.dims as usize).map(|i| *p.add(i) as i64).collect();
        Some(Array {
            data: fields.data as usize,
            dtype,
            sizes: list(fields.sizes),
            strides: list(fields.strides),
            writable: fields.flags & WRITABLE != 0,
        })
    }
}

/// A new array over the memory of a tensor, which `owner` keeps alive; of no elements when `data` is null.
///
/// # Errors
/// When NumPy is absent or has no such dtype.
///
/// # Safety
/// `data` must be null, or valid for the elements that sizes and strides (in bytes) name, as long as `owner` lives.
pub unsafe fn make(
    owner: Bound<'_, PyAny>,
    data: *mut c_void,
    dtype: DType,
    sizes: &[isize],
    strides: &[isize],
) -> PyResult<*mut PyObject> {
    let py = owner.py();
    let table = table(py)?;
    let number = number_of(dtype).ok_or_else(|| {
        pyo3::exceptions::PyTypeError::new_err(format!("Got unsupported ScalarType {}", dtype.scalar_type_name()))
    })?;
    // SAFETY: entries of NumPy's table with their documented types; the memory is the caller's promise.
    unsafe {
        let new: New = std::mem::transmute(*table.0.add(NEW));
        let set_base: SetBaseObject = std::mem::transmute(*table.0.add(SET_BASE_OBJECT));
        let strides = if data.is_null() { std::ptr::null() } else { strides.as_ptr() };
        let flags = if data.is_null() { 0 } else { ALIGNED_AND_WRITEABLE };
        let class = *table.0.add(ARRAY_TYPE) as *mut PyTypeObject;
        let dims = sizes.len() as c_int;
        let array = new(class, dims, sizes.as_ptr(), number, strides, data, 0, flags, std::ptr::null_mut());
        if array.is_null() {
            return Err(PyErr::fetch(py));
        }
        // The array owns this reference to the owner from now on, and also when it fails.
        if !data.is_null() && set_base(array, owner.into_ptr()) != 0 {
            ffi::Py_DECREF(array);
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}
