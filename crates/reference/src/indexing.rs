//! Elements picked and placed by index, and rearranged.

use crate::Kernel;
use crate::array::{Arithmetic, Array, Kind, by_kind, indices, outline, place, sizes_of, wrap, write};
use flambeau::value::take;
use flambeau::{DType, Element, Error, MemoryFormat, Op, Outputs, Result, Scalar, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("gather", |op, args| pick(op, args, |index, _, picks| picks.data[place(&picks.sizes, index)])),
    ("index_select", |op, args| pick(op, args, |index, dim, picks| picks.data[index.get(dim).copied().unwrap_or(0)])),
    ("index.Tensor", index),
    ("index_put_", index_put),
    ("scatter_.src", |op, args| put(op, args, false, Combine::Replace, Scalar::Int(1))),
    ("scatter_.value", |op, args| put(op, args, false, Combine::Replace, Scalar::Int(1))),
    ("scatter_.reduce", scatter_reducing),
    ("scatter_.value_reduce", scatter_reducing),
    ("scatter_add_", |op, args| put(op, args, false, Combine::Add, Scalar::Int(1))),
    ("index_copy_", |op, args| put(op, args, true, Combine::Replace, Scalar::Int(1))),
    ("index_add_", |op, args| {
        let alpha = take::<Option<Scalar>>(op, args, 4)?.unwrap_or(Scalar::Int(1));
        put(op, args, true, Combine::Add, alpha)
    }),
    ("masked_select", masked_select),
    ("masked_scatter_", masked_scatter),
    ("nonzero", nonzero),
    ("cat", cat),
    ("flip", flip),
    ("constant_pad_nd", pad),
    ("tril", |op, args| triangle(op, args, |row, column, diagonal| column <= row + diagonal)),
    ("triu", |op, args| triangle(op, args, |row, column, diagonal| column >= row + diagonal)),
    ("fill_.Scalar", fill),
    ("embedding_dense_backward", embedding_backward),
    ("_segment_spread", segment_spread),
    ("_weighted_select", weighted_select),
    ("isin.Tensor_Tensor", isin),
];

/// A place along a dim counted from the front.
pub(crate) fn check(at: i64, dim: usize, size: usize) -> Result<usize> {
    let wrapped = if at < 0 { at + size as i64 } else { at };
    if (0..size as i64).contains(&wrapped) {
        return Ok(wrapped as usize);
    }
    Err(Error::index(format!("index {at} is out of bounds for dimension {dim} with size {size}")))
}

/// Every element of the result is the input's at the same index but for `dim`, where `which` says it.
fn pick(op: &'static Op, args: &[Value<'_>], which: fn(&[usize], usize, &Array<i64>) -> i64) -> Result<Outputs> {
    let (x, picks): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 2)?);
    let out = outline(op, args)?.remove(0);
    if x.dim() == 0 {
        return write(&out, &vec![x.to_vec::<flambeau::Complex64>()?[0]; out.numel() as usize]).map(Outputs::from);
    }
    let dim = wrap(take(op, args, 1)?, x)?;
    let picks = Array::<i64>::read(picks)?;
    by_kind!(Kind::of(x.dtype()), T => {
        let x = Array::<T>::read(x)?;
        let mut results: Vec<T> = Vec::new();
        for index in indices(&sizes_of(&out)) {
            let mut from = index.clone();
            from[dim] = check(which(&index, dim, &picks), dim, x.sizes[dim])?;
            results.push(x.data[place(&x.sizes, &from)]);
        }
        write(&out, &results).map(Outputs::from)
    })
}

/// What becomes of the element that is written over.
#[derive(Clone, Copy)]
enum Combine {
    Replace,
    Add,
    Multiply,
}

fn scatter_reducing(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let combine = if take::<&str>(op, args, 4)? == "add" { Combine::Add } else { Combine::Multiply };
    put(op, args, false, combine, Scalar::Int(1))
}

