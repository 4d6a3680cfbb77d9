//! Checks gradients against central differences.

use super::{enable_grad, grad, make_dual};
use crate::{Complex64, DType, Error, Result, Tensor, ensure};

/// How [`gradcheck`] compares.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// The step of the differences.
    pub eps: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Relative tolerance.
    pub rtol: f64,
    /// Whether to check forward mode too.
    pub forward: bool,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { eps: 1e-6, atol: 1e-5, rtol: 1e-3, forward: false }
    }
}

/// Compares the gradients of `f` at `inputs` with central differences, element by element, in double precision. Inputs
/// that do not require a gradient are left alone; complex ones are stepped along both axes.
///
/// # Errors
/// Names the input, the element and both values where they differ; and whatever `f` gives.
pub fn gradcheck(f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor], options: CheckOptions) -> Result<()> {
    let _mode = enable_grad();
    let variables: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].requires_grad()).collect();
    ensure!(!variables.is_empty(), "gradcheck expects at least one input tensor to require gradient");
    for &i in &variables {
        ensure!(
            matches!(inputs[i].dtype(), DType::F64 | DType::Complex128),
            "gradcheck: input {i} is {}; differences need double precision",
            inputs[i].dtype()
        );
    }
    let outputs: Vec<Tensor> = f(inputs)?.into_iter().filter(|y| y.dtype().is_differentiable()).collect();
    for (o, y) in outputs.iter().enumerate() {
        // One cotangent per output, fixed but uneven, so that the check sees every row of the Jacobian mixed.
        let v = cotangent(y)?;
        let analytic = match y.requires_grad() {
            true => {
                let wanted: Vec<Tensor> = variables.iter().map(|&i| inputs[i].clone()).collect();
                grad(std::slice::from_ref(y), &wanted, &[Some(v.clone())], true, false, true)?
            }
            false => vec![None; variables.len()],
        };
        for (&i, analytic) in variables.iter().zip(&analytic) {
            let numeric = numeric_gradient(f, inputs, i, o, &v, options.eps)?;
            let analytic = match analytic {
                Some(g) => g.to_vec::<Complex64>()?,
                None => vec![Complex64::default(); numeric.len()],
            };
            for (k, (a, n)) in analytic.iter().zip(&numeric).enumerate() {
                // A NaN is not close.
                let close = (a - n).norm() <= options.atol + options.rtol * n.norm();
                if !close {
                    return Err(Error::runtime(format!(
                        "gradient of output {o} with respect to input {i} at element {k}: analytic {a}, differences say {n}"
                    )));
                }
            }
        }
        if options.forward {
            check_forward(f, inputs, &variables, o, &v, &analytic, options)?;
        }
    }
    Ok(())
}

/// `<v, J t>` must be `<J' v, t>`.
fn check_forward(
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    variables: &[usize],
    o: usize,
    v: &Tensor,
    analytic: &[Option<Tensor>],
    options: CheckOptions,
) -> Result<()> {
    let mut duals = inputs.to_vec();
    let mut right = 0.0;
    for (&i, g) in variables.iter().zip(analytic) {
        let x = inputs[i].detach()?;
        let t = cotangent(&x)?;
        duals[i] = make_dual(&x, &t)?;
        if let Some(g) = g {
            right += inner(g, &t)?;
        }
    }
    let y = f(&duals)?.into_iter().filter(|y| y.dtype().is_differentiable()).nth(o);
    let tangent = y.and_then(|y| y.tangent());
    let left = match tangent {
        Some(t) => inner(v, &t)?,
        None => 0.0,
    };
    let close = (left - right).abs() <= options.atol + options.rtol * right.abs().max(left.abs());
    if !close {
        return Err(Error::runtime(format!(
            "forward mode of output {o}: its inner product is {left}, the reverse mode's {right}"
        )));
    }
    Ok(())
}

fn inner(a: &Tensor, b: &Tensor) -> Result<f64> {
    let (a, b) = (a.to_vec::<Complex64>()?, b.to_vec::<Complex64>()?);
    Ok(a.iter().zip(&b).map(|(a, b)| (a.conj() * b).re).sum())
}

fn cotangent(y: &Tensor) -> Result<Tensor> {
    let n = y.numel();
    let values: Vec<Complex64> = (0..n)
        .map(|k| {
            let x = 0.3 + (k as f64 * 0.618_033_988_75).fract();
            Complex64::new(x, if y.dtype().is_complex() { 0.9 - x } else { 0.0 })
        })
        .collect();
    Tensor::from_slice(&values)?.to_dtype(DType::Complex128)?.view(y.sizes())?.to_dtype_like(y)
}

