//! Pooling: maxima and averages over windows, fixed or adaptive, in one to three dimensions.

use super::index::zeros_to_read;
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims, wrap_dim};
use crate::value::{Bind, Outputs};
use crate::{Body, DType, Error, MemoryFormat, Op, Result, Tensor, TensorSpec, Value, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::pool::{self, PoolShape, pool_windows};

/// A pooling's windows and geometry for an input (N, C, ...) or (C, ...).
struct Pooling {
    shape: PoolShape,
    output: Dims,
    format: MemoryFormat,
}

/// One value per spatial dim, behind `default`s: a single one serves all.
fn spread(op: &str, name: &str, values: &[i64], n: usize, default: i64) -> Result<[i64; 3]> {
    if values.len() != 1 && values.len() != n {
        let label = op.trim_end_matches("_with_indices");
        let (must, omitted) = match op {
            "avg_pool3d" => ("must be", ""),
            _ if name == "dilation" => ("must be either", ""),
            _ if name == "stride" => ("must either be", "omitted, "),
            _ => ("must either be", ""),
        };
        let got = values.len();
        return Err(Error::runtime(match (n, op) {
            (1, "max_pool1d") => {
                format!("{op}() {name} must be an int, list of ints, or tuple of ints of size 1 but got size {got}")
            }
            (1, _) => format!("{label}() argument '{name}' should contain one int (got {got})"),
            _ => format!("{label}: {name} {must} {omitted}a single int, or a tuple of {} ints", ["two", "three"][n - 2]),
        }));
    }
    ensure!(
        values.iter().all(|v| i32::try_from(*v).is_ok()),
        "value cannot be converted to type int without overflow"
    );
    let mut out = [default; 3];
    for d in 0..n {
        out[3 - n + d] = values[if values.len() == 1 { 0 } else { d }];
    }
    Ok(out)
}

/// Values per axis as messages have them, depth only where there is one: `kH: 2 kW: 3`.
fn per_axis(prefix: &str, values: &[i64; 3], n: usize) -> String {
    let named = ["T", "H", "W"].iter().zip(values).skip(usize::from(n < 3));
    named.map(|(axis, v)| format!("{prefix}{axis}: {v}")).collect::<Vec<_>>().join(" ")
}

/// The windows of a pooling as they were asked for: `[depth, height, width]`.
struct Windows {
    kernel: [i64; 3],
    stride: [i64; 3],
    padding: [i64; 3],
    dilation: [i64; 3],
}

impl Windows {
    fn of(op: &str, n: usize, kernel: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64]) -> Result<Windows> {
        Ok(Windows {
            kernel: spread(op, "kernel_size", kernel, n, 1)?,
            stride: spread(op, "stride", if stride.is_empty() { kernel } else { stride }, n, 1)?,
            padding: spread(op, "padding", padding, n, 0)?,
            dilation: spread(op, "dilation", dilation, n, 1)?,
        })
    }

    /// What PyTorch's poolings over one to three dims refuse, in its order.
    fn check(&self, n: usize) -> Result<()> {
        for a in 3 - n..3 {
            let (k, s, p, d) = (self.kernel[a], self.stride[a], self.padding[a], self.dilation[a]);
            ensure!(s != 0, "stride should not be zero");
            ensure!(p >= 0, "pad must be non-negative, but got pad: {p}");
            ensure!(
                p <= k.saturating_sub(1).saturating_mul(d).saturating_add(1) / 2,
                "pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}"
            );
        }
        for (name, prefix, values) in [
            ("kernel size", "k", &self.kernel),
            ("stride", "d", &self.stride),
            ("dilation", "dilation", &self.dilation),
        ] {
            let positive = values.iter().all(|v| *v > 0);
            ensure!(positive, "{name} should be greater than zero, but got {}", per_axis(prefix, values, n));
        }
        Ok(())
    }

    /// What `max_pool1d` refuses, in its words.
    fn check_1d(&self) -> Result<()> {
        let (k, s, p, d) = (self.kernel[2], self.stride[2], self.padding[2], self.dilation[2]);
        for (name, v) in [("kernel_size", k), ("stride", s)] {
            ensure!(v > 0, "max_pool1d() {name} must be greater than zero, but got {v}");
        }
        ensure!(p >= 0, "max_pool1d() padding must be non-negative, but got {p}");
        ensure!(
            p <= k / 2,
            "max_pool1d() padding should be at most half of kernel size, but got padding={p} and kernel_size={k}"
        );
        ensure!(d > 0, "max_pool1d() dilation must be greater than zero, but got {d}");
        Ok(())
    }
}