/// Writes the elements of a source (or one value) where an index along a dim says: one index for each element, or one for
/// each slice.
fn put(op: &'static Op, args: &[Value<'_>], by_slice: bool, combine: Combine, factor: Scalar) -> Result<Outputs> {
    let (x, places): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 2)?);
    if x.numel() == 0 || places.numel() == 0 {
        return Ok(x.clone().into());
    }
    let dim = if x.dim() == 0 { 0 } else { wrap(take(op, args, 1)?, x)? };
    let at_least_1d = |mut sizes: Vec<usize>| {
        if sizes.is_empty() {
            sizes.push(1);
        }
        sizes
    };
    let (mut places, sizes) = (Array::<i64>::read(places)?, at_least_1d(sizes_of(x)));
    places.sizes = at_least_1d(places.sizes);
    by_kind!(Kind::of(x.dtype()), T => {
        let mut target = Array::<T>::read(x)?;
        let source = match args[3] {
            Value::Tensor(t) => Array::<T>::read(t)?,
            _ => {
                let value: Scalar = take(op, args, 3)?;
                Array { sizes: places.sizes.clone(), data: vec![T::from_scalar(value); places.data.len()] }
            }
        };
        let factor = T::from_scalar(factor);
        let source_sizes = at_least_1d(source.sizes);
        let walked = if by_slice { source_sizes.clone() } else { places.sizes.clone() };
        for index in indices(&walked) {
            let which = if by_slice { places.data[index[dim]] } else { places.data[place(&places.sizes, &index)] };
            let mut to = index.clone();
            to[dim] = check(which, dim, sizes[dim])?;
            let (to, from) = (place(&sizes, &to), source.data[place(&source_sizes, &index)].times(factor));
            target.data[to] = match combine {
                Combine::Replace => from,
                Combine::Add => target.data[to].plus(from),
                Combine::Multiply => target.data[to].times(from),
            };
        }
        overwrite(x, &target.data)
    })
}

/// What an in-place kernel gives: its tensor with these elements.
pub(crate) fn overwrite<T: Element>(x: &Tensor, data: &[T]) -> Result<Outputs> {
    x.copy_(&Tensor::from_slice_of(data, x.sizes())?).map(Outputs::from)
}

/// Integer indices for each dim; a mask stands for those of its true elements.
fn by_integers(x: &Tensor, given: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let mut all = Vec::new();
    for t in given {
        match t {
            Some(t) if matches!(t.dtype(), DType::Bool | DType::U8) => {
                let mask = Array::<i64>::read(t)?;
                let set: Vec<Vec<usize>> =
                    indices(&mask.sizes).into_iter().filter(|i| mask.data[place(&mask.sizes, i)] != 0).collect();
                for d in 0..mask.sizes.len() {
                    let picks: Vec<i64> = set.iter().map(|i| i[d] as i64).collect();
                    all.push(Some(Tensor::from_slice(&picks)?));
                }
            }
            t => all.push(t.clone()),
        }
    }
    all.resize(x.dim(), None);
    Ok(all)
}

/// For each element of an indexed view in row-major order, where it is in the indexed tensor; and the view's sizes.
fn indexed(x: &Tensor, given: &[Option<Tensor>]) -> Result<(Vec<usize>, Vec<i64>)> {
    let given = by_integers(x, given)?;
    let used: Vec<usize> = (0..given.len()).filter(|d| given[*d].is_some()).collect();
    let mut picked: Vec<i64> = vec![];
    for t in given.iter().flatten() {
        picked = flambeau::dims::broadcast(&picked, t.sizes())?.to_vec();
    }
    let picks = given.iter().flatten().map(|t| Array::<i64>::read_as(t, &picked)).collect::<Result<Vec<_>>>()?;
    // Indexed dims side by side are replaced where they stand; others come first.
    let together = used.windows(2).all(|w| w[0] + 1 == w[1]);
    let at = if together { used.first().copied().unwrap_or(0) } else { 0 };
    let kept: Vec<usize> = (0..x.dim()).filter(|d| given[*d].is_none()).collect();
    let mut sizes: Vec<i64> = kept.iter().map(|d| x.sizes()[*d]).collect();
    sizes.splice(at..at, picked.iter().copied());
    let x_sizes = sizes_of(x);
    let unsigned: Vec<usize> = sizes.iter().map(|n| *n as usize).collect();
    let mut places = Vec::new();
    for index in indices(&unsigned) {
        let which: Vec<usize> = index[at..at + picked.len()].to_vec();
        let rest: Vec<usize> = [&index[..at], &index[at + picked.len()..]].concat();
        let mut from = vec![0; x.dim()];
        kept.iter().zip(rest).for_each(|(d, i)| from[*d] = i);
        for (d, p) in used.iter().zip(&picks) {
            from[*d] = check(p.data[place(&p.sizes, &which)], *d, x_sizes[*d])?;
        }
        places.push(place(&x_sizes, &from));
    }
    Ok((places, sizes))
}

fn index(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let (places, sizes) = indexed(x, take(op, args, 1)?)?;
    by_kind!(Kind::of(x.dtype()), T => {
        let x_data = Array::<T>::read(x)?.data;
        let data: Vec<T> = places.iter().map(|p| x_data[*p]).collect();
        Tensor::from_slice_of(&data, &sizes)?.to_dtype(x.dtype()).map(Outputs::from)
    })
}

