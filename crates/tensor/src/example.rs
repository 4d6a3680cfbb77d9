//! An operator's example: a call with literal arguments, as Python writes it, and what it prints.
//!
//! Nobody writes one. It comes from the operator's samples: their numbers are rounded so that they can be read, and the
//! sample with the shortest text is taken. Tests run the text again, in Rust and in Python.

use crate::random::{Generator, manual_seed};
use crate::samples::Maker;
use crate::schema::{Base, Default, Param};
use crate::value::{Outputs, OwnedValue, Value};
use crate::{DType, Element, Layout, MemoryFormat, Op, Result, Scalar, Tensor};
use std::fmt::Write;

/// The dtypes that samples are asked for, in turn, until there is an example.
const DTYPES: [DType; 5] = [DType::F32, DType::I64, DType::Complex64, DType::Bool, DType::U8];

/// The longest example, in characters; the longest where there is no short one; and the most results.
const LONGEST: usize = 800;
const LONGER: usize = 3000;
const MOST_RESULTS: usize = 4;

/// Tensors of more elements are made of evenly spaced numbers where there is no short example otherwise.
const FEW: i64 = 8;

/// A call longer than this has one argument on each line.
const LINE: usize = 100;

/// The example of an operator: lines that begin with `>>> ` or `... `, and what they print. `None` where it has no
/// samples, or none that is short and prints the same every time.
pub fn of(op: &'static Op) -> Option<String> {
    let made = |dtype: DType| op.samples.into_iter().flat_map(move |make| make(&mut Maker::new(dtype)));
    let shortest = |dtype: DType, longest: usize, change: fn(&OwnedValue) -> Result<OwnedValue>| {
        let texts = made(dtype).filter_map(|sample| {
            let elements: i64 = tensors(&sample.args).iter().map(|t| t.numel()).sum();
            let changed: Result<Vec<_>> = sample.args.iter().map(change).collect();
            let text = changed.ok().and_then(|args| example(op, &args)).or_else(|| example(op, &sample.args))?;
            // One number shows less than a few do, and nothing shows nothing.
            let dull = [2 * LONGER, LONGER, 0][elements.clamp(0, 2) as usize];
            (text.len() <= longest).then(|| (text.len() + dull, text))
        });
        texts.min_by_key(|(length, _)| *length).map(|(_, text)| text)
    };
    let readable = DTYPES.into_iter().find_map(|dtype| shortest(dtype, LONGEST, rounded));
    readable.or_else(|| DTYPES.into_iter().find_map(|dtype| shortest(dtype, LONGER, spaced)))
}

fn tensors(args: &[OwnedValue]) -> Vec<&Tensor> {
    fn of(a: &OwnedValue) -> Vec<&Tensor> {
        match a {
            OwnedValue::Tensor(t) => vec![t],
            OwnedValue::Tensors(ts) => ts.iter().collect(),
            OwnedValue::OptionalTensors(ts) => ts.iter().flatten().collect(),
            _ => vec![],
        }
    }
    args.iter().flat_map(of).collect()
}

/// An argument with tensors of evenly spaced numbers from 0 to 1 instead of larger ones of floats.
fn spaced(a: &OwnedValue) -> Result<OwnedValue> {
    let one = |t: &Tensor| match t.dtype().is_floating_point() && t.numel() > FEW {
        true => even(t.dtype(), t.numel())?.reshape(t.sizes()),
        false => rounded_tensor(t),
    };
    Ok(match a {
        OwnedValue::Tensor(t) => OwnedValue::Tensor(one(t)?),
        OwnedValue::Tensors(ts) => OwnedValue::Tensors(ts.iter().map(one).collect::<Result<_>>()?),
        other => rounded(other)?,
    })
}

fn even(dtype: DType, n: i64) -> Result<Tensor> {
    Tensor::linspace(0.0, 1.0, n, dtype)
}

/// An argument with its numbers rounded to one place after the point.
fn rounded(a: &OwnedValue) -> Result<OwnedValue> {
    let number = |x: f64| (x * 10.0).round() / 10.0;
    Ok(match a {
        OwnedValue::Tensor(t) => OwnedValue::Tensor(rounded_tensor(t)?),
        OwnedValue::Tensors(ts) => OwnedValue::Tensors(ts.iter().map(rounded_tensor).collect::<Result<_>>()?),
        OwnedValue::OptionalTensors(ts) => OwnedValue::OptionalTensors(
            ts.iter().map(|t| t.as_ref().map(rounded_tensor).transpose()).collect::<Result<_>>()?,
        ),
        OwnedValue::Float(x) if number(*x) != 0.0 => OwnedValue::Float(number(*x)),
        other => other.clone(),
    })
}

