//! Factors multiply to what was factorized, for every dtype and on both sides of every block size.

use flambeau_linalg::{Field, Number, Triangle};
use num_complex::Complex;
use num_traits::ToPrimitive;

/// Numbers in -1..1 that look random (xorshift64*).
fn numbers<T: Field>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| T::from_parts(next(), next())).collect()
}

/// `a b` for matrices `m * k` and `k * n`, each turned first if asked.
fn product<T: Field>(m: usize, k: usize, n: usize, a: &[T], a_turned: bool, b: &[T], b_turned: bool) -> Vec<T> {
    let at = |i: usize, j: usize| if a_turned { a[i * k + j].conjugate() } else { a[j * m + i] };
    let bt = |i: usize, j: usize| if b_turned { b[i * n + j].conjugate() } else { b[j * k + i] };
    let entry = |i: usize, j: usize| (0..k).fold(T::from_parts(0.0, 0.0), |s, l| s + at(i, l) * bt(l, j));
    (0..n).flat_map(|j| (0..m).map(move |i| (i, j))).map(|(i, j)| entry(i, j)).collect()
}

fn close<T: Field>(what: &str, a: &[T], b: &[T]) {
    let eps = if std::mem::size_of::<T::Part>() == 4 { 1e-7 } else { 1e-16 };
    let largest = a.iter().map(|x| x.size().to_f64().unwrap()).fold(1.0, f64::max);
    assert_eq!(a.len(), b.len(), "{what}");
    for (x, y) in a.iter().zip(b) {
        let error = (*x - *y).size().to_f64().unwrap();
        assert!(error <= 2e4 * eps * largest, "{what}: {x:?} {y:?}");
    }
}

fn identity<T: Field>(n: usize) -> Vec<T> {
    (0..n * n).map(|i| T::from_parts(if i % (n + 1) == 0 { 1.0 } else { 0.0 }, 0.0)).collect()
}

fn of_size<T: Field>(m: usize, n: usize) {
    let a = numbers::<T>(m * n, (m * 100 + n) as u64);
    let k = m.min(n);

    let (mut v, mut tau) = (a.clone(), vec![T::default(); k]);
    T::qr(m, n, &mut v, &mut tau);
    let mut r = v.clone();
    (0..n).for_each(|j| (j + 1..m).for_each(|i| r[j * m + i] = T::default()));
    let mut c = r.clone();
    T::apply_reflectors(m, n, &v[..m * k], &tau, true, false, &mut c);
    close("QR", &a, &c);
    T::apply_reflectors(m, n, &v[..m * k], &tau, true, true, &mut c);
    close("Q^H A", &r, &c);
    let mut q = vec![T::default(); m * m];
    q[..m * k].copy_from_slice(&v[..m * k]);
    T::reflectors_to_matrix(m, m, &mut q, &tau);
    close("Q^H Q", &identity::<T>(m), &product(m, m, m, &q, true, &q, false));
    close("Q R", &a, &product(m, m, n, &q, false, &r, false));
    let mut wide = numbers::<T>(3 * m, 7);
    let right = product(3, m, m, &wide, false, &q, true);
    T::apply_reflectors(3, m, &v[..m * k], &tau, false, true, &mut wide);
    close("C Q^H", &right, &wide);
    assert!((0..k).all(|i| r[i * m + i].im() == T::Part::default()), "R has a real diagonal");

    let (mut lu, mut pivots) = (a.clone(), vec![0; k]);
    assert_eq!(T::lu(m, n, &mut lu, &mut pivots), 0);
    let entry = |i: usize, j: usize| {
        let upper = |l: usize| if l <= j { lu[j * m + l] } else { T::default() };
        (0..k.min(i + 1)).fold(T::default(), |s, l| s + if l == i { upper(l) } else { lu[l * m + i] * upper(l) })
    };
    let mut back: Vec<T> = (0..n).flat_map(|j| (0..m).map(move |i| (i, j))).map(|(i, j)| entry(i, j)).collect();
    for (i, p) in pivots.iter().enumerate().rev() {
        back.chunks_exact_mut(m).for_each(|column| column.swap(i, *p as usize - 1));
    }
    close("P L U", &a, &back);

    let (mut s, mut u, mut vh) = (vec![T::Part::default(); k], vec![T::default(); m * k], vec![T::default(); k * n]);
    assert_eq!(T::svd(m, n, &a, &mut s, Some((&mut u, &mut vh))), 0);
    assert!(s.windows(2).all(|w| w[0] >= w[1]));
    u.chunks_exact_mut(m).zip(&s).for_each(|(column, s)| column.iter_mut().for_each(|x| *x = x.scaled(*s)));
    close("U S Vh", &a, &product(m, k, n, &u, false, &vh, false));
}

