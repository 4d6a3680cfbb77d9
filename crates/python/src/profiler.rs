//! What `flambeau.profiler` records.

use flambeau::profiler;
use pyo3::prelude::*;

/// Records the operators of this thread.
#[pyfunction]
fn _profiler_start(record_shapes: bool, _memory: bool) {
    profiler::start(record_shapes);
}

/// Name, start and end in ns, thread, the arguments' shapes, whether the user named it.
type Record = (String, u64, u64, u64, Vec<Vec<i64>>, bool);

/// Ends the recording and gives what it holds.
#[pyfunction]
fn _profiler_stop() -> Vec<Record> {
    let record = |e: profiler::Event| {
        let shapes = e.shapes.iter().map(|s| s.to_vec()).collect();
        (e.name, e.start, e.end, e.thread, shapes, e.range)
    };
    profiler::stop().into_iter().map(record).collect()
}

/// Begins a range with a name.
#[pyfunction]
fn _profiler_range_push(name: &str) -> Option<usize> {
    profiler::begin_range(name)
}

/// Ends a range.
#[pyfunction]
fn _profiler_range_pop(token: Option<usize>) {
    profiler::end_range(token);
}

/// Adds everything here to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_profiler_start, m)?)?;
    m.add_function(wrap_pyfunction!(_profiler_stop, m)?)?;
    m.add_function(wrap_pyfunction!(_profiler_range_push, m)?)?;
    m.add_function(wrap_pyfunction!(_profiler_range_pop, m)?)?;
    Ok(())
}
