//! Poolings by position: maxima over windows of random size, values put back to where a pooling found them, and the
//! gradients of maxima.

use super::index::zeros_to_read;
use super::loss::check_constant;
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims};
use crate::{Body, DType, Element, Error, MemoryFormat, Op, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;

/// The sizes of one plane, and the tensor as planes of so many elements.
fn planes(t: &Tensor, n: usize) -> Result<Tensor> {
    let at = t.dim() - n;
    let mut sizes = Dims::from_slice(&t.sizes()[..at]);
    sizes.push(t.sizes()[at..].iter().product());
    t.reshape(&sizes)
}

/// That no dim but the first is empty.
fn check_filled(op: &str, x: &Tensor) -> Result<()> {
    match (1..x.dim()).find(|d| x.sizes()[*d] == 0) {
        None => Ok(()),
        Some(d) => Err(Error::runtime(format!(
            "{op}(): Expected input to have non-zero size for non-batch dimensions, but got {:?} with dimension {d} being empty.",
            x.sizes()
        ))),
    }
}

// ---- gradients of maxima --------------------------------------------------------------------------

/// The gradient of a pooling that found its maxima at `indices`, flat positions in the input's planes.
pub(super) fn max_gradient<const N: usize>(g: &Tensor, x: &Tensor, indices: &Tensor) -> Result<Tensor> {
    ensure!(x.dim() == N + 1 || x.dim() == N + 2, "Expected {}D or {}D input, but got {:?}", N + 1, N + 2, x.sizes());
    ensure!(
        g.sizes() == indices.sizes() && g.dim() == x.dim() && g.sizes()[..g.dim() - N] == x.sizes()[..x.dim() - N],
        "Expected a gradient that fits input {:?} and indices {:?}, but got {:?}",
        x.sizes(),
        indices.sizes(),
        g.sizes()
    );
    ensure!(g.dtype() == x.dtype(), "expected dtype {} for `gradOutput` but got dtype {}", x.dtype().cpp_name(), g.dtype().cpp_name());
    let mut sizes = Dims::from_slice(&x.sizes()[..x.dim() - N]);
    sizes.push(x.sizes()[x.dim() - N..].iter().product());
    let flat = zeros_to_read(&sizes, g)?.scatter_add(-1, &planes(indices, N)?, &planes(g, N)?)?;
    let format = if x.dim() == N + 2 { x.suggested_memory_format() } else { MemoryFormat::Contiguous };
    flat.view(x.sizes())?.contiguous_in(format)
}

/// The elements at a pooling's maxima.
fn at_maxima<const N: usize>(x: &Tensor, indices: &Tensor) -> Result<Tensor> {
    planes(x, N)?.gather(-1, &planes(indices, N)?)?.view(indices.sizes())
}

/// Binds what the gradients of all poolings of maxima have in common: the first two arguments, and the indices at
/// position `at`.
fn max_gradient_of<const N: usize>(op: &'static Op, args: &[crate::Value<'_>], at: usize) -> Result<crate::Outputs> {
    crate::value::check_sorts(op, args)?;
    let take = |i| crate::value::take::<&Tensor>(op, args, i);
    max_gradient::<N>(take(0)?, take(1)?, take(at)?).map(crate::Outputs::One)
}

