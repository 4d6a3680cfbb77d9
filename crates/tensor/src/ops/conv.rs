//! Convolutions and transposed convolutions in one to three dimensions.
//!
//! Three operators are closed under differentiation: the convolution and its gradients with respect to input and
//! weight, all bilinear. Everything else here is made of them.

use crate::autograd::Forward;
use crate::dims::{self, Dims};
use crate::value::Bind;
use crate::{Body, DType, Error, MemoryFormat, Op, OwnedValue, Result, Tensor, TensorSpec, Value, backward, ensure, sample};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::storage::LockSet;
use flambeau_cpu::conv::{self, ConvShape};

/// What all operators of the family take beside tensors, in the schema's order.
#[derive(Clone, Copy)]
struct Parameters<'a> {
    stride: &'a [i64],
    padding: &'a [i64],
    dilation: &'a [i64],
    transposed: bool,
    output_padding: &'a [i64],
    groups: i64,
}

impl<'a> Bind<'a> for Parameters<'a> {
    fn bind(op: Option<&'static Op>, args: &[Value<'a>], next: &mut usize) -> Result<Self> {
        Ok(Parameters {
            stride: Bind::bind(op, args, next)?,
            padding: Bind::bind(op, args, next)?,
            dilation: Bind::bind(op, args, next)?,
            transposed: Bind::bind(op, args, next)?,
            output_padding: Bind::bind(op, args, next)?,
            groups: Bind::bind(op, args, next)?,
        })
    }
}

impl Parameters<'_> {
    fn call(&self, op: &'static Op, tensors: &[Value<'_>]) -> Result<Tensor> {
        let mut args: smallvec::SmallVec<[Value<'_>; 10]> = tensors.iter().copied().collect();
        args.extend([
            self.stride.into(),
            self.padding.into(),
            self.dilation.into(),
            self.transposed.into(),
            self.output_padding.into(),
            self.groups.into(),
        ]);
        op.call(&args)?.one()
    }
}

/// The geometry that parameters give with an input and a weight.
struct Convolution {
    shape: ConvShape,
    /// Output sizes (N, C, ...).
    output: Dims,
    /// Input sizes (N, C, ...).
    input: Dims,
    format: MemoryFormat,
    transposed: bool,
}

fn check_length(name: &str, values: &[i64], n: usize) -> Result<()> {
    ensure!(
        values.len() == n || values.len() == 1,
        "expected {name} to be a single integer value or a list of {n} values to match the convolution dimensions, but got \
         {name}={values:?}"
    );
    Ok(())
}

/// One value per spatial dim: a single one serves all.
fn spread(name: &str, values: &[i64], n: usize) -> Result<[usize; 3]> {
    check_length(name, values, n)?;
    ensure!(values.iter().all(|v| *v >= 0), "negative {name} is not supported");
    let default = usize::from(name != "padding" && name != "output_padding");
    let mut out = [default; 3];
    for d in 0..n {
        out[3 - n + d] = values[if values.len() == 1 { 0 } else { d }] as usize;
    }
    Ok(out)
}

/// Spatial sizes as three.
fn three(sizes: &[i64]) -> [usize; 3] {
    let mut out = [1; 3];
    for (d, &s) in sizes.iter().enumerate() {
        out[3 - sizes.len() + d] = s as usize;
    }
    out
}

