//! `torch.nn.functional`: functions whose signature is not their operator's.

use super::call::{Arguments, operator};
use super::target::{Failure, Outcome, Target};
use super::value::Value;
use flambeau_base::{Error, Scalar};

/// Calls a function of `torch.nn.functional`; one that is not in the table is an operator of the same name.
pub(super) fn call<T: Target>(target: &T, name: &str, args: &mut Arguments<T::Tensor>) -> Outcome<Value<T::Tensor>> {
    let run = |name: &str, values: Vec<Value<T::Tensor>>| operator(target, name, &mut Arguments::of(values));
    match name {
        "relu" | "elu" | "leaky_relu" | "silu" | "selu" | "celu" | "mish" | "hardswish" | "hardsigmoid" | "relu6" => {
            let name = if flag(args.take("inplace"))? { format!("{name}_") } else { name.to_string() };
            operator(target, &name, args)
        }
        "softmax" | "log_softmax" => {
            let [x, dim, _, dtype] = args.bind(name, ["input", "dim", "_stacklevel", "dtype"])?;
            run(name, vec![x, dim, dtype])
        }
        "max_pool1d" | "max_pool2d" | "max_pool3d" => max_pool(target, name, args),
        "batch_norm" => {
            let [x, mean, var, weight, bias, training, momentum, eps] = args.bind(
                name,
                ["input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"],
            )?;
            let training = flag(Some(training))?;
            if let (true, Value::Tensor(t)) = (training, &x) {
                require_several_values(&target.describe(t).sizes)?;
            }
            let momentum = or(momentum, Value::float(0.1));
            let eps = or(eps, Value::float(1e-5));
            let training = Value::bool(training);
            run(name, vec![x, weight, bias, mean, var, training, momentum, eps, Value::bool(false)])
        }
        "group_norm" => {
            if let [Value::Tensor(t), Value::Number(Scalar::Int(groups)), ..] = &args.positional[..] {
                let sizes = target.describe(t).sizes;
                if sizes.len() < 2 {
                    return raise(Error::runtime(format!(
                        "Expected at least 2 dimensions for input tensor but received {}",
                        sizes.len()
                    )));
                }
                let mut grouped = vec![sizes[0] * sizes[1] / (*groups).max(1), *groups];
                grouped.extend(&sizes[2..]);
                require_several_values(&grouped)?;
            }
            operator(target, name, args)
        }
        "cross_entropy" => {
            let [x, goal, weight, size_average, ignore, reduce, reduction, smoothing] = args.bind(
                name,
                ["input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"],
            )?;
            let reduction = reduction_number(size_average, reduce, reduction)?;
            let ignore = or(ignore, Value::int(-100));
            run("cross_entropy_loss", vec![x, goal, weight, reduction, ignore, or(smoothing, Value::float(0.0))])
        }
        "nll_loss" => {
            let [x, goal, weight, size_average, ignore, reduce, reduction] =
                args.bind(name, ["input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction"])?;
            let reduction = reduction_number(size_average, reduce, reduction)?;
            run("nll_loss_nd", vec![x, goal, weight, reduction, or(ignore, Value::int(-100))])
        }
        "mse_loss" => {
            let [x, goal, size_average, reduce, reduction, weight] =
                args.bind(name, ["input", "target", "size_average", "reduce", "reduction", "weight"])?;
            if !weight.is_none() {
                return Err(Failure::Missing("mse_loss(weight=)".into()));
            }
            run(name, vec![x, goal, reduction_number(size_average, reduce, reduction)?])
        }
        "binary_cross_entropy_with_logits" => {
            let [x, goal, weight, size_average, reduce, reduction, positive] =
                args.bind(name, ["input", "target", "weight", "size_average", "reduce", "reduction", "pos_weight"])?;
            if let (Value::Tensor(x), Value::Tensor(goal)) = (&x, &goal) {
                let (input, goal) = (target.describe(x).sizes, target.describe(goal).sizes);
                if input != goal {
                    let message = format!("Target size ({goal:?}) must be the same as input size ({input:?})");
                    return raise(Error::value(message));
                }
            }
            run(name, vec![x, goal, weight, positive, reduction_number(size_average, reduce, reduction)?])
        }
        "embedding" => embedding(target, args),
        "dropout" => {
            let [x, p, training, in_place] = args.bind(name, ["input", "p", "training", "inplace"])?;
            let p = or(p, Value::float(0.5));
            if let Value::Number(n) = &p
                && !(0.0..=1.0).contains(&n.to_f64())
            {
                return raise(Error::value(format!("dropout probability has to be between 0 and 1, but got {n}")));
            }
            let name = if flag(Some(in_place))? { "dropout_" } else { name };
            run(name, vec![x, p, or(training, Value::bool(true))])
        }
        name => operator(target, name, args),
    }
}

