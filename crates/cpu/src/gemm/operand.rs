//! How each element type goes into and out of the kernels' lanes.

use super::groups::{self, GroupKernels};
use super::kernel::{KernelLane, Sums, bf16_kernels, f16_kernels};
use super::multiply::Product;
use super::one_sum;
use super::pack::{pack, pack_converted};
use crate::copy::{bf16_to_f32, f16_to_f32};
use crate::math::{Level, level};
use flambeau_base::Complex;
use flambeau_base::dtype::{bf16, f16};
use flambeau_base::{Element, Scalar};

/// An element type of a matrix product whose result is of that type, too.
pub trait Operand: Entry<Out = Self> + Element {}
impl<T: Entry<Out = T> + Element> Operand for T {}

/// What the matrices of a product are made of.
pub trait Entry: Copy + Send + Sync + 'static {
    /// The type of the result's elements.
    type Out: Copy + Send + Sync;
    /// The type that kernels compute in.
    type Lane: KernelLane;
    /// The type of alpha and beta.
    type Factor: Copy + Send + Sync + PartialEq;
    /// Lanes per element: two for complex numbers. A complex product is a real one of twice the rows (real and
    /// imaginary parts of A) and twice the columns (B interleaved), of which [`Entry::finish`] adds the quadrants.
    const PARTS: usize;
    /// Whether an element is a lane, bit for bit.
    const PLAIN: bool;
    /// Whether a finished sum is a result, bit for bit.
    const STORED: bool = Self::PLAIN;
    /// Whether partial sums must not pass through the result's type.
    const WIDE_SUMS: bool;
    /// The factor from a scalar.
    fn factor(s: Scalar) -> Self::Factor;
    /// The factor one.
    const ONE: Self::Factor;
    /// The factor zero.
    const ZERO: Self::Factor;
    /// The factor of a stored type as a lane.
    fn factor_lane(f: Self::Factor) -> Self::Lane;
    /// Packs a panel (see [`pack`]) of `width` elements, padded to `padded` lanes.
    ///
    /// # Safety
    /// As for [`pack`].
    unsafe fn pack(
        source: *const Self,
        across: isize,
        along: isize,
        width: usize,
        padded: usize,
        k: usize,
        destination: *mut Self::Lane,
        conj: bool,
    );
    /// The kernels for several steps in a lane, where this type has them and they are faster; `flags` are what
    /// [`Entry::pack`] is told of A and B.
    fn group_kernels(level: Level, flags: [bool; 2]) -> Option<GroupKernels<Self>> {
        let _ = (level, flags);
        None
    }
    /// Computes a product of few rows in a way of its own, if there is one; says whether it did.
    ///
    /// # Safety
    /// As for [`Product::run`](super::multiply::Product::run).
    unsafe fn few_rows(product: &Product<Self>, level: Level) -> bool {
        let _ = (product, level);
        false
    }
    /// Computes a product of one row and one column in a way of its own, if there is one; says whether it did.
    ///
    /// # Safety
    /// As for [`Product::run`](super::multiply::Product::run).
    unsafe fn one_sum(product: &Product<Self>) -> bool {
        let _ = product;
        false
    }
    /// `c = alpha * tile + beta * c`, element by element; without beta, `c` is not read.
    ///
    /// # Safety
    /// `tile` must hold `rows * PARTS` rows of `columns * PARTS` lanes, `tile_row` apart; `c` must be valid.
    unsafe fn finish(
        tile: *const Self::Lane,
        tile_row: usize,
        rows: usize,
        columns: usize,
        alpha: Self::Factor,
        beta: Option<Self::Factor>,
        c: *mut Self::Out,
        c_row: isize,
        c_column: isize,
    );
    /// Converts `len` elements to lanes (types with `PARTS == 1` only).
    ///
    /// # Safety
    /// The pointers must be valid for `len` elements.
    unsafe fn widen(source: *const Self, stride: isize, len: usize, destination: *mut Self::Lane);
    /// The kernel that adds scaled rows, reading this type, if there is one.
    fn axpy(level: Level) -> Option<super::kernel::Axpy<Self::Lane, Self>>;
    /// The kernel of dot products that reads this type, if there is one.
    fn dot(level: Level) -> Option<super::kernel::Dot<Self::Lane, Self>>;
}

