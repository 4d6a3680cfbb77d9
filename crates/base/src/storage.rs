//! A storage: one flat allocation of bytes that any number of tensors share.

use crate::allocator::ALIGNMENT;
use crate::shared::Shared;
use crate::{Allocator, Device, Result, ensure};
use parking_lot::RawRwLock;
use parking_lot::lock_api::{RawRwLock as _, RawRwLockRecursive as _};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// A shared handle to one flat, aligned allocation of bytes on a device.
///
/// Note [Locks at the leaves]: tensors alias and in-place operations write through `&Tensor`, so every access to the
/// bytes goes through the storage's reader-writer lock. A kernel takes each distinct storage once, in address order
/// ([`LockSet`]), runs, and releases; an operator never calls another operator while it holds one. That is what makes
/// safe code free of data races at a cost of a few nanoseconds.
#[derive(Clone)]
pub struct Storage(Shared<StorageImpl>);

struct StorageImpl {
    data: AtomicPtr<u8>,
    nbytes: AtomicUsize,
    /// What the allocator gave. Shrinking only lowers `nbytes`: tensors made before may still reach the rest.
    capacity: AtomicUsize,
    /// Bumped by every write through any tensor; saved tensors check it. See `autograd::saved` in the crate `flambeau`.
    version: AtomicU32,
    lock: RawRwLock,
    device: Device,
    allocator: &'static dyn Allocator,
    /// Set for memory that somebody else owns: called once when the last tensor goes.
    release: Option<Box<dyn Fn() + Send + Sync>>,
    /// Set once somebody else was given the address.
    fixed: AtomicBool,
}

impl Storage {
    /// A storage of `nbytes` uninitialised bytes on `device`.
    ///
    /// # Errors
    /// When the device's allocator cannot give them.
    pub fn new(device: Device, nbytes: usize) -> Result<Storage> {
        let allocator = device.kind.allocator();
        let data = match nbytes {
            0 => NonNull::without_provenance(std::num::NonZero::new(ALIGNMENT).expect("not zero")),
            n => allocator.allocate(device, n)?,
        };
        Ok(Storage(Shared::new_with(|| StorageImpl {
            data: AtomicPtr::new(data.as_ptr()),
            nbytes: AtomicUsize::new(nbytes),
            capacity: AtomicUsize::new(nbytes),
            version: AtomicU32::new(0),
            lock: RawRwLock::INIT,
            device,
            allocator,
            release: None,
            fixed: AtomicBool::new(false),
        })))
    }

    /// A storage over memory that somebody else owns; `release` runs when its last user goes.
    ///
    /// # Safety
    /// `data` points to `nbytes` bytes on `device` that stay valid, and are not written by anyone who does not hold
    /// this storage's lock, until `release` is called.
    pub unsafe fn from_foreign(
        device: Device,
        data: NonNull<u8>,
        nbytes: usize,
        release: Box<dyn Fn() + Send + Sync>,
    ) -> Storage {
        Storage(Shared::new_with(|| StorageImpl {
            data: AtomicPtr::new(data.as_ptr()),
            nbytes: AtomicUsize::new(nbytes),
            capacity: AtomicUsize::new(nbytes),
            version: AtomicU32::new(0),
            lock: RawRwLock::INIT,
            device,
            allocator: device.kind.allocator(),
            release: Some(release),
            fixed: AtomicBool::new(true),
        }))
    }

    /// The address of the first byte. Dereference it only while a [`LockSet`] with this storage is held.
    #[inline(always)]
    pub fn data_ptr(&self) -> *mut u8 {
        self.0.data.load(Ordering::Relaxed)
    }

    /// How many bytes it has.
    #[inline(always)]
    pub fn nbytes(&self) -> usize {
        self.0.nbytes.load(Ordering::Relaxed)
    }

    /// Where the bytes are.
    #[inline(always)]
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// How many handles share it.
    pub fn use_count(&self) -> usize {
        self.0.count()
    }

    /// Whether both are handles to the same storage.
    #[inline(always)]
    pub fn same(&self, other: &Storage) -> bool {
        self.0.same(&other.0)
    }

    /// Whether [`Storage::resize`] can work: not for memory that somebody else owns or was shown.
    pub fn resizable(&self) -> bool {
        !self.0.fixed.load(Ordering::Relaxed)
    }

