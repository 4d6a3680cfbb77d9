//! Tensors from Python data: `tensor`, `as_tensor`, `Tensor(...)`.

use crate::convert::{device_of, dtype_of, int_in_list, numbered_device_of};
use crate::error::raise;
use crate::number::{number, type_name};
use crate::object::{bound, tensor_of, wrap};
use crate::parse::{Call, Items};
use flambeau::{DType, Device, Scalar, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use smallvec::SmallVec;

/// Numbers gathered from nested sequences, with their sizes.
struct Gathered {
    sizes: Vec<i64>,
    values: Vec<Scalar>,
    /// The dtype of those among them that say their own: tensors, arrays, NumPy's numbers.
    dtype: Option<DType>,
    /// That of the plain numbers, found out once there are others too.
    plain: Option<DType>,
    /// The type of the last number that was not one of Python's own, and the dtype that it stands for.
    last: Option<(*mut PyTypeObject, Option<DType>)>,
}

impl Gathered {
    /// Notes a value that says its own dtype, before it is added.
    fn meet(&mut self, dtype: DType) {
        if self.dtype.is_none() && !self.values.is_empty() {
            self.plain = Some(infer(&self.values));
        }
        self.dtype = Some(self.dtype.map_or(dtype, |d| d.promote(dtype)));
    }

    /// The dtype of a number, if it is one of NumPy's.
    fn numpy_dtype(&mut self, py: Python<'_>, object: *mut PyObject) -> Option<DType> {
        // SAFETY: a live object, and the types of Python's own numbers.
        let (kind, plain) = unsafe {
            let kind = ffi::Py_TYPE(object);
            let own = [&raw mut ffi::PyFloat_Type, &raw mut ffi::PyLong_Type, &raw mut ffi::PyBool_Type];
            (kind, own.contains(&kind) || kind == &raw mut ffi::PyComplex_Type)
        };
        if plain {
            return None;
        }
        match self.last {
            Some((last, dtype)) if last == kind => dtype,
            _ => {
                // SAFETY: a live object.
                let dtype = unsafe { numpy_scalar_dtype(&Bound::from_borrowed_ptr(py, object)) };
                self.last = Some((kind, dtype));
                dtype
            }
        }
    }
}

/// Sequences nested deeper than this are an error, or the stack would run out.
const DEEPEST: usize = 128;

/// Walks nested sequences: the first item at each depth fixes the size there.
fn gather(py: Python<'_>, object: *mut PyObject, depth: usize, out: &mut Gathered) -> PyResult<()> {
    if depth > DEEPEST {
        return Err(PyValueError::new_err("too many dimensions 'list'"));
    }
    if let Some(s) = number(py, object) {
        return match depth == out.sizes.len() || (out.values.is_empty() && out.sizes.len() <= depth) {
            true => {
                if let Some(d) = out.numpy_dtype(py, object) {
                    out.meet(d);
                } else if out.dtype.is_some() {
                    let d = DType::of_scalar(&s, flambeau::default_dtype());
                    out.plain = Some(out.plain.map_or(d, |p| p.promote(d)));
                }
                out.values.push(s);
                Ok(())
            }
            false => Err(ragged()),
        };
    }
    if let Some(t) = tensor_of(object) {
        // Inside of sequences a tensor is a number.
        if t.numel() != 1 {
            return Err(PyValueError::new_err("only one element tensors can be converted to Python scalars"));
        }
        let at_end = depth == out.sizes.len() || (out.values.is_empty() && out.sizes.len() <= depth);
        if !at_end {
            return Err(ragged());
        }
        out.meet(t.dtype());
        out.values.push(t.item().map_err(raise)?);
        return Ok(());
    }
    // SAFETY: a live object.
    let sequence = unsafe { Bound::from_borrowed_ptr(py, object) };
    let items: Vec<Bound<'_, PyAny>> = match Items::of(object) {
        // SAFETY: items of a live list.
        Some(items) => items.iter().map(|i| unsafe { Bound::from_borrowed_ptr(py, *i) }).collect(),
        None if is_array(&sequence) => return gather_tensor(&crate::interop::from_array(&sequence)?, depth, out),
        None if is_sequence(&sequence) => {
            let n = sequence.len()?;
            (0..n).map(|i| sequence.get_item(i)).collect::<PyResult<_>>()?
        }
        None => return Err(bad_item(object, depth, out)),
    };
    let n = items.len() as i64;
    match out.sizes.get(depth) {
        None if out.values.is_empty() && out.sizes.len() == depth => out.sizes.push(n),
        Some(size) if *size == n => {}
        Some(size) => {
            return Err(PyValueError::new_err(format!("expected sequence of length {size} at dim {depth} (got {n})")));
        }
        None => {
            let name = type_name(object);
            return Err(PyTypeError::new_err(format!("'{name}' object cannot be interpreted as an integer")));
        }
    }
    for item in items {
        gather(py, item.as_ptr(), depth + 1, out)?;
    }
    Ok(())
}