macro_rules! max_gradients {
    ($($n:literal $name:ident $at:literal $schema:literal $out:literal => |$m:ident| $rest:expr;)*) => { $(
        op! {
            /// The gradient of a pooling's input, given where it found its maxima.
            $name: $schema, Out OUT: $out;
            Body::Explicit(|op, _keys, args| max_gradient_of::<$n>(op, args, $at));
            derivative: backward! {
                grad_output(g, indices: Tensor) => at_maxima::<$n>(g, &indices)?,
                self_(_g, self_: Geometry) => self_.zeros()?,
            };
            forward: Forward::Linear;
            samples: |$m| match $m.dtype.is_floating_point() {
                true => {
                    let (g, x) = ($m.any(&[[2, 3].as_slice(), &[2; $n]].concat()), $m.any(&[[2, 3].as_slice(), &[4; $n]].concat()));
                    let mut sample = sample![g, x];
                    sample.args.extend($rest);
                    sample.args.push($m.indices(&[[2, 3].as_slice(), &[2; $n]].concat(), 4i64.pow($n)).into());
                    vec![sample]
                }
                false => vec![],
            };
        }
    )* };
}
/// The arguments of a pooling with fixed windows.
fn fixed_windows(n: usize) -> Vec<crate::OwnedValue> {
    vec![vec![2i64; n].into(), vec![2i64; n].into(), vec![0i64; n].into(), vec![1i64; n].into(), false.into()]
}
max_gradients! {
    2 max_pool2d_with_indices_backward 7
        "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"
        "max_pool2d_with_indices_backward.grad_input(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices, *, Tensor(a!) grad_input) -> Tensor(a!)"
        => |m| fixed_windows(2);
    3 max_pool3d_with_indices_backward 7
        "max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor"
        "max_pool3d_with_indices_backward.grad_input(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices, *, Tensor(a!) grad_input) -> Tensor(a!)"
        => |m| fixed_windows(3);
    2 adaptive_max_pool2d_backward 2
        "adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor"
        "adaptive_max_pool2d_backward.grad_input(Tensor grad_output, Tensor self, Tensor indices, *, Tensor(a!) grad_input) -> Tensor(a!)"
        => |m| [];
    3 adaptive_max_pool3d_backward 2
        "adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor"
        "adaptive_max_pool3d_backward.grad_input(Tensor grad_output, Tensor self, Tensor indices, *, Tensor(a!) grad_input) -> Tensor(a!)"
        => |m| [];
    2 fractional_max_pool2d_backward 4
        "fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] output_size, Tensor indices) -> Tensor"
        "fractional_max_pool2d_backward.grad_input(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] output_size, Tensor indices, *, Tensor(a!) grad_input) -> Tensor(a!)"
        => |m| [vec![2i64; 2].into(), vec![2i64; 2].into()];
    3 fractional_max_pool3d_backward 4
        "fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] output_size, Tensor indices) -> Tensor"
        "fractional_max_pool3d_backward.grad_input(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] output_size, Tensor indices, *, Tensor(a!) grad_input) -> Tensor(a!)"
        => |m| [vec![2i64; 3].into(), vec![2i64; 3].into()];
}

// ---- maxima put back ------------------------------------------------------------------------------

fn max_unpool(x: &Tensor, indices: &Tensor, output: &[i64]) -> Result<Tensor> {
    let n = output.len();
    ensure!(
        x.dim() == n + 1 || x.dim() == n + 2,
        "Input to max_unpooling{n}d should be a {}d or {}d Tensor, but got a tensor with {} dimensions.",
        n + 1,
        n + 2,
        x.dim()
    );
    ensure!(
        indices.dtype() == DType::I64,
        "elements in indices should be type int64 but got: {}",
        indices.dtype().scalar_type_name()
    );
    ensure!(
        x.sizes() == indices.sizes(),
        "Expected shape of indices to be same as that of the input tensor ({:?}) but got indices tensor with shape: {:?}",
        x.sizes(),
        indices.sizes()
    );
    check_filled(&format!("max_unpooling{n}d"), x)?;
    let at = x.dim() - n;
    let mut sizes = Dims::from_slice(&x.sizes()[..at]);
    sizes.extend_from_slice(output);
    let plane = dims::checked_numel(output)?;
    if !x.device().is_meta() && x.numel() > 0 {
        let bounds = [indices.min()?.item()?.to_i64(), indices.max()?.item()?.to_i64()];
        if let Some(wrong) = bounds.into_iter().find(|i| !(0..plane).contains(i)) {
            let volume = output.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
            return Err(Error::runtime(format!("Found an invalid max index: {wrong} (output volumes are of size {volume})")));
        }
    }
    let mut flat = Dims::from_slice(&sizes[..at]);
    flat.push(plane);
    let filled = zeros_to_read(&flat, x)?.scatter(-1, &planes(indices, n)?, &planes(x, n)?)?.view(&sizes)?;
    match x.suggested_memory_format() {
        format if n == 2 && x.dim() == 4 => filled.contiguous_in(format),
        _ => Ok(filled),
    }
}

