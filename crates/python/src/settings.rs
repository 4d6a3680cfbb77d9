//! Settings of the process, and questions about dtypes.

use crate::error::raise;
use crate::types::{DTypeObject, dtype, seed_of};
use flambeau::{DType, InstructionSet, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

#[pyfunction]
fn get_default_dtype(py: Python<'_>) -> Py<DTypeObject> {
    dtype(py, flambeau::default_dtype())
}

#[pyfunction]
fn _set_default_dtype(d: &Bound<'_, DTypeObject>) -> PyResult<()> {
    flambeau::set_default_dtype(d.get().known()?)
        .map_err(|_| PyTypeError::new_err("only floating-point types are supported as the default type"))
}

#[pyfunction]
fn _set_fill_uninitialized(fill: bool) {
    flambeau::set_fill_uninitialized(fill);
}

#[pyfunction]
fn promote_types(py: Python<'_>, type1: &Bound<'_, PyAny>, type2: &Bound<'_, PyAny>) -> PyResult<Py<DTypeObject>> {
    let named = |o, name, place| dtype_argument(o, "promote_types", name, place);
    Ok(dtype(py, named(type1, "type1", 1)?.promote(named(type2, "type2", 2)?)))
}

/// A dtype, or PyTorch's words for what is none.
fn dtype_argument(object: &Bound<'_, PyAny>, function: &str, name: &str, place: usize) -> PyResult<DType> {
    crate::convert::dtype_of(object)?.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{function}(): argument '{name}' (position {place}) must be torch.dtype, not {}",
            crate::number::type_name(object.as_ptr())
        ))
    })
}

#[pyfunction]
#[pyo3(signature = (from_, to))]
fn can_cast(from_: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(dtype_argument(from_, "can_cast", "from_", 1)?.can_cast(dtype_argument(to, "can_cast", "to", 2)?))
}

/// The dtype that arithmetic between two operands, tensors or numbers, gives.
#[pyfunction]
#[pyo3(signature = (*args, **named))]
fn result_type(
    py: Python<'_>,
    args: &Bound<'_, PyTuple>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<DTypeObject>> {
    const SIGNATURES: [[&str; 2]; 4] =
        [["tensor", "other"], ["scalar", "tensor"], ["tensor", "other"], ["scalar1", "scalar2"]];
    let operand = |o: &Bound<'_, PyAny>| match crate::object::tensor_of(o.as_ptr()) {
        Some(t) => Some(flambeau_operand(t)),
        None => crate::number::number(py, o.as_ptr()).map(flambeau::OwnedOperand::Scalar),
    };
    let find = |names: &[&str; 2]| -> Option<(flambeau::OwnedOperand, flambeau::OwnedOperand)> {
        if args.len() + named.map_or(0, |n| n.len()) != 2 {
            return None;
        }
        let at = |k: usize| match args.get_item(k) {
            Ok(o) => Some(o),
            Err(_) => named.and_then(|n| n.get_item(names[k]).ok().flatten()),
        };
        Some((operand(&at(0)?)?, operand(&at(1)?)?))
    };
    match SIGNATURES.iter().find_map(find) {
        Some((a, b)) => {
            use flambeau::IntoOperand;
            Ok(dtype(py, flambeau::promotion::result_type(&[(&a).operand(), (&b).operand()])))
        }
        None => Err(no_operands(py, args, named)),
    }
}

/// That `result_type` takes no such arguments.
#[cold]
fn no_operands(py: Python<'_>, args: &Bound<'_, PyTuple>, named: Option<&Bound<'_, PyDict>>) -> PyErr {
    let objects: Vec<Bound<'_, PyAny>> = args.iter().collect();
    let pointers: Vec<_> = objects.iter().map(Bound::as_ptr).collect();
    let pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = named.map_or(Vec::new(), |n| n.iter().collect());
    let call = crate::parse::Call {
        py,
        this: std::ptr::null_mut(),
        args: &pointers,
        named: pairs.iter().map(|(n, v)| (n.as_ptr(), v.as_ptr())).collect(),
    };
    PyTypeError::new_err(format!(
        "result_type() received an invalid combination of arguments - got ({}), but expected one of:\n * (Tensor tensor, Tensor \
         other)\n * (Number scalar, Tensor tensor)\n * (Tensor tensor, Number other)\n * (Number scalar1, Number scalar2)\n",
        crate::explain::describe(&call)
    ))
}

fn flambeau_operand(t: Tensor) -> flambeau::OwnedOperand {
    flambeau::OwnedOperand::Tensor(t)
}

