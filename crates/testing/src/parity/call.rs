//! From the spelling of a recorded call (`torch.add`, `Tensor.expand`, `operator:add`, `attr:mT`) to an operator.

use super::functional;
use super::target::{Failure, Outcome, Target};
use super::value::Value;
use flambeau_base::{DType, Error, ErrorKind, Scalar};
use std::rc::Rc;

/// The arguments of a call.
#[derive(Clone)]
pub struct Arguments<T> {
    /// By position.
    pub positional: Vec<Value<T>>,
    /// By name.
    pub keyword: Vec<(String, Value<T>)>,
}

impl<T: Clone> Arguments<T> {
    /// Positional arguments only.
    pub fn of(positional: impl IntoIterator<Item = Value<T>>) -> Arguments<T> {
        Arguments { positional: positional.into_iter().collect(), keyword: vec![] }
    }

    /// The value of each parameter of a function with these names; `None` where it is not given.
    pub(super) fn bind<const N: usize>(&self, function: &str, names: [&str; N]) -> Outcome<[Value<T>; N]> {
        let type_error = |m: String| Err(Failure::Raised(Error::type_(m)));
        if self.positional.len() > N {
            let given = self.positional.len();
            return type_error(format!("{function}() takes {N} positional arguments but {given} were given"));
        }
        let mut values: [Value<T>; N] = std::array::from_fn(|i| self.positional.get(i).cloned().unwrap_or(Value::None));
        for (name, value) in &self.keyword {
            match names.iter().position(|n| n == name) {
                Some(i) if i < self.positional.len() => {
                    return type_error(format!("{function}() got multiple values for argument '{name}'"));
                }
                Some(i) => values[i] = value.clone(),
                None => return type_error(format!("{function}() got an unexpected keyword argument '{name}'")),
            }
        }
        Ok(values)
    }

    /// Takes the argument `name` out, if it is given by name.
    pub(super) fn take(&mut self, name: &str) -> Option<Value<T>> {
        let at = self.keyword.iter().position(|(n, _)| n == name)?;
        Some(self.keyword.remove(at).1)
    }

    fn rename(&mut self, from: &str, to: &str) {
        self.keyword.iter_mut().filter(|(n, _)| n == from).for_each(|(n, _)| *n = to.to_string());
    }
}

