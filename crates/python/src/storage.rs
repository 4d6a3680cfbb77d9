//! `UntypedStorage`: the bytes behind tensors.

use crate::convert::device_of;
use crate::error::raise;
use crate::function::this;
use crate::methods::argument;
use crate::number::{index, type_name};
use crate::object::{Argument, Wrapped, replace, tensor_of};
use crate::parse::{Call, Items};
use crate::types::DeviceObject;
use flambeau::{DType, Device, Scalar, Storage, Tensor};
use flambeau_base::storage::LockSet;
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyRuntimeError, PyTypeError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice};

/// `flambeau.UntypedStorage`.
#[pyclass(frozen, subclass, weakref, name = "UntypedStorage", module = "flambeau")]
pub struct StorageObject(pub Storage);

impl StorageObject {
    /// The bytes as a tensor.
    fn bytes(&self) -> PyResult<Tensor> {
        let n = self.0.nbytes() as i64;
        Tensor::from_storage(self.0.clone(), DType::U8, &[n], &[1], 0).map_err(raise)
    }

    fn place(&self, i: i64) -> PyResult<i64> {
        let n = self.0.nbytes() as i64;
        let at = if i < 0 { i + n } else { i };
        match (0..n).contains(&at) {
            true => Ok(at),
            false => Err(PyIndexError::new_err(format!("index {i} out of range for storage of size {n}"))),
        }
    }
}

/// What PyTorch calls the type of a storage on some device.
fn copy_to(storage: &StorageObject, device: Device) -> PyResult<StorageObject> {
    let copy =
        storage.bytes()?.to_options(None, Some(device)).and_then(|t| t.clone_in(flambeau::MemoryFormat::Contiguous));
    Ok(StorageObject(copy.map_err(raise)?.storage().clone()))
}

