//! Other arrangements of entries: dims swapped, added and taken away, parts and sums along dims.

use super::{Coo, coalesced, coo, csr, from_coo};
use crate::dims::{wrap_dim, wrap_dims};
use crate::op::{KernelFn, Op};
use crate::ops::{copies, index, join, parts, reduce, view};
use crate::{DType, Dims, Error, Layout, Result, Tensor, ensure};

/// Kernels by operator.
pub(super) static TABLE: &[(&Op, KernelFn)] = &[
    (&join::cat::OP, kernel!(cat; tensors, dim)),
    (&join::stack::OP, kernel!(stack; tensors, dim)),
    (&index::index_select::OP, kernel!(index_select; x, dim, index)),
    (&copies::narrow_copy::OP, kernel!(narrow_copy; x, dim, start, length)),
    (&view::expand::OP, kernel!(expand; x, sizes, implicit)),
    (&view::permute::OP, kernel!(permute; x, dims)),
    (&view::reshape::OP, kernel!(reshape; x, sizes)),
    (&view::t::OP, kernel!(t; x)),
    (&view::select::OP, kernel!(select; x, dim, index)),
    (&view::transpose::OP, kernel!(transpose; x, first, second)),
    (&view::unsqueeze::OP, kernel!(unsqueeze; x, dim)),
    (&parts::unbind::OP, kernel!(unbind; x, dim)),
    (&reduce::sum_dim::OP, kernel!(sum; x, dims, keepdim, dtype)),
];

/// A list of indices as a tensor beside others.
fn index_tensor(list: &[i64], like: &Tensor) -> Result<Tensor> {
    Tensor::from_slice(list)?.to_device(like.device())
}

fn cat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), "expected a non-empty list of Tensors");
    let first = &tensors[0];
    for (i, t) in tensors.iter().enumerate() {
        ensure!(
            t.layout() == Layout::SparseCoo,
            "Concatenating sparse tensors, but a dense tensor was found at position {i}."
        );
        let fits = t.dim() == first.dim();
        ensure!(
            fits,
            "All tensors must have the same number of dimensions to be concatenated, but got {:?} and {:?}",
            first.sizes(),
            t.sizes()
        );
    }
    let d = wrap_dim(dim, first.dim())?;
    let all = tensors.iter().map(coo).collect::<Result<Vec<_>>>()?;
    let sparse_dim = all[0].sparse_dim();
    let mut sizes = Dims::from_slice(first.sizes());
    sizes[d] = tensors.iter().map(|t| t.sizes()[d]).sum();
    for (t, c) in tensors.iter().zip(&all) {
        let same = (0..sizes.len()).all(|i| i == d || t.sizes()[i] == sizes[i]);
        ensure!(
            same && c.sparse_dim() == sparse_dim,
            "Sizes of tensors must match except in dimension {d}. Expected {:?} but got {:?}",
            first.sizes(),
            t.sizes()
        );
    }
    let (mut indices, mut values, mut start) = (Vec::new(), Vec::new(), 0);
    for (t, c) in tensors.iter().zip(all) {
        if d < sparse_dim {
            let mut offset = vec![0i64; sparse_dim];
            offset[d] = start;
            indices.push(c.indices.add(&index_tensor(&offset, &c.indices)?.unsqueeze(1)?)?);
            values.push(c.values);
        } else {
            let along = d - sparse_dim + 1;
            let mut shape = Dims::from_slice(c.values.sizes());
            shape[along] = sizes[d];
            let wide = Tensor::zeros(&shape, (c.values.dtype(), c.values.device()))?;
            wide.narrow(along as i64, start, t.sizes()[d])?.copy_(&c.values)?;
            indices.push(c.indices);
            values.push(wide);
        }
        start += t.sizes()[d];
    }
    from_coo(&sizes, Coo { indices: Tensor::cat(&indices, 1)?, values: Tensor::cat(&values, 0)?, coalesced: false })
}

fn stack(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), "stack expects a non-empty TensorList");
    let first = &tensors[0];
    for (i, t) in tensors.iter().enumerate() {
        ensure!(
            t.sizes() == first.sizes(),
            "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at entry {i}",
            first.sizes(),
            t.sizes()
        );
    }
    let d = wrap_dim(dim, first.dim() + 1)? as i64;
    Tensor::cat(&tensors.iter().map(|t| t.unsqueeze(d)).collect::<Result<Vec<_>>>()?, d)
}