fn three(sizes: &[i64]) -> [usize; 3] {
    let mut out = [1; 3];
    for (d, &s) in sizes.iter().enumerate() {
        out[3 - sizes.len() + d] = s as usize;
    }
    out
}

/// The sizes as the poolings over two dims see them, where a sequence is an image of height 1.
fn shown_sizes(x: &Tensor, n: usize) -> Dims {
    let mut sizes = Dims::from_slice(x.sizes());
    if n == 1 && !sizes.is_empty() {
        sizes.insert(sizes.len() - 1, 1);
    }
    sizes
}

/// Whether only the batch may be empty.
fn has_planes(x: &Tensor, n: usize) -> bool {
    (x.dim() == n + 1 || x.dim() == n + 2) && x.sizes()[x.dim() - n - 1..].iter().all(|s| *s > 0)
}

fn check_dims(op: &str, x: &Tensor, n: usize) -> Result<()> {
    match (n, op.starts_with("max")) {
        (1, _) => between_2_and_3_dims(op.trim_end_matches("_with_indices"), x),
        // The average's dims are looked at together with their sizes.
        (2, false) => wrap_dim(-3, x.dim()).map(drop),
        _ => {
            let fits = x.dim() == n + 1 || x.dim() == n + 2;
            ensure!(fits, "non-empty {}D or {}D (batch mode) tensor expected for input", n + 1, n + 2);
            Ok(())
        }
    }
}

fn between_2_and_3_dims(op: &str, x: &Tensor) -> Result<()> {
    ensure!(
        x.dim() == 2 || x.dim() == 3,
        "Expected 2 to 3 dimensions, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for {op})",
        x.dim()
    );
    Ok(())
}

fn check_planes(op: &str, x: &Tensor, n: usize) -> Result<()> {
    let sizes = shown_sizes(x, n);
    if n < 3 {
        ensure!(
            has_planes(x, n),
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{:?}",
            &sizes[..]
        );
    }
    ensure!(
        has_planes(x, n),
        "{op}(): Expected input's non-batch dimensions to have positive length, but input has a shape of {:?} and \
         non-batch dimension {} has length zero!",
        x.sizes(),
        x.sizes().iter().rposition(|s| *s == 0).unwrap_or(0)
    );
    Ok(())
}

fn check_dtype(op: &str, x: &Tensor) -> Result<()> {
    match pool::supports(x.dtype()) {
        true => Ok(()),
        false => Err(Error::not_implemented(format!("\"{op}\" not implemented for '{}'", x.dtype().scalar_type_name()))),
    }
}

impl Pooling {
    /// The result is in the input's memory format if `keeps_format`: of three dims, the greatest of windows alone.
    fn finish(x: &Tensor, n: usize, shape: PoolShape, spatial: [usize; 3], keeps_format: bool) -> Pooling {
        let mut output = Dims::from_slice(&x.sizes()[..x.dim() - n]);
        output.extend(spatial[3 - n..].iter().map(|s| *s as i64));
        let format = match x.suggested_memory_format() {
            f if f != MemoryFormat::Contiguous && x.dim() == n + 2 && keeps_format => f,
            _ => MemoryFormat::Contiguous,
        };
        let shape = if format == MemoryFormat::Contiguous { shape } else { shape.channels_last() };
        Pooling { shape, output, format }
    }

    fn batch(x: &Tensor, n: usize) -> (usize, usize) {
        match x.dim() == n + 2 {
            true => (x.sizes()[0] as usize, x.sizes()[1] as usize),
            false => (1, x.sizes()[0] as usize),
        }
    }

