//! Methods of `Tensor` that are no operators.

use crate::convert::{device_of, dtype_of, numbered_device_of};
use crate::error::raise;
use crate::function::{self, Kind, Native, find, released, this};
use crate::number::{index, to_python, type_name};
use crate::object::{bound, peek, tensor_of, wrap};
use crate::parse::{Call, Overload};
use crate::types::MemoryFormatObject;
use flambeau::{DType, Device, Element, MemoryFormat, Scalar, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};

/// A Python integer. A new reference.
fn int(i: i64) -> *mut PyObject {
    // SAFETY: the interpreter's lock is held by every caller.
    unsafe { ffi::PyLong_FromLongLong(i) }
}

fn boolean(py: Python<'_>, yes: bool) -> *mut PyObject {
    to_python(py, Scalar::Bool(yes))
}

fn no_arguments(call: &Call<'_>, name: &str) -> PyResult<()> {
    let count = call.args.len() - usize::from(call.this.is_null() && !call.args.is_empty());
    if count > 0 || !call.named.is_empty() {
        return Err(PyTypeError::new_err(format!("TensorBase.{name}() takes no arguments ({count} given)")));
    }
    Ok(())
}

/// Refuses more positional arguments than `most` (`self` not counted).
///
/// # Errors
/// `TypeError`, in PyTorch's words.
pub fn at_most(call: &Call<'_>, name: &str, most: usize) -> PyResult<()> {
    let count = call.args.len() - usize::from(call.this.is_null() && !call.args.is_empty());
    if count <= most {
        return Ok(());
    }
    let (s, were) = (if most == 1 { "" } else { "s" }, if count == 1 { "was" } else { "were" });
    Err(PyTypeError::new_err(format!("{name}() takes {most} positional argument{s} but {count} {were} given")))
}

/// A flag that a method was given.
///
/// # Errors
/// `TypeError` when it is no `bool`.
pub fn flag(py: Python<'_>, function: &str, name: &str, value: *mut PyObject) -> PyResult<bool> {
    match crate::number::number(py, value) {
        Some(Scalar::Bool(on)) => Ok(on),
        _ => {
            Err(PyTypeError::new_err(format!("{function}(): argument '{name}' must be bool, not {}", type_name(value))))
        }
    }
}

/// Argument `place` (from 0, `self` not counted), or the one called `name`.
pub fn argument(call: &Call<'_>, place: usize, name: &str) -> Option<*mut PyObject> {
    let place = place + usize::from(call.this.is_null());
    let found = call.args.get(place).copied().or_else(|| call.named(name));
    // SAFETY: a comparison of addresses.
    found.filter(|o| *o != unsafe { ffi::Py_None() })
}

fn item(call: &Call<'_>) -> PyResult<*mut PyObject> {
    no_arguments(call, "item")?;
    this(call)?.item().map(|s| to_python(call.py, s)).map_err(raise)
}

/// `Size`, or one size.
fn size(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    match argument(call, 0, "dim") {
        None => crate::types::size(call.py, t.sizes()),
        Some(d) => {
            let dim = index(call.py, d).ok_or_else(|| {
                PyTypeError::new_err(format!("size(): argument 'dim' (position 1) must be int, not {}", type_name(d)))
            })?;
            t.size(dim).map(int).map_err(raise)
        }
    }
}

/// Refuses tensors in compressed rows, which have no `what`.
fn not_compressed(t: &Tensor, what: &str) -> PyResult<()> {
    match t.layout() {
        flambeau::Layout::SparseCsr => Err(PyRuntimeError::new_err(format!("Sparse CSR tensors do not have {what}"))),
        _ => Ok(()),
    }
}

fn stride(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    not_compressed(&t, "strides")?;
    match argument(call, 0, "dim") {
        None => Ok(PyTuple::new(call.py, t.strides())?.into_ptr()),
        Some(d) => {
            let dim = index(call.py, d).ok_or_else(|| {
                PyTypeError::new_err(format!("stride(): argument 'dim' (position 1) must be int, not {}", type_name(d)))
            })?;
            t.size(dim).map_err(raise)?;
            let at = if dim < 0 { dim + t.dim() as i64 } else { dim };
            Ok(int(t.strides()[at as usize]))
        }
    }
}

