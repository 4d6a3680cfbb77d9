//! Normalisation: layer norm, RMS norm, group norm, instance norm, batch norm.

use super::loss::check_constant;
use crate::dims::Dims;
use crate::{Body, DType, MemoryFormat, Op, OwnedValue, Result, Scalar, Tensor, TensorSpec, Value, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::norm::{self, BatchNormShape, GroupNormShape, NormGradients};
use flambeau_cpu::reduce::Operand;

pub(super) fn operand(t: &Tensor) -> Operand {
    Operand { data: t.data_ptr(), dtype: t.dtype() }
}

pub(super) fn optional(t: &Option<Tensor>) -> Option<Operand> {
    t.as_ref().map(operand)
}

/// Locks everything a kernel touches: fresh outputs need none.
pub(super) fn locks<'a>(inputs: impl IntoIterator<Item = &'a Tensor>) -> Result<LockSet<'a>> {
    LockSet::new(inputs.into_iter().map(|t| (t.storage(), false)))
}

pub(super) fn dense(t: Option<&Tensor>) -> Result<Option<Tensor>> {
    t.map(Tensor::contiguous).transpose()
}

pub(super) fn floats(op: &str, x: &Tensor) -> Result<()> {
    match x.dtype().is_floating_point() {
        true => Ok(()),
        false => Err(crate::Error::not_implemented(format!("\"{op}\" not implemented for '{}'", x.dtype().scalar_type_name()))),
    }
}

/// The dtype of saved statistics: `f32` for halves with wider parameters, else the input's.
fn statistics_dtype(x: &Tensor, weight: Option<&Tensor>) -> DType {
    match weight {
        Some(w) if w.dtype() != x.dtype() => w.dtype(),
        _ => x.dtype(),
    }
}

// ---- layer norm ---------------------------------------------------------------------------------

/// Rows and their length.
pub(super) fn rows_of(x: &Tensor, shape: &[i64], weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<(usize, usize)> {
    ensure!(!shape.is_empty(), "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []");
    for (name, t) in [("weight", weight), ("bias", bias)] {
        if let Some(t) = t {
            ensure!(
                t.sizes() == shape,
                "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {:?} and normalized_shape = {shape:?}",
                t.sizes()
            );
        }
    }
    let fits = x.dim() >= shape.len() && &x.sizes()[x.dim() - shape.len()..] == shape;
    ensure!(
        fits,
        "Given normalized_shape={shape:?}, expected input with shape [*, {}], but got input of size{:?}",
        shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
        x.sizes()
    );
    let n: i64 = shape.iter().product();
    let rows: i64 = x.sizes()[..x.dim() - shape.len()].iter().product();
    Ok((rows as usize, n as usize))
}

pub(super) fn statistics_sizes(x: &Tensor, shape: &[i64]) -> Dims {
    let mut sizes = Dims::from_slice(&x.sizes()[..x.dim() - shape.len()]);
    sizes.resize(x.dim(), 1);
    sizes
}

fn layer_norm_plan(x: &Tensor, shape: &[i64], weight: Option<&Tensor>, bias: Option<&Tensor>, _eps: f64) -> Result<[TensorSpec; 3]> {
    floats("LayerNormKernelImpl", x)?;
    rows_of(x, shape, weight, bias)?;
    let statistics = TensorSpec::like(statistics_sizes(x, shape), x).dtype(statistics_dtype(x, weight));
    Ok([TensorSpec::like(Dims::from_slice(x.sizes()), x), statistics.clone(), statistics])
}

fn layer_norm_run(x: &Tensor, shape: &[i64], weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64, outs: &[Tensor]) -> Result<()> {
    let (rows, n) = rows_of(x, shape, weight, bias)?;
    let (x, weight, bias) = (x.contiguous()?, dense(weight)?, dense(bias)?);
    with_contiguous(outs, |o| {
        if o[0].numel() == 0 && o[1].numel() == 0 {
            return Ok(());
        }
        let _read = locks([Some(&x), weight.as_ref(), bias.as_ref()].into_iter().flatten())?;
        // SAFETY: all are row-major with the rows' elements; inputs are locked and apart from the outputs.
        unsafe {
            norm::layer_norm(
                (rows, n), eps, operand(&x), optional(&weight), optional(&bias), operand(&o[0]),
                (Some(operand(&o[1])), Some(operand(&o[2]))),
            );
        }
        Ok(())
    })
}

/// Runs with row-major outputs, through temporaries where the given ones are not.
pub(super) fn with_contiguous(outs: &[Tensor], run: impl FnOnce(&[Tensor]) -> Result<()>) -> Result<()> {
    if outs.iter().all(Tensor::is_contiguous) {
        return run(outs);
    }
    let dense = outs.iter().map(|o| Tensor::empty(o.sizes(), (o.dtype(), o.device()))).collect::<Result<Vec<_>>>()?;
    run(&dense)?;
    outs.iter().zip(&dense).try_for_each(|(o, d)| o.copy_(d).map(drop))
}

op! {
    /// Normalises over the last dims to mean 0 and variance 1, then scales and shifts; also gives mean and reciprocal
    /// standard deviation.
    native_layer_norm: "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)";
    Body::Structured { plan: plan!(layer_norm_plan; x, shape, weight, bias, eps), run: run!(layer_norm_run; x, shape, weight, bias, eps) };
    derivative: backward! {
        (input, weight, bias)([c], input: Tensor, normalized_shape: Dims, weight: Option<Tensor>, bias: Option<Tensor>, result1: Tensor, result2: Tensor) => {
            let mask = [c.needs("input"), c.needs("weight"), c.needs("bias")];
            norm_grads(native_layer_norm_backward::OP.call(&[
                (&c.gradient()?).into(), (&input).into(), (&normalized_shape).into(), (&result1).into(), (&result2).into(),
                (&weight).into(), (&bias).into(), (&mask[..]).into(),
            ])?)
        }
    };
    differentiable_results: 1;
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[3, 5]), vec![5i64], m.any(&[5]), m.any(&[5]), 1e-5], sample![m.any(&[2, 3, 4]), vec![3i64, 4], (), (), 1e-5]],
        false => vec![],
    };
    ulp: 64.0;
}

