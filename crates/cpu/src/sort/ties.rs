//! Which of equal elements PyTorch takes.
//!
//! PyTorch's kernels select with algorithms that are not stable: those of the C++ standard library as GCC has them for
//! `topk`, and its own for `kthvalue`. What they leave where among equal elements follows from every exchange that they
//! make, so these are made here in the same order, by keys alone. The algorithms are public: introsort and introselect
//! (D. Musser, Introspective Sorting and Selection Algorithms, 1997), heaps as in D. Knuth, The Art of Computer
//! Programming 3, 5.2.3, and Hoare's selection as in Numerical Recipes 8.5. Their details (where three elements are
//! looked at for a pivot, when heaps take over) were found by experiment, with elements few of which differ.

use super::keys::Packed;

/// Parts up to this long are left to one insertion sort at the end.
const NEARLY_SORTED: usize = 16;

#[inline(always)]
fn before<P: Packed>(a: P, b: P) -> bool {
    a.key() < b.key()
}

/// Whether `topk` keeps the least in a heap, and does not partition.
pub(super) fn by_heap(n: usize, k: usize) -> bool {
    k.saturating_mul(64) <= n
}

/// Leaves in the first `k` places what `topk` does; `k` is not zero.
pub(super) fn top<P: Packed>(row: &mut [P], k: usize, sorted: bool) {
    if by_heap(row.len(), k) {
        heap_select(row, k);
        return sort_heap(&mut row[..k]);
    }
    select(row, k - 1);
    if sorted {
        sort(&mut row[..k - 1]);
    }
}

/// The least of the elements so far, as many as at first, in a heap whose first is the greatest: what [`top`] has where
/// it needs one, for rows that are not all there at once.
pub(super) struct Least<P>(Vec<P>);

impl<P: Packed> Least<P> {
    /// Of no fewer than one element.
    pub(super) fn of(mut first: Vec<P>) -> Least<P> {
        make_heap(&mut first);
        Least(first)
    }

    /// Only what is before this key is kept.
    pub(super) fn limit(&self) -> u64 {
        self.0[0].key()
    }

    /// Another element, which is before the limit, for the greatest one.
    pub(super) fn replace(&mut self, x: P) {
        sink(&mut self.0, 0, x);
    }

    pub(super) fn into_sorted(mut self) -> Vec<P> {
        sort_heap(&mut self.0);
        self.0
    }
}

/// Puts the element that is at place `at` in the order of keys there, and no lesser one after it (introselect).
fn select<P: Packed>(row: &mut [P], at: usize) {
    let (mut from, mut to) = (0, row.len());
    let mut rounds = 2 * row.len().ilog2();
    while to - from > 3 {
        if rounds == 0 {
            // The pivots were bad ones.
            let (row, at) = (&mut row[from..to], at - from);
            heap_select(row, at + 1);
            row.swap(0, at);
            return;
        }
        rounds -= 1;
        let cut = from + partition(&mut row[from..to]);
        if cut <= at {
            from = cut;
        } else {
            to = cut;
        }
    }
    insert(&mut row[from..to]);
}

/// Sorts by key (introsort).
pub(super) fn sort<P: Packed>(row: &mut [P]) {
    if row.len() > 1 {
        sort_roughly(row, 2 * row.len().ilog2());
        insert(row);
    }
}

/// Parts longer than some come in order; elements within shorter ones do not.
fn sort_roughly<P: Packed>(mut row: &mut [P], mut rounds: u32) {
    while row.len() > NEARLY_SORTED {
        if rounds == 0 {
            make_heap(row);
            return sort_heap(row);
        }
        rounds -= 1;
        let cut = partition(row);
        let (low, high) = row.split_at_mut(cut);
        sort_roughly(high, rounds);
        row = low;
    }
}

