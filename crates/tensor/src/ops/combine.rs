//! Writing by index with a reduction, filling by index, and reading and writing by flat index.

use super::copy::byte_strides;
use super::index::{Source, apart, at_least_1d, check_distinct, copy_of, scatter_check, scatter_into, zeros_to_read};
use super::reduce::not_for;
use crate::autograd::Geometry;
use crate::dims::{Dims, wrap_dim};
use crate::samples::{Maker, Sample};
use crate::{
    Body, DType, Error, MemoryFormat, Op, OutRule, Result, Scalar, Tensor, TensorSpec, backward, ensure, sample,
};
use flambeau_base::storage::LockSet;
use flambeau_cpu::index::{BadIndex, ReduceOp};

// ---- reductions ---------------------------------------------------------------------------------

fn reduction(reduce: &str) -> Option<ReduceOp> {
    Some(match reduce {
        "sum" => ReduceOp::Sum,
        "prod" => ReduceOp::Prod,
        "mean" => ReduceOp::Mean,
        "amax" => ReduceOp::Amax,
        "amin" => ReduceOp::Amin,
        _ => return None,
    })
}

/// Extremes are of ordered numbers, means of numbers.
fn check_dtype(name: &str, op: ReduceOp, dtype: DType) -> Result<()> {
    let fits = match op {
        ReduceOp::Amax | ReduceOp::Amin => !dtype.is_complex(),
        ReduceOp::Mean => dtype != DType::Bool,
        _ => true,
    };
    if fits { Ok(()) } else { Err(not_for(name, dtype)) }
}

