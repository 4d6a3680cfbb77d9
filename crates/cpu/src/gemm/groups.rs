//! Products whose lanes hold several steps of the inner dimension: pairs of `bf16`, four bytes. The processor multiplies and
//! adds up a lane at once, in vectors or in tiles (see `tiles.rs`).

use super::kernel::Kernel;
use super::multiply::Product;
use super::operand::{Byte, Entry};
#[cfg(target_arch = "x86_64")]
use super::{pack::pack, tiles};
use crate::math::Level;
#[cfg(target_arch = "x86_64")]
use crate::math::level;
#[cfg(target_arch = "x86_64")]
use crate::prefetch::prefetch;
#[cfg(target_arch = "x86_64")]
use crate::processor::{Processor, processor, rounds_to_bf16};
use flambeau_base::dtype::bf16;
#[cfg(target_arch = "x86_64")]
use flambeau_base::parallel::parallel_for;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// Packs neighbouring rows of A or columns of B, as [`Entry::pack`] does, with several steps in a lane.
pub type Pack<T> = unsafe fn(*const T, isize, isize, usize, usize, usize, *mut <T as Entry>::Lane);

/// Packs rows of neighbouring panels of full width, as [`CopyRows`](super::kernel::CopyRows) does: the source, the distance
/// between rows, how many rows, how many panels.
pub type PackRows<T> = unsafe fn(*const T, isize, usize, usize, *mut <T as Entry>::Lane);

/// The kernels for groups of steps, and how operands are packed for them.
pub struct GroupKernels<T: Entry> {
    /// Steps in a lane.
    pub steps: usize,
    /// Lanes in a vector, or columns of a tile.
    pub lanes: usize,
    /// Packed steps come in multiples of this; the last are zero.
    pub unit: usize,
    /// Rows of a panel of B before its first: what sums begin with.
    pub head: usize,
    /// Whether the kernels compute in tiles: rows of A then lie one after the other, padded to whole tiles.
    pub tiles: bool,
    /// Packs rows of A.
    pub pack_a: Pack<T>,
    /// Packs columns of B.
    pub pack_b: Pack<T>,
    /// Packs several panels of B at a time, where its rows are contiguous.
    pub pack_rows_of_b: Option<PackRows<T>>,
    /// To sums, by rows and vectors.
    pub multiply: &'static [[Kernel<T::Lane>; 2]],
    /// To rounded results in `c`, of whole vectors, without the old value.
    pub rounded: Option<&'static [[Kernel<T::Lane>; 2]]>,
    /// Both for an A whose rows are read where they are: their steps follow one another, and are as many as lanes hold. The
    /// distance between rows is in elements of A.
    pub in_place: Option<InPlace<T>>,
}

/// See [`GroupKernels::in_place`].
pub struct InPlace<T: Entry> {
    /// See [`GroupKernels::multiply`].
    pub multiply: &'static [[Kernel<T::Lane>; 2]],
    /// See [`GroupKernels::rounded`].
    pub rounded: Option<&'static [[Kernel<T::Lane>; 2]]>,
}
impl<T: Entry> Clone for InPlace<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Entry> Copy for InPlace<T> {}

impl<T: Entry> Clone for GroupKernels<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Entry> Copy for GroupKernels<T> {}

impl<T: Entry> GroupKernels<T> {
    /// How many lanes a row of `steps` steps takes.
    pub fn packed_steps(&self, steps: usize) -> usize {
        steps.div_ceil(self.steps).next_multiple_of(self.unit)
    }
}

/// A table of kernels by rows and vectors.
#[cfg(target_arch = "x86_64")]
macro_rules! rows {
    ($module:ident::$kernel:ident$(, $in_place:literal)?: $($r:literal)*) => {
        rows!(@ $module::$kernel, ($($in_place)?): $($r)*)
    };
    (@ $module:ident::$kernel:ident, $in_place:tt: $($r:literal)*) => { &[$(rows!(@@ $module::$kernel, $r, $in_place)),*] };
    (@@ $module:ident::$kernel:ident, $r:literal, ($($in_place:literal)?)) => {
        [$module::$kernel::<$r, 1 $(, $in_place)?>, $module::$kernel::<$r, 2 $(, $in_place)?>]
    };
}

