//! Bags of rows: sums, means and maxima of rows of a table by index.

use crate::autograd::Geometry;
use crate::{Body, DType, Error, Op, Result, Tensor, backward, ensure, sample};
use flambeau_base::storage::LockSet;

/// How a bag's rows become one.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Sum,
    Mean,
    Max,
}

/// Which bag each index is in, -1 for none.
struct Bags {
    of_index: Vec<i64>,
    /// Where each bag's indices begin, and where those of the last end.
    starts: Vec<usize>,
    count: usize,
}

fn bags(offsets: &Tensor, indices: i64, last_included: bool, mode: Mode) -> Result<Bags> {
    ensure!(offsets.dim() == 1, "embedding_bag: offsets has to be a 1D Tensor, but got {} dims", offsets.dim());
    let offsets = offsets.to_vec::<i64>()?;
    ensure!(!last_included || !offsets.is_empty(), "include_last_offset: number of offset should be at least 1");
    let count = offsets.len() - usize::from(last_included);
    let mut of_index = Vec::with_capacity(indices as usize);
    let mut starts = Vec::with_capacity(count + 1);
    if let (Some(first), Some(last)) = (offsets.first(), offsets.last()) {
        ensure!(
            *first == 0,
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {first}"
        );
        ensure!(
            *last <= indices,
            "offsets[-1] can not be greater than input's length {indices} but got offsets[-1] of {last}"
        );
    }
    for bag in 0..count {
        let end = match offsets.get(bag + 1) {
            // What follows the last offset is in the last bag of means and maxima, but in none of sums, as in PyTorch.
            Some(end) if bag + 1 < count || mode == Mode::Sum => *end,
            _ => indices,
        };
        ensure!(
            (0..=indices).contains(&offsets[bag]) && (offsets[bag]..=indices).contains(&end),
            "embedding_bag: offsets have to rise from 0 to {indices}, but {} is followed by {end}",
            offsets[bag]
        );
        // A bag begins where the one before it ends.
        of_index.resize(end as usize, bag as i64);
        starts.push(offsets[bag] as usize);
        if bag + 1 == count {
            starts.push(end as usize);
        }
    }
    of_index.resize(indices as usize, -1);
    Ok(Bags { of_index, starts, count })
}

