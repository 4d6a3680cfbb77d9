//! Distances between rows by a p-norm, and their gradients.

use crate::copy::Shared;
use crate::copy::transpose::turn;
use crate::math::{Float, Isa, Kernel, Level, run, select};
use flambeau_base::parallel::parallel_for;
use flambeau_base::{Element, iter::GRAIN};
use std::marker::PhantomData;
use std::ops::Range;

/// Partial sums kept beside each other, so that the loop over a row vectorises.
const LANES: usize = 16;

/// Turned rows whose elements go through a loop at a time.
const CHUNK: usize = 64;

/// Which pairs of rows.
#[derive(Clone, Copy)]
pub enum Pairs {
    /// Every row of one matrix with every row of another, in batches: batches, rows of the one, rows of the other.
    All(usize, usize, usize),
    /// Every row of a matrix with every later one, in order: the number of rows.
    Upper(usize),
}

impl Pairs {
    /// How many rows a row is paired with, at most.
    fn others(self) -> usize {
        match self {
            Pairs::All(_, _, n) | Pairs::Upper(n) => n,
        }
    }
}

/// Where the distance of rows `i < j` of `n` stands.
fn place(n: usize, i: usize, j: usize) -> usize {
    i * n - i * (i + 1) / 2 + j - i - 1
}

/// The distances between rows of `width` elements of `x` and `y` (the same for [`Pairs::Upper`]).
pub(crate) fn distances<T: Float + Element>(pairs: Pairs, width: usize, p: f64, x: &[T], y: &[T], out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    let out = Shared(out.as_mut_ptr());
    let others = pairs.others();
    // Short rows are turned, so that their elements lie beside those of the next rows.
    let turned = if width <= SHORT { turned(y, others, width) } else { Vec::new() };
    let one = |i: usize, j: usize, to: usize, rows: usize| {
        let (a, first) = (&x[i * width..(i + 1) * width], j % others);
        // SAFETY: every pair of rows has its own place in the output, which has room for all; slices.
        unsafe {
            let out = std::ptr::slice_from_raw_parts_mut(out.get().add(to), rows);
            match width <= SHORT {
                true => run::<Beside<T>>((p, a, &turned[(j - first) * width..], (others, first), out)),
                false => run::<Distances<T>>((p, a, &y[j * width..(j + rows) * width], out)),
            }
        }
    };
    match pairs {
        Pairs::All(batches, m, n) => parallel_for(batches * m, GRAIN / (n * width).max(1) + 1, &|range| {
            for i in range {
                one(i, i / m * n, i * n, n);
            }
        }),
        Pairs::Upper(n) => parallel_for(n.saturating_sub(1), GRAIN / (n * width).max(1) + 1, &|range| {
            for i in range {
                one(i, i + 1, place(n, i, i + 1), n - i - 1);
            }
        }),
    }
}

/// Rows up to this wide are measured from many others at a time, and not piece by piece.
const SHORT: usize = 64;

/// Every `rows` rows of `width` elements as `width` rows of `rows` elements.
fn turned<T: Copy>(y: &[T], rows: usize, width: usize) -> Vec<T> {
    let matrices = y.chunks_exact((rows * width).max(1));
    matrices.flat_map(|m| (0..width).flat_map(move |k| m[k..].iter().step_by(width).copied())).collect()
}