/// `c = f(tile, c)` over a tile, in the shape the macros below need.
#[inline(always)]
unsafe fn finish_elements<L: Copy, T: Copy>(
    tile: *const L,
    tile_row: usize,
    rows: usize,
    columns: usize,
    c: *mut T,
    c_row: isize,
    c_column: isize,
    f: impl Fn(L, *const T) -> T,
) {
    for r in 0..rows {
        // SAFETY: the caller's tile and matrix have `rows` by `columns` elements.
        unsafe {
            let from = tile.add(r * tile_row);
            let to = c.offset(r as isize * c_row);
            if c_column == 1 {
                for j in 0..columns {
                    *to.add(j) = f(*from.add(j), to.add(j));
                }
            } else {
                for j in 0..columns {
                    let to = to.offset(j as isize * c_column);
                    *to = f(*from.add(j), to);
                }
            }
        }
    }
}

macro_rules! finish_with {
    (|$x:ident, $alpha:ident| $new:expr, |$y:ident, $old:ident, $beta:ident| $sum:expr) => {
        unsafe fn finish(
            tile: *const Self::Lane,
            tile_row: usize,
            rows: usize,
            columns: usize,
            $alpha: Self::Factor,
            beta: Option<Self::Factor>,
            c: *mut Self::Out,
            c_row: isize,
            c_column: isize,
        ) {
            // SAFETY: forwarded contract; `c` is read only where it exists.
            unsafe {
                match beta {
                    None => finish_elements(tile, tile_row, rows, columns, c, c_row, c_column, |$x, _| {
                        let $y = $new;
                        Self::Out::from_sum($y)
                    }),
                    Some($beta) => finish_elements(tile, tile_row, rows, columns, c, c_row, c_column, |$x, old| {
                        let $y = $new;
                        let $old = *old;
                        Self::Out::from_sum($sum)
                    }),
                }
            }
        }
    };
}

/// Narrowing a finished sum to the element.
trait FromSum<S> {
    fn from_sum(s: S) -> Self;
}
macro_rules! from_sum {
    ($($t:ty, $s:ty, |$x:ident| $e:expr;)*) => { $(
        impl FromSum<$s> for $t {
            #[inline(always)]
            fn from_sum($x: $s) -> $t { $e }
        }
    )* };
}
from_sum! {
    f32, f32, |x| x; f64, f64, |x| x;
    i8, i16, |x| x as i8; u8, i16, |x| x as u8; i16, i16, |x| x; u16, i16, |x| x as u16;
    i32, i32, |x| x; u32, i32, |x| x as u32; i64, i64, |x| x; u64, i64, |x| x as u64;
}

macro_rules! real_operand {
    ($($t:ty)*) => { $(
        impl Entry for $t {
            type Out = Self;
            type Lane = $t;
            type Factor = $t;
            const PARTS: usize = 1;
            const PLAIN: bool = true;
            const WIDE_SUMS: bool = false;
            const ONE: $t = 1.0;
            const ZERO: $t = 0.0;
            fn factor(s: Scalar) -> $t { <$t>::from_scalar(s) }
            #[inline(always)]
            fn factor_lane(f: $t) -> $t { f }
            unsafe fn pack(source: *const $t, across: isize, along: isize, width: usize, padded: usize, k: usize,
                destination: *mut $t, _: bool) {
                // SAFETY: forwarded contract.
                unsafe { pack(source, across, along, width, padded, k, destination) }
            }
            finish_with!(|x, alpha| alpha * x, |y, old, beta| y + beta * old);
            unsafe fn widen(source: *const $t, stride: isize, len: usize, destination: *mut $t) {
                for i in 0..len {
                    // SAFETY: forwarded contract.
                    unsafe { *destination.add(i) = *source.offset(i as isize * stride) }
                }
            }
            fn axpy(level: Level) -> Option<super::kernel::Axpy<$t, $t>> { Some(<$t>::kernels(level).axpy) }
            fn dot(level: Level) -> Option<super::kernel::Dot<$t, $t>> { Some(<$t>::kernels(level).dot) }
        }
    )* };
}
real_operand! { f32 f64 }

