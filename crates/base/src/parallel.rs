//! The thread pool behind every kernel.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// How many threads kernels use: what [`set_num_threads`] said, else the number of cores.
pub fn num_threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => {
            let n = std::thread::available_parallelism().map_or(1, |n| n.get());
            THREADS.store(n, Relaxed);
            n
        }
        n => n,
    }
}

/// Sets how many threads kernels use, at least one. Results do not depend on it.
pub fn set_num_threads(n: usize) {
    THREADS.store(n.max(1), Relaxed);
}

/// Runs `f` over `0..len` in pieces of `grain` (the last may be shorter), on several threads when there is more than
/// one piece. The pieces depend on `len` and `grain` only, never on the number of threads, so a kernel that combines
/// per-piece results in order gives the same bits on any machine. Called from inside a piece, it runs serially.
pub fn parallel_for(len: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    let grain = grain.max(1);
    let mut start = 0;
    while start < len {
        let end = (start + grain).min(len);
        f(start..end);
        start = end;
    }
}
