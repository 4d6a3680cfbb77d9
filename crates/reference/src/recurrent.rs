//! One layer of a recurrent network in one direction over packed sequences, and its gradient: row by row and time by
//! time.

use crate::Kernel;
use crate::array::{Array, outline, outlines, write};
use crate::functions::logistic;
use flambeau::value::take;
use flambeau::{Op, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[("_recurrent_layer", forward), ("_recurrent_layer_backward", backward)];

/// The kinds of cells, with PyTorch's order of gates.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    /// Input, forget, new, output (Hochreiter and Schmidhuber, "Long short-term memory", 1997, with forget gates).
    Lstm,
    /// Reset, update, new (Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014).
    Gru,
    Tanh,
    Relu,
}

/// A matrix by rows.
struct Matrix {
    data: Vec<f64>,
    columns: usize,
}

impl Matrix {
    fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.columns..(i + 1) * self.columns]
    }

    /// The product with a column.
    fn times(&self, x: &[f64]) -> Vec<f64> {
        self.data.chunks(self.columns.max(1)).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
    }

    /// The product of a row with it.
    fn under(&self, g: &[f64]) -> Vec<f64> {
        (0..self.columns).map(|j| g.iter().enumerate().map(|(i, g)| g * self.row(i)[j]).sum()).collect()
    }
}

/// Adds the outer product of a column and a row to a matrix.
fn add_outer(to: &mut Matrix, g: &[f64], x: &[f64]) {
    for (row, g) in to.data.chunks_mut(to.columns.max(1)).zip(g) {
        row.iter_mut().zip(x).for_each(|(to, x)| *to += g * x);
    }
}

fn add(to: &mut [f64], x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += x);
}

/// What both operators take. Which sizes fit was checked on Meta.
struct Layer {
    cell: Cell,
    gates: usize,
    hidden: usize,
    data: Matrix,
    hx: Matrix,
    cx: Option<Matrix>,
    w_ih: Matrix,
    w_hh: Matrix,
    b_ih: Vec<f64>,
    b_hh: Vec<f64>,
    /// Each time's first row and how many it has, in the order in which they are computed.
    times: Vec<(usize, usize)>,
}

impl Layer {
    /// From the arguments that begin at `first`.
    fn of(op: &'static Op, args: &[Value<'_>], first: usize) -> Result<Layer> {
        let matrix = |i: usize| -> Result<Option<Matrix>> {
            let t: Option<&Tensor> = take(op, args, first + i)?;
            t.map(|t| {
                let columns = t.sizes().last().map_or(1, |n| *n as usize);
                Ok(Matrix { data: Array::<f64>::read(t)?.data, columns })
            })
            .transpose()
        };
        let empty = || Matrix { data: vec![], columns: 0 };
        let (cell, gates) = match take::<&str>(op, args, first + 8)? {
            "LSTM" => (Cell::Lstm, 4),
            "GRU" => (Cell::Gru, 3),
            "RNN_TANH" => (Cell::Tanh, 1),
            _ => (Cell::Relu, 1),
        };
        let mut times = vec![];
        let mut start = 0;
        for rows in take::<&[i64]>(op, args, first + 7)? {
            times.push((start, *rows as usize));
            start += *rows as usize;
        }
        if take(op, args, first + 9)? {
            times.reverse();
        }
        let hx = matrix(1)?.unwrap_or_else(empty);
        let hidden = hx.columns;
        let bias = |i: usize| matrix(i).map(|b| b.map_or(vec![0.0; gates * hidden], |b| b.data));
        Ok(Layer {
            cell,
            gates,
            hidden,
            data: matrix(0)?.unwrap_or_else(empty),
            hx,
            cx: matrix(2)?,
            w_ih: matrix(3)?.unwrap_or_else(empty),
            w_hh: matrix(4)?.unwrap_or_else(empty),
            b_ih: bias(5)?,
            b_hh: bias(6)?,
            times,
        })
    }

    /// The part of a row of all gates that one has.
    fn gate<'a>(&self, row: &'a [f64], gate: usize) -> &'a [f64] {
        &row[gate * self.hidden..(gate + 1) * self.hidden]
    }
}

/// What one row's step gives: the new state and cell, the activations of the gates, and what else the gradient needs
/// (the cell of an LSTM, of a GRU the state's share of the new gate).
struct Step {
    state: Vec<f64>,
    cell: Vec<f64>,
    gates: Vec<f64>,
    kept: Vec<f64>,
}

