//! Numbers that make no sense: dims out of range, sizes without bounds, not-a-numbers.

use super::super::{Case, Verdict};
use super::{Attempts, Must, Right, right};
use flambeau::schema::{Base, Param};
use flambeau::{Complex64, ErrorKind, OwnedValue, Result, Scalar};

/// Integers that nothing has a use for. What is large is so large that no machine has room for as many elements: a test
/// that succeeds in allocating proves nothing, and takes the machine with it.
const INTEGERS: [i64; 7] = [i64::MAX, i64::MIN, i64::MAX - 1, 1 << 62, -(1 << 62), -1, 0];

/// Whether an integer counts dims.
fn is_dim(param: &Param) -> bool {
    param.ty.base == Base::Int
        && matches!(
            &*param.name,
            "dim" | "dims" | "dim0" | "dim1" | "dim2" | "start_dim" | "end_dim" | "axis0" | "axis1"
        )
}

/// A dim far out of range is an index error in PyTorch's words, that names it.
pub(crate) fn dims(case: &Case) -> Verdict {
    let mut attempts = Attempts::new(case);
    for call in right(case)? {
        for (i, param) in call.op.schema().params.iter().enumerate().take(call.args.len()) {
            if !is_dim(param) {
                continue;
            }
            for wrong in [i64::MAX, i64::MIN, 77, -78] {
                let mut args = call.args.clone();
                args[i] = match &args[i] {
                    OwnedValue::Ints(dims) if !dims.is_empty() => OwnedValue::Ints([&[wrong], &dims[1..]].concat()),
                    _ if param.ty.list.is_none() => OwnedValue::Int(wrong),
                    _ => continue,
                };
                let texts = vec!["Dimension out of range".into(), wrong.to_string()];
                let what = format!("{}={wrong}", param.name);
                attempts.make(call.op, &args, &what, Must::Fail(&[ErrorKind::Index], texts))?;
            }
        }
    }
    attempts.verdict()
}

/// Huge and negative integers, alone and in lists, and lists of other lengths.
pub(crate) fn integers(case: &Case) -> Verdict {
    let mut attempts = Attempts::new(case);
    for call in right(case)? {
        for (i, param) in call.op.schema().params.iter().enumerate().take(call.args.len()) {
            if param.ty.base != Base::Int {
                continue;
            }
            let mut wrong: Vec<OwnedValue> = Vec::new();
            match (&call.args[i], param.ty.list.is_some()) {
                (value, true) => {
                    let list = if let OwnedValue::Ints(list) = value { &list[..] } else { &[1] };
                    for n in INTEGERS {
                        for place in 0..list.len() {
                            let mut list = list.to_vec();
                            list[place] = n;
                            wrong.push(OwnedValue::Ints(list));
                        }
                        wrong.push(OwnedValue::Ints(vec![n; list.len().max(2)]));
                    }
                    wrong.push(OwnedValue::Ints(vec![]));
                    wrong.push(OwnedValue::Ints([list, &[1]].concat()));
                    wrong.push(OwnedValue::Ints(vec![1; 70]));
                    wrong.push(OwnedValue::Ints((0..70).collect()));
                    if let [rest @ .., _] = list {
                        wrong.push(OwnedValue::Ints(rest.to_vec()));
                    }
                }
                _ => wrong.extend(INTEGERS.map(OwnedValue::Int)),
            }
            attempts.with_each(&call, i, wrong)?;
        }
    }
    attempts.verdict()
}

impl Attempts<'_> {
    /// Makes a call with each of these values as argument `i`.
    fn with_each(&mut self, call: &Right, i: usize, wrong: Vec<OwnedValue>) -> Result<()> {
        for value in wrong {
            let what = format!("{}={}", call.op.schema().params[i].name, shown(&value));
            let mut args = call.args.clone();
            args[i] = value;
            self.make(call.op, &args, &what, Must::End)?;
        }
        Ok(())
    }
}

fn shown(value: &OwnedValue) -> String {
    match value {
        OwnedValue::Int(n) => n.to_string(),
        OwnedValue::Ints(list) if list.len() > 8 => format!("{} integers from {}", list.len(), list[0]),
        OwnedValue::Ints(list) => format!("{list:?}"),
        OwnedValue::Float(x) => x.to_string(),
        OwnedValue::Floats(list) => format!("{list:?}"),
        OwnedValue::Scalar(x) => x.to_string(),
        other => other.borrow().kind_name().to_string(),
    }
}

/// Floats and numbers of any sort that make no sense.
pub(crate) fn floats(case: &Case) -> Verdict {
    const FLOATS: [f64; 6] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e308];
    let mut attempts = Attempts::new(case);
    for call in right(case)? {
        for (i, param) in call.op.schema().params.iter().enumerate().take(call.args.len()) {
            let mut wrong: Vec<OwnedValue> = match (param.ty.base, param.ty.list.is_some()) {
                (Base::Float, false) => FLOATS.map(OwnedValue::Float).into(),
                (Base::Float, true) => FLOATS.map(|x| OwnedValue::Floats(vec![x; 2])).into(),
                (Base::Scalar, false) => FLOATS.map(|x| OwnedValue::Scalar(Scalar::Float(x))).into(),
                _ => continue,
            };
            match (param.ty.base, param.ty.list.is_some()) {
                (Base::Float, true) => wrong.extend([vec![], vec![1.0; 70]].map(OwnedValue::Floats)),
                (Base::Scalar, false) => wrong.extend(
                    [
                        Scalar::Int(i64::MIN),
                        Scalar::Int(i64::MAX),
                        Scalar::UInt(u64::MAX),
                        Scalar::Bool(true),
                        Scalar::Complex(Complex64::new(f64::NAN, 1.0)),
                    ]
                    .map(OwnedValue::Scalar),
                ),
                _ => {}
            }
            attempts.with_each(&call, i, wrong)?;
        }
    }
    attempts.verdict()
}
