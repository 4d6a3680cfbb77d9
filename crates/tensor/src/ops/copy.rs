//! Copies and fills: between dtypes, devices and memory orders.

use crate::dispatch::{Overlap, overlap, overlaps};
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims};
use super::create::TensorOptions;
use crate::{Body, DType, Device, Error, MemoryFormat, Op, OwnedValue, Result, Scalar, Tensor, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use smallvec::SmallVec;

/// Strides in bytes. (They may overflow where there is nothing to step over.)
pub(crate) fn byte_strides(strides: &[i64], dtype: DType) -> SmallVec<[isize; 5]> {
    strides.iter().map(|s| (*s as isize).wrapping_mul(dtype.size() as isize)).collect()
}

fn check_copy(dst: &Tensor, src: &Tensor) -> Result<Dims> {
    ensure!(
        !dims::may_overlap(dst.sizes(), dst.strides()),
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please \
         clone() the tensor before performing the operation."
    );
    if dst.sizes() == src.sizes() {
        return Ok(Dims::from_slice(src.strides()));
    }
    if !dims::is_expandable_to(src.sizes(), dst.sizes()) {
        return Err(match dims::broadcast(dst.sizes(), src.sizes()) {
            Err(e) => e,
            Ok(shape) => Error::runtime(format!(
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                dst.sizes(),
                &shape[..]
            )),
        });
    }
    dims::broadcast_strides(src.sizes(), src.strides(), dst.sizes())
}

fn copy_cpu(dst: &Tensor, src: &Tensor, _non_blocking: bool) -> Result<Tensor> {
    let src_strides = check_copy(dst, src)?;
    ensure!(
        src.device().is_cpu() && dst.device().is_cpu(),
        "copy_: cannot copy from {} to {}",
        src.device(),
        dst.device()
    );
    if dst.numel() == 0 || src.is_set_to(dst) {
        return Ok(dst.clone());
    }
    if src.shares_storage_with(dst) {
        if overlap(src, dst) == Overlap::Partial {
            return Err(overlaps());
        }
        // They may overlap where it is not seen: go through a copy.
        let through = src.clone_in(MemoryFormat::Preserve)?;
        return copy_cpu(dst, &through, false);
    }
    let _locks = LockSet::new([(dst.storage(), true), (src.storage(), false)])?;
    // SAFETY: the geometry fits both storages, which are locked and not the same; the destination's elements are
    // distinct.
    unsafe {
        flambeau_cpu::copy::copy_strided(
            dst.sizes(),
            (dst.data_ptr(), &byte_strides(dst.strides(), dst.dtype()), dst.dtype()),
            (src.data_ptr(), &byte_strides(&src_strides, src.dtype()), src.dtype()),
        );
    }
    Ok(dst.clone())
}

fn copy_meta(dst: &Tensor, src: &Tensor, _non_blocking: bool) -> Result<Tensor> {
    check_copy(dst, src)?;
    match dst.device().is_meta() {
        true => Ok(dst.clone()),
        false => Err(Error::not_implemented("Cannot copy out of meta tensor; no data!")),
    }
}

op! {
    /// Copies the elements of `src`, broadcast and converted, into this tensor.
    copy_: "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)";
    Body::Kernels { cpu: kernel!(copy_cpu; dst, src, non_blocking), meta: kernel!(copy_meta; dst, src, non_blocking) };
    derivative: backward! { self_(g) => g.zeros_like()?, src(g, src: Geometry) => g.to_device(src.device)? };
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), false], sample![m.any(&[2, 3]), m.any(&[3]), false]];
    fn copy_(&self, src: &Tensor) -> Tensor [self, src, false];
}

fn clone_any(x: &Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
    let strides = match format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve => dims::preserved_strides(x.sizes(), x.strides()),
        format => dims::strides_for(x.sizes(), format)?,
    };
    Tensor::fresh_strided(x.device(), x.dtype(), Dims::from_slice(x.sizes()), strides)?.copy_(x)
}

op! {
    /// A copy with memory of its own, in the given memory format (by default the tensor's own order).
    clone: "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor";
    Body::Explicit(kernel!(clone_any; x, format));
    derivative: backward! { self_(g) => g.clone() };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3]), ()], sample![m.any(&[2, 3, 4, 5]), ()]];
    fn clone_in(&self, format: MemoryFormat) -> Tensor [self, format];
}

