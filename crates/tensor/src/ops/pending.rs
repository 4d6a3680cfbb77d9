//! Temporary.
use crate::*;
#[allow(missing_docs, unused)]
#[rustfmt::skip]
impl Tensor {
    pub fn arange(_n: i64, _d: DType) -> Result<Tensor> { todo!() }
    pub fn rsub(&self, _o: impl Into<Scalar>) -> Result<Tensor> { todo!() }
    pub fn cumprod(&self, _d: i64) -> Result<Tensor> { todo!() }
    pub fn pow(&self, _e: impl IntoOperand) -> Result<Tensor> { todo!() }
    pub fn masked_fill(&self, _m: &Tensor, _v: impl Into<Scalar>) -> Result<Tensor> { todo!() }
}
