//! Overload resolution: untyped arguments, by position and by name, to one of an operator's schemas and its full list
//! of typed arguments.
//!
//! The rules are those of PyTorch's argument parser: numbers stand in for 0-d tensors only in arithmetic, 0-d tensors
//! for numbers anywhere, an integer expands to a fixed-length list, a list of sizes may be spread over the positional
//! arguments, and `input`, `axis`, `keepdims`, ... are other names of parameters. Where PyTorch relies on the order in
//! which its overloads are written, here the one that needs the fewest conversions wins, so that no order matters.

use super::value::Value;
use flambeau::OwnedValue;
use flambeau::schema::{Base, Default, Param, Schema, Type};
use flambeau_base::{DType, Device, Error, Layout, MemoryFormat, Result, Scalar};
use std::any::Any;
use std::rc::Rc;

/// What resolution asks of a tensor.
pub trait TensorArgument: Clone {
    /// How many dimensions it has.
    fn dim(&self) -> usize;
    /// Its dtype.
    fn dtype(&self) -> DType;
    /// The one element of a 0-d tensor, if it may stand for a number.
    fn number(&self) -> Option<Scalar>;
}

/// A typed argument, in the type that its parameter has.
#[derive(Clone)]
#[allow(missing_docs)]
pub enum Argument<T> {
    None,
    Tensor(T),
    Tensors(Vec<T>),
    OptionalTensors(Vec<Option<T>>),
    /// A number; also where the schema says `Tensor`.
    Scalar(Scalar),
    Scalars(Vec<Scalar>),
    Int(i64),
    Ints(Vec<i64>),
    Float(f64),
    Floats(Vec<f64>),
    Bool(bool),
    Bools(Vec<bool>),
    DType(DType),
    Device(Device),
    Layout(Layout),
    MemoryFormat(MemoryFormat),
    Str(String),
    /// A generator, as the caller passed it.
    Object(Rc<dyn Any>),
}

/// Where an argument came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It was not given.
    Default,
    /// This positional argument.
    Positional(usize),
    /// All positional arguments from this one on.
    Spread(usize),
    /// This argument by name.
    Keyword(usize),
    /// An item of a tuple given by name (`out=(values, indices)`).
    KeywordItem(usize, usize),
}

/// The chosen overload and its arguments.
pub struct Bound<T> {
    /// Its place among the schemas.
    pub overload: usize,
    /// One argument per parameter.
    pub arguments: Vec<Argument<T>>,
    /// Where each came from.
    pub sources: Vec<Source>,
}

/// Operators that take a number where their schema says `Tensor`.
pub fn takes_numbers_as_tensors(name: &str) -> bool {
    const NAMES: &[&str] =
        &["add", "sub", "mul", "div", "divide", "multiply", "subtract", "true_divide", "floor_divide", "to", "copy"];
    NAMES.contains(&name.strip_suffix('_').unwrap_or(name))
}

/// What a conversion costs; exact matches are free.
mod cost {
    pub const NUMBER_TO_WIDER: u32 = 1;
    pub const EXPANDED: u32 = 3;
    pub const SPREAD: u32 = 4;
    pub const TENSOR_TO_NUMBER: u32 = 20;
    pub const NUMBER_TO_TENSOR: u32 = 40;
}

