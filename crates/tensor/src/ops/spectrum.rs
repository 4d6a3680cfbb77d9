//! Discrete Fourier transforms: three operators over any dims (complex to complex, real to complex, complex to real),
//! and `torch.fft`'s names, which are made of them.

use super::range::tabulate_floats;
use crate::autograd::Forward;
use crate::dims::{self, Dims, wrap_dim};
use crate::op::KernelFn;
use crate::{
    Body, DType, Error, KeySet, Op, Outputs, Result, Tensor, TensorSpec, Value, backward, default_dtype, ensure, sample,
};
use flambeau_base::storage::LockSet;
use flambeau_cpu::fft;
use flambeau_cpu::progression::{Line, Of};

// ---- the three transforms -------------------------------------------------------------------------

/// The factor of a transform of `n` elements: 0 is none, 1 is `1 / sqrt(n)`, 2 is `1 / n`.
fn factor(normalization: i64, n: f64) -> f64 {
    match normalization {
        0 => 1.0,
        1 => 1.0 / n.sqrt(),
        _ => 1.0 / n,
    }
}

/// How many elements a transform of these dims adds up.
fn count(sizes: &[i64], over: &[usize]) -> f64 {
    over.iter().map(|&d| sizes[d] as f64).product()
}

/// The dims, from the front.
fn dims_over(x: &Tensor, list: &[i64]) -> Result<Vec<usize>> {
    let over = list.iter().map(|&d| wrap_dim(d, x.dim())).collect::<Result<Vec<_>>>()?;
    ensure!(x.dim() > 0 || over.is_empty(), "a Fourier transform needs a dim");
    let repeated = over.iter().enumerate().any(|(i, d)| over[..i].contains(d));
    ensure!(!repeated, "FFT dims must be unique");
    Ok(over)
}

/// The order of memory of PyTorch's results: the other dims by falling stride, then those transformed, by falling stride
/// but for the last `fixed`.
fn memory_order(strides: &[i64], over: &[usize], fixed: usize) -> Vec<usize> {
    let by_stride = |dims: &mut [usize]| dims.sort_by_key(|&d| std::cmp::Reverse(strides[d]));
    let mut order: Vec<usize> = (0..strides.len()).filter(|d| !over.contains(d)).collect();
    by_stride(&mut order);
    let mut last = over.to_vec();
    let sorted = last.len() - fixed;
    by_stride(&mut last[..sorted]);
    order.extend(last);
    order
}

/// The strides of dense memory in which the dims stand in `order`.
fn strides_in(order: &[usize], sizes: &[i64]) -> Dims {
    let mut strides = Dims::from_elem(1, sizes.len());
    let mut step = 1i64;
    for &d in order.iter().rev() {
        strides[d] = step;
        step = step.saturating_mul(sizes[d].max(1));
    }
    strides
}

fn ordered(t: &Tensor, order: &[usize]) -> Result<Tensor> {
    let order: Dims = order.iter().map(|d| *d as i64).collect();
    t.permute(&order)
}

/// Runs with `out` if its dims stand in memory in `order`, else with a temporary that is copied to it.
fn with_order(out: &Tensor, order: &[usize], run: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    if ordered(out, order)?.is_contiguous() {
        return run(out);
    }
    let strides = strides_in(order, out.sizes());
    let dense = Tensor::fresh_strided(out.device(), out.dtype(), Dims::from_slice(out.sizes()), strides)?;
    run(&dense)?;
    out.copy_(&dense).map(drop)
}

/// Transforms dims of a tensor whose dims stand in memory in `order`, in place or from a source that lies like it.
fn transform(
    source: Option<&Tensor>,
    t: &Tensor,
    order: &[usize],
    over: &[usize],
    forward: bool,
    scale: f64,
) -> Result<()> {
    let _locks = LockSet::new([(source.unwrap_or(t).storage(), source.is_none()), (t.storage(), true)])?;
    for (k, &d) in over.iter().enumerate() {
        let at = order.iter().position(|o| *o == d).unwrap_or(0);
        let size = |dims: &[usize]| dims.iter().map(|&d| t.sizes()[d] as usize).product::<usize>();
        let axes = [size(&order[..at]), t.sizes()[d] as usize, size(&order[at + 1..])];
        let scale = if k + 1 == over.len() { scale } else { 1.0 };
        // The first transform takes what it reads to where the others go on.
        let from = source.filter(|_| k == 0).unwrap_or(t);
        // SAFETY: the tensors are dense in this order, the same or apart, and locked.
        unsafe { fft::complex(from.data_ptr(), t.data_ptr(), t.dtype(), axes, forward, scale) };
    }
    Ok(())
}

