//! The update rules, operation for operation PyTorch's single-tensor ones.

use super::{Algorithm, ParameterState};
use flambeau::{Error, Result, Tensor};

/// The names under which algorithms keep tensors; a state dict may have no others.
pub(super) const STATE_NAMES: [&str; 6] =
    ["momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "square_avg", "grad_avg"];

/// An option as a number and back.
trait Number: Copy {
    fn to_number(self) -> f64;
    fn from_number(x: f64) -> Self;
}
impl Number for f64 {
    fn to_number(self) -> f64 {
        self
    }
    fn from_number(x: f64) -> f64 {
        x
    }
}
impl Number for bool {
    fn to_number(self) -> f64 {
        f64::from(u8::from(self))
    }
    fn from_number(x: f64) -> bool {
        x != 0.0
    }
}

/// Implements the part of [`Algorithm`] that goes through the options.
macro_rules! options {
    ($($field:ident)*) => {
        fn options(&self) -> Vec<(&'static str, f64)> {
            vec![$((stringify!($field), self.$field.to_number())),*]
        }
        fn set_option(&mut self, name: &str, value: f64) -> bool {
            match name {
                $(stringify!($field) => self.$field = Number::from_number(value),)*
                _ => return false,
            }
            true
        }
    };
}

fn at_least_zero(name: &str, value: f64) -> Result<()> {
    if value >= 0.0 { Ok(()) } else { Err(Error::value(format!("Invalid {name}: {value}"))) }
}
fn decay_rate(name: &str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) { Ok(()) } else { Err(Error::value(format!("Invalid {name}: {value}"))) }
}
fn directed(grad: &Tensor, maximize: bool) -> Result<Tensor> {
    if maximize { grad.neg() } else { Ok(grad.clone()) }
}

/// Stochastic gradient descent, with momentum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SGD {
    /// The learning rate.
    pub lr: f64,
    /// How much of the last step's direction is kept.
    pub momentum: f64,
    /// How little of the gradient goes into the momentum.
    pub dampening: f64,
    /// The L2 penalty.
    pub weight_decay: f64,
    /// Whether to look ahead (Nesterov).
    pub nesterov: bool,
    /// Whether to climb instead.
    pub maximize: bool,
}

impl Default for SGD {
    fn default() -> Self {
        SGD { lr: 1e-3, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false, maximize: false }
    }
}

impl Algorithm for SGD {
    options! { lr momentum dampening weight_decay nesterov maximize }

    fn check(&self) -> Result<()> {
        at_least_zero("learning rate", self.lr)?;
        at_least_zero("momentum value", self.momentum)?;
        at_least_zero("weight_decay value", self.weight_decay)?;
        if self.nesterov && (self.momentum <= 0.0 || self.dampening != 0.0) {
            return Err(Error::value("Nesterov momentum requires a momentum and zero dampening"));
        }
        Ok(())
    }

    fn update(&self, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
        let mut grad = directed(grad, self.maximize)?;
        if self.weight_decay != 0.0 {
            grad = grad.add_scaled(parameter, self.weight_decay)?;
        }
        if self.momentum != 0.0 {
            let buffer = match state.tensors.get("momentum_buffer") {
                Some(buffer) => {
                    buffer.mul_(self.momentum)?.add_scaled_(&grad, 1.0 - self.dampening)?;
                    buffer.clone()
                }
                None => {
                    let buffer = parameter.detach()?.empty_like()?;
                    buffer.copy_(&grad)?;
                    state.tensors.insert("momentum_buffer", buffer.clone());
                    buffer
                }
            };
            grad = if self.nesterov { grad.add_scaled(&buffer, self.momentum)? } else { buffer };
        }
        parameter.add_scaled_(&grad, -self.lr)?;
        Ok(())
    }
}

