//! Resizing of images: nearest, linear and cubic interpolation along one to three dims.
//!
//! All of them are separable: along each dim an output position reads a few input positions with weights that depend on
//! the position alone. So each is a weighted sum of selections per dim, and differentiable through them. Positions and
//! weights follow PyTorch's conventions (`align_corners`, half-pixel centres); the cubic kernel is that of Keys, "Cubic
//! convolution interpolation for digital image processing", 1981, with a = -0.75.

use crate::value::take;
use crate::{Body, DType, Op, Result, Tensor, Value, ensure, sample};

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

/// The input positions that one tap reads for every output position, and with which weights.
struct Tap {
    positions: Vec<i64>,
    weights: Vec<f64>,
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

/// The taps of a dim. `narrow`: PyTorch computes places in single precision for tensors of that precision.
fn taps(mode: Mode, input: i64, output: i64, scale: Option<f64>, narrow: bool) -> Vec<Tap> {
    let round = |x: f64| if narrow { f64::from(x as f32) } else { x };
    let last = input - 1;
    let places = 0..output;
    match mode {
        Mode::Nearest | Mode::NearestExact => {
            let step = round(step(input, output, scale, false));
            let shift = if mode == Mode::NearestExact { 0.5 } else { 0.0 };
            let positions = places.map(|i| (round((i as f64 + shift) * step).floor() as i64).clamp(0, last)).collect();
            vec![Tap { positions, weights: Vec::new() }]
        }
        Mode::Linear { align_corners } => {
            let step = round(step(input, output, scale, align_corners));
            let [mut low, mut high] = [(); 2].map(|()| Tap { positions: Vec::new(), weights: Vec::new() });
            for i in places {
                let at = match align_corners {
                    true => round(step * i as f64),
                    false => round(round(step * (i as f64 + 0.5)) - 0.5).max(0.0),
                };
                let first = (at.floor() as i64).clamp(0, last);
                let share = round(at - first as f64).clamp(0.0, 1.0);
                low.positions.push(first);
                low.weights.push(1.0 - share);
                high.positions.push((first + 1).min(last));
                high.weights.push(share);
            }
            vec![low, high]
        }
        Mode::Cubic { align_corners } => {
            let weight = |x: f64| cubic_weight(x, -0.75);
            let step = round(step(input, output, scale, align_corners));
            let mut taps = [(); 4].map(|()| Tap { positions: Vec::new(), weights: Vec::new() });
            for i in places {
                let at = if align_corners { round(step * i as f64) } else { round(step * (i as f64 + 0.5) - 0.5) };
                let first = at.floor();
                let t = round(at - first);
                let weights = [t + 1.0, t, 1.0 - t, 2.0 - t].map(weight);
                for (k, (tap, w)) in taps.iter_mut().zip(weights).enumerate() {
                    tap.positions.push((first as i64 - 1 + k as i64).clamp(0, last));
                    tap.weights.push(w);
                }
            }
            taps.into()
        }
        Mode::Filtered { align_corners, filter } => {
            let step = round(step(input, output, scale, align_corners));
            let wide = step.max(1.0);
            let reach = filter.reach() * wide;
            let most = (reach.ceil() as usize).saturating_mul(2).saturating_add(1).min(input as usize);
            let mut taps: Vec<Tap> = (0..most).map(|_| Tap { positions: Vec::new(), weights: Vec::new() }).collect();
            for i in places {
                // PyTorch shifts nothing for aligned corners here.
                let centre = step * (i as f64 + 0.5);
                let first = ((centre - reach + 0.5) as i64).clamp(0, last);
                let end = ((centre + reach + 0.5) as i64).clamp(first + 1, first + most as i64).min(input);
                let weight = |at: i64| match at < end {
                    true => filter.weight((at as f64 - centre + 0.5) / wide),
                    false => 0.0,
                };
                let weights: Vec<f64> = (first..first + most as i64).map(weight).collect();
                let total: f64 = weights.iter().sum();
                for (k, (tap, w)) in taps.iter_mut().zip(weights).enumerate() {
                    // Past the end the weight is zero: any position will do.
                    tap.positions.push((first + k as i64).min(end - 1));
                    tap.weights.push(if total == 0.0 { w } else { w / total });
                }
            }
            taps
        }
    }
}

/// The dims of an image, for messages.
const NAMES: [&[&str]; 3] = [&["W"], &["H", "W"], &["D", "H", "W"]];

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
    let nearest = matches!(mode, Mode::Nearest | Mode::NearestExact);
    ensure!(
        dtype.is_floating_point() || dtype == DType::U8,
        "\"upsample\" not implemented for '{}'",
        dtype.scalar_type_name()
    );
    let format = x.suggested_memory_format();
    if dtype == DType::U8 && !nearest {
        ensure!(n == 2, "\"upsample\" not implemented for 'Byte'");
        return resample_bytes(x, size, scales, mode)?.contiguous_in(format);
    }
    let mut y = if nearest { x.clone() } else { x.to_dtype(dtype.compute())? };
    for (k, (&output, &scale)) in size.iter().zip(scales).enumerate() {
        let d = k + 2;
        let input = x.sizes()[d];
        let mut sum: Option<Tensor> = None;
        for tap in taps(mode, input, output, scale, dtype != DType::F64) {
            let positions = Tensor::from_slice(&tap.positions)?.to_options(None, Some(x.device()))?;
            let part = y.index_select(d as i64, &positions)?;
            if nearest {
                sum = Some(part);
                break;
            }
            let mut sizes = vec![1; x.dim()];
            sizes[d] = output;
            let weights = Tensor::from_slice(&tap.weights)?.to_options(Some(y.dtype()), Some(x.device()))?.reshape(&sizes)?;
            let part = part.mul(&weights)?;
            sum = Some(match sum {
                None => part,
                Some(s) => s.add(&part)?,
            });
        }
        y = sum.unwrap_or(y);
    }
    y.to_dtype(dtype)?.contiguous_in(format)
}

