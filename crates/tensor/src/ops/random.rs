//! Random numbers: fills in place, factories, and dropout. The same seed gives PyTorch's numbers.

use super::create::{TensorOptions, factory, sized};
use crate::dims::{self, Dims};
use crate::random::Generator;
use crate::{Body, Bool, DType, Device, Element, Error, MemoryFormat, Op, Result, Tensor, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::random as recipes;

pub(super) type Engine = recipes::Generator;

pub(super) fn not_for(op: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{op}\" not implemented for '{}'", dtype.scalar_type_name()))
}

/// Runs `f` on the elements of a contiguous tensor on the CPU.
fn with_elements<T: Element, R>(x: &Tensor, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
    let _lock = LockSet::new([(x.storage(), true)])?;
    // SAFETY: `numel` contiguous elements of this type, in a storage that is locked for writing.
    Ok(f(unsafe { std::slice::from_raw_parts_mut(x.data_ptr().cast::<T>(), x.numel() as usize) }))
}

/// Fills `x` in the order in which PyTorch visits it. `recipe` is given contiguous memory, and whether that stands for
/// something with gaps or in another order.
pub(super) fn fill(
    x: &Tensor,
    generator: Option<&Generator>,
    recipe: &dyn Fn(&mut Engine, &Tensor, bool) -> Result<()>,
) -> Result<Tensor> {
    ensure!(
        !dims::may_overlap(x.sizes(), x.strides()),
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please \
         clone() the tensor before performing the operation."
    );
    if x.numel() == 0 || x.device() == Device::META {
        return Ok(x.clone());
    }
    let generator = Generator::or_default(generator);
    if x.is_contiguous() && x.device().is_cpu() {
        generator.with(|engine| recipe(engine, x, false))?;
        return Ok(x.clone());
    }
    let order = visiting_order(x);
    let target = x.permute(&order)?;
    let buffer = Tensor::fresh(Device::CPU, x.dtype(), Dims::from_slice(target.sizes()))?;
    generator.with(|engine| recipe(engine, &buffer, !x.is_contiguous()))?;
    target.copy_(&buffer)?;
    Ok(x.clone())
}

fn visiting_order(x: &Tensor) -> Dims {
    let sizes: Vec<usize> = x.sizes().iter().map(|&s| s as usize).collect();
    let strides: Vec<isize> = x.strides().iter().map(|&s| s as isize).collect();
    recipes::memory_order(&sizes, &strides).iter().map(|&d| d as i64).collect()
}

/// The largest finite number of a floating-point dtype.
pub(super) fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(crate::bf16::MAX),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// An in-place fill: the operator, and its functional form.
macro_rules! fills {
    ($(
        $(#[doc = $doc:expr])*
        $name:ident $schema:literal, $functional:ident $functional_schema:literal, $any:ident($($arg:ident: $t:ty),*) [$($given:ident: $g:ty),*] $samples:expr;
    )*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: $schema;
            Body::Explicit(kernel!($any; x, $($arg,)* generator));
            derivative: backward! { self_(g) => g.zeros_like()? };
            samples: $samples;
            fn $name(&self, $($given: $g),*) -> Tensor [self, $($given),*];
        }
        #[allow(non_snake_case)]
        mod $functional {
            use super::*;
            pub(super) fn any(x: &Tensor, $($arg: $t,)* generator: Option<&Generator>) -> Result<Tensor> {
                $any(&x.empty_like()?, $($arg,)* generator)
            }
            op! {
                $(#[doc = $doc])*
                /// The result is a new tensor with the sizes, dtype and memory order of this one.
                entry: $functional_schema;
                Body::Explicit(kernel!(any; x, $($arg,)* generator));
                derivative: backward! { self_(g) => g.zeros_like()? };
                samples: $samples;
            }
        }
    )* };
}

// ---- continuous ---------------------------------------------------------------------------------

fn uniform_any(x: &Tensor, from: Option<f64>, to: Option<f64>, generator: Option<&Generator>) -> Result<Tensor> {
    let (from, to) = (from.unwrap_or(0.0), to.unwrap_or(1.0));
    if x.dtype().is_complex() {
        uniform_any(&x.view_as_real()?, Some(from), Some(to), generator)?;
        return Ok(x.clone());
    }
    if !x.dtype().is_differentiable() {
        return Err(not_for("check_uniform_bounds", x.dtype()));
    }
    let (max, name) = (largest(x.dtype()), x.dtype().cpp_name());
    ensure!((-max..=max).contains(&from), "from is out of bounds for {name}");
    ensure!((-max..=max).contains(&to), "to is out of bounds for {name}");
    ensure!(from <= to, "uniform_ expects to return a [from, to) range, but found from={from} > to={to}");
    ensure!(
        to - from <= max,
        "uniform_ expects to-from <= std::numeric_limits<{name}>::max(), but found to={to} and from={from} which result \
         in to-from to exceed the limit"
    );
    fill(x, generator, &|engine, out, _| {
        crate::dispatch_dtype!(out.dtype(), T in [floats] => {
            with_elements::<T, _>(out, |out| recipes::uniform(engine, out, from, to))
        }; else Err(not_for("uniform", out.dtype())))
    })
}

