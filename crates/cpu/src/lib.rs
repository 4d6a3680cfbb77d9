//! CPU kernels: numbers in, numbers out. No tensors, no dispatch.
//!
//! Every function works on raw memory that its caller has locked, takes sizes and strides as plain numbers, and splits
//! its work with [`flambeau_base::parallel::parallel_for`] by size only (products into as many pieces as threads need, too,
//! which cuts no sum), so results do not depend on the thread count.

pub mod attention;
mod buffer;
mod compiled;
pub mod conv;
pub mod copy;
pub mod ctc;
pub mod distance;
pub mod fft;
pub mod fused;
pub mod gate;
pub mod gemm;
pub mod index;
pub mod math;
pub mod member;
#[cfg(target_arch = "x86_64")]
mod narrow;
pub mod norm;
pub mod padding;
pub mod pointwise;
pub mod pool;
mod prefetch;
mod processor;
pub mod progression;
pub mod random;
pub mod reduce;
pub mod resize;
pub mod rnn;
pub mod sample;
pub mod scan;
pub mod segment;
pub mod softmax;
pub mod sort;

pub use compiled::Real;
