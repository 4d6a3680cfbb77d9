//! Differences, gradients over samples, and integrals by the trapezoidal rule.

use crate::dims::{Dims, wrap_dim, wrap_dims};
use crate::samples::{Maker, Sample};
use crate::{Body, DType, Error, MemoryFormat, Op, OwnedValue, Result, Scalar, Tensor, ensure, sample};

/// The elements along `dim` from `start` on, without the last `less`.
fn part(x: &Tensor, dim: usize, start: i64, less: i64) -> Result<Tensor> {
    let length = (x.sizes()[dim] - start - less).max(0);
    x.narrow(dim as i64, start, length)
}

// ---- differences --------------------------------------------------------------------------------

fn diff_any(
    x: &Tensor,
    n: Option<i64>,
    dim: Option<i64>,
    prepend: Option<&Tensor>,
    append: Option<&Tensor>,
) -> Result<Tensor> {
    let n = n.unwrap_or(1);
    ensure!(x.dim() >= 1, "diff expects input to be at least one-dimensional");
    let d = wrap_dim(dim.unwrap_or(-1), x.dim())?;
    for more in [prepend, append].into_iter().flatten() {
        ensure!(more.dim() == x.dim(), "diff expects prepend or append to be the same dimension as input");
        for i in (0..x.dim()).filter(|&i| i != d) {
            ensure!(
                more.sizes()[i] == x.sizes()[i],
                "diff expects the shape of tensor to prepend or append to match that of input except along the \
                 differencing dimension; input.size({i}) = {}, but got tensor.size({i}) = {}",
                x.sizes()[i],
                more.sizes()[i]
            );
        }
    }
    ensure!(n >= 0, "order must be non-negative but got {n}");
    if n == 0 {
        return x.clone_in(MemoryFormat::Preserve);
    }
    let parts: Vec<Tensor> = [prepend, Some(x), append].into_iter().flatten().cloned().collect();
    let mut y = if parts.len() == 1 { x.clone() } else { Tensor::cat(&parts, d as i64)? };
    for _ in 0..n.min(y.sizes()[d]) {
        let (after, before) = (part(&y, d, 1.min(y.sizes()[d]), 0)?, part(&y, d, 0, 1)?);
        y = if y.dtype() == DType::Bool { after.logical_xor(&before)? } else { after.sub(&before)? };
    }
    Ok(y)
}

op! {
    /// The `n`-th differences of neighbours along a dim, other values put before and after first.
    diff: "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
        Out OUT: "diff.out(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(diff_any; x, n, dim, prepend, append));
    samples: |m| vec![
        sample![m.any(&[3, 4]), 1, -1, (), ()],
        sample![m.any(&[3, 4]), 2, 0, m.any(&[1, 4]), m.any(&[2, 4])],
    ];
    fn diff(&self, n: i64, dim: i64) -> Tensor [self, n, dim];
}

// ---- integrals ----------------------------------------------------------------------------------

fn no_bool(op: &str, what: &str, tensors: &[&Tensor]) -> Result<()> {
    let any = tensors.iter().any(|t| t.dtype() == DType::Bool);
    ensure!(!any, "{op}: received a bool input for {what}, but bool is not supported");
    Ok(())
}

fn real_step(op: &str, dx: Option<Scalar>) -> Result<Scalar> {
    let dx = dx.unwrap_or(Scalar::Int(1));
    let real = !dx.is_complex() && !matches!(dx, Scalar::Bool(_));
    ensure!(real, "{op}: Currently, we only support dx as a real number.");
    Ok(dx)
}

/// The steps between the places `x`, in a shape that broadcasts against differences of `y`.
fn steps(op: &str, y: &Tensor, x: &Tensor, d: usize) -> Result<Tensor> {
    if x.dim() == 1 && y.dim() > 0 {
        ensure!(
            x.sizes()[0] == y.sizes()[d],
            "{op}: There must be one `x` value for each sample point"
        );
    }
    let mut sizes = Dims::from_elem(1, y.dim().saturating_sub(x.dim()));
    sizes.extend_from_slice(x.sizes());
    if x.dim() == 1 {
        sizes = Dims::from_elem(1, y.dim());
        sizes[d] = x.sizes()[0];
    }
    let x = x.reshape(&sizes)?;
    // Its own dims are counted from the end, as those of `y` are.
    let at = d + x.dim() - y.dim();
    part(&x, at, 1.min(x.sizes()[at]), 0)?.sub(&part(&x, at, 0, 1)?)
}

