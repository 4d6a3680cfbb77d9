//! Numbers at regular distances, and triangles of matrices.

use super::create::{TensorOptions, factory};
use crate::autograd::Forward;
use crate::dispatch::resize_output;
use crate::{
    Body, Complex, DType, Device, Dims, Element, Error, Op, Operand, OutRule, Result, Scalar, Tensor, TensorSpec, Value,
    backward, default_dtype, dims, ensure, sample,
};
use flambeau_base::parallel::parallel_for;
use flambeau_base::storage::LockSet;
use flambeau_cpu::progression::{Line, Of, progression};

/// Elements computed per task.
const GRAIN: usize = 1 << 14;

/// A raw address that tasks share.
struct Address(*mut u8);
// SAFETY: tasks write disjoint elements.
unsafe impl Sync for Address {}
impl Address {
    fn get(&self) -> *mut u8 {
        self.0
    }
}

/// A new vector on the CPU whose element `i` is `f(i)`.
fn tabulate<T: Element>(n: i64, f: impl Fn(usize) -> T + Sync) -> Result<Tensor> {
    let out = Tensor::fresh(Device::CPU, T::DTYPE, Dims::from_slice(&[n]))?;
    let lock = LockSet::new([(out.storage(), true)])?;
    let address = Address(out.data_ptr());
    parallel_for(n as usize, GRAIN, &|range| {
        for i in range {
            // SAFETY: element `i` of the new tensor, written by this task only.
            unsafe { address.get().cast::<T>().add(i).write(f(i)) };
        }
    });
    drop(lock);
    Ok(out)
}

/// A new vector of integers on the CPU, from `first` on and `step` apart, modulo 2^64.
fn count_up<T: Element>(n: i64, first: i64, step: i64) -> Result<Tensor> {
    let out = Tensor::fresh(Device::CPU, T::DTYPE, Dims::from_slice(&[n]))?;
    let lock = LockSet::new([(out.storage(), true)])?;
    let address = Address(out.data_ptr());
    parallel_for(n as usize, GRAIN, &|range| {
        let mut value = first.wrapping_add((range.start as i64).wrapping_mul(step));
        for i in range {
            // SAFETY: element `i` of the new tensor, written by this task only.
            unsafe { address.get().cast::<T>().add(i).write(T::from_i64(value)) };
            value = value.wrapping_add(step);
        }
    });
    drop(lock);
    Ok(out)
}

/// A part of a vector of `f32` or `f64`.
pub(super) enum Part<'a> {
    Single(&'a mut [f32]),
    Double(&'a mut [f64]),
}

impl Part<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Part::Single(out) => out.len(),
            Part::Double(out) => out.len(),
        }
    }
    fn fill(self, x: f64) {
        match self {
            Part::Single(out) => out.fill(x as f32),
            Part::Double(out) => out.fill(x),
        }
    }
    pub(super) fn fill_line(self, line: Line, of: Of) {
        match self {
            Part::Single(out) => progression(line, of, out),
            Part::Double(out) => progression(line, of, out),
        }
    }
    pub(super) fn split_at(self, n: usize) -> (Self, Self) {
        match self {
            Part::Single(out) => {
                let (a, b) = out.split_at_mut(n);
                (Part::Single(a), Part::Single(b))
            }
            Part::Double(out) => {
                let (a, b) = out.split_at_mut(n);
                (Part::Double(a), Part::Double(b))
            }
        }
    }
}

/// A new vector of floats on the CPU: `f` writes the part from an index on. Halves are rounded from single precision.
pub(super) fn tabulate_floats(n: i64, dtype: DType, f: &(dyn Fn(usize, Part<'_>) + Sync)) -> Result<Tensor> {
    let wide = dtype.compute();
    let out = Tensor::fresh(Device::CPU, wide, Dims::from_slice(&[n]))?;
    let lock = LockSet::new([(out.storage(), true)])?;
    let address = Address(out.data_ptr());
    parallel_for(n as usize, GRAIN, &|range| {
        let at = address.get().wrapping_add(range.start * wide.size());
        // SAFETY: elements of the new tensor, of its dtype, written by this task only.
        let part = unsafe {
            match wide {
                DType::F64 => Part::Double(std::slice::from_raw_parts_mut(at.cast(), range.len())),
                _ => Part::Single(std::slice::from_raw_parts_mut(at.cast(), range.len())),
            }
        };
        f(range.start, part);
    });
    drop(lock);
    out.to_dtype(dtype)
}

/// Puts a factory's result on the device asked for.
fn place(device: Option<Device>, spec: TensorSpec, make: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    match device {
        Some(device) if device == Device::META => TensorSpec { device, ..spec }.allocate(),
        Some(device) => make()?.to_device(device),
        None => make(),
    }
}

fn not_for(op: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{op}\" not implemented for '{}'", dtype.scalar_type_name()))
}