/// The kernels for `bf16`, where they are faster than widening.
pub fn of_halves<T: Entry<Lane = f32>>(level: Level) -> Option<GroupKernels<T>> {
    const { assert!(size_of::<T>() == 2, "of bf16") };
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(kernels) = tiles::of_halves(level) {
            return Some(kernels);
        }
        if pairs_are_fast(level) {
            return Some(GroupKernels {
                steps: 2,
                lanes: 16,
                unit: 1,
                head: 0,
                tiles: false,
                pack_a: pack_halves,
                pack_b: pack_halves,
                pack_rows_of_b: Some(zip_panels),
                multiply: rows!(pairs::multiply, false: 1 2 3 4 5 6 7 8 9 10 11 12),
                // (What stays `f32` is not rounded.)
                rounded: if T::STORED { None } else { Some(rows!(pairs::rounded, false: 1 2 3 4 5 6 7 8 9 10 11 12)) },
                in_place: Some(InPlace {
                    multiply: rows!(pairs::multiply, true: 1 2 3 4 5 6 7 8 9 10 11 12),
                    rounded: if T::STORED {
                        None
                    } else {
                        Some(rows!(pairs::rounded, true: 1 2 3 4 5 6 7 8 9 10 11 12))
                    },
                }),
            });
        }
    }
    let _ = level;
    None
}

/// The kernels for bytes, of which A's or B's may be without sign, where the processor has them.
pub fn of_bytes(level: Level, unsigned: [bool; 2]) -> Option<GroupKernels<Byte>> {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(kernels) = tiles::of_bytes(level, unsigned) {
            return Some(kernels);
        }
        if !unsigned[1] && quads_are_there(level) {
            return Some(GroupKernels {
                steps: 4,
                lanes: 16,
                unit: 1,
                head: 1,
                tiles: false,
                pack_a: if unsigned[0] { pack_bytes } else { quads::pack_signed },
                pack_b: if unsigned[0] { quads::pack_without_start } else { quads::pack_with_start },
                pack_rows_of_b: None,
                multiply: rows!(quads::multiply: 1 2 3 4 5 6 7 8 9 10 11 12),
                rounded: None,
                in_place: None,
            });
        }
    }
    let _ = (level, unsigned);
    None
}

