//! What operators on matrices share: checks in PyTorch's words, results in column-major order, and kernels that are given
//! one matrix of a batch after the other.

use crate::dims::{self, Dims};
use crate::{DType, Device, Element, Error, ErrorKind, Result, Tensor, TensorSpec, ensure};
use flambeau_base::storage::LockSet;
use smallvec::SmallVec;

/// Runs an expression with the Rust type of a dtype that matrices are factorized in.
macro_rules! field {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        flambeau_base::dispatch!($dtype, $T in [reals, complexes] => $body;
            else return Err($crate::Error::not_implemented(format!(
                "\"{}\" not implemented for '{}'", $op, $dtype.scalar_type_name()))))
    };
}
pub(super) use field;

// ---- checks -------------------------------------------------------------------------------------

/// At least two dims.
pub(super) fn check_matrix(op: &str, name: &str, x: &Tensor) -> Result<()> {
    ensure!(x.dim() >= 2, "{op}: The input tensor {name} must have at least 2 dimensions.");
    Ok(())
}

/// Floating-point or complex numbers, of any precision.
pub(super) fn check_floating(op: &str, x: &Tensor) -> Result<()> {
    ensure!(
        x.dtype().is_differentiable(),
        "{op}: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().scalar_type_name()
    );
    Ok(())
}

/// Whether numbers are of single or double precision, which the algorithms are for.
pub(super) fn is_precise(dtype: DType) -> bool {
    dtype.is_differentiable() && !matches!(dtype, DType::F16 | DType::BF16)
}

/// Single or double precision, asked for in the operator's name.
pub(super) fn check_precision(op: &str, x: &Tensor) -> Result<()> {
    check_floating(op, x)?;
    ensure!(is_precise(x.dtype()), "{op}: Low precision dtypes not supported. Got {}", x.dtype().scalar_type_name());
    Ok(())
}

/// Single or double precision, asked for in the name of PyTorch's kernel.
pub(super) fn check_kernel(kernel: &str, x: &Tensor) -> Result<()> {
    if is_precise(x.dtype()) { Ok(()) } else { Err(super::reduce::not_for(kernel, x.dtype())) }
}

/// Square matrices.
pub(super) fn check_square(op: &str, name: &str, x: &Tensor) -> Result<()> {
    check_matrix(op, name, x)?;
    let (m, n) = shape(x);
    ensure!(m == n, "{op}: {name} must be batches of square matrices, but they are {m} by {n} matrices");
    Ok(())
}

/// Square matrices in single or double precision.
pub(super) fn check_square_field(op: &str, name: &str, x: &Tensor) -> Result<()> {
    check_square(op, name, x)?;
    check_precision(op, x)
}

/// The same dtype and kind of device.
pub(super) fn check_alike(op: &str, a: (&str, &Tensor), b: (&str, &Tensor)) -> Result<()> {
    crate::dispatch::check_same_device(a.1, b.1.device())?;
    ensure!(
        a.1.dtype() == b.1.dtype(),
        "{op}: Expected {} and {} to have the same dtype, but found {} of type {} and {} of type {} instead",
        a.0,
        b.0,
        a.0,
        a.1.dtype().scalar_type_name(),
        b.0,
        b.1.dtype().scalar_type_name()
    );
    Ok(())
}

/// Raises what a factorization's `info` says, naming the first matrix of a batch that failed.
pub(super) fn check_info(op: &str, info: &Tensor, kind: ErrorKind, says: impl Fn(i32) -> String) -> Result<()> {
    if info.device().is_meta() {
        return Ok(());
    }
    let info_values = info.to_vec::<i32>()?;
    let Some(at) = info_values.iter().position(|i| *i != 0) else { return Ok(()) };
    let place = if info.dim() == 0 { String::new() } else { format!("(Batch element {at}): ") };
    Err(Error::new(kind, format!("{op}: {place}{}", says(info_values[at]))))
}

// ---- geometry -----------------------------------------------------------------------------------

/// Rows and columns.
pub(super) fn shape(x: &Tensor) -> (i64, i64) {
    let n = x.dim();
    (x.sizes()[n - 2], x.sizes()[n - 1])
}

/// The dims before the last two.
pub(super) fn batch(x: &Tensor) -> &[i64] {
    &x.sizes()[..x.dim() - 2]
}

/// Batch dims and those of one item.
pub(super) fn sizes_of(batch: &[i64], item: &[i64]) -> Dims {
    batch.iter().chain(item).copied().collect()
}

/// The strides of matrices of which each is in column-major order.
pub(super) fn column_strides(sizes: &[i64]) -> Dims {
    let n = sizes.len();
    let mut strides = dims::contiguous_strides(sizes);
    if n >= 2 {
        strides[n - 2] = 1;
        strides[n - 1] = sizes[n - 2].max(1);
    }
    strides
}

/// A result of column-major matrices.
pub(super) fn columns(batch: &[i64], item: &[i64], dtype: DType, device: Device) -> TensorSpec {
    let sizes = sizes_of(batch, item);
    let strides = column_strides(&sizes);
    TensorSpec::new(sizes, dtype, device).strided(strides)
}

/// A copy in column-major order, its batch dims broadcast to `sizes`.
pub(super) fn column_copy(x: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let copy = Tensor::fresh_strided(x.device(), x.dtype(), Dims::from_slice(sizes), column_strides(sizes))?;
    copy.copy_(&x.expand(sizes)?)
}

/// The same with the rows first.
pub(super) fn row_copy(x: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    x.expand(sizes)?.contiguous()
}