/// Writes a factory's result to `out`, which takes its shape.
pub(super) fn write_to(out: &Tensor, result: &Tensor) -> Result<Tensor> {
    let target = match out.sizes() == result.sizes() {
        true => out.clone(),
        false => resize_output(out, result.sizes(), None)?,
    };
    target.copy_(result)
}

/// Writes a sequence to `out`, which keeps its shape if it has as many elements.
fn write_sequence(out: &Tensor, sequence: &Tensor) -> Result<Tensor> {
    match out.numel() == sequence.numel() && !out.device().is_meta() {
        true => out.copy_(&sequence.reshape(out.sizes())?),
        false => write_to(out, sequence),
    }
}

// ---- arange -------------------------------------------------------------------------------------

fn arange_any(
    start: Scalar,
    end: Scalar,
    step: Scalar,
    options: TensorOptions,
) -> Result<Tensor> {
    let all = [start, end, step];
    ensure!(!all.iter().any(|s| s.is_complex()), "value cannot be converted to type double without overflow");
    let whole = all.iter().all(|s| matches!(s, Scalar::Int(_) | Scalar::Bool(_)));
    let dtype = options.dtype.unwrap_or_else(|| if whole { DType::I64 } else { default_dtype() });
    if dtype == DType::Bool || dtype.is_complex() {
        return Err(not_for("arange_cpu", dtype));
    }
    let (first, last, by) = (start.to_f64(), end.to_f64(), step.to_f64());
    ensure!(by != 0.0 && !by.is_nan(), "step must be nonzero");
    if dtype == DType::I64 && step.to_i64() == 0 {
        // A fraction of one, which an integer cannot hold.
        return Err(Error::value("step must be nonzero"));
    }
    ensure!(first.is_finite() && last.is_finite(), "unsupported range: {first} -> {last}");
    for s in all {
        s.fit(if dtype.is_integral(false) { DType::I64 } else { dtype.compute() })?;
    }
    ensure!(
        if by > 0.0 { last >= first } else { last <= first },
        "upper bound and lower bound inconsistent with step sign"
    );
    // As in PyTorch: 64-bit integers count exactly, from ends and a step cut to integers; all else in double precision.
    let n = if dtype == DType::I64 {
        let (a, b, s) = (i128::from(start.to_i64()), i128::from(end.to_i64()), i128::from(step.to_i64()));
        let span = b - a;
        ((span + s - s.signum()) / s) as f64
    } else {
        ((last - first) / by).ceil()
    };
    ensure!((0.0..i64::MAX as f64).contains(&n), "invalid size, possible overflow?");
    let n = n as i64;
    dims::checked_numel(&[n])?;
    place(options.device, TensorSpec::new([n].as_slice(), dtype, Device::CPU), || {
        let (a, s) = (start.to_i64(), step.to_i64());
        crate::dispatch_dtype!(dtype, T in [ints] => {
            count_up::<T>(n, a, s)
        }; else {
            let line = |from: usize| Line { base: first, step: by, from: from as f64, direction: 1.0 };
            tabulate_floats(n, dtype, &|start, out| out.fill_line(line(start), Of::Itself))
        })
    })
}