fn permute(x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    ensure!(
        dims.len() == x.dim(),
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering \
         of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
        x.dim(),
        dims.len()
    );
    let order = dims.iter().map(|&d| wrap_dim(d, x.dim()).map(|d| d as i64)).collect::<Result<Dims>>()?;
    ensure!((0..x.dim() as i64).all(|d| order.contains(&d)), "permute(): duplicate dims are not allowed.");
    ensure!(
        x.layout() == Layout::SparseCoo,
        "permute: tensors in compressed rows can only be transposed by way of coordinates"
    );
    let c = coo(x)?;
    let n = c.sparse_dim();
    let (sparse, dense) = order.split_at(n);
    ensure!(
        sparse.iter().all(|&d| d < n as i64),
        "permute(sparse_coo): permutation of sparse and dense dimensions with each other is not supported, got dims {dims:?}"
    );
    let sizes: Dims = order.iter().map(|&d| x.sizes()[d as usize]).collect();
    let indices = c.indices.index_select(0, &index_tensor(sparse, &c.indices)?)?;
    let of_values: Dims = std::iter::once(0).chain(dense.iter().map(|d| d - n as i64 + 1)).collect();
    let same = sparse.is_sorted();
    from_coo(&sizes, Coo { indices, values: c.values.permute(&of_values)?, coalesced: c.coalesced && same })
}

fn transpose(x: &Tensor, first: i64, second: i64) -> Result<Tensor> {
    let mut order: Dims = (0..x.dim() as i64).collect();
    let (a, b) = (wrap_dim(first, x.dim())?, wrap_dim(second, x.dim())?);
    if a == b {
        return x.clone_in(crate::MemoryFormat::Preserve);
    }
    order.swap(a, b);
    if x.layout() == Layout::SparseCsr {
        let c = coo(x)?;
        let swapped = permute(&from_coo(x.sizes(), c)?, &order)?;
        return super::compressed(&swapped, csr(x)?.rows.dtype());
    }
    permute(x, &order)
}

fn t(x: &Tensor) -> Result<Tensor> {
    ensure!(
        x.dim() <= 2,
        "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {} sparse and {} dense dimensions",
        coo(x)?.sparse_dim(),
        x.dim() - coo(x)?.sparse_dim()
    );
    transpose(x, 0, if x.dim() < 2 { 0 } else { 1 })
}

fn reshape(_x: &Tensor, _sizes: &[i64]) -> Result<Tensor> {
    Err(Error::runtime("reshape is not implemented for sparse tensors"))
}

fn expand(_x: &Tensor, _sizes: &[i64], _implicit: Option<bool>) -> Result<Tensor> {
    Err(Error::runtime("expand is unsupported for Sparse tensors"))
}

fn unsqueeze(x: &Tensor, dim: i64) -> Result<Tensor> {
    ensure!(x.layout() == Layout::SparseCoo, "Sparse CSR tensors do not have strides");
    let d = wrap_dim(dim, x.dim() + 1)?;
    let c = coo(x)?;
    let n = c.sparse_dim();
    let mut sizes = Dims::from_slice(x.sizes());
    sizes.insert(d, 1);
    if d > n {
        let values = c.values.unsqueeze((d - n + 1) as i64)?;
        return from_coo(&sizes, Coo { values, ..c });
    }
    let row = Tensor::zeros(&[1, c.entries()], (DType::I64, c.indices.device()))?;
    let (above, below) = (c.indices.narrow(0, 0, d as i64)?, c.indices.narrow(0, d as i64, (n - d) as i64)?);
    from_coo(&sizes, Coo { indices: Tensor::cat(&[above, row, below], 0)?, values: c.values, coalesced: false })
}

/// Coordinates without those along one sparse dim.
fn without(indices: &Tensor, dim: usize) -> Result<Tensor> {
    let kept: Vec<i64> = (0..indices.sizes()[0]).filter(|&d| d != dim as i64).collect();
    indices.index_select(0, &index_tensor(&kept, indices)?)
}

