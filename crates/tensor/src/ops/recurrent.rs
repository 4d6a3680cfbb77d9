//! One layer of a recurrent network in one direction over packed sequences, as one operator, and its gradient.
//!
//! The input's shares of the gates at all times are one product, and so are the gradients by input and weights; between
//! them go the times, each a product with the state and the cell's own arithmetic (`flambeau_cpu::rnn`).

use super::rnn;
use crate::access::{elements, elements_mut};
use crate::value::Bind;
use crate::{Body, DType, Device, Dims, Error, MemoryFormat, Op, OwnedValue, Result, Tensor, Value, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::rnn::{Cell, Gradients, Layer, Results, Saved, Steps};

/// What both operators take.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    /// The rows of the first time, of the second, ...
    pub data: &'a Tensor,
    pub hx: &'a Tensor,
    /// An LSTM's.
    pub cx: Option<&'a Tensor>,
    pub w_ih: &'a Tensor,
    pub w_hh: &'a Tensor,
    pub b_ih: Option<&'a Tensor>,
    pub b_hh: Option<&'a Tensor>,
    /// How many rows each time has; never more than the time before.
    pub sizes: &'a [i64],
    /// PyTorch's name of the kind of cell.
    pub mode: &'a str,
    pub reverse: bool,
}

impl<'a> Bind<'a> for Call<'a> {
    fn bind(op: Option<&'static Op>, args: &[Value<'a>], next: &mut usize) -> Result<Self> {
        Ok(Call {
            data: Bind::bind(op, args, next)?,
            hx: Bind::bind(op, args, next)?,
            cx: Bind::bind(op, args, next)?,
            w_ih: Bind::bind(op, args, next)?,
            w_hh: Bind::bind(op, args, next)?,
            b_ih: Bind::bind(op, args, next)?,
            b_hh: Bind::bind(op, args, next)?,
            sizes: Bind::bind(op, args, next)?,
            mode: Bind::bind(op, args, next)?,
            reverse: Bind::bind(op, args, next)?,
        })
    }
}

impl<'a> Call<'a> {
    fn values(&self) -> [Value<'a>; 10] {
        [
            self.data.into(), self.hx.into(), self.cx.into(), self.w_ih.into(), self.w_hh.into(), self.b_ih.into(), self.b_hh.into(),
            self.sizes.into(), Value::Str(self.mode), self.reverse.into(),
        ]
    }

    /// Every tensor that is there.
    fn tensors(&self) -> impl Iterator<Item = &'a Tensor> + use<'a> {
        [Some(self.data), Some(self.hx), self.cx, Some(self.w_ih), Some(self.w_hh), self.b_ih, self.b_hh].into_iter().flatten()
    }

    fn cell(&self) -> Result<Cell> {
        Ok(match self.mode {
            "LSTM" => Cell::Lstm,
            "GRU" => Cell::Gru,
            "RNN_TANH" => Cell::Tanh,
            "RNN_RELU" => Cell::Relu,
            mode => return Err(Error::runtime(format!("there is no recurrent cell called {mode}"))),
        })
    }

    /// Whether sizes and dtypes fit each other.
    fn fits(&self, cell: Cell) -> bool {
        let (&[rows, features], &[batch, hidden]) = (self.data.sizes(), self.hx.sizes()) else { return false };
        let wide = cell.gates() as i64 * hidden;
        self.cx.is_some() == (cell == Cell::Lstm)
            && self.cx.is_none_or(|c| c.sizes() == [batch, hidden])
            && self.w_ih.sizes() == [wide, features]
            && self.w_hh.sizes() == [wide, hidden]
            && [self.b_ih, self.b_hh].into_iter().flatten().all(|b| b.sizes() == [wide])
            && self.sizes.first() == Some(&batch)
            && self.sizes.windows(2).all(|w| w[0] >= w[1])
            && self.sizes.iter().all(|n| *n >= 0)
            && self.sizes.iter().sum::<i64>() == rows
            && self.tensors().all(|t| t.dtype() == self.data.dtype())
    }

