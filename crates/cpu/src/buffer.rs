//! Scratch memory that is not cleared and comes from the caching allocator: fresh pages cost more than sorting them.

use flambeau_base::allocator::CpuAllocator;
use flambeau_base::{Allocator, Device};
use std::ptr::NonNull;

/// Uninitialised room for plain integers; it grows, and never shrinks.
pub(crate) struct Buffer<P> {
    data: NonNull<P>,
    len: usize,
}

// SAFETY: it owns its memory, like a `Vec`.
unsafe impl<P: Send> Send for Buffer<P> {}

impl<P> Default for Buffer<P> {
    fn default() -> Buffer<P> {
        Buffer { data: NonNull::dangling(), len: 0 }
    }
}

impl<P: Copy> Buffer<P> {
    /// The address of room for `n` elements; what was there is lost if it has to grow.
    pub(crate) fn room(&mut self, n: usize) -> *mut P {
        if n > self.len {
            *self = Buffer::default();
            let bytes = n * size_of::<P>();
            match CpuAllocator.allocate(Device::CPU, bytes) {
                Ok(data) => *self = Buffer { data: data.cast(), len: n },
                Err(_) => std::alloc::handle_alloc_error(std::alloc::Layout::new::<P>()),
            }
        }
        self.data.as_ptr()
    }
}

impl<P> Drop for Buffer<P> {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: allocated in `room` with this size; nobody else has it.
            unsafe { CpuAllocator.deallocate(Device::CPU, self.data.cast(), self.len * size_of::<P>()) }
        }
    }
}
