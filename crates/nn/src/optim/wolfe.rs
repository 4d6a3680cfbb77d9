//! Line search for a step that satisfies the strong Wolfe conditions (Nocedal and Wright 2006, algorithms 3.5 and 3.6).

use flambeau::{Result, Tensor};

/// A point on the line: how far along, and the loss, gradient and slope there.
#[derive(Clone)]
pub(super) struct Trial {
    pub step: f64,
    pub loss: f64,
    pub grad: Tensor,
    pub slope: f64,
}

/// The least share of the descent that the slope promises, and the largest share of the slope that may be left.
const LEAST_DESCENT: f64 = 1e-4;
const MOST_SLOPE: f64 = 0.9;
/// Ends that are closer than this, measured by the largest move of an element, are not narrowed further.
const TOLERANCE: f64 = 1e-9;

/// A search from `start`; `evaluate` gives the loss and the gradient at a step.
pub(super) struct StrongWolfe<'a> {
    pub evaluate: &'a mut dyn FnMut(f64) -> Result<(f64, Tensor)>,
    pub direction: &'a Tensor,
    pub start: Trial,
    pub evaluations: u64,
    /// How often it looks again.
    pub limit: u64,
    rounds: u64,
}

impl<'a> StrongWolfe<'a> {
    pub fn new(
        evaluate: &'a mut dyn FnMut(f64) -> Result<(f64, Tensor)>,
        direction: &'a Tensor,
        start: Trial,
        limit: u64,
    ) -> StrongWolfe<'a> {
        StrongWolfe { evaluate, direction, start, evaluations: 0, limit, rounds: 0 }
    }

    /// The best trial, looking at `step` first.
    pub fn find(&mut self, step: f64) -> Result<Trial> {
        let (first, second) = self.bracket(step)?;
        match second {
            None => Ok(first),
            Some(second) => self.narrow([first, second]),
        }
    }

    fn at(&mut self, step: f64) -> Result<Trial> {
        let (loss, grad) = (self.evaluate)(step)?;
        self.evaluations += 1;
        let slope = grad.dot(self.direction)?.item()?.to_f64();
        Ok(Trial { step, loss, grad, slope })
    }

    fn is_too_high(&self, trial: &Trial) -> bool {
        trial.loss > self.start.loss + LEAST_DESCENT * trial.step * self.start.slope
    }

    fn is_flat_enough(&self, trial: &Trial) -> bool {
        trial.slope.abs() <= -MOST_SLOPE * self.start.slope
    }

    /// Longer and longer steps, until one is good (alone) or two have a good one between them.
    fn bracket(&mut self, step: f64) -> Result<(Trial, Option<Trial>)> {
        let mut before = self.start.clone();
        let mut here = self.at(step)?;
        while self.rounds < self.limit {
            if self.is_too_high(&here) || (self.rounds > 1 && here.loss >= before.loss) {
                return Ok((before, Some(here)));
            }
            if self.is_flat_enough(&here) {
                return Ok((here, None));
            }
            if here.slope >= 0.0 {
                return Ok((before, Some(here)));
            }
            let reach = (here.step + 0.01 * (here.step - before.step), here.step * 10.0);
            let next = self.at(cubic_minimum(&before, &here, reach))?;
            before = std::mem::replace(&mut here, next);
            self.rounds += 1;
        }
        Ok((self.start.clone(), Some(here)))
    }

    /// Closer and closer ends, until the better one is good.
    fn narrow(&mut self, mut ends: [Trial; 2]) -> Result<Trial> {
        let largest = self.direction.abs()?.max()?.item()?.to_f64();
        let better = |ends: &[Trial; 2]| usize::from(ends[0].loss > ends[1].loss);
        let (mut best, mut hesitant) = (better(&ends), false);
        while self.rounds < self.limit && (ends[1].step - ends[0].step).abs() * largest >= TOLERANCE {
            let step;
            (step, hesitant) = inside(&ends, hesitant);
            let here = self.at(step)?;
            self.rounds += 1;
            if self.is_too_high(&here) || here.loss >= ends[best].loss {
                ends[1 - best] = here;
                best = better(&ends);
                continue;
            }
            if self.is_flat_enough(&here) {
                return Ok(here);
            }
            if here.slope * (ends[1 - best].step - ends[best].step) >= 0.0 {
                ends[1 - best] = ends[best].clone();
            }
            ends[best] = here;
        }
        Ok(ends[best].clone())
    }
}

/// The minimiser of the cubic through two trials with their slopes, within bounds.
fn cubic_minimum(a: &Trial, b: &Trial, (low, high): (f64, f64)) -> f64 {
    let (left, right) = if a.step <= b.step { (a, b) } else { (b, a) };
    let bend = left.slope + right.slope - 3.0 * (left.loss - right.loss) / (left.step - right.step);
    let square = bend * bend - left.slope * right.slope;
    // Not above 0 either where it is no number: then there is no minimum.
    if square.is_nan() || square < 0.0 {
        return (low + high) / 2.0;
    }
    let root = square.sqrt();
    let share = (right.slope + root - bend) / (right.slope - left.slope + 2.0 * root);
    (right.step - (right.step - left.step) * share).max(low).min(high)
}

/// Where to look next. Near an end twice in a row, or beyond it, means a tenth of the way in from there.
fn inside(ends: &[Trial; 2], hesitant: bool) -> (f64, bool) {
    let (left, right) = (ends[0].step.min(ends[1].step), ends[0].step.max(ends[1].step));
    let step = cubic_minimum(&ends[0], &ends[1], (left, right));
    let margin = 0.1 * (right - left);
    if (right - step).min(step - left) >= margin {
        return (step, false);
    }
    if !hesitant && left < step && step < right {
        return (step, true);
    }
    (if (step - right).abs() < (step - left).abs() { right - margin } else { left + margin }, false)
}