/// The options of [`Adam`] and [`AdamW`], which differ in their weight decay only.
macro_rules! adam {
    ($(#[doc = $doc:expr])* $name:ident, $weight_decay:literal, |$self:ident, $parameter:ident, $grad:ident| $decay:block) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            /// The learning rate.
            pub lr: f64,
            /// How much of the gradients' average is kept at each step.
            pub beta1: f64,
            /// How much of the average of their squares is kept.
            pub beta2: f64,
            /// Added to the denominator.
            pub eps: f64,
            /// The weight decay.
            pub weight_decay: f64,
            /// Whether to divide by the largest average of squares so far.
            pub amsgrad: bool,
            /// Whether to climb instead.
            pub maximize: bool,
        }
        impl Default for $name {
            fn default() -> Self {
                $name {
                    lr: 1e-3,
                    beta1: 0.9,
                    beta2: 0.999,
                    eps: 1e-8,
                    weight_decay: $weight_decay,
                    amsgrad: false,
                    maximize: false,
                }
            }
        }
        impl Algorithm for $name {
            options! { lr beta1 beta2 eps weight_decay amsgrad maximize }

            fn check(&self) -> Result<()> {
                at_least_zero("learning rate", self.lr)?;
                at_least_zero("epsilon value", self.eps)?;
                decay_rate("beta parameter at index 0", self.beta1)?;
                decay_rate("beta parameter at index 1", self.beta2)?;
                at_least_zero("weight_decay value", self.weight_decay)
            }

            fn update(&$self, $parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
                #[allow(unused_mut)]
                let mut $grad = directed(grad, $self.maximize)?;
                if $self.weight_decay != 0.0 $decay
                adam_step(&Adam {
                    lr: $self.lr,
                    beta1: $self.beta1,
                    beta2: $self.beta2,
                    eps: $self.eps,
                    weight_decay: 0.0,
                    amsgrad: $self.amsgrad,
                    maximize: false,
                }, $parameter, &$grad, state)
            }
        }
    };
}
adam! {
    /// Adam (Kingma and Ba 2014); its weight decay is an L2 penalty.
    Adam, 0.0, |self, parameter, grad| { grad = grad.add_scaled(parameter, self.weight_decay)?; }
}
adam! {
    /// Adam with a weight decay of its own (Loshchilov and Hutter 2017).
    AdamW, 0.01, |self, parameter, grad| { parameter.mul_(1.0 - self.lr * self.weight_decay)?; }
}

fn adam_step(options: &Adam, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
    let &Adam { lr, beta1, beta2, eps, amsgrad, .. } = options;
    let exp_avg = state.zeros("exp_avg", parameter)?;
    let exp_avg_sq = state.zeros("exp_avg_sq", parameter)?;
    exp_avg.lerp_(grad, 1.0 - beta1)?;
    exp_avg_sq.mul_(beta2)?.addcmul_(grad, grad, 1.0 - beta2)?;
    let step = state.step as f64;
    let step_size = lr / (1.0 - beta1.powf(step));
    let correction = (1.0 - beta2.powf(step)).sqrt();
    let denominator = if amsgrad {
        let largest = state.zeros("max_exp_avg_sq", parameter)?;
        largest.copy_(&largest.maximum(&exp_avg_sq)?)?;
        largest.sqrt()?
    } else {
        exp_avg_sq.sqrt()?
    };
    denominator.div_(correction)?.add_(eps)?;
    parameter.addcdiv_(&exp_avg, &denominator, -step_size)?;
    Ok(())
}

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
    options! { lr alpha eps weight_decay momentum centered maximize }

    fn check(&self) -> Result<()> {
        at_least_zero("learning rate", self.lr)?;
        at_least_zero("epsilon value", self.eps)?;
        at_least_zero("momentum value", self.momentum)?;
        at_least_zero("weight_decay value", self.weight_decay)?;
        at_least_zero("alpha value", self.alpha)
    }

    fn update(&self, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
        let mut grad = directed(grad, self.maximize)?;
        if self.weight_decay != 0.0 {
            grad = grad.add_scaled(parameter, self.weight_decay)?;
        }
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
