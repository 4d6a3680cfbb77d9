//! Neural networks over [`flambeau`]: modules, losses, optimisers, data loading and checkpoints, with the names, the
//! defaults and the numbers of PyTorch (same seed, same initial weights).
//!
//! ```
//! use flambeau_nn::{DType, Forward, Linear, Module, Optimizer, Result, SGD, Tensor, loss};
//!
//! #[derive(Module)]
//! struct Net {
//!     hidden: Linear,
//!     output: Linear,
//! }
//!
//! impl Forward for Net {
//!     fn forward(&self, x: &Tensor) -> Result<Tensor> {
//!         self.output.forward(&self.hidden.forward(x)?.relu()?)
//!     }
//! }
//!
//! fn main() -> Result<()> {
//!     let net = Net { hidden: Linear::new(4, 8)?, output: Linear::new(8, 1)? };
//!     let mut optimizer = Optimizer::new(net.parameters(), SGD { lr: 0.1, ..SGD::default() })?;
//!     let (x, y) = (Tensor::ones(&[16, 4], DType::F32)?, Tensor::zeros(&[16, 1], DType::F32)?);
//!     let first = loss::mse_loss(&net.forward(&x)?, &y)?;
//!     first.backward()?;
//!     optimizer.step()?;
//!     optimizer.zero_grad()?;
//!     let second = loss::mse_loss(&net.forward(&x)?, &y)?;
//!     assert!(second.item()?.to_f64() < first.item()?.to_f64());
//!     assert_eq!(net.named_parameters()[0].0, "hidden.weight");
//!     Ok(())
//! }
//! ```

extern crate self as flambeau_nn;

pub mod checkpoint;
pub mod data;
pub mod init;
mod layers;
pub mod loss;
mod module;
pub mod optim;
mod state;
mod walk;

pub use data::{DataLoader, Dataset, TensorDataset};
pub use flambeau::{DType, Device, Error, Result, Tensor};
pub use flambeau_nn_derive::Module;
pub use layers::*;
pub use module::{Forward, Module};
pub use optim::{Adam, AdamW, Optimizer, RMSprop, SGD, Scheduler};
pub use state::{LoadReport, StateDict};
pub use walk::{Buffer, Leaf, LeafMut, Parameter, Path, Training, Walk};

/// An operator that has no method.
fn operator(name: &str) -> Result<&'static flambeau::Op> {
    flambeau::registry::find(name).ok_or_else(|| Error::not_implemented(format!("there is no operator '{name}'")))
}