fn bag_any(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    _by_frequency: bool,
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
    ensure!(!sparse || mode != Mode::Max, "max mode does not support sparse weights");
    ensure!(indices.dim() == 1 || indices.dim() == 2, "input has to be a 1D or 2D Tensor, but got Tensor of dimension {}", indices.dim());
    for t in [indices, offsets] {
        ensure!(
            matches!(t.dtype(), DType::I64 | DType::I32),
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.{}Tensor \
             instead (while checking arguments for embedding_bag)",
            t.dtype().scalar_type_name()
        );
    }
    ensure!(weight.dim() == 2, "embedding_bag: weight has to be 2-dimensional, but got {} dims", weight.dim());
    ensure!(
        weight.dtype().is_floating_point(),
        "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got \
         torch.{}Tensor instead (while checking arguments for embedding_bag)",
        weight.dtype().scalar_type_name()
    );
    let (rows, width) = (weight.sizes()[0], weight.sizes()[1]);
    let padding = padding.map(|p| padding_row(p, weight)).transpose()?;
    if let Some(f) = factors {
        ensure!(
            mode == Mode::Sum,
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (mode='{}'). \
             Please open a feature request on GitHub.",
            if mode == Mode::Mean { "mean" } else { "max" }
        );
        ensure!(
            f.dtype() == weight.dtype(),
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but \
             type torch.{}Tensor does not equal torch.{}Tensor (while checking arguments for embedding_bag)",
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
    // All are looked at, without a branch for each, before the first that is out of range is looked for.
    if known.iter().fold(false, |any, i| any | (*i < 0) | (*i >= rows))
        && let Some((at, i)) = known.iter().enumerate().find(|(_, i)| !(0..rows).contains(*i))
    {
        return Err(Error::runtime(match mode {
            Mode::Max => format!("embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {i}"),
            _ => format!("Index {at} of input takes value {i} which is not in the valid range [0, {rows})"),
        }));
    }
    let bags = bags(offsets, known.len() as i64, last_included, mode)?;
    let size = |w: &[usize]| match padding {
        None => (w[1] - w[0]) as i64,
        Some(_) => known[w[0]..w[1]].iter().filter(|i| Some(**i) != padding).count() as i64,
    };
    let sizes: Vec<i64> = bags.starts.windows(2).map(size).collect();
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
    let output = Tensor::empty(&[count, width], (weight.dtype(), crate::Device::CPU))?;
    if output.numel() > 0 {
        let here = |t: &Tensor| t.detach_all()?.to_device(crate::Device::CPU)?.contiguous();
        let (table, factors) = (here(weight)?, factors.map(here).transpose()?);
        let read = [Some(&table), factors.as_ref()].into_iter().flatten();
        let _locks = LockSet::new(read.map(|t| (t.storage(), false)).chain([(output.storage(), true)]))?;
        // SAFETY: all are locked, contiguous and of one dtype; the indices were checked.
        unsafe {
            flambeau_cpu::index::sum_bags(
                output.data_ptr(),
                width as usize,
                (table.data_ptr(), table.dtype()),
                &known,
                &bags.starts,
                factors.as_ref().map(|f| f.data_ptr().cast_const()),
                (mode == Mode::Mean).then_some(&sizes[..]),
                padding,
            );
        }
    }
    let output = output.to_device(weight.device())?;
    let nowhere = bag_size.zeros_like()?;
    Ok([output, of_index, bag_size, nowhere])
}

/// The row of each bag's largest element, by column; -1 for a bag without rows.
fn largest(weight: &Tensor, indices: &[i64], bags: &Bags, padding: Option<i64>) -> Result<Tensor> {
    let width = weight.sizes()[1];
    let table = weight.detach_all()?.to_device(crate::Device::CPU)?.contiguous()?;
    let mut chosen = vec![-1i64; bags.count * width as usize];
    if !chosen.is_empty() {
        let _lock = LockSet::new([(table.storage(), false)])?;
        // SAFETY: locked and contiguous; the indices were checked.
        unsafe {
            let table = (table.data_ptr().cast_const(), table.dtype());
            flambeau_cpu::index::largest_of_bags(&mut chosen, width as usize, table, indices, &bags.starts, padding);
        }
    }
    Tensor::from_slice_of(&chosen, &[bags.count as i64, width])
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
    let padding = padding.map(|p| padding_row(p, weight)).transpose()?.unwrap_or(-1);
    embedding_bag_forward::OP
        .call(&[
            weight.into(), indices.into(), offsets.into(), by_frequency.into(), mode.into(), sparse.into(), factors.into(),
            last_included.into(), padding.into(),
        ])?
        .list()
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
    bag_any(weight, indices, offsets, by_frequency, mode, sparse, factors, last_included, padding).map(Vec::from)
}

/// A `padding_idx`, counted from the end if it is negative.
fn padding_row(padding: i64, weight: &Tensor) -> Result<i64> {
    ensure!(weight.dim() == 2, "embedding_bag: weight has to be 2-dimensional, but got {} dims", weight.dim());
    let rows = weight.sizes()[0];
    ensure!(
        (-rows..rows).contains(&padding),
        "padding_idx must be within the number of embeddings, -{rows} through {}, but got {padding}",
        rows - 1
    );
    Ok(if padding < 0 { padding + rows } else { padding })
}

/// For every index the row of its bag, zeros where it is in none.
fn of_bags(rows: &Tensor, of_index: &Tensor) -> Result<Tensor> {
    if of_index.device().is_meta() || of_index.numel() == 0 || of_index.amin(&[0], false)?.item()?.to_i64() >= 0 {
        return rows.index_select(0, of_index);
    }
    rows.index_select(0, &of_index.clamp_min(0)?)?.masked_fill(&of_index.lt(0)?.unsqueeze(1)?, 0)
}

/// The gradient of the table: `of_index`, `sizes` and `places` are the further results.
fn table_gradient(
    g: &Tensor, rows: i64, indices: &Tensor, by_frequency: bool, mode: i64, sparse: bool, factors: Option<&Tensor>, padding: i64,
    [of_index, sizes, places]: [&Tensor; 3],
) -> Result<Tensor> {
    if mode == 2 {
        let filled = g.mul(&sizes.gt(0)?.unsqueeze(1)?)?;
        let zeros = Tensor::zeros(&[rows, g.sizes()[1]], (g.dtype(), g.device()))?;
        return if rows == 0 { Ok(zeros) } else { zeros.scatter_add(0, &places.to_dtype(DType::I64)?, &filled) };
    }
    let share = if mode == 1 { g.div(&sizes.clamp_min(1)?.to_dtype(g.dtype())?.unsqueeze(1)?)? } else { g.clone() };
    let flat = indices.reshape(&[-1])?;
    let mut parts = match g.sizes()[0] {
        0 => Tensor::zeros(&[flat.numel(), g.sizes()[1]], (g.dtype(), g.device()))?,
        _ => of_bags(&share, of_index)?,
    };
    if let Some(f) = factors {
        parts = parts.mul(&f.unsqueeze(1)?)?;
    }
    match sparse {
        true => Tensor::embedding_sparse_backward(&parts, &flat, rows, padding, by_frequency),
        false => Tensor::embedding_dense_backward(&parts, &flat, rows, padding, by_frequency),
    }
}

/// The gradient of the factors.
fn factors_gradient(g: &Tensor, weight: &Tensor, indices: &Tensor, padding: i64, of_index: &Tensor) -> Result<Tensor> {
    let flat = indices.reshape(&[-1])?;
    let products = weight.index_select(0, &flat)?.mul(&of_bags(g, of_index)?)?.sum_dim(&[1], false)?;
    if padding < 0 { Ok(products) } else { products.masked_fill(&flat.eq(padding)?, 0) }
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
    Body::Explicit(kernel!(padding_or_none; weight, indices, offsets, by_frequency, mode, sparse, factors, last, padding));
    derivative: backward! {
        weight([c], weight: Geometry, indices: Tensor, scale_grad_by_freq: bool, mode: i64, sparse: bool, per_sample_weights: Option<Tensor>, padding_idx: i64, result1: Tensor, result2: Tensor, result3: Tensor) =>
            table_gradient(&c.gradient()?, weight.sizes[0], &indices, scale_grad_by_freq, mode, sparse, per_sample_weights.as_ref(), padding_idx, [&result1, &result2, &result3])?,
        per_sample_weights([c], weight: Tensor, indices: Tensor, padding_idx: i64, result1: Tensor) =>
            factors_gradient(&c.gradient()?, &weight, &indices, padding_idx, &result1)?,
    };
    samples: |m| samples(m, Some((-1i64).into()));
    ulp: 16.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[embedding_bag::ALL, embedding_bag_forward::ALL, embedding_bag_padded::ALL];
