//! Singular values and eigenvalues: faer's algorithms, with LAPACK's lengths and phases of eigenvectors.

use crate::number::convert;
use crate::{Number, bidiagonal, conquer, general, reduction, tridiagonal};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::{MatMut, MatRef, Par};
use flambeau_base::fast_paths::FastPath;
use num_complex::Complex;
use num_traits::{Float, NumCast, One, Zero};

/// What says that an algorithm did not converge.
const FAILED: i32 = 1;

fn zeros<T: Number>(n: usize) -> Vec<T> {
    vec![<T as Zero>::zero(); n]
}

fn identity<T: Number>(n: usize, a: &mut [T]) {
    a.fill(<T as Zero>::zero());
    for i in 0..n {
        a[i * n + i] = <T as One>::one();
    }
}

fn real<S: Number, D: Number>(x: S) -> D::Part {
    <D::Part as NumCast>::from(x.re()).unwrap_or_else(D::Part::nan)
}

pub fn svd<T: Number, W: Number>(
    m: usize,
    n: usize,
    a: &[T],
    s: &mut [T::Part],
    vectors: Option<(&mut [T], &mut [T])>,
) -> i32 {
    let k = m.min(n);
    if k == 0 {
        if let Some((u, vh)) = vectors {
            // All vectors of a matrix without columns or rows.
            let full = |len: usize, n: usize| if len == n * n { n } else { 0 };
            identity(full(u.len(), m), u);
            identity(full(vh.len(), n), vh);
        }
        return 0;
    }
    let wide: Vec<W> = a.iter().map(|&x| convert(x)).collect();
    let mut vectors = vectors;
    if size_of::<T>() < size_of::<W>() && FastPath::LinalgSvd.is_on() {
        let found = match &mut vectors {
            None => bidiagonal::values(m, n, &wide, s),
            Some((u, vh)) => bidiagonal::vectors(m, n, &wide, s, u, vh),
        };
        if found {
            return 0;
        }
    }
    let mut values = zeros::<W>(k);
    let (u_columns, v_rows) = vectors.as_ref().map_or((0, 0), |(u, vh)| (u.len() / m, vh.len() / n));
    let (mut u, mut v) = (zeros::<W>(m * u_columns), zeros::<W>(n * v_rows));
    let wanted = |count: usize| match count {
        0 => ComputeSvdVectors::No,
        c if c == k => ComputeSvdVectors::Thin,
        _ => ComputeSvdVectors::Full,
    };
    let scratch = svd::svd_scratch::<W>(m, n, wanted(u_columns), wanted(v_rows), Par::Seq, Default::default());
    let done = svd::svd(
        MatRef::from_column_major_slice(&wide, m, n),
        DiagMut::from_slice_mut(&mut values),
        (u_columns > 0).then(|| MatMut::from_column_major_slice_mut(&mut u, m, u_columns)),
        (v_rows > 0).then(|| MatMut::from_column_major_slice_mut(&mut v, n, v_rows)),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    );
    for (s, x) in s.iter_mut().zip(values) {
        *s = real::<W, T>(x);
    }
    if let Some((to_u, to_vh)) = vectors {
        for (to, x) in to_u.iter_mut().zip(u) {
            *to = convert(x);
        }
        for (j, row) in v.chunks_exact(n).enumerate() {
            for (i, &x) in row.iter().enumerate() {
                to_vh[i * v_rows + j] = convert(x.conjugate());
            }
        }
    }
    if done.is_ok() { 0 } else { FAILED }
}

/// What to divide a matrix by so that squares of its elements are in range: 1 unless they are far out.
fn scale_of<W: Number>(a: &[W]) -> f64 {
    let largest: f64 = convert(a.iter().fold(W::Part::zero(), |m, x| Float::max(m, x.rough_size())));
    if largest == 0.0 || (1e-100..1e100).contains(&largest) { 1.0 } else { largest.max(1e-300) }
}

pub fn eigh<T: Number, W: Number>(n: usize, a: &[T], values: &mut [T::Part], vectors: Option<&mut [T]>) -> i32 {
    if n == 0 {
        return 0;
    }
    let mut wide: Vec<W> = a.iter().map(|&x| convert(x)).collect();
    for i in 0..n {
        // The diagonal is meant to be real.
        wide[i * n + i] = W::from_real(wide[i * n + i].re());
    }
    let scale = scale_of(&wide);
    if scale != 1.0 {
        let by = <W::Part as NumCast>::from(1.0 / scale).unwrap_or_else(W::Part::one);
        wide.iter_mut().for_each(|x| *x = x.scaled(by));
    }
    let mut reduced = reduction::tridiagonal(n, wide, vectors.is_some());
    let found = match vectors {
        None => {
            let precision = if size_of::<T::Part>() < size_of::<f64>() { f32::EPSILON as f64 / 32.0 } else { 0.0 };
            tridiagonal::eigenvalues(&mut reduced.diagonal, &mut reduced.beside, precision)
        }
        Some(vectors) => {
            let mut own = vec![0.0; n * n];
            let found = conquer::eigenvectors(&mut reduced.diagonal, &mut reduced.beside, &mut own);
            reduced.restore(&own, vectors);
            found
        }
    };
    for (to, value) in values.iter_mut().zip(reduced.diagonal) {
        *to = convert(value * scale);
    }
    if found { 0 } else { FAILED }
}

