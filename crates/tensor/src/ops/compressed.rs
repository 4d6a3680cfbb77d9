//! Matrices in compressed rows, and the operators of `torch.sparse`.

use crate::autograd::Geometry;
use crate::sparse::{self, Csr, layout_name};
use crate::{Body, DType, Device, Dims, Error, Layout, Op, Result, Scalar, Tensor, Value, backward, ensure};

const ONE: Scalar = Scalar::Int(1);

// ---- compressed rows ----------------------------------------------------------------------------

fn check_parts(rows: &Tensor, columns: &Tensor, values: &Tensor, size: &[i64]) -> Result<()> {
    ensure!(
        rows.is_strided() && columns.is_strided() && values.is_strided(),
        "expected crow_indices, col_indices and values to be strided tensors"
    );
    ensure!(
        size.len() == 2 && rows.dim() == 1 && columns.dim() == 1 && values.dim() == 1,
        "sparse compressed tensors with batch or dense dims are not supported: got crow_indices of shape {:?}, col_indices \
         of shape {:?}, values of shape {:?} and size {size:?}",
        rows.sizes(),
        columns.sizes(),
        values.sizes()
    );
    ensure!(
        rows.dtype() == columns.dtype(),
        "crow_indices and col_indices must have the same dtype, but got {} and {}",
        rows.dtype().scalar_type_name(),
        columns.dtype().scalar_type_name()
    );
    ensure!(
        matches!(rows.dtype(), DType::I32 | DType::I64),
        "crow_indices and col_indices must be an int32 or int64 type, but got {}",
        rows.dtype().scalar_type_name()
    );
    ensure!(
        rows.numel() == size[0] + 1,
        "crow_indices.shape[-1] must be equal to the number of rows + 1 (={}), but got {}",
        size[0] + 1,
        rows.numel()
    );
    ensure!(
        columns.numel() == values.numel(),
        "col_indices.shape[-1] must be equal to nnz (={}) as defined by values.shape[0], but got {}",
        values.numel(),
        columns.numel()
    );
    crate::dims::checked_numel(size).map(drop)
}

/// That the rows follow each other, and that columns are within `size`, in order within each row.
fn check_indices(rows: &Tensor, columns: &Tensor, size: &[i64], ordered: bool) -> Result<()> {
    let (ends, columns) = (rows.to_vec::<i64>()?, columns.to_vec::<i64>()?);
    ensure!(ends.first() == Some(&0), "`crow_indices[..., 0] == 0` is not satisfied.");
    ensure!(ends.last() == Some(&(columns.len() as i64)), "`crow_indices[..., -1] == nnz` is not satisfied.");
    ensure!(
        ends.windows(2).all(|w| w[0] <= w[1] && w[1] - w[0] <= size[1].max(columns.len() as i64)),
        "`0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied."
    );
    ensure!(columns.iter().all(|&c| 0 <= c && c < size[1]), "`0 <= col_indices < ncols` is not satisfied.");
    let sorted = |w: &[i64]| columns[w[0] as usize..w[1] as usize].windows(2).all(|c| c[0] < c[1]);
    ensure!(
        !ordered || ends.windows(2).all(sorted),
        "`col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all i = 1, ..., nrows are sorted and distinct \
         along the last dimension values` is not satisfied."
    );
    Ok(())
}

fn validate_any(rows: &Tensor, columns: &Tensor, values: &Tensor, size: &[i64], _pinning: Option<bool>) -> Result<()> {
    check_parts(rows, columns, values, size)?;
    check_indices(rows, columns, size, true)
}

op! {
    /// Fails unless the parts of a matrix in compressed rows fit each other.
    validate_rows: "_validate_sparse_csr_tensor_args(Tensor crow_indices, Tensor col_indices, Tensor values, int[] size, bool? check_pinning=None) -> ()";
    Body::Explicit(kernel!(validate_any; rows, columns, values, size, pinning));
}

fn only_rows(layout: Option<Layout>) -> Result<()> {
    match layout {
        None | Some(Layout::SparseCsr) => Ok(()),
        Some(layout) => Err(Error::runtime(format!("expected layout torch.sparse_csr, got {layout}"))),
    }
}

fn unsafe_any(
    rows: &Tensor,
    columns: &Tensor,
    values: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    only_rows(layout)?;
    check_parts(rows, columns, values, size)?;
    // Kernels rely on what the rows say.
    if !rows.device().is_meta() {
        check_ends(rows, values.numel())?;
    }
    let on = |t: &Tensor, dtype| t.to_options(dtype, device);
    let csr = Csr { rows: on(rows, None)?, columns: on(columns, None)?, values: on(values, dtype)? };
    sparse::from_csr(size, csr)
}