    fn fixed(
        op: &str, n: usize, x: &Tensor, kernel: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64], ceil: bool,
    ) -> Result<Pooling> {
        let alone = op == "max_pool1d";
        if alone {
            ensure!(
                has_planes(x, 1),
                "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{:?}",
                x.sizes()
            );
        }
        let windows = Windows::of(op, n, kernel, stride, padding, dilation)?;
        match alone {
            true => windows.check_1d()?,
            false => {
                check_dims(op, x, n)?;
                windows.check(n)?;
                check_planes(op, x, n)?;
            }
        }
        let input = three(&x.sizes()[x.dim() - n..]);
        let mut spatial = [1; 3];
        for a in 3 - n..3 {
            let (k, s, p, d) = (windows.kernel[a], windows.stride[a], windows.padding[a], windows.dilation[a]);
            let count = pool_windows(input[a] as i64, k, s, p, d, ceil);
            spatial[a] = count.ok_or_else(|| Error::runtime(format!("{op}: a kernel of size {k} and dilation {d} is too large")))?;
        }
        if spatial.iter().any(|s| *s < 1) {
            let by = |sizes: &[i64]| sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
            let axes = usize::from(n < 3)..3;
            let planes = x.sizes()[x.dim() - n - 1];
            let given: Vec<i64> = std::iter::once(planes).chain(input[axes.clone()].iter().map(|s| *s as i64)).collect();
            let found: Vec<i64> = std::iter::once(planes).chain(spatial[axes].iter().copied()).collect();
            let lone = |v: &[usize; 3]| per_axis("", &v.map(|s| s as i64), 3);
            return Err(Error::runtime(match op {
                "max_pool1d" => format!("max_pool1d() Invalid computed output size: {}", spatial[2]),
                "avg_pool3d" => format!(
                    "input image ({}) smaller than kernel size ({})",
                    lone(&input),
                    per_axis("k", &windows.kernel, 3)
                ),
                _ => format!(
                    "Given input size: ({}). Calculated output size: ({}). Output size is too small",
                    by(&given),
                    by(&found)
                ),
            }));
        }
        check_dtype(op, x)?;
        let (batch, channels) = Self::batch(x, n);
        let whole = |v: [i64; 3]| v.map(|x| x as usize);
        let spatial = whole(spatial);
        let shape = PoolShape::new(
            batch, channels, input, whole(windows.kernel), whole(windows.stride), whole(windows.padding), whole(windows.dilation),
            spatial,
        );
        Ok(Self::finish(x, n, shape, spatial, n < 3 || op.starts_with("max_pool")))
    }

    fn adaptive(op: &str, n: usize, x: &Tensor, output: &[i64]) -> Result<Pooling> {
        let most = op.starts_with("adaptive_max");
        if n == 1 {
            between_2_and_3_dims(op, x)?;
            ensure!(output.len() == 1, "{op}() argument 'output_size' should contain one int (got {})", output.len());
        }
        ensure!(
            x.dim() == n + 1 || x.dim() == n + 2,
            "{op}(): Expected {}D or {}D tensor, but got{} {:?}",
            n + 1,
            n + 2,
            if most { ":" } else { "" },
            x.sizes()
        );
        // An average over two dims of no channels is fine.
        let first = if most || n == 3 { 1 } else { x.dim() - n };
        if let Some(d) = (first..x.dim()).find(|d| x.sizes()[*d] == 0) {
            return Err(Error::runtime(format!(
                "{op}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {:?} with \
                 dimension {d} being empty",
                x.sizes()
            )));
        }
        let size = if most { "(): internal error: output_size.size()" } else { ": output_size" };
        ensure!(output.len() == n || output.len() == 1, "{op}{size} must be {n}");
        if output.iter().any(|s| *s < 0) {
            let list = output.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::runtime(match most {
                true => format!("Trying to create tensor with negative dimension {}: {output:?}", output[0]),
                false => format!("{op}: elements of output_size must be greater than or equal to 0 but received {{{list}}}"),
            }));
        }
        check_dtype(op, x)?;
        let mut spatial = [1; 3];
        for d in 0..n {
            spatial[3 - n + d] = output[if output.len() == 1 { 0 } else { d }] as usize;
        }
        let (batch, channels) = Self::batch(x, n);
        let shape = PoolShape::adaptive(batch, channels, three(&x.sizes()[x.dim() - n..]), spatial);
        Ok(Self::finish(x, n, shape, spatial, n < 3))
    }

    fn check_gradient(&self, op: &str, g: &Tensor) -> Result<()> {
        ensure!(
            g.sizes() == &self.output[..] && g.dtype().is_floating_point(),
            "{op}: expected a gradient of sizes {:?}, got {:?}",
            &self.output[..],
            g.sizes()
        );
        Ok(())
    }

    fn spec(&self, sizes: &[i64], like: &Tensor) -> Result<TensorSpec> {
        let strides = dims::strides_for(sizes, self.format)?;
        Ok(TensorSpec::like(Dims::from_slice(sizes), like).strided(strides))
    }
}

/// Gives kernels dense outputs of `format`, through temporaries where the given ones are not.
fn with_dense(outs: &[Tensor], format: MemoryFormat, run: impl FnOnce(&[Tensor]) -> Result<()>) -> Result<()> {
    let dense = outs
        .iter()
        .map(|o| match o.is_contiguous_in(format) {
            true => Ok(o.clone()),
            false => Tensor::fresh_strided(o.device(), o.dtype(), Dims::from_slice(o.sizes()), dims::strides_for(o.sizes(), format)?),
        })
        .collect::<Result<Vec<_>>>()?;
    run(&dense)?;
    for (o, d) in outs.iter().zip(&dense) {
        if !o.is_same(d) {
            o.copy_(d)?;
        }
    }
    Ok(())
}

