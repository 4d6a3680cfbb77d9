//! Elements written by index with a reduction, filled by index, and read and written by their place in row-major order.

use crate::Kernel;
use crate::array::{Arithmetic, Array, Kind, by_kind, indices, outline, place, sizes_of, wrap, write};
use crate::indexing::{check, overwrite};
use flambeau::value::take;
use flambeau::{Complex64, Error, Op, Operand, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("scatter_reduce_.two", |op, args| reduce_into(op, args, false)),
    ("index_reduce_", |op, args| reduce_into(op, args, true)),
    ("index_fill_.int_Scalar", fill),
    ("index_fill_.int_Tensor", fill),
    ("put_", put),
    ("take", pick),
];

/// What the reductions need of a number beside sums and products.
trait Reduced: Arithmetic {
    /// The quotient by how many there are; of integers rounded down.
    fn shared(self, count: i64) -> Self;
    /// Whether it is greater than another, or NaN.
    fn exceeds(self, other: Self) -> bool;
    /// Whether it is less than another, or NaN.
    fn undercuts(self, other: Self) -> bool;
}
impl Reduced for i64 {
    fn shared(self, count: i64) -> i64 {
        self.div_euclid(count)
    }
    fn exceeds(self, other: i64) -> bool {
        self > other
    }
    fn undercuts(self, other: i64) -> bool {
        self < other
    }
}
impl Reduced for f64 {
    fn shared(self, count: i64) -> f64 {
        self / count as f64
    }
    fn exceeds(self, other: f64) -> bool {
        self > other || self.is_nan()
    }
    fn undercuts(self, other: f64) -> bool {
        self < other || self.is_nan()
    }
}
/// Complex numbers have no order: their extremes are refused on Meta.
impl Reduced for Complex64 {
    fn shared(self, count: i64) -> Complex64 {
        self / count as f64
    }
    fn exceeds(self, _: Complex64) -> bool {
        false
    }
    fn undercuts(self, _: Complex64) -> bool {
        false
    }
}

/// One number from some; there is one at least.
fn reduced<T: Reduced>(members: &[T], how: &str) -> T {
    let fold = |f: fn(T, T) -> T| members[1..].iter().fold(members[0], |a, b| f(a, *b));
    match how {
        "sum" => fold(T::plus),
        "prod" => fold(T::times),
        "mean" => fold(T::plus).shared(members.len() as i64),
        "amax" => fold(|a, b| if b.exceeds(a) { b } else { a }),
        _ => fold(|a, b| if b.undercuts(a) { b } else { a }),
    }
}

/// Sizes with one dim at least.
fn at_least_1d(sizes: Vec<usize>) -> Vec<usize> {
    if sizes.is_empty() { vec![1] } else { sizes }
}

/// Reduces the elements of a source into those that an index along a dim says: one index for each element, or one for
/// each slice. What nothing goes to stays.
fn reduce_into(op: &'static Op, args: &[Value<'_>], by_slice: bool) -> Result<Outputs> {
    outline(op.functional(), args)?;
    let (x, picks, source): (&Tensor, &Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 2)?, take(op, args, 3)?);
    let dim = if x.dim() == 0 { 0 } else { wrap(take(op, args, 1)?, x)? };
    let how: &str = take(op, args, 4)?;
    let with_self = take::<Option<bool>>(op, args, 5)?.unwrap_or(true);
    let (sizes, source_sizes) = (at_least_1d(sizes_of(x)), at_least_1d(sizes_of(source)));
    let picks_sizes = at_least_1d(sizes_of(picks));
    let picks = Array::<i64>::read(picks)?.data;
    let walked = if by_slice { &source_sizes } else { &picks_sizes };
    by_kind!(Kind::of(x.dtype()), T => {
        let source = Array::<T>::read(source)?.data;
        let target = Array::<T>::read(x)?.data;
        let mut members: Vec<Vec<T>> = vec![vec![]; target.len()];
        for index in indices(walked) {
            let which = if by_slice { picks[index[dim]] } else { picks[place(&picks_sizes, &index)] };
            let mut to = index.clone();
            to[dim] = check(which, dim, sizes[dim]).map_err(|e| match by_slice {
                true => Error::index("index out of range in self"),
                false => e,
            })?;
            members[place(&sizes, &to)].push(source[place(&source_sizes, &index)]);
        }
        let result = |(old, members): (&T, Vec<T>)| match (members.is_empty(), with_self) {
            (true, _) => *old,
            (false, true) => reduced(&[&[*old], &members[..]].concat(), how),
            (false, false) => reduced(&members, how),
        };
        overwrite(x, &target.iter().zip(members).map(result).collect::<Vec<T>>())
    })
}

fn fill(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    outline(op.functional(), args)?;
    let (x, picks): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 2)?);
    let dim = if x.dim() == 0 { 0 } else { wrap(take(op, args, 1)?, x)? };
    let value = match take::<Operand<'_>>(op, args, 3)? {
        Operand::Scalar(value) => value,
        Operand::Tensor(t) if t.dim() == 0 => t.item()?,
        Operand::Tensor(t) => {
            return Err(Error::runtime(format!(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                t.dim()
            )));
        }
    };
    let sizes = at_least_1d(sizes_of(x));
    let mut chosen = Vec::new();
    for which in Array::<i64>::read(picks)?.data {
        chosen.push(check(which, dim, sizes[dim])?);
    }
    let value = Tensor::full(&[], value, x.dtype())?;
    by_kind!(Kind::of(x.dtype()), T => {
        let value = value.to_vec::<T>()?[0];
        let mut target = Array::<T>::read(x)?.data;
        for (t, index) in target.iter_mut().zip(indices(&sizes)) {
            if chosen.contains(&index[dim]) {
                *t = value;
            }
        }
        overwrite(x, &target)
    })
}

/// A place in a tensor of so many elements, from the front.
fn flat(at: i64, numel: usize) -> Result<usize> {
    let size = numel as i64;
    match if at < 0 { at + size } else { at } {
        from_front if (0..size).contains(&from_front) => Ok(from_front as usize),
        _ => Err(Error::index(format!("out of range: tried to access index {at} on a tensor of {size} elements."))),
    }
}

fn put(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    outline(op.functional(), args)?;
    let (x, picks, source): (&Tensor, &Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?, take(op, args, 2)?);
    let accumulate = take::<Option<bool>>(op, args, 3)?.unwrap_or(false);
    by_kind!(Kind::of(x.dtype()), T => {
        let mut target = Array::<T>::read(x)?.data;
        for (at, value) in Array::<i64>::read(picks)?.data.into_iter().zip(Array::<T>::read(source)?.data) {
            let to = flat(at, target.len())?;
            target[to] = if accumulate { target[to].plus(value) } else { value };
        }
        overwrite(x, &target)
    })
}

fn pick(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, picks): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let out = outline(op, args)?.remove(0);
    by_kind!(Kind::of(x.dtype()), T => {
        let x = Array::<T>::read(x)?.data;
        let picked = Array::<i64>::read(picks)?.data.into_iter().map(|at| Ok(x[flat(at, x.len())?]));
        write(&out, &picked.collect::<Result<Vec<T>>>()?).map(Outputs::from)
    })
}
