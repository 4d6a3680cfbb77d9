//! Order-preserving keys: an unsigned integer for every element, and back.

use crate::math::{Isa, Kernel, level, run};
use crate::with_isa;
use flambeau_base::{Bool, DType, bf16, dispatch, f16};
use std::marker::PhantomData;

/// How the elements of one dtype map to keys. Key order is the wanted order, so descending keys are complemented.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub dtype: DType,
    /// All ones when descending, cut to the key's width.
    flip: u64,
    /// Subtracted from keys before they are packed.
    pub base: u64,
}

/// A key and an index in one integer, ordered by key, then index.
pub(super) trait Packed: Copy + Ord + Default + Send + Sync {
    fn pack(key: u64, index: usize) -> Self;
    fn key(self) -> u64;
    fn index(self) -> usize;
}

impl Packed for u64 {
    #[inline(always)]
    fn pack(key: u64, index: usize) -> u64 {
        key << 32 | index as u64
    }
    #[inline(always)]
    fn key(self) -> u64 {
        self >> 32
    }
    #[inline(always)]
    fn index(self) -> usize {
        self as u32 as usize
    }
}

impl Packed for u128 {
    #[inline(always)]
    fn pack(key: u64, index: usize) -> u128 {
        (key as u128) << 64 | index as u128
    }
    #[inline(always)]
    fn key(self) -> u64 {
        (self >> 64) as u64
    }
    #[inline(always)]
    fn index(self) -> usize {
        self as u64 as usize
    }
}

/// An element with an order: NaN is greatest, and zeros of both signs have one key.
pub(super) trait Key: Copy {
    /// The key.
    fn key(self) -> u64;
    /// The element of a key, unless several elements share it (zeros, NaN).
    fn element(key: u64) -> Option<Self>;
}

macro_rules! integer_keys {
    ($($t:ty, $unsigned:ty, $sign:expr;)*) => { $(
        impl Key for $t {
            #[inline(always)]
            fn key(self) -> u64 { (self as $unsigned ^ $sign) as u64 }
            #[inline(always)]
            fn element(key: u64) -> Option<$t> { Some((key as $unsigned ^ $sign) as $t) }
        }
    )* };
}
integer_keys! {
    u8, u8, 0; u16, u16, 0; u32, u32, 0; u64, u64, 0;
    i8, u8, 1 << 7; i16, u16, 1 << 15; i32, u32, 1 << 31; i64, u64, 1 << 63;
}

impl Key for Bool {
    #[inline(always)]
    fn key(self) -> u64 {
        self.get() as u64
    }
    #[inline(always)]
    fn element(key: u64) -> Option<Bool> {
        Some(Bool::from(key != 0))
    }
}

macro_rules! float_keys {
    ($($t:ty, $bits:ty, $infinity:expr;)*) => { $(
        impl Key for $t {
            #[inline(always)]
            fn key(self) -> u64 {
                const SIGN: $bits = !(<$bits>::MAX >> 1);
                let bits = self.to_bits();
                let magnitude = bits & !SIGN;
                // Negative numbers grow as their bits shrink.
                let key = if bits & SIGN != 0 && magnitude != 0 { !bits } else { magnitude | SIGN };
                (if magnitude > $infinity { <$bits>::MAX } else { key }) as u64
            }
            #[inline(always)]
            fn element(key: u64) -> Option<$t> {
                const SIGN: $bits = !(<$bits>::MAX >> 1);
                let key = key as $bits;
                if key == SIGN || key == <$bits>::MAX {
                    return None;
                }
                Some(<$t>::from_bits(if key & SIGN != 0 { key ^ SIGN } else { !key }))
            }
        }
    )* };
}
float_keys! {
    f16, u16, 0x7c00; bf16, u16, 0x7f80; f32, u32, 0x7f80_0000; f64, u64, 0x7ff0_0000_0000_0000;
}

impl Keys {
    pub(super) fn new(dtype: DType, descending: bool) -> Keys {
        let ones = match dtype {
            DType::Bool => 1,
            _ => u64::MAX >> (64 - 8 * dtype.size().min(8)),
        };
        Keys { dtype, flip: if descending { ones } else { 0 }, base: 0 }
    }

    /// The key that NaN has, if the dtype has one.
    pub(super) fn nan(&self) -> Option<u64> {
        let ones = u64::MAX >> (64 - 8 * self.dtype.size().min(8));
        self.dtype.is_floating_point().then_some(ones ^ self.flip)
    }

