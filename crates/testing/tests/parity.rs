//! Flambeau agrees with the recorded calls.
//!
//! `PARITY=add/grad cargo test --release -p flambeau-testing --test parity -- --nocapture` runs the cases whose name
//! contains `add/grad` and prints the whole report.

use flambeau_testing::parity::{Flambeau, Report, Selection, Store, replay};
use std::collections::BTreeMap;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Cases that are known not to agree, with the reason: one a line, `name: why`. A line for one that agrees is an error.
fn exceptions() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(format!("{ROOT}/parity_exceptions.txt")).unwrap();
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    lines
        .map(|l| {
            let (name, why) = l.split_once(": ").unwrap_or_else(|| panic!("no reason: {l}"));
            (name.to_string(), why.to_string())
        })
        .collect()
}

#[test]
fn flambeau_agrees_with_the_recorded_calls() {
    let selection = Selection { name: std::env::var("PARITY").unwrap_or_default(), ..Selection::default() };
    let target = Flambeau::default();
    let mut report = Report::default();
    let list = std::fs::read_to_string(format!("{ROOT}/parity_ops.txt")).unwrap();
    for name in list.lines().filter(|l| !l.starts_with('#')) {
        let store = Store::open(format!("{ROOT}/data/parity/{name}.zip")).unwrap();
        report.add(&store, replay(&target, &store, &selection));
    }
    println!("{report}");
    let mut expected = exceptions();
    report.failures.retain(|f| expected.remove(&f.name()).is_none());
    assert!(report.failures.is_empty(), "{} cases disagree:\n{report}", report.failures.len());
    if selection.name.is_empty() {
        assert!(expected.is_empty(), "these agree now, take them out of parity_exceptions.txt: {:?}", expected.keys());
    }
}