/// Calls a macro with the steps of a norm: what a difference adds to a sum, how sums are joined, and the distance.
macro_rules! by_norm {
    ($p:expr, $I:ty, $T:ty, $call:ident) => {{
        let q = <$T>::from_f64($p);
        match $p {
            0.0 => {
                $call!(|s: $T, d: $T| s + if d != <$T>::ZERO { <$T>::ONE } else { <$T>::ZERO }, |a, b| a + b, |s: $T| s)
            }
            1.0 => $call!(|s: $T, d: $T| s + Float::abs::<$I>(d), |a, b| a + b, |s: $T| s),
            2.0 => $call!(|s: $T, d: $T| s + d * d, |a, b| a + b, |s: $T| Float::sqrt::<$I>(s)),
            f64::INFINITY => {
                let larger = |s: $T, d: $T| if (d > s) | d.is_nan() { d } else { s };
                $call!(|s: $T, d: $T| larger(s, Float::abs::<$I>(d)), larger, |s: $T| s)
            }
            _ => {
                $call!(|s: $T, d: $T| s + Float::pow::<$I>(Float::abs::<$I>(d), q), |a, b| a + b, |s: $T| Float::pow::<
                    $I,
                >(
                    s,
                    <$T>::ONE / q
                ))
            }
        }
    }};
}

/// The distances of one row from rows that lie turned.
struct Beside<T>(PhantomData<T>);

impl<T: Float + Element> Kernel for Beside<T> {
    /// The norm, a row, the turned rows, how many they are and the first of them to measure from, and the distances.
    type Args = (f64, *const [T], *const [T], (usize, usize), *mut [T]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((p, a, turned, (rows, first), out): Self::Args) {
        // SAFETY: slices of `distances`.
        let (a, turned, out) = unsafe { (&*a, &*turned, &mut *out) };
        macro_rules! measure {
            ($step:expr, $join:expr, $finish:expr) => {{
                let _ = $join as fn(T, T) -> T;
                beside(a, turned, rows, first, out, $step, $finish)
            }};
        }
        by_norm!(p, I, T, measure)
    }
}

#[inline(always)]
fn beside<T: Float + Element>(
    a: &[T],
    turned: &[T],
    rows: usize,
    first: usize,
    out: &mut [T],
    step: impl Fn(T, T) -> T,
    finish: impl Fn(T) -> T,
) {
    for (c, out) in out.chunks_mut(CHUNK).enumerate() {
        let mut sums = [T::ZERO; CHUNK];
        for (k, a) in a.iter().enumerate() {
            let b = &turned[k * rows + first + c * CHUNK..][..out.len()];
            match <&[T; CHUNK]>::try_from(b) {
                Ok(b) => (0..CHUNK).for_each(|j| sums[j] = step(sums[j], *a - b[j])),
                Err(_) => sums.iter_mut().zip(b).for_each(|(s, b)| *s = step(*s, *a - *b)),
            }
        }
        out.iter_mut().zip(sums).for_each(|(out, s)| *out = finish(s));
    }
}

/// The distances of one row from rows that lie one after the other.
struct Distances<T>(PhantomData<T>);

impl<T: Float + Element> Kernel for Distances<T> {
    /// The norm, a row, rows to measure from it, and their distances.
    type Args = (f64, *const [T], *const [T], *mut [T]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((p, a, b, out): Self::Args) {
        // SAFETY: slices of `distances`.
        let (a, b, out) = unsafe { (&*a, &*b, &mut *out) };
        let width = a.len();
        for (j, o) in out.iter_mut().enumerate() {
            let b = &b[j * width..(j + 1) * width];
            macro_rules! measure {
                ($step:expr, $join:expr, $finish:expr) => {
                    ($finish)(fold::<T>(a, b, $step, $join))
                };
            }
            *o = by_norm!(p, I, T, measure);
        }
    }
}

/// Folds the differences of two rows in [`LANES`] lanes, which are then joined.
#[inline(always)]
fn fold<T: Float + Element>(a: &[T], b: &[T], step: impl Fn(T, T) -> T, join: impl Fn(T, T) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a_blocks.remainder().iter().zip(b_blocks.remainder());
    for (a, b) in a_blocks.zip(b_blocks) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane = step(*lane, *a - *b);
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, *a - *b);
    }
    joined(lanes, join)
}