/// PyTorch's second names for operators.
const ALIASES: &[(&str, &str)] = &[
    ("absolute", "abs"),
    ("arccos", "acos"),
    ("arccosh", "acosh"),
    ("arcsin", "asin"),
    ("arcsinh", "asinh"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("arctanh", "atanh"),
    ("clip", "clamp"),
    ("concat", "cat"),
    ("concatenate", "cat"),
    ("divide", "div"),
    ("fix", "trunc"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("moveaxis", "movedim"),
    ("multiply", "mul"),
    ("negative", "neg"),
    ("not_equal", "ne"),
    ("special_digamma", "digamma"),
    ("special_erf", "erf"),
    ("special_erfc", "erfc"),
    ("special_erfinv", "erfinv"),
    ("special_exp2", "exp2"),
    ("special_expit", "sigmoid"),
    ("special_expm1", "expm1"),
    ("special_gammaln", "lgamma"),
    ("special_i0", "i0"),
    ("special_log1p", "log1p"),
    ("special_log_softmax", "log_softmax"),
    ("special_logit", "logit"),
    ("special_logsumexp", "logsumexp"),
    ("special_psi", "digamma"),
    ("special_round", "round"),
    ("special_sinc", "sinc"),
    ("special_softmax", "softmax"),
    ("special_xlogy", "xlogy"),
    ("subtract", "sub"),
    ("swapaxes", "transpose"),
    ("swapdims", "transpose"),
    ("true_divide", "div"),
];

/// Methods that convert to a dtype.
const CONVERSIONS: &[(&str, DType)] = &[
    ("bool", DType::Bool),
    ("byte", DType::U8),
    ("char", DType::I8),
    ("short", DType::I16),
    ("int", DType::I32),
    ("long", DType::I64),
    ("half", DType::F16),
    ("bfloat16", DType::BF16),
    ("float", DType::F32),
    ("double", DType::F64),
    ("cfloat", DType::Complex64),
    ("cdouble", DType::Complex128),
];

/// The methods of Python's operators: the operator, and whether its arguments change places.
const PYTHON_OPERATORS: &[(&str, &str, bool)] = &[
    ("abs", "abs", false),
    ("add", "add", false),
    ("and_", "bitwise_and", false),
    ("eq", "eq", false),
    ("floordiv", "floor_divide", false),
    ("ge", "ge", false),
    ("getitem", "__getitem__", false),
    ("gt", "gt", false),
    ("iadd", "add_", false),
    ("iand", "bitwise_and_", false),
    ("ifloordiv", "floor_divide_", false),
    ("ilshift", "bitwise_left_shift_", false),
    ("imod", "remainder_", false),
    ("imul", "mul_", false),
    ("invert", "bitwise_not", false),
    ("ior", "bitwise_or_", false),
    ("ipow", "pow_", false),
    ("irshift", "bitwise_right_shift_", false),
    ("isub", "sub_", false),
    ("itruediv", "div_", false),
    ("ixor", "bitwise_xor_", false),
    ("le", "le", false),
    ("lshift", "bitwise_left_shift", false),
    ("lt", "lt", false),
    ("matmul", "matmul", false),
    ("mod", "remainder", false),
    ("mul", "mul", false),
    ("ne", "ne", false),
    ("neg", "neg", false),
    ("or_", "bitwise_or", false),
    ("pos", "positive", false),
    ("pow", "pow", false),
    ("radd", "add", false),
    ("rand", "bitwise_and", false),
    ("rfloordiv", "floor_divide", true),
    ("rlshift", "bitwise_left_shift", true),
    ("rmatmul", "matmul", true),
    ("rmod", "remainder", true),
    ("rmul", "mul", false),
    ("ror", "bitwise_or", false),
    ("rpow", "pow", true),
    ("rrshift", "bitwise_right_shift", true),
    ("rshift", "bitwise_right_shift", false),
    ("rsub", "rsub", false),
    ("rxor", "bitwise_xor", false),
    ("sub", "sub", false),
    ("truediv", "div", false),
    ("xor", "bitwise_xor", false),
];

/// Methods that Python defines as plain functions: they take what is no tensor in its place, and where the operator
/// refuses the operands' types they return [`NotImplemented`] for the other operand to try.
const PLAIN_METHODS: &[&str] = &[
    "__floordiv__",
    "__pow__",
    "__rfloordiv__",
    "__rlshift__",
    "__rmatmul__",
    "__rmod__",
    "__rpow__",
    "__rrshift__",
    "__rsub__",
];

/// What a method of an operator returns when it does not know its operand.
pub struct NotImplemented;

/// The operator that a spelling names: `torch.linalg.vector_norm` is `linalg_vector_norm`, `attr:T` is `numpy_T`.
/// `None` for what is no single operator.
pub fn operator_of(spelling: &str) -> Option<String> {
    if let Some(name) = spelling.strip_prefix("attr:") {
        return Some(match name {
            "T" => "numpy_T".into(),
            "H" => "matrix_H".into(),
            name => name.into(),
        });
    }
    if let Some(name) = spelling.strip_prefix("operator:") {
        return PYTHON_OPERATORS.iter().find(|(n, ..)| *n == name).map(|(_, op, _)| op.to_string());
    }
    if let Some(path) = spelling.strip_prefix("torch.ops.aten.") {
        return path.split('.').next().map(str::to_string);
    }
    if let Some(path) = spelling.strip_prefix("torch.nn.functional.") {
        return Some(path.to_string());
    }
    let path = spelling.strip_prefix("torch.").or_else(|| spelling.strip_prefix("Tensor."))?;
    Some(path.replace('.', "_"))
}

/// Calls what `spelling` names.
///
/// # Errors
/// [`Failure::Missing`] when the target has no such operator, else what the operator says.
pub fn call<T: Target>(target: &T, spelling: &str, args: &mut Arguments<T::Tensor>) -> Outcome<Value<T::Tensor>> {
    if let Some(name) = spelling.strip_prefix("adapter:") {
        return adapted(target, name, args);
    }
    if let Some(rest) = spelling.strip_prefix("kw:") {
        let Some((path, keyword)) = rest.split_once(':') else { return missing(spelling) };
        args.keyword.push((keyword.to_string(), Value::bool(true)));
        return call(target, path, args);
    }
    if let Some(name) = spelling.strip_prefix("torch.nn.functional.") {
        return functional::call(target, name, args);
    }
    let method = spelling.strip_prefix("Tensor.");
    if let Some(name) = method.filter(|name| PLAIN_METHODS.contains(name)) {
        return match dunder(target, name, args) {
            Err(Failure::Raised(e)) if e.kind() == ErrorKind::Type => Ok(Value::Object(Rc::new(NotImplemented))),
            outcome => outcome,
        };
    }
    if let (Some(name), Some(Value::Number(_))) = (method, args.positional.first()) {
        let message = format!("descriptor '{name}' for 'torch._C.TensorBase' objects doesn't apply to a number");
        return Err(Failure::Raised(Error::type_(message)));
    }
    let Some(name) = operator_of(spelling) else { return missing(spelling) };
    if spelling.starts_with("operator:") {
        return operator(target, &name, args);
    }
    if name.starts_with("__") {
        return dunder(target, &name, args);
    }
    match name.as_str() {
        "split" => split(target, args),
        "norm" => norm(target, args),
        "einsum" if args.positional.len() > 2 => {
            let operands = args.positional.split_off(1);
            args.positional.push(Value::List(operands));
            operator(target, "einsum", args)
        }
        "nonzero" => match args.take("as_tuple") {
            Some(Value::Number(Scalar::Bool(true))) => operator(target, "nonzero_numpy", args),
            _ => operator(target, "nonzero", args),
        },
        name => match CONVERSIONS.iter().find(|(n, _)| *n == name && spelling.starts_with("Tensor.")) {
            Some((_, dtype)) => {
                args.positional.insert(1, Value::DType(*dtype));
                operator(target, "to", args)
            }
            None => operator(target, name, args),
        },
    }
}

/// A method of a Python operator: `__radd__`.
fn dunder<T: Target>(target: &T, name: &str, args: &mut Arguments<T::Tensor>) -> Outcome<Value<T::Tensor>> {
    let inner = name.trim_matches('_');
    if inner == "rdiv" {
        // Tensor.__rdiv__ multiplies the other operand with the reciprocal.
        let [x, other] = args.bind(name, ["self", "other"])?;
        let reciprocal = operator(target, "reciprocal", &mut Arguments::of([x]))?;
        return operator(target, "mul", &mut Arguments::of([reciprocal, other]));
    }
    match PYTHON_OPERATORS.iter().find(|(n, ..)| n.trim_matches('_') == inner) {
        Some((_, op, swapped)) => {
            if *swapped && args.positional.len() == 2 {
                args.positional.swap(0, 1);
            }
            operator(target, op, args)
        }
        None => operator(target, name, args),
    }
}

fn missing<T>(what: &str) -> Outcome<T> {
    Err(Failure::Missing(what.to_string()))
}

/// The name under which the target has an operator: its own, or the one it is another name for.
fn known<T: Target>(target: &T, name: &str) -> Option<String> {
    if target.has(name) {
        return Some(name.to_string());
    }
    let (base, suffix) = name.strip_suffix('_').map_or((name, ""), |base| (base, "_"));
    let (_, other) = ALIASES.iter().find(|(alias, _)| *alias == base)?;
    let other = format!("{other}{suffix}");
    target.has(&other).then_some(other)
}

/// Calls an operator by name; `requires_grad=` of creation functions is applied to the result.
pub(super) fn operator<T: Target>(
    target: &T,
    name: &str,
    args: &mut Arguments<T::Tensor>,
) -> Outcome<Value<T::Tensor>> {
    let Some(found) = known(target, name) else { return missing(name) };
    if found == "transpose" || found == "transpose_" {
        for (alias, own) in [("axis0", "dim0"), ("axis1", "dim1")] {
            args.rename(alias, own);
        }
    }
    let leaf = args.take("requires_grad").is_some_and(|v| matches!(v, Value::Number(s) if s.to_bool()));
    match target.call(&found, &mut args.positional, &mut args.keyword)? {
        Value::Tensor(t) if leaf => Ok(Value::Tensor(target.leaf(&t)?)),
        v => Ok(v),
    }
}

/// `split` takes one size, or a list of them.
fn split<T: Target>(target: &T, args: &mut Arguments<T::Tensor>) -> Outcome<Value<T::Tensor>> {
    let sizes = args.keyword.iter().find(|(n, _)| n.starts_with("split_size")).map(|(_, v)| v);
    let list = args.positional.get(1).or(sizes).is_some_and(|v| v.items().is_some());
    args.rename("tensor", "self");
    let (name, parameter) = if list { ("split_with_sizes", "split_sizes") } else { ("split", "split_size") };
    args.rename("split_size_or_sections", parameter);
    operator(target, name, args)
}

/// `norm` is `linalg_vector_norm` with its arguments in another order.
fn norm<T: Target>(target: &T, args: &mut Arguments<T::Tensor>) -> Outcome<Value<T::Tensor>> {
    args.rename("self", "input");
    let [x, p, dim, keepdim, out, dtype] = args.bind("norm", ["input", "p", "dim", "keepdim", "out", "dtype"])?;
    let order = match p {
        Value::None => Value::float(2.0),
        Value::Str(s) if s == "fro" => Value::float(2.0),
        Value::Str(s) if s == "nuc" => return missing("norm(p='nuc')"),
        Value::Str(s) => {
            let message = format!("only valid string values are 'fro' and 'nuc', found {s}");
            return Err(Failure::Raised(Error::runtime(message)));
        }
        p => p,
    };
    let keepdim = if keepdim.is_none() { Value::bool(false) } else { keepdim };
    let mut inner = Arguments::of([x, order, dim, keepdim]);
    inner.keyword.push(("dtype".into(), dtype));
    if !out.is_none() {
        inner.keyword.push(("out".into(), out));
    }
    let result = operator(target, "linalg_vector_norm", &mut inner)?;
    if let (Some(written), Some((_, given))) = (inner.take("out"), args.keyword.iter_mut().find(|(n, _)| n == "out")) {
        *given = written;
    }
    Ok(result)
}

/// Calls that were recorded with their arguments in another order, or as a short composition.
fn adapted<T: Target>(target: &T, name: &str, args: &mut Arguments<T::Tensor>) -> Outcome<Value<T::Tensor>> {
    if args.positional.is_empty() {
        return missing(name);
    }
    let names = ["polygamma", "special_polygamma"];
    if let (true, 1, Some(n)) = (names.contains(&name), args.positional.len(), args.take("n")) {
        args.positional.push(n);
    }
    if args.positional.len() < 2 && !name.starts_with("clone_") {
        return missing(name);
    }
    match name {
        "einsum" => {
            args.positional.swap(0, 1);
            operator(target, "einsum", args)
        }
        "normal_swapped" => {
            args.positional.swap(0, 1);
            operator(target, "normal", args)
        }
        "where_cond_second" => {
            args.positional.swap(0, 1);
            operator(target, "where", args)
        }
        "polygamma" | "special_polygamma" => {
            args.positional.swap(0, 1);
            operator(target, name, args)
        }
        "embedding_swapped" => {
            args.positional.swap(0, 1);
            functional::call(target, "embedding", args)
        }
        "clone_resize_" | "clone_resize_as_" | "clone_zero_" => {
            let clone = operator(target, "clone", &mut Arguments::of([args.positional[0].clone()]))?;
            args.positional[0] = clone;
            operator(target, &name["clone_".len()..], args)
        }
        _ => missing(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let cases = [
            ("torch.add", "add"),
            ("torch.linalg.vector_norm", "linalg_vector_norm"),
            ("torch.special.i0e", "special_i0e"),
            ("torch.ops.aten.slice.Tensor", "slice"),
            ("torch.nn.functional.gelu", "gelu"),
            ("Tensor.expand_as", "expand_as"),
            ("attr:T", "numpy_T"),
            ("attr:mT", "mT"),
            ("operator:irshift", "bitwise_right_shift_"),
        ];
        for (spelling, name) in cases {
            assert_eq!(operator_of(spelling).as_deref(), Some(name), "{spelling}");
        }
        assert_eq!(operator_of("py:len"), None);
    }

    #[test]
    fn tables_are_sorted_and_unique() {
        assert!(ALIASES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(PYTHON_OPERATORS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
