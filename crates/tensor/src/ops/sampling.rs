//! Samplers whose parameters are tensors (gamma, Dirichlet and binomial numbers), how the numbers move with their
//! parameters, and rectifiers with a random slope.

use super::random::{Engine, fill, not_for};
use crate::access::{elements, elements_mut};
use crate::dims::Dims;
use crate::promotion::Promotion;
use crate::random::Generator;
use crate::samples::{Maker, Sample};
use crate::{Body, DType, Device, Element, ErrorKind, Error, Op, Result, Scalar, Tensor, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::math::special::gamma;
use flambeau_cpu::random as recipes;

/// Draws from the engine into the first tensor, by the parameters.
type Recipe<'a> = &'a dyn Fn(&mut Engine, &Tensor, &[Tensor]) -> Result<()>;

/// Draws a row-major tensor with one number per element of `parameters`, which have the result's sizes and dtype.
fn drawn(
    parameters: &[&Tensor],
    dtype: DType,
    generator: Option<&Generator>,
    recipe: Recipe<'_>,
) -> Result<Tensor> {
    let first = parameters[0];
    let out = Tensor::fresh(first.device(), dtype, Dims::from_slice(first.sizes()))?;
    if first.device() == Device::META {
        return Ok(out);
    }
    let rows = |t: &&Tensor| t.detach()?.to_device(Device::CPU)?.contiguous();
    let rows = parameters.iter().map(rows).collect::<Result<Vec<_>>>()?;
    fill(&out, generator, &|engine, out, _| {
        let locks = rows.iter().map(|t| (t.storage(), false)).chain([(out.storage(), true)]);
        let _locks = LockSet::new(locks)?;
        recipe(engine, out, &rows)
    })
}

fn check_floats(op: &str, x: &Tensor) -> Result<()> {
    if x.dtype().is_floating_point() { Ok(()) } else { Err(not_for(op, x.dtype())) }
}

// ---- gamma --------------------------------------------------------------------------------------

fn standard_gamma_any(x: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    check_floats("gamma_cpu", x)?;
    drawn(&[x], x.dtype(), generator, &|engine, out, rows| {
        crate::dispatch_dtype!(out.dtype(), T in [floats] => {
            // SAFETY: both are locked by `drawn`, and of this type.
            recipes::standard_gamma(engine, unsafe { elements_mut::<T>(out) }, unsafe { elements(&rows[0]) });
            Ok(())
        }; else Err(not_for("gamma_cpu", out.dtype())))
    })
}

fn positive(m: &mut Maker) -> Vec<Sample> {
    if m.dtype.is_floating_point() { vec![sample![m.uniform(&[2, 3], 0.3, 5.0), ()]] } else { vec![] }
}

op! {
    /// Gamma numbers of these shapes and scale 1.
    _standard_gamma: "_standard_gamma(Tensor self, Generator? generator=None) -> Tensor",
        Out OUT: "_standard_gamma.out(Tensor self, Generator? generator=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(standard_gamma_any; x, generator));
    derivative: backward! { self_(g, self_: Tensor, result: Tensor) => g.mul(&self_._standard_gamma_grad(&result)?)? };
    samples: positive;
    fn _standard_gamma(&self) -> Tensor [self];
}
op! {
    /// How gamma numbers of these shapes move with them, their place in the distribution staying the same.
    _standard_gamma_grad: "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
        Out OUT: "_standard_gamma_grad.out(Tensor self, Tensor output, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, crate::pointwise::scalar_params, "_standard_gamma_grad_cpu";
        floats rare |a, x| => a.gamma_slope_common::<I>(x), if a.is_common_incomplete(x),
            else T::from_f64(gamma::gamma_slope(a.to_f64(), x.to_f64()));
    );
    derivative: crate::autograd::Derivative::NotImplemented("the derivative for '_standard_gamma_grad' is not implemented.");
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.uniform(&[2, 3], 0.3, 5.0), m.uniform(&[2, 3], 0.1, 5.0)]],
        false => vec![],
    };
    fn _standard_gamma_grad(&self, output: &Tensor) -> Tensor [self, output];
}

// ---- Dirichlet ----------------------------------------------------------------------------------