/// Picks the overload.
///
/// # Errors
/// [`flambeau_base::ErrorKind::Type`] when none takes these arguments: what is wrong with the only one, or the list of
/// all, in PyTorch's words.
pub fn resolve<T: TensorArgument>(
    schemas: &[&Schema],
    args: &[Value<T>],
    kwargs: &[(String, Value<T>)],
) -> Result<Bound<T>> {
    let mut best: Option<(u32, Bound<T>)> = None;
    let mut reasons = Vec::new();
    for (overload, schema) in schemas.iter().enumerate() {
        match bind(schema, args, kwargs) {
            Ok((cost, arguments, sources)) => {
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, Bound { overload, arguments, sources }));
                }
            }
            Err(reason) => reasons.push((takes_out(schema), reason)),
        }
    }
    if let Some((_, bound)) = best {
        return Ok(bound);
    }
    let name = schemas.first().map_or("", |s| &s.name);
    // A function and its `out=` form are one signature.
    let out = kwargs.iter().any(|(n, _)| n == "out");
    let mut matching = reasons.iter().filter(|(takes_out, _)| *takes_out == out);
    if let (true, Some((_, reason)), None) = (schemas.len() <= 2, matching.next(), matching.next()) {
        return Err(Error::type_(reason.clone()));
    }
    let got: Vec<String> = args
        .iter()
        .map(|a| a.type_name().to_string())
        .chain(kwargs.iter().map(|(n, v)| format!("{n}={}", v.type_name())))
        .collect();
    let mut message = format!(
        "{name}() received an invalid combination of arguments - got ({}), but expected one of:",
        got.join(", ")
    );
    for s in schemas {
        message.push_str("\n * ");
        message.push_str(&show(s));
    }
    Err(Error::type_(message))
}

/// A schema as messages show it.
fn show(s: &Schema) -> String {
    let mut text = Vec::new();
    let mut keyword_only = false;
    for p in &s.params {
        if p.keyword_only && !std::mem::replace(&mut keyword_only, true) {
            text.push("*".to_string());
        }
        let ty = match p.ty.base {
            Base::Scalar => p.ty.to_string().replace("Scalar", "Number"),
            _ => p.ty.to_string(),
        };
        let default = p.default.as_ref().map_or(String::new(), |d| {
            format!(
                " = {}",
                match d {
                    Default::None => "None".into(),
                    Default::Scalar(s) => s.to_string(),
                    Default::Ints(v) => format!("{v:?}"),
                    Default::Str(s) => s.clone(),
                }
            )
        });
        text.push(format!("{ty} {}{default}", p.name));
    }
    format!("({})", text.join(", "))
}

/// Other names that users give parameters.
fn is_called(parameter: &str, given: &str) -> bool {
    match parameter {
        _ if parameter == given => true,
        "self" => matches!(given, "input" | "x" | "a" | "x1"),
        "input" => matches!(given, "self" | "x" | "a" | "x1"),
        "other" => given == "x2",
        "dim" => given == "axis",
        "keepdim" => given == "keepdims",
        _ => false,
    }
}

/// An output that the caller gives.
fn is_out(p: &Param) -> bool {
    p.keyword_only && p.alias.as_ref().is_some_and(|a| a.write)
}

/// Whether a schema is an `out=` form.
fn takes_out(schema: &Schema) -> bool {
    schema.params.iter().any(is_out)
}

type Binding<T> = (u32, Vec<Argument<T>>, Vec<Source>);

