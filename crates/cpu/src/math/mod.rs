//! The numeric layer that kernels are written against.
//!
//! [`isa`] chooses the instruction set; [`Float`] has the real functions, [`Number`] and [`Integer`] the arithmetic of
//! every element kind, and [`complex`] the complex functions. All of it is scalar code without branches, generic over
//! [`Isa`], that vectorises when a loop over it is compiled by [`entry`].

pub mod complex;
// Fitted constants are written as printed; some happen to be near named ones.
#[allow(clippy::excessive_precision, clippy::approx_constant)]
mod double;
mod float;
pub mod isa;
mod native;
mod number;
mod poly;
#[allow(clippy::excessive_precision, clippy::approx_constant)]
mod single;
#[allow(clippy::excessive_precision, clippy::approx_constant)]
pub mod special;
#[allow(clippy::excessive_precision)]
mod trig;
#[allow(clippy::excessive_precision, clippy::approx_constant)]
pub(crate) mod vectors;

pub use float::Float;
pub use isa::{Avx2, Avx512, Baseline, Isa, Kernel, Level, entry, highest, level, run};
pub use number::{Integer, Number};
pub(crate) use poly::select;

/// Loops over indices by blocks, with one body for the blocks in which a condition holds throughout and another for the
/// rest: for functions with rare arguments that do not vectorise (see [`Float`](crate::math::Float)).
///
/// A macro, because a closure need not be inlined and then loses the caller's instruction set.
///
/// ```
/// use flambeau_cpu::{by_block, math::{Baseline, Float}};
/// let (x, mut y) = ([0.5f32, 1e30], [0f32; 2]);
/// by_block!(x.len(), i,
///     if { Float::is_common_angle(x[i]) } { y[i] = Float::sin_common::<Baseline>(x[i]) }
///     else { y[i] = Float::sin::<Baseline>(x[i]) });
/// assert_eq!(y[0], 0.5f32.sin());
/// ```
#[macro_export]
macro_rules! by_block {
    ($n:expr, $i:ident, if $common:block $fast:block else $slow:block) => {{
        const BLOCK: usize = 256;
        let n: usize = $n;
        let mut start = 0;
        while start < n {
            let end = if n - start < BLOCK { n } else { start + BLOCK };
            // Counted in an integer, and without stopping early, so that the check vectorises.
            let mut rare = 0u32;
            for $i in start..end {
                rare |= !$common as u32;
            }
            if rare == 0 {
                for $i in start..end {
                    $fast
                }
            } else {
                for $i in start..end {
                    $slow
                }
            }
            start = end;
        }
    }};
}

#[cfg(test)]
mod tests;
