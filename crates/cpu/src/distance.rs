//! Distances between rows by a p-norm, and their gradients.

use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, run};
use flambeau_base::parallel::parallel_for;
use flambeau_base::{Element, iter::GRAIN};
use std::marker::PhantomData;

/// Partial sums kept beside each other, so that the loop over a row vectorises.
const LANES: usize = 16;

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

    /// Where the distance of row `i` and the `j`-th of its others stands, and which row that is.
    #[inline(always)]
    fn other(self, i: usize, j: usize) -> Option<(usize, usize)> {
        match self {
            Pairs::All(_, m, n) => Some((i * n + j, i / m * n + j)),
            Pairs::Upper(_) if i == j => None,
            Pairs::Upper(n) => Some((place(n, i.min(j), i.max(j)), j)),
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
    const CHUNK: usize = 64;
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
    // Halves onto halves, which vectorises too.
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = join(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

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
    let rows = match pairs {
        Pairs::All(batches, m, _) => batches * m,
        Pairs::Upper(n) => n,
    };
    let out = Shared(out.as_mut_ptr());
    let others = pairs.others();
    parallel_for(rows, GRAIN / (others * width).max(1) + 1, &|range| {
        for i in range {
            // SAFETY: every row of the output is one piece of work's; slices.
            unsafe {
                let to = std::slice::from_raw_parts_mut(out.get().add(i * width), width);
                run::<Slopes<T>>((pairs, width, p, i, x, y, (g, dist), to));
            }
        }
    });
}

struct Slopes<T>(PhantomData<T>);

impl<T: Float + Element> Kernel for Slopes<T> {
    /// The pairs, the rows' width, the norm, a row, all rows, the gradients of the distances and those, and the row's
    /// gradient.
    type Args = (Pairs, usize, f64, usize, *const [T], *const [T], (*const [T], *const [T]), *mut [T]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((pairs, width, p, i, x, y, (g, dist), to): Self::Args) {
        // SAFETY: slices of `distances_backward`.
        let (x, y, g, dist, to) = unsafe { (&*x, &*y, &*g, &*dist, &mut *to) };
        let a = &x[i * width..(i + 1) * width];
        let others = (0..pairs.others()).filter_map(|j| pairs.other(i, j));
        to.fill(T::ZERO);
        if p == 2.0 {
            let factor = |at: usize| if dist[at] == T::ZERO { T::ZERO } else { g[at] / dist[at] };
            let factors: Vec<(usize, T)> = others.map(|(at, row)| (row, factor(at))).collect();
            for (c, (to, a)) in to.chunks_mut(LANES).zip(a.chunks(LANES)).enumerate() {
                let mut sum = [T::ZERO; LANES];
                for (row, factor) in &factors {
                    let b = &y[row * width + c * LANES..][..a.len()];
                    match (<&[T; LANES]>::try_from(a), <&[T; LANES]>::try_from(b)) {
                        (Ok(a), Ok(b)) => (0..LANES).for_each(|k| sum[k] += (a[k] - b[k]) * *factor),
                        _ => sum.iter_mut().zip(a).zip(b).for_each(|((s, a), b)| *s += (*a - *b) * *factor),
                    }
                }
                to.copy_from_slice(&sum[..to.len()]);
            }
            return;
        }
        for (at, row) in others {
            slope::<I, T>(p, a, &y[row * width..(row + 1) * width], g[at], dist[at], to);
        }
    }
}

/// Adds the gradient of the distance `dist` of two rows by the first, times `g`.
#[inline(always)]
fn slope<I: Isa, T: Float + Element>(p: f64, a: &[T], b: &[T], g: T, dist: T, to: &mut [T]) {
    let each = a.iter().zip(b).map(|(a, b)| *a - *b).zip(to);
    if p == 1.0 {
        for (d, to) in each {
            *to += Float::sign::<I>(d) * g;
        }
    } else if p == f64::INFINITY {
        // The distance is rounded where the rows are of lower precision.
        let dist = a.iter().zip(b).fold(T::ZERO, |s, (a, b)| {
            let d = Float::abs::<I>(*a - *b);
            if d > s { d } else { s }
        });
        for (d, to) in each {
            *to += if Float::abs::<I>(d) == dist { Float::sign::<I>(d) * g } else { T::ZERO };
        }
    } else if p != 0.0 && dist != T::ZERO {
        let factor = g / Float::pow::<I>(dist, T::from_f64(p - 1.0));
        let q = T::from_f64(p - 1.0);
        for (d, to) in each {
            let slope = Float::pow::<I>(Float::abs::<I>(d), q) * Float::sign::<I>(d) * factor;
            *to += if d == T::ZERO { T::ZERO } else { slope };
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