fn c2c_plan(x: &Tensor, list: &[i64], _normalization: i64, _forward: bool) -> Result<TensorSpec> {
    ensure!(x.dtype().is_complex(), "_fft_c2c expects a complex input tensor, but got {}", x.dtype().scalar_type_name());
    let over = dims_over(x, list)?;
    let strides = match over.is_empty() {
        true => dims::preserved_strides(x.sizes(), x.strides()),
        false => strides_in(&memory_order(x.strides(), &over, 0), x.sizes()),
    };
    Ok(TensorSpec::like(Dims::from_slice(x.sizes()), x).strided(strides))
}

fn c2c_run(x: &Tensor, list: &[i64], normalization: i64, forward: bool, outs: &[Tensor]) -> Result<()> {
    let over = dims_over(x, list)?;
    if over.is_empty() {
        return outs[0].copy_(x).map(drop);
    }
    let order = memory_order(x.strides(), &over, 0);
    with_order(&outs[0], &order, |out| {
        let alike = x.strides() == out.strides() && x.dtype() == out.dtype() && !x.shares_storage_with(out);
        if !alike {
            out.copy_(x)?;
        }
        transform(alike.then_some(x), out, &order, &over, forward, factor(normalization, count(x.sizes(), &over)))
    })
}

op! {
    /// The discrete Fourier transform over the given dims (`forward` is the direction of exp(-i)), scaled by nothing (0),
    /// the root of the number of elements (1) or the number (2).
    fft_c2c: "_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
        Out OUT: "_fft_c2c.out(Tensor self, SymInt[] dim, int normalization, bool forward, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(c2c_plan; x, over, normalization, forward), run: run!(c2c_run; x, over, normalization, forward) };
    derivative: backward! {
        self_(g, dim: Dims, normalization: i64, forward: bool) => g.fft_c2c(&dim, normalization, !forward)?
    };
    forward: Forward::Linear;
    samples: |m| match m.dtype.is_complex() {
        true => vec![sample![m.any(&[2, 3]), vec![1i64], 0, true], sample![m.any(&[2, 3, 4]), vec![0i64, 2], 1, false]],
        false => vec![],
    };
    ulp: 64.0;
    fn fft_c2c(&self, dim: &[i64], normalization: i64, forward: bool) -> Tensor [self, dim, normalization, forward];
}

fn r2c_plan(x: &Tensor, list: &[i64], _normalization: i64, onesided: bool) -> Result<TensorSpec> {
    ensure!(
        matches!(x.dtype(), DType::F32 | DType::F64),
        "_fft_r2c expects a real input tensor, but got {}",
        x.dtype().scalar_type_name()
    );
    let over = dims_over(x, list)?;
    ensure!(!over.is_empty(), "_fft_r2c must transform at least one axis");
    let mut sizes = Dims::from_slice(x.sizes());
    if let (true, Some(&last)) = (onesided, over.last()) {
        sizes[last] = sizes[last] / 2 + 1;
    }
    let strides = strides_in(&memory_order(x.strides(), &over, 1), &sizes);
    Ok(TensorSpec::like(sizes, x).dtype(x.dtype().to_complex()).strided(strides))
}

fn r2c_run(x: &Tensor, list: &[i64], normalization: i64, onesided: bool, outs: &[Tensor]) -> Result<()> {
    let over = dims_over(x, list)?;
    let Some((&last, rest)) = over.split_last() else { return Ok(()) };
    let out = &outs[0];
    let scale = factor(normalization, count(x.sizes(), &over));
    let (n, numel) = (x.sizes()[last], x.numel());
    if numel == 0 {
        return out.zero_().map(drop);
    }
    // Rows along the last transformed dim, which is the last in memory here.
    let order = memory_order(x.strides(), &over, 1);
    with_order(out, &order, |out| {
        let rows = ordered(x, &order)?.contiguous()?;
        let first = if rest.is_empty() { scale } else { 1.0 };
        {
            let _locks = LockSet::new([(rows.storage(), false), (out.storage(), true)])?;
            let count = (numel / n) as usize;
            // SAFETY: rows of `n` numbers, and of `n` or half as many in memory of that order, locked.
            unsafe { fft::real_to_complex(rows.data_ptr(), out.data_ptr(), x.dtype(), count, n as usize, !onesided, first) };
        }
        transform(None, out, &order, rest, true, scale)
    })
}

