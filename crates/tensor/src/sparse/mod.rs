//! Layouts that are not strided: coordinate lists (COO) and compressed rows (CSR).
//!
//! Such a tensor has a [`Suffix`]: the strided tensors that it is made of. Its dispatch key is its layout's, not its
//! device's, so that no kernel for strided memory ever sees it; the kernels for that key stand in the files of this folder
//! as tables of operators, and are themselves expressions over strided tensors, on whatever device those are. Operators
//! without one answer with an error, unless they are composites of others.

mod elementwise;
mod product;
mod shape;
mod softmax;

pub(crate) use product::{product_gradient, sampled};
pub(crate) use shape::spread;
pub(crate) use softmax::{softmax, softmax_backward};

use crate::dispatch::split_arguments;
use crate::keys::{Key, KeySet};
use crate::op::{Body, Form, KernelFn, Op};
use crate::value::{Outputs, Value};
use crate::{DType, Dims, Error, Layout, Result, Tensor, ensure};
use parking_lot::Mutex;

/// What a tensor of another layout than strided is made of. Writing to it replaces the parts, never their elements.
pub(crate) struct Suffix {
    layout: Layout,
    parts: Mutex<Parts>,
}

impl Suffix {
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn key(&self) -> Key {
        match self.layout {
            Layout::SparseCsr => Key::SPARSE_CSR,
            _ => Key::SPARSE,
        }
    }
}

#[derive(Clone)]
enum Parts {
    Coo(Coo),
    Csr(Csr),
}

/// Coordinates and what stands there; where coordinates repeat, their values add up.
#[derive(Clone)]
pub(crate) struct Coo {
    /// (sparse dims, entries), of `i64`.
    pub indices: Tensor,
    /// (entries, sizes of the dense dims...).
    pub values: Tensor,
    /// Whether the coordinates are in order, and none repeats.
    pub coalesced: bool,
}

/// Rows one after the other: where each begins, and the column and value of each entry.
#[derive(Clone)]
pub(crate) struct Csr {
    /// (rows + 1).
    pub rows: Tensor,
    /// (entries).
    pub columns: Tensor,
    /// (entries).
    pub values: Tensor,
}

impl Coo {
    /// How many dims the coordinates have.
    pub fn sparse_dim(&self) -> usize {
        self.indices.sizes()[0] as usize
    }
    /// How many entries there are.
    pub fn entries(&self) -> i64 {
        self.values.sizes()[0]
    }
    /// The same coordinates with other values.
    pub fn with_values(&self, values: Tensor) -> Coo {
        Coo { indices: self.indices.clone(), values, coalesced: self.coalesced }
    }
    /// The coordinates along one sparse dim.
    pub fn along(&self, dim: usize) -> Result<Tensor> {
        self.indices.select(0, dim as i64)
    }
    /// The place of each entry in row-major order of the sparse dims of `sizes`.
    pub fn places(&self, sizes: &[i64]) -> Result<Tensor> {
        flatten(&self.indices, &sizes[..self.sparse_dim()])
    }
}

/// The row-major places of coordinates (dims, entries) in a tensor of `sizes`.
pub(crate) fn flatten(indices: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if sizes.len() == 1 {
        return indices.select(0, 0);
    }
    let strides = crate::dims::contiguous_strides(sizes);
    let strides = Tensor::from_slice(&strides)?.to_device(indices.device())?.unsqueeze(1)?;
    indices.mul(&strides)?.sum_dim(&[0], false)
}

/// The coordinates of row-major places.
fn unflatten(places: &[i64], sizes: &[i64]) -> Vec<i64> {
    let strides = crate::dims::contiguous_strides(sizes);
    let along = |(&stride, &size): (&i64, &i64)| places.iter().map(move |p| p / stride.max(1) % size.max(1));
    strides.iter().zip(sizes).flat_map(along).collect()
}

/// The kernel that the tables of this folder have for an operator.
pub(crate) fn own_kernel(op: &'static Op) -> Option<KernelFn> {
    let tables = [elementwise::TABLE, shape::TABLE, product::TABLE];
    tables.into_iter().flatten().find(|(o, _)| std::ptr::eq(*o, op)).map(|(_, kernel)| *kernel)
}

/// The kernel of an operator for a layout's key.
pub(crate) fn kernel(op: &'static Op, key: Key) -> Option<KernelFn> {
    if let Some(kernel) = own_kernel(op) {
        return Some(kernel);
    }
    match op.body {
        Body::Composite(kernel) | Body::Explicit(kernel) => Some(kernel),
        Body::Variant(Form::Overload, base) => base.resolve(key),
        Body::Variant(_, base) | Body::InPlace(_, base) => base.resolve(key).map(|_| written as KernelFn),
        _ => None,
    }
}

