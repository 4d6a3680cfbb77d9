//! Rules that multiply, and rules made of others. Those that go from rate to rate keep changes made in between.

use super::{Moment, Schedule, positive};
use flambeau::{Error, Result};
use std::fmt;

/// Multiplies the learning rates by `gamma` every `step_size` steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepLR {
    /// Steps between changes.
    pub step_size: u64,
    /// The factor.
    pub gamma: f64,
}

impl Default for StepLR {
    fn default() -> Self {
        StepLR { step_size: 1, gamma: 0.1 }
    }
}

impl Schedule for StepLR {
    fn rate(&self, at: Moment) -> f64 {
        if at.epoch > 0 && at.epoch.is_multiple_of(self.step_size) { at.lr * self.gamma } else { at.lr }
    }
    fn check(&self) -> Result<()> {
        positive("StepLR", "step_size", self.step_size)
    }
}

/// Multiplies the learning rates by `gamma` at certain steps.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiStepLR {
    /// The steps.
    pub milestones: Vec<u64>,
    /// The factor.
    pub gamma: f64,
}

impl Default for MultiStepLR {
    fn default() -> Self {
        MultiStepLR { milestones: Vec::new(), gamma: 0.1 }
    }
}

impl Schedule for MultiStepLR {
    fn rate(&self, at: Moment) -> f64 {
        let times = self.milestones.iter().filter(|&&m| m == at.epoch).count();
        at.lr * self.gamma.powi(times as i32)
    }
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Multiplies the learning rates by `gamma` at every step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialLR {
    /// The factor.
    pub gamma: f64,
}

impl Schedule for ExponentialLR {
    fn rate(&self, at: Moment) -> f64 {
        if at.epoch > 0 { at.lr * self.gamma } else { at.lr }
    }
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The rates times `factor` for `total_iters` steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConstantLR {
    /// The factor.
    pub factor: f64,
    /// How many steps it lasts.
    pub total_iters: u64,
}

impl Default for ConstantLR {
    fn default() -> Self {
        ConstantLR { factor: 1.0 / 3.0, total_iters: 5 }
    }
}

impl Schedule for ConstantLR {
    fn rate(&self, at: Moment) -> f64 {
        match at.epoch {
            0 => at.lr * self.factor,
            epoch if epoch == self.total_iters => at.lr * (1.0 / self.factor),
            _ => at.lr,
        }
    }
    fn check(&self) -> Result<()> {
        if self.factor <= 0.0 || self.factor > 1.0 {
            return Err(Error::value("Constant multiplicative factor expected to be between 0 and 1."));
        }
        Ok(())
    }
}

/// The rates times a factor that goes from `start_factor` to `end_factor` in `total_iters` steps: a warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearLR {
    /// The first factor.
    pub start_factor: f64,
    /// The last factor.
    pub end_factor: f64,
    /// How many steps lie between them.
    pub total_iters: u64,
}

impl Default for LinearLR {
    fn default() -> Self {
        LinearLR { start_factor: 1.0 / 3.0, end_factor: 1.0, total_iters: 5 }
    }
}

impl Schedule for LinearLR {
    fn rate(&self, at: Moment) -> f64 {
        let (start, change) = (self.start_factor, self.end_factor - self.start_factor);
        match at.epoch {
            0 => at.lr * start,
            epoch if epoch > self.total_iters => at.lr,
            epoch => at.lr * (1.0 + change / (self.total_iters as f64 * start + (epoch - 1) as f64 * change)),
        }
    }
    fn check(&self) -> Result<()> {
        if self.start_factor <= 0.0 || self.start_factor > 1.0 {
            return Err(Error::value(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.",
            ));
        }
        if !(0.0..=1.0).contains(&self.end_factor) {
            return Err(Error::value("Ending multiplicative factor expected to be between 0 and 1."));
        }
        Ok(())
    }
}

/// The rates times a power of the share of steps that is left, down to 0 after `total_iters`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolynomialLR {
    /// How many steps there are to 0.
    pub total_iters: u64,
    /// The power.
    pub power: f64,
}