fn rounded_tensor(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() {
        return rounded_tensor(&t.view_as_real()?)?.view_as_complex();
    }
    match t.dtype().is_differentiable() {
        true => t.to_dtype(DType::F64)?.mul(10.0)?.round()?.div(10.0)?.to_dtype(t.dtype()),
        false => t.contiguous(),
    }
}

/// The text of one call; `None` where it cannot be written, fails, or prints something else the second time.
fn example(op: &'static Op, args: &[OwnedValue]) -> Option<String> {
    let call = call_text(op, args)?;
    let (first, drew) = shown(op, args)?;
    let (second, _) = shown(op, args)?;
    if first != second {
        return None;
    }
    let mut text = String::new();
    if drew {
        text.push_str(">>> _ = flambeau.manual_seed(0)\n");
    }
    let (names, prints) = first;
    let names = match &names[..] {
        [] => String::new(),
        [one] => format!("({one},) = "),
        more => format!("{} = ", more.join(", ")),
    };
    for (i, line) in format!("{names}{call}").lines().enumerate() {
        let _ = writeln!(text, "{} {line}", if i == 0 { ">>>" } else { "..." });
    }
    for print in prints {
        text.push_str(&print);
        text.push('\n');
    }
    Some(text)
}

/// What a call gives: names for the results where there are several, what is printed, and whether random numbers were
/// drawn.
type Shown = ((Vec<String>, Vec<String>), bool);

fn shown(op: &'static Op, args: &[OwnedValue]) -> Option<Shown> {
    // Of what it writes to, a copy.
    let args: Option<Vec<OwnedValue>> = args.iter().map(copied).collect();
    let args = args?;
    let values: Vec<Value<'_>> = args.iter().map(OwnedValue::borrow).collect();
    let generator = Generator::default_generator();
    let callers = generator.get_state();
    manual_seed(0);
    let before = generator.get_state();
    let outputs = op.call(&values);
    let drew = generator.get_state() != before;
    generator.set_state(&callers).ok()?;
    let outputs = outputs.ok()?;
    let plain = |t: &Tensor| t.is_strided() && t.device().is_cpu() && !has_residues(t);
    let listed = op.schema().returns.first().is_some_and(|r| r.ty.list.is_some());
    let outputs = match outputs {
        Outputs::One(t) if listed => Outputs::Many(vec![Some(t)]),
        other => other,
    };
    let shown = match outputs {
        Outputs::None => return None,
        Outputs::One(t) => (vec![], vec![plain(&t).then(|| t.to_string())?]),
        Outputs::Scalar(s) => (vec![], vec![number(s)?]),
        Outputs::Many(results) => {
            if results.is_empty() || results.len() > MOST_RESULTS {
                return None;
            }
            let named = &op.schema().returns;
            let name = |i: usize| match named.get(i).and_then(|r| r.name.clone()) {
                Some(name) if named.len() == results.len() => name,
                _ => ["first", "second", "third", "fourth"][i].to_string(),
            };
            let mut lines = vec![];
            for (i, result) in results.iter().enumerate() {
                let result = result.as_ref()?;
                lines.push(format!(">>> {}\n{}", name(i), plain(result).then(|| result.to_string())?));
            }
            ((0..results.len()).map(name).collect(), lines)
        }
    };
    Some((shown, drew))
}

/// Whether there are elements that are hardly more than what others were rounded by: instruction sets differ in those.
fn has_residues(t: &Tensor) -> bool {
    if !t.dtype().is_differentiable() {
        return false;
    }
    let parts = if t.dtype().is_complex() { t.view_as_real() } else { Ok(t.clone()) };
    let elements = parts.and_then(|t| t.to_dtype(DType::F64)?.to_vec::<f64>()).unwrap_or_default();
    let finite = || elements.iter().map(|x| x.abs()).filter(|x| x.is_finite() && *x > 0.0);
    let largest = finite().fold(0.0, f64::max);
    finite().any(|x| x < 1e-5 * largest.min(1.0))
}

