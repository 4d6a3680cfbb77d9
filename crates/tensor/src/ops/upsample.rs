//! Resizing of images: nearest, linear and cubic interpolation along one to three dims.
//!
//! All of them are separable: along each dim an output position reads a few input positions with weights that depend on
//! the position alone. So each is a weighted sum of selections per dim, and differentiable through them. Positions and
//! weights follow PyTorch's conventions (`align_corners`, half-pixel centres); the cubic kernel is that of Keys, "Cubic
//! convolution interpolation for digital image processing", 1981, with a = -0.75.

use crate::access::{elements, elements_mut};
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims, wrap_dim};
use crate::value::{OwnedValue, take};
use crate::tensor::nbytes;
use crate::{Body, DType, MemoryFormat, Op, Result, Tensor, TensorSpec, Value, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::padding::Axis;
use std::ops::Range;

/// How an output position reads the input.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// The position before.
    Nearest,
    /// The position whose centre is nearest.
    NearestExact,
    Linear {
        align_corners: bool,
    },
    Cubic {
        align_corners: bool,
    },
    /// As far as the filter reaches, which grows with the input positions per output position.
    Filtered {
        align_corners: bool,
        filter: Filter,
    },
}

impl Mode {
    /// The name of PyTorch's kernel for images of `n` dims.
    ///
    /// `vectors`: whether it takes the one for small images and for those with channels last.
    fn cpu_name(self, n: usize, vectors: bool) -> &'static str {
        match (self, n) {
            (Mode::Nearest | Mode::NearestExact, 2) if vectors => "upsample_nearest2d_channels_last",
            (Mode::Nearest | Mode::NearestExact, _) => "compute_indices_weights_nearest",
            (Mode::Linear { .. }, 2) if vectors => "upsample_bilinear2d_channels_last",
            (Mode::Linear { .. }, _) => "compute_indices_weights_linear",
            (Mode::Cubic { .. }, _) => "compute_indices_weights_cubic",
            (Mode::Filtered { .. }, _) => "compute_index_ranges_weights",
        }
    }
}

/// The filters of antialiased resizing, as in Pillow.
#[derive(Clone, Copy, PartialEq)]
enum Filter {
    Linear,
    /// Keys' kernel with a = -0.5.
    Cubic,
    /// Lanczos' with three lobes to each side.
    Lanczos,
}

impl Filter {
    /// How far it reaches.
    fn reach(self) -> f64 {
        match self {
            Filter::Linear => 1.0,
            Filter::Cubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        let x = x.abs();
        let sinc = |x: f64| if x == 0.0 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) };
        match self {
            Filter::Linear => (1.0 - x).max(0.0),
            Filter::Cubic => cubic_weight(x, -0.5),
            Filter::Lanczos => if x < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 },
        }
    }
}

