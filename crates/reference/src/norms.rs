//! Normalisations and their gradients, and attention, in real numbers.

use crate::Kernel;
use crate::array::{Array, outline, write};
use flambeau::value::take;
use flambeau::{Error, Op, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("native_layer_norm", layer_norm),
    ("native_group_norm", group_norm),
    ("native_batch_norm", batch_norm),
    ("native_layer_norm_backward", layer_norm_backward),
    ("native_group_norm_backward", group_norm_backward),
    ("native_batch_norm_backward", batch_norm_backward),
    ("_weight_norm_interface_backward", weight_norm_backward),
    ("_scaled_dot_product_flash_attention_for_cpu", attention),
];

fn read(t: Option<&Tensor>) -> Result<Option<Vec<f64>>> {
    t.map(|t| Ok(Array::<f64>::read(t)?.data)).transpose()
}

/// Which elements are normalised together, and which share a weight.
struct Parts {
    /// For each element, its part.
    part: Vec<usize>,
    /// For each element, its weight.
    weight: Vec<usize>,
    parts: usize,
    weights: usize,
}

impl Parts {
    /// Where the element with row-major number `i` belongs.
    fn new(numel: i64, parts: usize, weights: usize, f: impl Fn(usize) -> (usize, usize)) -> Parts {
        let (part, weight) = (0..numel as usize).map(f).unzip();
        Parts { part, weight, parts, weights }
    }

    fn members(&self, part: usize) -> Vec<usize> {
        (0..self.part.len()).filter(|i| self.part[*i] == part).collect()
    }

    /// Mean and reciprocal deviation of each part.
    fn statistics(&self, x: &[f64], eps: f64) -> (Vec<f64>, Vec<f64>) {
        let mean_of = |part: usize, f: &dyn Fn(f64) -> f64| {
            let members = self.members(part);
            members.iter().map(|i| f(x[*i])).sum::<f64>() / members.len() as f64
        };
        (0..self.parts)
            .map(|part| {
                let mean = mean_of(part, &|x| x);
                (mean, 1.0 / (mean_of(part, &|x| (x - mean) * (x - mean)) + eps).sqrt())
            })
            .unzip()
    }

    fn normalised(&self, x: &[f64], mean: &[f64], rstd: &[f64]) -> Vec<f64> {
        x.iter().zip(&self.part).map(|(x, p)| (x - mean[*p]) * rstd[*p]).collect()
    }

    fn scaled(&self, x: &[f64], weight: &Option<Vec<f64>>, bias: &Option<Vec<f64>>) -> Vec<f64> {
        let of = |list: &Option<Vec<f64>>, i: usize, other: f64| list.as_ref().map_or(other, |l| l[self.weight[i]]);
        x.iter().enumerate().map(|(i, x)| x * of(weight, i, 1.0) + of(bias, i, 0.0)).collect()
    }

    /// The gradients of input, weight and bias; with fixed statistics the input's is a product.
    fn gradients(
        &self,
        [g, x, mean, rstd]: [&[f64]; 4],
        weight: &Option<Vec<f64>>,
        fixed: bool,
    ) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let y = self.normalised(x, mean, rstd);
        let through = self.scaled(g, weight, &None);
        let mut input = vec![0.0; x.len()];
        for (part, scale) in rstd.iter().enumerate().take(self.parts) {
            let members = self.members(part);
            let mean_of = |f: &dyn Fn(usize) -> f64| members.iter().map(|i| f(*i)).sum::<f64>() / members.len() as f64;
            let (level, slope) = (mean_of(&|i| through[i]), mean_of(&|i| through[i] * y[i]));
            for &i in &members {
                input[i] = scale * if fixed { through[i] } else { through[i] - level - y[i] * slope };
            }
        }
        let (mut weights, mut biases) = (vec![0.0; self.weights], vec![0.0; self.weights]);
        for (i, &w) in self.weight.iter().enumerate() {
            weights[w] += g[i] * y[i];
            biases[w] += g[i];
        }
        (input, weights, biases)
    }
}

fn layer_parts(x: &Tensor, shape: &[i64]) -> Parts {
    let n = shape.iter().product::<i64>() as usize;
    Parts::new(x.numel(), x.numel() as usize / n.max(1), n, |i| (i / n, i % n))
}

fn group_parts(x: &Tensor, [batch, channels, spatial, groups]: [i64; 4]) -> Parts {
    let (c, hw, g) = (channels as usize, spatial as usize, groups as usize);
    Parts::new(x.numel(), batch as usize * g, c, |i| (i / (c / g * hw), i / hw % c))
}

fn batch_parts(x: &Tensor) -> Parts {
    let channels = x.sizes()[1] as usize;
    let inner: usize = x.sizes()[2..].iter().product::<i64>() as usize;
    Parts::new(x.numel(), channels, channels, |i| (i / inner % channels, i / inner % channels))
}

/// Results in the outlines' order; one that was not asked for is `None`.
fn results(outs: Vec<Tensor>, data: [&[f64]; 3]) -> Result<Outputs> {
    Ok(outs.iter().zip(data).map(|(o, d)| write(o, d)).collect::<Result<Vec<_>>>()?.into())
}

