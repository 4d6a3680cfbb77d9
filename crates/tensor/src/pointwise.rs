//! The pointwise engine of the tensor layer: promotion, broadcasting, output allocation and overlap checks around the
//! strips of `flambeau_cpu::pointwise`. Every pointwise operator in every form runs through [`kernel`].

use crate::dims::{self, Dims};
use crate::dispatch::{
    Overlap, check_count, check_distinct, check_meta_target, check_same_device, overlap, overlaps, resize_output,
};
use crate::keys::{Key, KeySet};
use crate::op::{Body, Form, Op};
use crate::out::Write;
use crate::promotion::{self, Promotion};
use crate::value::{Operand, Outputs, OwnedOperand, Value, missing, wrong_argument};
use crate::{DType, Device, Error, Result, Scalar, Tensor, ensure};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::storage::{LockSet, ReadLocks};
use flambeau_cpu::math::Level;
use flambeau_cpu::pointwise::{MAX_OPERANDS, MAX_PARAMS, Strip, StripArgs};
use smallvec::SmallVec;

/// The scalar parameters of a call.
pub type Params = [Scalar; MAX_PARAMS];
/// No parameters.
pub const NO_PARAMS: Params = [Scalar::Int(0); MAX_PARAMS];

/// A pointwise operator: a function of `arity` elements, written once.
pub struct Pointwise {
    /// How many of the first arguments are operands (tensors, or numbers in their place).
    pub arity: usize,
    /// Which dtype it is computed in and gives.
    pub promotion: Promotion,
    /// The CPU strip for a compute dtype, or `None` where the operator is not defined.
    pub strips: fn(DType, Level) -> Option<Strip>,
    /// Scalar parameters from the arguments after the operands, for the dtype that the operands promote to.
    pub params: fn(&[Value<'_>], DType) -> Result<Params>,
    /// The expression per group of dtypes, as text: for kernels that are compiled at run time.
    pub text: &'static [(&'static str, &'static str)],
    /// The name in PyTorch's "not implemented for" message, when it is not the operator's.
    pub cpu_name: &'static str,
}

impl Pointwise {
    /// The dtypes it can be computed in.
    pub fn supported(&self) -> impl Iterator<Item = DType> + '_ {
        DType::ALL.into_iter().filter(|d| (self.strips)(d.compute(), Level::Baseline).is_some())
    }
}

/// Reads the arguments after the operands as numbers; those that a call ends before are zero.
///
/// # Errors
/// When one is not a number.
pub fn any_params(args: &[Value<'_>]) -> Result<Params> {
    let mut params = NO_PARAMS;
    for (p, a) in params.iter_mut().zip(args) {
        *p = match a {
            Value::Scalar(s) => *s,
            Value::Float(f) => Scalar::Float(*f),
            Value::Int(i) => Scalar::Int(*i),
            Value::Bool(b) => Scalar::Bool(*b),
            v => return Err(crate::value::expected("Number", *v)),
        };
    }
    Ok(params)
}

/// As [`any_params`], for numbers that `dtype` must be able to hold; halves round them.
///
/// # Errors
/// When one is not a number, or outside the dtype's range.
pub fn scalar_params(args: &[Value<'_>], dtype: DType) -> Result<Params> {
    if args.is_empty() {
        return Ok(NO_PARAMS);
    }
    let mut params = any_params(args)?;
    for p in &mut params {
        *p = p.fit(dtype)?.rounded(dtype);
    }
    Ok(params)
}

/// As [`scalar_params`], for numbers that are used in the dtype computed in: those of halves may be as large as an `f32`.
///
/// # Errors
/// When one is not a number, or outside the dtype's range.
pub fn compute_params(args: &[Value<'_>], dtype: DType) -> Result<Params> {
    scalar_params(args, dtype.compute())
}

/// A number in a strip's dtype, with room for any.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Slot([u8; 16]);

fn slot(dtype: DType, s: Scalar) -> Slot {
    let mut slot = Slot([0; 16]);
    flambeau_base::dispatch!(dtype, T => {
        let x = <T as crate::Element>::from_scalar(s);
        // SAFETY: 16 bytes aligned to 16 hold any element.
        unsafe { (slot.0.as_mut_ptr() as *mut T).write(x) }
    });
    slot
}

/// Every form of every pointwise operator on the CPU and Meta.
pub(crate) fn kernel(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let Body::Pointwise(pointwise) = op.functional().body else {
        return Err(Error::runtime(format!("{} is not pointwise", op.full_name())));
    };
    if let Some(out) = small(op, pointwise, keys, args)? {
        return Ok(Outputs::One(out));
    }
    let arity = pointwise.arity;
    if args.len() < arity {
        return Err(missing(op, args.len()));
    }
    let narrowed: SmallVec<[OwnedOperand; MAX_OPERANDS]>;
    let mut operands: SmallVec<[Operand<'_>; MAX_OPERANDS]> = SmallVec::new();
    for (i, a) in args[..arity].iter().enumerate() {
        operands.push(crate::value::FromValue::from_value(*a).map_err(|e: Error| wrong_argument(op, i, e))?);
    }
    let form = match op.body {
        Body::Variant(Form::Overload, _) => None,
        Body::Variant(form, _) => Some(form),
        _ => None,
    };
    let (target, rest) = match form {
        None | Some(Form::Overload) => (None, &args[arity..]),
        Some(Form::InPlace) => (Some(args[0]), &args[arity..]),
        Some(Form::Out) => {
            check_count(op, args)?;
            (args.last().copied(), &args[arity..args.len() - 1])
        }
    };
    let target = match target {
        None => None,
        Some(Value::Tensor(t)) => Some(t),
        Some(v) => {
            let at = op.mutated().trailing_zeros() as usize;
            return Err(wrong_argument(op, at, crate::value::expected("Tensor", v)));
        }
    };
    let common = promotion::common_dtype(&pointwise.promotion, &operands)?;
    // (Parameters first, as in `small`: what is wrong with them is said of few and of many elements.)
    let params = (pointwise.params)(rest, common)?;
    let strip = (pointwise.strips)(common.compute(), flambeau_cpu::math::level())
        .ok_or_else(|| unsupported(op, pointwise, common))?;
    if common != common.compute() && !operands.iter().all(|o| matches!(o, Operand::Tensor(t) if t.dtype() == common)) {
        narrowed = narrow(&pointwise.promotion, &operands, common)?;
        operands.clear();
        for o in &narrowed {
            operands.push(match o {
                OwnedOperand::Tensor(t) => Operand::Tensor(t),
                OwnedOperand::Scalar(s) => Operand::Scalar(*s),
            });
        }
    }
    let result_dtype = promotion::result_dtype(common, strip.out);
    ensure!(
        !(form == Some(Form::InPlace) && common.is_complex() && result_dtype.is_floating_point()),
        "In-place {} is not supported for complex tensors.",
        op.functional().name()
    );

    let shape = Shape::of(&operands)?;
    let meta = keys.has(Key::META);
    let out = match target {
        None => {
            let device = if meta { meta_device(&operands)? } else { device_of(&operands) };
            match shape.output_strides(&operands) {
                None => Tensor::fresh(device, result_dtype, dims::copy(&shape.sizes))?,
                Some(strides) => Tensor::fresh_strided(device, result_dtype, dims::copy(&shape.sizes), strides)?,
            }
        }
        Some(t) => {
            if meta {
                check_meta_target(t)?;
            }
            let fits = t.sizes() == &shape.sizes[..];
            // Where both are wrong, the shape is what is named.
            ensure!(
                fits || form == Some(Form::Out),
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                t.sizes(),
                &shape.sizes[..]
            );
            check_distinct(t)?;
            // Where nothing is computed, what kernels cannot write does not matter.
            match form {
                Some(Form::Out) if !meta => {
                    let (op, inputs) = (op.functional(), &args[..args.len() - 1]);
                    let write = Write { op, inputs, output: 0, result: result_dtype, out: t.dtype() };
                    op.out_rule.check(&write)?;
                }
                _ => crate::out::castable(result_dtype, t.dtype())?,
            }
            let t = match fits {
                true => t.clone(),
                false => resize_output(t, &shape.sizes, shape.output_strides(&operands).as_deref())?,
            };
            check_overlap(&t, &operands)?;
            t
        }
    };
    if meta || out.numel() == 0 {
        return Ok(Outputs::One(out));
    }
    check_devices(&operands, &out)?;
    run(strip, common.compute(), params, &shape, &operands, &out, target.is_none())?;
    Ok(Outputs::One(out))
}

/// A strip of one operand, of its dtype, over a tensor on the CPU: for a function that is part of an operator.
///
/// # Errors
/// When there is no memory for the result.
pub(crate) fn map_one(strip: Strip, x: &Tensor) -> Result<Tensor> {
    let operands = [Operand::Tensor(x)];
    let shape = Shape::of(&operands)?;
    let out = match shape.output_strides(&operands) {
        None => Tensor::fresh(x.device(), strip.out, dims::copy(&shape.sizes))?,
        Some(strides) => Tensor::fresh_strided(x.device(), strip.out, dims::copy(&shape.sizes), strides)?,
    };
    if out.numel() > 0 {
        run(strip, x.dtype(), NO_PARAMS, &shape, &operands, &out, true)?;
    }
    Ok(out)
}

/// The commonest call by far, without the general one's bookkeeping: few elements, one dtype, one shape, all dense and on
/// the CPU, at most one operand a number that does not promote, and a fresh result or the first operand for one. `None` for
/// any other call. (It fills in the strip's arguments itself: sharing that with [`run`] was measured at 97 ns to 115 for `add`
/// of two numbers.)
#[inline]
fn small(op: &'static Op, pointwise: &Pointwise, keys: KeySet, args: &[Value<'_>]) -> Result<Option<Tensor>> {
    let (Some(Value::Tensor(first)), true) = (args.first(), args.len() >= pointwise.arity) else { return Ok(None) };
    let dtype = first.dtype();
    let fits = first.is_contiguous() && first.numel() <= flambeau_base::iter::GRAIN as i64 && first.numel() > 0;
    let in_place = matches!(op.body, Body::Variant(Form::InPlace, _));
    let served = in_place || matches!(op.body, Body::Pointwise(_) | Body::Variant(Form::Overload, _));
    let plain = keys == KeySet::of(Key::CPU) && dtype.compute() == dtype;
    if !(fits && served && plain && FastPath::PointwiseSmall.is_on()) {
        return Ok(None);
    }
    let (operands, rest) = args.split_at(pointwise.arity);
    let mut number = None;
    for a in &operands[1..] {
        match a {
            // What is written in place is another tensor's, if at all, element by element.
            Value::Tensor(t) if in_place && t.data_ptr() != first.data_ptr() && t.storage().same(first.storage()) => {
                return Ok(None);
            }
            Value::Tensor(t) if t.dtype() == dtype && dims::same(&t.0.sizes, &first.0.sizes) && t.is_contiguous() => {}
            Value::Scalar(s) if number.is_none() && promotion::result_type_with(first, *s) == dtype => {
                number = Some(*s)
            }
            _ => return Ok(None),
        }
    }
    match pointwise.promotion {
        Promotion::Common | Promotion::KeepNumbers(Promotion::Common) => {}
        Promotion::Float | Promotion::KeepNumbers(Promotion::Float) if dtype.is_differentiable() => {}
        _ => return Ok(None),
    }
    let params = (pointwise.params)(rest, dtype)?;
    let Some(strip) = (pointwise.strips)(dtype, flambeau_cpu::math::level()) else { return Ok(None) };
    let out = match in_place {
        true if strip.out != dtype => return Ok(None),
        true => Tensor::clone(first),
        false => Tensor::fresh_like(first, Device::CPU, strip.out)?,
    };
    // An output that is nobody else's yet needs no lock.
    let (_two, _more);
    match operands {
        [_, Value::Tensor(second)] if !in_place => _two = ReadLocks::new(first.storage(), Some(second.storage()))?,
        [_] | [_, _] if !in_place => _two = ReadLocks::new(first.storage(), None)?,
        _ => {
            _more = LockSet::new(operands.iter().enumerate().filter_map(|(k, o)| match o {
                Value::Tensor(t) => Some((t.storage(), in_place && k == 0)),
                _ => None,
            }))?
        }
    }
    let mut number = number.map(|s| slot(dtype, s));
    let mut strip_args = StripArgs {
        data: [out.data_ptr(); MAX_OPERANDS],
        strides: [strip.out.size() as isize; MAX_OPERANDS],
        n: out.numel() as usize,
        rows: 1,
        row_strides: [0; MAX_OPERANDS],
        streams: false,
        params,
    };
    for (k, o) in operands.iter().enumerate() {
        (strip_args.data[k + 1], strip_args.strides[k + 1]) = match (o, &mut number) {
            (Value::Tensor(t), _) => (t.data_ptr(), dtype.size() as isize),
            (_, Some(slot)) => (slot.0.as_mut_ptr(), 0),
            // Every operand is one or the other, by the checks above.
            _ => return Ok(None),
        };
    }
    // SAFETY: every operand is dense with `n` elements of the strip's dtype, or one such number; all are locked or ours.
    unsafe { (strip.run)(strip_args) };
    Ok(Some(out))
}

/// The operands of a computation in halves as its dtype holds them.
fn narrow(
    promotion: &Promotion,
    operands: &[Operand<'_>],
    dtype: DType,
) -> Result<SmallVec<[OwnedOperand; MAX_OPERANDS]>> {
    let keep = matches!(promotion, Promotion::KeepNumbers(_));
    let one = |(i, o): (usize, &Operand<'_>)| {
        Ok(match *o {
            Operand::Tensor(t) if t.dtype() == dtype || (keep && i > 0 && t.dim() == 0) => {
                OwnedOperand::Tensor(t.clone())
            }
            Operand::Tensor(t) => OwnedOperand::Tensor(t.to_dtype(dtype)?),
            Operand::Scalar(s) if keep && i > 0 => OwnedOperand::Scalar(s),
            Operand::Scalar(s) => OwnedOperand::Scalar(s.rounded(dtype)),
        })
    };
    operands.iter().enumerate().map(one).collect()
}

#[cold]
fn unsupported(op: &'static Op, pointwise: &Pointwise, dtype: DType) -> Error {
    let supported: Vec<&str> = pointwise.supported().map(|d| d.name()).collect();
    let name = if pointwise.cpu_name.is_empty() { op.functional().name() } else { pointwise.cpu_name };
    Error::not_implemented(format!(
        "\"{name}\" not implemented for '{}' (it is for: {})",
        dtype.scalar_type_name(),
        supported.join(", ")
    ))
}

fn device_of(operands: &[Operand<'_>]) -> Device {
    let mut device = Device::CPU;
    for o in operands {
        if let Operand::Tensor(t) = o {
            device = t.device();
            if t.dim() > 0 {
                break;
            }
        }
    }
    device
}

/// Meta, if that is where all operands are, but for numbers in tensors of the CPU.
fn meta_device(operands: &[Operand<'_>]) -> Result<Device> {
    let tensors = || operands.iter().filter_map(|o| if let Operand::Tensor(t) = o { Some(*t) } else { None });
    let expected = tensors().find(|t| t.dim() > 0).map_or(Device::META, Tensor::device);
    for t in tensors() {
        ensure!(
            t.device().kind == expected.kind || (t.device().is_cpu() && t.dim() == 0),
            "Tensor on device {} is not on the expected device {expected}!",
            t.device()
        );
    }
    Ok(Device::META)
}

fn check_devices(operands: &[Operand<'_>], out: &Tensor) -> Result<()> {
    operands.iter().try_for_each(|o| match o {
        Operand::Tensor(t) => check_same_device(out, t.device()),
        Operand::Scalar(_) => Ok(()),
    })
}

/// The broadcast shape of a call.
struct Shape {
    sizes: Dims,
    /// All tensor operands have exactly these sizes.
    same: bool,
    /// And are row-major.
    contiguous: bool,
}

impl Shape {
    #[inline]
    fn of(operands: &[Operand<'_>]) -> Result<Shape> {
        let mut shape: Option<Shape> = None;
        for o in operands {
            let Operand::Tensor(t) = o else { continue };
            match &mut shape {
                None => {
                    shape = Some(Shape { sizes: dims::copy(&t.0.sizes), same: true, contiguous: t.is_contiguous() });
                }
                Some(s) if s.sizes == t.0.sizes => s.contiguous &= t.is_contiguous(),
                Some(s) => {
                    s.sizes = dims::broadcast(&s.sizes, t.sizes())?;
                    (s.same, s.contiguous) = (false, false);
                }
            }
        }
        Ok(shape.unwrap_or(Shape { sizes: Dims::new(), same: true, contiguous: true }))
    }

    /// The strides a fresh output takes: those of dense inputs that agree, else dense in the inputs' order of dims;
    /// `None` is row-major.
    fn output_strides(&self, operands: &[Operand<'_>]) -> Option<Dims> {
        if self.contiguous || self.sizes.len() < 2 {
            return None;
        }
        let tensors = || {
            operands.iter().filter_map(|o| match o {
                Operand::Tensor(t) => Some(*t),
                Operand::Scalar(_) => None,
            })
        };
        if self.same {
            let first = tensors().next()?;
            if first.is_non_overlapping_and_dense() && tensors().all(|t| t.strides() == first.strides()) {
                return Some(dims::copy(&first.0.strides));
            }
        }
        let strides: SmallVec<[Dims; MAX_OPERANDS]> =
            tensors().map(|t| dims::ordering_strides(t.sizes(), t.strides(), &self.sizes)).collect();
        let lists: SmallVec<[&[i64]; MAX_OPERANDS]> = strides.iter().map(|s| &s[..]).collect();
        Some(dims::strides_in_order(&self.sizes, &operand_order(&self.sizes, &lists)))
    }
}

/// The dims from innermost to outermost as several operands' strides order them: the first operand that can tell two
/// dims apart decides.
pub(crate) fn operand_order(sizes: &[i64], operands: &[&[i64]]) -> SmallVec<[usize; 5]> {
    let mut order: SmallVec<[usize; 5]> = (0..sizes.len()).rev().collect();
    // -1: `a` stays inside `b`; 1: they swap; 0: this operand cannot tell.
    let compare = |a: usize, b: usize| -> i32 {
        for strides in operands {
            let (x, y) = (strides[a], strides[b]);
            if x == 0 || y == 0 {
                continue;
            }
            if x != y {
                return if x < y { -1 } else { 1 };
            }
            if sizes[a] > sizes[b] {
                return 1;
            }
        }
        0
    };
    for i in 1..order.len() {
        let mut at = i;
        for j in (0..i).rev() {
            match compare(order[j], order[at]) {
                1 => {
                    order.swap(j, at);
                    at = j;
                }
                -1 => break,
                _ => {}
            }
        }
    }
    order
}

/// An output may be an input exactly, or apart from it; anything between would read what it has written.
fn check_overlap(out: &Tensor, operands: &[Operand<'_>]) -> Result<()> {
    for o in operands {
        let Operand::Tensor(t) = o else { continue };
        if overlap(t, out) == Overlap::Partial {
            return Err(overlaps());
        }
    }
    Ok(())
}

fn run(
    strip: Strip,
    compute: DType,
    params: Params,
    shape: &Shape,
    operands: &[Operand<'_>],
    out: &Tensor,
    fresh: bool,
) -> Result<()> {
    let mut slots = [Slot([0; 16]); MAX_OPERANDS];
    let tensors = operands.iter().filter_map(|o| match o {
        Operand::Tensor(t) => Some((t.storage(), false)),
        Operand::Scalar(_) => None,
    });
    // A fresh output is nobody else's: it needs no lock.
    let _locks = match fresh {
        true => LockSet::new(tensors)?,
        false => LockSet::new(tensors.chain([(out.storage(), true)]))?,
    };
    let n = operands.len() + 1;
    // Small and dense: straight to the strip.
    if shape.contiguous
        && out.is_contiguous()
        && out.numel() <= flambeau_base::iter::GRAIN as i64
        && out.dtype() == strip.out
    {
        let mut args = row_args(out, out.numel(), params);
        let direct = operands.iter().enumerate().all(|(k, o)| match o {
            Operand::Tensor(t) => {
                args.data[k + 1] = t.data_ptr();
                args.strides[k + 1] = compute.size() as isize;
                t.dtype() == compute
            }
            Operand::Scalar(s) => {
                slots[k] = slot(compute, *s);
                args.data[k + 1] = slots[k].0.as_mut_ptr();
                args.strides[k + 1] = 0;
                true
            }
        });
        if direct {
            // SAFETY: every operand is dense with `n` elements of the strip's dtypes, and locked or fresh.
            unsafe { (strip.run)(args) };
            return Ok(());
        }
    }
    if few_rows(strip, compute, params, shape, operands, out, &mut slots) {
        return Ok(());
    }
    let mut strides: SmallVec<[SmallVec<[isize; 5]>; MAX_OPERANDS]> = SmallVec::new();
    let bytes = |strides: &[i64], dtype: DType| -> SmallVec<[isize; 5]> {
        strides.iter().map(|s| *s as isize * dtype.size() as isize).collect()
    };
    strides.push(bytes(out.strides(), out.dtype()));
    for o in operands {
        strides.push(match o {
            Operand::Tensor(t) => bytes(&dims::broadcast_strides(t.sizes(), t.strides(), &shape.sizes)?, t.dtype()),
            Operand::Scalar(_) => SmallVec::from_elem(0, shape.sizes.len()),
        });
    }
    let mut list: SmallVec<[flambeau_cpu::pointwise::Operand<'_>; MAX_OPERANDS]> = SmallVec::new();
    list.push(flambeau_cpu::pointwise::Operand { data: out.data_ptr(), strides: &strides[0], dtype: out.dtype() });
    for (k, o) in operands.iter().enumerate() {
        list.push(match o {
            Operand::Tensor(t) => {
                flambeau_cpu::pointwise::Operand { data: t.data_ptr(), strides: &strides[k + 1], dtype: t.dtype() }
            }
            Operand::Scalar(s) => {
                slots[k] = slot(compute, *s);
                flambeau_cpu::pointwise::Operand {
                    data: slots[k].0.as_mut_ptr(),
                    strides: &strides[k + 1],
                    dtype: compute,
                }
            }
        });
    }
    debug_assert_eq!(list.len(), n);
    // SAFETY: geometry was checked when the tensors were made, and the storages are locked (or fresh). Of views with gaps the
    // output may overlap an input partly, which a strip allows.
    unsafe { flambeau_cpu::pointwise::run(strip, compute, params, &shape.sizes, &list) };
    Ok(())
}

/// One dense row of `n` elements, the operands still to be filled in.
#[inline(always)]
fn row_args(out: &Tensor, n: i64, params: Params) -> StripArgs {
    StripArgs {
        data: [out.data_ptr(); MAX_OPERANDS],
        strides: [out.dtype().size() as isize; MAX_OPERANDS],
        n: n as usize,
        rows: 1,
        row_strides: [0; MAX_OPERANDS],
        streams: false,
        params,
    }
}

/// Runs a call with few rows of few elements, of the strip's dtypes, row by row: to make an iterator takes longer than they
/// do. `false` for any other call. The caller has locked the operands.
fn few_rows(
    strip: Strip,
    compute: DType,
    params: Params,
    shape: &Shape,
    operands: &[Operand<'_>],
    out: &Tensor,
    slots: &mut [Slot; MAX_OPERANDS],
) -> bool {
    const MOST_ROWS: i64 = 16;
    const MOST_COLUMNS: i64 = 64;
    let (rows, columns) = match shape.sizes[..] {
        [columns] => (1, columns),
        [rows, columns] => (rows, columns),
        _ => return false,
    };
    let right = |o: &Operand<'_>| !matches!(o, Operand::Tensor(t) if t.dtype() != compute);
    let few = rows <= MOST_ROWS && columns <= MOST_COLUMNS && out.dtype() == strip.out && operands.iter().all(right);
    if !few || !FastPath::PointwiseFewRows.is_on() {
        return false;
    }
    let mut args = row_args(out, columns, params);
    // The distance of two neighbours along the `back`th dim from the end: none where one element serves all.
    let stride = |t: &Tensor, back: usize| match t.dim().checked_sub(back) {
        Some(d) if t.sizes()[d] != 1 => t.strides()[d] as isize * t.dtype().size() as isize,
        _ => 0,
    };
    (args.strides[0], args.row_strides[0]) = (stride(out, 1), stride(out, 2));
    for (k, o) in operands.iter().enumerate() {
        match o {
            Operand::Tensor(t) => {
                args.data[k + 1] = t.data_ptr();
                (args.strides[k + 1], args.row_strides[k + 1]) = (stride(t, 1), stride(t, 2));
            }
            Operand::Scalar(s) => {
                slots[k] = slot(compute, *s);
                (args.data[k + 1], args.strides[k + 1]) = (slots[k].0.as_mut_ptr(), 0);
            }
        }
    }
    if strip.rows {
        args.rows = rows as usize;
        // SAFETY: every operand has `rows` rows of `n` elements of the strip's dtypes, and is locked or fresh.
        unsafe { (strip.run)(args) };
        return true;
    }
    for row in 0..rows as isize {
        let mut now = args;
        now.data.iter_mut().zip(&args.row_strides).for_each(|(p, s)| *p = p.wrapping_offset(row * s));
        // SAFETY: as above, one row.
        unsafe { (strip.run)(now) };
    }
    true
}