impl Convolution {
    /// From an input (N, C, ...) and a weight.
    fn new(
        input: &[i64],
        weight: &Tensor,
        like: &Tensor,
        Parameters { stride, padding, dilation, transposed, output_padding, groups }: Parameters<'_>,
    ) -> Result<Convolution> {
        let n = weight.dim().saturating_sub(2);
        ensure!((1..=3).contains(&n), "weight should have at least three dimensions");
        ensure!(
            input.len() == n + 2,
            "Expected {}D (unbatched) or {}D (batched) input to conv{n}d, but got input of size: {input:?}",
            n + 1,
            n + 2
        );
        for (name, values) in [("stride", stride), ("padding", padding), ("dilation", dilation)] {
            check_length(name, values, n)?;
        }
        if transposed {
            check_length("output_padding", output_padding, n)?;
        }
        ensure!(padding.iter().all(|p| *p >= 0), "negative padding is not supported");
        ensure!(output_padding.iter().all(|p| *p >= 0), "negative output_padding is not supported");
        ensure!(stride.iter().all(|s| *s > 0), "non-positive stride is not supported");
        ensure!(dilation.iter().all(|d| *d >= 0), "dilation should be greater than zero");
        ensure!(
            dilation.iter().all(|d| *d > 0),
            "dilation should be greater than zero, but got {}",
            if transposed { named("dilation", dilation, ", ", n) } else { format!("{:?}", plane(dilation, n)) }
        );
        ensure!(groups > 0, "non-positive groups is not supported");
        let w = weight.sizes();
        let channels = if transposed { w[0] } else { w[1].saturating_mul(groups) };
        ensure!(
            w[0] >= groups,
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {w:?} instead"
        );
        ensure!(
            w[0] % groups == 0,
            "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size [{w:?}] instead"
        );
        ensure!(
            input[1] == channels,
            "Given {}, weight of size {w:?}, expected input{input:?} to have {channels} channels, but got {} channels instead",
            if transposed { "transposed=1".to_string() } else { format!("groups={groups}") },
            input[1]
        );
        let given = (stride, dilation);
        let (stride, padding) = (spread("stride", stride, n)?, spread("padding", padding, n)?);
        let dilation = spread("dilation", dilation, n)?;
        let (batch, kernel, spatial) = (input[0] as usize, three(&w[2..]), three(&input[2..]));
        let out_channels = if transposed { w[1] * groups } else { w[0] };
        let shape = match transposed {
            false => ConvShape::new(
                batch, channels as usize, out_channels as usize, groups as usize, spatial, kernel, stride, padding, dilation,
            )?,
            true => {
                let spread_out = spread("output_padding", output_padding, n)?;
                ensure!(
                    (0..3).all(|a| spread_out[a] < stride[a].max(dilation[a])),
                    "output padding must be smaller than either stride or dilation, but got {} {} {}",
                    named("output_padding", output_padding, " ", n),
                    named("stride", given.0, " ", n),
                    named("dilation", given.1, " ", n)
                );
                ConvShape::transposed(
                    batch, channels as usize, out_channels as usize, groups as usize, spatial, kernel, stride, padding,
                    spread_out, dilation,
                )?
            }
        };
        let result = if transposed { shape.input } else { shape.output };
        let mut output = Dims::from_slice(&[input[0], out_channels]);
        output.extend(result[3 - n..].iter().map(|s| *s as i64));
        let format = match (like.suggested_memory_format(), weight.suggested_memory_format()) {
            // PyTorch's kernel of these is its oldest.
            _ if transposed && n == 3 && like.dtype() == DType::F64 => MemoryFormat::Contiguous,
            (f, _) if f != MemoryFormat::Contiguous && like.dim() == n + 2 => f,
            (_, f) if f != MemoryFormat::Contiguous => f,
            _ => MemoryFormat::Contiguous,
        };
        let shape = if format == MemoryFormat::Contiguous { shape } else { shape.channels_last() };
        Ok(Convolution { shape, output, input: Dims::from_slice(input), format, transposed })
    }

    /// The weight as kernels read it: as it is, if it is dense with its channels first or last, else a copy.
    fn dense_weight(&mut self, w: &Tensor) -> Result<Tensor> {
        let last = [MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d].into_iter().any(|f| w.is_contiguous_in(f));
        if w.is_contiguous() || w.dtype().is_complex() || !last || !FastPath::ConvWeightLast.is_on() {
            return w.contiguous();
        }
        self.shape = self.shape.weight_last();
        Ok(w.clone())
    }

