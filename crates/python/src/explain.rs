//! Why no overload of an operator takes a call, in PyTorch's words; and calls in the order of arguments that PyTorch
//! has deprecated, which old programs still use.

use crate::convert::{check, int_in_list};
use crate::number::type_name;
use crate::object::{is_tensor, peek};
use crate::parse::{Call, Items, Overload, Parsed, parse, text};
use flambeau::OwnedValue;
use flambeau::schema::{Base, Type};
use pyo3::exceptions::{PyTypeError, PyUserWarning};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyString;
use smallvec::SmallVec;

/// A list's type with those of its items, as messages have it: `list of [int, int]`.
pub fn list_type_name(object: *mut PyObject) -> String {
    match Items::of(object) {
        None => type_name(object),
        Some(items) => {
            let names: Vec<String> = items.iter().map(|i| type_name(*i)).collect();
            match names.as_slice() {
                [] => type_name(object),
                [one] if type_name(object) == "tuple" => format!("tuple of ({one},)"),
                names if type_name(object) == "tuple" => format!("tuple of ({})", names.join(", ")),
                names => format!("{} of [{}]", type_name(object), names.join(", ")),
            }
        }
    }
}

/// A parameter's type in PyTorch's Python words.
pub fn type_text(ty: &Type) -> &'static str {
    match (ty.base, ty.list.is_some()) {
        (Base::Tensor, false) => "Tensor",
        (Base::Tensor, true) => "tuple of Tensors",
        (Base::Scalar, false) => "Number",
        (Base::Scalar, true) => "tuple of Scalars",
        (Base::Int, false) => "int",
        (Base::Int, true) => "tuple of ints",
        (Base::Float, false) => "float",
        (Base::Float, true) => "tuple of floats",
        (Base::Bool, false) => "bool",
        (Base::Bool, true) => "tuple of bools",
        (Base::Str, _) => "str",
        (Base::ScalarType, _) => "torch.dtype",
        (Base::Layout, _) => "torch.layout",
        (Base::Device, _) => "torch.device",
        (Base::MemoryFormat, _) => "torch.memory_format",
        (Base::Generator, _) => "torch.Generator",
    }
}

fn default_text(v: &OwnedValue) -> String {
    match v {
        OwnedValue::Scalar(s) => s.to_string(),
        OwnedValue::Int(i) => i.to_string(),
        OwnedValue::Ints(v) if v.is_empty() => "None".into(),
        OwnedValue::Ints(v) if v.windows(2).all(|w| w[0] == w[1]) => v[0].to_string(),
        OwnedValue::Ints(v) => format!("{v:?}"),
        OwnedValue::Float(f) => format!("{f}"),
        OwnedValue::Bool(b) => if *b { "True" } else { "False" }.into(),
        OwnedValue::Str(s) => format!("\"{s}\""),
        OwnedValue::MemoryFormat(m) => m.to_string(),
        _ => "None".into(),
    }
}

/// The arguments' types: `(Tensor, int, dim=str)`.
pub fn describe(call: &Call<'_>) -> String {
    let mut parts: Vec<String> = call.args.iter().map(|a| list_type_name(*a)).collect();
    if call.named.is_empty() {
        return parts.join(", ");
    }
    parts.extend(call.named.iter().map(|(n, v)| format!("{}={}", text(*n), type_name(*v))));
    // PyTorch leaves a comma after names that stand alone.
    if call.args.is_empty() { parts.join(", ") + ", " } else { parts.join(", ") }
}

/// One signature as users see it: a function and its `out=` form are one.
struct Shown<'a> {
    overload: &'a Overload,
    /// How many outputs `out=` takes; none if there is no such form.
    outs: usize,
    /// Whether the tensor before the point is `self`.
    method: bool,
}