fn scatter_reduction(x: &Tensor, reduce: &str) -> Result<ReduceOp> {
    let Some(op) = reduction(reduce) else {
        return Err(Error::runtime(format!(
            "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )));
    };
    check_dtype(&format!("scatter_gather_tensor_cpu_reduce_{reduce}"), op, x.dtype())?;
    Ok(op)
}

fn scatter_reduce_in_place(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: Option<bool>,
) -> Result<Tensor> {
    let op = scatter_reduction(x, reduce)?;
    scatter_into("scatter", x, dim, index, Source::Tensor(src), Some((op, include_self.unwrap_or(true))))
}
fn scatter_reduce_any(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: Option<bool>,
) -> Result<Tensor> {
    scatter_reduction(x, reduce)?;
    scatter_check("scatter", x, dim, index, Some(src))?;
    let copy = copy_of(x)?;
    scatter_reduce_::OP
        .call(&[(&copy).into(), dim.into(), index.into(), src.into(), reduce.into(), include_self.into()])?
        .one()
}

/// A call whose gradients are wanted: along `dim` `src` was reduced into `x` at `index`, which has as many dims.
struct Reduced<'a> {
    x: &'a Tensor,
    dim: i64,
    index: &'a Tensor,
    src: &'a Tensor,
    reduce: &'a str,
    include_self: bool,
    result: &'a Tensor,
}

impl Reduced<'_> {
    /// A tensor of `x`'s shape as every place of the index reads it.
    fn read(&self, t: &Tensor) -> Result<Tensor> {
        t.gather(self.dim, self.index)
    }

    /// The part of `src` that the index reaches.
    fn reached(&self) -> Result<Tensor> {
        let mut src = self.src.clone();
        for (d, &size) in self.index.sizes().iter().enumerate() {
            if src.sizes().get(d).is_some_and(|&s| s != size) {
                src = src.narrow(d as i64, 0, size)?;
            }
        }
        Ok(src)
    }

    /// How often a flag of `src` is set for each element of the result.
    fn counted(&self, flags: &Tensor, start: &Tensor) -> Result<Tensor> {
        start.scatter_add(self.dim, self.index, &flags.to_dtype(start.dtype())?)
    }

    /// The gradient of `x`: none where it was left out.
    fn without_self(&self, g: Tensor) -> Result<Tensor> {
        if self.include_self { Ok(g) } else { g.scatter_value(self.dim, self.index, 0) }
    }

    /// The gradients of `x` and of `src`, those that are wanted.
    fn gradients(&self, g: &Tensor, [for_self, for_src]: [bool; 2]) -> Result<[Option<Tensor>; 2]> {
        let (own, read) = match self.reduce {
            "sum" => (Some(g.clone()), for_src.then(|| self.read(g)).transpose()?),
            "mean" => {
                let start = if self.include_self { g.ones_like()? } else { g.zeros_like()? };
                let ones = self.src.detach()?.ones_like()?;
                let count = self.counted(&ones, &start.detach()?)?;
                let share = g.div(&count.masked_fill(&count.eq(0)?, 1)?)?;
                let read = for_src.then(|| self.read(&share)).transpose()?;
                (Some(share), read)
            }
            "prod" => (
                for_self.then(|| self.of_product_for_self(g)).transpose()?,
                for_src.then(|| self.of_product_for_src(g)).transpose()?,
            ),
            _ => {
                let attained = self.x.eq(self.result)?;
                let attained = match self.include_self {
                    true => attained,
                    false => attained.scatter_value(self.dim, self.index, 0)?,
                };
                let src_attained = self.reached()?.eq(&self.read(self.result)?)?;
                let count = self.counted(&src_attained, &attained.to_dtype(g.dtype())?)?;
                // Ties share the gradient.
                let share = g.div(&count.clamp_min(1)?)?;
                let read = for_src.then(|| self.read(&share)?.mul(&src_attained)).transpose()?;
                (for_self.then(|| share.mul(&attained)).transpose()?, read)
            }
        };
        let own = own.filter(|_| for_self).map(|g| self.without_self(g)).transpose()?;
        Ok([own, read.map(|g| self.all_of_src(g)).transpose()?])
    }

    /// A product's gradient for `x`: the product of the others.
    fn of_product_for_self(&self, g: &Tensor) -> Result<Tensor> {
        let whole = self.x.masked_fill(&self.x.eq(0)?, 1)?;
        g.mul(&self.product(&whole, self.src)?.div(&whole)?.conj()?)
    }

    /// A product's gradient for `src`: the result divided by each factor, and where a factor is the only zero, the product
    /// of the others.
    fn of_product_for_src(&self, g: &Tensor) -> Result<Tensor> {
        let src = self.reached()?;
        let src_zero = src.eq(0)?;
        let zeros = self.counted(&src_zero, &self.x.detach()?.zeros_like()?)?;
        let only = src_zero.logical_and(&self.read(&zeros)?.eq(1)?)?;
        let others = self.product(self.x, &src.masked_fill(&only, 1)?)?;
        let by_others = self.read(&g.mul(&others.conj()?)?)?;
        let by_quotient = self.read(&g.mul(&self.result.conj()?)?)?.div(&src.masked_fill(&src_zero, 1)?.conj()?)?;
        only.where_(&by_others, &by_quotient)
    }

    fn product(&self, x: &Tensor, src: &Tensor) -> Result<Tensor> {
        x.scatter_reduce(self.dim, self.index, src, "prod", self.include_self)
    }

    /// A gradient where the index reaches, with zeros where it does not.
    fn all_of_src(&self, reached: Tensor) -> Result<Tensor> {
        let mut pad = Dims::new();
        for d in (0..self.src.dim().min(self.index.dim())).rev() {
            pad.extend([0, self.src.sizes()[d] - self.index.sizes()[d]]);
        }
        if pad.iter().all(|&p| p == 0) { Ok(reached) } else { reached.constant_pad_nd(&pad, 0) }
    }
}

fn reduce_samples(m: &mut Maker) -> Vec<Sample> {
    if m.dtype.is_complex() || m.dtype == DType::Bool {
        let how = if m.dtype == DType::Bool { "amax" } else { "mean" };
        return vec![sample![m.any(&[3, 4]), 0, m.indices(&[2, 4], 3), m.any(&[2, 4]), how, true]];
    }
    ["sum", "prod", "mean", "amax", "amin"]
        .iter()
        .flat_map(|how| {
            [true, false].map(|own| sample![m.any(&[3, 4]), 0, m.indices(&[2, 4], 3), m.any(&[2, 4]), *how, own])
        })
        .collect()
}

op! {
    /// A copy with `src[i][j]` reduced (`sum`, `prod`, `mean`, `amax` or `amin`) into `out[index[i][j]][j]` for `dim` 0, and
    /// likewise for other dims; what was there takes part if `include_self`.
    scatter_reduce: "scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
        Out OUT: "scatter_reduce.two_out(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(scatter_reduce_any; x, dim, index, src, reduce, include_self));
    derivative: backward! {
        (self_, src)([c], self_: Tensor, dim: i64, index: Tensor, src: Tensor, reduce: String, include_self: bool, result: Tensor) =>
            Reduced { x: &self_, dim, index: &index, src: &src, reduce: &reduce, include_self, result: &result }
                .gradients(&c.gradient()?, [c.needs("self"), c.needs("src")])?,
    };
    samples: reduce_samples;
    ulp: 8.0;
    out_rule: OutRule::EXACT.apart(&[2, 3]);
    fn scatter_reduce(&self, dim: i64, index: &Tensor, src: &Tensor, reduce: &str, include_self: bool) -> Tensor
        [self, dim, index, src, reduce, include_self];
}
op! {
    /// Reduces `src[i][j]` into `self[index[i][j]][j]`; see `scatter_reduce`.
    scatter_reduce_: "scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor(a!)";
    Body::InPlace(kernel!(scatter_reduce_in_place; x, dim, index, src, reduce, include_self), &scatter_reduce::OP);
}

/// The index of an `index_reduce` as `scatter_reduce` takes it, after checks.
fn spread_index(index: &Tensor, dim: i64, source: &Tensor) -> Result<Tensor> {
    let d = wrap_dim(dim, source.dim())?;
    let mut shape = Dims::from_elem(1, source.dim());
    if let Some(size) = shape.get_mut(d) {
        *size = index.numel();
    }
    index.reshape(&shape)?.expand(source.sizes())
}

fn index_reduction(x: &Tensor, dim: i64, index: &Tensor, source: &Tensor, reduce: &str) -> Result<ReduceOp> {
    let Some(op) = reduction(reduce).filter(|op| *op != ReduceOp::Sum) else {
        return Err(Error::runtime(format!(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )));
    };
    check_dtype("index_func_", op, x.dtype())?;
    let d = wrap_dim(dim, x.dim())?;
    if index.dim() > 1 {
        return Err(Error::index(format!(
            "index_reduce_(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {:?}",
            index.dim(),
            index.dtype().scalar_type_name(),
            index.sizes()
        )));
    }
    ensure!(
        matches!(index.dtype(), DType::I64 | DType::I32),
        "index_reduce_(): Expected dtype int32/int64 for index but got: {}",
        index.dtype().scalar_type_name()
    );
    ensure!(
        x.dtype() == source.dtype(),
        "index_reduce_(): self ({}) and source ({}) must have the same scalar type",
        x.dtype().scalar_type_name(),
        source.dtype().scalar_type_name()
    );
    let length = source.sizes().get(d).copied().unwrap_or(1);
    ensure!(
        index.numel() == length,
        "index_reduce_(): Number of indices ({}) should be equal to source.size(dim): ({length}), for dim: {d}",
        index.numel()
    );
    let others = |t: &Tensor| -> Dims { t.sizes().iter().enumerate().filter(|(i, _)| *i != d).map(|(_, s)| *s).collect() };
    ensure!(
        others(x) == others(source) && x.dim().max(1) == source.dim().max(1),
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {:?} \
         source.shape = {:?}",
        x.sizes(),
        source.sizes()
    );
    Ok(op)
}

fn index_reduce_in_place(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: Option<bool>,
) -> Result<Tensor> {
    let op = index_reduction(x, dim, index, source, reduce)?;
    let spread = spread_index(index, dim, source)?;
    scatter_into("index_reduce", x, dim, &spread, Source::Tensor(source), Some((op, include_self.unwrap_or(true)))).map_err(
        |e| if e.message().contains("out of bounds") { Error::index("index out of range in self") } else { e },
    )
}
fn index_reduce_any(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: Option<bool>,
) -> Result<Tensor> {
    index_reduction(x, dim, index, source, reduce)?;
    let copy = copy_of(x)?;
    index_reduce_::OP
        .call(&[(&copy).into(), dim.into(), index.into(), source.into(), reduce.into(), include_self.into()])?
        .one()
}

op! {
    /// A copy with the parts of `source` along `dim` reduced (`prod`, `mean`, `amax` or `amin`) into those that a vector of
    /// indices names; what was there takes part if `include_self`.
    index_reduce: "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
        Out OUT: "index_reduce.out(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(index_reduce_any; x, dim, index, source, reduce, include_self));
    derivative: backward! {
        (self_, source)([c], self_: Tensor, dim: i64, index: Tensor, source: Tensor, reduce: String, include_self: bool, result: Tensor) => {
            let index = spread_index(&index, dim, &source)?;
            Reduced { x: &self_, dim, index: &index, src: &source, reduce: &reduce, include_self, result: &result }
                .gradients(&c.gradient()?, [c.needs("self"), c.needs("source")])?
        },
    };
    samples: |m| match m.dtype.is_complex() || m.dtype == DType::Bool {
        true => vec![sample![m.any(&[3, 4]), 0, m.indices(&[5], 3), m.any(&[5, 4]), "prod", true]],
        false => ["prod", "mean", "amax", "amin"]
            .iter()
            .flat_map(|how| [true, false].map(|own| sample![m.any(&[3, 4]), 1, m.indices(&[5], 4), m.any(&[3, 5]), *how, own]))
            .collect(),
    };
    ulp: 8.0;
    out_rule: OutRule::EXACT.apart(&[2, 3]);
    fn index_reduce(&self, dim: i64, index: &Tensor, source: &Tensor, reduce: &str, include_self: bool) -> Tensor
        [self, dim, index, source, reduce, include_self];
}
op! {
    /// Reduces the parts of `source` into those of this tensor that a vector of indices names; see `index_reduce`.
    index_reduce_: "index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor(a!)";
    Body::InPlace(kernel!(index_reduce_in_place; x, dim, index, source, reduce, include_self), &index_reduce::OP);
}

// ---- filling ------------------------------------------------------------------------------------

fn fill_check(x: &Tensor, dim: i64, index: &Tensor, complex: bool) -> Result<usize> {
    let d = wrap_dim(dim, x.dim())?;
    if index.dtype() != DType::I64 {
        return Err(Error::index("index_fill_(): Expected dtype int64 for index."));
    }
    ensure!(index.dim() <= 1, "Index has to be a vector/scalar");
    ensure!(
        x.dtype().is_complex() || !complex,
        "index_fill_(): Converting complex Scalar to non-complex type is not supported"
    );
    Ok(d)
}

fn index_fill_in_place(x: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    let d = fill_check(x, dim, index, value.is_complex())?;
    check_distinct(x)?;
    if index.numel() == 0 || x.numel() == 0 {
        return Ok(x.clone());
    }
    let index = apart(x, &at_least_1d(index)?)?;
    let dst = at_least_1d(&x.detach_all()?)?;
    let value = Tensor::full(&[], value, (x.dtype(), x.device()))?;
    let mut sizes = Dims::from_slice(dst.sizes());
    sizes[d] = index.numel();
    let _locks = LockSet::new([(dst.storage(), true), (index.storage(), false), (value.storage(), false)])?;
    let strides = byte_strides(dst.strides(), dst.dtype());
    let zeros = vec![0isize; sizes.len()];
    let indices = (index.data_ptr() as *const u8, byte_strides(index.strides(), DType::I64)[0], DType::I64);
    // SAFETY: one number stands for the source, indices are checked by the kernel, the storages are locked, and the
    // destination's elements are distinct and apart from the others.
    unsafe {
        let (to, from) = ((dst.data_ptr(), &strides[..]), (value.data_ptr() as *const u8, &zeros[..]));
        flambeau_cpu::index::index_copy(&sizes, d, to, dst.sizes()[d], from, indices, dst.dtype(), false, true)
    }
    .map_err(|e| Error::index(format!("index {} is out of bounds for dimension {d} with size {}", e.value, e.size)))?;
    Ok(x.clone())
}
fn index_fill_any(x: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    fill_check(x, dim, index, value.is_complex())?;
    let copy = x.clone_in(MemoryFormat::Preserve)?;
    index_fill_::OP.call(&[(&copy).into(), dim.into(), index.into(), value.into()])?.one()
}

fn one_number(value: &Tensor) -> Result<Scalar> {
    ensure!(
        value.dim() == 0,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    value.detach()?.item()
}
fn index_fill_tensor_in_place(x: &Tensor, dim: i64, index: &Tensor, value: &Tensor) -> Result<Tensor> {
    index_fill_in_place(x, dim, index, one_number(value)?)
}
fn index_fill_tensor_any(x: &Tensor, dim: i64, index: &Tensor, value: &Tensor) -> Result<Tensor> {
    fill_check(x, dim, index, value.dtype().is_complex())?;
    let copy = x.clone_in(MemoryFormat::Preserve)?;
    index_fill_tensor_::OP.call(&[(&copy).into(), dim.into(), index.into(), value.into()])?.one()
}

/// What a filled tensor's gradient is at the places that were filled, all together.
fn filled_sum(g: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let size = if g.dim() == 0 { 1 } else { g.size(dim)? };
    let index = at_least_1d(index)?;
    // Counted once each, from the end or from the start.
    let places = index.lt(0)?.where_(&index.add(size)?, &index)?;
    let marks = Tensor::zeros(&[size], (g.dtype(), g.device()))?.index_fill(0, &places, 1)?;
    let mut shape = Dims::from_elem(1, g.dim());
    if g.dim() > 0 {
        shape[wrap_dim(dim, g.dim())?] = size;
    }
    g.mul(&marks.reshape(&shape)?)?.sum()
}

op! {
    /// A copy with the parts along `dim` that a vector of indices names set to a number.
    index_fill: "index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        Out OUT: "index_fill.int_Scalar_out(Tensor self, int dim, Tensor index, Scalar value, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(index_fill_any; x, dim, index, value));
    derivative: backward! { self_(g, dim: i64, index: Tensor) => g.index_fill(dim, &index, 0)? };
    samples: |m| vec![sample![m.any(&[3, 4]), 1, m.indices(&[2], 4), Scalar::Int(1)]];
    fn index_fill(&self, dim: i64, index: &Tensor, value: impl Into<Scalar>) -> Tensor [self, dim, index, value.into()];
}
op! {
    /// Sets the parts along `dim` that a vector of indices names to a number.
    index_fill_: "index_fill_.int_Scalar(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)";
    Body::InPlace(kernel!(index_fill_in_place; x, dim, index, value), &index_fill::OP);
    fn index_fill_(&self, dim: i64, index: &Tensor, value: impl Into<Scalar>) -> Tensor [self, dim, index, value.into()];
}
op! {
    /// A copy with the parts along `dim` that a vector of indices names set to the one number of a tensor.
    index_fill_tensor: "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
        Out OUT: "index_fill.int_Tensor_out(Tensor self, int dim, Tensor index, Tensor value, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(index_fill_tensor_any; x, dim, index, value));
    derivative: backward! {
        self_(g, dim: i64, index: Tensor) => g.index_fill(dim, &index, 0)?,
        value(g, dim: i64, index: Tensor) => filled_sum(g, dim, &index)?,
    };
    samples: |m| vec![sample![m.any(&[3, 4]), 1, m.indices(&[2], 4), m.any(&[])]];
}
op! {
    /// Sets the parts along `dim` that a vector of indices names to the one number of a tensor.
    index_fill_tensor_: "index_fill_.int_Tensor(Tensor(a!) self, int dim, Tensor index, Tensor value) -> Tensor(a!)";
    Body::InPlace(kernel!(index_fill_tensor_in_place; x, dim, index, value), &index_fill_tensor::OP);
}

// ---- flat indices -------------------------------------------------------------------------------

fn flat_error(e: BadIndex) -> Error {
    Error::index(format!("out of range: tried to access index {} on a tensor of {} elements.", e.value, e.size))
}

fn put_check(x: &Tensor, index: &Tensor, source: &Tensor) -> Result<()> {
    ensure!(
        index.dtype() == DType::I64,
        "put_(): Expected a long tensor for index, but got {}",
        index.dtype().scalar_type_name()
    );
    ensure!(
        x.dtype() == source.dtype(),
        "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
        x.dtype().scalar_type_name(),
        source.dtype().scalar_type_name()
    );
    if source.numel() != index.numel() {
        return Err(Error::index(format!(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, \
             index.numel() = {}",
            source.numel(),
            index.numel()
        )));
    }
    if x.numel() == 0 && index.numel() > 0 {
        return Err(Error::index("put_(): Tried to put elements into an empty tensor"));
    }
    Ok(())
}

fn put_in_place(x: &Tensor, index: &Tensor, source: &Tensor, accumulate: Option<bool>) -> Result<Tensor> {
    put_check(x, index, source)?;
    check_distinct(x)?;
    if index.numel() == 0 {
        return Ok(x.clone());
    }
    let (index, source) = (apart(x, index)?.reshape(&[-1])?, apart(x, source)?.reshape(&[-1])?);
    let _locks = LockSet::new([(x.storage(), true), (index.storage(), false), (source.storage(), false)])?;
    let index_strides = byte_strides(index.strides(), index.dtype());
    let source_strides = byte_strides(source.strides(), source.dtype());
    let strides = byte_strides(x.strides(), x.dtype());
    // SAFETY: sizes were checked, indices are checked by the kernel, the storages are locked, and the destination's
    // elements are distinct and apart from the others.
    unsafe {
        flambeau_cpu::index::put_flat(
            index.sizes(),
            x.sizes(),
            (x.data_ptr(), &strides, x.dtype()),
            (source.data_ptr() as *const u8, &source_strides),
            (index.data_ptr() as *const u8, &index_strides, index.dtype()),
            accumulate.unwrap_or(false),
            true,
        )
    }
    .map_err(flat_error)?;
    Ok(x.clone())
}
fn put_any(x: &Tensor, index: &Tensor, source: &Tensor, accumulate: Option<bool>) -> Result<Tensor> {
    put_check(x, index, source)?;
    let copy = x.clone_in(MemoryFormat::Preserve)?;
    put_::OP.call(&[(&copy).into(), index.into(), source.into(), accumulate.into()])?.one()
}

op! {
    /// A copy with the elements at flat indices replaced by those of `source`, or with `accumulate` increased by them.
    put: "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
        Out OUT: "put.out(Tensor self, Tensor index, Tensor source, bool accumulate=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(put_any; x, index, source, accumulate));
    derivative: backward! {
        self_(g, index: Tensor, source: Geometry, accumulate: bool) => match accumulate {
            true => g.clone(),
            false => g.put(&index, &source.zeros()?, false)?,
        },
        source(g, index: Tensor, source: Geometry) => g.take(&index)?.reshape(&source.sizes)?,
    };
    samples: |m| vec![
        sample![m.any(&[3, 4]), Tensor::from_slice(&[2i64, 7, -1]).unwrap_or_else(|e| unreachable!("{e}")), m.any(&[3]), false],
        sample![m.any(&[3, 4]), m.indices(&[5], 12), m.any(&[5]), true],
    ];
    fn put(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Tensor [self, index, source, accumulate];
}
op! {
    /// Replaces the elements at flat indices by those of `source`, or with `accumulate` adds them.
    put_: "put_(Tensor(a!) self, Tensor index, Tensor source, bool accumulate=False) -> Tensor(a!)";
    Body::InPlace(kernel!(put_in_place; x, index, source, accumulate), &put::OP);
}

fn take_plan(x: &Tensor, index: &Tensor) -> Result<TensorSpec> {
    ensure!(
        index.dtype() == DType::I64,
        "take(): Expected a long tensor for index, but got {}",
        index.dtype().scalar_type_name()
    );
    if x.numel() == 0 && index.numel() > 0 {
        return Err(Error::index("take(): tried to take from an empty tensor"));
    }
    Ok(TensorSpec::like(Dims::from_slice(index.sizes()), x))
}
fn take_run(x: &Tensor, index: &Tensor, outs: &[Tensor]) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let out = &outs[0];
    let _locks = LockSet::new([(x.storage(), false), (index.storage(), false), (out.storage(), true)])?;
    // SAFETY: the output has the index's sizes, indices are checked by the kernel, and the storages are locked.
    unsafe {
        flambeau_cpu::index::take_flat(
            index.sizes(),
            (out.data_ptr(), &byte_strides(out.strides(), out.dtype())),
            x.sizes(),
            (x.data_ptr(), &byte_strides(x.strides(), x.dtype()), x.dtype()),
            (index.data_ptr(), &byte_strides(index.strides(), index.dtype()), index.dtype()),
            true,
        )
    }
    .map_err(flat_error)
}

fn take_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "take(): self and out expected to have the same dtype, but got self.dtype = {} and out.dtype = {}",
        result.scalar_type_name(),
        out.scalar_type_name()
    );
    Ok(())
}

