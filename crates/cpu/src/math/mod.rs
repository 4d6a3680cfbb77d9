//! The numeric layer that kernels are written against.
//!
//! [`isa`] chooses the instruction set; [`Float`] has the real functions, [`Number`] and [`Integer`] the arithmetic of
//! every element kind, and [`complex`] the complex functions. All of it is scalar code without branches, generic over
//! [`Isa`], that vectorises when a loop over it is compiled by [`entry`].

pub mod complex;
mod double;
mod float;
pub mod isa;
mod number;
mod poly;
mod single;
mod trig;

pub use float::Float;
pub use isa::{Avx2, Avx512, Baseline, Isa, Kernel, Level, entry, level, run};
pub use number::{Integer, Number};

#[cfg(test)]
mod tests;