/// The gradient of a transform of real numbers.
fn r2c_backward(g: &Tensor, n: i64, list: &[i64], normalization: i64, onesided: bool) -> Result<Tensor> {
    let last = *list.last().ok_or_else(|| Error::runtime("_fft_r2c must transform at least one axis"))?;
    let missing = n - g.size(last)?;
    let whole = match onesided && missing > 0 {
        true => resized(g, &[wrap_dim(last, g.dim())?], &[n])?,
        false => g.clone(),
    };
    whole.fft_c2c(list, normalization, false)?.real()
}

op! {
    /// The discrete Fourier transform of real numbers over the given dims; with `onesided`, of the last one only the half
    /// that the rest follows from.
    fft_r2c: "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
        Out OUT: "_fft_r2c.out(Tensor self, int[] dim, int normalization, bool onesided, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(r2c_plan; x, over, normalization, onesided), run: run!(r2c_run; x, over, normalization, onesided) };
    derivative: backward! {
        self_(g, self_: crate::autograd::Geometry, dim: Dims, normalization: i64, onesided: bool) => {
            let last = wrap_dim(dim[dim.len() - 1], self_.dim())?;
            r2c_backward(g, self_.sizes[last], &dim, normalization, onesided)?
        }
    };
    forward: Forward::Linear;
    samples: |m| match m.dtype {
        DType::F32 | DType::F64 => vec![
            sample![m.any(&[2, 5]), vec![1i64], 0, true], sample![m.any(&[3, 4, 2]), vec![0i64, 1], 1, true], sample![m.any(&[2, 6]), vec![1i64], 2, false],
            sample![m.any(&[3, 4]), vec![1i64, 0], 0, false],
        ],
        _ => vec![],
    };
    ulp: 64.0;
    fn fft_r2c(&self, dim: &[i64], normalization: i64, onesided: bool) -> Tensor [self, dim, normalization, onesided];
}

/// The last dim of a transform to real numbers, the others, and the strides after these were transformed.
fn c2r_stages(x: &Tensor, list: &[i64]) -> Result<(usize, Vec<usize>, Dims)> {
    ensure!(x.dtype().is_complex(), "_fft_c2r expects a complex input tensor, but got {}", x.dtype().scalar_type_name());
    let mut over = dims_over(x, list)?;
    let last = over.pop().ok_or_else(|| Error::runtime("_fft_c2r must transform at least one axis"))?;
    let strides = match over.is_empty() {
        true => Dims::from_slice(x.strides()),
        false => strides_in(&memory_order(x.strides(), &over, 0), x.sizes()),
    };
    Ok((last, over, strides))
}

fn c2r_plan(x: &Tensor, list: &[i64], _normalization: i64, n: i64) -> Result<TensorSpec> {
    let (last, _, strides) = c2r_stages(x, list)?;
    ensure!(n >= 1, "Invalid number of data points ({n}) specified");
    ensure!(
        x.sizes()[last] == n / 2 + 1,
        "_fft_c2r: {n} real numbers need {} complex ones, but got {}",
        n / 2 + 1,
        x.sizes()[last]
    );
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[last] = n;
    let strides = strides_in(&memory_order(&strides, &[last], 0), &sizes);
    Ok(TensorSpec::like(sizes, x).dtype(x.dtype().to_real()).strided(strides))
}

fn c2r_run(x: &Tensor, list: &[i64], normalization: i64, n: i64, outs: &[Tensor]) -> Result<()> {
    let (last, rest, strides) = c2r_stages(x, list)?;
    let out = &outs[0];
    if out.numel() == 0 {
        return Ok(());
    }
    let scale = factor(normalization, count(x.sizes(), &rest) * n as f64);
    let order = memory_order(&strides, &[last], 0);
    let rows = match rest.is_empty() {
        true => ordered(x, &order)?.contiguous()?,
        false => {
            // A copy in any case, since it is transformed in place.
            let between = memory_order(x.strides(), &rest, 0);
            let copy = Tensor::fresh_strided(x.device(), x.dtype(), Dims::from_slice(x.sizes()), strides)?.copy_(x)?;
            transform(None, &copy, &between, &rest, false, 1.0)?;
            ordered(&copy, &order)?.contiguous()?
        }
    };
    with_order(out, &order, |out| {
        let _locks = LockSet::new([(rows.storage(), false), (out.storage(), true)])?;
        let count = (out.numel() / n) as usize;
        // SAFETY: rows of `n / 2 + 1` numbers, and of `n` in memory of that order, locked.
        unsafe { fft::complex_to_real(rows.data_ptr(), out.data_ptr(), out.dtype(), count, n as usize, scale) };
        Ok(())
    })
}

