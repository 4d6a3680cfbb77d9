//! Where storages get their bytes.
//!
//! Note [Small and large blocks]: a step of a model allocates and frees the same sizes over and over, and what that costs
//! depends on the size.
//! - *Small* blocks (up to 128 KiB) come from the system allocator and return to lists per thread and size: no lock, no
//!   atomic operation, 5 ns for a pair where glibc's aligned blocks take 110.
//! - *Large* ones the system allocator would map and unmap, and each first touch of a fresh page is a fault: 25 ms for
//!   64 MiB, most of the time of an elementwise operation. A cache shared by all threads keeps them instead (0.15 ms), up
//!   to a [limit](set_cache_limit), and asks for huge pages, so that fresh ones take 2.9 ms.
//!
//! Note [Staggered blocks]: processors tell loads from earlier stores by the last twelve bits of their addresses before they
//! know the rest. Arrays that begin at the same place of a page, as mappings do, therefore seem to overlap in every loop over
//! them, and loads wait for stores that do not concern them: a step of Adam over 1.3 million parameters takes 1.5 times as
//! long. So large blocks begin at different places of their first page.
//!
//! `deallocate` is told the size, so blocks have no headers, and a block may be freed on any thread.

use crate::fast_paths::FastPath;
use crate::{Device, Error, ErrorKind, Result};
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize};

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

    /// Copies bytes from one block of the device to another, for storages that grow. The default is for memory that the
    /// host can address.
    ///
    /// # Errors
    /// When the device cannot.
    ///
    /// # Safety
    /// `from` and `to` are the beginnings of two blocks from `allocate` of this allocator and `device`, of at least
    /// `nbytes` bytes each.
    unsafe fn copy(&self, _device: Device, from: *const u8, to: *mut u8, nbytes: usize) -> Result<()> {
        // SAFETY: as the caller promises; different blocks do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to, nbytes) };
        Ok(())
    }
}

/// Host memory.
pub static CPU: CpuAllocator = CpuAllocator;
/// No memory at all.
pub static META: MetaAllocator = MetaAllocator;

/// Host memory. See Note [Small and large blocks].
pub struct CpuAllocator;

impl Allocator for CpuAllocator {
    #[inline]
    fn allocate(&self, _device: Device, nbytes: usize) -> Result<NonNull<u8>> {
        debug_assert!(nbytes > 0);
        if nbytes <= SMALL { small::allocate(nbytes) } else { large::allocate(nbytes) }
    }

    #[inline]
    unsafe fn deallocate(&self, _device: Device, data: NonNull<u8>, nbytes: usize) {
        // SAFETY: the same module, by the same size, that gave the block.
        unsafe { if nbytes <= SMALL { small::deallocate(data, nbytes) } else { large::deallocate(data, nbytes) } }
    }
}

/// The largest small block: glibc's first threshold for mapping a block by itself.
const SMALL: usize = 128 << 10;
/// Above the smallest blocks sizes are rounded up to eighths of a power of two, so that at most 12.5 % are lost and
/// nearby sizes share blocks.
const STEPS: usize = 8;

/// The class of a size above 2^`first`, numbered from 0, and the size of that class's blocks.
#[inline(always)]
const fn eighths(nbytes: usize, first: u32) -> (usize, usize) {
    let power = (nbytes - 1).ilog2();
    let shift = power - STEPS.trailing_zeros();
    let step = ((nbytes - 1) >> shift) - STEPS;
    ((power - first) as usize * STEPS + step, (STEPS + step + 1) << shift)
}

fn system_allocate(size: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(size, ALIGNMENT).ok()?;
    // SAFETY: sizes here are never zero.
    NonNull::new(unsafe { std::alloc::alloc(layout) })
}

/// # Safety
/// `data` came from [`system_allocate`] with the same `size`.
unsafe fn system_deallocate(data: NonNull<u8>, size: usize) {
    // SAFETY: the layout is the one that was allocated.
    unsafe { std::alloc::dealloc(data.as_ptr(), Layout::from_size_align_unchecked(size, ALIGNMENT)) }
}

