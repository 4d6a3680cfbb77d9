//! Vectors of numbers, one type per instruction set, and the memory that kernels work in.
//!
//! A driver is written once, generic over [`Simd`], and entered through [`Simd::enter`], which compiles it with the
//! instruction set's features. Everything generic is `#[inline(always)]` so that it is compiled inside that function.

#[cfg(target_arch = "x86_64")]
pub(super) mod x86;

use super::kernel::{self, Tile};
pub(crate) use crate::buffer::Scratch;
use crate::math::Level;

/// A type convolutions are computed in.
pub(crate) trait Number: Copy + Default + Send + Sync + PartialEq + 'static {
    /// A half, where the type has one.
    const HALF: Option<Self>;
    /// `self * b + c`, in one or two roundings.
    fn multiply_add(self, b: Self, c: Self) -> Self;
    /// `self + b`.
    fn plus(self, b: Self) -> Self;
    /// `self - b`.
    fn minus(self, b: Self) -> Self;
}

macro_rules! number {
    ($($t:ty: $half:expr, |$a:ident, $b:ident, $c:ident| $fma:expr, $add:expr, $sub:expr;)*) => { $(
        impl Number for $t {
            const HALF: Option<Self> = $half;
            #[inline(always)]
            fn multiply_add(self, $b: Self, $c: Self) -> Self { let $a = self; $fma }
            #[inline(always)]
            fn plus(self, $b: Self) -> Self { let $a = self; $add }
            #[inline(always)]
            fn minus(self, $b: Self) -> Self { let $a = self; $sub }
        }
    )* };
}
// Without hardware FMA `mul_add` is a library call; the portable path rounds twice instead.
number! {
    f32: Some(0.5), |a, b, c| a * b + c, a + b, a - b;
    f64: Some(0.5), |a, b, c| a * b + c, a + b, a - b;
    i64: None, |a, b, c| a.wrapping_mul(b).wrapping_add(c), a.wrapping_add(b), a.wrapping_sub(b);
}

/// Work compiled once per instruction set.
pub(crate) trait Task {
    /// The type it computes in.
    type Element: Number;
    /// Whether there is a slower way to the same: it is compiled only for levels that [have](Level::has_fast_paths) such.
    const FAST_PATH: bool = false;
    /// Does the work. Implementations are `#[inline(always)]`.
    ///
    /// # Safety
    /// The machine has `S`'s instructions; the task's pointers are valid.
    unsafe fn run<S: Simd<Element = Self::Element>>(&self);
}

