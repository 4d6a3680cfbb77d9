//! Arguments and results as a dynamic language has them: untyped, nested, with tensors of any kind `T`.

use flambeau_base::{DType, Error, Layout, MemoryFormat, Result, Scalar};
use num_complex::Complex;
use serde_json::Value as Json;
use std::any::Any;
use std::fmt;
use std::rc::Rc;

/// One argument or result; `T` stands for a tensor.
#[derive(Clone)]
pub enum Value<T> {
    /// `None`.
    None,
    /// A boolean, an integer, a real or a complex number.
    Number(Scalar),
    /// A string.
    Str(String),
    /// A dtype.
    DType(DType),
    /// A device by name.
    Device(String),
    /// A layout.
    Layout(Layout),
    /// A memory format.
    MemoryFormat(MemoryFormat),
    /// A tensor.
    Tensor(T),
    /// A list.
    List(Vec<Value<T>>),
    /// A tuple.
    Tuple(Vec<Value<T>>),
    /// `start:stop:step`.
    Slice(Box<[Value<T>; 3]>),
    /// `...`.
    Ellipsis,
    /// Something only the target understands, such as a random generator.
    Object(Rc<dyn Any>),
}

/// What stands for a tensor in a recorded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Entry of the file's tensor table.
    Entry(usize),
    /// Result of an earlier step of a program.
    Result(usize),
    /// One item of the result of an earlier step.
    Item(usize, usize),
    /// In an expectation: anything.
    Any,
}

impl<T> Value<T> {
    /// An integer.
    pub fn int(i: i64) -> Value<T> {
        Value::Number(Scalar::Int(i))
    }

    /// A boolean.
    pub fn bool(b: bool) -> Value<T> {
        Value::Number(Scalar::Bool(b))
    }

    /// A real number.
    pub fn float(x: f64) -> Value<T> {
        Value::Number(Scalar::Float(x))
    }

    /// A list of integers.
    pub fn ints(x: &[i64]) -> Value<T> {
        Value::List(x.iter().map(|i| Value::int(*i)).collect())
    }

    /// Whether it is `None`.
    pub fn is_none(&self) -> bool {
        matches!(self, Value::None)
    }

    /// The items of a list or tuple.
    pub fn items(&self) -> Option<&[Value<T>]> {
        match self {
            Value::List(v) | Value::Tuple(v) => Some(v),
            _ => None,
        }
    }

    /// The name of its type in Python, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::None => "NoneType",
            Value::Number(Scalar::Bool(_)) => "bool",
            Value::Number(Scalar::Int(_) | Scalar::UInt(_)) => "int",
            Value::Number(Scalar::Float(_)) => "float",
            Value::Number(Scalar::Complex(_)) => "complex",
            Value::Str(_) => "str",
            Value::DType(_) => "torch.dtype",
            Value::Device(_) => "torch.device",
            Value::Layout(_) => "torch.layout",
            Value::MemoryFormat(_) => "torch.memory_format",
            Value::Tensor(_) => "Tensor",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Slice(_) => "slice",
            Value::Ellipsis => "ellipsis",
            Value::Object(_) => "object",
        }
    }

    /// The same with every tensor replaced.
    ///
    /// # Errors
    /// The first error of `f`.
    pub fn map<U, E>(&self, f: &mut impl FnMut(&T) -> Result<Value<U>, E>) -> Result<Value<U>, E> {
        let mut all = |v: &[Value<T>]| v.iter().map(|x| x.map(f)).collect::<Result<Vec<_>, E>>();
        Ok(match self {
            Value::List(v) => Value::List(all(v)?),
            Value::Tuple(v) => Value::Tuple(all(v)?),
            Value::Slice(v) => Value::Slice(Box::new([v[0].map(f)?, v[1].map(f)?, v[2].map(f)?])),
            Value::Tensor(t) => f(t)?,
            Value::None => Value::None,
            Value::Number(s) => Value::Number(*s),
            Value::Str(s) => Value::Str(s.clone()),
            Value::DType(d) => Value::DType(*d),
            Value::Device(d) => Value::Device(d.clone()),
            Value::Layout(l) => Value::Layout(*l),
            Value::MemoryFormat(m) => Value::MemoryFormat(*m),
            Value::Ellipsis => Value::Ellipsis,
            Value::Object(o) => Value::Object(o.clone()),
        })
    }

    /// All tensors, in order.
    pub fn tensors(&self) -> Vec<&T> {
        fn walk<'a, T>(v: &'a Value<T>, out: &mut Vec<&'a T>) {
            match v {
                Value::Tensor(t) => out.push(t),
                Value::List(v) | Value::Tuple(v) => v.iter().for_each(|x| walk(x, out)),
                _ => {}
            }
        }
        let mut out = Vec::new();
        walk(self, &mut out);
        out
    }
}