macro_rules! half_operand {
    ($($t:ty, $kernels:ident, $to_f32:ident, { $($pairs:item)* };)*) => { $(
        impl Entry for $t {
            type Out = Self;
            type Lane = f32;
            type Factor = f32;
            const PARTS: usize = 1;
            const PLAIN: bool = false;
            const WIDE_SUMS: bool = true;
            const ONE: f32 = 1.0;
            const ZERO: f32 = 0.0;
            fn factor(s: Scalar) -> f32 { f32::from_scalar(s) }
            #[inline(always)]
            fn factor_lane(f: f32) -> f32 { f }
            unsafe fn pack(source: *const $t, across: isize, along: isize, width: usize, padded: usize, k: usize,
                destination: *mut f32, _: bool) {
                // SAFETY: forwarded contract.
                unsafe { pack_converted(source, across, along, width, padded, k, destination, Self::widen) }
            }
            unsafe fn finish(
                tile: *const f32,
                tile_row: usize,
                rows: usize,
                columns: usize,
                alpha: f32,
                beta: Option<f32>,
                c: *mut $t,
                c_row: isize,
                c_column: isize,
            ) {
                let narrow = $kernels(level()).narrow;
                // SAFETY: the rows and lines are inside the tile and the matrix; `len` elements fit the buffers.
                unsafe {
                    if c_column == 1 {
                        return narrow(&Sums {
                            sums: tile,
                            sums_row: tile_row,
                            rows,
                            columns,
                            alpha,
                            beta,
                            out: c,
                            out_row: c_row,
                        });
                    }
                    const LINE: usize = 32;
                    let (mut sums, mut old, mut line) = ([0f32; LINE], [0f32; LINE], [<$t>::ZERO; LINE]);
                    for r in 0..rows {
                        for first in (0..columns).step_by(LINE) {
                            let len = LINE.min(columns - first);
                            let from = tile.add(r * tile_row + first);
                            let to = c.offset(r as isize * c_row + first as isize * c_column);
                            for (j, sum) in sums[..len].iter_mut().enumerate() {
                                *sum = alpha * *from.add(j);
                            }
                            if let Some(beta) = beta {
                                Self::widen(to, c_column, len, old.as_mut_ptr());
                                for (sum, old) in sums[..len].iter_mut().zip(&old) {
                                    *sum += beta * old;
                                }
                            }
                            narrow(&Sums {
                                sums: sums.as_ptr(),
                                sums_row: LINE,
                                rows: 1,
                                columns: len,
                                alpha: 1.0,
                                beta: None,
                                out: line.as_mut_ptr(),
                                out_row: 0,
                            });
                            for (j, &x) in line[..len].iter().enumerate() {
                                *to.offset(j as isize * c_column) = x;
                            }
                        }
                    }
                }
            }
            unsafe fn widen(source: *const $t, stride: isize, len: usize, destination: *mut f32) {
                // SAFETY: forwarded contract.
                unsafe { $to_f32(source.cast(), stride * 2, destination.cast(), 4, len) }
            }
            $($pairs)*
            fn axpy(level: Level) -> Option<super::kernel::Axpy<f32, $t>> { Some($kernels(level).axpy) }
            fn dot(level: Level) -> Option<super::kernel::Dot<f32, $t>> { Some($kernels(level).dot) }
        }
    )* };
}
half_operand! {
    f16, f16_kernels, f16_to_f32, {};
    bf16, bf16_kernels, bf16_to_f32, {
        fn group_kernels(level: Level, _: [bool; 2]) -> Option<GroupKernels<bf16>> {
            groups::of_halves(level)
        }
    };
}

/// A `bf16` of a product whose result is `f32`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Summand(bf16);

impl Entry for Summand {
    type Out = f32;
    type Lane = f32;
    type Factor = f32;
    const PARTS: usize = 1;
    const PLAIN: bool = false;
    const STORED: bool = true;
    const WIDE_SUMS: bool = false;
    const ONE: f32 = 1.0;
    const ZERO: f32 = 0.0;
    fn factor(s: Scalar) -> f32 {
        f32::from_scalar(s)
    }
    #[inline(always)]
    fn factor_lane(f: f32) -> f32 {
        f
    }
    unsafe fn pack(
        source: *const Summand,
        across: isize,
        along: isize,
        width: usize,
        padded: usize,
        k: usize,
        destination: *mut f32,
        _: bool,
    ) {
        // SAFETY: forwarded contract.
        unsafe { pack_converted(source, across, along, width, padded, k, destination, Self::widen) }
    }
    fn group_kernels(level: Level, _: [bool; 2]) -> Option<GroupKernels<Summand>> {
        groups::of_halves(level)
    }
    finish_with!(|x, alpha| alpha * x, |y, old, beta| y + beta * old);
    unsafe fn widen(source: *const Summand, stride: isize, len: usize, destination: *mut f32) {
        // SAFETY: forwarded contract.
        unsafe { bf16::widen(source.cast(), stride, len, destination) }
    }
    fn axpy(_: Level) -> Option<super::kernel::Axpy<f32, Summand>> {
        None
    }
    fn dot(_: Level) -> Option<super::kernel::Dot<f32, Summand>> {
        None
    }
}