fn length(call: &Call<'_>) -> PyResult<*mut PyObject> {
    // SAFETY: a live tensor; nothing runs meanwhile.
    let first = unsafe { peek(call.this) }.sizes().first().copied();
    first.map(int).ok_or_else(|| PyTypeError::new_err("len() of a 0-d tensor"))
}

/// The one element as a number; `what` names the conversion.
fn one_number(call: &Call<'_>, what: &str) -> PyResult<Scalar> {
    let t = this(call)?;
    if t.numel() != 1 {
        return Err(match what {
            "bool" if t.numel() == 0 => PyRuntimeError::new_err("Boolean value of Tensor with no values is ambiguous"),
            "bool" => PyRuntimeError::new_err("Boolean value of Tensor with more than one value is ambiguous"),
            "index" => PyTypeError::new_err("only integer tensors of a single element can be converted to an index"),
            _ => PyValueError::new_err("only one element tensors can be converted to Python scalars"),
        });
    }
    t.item().map_err(raise)
}

fn to_bool(call: &Call<'_>) -> PyResult<*mut PyObject> {
    one_number(call, "bool").map(|s| boolean(call.py, s.to_bool()))
}

fn to_float(call: &Call<'_>) -> PyResult<*mut PyObject> {
    warn_of_gradient(call)?;
    match one_number(call, "float")? {
        Scalar::Complex(c) if c.im != 0.0 => {
            Err(PyRuntimeError::new_err("value cannot be converted to type double without overflow"))
        }
        s => Ok(to_python(call.py, Scalar::Float(s.to_f64()))),
    }
}

/// Says, once, that a number has no gradient.
fn warn_of_gradient(call: &Call<'_>) -> PyResult<()> {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.load(Ordering::Relaxed) || !this(call)?.requires_grad() || !flambeau::autograd::is_grad_enabled() {
        return Ok(());
    }
    crate::error::warn_once(
        call.py,
        &DONE,
        c"Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using \
          tensor.detach() first.",
    )
}

fn to_int(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let s = one_number(call, "int")?;
    match s {
        Scalar::Int(_) | Scalar::UInt(_) => Ok(to_python(call.py, s)),
        Scalar::Bool(b) => Ok(int(b.into())),
        Scalar::Complex(c) if c.im != 0.0 => {
            Err(PyRuntimeError::new_err("value cannot be converted to type int64_t without overflow"))
        }
        s => {
            // As `int(float)`: beyond 64 bits too, and an error for what is not finite.
            // SAFETY: a new float and its integer.
            unsafe {
                let float = Bound::from_owned_ptr(call.py, ffi::PyFloat_FromDouble(s.to_f64()));
                let result = ffi::PyNumber_Long(float.as_ptr());
                if result.is_null() { Err(PyErr::fetch(call.py)) } else { Ok(result) }
            }
        }
    }
}

fn to_complex(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let s = one_number(call, "complex")?;
    Ok(to_python(call.py, Scalar::Complex(s.to_complex())))
}

fn to_index(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    if t.numel() != 1 || !t.dtype().is_integral(true) {
        return Err(PyTypeError::new_err("only integer tensors of a single element can be converted to an index"));
    }
    to_int(call)
}

/// Nested lists of numbers.
fn tolist(call: &Call<'_>) -> PyResult<*mut PyObject> {
    no_arguments(call, "tolist")?;
    let t = this(call)?;
    if t.dim() == 0 {
        return t.item().map(|s| to_python(call.py, s)).map_err(raise);
    }
    flambeau::dispatch_dtype!(t.dtype(), T => {
        let values = t.to_vec::<T>().map_err(raise)?;
        let innermost = |part: std::ops::Range<usize>| {
            list(call.py, part.len(), values[part].iter().map(|x| Ok(to_python(call.py, x.to_scalar()))))
        };
        nested(call.py, t.sizes(), 0..values.len(), &innermost)
    })
}

