//! Temporary.
use crate::*;
#[allow(missing_docs, unused)]
#[rustfmt::skip]
impl Tensor {
    pub fn xlogy(&self, _o: impl IntoOperand) -> Result<Tensor> { todo!() }
}
