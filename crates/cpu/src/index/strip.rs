//! How values are combined with what is at index positions: loops over the elements of a strip.

use super::ReduceOp;
use crate::math::{Baseline, Isa, Kernel, Level, entry, level, select};
use crate::prefetch::prefetch;
use flambeau_base::{Bool, Complex, DType, Element, bf16, dispatch, f16};
use std::marker::PhantomData;

/// Combines `n` values, in order: destination, its stride, source, its stride, indices (multiplied by the step and
/// added to the destination's address), their stride, step, count, and how often. A stride of 0 reads the index once.
pub(super) type PutStrip = unsafe fn(*mut u8, isize, *const u8, isize, *const i64, isize, isize, usize, Times);

/// How often a strip runs, and how far destination, source and index move each time, in bytes: by as many steps as the number
/// of the time, or as there are in a list.
#[derive(Clone, Copy)]
pub(super) struct Times<'a> {
    pub(super) count: usize,
    pub(super) dst: isize,
    pub(super) src: isize,
    pub(super) index: isize,
    pub(super) steps: Option<&'a [u32]>,
}

impl Times<'_> {
    pub(super) const ONCE: Times<'static> = Times::each(1, 0, 0, 0);

    /// One step each time.
    pub(super) const fn each(count: usize, dst: isize, src: isize, index: isize) -> Times<'static> {
        Times { count, dst, src, index, steps: None }
    }
}

pub(super) fn strip_of(dtype: DType, accumulate: bool) -> PutStrip {
    if accumulate { reduce_strip(ReduceOp::Sum, dtype) } else { replace_strip(dtype.size()) }
}

pub(super) fn replace_strip(size: usize) -> PutStrip {
    match size {
        1 => put_strip::<u8, Replace>,
        2 => put_strip::<u16, Replace>,
        4 => put_strip::<u32, Replace>,
        8 => put_strip::<u64, Replace>,
        _ => put_strip::<[u64; 2], Replace>,
    }
}

/// The strip that combines; `Mean` sums first.
pub(super) fn reduce_strip(op: ReduceOp, dtype: DType) -> PutStrip {
    match op {
        // The bits of sums and products that wrap are the same with and without a sign.
        ReduceOp::Sum | ReduceOp::Mean if dtype == DType::F16 => half_sum_strip::<f16>,
        ReduceOp::Sum | ReduceOp::Mean if dtype == DType::BF16 => half_sum_strip::<bf16>,
        ReduceOp::Sum | ReduceOp::Mean => {
            dispatch!(dtype.to_signed(), T in [bool, signed, floats, complexes] => put_strip::<T, Sum> as PutStrip;
                else unreachable!())
        }
        ReduceOp::Prod => {
            dispatch!(dtype.to_signed(), T in [bool, signed, floats, complexes] => put_strip::<T, Prod> as PutStrip;
                else unreachable!())
        }
        ReduceOp::Amax => dispatch!(dtype, T in [bool, ints, floats] => put_strip::<T, Amax> as PutStrip;
            else unreachable!("amax of complex numbers")),
        ReduceOp::Amin => dispatch!(dtype, T in [bool, ints, floats] => put_strip::<T, Amin> as PutStrip;
            else unreachable!("amin of complex numbers")),
    }
}

pub(super) trait Combine<T> {
    /// Whether sixteen at a time are worth their code.
    const WIDE: bool = true;

    fn combine(old: T, new: T) -> T;

    /// The same of values that are combined one by one, with the instructions of a level.
    #[inline(always)]
    fn one<I: Isa>(old: T, new: T) -> T {
        Self::combine(old, new)
    }
}
struct Replace;
pub(super) struct Sum;
struct Prod;
struct Amax;
struct Amin;

impl<T> Combine<T> for Replace {
    #[inline(always)]
    fn combine(_: T, new: T) -> T {
        new
    }
}

macro_rules! combine {
    ($($t:ty: |$a:ident, $b:ident| $sum:expr, $prod:expr;)*) => { $(
        impl Combine<$t> for Sum {
            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t { $sum }
        }
        impl Combine<$t> for Prod {
            const WIDE: bool = !<$t as Element>::DTYPE.is_complex();

            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t { $prod }
        }
    )* };
}
/// Of halves, by way of `f32`.
#[inline(always)]
fn halved<T: Element>(a: T, b: T, of: impl Fn(f32, f32) -> f32) -> T {
    T::from_f32(of(a.to_f32(), b.to_f32()))
}

