//! Converting a strip of elements from one dtype to another.
//!
//! `flambeau_base::dtype::cast` says what each of the 225 conversions means. Here the common pairs are direct loops;
//! every other pair goes through one exact intermediate dtype in blocks on the stack, so the number of compiled loops
//! grows with the number of dtypes and not with its square.

use super::{LONG_ROW, fill, move_bytes};
use crate::math::{Isa, Kernel, Level, entry, level, run};
use flambeau_base::dtype::cast;
use flambeau_base::{Bool, DType, Element, bf16, dispatch, f16};
use std::marker::PhantomData;

/// Converts `n` elements: `(source, its stride in bytes, destination, its stride in bytes, n)`.
///
/// The source and the destination must be valid for `n` elements at these strides, and must not overlap, unless both
/// dtypes have one size and addresses and strides are equal.
pub type CastStrip = unsafe fn(src: *const u8, src_stride: isize, dst: *mut u8, dst_stride: isize, n: usize);

/// Elements converted at a time by a two-step conversion: the intermediate block stays well inside L1.
const BLOCK: usize = 512;

/// The conversion from one dtype to another, equal to `flambeau_base::dtype::cast` on every element.
pub fn cast_strip(from: DType, to: DType) -> CastStrip {
    match direct(from, to) {
        Some(strip) => strip,
        None => two_step_strip(from, to),
    }
}

/// The strips that convert in one step: the same dtype, integers, halves with `f32`, to and from `bool`, and the pairs that
/// are common or serve as halves of a two-step conversion.
fn direct(from: DType, to: DType) -> Option<CastStrip> {
    if from == to {
        return Some(match from.size() {
            1 => move_strip::<u8>,
            2 => move_strip::<u16>,
            4 => move_strip::<u32>,
            8 => move_strip::<u64>,
            _ => move_strip::<[u64; 2]>,
        });
    }
    if let Some(strip) = resized(from, to) {
        return Some(strip);
    }
    // Those that programs make, at every level.
    macro_rules! at_levels {
        ($($from:ident $S:ty => $($to:ident $D:ty),+;)*) => {
            match (from, to) {
                $($((DType::$from, DType::$to) => return Some(at_level::<Cast<$S, $D>, $S, $D>),)+)*
                _ => {}
            }
        };
    }
    at_levels! {
        F32 f32 => F64 f64, I64 i64, I32 i32, I16 i16, I8 i8, U8 u8, Bool Bool;
        F64 f64 => F32 f32, I64 i64, I32 i32, I16 i16, I8 i8, U8 u8, Bool Bool;
        I64 i64 => F32 f32, F64 f64, Bool Bool;
        I32 i32 => F32 f32, F64 f64, Bool Bool;
        I16 i16 => F32 f32, F64 f64;
        I8 i8 => F32 f32, F64 f64;
        U8 u8 => F32 f32, F64 f64;
        Bool Bool => F32 f32, F64 f64, I64 i64, I32 i32;
    }
    match (from, to) {
        (DType::F16, DType::F32) => return Some(f16_to_f32),
        (DType::F32, DType::F16) => return Some(f32_to_f16),
        (DType::BF16, DType::F32) => return Some(bf16_to_f32),
        (DType::F32, DType::BF16) => return Some(f32_to_bf16),
        // Every other conversion of a half goes through f32, which is how `cast` defines it too.
        (DType::F16 | DType::BF16, _) | (_, DType::F16 | DType::BF16) => return None,
        _ => {}
    }
    macro_rules! from {
        ($S:ty, [$($group:ident),*]) => {
            return dispatch!(to, D in [$($group),*] => Some(convert::<$S, D> as CastStrip); else None)
        };
    }
    match from {
        DType::Bool => from!(Bool, [ints, reals, complexes]),
        DType::I64 => from!(i64, [bool, reals, complexes]),
        DType::F64 => from!(f64, [bool, ints, reals, complexes]),
        DType::F32 => from!(f32, [bool, ints, reals, complexes]),
        _ => {}
    }
    macro_rules! to {
        ($D:ty, [$($group:ident),*]) => {
            return dispatch!(from, S in [$($group),*] => Some(convert::<S, $D> as CastStrip); else None)
        };
    }
    match to {
        DType::Bool => to!(Bool, [ints, complexes]),
        DType::F64 => to!(f64, [ints, complexes]),
        DType::F32 => to!(f32, [ints, complexes]),
        _ => {}
    }
    match (from, to) {
        (DType::Complex64, DType::Complex128) => Some(convert::<num_complex::Complex<f32>, num_complex::Complex<f64>>),
        (DType::Complex128, DType::Complex64) => Some(convert::<num_complex::Complex<f64>, num_complex::Complex<f32>>),
        _ => None,
    }
}