fn arange_start_any(
    start: Scalar,
    end: Scalar,
    options: TensorOptions,
) -> Result<Tensor> {
    arange_any(start, end, Scalar::Int(1), options)
}
fn arange_end_any(
    end: Scalar,
    options: TensorOptions,
) -> Result<Tensor> {
    arange_any(Scalar::Int(0), end, Scalar::Int(1), options)
}
fn arange_out_any(end: Scalar, out: &Tensor) -> Result<Tensor> {
    arange_start_out_any(Scalar::Int(0), end, None, out)
}
fn arange_start_out_any(start: Scalar, end: Scalar, step: Option<Scalar>, out: &Tensor) -> Result<Tensor> {
    let step = step.unwrap_or(Scalar::Int(1));
    write_sequence(out, &arange_any(start, end, step, (out.dtype(), out.device()).into())?)
}
fn arange_step_any(
    start: Scalar,
    end: Scalar,
    step: Option<Scalar>,
    options: TensorOptions,
) -> Result<Tensor> {
    arange_any(start, end, step.unwrap_or(Scalar::Int(1)), options)
}

op! {
    /// The numbers from zero up to, but without, `end`. Integers give 64-bit integers unless a dtype is named.
    arange: "arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(arange_end_any; end, options));
    samples: |m| vec![sample![Scalar::Int(5), m.dtype], sample![Scalar::Int(0), m.dtype]];
}
op! {
    /// The numbers from `start` up to, but without, `end`.
    arange_start: "arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(arange_start_any; start, end, options));
    samples: |m| vec![sample![Scalar::Int(1), Scalar::Int(5), m.dtype]];
}
op! {
    /// The numbers from `start` up to, but without, `end`, `step` apart.
    arange_start_step: "arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(arange_step_any; start, end, step, options));
    samples: |m| vec![sample![Scalar::Int(1), Scalar::Int(9), Scalar::Int(3), m.dtype], sample![Scalar::Float(2.5), Scalar::Float(0.1), Scalar::Float(-0.5), m.dtype]];
}
op! {
    /// The numbers from zero up to, but without, `end`, written to `out` in its dtype.
    arange_out: "arange.out(Scalar end, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(arange_out_any; end, out));
}
op! {
    /// The numbers from `start` up to, but without, `end`, `step` apart, written to `out` in its dtype.
    arange_start_out: "arange.start_out(Scalar start, Scalar end, Scalar step=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(arange_start_out_any; start, end, step, out));
}

// ---- linspace, logspace -------------------------------------------------------------------------

/// Element `i` of `n` numbers from `a` to `b`: counted from the nearer end, so that both ends are exact.
fn between(a: f64, b: f64, step: f64, i: usize, n: usize) -> f64 {
    if i < n / 2 { a + step * i as f64 } else { b - step * (n - i - 1) as f64 }
}