/// Kernels for pairs of `bf16`.
#[cfg(target_arch = "x86_64")]
pub mod pairs {
    use super::super::kernel::{Block, Sums, narrow as narrow_sums, prefetch_results, store_sums, sums};
    use super::super::simd::{PairsX16, StoreAs, Vector};
    use super::bf16;
    use crate::buffer::aligned;
    use crate::prefetch::prefetch_near;
    use std::mem::MaybeUninit;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]
    pub unsafe fn multiply<const R: usize, const N: usize, const IN_PLACE: bool>(t: &Block<f32>) {
        // SAFETY: forwarded contract.
        unsafe {
            prefetch_results::<PairsX16, R, N>(t);
            store_sums(t, &of_pairs::<R, N, IN_PLACE>(t));
        }
    }
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]
    pub unsafe fn rounded<const R: usize, const N: usize, const IN_PLACE: bool>(t: &Block<f32>) {
        // SAFETY: forwarded contract; `c` holds `bf16`.
        unsafe {
            let alpha = PairsX16::splat(t.alpha);
            for r in 0..R {
                prefetch_near(t.c.cast::<bf16>().wrapping_offset(r as isize * t.c_row).cast());
            }
            let mut sums = of_pairs::<R, N, IN_PLACE>(t);
            if t.alpha != 1.0 {
                for sum in &mut sums {
                    for sum in sum {
                        *sum = alpha.mul(*sum);
                    }
                }
            }
            let mut subnormal = 0;
            for sum in &sums {
                for sum in sum {
                    subnormal |= sum.subnormal();
                }
            }
            if subnormal != 0 {
                let mut lanes = aligned(MaybeUninit::<[[[f32; PairsX16::LANES]; N]; R]>::uninit());
                let lanes: *mut f32 = lanes.as_mut_ptr().cast();
                for (r, sum) in sums.iter().enumerate() {
                    for (j, &sum) in sum.iter().enumerate() {
                        sum.store(lanes.add((r * N + j) * PairsX16::LANES));
                    }
                }
                return round_subnormal((lanes, R, N), t.c.cast(), t.c_row);
            }
            for (r, sum) in sums.iter().enumerate() {
                let c = t.c.cast::<bf16>().offset(r as isize * t.c_row);
                match N {
                    1 => sum[0].store_rounded(c),
                    _ => PairsX16::store_both_rounded(sum[0], sum[1], c),
                }
            }
        }
    }

    /// Rounds a block of sums, of which some are smaller than any normal number. (They are in memory here alone.)
    #[cold]
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]
    unsafe fn round_subnormal((sums, rows, vectors): (*const f32, usize, usize), c: *mut bf16, c_row: isize) {
        for r in 0..rows {
            for j in 0..vectors {
                // SAFETY: a vector of the caller's sums and of C.
                unsafe {
                    let sum = PairsX16::load(sums.add((r * vectors + j) * PairsX16::LANES));
                    sum.store_as(c.offset(r as isize * c_row).add(j * PairsX16::LANES));
                }
            }
        }
    }

    /// The sums of a block of pairs.
    #[inline(always)]
    unsafe fn of_pairs<const R: usize, const N: usize, const IN_PLACE: bool>(t: &Block<f32>) -> [[PairsX16; N]; R] {
        // SAFETY: forwarded contract.
        unsafe {
            let zero = PairsX16::splat(0.0);
            if !IN_PLACE {
                return sums::<PairsX16, R, N, false>(t, [zero; N]);
            }
            let mut sums = [[zero; N]; R];
            let (a, mut b) = (t.a.cast::<bf16>(), t.b);
            // Every third row has an address of its own: those after it are once and twice the distance away.
            let mut thirds: [*const bf16; 4] = std::array::from_fn(|i| a.wrapping_offset(3 * i as isize * t.a_row));
            for _ in 0..t.k {
                let row: [PairsX16; N] = std::array::from_fn(|j| PairsX16::load(b.add(j * PairsX16::LANES)));
                for (r, sum) in sums.iter_mut().enumerate() {
                    let pair = thirds[r / 3].offset((r % 3) as isize * t.a_row).cast::<f32>().read_unaligned();
                    let x = PairsX16::splat(pair);
                    for j in 0..N {
                        sum[j] = x.mul_add(row[j], sum[j]);
                    }
                }
                thirds = thirds.map(|third| third.wrapping_add(2));
                b = b.wrapping_offset(t.b_step);
            }
            sums
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]
    pub unsafe fn narrow(t: &Sums<bf16>) {
        // SAFETY: forwarded contract.
        unsafe { narrow_sums::<PairsX16, bf16>(t) }
    }
}

/// Kernels for four bytes in a lane. The processor multiplies bytes without sign by bytes with one: bytes of A that have a
/// sign are taken plus 128, and sums begin with -128 times the column's sum.
#[cfg(target_arch = "x86_64")]
mod quads {
    use super::super::kernel::{Block, multiply as multiply_block};
    use super::super::simd::{QuadsX16, Vector};
    use super::{Byte, pack_bytes};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    pub unsafe fn multiply<const R: usize, const N: usize>(t: &Block<i32>) {
        // SAFETY: forwarded contract; a panel's first row is what its sums begin with.
        unsafe {
            let start = std::array::from_fn(|j| QuadsX16::load(t.b.add(j * QuadsX16::LANES)));
            multiply_block::<QuadsX16, R, N, false>(&Block { b: t.b.offset(t.b_step), ..*t }, start);
        }
    }

