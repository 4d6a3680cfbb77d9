//! Histograms of one and several dims.

use super::reduce::not_for;
use crate::access::elements;
use crate::samples::{Maker, Sample};
use crate::{Body, DType, Element, Op, Result, Scalar, Tensor, bf16, ensure, f16, sample};
use flambeau_base::allocator::check_available;
use flambeau_base::storage::LockSet;

/// The arithmetic that finds a bin, with each step in the precision of the data, as the edges are.
trait Precision: Element {
    /// How many of the `n` widths from `low` to `high` are below `x`.
    fn widths(x: f64, low: f64, high: f64, n: usize) -> f64;
}
impl Precision for f64 {
    #[inline(always)]
    fn widths(x: f64, low: f64, high: f64, n: usize) -> f64 {
        (x - low) * n as f64 / (high - low)
    }
}
impl Precision for f32 {
    #[inline(always)]
    fn widths(x: f64, low: f64, high: f64, n: usize) -> f64 {
        ((x as f32 - low as f32) * n as f32 / (high as f32 - low as f32)).into()
    }
}
macro_rules! halves {
    ($($t:ty)*) => { $(
        impl Precision for $t {
            fn widths(x: f64, low: f64, high: f64, n: usize) -> f64 {
                let round = |x: f64| <$t>::from_f64(x).to_f64();
                let (low, high) = (round(low), round(high));
                round(round(round(x - low) * round(n as f64)) / round(high - low))
            }
        }
    )* };
}
halves!(f16 bf16);

/// The bins along a dim: `n` of them from `low` to `high`, the last of which has both its ends.
struct Bins<'a> {
    low: f64,
    high: f64,
    n: usize,
    edges: Edging<'a>,
}

/// What is known of the edges of bins.
enum Edging<'a> {
    /// They have one width, and values are placed by arithmetic alone: what `histc` does.
    Even,
    /// They have one width; what arithmetic says is checked against the edges, after which an infinite one stands.
    Checked(Vec<f64>),
    /// They are anywhere.
    Any(&'a [f64]),
}

impl Bins<'_> {
    /// Between these edges.
    fn between(edges: &[f64], even: bool) -> Bins<'_> {
        let n = edges.len() - 1;
        let checked = || Edging::Checked([edges, &[f64::INFINITY]].concat());
        Bins { low: edges[0], high: edges[n], n, edges: if even { checked() } else { Edging::Any(edges) } }
    }

    /// The one that `x` is in.
    #[inline(always)]
    fn of<P: Precision>(&self, x: f64) -> Option<usize> {
        // False for NaN too.
        if !(x >= self.low && x <= self.high) {
            return None;
        }
        let last = self.n - 1;
        let guess = || (P::widths(x, self.low, self.high, self.n) as usize).min(last);
        let found = match &self.edges {
            Edging::Even => return Some(guess()),
            Edging::Checked(edges) => {
                // Off by one at most.
                let start = guess().saturating_sub(1);
                let below = edges[start..start + 3].iter().map(|e| usize::from(*e <= x)).sum::<usize>();
                (start + below).saturating_sub(1)
            }
            Edging::Any(edges) => edges.partition_point(|e| *e <= x).checked_sub(1)?,
        };
        Some(found.min(last))
    }
}

/// A range that has a width: wider by so much on both sides where it has none.
fn widened(low: f64, high: f64, by: f64) -> (f64, f64) {
    if low == high { (low - by, high + by) } else { (low, high) }
}

fn check_bins(bins: i64, dim: usize) -> Result<usize> {
    ensure!(bins > 0, "torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}");
    crate::dims::checked_numel(&[bins])?;
    Ok(bins as usize)
}

fn check_floats(op: &str, x: &Tensor) -> Result<()> {
    if x.dtype().is_floating_point() { Ok(()) } else { Err(not_for(op, x.dtype())) }
}