/// The gradient of a transform to real numbers: those that stand for two count twice.
fn c2r_backward(g: &Tensor, list: &[i64], normalization: i64) -> Result<Tensor> {
    let last = *list.last().ok_or_else(|| Error::runtime("_fft_c2r must transform at least one axis"))?;
    let half = g.fft_r2c(list, normalization, true)?;
    let (n, kept) = (g.size(last)?, half.size(last)?);
    let weights: Vec<f64> = (0..kept).map(|k| if k > 0 && k <= n - kept { 2.0 } else { 1.0 }).collect();
    let mut shape = vec![1; g.dim()];
    shape[wrap_dim(last, g.dim())?] = kept;
    half.mul(&Tensor::from_slice(&weights)?.to_options(Some(g.dtype()), Some(g.device()))?.view(&shape)?)
}

op! {
    /// The inverse of [`Tensor::fft_r2c`] with `onesided`: `last_dim_size` real numbers along the last of the dims.
    fft_c2r: "_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
        Out OUT: "_fft_c2r.out(Tensor self, int[] dim, int normalization, SymInt last_dim_size, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(c2r_plan; x, over, normalization, n), run: run!(c2r_run; x, over, normalization, n) };
    derivative: backward! { self_(g, dim: Dims, normalization: i64) => c2r_backward(g, &dim, normalization)? };
    forward: Forward::Linear;
    samples: |m| match m.dtype.is_complex() {
        true => vec![sample![m.any(&[2, 3]), vec![1i64], 2, 5], sample![m.any(&[2, 3, 4]), vec![2i64, 1], 1, 4]],
        false => vec![],
    };
    ulp: 64.0;
    fn fft_c2r(&self, dim: &[i64], normalization: i64, last_dim_size: i64) -> Tensor [self, dim, normalization, last_dim_size];
}

// ---- arguments of torch.fft -----------------------------------------------------------------------

/// The code of a `norm` argument: what `"forward"`, `"backward"` and `"ortho"` scale in this direction.
fn norm_code(norm: Option<&str>, forward: bool) -> Result<i64> {
    match norm {
        None | Some("backward") => Ok(if forward { 0 } else { 2 }),
        Some("forward") => Ok(if forward { 2 } else { 0 }),
        Some("ortho") => Ok(1),
        Some(other) => Err(Error::runtime(format!("Invalid normalization mode: \"{other}\""))),
    }
}

/// Whole numbers and booleans become the default dtype; with `complex`, real numbers complex ones.
fn promoted(x: &Tensor, complex: bool) -> Result<Tensor> {
    let dtype = match x.dtype() {
        d if d.is_complex() => d,
        DType::F32 | DType::F64 => x.dtype(),
        d if d.is_integral(true) => default_dtype(),
        d => return Err(Error::runtime(format!("Unsupported dtype {}", d.scalar_type_name()))),
    };
    x.to_dtype(if complex { dtype.to_complex() } else { dtype })
}

/// Cut off or filled with zeros to the given sizes.
fn resized(x: &Tensor, over: &[usize], sizes: &[i64]) -> Result<Tensor> {
    let mut x = x.clone();
    for (&d, &n) in over.iter().zip(sizes) {
        let size = x.sizes()[d];
        if n < size {
            x = x.slice(d as i64, Some(0), Some(n), 1)?;
        } else if n > size {
            let mut pad = vec![0; 2 * (x.dim() - d)];
            if let Some(end) = pad.last_mut() {
                *end = n - size;
            }
            x = x.constant_pad_nd(&pad, 0)?;
        }
    }
    Ok(x)
}