/// The argument as its literal would make it: on its own memory, row-major.
fn copied(a: &OwnedValue) -> Option<OwnedValue> {
    let copy = |t: &Tensor| t.contiguous().and_then(|t| t.clone_in(MemoryFormat::Contiguous)).ok();
    Some(match a {
        OwnedValue::Tensor(t) => OwnedValue::Tensor(copy(t)?),
        OwnedValue::Tensors(ts) => OwnedValue::Tensors(ts.iter().map(copy).collect::<Option<_>>()?),
        OwnedValue::OptionalTensors(ts) => OwnedValue::OptionalTensors(
            ts.iter()
                .map(|t| match t {
                    Some(t) => copy(t).map(Some),
                    None => Some(None),
                })
                .collect::<Option<_>>()?,
        ),
        other => other.clone(),
    })
}

/// The call in Python: what is as by default is left out, and what follows such an argument is named.
fn call_text(op: &'static Op, args: &[OwnedValue]) -> Option<String> {
    if op.full_name().ends_with(".from") {
        return None; // A word that Python keeps for itself.
    }
    let mut written: Vec<String> = Vec::new();
    let mut by_name = false;
    for (param, a) in op.schema().params.iter().zip(args) {
        by_name |= param.keyword_only;
        if is_default(param, a) {
            by_name = true;
            continue;
        }
        // Few functions take a number where the schema says tensor.
        let number = matches!(a, OwnedValue::Scalar(_)) || number_of(a).is_some();
        if number && param.ty.base == Base::Tensor {
            return None;
        }
        let text = literal(a)?;
        written.push(if by_name { format!("{}={text}", param.name) } else { text });
    }
    let name = format!("flambeau.ops.{}.{}", op.schema().namespace, op.full_name());
    let line = format!("{name}({})", written.join(", "));
    Some(match line.len() > LINE && written.len() > 1 {
        true => format!("{name}(\n    {},\n)", written.join(",\n    ")),
        false => line,
    })
}

fn is_default(param: &Param, a: &OwnedValue) -> bool {
    match (&param.default, a) {
        (Some(Default::None), OwnedValue::None) => true,
        (Some(Default::Scalar(d)), OwnedValue::Int(_) | OwnedValue::Float(_) | OwnedValue::Bool(_)) => {
            number_of(a) == Some(*d)
        }
        (Some(Default::Scalar(d)), OwnedValue::Scalar(s)) => d == s,
        (Some(Default::Scalar(d)), OwnedValue::Ints(x)) => {
            let length = param.ty.list.flatten().unwrap_or(1);
            x.len() == length && x.iter().all(|x| Scalar::Int(*x) == *d)
        }
        (Some(Default::Ints(d)), OwnedValue::Ints(x)) => d == x,
        (Some(Default::Str(d)), OwnedValue::Str(x)) => d == x,
        _ => false,
    }
}

fn number_of(a: &OwnedValue) -> Option<Scalar> {
    match a {
        OwnedValue::Int(i) => Some(Scalar::Int(*i)),
        OwnedValue::Float(x) => Some(Scalar::Float(*x)),
        OwnedValue::Bool(b) => Some(Scalar::Bool(*b)),
        _ => None,
    }
}

/// A value as Python writes it, if it can.
fn literal(a: &OwnedValue) -> Option<String> {
    fn list<T>(xs: &[T], item: impl Fn(&T) -> Option<String>) -> Option<String> {
        Some(format!("[{}]", xs.iter().map(item).collect::<Option<Vec<_>>>()?.join(", ")))
    }
    match a {
        OwnedValue::None => Some("None".into()),
        OwnedValue::Tensor(t) => tensor(t),
        OwnedValue::Tensors(ts) => list(ts, tensor),
        OwnedValue::OptionalTensors(ts) => list(ts, |t| t.as_ref().map_or_else(|| Some("None".into()), tensor)),
        OwnedValue::Scalar(s) => number(*s),
        OwnedValue::Scalars(xs) => list(xs, |x| number(*x)),
        OwnedValue::Int(_) | OwnedValue::Float(_) | OwnedValue::Bool(_) => number(number_of(a)?),
        OwnedValue::Ints(xs) => list(xs, |x| number(Scalar::Int(*x))),
        OwnedValue::Floats(xs) => list(xs, |x| number(Scalar::Float(*x))),
        OwnedValue::Bools(xs) => list(xs, |x| number(Scalar::Bool(*x))),
        OwnedValue::DType(d) => Some(format!("flambeau.{}", d.name())),
        OwnedValue::Device(d) => Some(format!("'{d}'")),
        OwnedValue::Layout(l) => (*l == Layout::Strided).then(|| "flambeau.strided".into()),
        OwnedValue::MemoryFormat(m) => Some(match m {
            MemoryFormat::Contiguous => "flambeau.contiguous_format".into(),
            MemoryFormat::Preserve => "flambeau.preserve_format".into(),
            MemoryFormat::ChannelsLast => "flambeau.channels_last".into(),
            MemoryFormat::ChannelsLast3d => "flambeau.channels_last_3d".into(),
        }),
        OwnedValue::Str(s) => (!s.contains(['\'', '\\'])).then(|| format!("'{s}'")),
        OwnedValue::Generator(_) => None,
    }
}

