//! Statistics: quantiles, the most frequent element, means without NaN, covariances.

use super::extreme::picked_backward;
use super::reduce::{not_for, reduced_dims, reduced_sizes};
use crate::autograd::Geometry;
use crate::dims::wrap_dim;
use crate::samples::{Maker, Sample};
use crate::{
    Body, DType, Error, Op, OutRule, Result, Tensor, TensorSpec, backward, default_dtype, ensure, sample,
};
use flambeau_base::storage::LockSet;

// ---- means --------------------------------------------------------------------------------------

fn nanmean_any(x: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    ensure!(
        x.dtype().is_differentiable(),
        "nanmean(): expected input to have floating point or complex dtype but got {}",
        x.dtype().scalar_type_name()
    );
    if let Some(dtype) = dtype.filter(|d| !d.is_differentiable()) {
        let rule = "Optional dtype must be either a floating point or complex dtype";
        let got = dtype.scalar_type_name();
        return Err(Error::runtime(format!("nanmean(): could not infer output dtype. {rule}. Got: {got}")));
    }
    let dims = dim.unwrap_or(&[]);
    let count = x.detach()?.isnan()?.logical_not()?.sum_dim(dims, keepdim)?;
    let args = [x.into(), dim.into(), keepdim.into(), dtype.into()];
    super::reduce::nansum::OP.call(&args)?.one()?.div(&count)
}

/// (It is the sum that fails, as PyTorch says it.)
fn nanmean_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "nansum: provided dtype must match dtype of result. Got {} and {}.",
        out.scalar_type_name(),
        result.scalar_type_name()
    );
    if out.is_floating_point() { Ok(()) } else { Err(not_for("nansum_cpu", out)) }
}

op! {
    /// The mean of the elements that are not NaN, over the given dims (all without any).
    nanmean: "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Out OUT: "nanmean.out(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(nanmean_any; x, dim, keepdim, dtype));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3, 4]), vec![0i64], false, ()], sample![m.any(&[3, 4]), (), true, ()]],
        false => vec![],
    };
    ulp: 16.0;
    out_rule: OutRule::dtype(nanmean_writes).computing_in(3);
    fn nanmean(&self, dim: Option<&[i64]>, keepdim: bool) -> Tensor [self, dim, keepdim];
}

// ---- quantiles ----------------------------------------------------------------------------------

fn quantile_of(
    op: &str,
    x: &Tensor,
    q: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: Option<&str>,
    ignore_nan: bool,
) -> Result<Tensor> {
    let interpolation = interpolation.unwrap_or("linear");
    ensure!(x.numel() > 0, "{op}() input tensor must be non-empty");
    ensure!(q.dim() <= 1, "{op}() q must be a scalar or 1D tensor");
    ensure!(
        matches!(x.dtype(), DType::F32 | DType::F64),
        "quantile() input tensor must be either float or double dtype"
    );
    ensure!(x.dtype() == q.dtype(), "{op}() q tensor must be same dtype as the input tensor");
    ensure!(
        matches!(interpolation, "linear" | "lower" | "higher" | "midpoint" | "nearest"),
        "{op}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
    );
    if !q.device().is_meta() {
        let plain = q.detach()?;
        let valid = plain.ge(0)?.logical_and(&plain.le(1)?)?.all()?.item()?.to_bool();
        ensure!(valid, "{op}() q values must be in the range [0, 1]");
    }
    // Sorted along the last dim, in whose place a dim of one stays.
    let d = dim.map(|d| wrap_dim(d, x.dim())).transpose()?;
    let rows = match d {
        None => x.reshape(&[-1])?,
        Some(d) if x.dim() == 0 || d + 1 == x.dim() => if x.dim() == 0 { x.unsqueeze(0)? } else { x.clone() },
        Some(d) => x.unsqueeze(-1)?.transpose(d as i64, -1)?,
    };
    let (sorted, _) = rows.sort(-1, false)?;
    let n = sorted.size(-1)?;
    // The rank of each quantile, in the dtype of the data.
    let nan = sorted.detach()?.isnan()?;
    let ranks = if ignore_nan {
        let count = nan.logical_not()?.sum_dim(&[-1], true)?;
        q.mul(&count.sub(1)?.to_dtype(x.dtype())?)?.clamp_min(0)?
    } else {
        let last = n - 1;
        // A row with a NaN has it last in order.
        q.mul(last)?.masked_fill(&nan.amax(&[-1], true)?, last)?
    };
    let ranks = match interpolation {
        "lower" => ranks.floor()?,
        "higher" => ranks.ceil()?,
        "nearest" => ranks.round()?,
        _ => ranks,
    };
    let below = ranks.detach()?.to_dtype(DType::I64)?;
    let mut values = sorted.gather(-1, &below)?;
    if matches!(interpolation, "linear" | "midpoint") {
        let above = sorted.gather(-1, &ranks.detach()?.ceil()?.to_dtype(DType::I64)?)?;
        values = match interpolation {
            "midpoint" => values.lerp(&above, 0.5)?,
            _ => values.lerp(&above, &ranks.sub(&below)?)?,
        };
    }
    // (..., quantiles) becomes (quantiles, ...), or one quantile's dim goes.
    let mut sizes = match d {
        None => vec![1; x.dim()],
        Some(_) => {
            let mut sizes = x.sizes().to_vec();
            if let Some(size) = d.and_then(|d| sizes.get_mut(d)) {
                *size = 1;
            }
            sizes
        }
    };
    if !keepdim {
        match d {
            None => sizes.clear(),
            Some(d) if x.dim() > 0 => drop(sizes.remove(d)),
            _ => {}
        }
    }
    if q.dim() == 0 {
        return values.reshape(&sizes);
    }
    sizes.push(q.numel());
    values.reshape(&sizes)?.movedim(&[-1], &[0])
}