fn select(x: &Tensor, dim: i64, at: i64) -> Result<Tensor> {
    let (d, at) = view::selected(x, dim, at)?;
    let c = coo(x)?;
    let n = c.sparse_dim();
    let mut sizes = Dims::from_slice(x.sizes());
    sizes.remove(d);
    if d >= n {
        let values = c.values.select((d - n + 1) as i64, at)?;
        return from_coo(&sizes, Coo { values, ..c });
    }
    let kept = c.along(d)?.eq(at)?.nonzero()?.select(1, 0)?;
    let values = c.values.index_select(0, &kept)?;
    if n == 1 {
        // No sparse dim is left: what stood there.
        return values.sum_dim_dtype(&[0], false, x.dtype());
    }
    let indices = without(&c.indices.index_select(1, &kept)?, d)?;
    from_coo(&sizes, Coo { indices, values, coalesced: c.coalesced })
}

fn unbind(x: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    let d = wrap_dim(dim, x.dim())?;
    (0..x.sizes()[d]).map(|i| x.select(d as i64, i)).collect()
}

fn narrow_copy(x: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    super::first_order("narrow_copy", &[x])?;
    let d = wrap_dim(dim, x.dim())?;
    let size = x.sizes()[d];
    let start = if start < 0 { start + size } else { start };
    ensure!(length >= 0, "narrow(): length must be non-negative.");
    ensure!(
        start >= 0 && start + length <= size,
        "Invalid range to narrow. range(start, start+length) must be a subset of range(0, {size})."
    );
    let c = coo(x)?;
    let n = c.sparse_dim();
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[d] = length;
    if d >= n {
        let values = c.values.narrow((d - n + 1) as i64, start, length)?.clone_in(crate::MemoryFormat::Contiguous)?;
        return from_coo(&sizes, Coo { values, ..c });
    }
    let along = c.along(d)?;
    let kept = along.ge(start)?.logical_and(&along.lt(start + length)?)?.nonzero()?.select(1, 0)?;
    let mut offset = vec![0i64; n];
    offset[d] = start;
    let indices = c.indices.index_select(1, &kept)?.sub(&index_tensor(&offset, &c.indices)?.unsqueeze(1)?)?;
    from_coo(&sizes, Coo { indices, values: c.values.index_select(0, &kept)?, coalesced: c.coalesced })
}

fn index_select(x: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    ensure!(x.layout() == Layout::SparseCoo, "index_select: not supported for compressed rows");
    ensure!(x.dim() > 0, "index_select() cannot be applied to a 0-dim tensor.");
    ensure!(
        index.is_strided() && index.dim() == 1 && matches!(index.dtype(), DType::I64 | DType::I32),
        "index_select() argument index must be 1-D long-tensor."
    );
    let d = wrap_dim(dim, x.dim())?;
    let c = coo(x)?;
    let n = c.sparse_dim();
    let size = x.sizes()[d];
    let wanted = index.to_vec::<i64>()?;
    for &i in &wanted {
        if i < -size || i >= size {
            return Err(Error::index(format!(
                "index_select(): index contains {i} that is out of range for tensor of size {:?} at dimension {d}",
                x.sizes()
            )));
        }
    }
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[d] = wanted.len() as i64;
    if d >= n {
        let index = index_tensor(&wanted.iter().map(|i| i.rem_euclid(size)).collect::<Vec<_>>(), &c.values)?;
        return from_coo(&sizes, Coo { values: c.values.index_select((d - n + 1) as i64, &index)?, ..c });
    }
    let mut entries = vec![Vec::new(); size as usize];
    for (entry, at) in c.along(d)?.to_vec::<i64>()?.into_iter().enumerate() {
        if let Some(list) = usize::try_from(at).ok().and_then(|at| entries.get_mut(at)) {
            list.push(entry as i64);
        }
    }
    let (mut picked, mut places) = (Vec::new(), Vec::new());
    for (place, i) in wanted.iter().enumerate() {
        for &entry in &entries[i.rem_euclid(size) as usize] {
            picked.push(entry);
            places.push(place as i64);
        }
    }
    let picked = index_tensor(&picked, &c.indices)?;
    let indices = c.indices.index_select(1, &picked)?;
    indices.select(0, d as i64)?.copy_(&index_tensor(&places, &c.indices)?)?;
    from_coo(&sizes, Coo { indices, values: c.values.index_select(0, &picked)?, coalesced: false })
}

