//! The thread pool behind every kernel: fork-join over equal pieces, and nothing else.
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! let sum = AtomicUsize::new(0);
//! flambeau_base::parallel::parallel_for(1000, 64, &|r| {
//!     sum.fetch_add(r.sum::<usize>(), Ordering::Relaxed);
//! });
//! assert_eq!(sum.into_inner(), 499_500);
//! ```
//!
//! Why not rayon: entering its pool from another thread costs a sleep and a wake (about 4.5 µs a call), and its split
//! depends on stealing. Here the caller works too, in the order of the pieces, and never waits for a worker that has
//! not begun: on a busy machine a call is at worst serial.
//!
//! Note [One job at a time]: there is one job slot. The thread that takes `busy` owns it; any other thread that comes
//! meanwhile, and any piece that calls in again, runs its pieces itself, serially. What is left of the job is one
//! word, `unclaimed` (first and one-past-last unclaimed piece), changed only by compare-and-swap: the caller claims
//! from the front, workers from the back, so that repeated operations on one tensor find their part in the same
//! core's cache. Whoever claims pieces may use the job until it has counted them in `unfinished`, because the caller
//! returns, and the slot is refilled, only when that count is zero. A swap that succeeds therefore always belongs to the
//! job that is in the slot, even if the word was read during an older one with the same numbers.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, Once, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// More threads than this are never started, whatever [`set_num_threads`] says.
const MAX_THREADS: usize = 256;
/// How long an idle worker looks for work before it sleeps. Waking a sleeper costs tens of µs (150 µs for a virtual
/// CPU that has been descheduled), the gap between two operations of a model a few.
const SPIN: Duration = Duration::from_micros(100);
/// After this much of [`SPIN`] an idle worker lets others onto its core between two looks.
const SPIN_ALONE: Duration = Duration::from_micros(30);
/// A sleeping worker is woken only for at least this much work that the caller would otherwise do alone, in ns.
/// Measured: the call costs about 10 µs, the worker comes some 30 µs later, so that jobs of 50 µs break even.
const WORTH_WAKING: u64 = 50_000;
/// Looks at `unfinished` before the caller starts to yield between two looks.
const SPINS_BEFORE_YIELD: u32 = 1000;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// How many threads kernels use: what [`set_num_threads`] said, else the environment variable
/// `FLAMBEAU_NUM_THREADS`, else the number of cores this process may use.
#[inline]
pub fn num_threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => default_threads(),
        n => n,
    }
}

#[cold]
fn default_threads() -> usize {
    let asked = std::env::var("FLAMBEAU_NUM_THREADS").ok().and_then(|v| v.trim().parse().ok()).filter(|&n| n > 0);
    let n = asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    // A concurrent `set_num_threads` wins.
    THREADS.compare_exchange(0, n, Relaxed, Relaxed).map_or_else(|set| set, |_| n)
}

/// Sets how many threads kernels use, at least one. Results do not depend on it. Threads are started when first
/// needed; those that are no longer needed sleep.
pub fn set_num_threads(n: usize) {
    THREADS.store(n.max(1), Relaxed);
}