    /// Whether the operator takes these, which are not empty, and differentiates them best.
    pub(super) fn has_kernel(&self) -> bool {
        matches!(self.data.dtype(), DType::F32 | DType::F64)
            && self.data.numel() > 0
            && self.hx.numel() > 0
            && self.tensors().all(|t| t.device() == Device::CPU && t.tangent().is_none())
            && self.cell().is_ok_and(|cell| self.fits(cell))
    }

    /// The output, and the last hidden state and cell.
    pub(super) fn run(&self) -> Result<(Tensor, Tensor, Option<Tensor>)> {
        let keep = crate::autograd::is_grad_enabled() && self.tensors().any(Tensor::requires_grad);
        let found = recurrent_layer::OP.call(&[&self.values()[..], &[keep.into()]].concat())?.list()?;
        match &found[..] {
            [output, hidden, cell, ..] => Ok((output.clone(), hidden.clone(), self.cx.map(|_| cell.clone()))),
            _ => Err(Error::runtime("a recurrent layer gave nothing")),
        }
    }

    fn checked(&self) -> Result<(Cell, Steps)> {
        let cell = self.cell()?;
        if !matches!(self.data.dtype(), DType::F32 | DType::F64) {
            let name = self.data.dtype().scalar_type_name();
            return Err(Error::not_implemented(format!("\"_recurrent_layer\" not implemented for '{name}'")));
        }
        ensure!(
            self.fits(cell),
            "_recurrent_layer: input {:?}, hidden state {:?} and weights {:?} and {:?} do not fit each other as {} {} over {:?}",
            self.data.sizes(),
            self.hx.sizes(),
            self.w_ih.sizes(),
            self.w_hh.sizes(),
            self.data.dtype(),
            self.mode,
            self.sizes
        );
        Ok((cell, Steps::new(self.sizes.iter().map(|n| *n as usize), self.reverse)))
    }

    fn fresh(&self, sizes: &[i64]) -> Result<Tensor> {
        Tensor::empty(sizes, (self.data.dtype(), self.data.device()))
    }

    /// Sizes of the results: the output, the last states, the gates and what else the gradient needs.
    fn result_sizes(&self, cell: Cell, keep: bool) -> [Dims; 5] {
        let (rows, hidden) = (self.data.sizes()[0], self.hx.sizes()[1]);
        let only_if = |there: bool, sizes: &[i64]| Dims::from_slice(if there { sizes } else { &[0] });
        let keep = keep && cell.gates() > 1;
        [
            only_if(true, &[rows, hidden]),
            only_if(true, self.hx.sizes()),
            only_if(cell == Cell::Lstm, self.hx.sizes()),
            only_if(keep, &[rows, cell.gates() as i64 * hidden]),
            only_if(keep, &[rows, hidden]),
        ]
    }
}

/// What the kernels read, row-major.
struct Operands {
    w_hh: Tensor,
    b_hh: Option<Tensor>,
    hx: Tensor,
    cx: Option<Tensor>,
}

impl Operands {
    fn of(call: &Call<'_>, cell: Cell) -> Result<Operands> {
        let dense = |t: Option<&Tensor>| t.map(Tensor::contiguous).transpose();
        Ok(Operands {
            w_hh: call.w_hh.contiguous()?,
            b_hh: dense(call.b_hh.filter(|_| cell == Cell::Gru))?,
            hx: call.hx.contiguous()?,
            cx: dense(call.cx)?,
        })
    }

    fn all(&self) -> impl Iterator<Item = &Tensor> {
        [Some(&self.w_hh), self.b_hh.as_ref(), Some(&self.hx), self.cx.as_ref()].into_iter().flatten()
    }

    /// # Safety
    /// They are of this type, and locked for as long as this is used.
    unsafe fn layer<'a, T>(&'a self, cell: Cell, steps: &'a Steps) -> Layer<'a, T> {
        // SAFETY: the caller's.
        unsafe {
            Layer {
                cell,
                hidden: self.hx.sizes()[1] as usize,
                steps,
                weight: elements(&self.w_hh),
                bias: self.b_hh.as_ref().map(|b| elements(b)),
                first_hidden: elements(&self.hx),
                first_cell: self.cx.as_ref().map_or(&[], |c| elements(c)),
            }
        }
    }
}