/// Parts four or more elements by a median of three, which comes first: none before the returned place is greater, none
/// from there on is less.
fn partition<P: Packed>(row: &mut [P]) -> usize {
    let (a, b, c) = (1, row.len() / 2, row.len() - 1);
    let less = |i: usize, j: usize| before(row[i], row[j]);
    let median = match less(a, b) {
        true if less(b, c) => b,
        true if less(a, c) => c,
        true => a,
        false if less(a, c) => a,
        false if less(b, c) => c,
        false => b,
    };
    row.swap(0, median);
    let pivot = row[0];
    // Elements equal to the pivot stop both sides, so that neither leaves the row.
    let (mut low, mut high) = (1, row.len());
    loop {
        while before(row[low], pivot) {
            low += 1;
        }
        high -= 1;
        while before(pivot, row[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        row.swap(low, high);
        low += 1;
    }
}

/// Insertion sort.
fn insert<P: Packed>(row: &mut [P]) {
    for i in 1..row.len() {
        let x = row[i];
        let mut place = i;
        while place > 0 && before(x, row[place - 1]) {
            row[place] = row[place - 1];
            place -= 1;
        }
        row[place] = x;
    }
}

/// Leaves the `count` least in the first places, as a heap.
fn heap_select<P: Packed>(row: &mut [P], count: usize) {
    let (heap, rest) = row.split_at_mut(count);
    make_heap(heap);
    for x in rest {
        if before(*x, heap[0]) {
            let kept = std::mem::replace(x, heap[0]);
            sink(heap, 0, kept);
        }
    }
}

fn make_heap<P: Packed>(heap: &mut [P]) {
    for parent in (0..heap.len() / 2).rev() {
        let x = heap[parent];
        sink(heap, parent, x);
    }
}

fn sort_heap<P: Packed>(heap: &mut [P]) {
    for end in (1..heap.len()).rev() {
        let x = heap[end];
        heap[end] = heap[0];
        sink(&mut heap[..end], 0, x);
    }
}

/// Puts `x` into a heap in which the place `hole` is free: the hole goes down to a leaf, always to the greater child (of
/// equal ones the second), and `x` up from there, as far as the hole was.
fn sink<P: Packed>(heap: &mut [P], hole: usize, x: P) {
    let mut place = hole;
    loop {
        let second = 2 * place + 2;
        let child = match second.cmp(&heap.len()) {
            std::cmp::Ordering::Less if before(heap[second], heap[second - 1]) => second - 1,
            std::cmp::Ordering::Less => second,
            std::cmp::Ordering::Equal => second - 1,
            std::cmp::Ordering::Greater => break,
        };
        heap[place] = heap[child];
        place = child;
    }
    while place > hole {
        let parent = (place - 1) / 2;
        if !before(heap[parent], x) {
            break;
        }
        heap[place] = heap[parent];
        place = parent;
    }
    heap[place] = x;
}

/// The element that `kthvalue` finds at place `at` in the order of keys.
pub(super) fn kth<P: Packed>(row: &mut [P], at: usize) -> P {
    let (mut first, mut last) = (0, row.len() - 1);
    // Exchanges two elements that are not in order.
    let order = |row: &mut [P], i: usize, j: usize| {
        if before(row[j], row[i]) {
            row.swap(i, j);
        }
    };
    while last > first + 1 {
        // The pivot is first, between two that stop both sides.
        row.swap(first + (last - first) / 2, first + 1);
        order(row, first + 1, last);
        order(row, first, last);
        order(row, first + 1, first);
        let pivot = row[first];
        let (mut low, mut high) = (first + 1, last);
        loop {
            low += 1;
            while before(row[low], pivot) {
                low += 1;
            }
            high -= 1;
            while before(pivot, row[high]) {
                high -= 1;
            }
            if high < low {
                break;
            }
            row.swap(low, high);
        }
        row.swap(first, high);
        // The pivot itself may be what is looked for.
        if high <= at {
            first = low;
        }
        if high >= at {
            last = high - 1;
        }
    }
    if last == first + 1 {
        order(row, first, last);
    }
    row[at]
}

#[cfg(test)]
mod tests;
