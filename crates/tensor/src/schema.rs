//! PyTorch's schema language: `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

use crate::{DType, Error, Layout, MemoryFormat, OwnedValue, Result, Scalar, Value};
use std::fmt;

/// The element type of a parameter or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Base {
    Tensor,
    Scalar,
    Int,
    Float,
    Bool,
    Str,
    ScalarType,
    Layout,
    Device,
    MemoryFormat,
    Generator,
}

/// The type of a parameter or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// The element type.
    pub base: Base,
    /// `T?`: may be `None`.
    pub optional: bool,
    /// `T[]` or `T[2]`: a list, with its fixed length (to which a single number expands).
    pub list: Option<Option<usize>>,
    /// `T?[]`: the elements may be `None`.
    pub optional_elements: bool,
}

impl Type {
    /// What an argument has to be, for messages.
    pub(crate) fn in_words(&self) -> String {
        let one = match self.base {
            Base::Tensor => "Tensor",
            Base::Scalar => "Number",
            Base::Int => "int",
            Base::Float => "float",
            Base::Bool => "bool",
            Base::Str => "str",
            Base::ScalarType => "dtype",
            Base::Layout => "layout",
            Base::Device => "device",
            Base::MemoryFormat => "memory_format",
            Base::Generator => "Generator",
        };
        match (self.list, self.optional_elements) {
            (Some(_), true) => format!("list of optional {one}s"),
            (Some(_), false) => format!("list of {one}s"),
            (None, _) => one.into(),
        }
    }

    /// Whether an argument is of this type, or of one that stands for it: a number for a tensor and a tensor (of one
    /// element) for a number, an integer for a float.
    pub fn takes(&self, v: &Value<'_>) -> bool {
        let (list, number) =
            (self.list.is_some(), self.list.is_none() && matches!(self.base, Base::Tensor | Base::Scalar));
        let one = |base: Base| !list && self.base == base;
        let many = |base: Base| list && self.base == base;
        match v {
            Value::None => self.optional || self.base == Base::Generator,
            Value::Tensor(_) => number,
            Value::Tensors(_) => many(Base::Tensor) && !self.optional_elements,
            Value::OptionalTensors(_) => many(Base::Tensor) && self.optional_elements,
            Value::Scalar(Scalar::Int(_)) => number || one(Base::Int) || one(Base::Float),
            Value::Scalar(Scalar::Bool(_)) => number || one(Base::Bool) || one(Base::Float),
            Value::Scalar(_) => number || one(Base::Float),
            Value::Scalars(_) => many(Base::Scalar),
            Value::Int(_) => number || one(Base::Int) || one(Base::Float),
            Value::Ints(_) => many(Base::Int),
            Value::Float(_) => number || one(Base::Float),
            Value::Floats(_) => many(Base::Float),
            Value::Bool(_) => number || one(Base::Bool) || one(Base::Float),
            Value::Bools(_) => many(Base::Bool),
            Value::DType(_) => one(Base::ScalarType),
            Value::Device(_) => one(Base::Device),
            Value::Layout(_) => one(Base::Layout),
            Value::MemoryFormat(_) => one(Base::MemoryFormat),
            Value::Str(_) => one(Base::Str),
            Value::Generator(_) => one(Base::Generator),
        }
    }
}

/// What a schema's `(a!)` says: which arguments and results share memory, and whether it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The letter.
    pub set: String,
    /// `!`: the operator writes to it.
    pub write: bool,
}

/// A default value.
#[derive(Clone, Debug, PartialEq)]
pub enum Default {
    /// `None`.
    None,
    /// A number or boolean.
    Scalar(Scalar),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A string, or a name such as `contiguous_format`.
    Str(String),
}

/// One parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// What it is when not given.
    pub default: Option<Default>,
    /// Whether it can only be given by name.
    pub keyword_only: bool,
    /// Which memory it shares.
    pub alias: Option<Alias>,
}