/// Binds to one schema, or says why not.
fn bind<T: TensorArgument>(
    schema: &Schema,
    args: &[Value<T>],
    kwargs: &[(String, Value<T>)],
) -> std::result::Result<Binding<T>, String> {
    let params = &schema.params;
    let refuse = |why: String| Err(format!("{}(){why}", schema.name));
    let positional = params.iter().filter(|p| !p.keyword_only).count();
    let mut sources = vec![Source::Default; params.len()];
    let spread = spread_start(params, positional, args);
    let used = spread.map_or(args.len(), |s| s + 1);
    if used > positional {
        return refuse(format!(" takes {positional} positional arguments but {} were given", args.len()));
    }
    for (i, source) in sources[..used].iter_mut().enumerate() {
        *source = if spread == Some(i) { Source::Spread(i) } else { Source::Positional(i) };
    }
    for (k, (name, value)) in kwargs.iter().enumerate() {
        let outs: Vec<usize> = params.iter().enumerate().filter(|(_, p)| is_out(p)).map(|(i, _)| i).collect();
        if name == "out" && !outs.is_empty() {
            match (value.items(), &outs[..]) {
                (Some(items), outs) if items.len() == outs.len() => {
                    outs.iter().enumerate().for_each(|(i, p)| sources[*p] = Source::KeywordItem(k, i));
                }
                (None, [one]) => sources[*one] = Source::Keyword(k),
                _ => {
                    return refuse(format!(
                        ": argument 'out' must be {} Tensors, not {}",
                        outs.len(),
                        value.type_name()
                    ));
                }
            }
            continue;
        }
        match params.iter().position(|p| is_called(&p.name, name)) {
            Some(i) if sources[i] == Source::Default => sources[i] = Source::Keyword(k),
            Some(_) => return refuse(format!(" got multiple values for argument '{name}'")),
            // Not given after all.
            None if value.is_none() => {}
            // Creation functions take these beside `out=`, whose own they must be.
            None if !outs.is_empty() && matches!(name.as_str(), "dtype" | "layout" | "device" | "pin_memory") => {}
            None => return refuse(format!(" got an unexpected keyword argument '{name}'")),
        }
    }
    let numbers = takes_numbers_as_tensors(&schema.name);
    let mut total = 0;
    let mut arguments = Vec::with_capacity(params.len());
    for (i, p) in params.iter().enumerate() {
        let all;
        let value = match sources[i] {
            Source::Default => match p.default {
                Some(_) => {
                    arguments.push(default_argument(p));
                    continue;
                }
                None => return refuse(format!(" missing 1 required positional arguments: \"{}\"", p.name)),
            },
            Source::Positional(k) => &args[k],
            Source::Spread(k) => {
                all = Value::Tuple(args[k..].to_vec());
                total += cost::SPREAD;
                &all
            }
            Source::Keyword(k) => &kwargs[k].1,
            Source::KeywordItem(k, item) => &kwargs[k].1.items().unwrap_or_default()[item],
        };
        match convert(&p.ty, value, numbers) {
            Some((argument, cost)) => {
                total += cost;
                arguments.push(argument);
            }
            // `stride=None` where an empty list means that none is given.
            None if value.is_none()
                && p.default.as_ref().is_some_and(|d| matches!(d, Default::Ints(v) if v.is_empty())) =>
            {
                arguments.push(Argument::Ints(vec![]));
            }
            None => {
                if let (Base::Tensor, Some(_), Some(items)) = (p.ty.base, p.ty.list, value.items()) {
                    let stranger = items.iter().enumerate().find(|(_, v)| !matches!(v, Value::Tensor(_)));
                    if let Some((k, v)) = stranger {
                        let got = v.type_name();
                        return Err(format!("expected Tensor as element {k} in argument {i}, but got {got}"));
                    }
                }
                let place = match sources[i] {
                    Source::Positional(k) | Source::Spread(k) => format!(" (position {})", k + 1),
                    _ => String::new(),
                };
                let ty = match (p.ty.base, p.ty.list) {
                    (Base::Scalar, None) => "Number".to_string(),
                    (Base::Int, Some(_)) => "tuple of ints".to_string(),
                    (Base::Tensor, Some(_)) => "tuple of Tensors".to_string(),
                    (base, _) => Type { base, optional: false, list: None, optional_elements: false }.to_string(),
                };
                let got = value.type_name();
                return refuse(format!(": argument '{}'{place} must be {ty}, not {got}", p.name));
            }
        }
    }
    Ok((total, arguments, sources))
}

/// The positional argument from which on all are the items of one list of integers: `x.view(2, 3)`.
fn spread_start<T: TensorArgument>(params: &[Param], positional: usize, args: &[Value<T>]) -> Option<usize> {
    let at = params[..positional].iter().position(|p| p.name != "self")?;
    let list = params[at].ty.base == Base::Int && params[at].ty.list == Some(None);
    let is_int = |v: &Value<T>| match v {
        Value::Number(Scalar::Int(_) | Scalar::UInt(_)) => true,
        Value::Tensor(t) => t.dim() == 0 && t.dtype().is_integral(false),
        _ => false,
    };
    (list && positional == at + 1 && args.len() > at && args[at..].iter().all(is_int)).then_some(at)
}

