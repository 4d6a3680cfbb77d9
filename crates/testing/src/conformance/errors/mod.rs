//! Wrong calls: each operator's samples with one thing in them made wrong, by what the schema says of it.
//!
//! Every such call must end in an error or in a result; never in a panic, a crash or a wait without end. A call that
//! fails leaves what it was to write as it was: contents, geometry, and version. Where the schema settles what is right
//! the sort of the error and what its text names are checked, too.

mod devices;
mod numbers;
mod sorts;
mod tensors;
mod written;

pub(crate) use devices::devices;
pub(crate) use numbers::{dims, floats, integers};
pub(crate) use sorts::{left_out, missing, sorts};
pub(crate) use tensors::{contents, dtypes, shapes};
pub(crate) use written::{leaf, out_dtype, overlapping};

use super::arguments::{call_as_is, for_form, map, with_copies};
use super::{Case, Verdict, form_of, guarded};
use flambeau::{DType, Device, Error, ErrorKind, Form, MemoryFormat, Op, OwnedValue, Result, Tensor};
use std::sync::{Mutex, Once};
use std::time::Duration;

/// Dtypes that wrong calls are made in, and samples of each: what is wrong with a call rarely hangs on them.
const DTYPES: [DType; 3] = [DType::F32, DType::F64, DType::I64];
const SAMPLES: usize = 2;

/// An operator or a form of it, with arguments that are right.
pub(crate) struct Right {
    op: &'static Op,
    args: Vec<OwnedValue>,
}

impl Right {
    /// Whether it is: not every form takes what the operator does. (Integers have no exponential in place.)
    fn succeeds(&self) -> Result<bool> {
        let args = map(&self.args, &mut |t| t.clone_in(MemoryFormat::Preserve))?;
        Ok(guarded(|| call_as_is(self.op, &args)).is_ok())
    }
}

/// What a wrong call must end in.
enum Must {
    /// An error or a result: it depends on the operator.
    End,
    /// The same, but a result means that all it writes to is on this device.
    EndOn(Device),
    /// An error of one of these kinds whose text has each of these in it.
    Fail(&'static [ErrorKind], Vec<String>),
    /// The same, unless nothing is written: not every dropout drops.
    FailToWrite(&'static [ErrorKind], Vec<String>),
}

/// The calls that a case stands for: of the operator itself and of its forms, `out=` ones with tensors to write to.
fn right(case: &Case) -> Result<Vec<Right>> {
    if !DTYPES.contains(&case.dtype) || case.number >= SAMPLES {
        return Ok(vec![]);
    }
    let mut calls = vec![Right { op: case.op, args: case.args.clone() }];
    for &form in case.forms {
        let Some(mut args) = for_form(case.op, &case.args, form) else { continue };
        if form_of(form) == Some(Form::Out) {
            let like = |t: &Tensor| Tensor::full(t.sizes(), 1, (t.dtype(), t.device()));
            let outs = case.expected.iter().flatten().map(like).collect::<Result<Vec<_>>>()?;
            match form.schema().params.last().is_some_and(|p| p.ty.list.is_some()) {
                true => args.push(OwnedValue::Tensors(outs)),
                false => args.extend(outs.into_iter().map(OwnedValue::Tensor)),
            }
        }
        let call = Right { op: form, args };
        if call.succeeds()? {
            calls.push(call);
        }
    }
    Ok(calls)
}

/// The wrong calls of one check, and what was found.
struct Attempts<'a> {
    case: &'a Case<'a>,
    found: Vec<String>,
}

impl<'a> Attempts<'a> {
    fn new(case: &'a Case<'a>) -> Attempts<'a> {
        Attempts { case, found: Vec::new() }
    }

    /// Calls `op` with copies of what it writes, and notes what does not hold.
    fn make(&mut self, op: &'static Op, args: &[OwnedValue], what: &str, must: Must) -> Result<()> {
        let copy = |t: &Tensor| match t.requires_grad() || lies_on_itself(t) || t.device().is_meta() {
            true => Ok(t.clone()),
            false => t.clone_in(MemoryFormat::Preserve),
        };
        let args = with_copies(op, args, &copy)?;
        self.make_as_is(op, &args, what, must)
    }