fn max_unpool2d_any(x: &Tensor, indices: &Tensor, output: &[i64]) -> Result<Tensor> {
    let got = output.len();
    ensure!(got == 2, "There should be exactly two elements (height, width) in output_size, but got {got} elements.");
    max_unpool(x, indices, output)
}

op! {
    /// Values put where a pooling found them, zeros elsewhere; `indices` are flat positions in the output's planes.
    max_unpool2d: "max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
        Out OUT: "max_unpool2d.out(Tensor self, Tensor indices, SymInt[2] output_size, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(max_unpool2d_any; x, indices, output));
    derivative: backward! { self_(g, indices: Tensor) => at_maxima::<2>(g, &indices)? };
    forward: Forward::Linear;
    samples: |m| match Tensor::from_slice_of(&[0i64, 3, 9, 15], &[1, 2, 2]) {
        Ok(indices) => vec![sample![m.any(&[1, 2, 2]), indices, vec![4i64, 4]]],
        Err(_) => vec![],
    };
    fn max_unpool2d(&self, indices: &Tensor, output_size: &[i64]) -> Tensor [self, indices, output_size];
}

fn max_unpool3d_any(x: &Tensor, indices: &Tensor, output: &[i64], stride: &[i64], padding: &[i64]) -> Result<Tensor> {
    for (name, colon, values) in [("output_size", "", output), ("stride", ":", stride), ("padding", ":", padding)] {
        ensure!(
            values.len() == 3,
            "There should be exactly three elements (depth, height, width) in {name}, but got{colon} {} elements.",
            values.len()
        );
    }
    ensure!(stride.iter().all(|s| *s > 0), "strides should be greater than zero, but got stride: {stride:?}");
    max_unpool(x, indices, output)
}

op! {
    /// Values put where a pooling found them, zeros elsewhere; `indices` are flat positions in the output's volumes.
    max_unpool3d: "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor",
        Out OUT: "max_unpool3d.out(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(max_unpool3d_any; x, indices, output, stride, padding));
    derivative: backward! { self_(g, indices: Tensor) => at_maxima::<3>(g, &indices)? };
    forward: Forward::Linear;
    samples: |m| match Tensor::from_slice_of(&[0i64, 3, 9, 15], &[1, 1, 2, 2]) {
        Ok(indices) => vec![sample![m.any(&[1, 1, 2, 2]), indices, vec![2i64, 4, 4], vec![2i64; 3], vec![0i64; 3]]],
        Err(_) => vec![],
    };
    fn max_unpool3d(&self, indices: &Tensor, output_size: &[i64], stride: &[i64], padding: &[i64]) -> Tensor
        [self, indices, output_size, stride, padding];
}

// ---- windows of random size -----------------------------------------------------------------------

/// PyTorch's names for the axes.
const AXES: [&str; 3] = ["time", "height", "width"];