/// The number a value stands for, and what that costs.
fn number<T: TensorArgument>(v: &Value<T>) -> Option<(Scalar, u32)> {
    match v {
        Value::Number(s) => Some((*s, 0)),
        Value::Tensor(t) if t.dim() == 0 => Some((t.number()?, cost::TENSOR_TO_NUMBER)),
        _ => None,
    }
}

fn int<T: TensorArgument>(v: &Value<T>) -> Option<(i64, u32)> {
    match number(v)? {
        (Scalar::Int(i), c) => Some((i, c)),
        (Scalar::UInt(u), c) => Some((u as i64, c)),
        _ => None,
    }
}

fn float<T: TensorArgument>(v: &Value<T>) -> Option<(f64, u32)> {
    match number(v)? {
        (Scalar::Float(x), c) => Some((x, c)),
        (Scalar::Complex(_), _) => None,
        (s, c) => Some((s.to_f64(), c + cost::NUMBER_TO_WIDER)),
    }
}

fn boolean<T: TensorArgument>(v: &Value<T>) -> Option<(bool, u32)> {
    match v {
        Value::Number(Scalar::Bool(b)) => Some((*b, 0)),
        _ => None,
    }
}

fn tensor<T: TensorArgument>(v: &Value<T>) -> Option<(T, u32)> {
    match v {
        Value::Tensor(t) => Some((t.clone(), 0)),
        _ => None,
    }
}

fn optional_tensor<T: TensorArgument>(v: &Value<T>) -> Option<(Option<T>, u32)> {
    match v {
        Value::Tensor(t) => Some((Some(t.clone()), 0)),
        Value::None => Some((None, 0)),
        _ => None,
    }
}

/// Items of a list, or one item expanded to a list of fixed length.
fn list<T: TensorArgument, U: Clone>(
    v: &Value<T>,
    length: Option<usize>,
    item: impl Fn(&Value<T>) -> Option<(U, u32)>,
) -> Option<(Vec<U>, u32)> {
    match (v.items(), length) {
        (Some(items), _) => {
            let converted = items.iter().map(item).collect::<Option<Vec<_>>>()?;
            let cost = converted.iter().map(|(_, c)| c).sum();
            Some((converted.into_iter().map(|(x, _)| x).collect(), cost))
        }
        (None, Some(n)) => item(v).map(|(x, c)| (vec![x; n], c + cost::EXPANDED)),
        (None, None) => None,
    }
}

fn convert<T: TensorArgument>(ty: &Type, v: &Value<T>, numbers: bool) -> Option<(Argument<T>, u32)> {
    if v.is_none() {
        return ty.optional.then_some((Argument::None, 0));
    }
    if let Some(length) = ty.list {
        return Some(match ty.base {
            Base::Tensor if ty.optional_elements => {
                list(v, None, optional_tensor).map(|(x, c)| (Argument::OptionalTensors(x), c))?
            }
            Base::Tensor => list(v, None, tensor).map(|(x, c)| (Argument::Tensors(x), c))?,
            Base::Int => list(v, length, int).map(|(x, c)| (Argument::Ints(x), c))?,
            Base::Float => list(v, length, float).map(|(x, c)| (Argument::Floats(x), c))?,
            Base::Bool => list(v, length, boolean).map(|(x, c)| (Argument::Bools(x), c))?,
            Base::Scalar => list(v, length, number).map(|(x, c)| (Argument::Scalars(x), c))?,
            _ => return None,
        });
    }
    let free = |a: Argument<T>| Some((a, 0));
    match (ty.base, v) {
        (Base::Tensor, Value::Tensor(t)) => free(Argument::Tensor(t.clone())),
        (Base::Tensor, Value::Number(s)) if numbers => Some((Argument::Scalar(*s), cost::NUMBER_TO_TENSOR)),
        (Base::Scalar, v) => number(v).map(|(x, c)| (Argument::Scalar(x), c)),
        (Base::Int, v) => int(v).map(|(x, c)| (Argument::Int(x), c)),
        (Base::Float, v) => float(v).map(|(x, c)| (Argument::Float(x), c)),
        (Base::Bool, v) => boolean(v).map(|(x, c)| (Argument::Bool(x), c)),
        (Base::Str, Value::Str(s)) => free(Argument::Str(s.clone())),
        (Base::ScalarType, Value::DType(d)) => free(Argument::DType(*d)),
        (Base::Layout, Value::Layout(l)) => free(Argument::Layout(*l)),
        (Base::Device, Value::Device(s) | Value::Str(s)) => free(Argument::Device(s.parse().ok()?)),
        (Base::MemoryFormat, Value::MemoryFormat(m)) => free(Argument::MemoryFormat(*m)),
        (Base::Generator, Value::Object(o)) => free(Argument::Object(o.clone())),
        _ => None,
    }
}