    fn spec(&self, sizes: &Dims, like: &Tensor) -> Result<TensorSpec> {
        let spec = TensorSpec::like(sizes.clone(), like);
        Ok(match self.format {
            MemoryFormat::Contiguous => spec,
            format => {
                let strides = dims::strides_for(sizes, format)?;
                spec.strided(strides)
            }
        })
    }
}

/// One number per dim, of at least two dims.
fn plane(values: &[i64], n: usize) -> Dims {
    let values = if values.len() == 1 { Dims::from_elem(values[0], n) } else { Dims::from_slice(values) };
    std::iter::repeat_n(1, usize::from(n == 1)).chain(values).collect()
}

/// The same with the dims' names: `dilation_height: 1 dilation_width: 0`.
fn named(what: &str, values: &[i64], between: &str, n: usize) -> String {
    let names = ["depth", "height", "width"];
    let values = plane(values, n);
    let parts = values.iter().zip(&names[3 - values.len()..]).map(|(v, name)| format!("{what}_{name}: {v}"));
    parts.collect::<Vec<_>>().join(between)
}

fn check_dtypes(x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    if let Some(b) = bias {
        ensure!(
            b.dtype() == x.dtype(),
            "Input type ({}) and bias type ({}) should be the same",
            x.dtype().cpp_name(),
            b.dtype().cpp_name()
        );
    }
    ensure!(
        x.dtype() == w.dtype(),
        "expected scalar type {} but found {}",
        x.dtype().scalar_type_name(),
        w.dtype().scalar_type_name()
    );
    match conv::supports(x.dtype()) {
        true => Ok(()),
        false => Err(Error::not_implemented(format!("\"convolution\" not implemented for '{}'", x.dtype().scalar_type_name()))),
    }
}

/// Runs a kernel that writes a dense tensor of `format`: straight into `out` if it is one, else through a temporary.
fn write_dense(out: &Tensor, format: MemoryFormat, run: impl Fn(&Tensor) -> Result<()>) -> Result<()> {
    if out.is_contiguous_in(format) {
        return run(out);
    }
    let strides = dims::strides_for(out.sizes(), format)?;
    let dense = Tensor::fresh_strided(out.device(), out.dtype(), Dims::from_slice(out.sizes()), strides)?;
    run(&dense)?;
    out.copy_(&dense).map(drop)
}

// ---- the convolution ----------------------------------------------------------------------------

fn convolution_plan(
    x: &Tensor, w: &Tensor, bias: Option<&Tensor>, p: Parameters<'_>,
) -> Result<TensorSpec> {
    check_dtypes(x, w, bias)?;
    let c = Convolution::new(x.sizes(), w, x, p)?;
    if let Some(b) = bias {
        ensure!(
            b.dim() == 1 && b.sizes()[0] == c.output[1],
            "Given weight of size {:?}, expected bias to be 1-dimensional with {} elements, but got bias of size {:?} instead",
            w.sizes(),
            c.output[1],
            b.sizes()
        );
    }
    c.spec(&c.output, x)
}

fn convolution_run(
    x: &Tensor, w: &Tensor, bias: Option<&Tensor>, p: Parameters<'_>, outs: &[Tensor],
) -> Result<()> {
    let mut c = Convolution::new(x.sizes(), w, x, p)?;
    let (x, w) = (x.contiguous_in(c.format)?, c.dense_weight(w)?);
    let bias = bias.map(Tensor::contiguous).transpose()?;
    if outs[0].numel() == 0 {
        return Ok(());
    }
    c.shape.check_memory(c.transposed)?;
    write_dense(&outs[0], c.format, |out| {
        let storages = [(x.storage(), false), (w.storage(), false), (out.storage(), true)];
        let _locks = LockSet::new(storages.into_iter().chain(bias.iter().map(|b| (b.storage(), false))))?;
        let b = bias.as_ref().map(|b| b.data_ptr() as *const u8);
        let kernel = if c.transposed { conv::transposed } else { conv::forward };
        // SAFETY: the arrays are dense with the shape's sizes, and locked.
        unsafe { kernel(x.dtype(), &c.shape, x.data_ptr(), w.data_ptr(), b, out.data_ptr()) };
        Ok(())
    })
}