#[pymethods]
impl StorageObject {
    #[new]
    #[pyo3(signature = (*args, device=None))]
    fn new(args: &Bound<'_, pyo3::types::PyTuple>, device: Option<&Bound<'_, PyAny>>) -> PyResult<StorageObject> {
        let device = device.map_or(Ok(Device::CPU), device_of)?;
        if args.len() > 1 {
            return Err(PyTypeError::new_err(format!(
                "torch.storage.UntypedStorage(): takes at most 1 positional argument ({} given)",
                args.len()
            )));
        }
        let Ok(first) = args.get_item(0) else { return Storage::new(device, 0).map(StorageObject).map_err(raise) };
        if let Some(n) = index(args.py(), first.as_ptr()) {
            let n = usize::try_from(n)
                .map_err(|_| PyRuntimeError::new_err(format!("Storage size must be non-negative, got {n}")))?;
            return Storage::new(device, n).map(StorageObject).map_err(raise);
        }
        match Items::of(first.as_ptr()) {
            Some(_) => {
                let t = crate::construct::from_data(args.py(), first.as_ptr(), Some(DType::U8))?;
                Ok(StorageObject(t.storage().clone()))
            }
            None => {
                Err(PyTypeError::new_err(format!("Expected a sequence type, but got {}", type_name(first.as_ptr()))))
            }
        }
    }
    fn nbytes(&self) -> usize {
        self.0.nbytes()
    }
    fn size(&self) -> usize {
        self.0.nbytes()
    }
    /// What `sys.getsizeof` says: the memory, too.
    fn __sizeof__(&self) -> usize {
        std::mem::size_of::<ffi::PyObject>() + std::mem::size_of::<Self>() + self.nbytes()
    }
    fn __len__(&self) -> usize {
        self.0.nbytes()
    }
    fn element_size(&self) -> usize {
        1
    }
    fn data_ptr(&self) -> usize {
        if self.0.nbytes() == 0 { 0 } else { self.0.data_ptr() as usize }
    }
    /// The checksum of the bytes as zip files have it; none where there is no fast way to it.
    fn _crc32(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        let n = self.0.nbytes();
        if n == 0 || !self.0.device().is_cpu() {
            return Ok(None);
        }
        let sum = || {
            let _lock = LockSet::new([(&self.0, false)])?;
            // SAFETY: the storage's bytes, in host memory and locked for reading.
            Ok::<_, flambeau::Error>(crate::checksum::crc32(unsafe {
                std::slice::from_raw_parts(self.0.data_ptr(), n)
            }))
        };
        if n < 1 << 20 { sum().map_err(raise) } else { py.detach(sum).map_err(raise) }
    }
    #[getter]
    fn _cdata(&self) -> usize {
        self.0.data_ptr() as usize
    }
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Py<DeviceObject>> {
        crate::types::device(py, self.0.device())
    }
    #[getter]
    fn is_cuda(&self) -> bool {
        false
    }
    fn is_pinned(&self) -> bool {
        false
    }
    fn is_shared(&self) -> bool {
        false
    }
    fn resizable(&self) -> bool {
        self.0.resizable()
    }
    fn resize_<'py>(slf: Bound<'py, Self>, size: i64) -> PyResult<Bound<'py, Self>> {
        let n = usize::try_from(size)
            .map_err(|_| PyRuntimeError::new_err(format!("Storage size must be non-negative, got {size}")))?;
        slf.get().0.resize(n).map_err(raise)?;
        Ok(slf)
    }
    fn fill_<'py>(slf: Bound<'py, Self>, value: u8) -> PyResult<Bound<'py, Self>> {
        slf.get().bytes()?.fill_(Scalar::Int(value.into())).map_err(raise)?;
        Ok(slf)
    }
    #[pyo3(signature = (source, non_blocking=None))]
    fn copy_<'py>(
        slf: Bound<'py, Self>,
        source: &Bound<'py, StorageObject>,
        non_blocking: Option<bool>,
    ) -> PyResult<Bound<'py, Self>> {
        let _ = non_blocking;
        slf.get().bytes()?.copy_(&source.get().bytes()?).map_err(raise)?;
        Ok(slf)
    }
    fn clone(&self) -> PyResult<StorageObject> {
        copy_to(self, self.0.device())
    }
    fn __copy__(&self) -> PyResult<StorageObject> {
        copy_to(self, self.0.device())
    }
    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, memo: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let memo = memo.call_method1("setdefault", ("torch", pyo3::types::PyDict::new(slf.py())))?;
        let key = slf.get()._cdata();
        if let Ok(known) = memo.get_item(key) {
            return Ok(known);
        }
        let copy = Bound::new(slf.py(), copy_to(slf.get(), slf.get().0.device())?)?.into_any();
        memo.set_item(key, &copy)?;
        Ok(copy)
    }
    fn cpu<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        match slf.get().0.device().is_cpu() {
            true => Ok(slf),
            false => Bound::new(slf.py(), copy_to(slf.get(), Device::CPU)?),
        }
    }
    #[pyo3(signature = (*, device, non_blocking=None))]
    fn to<'py>(
        slf: Bound<'py, Self>,
        device: &Bound<'py, PyAny>,
        non_blocking: Option<bool>,
    ) -> PyResult<Bound<'py, Self>> {
        let _ = non_blocking;
        let device = device_of(device)?;
        match slf.get().0.device().kind == device.kind {
            true => Ok(slf),
            false => Bound::new(slf.py(), copy_to(slf.get(), device)?),
        }
    }
    #[pyo3(signature = (size=None))]
    fn new_storage(&self, size: Option<usize>) -> PyResult<StorageObject> {
        Storage::new(self.0.device(), size.unwrap_or(0)).map(StorageObject).map_err(raise)
    }
    fn untyped<'py>(slf: Bound<'py, Self>) -> Bound<'py, Self> {
        slf
    }
    fn share_memory_<'py>(slf: Bound<'py, Self>) -> Bound<'py, Self> {
        slf
    }
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.bytes()?.to_vec::<u8>().map_err(raise)?)
    }
    fn __getitem__<'py>(&self, py: Python<'py>, i: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = i.cast::<PySlice>() {
            let at = slice.indices(self.0.nbytes() as isize)?;
            if at.step != 1 {
                return Err(PyRuntimeError::new_err(format!(
                    "Trying to slice with a step of {}, but only a step of 1 is supported",
                    at.step
                )));
            }
            // The part shares the memory, and keeps the whole alive.
            let owner = Bound::new(py, StorageObject(self.0.clone()))?.into_any().unbind();
            let n = at.slicelength;
            let address = self.0.data_ptr() as usize + at.start as usize;
            let part = if n == 0 {
                Storage::new(self.0.device(), 0).map_err(raise)?
            } else {
                crate::interop::keep_alive(owner, address, n)?
            };
            return Ok(Bound::new(py, StorageObject(part))?.into_any());
        }
        let i = index(py, i.as_ptr()).ok_or_else(|| {
            PyTypeError::new_err(format!("can't index a torch.UntypedStorage with {}", type_name(i.as_ptr())))
        })?;
        let byte = self.bytes()?.select(0, self.place(i)?).and_then(|t| t.item()).map_err(raise)?;
        Ok(byte.to_i64().into_pyobject(py)?.into_any())
    }
    fn __setitem__(&self, py: Python<'_>, i: &Bound<'_, PyAny>, value: u8) -> PyResult<()> {
        let place = match i.cast::<PySlice>() {
            Ok(slice) => {
                let at = slice.indices(self.0.nbytes() as isize)?;
                self.bytes()?.narrow(0, at.start as i64, at.slicelength as i64)
            }
            Err(_) => {
                let i =
                    index(py, i.as_ptr()).ok_or_else(|| PyTypeError::new_err("can't index a torch.UntypedStorage"))?;
                self.bytes()?.select(0, self.place(i)?)
            }
        };
        place.and_then(|t| t.fill_(Scalar::Int(value.into()))).map_err(raise)?;
        Ok(())
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<StorageObject>().is_ok_and(|o| o.get().0.same(&self.0))
    }
    fn __hash__(&self) -> usize {
        self.0.data_ptr() as usize >> 4
    }
    fn _set_from_file(&self) -> PyResult<()> {
        Err(PyRuntimeError::new_err("_set_from_file: storages are filled by flambeau.load"))
    }
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
        let d = pyo3::types::PyDict::new(py);
        d.set_item("version", 3)?;
        d.set_item("typestr", "|u1")?;
        d.set_item("shape", (self.0.nbytes(),))?;
        self.0.fix_address();
        d.set_item("data", (self.0.data_ptr() as usize, false))?;
        Ok(d)
    }
    /// The bytes, copied.
    fn _bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
        let v = self.bytes()?.to_vec::<u8>().map_err(raise)?;
        Ok(pyo3::types::PyBytes::new(py, &v))
    }
}