/// A block for a small object (at most [`SMALL`] bytes), from the lists of small blocks; not counted in [`MemoryStats`].
#[inline(always)]
pub(crate) fn allocate_object(nbytes: usize) -> Option<NonNull<u8>> {
    small::take(nbytes)
}

/// Takes back a block.
///
/// # Safety
/// `block` came from [`allocate_object`] with the same `nbytes`, and nobody uses it any more.
#[inline(always)]
pub(crate) unsafe fn deallocate_object(block: NonNull<u8>, nbytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { small::give(block, nbytes) };
}

/// Whether there are so many bytes, as far as the system says. (It takes two system calls: the block is given back at once.)
pub fn is_available(nbytes: usize) -> bool {
    if nbytes > host_memory() {
        return false;
    }
    // (Hidden, or the compiler may take a block that nobody uses for one that is always there.)
    let block = std::hint::black_box(system_allocate(nbytes.max(1)));
    if let Some(block) = block {
        // SAFETY: just allocated with this size.
        unsafe { system_deallocate(block, nbytes.max(1)) };
    }
    block.is_some()
}

/// Asks whether there is room for `nbytes` bytes of working memory, before it is taken in a way that cannot fail. A few
/// hundred megabytes are not asked for: no machine is without.
///
/// # Errors
/// When there is not.
pub fn check_available(nbytes: usize) -> Result<()> {
    const FEW: usize = 1 << 28;
    if nbytes <= FEW || is_available(nbytes) { Ok(()) } else { Err(out_of_memory(nbytes)) }
}

/// The error for a request of `nbytes` bytes that cannot be met.
#[cold]
pub fn out_of_memory(nbytes: usize) -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        format!(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes. \
             Error code 12 (Cannot allocate memory)"
        ),
    )
}

/// How much host memory there is for this process (or its container), with swap, in bytes; `usize::MAX` where the
/// system does not say.
///
/// Linux grants more than it has and kills whoever touches it, so larger requests must be refused here.
pub fn host_memory() -> usize {
    static TOTAL: OnceLock<usize> = OnceLock::new();
    *TOTAL.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = |name: &str| -> Option<usize> {
            text.lines().find_map(|l| l.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
        };
        let container = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
            .into_iter()
            .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok())
            .unwrap_or(usize::MAX);
        match kib("MemTotal:") {
            Some(ram) => container.min(ram.saturating_mul(1024)).saturating_add(kib("SwapTotal:").unwrap_or(0) * 1024),
            None => usize::MAX,
        }
    })
}

/// What host memory is in use for storages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes in live blocks, rounded up to the sizes that blocks have.
    pub allocated: usize,
    /// The same, and the bytes of large blocks kept for reuse.
    pub reserved: usize,
    /// The most that `allocated` has been since [`reset_peak_memory_stats`].
    pub peak: usize,
}

/// What is in use now. Each other thread may hold back up to 64 KiB of news.
pub fn memory_stats() -> MemoryStats {
    small::flush();
    let allocated = ALLOCATED.load(Relaxed).max(0) as usize;
    MemoryStats {
        allocated,
        reserved: allocated + large::cached(),
        peak: (PEAK.load(Relaxed).max(0) as usize).max(allocated),
    }
}

/// Makes the peak what is allocated now.
pub fn reset_peak_memory_stats() {
    small::flush();
    PEAK.store(ALLOCATED.load(Relaxed), Relaxed);
}

/// Gives every large block that is kept for reuse back to the system.
pub fn empty_cache() {
    large::trim(0);
}

