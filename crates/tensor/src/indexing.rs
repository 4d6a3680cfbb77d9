//! Indexing as in Python: integers, ranges with steps, new axes, an ellipsis, masks and index tensors, mixed.

use crate::{Dims, Error, IntoOperand, Operand, Result, Tensor};

/// One part of an index.
#[derive(Clone, Debug)]
pub enum Index {
    /// One position along a dim, which goes away; negative ones count from the end.
    At(i64),
    /// `start..end` with a step.
    Slice {
        /// The first position; absent: the beginning.
        start: Option<i64>,
        /// The position after the last; absent: the end.
        end: Option<i64>,
        /// Positive.
        step: i64,
    },
    /// A new dim of size 1.
    NewAxis,
    /// As many full slices as are missing.
    Ellipsis,
    /// A tensor of indices, or a mask.
    Tensor(Tensor),
}

impl From<i64> for Index {
    fn from(i: i64) -> Index {
        Index::At(i)
    }
}
impl From<i32> for Index {
    fn from(i: i32) -> Index {
        Index::At(i.into())
    }
}
impl From<usize> for Index {
    /// (Positions are below 2^63; others are out of range for any dim.)
    fn from(i: usize) -> Index {
        Index::At(i64::try_from(i).unwrap_or(i64::MAX))
    }
}
impl From<Tensor> for Index {
    fn from(t: Tensor) -> Index {
        Index::Tensor(t)
    }
}
impl From<&Tensor> for Index {
    fn from(t: &Tensor) -> Index {
        Index::Tensor(t.clone())
    }
}
impl From<std::ops::RangeFull> for Index {
    fn from(_: std::ops::RangeFull) -> Index {
        Index::Slice { start: None, end: None, step: 1 }
    }
}
/// Where a slice ends that contains `last`: nowhere, if that is the last of all.
fn after(last: i64) -> Option<i64> {
    last.checked_add(1).filter(|end| *end != 0)
}
macro_rules! from_range {
    ($($range:ident<$t:ty>, |$r:ident| $start:expr, $end:expr;)*) => { $(
        impl From<std::ops::$range<$t>> for Index {
            fn from($r: std::ops::$range<$t>) -> Index {
                Index::Slice { start: $start, end: $end, step: 1 }
            }
        }
    )* };
}
from_range! {
    Range<i64>, |r| Some(r.start), Some(r.end);
    RangeFrom<i64>, |r| Some(r.start), None;
    RangeTo<i64>, |r| None, Some(r.end);
    Range<i32>, |r| Some(r.start.into()), Some(r.end.into());
    RangeFrom<i32>, |r| Some(r.start.into()), None;
    RangeTo<i32>, |r| None, Some(r.end.into());
    RangeInclusive<i64>, |r| Some(*r.start()), after(*r.end());
    RangeInclusive<i32>, |r| Some((*r.start()).into()), after((*r.end()).into());
    RangeToInclusive<i64>, |r| None, after(r.end);
    RangeToInclusive<i32>, |r| None, after(r.end.into());
}

impl Index {
    /// The same slice with another step; other parts stay as they are.
    #[must_use]
    pub fn step_by(self, step: i64) -> Index {
        match self {
            Index::Slice { start, end, .. } => Index::Slice { start, end, step },
            other => other,
        }
    }
}