/// `x.untyped_storage()`.
pub fn untyped_storage(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    if !t.is_strided() {
        let kind = if t.layout() == flambeau::Layout::SparseCsr { "SparseCsr" } else { "Sparse" };
        return Err(PyNotImplementedError::new_err(format!("Cannot access storage of {kind}TensorImpl")));
    }
    Ok(Bound::new(call.py, StorageObject(t.storage().clone()))?.into_ptr())
}

/// `x.set_(source=None, storage_offset=0, size=None, stride=None)`.
pub fn set_(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    let py = call.py;
    let new = match argument(call, 0, "source") {
        None => Tensor::empty(&[0], (t.dtype(), t.device())).map_err(raise)?,
        Some(source) => {
            let ints = |o: *mut PyObject| {
                Items::of(o).and_then(|i| i.iter().map(|x| index(py, *x)).collect::<Option<Vec<i64>>>())
            };
            let offset = argument(call, 1, "storage_offset").and_then(|o| index(py, o));
            let sizes = argument(call, 2, "size").and_then(ints);
            let strides = argument(call, 3, "stride").and_then(ints);
            // SAFETY: a live object.
            let object = unsafe { Bound::from_borrowed_ptr(py, source) };
            let untyped = object.getattr_opt("_untyped_storage")?.unwrap_or(object);
            match (tensor_of(source), untyped.cast::<StorageObject>()) {
                (Some(other), _) if sizes.is_none() => {
                    if other.dtype() != t.dtype() {
                        return Err(PyRuntimeError::new_err(format!(
                            "Could not set tensor of type {} to a tensor of type {}",
                            other.dtype().cpp_name(),
                            t.dtype().cpp_name()
                        )));
                    }
                    other.data()
                }
                (Some(other), _) => over(other.storage(), t.dtype(), sizes, strides, offset)?,
                (None, Ok(storage)) => over(&storage.get().0, t.dtype(), sizes, strides, offset)?,
                _ => {
                    return Err(PyTypeError::new_err(format!(
                        "set_() received an invalid combination of arguments - got ({})",
                        type_name(source)
                    )));
                }
            }
        }
    };
    if t.requires_grad() && !t.is_leaf() {
        return Err(PyRuntimeError::new_err("cannot call set_() on a tensor that is part of a graph"));
    }
    let new = t.with_data(&new).map_err(raise)?;
    // SAFETY: a live tensor, and the lock is held.
    unsafe {
        replace(call.this, new);
        ffi::Py_INCREF(call.this);
    }
    Ok(call.this)
}

