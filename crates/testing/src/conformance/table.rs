//! What works: every operator in every dtype, forward, backward and in forward mode, as a table in Markdown.

use super::arguments::{call, complete, constants, map, tensors, with_tensors};
use super::guarded;
use flambeau::autograd::{self, Derivative};
use flambeau::samples::Maker;
use flambeau::{DType, MemoryFormat, Op, OwnedValue, Result, Tensor, registry};
use regex_lite::Regex;
use std::fmt::Write;

/// What an operator does in a dtype.
enum Cell {
    /// It computes. Each derivative is there, there is none by nature (`None`), or it is refused.
    Works { backward: Option<std::result::Result<(), String>>, forward_mode: Option<std::result::Result<(), String>> },
    /// It refuses the dtype.
    Refused(String),
}

/// Where samples come from in dtypes that an operator makes none for: they are converted.
const SOURCES: [DType; 6] = [DType::F32, DType::F64, DType::Complex64, DType::I64, DType::U8, DType::Bool];

/// The operators with samples, in the order of their names, that are not a form of another.
fn operators() -> Vec<&'static Op> {
    let all = registry::all().into_iter();
    let mut found: Vec<_> = all.filter(|op| op.samples.is_some() && registry::form_of(op).is_none()).collect();
    found.sort_by_key(|op| op.full_name());
    found
}

/// The samples of a dtype.
fn samples(op: &'static Op, dtype: DType) -> Vec<Vec<OwnedValue>> {
    let Some(make) = op.samples else { return vec![] };
    let made = guarded(|| Ok(make(&mut Maker::new(dtype)))).unwrap_or_default();
    made.into_iter().map(|sample| complete(op, sample.args)).collect()
}

/// The samples of another dtype, converted.
fn converted(op: &'static Op, dtype: DType) -> Vec<Vec<OwnedValue>> {
    for source in SOURCES.into_iter().filter(|s| *s != dtype) {
        let made: Vec<_> = samples(op, source).into_iter().filter(|args| guarded(|| call(op, args)).is_ok()).collect();
        if made.is_empty() {
            continue;
        }
        let one = |args: Vec<OwnedValue>| {
            let mut args = map(&args, &mut |t| if t.dtype() == source { t.to_dtype(dtype) } else { Ok(t.clone()) })?;
            for a in &mut args {
                if matches!(a, OwnedValue::DType(d) if *d == source) {
                    *a = OwnedValue::DType(dtype);
                }
            }
            Ok(args)
        };
        return made.into_iter().filter_map(|args| guarded(|| one(args)).ok()).collect();
    }
    vec![]
}

fn cell(op: &'static Op, dtype: DType) -> Cell {
    let mut made = samples(op, dtype);
    if made.is_empty() {
        made = converted(op, dtype);
    }
    let mut why = String::from("no sample");
    for args in made {
        match guarded(|| call(op, &args)) {
            Ok(_) => {
                let backward = backward(op, dtype, &args);
                // What has no gradient by nature has no tangent either.
                let forward_mode = if backward.is_some() { forward_mode(op, dtype, &args) } else { None };
                return Cell::Works { backward, forward_mode };
            }
            Err(e) => why = e.message().to_string(),
        }
    }
    Cell::Refused(why)
}

/// The tensors to differentiate by, and whether each is one.
fn variables(op: &'static Op, dtype: DType, args: &[OwnedValue]) -> Option<Vec<(Tensor, bool)>> {
    let declared = op.is_composite() || matches!(op.functional().derivative, Derivative::Formulas(_));
    if !declared || !dtype.is_differentiable() {
        return None;
    }
    let mut found = Vec::new();
    for (param, a) in op.schema().params.iter().zip(args) {
        let state = param.name.starts_with("running_");
        found.extend(tensors(std::slice::from_ref(a)).into_iter().map(|t| {
            let smooth = !state && t.dtype() == dtype;
            (t, smooth)
        }));
    }
    for ((_, smooth), constant) in found.iter_mut().zip(constants(op, args).ok()?) {
        *smooth &= !constant;
    }
    found.iter().any(|(_, smooth)| *smooth).then_some(found)
}

fn backward(op: &'static Op, dtype: DType, args: &[OwnedValue]) -> Option<std::result::Result<(), String>> {
    let variables = variables(op, dtype, args)?;
    let run = || -> Result<bool> {
        let leaf = |(t, smooth): &(Tensor, bool)| match smooth {
            true => t.detach()?.clone_in(MemoryFormat::Preserve)?.requires_grad_(true),
            false => Ok(t.clone()),
        };
        let xs = variables.iter().map(leaf).collect::<Result<Vec<_>>>()?;
        let results: Vec<Tensor> = call(op, &with_tensors(args, &xs)?)?.into_iter().flatten().collect();
        let results: Vec<Tensor> = results.into_iter().filter(Tensor::requires_grad).collect();
        let leaves: Vec<Tensor> = xs.into_iter().filter(Tensor::requires_grad).collect();
        if results.is_empty() {
            return Ok(false);
        }
        let seeds = results.iter().map(|r| r.detach()?.ones_like().map(Some)).collect::<Result<Vec<_>>>()?;
        autograd::grad(&results, &leaves, &seeds, false, false, true).map(|_| true)
    };
    match guarded(run) {
        Ok(true) => Some(Ok(())),
        Ok(false) => None,
        Err(e) => Some(Err(e.message().into())),
    }
}

