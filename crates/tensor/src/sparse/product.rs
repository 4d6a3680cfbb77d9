//! Products of matrices of which some are sparse.

use super::{Coo, coalesced, coo, csr, from_coo, with_values};
use crate::op::{KernelFn, Op};
use crate::ops::matmul;
use crate::{Layout, Result, Scalar, Tensor, ensure};

/// Kernels by operator.
pub(super) static TABLE: &[(&Op, KernelFn)] = &[
    (&matmul::mm::OP, kernel!(mm; x, y)),
    (&matmul::bmm::OP, kernel!(bmm; x, y)),
    (&matmul::addmm::OP, kernel!(addmm; start, x, y, beta, alpha)),
];

fn check(x: &Tensor, y: &Tensor) -> Result<()> {
    ensure!(x.dim() == 2, "mm: Expected self to be a matrix, but got {}-D tensor", x.dim());
    ensure!(y.dim() == 2, "mm: Expected mat2 to be a matrix, but got {}-D tensor", y.dim());
    let [inner, other] = if x.is_strided() { [y.sizes()[0], x.sizes()[1]] } else { [x.sizes()[1], y.sizes()[0]] };
    match x.is_strided() == y.is_strided() {
        true => ensure!(
            inner == other,
            "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
            x.sizes()[0],
            x.sizes()[1],
            y.sizes()[0],
            y.sizes()[1]
        ),
        false => ensure!(inner == other, "addmm: Argument #3 (dense): Expected dim 0 size {inner}, got {other}"),
    }
    ensure!(
        x.dtype() == y.dtype(),
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        x.dtype().cpp_name(),
        y.dtype().cpp_name()
    );
    Ok(())
}

fn mm(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    check(x, y)?;
    match (x.is_strided(), y.is_strided()) {
        (false, true) => times_dense(x, y),
        // (y' x')'
        (true, false) => times_dense(&y.transpose(0, 1)?, &x.transpose(0, 1)?)?.transpose(0, 1)?.contiguous(),
        _ => times_sparse(x, y),
    }
}

/// (n, k) with entries times (k, m): each entry adds its multiple of a row.
fn times_dense(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let c = coo(x)?;
    ensure!(c.sparse_dim() == 2, "mm: expected a sparse matrix without dense dims");
    let added = y.index_select(0, &c.along(1)?)?.mul(&c.values.unsqueeze(1)?)?;
    super::added_up(x.sizes()[0], &c.along(0)?, &added)
}

/// Every entry of one matrix times the entries of its row of the other.
fn times_sparse(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (a, b) = (coo(&coalesced(x)?)?, coo(&coalesced(y)?)?);
    ensure!(a.sparse_dim() == 2 && b.sparse_dim() == 2, "sparse_matmul: expected sparse matrices without dense dims");
    let (rows, columns) = (a.along(0)?.to_vec::<i64>()?, a.along(1)?.to_vec::<i64>()?);
    let (other_rows, other_columns) = (b.along(0)?.to_vec::<i64>()?, b.along(1)?.to_vec::<i64>()?);
    let (mut left, mut right, mut row_of, mut column_of) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (i, (&row, &column)) in rows.iter().zip(&columns).enumerate() {
        let start = other_rows.partition_point(|&r| r < column);
        let end = start + other_rows[start..].partition_point(|&r| r == column);
        for (j, &other_column) in other_columns.iter().enumerate().take(end).skip(start) {
            left.push(i as i64);
            right.push(j as i64);
            row_of.push(row);
            column_of.push(other_column);
        }
    }
    let device = x.device();
    let list = |v: &[i64]| Tensor::from_slice(v)?.to_device(device);
    let values = a.values.index_select(0, &list(&left)?)?.mul(&b.values.index_select(0, &list(&right)?)?)?;
    let indices = Tensor::stack(&[list(&row_of)?, list(&column_of)?], 0)?;
    let product = from_coo(&[x.sizes()[0], y.sizes()[1]], Coo { indices, values, coalesced: false })?;
    let product = coalesced(&product)?;
    match x.layout() {
        Layout::SparseCsr => super::compressed(&product, csr(x)?.rows.dtype()),
        _ => Ok(product),
    }
}