fn half(t: &Tensor) -> Result<Tensor> {
    t.div(Scalar::Float(2.0))
}

/// Neighbours along `d`, added.
fn sums(y: &Tensor, d: usize) -> Result<Tensor> {
    part(y, d, 0, 1)?.add(&part(y, d, 1.min(y.sizes()[d]), 0)?)
}

fn dim_of(y: &Tensor, dim: Option<i64>) -> Result<usize> {
    let dim = dim.unwrap_or(-1);
    if y.dim() == 0 {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    wrap_dim(dim, y.dim())
}

/// The integral of nothing.
fn nothing(y: &Tensor, d: usize) -> Result<Tensor> {
    let mut sizes = Dims::from_slice(y.sizes());
    sizes.remove(d);
    Tensor::zeros(&sizes, (y.dtype(), y.device()))
}

fn trapezoid_places(y: &Tensor, x: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let d = dim_of(y, dim)?;
    if y.sizes()[d] == 0 {
        return nothing(y, d);
    }
    no_bool("trapezoid", "`x` or `y`", &[y, x])?;
    half(&steps("trapezoid", y, x, d)?.mul(&sums(y, d)?)?.sum_dim(&[d as i64 - y.dim() as i64], false)?)
}
fn trapezoid_step(y: &Tensor, dx: Option<Scalar>, dim: Option<i64>) -> Result<Tensor> {
    let d = dim_of(y, dim)?;
    if y.sizes()[d] == 0 {
        return nothing(y, d);
    }
    no_bool("trapezoid", "`y`", &[y])?;
    let dx = real_step("trapezoid", dx)?;
    let d = d as i64;
    let ends = y.select(d, 0)?.add(&y.select(d, -1)?)?;
    y.sum_dim(&[d], false)?.sub(&ends.mul(Scalar::Float(0.5))?)?.mul(Scalar::Float(dx.to_f64()))
}
fn trapz_step(y: &Tensor, dx: Option<f64>, dim: Option<i64>) -> Result<Tensor> {
    trapezoid_step(y, dx.map(Scalar::Float), dim)
}

fn check_slices(y: &Tensor) -> Result<()> {
    if y.dim() == 0 { Err(Error::index("slice() cannot be applied to a 0-dim tensor.")) } else { Ok(()) }
}
fn cumulative_places(y: &Tensor, x: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    check_slices(y)?;
    let d = dim_of(y, dim)?;
    no_bool("cumulative_trapezoid", "`x` or `y`", &[y, x])?;
    half(&steps("cumulative_trapezoid", y, x, d)?.mul(&sums(y, d)?)?.cumsum(d as i64 - y.dim() as i64)?)
}
fn cumulative_step(y: &Tensor, dx: Option<Scalar>, dim: Option<i64>) -> Result<Tensor> {
    check_slices(y)?;
    let d = dim_of(y, dim)?;
    no_bool("cumulative_trapezoid", "`y`", &[y])?;
    let dx = real_step("cumulative_trapezoid", dx)?;
    sums(y, d)?.mul(Scalar::Float(dx.to_f64() / 2.0))?.cumsum(d as i64)
}

fn place_samples(m: &mut Maker) -> Vec<Sample> {
    match m.dtype {
        DType::Bool => vec![],
        _ => vec![sample![m.any(&[3, 4]), m.any(&[4]), -1], sample![m.any(&[2, 3, 4]), m.any(&[3, 4]), 1]],
    }
}
fn step_samples(m: &mut Maker) -> Vec<Sample> {
    match m.dtype {
        DType::Bool => vec![],
        _ => vec![sample![m.any(&[3, 4]), Scalar::Float(0.5), -1], sample![m.any(&[3, 4]), Scalar::Int(1), 0]],
    }
}

op! {
    /// The integral along a dim of samples at the places `x`, by the trapezoidal rule.
    trapezoid_x: "trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor";
    Body::Composite(kernel!(trapezoid_places; y, x, dim));
    samples: place_samples;
    ulp: 16.0;
}
op! {
    /// The integral along a dim of samples `dx` apart, by the trapezoidal rule.
    trapezoid: "trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor";
    Body::Composite(kernel!(trapezoid_step; y, dx, dim));
    samples: step_samples;
    ulp: 16.0;
    fn trapezoid(&self, dx: impl Into<Scalar>, dim: i64) -> Tensor [self, dx.into(), dim];
}
op! {
    /// As `trapezoid` with places.
    trapz_x: "trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor";
    Body::Composite(kernel!(trapezoid_places; y, x, dim));
    samples: place_samples;
    ulp: 16.0;
}
op! {
    /// As `trapezoid`.
    trapz: "trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor";
    Body::Composite(kernel!(trapz_step; y, dx, dim));
    samples: |m| if m.dtype == DType::Bool { vec![] } else { vec![sample![m.any(&[3, 4]), 0.5, -1]] };
    ulp: 16.0;
}
op! {
    /// The integrals up to every place but the first; see `trapezoid`.
    cumulative_trapezoid_x: "cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor";
    Body::Composite(kernel!(cumulative_places; y, x, dim));
    samples: place_samples;
    ulp: 16.0;
}
op! {
    /// The integrals up to every sample but the first; see `trapezoid`.
    cumulative_trapezoid: "cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor";
    Body::Composite(kernel!(cumulative_step; y, dx, dim));
    samples: step_samples;
    ulp: 16.0;
}

// ---- gradients ----------------------------------------------------------------------------------

/// How far samples along a dim are apart: all the same, or at the places of a tensor.
#[derive(Clone)]
enum Spacing {
    Even(Scalar),
    Places(Tensor),
}

fn check_gradient(x: &Tensor, spacings: Option<usize>, dims: Option<&[i64]>, edge_order: i64) -> Result<Vec<usize>> {
    ensure!(x.dtype() != DType::U8, "torch.gradient does not support uint8 input.");
    if let Some(n) = spacings {
        match dims {
            Some(dims) => ensure!(
                n == dims.len(),
                "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have \
                 the same length, but got a spacing argument of length {n} and a dim argument of length {}.",
                dims.len()
            ),
            None => ensure!(
                n == x.dim(),
                "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = \
                 {}', since dim argument was not given, but got a list of length {n}",
                x.dim()
            ),
        }
    }
    ensure!(edge_order == 1 || edge_order == 2, "torch.gradient only supports edge_order=1 and edge_order=2.");
    let dims: Vec<usize> = match dims {
        // An empty list is no dims here, not all.
        Some([]) => vec![],
        Some(dims) => wrap_dims(dims, x.dim())?.to_vec(),
        None => (0..x.dim()).collect(),
    };
    for &d in &dims {
        let enough = x.dim() == 0 || x.sizes()[d] > edge_order;
        ensure!(enough, "torch.gradient expected each dimension size to be at least edge_order+1");
    }
    Ok(dims)
}

fn gradient_of(
    x: &Tensor,
    spacing: &[Spacing],
    dims: Option<&[i64]>,
    edge_order: Option<i64>,
    listed: bool,
) -> Result<Vec<Tensor>> {
    let edge_order = edge_order.unwrap_or(1);
    let dims = check_gradient(x, listed.then_some(spacing.len()), dims, edge_order)?;
    let one = |(k, &d): (usize, &usize)| match spacing.get(if spacing.len() == 1 { 0 } else { k }) {
        Some(Spacing::Places(places)) => at_places(x, d, places, edge_order),
        Some(Spacing::Even(step)) => evenly(x, d, *step, edge_order),
        None => evenly(x, d, Scalar::Int(1), edge_order),
    };
    dims.iter().enumerate().map(one).collect()
}

fn evenly(x: &Tensor, d: usize, step: Scalar, edge_order: i64) -> Result<Tensor> {
    let (n, at) = (x.sizes()[d], |i: i64| x.narrow(d as i64, i, 1));
    let center = half(&part(x, d, 2.min(n), 0)?.sub(&part(x, d, 0, 2)?)?.div(step)?)?;
    let (first, last) = if edge_order == 1 {
        (at(1)?.sub(&at(0)?)?, at(n - 1)?.sub(&at(n - 2)?)?)
    } else {
        let edge = |a: Tensor, b: Tensor, c: Tensor| a.mul(-1.5)?.add(&b.mul(2)?)?.sub(&c.mul(0.5)?);
        (edge(at(0)?, at(1)?, at(2)?)?, edge(at(n - 1)?, at(n - 2)?, at(n - 3)?)?.neg()?)
    };
    Tensor::cat(&[first.div(step)?, center, last.div(step)?], d as i64)
}

fn at_places(x: &Tensor, d: usize, places: &Tensor, edge_order: i64) -> Result<Tensor> {
    ensure!(
        places.dim() == 1,
        "torch.gradient expected each element of spacing to have one dimension, but got an element with {} dimensions!",
        places.dim()
    );
    let n = x.sizes()[d];
    ensure!(
        places.numel() == n,
        "torch.gradient expected {n} places along dimension {d}, but got {}",
        places.numel()
    );
    let mut sizes = Dims::from_elem(1, x.dim());
    sizes[d] = n - 1;
    let dx = places.diff(1, -1)?.reshape(&sizes)?;
    let at = |i: i64| x.narrow(d as i64, i, 1);
    let step = |i: i64| dx.narrow(d as i64, i, 1);
    // The derivative of the parabola through three neighbours: in the middle, and at either end.
    let (a, b) = (part(&dx, d, 0, 1)?, part(&dx, d, 1.min(n - 1), 0)?);
    let sum = a.add(&b)?;
    let left = b.neg()?.div(&a.mul(&sum)?)?;
    let middle = b.sub(&a)?.div(&a.mul(&b)?)?;
    let right = a.div(&b.mul(&sum)?)?;
    let center = left
        .mul(&part(x, d, 0, 2)?)?
        .add(&middle.mul(&part(x, d, 1, 1)?)?)?
        .add(&right.mul(&part(x, d, 2.min(n), 0)?)?)?;
    let (first, last) = if edge_order == 1 {
        (at(1)?.sub(&at(0)?)?.div(&step(0)?)?, at(n - 1)?.sub(&at(n - 2)?)?.div(&step(n - 2)?)?)
    } else {
        let edge = |near: Tensor, far: Tensor, y: [Tensor; 3]| -> Result<Tensor> {
            let sum = near.add(&far)?;
            let a = near.add(&sum)?.div(&near.mul(&sum)?)?.neg()?;
            let b = sum.div(&near.mul(&far)?)?;
            let c = near.div(&far.mul(&sum)?)?.neg()?;
            a.mul(&y[0])?.add(&b.mul(&y[1])?)?.add(&c.mul(&y[2])?)
        };
        (
            edge(step(0)?, step(1)?, [at(0)?, at(1)?, at(2)?])?,
            edge(step(n - 2)?, step(n - 3)?, [at(n - 1)?, at(n - 2)?, at(n - 3)?])?.neg()?,
        )
    };
    Tensor::cat(&[first, center, last], d as i64)
}

fn even(spacing: &[Scalar]) -> Vec<Spacing> {
    spacing.iter().copied().map(Spacing::Even).collect()
}
fn placed(spacing: &[Tensor]) -> Vec<Spacing> {
    spacing.iter().cloned().map(Spacing::Places).collect()
}

fn gradient_number(x: &Tensor, spacing: Option<Scalar>, dim: Option<i64>, edge_order: Option<i64>) -> Result<Vec<Tensor>> {
    gradient_of(x, &even(spacing.as_slice()), dim.as_ref().map(std::slice::from_ref), edge_order, false)
}
fn gradient_number_dims(x: &Tensor, spacing: Scalar, dims: &[i64], edge_order: Option<i64>) -> Result<Vec<Tensor>> {
    gradient_of(x, &even(&[spacing]), Some(dims), edge_order, false)
}
fn gradient_dims(x: &Tensor, dims: &[i64], edge_order: Option<i64>) -> Result<Vec<Tensor>> {
    gradient_of(x, &[], Some(dims), edge_order, false)
}
fn gradient_numbers(x: &Tensor, spacing: &[Scalar], dim: Option<i64>, edge_order: Option<i64>) -> Result<Vec<Tensor>> {
    gradient_of(x, &even(spacing), dim.as_ref().map(std::slice::from_ref), edge_order, true)
}
fn gradient_numbers_dims(x: &Tensor, spacing: &[Scalar], dims: &[i64], edge_order: Option<i64>) -> Result<Vec<Tensor>> {
    gradient_of(x, &even(spacing), Some(dims), edge_order, true)
}
fn gradient_places(x: &Tensor, spacing: &[Tensor], dim: Option<i64>, edge_order: Option<i64>) -> Result<Vec<Tensor>> {
    gradient_of(x, &placed(spacing), dim.as_ref().map(std::slice::from_ref), edge_order, true)
}
fn gradient_places_dims(x: &Tensor, spacing: &[Tensor], dims: &[i64], edge_order: Option<i64>) -> Result<Vec<Tensor>> {
    gradient_of(x, &placed(spacing), Some(dims), edge_order, true)
}

/// A sample of a 4 by 5 tensor with these arguments after it, for dtypes that have a gradient.
fn gradient_sample(m: &mut Maker, rest: Vec<OwnedValue>) -> Vec<Sample> {
    if matches!(m.dtype, DType::U8 | DType::Bool) {
        return vec![];
    }
    let mut args: Vec<OwnedValue> = vec![m.any(&[4, 5]).into()];
    args.extend(rest);
    vec![Sample::new(args)]
}

fn places(m: &Maker, sizes: &[i64]) -> OwnedValue {
    let dtype = if m.dtype.is_differentiable() { m.dtype.to_real() } else { DType::F64 };
    let one = |&n: &i64| Tensor::linspace(0.0, 2.0, n, DType::F64).and_then(|t| t.mul(&t)?.add(&t)?.to_dtype(dtype));
    OwnedValue::Tensors(sizes.iter().map(|n| one(n).unwrap_or_else(|e| unreachable!("{e}"))).collect())
}

op! {
    /// Estimates of the derivative along a dim (along each without one), one tensor for each: central differences of
    /// samples `spacing` apart, at the ends one-sided ones of order `edge_order`.
    gradient: "gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]";
    Body::Composite(kernel!(gradient_number; x, spacing, dim, edge_order));
    samples: |m| gradient_sample(m, vec![Scalar::Float(0.5).into(), ().into(), 2.into()]);
    ulp: 32.0;
}
op! {
    /// As `gradient` along several dims with one spacing.
    gradient_number_of: "gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> Tensor[]";
    Body::Composite(kernel!(gradient_number_dims; x, spacing, dims, edge_order));
    samples: |m| gradient_sample(m, vec![Scalar::Float(0.5).into(), vec![1i64, 0].into(), 1.into()]);
    ulp: 32.0;
}
op! {
    /// As `gradient` along several dims.
    gradient_of_dims: "gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]";
    Body::Composite(kernel!(gradient_dims; x, dims, edge_order));
    samples: |m| gradient_sample(m, vec![vec![1i64].into(), 1.into()]);
    ulp: 32.0;
}
op! {
    /// As `gradient` with a spacing for each dim.
    gradient_each: "gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1) -> Tensor[]";
    Body::Composite(kernel!(gradient_numbers; x, spacing, dim, edge_order));
    samples: |m| gradient_sample(m, vec![OwnedValue::Scalars(vec![Scalar::Float(0.5), Scalar::Int(2)]), ().into(), 1.into()]);
    ulp: 32.0;
}
op! {
    /// As `gradient` along several dims with a spacing for each.
    gradient_each_of: "gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1) -> Tensor[]";
    Body::Composite(kernel!(gradient_numbers_dims; x, spacing, dims, edge_order));
    samples: |m| gradient_sample(m, vec![OwnedValue::Scalars(vec![Scalar::Float(0.5)]), vec![1i64].into(), 2.into()]);
    ulp: 32.0;
}
op! {
    /// As `gradient` of samples at the given places along each dim.
    gradient_at: "gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1) -> Tensor[]";
    Body::Composite(kernel!(gradient_places; x, spacing, dim, edge_order));
    samples: |m| { let at = places(m, &[4, 5]); gradient_sample(m, vec![at, ().into(), 1.into()]) };
    ulp: 32.0;
}
op! {
    /// As `gradient` along several dims of samples at the given places.
    gradient_at_of: "gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> Tensor[]";
    Body::Composite(kernel!(gradient_places_dims; x, spacing, dims, edge_order));
    samples: |m| { let at = places(m, &[5]); gradient_sample(m, vec![at, vec![-1i64].into(), 2.into()]) };
    ulp: 32.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    cumulative_trapezoid::ALL,
    cumulative_trapezoid_x::ALL,
    diff::ALL,
    gradient::ALL,
    gradient_at::ALL,
    gradient_at_of::ALL,
    gradient_each::ALL,
    gradient_each_of::ALL,
    gradient_number_of::ALL,
    gradient_of_dims::ALL,
    trapezoid::ALL,
    trapezoid_x::ALL,
    trapz::ALL,
    trapz_x::ALL,
];