    /// As [`Attempts::make`] with these very tensors.
    fn make_as_is(&mut self, op: &'static Op, args: &[OwnedValue], what: &str, must: Must) -> Result<()> {
        // The tensors of a list are written one after the other, as PyTorch's: what stands before a wrong one is done.
        let of = |(i, a): (usize, &OwnedValue)| match a {
            OwnedValue::Tensor(t) if op.mutated() >> i & 1 == 1 => Some(t.clone()),
            _ => None,
        };
        let targets: Vec<Tensor> = args.iter().enumerate().filter_map(of).collect();
        let before = targets.iter().map(State::of).collect::<Result<Vec<_>>>()?;
        let named = |what: &str| format!("{} with {what}", op.full_name());
        begin(format!("{}/{}/{}: {}", self.case.op.full_name(), self.case.dtype, self.case.number, named(what)));
        let result = guarded(|| call_as_is(op, args));
        end();
        match (&result, &must) {
            (Err(e), _) if e.message().starts_with("panicked") => self.note(named(what), e.message()),
            (Err(e), Must::Fail(kinds, texts) | Must::FailToWrite(kinds, texts)) => {
                if !kinds.contains(&e.kind()) {
                    self.note(named(what), &format!("{:?} where {kinds:?} is right: {}", e.kind(), e.message()));
                } else if let Some(text) = texts.iter().find(|t| !e.message().contains(t.as_str())) {
                    self.note(named(what), &format!("the error does not say '{text}': {}", e.message()));
                }
            }
            (Err(e), _) if !says_something(e) => self.note(named(what), &format!("says '{}'", e.message())),
            (Ok(_), Must::FailToWrite(..)) if targets.iter().zip(&before).all(|(t, b)| t.version() == b.version) => {}
            (Ok(_), Must::Fail(..) | Must::FailToWrite(..)) => self.note(named(what), "accepted"),
            (Ok(_), Must::EndOn(device)) if targets.iter().any(|t| t.device() != *device) => {
                self.note(named(what), &format!("accepted, and nothing written: not all is on {device}"));
            }
            _ => {}
        }
        if result.is_err() {
            for (t, before) in targets.iter().zip(&before) {
                if let Some(changed) = before.changed(&State::of(t)?) {
                    self.note(named(what), &format!("it failed and left another {changed} behind"));
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, call: String, found: &str) {
        self.found.push(format!("{call}: {found}"));
    }

    fn verdict(self) -> Verdict {
        const SHOWN: usize = 4;
        let more = self.found.len().saturating_sub(SHOWN);
        let mut text = self.found.into_iter().take(SHOWN).collect::<Vec<_>>().join("\n    ");
        if more > 0 {
            text.push_str(&format!("; and {more} more"));
        }
        Ok((!text.is_empty()).then_some(text))
    }
}

/// An error must at least be a phrase.
fn says_something(e: &Error) -> bool {
    e.message().contains(' ') || e.message() == "ZeroDivisionError"
}

/// Whether elements of a tensor lie on one another: a copy would not.
fn lies_on_itself(t: &Tensor) -> bool {
    t.numel() > 1 && t.sizes().iter().zip(t.strides()).any(|(n, s)| *n > 1 && *s == 0)
}

/// Everything of a tensor that a failed call has to leave alone.
#[derive(PartialEq)]
struct State {
    bytes: Vec<u8>,
    sizes: Vec<i64>,
    strides: Vec<i64>,
    version: u32,
}

impl State {
    fn of(t: &Tensor) -> Result<State> {
        let bytes = if t.device().is_meta() { vec![] } else { t.detach()?.to_bytes()? };
        Ok(State { bytes, sizes: t.sizes().to_vec(), strides: t.strides().to_vec(), version: t.version() })
    }

    fn changed(&self, after: &State) -> Option<&'static str> {
        if self.sizes != after.sizes || self.strides != after.strides {
            return Some("shape");
        }
        if self.bytes != after.bytes {
            return Some("content");
        }
        (self.version != after.version).then_some("version")
    }
}

/// The calls made so far, and the one under way: there is one walk at a time.
static UNDER_WAY: Mutex<(u64, String)> = Mutex::new((0, String::new()));

/// How often a wrong call may be found under way, a second apart, before it counts as one that never ends: most take some
/// microseconds.
const PATIENCE: u32 = 30;

/// Notes a call, so that one which never ends is named. With `FLAMBEAU_SAY` set it is printed too, for one that takes the
/// process with it.
fn begin(call: String) {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| drop(std::thread::spawn(watch)));
    if std::env::var_os("FLAMBEAU_SAY").is_some() {
        eprintln!("{call}");
    }
    if let Ok(mut held) = UNDER_WAY.lock() {
        *held = (held.0 + 1, call);
    }
}

fn end() {
    if let Ok(mut held) = UNDER_WAY.lock() {
        held.1.clear();
    }
}

/// Ends the process at a call that does not end. (Counting, where a clock would run on while the process is stopped.)
fn watch() {
    let (mut last, mut times) = (0, 0);
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let Ok(held) = UNDER_WAY.lock() else { return };
        times = if held.0 == last && !held.1.is_empty() { times + 1 } else { 0 };
        last = held.0;
        if times > PATIENCE {
            eprintln!("it does not end: {}", held.1);
            std::process::exit(101);
        }
    }
}