pub(super) fn normal_any(x: &Tensor, mean: Option<f64>, std: Option<f64>, generator: Option<&Generator>) -> Result<Tensor> {
    let (mean, std) = (mean.unwrap_or(0.0), std.unwrap_or(1.0));
    ensure!(std >= 0.0, "normal expects std >= 0.0, but found std {std}");
    if x.dtype().is_complex() {
        normal_any(&x.view_as_real()?, Some(mean), Some(std / std::f64::consts::SQRT_2), generator)?;
        return Ok(x.clone());
    }
    if !x.dtype().is_differentiable() {
        return Err(not_for("normal_kernel_cpu", x.dtype()));
    }
    fill(x, generator, &|engine, out, scattered| {
        crate::dispatch_dtype!(out.dtype(), T in [floats] => with_elements::<T, _>(out, |out| match scattered {
            true => recipes::normal_in_pairs(engine, out, mean, std),
            false => recipes::normal(engine, out, mean, std),
        }); else Err(not_for("normal_kernel_cpu", out.dtype())))
    })
}

fn exponential_any(x: &Tensor, lambda: Option<f64>, generator: Option<&Generator>) -> Result<Tensor> {
    let lambda = lambda.unwrap_or(1.0);
    ensure!(
        x.dtype().is_differentiable(),
        "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you \
         specified {}",
        x.dtype().scalar_type_name()
    );
    ensure!(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda={lambda}");
    fill(x, generator, &|engine, out, _| {
        crate::dispatch_dtype!(out.dtype(), T in [floats] => {
            with_elements::<T, _>(out, |out| recipes::exponential(engine, out, lambda))
        }; else Err(not_for("exponential_cpu", out.dtype())))
    })
}

fn cauchy_any(x: &Tensor, median: Option<f64>, sigma: Option<f64>, generator: Option<&Generator>) -> Result<Tensor> {
    let (median, sigma) = (median.unwrap_or(0.0), sigma.unwrap_or(1.0));
    ensure!(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma={sigma}");
    ensure!(
        x.dtype().is_differentiable(),
        "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
        x.dtype().scalar_type_name()
    );
    fill(x, generator, &|engine, out, _| {
        crate::dispatch_dtype!(out.dtype(), T in [floats] => {
            with_elements::<T, _>(out, |out| recipes::cauchy(engine, out, median, sigma))
        }; else Err(not_for("cauchy_cpu", out.dtype())))
    })
}

fn log_normal_any(x: &Tensor, mean: Option<f64>, std: Option<f64>, generator: Option<&Generator>) -> Result<Tensor> {
    let (mean, std) = (mean.unwrap_or(1.0), std.unwrap_or(2.0));
    ensure!(std > 0.0, "log_normal_ expects std > 0.0, but found std={std}");
    fill_floats("log_normal_cpu", x)?;
    fill(x, generator, &|engine, out, _| {
        crate::dispatch_dtype!(out.dtype(), T in [floats] => {
            with_elements::<T, _>(out, |out| recipes::log_normal(engine, out, mean, std))
        }; else Err(not_for("log_normal_cpu", out.dtype())))
    })
}

fn fill_floats(op: &str, x: &Tensor) -> Result<()> {
    match x.dtype().is_differentiable() && !x.dtype().is_complex() {
        true => Ok(()),
        false => Err(not_for(op, x.dtype())),
    }
}

// ---- discrete -----------------------------------------------------------------------------------

fn geometric_any(x: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    ensure!(0.0 < p && p < 1.0, "geometric_ expects p to be in (0, 1), but got p={p}");
    if x.dtype() == DType::Bool || x.dtype().is_complex() {
        return Err(not_for("geometric_cpu", x.dtype()));
    }
    fill(x, generator, &|engine, out, _| {
        crate::dispatch_dtype!(out.dtype(), T in [ints, floats] => {
            with_elements::<T, _>(out, |out| recipes::geometric(engine, out, p))
        }; else Err(not_for("geometric_cpu", out.dtype())))
    })
}

/// The least and greatest integers that a random integer of a dtype may be, and the greatest one drawn by default.
pub(super) fn integer_range(dtype: DType) -> (f64, f64, i128) {
    let powers = |low: u32, high: u32| (-((1u128 << low) as f64), ((1u128 << high) - 1) as f64, (1i128 << high) - 1);
    match dtype {
        DType::Bool => (0.0, 1.0, 1),
        DType::U8 => (0.0, 255.0, 255),
        DType::U16 => (0.0, 65535.0, 65535),
        DType::U32 => (0.0, f64::from(u32::MAX), u32::MAX.into()),
        DType::U64 => (0.0, u64::MAX as f64, u64::MAX.into()),
        DType::I8 => powers(7, 7),
        DType::I16 => powers(15, 15),
        DType::I32 => powers(31, 31),
        DType::I64 => powers(63, 63),
        DType::F16 => (-65504.0, 65504.0, 1 << 11),
        DType::BF16 => (-largest(dtype), largest(dtype), 1 << 8),
        DType::F32 => (-largest(dtype), largest(dtype), 1 << 24),
        _ => (-largest(dtype), largest(dtype), 1 << 53),
    }
}

fn random_from_any(x: &Tensor, from: i64, to: Option<i64>, generator: Option<&Generator>) -> Result<Tensor> {
    let name = x.dtype().cpp_name();
    ensure!(!x.dtype().is_complex(), "check_random_bounds handles only integral, floating-point and boolean types");
    let (least, greatest, default) = integer_range(x.dtype());
    let within = |i: i64| (least..=greatest).contains(&(i as f64));
    let range = match to {
        Some(to) => {
            ensure!(from < to, "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}");
            ensure!(within(from), "from is out of bounds for {name}");
            ensure!(within(to - 1), "to - 1 is out of bounds for {name}");
            to.wrapping_sub(from) as u64
        }
        // All 2^64.
        None if from == i64::MIN => 0,
        None => {
            ensure!(
                i128::from(from) <= default,
                "random_ expects 'from' to be less than or equal to 'to_inc', but got from={from} > to_inc={default}"
            );
            ensure!(within(from), "from is out of bounds for {name}");
            (default - i128::from(from) + 1) as u64
        }
    };
    fill(x, generator, &|engine, out, _| {
        crate::dispatch_dtype!(out.dtype(), T in [bool, ints, floats] => {
            with_elements::<T, _>(out, |out| recipes::random_from(engine, out, from, range))
        }; else Err(not_for("random_from_to", out.dtype())))
    })
}
fn random_to_any(x: &Tensor, to: i64, generator: Option<&Generator>) -> Result<Tensor> {
    random_from_any(x, 0, Some(to), generator)
}
fn random_any(x: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return Err(not_for("random_", x.dtype()));
    }
    fill(x, generator, &|engine, out, _| {
        crate::dispatch_dtype!(out.dtype(), T in [bool, ints, floats] => {
            with_elements::<T, _>(out, |out| recipes::random(engine, out))
        }; else Err(not_for("random_", out.dtype())))
    })
}

fn bernoulli_p_any(x: &Tensor, p: Option<f64>, generator: Option<&Generator>) -> Result<Tensor> {
    let p = p.unwrap_or(0.5);
    ensure!((0.0..=1.0).contains(&p), "bernoulli_ expects p to be in [0, 1], but got p={p}");
    fill(
        x,
        generator,
        &|engine, out, _| crate::dispatch_dtype!(out.dtype(), T => with_elements::<T, _>(out, |out| recipes::bernoulli(engine, out, p))),
    )
}

fn bernoulli_tensor_any(x: &Tensor, p: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    fill_floats("bernoulli_tensor_cpu_p_", p)?;
    let p = p.detach()?.expand(x.sizes())?;
    if x.device() == Device::META {
        return Ok(x.clone());
    }
    let p = p.to_options((p.dtype() != DType::F64).then_some(DType::F32), Some(Device::CPU))?;
    let p = p.permute(&visiting_order(x))?.contiguous()?;
    let target = x.permute(&visiting_order(x))?;
    let draws = Tensor::fresh(Device::CPU, DType::Bool, Dims::from_slice(target.sizes()))?;
    let all = p.ge(0i64)?.logical_and(&p.le(1i64)?)?.all()?.item()?.to_bool();
    ensure!(
        all,
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, please \
         report an enhancement request to PyTorch.)"
    );
    let n = p.numel() as usize;
    let locks = LockSet::new([(p.storage(), false), (draws.storage(), true)])?;
    Generator::or_default(generator).with(|engine| {
        // SAFETY: both are contiguous, of `n` elements, and locked.
        unsafe {
            let out = std::slice::from_raw_parts_mut(draws.data_ptr().cast::<Bool>(), n);
            match p.dtype() {
                DType::F64 => {
                    recipes::bernoulli_each(engine, out, std::slice::from_raw_parts(p.data_ptr().cast::<f64>(), n))
                }
                _ => recipes::bernoulli_each(engine, out, std::slice::from_raw_parts(p.data_ptr().cast::<f32>(), n)),
            }
        }
    });
    drop(locks);
    target.copy_(&draws)?;
    Ok(x.clone())
}