/// A schema's default in the type of its parameter.
fn default_argument<T>(p: &Param) -> Argument<T> {
    match p.default_value() {
        Some(OwnedValue::Scalar(x)) => Argument::Scalar(x),
        Some(OwnedValue::Int(x)) => Argument::Int(x),
        Some(OwnedValue::Ints(x)) => Argument::Ints(x),
        Some(OwnedValue::Float(x)) => Argument::Float(x),
        Some(OwnedValue::Floats(x)) => Argument::Floats(x),
        Some(OwnedValue::Bool(x)) => Argument::Bool(x),
        Some(OwnedValue::Bools(x)) => Argument::Bools(x),
        Some(OwnedValue::DType(x)) => Argument::DType(x),
        Some(OwnedValue::Layout(x)) => Argument::Layout(x),
        Some(OwnedValue::MemoryFormat(x)) => Argument::MemoryFormat(x),
        Some(OwnedValue::Str(x)) => Argument::Str(x),
        _ => Argument::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tensor of some rank; 0-d ones hold an integer.
    #[derive(Clone, Debug)]
    struct Fake(usize, DType);

    impl TensorArgument for Fake {
        fn dim(&self) -> usize {
            self.0
        }
        fn dtype(&self) -> DType {
            self.1
        }
        fn number(&self) -> Option<Scalar> {
            (self.0 == 0).then_some(Scalar::Int(7))
        }
    }

    fn pick(texts: &[&str], args: &[Value<Fake>], kwargs: &[(&str, Value<Fake>)]) -> Result<(String, Bound<Fake>)> {
        let schemas: Vec<Schema> = texts.iter().map(|t| Schema::parse(t).unwrap()).collect();
        let schemas: Vec<&Schema> = schemas.iter().collect();
        let kwargs: Vec<_> = kwargs.iter().map(|(n, v)| (n.to_string(), v.clone())).collect();
        resolve(&schemas, args, &kwargs).map(|b| (schemas[b.overload].overload.clone(), b))
    }

    fn tensor(dim: usize) -> Value<Fake> {
        Value::Tensor(Fake(dim, DType::I64))
    }

    const POW: [&str; 4] = [
        "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
        "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
        "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
        "pow.Tensor_Tensor_out(Tensor self, Tensor exponent, *, Tensor(a!) out) -> Tensor(a!)",
    ];
    const STD: [&str; 3] = [
        "std(Tensor self, bool unbiased=True) -> Tensor",
        "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    ];

    #[test]
    fn the_overload_follows_the_kinds() {
        let pow = |a: Value<Fake>, b: Value<Fake>| pick(&POW, &[a, b], &[]).map(|(o, _)| o).unwrap_or_default();
        assert_eq!(pow(tensor(2), tensor(0)), "Tensor_Tensor");
        assert_eq!(pow(tensor(2), Value::float(2.0)), "Tensor_Scalar");
        assert_eq!(pow(Value::int(2), tensor(0)), "Scalar");
        assert_eq!(pow(Value::int(2), Value::int(2)), "");
        let out = pick(&POW, &[tensor(1), tensor(1)], &[("out", tensor(1))]).unwrap();
        assert_eq!((out.0.as_str(), out.1.sources[2]), ("Tensor_Tensor_out", Source::Keyword(0)));

        assert_eq!(pick(&STD, &[tensor(2), Value::bool(false)], &[]).unwrap().0, "");
        assert_eq!(pick(&STD, &[tensor(2), Value::int(1), Value::bool(false)], &[]).unwrap().0, "dim");
        assert_eq!(pick(&STD, &[tensor(2)], &[("correction", Value::int(0))]).unwrap().0, "correction");
        let (name, bound) =
            pick(&STD, &[tensor(2)], &[("axis", Value::int(-1)), ("keepdims", Value::bool(true))]).unwrap();
        assert_ne!(name, "");
        assert!(matches!(&bound.arguments[1], Argument::Ints(v) if v == &[-1]));
    }

    #[test]
    fn lists_spread_expand_and_default() {
        let view = [
            "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
            "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
        ];
        let (_, b) = pick(&view, &[tensor(2), Value::int(3), Value::int(-1)], &[]).unwrap();
        assert!(matches!(&b.arguments[1], Argument::Ints(v) if v == &[3, -1]) && b.sources[1] == Source::Spread(1));
        assert_eq!(pick(&view, &[tensor(2), Value::DType(DType::F16)], &[]).unwrap().0, "dtype");
        let pool = ["avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0) -> Tensor"];
        let (_, b) = pick(&pool, &[tensor(4), Value::int(3)], &[("stride", Value::None)]).unwrap();
        assert!(matches!(&b.arguments[1], Argument::Ints(v) if v == &[3, 3]));
        assert!(matches!(&b.arguments[2], Argument::Ints(v) if v.is_empty()));
        assert!(matches!(&b.arguments[3], Argument::Ints(v) if v == &[0, 0]));
        let max = [
            "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> (Tensor(a!) values, Tensor(b!) indices)",
        ];
        let outs = Value::Tuple(vec![tensor(1), tensor(1)]);
        let (_, b) = pick(&max, &[tensor(2), Value::int(0)], &[("out", outs)]).unwrap();
        assert_eq!(b.sources[3..], [Source::KeywordItem(0, 0), Source::KeywordItem(0, 1)]);
        let randint = ["randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4) -> Tensor"];
        let (_, b) = pick(&randint, &[Value::int(5), Value::ints(&[2])], &[]).unwrap();
        assert!(matches!(b.arguments[2], Argument::DType(DType::I64)));
    }

    #[test]
    fn refusals_say_why() {
        let add = ["add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"];
        assert!(pick(&add, &[tensor(1), Value::float(1.5)], &[]).is_ok());
        let said = |args: &[Value<Fake>], kwargs: &[(&str, Value<Fake>)]| {
            pick(&add, args, kwargs).err().map(|e| e.message().to_string()).unwrap_or_default()
        };
        assert_eq!(
            said(&[tensor(1), Value::None], &[]),
            "add(): argument 'other' (position 2) must be Tensor, not NoneType"
        );
        assert_eq!(said(&[tensor(1)], &[]), "add() missing 1 required positional arguments: \"other\"");
        assert_eq!(
            said(&[tensor(1), tensor(1)], &[("beta", Value::int(1))]),
            "add() got an unexpected keyword argument 'beta'"
        );
        assert_eq!(
            said(&[tensor(1), tensor(1), Value::int(2)], &[]),
            "add() takes 2 positional arguments but 3 were given"
        );
        let e = pick(&POW, &[tensor(1), Value::Str("a".into())], &[]).err().unwrap();
        assert!(e.message().starts_with("pow() received an invalid combination of arguments - got (Tensor, str)"));
    }
}