/// A dim from the front; there has to be one.
fn the_dim(x: &Tensor, dim: i64) -> Result<usize> {
    if x.dim() == 0 {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    wrap_dim(dim, x.dim())
}

fn check_points(n: i64) -> Result<()> {
    ensure!(n >= 1, "Invalid number of data points ({n}) specified");
    Ok(())
}

/// The dims to transform and their sizes: all dims without either argument, the last ones with sizes only. A size of -1
/// is the input's.
fn shape_and_dims(x: &Tensor, sizes: Option<&[i64]>, list: Option<&[i64]>) -> Result<(Vec<i64>, Vec<usize>)> {
    let n = x.dim();
    let mut over = match list {
        Some(list) => {
            let over = list.iter().map(|&d| the_dim(x, d)).collect::<Result<Vec<_>>>()?;
            let repeated = over.iter().enumerate().any(|(i, d)| over[..i].contains(d));
            ensure!(!repeated, "FFT dims must be unique");
            Some(over)
        }
        None => None,
    };
    if let Some(sizes) = sizes {
        ensure!(
            over.as_ref().is_none_or(|o| o.len() == sizes.len()),
            "When given, dim and shape arguments must have the same length"
        );
        let k = sizes.len();
        ensure!(k <= n, "Got shape with {k} values but input tensor only has {n} dimensions.");
        over.get_or_insert_with(|| (n - k..n).collect());
    }
    let over = over.unwrap_or_else(|| (0..n).collect());
    let own = |i: usize| x.sizes()[over[i]];
    let shape: Vec<i64> = (0..over.len())
        .map(|i| match sizes {
            Some(sizes) if sizes[i] != -1 => sizes[i],
            _ => own(i),
        })
        .collect();
    shape.iter().try_for_each(|n| check_points(*n))?;
    Ok((shape, over))
}

/// The same where the last dim is half of a Hermitian one: also that one's size.
fn shape_and_dims_of_half(
    name: &str,
    x: &Tensor,
    sizes: Option<&[i64]>,
    list: Option<&[i64]>,
) -> Result<(Vec<i64>, Vec<usize>, i64)> {
    let (mut shape, over) = shape_and_dims(x, sizes, list)?;
    let (Some(last), Some(&d)) = (shape.last_mut(), over.last()) else {
        return Err(Error::runtime(format!("{name} must transform at least one axis")));
    };
    let n = match sizes.and_then(|s| s.last()) {
        Some(&n) if n != -1 => n,
        _ => 2 * (x.sizes()[d] - 1),
    };
    check_points(n)?;
    *last = n / 2 + 1;
    Ok((shape, over, n))
}

fn signed(over: &[usize]) -> Dims {
    over.iter().map(|d| *d as i64).collect()
}

// ---- one dim --------------------------------------------------------------------------------------

fn c2c_1d(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>, forward: bool) -> Result<Tensor> {
    let d = the_dim(x, dim)?;
    check_points(n.unwrap_or(x.sizes()[d]))?;
    let x = n.map_or_else(|| Ok(x.clone()), |n| resized(x, &[d], &[n]))?;
    x.fft_c2c(&[d as i64], norm_code(norm, forward)?, forward)
}

fn r2c_1d(name: &str, x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>, forward: bool, onesided: bool) -> Result<Tensor> {
    ensure!(!x.dtype().is_complex(), "{name} expects a real input tensor, but got {}", x.dtype().scalar_type_name());
    let x = promoted(x, false)?;
    let d = the_dim(&x, dim)?;
    check_points(n.unwrap_or(x.sizes()[d]))?;
    let x = n.map_or_else(|| Ok(x.clone()), |n| resized(&x, &[d], &[n]))?;
    let y = x.fft_r2c(&[d as i64], norm_code(norm, forward)?, onesided)?;
    if forward { Ok(y) } else { y.conj() }
}

fn c2r_1d(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>, forward: bool) -> Result<Tensor> {
    let x = promoted(x, true)?;
    let d = the_dim(&x, dim)?;
    let size = n.unwrap_or(2 * (x.sizes()[d] - 1));
    check_points(size)?;
    let x = if n.is_some() { resized(&x, &[d], &[size / 2 + 1])? } else { x };
    let x = if forward { x.conj()? } else { x };
    x.fft_c2r(&[d as i64], norm_code(norm, forward)?, size)
}

fn fft_any(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    if x.dtype().is_complex() { c2c_1d(x, n, dim, norm, true) } else { r2c_1d("fft", x, n, dim, norm, true, false) }
}
fn ifft_any(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    if x.dtype().is_complex() { c2c_1d(x, n, dim, norm, false) } else { r2c_1d("ifft", x, n, dim, norm, false, false) }
}
fn rfft_any(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    r2c_1d("rfft", x, n, dim, norm, true, true)
}
fn ihfft_any(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    r2c_1d("ihfft", x, n, dim, norm, false, true)
}
fn irfft_any(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    c2r_1d(x, n, dim, norm, false)
}
fn hfft_any(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    c2r_1d(x, n, dim, norm, true)
}

// ---- several dims ---------------------------------------------------------------------------------

fn c2c_nd(x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>, forward: bool) -> Result<Tensor> {
    let (shape, over) = shape_and_dims(x, s, dim)?;
    let x = resized(&promoted(x, true)?, &over, &shape)?;
    x.fft_c2c(&signed(&over), norm_code(norm, forward)?, forward)
}
fn fftn_any(x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    c2c_nd(x, s, dim, norm, true)
}
fn ifftn_any(x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    c2c_nd(x, s, dim, norm, false)
}

fn real_nd(name: &str, x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>) -> Result<(Tensor, Dims)> {
    ensure!(!x.dtype().is_complex(), "{name} expects a real-valued input tensor, but got {}", x.dtype().scalar_type_name());
    let (shape, over) = shape_and_dims(x, s, dim)?;
    ensure!(!shape.is_empty(), "{name} must transform at least one axis");
    Ok((resized(&promoted(x, false)?, &over, &shape)?, signed(&over)))
}

fn rfftn_any(x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    let (x, over) = real_nd("rfftn", x, s, dim)?;
    x.fft_r2c(&over, norm_code(norm, true)?, true)
}
fn ihfftn_any(x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    let (x, over) = real_nd("ihfftn", x, s, dim)?;
    let norm = norm_code(norm, false)?;
    let last = over.len() - 1;
    let y = x.fft_r2c(&over[last..], norm, true)?.conj()?;
    if last == 0 { Ok(y) } else { y.fft_c2c(&over[..last], norm, false) }
}

fn irfftn_any(x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    let (shape, over, n) = shape_and_dims_of_half("irfftn", x, s, dim)?;
    resized(&promoted(x, true)?, &over, &shape)?.fft_c2r(&signed(&over), norm_code(norm, false)?, n)
}
fn hfftn_any(x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    let (shape, over, n) = shape_and_dims_of_half("hfftn", x, s, dim)?;
    let x = resized(&promoted(x, true)?, &over, &shape)?;
    let norm = norm_code(norm, true)?;
    let over = signed(&over);
    let last = over.len() - 1;
    let x = if last == 0 { x } else { x.fft_c2c(&over[..last], norm, true)? };
    x.conj()?.fft_c2r(&over[last..], norm, n)
}

/// A transform of two dims is one of many, over the last two if none are given.
fn over_two(many: KernelFn, op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let at = |i: usize| args.get(i).copied().unwrap_or(Value::None);
    let dim = if matches!(at(2), Value::None) { Value::Ints(&[-2, -1]) } else { at(2) };
    many(op, keys, &[at(0), at(1), dim, at(3)])
}

/// Whether a transform of any dims is of one: by the dims named, else the sizes, else the tensor.
fn over_one(write: &crate::Write<'_, '_>) -> bool {
    match write.inputs {
        [_, _, crate::Value::Ints(dims), ..] | [_, crate::Value::Ints(dims), ..] => dims.len() == 1,
        [crate::Value::Tensor(x), ..] => x.dim() == 1,
        _ => false,
    }
}

/// Transforms write to any dtype of the result's kind; those that conjugate or scale what they have written, to its own.
fn transform_writes(write: &crate::Write<'_, '_>) -> Result<()> {
    let (result, out) = (write.result, write.out);
    let name = write.op.name().trim_start_matches("fft_");
    let function = match name {
        "ifft2" | "ifftn" => "fftn".to_string(),
        _ => name.replace('2', "n"),
    };
    match result.is_complex() {
        true => ensure!(
            out.is_complex(),
            "{function} expects a complex output tensor, but got {}",
            out.scalar_type_name()
        ),
        false => ensure!(
            out.is_floating_point(),
            "{function} expects a floating point output tensor, but got {}",
            out.scalar_type_name()
        ),
    }
    match name {
        "ifft" if write.input_dtype(0).is_some_and(DType::is_complex) => Ok(()),
        "ifft" | "ihfft" => crate::out::uncast(result, out),
        "ihfft2" | "ihfftn" if over_one(write) => crate::out::uncast(out, result),
        _ => Ok(()),
    }
}

/// Whether a transform of one dim has its given tensor row-major: the inverse ones of real numbers write to it directly.
fn transform_reorders(write: &crate::Write<'_, '_>) -> bool {
    let direct = matches!(write.op.name(), "fft_ifft" | "fft_ihfft");
    !direct || write.input_dtype(0).is_some_and(DType::is_complex)
}

/// The transforms of one dim, of two and of any.
macro_rules! transforms {
    ($($(#[doc = $doc:expr])* $one:ident $two:ident $many:ident: $kernel:ident $kernel_nd:ident, $input:expr;)*) => { $(
        op! {
            $(#[doc = $doc])*
            #[doc = "Over one dim, of size `n`."]
            $one: concat!(stringify!($one), "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"),
                Out OUT: concat!(stringify!($one), ".out(Tensor self, SymInt? n=None, int dim=-1, str? norm=None, *, Tensor(a!) out) -> Tensor(a!)");
            Body::Composite(kernel!($kernel; x, n, dim, norm));
            samples: |m| match suits(m.dtype, $input) {
                true => vec![sample![m.any(&[2, 5]), (), -1, ()], sample![m.any(&[4, 3]), 6, 0, "ortho"], sample![m.any(&[4, 3]), 3, 0, "forward"]],
                false => vec![],
            };
            ulp: 64.0;
            out_rule: crate::OutRule::call(transform_writes).row_major_if(transform_reorders);
            fn $one(&self, n: Option<i64>, dim: i64, norm: Option<&str>) -> Tensor [self, n, dim, norm];
        }
        op! {
            $(#[doc = $doc])*
            #[doc = "Over two dims, of sizes `s`."]
            $two: concat!(stringify!($two), "(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"),
                Out OUT: concat!(stringify!($two), ".out(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None, *, Tensor(a!) out) -> Tensor(a!)");
            Body::Composite(|op, keys, args| over_two(kernel!($kernel_nd; x, s, dim, norm), op, keys, args));
            samples: |m| match suits(m.dtype, $input) {
                true => vec![sample![m.any(&[2, 3, 4]), (), vec![-2i64, -1], ()], sample![m.any(&[4, 3]), vec![3i64, 5], vec![1i64, 0], "ortho"]],
                false => vec![],
            };
            ulp: 64.0;
            out_rule: crate::OutRule::call(transform_writes).row_major();
            fn $two(&self, s: Option<&[i64]>, dim: &[i64], norm: Option<&str>) -> Tensor [self, s, dim, norm];
        }
        op! {
            $(#[doc = $doc])*
            #[doc = "Over the given dims or all, of sizes `s`."]
            $many: concat!(stringify!($many), "(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"),
                Out OUT: concat!(stringify!($many), ".out(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None, *, Tensor(a!) out) -> Tensor(a!)");
            Body::Composite(kernel!($kernel_nd; x, s, dim, norm));
            samples: |m| match suits(m.dtype, $input) {
                true => vec![sample![m.any(&[2, 3, 4]), (), (), ()], sample![m.any(&[2, 3, 4]), vec![3i64, 5], vec![2i64, 0], "forward"]],
                false => vec![],
            };
            ulp: 64.0;
            out_rule: crate::OutRule::call(transform_writes).row_major();
            fn $many(&self, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Tensor [self, s, dim, norm];
        }
    )* };
}

/// Which numbers a transform's samples are of.
#[derive(PartialEq)]
enum Input {
    Any,
    Real,
}

fn suits(dtype: DType, input: Input) -> bool {
    !matches!(dtype, DType::F16 | DType::BF16) && (input == Input::Any || !dtype.is_complex())
}

transforms! {
    /// The discrete Fourier transform.
    fft_fft fft_fft2 fft_fftn: fft_any fftn_any, Input::Any;
    /// The inverse of the discrete Fourier transform.
    fft_ifft fft_ifft2 fft_ifftn: ifft_any ifftn_any, Input::Any;
    /// The discrete Fourier transform of real numbers: of the last dim the half that the rest follows from.
    fft_rfft fft_rfft2 fft_rfftn: rfft_any rfftn_any, Input::Real;
    /// The inverse of the discrete Fourier transform of real numbers.
    fft_irfft fft_irfft2 fft_irfftn: irfft_any irfftn_any, Input::Any;
    /// The discrete Fourier transform of numbers that are Hermitian along the last dim, of which half is given.
    fft_hfft fft_hfft2 fft_hfftn: hfft_any hfftn_any, Input::Any;
    /// The inverse of the discrete Fourier transform of numbers that are Hermitian along the last dim.
    fft_ihfft fft_ihfft2 fft_ihfftn: ihfft_any ihfftn_any, Input::Real;
}

// ---- frequencies ----------------------------------------------------------------------------------

fn shifted(x: &Tensor, dim: Option<&[i64]>, by: impl Fn(i64) -> i64) -> Result<Tensor> {
    let over: Dims = match dim {
        Some(list) => Dims::from_slice(list),
        None => (0..x.dim() as i64).collect(),
    };
    let shifts = over.iter().map(|&d| x.size(d).map(&by)).collect::<Result<Dims>>()?;
    x.roll(&shifts, &over)
}
fn fftshift_any(x: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    shifted(x, dim, |n| n / 2)
}
fn ifftshift_any(x: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    shifted(x, dim, |n| (n + 1) / 2)
}

op! {
    /// The frequency 0 moved to the middle.
    fft_fftshift: "fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor";
    Body::Composite(kernel!(fftshift_any; x, dim));
    samples: |m| vec![sample![m.any(&[4, 5]), ()], sample![m.any(&[4, 5]), vec![1i64]]];
    fn fft_fftshift(&self, dim: Option<&[i64]>) -> Tensor [self, dim];
}
op! {
    /// The frequency 0 moved from the middle to the front.
    fft_ifftshift: "fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor";
    Body::Composite(kernel!(ifftshift_any; x, dim));
    samples: |m| vec![sample![m.any(&[4, 5]), ()], sample![m.any(&[4, 5]), vec![1i64]]];
    fn fft_ifftshift(&self, dim: Option<&[i64]>) -> Tensor [self, dim];
}

/// The frequencies of `n` samples at distances `d`, all or the half that is not negative.
fn frequencies(name: &str, n: i64, d: f64, half: bool, options: crate::TensorOptions) -> Result<Tensor> {
    let (dtype, device) = options.or_default();
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        "{name} requires a floating point or complex dtype, but got {}",
        dtype.scalar_type_name()
    );
    ensure!(n >= 0 || half, "upper bound and lower bound inconsistent with step sign");
    let count = if half { n / 2 + 1 } else { n };
    if matches!(dtype, DType::F32 | DType::F64) && device.is_cpu() && (1..1 << 24).contains(&n) {
        // What is multiplied is exact in both, so that the product in double precision rounds as one in single does.
        let scale = 1.0 / (n as f64 * d);
        let step = if dtype == DType::F32 { f64::from(scale as f32) } else { scale };
        let positive = if half { count } else { (n + 1) / 2 } as usize;
        return tabulate_floats(count, dtype, &|start, part| {
            let line = |from: f64| Line { base: -0.0, step, from, direction: 1.0 };
            let len = part.len();
            let (first, second) = part.split_at(positive.saturating_sub(start).min(len));
            let after = positive.max(start) as f64 - n as f64;
            first.fill_line(line(start as f64), Of::Itself);
            second.fill_line(line(after), Of::Itself);
        });
    }
    let k = Tensor::arange(count, DType::I64)?;
    let k = match half || n == 0 {
        true => k,
        // The second half stands for negative frequencies.
        false => Tensor::where_(&k.ge((n + 1) / 2)?, &k.sub(n)?, &k)?,
    };
    k.to_options(Some(dtype), Some(device))?.mul(1.0 / (n as f64 * d))
}

fn fftfreq_any(n: i64, d: f64, options: crate::TensorOptions) -> Result<Tensor> {
    frequencies("fftfreq", n, d, false, options)
}
fn rfftfreq_any(n: i64, d: f64, options: crate::TensorOptions) -> Result<Tensor> {
    frequencies("rfftfreq", n, d, true, options)
}
fn fftfreq_out_any(n: i64, d: f64, out: &Tensor) -> Result<Tensor> {
    super::range::write_to(out, &fftfreq_any(n, d, (out.dtype(), out.device()).into())?)
}
fn rfftfreq_out_any(n: i64, d: f64, out: &Tensor) -> Result<Tensor> {
    super::range::write_to(out, &rfftfreq_any(n, d, (out.dtype(), out.device()).into())?)
}

op! {
    /// The frequencies of a discrete Fourier transform's results, per unit of the distance `d` of samples.
    fft_fftfreq: "fft_fftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(fftfreq_any; n, d, options));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![5, 0.5, m.dtype]] } else { vec![] };
}
op! {
    /// The frequencies of a discrete Fourier transform's results, in `out`'s dtype.
    fft_fftfreq_out: "fft_fftfreq.out(int n, float d=1., *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(fftfreq_out_any; n, d, out));
}
op! {
    /// The frequencies of the results of a transform of real numbers, per unit of the distance `d` of samples.
    fft_rfftfreq: "fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(rfftfreq_any; n, d, options));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![5, 0.5, m.dtype]] } else { vec![] };
}
op! {
    /// The frequencies of the results of a transform of real numbers, in `out`'s dtype.
    fft_rfftfreq_out: "fft_rfftfreq.out(int n, float d=1., *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(rfftfreq_out_any; n, d, out));
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    fft_c2c::ALL,
    fft_c2r::ALL,
    fft_fft2::ALL,
    fft_fft::ALL,
    fft_fftfreq::ALL,
    fft_fftfreq_out::ALL,
    fft_fftn::ALL,
    fft_fftshift::ALL,
    fft_hfft2::ALL,
    fft_hfft::ALL,
    fft_hfftn::ALL,
    fft_ifft2::ALL,
    fft_ifft::ALL,
    fft_ifftn::ALL,
    fft_ifftshift::ALL,
    fft_ihfft2::ALL,
    fft_ihfft::ALL,
    fft_ihfftn::ALL,
    fft_irfft2::ALL,
    fft_irfft::ALL,
    fft_irfftn::ALL,
    fft_r2c::ALL,
    fft_rfft2::ALL,
    fft_rfft::ALL,
    fft_rfftfreq::ALL,
    fft_rfftfreq_out::ALL,
    fft_rfftn::ALL,
];