/// Adds what the gradients of the mean and of the reciprocal standard deviation, further results of a normalisation, give
/// the input. In shape `split` the input broadcasts with statistics of shape `kept`.
fn with_statistics(
    mut grads: Vec<Option<Tensor>>, c: &crate::autograd::GradContext<'_>, x: &Tensor, [mean, rstd]: [&Tensor; 2], split: &[i64],
    kept: &[i64],
) -> Result<Vec<Option<Tensor>>> {
    let (of_mean, of_rstd) = (c.grad(1), c.grad(2));
    if !c.needs("input") || mean.numel() == 0 || (of_mean.is_none() && of_rstd.is_none()) {
        return Ok(grads);
    }
    let count = x.numel() / mean.numel();
    let mut share = of_mean.map(|g| g.reshape(kept)?.div(count)).transpose()?;
    if let Some(g) = of_rstd {
        // The derivative of `(var + eps)^(-1/2)`.
        let rstd = rstd.reshape(kept)?;
        let slope = g.reshape(kept)?.mul(&rstd.mul(&rstd)?.mul(&rstd)?)?.div(-count)?;
        let part = x.reshape(split)?.sub(&mean.reshape(kept)?)?.mul(&slope)?;
        share = Some(match share {
            Some(s) => part.add(&s)?,
            None => part,
        });
    }
    if let (Some(share), Some(first)) = (share, grads.first_mut()) {
        let share = share.expand(split)?.reshape(x.sizes())?;
        *first = Some(match first {
            Some(g) => g.add(&share)?,
            None => share,
        });
    }
    Ok(grads)
}

/// Three results of which some may be missing.
fn norm_grads(o: crate::Outputs) -> Vec<Option<Tensor>> {
    match o {
        crate::Outputs::Many(v) => v,
        crate::Outputs::One(t) => vec![Some(t), None, None],
        _ => vec![None, None, None],
    }
}

fn layer_norm_backward_cpu(
    g: &Tensor, x: &Tensor, shape: &[i64], mean: &Tensor, rstd: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, mask: [bool; 3],
) -> Result<[Option<Tensor>; 3]> {
    let (rows, n) = rows_of(x, shape, weight, bias)?;
    check_backward("native_layer_norm_backward", g, x)?;
    let (g, x, mean, rstd) = (g.contiguous()?, x.contiguous()?, mean.contiguous()?, rstd.contiguous()?);
    ensure!(mean.numel() as usize == rows && rstd.numel() as usize == rows, "native_layer_norm_backward: statistics do not fit the input");
    let weight = dense(weight)?;
    let like = weight.as_ref().map_or(x.dtype(), Tensor::dtype);
    let input = if mask[0] { Some(Tensor::empty(x.sizes(), (x.dtype(), x.device()))?) } else { None };
    let dw = if mask[1] { Some(Tensor::empty(shape, (like, x.device()))?) } else { None };
    let db = if mask[2] { Some(Tensor::empty(shape, (like, x.device()))?) } else { None };
    let _read = locks([Some(&g), Some(&x), Some(&mean), Some(&rstd), weight.as_ref()].into_iter().flatten())?;
    let gradients = NormGradients { input: optional(&input), weight: optional(&dw), bias: optional(&db) };
    // SAFETY: all are row-major with the rows' elements; inputs are locked, outputs fresh.
    unsafe {
        norm::layer_norm_backward((rows, n), operand(&g), operand(&x), (operand(&mean), operand(&rstd)), optional(&weight), gradients);
    }
    Ok([input, dw, db])
}

fn check_backward(op: &str, g: &Tensor, x: &Tensor) -> Result<()> {
    ensure!(g.sizes() == x.sizes(), "{op}: expected a gradient of sizes {:?}, got {:?}", x.sizes(), g.sizes());
    ensure!(g.dtype() == x.dtype(), "{op}: expected a gradient of dtype {}, got {}", x.dtype(), g.dtype());
    Ok(())
}

fn layer_norm_backward_meta(
    _g: &Tensor, x: &Tensor, shape: &[i64], _mean: &Tensor, _rstd: &Tensor, _weight: Option<&Tensor>, _bias: Option<&Tensor>, mask: [bool; 3],
) -> Result<[Option<Tensor>; 3]> {
    let meta = |sizes: &[i64], wanted: bool| match wanted {
        true => Tensor::fresh(crate::Device::META, x.dtype(), Dims::from_slice(sizes)).map(Some),
        false => Ok(None),
    };
    Ok([meta(x.sizes(), mask[0])?, meta(shape, mask[1])?, meta(shape, mask[2])?])
}