impl Default {
    /// Whether a parameter of this type can have it.
    fn fits(&self, ty: &Type) -> bool {
        let number = matches!(ty.base, Base::Int | Base::Float | Base::Scalar);
        match self {
            Default::None => true,
            Default::Scalar(Scalar::Bool(_)) => number || ty.base == Base::Bool,
            Default::Scalar(Scalar::Int(_)) => number || ty.base == Base::ScalarType,
            Default::Scalar(_) => matches!(ty.base, Base::Float | Base::Scalar),
            // Of any length: PyTorch has an `int[1] dim=[-2, -1]`.
            Default::Ints(_) => (number || ty.base == Base::Bool) && ty.list.is_some(),
            Default::Str(_) => {
                matches!(ty.base, Base::Str | Base::ScalarType | Base::Layout | Base::Device | Base::MemoryFormat)
            }
        }
    }
}

impl Param {
    /// The default, in the parameter's type; `None` where there is none. A list of a known length that is given as one
    /// number is that many of it.
    pub fn default_value(&self) -> Option<OwnedValue> {
        let d = self.default.as_ref()?;
        Some(match (d, self.ty.list, self.ty.base) {
            (Default::None, ..) => OwnedValue::None,
            (Default::Ints(v), _, Base::Float) => OwnedValue::Floats(v.iter().map(|i| *i as f64).collect()),
            (Default::Ints(v), _, Base::Bool) => OwnedValue::Bools(v.iter().map(|i| *i != 0).collect()),
            (Default::Ints(v), ..) => OwnedValue::Ints(v.clone()),
            (Default::Scalar(s), Some(n), Base::Float) => OwnedValue::Floats(vec![s.to_f64(); n.unwrap_or(1)]),
            (Default::Scalar(s), Some(n), Base::Bool) => OwnedValue::Bools(vec![s.to_bool(); n.unwrap_or(1)]),
            (Default::Scalar(s), Some(n), _) => OwnedValue::Ints(vec![s.to_i64(); n.unwrap_or(1)]),
            (Default::Scalar(s), None, Base::Int) => OwnedValue::Int(s.to_i64()),
            (Default::Scalar(s), None, Base::Float) => OwnedValue::Float(s.to_f64()),
            (Default::Scalar(s), None, Base::Bool) => OwnedValue::Bool(s.to_bool()),
            (Default::Scalar(s), None, Base::ScalarType) => {
                numbered_dtype(s.to_i64()).map_or(OwnedValue::None, OwnedValue::DType)
            }
            (Default::Scalar(s), None, _) => OwnedValue::Scalar(*s),
            (Default::Str(s), _, Base::MemoryFormat) => OwnedValue::MemoryFormat(match s.as_str() {
                "preserve_format" => MemoryFormat::Preserve,
                "channels_last" => MemoryFormat::ChannelsLast,
                "channels_last_3d" => MemoryFormat::ChannelsLast3d,
                _ => MemoryFormat::Contiguous,
            }),
            (Default::Str(s), _, Base::ScalarType) => DType::by_name(s).map_or(OwnedValue::None, OwnedValue::DType),
            (Default::Str(_), _, Base::Layout) => OwnedValue::Layout(Layout::Strided),
            (Default::Str(s), ..) => OwnedValue::Str(s.clone()),
        })
    }
}

/// The dtype that a number in a schema (`ScalarType? dtype=4`) means.
fn numbered_dtype(n: i64) -> Option<DType> {
    use DType::{BF16, Bool, Complex64, Complex128, F16, F32, F64, I8, I16, I32, I64, U8};
    Some(match n {
        0 => U8,
        1 => I8,
        2 => I16,
        3 => I32,
        4 => I64,
        5 => F16,
        6 => F32,
        7 => F64,
        9 => Complex64,
        10 => Complex128,
        11 => Bool,
        15 => BF16,
        _ => return None,
    })
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its type.
    pub ty: Type,
    /// Which memory it shares.
    pub alias: Option<Alias>,
}

