//! Making tensors: uninitialised, constant, and like another.

use crate::{Body, DType, Device, Dims, Layout, MemoryFormat, Op, Result, Scalar, Tensor, Value, default_dtype};
use crate::{dims, sample};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The dtype and device of a tensor to make; what is left open takes the default (or the model's, in the `_like`s).
#[derive(Clone, Copy, Default, Debug)]
pub struct TensorOptions {
    /// The dtype.
    pub dtype: Option<DType>,
    /// The device.
    pub device: Option<Device>,
}

impl TensorOptions {
    /// Dtype and device, where they are left open the default ones.
    pub(super) fn or_default(self) -> (DType, Device) {
        (self.dtype.unwrap_or_else(default_dtype), self.device.unwrap_or_default())
    }
}

impl From<DType> for TensorOptions {
    fn from(dtype: DType) -> Self {
        TensorOptions { dtype: Some(dtype), device: None }
    }
}
impl From<Device> for TensorOptions {
    fn from(device: Device) -> Self {
        TensorOptions { dtype: None, device: Some(device) }
    }
}
impl From<(DType, Device)> for TensorOptions {
    fn from((dtype, device): (DType, Device)) -> Self {
        TensorOptions { dtype: Some(dtype), device: Some(device) }
    }
}
impl From<()> for TensorOptions {
    fn from(_: ()) -> Self {
        TensorOptions::default()
    }
}

/// What factory schemas call `layout`, `pin_memory`: accepted, and refused where they ask for what is not there.
pub(crate) fn check_layout(layout: Option<Layout>) -> Result<()> {
    crate::ensure!(
        layout.is_none_or(|l| l == Layout::Strided),
        "only the strided layout is supported here, not {layout:?}"
    );
    Ok(())
}

/// Zeros of another layout than strided, if the call asks for one.
fn without_entries(op: &'static Op, args: &[Value<'_>]) -> Result<Option<crate::Outputs>> {
    let layout = match args.get(2) {
        Some(Value::Layout(layout)) if *layout != Layout::Strided => *layout,
        _ => return Ok(None),
    };
    let options = TensorOptions { dtype: crate::value::take(op, args, 1)?, device: crate::value::take(op, args, 3)? };
    let (dtype, device) = options.or_default();
    let size: &[i64] = crate::value::take(op, args, 0)?;
    crate::sparse::empty(layout, size, size.len(), dtype, device).map(|t| Some(t.into()))
}

/// Whether new memory that is asked for by itself is filled: see [`set_fill_uninitialized`].
static FILLS: AtomicBool = AtomicBool::new(false);

/// From now on, in all threads, tensors of [`Tensor::empty`] and its like, and what [`Tensor::resize_`] adds, hold NaN, the
/// greatest integer or `true`, so that a program that reads what it did not write gives the same from run to run. Or no more.
pub fn set_fill_uninitialized(fill: bool) {
    FILLS.store(fill, Relaxed);
}

/// Whether [`set_fill_uninitialized`] has asked for it.
#[inline(always)]
pub(crate) fn fills() -> bool {
    FILLS.load(Relaxed)
}

/// A tensor of new memory, filled if that is asked for.
#[inline(always)]
fn filled(t: Tensor) -> Result<Tensor> {
    if fills() { fill_new(t) } else { Ok(t) }
}

/// Fills new memory as [`set_fill_uninitialized`] says.
#[cold]
pub(crate) fn fill_new(t: Tensor) -> Result<Tensor> {
    if t.device().is_meta() || t.numel() == 0 {
        return Ok(t);
    }
    let value = if t.dtype().is_complex() {
        Scalar::Complex(crate::Complex64::new(f64::NAN, f64::NAN))
    } else if t.dtype().is_floating_point() {
        Scalar::Float(f64::NAN)
    } else {
        let (_, _, greatest) = super::random::integer_range(t.dtype());
        i64::try_from(greatest).map_or(Scalar::UInt(greatest as u64), Scalar::Int)
    };
    t.fill_(value).map(Tensor::unwritten)
}

fn empty_any(
    size: &[i64],
    options: TensorOptions,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    dims::checked_numel(size)?;
    let (dtype, device) = options.or_default();
    match format {
        None | Some(MemoryFormat::Contiguous) => filled(Tensor::fresh(device, dtype, Dims::from_slice(size))?),
        Some(MemoryFormat::Preserve) => crate::dims::strides_for(size, MemoryFormat::Contiguous)
            .and_then(|_| Err(crate::Error::runtime("unsupported memory format option Preserve"))),
        Some(format) => {
            filled(Tensor::fresh_strided(device, dtype, Dims::from_slice(size), dims::strides_for(size, format)?)?)
        }
    }
}