fn over(
    storage: &Storage,
    dtype: DType,
    sizes: Option<Vec<i64>>,
    strides: Option<Vec<i64>>,
    offset: Option<i64>,
) -> PyResult<Tensor> {
    let offset = offset.unwrap_or(0);
    let sizes = sizes.unwrap_or_else(|| vec![storage.nbytes() as i64 / dtype.size() as i64]);
    let strides = strides.filter(|s| s.len() == sizes.len());
    let strides = strides.unwrap_or_else(|| flambeau::dims::contiguous_strides(&sizes).to_vec());
    // As PyTorch does, a storage that can grow is grown.
    let extent = flambeau::dims::storage_extent(&sizes, &strides).map_err(raise)?;
    let bytes = (extent.saturating_add(offset)).saturating_mul(dtype.size() as i64) as usize;
    if extent > 0 && bytes > storage.nbytes() && storage.resizable() {
        storage.resize(bytes).map_err(raise)?;
    }
    Tensor::from_storage(storage.clone(), dtype, &sizes, &strides, offset).map_err(raise)
}

// ---- buffers ---------------------------------------------------------------------------------------

/// CPython's `Py_buffer`, whose layout has been the same since 3.0 (and part of the stable interface since 3.11).
#[repr(C)]
struct Buffer {
    data: *mut std::ffi::c_void,
    object: *mut PyObject,
    len: ffi::Py_ssize_t,
    itemsize: ffi::Py_ssize_t,
    readonly: std::ffi::c_int,
    ndim: std::ffi::c_int,
    format: *mut std::ffi::c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut std::ffi::c_void,
}

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut Buffer, flags: std::ffi::c_int) -> std::ffi::c_int;
    fn PyBuffer_Release(view: *mut Buffer);
}

/// Keeps a buffer exported for as long as it lives.
#[pyclass(frozen, module = "flambeau._C")]
struct HeldBuffer(Box<Buffer>);

// SAFETY: the view is only released, under the interpreter's lock.
unsafe impl Send for HeldBuffer {}
// SAFETY: as above; nothing reads it through a shared reference but its plain fields.
unsafe impl Sync for HeldBuffer {}

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        // SAFETY: filled by `PyObject_GetBuffer`, released once; Python objects die under the interpreter's lock.
        unsafe { PyBuffer_Release(&mut *self.0) }
    }
}

