//! Updates of optimisers, one kernel over all parameters of a list: each parameter, gradient and state is read and
//! written once.

use crate::dims::{self, Dims};
use crate::dispatch::check_writable;
use crate::samples::{Maker, Sample};
use crate::{Body, Error, Op, Operand, OwnedValue, Result, Tensor, ensure};
use flambeau_base::iter::GRAIN;
use flambeau_base::storage::LockSet;
use flambeau_cpu::fused::{Item, NUMBERS, Preparation, Rule, TENSORS, update};

type Numbers = [f64; NUMBERS];

/// Numbers of a rule, the rest being zero.
fn numbers<const N: usize>(some: [f64; N]) -> Numbers {
    let mut all = [0.0; NUMBERS];
    all[..N].copy_from_slice(&some);
    all
}

/// The lists of one call, all as long as the first.
struct Lists<'a> {
    op: &'static Op,
    /// What PyTorch calls the kernel.
    kernel: &'a str,
    /// Parameters, gradients and states.
    lists: Vec<(&'a str, &'a [Tensor])>,
}

impl Lists<'_> {
    fn is_meta(&self) -> bool {
        self.lists.iter().any(|(_, list)| list.iter().any(|t| t.device().is_meta()))
    }

    fn len(&self) -> usize {
        self.lists[0].1.len()
    }

    /// Checks what can be without data: lengths, dtypes, shapes, devices.
    fn check(&self) -> Result<()> {
        for (name, list) in &self.lists {
            check_length(name, list, self.len())?;
        }
        for (i, p) in self.lists[0].1.iter().enumerate() {
            if !p.dtype().is_floating_point() {
                let (kernel, dtype) = (self.kernel, p.dtype().scalar_type_name());
                return Err(Error::not_implemented(format!("\"{kernel}\" not implemented for '{dtype}'")));
            }
            for (k, (name, list)) in self.lists.iter().enumerate() {
                let t = &list[i];
                ensure!(
                    t.dtype() == p.dtype(),
                    "expected scalar type {} but found {}",
                    p.dtype().scalar_type_name(),
                    t.dtype().scalar_type_name()
                );
                ensure!(
                    t.sizes() == p.sizes(),
                    "{}(): expected {name}[{i}] to have its parameter's shape {:?}, but got {:?}",
                    self.op.name(),
                    p.sizes(),
                    t.sizes()
                );
                if k != 1 {
                    check_writable(t, p.dtype())?;
                }
            }
        }
        Ok(())
    }

    /// Updates every parameter by a rule, given `numbers` with each.
    fn run(&self, rule: Rule, prepare: Preparation, numbers: impl Fn(usize) -> Result<Numbers>) -> Result<()> {
        let mut items = Vec::with_capacity(self.len());
        let mut used: Vec<(Tensor, bool)> = Vec::with_capacity(self.len() * self.lists.len());
        // What was copied to have its parameter's order.
        let mut copied: Vec<(&Tensor, Tensor)> = Vec::new();
        for (i, p) in self.lists[0].1.iter().enumerate() {
            let direct = p.is_non_overlapping_and_dense() && self.lists.iter().all(|(_, list)| same_order(&list[i], p));
            let mut data = [std::ptr::null_mut(); TENSORS];
            for (k, (_, list)) in self.lists.iter().enumerate() {
                let (t, written) = (&list[i], k != 1 || prepare.divisor.is_some());
                ensure!(
                    t.device() == p.device(),
                    "Expected all tensors to be on the same device, but found at least two devices, {} and {}!",
                    p.device(),
                    t.device()
                );
                let here = match direct {
                    true => t.clone(),
                    false => {
                        let copy = Tensor::fresh(t.device(), t.dtype(), Dims::from_slice(t.sizes()))?.copy_(t)?;
                        if written {
                            copied.push((t, copy.clone()));
                        }
                        copy
                    }
                };
                // Nothing is an address too where there are no elements, but null says that there is no tensor.
                data[k] = if p.numel() == 0 { std::ptr::dangling_mut() } else { here.data_ptr() };
                used.push((here, written));
            }
            items.push(Item { data, dtype: p.dtype(), len: p.numel() as usize, numbers: numbers(i)? });
        }
        let apart = items.iter().map(|i| i.len).sum::<usize>() <= GRAIN || are_apart(&used);
        let locks = LockSet::of_many(used.iter().map(|(t, written)| (t.storage(), *written)).collect())?;
        // SAFETY: the tensors have their items' dtype and number of elements, without gaps in one order, and are locked;
        // few elements are one piece of work.
        unsafe { update(rule, prepare, &items, apart) };
        drop(locks);
        copied.into_iter().try_for_each(|(t, copy)| t.copy_(&copy).map(drop))
    }
}