fn sample_dirichlet_any(x: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    check_floats("dirichlet", x)?;
    let gammas = drawn(&[x], DType::F64, generator, &|engine, out, rows| {
        crate::dispatch_dtype!(rows[0].dtype(), T in [floats] => {
            // SAFETY: both are locked by `drawn`, and of these types.
            let (out, shapes) = unsafe { (elements_mut::<f64>(out), elements::<T>(&rows[0])) };
            recipes::dirichlet_gammas(engine, out, shapes);
            Ok(())
        }; else Err(not_for("dirichlet", rows[0].dtype())))
    })?;
    let (least, most) = match x.dtype() {
        DType::F64 => (f64::MIN_POSITIVE, 1.0 - f64::EPSILON / 2.0),
        DType::F16 => (f64::from(crate::f16::MIN_POSITIVE), 1.0 - f64::from(crate::f16::EPSILON) / 2.0),
        DType::BF16 => (f64::from(crate::bf16::MIN_POSITIVE), 1.0 - f64::from(crate::bf16::EPSILON) / 2.0),
        _ => (f64::from(f32::MIN_POSITIVE), 1.0 - f64::from(f32::EPSILON) / 2.0),
    };
    let shares = if x.dim() == 0 { gammas.div(&gammas)? } else { gammas.div(&gammas.sum_dim(&[-1], true)?)? };
    shares.clamp(least, most)?.to_dtype(x.dtype())
}

/// The gradient of Dirichlet samples by their concentrations: each share moves with its own beta distribution, and the
/// others make room.
fn sample_dirichlet_backward(g: &Tensor, concentration: &Tensor, shares: &Tensor) -> Result<Tensor> {
    let total = concentration.sum_dim(&[-1], true)?.expand(concentration.sizes())?;
    let slope = shares._dirichlet_grad(concentration, &total)?;
    slope.mul(&g.sub(&shares.mul(g)?.sum_dim(&[-1], true)?)?)
}

op! {
    /// Dirichlet samples along the last dim, of these concentrations.
    _sample_dirichlet: "_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor",
        Out OUT: "_sample_dirichlet.out(Tensor self, Generator? generator=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(sample_dirichlet_any; x, generator));
    derivative: backward! { self_(g, self_: Tensor, result: Tensor) => sample_dirichlet_backward(g, &self_, &result)? };
    samples: positive;
    fn _sample_dirichlet(&self) -> Tensor [self];
}
op! {
    /// How the shares of Dirichlet samples move with their own concentration, divided by one less the share.
    _dirichlet_grad: "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor",
        Out OUT: "_dirichlet_grad.out(Tensor x, Tensor alpha, Tensor total, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(3, Promotion::Common, crate::pointwise::scalar_params, "_dirichlet_grad_cpu";
        floats scalar |x, a, t| T::from_f64(gamma::beta_slope(x.to_f64(), a.to_f64(), t.to_f64()));
    );
    derivative: crate::autograd::Derivative::NotImplemented("the derivative for '_dirichlet_grad' is not implemented.");
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.uniform(&[2, 3], 0.1, 0.9), m.uniform(&[2, 3], 0.3, 2.0), m.uniform(&[2, 3], 3.0, 6.0)]],
        false => vec![],
    };
    fn _dirichlet_grad(&self, alpha: &Tensor, total: &Tensor) -> Tensor [self, alpha, total];
}

// ---- binomial -----------------------------------------------------------------------------------

fn binomial_any(count: &Tensor, prob: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    for (name, t) in [("count", count), ("prob", prob)] {
        if !t.dtype().is_floating_point() {
            return Err(Error::new(
                ErrorKind::Value,
                format!("binomial only supports floating-point dtypes for {name}, got: {}", t.dtype().scalar_type_name()),
            ));
        }
    }
    ensure!(
        count.dtype() == prob.dtype(),
        "Found dtype {} but expected {}",
        prob.dtype().scalar_type_name(),
        count.dtype().scalar_type_name()
    );
    let prob = prob.detach()?.expand(count.sizes())?;
    drawn(&[count, &prob], count.dtype(), generator, &|engine, out, rows| {
        crate::dispatch_dtype!(out.dtype(), T in [floats] => {
            // SAFETY: all are locked by `drawn`, and of this type.
            unsafe { recipes::binomial(engine, elements_mut::<T>(out), elements(&rows[0]), elements(&rows[1])) };
            Ok(())
        }; else Err(not_for("binomial_cpu", out.dtype())))
    })
}