/// Lists of lists; `innermost` makes those of numbers.
fn nested(
    py: Python<'_>,
    sizes: &[i64],
    part: std::ops::Range<usize>,
    innermost: &dyn Fn(std::ops::Range<usize>) -> PyResult<*mut PyObject>,
) -> PyResult<*mut PyObject> {
    let n = sizes[0] as usize;
    if sizes.len() == 1 {
        return innermost(part);
    }
    let step = part.len().checked_div(n).unwrap_or(0);
    let start = |i: usize| part.start + i * step;
    list(py, n, (0..n).map(|i| nested(py, &sizes[1..], start(i)..start(i + 1), innermost)))
}

/// A list of `n` new objects, which it takes over. A new reference.
#[inline]
fn list(py: Python<'_>, n: usize, items: impl Iterator<Item = PyResult<*mut PyObject>>) -> PyResult<*mut PyObject> {
    // SAFETY: a new list, whose places are filled once each, in order; null items are refused.
    unsafe {
        let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(n as ffi::Py_ssize_t))?;
        for (i, item) in items.enumerate() {
            let item = item?;
            if item.is_null() {
                return Err(PyErr::fetch(py));
            }
            ffi::PyList_SetItem(list.as_ptr(), i as ffi::Py_ssize_t, item);
        }
        Ok(list.into_ptr())
    }
}

fn iterate(call: &Call<'_>) -> PyResult<*mut PyObject> {
    if crate::overrides::wanted(call) {
        return iterate_by_methods(call);
    }
    let t = this(call)?;
    if t.dim() == 0 {
        return Err(PyTypeError::new_err("iteration over a 0-d tensor"));
    }
    let parts = t.unbind(0).map_err(raise)?;
    let items = parts.into_iter().map(|p| bound(call.py, p)).collect::<PyResult<Vec<_>>>()?;
    let list = PyList::new(call.py, items)?;
    // SAFETY: a live list.
    Ok(unsafe { ffi::PyObject_GetIter(list.as_ptr()) })
}

/// The same for a tensor that takes calls over: it is asked for its parts, as by PyTorch's method, which is in Python.
#[cold]
fn iterate_by_methods(call: &Call<'_>) -> PyResult<*mut PyObject> {
    // SAFETY: a live tensor.
    let object = unsafe { Bound::from_borrowed_ptr(call.py, call.this) };
    if object.call_method0(pyo3::intern!(call.py, "dim"))?.extract::<i64>()? == 0 {
        return Err(PyTypeError::new_err("iteration over a 0-d tensor"));
    }
    let parts = object.call_method1(pyo3::intern!(call.py, "unbind"), (0,))?;
    Ok(parts.try_iter()?.into_any().into_ptr())
}

fn repr(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let module = call.py.import(pyo3::intern!(call.py, "flambeau._tensor_text"))?;
    // SAFETY: a live tensor.
    let object = unsafe { Bound::from_borrowed_ptr(call.py, call.this) };
    Ok(module.call_method1("tensor_text", (object,))?.into_ptr())
}

fn is_set_to(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let other = argument(call, 0, "tensor").and_then(tensor_of);
    let other =
        other.ok_or_else(|| PyTypeError::new_err("is_set_to(): argument 'tensor' (position 1) must be Tensor"))?;
    Ok(boolean(call.py, this(call)?.is_set_to(&other)))
}

fn is_contiguous(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    not_compressed(&t, "is_contiguous")?;
    // SAFETY: a live object.
    let format = argument(call, 0, "memory_format").map(|f| unsafe { Bound::from_borrowed_ptr(call.py, f) });
    let format = match format {
        Some(f) => {
            f.cast::<MemoryFormatObject>()
                .map_err(|_| {
                    PyTypeError::new_err(format!(
                        "is_contiguous(): argument 'memory_format' must be torch.memory_format, not {}",
                        type_name(f.as_ptr())
                    ))
                })?
                .get()
                .0
        }
        None => MemoryFormat::Contiguous,
    };
    Ok(boolean(call.py, t.is_contiguous_in(format)))
}