/// A number as a quantile of `x`.
fn number(op: &str, x: &Tensor, q: f64) -> Result<Tensor> {
    ensure!((0.0..=1.0).contains(&q), "{op}() q must be in the range [0, 1] but got {q}");
    let dtype = if x.dtype().is_floating_point() { x.dtype() } else { default_dtype() };
    Tensor::full(&[], q, (dtype, x.device()))
}

/// (Of `nanquantile`, too, in the name of `quantile`.)
fn quantile_writes(result: DType, out: DType) -> Result<()> {
    ensure!(result == out, "quantile() out tensor must be same dtype as the input tensor");
    Ok(())
}

fn quantile_samples(m: &mut Maker, tensor: bool) -> Vec<Sample> {
    if !m.dtype.is_floating_point() {
        return vec![];
    }
    match tensor {
        true => vec![
            sample![m.any(&[3, 5]), m.uniform(&[2], 0.1, 0.9), 1, false, "linear"],
            sample![m.any(&[5, 3]), m.uniform(&[], 0.1, 0.9), 0, true, "midpoint"],
            sample![m.any(&[5]), m.uniform(&[3], 0.1, 0.9), (), false, "nearest"],
        ],
        false => vec![sample![m.any(&[3, 5]), 0.3, 1, false, "linear"], sample![m.any(&[3, 5]), 0.3, (), true, "lower"]],
    }
}