fn number(s: Scalar) -> Option<String> {
    Some(match s {
        Scalar::Bool(true) => "True".into(),
        Scalar::Bool(false) => "False".into(),
        Scalar::Int(i) => i.to_string(),
        Scalar::UInt(i) => i.to_string(),
        Scalar::Float(x) => float(x, format!("{x:?}")),
        Scalar::Complex(z) if z.is_finite() => {
            format!("{:?}{}{:?}j", z.re, if z.im.is_sign_negative() { "" } else { "+" }, z.im)
        }
        Scalar::Complex(_) => return None,
    })
}

/// A finite number's digits, or the name of one that is not.
fn float(x: f64, digits: String) -> String {
    match x {
        x if x.is_nan() => "flambeau.nan".into(),
        f64::INFINITY => "flambeau.inf".into(),
        f64::NEG_INFINITY => "-flambeau.inf".into(),
        _ => digits,
    }
}

/// A tensor as nested lists of its elements.
fn tensor(t: &Tensor) -> Option<String> {
    if !t.is_strided() || !t.device().is_cpu() || t.requires_grad() {
        return None;
    }
    let dtype = match t.dtype() {
        DType::F32 | DType::I64 | DType::Bool | DType::Complex64 => String::new(),
        other => format!(", dtype=flambeau.{}", other.name()),
    };
    if t.numel() == 0 {
        let dtype =
            if t.dtype() == DType::F32 { String::new() } else { format!(", dtype=flambeau.{}", t.dtype().name()) };
        return Some(format!("flambeau.empty({:?}{dtype})", t.sizes()));
    }
    if t.dtype() == DType::F32 && t.numel() > FEW {
        let line = even(t.dtype(), t.numel()).ok()?;
        if line.to_bytes().ok()? == t.to_bytes().ok()? {
            let reshape = if t.dim() == 1 { String::new() } else { format!(".reshape({})", joined(t.sizes())) };
            return Some(format!("flambeau.linspace(0, 1, {}){reshape}", t.numel()));
        }
    }
    let elements = crate::dispatch_dtype!(t.dtype(), T => {
        t.to_vec::<T>().ok()?.into_iter().map(|x| element(t.dtype(), x.to_scalar())).collect::<Option<Vec<String>>>()?
    });
    Some(format!("flambeau.tensor({}{dtype})", nested(t.sizes(), &elements)))
}

/// An element with no more digits than it takes to read it back into its dtype.
fn element(dtype: DType, x: Scalar) -> Option<String> {
    match (dtype, x) {
        (DType::F32, Scalar::Float(x)) => Some(float(x, format!("{:?}", x as f32))),
        (DType::Complex64, Scalar::Complex(z)) if z.is_finite() => {
            Some(format!("{:?}{}{:?}j", z.re as f32, if z.im.is_sign_negative() { "" } else { "+" }, z.im as f32))
        }
        _ => number(x),
    }
}

fn joined(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

fn nested(sizes: &[i64], elements: &[String]) -> String {
    let Some((first, rest)) = sizes.split_first() else { return elements.first().cloned().unwrap_or_default() };
    let each = elements.len() / (*first).max(1) as usize;
    let items: Vec<String> = elements.chunks(each.max(1)).map(|part| nested(rest, part)).collect();
    format!("[{}]", items.join(", "))
}
