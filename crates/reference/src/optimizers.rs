//! Steps of optimisers, one element at a time, by the update rules of the papers that introduced them.

use crate::Kernel;
use crate::array::{Array, outline};
use crate::indexing::overwrite;
use flambeau::value::take;
use flambeau::{Error, Op, Operand, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("_fused_sgd_", fused_sgd),
    ("_fused_adam_", |op, args| fused_adam(op, args, false)),
    ("_fused_adamw_", |op, args| fused_adam(op, args, true)),
    ("_fused_adagrad_", fused_adagrad),
    ("_optimizer_update_", update),
];

/// What one element of a parameter goes with: its gradient, and its states in the order of the rule.
struct Element<'a> {
    parameter: &'a mut f64,
    gradient: f64,
    states: &'a mut [f64],
}

/// A rule of one element. Its numbers are documented where it is.
type Rule = fn(Element<'_>, &[f64]);

/// The share `weight` of the way from `x` to `end`.
fn towards(x: f64, end: f64, weight: f64) -> f64 {
    x + weight * (end - x)
}

/// Numbers: penalty, momentum, the gradient's share in the buffer, whether Nesterov's, whether the buffer is new, minus
/// the rate. State: the momentum buffer, or nothing. (Sutskever et al., "On the importance of initialization and
/// momentum in deep learning", 2013.)
fn sgd(e: Element<'_>, c: &[f64]) {
    let [penalty, momentum, share, nesterov, new, rate] = [c[0], c[1], c[2], c[3], c[4], c[5]];
    let mut g = e.gradient + penalty * *e.parameter;
    if let [buffer] = e.states {
        *buffer = if new != 0.0 { g } else { *buffer * momentum + g * share };
        g = if nesterov != 0.0 { g + *buffer * momentum } else { *buffer };
    }
    *e.parameter += g * rate;
}

/// Numbers: what is left of the parameter, penalty, the gradient's weight, what is left of the square, the new square's
/// weight, the divisor of the root, `eps`, minus the rate. States: averages of the gradient and of its square, the
/// largest square or nothing. (Kingma and Ba, "Adam", 2015; Loshchilov and Hutter, "Decoupled weight decay
/// regularization", 2019.)
fn adam(e: Element<'_>, c: &[f64]) {
    let (g, square) = averaged(e.parameter, e.gradient, e.states, c);
    let square = match e.states.get_mut(2) {
        Some(largest) => {
            *largest = if square > *largest || square.is_nan() { square } else { *largest };
            *largest
        }
        None => square,
    };
    *e.parameter += c[7] * g / (square.sqrt() / c[5] + c[6]);
}

/// What Adam and its kin begin with: decay, and the averages of the gradient and of its square, which are given.
fn averaged(parameter: &mut f64, gradient: f64, states: &mut [f64], c: &[f64]) -> (f64, f64) {
    *parameter *= c[0];
    let g = gradient + c[1] * *parameter;
    states[0] = towards(states[0], g, c[2]);
    states[1] = states[1] * c[3] + c[4] * g * g;
    (states[0], states[1])
}

/// Numbers: penalty, `eps`, minus the rate. State: the sum of squares. (Duchi et al., "Adaptive subgradient methods for
/// online learning and stochastic optimization", 2011.)
fn adagrad(e: Element<'_>, c: &[f64]) {
    let g = e.gradient + c[0] * *e.parameter;
    e.states[0] += g * g;
    *e.parameter += c[2] * g / (e.states[0].sqrt() + c[1]);
}

/// Numbers: penalty, what is left of the square, the new square's weight, whether centred, `eps`, momentum, minus the
/// rate. States: the average of squares, the average gradient if centred, the momentum buffer. (Tieleman and Hinton,
/// "Neural networks for machine learning", lecture 6.5, 2012.)
fn rmsprop(e: Element<'_>, c: &[f64]) {
    let [penalty, left, new, centred, eps, momentum, rate] = [c[0], c[1], c[2], c[3], c[4], c[5], c[6]];
    let g = e.gradient + penalty * *e.parameter;
    e.states[0] = e.states[0] * left + new * g * g;
    let mut spread = e.states[0];
    if centred != 0.0 {
        e.states[1] = towards(e.states[1], g, new);
        spread -= e.states[1] * e.states[1];
    }
    let change = g / (spread.sqrt() + eps);
    if momentum > 0.0 {
        let buffer = &mut e.states[if centred != 0.0 { 2 } else { 1 }];
        *buffer = *buffer * momentum + change;
        *e.parameter += rate * *buffer;
    } else {
        *e.parameter += rate * change;
    }
}

/// Numbers: penalty, what is left of the squares, the new square's weight, `eps`, minus the rate. States: the averages
/// of squares of gradients and of changes. (Zeiler, "ADADELTA", 2012.)
fn adadelta(e: Element<'_>, c: &[f64]) {
    let [penalty, left, new, eps, rate] = [c[0], c[1], c[2], c[3], c[4]];
    let g = e.gradient + penalty * *e.parameter;
    e.states[0] = e.states[0] * left + new * g * g;
    let change = (e.states[1] + eps).sqrt() / (e.states[0] + eps).sqrt() * g;
    e.states[1] = e.states[1] * left + new * change * change;
    *e.parameter += rate * change;
}

/// Numbers: penalty, the gradient's weight, what is left of the largest, `eps`, minus the rate. States: the average
/// gradient and the largest. (Kingma and Ba, "Adam", 2015, section 7.1.)
fn adamax(e: Element<'_>, c: &[f64]) {
    let [penalty, weight, left, eps, rate] = [c[0], c[1], c[2], c[3], c[4]];
    let g = e.gradient + penalty * *e.parameter;
    e.states[0] = towards(e.states[0], g, weight);
    let (old, new) = (e.states[1] * left, g.abs() + eps);
    e.states[1] = if new > old || new.is_nan() { new } else { old };
    *e.parameter += rate * e.states[0] / e.states[1];
}

/// Numbers: Adam's up to `eps`, with the square's divisor in place of the root's, then minus the rates of the gradient
/// and of its average. States: averages of the gradient and of its square. (Dozat, "Incorporating Nesterov momentum
/// into Adam", 2016.)
fn nadam(e: Element<'_>, c: &[f64]) {
    let (average, square) = averaged(e.parameter, e.gradient, e.states, c);
    let g = e.gradient + c[1] * *e.parameter;
    *e.parameter += (c[7] * g + c[8] * average) / ((square / c[5]).sqrt() + c[6]);
}

/// Numbers: Adam's up to the new square's weight, the divisor of the average, the rate, `eps`, the numerator of the
/// adaptive part, and its factor (zero: there is none). States: averages of the gradient and of its square. (Liu et
/// al., "On the variance of the adaptive learning rate and beyond", 2020.)
fn radam(e: Element<'_>, c: &[f64]) {
    let (average, square) = averaged(e.parameter, e.gradient, e.states, c);
    let [divisor, rate, eps, numerator, factor] = [c[5], c[6], c[7], c[8], c[9]];
    let adaptive = if factor == 0.0 { 1.0 } else { numerator / (square.sqrt() + eps) * factor };
    *e.parameter -= average / divisor * rate * adaptive;
}

/// Numbers: the factors of steps that shrink and grow, the bounds. States: the last gradient and the step sizes.
/// (Riedmiller and Braun, "A direct adaptive method for faster backpropagation learning", 1993.)
fn rprop(e: Element<'_>, c: &[f64]) {
    let [shrink, grow, smallest, largest] = [c[0], c[1], c[2], c[3]];
    let agreement = e.gradient * e.states[0];
    let factor = match agreement {
        a if a < 0.0 => shrink,
        a if a > 0.0 => grow,
        _ => 1.0,
    };
    let next = e.states[1] * factor;
    e.states[1] = if next.is_nan() { next } else { next.max(smallest).min(largest) };
    // Where the sign has changed, the step is left out.
    e.states[0] = if agreement < 0.0 { 0.0 } else { e.gradient };
    let sign = if e.states[0] == 0.0 { 0.0 } else { e.states[0].signum() };
    *e.parameter -= sign * e.states[1];
}

/// Numbers: penalty, what is left of the parameter, minus the rate, the parameter's weight in the average. State: the
/// average of the parameter. (Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992.)
fn asgd(e: Element<'_>, c: &[f64]) {
    let g = e.gradient + c[0] * *e.parameter;
    *e.parameter = *e.parameter * c[1] + c[2] * g;
    e.states[0] = towards(e.states[0], *e.parameter, c[3]);
}

/// How many states a rule needs with its numbers.
type Least = fn(&[f64]) -> usize;

/// The rule of a name, how many numbers it takes, and how many states it needs.
fn rule(name: &str) -> Result<(Rule, usize, Least)> {
    Ok(match name {
        "sgd" => (sgd, 6, |_| 0),
        "adam" => (adam, 8, |_| 2),
        "adagrad" => (adagrad, 3, |_| 1),
        "rmsprop" => (rmsprop, 7, |c| 1 + usize::from(c[3] != 0.0) + usize::from(c[5] > 0.0)),
        "adadelta" => (adadelta, 5, |_| 2),
        "adamax" => (adamax, 5, |_| 2),
        "nadam" => (nadam, 9, |_| 2),
        "radam" => (radam, 10, |_| 2),
        "rprop" => (rprop, 4, |_| 2),
        "asgd" => (asgd, 4, |_| 1),
        other => return Err(Error::value(format!("_optimizer_update_(): there is no rule '{other}'"))),
    })
}

/// What gradient scaling and `maximize` make of a gradient.
#[derive(Clone, Copy)]
struct Preparation {
    /// It is divided by this, also where it stands.
    divisor: Option<f64>,
    negate: bool,
}

/// Updates a parameter by its gradient and states.
fn step(tensors: &[&Tensor], prepare: Preparation, rule: Rule, numbers: &[f64]) -> Result<()> {
    let mut values = tensors.iter().map(|t| Array::<f64>::read(t).map(|a| a.data)).collect::<Result<Vec<_>>>()?;
    for i in 0..values[0].len() {
        if let Some(divisor) = prepare.divisor {
            values[1][i] /= divisor;
        }
        let gradient = if prepare.negate { -values[1][i] } else { values[1][i] };
        let mut parameter = values[0][i];
        let mut states: Vec<f64> = values[2..].iter().map(|state| state[i]).collect();
        rule(Element { parameter: &mut parameter, gradient, states: &mut states }, numbers);
        values[0][i] = parameter;
        values[2..].iter_mut().zip(states).for_each(|(all, state)| all[i] = state);
    }
    for (k, (t, values)) in tensors.iter().zip(values).enumerate() {
        if k != 1 || prepare.divisor.is_some() {
            overwrite(t, &values)?;
        }
    }
    Ok(())
}

/// One of the fused operators. `lists` are the arguments that hold the parameters, their gradients and their states; what
/// `numbers` gives may differ from parameter to parameter.
fn fused(
    args: &[Value<'_>],
    op: &'static Op,
    lists: &[usize],
    [maximize, scale, found]: [usize; 3],
    rule: Rule,
    numbers: impl Fn(usize) -> Result<Vec<f64>>,
) -> Result<Outputs> {
    outline(op, args)?;
    let number = |i: usize| -> Result<Option<f64>> {
        take::<Option<&Tensor>>(op, args, i)?.map(|t| Ok(t.item()?.to_f64())).transpose()
    };
    if number(found)? == Some(1.0) {
        return Ok(Outputs::None);
    }
    let prepare = Preparation { divisor: number(scale)?, negate: take(op, args, maximize)? };
    let lists = lists.iter().map(|i| take::<&[Tensor]>(op, args, *i)).collect::<Result<Vec<_>>>()?;
    for i in 0..lists[0].len() {
        let tensors: Vec<&Tensor> = lists.iter().filter_map(|list| list.get(i)).collect();
        step(&tensors, prepare, rule, &numbers(i)?)?;
    }
    Ok(Outputs::None)
}

/// The number that a rate is.
fn rate(op: &'static Op, args: &[Value<'_>], i: usize) -> Result<f64> {
    Ok(match take::<Operand<'_>>(op, args, i)? {
        Operand::Tensor(t) => t.item()?.to_f64(),
        Operand::Scalar(s) => s.to_f64(),
    })
}

