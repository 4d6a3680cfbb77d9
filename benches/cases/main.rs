//! The cases in which Flambeau is measured against PyTorch, said in Rust: the same groups, names, shapes, dtypes and
//! arguments, so that a figure from here stands beside one from Python, and their difference is what Python costs.
//!
//! ```text
//! cargo bench -p flambeau-nn --bench cases                              # all of them: some minutes
//! cargo bench -p flambeau-nn --bench cases -- 'matmul/|fft'             # those that the pattern finds
//! FLAMBEAU_NUM_THREADS=1 cargo bench -p flambeau-nn --bench cases       # on one thread
//! ```
//!
//! Inputs have the distributions of the Python cases, not their numbers. What has no twin:
//!
//! * objects of Python: `tolist_100`, `numpy_100`, `from_numpy_100`, `import_ms` and the sizes on disk and in memory;
//!   `save_load_mlp`, which pickles;
//! * `add_1_fn`: an operator and a method are the same call here;
//! * `gpt_train_autocast_bf16` and `adam_fused_step_5M_params`: autocasting and the choice of an optimiser's
//!   implementation belong to the Python package.

mod autograd;
mod conv;
mod elementwise;
mod inputs;
mod linalg;
mod matmul;
mod models;
mod networks;
mod overhead;
mod reductions;
mod selection;

use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use flambeau::Result;
use std::time::Duration;

/// Unwraps what a case cannot go on without.
fn ok<T>(r: Result<T>) -> T {
    r.unwrap_or_else(|e| panic!("{e}"))
}

/// The cases of one group.
struct Group<'a>(BenchmarkGroup<'a, WallTime>);

/// Times the cases of a group, or a part of it.
type Cases = fn(&mut Group<'_>);

impl Group<'_> {
    /// Times `f` on `inputs`, which are made once, and only if the case is asked for.
    fn case<I, R>(&mut self, name: impl AsRef<str>, inputs: impl Fn() -> I, f: impl Fn(&I) -> Result<R>) {
        self.step(name, inputs, |inputs| f(inputs));
    }

    /// [`Group::case`] of what changes its inputs, as a training step does.
    fn step<I, R>(&mut self, name: impl AsRef<str>, inputs: impl Fn() -> I, mut f: impl FnMut(&mut I) -> Result<R>) {
        let mut made = None;
        self.0.bench_function(name.as_ref(), |b| {
            let inputs = made.get_or_insert_with(|| {
                flambeau::manual_seed(0);
                inputs()
            });
            b.iter(|| ok(f(inputs)));
        });
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
        .nresamples(2000)
        .configure_from_args();
    let groups: [(&str, Cases); 11] = [
        ("overhead", overhead::overhead),
        ("native", overhead::native),
        ("elementwise", elementwise::cases),
        ("reductions", reductions::cases),
        ("reductions", selection::cases),
        ("matmul", matmul::cases),
        ("conv", conv::cases),
        ("linalg_fft", linalg::cases),
        ("autograd", autograd::cases),
        ("models", models::training),
        ("models", models::inference_and_optimisers),
    ];
    for (name, cases) in groups {
        let mut group = Group(criterion.benchmark_group(name));
        cases(&mut group);
        group.0.finish();
    }
    criterion.final_summary();
}