op! {
    /// The convolution of input (N, C, ...) with weight (O, C / groups, ...), or its transpose, in one to three dimensions.
    convolution: "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
        Out OUT: "convolution.out(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured {
        plan: plan!(convolution_plan; x, w, bias, p),
        run: run!(convolution_run; x, w, bias, p),
    };
    derivative: backward! {
        input(g, input: crate::autograd::Geometry, weight: Tensor, stride: Dims, padding: Dims, dilation: Dims, transposed: bool, output_padding: Dims, groups: i64) =>
            input_gradient(g, &weight, &input.sizes, Parameters { stride: &stride, padding: &padding, dilation: &dilation, transposed, output_padding: &output_padding, groups })?,
        weight(g, input: Tensor, weight: crate::autograd::Geometry, stride: Dims, padding: Dims, dilation: Dims, transposed: bool, output_padding: Dims, groups: i64) =>
            weight_gradient(g, &input, &weight.sizes, Parameters { stride: &stride, padding: &padding, dilation: &dilation, transposed, output_padding: &output_padding, groups })?,
        bias(g) => bias_gradient(g)?,
    };
    samples: |m| match m.dtype.is_differentiable() || m.dtype == DType::I64 {
        false => vec![],
        true => vec![
            sample![m.any(&[2, 4, 5]), m.any(&[6, 2, 3]), m.any(&[6]), vec![2i64], vec![1i64], vec![1i64], false, vec![0i64], 2],
            sample![m.any(&[1, 2, 5, 4]), m.any(&[3, 2, 3, 2]), (), vec![1i64, 2], vec![1i64, 0], vec![1i64, 2], false, vec![0i64, 0], 1],
            sample![m.any(&[1, 2, 3, 3, 3]), m.any(&[2, 2, 2, 2, 2]), m.any(&[2]), vec![1i64, 1, 1], vec![0i64, 0, 0], vec![1i64, 1, 1], false, vec![0i64, 0, 0], 1],
            sample![m.any(&[1, 2, 3, 3]), m.any(&[2, 3, 2, 2]), m.any(&[3]), vec![2i64, 2], vec![0i64, 0], vec![1i64, 1], true, vec![1i64, 0], 1],
        ],
    };
    ulp: 64.0;
}

fn bias_gradient(g: &Tensor) -> Result<Tensor> {
    let over: Dims = (0..g.dim() as i64).filter(|d| *d != 1).collect();
    g.sum_dim_dtype(&over, false, g.dtype())
}

fn input_gradient(g: &Tensor, w: &Tensor, input: &[i64], p: Parameters<'_>) -> Result<Tensor> {
    p.call(&conv_input_gradient::OP, &[g.into(), w.into(), input.into()])
}

fn weight_gradient(g: &Tensor, x: &Tensor, weight: &[i64], p: Parameters<'_>) -> Result<Tensor> {
    p.call(&conv_weight_gradient::OP, &[g.into(), x.into(), weight.into()])
}

fn forward(x: &Tensor, w: &Tensor, p: Parameters<'_>) -> Result<Tensor> {
    p.call(&convolution::OP, &[x.into(), w.into(), Value::None])
}

// ---- the gradient of the input ------------------------------------------------------------------

fn input_gradient_plan(
    g: &Tensor, w: &Tensor, input: &[i64], p: Parameters<'_>,
) -> Result<TensorSpec> {
    check_dtypes(g, w, None)?;
    dims::checked_numel(input)?;
    let c = Convolution::new(input, w, g, p)?;
    ensure!(g.sizes() == &c.output[..], "convolution: expected a gradient of sizes {:?}, got {:?}", c.output, g.sizes());
    c.spec(&c.input, g)
}