/// Sets how many bytes of free large blocks are kept for reuse (at first a quarter of the host's memory).
pub fn set_cache_limit(nbytes: usize) {
    // The largest number stands for the default.
    large::LIMIT.store(nbytes.min(usize::MAX - 1), Relaxed);
    large::trim(nbytes);
}

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);
/// A thread tells [`ALLOCATED`] when it has this many bytes to tell: shared counters cost more than small blocks.
const NEWS: usize = 64 << 10;

fn publish(bytes: isize) {
    let now = ALLOCATED.fetch_add(bytes, Relaxed) + bytes;
    if bytes > 0 && now > PEAK.load(Relaxed) {
        PEAK.fetch_max(now, Relaxed);
    }
}

mod small {
    //! Free lists of blocks up to [`SMALL`], by class, for each thread.
    use super::*;

    /// Up to this size the classes are the multiples of [`ALIGNMENT`].
    const TINY: usize = 4096;
    const TINY_CLASSES: usize = TINY / ALIGNMENT;
    const CLASSES: usize = TINY_CLASSES + (SMALL / TINY).trailing_zeros() as usize * STEPS;
    /// A list keeps this many bytes, or four blocks if that is more.
    const LIST: usize = 256 << 10;
    /// All the lists of a thread keep this many bytes.
    const THREAD: usize = 4 << 20;

    /// The class of a size, and the size of that class's blocks.
    #[inline(always)]
    pub(super) const fn class_of(nbytes: usize) -> (usize, usize) {
        if nbytes <= TINY {
            ((nbytes - 1) / ALIGNMENT, nbytes.next_multiple_of(ALIGNMENT))
        } else {
            let (class, size) = eighths(nbytes, TINY.trailing_zeros());
            (TINY_CLASSES + class, size)
        }
    }

    struct Lists {
        /// The first free block of each class; each block begins with the address of the next.
        first: [*mut u8; CLASSES],
        length: [u16; CLASSES],
        /// Bytes in the lists.
        kept: usize,
        /// What this thread has not yet published.
        news: isize,
    }

    thread_local! {
        static LISTS: Guarded = const {
            Guarded(UnsafeCell::new(Lists {
                first: [std::ptr::null_mut(); CLASSES],
                length: [0; CLASSES],
                kept: 0,
                news: 0,
            }))
        };
    }

    /// The lists of a thread, given back when it ends.
    struct Guarded(UnsafeCell<Lists>);

    impl Lists {
        #[inline(always)]
        fn count(&mut self, bytes: isize) {
            self.news += bytes;
            if self.news.unsigned_abs() >= NEWS {
                publish(std::mem::take(&mut self.news));
            }
        }

        /// Takes the first block off a list.
        #[inline(always)]
        fn pop(&mut self, class: usize, size: usize) -> Option<NonNull<u8>> {
            let block = NonNull::new(self.first[class])?;
            // SAFETY: a listed block is a free system block of its class and begins with the next one's address.
            self.first[class] = unsafe { block.cast::<*mut u8>().read() };
            self.length[class] -= 1;
            self.kept -= size;
            Some(block)
        }

        /// Puts a block on a list, unless that is full.
        ///
        /// # Safety
        /// `block` is a block of this class and size that nobody uses.
        #[inline(always)]
        unsafe fn push(&mut self, class: usize, size: usize, block: NonNull<u8>) -> bool {
            let length = usize::from(self.length[class]);
            if (length >= 4 && (length + 1) * size > LIST) || self.kept + size > THREAD {
                return false;
            }
            // SAFETY: the block is free, at least 64 bytes, and aligned for a pointer.
            unsafe { block.cast::<*mut u8>().write(self.first[class]) };
            self.first[class] = block.as_ptr();
            self.length[class] += 1;
            self.kept += size;
            true
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            let lists = self.0.get_mut();
            for nbytes in (1..=SMALL).step_by(ALIGNMENT) {
                let (class, size) = class_of(nbytes);
                while let Some(block) = lists.pop(class, size) {
                    // SAFETY: a listed block is a free system block of its class.
                    unsafe { system_deallocate(block, size) };
                }
            }
            publish(lists.news);
        }
    }

