//! DLPack, both ways: tensors shared with any library that speaks it. The structs are those of dlpack.h, version 1.1.

use crate::error::raise;
use crate::function::this;
use crate::object::Wrapped;
use crate::parse::Call;
use flambeau::{DType, Tensor};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

const CPU: DlDevice = DlDevice { kind: 1, id: 0 };
const NAME: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

fn data_type(d: DType) -> DlDataType {
    let code = match d {
        DType::Bool => 6,
        DType::BF16 => 4,
        d if d.is_complex() => 5,
        d if d.is_floating_point() => 2,
        d if d.is_signed() => 0,
        _ => 1,
    };
    DlDataType { code, bits: d.size() as u8 * 8, lanes: 1 }
}

fn dtype_of(t: DlDataType) -> Option<DType> {
    DType::ALL.into_iter().find(|d| {
        let own = data_type(*d);
        (own.code, own.bits, 1) == (t.code, t.bits, t.lanes)
    })
}

/// What an exported tensor keeps alive.
struct Exported {
    _tensor: Tensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

fn describe(exported: &mut Exported, t: &Tensor) -> DlTensor {
    t.storage().fix_address();
    DlTensor {
        data: t.data_ptr().cast(),
        device: CPU,
        ndim: t.dim() as i32,
        dtype: data_type(t.dtype()),
        shape: exported.shape.as_mut_ptr(),
        strides: exported.strides.as_mut_ptr(),
        byte_offset: 0,
    }
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: made by `export` from boxes; the consumer calls this once.
    unsafe {
        drop(Box::from_raw((*managed).context.cast::<Exported>()));
        drop(Box::from_raw(managed));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as above.
    unsafe {
        drop(Box::from_raw((*managed).context.cast::<Exported>()));
        drop(Box::from_raw(managed));
    }
}

/// A capsule that nobody consumed frees what it holds.
unsafe extern "C" fn destroy(capsule: *mut PyObject) {
    // SAFETY: called by the interpreter with a capsule made below; its name tells whether it was consumed.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, NAME_VERSIONED.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, NAME_VERSIONED.as_ptr()).cast());
        }
    }
}

fn export(py: Python<'_>, t: Tensor, versioned: bool, copied: bool) -> PyResult<*mut PyObject> {
    let mut exported =
        Box::new(Exported { _tensor: t.clone(), shape: t.sizes().to_vec(), strides: t.strides().to_vec() });
    let tensor = describe(&mut exported, &t);
    let context = Box::into_raw(exported).cast();
    // SAFETY: the pointers are to boxes given to the capsule, whose destructor or consumer frees them.
    let capsule = unsafe {
        if versioned {
            const IS_COPIED: u64 = 2;
            let flags = if copied { IS_COPIED } else { 0 };
            let managed =
                Box::new(ManagedVersioned { version: [1, 1], context, deleter: Some(delete_versioned), flags, tensor });
            ffi::PyCapsule_New(Box::into_raw(managed).cast(), NAME_VERSIONED.as_ptr(), Some(destroy))
        } else {
            let managed = Box::new(Managed { tensor, context, deleter: Some(delete) });
            ffi::PyCapsule_New(Box::into_raw(managed).cast(), NAME.as_ptr(), Some(destroy))
        }
    };
    if capsule.is_null() { Err(PyErr::fetch(py)) } else { Ok(capsule) }
}

/// `x.__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)`.
pub fn dlpack(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let py = call.py;
    let t = this(call)?;
    if t.requires_grad() {
        return Err(PyBufferError::new_err("Can't export tensors that require gradient, use tensor.detach()"));
    }
    if !t.is_strided() {
        return Err(PyBufferError::new_err("Can't export tensors with layout other than torch.strided"));
    }
    if !t.device().is_cpu() {
        return Err(PyBufferError::new_err(format!("cannot export a tensor on {} through DLPack", t.device())));
    }
    // SAFETY: live objects.
    let named =
        |name: &str| call.named(name).map(|o| unsafe { Bound::from_borrowed_ptr(py, o) }).filter(|o| !o.is_none());
    let versioned = match named("max_version") {
        Some(v) => v.extract::<(u32, u32)>()?.0 >= 1,
        None => false,
    };
    let copy = named("copy").map_or(Ok(false), |c| c.extract())?;
    let t = if copy { t.clone_in(flambeau::MemoryFormat::Preserve).map_err(raise)? } else { t };
    export(py, t, versioned, copy)
}