/// The conversions between integers: their bits are cut off, or extended as the source's sign says.
fn resized(from: DType, to: DType) -> Option<CastStrip> {
    if !from.is_integral(false) || !to.is_integral(false) {
        return None;
    }
    macro_rules! sizes {
        ($($from:literal $to:literal: $S:ty => $D:ty, $T:ty => $E:ty;)*) => {
            match (from.size(), to.size(), matches!(from, DType::I8 | DType::I16 | DType::I32 | DType::I64)) {
                $(
                    ($from, $to, false) => at_level::<Cast<$S, $D>, $S, $D>,
                    ($from, $to, true) => at_level::<Cast<$T, $E>, $T, $E>,
                )*
                (1, ..) => move_strip::<u8>,
                (2, ..) => move_strip::<u16>,
                (4, ..) => move_strip::<u32>,
                _ => move_strip::<u64>,
            }
        };
    }
    Some(sizes! {
        1 2: u8 => u16, i8 => i16;
        1 4: u8 => u32, i8 => i32;
        1 8: u8 => u64, i8 => i64;
        2 4: u16 => u32, i16 => i32;
        2 8: u16 => u64, i16 => i64;
        4 8: u32 => u64, i32 => i64;
        2 1: u16 => u8, u16 => u8;
        4 1: u32 => u8, u32 => u8;
        8 1: u64 => u8, u64 => u8;
        4 2: u32 => u16, u32 => u16;
        8 2: u64 => u16, u64 => u16;
        8 4: u64 => u32, u64 => u32;
    })
}

/// The intermediate dtype through which `from` converts to `to` exactly as `cast` does it.
const fn intermediate(from: DType, to: DType) -> DType {
    match (from, to) {
        (DType::F16 | DType::BF16, _) | (_, DType::F16 | DType::BF16) => DType::F32,
        _ if from.is_integral(true) && to.is_integral(true) => DType::I64,
        _ => DType::F64,
    }
}

/// Strip pointers for the pairs without a direct loop. A `CastStrip` carries no data, so each pair needs a (tiny)
/// function of its own.
fn two_step_strip(from: DType, to: DType) -> CastStrip {
    dispatch!(from, S => dispatch!(to, D => two_step::<S, D> as CastStrip))
}

/// Converts through the intermediate dtype, block by block.
unsafe fn two_step<S: Element, D: Element>(
    src: *const u8,
    src_stride: isize,
    dst: *mut u8,
    dst_stride: isize,
    n: usize,
) {
    // SAFETY: the caller's contract, unchanged.
    unsafe { convert_in_two(S::DTYPE, D::DTYPE, src, src_stride, dst, dst_stride, n) }
}

