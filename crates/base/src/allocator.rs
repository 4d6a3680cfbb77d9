//! Where storages get their bytes.

use crate::{Device, Error, ErrorKind, Result};
use std::alloc::Layout;
use std::ptr::NonNull;

/// Every allocation is aligned to this many bytes: a cache line, and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// Gives and takes back the memory of one kind of device.
pub trait Allocator: Send + Sync {
    /// `nbytes` bytes (more than zero) aligned to [`ALIGNMENT`], uninitialised.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] when the device cannot give them.
    fn allocate(&self, device: Device, nbytes: usize) -> Result<NonNull<u8>>;

    /// Takes back a block.
    ///
    /// # Safety
    /// `data` came from `allocate` of this allocator with the same `device` and `nbytes`, and nobody uses it any more.
    unsafe fn deallocate(&self, device: Device, data: NonNull<u8>, nbytes: usize);
}

/// Host memory.
pub static CPU: CpuAllocator = CpuAllocator;
/// No memory at all.
pub static META: MetaAllocator = MetaAllocator;

/// Host memory.
pub struct CpuAllocator;

impl Allocator for CpuAllocator {
    fn allocate(&self, _device: Device, nbytes: usize) -> Result<NonNull<u8>> {
        let layout = Layout::from_size_align(nbytes, ALIGNMENT).map_err(|_| out_of_memory(nbytes))?;
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or_else(|| out_of_memory(nbytes))
    }

    unsafe fn deallocate(&self, _device: Device, data: NonNull<u8>, nbytes: usize) {
        // SAFETY: the layout is the one that `allocate` accepted.
        unsafe { std::alloc::dealloc(data.as_ptr(), Layout::from_size_align_unchecked(nbytes, ALIGNMENT)) }
    }
}

#[cold]
fn out_of_memory(nbytes: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes."))
}

/// The allocator of the `meta` device: every storage is a size and no bytes.
pub struct MetaAllocator;

impl Allocator for MetaAllocator {
    fn allocate(&self, _device: Device, _nbytes: usize) -> Result<NonNull<u8>> {
        Ok(NonNull::dangling())
    }
    unsafe fn deallocate(&self, _device: Device, _data: NonNull<u8>, _nbytes: usize) {}
}
