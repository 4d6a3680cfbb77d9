//! Distances between rows by a p-norm, and their gradients.

use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, run};
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
pub fn distances<T: Float + Element>(pairs: Pairs, width: usize, p: f64, x: &[T], y: &[T], out: &mut [T]) {
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

/// Rows whose gradients are one piece: pairs with earlier rows are then read by cache lines.
const ROWS: usize = 16;
/// Sums beside each other, each of every so manieth row.
const SUMS: usize = 32;

/// The gradient of [`distances`] by `x`, for the gradients `g` of the distances `dist`.
pub fn distances_backward<T: Float + Element>(
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
    let lanes = others.next_multiple_of(SUMS);
    let turned = turned_and_padded(y, others, width, lanes);
    let out = Shared(out.as_mut_ptr());
    let blocks = rows.div_ceil(ROWS);
    parallel_for(batches * blocks, GRAIN / (ROWS * lanes * width) + 1, &|range| {
        let mut gathered = vec![T::ZERO; ROWS * lanes];
        for unit in range {
            let (batch, first) = (unit / blocks, unit % blocks * ROWS);
            let block = first..rows.min(first + ROWS);
            match pairs {
                Pairs::All(..) => block.clone().zip(gathered.chunks_exact_mut(lanes)).for_each(|(i, to)| {
                    to[..others].copy_from_slice(&weights[(batch * rows + i) * others..][..others]);
                }),
                Pairs::Upper(n) => gather(n, block.clone(), &weights, lanes, &mut gathered),
            }
            let (at, count) = ((batch * rows + first) * width, block.len());
            let turned = &turned[batch * width * lanes..][..width * lanes];
            // SAFETY: every row of the output is one piece of work's; slices.
            unsafe {
                let to = std::slice::from_raw_parts_mut(out.get().add(at), count * width);
                run::<Slopes<T>>((p, lanes, &x[at..at + count * width], turned, &gathered[..count * lanes], to));
            }
        }
    });
}

/// [`turned`], the last row again and again until there are `lanes`: with weights of zero they change no sum, unless what
/// they are added to is not finite either.
fn turned_and_padded<T: Float>(y: &[T], rows: usize, width: usize, lanes: usize) -> Vec<T> {
    let mut all = Vec::with_capacity(y.len() / rows * lanes);
    for row in turned(y, rows, width).chunks_exact(rows) {
        all.extend_from_slice(row);
        all.extend((rows..lanes).map(|_| row[rows - 1]));
    }
    all
}

/// The weights of pairs of a matrix's rows `block` with all `n`, none with themselves, `lanes` apart.
fn gather<T: Float>(n: usize, block: Range<usize>, weights: &[T], lanes: usize, to: &mut [T]) {
    for j in 0..block.end {
        for i in block.start.max(j + 1)..block.end {
            to[(i - block.start) * lanes + j] = weights[place(n, j, i)];
        }
    }
    for (i, row) in block.zip(to.chunks_exact_mut(lanes)) {
        row[i] = T::ZERO;
        if i + 1 < n {
            row[i + 1..n].copy_from_slice(&weights[place(n, i, i + 1)..][..n - i - 1]);
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

/// The gradient by a few rows.
struct Slopes<T>(PhantomData<T>);

impl<T: Float + Element> Kernel for Slopes<T> {
    /// The norm, how many the others are, the rows, the others turned, the weights of each row, and the gradient.
    type Args = (f64, usize, *const [T], *const [T], *const [T], *mut [T]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((p, lanes, x, turned, weights, to): Self::Args) {
        // SAFETY: slices of `distances_backward`.
        let (x, turned, weights, to) = unsafe { (&*x, &*turned, &*weights, &mut *to) };
        let sign = |d: T, w: T| Float::sign::<I>(d) * w;
        if p == 2.0 {
            sum_slopes(lanes, x, turned, weights, weights, to, |d, w, _| d * w);
        } else if p == 1.0 {
            // An infinite row has no difference from itself.
            sum_slopes(lanes, x, turned, weights, weights, to, |d, w, _| if w == T::ZERO { w } else { sign(d, w) });
        } else if p == f64::INFINITY {
            // The distances are rounded where the rows are of lower precision.
            let mut most = vec![T::ZERO; weights.len()];
            let larger = |s: T, d: T| if Float::abs::<I>(d) > s { Float::abs::<I>(d) } else { s };
            for (a, most) in x.chunks_exact(turned.len() / lanes).zip(most.chunks_exact_mut(lanes)) {
                beside(a, turned, lanes, 0, most, larger, |s| s);
            }
            let attains = |d: T, m: T| Float::abs::<I>(d) == m;
            sum_slopes(
                lanes,
                x,
                turned,
                weights,
                &most,
                to,
                |d, w, m| if attains(d, m) { sign(d, w) } else { T::ZERO },
            );
        } else {
            let q = T::from_f64(p - 1.0);
            let slope = |d: T, w: T| Float::pow::<I>(Float::abs::<I>(d), q) * sign(d, w);
            sum_slopes(
                lanes,
                x,
                turned,
                weights,
                weights,
                to,
                |d, w, _| if d == T::ZERO { T::ZERO } else { slope(d, w) },
            );
        }
    }
}

/// Row `row` of those `lanes` wide, by whole chunks.
#[inline(always)]
fn chunks_of<T>(rows: &[T], row: usize, lanes: usize) -> &[[T; SUMS]] {
    rows[row * lanes..(row + 1) * lanes].as_chunks().0
}

/// For every element of the rows `x`, the sum over others of the slope by their difference from it, given a weight and
/// another number of each.
#[inline(always)]
fn sum_slopes<T: Float>(
    lanes: usize,
    x: &[T],
    turned: &[T],
    weights: &[T],
    numbers: &[T],
    to: &mut [T],
    slope: impl Fn(T, T, T) -> T,
) {
    let width = turned.len() / lanes;
    let rows = x.len() / width;
    // Two rows at a time, which read the others once; an odd one twice.
    for first in (0..rows).step_by(2) {
        let pair = [first, (first + 1).min(rows - 1)];
        let (w, m) = (pair.map(|row| chunks_of(weights, row, lanes)), pair.map(|row| chunks_of(numbers, row, lanes)));
        for k in 0..width {
            let a = pair.map(|row| x[row * width + k]);
            let mut sums = [[T::ZERO; SUMS]; 2];
            for (c, b) in chunks_of(turned, k, lanes).iter().enumerate() {
                let (w, m) = ([&w[0][c], &w[1][c]], [&m[0][c], &m[1][c]]);
                for j in 0..SUMS {
                    sums[0][j] += slope(a[0] - b[j], w[0][j], m[0][j]);
                    sums[1][j] += slope(a[1] - b[j], w[1][j], m[1][j]);
                }
            }
            for (row, sums) in pair.into_iter().zip(sums) {
                to[row * width + k] = joined(sums, |a, b| a + b);
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