fn input_gradient_run(
    g: &Tensor, w: &Tensor, input: &[i64], p: Parameters<'_>, outs: &[Tensor],
) -> Result<()> {
    let mut c = Convolution::new(input, w, g, p)?;
    if outs[0].numel() == 0 {
        return Ok(());
    }
    if g.numel() == 0 {
        return outs[0].zero_().map(drop);
    }
    c.shape.check_memory(!c.transposed)?;
    let (g, w) = (g.contiguous_in(c.format)?, c.dense_weight(w)?);
    write_dense(&outs[0], c.format, |out| {
        let _locks = LockSet::new([(g.storage(), false), (w.storage(), false), (out.storage(), true)])?;
        let kernel = if c.transposed { conv::transposed_backward_input } else { conv::backward_input };
        // SAFETY: the arrays are dense with the shape's sizes, and locked.
        unsafe { kernel(g.dtype(), &c.shape, g.data_ptr(), w.data_ptr(), out.data_ptr()) };
        Ok(())
    })
}

op! {
    /// The gradient of a convolution with respect to its input, of sizes `input_size`.
    conv_input_gradient: "flambeau::conv_input_gradient(Tensor grad_output, Tensor weight, SymInt[] input_size, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor";
    Body::Structured {
        plan: plan!(input_gradient_plan; g, w, input, p),
        run: run!(input_gradient_run; g, w, input, p),
    };
    derivative: backward! {
        grad_output(g, weight: Tensor, stride: Dims, padding: Dims, dilation: Dims, transposed: bool, output_padding: Dims, groups: i64) =>
            forward(g, &weight, Parameters { stride: &stride, padding: &padding, dilation: &dilation, transposed, output_padding: &output_padding, groups })?,
        weight(g, grad_output: Tensor, weight: crate::autograd::Geometry, stride: Dims, padding: Dims, dilation: Dims, transposed: bool, output_padding: Dims, groups: i64) =>
            weight_gradient(&grad_output, g, &weight.sizes, Parameters { stride: &stride, padding: &padding, dilation: &dilation, transposed, output_padding: &output_padding, groups })?,
    };
    forward: Forward::FromBackward;
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.any(&[1, 3, 4, 3]), m.any(&[3, 2, 2, 2]), vec![1i64, 2, 5, 4], vec![1i64, 1], vec![0i64, 0], vec![1i64, 1], false, vec![0i64, 0], 1]],
        false => vec![],
    };
    ulp: 64.0;
}

// ---- the gradient of the weight -----------------------------------------------------------------

/// A tensor that only has sizes, to ask for geometry.
fn shape_only(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    dims::checked_numel(sizes)?;
    Tensor::fresh(crate::Device::META, like.dtype(), Dims::from_slice(sizes))
}

fn weight_gradient_plan(
    g: &Tensor, x: &Tensor, weight: &[i64], p: Parameters<'_>,
) -> Result<TensorSpec> {
    check_dtypes(g, x, None)?;
    let w = shape_only(weight, x)?;
    let c = Convolution::new(x.sizes(), &w, x, p)?;
    ensure!(g.sizes() == &c.output[..], "convolution: expected a gradient of sizes {:?}, got {:?}", c.output, g.sizes());
    Ok(TensorSpec::like(Dims::from_slice(weight), x))
}

fn weight_gradient_run(
    g: &Tensor, x: &Tensor, weight: &[i64], p: Parameters<'_>, outs: &[Tensor],
) -> Result<()> {
    let w = shape_only(weight, x)?;
    let c = Convolution::new(x.sizes(), &w, x, p)?;
    if outs[0].numel() == 0 {
        return Ok(());
    }
    if g.numel() == 0 {
        return outs[0].zero_().map(drop);
    }
    c.shape.check_memory(false)?;
    let (g, x) = (g.contiguous_in(c.format)?, x.contiguous_in(c.format)?);
    write_dense(&outs[0], MemoryFormat::Contiguous, |out| {
        let _locks = LockSet::new([(g.storage(), false), (x.storage(), false), (out.storage(), true)])?;
        let kernel = if c.transposed { conv::transposed_backward_weight } else { conv::backward_weight };
        // SAFETY: the arrays are dense with the shape's sizes, and locked.
        unsafe { kernel(g.dtype(), &c.shape, x.data_ptr(), g.data_ptr(), out.data_ptr()) };
        Ok(())
    })
}

