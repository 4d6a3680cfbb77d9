//! Initialisers, with PyTorch's formulas and its draws: same seed, same numbers. All write in place, without history.

use flambeau::autograd::no_grad;
use flambeau::{DType, Error, Result, Tensor, ensure};

/// Numbers drawn evenly from `[low, high)`.
///
/// # Errors
/// When `low > high`, or the dtype is not floating-point.
pub fn uniform_(tensor: &Tensor, low: f64, high: f64) -> Result<()> {
    let _guard = no_grad();
    tensor.uniform_(low, high)?;
    Ok(())
}

/// Normally distributed numbers.
///
/// # Errors
/// When `std` is negative, or the dtype is not floating-point.
pub fn normal_(tensor: &Tensor, mean: f64, std: f64) -> Result<()> {
    let _guard = no_grad();
    tensor.normal_(mean, std)?;
    Ok(())
}

/// One number everywhere.
///
/// # Errors
/// When the number cannot be had in the dtype.
pub fn constant_(tensor: &Tensor, value: f64) -> Result<()> {
    let _guard = no_grad();
    tensor.fill_(value)?;
    Ok(())
}

/// Zeros.
///
/// # Errors
/// As [`constant_`].
pub fn zeros_(tensor: &Tensor) -> Result<()> {
    constant_(tensor, 0.0)
}

/// Ones.
///
/// # Errors
/// As [`constant_`].
pub fn ones_(tensor: &Tensor) -> Result<()> {
    constant_(tensor, 1.0)
}

/// The identity matrix: ones on the diagonal, which may be shorter than a side, and zeros.
///
/// # Errors
/// When the tensor does not have 2 dimensions.
pub fn eye_(tensor: &Tensor) -> Result<()> {
    two_dims(tensor)?;
    zeros_(tensor)?;
    ones_(&tensor.detach()?.diagonal(0, 0, 1)?)
}

/// The weight of a convolution (outputs, inputs, kernel...) whose outputs are its inputs: a one in the kernel's middle
/// for output `i` from input `i`, as far as there are both, and zeros. Each of the `groups` of outputs does so with the
/// inputs.
///
/// # Errors
/// When the tensor does not have 3 to 5 dimensions, or its outputs do not divide into that many groups.
pub fn dirac_(tensor: &Tensor, groups: i64) -> Result<()> {
    let &[outputs, _, ref kernel @ ..] = tensor.sizes() else { return Err(no_convolution()) };
    if !(1..=3).contains(&kernel.len()) {
        return Err(no_convolution());
    }
    if groups < 1 || outputs % groups != 0 {
        return Err(Error::value("dim 0 must be divisible by groups"));
    }
    zeros_(tensor)?;
    let mut middle = tensor.detach()?;
    for size in kernel {
        middle = middle.select(2, size / 2)?;
    }
    let each = outputs / groups;
    (0..groups).try_for_each(|g| ones_(&middle.narrow(0, g * each, each)?.diagonal(0, 0, 1)?))
}

/// Normally distributed numbers around 0, and zeros: in each column the share `sparsity` of its elements, rounded up,
/// in rows drawn anew (Martens 2010).
///
/// # Errors
/// When the tensor does not have 2 dimensions, `sparsity` is not between 0 and 1, `std` is negative, or the dtype is
/// not floating-point.
pub fn sparse_(tensor: &Tensor, sparsity: f64, std: f64) -> Result<()> {
    two_dims(tensor)?;
    if !(0.0..=1.0).contains(&sparsity) {
        return Err(Error::value(format!("sparse_: the share of zeros must be between 0 and 1, not {sparsity}")));
    }
    if tensor.device().is_meta() {
        return Ok(());
    }
    normal_(tensor, 0.0, std)?;
    let (rows, columns, matrix) = (tensor.size(0)?, tensor.size(1)?, tensor.detach()?);
    let zeros = (sparsity * rows as f64).ceil() as i64;
    for column in 0..columns {
        let places = Tensor::randperm(rows)?.narrow(0, 0, zeros)?;
        matrix.select(1, column)?.index_fill_(0, &places.to_device(tensor.device())?, 0)?;
    }
    Ok(())
}

