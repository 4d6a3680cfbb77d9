//! Tensors as plain lists of numbers with sizes.

use flambeau::{Complex64, DType, Device, Op, Outputs, OwnedValue, Result, Tensor, Value, dims};

/// Numbers in row-major order.
pub(crate) struct Array<T> {
    pub sizes: Vec<usize>,
    pub data: Vec<T>,
}

impl<T: flambeau::Element> Array<T> {
    /// The elements of a tensor, converted.
    pub fn read(t: &Tensor) -> Result<Array<T>> {
        Ok(Array { sizes: sizes_of(t), data: t.to_vec()? })
    }

    /// The same broadcast to `sizes`.
    pub fn read_as(t: &Tensor, sizes: &[i64]) -> Result<Array<T>> {
        Self::read(&t.expand(sizes)?)
    }
}

/// The place of an index in row-major order.
pub(crate) fn place(sizes: &[usize], index: &[usize]) -> usize {
    index.iter().zip(sizes).fold(0, |at, (i, n)| at * n + i)
}

/// Every index of an array of these sizes in row-major order.
pub(crate) fn indices(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &n in sizes {
        all = all.into_iter().flat_map(|head| (0..n).map(move |i| [&head[..], &[i]].concat())).collect();
    }
    all
}

/// How numbers of a dtype are computed with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Booleans and integers, as `i64`; wraps.
    Integer,
    /// Floating point, as `f64`.
    Real,
    /// Complex, as two `f64`.
    Complex,
}

impl Kind {
    pub fn of(dtype: DType) -> Kind {
        match dtype {
            d if d.is_complex() => Kind::Complex,
            d if d.is_floating_point() => Kind::Real,
            _ => Kind::Integer,
        }
    }
}

/// What the operator gives for its arguments on Meta. Checks them, too.
fn on_meta(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let meta = |t: &Tensor| Tensor::empty_strided(t.sizes(), t.strides(), (t.dtype(), Device::META));
    let mut moved = Vec::new();
    for a in args {
        moved.push(match a.to_owned() {
            OwnedValue::Tensor(t) => OwnedValue::Tensor(meta(&t)?),
            OwnedValue::Tensors(ts) => OwnedValue::Tensors(ts.iter().map(meta).collect::<Result<_>>()?),
            OwnedValue::OptionalTensors(ts) => {
                OwnedValue::OptionalTensors(ts.iter().map(|t| t.as_ref().map(meta).transpose()).collect::<Result<_>>()?)
            }
            other => other,
        });
    }
    let borrowed: Vec<Value<'_>> = moved.iter().map(OwnedValue::borrow).collect();
    op.redispatch(flambeau::KeySet::of(flambeau::Key::META), &borrowed)
}

/// The results' sizes and dtypes, as the operator's shape rule has them: tensors on Meta.
pub(crate) fn outline(op: &'static Op, args: &[Value<'_>]) -> Result<Vec<Tensor>> {
    on_meta(op, args)?.list()
}

/// The same of an operator that gives only the results it is asked for.
pub(crate) fn outlines(op: &'static Op, args: &[Value<'_>]) -> Result<Vec<Option<Tensor>>> {
    Ok(match on_meta(op, args)? {
        Outputs::Many(all) => all,
        other => other.list()?.into_iter().map(Some).collect(),
    })
}

/// The sizes of a tensor.
pub(crate) fn sizes_of(t: &Tensor) -> Vec<usize> {
    t.sizes().iter().map(|n| *n as usize).collect()
}

/// A tensor like `outline` with these elements.
pub(crate) fn write<T: flambeau::Element>(outline: &Tensor, data: &[T]) -> Result<Tensor> {
    let values = Tensor::from_slice_of(data, outline.sizes())?;
    Tensor::empty_strided(outline.sizes(), outline.strides(), outline.dtype())?.copy_(&values)
}

/// Computes with the numbers of the right kind: `by_kind!(kind, T => expression)`.
macro_rules! by_kind {
    ($kind:expr, $t:ident => $e:expr) => {
        match $kind {
            $crate::array::Kind::Integer => {
                type $t = i64;
                $e
            }
            $crate::array::Kind::Real => {
                type $t = f64;
                $e
            }
            $crate::array::Kind::Complex => {
                type $t = flambeau::Complex64;
                $e
            }
        }
    };
}
pub(crate) use by_kind;

/// What sums and products need of a number; integers wrap.
pub(crate) trait Arithmetic: flambeau::Element + PartialEq {
    fn zero() -> Self;
    fn one() -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}
impl Arithmetic for i64 {
    fn zero() -> i64 {
        0
    }
    fn one() -> i64 {
        1
    }
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
    fn times(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }
}
impl Arithmetic for f64 {
    fn zero() -> f64 {
        0.0
    }
    fn one() -> f64 {
        1.0
    }
    fn plus(self, other: f64) -> f64 {
        self + other
    }
    fn times(self, other: f64) -> f64 {
        self * other
    }
}
impl Arithmetic for Complex64 {
    fn zero() -> Complex64 {
        Complex64::new(0.0, 0.0)
    }
    fn one() -> Complex64 {
        Complex64::new(1.0, 0.0)
    }
    fn plus(self, other: Complex64) -> Complex64 {
        self + other
    }
    fn times(self, other: Complex64) -> Complex64 {
        self * other
    }
}

/// A dimension counted from the front.
pub(crate) fn wrap(dim: i64, t: &Tensor) -> Result<usize> {
    dims::wrap_dim(dim, t.dim())
}