/// Writes an index for [`Tensor::at`], [`Tensor::set_at`] and [`Tensor::add_at`].
///
/// | part | Python |
/// | --- | --- |
/// | `3`, `-1`, any integer expression | `3` |
/// | `1..4`, `..`, `2..`, `..=5` | `1:4`, `:`, `2:`, `:6` |
/// | `(1..10; 3)` | `1:10:3` |
/// | `new` | `None` |
/// | `dots` | `...` |
/// | `&tensor` | a tensor of indices, or a mask; a 0-d one of integers is an integer |
///
/// ```
/// use flambeau::{DType, Result, Tensor, index};
/// # fn main() -> Result<()> {
/// let x = Tensor::arange(24, DType::I64)?.view(&[2, 3, 4])?;
/// assert_eq!(x.at(&index![1, .., (0..4; 2)])?.to_vec::<i64>()?, [12, 14, 16, 18, 20, 22]);
/// assert_eq!(x.at(&index![dots, new, -1])?.sizes(), [2, 3, 1]);
/// x.set_at(&index![0, 1..], -1)?;
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! index {
    (@part new) => { $crate::Index::NewAxis };
    (@part dots) => { $crate::Index::Ellipsis };
    (@part ($range:expr; $step:expr)) => { $crate::Index::from($range).step_by($step) };
    (@part $($e:tt)+) => { $crate::Index::from($($e)+) };
    (@parts [$($done:expr,)*] [$($part:tt)+]) => { [$($done,)* $crate::index!(@part $($part)+)] };
    (@parts [$($done:expr,)*] [$($part:tt)+] , $($rest:tt)+) => {
        $crate::index!(@parts [$($done,)* $crate::index!(@part $($part)+),] [] $($rest)+)
    };
    (@parts [$($done:expr,)*] [$($part:tt)+] ,) => { [$($done,)* $crate::index!(@part $($part)+)] };
    (@parts [$($done:expr,)*] [$($part:tt)*] $next:tt $($rest:tt)*) => {
        $crate::index!(@parts [$($done,)*] [$($part)* $next] $($rest)*)
    };
    () => { [] as [$crate::Index; 0] };
    ($($t:tt)+) => { $crate::index!(@parts [] [] $($t)+) };
}

impl Tensor {
    /// The part that an index names: a view where only integers, slices and new axes are used, else a copy.
    ///
    /// # Errors
    /// When the index has too many parts or one is out of range.
    pub fn at(&self, parts: &[Index]) -> Result<Tensor> {
        let (view, indices) = self.basic(parts)?;
        match indices.iter().any(Option::is_some) {
            true => view.index(&indices),
            false => Ok(view),
        }
    }

    /// Writes a tensor (broadcast) or a number to the part that an index names. Where tensors name it, the value must be of
    /// this tensor's dtype, unless it is one element for a mask; elsewhere it is converted.
    ///
    /// # Errors
    /// As [`Tensor::at`], and when the value does not broadcast to the part, or has another dtype.
    pub fn set_at(&self, parts: &[Index], value: impl IntoOperand) -> Result<()> {
        let (view, indices) = self.basic(parts)?;
        if indices.iter().any(Option::is_some) {
            let value = drop_all_leading_ones(&operand_tensor(value.operand(), &view)?)?;
            view.index_put_(&indices, &value, false)?;
            return Ok(());
        }
        match value.operand() {
            Operand::Scalar(s) => view.fill_(s)?,
            Operand::Tensor(t) => {
                let t = drop_leading_ones(t, view.dim())?;
                view.copy_(&if t.sizes() == view.sizes() { t } else { t.expand(view.sizes())? })?
            }
        };
        Ok(())
    }

    /// Adds a tensor (broadcast) or a number to the part that an index names; a position named twice gets both.
    ///
    /// # Errors
    /// As [`Tensor::set_at`].
    pub fn add_at(&self, parts: &[Index], value: impl IntoOperand) -> Result<()> {
        let (view, indices) = self.basic(parts)?;
        match indices.iter().any(Option::is_some) {
            true => {
                let value = drop_all_leading_ones(&operand_tensor(value.operand(), &view)?)?;
                view.index_put_(&indices, &value, true)?
            }
            false => view.add_(value.operand())?,
        };
        Ok(())
    }

