//! Normal numbers of given means and deviations.

use super::create::{TensorOptions, sized};
use super::random::normal_any;
use crate::dims::{self, Dims};
use crate::random::Generator;
use crate::{Body, Device, Op, Result, Tensor, backward, ensure, sample};

// ---- normal numbers of given means and deviations -------------------------------------------------

fn check_deviation(std: &Tensor) -> Result<()> {
    ensure!(!std.dtype().is_complex(), "normal expects standard deviation to be non-complex");
    if std.device() == Device::META || std.numel() == 0 {
        return Ok(());
    }
    let valid = std.ge(0i64)?.all()?.item()?.to_bool();
    ensure!(valid, "normal expects all elements of std >= 0.0");
    Ok(())
}

fn normal_tensors_any(mean: &Tensor, std: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    check_deviation(std)?;
    let sizes = dims::broadcast(mean.sizes(), std.sizes())?;
    let out = Tensor::fresh(mean.device(), mean.dtype(), sizes)?;
    normal_any(&out, None, None, generator)?.mul_(std)?.add_(mean)
}
fn normal_mean_any(mean: &Tensor, std: Option<f64>, generator: Option<&Generator>) -> Result<Tensor> {
    normal_any(&row_major_like(mean)?, None, std, generator)?.add_(mean)
}
fn normal_std_any(mean: f64, std: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    check_deviation(std)?;
    normal_any(&row_major_like(std)?, None, None, generator)?.mul_(std)?.add_(mean)
}
fn row_major_like(x: &Tensor) -> Result<Tensor> {
    Tensor::fresh(x.device(), x.dtype(), Dims::from_slice(x.sizes()))
}
fn normal_numbers_out_any(
    mean: f64,
    std: f64,
    size: &[i64],
    generator: Option<&Generator>,
    out: &Tensor,
) -> Result<Tensor> {
    normal_any(&sized(size, out)?, Some(mean), Some(std), generator)
}
fn normal_numbers_any(
    mean: f64,
    std: f64,
    size: &[i64],
    generator: Option<&Generator>,
    options: TensorOptions,
) -> Result<Tensor> {
    normal_any(&Tensor::empty(size, options)?, Some(mean), Some(std), generator)
}

op! {
    /// Normal numbers of the given means and standard deviations, broadcast.
    normal_tensors: "normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
        Out OUT: "normal.Tensor_Tensor_out(Tensor mean, Tensor std, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(normal_tensors_any; mean, std, generator));
    derivative: backward! {
        mean(g, mean: crate::autograd::Geometry) => Tensor::zeros(&mean.sizes, (g.dtype(), g.device()))?,
        std(g, std: crate::autograd::Geometry) => Tensor::zeros(&std.sizes, (g.dtype(), g.device()))?,
    };
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), m.uniform(&[3], 0.5, 2.0), ()]] } else { vec![] };
    fn normal_tensors(mean: &Tensor, std: &Tensor) -> Tensor [mean, std];
}
op! {
    /// Normal numbers of the given means and one standard deviation.
    normal_mean: "normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor",
        Out OUT: "normal.Tensor_float_out(Tensor mean, float std=1., *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(normal_mean_any; mean, std, generator));
    derivative: backward! { mean(g) => g.zeros_like()? };
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), 0.5, ()]] } else { vec![] };
}
op! {
    /// Normal numbers of one mean and the given standard deviations.
    normal_std: "normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
        Out OUT: "normal.float_Tensor_out(float mean, Tensor std, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(normal_std_any; mean, std, generator));
    derivative: backward! { std(g) => g.zeros_like()? };
    samples: |m| if m.dtype.is_floating_point() { vec![sample![0.5, m.uniform(&[2, 3], 0.5, 2.0), ()]] } else { vec![] };
}
op! {
    /// Normal numbers of one mean and standard deviation.
    normal_numbers: "normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
    Body::Explicit(kernel!(normal_numbers_any; mean, std, size, generator, options));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![1.0, 2.0, vec![2i64, 3], (), m.dtype]] } else { vec![] };
}
op! {
    /// Normal numbers of one mean and standard deviation in `out`, which takes the given sizes and keeps its dtype.
    normal_numbers_out: "normal.float_float_out(float mean, float std, SymInt[] size, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(normal_numbers_out_any; mean, std, size, generator, out));
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    normal_mean::ALL,
    normal_numbers::ALL,
    normal_numbers_out::ALL,
    normal_std::ALL,
    normal_tensors::ALL,
];