impl Shown<'_> {
    fn parameters(&self) -> impl Iterator<Item = &crate::parse::Parameter> {
        self.overload.parameters.iter().filter(|p| !(p.out || self.method && p.text == "self"))
    }

    /// How many arguments it takes at least and at most.
    fn counts(&self) -> (usize, usize) {
        let least = self.parameters().filter(|p| p.default.is_none()).count();
        let most = self.parameters().count();
        (least, most + usize::from(self.outs > 0) + usize::from(self.overload.is_factory()))
    }

    /// `(Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)`.
    fn text(&self) -> String {
        let mut parts = Vec::new();
        let mut star = false;
        let mut out = (self.outs > 0)
            .then(|| if self.outs == 1 { "Tensor out = None" } else { "tuple of Tensors out = None" }.to_string());
        for p in self.parameters() {
            if p.keyword_only && !std::mem::replace(&mut star, true) {
                parts.push("*".to_string());
            }
            if self.overload.is_factory() && p.text == "dtype" {
                parts.extend(out.take());
            }
            let name = if p.text == "self" && p.ty.base == Base::Tensor { "input" } else { &p.text };
            let default = match &p.default {
                None => String::new(),
                Some(_) if p.text == "pin_memory" => " = False".into(),
                Some(d) => format!(" = {}", default_text(d)),
            };
            parts.push(format!("{} {name}{default}", type_text(&p.ty)));
        }
        if let Some(out) = out {
            if !star {
                parts.push("*".into());
            }
            parts.push(out);
        }
        if self.overload.is_factory() {
            parts.push("bool requires_grad = False".into());
        }
        format!("({})", parts.join(", "))
    }

    /// Why a call with the right number of arguments does not fit.
    fn mismatch(&self, call: &Call<'_>) -> Option<String> {
        let given = call.args.len() + call.named.len();
        // PyTorch counts what stands between commas: the star too, and one for no parameters at all.
        let star = self.outs > 0 || self.overload.is_factory() || self.parameters().any(|p| p.keyword_only);
        let (_, most) = self.counts();
        let most = (most + usize::from(star)).max(1);
        let spread = self.overload.takes_spread() && given > most;
        if given != most && !spread {
            return None;
        }
        let wrong: Vec<String> = call
            .named
            .iter()
            .map(|(n, _)| text(*n))
            .filter(|n| n != "out" && self.overload.called(n).is_none())
            .collect();
        if !wrong.is_empty() {
            return Some(format!("some of the keywords were incorrect: {}", wrong.join(", ")));
        }
        let mark = |p: Option<&crate::parse::Parameter>, object: *mut PyObject| match p {
            Some(p) if check(call.py, p, object).is_some() => type_name(object),
            _ => format!("!{}!", list_type_name(object)),
        };
        let mut parameters = self.parameters();
        let mut parts: Vec<String> = call.args.iter().map(|a| mark(parameters.next(), *a)).collect();
        for (n, v) in &call.named {
            let name = text(*n);
            let p = self.overload.called(&name).map(|i| &self.overload.parameters[i]);
            parts.push(format!("{name}={}", mark(p, *v)));
        }
        Some(format!("some of the arguments have invalid types: ({})", parts.join(", ")))
    }

    /// Whether it stands before the other one: its types are as narrow everywhere, and a tensor is narrower than a
    /// number.
    fn is_before(&self, other: &Shown<'_>) -> bool {
        let (a, b) = (&self.overload.parameters, &other.overload.parameters);
        let first = |o: &Shown<'_>| o.overload.parameters.get(1).map(|p| p.ty.base);
        let flag = |o: &Shown<'_>| first(o) == Some(Base::Bool);
        let narrower = |x: &Type, y: &Type| x.base == Base::Tensor && y.base == Base::Scalar;
        let pairs = || a.iter().zip(b).map(|(x, y)| (&x.ty, &y.ty));
        let same = |x: &Type, y: &Type| x.base == y.base && x.list.is_some() == y.list.is_some();
        (first(self) == Some(Base::Int) && flag(other))
            || (a.len() == b.len()
                && pairs().all(|(x, y)| same(x, y) || narrower(x, y))
                && pairs().any(|(x, y)| narrower(x, y)))
    }
}

/// The signatures that a call chooses among, in the order in which PyTorch lists them: by their text, tensors before
/// numbers.
fn signatures<'a>(overloads: &'a [Overload], method: bool) -> Vec<Shown<'a>> {
    let mut rest: Vec<Shown<'a>> = overloads
        .iter()
        .filter(|o| !o.takes_out() && !o.hidden && (!method || o.this.is_some()))
        .map(|overload| {
            let outs = if method { 0 } else { overload.outputs_of_out_form(overloads) };
            Shown { overload, outs, method }
        })
        .collect();
    rest.sort_by_cached_key(|s| {
        let line = s.overload.op.schema().to_string();
        line.split_once('(').map_or(String::new(), |(_, parameters)| parameters.to_string())
    });
    let mut sorted = Vec::new();
    while !rest.is_empty() {
        let next = (0..rest.len()).find(|i| !rest.iter().any(|o| o.is_before(&rest[*i]))).unwrap_or(0);
        sorted.push(rest.remove(next));
    }
    sorted
}

/// The order of arguments before PyTorch 1.5: `s` the tensor `self`, `t` another, and the names of numbers.
fn old_orders(name: &str) -> &'static [&'static [&'static str]] {
    match name {
        "add" | "add_" | "sub" | "sub_" => &[&["s", "alpha", "t"]],
        "addcmul" | "addcmul_" | "addcdiv" | "addcdiv_" => &[&["s", "value", "t", "t"]],
        "addmm" | "addmm_" | "addmv" | "addmv_" | "addr" | "addr_" | "addbmm" | "addbmm_" | "baddbmm" | "baddbmm_"
        | "sspaddmm" => &[&["beta", "s", "alpha", "t", "t"], &["beta", "s", "t", "t"]],
        _ => &[],
    }
}