    /// Runs `f` on this thread's lists; `None` when the thread is ending.
    #[inline(always)]
    fn with<R>(f: impl FnOnce(&mut Lists) -> R) -> Option<R> {
        // SAFETY: only this thread has the lists, and every `f` is a leaf below, so that no other borrow is live.
        LISTS.try_with(|lists| f(unsafe { &mut *lists.0.get() })).ok()
    }

    #[inline(always)]
    pub(super) fn allocate(nbytes: usize) -> Result<NonNull<u8>> {
        let (class, size) = class_of(nbytes);
        let listed = with(|lists| {
            let block = lists.pop(class, size)?;
            lists.count(size as isize);
            Some(block)
        });
        listed.flatten().map_or_else(|| allocate_new(nbytes), Ok)
    }

    #[cold]
    fn allocate_new(nbytes: usize) -> Result<NonNull<u8>> {
        let (_, size) = class_of(nbytes);
        let block = system_allocate(size).ok_or_else(|| out_of_memory(nbytes))?;
        count(size as isize);
        Ok(block)
    }

    /// As [`allocate`], uncounted.
    #[inline(always)]
    pub(super) fn take(nbytes: usize) -> Option<NonNull<u8>> {
        let (class, size) = class_of(nbytes);
        with(|lists| lists.pop(class, size)).flatten().or_else(|| system_allocate(size))
    }

    /// # Safety
    /// `block` came from [`allocate`] with the same `nbytes`, and nobody uses it.
    #[inline(always)]
    pub(super) unsafe fn deallocate(block: NonNull<u8>, nbytes: usize) {
        let (class, size) = class_of(nbytes);
        let listed = with(|lists| {
            lists.count(-(size as isize));
            // SAFETY: as the caller promises.
            unsafe { lists.push(class, size, block) }
        });
        if listed == Some(true) {
            return;
        }
        if listed.is_none() {
            publish(-(size as isize));
        }
        // SAFETY: a block of this class, in no list.
        unsafe { system_deallocate(block, size) };
    }

    /// As [`deallocate`], uncounted.
    ///
    /// # Safety
    /// `block` came from [`take`] with the same `nbytes`, and nobody uses it.
    #[inline(always)]
    pub(super) unsafe fn give(block: NonNull<u8>, nbytes: usize) {
        let (class, size) = class_of(nbytes);
        // SAFETY: as the caller promises; when it is in no list it goes back to the system.
        unsafe {
            if with(|lists| lists.push(class, size, block)) != Some(true) {
                system_deallocate(block, size);
            }
        }
    }

    /// Counts bytes, of large blocks too.
    #[inline]
    pub(super) fn count(bytes: isize) {
        if with(|lists| lists.count(bytes)).is_none() {
            publish(bytes);
        }
    }

    /// Publishes this thread's news.
    pub(super) fn flush() {
        with(|lists| publish(std::mem::take(&mut lists.news)));
    }
}

mod large {
    //! The cache of large blocks.
    use super::*;

    const FIRST: u32 = SMALL.trailing_zeros();
    const CLASSES: usize = (isize::BITS - 1 - FIRST) as usize * STEPS + 1;
    /// The size of a huge page on x86-64 and (with 4 KiB base pages) on AArch64.
    const HUGE: usize = 2 << 20;
    const UNSET: usize = usize::MAX;

    pub(super) static LIMIT: AtomicUsize = AtomicUsize::new(UNSET);

    fn limit() -> usize {
        match LIMIT.load(Relaxed) {
            _ if !FastPath::MemoryCache.is_on() => 0,
            UNSET => host_memory() / 4,
            n => n,
        }
    }

    struct Free {
        /// When it was freed, in frees.
        since: u64,
        block: NonNull<u8>,
    }

    struct Cache {
        /// By class, oldest first.
        free: [Vec<Free>; CLASSES],
        /// Bytes in them.
        bytes: usize,
        frees: u64,
    }