#[cold]
fn ragged() -> PyErr {
    PyTypeError::new_err("not a sequence")
}

#[cold]
fn bad_item(object: *mut PyObject, depth: usize, out: &Gathered) -> PyErr {
    let name = type_name(object);
    match name.as_str() {
        "int" => crate::convert::overflow(),
        // The first item says how deep it goes, and a string has items without end.
        "str" if depth > 0 && out.values.is_empty() => PyValueError::new_err("too many dimensions 'str'"),
        "str" | "bytes" => PyTypeError::new_err(format!("new(): invalid data type '{name}'")),
        _ => PyRuntimeError::new_err(format!("Could not infer dtype of {name}")),
    }
}

fn gather_tensor(t: &Tensor, depth: usize, out: &mut Gathered) -> PyResult<()> {
    for (i, &n) in t.sizes().iter().enumerate() {
        match out.sizes.get(depth + i) {
            None if out.values.is_empty() => out.sizes.push(n),
            Some(size) if *size == n => {}
            Some(size) => {
                return Err(PyValueError::new_err(format!(
                    "expected sequence of length {size} at dim {} (got {n})",
                    depth + i
                )));
            }
            None => return Err(PyValueError::new_err("only one element tensors can be converted to Python scalars")),
        }
    }
    out.meet(t.dtype());
    let values: Vec<Scalar> = flambeau::dispatch_dtype!(t.dtype(), T => {
        t.to_vec::<T>().map(|v| v.into_iter().map(flambeau::Element::to_scalar).collect())
    })
    .map_err(raise)?;
    out.values.extend(values);
    Ok(())
}

/// Whether it is a NumPy array, or something else that shows its memory in that way.
fn is_array(object: &Bound<'_, PyAny>) -> bool {
    object.hasattr(pyo3::intern!(object.py(), "__array_interface__")).unwrap_or(false)
}

fn is_sequence(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    !object.is_instance_of::<pyo3::types::PyString>()
        && !object.is_instance_of::<pyo3::types::PyBytes>()
        && !object.is_instance_of::<pyo3::types::PyDict>()
        && object.hasattr(pyo3::intern!(py, "__len__")).unwrap_or(false)
        && object.hasattr(pyo3::intern!(py, "__getitem__")).unwrap_or(false)
}

/// The dtype that numbers ask for: the widest kind among them.
fn infer(values: &[Scalar]) -> DType {
    let default = flambeau::default_dtype();
    let mut found: Option<DType> = None;
    for s in values {
        let d = DType::of_scalar(s, default);
        if found != Some(d) {
            found = Some(found.map_or(d, |f| f.promote(d)));
        }
    }
    found.unwrap_or(default)
}

