//! Reductions of segments that lie one after the other.

use crate::access::{elements, elements_mut};
use crate::dims::{Dims, wrap_dim};
use crate::{Body, DType, Element, Op, Result, Scalar, Tensor, TensorSpec, Value, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::segment::Fold;
use std::ops::Range;

/// The lengths, or else the offsets, and whether it is these; and the dim that they are along.
fn given<'a>(
    data: &Tensor,
    lengths: Option<&'a Tensor>,
    offsets: Option<&'a Tensor>,
    axis: Option<i64>,
) -> Result<(&'a Tensor, bool, usize)> {
    let Some(given) = offsets.or(lengths) else {
        return Err(crate::Error::runtime("segment_reduce(): Either lengths or offsets must be defined."));
    };
    ensure!(
        data.dim() >= given.dim() && given.dim() > 0,
        "segment_reduce(): expected lengths or offsets to have between 1 and {} dimensions, but got {}",
        data.dim(),
        given.dim()
    );
    let d = wrap_dim(axis.unwrap_or(0), data.dim())?;
    ensure!(
        d + 1 == given.dim(),
        "segment_reduce(): Expected axis to be the last dimension of {} but got {d}.",
        if offsets.is_some() { "offsets" } else { "lengths" }
    );
    ensure!(
        given.sizes()[..d] == data.sizes()[..d],
        "segment_reduce(): expected the dimensions before the axis to be those of data {:?}, but got {:?}",
        data.sizes(),
        given.sizes()
    );
    if !matches!(given.dtype(), DType::I32 | DType::I64) {
        return Err(super::reduce::not_for("_segment_reduce_lengths_cpu_kernel1", given.dtype()));
    }
    ensure!(offsets.is_none() || given.sizes()[d] >= 1, "segment_reduce(): offsets must have at least one element");
    Ok((given, offsets.is_some(), d))
}

/// The places of every segment along an axis, in one row for each row of lengths.
struct Segments {
    axis: usize,
    per_row: usize,
    ranges: Vec<Range<usize>>,
}

impl Segments {
    fn of(
        data: &Tensor,
        lengths: Option<&Tensor>,
        offsets: Option<&Tensor>,
        axis: Option<i64>,
        is_unsafe: bool,
    ) -> Result<Segments> {
        let (given, are_offsets, axis) = given(data, lengths, offsets, axis)?;
        let (size, columns) = (data.sizes()[axis], given.sizes()[axis] as usize);
        let numbers = given.to_vec::<i64>()?;
        let per_row = columns - usize::from(are_offsets);
        if !are_offsets {
            ensure!(numbers.iter().all(|&n| n >= 0), "lengths contains negative value!");
            let sum = |row: &[i64]| row.iter().fold(0i64, |sum, n| sum.saturating_add(*n));
            let whole = numbers.chunks_exact(columns.max(1)).all(|row| sum(row) == size) && (columns > 0 || size == 0);
            ensure!(
                is_unsafe || whole,
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when \
                 !unsafe."
            );
        }
        let mut ranges = Vec::with_capacity(numbers.len());
        for row in numbers.chunks_exact(columns.max(1)) {
            let mut end = 0;
            for k in 0..per_row {
                let (from, length) = match are_offsets {
                    true => (row[k], row[k + 1].saturating_sub(row[k])),
                    false => (end, row[k]),
                };
                ensure!(
                    from >= 0 && length >= 0 && from.checked_add(length).is_some_and(|end| end <= size),
                    "segment_reduce(): a segment of length {length} from {from} on lies outside of {size} elements"
                );
                end = from + length;
                ranges.push(from as usize..end as usize);
            }
        }
        Ok(Segments { axis, per_row, ranges })
    }

    /// Numbers that go with all elements, or segments, of a row of `data`, `n` a row.
    fn shaped(&self, data: &Tensor, numbers: &[i64], n: i64) -> Result<Tensor> {
        let mut shape = Dims::from_slice(&data.sizes()[..self.axis]);
        shape.push(n);
        shape.resize(data.dim(), 1);
        Tensor::from_slice(numbers)?.reshape(&shape)?.to_device(data.device())
    }

    /// How long they are.
    fn lengths(&self, data: &Tensor) -> Result<Tensor> {
        let lengths: Vec<i64> = self.ranges.iter().map(|r| r.len() as i64).collect();
        self.shaped(data, &lengths, self.per_row as i64)
    }
}

/// The sizes before the axis, along it, and after it.
fn around(sizes: &[i64], axis: usize) -> (usize, usize, usize) {
    let product = |sizes: &[i64]| sizes.iter().product::<i64>() as usize;
    (product(&sizes[..axis]), sizes[axis] as usize, product(&sizes[axis + 1..]))
}