fn requires_grad_(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    let on = match argument(call, 0, "requires_grad") {
        None => true,
        Some(o) => match crate::number::number(call.py, o) {
            Some(Scalar::Bool(on)) => on,
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {}",
                    type_name(o)
                )));
            }
        },
    };
    t.set_requires_grad(on).map_err(|e| match e.message().starts_with("only Tensors") {
        true => PyRuntimeError::new_err("only Tensors of floating point dtype can require gradients"),
        false => raise(e),
    })?;
    wrap(call.py, t)
}

fn element_size(call: &Call<'_>) -> PyResult<*mut PyObject> {
    no_arguments(call, "element_size")?;
    Ok(int(this(call)?.element_size() as i64))
}

/// What [`to`] was asked for.
#[derive(Default)]
struct Target {
    dtype: Option<DType>,
    device: Option<Device>,
    copy: bool,
    format: Option<MemoryFormat>,
}

/// That `to` takes no such arguments.
#[cold]
fn no_target(call: &Call<'_>) -> PyErr {
    PyTypeError::new_err(format!(
        "to() received an invalid combination of arguments - got ({}), but expected one of:\n * (torch.device device = \
         None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format \
         memory_format = None)\n * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, \
         torch.memory_format memory_format = None)\n * (Tensor tensor, bool non_blocking = False, bool copy = False, *, \
         torch.memory_format memory_format = None)\n",
        crate::explain::describe(call)
    ))
}

/// The dtype and device of a tensor, or of a number in its place.
fn like(py: Python<'_>, object: *mut PyObject) -> Option<(DType, Device)> {
    let of_number = |s: Scalar| {
        let widest = if s.is_complex() { DType::Complex128 } else { DType::F64 };
        (DType::of_scalar(&s, widest), Device::CPU)
    };
    let of_tensor = |t: Tensor| (t.dtype(), t.device());
    tensor_of(object).map(of_tensor).or_else(|| crate::number::number(py, object).map(of_number))
}

/// `x.to(...)`: dtype, device and memory format in every order that PyTorch takes.
fn target(call: &Call<'_>) -> PyResult<Target> {
    let py = call.py;
    let mut target = Target::default();
    let positional = &call.args[usize::from(call.this.is_null()).min(call.args.len())..];
    // The parameters in order: after a device may come a dtype, after a dtype or a tensor only the flags.
    let mut names: &[&str] = &["device", "dtype", "non_blocking", "copy"];
    if let Some(&first) = positional.first() {
        // SAFETY: a live object.
        let o = unsafe { Bound::from_borrowed_ptr(py, first) };
        if dtype_of(&o)?.is_some() {
            names = &["dtype", "non_blocking", "copy"];
        } else if !o.is_none() && !is_device(py, &o) {
            names = &["tensor", "non_blocking", "copy"];
        }
    }
    if positional.len() > names.len() {
        return match positional.len() {
            5 => Err(PyTypeError::new_err("to() takes from 0 to 4 positional arguments but 5 were given")),
            _ => Err(no_target(call)),
        };
    }
    let mut set = |name: &str, object: *mut PyObject| -> PyResult<()> {
        // SAFETY: a live object.
        let o = unsafe { Bound::from_borrowed_ptr(py, object) };
        let flag = || matches!(crate::number::number(py, object), Some(Scalar::Bool(_)));
        match name {
            "device" | "dtype" | "memory_format" if o.is_none() => {}
            "device" if is_device(py, &o) => {
                let device = device_of(&o)?;
                target.device = Some(device);
                // A number that tensors do not have makes it another device than theirs: a copy, as in PyTorch.
                target.copy |= numbered_device_of(&o)? != device;
            }
            "dtype" => target.dtype = Some(dtype_of(&o)?.ok_or_else(|| no_target(call))?),
            "tensor" => {
                let (dtype, device) = like(py, object).ok_or_else(|| no_target(call))?;
                (target.dtype, target.device) = (Some(dtype), Some(device));
            }
            "non_blocking" if flag() => {}
            // SAFETY: a comparison of addresses.
            "copy" if flag() => target.copy |= object == unsafe { ffi::Py_True() },
            "memory_format" => {
                target.format = Some(o.cast::<MemoryFormatObject>().map_err(|_| no_target(call))?.get().0);
            }
            _ => return Err(no_target(call)),
        }
        Ok(())
    };
    for (name, object) in names.iter().zip(positional) {
        set(name, *object)?;
    }
    for &(name, value) in &call.named {
        let name = crate::parse::text(name);
        if names[..positional.len()].contains(&name.as_str()) {
            return Err(no_target(call));
        }
        set(&name, value)?;
    }
    Ok(target)
}

