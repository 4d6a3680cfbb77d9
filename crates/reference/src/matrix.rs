//! Matrices of real or complex numbers, and batches of them.

use crate::array::{Arithmetic, Array, write};
use flambeau::{Complex64, Error, ErrorKind, Result, Tensor};
use std::ops::{Index, IndexMut};

/// What factorizations need of a number.
pub(crate) trait Number: Arithmetic {
    fn minus(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn conjugate(self) -> Self;
    fn real(self) -> f64;
    fn from_real(x: f64) -> Self;
    /// The absolute value.
    fn size(self) -> f64;
    /// The sum of the parts' absolute values, by which LAPACK chooses pivots.
    fn rough_size(self) -> f64;
}
impl Number for f64 {
    fn minus(self, other: f64) -> f64 {
        self - other
    }
    fn over(self, other: f64) -> f64 {
        self / other
    }
    fn conjugate(self) -> f64 {
        self
    }
    fn real(self) -> f64 {
        self
    }
    fn from_real(x: f64) -> f64 {
        x
    }
    fn size(self) -> f64 {
        self.abs()
    }
    fn rough_size(self) -> f64 {
        self.abs()
    }
}
impl Number for Complex64 {
    fn minus(self, other: Complex64) -> Complex64 {
        self - other
    }
    fn over(self, other: Complex64) -> Complex64 {
        self / other
    }
    fn conjugate(self) -> Complex64 {
        self.conj()
    }
    fn real(self) -> f64 {
        self.re
    }
    fn from_real(x: f64) -> Complex64 {
        x.into()
    }
    fn size(self) -> f64 {
        self.norm()
    }
    fn rough_size(self) -> f64 {
        self.re.abs() + self.im.abs()
    }
}

/// Computes with the numbers of a dtype that matrices are factorized in: `by_number!(dtype, T => expression)`.
macro_rules! by_number {
    ($dtype:expr, $t:ident => $e:expr) => {
        if $dtype.is_complex() {
            type $t = flambeau::Complex64;
            $e
        } else {
            type $t = f64;
            $e
        }
    };
}
pub(crate) use by_number;

/// Numbers in rows and columns.
#[derive(Clone, Debug)]
pub(crate) struct Matrix<T> {
    pub rows: usize,
    pub columns: usize,
    data: Vec<T>,
}

impl<T> Index<(usize, usize)> for Matrix<T> {
    type Output = T;
    fn index(&self, (row, column): (usize, usize)) -> &T {
        &self.data[row * self.columns + column]
    }
}
impl<T> IndexMut<(usize, usize)> for Matrix<T> {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut T {
        &mut self.data[row * self.columns + column]
    }
}

impl<T: Number> Matrix<T> {
    /// With the element that `f` gives for a row and a column.
    pub fn new(rows: usize, columns: usize, f: impl Fn(usize, usize) -> T) -> Matrix<T> {
        let data = (0..rows * columns).map(|i| f(i / columns, i % columns)).collect();
        Matrix { rows, columns, data }
    }

    /// Ones on the diagonal.
    pub fn identity(rows: usize, columns: usize) -> Matrix<T> {
        Matrix::new(rows, columns, |i, j| if i == j { T::one() } else { T::zero() })
    }

    pub fn transpose(&self) -> Matrix<T> {
        Matrix::new(self.columns, self.rows, |i, j| self[(j, i)])
    }

    pub fn adjoint(&self) -> Matrix<T> {
        Matrix::new(self.columns, self.rows, |i, j| self[(j, i)].conjugate())
    }

    pub fn column(&self, j: usize) -> Vec<T> {
        (0..self.rows).map(|i| self[(i, j)]).collect()
    }

    pub fn set_column(&mut self, j: usize, column: &[T]) {
        column.iter().enumerate().for_each(|(i, x)| self[(i, j)] = *x);
    }

    pub fn swap_rows(&mut self, a: usize, b: usize) {
        (0..self.columns).for_each(|j| self.data.swap(a * self.columns + j, b * self.columns + j));
    }

    pub fn swap_columns(&mut self, a: usize, b: usize) {
        (0..self.rows).for_each(|i| self.data.swap(i * self.columns + a, i * self.columns + b));
    }

    /// Whether no element is infinite or NaN.
    pub fn is_finite(&self) -> bool {
        self.data.iter().all(|x| x.size().is_finite())
    }
}

/// The inner product of two vectors, of which the first is conjugated.
pub(crate) fn inner<T: Number>(x: &[T], y: &[T]) -> T {
    x.iter().zip(y).fold(T::zero(), |s, (x, y)| s.plus(x.conjugate().times(*y)))
}

/// The Euclidean length of a vector.
pub(crate) fn length<T: Number>(x: &[T]) -> f64 {
    x.iter().map(|x| x.size() * x.size()).sum::<f64>().sqrt()
}

/// The dims before a matrix's.
pub(crate) fn batch(t: &Tensor) -> &[i64] {
    &t.sizes()[..t.dim() - 2]
}

/// Every matrix of a batch, the batch dims broadcast to `over`.
pub(crate) fn read_matrices<T: Number>(t: &Tensor, over: &[i64]) -> Result<Vec<Matrix<T>>> {
    let item = &t.sizes()[t.dim() - 2..];
    let (rows, columns) = (item[0] as usize, item[1] as usize);
    let all = Array::<T>::read_as(t, &[over, item].concat())?.data;
    let count = over.iter().product::<i64>() as usize;
    let part = |b: usize| all[b * rows * columns..(b + 1) * rows * columns].to_vec();
    Ok((0..count).map(|b| Matrix { rows, columns, data: part(b) }).collect())
}

/// Every vector of a batch, the batch dims broadcast to `over`.
pub(crate) fn read_vectors<T: flambeau::Element>(t: &Tensor, over: &[i64]) -> Result<Vec<Vec<T>>> {
    let size = t.sizes()[t.dim() - 1];
    let all = Array::<T>::read_as(t, &[over, &[size]].concat())?.data;
    let count = over.iter().product::<i64>() as usize;
    Ok((0..count).map(|b| all[b * size as usize..(b + 1) * size as usize].to_vec()).collect())
}

/// A tensor like `outline` of these matrices.
pub(crate) fn write_matrices<T: Number>(outline: &Tensor, all: &[Matrix<T>]) -> Result<Tensor> {
    write(outline, &all.iter().flat_map(|m| m.data.iter().copied()).collect::<Vec<T>>())
}

/// Raises what a factorization reports of the first matrix of a batch that failed.
pub(crate) fn raise(
    op: &str,
    reports: &[i64],
    batched: bool,
    kind: ErrorKind,
    says: impl Fn(i64) -> String,
) -> Result<()> {
    let Some(at) = reports.iter().position(|report| *report != 0) else { return Ok(()) };
    let place = if batched { format!("(Batch element {at}): ") } else { String::new() };
    Err(Error::new(kind, format!("{op}: {place}{}", says(reports[at]))))
}
