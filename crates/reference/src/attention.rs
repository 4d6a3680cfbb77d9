//! The gradient of attention, and normalisation by the root of the mean square.

use crate::Kernel;
use crate::array::{Array, outline, outlines, write};
use flambeau::value::take;
use flambeau::{DType, Error, Op, Outputs, Result, Tensor, Value, registry};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward),
    ("_fused_rms_norm", rms_norm),
    ("_fused_rms_norm_backward", rms_norm_backward),
];

/// With the weights `P = softmax(scores)` and `y = P v`: the gradient of a score is its weight times what its value's
/// share `g . v` is above the mean of all, `g . y`; the others are products with that.
fn attention_backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let outs = outline(op, args)?;
    let (q, k, v): (&Tensor, &Tensor, &Tensor) = (take(op, args, 1)?, take(op, args, 2)?, take(op, args, 3)?);
    let (causal, mask): (bool, Option<&Tensor>) = (take(op, args, 7)?, take(op, args, 8)?);
    // What the forward pass gives for these, which is what has to have been saved.
    let forward = registry::find("_scaled_dot_product_flash_attention_for_cpu");
    let forward = forward.ok_or_else(|| Error::runtime("attention has no forward pass"))?;
    let saved = outline(forward, &[args[1], args[2], args[3], args[6], args[7], args[8], args[9]])?;
    let fits = |i: usize, like: &Tensor| take::<&Tensor>(op, args, i).map(|t| t.sizes() == like.sizes());
    if !(fits(0, &saved[0])? && fits(4, &saved[0])? && fits(5, &saved[1])?) {
        return Err(Error::runtime("scaled_dot_product_attention: the gradient or what was saved does not fit"));
    }
    let n = |t: &Tensor, d: usize| t.sizes()[d] as usize;
    let (heads, rows, columns, size, width) = (n(q, 1), n(q, 2), n(k, 2), n(q, 3), n(v, 3));
    let scale = take::<Option<f64>>(op, args, 9)?.unwrap_or(1.0 / (size as f64).sqrt());
    let shared = heads / n(k, 1).max(1);
    let whole = [q.sizes()[0], q.sizes()[1], q.sizes()[2], k.sizes()[2]];
    let mask =
        mask.map(|m| Array::<f64>::read_as(m, &whole).map(|a| (m.dtype() == DType::Bool, a.data))).transpose()?;
    let read = |t: &Tensor| Array::<f64>::read(t).map(|a| a.data);
    let (q, k, v) = (read(q)?, read(k)?, read(v)?);
    let (g, y, logarithms) = (read(take(op, args, 0)?)?, read(take(op, args, 4)?)?, read(take(op, args, 5)?)?);
    let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
    // Rows of queries over all heads, each with the rows of the keys that its head sees.
    for (row, logarithm) in logarithms.iter().enumerate() {
        let (head, i) = (row / rows, row % rows);
        let first_key = (head / heads * (heads / shared) + head % heads / shared) * columns;
        let mean: f64 = (0..width).map(|e| g[row * width + e] * y[row * width + e]).sum();
        for j in 0..columns {
            let key = first_key + j;
            let added = match &mask {
                Some((true, m)) if m[row * columns + j] == 0.0 => f64::NEG_INFINITY,
                Some((false, m)) => m[row * columns + j],
                _ => 0.0,
            };
            if causal && j > i || added == f64::NEG_INFINITY {
                continue;
            }
            let dot: f64 = (0..size).map(|e| q[row * size + e] * k[key * size + e]).sum();
            let weight = (dot * scale + added - logarithm).exp();
            let share: f64 = (0..width).map(|e| g[row * width + e] * v[key * width + e]).sum();
            let by_score = weight * (share - mean) * scale;
            for e in 0..size {
                dq[row * size + e] += by_score * k[key * size + e];
                dk[key * size + e] += by_score * q[row * size + e];
            }
            for e in 0..width {
                dv[key * width + e] += weight * g[row * width + e];
            }
        }
    }
    let all = outs.iter().zip([dq, dk, dv]).map(|(o, d)| write(o, &d));
    Ok(all.collect::<Result<Vec<_>>>()?.into())
}

/// The elements of the weight, or ones.
fn weights(weight: Option<&Tensor>, n: usize) -> Result<Vec<f64>> {
    Ok(weight.map(Array::<f64>::read).transpose()?.map_or(vec![1.0; n], |w| w.data))
}

fn rms_norm(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, shape): (&Tensor, &[i64]) = (take(op, args, 0)?, take(op, args, 1)?);
    let outs = outline(op, args)?;
    let n = shape.iter().product::<i64>() as usize;
    let smallest = if x.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let eps = take::<Option<f64>>(op, args, 3)?.unwrap_or(smallest);
    let (x, weight) = (Array::<f64>::read(x)?.data, weights(take(op, args, 2)?, n)?);
    let rstd = |row: &[f64]| 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / n as f64 + eps).sqrt();
    // Rows without elements have a statistic, too.
    let statistics: Vec<f64> = match n {
        0 => vec![f64::NAN; outs[1].numel() as usize],
        n => x.chunks(n).map(rstd).collect(),
    };
    let y: Vec<f64> = x.iter().enumerate().map(|(i, x)| x * statistics[i / n] * weight[i % n]).collect();
    Ok(vec![write(&outs[0], &y)?, write(&outs[1], &statistics)?].into())
}

/// Of `y = x r w` with `r = (mean(x^2) + eps)^(-1/2)`, so that `dr = -r^3 mean(x dx)`.
fn rms_norm_backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let outs = outlines(op, args)?;
    let n = take::<&[i64]>(op, args, 2)?.iter().product::<i64>() as usize;
    let read = |i: usize| Array::<f64>::read(take::<&Tensor>(op, args, i)?).map(|a| a.data);
    let (g, x, rstd) = (read(0)?, read(1)?, read(3)?);
    let weight = weights(take(op, args, 4)?, n)?;
    let (mut by_x, mut by_weight) = (vec![0.0; x.len()], vec![0.0; n]);
    for (row, r) in rstd.iter().enumerate().take(x.len() / n.max(1)) {
        let members = row * n..(row + 1) * n;
        let slope = members.clone().map(|i| g[i] * weight[i % n] * x[i] * r).sum::<f64>() / n as f64;
        for i in members {
            by_x[i] = r * (g[i] * weight[i % n] - x[i] * r * slope);
            by_weight[i % n] += g[i] * x[i] * r;
        }
    }
    let all = outs.iter().zip([by_x, by_weight]).map(|(o, d)| o.as_ref().map(|o| write(o, &d)).transpose());
    Ok(Outputs::Many(all.collect::<Result<_>>()?))
}
