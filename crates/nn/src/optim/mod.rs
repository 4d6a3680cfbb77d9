//! Optimisers, their schedules, averages of parameters, and the clipping of gradients.

mod algorithms;
mod average;
mod lbfgs;
mod schedule;
mod wolfe;

pub use algorithms::{ASGD, Adadelta, Adagrad, Adam, AdamW, Adamax, NAdam, RAdam, RMSprop, Rprop, SGD};
pub use average::{AveragedModel, Averaging};
pub use lbfgs::{LBFGS, LBFGSOptions};
pub use schedule::*;

use crate::state::StateDict;
use flambeau::autograd::no_grad;
use flambeau::{DType, Error, MemoryFormat, Result, Tensor, ensure};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A rule by which a parameter moves along its gradient. Its fields are the options, one value of it a group's.
pub trait Algorithm: Clone + Send + Sync {
    /// The names of the tensors that it may keep for a parameter.
    const TENSORS: &'static [&'static str];
    /// The names of the numbers that it may keep for a parameter.
    const NUMBERS: &'static [&'static str] = &[];

    /// Moves `parameter`; gradients are not being recorded.
    ///
    /// # Errors
    /// Those of its operators.
    fn update(&self, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()>;
    /// Whether the options make sense.
    ///
    /// # Errors
    /// Says which do not.
    fn check(&self) -> Result<()>;
    /// The options by name, as numbers.
    fn options(&self) -> Vec<(&'static str, f64)>;
    /// Sets an option; `false` when there is none of that name.
    fn set_option(&mut self, name: &str, value: f64) -> bool;
}

/// What an optimiser remembers of one parameter.
#[derive(Clone, Default, Debug)]
pub struct ParameterState {
    /// How many steps it has made.
    pub step: u64,
    /// Averages and the like.
    pub tensors: BTreeMap<&'static str, Tensor>,
    /// Numbers that change from step to step.
    pub numbers: BTreeMap<&'static str, f64>,
}

impl ParameterState {
    /// A tensor of this name, made of zeros like `like` at first.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn zeros(&mut self, name: &'static str, like: &Tensor) -> Result<Tensor> {
        self.filled(name, like, 0.0)
    }

    /// A tensor of this name, made of `value` and like `like` at first.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn filled(&mut self, name: &'static str, like: &Tensor, value: f64) -> Result<Tensor> {
        if let Some(t) = self.tensors.get(name) {
            return Ok(t.clone());
        }
        let t = like.detach()?.empty_like()?;
        t.fill_(value)?;
        self.tensors.insert(name, t.clone());
        Ok(t)
    }

    /// A number of this name, `first` at first.
    pub fn number(&mut self, name: &'static str, first: f64) -> &mut f64 {
        self.numbers.entry(name).or_insert(first)
    }
}

/// Parameters that share their options.
#[derive(Clone, Debug)]
pub struct Group<A> {
    /// The parameters.
    pub parameters: Vec<Tensor>,
    /// The options.
    pub options: A,
}

/// An optimiser: parameters in groups, and what is remembered of each.
///
/// Options may change between steps: `optimizer.groups[0].options.lr = 0.1`.
pub struct Optimizer<A: Algorithm> {
    /// The groups.
    pub groups: Vec<Group<A>>,
    state: States,
}

/// What is remembered of parameters, by their identity. Each is held with its state: while it is, no other can be in its place.
type States = HashMap<usize, (Tensor, ParameterState)>;

/// What is remembered of one.
fn state_of<'a>(states: &'a mut States, parameter: &Tensor) -> &'a mut ParameterState {
    &mut states.entry(parameter.id()).or_insert_with(|| (parameter.clone(), ParameterState::default())).1
}

impl<A: Algorithm> Optimizer<A> {
    /// An optimiser of one group.
    ///
    /// # Errors
    /// When an option makes no sense, a parameter comes twice or is not a leaf, or there is none.
    pub fn new(parameters: Vec<Tensor>, options: A) -> Result<Optimizer<A>> {
        if parameters.is_empty() {
            return Err(Error::value("optimizer got an empty parameter list"));
        }
        let mut optimizer = Optimizer { groups: Vec::new(), state: HashMap::new() };
        optimizer.add_group(parameters, options)?;
        Ok(optimizer)
    }