fn check_length(name: &str, list: &[Tensor], n: usize) -> Result<()> {
    expect(list.len() == n, &format!("{name}.size() == n_tensors"))
}

/// PyTorch's word for a condition that should hold.
fn expect(holds: bool, condition: &str) -> Result<()> {
    ensure!(
        holds,
        "Expected {condition} to be true, but got false.  (Could this error message be improved?  If so, please report an \
         enhancement request to PyTorch.)"
    );
    Ok(())
}

/// Whether two tensors of one shape have their elements in the same order without gaps, given that the second has none.
fn same_order(t: &Tensor, p: &Tensor) -> bool {
    t.numel() == 0 || dims::same_strides(t.sizes(), t.strides(), p.strides())
}

/// Whether no two tensors have memory in common.
fn are_apart(tensors: &[(Tensor, bool)]) -> bool {
    let range = |t: &Tensor| (t.data_ptr() as usize, t.numel() as usize * t.element_size());
    let mut ranges: Vec<_> = tensors.iter().map(|(t, _)| range(t)).filter(|(_, bytes)| *bytes > 0).collect();
    ranges.sort_unstable();
    ranges.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0)
}

/// What gradient scaling says: `None` to leave all as it is, else what to do to the gradients.
fn preparation(scale: Option<&Tensor>, found: Option<&Tensor>, negate: bool) -> Result<Option<Preparation>> {
    if let Some(found) = found
        && found.item()?.to_f64() == 1.0
    {
        return Ok(None);
    }
    let divisor = scale.map(|s| s.item().map(|s| s.to_f64())).transpose()?;
    Ok(Some(Preparation { divisor, negate }))
}

/// The number that a rate is.
fn rate(lr: Operand<'_>) -> Result<f64> {
    Ok(match lr {
        Operand::Tensor(t) => t.item()?.to_f64(),
        Operand::Scalar(s) => s.to_f64(),
    })
}

fn sgd(
    parameters: &[Tensor],
    gradients: &[Tensor],
    buffers: &[Tensor],
    weight_decay: f64,
    momentum: f64,
    lr: Operand<'_>,
    dampening: f64,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let mut lists = vec![("self", parameters), ("grads", gradients)];
    match momentum == 0.0 {
        true => expect(buffers.is_empty(), "momentum_buffer_list.empty()")?,
        false => lists.push(("momentum_buffer_list", buffers)),
    }
    let lists = Lists { op: &fused_sgd::OP, kernel: "fused_sgd_kernel", lists };
    lists.check()?;
    if lists.is_meta() {
        return Ok(());
    }
    let Some(prepare) = preparation(grad_scale, found_inf, maximize)? else { return Ok(()) };
    let flag = |b| if b { 1.0 } else { 0.0 };
    let all = [weight_decay, momentum, 1.0 - dampening, flag(nesterov), flag(is_first_step), -rate(lr)?];
    lists.run(Rule::Sgd, prepare, |_| Ok(numbers(all)))
}