fn layer_cpu(call: Call<'_>, keep: bool) -> Result<Vec<Tensor>> {
    let (cell, steps) = call.checked()?;
    let bias = match (call.b_ih, call.b_hh) {
        (Some(ih), Some(hh)) if cell != Cell::Gru => Some(ih.add(hh)?),
        (None, hh) if cell != Cell::Gru => hh.cloned(),
        (ih, _) => ih.cloned(),
    };
    let gates = call.data.linear(call.w_ih, bias.as_ref())?.contiguous()?;
    let operands = Operands::of(&call, cell)?;
    let [sizes @ .., of_gates, of_kept] = call.result_sizes(cell, keep);
    let [output, hidden, last] = sizes;
    let (output, hidden, last, kept) = (call.fresh(&output)?, call.fresh(&hidden)?, call.fresh(&last)?, call.fresh(&of_kept)?);
    if call.hx.numel() > 0 {
        let written = [&gates, &output, &hidden, &last, &kept].into_iter().map(|t| (t.storage(), true));
        let _locks = LockSet::new(operands.all().map(|t| (t.storage(), false)).chain(written))?;
        dispatch_dtype!(call.data.dtype(), T in [reals] => {
            // SAFETY: all are locked, contiguous and of this type, and the results fresh.
            unsafe {
                let results = Results {
                    gates: elements_mut::<T>(&gates),
                    output: elements_mut(&output),
                    hidden: elements_mut(&hidden),
                    cell: elements_mut(&last),
                    kept: (kept.numel() > 0).then(|| elements_mut(&kept)),
                };
                flambeau_cpu::Real::layer_forward(&operands.layer(cell, &steps), results);
            }
        }; else unreachable!("checked"));
    }
    let gates = if kept.numel() > 0 { gates } else { call.fresh(&of_gates)? };
    Ok(vec![output, hidden, last, gates, kept])
}

fn layer_meta(call: Call<'_>, keep: bool) -> Result<Vec<Tensor>> {
    let (cell, _) = call.checked()?;
    call.result_sizes(cell, keep).into_iter().map(|s| Tensor::fresh(Device::META, call.data.dtype(), s)).collect()
}

op! {
    /// One layer of a recurrent network in one direction over packed sequences: the output of all times, the last hidden
    /// state and cell, and, where `keep` asks for it, what the gradient needs.
    recurrent_layer: "_recurrent_layer(Tensor data, Tensor hx, Tensor? cx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, int[] batch_sizes, str mode, bool reverse, bool keep) -> (Tensor, Tensor, Tensor, Tensor, Tensor)";
    Body::Kernels { cpu: kernel!(layer_cpu; call, keep), meta: kernel!(layer_meta; call, keep) };
    derivative: backward! {
        (data, hx, cx, w_ih, w_hh, b_ih, b_hh)([c], data: Tensor, hx: Tensor, cx: Option<Tensor>, w_ih: Tensor, w_hh: Tensor, b_ih: Option<Tensor>, b_hh: Option<Tensor>, batch_sizes: Dims, mode: String, reverse: bool, result0: Tensor, result3: Tensor, result4: Tensor) => {
            let call = Call {
                data: &data, hx: &hx, cx: cx.as_ref(), w_ih: &w_ih, w_hh: &w_hh, b_ih: b_ih.as_ref(), b_hh: b_hh.as_ref(), sizes: &batch_sizes,
                mode: &mode, reverse,
            };
            layer_gradients(c, call, [result0, result3, result4])?
        }
    };
    samples: samples;
    ulp: 64.0;
}

fn layer_gradients(c: &crate::autograd::GradContext<'_>, call: Call<'_>, mut saved: [Tensor; 3]) -> Result<Vec<Option<Tensor>>> {
    let mask = ["data", "hx", "cx", "w_ih", "w_hh", "b_ih", "b_hh"].map(|name| c.needs(name));
    let by = [c.grad(0), c.grad(1), c.grad(2).filter(|_| call.cx.is_some())];
    if by.iter().all(Option::is_none) {
        return Ok(vec![None; mask.len()]);
    }
    if saved[1].numel() == 0 && call.cell()?.gates() > 1 && call.hx.numel() > 0 {
        // Nothing was kept.
        let _mode = crate::autograd::no_grad();
        saved[1..].clone_from_slice(&recurrent_layer::OP.call(&[&call.values()[..], &[true.into()]].concat())?.list()?[3..]);
    }
    let [output, gates, kept] = &saved;
    let last = [output.into(), gates.into(), kept.into(), (&mask[..]).into()];
    match recurrent_layer_backward::OP.call(&[&by.map(Value::from)[..], &call.values(), &last].concat())? {
        crate::Outputs::Many(grads) => Ok(grads),
        _ => Err(Error::runtime("the gradient of a recurrent layer gave nothing")),
    }
}

