//! Flambeau: tensors as strided views over shared storage, an operator registry and dispatcher, and automatic
//! differentiation, in the shape of PyTorch.
//!
//! ```
//! use flambeau::{Result, Tensor};
//! fn main() -> Result<()> {
//!     let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0])?.requires_grad_(true)?;
//!     let y = x.mul(&x)?.sum()?;
//!     y.backward()?;
//!     assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 4.0, 6.0]);
//!     Ok(())
//! }
//! ```
//!
//! Where things are: `tensor.rs` (the object), `op.rs`, `registry.rs`, `dispatch.rs`, `keys.rs` (operators and how a
//! call finds its kernel), `pointwise.rs` and `promotion.rs` (the elementwise engine), `autograd/`, and `ops/`, where
//! every operator is one entry.

// What only samples call.
#![cfg_attr(not(feature = "samples"), allow(dead_code, unused_imports))]

#[macro_use]
mod macros;

mod access;
pub mod autograd;
pub mod dims;
pub mod dispatch;
pub mod display;
pub mod example;
mod indexing;
pub mod io;
pub mod keys;
pub mod op;
mod operators;
pub mod ops;
pub(crate) mod out;
pub mod pointwise;
pub mod profiler;
pub mod promotion;
pub mod random;
pub mod registry;
pub mod samples;
pub mod schema;
pub(crate) mod sparse;
mod tensor;
mod text;
pub mod value;

pub use access::{Accessor, AccessorMut};
pub use dims::Dims;
pub use flambeau_base::{
    Bool, Complex, Complex32, Complex64, DType, Device, DeviceKind, Element, Error, ErrorKind, Layout, MemoryFormat,
    Result, Scalar, Storage, allocator, bf16, ensure, f16, fast_paths, parallel,
};
pub use flambeau_cpu::math::{Level as InstructionSet, level as instruction_set};
pub use indexing::Index;
pub use keys::{Key, KeyGuard, KeySet};
pub use op::{Body, Form, Op, Plan, TensorSpec};
pub use ops::create::{TensorOptions, set_fill_uninitialized};
pub use out::{OutDType, OutRule, RowMajor, Write};
pub use promotion::{default_dtype, set_default_dtype};
pub use random::{Generator, manual_seed};
pub use tensor::Tensor;
pub use text::{set_print_options, shown_elements};
pub use value::{IntoOperand, Operand, Outputs, OwnedOperand, OwnedValue, Value};