op! {
    /// An uninitialised tensor of the given sizes.
    empty: "empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor";
    Body::AnyBackend(|op, keys, args| match without_entries(op, args)? {
        None => kernel!(empty_any; size, options, format)(op, keys, args),
        Some(t) => Ok(t),
    });
    samples: |m| vec![sample![vec![0i64, 3], m.dtype]];
}

fn empty_strided_any(
    size: &[i64],
    stride: &[i64],
    options: TensorOptions,
) -> Result<Tensor> {
    dims::checked_numel(size)?;
    crate::ensure!(
        size.len() == stride.len(),
        "dimensionality of sizes ({}) must match dimensionality of strides ({})",
        size.len(),
        stride.len()
    );
    crate::ensure!(stride.iter().all(|&s| s >= 0), "empty_strided: negative strides are not supported: {stride:?}");
    let (dtype, device) = options.or_default();
    filled(Tensor::fresh_strided(device, dtype, Dims::from_slice(size), Dims::from_slice(stride))?)
}

op! {
    /// An uninitialised tensor of the given sizes and strides.
    empty_strided: "empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::AnyBackend(kernel!(empty_strided_any; size, stride, options));
    samples: |m| vec![sample![vec![0i64, 3], vec![1i64, 1], m.dtype]];
}

fn empty_like_any(
    x: &Tensor,
    options: TensorOptions,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let (dtype, device) = (options.dtype.unwrap_or(x.dtype()), options.device.unwrap_or(x.device()));
    let sizes = Dims::from_slice(x.sizes());
    let strides = match format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve => dims::preserved_strides(&sizes, x.strides()),
        format => dims::strides_for(&sizes, format)?,
    };
    filled(Tensor::fresh_strided(device, dtype, sizes, strides)?)
}

op! {
    /// An uninitialised tensor with the sizes, dtype, device and memory order of another.
    empty_like: "empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor";
    Body::AnyBackend(kernel!(empty_like_any; x, options, format));
    samples: |m| vec![sample![m.any(&[0, 3])]];
    fn empty_like(&self) -> Tensor [self];
}

fn full_any(
    size: &[i64],
    value: Scalar,
    options: TensorOptions,
) -> Result<Tensor> {
    let dtype = options.dtype.unwrap_or_else(|| DType::of_scalar(&value, default_dtype()));
    empty_any(size, TensorOptions { dtype: Some(dtype), ..options }, None)?.fill_(value).map(Tensor::unwritten)
}

op! {
    /// A tensor of the given sizes with one value everywhere. Without a dtype it takes the value's.
    full: "full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(full_any; size, value, options));
    samples: |m| vec![sample![vec![2i64, 3], Scalar::Float(2.5), m.dtype], sample![Vec::<i64>::new(), Scalar::Int(1), m.dtype]];
}

fn zeros_any(
    size: &[i64],
    options: TensorOptions,
) -> Result<Tensor> {
    let meta = options.device.is_some_and(|d| d.is_meta());
    crate::ensure!(meta || size.iter().all(|s| *s >= 0), "zeros: Dimension size must be non-negative.");
    empty_any(size, options, None)?.zero_().map(Tensor::unwritten)
}

op! {
    /// A tensor of zeros.
    zeros: "zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(|op, keys, args| match without_entries(op, args)? {
        None => kernel!(zeros_any; size, options)(op, keys, args),
        Some(t) => Ok(t),
    });
    samples: |m| vec![sample![vec![2i64, 3], m.dtype]];
}

fn ones_any(
    size: &[i64],
    options: TensorOptions,
) -> Result<Tensor> {
    empty_any(size, options, None)?.fill_(Scalar::Int(1)).map(Tensor::unwritten)
}

op! {
    /// A tensor of ones.
    ones: "ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Composite(kernel!(ones_any; size, options));
    samples: |m| vec![sample![vec![2i64, 3], m.dtype]];
}

fn zeros_like_any(
    x: &Tensor,
    options: TensorOptions,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    empty_like_any(x, options, format)?.zero_().map(Tensor::unwritten)
}

op! {
    /// Zeros with the sizes, dtype, device and memory order of another tensor.
    zeros_like: "zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor";
    Body::Explicit(kernel!(zeros_like_any; x, options, format));
    samples: |m| vec![sample![m.any(&[2, 3])]];
    fn zeros_like(&self) -> Tensor [self];
}

fn ones_like_any(
    x: &Tensor,
    options: TensorOptions,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    empty_like_any(x, options, format)?.fill_(Scalar::Int(1)).map(Tensor::unwritten)
}

