//! The operators of Python's syntax: the slots of the type `Tensor` that call functions of the table.

use crate::function::{Name, guarded};
use crate::object::{is_exact, tensor_of};
use crate::parse::Call;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use smallvec::SmallVec;

/// `x.name(other)` for a slot of the type. Arguments that the operator does not take leave the other operand its turn.
///
/// # Safety
/// `this` is a live tensor and the interpreter's lock is held.
unsafe fn slot(name: &'static Name, this: *mut PyObject, other: &[*mut PyObject]) -> *mut PyObject {
    let run = |py: Python<'_>| {
        let call = Call { py, this, args: other, named: SmallVec::new() };
        match name.run(&call) {
            Err(e) if e.is_instance_of::<PyTypeError>(py) && !other.is_empty() => Ok(py.NotImplemented().into_ptr()),
            result => result,
        }
    };
    // SAFETY: as the caller says.
    unsafe { guarded(run) }
}

/// A slot of two operands: the method of the left one if it is a tensor, else the reflected one of the right; with `as`,
/// what PyTorch calls it before those who take calls over.
macro_rules! binary_slots {
    ($($slot:ident: $name:ident = $forward:literal $(as $seen:literal)?,
       $reflected:literal $(as $reflected_seen:literal)?;)*) => {
        $(unsafe extern "C" fn $name(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject {
            static FORWARD: Name = Name::new($forward)$(.seen_as($seen))?;
            static REFLECTED: Name = Name::new($reflected)$(.seen_as($reflected_seen))?;
            // SAFETY: called by the interpreter with live objects, one of which is a tensor.
            unsafe {
                match is_exact(a) || crate::object::is_tensor(a) {
                    true => slot(&FORWARD, a, &[b]),
                    false => slot(&REFLECTED, b, &[a]),
                }
            }
        })*
        /// Slots of two operands.
        const BINARY: &[(std::ffi::c_int, unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject)] =
            &[$((ffi::$slot, $name)),*];
    };
}
binary_slots! {
    Py_nb_add: nb_add = "add", "__radd__";
    Py_nb_subtract: nb_subtract = "sub", "__rsub__";
    Py_nb_multiply: nb_multiply = "mul", "__rmul__";
    Py_nb_true_divide: nb_true_divide = "div", "__rtruediv__" as "__rdiv__";
    Py_nb_floor_divide: nb_floor_divide = "floor_divide" as "__floordiv__", "__rfloordiv__";
    Py_nb_remainder: nb_remainder = "remainder", "__rmod__";
    Py_nb_matrix_multiply: nb_matrix_multiply = "matmul", "__rmatmul__";
    Py_nb_and: nb_and = "bitwise_and" as "__and__", "__rand__";
    Py_nb_or: nb_or = "bitwise_or" as "__or__", "__ror__";
    Py_nb_xor: nb_xor = "bitwise_xor" as "__xor__", "__rxor__";
    Py_nb_lshift: nb_lshift = "__lshift__", "__rlshift__";
    Py_nb_rshift: nb_rshift = "__rshift__", "__rrshift__";
    Py_nb_inplace_add: nb_inplace_add = "add_", "add_";
    Py_nb_inplace_subtract: nb_inplace_subtract = "sub_", "sub_";
    Py_nb_inplace_multiply: nb_inplace_multiply = "mul_", "mul_";
    Py_nb_inplace_true_divide: nb_inplace_true_divide = "div_", "div_";
    Py_nb_inplace_floor_divide: nb_inplace_floor_divide = "floor_divide_", "floor_divide_";
    Py_nb_inplace_remainder: nb_inplace_remainder = "remainder_", "remainder_";
    Py_nb_inplace_and: nb_inplace_and = "bitwise_and_" as "__iand__", "bitwise_and_";
    Py_nb_inplace_or: nb_inplace_or = "bitwise_or_" as "__ior__", "bitwise_or_";
    Py_nb_inplace_xor: nb_inplace_xor = "bitwise_xor_" as "__ixor__", "bitwise_xor_";
    Py_nb_inplace_lshift: nb_inplace_lshift = "__ilshift__", "__ilshift__";
    Py_nb_inplace_rshift: nb_inplace_rshift = "__irshift__", "__irshift__";
}

macro_rules! unary_slots {
    ($($slot:ident: $name:ident = $function:literal;)*) => {
        $(unsafe extern "C" fn $name(a: *mut PyObject) -> *mut PyObject {
            static FUNCTION: Name = Name::new($function);
            // SAFETY: called by the interpreter with a live tensor.
            unsafe { slot(&FUNCTION, a, &[]) }
        })*
        /// Slots of one operand.
        const UNARY: &[(std::ffi::c_int, unsafe extern "C" fn(*mut PyObject) -> *mut PyObject)] =
            &[$((ffi::$slot, $name)),*];
    };
}
unary_slots! {
    Py_nb_negative: nb_negative = "neg";
    Py_nb_positive: nb_positive = "positive";
    Py_nb_absolute: nb_absolute = "abs";
    Py_nb_int: nb_int = "__int__";
    Py_nb_float: nb_float = "__float__";
    Py_nb_index: nb_index = "__index__";
    Py_tp_repr: tp_repr = "__repr__";
    Py_tp_iter: tp_iter = "__iter__";
}

unsafe extern "C" fn nb_invert(a: *mut PyObject) -> *mut PyObject {
    static FUNCTION: Name = Name::new("bitwise_not").seen_as("__invert__");
    if is_exact(a) && tensor_of(a).is_some_and(|t| !t.dtype().is_integral(true)) {
        // SAFETY: the interpreter's lock is held.
        let py = unsafe { Python::assume_attached() };
        let text = "~ (operator.invert) is only implemented on integer and Boolean-type tensors";
        PyTypeError::new_err(text).restore(py);
        return std::ptr::null_mut();
    }
    // SAFETY: called by the interpreter with a live tensor.
    unsafe { slot(&FUNCTION, a, &[]) }
}

unsafe extern "C" fn nb_power(a: *mut PyObject, b: *mut PyObject, _modulus: *mut PyObject) -> *mut PyObject {
    static FORWARD: Name = Name::new("pow");
    static REFLECTED: Name = Name::new("__rpow__");
    // SAFETY: called by the interpreter with live objects, one of which is a tensor.
    unsafe {
        match crate::object::is_tensor(a) {
            true => slot(&FORWARD, a, &[b]),
            false => slot(&REFLECTED, b, &[a]),
        }
    }
}

unsafe extern "C" fn nb_inplace_power(a: *mut PyObject, b: *mut PyObject, _modulus: *mut PyObject) -> *mut PyObject {
    static FUNCTION: Name = Name::new("pow_");
    // SAFETY: as above.
    unsafe { slot(&FUNCTION, a, &[b]) }
}

unsafe extern "C" fn tp_richcompare(a: *mut PyObject, b: *mut PyObject, op: std::ffi::c_int) -> *mut PyObject {
    static NAMES: [Name; 6] = [
        Name::new("lt"),
        Name::new("le"),
        Name::new("eq").seen_as("__eq__"),
        Name::new("ne"),
        Name::new("gt"),
        Name::new("ge"),
    ];
    // SAFETY: as above; `op` is one of the interpreter's six.
    unsafe {
        if op == ffi::Py_EQ && !crate::object::is_tensor(b) {
            let other = Bound::from_borrowed_ptr(Python::assume_attached(), b);
            if crate::numpy_api::is_array(&other) {
                return guarded(|py| equal_to_array(py, &NAMES[op as usize], a, &other));
            }
        }
        slot(&NAMES[op as usize], a, &[b])
    }
}

/// `tensor == array`, the one operator for which an array is taken for a tensor. An array that cannot be one is not equal.
fn equal_to_array(
    py: Python<'_>,
    name: &'static Name,
    this: *mut PyObject,
    array: &Bound<'_, PyAny>,
) -> PyResult<*mut PyObject> {
    match crate::interop::from_array(array) {
        Err(e) if e.is_instance_of::<PyTypeError>(py) => Ok(py.NotImplemented().into_ptr()),
        Err(e) => Err(e),
        Ok(t) => {
            let other = crate::object::bound(py, t)?;
            name.run(&Call { py, this, args: &[other.as_ptr()], named: SmallVec::new() })
        }
    }
}

unsafe extern "C" fn mp_subscript(a: *mut PyObject, index: *mut PyObject) -> *mut PyObject {
    static FUNCTION: Name = Name::new("__getitem__");
    // SAFETY: as above. The error of a bad index is not to be taken for "not implemented".
    unsafe { guarded(|py| FUNCTION.get()?.run(&Call { py, this: a, args: &[index], named: SmallVec::new() })) }
}

unsafe extern "C" fn mp_ass_subscript(a: *mut PyObject, index: *mut PyObject, value: *mut PyObject) -> std::ffi::c_int {
    static FUNCTION: Name = Name::new("__setitem__");
    if value.is_null() {
        // SAFETY: the interpreter's lock is held.
        let py = unsafe { Python::assume_attached() };
        PyTypeError::new_err("Tensor does not support deleting items").restore(py);
        return -1;
    }
    // SAFETY: as above.
    unsafe {
        let done =
            guarded(|py| FUNCTION.get()?.run(&Call { py, this: a, args: &[index, value], named: SmallVec::new() }));
        if done.is_null() {
            return -1;
        }
        ffi::Py_DECREF(done);
        0
    }
}

unsafe extern "C" fn mp_length(a: *mut PyObject) -> ffi::Py_ssize_t {
    static FUNCTION: Name = Name::new("__len__");
    // SAFETY: as above.
    unsafe {
        let object = guarded(|py| FUNCTION.get()?.run(&Call { py, this: a, args: &[], named: SmallVec::new() }));
        if object.is_null() {
            return -1;
        }
        let n = ffi::PyLong_AsSsize_t(object);
        ffi::Py_DECREF(object);
        n
    }
}

unsafe extern "C" fn nb_bool(a: *mut PyObject) -> std::ffi::c_int {
    static FUNCTION: Name = Name::new("__bool__");
    // SAFETY: as above.
    unsafe {
        let object = guarded(|py| FUNCTION.get()?.run(&Call { py, this: a, args: &[], named: SmallVec::new() }));
        if object.is_null() {
            return -1;
        }
        let yes = object == ffi::Py_True();
        ffi::Py_DECREF(object);
        yes.into()
    }
}

/// All slots of the type that call functions.
pub fn slots() -> Vec<(std::ffi::c_int, *mut std::ffi::c_void)> {
    let mut all: Vec<_> = BINARY.iter().map(|(s, f)| (*s, *f as *mut std::ffi::c_void)).collect();
    all.extend(UNARY.iter().map(|(s, f)| (*s, *f as *mut std::ffi::c_void)));
    all.extend([
        (ffi::Py_nb_invert, nb_invert as *mut std::ffi::c_void),
        (ffi::Py_nb_power, nb_power as *mut std::ffi::c_void),
        (ffi::Py_nb_inplace_power, nb_inplace_power as *mut std::ffi::c_void),
        (ffi::Py_tp_richcompare, tp_richcompare as *mut std::ffi::c_void),
        (ffi::Py_mp_subscript, mp_subscript as *mut std::ffi::c_void),
        (ffi::Py_mp_ass_subscript, mp_ass_subscript as *mut std::ffi::c_void),
        (ffi::Py_mp_length, mp_length as *mut std::ffi::c_void),
        (ffi::Py_nb_bool, nb_bool as *mut std::ffi::c_void),
    ]);
    all
}