fn adam<const DECOUPLED: bool>(
    parameters: &[Tensor],
    gradients: &[Tensor],
    means: &[Tensor],
    squares: &[Tensor],
    largest: &[Tensor],
    steps: &[Tensor],
    lr: Operand<'_>,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
    eps: f64,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let mut lists = vec![("self", parameters), ("grads", gradients), ("exp_avgs", means), ("exp_avg_sqs", squares)];
    match amsgrad {
        true => lists.push(("max_exp_avg_sqs", largest)),
        false => expect(largest.is_empty(), "max_exp_avg_sqs.empty()")?,
    }
    let (op, kernel) = match DECOUPLED {
        true => (&fused_adamw::OP, "fused_adam_kernel"),
        false => (&fused_adam::OP, "fused_adam_kernel"),
    };
    let lists = Lists { op, kernel, lists };
    check_length("state_steps", steps, lists.len())?;
    lists.check()?;
    if lists.is_meta() {
        return Ok(());
    }
    let Some(prepare) = preparation(grad_scale, found_inf, maximize)? else { return Ok(()) };
    let lr = rate(lr)?;
    let (left, penalty) = if DECOUPLED { (1.0 - lr * weight_decay, 0.0) } else { (1.0, weight_decay) };
    lists.run(Rule::Adam, prepare, |i| {
        let step = steps[i].item()?.to_f64();
        let (size, root) = (lr / (1.0 - beta1.powf(step)), (1.0 - beta2.powf(step)).sqrt());
        Ok(numbers([left, penalty, 1.0 - beta1, beta2, 1.0 - beta2, root, eps, -size]))
    })
}

fn adagrad(
    parameters: &[Tensor],
    gradients: &[Tensor],
    sums: &[Tensor],
    steps: &[Tensor],
    lr: Operand<'_>,
    lr_decay: f64,
    weight_decay: f64,
    eps: f64,
    maximize: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let lists = vec![("self", parameters), ("grads", gradients), ("state_sums", sums)];
    let lists = Lists { op: &fused_adagrad::OP, kernel: "fused_adagrad_kernel", lists };
    check_length("state_steps", steps, lists.len())?;
    lists.check()?;
    if lists.is_meta() {
        return Ok(());
    }
    let Some(prepare) = preparation(grad_scale, found_inf, maximize)? else { return Ok(()) };
    let lr = rate(lr)?;
    lists.run(Rule::Adagrad, prepare, |i| {
        let step = steps[i].item()?.to_f64();
        Ok(numbers([weight_decay, eps, -(lr / (1.0 + (step - 1.0) * lr_decay))]))
    })
}

/// The rule of a name, how many states it has at most, and how many numbers it takes.
fn rule(name: &str) -> Result<(Rule, usize, usize)> {
    Ok(match name {
        "sgd" => (Rule::Sgd, 1, 6),
        "adam" => (Rule::Adam, 3, 8),
        "adagrad" => (Rule::Adagrad, 1, 3),
        "rmsprop" => (Rule::RmsProp, 3, 7),
        "adadelta" => (Rule::Adadelta, 2, 5),
        "adamax" => (Rule::Adamax, 2, 5),
        "nadam" => (Rule::NAdam, 2, 9),
        "radam" => (Rule::RAdam, 2, 10),
        "rprop" => (Rule::Rprop, 2, 4),
        "asgd" => (Rule::Asgd, 1, 4),
        other => return Err(Error::value(format!("_optimizer_update_(): there is no rule '{other}'"))),
    })
}

fn optimizer_update_any(
    parameters: &[Tensor],
    gradients: &[Tensor],
    states: &[Tensor],
    name: &str,
    given: &[f64],
    maximize: bool,
) -> Result<()> {
    let (rule, most, each) = rule(name)?;
    let n = parameters.len();
    ensure!(
        states.len().is_multiple_of(n) && states.len() <= most * n && (given.len() == each || given.len() == each * n),
        "_optimizer_update_(): {} states and {} numbers do not fit {n} parameters and the rule '{name}'",
        states.len(),
        given.len()
    );
    let mut lists = vec![("self", parameters), ("grads", gradients)];
    lists.extend(states.chunks(n.max(1)).map(|list| ("states", list)));
    let lists = Lists { op: &optimizer_update::OP, kernel: "optimizer_update_kernel", lists };
    lists.check()?;
    if lists.is_meta() {
        return Ok(());
    }
    lists.run(rule, Preparation { divisor: None, negate: maximize }, |i| {
        let from = if given.len() == each { 0 } else { i * each };
        let mut mine = [0.0; NUMBERS];
        mine[..each].copy_from_slice(&given[from..from + each]);
        Ok(mine)
    })
}

