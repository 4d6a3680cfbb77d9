//! Getting numbers into and out of tensors from Rust.

use crate::keys::{Key, KeySet};
use crate::{DType, Element, Error, Result, Scalar, Tensor, ensure};
use flambeau_base::storage::{HeldLock, LockSet};
use std::marker::PhantomData;

impl Tensor {
    /// A 1-d tensor with the elements of `data`.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn from_slice<T: Element>(data: &[T]) -> Result<Tensor> {
        Tensor::from_slice_of(data, &[data.len() as i64])
    }

    /// A tensor of `sizes` with the elements of `data` in row-major order.
    ///
    /// # Errors
    /// When their number is not the product of the sizes, or memory runs out.
    pub fn from_slice_of<T: Element>(data: &[T], sizes: &[i64]) -> Result<Tensor> {
        let n = crate::dims::checked_numel(sizes)?;
        ensure!(n == data.len() as i64, "shape {sizes:?} is invalid for {} elements", data.len());
        let t = Tensor::fresh(crate::Device::CPU, T::DTYPE, crate::Dims::from_slice(sizes))?;
        // SAFETY: the fresh tensor holds as many elements, and nobody else has it.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), t.data_ptr() as *mut T, data.len()) };
        Ok(t)
    }

    /// A 0-d tensor.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn scalar<T: Element>(x: T) -> Result<Tensor> {
        Tensor::from_slice_of(&[x], &[])
    }

    /// A tensor from row-major bytes of `dtype`.
    ///
    /// # Errors
    /// When their number does not fit the sizes, or memory runs out.
    pub fn from_bytes(bytes: &[u8], dtype: DType, sizes: &[i64]) -> Result<Tensor> {
        let t = Tensor::fresh(crate::Device::CPU, dtype, crate::Dims::from_slice(sizes))?;
        ensure!(
            t.storage().nbytes() == bytes.len(),
            "{} bytes do not make a {dtype} tensor of sizes {sizes:?}",
            bytes.len()
        );
        // SAFETY: as in `from_slice`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), t.data_ptr(), bytes.len()) };
        Ok(t)
    }

    /// The elements in row-major order, converted to `T`.
    ///
    /// # Errors
    /// When the tensor has no data, or memory runs out.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        check_strided(self)?;
        ensure!(!self.device().is_meta(), "Cannot copy out of meta tensor; no data!");
        let plain = self.key_set().without(KeySet::of(Key::AUTOGRAD)) == KeySet::of(Key::CPU);
        let t = match plain && self.dtype() == T::DTYPE && self.is_contiguous() {
            true => self.clone(),
            false => {
                let _mode = crate::autograd::no_grad();
                self.detach()?.to_device(crate::Device::CPU)?.to_dtype(T::DTYPE)?.contiguous()?
            }
        };
        let n = t.numel() as usize;
        let mut out = Vec::with_capacity(n);
        let _lock = LockSet::new([(t.storage(), false)])?;
        // SAFETY: the tensor is row-major with `n` elements of `T`, locked for reading; any bits are a valid `T`.
        unsafe {
            std::ptr::copy_nonoverlapping(t.data_ptr() as *const T, out.as_mut_ptr(), n);
            out.set_len(n);
        }
        Ok(out)
    }

    /// The elements' bytes in row-major order.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        crate::dispatch_dtype!(self.dtype(), T => {
            let v = self.to_vec::<T>()?;
            // SAFETY: elements are plain old data.
            Ok(unsafe { std::slice::from_raw_parts(v.as_ptr().cast::<u8>(), std::mem::size_of_val(&v[..])) }.to_vec())
        })
    }

    /// The one element as a number.
    ///
    /// # Errors
    /// When there is not exactly one element, or no data.
    pub fn item(&self) -> Result<Scalar> {
        ensure!(self.numel() == 1, "a Tensor with {} elements cannot be converted to Scalar", self.numel());
        if !self.is_strided() {
            return self.to_dense()?.item();
        }
        ensure!(!self.device().is_meta(), "Tensor.item() cannot be called on meta tensors");
        let t = self.to_device(crate::Device::CPU)?;
        let _lock = LockSet::new([(t.storage(), false)])?;
        // SAFETY: one element lies at the address, locked for reading.
        Ok(crate::dispatch_dtype!(t.dtype(), T => unsafe { (t.data_ptr() as *const T).read_unaligned() }.to_scalar()))
    }

    /// Reads elements by index while the accessor lives. `N` is the number of dimensions.
    ///
    /// # Errors
    /// When the dtype, the number of dimensions or the device does not fit.
    pub fn accessor<T: Element, const N: usize>(&self) -> Result<Accessor<T, N>> {
        let (sizes, strides) = accessor_geometry::<T, N>(self)?;
        let lock = HeldLock::new(self.storage(), false)?;
        Ok(Accessor { data: self.data_ptr() as *const T, sizes, strides, tensor: self.clone(), _lock: lock })
    }

    /// Reads and writes elements by index while the accessor lives; counts as one in-place operation.
    ///
    /// # Errors
    /// As [`Tensor::accessor`], and when the tensor requires a gradient.
    pub fn accessor_mut<T: Element, const N: usize>(&self) -> Result<AccessorMut<T, N>> {
        ensure!(!self.requires_grad(), "accessor_mut: the tensor requires grad; use it on detach()");
        let (sizes, strides) = accessor_geometry::<T, N>(self)?;
        let lock = HeldLock::new(self.storage(), true)?;
        self.bump_version();
        Ok(AccessorMut {
            data: self.data_ptr() as *mut T,
            sizes,
            strides,
            tensor: self.clone(),
            _lock: lock,
            _t: PhantomData,
        })
    }
}

