//! Moving between the device and host memory, and running there what has no kernel here.

use flambeau::value::take;
use flambeau::{Device, Key, KeySet, Op, Outputs, OwnedValue, Result, Storage, Tensor, Value};
use flambeau_base::storage::LockSet;

fn copy_bytes(to: &Storage, from: &Storage) -> Result<()> {
    let _locks = LockSet::new([(to, true), (from, false)])?;
    let n = to.nbytes().min(from.nbytes());
    // SAFETY: both blocks hold `n` bytes in host memory, are locked, and are not the same.
    unsafe { std::ptr::copy_nonoverlapping(from.data_ptr(), to.data_ptr(), n) };
    Ok(())
}

fn is_here(t: &Tensor) -> bool {
    t.device().kind.name() == "reference"
}

/// The same tensor in host memory: same strides, same offset.
pub(crate) fn to_host(t: &Tensor) -> Result<Tensor> {
    if !is_here(t) {
        return Ok(t.clone());
    }
    let storage = Storage::new(Device::CPU, t.storage().nbytes())?;
    copy_bytes(&storage, t.storage())?;
    Tensor::from_storage(storage, t.dtype(), t.sizes(), t.strides(), t.storage_offset())
}

/// The kernel of `copy_`.
pub(crate) fn copy(op: &'static Op, _keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let (to, from): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let from = to_host(from)?;
    if !is_here(to) {
        return to.copy_(&from).map(Outputs::from);
    }
    let through = to_host(to)?;
    through.copy_(&from)?;
    copy_bytes(to.storage(), through.storage())?;
    Ok(to.clone().into())
}

/// Runs an operator with the CPU's kernel.
pub(crate) fn run(op: &'static Op, _keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    with_host_arguments(op, args, |op, args| op.redispatch(KeySet::of(Key::CPU), args))
}

/// Runs `f` on the arguments brought to host memory, and brings back what it gives and what it wrote.
pub(crate) fn with_host_arguments(
    op: &'static Op,
    args: &[Value<'_>],
    f: impl FnOnce(&'static Op, &[Value<'_>]) -> Result<Outputs>,
) -> Result<Outputs> {
    let mut device = None;
    let mut pairs: Vec<(Tensor, Tensor)> = Vec::new();
    let mut host = |t: &Tensor| -> Result<Tensor> {
        if is_here(t) {
            device = Some(t.device());
            pairs.push((t.clone(), to_host(t)?));
            return Ok(pairs[pairs.len() - 1].1.clone());
        }
        Ok(t.clone())
    };
    let mut moved = Vec::with_capacity(args.len());
    for a in args {
        moved.push(match a.to_owned() {
            OwnedValue::Tensor(t) => OwnedValue::Tensor(host(&t)?),
            OwnedValue::Tensors(ts) => OwnedValue::Tensors(ts.iter().map(&mut host).collect::<Result<_>>()?),
            OwnedValue::OptionalTensors(ts) => OwnedValue::OptionalTensors(
                ts.iter().map(|t| t.as_ref().map(&mut host).transpose()).collect::<Result<_>>()?,
            ),
            OwnedValue::Device(_) => OwnedValue::Device(Device::CPU),
            other => other,
        });
    }
    let borrowed: Vec<Value<'_>> = moved.iter().map(OwnedValue::borrow).collect();
    let outputs = f(op, &borrowed)?;
    // Batch norm's schema does not say that the running statistics are written: their version does.
    for (t, copy) in &pairs {
        if op.mutates() || copy.version() > 0 {
            copy_bytes(t.storage(), copy.storage())?;
        }
    }
    let back = |t: Tensor| match (pairs.iter().find(|(_, copy)| copy.is_same(&t)), device) {
        (Some((original, _)), _) => Ok(original.clone()),
        (None, Some(device)) => t.to_device(device),
        (None, None) => Ok(t),
    };
    Ok(match outputs {
        Outputs::One(t) => back(t)?.into(),
        Outputs::Many(ts) => Outputs::Many(ts.into_iter().map(|t| t.map(back).transpose()).collect::<Result<_>>()?),
        other => other,
    })
}
