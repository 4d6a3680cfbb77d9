//! The micro-kernels: a few rows times a few vectors of columns, kept in registers over the whole inner dimension, and
//! the tables that pick one by instruction set and shape.
//!
//! The shape of the register block follows "Anatomy of High-Performance Matrix Multiplication" (Goto and van de Geijn,
//! 2008): as many accumulators as registers allow, so that multiply-adds hide their own latency.

#[cfg(target_arch = "x86_64")]
use super::groups::{pairs, rounds_halves};
use super::simd::{Array, Lane, LoadFrom, StoreAs, Vector};
use crate::math::Level;
use crate::prefetch::prefetch_near;
use flambeau_base::dtype::{Element, bf16, f16};
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// One register block: `c = alpha * (a @ b) + beta * c` over `rows` (known to the kernel) by `columns`.
pub struct Block<L> {
    /// The inner dimension.
    pub k: usize,
    /// `a[r, i]` at `a + r * a_row + i * a_step`; kernels for packed data take `a_row` as one.
    pub a: *const L,
    /// See `a`.
    pub a_row: isize,
    /// See `a`.
    pub a_step: isize,
    /// `b[i, j]` at `b + i * b_step + j`.
    pub b: *const L,
    /// See `b`.
    pub b_step: isize,
    /// `c[r, j]` at `c + r * c_row + j`.
    pub c: *mut L,
    /// See `c`.
    pub c_row: isize,
    /// How many rows exist; a kernel's are the fewest of its kind that hold them.
    pub rows: usize,
    /// How many columns exist; the kernel's vectors are the fewest that hold them.
    pub columns: usize,
    /// The factor of the product.
    pub alpha: L,
    /// The factor of the old value, which is not read if this is `None`.
    pub beta: Option<L>,
}

/// A micro-kernel of known rows and vectors.
pub type Kernel<L> = unsafe fn(&Block<L>);
/// `y[0..n] += sum over i < rows of x[i] * w[i, 0..n]`: arguments `x, rows, w, w_row, n, y`.
pub type Axpy<L, S> = unsafe fn(*const L, usize, *const S, isize, usize, *mut L);
/// `out[r, j] = dot(x[r, ..], w[j, ..])` for up to four `r` and four `j`: arguments
/// `x, x_row, rows, w, w_row, columns, k, out, out_row`.
pub type Dot<L, S> = unsafe fn(*const L, isize, usize, *const S, isize, usize, usize, *mut L, isize);
/// Copies `k` rows of neighbouring panels of full width: `source, step, k, panels, destination`.
pub type CopyRows<L> = unsafe fn(*const L, isize, usize, usize, *mut L);

/// Finished sums of one block, `rows` by `columns`, times `alpha`.
pub struct Sums<S> {
    /// The first of them.
    pub sums: *const f32,
    /// From one row of them to the next.
    pub sums_row: usize,
    /// How many rows.
    pub rows: usize,
    /// How many columns.
    pub columns: usize,
    /// The factor of the sums.
    pub alpha: f32,
    /// The factor of the old value, which is not read if this is `None`.
    pub beta: Option<f32>,
    /// Where the first result goes.
    pub out: *mut S,
    /// From one row of results to the next.
    pub out_row: isize,
}
/// `out = alpha * sums + beta * out`, computed as `f32` and then rounded.
pub type Narrow<S> = unsafe fn(&Sums<S>);

/// The kernels of one lane type for one instruction set.
pub struct Kernels<L: 'static> {
    /// Lanes in a vector.
    pub lanes: usize,
    /// For packed operands, by rows minus one and vectors minus one; `b` has whole vectors.
    pub packed: &'static [[Kernel<L>; 2]],
    /// For operands in place, by rows minus one and vectors minus one; `b` ends with the last column.
    pub direct: &'static [[Kernel<L>; 2]],
    /// Copies panel rows.
    pub copy_rows: CopyRows<L>,
    /// Adds scaled rows.
    pub axpy: Axpy<L, L>,
    /// Dot products.
    pub dot: Dot<L, L>,
}

