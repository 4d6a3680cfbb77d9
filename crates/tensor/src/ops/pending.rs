//! Temporary.
use crate::*;
#[allow(missing_docs, unused)]
#[rustfmt::skip]
impl Tensor {
<<<<<<< HEAD
    pub fn arange(_n: i64, _d: DType) -> Result<Tensor> { todo!() }
    pub fn cumprod(&self, _d: i64) -> Result<Tensor> { todo!() }
=======
    pub fn rsub(&self, _o: impl Into<Scalar>) -> Result<Tensor> { todo!() }
    pub fn pow(&self, _e: impl IntoOperand) -> Result<Tensor> { todo!() }
    pub fn masked_fill(&self, _m: &Tensor, _v: impl Into<Scalar>) -> Result<Tensor> { todo!() }
    pub fn where_(_m: &Tensor, _a: &Tensor, _b: &Tensor) -> Result<Tensor> { todo!() }
    pub fn clamp_min(&self, _v: impl Into<Scalar>) -> Result<Tensor> { todo!() }
    pub fn log1p(&self) -> Result<Tensor> { todo!() }
    pub fn log_sigmoid(&self) -> Result<Tensor> { todo!() }
    pub fn xlogy(&self, _o: impl IntoOperand) -> Result<Tensor> { todo!() }
>>>>>>> origin/HEAD
}