fn contiguous_any(x: &Tensor, format: MemoryFormat) -> Result<Tensor> {
    ensure!(format != MemoryFormat::Preserve, "preserve memory format is unsupported by the contiguous operator");
    if x.is_contiguous_in(format) {
        return Ok(x.clone());
    }
    x.clone_in(format)
}

op! {
    /// This tensor if it is dense in the given memory format, else a copy that is.
    contiguous: "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)";
    Body::Composite(kernel!(contiguous_any; x, format));
    samples: |m| vec![sample![m.any(&[2, 3]), OwnedValue::MemoryFormat(MemoryFormat::Contiguous)]];
    fn contiguous(&self) -> Tensor [self, MemoryFormat::Contiguous];
    fn contiguous_in(&self, format: MemoryFormat) -> Tensor [self, format];
}

fn to_copy_any(
    x: &Tensor,
    options: TensorOptions,
    non_blocking: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let (dtype, device) = (options.dtype.unwrap_or(x.dtype()), options.device.unwrap_or(x.device()));
    let strides = match format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve => dims::preserved_strides(x.sizes(), x.strides()),
        format => dims::strides_for(x.sizes(), format)?,
    };
    let _ = non_blocking;
    Tensor::fresh_strided(device, dtype, Dims::from_slice(x.sizes()), strides)?.copy_(x)
}

op! {
    /// A copy in another dtype, on another device, or in another memory format.
    to_copy: "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor";
    Body::Explicit(kernel!(to_copy_any; x, options, non_blocking, format));
    derivative: backward! { self_(g, self_: Geometry) => g.to_options(Some(self_.dtype), Some(self_.device))? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3]), DType::F64, (), (), (), false, ()]];
}

impl Tensor {
    /// This tensor if it has the dtype and device already, else a copy that has.
    ///
    /// # Errors
    /// When the device cannot hold it, or is not reachable from this one.
    pub fn to_options(&self, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor> {
        let same_device =
            device.is_none_or(|d| d.kind == self.device().kind && (d.index.is_none() || d == self.device()));
        if dtype.is_none_or(|d| d == self.dtype()) && same_device {
            return Ok(self.clone());
        }
        to_copy::OP
            .call(&[self.into(), dtype.into(), crate::Value::None, device.into(), crate::Value::None, false.into()])?
            .one()
    }
    /// This tensor in another dtype; itself if it has it already.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        self.to_options(Some(dtype), None)
    }
    /// This tensor on another device; itself if it is there already.
    ///
    /// # Errors
    /// As [`Tensor::to_options`].
    pub fn to_device(&self, device: Device) -> Result<Tensor> {
        self.to_options(None, Some(device))
    }
}

fn to_dtype_any(
    x: &Tensor,
    dtype: DType,
    _non_blocking: bool,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to_any(x, Some(dtype), None, copy, format)
}

fn to_any(
    x: &Tensor,
    dtype: Option<DType>,
    device: Option<Device>,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let fits = format.is_none_or(|f| f == MemoryFormat::Preserve || x.suggested_memory_format() == f);
    let same_device = device.is_none_or(|d| d.kind == x.device().kind);
    if !copy && fits && dtype.is_none_or(|d| d == x.dtype()) && same_device {
        return Ok(x.clone());
    }
    to_copy::OP
        .call(&[
            x.into(),
            dtype.into(),
            crate::Value::None,
            device.into(),
            crate::Value::None,
            false.into(),
            format.into(),
        ])?
        .one()
}

op! {
    /// This tensor in another dtype; itself if nothing has to change and `copy` is not asked for.
    to_dtype: "to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)";
    Body::Composite(kernel!(to_dtype_any; x, dtype, non_blocking, copy, format));
    samples: |m| vec![sample![m.any(&[2, 3]), m.wide(), false, true, ()], sample![m.any(&[2, 3]), m.dtype, false, false, ()]];
}

fn to_layout_any(
    x: &Tensor,
    options: TensorOptions,
    _non_blocking: bool,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to_any(x, options.dtype, options.device, copy, format)
}