fn check_ends(rows: &Tensor, entries: i64) -> Result<()> {
    let ends = rows.to_vec::<i64>()?;
    ensure!(ends.first() == Some(&0), "`crow_indices[..., 0] == 0` is not satisfied.");
    ensure!(ends.last() == Some(&entries), "`crow_indices[..., -1] == nnz` is not satisfied.");
    ensure!(
        ends.windows(2).all(|w| w[0] <= w[1]),
        "`0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied."
    );
    Ok(())
}

/// What a gradient says of the values of compressed rows.
fn values_gradient(g: &Tensor, rows: &Tensor, columns: &Tensor, size: &[i64]) -> Result<Tensor> {
    if !g.is_strided() {
        sparse::first_order("sparse_csr_tensor", &[g])?;
    }
    if g.layout() == Layout::SparseCsr && sparse::csr(g)?.columns.numel() == columns.numel() {
        return sparse::stored_values(g);
    }
    let zeros = Tensor::zeros(&[columns.numel()], (g.dtype(), g.device()))?;
    let pattern = sparse::from_csr(size, Csr { rows: rows.clone(), columns: columns.clone(), values: zeros })?;
    sparse::at_places(g, &sparse::coo(&pattern)?.indices)
}

op! {
    /// A matrix in compressed rows, without a look at whether columns are in order and within `size`.
    csr_unsafe: "_sparse_compressed_tensor_unsafe(Tensor compressed_indices, Tensor plain_indices, Tensor values, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Explicit(kernel!(unsafe_any; rows, columns, values, size, dtype, layout, device, pin_memory));
    derivative: backward! {
        values(g, compressed_indices: Tensor, plain_indices: Tensor, size: Dims) =>
            values_gradient(g, &compressed_indices, &plain_indices, &size)?
    };
}

/// The call with a size, which is inferred if it is not among the arguments.
fn make(op: &'static Op, args: &[Value<'_>], with_size: bool) -> Result<crate::Outputs> {
    let [rows, columns, values]: [&Tensor; 3] =
        [crate::value::take(op, args, 0)?, crate::value::take(op, args, 1)?, crate::value::take(op, args, 2)?];
    let size = if with_size {
        Dims::from_slice(crate::value::take(op, args, 3)?)
    } else {
        let widest = if columns.numel() == 0 { 0 } else { columns.max()?.item()?.to_i64() + 1 };
        Dims::from_slice(&[rows.numel() - 1, widest])
    };
    let mut all = vec![rows.into(), columns.into(), values.into(), (&size).into()];
    all.extend(args.iter().skip(if with_size { 4 } else { 3 }).copied());
    csr_unsafe::OP.call(&all)
}

op! {
    /// A matrix in compressed rows: where each row begins (rows + 1), and the column and value of each entry.
    csr_sized: "sparse_csr_tensor.crow_col_value_size(Tensor crow_indices, Tensor col_indices, Tensor values, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor";
    Body::Composite(|op, _keys, args| make(op, args, true));
}
op! {
    /// A matrix in compressed rows, as wide as its columns need.
    csr_inferred: "sparse_csr_tensor.crow_col_value(Tensor crow_indices, Tensor col_indices, Tensor values, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor";
    Body::Composite(|op, _keys, args| make(op, args, false));
}
op! {
    /// A matrix in a compressed layout; rows are the one there is.
    compressed_sized: "sparse_compressed_tensor.comp_plain_value_size(Tensor compressed_indices, Tensor plain_indices, Tensor values, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor";
    Body::Composite(|op, _keys, args| make(op, args, true));
}
op! {
    /// A matrix in a compressed layout, as wide as its columns need.
    compressed_inferred: "sparse_compressed_tensor.comp_plain_value(Tensor compressed_indices, Tensor plain_indices, Tensor values, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor";
    Body::Composite(|op, _keys, args| make(op, args, false));
}

fn rows_of(name: &str, x: &Tensor) -> Result<Csr> {
    ensure!(
        x.layout() == Layout::SparseCsr,
        "{name} expected sparse row compressed tensor layout but got {}",
        layout_name(x.layout())
    );
    sparse::csr(x)
}
fn crow_indices_any(x: &Tensor) -> Result<Tensor> {
    Ok(rows_of("crow_indices", x)?.rows.shallow_detached(true))
}
fn col_indices_any(x: &Tensor) -> Result<Tensor> {
    Ok(rows_of("col_indices", x)?.columns.shallow_detached(true))
}