fn index_put(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, values): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 2)?);
    let accumulate = take::<Option<bool>>(op, args, 3)?.unwrap_or(false);
    let (places, sizes) = indexed(x, take(op, args, 1)?)?;
    by_kind!(Kind::of(x.dtype()), T => {
        let mut target = Array::<T>::read(x)?.data;
        for (to, value) in places.iter().zip(Array::<T>::read_as(values, &sizes)?.data) {
            target[*to] = if accumulate { target[*to].plus(value) } else { value };
        }
        overwrite(x, &target)
    })
}

fn masked_select(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, mask): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let sizes = flambeau::dims::broadcast(x.sizes(), mask.sizes())?;
    let mask = Array::<i64>::read_as(mask, &sizes)?.data;
    by_kind!(Kind::of(x.dtype()), T => {
        let all = Array::<T>::read_as(x, &sizes)?.data;
        let picked: Vec<T> = all.into_iter().zip(mask).filter(|(_, m)| *m != 0).map(|(x, _)| x).collect();
        Tensor::from_slice(&picked)?.to_dtype(x.dtype()).map(Outputs::from)
    })
}

fn masked_scatter(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, mask, source): (&Tensor, &Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?, take(op, args, 2)?);
    let mask = Array::<i64>::read_as(mask, x.sizes())?.data;
    by_kind!(Kind::of(x.dtype()), T => {
        let mut next = Array::<T>::read(source)?.data.into_iter();
        let mut target = Array::<T>::read(x)?.data;
        for (t, m) in target.iter_mut().zip(mask) {
            if m != 0 {
                *t = next.next().ok_or_else(|| Error::runtime("masked_scatter: the source has too few elements"))?;
            }
        }
        overwrite(x, &target)
    })
}

fn nonzero(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let data = Array::<flambeau::Complex64>::read(x)?;
    let found: Vec<i64> = indices(&data.sizes)
        .into_iter()
        .filter(|i| data.data[place(&data.sizes, i)] != 0.0.into())
        .flat_map(|i| i.into_iter().map(|k| k as i64))
        .collect();
    let rows = match x.dim() {
        0 => data.data.iter().filter(|z| **z != 0.0.into()).count() as i64,
        d => found.len() as i64 / d as i64,
    };
    Tensor::from_slice_of(&found, &[rows, x.dim() as i64]).map(Outputs::from)
}

fn cat(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let tensors: &[Tensor] = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    let dim = wrap(take::<Option<i64>>(op, args, 1)?.unwrap_or(0), &out)?;
    by_kind!(Kind::of(out.dtype()), T => {
        let sizes = sizes_of(&out);
        let mut result = vec![T::zero(); out.numel() as usize];
        let mut before = 0;
        // An empty vector joins anything.
        for t in tensors.iter().filter(|t| t.sizes() != [0]) {
            let t = Array::<T>::read(&t.to_dtype(out.dtype())?)?;
            for (mut index, x) in indices(&t.sizes).into_iter().zip(&t.data) {
                index[dim] += before;
                result[place(&sizes, &index)] = *x;
            }
            before += t.sizes[dim];
        }
        write(&out, &result).map(Outputs::from)
    })
}

/// Every element of the result is the input's at the index that `from` gives, or `other` without one.
fn rearranged(
    op: &'static Op,
    args: &[Value<'_>],
    other: Scalar,
    from: impl Fn(&[usize]) -> Option<Vec<usize>>,
) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    by_kind!(Kind::of(x.dtype()), T => {
        let x = Array::<T>::read(x)?;
        let at = |index: Vec<usize>| from(&index).map_or(T::from_scalar(other), |i| x.data[place(&x.sizes, &i)]);
        write(&out, &indices(&sizes_of(&out)).into_iter().map(at).collect::<Vec<T>>()).map(Outputs::from)
    })
}

fn flip(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, dims): (&Tensor, &[i64]) = (take(op, args, 0)?, take(op, args, 1)?);
    let dims = if x.dim() == 0 { vec![] } else { dims.iter().map(|d| wrap(*d, x)).collect::<Result<Vec<_>>>()? };
    let sizes = sizes_of(x);
    rearranged(op, args, Scalar::Int(0), |index| {
        let mut from = index.to_vec();
        dims.iter().for_each(|d| from[*d] = sizes[*d] - 1 - from[*d]);
        Some(from)
    })
}

