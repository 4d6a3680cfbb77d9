//! Recording which operators run, when and for how long.
//!
//! While a recording is on, every operator call of its thread passes through [`Key::TRACE`], whose kernel writes down
//! the call's beginning and end; calls that a call makes lie within it. When none is on, calls cost nothing more.

use crate::keys::{Key, KeySet, set_included};
use crate::op::Op;
use crate::value::{Outputs, Value};
use crate::{Dims, Result};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// One operator call, or a range that the user named.
#[derive(Clone, Debug)]
pub struct Event {
    /// `aten::add`, or the user's name.
    pub name: String,
    /// Nanoseconds from the recording's start to this event's.
    pub start: u64,
    /// Nanoseconds from the recording's start to this event's end.
    pub end: u64,
    /// The thread, numbered from 1 in the order in which threads record.
    pub thread: u64,
    /// The sizes of each argument: none for what is no tensor. Empty unless asked for.
    pub shapes: Vec<Dims>,
    /// Whether the user named it.
    pub range: bool,
}

struct Recording {
    origin: Instant,
    shapes: bool,
    events: Vec<Event>,
}

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
    static THREAD: u64 = {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) + 1
    };
}

/// Records the calls of this thread from now on; what an unfinished recording holds is dropped.
pub fn start(shapes: bool) {
    RECORDING.set(Some(Recording { origin: Instant::now(), shapes, events: Vec::new() }));
    set_included(KeySet::of(Key::TRACE), true);
}

/// Ends this thread's recording and gives its events, in the order in which they began; none if there is none.
pub fn stop() -> Vec<Event> {
    set_included(KeySet::of(Key::TRACE), false);
    RECORDING.take().map_or_else(Vec::new, |r| r.events)
}

/// Begins a range with a name; [`end_range`] takes the number that this gives. Nothing when nothing is recorded.
pub fn begin_range(name: &str) -> Option<usize> {
    begin(|_| (name.to_string(), Vec::new()), true)
}

/// Ends a range.
pub fn end_range(range: Option<usize>) {
    RECORDING.with_borrow_mut(|recording| {
        let (Some(recording), Some(at)) = (recording, range) else { return };
        let now = recording.origin.elapsed().as_nanos() as u64;
        if let Some(event) = recording.events.get_mut(at) {
            event.end = now;
        }
    });
}

fn begin(describe: impl FnOnce(bool) -> (String, Vec<Dims>), range: bool) -> Option<usize> {
    RECORDING.with_borrow_mut(|recording| {
        let recording = recording.as_mut()?;
        let (name, shapes) = describe(recording.shapes);
        let thread = THREAD.with(|t| *t);
        // The clock is read last, so that the bookkeeping is not the operator's.
        let start = recording.origin.elapsed().as_nanos() as u64;
        recording.events.push(Event { name, start, end: start, thread, shapes, range });
        Some(recording.events.len() - 1)
    })
}

/// Runs a call below [`Key::TRACE`] and records it; nothing if this thread records nothing.
pub(crate) fn record(op: &'static Op, below: KeySet, args: &[Value<'_>]) -> Option<Result<Outputs>> {
    let sizes = |a: &Value<'_>| match a {
        Value::Tensor(t) => Dims::from_slice(t.sizes()),
        _ => Dims::new(),
    };
    let describe = |shapes: bool| {
        let schema = op.schema();
        let name = format!("{}::{}", schema.namespace, schema.name);
        (name, if shapes { args.iter().map(sizes).collect() } else { Vec::new() })
    };
    let event = begin(describe, false)?;
    let result = op.run_next(below, args);
    end_range(Some(event));
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;

    #[test]
    fn calls_lie_within_ranges() -> Result<()> {
        let x = Tensor::ones(&[2, 3], crate::DType::F32)?;
        start(true);
        let range = begin_range("block");
        x.add(&x)?;
        end_range(range);
        let events = stop();
        x.add(&x)?;
        assert!(stop().is_empty());
        assert!(events[0].range && events[0].name == "block" && events[0].start <= events[1].start);
        assert_eq!(events[1].name, "aten::add");
        assert_eq!(events[1].shapes[0].as_slice(), [2, 3]);
        assert!(events[1].end <= events[0].end);
        Ok(())
    }
}