impl Default for PolynomialLR {
    fn default() -> Self {
        PolynomialLR { total_iters: 5, power: 1.0 }
    }
}

impl Schedule for PolynomialLR {
    fn rate(&self, at: Moment) -> f64 {
        if at.epoch == 0 || at.epoch > self.total_iters {
            return at.lr;
        }
        let left = |epoch: u64| 1.0 - epoch as f64 / self.total_iters as f64;
        at.lr * (left(at.epoch) / left(at.epoch - 1)).powf(self.power)
    }
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The first rates times a function of the number of steps.
#[derive(Clone, Copy)]
pub struct LambdaLR<F>(pub F);

impl<F: Fn(u64) -> f64> Schedule for LambdaLR<F> {
    fn rate(&self, at: Moment) -> f64 {
        at.base * (self.0)(at.epoch)
    }
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The rates before times a function of the number of steps.
#[derive(Clone, Copy)]
pub struct MultiplicativeLR<F>(pub F);

impl<F: Fn(u64) -> f64> Schedule for MultiplicativeLR<F> {
    fn rate(&self, at: Moment) -> f64 {
        if at.epoch > 0 { at.lr * (self.0)(at.epoch) } else { at.lr }
    }
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

impl<F> fmt::Debug for LambdaLR<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LambdaLR")
    }
}
impl<F> fmt::Debug for MultiplicativeLR<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MultiplicativeLR")
    }
}

/// Rules one after another: a warm-up, then a descent. Each begins anew, from the first rates, at its milestone.
pub struct SequentialLR {
    /// The rules.
    pub schedules: Vec<Box<dyn Schedule>>,
    /// The steps at which the second, the third, ... begin.
    pub milestones: Vec<u64>,
}

impl SequentialLR {
    /// The rule that counts, and where that one is.
    fn place(&self, at: Moment) -> (&dyn Schedule, Moment) {
        let number = self.milestones.iter().filter(|&&m| m <= at.epoch).count();
        let begin = if number == 0 { 0 } else { self.milestones[number - 1] };
        let epoch = at.epoch - begin;
        (&*self.schedules[number], Moment { epoch, lr: if epoch == 0 { at.base } else { at.lr }, ..at })
    }
}

impl Schedule for SequentialLR {
    fn rate(&self, at: Moment) -> f64 {
        let (schedule, at) = self.place(at);
        schedule.rate(at)
    }
    fn momentum(&self, at: Moment) -> Option<f64> {
        let (schedule, at) = self.place(at);
        schedule.momentum(at)
    }
    fn check(&self) -> Result<()> {
        if self.schedules.len() != self.milestones.len() + 1 {
            return Err(Error::value(format!(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone \
                 points, but got number of schedulers {} and the number of milestones to be equal to {}",
                self.schedules.len(),
                self.milestones.len()
            )));
        }
        if !self.milestones.is_sorted_by(|a, b| a < b) || self.milestones.first() == Some(&0) {
            return Err(Error::value("SequentialLR: milestones must be above 0 and increase"));
        }
        self.schedules.iter().try_for_each(|s| s.check())
    }
}

/// Rules that are applied one on top of the other at every step.
pub struct ChainedLR(pub Vec<Box<dyn Schedule>>);

impl Schedule for ChainedLR {
    fn rate(&self, at: Moment) -> f64 {
        self.0.iter().fold(at.lr, |lr, schedule| schedule.rate(Moment { lr, ..at }))
    }
    fn momentum(&self, at: Moment) -> Option<f64> {
        self.0.iter().filter_map(|schedule| schedule.momentum(at)).next_back()
    }
    fn check(&self) -> Result<()> {
        self.0.iter().try_for_each(|s| s.check())
    }
    fn end(&self) -> Option<u64> {
        self.0.iter().filter_map(|s| s.end()).min()
    }
}