op! {
    /// The gradients of a layer norm with respect to input, weight and bias, as far as `output_mask` asks.
    native_layer_norm_backward: "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)";
    Body::Kernels {
        cpu: kernel!(layer_norm_backward_cpu; g, x, shape, mean, rstd, weight, bias, mask),
        meta: kernel!(layer_norm_backward_meta; g, x, shape, mean, rstd, weight, bias, mask),
    };
    derivative: backward! {
        (grad_out, input, weight)([c], grad_out: Tensor, input: Tensor, normalized_shape: Dims, rstd: Tensor, weight: Option<Tensor>) => {
            let over: Dims = (0..normalized_shape.len() as i64).map(|d| -1 - d).collect();
            let lead: Dims = (0..(input.dim() - normalized_shape.len()) as i64).collect();
            let eps = epsilon(&input, &rstd, &over)?;
            c.differentiate(&[Some(&grad_out), Some(&input), weight.as_ref()], |leaves| {
                let (g, x) = (given(leaves, 0)?, given(leaves, 1)?);
                let (dx, xhat) = gradient_over(g, x, leaves[2].as_ref(), &eps, &over)?;
                let sum = |t: Tensor| if lead.is_empty() { Ok(t) } else { t.sum_dim(&lead, false) };
                Ok(vec![dx, sum(g.mul(&xhat)?)?, sum(g.clone())?])
            })?
        }
    };
    samples: |m| {
        let (x, w, b, shape) = (m.any(&[3, 5]), m.any(&[5]), m.any(&[5]), vec![5i64]);
        let args = [(&x).into(), shape[..].into(), (&w).into(), (&b).into(), 1e-5.into()];
        match &statistics(&native_layer_norm::OP, &args)[..] {
            [mean, rstd] => vec![sample![m.any(&[3, 5]), x, shape, mean.clone(), rstd.clone(), w, b, OwnedValue::Bools(vec![true; 3])]],
            _ => vec![],
        }
    };
    ulp: 64.0;
}

/// What a normalisation gives beside its result, for the samples of its gradient; nothing for dtypes it does not take.
pub(super) fn statistics(forward: &'static Op, args: &[Value<'_>]) -> Vec<Tensor> {
    forward.call(args).and_then(crate::Outputs::list).map_or_else(|_| vec![], |mut outputs| outputs.split_off(1))
}

/// The epsilon that saved statistics were made with.
fn epsilon(x: &Tensor, rstd: &Tensor, over: &[i64]) -> Result<Tensor> {
    let var = x.detach_all()?.var(over, 0.0, true)?;
    rstd.detach_all()?.view(var.sizes())?.pow(-2.0)?.sub(&var)
}

/// The gradient of a normalisation over some dims with respect to its input, and the normalised input. Mean and `rstd`
/// are recomputed, since they depend on the input: so it can be differentiated again.
fn gradient_over(
    g: &Tensor, x: &Tensor, weight: Option<&Tensor>, eps: &Tensor, over: &[i64],
) -> Result<(Tensor, Tensor)> {
    let centred = x.sub(&x.mean_dim(over, true)?)?;
    let rstd = centred.mul(&centred)?.mean_dim(over, true)?.add(eps)?.rsqrt()?;
    let xhat = centred.mul(&rstd)?;
    let gw = match weight { Some(w) => g.mul(w)?, None => g.clone() };
    let dx = gw.sub(&gw.mean_dim(over, true)?)?.sub(&xhat.mul(&gw.mul(&xhat)?.mean_dim(over, true)?)?)?.mul(&rstd)?;
    Ok((dx, xhat))
}

/// A leaf that is always there.
pub(super) fn given(leaves: &[Option<Tensor>], i: usize) -> Result<&Tensor> {
    leaves.get(i).and_then(Option::as_ref).ok_or_else(|| crate::Error::runtime("a normalisation's gradient without its input"))
}

fn layer_norm_any(x: &Tensor, shape: &[i64], weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64, _cudnn: bool) -> Result<Tensor> {
    let out = native_layer_norm::OP.call(&[x.into(), shape.into(), weight.into(), bias.into(), eps.into()])?;
    out.list()?.into_iter().next().ok_or_else(|| crate::Error::runtime("layer_norm gave nothing"))
}

op! {
    /// Normalises over the last dims (`normalized_shape`) to mean 0 and variance 1, then scales by `weight` and adds `bias`.
    layer_norm: "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor";
    Body::Composite(kernel!(layer_norm_any; x, shape, weight, bias, eps, cudnn));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3, 4]), vec![4i64], m.any(&[4]), m.any(&[4]), 1e-5, false]] } else { vec![] };
    fn layer_norm(&self, normalized_shape: &[i64], weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor
        [self, normalized_shape, weight, bias, eps, false];
}

// ---- group norm ---------------------------------------------------------------------------------

fn group_shape(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, batch: i64, channels: i64, spatial: i64, groups: i64) -> Result<GroupNormShape> {
    ensure!(groups > 0, "Expected num groups to be greater than 0, got {groups}");
    ensure!(
        channels % groups == 0,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape {:?} and num_groups={groups}",
        x.sizes()
    );
    for (name, t) in [("weight", weight), ("bias", bias)] {
        if let Some(t) = t {
            ensure!(
                t.dim() == 1 && t.numel() == channels,
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {:?} and \
                 input of shape {:?}",
                t.sizes(),
                x.sizes()
            );
        }
    }
    ensure!(
        batch >= 0 && spatial >= 0 && batch.checked_mul(channels).and_then(|n| n.checked_mul(spatial)) == Some(x.numel()),
        "native_group_norm: N={batch}, C={channels}, HxW={spatial} do not fit an input of shape {:?}",
        x.sizes()
    );
    let channels_last = channels_last(x, batch, channels).is_some();
    Ok(GroupNormShape { batch: batch as usize, channels: channels as usize, spatial: spatial as usize, groups: groups as usize, channels_last })
}