    /// Applies the parts that make views; tensors are left as a list with one entry per dim of the view.
    fn basic(&self, parts: &[Index]) -> Result<(Tensor, Vec<Option<Tensor>>)> {
        use crate::DType::{Bool, U8};
        // A 0-d tensor of integers is an integer; of bytes, a mask.
        let is_integer =
            |t: &Tensor| t.dim() == 0 && t.dtype().is_integral(false) && t.dtype() != U8 && !t.device().is_meta();
        let integers = parts.iter().any(|p| matches!(p, Index::Tensor(t) if is_integer(t)));
        let parts = match integers {
            false => std::borrow::Cow::Borrowed(parts),
            true => parts
                .iter()
                .map(|p| match p {
                    Index::Tensor(t) if is_integer(t) => t.item().map(|i| Index::At(i.to_i64())),
                    other => Ok(other.clone()),
                })
                .collect::<Result<_>>()?,
        };
        let consumed = |p: &Index| match p {
            Index::At(_) | Index::Slice { .. } => 1,
            Index::NewAxis | Index::Ellipsis => 0,
            Index::Tensor(t) if t.dtype() == Bool || t.dtype() == U8 => t.dim(),
            Index::Tensor(_) => 1,
        };
        let used: usize = parts.iter().map(consumed).sum();
        if used > self.dim() {
            return Err(Error::index(format!("too many indices for tensor of dimension {}", self.dim())));
        }
        let mut x = self.clone();
        let mut d = 0;
        // How many dims integers have taken away: errors count those of the whole tensor.
        let mut selected = 0;
        // One entry per dim of the view, but one for all dims of a mask: `folded` counts the difference.
        let mut folded = 0;
        let mut indices: Vec<Option<Tensor>> = Vec::new();
        let put = |indices: &mut Vec<Option<Tensor>>, at: usize, t: Tensor| {
            indices.resize(indices.len().max(at), None);
            indices.push(Some(t));
        };
        for part in parts.iter() {
            match part {
                Index::At(i) => {
                    // (More than one ellipsis may leave no dim.)
                    let size = x.sizes().get(d).copied().unwrap_or(0);
                    if *i < -size || *i >= size {
                        let dim = d + selected;
                        return Err(Error::index(format!(
                            "index {i} is out of bounds for dimension {dim} with size {size}"
                        )));
                    }
                    selected += 1;
                    x = x.select(d as i64, *i)?;
                }
                Index::Slice { start, end, step } => {
                    if *step <= 0 {
                        return Err(Error::value("step must be greater than zero"));
                    }
                    // All of a dim needs no view.
                    let size = x.sizes().get(d).copied().unwrap_or(0);
                    let whole =
                        start.is_none_or(|s| s == 0 || s <= -size) && end.is_none_or(|e| e >= size) && *step == 1;
                    if !whole {
                        x = x.slice(d as i64, *start, *end, *step)?;
                    }
                    d += 1;
                }
                Index::NewAxis => {
                    x = x.unsqueeze(d as i64)?;
                    d += 1;
                }
                // (PyTorch lets each of several skip as many dims.)
                Index::Ellipsis => d += self.dim() - used,
                // A 0-d mask keeps or drops everything: a new dim of one or none.
                Index::Tensor(t) if t.dim() == 0 && (t.dtype() == Bool || t.dtype() == U8) => {
                    x = x.unsqueeze(d as i64)?;
                    put(&mut indices, d - folded, t.to_dtype(Bool)?.unsqueeze(0)?);
                    d += 1;
                }
                Index::Tensor(t) => {
                    put(&mut indices, d - folded, t.clone());
                    d += consumed(part);
                    folded += consumed(part) - 1;
                }
            }
        }
        Ok((x, indices))
    }
}

fn operand_tensor(value: Operand<'_>, like: &Tensor) -> Result<Tensor> {
    match value {
        Operand::Tensor(t) => t.to_device(like.device()),
        Operand::Scalar(s) => Tensor::full(&[], s, (like.dtype(), like.device())),
    }
}

/// So that they are not those of index tensors, whose shape may begin anywhere.
fn drop_all_leading_ones(t: &Tensor) -> Result<Tensor> {
    drop_leading_ones(t, t.sizes().iter().skip_while(|s| **s == 1).count())
}

/// Assignment lets a value have more leading dims of size one than its place.
fn drop_leading_ones(t: &Tensor, dim: usize) -> Result<Tensor> {
    let extra = t.dim().saturating_sub(dim);
    match extra > 0 && t.sizes()[..extra].iter().all(|s| *s == 1) {
        true => t.reshape(&Dims::from_slice(&t.sizes()[extra..])),
        false => Ok(t.clone()),
    }
}
