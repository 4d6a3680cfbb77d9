//! Functions of single elements that keep zeros where they are, and arithmetic.

use super::{Coo, at_places, coalesced, coo, empty, from_coo, lookup, mixed_copy, replace, stored_values, with_values};
use crate::keys::KeySet;
use crate::op::{KernelFn, Op};
use crate::ops::create::TensorOptions;
use crate::ops::{activation, binary, copy, create, elementary, power, reduce, unary};
use crate::value::{Operand, Outputs, Value, take};
use crate::{DType, Dims, Error, Layout, MemoryFormat, Result, Scalar, Tensor, ensure};

/// Kernels by operator.
pub(super) static TABLE: &[(&Op, KernelFn)] = &[
    (&unary::abs::OP, of_values),
    (&elementary::asin::OP, of_values),
    (&elementary::asinh::OP, of_values),
    (&elementary::atan::OP, of_values),
    (&elementary::atanh::OP, of_values),
    (&unary::ceil::OP, of_values),
    (&unary::deg2rad::OP, of_values),
    (&unary::erf::OP, of_values),
    (&unary::erfinv::OP, of_values),
    (&elementary::expm1::OP, of_values),
    (&unary::floor::OP, of_values),
    (&unary::frac::OP, of_values),
    (&unary::isinf::OP, of_values),
    (&unary::isnan::OP, of_values),
    (&unary::isneginf::OP, of_values),
    (&unary::isposinf::OP, of_values),
    (&elementary::log1p::OP, of_values),
    (&unary::nan_to_num::OP, of_values),
    (&unary::rad2deg::OP, of_values),
    (&activation::relu::OP, of_values),
    (&unary::round::OP, of_values),
    (&unary::round_decimals::OP, of_values),
    (&unary::sgn::OP, of_values),
    (&unary::sign::OP, of_values),
    (&unary::signbit::OP, of_values),
    (&elementary::sin::OP, of_values),
    (&elementary::sinh::OP, of_values),
    (&elementary::sqrt::OP, of_values),
    (&elementary::tan::OP, of_values),
    (&activation::tanh::OP, of_values),
    (&unary::trunc::OP, of_values),
    (&binary::floor_divide::OP, of_values),
    (&power::pow_scalar::OP, of_values),
    (&binary::neg::OP, linear),
    (&unary::conj_physical::OP, linear),
    (&binary::add::OP, kernel!(add; x, y, alpha)),
    (&binary::sub::OP, kernel!(sub; x, y, alpha)),
    (&binary::mul::OP, kernel!(mul; x, y)),
    (&binary::div::OP, kernel!(div; x, y)),
    (&binary::add::INPLACE, kernel!(add_in_place; x, y, alpha)),
    (&binary::sub::INPLACE, kernel!(sub_in_place; x, y, alpha)),
    (&reduce::any::OP, of_all),
    (&reduce::linalg_vector_norm::OP, kernel!(vector_norm; x, order, dims, keepdim, dtype)),
    (&reduce::sum::OP, of_all_uncoalesced),
    (&activation::threshold_backward::OP, kernel!(threshold_backward; g, x, threshold)),
    (&copy::clone::OP, kernel!(clone; x, format)),
    (&copy::contiguous::OP, kernel!(contiguous; x, format)),
    (&copy::copy_::OP, kernel!(copy; x, source, non_blocking)),
    (&copy::to_copy::OP, kernel!(to_copy; x, options, non_blocking, format)),
    (&copy::zero_::OP, kernel!(zero; x)),
    (&create::empty_like::OP, kernel!(zeros_like; x, dtype, layout, device)),
    (&create::zeros_like::OP, kernel!(zeros_like; x, dtype, layout, device)),
];

/// Whether an in-place form can only be of coalesced tensors.
pub(super) fn needs_coalesced(op: &'static Op) -> bool {
    TABLE.iter().any(|(o, kernel)| std::ptr::eq(*o, op) && std::ptr::fn_addr_eq(*kernel, of_values as KernelFn))
}

