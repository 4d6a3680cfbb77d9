//! Normalisation with its gradients: layer norm, RMS norm, group norm, batch norm, weight norm.
//!
//! Data, parameters and statistics may each have any float dtype; halves are computed in `f32`. A row is read from
//! memory once: its statistics and its results come from cache. Gradients of parameters are summed over pieces of a fixed
//! number of rows and the pieces in order, so they have the same bits on any number of threads.

mod batch;
#[cfg(target_arch = "x86_64")]
pub(crate) mod beside;
mod group;
mod group_last;
mod layer;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lines;
#[cfg(target_arch = "x86_64")]
mod overlapped;
#[cfg(target_arch = "x86_64")]
mod overlapped_gradient;
pub(crate) mod results;
pub(crate) mod rows;
#[cfg(test)]
mod tests;
mod turned;
mod weight;

pub use batch::{BatchNormShape, batch_norm, batch_norm_backward, batch_norm_invstd, batch_norm_statistics};
pub use group::{GroupNormShape, group_norm, group_norm_backward};
pub use layer::{NormGradients, layer_norm, layer_norm_backward, rms_norm, rms_norm_backward};
pub use weight::{Parts, weight_norm_backward};

use crate::math::Float;

/// The sums over pieces of vector `which` of the `vectors` that each piece has, `n` elements long.
fn add_pieces<T: Float>(partials: &[T], pieces: usize, n: usize, vectors: usize, which: usize) -> Vec<f64> {
    let mut sums = vec![0.0; n];
    for p in 0..pieces {
        let partial = &partials[(p * vectors + which) * n..][..n];
        for (sum, x) in sums.iter_mut().zip(partial) {
            *sum += x.to_f64();
        }
    }
    sums
}