/// The layout with channels last that the input has, where its first sizes are the ones that a group norm is told.
fn channels_last(x: &Tensor, batch: i64, channels: i64) -> Option<MemoryFormat> {
    let format = x.suggested_memory_format();
    (format != MemoryFormat::Contiguous && x.sizes()[..2] == [batch, channels]).then_some(format)
}

fn group_norm_plan(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, n: i64, c: i64, hw: i64, groups: i64, _eps: f64) -> Result<[TensorSpec; 3]> {
    floats("GroupNormKernelImpl", x)?;
    group_shape(x, weight, bias, n, c, hw, groups)?;
    let statistics = TensorSpec::like(Dims::from_slice(&[n, groups]), x).dtype(statistics_dtype(x, weight));
    let format = x.suggested_memory_format();
    let strides = crate::dims::strides_for(x.sizes(), format)?;
    Ok([TensorSpec::like(Dims::from_slice(x.sizes()), x).strided(strides), statistics.clone(), statistics])
}

fn group_norm_run(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, n: i64, c: i64, hw: i64, groups: i64, eps: f64, outs: &[Tensor]) -> Result<()> {
    let mut shape = group_shape(x, weight, bias, n, c, hw, groups)?;
    // With channels last as it is, if the output is so, too.
    let last = channels_last(x, n, c).filter(|&f| outs[0].is_contiguous_in(f) && outs[1..].iter().all(Tensor::is_contiguous));
    shape.channels_last = last.is_some();
    let (x, weight, bias) = (x.contiguous_in(last.unwrap_or(MemoryFormat::Contiguous))?, dense(weight)?, dense(bias)?);
    let run = |o: &[Tensor]| {
        if x.numel() == 0 {
            return Ok(());
        }
        let _read = locks([Some(&x), weight.as_ref(), bias.as_ref()].into_iter().flatten())?;
        // SAFETY: all are row-major, data in the shape's layout, with its elements; inputs are locked and apart from the outputs.
        unsafe {
            norm::group_norm(
                shape, eps, operand(&x), optional(&weight), optional(&bias), operand(&o[0]),
                (Some(operand(&o[1])), Some(operand(&o[2]))),
            );
        }
        Ok(())
    };
    if last.is_some() { run(outs) } else { with_contiguous(outs, run) }
}

op! {
    /// Normalises each group of channels of each sample; also gives means and reciprocal standard deviations.
    native_group_norm: "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)";
    Body::Structured { plan: plan!(group_norm_plan; x, weight, bias, n, c, hw, groups, eps), run: run!(group_norm_run; x, weight, bias, n, c, hw, groups, eps) };
    derivative: backward! {
        (input, weight, bias)([c], input: Tensor, weight: Option<Tensor>, N: i64, C: i64, HxW: i64, group: i64, result1: Tensor, result2: Tensor) => {
            let mask = [c.needs("input"), c.needs("weight"), c.needs("bias")];
            let grads = norm_grads(native_group_norm_backward::OP.call(&[
                (&c.gradient()?).into(), (&input).into(), (&result1).into(), (&result2).into(), (&weight).into(),
                N.into(), C.into(), HxW.into(), group.into(), (&mask[..]).into(),
            ])?);
            with_statistics(grads, c, &input, [&result1, &result2], &[N, group, C / group * HxW], &[N, group, 1])?
        }
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[2, 4, 3]), m.any(&[4]), m.any(&[4]), 2, 4, 3, 2, 1e-5]],
        false => vec![],
    };
    ulp: 64.0;
}

fn group_norm_backward_cpu(
    g: &Tensor, x: &Tensor, mean: &Tensor, rstd: &Tensor, weight: Option<&Tensor>, n: i64, c: i64, hw: i64, groups: i64, mask: [bool; 3],
) -> Result<[Option<Tensor>; 3]> {
    let shape = group_shape(x, weight, None, n, c, hw, groups)?;
    check_backward("native_group_norm_backward", g, x)?;
    ensure!(mean.numel() == n * groups && rstd.numel() == n * groups, "native_group_norm_backward: statistics do not fit the input");
    let format = channels_last(x, n, c).unwrap_or(MemoryFormat::Contiguous);
    let strides = crate::dims::strides_for(x.sizes(), format)?;
    let (g, x, mean, rstd) = (g.contiguous_in(format)?, x.contiguous_in(format)?, mean.contiguous()?, rstd.contiguous()?);
    let weight = dense(weight)?;
    let like = weight.as_ref().map_or(x.dtype(), Tensor::dtype);
    let input = match mask[0] {
        true => Some(Tensor::fresh_strided(x.device(), x.dtype(), Dims::from_slice(x.sizes()), strides)?),
        false => None,
    };
    let dw = if mask[1] { Some(Tensor::zeros(&[c], (like, x.device()))?) } else { None };
    let db = if mask[2] { Some(Tensor::zeros(&[c], (like, x.device()))?) } else { None };
    if x.numel() == 0 {
        return Ok([input, dw, db]);
    }
    let _read = locks([Some(&g), Some(&x), Some(&mean), Some(&rstd), weight.as_ref()].into_iter().flatten())?;
    let gradients = NormGradients { input: optional(&input), weight: optional(&dw), bias: optional(&db) };
    // SAFETY: all are row-major, data in the shape's layout, with its elements; inputs are locked, outputs fresh.
    unsafe {
        norm::group_norm_backward(shape, operand(&g), operand(&x), (operand(&mean), operand(&rstd)), optional(&weight), gradients);
    }
    Ok([input, dw, db])
}