fn forward_mode(op: &'static Op, dtype: DType, args: &[OwnedValue]) -> Option<std::result::Result<(), String>> {
    let variables = variables(op, dtype, args)?;
    let run = || -> Result<()> {
        let smooth: Vec<Tensor> = variables.iter().filter(|(_, s)| *s).map(|(t, _)| t.clone()).collect();
        let tangents = smooth.iter().map(|t| t.detach()?.ones_like()).collect::<Result<Vec<_>>>()?;
        let f = |duals: &[Tensor]| {
            let mut duals = duals.iter();
            let xs: Vec<Tensor> = variables
                .iter()
                .map(|(t, smooth)| if *smooth { duals.next().unwrap_or(t).clone() } else { t.clone() })
                .collect();
            Ok(call(op, &with_tensors(args, &xs)?)?.into_iter().flatten().collect())
        };
        autograd::jvp(f, &smooth, &tangents).map(drop)
    };
    Some(guarded(run).map_err(|e| e.message().into()))
}

/// Reasons by number, each said once.
struct Reasons {
    names: Regex,
    said: Vec<String>,
}

impl Reasons {
    fn number(&mut self, op: &Op, why: &str) -> usize {
        let first = why.lines().next().unwrap_or_default();
        let plain = first.replace(op.name(), "…");
        let plain = self.names.replace_all(&plain, "…").into_owned();
        match self.said.iter().position(|s| *s == plain) {
            Some(i) => i + 1,
            None => {
                self.said.push(plain);
                self.said.len()
            }
        }
    }
}

/// The table, and the operators that work in `int32` and not in an unsigned dtype of 16 bits or more.
///
/// # Errors
/// None at present.
pub fn table() -> std::result::Result<(String, Vec<String>), regex_lite::Error> {
    const NAMES: &str = r#""[\w.]+"|\b(Bool|Byte|Char|Short|Int|Long|UInt16|UInt32|UInt64|Half|BFloat16|Float|Double|ComplexFloat|ComplexDouble|torch\.\w+)\b"#;
    let mut reasons = Reasons { names: Regex::new(NAMES)?, said: vec![] };
    let (mut rows, mut behind, mut counts) = (String::new(), vec![], [0usize; 4]);
    for op in operators() {
        let _ = write!(rows, "| `{}` |", op.full_name());
        let mut works = Vec::new();
        for dtype in DType::ALL {
            let cell = cell(op, dtype);
            let text = match &cell {
                Cell::Refused(why) => {
                    counts[3] += 1;
                    format!("– {}", reasons.number(op, why))
                }
                Cell::Works { backward, forward_mode } => {
                    counts[0] += 1;
                    works.push(dtype);
                    let mut text = String::from("f");
                    for (i, (letter, derivative)) in [('b', backward), ('j', forward_mode)].into_iter().enumerate() {
                        match derivative {
                            Some(Ok(())) => {
                                counts[i + 1] += 1;
                                text.push(letter);
                            }
                            Some(Err(why)) => {
                                let _ = write!(text, " {letter}: {}", reasons.number(op, why));
                            }
                            None => {}
                        }
                    }
                    text
                }
            };
            let _ = write!(rows, " {text} |");
        }
        rows.push('\n');
        let unsigned = [DType::U16, DType::U32, DType::U64];
        if works.contains(&DType::I32) && !unsigned.iter().all(|d| works.contains(d)) {
            behind.push(op.full_name().to_string());
        }
    }
    let mut text = String::from(
        "# Operators and dtypes\n\nMade by `FLAMBEAU_UPDATE=1 cargo test --release -p flambeau-testing --test table`, which \
         calls every operator's samples on the CPU; the test keeps it true.\n\n`f`: it computes; `b`: its gradient does; `j`: \
         forward mode does. No `b` and `j`: there is nothing to differentiate (integers, comparisons, indices). `– n`, `b: n`, \
         `j: n`: refused, for the reason of that number below.\n\n",
    );
    let [forward, back, mode, refused] = counts;
    let _ = writeln!(
        text,
        "{} operators in {} dtypes: {forward} cells compute, {back} have gradients, {mode} forward mode; {refused} are refused.\n",
        operators().len(),
        DType::ALL.len()
    );
    let _ = writeln!(text, "| operator | {} |", DType::ALL.map(|d| d.to_string()).join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(DType::ALL.len()));
    text.push_str(&rows);
    text.push_str("\n## Reasons\n\nIn the operators' own words, `…` for their names and dtypes.\n\n");
    for (i, reason) in reasons.said.iter().enumerate() {
        let _ = writeln!(text, "{}. {}", i + 1, reason.replace('|', "\\|"));
    }
    Ok((text, behind))
}
