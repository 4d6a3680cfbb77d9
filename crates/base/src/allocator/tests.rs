use super::*;
use std::sync::mpsc;

fn get(nbytes: usize) -> NonNull<u8> {
    let block = CPU.allocate(Device::CPU, nbytes).unwrap();
    assert_eq!(block.as_ptr() as usize % ALIGNMENT, 0);
    // SAFETY: the block has this many bytes.
    unsafe {
        block.write_bytes(0xA5, nbytes.min(8192));
        block.add(nbytes - 1).write(1);
    }
    block
}

fn give(block: NonNull<u8>, nbytes: usize) {
    // SAFETY: every caller passes what `get` gave it, once.
    unsafe { CPU.deallocate(Device::CPU, block, nbytes) }
}

#[test]
fn live_blocks_never_overlap() {
    let sizes = [1, 7, 63, 64, 65, 100, 1000, 4095, 4096, 4097, 50_000, 131_072, 131_073, 1 << 20, (2 << 20) + 5];
    let mut blocks: Vec<(usize, usize)> = Vec::new();
    for round in 0..3 {
        for size in sizes {
            blocks.extend((0..3).map(|_| (get(size).as_ptr() as usize, size)));
        }
        let mut sorted = blocks.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        if round < 2 {
            for (block, size) in blocks.split_off(blocks.len() / 2) {
                give(NonNull::new(block as *mut u8).unwrap(), size);
            }
        }
    }
    for (block, size) in blocks {
        give(NonNull::new(block as *mut u8).unwrap(), size);
    }
}

#[test]
fn small_blocks_come_back_on_the_same_thread() {
    let first = get(1000);
    give(first, 1000);
    let second = get(961);
    assert_eq!(first, second);
    give(second, 961);
    // More than a list keeps.
    let many: Vec<_> = (0..2000).map(|_| get(200)).collect();
    many.into_iter().for_each(|b| give(b, 200));
}

#[test]
fn blocks_may_be_freed_on_another_thread_even_as_it_ends() {
    struct Late(usize, usize);
    impl Drop for Late {
        fn drop(&mut self) {
            give(NonNull::new(self.0 as *mut u8).unwrap(), self.1);
            let size = self.1;
            give(get(size), size);
        }
    }
    thread_local! { static LATE: std::cell::RefCell<Vec<Late>> = const { std::cell::RefCell::new(Vec::new()) }; }
    let (send, receive) = mpsc::sync_channel::<(usize, usize)>(64);
    let consumer = std::thread::spawn(move || {
        for (i, (block, size)) in receive.into_iter().enumerate() {
            if i % 7 == 0 {
                LATE.with_borrow_mut(|late| late.push(Late(block, size)));
            } else {
                give(NonNull::new(block as *mut u8).unwrap(), size);
            }
        }
    });
    for i in 0..5000 {
        let size = [16, 640, 4096, 10_000, 200_000][i % 5];
        send.send((get(size).as_ptr() as usize, size)).unwrap();
    }
    drop(send);
    consumer.join().unwrap();
}

#[test]
fn size_classes_fit_tightly_and_are_numbered_without_gaps() {
    let mut last = small::class_of(1);
    assert_eq!(last, (0, 64));
    for nbytes in 1..=SMALL {
        let (class, size) = small::class_of(nbytes);
        assert!(size >= nbytes && size - nbytes < (nbytes / 8).max(64), "{nbytes}: {size}");
        assert!((class, size) == last || class == last.0 + 1 && size > last.1);
        last = (class, size);
    }
    let mut next = 0;
    for power in 17..46 {
        for eighth in 0..8usize {
            let (from, to) = ((8 + eighth) << (power - 3), (9 + eighth) << (power - 3));
            for nbytes in [from + 1, (from + to) / 2, to] {
                assert_eq!(eighths(nbytes, 17), (next, to));
            }
            next += 1;
        }
    }
    eighths(isize::MAX as usize / 2, 17);
}

