//! Tests that come from the registry: no test names an operator.
//!
//! [`run`] walks every operator that has samples, for every dtype, and makes the checks of [`CHECKS`] on each sample. A
//! device of another crate is checked against the CPU by naming it in [`Options::device`]. What fails is collected; each
//! failure prints the line that repeats it alone.

mod arguments;
mod compare;
mod errors;
mod examples;
mod forms;
mod gradients;
mod layouts;
mod table;
mod values;

pub use examples::{Examples, examples};
pub use table::table;

use flambeau::{Body, DType, Device, Error, ErrorKind, Form, Op, Result, Tensor, registry, samples};
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// What is walked and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only cases `operator/dtype/sample/check` that this matches.
    pub filter: Option<Regex>,
    /// A device that must agree with the CPU.
    pub device: Option<Device>,
    /// A device whose results in double precision are the truth; without one the CPU's own are.
    pub reference: Option<Device>,
    /// Operators whose results after the first are kept for their own backward, so that nobody differentiates them.
    pub first_result_only: &'static [&'static str],
    /// What some operators are differentiated as.
    pub charts: &'static [Chart],
}

/// Where an operator is smooth: the inputs that it is defined on (Hermitian matrices, say), and what of its results does
/// not hang on a free choice (such as the phase of a singular vector).
#[derive(Clone, Copy, Debug)]
pub struct Chart {
    /// The operators' full names.
    pub ops: &'static [&'static str],
    /// Takes any inputs to ones that the operator is defined on, and those to themselves.
    pub inputs: fn(&[Tensor]) -> Result<Vec<Tensor>>,
    /// What is differentiated of the results.
    pub outputs: fn(&[Tensor]) -> Result<Vec<Tensor>>,
    /// What two devices agree on of the results.
    pub fixed: fn(&[Tensor]) -> Result<Vec<Tensor>>,
}

impl Options {
    /// With the filter of the environment variable `FLAMBEAU_OP`.
    ///
    /// # Errors
    /// When it is not a regular expression.
    pub fn from_environment() -> Result<Options> {
        let filter = match std::env::var("FLAMBEAU_OP") {
            Ok(text) => Some(Regex::new(&text).map_err(|e| Error::value(format!("FLAMBEAU_OP: {e}")))?),
            Err(_) => None,
        };
        Ok(Options { filter, ..Options::default() })
    }
}

/// One sample of one operator in one dtype.
pub(crate) struct Case<'a> {
    pub op: &'static Op,
    /// Its in-place, `out=` and other forms.
    pub forms: &'a [&'static Op],
    pub dtype: DType,
    /// Which of the operator's samples it is.
    pub number: usize,
    pub args: Vec<flambeau::OwnedValue>,
    /// What the operator gave for the arguments as they are.
    pub expected: Vec<Option<Tensor>>,
    /// Whether it drew random numbers: they come in the order of memory, so other layouts give other ones.
    pub random: bool,
    pub options: &'a Options,
}

/// Why a check failed; `None` where it passed or does not apply.
pub(crate) type Verdict = Result<Option<String>>;

/// What is checked of a case.
pub(crate) type Check = fn(&Case) -> Verdict;

/// The checks by name.
pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("inputs", values::inputs_untouched),
    ("again", values::same_again),
    ("threads", values::threads),
    ("precision", values::precision),
    ("device", values::device),
    ("meta", layouts::meta),
    ("layouts", layouts::layouts),
    ("expanded", layouts::expanded),
    ("in-place", forms::in_place),
    ("out", forms::out),
    ("overload", forms::overload),
    ("gradient", gradients::gradient),
    ("gradcheck", gradients::gradcheck),
    ("gradgradcheck", gradients::gradgradcheck),
    ("in-place gradient", gradients::in_place),
    ("missing argument", errors::missing),
    ("left out", errors::left_out),
    ("wrong sort", errors::sorts),
    ("wrong dim", errors::dims),
    ("wrong integer", errors::integers),
    ("wrong float", errors::floats),
    ("wrong shape", errors::shapes),
    ("wrong dtype", errors::dtypes),
    ("wrong contents", errors::contents),
    ("wrong device", errors::devices),
    ("wrong out dtype", errors::out_dtype),
    ("overlapping", errors::overlapping),
    ("leaf", errors::leaf),
];

/// Something that did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The operator's full name.
    pub op: String,
    /// The dtype of the samples.
    pub dtype: DType,
    /// The sample's number.
    pub sample: usize,
    /// The check's name.
    pub check: &'static str,
    /// What is wrong.
    pub what: String,
}

impl Failure {
    /// `operator/dtype/sample/check`.
    pub fn name(&self) -> String {
        case_name(self.op.as_str(), self.dtype, self.sample, self.check)
    }
}