fn group_norm_backward_meta(
    _g: &Tensor, x: &Tensor, _mean: &Tensor, _rstd: &Tensor, _weight: Option<&Tensor>, n: i64, c: i64, _hw: i64, _groups: i64, mask: [bool; 3],
) -> Result<[Option<Tensor>; 3]> {
    let meta = |sizes: &[i64], format: MemoryFormat, wanted: bool| match wanted {
        true => {
            let strides = crate::dims::strides_for(sizes, format)?;
            Tensor::fresh_strided(crate::Device::META, x.dtype(), Dims::from_slice(sizes), strides).map(Some)
        }
        false => Ok(None),
    };
    let format = channels_last(x, n, c).unwrap_or(MemoryFormat::Contiguous);
    let row = |wanted: bool| meta(&[c], MemoryFormat::Contiguous, wanted);
    Ok([meta(x.sizes(), format, mask[0])?, row(mask[1])?, row(mask[2])?])
}

op! {
    /// The gradients of a group norm with respect to input, weight and bias, as far as `output_mask` asks.
    native_group_norm_backward: "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)";
    Body::Kernels {
        cpu: kernel!(group_norm_backward_cpu; g, x, mean, rstd, weight, n, c, hw, groups, mask),
        meta: kernel!(group_norm_backward_meta; g, x, mean, rstd, weight, n, c, hw, groups, mask),
    };
    derivative: backward! {
        (grad_out, input, weight)([c], grad_out: Tensor, input: Tensor, rstd: Tensor, weight: Option<Tensor>, N: i64, C: i64, HxW: i64, group: i64) => {
            // As (N, groups, channels of a group, HxW), with the weight along; a normalisation over the last two dims.
            let (split, along) = ([N, group, C / group, HxW], [1, group, C / group, 1]);
            let eps = epsilon(&input.reshape(&split)?, &rstd.reshape(&[N, group, 1, 1])?, &[-1, -2])?;
            c.differentiate(&[Some(&grad_out), Some(&input), weight.as_ref()], |leaves| {
                let (g, x) = (given(leaves, 0)?.reshape(&split)?, given(leaves, 1)?.reshape(&split)?);
                let weight = leaves[2].as_ref().map(|w| w.reshape(&along)).transpose()?;
                let (dx, xhat) = gradient_over(&g, &x, weight.as_ref(), &eps, &[-1, -2])?;
                let sum = |t: &Tensor| t.sum_dim(&[0, 3], false)?.reshape(&[C]);
                Ok(vec![dx.reshape(input.sizes())?, sum(&g.mul(&xhat)?)?, sum(&g)?])
            })?
        }
    };
    samples: |m| {
        let (x, w) = (m.any(&[2, 4, 3]), m.any(&[4]));
        let args = [(&x).into(), (&w).into(), Value::None, 2.into(), 4.into(), 3.into(), 2.into(), 1e-5.into()];
        match &statistics(&native_group_norm::OP, &args)[..] {
            [mean, rstd] => vec![sample![m.any(&[2, 4, 3]), x, mean.clone(), rstd.clone(), w, 2, 4, 3, 2, OwnedValue::Bools(vec![true; 3])]],
            _ => vec![],
        }
    };
    ulp: 64.0;
}

fn group_norm_any(x: &Tensor, groups: i64, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64, _cudnn: bool) -> Result<Tensor> {
    ensure!(x.dim() >= 2, "Expected at least 2 dimensions for input tensor but received {}", x.dim());
    let (n, c) = (x.sizes()[0], x.sizes()[1]);
    let hw: i64 = x.sizes()[2..].iter().product();
    ensure!(groups > 0 && c % groups == 0, "Expected number of channels in input to be divisible by num_groups, but got input of shape {:?} and num_groups={groups}", x.sizes());
    let out = native_group_norm::OP.call(&[
        x.into(), weight.into(), bias.into(), n.into(), c.into(), hw.into(), groups.into(), eps.into(),
    ])?;
    out.list()?.into_iter().next().ok_or_else(|| crate::Error::runtime("group_norm gave nothing"))
}

op! {
    /// Normalises each group of channels of each sample (N, C, ...) to mean 0 and variance 1, then scales and shifts each channel.
    group_norm: "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor";
    Body::Composite(kernel!(group_norm_any; x, groups, weight, bias, eps, cudnn));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 4, 3]), 2, m.any(&[4]), m.any(&[4]), 1e-5, false]] } else { vec![] };
    fn group_norm(&self, num_groups: i64, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor [self, num_groups, weight, bias, eps, false];
}

// ---- batch norm ---------------------------------------------------------------------------------

fn batch_shape(x: &Tensor, parameters: &[(&str, Option<&Tensor>)]) -> Result<(BatchNormShape, MemoryFormat)> {
    ensure!(x.dim() >= 2, "batch_norm: expected at least two dimensions, got input of shape {:?}", x.sizes());
    let c = x.sizes()[1];
    for (name, t) in parameters {
        if let Some(t) = t {
            ensure!(t.dim() == 1 && t.numel() == c, "{name} should contain {c} elements not {}", t.numel());
        }
    }
    let (n, spatial) = (x.sizes()[0] as usize, x.sizes()[2..].iter().product::<i64>() as usize);
    Ok(match x.suggested_memory_format() {
        MemoryFormat::Contiguous => (BatchNormShape { outer: n, channels: c as usize, inner: spatial }, MemoryFormat::Contiguous),
        format => (BatchNormShape { outer: n * spatial, channels: c as usize, inner: 1 }, format),
    })
}