impl<L> Kernels<L> {
    /// Columns in a full panel.
    pub fn width(&self) -> usize {
        2 * self.lanes
    }
}

/// The row kernels of `f32` that read halves.
pub struct HalfKernels<S: 'static> {
    /// Adds scaled rows.
    pub axpy: Axpy<f32, S>,
    /// Dot products.
    pub dot: Dot<f32, S>,
    /// Rounds finished sums.
    pub narrow: Narrow<S>,
}

/// How many bytes ahead a packed A is asked for.
const AHEAD: usize = 512;

/// The sums of a block, in registers; those of every row begin with `start`.
///
/// # Safety
/// The block covers `R` rows and `N` vectors (the last one partly), within its operands.
#[inline(always)]
pub(super) unsafe fn sums<V: Vector, const R: usize, const N: usize, const DIRECT: bool>(
    t: &Block<V::Lane>,
    start: [V; N],
) -> [[V; N]; R] {
    // SAFETY: the caller's block.
    unsafe {
        let zero = V::splat(V::Lane::ZERO);
        let mut sums = [start; R];
        let last = t.columns - (N - 1) * V::LANES;
        let (mut a, mut b) = (t.a, t.b);
        for _ in 0..t.k {
            if !DIRECT && R >= 8 {
                // A packed row panel is read once for each panel of B, from the second-level cache.
                prefetch_near(a.wrapping_add(AHEAD / size_of::<V::Lane>()).cast());
            }
            let mut row = [zero; N];
            for (j, v) in row.iter_mut().enumerate() {
                let p = b.add(j * V::LANES);
                *v = if DIRECT && j + 1 == N { V::load_partial(p, last) } else { V::load(p) };
            }
            for (r, sum) in sums.iter_mut().enumerate() {
                let x = V::splat(*if DIRECT { a.offset(r as isize * t.a_row) } else { a.add(r) });
                for j in 0..N {
                    sum[j] = x.mul_add(row[j], sum[j]);
                }
            }
            a = a.wrapping_offset(t.a_step);
            b = b.wrapping_offset(t.b_step);
        }
        sums
    }
}

/// The product of a block.
///
/// # Safety
/// As [`sums`], for C too.
#[inline(always)]
pub(super) unsafe fn multiply<V: Vector, const R: usize, const N: usize, const DIRECT: bool>(
    t: &Block<V::Lane>,
    start: [V; N],
) {
    // SAFETY: the caller's block.
    unsafe {
        if !DIRECT {
            prefetch_results::<V, R, N>(t);
        }
        store_sums(t, &sums::<V, R, N, DIRECT>(t, start));
    }
}

/// Asks for the lines of C that a block is going to: results begin to arrive while they are computed.
#[inline(always)]
pub(super) fn prefetch_results<V: Vector, const R: usize, const N: usize>(t: &Block<V::Lane>) {
    for r in 0..R {
        for j in 0..N {
            prefetch_near(t.c.wrapping_offset(r as isize * t.c_row).wrapping_add(j * V::LANES).cast());
        }
    }
}

/// `c = alpha * sums + beta * c`.
///
/// # Safety
/// C has R rows and N vectors (the last one partly).
#[inline(always)]
pub(super) unsafe fn store_sums<V: Vector, const R: usize, const N: usize>(t: &Block<V::Lane>, sums: &[[V; N]; R]) {
    // SAFETY: the caller's C.
    unsafe {
        let last = t.columns - (N - 1) * V::LANES;
        let alpha = V::splat(t.alpha);
        for (r, sum) in sums.iter().enumerate() {
            let c = t.c.offset(r as isize * t.c_row);
            for (j, &sum) in sum.iter().enumerate() {
                let p = c.add(j * V::LANES);
                let whole = j + 1 < N || last == V::LANES;
                let product = alpha.mul(sum);
                let value = match t.beta {
                    None => product,
                    Some(beta) => {
                        let old = if whole { V::load(p) } else { V::load_partial(p, last) };
                        V::splat(beta).mul_add_sums(old, product)
                    }
                };
                if whole { value.store(p) } else { value.store_partial(p, last) }
            }
        }
    }
}

