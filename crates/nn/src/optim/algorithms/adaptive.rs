//! Rules by which every element has a step size of its own, without Adam's averages of gradients.

use super::super::{Algorithm, ParameterState};
use super::{Number, at_least_zero, directed, options};
use flambeau::{Error, Result, Tensor};

/// RMSprop (Hinton's lecture 6e; centred as Graves 2013).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RMSprop {
    /// The learning rate.
    pub lr: f64,
    /// How much of the average of squares is kept.
    pub alpha: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// The L2 penalty.
    pub weight_decay: f64,
    /// How much of the last step's direction is kept.
    pub momentum: f64,
    /// Whether to divide by the deviation instead of the root mean square.
    pub centered: bool,
    /// Whether to climb instead.
    pub maximize: bool,
}

impl Default for RMSprop {
    fn default() -> Self {
        RMSprop { lr: 1e-2, alpha: 0.99, eps: 1e-8, weight_decay: 0.0, momentum: 0.0, centered: false, maximize: false }
    }
}

impl Algorithm for RMSprop {
    options! {
        lr alpha eps weight_decay momentum centered maximize;
        ["square_avg", "grad_avg", "momentum_buffer"]
    }

    fn check(&self) -> Result<()> {
        at_least_zero("learning rate", self.lr)?;
        at_least_zero("epsilon value", self.eps)?;
        at_least_zero("momentum value", self.momentum)?;
        at_least_zero("weight_decay value", self.weight_decay)?;
        at_least_zero("alpha value", self.alpha)
    }

    fn update(&self, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
        let grad = directed(grad, parameter, self.maximize, self.weight_decay)?;
        let square_avg = state.zeros("square_avg", parameter)?;
        square_avg.mul_(self.alpha)?.addcmul_(&grad, &grad, 1.0 - self.alpha)?;
        let average = if self.centered {
            let grad_avg = state.zeros("grad_avg", parameter)?;
            grad_avg.lerp_(&grad, 1.0 - self.alpha)?;
            square_avg.addcmul(&grad_avg, &grad_avg, -1.0)?.sqrt_()?
        } else {
            square_avg.sqrt()?
        };
        average.add_(self.eps)?;
        if self.momentum > 0.0 {
            let buffer = state.zeros("momentum_buffer", parameter)?;
            buffer.mul_(self.momentum)?.addcdiv_(&grad, &average, 1.0)?;
            parameter.add_scaled_(&buffer, -self.lr)?;
        } else {
            parameter.addcdiv_(&grad, &average, -self.lr)?;
        }
        Ok(())
    }
}

/// Adagrad (Duchi et al. 2011): steps by the root of the sum of all squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adagrad {
    /// The learning rate.
    pub lr: f64,
    /// How fast the learning rate falls.
    pub lr_decay: f64,
    /// The L2 penalty.
    pub weight_decay: f64,
    /// Where the sums begin.
    pub initial_accumulator_value: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Whether to climb instead.
    pub maximize: bool,
}

impl Default for Adagrad {
    fn default() -> Self {
        Adagrad {
            lr: 1e-2,
            lr_decay: 0.0,
            weight_decay: 0.0,
            initial_accumulator_value: 0.0,
            eps: 1e-10,
            maximize: false,
        }
    }
}

impl Algorithm for Adagrad {
    options! { lr lr_decay weight_decay initial_accumulator_value eps maximize; ["sum"] }

    fn check(&self) -> Result<()> {
        at_least_zero("learning rate", self.lr)?;
        at_least_zero("lr_decay value", self.lr_decay)?;
        at_least_zero("weight_decay value", self.weight_decay)?;
        at_least_zero("initial_accumulator_value value", self.initial_accumulator_value)?;
        at_least_zero("epsilon value", self.eps)
    }

    fn update(&self, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
        let grad = directed(grad, parameter, self.maximize, self.weight_decay)?;
        let lr = self.lr / (1.0 + (state.step as f64 - 1.0) * self.lr_decay);
        let sum = state.filled("sum", parameter, self.initial_accumulator_value)?;
        sum.addcmul_(&grad, &grad, 1.0)?;
        parameter.addcdiv_(&grad, &sum.sqrt()?.add_(self.eps)?, -lr)?;
        Ok(())
    }
}

/// Adadelta (Zeiler 2012): steps as large as the last ones, measured against the gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adadelta {
    /// The learning rate.
    pub lr: f64,
    /// How much of the averages of squares is kept.
    pub rho: f64,
    /// Added to both averages.
    pub eps: f64,
    /// The L2 penalty.
    pub weight_decay: f64,
    /// Whether to climb instead.
    pub maximize: bool,
}

impl Default for Adadelta {
    fn default() -> Self {
        Adadelta { lr: 1.0, rho: 0.9, eps: 1e-6, weight_decay: 0.0, maximize: false }
    }
}

impl Algorithm for Adadelta {
    options! { lr rho eps weight_decay maximize; ["square_avg", "acc_delta"] }

