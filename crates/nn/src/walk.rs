//! What stands in a module's fields, and how it is found: a walk calls a visitor with every parameter, buffer and
//! training flag, and its dotted name.

use flambeau::{Result, Tensor};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A tensor that is learnt. It is a leaf that requires a gradient; clones are the same parameter.
#[derive(Clone, Debug)]
pub struct Parameter(Tensor);

impl Parameter {
    /// A parameter with the data of `tensor`, cut off from its history.
    ///
    /// # Errors
    /// When the dtype cannot have a gradient.
    pub fn new(tensor: Tensor) -> Result<Parameter> {
        let leaf = if tensor.is_leaf() && !tensor.is_view() { tensor } else { tensor.detach()? };
        Ok(Parameter(leaf.requires_grad_(true)?))
    }
}

/// A tensor that belongs to a module's state but is not learnt: a running mean, a mask.
#[derive(Clone, Debug)]
pub struct Buffer {
    tensor: Tensor,
    persistent: bool,
}

impl Buffer {
    /// A buffer that is part of the state dict.
    #[must_use]
    pub fn new(tensor: Tensor) -> Buffer {
        Buffer { tensor, persistent: true }
    }
    /// A buffer that is moved with its module but not part of the state dict.
    #[must_use]
    pub fn not_persistent(tensor: Tensor) -> Buffer {
        Buffer { tensor, persistent: false }
    }
    /// Whether it is part of the state dict.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }
}

/// Whether a module is being trained: for modules that behave differently then. `Module::train` sets it.
#[derive(Debug)]
pub struct Training(AtomicBool);

impl Training {
    /// Whether it is on.
    #[must_use]
    pub fn get(&self) -> bool {
        self.0.load(Relaxed)
    }
    /// Switches it.
    pub fn set(&self, on: bool) {
        self.0.store(on, Relaxed);
    }
}
impl Default for Training {
    fn default() -> Training {
        Training(AtomicBool::new(true))
    }
}
impl Clone for Training {
    fn clone(&self) -> Training {
        Training(AtomicBool::new(self.get()))
    }
}

impl Deref for Parameter {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.0
    }
}
impl Deref for Buffer {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

/// What a walk finds.
#[derive(Clone, Copy)]
pub enum Leaf<'a> {
    /// A parameter.
    Parameter(&'a Parameter),
    /// A buffer.
    Buffer(&'a Buffer),
    /// A training flag.
    Training(&'a Training),
}

/// What a walk finds, to be replaced.
pub enum LeafMut<'a> {
    /// A parameter's tensor.
    Parameter(&'a mut Tensor),
    /// A buffer's tensor.
    Buffer(&'a mut Tensor),
}

/// The dotted name of the place where a walk is.
#[derive(Default)]
pub struct Path(String);

impl Path {
    /// Calls `inside` with the path one name longer.
    pub fn enter(&mut self, name: &str, inside: impl FnOnce(&mut Path)) {
        let length = self.0.len();
        if length > 0 {
            self.0.push('.');
        }
        self.0.push_str(name);
        inside(self);
        self.0.truncate(length);
    }
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What may stand in a module's field. Modules get it from `#[derive(Module)]`; numbers and text have nothing to find.
pub trait Walk: Send + Sync {
    /// Calls `visit` with every parameter, buffer and training flag and its name, in the order of the fields.
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>));
    /// Calls `visit` with every tensor, to be replaced.
    ///
    /// # Errors
    /// The visitor's first error, which ends the walk.
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()>;
}

impl Walk for Parameter {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        visit(path.as_str(), Leaf::Parameter(self));
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        visit(LeafMut::Parameter(&mut self.0))
    }
}
impl Walk for Buffer {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        visit(path.as_str(), Leaf::Buffer(self));
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        visit(LeafMut::Buffer(&mut self.tensor))
    }
}
impl Walk for Training {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        visit(path.as_str(), Leaf::Training(self));
    }
    fn walk_mut(&mut self, _visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        Ok(())
    }
}
/// A plain tensor is a constant: neither learnt nor kept.
impl Walk for Tensor {
    fn walk(&self, _path: &mut Path, _visit: &mut dyn FnMut(&str, Leaf<'_>)) {}
    fn walk_mut(&mut self, _visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        Ok(())
    }
}

impl<W: Walk + ?Sized> Walk for Box<W> {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        (**self).walk(path, visit);
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        (**self).walk_mut(visit)
    }
}
impl<W: Walk> Walk for Option<W> {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        if let Some(inner) = self {
            inner.walk(path, visit);
        }
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        self.as_mut().map_or(Ok(()), |inner| inner.walk_mut(visit))
    }
}
impl<W: Walk> Walk for [W] {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        for (i, inner) in self.iter().enumerate() {
            path.enter(&i.to_string(), |path| inner.walk(path, visit));
        }
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        self.iter_mut().try_for_each(|inner| inner.walk_mut(visit))
    }
}
impl<W: Walk, const N: usize> Walk for [W; N] {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        self.as_slice().walk(path, visit);
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        self.as_mut_slice().walk_mut(visit)
    }
}
impl<W: Walk> Walk for Vec<W> {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        self.as_slice().walk(path, visit);
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        self.as_mut_slice().walk_mut(visit)
    }
}
impl<W: Walk> Walk for BTreeMap<String, W> {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        for (name, inner) in self {
            path.enter(name, |path| inner.walk(path, visit));
        }
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        self.values_mut().try_for_each(|inner| inner.walk_mut(visit))
    }
}
impl<T: ?Sized + Send + Sync> Walk for PhantomData<T> {
    fn walk(&self, _path: &mut Path, _visit: &mut dyn FnMut(&str, Leaf<'_>)) {}
    fn walk_mut(&mut self, _visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        Ok(())
    }
}

macro_rules! nothing_to_find {
    ($($t:ty)*) => { $(
        impl Walk for $t {
            fn walk(&self, _path: &mut Path, _visit: &mut dyn FnMut(&str, Leaf<'_>)) {}
            fn walk_mut(&mut self, _visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
                Ok(())
            }
        }
    )* };
}
nothing_to_find! {
    () bool char u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 String &'static str
    flambeau::DType flambeau::Device flambeau::Scalar flambeau::Generator
}