fn sum(x: &Tensor, dims: Option<&[i64]>, keepdim: Option<bool>, dtype: Option<DType>) -> Result<Tensor> {
    let keepdim = keepdim.unwrap_or(false);
    let csr_like = x.layout() == Layout::SparseCsr;
    let over = wrap_dims(dims.unwrap_or(&[]), x.dim())?;
    let all = over.is_empty() || over.len() == x.dim();
    ensure!(!csr_like || keepdim || all, "reduction operations on CSR tensors with keepdim=False is unsupported");
    let c = coo(x)?;
    let n = c.sparse_dim();
    if all && !keepdim {
        return match dtype {
            Some(dtype) => c.values.to_dtype(dtype)?.sum(),
            None => c.values.sum(),
        };
    }
    let dense: Dims = (n..x.dim()).filter(|d| all || over.contains(d)).map(|d| (d - n + 1) as i64).collect();
    let mut values = match (dense.is_empty(), dtype) {
        (true, Some(dtype)) => c.values.to_dtype(dtype)?,
        (true, None) if x.dtype().is_integral(true) => c.values.to_dtype(DType::I64)?,
        (true, None) => c.values.clone(),
        (false, Some(dtype)) => c.values.sum_dim_dtype(&dense, keepdim, dtype)?,
        (false, None) => c.values.sum_dim(&dense, keepdim)?,
    };
    let kept: Vec<i64> = (0..n as i64).filter(|&d| !all && !over.contains(&(d as usize))).collect();
    let mut sizes = Dims::new();
    for (d, &size) in x.sizes().iter().enumerate() {
        match all || over.contains(&d) {
            false => sizes.push(size),
            true if keepdim => sizes.push(1),
            true => {}
        }
    }
    if kept.is_empty() && !keepdim {
        // No sparse dim is left.
        return values.sum_dim_dtype(&[0], false, values.dtype());
    }
    let sparse_sizes: Dims = kept.iter().map(|&d| x.sizes()[d as usize]).collect();
    let indices = c.indices.index_select(0, &index_tensor(&kept, &c.indices)?)?;
    // Entries that fell together are added up.
    let mut shape = sparse_sizes.clone();
    shape.extend_from_slice(&values.sizes()[1..]);
    let summed =
        coo(&coalesced(&from_coo(&shape, Coo { indices, values, coalesced: kept.len() == n && c.coalesced })?)?)?;
    if !keepdim {
        return from_coo(&sizes, summed);
    }
    values = summed.values;
    let mut rows = Vec::new();
    for d in 0..n {
        rows.push(match kept.iter().position(|&k| k == d as i64) {
            Some(i) => summed.indices.select(0, i as i64)?,
            None => Tensor::zeros(&[values.sizes()[0]], (DType::I64, values.device()))?,
        });
    }
    let indices = Tensor::stack(&rows, 0)?;
    let result = from_coo(&sizes, Coo { indices, values, coalesced: false })?;
    if csr_like { super::compressed(&result, csr(x)?.rows.dtype()) } else { Ok(result) }
}

/// A gradient of the sums along `dims` where a tensor has entries.
pub(crate) fn spread(g: &Tensor, x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    super::first_order("_sparse_sum", &[g])?;
    let over = wrap_dims(dims, x.dim())?;
    let c = coo(&coalesced(x)?)?;
    let n = c.sparse_dim();
    let kept: Vec<i64> = (0..n as i64).filter(|d| !over.contains(&(*d as usize))).collect();
    let mut values = match kept.is_empty() {
        true => g.to_dense()?.unsqueeze(0)?,
        false => super::at_places(g, &c.indices.index_select(0, &index_tensor(&kept, &c.indices)?)?)?,
    };
    for d in n..x.dim() {
        if over.contains(&d) {
            values = values.unsqueeze((d - n + 1) as i64)?;
        }
    }
    let values = values.expand(c.values.sizes())?.clone_in(crate::MemoryFormat::Contiguous)?;
    from_coo(x.sizes(), Coo { indices: c.indices, values, coalesced: false })
}