/// `n` numbers from `start` to `end`, or the powers of `base` with those exponents.
fn spaced(
    op: &str,
    (start, end, n): (Scalar, Scalar, i64),
    base: Option<f64>,
    options: TensorOptions,
) -> Result<Tensor> {
    let dtype = options.dtype;
    ensure!(n >= 0, "number of steps must be non-negative");
    let inferred = match start.is_complex() || end.is_complex() {
        true => default_dtype().to_complex(),
        false => default_dtype(),
    };
    ensure!(
        dtype.is_none_or(|d| d.is_complex() || !inferred.is_complex()),
        "torch.{op}(): inferred dtype {} can't be safely cast to passed dtype {}",
        inferred.scalar_type_name(),
        dtype.unwrap_or(inferred).scalar_type_name()
    );
    let dtype = dtype.unwrap_or(inferred);
    if dtype == DType::Bool {
        return Err(not_for(&format!("{op}_cpu"), dtype));
    }
    start.fit(dtype)?;
    end.fit(dtype)?;
    dims::checked_numel(&[n])?;
    place(options.device, TensorSpec::new([n].as_slice(), dtype, Device::CPU), || {
        let count = n as usize;
        let apart = (n - 1).max(1) as f64;
        if dtype.is_complex() {
            let (a, b) = (start.to_complex(), end.to_complex());
            let (re, im) = ((b.re - a.re) / apart, (b.im - a.im) / apart);
            let at = |i: usize| match n {
                1 => a,
                _ => Complex::new(between(a.re, b.re, re, i, count), between(a.im, b.im, im, i, count)),
            };
            let power = |z: Complex<f64>| match base {
                None => z,
                Some(base) => power_of(base, z),
            };
            return crate::dispatch_dtype!(dtype, T in [complexes] => {
                tabulate::<T>(n, |i| T::from_c128(power(at(i))))
            }; else Err(not_for(op, dtype)));
        }
        let whole = dtype.is_integral(true);
        let end_of = |s: Scalar| if whole { s.to_i64() as f64 } else { s.to_f64() };
        let (a, b) = (end_of(start), end_of(end));
        let step = (b - a) / apart;
        let half = dtype != dtype.compute();
        let round = |x: f64| Scalar::Float(x).rounded(dtype).to_f64();
        let (low, high) = (round(a), round(b));
        let stride = round(round(high - low) / apart);
        if whole {
            // (The exponent of a single power is not truncated.)
            let lone = if base.is_some() { start.to_f64() } else { a };
            let at = |i: usize| if n == 1 { lone } else { between(a, b, step, i, count) };
            let at = |i: usize| base.map_or_else(|| at(i), |base| base.powf(at(i)));
            return crate::dispatch_dtype!(dtype, T in [ints] => tabulate::<T>(n, |i| T::from_i64(at(i) as i64));
                else Err(not_for(op, dtype)));
        }
        match base {
            _ if n <= 1 => tabulate_floats(n, dtype, &|_, out| out.fill(base.map_or(a, |base| base.powf(a)))),
            // Halves are rounded after every step; of exponents only the ends and their difference are.
            None if half => crate::dispatch_dtype!(dtype, T in [floats] => tabulate::<T>(n, |i| {
                T::from_f64(match i < count / 2 {
                    true => low + round(stride * i as f64),
                    false => high - round(stride * (count - i - 1) as f64),
                })
            }); else Err(not_for(op, dtype))),
            _ => tabulate_floats(n, dtype, &|start, out| {
                let of = base.map_or(Of::Itself, Of::PowerOf);
                let (a, b, step) = if half { (low, high, round(high - low) / apart) } else { (a, b, step) };
                // As `between` has it.
                let cut = (count / 2).saturating_sub(start).min(out.len());
                let (near, far) = out.split_at(cut);
                near.fill_line(Line { base: a, step, from: start as f64, direction: 1.0 }, of);
                if far.len() > 0 {
                    far.fill_line(Line { base: b, step: -step, from: (count - 1 - start - cut) as f64, direction: -1.0 }, of);
                }
            }),
        }
    })
}

/// `base` to a complex power.
fn power_of(base: f64, z: Complex<f64>) -> Complex<f64> {
    if base == 0.0 {
        let one = z.re == 0.0 && z.im == 0.0;
        return Complex::new(f64::from(u8::from(one)), 0.0);
    }
    // The logarithm of a negative base has the imaginary part pi.
    let (log, turn) = (base.abs().ln(), if base < 0.0 { std::f64::consts::PI } else { 0.0 });
    let (re, im) = (z.re * log - z.im * turn, z.im * log + z.re * turn);
    let radius = if z.im == 0.0 { base.abs().powf(z.re) } else { re.exp() };
    Complex::new(radius * im.cos(), if im == 0.0 { 0.0 } else { radius * im.sin() })
}

/// An end of a range, which a 0-d tensor may give.
fn end_of(op: &str, which: &str, end: Operand<'_>) -> Result<Scalar> {
    match end {
        Operand::Scalar(s) => Ok(s),
        Operand::Tensor(x) => {
            ensure!(
                x.dim() == 0,
                "{op} only supports 0-dimensional start and end tensors, but got {which} with {} dimension(s).",
                x.dim()
            );
            // Of a meta tensor, which has none, the kind of number is all that counts.
            if x.device().is_meta() { Tensor::zeros(&[], x.dtype())?.item() } else { x.item() }
        }
    }
}