fn two_dims(tensor: &Tensor) -> Result<()> {
    match tensor.dim() {
        2 => Ok(()),
        _ => Err(Error::value("Only tensors with 2 dimensions are supported")),
    }
}

fn no_convolution() -> Error {
    Error::value("Only tensors with 3, 4, or 5 dimensions are supported")
}

/// Normally distributed numbers between `low` and `high`: others are drawn again.
///
/// # Errors
/// When `low > high`, or the dtype is not floating-point.
pub fn trunc_normal_(tensor: &Tensor, mean: f64, std: f64, low: f64, high: f64) -> Result<()> {
    ensure!(low <= high && std > 0.0, "trunc_normal_: no numbers are between {low} and {high} with std={std}");
    let _guard = no_grad();
    let below = |x: f64| -> Result<f64> {
        let z = Tensor::scalar((x - mean) / std * std::f64::consts::FRAC_1_SQRT_2)?;
        Ok((1.0 + z.erf()?.item()?.to_f64()) / 2.0)
    };
    // Rejection sampling: from the normal distribution while most of it is inside, else from the uniform one, with the
    // density's share of its peak as the chance to stay.
    let result = tensor.detach()?;
    if below(high)? - below(low)? > 0.3 {
        result.normal_(mean, std)?;
        loop {
            let outside = result.lt(low)?.logical_or(&result.gt(high)?)?;
            if !outside.any()?.item()?.to_bool() {
                return Ok(());
            }
            let again = result.empty_like()?;
            again.normal_(mean, std)?;
            result.copy_(&outside.where_(&again, &result)?)?;
        }
    }
    let peak = ((mean.clamp(low, high) - mean) / std).powi(2) * -0.5;
    let (candidates, chance) = (result.empty_like()?, result.empty_like()?);
    let mut pending = Tensor::ones(result.sizes(), (DType::Bool, result.device()))?;
    while pending.any()?.item()?.to_bool() {
        candidates.uniform_(low, high)?;
        result.copy_(&pending.where_(&candidates, &result)?)?;
        let density = candidates.sub(mean)?.div(std)?.square()?.mul(-0.5)?.sub(peak)?;
        chance.uniform_(0.0, 1.0)?;
        pending = pending.logical_and(&chance.log()?.gt(&density)?)?;
    }
    Ok(())
}

/// How many numbers go into an output of a weight (outputs, inputs, kernel...), and how many outputs a number goes to.
///
/// # Errors
/// When the weight has less than 2 dimensions.
pub fn fans(weight: &Tensor) -> Result<(i64, i64)> {
    let &[outputs, inputs, ref kernel @ ..] = weight.sizes() else {
        return Err(Error::value("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"));
    };
    let field: i64 = kernel.iter().product();
    Ok((inputs * field, outputs * field))
}

/// What follows a weight, for the gain that keeps the variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlinearity {
    /// Nothing, a convolution, or a sigmoid.
    Linear,
    /// The hyperbolic tangent.
    Tanh,
    /// relu.
    Relu,
    /// leaky_relu with its slope.
    LeakyRelu(f64),
    /// selu.
    Selu,
}

impl Nonlinearity {
    /// The gain.
    #[must_use]
    pub fn gain(self) -> f64 {
        match self {
            Nonlinearity::Linear => 1.0,
            Nonlinearity::Tanh => 5.0 / 3.0,
            Nonlinearity::Relu => 2f64.sqrt(),
            Nonlinearity::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Nonlinearity::Selu => 0.75,
        }
    }
}

/// Which of a weight's [`fans`] keeps its variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanMode {
    /// In the forward pass.
    FanIn,
    /// In the backward pass.
    FanOut,
}