/// Parses a call in an order of arguments that PyTorch has deprecated, with its warning; nothing if it is in none.
#[cold]
pub fn parse_old_order(
    overloads: &'static [Overload],
    call: &Call<'_>,
    parsed: &mut Parsed,
) -> Option<PyResult<&'static Overload>> {
    let name = overloads.first()?.op.name();
    let method = !call.this.is_null();
    for order in old_orders(name) {
        let order: SmallVec<[&str; 5]> = order.iter().copied().filter(|o| !(method && *o == "s")).collect();
        let fits = |(at, &o): (&&str, &*mut PyObject)| match (*at, is_tensor(o)) {
            ("s" | "t", tensor) => tensor,
            (_, false) => true,
            // SAFETY: checked to be a live tensor.
            (_, true) => unsafe { peek(o) }.dim() == 0,
        };
        if order.len() != call.args.len() || !order.iter().zip(call.args).all(fits) {
            continue;
        }
        let mut named = call.named.clone();
        let mut args: SmallVec<[*mut PyObject; 5]> = SmallVec::new();
        let names: SmallVec<[Bound<'_, PyString>; 5]> = order.iter().map(|n| PyString::intern(call.py, n)).collect();
        for ((at, name), &object) in order.iter().zip(&names).zip(call.args) {
            match *at {
                "s" | "t" => args.push(object),
                _ => named.push((name.as_ptr(), object)),
            }
        }
        let shown = |s: &str| match s {
            "s" => "Tensor input".to_string(),
            "t" => "Tensor other".to_string(),
            number => format!("Number {number}"),
        };
        let old = order.iter().map(|s| shown(s)).collect::<Vec<_>>().join(", ");
        let list: String = signatures(overloads, method).iter().map(|s| format!("\n\t{name}{}", s.text())).collect();
        let message = format!(
            "This overload of {name} is deprecated:\n\t{name}({old})\nConsider using one of the following signatures \
             instead:{list}"
        );
        let warned = std::ffi::CString::new(message)
            .map_err(PyErr::from)
            .and_then(|message| PyErr::warn(call.py, &call.py.get_type::<PyUserWarning>(), &message, 1));
        let call = Call { py: call.py, this: call.this, args: &args, named };
        return Some(warned.and_then(|()| parse(overloads, &call, parsed)));
    }
    None
}

/// Why no overload takes a call.
#[cold]
pub fn explain(overloads: &'static [Overload], call: &Call<'_>, out: bool) -> PyErr {
    let name = overloads.first().map_or("", |o| o.op.name());
    let method = !call.this.is_null();
    if out && (method || !overloads.iter().any(Overload::takes_out)) {
        return PyTypeError::new_err(format!("{name}() got an unexpected keyword argument 'out'"));
    }
    let shown = signatures(overloads, method);
    let given = call.args.len() + call.named.len();
    let plausible = |s: &&Shown<'_>| {
        let (least, most) = s.counts();
        (least..=most).contains(&given) || (s.overload.takes_spread() && call.args.len() >= most)
    };
    let alone = shown.len() == 1 && old_orders(name).is_empty();
    let candidates: Vec<&Shown<'_>> = shown.iter().filter(|s| alone || plausible(s)).collect();
    if let [one] = candidates[..] {
        let with_out = || overloads.iter().find(|o| o.takes_out() && o.is_out_form_of(one.overload));
        let overload = if out { with_out().unwrap_or(one.overload) } else { one.overload };
        if let Err(why) = overload.bind(call, true, &mut SmallVec::new()) {
            return PyTypeError::new_err(why);
        }
    }
    let got = describe(call);
    let message = match &shown[..] {
        [one] => match one
            .mismatch(call)
            .and_then(|m| m.strip_prefix("some of the keywords were incorrect: ").map(String::from))
        {
            Some(wrong) => format!("got unrecognized keyword arguments: {wrong}"),
            None => format!("got ({got}), but expected {}", one.text()),
        },
        _ => {
            let list: String = shown
                .iter()
                .map(|s| {
                    let why = s.mismatch(call).map(|m| format!("      didn't match because {m}\n"));
                    format!(" * {}\n{}", s.text(), why.unwrap_or_default())
                })
                .collect();
            format!("got ({got}), but expected one of:\n{list}")
        }
    };
    PyTypeError::new_err(format!("{name}() received an invalid combination of arguments - {message}"))
}

/// The first item of a list of integers that is none, as PyTorch words it.
#[cold]
pub fn no_integer(py: Python<'_>, function: &str, parameter: &str, items: &[*mut PyObject]) -> Option<PyErr> {
    let at = items.iter().enumerate().position(|(place, o)| int_in_list(py, place, *o).is_none())?;
    Some(PyTypeError::new_err(format!(
        "{function}(): argument '{parameter}' failed to unpack the object at pos {} with error \"type must be tuple of \
         ints,but got {}\"",
        at + 1,
        type_name(items[at])
    )))
}

/// Whether the object is `None`.
pub fn is_none(object: *mut PyObject) -> bool {
    // SAFETY: a comparison of addresses.
    object == unsafe { ffi::Py_None() }
}