/// A parsed schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// `aten`, or another library's name.
    pub namespace: String,
    /// The operator's name.
    pub name: String,
    /// The overload's name; empty for the default one.
    pub overload: String,
    /// The parameters.
    pub params: Vec<Param>,
    /// The results.
    pub returns: Vec<Return>,
}

impl Schema {
    /// How many parameters an operator can have: what is known of each is a bit of one word.
    pub const MOST_PARAMETERS: usize = u64::BITS as usize;

    /// Reads a schema; without a namespace it is `aten`.
    ///
    /// # Errors
    /// Names the place where the text is not a schema, or not one that an operator can have.
    pub fn parse(text: &str) -> Result<Schema> {
        let mut p = Parser { text, at: 0 };
        p.schema().map_err(|what| {
            Error::value(format!("schema: expected {what} at position {} of '{text}'", p.at.min(text.len())))
        })
    }

    /// What stands for the schema of an operator whose text is none.
    pub(crate) fn unreadable(name: &str) -> Schema {
        let namespace = "aten".to_string();
        Schema { namespace, name: name.to_string(), overload: String::new(), params: Vec::new(), returns: Vec::new() }
    }

    /// The place of parameter `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|p| p.name == name)
    }

    /// Whether a result is a view of an argument.
    pub fn is_view(&self) -> bool {
        self.returns.iter().any(|r| r.alias.as_ref().is_some_and(|a| !a.write))
    }

    /// Whether an argument is written.
    pub fn mutates(&self) -> bool {
        self.params.iter().any(|p| p.alias.as_ref().is_some_and(|a| a.write))
    }

    /// `name.overload`, the key in the registry's namespace.
    pub fn full_name(&self) -> String {
        match self.overload.as_str() {
            "" => self.name.clone(),
            o => format!("{}.{o}", self.name),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

type Parsed<T> = std::result::Result<T, &'static str>;

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }
    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let yes = self.rest().starts_with(token);
        if yes {
            self.at += token.len();
        }
        yes
    }
    fn need(&mut self, token: &'static str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { Err(token) }
    }
    fn word(&mut self) -> Parsed<&'a str> {
        self.space();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if end == 0 {
            return Err("a name");
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn schema(&mut self) -> Parsed<Schema> {
        let mut name = self.word()?.to_string();
        let mut namespace = "aten".to_string();
        if self.eat("::") {
            namespace = std::mem::replace(&mut name, self.word()?.to_string());
        }
        let overload = if self.eat(".") { self.word()?.to_string() } else { String::new() };
        self.need("(")?;
        let mut params: Vec<Param> = Vec::new();
        let mut keyword_only = false;
        while !self.eat(")") {
            if !keyword_only && self.eat("*") {
                keyword_only = true;
            } else {
                let param = self.param(keyword_only)?;
                if params.iter().any(|p| p.name == param.name) {
                    return Err("a name that no other parameter has");
                }
                if params.len() == Schema::MOST_PARAMETERS {
                    return Err("at most 64 parameters");
                }
                params.push(param);
            }
            if !self.eat(",") {
                self.need(")")?;
                break;
            }
        }
        self.need("->")?;
        let mut returns = Vec::new();
        if self.eat("(") {
            while !self.eat(")") {
                returns.push(self.result()?);
                if !self.eat(",") {
                    self.need(")")?;
                    break;
                }
            }
        } else {
            returns.push(self.result()?);
        }
        self.space();
        if !self.rest().is_empty() {
            return Err("the end");
        }
        let given = |alias: &Alias| params.iter().flat_map(|p| &p.alias).any(|a| a.set == alias.set);
        if !returns.iter().flat_map(|r| &r.alias).all(given) {
            return Err("a parameter with the memory of each result");
        }
        Ok(Schema { namespace, name, overload, params, returns })
    }

    fn param(&mut self, keyword_only: bool) -> Parsed<Param> {
        let (ty, alias) = self.ty()?;
        let name = self.word()?.to_string();
        let default = if self.eat("=") { Some(self.default()?) } else { None };
        match default.as_ref().is_none_or(|d| d.fits(&ty)) {
            true => Ok(Param { name, ty, default, keyword_only, alias }),
            false => Err("a default of the parameter's type"),
        }
    }

    fn result(&mut self) -> Parsed<Return> {
        let (ty, alias) = self.ty()?;
        let name = self.word().ok().map(str::to_string);
        Ok(Return { name, ty, alias })
    }

    fn ty(&mut self) -> Parsed<(Type, Option<Alias>)> {
        let base = match self.word()? {
            "Tensor" => Base::Tensor,
            "Scalar" => Base::Scalar,
            "int" | "SymInt" => Base::Int,
            "float" => Base::Float,
            "bool" | "SymBool" => Base::Bool,
            "str" => Base::Str,
            "ScalarType" => Base::ScalarType,
            "Layout" => Base::Layout,
            "Device" => Base::Device,
            "MemoryFormat" => Base::MemoryFormat,
            "Generator" => Base::Generator,
            _ => return Err("a type"),
        };
        let mut ty = Type { base, optional: false, list: None, optional_elements: false };
        let mut alias = None;
        loop {
            if self.eat("(") {
                let set = self.word()?.to_string();
                let write = self.eat("!");
                if self.eat("->") {
                    self.need("*")?;
                }
                self.need(")")?;
                alias = Some(Alias { set, write });
            } else if self.eat("[") {
                let length = if self.eat("]") {
                    None
                } else {
                    let n = self.word()?.parse().map_err(|_| "a length")?;
                    self.need("]")?;
                    Some(n)
                };
                ty.optional_elements = std::mem::take(&mut ty.optional);
                ty.list = Some(length);
            } else if self.eat("?") {
                ty.optional = true;
            } else {
                return Ok((ty, alias));
            }
        }
    }

    fn default(&mut self) -> Parsed<Default> {
        self.space();
        if self.eat("[") {
            let mut ints = Vec::new();
            while !self.eat("]") {
                match self.number()? {
                    Scalar::Int(i) => ints.push(i),
                    Scalar::Bool(b) => ints.push(b as i64),
                    _ => return Err("an integer"),
                }
                if !self.eat(",") {
                    self.need("]")?;
                    break;
                }
            }
            return Ok(Default::Ints(ints));
        }
        for quote in ["\"", "'"] {
            if self.eat(quote) {
                let rest = self.rest();
                let end = rest.find(quote).ok_or("a closing quote")?;
                self.at += end + 1;
                return Ok(Default::Str(rest[..end].to_string()));
            }
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+' || c == '.') {
            return Ok(Default::Scalar(self.number()?));
        }
        Ok(match self.word()? {
            "None" => Default::None,
            "True" => Default::Scalar(Scalar::Bool(true)),
            "False" => Default::Scalar(Scalar::Bool(false)),
            "inf" => Default::Scalar(Scalar::Float(f64::INFINITY)),
            "Mean" => Default::Scalar(Scalar::Int(1)),
            name => Default::Str(name.to_string()),
        })
    }

    fn number(&mut self) -> Parsed<Scalar> {
        self.space();
        let rest = self.rest();
        let end = rest.find([',', ')', ']', ' ']).unwrap_or(rest.len());
        let text = &rest[..end];
        self.at += end;
        match text {
            "True" => return Ok(Scalar::Bool(true)),
            "False" => return Ok(Scalar::Bool(false)),
            _ => {}
        }
        if let Ok(i) = text.parse::<i64>() {
            return Ok(Scalar::Int(i));
        }
        let infinite = text.ends_with("inf");
        let number = text.parse::<f64>().ok().filter(|x| !x.is_nan() && x.is_infinite() == infinite);
        number.map(Scalar::Float).ok_or("a number")
    }
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Default::None => f.write_str("None"),
            Default::Scalar(Scalar::Bool(true)) => f.write_str("True"),
            Default::Scalar(Scalar::Bool(false)) => f.write_str("False"),
            // `{:?}` keeps the point that makes `1.0` a float.
            Default::Scalar(Scalar::Float(x)) => write!(f, "{x:?}"),
            Default::Scalar(s) => s.fmt(f),
            Default::Ints(i) => write!(f, "{i:?}"),
            Default::Str(s) if s.contains('"') => write!(f, "'{s}'"),
            Default::Str(s) => write!(f, "\"{s}\""),
        }
    }
}