fn plan(
    data: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    indices: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: Option<i64>,
    _unsafe: Option<bool>,
    _initial: Option<Scalar>,
) -> Result<TensorSpec> {
    ensure!(indices.is_none(), "segment_reduce(): indices based reduction is not supported yet.");
    ensure!(
        matches!(reduce, "sum" | "prod" | "mean" | "max" | "min" | "amax" | "amin"),
        "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
    );
    if !data.dtype().is_floating_point() {
        return Err(super::reduce::not_for("_segment_reduce_cpu", data.dtype()));
    }
    let (given, are_offsets, d) = given(data, lengths, offsets, axis)?;
    let mut sizes = Dims::from_slice(data.sizes());
    sizes[d] = given.sizes()[d] - i64::from(are_offsets);
    Ok(TensorSpec::like(sizes, data))
}

fn run(
    data: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    _indices: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: Option<i64>,
    is_unsafe: Option<bool>,
    initial: Option<Scalar>,
    outs: &[Tensor],
) -> Result<()> {
    let segments = Segments::of(data, lengths, offsets, axis, is_unsafe.unwrap_or(false))?;
    let (how, identity) = match reduce {
        "prod" => (Fold::Product, 1.0),
        "max" | "amax" => (Fold::Max, f64::NEG_INFINITY),
        "min" | "amin" => (Fold::Min, f64::INFINITY),
        _ => (Fold::Sum, 0.0),
    };
    let start = initial.map_or(identity, Scalar::to_f64);
    let dtype = data.dtype().compute();
    let x = data.to_dtype(dtype)?.contiguous()?;
    let direct = outs[0].dtype() == dtype && outs[0].is_contiguous();
    let out = if direct { outs[0].clone() } else { TensorSpec::like(outs[0].sizes(), &x).allocate()? };
    if x.numel() == 0 {
        out.fill_(start)?;
    } else if out.numel() > 0 {
        let sizes = around(x.sizes(), segments.axis);
        let _locks = LockSet::new([(x.storage(), false), (out.storage(), true)])?;
        crate::dispatch_dtype!(dtype, T in [reals] => {
            // SAFETY: both are locked, of this type, and contiguous.
            let (x, out) = unsafe { (elements::<T>(&x), elements_mut::<T>(&out)) };
            flambeau_cpu::Real::fold_segments(how, &segments.ranges, sizes, Element::from_f64(start), x, out);
        }; else unreachable!("the plan takes floats only"));
    }
    if reduce == "mean" && out.numel() > 0 {
        let lengths = segments.lengths(data)?;
        // An empty segment has no mean, but for what it starts with.
        out.div_(&if initial.is_some() { lengths.clamp_min(1)? } else { lengths })?;
    }
    if direct { Ok(()) } else { outs[0].copy_(&out).map(drop) }
}

/// What the gradient is made from, besides that of the result.
struct Call<'a> {
    data: &'a Tensor,
    result: &'a Tensor,
    reduce: &'a str,
    lengths: Option<&'a Tensor>,
    offsets: Option<&'a Tensor>,
    axis: i64,
    initial: Option<Scalar>,
}

impl Call<'_> {
    /// Segments of other data folded alike.
    fn folded(&self, data: &Tensor, reduce: &str, initial: Option<Scalar>) -> Result<Tensor> {
        let (lengths, offsets) = (self.lengths.into(), self.offsets.into());
        let initial = initial.into();
        segment_reduce::OP
            .call(&[data.into(), reduce.into(), lengths, Value::None, offsets, self.axis.into(), true.into(), initial])?
            .one()
    }

    /// How many places of each segment a flag marks.
    fn counted(&self, flags: &Tensor) -> Result<Tensor> {
        // Single precision counts to 2^24.
        let few = self.data.dtype() == DType::F32 && self.data.sizes()[wrap_dim(self.axis, self.data.dim())?] < 1 << 24;
        self.folded(&flags.to_dtype(if few { DType::F32 } else { DType::F64 })?, "sum", None)
    }

    fn gradient(&self, g: &Tensor) -> Result<Tensor> {
        let data = self.data;
        if data.numel() == 0 {
            return data.zeros_like();
        }
        let size = data.size(self.axis)?;
        // A tensor of the result's sizes as every element of the data reads it; what belongs to no segment reads zero.
        let read = |t: &Tensor| t.segment_spread(size, self.lengths, self.offsets, self.axis);
        match self.reduce {
            "sum" => read(g),
            "mean" => {
                let segments = Segments::of(data, self.lengths, self.offsets, Some(self.axis), true)?;
                read(&g.div(&segments.lengths(data)?.clamp_min(1)?)?)
            }
            "prod" => {
                // The result divided by each factor, or the product of the others where that cannot be.
                let odd = data.eq(0)?.logical_or(&data.isnan()?)?;
                let whole = data.masked_fill(&odd, 1)?;
                let by_quotient = read(&g.mul(self.result)?)?.div(&whole)?;
                if !odd.any()?.item()?.to_bool() {
                    return Ok(by_quotient);
                }
                let only = odd.logical_and(&read(&self.counted(&odd)?.eq(1)?)?)?;
                let others = self.folded(&data.masked_fill(&only, 1)?, "prod", self.initial)?;
                only.where_(&read(&g.mul(&others)?)?, &by_quotient)
            }
            _ => {
                let attained = data.eq(&read(self.result)?)?.logical_or(&data.isnan()?)?;
                // Ties share the gradient.
                let share = g.div(&self.counted(&attained)?.clamp_min(1)?.to_dtype(g.dtype())?)?;
                read(&share)?.masked_fill(&attained.logical_not()?, 0)
            }
        }
    }
}