fn check_gradients(call: &Call<'_>, by: [Option<&Tensor>; 3], saved: [&Tensor; 3], cell: Cell) -> Result<()> {
    let sizes = call.result_sizes(cell, true);
    let fit = |t: &Tensor, i: usize| t.sizes() == &sizes[i][..] && t.dtype() == call.data.dtype();
    ensure!(
        by.iter().enumerate().all(|(i, g)| g.is_none_or(|g| fit(g, i)))
            && saved.iter().zip([0, 3, 4]).all(|(t, i)| fit(t, i)),
        "_recurrent_layer_backward: the gradients or what was saved do not fit the layer"
    );
    Ok(())
}

fn backward_cpu(
    by_output: Option<&Tensor>, by_hidden: Option<&Tensor>, by_cell: Option<&Tensor>, call: Call<'_>, output: &Tensor, gates: &Tensor,
    kept: &Tensor, mask: [bool; 7],
) -> Result<Vec<Option<Tensor>>> {
    let (cell, steps) = call.checked()?;
    check_gradients(&call, [by_output, by_hidden, by_cell], [output, gates, kept], cell)?;
    let operands = Operands::of(&call, cell)?;
    let (output, gates, kept) = (output.contiguous()?, gates.contiguous()?, kept.contiguous()?);
    let by_output = by_output.map(Tensor::contiguous).transpose()?;
    let running = |by: Option<&Tensor>, like: &[i64]| match by {
        Some(by) => by.clone_in(MemoryFormat::Contiguous),
        None => Tensor::zeros(like, (call.data.dtype(), call.data.device())),
    };
    let [_, of_hidden, of_cell, of_gates, _] = call.result_sizes(cell, true);
    let (by_hidden, by_cell) = (running(by_hidden, &of_hidden)?, running(by_cell, &of_cell)?);
    let wide = [call.data.sizes()[0], call.w_hh.sizes()[0]];
    let by_gates = call.fresh(&wide)?;
    let by_shares = if cell == Cell::Gru { call.fresh(&of_gates)? } else { call.fresh(&[0])? };
    if call.hx.numel() > 0 {
        let read = operands.all().chain([&output, &gates, &kept]).chain(&by_output).map(|t| (t.storage(), false));
        let written = [&by_hidden, &by_cell, &by_gates, &by_shares].into_iter().map(|t| (t.storage(), true));
        let _locks = LockSet::new(read.chain(written))?;
        dispatch_dtype!(call.data.dtype(), T in [reals] => {
            // SAFETY: all are locked, contiguous and of this type, and what is written is fresh.
            unsafe {
                let saved = Saved { gates: elements::<T>(&gates), kept: elements(&kept), output: elements(&output) };
                let gradients = Gradients {
                    output: by_output.as_ref().map(|g| elements(g)),
                    hidden: elements_mut(&by_hidden),
                    cell: elements_mut(&by_cell),
                    gates: elements_mut(&by_gates),
                    shares: elements_mut(&by_shares),
                };
                flambeau_cpu::Real::layer_backward(&operands.layer(cell, &steps), &saved, gradients);
            }
        }; else unreachable!("checked"));
    }
    let by_shares = if cell == Cell::Gru { by_shares } else { by_gates.clone() };
    let only_if = |wanted: bool, gradient: &dyn Fn() -> Result<Tensor>| if wanted { gradient().map(Some) } else { Ok(None) };
    let of_bias = |by: &Tensor, bias: Option<&Tensor>, wanted| only_if(wanted && bias.is_some(), &|| by.sum_dim(&[0], false));
    Ok(vec![
        only_if(mask[0], &|| by_gates.mm(call.w_ih))?,
        Some(by_hidden).filter(|_| mask[1]),
        Some(by_cell).filter(|_| mask[2] && call.cx.is_some()),
        only_if(mask[3], &|| by_gates.t()?.mm(call.data))?,
        only_if(mask[4], &|| by_state_weights(&by_shares, &output, call))?,
        of_bias(&by_gates, call.b_ih, mask[5])?,
        of_bias(&by_shares, call.b_hh, mask[6])?,
    ])
}