/// Whether the object names a device: a string, or the number of an accelerator.
fn is_device(py: Python<'_>, o: &Bound<'_, PyAny>) -> bool {
    o.is_instance_of::<crate::types::DeviceObject>()
        || o.is_instance_of::<pyo3::types::PyString>()
        || matches!(crate::number::number(py, o.as_ptr()), Some(Scalar::Int(_)))
}

fn to(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    let target = target(call)?;
    convert(call, t, target)
}

fn convert(call: &Call<'_>, t: Tensor, target: Target) -> PyResult<*mut PyObject> {
    let dtype = target.dtype.unwrap_or(t.dtype());
    let device = target.device.map_or(t.device(), |d| if d.kind == t.device().kind { t.device() } else { d });
    let fits = target.format.is_none_or(|f| f == MemoryFormat::Preserve || t.suggested_memory_format() == f);
    if dtype == t.dtype() && device == t.device() && fits && !target.copy {
        return wrap(call.py, t);
    }
    let run = || {
        flambeau::registry::find("_to_copy")
            .ok_or_else(|| flambeau::Error::runtime("the operator '_to_copy' does not exist"))?
            .call(&[
                flambeau::Value::Tensor(&t),
                flambeau::Value::DType(dtype),
                flambeau::Value::None,
                flambeau::Value::Device(device),
                flambeau::Value::None,
                flambeau::Value::Bool(false),
                target.format.map_or(flambeau::Value::None, flambeau::Value::MemoryFormat),
            ])?
            .one()
    };
    let result = if t.numel() < 4096 { run() } else { released(call.py, run) };
    wrap(call.py, result.map_err(raise)?)
}

/// The one argument of `x.float()`, `x.cpu()` and the like.
fn only_format(call: &Call<'_>, name: &str) -> PyResult<Target> {
    at_most(call, name, 0)?;
    let mut target = Target::default();
    for &(key, value) in &call.named {
        // SAFETY: a live object.
        let o = unsafe { Bound::from_borrowed_ptr(call.py, value) };
        match crate::parse::text(key).as_str() {
            "memory_format" if o.is_none() => {}
            "memory_format" => {
                let format = o.cast::<MemoryFormatObject>().map_err(|_| {
                    let got = type_name(value);
                    PyTypeError::new_err(format!(
                        "{name}(): argument 'memory_format' must be torch.memory_format, not {got}"
                    ))
                })?;
                target.format = Some(format.get().0);
            }
            other => {
                return Err(PyTypeError::new_err(format!("{name}() got an unexpected keyword argument '{other}'")));
            }
        }
    }
    Ok(target)
}

