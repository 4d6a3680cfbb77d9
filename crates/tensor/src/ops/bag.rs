//! Bags of rows: sums, means and maxima of rows of a table by index.

use crate::{Body, DType, Error, Op, Result, Tensor, ensure, sample};

/// How a bag's rows become one.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Sum,
    Mean,
    Max,
}

/// Which bag each index is in.
struct Bags {
    of_index: Vec<i64>,
    count: usize,
}

fn bags(offsets: &Tensor, indices: i64, last_included: bool) -> Result<Bags> {
    ensure!(offsets.dim() == 1, "embedding_bag: offsets has to be a 1D Tensor, but got {} dims", offsets.dim());
    let offsets = offsets.to_vec::<i64>()?;
    ensure!(!last_included || !offsets.is_empty(), "include_last_offset: number of offset should be at least 1");
    let count = offsets.len() - usize::from(last_included);
    let mut of_index = vec![0; indices as usize];
    if let (Some(first), Some(last)) = (offsets.first(), offsets.last()) {
        ensure!(
            *first == 0,
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {first}"
        );
        ensure!(
            *last <= indices,
            "offsets[-1] can not be greater than input's length({indices}) but got offsets[-1] of {last}"
        );
    }
    for bag in 0..count {
        let end = offsets.get(bag + 1).copied().unwrap_or(indices);
        ensure!(
            (0..=indices).contains(&offsets[bag]) && (offsets[bag]..=indices).contains(&end),
            "embedding_bag: offsets have to rise from 0 to {indices}, but {} is followed by {end}",
            offsets[bag]
        );
        of_index[offsets[bag] as usize..end as usize].fill(bag as i64);
    }
    Ok(Bags { of_index, count })
}

fn bag_any(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    by_frequency: bool,
    mode: i64,
    sparse: bool,
    factors: Option<&Tensor>,
    last_included: bool,
    padding: Option<i64>,
) -> Result<[Tensor; 4]> {
    let mode = match mode {
        0 => Mode::Sum,
        1 => Mode::Mean,
        2 => Mode::Max,
        other => return Err(Error::runtime(format!("embedding_bag: unknown mode {other}"))),
    };
    ensure!(!sparse, "embedding_bag: sparse gradients are not supported");
    ensure!(indices.dim() == 1 || indices.dim() == 2, "input has to be a 1D or 2D Tensor, but got Tensor of dimension {}", indices.dim());
    for (k, name, t) in [(2, "indices", indices), (3, "offsets", offsets)] {
        ensure!(
            matches!(t.dtype(), DType::I64 | DType::I32),
            "Expected tensor for argument #{k} '{name}' to have one of the following scalar types: Long, Int; but got {} instead \
             (while checking arguments for embedding_bag)",
            t.dtype().scalar_type_name()
        );
    }
    ensure!(weight.dim() == 2, "embedding_bag: weight has to be 2-dimensional, but got {} dims", weight.dim());
    let (rows, width) = (weight.sizes()[0], weight.sizes()[1]);
    let padding = match padding {
        Some(p) => {
            ensure!((-rows..rows).contains(&p), "padding_idx must be within the number of embeddings, -{rows} through {}, but got {p}", rows - 1);
            Some(if p < 0 { p + rows } else { p })
        }
        None => None,
    };
    if let Some(f) = factors {
        ensure!(
            mode == Mode::Sum,
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (mode='{}'). \
             Please open a feature request on GitHub.",
            if mode == Mode::Mean { "mean" } else { "max" }
        );
        ensure!(
            f.dtype() == weight.dtype(),
            "expected scalar type {} but found {}",
            weight.dtype().scalar_type_name(),
            f.dtype().scalar_type_name()
        );
        ensure!(
            f.dim() == 1 && f.numel() == indices.numel(),
            "embedding_bag: If per_sample_weights ({:?}) is not None, then it must have the same shape as the input ({:?})",
            f.sizes(),
            indices.sizes()
        );
    }
    if weight.device().is_meta() || offsets.device().is_meta() || indices.device().is_meta() {
        let count = offsets.numel() - i64::from(last_included);
        let empty = |sizes: &[i64], dtype| Tensor::empty(sizes, (dtype, crate::Device::META));
        let places: &[i64] = if mode == Mode::Max { &[count, width] } else { &[count] };
        return Ok([
            empty(&[count, width], weight.dtype())?,
            empty(&[indices.numel()], offsets.dtype())?,
            empty(&[count], offsets.dtype())?,
            empty(places, offsets.dtype())?,
        ]);
    }
    let flat = indices.reshape(&[-1])?;
    let known = flat.to_vec::<i64>()?;
    if let Some(i) = known.iter().find(|i| !(0..rows).contains(*i)) {
        return Err(Error::runtime(format!("embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {i}")));
    }
    let bags = bags(offsets, known.len() as i64, last_included)?;
    let counted = |i: &i64| Some(*i) != padding;
    let mut sizes = vec![0i64; bags.count];
    for (i, bag) in known.iter().zip(&bags.of_index) {
        if counted(i) && bags.count > 0 {
            sizes[*bag as usize] += 1;
        }
    }
    let to = |v: &[i64]| Tensor::from_slice(v)?.to_options(Some(offsets.dtype()), Some(offsets.device()));
    let (of_index, bag_size) = (to(&bags.of_index)?, to(&sizes)?);
    let count = bags.count as i64;
    if mode == Mode::Max {
        let chosen = largest(weight, &known, &bags, padding)?;
        let found = chosen.ge(0)?;
        let picked = match rows {
            0 => Tensor::zeros(&[count, width], (weight.dtype(), weight.device()))?,
            _ => weight.gather(0, &chosen.clamp_min(0)?)?,
        };
        let output = picked.masked_fill(&found.logical_not()?, 0)?;
        let places = chosen.clamp_min(0)?.to_dtype(offsets.dtype())?;
        return Ok([output, of_index, bag_size, places]);
    }
    // Sums of halves are kept in single precision.
    let mut parts = weight.embedding_with(&flat, padding.unwrap_or(-1), by_frequency)?.to_dtype(weight.dtype().compute())?;
    if let Some(f) = factors {
        parts = parts.mul(&f.unsqueeze(1)?)?;
    }
    if let Some(p) = padding {
        parts = parts.masked_fill(&flat.eq(p)?.unsqueeze(1)?, 0)?;
    }
    let zeros = Tensor::zeros(&[count, width], (parts.dtype(), weight.device()))?;
    let mut output = if count == 0 { zeros } else { zeros.index_add(0, &of_index.to_dtype(DType::I64)?, &parts)? };
    if mode == Mode::Mean {
        output = output.div(&bag_size.clamp_min(1)?.to_dtype(output.dtype())?.unsqueeze(1)?)?;
    }
    let nowhere = bag_size.zeros_like()?;
    Ok([output.to_dtype(weight.dtype())?, of_index, bag_size, nowhere])
}

