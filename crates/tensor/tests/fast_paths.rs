//! The general way behind every fast path computes what the fast one does, on the shapes that the fast one takes.

#[path = "../../../benches/fast_paths/cases.rs"]
mod cases;

use cases::{Case, case};
use flambeau::fast_paths::FastPath;
use flambeau::{DType, Result, Tensor};

/// The results of a path's case.
fn results(path: FastPath, on: bool) -> Result<Vec<Tensor>> {
    let was = path.set(on);
    flambeau::manual_seed(0);
    let results = (case(path).step)()();
    path.set(was);
    results.map_err(|e| e.context(path.name()))
}

/// How far elements are apart at most, as a part of the largest one.
fn distance(a: &Tensor, b: &Tensor) -> Result<f64> {
    let (a, b) = (a.to_dtype(DType::F64)?, b.to_dtype(DType::F64)?);
    let largest = |x: &Tensor| -> Result<f64> { Ok(x.abs()?.max()?.item()?.to_f64()) };
    Ok(largest(&a.sub(&b)?)? / largest(&a)?.max(f64::MIN_POSITIVE))
}

#[test]
fn both_ways_agree() -> Result<()> {
    let mut wrong = Vec::new();
    for &path in FastPath::ALL {
        let (fast, general) = (results(path, true)?, results(path, false)?);
        assert_eq!(fast.len(), general.len(), "{}", path.name());
        let Case { what, apart, .. } = case(path);
        for (a, b) in fast.iter().zip(&general) {
            assert_eq!((a.sizes(), a.strides(), a.dtype()), (b.sizes(), b.strides(), b.dtype()), "{}", path.name());
            let same = a.to_bytes()? == b.to_bytes()?;
            let found = if same { 0.0 } else { distance(a, b)? };
            if found.is_nan() || found > apart {
                wrong.push(format!("{}, {what}: {found:e} and not {apart:e}", path.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