op! {
    /// The elements at flat indices, in the index's shape.
    take: "take(Tensor self, Tensor index) -> Tensor",
        Out OUT: "take.out(Tensor self, Tensor index, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(take_plan; x, index), run: run!(take_run; x, index) };
    derivative: backward! {
        self_(g, self_: Geometry, index: Tensor) =>
            zeros_to_read(&self_.sizes, g)?.put(&index, g, true)?
    };
    samples: |m| vec![sample![m.any(&[3, 4]), m.indices(&[2, 3], 12)]];
    out_rule: OutRule::dtype(take_writes).apart(&[0, 1]);
    fn take(&self, index: &Tensor) -> Tensor [self, index];
}

fn take_along_dim_any(x: &Tensor, indices: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    ensure!(
        indices.dtype() == DType::I64,
        "torch.take_along_dim(): dtype of indices should be Long but got {}",
        indices.dtype().scalar_type_name()
    );
    // From the end, where negative.
    let wrapped = |indices: &Tensor, size: i64| indices.lt(0)?.where_(&indices.add(size)?, indices);
    let Some(dim) = dim else {
        return x.reshape(&[-1])?.gather(0, &wrapped(&indices.reshape(&[-1])?, x.numel())?);
    };
    ensure!(
        x.dim() == indices.dim(),
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions for \
         input, and {} dimensions for indices",
        x.dim(),
        indices.dim()
    );
    let d = wrap_dim(dim, x.dim())?;
    if x.dim() == 0 {
        return x.gather(0, &wrapped(indices, 1)?);
    }
    let with = |t: &Tensor, size: i64| {
        let mut sizes = Dims::from_slice(t.sizes());
        sizes[d] = size;
        sizes
    };
    let for_indices = crate::dims::broadcast(&with(x, indices.sizes()[d]), indices.sizes())?;
    let for_x = crate::dims::broadcast(&with(indices, x.sizes()[d]), x.sizes())?;
    x.expand(&for_x)?.gather(dim, &wrapped(indices, x.sizes()[d])?.expand(&for_indices)?)
}

