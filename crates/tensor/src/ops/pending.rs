//! Temporary.
use crate::*;
#[allow(missing_docs, unused)]
#[rustfmt::skip]
impl Tensor {
    pub fn xlogy(&self, _o: impl IntoOperand) -> Result<Tensor> { todo!() }
    pub fn dropout(&self, _p: f64, _t: bool) -> Result<Tensor> { todo!() }
}