/// The gradient by the state's weights: what the shares' gradients and the states before them, over all times, make.
fn by_state_weights(by: &Tensor, output: &Tensor, call: Call<'_>) -> Result<Tensor> {
    let (batch, total) = (call.sizes[0], output.sizes()[0]);
    if call.sizes.iter().all(|n| *n == batch) {
        // The states before are the outputs without the last time's, and the first state.
        let others = total - batch;
        let (first, rest, before) = if call.reverse { (others, 0, batch) } else { (0, batch, 0) };
        let of_first = by.narrow(0, first, batch)?.t()?;
        if others == 0 {
            return of_first.mm(call.hx);
        }
        let of_others = by.narrow(0, rest, others)?.t()?.mm(&output.narrow(0, before, others)?)?;
        return of_others.addmm(&of_first, call.hx);
    }
    let mut before = Vec::with_capacity(2 * call.sizes.len());
    let mut start = 0;
    for (t, &rows) in call.sizes.iter().enumerate() {
        let next = call.sizes.get(t + 1).copied().unwrap_or(0);
        match call.reverse {
            false if t == 0 => before.push(call.hx.clone()),
            false => before.push(output.narrow(0, start - call.sizes[t - 1], rows)?),
            true => {
                before.push(output.narrow(0, start + rows, next)?);
                before.push(call.hx.narrow(0, next, rows - next)?);
            }
        }
        start += rows;
    }
    by.t()?.mm(&Tensor::cat(&before, 0)?)
}

fn backward_meta(
    by_output: Option<&Tensor>, by_hidden: Option<&Tensor>, by_cell: Option<&Tensor>, call: Call<'_>, output: &Tensor, gates: &Tensor,
    kept: &Tensor, mask: [bool; 7],
) -> Result<Vec<Option<Tensor>>> {
    let (cell, _) = call.checked()?;
    check_gradients(&call, [by_output, by_hidden, by_cell], [output, gates, kept], cell)?;
    let all = [Some(call.data), Some(call.hx), call.cx, Some(call.w_ih), Some(call.w_hh), call.b_ih, call.b_hh];
    let meta = |(t, wanted): (Option<&Tensor>, bool)| {
        t.filter(|_| wanted).map(|t| Tensor::fresh(Device::META, t.dtype(), Dims::from_slice(t.sizes()))).transpose()
    };
    all.into_iter().zip(mask).map(meta).collect()
}

/// The layer written out and differentiated: what [`backward_cpu`] computes, for derivatives of a higher order.
fn gradients_written_out(leaves: &[Option<Tensor>], sizes: &[i64], mode: &str, reverse: bool) -> Result<Vec<Tensor>> {
    let [by_output, by_hidden, by_cell, Some(data), Some(hx), cx, Some(w_ih), Some(w_hh), b_ih, b_hh] = leaves else {
        return Ok(vec![]);
    };
    let call = Call { data, hx, cx: cx.as_ref(), w_ih, w_hh, b_ih: b_ih.as_ref(), b_hh: b_hh.as_ref(), sizes, mode, reverse };
    let (output, hidden, cell) = rnn::written_out(call)?;
    let all = [(Some(output), by_output), (Some(hidden), by_hidden), (cell, by_cell)];
    let (results, by): (Vec<_>, Vec<_>) = all.into_iter().filter_map(|(y, g)| Some((y?, Some(g.clone()?)))).unzip();
    let inputs: Vec<Tensor> = leaves[3..].iter().flatten().cloned().collect();
    let mut found = crate::autograd::grad(&results, &inputs, &by, true, true, true)?.into_iter();
    let gradient = |x: &Option<Tensor>| match x {
        Some(x) => found.next().flatten().map_or_else(|| x.zeros_like(), Ok),
        // Nobody has its gradient.
        None => Ok(hx.clone()),
    };
    leaves[3..].iter().map(gradient).collect()
}