op! {
    /// Where each of the compressed rows begins, and the last ends: (rows + 1).
    crow_indices: "crow_indices(Tensor(a) self) -> Tensor(a)";
    Body::Explicit(kernel!(crow_indices_any; x));
}
op! {
    /// The column of each entry of compressed rows.
    col_indices: "col_indices(Tensor(a) self) -> Tensor(a)";
    Body::Explicit(kernel!(col_indices_any; x));
}

/// A matrix in compressed rows.
pub(super) fn to_csr(x: &Tensor) -> Result<Tensor> {
    ensure!(
        x.dim() == 2,
        "Only tensors with two dimensions can be converted to the SparseCsr layout but got {} dimensions",
        x.dim()
    );
    match x.layout() {
        Layout::Strided => sparse::compressed(&sparse::sparse(x, 2)?, DType::I64),
        _ => sparse::compressed(x, DType::I64),
    }
}

fn to_csr_any(x: &Tensor, dense_dim: Option<i64>) -> Result<Tensor> {
    if x.layout() == Layout::SparseCsr {
        return Ok(x.clone());
    }
    to_csr_new::OP.call(&[x.into(), dense_dim.into()])?.one()
}
fn to_csr_new_any(x: &Tensor, dense_dim: Option<i64>) -> Result<Tensor> {
    ensure!(dense_dim.unwrap_or(0) == 0, "to_sparse_csr: dense dims are not supported");
    to_csr(x)
}

op! {
    /// The matrix in compressed rows; itself if it is.
    to_sparse_csr: "to_sparse_csr(Tensor self, int? dense_dim=None) -> Tensor";
    Body::Composite(kernel!(to_csr_any; x, dense_dim));
    fn to_sparse_csr(&self) -> Tensor [self];
}
op! {
    /// A copy of a matrix in compressed rows.
    to_csr_new: "_to_sparse_csr(Tensor self, int? dense_dim=None) -> Tensor";
    Body::Explicit(kernel!(to_csr_new_any; x, dense_dim));
    derivative: backward! {
        self_(g, self_: Geometry) => if self_.layout == Layout::Strided { g.to_dense()? } else { g.to_sparse()? }
    };
}

// ---- products -----------------------------------------------------------------------------------

fn sparse_mm_any(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if !x.is_strided() && !y.is_strided() {
        return sparse_sparse::OP.call(&[x.into(), y.into()])?.one();
    }
    if x.is_strided() && !y.is_strided() {
        // Only the left factor may be sparse below.
        return sparse_mm_any(&y.transpose(0, 1)?, &x.transpose(0, 1)?)?.transpose(0, 1);
    }
    ensure!(x.dim() == 2 && y.dim() == 2, "sparse.mm: expected two matrices, got {}-D and {}-D tensors", x.dim(), y.dim());
    let zeros = Tensor::zeros(&[x.sizes()[0], y.sizes()[1]], (y.dtype(), y.device()))?;
    sparse_addmm::OP.call(&[(&zeros).into(), x.into(), y.into(), Scalar::Int(0).into(), ONE.into()])?.one()
}

op! {
    /// The product of two matrices of which one, or both, are sparse. The gradient of a sparse one has its entries.
    sparse_mm: "_sparse_mm(Tensor sparse, Tensor dense) -> Tensor";
    Body::Composite(kernel!(sparse_mm_any; x, y));
}

fn reduced_any(x: &Tensor, y: &Tensor, reduce: &str) -> Result<Tensor> {
    ensure!(x.layout() == Layout::SparseCsr && y.is_strided(), "torch.sparse.mm: reduce is only for compressed rows and a strided matrix");
    ensure!(
        matches!(reduce, "sum" | "mean" | "amax" | "amin"),
        "sparse_mm_reduce: reduce argument must be either sum, mean, amax or amin, got {reduce}"
    );
    ensure!(x.dim() == 2 && y.dim() == 2, "sparse.mm: expected two matrices, got {}-D and {}-D tensors", x.dim(), y.dim());
    ensure!(
        x.sizes()[1] == y.sizes()[0],
        "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        x.sizes()[0],
        x.sizes()[1],
        y.sizes()[0],
        y.sizes()[1]
    );
    let places = sparse::coo(&x.detach()?)?;
    let values = super::sparse::values::OP.call(&[x.into()])?.one()?;
    let products = y.index_select(0, &places.along(1)?)?.mul(&values.unsqueeze(1)?)?;
    let zeros = Tensor::zeros(&[x.sizes()[0], y.sizes()[1]], (products.dtype(), x.device()))?;
    match reduce {
        "sum" => zeros.index_add(0, &places.along(0)?, &products),
        _ => zeros.index_reduce(0, &places.along(0)?, &products, reduce, false),
    }
}

