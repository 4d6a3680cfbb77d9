//! `Display` and `Debug` of tensors, and the global print options.

use crate::display::{PrintOptions, TensorText, format_tensor};
use crate::{Element, Scalar, Tensor};
use parking_lot::RwLock;
use std::fmt;

static OPTIONS: RwLock<PrintOptions> = RwLock::new(PrintOptions::DEFAULT);

/// Changes how tensors print.
pub fn set_print_options(options: PrintOptions) {
    *OPTIONS.write() = options;
}

impl fmt::Display for Tensor {
    /// As PyTorch prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Elements as boxed numbers: printing shows at most a thousand or so, but asks for them in any order.
        let values: Vec<Scalar> = match self.device().is_meta() {
            true => Vec::new(),
            false => {
                let list = crate::dispatch_dtype!(self.dtype(), T => {
                    self.to_vec::<T>().map(|v| v.into_iter().map(Element::to_scalar).collect::<Vec<Scalar>>())
                });
                match list {
                    Ok(v) => v,
                    Err(e) => return write!(f, "tensor(<{e}>)"),
                }
            }
        };
        let element = |i: usize| values[i];
        let device = (!self.device().is_cpu()).then(|| self.device().to_string());
        let grad_fn = self.grad_fn().map(|n| n.name());
        let mut text = TensorText::new(self.dtype(), self.sizes(), &element);
        text.default_dtype = crate::default_dtype();
        text.device = device.as_deref();
        text.grad_fn = grad_fn.as_deref();
        text.requires_grad = self.requires_grad();
        if self.device().is_meta() {
            text.element = None;
        }
        f.write_str(&format_tensor(&text, &OPTIONS.read()))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A number with six significant digits at most, as C prints it with `%g`.
pub(crate) fn general(x: f64) -> String {
    if !x.is_finite() {
        return format!("{x}").to_lowercase();
    }
    let text = format!("{x:.5e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => s.to_string(),
    };
    match exponent {
        -4..=5 => trimmed(&format!("{x:.*}", (5 - exponent) as usize)),
        _ => format!("{}e{}{:02}", trimmed(digits), if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}