impl Value<Recorded> {
    /// Reads one value of `cases.json`.
    pub(super) fn read(json: &Json) -> Result<Value<Recorded>> {
        let bad = || Error::io(format!("not a recorded value: {json}"));
        Ok(match json {
            Json::Null => Value::None,
            Json::Bool(b) => Value::bool(*b),
            Json::Number(n) => Value::Number(match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(i), ..) => Scalar::Int(i),
                (_, Some(u), _) => Scalar::UInt(u),
                (.., Some(x)) => Scalar::Float(x),
                _ => return Err(bad()),
            }),
            Json::String(s) => Value::Str(s.clone()),
            Json::Array(items) => Value::List(Self::read_all(items)?),
            Json::Object(map) => {
                let v = map.get("v").unwrap_or(&Json::Null);
                let text = || v.as_str().ok_or_else(bad);
                let items = || v.as_array().ok_or_else(bad);
                let index = |j: &Json| j.as_u64().map(|i| i as usize).ok_or_else(bad);
                match map.get("%").and_then(Json::as_str).ok_or_else(bad)? {
                    "t" => Value::Tensor(Recorded::Entry(index(v)?)),
                    "r" => Value::Tensor(Recorded::Result(index(v)?)),
                    "ritem" => Value::Tensor(Recorded::Item(index(&v[0])?, index(&v[1])?)),
                    "any" => Value::Tensor(Recorded::Any),
                    "tuple" => Value::Tuple(Self::read_all(items()?)?),
                    "size" => Value::Tuple(Self::read_all(items()?)?),
                    "float" => Value::float(text()?.parse().map_err(|_| bad())?),
                    "complex" => {
                        let part = |i: usize| v[i].as_str().and_then(|s| s.parse().ok()).ok_or_else(bad);
                        Value::Number(Scalar::Complex(Complex::new(part(0)?, part(1)?)))
                    }
                    "dtype" => Value::DType(DType::by_name(text()?).ok_or_else(bad)?),
                    "device" => Value::Device(text()?.to_string()),
                    "name" => named(text()?).ok_or_else(bad)?,
                    "slice" => match <[Value<Recorded>; 3]>::try_from(Self::read_all(items()?)?) {
                        Ok(parts) => Value::Slice(Box::new(parts)),
                        Err(_) => return Err(bad()),
                    },
                    "ellipsis" => Value::Ellipsis,
                    _ => return Err(bad()),
                }
            }
        })
    }

    fn read_all(items: &[Json]) -> Result<Vec<Value<Recorded>>> {
        items.iter().map(Value::read).collect()
    }
}

/// A constant of the `torch` namespace.
fn named<T>(name: &str) -> Option<Value<T>> {
    Some(match name.strip_prefix("torch.")? {
        "strided" => Value::Layout(Layout::Strided),
        "sparse_coo" => Value::Layout(Layout::SparseCoo),
        "sparse_csr" => Value::Layout(Layout::SparseCsr),
        "contiguous_format" => Value::MemoryFormat(MemoryFormat::Contiguous),
        "preserve_format" => Value::MemoryFormat(MemoryFormat::Preserve),
        "channels_last" => Value::MemoryFormat(MemoryFormat::ChannelsLast),
        "channels_last_3d" => Value::MemoryFormat(MemoryFormat::ChannelsLast3d),
        _ => return None,
    })
}

impl<T: fmt::Debug> fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("None"),
            Value::Number(s) => write!(f, "{s}"),
            Value::Str(s) => write!(f, "{s:?}"),
            Value::DType(d) => write!(f, "{d}"),
            Value::Device(d) => write!(f, "device({d})"),
            Value::Layout(l) => write!(f, "{l}"),
            Value::MemoryFormat(m) => write!(f, "{m}"),
            Value::Tensor(t) => t.fmt(f),
            Value::List(v) => f.debug_list().entries(v).finish(),
            Value::Tuple(v) => {
                f.write_str("(")?;
                for x in v {
                    write!(f, "{x:?},")?;
                }
                f.write_str(")")
            }
            Value::Slice(s) => write!(f, "slice({:?}, {:?}, {:?})", s[0], s[1], s[2]),
            Value::Ellipsis => f.write_str("..."),
            Value::Object(_) => f.write_str("object"),
        }
    }
}
