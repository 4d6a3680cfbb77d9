//! Rules that go up and down.

use super::{Moment, Schedule, positive};
use flambeau::{Error, Result};
use std::f64::consts::PI;

/// Half a cosine wave from the first rates down to `eta_min` (Loshchilov and Hutter 2016, without restarts).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineAnnealingLR {
    /// After how many steps the lowest rate is reached.
    pub t_max: u64,
    /// The lowest rate.
    pub eta_min: f64,
}

impl Schedule for CosineAnnealingLR {
    /// The rule goes from rate to rate, so that changes made in between stay.
    fn rate(&self, Moment { epoch, base, lr, .. }: Moment) -> f64 {
        let (t_max, low) = (self.t_max as f64, self.eta_min);
        let wave = |t: f64| 1.0 + (PI * t / t_max).cos();
        if epoch == 0 {
            lr
        } else if epoch > self.t_max && (epoch - 1 - self.t_max).is_multiple_of(2 * self.t_max) {
            lr + (base - low) * (1.0 - (PI / t_max).cos()) / 2.0
        } else {
            wave(epoch as f64) / wave(epoch as f64 - 1.0) * (lr - low) + low
        }
    }
    fn check(&self) -> Result<()> {
        positive("CosineAnnealingLR", "t_max", self.t_max)
    }
}

/// Half cosine waves from the first rates down to `eta_min`, again and again (Loshchilov and Hutter 2016).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineAnnealingWarmRestarts {
    /// The steps of the first wave.
    pub t_0: u64,
    /// How many times longer every wave is than the one before.
    pub t_mult: u64,
    /// The lowest rate.
    pub eta_min: f64,
}

impl Default for CosineAnnealingWarmRestarts {
    fn default() -> Self {
        CosineAnnealingWarmRestarts { t_0: 10, t_mult: 1, eta_min: 0.0 }
    }
}

impl Schedule for CosineAnnealingWarmRestarts {
    fn rate(&self, at: Moment) -> f64 {
        let (mut within, mut length) = (at.epoch, self.t_0);
        if self.t_mult == 1 {
            within %= length;
        }
        while within >= length {
            within -= length;
            length *= self.t_mult;
        }
        self.eta_min + (at.base - self.eta_min) * (1.0 + (PI * within as f64 / length as f64).cos()) / 2.0
    }
    fn check(&self) -> Result<()> {
        positive("CosineAnnealingWarmRestarts", "t_0", self.t_0)?;
        positive("CosineAnnealingWarmRestarts", "t_mult", self.t_mult)
    }
}

/// How the height of the triangles of a [`CyclicLR`] changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CyclicMode {
    /// Not at all.
    Triangular,
    /// Halved with every cycle.
    Triangular2,
    /// Multiplied by this with every step.
    ExpRange(f64),
}

/// Triangles between two rates (Smith 2015).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CyclicLR {
    /// The lowest rate.
    pub base_lr: f64,
    /// The highest rate.
    pub max_lr: f64,
    /// Steps of a rise.
    pub step_size_up: u64,
    /// Steps of a fall; as many as of a rise where `None`.
    pub step_size_down: Option<u64>,
    /// How the triangles' height changes.
    pub mode: CyclicMode,
    /// Whether momentum (or `beta1`) falls while the rate rises, and the other way round.
    pub cycle_momentum: bool,
    /// The lowest momentum.
    pub base_momentum: f64,
    /// The highest momentum.
    pub max_momentum: f64,
}

impl CyclicLR {
    /// Triangles between these rates, with PyTorch's defaults.
    #[must_use]
    pub fn new(base_lr: f64, max_lr: f64) -> CyclicLR {
        CyclicLR {
            base_lr,
            max_lr,
            step_size_up: 2000,
            step_size_down: None,
            mode: CyclicMode::Triangular,
            cycle_momentum: true,
            base_momentum: 0.8,
            max_momentum: 0.9,
        }
    }

