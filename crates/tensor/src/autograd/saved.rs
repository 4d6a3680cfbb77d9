//! What a node keeps until backward: only what its formulas name, with a check that nobody wrote to it meanwhile.

use super::node::{Edge, Node};
use crate::value::{OwnedOperand, OwnedValue, Value};
use crate::{DType, Device, Dims, Error, Result, Scalar, Tensor};
use smallvec::SmallVec;
use std::sync::Arc;

/// How much of an argument a formula reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SaveKind {
    /// Its elements.
    Data,
    /// Its sizes, strides, dtype and device only.
    Geometry,
}

/// A tensor without its elements.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// The sizes.
    pub sizes: Dims,
    /// The strides.
    pub strides: Dims,
    /// The storage offset.
    pub storage_offset: i64,
    /// The dtype.
    pub dtype: DType,
    /// The device.
    pub device: Device,
}

impl Geometry {
    /// That of a tensor.
    pub fn of(t: &Tensor) -> Geometry {
        Geometry {
            sizes: Dims::from_slice(t.sizes()),
            strides: Dims::from_slice(t.strides()),
            storage_offset: t.storage_offset(),
            dtype: t.dtype(),
            device: t.device(),
        }
    }
    /// How many dimensions.
    pub fn dim(&self) -> usize {
        self.sizes.len()
    }
    /// How many elements.
    pub fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }
    /// Zeros of these sizes, this dtype and this device.
    ///
    /// # Errors
    /// When they cannot be allocated.
    pub fn zeros(&self) -> Result<Tensor> {
        Tensor::zeros(&self.sizes, (self.dtype, self.device))
    }
}

/// One kept tensor.
#[derive(Clone)]
pub(crate) struct SavedTensor {
    tensor: Tensor,
    version: u32,
    /// It is this output of the node: kept without history, or the node would own itself.
    output: Option<u32>,
}

impl SavedTensor {
    /// # Errors
    /// For an inference tensor.
    #[inline]
    pub fn input(t: &Tensor) -> Result<SavedTensor> {
        if t.is_inference() {
            return Err(Error::runtime(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in \
                 computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and \
                 use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.",
            ));
        }
        Ok(SavedTensor { version: t.version(), tensor: t.clone(), output: None })
    }

    pub fn output(t: &Tensor, number: u32) -> SavedTensor {
        SavedTensor { version: t.version(), tensor: t.shallow_detached(true), output: Some(number) }
    }

    /// The tensor, if it is as it was.
    fn unpack(&self, node: &Arc<Node>) -> Result<Tensor> {
        let found = self.tensor.version();
        if found != self.version {
            return Err(self.modified(node, found));
        }
        match self.output {
            Some(number) if super::is_grad_enabled() => {
                let t = self.tensor.shallow_detached(true);
                t.set_history(node.clone(), number);
                Ok(t)
            }
            _ => Ok(self.tensor.clone()),
        }
    }

    #[cold]
    fn modified(&self, node: &Node, found: u32) -> Error {
        let t = &self.tensor;
        let origin = match self.output {
            Some(n) => format!(", which is output {n} of {}", node.short_name()),
            None => match t.gradient_edge() {
                Some(Edge::Node { node, input }) => format!(", which is output {input} of {}", node.short_name()),
                _ => String::new(),
            },
        };
        Error::runtime(format!(
            "one of the variables needed for gradient computation has been modified by an inplace operation: \
             [torch.{}Tensor {:?}]{origin}, is at version {found}; expected version {} instead. Hint: enable anomaly \
             detection to find the operation that failed to compute its gradient, with \
             torch.autograd.set_detect_anomaly(True, check_nan=False).",
            t.dtype().scalar_type_name(),
            t.sizes(),
            self.version
        ))
    }
}

/// One kept argument or result.
#[derive(Clone)]
pub(crate) enum SavedValue {
    /// No formula names it.
    Nothing,
    Tensor(SavedTensor),
    Tensors(Vec<Option<SavedTensor>>),
    // Boxed: it is several times the size of the others.
    Geometry(Box<Geometry>),
    Geometries(Vec<Geometry>),
    Other(OwnedValue),
}

impl SavedValue {
    /// # Errors
    /// As [`SavedTensor::input`].
    pub fn input(v: &Value<'_>, kind: SaveKind) -> Result<SavedValue> {
        Ok(match (v, kind) {
            (Value::Tensor(t), SaveKind::Data) => SavedValue::Tensor(SavedTensor::input(t)?),
            (Value::Tensor(t), SaveKind::Geometry) => SavedValue::Geometry(Box::new(Geometry::of(t))),
            (Value::Tensors(ts), SaveKind::Data) => {
                SavedValue::Tensors(ts.iter().map(|t| SavedTensor::input(t).map(Some)).collect::<Result<_>>()?)
            }
            (Value::Tensors(ts), SaveKind::Geometry) => SavedValue::Geometries(ts.iter().map(Geometry::of).collect()),
            (Value::OptionalTensors(ts), _) => SavedValue::Tensors(
                ts.iter().map(|t| t.as_ref().map(SavedTensor::input).transpose()).collect::<Result<_>>()?,
            ),
            (v, _) => SavedValue::Other(v.to_owned()),
        })
    }
}

/// Everything a node keeps, in the order of its operator's [`Recipe`](super::recipe::Recipe).
#[derive(Clone, Default)]
pub(crate) struct Saved {
    pub values: SmallVec<[SavedValue; 2]>,
}

impl Saved {
    /// The place of a value, made if need be.
    #[inline]
    pub fn slot(&mut self, i: usize) -> &mut SavedValue {
        while self.values.len() <= i {
            self.values.push(SavedValue::Nothing);
        }
        &mut self.values[i]
    }
}

