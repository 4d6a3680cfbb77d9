//! Parts and turns: further ways of splitting a tensor, rotations, shuffles and diagonals.

use super::parts;
use crate::autograd::Forward;
use crate::autograd::Geometry;
use crate::dims::{Dims, wrap_dim};
use crate::{Body, DType, Error, MemoryFormat, Op, Result, Scalar, Tensor, Value, backward, ensure, sample};

// ---- splitting ----------------------------------------------------------------------------------

fn at_least_one_dim(x: &Tensor) -> Result<()> {
    let dims = x.dim();
    ensure!(dims > 0, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with {dims} dims");
    Ok(())
}

fn tensor_split_sections(x: &Tensor, sections: i64, dim: i64) -> Result<Vec<Tensor>> {
    at_least_one_dim(x)?;
    let size = x.size(dim)?;
    ensure!(sections > 0, "number of sections must be larger than 0, got {sections}");
    parts::check_count(sections)?;
    let (least, longer) = (size / sections, size % sections);
    let mut start = 0;
    let part = |i: i64| {
        let end = start + least + i64::from(i < longer);
        let part = x.slice(dim, Some(start), Some(end), 1);
        start = end;
        part
    };
    (0..sections).map(part).collect()
}

op! {
    /// `sections` parts along a dim, the first ones longer by one where they do not divide it.
    tensor_split: "tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]";
    Body::Composite(kernel!(tensor_split_sections; x, sections, dim));
    samples: |m| vec![sample![m.any(&[5, 2]), 3, 0]];
    fn tensor_split(&self, sections: i64, dim: i64) -> Vec<Tensor> [self, sections, dim];
}

fn tensor_split_indices(x: &Tensor, indices: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    at_least_one_dim(x)?;
    wrap_dim(dim, x.dim())?;
    let starts = std::iter::once(0).chain(indices.iter().copied());
    let ends = indices.iter().map(|i| Some(*i)).chain(std::iter::once(None));
    starts.zip(ends).map(|(start, end)| x.slice(dim, Some(start), end, 1)).collect()
}

op! {
    /// The parts along a dim that begin and end at the given indices.
    split_at: "tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]";
    Body::Composite(kernel!(tensor_split_indices; x, indices, dim));
    samples: |m| vec![sample![m.any(&[5, 2]), vec![1i64, 3], 0]];
}

fn tensor_split_tensor(x: &Tensor, by: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    at_least_one_dim(x)?;
    ensure!(by.device().is_cpu(), "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {}", by.device());
    ensure!(
        by.dtype() == DType::I64,
        "tensor_split expected tensor_indices_or_sections to have dtype of long, but got {}",
        by.dtype().scalar_type_name()
    );
    match by.dim() {
        0 => tensor_split_sections(x, by.item()?.to_i64(), dim),
        1 => tensor_split_indices(x, &by.to_vec::<i64>()?, dim),
        n => Err(Error::runtime(format!(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got a \
             tensor with {n} dims"
        ))),
    }
}

op! {
    /// Parts along a dim: as many as a 0-d tensor says, or between the indices in a 1-d one.
    split_by: "tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]";
    Body::Composite(kernel!(tensor_split_tensor; x, by, dim));
    samples: |m| match Tensor::from_slice(&[1i64, 3]) {
        Ok(indices) => vec![sample![m.any(&[5, 2]), indices, 0]],
        Err(_) => vec![],
    };
}

/// The dim that `hsplit` and its kin split, and that there are enough of them.
fn split_dim(name: &str, x: &Tensor, least: usize, dim: i64) -> Result<i64> {
    ensure!(
        x.dim() >= least,
        "torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {} dimensions!",
        x.dim()
    );
    Ok(if least == 1 && x.dim() == 1 { 0 } else { dim })
}

fn split_evenly(name: &str, x: &Tensor, least: usize, dim: i64, sections: i64) -> Result<Vec<Tensor>> {
    let dim = split_dim(name, x, least, dim)?;
    let size = x.size(dim)?;
    ensure!(
        sections != 0 && size % sections == 0,
        "torch.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not divisible by \
         the split_size {sections}!"
    );
    tensor_split_sections(x, sections, dim)
}

/// Both overloads of splitting one particular dim.
macro_rules! splits {
    ($($(#[doc = $doc:expr])* $name:ident, $at:ident: $least:literal, $dim:literal; $schema:literal, $at_schema:literal;)*) => { $(
        op! {
            $(#[doc = $doc])*
            #[doc = "Into equal parts."]
            $name: $schema;
            Body::Composite(|op, _keys, args| {
                let (x, sections) = (crate::value::take(op, args, 0)?, crate::value::take(op, args, 1)?);
                split_evenly(stringify!($name), x, $least, $dim, sections).map(crate::Outputs::from)
            });
            samples: |m| vec![sample![m.any(&[4, 2, 2]), 2]];
        }
        op! {
            $(#[doc = $doc])*
            #[doc = "At the given indices."]
            $at: $at_schema;
            Body::Composite(|op, _keys, args| {
                let x = crate::value::take(op, args, 0)?;
                let dim = split_dim(stringify!($name), x, $least, $dim)?;
                tensor_split_indices(x, crate::value::take(op, args, 1)?, dim).map(crate::Outputs::from)
            });
            samples: |m| vec![sample![m.any(&[4, 2, 2]), vec![1i64]]];
        }
    )* };
}
splits! {
    /// Splits along the second dim, or the only one.
    hsplit, hsplit_at: 1, 1; "hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", "hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]";
    /// Splits along the first dim.
    vsplit, vsplit_at: 2, 0; "vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", "vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]";
    /// Splits along the third dim.
    dsplit, dsplit_at: 3, 2; "dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", "dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]";
}

/// Tensors over the same memory that count as results of their own, not as views.
fn untracked(views: Vec<Tensor>) -> Vec<Tensor> {
    views.iter().map(Tensor::on_the_same_storage).collect()
}

fn unsafe_split_with_sizes_any(x: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    x.split_with_sizes(sizes, dim).map(untracked)
}
fn unsafe_split_any(x: &Tensor, size: i64, dim: i64) -> Result<Vec<Tensor>> {
    x.split(size, dim).map(untracked)
}
fn unsafe_chunk_any(x: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(x.dim() > 0, "chunk expects at least a 1-dimensional tensor");
    ensure!(chunks > 0, "chunk expects `chunks` to be greater than 0, got: {chunks}");
    let length = x.size(dim)?;
    parts::check_count(if length == 0 { chunks } else { 1 })?;
    match length {
        0 => unsafe_split_sizes(x, &Dims::from_elem(0, chunks as usize), dim),
        n => unsafe_split::OP.call(&[x.into(), (n / chunks + i64::from(n % chunks != 0)).into(), dim.into()])?.list(),
    }
}
fn unsafe_split_sizes(x: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    unsafe_split_with_sizes::OP.call(&[x.into(), sizes.into(), dim.into()])?.list()
}

/// The gradient of parts along a dim.
fn joined(c: &crate::autograd::GradContext<'_>, x: &Geometry, parts: usize, dim: i64) -> Result<Tensor> {
    let parts = (0..parts).map(|i| c.grad_or_zeros(i)).collect::<Result<Vec<_>>>()?;
    if parts.is_empty() { x.zeros() } else { Tensor::cat(&parts, dim) }
}

op! {
    /// [`Tensor::split_with_sizes`] whose parts are no views to autograd: whoever writes to one must not use the others.
    unsafe_split_with_sizes: "unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        Out OUT: "unsafe_split_with_sizes.out(Tensor self, SymInt[] split_sizes, int dim=0, *, Tensor(a!)[] out) -> ()";
    Body::Explicit(kernel!(unsafe_split_with_sizes_any; x, sizes, dim));
    derivative: backward! {
        self_([c], self_: Geometry, split_sizes: Dims, dim: i64) => joined(c, &self_, split_sizes.len(), dim)?
    };
    forward: Forward::Linear;
    samples: |m| crate::samples::of(&parts::split_with_sizes::OP, m);
}
op! {
    /// [`Tensor::split`] whose parts are no views to autograd: whoever writes to one must not use the others.
    unsafe_split: "unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
        Out OUT: "unsafe_split.Tensor_out(Tensor self, SymInt split_size, int dim=0, *, Tensor(a!)[] out) -> ()";
    Body::Explicit(kernel!(unsafe_split_any; x, size, dim));
    derivative: backward! {
        self_([c], self_: Geometry, split_size: i64, dim: i64) => {
            let length = self_.sizes[wrap_dim(dim, self_.dim())?];
            joined(c, &self_, if length == 0 { 1 } else { (length as u64).div_ceil(split_size as u64) as usize }, dim)?
        }
    };
    forward: Forward::Linear;
    samples: |m| crate::samples::of(&parts::split::OP, m);
}
op! {
    /// [`Tensor::chunk`] whose parts are no views to autograd: whoever writes to one must not use the others.
    unsafe_chunk: "unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]";
    Body::Composite(kernel!(unsafe_chunk_any; x, chunks, dim));
    samples: |m| crate::samples::of(&parts::chunk::OP, m);
}

fn chunk_cat_any(tensors: &[Tensor], dim: i64, chunks: i64) -> Result<Tensor> {
    ensure!(chunks >= 1, "_chunk_cat expects positive num_chunks");
    ensure!(!tensors.is_empty(), "_chunk_cat expects a non-empty input tensor list");
    let first = &tensors[0];
    let alike = tensors.iter().all(|t| t.dim() == first.dim());
    let d = match alike {
        true => wrap_dim(dim, first.dim())?,
        false => {
            ensure!(dim >= 0, "_chunk_cat expects non-negative dim when input tensors have different ndims");
            dim as usize
        }
    };
    for t in tensors {
        ensure!(t.numel() > 0, "_chunk_cat expects non-empty tensor");
        ensure!(t.dtype() == first.dtype(), "_chunk_cat expects all input tensors with the same dtype");
        ensure!(d < t.dim(), "_chunk_cat expects dim < ndim for all input tensors");
        ensure!(t.sizes()[..d] == first.sizes()[..d], "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors");
    }
    let rows = |t: &Tensor| -> Result<Tensor> {
        let size = t.sizes()[d];
        let missing = (size as u64).div_ceil(chunks as u64) as i64 * chunks - size;
        let mut pad = vec![0; 2 * (t.dim() - d)];
        if let Some(last) = pad.last_mut() {
            *last = missing;
        }
        let padded = if missing == 0 { t.clone() } else { t.constant_pad_nd(&pad, 0)? };
        let mut shape = t.sizes()[..d].to_vec();
        shape.extend([chunks, -1]);
        padded.reshape(&shape)
    };
    Tensor::cat(&tensors.iter().map(rows).collect::<Result<Vec<_>>>()?, d as i64 + 1)
}

op! {
    /// Each tensor padded with zeros to `num_chunks` equal chunks along a dim and flattened behind it, then joined.
    chunk_cat: "_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor",
        Out OUT: "_chunk_cat.out(Tensor[] tensors, int dim, int num_chunks, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(chunk_cat_any; tensors, dim, chunks));
    samples: |m| vec![sample![vec![m.any(&[2, 3]), m.any(&[2, 2, 2])], 1, 2]];
}

// ---- turning and shuffling ------------------------------------------------------------------------

fn rot90_any(x: &Tensor, k: i64, over: &[i64]) -> Result<Tensor> {
    let n = x.dim() as i64;
    ensure!(over.len() == 2, "expected total rotation dims == 2, but got dims = {}", over.len());
    ensure!(n >= 2, "expected total dims >= 2, but got total dims = {n}");
    let (a, b) = (over[0], over[1]);
    ensure!(
        a != b && a.abs_diff(b) != n as u64,
        "expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
    );
    for (i, d) in [a, b].into_iter().enumerate() {
        ensure!((-n..n).contains(&d), "Rotation dim{i} out of range, dim{i} = {d}");
    }
    match k.rem_euclid(4) {
        1 => x.flip(&[b])?.transpose(a, b),
        2 => x.flip(over),
        3 => x.flip(&[a])?.transpose(a, b),
        _ => x.clone_in(MemoryFormat::Contiguous),
    }
}

op! {
    /// Turned by `k` right angles in the plane of two dims, from the first towards the second.
    rot90: "rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
        Out OUT: "rot90.out(Tensor self, int k=1, int[] dims=[0, 1], *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(rot90_any; x, k, over));
    derivative: backward! { self_(g, k: i64, dims: Dims) => g.rot90(k.wrapping_neg(), &dims)? };
    forward: Forward::Linear;
    samples: |m| (0..4).map(|k: i64| sample![m.any(&[2, 3]), k, vec![0i64, 1]]).collect();
    fn rot90(&self, k: i64, dims: &[i64]) -> Tensor [self, k, dims];
}

fn channel_shuffle_any(x: &Tensor, groups: i64) -> Result<Tensor> {
    ensure!(x.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes {:?}", x.sizes());
    ensure!(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:{groups}");
    let channels = x.sizes()[1];
    ensure!(
        channels % groups == 0,
        "Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
    );
    if x.numel() == 0 {
        return x.alias();
    }
    let format = x.suggested_memory_format();
    let parts = x.reshape(&[x.sizes()[0], groups, channels / groups, -1])?;
    let shuffled = parts.transpose(1, 2)?.reshape(x.sizes())?;
    if shuffled.shares_storage_with(x) { shuffled.clone_in(format) } else { shuffled.contiguous_in(format) }
}

op! {
    /// Channels in the order in which one of each group stands before the second of each: dim 1 is (groups, n) turned
    /// into (n, groups).
    channel_shuffle: "channel_shuffle(Tensor self, SymInt groups) -> Tensor",
        Out OUT: "channel_shuffle.out(Tensor self, SymInt groups, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(channel_shuffle_any; x, groups));
    samples: |m| vec![sample![m.any(&[2, 6, 2, 2]), 3]];
    fn channel_shuffle(&self, groups: i64) -> Tensor [self, groups];
}
alias! {
    /// See [`Tensor::channel_shuffle`].
    native_channel_shuffle: "native_channel_shuffle(Tensor self, SymInt groups) -> Tensor" => channel_shuffle::OP;
}

// ---- diagonals ------------------------------------------------------------------------------------

fn diagflat_any(x: &Tensor, offset: i64) -> Result<Tensor> {
    let flat = x.contiguous()?.view(&[-1])?;
    super::arrange::diag_embed::OP.call(&[(&flat).into(), offset.into(), Value::Int(-2), Value::Int(-1)])?.one()
}

op! {
    /// The matrix with all elements as its diagonal.
    diagflat: "diagflat(Tensor self, int offset=0) -> Tensor";
    Body::Composite(kernel!(diagflat_any; x, offset));
    samples: |m| vec![sample![m.any(&[2, 2]), -1]];
}

/// Fills the main diagonal of a matrix and, below each full square and one row left free, those of what follows.
fn fill_wrapped(x: &Tensor, value: Scalar) -> Result<()> {
    let (rows, columns) = (x.sizes()[0], x.sizes()[1]);
    let (whole, rest) = (rows / (columns + 1), rows % (columns + 1));
    if whole > 0 {
        let square = x.slice(0, Some(0), Some(whole * (columns + 1)), 1)?;
        let squares = square.unflatten(0, &[whole, columns + 1])?;
        squares.diagonal(0, 1, 2)?.fill_(value)?;
    }
    if rest > 0 {
        x.slice(0, Some(rows - rest), None, 1)?.diagonal(0, 0, 1)?.fill_(value)?;
    }
    Ok(())
}

fn fill_diagonal_any(x: &Tensor, value: Scalar, wrap: bool) -> Result<Tensor> {
    ensure!(x.dim() >= 2, "dimensions must larger than 1");
    let (rows, columns) = (x.sizes()[0], x.sizes()[1]);
    if x.dim() > 2 {
        ensure!(x.sizes().iter().all(|s| *s == rows), "all dimensions of input must be of equal length");
        let mut diagonal = x.clone();
        while diagonal.dim() > 1 {
            diagonal = diagonal.diagonal(0, 0, 1)?;
        }
        diagonal.fill_(value)?;
    } else if wrap && rows > columns + 1 {
        fill_wrapped(x, value)?;
    } else {
        x.diagonal(0, 0, 1)?.fill_(value)?;
    }
    Ok(x.clone())
}

op! {
    /// Writes one value to the main diagonal; with `wrap`, a tall matrix has one again below each full square.
    fill_diagonal_: "fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)";
    Body::Composite(kernel!(fill_diagonal_any; x, value, wrap));
    samples: |m| vec![sample![m.any(&[3, 4]), Scalar::Int(2), false], sample![m.any(&[8, 2]), Scalar::Int(2), true], sample![m.any(&[3, 3, 3]), Scalar::Int(2), false]];
    fn fill_diagonal_(&self, fill_value: impl Into<Scalar>, wrap: bool) -> Tensor [self, fill_value.into(), wrap];
}

// ---- signs kept aside -----------------------------------------------------------------------------

fn resolve_neg_any(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

op! {
    /// This tensor: negation is always carried out.
    resolve_neg: "resolve_neg(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(resolve_neg_any; x));
    samples: |m| vec![sample![m.any(&[2, 3])]];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    channel_shuffle::ALL,
    chunk_cat::ALL,
    diagflat::ALL,
    dsplit::ALL,
    dsplit_at::ALL,
    fill_diagonal_::ALL,
    hsplit::ALL,
    hsplit_at::ALL,
    native_channel_shuffle::ALL,
    resolve_neg::ALL,
    rot90::ALL,
    split_at::ALL,
    split_by::ALL,
    tensor_split::ALL,
    unsafe_chunk::ALL,
    unsafe_split::ALL,
    unsafe_split_with_sizes::ALL,
    vsplit::ALL,
    vsplit_at::ALL,
];
