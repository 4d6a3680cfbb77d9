//! Operators' examples as a page, and a reader of the few lines of Python that they are made of, which runs them again.

use crate::parity::{Failure, Flambeau, Target, Value};
use flambeau::{DType, Error, Layout, MemoryFormat, Op, Result, Scalar, Tensor, registry};
use std::collections::HashMap;
use std::fmt::Write;

/// What [`examples`] found.
#[derive(Debug, Default)]
pub struct Examples {
    /// Every operator with its example, as a page.
    pub page: String,
    /// Examples that print something else when they are run from their text, with what is wrong.
    pub wrong: Vec<(String, String)>,
    /// Operators with samples that have no example.
    pub without: Vec<String>,
}

/// The examples of all operators, run again from their text.
pub fn examples() -> Examples {
    let (mut found, target) = (Examples::default(), Flambeau::default());
    let plain = registry::all().into_iter().filter(|op| op.samples.is_some() && registry::form_of(op).is_none());
    let plain: Vec<&'static Op> = plain.collect();
    let _ = writeln!(
        found.page,
        "# Examples\n\nOf every operator, from its samples: written and kept true by `FLAMBEAU_UPDATE=1 cargo test --release -p \
         flambeau-testing --test examples`."
    );
    for op in plain {
        let name = op.full_name().to_string();
        let Ok(Some(text)) = super::guarded(|| Ok(flambeau::example::of(op))) else {
            found.without.push(name);
            continue;
        };
        let _ = write!(found.page, "\n## {name}\n\n```python\n{text}```\n");
        match super::guarded(|| printed(&target, &text)) {
            Ok(again) if again == text => {}
            Ok(again) => found.wrong.push((name, format!("prints\n{again}where it should\n{text}"))),
            Err(e) => found.wrong.push((name, format!("{}\n{text}", e.message()))),
        }
    }
    found
}

/// What a session of these lines looks like: the lines, and after each what it prints.
fn printed(target: &Flambeau, text: &str) -> Result<String> {
    let mut session = Session { names: HashMap::new(), target };
    let mut again = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix(">>> ") else { continue };
        let mut statement = first.to_string();
        let _ = writeln!(again, "{line}");
        while let Some(more) = lines.next_if(|l| l.starts_with("... ")) {
            statement.push_str(&more[4..]);
            let _ = writeln!(again, "{more}");
        }
        if let Some(text) = session.statement(&statement)? {
            let _ = writeln!(again, "{text}");
        }
    }
    Ok(again)
}

/// The names that statements have given to values.
struct Session<'a> {
    names: HashMap<String, Value<Tensor>>,
    target: &'a Flambeau,
}

/// What is still to be read of an expression.
struct Reader<'a> {
    text: &'a str,
    session: &'a Session<'a>,
}

type Given = (Vec<Value<Tensor>>, Vec<(String, Value<Tensor>)>);

impl Session<'_> {
    /// Runs a statement. What it prints: nothing where it gives its value a name.
    fn statement(&mut self, text: &str) -> Result<Option<String>> {
        let (names, text) =
            match text.split_once(" = ").filter(|(names, _)| !names.contains('(') || names.ends_with(",)")) {
                Some((names, expression)) => (Some(names), expression),
                None => (None, text),
            };
        let mut reader = Reader { text, session: self };
        let value = reader.expression()?;
        let rest = reader.text.trim();
        if !rest.is_empty() {
            return Err(Error::value(format!("example: '{rest}' is left over")));
        }
        let Some(names) = names else { return shown(&value).map(Some) };
        let names: Vec<&str> =
            names.trim_matches(['(', ')']).split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
        match (&names[..], value.items()) {
            (["_"], _) => {}
            (names, Some(items)) if names.len() == items.len() => {
                self.names.extend(names.iter().map(|n| n.to_string()).zip(items.iter().cloned()));
            }
            _ => return Err(Error::value(format!("example: the call does not give {} values", names.len()))),
        }
        Ok(None)
    }
}

impl<'a> Reader<'a> {
    fn eat(&mut self, token: &str) -> bool {
        self.text = self.text.trim_start();
        match self.text.strip_prefix(token) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self, part: impl Fn(char) -> bool) -> &'a str {
        self.text = self.text.trim_start();
        let end = self.text.find(|c| !part(c)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        word
    }

