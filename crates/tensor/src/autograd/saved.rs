//! What a node keeps until backward: only what its formulas name, with a check that nobody wrote to it meanwhile.

use super::node::{Edge, Node};
use super::packing::{self, PackedTensor, SavedTensorHooks};
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
    /// The layout.
    pub layout: crate::Layout,
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
            layout: t.layout(),
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

/// One kept tensor: as it is, or packed by the hooks that were in force (see [`super::packing`]).
#[derive(Clone)]
pub struct SavedTensor {
    content: Content,
    version: u32,
    /// It is this output of the node: kept without history, or the node would own itself.
    output: u32,
}

/// [`SavedTensor::output`] of what is no output.
const NO_OUTPUT: u32 = u32::MAX;

#[derive(Clone)]
enum Content {
    Plain(Tensor),
    Packed(Arc<Packed>),
}

/// What hooks made of a tensor, and what has to be known of the tensor beside.
struct Packed {
    value: Box<dyn PackedTensor>,
    edge: Option<Edge>,
    geometry: Geometry,
}

impl SavedTensor {
    /// Keeps an argument of the node's call.
    ///
    /// # Errors
    /// For an inference tensor, and when a hook fails.
    #[inline]
    pub fn input(t: &Tensor) -> Result<SavedTensor> {
        if t.is_inference() {
            return Err(Error::runtime(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in \
                 computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and \
                 use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.",
            ));
        }
        let mut saved = SavedTensor { version: t.version(), content: Content::Plain(t.clone()), output: NO_OUTPUT };
        if packing::is_active() {
            saved.pack_with_current_hooks(t)?;
        }
        Ok(saved)
    }

    /// Keeps result `number` of the node's call.
    ///
    /// # Errors
    /// When a hook fails.
    #[inline]
    pub fn output(t: &Tensor, number: u32) -> Result<SavedTensor> {
        let content = Content::Plain(t.shallow_detached(true));
        let mut saved = SavedTensor { version: t.version(), content, output: number };
        if packing::is_active() {
            saved.pack_with_current_hooks(t)?;
        }
        Ok(saved)
    }

    #[cold]
    fn pack_with_current_hooks(&mut self, t: &Tensor) -> Result<()> {
        match packing::current() {
            Some(hooks) => self.pack(t, &*hooks),
            None => Ok(()),
        }
    }

    fn pack(&mut self, t: &Tensor, hooks: &dyn SavedTensorHooks) -> Result<()> {
        let Content::Plain(plain) = &self.content else { return Ok(()) };
        let edge = if self.output == NO_OUTPUT { t.gradient_edge() } else { None };
        let _mode = super::no_grad();
        let value = hooks.pack(plain)?;
        if plain.version() != self.version {
            return Err(Error::runtime(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot \
                 be modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if \
                 you need to perform in-place operations on the input to a pack hook.",
            ));
        }
        let geometry = Geometry::of(plain);
        self.content = Content::Packed(Arc::new(Packed { value, edge, geometry }));
        Ok(())
    }

    /// Packs a tensor that no hook has packed yet.
    ///
    /// # Errors
    /// When it is packed already, was modified since it was saved, or the hook fails.
    pub fn register_hooks(&mut self, hooks: &dyn SavedTensorHooks) -> Result<()> {
        let Content::Plain(t) = &self.content else {
            return Err(Error::runtime(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks \
                 is allowed at a time.",
            ));
        };
        let t = t.clone();
        self.pack(&t, hooks)
    }

    /// The tensor, if it is as it was. An output has its place in the graph again if history is being recorded.
    ///
    /// # Errors
    /// When it was modified since, or an unpacking hook fails.
    #[inline]
    pub fn unpack(&self, node: &Arc<Node>) -> Result<Tensor> {
        self.unpack_for(Some(node), super::is_grad_enabled())
    }