fills! {
    /// Fills with numbers uniform in `[from, to)`.
    uniform_ "uniform_(Tensor(a!) self, float from=0., float to=1., *, Generator? generator=None) -> Tensor(a!)",
        uniform "uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor",
        uniform_any(from: Option<f64>, to: Option<f64>) [from: f64, to: f64]
        |m| vec![sample![m.any(&[2, 3]), -1.0, 2.5, ()], sample![m.any(&[20]), -1.0, 2.5, ()]];
    /// Fills with normal numbers of the given mean and standard deviation.
    normal_ "normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor(a!)",
        normal_functional "normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor",
        normal_any(mean: Option<f64>, std: Option<f64>) [mean: f64, std: f64]
        |m| vec![sample![m.any(&[2, 3]), 1.0, 2.0, ()], sample![m.any(&[20]), 1.0, 2.0, ()]];
    /// Fills with exponential numbers of rate `lambd`.
    exponential_ "exponential_(Tensor(a!) self, float lambd=1., *, Generator? generator=None) -> Tensor(a!)",
        exponential "exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor",
        exponential_any(lambd: Option<f64>) [lambd: f64]
        |m| vec![sample![m.any(&[2, 3]), 1.5, ()], sample![m.any(&[20]), 1.5, ()]];
    /// Fills with Cauchy numbers.
    cauchy_ "cauchy_(Tensor(a!) self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor(a!)",
        cauchy "cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor",
        cauchy_any(median: Option<f64>, sigma: Option<f64>) [median: f64, sigma: f64]
        |m| vec![sample![m.any(&[2, 3]), 0.5, 2.0, ()], sample![m.any(&[20]), 0.5, 2.0, ()]];
    /// Fills with exponentials of normal numbers of the given mean and standard deviation.
    log_normal_ "log_normal_(Tensor(a!) self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor(a!)",
        log_normal "log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor",
        log_normal_any(mean: Option<f64>, std: Option<f64>) [mean: f64, std: f64]
        |m| vec![sample![m.any(&[2, 3]), 1.0, 2.0, ()], sample![m.any(&[20]), 1.0, 2.0, ()]];
    /// Fills with the number of trials up to the first success of probability `p`.
    geometric_ "geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)",
        geometric "geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor",
        geometric_any(p: f64) [p: f64]
        |m| vec![sample![m.any(&[2, 3]), 0.3, ()], sample![m.any(&[20]), 0.3, ()]];
    /// Fills with integers of the dtype's natural range.
    random_ "random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)",
        random "random(Tensor self, *, Generator? generator=None) -> Tensor",
        random_any() []
        |m| vec![sample![m.any(&[2, 3]), ()], sample![m.any(&[20]), ()]];
    /// Fills with integers from `from` up to, but without, `to`.
    random_from_ "random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)",
        random_from "random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor",
        random_from_any(from: i64, to: Option<i64>) [from: i64, to: Option<i64>]
        |m| vec![sample![m.any(&[2, 3]), 0, 2, ()], sample![m.any(&[20]), 0, 2, ()]];
    /// Fills with integers from zero up to, but without, `to`.
    random_to_ "random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)",
        random_to "random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor",
        random_to_any(to: i64) [to: i64]
        |m| vec![sample![m.any(&[2, 3]), 2, ()], sample![m.any(&[20]), 2, ()]];
    /// Fills with ones of probability `p` and zeros.
    bernoulli_p_ "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
        bernoulli_p "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
        bernoulli_p_any(p: Option<f64>) [p: f64]
        |m| vec![sample![m.any(&[2, 3]), 0.3, ()], sample![m.any(&[20]), 0.3, ()]];
    /// Fills with ones of the probabilities `p`, broadcast, and zeros.
    bernoulli_tensor_ "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)",
        bernoulli_tensor "bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
        bernoulli_tensor_any(p: &Tensor) [p: &Tensor]
        |m| vec![sample![m.any(&[2, 3]), m.uniform_of(DType::F32, &[1], 0.2, 0.8), ()], sample![m.any(&[20]), m.uniform_of(DType::F32, &[1], 0.2, 0.8), ()]];
}