fn linspace_any(start: Operand<'_>, end: Operand<'_>, steps: i64, options: TensorOptions) -> Result<Tensor> {
    let (start, end) = (end_of("linspace", "start", start)?, end_of("linspace", "end", end)?);
    spaced("linspace", (start, end, steps), None, options)
}
fn linspace_out_any(start: Operand<'_>, end: Operand<'_>, steps: i64, out: &Tensor) -> Result<Tensor> {
    let (start, end) = (end_of("linspace", "start", start)?, end_of("linspace", "end", end)?);
    write_sequence(out, &spaced("linspace", (start, end, steps), None, (out.dtype(), out.device()).into())?)
}

op! {
    /// `steps` numbers from `start` to `end`, both included, at equal distances. The ends may be 0-d tensors.
    linspace: "linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Overload TENSORS: "linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Overload START: "linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Overload END: "linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(linspace_any; start, end, steps, options));
    samples: |m| vec![sample![Scalar::Int(1), Scalar::Float(5.5), 4, m.dtype], sample![Scalar::Int(1), Scalar::Int(3), 1, m.dtype]];
}
op! {
    /// `steps` numbers from `start` to `end` at equal distances, written to `out` in its dtype.
    linspace_out: "linspace.out(Scalar start, Scalar end, int steps, *, Tensor(a!) out) -> Tensor(a!)",
        Overload TENSORS: "linspace.Tensor_Tensor_out(Tensor start, Tensor end, int steps, *, Tensor(a!) out) -> Tensor(a!)",
        Overload START: "linspace.Tensor_Scalar_out(Tensor start, Scalar end, int steps, *, Tensor(a!) out) -> Tensor(a!)",
        Overload END: "linspace.Scalar_Tensor_out(Scalar start, Tensor end, int steps, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(linspace_out_any; start, end, steps, out));
}

fn logspace_any(
    start: Operand<'_>,
    end: Operand<'_>,
    steps: i64,
    base: Option<f64>,
    options: TensorOptions,
) -> Result<Tensor> {
    let (start, end) = (end_of("logspace", "start", start)?, end_of("logspace", "end", end)?);
    spaced("logspace", (start, end, steps), Some(base.unwrap_or(10.0)), options)
}
fn logspace_out_any(start: Operand<'_>, end: Operand<'_>, steps: i64, base: Option<f64>, out: &Tensor) -> Result<Tensor> {
    let base = Some(base.unwrap_or(10.0));
    let (start, end) = (end_of("logspace", "start", start)?, end_of("logspace", "end", end)?);
    write_sequence(out, &spaced("logspace", (start, end, steps), base, (out.dtype(), out.device()).into())?)
}

op! {
    /// `steps` powers of `base`, the exponents from `start` to `end` at equal distances. The ends may be 0-d tensors.
    logspace: "logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Overload TENSORS: "logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Overload START: "logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Overload END: "logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(logspace_any; start, end, steps, base, options));
    samples: |m| vec![sample![Scalar::Int(0), Scalar::Int(3), 4, 2.0, m.dtype]];
}
op! {
    /// `steps` powers of `base` written to `out` in its dtype.
    logspace_out: "logspace.out(Scalar start, Scalar end, int steps, float base=10., *, Tensor(a!) out) -> Tensor(a!)",
        Overload TENSORS: "logspace.Tensor_Tensor_out(Tensor start, Tensor end, int steps, float base=10., *, Tensor(a!) out) -> Tensor(a!)",
        Overload START: "logspace.Tensor_Scalar_out(Tensor start, Scalar end, int steps, float base=10., *, Tensor(a!) out) -> Tensor(a!)",
        Overload END: "logspace.Scalar_Tensor_out(Scalar start, Tensor end, int steps, float base=10., *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(logspace_out_any; start, end, steps, base, out));
}

// ---- eye ----------------------------------------------------------------------------------------

fn eye_m_any(
    n: i64,
    m: i64,
    options: TensorOptions,
) -> Result<Tensor> {
    ensure!(n >= 0, "n must be greater or equal to 0, got {n}");
    ensure!(m >= 0, "m must be greater or equal to 0, got {m}");
    let out = Tensor::zeros(&[n, m], options)?;
    out.diagonal(0, 0, 1)?.fill_(1i64)?;
    Ok(out.unwritten())
}
fn eye_any(
    n: i64,
    options: TensorOptions,
) -> Result<Tensor> {
    eye_m_any(n, n, options)
}
fn eye_out_any(n: i64, out: &Tensor) -> Result<Tensor> {
    eye_m_out_any(n, n, out)
}
fn eye_m_out_any(n: i64, m: i64, out: &Tensor) -> Result<Tensor> {
    write_to(out, &eye_m_any(n, m, (out.dtype(), out.device()).into())?)
}