op! {
    /// The gradients of a recurrent layer with respect to its tensors, as far as `output_mask` asks.
    recurrent_layer_backward: "_recurrent_layer_backward(Tensor? grad_output, Tensor? grad_hidden, Tensor? grad_cell, Tensor data, Tensor hx, Tensor? cx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, int[] batch_sizes, str mode, bool reverse, Tensor output, Tensor gates, Tensor kept, bool[7] output_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)";
    Body::Kernels {
        cpu: kernel!(backward_cpu; by_output, by_hidden, by_cell, call, output, gates, kept, mask),
        meta: kernel!(backward_meta; by_output, by_hidden, by_cell, call, output, gates, kept, mask),
    };
    derivative: backward! {
        (grad_output, grad_hidden, grad_cell, data, hx, cx, w_ih, w_hh, b_ih, b_hh)([c], grad_output: Option<Tensor>, grad_hidden: Option<Tensor>, grad_cell: Option<Tensor>, data: Tensor, hx: Tensor, cx: Option<Tensor>, w_ih: Tensor, w_hh: Tensor, b_ih: Option<Tensor>, b_hh: Option<Tensor>, batch_sizes: Dims, mode: String, reverse: bool) =>
            c.differentiate(
                &[
                    grad_output.as_ref(), grad_hidden.as_ref(), grad_cell.as_ref(), Some(&data), Some(&hx), cx.as_ref(), Some(&w_ih), Some(&w_hh),
                    b_ih.as_ref(), b_hh.as_ref(),
                ],
                |leaves| gradients_written_out(leaves, &batch_sizes, &mode, reverse),
            )?
    };
    samples: |m| {
        let Some(forward) = samples(m).into_iter().next() else { return vec![] };
        let args: Vec<Value<'_>> = forward.args.iter().map(OwnedValue::borrow).collect();
        match recurrent_layer::OP.call(&args).and_then(crate::Outputs::list).as_deref() {
            Ok([output, _, _, gates, kept]) => {
                let by = [&[3i64, 1][..], &[2, 1], &[2, 1]].map(|s| OwnedValue::from(m.uniform(s, -1.0, 1.0)));
                let saved = [output, gates, kept].map(|t| OwnedValue::from(t.clone()));
                let args = by.into_iter().chain(forward.args[..10].iter().cloned()).chain(saved);
                vec![crate::samples::Sample::new(args.chain([OwnedValue::Bools(vec![true; 7])]).collect::<Vec<_>>())]
            }
            _ => vec![],
        }
    };
    ulp: 64.0;
}

/// Small layers, whose second derivatives can be checked, and one without biases that keeps nothing.
fn samples(m: &mut crate::samples::Maker) -> Vec<crate::samples::Sample> {
    if !matches!(m.dtype, DType::F32 | DType::F64) {
        return vec![];
    }
    let mut all = Vec::new();
    for (mode, gates, reverse) in [("LSTM", 4, false), ("GRU", 3, true), ("RNN_TANH", 1, false), ("RNN_RELU", 1, true)] {
        let [data, hx, cx] = [[3, 1], [2, 1], [2, 1]].map(|s| m.uniform(&s, -1.0, 1.0));
        let [w_ih, w_hh] = [[gates, 1], [gates, 1]].map(|s| m.uniform(&s, -1.0, 1.0));
        let [b_ih, b_hh] = [[gates], [gates]].map(|s| m.uniform(&s, -0.5, 0.5));
        let cx = if mode == "LSTM" { OwnedValue::Tensor(cx) } else { OwnedValue::None };
        all.push(sample![data, hx, cx, w_ih, w_hh, b_ih, b_hh, vec![2i64, 1], mode, reverse, true]);
    }
    let [data, hx, w_ih, w_hh] = [[4, 2], [2, 3], [9, 2], [9, 3]].map(|s| m.uniform(&s, -1.0, 1.0));
    all.push(sample![data, hx, (), w_ih, w_hh, (), (), vec![2i64, 2], "GRU", false, false]);
    all
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[recurrent_layer::ALL, recurrent_layer_backward::ALL];
