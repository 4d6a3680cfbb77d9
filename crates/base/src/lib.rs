//! What a Flambeau kernel sees: dtypes, scalars, storage, devices, the iterator and the thread pool.
//!
//! Nothing here knows what a tensor is. The crate `flambeau-cpu` builds kernels on these pieces, and the crate
//! `flambeau` builds tensors, operators and automatic differentiation on both.

pub mod allocator;
pub mod device;
pub mod dtype;
pub mod error;
pub mod fast_paths;
pub mod halves;
pub mod iter;
pub mod layout;
pub mod parallel;
pub mod scalar;
pub mod shared;
pub mod storage;

pub use allocator::Allocator;
pub use device::{Device, DeviceKind};
pub use dtype::{Bool, DType, Element, bf16, f16};
pub use error::{Error, ErrorKind, Result};
pub use layout::{Layout, MemoryFormat};
pub use num_complex::{Complex, Complex32, Complex64};
pub use scalar::Scalar;
pub use storage::Storage;
