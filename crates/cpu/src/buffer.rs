//! Scratch memory that is not cleared and comes from the caching allocator: fresh pages cost more than sorting them.

use flambeau_base::allocator::CpuAllocator;
use flambeau_base::{Allocator, Device};
use std::ptr::NonNull;

/// Uninitialised room for plain numbers; it grows, and never shrinks.
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
    /// The address of room for `n` elements, or nothing where the machine has no such memory; what was there is lost if it
    /// has to grow.
    pub(crate) fn try_room(&mut self, n: usize) -> Option<*mut P> {
        if n > self.len {
            *self = Buffer::default();
            let bytes = n.checked_mul(size_of::<P>())?;
            let data = CpuAllocator.allocate(Device::CPU, bytes).ok()?;
            *self = Buffer { data: data.cast(), len: n };
        }
        Some(self.data.as_ptr())
    }

    /// [`Buffer::try_room`] for work that cannot go on without.
    pub(crate) fn room(&mut self, n: usize) -> *mut P {
        self.try_room(n).unwrap_or_else(|| std::alloc::handle_alloc_error(std::alloc::Layout::new::<P>()))
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