#[pyfunction]
fn get_num_threads() -> usize {
    flambeau::parallel::num_threads()
}

#[pyfunction]
fn set_num_threads(int: &Bound<'_, PyAny>) -> PyResult<()> {
    let int = crate::number::index(int.py(), int.as_ptr()).ok_or_else(|| {
        let got = crate::number::type_name(int.as_ptr());
        PyRuntimeError::new_err(format!("set_num_threads expects an int, but got {got}"))
    })?;
    if int <= 0 {
        return Err(PyRuntimeError::new_err("set_num_threads expects a positive integer"));
    }
    flambeau::parallel::set_num_threads(int as usize);
    Ok(())
}

/// Seeds the default generator.
#[pyfunction]
fn _manual_seed(seed: &Bound<'_, PyAny>) -> PyResult<()> {
    flambeau::manual_seed(seed_of(seed)?);
    Ok(())
}

/// The limits of a dtype: bits, largest, smallest, and for floats eps, tiny and resolution.
#[pyfunction]
fn _limits(d: &Bound<'_, DTypeObject>) -> PyResult<(usize, f64, f64, f64, f64, f64)> {
    use flambeau::DType::{BF16, Complex64, Complex128, F16, F32, F64};
    let d = d.get().known()?;
    Ok(match d {
        F64 | Complex128 => (64, f64::MAX, f64::MIN, f64::EPSILON, f64::MIN_POSITIVE, 1e-15),
        F32 | Complex64 => {
            let x = |v: f32| f64::from(v);
            (32, x(f32::MAX), x(f32::MIN), x(f32::EPSILON), x(f32::MIN_POSITIVE), 1e-6)
        }
        F16 => (16, 65504.0, -65504.0, 2f64.powi(-10), 2f64.powi(-14), 1e-3),
        BF16 => {
            let most = f64::from(flambeau::bf16::MAX.to_f32());
            (16, most, -most, 2f64.powi(-7), 2f64.powi(-126), 1e-2)
        }
        d => (d.size() * 8, 0.0, 0.0, 0.0, 0.0, 0.0),
    })
}

/// A tensor as PyTorch prints it, with the given class name and what else is to be said after the elements.
#[pyfunction]
#[pyo3(signature = (tensor, prefix, suffixes, grad_fn, requires_grad, precision, threshold, edgeitems, linewidth, sci_mode))]
fn _format_tensor(
    tensor: crate::object::Argument,
    prefix: &str,
    suffixes: Vec<String>,
    grad_fn: Option<String>,
    requires_grad: bool,
    precision: usize,
    threshold: f64,
    edgeitems: usize,
    linewidth: usize,
    sci_mode: Option<bool>,
) -> PyResult<String> {
    use flambeau::display::{PrintOptions, TensorText, format_tensor};
    let t = tensor.0;
    let threshold = if threshold.is_finite() { threshold as usize } else { usize::MAX };
    let options = PrintOptions { precision, threshold, edgeitems, linewidth, sci_mode };
    let element = flambeau::shown_elements(&t, &options).map_err(raise)?;
    let device = (!t.device().is_cpu()).then(|| t.device().to_string());
    let mut text = TensorText::new(t.dtype(), t.sizes(), &element);
    text.prefix = prefix;
    text.default_dtype = flambeau::default_dtype();
    text.device = device.as_deref();
    text.grad_fn = grad_fn.as_deref();
    text.requires_grad = requires_grad;
    text.suffixes = &suffixes;
    if t.device().is_meta() {
        text.element = None;
    }
    Ok(format_tensor(&text, &options))
}

/// The instruction set that kernels run with, in PyTorch's words.
#[pyfunction]
fn _cpu_capability() -> &'static str {
    match flambeau::instruction_set() {
        InstructionSet::Avx512 => "AVX512",
        InstructionSet::Avx2 => "AVX2",
        InstructionSet::Baseline => "DEFAULT",
    }
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(get_default_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(_set_default_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(_set_fill_uninitialized, m)?)?;
    m.add_function(wrap_pyfunction!(promote_types, m)?)?;
    m.add_function(wrap_pyfunction!(can_cast, m)?)?;
    m.add_function(wrap_pyfunction!(result_type, m)?)?;
    m.add_function(wrap_pyfunction!(get_num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(set_num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(_manual_seed, m)?)?;
    m.add_function(wrap_pyfunction!(_limits, m)?)?;
    m.add_function(wrap_pyfunction!(_format_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(_cpu_capability, m)?)?;
    Ok(())
}