op! {
    /// The elements that `indices` name along `dim`, the other dims broadcast; without `dim`, of the flattened tensor.
    take_along_dim: "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
        Out OUT: "take_along_dim.out(Tensor self, Tensor indices, int? dim=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(take_along_dim_any; x, indices, dim));
    samples: |m| vec![sample![m.any(&[3, 4]), m.indices(&[1, 2], 4), 1], sample![m.any(&[3, 4]), m.indices(&[5], 12), ()]];
    out_rule: crate::OutRule::EXACT;
    fn take_along_dim(&self, indices: &Tensor, dim: Option<i64>) -> Tensor [self, indices, dim];
}

// ---- indices that may be wrong where a mask is false --------------------------------------------

/// The indices, pulled into the range of the dims they index.
fn clamped(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let one = |(d, index): (usize, &Option<Tensor>)| match (index, x.sizes().get(d)) {
        (Some(index), Some(&size)) => Ok(Some(index.clamp(-size, size - 1)?)),
        _ => Ok(index.clone()),
    };
    indices.iter().enumerate().map(one).collect()
}

fn unsafe_masked_index_any(x: &Tensor, mask: &Tensor, indices: &[Option<Tensor>], fill: Scalar) -> Result<Tensor> {
    let outside = mask.logical_not()?;
    if x.numel() == 0 {
        let mut shape = Dims::from_slice(mask.sizes());
        for index in indices.iter().flatten() {
            shape = crate::dims::broadcast(&shape, index.sizes())?;
        }
        return Tensor::full(&shape, fill, (x.dtype(), x.device()));
    }
    x.index(&clamped(x, indices)?)?.masked_fill(&outside, fill)
}
fn unsafe_masked_put_any(x: &Tensor, mask: &Tensor, indices: &[Option<Tensor>], values: &Tensor) -> Result<Tensor> {
    if x.numel() == 0 {
        return x.clone_in(MemoryFormat::Preserve);
    }
    x.index_put(&clamped(x, indices)?, &values.masked_fill(&mask.logical_not()?, 0)?, true)
}