/// The least and the greatest number of every column.
fn extremes(values: &[f64], columns: usize) -> Vec<(f64, f64)> {
    // NaN wins, as in `aminmax`.
    let least = |a: f64, b: f64| if a <= b || a.is_nan() { a } else { b };
    let greatest = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
    let mut found = vec![(f64::INFINITY, f64::NEG_INFINITY); columns];
    for row in values.chunks_exact(columns.max(1)) {
        for (found, x) in found.iter_mut().zip(row) {
            *found = (least(found.0, *x), greatest(found.1, *x));
        }
    }
    found
}

// ---- histc --------------------------------------------------------------------------------------

/// How many of the values fall into each bin.
fn counts<T: Precision>(values: &[T], bins: &Bins<'_>) -> Vec<f64> {
    // Neighbours often fall into the same bin: counted apart, none waits for the one before.
    let lanes = if bins.n <= 4096 { 4 } else { 1 };
    let mut counts = vec![0u64; bins.n * lanes];
    for values in values.chunks(lanes) {
        for (value, counts) in values.iter().zip(counts.chunks_exact_mut(bins.n)) {
            if let Some(i) = bins.of::<T>(value.to_f64()) {
                counts[i] += 1;
            }
        }
    }
    (0..bins.n).map(|i| counts[i..].iter().step_by(bins.n).sum::<u64>() as f64).collect()
}

/// A number as C's streams write it, as far as those that are not finite go.
fn c_number(x: f64) -> String {
    if x.is_nan() { "nan".into() } else { x.to_string() }
}

fn histc_cpu(x: &Tensor, bins: Option<i64>, low: Option<Scalar>, high: Option<Scalar>) -> Result<Tensor> {
    check_floats("histogram_cpu", x)?;
    let n = check_bins(bins.unwrap_or(100), 0)?;
    let (low, high) = (low.map_or(0.0, Scalar::to_f64), high.map_or(0.0, Scalar::to_f64));
    let (low, high) = match low == high && x.numel() > 0 {
        true => (x.min()?.item()?.to_f64(), x.max()?.item()?.to_f64()),
        false => (low, high),
    };
    let (low, high) = widened(low, high, 1.0);
    ensure!(low.is_finite() && high.is_finite(), "torch.histc: range of [{}, {}] is not finite", c_number(low), c_number(high));
    ensure!(low < high, "torch.histc: max must be larger than min");
    check_available(n.saturating_mul(3 * size_of::<f64>()))?;
    let bins = Bins { low, high, n, edges: Edging::Even };
    let values = x.contiguous()?;
    let counts = match values.numel() {
        0 => vec![0.0; n],
        _ => {
            let _lock = LockSet::new([(values.storage(), false)])?;
            crate::dispatch_dtype!(values.dtype(), T in [floats] => {
                // SAFETY: locked, and of this type.
                counts(unsafe { elements::<T>(&values) }, &bins)
            }; else return Err(not_for("histogram_cpu", x.dtype())))
        }
    };
    Tensor::from_slice(&counts)?.to_options(Some(x.dtype()), Some(x.device()))
}
fn histc_meta(x: &Tensor, bins: Option<i64>, _low: Option<Scalar>, _high: Option<Scalar>) -> Result<Tensor> {
    check_floats("histogram_cpu", x)?;
    let n = check_bins(bins.unwrap_or(100), 0)?;
    Tensor::empty(&[n as i64], (x.dtype(), x.device()))
}

fn histogram_writes(write: &crate::Write<'_, '_>) -> Result<()> {
    let (name, dimension) = match write.output {
        0 => ("hist", ""),
        _ => ("bin_edges", " for dimension 0"),
    };
    ensure!(
        write.result == write.out,
        "torch.histogram: input tensor and {name} tensor should have the same dtype, but got input {} and {name} {}{dimension}",
        write.result.cpp_name(),
        write.out.cpp_name()
    );
    Ok(())
}

