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
            const A: f64 = -0.75;
            let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
            let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
            let step = round(step(input, output, scale, align_corners));
            let mut taps = [(); 4].map(|()| Tap { positions: Vec::new(), weights: Vec::new() });
            for i in places {
                let at = if align_corners { round(step * i as f64) } else { round(step * (i as f64 + 0.5) - 0.5) };
                let first = at.floor();
                let t = round(at - first);
                let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
                for (k, (tap, w)) in taps.iter_mut().zip(weights).enumerate() {
                    tap.positions.push((first as i64 - 1 + k as i64).clamp(0, last));
                    tap.weights.push(w);
                }
            }
            taps.into()
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
        dtype.is_floating_point() || (nearest && dtype == DType::U8),
        "\"upsample\" not implemented for '{}'",
        dtype.scalar_type_name()
    );
    let format = x.suggested_memory_format();
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

/// Both overloads of one way of resizing `n` dims.
macro_rules! upsampling {
    ($($(#[doc = $doc:expr])* $name:ident, $vec:ident: $n:literal, $aligned:expr, $plain:expr;
        $schema:literal, $vec_schema:literal;)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: $schema;
            Body::Composite(|op, _, args| with_size(op, args, $n, $aligned, $plain).map(crate::Outputs::One));
            samples: |m| upsampling!(@samples m, $n, $aligned, vec![7i64; $n]);
        }
        op! {
            $(#[doc = $doc])*
            #[doc = "To a size, or by factors."]
            $vec: $vec_schema;
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
    "upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims; each position takes the value of the one before it in the input.
    upsample_nearest2d, upsample_nearest2d_vec: 2, None, Mode::Nearest;
    "upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
    "upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last three dims; each position takes the value of the one before it in the input.
    upsample_nearest3d, upsample_nearest3d_vec: 3, None, Mode::Nearest;
    "upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    "upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last dim; each position takes the value of the one whose centre is nearest.
    upsample_nearest_exact1d, upsample_nearest_exact1d_vec: 1, None, Mode::NearestExact;
    "_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
    "_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims; each position takes the value of the one whose centre is nearest.
    upsample_nearest_exact2d, upsample_nearest_exact2d_vec: 2, None, Mode::NearestExact;
    "_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
    "_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last three dims; each position takes the value of the one whose centre is nearest.
    upsample_nearest_exact3d, upsample_nearest_exact3d_vec: 3, None, Mode::NearestExact;
    "_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    "_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    /// Resizes the last dim by linear interpolation.
    upsample_linear1d, upsample_linear1d_vec: 1, Some(linear), Mode::Nearest;
    "upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor",
    "upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims by linear interpolation.
    upsample_bilinear2d, upsample_bilinear2d_vec: 2, Some(linear), Mode::Nearest;
    "upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    "upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor";
    /// Resizes the last three dims by linear interpolation.
    upsample_trilinear3d, upsample_trilinear3d_vec: 3, Some(linear), Mode::Nearest;
    "upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    "upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor";
    /// Resizes the last two dims by cubic interpolation.
    upsample_bicubic2d, upsample_bicubic2d_vec: 2, Some(cubic), Mode::Nearest;
    "upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    "upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor";
}
