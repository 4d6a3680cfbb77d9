//! Flambeau as a [`Target`]: the registry, called through overload resolution, as a dynamic front end does.

use super::resolve::{Argument, Bound, Source, TensorArgument, resolve};
use super::target::{Description, Failure, Outcome, Target};
use super::value::Value;
use flambeau::autograd::{grad, make_dual};
use flambeau::value::{Outputs, OwnedValue};
use flambeau::{DType, Error, Generator, Op, Result, Scalar, Tensor, registry};
use std::collections::HashMap;
use std::rc::Rc;

/// Flambeau's operators by name.
pub struct Flambeau {
    overloads: HashMap<&'static str, Vec<&'static Op>>,
}

impl Default for Flambeau {
    fn default() -> Flambeau {
        let mut overloads: HashMap<&'static str, Vec<&'static Op>> = HashMap::new();
        for op in registry::all() {
            if op.schema().namespace == "aten" {
                overloads.entry(op.name()).or_default().push(op);
            }
        }
        Flambeau { overloads }
    }
}

/// What a front end offers beside operators.
const FUNCTIONS: &[&str] =
    &["Generator", "__getitem__", "get_rng_state", "initial_seed", "item", "manual_seed", "set_rng_state", "tensor"];

impl TensorArgument for Tensor {
    fn dim(&self) -> usize {
        Tensor::dim(self)
    }
    fn dtype(&self) -> DType {
        Tensor::dtype(self)
    }
    fn number(&self) -> Option<Scalar> {
        match self.requires_grad() {
            true => None,
            false => self.item().ok(),
        }
    }
}

fn owned(a: Argument<Tensor>) -> Result<OwnedValue> {
    Ok(match a {
        Argument::None => OwnedValue::None,
        Argument::Tensor(x) => OwnedValue::Tensor(x),
        Argument::Tensors(x) => OwnedValue::Tensors(x),
        Argument::OptionalTensors(x) => OwnedValue::OptionalTensors(x),
        Argument::Scalar(x) => OwnedValue::Scalar(x),
        Argument::Scalars(x) => OwnedValue::Scalars(x),
        Argument::Int(x) => OwnedValue::Int(x),
        Argument::Ints(x) => OwnedValue::Ints(x),
        Argument::Float(x) => OwnedValue::Float(x),
        Argument::Floats(x) => OwnedValue::Floats(x),
        Argument::Bool(x) => OwnedValue::Bool(x),
        Argument::Bools(x) => OwnedValue::Bools(x),
        Argument::DType(x) => OwnedValue::DType(x),
        Argument::Device(x) => OwnedValue::Device(x),
        Argument::Layout(x) => OwnedValue::Layout(x),
        Argument::MemoryFormat(x) => OwnedValue::MemoryFormat(x),
        Argument::Str(x) => OwnedValue::Str(x),
        Argument::Object(x) => match x.downcast::<Generator>() {
            Ok(g) => OwnedValue::Generator((*g).clone()),
            Err(_) => return Err(Error::type_("argument must be a Generator")),
        },
    })
}

/// Results as a caller sees them: one value, a list, or a tuple of as many as the schema names.
fn returned(op: &Op, outputs: Outputs) -> Value<Tensor> {
    let one = |t: Option<Tensor>| t.map_or(Value::None, Value::Tensor);
    match outputs {
        Outputs::None => Value::None,
        Outputs::One(t) if op.schema().returns.first().is_some_and(|r| r.ty.list.is_some()) => {
            Value::List(vec![Value::Tensor(t)])
        }
        Outputs::One(t) => Value::Tensor(t),
        Outputs::Scalar(s) => Value::Number(s),
        Outputs::Many(v) if op.schema().returns.len() > 1 => Value::Tuple(v.into_iter().map(one).collect()),
        Outputs::Many(v) => Value::List(v.into_iter().map(one).collect()),
    }
}

/// Puts the handles of written arguments back where they came from: they may have other sizes now.
fn write_back(
    op: &Op,
    bound: &[Source],
    outputs: &Outputs,
    args: &mut [Value<Tensor>],
    kwargs: &mut [(String, Value<Tensor>)],
) {
    let schema = op.schema();
    let written =
        |set: &str| schema.params.iter().position(|p| p.alias.as_ref().is_some_and(|a| a.write && a.set == set));
    for (k, r) in schema.returns.iter().enumerate() {
        let Some(param) = r.alias.as_ref().filter(|a| a.write).and_then(|a| written(&a.set)) else { continue };
        let Some(result) = outputs.get(k).cloned().map(Value::Tensor) else { continue };
        match bound[param] {
            Source::Positional(i) => args[i] = result,
            Source::Keyword(i) => kwargs[i].1 = result,
            Source::KeywordItem(i, item) => {
                if let Value::Tuple(v) | Value::List(v) = &mut kwargs[i].1 {
                    v[item] = result;
                }
            }
            Source::Default | Source::Spread(_) => {}
        }
    }
}