fn bernoulli_any(x: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    // (Row-major, in whatever order the probabilities lie.)
    bernoulli_tensor_any(&Tensor::fresh(x.device(), x.dtype(), Dims::from_slice(x.sizes()))?, x, generator)
}

fn bernoulli_writes(_result: DType, out: DType) -> Result<()> {
    match out.is_complex() {
        true => Err(Error::not_implemented(format!(
            "\"bernoulli_tensor_cpu_self_\" not implemented for '{}'",
            out.scalar_type_name()
        ))),
        false => Ok(()),
    }
}

op! {
    /// Ones of this tensor's elements' probabilities, and zeros.
    bernoulli: "bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
        Out OUT: "bernoulli.out(Tensor self, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(bernoulli_any; x, generator));
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.uniform(&[2, 3], 0.0, 1.0), ()]] } else { vec![] };
    out_rule: crate::OutRule::dtype(bernoulli_writes);
    fn bernoulli(&self) -> Tensor [self];
}

fn poisson_any(x: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    fill_floats("poisson_cpu", x)?;
    let out = Tensor::fresh(x.device(), x.dtype(), Dims::from_slice(x.sizes()))?;
    let rates = x.detach()?.contiguous()?;
    if x.device() == Device::META {
        return Ok(out);
    }
    let rates = rates.to_device(Device::CPU)?;
    fill(&out, generator, &|engine, out, _| {
        let _locks = LockSet::new([(rates.storage(), false), (out.storage(), true)])?;
        let n = out.numel() as usize;
        crate::dispatch_dtype!(out.dtype(), T in [floats] => {
            // SAFETY: both are contiguous, of `n` elements of this type, and locked.
            let (out, rates) = unsafe { (
                std::slice::from_raw_parts_mut(out.data_ptr().cast::<T>(), n),
                std::slice::from_raw_parts(rates.data_ptr().cast::<T>(), n),
            ) };
            recipes::poisson(engine, out, rates)
        }; else Err(not_for("poisson_cpu", out.dtype())))
    })
}