thread_local! {
    /// Whether this thread is inside a piece, so that what it calls must not split again.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller is inside a piece of a [`parallel_for`].
#[inline]
pub fn in_parallel_region() -> bool {
    INSIDE.get()
}

/// Runs `f` over `0..len` in pieces of `grain` (the last may be shorter), on several threads when there is more than
/// one piece. The pieces depend on `len` and `grain` only, never on the number of threads, so a kernel that combines
/// per-piece results in order gives the same bits on any machine. Called from inside a piece, it runs serially.
///
/// A piece should be worth some microseconds (20,000 to 30,000 cheap elements): handing pieces over costs about half
/// a microsecond.
///
/// # Panics
/// When `f` does: with the first panic caught, after every piece that was begun has ended. Pieces not yet begun may be
/// left out.
#[inline]
pub fn parallel_for(len: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    let grain = grain.max(1);
    if len <= grain {
        if len > 0 {
            f(0..len);
        }
        return;
    }
    if num_threads() == 1 || INSIDE.get() {
        return run_pieces(0..len, grain, f);
    }
    share(len, grain, f);
}

fn run_pieces(all: Range<usize>, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    let mut start = all.start;
    while start < all.end {
        let end = start.saturating_add(grain).min(all.end);
        f(start..end);
        start = end;
    }
}

fn share(len: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    let pool = Pool::get();
    // Acquire pairs with the Release in `Owned::drop`: the last owner's use of the slot is over.
    if pool.busy.swap(true, Acquire) {
        return run_pieces(0..len, grain, f);
    }
    let _owned = Owned(pool);
    // The word of claims counts pieces in 32 bits: take longer jobs in parts of that many pieces.
    let part = grain.saturating_mul(u32::MAX as usize);
    let mut start = 0;
    while start < len {
        let end = start.saturating_add(part).min(len);
        pool.run(Job { f, all: start..end, grain });
        start = end;
    }
}

/// Ownership of the job slot.
struct Owned(&'static Pool);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.busy.store(false, Release);
    }
}

struct Job<'a> {
    f: &'a (dyn Fn(Range<usize>) + Sync),
    all: Range<usize>,
    grain: usize,
}

/// On its own cache lines (two, as prefetchers fetch pairs): what one core spins on, another must not write beside.
#[repr(align(128))]
struct Apart<T>(T);

struct Pool {
    /// First unclaimed piece in the low half, one past the last in the high half.
    unclaimed: Apart<AtomicU64>,
    /// Pieces of the job that have not ended.
    unfinished: Apart<AtomicUsize>,
    /// Written by the owner of `busy` while nothing is unclaimed or unfinished; read by whoever has claimed a piece.
    job: Apart<UnsafeCell<Option<Job<'static>>>>,
    busy: AtomicBool,
    /// How many workers run.
    started: AtomicUsize,
    /// Set when the system refused a thread: no more are tried.
    full: AtomicBool,
    workers: Vec<Worker>,
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// What a piece last cost, in ns, by a hash of the grain (which tells kernels apart well enough); 0 is unknown.
    costs: [AtomicU32; 64],
    /// What sleeping workers could have saved of late, in ns, and when that was written, in ns after `made`.
    owed: AtomicU64,
    owed_at: AtomicU64,
    made: Instant,
}

// SAFETY: `job` is the only part that is not `Sync`; Note [One job at a time] says who touches it when.
unsafe impl Sync for Pool {}

