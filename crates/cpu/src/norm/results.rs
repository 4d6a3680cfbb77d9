//! Where the results of a row go: past the caches, or as usual.

use super::rows::{LANES, LINE, LINE_BYTES};
use crate::buffer::{Aligned, aligned};
use crate::copy::stream;
use crate::math::{Float, Isa, Number};
use crate::prefetch::prefetch_run_near;

/// A row whose results go past the caches.
pub(crate) struct Past<'a, T: Copy> {
    /// How many elements on the next row's results begin.
    pub next: usize,
    /// What will be read next, as long as the row: it is asked for meanwhile. Or null.
    pub ask: *const T,
    /// What the row before left, where rows follow one another.
    pub joint: Option<&'a mut Joint<T>>,
}

impl<T: Copy> Past<'_, T> {
    /// Of a row whose next begins `next` elements on, if results go past the caches; nothing is asked for.
    pub(crate) fn if_streams(streams: bool, next: usize) -> Option<Self> {
        streams.then_some(Past { next, ask: std::ptr::null(), joint: None })
    }

    /// The same of rows of `n` elements that follow one another, if there is a joint for them.
    ///
    /// # Safety
    /// The joint must be there, and nobody else's, as long as this.
    #[inline(always)]
    pub(crate) unsafe fn if_joined(joint: Option<*mut Joint<T>>, n: usize, ask: *const T) -> Option<Self> {
        match joint {
            // SAFETY: the caller's.
            Some(joint) => Some(Past { next: n, ask, joint: Some(unsafe { &mut *joint }) }),
            None => None,
        }
    }
}

/// The results at the end of a row that share a cache line with the next row's: they wait for those. What is stored as usual
/// beside what goes past the caches has its line read first, and stores behind it wait.
pub(crate) struct Joint<T: Copy> {
    /// The results from element [`LINE`] on: any [`LINE`] can be stored before or behind them.
    results: Aligned<[T; 3 * LINE]>,
    known: usize,
}

impl<T: Float> Joint<T> {
    const OF_LINE: usize = LINE_BYTES / size_of::<T>();

    /// Before the first row.
    pub(crate) fn new() -> Self {
        Joint { results: aligned([<T as Number>::ZERO; 3 * LINE]), known: 0 }
    }

    /// Puts the first `lead` results of a row, fewer than a line's, the first [`LINE`] of which are given.
    ///
    /// # Safety
    /// As [`put_results`]; the row before ended at `out`, if there was one.
    #[inline(always)]
    unsafe fn begin<I: Isa>(&mut self, out: *mut T, lead: usize, first: &[T; LINE]) {
        // SAFETY: the caller's elements, and a line of ours.
        unsafe {
            if self.known + lead == Self::OF_LINE {
                let line = self.results.as_mut_ptr().add(LINE);
                line.add(self.known).cast::<[T; LINE]>().write_unaligned(*first);
                stream::store::<I, u8, LINE_BYTES>(out.sub(self.known).cast(), &*line.cast());
            } else {
                // What is before the first row is somebody else's.
                std::ptr::copy_nonoverlapping(first.as_ptr(), out, lead);
            }
        }
        self.known = 0;
    }

    /// Puts the last `rest` results of a row, from the beginning of a line on, but keeps those that are no whole line. The last
    /// [`LINE`] of the row are given.
    ///
    /// # Safety
    /// As [`put_results`].
    #[inline(always)]
    unsafe fn end<I: Isa>(&mut self, to: *mut T, mut rest: usize, last: &[T; LINE]) {
        // SAFETY: the caller's elements, and ours: `rest` is less than `LINE`.
        unsafe {
            let line = self.results.as_mut_ptr().add(LINE);
            line.sub(LINE - rest).cast::<[T; LINE]>().write_unaligned(*last);
            if rest >= Self::OF_LINE {
                stream::store::<I, u8, LINE_BYTES>(to.cast(), &*line.cast());
                rest -= Self::OF_LINE;
                let left = line.add(Self::OF_LINE).cast::<[T; LINE]>().read_unaligned();
                line.cast::<[T; LINE]>().write_unaligned(left);
            }
        }
        self.known = rest;
    }

    /// Puts what waits when there is no other row. (What follows it is somebody else's.)
    ///
    /// # Safety
    /// `end` must be the end of the last row.
    pub(crate) unsafe fn finish(self, end: *mut T) {
        // SAFETY: so many results of the caller's are not there yet.
        unsafe {
            std::ptr::copy_nonoverlapping(self.results.as_ptr().add(LINE), end.wrapping_sub(self.known), self.known)
        }
    }
}

/// `N` results from the `at`th on.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop's bounds constant.
fn results_of<T: Float, const N: usize>(at: usize, result: &impl Fn(usize) -> T) -> Aligned<[T; N]> {
    let mut block = aligned([<T as Number>::ZERO; N]);
    for l in 0..N {
        block[l] = result(at + l);
    }
    block
}

/// Stores `n` results, `past` the caches or not ([`stream::finish`] follows before others read them). What shares a cache line
/// with others is stored as usual, or kept in the [`Joint`].
///
/// # Safety
/// `out` must be valid for `n` elements, which nothing that `result` reads overlaps unless it is the element that is
/// computed, and they do not go past the caches.
#[inline(always)]
pub(crate) unsafe fn put_results<I: Isa, T: Float>(
    out: *mut T,
    n: usize,
    past: Option<Past<T>>,
    result: impl Fn(usize) -> T,
) {
    // SAFETY: the caller's elements; whole lines begin after the first few.
    unsafe {
        let Some(Past { next, ask, joint }) = past else {
            for i in 0..n {
                *out.add(i) = result(i);
            }
            return;
        };
        let mut at = (out.addr().wrapping_neg() % LINE_BYTES / size_of::<T>()).min(n);
        let mut joint = joint.filter(|_| n >= LINE);
        if let Some(joint) = &mut joint {
            if at > 0 {
                joint.begin::<I>(out, at, &results_of(0, &result));
            }
        } else {
            // The line that the next row's end shares with what follows it.
            stream::ask_for_shared(out.wrapping_add(next + n));
            for i in 0..at {
                *out.add(i) = result(i);
            }
        }
        while at + LANES <= n {
            if !ask.is_null() {
                prefetch_run_near(ask.wrapping_add(at).cast(), size_of::<[T; LANES]>());
            }
            stream::store::<I, T, LANES>(out.add(at), &results_of(at, &result));
            at += LANES;
        }
        while at + LINE <= n {
            stream::store::<I, T, LINE>(out.add(at), &results_of(at, &result));
            at += LINE;
        }
        if let Some(joint) = joint {
            if at < n {
                joint.end::<I>(out.add(at), n - at, &results_of(n - LINE, &result));
            }
        } else {
            for i in at..n {
                *out.add(i) = result(i);
            }
        }
    }
}
