//! L-BFGS: steps by the curvature that the last gradients tell of, for smooth problems that are computed whole.

use super::copied;
use super::wolfe::{StrongWolfe, Trial};
use flambeau::autograd::{enable_grad, no_grad};
use flambeau::{Error, Result, Tensor};
use std::collections::VecDeque;

/// The options of [`LBFGS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LBFGSOptions {
    /// The learning rate: the step along a direction, or the first that the line search tries.
    pub lr: f64,
    /// The most iterations of a step.
    pub max_iter: u64,
    /// The most evaluations of a step; 1.25 times the iterations where `None`.
    pub max_eval: Option<u64>,
    /// A step ends when no element of the gradient is larger.
    pub tolerance_grad: f64,
    /// A step ends when the loss or the parameters change by less.
    pub tolerance_change: f64,
    /// How many moves are remembered.
    pub history_size: usize,
    /// Whether to search every direction for a step after the strong Wolfe conditions.
    pub strong_wolfe: bool,
}

impl Default for LBFGSOptions {
    fn default() -> Self {
        LBFGSOptions {
            lr: 1.0,
            max_iter: 20,
            max_eval: None,
            tolerance_grad: 1e-7,
            tolerance_change: 1e-9,
            history_size: 100,
            strong_wolfe: false,
        }
    }
}

/// What a move told of the curvature.
struct Pair {
    grad_change: Tensor,
    movement: Tensor,
    /// One over their product.
    inverse: f64,
}

/// Where the last iteration went.
struct Last {
    direction: Tensor,
    step: f64,
    grad: Tensor,
}

/// Limited-memory BFGS (Liu and Nocedal 1989).
///
/// ```
/// use flambeau_nn::optim::{LBFGS, LBFGSOptions};
/// use flambeau_nn::{Result, Tensor};
/// # fn main() -> Result<()> {
/// let x = Tensor::from_slice(&[-1.2f64, 1.0])?.requires_grad_(true)?;
/// let mut optimizer = LBFGS::new(vec![x.clone()], LBFGSOptions { strong_wolfe: true, ..LBFGSOptions::default() })?;
/// for _ in 0..5 {
///     optimizer.step(|| {
///         let (a, b) = (x.select(0, 0)?, x.select(0, 1)?);
///         b.sub(&a.square()?)?.square()?.mul(100.0)?.add(&a.neg()?.add(1.0)?.square()?)
///     })?;
/// }
/// assert!(x.detach()?.sub(1.0)?.abs()?.max()?.item()?.to_f64() < 1e-4);
/// # Ok(())
/// # }
/// ```
pub struct LBFGS {
    /// The options.
    pub options: LBFGSOptions,
    parameters: Vec<Tensor>,
    pairs: VecDeque<Pair>,
    /// The first guess at the inverse Hessian, times the identity.
    scale: f64,
    last: Option<Last>,
    evaluations: u64,
    iterations: u64,
}

impl LBFGS {
    /// An optimiser of these parameters.
    ///
    /// # Errors
    /// When there are none, one is not a leaf, or the learning rate is negative.
    pub fn new(parameters: Vec<Tensor>, options: LBFGSOptions) -> Result<LBFGS> {
        if parameters.is_empty() {
            return Err(Error::value("optimizer got an empty parameter list"));
        }
        if parameters.iter().any(|p| !p.is_leaf()) {
            return Err(Error::value("can't optimize a non-leaf Tensor"));
        }
        if options.lr.is_nan() || options.lr < 0.0 {
            return Err(Error::value(format!("Invalid learning rate: {}", options.lr)));
        }
        let (pairs, evaluations, iterations) = (VecDeque::new(), 0, 0);
        Ok(LBFGS { options, parameters, pairs, scale: 1.0, last: None, evaluations, iterations })
    }