/// `frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)`.
#[pyfunction]
#[pyo3(signature = (buffer, *, dtype=None, count=-1, offset=0, requires_grad=false))]
fn frombuffer(
    buffer: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, crate::types::DTypeObject>>,
    count: i64,
    offset: i64,
    requires_grad: bool,
) -> PyResult<Wrapped> {
    let missing = || PyTypeError::new_err("frombuffer() missing 1 required positional arguments: \"dtype\"");
    let dtype = dtype.ok_or_else(missing)?;
    let py = buffer.py();
    let dtype = dtype.get().known()?;
    let item = dtype.size() as i64;
    // SAFETY: all zeros is a valid empty view, which is filled before it is read.
    let mut view: Box<Buffer> = Box::new(unsafe { std::mem::zeroed() });
    const WRITABLE: std::ffi::c_int = 1;
    // SAFETY: a live object and a view to fill.
    unsafe {
        if PyObject_GetBuffer(buffer.as_ptr(), &mut *view, WRITABLE) != 0 {
            drop(PyErr::take(py));
            if PyObject_GetBuffer(buffer.as_ptr(), &mut *view, 0) != 0 {
                drop(PyErr::take(py));
                return Err(pyo3::exceptions::PyValueError::new_err(
                    "object does not implement Python buffer protocol.",
                ));
            }
            py.import("warnings")?.call_method1("warn", (
                "The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can write \
                 to the underlying (supposedly non-writable) buffer using the tensor. You may want to copy the buffer to \
                 protect its data or make it writable before converting it to a tensor. This type of warning will be \
                 suppressed for the rest of this program.",
            ))?;
        }
    }
    let (address, len) = (view.data as usize, view.len as i64);
    let owner = Bound::new(py, HeldBuffer(view))?.into_any().unbind();
    let value = |text: String| Err(pyo3::exceptions::PyValueError::new_err(text));
    if len == 0 || count == 0 {
        return value(format!("both buffer length ({len}) and count ({count}) must not be 0"));
    }
    if offset < 0 || offset >= len {
        return value(format!(
            "offset ({offset} bytes) must be non-negative and no greater than buffer length ({len} bytes) - 1"
        ));
    }
    if count < 0 && (len - offset) % item != 0 {
        return value(format!(
            "buffer length ({} bytes) after offset ({offset} bytes) must be a multiple of element size ({item})",
            len - offset
        ));
    }
    let n = if count < 0 { (len - offset) / item } else { count };
    if n.checked_mul(item).and_then(|b| b.checked_add(offset)).is_none_or(|end| end > len) {
        return value(format!(
            "requested buffer length ({n} * {item} bytes) after offset ({offset} bytes) must not be greater than actual \
             buffer length ({len} bytes)"
        ));
    }
    let storage = crate::interop::keep_alive(owner, address + offset as usize, (n * item) as usize)?;
    let t = Tensor::from_storage(storage, dtype, &[n], &[1], 0).map_err(raise)?;
    if requires_grad {
        t.set_requires_grad(true).map_err(raise)?;
    }
    Ok(Wrapped(t))
}

/// A 1-d tensor of bytes over a storage's memory.
#[pyfunction]
fn _storage_bytes(storage: &Bound<'_, StorageObject>) -> PyResult<Wrapped> {
    storage.get().bytes().map(Wrapped)
}

/// Whether two tensors share their storage.
#[pyfunction]
fn _shares_storage(a: Argument, b: Argument) -> bool {
    a.0.shares_storage_with(&b.0)
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<StorageObject>()?;
    m.add_function(wrap_pyfunction!(frombuffer, m)?)?;
    m.add_function(wrap_pyfunction!(_storage_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(_shares_storage, m)?)?;
    Ok(())
}