/// A vector of [`Simd::LANES`] numbers.
///
/// # Safety
/// Implementations read and write exactly the elements that each method names.
pub(crate) unsafe trait Simd: Copy + 'static {
    /// The number.
    type Element: Number;
    /// The register.
    type Vector: Copy;
    /// Numbers per vector.
    const LANES: usize;
    /// Rows of the largest micro-tile of two or three vectors: four or eight.
    const ROWS: usize;
    /// The micro-kernels by rows, as [`kernel::rows_of`] counts them, and `vectors - 1`. Those with more rows than
    /// [`kernel::most_rows`] says are not called.
    const TILES: &'static [[Tile<Self::Element>; 3]];

    /// All lanes `x`.
    unsafe fn splat(x: Self::Element) -> Self::Vector;
    /// Reads a whole vector.
    unsafe fn load(p: *const Self::Element) -> Self::Vector;
    /// Writes a whole vector.
    unsafe fn store(p: *mut Self::Element, v: Self::Vector);
    /// Reads the first `n <= LANES` lanes; the others are zero.
    unsafe fn load_first(p: *const Self::Element, n: usize) -> Self::Vector;
    /// Writes the first `n <= LANES` lanes.
    unsafe fn store_first(p: *mut Self::Element, v: Self::Vector, n: usize);
    /// `a * b + c`.
    unsafe fn multiply_add(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `a + b`.
    unsafe fn plus(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a - b`.
    unsafe fn minus(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Adds the products of the number at a distance from a pointer, which need not itself be valid, with the vectors of
    /// `right`.
    #[inline(always)]
    unsafe fn add_products<const V: usize>(
        (left, at): (*const Self::Element, usize),
        right: &[Self::Vector; V],
        sums: &mut [Self::Vector; V],
    ) {
        // SAFETY: the caller's.
        unsafe { add_one_by_one::<Self, V>((left, at), right, sums) }
    }
    /// Runs `task` compiled for this instruction set.
    unsafe fn enter<T: Task<Element = Self::Element>>(task: &T);

    /// The lanes of even number of `a` and then of `b`, and those of odd number.
    #[inline(always)]
    unsafe fn unzip(a: Self::Vector, b: Self::Vector) -> (Self::Vector, Self::Vector) {
        let (from, mut to) = ([a, b], [a, b]);
        // SAFETY: two vectors may be read and written as their lanes.
        unsafe {
            let (from, to) = (from.as_ptr().cast::<Self::Element>(), to.as_mut_ptr().cast::<Self::Element>());
            for i in 0..Self::LANES {
                *to.add(i) = *from.add(2 * i);
                *to.add(Self::LANES + i) = *from.add(2 * i + 1);
            }
        }
        (to[0], to[1])
    }

    /// The lanes of `a` and `b` in turns: what [`Simd::unzip`] undoes.
    #[inline(always)]
    unsafe fn zip(a: Self::Vector, b: Self::Vector) -> (Self::Vector, Self::Vector) {
        let (from, mut to) = ([a, b], [a, b]);
        // SAFETY: as above.
        unsafe {
            let (from, to) = (from.as_ptr().cast::<Self::Element>(), to.as_mut_ptr().cast::<Self::Element>());
            for i in 0..Self::LANES {
                *to.add(2 * i) = *from.add(i);
                *to.add(2 * i + 1) = *from.add(Self::LANES + i);
            }
        }
        (to[0], to[1])
    }

    /// Lane `lanes[i]` of `v` in lane `i`.
    #[inline(always)]
    unsafe fn pick(v: Self::Vector, lanes: *const u32) -> Self::Vector {
        let (from, mut to) = (v, v);
        // SAFETY: a vector may be read and written as its lanes, and the caller's are some of them.
        unsafe {
            let (from, to) = ((&raw const from).cast::<Self::Element>(), (&raw mut to).cast::<Self::Element>());
            for i in 0..Self::LANES {
                *to.add(i) = *from.add(*lanes.add(i) as usize);
            }
        }
        to
    }

    /// Writes the transpose of the `rows x columns` block at `source` (rows `source_stride` apart, at most `LANES` of
    /// each) to `target`, whose rows are `target_stride` apart.
    #[inline(always)]
    unsafe fn transpose(
        source: *const Self::Element,
        source_stride: usize,
        rows: usize,
        columns: usize,
        target: *mut Self::Element,
        target_stride: usize,
    ) {
        // SAFETY: the caller's.
        unsafe { transpose_one_by_one::<Self>(source, source_stride, rows, columns, target, target_stride) }
    }

    /// Reads the lanes from `begin` to `end`, at most `LANES`; the others are zero.
    #[inline(always)]
    unsafe fn load_between(p: *const Self::Element, begin: usize, end: usize) -> Self::Vector {
        // SAFETY: the caller's; a vector may be read as its lanes.
        unsafe {
            let mut v = Self::splat(Self::Element::default());
            let lanes = (&raw mut v).cast::<Self::Element>();
            for i in begin..end {
                *lanes.add(i) = *p.wrapping_add(i);
            }
            v
        }
    }

    /// [`Simd::load_between`] of every second element.
    #[inline(always)]
    unsafe fn load_even_between(p: *const Self::Element, begin: usize, end: usize) -> Self::Vector {
        let lanes = Self::LANES;
        // What follows the last lane's element is not read: it may be past the end.
        let (first, last) = (2 * begin, (2 * end).saturating_sub(1).max(2 * begin));
        // SAFETY: the caller's lanes, and what lies between them.
        unsafe {
            let low = Self::load_between(p, first.min(lanes), last.min(lanes));
            let high = p.wrapping_add(lanes);
            let high = Self::load_between(high, first.saturating_sub(lanes), last.saturating_sub(lanes));
            Self::unzip(low, high).0
        }
    }

    /// Copies elements `begin..end`, `STEP` apart (one or two), of each of `rows` rows to their places among `n`; the
    /// others become zero.
    #[inline(always)]
    unsafe fn copy_between<const STEP: usize>(
        (source, source_stride): (*const Self::Element, usize),
        (begin, end): (usize, usize),
        (target, target_stride): (*mut Self::Element, usize),
        n: usize,
        rows: usize,
    ) {
        for i in (0..n).step_by(Self::LANES) {
            let (first, last) = (begin.saturating_sub(i).min(Self::LANES), end.saturating_sub(i).min(Self::LANES));
            let width = (n - i).min(Self::LANES);
            // (What follows the last of every second element may be past the end.)
            if begin <= i && i + Self::LANES + (STEP - 1) <= end {
                for row in 0..rows {
                    // SAFETY: all of these elements exist in every row, and `n` of the target.
                    unsafe {
                        let from = source.wrapping_add(row * source_stride + STEP * i);
                        let low = Self::load(from);
                        let v = match STEP {
                            1 => low,
                            _ => Self::unzip(low, Self::load(from.wrapping_add(Self::LANES))).0,
                        };
                        Self::store(target.add(row * target_stride + i), v);
                    }
                }
                continue;
            }
            for row in 0..rows {
                // SAFETY: the named elements of the source and `n` of the target exist in every row.
                unsafe {
                    let from = source.wrapping_add(row * source_stride + STEP * i);
                    let v = match STEP {
                        1 => Self::load_between(from, first, last),
                        _ => Self::load_even_between(from, first, last),
                    };
                    let to = target.add(row * target_stride + i);
                    Self::store_first(to, v, width)
                }
            }
        }
    }

    /// Whether results are narrower than the sums they are rounded from.
    const ROUNDS: bool = false;

    /// Writes `n` sums as results, where [`Simd::ROUNDS`].
    #[inline(always)]
    unsafe fn round(_source: *const Self::Element, _target: *mut u8, _n: usize) {
        unreachable!("results are sums");
    }

    /// Copies `n` elements.
    #[inline(always)]
    unsafe fn copy(source: *const Self::Element, target: *mut Self::Element, n: usize) {
        let mut i = 0;
        // SAFETY: both runs have `n` elements.
        unsafe {
            while i + Self::LANES <= n {
                Self::store(target.add(i), Self::load(source.add(i)));
                i += Self::LANES;
            }
            if i < n {
                Self::store_first(target.add(i), Self::load_first(source.add(i), n - i), n - i);
            }
        }
    }

    /// Sets `n` elements to zero.
    #[inline(always)]
    unsafe fn clear(target: *mut Self::Element, n: usize) {
        let mut i = 0;
        // SAFETY: the run has `n` elements.
        unsafe {
            let zero = Self::splat(Self::Element::default());
            while i + Self::LANES <= n {
                Self::store(target.add(i), zero);
                i += Self::LANES;
            }
            if i < n {
                Self::store_first(target.add(i), zero, n - i);
            }
        }
    }
}

/// [`Simd::transpose`], number by number.
#[inline(always)]
unsafe fn transpose_one_by_one<S: Simd>(
    source: *const S::Element,
    source_stride: usize,
    rows: usize,
    columns: usize,
    target: *mut S::Element,
    target_stride: usize,
) {
    for row in 0..rows {
        for column in 0..columns {
            // SAFETY: the caller's blocks hold these positions.
            unsafe { *target.add(column * target_stride + row) = *source.add(row * source_stride + column) };
        }
    }
}

/// [`Simd::add_products`] as a compiler orders it.
#[inline(always)]
unsafe fn add_one_by_one<S: Simd, const V: usize>(
    (left, at): (*const S::Element, usize),
    right: &[S::Vector; V],
    sums: &mut [S::Vector; V],
) {
    // SAFETY: the caller's.
    unsafe {
        let left = S::splat(*left.wrapping_add(at));
        for (sum, right) in sums.iter_mut().zip(right) {
            *sum = S::multiply_add(left, *right, *sum);
        }
    }
}

/// Four numbers in an array: what the compiler makes of it on any machine (SSE2 on x86-64).
#[derive(Clone, Copy)]
pub(crate) struct Portable<E>(std::marker::PhantomData<E>);

const PORTABLE_LANES: usize = 4;

// SAFETY: plain array accesses of the named elements.
unsafe impl<E: Number> Simd for Portable<E> {
    type Element = E;
    type Vector = [E; PORTABLE_LANES];
    const LANES: usize = PORTABLE_LANES;
    const ROWS: usize = 4;
    const TILES: &'static [[Tile<E>; 3]] = &[
        [kernel::tile::<Self, 1, 1>, kernel::tile::<Self, 1, 2>, kernel::tile::<Self, 1, 3>],
        [kernel::tile::<Self, 2, 1>, kernel::tile::<Self, 2, 2>, kernel::tile::<Self, 2, 3>],
        [kernel::tile::<Self, 3, 1>, kernel::tile::<Self, 3, 2>, kernel::tile::<Self, 3, 3>],
        [kernel::tile::<Self, 4, 1>, kernel::tile::<Self, 4, 2>, kernel::tile::<Self, 4, 3>],
        [kernel::tile::<Self, 8, 1>, kernel::no_tile, kernel::no_tile],
    ];
    #[inline(always)]
    unsafe fn splat(x: E) -> Self::Vector {
        [x; PORTABLE_LANES]
    }
    #[inline(always)]
    unsafe fn load(p: *const E) -> Self::Vector {
        // SAFETY: the caller's.
        unsafe { p.cast::<Self::Vector>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(p: *mut E, v: Self::Vector) {
        // SAFETY: the caller's.
        unsafe { p.cast::<Self::Vector>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const E, n: usize) -> Self::Vector {
        let mut v = [E::default(); PORTABLE_LANES];
        for (i, x) in v.iter_mut().enumerate() {
            if i < n {
                // SAFETY: the caller's, for the first `n`.
                *x = unsafe { *p.add(i) };
            }
        }
        v
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut E, v: Self::Vector, n: usize) {
        for (i, x) in v.iter().enumerate() {
            if i < n {
                // SAFETY: the caller's, for the first `n`.
                unsafe { *p.add(i) = *x };
            }
        }
    }
    #[inline(always)]
    unsafe fn multiply_add(a: Self::Vector, b: Self::Vector, mut c: Self::Vector) -> Self::Vector {
        // (Loops, which compile in a fraction of the time that closures take.)
        for i in 0..PORTABLE_LANES {
            c[i] = a[i].multiply_add(b[i], c[i]);
        }
        c
    }
    #[inline(always)]
    unsafe fn plus(mut a: Self::Vector, b: Self::Vector) -> Self::Vector {
        for i in 0..PORTABLE_LANES {
            a[i] = a[i].plus(b[i]);
        }
        a
    }
    #[inline(always)]
    unsafe fn minus(mut a: Self::Vector, b: Self::Vector) -> Self::Vector {
        for i in 0..PORTABLE_LANES {
            a[i] = a[i].minus(b[i]);
        }
        a
    }
    #[inline(always)]
    unsafe fn enter<T: Task<Element = E>>(task: &T) {
        // SAFETY: the caller's; no special instructions.
        unsafe { task.run::<Self>() }
    }
}

/// Types with a choice of instruction sets.
pub(crate) trait Dispatch: Number {
    /// Whether convolutions of few channels to a group, of patches and of 3 x 3 neighbours have loops of their own.
    const FAST_PATHS: bool = true;
    /// Runs `task` with the widest instructions this machine has.
    ///
    /// # Safety
    /// The task's pointers are valid.
    unsafe fn dispatch<T: Task<Element = Self>>(task: &T);
    /// The lanes that [`Dispatch::dispatch`] will choose.
    fn lanes() -> usize;
    /// The rows of the micro-tile that [`Dispatch::dispatch`] will choose.
    fn rows() -> usize;
}

/// Tests turn the wide paths off with it, one at a time.
#[cfg(test)]
pub(crate) static WIDEST: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(Level::Avx512 as u8);

/// The instruction set to use.
#[inline]
pub(crate) fn level() -> Level {
    let level = crate::math::level();
    #[cfg(test)]
    let level = Level::ALL[(level as u8).min(WIDEST.load(std::sync::atomic::Ordering::Relaxed)) as usize];
    level
}

macro_rules! dispatch_float {
    ($t:ty, $wide:ident, $middle:ident) => {
        impl Dispatch for $t {
            unsafe fn dispatch<T: Task<Element = Self>>(task: &T) {
                // SAFETY: the level says that the machine has the instructions.
                unsafe {
                    match level() {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => x86::$wide::enter(task),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx2 => x86::$middle::enter(task),
                        level if const { T::FAST_PATH && !Level::Baseline.has_fast_paths() } => {
                            unreachable!("a fast path at {level:?}")
                        }
                        _ => Portable::<$t>::enter(task),
                    }
                }
            }
            fn lanes() -> usize {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => x86::$wide::LANES,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => x86::$middle::LANES,
                    _ => PORTABLE_LANES,
                }
            }
            fn rows() -> usize {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => x86::$wide::ROWS,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => x86::$middle::ROWS,
                    _ => Portable::<$t>::ROWS,
                }
            }
        }
    };
}
dispatch_float!(f32, Avx512F32, Avx2F32);
dispatch_float!(f64, Avx512F64, Avx2F64);

impl Dispatch for i64 {
    // Few convolve integers: what is general will do.
    const FAST_PATHS: bool = false;
    unsafe fn dispatch<T: Task<Element = Self>>(task: &T) {
        // SAFETY: the caller's; no special instructions.
        unsafe { Portable::<i64>::enter(task) }
    }
    fn lanes() -> usize {
        PORTABLE_LANES
    }
    fn rows() -> usize {
        Portable::<i64>::ROWS
    }
}

/// A pointer that pieces of parallel work share; each uses its own part.
pub(crate) struct Shared<T>(pub *mut T);
// SAFETY: the users write disjoint parts, or only read.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}
impl<T> Shared<T> {
    /// The pointer. (A method, so that closures capture the wrapper and not its field.)
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}