    /// [`pack_bytes`] of signed bytes plus 128.
    pub unsafe fn pack_signed(
        source: *const Byte,
        across: isize,
        along: isize,
        width: usize,
        padded: usize,
        k: usize,
        destination: *mut i32,
    ) {
        // SAFETY: forwarded contract.
        unsafe {
            pack_bytes(source, across, along, width, padded, k, destination);
            for lane in std::slice::from_raw_parts_mut(destination, k.div_ceil(4) * padded) {
                *lane ^= 0x8080_8080_u32 as i32;
            }
        }
    }

    /// [`pack_bytes`] after a row of zeros.
    pub unsafe fn pack_without_start(
        source: *const Byte,
        across: isize,
        along: isize,
        width: usize,
        padded: usize,
        k: usize,
        destination: *mut i32,
    ) {
        // SAFETY: forwarded contract.
        unsafe {
            std::ptr::write_bytes(destination, 0, padded);
            pack_bytes(source, across, along, width, padded, k, destination.add(padded));
        }
    }

    /// [`pack_bytes`] after a row of -128 times each column's sum; `padded` is a multiple of 16.
    pub unsafe fn pack_with_start(
        source: *const Byte,
        across: isize,
        along: isize,
        width: usize,
        padded: usize,
        k: usize,
        destination: *mut i32,
    ) {
        // SAFETY: forwarded contract; the kernels that this packs for have the instructions.
        unsafe {
            pack_bytes(source, across, along, width, padded, k, destination.add(padded));
            start(destination, padded, k.div_ceil(4));
        }
    }

    /// The sum of products of `k` bytes, the first with or without sign, the second with one.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub unsafe fn dot(a: *const u8, b: *const u8, k: usize, unsigned: bool) -> i32 {
        let flip = _mm512_set1_epi8(if unsigned { 0 } else { i8::MIN });
        // Two sums of each, so that one does not wait for the other.
        let (mut sums, mut extra) = ([_mm512_setzero_si512(); 2], [_mm512_setzero_si512(); 2]);
        for (i, first) in (0..k).step_by(64).enumerate() {
            let mask = u64::MAX >> (64 - (k - first).min(64));
            // SAFETY: up to 64 of the caller's bytes; those masked off are not read.
            let (x, y) = unsafe {
                (_mm512_maskz_loadu_epi8(mask, a.add(first).cast()), _mm512_maskz_loadu_epi8(mask, b.add(first).cast()))
            };
            sums[i % 2] = _mm512_dpbusd_epi32(sums[i % 2], _mm512_xor_si512(x, flip), y);
            extra[i % 2] = _mm512_dpbusd_epi32(extra[i % 2], flip, y);
        }
        let sum = _mm512_add_epi32(sums[0], sums[1]);
        _mm512_reduce_add_epi32(_mm512_sub_epi32(sum, _mm512_add_epi32(extra[0], extra[1])))
    }

    /// The row before a panel of `rows` rows.
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn start(panel: *mut i32, padded: usize, rows: usize) {
        let ones = _mm512_set1_epi8(1);
        for first in (0..padded).step_by(16) {
            let mut sum = _mm512_setzero_si512();
            for i in 1..=rows {
                // SAFETY: sixteen lanes of a row of the caller's panel.
                let bytes = unsafe { _mm512_loadu_si512(panel.add(i * padded + first).cast()) };
                sum = _mm512_dpbusd_epi32(sum, ones, bytes);
            }
            let start = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32::<7>(sum));
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(panel.add(first).cast(), start) };
        }
    }
}