unsafe fn convert_in_two(
    from: DType,
    to: DType,
    mut src: *const u8,
    src_stride: isize,
    mut dst: *mut u8,
    dst_stride: isize,
    mut n: usize,
) {
    let middle = intermediate(from, to);
    let (Some(first), Some(second)) = (direct(from, middle), direct(middle, to)) else {
        unreachable!("no conversion of {from} to {to} through {middle}")
    };
    let size = middle.size() as isize;
    let mut block = [0u64; BLOCK];
    let block = block.as_mut_ptr().cast::<u8>();
    while n > 0 {
        let count = n.min(BLOCK);
        // SAFETY: the block holds BLOCK elements of at most eight bytes; source and destination by the contract.
        unsafe {
            first(src, src_stride, block, size, count);
            second(block, size, dst, dst_stride, count);
        }
        src = src.wrapping_offset(src_stride * count as isize);
        dst = dst.wrapping_offset(dst_stride * count as isize);
        n -= count;
    }
}

/// Moves elements of one size.
pub(super) unsafe fn move_strip<T: Copy>(src: *const u8, src_stride: isize, dst: *mut u8, dst_stride: isize, n: usize) {
    let size = size_of::<T>() as isize;
    // SAFETY: both are valid for `n` elements at these strides by the contract; `copy` allows equal addresses.
    unsafe {
        if src_stride == size && dst_stride == size {
            move_bytes(src, dst, n * size_of::<T>());
        } else if src_stride == 0 && dst_stride == size {
            if n >= LONG_ROW && size <= 16 {
                let value = fill::repeated(std::slice::from_raw_parts(src, size_of::<T>()));
                return fill::fill_dense(dst, n * size_of::<T>(), value, false);
            }
            let value = src.cast::<T>().read_unaligned();
            let dst = dst.cast::<T>();
            for i in 0..n {
                dst.add(i).write_unaligned(value);
            }
        } else if src_stride == -size && dst_stride == size && size <= 8 {
            run::<Backwards<T>>((src.cast(), dst.cast(), n));
        } else if src_stride == 2 * size && dst_stride == size && size <= 8 {
            run::<Every<T, 2>>((src.cast(), dst.cast(), n));
        } else if const { size_of::<T>() == 4 }
            && dst_stride == size
            && wider(src_stride / size)
            && src_stride % size == 0
        {
            match src_stride / size {
                3 => run::<Every<T, 3>>((src.cast(), dst.cast(), n)),
                _ => run::<Every<T, 4>>((src.cast(), dst.cast(), n)),
            }
        } else {
            for i in 0..n as isize {
                let value = src.offset(i * src_stride).cast::<T>().read_unaligned();
                dst.offset(i * dst_stride).cast::<T>().write_unaligned(value);
            }
        }
    }
}

/// Whether words that many apart are picked faster from vectors than one by one: only AVX-512 picks from two.
fn wider(step: isize) -> bool {
    matches!(step, 3 | 4) && level() == Level::Avx512
}

/// Copies the `n` elements that end at an address, from there on backwards: source, destination, count.
struct Backwards<T>(PhantomData<T>);