/// The in-place and `out=` forms: the functional one, whose parts take the place of the target's.
fn written(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let form = match op.body {
        Body::Variant(form, _) => form,
        _ => Form::InPlace,
    };
    let (inputs, targets) = split_arguments(op, form, args)?;
    let [target] = targets[..] else {
        return Err(Error::runtime(format!("{}: sparse tensors cannot be written here", op.full_name())));
    };
    if form == Form::InPlace && elementwise::needs_coalesced(op.functional()) {
        ensure!(coo(target)?.coalesced, "{} requires coalesced input", op.name());
    }
    let result = op.functional().run_next(keys, inputs)?.one()?;
    write(op, form, target, result).map(Outputs::One)
}

fn write(op: &'static Op, form: Form, target: &Tensor, result: Tensor) -> Result<Tensor> {
    ensure!(
        result.dtype().can_cast(target.dtype()),
        "result type {} can't be cast to the desired output type {}",
        result.dtype().scalar_type_name(),
        target.dtype().scalar_type_name()
    );
    if target.is_strided() {
        let target = match form {
            Form::Out if target.sizes() != result.sizes() => {
                crate::dispatch::resize_output(target, result.sizes(), None)?
            }
            _ => target.clone(),
        };
        return target.copy_(&result.to_dense()?);
    }
    let result = result.to_dtype(target.dtype())?;
    if form == Form::Out && (target.sizes() != result.sizes() || target.layout() != result.layout()) {
        return Ok(result);
    }
    ensure!(
        target.sizes() == result.sizes(),
        "{}: output with shape {:?} doesn't match the result's shape {:?}",
        op.name(),
        target.sizes(),
        result.sizes()
    );
    replace(target, &result)?;
    Ok(target.clone())
}

/// Gives a tensor the parts of another of its sizes, dtype and layout.
pub(crate) fn replace(target: &Tensor, source: &Tensor) -> Result<()> {
    match (&target.0.suffix, &source.0.suffix) {
        (Some(to), Some(from)) if to.layout == from.layout => {
            let parts = from.parts.lock().clone();
            let _old = std::mem::replace(&mut *to.parts.lock(), parts);
            Ok(())
        }
        _ => Err(mixed_copy(target, source)),
    }
}

/// That a copy would change the layout.
pub(crate) fn mixed_copy(target: &Tensor, source: &Tensor) -> Error {
    Error::runtime(format!(
        "copy_() between dense and sparse Tensors is not implemented! Found self type = {} and src type = {}",
        type_name(target),
        type_name(source)
    ))
}

/// PyTorch's name of a tensor's type.
pub(crate) fn type_name(t: &Tensor) -> String {
    let prefix = if t.is_strided() { "torch" } else { "torch.sparse" };
    format!("{prefix}.{}Tensor", t.dtype().scalar_type_name())
}

/// A layout in messages.
pub(crate) fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::SparseCoo => "Sparse",
        Layout::SparseCsr => "SparseCsr",
        _ => "Strided",
    }
}

/// A tensor of these sizes with these coordinates and values, which are known to fit.
pub(crate) fn from_coo(sizes: &[i64], coo: Coo) -> Result<Tensor> {
    let (device, dtype) = (coo.values.device(), coo.values.dtype());
    let cut = |t: &Tensor| t.shallow_detached(true);
    let coo = Coo { indices: cut(&coo.indices), values: cut(&coo.values), coalesced: coo.coalesced };
    let suffix = Suffix { layout: Layout::SparseCoo, parts: Mutex::new(Parts::Coo(coo)) };
    Tensor::with_suffix(device, dtype, Dims::from_slice(sizes), suffix)
}

/// A matrix of these sizes in compressed rows, which are known to fit.
pub(crate) fn from_csr(sizes: &[i64], csr: Csr) -> Result<Tensor> {
    let (device, dtype) = (csr.values.device(), csr.values.dtype());
    let cut = |t: &Tensor| t.shallow_detached(true);
    let csr = Csr { rows: cut(&csr.rows), columns: cut(&csr.columns), values: cut(&csr.values) };
    let suffix = Suffix { layout: Layout::SparseCsr, parts: Mutex::new(Parts::Csr(csr)) };
    Tensor::with_suffix(device, dtype, Dims::from_slice(sizes), suffix)
}