#[derive(Default)]
struct Worker {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Worker {
    #[inline]
    fn wake(&self) {
        // The plain load keeps the common case (awake) free of a write. Both pair with the SeqCst store before sleep.
        if self.asleep.load(SeqCst)
            && self.asleep.swap(false, SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

impl Pool {
    #[inline]
    fn get() -> &'static Pool {
        // SAFETY: a pool, once made, is never freed.
        unsafe { POOL.load(Acquire).as_ref() }.unwrap_or_else(Pool::make)
    }

    #[cold]
    fn make() -> &'static Pool {
        #[cfg(unix)]
        {
            // A forked child has the memory but none of the workers: it forgets the pool and makes its own. (The old
            // one may be in any state, so it is leaked.)
            extern "C" fn forget() {
                POOL.store(std::ptr::null_mut(), Release);
            }
            static HOOK: Once = Once::new();
            // SAFETY: the hook only stores to an atomic, which is allowed after a fork.
            HOOK.call_once(|| unsafe {
                libc::pthread_atfork(None, None, Some(forget));
            });
        }
        let new = Box::into_raw(Box::new(Pool {
            unclaimed: Apart(AtomicU64::new(0)),
            unfinished: Apart(AtomicUsize::new(0)),
            job: Apart(UnsafeCell::new(None)),
            busy: AtomicBool::new(false),
            started: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            workers: (1..MAX_THREADS).map(|_| Worker::default()).collect(),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
            costs: [const { AtomicU32::new(0) }; 64],
            owed: AtomicU64::new(0),
            owed_at: AtomicU64::new(0),
            made: Instant::now(),
        }));
        match POOL.compare_exchange(std::ptr::null_mut(), new, SeqCst, SeqCst) {
            // SAFETY: never freed.
            Ok(_) => unsafe { &*new },
            // SAFETY: `new` came from a box and nobody else has seen it; the other pool is never freed.
            Err(other) => unsafe {
                drop(Box::from_raw(new));
                &*other
            },
        }
    }

    /// Runs a job, on the thread that owns `busy`.
    fn run(&'static self, job: Job<'_>) {
        let threads = num_threads().min(MAX_THREADS);
        self.start_workers(threads);
        let pieces = (job.all.end - job.all.start).div_ceil(job.grain);
        let cost = &self.costs[(job.grain.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize) >> (usize::BITS - 6)) % 64];
        // SAFETY: this thread owns `busy` and nothing is unclaimed or unfinished, so nobody reads the slot. The
        // lifetime ends when this function returns, and it returns only when nobody can read the slot any more.
        unsafe { *self.job.0.get() = Some(std::mem::transmute::<Job<'_>, Job<'static>>(job)) };
        self.unfinished.0.store(pieces, Relaxed);
        // Publishes the slot to whoever claims (Release), and is ordered before the look at the sleepers (SeqCst): a
        // worker that goes to sleep either sees this job or is seen asleep.
        self.unclaimed.0.store((pieces as u64) << 32, SeqCst);

        INSIDE.set(true);
        if self.workers[..2.min(threads - 1)].iter().any(|w| w.asleep.load(SeqCst)) {
            // Waking is a system call here and a long way there: do it at once when this kernel is known to be worth
            // it, or not known; else look at the first piece. What sleepers would have saved is owed, so that a stream
            // of small jobs wakes them as well; it fades with time, four times as slowly.
            let now = self.made.elapsed().as_nanos() as u64;
            let passed = now.saturating_sub(self.owed_at.swap(now, Relaxed));
            let owed = self.owed.load(Relaxed).saturating_sub(passed / 4);
            let gain = |cost: u64| owed.saturating_add(cost.saturating_mul(pieces as u64 - 1));
            let known = u64::from(cost.load(Relaxed));
            let early = known == 0 || gain(known) >= WORTH_WAKING;
            if early {
                self.wake_children(0, threads);
            }
            let begin = Instant::now();
            if let Some(first) = self.claim(false, usize::MAX) {
                self.execute(first);
            }
            let taken = begin.elapsed().as_nanos().clamp(1, u128::from(u32::MAX)) as u64;
            cost.store(taken as u32, Relaxed);
            let late = !early && gain(taken) >= WORTH_WAKING;
            if late {
                self.wake_children(0, threads);
            }
            self.owed.store(if early || late { 0 } else { gain(taken) }, Relaxed);
        }
        while let Some(batch) = self.claim(false, threads) {
            self.execute(batch);
        }
        INSIDE.set(false);

        // Only pieces that some worker is running are left. Acquire: their writes are visible from here on.
        let mut looks = 0;
        while self.unfinished.0.load(Acquire) != 0 {
            looks += 1;
            if looks < SPINS_BEFORE_YIELD { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        // SAFETY: nothing is unclaimed or unfinished, as above.
        unsafe { *self.job.0.get() = None };
        if self.panicked.load(Relaxed) {
            self.panicked.store(false, Relaxed);
            let panic = self.panic.lock().unwrap_or_else(|e| e.into_inner()).take();
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
        }
    }

    /// Claims some of the unclaimed pieces: a share of them that shrinks as they do (Polychronopoulos and Kuck's guided
    /// self-scheduling, 1987), so that the word is not fought over and the last pieces are shared out singly.
    #[inline]
    fn claim(&self, at_back: bool, threads: usize) -> Option<Range<u32>> {
        let mut word = self.unclaimed.0.load(Relaxed);
        loop {
            let (front, back) = (word as u32, (word >> 32) as u32);
            if front >= back {
                return None;
            }
            let take = ((back - front) as usize / threads.saturating_mul(2)).max(1) as u32;
            let (claimed, left) = match at_back {
                true => (back - take..back, front..back - take),
                false => (front..front + take, front + take..back),
            };
            let new = u64::from(left.end) << 32 | u64::from(left.start);
            // Acquire: sees the slot as published, through however many other claims (they are all read-modify-write).
            match self.unclaimed.0.compare_exchange_weak(word, new, Acquire, Relaxed) {
                Ok(_) => return Some(claimed),
                Err(now) => word = now,
            }
        }
    }

    /// Runs claimed pieces and counts them as finished.
    fn execute(&self, pieces: Range<u32>) {
        let count = pieces.len();
        // SAFETY: pieces of the job in the slot are claimed and not yet counted, so the slot is not written.
        if let Some(job) = unsafe { &*self.job.0.get() } {
            let start = job.all.start + pieces.start as usize * job.grain;
            let end = start.saturating_add(count.saturating_mul(job.grain)).min(job.all.end);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run_pieces(start..end, job.grain, job.f))) {
                self.panic.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(panic);
                self.panicked.store(true, Relaxed);
            }
        }
        // Release: the pieces' writes, and the panic, before the count.
        self.unfinished.0.fetch_sub(count, Release);
    }