fn max_pool_into(p: &Pooling, x: &Tensor, outs: &[Tensor]) -> Result<()> {
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let x = x.contiguous_in(p.format)?;
    with_dense(outs, p.format, |outs| {
        let _locks = LockSet::new(outs.iter().map(|o| (o.storage(), true)).chain([(x.storage(), false)]))?;
        let indices = outs.get(1).map(|i| i.data_ptr() as *mut i64);
        // SAFETY: the arrays are dense with the shape's elements, and locked.
        unsafe { pool::max_pool(x.dtype(), &p.shape, x.data_ptr(), outs[0].data_ptr(), indices) };
        Ok(())
    })
}

/// The gradient of a max pooling: every output's gradient goes to where its maximum was.
fn max_backward(g: &Tensor, indices: &Tensor, sizes: &[i64], n: usize) -> Result<Tensor> {
    let planes = sizes.len() - n;
    let flat = |t: &Tensor| {
        let mut s = Dims::from_slice(&t.sizes()[..planes]);
        s.push(t.sizes()[planes..].iter().product());
        t.reshape(&s)
    };
    let mut all = Dims::from_slice(&sizes[..planes]);
    all.push(sizes[planes..].iter().product());
    zeros_to_read(&all, g)?.scatter_add(-1, &flat(indices)?, &flat(g)?)?.view(sizes)
}

fn avg_pool_into(p: &Pooling, include_pad: bool, divisor: Option<i64>, x: &Tensor, out: &[Tensor]) -> Result<()> {
    if out[0].numel() == 0 {
        return Ok(());
    }
    let x = x.contiguous_in(p.format)?;
    with_dense(out, p.format, |out| {
        let _locks = LockSet::new([(x.storage(), false), (out[0].storage(), true)])?;
        // SAFETY: the arrays are dense with the shape's elements, and locked.
        unsafe { pool::avg_pool(x.dtype(), &p.shape, include_pad, divisor, x.data_ptr(), out[0].data_ptr()) };
        Ok(())
    })
}

fn avg_backward_into(p: &Pooling, include_pad: bool, divisor: Option<i64>, g: &Tensor, out: &[Tensor]) -> Result<()> {
    if out[0].numel() == 0 {
        return Ok(());
    }
    if g.numel() == 0 {
        return out[0].zero_().map(drop);
    }
    let g = g.contiguous_in(p.format)?;
    with_dense(out, p.format, |out| {
        let _locks = LockSet::new([(g.storage(), false), (out[0].storage(), true)])?;
        // SAFETY: the arrays are dense with the shape's elements, and locked.
        unsafe { pool::avg_pool_backward(g.dtype(), &p.shape, include_pad, divisor, g.data_ptr(), out[0].data_ptr()) };
        Ok(())
    })
}

/// What a max pooling takes beside its input, in the schema's order.
#[derive(Clone, Copy)]
struct MaxWindows<'a> {
    kernel: &'a [i64],
    stride: &'a [i64],
    padding: &'a [i64],
    dilation: &'a [i64],
    ceil: bool,
}

impl<'a> Bind<'a> for MaxWindows<'a> {
    fn bind(op: Option<&'static Op>, args: &[Value<'a>], next: &mut usize) -> Result<Self> {
        Ok(MaxWindows {
            kernel: Bind::bind(op, args, next)?,
            stride: Bind::bind(op, args, next)?,
            padding: Bind::bind(op, args, next)?,
            dilation: Bind::bind(op, args, next)?,
            ceil: Bind::bind(op, args, next)?,
        })
    }
}

impl MaxWindows<'_> {
    fn of(&self, op: &str, n: usize, x: &Tensor) -> Result<Pooling> {
        Pooling::fixed(op, n, x, self.kernel, self.stride, self.padding, self.dilation, self.ceil)
    }
}

fn max_pool_plan<const N: usize>(x: &Tensor, windows: MaxWindows<'_>) -> Result<[TensorSpec; 2]> {
    let p = windows.of(&format!("max_pool{N}d_with_indices"), N, x)?;
    let values = p.spec(&p.output, x)?;
    let indices = values.clone().dtype(DType::I64);
    Ok([values, indices])
}

fn max_pool_run<const N: usize>(x: &Tensor, windows: MaxWindows<'_>, outs: &[Tensor]) -> Result<()> {
    max_pool_into(&windows.of(&format!("max_pool{N}d_with_indices"), N, x)?, x, outs)
}