/// Arguments with `count` lists of two tensors, of which only the first two may be negative, then the given ones.
fn lists_and(m: &mut Maker, count: usize, rest: Vec<OwnedValue>) -> Sample {
    let list = |k: usize| {
        let low = if k < 2 { -2.0 } else { 0.0 };
        OwnedValue::Tensors([vec![2, 3], vec![4]].iter().map(|s: &Vec<i64>| m.uniform(s, low, 2.0)).collect())
    };
    Sample::new((0..count).map(list).chain(rest).collect::<Vec<_>>())
}

fn number(x: f64) -> OwnedValue {
    OwnedValue::Float(x)
}

/// A tensor of one number.
fn tensor(x: f64) -> OwnedValue {
    Tensor::scalar(x as f32).map_or(OwnedValue::None, OwnedValue::Tensor)
}

/// How many steps each of two parameters has seen.
fn steps() -> OwnedValue {
    OwnedValue::Tensors([1.0f32, 3.0].into_iter().filter_map(|s| Tensor::scalar(s).ok()).collect())
}

fn sgd_samples(m: &mut Maker) -> Vec<Sample> {
    if !m.dtype.is_floating_point() {
        return vec![];
    }
    let rest = |buffers: bool, nesterov: bool, scale: OwnedValue| {
        let momentum = number(if buffers { 0.5 } else { 0.0 });
        let none = (!buffers).then(|| OwnedValue::Tensors(vec![]));
        let flags = [nesterov, !buffers, false].map(OwnedValue::Bool);
        let numbers = [number(0.125), momentum, number(0.25), number(0.0)];
        none.into_iter().chain(numbers).chain(flags).chain([scale, tensor(0.0)]).collect()
    };
    vec![
        lists_and(m, 3, rest(true, false, OwnedValue::None)),
        lists_and(m, 3, rest(true, true, tensor(2.0))),
        lists_and(m, 2, rest(false, false, OwnedValue::None)),
    ]
}

fn adam_samples(m: &mut Maker) -> Vec<Sample> {
    if !m.dtype.is_floating_point() {
        return vec![];
    }
    let rest = |amsgrad: bool, scale: OwnedValue| {
        let none = (!amsgrad).then(|| OwnedValue::Tensors(vec![]));
        let numbers = [0.25, 0.5, 0.75, 0.125, 0.0625].map(number);
        let flags = [amsgrad, !amsgrad].map(OwnedValue::Bool);
        none.into_iter().chain([steps()]).chain(numbers).chain(flags).chain([scale]).collect()
    };
    vec![lists_and(m, 4, rest(false, OwnedValue::None)), lists_and(m, 5, rest(true, tensor(2.0)))]
}

fn adagrad_samples(m: &mut Maker) -> Vec<Sample> {
    if !m.dtype.is_floating_point() {
        return vec![];
    }
    let rest = |maximize: bool, scale: OwnedValue| {
        let numbers = [0.25, 0.5, 0.125, 0.0625].map(number);
        [steps()].into_iter().chain(numbers).chain([OwnedValue::Bool(maximize), scale]).collect()
    };
    vec![lists_and(m, 3, rest(false, OwnedValue::None)), lists_and(m, 3, rest(true, tensor(2.0)))]
}

/// Each rule with every state, and numbers that leave none of its parts out.
fn update_samples(m: &mut Maker) -> Vec<Sample> {
    const NAMES: [&str; 10] =
        ["sgd", "adam", "adagrad", "rmsprop", "adadelta", "adamax", "nadam", "radam", "rprop", "asgd"];
    if !m.dtype.is_floating_point() {
        return vec![];
    }
    let mut samples = Vec::new();
    for (name, shared) in NAMES.into_iter().flat_map(|n| [(n, true), (n, false)]) {
        let Ok((_, most, each)) = rule(name) else { continue };
        let sample = lists_and(m, 2 + most, vec![]);
        let mut lists = sample.args.into_iter();
        let mut args: Vec<OwnedValue> = lists.by_ref().take(2).collect();
        let states = lists.flat_map(|l| if let OwnedValue::Tensors(l) = l { l } else { vec![] });
        args.push(OwnedValue::Tensors(states.collect()));
        args.push(OwnedValue::Str(name.into()));
        let numbers = (0..if shared { each } else { 2 * each }).map(|i| 0.25 + (i % each) as f64 / 16.0);
        args.push(OwnedValue::Floats(numbers.collect()));
        samples.push(Sample::new(args));
    }
    samples
}