/// A tensor of Python data: a number, nested sequences, an array, or a tensor (copied).
///
/// # Errors
/// When it is ragged or not made of numbers.
pub fn from_data(py: Python<'_>, object: *mut PyObject, dtype: Option<DType>) -> PyResult<Tensor> {
    if let Some(t) = tensor_of(object) {
        let t = t.detach().map_err(raise)?;
        return match dtype {
            Some(d) if d != t.dtype() => t.to_dtype(d),
            _ => t.clone_in(flambeau::MemoryFormat::Preserve),
        }
        .map_err(raise);
    }
    // SAFETY: a live object.
    let bound = unsafe { Bound::from_borrowed_ptr(py, object) };
    let array = crate::numpy_api::is_array(&bound);
    if array || (number(py, object).is_none() && Items::of(object).is_none() && is_array(&bound)) {
        let t = crate::interop::from_array(&bound)?;
        return match dtype {
            Some(d) if d != t.dtype() => t.to_dtype(d),
            _ => t.clone_in(flambeau::MemoryFormat::Contiguous),
        }
        .map_err(raise);
    }
    let mut gathered = Gathered { sizes: Vec::new(), values: Vec::new(), dtype: None, plain: None, last: None };
    gather(py, object, 0, &mut gathered)?;
    let dtype = dtype.unwrap_or_else(|| {
        // Numbers of Python that only an unsigned dtype holds have to be asked for.
        let inferred = || match infer(&gathered.values) {
            DType::U64 => DType::I64,
            d => d,
        };
        gathered.dtype.map(|d| gathered.plain.map_or(d, |p| d.promote(p))).unwrap_or_else(inferred)
    });
    let expected: i64 = gathered.sizes.iter().product();
    if gathered.values.len() as i64 != expected {
        return Err(PyValueError::new_err("the sequences do not have one shape"));
    }
    check_range(&gathered.values, dtype)?;
    if !dtype.is_complex() && dtype != DType::Bool && gathered.values.iter().any(|s| s.is_complex()) {
        return Err(PyTypeError::new_err("must be real number, not complex"));
    }
    let t = flambeau::dispatch_dtype!(dtype, T => {
        let values: Vec<T> = gathered.values.iter().map(|s| <T as flambeau::Element>::from_scalar(*s)).collect();
        Tensor::from_slice_of(&values, &gathered.sizes)
    });
    t.map_err(raise)
}

/// The dtype that an object says, as NumPy's numbers do.
fn numpy_scalar_dtype(object: &Bound<'_, PyAny>) -> Option<DType> {
    let name = object.getattr_opt("dtype").ok().flatten()?.getattr_opt("name").ok().flatten()?;
    DType::by_name(&name.extract::<String>().ok()?)
}

/// Integers that the dtype cannot hold are errors here, not wrapped.
fn check_range(values: &[Scalar], dtype: DType) -> PyResult<()> {
    if !dtype.is_integral(false) {
        return Ok(());
    }
    for s in values {
        let fits = match s {
            Scalar::Int(i) if *i < 0 && dtype == DType::U64 => {
                return Err(pyo3::exceptions::PyOverflowError::new_err("can't convert negative int to unsigned"));
            }
            Scalar::UInt(_) if dtype != DType::U64 => return Err(crate::convert::overflow()),
            Scalar::Int(i) => in_range(i128::from(*i), dtype),
            Scalar::Float(f) => f.is_finite() && in_range(*f as i128, dtype),
            _ => true,
        };
        if !fits {
            let name = dtype.name();
            return Err(PyRuntimeError::new_err(format!("value cannot be converted to type {name} without overflow")));
        }
    }
    Ok(())
}

