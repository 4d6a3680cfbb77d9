//! Copying operands into panels: `width` neighbouring rows of A (or columns of B), step by step along the inner
//! dimension, so that a kernel reads them in order.

use crate::buffer::aligned;
#[cfg(target_arch = "x86_64")]
use crate::copy::transpose::columns_of_words;
#[cfg(target_arch = "x86_64")]
use crate::math::{Level, level};
#[cfg(target_arch = "x86_64")]
use crate::prefetch::prefetch;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::_mm256_storeu_ps;
use std::cell::RefCell;

/// A 64-byte aligned buffer, kept for reuse by the thread that made it.
struct Buffer {
    start: *mut u8,
    layout: Layout,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `start` was allocated with `layout`.
        unsafe { dealloc(self.start, self.layout) }
    }
}

thread_local! {
    static SPARE: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// The most bytes a thread keeps in one spare buffer.
const KEPT: usize = 16 << 20;

impl Buffer {
    /// A spare one for so many bytes, or a new one. (Compiled once, not for every caller of [`with_buffer`].)
    fn take(bytes: usize) -> Buffer {
        let bytes = bytes.max(64);
        let spare = SPARE.with(|s| {
            let mut s = s.borrow_mut();
            let i = s.iter().position(|b| b.layout.size() >= bytes)?;
            Some(s.swap_remove(i))
        });
        spare.unwrap_or_else(|| {
            let layout =
                Layout::from_size_align(bytes.next_power_of_two(), 64).expect("a buffer fits the address space");
            // SAFETY: the size is not zero.
            let start = unsafe { alloc(layout) };
            if start.is_null() {
                handle_alloc_error(layout);
            }
            Buffer { start, layout }
        })
    }

    /// Keeps it for [`Buffer::take`], unless it is large.
    fn keep(self) {
        if self.layout.size() > KEPT {
            return;
        }
        SPARE.with(|s| {
            let mut s = s.borrow_mut();
            if s.len() == 4 {
                // The smallest goes first, so that the buffers kept settle on the sizes in use.
                let smallest = (0..4).min_by_key(|&i| s[i].layout.size()).unwrap_or(0);
                if s[smallest].layout.size() < self.layout.size() {
                    s[smallest] = self;
                }
            } else {
                s.push(self);
            }
        });
    }
}

/// Runs `f` with an uninitialised, 64-byte aligned buffer for `len` values. May be nested.
pub fn with_buffer<L, R>(len: usize, f: impl FnOnce(*mut L) -> R) -> R {
    let buffer = Buffer::take(len * size_of::<L>());
    let result = f(buffer.start.cast());
    buffer.keep();
    result
}

/// Steps that are turned at a time, up to twice as many at the end: lines of a panel are written a few elements of each at
/// a time, and have to stay in the first-level cache meanwhile.
const TURNED: usize = 64;

/// Packs bits: `destination[i * padded + w] = source[w * across + i * along]` for `w < width`, zero up to `padded`.
///
/// # Safety
/// `source` must be valid for the strides, `destination` for `k * padded` values. A zero `T` must be all zero bits.
pub unsafe fn pack<T: Copy>(
    source: *const T,
    across: isize,
    along: isize,
    width: usize,
    padded: usize,
    k: usize,
    destination: *mut T,
) {
    let mut first = 0;
    while first < k {
        let steps = if across == 1 || k - first < 2 * TURNED { k - first } else { TURNED };
        // SAFETY: the caller's source and destination, from a step on.
        unsafe {
            let from = source.offset(first as isize * along);
            pack_steps(from, across, along, width, padded, steps, destination.add(first * padded));
        }
        first += steps;
    }
}

/// [`pack`] of not too many steps.
unsafe fn pack_steps<T: Copy>(
    source: *const T,
    across: isize,
    along: isize,
    width: usize,
    padded: usize,
    k: usize,
    destination: *mut T,
) {
    // SAFETY: all indices are inside `width` by `k` of the source and `k` by `padded` of the destination.
    unsafe {
        if across == 1 {
            for i in 0..k {
                let from = source.offset(i as isize * along);
                let to = destination.add(i * padded);
                for w in 0..width {
                    *to.add(w) = *from.add(w);
                }
            }
        } else {
            let mut w = 0;
            #[cfg(target_arch = "x86_64")]
            if along == 1 && size_of::<T>() == 4 && padded >= 4 && level() >= Level::Avx2 {
                // From the last on, since parts of fewer than eight lines write over what lies behind them.
                for first in (0..width).step_by(8).rev() {
                    let (from, lines) = (source.offset(first as isize * across), (width - first).min(8));
                    let ahead = width as isize * across;
                    transpose_eight((from.cast(), across, ahead), (lines, k), destination.add(first).cast(), padded);
                }
                w = width;
            }
            if along == 1 && cfg!(target_arch = "x86_64") && matches!(size_of::<T>(), 4 | 8) {
                while w + 4 <= width {
                    transpose(source.offset(w as isize * across), across, k, destination.add(w), padded);
                    w += 4;
                }
            }
            while w < width {
                let from = source.offset(w as isize * across);
                let to = destination.add(w);
                for i in 0..k {
                    *to.add(i * padded) = *from.offset(i as isize * along);
                }
                w += 1;
            }
        }
        if width < padded {
            for i in 0..k {
                std::ptr::write_bytes(destination.add(i * padded + width), 0, padded - width);
            }
        }
    }
}

/// `to[i * padded + w] = from[w * across + i]` for `w < lines`, of which there are up to eight. What would follow them up to
/// the eighth is written too, except after the last of `k` steps (two steps are eight values at least).
///
/// # Safety
/// As for [`pack`], with `padded` of four at least; the machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn transpose_eight(
    (from, across, ahead): (*const u32, isize, isize),
    (lines, k): (usize, usize),
    to: *mut u32,
    padded: usize,
) {
    let starts: [*const u32; 8] = std::array::from_fn(|w| from.wrapping_offset(w.min(lines - 1) as isize * across));
    let mut i = 0;
    // SAFETY: indices stay inside the lines of `k` values.
    unsafe {
        while k >= 8 && i < k {
            // The last eight may have been written in part.
            let first = i.min(k - 8);
            let rows = columns_of_words(starts, first);
            for (step, &row) in rows[..7].iter().enumerate() {
                _mm256_storeu_ps(to.add((first + step) * padded).cast(), row);
            }
            let last = to.add((first + 7) * padded);
            if first + 8 < k {
                _mm256_storeu_ps(last.cast(), rows[7]);
            } else {
                let row: [u32; 8] = std::mem::transmute(rows[7]);
                std::ptr::copy_nonoverlapping(row.as_ptr(), last, lines);
            }
            if i.is_multiple_of(16) {
                // The panel that follows is usually next: what of it lies in a cache line each.
                for &start in &starts[..lines] {
                    prefetch(start.wrapping_offset(ahead).wrapping_add(i).cast());
                }
            }
            i += 8;
        }
        while i < k {
            for (w, start) in starts[..lines].iter().enumerate() {
                // Four bytes of a lane may begin anywhere.
                *to.add(i * padded + w) = start.add(i).read_unaligned();
            }
            i += 1;
        }
    }
}

