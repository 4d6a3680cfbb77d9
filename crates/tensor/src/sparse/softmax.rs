//! Softmax along a dim among the entries alone: what is not there counts as minus infinity.

use super::{Coo, at_places, coalesced, coo, from_coo};
use crate::dims::wrap_dim;
use crate::{Dims, Result, Scalar, Tensor};
use std::collections::HashMap;

/// A number for every set of entries that agree in all sparse dims but `dim`, and how many there are.
fn groups(c: &Coo, sizes: &[i64], dim: usize) -> Result<(Tensor, i64)> {
    let mut other = Dims::from_slice(&sizes[..c.sparse_dim()]);
    other[dim] = 1;
    let strides = crate::dims::contiguous_strides(&other);
    let strides: Vec<i64> = strides.iter().enumerate().map(|(d, &s)| if d == dim { 0 } else { s }).collect();
    let strides = Tensor::from_slice(&strides)?.to_device(c.indices.device())?.unsqueeze(1)?;
    let places = c.indices.mul(&strides)?.sum_dim(&[0], false)?.to_vec::<i64>()?;
    let mut numbers = HashMap::new();
    let group: Vec<i64> = places
        .into_iter()
        .map(|p| {
            let next = numbers.len() as i64;
            *numbers.entry(p).or_insert(next)
        })
        .collect();
    Ok((Tensor::from_slice(&group)?.to_device(c.indices.device())?, numbers.len() as i64))
}

/// Softmax, or its logarithm, of a tensor of coordinates.
pub(crate) fn softmax(x: &Tensor, dim: i64, log: bool) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim())?;
    let c = coo(&coalesced(x)?)?;
    let n = c.sparse_dim();
    let values = if d >= n {
        let along = (d - n + 1) as i64;
        if log { c.values.log_softmax(along, None)? } else { c.values.softmax(along, None)? }
    } else if c.entries() == 0 {
        c.values.clone()
    } else {
        let (group, count) = groups(&c, x.sizes(), d)?;
        let mut shape = Dims::from_slice(c.values.sizes());
        shape[0] = count;
        let lowest = Tensor::full(&shape, Scalar::Float(f64::NEG_INFINITY), (c.values.dtype(), c.values.device()))?;
        let largest = lowest.index_reduce(0, &group, &c.values, "amax", true)?;
        let shifted = c.values.sub(&largest.index_select(0, &group)?)?;
        let exponentials = shifted.exp()?;
        let sums = super::added_up(count, &group, &exponentials)?.index_select(0, &group)?;
        if log { shifted.sub(&sums.log()?)? } else { exponentials.div(&sums)? }
    };
    from_coo(x.sizes(), Coo { indices: c.indices, values, coalesced: true })
}

/// The gradient of [`softmax`], from its result `y` and the gradient `g` of that.
pub(crate) fn softmax_backward(g: &Tensor, y: &Tensor, dim: i64, log: bool) -> Result<Tensor> {
    super::first_order("_sparse_softmax", &[g, y])?;
    let d = wrap_dim(dim, y.dim())?;
    let c = coo(&coalesced(y)?)?;
    let n = c.sparse_dim();
    let g = at_places(g, &c.indices)?;
    let weighted = if log { g.clone() } else { g.mul(&c.values)? };
    let sums = if d >= n {
        weighted.sum_dim(&[(d - n + 1) as i64], true)?
    } else {
        let (group, count) = groups(&c, y.sizes(), d)?;
        super::added_up(count, &group, &weighted)?.index_select(0, &group)?
    };
    let values = match log {
        true => g.sub(&c.values.exp()?.mul(&sums)?)?,
        false => weighted.sub(&c.values.mul(&sums)?)?,
    };
    from_coo(y.sizes(), Coo { indices: c.indices, values, coalesced: false })
}