fn forward(
    x: &Tensor,
    parts: &Parts,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    outs: Vec<Tensor>,
) -> Result<Outputs> {
    let x = Array::<f64>::read(x)?.data;
    let (mean, rstd) = parts.statistics(&x, eps);
    let y = parts.scaled(&parts.normalised(&x, &mean, &rstd), &read(weight)?, &read(bias)?);
    results(outs, [&y, &mean, &rstd])
}

fn layer_norm(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let parts = layer_parts(x, take(op, args, 1)?);
    forward(x, &parts, take(op, args, 2)?, take(op, args, 3)?, take(op, args, 4)?, outline(op, args)?)
}

fn group_norm(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let n = |i: usize| take::<i64>(op, args, i);
    let parts = group_parts(x, [n(3)?, n(4)?, n(5)?, n(6)?]);
    forward(x, &parts, take(op, args, 1)?, take(op, args, 2)?, take(op, args, 7)?, outline(op, args)?)
}

fn batch_norm(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let (weight, bias): (Option<&Tensor>, Option<&Tensor>) = (take(op, args, 1)?, take(op, args, 2)?);
    let (running_mean, running_var): (Option<&Tensor>, Option<&Tensor>) = (take(op, args, 3)?, take(op, args, 4)?);
    let (training, momentum, eps): (bool, f64, f64) = (take(op, args, 5)?, take(op, args, 6)?, take(op, args, 7)?);
    let outs = outline(op, args)?;
    let parts = batch_parts(x);
    let data = Array::<f64>::read(x)?.data;
    let (kept_mean, kept_var) = (read(running_mean)?, read(running_var)?);
    if let (false, Some(mean), Some(var)) = (training, &kept_mean, &kept_var) {
        let rstd: Vec<f64> = var.iter().map(|v| 1.0 / (v + eps).sqrt()).collect();
        let y = parts.scaled(&parts.normalised(&data, mean, &rstd), &read(weight)?, &read(bias)?);
        return Ok(vec![write(&outs[0], &y)?, write(&outs[1], &[] as &[f64])?, write(&outs[2], &[] as &[f64])?].into());
    }
    let (mean, rstd) = parts.statistics(&data, eps);
    let n = data.len() as f64 / parts.parts as f64;
    let follow = |t: Option<&Tensor>, old: &Option<Vec<f64>>, new: &dyn Fn(usize) -> f64| -> Result<()> {
        if let (Some(t), Some(old)) = (t, old) {
            let moved: Vec<f64> =
                old.iter().enumerate().map(|(c, o)| (1.0 - momentum) * o + momentum * new(c)).collect();
            t.copy_(&Tensor::from_slice(&moved)?)?;
        }
        Ok(())
    };
    follow(running_mean, &kept_mean, &|c| mean[c])?;
    follow(running_var, &kept_var, &|c| (1.0 / (rstd[c] * rstd[c]) - eps) * n / (n - 1.0))?;
    forward(x, &parts, weight, bias, eps, outs)
}

/// The gradients asked for.
fn masked(outs: &[Option<Tensor>], mask: &[bool], data: [&[f64]; 3]) -> Result<Outputs> {
    let mut all = vec![];
    for (i, d) in data.into_iter().enumerate() {
        all.push(match (mask[i], &outs[i]) {
            (true, Some(o)) => Some(write(o, d)?),
            _ => None,
        });
    }
    Ok(Outputs::Many(all))
}

/// Outlines of the three gradients, of which some may be absent.
fn like(x: &Tensor, weights: &[i64]) -> Result<Vec<Option<Tensor>>> {
    let meta = |sizes: &[i64]| Tensor::empty(sizes, (x.dtype(), flambeau::Device::META)).map(Some);
    Ok(vec![meta(x.sizes())?, meta(weights)?, meta(weights)?])
}

fn layer_norm_backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (g, x): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let shape: &[i64] = take(op, args, 2)?;
    let parts = layer_parts(x, shape);
    let numbers = [g, x, take(op, args, 3)?, take(op, args, 4)?].map(|t| Array::<f64>::read(t).map(|a| a.data));
    let [g, data, mean, rstd] = numbers;
    let (dx, dw, db) = parts.gradients([&g?, &data?, &mean?, &rstd?], &read(take(op, args, 5)?)?, false);
    masked(&like(x, shape)?, take(op, args, 7)?, [&dx, &dw, &db])
}

fn group_norm_backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (g, x): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let n = |i: usize| take::<i64>(op, args, i);
    let parts = group_parts(x, [n(5)?, n(6)?, n(7)?, n(8)?]);
    let numbers = [g, x, take(op, args, 2)?, take(op, args, 3)?].map(|t| Array::<f64>::read(t).map(|a| a.data));
    let [g, data, mean, rstd] = numbers;
    let (dx, dw, db) = parts.gradients([&g?, &data?, &mean?, &rstd?], &read(take(op, args, 4)?)?, false);
    masked(&like(x, &[n(6)?])?, take(op, args, 9)?, [&dx, &dw, &db])
}