/// The values of `with_indices`, which is not asked for the indices where nobody but the built-in kernel would see it.
fn max_pool_any<const N: usize>(with_indices: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = crate::value::take(with_indices, args, 0)?;
    let windows: MaxWindows<'_> = Bind::bind(Some(with_indices), args, &mut 1)?;
    let built_in = with_indices.runs_built_in(x);
    if built_in || N == 1 {
        // A sequence's own checks come first, also where the indices are needed.
        let p = windows.of(&format!("max_pool{N}d"), N, x)?;
        if built_in {
            let out = p.spec(&p.output, x)?.allocate()?;
            max_pool_into(&p, x, std::slice::from_ref(&out))?;
            return Ok(Outputs::One(out));
        }
    }
    let values = with_indices.call(args)?.list()?.into_iter().next();
    values.map(Outputs::One).ok_or_else(|| Error::runtime("max_pool gave nothing"))
}

macro_rules! max_pools {
    ($($n:literal $with:ident $with_schema:literal $(, $out_schema:literal)?; $plain:ident $plain_schema:literal;)*) => { $(
        op! {
            /// The largest element of each window, and its flat position in its plane. A NaN counts as largest.
            $with: $with_schema $(, Out OUT: $out_schema)?;
            Body::Structured { plan: plan!(max_pool_plan::<$n>; x, windows), run: run!(max_pool_run::<$n>; x, windows) };
            derivative: backward! { self_(g, self_: Geometry, result1: Tensor) => max_backward(g, &result1, &self_.sizes, $n)? };
            samples: |m| match m.dtype.is_complex() || m.dtype == DType::Bool {
                true => vec![],
                false => vec![sample![m.any(&[[2, 3].as_slice(), &[6; $n]].concat()), vec![2i64; $n], Vec::<i64>::new(), vec![0i64; $n], vec![1i64; $n], false],
                    sample![m.any(&[[3].as_slice(), &[7; $n]].concat()), vec![3i64; $n], vec![2i64; $n], vec![1i64; $n], vec![1i64; $n], true]],
            };
            fn $with(&self, kernel_size: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64], ceil_mode: bool) -> (Tensor, Tensor)
                [self, kernel_size, stride, padding, dilation, ceil_mode];
        }
        op! {
            /// The largest element of each window. A NaN counts as largest.
            $plain: $plain_schema;
            Body::Composite(|_op, _keys, args| max_pool_any::<$n>(&$with::OP, args));
            samples: |m| $with::OP.samples.map_or_else(Vec::new, |samples| samples(m));
            fn $plain(&self, kernel_size: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64], ceil_mode: bool) -> Tensor
                [self, kernel_size, stride, padding, dilation, ceil_mode];
        }
    )* };
}
max_pools! {
    1 max_pool1d_with_indices
        "max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)";
        max_pool1d "max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor";
    2 max_pool2d_with_indices
        "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
        "max_pool2d_with_indices.out(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False, *, Tensor(a!) out, Tensor(b!) indices) -> (Tensor(a!), Tensor(b!))";
        max_pool2d "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor";
    3 max_pool3d_with_indices
        "max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
        "max_pool3d_with_indices.out(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False, *, Tensor(a!) out, Tensor(b!) indices) -> (Tensor(a!), Tensor(b!))";
        max_pool3d "max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor";
}

/// What an average pooling takes beside its input, in the schema's order.
#[derive(Clone, Copy)]
struct AverageWindows<'a> {
    kernel: &'a [i64],
    stride: &'a [i64],
    padding: &'a [i64],
    ceil: bool,
    include_pad: bool,
    divisor: Option<i64>,
}

impl<'a> Bind<'a> for AverageWindows<'a> {
    fn bind(op: Option<&'static Op>, args: &[Value<'a>], next: &mut usize) -> Result<Self> {
        Ok(AverageWindows {
            kernel: Bind::bind(op, args, next)?,
            stride: Bind::bind(op, args, next)?,
            padding: Bind::bind(op, args, next)?,
            ceil: Bind::bind(op, args, next)?,
            include_pad: Bind::bind(op, args, next)?,
            divisor: Bind::bind(op, args, next)?,
        })
    }
}

impl AverageWindows<'_> {
    fn of(&self, n: usize, x: &Tensor) -> Result<Pooling> {
        ensure!(self.divisor != Some(0), "divisor must be not zero");
        Pooling::fixed(&format!("avg_pool{n}d"), n, x, self.kernel, self.stride, self.padding, &[1], self.ceil)
    }
}

fn avg_pool_plan<const N: usize>(x: &Tensor, windows: AverageWindows<'_>) -> Result<TensorSpec> {
    let p = windows.of(N, x)?;
    p.spec(&p.output, x)
}