/// Joins halves with halves, which vectorises too.
#[inline(always)]
fn joined<T: Float, const N: usize>(mut lanes: [T; N], join: impl Fn(T, T) -> T) -> T {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = join(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Rows whose gradients are found beside each other: with so many a loop over them vectorises before it is unrolled.
const ROWS: usize = 64;
/// The same where there are fewer rows.
const FEW_ROWS: usize = 16;
/// Others that go through a loop at a time: their weights stay in the first-level cache.
const OTHERS: usize = 64;
/// Terms of a sum between loading and storing it.
const AT_ONCE: usize = 4;

/// The gradient of [`distances`] by `x`, for the gradients `g` of the distances `dist`.
pub(crate) fn distances_backward<T: Float + Element>(
    pairs: Pairs,
    width: usize,
    p: f64,
    x: &[T],
    y: &[T],
    (g, dist): (&[T], &[T]),
    out: &mut [T],
) {
    let (batches, rows, others) = match pairs {
        Pairs::All(batches, m, n) => (batches, m, n),
        Pairs::Upper(n) => (1, n, n),
    };
    if p == 0.0 || width == 0 || others == 0 {
        return out.fill(T::ZERO);
    }
    let mut weights = vec![T::ZERO; g.len()];
    let target = Shared(weights.as_mut_ptr());
    parallel_for(g.len(), GRAIN, &|range| {
        // SAFETY: every weight is one piece of work's; slices.
        unsafe {
            let to = std::slice::from_raw_parts_mut(target.get().add(range.start), range.len());
            run::<Weights<T>>((p, &g[range.clone()], &dist[range], to));
        }
    });
    match rows {
        0..ROWS => add_up::<T, FEW_ROWS>(pairs, (batches, rows, others), width, p, (x, y, &weights), out),
        _ => add_up::<T, ROWS>(pairs, (batches, rows, others), width, p, (x, y, &weights), out),
    }
}

/// [`distances_backward`] given the weights of all pairs, by blocks of `R` rows.
fn add_up<T: Float + Element, const R: usize>(
    pairs: Pairs,
    (batches, rows, others): (usize, usize, usize),
    width: usize,
    p: f64,
    (x, y, weights): (&[T], &[T], &[T]),
    out: &mut [T],
) {
    let out = Shared(out.as_mut_ptr());
    let blocks = rows.div_ceil(R);
    parallel_for(batches * blocks, GRAIN / (R * others * width) + 1, &|range| {
        let mut beside = vec![[T::ZERO; R]; others];
        let (mut columns, mut sums) = (vec![[T::ZERO; R]; width], vec![[T::ZERO; R]; width]);
        for unit in range {
            let (batch, first) = (unit / blocks, unit % blocks * R);
            let block = first..rows.min(first + R);
            match pairs {
                Pairs::All(..) => {
                    turn_rows(others, &weights[(batch * rows + first) * others..][..block.len() * others], &mut beside)
                }
                Pairs::Upper(n) => gather(n, block.clone(), weights, &mut beside),
            }
            let (at, count) = ((batch * rows + first) * width, block.len());
            turn_rows(width, &x[at..at + count * width], &mut columns);
            sums.fill([T::ZERO; R]);
            let y = &y[batch * others * width..][..others * width];
            // SAFETY: every row of the output is one piece of work's; slices.
            unsafe {
                run::<Slopes<T, R>>((p, &columns[..], y, &beside[..], &mut sums[..]));
                let to = std::slice::from_raw_parts_mut(out.get().add(at), count * width);
                for (i, row) in to.chunks_exact_mut(width).enumerate() {
                    row.iter_mut().zip(&sums).for_each(|(to, sums)| *to = sums[i]);
                }
            }
        }
    });
}

/// Up to `R` rows of `len` elements, as the elements beside each other of all of them.
fn turn_rows<T: Copy, const R: usize>(len: usize, rows: &[T], to: &mut [[T; R]]) {
    let count = rows.len() / len;
    assert!(count <= R && len <= to.len());
    // SAFETY: `count` rows, and room for each as a column.
    unsafe { turn(rows.as_ptr(), len, to.as_mut_ptr().cast(), R, (count, len)) }
}

/// The weights of pairs of a matrix's rows `block` with all `n`, none with themselves.
fn gather<T: Float, const R: usize>(n: usize, block: Range<usize>, weights: &[T], to: &mut [[T; R]]) {
    for (j, to) in to[..block.end].iter_mut().enumerate() {
        let from = block.start.max(j + 1);
        if from < block.end {
            to[from - block.start..block.len()].copy_from_slice(&weights[place(n, j, from)..][..block.end - from]);
        }
    }
    for i in block.clone() {
        let at = i - block.start;
        to[i][at] = T::ZERO;
        if i + 1 < n {
            let later = &weights[place(n, i, i + 1)..][..n - i - 1];
            to[i + 1..].iter_mut().zip(later).for_each(|(to, w)| to[at] = *w);
        }
    }
}

/// What the slopes of pairs are multiplied with.
struct Weights<T>(PhantomData<T>);

impl<T: Float + Element> Kernel for Weights<T> {
    /// The norm, the gradients of distances and those, and the weights.
    type Args = (f64, *const [T], *const [T], *mut [T]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((p, g, dist, to): Self::Args) {
        // SAFETY: slices of `distances_backward`.
        let (g, dist, to) = unsafe { (&*g, &*dist, &mut *to) };
        let each = to.iter_mut().zip(g.iter().zip(dist));
        let quotient = |g: T, d: T, by: T| if d == T::ZERO { T::ZERO } else { g / by };
        if p == 1.0 || p == f64::INFINITY {
            to.copy_from_slice(g);
        } else if p == 2.0 {
            each.for_each(|(to, (g, d))| *to = quotient(*g, *d, *d));
        } else {
            let q = T::from_f64(p - 1.0);
            each.for_each(|(to, (g, d))| *to = quotient(*g, *d, Float::pow::<I>(*d, q)));
        }
    }
}

/// The gradients by a few rows.
struct Slopes<T, const R: usize>(PhantomData<T>);

impl<T: Float + Element, const R: usize> Kernel for Slopes<T, R> {
    /// The norm, the elements of the rows, the others, their weights for each row, and what the gradients are added to.
    type Args = (f64, *const [[T; R]], *const [T], *const [[T; R]], *mut [[T; R]]);
    type Output = ();
    /// (AVX-512 gains up to a tenth.)
    const HIGHEST: Level = Level::Avx2;

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
    unsafe fn run<I: Isa>((p, x, y, weights, to): Self::Args) {
        // SAFETY: slices of `distances_backward`.
        let (x, y, weights, to) = unsafe { (&*x, &*y, &*weights, &mut *to) };
        let sign = |d: T, w: T| Float::sign::<I>(d) * w;
        if p == 2.0 {
            add_slopes(x, y, (weights, weights), to, |s, d, w, _| d.mul_add::<I>(w, s));
        } else if p == 1.0 {
            add_slopes(x, y, (weights, weights), to, |s, d, w, _| Float::sign::<I>(d).mul_add::<I>(w, s));
        } else if p == f64::INFINITY {
            // The distances are rounded where the rows are of lower precision.
            let mut most = vec![[T::ZERO; R]; weights.len()];
            let larger = |s: T, d: T| select(Float::abs::<I>(d) > s, Float::abs::<I>(d), s);
            for (y, most) in y.chunks_exact(x.len()).zip(&mut most) {
                let ((x, rest), (y, rest_y)) = (x.as_chunks::<AT_ONCE>(), y.as_chunks::<AT_ONCE>());
                for (x, y) in x.iter().zip(y) {
                    for l in 0..R {
                        for k in 0..AT_ONCE {
                            most[l] = larger(most[l], x[k][l] - y[k]);
                        }
                    }
                }
                for (x, y) in rest.iter().zip(rest_y) {
                    most.iter_mut().zip(x).for_each(|(most, x)| *most = larger(*most, *x - *y));
                }
            }
            let attains = |d: T, m: T| Float::abs::<I>(d) == m;
            let slope = |s: T, d: T, w: T, m: T| s + select(attains(d, m), sign(d, w), T::ZERO);
            add_slopes(x, y, (weights, &most), to, slope);
        } else {
            let q = T::from_f64(p - 1.0);
            let slope = |d: T, w: T| Float::pow::<I>(Float::abs::<I>(d), q) * sign(d, w);
            let add = |s: T, d: T, w: T, _: T| s + if d == T::ZERO { T::ZERO } else { slope(d, w) };
            add_slopes(x, y, (weights, weights), to, add);
        }
    }
}

/// Adds, for every element of a few rows, the slopes by its differences from those of the others, given a weight and
/// another number of each. `add` gives a sum with the slope of a difference.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
fn add_slopes<T: Float, const R: usize>(
    x: &[[T; R]],
    y: &[T],
    (weights, numbers): (&[[T; R]], &[[T; R]]),
    to: &mut [[T; R]],
    add: impl Fn(T, T, T, T) -> T,
) {
    let width = x.len();
    let tiles = weights.chunks(OTHERS).zip(numbers.chunks(OTHERS));
    for (y, (weights, numbers)) in y.chunks(OTHERS * width).zip(tiles) {
        for (k, (x, to)) in x.iter().zip(to.iter_mut()).enumerate() {
            let mut sums = [T::ZERO; R];
            let (weights, rest) = weights.as_chunks::<AT_ONCE>();
            let (numbers, rest_numbers) = numbers.as_chunks::<AT_ONCE>();
            for (q, (w, m)) in weights.iter().zip(numbers).enumerate() {
                let b: [T; AT_ONCE] = std::array::from_fn(|j| y[(q * AT_ONCE + j) * width + k]);
                for l in 0..R {
                    for j in 0..AT_ONCE {
                        sums[l] = add(sums[l], x[l] - b[j], w[j][l], m[j][l]);
                    }
                }
            }
            for (j, (w, m)) in rest.iter().zip(rest_numbers).enumerate() {
                let b = y[(weights.len() * AT_ONCE + j) * width + k];
                for l in 0..R {
                    sums[l] = add(sums[l], x[l] - b, w[l], m[l]);
                }
            }
            for l in 0..R {
                to[l] += sums[l];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_and_slopes_of_small_matrices() {
        let x = [0.0f64, 0.0, 3.0, 4.0, 3.0, 0.0];
        let mut out = [0.0; 3];
        for (p, want) in
            [(2.0, [5.0, 3.0, 4.0]), (1.0, [7.0, 3.0, 4.0]), (f64::INFINITY, [4.0, 3.0, 4.0]), (0.0, [2.0, 1.0, 1.0])]
        {
            distances(Pairs::Upper(3), 2, p, &x, &x, &mut out);
            assert_eq!(out, want, "{p}");
        }
        let mut all = [0.0; 6];
        distances(Pairs::All(1, 2, 3), 2, 2.0, &x[..4], &x, &mut all);
        assert_eq!(all, [0.0, 5.0, 3.0, 5.0, 0.0, 4.0]);
        let mut slope = [9.0; 4];
        distances_backward(Pairs::All(1, 2, 3), 2, 2.0, &x[..4], &x, (&[1.0; 6], &all), &mut slope);
        // Each is a quotient times a difference: the last digit may be another.
        let near = |got: &[f64], want: &[f64]| got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 2.0 * f64::EPSILON);
        assert!(near(&slope, &[-1.6, -0.8, 0.6, 1.8]), "{slope:?}");
        let (mut by_half, mut dist) = ([0.0; 6], [0.0; 3]);
        distances(Pairs::Upper(3), 2, 2.0, &x, &x, &mut dist);
        distances_backward(Pairs::Upper(3), 2, 2.0, &x, &x, (&[1.0; 3], &dist), &mut by_half);
        assert!(near(&by_half, &[-1.6, -0.8, 0.6, 1.8, 1.0, -1.0]), "{by_half:?}");
    }
}