fn raise<T>(e: Error) -> Outcome<T> {
    Err(Failure::Raised(e))
}

fn or<T>(given: Value<T>, default: Value<T>) -> Value<T> {
    if given.is_none() { default } else { given }
}

/// A boolean that is false when not given.
fn flag<T>(v: Option<Value<T>>) -> Outcome<bool> {
    match v {
        None | Some(Value::None) => Ok(false),
        Some(Value::Number(s)) => Ok(s.to_bool()),
        Some(v) => raise(Error::type_(format!("expected a bool, got {}", v.type_name()))),
    }
}

/// Statistics over a batch need more than one value per channel.
fn require_several_values(sizes: &[i64]) -> Outcome<()> {
    let values = sizes.first().unwrap_or(&0) * sizes.iter().skip(2).product::<i64>();
    if values == 1 {
        return raise(Error::value(format!(
            "Expected more than 1 value per channel when training, got input size {sizes:?}"
        )));
    }
    Ok(())
}

/// The number of a reduction: 0 none, 1 mean, 2 sum; the two old flags go before its name.
fn reduction_number<T>(size_average: Value<T>, reduce: Value<T>, name: Value<T>) -> Outcome<Value<T>> {
    if !size_average.is_none() || !reduce.is_none() {
        let on = |v: Value<T>| Ok::<_, Failure>(v.is_none() || flag(Some(v))?);
        return Ok(Value::int(match (on(size_average)?, on(reduce)?) {
            (_, false) => 0,
            (true, true) => 1,
            (false, true) => 2,
        }));
    }
    match name {
        Value::None => Ok(Value::int(1)),
        Value::Str(s) => match s.as_str() {
            "none" => Ok(Value::int(0)),
            "mean" => Ok(Value::int(1)),
            "sum" => Ok(Value::int(2)),
            other => raise(Error::value(format!("{other} is not a valid value for reduction"))),
        },
        v => raise(Error::type_(format!("reduction must be str, not {}", v.type_name()))),
    }
}

fn max_pool<T: Target>(target: &T, name: &str, args: &mut Arguments<T::Tensor>) -> Outcome<Value<T::Tensor>> {
    let [x, kernel, stride, padding, dilation, ceil, indices] =
        args.bind(name, ["input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices"])?;
    let name = if flag(Some(indices))? { format!("{name}_with_indices") } else { name.to_string() };
    let values = [
        x,
        kernel,
        or(stride, Value::List(vec![])),
        or(padding, Value::int(0)),
        or(dilation, Value::int(1)),
        or(ceil, Value::bool(false)),
    ];
    operator(target, &name, &mut Arguments::of(values))
}

fn embedding<T: Target>(target: &T, args: &mut Arguments<T::Tensor>) -> Outcome<Value<T::Tensor>> {
    let [indices, weight, padding, max_norm, norm_type, by_frequency, sparse] = args.bind(
        "embedding",
        ["input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"],
    )?;
    let rows = match &weight {
        Value::Tensor(t) => target.describe(t).sizes.first().copied().unwrap_or(0),
        _ => 0,
    };
    let padding = match padding {
        Value::None => -1,
        Value::Number(n) => {
            let i = n.to_i64();
            if i >= rows || i < -rows {
                let message = "Padding_idx must be within num_embeddings";
                return raise(Error::runtime(message));
            }
            if i < 0 { i + rows } else { i }
        }
        v => return raise(Error::type_(format!("padding_idx must be int, not {}", v.type_name()))),
    };
    if !max_norm.is_none() {
        let norm_type = or(norm_type, Value::float(2.0));
        let mut renorm = Arguments::of([weight.clone(), indices.clone(), max_norm, norm_type]);
        operator(target, "embedding_renorm_", &mut renorm)?;
    }
    let (by_frequency, sparse) = (flag(Some(by_frequency))?, flag(Some(sparse))?);
    let values = [weight, indices, Value::int(padding), Value::bool(by_frequency), Value::bool(sparse)];
    operator(target, "embedding", &mut Arguments::of(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions() {
        let number = |a: Value<()>, r: Value<()>, n: Value<()>| match reduction_number(a, r, n) {
            Ok(Value::Number(s)) => s.to_i64(),
            _ => -1,
        };
        assert_eq!(number(Value::None, Value::None, Value::None), 1);
        assert_eq!(number(Value::None, Value::None, Value::Str("sum".into())), 2);
        assert_eq!(number(Value::bool(false), Value::None, Value::Str("mean".into())), 2);
        assert_eq!(number(Value::None, Value::bool(false), Value::None), 0);
        assert_eq!(number(Value::None, Value::None, Value::Str("max".into())), -1);
    }
}