op! {
    /// The number of successes in `count` trials of probability `prob`, element by element.
    binomial: "binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
        Out OUT: "binomial.out(Tensor count, Tensor prob, Generator? generator=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(binomial_any; count, prob, generator));
    derivative: backward! { count(g) => g.zeros_like()?, prob(g) => g.zeros_like()? };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.uniform(&[2, 3], 1.0, 30.0).floor().unwrap_or_else(|e| unreachable!("{e}")), m.uniform(&[2, 3], 0.1, 0.9), ()]],
        false => vec![],
    };
    fn binomial(&self, prob: &Tensor) -> Tensor [self, prob];
}

// ---- random slopes ------------------------------------------------------------------------------

fn check_slopes(lower: Scalar, upper: Scalar) -> Result<(f64, f64)> {
    let (lower, upper) = (lower.to_f64(), upper.to_f64());
    ensure!(lower.is_finite(), "rrelu: lower bound must be finite, got {lower}");
    ensure!(upper.is_finite(), "rrelu: upper bound must be finite, got {upper}");
    ensure!(lower <= upper, "Lower bound should be less than or equal to the upper bound");
    Ok((lower, upper))
}

/// The slopes of a rectifier in training: random where `x` is not positive, in the order of its elements, 1 elsewhere.
fn random_slopes(x: &Tensor, lower: f64, upper: f64, generator: Option<&Generator>) -> Result<Tensor> {
    check_floats("rrelu_with_noise_out_cpu", x)?;
    drawn(&[x], x.dtype(), generator, &|engine, out, rows| {
        crate::dispatch_dtype!(out.dtype(), T in [floats] => {
            // SAFETY: both are locked by `drawn`, and of this type.
            let (out, x) = unsafe { (elements_mut::<T>(out), elements::<T>(&rows[0])) };
            for (o, x) in out.iter_mut().zip(x) {
                let slope = if x.to_f64() <= 0.0 { engine.next_f64() * (upper - lower) + lower } else { 1.0 };
                *o = T::from_f64(slope);
            }
            Ok(())
        }; else Err(not_for("rrelu_with_noise_out_cpu", out.dtype())))
    })
}

/// The slopes of a call in training, written to `noise` where there is one, or the one slope of evaluation.
enum Slope {
    Random(Tensor),
    Fixed(f64),
}