/// Writes eigenvectors of length one whose largest element is real.
fn normalised<R: Number<Part = R>>(n: usize, found: &[Complex<f64>], to: &mut [Complex<R>], rotate: bool) {
    for (from, to) in found.chunks_exact(n).zip(to.chunks_exact_mut(n)) {
        let length = from.iter().map(|x| x.norm_sqr()).sum::<f64>().sqrt();
        let mut largest = Complex::new(0.0, 0.0);
        for x in from {
            if x.norm_sqr() > largest.norm_sqr() {
                largest = *x;
            }
        }
        let phase = if rotate && !largest.is_zero() { largest.conj() / largest.norm() } else { Complex::new(1.0, 0.0) };
        for (from, to) in from.iter().zip(to) {
            let mut x = from / length * phase;
            if rotate && *from == largest {
                x.im = 0.0;
            }
            *to = part(x);
        }
    }
}

fn part<R: Number<Part = R>>(x: Complex<f64>) -> Complex<R> {
    Complex::new(convert(x.re), convert(x.im))
}

pub fn eig_real<T: Number<Part = T>>(
    n: usize,
    a: &[T],
    values: &mut [Complex<T>],
    vectors: Option<&mut [Complex<T>]>,
) -> i32 {
    if n == 0 {
        return 0;
    }
    let mut wide: Vec<f64> = a.iter().map(|&x| convert(x)).collect();
    let scale = scale_of(&wide);
    if scale != 1.0 {
        wide.iter_mut().for_each(|x| *x /= scale);
    }
    let (mut re, mut im) = (vec![0.0; n], vec![0.0; n]);
    let mut u = vec![0.0; if vectors.is_some() { n * n } else { 0 }];
    let wanted = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let found = if n <= general::MOST[vectors.is_some() as usize] {
        general::eigen(n, &wide, &mut re, &mut im, vectors.is_some().then_some(&mut u[..]))
    } else {
        let scratch = evd::evd_scratch::<f64>(n, ComputeEigenvectors::No, wanted, Par::Seq, Default::default());
        let done = evd::evd_real(
            MatRef::from_column_major_slice(&wide, n, n),
            DiagMut::from_slice_mut(&mut re),
            DiagMut::from_slice_mut(&mut im),
            None,
            vectors.is_some().then(|| MatMut::from_column_major_slice_mut(&mut u, n, n)),
            Par::Seq,
            MemStack::new(&mut MemBuffer::new(scratch)),
            Default::default(),
        );
        done.is_ok()
    };
    for i in 0..n {
        values[i] = part(Complex::new(re[i] * scale, im[i] * scale));
    }
    if let Some(vectors) = vectors {
        let mut j = 0;
        while j < n {
            // A conjugate pair's real and imaginary parts stand in two columns.
            let pair = im[j] != 0.0 && j + 1 < n;
            let column =
                |i: usize, sign: f64| Complex::new(u[j * n + i], if pair { sign * u[(j + 1) * n + i] } else { 0.0 });
            for (k, sign) in [1.0, -1.0].into_iter().take(1 + pair as usize).enumerate() {
                let whole: Vec<_> = (0..n).map(|i| column(i, sign)).collect();
                normalised(n, &whole, &mut vectors[(j + k) * n..(j + k + 1) * n], pair);
            }
            j += 1 + pair as usize;
        }
    }
    if found { 0 } else { FAILED }
}

pub fn eig_complex<T: Number>(
    n: usize,
    a: &[T],
    values: &mut [Complex<T::Part>],
    vectors: Option<&mut [Complex<T::Part>]>,
) -> i32 {
    if n == 0 {
        return 0;
    }
    let wide: Vec<Complex<f64>> = a.iter().map(|&x| convert(x)).collect();
    let mut found = zeros::<Complex<f64>>(n);
    let mut u = zeros::<Complex<f64>>(if vectors.is_some() { n * n } else { 0 });
    let wanted = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let scratch = evd::evd_scratch::<Complex<f64>>(n, ComputeEigenvectors::No, wanted, Par::Seq, Default::default());
    let done = evd::evd_cplx(
        MatRef::from_column_major_slice(&wide, n, n),
        DiagMut::from_slice_mut(&mut found),
        None,
        vectors.is_some().then(|| MatMut::from_column_major_slice_mut(&mut u, n, n)),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    );
    for (value, x) in values.iter_mut().zip(found) {
        *value = part(x);
    }
    if let Some(vectors) = vectors {
        normalised(n, &u, vectors, true);
    }
    if done.is_ok() { 0 } else { FAILED }
}