macro_rules! integer_operand {
    ($($t:ty, $lane:ty, $plain:literal, $one_sum:expr;)*) => { $(
        impl Entry for $t {
            type Out = Self;
            type Lane = $lane;
            type Factor = $lane;
            const PARTS: usize = 1;
            const PLAIN: bool = $plain;
            // Wrapping arithmetic is a ring: narrowing in between changes nothing.
            const WIDE_SUMS: bool = false;
            const ONE: $lane = 1;
            const ZERO: $lane = 0;
            fn factor(s: Scalar) -> $lane { s.to_i64() as $lane }
            #[inline(always)]
            fn factor_lane(f: $lane) -> $lane { f }
            unsafe fn pack(source: *const $t, across: isize, along: isize, width: usize, padded: usize, k: usize,
                destination: *mut $lane, _: bool) {
                // SAFETY: forwarded contract; a plain element is a lane.
                unsafe {
                    if $plain {
                        pack(source.cast::<$lane>(), across, along, width, padded, k, destination)
                    } else {
                        pack_converted(source, across, along, width, padded, k, destination, Self::widen)
                    }
                }
            }
            finish_with!(|x, alpha| alpha.wrapping_mul(x), |y, old, beta| y.wrapping_add(beta.wrapping_mul(old as $lane)));
            unsafe fn widen(source: *const $t, stride: isize, len: usize, destination: *mut $lane) {
                // SAFETY: forwarded contract.
                unsafe {
                    if stride == 1 {
                        for i in 0..len {
                            *destination.add(i) = *source.add(i) as $lane;
                        }
                    } else {
                        for i in 0..len {
                            *destination.add(i) = *source.offset(i as isize * stride) as $lane;
                        }
                    }
                }
            }
            unsafe fn one_sum(product: &Product<Self>) -> bool {
                let add_up: Option<unsafe fn(&Product<$t>)> = $one_sum;
                // SAFETY: forwarded contract.
                add_up.map(|add_up| unsafe { add_up(product) }).is_some()
            }
            // Types that are lanes already need no cast; `i8` does.
            #[allow(clippy::useless_transmute)]
            fn axpy(level: Level) -> Option<super::kernel::Axpy<$lane, $t>> {
                let kernel = <$lane>::kernels(level).axpy;
                // SAFETY: a plain element is a lane, so the pointer argument means the same.
                $plain.then(|| unsafe {
                    std::mem::transmute::<super::kernel::Axpy<$lane, $lane>, super::kernel::Axpy<$lane, $t>>(kernel)
                })
            }
            #[allow(clippy::useless_transmute)]
            fn dot(level: Level) -> Option<super::kernel::Dot<$lane, $t>> {
                let kernel = <$lane>::kernels(level).dot;
                // SAFETY: as above.
                $plain.then(|| unsafe {
                    std::mem::transmute::<super::kernel::Dot<$lane, $lane>, super::kernel::Dot<$lane, $t>>(kernel)
                })
            }
        }
    )* };
}
integer_operand! {
    i8, i16, false, Some(one_sum::of_bytes); i16, i16, true, None; i32, i32, true, None; i64, i64, true, None;
}

/// A byte of a product whose sums are `i32`. What tells of complex numbers that they are conjugated tells of bytes that
/// they are without sign.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Byte(pub(super) u8);

/// The numbers that bytes stand for.
///
/// # Safety
/// As for [`Entry::widen`].
unsafe fn widen_bytes<const UNSIGNED: bool>(source: *const Byte, stride: isize, len: usize, destination: *mut i32) {
    for i in 0..len {
        // SAFETY: forwarded contract.
        unsafe {
            let byte = (*source.offset(i as isize * stride)).0;
            *destination.add(i) = if UNSIGNED { byte as i32 } else { byte as i8 as i32 };
        }
    }
}