fn fused_sgd(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let number = |i: usize| take::<f64>(op, args, i);
    let flag = |i: usize| take::<bool>(op, args, i).map(|f| if f { 1.0 } else { 0.0 });
    let (penalty, momentum, dampening) = (number(3)?, number(4)?, number(6)?);
    let all = vec![penalty, momentum, 1.0 - dampening, flag(7)?, flag(9)?, -rate(op, args, 5)?];
    fused(args, op, &[0, 1, 2], [8, 10, 11], sgd, |_| Ok(all.clone()))
}

/// How many steps a parameter has seen.
fn steps(op: &'static Op, args: &[Value<'_>], list: usize, i: usize) -> Result<f64> {
    let list: &[Tensor] = take(op, args, list)?;
    let step =
        list.get(i).ok_or_else(|| Error::runtime(format!("{}: there is no step of parameter {i}", op.name())))?;
    Ok(step.item()?.to_f64())
}

fn fused_adam(op: &'static Op, args: &[Value<'_>], decoupled: bool) -> Result<Outputs> {
    let lr = rate(op, args, 6)?;
    let number = |i: usize| take::<f64>(op, args, i);
    let (beta1, beta2, decay, eps) = (number(7)?, number(8)?, number(9)?, number(10)?);
    let (left, penalty) = if decoupled { (1.0 - lr * decay, 0.0) } else { (1.0, decay) };
    fused(args, op, &[0, 1, 2, 3, 4], [12, 13, 14], adam, |i| {
        let step = steps(op, args, 5, i)?;
        let (size, root) = (lr / (1.0 - beta1.powf(step)), (1.0 - beta2.powf(step)).sqrt());
        Ok(vec![left, penalty, 1.0 - beta1, beta2, 1.0 - beta2, root, eps, -size])
    })
}

