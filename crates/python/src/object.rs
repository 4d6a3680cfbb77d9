//! The type `flambeau.Tensor`: a Python object that owns a handle to a tensor.
//!
//! The type is made through the stable interface by hand, because it needs what generated classes do not offer: an
//! instance dictionary that the garbage collector sees, instances of subclasses made from Rust, and one Python object
//! per tensor for as long as that object lives ([`Tensor::external`] points back to it), so that `x.add_(1) is x`.

use flambeau::Tensor;
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};
use std::mem::{ManuallyDrop, offset_of};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// An instance of `Tensor` or of a subclass.
#[repr(C)]
struct TensorObject {
    head: PyObject,
    tensor: ManuallyDrop<Tensor>,
    dict: *mut PyObject,
    weak_references: *mut PyObject,
}

/// The type, once [`create_type`] has run; it is never freed.
static TYPE: AtomicPtr<PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

/// `flambeau.Tensor`.
#[inline(always)]
pub fn tensor_type() -> *mut PyTypeObject {
    TYPE.load(Relaxed)
}

/// Whether the object is a tensor of exactly that type: no subclass.
#[inline(always)]
pub fn is_exact(object: *mut PyObject) -> bool {
    // SAFETY: every caller passes a live object.
    unsafe { ffi::Py_TYPE(object) == tensor_type() }
}

/// Whether the object is a tensor.
#[inline(always)]
pub fn is_tensor(object: *mut PyObject) -> bool {
    // SAFETY: every caller passes a live object.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        kind == tensor_type() || ffi::PyType_IsSubtype(kind, tensor_type()) != 0
    }
}

/// The tensor of an object, if it is one. A handle of its own: the object's may be replaced (`x.data = y`).
#[inline(always)]
pub fn tensor_of(object: *mut PyObject) -> Option<Tensor> {
    // SAFETY: a live object of the type, whose handle is initialised as long as it lives.
    (!object.is_null() && is_tensor(object)).then(|| unsafe { Tensor::clone(&(*object.cast::<TensorObject>()).tensor) })
}

/// Looks at an object's tensor without a handle of its own.
///
/// # Safety
/// `object` is a live tensor, and no Python code runs while the reference is used.
#[inline(always)]
pub unsafe fn peek<'a>(object: *mut PyObject) -> &'a Tensor {
    // SAFETY: passed on to the caller.
    unsafe { &(*object.cast::<TensorObject>()).tensor }
}

/// The Python object of a tensor: the one that it has, or a new one. A new reference.
#[inline]
pub fn wrap(py: Python<'_>, tensor: Tensor) -> PyResult<*mut PyObject> {
    let existing = tensor.external().cast::<PyObject>();
    if !existing.is_null() {
        // SAFETY: the object clears the pointer before it dies, under the interpreter's lock, which is held.
        unsafe { ffi::Py_INCREF(existing) };
        return Ok(existing);
    }
    new_object(py, tensor, tensor_type())
}

/// A bound Python object of a tensor.
#[inline]
pub fn bound(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let object = wrap(py, tensor)?;
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, object) })
}

/// A new object of `kind`, which is the tensor type or a subclass.
pub fn new_object(py: Python<'_>, tensor: Tensor, kind: *mut PyTypeObject) -> PyResult<*mut PyObject> {
    // SAFETY: `kind` is a type whose instances begin with a `TensorObject`; the allocation is zeroed beyond the head,
    // so only the handle is to be written.
    unsafe {
        let object = ffi::PyType_GenericAlloc(kind, 0);
        if object.is_null() {
            return Err(PyErr::take(py).unwrap_or_else(|| PyMemoryError::new_err("cannot allocate a tensor object")));
        }
        if tensor.external().is_null() {
            tensor.set_external(object.cast());
        }
        (&raw mut (*object.cast::<TensorObject>()).tensor).write(ManuallyDrop::new(tensor));
        Ok(object)
    }
}

/// Gives a tensor object another tensor: `x.data = y`.
///
/// # Safety
/// `object` is a live tensor and the interpreter's lock is held.
pub unsafe fn replace(object: *mut PyObject, new: Tensor) {
    // SAFETY: as the caller says; whoever was reading the old handle made one of its own.
    unsafe {
        let place = &mut (*object.cast::<TensorObject>()).tensor;
        place.set_external(std::ptr::null_mut());
        new.set_external(object.cast());
        drop(ManuallyDrop::into_inner(std::mem::replace(place, ManuallyDrop::new(new))));
    }
}

/// Exchanges the tensors of two objects; each object keeps its identity, its class and its attributes.
///
/// # Errors
/// When one of them is no tensor.
#[pyfunction]
pub fn _swap_tensors(first: &Bound<'_, PyAny>, second: &Bound<'_, PyAny>) -> PyResult<()> {
    let (a, b) = (first.as_ptr(), second.as_ptr());
    for object in [first, second] {
        if !is_tensor(object.as_ptr()) {
            return Err(PyTypeError::new_err(format!(
                "expected Tensor, not {}",
                crate::number::type_name(object.as_ptr())
            )));
        }
    }
    if a == b {
        return Ok(());
    }
    // SAFETY: two live tensors that are not one, under the interpreter's lock; no reference to their handles is kept.
    unsafe {
        let (x, y) = (&mut (*a.cast::<TensorObject>()).tensor, &mut (*b.cast::<TensorObject>()).tensor);
        // A tensor that has more than one object points back to the first.
        let owned = (x.external() == a.cast(), y.external() == b.cast());
        std::mem::swap(x, y);
        if owned.1 {
            x.set_external(a.cast());
        }
        if owned.0 {
            y.set_external(b.cast());
        }
    }
    Ok(())
}

