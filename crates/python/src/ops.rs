//! `flambeau.ops.<namespace>.<name>.<overload>`: operators by their registered names, also those that other crates or
//! Python register at run time.

use crate::function::{Function, Kind, find, unlisted};
use crate::parse::{Call, Overload};
use parking_lot::Mutex;
use pyo3::exceptions::PyAttributeError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Runs a function with arguments in a tuple and a dictionary.
fn run<'py>(
    function: &'static Function,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = args.py();
    let items: Vec<Bound<'py, PyAny>> = args.iter().collect();
    let pointers: SmallVec<[*mut PyObject; 8]> = items.iter().map(|i| i.as_ptr()).collect();
    let named: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)> = kwargs.map(|k| k.iter().collect()).unwrap_or_default();
    let named = named.iter().map(|(n, v)| (n.as_ptr(), v.as_ptr())).collect();
    let result = function.run(&Call { py, this: std::ptr::null_mut(), args: &pointers, named })?;
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, result) })
}

/// One overload of an operator.
#[pyclass(frozen, name = "OpOverload", module = "flambeau._ops", weakref)]
pub struct OverloadObject {
    function: &'static Function,
    name: String,
    overload: String,
    schema: String,
}

#[pymethods]
impl OverloadObject {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        run(self.function, args, kwargs)
    }
    #[getter]
    fn __name__(&self) -> String {
        format!("{}.{}", self.name.rsplit("::").next().unwrap_or(""), self.overload)
    }
    #[getter]
    fn _overloadname(&self) -> &str {
        &self.overload
    }
    #[getter]
    fn _schema(&self) -> &str {
        &self.schema
    }
    #[getter]
    fn namespace(&self) -> &str {
        self.name.split("::").next().unwrap_or("")
    }
    #[getter]
    fn __doc__(&self) -> String {
        self.function.doc()
    }
    fn name(&self) -> String {
        match self.overload.as_str() {
            "default" => self.name.clone(),
            o => format!("{}.{o}", self.name),
        }
    }
    fn __repr__(&self) -> String {
        format!("<OpOverload(op='{}', overload='{}')>", self.name.replace("::", "."), self.overload)
    }
}

/// All overloads of an operator name.
#[pyclass(frozen, name = "OpOverloadPacket", module = "flambeau._ops", weakref)]
pub struct PacketObject {
    function: &'static Function,
    name: String,
    overloads: Mutex<HashMap<String, Py<OverloadObject>>>,
}

impl PacketObject {
    fn operators(&self) -> &'static [Overload] {
        match &self.function.kind {
            Kind::Operator(o) => o,
            Kind::Native(_) => &[],
        }
    }
}

fn overload_name(o: &Overload) -> &str {
    match o.op.full_name().split_once('.') {
        Some((_, overload)) => overload,
        None => "default",
    }
}

#[pymethods]
impl PacketObject {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        run(self.function, args, kwargs)
    }
    fn __getattr__(&self, py: Python<'_>, overload: &str) -> PyResult<Py<OverloadObject>> {
        if let Some(known) = self.overloads.lock().get(overload) {
            return Ok(known.clone_ref(py));
        }
        let found = self.operators().iter().find(|o| overload_name(o) == overload).ok_or_else(|| {
            PyAttributeError::new_err(format!(
                "The underlying op of '{}' has no overload name '{overload}'",
                self.name.replace("::", ".")
            ))
        })?;
        let object = Py::new(
            py,
            OverloadObject {
                function: unlisted(found.op.name(), vec![Overload::new(py, found.op)]),
                name: self.name.clone(),
                overload: overload.to_string(),
                schema: found.op.schema_text.to_string(),
            },
        )?;
        self.overloads.lock().insert(overload.to_string(), object.clone_ref(py));
        Ok(object)
    }
    fn overloads(&self) -> Vec<&str> {
        self.operators().iter().map(overload_name).collect()
    }
    #[getter]
    fn _qualified_op_name(&self) -> &str {
        &self.name
    }
    #[getter]
    fn __name__(&self) -> &str {
        self.name.rsplit("::").next().unwrap_or("")
    }
    #[getter]
    fn __doc__(&self) -> String {
        self.function.doc()
    }
    fn __repr__(&self) -> String {
        format!("<OpOverloadPacket(op='{}')>", self.name.replace("::", "."))
    }
}

/// The operator `namespace::name` with all its overloads; `None` if there is none.
#[pyfunction]
fn _operator_packet(py: Python<'_>, namespace: &str, name: &str) -> PyResult<Option<PacketObject>> {
    let own = if namespace == "aten" { find(name) } else { None };
    // Natives of the same name hide operators in the table.
    let own = own.filter(|f| matches!(f.kind, Kind::Operator(_)));
    let function = match own {
        Some(f) => f,
        None => {
            let ops = flambeau::registry::overloads(namespace, name);
            if ops.is_empty() {
                return Ok(None);
            }
            unlisted(name, ops.into_iter().map(|op| Overload::new(py, op)).collect())
        }
    };
    Ok(Some(PacketObject { function, name: format!("{namespace}::{name}"), overloads: Mutex::default() }))
}

/// The full names of all operators.
#[pyfunction]
fn _operator_names() -> Vec<String> {
    flambeau::registry::all().into_iter().map(|o| format!("{}::{}", o.schema().namespace, o.full_name())).collect()
}

/// The schemas of all functions of the module, by name: what stubs are made from.
#[pyfunction]
fn _function_schemas() -> HashMap<String, Vec<String>> {
    let mut all = HashMap::new();
    for f in crate::function::all() {
        if let Kind::Operator(overloads) = &f.kind {
            all.insert(f.name.clone(), overloads.iter().map(|o| o.op.schema_text.to_string()).collect());
        }
    }
    all
}

/// The type of a function's results, if they have names.
#[pyfunction]
fn _result_type<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Some(f) = find(name) {
        return f.result_type(py, false);
    }
    name.strip_suffix("_out").and_then(find).map_or(Ok(None), |f| f.result_type(py, true))
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<OverloadObject>()?;
    m.add_class::<PacketObject>()?;
    m.add_function(wrap_pyfunction!(_operator_packet, m)?)?;
    m.add_function(wrap_pyfunction!(_operator_names, m)?)?;
    m.add_function(wrap_pyfunction!(_function_schemas, m)?)?;
    m.add_function(wrap_pyfunction!(_result_type, m)?)?;
    Ok(())
}