/// Keys' cubic kernel.
fn cubic_weight(x: f64, a: f64) -> f64 {
    match x {
        x if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

/// Which input positions every output position reads, and with which weights.
struct Taps {
    /// Where each output's begin, and where those of the last end.
    starts: Vec<i64>,
    places: Vec<i64>,
    weights: Vec<f64>,
}

impl Taps {
    /// `N` for each output.
    fn each<const N: usize>(outputs: i64, of: impl Fn(i64) -> [(i64, f64); N]) -> Taps {
        let outputs = outputs as usize;
        let (mut places, mut weights) = (vec![0; outputs * N], vec![0.0; outputs * N]);
        let pieces = places.chunks_exact_mut(N).zip(weights.chunks_exact_mut(N));
        for (output, (places, weights)) in pieces.enumerate() {
            for (k, tap) in of(output as i64).into_iter().enumerate() {
                (places[k], weights[k]) = tap;
            }
        }
        Taps { starts: (0..=outputs).map(|i| (i * N) as i64).collect(), places, weights }
    }

    /// Ends an output that reads these places with these weights.
    fn push(&mut self, taps: impl IntoIterator<Item = (i64, f64)>) {
        for (place, weight) in taps {
            self.places.push(place);
            self.weights.push(weight);
        }
        self.starts.push(self.places.len() as i64);
    }

    /// The same from the other side: for each of `inputs` places the outputs that read it.
    fn transposed(starts: &[i64], places: &[i64], weights: &[f64], inputs: i64) -> Taps {
        let mut ends = vec![0; inputs as usize + 1];
        places.iter().for_each(|place| ends[*place as usize + 1] += 1);
        (0..inputs as usize).for_each(|i| ends[i + 1] += ends[i]);
        let mut taps = Taps { starts: ends.clone(), places: vec![0; places.len()], weights: vec![0.0; places.len()] };
        for (output, range) in starts.windows(2).enumerate() {
            for k in range[0] as usize..range[1] as usize {
                let end = &mut ends[places[k] as usize];
                (taps.places[*end as usize], taps.weights[*end as usize]) = (output as i64, weights[k]);
                *end += 1;
            }
        }
        taps
    }

    fn apply(&self, x: &Tensor, dim: i64) -> Result<Tensor> {
        x.weighted_select(dim, &self.starts, &self.places, &self.weights)
    }

    fn borrow(&self) -> flambeau_cpu::resize::Taps<'_> {
        flambeau_cpu::resize::Taps { starts: &self.starts, places: &self.places, weights: &self.weights }
    }
}

fn weighted_select_plan(x: &Tensor, dim: i64, starts: &[i64], _places: &[i64], _weights: &[f64]) -> Result<TensorSpec> {
    let d = wrap_dim(dim, x.dim())?;
    ensure!(
        x.dtype().is_floating_point() && x.dim() > 0 && !starts.is_empty(),
        "_weighted_select: expected floating-point numbers with at least one dim, and at least one start"
    );
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[d] = starts.len() as i64 - 1;
    let strides = dims::strides_for(&sizes, x.suggested_memory_format())?;
    Ok(TensorSpec::like(sizes, x).strided(strides))
}

fn weighted_select_run(x: &Tensor, dim: i64, starts: &[i64], places: &[i64], weights: &[f64], outs: &[Tensor]) -> Result<()> {
    let d = wrap_dim(dim, x.dim())?;
    let taps = flambeau_cpu::resize::Taps { starts, places, weights };
    ensure!(taps.fit(x.sizes()[d] as usize), "_weighted_select: a place is out of range, or the starts do not rise");
    // In the order of the input's memory, where all of it lies together.
    let (dtype, format) = (x.dtype().compute(), x.suggested_memory_format());
    let x = x.to_dtype(dtype)?.contiguous_in(format)?;
    let strides = dims::strides_for(outs[0].sizes(), format)?;
    let out = match outs[0].dtype() == dtype && outs[0].strides() == &strides[..] {
        true => outs[0].clone(),
        false => TensorSpec::like(Dims::from_slice(outs[0].sizes()), &x).strided(strides).allocate()?,
    };
    resize_dim(&x, (d, format), taps, None, &out)?;
    if !out.is_same(&outs[0]) {
        outs[0].copy_(&out)?;
    }
    Ok(())
}

/// Weights of bytes, in units of `2^-precision`.
struct ByteWeights {
    weights: Vec<i32>,
    precision: u32,
}

/// Writes what dim `d` of `x` is resized to by taps that fit it; both are dense in `format`. Bytes have weights of their own.
fn resize_dim(
    x: &Tensor,
    (d, format): (usize, MemoryFormat),
    taps: flambeau_cpu::resize::Taps<'_>,
    bytes: Option<&ByteWeights>,
    out: &Tensor,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    // Not what the tensor says, where a dim of size 1 may have any stride.
    let inner = dims::strides_for(x.sizes(), format)?[d];
    let _locks = LockSet::new([(x.storage(), false), (out.storage(), true)])?;
    let shape = (x.sizes()[d] as usize, inner as usize);
    if let Some(by) = bytes {
        // SAFETY: both are locked, bytes, and dense in one order.
        unsafe { flambeau_cpu::resize::resize_bytes(taps, &by.weights, by.precision, shape, elements(x), elements_mut(out)) };
        return Ok(());
    }
    crate::dispatch_dtype!(x.dtype(), T in [reals] => {
        // SAFETY: both are locked, of this type, and dense in one order.
        unsafe { <T as flambeau_cpu::Real>::resize(taps, shape, elements(x), elements_mut(out)) };
    }; else unreachable!("callers have floats only"));
    Ok(())
}

op! {
    /// Every place along `dim` is a weighted sum of places of `self`: place `i` of `places[starts[i]]` to before
    /// `places[starts[i + 1]]`, with as many weights.
    weighted_select: "_weighted_select(Tensor self, int dim, int[] starts, int[] places, float[] weights) -> Tensor";
    Body::Structured {
        plan: plan!(weighted_select_plan; x, dim, starts, places, weights),
        run: run!(weighted_select_run; x, dim, starts, places, weights),
    };
    derivative: backward! {
        self_(g, self_: Geometry, dim: i64, starts: Dims, places: Dims, weights: Vec<f64>) => {
            let d = wrap_dim(dim, self_.sizes.len())?;
            Taps::transposed(&starts, &places, &weights, self_.sizes[d]).apply(g, dim)?
        }
    };
    forward: Forward::Linear;
    samples: |m| match m.dtype.is_floating_point() {
        true => [(-1i64, &[0i64, 2, 4][..], &[0i64, 1, 1, 2][..]), (1, &[0, 1, 1, 4], &[2, 0, 1, 0])]
            .map(|(dim, starts, places)| {
                sample![m.any(&[2, 3, 3]), dim, starts.to_vec(), places.to_vec(), OwnedValue::Floats(vec![0.25, 0.75, 1.5, -0.5])]
            })
            .to_vec(),
        false => vec![],
    };
    ulp: 8.0;
    fn weighted_select(&self, dim: i64, starts: &[i64], places: &[i64], weights: &[f64]) -> Tensor [self, dim, starts, places, weights];
}

/// How far apart in the input two neighbours of the output are.
fn step(input: i64, output: i64, scale: Option<f64>, align_corners: bool) -> f64 {
    match (align_corners, scale) {
        (true, _) if output > 1 => (input - 1) as f64 / (output - 1) as f64,
        (true, _) => 0.0,
        (false, Some(s)) if s > 0.0 => 1.0 / s,
        _ => input as f64 / output as f64,
    }
}

/// In the precision in which PyTorch computes places: single for tensors of that precision.
fn rounded(x: f64, narrow: bool) -> f64 {
    if narrow { f64::from(x as f32) } else { x }
}

/// The place that each output of a dim reads, in one of the modes that read the nearest.
fn nearest(mode: Mode, input: i64, output: i64, scale: Option<f64>, narrow: bool) -> impl Fn(i64) -> i64 {
    let step = rounded(step(input, output, scale, false), narrow);
    let shift = if mode == Mode::NearestExact { 0.5 } else { 0.0 };
    // Nothing is negative here, and cut to an integer sooner than rounded down.
    move |i| (rounded((i as f64 + shift) * step, narrow) as i64).min(input - 1)
}

/// The taps of a dim.
fn taps(mode: Mode, input: i64, output: i64, scale: Option<f64>, narrow: bool) -> Taps {
    let round = |x| rounded(x, narrow);
    let last = input - 1;
    match mode {
        Mode::Nearest | Mode::NearestExact => {
            let place = nearest(mode, input, output, scale, narrow);
            Taps::each(output, |i| [(place(i), 1.0)])
        }
        Mode::Linear { align_corners } => {
            let step = round(step(input, output, scale, align_corners));
            Taps::each(output, |i| {
                let at = match align_corners {
                    true => round(step * i as f64),
                    false => round(round(step * (i as f64 + 0.5)) - 0.5).max(0.0),
                };
                // Not negative, and cut to an integer sooner than rounded down.
                let first = (at as i64).min(last);
                let share = round(at - first as f64).clamp(0.0, 1.0);
                [(first, 1.0 - share), ((first + 1).min(last), share)]
            })
        }
        Mode::Cubic { align_corners } => {
            let step = round(step(input, output, scale, align_corners));
            Taps::each(output, |i| {
                let at = if align_corners { round(step * i as f64) } else { round(step * (i as f64 + 0.5) - 0.5) };
                let first = at.floor();
                let t = round(at - first);
                let place = |k: i64| (first as i64).saturating_add(k).clamp(0, last);
                let weight = |x| cubic_weight(x, -0.75);
                [(place(-1), weight(t + 1.0)), (place(0), weight(t)), (place(1), weight(1.0 - t)), (place(2), weight(2.0 - t))]
            })
        }
        Mode::Filtered { align_corners, filter } => {
            let step = round(step(input, output, scale, align_corners));
            let mut taps = Taps { starts: vec![0], places: Vec::new(), weights: Vec::new() };
            for i in 0..output {
                let wide = step.max(1.0);
                let reach = filter.reach() * wide;
                let most = (reach.ceil() as i64).saturating_mul(2).saturating_add(1).min(input);
                // PyTorch shifts nothing for aligned corners here.
                let centre = step * (i as f64 + 0.5);
                let first = ((centre - reach + 0.5) as i64).clamp(0, last);
                let end = ((centre + reach + 0.5) as i64).clamp(first + 1, first + most).min(input);
                let weights = (first..end).map(|at| filter.weight((at as f64 - centre + 0.5) / wide));
                let total: f64 = weights.clone().sum();
                taps.push((first..end).zip(weights.map(|w| if total == 0.0 { w } else { w / total })));
            }
            taps
        }
    }
}

/// The dims of an image, for messages.
const NAMES: [&[&str]; 3] = [&["W"], &["H", "W"], &["D", "H", "W"]];

/// What cannot be allocated is refused before the taps of its places are listed.
fn check_room(x: &Tensor, size: &[i64]) -> Result<()> {
    const LARGE: usize = 1 << 27;
    // No images of huge sizes have taps, too.
    let sizes = [&[x.sizes()[0].max(1), x.sizes()[1]], size].concat();
    if nbytes(&sizes, x.dtype())? > LARGE {
        Tensor::empty(&sizes, (x.dtype(), x.device()))?;
    }
    Ok(())
}

fn resample(x: &Tensor, size: &[i64], scales: &[Option<f64>], mode: Mode) -> Result<Tensor> {
    let n = size.len();
    let named = |sizes: &[i64]| {
        let parts: Vec<String> = NAMES[n - 1].iter().zip(sizes).map(|(d, s)| format!("{d}: {s}")).collect();
        parts.join(", ")
    };
    ensure!(
        x.dim() == n + 2 && x.sizes()[1..].iter().all(|s| *s > 0),
        "Non-empty {}D data tensor expected but got a tensor with sizes {:?}",
        n + 2,
        x.sizes()
    );
    ensure!(
        size.iter().all(|s| *s > 0),
        "Input and output sizes should be greater than 0, but got input ({}) output ({})",
        named(&x.sizes()[2..]),
        named(size)
    );
    let dtype = x.dtype();
    let picks = matches!(mode, Mode::Nearest | Mode::NearestExact);
    let bytes = dtype == DType::U8 && (picks || n == 2);
    if !(bytes || dtype.is_floating_point()) {
        let channels_last = x.sizes()[1] > 3 && x.is_contiguous_in(MemoryFormat::ChannelsLast);
        let vectors = channels_last || size.iter().sum::<i64>() <= 128;
        return Err(super::reduce::not_for(mode.cpu_name(n, vectors), dtype));
    }
    check_room(x, size)?;
    let format = x.suggested_memory_format();
    if picks && weighted_select::OP.runs_built_in(x) {
        return pick(x, size, scales, mode);
    }
    if dtype == DType::U8 && !picks {
        return resample_bytes(x, size, scales, mode)?.contiguous_in(format);
    }
    if dtype == DType::U8 {
        let mut y = x.clone();
        for (k, (&output, &scale)) in size.iter().zip(scales).enumerate() {
            let places = taps(mode, x.sizes()[k + 2], output, scale, true).places;
            y = y.index_select(k as i64 + 2, &Tensor::from_slice(&places)?.to_device(x.device())?)?;
        }
        return y.contiguous_in(format);
    }
    // What shrinks first, then what grows, the innermost dim before the others: the least work in between.
    let growth = |k: usize| size[k] as f64 / x.sizes()[k + 2] as f64;
    let mut order: Vec<usize> = (0..n).rev().collect();
    order.sort_by(|a, b| growth(*a).total_cmp(&growth(*b)));
    if growth(order[n - 1]) < 1.0 {
        order.sort();
    }
    // Halves that are only moved need no more digits, but their gradients do.
    let mut y = x.to_dtype(dtype.compute())?;
    for k in order {
        y = taps(mode, x.sizes()[k + 2], size[k], scales[k], dtype != DType::F64).apply(&y, k as i64 + 2)?;
    }
    y.to_dtype(dtype)?.contiguous_in(format)
}

/// The nearest elements of all dims at once, as they are.
fn pick(x: &Tensor, size: &[i64], scales: &[Option<f64>], mode: Mode) -> Result<Tensor> {
    let format = x.suggested_memory_format();
    let x = x.contiguous_in(format)?;
    let sizes = Dims::from_slice(&[&x.sizes()[..2], size].concat());
    let strides = dims::strides_for(&sizes, format)?;
    let out = TensorSpec::like(sizes, &x).strided(strides).allocate()?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let axis = |(k, (&output, &scale)): (usize, (&i64, &Option<f64>))| {
        let size = x.sizes()[k + 2];
        let place = nearest(mode, size, output, scale, x.dtype() != DType::F64);
        Axis { size: size as usize, from: (0..output).map(|i| place(i) as usize).collect() }
    };
    let axes: Vec<Axis> = size.iter().zip(scales).enumerate().map(axis).collect();
    let (batch, channels) = (x.sizes()[0] as usize, x.sizes()[1] as usize);
    let (outer, block) = match format {
        MemoryFormat::Contiguous | MemoryFormat::Preserve => (batch * channels, 1),
        MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d => (batch, channels),
    };
    super::padding::read_places(&axes, outer, block, &x, &out)?;
    Ok(out)
}

/// Images of bytes: weights are whole numbers of 2^-p, with the largest p at which they fit 16 bits, and each dim, the
/// last one first, is rounded to bytes, as in PyTorch's vector code.
fn resample_bytes(x: &Tensor, size: &[i64], scales: &[Option<f64>], mode: Mode) -> Result<Tensor> {
    let built_in = weighted_select::OP.runs_built_in(x);
    let mut y = x.clone();
    for (k, (&output, &scale)) in size.iter().zip(scales).enumerate().rev() {
        let d = k + 2;
        if x.sizes()[d] == output {
            continue;
        }
        let taps = taps(mode, x.sizes()[d], output, scale, false);
        let largest = taps.weights.iter().fold(0.0f64, |m, w| m.max(*w));
        let fits = |p: &u32| ((0.5 + largest * f64::from(1u32 << (p + 1))) as i64) < 1 << 15;
        let precision = (0..22).find(|p| !fits(p)).unwrap_or(22);
        let unit = f64::from(1u32 << precision);
        let weights: Vec<i32> = taps.weights.iter().map(|w| (w * unit).round() as i32).collect();
        let by = ByteWeights { weights, precision };
        y = if built_in { resized_bytes(&y, d, &taps, &by)? } else { selected_bytes(&y, d, &taps, &by)? };
    }
    match y.is_same(x) {
        true => x.clone_in(MemoryFormat::Preserve),
        false => Ok(y),
    }
}

/// One dim of an image of bytes, by the kernel.
fn resized_bytes(x: &Tensor, d: usize, taps: &Taps, by: &ByteWeights) -> Result<Tensor> {
    let format = x.suggested_memory_format();
    let x = x.contiguous_in(format)?;
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[d] = taps.starts.len() as i64 - 1;
    let strides = dims::strides_for(&sizes, format)?;
    let out = TensorSpec::like(sizes, &x).strided(strides).allocate()?;
    resize_dim(&x, (d, format), taps.borrow(), Some(by), &out)?;
    Ok(out)
}

/// The same by other operators, for other devices.
fn selected_bytes(x: &Tensor, d: usize, taps: &Taps, by: &ByteWeights) -> Result<Tensor> {
    let half = if by.precision > 0 { 1i64 << (by.precision - 1) } else { 0 };
    let ranges = || taps.starts.windows(2).map(|w| w[0] as usize..w[1] as usize);
    let mut sizes = vec![1; x.dim()];
    sizes[d] = ranges().len() as i64;
    let mut sum = Tensor::full(&[], half, (DType::I32, x.device()))?;
    for tap in 0..ranges().map(|r| r.len()).max().unwrap_or(0) {
        // The outputs that have fewer read what they read last once more, with no weight.
        let at = |r: Range<usize>| {
            (taps.places[(r.start + tap).min(r.end - 1)], by.weights[r].get(tap).copied().unwrap_or(0))
        };
        let (places, weights): (Vec<i64>, Vec<i32>) = ranges().map(at).unzip();
        let places = Tensor::from_slice(&places)?.to_options(None, Some(x.device()))?;
        let weights = Tensor::from_slice(&weights)?.to_options(None, Some(x.device()))?.reshape(&sizes)?;
        sum = sum.add(&x.index_select(d as i64, &places)?.to_dtype(DType::I32)?.mul(&weights)?)?;
    }
    sum.bitwise_right_shift(i64::from(by.precision))?.clamp(0, 255)?.to_dtype(DType::U8)
}

/// The output size that is given or follows from the factors, and the factors.
fn full_size(x: &Tensor, n: usize, size: Option<&[i64]>, factors: Option<&[f64]>) -> Result<(Vec<i64>, Vec<Option<f64>>)> {
    ensure!(size.is_some() != factors.is_some(), "Must specify exactly one of output_size and scale_factors");
    ensure!(x.dim() == n + 2, "Non-empty {}D data tensor expected but got a tensor with sizes {:?}", n + 2, x.sizes());
    match (size, factors) {
        (Some(size), _) => {
            ensure!(size.len() == n, "It is expected output_size equals to {n}, but got size {}", size.len());
            Ok((size.to_vec(), vec![None; n]))
        }
        (_, factors) => {
            let factors = factors.unwrap_or_default();
            ensure!(factors.len() == n, "It is expected scale_factors equals to {n}, but got size {}", factors.len());
            let sizes = x.sizes()[2..].iter().zip(factors).map(|(s, f)| (*s as f64 * f) as i64);
            Ok((sizes.collect(), factors.iter().map(|f| Some(*f)).collect()))
        }
    }
}

/// `upsample_X(self, output_size, [align_corners,] scales...)`.
fn with_size(op: &'static Op, args: &[Value<'_>], n: usize, aligned: Option<fn(bool) -> Mode>, plain: Mode) -> Result<Tensor> {
    let x: &Tensor = take(op, args, 0)?;
    let size: &[i64] = take(op, args, 1)?;
    ensure!(size.len() == n, "It is expected output_size equals to {n}, but got size {}", size.len());
    let (mode, first) = match aligned {
        Some(mode) => (mode(take(op, args, 2)?), 3),
        None => (plain, 2),
    };
    let scales = (0..n).map(|i| take(op, args, first + i)).collect::<Result<Vec<Option<f64>>>>()?;
    resample(x, size, &scales, mode)
}

