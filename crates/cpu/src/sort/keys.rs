//! Order-preserving keys: an unsigned integer for every element, and back.

use crate::math::level;
use crate::with_isa;
use flambeau_base::{Bool, DType, bf16, dispatch, f16};

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
trait Key: Copy {
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
    let src = src.cast::<T>();
    // SAFETY: the caller's `n` elements.
    let one = |i: usize| unsafe { out.add(i).write(src.add(i).read_unaligned().key() ^ flip) };
    with_isa!(level(), _I => (0..n).for_each(one));
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

/// Keys that are dismissed together.
pub(super) const GROUP: usize = 16;
