//! Autocasting: operators on the lists of `flambeau.amp` get their arguments in another dtype.

use crate::parse::Converted;
use flambeau::op::Op;
use flambeau::{DType, OwnedValue, Result, Tensor};
use parking_lot::RwLock;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

/// What happens to an operator's arguments.
#[derive(Clone, Copy)]
enum Rule {
    /// They become the autocast dtype.
    Lower,
    /// They become f32.
    Float32,
    /// They become the widest dtype among them.
    Widest,
}

static RULES: RwLock<Option<HashMap<String, Rule>>> = RwLock::new(None);

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(false) };
    static DTYPE: Cell<DType> = const { Cell::new(DType::BF16) };
    static NESTING: Cell<i64> = const { Cell::new(0) };
    static CACHING: Cell<bool> = const { Cell::new(true) };
    /// Leaves that were cast in this context, so that a weight used twice is cast once.
    static CACHE: RefCell<HashMap<usize, (Tensor, Tensor)>> = RefCell::new(HashMap::new());
}

/// Whether calls on this thread are cast.
#[inline(always)]
pub fn is_active() -> bool {
    ENABLED.get()
}

/// Casts an operator's arguments as the lists say.
///
/// # Errors
/// When memory runs out.
#[cold]
pub fn cast(op: &'static Op, arguments: &mut [Converted]) -> Result<()> {
    let Some(rule) = RULES.read().as_ref().and_then(|r| r.get(op.name()).copied()) else { return Ok(()) };
    let target = match rule {
        Rule::Lower => DTYPE.get(),
        Rule::Float32 => DType::F32,
        Rule::Widest => widest(arguments),
    };
    let narrow = |d: DType| d.is_floating_point() && d != DType::F64;
    // Operators that compute in f32 leave what is wider alone; others meet halves and f32 only.
    let fit = |t: &mut Tensor| -> Result<()> {
        if narrow(t.dtype()) && t.dtype() != target && t.device().is_cpu() {
            *t = cached(t, target)?;
        }
        Ok(())
    };
    // Nothing that happens inside a cast is cast.
    ENABLED.set(false);
    let result = arguments.iter_mut().try_for_each(|a| match a {
        Converted::Tensor(t) => fit(t),
        Converted::Other(OwnedValue::Tensor(t)) => fit(t),
        Converted::Other(OwnedValue::Tensors(ts)) => ts.iter_mut().try_for_each(fit),
        _ => Ok(()),
    });
    ENABLED.set(true);
    result
}

fn widest(arguments: &[Converted]) -> DType {
    let mut tensors: Vec<&Tensor> = Vec::new();
    for a in arguments {
        match a {
            Converted::Tensor(t) => tensors.push(t),
            Converted::Other(OwnedValue::Tensors(ts)) => tensors.extend(ts),
            _ => {}
        }
    }
    let any_f32 = tensors.iter().any(|t| t.dtype() == DType::F32);
    if any_f32 { DType::F32 } else { DTYPE.get() }
}

fn cached(t: &Tensor, target: DType) -> Result<Tensor> {
    let worth = CACHING.get() && t.requires_grad() && t.is_leaf() && !t.is_view() && t.dtype() == DType::F32;
    if !worth || target != DTYPE.get() {
        return t.to_dtype(target);
    }
    if let Some((_, cast)) = CACHE.with_borrow(|c| c.get(&t.id()).cloned()) {
        return Ok(cast);
    }
    let cast = t.to_dtype(target)?;
    CACHE.with_borrow_mut(|c| c.insert(t.id(), (t.clone(), cast.clone())));
    Ok(cast)
}

#[pyfunction]
fn _set_autocast_lists(lower: HashSet<String>, float32: HashSet<String>, widest: HashSet<String>) {
    let mut rules = HashMap::new();
    rules.extend(lower.into_iter().map(|n| (n, Rule::Lower)));
    rules.extend(float32.into_iter().map(|n| (n, Rule::Float32)));
    rules.extend(widest.into_iter().map(|n| (n, Rule::Widest)));
    *RULES.write() = Some(rules);
}

#[pyfunction]
#[pyo3(signature = (_kind="cpu"))]
fn is_autocast_enabled(_kind: &str) -> bool {
    _kind == "cpu" && ENABLED.get()
}
#[pyfunction]
fn set_autocast_enabled(_kind: &str, on: bool) {
    if _kind == "cpu" {
        ENABLED.set(on);
    }
}
#[pyfunction]
fn get_autocast_dtype(py: Python<'_>, _kind: &str) -> Py<crate::types::DTypeObject> {
    crate::types::dtype(py, if _kind == "cpu" { DTYPE.get() } else { DType::F16 })
}
#[pyfunction]
fn set_autocast_dtype(_kind: &str, dtype: Bound<'_, crate::types::DTypeObject>) -> PyResult<()> {
    if _kind == "cpu" {
        DTYPE.set(dtype.get().known()?);
    }
    Ok(())
}
#[pyfunction]
fn autocast_increment_nesting() -> i64 {
    NESTING.set(NESTING.get() + 1);
    NESTING.get()
}
#[pyfunction]
fn autocast_decrement_nesting() -> i64 {
    NESTING.set(NESTING.get() - 1);
    NESTING.get()
}
#[pyfunction]
fn clear_autocast_cache() {
    drop(CACHE.take());
}
#[pyfunction]
fn is_autocast_cache_enabled() -> bool {
    CACHING.get()
}
#[pyfunction]
fn set_autocast_cache_enabled(on: bool) {
    CACHING.set(on);
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_set_autocast_lists, m)?)?;
    m.add_function(wrap_pyfunction!(is_autocast_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(set_autocast_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(get_autocast_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(set_autocast_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(autocast_increment_nesting, m)?)?;
    m.add_function(wrap_pyfunction!(autocast_decrement_nesting, m)?)?;
    m.add_function(wrap_pyfunction!(clear_autocast_cache, m)?)?;
    m.add_function(wrap_pyfunction!(is_autocast_cache_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(set_autocast_cache_enabled, m)?)?;
    Ok(())
}