impl Entry for Byte {
    type Out = i32;
    type Lane = i32;
    type Factor = i32;
    const PARTS: usize = 1;
    const PLAIN: bool = false;
    const STORED: bool = true;
    // Wrapping arithmetic is a ring: sums in between may pass through the result.
    const WIDE_SUMS: bool = false;
    const ONE: i32 = 1;
    const ZERO: i32 = 0;
    fn factor(s: Scalar) -> i32 {
        s.to_i64() as i32
    }
    #[inline(always)]
    fn factor_lane(f: i32) -> i32 {
        f
    }
    unsafe fn pack(
        source: *const Byte,
        across: isize,
        along: isize,
        width: usize,
        padded: usize,
        k: usize,
        destination: *mut i32,
        unsigned: bool,
    ) {
        let convert = if unsigned { widen_bytes::<true> } else { widen_bytes::<false> };
        // SAFETY: forwarded contract.
        unsafe { pack_converted(source, across, along, width, padded, k, destination, convert) }
    }
    fn group_kernels(level: Level, unsigned: [bool; 2]) -> Option<GroupKernels<Byte>> {
        groups::of_bytes(level, unsigned)
    }
    unsafe fn few_rows(product: &Product<Byte>, level: Level) -> bool {
        // SAFETY: forwarded contract.
        unsafe { groups::rows_of_bytes(product, level) }
    }
    finish_with!(|x, alpha| alpha.wrapping_mul(x), |y, old, beta| y.wrapping_add(beta.wrapping_mul(old)));
    unsafe fn widen(source: *const Byte, stride: isize, len: usize, destination: *mut i32) {
        // SAFETY: forwarded contract.
        unsafe { widen_bytes::<false>(source, stride, len, destination) }
    }
    fn axpy(_: Level) -> Option<super::kernel::Axpy<i32, Byte>> {
        None
    }
    fn dot(_: Level) -> Option<super::kernel::Dot<i32, Byte>> {
        None
    }
}

macro_rules! complex_operand {
    ($($t:ty;)*) => { $(
        impl Entry for Complex<$t> {
            type Out = Self;
            type Lane = $t;
            type Factor = Complex<$t>;
            const PARTS: usize = 2;
            const PLAIN: bool = false;
            const WIDE_SUMS: bool = false;
            const ONE: Self = Complex::new(1.0, 0.0);
            const ZERO: Self = Complex::new(0.0, 0.0);
            fn factor(s: Scalar) -> Self { Self::from_scalar(s) }
            #[inline(always)]
            fn factor_lane(f: Self) -> $t { f.re }
            unsafe fn pack(source: *const Self, across: isize, along: isize, width: usize, padded: usize, k: usize,
                destination: *mut $t, conj: bool) {
                // SAFETY: forwarded contract; a complex number is two lanes, and `padded` counts lanes.
                unsafe {
                    pack(source, across, along, width, padded / 2, k, destination.cast::<Self>());
                    if conj {
                        let lanes = std::slice::from_raw_parts_mut(destination, k * padded);
                        for pair in lanes.chunks_exact_mut(2) {
                            pair[1] = -pair[1];
                        }
                    }
                }
            }
            unsafe fn finish(tile: *const $t, tile_row: usize, rows: usize, columns: usize, alpha: Self,
                beta: Option<Self>, c: *mut Self, c_row: isize, c_column: isize) {
                for r in 0..rows {
                    // SAFETY: the caller's tile has two rows and two columns for each of `c`'s.
                    unsafe {
                        let real = tile.add(2 * r * tile_row);
                        let imaginary = real.add(tile_row);
                        let to = c.offset(r as isize * c_row);
                        for j in 0..columns {
                            let sum = Complex::new(
                                *real.add(2 * j) - *imaginary.add(2 * j + 1),
                                *real.add(2 * j + 1) + *imaginary.add(2 * j),
                            );
                            // A factor of one must not turn infinities into NaN.
                            let product = if alpha == Self::ONE { sum } else { alpha * sum };
                            let to = to.offset(j as isize * c_column);
                            *to = match beta {
                                None => product,
                                Some(beta) if beta == Self::ONE => *to + product,
                                Some(beta) => beta * *to + product,
                            };
                        }
                    }
                }
            }
            unsafe fn one_sum(product: &Product<Self>) -> bool {
                // SAFETY: forwarded contract.
                unsafe { one_sum::of_complex(product) };
                true
            }
            unsafe fn widen(_: *const Self, _: isize, _: usize, _: *mut $t) {}
            fn axpy(_: Level) -> Option<super::kernel::Axpy<$t, Self>> { None }
            fn dot(_: Level) -> Option<super::kernel::Dot<$t, Self>> { None }
        }
    )* };
}
complex_operand! { f32; f64; }
