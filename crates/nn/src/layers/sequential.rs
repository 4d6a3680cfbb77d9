//! Modules one after another.

use crate::{Forward, Module};
use flambeau::{Result, Tensor};

/// Modules one after another, named by their numbers.
///
/// ```
/// use flambeau_nn::{Forward, Linear, ReLU, Result, Sequential, DType, Tensor};
/// # fn main() -> Result<()> {
/// let net = Sequential::new().then(Linear::new(4, 8)?).then(ReLU).then(Linear::new(8, 2)?);
/// assert_eq!(net.forward(&Tensor::zeros(&[3, 4], DType::F32)?)?.sizes(), [3, 2]);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Sequential(Vec<Box<dyn Forward>>);

impl Sequential {
    /// An empty one, which returns its input.
    #[must_use]
    pub fn new() -> Sequential {
        Sequential::default()
    }
    /// The same with one more at the end.
    #[must_use]
    pub fn then(mut self, module: impl Forward + 'static) -> Sequential {
        self.0.push(Box::new(module));
        self
    }
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// One of them.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&dyn Forward> {
        self.0.get(number).map(|m| &**m)
    }
}

impl crate::walk::Walk for Sequential {
    fn walk(&self, path: &mut crate::Path, visit: &mut dyn FnMut(&str, crate::Leaf<'_>)) {
        self.0.walk(path, visit);
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(crate::LeafMut<'_>) -> Result<()>) -> Result<()> {
        self.0.walk_mut(visit)
    }
}
impl Module for Sequential {}

impl Forward for Sequential {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.0.iter().try_fold(input.clone(), |x, module| module.forward(&x))
    }
}
