//! The reference count of tensors and storages.

use crate::allocator;
use std::alloc::Layout;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A shared pointer with an atomic count, as [`std::sync::Arc`], but cheaper where tensors need it: there are no weak
/// pointers, so the last owner (which most results have as their only one) leaves without an atomic exchange, and memory
/// comes from the [allocator]'s lists of small blocks.
pub struct Shared<T>(NonNull<Counted<T>>);

struct Counted<T> {
    count: AtomicUsize,
    value: T,
}

// SAFETY: as for `Arc`: owners on several threads share `&T`, and the last, on any thread, drops it.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// A value on the heap, with one owner. It is made where it stays: moving a tensor's geometry, just written, would wait
    /// for the stores. Aborts, as `Box` does, when there is no memory for it.
    #[inline(always)]
    pub fn new_with(make: impl FnOnce() -> T) -> Shared<T> {
        const { assert!(align_of::<Counted<T>>() <= allocator::ALIGNMENT) };
        let Some(block) = allocator::allocate_object(size_of::<Counted<T>>()) else {
            std::alloc::handle_alloc_error(Layout::new::<Counted<T>>());
        };
        let counted = block.cast::<Counted<T>>();
        // SAFETY: a block of that size, sufficiently aligned, and nobody else's. (If `make` panics, it is lost, and nothing
        // more.)
        unsafe {
            (&raw mut (*counted.as_ptr()).value).write(make());
            (&raw mut (*counted.as_ptr()).count).write(AtomicUsize::new(1));
        }
        Shared(counted)
    }

    #[inline(always)]
    fn counted(&self) -> &Counted<T> {
        // SAFETY: it lives as long as it has an owner.
        unsafe { self.0.as_ref() }
    }

    /// How many owners there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.counted().count.load(Acquire)
    }

    /// Whether both own the same value.
    #[inline(always)]
    pub fn same(&self, other: &Shared<T>) -> bool {
        self.0 == other.0
    }

    /// The value's address: the same for all its owners, and no other live value's.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// The value, if this is its only owner.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        match self.count() {
            // SAFETY: without weak pointers, nobody else can become an owner while this one is borrowed; `Acquire` in
            // `count` orders the others' last uses before.
            1 => Some(unsafe { &mut self.0.as_mut().value }),
            _ => None,
        }
    }

    #[inline(never)]
    fn free(counted: NonNull<Counted<T>>) {
        // SAFETY: called by the last owner as it goes; the block is as `new` got it.
        unsafe {
            std::ptr::drop_in_place(counted.as_ptr());
            allocator::deallocate_object(counted.cast(), size_of::<Counted<T>>());
        }
    }
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Shared<T> {
        let before = self.counted().count.fetch_add(1, Relaxed);
        // As `Arc`: leaking handles in a loop must not wrap the count around.
        if before > isize::MAX as usize {
            std::process::abort();
        }
        Shared(self.0)
    }
}

impl<T> Drop for Shared<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let count = &self.counted().count;
        // A count of one is this owner's own: nobody else is there to raise it. Otherwise, whoever brings it to zero must
        // see what all the others did (`Release`, then `Acquire`).
        if count.load(Acquire) == 1 || count.fetch_sub(1, Release) == 1 && count.load(Acquire) == 0 {
            Self::free(self.0);
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn counts_its_owners_and_drops_once() {
        let witness = Arc::new(());
        let mut a = Shared::new_with(|| (7, witness.clone()));
        assert_eq!((a.count(), a.0.as_ptr() as usize), (1, a.address()));
        assert!(a.get_mut().is_some());
        let b = a.clone();
        assert!(a.same(&b) && a.count() == 2 && a.get_mut().is_none() && b.0 == a.0);
        drop(a);
        assert_eq!((b.count(), b.deref().0, Arc::strong_count(&witness)), (1, 7, 2));
        drop(b);
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn survives_many_threads() {
        let witness = Arc::new(());
        for _ in 0..50 {
            let a = Shared::new_with(|| witness.clone());
            std::thread::scope(|s| {
                for _ in 0..4 {
                    let a = a.clone();
                    s.spawn(move || (0..100).for_each(|_| drop(a.clone())));
                }
            });
            assert_eq!(a.count(), 1);
        }
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