/// A product of one to four rows by columns that lie in order, all in place: every byte of B is read once. Says whether it
/// did that.
///
/// # Safety
/// As for [`Product::run`].
pub unsafe fn rows_of_bytes(p: &Product<Byte>, level: Level) -> bool {
    #[cfg(target_arch = "x86_64")]
    if p.m <= 4 && p.a_column == 1 && p.b_row == 1 && !p.conj_b && p.beta.is_none() && quads_are_there(level) {
        let grain = (1_usize << 16).div_ceil(p.k);
        parallel_for(p.n, grain, &|columns| {
            for j in columns {
                for i in 0..p.m as isize {
                    // SAFETY: a row of A and a column of B; each piece writes its own columns of C.
                    unsafe {
                        let (a, b) = (p.a.offset(i * p.a_row), p.b.offset(j as isize * p.b_column));
                        let sum = quads::dot(a.cast(), b.cast(), p.k, p.conj_a);
                        *p.c.offset(i * p.c_row + j as isize * p.c_column) = p.alpha.wrapping_mul(sum);
                    }
                }
            }
        });
        return true;
    }
    let _ = (p, level);
    false
}

/// Whether the processor multiplies four bytes at once.
#[cfg(target_arch = "x86_64")]
fn quads_are_there(level: Level) -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    level == Level::Avx512 && *THERE.get_or_init(|| is_x86_feature_detected!("avx512vnni"))
}

/// Whether the processor rounds to `bf16` itself.
#[cfg(target_arch = "x86_64")]
pub(crate) fn rounds_halves(level: Level) -> bool {
    level == Level::Avx512 && rounds_to_bf16()
}

/// Whether pairs of `bf16` are multiplied faster than widened numbers: AMD's processors do twice the multiply-adds a cycle
/// that way (measured on Zen 4 and 5), Intel's half (measured on Emerald Rapids).
#[cfg(target_arch = "x86_64")]
pub(crate) fn pairs_are_fast(level: Level) -> bool {
    rounds_halves(level) && matches!(processor(), Processor::Amd | Processor::AmdBeforeZen4)
}

/// [`pack_pairs`] as a [`Pack`].
///
/// # Safety
/// As for [`pack_pairs`].
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn pack_halves<T>(
    source: *const T,
    across: isize,
    along: isize,
    width: usize,
    padded: usize,
    k: usize,
    destination: *mut f32,
) {
    // SAFETY: forwarded contract; only bits are moved.
    unsafe { pack_pairs(source.cast(), across, along, width, padded, k, destination.cast()) }
}

/// Packs four steps in a lane: byte `b` of `destination[i * padded + w]` holds step `4 * i + b` of line `w`; a step beyond
/// `k` is zero.
///
/// # Safety
/// As for [`pack`], with `k.div_ceil(4) * padded` values at the destination; `width` is at most 64.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn pack_bytes(
    source: *const Byte,
    across: isize,
    along: isize,
    width: usize,
    padded: usize,
    k: usize,
    destination: *mut i32,
) {
    let source: *const u8 = source.cast();
    let at = |w: usize, i: usize| source.wrapping_offset(w as isize * across + i as isize * along);
    let whole = k / 4;
    // SAFETY: all indices are inside `width` by `k` of the source and the destination's rows.
    unsafe {
        if along == 1 && across % 4 == 0 {
            pack::<[u8; 4]>(source.cast(), across / 4, 1, width, padded, whole, destination.cast());
        } else if across == 1 {
            for i in 0..whole {
                let lines = std::array::from_fn(|b| at(0, 4 * i + b));
                zip_four(lines, width, destination.add(i * padded));
            }
        } else {
            for i in 0..whole {
                for w in 0..width {
                    let quad = std::array::from_fn(|b| *at(w, 4 * i + b));
                    *destination.add(i * padded + w) = i32::from_le_bytes(quad);
                }
            }
        }
        if !k.is_multiple_of(4) {
            for w in 0..width {
                let quad = std::array::from_fn(|b| if 4 * whole + b < k { *at(w, 4 * whole + b) } else { 0 });
                *destination.add(whole * padded + w) = i32::from_le_bytes(quad);
            }
        }
        for i in 0..k.div_ceil(4) {
            std::ptr::write_bytes(destination.add(i * padded + width), 0, padded - width);
        }
    }
}

