//! The schedule that watches a number.

use super::{count, number_of, numbers_to_state};
use crate::optim::{Algorithm, Optimizer};
use crate::state::StateDict;
use flambeau::{Error, Result};

/// Which numbers are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// Lower ones: a loss.
    #[default]
    Min,
    /// Higher ones: an accuracy.
    Max,
}

/// How [`ReduceLROnPlateau`] judges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlateauOptions {
    /// Which numbers are better.
    pub goal: Goal,
    /// What the rates are multiplied by.
    pub factor: f64,
    /// How many steps without progress are borne.
    pub patience: u64,
    /// By how much a number must be better to count, as a share of the best.
    pub threshold: f64,
    /// Whether the threshold is a difference instead of a share.
    pub absolute: bool,
    /// How many steps after a reduction do not count.
    pub cooldown: u64,
    /// The lowest rate.
    pub min_lr: f64,
    /// Smaller reductions are not made.
    pub eps: f64,
}

impl Default for PlateauOptions {
    fn default() -> Self {
        PlateauOptions {
            goal: Goal::Min,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            absolute: false,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
        }
    }
}

/// Reduces the learning rates when a number has not become better for more than `patience` steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReduceLROnPlateau {
    options: PlateauOptions,
    best: Option<f64>,
    bad_epochs: u64,
    resting: u64,
}

impl ReduceLROnPlateau {
    /// One that has seen no number yet.
    ///
    /// # Errors
    /// When `factor` is not below 1.
    pub fn new(options: PlateauOptions) -> Result<ReduceLROnPlateau> {
        if options.factor >= 1.0 {
            return Err(Error::value("Factor should be < 1.0."));
        }
        Ok(ReduceLROnPlateau { options, best: None, bad_epochs: 0, resting: 0 })
    }

    /// Notes the number of an epoch, and reduces the rates if that was one too many.
    pub fn step<A: Algorithm>(&mut self, metric: f64, optimizer: &mut Optimizer<A>) {
        let options = self.options;
        let better = self.best.is_none_or(|best| self.is_better(metric, best));
        if better {
            self.best = Some(metric);
        }
        let resting = self.resting > 0;
        self.resting = self.resting.saturating_sub(1);
        self.bad_epochs = if better || resting { 0 } else { self.bad_epochs + 1 };
        if self.bad_epochs > options.patience {
            (self.resting, self.bad_epochs) = (options.cooldown, 0);
            let reduce = |lr: f64| {
                let reduced = f64::max(lr * options.factor, options.min_lr);
                if lr - reduced > options.eps { reduced } else { lr }
            };
            let rates: Vec<f64> = optimizer.learning_rates().into_iter().map(reduce).collect();
            optimizer.set_learning_rates(&rates);
        }
    }

    fn is_better(&self, metric: f64, best: f64) -> bool {
        let PlateauOptions { goal, absolute, threshold, .. } = self.options;
        match (goal, absolute) {
            (Goal::Min, false) => metric < best * (1.0 - threshold),
            (Goal::Min, true) => metric < best - threshold,
            (Goal::Max, false) => metric > best * (1.0 + threshold),
            (Goal::Max, true) => metric > best + threshold,
        }
    }

    /// What a later run needs to go on, beside the options and the optimiser's state.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn state_dict(&self) -> Result<StateDict> {
        let counts = [("bad_epochs", Some(self.bad_epochs as f64)), ("resting", Some(self.resting as f64))];
        let numbers = counts.into_iter().chain([("best", self.best)]);
        numbers_to_state(numbers.filter_map(|(name, x)| Some((name.to_owned(), x?))))
    }

    /// Goes on from a state.
    ///
    /// # Errors
    /// When it is not of such a schedule; nothing has changed then.
    pub fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        let counted = |name: &str| count(name, number_of(state, name)?);
        let (bad_epochs, resting) = (counted("bad_epochs")?, counted("resting")?);
        let best = if state.contains_key("best") { Some(number_of(state, "best")?) } else { None };
        (self.bad_epochs, self.resting, self.best) = (bad_epochs, resting, best);
        Ok(())
    }
}
