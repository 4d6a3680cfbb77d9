//! Spectra of windows of a signal, the signal of spectra, and the classical windows.

use super::range::tabulate_floats;
use crate::{Body, DType, Error, Op, Result, Tensor, TensorOptions, ensure, sample};
use flambeau_cpu::progression::{Line, Of};

// ---- windows --------------------------------------------------------------------------------------

/// `n` elements of a window that `make` gives the values of, from 0 to 1 over its length. A periodic window is a symmetric
/// one without its last element.
fn window(name: &str, n: i64, periodic: bool, options: TensorOptions, make: impl FnOnce(i64) -> Result<Tensor>) -> Result<Tensor> {
    let (dtype, device) = options.or_default();
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        "{name} expects floating point dtypes, got: {}",
        dtype.cpp_name()
    );
    ensure!(n >= 0, "{name} requires non-negative window_length, got window_length={n}");
    if n <= 1 {
        return Tensor::ones(&[n], (dtype, device));
    }
    let length = if periodic { n.checked_add(1).ok_or_else(|| Error::runtime(format!("{name}: window_length is too large")))? } else { n };
    make(length)?.narrow(0, 0, n)?.to_options(Some(dtype), Some(device))
}

/// 0 to `n - 1`, in the precision a window is computed in.
fn steps(n: i64, options: TensorOptions) -> Result<Tensor> {
    let (dtype, _) = options.or_default();
    Tensor::arange(n, if dtype.is_complex() { dtype.to_real() } else { dtype.compute() })
}

fn bartlett_any(n: i64, periodic: bool, options: TensorOptions) -> Result<Tensor> {
    window("bartlett_window", n, periodic, options, |length| {
        let rise = steps(length, options)?.mul(2.0 / (length - 1) as f64)?;
        rise.minimum(&rise.rsub(2.0)?)
    })
}
fn blackman_any(n: i64, periodic: bool, options: TensorOptions) -> Result<Tensor> {
    window("blackman_window", n, periodic, options, |length| {
        let angle = steps(length, options)?.mul(std::f64::consts::PI / (length - 1) as f64)?;
        angle.mul(4)?.cos()?.mul(0.08)?.sub(&angle.mul(2)?.cos()?.mul(0.5)?)?.add(0.42)
    })
}
fn cosine_any(name: &str, n: i64, periodic: bool, alpha: f64, beta: f64, options: TensorOptions) -> Result<Tensor> {
    window(name, n, periodic, options, |length| {
        let angle = steps(length, options)?.mul(2.0 * std::f64::consts::PI / (length - 1) as f64)?;
        angle.cos()?.mul(-beta)?.add(alpha)
    })
}
fn hann_any(n: i64, periodic: bool, options: TensorOptions) -> Result<Tensor> {
    cosine_any("hann_window", n, periodic, 0.5, 0.5, options)
}
fn hamming_any(n: i64, periodic: bool, alpha: f64, beta: f64, options: TensorOptions) -> Result<Tensor> {
    cosine_any("hamming_window", n, periodic, alpha, beta, options)
}

fn kaiser_any(n: i64, periodic: bool, beta: f64, options: TensorOptions) -> Result<Tensor> {
    window("kaiser_window", n, periodic, options, |length| {
        crate::dims::checked_numel(&[length])?;
        let middle = (length - 1) as f64 / 2.0;
        // Whole or half steps from the middle, as shares of it.
        let line = |from: usize| Line { base: 0.0, step: 1.0 / middle, from: from as f64 - middle, direction: 1.0 };
        tabulate_floats(length, DType::F64, &|start, out| out.fill_line(line(start), Of::Kaiser(beta.abs())))
    })
}

const HAMMING: (f64, f64) = (0.54, 0.46);
const KAISER: f64 = 12.0;