/// In the language that [`Schema::parse`] reads; sizes that may be symbolic are written as plain integers.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}(", self.namespace, self.full_name())?;
        let mut keyword_only = false;
        for (i, p) in self.params.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            if p.keyword_only && !std::mem::replace(&mut keyword_only, true) {
                f.write_str("*, ")?;
            }
            write_type(f, &p.ty, p.alias.as_ref())?;
            write!(f, " {}", p.name)?;
            if let Some(default) = &p.default {
                write!(f, "={default}")?;
            }
        }
        f.write_str(") -> ")?;
        if self.returns.len() != 1 {
            f.write_str("(")?;
        }
        for (i, r) in self.returns.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write_type(f, &r.ty, r.alias.as_ref())?;
            if let Some(name) = &r.name {
                write!(f, " {name}")?;
            }
        }
        if self.returns.len() != 1 { f.write_str(")") } else { Ok(()) }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_type(f, self, None)
    }
}

fn write_type(f: &mut fmt::Formatter<'_>, ty: &Type, alias: Option<&Alias>) -> fmt::Result {
    f.write_str(match ty.base {
        Base::Tensor => "Tensor",
        Base::Scalar => "Scalar",
        Base::Int => "int",
        Base::Float => "float",
        Base::Bool => "bool",
        Base::Str => "str",
        Base::ScalarType => "ScalarType",
        Base::Layout => "Layout",
        Base::Device => "Device",
        Base::MemoryFormat => "MemoryFormat",
        Base::Generator => "Generator",
    })?;
    if let Some(a) = alias {
        write!(f, "({}{})", a.set, if a.write { "!" } else { "" })?;
    }
    if ty.optional_elements {
        f.write_str("?")?;
    }
    match ty.list {
        Some(Some(n)) => write!(f, "[{n}]")?,
        Some(None) => f.write_str("[]")?,
        None => {}
    }
    if ty.optional { f.write_str("?") } else { Ok(()) }
}

