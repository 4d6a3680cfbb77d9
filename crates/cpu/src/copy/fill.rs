//! Writing one value again and again.

use super::{PIECE_BYTES, cast_strip_of_size, stream};
use crate::math::{Isa, Kernel, run};
use flambeau_base::iter::Iter;

/// Bytes that the C library fills.
const SHORT: usize = 2048;

/// Writes one value to every element: `size` is the element's size, `value` starts with its bytes.
///
/// # Safety
/// The destination must be valid for `sizes` at its strides.
pub unsafe fn fill_strided(sizes: &[i64], dst: (*mut u8, &[isize]), size: usize, value: &[u8; 16]) {
    let it = Iter::new(sizes, &[dst]);
    let value = repeated(&value[..size]);
    // Lines of huge pages that are written whole are not read before, so that plain stores cost no more than those past the
    // caches (160 MB: 5.7 ms either way, on Zen 4), and less of what the caches hold in part (40 MB: 0.85 ms, and 1.4 past
    // them). But zeros go past them faster (0.56 ms, and 0.85 by plain stores).
    let bytes = it.numel() * size;
    let streams = stream::streams(if value == [0; 16] { bytes } else { bytes / 4 });
    let strip = cast_strip_of_size(size);
    it.for_each_grain(PIECE_BYTES / size, &|p, s, n| {
        // SAFETY: `n` elements of the caller's destination; the value holds one element.
        unsafe {
            match s[0] == size as isize {
                true => fill_dense(p[0], n * size, value, streams),
                false => strip(value.as_ptr(), 0, p[0], s[0], n),
            }
        }
    });
}

/// The bytes of a value of 1, 2, 4, 8 or 16 bytes, as often as they fit.
pub(super) fn repeated(value: &[u8]) -> [u8; 16] {
    std::array::from_fn(|i| value[i & (value.len() - 1)])
}

/// Writes `value`, over and over, to `bytes` bytes at `dst`: past the caches with `streams`.
///
/// # Safety
/// `dst` must be valid for them.
pub(super) unsafe fn fill_dense(dst: *mut u8, bytes: usize, value: [u8; 16], streams: bool) {
    // SAFETY: the caller's memory.
    unsafe {
        // The C library's loop is as good while it is short; later it may turn to string instructions, which some machines
        // have slow ones of.
        if bytes <= SHORT && value == [value[0]; 16] {
            std::ptr::write_bytes(dst, value[0], bytes);
        } else {
            run::<Fill>((dst, bytes, value, streams));
        }
    }
}

struct Fill;

impl Kernel for Fill {
    /// As [`fill_dense`].
    type Args = (*mut u8, usize, [u8; 16], bool);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((dst, bytes, value, streams): Self::Args) {
        type Line = [[u8; 16]; 4];
        // A cache line of the value, from a byte of it on.
        let line = |from: usize| -> Line {
            let turned = u128::from_le_bytes(value).rotate_right(8 * (from as u32 & 15));
            [turned.to_le_bytes(); 4]
        };
        // SAFETY: lines that begin and end within the caller's bytes.
        unsafe {
            if bytes < size_of::<Line>() {
                return std::ptr::copy_nonoverlapping(line(0).as_ptr().cast(), dst, bytes);
            }
            dst.cast::<Line>().write_unaligned(line(0));
            let mut at = dst.addr().wrapping_neg() % size_of::<Line>();
            // Kept in memory, or the compiler takes it apart and stores eight bytes at a time.
            let whole = std::hint::black_box(line(at));
            while at + size_of::<Line>() <= bytes {
                match streams {
                    true => stream::store::<I, _, 4>(dst.add(at).cast(), &whole),
                    false => stream::keep::<I, _, 4>(dst.add(at).cast(), &whole),
                }
                at += size_of::<Line>();
            }
            if streams {
                stream::finish();
            }
            let last = bytes - size_of::<Line>();
            dst.add(last).cast::<Line>().write_unaligned(line(last));
        }
    }
}
