//! The shared library that Python loads as `flambeau._C`.
//!
//! All of it stands in `flambeau-python`. A library that is only linked waits for all that it is linked from; apart from
//! it, the binding compiles while the operators still do.

use pyo3::prelude::*;

/// The compiled half of Flambeau's Python package.
#[pymodule]
#[pyo3(name = "_C")]
fn flambeau_c(m: &Bound<'_, PyModule>) -> PyResult<()> {
    flambeau_python::fill(m)
}