/// Quantiles with and without NaN, of a tensor of ranks or of one number.
macro_rules! quantiles {
    ($( $(#[doc = $doc:expr])* $name:ident $schema:literal $out_schema:literal, $scalar:ident $scalar_schema:literal $scalar_out_schema:literal,
        $any:ident $scalar_any:ident, $ignore_nan:literal; )*) => { $(
        fn $any(x: &Tensor, q: &Tensor, dim: Option<i64>, keepdim: Option<bool>, interpolation: Option<&str>) -> Result<Tensor> {
            quantile_of(stringify!($name), x, q, dim, keepdim.unwrap_or(false), interpolation, $ignore_nan)
        }
        fn $scalar_any(x: &Tensor, q: f64, dim: Option<i64>, keepdim: Option<bool>, interpolation: Option<&str>) -> Result<Tensor> {
            $any(x, &number(stringify!($name), x, q)?, dim, keepdim, interpolation)
        }
        op! {
            $(#[doc = $doc])*
            $name: $schema, Out OUT: $out_schema;
            Body::Composite(kernel!($any; x, q, dim, keepdim, interpolation));
            samples: |m| quantile_samples(m, true);
            ulp: 8.0;
            out_rule: OutRule::dtype(quantile_writes).row_major();
            fn $name(&self, q: &Tensor, dim: Option<i64>, keepdim: bool) -> Tensor [self, q, dim, keepdim];
        }
        op! {
            $(#[doc = $doc])*
            $scalar: $scalar_schema, Out OUT: $scalar_out_schema;
            Body::Composite(kernel!($scalar_any; x, q, dim, keepdim, interpolation));
            samples: |m| quantile_samples(m, false);
            ulp: 8.0;
            out_rule: OutRule::dtype(quantile_writes).row_major();
        }
    )* };
}
quantiles! {
    /// The `q`-th quantiles along a dim (of all elements without one); between two elements `interpolation` decides. NaN
    /// where there is one.
    quantile "quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor"
        "quantile.out(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\", Tensor(a!) out) -> Tensor(a!)",
        quantile_number "quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor"
        "quantile.scalar_out(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\", Tensor(a!) out) -> Tensor(a!)",
        quantile_any quantile_number_any, false;
    /// The `q`-th quantiles of the elements that are not NaN; see `quantile`.
    nanquantile "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor"
        "nanquantile.out(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\", Tensor(a!) out) -> Tensor(a!)",
        nanquantile_number "nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor"
        "nanquantile.scalar_out(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\", Tensor(a!) out) -> Tensor(a!)",
        nanquantile_any nanquantile_number_any, true;
}

// ---- the most frequent element ------------------------------------------------------------------

fn mode_plan(x: &Tensor, dim: Option<i64>, keepdim: Option<bool>) -> Result<[TensorSpec; 2]> {
    let reduced = reduced_dims(x, Some(&[dim.unwrap_or(-1)]))?;
    if x.dtype().is_complex() {
        return Err(not_for("mode_cpu", x.dtype()));
    }
    if let Some(d) = reduced.iter().find(|&&d| x.sizes().get(d) == Some(&0)) {
        return Err(Error::index(format!("mode(): Expected reduction dim {d} to have non-zero size.")));
    }
    let values = TensorSpec::like(reduced_sizes(x.sizes(), &reduced, keepdim.unwrap_or(false)), x);
    Ok([values.clone(), values.dtype(DType::I64)])
}

/// The end of the longest run of equal elements, the first of several; a NaN equals nothing.
fn longest_run<T: PartialEq>(row: &[T]) -> usize {
    let (mut best, mut length, mut here) = (0, 0, 0);
    for i in 0..row.len() {
        here += 1;
        if i + 1 == row.len() || row[i] != row[i + 1] {
            if here > length {
                (best, length) = (i, here);
            }
            here = 0;
        }
    }
    best
}

fn mode_run(x: &Tensor, dim: Option<i64>, _keepdim: Option<bool>, outs: &[Tensor]) -> Result<()> {
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let d = wrap_dim(dim.unwrap_or(-1), x.dim())? as i64;
    let rows = if x.dim() == 0 { x.unsqueeze(0)? } else { x.movedim(&[d], &[-1])? };
    let (values, indices) = rows.contiguous()?.sort(-1, false)?;
    let n = values.size(-1)? as usize;
    let count = values.numel() as usize / n;
    let ends = Tensor::fresh(crate::Device::CPU, DType::I64, crate::Dims::from_slice(&[count as i64]))?;
    {
        let _locks = LockSet::new([(values.storage(), false), (ends.storage(), true)])?;
        // SAFETY: one end for each row, contiguous, of this type and locked.
        let ends = unsafe { std::slice::from_raw_parts_mut(ends.data_ptr().cast::<i64>(), count) };
        crate::dispatch_dtype!(values.dtype(), T in [bool, ints, floats] => {
            // SAFETY: `count` contiguous rows of `n` elements of this type, locked.
            let all = unsafe { std::slice::from_raw_parts(values.data_ptr().cast::<T>(), count * n) };
            for (end, row) in ends.iter_mut().zip(all.chunks_exact(n)) {
                *end = longest_run(row) as i64;
            }
        }; else return Err(not_for("mode_cpu", values.dtype())));
    }
    let at = ends.view(&[count as i64, 1])?;
    for (out, all) in outs.iter().zip([values, indices]) {
        out.copy_(&all.reshape(&[count as i64, n as i64])?.gather(1, &at)?.view(out.sizes())?)?;
    }
    Ok(())
}

fn mode_writes(write: &crate::Write<'_, '_>) -> Result<()> {
    ensure!(
        write.result == write.out,
        "expected scalar type '{}' but got '{}' for {} output",
        write.result.scalar_type_name(),
        write.out.scalar_type_name(),
        if write.output == 0 { "values" } else { "indices" }
    );
    Ok(())
}

op! {
    /// The most frequent element along a dim, the smallest of several, and where it last is.
    mode: "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Out OUT: "mode.values(Tensor self, int dim=-1, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)";
    Body::Structured { plan: plan!(mode_plan; x, dim, keepdim), run: run!(mode_run; x, dim, keepdim) };
    derivative: backward! {
        self_(g, self_: Geometry, indices: Tensor, dim: i64, keepdim: bool) => picked_backward(g, &self_, &indices, dim, keepdim)?
    };
    samples: |m| match m.dtype.is_complex() {
        true => vec![],
        false => vec![sample![m.any(&[3, 4]), 0, false], sample![m.any(&[2, 5]), -1, true], sample![m.any(&[]), 0, false]],
    };
    out_rule: OutRule::call(mode_writes);
    fn mode(&self, dim: i64, keepdim: bool) -> (Tensor, Tensor) [self, dim, keepdim];
}

// ---- covariance ---------------------------------------------------------------------------------

/// Weights of `count` observations, after checks.
fn check_weights(name: &str, what: &str, w: &Tensor, fits: bool, count: i64) -> Result<()> {
    ensure!(
        w.dim() <= 1,
        "cov(): expected {name} to have one or fewer dimensions but got {name} with {} dimensions",
        w.dim()
    );
    ensure!(
        fits,
        "cov(): expected {name} to have {what} dtype but got {name} with {} dtype",
        w.dtype().scalar_type_name()
    );
    ensure!(
        w.numel() == count,
        "cov(): expected {name} to have the same numel as there are observations in the input but got {} != {count}",
        w.numel()
    );
    let negative = !w.device().is_meta() && w.detach()?.lt(0)?.any()?.item()?.to_bool();
    ensure!(!negative, "cov(): {name} cannot be negative");
    Ok(())
}

fn cov_any(
    x: &Tensor,
    correction: Option<i64>,
    fweights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Tensor> {
    let correction = correction.unwrap_or(1);
    ensure!(
        x.dim() <= 2,
        "cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        x.dim()
    );
    ensure!(x.dtype() != DType::Bool, "cov(): bool dtype is not supported for input");
    let x = if x.dim() < 2 { x.reshape(&[1, -1])? } else { x.clone() };
    let count = x.size(1)?;
    if let Some(f) = fweights {
        check_weights("fweights", "integral", f, f.dtype().is_integral(false), count)?;
    }
    if let Some(a) = aweights {
        check_weights("aweights", "floating point", a, a.dtype().is_floating_point(), count)?;
    }
    let w = match (fweights, aweights) {
        (Some(f), Some(a)) => Some(f.mul(a)?),
        (f, a) => f.or(a).cloned(),
    };
    let total = match &w {
        Some(w) => {
            let total = w.sum()?;
            let none = !total.device().is_meta() && total.detach()?.eq(0)?.item()?.to_bool();
            ensure!(!none || count == 0, "cov(): weights sum to zero, can't be normalized");
            total
        }
        None => Tensor::full(&[], count, (DType::I64, x.device()))?,
    };
    let weighted = |t: &Tensor| match &w {
        Some(w) => t.mul(w),
        None => Ok(t.clone()),
    };
    let mean = weighted(&x)?.sum_dim(&[1], true)?.div(&total)?;
    let norm = match (&w, aweights) {
        (Some(w), Some(a)) if correction != 0 => total.sub(&w.mul(a)?.sum()?.div(&total)?.mul(correction)?)?,
        _ => total.sub(correction)?,
    };
    let apart = x.sub(&mean)?;
    let products = apart.mm(&weighted(&apart)?.t()?.conj()?)?;
    products.div(&norm.clamp_min(0)?)?.squeeze()
}

op! {
    /// The covariance matrix of variables in rows, observed in columns: weighted by whole numbers (how often each was
    /// seen) and others, divided by the number of observations less `correction`.
    cov: "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor";
    Body::Composite(kernel!(cov_any; x, correction, fweights, aweights));
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![
            sample![m.any(&[3, 5]), 1, (), ()],
            sample![m.any(&[3, 5]), 1, m.uniform_of(DType::I64, &[5], 1.0, 4.0), m.uniform_of(DType::F64, &[5], 0.5, 2.0).to_dtype(m.dtype.to_real()).unwrap_or_else(|e| unreachable!("{e}"))],
            sample![m.any(&[5]), 0, (), ()],
        ],
        false => vec![],
    };
    ulp: 32.0;
    fn cov(&self, correction: i64) -> Tensor [self, correction];
}

fn corrcoef_any(x: &Tensor) -> Result<Tensor> {
    ensure!(
        x.dim() <= 2,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        x.dim()
    );
    let c = x.cov(1)?;
    if c.dim() == 0 {
        // Of one variable: 1, or NaN.
        return c.div(&c)?.clone_in(crate::MemoryFormat::Preserve);
    }
    let variance = c.diagonal(0, 0, 1)?;
    let deviation = if c.dtype().is_complex() { variance.real()?.sqrt()? } else { variance.sqrt()? };
    let c = c.div(&deviation.unsqueeze(1)?)?.div(&deviation.unsqueeze(0)?)?;
    match c.dtype().is_complex() {
        true => {
            let parts = [c.real()?.clamp(-1, 1)?, c.imag()?.clamp(-1, 1)?];
            Tensor::stack(&parts, -1)?.view_as_complex()
        }
        false => c.clamp(-1, 1),
    }
}

op! {
    /// The correlation matrix of variables in rows, observed in columns.
    corrcoef: "corrcoef(Tensor self) -> Tensor";
    Body::Composite(kernel!(corrcoef_any; x));
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.any(&[3, 5])], sample![m.any(&[5])]],
        false => vec![],
    };
    ulp: 64.0;
    fn corrcoef(&self) -> Tensor [self];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    corrcoef::ALL,
    cov::ALL,
    mode::ALL,
    nanmean::ALL,
    nanquantile::ALL,
    nanquantile_number::ALL,
    quantile::ALL,
    quantile_number::ALL,
];