op! {
    /// How many elements fall into each of `bins` intervals from `min` to `max` (of the data, if these are the same).
    histc: "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
        Out OUT: "histc.out(Tensor self, int bins=100, Scalar min=0, Scalar max=0, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Kernels { cpu: kernel!(histc_cpu; x, bins, low, high), meta: kernel!(histc_meta; x, bins, low, high) };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3, 4]), 4, Scalar::Int(-2), Scalar::Int(2)], sample![m.any(&[7]), 3, Scalar::Int(0), Scalar::Int(0)]],
        false => vec![],
    };
    out_rule: crate::OutRule::call(histogram_writes);
    fn histc(&self, bins: i64, min: impl Into<Scalar>, max: impl Into<Scalar>) -> Tensor [self, bins, min.into(), max.into()];
}

// ---- histograms ---------------------------------------------------------------------------------

/// Points of `n` dims in rows: as numbers, and how many.
struct Points {
    values: Vec<f64>,
    dims: usize,
}

/// The edges of the bins along every dim.
struct Edges {
    tensors: Vec<Tensor>,
    values: Vec<Vec<f64>>,
    even: bool,
}

fn points(x: &Tensor, weight: Option<&Tensor>) -> Result<Points> {
    ensure!(x.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions");
    check_floats("histogramdd", x)?;
    if let Some(w) = weight {
        ensure!(
            w.dtype() == x.dtype(),
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, \
             but got input({}), and weight({})",
            x.dtype().cpp_name(),
            w.dtype().cpp_name()
        );
        ensure!(
            w.sizes() == &x.sizes()[..x.dim() - 1],
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding \
             its innermost dimension, but got input with shape {:?} and weight with shape {:?}",
            x.sizes(),
            w.sizes()
        );
    }
    Ok(Points { values: x.to_vec::<f64>()?, dims: x.size(-1)? as usize })
}

/// Even bins along every dim, over the given range or the data's.
fn even_edges(x: &Tensor, points: &Points, bins: &[i64], range: Option<&[f64]>) -> Result<Edges> {
    let n = points.dims;
    ensure!(bins.len() == n, "histogramdd: The size of bins must be equal to the innermost dimension of the input.");
    if let Some(range) = range {
        ensure!(
            range.len() == 2 * n,
            "torch.histogramdd: for a {n}-dimensional histogram range should have {} elements, but got {}",
            2 * n,
            range.len()
        );
    }
    let mut edges = Edges { tensors: vec![], values: vec![], even: true };
    let found = if range.is_none() { extremes(&points.values, n) } else { vec![] };
    for (d, &count) in bins.iter().enumerate() {
        let count = check_bins(count, d)?;
        let (low, high) = match range {
            Some(range) => (range[2 * d], range[2 * d + 1]),
            None if points.values.is_empty() => (0.0, 1.0),
            None => found[d],
        };
        ensure!(
            low.is_finite() && high.is_finite(),
            "torch.histogramdd: dimension {d}'s range [{low}, {high}] is not finite"
        );
        ensure!(
            low <= high,
            "torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension {d}"
        );
        let (low, high) = widened(low, high, 0.5);
        let tensor = Tensor::linspace(low, high, count as i64 + 1, (x.dtype(), crate::Device::CPU))?;
        edges.values.push(tensor.to_vec::<f64>()?);
        edges.tensors.push(tensor.to_device(x.device())?);
    }
    Ok(edges)
}

fn given_edges(x: &Tensor, points: &Points, bins: &[Tensor]) -> Result<Edges> {
    let n = points.dims;
    ensure!(
        bins.len() == n,
        "torch.histogramdd: expected {n} sequences of bin edges for a {n}-dimensional histogram but got {}",
        bins.len()
    );
    let mut edges = Edges { tensors: vec![], values: vec![], even: false };
    for (d, b) in bins.iter().enumerate() {
        ensure!(
            b.dtype() == x.dtype(),
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype {} and \
             bins for dimension {d} with dtype {}",
            x.dtype().cpp_name(),
            b.dtype().cpp_name()
        );
        ensure!(
            b.dim() == 1,
            "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in the bins tensor for \
             dimension {d}",
            b.dim()
        );
        ensure!(
            b.numel() >= 1,
            "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for \
             dimension {d}"
        );
        edges.values.push(b.to_vec::<f64>()?);
        edges.tensors.push(b.clone_in(crate::MemoryFormat::Contiguous)?);
    }
    Ok(edges)
}

/// Adds every point, or its weight, to the bin that it is in.
fn add<P: Precision>(points: &Points, bins: &[Bins<'_>], weights: Option<&[f64]>, counts: &mut [f64]) {
    for (k, point) in points.values.chunks_exact(points.dims).enumerate() {
        let along = |at: usize, (value, bins): (&f64, &Bins<'_>)| Some(at * bins.n + bins.of::<P>(*value)?);
        if let Some(at) = point.iter().zip(bins).try_fold(0, along) {
            counts[at] += weights.map_or(1.0, |w| w[k]);
        }
    }
}

/// The (weighted) counts, or with `density` these as a density.
fn count(x: &Tensor, points: &Points, edges: &Edges, weight: Option<&Tensor>, density: bool) -> Result<Tensor> {
    let sizes: Vec<i64> = edges.values.iter().map(|e| e.len() as i64 - 1).collect();
    let total = crate::dims::checked_numel(&sizes)?;
    // Tells early when memory does not suffice.
    let out = Tensor::zeros(&sizes, (DType::F64, crate::Device::CPU))?;
    let mut counts = vec![0f64; total as usize];
    let weights = weight.map(|w| w.to_vec::<f64>()).transpose()?;
    if total > 0 && points.dims > 0 {
        let bins: Vec<Bins<'_>> = edges.values.iter().map(|e| Bins::between(e, edges.even)).collect();
        match x.dtype() {
            DType::F64 => add::<f64>(points, &bins, weights.as_deref(), &mut counts),
            _ => add::<f32>(points, &bins, weights.as_deref(), &mut counts),
        }
    }
    let hist = Tensor::from_slice_of(&counts, out.sizes())?.to_options(Some(x.dtype()), Some(x.device()))?;
    if !density {
        return Ok(hist);
    }
    let mut hist = hist.div(&hist.sum()?)?;
    for (d, e) in edges.tensors.iter().enumerate() {
        let mut shape = vec![1; sizes.len()];
        shape[d] = sizes[d];
        hist = hist.div(&e.diff(1, -1)?.reshape(&shape)?)?;
    }
    Ok(hist)
}

fn bin_edges_any(
    x: &Tensor,
    bins: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    _density: Option<bool>,
) -> Result<Vec<Tensor>> {
    Ok(even_edges(x, &points(x, weight)?, bins, range)?.tensors)
}
fn from_counts_any(
    x: &Tensor,
    bins: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: Option<bool>,
) -> Result<Tensor> {
    let points = points(x, weight)?;
    count(x, &points, &even_edges(x, &points, bins, range)?, weight, density.unwrap_or(false))
}
fn from_tensors_any(x: &Tensor, bins: &[Tensor], weight: Option<&Tensor>, density: Option<bool>) -> Result<Tensor> {
    let points = points(x, weight)?;
    count(x, &points, &given_edges(x, &points, bins)?, weight, density.unwrap_or(false))
}

/// A tensor of any shape as points of one dim.
fn flat(x: &Tensor, weight: Option<&Tensor>) -> Result<(Tensor, Option<Tensor>)> {
    Ok((x.reshape(&[-1, 1])?, weight.map(|w| w.reshape(&[-1])).transpose()?))
}
fn histogram_any(
    x: &Tensor,
    bins: Option<i64>,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: Option<bool>,
) -> Result<(Tensor, Tensor)> {
    let (x, w) = flat(x, weight)?;
    let points = points(&x, w.as_ref())?;
    let edges = even_edges(&x, &points, &[bins.unwrap_or(100)], range)?;
    Ok((count(&x, &points, &edges, w.as_ref(), density.unwrap_or(false))?, edges.tensors[0].clone()))
}
fn histogram_edges_any(
    x: &Tensor,
    bins: &Tensor,
    weight: Option<&Tensor>,
    density: Option<bool>,
) -> Result<(Tensor, Tensor)> {
    let (x, w) = flat(x, weight)?;
    let points = points(&x, w.as_ref())?;
    let edges = given_edges(&x, &points, std::slice::from_ref(bins))?;
    Ok((count(&x, &points, &edges, w.as_ref(), density.unwrap_or(false))?, edges.tensors[0].clone()))
}

fn edge_sample(m: &mut Maker) -> Option<Tensor> {
    m.any(&[4]).sort(-1, false).ok().map(|(edges, _)| edges)
}
fn even_samples(m: &mut Maker) -> Vec<Sample> {
    match m.dtype.is_floating_point() {
        true => vec![
            sample![m.any(&[6, 2]), vec![2i64, 3], (), (), false],
            sample![m.any(&[6, 2]), vec![2i64, 3], crate::OwnedValue::Floats(vec![-2.0, 2.0, -1.0, 1.0]), m.uniform(&[6], 0.5, 1.0), true],
        ],
        false => vec![],
    }
}

op! {
    /// The edges of the bins of a `histogramdd` with so many of them.
    _histogramdd_bin_edges: "_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor[]";
    Body::Explicit(kernel!(bin_edges_any; x, bins, range, weight, density));
    samples: even_samples;
}
op! {
    /// The counts of a `histogramdd` with so many bins.
    _histogramdd_from_bin_cts: "_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor",
        Out OUT: "_histogramdd_from_bin_cts.out(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(from_counts_any; x, bins, range, weight, density));
    samples: even_samples;
    ulp: 8.0;
}
op! {
    /// The counts of a `histogramdd` with bins between these edges.
    _histogramdd_from_bin_tensors: "_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
        Out OUT: "_histogramdd_from_bin_tensors.out(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(from_tensors_any; x, bins, weight, density));
    samples: |m| match (m.dtype.is_floating_point(), edge_sample(m)) {
        (true, Some(edges)) => vec![sample![m.any(&[6, 2]), vec![edges.clone(), edges], (), true]],
        _ => vec![],
    };
    ulp: 8.0;
}
op! {
    /// How many elements (or how much weight) fall into each of `bins` intervals over a range (of the data, without one),
    /// or with `density` that as a density; and the intervals' edges.
    histogram: "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
        Out OUT: "histogram.bin_ct_out(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False, Tensor(a!) hist, Tensor(b!) bin_edges) -> (Tensor(a!) hist, Tensor(b!) bin_edges)";
    Body::Explicit(kernel!(histogram_any; x, bins, range, weight, density));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![
            sample![m.any(&[3, 4]), 4, (), (), false],
            sample![m.any(&[7]), 3, crate::OwnedValue::Floats(vec![-2.0, 2.0]), m.uniform(&[7], 0.5, 1.0), true],
        ],
        false => vec![],
    };
    ulp: 8.0;
    out_rule: crate::OutRule::call(histogram_writes);
}
op! {
    /// The same with bins between these edges.
    histogram_edges: "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
        Out OUT: "histogram.bins_tensor_out(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False, Tensor(a!) hist, Tensor(b!) bin_edges) -> (Tensor(a!) hist, Tensor(b!) bin_edges)";
    Body::Explicit(kernel!(histogram_edges_any; x, bins, weight, density));
    samples: |m| match (m.dtype.is_floating_point(), edge_sample(m)) {
        (true, Some(edges)) => vec![sample![m.any(&[7]), edges, m.uniform(&[7], 0.5, 1.0), false]],
        _ => vec![],
    };
    ulp: 8.0;
    out_rule: crate::OutRule::call(histogram_writes);
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    _histogramdd_bin_edges::ALL,
    _histogramdd_from_bin_cts::ALL,
    _histogramdd_from_bin_tensors::ALL,
    histc::ALL,
    histogram::ALL,
    histogram_edges::ALL,
];