macro_rules! casts {
    ($($function:ident $name:literal => $dtype:expr;)*) => {
        $(fn $function(call: &Call<'_>) -> PyResult<*mut PyObject> {
            let target = Target { dtype: Some($dtype), ..only_format(call, $name)? };
            convert(call, this(call)?, target)
        })*
        const CASTS: &[(&str, Native)] = &[$(($name, $function)),*];
    };
}
casts! {
    double "double" => DType::F64; float "float" => DType::F32; half "half" => DType::F16; bfloat16 "bfloat16" => DType::BF16;
    long "long" => DType::I64; int_cast "int" => DType::I32; short "short" => DType::I16; char_cast "char" => DType::I8;
    byte "byte" => DType::U8; bool_cast "bool" => DType::Bool; cfloat "cfloat" => DType::Complex64;
    cdouble "cdouble" => DType::Complex128;
}

fn cpu(call: &Call<'_>) -> PyResult<*mut PyObject> {
    convert(call, this(call)?, Target { device: Some(Device::CPU), ..only_format(call, "cpu")? })
}

/// `Tensor.__rsub__` and the like: the function `name` with the operands turned round.
fn reflected(call: &Call<'_>, name: &str) -> PyResult<*mut PyObject> {
    let function =
        find(name).ok_or_else(|| PyRuntimeError::new_err(format!("the operator '{name}' does not exist")))?;
    let args: SmallVec<[*mut PyObject; 2]> = call.args.iter().rev().copied().chain([call.this]).collect();
    function.run(&Call { py: call.py, this: std::ptr::null_mut(), args: &args, named: SmallVec::new() })
}

/// The tensor `[other]` for operators that take no number on the left.
fn on_the_left<'py>(call: &Call<'py>) -> PyResult<Bound<'py, PyAny>> {
    let other = call.args.first().copied().ok_or_else(|| PyTypeError::new_err("expected 1 argument, got 0"))?;
    let s = crate::number::number(call.py, other)
        .ok_or_else(|| PyTypeError::new_err(format!("unsupported operand type: {}", type_name(other))))?;
    let t = this(call)?;
    let dtype = flambeau::promotion::result_type_with(&t, s);
    bound(call.py, Tensor::full(&[], s, (dtype, t.device())).map_err(raise)?)
}

fn forward(call: &Call<'_>, name: &str) -> PyResult<*mut PyObject> {
    let function =
        find(name).ok_or_else(|| PyRuntimeError::new_err(format!("the operator '{name}' does not exist")))?;
    function.run(&Call { py: call.py, this: call.this, args: call.args, named: SmallVec::new() })
}

fn radd(call: &Call<'_>) -> PyResult<*mut PyObject> {
    forward(call, "add")
}
fn rmul(call: &Call<'_>) -> PyResult<*mut PyObject> {
    forward(call, "mul")
}
fn rsub(call: &Call<'_>) -> PyResult<*mut PyObject> {
    forward(call, "rsub")
}
fn rand(call: &Call<'_>) -> PyResult<*mut PyObject> {
    reflected(call, "bitwise_and")
}
fn ror(call: &Call<'_>) -> PyResult<*mut PyObject> {
    reflected(call, "bitwise_or")
}
fn rxor(call: &Call<'_>) -> PyResult<*mut PyObject> {
    reflected(call, "bitwise_xor")
}
fn rpow(call: &Call<'_>) -> PyResult<*mut PyObject> {
    reflected(call, "pow")
}
fn rmod(call: &Call<'_>) -> PyResult<*mut PyObject> {
    reflected(call, "remainder")
}
fn rmatmul(call: &Call<'_>) -> PyResult<*mut PyObject> {
    reflected(call, "matmul")
}
fn rlshift(call: &Call<'_>) -> PyResult<*mut PyObject> {
    reflected(call, "bitwise_left_shift")
}
fn rrshift(call: &Call<'_>) -> PyResult<*mut PyObject> {
    reflected(call, "bitwise_right_shift")
}
fn rtruediv(call: &Call<'_>) -> PyResult<*mut PyObject> {
    // The number over the tensor is its reciprocal times the number.
    let t = this(call)?;
    let reciprocal = bound(call.py, t.reciprocal().map_err(raise)?)?;
    let other = argument(call, 0, "other").ok_or_else(|| PyTypeError::new_err("expected 1 argument, got 0"))?;
    // By Python's operator, not the method: an array on the other side answers itself.
    // SAFETY: live objects.
    match unsafe { ffi::PyNumber_Multiply(reciprocal.as_ptr(), other) } {
        product if product.is_null() => Err(PyErr::fetch(call.py)),
        product => Ok(product),
    }
}
fn rfloordiv(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let left = on_the_left(call)?;
    let args = [left.as_ptr(), call.this];
    let function = function::Name::new("floor_divide");
    function.get()?.run(&Call { py: call.py, this: std::ptr::null_mut(), args: &args, named: SmallVec::new() })
}