fn step(layer: &Layer, x: &[f64], state: &[f64], cell: &[f64]) -> Step {
    let (mut given, mut own) = (layer.w_ih.times(x), layer.w_hh.times(state));
    add(&mut given, &layer.b_ih);
    add(&mut own, &layer.b_hh);
    let n = layer.hidden;
    let sum = |gate: usize, i: usize| given[gate * n + i] + own[gate * n + i];
    let gate = |k: usize, f: fn(f64) -> f64| (0..n).map(|i| f(sum(k, i))).collect::<Vec<f64>>();
    match layer.cell {
        Cell::Lstm => {
            let (input, forget, new, output) =
                (gate(0, logistic), gate(1, logistic), gate(2, f64::tanh), gate(3, logistic));
            let cell: Vec<f64> = (0..n).map(|i| forget[i] * cell[i] + input[i] * new[i]).collect();
            let state = (0..n).map(|i| output[i] * cell[i].tanh()).collect();
            Step { state, kept: cell.clone(), cell, gates: [input, forget, new, output].concat() }
        }
        Cell::Gru => {
            let (reset, update, share) = (gate(0, logistic), gate(1, logistic), layer.gate(&own, 2).to_vec());
            let new: Vec<f64> = (0..n).map(|i| (given[2 * n + i] + reset[i] * share[i]).tanh()).collect();
            let state = (0..n).map(|i| (1.0 - update[i]) * new[i] + update[i] * state[i]).collect();
            Step { state, cell: vec![], gates: [reset, update, new].concat(), kept: share }
        }
        Cell::Tanh => Step { state: gate(0, f64::tanh), cell: vec![], gates: vec![], kept: vec![] },
        Cell::Relu => {
            let rectified = |x: f64| if x <= 0.0 { 0.0 } else { x };
            Step { state: gate(0, rectified), cell: vec![], gates: vec![], kept: vec![] }
        }
    }
}

fn forward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let outs = outline(op, args)?;
    let layer = Layer::of(op, args, 0)?;
    let n = layer.hidden;
    let mut state = layer.hx.data.clone();
    let mut cell = layer.cx.as_ref().map_or(vec![], |c| c.data.clone());
    let rows = outs[0].sizes()[0] as usize;
    let (mut output, mut gates, mut kept) =
        (vec![0.0; rows * n], vec![0.0; rows * layer.gates * n], vec![0.0; rows * n]);
    for &(start, count) in &layer.times {
        for row in 0..count {
            let (own, at) = (row * n..(row + 1) * n, start + row);
            let before = if cell.is_empty() { &[] } else { &cell[own.clone()] };
            let found = step(&layer, layer.data.row(at), &state[own.clone()], before);
            output[at * n..(at + 1) * n].copy_from_slice(&found.state);
            state[own.clone()].copy_from_slice(&found.state);
            if !found.cell.is_empty() {
                cell[own].copy_from_slice(&found.cell);
            }
            if !found.kept.is_empty() {
                kept[at * n..(at + 1) * n].copy_from_slice(&found.kept);
                gates[at * layer.gates * n..(at + 1) * layer.gates * n].copy_from_slice(&found.gates);
            }
        }
    }
    // What is not kept is empty.
    let all = outs.iter().zip([output, state, cell, gates, kept]);
    let all = all.map(|(o, d)| if o.numel() == 0 { write(o, &[] as &[f64]) } else { write(o, &d) });
    Ok(all.collect::<Result<Vec<_>>>()?.into())
}

/// The gradients of one row's step by the input's and by the state's shares of the gates, and what of those by the
/// state and the cell before does not pass through the state's shares.
struct Slopes {
    given: Vec<f64>,
    own: Vec<f64>,
    state: Vec<f64>,
    cell: Vec<f64>,
}

/// One row's step as it was: the activations, what was kept, the new state, and the state or cell before.
struct Done<'a> {
    gates: &'a [f64],
    kept: &'a [f64],
    state: &'a [f64],
    state_before: &'a [f64],
    cell_before: &'a [f64],
}