op! {
    /// The product of compressed rows and a strided matrix, with the products that make an element added up, averaged, or
    /// the largest or smallest of them (`sum`, `mean`, `amax`, `amin`).
    mm_reduced: "_sparse_mm.reduce(Tensor sparse, Tensor dense, str reduce) -> Tensor";
    Body::Composite(kernel!(reduced_any; x, y, reduce));
}

fn sparse_addmm_any(start: &Tensor, x: &Tensor, y: &Tensor, beta: Option<Scalar>, alpha: Option<Scalar>) -> Result<Tensor> {
    super::matmul::addmm::OP
        .call(&[start.into(), x.into(), y.into(), beta.unwrap_or(ONE).into(), alpha.unwrap_or(ONE).into()])?
        .one()
}

op! {
    /// `beta * self + alpha * mat1 @ mat2` for a sparse `mat1`, whose gradient has its entries.
    sparse_addmm: "_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor";
    Body::Explicit(kernel!(sparse_addmm_any; start, x, y, beta, alpha));
    derivative: backward! {
        self_(g, beta: Option<Scalar>) => g.mul(beta.unwrap_or(ONE).conj())?,
        mat1(g, mat1: Tensor, mat2: Tensor, alpha: Option<Scalar>) =>
            sparse::product_gradient(g, &mat1, &mat2, alpha.unwrap_or(ONE))?,
        mat2(g, mat1: Tensor, alpha: Option<Scalar>) =>
            mat1.transpose(0, 1)?.conj()?.mm(g)?.mul(alpha.unwrap_or(ONE).conj())?,
    };
}
op! {
    /// The product of two sparse matrices.
    sparse_sparse: "_sparse_sparse_matmul(Tensor self, Tensor other) -> Tensor";
    Body::Explicit(|_op, _keys, args| crate::ops::matmul::mm::OP.call(args));
    derivative: backward! {
        self_(g, self_: Tensor, other: Tensor) =>
            g.mm(&other.conj()?.transpose(0, 1)?)?.sparse_mask(&self_)?,
        other(g, self_: Tensor, other: Tensor) =>
            self_.conj()?.transpose(0, 1)?.mm(g)?.sparse_mask(&other)?,
    };
}

fn sampled_any(x: &Tensor, a: &Tensor, b: &Tensor, beta: Option<Scalar>, alpha: Option<Scalar>) -> Result<Tensor> {
    sparse::sampled(x, a, b, beta.unwrap_or(ONE), alpha.unwrap_or(ONE))
}

op! {
    /// `alpha * mat1 @ mat2 + beta * self` where the matrix in compressed rows `self` has entries.
    sampled_addmm: "sparse_sampled_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        Out OUT: "sparse_sampled_addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(sampled_any; x, a, b, beta, alpha));
    derivative: backward! {
        self_(g, beta: Option<Scalar>) => g.mul(beta.unwrap_or(ONE).conj())?,
        mat1(g, self_: Tensor, mat2: Tensor, alpha: Option<Scalar>) =>
            Tensor::sparse_mask(g, &self_)?.mm(&mat2.transpose(-2, -1)?.conj()?)?.mul(alpha.unwrap_or(ONE).conj())?,
        mat2(g, self_: Tensor, mat1: Tensor, alpha: Option<Scalar>) =>
            mat1.transpose(-2, -1)?.conj()?.mm(&Tensor::sparse_mask(g, &self_)?)?.mul(alpha.unwrap_or(ONE).conj())?,
    };
}

// ---- sums and softmax ---------------------------------------------------------------------------

