//! The gates of an LSTM in one pass over a cell's memory, and their gradients.
//!
//! Hochreiter & Schmidhuber, "Long Short-Term Memory", 1997, with forget gates, in PyTorch's order.

use crate::access::{elements, elements_mut};
use crate::{Body, DType, Device, Error, Op, Result, Tensor, backward, ensure, sample};
use flambeau_base::storage::LockSet;

/// The new state of recorded operators: what [`lstm_gates`] computes in one pass.
fn written_out(gates: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor)> {
    let gates = gates.chunk(4, -1)?;
    let [input, forget, new, output] = &gates[..] else {
        return Err(Error::runtime("lstm: the weights do not make four gates"));
    };
    let kept = forget.sigmoid()?.mul(cell)?.add(&input.sigmoid()?.mul(&new.tanh()?)?)?;
    Ok((output.sigmoid()?.mul(&kept.tanh()?)?, kept))
}

/// Whether the kernels take these: gates four times as wide as the cell, real numbers of the same dtype on the CPU.
fn has_kernel(gates: &Tensor, cell: &Tensor) -> bool {
    let (n, dtype) = (cell.dim(), cell.dtype());
    let fits = n > 0 && gates.dim() == n && gates.sizes()[..n - 1] == cell.sizes()[..n - 1];
    fits && gates.sizes()[n - 1] == 4 * cell.sizes()[n - 1]
        && gates.dtype() == dtype
        && matches!(dtype, DType::F32 | DType::F64)
        && [gates, cell].iter().all(|t| t.device() == Device::CPU)
}

fn lstm_gates_any(gates: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor)> {
    if !has_kernel(gates, cell) {
        let (hidden, kept) = written_out(gates, cell)?;
        return Ok((hidden.contiguous()?, kept.contiguous()?));
    }
    let (gates, cell) = (gates.contiguous()?, cell.contiguous()?);
    let fresh = || Tensor::empty(cell.sizes(), (cell.dtype(), Device::CPU));
    let (hidden, kept) = (fresh()?, fresh()?);
    if cell.numel() > 0 {
        let _locks = LockSet::new([(gates.storage(), false), (cell.storage(), false), (hidden.storage(), true), (kept.storage(), true)])?;
        let width = cell.size(-1)? as usize;
        crate::dispatch_dtype!(cell.dtype(), T in [reals] => {
            // SAFETY: all are locked, contiguous and of this type, and the results fresh.
            unsafe { <T as flambeau_cpu::Real>::lstm(width, elements(&gates), elements(&cell), elements_mut(&hidden), elements_mut(&kept)) };
        }; else unreachable!("checked"));
    }
    Ok((hidden, kept))
}

fn lstm_gates_backward_any(g_hidden: Option<&Tensor>, g_kept: Option<&Tensor>, gates: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor)> {
    let like_cell = |g: &Tensor| g.sizes() == cell.sizes() && g.dtype() == cell.dtype();
    ensure!([g_hidden, g_kept].into_iter().flatten().all(like_cell), "_lstm_gates_backward: the gradients must be like the cell");
    if !has_kernel(gates, cell) || [g_hidden, g_kept].into_iter().flatten().any(|g| g.device() != Device::CPU) {
        let parts = gates.chunk(4, -1)?;
        let [input, forget, new, output] = &parts[..] else {
            return Err(Error::runtime("lstm: the weights do not make four gates"));
        };
        let (input, forget, new, output) = (input.sigmoid()?, forget.sigmoid()?, new.tanh()?, output.sigmoid()?);
        let t = forget.mul(cell)?.add(&input.mul(&new)?)?.tanh()?;
        let or_zeros = |g: Option<&Tensor>| g.map_or_else(|| cell.zeros_like(), |g| Ok(g.clone()));
        let (g_hidden, g_kept) = (or_zeros(g_hidden)?, or_zeros(g_kept)?);
        let g = g_hidden.mul(&output)?.tanh_backward(&t)?.add(&g_kept)?;
        let g_gates = [
            g.mul(&new)?.sigmoid_backward(&input)?,
            g.mul(cell)?.sigmoid_backward(&forget)?,
            g.mul(&input)?.tanh_backward(&new)?,
            g_hidden.mul(&t)?.sigmoid_backward(&output)?,
        ];
        return Ok((Tensor::cat(&g_gates, -1)?.contiguous()?, g.mul(&forget)?.contiguous()?));
    }
    let (gates, cell) = (gates.contiguous()?, cell.contiguous()?);
    let [g_hidden, g_kept] = [g_hidden, g_kept].map(|g| g.map(Tensor::contiguous).transpose());
    let (g_hidden, g_kept) = (g_hidden?, g_kept?);
    let fresh = |like: &Tensor| Tensor::empty(like.sizes(), (cell.dtype(), Device::CPU));
    let (g_gates, g_cell) = (fresh(&gates)?, fresh(&cell)?);
    if cell.numel() > 0 {
        let read = [Some(&gates), Some(&cell), g_hidden.as_ref(), g_kept.as_ref()].into_iter().flatten();
        let _locks = LockSet::new(read.map(|t| (t.storage(), false)).chain([(g_gates.storage(), true), (g_cell.storage(), true)]))?;
        let width = cell.size(-1)? as usize;
        crate::dispatch_dtype!(cell.dtype(), T in [reals] => {
            // SAFETY: all are locked, contiguous and of this type, and the results fresh.
            unsafe {
                let grads = [&g_hidden, &g_kept].map(|g| g.as_ref().map(|g| elements::<T>(g)));
                <T as flambeau_cpu::Real>::lstm_backward(width, grads, elements(&gates), elements(&cell), elements_mut(&g_gates), elements_mut(&g_cell));
            }
        }; else unreachable!("checked"));
    }
    Ok((g_gates, g_cell))
}