    /// As [`SavedTensor::unpack`]; an output is given its history only `with_history`, and if the node is known.
    ///
    /// # Errors
    /// As [`SavedTensor::unpack`].
    pub fn unpack_for(&self, node: Option<&Arc<Node>>, with_history: bool) -> Result<Tensor> {
        let t = match &self.content {
            Content::Plain(t) => t,
            Content::Packed(packed) => return self.unpack_packed(packed, node, with_history),
        };
        let found = t.version();
        if found != self.version {
            return Err(self.modified(t, node, found));
        }
        match node {
            Some(node) if self.output != NO_OUTPUT && with_history => {
                let t = t.shallow_detached(true);
                t.set_history(node.clone(), self.output);
                Ok(t)
            }
            _ => Ok(t.clone()),
        }
    }

    #[cold]
    fn unpack_packed(&self, packed: &Packed, node: Option<&Arc<Node>>, with_history: bool) -> Result<Tensor> {
        let t = packed.value.unpack()?.shallow_detached(false);
        if !with_history || !t.dtype().is_differentiable() {
            return Ok(t);
        }
        match (&packed.edge, node) {
            (_, Some(node)) if self.output != NO_OUTPUT => t.set_history(node.clone(), self.output),
            (Some(Edge::Node { node, input }), _) => t.set_history(node.clone(), *input),
            (Some(Edge::Leaf(leaf)), _) => {
                // The way to the leaf from a tensor that is not the leaf.
                let _mode = super::enable_grad();
                if let Some(node) = leaf.view_as(leaf)?.grad_fn() {
                    t.set_history(node, 0);
                }
            }
            (None, _) => {}
        }
        Ok(t)
    }

    /// The tensor as it is now, modified or not; `None` if hooks packed it.
    pub fn unchecked(&self) -> Option<&Tensor> {
        match &self.content {
            Content::Plain(t) => Some(t),
            Content::Packed(_) => None,
        }
    }

    fn geometry(&self) -> Geometry {
        match &self.content {
            Content::Plain(t) => Geometry::of(t),
            Content::Packed(p) => p.geometry.clone(),
        }
    }

    #[cold]
    fn modified(&self, t: &Tensor, node: Option<&Arc<Node>>, found: u32) -> Error {
        let origin = match (self.output, node) {
            (NO_OUTPUT, _) => match t.gradient_edge() {
                Some(Edge::Node { node, input }) => format!(", which is output {input} of {},", node.short_name()),
                _ => String::new(),
            },
            (n, Some(node)) => format!(", which is output {n} of {},", node.short_name()),
            (n, None) => format!(", which is output {n} of a node,"),
        };
        Error::runtime(format!(
            "one of the variables needed for gradient computation has been modified by an inplace operation: \
             [torch.{}Tensor {:?}]{origin} is at version {found}; expected version {} instead. Hint: enable anomaly \
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
    // Shared: it is several times the size of the others, and read in every backward.
    Geometry(Arc<Geometry>),
    Geometries(Vec<Geometry>),
    Other(OwnedValue),
}

impl SavedValue {
    /// # Errors
    /// As [`SavedTensor::input`].
    pub fn input(v: &Value<'_>, kind: SaveKind) -> Result<SavedValue> {
        Ok(match (v, kind) {
            (Value::Tensor(t), SaveKind::Data) => SavedValue::Tensor(SavedTensor::input(t)?),
            (Value::Tensor(t), SaveKind::Geometry) => SavedValue::Geometry(Arc::new(Geometry::of(t))),
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

impl SavedValue {
    /// The value, with tensors as they were. What only a tensor's geometry was kept of is not there.
    ///
    /// # Errors
    /// As [`SavedTensor::unpack`].
    pub fn unpack(&self, node: &Arc<Node>) -> Result<OwnedValue> {
        let tensor = |t: &SavedTensor| t.unpack_for(Some(node), true);
        Ok(match self {
            SavedValue::Tensor(t) => OwnedValue::Tensor(tensor(t)?),
            SavedValue::Tensors(ts) => OwnedValue::OptionalTensors(
                ts.iter().map(|t| t.as_ref().map(tensor).transpose()).collect::<Result<_>>()?,
            ),
            SavedValue::Other(v) => v.clone(),
            SavedValue::Nothing | SavedValue::Geometry(_) | SavedValue::Geometries(_) => OwnedValue::None,
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
            SavedValue::Tensor(t) => Ok(t.geometry()),
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
            SavedValue::Tensors(ts) => Ok(ts.iter().flatten().map(SavedTensor::geometry).collect()),
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