#[inline(always)]
unsafe fn copy_rows<V: Vector>(
    source: *const V::Lane,
    step: isize,
    k: usize,
    panels: usize,
    destination: *mut V::Lane,
) {
    // Row by row, since the next row often lies in another page.
    for i in 0..k {
        let source = source.wrapping_offset(i as isize * step);
        for panel in 0..panels {
            // SAFETY: the caller's source has `k` rows of two vectors for each panel, the destination room for them.
            unsafe {
                let from = source.add(panel * 2 * V::LANES);
                let to = destination.add((panel * k + i) * 2 * V::LANES);
                V::load(from).store(to);
                V::load(from.add(V::LANES)).store(to.add(V::LANES));
            }
        }
    }
}

#[inline(always)]
pub(super) unsafe fn narrow<V: Vector<Lane = f32> + LoadFrom<S> + StoreAs<S>, S: Copy + Default>(t: &Sums<S>) {
    // SAFETY: the caller's sums and results have `rows` by `columns` elements; partial vectors go through a buffer.
    unsafe {
        let (alpha, beta) = (V::splat(t.alpha), V::splat(t.beta.unwrap_or(0.0)));
        for r in 0..t.rows {
            let (from, to) = (t.sums.add(r * t.sums_row), t.out.offset(r as isize * t.out_row));
            let mut j = 0;
            while j + V::LANES <= t.columns {
                let mut x = alpha.mul(V::load(from.add(j)));
                if t.beta.is_some() {
                    x = x.add(beta.mul(V::load_from(to.add(j))));
                }
                x.store_as(to.add(j));
                j += V::LANES;
            }
            if j < t.columns {
                let (mut last, left) = ([S::default(); 16], t.columns - j);
                let mut x = alpha.mul(V::load_partial(from.add(j), left));
                if t.beta.is_some() {
                    std::ptr::copy_nonoverlapping(to.add(j), last.as_mut_ptr(), left);
                    x = x.add(beta.mul(V::load_from(last.as_ptr())));
                }
                x.store_as(last.as_mut_ptr());
                std::ptr::copy_nonoverlapping(last.as_ptr(), to.add(j), left);
            }
        }
    }
}

#[inline(always)]
unsafe fn axpy<V: LoadFrom<S>, S: Copy>(
    x: *const V::Lane,
    rows: usize,
    w: *const S,
    w_row: isize,
    n: usize,
    y: *mut V::Lane,
) where
    V::Lane: FromElement<S>,
{
    // Eight rows a pass: eight streams for the prefetcher, and `y` is read and written an eighth as often.
    let mut i = 0;
    while i < rows {
        let count = (rows - i).min(8);
        // SAFETY: rows i..i+count of `w` and lanes 0..n of `y` are the caller's.
        unsafe {
            let mut factor = [V::Lane::ZERO; 8];
            std::ptr::copy_nonoverlapping(x.add(i), factor.as_mut_ptr(), count);
            let w = w.offset(i as isize * w_row);
            let mut j = 0;
            if count == 8 {
                let splats = factor.map(|f| V::splat(f));
                while j + V::LANES <= n {
                    let mut even = V::load(y.add(j));
                    let mut odd = V::splat(V::Lane::ZERO);
                    for r in (0..8).step_by(2) {
                        even =
                            <V as LoadFrom<S>>::load_from(w.offset(r as isize * w_row).add(j)).mul_add(splats[r], even);
                        odd = <V as LoadFrom<S>>::load_from(w.offset((r + 1) as isize * w_row).add(j))
                            .mul_add(splats[r + 1], odd);
                    }
                    even.add(odd).store(y.add(j));
                    j += V::LANES;
                }
            } else {
                while j + V::LANES <= n {
                    let mut sum = V::load(y.add(j));
                    for (r, &f) in factor[..count].iter().enumerate() {
                        sum = <V as LoadFrom<S>>::load_from(w.offset(r as isize * w_row).add(j))
                            .mul_add(V::splat(f), sum);
                    }
                    sum.store(y.add(j));
                    j += V::LANES;
                }
            }
            while j < n {
                let mut sum = *y.add(j);
                for (r, &f) in factor[..count].iter().enumerate() {
                    sum =
                        <V::Lane as FromElement<S>>::from_element(*w.offset(r as isize * w_row).add(j)).mul_add(f, sum);
                }
                *y.add(j) = sum;
                j += 1;
            }
        }
        i += count;
    }
}