fn sum_all_any(x: &Tensor) -> Result<Tensor> {
    values_in_order(x)?.sum()
}
fn values_in_order(x: &Tensor) -> Result<Tensor> {
    let x = if x.layout() == Layout::SparseCoo { x.coalesce()? } else { x.clone() };
    super::sparse::values::OP.call(&[(&x).into()])?.one()
}
fn sum_all_dtype_any(x: &Tensor, dtype: DType) -> Result<Tensor> {
    values_in_order(x)?.to_dtype(dtype)?.sum()
}
fn sum_dims_any(x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    ensure!(!dims.is_empty() || x.dim() == 0, "_sparse_sum: expected a dim to sum over");
    let dtype = x.dtype();
    super::reduce::sum_dim::OP.call(&[x.into(), dims.into(), false.into(), dtype.into()])?.one()
}
fn sum_dims_dtype_any(x: &Tensor, dims: &[i64], dtype: DType) -> Result<Tensor> {
    sum_dims::OP.call(&[(&x.to_dtype(dtype)?).into(), dims.into()])?.one()
}

op! {
    /// The sum of all entries.
    sum_all: "_sparse_sum(Tensor self) -> Tensor";
    Body::Composite(kernel!(sum_all_any; x));
}
op! {
    /// The sum of all entries, in a dtype.
    sum_all_dtype: "_sparse_sum.dtype(Tensor self, *, ScalarType dtype) -> Tensor";
    Body::Composite(kernel!(sum_all_dtype_any; x, dtype));
}
op! {
    /// The sums along dims: sparse if a sparse dim is left. Their gradient goes only to where there are entries.
    sum_dims: "_sparse_sum.dim(Tensor self, int[1] dim) -> Tensor";
    Body::Explicit(kernel!(sum_dims_any; x, dims));
    derivative: backward! { self_(g, self_: Tensor, dim: Dims) => sparse::spread(g, &self_, &dim)? };
}
op! {
    /// The sums along dims, in a dtype.
    sum_dims_dtype: "_sparse_sum.dim_dtype(Tensor self, int[1] dim, *, ScalarType dtype) -> Tensor";
    Body::Composite(kernel!(sum_dims_dtype_any; x, dims, dtype));
}

fn softmax_any(x: &Tensor, dim: i64, _half_to_float: bool) -> Result<Tensor> {
    ensure!(x.layout() == Layout::SparseCoo, "softmax: expected a sparse tensor");
    sparse::softmax(x, dim, false)
}
fn log_softmax_any(x: &Tensor, dim: i64, _half_to_float: bool) -> Result<Tensor> {
    ensure!(x.layout() == Layout::SparseCoo, "log_softmax: expected a sparse tensor");
    sparse::softmax(x, dim, true)
}
fn softmax_dtype_any(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    softmax::OP.call(&[(&x.to_options(dtype, None)?).into(), dim.into(), false.into()])?.one()
}
fn log_softmax_dtype_any(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    log_softmax::OP.call(&[(&x.to_options(dtype, None)?).into(), dim.into(), false.into()])?.one()
}

op! {
    /// Softmax along `dim` among the entries: what is not there counts as minus infinity.
    softmax: "_sparse_softmax(Tensor self, int dim, bool half_to_float) -> Tensor";
    Body::Explicit(kernel!(softmax_any; x, dim, half_to_float));
    derivative: backward! { self_(g, result: Tensor, dim: i64) => sparse::softmax_backward(g, &result, dim, false)? };
}
op! {
    /// Softmax along `dim` among the entries, computed in a dtype.
    softmax_dtype: "_sparse_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor";
    Body::Composite(kernel!(softmax_dtype_any; x, dim, dtype));
}
op! {
    /// The logarithm of the softmax along `dim` among the entries.
    log_softmax: "_sparse_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor";
    Body::Explicit(kernel!(log_softmax_any; x, dim, half_to_float));
    derivative: backward! { self_(g, result: Tensor, dim: i64) => sparse::softmax_backward(g, &result, dim, true)? };
}
op! {
    /// The logarithm of the softmax along `dim` among the entries, computed in a dtype.
    log_softmax_dtype: "_sparse_log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor";
    Body::Composite(kernel!(log_softmax_dtype_any; x, dim, dtype));
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    col_indices::ALL,
    compressed_inferred::ALL,
    compressed_sized::ALL,
    crow_indices::ALL,
    csr_inferred::ALL,
    csr_sized::ALL,
    csr_unsafe::ALL,
    log_softmax::ALL,
    log_softmax_dtype::ALL,
    mm_reduced::ALL,
    sampled_addmm::ALL,
    softmax::ALL,
    softmax_dtype::ALL,
    sparse_addmm::ALL,
    sparse_mm::ALL,
    sparse_sparse::ALL,
    sum_all::ALL,
    sum_all_dtype::ALL,
    sum_dims::ALL,
    sum_dims_dtype::ALL,
    to_csr_new::ALL,
    to_sparse_csr::ALL,
    validate_rows::ALL,
];