impl<T: Copy> Kernel for Backwards<T> {
    type Args = (*const T, *mut T, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((src, dst, n): Self::Args) {
        // In blocks: what is read and written does not overlap, which the compiler cannot see.
        const BLOCK: usize = 32;
        let whole = n / BLOCK * BLOCK;
        // SAFETY: the caller's elements.
        unsafe {
            for start in (0..whole).step_by(BLOCK) {
                let block = src.sub(start + BLOCK - 1).cast::<[T; BLOCK]>().read_unaligned();
                let turned: [T; BLOCK] = std::array::from_fn(|i| block[BLOCK - 1 - i]);
                dst.add(start).cast::<[T; BLOCK]>().write_unaligned(turned);
            }
            for i in whole..n {
                dst.add(i).write_unaligned(src.sub(i).read_unaligned());
            }
        }
    }
}

/// Copies every `N`-th element: source, destination, how many. What lies between the elements is read, too: nobody may
/// write it meanwhile.
struct Every<T, const N: usize>(PhantomData<T>);

impl<T: Copy, const N: usize> Kernel for Every<T, N> {
    type Args = (*const T, *mut T, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((src, dst, n): Self::Args) {
        const BLOCK: usize = 16;
        let whole = n / BLOCK * BLOCK;
        // SAFETY: the caller's elements, and those between them: none after the last.
        unsafe {
            for start in (0..whole).step_by(BLOCK) {
                let from = src.add(N * start);
                let mut block = from.cast::<[T; BLOCK]>().read_unaligned();
                for part in 0..N {
                    // The last part ends with the last element.
                    let first = if part + 1 < N { part * BLOCK } else { N * (BLOCK - 1) + 1 - BLOCK };
                    let elements = from.add(first).cast::<[T; BLOCK]>().read_unaligned();
                    for i in first.div_ceil(N)..BLOCK.min((first + BLOCK).div_ceil(N)) {
                        block[i] = elements[N * i - first];
                    }
                }
                dst.add(start).cast::<[T; BLOCK]>().write_unaligned(block);
            }
            for i in whole..n {
                dst.add(i).write_unaligned(src.add(N * i).read_unaligned());
            }
        }
    }
}

/// Converts element by element with `cast`; unit strides vectorise.
unsafe fn convert<S: Element, D: Element>(
    src: *const u8,
    src_stride: isize,
    dst: *mut u8,
    dst_stride: isize,
    n: usize,
) {
    // SAFETY: both are valid for `n` elements at these strides by the contract.
    unsafe {
        if src_stride == size_of::<S>() as isize && dst_stride == size_of::<D>() as isize {
            let (src, dst) = (src.cast::<S>(), dst.cast::<D>());
            for i in 0..n {
                dst.add(i).write_unaligned(cast::<S, D>(src.add(i).read_unaligned()));
            }
        } else {
            for i in 0..n as isize {
                let value = src.offset(i * src_stride).cast::<S>().read_unaligned();
                dst.offset(i * dst_stride).cast::<D>().write_unaligned(cast::<S, D>(value));
            }
        }
    }
}

/// Elements that are converted between loads and stores: whole vectors of every instruction set.
const CHUNK: usize = 64;

/// A conversion of contiguous elements, perhaps by their bits.
trait Conversion: 'static {
    type From: Copy + Default;
    type To: Copy + Default;
    fn convert(x: Self::From) -> Self::To;
}

/// What [`cast`] does.
struct Cast<S, D>(std::marker::PhantomData<(S, D)>);
impl<S: Element, D: Element> Conversion for Cast<S, D> {
    type From = S;
    type To = D;
    #[inline(always)]
    fn convert(x: S) -> D {
        cast::<S, D>(x)
    }
}

/// Rounds to nearest even by adding just under half a unit; a NaN keeps its top bits and turns quiet.
struct Narrow;
impl Conversion for Narrow {
    type From = u32;
    type To = u16;
    #[inline(always)]
    fn convert(bits: u32) -> u16 {
        let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1))) >> 16;
        let nan = (bits >> 16) | 0x40;
        let is_nan = (bits & 0x7fff_ffff) > 0x7f80_0000;
        (if is_nan { nan } else { rounded }) as u16
    }
}

/// Exact; a NaN turns quiet.
struct Widen;
impl Conversion for Widen {
    type From = u16;
    type To = u32;
    #[inline(always)]
    fn convert(bits: u16) -> u32 {
        let quiet = if bits & 0x7fff > 0x7f80 { 0x40 } else { 0 };
        u32::from(bits | quiet) << 16
    }
}

struct Contiguous<C>(std::marker::PhantomData<C>);