/// Adds the products of one vector of every row of `x` with one of every row of `w`.
#[inline(always)]
unsafe fn add_dots<V: LoadFrom<S>, S: Copy, const R: usize, const C: usize>(
    (x, x_row): (*const V::Lane, isize),
    (w, w_row): (*const S, isize),
    sums: &mut [[V; C]; R],
) {
    // SAFETY: the caller's `x` has R rows and `w` C rows of a vector each.
    unsafe {
        let mut xs = [V::splat(V::Lane::ZERO); R];
        for (r, v) in xs.iter_mut().enumerate() {
            *v = V::load(x.offset(r as isize * x_row));
        }
        for c in 0..C {
            let v = <V as LoadFrom<S>>::load_from(w.offset(c as isize * w_row));
            for (sums, x) in sums.iter_mut().zip(&xs) {
                sums[c] = v.mul_add(*x, sums[c]);
            }
        }
    }
}

/// The dot products of a block, `U` vectors of every row at a time: with few rows, these hide the latency of multiply-adds.
// Indices, because `sums`, `x`, `w` and `out` go together.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
unsafe fn dot_block<V: LoadFrom<S>, S: Copy, const R: usize, const C: usize, const U: usize>(
    x: *const V::Lane,
    x_row: isize,
    w: *const S,
    w_row: isize,
    k: usize,
    out: *mut V::Lane,
    out_row: isize,
) where
    V::Lane: FromElement<S>,
{
    // SAFETY: the caller's `x` has R rows and `w` C rows of `k` elements; `out` is R by C.
    unsafe {
        let mut sums = [[[V::splat(V::Lane::ZERO); C]; R]; U];
        let mut i = 0;
        while i + U * V::LANES <= k {
            for (u, sums) in sums.iter_mut().enumerate() {
                let at = i + u * V::LANES;
                add_dots::<V, S, R, C>((x.add(at), x_row), (w.add(at), w_row), sums);
            }
            i += U * V::LANES;
        }
        while U > 1 && i + V::LANES <= k {
            add_dots::<V, S, R, C>((x.add(i), x_row), (w.add(i), w_row), &mut sums[0]);
            i += V::LANES;
        }
        for r in 0..R {
            for c in 0..C {
                let mut all = sums[0][r][c];
                for other in &sums[1..] {
                    all = all.add(other[r][c]);
                }
                let mut sum = all.sum();
                for i in i..k {
                    let v = <V::Lane as FromElement<S>>::from_element(*w.offset(c as isize * w_row).add(i));
                    sum = v.mul_add(*x.offset(r as isize * x_row).add(i), sum);
                }
                *out.offset(r as isize * out_row).add(c) = sum;
            }
        }
    }
}