    /// Whether keys fit in 32 bits.
    pub(super) fn narrow(&self) -> bool {
        self.dtype.size() <= 4
    }

    /// The keys of `n` elements.
    ///
    /// # Safety
    /// `src` must be valid for `n` elements at its stride in bytes, `out` for `n` keys.
    pub(super) unsafe fn load(&self, src: *const u8, stride: isize, out: *mut u64, n: usize) {
        dispatch!(self.dtype, T in [bool, ints, floats] => {
            // SAFETY: the caller's contract, unchanged.
            unsafe { load::<T>(src, stride, out, n, self.flip) }
        }; else unreachable!("complex numbers have no order"));
    }

    /// The elements of sorted keys; those that share a key are read from the row they came from.
    ///
    /// # Safety
    /// `src` must be the row the keys came from, and `out` valid for one element per key, at their strides in bytes.
    pub(super) unsafe fn store<P: Packed>(
        &self,
        sorted: &[P],
        src: *const u8,
        src_stride: isize,
        out: *mut u8,
        stride: isize,
    ) {
        dispatch!(self.dtype, T in [bool, ints, floats] => {
            for (i, x) in sorted.iter().enumerate() {
                // SAFETY: the caller's contract.
                unsafe {
                    let value = match <T as Key>::element((x.key() + self.base) ^ self.flip) {
                        Some(value) => value,
                        None => src.offset(x.index() as isize * src_stride).cast::<T>().read_unaligned(),
                    };
                    out.offset(i as isize * stride).cast::<T>().write_unaligned(value);
                }
            }
        }; else unreachable!("complex numbers have no order"));
    }
}

unsafe fn load<T: Key>(src: *const u8, stride: isize, out: *mut u64, n: usize, flip: u64) {
    if stride != size_of::<T>() as isize {
        for i in 0..n {
            // SAFETY: the caller's `n` elements.
            unsafe { out.add(i).write(src.offset(i as isize * stride).cast::<T>().read_unaligned().key() ^ flip) };
        }
        return;
    }
    // SAFETY: the caller's `n` elements, next to each other.
    unsafe { run::<Load<T>>((src.cast(), out, n, flip)) }
}

/// [`load`] of elements next to each other. (A kernel, whose arguments are values: what a closure refers to might change
/// with every key that is written, and nothing was vectorised.)
struct Load<T>(PhantomData<T>);

impl<T: Key> Kernel for Load<T> {
    type Args = (*const T, *mut u64, usize, u64);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((src, out, n, flip): Self::Args) {
        for i in 0..n {
            // SAFETY: the caller's `n` elements and room for their keys.
            unsafe { out.add(i).write(src.add(i).read_unaligned().key() ^ flip) };
        }
    }
}

/// For each group of [`GROUP`] keys (the last may be shorter), whether one is below `limit`: a bit each.
pub(super) fn groups_below(keys: &[u64], limit: u64) -> u64 {
    debug_assert!(keys.len() <= 64 * GROUP);
    with_isa!(level(), _I => {
        let mut bits = 0u64;
        for (i, group) in keys.chunks(GROUP).enumerate() {
            let any = group.iter().fold(false, |any, &key| any | (key < limit));
            bits |= (any as u64) << i;
        }
        bits
    })
}

/// A bound that at least `k` of the keys do not exceed, close to the `k`-th least of them: the `k`-th least of the minima
/// of as many disjoint parts as make that likely. Nothing if there are too few keys or `k` is large.
pub(super) fn bound(keys: &[u64], k: usize) -> Option<u64> {
    const MOST: usize = 256;
    let parts = (4 * k.min(MOST)).next_power_of_two().max(32);
    if parts > MOST || keys.len() < parts {
        return None;
    }
    let mut least = [u64::MAX; MOST];
    let least = &mut least[..parts];
    with_isa!(level(), _I => {
        // Parts are columns, so that the minima are whole vectors.
        for row in keys.chunks(parts) {
            least.iter_mut().zip(row).for_each(|(least, &key)| *least = key.min(*least));
        }
    });
    Some(*least.select_nth_unstable(k - 1).1)
}

/// The least and the greatest of the keys, and how many of them are `counted`.
pub(super) fn summary(keys: &[u64], counted: u64) -> (u64, u64, usize) {
    with_isa!(level(), _I => keys.iter().fold((u64::MAX, 0, 0), |(min, max, count), &key| {
        (key.min(min), key.max(max), count + usize::from(key == counted))
    }))
}

/// Keys that are dismissed together.
pub(super) const GROUP: usize = 16;
