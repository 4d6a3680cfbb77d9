//! `Display` and `Debug` of tensors, and the global print options.

use crate::display::{PrintOptions, TensorText, format_tensor};
use crate::{Element, Result, Scalar, Tensor};
use parking_lot::RwLock;
use std::fmt;

static OPTIONS: RwLock<PrintOptions> = RwLock::new(PrintOptions::DEFAULT);

/// Changes how tensors print.
pub fn set_print_options(options: PrintOptions) {
    *OPTIONS.write() = options;
}

/// The elements of a tensor by their places in row-major order, for [`TensorText::element`]. Only those that are shown are
/// there: of a summary both ends of each dim, and none of a tensor without data.
///
/// # Errors
/// When they cannot be read.
pub fn shown_elements(t: &Tensor, options: &PrintOptions) -> Result<impl Fn(usize) -> Scalar + use<>> {
    let edge = match t.numel() as usize > options.threshold {
        true => i64::try_from(options.edgeitems).unwrap_or(i64::MAX),
        false => i64::MAX,
    };
    let sizes = t.sizes().to_vec();
    let shown = if t.device().is_meta() { t.clone() } else { ends(t, edge)? };
    // Boxed numbers: they are few, but asked for in any order.
    let values: Vec<Scalar> = match t.device().is_meta() {
        true => Vec::new(),
        false => crate::dispatch_dtype!(t.dtype(), T => {
            shown.to_vec::<T>().map(|v| v.into_iter().map(Element::to_scalar).collect())
        })?,
    };
    let kept = shown.sizes().to_vec();
    Ok(move |i: usize| {
        let (mut rest, mut place, mut scale) = (i as i64, 0, 1);
        for (&n, &kept) in sizes.iter().zip(&kept).rev() {
            let at = rest % n;
            rest /= n;
            // Behind the gap, places count from the end.
            place += scale * if at < edge || n == kept { at } else { at - (n - kept) };
            scale *= kept;
        }
        values[place as usize]
    })
}

/// The first and last `edge` positions of every dim that has more.
fn ends(t: &Tensor, edge: i64) -> Result<Tensor> {
    let mut t = t.detach()?;
    for d in 0..t.dim() {
        let n = t.sizes()[d];
        if n > edge.saturating_mul(2) {
            let d = d as i64;
            t = Tensor::cat(&[t.narrow(d, 0, edge)?, t.narrow(d, n - edge, edge)?], d)?;
        }
    }
    Ok(t)
}

impl fmt::Display for Tensor {
    /// As PyTorch prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = OPTIONS.read().clone();
        let element = match shown_elements(self, &options) {
            Ok(element) => element,
            Err(e) => return write!(f, "tensor(<{e}>)"),
        };
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
        f.write_str(&format_tensor(&text, &options))
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