fn fused_adagrad(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let lr = rate(op, args, 4)?;
    let number = |i: usize| take::<f64>(op, args, i);
    let (decay, penalty, eps) = (number(5)?, number(6)?, number(7)?);
    fused(args, op, &[0, 1, 2], [8, 9, 10], adagrad, |i| {
        Ok(vec![penalty, eps, -(lr / (1.0 + (steps(op, args, 3, i)? - 1.0) * decay))])
    })
}

fn update(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    outline(op, args)?;
    let (parameters, gradients): (&[Tensor], &[Tensor]) = (take(op, args, 0)?, take(op, args, 1)?);
    let (states, name): (&[Tensor], &str) = (take(op, args, 2)?, take(op, args, 3)?);
    let (numbers, negate): (&[f64], bool) = (take(op, args, 4)?, take::<Option<bool>>(op, args, 5)?.unwrap_or(false));
    let ((rule, each, least), n) = (rule(name)?, parameters.len());
    for i in 0..n {
        // One set of numbers for all, or one for each.
        let from = if numbers.len() == each { 0 } else { i * each };
        let numbers = &numbers[from..from + each];
        let mut tensors = vec![&parameters[i], &gradients[i]];
        tensors.extend(states.iter().skip(i).step_by(n));
        if tensors.len() < 2 + least(numbers) {
            return Err(Error::runtime(format!("_optimizer_update_(): the rule '{name}' needs more states")));
        }
        step(&tensors, Preparation { divisor: None, negate }, rule, numbers)?;
    }
    Ok(Outputs::None)
}