op! {
    /// Poisson numbers of this tensor's elements' rates.
    poisson: "poisson(Tensor self, Generator? generator=None) -> Tensor",
        Out OUT: "poisson.out(Tensor self, Generator? generator=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(poisson_any; x, generator));
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.uniform(&[2, 3], 0.0, 20.0), ()]] } else { vec![] };
    fn poisson(&self) -> Tensor [self];
}

fn multinomial_any(
    x: &Tensor,
    samples: i64,
    replacement: Option<bool>,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let replacement = replacement.unwrap_or(false);
    ensure!(x.dim() == 1 || x.dim() == 2, "prob_dist must be 1 or 2 dim");
    ensure!(
        x.dtype().is_differentiable() && !x.dtype().is_complex(),
        "multinomial only supports floating-point dtypes for input, got: {}",
        x.dtype().scalar_type_name()
    );
    ensure!(samples > 0, "cannot sample n_sample <= 0 samples");
    let categories = x.size(-1)?;
    ensure!(
        replacement || samples <= categories,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    );
    ensure!(categories > 0 || x.numel() == 0, "prob_dist has no categories");
    // PyTorch's limit: what single precision can count.
    ensure!(categories <= 1 << 24, "number of categories cannot exceed 2^24");
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[x.dim() - 1] = samples;
    dims::checked_numel(&sizes)?;
    let out = Tensor::fresh(x.device(), DType::I64, sizes)?;
    if x.device() == Device::META || out.numel() == 0 {
        return Ok(out);
    }
    ensure!(categories > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
    let weights = x.detach()?.to_device(Device::CPU)?.contiguous()?;
    let by_exponentials = !replacement || samples == 1;
    if by_exponentials {
        let valid = weights.ge(0i64)?.logical_and(&weights.lt(f64::INFINITY)?)?.all()?.item()?.to_bool();
        ensure!(valid, "probability tensor contains either `inf`, `nan` or element < 0");
        let empty = weights.sum_dim(&[-1], false)?.eq(0i64)?.any()?.item()?.to_bool();
        ensure!(!empty, "invalid multinomial distribution (sum of probabilities <= 0)");
        if !x.is_contiguous() {
            // The numbers are drawn in the order in which the probabilities lie.
            let x = x.detach()?;
            let scores = x.div(&exponential_any(&x.empty_like()?, None, generator)?)?;
            return match samples {
                1 => scores.argmax(Some(-1), true),
                _ => Ok(scores.topk(samples, -1, true)?.1),
            };
        }
    }
    fill(&out, generator, &|engine, out, _| {
        let _locks = LockSet::new([(weights.storage(), false), (out.storage(), true)])?;
        crate::dispatch_dtype!(weights.dtype(), T in [floats] => {
            // SAFETY: both are contiguous, of these types and sizes, and locked.
            let (out, weights) = unsafe { (
                std::slice::from_raw_parts_mut(out.data_ptr().cast::<i64>(), out.numel() as usize),
                std::slice::from_raw_parts(weights.data_ptr().cast::<T>(), weights.numel() as usize),
            ) };
            if by_exponentials {
                recipes::multinomial_without_replacement(engine, out, weights, categories as usize);
                Ok(())
            } else {
                recipes::multinomial_with_replacement(engine, out, weights, categories as usize)
            }
        }; else Err(not_for("multinomial", weights.dtype())))
    })
}

fn multinomial_writes(result: DType, out: DType) -> Result<()> {
    ensure!(result == out, "multinomial expects Long tensor out, got: {}", out.scalar_type_name());
    Ok(())
}

op! {
    /// Indices drawn with the probabilities that each row's elements are proportional to.
    multinomial: "multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
        Out OUT: "multinomial.out(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(multinomial_any; x, samples, replacement, generator));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.uniform(&[2, 5], 0.1, 1.0), 3, false, ()], sample![m.uniform(&[5], 0.1, 1.0), 7, true, ()]] } else { vec![] };
    out_rule: crate::OutRule::dtype(multinomial_writes);
    fn multinomial(&self, samples: i64, replacement: bool) -> Tensor [self, samples, replacement];
}

// ---- factories ----------------------------------------------------------------------------------

/// A factory in its four forms: with and without a generator, and into an `out` tensor.
macro_rules! factories {
    ($(
        $(#[doc = $doc:expr])*
        $name:ident($($arg:ident: $t:ty),*) $schema:literal, $generator:ident $generator_schema:literal,
            $out:ident $out_schema:literal, $generator_out:ident $generator_out_schema:literal;
        sizes $size:expr; dtype $default:expr; $fill:expr; samples [$($example:expr),*];
    )*) => { $(
        #[allow(non_snake_case)]
        mod $name {
            use super::*;
            fn with_generator(
                $($arg: $t,)*
                generator: Option<&Generator>,
                options: TensorOptions,
            ) -> Result<Tensor> {
                let default: Option<DType> = $default;
                let out = Tensor::empty($size, TensorOptions { dtype: options.dtype.or(default), ..options })?;
                let fill: fn(&Tensor, $($t,)* Option<&Generator>) -> Result<Tensor> = $fill;
                fill(&out, $($arg,)* generator)
            }
            fn plain(
                $($arg: $t,)*
                options: TensorOptions,
            ) -> Result<Tensor> {
                with_generator($($arg,)* None, options)
            }
            fn into_generator($($arg: $t,)* generator: Option<&Generator>, out: &Tensor) -> Result<Tensor> {
                let fill: fn(&Tensor, $($t,)* Option<&Generator>) -> Result<Tensor> = $fill;
                fill(&sized($size, out)?, $($arg,)* generator)
            }
            fn into_plain($($arg: $t,)* out: &Tensor) -> Result<Tensor> {
                into_generator($($arg,)* None, out)
            }
            op! {
                $(#[doc = $doc])*
                entry: $schema;
                Body::Explicit(kernel!(plain; $($arg,)* options));
                samples: |m| vec![sample![$($example,)* m.dtype]];
            }
            op! {
                $(#[doc = $doc])*
                $generator: $generator_schema;
                Body::Explicit(kernel!(with_generator; $($arg,)* generator, options));
                samples: |m| vec![sample![$($example,)* (), m.dtype]];
            }
            op! {
                $(#[doc = $doc])*
                $out: $out_schema;
                Body::Explicit(kernel!(into_plain; $($arg,)* out));
            }
            op! {
                $(#[doc = $doc])*
                $generator_out: $generator_out_schema;
                Body::Explicit(kernel!(into_generator; $($arg,)* generator, out));
            }
        }
    )* };
}

fn permute_any(x: &Tensor, n: i64, generator: Option<&Generator>) -> Result<Tensor> {
    ensure!(n >= 0, "n must be non-negative, got{n}");
    let dtype = x.dtype();
    if dtype == DType::Bool || dtype.is_complex() {
        return Err(not_for("randperm", dtype));
    }
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
            let most = integer_range(dtype).2 + 1;
            ensure!(i128::from(n) <= most, "n cannot be greater than {most} for {} type.", dtype.scalar_type_name());
        }
        _ => ensure!(
            n as f64 <= integer_range(dtype).1,
            "value cannot be converted to type {} without overflow",
            dtype.scalar_type_name()
        ),
    }
    fill(x, generator, &|engine, out, _| {
        crate::dispatch_dtype!(out.dtype(), T in [ints, floats] => {
            with_elements::<T, _>(out, |out| recipes::permutation(engine, out))
        }; else Err(not_for("randperm", out.dtype())))
    })
}

factories! {
    /// Numbers uniform in `[0, 1)`.
    rand(size: &[i64]) "rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        generator "rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        out "rand.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)",
        generator_out "rand.generator_out(SymInt[] size, *, Generator? generator, Tensor(a!) out) -> Tensor(a!)";
    sizes size; dtype None; |x, _, generator| uniform_any(x, None, None, generator); samples [vec![2i64, 3]];
    /// Normal numbers of mean zero and standard deviation one.
    randn(size: &[i64]) "randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        generator "randn.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        out "randn.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)",
        generator_out "randn.generator_out(SymInt[] size, *, Generator? generator, Tensor(a!) out) -> Tensor(a!)";
    sizes size; dtype None; |x, _, generator| normal_any(x, None, None, generator); samples [vec![3i64, 7]];
    /// Integers from zero up to, but without, `high`.
    randint(high: i64, size: &[i64]) "randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        generator "randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        out "randint.out(SymInt high, SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)",
        generator_out "randint.generator_out(SymInt high, SymInt[] size, *, Generator? generator, Tensor(a!) out) -> Tensor(a!)";
    sizes size; dtype Some(DType::I64); |x, high, _, generator| random_from_any(x, 0, Some(high), generator); samples [2, vec![2i64, 3]];
    /// Integers from `low` up to, but without, `high`.
    randint_low(low: i64, high: i64, size: &[i64]) "randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        generator "randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        out "randint.low_out(SymInt low, SymInt high, SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)",
        generator_out "randint.low_generator_out(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, Tensor(a!) out) -> Tensor(a!)";
    sizes size; dtype Some(DType::I64); |x, low, high, _, generator| random_from_any(x, low, Some(high), generator); samples [0, 2, vec![2i64, 3]];
    /// The integers from zero up to, but without, `n` in random order.
    randperm(n: i64) "randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        generator "randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        out "randperm.out(SymInt n, *, Tensor(a!) out) -> Tensor(a!)",
        generator_out "randperm.generator_out(SymInt n, *, Generator? generator, Tensor(a!) out) -> Tensor(a!)";
    sizes &[n]; dtype Some(DType::I64); permute_any; samples [9];
}

/// A factory that takes sizes, dtype, device and memory order from a model.
macro_rules! likes {
    ($( $(#[doc = $doc:expr])* $name:ident($($arg:ident: $t:ty),*) $schema:literal, $fill:expr; [$($example:expr),*] )*) => { $(
        #[allow(non_snake_case)]
        mod $name {
            use super::*;
            fn any(
                x: &Tensor,
                $($arg: $t,)*
                options: TensorOptions,
                format: Option<MemoryFormat>,
            ) -> Result<Tensor> {
                let args = [x.into(), options.dtype.into(), crate::Value::None, options.device.into(), crate::Value::None, format.into()];
                let out = super::super::create::empty_like::OP.call(&args)?.one()?;
                let fill: fn(&Tensor, $($t),*) -> Result<Tensor> = $fill;
                fill(&out, $($arg),*)
            }
            op! {
                $(#[doc = $doc])*
                entry: $schema;
                Body::Explicit(kernel!(any; x, $($arg,)* options, format));
                samples: |m| vec![sample![m.any(&[2, 3]) $(, $example)*]];
            }
        }
    )* };
}
likes! {
    /// Numbers uniform in `[0, 1)`, with the sizes, dtype, device and memory order of another tensor.
    rand_like() "rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |x| uniform_any(x, None, None, None); []
    /// Standard normal numbers, with the sizes, dtype, device and memory order of another tensor.
    randn_like() "randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |x| normal_any(x, None, None, None); []
    /// Integers below `high`, with the sizes, dtype, device and memory order of another tensor.
    randint_like(high: i64) "randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |x, high| random_from_any(x, 0, Some(high), None); [2]
    /// Integers from `low` to below `high`, with the sizes, dtype, device and memory order of another tensor.
    randint_like_low(low: i64, high: i64) "randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |x, low, high| random_from_any(x, low, Some(high), None); [0, 2]
}

impl Tensor {
    /// Numbers uniform in `[0, 1)`.
    ///
    /// # Errors
    /// When a size is negative, the dtype is not floating-point or complex, or memory runs out.
    pub fn rand(size: &[i64], options: impl Into<TensorOptions>) -> Result<Tensor> {
        factory(&rand::entry::OP, &[size.into()], options.into())
    }
    /// Normal numbers of mean zero and standard deviation one.
    ///
    /// # Errors
    /// As [`Tensor::rand`].
    pub fn randn(size: &[i64], options: impl Into<TensorOptions>) -> Result<Tensor> {
        factory(&randn::entry::OP, &[size.into()], options.into())
    }
    /// Integers from `low` up to, but without, `high`; 64 bits wide unless the options name a dtype.
    ///
    /// # Errors
    /// When `low` is not below `high`, the dtype cannot hold them, or memory runs out.
    pub fn randint(low: i64, high: i64, size: &[i64], options: impl Into<TensorOptions>) -> Result<Tensor> {
        factory(&randint_low::entry::OP, &[low.into(), high.into(), size.into()], options.into())
    }
    /// The integers from zero up to, but without, `n` in random order.
    ///
    /// # Errors
    /// When `n` is negative or memory runs out.
    pub fn randperm(n: i64) -> Result<Tensor> {
        factory(&randperm::entry::OP, &[n.into()], TensorOptions::default())
    }
    /// Numbers uniform in `[0, 1)`, with the sizes, dtype, device and memory order of this tensor.
    ///
    /// # Errors
    /// As [`Tensor::rand`].
    pub fn rand_like(&self) -> Result<Tensor> {
        rand_like::entry::OP.call(&[self.into()])?.one()
    }
    /// Standard normal numbers, with the sizes, dtype, device and memory order of this tensor.
    ///
    /// # Errors
    /// As [`Tensor::rand`].
    pub fn randn_like(&self) -> Result<Tensor> {
        randn_like::entry::OP.call(&[self.into()])?.one()
    }
    /// Integers from `low` to below `high`, with the sizes, dtype, device and memory order of this tensor.
    ///
    /// # Errors
    /// As [`Tensor::randint`].
    pub fn randint_like(&self, low: i64, high: i64) -> Result<Tensor> {
        randint_like_low::entry::OP.call(&[self.into(), low.into(), high.into()])?.one()
    }
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    bernoulli::ALL,
    bernoulli_p::entry::ALL,
    bernoulli_p_::ALL,
    bernoulli_tensor::entry::ALL,
    bernoulli_tensor_::ALL,
    cauchy::entry::ALL,
    cauchy_::ALL,
    exponential::entry::ALL,
    exponential_::ALL,
    geometric::entry::ALL,
    geometric_::ALL,
    log_normal::entry::ALL,
    log_normal_::ALL,
    multinomial::ALL,
    normal_::ALL,
    normal_functional::entry::ALL,
    poisson::ALL,
    rand::entry::ALL,
    rand::generator::ALL,
    rand::generator_out::ALL,
    rand::out::ALL,
    rand_like::entry::ALL,
    randint::entry::ALL,
    randint::generator::ALL,
    randint::generator_out::ALL,
    randint::out::ALL,
    randint_like::entry::ALL,
    randint_like_low::entry::ALL,
    randint_low::entry::ALL,
    randint_low::generator::ALL,
    randint_low::generator_out::ALL,
    randint_low::out::ALL,
    randn::entry::ALL,
    randn::generator::ALL,
    randn::generator_out::ALL,
    randn::out::ALL,
    randn_like::entry::ALL,
    random::entry::ALL,
    random_::ALL,
    random_from::entry::ALL,
    random_from_::ALL,
    random_to::entry::ALL,
    random_to_::ALL,
    randperm::entry::ALL,
    randperm::generator::ALL,
    randperm::generator_out::ALL,
    randperm::out::ALL,
    uniform::entry::ALL,
    uniform_::ALL,
];