fn slope(
    x: &Tensor,
    noise: Option<&Tensor>,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Slope> {
    let (lower, upper) = check_slopes(lower, upper)?;
    if let Some(noise) = noise {
        crate::dispatch::check_same_device(x, noise.device())?;
    }
    if !training {
        return Ok(Slope::Fixed((lower + upper) / 2.0));
    }
    let drawn = random_slopes(x, lower, upper, generator)?;
    if let Some(noise) = noise {
        ensure!(
            noise.sizes() == x.sizes(),
            "noise tensor shape must match self tensor shape. Got self.shape = {:?} noise.shape = {:?}",
            x.sizes(),
            noise.sizes()
        );
        noise.detach()?.copy_(&drawn)?;
    }
    Ok(Slope::Random(drawn))
}

fn rectified(x: &Tensor, slope: Slope) -> Result<Tensor> {
    // In row-major order, whatever the input's.
    let x = x.contiguous()?;
    match slope {
        Slope::Random(noise) => x.mul(&noise),
        Slope::Fixed(slope) => x.leaky_relu(slope),
    }
}
fn rectified_in_place(x: &Tensor, slope: Slope) -> Result<Tensor> {
    match slope {
        Slope::Random(noise) => x.mul_(&noise),
        Slope::Fixed(slope) => x.leaky_relu_(slope),
    }
}

fn rrelu_any(x: &Tensor, lower: Scalar, upper: Scalar, training: bool, generator: Option<&Generator>) -> Result<Tensor> {
    rectified(x, slope(x, None, lower, upper, training, generator)?)
}
fn rrelu_in_place(
    x: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    rectified_in_place(x, slope(x, None, lower, upper, training, generator)?)
}
fn rrelu_with_noise_any(
    x: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    rectified(x, slope(x, Some(noise), lower, upper, training, generator)?)
}
fn rrelu_with_noise_in_place(
    x: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    // Before the noise is written.
    crate::dispatch::check_writable(x, x.dtype())?;
    rectified_in_place(x, slope(x, Some(noise), lower, upper, training, generator)?)
}
fn rrelu_with_noise_functional_any(
    x: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<(Tensor, Tensor)> {
    match slope(x, None, lower, upper, training, generator)? {
        Slope::Random(noise) => Ok((x.mul(&noise)?, noise)),
        fixed => Ok((rectified(x, fixed)?, noise.clone())),
    }
}
fn rrelu_with_noise_backward_any(
    g: &Tensor,
    x: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    is_result: bool,
) -> Result<Tensor> {
    let (lower, upper) = (lower.to_f64(), upper.to_f64());
    match training && upper - lower > 1e-6 {
        true => g.mul(noise),
        false => g.leaky_relu_backward(x, (lower + upper) / 2.0, is_result),
    }
}

fn slope_samples(m: &mut Maker, noise: bool) -> Vec<Sample> {
    if !m.dtype.is_floating_point() {
        return vec![];
    }
    let one = |m: &mut Maker, training: bool| {
        let mut sample = sample![m.any(&[2, 3]), Scalar::Float(0.1), Scalar::Float(0.3), training, ()];
        if noise {
            sample.args.insert(1, m.any(&[2, 3]).into());
        }
        sample
    };
    vec![one(m, false), one(m, true)]
}

op! {
    /// This tensor where it is positive, elsewhere times a slope: in training random between `lower` and `upper`, else
    /// their mean.
    rrelu: "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor";
    Body::Composite(kernel!(rrelu_any; x, lower, upper, training, generator));
    samples: |m| slope_samples(m, false);
    fn rrelu(&self, lower: f64, upper: f64, training: bool) -> Tensor [self, Scalar::Float(lower), Scalar::Float(upper), training];
}
op! {
    /// Multiplies what is not positive with a slope; see `rrelu`.
    rrelu_: "rrelu_(Tensor(a!) self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor(a!)";
    Body::Composite(kernel!(rrelu_in_place; x, lower, upper, training, generator));
    samples: |m| slope_samples(m, false);
    fn rrelu_(&self, lower: f64, upper: f64, training: bool) -> Tensor [self, Scalar::Float(lower), Scalar::Float(upper), training];
}
op! {
    /// As `rrelu`; in training the slopes are written to `noise`.
    rrelu_with_noise: "rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor",
        Out OUT: "rrelu_with_noise.out(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(rrelu_with_noise_any; x, noise, lower, upper, training, generator));
    samples: |m| slope_samples(m, true);
}
op! {
    /// As `rrelu_`; in training the slopes are written to `noise`.
    rrelu_with_noise_: "rrelu_with_noise_(Tensor(a!) self, Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor(a!)";
    Body::Composite(kernel!(rrelu_with_noise_in_place; x, noise, lower, upper, training, generator));
    samples: |m| slope_samples(m, true);
}
op! {
    /// As `rrelu`, and the slopes (in evaluation, `noise`).
    rrelu_with_noise_functional: "rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)";
    Body::Composite(kernel!(rrelu_with_noise_functional_any; x, noise, lower, upper, training, generator));
    samples: |m| slope_samples(m, true);
}
op! {
    /// The gradient of a rectifier with the given slopes.
    rrelu_with_noise_backward: "rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool training, bool self_is_result) -> Tensor",
        Out OUT: "rrelu_with_noise_backward.out(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool training, bool self_is_result, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(rrelu_with_noise_backward_any; g, x, noise, lower, upper, training, is_result));
    samples: |m| match m.dtype.is_floating_point() {
        true => [false, true]
            .map(|training| sample![m.any(&[2, 3]), m.any(&[2, 3]), m.any(&[2, 3]), Scalar::Float(0.1), Scalar::Float(0.3), training, false])
            .to_vec(),
        false => vec![],
    };
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    _dirichlet_grad::ALL,
    _sample_dirichlet::ALL,
    _standard_gamma::ALL,
    _standard_gamma_grad::ALL,
    binomial::ALL,
    rrelu::ALL,
    rrelu_::ALL,
    rrelu_with_noise::ALL,
    rrelu_with_noise_::ALL,
    rrelu_with_noise_backward::ALL,
    rrelu_with_noise_functional::ALL,
];
