//! Random inputs.

use crate::ok;
use flambeau::DType::{self, BF16, Complex64, F32, I64};
use flambeau::{MemoryFormat, Tensor};

/// Normally distributed numbers of `float32`.
pub fn normal(sizes: &[i64]) -> Tensor {
    normal_of(sizes, F32)
}

/// Normally distributed numbers; of `int64`, integers from -100 to 99.
pub fn normal_of(sizes: &[i64], dtype: DType) -> Tensor {
    match dtype {
        I64 => integers(-100, 100, sizes),
        Complex64 => ok(normal(&[sizes, &[2]].concat()).view_as_complex()),
        BF16 => ok(normal(sizes).to_dtype(BF16)),
        _ => ok(Tensor::randn(sizes, dtype)),
    }
}

/// Several of the same sizes.
pub fn normals(count: usize, sizes: &[i64]) -> Vec<Tensor> {
    (0..count).map(|_| normal(sizes)).collect()
}

/// Normally distributed numbers that record what is done with them.
pub fn leaf(sizes: &[i64]) -> Tensor {
    ok(normal(sizes).requires_grad_(true))
}

/// Normally distributed numbers whose channels (dim 1) are densest in memory.
pub fn channels_last(sizes: &[i64]) -> Tensor {
    ok(normal(sizes).contiguous_in(MemoryFormat::ChannelsLast))
}

/// Evenly distributed numbers between `low` and `high`.
pub fn uniform(low: f64, high: f64, sizes: &[i64], dtype: DType) -> Tensor {
    let drawn = if dtype == BF16 { F32 } else { dtype };
    let x = ok(Tensor::rand(sizes, drawn).and_then(|x| x.mul(high - low)?.add(low)));
    ok(x.to_dtype(dtype))
}

/// Integers from `low` up to, but without, `high`.
pub fn integers(low: i64, high: i64, sizes: &[i64]) -> Tensor {
    ok(Tensor::randint(low, high, sizes, I64))
}

/// Booleans, true as often as false.
pub fn mask(sizes: &[i64]) -> Tensor {
    ok(Tensor::rand(sizes, F32).and_then(|x| x.lt(0.5)))
}

/// A symmetric positive definite matrix.
pub fn positive_definite(n: i64) -> Tensor {
    let a = normal_of(&[n, n], DType::F64);
    let squared = a.t().and_then(|t| a.matmul(&t)?.div(n));
    ok(squared.and_then(|s| s.add(&Tensor::eye(n, n, DType::F64)?)?.to_dtype(F32)))
}