/// Joins four lines of `width` bytes. The lines after them, the next panel's, are asked for, as in [`zip`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn zip_four(lines: [*const u8; 4], width: usize, to: *mut i32) {
    use std::arch::x86_64::*;
    let mut w = 0;
    // SAFETY: the caller's lines; SSE2 is part of x86-64.
    unsafe {
        for line in lines {
            prefetch(line.wrapping_add(width));
        }
        while w + 16 <= width {
            let [a, b, c, d] = lines.map(|line| _mm_loadu_si128(line.add(w).cast()));
            let (low, high) = (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
            let (next_low, next_high) = (_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d));
            let quads = [
                _mm_unpacklo_epi16(low, next_low),
                _mm_unpackhi_epi16(low, next_low),
                _mm_unpacklo_epi16(high, next_high),
                _mm_unpackhi_epi16(high, next_high),
            ];
            for (i, quads) in quads.into_iter().enumerate() {
                _mm_storeu_si128(to.add(w + 4 * i).cast(), quads);
            }
            w += 16;
        }
        while w < width {
            *to.add(w) = i32::from_le_bytes(lines.map(|line| *line.add(w)));
            w += 1;
        }
    }
}

/// Packs pairs of steps: `destination[i * padded + w]` holds steps `2 * i` (low half) and `2 * i + 1` of line `w`; a
/// step beyond `k` is zero.
///
/// # Safety
/// As for [`pack`](super::pack::pack), with `k.div_ceil(2) * padded` values at the destination.
#[cfg(target_arch = "x86_64")]
unsafe fn pack_pairs(
    source: *const u16,
    across: isize,
    along: isize,
    width: usize,
    padded: usize,
    k: usize,
    destination: *mut u32,
) {
    let at = |w: usize, i: usize| source.wrapping_offset(w as isize * across + i as isize * along);
    // SAFETY: all indices are inside `width` by `k` of the source and the destination's rows.
    unsafe {
        if along == 1 && across % 2 == 0 && source.cast::<u32>().is_aligned() {
            // Pairs lie ready; only the last step of an odd count does not.
            pack(source.cast::<u32>(), across / 2, 1, width, padded, k / 2, destination);
        } else if across == 1 && level() == Level::Avx512 {
            zip_lines(source, along, width, padded, k / 2, destination);
        } else {
            for i in 0..k / 2 {
                let to = destination.add(i * padded);
                if across == 1 {
                    zip((at(0, 2 * i), at(0, 2 * i + 1)), width, to);
                } else {
                    for w in 0..width {
                        *to.add(w) = *at(w, 2 * i) as u32 | (*at(w, 2 * i + 1) as u32) << 16;
                    }
                }
                // (A call for nothing takes as long as the rest of a row.)
                if width < padded {
                    std::ptr::write_bytes(to.add(width), 0, padded - width);
                }
            }
        }
        if k % 2 == 1 {
            let to = destination.add(k / 2 * padded);
            for w in 0..width {
                *to.add(w) = *at(w, k - 1) as u32;
            }
            std::ptr::write_bytes(to.add(width), 0, padded - width);
        }
    }
}

/// The pairs of two vectors of halves: the first sixteen and the others.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn zip_vectors(low: __m512i, high: __m512i) -> [__m512i; 2] {
    // Lane `i` is element `i` of the one and of the other, or `16 + i`.
    let order = _mm512_set_epi32(
        0x2f000f, 0x2e000e, 0x2d000d, 0x2c000c, 0x2b000b, 0x2a000a, 0x290009, 0x280008, 0x270007, 0x260006, 0x250005,
        0x240004, 0x230003, 0x220002, 0x210001, 0x200000,
    );
    let rest = _mm512_add_epi32(order, _mm512_set1_epi32(0x100010));
    [_mm512_permutex2var_epi16(low, order, high), _mm512_permutex2var_epi16(low, rest, high)]
}