fn spread_plan(
    x: &Tensor,
    size: i64,
    lengths: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: Option<i64>,
) -> Result<TensorSpec> {
    let d = wrap_dim(axis.unwrap_or(0), x.dim())?;
    let along = |t: &Tensor| t.dim() == d + 1 && t.sizes()[..d] == x.sizes()[..d];
    let count = match (lengths, offsets) {
        (_, Some(t)) if along(t) => t.sizes()[d] - 1,
        (Some(t), None) if along(t) => t.sizes()[d],
        _ => -1,
    };
    ensure!(x.dim() > d && count == x.sizes()[d] && size >= 0, "_segment_spread(): expected lengths or offsets of as many segments");
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[d] = size;
    Ok(TensorSpec::like(sizes, x))
}

fn spread_run(
    x: &Tensor,
    _size: i64,
    lengths: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: Option<i64>,
    outs: &[Tensor],
) -> Result<()> {
    let segments = Segments::of(&outs[0], lengths, offsets, axis, true)?;
    let (x, direct) = (x.contiguous()?, outs[0].is_contiguous());
    let out = if direct { outs[0].clone() } else { TensorSpec::like(Dims::from_slice(outs[0].sizes()), &x).allocate()? };
    if out.numel() > 0 {
        let sizes = around(out.sizes(), segments.axis);
        let _locks = LockSet::new([(x.storage(), false), (out.storage(), true)])?;
        // SAFETY: both are locked, contiguous and apart; the plan has as many segments as `x` has elements along the axis.
        unsafe {
            flambeau_cpu::segment::spread(&segments.ranges, sizes, out.element_size(), x.data_ptr(), out.data_ptr());
        }
    }
    if direct { Ok(()) } else { outs[0].copy_(&out).map(drop) }
}

op! {
    /// Every segment's element at all places of the segment, `size` of them along the axis; zero where there is no segment.
    /// The segments are those of `segment_reduce`, whose sums' gradient this is.
    segment_spread: "_segment_spread(Tensor self, int size, *, Tensor? lengths=None, Tensor? offsets=None, int axis=0) -> Tensor";
    Body::Structured {
        plan: plan!(spread_plan; x, size, lengths, offsets, axis),
        run: run!(spread_run; x, size, lengths, offsets, axis),
    };
    derivative: backward! {
        self_(g, lengths: Option<Tensor>, offsets: Option<Tensor>, axis: i64) => {
            let (lengths, offsets) = (lengths.as_ref().into(), offsets.as_ref().into());
            segment_reduce::OP
                .call(&[g.into(), "sum".into(), lengths, Value::None, offsets, axis.into(), true.into()])?
                .one()?
        }
    };
    samples: |m| match [[2i64, 0, 1].as_slice(), &[1, 1, 3]].map(Tensor::from_slice) {
        [Ok(lengths), Ok(offsets)] if m.dtype.is_floating_point() => {
            vec![sample![m.any(&[3, 2]), 4, lengths, (), 0], sample![m.any(&[2]), 5, (), offsets, 0]]
        }
        _ => vec![],
    };
    fn segment_spread(&self, size: i64, lengths: Option<&Tensor>, offsets: Option<&Tensor>, axis: i64) -> Tensor
        [self, size, lengths, offsets, axis];
}

op! {
    /// Segments along an axis reduced (`sum`, `prod`, `mean`, `max` or `min`) to one element each: of the given lengths, or
    /// between the given offsets.
    segment_reduce: "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
        Out OUT: "segment_reduce.out(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured {
        plan: plan!(plan; data, reduce, lengths, indices, offsets, axis, is_unsafe, initial),
        run: run!(run; data, reduce, lengths, indices, offsets, axis, is_unsafe, initial),
    };
    derivative: backward! {
        data(g, data: Tensor, reduce: String, lengths: Option<Tensor>, offsets: Option<Tensor>, axis: i64, initial: Option<Scalar>, result: Tensor) => {
            let (lengths, offsets) = (lengths.as_ref(), offsets.as_ref());
            Call { data: &data, result: &result, reduce: &reduce, lengths, offsets, axis, initial }.gradient(g)?
        }
    };
    samples: |m| match (m.dtype.is_floating_point(), Tensor::from_slice(&[2i64, 0, 3])) {
        (true, Ok(lengths)) => ["sum", "prod", "mean", "max", "min"]
            .map(|how| sample![m.any(&[5, 2]), how, lengths.clone(), (), (), 0, false, Scalar::Float(0.5)])
            .to_vec(),
        _ => vec![],
    };
    ulp: 8.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[segment_reduce::ALL, segment_spread::ALL];