fn batch_norm_cpu(
    x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, running_mean: Option<&Tensor>, running_var: Option<&Tensor>,
    training: bool, momentum: f64, eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    floats("batch_norm", x)?;
    let named = [("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)];
    let (shape, format) = batch_shape(x, &named)?;
    let c = shape.channels as i64;
    let wide = statistics_dtype(x, weight.or(running_mean));
    let strides = crate::dims::strides_for(x.sizes(), format)?;
    let out = Tensor::fresh_strided(x.device(), x.dtype(), Dims::from_slice(x.sizes()), strides)?;
    let x = x.contiguous_in(format)?;
    let (weight, bias) = (dense(weight)?, dense(bias)?);
    let mut updates = Vec::new();
    let (mean, invstd, saved) = if training {
        let mean = Tensor::empty(&[c], (wide, x.device()))?;
        let var = Tensor::empty(&[c], (wide, x.device()))?;
        if x.numel() == 0 {
            mean.zero_()?;
            var.zero_()?;
        } else {
            let _read = locks([&x])?;
            // SAFETY: the input is dense and locked, the outputs fresh.
            unsafe { norm::batch_norm_statistics(shape, operand(&x), operand(&mean), operand(&var)) };
        }
        let count = (shape.outer * shape.inner) as f64;
        // A batch without elements moves nothing.
        let (running_mean, running_var) = if x.numel() == 0 { (None, None) } else { (running_mean, running_var) };
        if let Some(r) = running_mean {
            updates.push((r, mean.clone()));
        }
        if let Some(r) = running_var {
            updates.push((r, var.mul(count / (count - 1.0))?));
        }
        let invstd = var.add(eps)?.rsqrt()?;
        (mean.clone(), invstd.clone(), (mean, invstd))
    } else {
        let m = running_mean.ok_or_else(|| crate::Error::runtime("running_mean must be defined in evaluation mode"))?;
        let v = running_var.ok_or_else(|| crate::Error::runtime("running_var must be defined in evaluation mode"))?;
        let none = || Tensor::empty(&[0], (wide, x.device()));
        (m.contiguous()?, v.add(eps)?.rsqrt()?, (none()?, none()?))
    };
    if x.numel() > 0 {
        let _read = locks([Some(&x), Some(&mean), Some(&invstd), weight.as_ref(), bias.as_ref()].into_iter().flatten())?;
        // SAFETY: all are dense with the shape's elements; inputs are locked, the output fresh.
        unsafe {
            norm::batch_norm(shape, operand(&x), (operand(&mean), operand(&invstd)), optional(&weight), optional(&bias), operand(&out));
        }
    }
    // Last, and both or neither: a call that fails leaves the running statistics as they were.
    for (r, now) in &updates {
        crate::dispatch::check_writable(r, now.dtype())?;
        [momentum, 1.0 - momentum].into_iter().try_for_each(|m| Scalar::Float(m).fit(r.dtype()).map(drop))?;
    }
    for (r, now) in &updates {
        // As in PyTorch no write is counted: another step may move them before this one's backward.
        r.shallow_detached(false).mul_(1.0 - momentum)?.add_scaled_(now, momentum)?;
    }
    Ok((out, saved.0, saved.1))
}

fn batch_norm_meta(
    x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, running_mean: Option<&Tensor>, running_var: Option<&Tensor>,
    training: bool, _momentum: f64, _eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    floats("batch_norm", x)?;
    let named = [("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)];
    let (shape, format) = batch_shape(x, &named)?;
    if training {
        [running_mean, running_var].into_iter().flatten().try_for_each(crate::dispatch::check_meta_target)?;
    }
    let strides = crate::dims::strides_for(x.sizes(), format)?;
    let c = if training { shape.channels as i64 } else { 0 };
    let statistics = || Tensor::fresh(crate::Device::META, statistics_dtype(x, weight.or(running_mean)), Dims::from_slice(&[c]));
    let out = Tensor::fresh_strided(crate::Device::META, x.dtype(), Dims::from_slice(x.sizes()), strides)?;
    Ok((out, statistics()?, statistics()?))
}

/// That a kernel reads and writes elements of one dtype.
pub(super) fn accessed(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "expected scalar type {} but found {}",
        result.scalar_type_name(),
        out.scalar_type_name()
    );
    Ok(())
}

op! {
    /// Normalises each channel of (N, C, ...) by the batch's statistics (and updates the running ones) or by the running
    /// ones; also gives the batch's means and reciprocal standard deviations.
    native_batch_norm: "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        Out OUT: "native_batch_norm.out(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, *, Tensor(a!) out, Tensor(b!) save_mean, Tensor(c!) save_invstd) -> (Tensor(a!), Tensor(b!), Tensor(c!))";
    Body::Kernels {
        cpu: kernel!(batch_norm_cpu; x, weight, bias, running_mean, running_var, training, momentum, eps),
        meta: kernel!(batch_norm_meta; x, weight, bias, running_mean, running_var, training, momentum, eps),
    };
    derivative: backward! {
        (input, weight, bias)([c], input: Tensor, weight: Option<Tensor>, running_mean: Option<Tensor>, running_var: Option<Tensor>, training: bool, eps: f64, result1: Tensor, result2: Tensor) => {
            let mask = [c.needs("input"), c.needs("weight"), c.needs("bias")];
            norm_grads(native_batch_norm_backward::OP.call(&[
                (&c.gradient()?).into(), (&input).into(), (&weight).into(),
                (&running_mean).into(), (&running_var).into(),
                (&result1).into(), (&result2).into(), training.into(), eps.into(), (&mask[..]).into(),
            ])?)
        }
    };
    differentiable_results: 1;
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![
            sample![m.any(&[3, 4, 2]), m.any(&[4]), m.any(&[4]), (), (), true, 0.1, 1e-5],
            sample![m.any(&[3, 4, 2, 2]), (), (), m.any(&[4]), m.uniform(&[4], 0.5, 2.0), false, 0.1, 1e-5],
        ],
        false => vec![],
    };
    ulp: 64.0;
    out_rule: crate::OutRule::dtype(accessed);
}

fn batch_norm_backward_cpu(
    g: &Tensor, x: &Tensor, weight: Option<&Tensor>, running_mean: Option<&Tensor>, running_var: Option<&Tensor>,
    save_mean: Option<&Tensor>, save_invstd: Option<&Tensor>, training: bool, eps: f64, mask: [bool; 3],
) -> Result<[Option<Tensor>; 3]> {
    check_backward("native_batch_norm_backward", g, x)?;
    let (shape, format) = batch_shape(x, &[("weight", weight), ("running_mean", running_mean), ("running_var", running_var)])?;
    let c = shape.channels as i64;
    let (mean, invstd) = match training {
        true => match (save_mean, save_invstd) {
            (Some(m), Some(i)) if m.numel() == c && i.numel() == c => (m.contiguous()?, i.contiguous()?),
            _ => return Err(crate::Error::runtime("native_batch_norm_backward: the saved statistics do not fit the input")),
        },
        false => match (running_mean, running_var) {
            (Some(m), Some(v)) => (m.contiguous()?, v.add(eps)?.rsqrt()?),
            _ => return Err(crate::Error::runtime("running_mean must be defined in evaluation mode")),
        },
    };
    let strides = crate::dims::strides_for(x.sizes(), format)?;
    let (g, x, weight) = (g.contiguous_in(format)?, x.contiguous_in(format)?, dense(weight)?);
    let like = weight.as_ref().map_or(x.dtype(), Tensor::dtype);
    let input = match mask[0] {
        true => Some(Tensor::fresh_strided(x.device(), x.dtype(), Dims::from_slice(x.sizes()), strides)?),
        false => None,
    };
    let dw = if mask[1] { Some(Tensor::zeros(&[c], (like, x.device()))?) } else { None };
    let db = if mask[2] { Some(Tensor::zeros(&[c], (like, x.device()))?) } else { None };
    if x.numel() == 0 {
        return Ok([input, dw, db]);
    }
    let _read = locks([Some(&g), Some(&x), Some(&mean), Some(&invstd), weight.as_ref()].into_iter().flatten())?;
    let gradients = NormGradients { input: optional(&input), weight: optional(&dw), bias: optional(&db) };
    // SAFETY: all are dense with the shape's elements; inputs are locked, outputs fresh.
    unsafe {
        norm::batch_norm_backward(shape, training, operand(&g), operand(&x), (operand(&mean), operand(&invstd)), optional(&weight), gradients);
    }
    Ok([input, dw, db])
}

fn batch_norm_backward_meta(
    _g: &Tensor, x: &Tensor, _weight: Option<&Tensor>, _rm: Option<&Tensor>, _rv: Option<&Tensor>, _sm: Option<&Tensor>,
    _si: Option<&Tensor>, _training: bool, _eps: f64, mask: [bool; 3],
) -> Result<[Option<Tensor>; 3]> {
    let meta = |sizes: &[i64], wanted: bool| match wanted {
        true => Tensor::fresh(crate::Device::META, x.dtype(), Dims::from_slice(sizes)).map(Some),
        false => Ok(None),
    };
    let c = [x.sizes().get(1).copied().unwrap_or(0)];
    Ok([meta(x.sizes(), mask[0])?, meta(&c, mask[1])?, meta(&c, mask[2])?])
}

op! {
    /// The gradients of a batch norm with respect to input, weight and bias, as far as `output_mask` asks.
    native_batch_norm_backward: "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)";
    Body::Kernels {
        cpu: kernel!(batch_norm_backward_cpu; g, x, weight, running_mean, running_var, save_mean, save_invstd, training, eps, mask),
        meta: kernel!(batch_norm_backward_meta; g, x, weight, running_mean, running_var, save_mean, save_invstd, training, eps, mask),
    };
    derivative: backward! {
        (grad_out, input, weight)([c], grad_out: Tensor, input: Tensor, weight: Option<Tensor>, running_mean: Option<Tensor>, running_var: Option<Tensor>, train: bool, eps: f64) => {
            let over: Dims = (0..input.dim() as i64).filter(|d| *d != 1).collect();
            let mut channels = Dims::from_elem(1, input.dim());
            channels[1] = input.sizes()[1];
            let running = match (train, running_mean, running_var) {
                (false, Some(m), Some(v)) => Some((m.view(&channels)?, v.add(eps)?.rsqrt()?.view(&channels)?)),
                _ => None,
            };
            let eps = Tensor::full(&[], eps, (DType::F64, input.device()))?;
            c.differentiate(&[Some(&grad_out), Some(&input), weight.as_ref()], |leaves| {
                let (g, x) = (given(leaves, 0)?, given(leaves, 1)?);
                let weight = leaves[2].as_ref().map(|w| w.view(&channels)).transpose()?;
                let (dx, xhat) = match &running {
                    None => gradient_over(g, x, weight.as_ref(), &eps, &over)?,
                    Some((mean, rstd)) => {
                        let gw = match &weight { Some(w) => g.mul(w)?, None => g.clone() };
                        (gw.mul(rstd)?, x.sub(mean)?.mul(rstd)?)
                    }
                };
                Ok(vec![dx, g.mul(&xhat)?.sum_dim(&over, false)?, g.sum_dim(&over, false)?])
            })?
        }
    };
    samples: |m| {
        let (x, w) = (m.any(&[3, 4, 2]), m.any(&[4]));
        let args = [(&x).into(), (&w).into(), Value::None, Value::None, Value::None, true.into(), 0.1.into(), 1e-5.into()];
        match &statistics(&native_batch_norm::OP, &args)[..] {
            [mean, invstd] => vec![
                sample![m.any(&[3, 4, 2]), x, w, (), (), mean.clone(), invstd.clone(), true, 1e-5, OwnedValue::Bools(vec![true; 3])],
                sample![m.any(&[3, 4]), m.any(&[3, 4]), m.any(&[4]), m.any(&[4]), m.uniform(&[4], 0.5, 2.0), (), (), false, 1e-5, OwnedValue::Bools(vec![true, true, false])],
            ],
            _ => vec![],
        }
    };
    ulp: 64.0;
}

fn batch_norm_any(
    x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, running_mean: Option<&Tensor>, running_var: Option<&Tensor>,
    training: bool, momentum: f64, eps: f64, _cudnn: bool,
) -> Result<Tensor> {
    for (name, t) in [("running_mean", running_mean), ("running_var", running_var)] {
        check_constant("native_batch_norm", name, t)?;
    }
    if training && x.dim() >= 2 {
        let count: i64 = x.numel() / x.sizes()[1].max(1);
        if count == 1 {
            return Err(crate::Error::value(format!("Expected more than 1 value per channel when training, got input size {:?}", x.sizes())));
        }
    }
    if x.numel() == 0 && x.dim() < 2 {
        return x.clone_in(MemoryFormat::Preserve);
    }
    let out = native_batch_norm::OP.call(&[
        x.into(), weight.into(), bias.into(), running_mean.into(), running_var.into(), training.into(), momentum.into(), eps.into(),
    ])?;
    out.list()?.into_iter().next().ok_or_else(|| crate::Error::runtime("batch_norm gave nothing"))
}

op! {
    /// Normalises each channel of (N, C, ...): in training by the batch's statistics, which also move the running ones; else
    /// by the running ones. Then scales and shifts each channel.
    batch_norm: "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor";
    Body::Composite(kernel!(batch_norm_any; x, weight, bias, running_mean, running_var, training, momentum, eps, cudnn));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[3, 4, 2]), m.any(&[4]), m.any(&[4]), (), (), true, 0.1, 1e-5, false], sample![m.any(&[3, 4]), m.any(&[4]), (), m.any(&[4]), m.uniform(&[4], 0.5, 2.0), false, 0.1, 1e-5, false]] } else { vec![] };
    fn batch_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, running_mean: Option<&Tensor>, running_var: Option<&Tensor>, training: bool, momentum: f64, eps: f64) -> Tensor
        [self, weight, bias, running_mean, running_var, training, momentum, eps, false];
}