fn avg_pool_run<const N: usize>(x: &Tensor, windows: AverageWindows<'_>, outs: &[Tensor]) -> Result<()> {
    avg_pool_into(&windows.of(N, x)?, windows.include_pad, windows.divisor, x, outs)
}

fn avg_backward_plan<const N: usize>(g: &Tensor, x: &Tensor, windows: AverageWindows<'_>) -> Result<TensorSpec> {
    let p = windows.of(N, x)?;
    p.check_gradient(&format!("avg_pool{N}d_backward"), g)?;
    p.spec(x.sizes(), g)
}

fn avg_backward_run<const N: usize>(
    g: &Tensor,
    x: &Tensor,
    windows: AverageWindows<'_>,
    outs: &[Tensor],
) -> Result<()> {
    avg_backward_into(&windows.of(N, x)?, windows.include_pad, windows.divisor, g, outs)
}

macro_rules! avg_pools {
    ($($n:literal $name:ident $schema:literal $out_schema:literal; $back:ident $back_schema:literal $back_out:literal;)*) => { $(
        op! {
            /// The average of each window.
            $name: $schema, Out OUT: $out_schema;
            Body::Structured { plan: plan!(avg_pool_plan::<$n>; x, windows), run: run!(avg_pool_run::<$n>; x, windows) };
            derivative: backward! {
                self_(g, self_: Tensor, kernel_size: Dims, stride: Dims, padding: Dims, ceil_mode: bool, count_include_pad: bool, divisor_override: Option<i64>) =>
                    Tensor::$back(g, &self_, &kernel_size, &stride, &padding, ceil_mode, count_include_pad, divisor_override)?
            };
            forward: Forward::Linear;
            samples: |m| match m.dtype.is_floating_point() {
                false => vec![],
                true => vec![sample![m.any(&[[2, 3].as_slice(), &[6; $n]].concat()), vec![2i64; $n], Vec::<i64>::new(), vec![0i64; $n], false, true, ()],
                    sample![m.any(&[[3].as_slice(), &[7; $n]].concat()), vec![3i64; $n], vec![2i64; $n], vec![1i64; $n], true, false, ()]],
            };
            ulp: 16.0;
            out_rule: crate::OutRule::EXACT;
            fn $name(&self, kernel_size: &[i64], stride: &[i64], padding: &[i64], ceil_mode: bool, count_include_pad: bool, divisor_override: Option<i64>) -> Tensor
                [self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override];
        }
        op! {
            /// The gradient of an average pooling's input.
            $back: $back_schema, Out OUT: $back_out;
            Body::Structured { plan: plan!(avg_backward_plan::<$n>; g, x, windows), run: run!(avg_backward_run::<$n>; g, x, windows) };
            derivative: backward! {
                grad_output(g, kernel_size: Dims, stride: Dims, padding: Dims, ceil_mode: bool, count_include_pad: bool, divisor_override: Option<i64>) =>
                    g.$name(&kernel_size, &stride, &padding, ceil_mode, count_include_pad, divisor_override)?
            };
            samples: |m| match m.dtype.is_floating_point() {
                true => vec![sample![m.any(&[[2, 3].as_slice(), &[3; $n]].concat()), m.any(&[[2, 3].as_slice(), &[6; $n]].concat()), vec![2i64; $n], vec![2i64; $n], vec![0i64; $n], false, true, ()],
                    sample![m.any(&[[3].as_slice(), &[4; $n]].concat()), m.any(&[[3].as_slice(), &[7; $n]].concat()), vec![3i64; $n], vec![2i64; $n], vec![1i64; $n], true, false, 5]],
                false => vec![],
            };
            fn $back(grad_output: &Tensor, x: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64], ceil_mode: bool, count_include_pad: bool, divisor_override: Option<i64>) -> Tensor
                [grad_output, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override];
        }
    )* };
}
avg_pools! {
    2 avg_pool2d
        "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"
        "avg_pool2d.out(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None, *, Tensor(a!) out) -> Tensor(a!)";
        avg_pool2d_backward
        "avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"
        "avg_pool2d_backward.grad_input(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override, *, Tensor(a!) grad_input) -> Tensor(a!)";
    3 avg_pool3d
        "avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"
        "avg_pool3d.out(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None, *, Tensor(a!) out) -> Tensor(a!)";
        avg_pool3d_backward
        "avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"
        "avg_pool3d_backward.grad_input(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override, *, Tensor(a!) grad_input) -> Tensor(a!)";
}