/// One test for all that is global: the cache, its limit and the statistics. (Other tests move the statistics by
/// a few MiB meanwhile.)
#[test]
fn large_blocks_are_kept_counted_and_given_back() {
    FastPath::MemoryCache.set(true);
    const MIB: usize = 1 << 20;
    let size = 300 * MIB;
    let before = memory_stats();
    let block = get(size);
    #[cfg(target_os = "linux")]
    assert!(block.as_ptr() as usize % large::PAGE < 4096);
    let during = memory_stats();
    assert!(during.allocated >= before.allocated + 280 * MIB && during.peak >= during.allocated);
    give(block, size);
    let after = memory_stats();
    assert!(after.allocated + 280 * MIB <= during.allocated);
    assert!(after.reserved >= after.allocated + size && after.peak >= during.allocated);
    let page = |block: NonNull<u8>| block.as_ptr() as usize / 4096;
    assert_eq!(page(get(size - 7)), page(block), "reused");
    give(block, size - 7);
    // The oldest go first.
    let newer = get(600 * MIB);
    give(newer, 600 * MIB);
    set_cache_limit(700 * MIB);
    assert!((640 * MIB..=700 * MIB).contains(&large::cached()));
    set_cache_limit(usize::MAX);
    empty_cache();
    assert!(large::cached() <= 64 * MIB);
    reset_peak_memory_stats();
    assert!(memory_stats().peak < during.allocated);
}

#[test]
fn impossible_requests_are_refused() {
    for nbytes in [host_memory().saturating_add(1), 1 << 50, isize::MAX as usize, usize::MAX] {
        let error = CPU.allocate(Device::CPU, nbytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.message().contains(&format!("you tried to allocate {nbytes} bytes")));
    }
}

#[test]
#[ignore = "a measurement"]
fn cost() {
    use std::time::Instant;
    for size in [64, 4096, 5000, 100_000, 200_000, 4 << 20, 64 << 20] {
        let rounds = 20_000;
        let time = |touch: bool, f: &mut dyn FnMut()| {
            let rounds = if touch { 20 } else { rounds };
            f();
            let begin = Instant::now();
            (0..rounds).for_each(|_| f());
            begin.elapsed().as_nanos() as f64 / rounds as f64
        };
        let pair = time(false, &mut || {
            // SAFETY: what was just given.
            unsafe { CPU.deallocate(Device::CPU, CPU.allocate(Device::CPU, size).unwrap(), size) }
        });
        let touch = |block: NonNull<u8>| {
            // SAFETY: inside the block.
            (0..size).step_by(4096).for_each(|i| unsafe { block.add(i).write_volatile(1) });
        };
        let ours = time(true, &mut || {
            let block = CPU.allocate(Device::CPU, size).unwrap();
            touch(block);
            give(block, size);
        });
        let fresh = time(true, &mut || {
            empty_cache();
            let block = CPU.allocate(Device::CPU, size).unwrap();
            touch(block);
            give(block, size);
        });
        let system = time(true, &mut || {
            let block = system_allocate(size).unwrap();
            touch(block);
            // SAFETY: what was just given.
            unsafe { system_deallocate(block, size) };
        });
        println!("{size}: pair {pair:.1} ns; touching pages: kept {ours:.0}, fresh {fresh:.0}, system {system:.0} ns");
    }
}

/// Note [Staggered blocks].
#[test]
#[cfg(target_os = "linux")]
fn large_blocks_begin_at_different_places_of_a_page() {
    FastPath::MemoryStagger.set(true);
    let blocks: Vec<_> = (0..4).map(|_| get(1 << 20)).collect();
    let mut places: Vec<_> = blocks.iter().map(|block| block.as_ptr() as usize % 4096).collect();
    places.sort_unstable();
    // (Other tests take some in between.)
    places.dedup();
    assert!(places.len() > 1, "{places:?}");
    blocks.into_iter().for_each(|block| give(block, 1 << 20));
}