fn bmm(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    ensure!(!x.is_strided() && y.is_strided(), "bmm_sparse: Tensor 'mat2' must be dense");
    ensure!(x.dim() == 3 && y.dim() == 3, "bmm_sparse: Tensors must have 3 dims");
    ensure!(x.sizes()[0] == y.sizes()[0], "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
    ensure!(x.sizes()[2] == y.sizes()[1], "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
    let products = (0..x.sizes()[0]).map(|i| mm(&x.select(0, i)?, &y.select(0, i)?)).collect::<Result<Vec<_>>>()?;
    match products.is_empty() {
        true => Tensor::zeros(&[0, x.sizes()[1], y.sizes()[2]], (x.dtype(), x.device())),
        false => Tensor::stack(&products, 0),
    }
}

fn number(s: Option<Scalar>) -> Scalar {
    s.unwrap_or(Scalar::Int(1))
}

fn addmm(start: &Tensor, x: &Tensor, y: &Tensor, beta: Option<Scalar>, alpha: Option<Scalar>) -> Result<Tensor> {
    if x.is_strided() && y.is_strided() {
        ensure!(start.is_strided(), "addmm: two strided matrices cannot be added to a sparse one");
    }
    check(x, y)?;
    let size = [x.sizes()[0], y.sizes()[1]];
    let product = x.mm(y)?.mul(number(alpha))?;
    if number(beta).to_complex() == Scalar::Int(0).to_complex() {
        return Ok(product);
    }
    match (start.is_strided(), product.is_strided()) {
        (true, _) => start.expand(&size)?.mul(number(beta))?.add(&product),
        (false, true) => product.add(&start.mul(number(beta))?),
        (false, false) => start.mul(number(beta))?.add(&product),
    }
}

/// The gradient of a sparse factor, where it has entries: `alpha * (g @ other')`.
pub(crate) fn product_gradient(g: &Tensor, x: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    super::first_order("_sparse_addmm", &[g, x, other])?;
    let c = coo(&coalesced(x)?)?;
    let (g, other) = (g.to_dense()?, other.conj()?.to_dense()?.transpose(0, 1)?);
    let values = dots(&g, &other, &c)?.mul(alpha.conj())?;
    if x.layout() == Layout::SparseCsr {
        return with_values(x, values);
    }
    from_coo(x.sizes(), Coo { indices: c.indices, values, coalesced: false })
}

/// The elements of `a @ b` at the coordinates of a sparse matrix.
fn dots(a: &Tensor, b: &Tensor, pattern: &Coo) -> Result<Tensor> {
    let left = a.index_select(0, &pattern.along(0)?)?;
    let right = b.transpose(0, 1)?.index_select(0, &pattern.along(1)?)?;
    left.mul(&right)?.sum_dim(&[1], false)
}

/// `alpha * a @ b + beta * x` where the compressed rows `x` have entries.
pub(crate) fn sampled(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    let name = "sampled_addmm";
    ensure!(
        x.layout() == Layout::SparseCsr,
        "{name}: Expected self to have sparse csr layout, but got {}",
        super::layout_name(x.layout())
    );
    ensure!(a.is_strided(), "{name}: Expected mat1 to have strided layout, but got {}", super::layout_name(a.layout()));
    ensure!(b.is_strided(), "{name}: Expected mat2 to have strided layout, but got {}", super::layout_name(b.layout()));
    ensure!(a.dim() >= 2, "{name}: Expected mat1 to be a matrix, got {}-D tensor", a.dim());
    ensure!(b.dim() >= 2, "{name}: Expected mat2 to be a matrix, got {}-D tensor", b.dim());
    ensure!(a.dim() == 2 && b.dim() == 2 && x.dim() == 2, "{name}: batches of matrices are not supported");
    ensure!(
        a.sizes()[1] == b.sizes()[0],
        "{name}: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        a.sizes()[0],
        a.sizes()[1],
        b.sizes()[0],
        b.sizes()[1]
    );
    ensure!(x.sizes()[0] == a.sizes()[0], "{name}: self.shape[-2] must match mat1.shape[-2]");
    ensure!(x.sizes()[1] == b.sizes()[1], "{name}: self.shape[-1] must match mat2.shape[-1]");
    ensure!(
        a.dtype() == b.dtype() && x.dtype() == a.dtype(),
        "{name}: Expected mat1 and mat2 to have the same dtype, but got {} and {}",
        a.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    let c = coo(x)?;
    let product = dots(a, b, &c)?.mul(alpha)?;
    let values = match beta.to_complex() == Scalar::Int(0).to_complex() {
        true => product,
        false => product.add(&c.values.mul(beta)?)?,
    };
    with_values(x, values)
}
