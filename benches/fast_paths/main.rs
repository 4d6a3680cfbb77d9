//! What each fast path buys: its case with the path on and off, in turns.
//!
//! ```text
//! cargo bench -p flambeau --bench fast_paths             # all of them: a minute
//! cargo bench -p flambeau --bench fast_paths -- conv.    # those whose names have that
//! FLAMBEAU_NUM_THREADS=1 cargo bench ...                 # on one thread, which varies less
//! ```
//!
//! Times are the shortest of all turns, which another process disturbs least. A ratio of one says that the case, or
//! this processor, has no use for the path.

mod cases;

use cases::{Step, case};
use flambeau::fast_paths::FastPath;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What a case is given in all, and each turn of it.
const CASE: Duration = Duration::from_millis(1000);
const TURN: Duration = Duration::from_millis(4);

/// How long a call takes, of so many.
fn time(step: &mut Step, calls: u32) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(step().unwrap_or_else(|e| panic!("{e}")));
    }
    start.elapsed() / calls
}

/// The shortest times with the path on and off.
fn measure(path: FastPath) -> [Duration; 2] {
    let was = path.set(true);
    let mut both = [true, false].map(|on| {
        path.set(on);
        flambeau::manual_seed(0);
        let mut step = (case(path).step)();
        // The first call fills caches of memory and plans.
        time(&mut step, 1);
        let calls = TURN.as_nanos() / time(&mut step, 1).as_nanos().max(1);
        (on, step, (calls as u32).clamp(1, 1 << 20), Duration::MAX)
    });
    let start = Instant::now();
    while start.elapsed() < CASE {
        for (on, step, calls, shortest) in &mut both {
            path.set(*on);
            *shortest = time(step, *calls).min(*shortest);
        }
    }
    path.set(was);
    both.map(|(.., shortest)| shortest)
}

fn main() {
    // Cargo says `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    println!("| fast path | case | results | on | off | off / on |\n| --- | --- | --- | --- | --- | --- |");
    for &path in FastPath::ALL {
        if wanted.is_empty() || wanted.iter().any(|part| path.name().contains(part.as_str())) {
            let [on, off] = measure(path);
            let (name, what, apart) = (path.name(), case(path).what, case(path).apart);
            let results = if apart == 0.0 { "the same bits".to_string() } else { format!("within {apart:.0e}") };
            let ratio = off.as_secs_f64() / on.as_secs_f64();
            println!("| `{name}` | {what} | {results} | {on:.1?} | {off:.1?} | {ratio:.2} |");
        }
    }
}
