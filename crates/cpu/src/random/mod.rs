//! PyTorch's CPU random streams: the same seed gives the same numbers.
//!
//! A [`Generator`] is a Mersenne Twister with PyTorch's saved-state format. The fill functions write contiguous memory
//! in order. Where an output is not contiguous, PyTorch visits its elements in the order of its strides: lay a
//! contiguous buffer out in [`memory_order`], fill that (with [`normal_in_pairs`] in place of [`normal`]), and copy.
//! Every recipe but [`normal`] is one element after the other, so nothing else changes.
//!
//! Drawing is serial, because the stream is; what is then made of the draws runs on all threads, and does not depend
//! on how many there are.
//!
//! Scalar arguments are checked by the caller: no fill function panics on any value, but out of range the numbers are
//! nonsense.
//!
//! All results are those of PyTorch 2.13 on x86-64 with AVX2 or wider, bit for bit (doubles as far as the system's `log`,
//! `sin`, `cos`, `tan` and `exp` are the same). On Intel processors PyTorch takes `bernoulli_(p)` and `exponential_` from
//! a vendor library's own stream instead; those numbers are not reproduced.

mod continuous;
mod discrete;
mod engine;
mod generator;
mod normal;
mod rejection;
#[cfg(test)]
mod tests;

pub use continuous::{cauchy, exponential, geometric, log_normal, uniform};
pub use discrete::{
    bernoulli, bernoulli_each, multinomial_with_replacement, multinomial_without_replacement, permutation, random,
    random_from,
};
pub use engine::Mt19937;
pub use generator::{DEFAULT_SEED, Generator, STATE_SIZE};
pub use normal::{normal, normal_in_pairs};
pub use rejection::{binomial, dirichlet_gammas, poisson, standard_gamma};

use smallvec::SmallVec;

/// The order in which PyTorch fills an output that is not contiguous: its dimensions from the largest stride to the
/// smallest; of equal strides, the longer dimension is the outer one.
pub fn memory_order(sizes: &[usize], strides: &[isize]) -> SmallVec<[usize; 6]> {
    let mut order: SmallVec<[usize; 6]> = (0..sizes.len()).collect();
    order.sort_by(|&a, &b| (strides[b], sizes[b]).cmp(&(strides[a], sizes[a])));
    order
}