op! {
    /// Advanced indexing where a mask is true, `fill` elsewhere: there indices may be out of range.
    _unsafe_masked_index: "_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor";
    Body::Composite(kernel!(unsafe_masked_index_any; x, mask, indices, fill));
    samples: |m| vec![sample![m.any(&[3, 4]), m.mask(&[5]), vec![Some(m.indices(&[5], 3)), Some(m.indices(&[5], 9))], Scalar::Int(1)]];
}
op! {
    /// A copy with values added by advanced indexing where a mask is true: elsewhere indices may be out of range.
    _unsafe_masked_index_put_accumulate: "_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor";
    Body::Composite(kernel!(unsafe_masked_put_any; x, mask, indices, values));
    samples: |m| vec![sample![m.any(&[3, 4]), m.mask(&[5]), vec![Some(m.indices(&[5], 3)), Some(m.indices(&[5], 9))], m.any(&[5])]];
}
alias! {
    _unsafe_index: "_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor" => crate::ops::advanced::index::OP;
    _unsafe_index_put: "_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor" => crate::ops::advanced::index_put::OP;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    _unsafe_index::ALL,
    _unsafe_index_put::ALL,
    _unsafe_masked_index::ALL,
    _unsafe_masked_index_put_accumulate::ALL,
    index_fill::ALL,
    index_fill_::ALL,
    index_fill_tensor::ALL,
    index_fill_tensor_::ALL,
    index_reduce::ALL,
    index_reduce_::ALL,
    put::ALL,
    put_::ALL,
    scatter_reduce::ALL,
    scatter_reduce_::ALL,
    take::ALL,
    take_along_dim::ALL,
];
