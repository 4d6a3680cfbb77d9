//! The trace in docs/life-of-add.md is what really happens.

use flambeau::{DType, Result, Tensor, dispatch, keys};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/life-of-add.md");

#[test]
fn the_documented_trace_is_real() -> Result<()> {
    let w = Tensor::ones(&[2, 3], DType::F32)?.requires_grad_(true)?;
    let b = Tensor::ones(&[3], DType::F32)?;
    let (result, lines) = dispatch::trace(|| -> Result<()> { w.add(&b)?.sum()?.backward() });
    result?;
    let actual = lines.join("\n");
    let document = std::fs::read_to_string(DOCUMENT)?;
    let documented =
        document.split("```trace\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap_or_default();
    assert_eq!(documented, actual, "docs/life-of-add.md is out of date; the trace now is\n{actual}");
    let table = format!("table of {} kernel pointers", keys::KEY_COUNT);
    assert!(document.contains(&table), "docs/life-of-add.md does not speak of a {table}");
    Ok(())
}
