//! The Python module `flambeau._C`: tensors, operators and autograd for Python.
//!
//! Where things are: `object.rs` (the type `Tensor`), `parse.rs` and `convert.rs` (from Python arguments to an operator's), `explain.rs` (why not), `function.rs`
//! (every operator as function and method), `slots.rs` (Python's own operators), `overrides.rs` (`__torch_function__`), `dispatch_modes.rs` (`__torch_dispatch__`), `methods.rs`, `properties.rs`,
//! `indexing.rs`, `construct.rs` (what is written by hand), `interop.rs`, `numpy_api.rs` (shared memory), `types.rs` (dtype, device, ...),
//! `autograd.rs` (and what it names), `checksum.rs` (of saved files).

mod autocast;
mod autograd;
mod checksum;
mod construct;
mod convert;
mod custom;
mod dispatch_modes;
mod dlpack;
mod error;
mod explain;
mod function;
mod hooks;
mod indexing;
mod interop;
mod methods;
mod node;
mod number;
mod numpy_api;
mod object;
mod ops;
mod overrides;
mod parse;
mod profiler;
mod properties;
mod saved;
mod settings;
mod slots;
mod storage;
mod types;

use pyo3::ffi;
use pyo3::prelude::*;

/// Names that are methods only: as functions they would hide dtypes and Python's own functions.
fn is_function(f: &function::Function) -> bool {
    match &f.kind {
        function::Kind::Operator(_) => true,
        function::Kind::Native(_) => matches!(
            f.name.as_str(),
            "tensor"
                | "as_tensor"
                | "asarray"
                | "numel"
                | "is_floating_point"
                | "is_complex"
                | "is_signed"
                | "is_inference"
                | "is_conj"
                | "is_neg"
                | "nonzero"
                | "detach"
                | "detach_"
        ),
    }
}

/// Fills the module `flambeau._C`.
///
/// # Errors
/// When Python cannot make one of its objects.
pub fn fill(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let mut slots = slots::slots();
    slots.push((ffi::Py_tp_new, construct::new as *mut std::ffi::c_void));
    let tensor = object::create_type(py, &slots)?;
    methods::add_all()?;
    autograd::add_methods()?;
    function::add("numpy", function::Kind::Native(interop::numpy))?;
    function::add("untyped_storage", function::Kind::Native(storage::untyped_storage))?;
    function::add("set_", function::Kind::Native(storage::set_))?;
    function::add("__dlpack__", function::Kind::Native(dlpack::dlpack))?;
    function::add("__dlpack_device__", function::Kind::Native(dlpack::dlpack_device))?;
    function::add("tensor", function::Kind::Native(construct::tensor))?;
    function::add("as_tensor", function::Kind::Native(construct::as_tensor))?;
    function::add_operators(py)?;
    let name = "flambeau".into_pyobject(py)?.into_any();
    for f in function::all() {
        if is_function(f) {
            m.add(f.name.as_str(), f.make_function(py, &name)?)?;
        }
        let constructor = matches!(f.name.as_str(), "tensor" | "as_tensor");
        // Slots of the type answer for these names already.
        let slot = f.name.starts_with("__")
            && tensor.getattr_opt(f.name.as_str())?.is_some_and(|a| {
                a.get_type().name().is_ok_and(|n| n == "wrapper_descriptor")
                    && a.getattr("__objclass__").is_ok_and(|c| c.is(&tensor))
            });
        if f.has_method() && !constructor {
            let method = f.make_method(py)?;
            if !slot {
                tensor.setattr(f.name.as_str(), method)?;
            }
        }
    }
    properties::add_all(&tensor)?;
    m.add("Tensor", &tensor)?;
    types::register(m)?;
    m.add("_LinAlgError", py.get_type::<error::_LinAlgError>())?;
    overrides::register(m)?;
    dispatch_modes::register(m)?;
    ops::register(m)?;
    autocast::register(m)?;
    autograd::register(m)?;
    interop::register(m)?;
    profiler::register(m)?;
    settings::register(m)?;
    storage::register(m)?;
    dlpack::register(m)?;
    m.add_function(wrap_pyfunction!(function::_set_result_repr, m)?)?;
    m.add_function(wrap_pyfunction!(methods::_make_subclass, m)?)?;
    m.add_function(wrap_pyfunction!(methods::_is_same, m)?)?;
    m.add_function(wrap_pyfunction!(object::_swap_tensors, m)?)?;
    m.add_function(wrap_pyfunction!(construct::_legacy_tensor, m)?)?;
    Ok(())
}