op! {
    /// The gradient of a convolution with respect to its weight, of sizes `weight_size`.
    conv_weight_gradient: "flambeau::conv_weight_gradient(Tensor grad_output, Tensor input, SymInt[] weight_size, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor";
    Body::Structured {
        plan: plan!(weight_gradient_plan; g, x, weight, p),
        run: run!(weight_gradient_run; g, x, weight, p),
    };
    derivative: backward! {
        grad_output(g, input: Tensor, stride: Dims, padding: Dims, dilation: Dims, transposed: bool, output_padding: Dims, groups: i64) =>
            forward(&input, g, Parameters { stride: &stride, padding: &padding, dilation: &dilation, transposed, output_padding: &output_padding, groups })?,
        input(g, grad_output: Tensor, input: crate::autograd::Geometry, stride: Dims, padding: Dims, dilation: Dims, transposed: bool, output_padding: Dims, groups: i64) =>
            input_gradient(&grad_output, g, &input.sizes, Parameters { stride: &stride, padding: &padding, dilation: &dilation, transposed, output_padding: &output_padding, groups })?,
    };
    forward: Forward::FromBackward;
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.any(&[1, 3, 4, 3]), m.any(&[1, 2, 5, 4]), vec![3i64, 2, 2, 2], vec![1i64, 1], vec![0i64, 0], vec![1i64, 1], false, vec![0i64, 0], 1]],
        false => vec![],
    };
    ulp: 64.0;
}

fn convolution_backward_any(
    g: &Tensor, x: &Tensor, w: &Tensor, bias_sizes: Option<&[i64]>, p: Parameters<'_>, mask: [bool; 3],
) -> Result<[Option<Tensor>; 3]> {
    Ok([
        if mask[0] { Some(input_gradient(g, w, x.sizes(), p)?) } else { None },
        if mask[1] { Some(weight_gradient(g, x, w.sizes(), p)?) } else { None },
        if mask[2] && bias_sizes.is_none_or(|b| !b.is_empty()) { Some(bias_gradient(g)?) } else { None },
    ])
}

op! {
    /// The gradients of a convolution with respect to input, weight and bias, as far as `output_mask` asks.
    convolution_backward: "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)";
    Body::Composite(kernel!(convolution_backward_any; g, x, w, bias_sizes, p, mask));
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![sample![m.any(&[1, 3, 4, 3]), m.any(&[1, 2, 5, 4]), m.any(&[3, 2, 2, 2]), vec![3i64], vec![1i64, 1], vec![0i64, 0], vec![1i64, 1], false, vec![0i64, 0], 1, OwnedValue::Bools(vec![true; 3])]],
        false => vec![],
    };
}

// ---- by number of dimensions --------------------------------------------------------------------

/// Gives an unbatched input a batch of one, and takes it away from the result.
fn batched(x: &Tensor, n: usize, name: &str, run: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    ensure!(
        x.dim() == n + 1 || x.dim() == n + 2,
        "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {:?}",
        n + 1,
        n + 2,
        x.sizes()
    );
    match x.dim() == n + 1 {
        true => run(&x.unsqueeze(0)?)?.squeeze_dim(0),
        false => run(x),
    }
}