fn as_subclass(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let class = argument(call, 0, "cls").ok_or_else(|| PyTypeError::new_err("as_subclass() needs a class"))?;
    let t = this(call)?.alias().map_err(raise)?;
    make_instance(call.py, t, class)
}

/// An instance of a subclass over a tensor.
///
/// # Errors
/// When `class` is not a subclass of `Tensor`.
pub fn make_instance(py: Python<'_>, t: Tensor, class: *mut PyObject) -> PyResult<*mut PyObject> {
    // SAFETY: a live object; the second check is made of types only.
    unsafe {
        let is_class =
            ffi::PyType_Check(class) != 0 && ffi::PyType_IsSubtype(class.cast(), crate::object::tensor_type()) != 0;
        if !is_class {
            return Err(PyTypeError::new_err(format!("cls must be a type (got {})", type_name(class))));
        }
    }
    crate::object::new_object(py, t, class.cast())
}

/// `Tensor._make_subclass(cls, data, require_grad=False)`.
#[pyfunction]
#[pyo3(signature = (cls, data, require_grad=false))]
pub fn _make_subclass(
    py: Python<'_>,
    cls: &Bound<'_, PyAny>,
    data: crate::object::Argument,
    require_grad: bool,
) -> PyResult<Py<PyAny>> {
    let t = data.0.detach().map_err(raise)?;
    t.set_requires_grad(require_grad).map_err(|e| match e.message().starts_with("only Tensors") {
        true => PyRuntimeError::new_err("Only Tensors of floating point and complex dtype can require gradients"),
        false => raise(e),
    })?;
    let object = make_instance(py, t, cls.as_ptr())?;
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, object) }.unbind())
}

/// `x.nonzero(as_tuple=False)`: one of two operators.
fn nonzero(call: &Call<'_>) -> PyResult<*mut PyObject> {
    static PLAIN: PyOnceLock<&'static function::Function> = PyOnceLock::new();
    static AS_TUPLE: function::Name = function::Name::new("nonzero_numpy");
    let is_flag = |name: *mut PyObject| crate::parse::text(name) == "as_tuple";
    let given = call.named.iter().find(|(n, _)| is_flag(*n));
    let function = match given.map_or(Ok(false), |(_, v)| flag(call.py, "nonzero", "as_tuple", *v))? {
        true => AS_TUPLE.get()?,
        false => PLAIN.get_or_init(call.py, || {
            let ops = flambeau::registry::overloads("aten", "nonzero");
            function::unlisted("nonzero", ops.into_iter().map(|op| Overload::new(call.py, op)).collect())
        }),
    };
    let named = call.named.iter().filter(|(n, _)| !is_flag(*n)).copied().collect();
    function.run(&Call { py: call.py, this: call.this, args: call.args, named })
}

fn contains(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let t = this(call)?;
    let stranger = |other: *mut PyObject| {
        // SAFETY: a live object.
        let class = unsafe { Bound::from_borrowed_ptr(call.py, other) }.get_type();
        PyRuntimeError::new_err(format!(
            "Tensor.__contains__ only supports Tensor or scalar, but you passed in a {class}."
        ))
    };
    let Some(other) = argument(call, 0, "element") else { return Err(stranger(call.py.None().as_ptr())) };
    let equal = match (tensor_of(other), crate::number::number(call.py, other)) {
        (Some(o), _) => t.eq(&o),
        (None, Some(s)) => t.eq(s),
        _ => return Err(stranger(other)),
    };
    let any = equal.and_then(|e| e.any()).and_then(|a| a.item()).map_err(raise)?;
    Ok(boolean(call.py, any.to_bool()))
}