/// `x.__dlpack_device__()`.
pub fn dlpack_device(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    if !t.device().is_cpu() {
        return Err(PyValueError::new_err(format!("Unknown device type {} for Dlpack", t.device())));
    }
    Ok((CPU.kind, CPU.id).into_pyobject(call.py)?.into_ptr())
}

/// A tensor over the memory in a capsule, which is marked as consumed.
#[pyfunction]
fn _from_dlpack_capsule(capsule: &Bound<'_, PyAny>) -> PyResult<Wrapped> {
    let raw = capsule.as_ptr();
    // SAFETY: the capsule's name says what its pointer is to; a producer keeps that valid until its deleter is called,
    // which happens when the storage is freed.
    unsafe {
        if ffi::PyCapsule_IsValid(raw, NAME_VERSIONED.as_ptr()) != 0 {
            let managed: *mut ManagedVersioned = ffi::PyCapsule_GetPointer(raw, NAME_VERSIONED.as_ptr()).cast();
            if (*managed).version[0] != 1 {
                return Err(PyRuntimeError::new_err(format!(
                    "unsupported DLPack version {}.{}",
                    (*managed).version[0],
                    (*managed).version[1]
                )));
            }
            let address = managed as usize;
            let t = import(&(*managed).tensor, move || {
                let managed = address as *mut ManagedVersioned;
                if let Some(deleter) = (*managed).deleter {
                    deleter(managed);
                }
            })?;
            ffi::PyCapsule_SetName(raw, USED_VERSIONED.as_ptr());
            return Ok(Wrapped(t));
        }
        if ffi::PyCapsule_IsValid(raw, NAME.as_ptr()) != 0 {
            let managed: *mut Managed = ffi::PyCapsule_GetPointer(raw, NAME.as_ptr()).cast();
            let address = managed as usize;
            let t = import(&(*managed).tensor, move || {
                let managed = address as *mut Managed;
                if let Some(deleter) = (*managed).deleter {
                    deleter(managed);
                }
            })?;
            ffi::PyCapsule_SetName(raw, USED.as_ptr());
            return Ok(Wrapped(t));
        }
    }
    Err(PyRuntimeError::new_err(
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have \
         already constructed a tensor from it once.",
    ))
}

/// # Safety
/// `d` describes valid memory until `release` is called.
unsafe fn import(d: &DlTensor, release: impl Fn() + Send + Sync + 'static) -> PyResult<Tensor> {
    if d.device.kind != CPU.kind {
        return Err(PyValueError::new_err(format!("DLPack device type {} is not supported", d.device.kind)));
    }
    let dtype = dtype_of(d.dtype).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "Unsupported DLPack dtype: code {}, {} bits, {} lanes",
            d.dtype.code, d.dtype.bits, d.dtype.lanes
        ))
    })?;
    let ndim = usize::try_from(d.ndim).map_err(|_| PyValueError::new_err("negative number of dimensions"))?;
    // SAFETY: as the caller says: `ndim` sizes, and as many strides if there are any.
    let (sizes, strides) = unsafe {
        let sizes = if ndim == 0 { vec![] } else { std::slice::from_raw_parts(d.shape, ndim).to_vec() };
        let strides = match d.strides.is_null() || ndim == 0 {
            true => flambeau::dims::contiguous_strides(&sizes).to_vec(),
            false => std::slice::from_raw_parts(d.strides, ndim).to_vec(),
        };
        (sizes, strides)
    };
    let data = (d.data as usize).wrapping_add(d.byte_offset as usize) as *mut u8;
    let Some(data) = std::ptr::NonNull::new(data).filter(|_| !sizes.contains(&0)) else {
        release();
        return Tensor::empty(&sizes, dtype).map_err(raise);
    };
    let extent = flambeau::dims::storage_extent(&sizes, &strides).map_err(raise)?;
    // The producer's deleter may need the interpreter's lock, and the storage may be freed by any thread.
    let release = move || Python::attach(|_| release());
    // SAFETY: as the caller says.
    let storage = unsafe {
        flambeau::Storage::from_foreign(flambeau::Device::CPU, data, extent as usize * dtype.size(), Box::new(release))
    };
    Tensor::from_storage(storage, dtype, &sizes, &strides, 0).map_err(raise)
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_from_dlpack_capsule, m)?)?;
    Ok(())
}