impl<C: Conversion> Kernel for Contiguous<C> {
    type Args = (*const C::From, *mut C::To, usize);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((src, dst, n): Self::Args) {
        let whole = n / CHUNK * CHUNK;
        // SAFETY: both are valid for `n` elements by the caller's contract.
        unsafe {
            for start in (0..whole).step_by(CHUNK) {
                let block = src.add(start).cast::<[C::From; CHUNK]>().read_unaligned();
                let mut out = [C::To::default(); CHUNK];
                for (out, bits) in out.iter_mut().zip(block) {
                    *out = C::convert(bits);
                }
                dst.add(start).cast::<[C::To; CHUNK]>().write_unaligned(out);
            }
            for i in whole..n {
                dst.add(i).write_unaligned(C::convert(src.add(i).read_unaligned()));
            }
        }
    }
}

/// A conversion by the machine's widest vectors where elements are contiguous, else one by one.
unsafe fn at_level<C: Conversion, S: Element, D: Element>(
    src: *const u8,
    src_stride: isize,
    dst: *mut u8,
    dst_stride: isize,
    n: usize,
) {
    // SAFETY: the caller's contract; the machine has its level.
    unsafe {
        match src_stride == size_of::<S>() as isize && dst_stride == size_of::<D>() as isize {
            true => entry::<Contiguous<C>>(level())((src.cast(), dst.cast(), n)),
            false => convert::<S, D>(src, src_stride, dst, dst_stride, n),
        }
    }
}

/// A conversion between a half and `f32`: by vectors and their instructions, because what compilers make of the same
/// arithmetic takes twice as long; without such, and very few, one by one.
macro_rules! half_strip {
    ($name:ident, $S:ty, $D:ty, $otherwise:expr) => {
        #[doc = concat!("`", stringify!($S), "` to `", stringify!($D), "`: a [`CastStrip`].")]
        pub(crate) unsafe fn $name(src: *const u8, src_stride: isize, dst: *mut u8, dst_stride: isize, n: usize) {
            #[cfg(target_arch = "x86_64")]
            if n >= x86::FEWEST && level() != Level::Baseline {
                let vectors = if level() == Level::Avx512 { x86::avx512::$name } else { x86::avx2::$name };
                let (sizes, strides) = ([size_of::<$S>(), size_of::<$D>()], [src_stride, dst_stride]);
                // SAFETY: the machine has its level; the rest is the caller's contract.
                return unsafe { x86::strip(vectors, sizes, (src, dst), strides, n) };
            }
            let otherwise: CastStrip = $otherwise;
            // SAFETY: the caller's contract.
            unsafe { otherwise(src, src_stride, dst, dst_stride, n) }
        }
    };
}
half_strip! { f16_to_f32, f16, f32, convert::<f16, f32> }
half_strip! { f32_to_f16, f32, f16, convert::<f32, f16> }
half_strip! { bf16_to_f32, bf16, f32, at_level::<Widen, bf16, f32> }
half_strip! { f32_to_bf16, f32, bf16, at_level::<Narrow, f32, bf16> }

