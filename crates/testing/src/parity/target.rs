//! What a library has to offer to be compared with the recorded results.

use super::value::Value;
use flambeau_base::{DType, Error};

/// Why a call or a comparison did not succeed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// There is no such operator, overload or dtype.
    Missing(String),
    /// The library refused.
    Raised(Error),
    /// It gave something else than what is expected.
    Wrong(String),
    /// The case needs something this replay has no form for.
    Unread(String),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure::Raised(e)
    }
}

/// A result, or why there is none.
pub type Outcome<T> = std::result::Result<T, Failure>;

/// What a tensor is, without its contents.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its dtype.
    pub dtype: DType,
    /// Its sizes.
    pub sizes: Vec<i64>,
    /// Its strides in elements.
    pub strides: Vec<i64>,
    /// The address of its first element.
    pub data_ptr: usize,
    /// Whether gradients flow to it.
    pub requires_grad: bool,
}

/// A library under test.
///
/// [`Target::call`] takes operators by their schema's name without overload (`add`, `add_`, `linalg_vector_norm`), with
/// the arguments as a user gave them: [`super::resolve::resolve`] picks the overload and fills in defaults. Results
/// written to given tensors are asked for by the keyword `out` (a tensor, or a tuple for several results).
///
/// Besides operators it is asked for these names, which are functions of a front end:
///
/// | name | arguments | result |
/// | --- | --- | --- |
/// | `__getitem__` | tensor, index (integer, slice, `...`, `None`, tensor, list or tuple of these) | tensor |
/// | `tensor` | nested lists of numbers, `dtype=` | tensor |
/// | `manual_seed` | integer | none |
/// | `Generator` | | an object; `manual_seed` with it first seeds it |
/// | `initial_seed` | | integer |
/// | `get_rng_state`, `set_rng_state` | | `uint8` tensor |
pub trait Target {
    /// A handle to a tensor; cloning it does not copy elements.
    type Tensor: Clone;

    /// Whether there is an operator or function of this name.
    fn has(&self, name: &str) -> bool;

    /// Calls an operator. A call that gives an argument new sizes or memory (`resize_`, `transpose_`, `out=`) replaces
    /// the handle in place, so that the caller sees it.
    ///
    /// # Errors
    /// [`Failure::Missing`] when there is no such operator, [`Failure::Raised`] when it refuses.
    fn call(
        &self,
        name: &str,
        args: &mut [Value<Self::Tensor>],
        kwargs: &mut [(String, Value<Self::Tensor>)],
    ) -> Outcome<Value<Self::Tensor>>;

    /// A row-major tensor with memory of its own from little-endian elements.
    ///
    /// # Errors
    /// When it cannot be made.
    fn tensor(&self, dtype: DType, sizes: &[i64], elements: &[u8]) -> Outcome<Self::Tensor>;

    /// What a tensor is.
    fn describe(&self, t: &Self::Tensor) -> Description;

    /// A tensor's elements in row-major order, little-endian; lazily conjugated ones resolved.
    ///
    /// # Errors
    /// When they cannot be read.
    fn elements(&self, t: &Self::Tensor) -> Outcome<Vec<u8>>;

    /// A leaf sharing `t`'s memory that requires a gradient.
    ///
    /// # Errors
    /// When its dtype cannot.
    fn leaf(&self, t: &Self::Tensor) -> Outcome<Self::Tensor>;

    /// Gradients of `outputs` weighted with `cotangents` by `inputs`; `None` where there is no path. With `create_graph`
    /// they are differentiable themselves. The graph is not used again otherwise.
    ///
    /// # Errors
    /// When the derivative cannot be computed.
    fn gradients(
        &self,
        outputs: &[Self::Tensor],
        inputs: &[Self::Tensor],
        cotangents: &[Self::Tensor],
        create_graph: bool,
    ) -> Outcome<Vec<Option<Self::Tensor>>>;

    /// Runs `body` inside a level of forward-mode differentiation.
    fn forward_level(&self, body: &mut dyn FnMut()) {
        body();
    }

    /// A tensor with a forward-mode tangent.
    ///
    /// # Errors
    /// When it cannot have one.
    fn dual(&self, primal: &Self::Tensor, tangent: &Self::Tensor) -> Outcome<Self::Tensor>;

    /// The forward-mode tangent of a result, if it has one.
    ///
    /// # Errors
    /// When it cannot be had.
    fn tangent(&self, t: &Self::Tensor) -> Outcome<Option<Self::Tensor>>;
}
