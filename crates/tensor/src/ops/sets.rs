//! Membership, hashes, and the indices of combinations and triangles.

use super::create::TensorOptions;
use crate::access::{elements, elements_mut};
use super::reduce::{not_for, reduced_dims, reduced_sizes};
use crate::dims::{self, Dims};
use crate::{Body, Bool, DType, Error, Op, Operand, OutRule, Result, Scalar, Tensor, TensorSpec, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::member::{is_member, real_key, whole_key};
use std::ops::Range;

// ---- membership ---------------------------------------------------------------------------------

/// What numbers of both are compared in.
fn common(x: &Tensor, test: &Tensor) -> Result<DType> {
    let dtype = crate::promotion::result_type(&[Operand::Tensor(x), Operand::Tensor(test)]);
    ensure!(!dtype.is_complex(), "Unsupported input type encountered for isin(): {}", dtype.scalar_type_name());
    Ok(dtype)
}
fn isin_meta(x: &Tensor, test: &Tensor, _unique: Option<bool>, _invert: Option<bool>) -> Result<Tensor> {
    common(x, test)?;
    Tensor::fresh(x.device(), DType::Bool, Dims::from_slice(x.sizes()))
}
fn isin_any(x: &Tensor, test: &Tensor, _unique: Option<bool>, invert: Option<bool>) -> Result<Tensor> {
    let dtype = common(x, test)?;
    let invert = invert.unwrap_or(false);
    if test.numel() == 0 || x.numel() == 0 {
        return Tensor::full(x.sizes(), invert, (DType::Bool, x.device()));
    }
    let row_major = |t: &Tensor| t.detach()?.to_dtype(dtype)?.contiguous();
    let (x, test) = (row_major(x)?, row_major(test)?);
    let out = Tensor::fresh(x.device(), DType::Bool, Dims::from_slice(x.sizes()))?;
    let locks = LockSet::new([(x.storage(), false), (test.storage(), false), (out.storage(), true)])?;
    // SAFETY: locked, and of this type.
    let found = unsafe { elements_mut::<Bool>(&out) };
    crate::dispatch_dtype!(dtype, T in [floats] => {
        // SAFETY: as above.
        let (x, test) = unsafe { (elements::<T>(&x), elements::<T>(&test)) };
        is_member(x, test, real_key::<T>, invert, found);
    }; else crate::dispatch_dtype!(dtype, T in [bool, ints] => {
        // SAFETY: as above.
        let (x, test) = unsafe { (elements::<T>(&x), elements::<T>(&test)) };
        is_member(x, test, whole_key::<T>, invert, found);
    }; else unreachable!("complex numbers are refused")));
    drop(locks);
    Ok(out)
}
fn isin_number_any(x: &Tensor, test: Scalar, _unique: Option<bool>, invert: Option<bool>) -> Result<Tensor> {
    let x = x.contiguous()?;
    if invert.unwrap_or(false) { x.ne(test) } else { x.eq(test) }
}
fn number_isin_any(x: Scalar, test: &Tensor, unique: Option<bool>, invert: Option<bool>) -> Result<Tensor> {
    let dtype = crate::promotion::result_type(&[Operand::Tensor(test), Operand::Scalar(x)]);
    let x = Tensor::full(&[], x, (dtype, test.device()))?;
    isin::OP.call(&[(&x).into(), test.into(), unique.unwrap_or(false).into(), invert.unwrap_or(false).into()])?.one()
}

op! {
    /// Which elements are among those of `test_elements`, or with `invert` which are not.
    isin: "isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
        Out OUT: "isin.Tensor_Tensor_out(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Kernels { cpu: kernel!(isin_any; x, test, unique, invert), meta: kernel!(isin_meta; x, test, unique, invert) };
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![m.any(&[3, 4]), m.any(&[5]), false, false], sample![m.any(&[3, 4]), m.any(&[2, 2]), false, true]] };
    out_rule: crate::OutRule::EXACT;
    fn isin(&self, test_elements: &Tensor) -> Tensor [self, test_elements];
}
op! {
    /// Which elements are a number, or with `invert` which are not.
    isin_number: "isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor",
        Out OUT: "isin.Tensor_Scalar_out(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(isin_number_any; x, test, unique, invert));
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![m.any(&[3, 4]), Scalar::Int(1), false, false]] };
    out_rule: crate::OutRule::EXACT;
}
op! {
    /// Whether a number is among the elements, or with `invert` whether it is not.
    number_isin: "isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
        Out OUT: "isin.Scalar_Tensor_out(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(number_isin_any; x, test, unique, invert));
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![Scalar::Int(1), m.any(&[3, 4]), false, false]] };
    out_rule: crate::OutRule::EXACT;
}