/// Conversions of contiguous halves, a multiple of [`STEP`](x86::STEP) of them. To `f32` exactly, from it to nearest with
/// ties to even; NaN turns quiet.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Elements that every loop takes at a time, or a part of which it does.
    const STEP: usize = 16;
    /// Elements of strides that are laid out side by side at a time.
    const BLOCK: usize = 8 * STEP;
    /// Elements, at least, that vectors are worth it for.
    pub const FEWEST: usize = 4;

    /// Converts contiguous elements, a multiple of [`STEP`].
    type Vectors = unsafe fn(*const u8, *mut u8, usize);

    /// A conversion of `n` elements by that of contiguous ones. What lies otherwise is laid out side by side first.
    ///
    /// # Safety
    /// As [`CastStrip`](super::CastStrip), of elements of these sizes, two and four bytes or four and two; the processor has what
    /// `vectors` needs.
    pub unsafe fn strip(
        vectors: Vectors,
        sizes: [usize; 2],
        (src, dst): (*const u8, *mut u8),
        strides: [isize; 2],
        n: usize,
    ) {
        // SAFETY: the caller's.
        unsafe {
            if strides != sizes.map(|size| size as isize) {
                return blocks::<BLOCK>(vectors, sizes, (src, dst), strides, n);
            }
            let whole = n / STEP * STEP;
            vectors(src, dst, whole);
            if whole < n {
                let rest = (src.add(whole * sizes[0]), dst.add(whole * sizes[1]));
                blocks::<STEP>(vectors, sizes, rest, strides, n - whole);
            }
        }
    }

    /// [`strip`] by way of blocks of `N` elements.
    ///
    /// # Safety
    /// As there.
    unsafe fn blocks<const N: usize>(
        vectors: Vectors,
        [from, to]: [usize; 2],
        (mut src, mut dst): (*const u8, *mut u8),
        [src_stride, dst_stride]: [isize; 2],
        mut n: usize,
    ) {
        let (mut source, mut result) = ([0u32; N], [0u32; N]);
        let (source, result) = (source.as_mut_ptr().cast::<u8>(), result.as_mut_ptr().cast::<u8>());
        let [gather, scatter] = [from, to].map(|size| if size == 2 { move_each::<u16> } else { move_each::<u32> });
        while n > 0 {
            let count = n.min(N);
            // SAFETY: the caller's elements; the blocks have room for as many as are moved there.
            unsafe {
                gather(src, src_stride, source, from as isize, count);
                vectors(source, result, count.next_multiple_of(STEP));
                scatter(result, to as isize, dst, dst_stride, count);
            }
            src = src.wrapping_offset(src_stride * count as isize);
            dst = dst.wrapping_offset(dst_stride * count as isize);
            n -= count;
        }
    }

    /// Moves elements, and reads nothing between them: somebody may be writing there.
    ///
    /// # Safety
    /// As [`CastStrip`](super::CastStrip), of elements that do not overlap.
    unsafe fn move_each<T: Copy>(src: *const u8, src_stride: isize, dst: *mut u8, dst_stride: isize, n: usize) {
        let size = size_of::<T>() as isize;
        // SAFETY: the caller's elements.
        unsafe {
            if [src_stride, dst_stride] == [size; 2] {
                return std::ptr::copy_nonoverlapping(src, dst, n * size_of::<T>());
            }
            for i in 0..n as isize {
                let element = src.offset(i * src_stride).cast::<T>().read_unaligned();
                dst.offset(i * dst_stride).cast::<T>().write_unaligned(element);
            }
        }
    }

    macro_rules! loops {
        ($features:literal, $lanes:literal: $($name:ident $from:literal $to:literal |$src:ident, $dst:ident| $body:block)*) => { $(
            /// # Safety
            /// The processor has the features; both are valid for `n` elements.
            #[target_feature(enable = $features)]
            pub unsafe fn $name(src: *const u8, dst: *mut u8, n: usize) {
                for i in (0..n).step_by($lanes) {
                    // SAFETY: a vector of the caller's elements; the loads and stores are unaligned ones.
                    unsafe {
                        let ($src, $dst) = (src.add(i * $from), dst.add(i * $to));
                        $body
                    }
                }
            }
        )* };
    }

    pub mod avx512 {
        use super::*;
        loops! { "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c", 16:
            f16_to_f32 2 4 |src, dst| {
                _mm512_storeu_ps(dst.cast(), _mm512_cvtph_ps(_mm256_loadu_si256(src.cast())));
            }
            f32_to_f16 4 2 |src, dst| {
                let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(src.cast()));
                _mm256_storeu_si256(dst.cast(), halves);
            }
            bf16_to_f32 2 4 |src, dst| {
                let bits = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(src.cast())));
                let x = _mm512_castsi512_ps(bits);
                let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
                _mm512_storeu_si512(dst.cast(), _mm512_mask_or_epi32(bits, nan, bits, _mm512_set1_epi32(0x40_0000)));
            }
            f32_to_bf16 4 2 |src, dst| {
                // Just less than half a unit is added, and the bit that decides ties.
                let x = _mm512_loadu_ps(src.cast());
                let bits = _mm512_castps_si512(x);
                let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
                let sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
                let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
                let rounded = _mm512_mask_or_epi32(sum, nan, bits, _mm512_set1_epi32(0x40_0000));
                _mm256_storeu_si256(dst.cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded)));
            }
        }
    }

    pub mod avx2 {
        use super::*;
        loops! { "avx2,f16c", 8:
            f16_to_f32 2 4 |src, dst| {
                _mm256_storeu_ps(dst.cast(), _mm256_cvtph_ps(_mm_loadu_si128(src.cast())));
            }
            f32_to_f16 4 2 |src, dst| {
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(src.cast()));
                _mm_storeu_si128(dst.cast(), halves);
            }
            bf16_to_f32 2 4 |src, dst| {
                let bits = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(src.cast())));
                let x = _mm256_castsi256_ps(bits);
                let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
                let quiet = _mm256_and_si256(nan, _mm256_set1_epi32(0x40_0000));
                _mm256_storeu_si256(dst.cast(), _mm256_or_si256(bits, quiet));
            }
        }
        loops! { "avx2", 16:
            f32_to_bf16 4 2 |src, dst| {
                let (a, b) = (rounded(_mm256_loadu_ps(src.cast())), rounded(_mm256_loadu_ps(src.cast::<f32>().add(8))));
                // Packing works within halves of the registers, which leaves the quarters in the order 0, 2, 1, 3.
                let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(a, b));
                _mm256_storeu_si256(dst.cast(), packed);
            }
        }

        /// The upper halves of the numbers, rounded to.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn rounded(x: __m256) -> __m256i {
            let bits = _mm256_castps_si256(x);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
            _mm256_srli_epi32::<16>(_mm256_blendv_epi8(sum, quiet, nan))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit patterns that are awkward in some dtype, as bytes of `dtype`.
    fn samples(dtype: DType) -> Vec<u8> {
        let mut out = Vec::new();
        for i in 0..600u64 {
            let real = match i {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => -0.0,
                4 => 1e300,
                5 => -3e9,
                6 => 1e19,
                7 => 16777217.0,
                8 => 65520.0,
                9 => 6e-8,
                10 => 0.5,
                _ => (i as f64 - 300.0) * 1.37 * 10f64.powi((i % 23) as i32 - 6),
            };
            dispatch!(dtype, T => {
                let value: T = match i % 3 {
                    0 => T::from_f64(real),
                    1 => T::from_c128(num_complex::Complex::new(real, i as f64)),
                    _ => T::from_i64((i as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64)),
                };
                // SAFETY: any value is readable as its bytes.
                out.extend_from_slice(unsafe {
                    std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>())
                });
            });
        }
        out
    }

    #[test]
    fn every_pair_equals_cast() {
        for from in DType::ALL {
            let src = samples(from);
            let n = src.len() / from.size();
            for to in DType::ALL {
                for gap in [1usize, 2] {
                    let mut got = vec![0u8; n * to.size() * gap];
                    let mut want = got.clone();
                    let step = to.size() * gap;
                    // SAFETY: both buffers hold `n` elements at these strides.
                    unsafe {
                        let strip = cast_strip(from, to);
                        strip(src.as_ptr(), from.size() as isize, got.as_mut_ptr(), step as isize, n);
                        dispatch!(from, S => dispatch!(to, D => for i in 0..n {
                            let value = src.as_ptr().cast::<S>().add(i).read_unaligned();
                            want.as_mut_ptr().add(i * step).cast::<D>().write_unaligned(cast::<S, D>(value));
                        }));
                    }
                    let bad = (0..got.len()).find(|&i| got[i] != want[i]);
                    assert_eq!(bad, None, "{from} to {to}, gap {gap}");
                }
            }
        }
    }
}