/// The numbers of nested lists, and their sizes.
fn flatten(v: &Value<Tensor>, sizes: &mut Vec<i64>, depth: usize, out: &mut Vec<Scalar>) -> Result<()> {
    match v {
        Value::Number(s) if depth == sizes.len() => out.push(*s),
        Value::Tensor(t) if t.dim() == 0 && depth == sizes.len() => out.push(t.item()?),
        Value::List(items) | Value::Tuple(items) => {
            if depth == sizes.len() && out.is_empty() {
                sizes.push(items.len() as i64);
            }
            if sizes.get(depth) != Some(&(items.len() as i64)) {
                return Err(Error::value(format!("expected sequence of length {:?} at dim {depth}", sizes.get(depth))));
            }
            for item in items {
                flatten(item, sizes, depth + 1, out)?;
            }
        }
        v => return Err(Error::type_(format!("cannot make a tensor of {}", v.type_name()))),
    }
    Ok(())
}

/// A tensor from nested lists of numbers.
fn from_lists(v: &Value<Tensor>, dtype: Option<DType>) -> Result<Tensor> {
    let (mut sizes, mut numbers) = (Vec::new(), Vec::new());
    flatten(v, &mut sizes, 0, &mut numbers)?;
    let default = flambeau::default_dtype();
    let found = numbers.iter().map(|s| DType::of_scalar(s, default)).reduce(DType::promote).unwrap_or(default);
    flambeau::dispatch_dtype!(dtype.unwrap_or(found), T => {
        use flambeau::Element;
        let elements: Vec<T> = numbers.iter().map(|s| T::from_scalar(*s)).collect();
        Tensor::from_slice_of(&elements, &sizes)
    })
}

fn parts(index: &Value<Tensor>) -> Vec<Value<Tensor>> {
    match index {
        Value::Tuple(items) => items.clone(),
        one => vec![one.clone()],
    }
}

/// How many dimensions an index takes up.
fn consumed(v: &Value<Tensor>) -> usize {
    match v {
        Value::None | Value::Ellipsis | Value::Number(Scalar::Bool(_)) => 0,
        Value::Tensor(t) if t.dtype() == DType::Bool => t.dim(),
        _ => 1,
    }
}

impl Flambeau {
    /// Calls an operator of the registry.
    fn operator(
        &self,
        name: &str,
        args: &mut [Value<Tensor>],
        kwargs: &mut [(String, Value<Tensor>)],
    ) -> Outcome<Value<Tensor>> {
        let Some(ops) = self.overloads.get(name) else { return Err(Failure::Missing(name.to_string())) };
        self.one_of(ops, args, kwargs)
    }

    /// Calls the overload of these that takes the arguments.
    ///
    /// # Errors
    /// When there is none, and as the call.
    pub fn one_of(
        &self,
        ops: &[&'static Op],
        args: &mut [Value<Tensor>],
        kwargs: &mut [(String, Value<Tensor>)],
    ) -> Outcome<Value<Tensor>> {
        let schemas: Vec<_> = ops.iter().map(|o| o.schema()).collect();
        let Bound { overload, arguments, sources } = resolve(&schemas, args, kwargs)?;
        let op = ops[overload];
        let values = arguments.into_iter().map(owned).collect::<Result<Vec<_>>>()?;
        let outputs = op.call(&values.iter().map(OwnedValue::borrow).collect::<Vec<_>>())?;
        write_back(op, &sources, &outputs, args, kwargs);
        Ok(returned(op, outputs))
    }

    fn one(&self, name: &str, args: Vec<Value<Tensor>>) -> Outcome<Tensor> {
        match self.operator(name, &mut { args }, &mut [])? {
            Value::Tensor(t) => Ok(t),
            v => Err(Failure::Wrong(format!("{name} gave {}", v.type_name()))),
        }
    }

    /// `x[index]`: integers, slices and new axes one after the other, then all index tensors at once.
    fn get_item(&self, x: &Tensor, index: &Value<Tensor>) -> Outcome<Tensor> {
        let mut parts = parts(index);
        for p in &mut parts {
            if let Value::List(_) = p {
                *p = Value::Tensor(from_lists(p, None)?);
            }
        }
        let used: usize = parts.iter().map(consumed).sum();
        if used > x.dim() {
            let message = format!("too many indices for tensor of dimension {}", x.dim());
            return Err(Failure::Raised(Error::index(message)));
        }
        let mut result = self.one("alias", vec![Value::Tensor(x.clone())])?;
        let mut dim = 0;
        let mut tensors: Vec<(usize, Tensor)> = Vec::new();
        for p in parts {
            let t = Value::Tensor(result.clone());
            let at = Value::int(dim as i64);
            match p {
                Value::Number(Scalar::Bool(b)) => {
                    result = self.one("unsqueeze", vec![t, at])?;
                    tensors.push((dim, Tensor::from_slice(&[flambeau::Bool::from(b)])?));
                    dim += 1;
                }
                Value::Number(i) => result = self.one("select", vec![t, at, Value::Number(i)])?,
                Value::Slice(s) => {
                    let [start, end, step] = *s;
                    let step = if step.is_none() { Value::int(1) } else { step };
                    result = self.one("slice", vec![t, at, start, end, step])?;
                    dim += 1;
                }
                Value::None => {
                    result = self.one("unsqueeze", vec![t, at])?;
                    dim += 1;
                }
                Value::Ellipsis => dim += x.dim() - used,
                Value::Tensor(i) if i.dim() == 0 && i.dtype().is_integral(false) => {
                    result = self.one("select", vec![t, at, Value::Number(i.item()?)])?;
                }
                Value::Tensor(i) => {
                    let taken = if i.dtype() == DType::Bool { i.dim() } else { 1 };
                    tensors.push((dim, i));
                    dim += taken;
                }
                other => {
                    let message = format!(
                        "only integers, slices, ellipsis, None and tensors are valid indices (got {})",
                        other.type_name()
                    );
                    return Err(Failure::Raised(Error::index(message)));
                }
            }
        }
        let Some((last, _)) = tensors.last() else { return Ok(result) };
        let mut indices = vec![Value::None; last + 1];
        let mut skipped = 0;
        for (dim, i) in tensors {
            // A mask of several dimensions stands at its first one.
            let several = if i.dtype() == DType::Bool { i.dim() - 1 } else { 0 };
            indices[dim - skipped] = Value::Tensor(i);
            skipped += several;
        }
        indices.truncate(indices.len() - skipped.min(indices.len() - 1));
        self.one("index", vec![Value::Tensor(result), Value::List(indices)])
    }
}

impl Target for Flambeau {
    type Tensor = Tensor;