/// The row of each bag's largest element, by column; -1 for a bag without rows.
fn largest(weight: &Tensor, indices: &[i64], bags: &Bags, padding: Option<i64>) -> Result<Tensor> {
    let (width, values) = (weight.sizes()[1] as usize, weight.to_vec::<f64>()?);
    let mut chosen = vec![-1i64; bags.count * width];
    for (&i, &bag) in indices.iter().zip(&bags.of_index) {
        if Some(i) == padding || bags.count == 0 {
            continue;
        }
        let best = &mut chosen[bag as usize * width..][..width];
        for (d, best) in best.iter_mut().enumerate() {
            if *best < 0 || values[i as usize * width + d] > values[*best as usize * width + d] {
                *best = i;
            }
        }
    }
    Tensor::from_slice_of(&chosen, &[bags.count as i64, width as i64])
}

fn embedding_bag_any(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    by_frequency: bool,
    mode: i64,
    sparse: bool,
    factors: Option<&Tensor>,
    last_included: bool,
    padding: Option<i64>,
) -> Result<Vec<Tensor>> {
    bag_any(weight, indices, offsets, by_frequency, mode, sparse, factors, last_included, padding).map(Vec::from)
}
fn without_padding(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    by_frequency: bool,
    mode: i64,
    sparse: bool,
    factors: Option<&Tensor>,
    last_included: bool,
) -> Result<Vec<Tensor>> {
    embedding_bag_any(weight, indices, offsets, by_frequency, mode, sparse, factors, last_included, None)
}
fn padding_or_none(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    by_frequency: bool,
    mode: i64,
    sparse: bool,
    factors: Option<&Tensor>,
    last_included: bool,
    padding: i64,
) -> Result<Vec<Tensor>> {
    let padding = (padding >= 0).then_some(padding);
    embedding_bag_any(weight, indices, offsets, by_frequency, mode, sparse, factors, last_included, padding)
}

fn samples(m: &mut crate::samples::Maker, padding: Option<crate::OwnedValue>) -> Vec<crate::samples::Sample> {
    let Ok(offsets) = Tensor::from_slice(&[0i64, 2, 2, 3]) else { return vec![] };
    if !m.dtype.is_floating_point() {
        return vec![];
    }
    let mut all = vec![
        sample![m.any(&[4, 3]), m.indices(&[5], 4), offsets.clone(), false, 0, false, m.any(&[5]), false],
        sample![m.any(&[4, 3]), m.indices(&[5], 4), offsets.clone(), false, 1, false, (), true],
        sample![m.any(&[4, 3]), m.indices(&[5], 4), offsets, false, 2, false, (), false],
    ];
    for sample in &mut all {
        sample.args.extend(padding.clone());
    }
    all
}

op! {
    /// The sums (mode 0), means (1) or maxima (2) of bags of rows of `weight`: bag `i` is of the indices from `offsets[i]` on.
    /// Also the bag of each index, the bags' sizes, and where the maxima are.
    embedding_bag: "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)";
    Body::Composite(kernel!(without_padding; weight, indices, offsets, by_frequency, mode, sparse, factors, last));
    samples: |m| samples(m, None);
    ulp: 16.0;
}
op! {
    /// The same; indices equal to `padding_idx` count nothing.
    embedding_bag_padded: "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)";
    Body::Composite(kernel!(embedding_bag_any; weight, indices, offsets, by_frequency, mode, sparse, factors, last, padding));
    samples: |m| samples(m, Some(1i64.into()));
    ulp: 16.0;
}
op! {
    /// The same; a `padding_idx` below 0 is none.
    embedding_bag_forward: "_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
        Out OUT: "_embedding_bag.out(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2, Tensor(d!) out3) -> (Tensor(a!), Tensor(b!), Tensor(c!), Tensor(d!))";
    Body::Composite(kernel!(padding_or_none; weight, indices, offsets, by_frequency, mode, sparse, factors, last, padding));
    samples: |m| samples(m, Some((-1i64).into()));
    ulp: 16.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[embedding_bag::ALL, embedding_bag_forward::ALL, embedding_bag_padded::ALL];
