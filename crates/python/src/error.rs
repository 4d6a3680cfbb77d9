//! Errors across the border: Rust's to Python exceptions, and exceptions raised in hooks and custom functions through
//! Rust and out again unchanged.

use flambeau::{Error, ErrorKind};
use parking_lot::Mutex;
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

pyo3::create_exception!(
    flambeau._C,
    _LinAlgError,
    PyRuntimeError,
    "A decomposition or a solution that does not exist."
);

/// Exceptions under way through Rust code, by the number that their stand-ins carry.
static PASSING: Mutex<Vec<(u64, PyErr)>> = Mutex::new(Vec::new());
static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// What a stand-in's message begins with.
const STAND_IN: &str = "\u{1}python exception ";

/// The Python exception for an error.
#[cold]
pub fn raise(e: Error) -> PyErr {
    if let Some(at) = e.message().find(STAND_IN) {
        let number = e.message()[at + STAND_IN.len()..].split('\u{1}').next().and_then(|n| n.parse::<u64>().ok());
        let mut passing = PASSING.lock();
        if let Some(place) = passing.iter().position(|(n, _)| Some(*n) == number) {
            return passing.swap_remove(place).1;
        }
    }
    let text = e.message().to_string();
    match e.kind() {
        ErrorKind::Index => PyIndexError::new_err(text),
        ErrorKind::Type => PyTypeError::new_err(text),
        ErrorKind::Value => PyValueError::new_err(text),
        ErrorKind::NotImplemented => PyNotImplementedError::new_err(text),
        ErrorKind::Io => PyOSError::new_err(text),
        ErrorKind::LinAlg => _LinAlgError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// The error that carries a Python exception through Rust code.
#[cold]
pub fn carry(e: PyErr) -> Error {
    /// Errors that nobody raised again (a caller dropped them) do not pile up.
    const MOST: usize = 64;
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut passing = PASSING.lock();
    if passing.len() == MOST {
        passing.remove(0);
    }
    passing.push((number, e));
    Error::runtime(format!("{STAND_IN}{number}\u{1}"))
}

/// A `UserWarning` at the line of the program, once in its life.
///
/// # Errors
/// When the program has made warnings errors.
#[cold]
pub fn warn_once(py: Python<'_>, done: &AtomicBool, text: &CStr) -> PyResult<()> {
    match done.swap(true, Ordering::Relaxed) {
        true => Ok(()),
        false => PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyUserWarning>(), text, 1),
    }
}