impl FanMode {
    fn of(self, weight: &Tensor) -> Result<f64> {
        let (fan_in, fan_out) = fans(weight)?;
        Ok(if self == FanMode::FanIn { fan_in } else { fan_out } as f64)
    }
}

/// Even numbers (Glorot and Bengio 2010).
///
/// # Errors
/// As [`fans`].
pub fn xavier_uniform_(weight: &Tensor, gain: f64) -> Result<()> {
    let (fan_in, fan_out) = fans(weight)?;
    let bound = 3f64.sqrt() * (gain * (2.0 / (fan_in + fan_out) as f64).sqrt());
    uniform_(weight, -bound, bound)
}

/// Normally distributed numbers (Glorot and Bengio 2010).
///
/// # Errors
/// As [`fans`].
pub fn xavier_normal_(weight: &Tensor, gain: f64) -> Result<()> {
    let (fan_in, fan_out) = fans(weight)?;
    normal_(weight, 0.0, gain * (2.0 / (fan_in + fan_out) as f64).sqrt())
}

/// Even numbers (He et al. 2015).
///
/// # Errors
/// As [`fans`].
pub fn kaiming_uniform_(weight: &Tensor, mode: FanMode, nonlinearity: Nonlinearity) -> Result<()> {
    if weight.sizes().contains(&0) {
        return Ok(());
    }
    let bound = 3f64.sqrt() * (nonlinearity.gain() / mode.of(weight)?.sqrt());
    uniform_(weight, -bound, bound)
}

/// Normally distributed numbers (He et al. 2015).
///
/// # Errors
/// As [`fans`].
pub fn kaiming_normal_(weight: &Tensor, mode: FanMode, nonlinearity: Nonlinearity) -> Result<()> {
    if weight.sizes().contains(&0) {
        return Ok(());
    }
    normal_(weight, 0.0, nonlinearity.gain() / mode.of(weight)?.sqrt())
}

/// Rows (or columns, where there are fewer) that are orthonormal times `gain` (Saxe et al. 2013).
///
/// # Errors
/// When the tensor has less than 2 dimensions or is not real.
pub fn orthogonal_(tensor: &Tensor, gain: f64) -> Result<()> {
    ensure!(tensor.dim() >= 2, "Only tensors with 2 or more dimensions are supported");
    if tensor.numel() == 0 {
        return Ok(());
    }
    let _guard = no_grad();
    let (rows, sizes) = (tensor.sizes()[0] as usize, tensor.sizes().to_vec());
    let columns = tensor.numel() as usize / rows;
    normal_(tensor, 0.0, 1.0)?;
    let drawn = tensor.to_vec::<f64>()?;
    // As many vectors as the smaller side has: the columns of the drawn matrix or of its transpose.
    let (count, length) = (rows.min(columns), rows.max(columns));
    let place = |vector: usize, i: usize| if rows < columns { vector * columns + i } else { i * columns + vector };
    let mut vectors: Vec<Vec<f64>> = (0..count).map(|v| (0..length).map(|i| drawn[place(v, i)]).collect()).collect();
    for v in 0..count {
        let (done, rest) = vectors.split_at_mut(v);
        let vector = &mut rest[0];
        // Twice is enough (Giraud, Langou and Rozloznik 2005). The positive diagonal of R comes by itself.
        for _ in 0..2 {
            for earlier in done.iter() {
                let dot: f64 = earlier.iter().zip(vector.iter()).map(|(a, b)| a * b).sum();
                vector.iter_mut().zip(earlier).for_each(|(x, e)| *x -= dot * e);
            }
        }
        let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        vector.iter_mut().for_each(|x| *x /= norm);
    }
    let mut out = vec![0.0; drawn.len()];
    for (v, vector) in vectors.iter().enumerate() {
        for (i, x) in vector.iter().enumerate() {
            out[place(v, i)] = x * gain;
        }
    }
    tensor.copy_(&Tensor::from_slice_of(&out, &sizes)?)?;
    Ok(())
}
