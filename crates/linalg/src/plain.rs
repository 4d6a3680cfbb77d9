//! Small matrices to bidiagonal ones by loops over whole columns, without the blocked algorithm's set-up and without keeping
//! reflectors.

use crate::Number;
use crate::householder::reflector;
use crate::number::convert;
use crate::reduction::{LANES, add};
use pulp::{Arch, NullaryFnOnce};

/// Up to this order, of the shorter side, these loops are faster.
pub const MOST: usize = 24;

/// The squares of the elements of an upper bidiagonal matrix with the same singular values: on the diagonal, and right of it.
pub fn squares<W: Number>(m: usize, n: usize, a: &[W]) -> Vec<(f64, f64)> {
    Arch::new().dispatch(Squares { m, n, a })
}

/// The arguments of [`squares`]; a type, so that its loops are compiled for each set of vector instructions.
struct Squares<'a, W> {
    m: usize,
    n: usize,
    a: &'a [W],
}

impl<W: Number> NullaryFnOnce for Squares<'_, W> {
    type Output = Vec<(f64, f64)>;

    #[inline(always)]
    fn call(self) -> Vec<(f64, f64)> {
        let Squares { m, n, a } = self;
        let (height, order) = (m.max(n), m.min(n));
        let rows = height.next_multiple_of(LANES);
        // The matrix or its transpose, and two vectors.
        let mut memory = vec![W::zero(); rows * (order + 2) + order];
        let (matrix, vectors) = memory.split_at_mut(rows * order);
        let (v, rest) = vectors.split_at_mut(rows);
        let (sum, row) = rest.split_at_mut(rows);
        for (j, column) in matrix.chunks_exact_mut(rows).enumerate() {
            match m < n {
                true => column.iter_mut().zip(a[j..].iter().step_by(m)).for_each(|(to, &x)| *to = x),
                false => column[..m].copy_from_slice(&a[j * m..(j + 1) * m]),
            }
        }
        let mut found = Vec::with_capacity(order);
        for k in 0..order {
            let (before, columns) = matrix.split_at_mut((k + 1) * rows);
            v[..k].fill(W::zero());
            v[k..].copy_from_slice(&before[k * rows + k..]);
            let tau = reflector(&mut v[k..height]).conjugate();
            let diagonal = v[k];
            v[k] = W::one();
            // From a multiple of the lanes on: what is above is done with.
            let start = k / LANES * LANES;
            for column in columns.chunks_exact_mut(rows) {
                let by = product(&v[start..], &column[start..]) * tau;
                add(&mut column[start..], &v[start..], -by);
            }
            let row = &mut row[k + 1..];
            for (to, column) in row.iter_mut().zip(columns.chunks_exact(rows)) {
                *to = column[k].conjugate();
            }
            let tau = reflector(row);
            let above = row.first().map_or(W::zero(), |x| *x);
            found.push((convert(diagonal.size_squared()), convert(above.size_squared())));
            if let Some(first) = row.first_mut() {
                *first = W::one();
            }
            sum.fill(W::zero());
            for (column, &by) in columns.chunks_exact(rows).zip(&*row) {
                add(&mut sum[start..], &column[start..], by);
            }
            for (column, by) in columns.chunks_exact_mut(rows).zip(&*row) {
                add(&mut column[start..], &sum[start..], -(by.conjugate() * tau));
            }
        }
        found
    }
}

/// The sum of products of the first, conjugated, and the second; they have whole groups of lanes.
#[inline(always)]
fn product<W: Number>(x: &[W], y: &[W]) -> W {
    let mut parts = [W::zero(); LANES];
    for (x, y) in x.as_chunks::<LANES>().0.iter().zip(y.as_chunks::<LANES>().0) {
        for ((part, &x), &y) in parts.iter_mut().zip(x).zip(y) {
            *part += x.conjugate() * y;
        }
    }
    let [a, b, c, d, e, f, g, h] = parts;
    ((a + e) + (b + f)) + ((c + g) + (d + h))
}