/// A one-dimensional average pooling as a two-dimensional one of height 1.
fn avg_pool1d_any(x: &Tensor, kernel: &[i64], stride: &[i64], padding: &[i64], ceil: bool, include_pad: bool) -> Result<Tensor> {
    between_2_and_3_dims("avg_pool1d", x)?;
    let pair = |name: &str, v: &[i64], first: i64| -> Result<Dims> {
        ensure!(v.len() == 1, "avg_pool1d() argument '{name}' should contain one int (got {})", v.len());
        Ok(Dims::from_slice(&[first, v[0]]))
    };
    let stride = if stride.is_empty() { kernel } else { stride };
    let (kernel, stride) = (pair("kernel_size", kernel, 1)?, pair("stride", stride, 1)?);
    x.unsqueeze(-2)?
        .avg_pool2d(&kernel, &stride, &pair("padding", padding, 0)?, ceil, include_pad, None)?
        .squeeze_dim(-2)
}

op! {
    /// The average of each window of a sequence.
    avg_pool1d: "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
        Out OUT: "avg_pool1d.out(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(avg_pool1d_any; x, kernel, stride, padding, ceil, include_pad));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3, 7]), vec![3i64], vec![2i64], vec![1i64], true, false], sample![m.any(&[3, 6]), vec![2i64], Vec::<i64>::new(), vec![0i64], false, true]] } else { vec![] };
    fn avg_pool1d(&self, kernel_size: &[i64], stride: &[i64], padding: &[i64], ceil_mode: bool, count_include_pad: bool) -> Tensor
        [self, kernel_size, stride, padding, ceil_mode, count_include_pad];
}

fn adaptive_avg_plan<const N: usize>(x: &Tensor, output: &[i64]) -> Result<TensorSpec> {
    let p = Pooling::adaptive(&format!("adaptive_avg_pool{N}d"), N, x, output)?;
    p.spec(&p.output, x)
}

fn adaptive_avg_run<const N: usize>(x: &Tensor, output: &[i64], outs: &[Tensor]) -> Result<()> {
    if output.iter().all(|&n| n == 1) && x.numel() > 0 {
        let all: Dims = (1..=N as i64).map(|d| -d).collect();
        return outs[0].copy_(&x.mean_dim(&all, true)?).map(drop);
    }
    avg_pool_into(&Pooling::adaptive(&format!("adaptive_avg_pool{N}d"), N, x, output)?, false, None, x, outs)
}

/// The pooling that a gradient belongs to.
fn adaptive_of<const N: usize>(g: &Tensor, x: &Tensor) -> Result<Pooling> {
    let p = Pooling::adaptive(&format!("adaptive_avg_pool{N}d"), N, x, &g.sizes()[g.dim().saturating_sub(N)..])?;
    p.check_gradient(&format!("adaptive_avg_pool{N}d_backward"), g)?;
    Ok(p)
}

fn adaptive_backward_plan<const N: usize>(g: &Tensor, x: &Tensor) -> Result<TensorSpec> {
    adaptive_of::<N>(g, x)?.spec(x.sizes(), g)
}

fn adaptive_backward_run<const N: usize>(g: &Tensor, x: &Tensor, outs: &[Tensor]) -> Result<()> {
    if g.sizes()[g.dim() - N..].iter().all(|&n| n == 1) && x.numel() > 0 {
        let count: i64 = x.sizes()[x.dim() - N..].iter().product();
        return outs[0].copy_(&g.div(count)?.expand(x.sizes())?).map(drop);
    }
    avg_backward_into(&adaptive_of::<N>(g, x)?, false, None, g, outs)
}

macro_rules! adaptive_avg_pools {
    ($($n:literal $name:ident $schema:literal; $back:ident $back_schema:literal; $public:ident $public_schema:literal $public_out:literal;)*) => { $(
        op! {
            /// Averages over windows chosen to give the output size.
            $name: $schema;
            Body::Structured { plan: plan!(adaptive_avg_plan::<$n>; x, output), run: run!(adaptive_avg_run::<$n>; x, output) };
            derivative: backward! { self_(g, self_: Tensor) => Tensor::$back(g, &self_)? };
            forward: Forward::Linear;
            samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[[2, 3].as_slice(), &[7; $n]].concat()), vec![3i64; $n]]] } else { vec![] };
            ulp: 16.0;
            fn $name(&self, output_size: &[i64]) -> Tensor [self, output_size];
        }
        op! {
            /// The gradient of an adaptive average pooling's input.
            $back: $back_schema;
            Body::Structured { plan: plan!(adaptive_backward_plan::<$n>; g, x), run: run!(adaptive_backward_run::<$n>; g, x) };
            derivative: backward! { grad_output(g, grad_output: Geometry) => g.$name(&grad_output.sizes[grad_output.dim() - $n..])? };
            samples: |m| match m.dtype.is_floating_point() {
                true => vec![sample![m.any(&[[2, 3].as_slice(), &[3; $n]].concat()), m.any(&[[2, 3].as_slice(), &[7; $n]].concat())]],
                false => vec![],
            };
            fn $back(grad_output: &Tensor, x: &Tensor) -> Tensor [grad_output, x];
        }
        op! {
            /// Averages over windows chosen to give the output size.
            $public: $public_schema, Out OUT: $public_out;
            Body::Composite(|_op, _keys, args| $name::OP.call(args));
            samples: |m| $name::OP.samples.map_or_else(Vec::new, |samples| samples(m));
            fn $public(&self, output_size: &[i64]) -> Tensor [self, output_size];
        }
    )* };
}
adaptive_avg_pools! {
    2 adaptive_avg_pool2d_kernel "_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor";
        adaptive_avg_pool2d_backward "_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor";
        adaptive_avg_pool2d "adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor" "adaptive_avg_pool2d.out(Tensor self, SymInt[2] output_size, *, Tensor(a!) out) -> Tensor(a!)";
    3 adaptive_avg_pool3d_kernel "_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor";
        adaptive_avg_pool3d_backward "_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor";
        adaptive_avg_pool3d "adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor" "adaptive_avg_pool3d.out(Tensor self, SymInt[3] output_size, *, Tensor(a!) out) -> Tensor(a!)";
}

