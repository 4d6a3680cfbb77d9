//! Temporary.
use crate::*;
#[allow(missing_docs, unused)]
#[rustfmt::skip]
impl Tensor {
    pub fn log1p(&self) -> Result<Tensor> { todo!() }
    pub fn log_sigmoid(&self) -> Result<Tensor> { todo!() }
    pub fn xlogy(&self, _o: impl IntoOperand) -> Result<Tensor> { todo!() }
}