fn case_name(op: &str, dtype: DType, sample: usize, check: &str) -> String {
    format!("{op}/{dtype}/{sample}/{check}")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "FLAMBEAU_OP='^{}$' cargo test --release -p flambeau-testing --test derived  # {}",
            regex_lite::escape(&self.name()),
            self.what
        )
    }
}

/// What a walk found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Everything that did not hold.
    pub failures: Vec<Failure>,
    /// How many operators had samples.
    pub operators: usize,
    /// How many samples were called.
    pub samples: usize,
    /// How many checks were made.
    pub checks: usize,
    /// Where the time went.
    pub times: BTreeMap<&'static str, Duration>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        let times: Vec<String> = self.times.iter().map(|(c, t)| format!("{c} {:.1} s", t.as_secs_f64())).collect();
        write!(
            f,
            "{} operators, {} samples, {} checks, {} failures ({})",
            self.operators,
            self.samples,
            self.checks,
            self.failures.len(),
            times.join(", ")
        )
    }
}

/// Runs the checks on every operator.
pub fn run(options: &Options) -> Report {
    let mut report = Report::default();
    let (mut plain, mut forms): (Vec<&'static Op>, BTreeMap<&str, Vec<&'static Op>>) = Default::default();
    for op in registry::all() {
        match registry::form_of(op) {
            Some((_, base)) => forms.entry(base.schema_text).or_default().push(op),
            None => plain.push(op),
        }
    }
    for op in plain {
        let Some(make) = op.samples else { continue };
        let forms = forms.remove(op.schema_text).unwrap_or_default();
        report.operators += 1;
        for dtype in DType::ALL {
            check_dtype(op, &forms, make, dtype, options, &mut report);
        }
    }
    report
}

fn check_dtype(
    op: &'static Op,
    forms: &[&'static Op],
    make: samples::SamplesFn,
    dtype: DType,
    options: &Options,
    report: &mut Report,
) {
    let fail = |sample, check, what: String, report: &mut Report| {
        report.failures.push(Failure { op: op.full_name().into(), dtype, sample, check, what });
    };
    let wanted = |sample: usize, check: &str| {
        options.filter.as_ref().is_none_or(|f| f.is_match(&case_name(op.full_name(), dtype, sample, check)))
    };
    let made = match guarded(|| Ok(make(&mut samples::Maker::new(dtype)))) {
        Ok(made) => made,
        Err(e) => return fail(0, "samples", e.message().into(), report),
    };
    for (number, sample) in made.into_iter().enumerate() {
        if !CHECKS.iter().any(|(check, _)| wanted(number, check)) && !wanted(number, "call") {
            continue;
        }
        report.samples += 1;
        let args = arguments::complete(op, sample.args);
        let expected = match guarded(|| arguments::call(op, &args)) {
            Ok(expected) => expected,
            Err(e) => {
                if !says_unsupported(op, dtype, &e) {
                    fail(number, "call", e.message().into(), report);
                }
                continue;
            }
        };
        let random = arguments::drew_numbers(op);
        let case = Case { op, forms, dtype, number, args, expected, random, options };
        for (check, run) in CHECKS {
            if !wanted(number, check) {
                continue;
            }
            report.checks += 1;
            let start = Instant::now();
            match guarded(|| run(&case)) {
                Ok(None) => {}
                Ok(Some(what)) => fail(number, check, what, report),
                Err(e) => fail(number, check, format!("raises: {}", e.message()), report),
            }
            *report.times.entry(check).or_default() += start.elapsed();
        }
    }
}

/// An operator may have no kernel for a dtype, if it says so; but single and double precision are never left out.
fn says_unsupported(op: &Op, dtype: DType, e: &Error) -> bool {
    if e.message().starts_with("panicked") {
        return false;
    }
    let plain = matches!(dtype, DType::F32 | DType::F64) && !matches!(op.body, Body::Variant(..));
    let says = [
        "not implemented",
        "not supported",
        "unsupported",
        "expected",
        "only",
        "Only",
        "must be",
        "can't be cast",
        "doesn't handle types",
    ];
    !plain && (e.kind() == ErrorKind::NotImplemented || says.iter().any(|s| e.message().contains(s)))
        || plain && says_wants_other(e)
}

/// Operators on integers or booleans alone.
fn says_wants_other(e: &Error) -> bool {
    e.kind() == ErrorKind::NotImplemented || e.message().contains("integral") || e.message().contains("bool")
}

/// Runs `f`, a panic being an error like others.
fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(Error::runtime(format!("panicked: {text}")))
        }
    }
}

/// The form of `op`, if it is one of another operator.
pub(crate) fn form_of(op: &'static Op) -> Option<Form> {
    registry::form_of(op).map(|(form, _)| form)
}

/// Whether every element is computed from its own operands alone, so that even the bits must agree.
pub(crate) fn is_pointwise(op: &'static Op) -> bool {
    matches!(op.functional().body, Body::Pointwise(_))
}