macro_rules! queries {
    ($($name:ident => |$t:ident| $e:expr;)*) => {
        $(fn $name(call: &Call<'_>) -> PyResult<*mut PyObject> {
            no_arguments(call, stringify!($name))?;
            let $t = this(call)?;
            Ok(to_python(call.py, Scalar::from($e)))
        })*
        const QUERIES: &[(&str, Native)] = &[$((stringify!($name), $name)),*];
    };
}
queries! {
    dim => |t| t.dim() as i64;
    ndimension => |t| t.dim() as i64;
    numel => |t| t.numel();
    nelement => |t| t.numel();
    storage_offset => |t| t.storage_offset();
    is_floating_point => |t| t.dtype().is_floating_point();
    is_complex => |t| t.dtype().is_complex();
    is_signed => |t| t.dtype().is_signed();
    is_inference => |t| t.is_inference();
    is_pinned => |_t| false;
    is_conj => |_t| false;
    is_neg => |_t| false;
    is_shared => |_t| false;
    is_distributed => |_t| false;
    _is_view => |t| t.is_view();
    _is_zerotensor => |_t| false;
    get_device => |_t| -1i64;
    is_non_overlapping_and_dense => |t| t.is_non_overlapping_and_dense();
}

fn data_ptr(call: &Call<'_>) -> PyResult<*mut PyObject> {
    no_arguments(call, "data_ptr")?;
    let t = this(call)?;
    if !t.is_strided() {
        return Err(PyRuntimeError::new_err("Cannot access data pointer of Tensor that doesn't have storage"));
    }
    Ok(int(if t.numel() == 0 || t.device().is_meta() { 0 } else { t.data_ptr() as i64 }))
}

/// `x.select`-like fast access for a NumPy-style boolean test of identity: whether two handles are one tensor.
#[pyfunction]
pub fn _is_same(a: crate::object::Argument, b: crate::object::Argument) -> bool {
    a.0.is_same(&b.0)
}

/// Puts all of them into the table. They come before operators of the same names.
///
/// # Errors
/// When the table is full.
pub fn add_all() -> PyResult<()> {
    let special: &[(&str, Native)] = &[
        ("item", item),
        ("size", size),
        ("stride", stride),
        ("data_ptr", data_ptr),
        ("__len__", length),
        ("__bool__", to_bool),
        ("__float__", to_float),
        ("__int__", to_int),
        ("__complex__", to_complex),
        ("__index__", to_index),
        ("tolist", tolist),
        ("__iter__", iterate),
        ("__repr__", repr),
        ("is_set_to", is_set_to),
        ("is_contiguous", is_contiguous),
        ("requires_grad_", requires_grad_),
        ("element_size", element_size),
        ("to", to),
        ("cpu", cpu),
        ("__radd__", radd),
        ("__rmul__", rmul),
        ("__rsub__", rsub),
        ("__rand__", rand),
        ("__ror__", ror),
        ("__rxor__", rxor),
        ("__rpow__", rpow),
        ("__rmod__", rmod),
        ("__rmatmul__", rmatmul),
        ("__rlshift__", rlshift),
        ("__rrshift__", rrshift),
        ("__rtruediv__", rtruediv),
        ("__rfloordiv__", rfloordiv),
        ("as_subclass", as_subclass),
        ("__contains__", contains),
        ("nonzero", nonzero),
        ("__getitem__", crate::indexing::get_item),
        ("__setitem__", crate::indexing::set_item),
    ];
    for (name, f) in special.iter().chain(CASTS).chain(QUERIES) {
        function::add(name, Kind::Native(*f))?;
    }
    Ok(())
}