/// Matrices to read in column-major order: themselves where they lie so.
pub(super) fn column_major(x: &Tensor) -> Result<Tensor> {
    match dims::same_strides(x.sizes(), x.strides(), &column_strides(x.sizes())) {
        true => Ok(x.clone()),
        false => column_copy(x, x.sizes()),
    }
}

/// Where a kernel writes matrices: the output itself if it is in column-major order.
pub(super) fn column_target(out: &Tensor) -> Result<Tensor> {
    let strides = column_strides(out.sizes());
    if dims::same_strides(out.sizes(), out.strides(), &strides) {
        return Ok(out.clone());
    }
    Tensor::fresh_strided(out.device(), out.dtype(), Dims::from_slice(out.sizes()), strides)
}

/// Where a kernel writes vectors: the output itself if it is in row-major order.
pub(super) fn row_target(out: &Tensor) -> Result<Tensor> {
    if out.is_contiguous() {
        return Ok(out.clone());
    }
    Tensor::fresh(out.device(), out.dtype(), Dims::from_slice(out.sizes()))
}

/// Brings what a kernel wrote to the output.
pub(super) fn deliver(out: &Tensor, target: &Tensor) -> Result<()> {
    if !out.is_same(target) {
        out.copy_(target)?;
    }
    Ok(())
}

// ---- kernels ------------------------------------------------------------------------------------

/// One item of each tensor of a batch.
pub(super) struct Items<'a> {
    parts: SmallVec<[Part; 6]>,
    _locked: std::marker::PhantomData<&'a ()>,
}

#[derive(Clone, Copy)]
struct Part {
    start: *mut u8,
    elements: usize,
    dtype: DType,
    writable: bool,
}

// SAFETY: the pieces of work that get one see different items of the tensors that are written.
unsafe impl Sync for Part {}
// SAFETY: as above; it is an address.
unsafe impl Send for Part {}

impl<'a> Items<'a> {
    /// The elements of an item that is read.
    pub fn read<T: Element>(&self, i: usize) -> &'a [T] {
        let part = self.parts[i];
        assert!(part.dtype == T::DTYPE && !part.writable, "item {i} is not read as this");
        if part.elements == 0 {
            return &[];
        }
        // SAFETY: `elements` of this type lie there, locked for reading while `'a` lasts.
        unsafe { std::slice::from_raw_parts(part.start.cast::<T>(), part.elements) }
    }

    /// The elements of an item that is written; it can be had once.
    pub fn write<T: Element>(&mut self, i: usize) -> &'a mut [T] {
        let part = &mut self.parts[i];
        assert!(part.dtype == T::DTYPE && part.writable, "item {i} is not written as this");
        part.writable = false;
        let elements = std::mem::take(&mut part.elements);
        if elements == 0 {
            return &mut [];
        }
        // SAFETY: `elements` of this type lie there, locked for writing while `'a` lasts; from now on the part is empty, and
        // no other item has them: `for_each` checks that tensors that are written have no overlaps.
        unsafe { std::slice::from_raw_parts_mut(part.start.cast::<T>(), elements) }
    }
}

/// Calls `f` for each of `count` items of the tensors, of which the first `written` are written. All must have their items
/// one after the other without gaps. Items are shared out over threads if `cost`, about the operations of one, is worth
/// it.
pub(super) fn for_each(
    count: i64,
    cost: f64,
    written: usize,
    tensors: &[&Tensor],
    f: impl Fn(&mut Items<'_>) + Sync,
) -> Result<()> {
    for_each_item(count, cost, written, tensors, &f)
}

/// [`for_each`], compiled once.
fn for_each_item(
    count: i64,
    cost: f64,
    written: usize,
    tensors: &[&Tensor],
    f: &(dyn Fn(&mut Items<'_>) + Sync),
) -> Result<()> {
    let count = count as usize;
    if count == 0 {
        return Ok(());
    }
    let mut whole: SmallVec<[Part; 6]> = SmallVec::new();
    for (i, t) in tensors.iter().enumerate() {
        ensure!(t.is_non_overlapping_and_dense() || t.numel() == 0, "a batch for a kernel must have no gaps");
        let shared = (0..i.min(written)).chain(if i < written { i + 1..tensors.len() } else { 0..0 });
        for other in shared {
            ensure!(!t.shares_storage_with(tensors[other]), "what a kernel writes must share no memory");
        }
        let elements = t.numel() as usize / count;
        whole.push(Part { start: t.data_ptr(), elements, dtype: t.dtype(), writable: i < written });
    }
    let _locks = LockSet::new(tensors.iter().enumerate().map(|(i, t)| (t.storage(), i < written)))?;
    let grain = (100_000.0 / cost.max(1.0)).ceil() as usize;
    flambeau_base::parallel::parallel_for(count, grain, &|range| {
        for at in range {
            let item = |p: &Part| Part { start: p.start.wrapping_add(at * p.elements * p.dtype.size()), ..*p };
            f(&mut Items { parts: whole.iter().map(item).collect(), _locked: std::marker::PhantomData });
        }
    });
    Ok(())
}

/// `x` below (and on) the diagonal, with half of the diagonal.
pub(super) fn lower_half(x: &Tensor) -> Result<Tensor> {
    x.tril(-1)?.add(&diagonal_of(x)?.mul(0.5)?)
}

/// The diagonals as matrices.
pub(super) fn diagonal_of(x: &Tensor) -> Result<Tensor> {
    x.tril(0)?.triu(0)
}

/// Identity matrices of order `n` like the elements of `like`.
pub(super) fn identity(n: i64, like: &Tensor) -> Result<Tensor> {
    Tensor::eye(n, n, (like.dtype(), like.device()))
}