op! {
    /// A step of gradient descent with momentum on every parameter of a list. Gradients are divided by `grad_scale`, and
    /// nothing is done where `found_inf` is one.
    fused_sgd: "_fused_sgd_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, float momentum, float lr, float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        Overload TENSOR_LR: "_fused_sgd_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, float momentum, Tensor lr, float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()";
    Body::Kernels {
        cpu: kernel!(sgd; p, g, buffers, decay, momentum, lr, dampening, nesterov, maximize, first, scale, found),
        meta: kernel!(sgd; p, g, buffers, decay, momentum, lr, dampening, nesterov, maximize, first, scale, found),
    };
    samples: sgd_samples;
}

op! {
    /// A step of Adam on every parameter of a list, with the penalty in the gradient. `state_steps` count this step.
    /// Gradients are divided by `grad_scale`, and nothing is done where `found_inf` is one.
    fused_adam: "_fused_adam_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        Overload TENSOR_LR: "_fused_adam_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()";
    Body::Kernels {
        cpu: kernel!(adam::<false>; p, g, m, v, top, steps, lr, b1, b2, decay, eps, amsgrad, maximize, scale, found),
        meta: kernel!(adam::<false>; p, g, m, v, top, steps, lr, b1, b2, decay, eps, amsgrad, maximize, scale, found),
    };
    samples: adam_samples;
}

op! {
    /// A step of AdamW on every parameter of a list: Adam with the decay at once on the parameter. `state_steps` count this
    /// step. Gradients are divided by `grad_scale`, and nothing is done where `found_inf` is one.
    fused_adamw: "_fused_adamw_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        Overload TENSOR_LR: "_fused_adamw_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, Tensor lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()";
    Body::Kernels {
        cpu: kernel!(adam::<true>; p, g, m, v, top, steps, lr, b1, b2, decay, eps, amsgrad, maximize, scale, found),
        meta: kernel!(adam::<true>; p, g, m, v, top, steps, lr, b1, b2, decay, eps, amsgrad, maximize, scale, found),
    };
    samples: adam_samples;
}

op! {
    /// A step of Adagrad on every parameter of a list. `state_steps` count this step. Gradients are divided by
    /// `grad_scale`, and nothing is done where `found_inf` is one.
    fused_adagrad: "_fused_adagrad_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, Tensor(d!)[] state_steps, *, float lr, float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        Overload TENSOR_LR: "_fused_adagrad_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, Tensor[] state_steps, *, Tensor lr, float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()";
    Body::Kernels {
        cpu: kernel!(adagrad; p, g, sums, steps, lr, lr_decay, decay, eps, maximize, scale, found),
        meta: kernel!(adagrad; p, g, sums, steps, lr, lr_decay, decay, eps, maximize, scale, found),
    };
    samples: adagrad_samples;
}

op! {
    /// A step of an optimiser's rule on every parameter of a list. `states` are lists as long as that, one after the other;
    /// `numbers` are one set for all parameters or one for each (see `flambeau_cpu::fused::Rule`).
    optimizer_update: "_optimizer_update_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] states, str rule, float[] numbers, bool maximize=False) -> ()";
    Body::Kernels {
        cpu: kernel!(optimizer_update_any; p, g, states, rule, numbers, maximize),
        meta: kernel!(optimizer_update_any; p, g, states, rule, numbers, maximize),
    };
    samples: update_samples;
}

/// The operators of this file.
pub static OPS: &[&[&Op]] = &[
    fused_adagrad::ALL,
    fused_adam::ALL,
    fused_adamw::ALL,
    fused_sgd::ALL,
    optimizer_update::ALL,
];