fn slopes(layer: &Layer, done: &Done<'_>, by_state: &[f64], by_cell: &[f64]) -> Slopes {
    let n = layer.hidden;
    let gate = |k: usize, i: usize| done.gates[k * n + i];
    let mut given = vec![0.0; layer.gates * n];
    let (mut state, mut cell) = (vec![0.0; n], vec![0.0; n]);
    match layer.cell {
        Cell::Lstm => {
            for i in 0..n {
                let (a, f, b, o, t) = (gate(0, i), gate(1, i), gate(2, i), gate(3, i), done.kept[i].tanh());
                let by_cell = by_cell[i] + by_state[i] * o * (1.0 - t * t);
                given[i] = by_cell * b * a * (1.0 - a);
                given[n + i] = by_cell * done.cell_before[i] * f * (1.0 - f);
                given[2 * n + i] = by_cell * a * (1.0 - b * b);
                given[3 * n + i] = by_state[i] * t * o * (1.0 - o);
                cell[i] = by_cell * f;
            }
            Slopes { own: given.clone(), given, state, cell }
        }
        Cell::Gru => {
            let mut own = vec![0.0; 3 * n];
            for i in 0..n {
                let (r, z, m) = (gate(0, i), gate(1, i), gate(2, i));
                let by_new = by_state[i] * (1.0 - z) * (1.0 - m * m);
                given[i] = by_new * done.kept[i] * r * (1.0 - r);
                given[n + i] = by_state[i] * (done.state_before[i] - m) * z * (1.0 - z);
                given[2 * n + i] = by_new;
                (own[i], own[n + i], own[2 * n + i]) = (given[i], given[n + i], by_new * r);
                state[i] = by_state[i] * z;
            }
            Slopes { given, own, state, cell }
        }
        Cell::Tanh | Cell::Relu => {
            for i in 0..n {
                given[i] = match layer.cell {
                    Cell::Tanh => by_state[i] * (1.0 - done.state[i] * done.state[i]),
                    _ if done.state[i] <= 0.0 => 0.0,
                    _ => by_state[i],
                };
            }
            Slopes { own: given.clone(), given, state, cell }
        }
    }
}

fn backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let outs = outlines(op, args)?;
    let layer = Layer::of(op, args, 3)?;
    let (n, wide) = (layer.hidden, layer.gates * layer.hidden);
    let read = |i: usize| -> Result<Option<Vec<f64>>> {
        take::<Option<&Tensor>>(op, args, i)?.map(|t| Ok(Array::<f64>::read(t)?.data)).transpose()
    };
    let [by_output, by_hidden, by_cell] = [read(0)?, read(1)?, read(2)?];
    let [output, gates, kept] = [read(13)?, read(14)?, read(15)?].map(Option::unwrap_or_default);
    let zeros = || vec![0.0; layer.hx.data.len()];
    let (mut by_state, mut by_cell) = (by_hidden.unwrap_or_else(zeros), by_cell.unwrap_or_else(zeros));
    let like = |m: &Matrix| Matrix { data: vec![0.0; m.data.len()], columns: m.columns };
    let (mut by_data, mut by_ih, mut by_hh) = (like(&layer.data), like(&layer.w_ih), like(&layer.w_hh));
    let (mut by_b_ih, mut by_b_hh) = (vec![0.0; wide], vec![0.0; wide]);
    let part = |all: &'_ [f64], at: usize, width: usize| all.get(at * width..(at + 1) * width).unwrap_or(&[]).to_vec();
    for (k, &(start, count)) in layer.times.iter().enumerate().rev() {
        for row in 0..count {
            let (at, own) = (start + row, row * n..(row + 1) * n);
            if let Some(g) = &by_output {
                add(&mut by_state[own.clone()], &g[at * n..(at + 1) * n]);
            }
            // What the row had before: from the time computed before, if it was there, else what it began with.
            let last = k.checked_sub(1).map(|k| layer.times[k]).filter(|(_, count)| row < *count).map(|(s, _)| s + row);
            let state_before = last.map_or(part(&layer.hx.data, row, n), |at| part(&output, at, n));
            let first_cell = layer.cx.as_ref().map_or(vec![], |c| part(&c.data, row, n));
            let found = slopes(
                &layer,
                &Done {
                    gates: &part(&gates, at, wide),
                    kept: &part(&kept, at, n),
                    state: &part(&output, at, n),
                    state_before: &state_before,
                    cell_before: &last.map_or(first_cell, |at| part(&kept, at, n)),
                },
                &by_state[own.clone()],
                &by_cell[own.clone()],
            );
            let features = layer.data.columns;
            by_data.data[at * features..(at + 1) * features].copy_from_slice(&layer.w_ih.under(&found.given));
            add_outer(&mut by_ih, &found.given, layer.data.row(at));
            add_outer(&mut by_hh, &found.own, &state_before);
            add(&mut by_b_ih, &found.given);
            add(&mut by_b_hh, &found.own);
            by_state[own.clone()].copy_from_slice(&found.state);
            add(&mut by_state[own.clone()], &layer.w_hh.under(&found.own));
            by_cell[own].copy_from_slice(&found.cell);
        }
    }
    let all = [by_data.data, by_state, by_cell, by_ih.data, by_hh.data, by_b_ih, by_b_hh];
    let all = outs.iter().zip(all).map(|(o, d)| o.as_ref().map(|o| write(o, &d)).transpose());
    Ok(Outputs::Many(all.collect::<Result<_>>()?))
}
