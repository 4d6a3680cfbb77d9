//! Every operator, one entry each. A file holds a family; its `OPS` lists all entries of the file, and a test counts
//! them. Nothing here knows about dispatch or autograd beyond what an entry declares.

use crate::Op;

pub mod activation;
pub mod binary;
pub mod compare;
pub mod conv;
pub mod copy;
pub mod create;
pub mod index;
pub mod join;
pub mod matmul;
pub mod moments;
mod pending;
pub mod reduce;
pub mod unary;
pub mod view;

/// Every built-in operator in every form.
pub(crate) fn all() -> Vec<&'static Op> {
    let families: &[&[&[&'static Op]]] =
        &[activation::OPS, binary::OPS, compare::OPS, conv::OPS, copy::OPS, create::OPS, index::OPS, join::OPS, matmul::OPS, moments::OPS, reduce::OPS, unary::OPS, view::OPS];
    families.iter().flat_map(|f| f.iter()).flat_map(|ops| ops.iter().copied()).collect()
}