op! {
    /// The new hidden state and cell of an LSTM, from the gates before their activations (input, forget, new and output, one
    /// beside the other) and the cell.
    lstm_gates: "_lstm_gates(Tensor gates, Tensor cell) -> (Tensor, Tensor)";
    Body::Explicit(kernel!(lstm_gates_any; gates, cell));
    derivative: backward! {
        (gates, cell)([c], gates: Tensor, cell: Tensor) => {
            let found = lstm_gates_backward::OP.call(&[c.grad(0).into(), c.grad(1).into(), (&gates).into(), (&cell).into()])?;
            let [g_gates, g_cell] = found.array()?;
            [Some(g_gates), Some(g_cell)]
        }
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.uniform(&[3, 8], -1.0, 1.0), m.uniform(&[3, 2], -1.0, 1.0)]],
        false => vec![],
    };
    ulp: 16.0;
    fn lstm_gates(&self, cell: &Tensor) -> (Tensor, Tensor) [self, cell];
}
op! {
    /// The gradients of `_lstm_gates` by the gates and the cell.
    lstm_gates_backward: "_lstm_gates_backward(Tensor? grad_hidden, Tensor? grad_cell, Tensor gates, Tensor cell) -> (Tensor, Tensor)";
    Body::Explicit(kernel!(lstm_gates_backward_any; g_hidden, g_kept, gates, cell));
    derivative: backward! {
        (grad_hidden, grad_cell, gates, cell)([c], grad_hidden: Option<Tensor>, grad_cell: Option<Tensor>, gates: Tensor, cell: Tensor) => {
            // The state written out, and differentiated twice.
            c.differentiate(&[grad_hidden.as_ref(), grad_cell.as_ref(), Some(&gates), Some(&cell)], |leaves| {
                let [g_hidden, g_kept, Some(gates), Some(cell)] = leaves else { return Ok(vec![]) };
                let (hidden, kept) = written_out(gates, cell)?;
                let (results, grads): (Vec<_>, Vec<_>) =
                    [(hidden, g_hidden), (kept, g_kept)].into_iter().filter(|(_, g)| g.is_some()).map(|(t, g)| (t, g.clone())).unzip();
                let first = crate::autograd::grad(&results, &[gates.clone(), cell.clone()], &grads, true, true, true)?;
                first.into_iter().zip([gates, cell]).map(|(d, x)| d.map_or_else(|| x.zeros_like(), Ok)).collect()
            })?
        }
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![
            sample![m.uniform(&[3, 2], -1.0, 1.0), m.uniform(&[3, 2], -1.0, 1.0), m.uniform(&[3, 8], -1.0, 1.0), m.uniform(&[3, 2], -1.0, 1.0)],
            sample![(), m.uniform(&[3, 2], -1.0, 1.0), m.uniform(&[3, 8], -1.0, 1.0), m.uniform(&[3, 2], -1.0, 1.0)],
        ],
        false => vec![],
    };
    ulp: 64.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[lstm_gates::ALL, lstm_gates_backward::ALL];