fn fractional_sizes(x: &Tensor, kernel: &[i64], output: &[i64], samples: &Tensor, n: usize) -> Result<Dims> {
    let op = format!("fractional_max_pool{n}d");
    for (name, values) in [("kernel_size", kernel), ("output_size", output)] {
        ensure!(values.len() == n, "{op}: {name} must either be a single Int or tuple of Ints");
        ensure!(values.iter().all(|v| *v > 0), "{op}: {name} must be greater than zero, but got {values:?}");
    }
    ensure!(
        x.dim() == n + 1 || x.dim() == n + 2,
        "{op}(): Expected {}D or {}D tensor, but got: {:?}",
        n + 1,
        n + 2,
        x.sizes()
    );
    check_constant(&op, "random_samples", Some(samples))?;
    check_filled(&op, x)?;
    let at = x.dim() - n;
    let (batch, channels) = (if x.dim() == n + 2 { x.sizes()[0] } else { 1 }, x.sizes()[at - 1]);
    ensure!(x.dtype() == samples.dtype(), "Expect _random_samples to have the same dtype as input");
    ensure!(samples.dim() == 3, "Expect _random_samples to have 3 dimensions, got {}", samples.dim());
    let [sn, sc, sd] = [samples.sizes()[0], samples.sizes()[1], samples.sizes()[2]];
    ensure!(sn >= batch, "Expect _random_samples.size(0) no less then input batch size.");
    ensure!(sc == channels, "Expect _random_samples.size(1) equals to input channel size.");
    ensure!(sd == n as i64, "Expect _random_samples.size(2) equals to {n}; got {sd}.");
    if !x.dtype().is_floating_point() {
        let name = x.dtype().scalar_type_name();
        return Err(Error::not_implemented(format!("\"{op}_out_frame\" not implemented for '{name}'")));
    }
    for (a, (k, (out, size))) in kernel.iter().zip(output.iter().zip(&x.sizes()[at..])).enumerate() {
        let axis = AXES[3 - n + a];
        ensure!(
            out.checked_add(k - 1).is_some_and(|last| last <= *size),
            "{op}(): pool {axis} {k} too large relative to input {axis} {size}"
        );
    }
    let mut sizes = Dims::from_slice(&x.sizes()[..at]);
    sizes.extend_from_slice(output);
    Ok(sizes)
}

fn fractional_plan<const N: usize>(x: &Tensor, kernel: &[i64], output: &[i64], samples: &Tensor) -> Result<[TensorSpec; 2]> {
    let values = TensorSpec::like(fractional_sizes(x, kernel, output, samples, N)?, x);
    let indices = values.clone().dtype(DType::I64);
    Ok([values, indices])
}

/// Where the windows of an axis begin (Graham, "Fractional max-pooling", 2014): at `floor((i + u) alpha)`, shifted to begin
/// with 0, in the arithmetic of `T`.
fn starts<T: Element>(sample: f64, size: i64, count: i64, kernel: i64) -> Vec<usize> {
    let round = |x: f64| T::from_f64(x).to_f64();
    let alpha = if count > 1 { round(round((size - kernel) as f64) / round((count - 1) as f64)) } else { 0.0 };
    let first = round(sample * alpha).trunc();
    let last = size - kernel;
    let start = |i: i64| match i + 1 == count {
        true => last as usize,
        false => (round(round(round(i as f64) + sample) * alpha).trunc() - first).clamp(0.0, last as f64) as usize,
    };
    (0..count).map(start).collect()
}

/// The maxima of one plane and their positions in it. The last NaN of a window is its maximum.
fn fractional_plane<T: Element>(
    plane: &[T],
    input: [usize; 3],
    kernel: [usize; 3],
    starts: &[Vec<usize>; 3],
    mut found: impl FnMut(usize, T, i64),
) {
    let mut k = 0;
    for &z in &starts[0] {
        for &y in &starts[1] {
            for &x in &starts[2] {
                let mut at = (z * input[1] + y) * input[2] + x;
                let mut best = f64::NEG_INFINITY;
                for dz in z..z + kernel[0] {
                    for dy in y..y + kernel[1] {
                        let row = (dz * input[1] + dy) * input[2];
                        for (dx, v) in plane[row + x..][..kernel[2]].iter().enumerate() {
                            let v = v.to_f64();
                            if v > best || v.is_nan() {
                                (best, at) = (v, row + x + dx);
                            }
                        }
                    }
                }
                found(k, plane[at], at as i64);
                k += 1;
            }
        }
    }
}

fn three<A: Copy>(rest: A, values: impl DoubleEndedIterator<Item = A>) -> [A; 3] {
    let mut out = [rest; 3];
    for (o, v) in out.iter_mut().rev().zip(values.rev()) {
        *o = v;
    }
    out
}

