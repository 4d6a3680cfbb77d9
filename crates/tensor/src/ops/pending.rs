//! Temporary.
use crate::*;
#[allow(missing_docs, unused)]
#[rustfmt::skip]
impl Tensor {
}