fn adaptive_avg_pool1d_any(x: &Tensor, output: &[i64]) -> Result<Tensor> {
    between_2_and_3_dims("adaptive_avg_pool1d", x)?;
    ensure!(output.len() == 1, "adaptive_avg_pool1d() argument 'output_size' should contain one int (got {})", output.len());
    x.unsqueeze(-2)?.adaptive_avg_pool2d(&[1, output[0]])?.squeeze_dim(-2)
}

op! {
    /// Averages over windows of a sequence chosen to give the output size.
    adaptive_avg_pool1d: "adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor";
    Body::Composite(kernel!(adaptive_avg_pool1d_any; x, output));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3, 7]), vec![3i64]]] } else { vec![] };
    fn adaptive_avg_pool1d(&self, output_size: &[i64]) -> Tensor [self, output_size];
}

fn adaptive_max_plan<const N: usize>(x: &Tensor, output: &[i64]) -> Result<[TensorSpec; 2]> {
    let p = Pooling::adaptive(&format!("adaptive_max_pool{N}d"), N, x, output)?;
    let values = p.spec(&p.output, x)?;
    let indices = values.clone().dtype(DType::I64);
    Ok([values, indices])
}

fn adaptive_max_run<const N: usize>(x: &Tensor, output: &[i64], outs: &[Tensor]) -> Result<()> {
    max_pool_into(&Pooling::adaptive(&format!("adaptive_max_pool{N}d"), N, x, output)?, x, outs)
}

macro_rules! adaptive_max_pools {
    ($($n:literal $name:ident $schema:literal;)*) => { $(
        op! {
            /// Maxima over windows chosen to give the output size, and their flat positions in their planes.
            $name: $schema;
            Body::Structured { plan: plan!(adaptive_max_plan::<$n>; x, output), run: run!(adaptive_max_run::<$n>; x, output) };
            derivative: backward! { self_(g, self_: Geometry, result1: Tensor) => max_backward(g, &result1, &self_.sizes, $n)? };
            samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[[2, 3].as_slice(), &[7; $n]].concat()), vec![3i64; $n]]] } else { vec![] };
            fn $name(&self, output_size: &[i64]) -> (Tensor, Tensor) [self, output_size];
        }
    )* };
}
adaptive_max_pools! {
    1 adaptive_max_pool1d "adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)";
    2 adaptive_max_pool2d "adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)";
    3 adaptive_max_pool3d "adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)";
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    adaptive_avg_pool1d::ALL,
    adaptive_avg_pool2d::ALL,
    adaptive_avg_pool2d_backward::ALL,
    adaptive_avg_pool2d_kernel::ALL,
    adaptive_avg_pool3d::ALL,
    adaptive_avg_pool3d_backward::ALL,
    adaptive_avg_pool3d_kernel::ALL,
    adaptive_max_pool1d::ALL,
    adaptive_max_pool2d::ALL,
    adaptive_max_pool3d::ALL,
    avg_pool1d::ALL,
    avg_pool2d::ALL,
    avg_pool2d_backward::ALL,
    avg_pool3d::ALL,
    avg_pool3d_backward::ALL,
    max_pool1d::ALL,
    max_pool1d_with_indices::ALL,
    max_pool2d::ALL,
    max_pool2d_with_indices::ALL,
    max_pool3d::ALL,
    max_pool3d_with_indices::ALL,
];