    fn has(&self, name: &str) -> bool {
        self.overloads.contains_key(name) || FUNCTIONS.contains(&name)
    }

    fn call(
        &self,
        name: &str,
        args: &mut [Value<Tensor>],
        kwargs: &mut [(String, Value<Tensor>)],
    ) -> Outcome<Value<Tensor>> {
        let state = |g: &Generator| -> Result<Value<Tensor>> { Ok(Value::Tensor(Tensor::from_slice(&g.get_state())?)) };
        let default = Generator::default_generator();
        Ok(match (name, &*args) {
            ("__getitem__", [Value::Tensor(x), index]) => Value::Tensor(self.get_item(x, index)?),
            ("item", [Value::Tensor(x)]) => Value::Number(x.item()?),
            ("tensor", [data]) => {
                let dtype = kwargs.iter().find_map(|(n, v)| match v {
                    Value::DType(d) if n == "dtype" => Some(*d),
                    _ => None,
                });
                Value::Tensor(from_lists(data, dtype)?)
            }
            ("manual_seed", [Value::Number(seed)]) => {
                default.manual_seed(seed.to_i64() as u64);
                Value::None
            }
            ("manual_seed", [Value::Object(g), Value::Number(seed)]) => match g.clone().downcast::<Generator>() {
                Ok(g) => {
                    g.manual_seed(seed.to_i64() as u64);
                    Value::Object(g)
                }
                Err(_) => return Err(Failure::Missing("manual_seed of something else".into())),
            },
            ("Generator", []) => Value::Object(Rc::new(default.fork())),
            ("initial_seed", []) => Value::Number(Scalar::from(default.initial_seed())),
            ("get_rng_state", []) => state(&default)?,
            ("set_rng_state", [Value::Tensor(t)]) => {
                default.set_state(&t.to_bytes()?)?;
                Value::None
            }
            _ => self.operator(name, args, kwargs)?,
        })
    }

    fn tensor(&self, dtype: DType, sizes: &[i64], elements: &[u8]) -> Outcome<Tensor> {
        Ok(Tensor::from_bytes(elements, dtype, sizes)?)
    }

    fn describe(&self, t: &Tensor) -> Description {
        Description {
            dtype: t.dtype(),
            sizes: t.sizes().to_vec(),
            strides: t.strides().to_vec(),
            data_ptr: t.data_ptr() as usize,
            requires_grad: t.requires_grad(),
        }
    }

    fn elements(&self, t: &Tensor) -> Outcome<Vec<u8>> {
        Ok(t.to_bytes()?)
    }

    fn leaf(&self, t: &Tensor) -> Outcome<Tensor> {
        Ok(t.detach()?.requires_grad_(true)?)
    }

    fn gradients(
        &self,
        outputs: &[Tensor],
        inputs: &[Tensor],
        cotangents: &[Tensor],
        create_graph: bool,
    ) -> Outcome<Vec<Option<Tensor>>> {
        let cotangents: Vec<_> = cotangents.iter().cloned().map(Some).collect();
        Ok(grad(outputs, inputs, &cotangents, create_graph, create_graph, true)?)
    }

    fn dual(&self, primal: &Tensor, tangent: &Tensor) -> Outcome<Tensor> {
        Ok(make_dual(primal, tangent)?)
    }

    fn tangent(&self, t: &Tensor) -> Outcome<Option<Tensor>> {
        Ok(t.tangent())
    }
}
