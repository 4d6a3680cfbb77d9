//! Tensors that do not fit the others: of another shape, of another dtype, with contents that make no sense.

use super::super::arguments::{tensors, with_tensors};
use super::super::{Case, Verdict};
use super::{Attempts, Must, right};
use flambeau::{DType, Result, Tensor};

/// Tensors to put in place of another, with what is wrong with them.
type Wrong = Vec<(String, Tensor)>;

/// Makes every call with each of its tensors changed in each of the ways, in turn.
fn each(case: &Case, ways: &dyn Fn(&Tensor) -> Result<Wrong>) -> Verdict {
    let mut attempts = Attempts::new(case);
    for call in right(case)? {
        let given = tensors(&call.args);
        for (i, t) in given.iter().enumerate() {
            for (what, wrong) in ways(t)? {
                let mut given = given.clone();
                given[i] = wrong;
                let args = with_tensors(&call.args, &given)?;
                attempts.make(call.op, &args, &format!("tensor {i} {what}"), Must::End)?;
            }
        }
    }
    attempts.verdict()
}

/// One dim more, one fewer, none, no elements, more elements.
pub(crate) fn shapes(case: &Case) -> Verdict {
    each(case, &|t| {
        let empty = |sizes: &[i64]| Tensor::zeros(sizes, (t.dtype(), t.device()));
        let mut wrong = vec![
            ("of no elements".to_string(), empty(&[0])?),
            ("of one element".into(), empty(&[1])?),
            ("of no dims".into(), empty(&[])?),
            ("of sizes 1, 0, 3".into(), empty(&[1, 0, 3])?),
            ("of a hundred dims".into(), empty(&[1; 100])?),
            ("of seven elements".into(), empty(&[7])?),
        ];
        let mut longer = vec![3];
        longer.extend(t.sizes());
        wrong.push(("with a dim more".into(), t.unsqueeze(0)?.expand(&longer)?));
        for d in 0..t.dim() as i64 {
            if t.size(d)? > 0 {
                wrong.push((format!("without dim {d}"), t.select(d, 0)?));
                wrong.push((format!("with nothing in dim {d}"), t.narrow(d, 0, 0)?));
                wrong.push((format!("twice as long in dim {d}"), Tensor::cat(&[t.clone(), t.clone()], d)?));
            }
        }
        Ok(wrong)
    })
}

/// Each tensor in other dtypes.
pub(crate) fn dtypes(case: &Case) -> Verdict {
    each(case, &|t| {
        let mut wrong = vec![];
        for dtype in [DType::Complex64, DType::Bool, DType::I64, DType::U8, DType::BF16, DType::F64, DType::U64] {
            if dtype != t.dtype() {
                wrong.push((format!("in {dtype}"), t.to_dtype(dtype)?));
            }
        }
        Ok(wrong)
    })
}

/// Elements that are no index, no length, no probability: in all places, and in the last one alone, where a kernel that
/// looks as it goes has written what comes before.
pub(crate) fn contents(case: &Case) -> Verdict {
    each(case, &|t| {
        let mut wrong = vec![];
        if t.numel() == 0 || t.dtype() == DType::Bool {
            return Ok(wrong);
        }
        let mut fill = |name: &str, full: Tensor| -> Result<()> {
            let full = full.to_dtype(t.dtype())?;
            wrong.push((format!("full of {name}"), full.expand(t.sizes())?.contiguous()?));
            let last = t.contiguous()?.clone_in(flambeau::MemoryFormat::Contiguous)?;
            last.view(&[-1])?.narrow(0, t.numel() - 1, 1)?.copy_(&full.reshape(&[1])?)?;
            wrong.push((format!("ending in {name}"), last));
            Ok(())
        };
        if t.dtype().is_integral(true) {
            for n in [i64::MAX, i64::MIN, -1, 1 << 40] {
                fill(&n.to_string(), Tensor::scalar(n)?)?;
            }
        } else {
            for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e308] {
                fill(&x.to_string(), Tensor::scalar(x)?)?;
            }
        }
        Ok(wrong)
    })
}