impl Tensor {
    /// In the dtype of `like`, dropping an imaginary part that has no place.
    fn to_dtype_like(&self, like: &Tensor) -> Result<Tensor> {
        match self.dtype().is_complex() && !like.dtype().is_complex() {
            true => self.real()?.contiguous()?.to_dtype(like.dtype()),
            false => self.to_dtype(like.dtype()),
        }
    }
}

/// The gradient of `Re <v, f(x)>` with respect to input `i`, by differences.
fn numeric_gradient(
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    i: usize,
    o: usize,
    v: &Tensor,
    eps: f64,
) -> Result<Vec<Complex64>> {
    let x = &inputs[i];
    let at = x.detach()?.to_vec::<Complex64>()?;
    let value = |moved: &[Complex64]| -> Result<f64> {
        let t = Tensor::from_slice(moved)?.view(x.sizes())?.to_dtype_like(x)?;
        // Keep the strides, which the function may look at.
        let t = match x.is_contiguous() {
            true => t,
            false => {
                let strided = Tensor::empty_strided(x.sizes(), x.strides(), (x.dtype(), x.device()))?;
                strided.copy_(&t)?
            }
        };
        let mut all: Vec<Tensor> = inputs.iter().map(Tensor::detach).collect::<Result<_>>()?;
        all[i] = t;
        let y = f(&all)?.into_iter().filter(|y| y.dtype().is_differentiable()).nth(o);
        inner(v, &y.ok_or_else(|| Error::runtime("gradcheck: the number of outputs changed"))?)
    };
    let mut out = Vec::with_capacity(at.len());
    let mut moved = at.clone();
    for k in 0..at.len() {
        let mut difference = |step: Complex64| -> Result<f64> {
            moved[k] = at[k] + step;
            let up = value(&moved)?;
            moved[k] = at[k] - step;
            let down = value(&moved)?;
            moved[k] = at[k];
            Ok((up - down) / (2.0 * eps))
        };
        let re = difference(Complex64::new(eps, 0.0))?;
        let im = if x.dtype().is_complex() { difference(Complex64::new(0.0, eps))? } else { 0.0 };
        out.push(Complex64::new(re, im));
    }
    Ok(out)
}

/// [`gradcheck`] of the gradient: checks second derivatives with respect to the inputs and the cotangents.
///
/// # Errors
/// As [`gradcheck`].
pub fn gradgradcheck(
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: CheckOptions,
) -> Result<()> {
    let _mode = enable_grad();
    let outputs: Vec<Tensor> = f(inputs)?.into_iter().filter(|y| y.requires_grad()).collect();
    if outputs.is_empty() {
        return Ok(());
    }
    let n = inputs.len();
    let mut all = inputs.to_vec();
    for y in &outputs {
        all.push(cotangent(&y.detach()?)?.requires_grad_(true)?);
    }
    let variables: Vec<usize> = (0..n).filter(|&i| inputs[i].requires_grad()).collect();
    let gradient = |all: &[Tensor]| -> Result<Vec<Tensor>> {
        // Differences step copies without history: give them one, or there is nothing to differentiate.
        let mut xs = all[..n].to_vec();
        for &i in &variables {
            if !xs[i].requires_grad() {
                xs[i] = xs[i].detach()?.requires_grad_(true)?;
            }
        }
        let ys: Vec<Tensor> = f(&xs)?.into_iter().filter(|y| y.requires_grad()).collect();
        let wanted: Vec<Tensor> = variables.iter().map(|&i| xs[i].clone()).collect();
        let seeds: Vec<Option<Tensor>> = all[n..].iter().cloned().map(Some).collect();
        let found = grad(&ys, &wanted, &seeds, true, true, true)?;
        found
            .into_iter()
            .zip(&wanted)
            .map(|(g, x)| match g {
                Some(g) => Ok(g),
                None => x.detach()?.zeros_like(),
            })
            .collect()
    };
    let checked: Vec<usize> = (0..all.len()).filter(|&i| all[i].requires_grad()).collect();
    ensure!(!checked.is_empty(), "gradgradcheck: nothing requires a gradient");
    gradcheck(&gradient, &all, options)
}