#[inline(always)]
unsafe fn dot<V: LoadFrom<S>, S: Copy>(
    x: *const V::Lane,
    x_row: isize,
    rows: usize,
    w: *const S,
    w_row: isize,
    columns: usize,
    k: usize,
    out: *mut V::Lane,
    out_row: isize,
) where
    V::Lane: FromElement<S>,
{
    // SAFETY: forwarded contract; each block lies within `rows` by `columns`.
    unsafe {
        match (rows, columns) {
            (1, 4) => dot_block::<V, S, 1, 4, 2>(x, x_row, w, w_row, k, out, out_row),
            (2, 4) => dot_block::<V, S, 2, 4, 1>(x, x_row, w, w_row, k, out, out_row),
            (4, 4) => dot_block::<V, S, 4, 4, 1>(x, x_row, w, w_row, k, out, out_row),
            _ => {
                for r in 0..rows as isize {
                    for c in 0..columns as isize {
                        let to = out.offset(r * out_row + c);
                        dot_block::<V, S, 1, 1, 4>(x.offset(r * x_row), 0, w.offset(c * w_row), 0, k, to, 0);
                    }
                }
            }
        }
    }
}

/// A lane made from an element of a narrower type.
pub trait FromElement<S> {
    /// The value.
    fn from_element(x: S) -> Self;
}
impl<L: Lane> FromElement<L> for L {
    #[inline(always)]
    fn from_element(x: L) -> L {
        x
    }
}
impl FromElement<f16> for f32 {
    #[inline(always)]
    fn from_element(x: f16) -> f32 {
        Element::to_f32(x)
    }
}
impl FromElement<bf16> for f32 {
    #[inline(always)]
    fn from_element(x: bf16) -> f32 {
        Element::to_f32(x)
    }
}