    /// How often the loss was computed.
    #[must_use]
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Up to `max_iter` iterations. `loss` computes the loss, here also its gradients are: they are cleared before. Gives
    /// the first loss.
    ///
    /// # Errors
    /// Those of `loss` and of the operators.
    pub fn step(&mut self, mut loss: impl FnMut() -> Result<Tensor>) -> Result<Tensor> {
        let _guard = no_grad();
        let parameters = self.parameters.clone();
        let mut evaluate = || -> Result<(Tensor, Tensor)> {
            parameters.iter().try_for_each(|p| p.set_grad(None))?;
            let guard = enable_grad();
            let loss = loss()?;
            loss.backward()?;
            drop(guard);
            Ok((loss.detach()?, flat_gradient(&parameters)?))
        };
        let options = self.options;
        let most = options.max_eval.unwrap_or(options.max_iter * 5 / 4);
        let (first, mut grad) = evaluate()?;
        let mut loss = first.item()?.to_f64();
        let mut evaluations = 1;
        self.evaluations += 1;
        for round in 1..=options.max_iter {
            if round == 1 && self.is_converged(&grad)? {
                break;
            }
            self.iterations += 1;
            let mut step = options.lr;
            let direction = match self.last.take() {
                None => {
                    step *= f64::min(1.0, 1.0 / grad.abs()?.sum()?.item()?.to_f64());
                    grad.neg()?
                }
                Some(last) => {
                    self.remember(grad.sub(&last.grad)?, last.direction.mul(last.step)?)?;
                    self.quasi_newton(&grad)?
                }
            };
            let before = loss;
            let slope = grad.dot(&direction)?.item()?.to_f64();
            self.last = Some(Last { direction: direction.clone(), step, grad: grad.clone() });
            if slope > -options.tolerance_change {
                break;
            }
            let mut used = 0;
            if options.strong_wolfe {
                let origin: Vec<Tensor> = parameters.iter().map(copied).collect::<Result<_>>()?;
                let mut along = |step: f64| -> Result<(f64, Tensor)> {
                    add_flat(&parameters, &direction, step)?;
                    let (loss, grad) = evaluate()?;
                    for (p, old) in parameters.iter().zip(&origin) {
                        p.copy_(old)?;
                    }
                    Ok((loss.item()?.to_f64(), grad))
                };
                let start = Trial { step: 0.0, loss, grad, slope };
                let mut search = StrongWolfe::new(&mut along, &direction, start, most.saturating_sub(evaluations));
                let found = search.find(step)?;
                used = search.evaluations;
                (step, loss, grad) = (found.step, found.loss, found.grad);
                if let Some(last) = &mut self.last {
                    last.step = step;
                }
            }
            add_flat(&parameters, &direction, step)?;
            // Nothing would use the last one.
            if !options.strong_wolfe && round != options.max_iter {
                let (new_loss, new_grad) = evaluate()?;
                (loss, grad, used) = (new_loss.item()?.to_f64(), new_grad, 1);
            }
            evaluations += used;
            self.evaluations += used;
            let largest = direction.abs()?.max()?.item()?.to_f64() * step;
            if evaluations >= most
                || largest.abs() <= options.tolerance_change
                || (loss - before).abs() < options.tolerance_change
                || (used > 0 && self.is_converged(&grad)?)
            {
                break;
            }
        }
        Ok(first)
    }

    fn is_converged(&self, grad: &Tensor) -> Result<bool> {
        Ok(grad.abs()?.max()?.item()?.to_f64() <= self.options.tolerance_grad)
    }

    /// Notes how the gradient changed over a move, if that tells of a curvature, in place of the oldest pair.
    fn remember(&mut self, grad_change: Tensor, movement: Tensor) -> Result<()> {
        let curvature = grad_change.dot(&movement)?.item()?.to_f64();
        if curvature > 1e-10 {
            if self.pairs.len() == self.options.history_size {
                self.pairs.pop_front();
            }
            self.scale = curvature / grad_change.dot(&grad_change)?.item()?.to_f64();
            self.pairs.push_back(Pair { grad_change, movement, inverse: 1.0 / curvature });
        }
        Ok(())
    }

    /// Minus the gradient times the inverse Hessian that the remembered pairs imply.
    fn quasi_newton(&self, grad: &Tensor) -> Result<Tensor> {
        let result = grad.neg()?;
        let mut weights = Vec::with_capacity(self.pairs.len());
        for pair in self.pairs.iter().rev() {
            let weight = pair.movement.dot(&result)?.item()?.to_f64() * pair.inverse;
            result.add_scaled_(&pair.grad_change, -weight)?;
            weights.push(weight);
        }
        result.mul_(self.scale)?;
        for (pair, weight) in self.pairs.iter().zip(weights.into_iter().rev()) {
            let other = pair.grad_change.dot(&result)?.item()?.to_f64() * pair.inverse;
            result.add_scaled_(&pair.movement, weight - other)?;
        }
        Ok(result)
    }
}

/// All gradients in one vector, complex ones as pairs; zeros where there is none.
fn flat_gradient(parameters: &[Tensor]) -> Result<Tensor> {
    let flat = |p: &Tensor| -> Result<Tensor> {
        let grad = p.grad().map_or_else(|| p.detach()?.zeros_like(), Ok)?;
        if grad.dtype().is_complex() { grad.view_as_real()?.reshape(&[-1]) } else { grad.reshape(&[-1]) }
    };
    Tensor::cat(&parameters.iter().map(flat).collect::<Result<Vec<_>>>()?, 0)
}

/// Moves the parameters along a flat direction.
fn add_flat(parameters: &[Tensor], direction: &Tensor, step: f64) -> Result<()> {
    let mut offset = 0;
    for p in parameters {
        let real = if p.dtype().is_complex() { p.detach()?.view_as_real()? } else { p.clone() };
        let part = direction.narrow(0, offset, real.numel())?.reshape(real.sizes())?;
        real.add_scaled_(&part, step)?;
        offset += real.numel();
    }
    Ok(())
}