/// That the elements lie in one storage.
fn check_strided(t: &Tensor) -> Result<()> {
    ensure!(t.is_strided(), "Cannot access data pointer of Tensor that doesn't have storage");
    Ok(())
}

fn accessor_geometry<T: Element, const N: usize>(t: &Tensor) -> Result<([i64; N], [i64; N])> {
    check_strided(t)?;
    ensure!(t.dtype() == T::DTYPE, "accessor: expected {} but the tensor is {}", T::DTYPE, t.dtype());
    ensure!(t.device().is_cpu(), "accessor: the tensor is on {}, not in host memory", t.device());
    match (<[i64; N]>::try_from(t.sizes()), <[i64; N]>::try_from(t.strides())) {
        (Ok(sizes), Ok(strides)) => Ok((sizes, strides)),
        _ => Err(Error::runtime(format!("accessor: expected {N} dimensions but the tensor has {}", t.dim()))),
    }
}

/// Where an index lies, if it is in range.
#[inline(always)]
fn offset<const N: usize>(sizes: &[i64; N], strides: &[i64; N], index: [i64; N]) -> Option<isize> {
    let mut at = 0;
    for d in 0..N {
        if index[d] < 0 || index[d] >= sizes[d] {
            return None;
        }
        at += index[d] * strides[d];
    }
    Some(at as isize)
}

/// Reads elements of a tensor of known dtype and number of dimensions; any strides.
pub struct Accessor<T, const N: usize> {
    data: *const T,
    sizes: [i64; N],
    strides: [i64; N],
    tensor: Tensor,
    _lock: HeldLock,
}

impl<T: Element, const N: usize> Accessor<T, N> {
    /// The element at `index`, or `None` outside.
    #[inline(always)]
    pub fn get(&self, index: [i64; N]) -> Option<T> {
        let at = offset(&self.sizes, &self.strides, index)?;
        // SAFETY: in range of a tensor that is alive and locked for reading.
        Some(unsafe { self.data.offset(at).read_unaligned() })
    }
    /// The sizes.
    pub fn sizes(&self) -> [i64; N] {
        self.sizes
    }
    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}

/// Reads and writes elements of a tensor of known dtype and number of dimensions; any strides.
pub struct AccessorMut<T, const N: usize> {
    data: *mut T,
    sizes: [i64; N],
    strides: [i64; N],
    tensor: Tensor,
    _lock: HeldLock,
    _t: PhantomData<T>,
}

impl<T: Element, const N: usize> AccessorMut<T, N> {
    /// The element at `index`, or `None` outside.
    #[inline(always)]
    pub fn get(&self, index: [i64; N]) -> Option<T> {
        let at = offset(&self.sizes, &self.strides, index)?;
        // SAFETY: in range of a tensor that is alive and locked for writing.
        Some(unsafe { self.data.offset(at).read_unaligned() })
    }
    /// Writes the element at `index`; `false` outside.
    #[inline(always)]
    pub fn set(&mut self, index: [i64; N], x: T) -> bool {
        match offset(&self.sizes, &self.strides, index) {
            // SAFETY: as in `get`.
            Some(at) => unsafe { self.data.offset(at).write_unaligned(x) },
            None => return false,
        }
        true
    }
    /// The sizes.
    pub fn sizes(&self) -> [i64; N] {
        self.sizes
    }
    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}

/// The elements of a contiguous tensor on the CPU.
///
/// # Safety
/// It is of this type, and locked for as long as they are used.
pub(crate) unsafe fn elements<T>(t: &Tensor) -> &[T] {
    // SAFETY: `numel` contiguous elements; the rest is the caller's.
    unsafe { std::slice::from_raw_parts(t.data_ptr().cast::<T>(), t.numel() as usize) }
}

/// As [`elements`], to be written.
///
/// # Safety
/// As [`elements`], locked for writing, and nobody else has them.
#[allow(clippy::mut_from_ref)]
pub(crate) unsafe fn elements_mut<T>(t: &Tensor) -> &mut [T] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(t.data_ptr().cast::<T>(), t.numel() as usize) }
}