unsafe extern "C" fn deallocate(object: *mut PyObject) {
    // SAFETY: called once, by the interpreter, with an object of the type that nobody refers to.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let me = object.cast::<TensorObject>();
        if !(*me).weak_references.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        ffi::Py_CLEAR(&raw mut (*me).dict);
        if (*me).tensor.external() == object.cast() {
            (*me).tensor.set_external(std::ptr::null_mut());
        }
        ManuallyDrop::drop(&mut (*me).tensor);
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe extern "C" fn traverse(object: *mut PyObject, visit: ffi::visitproc, argument: *mut c_void) -> c_int {
    // SAFETY: called by the collector with a live object of the type.
    unsafe {
        let dict = (*object.cast::<TensorObject>()).dict;
        for member in [dict, ffi::Py_TYPE(object).cast()] {
            if !member.is_null() {
                let stop = visit(member, argument);
                if stop != 0 {
                    return stop;
                }
            }
        }
        let mut stop = 0;
        (*object.cast::<TensorObject>()).tensor.visit_owned(&mut |owner| {
            crate::node::each_object(owner, &mut |member| {
                if stop == 0 {
                    stop = visit(member.as_ptr(), argument);
                }
            });
        });
        stop
    }
}

unsafe extern "C" fn clear(object: *mut PyObject) -> c_int {
    // SAFETY: called by the collector with a live object of the type.
    unsafe { ffi::Py_CLEAR(&raw mut (*object.cast::<TensorObject>()).dict) };
    0
}

unsafe extern "C" fn hash(object: *mut PyObject) -> ffi::Py_hash_t {
    // As PyTorch's: the number that `id` gives. (-1 means an error.)
    object as ffi::Py_hash_t & isize::MAX
}

/// Makes the type. `slots` are those that know operators.
///
/// # Errors
/// When Python cannot make it.
pub fn create_type<'py>(py: Python<'py>, slots: &[(c_int, *mut c_void)]) -> PyResult<Bound<'py, PyAny>> {
    let offset_member = |name: &'static std::ffi::CStr, offset: usize| ffi::PyMemberDef {
        name: name.as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: offset as ffi::Py_ssize_t,
        flags: ffi::Py_READONLY,
        doc: std::ptr::null(),
    };
    // The interpreter keeps pointing to these.
    let members = Box::leak(Box::new([
        offset_member(c"__dictoffset__", offset_of!(TensorObject, dict)),
        offset_member(c"__weaklistoffset__", offset_of!(TensorObject, weak_references)),
        // SAFETY: all zeros is the end marker.
        unsafe { std::mem::zeroed() },
    ]));
    let properties = Box::leak(Box::new([
        ffi::PyGetSetDef {
            name: c"__dict__".as_ptr(),
            get: Some(ffi::PyObject_GenericGetDict),
            set: Some(ffi::PyObject_GenericSetDict),
            doc: std::ptr::null(),
            closure: std::ptr::null_mut(),
        },
        // SAFETY: as above.
        unsafe { std::mem::zeroed() },
    ]));
    let own = [
        (ffi::Py_tp_dealloc, deallocate as *mut c_void),
        (ffi::Py_tp_traverse, traverse as *mut c_void),
        (ffi::Py_tp_clear, clear as *mut c_void),
        (ffi::Py_tp_hash, hash as *mut c_void),
        (ffi::Py_tp_members, members.as_mut_ptr().cast()),
        (ffi::Py_tp_getset, properties.as_mut_ptr().cast()),
    ];
    let mut all: Vec<ffi::PyType_Slot> =
        own.iter().chain(slots).map(|&(slot, pfunc)| ffi::PyType_Slot { slot, pfunc }).collect();
    all.push(ffi::PyType_Slot { slot: 0, pfunc: std::ptr::null_mut() });
    let mut spec = ffi::PyType_Spec {
        name: c"flambeau.Tensor".as_ptr(),
        basicsize: size_of::<TensorObject>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_HAVE_GC) as u32,
        slots: all.as_mut_ptr(),
    };
    // SAFETY: a complete specification, whose members live on.
    unsafe {
        let kind = ffi::PyType_FromSpec(&mut spec);
        let kind = Bound::from_owned_ptr_or_err(py, kind)?;
        // Messages of the interpreter use the name without the module.
        kind.setattr("__name__", "Tensor")?;
        TYPE.store(kind.clone().into_ptr().cast(), Relaxed);
        Ok(kind)
    }
}

/// A tensor as an argument of a Rust function that Python calls.
pub struct Argument(pub Tensor);

impl<'a, 'py> FromPyObject<'a, 'py> for Argument {
    type Error = PyErr;
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        tensor_of(object.as_ptr()).map(Argument).ok_or_else(|| {
            PyTypeError::new_err(format!("expected Tensor, not {}", crate::number::type_name(object.as_ptr())))
        })
    }
}

/// A tensor as the result of such a function.
pub struct Wrapped(pub Tensor);

impl<'py> IntoPyObject<'py> for Wrapped {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        bound(py, self.0)
    }
}