impl Combine<f16> for Sum {
    #[inline(always)]
    fn combine(a: f16, b: f16) -> f16 {
        halved(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn one<I: Isa>(a: f16, b: f16) -> f16 {
        // Conversions by integers, of which vectors hide the length, are ten times an addition's.
        #[cfg(target_arch = "x86_64")]
        if I::LEVEL != Level::Baseline {
            use std::arch::x86_64::*;
            // Both in one register: a word that is loaded into another waits for what was in it.
            let both = u32::from(a.to_bits()) | u32::from(b.to_bits()) << 16;
            // SAFETY: the machine has the level, which includes these instructions.
            return unsafe {
                let widened = _mm_cvtph_ps(_mm_cvtsi32_si128(both as i32));
                let sum = _mm_add_ss(widened, _mm_movehdup_ps(widened));
                f16::from_bits(_mm_extract_epi16::<0>(_mm_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(sum)) as u16)
            };
        }
        Self::combine(a, b)
    }
}

impl Combine<bf16> for Sum {
    #[inline(always)]
    fn combine(a: bf16, b: bf16) -> bf16 {
        // A sum turns NaN quiet, as conversions do.
        let widened = |x: bf16| f32::from_bits(u32::from(x.to_bits()) << 16);
        <bf16 as Element>::from_f32(widened(a) + widened(b))
    }
}

impl Combine<f16> for Prod {
    const WIDE: bool = false;

    #[inline(always)]
    fn combine(a: f16, b: f16) -> f16 {
        halved(a, b, |a, b| a * b)
    }
}

impl Combine<bf16> for Prod {
    const WIDE: bool = false;

    #[inline(always)]
    fn combine(a: bf16, b: bf16) -> bf16 {
        halved(a, b, |a, b| a * b)
    }
}

macro_rules! combine_integers {
    ($($t:ty),*) => { combine! { $($t: |a, b| a.wrapping_add(b), a.wrapping_mul(b);)* } };
}
combine_integers!(i8, i16, i32, i64);
combine! {
    Bool: |a, b| (a.get() | b.get()).into(), (a.get() & b.get()).into();
    f32: |a, b| a + b, a * b;
    f64: |a, b| a + b, a * b;
    Complex<f32>: |a, b| a + b, a * b;
    Complex<f64>: |a, b| a + b, a * b;
}

impl<T: PartialOrd + Copy> Combine<T> for Amax {
    #[inline(always)]
    #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
    fn combine(old: T, new: T) -> T {
        select((old != old) | (old >= new), old, new)
    }
}

impl<T: PartialOrd + Copy> Combine<T> for Amin {
    #[inline(always)]
    #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
    fn combine(old: T, new: T) -> T {
        select((old != old) | (old <= new), old, new)
    }
}

/// Rows between the one that is written and the one that is asked for.
const AHEAD: usize = 4;

/// The same where the values that are read are not neighbours either.
const FAR_AHEAD: usize = 8;

pub(super) unsafe fn put_strip<T: Copy, C: Combine<T>>(
    dst: *mut u8,
    dst_stride: isize,
    src: *const u8,
    src_stride: isize,
    index: *const i64,
    index_stride: isize,
    step: isize,
    n: usize,
    times: Times,
) {
    // SAFETY: the caller's contract, unchanged.
    unsafe {
        put_times::<Baseline, T, C>(dst, dst_stride, src, src_stride, index, index_stride, step, n, times);
    }
}

/// [`put_strip`] of sums of halves, whose conversions are instructions of a level.
unsafe fn half_sum_strip<T: Copy>(
    dst: *mut u8,
    dst_stride: isize,
    src: *const u8,
    src_stride: isize,
    index: *const i64,
    index_stride: isize,
    step: isize,
    n: usize,
    times: Times,
) where
    Sum: Combine<T>,
{
    // SAFETY: the caller's contract, unchanged; the machine has its level.
    unsafe {
        entry::<HalfSum<'_, T>>(level())((dst, dst_stride, src, src_stride, index, index_stride, (step, n, times)));
    }
}

struct HalfSum<'a, T>(PhantomData<&'a T>);

impl<'a, T: Copy> Kernel for HalfSum<'a, T>
where
    Sum: Combine<T>,
{
    /// Those of a [`PutStrip`].
    type Args = (*mut u8, isize, *const u8, isize, *const i64, isize, (isize, usize, Times<'a>));
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((dst, dst_stride, src, src_stride, index, index_stride, (step, n, times)): Self::Args) {
        // SAFETY: the caller's contract, unchanged.
        unsafe { put_times::<I, T, Sum>(dst, dst_stride, src, src_stride, index, index_stride, step, n, times) };
    }
}

#[inline(always)]
unsafe fn put_times<I: Isa, T: Copy, C: Combine<T>>(
    dst: *mut u8,
    dst_stride: isize,
    src: *const u8,
    src_stride: isize,
    index: *const i64,
    index_stride: isize,
    step: isize,
    n: usize,
    times: Times,
) {
    let size = size_of::<T>() as isize;
    let lines = if index_stride == 0 && dst_stride == size { (n * size_of::<T>()).min(1024) } else { 0 };
    let ask = |row: *const u8| (0..lines).step_by(64).for_each(|line| prefetch(row.wrapping_add(line)));
    let ahead = if times.steps.is_some() { FAR_AHEAD } else { AHEAD };
    let place = |time: usize| times.steps.map_or(time, |steps| steps[time] as usize) as isize;
    for time in 0..times.count {
        // Rows lie anywhere: ask for them some time before they are written.
        if lines > 0 && time + ahead < times.count {
            let next = place(time + ahead);
            // SAFETY: the index of a later time.
            let row = unsafe { index.byte_offset(next * times.index).read_unaligned() };
            ask(dst.wrapping_offset(next * times.dst + row as isize * step));
            if times.steps.is_some() {
                ask(src.wrapping_offset(next * times.src));
            }
        }
        let now = place(time);
        let (dst, src) = (dst.wrapping_offset(now * times.dst), src.wrapping_offset(now * times.src));
        let index = index.wrapping_byte_offset(now * times.index);
        // SAFETY: the caller's contract, of this time.
        unsafe { put_once::<I, T, C>(dst, dst_stride, src, src_stride, index, index_stride, step, n) };
    }
}

/// Combines elements from `from` to before `to` in blocks of `N`, while there are whole ones, and says where it ends.
///
/// # Safety
/// Both are valid for them and apart.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index compiles in a fraction of the time that an array's iterator takes.
unsafe fn combine_blocks<T: Copy, C: Combine<T>, const N: usize>(
    dst: *mut T,
    src: *const T,
    from: usize,
    to: usize,
) -> usize {
    let mut at = from;
    while at + N <= to {
        // A block is read before it is written: what is read and written does not overlap, which the compiler cannot see.
        // SAFETY: the caller's elements.
        unsafe {
            let new = src.add(at).cast::<[T; N]>().read_unaligned();
            let mut block = dst.add(at).cast::<[T; N]>().read_unaligned();
            for i in 0..N {
                block[i] = C::combine(block[i], new[i]);
            }
            dst.add(at).cast::<[T; N]>().write_unaligned(block);
        }
        at += N;
    }
    at
}

/// Combines a value with what is at an address.
///
/// # Safety
/// Both are valid for an element.
#[inline(always)]
unsafe fn put_one<I: Isa, T: Copy, C: Combine<T>>(dst: *mut u8, src: *const u8) {
    let (dst, src) = (dst.cast::<T>(), src.cast::<T>());
    // SAFETY: the caller's.
    unsafe { dst.write_unaligned(C::one::<I>(dst.read_unaligned(), src.read_unaligned())) };
}

/// [`put_strip`], once, where all values have one index: to `n` elements.
///
/// # Safety
/// As for `put` in `put.rs`.
#[inline(always)]
unsafe fn put_row<I: Isa, T: Copy, C: Combine<T>>(
    dst: *mut u8,
    dst_stride: isize,
    src: *const u8,
    src_stride: isize,
    n: usize,
) {
    let size = size_of::<T>() as isize;
    // SAFETY: the caller's `n` elements.
    unsafe {
        if dst_stride == size && src_stride == size {
            let (dst, src) = (dst.cast::<T>(), src.cast::<T>());
            let whole = if const { C::WIDE } { combine_blocks::<T, C, 16>(dst, src, 0, n) } else { 0 };
            // (Few halves are summed sooner one by one.)
            let few = I::LEVEL == Level::Baseline;
            let whole = if few { combine_blocks::<T, C, 4>(dst, src, whole, n) } else { whole };
            for i in whole..n {
                put_one::<I, T, C>(dst.add(i).cast(), src.add(i).cast());
            }
        } else {
            for i in 0..n as isize {
                put_one::<I, T, C>(dst.offset(i * dst_stride), src.offset(i * src_stride));
            }
        }
    }
}

/// [`put_strip`], once.
#[inline(always)]
unsafe fn put_once<I: Isa, T: Copy, C: Combine<T>>(
    dst: *mut u8,
    dst_stride: isize,
    src: *const u8,
    src_stride: isize,
    index: *const i64,
    index_stride: isize,
    step: isize,
    n: usize,
) {
    let size = size_of::<T>() as isize;
    // SAFETY: the caller's `n` elements; indices are in range.
    unsafe {
        if index_stride == 0 {
            let dst = dst.offset(index.read_unaligned() as isize * step);
            put_row::<I, T, C>(dst, dst_stride, src, src_stride, n);
        } else if dst_stride == 0 && src_stride == size && index_stride == 8 && step == size {
            // The common case: one row written by contiguous indices.
            let (dst, src) = (dst.cast::<T>(), src.cast::<T>());
            for i in 0..n {
                let dst = dst.offset(index.add(i).read_unaligned() as isize);
                put_one::<I, T, C>(dst.cast(), src.add(i).cast());
            }
        } else {
            for i in 0..n as isize {
                let at = index.cast::<u8>().offset(i * index_stride).cast::<i64>().read_unaligned() as isize;
                put_one::<I, T, C>(dst.offset(at * step + i * dst_stride), src.offset(i * src_stride));
            }
        }
    }
}