/// The operator on the first argument's values, coordinates repeating no more.
fn of_values(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    ensure!(
        !args[1..].iter().any(|a| matches!(a, Value::Tensor(t) if t.dim() > 0)),
        "{}: the second operand of a sparse tensor has to be a number",
        op.name()
    );
    if op.name() == "pow" {
        let exponent: Scalar = take(op, args, 1)?;
        ensure!(
            exponent.to_bool(),
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
        );
    }
    linear_of(op, keys, &coalesced(x)?, args)
}

/// The operator on the first argument's values as they are.
fn linear(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    linear_of(op, keys, take(op, args, 0)?, args)
}

fn linear_of(op: &'static Op, _keys: KeySet, x: &Tensor, args: &[Value<'_>]) -> Result<Outputs> {
    if op.is_composite() {
        super::first_order(op.name(), &[x])?;
    }
    let values = stored_values(x)?;
    let mut args: smallvec::SmallVec<[Value<'_>; 6]> = args.iter().copied().collect();
    args[0] = Value::Tensor(&values);
    let values = op.call(&args)?.one()?;
    with_values(x, values).map(Outputs::One)
}

/// A reduction of all elements to which zeros add nothing.
fn of_all(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let x = coalesced(take(op, args, 0)?)?;
    let mut args: smallvec::SmallVec<[Value<'_>; 6]> = args.iter().copied().collect();
    args[0] = Value::Tensor(&x);
    of_all_uncoalesced(op, keys, &args)
}

/// One to which coordinates that repeat do not matter either.
fn of_all_uncoalesced(op: &'static Op, _keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let values = stored_values(take(op, args, 0)?)?;
    let mut args: smallvec::SmallVec<[Value<'_>; 6]> = args.iter().copied().collect();
    args[0] = Value::Tensor(&values);
    op.call(&args)
}

fn vector_norm(x: &Tensor, order: Scalar, dims: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let all = dims.is_none_or(|d| d.is_empty() || d.len() == x.dim());
    ensure!(all && !keepdim, "linalg_vector_norm: only norms of all elements are supported for sparse tensors");
    ensure!(order.to_f64() >= 0.0, "linalg_vector_norm: sparse tensors have no norm of order {order}");
    let values = stored_values(&coalesced(x)?)?;
    reduce::linalg_vector_norm::OP
        .call(&[(&values).into(), order.into(), Value::None, false.into(), dtype.into()])?
        .one()
}

// ---- sums ---------------------------------------------------------------------------------------

fn scaled(t: &Tensor, alpha: Option<Scalar>) -> Result<Tensor> {
    match alpha {
        None | Some(Scalar::Int(1)) => Ok(t.clone()),
        Some(alpha) => t.mul(binary::check_factor("alpha", alpha, t.dtype())?),
    }
}

fn check_same_size(x: &[i64], y: &Tensor) -> Result<()> {
    ensure!(
        x == y.sizes(),
        "add: expected 'self' and 'other' to have same size, but self has size {x:?} while other has size {:?} (FYI: \
         {}-sparse addition does not currently support broadcasting)",
        y.sizes(),
        if y.layout() == Layout::SparseCsr { "op2" } else { "dense" }
    );
    Ok(())
}

fn add(x: Operand<'_>, y: Operand<'_>, alpha: Option<Scalar>) -> Result<Tensor> {
    let dtype = crate::promotion::result_type(&[x, y]);
    let (x, y) = match (x, y) {
        (Operand::Tensor(x), Operand::Tensor(y)) => (x, y),
        (Operand::Scalar(_), Operand::Tensor(y)) => {
            check_same_size(&[], y)?;
            return Err(unsupported_sum());
        }
        _ => return Err(unsupported_sum()),
    };
    match (x.is_strided(), y.is_strided()) {
        (true, false) => {
            check_same_size(x.sizes(), y)?;
            let sum = x.to_dtype(dtype)?;
            let sum = if sum.is_same(x) { x.clone_in(MemoryFormat::Preserve)? } else { sum };
            add_to_dense(&sum, y, alpha)
        }
        // Compressed rows may stand on either side.
        (false, true) if x.layout() == Layout::SparseCsr => {
            check_same_size(y.sizes(), x)?;
            add_to_dense(&scaled(y, alpha)?.to_dtype(dtype)?.clone_in(MemoryFormat::Contiguous)?, x, None)
        }
        (false, false) => add_sparse(x, y, alpha, dtype),
        _ => Err(unsupported_sum()),
    }
}

fn unsupported_sum() -> Error {
    Error::runtime("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
}

/// Adds a sparse tensor to a strided one in place.
fn add_to_dense(x: &Tensor, y: &Tensor, alpha: Option<Scalar>) -> Result<Tensor> {
    let parts = coo(y)?;
    let values = scaled(&parts.values.to_dtype(x.dtype())?, alpha)?;
    let d = parts.sparse_dim();
    if d == 1 {
        // The rows of a table, whatever its strides.
        return x.index_add_(0, &parts.along(0)?, &values);
    }
    let mut shape = Dims::from_slice(&[x.sizes()[..d].iter().product()]);
    shape.extend_from_slice(&x.sizes()[d..]);
    if x.is_contiguous() && x.dtype() != DType::Bool {
        x.view(&shape)?.index_add_(0, &parts.places(x.sizes())?, &values)?;
        return Ok(x.clone());
    }
    x.add_(&super::dense(&with_values(y, values)?)?)
}

fn add_sparse(x: &Tensor, y: &Tensor, alpha: Option<Scalar>, dtype: DType) -> Result<Tensor> {
    ensure!(
        x.sizes() == y.sizes(),
        "add: expected sizes of 'self' and 'other' to match, but {:?} != {:?}",
        x.sizes(),
        y.sizes()
    );
    let (a, b) = (coo(x)?, coo(y)?);
    ensure!(
        a.sparse_dim() == b.sparse_dim(),
        "add: expected 'self' and 'other' to have same number of sparse dimensions, but self has {} and other has {}",
        a.sparse_dim(),
        b.sparse_dim()
    );
    let values = [a.values.to_dtype(dtype)?, scaled(&b.values.to_dtype(dtype)?, alpha)?];
    let both = a.coalesced && b.coalesced;
    // One pattern: the values add up where they are.
    if x.layout() == y.layout() && a.entries() == b.entries() && a.indices.equal(&b.indices)? {
        return with_values(x, values[0].add(&values[1])?);
    }
    // The two lists merged: what is in order stays so, and equal neighbours are added up.
    let (first, second) = (a.places(x.sizes())?.to_vec::<i64>()?, b.places(x.sizes())?.to_vec::<i64>()?);
    let (mut picked, mut at) = (Vec::new(), [Vec::new(), Vec::new()]);
    let (mut i, mut j) = (0, 0);
    while i < first.len() || j < second.len() {
        let (mine, theirs) = (first.get(i), second.get(j));
        let number = picked.len() as i64;
        let (take_mine, take_theirs) = match (mine, theirs) {
            (Some(p), Some(q)) => (p <= q, q <= p),
            (p, _) => (p.is_some(), p.is_none()),
        };
        let source = if take_mine { i } else { first.len() + j };
        picked.push(source as i64);
        if take_mine {
            at[0].push(number);
            i += 1;
        }
        if take_theirs {
            at[1].push(number);
            j += 1;
        }
    }
    let list = |v: &[i64]| Tensor::from_slice(v)?.to_device(x.device());
    let sum = super::added_up(picked.len() as i64, &list(&at[0])?, &values[0])?;
    let sum = sum.add(&super::added_up(picked.len() as i64, &list(&at[1])?, &values[1])?)?;
    let indices = Tensor::cat(&[a.indices, b.indices], 1)?.index_select(1, &list(&picked)?)?;
    like_layout(x, from_coo(x.sizes(), Coo { indices, values: sum, coalesced: both })?)
}

/// Coordinates in the layout of another tensor.
fn like_layout(x: &Tensor, result: Tensor) -> Result<Tensor> {
    match x.layout() {
        Layout::SparseCsr => super::compressed(&result, super::csr(x)?.rows.dtype()),
        _ => Ok(result),
    }
}

fn negated(alpha: Option<Scalar>) -> Scalar {
    match alpha {
        None => Scalar::Int(-1),
        Some(Scalar::Int(i)) => Scalar::Int(-i),
        Some(Scalar::Float(f)) => Scalar::Float(-f),
        Some(Scalar::Bool(b)) => Scalar::Int(-i64::from(b)),
        Some(s) => {
            let c = s.to_complex();
            Scalar::Complex(-c)
        }
    }
}

fn sub(x: Operand<'_>, y: Operand<'_>, alpha: Option<Scalar>) -> Result<Tensor> {
    add(x, y, Some(negated(alpha)))
}

fn add_in_place(x: &Tensor, y: Operand<'_>, alpha: Option<Scalar>) -> Result<Tensor> {
    let Operand::Tensor(y) = y else { return Err(unsupported_sum()) };
    if x.is_strided() {
        check_same_size(x.sizes(), y)?;
        ensure!(
            y.dtype().can_cast(x.dtype()),
            "Can't convert result type {} to output {} in add operation",
            y.dtype().scalar_type_name(),
            x.dtype().scalar_type_name()
        );
        crate::dispatch::check_writable(x, y.dtype())?;
        return add_to_dense(x, y, alpha);
    }
    ensure!(!y.is_strided(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
    let sum = add(Operand::Tensor(x), Operand::Tensor(y), alpha)?;
    ensure!(
        sum.dtype().can_cast(x.dtype()),
        "Can't convert result type {} to output {} in add operation",
        sum.dtype().scalar_type_name(),
        x.dtype().scalar_type_name()
    );
    replace(x, &sum.to_dtype(x.dtype())?)?;
    Ok(x.clone())
}

fn sub_in_place(x: &Tensor, y: Operand<'_>, alpha: Option<Scalar>) -> Result<Tensor> {
    add_in_place(x, y, Some(negated(alpha)))
}

// ---- products -----------------------------------------------------------------------------------

fn mul(x: Operand<'_>, y: Operand<'_>) -> Result<Tensor> {
    let (x, y) = match (x, y) {
        (Operand::Tensor(x), Operand::Scalar(s)) | (Operand::Scalar(s), Operand::Tensor(x)) => {
            return with_values(x, stored_values(x)?.mul(s)?);
        }
        (Operand::Tensor(x), Operand::Tensor(y)) => (x, y),
        _ => return Err(Error::runtime("mul: expected a tensor")),
    };
    match (x.is_strided(), y.is_strided()) {
        (false, true) => mul_dense(x, y),
        (true, false) => mul_dense(y, x),
        _ => mul_sparse(x, y),
    }
}

/// A sparse tensor times a strided one, where the former has entries.
fn mul_dense(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if y.dim() == 0 {
        return with_values(x, stored_values(x)?.mul(y)?);
    }
    let shape = crate::dims::broadcast(x.sizes(), y.sizes())?;
    ensure!(
        shape[..] == *x.sizes(),
        "mul: a sparse tensor of shape {:?} cannot be expanded to {:?}",
        x.sizes(),
        &shape[..]
    );
    let factors = at_places(&y.expand(&shape)?, &coo(x)?.indices)?;
    with_values(x, stored_values(x)?.mul(&factors)?)
}

/// The entries of one tensor that the other has too; that one's repeat no coordinates.
fn mul_sparse(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    ensure!(
        x.sizes() == y.sizes(),
        "mul: expected self and other to have the same sizes, got {:?} and {:?}",
        x.sizes(),
        y.sizes()
    );
    let (a, b) = (coo(x)?, coo(y)?);
    ensure!(
        a.sparse_dim() == b.sparse_dim(),
        "mul: expected as many sparse dims, got {} and {}",
        a.sparse_dim(),
        b.sparse_dim()
    );
    let swap = a.coalesced && !b.coalesced;
    let (walked, probed) = if swap { (b, coo(&coalesced(x)?)?) } else { (a, coo(&coalesced(y)?)?) };
    let (at, found) = lookup(&probed.places(x.sizes())?, &walked.places(x.sizes())?)?;
    let kept = found.nonzero()?.select(1, 0)?;
    let mine = walked.values.index_select(0, &kept)?;
    let theirs = match probed.entries() {
        0 => mine.to_dtype(probed.values.dtype())?,
        _ => probed.values.index_select(0, &at.index_select(0, &kept)?)?,
    };
    let values = if swap { theirs.mul(&mine)? } else { mine.mul(&theirs)? };
    let indices = walked.indices.index_select(1, &kept)?;
    like_layout(x, from_coo(x.sizes(), Coo { indices, values, coalesced: walked.coalesced })?)
}

fn div(x: Operand<'_>, y: Operand<'_>) -> Result<Tensor> {
    let divisor = |shape: &[i64]| {
        Error::runtime(format!(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape:?} for divisor)"
        ))
    };
    match (x, y) {
        (Operand::Tensor(x), Operand::Scalar(s)) => with_values(x, stored_values(x)?.div(s)?),
        (_, Operand::Tensor(y)) if y.dim() > 0 => Err(divisor(y.sizes())),
        (_, Operand::Tensor(y)) if !y.is_strided() => Err(Error::runtime(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got a sparse divisor)",
        )),
        (Operand::Tensor(x), Operand::Tensor(y)) => with_values(x, stored_values(x)?.div(y)?),
        _ => Err(divisor(&[])),
    }
}

fn threshold_backward(g: &Tensor, x: &Tensor, threshold: Scalar) -> Result<Tensor> {
    let (g, x) = (g.to_dense()?, x.clone());
    let values = at_places(&g, &coo(&x)?.indices)?;
    with_values(&x, values.threshold_backward(&stored_values(&x)?, threshold)?)
}

// ---- copies -------------------------------------------------------------------------------------

fn clone(x: &Tensor, _format: Option<MemoryFormat>) -> Result<Tensor> {
    let own = |t: &Tensor| t.clone_in(MemoryFormat::Contiguous);
    match x.layout() {
        Layout::SparseCsr => {
            let c = super::csr(x)?;
            super::from_csr(
                x.sizes(),
                super::Csr { rows: own(&c.rows)?, columns: own(&c.columns)?, values: own(&c.values)? },
            )
        }
        _ => {
            let c = coo(x)?;
            from_coo(x.sizes(), Coo { indices: own(&c.indices)?, values: own(&c.values)?, coalesced: c.coalesced })
        }
    }
}

fn contiguous(x: &Tensor, _format: MemoryFormat) -> Result<Tensor> {
    Err(Error::runtime(match x.layout() {
        Layout::SparseCsr => "Sparse CSR tensors do not have is_contiguous",
        _ => "unsupported memory format option Contiguous",
    }))
}

fn copy(x: &Tensor, source: &Tensor, _non_blocking: bool) -> Result<Tensor> {
    if x.is_strided() || source.layout() != x.layout() {
        return Err(mixed_copy(x, source));
    }
    ensure!(
        x.sizes() == source.sizes(),
        "copy_: a sparse tensor of shape {:?} cannot take the place of one of shape {:?}",
        source.sizes(),
        x.sizes()
    );
    replace(x, &clone(&source.to_options(Some(x.dtype()), Some(x.device()))?, None)?)?;
    Ok(x.clone())
}

fn to_copy(x: &Tensor, options: TensorOptions, _non_blocking: bool, _format: Option<MemoryFormat>) -> Result<Tensor> {
    let x = clone(x, None)?;
    let to = |t: &Tensor, dtype| t.to_options(dtype, options.device);
    let values = to(&stored_values(&x)?, options.dtype)?;
    match x.layout() {
        Layout::SparseCsr => {
            let c = super::csr(&x)?;
            super::from_csr(x.sizes(), super::Csr { rows: to(&c.rows, None)?, columns: to(&c.columns, None)?, values })
        }
        _ => {
            let c = coo(&x)?;
            from_coo(x.sizes(), Coo { indices: to(&c.indices, None)?, values, coalesced: c.coalesced })
        }
    }
}

fn zero(x: &Tensor) -> Result<Tensor> {
    if x.layout() == Layout::SparseCsr {
        replace(x, &with_values(x, stored_values(x)?.zeros_like()?)?)?;
        return Ok(x.clone());
    }
    replace(x, &empty(x.layout(), x.sizes(), coo(x)?.sparse_dim(), x.dtype(), x.device())?)?;
    Ok(x.clone())
}

/// Zeros of the same sizes; strided if asked for.
fn zeros_like(
    x: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<crate::Device>,
) -> Result<Tensor> {
    let (dtype, device) = (dtype.unwrap_or(x.dtype()), device.unwrap_or(x.device()));
    if layout == Some(Layout::Strided) {
        return Tensor::zeros(x.sizes(), (dtype, device));
    }
    empty(x.layout(), x.sizes(), coo(x)?.sparse_dim(), dtype, device)
}