// ---- hashes -------------------------------------------------------------------------------------

fn hash_plan(x: &Tensor, dim: &[i64], keepdim: Option<bool>, mode: Option<i64>) -> Result<TensorSpec> {
    let mode = mode.unwrap_or(0);
    ensure!(mode == 0, "Unknown hash_tensor mode: {mode}");
    ensure!(
        x.numel() > 0 || !dim.is_empty(),
        "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the \
         'dim' argument."
    );
    if x.dtype().is_complex() {
        return Err(not_for("xor_sum_cpu", x.dtype()));
    }
    let reduced = reduced_dims(x, Some(dim))?;
    if let Some(d) = reduced.iter().find(|&&d| x.sizes().get(d) == Some(&0)) {
        return Err(Error::index(format!("hash_tensor: Expected reduction dim {d} to have non-zero size.")));
    }
    let sizes = reduced_sizes(x.sizes(), &reduced, keepdim.unwrap_or(false));
    Ok(TensorSpec::new(sizes, DType::U64, x.device()))
}
fn hash_run(x: &Tensor, dim: &[i64], _keepdim: Option<bool>, _mode: Option<i64>, outs: &[Tensor]) -> Result<()> {
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let reduced = reduced_dims(x, Some(dim))?;
    let order: Dims = (0..x.dim()).filter(|d| !reduced.contains(d)).chain(reduced.iter().copied()).map(|d| d as i64).collect();
    // Numbers of a kind hash alike whatever their width: as 64-bit integers, or as doubles bit by bit.
    let wide = if x.dtype().is_floating_point() { DType::F64 } else { DType::I64 };
    let words = x.detach()?.permute(&order)?.to_dtype(wide)?.contiguous()?.view_dtype(DType::I64)?;
    let count = outs[0].numel() as usize;
    let hashes = Tensor::fresh(crate::Device::CPU, DType::I64, Dims::from_slice(outs[0].sizes()))?;
    {
        let _locks = LockSet::new([(words.storage(), false), (hashes.storage(), true)])?;
        let n = words.numel() as usize / count;
        // SAFETY: `count` contiguous rows of `n` words, and as many hashes, locked.
        let (words, hashes) = unsafe { (
            std::slice::from_raw_parts(words.data_ptr().cast::<u64>(), count * n),
            std::slice::from_raw_parts_mut(hashes.data_ptr().cast::<u64>(), count),
        ) };
        for (hash, row) in hashes.iter_mut().zip(words.chunks_exact(n)) {
            *hash = row.iter().fold(0, |a, b| a ^ b);
        }
    }
    outs[0].copy_(&hashes.view_dtype(DType::U64)?)?;
    Ok(())
}

fn hash_writes(result: DType, out: DType) -> Result<()> {
    ensure!(result == out, "Expected result to be of dtype uint64, but got {}", out.scalar_type_name());
    Ok(())
}

op! {
    /// The exclusive or over the given dims (all without any) of the elements' bits.
    hash_tensor: "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
        Out OUT: "hash_tensor.out(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(hash_plan; x, dim, keepdim, mode), run: run!(hash_run; x, dim, keepdim, mode) };
    samples: |m| match m.dtype.is_complex() {
        true => vec![],
        false => vec![sample![m.any(&[3, 4]), vec![0i64], false, 0], sample![m.any(&[2, 3, 2]), vec![0i64, 2], true, 0]],
    };
    out_rule: OutRule::dtype(hash_writes);
}