/// No entries: zeros of these sizes.
pub(crate) fn empty(
    layout: Layout,
    sizes: &[i64],
    sparse_dim: usize,
    dtype: DType,
    device: crate::Device,
) -> Result<Tensor> {
    crate::dims::checked_numel(sizes)?;
    let index = |sizes: &[i64]| Tensor::zeros(sizes, (DType::I64, device));
    if layout == Layout::SparseCsr {
        ensure!(sizes.len() == 2, "torch.empty: Only batched sparse compressed (non-block) tensors are supported");
        let values = Tensor::zeros(&[0], (dtype, device))?;
        return from_csr(sizes, Csr { rows: index(&[sizes[0] + 1])?, columns: index(&[0])?, values });
    }
    let mut shape = Dims::from_slice(&[0]);
    shape.extend_from_slice(&sizes[sparse_dim..]);
    let values = Tensor::zeros(&shape, (dtype, device))?;
    from_coo(sizes, Coo { indices: index(&[sparse_dim as i64, 0])?, values, coalesced: true })
}

/// The parts of a tensor of coordinates; those of compressed rows are written out.
pub(crate) fn coo(x: &Tensor) -> Result<Coo> {
    match parts(x)? {
        Parts::Coo(coo) => Ok(coo),
        Parts::Csr(csr) => {
            let columns = csr.columns.to_dtype(DType::I64)?;
            let indices = Tensor::stack(&[row_of_each(&csr)?, columns], 0)?;
            // In the order that the checks ask for.
            Ok(Coo { indices, values: csr.values, coalesced: true })
        }
    }
}

/// The parts of compressed rows.
pub(crate) fn csr(x: &Tensor) -> Result<Csr> {
    match parts(x)? {
        Parts::Csr(csr) => Ok(csr),
        Parts::Coo(_) => Err(Error::runtime("expected a tensor in compressed rows")),
    }
}

fn parts(x: &Tensor) -> Result<Parts> {
    match &x.0.suffix {
        Some(suffix) => Ok(suffix.parts.lock().clone()),
        None => Err(Error::runtime(format!("expected a sparse tensor, but got one of layout {}", x.layout()))),
    }
}

/// The row of each entry.
fn row_of_each(csr: &Csr) -> Result<Tensor> {
    let rows = csr.rows.to_dtype(DType::I64)?;
    let count = rows.sizes()[0] - 1;
    let lengths = rows.narrow(0, 1, count)?.sub(&rows.narrow(0, 0, count)?)?;
    let numbers = Tensor::arange(count, DType::I64)?.to_device(rows.device())?;
    numbers.repeat_interleave(&lengths, None)
}

/// A matrix of coordinates in compressed rows, with indices of a dtype.
pub(crate) fn compressed(x: &Tensor, index: DType) -> Result<Tensor> {
    ensure!(
        x.dim() == 2,
        "Only tensors with two dimensions can be converted to the SparseCsr layout but got {} dimensions",
        x.dim()
    );
    if x.layout() == Layout::SparseCsr {
        return Ok(x.clone());
    }
    let sizes = x.sizes();
    let x = coo(&coalesced(x)?)?;
    ensure!(x.sparse_dim() == 2, "to_sparse_csr: a tensor with dense dims cannot be converted");
    let mut ends = vec![0i64; sizes[0] as usize + 1];
    for row in x.along(0)?.to_vec::<i64>()? {
        let end = usize::try_from(row + 1).ok().and_then(|i| ends.get_mut(i));
        *end.ok_or_else(|| Error::index(format!("row {row} is out of range for a matrix of {} rows", sizes[0])))? += 1;
    }
    for i in 1..ends.len() {
        ends[i] += ends[i - 1];
    }
    let rows = Tensor::from_slice(&ends)?.to_options(Some(index), Some(x.indices.device()))?;
    let columns = x.along(1)?.to_dtype(index)?.contiguous()?;
    from_csr(sizes, Csr { rows, columns, values: x.values })
}

/// The same pattern with other values.
pub(crate) fn with_values(x: &Tensor, values: Tensor) -> Result<Tensor> {
    match parts(x)? {
        Parts::Coo(coo) => from_coo(x.sizes(), coo.with_values(values)),
        Parts::Csr(csr) => from_csr(x.sizes(), Csr { values, ..csr }),
    }
}

/// The values of the entries, as they are stored.
pub(crate) fn stored_values(x: &Tensor) -> Result<Tensor> {
    Ok(match parts(x)? {
        Parts::Coo(coo) => coo.values,
        Parts::Csr(csr) => csr.values,
    })
}