/// `to[i * padded + w] = from[w * across + i]` for four `w` of 4- or 8-byte values.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose<T: Copy>(from: *const T, across: isize, k: usize, to: *mut T, padded: usize) {
    use std::arch::x86_64::*;
    let row = |w: isize, i: usize| from.wrapping_offset(w * across).wrapping_add(i);
    let mut i = 0;
    // SAFETY: SSE2 is part of x86-64; indices stay inside four lines of `k` values.
    unsafe {
        if size_of::<T>() == 4 {
            while i + 4 <= k {
                let mut a = _mm_loadu_ps(row(0, i).cast());
                let mut b = _mm_loadu_ps(row(1, i).cast());
                let mut c = _mm_loadu_ps(row(2, i).cast());
                let mut d = _mm_loadu_ps(row(3, i).cast());
                _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
                _mm_storeu_ps(to.add(i * padded).cast(), a);
                _mm_storeu_ps(to.add((i + 1) * padded).cast(), b);
                _mm_storeu_ps(to.add((i + 2) * padded).cast(), c);
                _mm_storeu_ps(to.add((i + 3) * padded).cast(), d);
                i += 4;
            }
        } else {
            while i + 2 <= k {
                let a = _mm_loadu_pd(row(0, i).cast());
                let b = _mm_loadu_pd(row(1, i).cast());
                let c = _mm_loadu_pd(row(2, i).cast());
                let d = _mm_loadu_pd(row(3, i).cast());
                let first: *mut f64 = to.add(i * padded).cast();
                let second: *mut f64 = to.add((i + 1) * padded).cast();
                _mm_storeu_pd(first, _mm_unpacklo_pd(a, b));
                _mm_storeu_pd(first.add(2), _mm_unpacklo_pd(c, d));
                _mm_storeu_pd(second, _mm_unpackhi_pd(a, b));
                _mm_storeu_pd(second.add(2), _mm_unpackhi_pd(c, d));
                i += 2;
            }
        }
        while i < k {
            for w in 0..4 {
                *to.add(i * padded + w) = *row(w as isize, i);
            }
            i += 1;
        }
    }
}

/// Never reached: other targets pack one value at a time.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn transpose<T: Copy>(_: *const T, _: isize, _: usize, _: *mut T, _: usize) {}

/// Packs elements that become lanes of another type: as [`pack`], through `convert(source, stride, len, destination)`.
///
/// # Safety
/// As for [`pack`]; `convert` must write `len` lanes.
pub unsafe fn pack_converted<T: Copy, L: Copy + Default>(
    source: *const T,
    across: isize,
    along: isize,
    width: usize,
    padded: usize,
    k: usize,
    destination: *mut L,
    convert: unsafe fn(*const T, isize, usize, *mut L),
) {
    /// Steps converted at a time: a full panel of this many steps stays in the first-level cache.
    const STEPS: usize = 32;
    // SAFETY: as in `pack`; the lines buffer has room for the widest panel, 64 lines.
    unsafe {
        if across == 1 {
            for i in 0..k {
                let to = destination.add(i * padded);
                convert(source.offset(i as isize * along), 1, width, to);
                for w in width..padded {
                    *to.add(w) = L::default();
                }
            }
            return;
        }
        debug_assert!(width <= 64);
        let mut lines = aligned([L::default(); 64 * STEPS]);
        let mut i = 0;
        while i < k {
            let steps = STEPS.min(k - i);
            for w in 0..width {
                let from = source.offset(w as isize * across + i as isize * along);
                convert(from, along, steps, lines.as_mut_ptr().add(w * STEPS));
            }
            pack(lines.as_ptr(), STEPS as isize, 1, width, padded, steps, destination.add(i * padded));
            i += steps;
        }
    }
}