// ---- combinations -------------------------------------------------------------------------------

fn combinations_any(x: &Tensor, r: Option<i64>, with_replacement: Option<bool>) -> Result<Tensor> {
    let (r, again) = (r.unwrap_or(2), with_replacement.unwrap_or(false));
    ensure!(x.dim() == 1, "Expect a 1D vector, but got shape {:?}", x.sizes());
    ensure!(r >= 0, "Expect a non-negative number, but got {r}");
    if r == 0 {
        return Tensor::empty(&[0], (x.dtype(), x.device()));
    }
    let n = x.numel();
    // How many there are, as long as that can be an answer.
    let from = if again { n.saturating_add(r - 1) } else { n };
    let mut count: i128 = if from < r || n == 0 { 0 } else { 1 };
    for k in 0..r.min(from - r).max(0) {
        count = count * i128::from(from - k) / i128::from(k + 1);
        ensure!(count <= i128::from(i64::MAX / 8), "combinations: too many to fit in memory");
    }
    let count = count as i64;
    dims::checked_numel(&[count, r])?;
    let places = Tensor::zeros(&[count, r], (DType::I64, crate::Device::CPU))?;
    if count > 0 {
        let mut all: Vec<i64> = Vec::with_capacity((count * r) as usize);
        let mut here: Vec<i64> = (0..r).map(|k| if again { 0 } else { k }).collect();
        loop {
            all.extend_from_slice(&here);
            // The last place that can go up takes the next element, those after it what follows.
            let most = |k: usize| if again { n - 1 } else { n - r + k as i64 };
            let Some(k) = (0..here.len()).rev().find(|&k| here[k] < most(k)) else { break };
            here[k] += 1;
            for j in k + 1..here.len() {
                here[j] = if again { here[k] } else { here[j - 1] + 1 };
            }
        }
        places.copy_(&Tensor::from_slice_of(&all, &[count, r])?)?;
    }
    x.index_select(0, &places.reshape(&[-1])?.to_device(x.device())?)?.reshape(&[count, r])
}

op! {
    /// All combinations of `r` elements of a vector, in rows; with replacement, an element may occur several times.
    combinations: "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor";
    Body::Composite(kernel!(combinations_any; x, r, with_replacement));
    samples: |m| vec![sample![m.any(&[5]), 3, false], sample![m.any(&[3]), 2, true]];
    fn combinations(&self, r: i64, with_replacement: bool) -> Tensor [self, r, with_replacement];
}

// ---- indices of triangles -----------------------------------------------------------------------

/// The sum of `i + shift`, but not less than 0 nor more than `most`, over the first `rows` numbers `i`.
fn staircase(rows: i64, shift: i64, most: i64) -> i128 {
    let most = i128::from(most);
    let up_to = |x: i128| match x {
        x if x <= 0 => 0,
        x if x <= most => x * (x + 1) / 2,
        x => most * (most + 1) / 2 + (x - most) * most,
    };
    let first = i128::from(shift);
    up_to(first + i128::from(rows) - 1) - up_to(first - 1)
}

/// Rows and columns of the `count` elements of a triangle: in row `i` of `rows`, the others being empty, from the first to
/// before the second of `part(i)`.
fn triangle(count: i128, rows: Range<i64>, part: &dyn Fn(i64) -> (i64, i64)) -> Result<Tensor> {
    let count = i64::try_from(count).map_err(|_| Error::runtime("there are too many indices"))?;
    dims::checked_numel(&[2, count])?;
    let out = Tensor::fresh(crate::Device::CPU, DType::I64, Dims::from_slice(&[2, count]))?;
    if count > 0 {
        let _lock = LockSet::new([(out.storage(), true)])?;
        // SAFETY: it is fresh, locked and of this type.
        let (mut is, mut js) = unsafe { elements_mut::<i64>(&out) }.split_at_mut(count as usize);
        for i in rows {
            let (from, to) = part(i);
            let (row, columns);
            (row, is) = is.split_at_mut((to - from).max(0) as usize);
            (columns, js) = js.split_at_mut(row.len());
            row.fill(i);
            columns.iter_mut().zip(from..).for_each(|(place, j)| *place = j);
        }
    }
    Ok(out)
}