op! {
    /// This tensor in another dtype, on another device or in another memory format; itself if nothing has to change.
    to_dtype_layout: "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)";
    Body::Composite(kernel!(to_layout_any; x, options, non_blocking, copy, format));
    samples: |m| vec![sample![m.any(&[2, 3]), m.wide(), (), (), (), false, true, ()]];
}

fn to_device_any(
    x: &Tensor,
    device: Device,
    dtype: DType,
    _non_blocking: bool,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to_any(x, Some(dtype), Some(device), copy, format)
}

op! {
    /// This tensor on another device and in another dtype; itself if nothing has to change.
    to_device: "to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)";
    Body::Composite(kernel!(to_device_any; x, device, dtype, non_blocking, copy, format));
    samples: |m| vec![sample![m.any(&[2, 3]), OwnedValue::Device(Device::CPU), m.wide(), false, true, ()]];
}

fn to_other_any(
    x: &Tensor,
    other: &Tensor,
    _non_blocking: bool,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to_any(x, Some(other.dtype()), Some(other.device()), copy, format)
}

op! {
    /// This tensor in the dtype and on the device of another.
    to_other: "to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)";
    Body::Composite(kernel!(to_other_any; x, other, non_blocking, copy, format));
    samples: |m| vec![sample![m.any(&[2, 3]), m.uniform_of(m.wide(), &[2], 0.0, 1.0), false, false, ()]];
}

/// The bytes of a number as an element of a dtype.
pub(super) fn element_bytes(value: Scalar, dtype: DType) -> [u8; 16] {
    let mut bytes = [0u8; 16];
    crate::dispatch_dtype!(dtype, T => {
        let v = <T as crate::Element>::from_scalar(value);
        // SAFETY: 16 bytes hold any element.
        unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(v) }
    });
    bytes
}

fn fill_cpu(x: &Tensor, value: Scalar) -> Result<Tensor> {
    // PyTorch writes a half alone through double precision, and then one beyond its range is infinite.
    let alone = x.numel() == 1 && x.dtype() != x.dtype().compute();
    value.fit(if alone { DType::F64 } else { x.dtype() })?;
    if x.numel() == 0 {
        return Ok(x.clone());
    }
    let bytes = element_bytes(value, x.dtype());
    let _lock = LockSet::new([(x.storage(), true)])?;
    // SAFETY: the geometry fits the storage, which is locked.
    unsafe {
        let strides = byte_strides(x.strides(), x.dtype());
        flambeau_cpu::copy::fill_strided(x.sizes(), (x.data_ptr(), &strides), x.element_size(), &bytes);
    }
    Ok(x.clone())
}

fn fill_meta(x: &Tensor, _value: Scalar) -> Result<Tensor> {
    Ok(x.clone())
}

op! {
    /// Writes one value everywhere.
    fill_: "fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)";
    Body::Kernels { cpu: kernel!(fill_cpu; x, value), meta: kernel!(fill_meta; x, value) };
    derivative: backward! { self_(g) => g.zeros_like()? };
    samples: |m| vec![sample![m.any(&[2, 3]), Scalar::Int(2)]];
    fn fill_(&self, value: impl Into<Scalar>) -> Tensor [self, value.into()];
}

fn fill_tensor_any(x: &Tensor, value: &Tensor) -> Result<Tensor> {
    ensure!(
        value.dim() == 0,
        "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.dim()
    );
    x.copy_(value)
}

op! {
    /// Writes the value of a 0-d tensor everywhere.
    fill_tensor_: "fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)";
    Body::Composite(kernel!(fill_tensor_any; x, value));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[])]];
    fn fill_tensor_(&self, value: &Tensor) -> Tensor [self, value];
}

fn zero_any(x: &Tensor) -> Result<Tensor> {
    x.fill_(Scalar::Int(0))
}

op! {
    /// Writes zeros everywhere.
    zero_: "zero_(Tensor(a!) self) -> Tensor(a!)";
    Body::Composite(kernel!(zero_any; x));
    samples: |m| vec![sample![m.any(&[2, 3])], sample![m.any(&[])]];
    fn zero_(&self) -> Tensor [self];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    clone::ALL,
    contiguous::ALL,
    copy_::ALL,
    fill_::ALL,
    fill_tensor_::ALL,
    to_copy::ALL,
    to_device::ALL,
    to_dtype::ALL,
    to_dtype_layout::ALL,
    to_other::ALL,
    zero_::ALL,
];