/// One overload of a window per line, with the one that writes to `out`, and the samples' arguments after the length.
macro_rules! windows {
    ($($(#[doc = $doc:expr])* $name:ident $out_name:ident |$n:ident $(, $arg:ident: $ty:ty)*; $options:ident| $make:expr, [$($sample:expr),*]; $schema:literal, $out:literal;)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: $schema;
            Body::Composite({
                fn make($n: i64, $($arg: $ty,)* $options: TensorOptions) -> Result<Tensor> {
                    $make
                }
                kernel!(make; n, $($arg,)* options)
            });
            samples: |m| match m.dtype.is_floating_point() {
                true => [1i64, 5, 8].map(|n| sample![n, $($sample,)* m.dtype]).into(),
                false => vec![],
            };
            ulp: 64.0;
        }
        op! {
            $(#[doc = $doc])*
            #[doc = "Written to `out`, in its dtype."]
            $out_name: $out;
            Body::Composite({
                fn make($n: i64, $($arg: $ty,)* out: &Tensor) -> Result<Tensor> {
                    let $options = TensorOptions::from((out.dtype(), out.device()));
                    let made: Result<Tensor> = $make;
                    crate::ops::range::write_to(out, &made?)
                }
                kernel!(make; n, $($arg,)* out)
            });
        }
    )* };
}
windows! {
    /// A triangle.
    bartlett_window bartlett_window_out |n; options| bartlett_any(n, true, options), [];
        "bartlett_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "bartlett_window.out(int window_length, *, Tensor(a!) out) -> Tensor(a!)";
    /// A triangle.
    bartlett_window_periodic bartlett_window_periodic_out |n, periodic: bool; options| bartlett_any(n, periodic, options), [false];
        "bartlett_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "bartlett_window.periodic_out(int window_length, bool periodic, *, Tensor(a!) out) -> Tensor(a!)";
    /// The cosine window with coefficients 0.42, 0.5 and 0.08.
    blackman_window blackman_window_out |n; options| blackman_any(n, true, options), [];
        "blackman_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "blackman_window.out(int window_length, *, Tensor(a!) out) -> Tensor(a!)";
    /// The cosine window with coefficients 0.42, 0.5 and 0.08.
    blackman_window_periodic blackman_window_periodic_out |n, periodic: bool; options| blackman_any(n, periodic, options), [false];
        "blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "blackman_window.periodic_out(int window_length, bool periodic, *, Tensor(a!) out) -> Tensor(a!)";
    /// A raised cosine.
    hann_window hann_window_out |n; options| hann_any(n, true, options), [];
        "hann_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "hann_window.out(int window_length, *, Tensor(a!) out) -> Tensor(a!)";
    /// A raised cosine.
    hann_window_periodic hann_window_periodic_out |n, periodic: bool; options| hann_any(n, periodic, options), [false];
        "hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "hann_window.periodic_out(int window_length, bool periodic, *, Tensor(a!) out) -> Tensor(a!)";
    /// A raised cosine on a pedestal: `alpha - beta cos`.
    hamming_window hamming_window_out |n; options| hamming_any(n, true, HAMMING.0, HAMMING.1, options), [];
        "hamming_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "hamming_window.out(int window_length, *, Tensor(a!) out) -> Tensor(a!)";
    /// A raised cosine on a pedestal: `alpha - beta cos`.
    hamming_window_periodic hamming_window_periodic_out |n, periodic: bool; options| hamming_any(n, periodic, HAMMING.0, HAMMING.1, options), [false];
        "hamming_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "hamming_window.periodic_out(int window_length, bool periodic, *, Tensor(a!) out) -> Tensor(a!)";
    /// A raised cosine on a pedestal: `alpha - beta cos`.
    hamming_window_periodic_alpha hamming_window_periodic_alpha_out |n, periodic: bool, alpha: f64; options| hamming_any(n, periodic, alpha, HAMMING.1, options), [false, 0.6];
        "hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "hamming_window.periodic_alpha_out(int window_length, bool periodic, float alpha, *, Tensor(a!) out) -> Tensor(a!)";
    /// A raised cosine on a pedestal: `alpha - beta cos`.
    hamming_window_periodic_alpha_beta hamming_window_periodic_alpha_beta_out |n, periodic: bool, alpha: f64, beta: f64; options| hamming_any(n, periodic, alpha, beta, options), [true, 0.6, 0.3];
        "hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "hamming_window.periodic_alpha_beta_out(int window_length, bool periodic, float alpha, float beta, *, Tensor(a!) out) -> Tensor(a!)";
    /// The window of Bessel functions: the larger `beta`, the wider and the lower its sides.
    kaiser_window kaiser_window_out |n; options| kaiser_any(n, true, KAISER, options), [];
        "kaiser_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "kaiser_window.out(int window_length, *, Tensor(a!) out) -> Tensor(a!)";
    /// The window of Bessel functions: the larger `beta`, the wider and the lower its sides.
    kaiser_window_periodic kaiser_window_periodic_out |n, periodic: bool; options| kaiser_any(n, periodic, KAISER, options), [false];
        "kaiser_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "kaiser_window.periodic_out(int window_length, bool periodic, *, Tensor(a!) out) -> Tensor(a!)";
    /// The window of Bessel functions: the larger `beta`, the wider and the lower its sides.
    kaiser_window_beta kaiser_window_beta_out |n, periodic: bool, beta: f64; options| kaiser_any(n, periodic, beta, options), [true, 5.0];
        "kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "kaiser_window.beta_out(int window_length, bool periodic, float beta, *, Tensor(a!) out) -> Tensor(a!)";
}

// ---- spectra of windows ---------------------------------------------------------------------------

/// The window that `length` elements of `n` are seen through, in the middle; all ones where none is given.
fn centred(window: Option<&Tensor>, length: i64, n: i64, like: &Tensor) -> Result<Option<Tensor>> {
    if length == n {
        return Ok(window.cloned());
    }
    let inner = match window {
        Some(w) => w.clone(),
        None => Tensor::ones(&[length], (like.dtype(), like.device()))?,
    };
    let left = (n - length) / 2;
    inner.constant_pad_nd(&[left, n - length - left], 0).map(Some)
}

fn stft_any(
    x: &Tensor,
    n_fft: i64,
    hop: Option<i64>,
    length: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    pad_mode: &str,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align: Option<bool>,
) -> Result<Tensor> {
    let (hop, length) = (hop.unwrap_or(n_fft >> 2), length.unwrap_or(n_fft));
    if let Some(w) = window {
        ensure!(
            w.device() == x.device(),
            "stft input and window must be on the same device but got self on {} and window on {}",
            x.device(),
            w.device()
        );
    }
    ensure!(!center || align.is_none(), "stft only supports align_to_window for center = False.");
    let complex_window = window.is_some_and(|w| w.dtype().is_complex());
    let complex = x.dtype().is_complex() || complex_window;
    ensure!(
        return_complex.is_some() || complex,
        "stft requires the return_complex parameter be given for real inputs, and will further require that \
         return_complex=True in a future PyTorch release."
    );
    let call = || {
        let sizes = x.sizes().iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        format!("stft({}[{sizes}], n_fft={n_fft}, hop_length={hop}, win_length={length})", x.dtype().cpp_name())
    };
    ensure!(
        x.dtype().is_floating_point() || x.dtype().is_complex(),
        "{}: expected a tensor of floating point or complex values",
        call()
    );
    ensure!(x.dim() == 1 || x.dim() == 2, "{}: expected a 1D or 2D tensor", call());
    let mut signal = if x.dim() == 1 { x.unsqueeze(0)? } else { x.clone() };
    if center {
        let pad = n_fft / 2;
        signal = signal.unsqueeze(0)?.pad(&[pad, pad], pad_mode, None)?.squeeze_dim(0)?;
    }
    let points = signal.sizes()[1];
    ensure!(n_fft > 0 && n_fft <= points, "{}: expected 0 < n_fft < {points}, but got n_fft={length}", call());
    ensure!(hop > 0, "{}: expected hop_length > 0, but got hop_length={hop}", call());
    ensure!(length > 0 && length <= n_fft, "{}: expected 0 < win_length <= n_fft, but got win_length={length}", call());
    if let Some(w) = window {
        ensure!(
            w.dim() == 1 && w.sizes()[0] == length,
            "{}: expected a 1D window tensor of size equal to win_length={length}, but got window with size {:?}",
            call(),
            w.sizes()
        );
    }
    if align == Some(true) && length < n_fft {
        // The first window begins with the signal.
        let left = (n_fft - length) / 2;
        signal = signal.constant_pad_nd(&[left, n_fft - length - left], 0)?;
    }
    let mut frames = signal.unfold(1, n_fft, hop)?;
    if let Some(w) = centred(window, length, n_fft, x)? {
        frames = frames.mul(&w)?;
    }
    let norm = i64::from(normalized);
    let spectra = match frames.dtype().is_complex() {
        true => {
            ensure!(!onesided.unwrap_or(false), "Cannot have onesided output if window or input is complex");
            frames.fft_c2c(&[2], norm, true)?
        }
        false => frames.fft_r2c(&[2], norm, onesided.unwrap_or(true))?,
    };
    let spectra = spectra.transpose(1, 2)?;
    let spectra = if x.dim() == 1 { spectra.squeeze_dim(0)? } else { spectra };
    if return_complex.unwrap_or(complex) { Ok(spectra) } else { spectra.view_as_real() }
}

fn stft_plain(
    x: &Tensor,
    n_fft: i64,
    hop: Option<i64>,
    length: Option<i64>,
    window: Option<&Tensor>,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align: Option<bool>,
) -> Result<Tensor> {
    stft_any(x, n_fft, hop, length, window, false, "constant", normalized, onesided, return_complex, align)
}

op! {
    /// The spectra of windows of a signal (..., time), `hop_length` apart: (..., frequency, window).
    stft: "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor";
    Body::Composite(kernel!(stft_plain; x, n_fft, hop, length, window, normalized, onesided, return_complex, align));
    samples: |m| match m.dtype {
        DType::F32 | DType::F64 => vec![sample![m.any(&[2, 12]), 4, 3, (), (), false, true, true, ()], sample![m.any(&[12]), 6, 2, 4, m.any(&[4]), true, false, true, true]],
        _ => vec![],
    };
    ulp: 64.0;
}
op! {
    /// The same; with `center`, windows are around their times, and the signal is padded for them.
    stft_center: "stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, str pad_mode=\"reflect\", bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor";
    Body::Composite(kernel!(stft_any; x, n_fft, hop, length, window, center, pad_mode, normalized, onesided, return_complex, align));
    samples: |m| match m.dtype {
        DType::F32 | DType::F64 => vec![sample![m.any(&[2, 12]), 4, 3, (), (), true, "reflect", false, true, true, ()]],
        _ => vec![],
    };
    ulp: 64.0;
}

fn istft_any(
    x: &Tensor,
    n_fft: i64,
    hop: Option<i64>,
    length: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    normalized: bool,
    onesided: Option<bool>,
    wanted: Option<i64>,
    return_complex: bool,
) -> Result<Tensor> {
    let (hop, length) = (hop.unwrap_or(n_fft >> 2), length.unwrap_or(n_fft));
    ensure!(
        x.dtype().is_complex(),
        "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
    );
    let call = || {
        let sizes = x.sizes().iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        format!("istft({}[{sizes}], n_fft={n_fft}, hop_length={hop}, win_length={length})", x.dtype().cpp_name())
    };
    ensure!(x.numel() > 0, "{}: input tensor cannot be empty.", call());
    let n = x.dim();
    ensure!(n == 2 || n == 3, "{}: expected a tensor with 3 or 4 dimensions, but got {}", call(), n + 1);
    let (points, frames) = (x.sizes()[n - 2], x.sizes()[n - 1]);
    let onesided = onesided.unwrap_or(points != n_fft);
    let (expected, described) = if onesided { (n_fft / 2 + 1, "n_fft / 2 + 1 when onesided=True") } else { (n_fft, "n_fft when onesided=False") };
    ensure!(
        points == expected,
        "{}: expected the frequency dimension (3rd to the last) of the input tensor to match {described}, but got {points}",
        call()
    );
    ensure!(0 < hop && hop <= length, "{}: expected 0 < hop_length <= win_length", call());
    ensure!(0 < length && length <= n_fft, "{}: expected 0 < win_length <= n_fft", call());
    if let Some(w) = window {
        ensure!(
            w.dim() == 1 && w.sizes()[0] == length,
            "{}: Invalid window shape. window has to be 1D and length of `win_length`",
            call()
        );
    }
    let ones = match window {
        Some(w) => w.clone(),
        None => Tensor::ones(&[length], (x.dtype().to_real(), x.device()))?,
    };
    let seen = centred(Some(&ones), length, n_fft, x)?.unwrap_or(ones);
    let spectra = if n == 2 { x.unsqueeze(0)? } else { x.clone() }.transpose(1, 2)?;
    let norm = if normalized { 1 } else { 2 };
    let parts = match return_complex {
        true => {
            ensure!(!onesided, "Cannot have onesided output if window or input is complex");
            spectra.fft_c2c(&[2], norm, false)?
        }
        false => {
            ensure!(
                !window.is_some_and(|w| w.dtype().is_complex()),
                "Complex windows are incompatible with return_complex=False"
            );
            spectra.slice(2, Some(0), Some(n_fft / 2 + 1), 1)?.fft_c2r(&[2], norm, n_fft)?
        }
    };
    let batch = parts.sizes()[0];
    let whole = (frames - 1).checked_mul(hop).and_then(|n| n.checked_add(n_fft));
    let whole = whole.ok_or_else(|| Error::runtime("istft: the signal is too long"))?;
    let over = |parts: &Tensor, batch: i64| Tensor::unfold_backward(parts, &[batch, whole], 1, n_fft, hop);
    let y = over(&parts.mul(&seen)?, batch)?;
    let weights = over(&seen.mul(&seen)?.expand(&[1, frames, n_fft])?, 1)?;
    // What was padded in front, and behind, is no part of the signal.
    let start = if center { n_fft / 2 } else { 0 };
    let end = match wanted {
        Some(wanted) => start.saturating_add(wanted),
        None if center => whole - n_fft / 2,
        None => whole,
    };
    let y = y.slice(1, Some(start), Some(end), 1)?;
    let weights = weights.slice(1, Some(start), Some(end), 1)?;
    if !weights.device().is_meta() && weights.numel() > 0 {
        let least = weights.detach()?.abs()?.min()?.item()?.to_f64();
        ensure!(least >= 1e-11, "{}window overlap add min: {}", call(), u8::from(least < 1e-11));
    }
    let y = y.div(&weights)?;
    let y = if n == 2 { y.squeeze_dim(0)? } else { y };
    if end > whole { y.constant_pad_nd(&[0, end - whole], 0) } else { Ok(y) }
}

op! {
    /// The signal (..., time) whose windows have the given spectra (..., frequency, window), by least squares.
    istft: "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor";
    Body::Composite(kernel!(istft_any; x, n_fft, hop, length, window, center, normalized, onesided, wanted, return_complex));
    samples: |m| match m.dtype.is_complex() {
        true => vec![sample![m.any(&[2, 3, 5]), 4, 2, (), (), true, false, (), (), false], sample![m.any(&[6, 4]), 6, 2, (), (), false, true, false, 11, true]],
        false => vec![],
    };
    ulp: 256.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    bartlett_window::ALL,
    bartlett_window_out::ALL,
    bartlett_window_periodic::ALL,
    bartlett_window_periodic_out::ALL,
    blackman_window::ALL,
    blackman_window_out::ALL,
    blackman_window_periodic::ALL,
    blackman_window_periodic_out::ALL,
    hamming_window::ALL,
    hamming_window_out::ALL,
    hamming_window_periodic::ALL,
    hamming_window_periodic_alpha::ALL,
    hamming_window_periodic_alpha_beta::ALL,
    hamming_window_periodic_alpha_beta_out::ALL,
    hamming_window_periodic_alpha_out::ALL,
    hamming_window_periodic_out::ALL,
    hann_window::ALL,
    hann_window_out::ALL,
    hann_window_periodic::ALL,
    hann_window_periodic_out::ALL,
    istft::ALL,
    kaiser_window::ALL,
    kaiser_window_beta::ALL,
    kaiser_window_beta_out::ALL,
    kaiser_window_out::ALL,
    kaiser_window_periodic::ALL,
    kaiser_window_periodic_out::ALL,
    stft::ALL,
    stft_center::ALL,
];