/// That the weight has not the input's number of dims.
#[cold]
fn unlike(x: &Tensor, w: &Tensor, p: Parameters<'_>, n: usize) -> Error {
    let k = w.dim().saturating_sub(2);
    if k == 0 {
        return Error::runtime("weight should have at least three dimensions");
    }
    for (name, values) in [("stride", p.stride), ("padding", p.padding), ("dilation", p.dilation)] {
        let values = if values.len() == 1 { Dims::from_elem(values[0], n) } else { Dims::from_slice(values) };
        if values.len() != 1 && values.len() != k {
            return Error::runtime(format!(
                "expected {name} to be a single integer value or a list of {k} values to match the convolution dimensions, but \
                 got {name}={values:?}"
            ));
        }
    }
    Error::runtime(format!(
        "Expected {}-dimensional input for {}-dimensional weight {:?}, but got {}-dimensional input of size {:?} instead",
        w.dim(),
        w.dim(),
        w.sizes(),
        x.dim(),
        x.sizes()
    ))
}

/// A convolution, or its transpose, over `N` dims.
fn over<const N: usize>(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, p: Parameters<'_>) -> Result<Tensor> {
    let name = format!("conv{}{N}d", if p.transposed { "_transpose" } else { "" });
    batched(x, N, &name, |x| {
        if w.dim() != N + 2 {
            return Err(unlike(x, w, p, N));
        }
        p.call(&convolution::OP, &[x.into(), w.into(), bias.into()])
    })
}

fn conv_any<const N: usize>(
    x: &Tensor, w: &Tensor, bias: Option<&Tensor>, stride: &[i64], padding: &[i64], dilation: &[i64], groups: i64,
) -> Result<Tensor> {
    over::<N>(x, w, bias, Parameters { stride, padding, dilation, transposed: false, output_padding: &[0; N], groups })
}

fn conv_padding_any<const N: usize>(
    x: &Tensor, w: &Tensor, bias: Option<&Tensor>, stride: &[i64], padding: &str, dilation: &[i64], groups: i64,
) -> Result<Tensor> {
    match padding {
        "valid" => conv_any::<N>(x, w, bias, stride, &[0; N], dilation, groups),
        "same" => {
            ensure!(stride.iter().all(|s| *s == 1), "padding='same' is not supported for strided convolutions");
            ensure!(w.dim() >= 3, "weight should have at least three dimensions");
            // A sample without a batch counts as a batch of one.
            let batched = if x.dim() == N + 1 { x.unsqueeze(0)? } else { x.clone() };
            let (k, n) = (w.dim(), batched.dim());
            ensure!(
                k == N + 2,
                "Expected {k}-dimensional input for {k}-dimensional weight{:?}, but got {n}-dimensional input of size {:?} instead",
                w.sizes(),
                batched.sizes()
            );
            let dilation = spread("dilation", dilation, N)?;
            let total: Dims = (0..N).map(|d| dilation[3 - N + d] as i64 * (w.sizes()[d + 2] - 1)).collect();
            let half: Dims = total.iter().map(|t| t / 2).collect();
            // An odd total puts the extra one behind.
            let mut extra = Dims::new();
            for t in total.iter().rev() {
                extra.extend([0, t % 2]);
            }
            let dilation: Dims = dilation[3 - N..].iter().map(|d| *d as i64).collect();
            match total.iter().any(|t| t % 2 == 1) {
                true => conv_any::<N>(&x.constant_pad_nd(&extra, 0)?, w, bias, stride, &half, &dilation, groups),
                false => conv_any::<N>(x, w, bias, stride, &half, &dilation, groups),
            }
        }
        other => Err(Error::runtime(format!("Invalid padding string: '{other}'"))),
    }
}

