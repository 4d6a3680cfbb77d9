//! Memory for intermediate results: not cleared, kept from call to call where fresh pages cost more than the work, and
//! at the beginning of cache lines.

use flambeau_base::allocator::CpuAllocator;
use flambeau_base::{Allocator, Device};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Uninitialised room for plain numbers, from the caching allocator; it grows, and never shrinks.
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
            // SAFETY: allocated in `try_room` with this size; nobody else has it.
            unsafe { CpuAllocator.deallocate(Device::CPU, self.data.cast(), self.len * size_of::<P>()) }
        }
    }
}

/// How many bytes of working memory a thread keeps for its next call.
const KEPT_BYTES: usize = 16 << 20;

struct Blocks(Vec<(NonNull<u8>, usize)>);

impl Drop for Blocks {
    fn drop(&mut self) {
        for (block, bytes) in self.0.drain(..) {
            // SAFETY: allocated by `Blocks::take` with this layout.
            unsafe { std::alloc::dealloc(block.as_ptr(), Blocks::layout(bytes)) };
        }
    }
}

thread_local! {
    static BLOCKS: RefCell<Blocks> = const { RefCell::new(Blocks(Vec::new())) };
}

/// (Not generic: compiled once, not for every type of element.)
impl Blocks {
    fn layout(bytes: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(bytes, 64).expect("working memory larger than the address space")
    }

    /// A block of at least so many bytes, which are not 0, and its size.
    fn take(bytes: usize) -> (NonNull<u8>, usize) {
        let kept = BLOCKS.try_with(|blocks| {
            let blocks = &mut blocks.borrow_mut().0;
            let best = (0..blocks.len()).filter(|&i| blocks[i].1 >= bytes).min_by_key(|&i| blocks[i].1)?;
            Some(blocks.swap_remove(best))
        });
        kept.ok().flatten().unwrap_or_else(|| {
            let layout = Self::layout(bytes);
            // SAFETY: the size is not zero.
            let block = unsafe { std::alloc::alloc(layout) };
            (NonNull::new(block).unwrap_or_else(|| std::alloc::handle_alloc_error(layout)), bytes)
        })
    }

    /// Keeps a block for later, or frees it.
    ///
    /// # Safety
    /// It is from [`Blocks::take`], and nobody else has it.
    unsafe fn give_back(block: NonNull<u8>, bytes: usize) {
        let kept = BLOCKS.try_with(|blocks| {
            let blocks = &mut blocks.borrow_mut().0;
            let fits =
                |blocks: &[(NonNull<u8>, usize)]| blocks.iter().map(|b| b.1).sum::<usize>() + bytes <= KEPT_BYTES;
            // The smallest go first, so that what is kept settles on what is in use.
            while bytes <= KEPT_BYTES && !fits(blocks) {
                let Some(smallest) = (0..blocks.len()).min_by_key(|&i| blocks[i].1) else { break };
                let (block, bytes) = blocks.swap_remove(smallest);
                // SAFETY: allocated by `take` with this layout; nobody else has it.
                unsafe { std::alloc::dealloc(block.as_ptr(), Self::layout(bytes)) };
            }
            let fits = fits(blocks);
            if fits {
                blocks.push((block, bytes));
            }
            fits
        });
        if !kept.unwrap_or(false) {
            // SAFETY: allocated by `take` with this layout; nobody else has it.
            unsafe { std::alloc::dealloc(block.as_ptr(), Self::layout(bytes)) };
        }
    }
}

/// Working memory of this thread, uninitialised at first and reused from call to call: fresh pages cost more to fault
/// in than a tile costs to compute.
pub(crate) struct Scratch<E> {
    block: NonNull<u8>,
    bytes: usize,
    element: PhantomData<E>,
}

impl<E: Copy> Scratch<E> {
    /// Memory for `len` elements.
    ///
    /// # Panics
    /// When they are more than the address space holds.
    pub(crate) fn new(len: usize) -> Scratch<E> {
        if len == 0 {
            let none = std::ptr::without_provenance_mut(64);
            return Scratch { block: NonNull::new(none).expect("64 is not null"), bytes: 0, element: PhantomData };
        }
        let bytes = len.checked_mul(size_of::<E>()).and_then(|bytes| bytes.checked_next_multiple_of(4096));
        let (block, bytes) = Blocks::take(bytes.expect("working memory larger than the address space"));
        Scratch { block, bytes, element: PhantomData }
    }

    /// Its start, aligned to 64 bytes.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut E {
        self.block.as_ptr().cast()
    }

    /// Its first `len` elements, at most all, after setting them to a value.
    #[inline(always)]
    pub(crate) fn filled(&mut self, len: usize, value: E) -> &mut [E] {
        let len = len.min(self.bytes / size_of::<E>());
        // SAFETY: memory for as many elements, which nobody else has, each of which is written before it is lent.
        unsafe {
            for i in 0..len {
                self.get().add(i).write(value);
            }
            std::slice::from_raw_parts_mut(self.get(), len)
        }
    }
}

impl<E> Drop for Scratch<E> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: it is this one's own.
            unsafe { Blocks::give_back(self.block, self.bytes) };
        }
    }
}

/// A local array that begins with a cache line: see [`aligned`].
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Aligned<T: Copy> {
    value: T,
    line: Line,
}

/// Nothing, at the beginning of a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line;

/// A local array at the beginning of a cache line. Others begin where the stack of the process happens to: then every
/// vector of them may cross two lines, from process to process. (A structure would not do: the compiler takes those
/// with one field apart, and the field begins anywhere.)
#[inline(always)]
pub(crate) const fn aligned<T: Copy>(value: T) -> Aligned<T> {
    Aligned { value }
}

impl<T: Copy> Deref for Aligned<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: it is made from a value, and nothing else is ever written.
        unsafe { &self.value }
    }
}

impl<T: Copy> DerefMut for Aligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut self.value }
    }
}