fn in_range(i: i128, dtype: DType) -> bool {
    let bits = dtype.size() as u32 * 8;
    match dtype.is_signed() {
        true => (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(&i),
        // Negative numbers that fit wrap, as in C.
        false => (-(1i128 << (bits - 1))..1i128 << bits).contains(&i),
    }
}

/// What `tensor` and `as_tensor` take beside the data.
struct Options {
    dtype: Option<DType>,
    device: Option<Device>,
    /// The device was named with a number that tensors there do not have: not where any tensor is.
    elsewhere: bool,
    requires_grad: bool,
}

fn options(call: &Call<'_>, name: &str, first: usize) -> PyResult<(Option<*mut PyObject>, Options)> {
    let py = call.py;
    let given = call.args.len();
    if given > first + 1 {
        return Err(PyTypeError::new_err(format!(
            "{name}() takes {} positional argument but {given} were given",
            first + 1
        )));
    }
    let mut data = call.args.get(first).copied();
    let mut options = Options { dtype: None, device: None, elsewhere: false, requires_grad: false };
    for (key, value) in call.named.iter().map(|(n, v)| (crate::parse::text(*n), *v)) {
        // SAFETY: a live object.
        let object = unsafe { Bound::from_borrowed_ptr(py, value) };
        if object.is_none() && key != "data" {
            continue;
        }
        match key.as_str() {
            "data" | "obj" => data = Some(value),
            "dtype" => {
                options.dtype = Some(dtype_of(&object)?.ok_or_else(|| {
                    PyTypeError::new_err(format!(
                        "{name}(): argument 'dtype' must be torch.dtype, not {}",
                        type_name(value)
                    ))
                })?)
            }
            "device" => {
                let device = device_of(&object)?;
                options.device = Some(device);
                options.elsewhere = numbered_device_of(&object)? != device;
            }
            "requires_grad" => {
                options.requires_grad = match number(py, value) {
                    Some(Scalar::Bool(b)) => b,
                    _ => {
                        return Err(PyTypeError::new_err(format!(
                            "{name}(): argument 'requires_grad' must be bool, not {}",
                            type_name(value)
                        )));
                    }
                }
            }
            "pin_memory" | "names" | "copy" => {}
            other => {
                return Err(PyTypeError::new_err(format!("{name}() got an unexpected keyword argument '{other}'")));
            }
        }
    }
    Ok((data, options))
}

fn finish(py: Python<'_>, t: Tensor, options: &Options) -> PyResult<*mut PyObject> {
    let t = match options.device {
        Some(d) if d.kind != t.device().kind => t.to_options(None, Some(d)).map_err(raise)?,
        _ => t,
    };
    if options.requires_grad {
        t.set_requires_grad(true).map_err(|e| match e.message().starts_with("only Tensors") {
            true => PyRuntimeError::new_err("Only Tensors of floating point and complex dtype can require gradients"),
            false => raise(e),
        })?;
    }
    wrap(py, t)
}

/// `tensor(data, *, dtype=None, device=None, requires_grad=False)`: a copy of the data.
pub fn tensor(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let (data, options) = options(call, "tensor", 0)?;
    let Some(data) = data else {
        return Err(PyTypeError::new_err("tensor() missing 1 required positional arguments: \"data\""));
    };
    if tensor_of(data).is_some() {
        warn(
            call.py,
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or \
                       sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
        )?;
    }
    let t = from_data(call.py, data, options.dtype)?;
    finish(call.py, t, &options)
}

fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    py.import("warnings")?.call_method1("warn", (text,))?;
    Ok(())
}

/// `as_tensor(data, dtype=None, device=None)`: shares memory with tensors and arrays where it can.
pub fn as_tensor(call: &Call<'_>) -> PyResult<*mut PyObject> {
    let (data, options) = options(call, "as_tensor", 0)?;
    let Some(data) = data else {
        return Err(PyTypeError::new_err("as_tensor() missing 1 required positional arguments: \"data\""));
    };
    // SAFETY: a live object.
    let object = unsafe { Bound::from_borrowed_ptr(call.py, data) };
    let t = match tensor_of(data) {
        Some(t) if options.elsewhere => t.clone_in(flambeau::MemoryFormat::Preserve).map_err(raise)?,
        Some(t) => t,
        None if crate::numpy_api::is_array(&object) || (number(call.py, data).is_none() && is_array(&object)) => {
            crate::interop::warn_of_writing(&object)?;
            crate::interop::from_array(&object)?
        }
        None => from_data(call.py, data, options.dtype)?,
    };
    let t = match options.dtype {
        Some(d) if d != t.dtype() => t.to_dtype(d).map_err(raise)?,
        _ => t,
    };
    finish(call.py, t, &options)
}

/// The old constructor `Tensor(...)`: sizes, data, or a tensor, always of the default dtype.
///
/// # Errors
/// When the arguments are none of these.
pub fn legacy(py: Python<'_>, args: &[*mut PyObject], dtype: DType) -> PyResult<Tensor> {
    match args {
        [] => Tensor::empty(&[0], dtype).map_err(raise),
        [one] => {
            if let Some(t) = tensor_of(*one) {
                if t.dtype() != dtype {
                    return Err(PyTypeError::new_err(format!(
                        "expected {} (got {})",
                        legacy_name(dtype),
                        legacy_name(t.dtype())
                    )));
                }
                return t.alias().map_err(raise);
            }
            // SAFETY: a live object.
            let object = unsafe { Bound::from_borrowed_ptr(py, *one) };
            let is_size = object.get_type().name().is_ok_and(|n| n == "Size");
            match (Items::of(*one), number(py, *one)) {
                (Some(_), _) if is_size => Tensor::empty(&object.extract::<Vec<i64>>()?, dtype).map_err(raise),
                (None, Some(Scalar::Int(n))) => Tensor::empty(&[n], dtype).map_err(raise),
                (None, Some(_)) => Err(PyTypeError::new_err("new(): data must be a sequence (got float)")),
                _ => from_data(py, *one, Some(dtype)),
            }
        }
        many => {
            let sizes = many.iter().enumerate().map(|(place, o)| int_in_list(py, place, *o));
            let sizes = sizes.collect::<Option<Vec<i64>>>();
            let sizes = sizes.ok_or_else(|| {
                PyTypeError::new_err(format!(
                    "new() received an invalid combination of arguments - got ({})",
                    many.iter().map(|o| type_name(*o)).collect::<Vec<_>>().join(", ")
                ))
            })?;
            Tensor::empty(&sizes, dtype).map_err(raise)
        }
    }
}