    /// Keeps the memory where it is from now on: for those who hand its address to others.
    pub fn fix_address(&self) {
        self.0.fixed.store(true, Ordering::Relaxed);
    }

    /// How many writes it has seen.
    #[inline(always)]
    pub fn version(&self) -> u32 {
        self.0.version.load(Ordering::Relaxed)
    }

    /// Counts a write.
    #[inline(always)]
    pub fn bump_version(&self) {
        self.0.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts from zero again.
    pub fn reset_version(&self) {
        self.0.version.store(0, Ordering::Relaxed);
    }

    /// Changes the size to `nbytes`, keeping the common part of the contents. New bytes are uninitialised. Memory is
    /// not given back by shrinking, because tensors made before may still reach it.
    ///
    /// # Errors
    /// When others know where the memory is, or more cannot be had; the storage is then unchanged.
    pub fn resize(&self, nbytes: usize) -> Result<()> {
        ensure!(self.resizable(), "Trying to resize storage that is not resizable");
        if nbytes <= self.0.capacity.load(Ordering::Relaxed) {
            self.0.nbytes.store(nbytes, Ordering::Relaxed);
            return Ok(());
        }
        let new = Storage::new(self.0.device, nbytes)?;
        let _lock = LockSet::new([(self, true)])?;
        let old_capacity = self.0.capacity.load(Ordering::Relaxed);
        // Another thread was faster, and gave it more.
        if nbytes <= old_capacity {
            self.0.nbytes.store(nbytes, Ordering::Relaxed);
            return Ok(());
        }
        let common = self.nbytes().min(nbytes);
        if common > 0 {
            // SAFETY: both blocks are this allocator's, at least of the common length, and the exclusive lock is held.
            unsafe { self.0.allocator.copy(self.0.device, self.data_ptr(), new.data_ptr(), common)? };
        }
        let old = self.0.data.swap(new.data_ptr(), Ordering::Relaxed);
        self.0.nbytes.store(nbytes, Ordering::Relaxed);
        self.0.capacity.store(nbytes, Ordering::Relaxed);
        new.0.data.store(old, Ordering::Relaxed);
        new.0.capacity.store(old_capacity, Ordering::Relaxed);
        Ok(())
    }

    #[inline(always)]
    fn address(&self) -> usize {
        self.0.address()
    }
}

impl Drop for StorageImpl {
    fn drop(&mut self) {
        if let Some(release) = &self.release {
            return release();
        }
        let nbytes = *self.capacity.get_mut();
        if nbytes > 0 {
            // SAFETY: the block came from this allocator with this size, and the last user is going.
            unsafe {
                let data = NonNull::new_unchecked(*self.data.get_mut());
                self.allocator.deallocate(self.device, data, nbytes);
            }
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({} bytes on {})", self.nbytes(), self.device())
    }
}

thread_local! {
    /// How many [`HeldLock`]s this thread has; while there are any, lock sets check for waiting on themselves.
    static HELD: std::cell::RefCell<Vec<(usize, bool)>> = const { std::cell::RefCell::new(Vec::new()) };
    static HELD_COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The locks a kernel holds: each distinct storage once, taken in address order so that two kernels never wait for
/// each other. See Note [Locks at the leaves].
pub struct LockSet<'a> {
    held: smallvec::SmallVec<[(&'a Storage, bool); 4]>,
}

impl<'a> LockSet<'a> {
    /// Takes the lock of each storage named: exclusively where any mention says `true` (written), else shared.
    ///
    /// # Errors
    /// When this thread holds one of the storages through a [`HeldLock`] in a mode that excludes this use.
    #[inline]
    pub fn new(storages: impl IntoIterator<Item = (&'a Storage, bool)>) -> Result<LockSet<'a>> {
        let mut held: smallvec::SmallVec<[(&'a Storage, bool); 4]> = smallvec::SmallVec::new();
        for (storage, write) in storages {
            // Insertion into address order; the lists are two or three long.
            let address = storage.address();
            let mut place = held.len();
            while place > 0 && held[place - 1].0.address() > address {
                place -= 1;
            }
            match place.checked_sub(1) {
                Some(before) if held[before].0.address() == address => held[before].1 |= write,
                _ if place == held.len() => held.push((storage, write)),
                _ => held.insert(place, (storage, write)),
            }
        }
        Self::take(held)
    }

    /// The same for a list that may be long.
    ///
    /// # Errors
    /// As [`LockSet::new`].
    pub fn of_many(mut storages: Vec<(&'a Storage, bool)>) -> Result<LockSet<'a>> {
        storages.sort_unstable_by_key(|(storage, _)| storage.address());
        storages.dedup_by(|later, first| {
            let same = later.0.address() == first.0.address();
            first.1 |= same && later.1;
            same
        });
        Self::take(storages.into())
    }

    /// Takes the locks of distinct storages in address order.
    #[inline]
    fn take(held: smallvec::SmallVec<[(&'a Storage, bool); 4]>) -> Result<LockSet<'a>> {
        if HELD_COUNT.get() > 0 {
            Self::check_own(&held)?;
        }
        for (storage, write) in &held {
            match write {
                true => storage.0.lock.lock_exclusive(),
                false => storage.0.lock.lock_shared_recursive(),
            }
        }
        Ok(LockSet { held })
    }

    #[cold]
    fn check_own(wanted: &[(&Storage, bool)]) -> Result<()> {
        HELD.with_borrow(|own| {
            for (storage, write) in wanted {
                let conflict = own.iter().any(|(a, w)| *a == storage.address() && (*w || *write));
                ensure!(!conflict, "this thread is accessing the tensor's memory directly: drop the accessor first");
            }
            Ok(())
        })
    }
}

impl Drop for LockSet<'_> {
    #[inline]
    fn drop(&mut self) {
        for (storage, write) in self.held.iter().rev() {
            // SAFETY: taken in `new` in the same mode.
            unsafe {
                match write {
                    true => storage.0.lock.unlock_exclusive(),
                    false => storage.0.lock.unlock_shared(),
                }
            }
        }
    }
}

/// A [`LockSet`] of one or two storages that are read: what small calls hold.
pub struct ReadLocks<'a>([Option<&'a Storage>; 2]);

impl<'a> ReadLocks<'a> {
    /// Takes the shared locks of both, which may be the same.
    ///
    /// # Errors
    /// As [`LockSet::new`].
    #[inline]
    pub fn new(first: &'a Storage, second: Option<&'a Storage>) -> Result<ReadLocks<'a>> {
        let (low, high) = match second {
            Some(second) if second.address() < first.address() => (second, Some(first)),
            Some(second) if second.address() > first.address() => (first, Some(second)),
            _ => (first, None),
        };
        if HELD_COUNT.get() > 0 {
            LockSet::check_own(&[(low, false)])?;
            high.map_or(Ok(()), |high| LockSet::check_own(&[(high, false)]))?;
        }
        low.0.lock.lock_shared_recursive();
        if let Some(high) = high {
            high.0.lock.lock_shared_recursive();
        }
        Ok(ReadLocks([Some(low), high]))
    }
}

impl Drop for ReadLocks<'_> {
    #[inline]
    fn drop(&mut self) {
        for storage in self.0.iter().rev().flatten() {
            // SAFETY: taken in `new` in the same mode.
            unsafe { storage.0.lock.unlock_shared() };
        }
    }
}

/// One storage's lock held by user code (an accessor) for as long as it likes. Operators called meanwhile on the same
/// thread that would wait for it give an error instead.
pub struct HeldLock {
    storage: Storage,
    write: bool,
    // Lock ownership is recorded per thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl HeldLock {
    /// Takes the lock of `storage`, exclusively to write.
    ///
    /// # Errors
    /// When this thread holds it already in a mode that excludes this use.
    pub fn new(storage: &Storage, write: bool) -> Result<HeldLock> {
        // The set's locks pass to the new owner.
        std::mem::forget(LockSet::new([(storage, write)])?);
        HELD.with_borrow_mut(|own| own.push((storage.address(), write)));
        HELD_COUNT.set(HELD_COUNT.get() + 1);
        Ok(HeldLock { storage: storage.clone(), write, _not_send: std::marker::PhantomData })
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let key = (self.storage.address(), self.write);
        HELD.with_borrow_mut(|own| own.iter().position(|h| *h == key).map(|i| own.swap_remove(i)));
        HELD_COUNT.set(HELD_COUNT.get() - 1);
        // SAFETY: taken in `new` in the same mode.
        unsafe {
            match self.write {
                true => self.storage.0.lock.unlock_exclusive(),
                false => self.storage.0.lock.unlock_shared(),
            }
        }
    }
}