op! {
    /// The identity matrix of `n` rows.
    eye: "eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(eye_any; n, options));
    samples: |m| vec![sample![3, m.dtype]];
}
op! {
    /// `n` rows and `m` columns with ones on the diagonal and zeros elsewhere.
    eye_m: "eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(eye_m_any; n, m, options));
    samples: |m| vec![sample![2, 4, m.dtype], sample![3, 0, m.dtype]];
}
op! {
    /// The identity matrix of `n` rows, written to `out`.
    eye_out: "eye.out(SymInt n, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(eye_out_any; n, out));
}
op! {
    /// `n` rows and `m` columns with ones on the diagonal and zeros elsewhere, written to `out`.
    eye_m_out: "eye.m_out(SymInt n, SymInt m, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(eye_m_out_any; n, m, out));
}

// ---- triangles ----------------------------------------------------------------------------------

fn triangle_plan(op: &str, x: &Tensor) -> Result<TensorSpec> {
    ensure!(x.dim() >= 2, "{op}: input tensor must have at least 2 dimensions");
    Ok(TensorSpec::like(Dims::from_slice(x.sizes()), x))
}

fn triangle_run(x: &Tensor, diagonal: i64, upper: bool, outs: &[Tensor]) -> Result<()> {
    let out = &outs[0];
    if out.numel() == 0 {
        return Ok(());
    }
    if !out.is_contiguous() {
        let through = Tensor::fresh(x.device(), x.dtype(), Dims::from_slice(x.sizes()))?;
        triangle_run(x, diagonal, upper, std::slice::from_ref(&through))?;
        out.copy_(&through)?;
        return Ok(());
    }
    let x = x.contiguous()?;
    let (rows, columns) = (x.sizes()[x.dim() - 2], x.sizes()[x.dim() - 1]);
    let size = x.element_size();
    let _locks = LockSet::new([(x.storage(), false), (out.storage(), true)])?;
    let (from, to) = (Address(x.data_ptr()), Address(out.data_ptr()));
    let width = columns as usize;
    let all_rows = x.numel() as usize / width;
    parallel_for(all_rows, GRAIN / width + 1, &|range| {
        for row in range {
            let i = (row as i64) % rows;
            // The first column right of the (lower) triangle, or of the zeros before the upper one.
            let edge = i.saturating_add(diagonal).saturating_add(i64::from(!upper)).clamp(0, columns) as usize;
            let kept = if upper { edge..width } else { 0..edge };
            let zeros = if upper { 0..edge } else { edge..width };
            // SAFETY: row `row` of two contiguous tensors of the same sizes, which are locked; this task's alone.
            unsafe {
                let (from, to) = (from.get().add(row * width * size), to.get().add(row * width * size));
                std::ptr::copy_nonoverlapping(
                    from.add(kept.start * size),
                    to.add(kept.start * size),
                    kept.len() * size,
                );
                std::ptr::write_bytes(to.add(zeros.start * size), 0, zeros.len() * size);
            }
        }
    });
    Ok(())
}

fn tril_plan(x: &Tensor, _diagonal: Option<i64>) -> Result<TensorSpec> {
    triangle_plan("tril", x)
}
fn tril_run(x: &Tensor, diagonal: Option<i64>, outs: &[Tensor]) -> Result<()> {
    triangle_run(x, diagonal.unwrap_or(0), false, outs)
}
fn triu_plan(x: &Tensor, _diagonal: Option<i64>) -> Result<TensorSpec> {
    triangle_plan("triu", x)
}
fn triu_run(x: &Tensor, diagonal: Option<i64>, outs: &[Tensor]) -> Result<()> {
    triangle_run(x, diagonal.unwrap_or(0), true, outs)
}