    fn check(&self) -> Result<()> {
        at_least_zero("learning rate", self.lr)?;
        if !(0.0..=1.0).contains(&self.rho) {
            return Err(Error::value(format!("Invalid rho value: {}", self.rho)));
        }
        at_least_zero("epsilon value", self.eps)?;
        at_least_zero("weight_decay value", self.weight_decay)
    }

    fn update(&self, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
        let grad = directed(grad, parameter, self.maximize, self.weight_decay)?;
        let square_avg = state.zeros("square_avg", parameter)?;
        let acc_delta = state.zeros("acc_delta", parameter)?;
        square_avg.mul_(self.rho)?.addcmul_(&grad, &grad, 1.0 - self.rho)?;
        let size = square_avg.add(self.eps)?.sqrt_()?;
        let delta = acc_delta.add(self.eps)?.sqrt_()?.div_(&size)?.mul(&grad)?;
        acc_delta.mul_(self.rho)?.addcmul_(&delta, &delta, 1.0 - self.rho)?;
        parameter.add_scaled_(&delta, -self.lr)?;
        Ok(())
    }
}

/// Resilient backpropagation (Riedmiller and Braun 1993): steps by the gradient's signs alone. For whole batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rprop {
    /// The first step size.
    pub lr: f64,
    /// What a step size is multiplied by where the sign has changed.
    pub eta_minus: f64,
    /// What it is multiplied by where the sign has not.
    pub eta_plus: f64,
    /// The smallest step size.
    pub step_size_min: f64,
    /// The largest step size.
    pub step_size_max: f64,
    /// Whether to climb instead.
    pub maximize: bool,
}

impl Default for Rprop {
    fn default() -> Self {
        Rprop { lr: 1e-2, eta_minus: 0.5, eta_plus: 1.2, step_size_min: 1e-6, step_size_max: 50.0, maximize: false }
    }
}

impl Algorithm for Rprop {
    options! { lr eta_minus eta_plus step_size_min step_size_max maximize; ["prev", "step_size"] }

    fn check(&self) -> Result<()> {
        at_least_zero("learning rate", self.lr)?;
        if !(0.0 < self.eta_minus && self.eta_minus < 1.0 && 1.0 < self.eta_plus) {
            return Err(Error::value(format!("Invalid eta values: {}, {}", self.eta_minus, self.eta_plus)));
        }
        Ok(())
    }

    fn update(&self, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
        let grad = directed(grad, parameter, self.maximize, 0.0)?;
        let previous = state.zeros("prev", parameter)?;
        let step_size = state.filled("step_size", parameter, self.lr)?;
        let product = grad.mul(&previous)?;
        let (same, turned) = (product.gt(0.0)?, product.lt(0.0)?);
        let factor = product.ones_like()?.masked_fill(&same, self.eta_plus)?.masked_fill(&turned, self.eta_minus)?;
        step_size.mul_(&factor)?.clamp_(self.step_size_min, self.step_size_max)?;
        // Where the sign has changed, this step is left out.
        let grad = grad.masked_fill(&turned, 0.0)?;
        parameter.addcmul_(&grad.sign()?, &step_size, -1.0)?;
        previous.copy_(&grad)?;
        Ok(())
    }
}

/// Stochastic gradient descent whose parameters are averaged (Polyak and Juditsky 1992): see its state `ax`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ASGD {
    /// The learning rate.
    pub lr: f64,
    /// The decay of the parameters.
    pub lambd: f64,
    /// The power by which the learning rate falls.
    pub alpha: f64,
    /// The step at which averaging begins.
    pub t0: f64,
    /// The L2 penalty.
    pub weight_decay: f64,
    /// Whether to climb instead.
    pub maximize: bool,
}

impl Default for ASGD {
    fn default() -> Self {
        ASGD { lr: 1e-2, lambd: 1e-4, alpha: 0.75, t0: 1e6, weight_decay: 0.0, maximize: false }
    }
}

impl Algorithm for ASGD {
    options! { lr lambd alpha t0 weight_decay maximize; ["ax"] ["eta", "mu"] }

    fn check(&self) -> Result<()> {
        at_least_zero("learning rate", self.lr)?;
        at_least_zero("weight_decay value", self.weight_decay)
    }

    fn update(&self, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
        let grad = directed(grad, parameter, self.maximize, self.weight_decay)?;
        let average = state.zeros("ax", parameter)?;
        let (eta, mu) = (*state.number("eta", self.lr), *state.number("mu", 1.0));
        parameter.mul_(1.0 - self.lambd * eta)?.add_scaled_(&grad, -eta)?;
        if mu == 1.0 {
            average.copy_(parameter)?;
        } else {
            average.add_scaled_(&parameter.sub(&average)?, mu)?;
        }
        let step = state.step as f64;
        *state.number("eta", 0.0) = self.lr / (1.0 + self.lambd * self.lr * step).powf(self.alpha);
        *state.number("mu", 0.0) = 1.0 / f64::max(1.0, step - self.t0);
        Ok(())
    }
}