/// What dispatch asks of a schema at every call, known when it is compiled.
pub(crate) struct Facts {
    /// How many parameters there are. Where the text is no schema, more than any call has arguments.
    pub parameters: usize,
    /// Whether an argument is written to.
    pub mutates: bool,
}

/// The facts of a schema: parameters are what stands between the commas, but for the `*` that only names may follow. A test
/// compares them with what [`Schema::parse`] finds. (One pass, few steps for a letter and no calls: a compiler interprets it for
/// every operator, which took a seventh of the time to check this crate.)
pub(crate) const fn facts(schema: &str) -> Facts {
    let text = schema.as_bytes();
    let (mut i, mut depth, mut parameters, mut mutates) = (0, 0usize, 0, false);
    let (mut begins, mut quote) = (false, 0u8);
    while i < text.len() {
        let c = text[i];
        i += 1;
        // Letters inside of a name, and all of what is quoted.
        if !begins && (c > b']' || (quote != 0 && c != quote)) {
            continue;
        }
        match c {
            c if c == quote => quote = 0,
            b'(' | b'[' => {
                depth += 1;
                begins = depth == 1;
            }
            b')' | b']' if depth <= 1 => return Facts { parameters, mutates },
            b')' | b']' => depth -= 1,
            b',' if depth == 1 => begins = true,
            b'*' if depth == 1 => begins = false,
            b'!' => mutates = true,
            b' ' | b'\t'..=b'\r' => {}
            c if depth == 1 => {
                parameters += begins as usize;
                begins = false;
                quote = if c == b'"' || c == b'\'' { c } else { 0 };
            }
            _ => {}
        }
    }
    Facts { parameters: usize::MAX - 1, mutates }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted_as_they_are_parsed() {
        let quoted = ["f(str a=\"x, y\", *, int b=1) -> ()", "f(str a='(', int[2] b=[1, 2]) -> ()", "f() -> Tensor"];
        let built_in = crate::registry::all().into_iter().map(|op| op.schema_text);
        for text in built_in.chain(quoted) {
            let (facts, schema) = (facts(text), Schema::parse(text).unwrap());
            assert_eq!((facts.parameters, facts.mutates), (schema.params.len(), schema.mutates()), "{text}");
        }
        assert!(facts("f(int a").parameters > Schema::MOST_PARAMETERS);
    }

    #[test]
    fn reads_the_shapes_that_schemas_take() {
        let s =
            Schema::parse("aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)")
                .unwrap();
        assert_eq!((s.name.as_str(), s.overload.as_str(), s.params.len()), ("add", "out", 4));
        assert!(s.mutates() && !s.is_view() && s.params[2].keyword_only && !s.params[1].keyword_only);
        let s =
            Schema::parse("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]").unwrap();
        assert!(s.is_view() && s.returns[0].ty.list == Some(None));
        let s = Schema::parse("mylib::f(Tensor?[] xs, float[]? scale=None, int[2] k=[1, -1], str m=\"none\") -> ()")
            .unwrap();
        assert!(s.params[0].ty.optional_elements && s.params[1].ty.optional && s.returns.is_empty());
        assert_eq!(s.params[2].default, Some(Default::Ints(vec![1, -1])));
        assert_eq!(s.namespace, "mylib");
    }

    #[test]
    fn says_where_it_went_wrong() {
        for bad in
            ["", "f", "f(", "f(Tensor)", "f(Tensor x", "f(Tnsor x) -> Tensor", "f(int x=) -> ()", "f() -> Tensor x y"]
        {
            assert!(Schema::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn refuses_what_no_operator_can_mean() {
        for (bad, why) in [
            ("f(Tensor a, int a) -> ()", "no other parameter"),
            ("f(Tensor a=3) -> ()", "of the parameter's type"),
            ("f(int a=1.5) -> ()", "of the parameter's type"),
            ("f(int a=99999999999999999999) -> ()", "of the parameter's type"),
            ("f(bool a=2) -> ()", "of the parameter's type"),
            ("f(str a=3) -> ()", "of the parameter's type"),
            ("f(int a=[1]) -> ()", "of the parameter's type"),
            ("f(float a=1e999) -> ()", "a number"),
            ("f(Tensor a, *, *, int b) -> ()", "a name"),
            ("f(Tensor(a!) a) -> Tensor(b!)", "the memory of each result"),
        ] {
            let error = Schema::parse(bad).unwrap_err();
            assert!(error.message().contains(why), "{bad}: {error}");
        }
        let many = |n: usize| (0..n).map(|i| format!("int p{i}")).collect::<Vec<_>>().join(", ");
        assert!(Schema::parse(&format!("f({}) -> ()", many(64))).is_ok());
        assert!(
            Schema::parse(&format!("f({}) -> ()", many(65))).unwrap_err().message().contains("at most 64 parameters")
        );
        let good = "f(Tensor? a=None, float b=inf, float c=-inf, int[2] d=1, int[2] e=[], float f=True) -> ()";
        assert!(Schema::parse(good).is_ok(), "{good}");
    }
}