fn instance_norm_any(
    x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, running_mean: Option<&Tensor>, running_var: Option<&Tensor>,
    use_input_stats: bool, momentum: f64, eps: f64, _cudnn: bool,
) -> Result<Tensor> {
    ensure!(x.dim() >= 2, "instance_norm: expected at least two dimensions, got input of shape {:?}", x.sizes());
    ensure!(
        use_input_stats || (running_mean.is_some() && running_var.is_some()),
        "Expected running_mean and running_var to be defined when use_input_stats is false"
    );
    // A batch norm of one sample whose channels are all samples' channels.
    let (n, c) = (x.sizes()[0], x.sizes()[1]);
    let mut merged = Dims::from_slice(&[1, n * c]);
    merged.extend_from_slice(&x.sizes()[2..]);
    let repeat = |t: Option<&Tensor>| t.map(|t| t.repeat(&[n])).transpose();
    let (w, b, m, v) = (repeat(weight)?, repeat(bias)?, repeat(running_mean)?, repeat(running_var)?);
    let y = batch_norm_any(
        &x.contiguous()?.view(&merged)?, w.as_ref(), b.as_ref(), m.as_ref(), v.as_ref(), use_input_stats, momentum, eps, false,
    )?;
    for (running, all) in [(running_mean, &m), (running_var, &v)] {
        if let (true, Some(r), Some(all)) = (use_input_stats, running, all) {
            r.copy_(&all.view(&[n, c])?.mean_dim(&[0], false)?)?;
        }
    }
    y.view(x.sizes())
}

op! {
    /// Normalises each channel of each sample, then scales and shifts each channel.
    instance_norm: "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor";
    Body::Composite(kernel!(instance_norm_any; x, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3, 4]), m.any(&[3]), m.any(&[3]), (), (), true, 0.1, 1e-5, false]] } else { vec![] };
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    batch_norm::ALL,
    group_norm::ALL,
    instance_norm::ALL,
    layer_norm::ALL,
    native_batch_norm::ALL,
    native_batch_norm_backward::ALL,
    native_group_norm::ALL,
    native_group_norm_backward::ALL,
    native_layer_norm::ALL,
    native_layer_norm_backward::ALL,
];