    /// Adds a group.
    ///
    /// # Errors
    /// As [`Optimizer::new`]; nothing has been added then.
    pub fn add_group(&mut self, parameters: Vec<Tensor>, options: A) -> Result<()> {
        options.check()?;
        let mut seen: HashSet<usize> = self.parameters().map(Tensor::id).collect();
        for p in &parameters {
            if !p.is_leaf() {
                return Err(Error::value("can't optimize a non-leaf Tensor"));
            }
            if !p.dtype().is_differentiable() {
                return Err(Error::type_(format!(
                    "optimizer can only optimize floating point Tensors, not {}",
                    p.dtype()
                )));
            }
            if !seen.insert(p.id()) {
                return Err(Error::value("some parameters appear in more than one parameter group"));
            }
        }
        self.groups.push(Group { parameters, options });
        Ok(())
    }

    /// All parameters, group by group.
    pub fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        self.groups.iter().flat_map(|g| &g.parameters)
    }

    /// Moves every parameter that has a gradient.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn step(&mut self) -> Result<()> {
        let _guard = no_grad();
        for group in &self.groups {
            for parameter in &group.parameters {
                let Some(grad) = parameter.grad() else { continue };
                let state = state_of(&mut self.state, parameter);
                state.step += 1;
                if parameter.dtype().is_complex() {
                    group.options.update(&parameter.detach()?.view_as_real()?, &grad.view_as_real()?, state)?;
                } else {
                    group.options.update(parameter, &grad, state)?;
                }
            }
        }
        Ok(())
    }

    /// Drops all gradients.
    ///
    /// # Errors
    /// None at present.
    pub fn zero_grad(&self) -> Result<()> {
        self.parameters().try_for_each(|p| p.set_grad(None))
    }

    /// The learning rate of each group.
    pub fn learning_rates(&self) -> Vec<f64> {
        self.groups.iter().map(|g| g.options.option("lr").unwrap_or(0.0)).collect()
    }

    /// Sets the learning rates, group by group.
    pub fn set_learning_rates(&mut self, rates: &[f64]) {
        for (group, &rate) in self.groups.iter_mut().zip(rates) {
            group.options.set_option("lr", rate);
        }
    }

    /// Everything that a later run needs to go on: `state.N.NAME` for parameter N, `groups.N.NAME` for the options.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn state_dict(&self) -> Result<StateDict> {
        let mut dict = StateDict::new();
        for (number, parameter) in self.parameters().enumerate() {
            let Some((_, state)) = self.state.get(&parameter.id()) else { continue };
            dict.insert(format!("state.{number}.step"), Tensor::scalar(state.step as f64)?);
            for (name, tensor) in &state.tensors {
                dict.insert(format!("state.{number}.{name}"), tensor.clone());
            }
            for (name, &value) in &state.numbers {
                dict.insert(format!("state.{number}.{name}"), Tensor::scalar(value)?);
            }
        }
        for (number, group) in self.groups.iter().enumerate() {
            for (name, value) in group.options.options() {
                dict.insert(format!("groups.{number}.{name}"), Tensor::scalar(value)?);
            }
            dict.insert(format!("groups.{number}.parameters"), Tensor::scalar(group.parameters.len() as i64)?);
        }
        Ok(dict)
    }

    /// Goes on from a state.
    ///
    /// # Errors
    /// When it is not of an optimiser with the same groups of the same parameters; nothing has changed then.
    pub fn load_state_dict(&mut self, dict: &StateDict) -> Result<()> {
        let _guard = no_grad();
        let number = |name: &str| -> Result<f64> {
            match dict.get(name) {
                Some(t) => Ok(t.item().map_err(|e| e.context(name))?.to_f64()),
                None => Err(Error::value(format!("loaded state dict has no '{name}'"))),
            }
        };
        let groups_there = (0..).take_while(|g| dict.contains_key(&format!("groups.{g}.parameters"))).count();
        if groups_there != self.groups.len() {
            return Err(Error::value("loaded state dict has a different number of parameter groups"));
        }
        let mut groups = self.groups.clone();
        for (g, group) in groups.iter_mut().enumerate() {
            if number(&format!("groups.{g}.parameters"))? != group.parameters.len() as f64 {
                return Err(Error::value(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
                ));
            }
            for (name, _) in group.options.options() {
                group.options.set_option(name, number(&format!("groups.{g}.{name}"))?);
            }
            group.options.check()?;
        }
        let parameters: Vec<&Tensor> = self.parameters().collect();
        let mut states = States::new();
        for (full, tensor) in dict.iter() {
            if full.starts_with("groups.") {
                continue;
            }
            let unexpected = || Error::value(format!("loaded state dict has an unexpected '{full}'"));
            let rest = full.strip_prefix("state.").ok_or_else(unexpected)?;
            let (index, name) = rest.split_once('.').ok_or_else(unexpected)?;
            let parameter = index.parse().ok().and_then(|i: usize| parameters.get(i)).ok_or_else(unexpected)?;
            let state = state_of(&mut states, parameter);
            if name == "step" {
                state.step = count(full, number(full)?)?;
                continue;
            }
            if let Some(name) = A::NUMBERS.iter().find(|n| **n == name) {
                state.numbers.insert(name, number(full)?);
                continue;
            }
            let name = A::TENSORS.iter().find(|n| **n == name).ok_or_else(unexpected)?;
            let real = if parameter.dtype().is_complex() {
                parameter.detach()?.view_as_real()?
            } else {
                parameter.detach()?
            };
            ensure!(
                tensor.sizes() == real.sizes(),
                "size mismatch for {full}: sizes {:?} in the state dict, {:?} in the optimizer",
                tensor.sizes(),
                real.sizes()
            );
            // A copy: the dictionary may share memory with another optimiser.
            let own = real.zeros_like()?;
            own.copy_(tensor)?;
            state.tensors.insert(name, own);
        }
        self.groups = groups;
        self.state = states;
        Ok(())
    }
}