fn batch_norm_backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (g, x): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let (training, eps): (bool, f64) = (take(op, args, 7)?, take(op, args, 8)?);
    let parts = batch_parts(x);
    let missing = || Error::runtime("native_batch_norm_backward: statistics are missing");
    let (mean, rstd) = match training {
        true => (read(take(op, args, 5)?)?.ok_or_else(missing)?, read(take(op, args, 6)?)?.ok_or_else(missing)?),
        false => {
            let var = read(take(op, args, 4)?)?.ok_or_else(missing)?;
            let rstd = var.into_iter().map(|v| 1.0 / (v + eps).sqrt()).collect();
            (read(take(op, args, 3)?)?.ok_or_else(missing)?, rstd)
        }
    };
    let (g, data) = (Array::<f64>::read(g)?.data, Array::<f64>::read(x)?.data);
    let (dx, dw, db) = parts.gradients([&g, &data, &mean, &rstd], &read(take(op, args, 2)?)?, !training);
    masked(&like(x, &[x.sizes()[1]])?, take(op, args, 9)?, [&dx, &dw, &db])
}

fn weight_norm_backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, dim): (&Tensor, i64) = (take(op, args, 1)?, take(op, args, 4)?);
    let kept = dim.rem_euclid(x.dim() as i64) as usize;
    let (size, inner) = (x.sizes()[kept] as usize, x.sizes()[kept + 1..].iter().product::<i64>() as usize);
    let numbers =
        [take(op, args, 0)?, x, take(op, args, 2)?, take(op, args, 3)?].map(|t| Array::<f64>::read(t).map(|a| a.data));
    let [w, v, g, norm] = numbers;
    let (w, v, g, norm) = (w?, v?, g?, norm?);
    let part = |i: usize| i / inner % size;
    let mut by_g = vec![0.0; size];
    w.iter().zip(&v).enumerate().for_each(|(i, (w, v))| by_g[part(i)] += w * v / norm[part(i)]);
    let slope =
        |(i, (w, v)): (usize, (&f64, &f64))| (w - v * by_g[part(i)] / norm[part(i)]) * g[part(i)] / norm[part(i)];
    let by_v: Vec<f64> = w.iter().zip(&v).enumerate().map(slope).collect();
    results(outline(op, args)?, [&by_v, &by_g, &[]])
}

/// `softmax(query key' scale + mask) value`, and the logarithms of the sums.
fn attention(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (q, k, v): (&Tensor, &Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?, take(op, args, 2)?);
    let causal = take::<Option<bool>>(op, args, 4)?.unwrap_or(false);
    let mask: Option<&Tensor> = take(op, args, 5)?;
    let outs = outline(op, args)?;
    let n = |t: &Tensor, d: usize| t.sizes()[d] as usize;
    let (heads, rows, columns, size, width) = (n(q, 1), n(q, 2), n(k, 2), n(q, 3), n(v, 3));
    let scale = take::<Option<f64>>(op, args, 6)?.unwrap_or(1.0 / (size as f64).sqrt());
    let shared = heads / n(k, 1);
    let whole = [q.sizes()[0], q.sizes()[1], q.sizes()[2], k.sizes()[2]];
    let allowed = |m: &Tensor| m.dtype() == flambeau::DType::Bool;
    let added = mask.map(|m| Array::<f64>::read_as(m, &whole).map(|a| (allowed(m), a.data))).transpose()?;
    let [q, k, v] = [q, k, v].map(|t| Array::<f64>::read(t).map(|a| a.data));
    let (q, k, v) = (q?, k?, v?);
    let (mut y, mut sums) = (vec![], vec![]);
    for at in 0..q.len() / (rows * size) {
        let key_at = at / heads * (heads / shared) + at % heads / shared;
        for i in 0..rows {
            let score = |j: usize| {
                let dot: f64 =
                    (0..size).map(|e| q[(at * rows + i) * size + e] * k[(key_at * columns + j) * size + e]).sum();
                let mask = match &added {
                    Some((true, m)) if m[(at * rows + i) * columns + j] == 0.0 => f64::NEG_INFINITY,
                    Some((false, m)) => m[(at * rows + i) * columns + j],
                    _ => 0.0,
                };
                if causal && j > i { f64::NEG_INFINITY } else { dot * scale + mask }
            };
            let scores: Vec<f64> = (0..columns).map(score).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let shift = if largest.is_finite() { largest } else { 0.0 };
            let total: f64 = scores.iter().map(|s| (s - shift).exp()).sum();
            sums.push(shift + total.ln());
            for e in 0..width {
                let value = |j: usize| (scores[j] - shift).exp() * v[(key_at * columns + j) * width + e];
                y.push(if total == 0.0 { 0.0 } else { (0..columns).map(value).sum::<f64>() / total });
            }
        }
    }
    Ok(vec![write(&outs[0], &y)?, write(&outs[1], &sums)?].into())
}