op! {
    /// The lower triangle of matrices, up to the diagonal shifted by `diagonal` columns; zeros elsewhere.
    tril: "tril(Tensor self, SymInt diagonal=0) -> Tensor",
        InPlace INPLACE: "tril_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!)",
        Out OUT: "tril.out(Tensor self, SymInt diagonal=0, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(tril_plan; x, diagonal), run: run!(tril_run; x, diagonal) };
    derivative: backward! { self_(g, diagonal: i64) => g.tril(diagonal)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 4]), 0], sample![m.any(&[2, 4, 3]), -1], sample![m.any(&[2, 3, 3]), 2], sample![m.any(&[0, 3]), 1]];
    out_rule: OutRule::EXACT;
    fn tril(&self, diagonal: i64) -> Tensor [self, diagonal];
    fn tril_(&self, diagonal: i64) -> Tensor [self, diagonal] in INPLACE;
}
op! {
    /// The upper triangle of matrices, from the diagonal shifted by `diagonal` columns; zeros elsewhere.
    triu: "triu(Tensor self, SymInt diagonal=0) -> Tensor",
        InPlace INPLACE: "triu_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!)",
        Out OUT: "triu.out(Tensor self, SymInt diagonal=0, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(triu_plan; x, diagonal), run: run!(triu_run; x, diagonal) };
    derivative: backward! { self_(g, diagonal: i64) => g.triu(diagonal)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 4]), 0], sample![m.any(&[2, 4, 3]), -1], sample![m.any(&[2, 3, 3]), 2], sample![m.any(&[0, 3]), 1]];
    out_rule: OutRule::EXACT;
    fn triu(&self, diagonal: i64) -> Tensor [self, diagonal];
    fn triu_(&self, diagonal: i64) -> Tensor [self, diagonal] in INPLACE;
}

impl Tensor {
    /// The numbers from zero up to, but without, `n`.
    ///
    /// # Errors
    /// When `n` is negative, the dtype is boolean or complex, or memory runs out.
    pub fn arange(n: i64, dtype: DType) -> Result<Tensor> {
        factory(&arange::OP, &[Value::Scalar(Scalar::Int(n))], dtype.into())
    }
    /// The numbers from `start` up to, but without, `end`, `step` apart. Integers give 64-bit integers unless the
    /// options name a dtype.
    ///
    /// # Errors
    /// When `step` is zero or leads away from `end`, or memory runs out.
    pub fn arange_step(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        options: impl Into<TensorOptions>,
    ) -> Result<Tensor> {
        let args = [start.into().into(), end.into().into(), step.into().into()];
        factory(&arange_start_step::OP, &args, options.into())
    }
    /// `steps` numbers from `start` to `end`, both included, at equal distances.
    ///
    /// # Errors
    /// When `steps` is negative or memory runs out.
    pub fn linspace(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        steps: i64,
        options: impl Into<TensorOptions>,
    ) -> Result<Tensor> {
        factory(&linspace::OP, &[start.into().into(), end.into().into(), steps.into()], options.into())
    }
    /// `steps` powers of `base`, the exponents from `start` to `end` at equal distances.
    ///
    /// # Errors
    /// When `steps` is negative or memory runs out.
    pub fn logspace(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        steps: i64,
        base: f64,
        options: impl Into<TensorOptions>,
    ) -> Result<Tensor> {
        factory(&logspace::OP, &[start.into().into(), end.into().into(), steps.into(), base.into()], options.into())
    }
    /// A matrix of `n` rows and `m` columns with ones on the diagonal and zeros elsewhere.
    ///
    /// # Errors
    /// When a size is negative or memory runs out.
    pub fn eye(n: i64, m: i64, options: impl Into<TensorOptions>) -> Result<Tensor> {
        factory(&eye_m::OP, &[n.into(), m.into()], options.into())
    }
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    arange::ALL,
    arange_out::ALL,
    arange_start::ALL,
    arange_start_out::ALL,
    arange_start_step::ALL,
    eye::ALL,
    eye_m::ALL,
    eye_m_out::ALL,
    eye_out::ALL,
    linspace::ALL,
    linspace_out::ALL,
    logspace::ALL,
    logspace_out::ALL,
    tril::ALL,
    triu::ALL,
];