/// What every [`Algorithm`] can do by its options.
pub trait AlgorithmOptions {
    /// An option by name.
    fn option(&self, name: &str) -> Option<f64>;
}
impl<A: Algorithm> AlgorithmOptions for A {
    fn option(&self, name: &str) -> Option<f64> {
        self.options().into_iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }
}

/// A number of a saved state as a count of steps.
fn count(name: &str, number: f64) -> Result<u64> {
    // The largest number up to which a float tells each from the next.
    let exact = 2f64.powi(53);
    match (0.0..=exact).contains(&number) && number.fract() == 0.0 {
        true => Ok(number as u64),
        false => Err(Error::value(format!("loaded state dict has a '{name}' that is no count of steps: {number}"))),
    }
}

/// A tensor of the same elements in memory of its own.
fn copied(tensor: &Tensor) -> Result<Tensor> {
    tensor.detach()?.clone_in(MemoryFormat::Preserve)
}

/// Scales the gradients so that their norm, as if they were one vector, is at most `max_norm`; gives the norm before.
///
/// # Errors
/// Those of the operators.
pub fn clip_grad_norm_(parameters: &[Tensor], max_norm: f64, norm_type: f64) -> Result<Tensor> {
    let _guard = no_grad();
    let grads: Vec<Tensor> = parameters.iter().filter_map(Tensor::grad).collect();
    let Some(first) = grads.first() else { return Tensor::zeros(&[], DType::F32) };
    let device = first.device();
    let norms: Vec<Tensor> =
        (grads.iter()).map(|g| g.vector_norm(norm_type, &[], false)?.to_device(device)).collect::<Result<_>>()?;
    let total = Tensor::stack(&norms, 0)?.vector_norm(norm_type, &[], false)?;
    let factor = total.add(1e-6)?.reciprocal()?.mul(max_norm)?.clamp_max(1.0)?;
    for grad in &grads {
        grad.mul_(&factor.to_device(grad.device())?)?;
    }
    Ok(total)
}

/// Clamps every element of the gradients to `[-limit, limit]`.
///
/// # Errors
/// Those of the operators.
pub fn clip_grad_value_(parameters: &[Tensor], limit: f64) -> Result<()> {
    let _guard = no_grad();
    for grad in parameters.iter().filter_map(Tensor::grad) {
        grad.clamp_(-limit, limit)?;
    }
    Ok(())
}