fn check_sizes(rows: i64, columns: i64) -> Result<()> {
    ensure!(rows >= 0, "row must be non-negative, got{rows}");
    ensure!(columns >= 0, "col must be non-negative, got{columns}");
    Ok(())
}

fn lower(rows: i64, columns: i64, offset: Option<i64>) -> Result<Tensor> {
    check_sizes(rows, columns)?;
    let shift = offset.unwrap_or(0).saturating_add(1);
    let first = 1i64.saturating_sub(shift).clamp(0, rows);
    triangle(staircase(rows, shift, columns), first..rows, &|i| (0, i.saturating_add(shift).clamp(0, columns)))
}
fn upper(rows: i64, columns: i64, offset: Option<i64>) -> Result<Tensor> {
    check_sizes(rows, columns)?;
    let offset = offset.unwrap_or(0);
    let last = columns.saturating_sub(offset).clamp(0, rows);
    let count = i128::from(rows) * i128::from(columns) - staircase(rows, offset, columns);
    triangle(count, 0..last, &|i| (i.saturating_add(offset).clamp(0, columns), columns))
}

fn in_options(op: &str, indices: Tensor, options: TensorOptions) -> Result<Tensor> {
    let dtype = options.dtype.unwrap_or(DType::I64);
    if !matches!(dtype, DType::I32 | DType::I64) {
        return Err(not_for(op, dtype));
    }
    indices.to_options(Some(dtype), options.device)
}

/// The indices of a triangle: with options, and into `out`.
macro_rules! triangles {
    ($( $(#[doc = $doc:expr])* $name:ident $schema:literal, $out:ident $out_schema:literal, $indices:ident, $any:ident $out_any:ident; )*) => { $(
        fn $any(rows: i64, columns: i64, offset: Option<i64>, options: TensorOptions) -> Result<Tensor> {
            in_options(stringify!($name), $indices(rows, columns, offset)?, options)
        }
        fn $out_any(rows: i64, columns: i64, offset: Option<i64>, out: &Tensor) -> Result<Tensor> {
            let options = TensorOptions { dtype: Some(out.dtype()), device: Some(out.device()) };
            let indices = in_options(stringify!($name), $indices(rows, columns, offset)?, options)?;
            super::create::sized(indices.sizes(), out)?.copy_(&indices)
        }
        op! {
            $(#[doc = $doc])*
            $name: $schema;
            Body::Explicit(kernel!($any; rows, columns, offset, options));
            samples: |m| if m.dtype == DType::I64 { vec![sample![3, 4, 1], sample![4, 3, -1]] } else { vec![] };
        }
        op! {
            $(#[doc = $doc])*
            $out: $out_schema;
            Body::Composite(kernel!($out_any; rows, columns, offset, out));
        }
    )* };
}
triangles! {
    /// Rows and columns of the lower triangle of a matrix, from the diagonal shifted by `offset` columns down.
    tril_indices "tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        tril_indices_out "tril_indices.out(int row, int col, int offset=0, *, Tensor(a!) out) -> Tensor(a!)", lower, tril_any tril_out_any;
    /// Rows and columns of the upper triangle of a matrix, from the diagonal shifted by `offset` columns up.
    triu_indices "triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        triu_indices_out "triu_indices.out(int row, int col, int offset=0, *, Tensor(a!) out) -> Tensor(a!)", upper, triu_any triu_out_any;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    combinations::ALL,
    hash_tensor::ALL,
    isin::ALL,
    isin_number::ALL,
    number_isin::ALL,
    tril_indices::ALL,
    tril_indices_out::ALL,
    triu_indices::ALL,
    triu_indices_out::ALL,
];