    /// How far above the bottom the rate is, as a share of the first triangle's height.
    fn height(&self, epoch: u64) -> f64 {
        let total = self.step_size_up as f64 + self.step_size_down.unwrap_or(self.step_size_up) as f64;
        let turns = epoch as f64 / total;
        let cycle = (1.0 + turns).floor();
        let (x, top) = (1.0 + turns - cycle, self.step_size_up as f64 / total);
        let part = if x <= top { x / top } else { (x - 1.0) / (top - 1.0) };
        let scale = match self.mode {
            CyclicMode::Triangular => 1.0,
            CyclicMode::Triangular2 => 1.0 / 2f64.powf(cycle - 1.0),
            CyclicMode::ExpRange(gamma) => gamma.powf(epoch as f64),
        };
        part * scale
    }
}

impl Schedule for CyclicLR {
    fn rate(&self, at: Moment) -> f64 {
        self.base_lr + (self.max_lr - self.base_lr) * self.height(at.epoch)
    }
    fn momentum(&self, at: Moment) -> Option<f64> {
        let range = self.max_momentum - self.base_momentum;
        self.cycle_momentum.then(|| self.max_momentum - range * self.height(at.epoch))
    }
    fn check(&self) -> Result<()> {
        positive("CyclicLR", "step_size_up", self.step_size_up)
    }
}

/// One rise to `max_lr` and one fall far below the start (Smith and Topin 2017).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneCycleLR {
    /// The highest rate.
    pub max_lr: f64,
    /// How many steps there are.
    pub total_steps: u64,
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
    /// Whether to fall to the first rate as fast as it rose, and only then to the last.
    pub three_phase: bool,
}

impl OneCycleLR {
    /// A cycle of `total_steps` steps, with PyTorch's defaults.
    #[must_use]
    pub fn new(max_lr: f64, total_steps: u64) -> OneCycleLR {
        OneCycleLR {
            max_lr,
            total_steps,
            pct_start: 0.3,
            linear: false,
            cycle_momentum: true,
            base_momentum: 0.85,
            max_momentum: 0.95,
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
        }
    }

    /// The rate and the momentum.
    fn at(&self, epoch: u64) -> (f64, f64) {
        let (now, last) = (epoch as f64, self.total_steps as f64 - 1.0);
        let top = self.pct_start * self.total_steps as f64 - 1.0;
        let first = self.max_lr / self.div_factor;
        let (low, high) = (self.base_momentum, self.max_momentum);
        let between = |from: f64, to: f64, share: f64| match self.linear {
            true => (to - from) * share + from,
            false => to + (from - to) / 2.0 * (1.0 + (PI * share).cos()),
        };
        let phase = |lrs: [f64; 2], momenta: [f64; 2], begin: f64, end: f64| {
            let share = (now - begin) / (end - begin);
            (between(lrs[0], lrs[1], share), between(momenta[0], momenta[1], share))
        };
        let (begin, peak, bottom) = (0.0, self.max_lr, first / self.final_div_factor);
        if now <= top {
            phase([first, peak], [high, low], begin, top)
        } else if !self.three_phase {
            phase([peak, bottom], [low, high], top, last)
        } else {
            let back = 2.0 * self.pct_start * self.total_steps as f64 - 2.0;
            match now <= back {
                true => phase([peak, first], [low, high], top, back),
                false => phase([first, bottom], [high, high], back, last),
            }
        }
    }
}

impl Schedule for OneCycleLR {
    fn rate(&self, at: Moment) -> f64 {
        self.at(at.epoch).0
    }
    fn momentum(&self, at: Moment) -> Option<f64> {
        self.cycle_momentum.then(|| self.at(at.epoch).1)
    }
    fn check(&self) -> Result<()> {
        positive("OneCycleLR", "total_steps", self.total_steps)?;
        if !(0.0..=1.0).contains(&self.pct_start) {
            let text = format!("Expected float between 0 and 1 pct_start, but got {}", self.pct_start);
            return Err(Error::value(text));
        }
        Ok(())
    }
    fn end(&self) -> Option<u64> {
        Some(self.total_steps)
    }
}
