//! The `reference` device: operators written down as slowly and plainly as they can be.
//!
//! Its kernels are the definition of what an operator computes; other devices are tested against it. Each reads its
//! arguments as numbers in double precision (or 64-bit integers), loops over the elements, and writes the results. Sizes
//! and dtypes of results come from the operator's shape rule on Meta. It is also the example of a device that lives in
//! a crate of its own: nothing but the public interface of `flambeau` is used.
//!
//! ```
//! let device = flambeau_reference::device()?;
//! let x = flambeau::Tensor::from_slice(&[1.0f64, 2.0])?.to_device(device)?;
//! assert_eq!(x.exp()?.to_vec::<f64>()?, [1f64.exp(), 2f64.exp()]);
//! # Ok::<(), flambeau::Error>(())
//! ```

mod array;
mod attention;
mod bessel;
mod counting;
mod distances;
mod eigen;
mod factorizations;
mod fourier;
mod functions;
mod gamma;
mod grids;
mod host;
mod indexing;
mod linear;
mod lines;
mod losses;
mod matrix;
mod normal;
mod norms;
mod optimizers;
mod padding;
mod placing;
mod pointwise;
mod polynomial;
mod recurrent;
mod reduce;
mod reflections;
mod solutions;
mod special;
mod wide;
mod windows;

use flambeau::registry::{register_fallback, register_kernel};
use flambeau::{Device, DeviceKind, Key, KeySet, Op, Outputs, Result, Value};
use std::sync::OnceLock;

/// A kernel as it is written here: the operator and its arguments in, the results in host memory out.
type Kernel = fn(&'static Op, &[Value<'_>]) -> Result<Outputs>;

/// The operator whose kernel gets its arguments where they are.
const COPY: &str = "copy_";

/// The kernels of each file.
const FAMILIES: &[&[(&str, Kernel)]] = &[
    attention::KERNELS,
    counting::KERNELS,
    distances::KERNELS,
    eigen::KERNELS,
    factorizations::KERNELS,
    fourier::KERNELS,
    grids::KERNELS,
    indexing::KERNELS,
    linear::KERNELS,
    lines::KERNELS,
    losses::KERNELS,
    norms::KERNELS,
    optimizers::KERNELS,
    padding::KERNELS,
    placing::KERNELS,
    pointwise::KERNELS,
    recurrent::KERNELS,
    reduce::KERNELS,
    reflections::KERNELS,
    solutions::KERNELS,
    windows::KERNELS,
];

/// Every kernel by the operator's full name.
fn kernels() -> impl Iterator<Item = (&'static str, Kernel)> {
    let plain = FAMILIES.iter().copied().flatten().copied();
    plain.chain(pointwise::names().map(|name| (name, pointwise::kernel as Kernel)))
}

/// The device; registered at the first call, for the life of the process.
///
/// # Errors
/// When there is no room for another kind of device.
pub fn device() -> Result<Device> {
    static DEVICE: OnceLock<Result<Device>> = OnceLock::new();
    DEVICE.get_or_init(register).clone()
}

fn register() -> Result<Device> {
    let kind = DeviceKind::register("reference", flambeau::allocator::CpuAllocator)?;
    let key = Key::backend(kind);
    register_kernel(COPY, key, host::copy)?.forever();
    register_fallback(key, host::run).forever();
    for (name, kernel) in kernels() {
        let run = move |op: &'static Op, _: KeySet, args: &[Value<'_>]| host::with_host_arguments(op, args, kernel);
        register_kernel(name, key, run)?.forever();
    }
    Ok(Device::new(kind))
}

/// Whether an operator has a kernel here, or is made of others; the rest is computed by the CPU's kernels.
pub fn has_kernel(op: &'static Op) -> bool {
    let plain = |name: &'static str| name.rsplit("::").next();
    // Copies have theirs apart: they alone move between this device and others.
    kernels()
        .map(|(name, _)| name)
        .chain([COPY])
        .any(|name| [Some(op.full_name()), Some(op.functional().full_name())].contains(&plain(name)))
}