    fn expression(&mut self) -> Result<Value<Tensor>> {
        if self.eat("flambeau.") {
            return self.named();
        }
        if self.eat("-flambeau.inf") {
            return Ok(Value::float(f64::NEG_INFINITY));
        }
        if self.eat("[") {
            let mut items = vec![];
            while !self.eat("]") {
                items.push(self.expression()?);
                self.eat(",");
            }
            return Ok(Value::List(items));
        }
        if self.eat("'") {
            let text = self.word(|c| c != '\'');
            self.eat("'");
            return Ok(Value::Str(text.into()));
        }
        let word = self.word(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c));
        Ok(match word {
            "None" => Value::None,
            "True" => Value::bool(true),
            "False" => Value::bool(false),
            word => match number(word) {
                Some(number) => Value::Number(number),
                None => self.session.names.get(word).cloned().ok_or_else(|| {
                    Error::value(format!("example: expected a value, not '{word}' before '{}'", self.text))
                })?,
            },
        })
    }

    /// What stands after `flambeau.`: a constant, or a call.
    fn named(&mut self) -> Result<Value<Tensor>> {
        let operator = self.eat("ops.");
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_' || (operator && c == '.'));
        if !self.eat("(") {
            return constant(name);
        }
        let (mut args, mut named) = self.arguments()?;
        let failed = |e| match e {
            Failure::Raised(e) => e,
            e => Error::runtime(format!("{name}: {e:?}")),
        };
        let target = self.session.target;
        let value = match operator {
            true => {
                let op = registry::find(&name.replacen('.', "::", 1))
                    .ok_or_else(|| Error::value(format!("example: there is no operator {name}")))?;
                target.one_of(&[op], &mut args, &mut named)
            }
            false => target.call(name, &mut args, &mut named),
        };
        let value = value.map_err(failed)?;
        if !self.eat(".reshape(") {
            return Ok(value);
        }
        let sizes = Value::List(self.arguments()?.0);
        target.call("reshape", &mut [value, sizes], &mut []).map_err(failed)
    }

    fn arguments(&mut self) -> Result<Given> {
        let (mut args, mut named) = (vec![], vec![]);
        while !self.eat(")") {
            let name = self.text.trim_start().split_once('=').map(|(name, _)| name);
            match name.filter(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')) {
                Some(name) => {
                    self.eat(name);
                    self.eat("=");
                    named.push((name.to_string(), self.expression()?));
                }
                None => args.push(self.expression()?),
            }
            if !self.eat(",") && !self.text.trim_start().starts_with(')') {
                return Err(Error::value(format!("example: expected ')' before '{}'", self.text)));
            }
        }
        Ok((args, named))
    }
}

/// What a name stands for.
fn constant(name: &str) -> Result<Value<Tensor>> {
    Ok(match name {
        "inf" => Value::float(f64::INFINITY),
        "nan" => Value::float(f64::NAN),
        "strided" => Value::Layout(Layout::Strided),
        "contiguous_format" => Value::MemoryFormat(MemoryFormat::Contiguous),
        "preserve_format" => Value::MemoryFormat(MemoryFormat::Preserve),
        "channels_last" => Value::MemoryFormat(MemoryFormat::ChannelsLast),
        "channels_last_3d" => Value::MemoryFormat(MemoryFormat::ChannelsLast3d),
        name => match DType::ALL.into_iter().find(|d| d.name() == name) {
            Some(dtype) => Value::DType(dtype),
            None => return Err(Error::value(format!("example: there is no flambeau.{name}"))),
        },
    })
}

/// A number as Python writes it.
fn number(word: &str) -> Option<Scalar> {
    if let Ok(i) = word.parse::<i64>() {
        return Some(Scalar::Int(i));
    }
    if let Some(parts) = word.strip_suffix('j') {
        // The sign that parts them is the last one that is not an exponent's.
        let sign = (1..parts.len())
            .rev()
            .find(|i| matches!(parts.as_bytes()[*i], b'+' | b'-') && !matches!(parts.as_bytes()[i - 1], b'e' | b'E'))?;
        let (re, im) = parts.split_at(sign);
        return Some(Scalar::Complex(flambeau::Complex64::new(re.parse().ok()?, im.parse().ok()?)));
    }
    word.starts_with(|c: char| c.is_ascii_digit() || c == '-').then(|| word.parse().ok().map(Scalar::Float))?
}

/// A value as an interpreter shows it.
fn shown(value: &Value<Tensor>) -> Result<String> {
    Ok(match value {
        Value::Tensor(t) => t.to_string(),
        Value::Number(Scalar::Bool(b)) => if *b { "True" } else { "False" }.into(),
        Value::Number(Scalar::Float(x)) => format!("{x:?}"),
        Value::Number(x) => x.to_string(),
        other => return Err(Error::value(format!("example: it gives {}", other.type_name()))),
    })
}