fn fractional_run<const N: usize>(x: &Tensor, kernel: &[i64], output: &[i64], samples: &Tensor, outs: &[Tensor]) -> Result<()> {
    let at = x.dim() - N;
    let count = x.sizes()[..at].iter().product::<i64>() as usize;
    let (input, windows) = (three(1, x.sizes()[at..].iter().copied()), three(1, kernel.iter().copied()));
    let spatial = three(1, output.iter().copied());
    let [plane, results] = [input, spatial].map(|s| s.iter().product::<i64>() as usize);
    let draws = samples.to_dtype(DType::F64)?.to_vec::<f64>()?;
    let x = x.contiguous()?;
    let (values, indices) = (outs[0].contiguous()?, outs[1].contiguous()?);
    dispatch_dtype!(x.dtype(), T in [floats] => {
        let _locks = LockSet::new([(x.storage(), false), (values.storage(), true), (indices.storage(), true)])?;
        let ends = (values.data_ptr() as usize, indices.data_ptr() as usize, x.data_ptr() as usize);
        let grain = (1 << 15) / results.saturating_mul(windows.iter().product::<i64>() as usize).max(1);
        flambeau_base::parallel::parallel_for(count, grain.max(1), &|range| {
            for p in range {
                // The draws are for the width first in two dims, for the depth first in three.
                let draw = |a: usize| draws[p * N + if N == 2 { 2 - a } else { a }];
                let along = |a: usize| match a >= 3 - N {
                    true => starts::<T>(draw(a), input[a], spatial[a], windows[a]),
                    false => vec![0],
                };
                let starts = [along(0), along(1), along(2)];
                // SAFETY: the tensors are row-major with these planes and locked; each plane is written once.
                let plane_of = unsafe { std::slice::from_raw_parts((ends.2 as *const T).add(p * plane), plane) };
                fractional_plane(plane_of, input.map(|s| s as usize), windows.map(|s| s as usize), &starts, |k, v, i| {
                    // SAFETY: as above; `k` counts the plane's results.
                    unsafe {
                        (ends.0 as *mut T).add(p * results + k).write(v);
                        (ends.1 as *mut i64).add(p * results + k).write(i);
                    }
                });
            }
        });
    }; else return Err(Error::runtime("fractional pooling is of floating-point numbers")));
    for (given, dense) in outs.iter().zip([&values, &indices]) {
        if !given.is_same(dense) {
            given.copy_(dense)?;
        }
    }
    Ok(())
}

macro_rules! fractional_pools {
    ($($n:literal $name:ident $schema:literal $out:literal;)*) => { $(
        op! {
            /// The largest element of each window, and its flat position in its plane. Windows have one size and begin at
            /// distances that vary with `random_samples`, numbers in [0, 1).
            $name: $schema, Out OUTPUT: $out;
            Body::Structured { plan: plan!(fractional_plan::<$n>; x, kernel, output, samples), run: run!(fractional_run::<$n>; x, kernel, output, samples) };
            derivative: backward! { self_(g, self_: Tensor, result1: Tensor) => max_gradient::<$n>(g, &self_, &result1)? };
            samples: |m| match m.dtype.is_floating_point() {
                true => vec![sample![m.any(&[[2, 3].as_slice(), &[5; $n]].concat()), vec![2i64; $n], vec![3i64; $n], m.uniform(&[2, 3, $n], 0.0, 0.99)]],
                false => vec![],
            };
            fn $name(&self, kernel_size: &[i64], output_size: &[i64], random_samples: &Tensor) -> (Tensor, Tensor)
                [self, kernel_size, output_size, random_samples];
        }
    )* };
}
fractional_pools! {
    2 fractional_max_pool2d
        "fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)"
        "fractional_max_pool2d.output(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples, *, Tensor(a!) output, Tensor(b!) indices) -> (Tensor(a!), Tensor(b!))";
    3 fractional_max_pool3d
        "fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> (Tensor, Tensor)"
        "fractional_max_pool3d.output(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples, *, Tensor(a!) output, Tensor(b!) indices) -> (Tensor(a!), Tensor(b!))";
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    adaptive_max_pool2d_backward::ALL,
    adaptive_max_pool3d_backward::ALL,
    fractional_max_pool2d::ALL,
    fractional_max_pool2d_backward::ALL,
    fractional_max_pool3d::ALL,
    fractional_max_pool3d_backward::ALL,
    max_pool2d_with_indices_backward::ALL,
    max_pool3d_with_indices_backward::ALL,
    max_unpool2d::ALL,
    max_unpool3d::ALL,
];