/// [`pack_pairs`] of `pairs` pairs where lines are neighbours.
///
/// # Safety
/// As for [`pack_pairs`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn zip_lines(
    source: *const u16,
    along: isize,
    width: usize,
    padded: usize,
    pairs: usize,
    destination: *mut u32,
) {
    for first in (0..padded).step_by(32) {
        let (read, written) = (width.saturating_sub(first).min(32), (padded - first).min(32));
        let lines = u32::MAX.checked_shr(32 - read as u32).unwrap_or(0);
        let lanes = u32::MAX >> (32 - written);
        for i in 0..pairs {
            // SAFETY: elements of the caller's lines and lanes of its rows; those masked off are neither read nor written.
            unsafe {
                let low = source.wrapping_offset(2 * i as isize * along).wrapping_add(first);
                let high = low.wrapping_offset(along);
                let [first_half, other_half] = zip_vectors(
                    _mm512_maskz_loadu_epi16(lines, low.cast()),
                    _mm512_maskz_loadu_epi16(lines, high.cast()),
                );
                let to = destination.add(i * padded + first).cast::<i32>();
                _mm512_mask_storeu_epi32(to, lanes as u16, first_half);
                _mm512_mask_storeu_epi32(to.wrapping_add(16), (lanes >> 16) as u16, other_half);
                // The panel that follows is usually next. Its lines are far apart: no prefetcher of the machine's sees them coming.
                prefetch(low.wrapping_add(width).cast());
                prefetch(high.wrapping_add(width).cast());
            }
        }
    }
}

/// Panels of 32 neighbouring columns, of pairs of `k` rows that are `along` elements apart. Row by row, since the next often
/// lies in another page.
///
/// # Safety
/// The source has `k` rows of `panels` times 32 elements, the destination room for as many panels.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn zip_panels<T>(source: *const T, along: isize, k: usize, panels: usize, destination: *mut f32) {
    let pairs = k.div_ceil(2);
    for i in 0..pairs {
        let low = source.cast::<u16>().wrapping_offset(2 * i as isize * along);
        let high = low.wrapping_offset(along);
        for panel in 0..panels {
            // SAFETY: elements of the caller's rows and lanes of its panels.
            unsafe {
                let is_pair = 2 * i + 1 < k;
                let [first_half, other_half] = zip_vectors(
                    _mm512_loadu_epi16(low.add(32 * panel).cast()),
                    if is_pair { _mm512_loadu_epi16(high.add(32 * panel).cast()) } else { _mm512_setzero_si512() },
                );
                let to = destination.add((panel * pairs + i) * 32).cast::<i32>();
                _mm512_storeu_epi32(to, first_half);
                _mm512_storeu_epi32(to.add(16), other_half);
            }
        }
    }
}

/// Joins two lines of `width` halves of pairs. The lines after them, the next panel's, are asked for: those of a panel are
/// far apart, so that no prefetcher of the machine's sees them coming.
///
/// # Safety
/// The lines have `width` halves, and `to` room for as many pairs.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn zip((low, high): (*const u16, *const u16), width: usize, to: *mut u32) {
    use std::arch::x86_64::*;
    let mut w = 0;
    // SAFETY: the caller's lines; SSE2 is part of x86-64.
    unsafe {
        for next in [low, high] {
            prefetch(next.wrapping_add(width).cast());
        }
        while w + 8 <= width {
            let (low, high) = (_mm_loadu_si128(low.add(w).cast()), _mm_loadu_si128(high.add(w).cast()));
            _mm_storeu_si128(to.add(w).cast(), _mm_unpacklo_epi16(low, high));
            _mm_storeu_si128(to.add(w + 4).cast(), _mm_unpackhi_epi16(low, high));
            w += 8;
        }
        while w < width {
            *to.add(w) = *low.add(w) as u32 | (*high.add(w) as u32) << 16;
            w += 1;
        }
    }
}