/// The generic kernels, compiled for one instruction set.
macro_rules! kernels_for {
    ($module:ident, $(#[$attribute:meta])*) => {
        mod $module {
            use super::*;
            $(#[$attribute])*
            pub unsafe fn multiply<V: Vector, const R: usize, const N: usize, const DIRECT: bool>(t: &Block<V::Lane>) {
                // SAFETY: forwarded contract.
                unsafe { super::multiply::<V, R, N, DIRECT>(t, [V::splat(V::Lane::ZERO); N]) }
            }
            $(#[$attribute])*
            pub unsafe fn copy_rows<V: Vector>(
                source: *const V::Lane, step: isize, k: usize, panels: usize, to: *mut V::Lane,
            ) {
                // SAFETY: forwarded contract.
                unsafe { super::copy_rows::<V>(source, step, k, panels, to) }
            }
            $(#[$attribute])*
            pub unsafe fn narrow<V: Vector<Lane = f32> + LoadFrom<S> + StoreAs<S>, S: Copy + Default>(t: &Sums<S>) {
                // SAFETY: forwarded contract.
                unsafe { super::narrow::<V, S>(t) }
            }
            $(#[$attribute])*
            pub unsafe fn axpy<V: LoadFrom<S>, S: Copy>(
                x: *const V::Lane, rows: usize, w: *const S, w_row: isize, n: usize, y: *mut V::Lane,
            ) where V::Lane: FromElement<S> {
                // SAFETY: forwarded contract.
                unsafe { super::axpy::<V, S>(x, rows, w, w_row, n, y) }
            }
            $(#[$attribute])*
            pub unsafe fn dot<V: LoadFrom<S>, S: Copy>(
                x: *const V::Lane, x_row: isize, rows: usize, w: *const S, w_row: isize, columns: usize, k: usize,
                out: *mut V::Lane, out_row: isize,
            ) where V::Lane: FromElement<S> {
                // SAFETY: forwarded contract.
                unsafe { super::dot::<V, S>(x, x_row, rows, w, w_row, columns, k, out, out_row) }
            }
        }
    };
}
kernels_for!(baseline,);
#[cfg(target_arch = "x86_64")]
kernels_for!(avx2, #[target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
kernels_for!(avx512, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]);

macro_rules! table {
    ($module:ident, $v:ty, [$($packed:literal)*], [$($direct:literal)*]) => {
        Kernels {
            lanes: <$v>::LANES,
            packed: &[$([$module::multiply::<$v, $packed, 1, false>, $module::multiply::<$v, $packed, 2, false>]),*],
            direct: &[$([$module::multiply::<$v, $direct, 1, true>, $module::multiply::<$v, $direct, 2, true>]),*],
            copy_rows: $module::copy_rows::<$v>,
            axpy: $module::axpy::<$v, <$v as Vector>::Lane>,
            dot: $module::dot::<$v, <$v as Vector>::Lane>,
        }
    };
}

/// A lane type with kernels.
pub trait KernelLane: Lane {
    /// The kernels for an instruction set that the machine has.
    fn kernels(level: Level) -> &'static Kernels<Self>;
}

// 32 registers in AVX-512: 12 x 2 accumulators, two vectors of `b`, the rest for broadcasts. AVX2 has 16: 6 x 2.
macro_rules! kernel_lane {
    ($($t:ty: $baseline:literal $avx2:ident $avx512:ident;)*) => { $(
        impl KernelLane for $t {
            #[inline]
            fn kernels(level: Level) -> &'static Kernels<$t> {
                static BASELINE: Kernels<$t> = table!(baseline, Array<$t, $baseline>, [1 2 3 4], [1 2 3 4]);
                #[cfg(target_arch = "x86_64")]
                {
                    use super::simd::{$avx2, $avx512};
                    static AVX2: Kernels<$t> = table!(avx2, $avx2, [1 2 3 4 5 6], [1 2 3 4 5 6]);
                    static AVX512: Kernels<$t> =
                        table!(avx512, $avx512, [1 2 3 4 5 6 7 8 9 10 11 12], [1 2 3 4 5 6 7 8]);
                    match level {
                        Level::Avx512 => return &AVX512,
                        Level::Avx2 => return &AVX2,
                        Level::Baseline => {}
                    }
                }
                let _ = level;
                &BASELINE
            }
        }
    )* };
}
kernel_lane! {
    f32: 4 F32x8 F32x16;
    f64: 2 F64x4 F64x8;
    i16: 8 I16x16 I16x32;
    i32: 4 I32x8 I32x16;
    i64: 2 I64x4 I64x8;
}

macro_rules! half_kernels {
    ($($name:ident $t:ty;)*) => { $(
        /// The row kernels that read this half type, for an instruction set that the machine has.
        pub fn $name(level: Level) -> &'static HalfKernels<$t> {
            static BASELINE: HalfKernels<$t> =
                HalfKernels { axpy: baseline::axpy::<Array<f32, 4>, $t>, dot: baseline::dot::<Array<f32, 4>, $t>, narrow: baseline::narrow::<Array<f32, 4>, $t> };
            #[cfg(target_arch = "x86_64")]
            {
                use super::simd::{F32x8, F32x16};
                static AVX2: HalfKernels<$t> =
                    HalfKernels { axpy: avx2::axpy::<F32x8, $t>, dot: avx2::dot::<F32x8, $t>, narrow: avx2::narrow::<F32x8, $t> };
                static AVX512: HalfKernels<$t> =
                    HalfKernels { axpy: avx512::axpy::<F32x16, $t>, dot: avx512::dot::<F32x16, $t>, narrow: avx512::narrow::<F32x16, $t> };
                match level {
                    Level::Avx512 => return &AVX512,
                    Level::Avx2 => return &AVX2,
                    Level::Baseline => {}
                }
            }
            let _ = level;
            &BASELINE
        }
    )* };
}
half_kernels! { f16_kernels f16; widening_bf16_kernels bf16; }

/// [`widening_bf16_kernels`], with the machine's own rounding where it has that.
pub fn bf16_kernels(level: Level) -> &'static HalfKernels<bf16> {
    #[cfg(target_arch = "x86_64")]
    if rounds_halves(level) {
        static ROUNDING: OnceLock<HalfKernels<bf16>> = OnceLock::new();
        return ROUNDING.get_or_init(|| HalfKernels { narrow: pairs::narrow, ..*widening_bf16_kernels(level) });
    }
    widening_bf16_kernels(level)
}