    // SAFETY: free blocks belong to no thread.
    unsafe impl Send for Cache {}

    /// A lock that gives up: a forked child may find it held by a thread that it does not have, and then does without
    /// the cache. The lock is held for some tens of instructions, so giving up is otherwise rare, and harmless.
    struct Shared {
        locked: AtomicBool,
        cache: UnsafeCell<Cache>,
    }

    // SAFETY: `with` gives the cache to one thread at a time.
    unsafe impl Sync for Shared {}

    static SHARED: Shared = Shared {
        locked: AtomicBool::new(false),
        cache: UnsafeCell::new(Cache { free: [const { Vec::new() }; CLASSES], bytes: 0, frees: 0 }),
    };

    fn with<R>(f: impl FnOnce(&mut Cache) -> R) -> Option<R> {
        const LOOKS: u32 = 300;
        for look in 0..LOOKS {
            if !SHARED.locked.load(Relaxed) && !SHARED.locked.swap(true, Acquire) {
                // SAFETY: this thread holds the lock until the store below. `f` is our own and does not unwind.
                let result = f(unsafe { &mut *SHARED.cache.get() });
                SHARED.locked.store(false, Release);
                return Some(result);
            }
            if look < LOOKS / 3 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        None
    }

    pub(super) fn cached() -> usize {
        with(|cache| cache.bytes).unwrap_or(0)
    }

    pub(super) fn allocate(nbytes: usize) -> Result<NonNull<u8>> {
        if nbytes > host_memory().min(isize::MAX as usize / 2) {
            return Err(out_of_memory(nbytes));
        }
        let (class, size) = eighths(nbytes, FIRST);
        let reused = with(|cache| {
            let free = cache.free[class].pop()?;
            cache.bytes -= size;
            Some(free.block)
        });
        let block = reused.flatten().or_else(|| map(size)).or_else(|| {
            empty_cache();
            map(size)
        });
        let block = block.ok_or_else(|| out_of_memory(nbytes))?;
        small::count(size as isize);
        Ok(stagger(block))
    }

    /// The part of an address that loads and stores are told apart by, in bytes.
    #[cfg(target_os = "linux")]
    const ALIASING: usize = 4096;

    /// What a mapping is larger than its block, to leave room for its place in the first page. (Whole pages: other
    /// architectures may have large ones. What is not touched costs addresses only.)
    #[cfg(target_os = "linux")]
    const SPARE: usize = if cfg!(target_arch = "x86_64") { ALIASING } else { 1 << 16 };

    /// Moves the beginning of a block's use within its first page (Note [Staggered blocks]).
    #[cfg(target_os = "linux")]
    fn stagger(mapping: NonNull<u8>) -> NonNull<u8> {
        /// Sixteen places; those of blocks one after the other are far apart.
        const STEP: usize = 11 * ALIASING / 16;
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        if !FastPath::MemoryStagger.is_on() {
            return mapping;
        }
        let place = COUNT.fetch_add(1, Relaxed).wrapping_mul(STEP) % ALIASING;
        // SAFETY: a mapping is larger than its block by `SPARE`.
        unsafe { mapping.add(place) }
    }

    /// What [`stagger`] was given.
    #[cfg(target_os = "linux")]
    fn unstagger(block: NonNull<u8>) -> NonNull<u8> {
        let place = block.as_ptr().addr() % ALIASING;
        // SAFETY: mappings begin with a page, so this is the mapping's beginning.
        unsafe { block.sub(place) }
    }

    #[cfg(not(target_os = "linux"))]
    fn stagger(block: NonNull<u8>) -> NonNull<u8> {
        block
    }

    #[cfg(not(target_os = "linux"))]
    fn unstagger(block: NonNull<u8>) -> NonNull<u8> {
        block
    }

    /// # Safety
    /// `block` came from [`allocate`] with the same `nbytes`, and nobody uses it.
    pub(super) unsafe fn deallocate(block: NonNull<u8>, nbytes: usize) {
        let (class, size) = eighths(nbytes, FIRST);
        let block = unstagger(block);
        let limit = limit();
        small::count(-(size as isize));
        let kept = size <= limit
            && with(|cache| {
                cache.frees += 1;
                cache.bytes += size;
                cache.free[class].push(Free { since: cache.frees, block });
                cache.bytes
            })
            .map(|bytes| {
                if bytes > limit {
                    trim(limit);
                }
            })
            .is_some();
        if !kept {
            // SAFETY: passed on.
            unsafe { unmap(block, size) };
        }
    }

    /// Gives free blocks back, oldest first, until at most `limit` bytes are kept.
    pub(super) fn trim(limit: usize) {
        loop {
            let oldest = with(|cache| {
                if cache.bytes <= limit {
                    return None;
                }
                let lists = cache.free.iter().enumerate();
                let (class, _) =
                    lists.filter_map(|(c, l)| Some((c, l.first()?.since))).min_by_key(|&(_, since)| since)?;
                let size = (STEPS + 1 + class % STEPS) << (FIRST as usize + class / STEPS - STEPS.ilog2() as usize);
                cache.bytes -= size;
                Some((cache.free[class].remove(0).block, size))
            });
            match oldest.flatten() {
                // SAFETY: a free block of that class, now in no list.
                Some((block, size)) => unsafe { unmap(block, size) },
                None => return,
            }
        }
    }

    /// Maps `size` bytes and `SPARE` more.
    #[cfg(target_os = "linux")]
    fn map(size: usize) -> Option<NonNull<u8>> {
        let size = size.checked_add(SPARE)?;
        // Huge pages need their alignment: map one more and give the ends back.
        let slack = if size >= HUGE { HUGE } else { 0 };
        let length = size.checked_add(slack)?;
        // SAFETY: a new private mapping touches no other memory; what is unmapped and advised lies inside it.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return None;
            }
            let start = start.cast::<u8>();
            if slack == 0 {
                return NonNull::new(start);
            }
            let head = start.align_offset(HUGE);
            if head > 0 {
                libc::munmap(start.cast(), head);
            }
            let block = start.add(head);
            if slack > head {
                libc::munmap(block.add(size).cast(), slack - head);
            }
            if FastPath::MemoryHugePages.is_on() {
                libc::madvise(block.cast(), size, libc::MADV_HUGEPAGE);
            }
            NonNull::new(block)
        }
    }

    /// # Safety
    /// `block` came from [`map`] with the same `size`.
    #[cfg(target_os = "linux")]
    unsafe fn unmap(block: NonNull<u8>, size: usize) {
        // SAFETY: the mapping is ours.
        unsafe { libc::munmap(block.as_ptr().cast(), size + SPARE) };
    }

    #[cfg(not(target_os = "linux"))]
    fn map(size: usize) -> Option<NonNull<u8>> {
        system_allocate(size)
    }

    /// # Safety
    /// `block` came from [`map`] with the same `size`.
    #[cfg(not(target_os = "linux"))]
    unsafe fn unmap(block: NonNull<u8>, size: usize) {
        // SAFETY: passed on.
        unsafe { system_deallocate(block, size) }
    }

    #[cfg(test)]
    pub(super) const PAGE: usize = HUGE;
}

/// The allocator of the `meta` device: every storage is a size and no bytes.
pub struct MetaAllocator;

impl Allocator for MetaAllocator {
    fn allocate(&self, _device: Device, _nbytes: usize) -> Result<NonNull<u8>> {
        Ok(NonNull::dangling())
    }
    unsafe fn deallocate(&self, _device: Device, _data: NonNull<u8>, _nbytes: usize) {}
    unsafe fn copy(&self, _device: Device, _from: *const u8, _to: *mut u8, _nbytes: usize) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