/// `upsample_X.vec(input, output_size, [align_corners,] scale_factors)`.
fn with_factors(op: &'static Op, args: &[Value<'_>], n: usize, aligned: Option<fn(bool) -> Mode>, plain: Mode) -> Result<Tensor> {
    let x: &Tensor = take(op, args, 0)?;
    let (mode, last) = match aligned {
        Some(mode) => (mode(take(op, args, 2)?), 3),
        None => (plain, 2),
    };
    let (size, scales) = full_size(x, n, take(op, args, 1)?, take(op, args, last)?)?;
    resample(x, &size, &scales, mode)
}

fn linear(align_corners: bool) -> Mode {
    Mode::Linear { align_corners }
}
fn cubic(align_corners: bool) -> Mode {
    Mode::Cubic { align_corners }
}
fn linear_filter(align_corners: bool) -> Mode {
    Mode::Filtered { align_corners, filter: Filter::Linear }
}
fn cubic_filter(align_corners: bool) -> Mode {
    Mode::Filtered { align_corners, filter: Filter::Cubic }
}
fn lanczos_filter(align_corners: bool) -> Mode {
    Mode::Filtered { align_corners, filter: Filter::Lanczos }
}

/// Both overloads of one way of resizing `n` dims.
macro_rules! upsampling {
    ($($(#[doc = $doc:expr])* $name:ident, $vec:ident: $n:literal, $aligned:expr, $plain:expr;
        $schema:literal, $out:literal, $vec_schema:literal $(, $vec_out:literal)?;)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: $schema, Out OUT: $out;
            Body::Composite(|op, _, args| with_size(op, args, $n, $aligned, $plain).map(crate::Outputs::One));
            samples: |m| upsampling!(@samples m, $n, $aligned, vec![7i64; $n]);
        }
        op! {
            $(#[doc = $doc])*
            #[doc = "To a size, or by factors."]
            $vec: $vec_schema $(, Out OUT: $vec_out)?;
            Body::Composite(|op, _, args| with_factors(op, args, $n, $aligned, $plain).map(crate::Outputs::One));
            samples: |m| upsampling!(@vec_samples m, $n, $aligned, vec![7i64; $n]);
        }
    )*
        /// All entries of this file.
        pub static OPS: &[&[&Op]] = &[weighted_select::ALL, $($name::ALL, $vec::ALL),*];
    };
    (@samples $m:ident, $n:literal, $aligned:expr, $size:expr) => {{
        let aligned: Option<fn(bool) -> Mode> = $aligned;
        if !$m.dtype.is_floating_point() {
            return vec![];
        }
        let mut sample = sample![$m.any(&[vec![1i64, 2], vec![4; $n]].concat()), $size];
        if aligned.is_some() {
            sample.args.push(true.into());
        }
        sample.args.extend((0..$n).map(|_| crate::OwnedValue::None));
        vec![sample]
    }};
    (@vec_samples $m:ident, $n:literal, $aligned:expr, $size:expr) => {{
        let aligned: Option<fn(bool) -> Mode> = $aligned;
        if !$m.dtype.is_floating_point() {
            return vec![];
        }
        let mut sample = sample![$m.any(&[vec![1i64, 2], vec![4; $n]].concat()), ()];
        if aligned.is_some() {
            sample.args.push(false.into());
        }
        sample.args.push(crate::OwnedValue::Floats(vec![1.5; $n]));
        vec![sample]
    }};
}
upsampling! {
    /// Resizes the last dim; each position takes the value of the one before it in the input.
    upsample_nearest1d, upsample_nearest1d_vec: 1, None, Mode::Nearest;
    "upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
    "upsample_nearest1d.out(Tensor self, SymInt[1] output_size, float? scales=None, *, Tensor(a!) out) -> Tensor(a!)",
    "upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims; each position takes the value of the one before it in the input.
    upsample_nearest2d, upsample_nearest2d_vec: 2, None, Mode::Nearest;
    "upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
    "upsample_nearest2d.out(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> Tensor(a!)",
    "upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
    "upsample_nearest2d.vec_out(Tensor input, SymInt[]? output_size, float[]? scale_factors, *, Tensor(a!) out) -> Tensor(a!)";
    /// Resizes the last three dims; each position takes the value of the one before it in the input.
    upsample_nearest3d, upsample_nearest3d_vec: 3, None, Mode::Nearest;
    "upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    "upsample_nearest3d.out(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> Tensor(a!)",
    "upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last dim; each position takes the value of the one whose centre is nearest.
    upsample_nearest_exact1d, upsample_nearest_exact1d_vec: 1, None, Mode::NearestExact;
    "_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
    "_upsample_nearest_exact1d.out(Tensor self, SymInt[1] output_size, float? scales=None, *, Tensor(a!) out) -> Tensor(a!)",
    "_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims; each position takes the value of the one whose centre is nearest.
    upsample_nearest_exact2d, upsample_nearest_exact2d_vec: 2, None, Mode::NearestExact;
    "_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
    "_upsample_nearest_exact2d.out(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> Tensor(a!)",
    "_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last three dims; each position takes the value of the one whose centre is nearest.
    upsample_nearest_exact3d, upsample_nearest_exact3d_vec: 3, None, Mode::NearestExact;
    "_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    "_upsample_nearest_exact3d.out(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> Tensor(a!)",
    "_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last dim by linear interpolation.
    upsample_linear1d, upsample_linear1d_vec: 1, Some(linear), Mode::Nearest;
    "upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor",
    "upsample_linear1d.out(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None, *, Tensor(a!) out) -> Tensor(a!)",
    "upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims by linear interpolation.
    upsample_bilinear2d, upsample_bilinear2d_vec: 2, Some(linear), Mode::Nearest;
    "upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    "upsample_bilinear2d.out(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> Tensor(a!)",
    "upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
    "upsample_bilinear2d.vec_out(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors, *, Tensor(a!) out) -> Tensor(a!)";
    /// Resizes the last three dims by linear interpolation.
    upsample_trilinear3d, upsample_trilinear3d_vec: 3, Some(linear), Mode::Nearest;
    "upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    "upsample_trilinear3d.out(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> Tensor(a!)",
    "upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims by cubic interpolation.
    upsample_bicubic2d, upsample_bicubic2d_vec: 2, Some(cubic), Mode::Nearest;
    "upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    "upsample_bicubic2d.out(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> Tensor(a!)",
    "upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims with a linear filter that covers what each position stands for.
    upsample_bilinear2d_aa, upsample_bilinear2d_aa_vec: 2, Some(linear_filter), Mode::Nearest;
    "_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    "_upsample_bilinear2d_aa.out(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> Tensor(a!)",
    "_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims with a cubic filter that covers what each position stands for.
    upsample_bicubic2d_aa, upsample_bicubic2d_aa_vec: 2, Some(cubic_filter), Mode::Nearest;
    "_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    "_upsample_bicubic2d_aa.out(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> Tensor(a!)",
    "_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims with a Lanczos' filter that covers what each position stands for.
    upsample_lanczos2d_aa, upsample_lanczos2d_aa_vec: 2, Some(lanczos_filter), Mode::Nearest;
    "_upsample_lanczos2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    "_upsample_lanczos2d_aa.out(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> Tensor(a!)",
    "_upsample_lanczos2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's bytes are those of the operators that stand in for it on other devices, for several taps and for uneven
    /// numbers of them.
    #[test]
    fn bytes_are_the_same_either_way() -> Result<()> {
        let x: Vec<u8> = (0..2 * 3 * 6 * 5).map(|i| (i * 53 % 256) as u8).collect();
        let x = Tensor::from_slice_of(&x, &[2, 3, 6, 5])?;
        for x in [x.clone(), x.contiguous_in(MemoryFormat::ChannelsLast)?] {
            for (mode, d, output) in [(cubic(false), 3, 9), (linear(true), 2, 4), (cubic_filter(false), 2, 3)] {
                let taps = taps(mode, x.sizes()[d], output, None, false);
                let weights = taps.weights.iter().map(|w| (w * 16384.0).round() as i32).collect();
                let by = ByteWeights { weights, precision: 14 };
                let (a, b) = (resized_bytes(&x, d, &taps, &by)?, selected_bytes(&x, d, &taps, &by)?);
                assert_eq!(a.to_vec::<u8>()?, b.to_vec::<u8>()?);
            }
        }
        Ok(())
    }

    /// The nearest elements are those of one dim after the other, which they are where a gradient is recorded.
    #[test]
    fn elements_are_picked_as_by_each_dim() -> Result<()> {
        for dtype in [DType::F16, DType::F32, DType::F64] {
            let x: Vec<f32> = (0..2 * 3 * 6 * 5).map(|i| i as f32 / 4.0 - 20.0).collect();
            let x = Tensor::from_slice_of(&x, &[2, 3, 6, 5])?.to_dtype(dtype)?;
            for x in [x.clone(), x.contiguous_in(MemoryFormat::ChannelsLast)?] {
                let recorded = x.detach()?.requires_grad_(true)?;
                for mode in [Mode::Nearest, Mode::NearestExact] {
                    let resized = |x: &Tensor| resample(x, &[4, 13], &[None, Some(2.6)], mode);
                    let (a, b) = (resized(&x)?, resized(&recorded)?);
                    assert_eq!(a.to_vec::<f64>()?, b.to_vec::<f64>()?);
                    assert_eq!(a.strides(), b.strides());
                }
            }
        }
        Ok(())
    }
}