/// The tensor with its coordinates in order and none repeated; itself if they are.
pub(crate) fn coalesced(x: &Tensor) -> Result<Tensor> {
    let parts = coo(x)?;
    if parts.coalesced || x.layout() == Layout::SparseCsr {
        return Ok(x.clone());
    }
    if parts.entries() < 2 {
        return from_coo(x.sizes(), Coo { coalesced: true, ..parts });
    }
    let sizes = &x.sizes()[..parts.sparse_dim()];
    let places = parts.places(x.sizes())?.to_vec::<i64>()?;
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|&i| places[i]);
    let (mut unique, mut group) = (Vec::new(), vec![0i64; places.len()]);
    for i in order {
        if unique.last() != Some(&places[i]) {
            unique.push(places[i]);
        }
        group[i] = unique.len() as i64 - 1;
    }
    let device = x.device();
    let indices = Tensor::from_slice_of(&unflatten(&unique, sizes), &[sizes.len() as i64, unique.len() as i64])?;
    let group = Tensor::from_slice(&group)?.to_device(device)?;
    let values = added_up(unique.len() as i64, &group, &parts.values)?;
    from_coo(x.sizes(), Coo { indices: indices.to_device(device)?, values, coalesced: true })
}

/// The sums of the values (entries, ...) that go to each of `count` places, in their order.
pub(crate) fn added_up(count: i64, places: &Tensor, values: &Tensor) -> Result<Tensor> {
    let mut shape = Dims::from_slice(values.sizes());
    shape[0] = count;
    if values.dtype() == DType::Bool {
        return added_up(count, places, &values.to_dtype(DType::U8)?.ne(0)?.to_dtype(DType::I32)?)?.ne(0);
    }
    Tensor::zeros(&shape, (values.dtype(), values.device()))?.index_add_(0, places, values)
}

/// For what takes tensors apart unrecorded: refuses where somebody would differentiate the result.
pub(crate) fn first_order(op: &str, inputs: &[&Tensor]) -> Result<()> {
    ensure!(
        !crate::autograd::is_grad_enabled() || !inputs.iter().any(|t| t.requires_grad()),
        "{op}: this derivative is not implemented for sparse tensors"
    );
    Ok(())
}

/// The strided tensor.
pub(crate) fn dense(x: &Tensor) -> Result<Tensor> {
    let parts = coo(x)?;
    let n: i64 = x.sizes()[..parts.sparse_dim()].iter().product();
    added_up(n, &parts.places(x.sizes())?, &parts.values)?.view(x.sizes())
}

/// The entries of a strided tensor that are not zero, by coordinates in its first dims.
pub(crate) fn sparse(x: &Tensor, sparse_dim: usize) -> Result<Tensor> {
    let mut found = x.ne(0)?;
    if sparse_dim < x.dim() {
        let rest: Dims = (sparse_dim..x.dim()).map(|d| d as i64).collect();
        found = found.sum_dim(&rest, false)?.ne(0)?;
    }
    let indices = found.nonzero()?.t()?.contiguous()?;
    let values = at_places(x, &indices)?;
    from_coo(x.sizes(), Coo { indices, values, coalesced: true })
}

/// What stands in a tensor, strided or sparse, at coordinates in its first dims: (entries, the other sizes...).
pub(crate) fn at_places(x: &Tensor, indices: &Tensor) -> Result<Tensor> {
    let d = indices.sizes()[0] as usize;
    let places = flatten(indices, &x.sizes()[..d])?;
    if x.is_strided() {
        let mut shape = Dims::from_slice(&[x.sizes()[..d].iter().product()]);
        shape.extend_from_slice(&x.sizes()[d..]);
        return x.reshape(&shape)?.index_select(0, &places);
    }
    let parts = coo(&coalesced(x)?)?;
    ensure!(parts.sparse_dim() == d, "sparse tensors of {} and {d} sparse dims do not go together", parts.sparse_dim());
    let (which, found) = lookup(&parts.places(x.sizes())?, &places)?;
    if parts.entries() == 0 {
        let mut shape = Dims::from_slice(parts.values.sizes());
        shape[0] = places.numel();
        return Tensor::zeros(&shape, (x.dtype(), x.device()));
    }
    let picked = parts.values.index_select(0, &which)?;
    let mut shape = Dims::from_elem(1, picked.dim());
    shape[0] = -1;
    found.view(&shape)?.where_(&picked, &picked.zeros_like()?)
}

/// Where each of `wanted` stands among sorted places (0 if nowhere), and whether it does.
pub(crate) fn lookup(places: &Tensor, wanted: &Tensor) -> Result<(Tensor, Tensor)> {
    let n = places.numel();
    if n == 0 {
        return Ok((wanted.zeros_like()?, wanted.zeros_like()?.to_dtype(DType::Bool)?));
    }
    let at = places.searchsorted(wanted, false)?.clamp_max(n - 1)?;
    let found = places.index_select(0, &at)?.eq(wanted)?;
    Ok((at, found))
}
