//! Tensors on different devices.

use super::super::arguments::{tensors, with_tensors};
use super::super::{Case, Verdict};
use super::{Attempts, Must, right};
use flambeau::{Device, Result, Tensor};

/// One tensor on another device than the others is an error or not, as the operator reads it; but a call with a tensor
/// that has no contents never claims to have written to memory.
pub(crate) fn devices(case: &Case) -> Verdict {
    let mut attempts = Attempts::new(case);
    for call in right(case)? {
        let given = tensors(&call.args);
        if given.len() < 2 {
            continue;
        }
        for i in 0..given.len() {
            for device in [Some(Device::META), case.options.reference].into_iter().flatten() {
                let moved = move_to(&given[i], device)?;
                let mut others = given.clone();
                others[i] = moved;
                let args = with_tensors(&call.args, &others)?;
                let must = if device.is_meta() { Must::EndOn(device) } else { Must::End };
                attempts.make(call.op, &args, &format!("tensor {i} on {device}"), must)?;
            }
        }
    }
    attempts.verdict()
}

fn move_to(t: &Tensor, device: Device) -> Result<Tensor> {
    match device.is_meta() {
        true => Tensor::empty_strided(t.sizes(), t.strides(), (t.dtype(), device)),
        false => t.to_device(device),
    }
}