    /// Wakes the two workers below `node` in a binary tree whose root is the caller; each that finds work goes on.
    #[inline]
    fn wake_children(&self, node: usize, threads: usize) {
        for child in [2 * node + 1, 2 * node + 2] {
            if child < threads {
                self.workers[child - 1].wake();
            }
        }
    }

    /// Starts workers up to `threads - 1`. Only the owner of `busy` comes here.
    #[inline]
    fn start_workers(&'static self, threads: usize) {
        while self.started.load(Relaxed) + 1 < threads && !self.full.load(Relaxed) {
            let node = self.started.load(Relaxed) + 1;
            let thread = std::thread::Builder::new().name(format!("flambeau-{node}"));
            match thread.spawn(move || self.work(node)) {
                Ok(_) => self.started.store(node, Relaxed),
                Err(_) => self.full.store(true, Relaxed),
            }
        }
    }

    /// The life of worker `node`.
    fn work(&self, node: usize) {
        INSIDE.set(true);
        let me = &self.workers[node - 1];
        let _ = me.thread.set(std::thread::current());
        loop {
            let mut idle = Instant::now();
            loop {
                let threads = num_threads().min(MAX_THREADS);
                if node < threads
                    && let Some(batch) = self.claim(true, threads)
                {
                    self.wake_children(node, threads);
                    self.execute(batch);
                    while let Some(batch) = self.claim(true, threads) {
                        self.execute(batch);
                    }
                    idle = Instant::now();
                }
                for _ in 0..16 {
                    std::hint::spin_loop();
                    let word = self.unclaimed.0.load(Relaxed);
                    if (word as u32) < (word >> 32) as u32 {
                        break;
                    }
                }
                let waited = idle.elapsed();
                if waited > SPIN {
                    break;
                } else if waited > SPIN_ALONE {
                    std::thread::yield_now();
                }
            }
            // Asleep first, then a last look: the mirror image of the publication in `run`.
            me.asleep.store(true, SeqCst);
            let word = self.unclaimed.0.load(SeqCst);
            if node < num_threads() && (word as u32) < (word >> 32) as u32 {
                me.asleep.store(false, SeqCst);
                continue;
            }
            while me.asleep.load(Acquire) {
                std::thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Runs a job and checks that each element is covered once and each piece is the one promised.
    fn check(len: usize, grain: usize) {
        let hits: Vec<AtomicU32> = (0..len).map(|_| AtomicU32::new(0)).collect();
        parallel_for(len, grain, &|r| {
            assert_eq!(r.start % grain.max(1), 0);
            assert_eq!(r.end, (r.start + grain.max(1)).min(len));
            for i in r {
                hits[i].fetch_add(1, Relaxed);
            }
        });
        assert!(hits.iter().all(|h| h.load(Relaxed) == 1), "len {len}, grain {grain}");
    }

    #[test]
    fn covers_everything_once() {
        for len in [0, 1, 2, 3, 7, 64, 1000, 10_007] {
            for grain in [0, 1, 2, 3, 64, 1000, 20_000] {
                check(len, grain);
            }
        }
        let calls = AtomicUsize::new(0);
        parallel_for(usize::MAX, usize::MAX / 2, &|_| {
            calls.fetch_add(1, Relaxed);
        });
        assert_eq!(calls.into_inner(), 3);
    }

    #[test]
    fn resizes_up_and_down_and_really_shares() {
        let before = num_threads();
        for n in [4, 1, 3, 7, 2, 0, 5, 4] {
            set_num_threads(n);
            for _ in 0..20 {
                check(1000, 7);
            }
        }
        assert_eq!(num_threads(), 4);
        let seen = Mutex::new(HashSet::new());
        for _ in 0..200 {
            parallel_for(16, 1, &|_| {
                std::thread::sleep(Duration::from_micros(200));
                seen.lock().unwrap().insert(std::thread::current().id());
            });
            if seen.lock().unwrap().len() >= 2 {
                break;
            }
        }
        assert!(seen.lock().unwrap().len() >= 2);
        set_num_threads(before);
    }

    #[test]
    fn nested_calls_run_in_their_piece() {
        let total = AtomicUsize::new(0);
        assert!(!in_parallel_region());
        parallel_for(64, 4, &|outer| {
            let me = std::thread::current().id();
            parallel_for(100, 10, &|inner| {
                assert_eq!(std::thread::current().id(), me);
                total.fetch_add(outer.len() * inner.len(), Relaxed);
            });
        });
        assert_eq!(total.into_inner(), 6400);
        assert!(!in_parallel_region());
    }

    #[test]
    fn many_callers_each_get_their_own_result() {
        std::thread::scope(|s| {
            for t in 0..8 {
                s.spawn(move || {
                    for i in 0..300 {
                        let len = 100 + t * 37 + i;
                        let sum = AtomicUsize::new(0);
                        parallel_for(len, 5, &|r| {
                            sum.fetch_add(r.sum(), Relaxed);
                        });
                        assert_eq!(sum.into_inner(), len * (len - 1) / 2);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        for bad in [0, 31, 63] {
            let caught = catch_unwind(|| {
                parallel_for(64, 1, &|r| {
                    if r.start == bad {
                        std::panic::panic_any(bad);
                    }
                });
            });
            assert_eq!(*caught.unwrap_err().downcast::<usize>().unwrap(), bad);
            assert!(!in_parallel_region());
            check(1000, 3);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_forked_child_makes_its_own_pool() {
        check(1000, 3);
        // SAFETY: the child runs a little code of ours and leaves with `_exit`.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let sum = AtomicUsize::new(0);
                parallel_for(1000, 10, &|r| {
                    sum.fetch_add(r.len(), Relaxed);
                });
                libc::_exit(if sum.into_inner() == 1000 { 0 } else { 1 });
            }
            let mut status = -1;
            for _ in 0..500 {
                if libc::waitpid(child, &mut status, libc::WNOHANG) != 0 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(status, 0);
        }
    }

    #[test]
    #[ignore = "a measurement: cargo test --release -p flambeau-base parallel::tests::fork_join_cost -- --ignored --nocapture"]
    fn fork_join_cost() {
        for pause in [0, 50, 2000] {
            for (len, work) in [(2, 0), (2, 3000), (8, 3000), (64, 0)] {
                let mut times: Vec<u64> = (0..2001)
                    .take(if pause > 1000 { 201 } else { 2001 })
                    .map(|_| {
                        let begin = Instant::now();
                        while pause > 0 && begin.elapsed() < Duration::from_micros(pause) {
                            std::hint::spin_loop();
                        }
                        let begin = Instant::now();
                        parallel_for(len, 1, &|_| {
                            let begin = Instant::now();
                            while begin.elapsed() < Duration::from_nanos(work) {}
                        });
                        begin.elapsed().as_nanos() as u64
                    })
                    .collect();
                times.sort_unstable();
                let (median, p90) = (times[times.len() / 2], times[times.len() * 9 / 10]);
                println!("pause {pause} µs, {len} pieces of {work} ns: median {median} ns, p90 {p90} ns");
            }
        }
    }
}