/// Images of bytes: weights are whole numbers of 2^-p, with the largest p at which they fit 16 bits, and each dim, the
/// last one first, is rounded to bytes, as in PyTorch's vector code.
fn resample_bytes(x: &Tensor, size: &[i64], scales: &[Option<f64>], mode: Mode) -> Result<Tensor> {
    let mut y = x.clone();
    for (k, (&output, &scale)) in size.iter().zip(scales).enumerate().rev() {
        let d = k + 2;
        if x.sizes()[d] == output {
            continue;
        }
        let taps = taps(mode, x.sizes()[d], output, scale, false);
        let largest = taps.iter().flat_map(|t| &t.weights).fold(0.0f64, |m, w| m.max(*w));
        let fits = |p: &i32| ((0.5 + largest * f64::from(1u32 << (p + 1))) as i64) < 1 << 15;
        let precision = (0..22).find(|p| !fits(p)).unwrap_or(22);
        let unit = f64::from(1u32 << precision);
        let half = if precision > 0 { 1i64 << (precision - 1) } else { 0 };
        let mut sizes = vec![1; x.dim()];
        sizes[d] = output;
        let mut sum = Tensor::full(&[], half, (DType::I32, x.device()))?;
        for tap in taps {
            let positions = Tensor::from_slice(&tap.positions)?.to_options(None, Some(x.device()))?;
            let weights: Vec<i32> = tap.weights.iter().map(|w| (w * unit).round() as i32).collect();
            let weights = Tensor::from_slice(&weights)?.to_options(None, Some(x.device()))?.reshape(&sizes)?;
            sum = sum.add(&y.index_select(d as i64, &positions)?.to_dtype(DType::I32)?.mul(&weights)?)?;
        }
        y = sum.bitwise_right_shift(i64::from(precision))?.clamp(0, 255)?.to_dtype(DType::U8)?;
    }
    match y.is_same(x) {
        true => x.clone_in(crate::MemoryFormat::Preserve),
        false => Ok(y),
    }
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
        pub static OPS: &[&[&Op]] = &[$($name::ALL, $vec::ALL),*];
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