/// That the old constructor takes no such arguments.
#[cold]
fn no_legacy(call: &Call<'_>) -> PyErr {
    let wrong: Vec<String> = call.named.iter().map(|(n, _)| crate::parse::text(*n)).filter(|n| n != "device").collect();
    let why = match wrong.is_empty() {
        true => String::new(),
        false => format!("      didn't match because some of the keywords were incorrect: {}\n", wrong.join(", ")),
    };
    PyTypeError::new_err(format!(
        "new() received an invalid combination of arguments - got ({}), but expected one of:\n * (*, torch.device device = \
         None)\n{why} * (torch.Storage storage)\n * (Tensor other)\n * (tuple of ints size, *, torch.device device = None)\n * \
         (object data, *, torch.device device = None)\n",
        crate::explain::describe(call)
    ))
}

/// The old constructor takes a device beside its arguments, which has to be the host.
fn check_legacy_names(py: Python<'_>, args: &[*mut PyObject], named: &Bound<'_, PyDict>) -> PyResult<()> {
    let pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = named.iter().collect();
    let pairs: SmallVec<_> = pairs.iter().map(|(n, v)| (n.as_ptr(), v.as_ptr())).collect();
    let call = Call { py, this: std::ptr::null_mut(), args, named: pairs };
    for (name, value) in named {
        if name.extract::<String>()? != "device" {
            return Err(no_legacy(&call));
        }
        let device = if value.is_none() { Device::CPU } else { device_of(&value)? };
        if !device.is_cpu() {
            return Err(PyRuntimeError::new_err(format!(
                "legacy constructor expects device type: cpu but device type: {} was passed",
                device.kind.name()
            )));
        }
    }
    Ok(())
}

/// Another handle of a tensor's data.
fn as_it_is(object: *mut PyObject) -> PyResult<Tensor> {
    let t = tensor_of(object).ok_or_else(|| PyTypeError::new_err("new(): data must be a tensor"))?;
    t.detach().map_err(raise)
}

fn legacy_name(d: DType) -> String {
    format!("torch.{}Tensor", d.scalar_type_name())
}

/// `Tensor._from_legacy(args, dtype)`: for the typed classes (`FloatTensor`, ...), which are written in Python.
#[pyfunction]
pub fn _legacy_tensor<'py>(
    args: &Bound<'py, pyo3::types::PyTuple>,
    dtype: &Bound<'py, crate::types::DTypeObject>,
) -> PyResult<Bound<'py, PyAny>> {
    let objects: Vec<Bound<'_, PyAny>> = args.iter().collect();
    let pointers: Vec<*mut PyObject> = objects.iter().map(|o| o.as_ptr()).collect();
    bound(args.py(), legacy(args.py(), &pointers, dtype.get().known()?)?)
}

/// `Tensor.__new__`.
///
/// # Safety
/// Called by the interpreter.
pub unsafe extern "C" fn new(
    class: *mut pyo3::ffi::PyTypeObject,
    args: *mut PyObject,
    kwargs: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: a live tuple of arguments, and a dictionary or null.
    unsafe {
        crate::function::guarded(|py| {
            let items: Vec<*mut PyObject> = Items::of(args).map(|i| i.iter().copied().collect()).unwrap_or_default();
            if let Some(named) = Bound::from_borrowed_ptr_or_opt(py, kwargs) {
                check_legacy_names(py, &items, named.cast::<PyDict>()?)?;
            }
            let t = match &items[..] {
                // Of any dtype here, unlike in the typed classes.
                [one] if crate::object::is_tensor(*one) => as_it_is(*one)?,
                items => legacy(py, items, flambeau::default_dtype())?,
            };
            crate::object::new_object(py, t, class)
        })
    }
}
