//! Schedules of learning rates. Make one after the optimiser, and call its `step` after every epoch (or batch).

use super::{Algorithm, AlgorithmOptions, Optimizer};
use flambeau::{Error, Result};
use std::f64::consts::PI;

/// Multiplies the learning rates by `gamma` every `step_size` steps.
#[derive(Clone, Debug)]
pub struct StepLR {
    step_size: u64,
    gamma: f64,
    epoch: u64,
}

impl StepLR {
    /// A schedule that begins at the optimiser's rates.
    ///
    /// # Errors
    /// When `step_size` is 0.
    pub fn new(step_size: u64, gamma: f64) -> Result<StepLR> {
        if step_size == 0 {
            return Err(Error::value("StepLR: step_size must be positive"));
        }
        Ok(StepLR { step_size, gamma, epoch: 0 })
    }

    /// The next step.
    pub fn step<A: Algorithm>(&mut self, optimizer: &mut Optimizer<A>) {
        self.epoch += 1;
        if self.epoch.is_multiple_of(self.step_size) {
            let rates: Vec<f64> = optimizer.learning_rates().iter().map(|lr| lr * self.gamma).collect();
            optimizer.set_learning_rates(&rates);
        }
    }
}

/// Half a cosine wave from the optimiser's rates down to `eta_min` (Loshchilov and Hutter 2016, without restarts).
#[derive(Clone, Debug)]
pub struct CosineAnnealingLR {
    t_max: u64,
    eta_min: f64,
    epoch: u64,
    base: Vec<f64>,
}

impl CosineAnnealingLR {
    /// A schedule that reaches the lowest rate after `t_max` steps.
    ///
    /// # Errors
    /// When `t_max` is 0.
    pub fn new<A: Algorithm>(optimizer: &Optimizer<A>, t_max: u64, eta_min: f64) -> Result<CosineAnnealingLR> {
        if t_max == 0 {
            return Err(Error::value("CosineAnnealingLR: t_max must be positive"));
        }
        Ok(CosineAnnealingLR { t_max, eta_min, epoch: 0, base: optimizer.learning_rates() })
    }

    /// The next step. The rule goes from rate to rate, so that changes made in between stay.
    pub fn step<A: Algorithm>(&mut self, optimizer: &mut Optimizer<A>) {
        self.epoch += 1;
        let (epoch, t_max, low) = (self.epoch as f64, self.t_max as f64, self.eta_min);
        let wave = |t: f64| 1.0 + (PI * t / t_max).cos();
        let turning = self.epoch >= self.t_max && (self.epoch - 1 - self.t_max).is_multiple_of(2 * self.t_max);
        let rates: Vec<f64> = (optimizer.learning_rates().iter().zip(&self.base))
            .map(|(lr, base)| match turning {
                true => lr + (base - low) * (1.0 - (PI / t_max).cos()) / 2.0,
                false => wave(epoch) / wave(epoch - 1.0) * (lr - low) + low,
            })
            .collect();
        optimizer.set_learning_rates(&rates);
    }
}

/// The shape of a [`OneCycleLR`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneCycleOptions {
    /// The share of the steps in which the rate rises.
    pub pct_start: f64,
    /// Straight lines instead of cosine waves.
    pub linear: bool,
    /// Whether momentum (or `beta1`) falls while the rate rises, and the other way round.
    pub cycle_momentum: bool,
    /// The lowest momentum.
    pub base_momentum: f64,
    /// The highest momentum.
    pub max_momentum: f64,
    /// The highest rate is this many times the first.
    pub div_factor: f64,
    /// The first rate is this many times the last.
    pub final_div_factor: f64,
}

impl Default for OneCycleOptions {
    fn default() -> Self {
        OneCycleOptions {
            pct_start: 0.3,
            linear: false,
            cycle_momentum: true,
            base_momentum: 0.85,
            max_momentum: 0.95,
            div_factor: 25.0,
            final_div_factor: 1e4,
        }
    }
}

/// One rise to `max_lr` and one fall far below the start (Smith and Topin 2017).
#[derive(Clone, Debug)]
pub struct OneCycleLR {
    max_lr: f64,
    total_steps: u64,
    options: OneCycleOptions,
    epoch: u64,
}

impl OneCycleLR {
    /// A schedule of `total_steps` steps; sets the optimiser's first rates.
    ///
    /// # Errors
    /// When there are no steps, a share is none, or momentum is to cycle and there is none.
    pub fn new<A: Algorithm>(
        optimizer: &mut Optimizer<A>,
        max_lr: f64,
        total_steps: u64,
        options: OneCycleOptions,
    ) -> Result<OneCycleLR> {
        if total_steps == 0 {
            return Err(Error::value("OneCycleLR: total_steps must be positive"));
        }
        if !(0.0..=1.0).contains(&options.pct_start) {
            let text = format!("Expected float between 0 and 1 pct_start, but got {}", options.pct_start);
            return Err(Error::value(text));
        }
        if options.cycle_momentum && optimizer.groups.iter().any(|g| momentum_name(&g.options).is_none()) {
            return Err(Error::value("optimizer must support momentum or beta1 with `cycle_momentum` option enabled"));
        }
        let schedule = OneCycleLR { max_lr, total_steps, options, epoch: 0 };
        schedule.apply(optimizer);
        Ok(schedule)
    }

    /// The next step.
    ///
    /// # Errors
    /// When there were `total_steps` already.
    pub fn step<A: Algorithm>(&mut self, optimizer: &mut Optimizer<A>) -> Result<()> {
        if self.epoch >= self.total_steps {
            return Err(Error::value(format!(
                "Tried to step {} times. The specified number of total steps is {}",
                self.epoch + 1,
                self.total_steps
            )));
        }
        self.epoch += 1;
        self.apply(optimizer);
        Ok(())
    }

    fn apply<A: Algorithm>(&self, optimizer: &mut Optimizer<A>) {
        let o = &self.options;
        let top = o.pct_start * self.total_steps as f64 - 1.0;
        let (now, end) = (self.epoch as f64, self.total_steps as f64 - 1.0);
        let first = self.max_lr / o.div_factor;
        let between = |from: f64, to: f64, share: f64| match o.linear {
            true => (to - from) * share + from,
            false => to + (from - to) / 2.0 * (1.0 + (PI * share).cos()),
        };
        let (lr, momentum) = if now <= top {
            (between(first, self.max_lr, now / top), between(o.max_momentum, o.base_momentum, now / top))
        } else {
            let share = (now - top) / (end - top);
            (between(self.max_lr, first / o.final_div_factor, share), between(o.base_momentum, o.max_momentum, share))
        };
        for group in &mut optimizer.groups {
            group.options.set_option("lr", lr);
            if let (true, Some(name)) = (o.cycle_momentum, momentum_name(&group.options)) {
                group.options.set_option(name, momentum);
            }
        }
    }
}

fn momentum_name(options: &impl Algorithm) -> Option<&'static str> {
    ["momentum", "beta1"].into_iter().find(|name| options.option(name).is_some())
}