fn pad(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, pad): (&Tensor, &[i64]) = (take(op, args, 0)?, take(op, args, 1)?);
    let value = take::<Option<Scalar>>(op, args, 2)?.unwrap_or(Scalar::Int(0));
    let sizes = sizes_of(x);
    rearranged(op, args, value, |index| {
        let mut from = index.to_vec();
        for (k, before) in pad.iter().step_by(2).enumerate() {
            let d = sizes.len() - 1 - k;
            let at = index[d] as i64 - before;
            if !(0..sizes[d] as i64).contains(&at) {
                return None;
            }
            from[d] = at as usize;
        }
        Some(from)
    })
}

fn triangle(op: &'static Op, args: &[Value<'_>], inside: fn(i64, i64, i64) -> bool) -> Result<Outputs> {
    let diagonal = take::<Option<i64>>(op, args, 1)?.unwrap_or(0);
    rearranged(op, args, Scalar::Int(0), |index| {
        let (row, column) = (index[index.len() - 2] as i64, index[index.len() - 1] as i64);
        inside(row, column, diagonal).then(|| index.to_vec())
    })
}

fn fill(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let value: Scalar = take(op, args, 1)?;
    let one = Tensor::full(&[], value, x.dtype())?;
    x.copy_(&one.expand(x.sizes())?.clone_in(MemoryFormat::Contiguous)?).map(Outputs::from)
}

fn embedding_backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (g, picks): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let (skipped, by_count): (i64, bool) = (take(op, args, 3)?, take(op, args, 4)?);
    let out = outline(op, args)?.remove(0);
    let (picks, width) = (Array::<i64>::read(picks)?.data, out.sizes()[1] as usize);
    by_kind!(Kind::of(out.dtype()), T => {
        let g = Array::<T>::read(g)?.data;
        let mut result = vec![T::zero(); out.numel() as usize];
        for (k, &row) in picks.iter().enumerate().filter(|(_, row)| **row != skipped) {
            let times = if by_count { picks.iter().filter(|p| **p == row).count() as f64 } else { 1.0 };
            for i in 0..width {
                let share = g[k * width + i].times(T::from_f64(1.0 / times));
                result[row as usize * width + i] = result[row as usize * width + i].plus(share);
            }
        }
        write(&out, &result).map(Outputs::from)
    })
}

fn weighted_select(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let dim = wrap(take(op, args, 1)?, x)?;
    let (starts, places): (&[i64], &[i64]) = (take(op, args, 2)?, take(op, args, 3)?);
    let weights: &[f64] = take(op, args, 4)?;
    let out = outline(op, args)?.remove(0);
    let x = Array::<f64>::read(x)?;
    let mut results = Vec::new();
    for index in indices(&sizes_of(&out)) {
        let mut sum = 0.0;
        for k in starts[index[dim]] as usize..starts[index[dim] + 1] as usize {
            let mut from = index.clone();
            from[dim] = check(places[k], dim, x.sizes[dim])?;
            sum += weights[k] * x.data[place(&x.sizes, &from)];
        }
        results.push(sum);
    }
    write(&out, &results).map(Outputs::from)
}

fn segment_spread(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let (lengths, offsets): (Option<&Tensor>, Option<&Tensor>) = (take(op, args, 2)?, take(op, args, 3)?);
    let dim = wrap(take::<Option<i64>>(op, args, 4)?.unwrap_or(0), x)?;
    let count = x.sizes()[dim] as usize;
    let (lengths, offsets) =
        (lengths.map(Array::<i64>::read).transpose()?, offsets.map(Array::<i64>::read).transpose()?);
    rearranged(op, args, Scalar::Int(0), |index| {
        let read = |t: &Array<i64>, k: usize| t.data[place(&t.sizes, &[&index[..dim], &[k]].concat())] as usize;
        let places = |k: usize| match (&offsets, &lengths) {
            (Some(offsets), _) => read(offsets, k)..read(offsets, k + 1),
            (None, Some(lengths)) => {
                let from: usize = (0..k).map(|k| read(lengths, k)).sum();
                from..from + read(lengths, k)
            }
            (None, None) => 0..0,
        };
        let mut from = index.to_vec();
        from[dim] = (0..count).find(|&k| places(k).contains(&index[dim]))?;
        Some(from)
    })
}

fn isin(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, test): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let invert = take::<Option<bool>>(op, args, 3)?.unwrap_or(false);
    let out = outline(op, args)?.remove(0);
    let kind = if x.dtype().is_floating_point() { x.dtype() } else { test.dtype() };
    by_kind!(Kind::of(kind), T => {
        let test = Array::<T>::read(test)?.data;
        let flags: Vec<i64> = Array::<T>::read(x)?.data.iter().map(|x| i64::from(test.contains(x) != invert)).collect();
        write(&out, &flags).map(Outputs::from)
    })
}
