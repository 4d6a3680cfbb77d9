//! The update rules, operation for operation PyTorch's single-tensor ones.

mod adam;
mod adaptive;

pub use adam::{Adam, AdamW, Adamax, NAdam, RAdam};
pub use adaptive::{ASGD, Adadelta, Adagrad, RMSprop, Rprop};

use super::{Algorithm, ParameterState};
use flambeau::{Error, Result, Tensor};

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

/// Implements the part of [`Algorithm`] that goes through the options, and names the tensors and numbers kept.
macro_rules! options {
    ($($field:ident)*; [$($tensor:literal),*] $([$($number:literal),*])?) => {
        const TENSORS: &'static [&'static str] = &[$($tensor),*];
        $(const NUMBERS: &'static [&'static str] = &[$($number),*];)?
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
use options;

fn at_least_zero(name: &str, value: f64) -> Result<()> {
    if value >= 0.0 { Ok(()) } else { Err(Error::value(format!("Invalid {name}: {value}"))) }
}
fn decay_rate(name: &str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) { Ok(()) } else { Err(Error::value(format!("Invalid {name}: {value}"))) }
}

/// The gradient to go down: the other way if `maximize`, and with an L2 penalty's.
fn directed(grad: &Tensor, parameter: &Tensor, maximize: bool, weight_decay: f64) -> Result<Tensor> {
    let grad = if maximize { grad.neg()? } else { grad.clone() };
    if weight_decay == 0.0 { Ok(grad) } else { grad.add_scaled(parameter, weight_decay) }
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
    options! { lr momentum dampening weight_decay nesterov maximize; ["momentum_buffer"] }

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
        let mut grad = directed(grad, parameter, self.maximize, self.weight_decay)?;
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