macro_rules! conv_forms {
    ($($n:literal $name:ident $schema:literal, $padding_name:ident $padding_schema:literal;)*) => { $(
        op! {
            /// The convolution of input (N, C, ...) or (C, ...) with weight (O, C / groups, ...) and bias (O).
            $name: $schema;
            Body::Composite(kernel!(conv_any::<$n>; x, w, bias, stride, padding, dilation, groups));
            samples: |m| match m.dtype.is_differentiable() {
                true => vec![
                    sample![m.any(&[&[2, 4][..], &[4; $n]].concat()), m.any(&[&[2, 2][..], &[2; $n]].concat()), m.any(&[2]), vec![2i64; $n], vec![1i64; $n], vec![1i64; $n], 2],
                    sample![m.any(&[&[2][..], &[5; $n]].concat()), m.any(&[&[3, 2][..], &[2; $n]].concat()), (), vec![1i64; $n], vec![0i64; $n], vec![2i64; $n], 1],
                ],
                false => vec![],
            };
            fn $name(&self, weight: &Tensor, bias: Option<&Tensor>, stride: &[i64], padding: &[i64], dilation: &[i64], groups: i64) -> Tensor
                [self, weight, bias, stride, padding, dilation, groups];
        }
        op! {
            /// The convolution with padding `valid` (none) or `same` (so that the output is as large as the input).
            $padding_name: $padding_schema;
            Body::Composite(kernel!(conv_padding_any::<$n>; x, w, bias, stride, padding, dilation, groups));
            samples: |m| match m.dtype.is_differentiable() {
                true => vec![sample![m.any(&[&[1, 2][..], &[3; $n]].concat()), m.any(&[&[2, 2][..], &[2; $n]].concat()), (), vec![1i64; $n], "same", vec![1i64; $n], 1]],
                false => vec![],
            };
        }
    )* };
}
conv_forms! {
    1 conv1d "conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
        conv1d_padding "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding=\"valid\", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor";
    2 conv2d "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
        conv2d_padding "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor";
    3 conv3d "conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
        conv3d_padding "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor";
}

fn conv_transpose_any<const N: usize>(
    x: &Tensor, w: &Tensor, bias: Option<&Tensor>, stride: &[i64], padding: &[i64], output_padding: &[i64], groups: i64,
    dilation: &[i64],
) -> Result<Tensor> {
    over::<N>(x, w, bias, Parameters { stride, padding, dilation, transposed: true, output_padding, groups })
}

macro_rules! conv_transpose_forms {
    ($($n:literal $name:ident $schema:literal;)*) => { $(
        op! {
            /// The transposed convolution of input (N, C, ...) or (C, ...) with weight (C, O / groups, ...) and bias (O).
            $name: $schema;
            Body::Composite(kernel!(conv_transpose_any::<$n>; x, w, bias, stride, padding, output_padding, groups, dilation));
            samples: |m| match m.dtype.is_differentiable() {
                true => vec![
                    sample![m.any(&[&[1, 4][..], &[3; $n]].concat()), m.any(&[&[4, 2][..], &[2; $n]].concat()), m.any(&[4]), vec![2i64; $n], vec![1i64; $n], vec![1i64; $n], 2, vec![1i64; $n]],
                    sample![m.any(&[&[2][..], &[3; $n]].concat()), m.any(&[&[2, 1][..], &[2; $n]].concat()), (), vec![1i64; $n], vec![0i64; $n], vec![0i64; $n], 1, vec![2i64; $n]],
                ],
                false => vec![],
            };
            fn $name(&self, weight: &Tensor, bias: Option<&Tensor>, stride: &[i64], padding: &[i64], output_padding: &[i64], groups: i64, dilation: &[i64]) -> Tensor
                [self, weight, bias, stride, padding, output_padding, groups, dilation];
        }
    )* };
}
conv_transpose_forms! {
    1 conv_transpose1d "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor";
    2 conv_transpose2d "conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor";
    3 conv_transpose3d "conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor";
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    conv1d::ALL,
    conv1d_padding::ALL,
    conv2d::ALL,
    conv2d_padding::ALL,
    conv3d::ALL,
    conv3d_padding::ALL,
    conv_input_gradient::ALL,
    conv_transpose1d::ALL,
    conv_transpose2d::ALL,
    conv_transpose3d::ALL,
    conv_weight_gradient::ALL,
    convolution::ALL,
    convolution_backward::ALL,
];
