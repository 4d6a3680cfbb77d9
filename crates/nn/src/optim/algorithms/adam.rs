//! Adam and its relatives: steps by the gradients' average over the root of their squares'.

use super::super::{Algorithm, ParameterState};
use super::{Number, at_least_zero, decay_rate, options};
use flambeau::{Result, Tensor};

/// Declares an algorithm with Adam's options and some of its own; `update` is its rule.
macro_rules! adam {
    (
        $(#[doc = $doc:expr])*
        $name:ident { lr: $lr:literal, weight_decay: $weight_decay:literal $(, $(#[doc = $field_doc:expr])* $field:ident: $type:ty = $default:expr)* }
        keeps [$($tensor:literal),*] $([$($number:literal),*])?, update: $update:ident
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            /// The learning rate.
            pub lr: f64,
            /// How much of the gradients' average is kept at each step.
            pub beta1: f64,
            /// How much of the average of their squares (Adamax: of their largest size) is kept.
            pub beta2: f64,
            /// Added to the denominator.
            pub eps: f64,
            /// The weight decay.
            pub weight_decay: f64,
            $($(#[doc = $field_doc])* pub $field: $type,)*
            /// Whether to climb instead.
            pub maximize: bool,
        }

        impl Default for $name {
            fn default() -> Self {
                $name {
                    lr: $lr,
                    beta1: 0.9,
                    beta2: 0.999,
                    eps: 1e-8,
                    weight_decay: $weight_decay,
                    $($field: $default,)*
                    maximize: false,
                }
            }
        }

        impl Algorithm for $name {
            options! { lr beta1 beta2 eps weight_decay $($field)* maximize; [$($tensor),*] $([$($number),*])? }

            fn check(&self) -> Result<()> {
                at_least_zero("learning rate", self.lr)?;
                at_least_zero("epsilon value", self.eps)?;
                decay_rate("beta parameter at index 0", self.beta1)?;
                decay_rate("beta parameter at index 1", self.beta2)?;
                at_least_zero("weight_decay value", self.weight_decay)
            }

            fn update(&self, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
                let grad = if self.maximize { &grad.neg()? } else { grad };
                $update(self, parameter, grad, state)
            }
        }
    };
}

adam! {
    /// Adam (Kingma and Ba 2014); its weight decay is an L2 penalty.
    Adam {
        lr: 1e-3,
        weight_decay: 0.0,
        /// Whether to divide by the largest average of squares so far.
        amsgrad: bool = false
    }
    keeps ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"], update: adam_update
}

adam! {
    /// Adam with a weight decay of its own (Loshchilov and Hutter 2017).
    AdamW {
        lr: 1e-3,
        weight_decay: 0.01,
        /// Whether to divide by the largest average of squares so far.
        amsgrad: bool = false
    }
    keeps ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"], update: adamw_update
}

adam! {
    /// Adam by the gradients' largest size, which decays (Kingma and Ba 2014).
    Adamax { lr: 2e-3, weight_decay: 0.0 }
    keeps ["exp_avg", "exp_inf"], update: adamax_update
}

adam! {
    /// Adam that looks ahead (Dozat 2016).
    NAdam {
        lr: 2e-3,
        weight_decay: 0.0,
        /// How fast the momentum grows to `beta1`.
        momentum_decay: f64 = 4e-3,
        /// Whether the weight decay is AdamW's instead of an L2 penalty.
        decoupled_weight_decay: bool = false
    }
    keeps ["exp_avg", "exp_avg_sq"] ["mu_product"], update: nadam_update
}

adam! {
    /// Adam without adaption while too few gradients are known (Liu et al. 2019).
    RAdam {
        lr: 1e-3,
        weight_decay: 0.0,
        /// Whether the weight decay is AdamW's instead of an L2 penalty.
        decoupled_weight_decay: bool = false
    }
    keeps ["exp_avg", "exp_avg_sq"], update: radam_update
}

/// The gradient with the weight decay in it, or the parameter with it.
fn decayed(parameter: &Tensor, grad: &Tensor, lr: f64, weight_decay: f64, decoupled: bool) -> Result<Tensor> {
    if weight_decay == 0.0 {
        return Ok(grad.clone());
    }
    if !decoupled {
        return grad.add_scaled(parameter, weight_decay);
    }
    parameter.mul_(1.0 - lr * weight_decay)?;
    Ok(grad.clone())
}

/// The averages of gradients and of their squares, with this gradient in them.
fn averages(
    parameter: &Tensor,
    grad: &Tensor,
    beta1: f64,
    beta2: f64,
    state: &mut ParameterState,
) -> Result<(Tensor, Tensor)> {
    let exp_avg = state.zeros("exp_avg", parameter)?;
    let exp_avg_sq = state.zeros("exp_avg_sq", parameter)?;
    exp_avg.lerp_(grad, 1.0 - beta1)?;
    exp_avg_sq.mul_(beta2)?.addcmul_(grad, grad, 1.0 - beta2)?;
    Ok((exp_avg, exp_avg_sq))
}

fn adam_update(options: &Adam, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
    let &Adam { lr, beta1, beta2, eps, weight_decay, amsgrad, .. } = options;
    let grad = decayed(parameter, grad, lr, weight_decay, false)?;
    let (exp_avg, exp_avg_sq) = averages(parameter, &grad, beta1, beta2, state)?;
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

fn adamw_update(options: &AdamW, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
    let &AdamW { lr, beta1, beta2, eps, weight_decay, amsgrad, .. } = options;
    decayed(parameter, grad, lr, weight_decay, true)?;
    let adam = Adam { lr, beta1, beta2, eps, weight_decay: 0.0, amsgrad, maximize: false };
    adam_update(&adam, parameter, grad, state)
}

fn adamax_update(options: &Adamax, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
    let &Adamax { lr, beta1, beta2, eps, weight_decay, .. } = options;
    let grad = decayed(parameter, grad, lr, weight_decay, false)?;
    let (exp_avg, exp_inf) = (state.zeros("exp_avg", parameter)?, state.zeros("exp_inf", parameter)?);
    exp_avg.lerp_(&grad, 1.0 - beta1)?;
    exp_inf.copy_(&exp_inf.mul(beta2)?.maximum(&grad.abs()?.add(eps)?)?)?;
    parameter.addcdiv_(&exp_avg, &exp_inf, -lr / (1.0 - beta1.powf(state.step as f64)))?;
    Ok(())
}

fn nadam_update(options: &NAdam, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
    let &NAdam { lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled_weight_decay, .. } = options;
    let grad = decayed(parameter, grad, lr, weight_decay, decoupled_weight_decay)?;
    let (exp_avg, exp_avg_sq) = averages(parameter, &grad, beta1, beta2, state)?;
    let step = state.step as f64;
    // The momentum of this step and of the next one; 0.96 is Dozat's.
    let momentum = |step: f64| beta1 * (1.0 - 0.5 * 0.96f64.powf(step * momentum_decay));
    let (now, next) = (momentum(step), momentum(step + 1.0));
    let product = state.number("mu_product", 1.0);
    *product *= now;
    let product = *product;
    let denominator = exp_avg_sq.div(1.0 - beta2.powf(step))?.sqrt_()?.add_(eps)?;
    parameter.addcdiv_(&grad, &denominator, -lr * (1.0 - now) / (1.0 - product))?;
    parameter.addcdiv_(&exp_avg, &denominator, -lr * next / (1.0 - product * next))?;
    Ok(())
}

fn radam_update(options: &RAdam, parameter: &Tensor, grad: &Tensor, state: &mut ParameterState) -> Result<()> {
    let &RAdam { lr, beta1, beta2, eps, weight_decay, decoupled_weight_decay, .. } = options;
    let grad = decayed(parameter, grad, lr, weight_decay, decoupled_weight_decay)?;
    let (exp_avg, exp_avg_sq) = averages(parameter, &grad, beta1, beta2, state)?;
    let step = state.step as f64;
    let unbiased = exp_avg.div(1.0 - beta1.powf(step))?;
    let correction = 1.0 - beta2.powf(step);
    // How many gradients the average of squares is worth: in the long run, and now (the paper's rho).
    let longest = 2.0 / (1.0 - beta2) - 1.0;
    let length = longest - 2.0 * step * beta2.powf(step) / correction;
    if length <= 5.0 {
        parameter.add_scaled_(&unbiased, -lr)?;
        return Ok(());
    }
    let rectified = ((length - 4.0) * (length - 2.0) * longest) / ((longest - 4.0) * (longest - 2.0) * length);
    let adapted = exp_avg_sq.sqrt()?.add_(eps)?.reciprocal()?.mul_(correction.sqrt())?;
    parameter.add_scaled_(&unbiased.mul_(lr)?.mul(&adapted)?, -rectified.sqrt())?;
    Ok(())
}