fn of_order<T: Field>(n: usize) {
    let a = numbers::<T>(n * n, n as u64);
    let b = numbers::<T>(n * 3, 99);

    let (mut lu, mut pivots) = (a.clone(), vec![0; n]);
    T::lu(n, n, &mut lu, &mut pivots);
    for adjoint in [false, true] {
        let mut x = b.clone();
        T::lu_solve(n, 3, &lu, &pivots, adjoint, &mut x);
        close("A x", &b, &product(n, n, 3, &a, adjoint, &x, false));
    }

    // a a^H + 1, positive definite; and a + a^H, which is not.
    let mut definite = product(n, n, n, &a, false, &a, true);
    (0..n).for_each(|i| definite[i * n + i] += T::from_parts(1.0, 0.0));
    let mut lower = definite.clone();
    assert_eq!(T::cholesky(n, &mut lower), 0);
    close("L L^H", &definite, &product(n, n, n, &lower, false, &lower, true));
    for (upper, adjoint, left) in
        [(false, false, true), (false, true, true), (false, false, false), (false, true, false)]
    {
        let mut x = b.clone();
        T::solve_triangular(n, 3, &lower, Triangle { upper, unit: false, adjoint }, left, &mut x);
        let back = match left {
            true => product(n, n, 3, &lower, adjoint, &x, false),
            false => product(3, n, n, &x, false, &lower, adjoint),
        };
        close("triangular", &b, &back);
    }
    definite[n * n - 1] = T::from_parts(-1e9, 0.0);
    assert_eq!(T::cholesky(n, &mut definite), n as i32);

    let turned = |hermitian: bool, i: usize| {
        let x = a[i % n * n + i / n];
        if hermitian { x.conjugate() } else { x }
    };
    for hermitian in [true, false] {
        let symmetric: Vec<T> = (0..n * n).map(|i| a[i] + turned(hermitian, i)).collect();
        let (mut ld, mut pivots, mut x) = (symmetric.clone(), vec![0; n], b.clone());
        assert_eq!(T::ldl(n, hermitian, &mut ld, &mut pivots), 0);
        T::ldl_solve(n, 3, &ld, &pivots, hermitian, &mut x);
        close("LDL", &b, &product(n, n, 3, &symmetric, false, &x, false));
        let b = numbers::<T>(n * 9, 98);
        let mut x = b.clone();
        T::ldl_solve(n, 9, &ld, &pivots, hermitian, &mut x);
        close("LDL by blocks", &b, &product(n, n, 9, &symmetric, false, &x, false));
        if hermitian {
            let (mut values, mut vectors) = (vec![T::Part::default(); n], vec![T::default(); n * n]);
            assert_eq!(T::eigh(n, &symmetric, &mut values, Some(&mut vectors)), 0);
            let mut scaled = vectors.clone();
            scaled.chunks_exact_mut(n).zip(&values).for_each(|(c, l)| c.iter_mut().for_each(|x| *x = x.scaled(*l)));
            close("V L V^H", &symmetric, &product(n, n, n, &scaled, false, &vectors, true));
        }
    }
}

fn general<T: Field>(n: usize)
where
    Complex<T::Part>: Field<Part = T::Part>,
{
    let a = numbers::<T>(n * n, n as u64);
    let zero = Complex::new(T::Part::default(), T::Part::default());
    let (mut values, mut vectors) = (vec![zero; n], vec![zero; n * n]);
    assert_eq!(T::eig(n, &a, &mut values, Some(&mut vectors)), 0);
    let wide: Vec<Complex<T::Part>> = a.iter().map(|x| Complex::new(x.re(), x.im())).collect();
    let mut scaled = vectors.clone();
    scaled.chunks_exact_mut(n).zip(&values).for_each(|(c, l)| c.iter_mut().for_each(|x| *x *= *l));
    close("A V", &product(n, n, n, &wide, false, &vectors, false), &scaled);
    for vector in vectors.chunks_exact(n) {
        let length: f64 = vector.iter().map(|x| x.size_squared().to_f64().unwrap()).sum();
        assert!((length - 1.0).abs() < 1e-5);
    }
}

fn everything<T: Field>()
where
    Complex<T::Part>: Field<Part = T::Part>,
{
    for (m, n) in
        [(1, 1), (5, 3), (3, 5), (8, 8), (12, 16), (16, 9), (17, 17), (40, 33), (33, 70), (100, 100), (130, 40)]
    {
        of_size::<T>(m, n);
    }
    for n in [1, 2, 5, 16, 17, 33, 90] {
        of_order::<T>(n);
        general::<T>(n);
    }
}

/// So many right sides that threads share them out.
#[test]
fn many_right_sides() {
    let (n, k) = (130, 150);
    let mut a = numbers::<f64>(n * n, 5);
    (0..n).for_each(|i| a[i * n + i] += 40.0);
    let b = numbers::<f64>(n * k, 6);
    for (upper, unit, adjoint, left) in [
        (false, false, false, true),
        (true, false, false, true),
        (true, false, true, false),
        (false, false, false, false),
    ] {
        let triangle = Triangle { upper, unit, adjoint };
        let mut x = b.clone();
        f64::solve_triangular(n, k, &a, triangle, left, &mut x);
        let part: Vec<f64> =
            (0..n * n).map(|i| if (i % n <= i / n) == upper || i % n == i / n { a[i] } else { 0.0 }).collect();
        let back = match left {
            true => product(n, n, k, &part, adjoint, &x, false),
            false => product(k, n, n, &x, false, &part, adjoint),
        };
        close("triangular", &b, &back);
    }
}

#[test]
fn single() {
    everything::<f32>();
}
#[test]
fn double() {
    everything::<f64>();
}
#[test]
fn single_complex() {
    everything::<Complex<f32>>();
}
#[test]
fn double_complex() {
    everything::<Complex<f64>>();
}

/// LAPACK goes on after a zero pivot and says where it was.
#[test]
fn singular() {
    for n in [3, 12, 40] {
        let mut a = numbers::<f64>(n * n, 1);
        a[n..2 * n].fill(0.0);
        let (mut lu, mut pivots) = (a.clone(), vec![0; n]);
        assert_eq!(f64::lu(n, n, &mut lu, &mut pivots), 2);
        assert!(lu.iter().all(|x| x.is_finite()));
    }
    let mut zero = vec![0.0f64; 9];
    let mut pivots = [0; 3];
    assert_eq!(f64::lu(3, 3, &mut zero, &mut pivots), 1);
    assert_eq!(pivots, [1, 2, 3]);
}