/// What a formula may bind a saved argument to.
pub trait FromSaved: Sized {
    /// How much of the argument has to be kept.
    const KIND: SaveKind;
    /// Takes it out.
    ///
    /// # Errors
    /// When it was modified in place since, or is of another type.
    fn from_saved(v: SavedRef<'_>) -> Result<Self>;
}

/// A saved argument on its way to a formula.
pub struct SavedRef<'a> {
    pub(crate) value: &'a SavedValue,
    pub(crate) node: &'a Arc<Node>,
}

impl SavedRef<'_> {
    /// The tensor as it is now, modified or not.
    pub(crate) fn unchecked(&self) -> Option<Tensor> {
        match self.value {
            SavedValue::Tensor(t) => Some(t.tensor.clone()),
            _ => None,
        }
    }
}

fn mismatch<T>(what: &str) -> Result<T> {
    Err(Error::runtime(format!("a derivative formula asks for a saved argument as {what}, which it is not")))
}

impl FromSaved for Tensor {
    const KIND: SaveKind = SaveKind::Data;
    fn from_saved(v: SavedRef<'_>) -> Result<Self> {
        match v.value {
            SavedValue::Tensor(t) => t.unpack(v.node),
            _ => mismatch("Tensor"),
        }
    }
}
impl FromSaved for Option<Tensor> {
    const KIND: SaveKind = SaveKind::Data;
    fn from_saved(v: SavedRef<'_>) -> Result<Self> {
        match v.value {
            SavedValue::Tensor(t) => t.unpack(v.node).map(Some),
            SavedValue::Other(OwnedValue::None) => Ok(None),
            _ => mismatch("Tensor?"),
        }
    }
}
impl FromSaved for OwnedOperand {
    const KIND: SaveKind = SaveKind::Data;
    fn from_saved(v: SavedRef<'_>) -> Result<Self> {
        match v.value {
            SavedValue::Tensor(t) => t.unpack(v.node).map(OwnedOperand::Tensor),
            SavedValue::Other(o) => {
                let s: Scalar = crate::value::FromValue::from_value(o.borrow())?;
                Ok(OwnedOperand::Scalar(s))
            }
            _ => mismatch("Tensor or Number"),
        }
    }
}
impl FromSaved for Vec<Tensor> {
    const KIND: SaveKind = SaveKind::Data;
    fn from_saved(v: SavedRef<'_>) -> Result<Self> {
        match v.value {
            SavedValue::Tensors(ts) => ts.iter().flatten().map(|t| t.unpack(v.node)).collect(),
            _ => mismatch("Tensor[]"),
        }
    }
}
impl FromSaved for Vec<Option<Tensor>> {
    const KIND: SaveKind = SaveKind::Data;
    fn from_saved(v: SavedRef<'_>) -> Result<Self> {
        match v.value {
            SavedValue::Tensors(ts) => ts.iter().map(|t| t.as_ref().map(|t| t.unpack(v.node)).transpose()).collect(),
            _ => mismatch("Tensor?[]"),
        }
    }
}
impl FromSaved for Geometry {
    const KIND: SaveKind = SaveKind::Geometry;
    fn from_saved(v: SavedRef<'_>) -> Result<Self> {
        match v.value {
            SavedValue::Geometry(g) => Ok(Geometry::clone(g)),
            // Another formula of the node reads the elements too.
            SavedValue::Tensor(t) => Ok(Geometry::of(&t.tensor)),
            _ => mismatch("Tensor"),
        }
    }
}
impl FromSaved for Option<Geometry> {
    const KIND: SaveKind = SaveKind::Geometry;
    fn from_saved(v: SavedRef<'_>) -> Result<Self> {
        match v.value {
            SavedValue::Other(_) => Ok(None),
            _ => Geometry::from_saved(v).map(Some),
        }
    }
}
impl FromSaved for Vec<Geometry> {
    const KIND: SaveKind = SaveKind::Geometry;
    fn from_saved(v: SavedRef<'_>) -> Result<Self> {
        match v.value {
            SavedValue::Geometries(g) => Ok(g.clone()),
            SavedValue::Tensors(ts) => Ok(ts.iter().flatten().map(|t| Geometry::of(&t.tensor)).collect()),
            _ => mismatch("Tensor[]"),
        }
    }
}

macro_rules! from_saved_value {
    ($($t:ty, $via:ty, |$x:ident| $e:expr;)*) => { $(
        impl FromSaved for $t {
            const KIND: SaveKind = SaveKind::Data;
            fn from_saved(v: SavedRef<'_>) -> Result<Self> {
                match v.value {
                    SavedValue::Other(o) => {
                        let $x: $via = crate::value::FromValue::from_value(o.borrow())?;
                        Ok($e)
                    }
                    _ => mismatch(stringify!($t)),
                }
            }
        }
    )* };
}
from_saved_value! {
    i64, i64, |x| x;
    f64, f64, |x| x;
    bool, bool, |x| x;
    Scalar, Scalar, |x| x;
    DType, DType, |x| x;
    Option<i64>, Option<i64>, |x| x;
    Option<f64>, Option<f64>, |x| x;
    Option<bool>, Option<bool>, |x| x;
    Option<Scalar>, Option<Scalar>, |x| x;
    Option<DType>, Option<DType>, |x| x;
    Dims, &[i64], |x| Dims::from_slice(x);
    Option<Dims>, Option<&[i64]>, |x| x.map(Dims::from_slice);
    Vec<f64>, &[f64], |x| x.to_vec();
    Vec<bool>, &[bool], |x| x.to_vec();
    Option<Vec<f64>>, Option<&[f64]>, |x| x.map(<[f64]>::to_vec);
    String, &str, |x| x.to_string();
    Option<String>, Option<&str>, |x| x.map(str::to_string);
}
