//! Hermitian matrices to real tridiagonal ones, by reflectors from both sides: small ones by plain loops, without the blocked
//! algorithm's set-up, others by faer's.

use crate::Number;
use crate::householder::{self, reflector};
use crate::number::convert;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::tridiag;
use faer::{MatMut, Par};
use num_traits::{NumCast, One, Zero};
use pulp::{Arch, NullaryFnOnce};

/// Up to this order loops over whole columns are faster.
const PLAIN: usize = 24;
/// Columns of small matrices are filled up to a multiple of this length, so that no loop has a remainder.
pub const LANES: usize = 8;

/// A real tridiagonal matrix, and how to come back from it: the given matrix's eigenvectors are `H1 H2 ... P` times this
/// one's, with reflectors H and a diagonal P.
pub struct Reduced<W> {
    pub diagonal: Vec<f64>,
    /// One shorter.
    pub beside: Vec<f64>,
    /// `n * n`: each reflector in a column below the diagonal, where a 1 is meant; the first has none. Empty if not wanted.
    pub reflectors: Vec<W>,
    pub tau: Vec<W>,
    /// The diagonal of P.
    pub phases: Vec<W>,
}

impl<W: Number> Reduced<W> {
    /// The given matrix's eigenvectors from the tridiagonal one's.
    pub fn restore<T: Number>(&self, own: &[f64], vectors: &mut [T]) {
        let n = self.diagonal.len();
        for (to, own) in vectors.chunks_exact_mut(n).zip(own.chunks_exact(n)) {
            for ((to, own), phase) in to.iter_mut().zip(own).zip(&self.phases) {
                *to = convert(phase.scaled(convert(*own)));
            }
        }
        let reflectors: Vec<T> = self.reflectors.iter().map(|&x| convert(x)).collect();
        let tau: Vec<T> = self.tau.iter().map(|&x| convert(x)).collect();
        if n <= PLAIN {
            for (k, (v, &tau)) in reflectors.chunks_exact(n).zip(&tau).enumerate().rev() {
                householder::reflect(&v[k..], tau, vectors, n, k);
            }
        } else {
            householder::apply(n, n, &reflectors, &tau, true, false, vectors);
        }
    }
}

/// Reduces a matrix whose lower triangle is read.
pub fn tridiagonal<W: Number>(n: usize, a: Vec<W>, wants_vectors: bool) -> Reduced<W> {
    let mut reduced = Reduced {
        diagonal: vec![0.0; n],
        beside: vec![0.0; n - 1],
        reflectors: vec![W::zero(); if wants_vectors { n * n } else { 0 }],
        tau: vec![W::zero(); n],
        phases: vec![<W as One>::one(); n],
    };
    if n <= PLAIN {
        Arch::new().dispatch(Plain { n, a: &a, to: &mut reduced });
    } else {
        blocked(n, a, &mut reduced);
    }
    reduced
}

fn blocked<W: Number>(n: usize, mut a: Vec<W>, to: &mut Reduced<W>) {
    let scratch = tridiag::tridiag_in_place_scratch::<W>(n, Par::Seq, Default::default());
    tridiag::tridiag_in_place(
        MatMut::from_column_major_slice_mut(&mut a, n, n),
        MatMut::from_column_major_slice_mut(&mut to.tau[1..], 1, n - 1),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    );
    to.diagonal.iter_mut().enumerate().for_each(|(i, x)| *x = convert(a[i * n + i].re()));
    for (i, x) in to.beside.iter_mut().enumerate() {
        let (found, phase) = (a[i * n + i + 1], to.phases[i]);
        let size = found.size();
        *x = convert(size);
        to.phases[i + 1] = if size.is_zero() { phase } else { phase * found.scaled(W::Part::one() / size) };
    }
    // Its factors are inverse.
    to.tau[1..].iter_mut().for_each(|tau| *tau = W::from_real(W::Part::one() / tau.re()));
    for (column, found) in to.reflectors.chunks_exact_mut(n).skip(1).zip(a.chunks_exact(n)) {
        column.copy_from_slice(found);
    }
}

/// The arguments of the plain loops; a type, so that they are compiled for each set of vector instructions.
struct Plain<'a, W> {
    n: usize,
    a: &'a [W],
    to: &'a mut Reduced<W>,
}

impl<W: Number> NullaryFnOnce for Plain<'_, W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Plain { n, a, to } = self;
        let rows = n.next_multiple_of(LANES);
        // Both triangles, and two vectors.
        let mut memory = vec![W::zero(); rows * (n + 2)];
        let (matrix, vectors) = memory.split_at_mut(rows * n);
        let (v, w) = vectors.split_at_mut(rows);
        for j in 0..n {
            for i in j..n {
                matrix[j * rows + i] = a[j * n + i];
                matrix[i * rows + j] = a[j * n + i].conjugate();
            }
        }
        let half = <W::Part as NumCast>::from(0.5).unwrap_or_else(W::Part::one);
        for k in 0..n {
            to.diagonal[k] = convert(matrix[k * rows + k].re());
            if k + 1 == n {
                break;
            }
            v[..=k].fill(W::zero());
            v[k + 1..n].copy_from_slice(&matrix[k * rows + k + 1..k * rows + n]);
            let tau = reflector(&mut v[k + 1..n]);
            to.beside[k] = convert(v[k + 1].re());
            v[k + 1] = W::one();
            if tau.is_zero() {
                continue;
            }
            // From a multiple of the lanes on: what is above is stale, and multiplied by zeros.
            let start = (k + 1) / LANES * LANES;
            let (v, w) = (&v[start..], &mut w[start..]);
            let below = k + 1 - start;
            w.fill(W::zero());
            for (column, &by) in matrix.chunks_exact(rows).skip(k + 1).zip(&v[below..]) {
                add(w, &column[start..], by);
            }
            w[..below].fill(W::zero());
            let product = v.iter().zip(&*w).fold(W::zero(), |sum, (v, w)| sum + v.conjugate() * *w) * tau;
            let by = W::from_real(-half * (tau.conjugate() * product).re());
            w.iter_mut().zip(v).for_each(|(w, &v)| *w = *w * tau + v * by);
            for (column, (v_j, w_j)) in
                matrix.chunks_exact_mut(rows).skip(k + 1).zip(v[below..].iter().zip(&w[below..]))
            {
                add(&mut column[start..], v, -w_j.conjugate());
                add(&mut column[start..], w, -v_j.conjugate());
            }
            if let Some(column) = to.reflectors.get_mut((k + 1) * n..(k + 2) * n) {
                column[k + 1..].copy_from_slice(&v[below..n - start]);
                to.tau[k + 1] = tau;
            }
        }
    }
}

/// Adds a multiple of a column to another; they have whole groups of lanes.
#[inline(always)]
pub fn add<W: Number>(to: &mut [W], column: &[W], by: W) {
    for (to, column) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(column.as_chunks::<LANES>().0) {
        for (x, &c) in to.iter_mut().zip(column) {
            *x += c * by;
        }
    }
}