op! {
    /// Ones with the sizes, dtype, device and memory order of another tensor.
    ones_like: "ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor";
    Body::Explicit(kernel!(ones_like_any; x, options, format));
    samples: |m| vec![sample![m.any(&[2, 3])]];
    fn ones_like(&self) -> Tensor [self];
}

fn full_like_any(
    x: &Tensor,
    value: Scalar,
    options: TensorOptions,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    empty_like_any(x, options, format)?.fill_(value).map(Tensor::unwritten)
}

op! {
    /// One value everywhere, with the sizes, dtype, device and memory order of another tensor.
    full_like: "full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor";
    Body::Explicit(kernel!(full_like_any; x, value, options, format));
    samples: |m| vec![sample![m.any(&[2, 3]), Scalar::Float(2.5)]];
    fn full_like(&self, value: impl Into<Scalar>) -> Tensor [self, value.into()];
}

/// An `out=` tensor in a factory's sizes; it keeps its dtype.
pub(super) fn sized(size: &[i64], out: &Tensor) -> Result<Tensor> {
    dims::checked_numel(size)?;
    if out.sizes() == size { Ok(out.clone()) } else { crate::dispatch::resize_output(out, size, None) }
}
fn full_out_any(size: &[i64], value: Scalar, out: &Tensor) -> Result<Tensor> {
    sized(size, out)?.fill_(value)
}
fn zeros_out_any(size: &[i64], out: &Tensor) -> Result<Tensor> {
    sized(size, out)?.zero_()
}
fn ones_out_any(size: &[i64], out: &Tensor) -> Result<Tensor> {
    sized(size, out)?.fill_(Scalar::Int(1))
}

fn empty_out_any(size: &[i64], format: Option<MemoryFormat>, out: &Tensor) -> Result<Tensor> {
    crate::ensure!(format.is_none(), "'memory_format' argument is incompatible with 'out' tensor argument");
    sized(size, out)
}

op! {
    /// `out` in the given sizes, with whatever was there.
    empty_out: "empty.out(SymInt[] size, *, MemoryFormat? memory_format=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(empty_out_any; size, format, out));
}
op! {
    /// One value everywhere in `out`, which takes the given sizes and keeps its dtype.
    full_out: "full.out(SymInt[] size, Scalar fill_value, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(full_out_any; size, value, out));
}
op! {
    /// Zeros in `out`, which takes the given sizes and keeps its dtype.
    zeros_out: "zeros.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(zeros_out_any; size, out));
}
op! {
    /// Ones in `out`, which takes the given sizes and keeps its dtype.
    ones_out: "ones.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(ones_out_any; size, out));
}

// Factories take a dtype and a device in one argument, which the schema keeps apart: their methods are written out.
impl Tensor {
    /// An uninitialised tensor.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn empty(size: &[i64], options: impl Into<TensorOptions>) -> Result<Tensor> {
        factory(&empty::OP, &[size.into()], options.into())
    }
    /// A tensor of zeros.
    ///
    /// # Errors
    /// When a size is negative or memory runs out.
    pub fn zeros(size: &[i64], options: impl Into<TensorOptions>) -> Result<Tensor> {
        factory(&zeros::OP, &[size.into()], options.into())
    }
    /// A tensor of ones.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn ones(size: &[i64], options: impl Into<TensorOptions>) -> Result<Tensor> {
        factory(&ones::OP, &[size.into()], options.into())
    }
    /// A tensor with one value everywhere.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn full(size: &[i64], value: impl Into<Scalar>, options: impl Into<TensorOptions>) -> Result<Tensor> {
        factory(&full::OP, &[size.into(), value.into().into()], options.into())
    }
    /// An uninitialised tensor with the given strides.
    ///
    /// # Errors
    /// As [`Tensor::zeros`], and when a stride is negative.
    pub fn empty_strided(size: &[i64], strides: &[i64], options: impl Into<TensorOptions>) -> Result<Tensor> {
        factory(&empty_strided::OP, &[size.into(), strides.into()], options.into())
    }
}

/// Calls a factory: its own arguments, then dtype, layout and device.
pub(crate) fn factory(op: &'static Op, args: &[Value<'_>], options: TensorOptions) -> Result<Tensor> {
    let mut all: smallvec::SmallVec<[Value<'_>; 8]> = args.iter().copied().collect();
    all.extend([options.dtype.into(), Value::None, options.device.into()]);
    op.call(&all)?.one()
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    empty::ALL,
    empty_like::ALL,
    empty_out::ALL,
    empty_strided::ALL,
    full::ALL,
    full_like::ALL,
    full_out::ALL,
    ones::ALL,
    ones_like::ALL,
    ones_out::ALL,
    zeros::ALL,
    zeros_like::ALL,
    zeros_out::ALL,
];
