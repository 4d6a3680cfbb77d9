//! Schedules of learning rates. Make one after the optimiser, and call its `step` after every epoch (or batch).

mod cycles;
mod plateau;
mod rules;

pub use cycles::{CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, CyclicMode, OneCycleLR};
pub use plateau::{Goal, PlateauOptions, ReduceLROnPlateau};
pub use rules::{
    ChainedLR, ConstantLR, ExponentialLR, LambdaLR, LinearLR, MultiStepLR, MultiplicativeLR, PolynomialLR,
    SequentialLR, StepLR,
};

use super::{Algorithm, AlgorithmOptions, Optimizer, count};
use crate::state::StateDict;
use flambeau::{Error, Result, Tensor};

/// Where a schedule is, and what a group's learning rate is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// How many steps there were; 0 at the beginning.
    pub epoch: u64,
    /// The number of the group.
    pub group: usize,
    /// The group's rate when the schedule was made.
    pub base: f64,
    /// The group's rate before this step.
    pub lr: f64,
}

/// A rule of learning rates. Its fields are the options.
pub trait Schedule {
    /// The rate of a group. At epoch 0, `lr` is `base`.
    fn rate(&self, at: Moment) -> f64;

    /// The momentum (or `beta1`) that goes with it, for rules that move it.
    fn momentum(&self, _at: Moment) -> Option<f64> {
        None
    }

    /// Whether the options make sense.
    ///
    /// # Errors
    /// Says which do not.
    fn check(&self) -> Result<()>;

    /// After how many steps there are no more.
    fn end(&self) -> Option<u64> {
        None
    }
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn rate(&self, at: Moment) -> f64 {
        (**self).rate(at)
    }
    fn momentum(&self, at: Moment) -> Option<f64> {
        (**self).momentum(at)
    }
    fn check(&self) -> Result<()> {
        (**self).check()
    }
    fn end(&self) -> Option<u64> {
        (**self).end()
    }
}

/// Moves an optimiser's learning rates by a rule.
///
/// ```
/// use flambeau_nn::optim::{LinearLR, Scheduler};
/// use flambeau_nn::{Linear, Module, Optimizer, Result, SGD};
/// # fn main() -> Result<()> {
/// let mut optimizer = Optimizer::new(Linear::new(2, 2)?.parameters(), SGD { lr: 0.1, ..SGD::default() })?;
/// let mut schedule = Scheduler::new(&mut optimizer, LinearLR { start_factor: 0.5, ..LinearLR::default() })?;
/// assert_eq!(optimizer.learning_rates(), [0.05]);
/// schedule.step(&mut optimizer)?;
/// assert_eq!(optimizer.learning_rates(), [0.06]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Scheduler<S> {
    /// The rule.
    pub schedule: S,
    epoch: u64,
    base: Vec<f64>,
}

impl<S: Schedule> Scheduler<S> {
    /// A schedule that begins at the optimiser's rates, or sets its own first ones.
    ///
    /// # Errors
    /// When an option makes no sense, or momentum is to be moved and there is none.
    pub fn new<A: Algorithm>(optimizer: &mut Optimizer<A>, schedule: S) -> Result<Scheduler<S>> {
        schedule.check()?;
        let scheduler = Scheduler { schedule, epoch: 0, base: optimizer.learning_rates() };
        scheduler.apply(optimizer)?;
        Ok(scheduler)
    }

    /// The next step.
    ///
    /// # Errors
    /// When the rule has no more.
    pub fn step<A: Algorithm>(&mut self, optimizer: &mut Optimizer<A>) -> Result<()> {
        if let Some(end) = self.schedule.end().filter(|&end| self.epoch >= end) {
            return Err(Error::value(format!(
                "Tried to step {} times. The specified number of total steps is {end}",
                self.epoch + 1
            )));
        }
        self.epoch += 1;
        self.apply(optimizer)
    }

    /// How many steps there were.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What a later run needs to go on, beside the rule and the optimiser's state.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn state_dict(&self) -> Result<StateDict> {
        numbers_to_state(
            [("epoch".to_owned(), self.epoch as f64)]
                .into_iter()
                .chain(self.base.iter().enumerate().map(|(group, &lr)| (format!("base.{group}"), lr))),
        )
    }

    /// Goes on from a state. The optimiser's rates come with its own state.
    ///
    /// # Errors
    /// When it is not of a schedule of as many groups; nothing has changed then.
    pub fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        let epoch = count("epoch", number_of(state, "epoch")?)?;
        let groups = 0..self.base.len();
        let base = groups.map(|group| number_of(state, &format!("base.{group}"))).collect::<Result<_>>()?;
        (self.epoch, self.base) = (epoch, base);
        Ok(())
    }

    fn apply<A: Algorithm>(&self, optimizer: &mut Optimizer<A>) -> Result<()> {
        for (number, group) in optimizer.groups.iter_mut().enumerate() {
            let lr = group.options.option("lr").unwrap_or(0.0);
            let base = self.base.get(number).copied().unwrap_or(lr);
            let at = Moment { epoch: self.epoch, group: number, base, lr };
            group.options.set_option("lr", self.schedule.rate(at));
            if let Some(momentum) = self.schedule.momentum(at) {
                let name = ["momentum", "beta1"].into_iter().find(|name| group.options.option(name).is_some());
                let name = name.ok_or_else(|| {
                    Error::value("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
                })?;
                group.options.set_option(name, momentum);
            }
        }
        Ok(())
    }
}

fn numbers_to_state(numbers: impl Iterator<Item = (String, f64)>) -> Result<StateDict> {
    numbers.map(|(name, x)| Ok((name, Tensor::scalar(x)?))).collect()
}

fn number_of(state: &StateDict, name: &str) -> Result<f64> {
    let tensor = state.get(name).ok_or_else(|| Error::value(format!("loaded state dict has no '{name}'")))?;
    Ok(tensor.item().map_err(|e| e.context(name))?.to_f64())
}

/// An error unless a count is above 0.
fn positive(rule: &str, name: &str, value: u64) -> Result<()> {
    if value > 0 { Ok(()) } else { Err(Error::value(format!("{rule}: {name} must be positive"))) }
}
