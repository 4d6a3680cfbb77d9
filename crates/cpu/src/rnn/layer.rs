//! A layer of recurrent cells over all times of packed sequences, and its gradient.
//!
//! The products with the state, which depend on one another, are made tile by tile from weights laid out once, and what a
//! cell does with a tile follows while it is in the cache. Where several rows share weights that stay in the cache,
//! pieces of parallel work are rows, each through all times; else units, time by time.

use super::CHUNK;
use super::cells::{self, ROWS};
use crate::buffer::aligned;
use crate::copy::Shared;
use crate::gemm::{Matrix, Operand, Panels};
use crate::math::{Float, entry, level};
use flambeau_base::parallel::parallel_for;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Multiply-adds worth a piece of parallel work.
const PIECE: usize = 1 << 18;
/// Bytes of weights that rows going their own way may each read at every time: they leave room in a second-level cache.
const SMALL_WEIGHTS: usize = 1 << 19;

/// Fewer rows than this wait for weights.
const FEW_ROWS: usize = 8;

/// A kind of cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell {
    /// Long short-term memory: gates input, forget, new and output.
    Lstm,
    /// A gated recurrent unit: gates reset, update and new.
    Gru,
    /// A hyperbolic tangent.
    Tanh,
    /// A rectifier.
    Relu,
}

impl Cell {
    /// How many gates it has.
    pub fn gates(self) -> usize {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Tanh | Cell::Relu => 1,
        }
    }
}

/// One time: where its rows stand in arrays over all times, and how many there are.
#[derive(Clone, Copy)]
struct Step {
    start: usize,
    rows: usize,
}

/// The times of packed sequences, in the order in which they are computed.
pub struct Steps {
    all: Vec<Step>,
    total: usize,
    most: usize,
}

impl Steps {
    /// From the number of rows of each time, from the first time to the last or backwards.
    pub fn new(rows: impl IntoIterator<Item = usize>, backwards: bool) -> Steps {
        let (mut total, mut most) = (0, 0);
        let mut all = Vec::new();
        for rows in rows {
            all.push(Step { start: total, rows });
            total += rows;
            most = most.max(rows);
        }
        if backwards {
            all.reverse();
        }
        Steps { all, total, most }
    }

    /// Rows of all times together.
    pub fn total(&self) -> usize {
        self.total
    }

    /// How many rows of a step have their state before in the step before, and where that stands.
    fn before(&self, step: usize) -> (usize, usize) {
        match step.checked_sub(1).map(|s| self.all[s]) {
            Some(last) => (last.rows.min(self.all[step].rows), last.start),
            None => (0, 0),
        }
    }
}

/// What a layer is given, `hidden` numbers wide and row-major.
pub struct Layer<'a, T> {
    /// The kind of its cells.
    pub cell: Cell,
    /// Units.
    pub hidden: usize,
    /// The times.
    pub steps: &'a Steps,
    /// The state's weights: for each gate a matrix of as many rows as columns.
    pub weight: &'a [T],
    /// What a GRU adds to the state's shares of the gates. (Others have it in the input's shares.)
    pub bias: Option<&'a [T]>,
    /// The first hidden state.
    pub first_hidden: &'a [T],
    /// The first cell of an LSTM; empty for others.
    pub first_cell: &'a [T],
}

/// Where a layer's results go.
pub struct Results<'a, T> {
    /// The input's shares of the gates at all times, and then, if something is kept, their activations (not a plain cell's).
    pub gates: &'a mut [T],
    /// The hidden states at all times.
    pub output: &'a mut [T],
    /// The last hidden state of every sequence.
    pub hidden: &'a mut [T],
    /// The last cell of every sequence; empty but for an LSTM.
    pub cell: &'a mut [T],
    /// What the gradient needs beside the gates at all times, if it is wanted: an LSTM's cells, and a GRU's shares of the new
    /// gate that come from the state.
    pub kept: Option<&'a mut [T]>,
}

/// What a layer's gradient reads of its results.
pub struct Saved<'a, T> {
    /// The gates' activations; empty for plain cells.
    pub gates: &'a [T],
    /// See [`Results::kept`]; empty for plain cells.
    pub kept: &'a [T],
    /// The hidden states.
    pub output: &'a [T],
}

/// A layer's gradients.
pub struct Gradients<'a, T> {
    /// By the hidden states at all times; none is zero.
    pub output: Option<&'a [T]>,
    /// By the last hidden state, and then by the first.
    pub hidden: &'a mut [T],
    /// By the last cell of an LSTM, and then by the first; empty for others.
    pub cell: &'a mut [T],
    /// By the input's shares of the gates, to be written.
    pub gates: &'a mut [T],
    /// By the state's shares of a GRU's gates, to be written; for others they are the same, and this is empty.
    pub shares: &'a mut [T],
}

impl<T: Float + Operand> Layer<'_, T> {
    fn check(&self) {
        let (hidden, state) = (self.hidden, self.first_hidden.len());
        let gates = self.cell.gates();
        let cell = if self.cell == Cell::Lstm { state } else { 0 };
        assert!(
            hidden > 0
                && state == self.steps.most * hidden
                && self.first_cell.len() == cell
                && self.weight.len() == gates * hidden * hidden
                && self.bias.is_none_or(|b| b.len() == gates * hidden),
            "the layer's weights and states do not fit"
        );
    }

    /// Calls `unit` for every step with ranges of rows and of chunks of units that make it up.
    fn walk(&self, steps: usize, unit: &(dyn Fn(usize, Range<usize>, Range<usize>) + Sync)) {
        let (batch, chunks) = (self.steps.most, self.hidden.div_ceil(CHUNK));
        let bytes = size_of_val(self.weight);
        let work = batch * self.weight.len();
        // Threads meet after every time for weights that are better read once, and for few rows.
        let together = if bytes > 4 * SMALL_WEIGHTS { 1 } else { 8 };
        if bytes > SMALL_WEIGHTS && work >= together * PIECE || batch < FEW_ROWS && work >= 4 * PIECE {
            let grain = (PIECE * chunks).div_ceil(work.max(1));
            (0..steps).for_each(|step| parallel_for(chunks, grain, &|units| unit(step, 0..batch, units)));
            return;
        }
        // An even number of pieces, none of few rows: kernels of few rows wait for weights.
        let alone = batch < FEW_ROWS || work.saturating_mul(steps) < 2 * PIECE;
        let pieces = if alone { 1 } else { (batch / FEW_ROWS).next_multiple_of(2) };
        parallel_for(pieces, 1, &|range| {
            for piece in range {
                let rows = piece * batch / pieces..(piece + 1) * batch / pieces;
                (0..steps).for_each(|step| unit(step, rows.clone(), 0..chunks));
            }
        });
    }
}

/// The part of an array from `at` on, or null of one that is not there.
fn part_of<T>(array: Option<*mut T>, at: usize) -> *mut T {
    array.map_or(std::ptr::null_mut(), |start| start.wrapping_add(at))
}

/// Runs a layer.
pub(crate) fn layer_forward<T: Float + Operand>(layer: &Layer<'_, T>, results: Results<'_, T>) {
    layer.check();
    let (hidden, gates, steps) = (layer.hidden, layer.cell.gates(), &layer.steps.all);
    let total = layer.steps.total;
    assert!(
        results.gates.len() == total * gates * hidden
            && results.output.len() == total * hidden
            && results.hidden.len() == layer.first_hidden.len()
            && results.cell.len() == layer.first_cell.len()
            && results.kept.as_ref().is_none_or(|k| k.len() == total * hidden),
        "the layer's results do not fit"
    );
    results.cell.copy_from_slice(layer.first_cell);
    let cell_kernel = match layer.cell {
        Cell::Lstm => entry::<cells::Lstm<T>>(level()),
        Cell::Gru => entry::<cells::Gru<T>>(level()),
        Cell::Tanh => entry::<cells::Plain<T, true>>(level()),
        Cell::Relu => entry::<cells::Plain<T, false>>(level()),
    };
    let shared = |array: &mut [T]| Shared(array.as_mut_ptr());
    let (to_gates, to_output, to_cell) = (shared(results.gates), shared(results.output), shared(results.cell));
    let to_kept = results.kept.map(|kept| Shared(kept.as_mut_ptr()));
    let weight = Matrix { start: layer.weight.as_ptr(), row_stride: 1, column_stride: hidden as isize, conj: false };
    let run = |panels: &Panels<T>| {
        layer.walk(steps.len(), &|s, rows, units| {
            let step = steps[s];
            let (going_on, last) = layer.steps.before(s);
            let mut tile = aligned(MaybeUninit::<[T; 4 * ROWS * CHUNK]>::uninit());
            let tile: *mut T = tile.as_mut_ptr().cast();
            for_tiles(hidden, rows.start..rows.end.min(step.rows), going_on, units, |rows, units| {
                let (at, row) = ((step.start + rows.start) * hidden, rows.start * hidden);
                // SAFETY: rows and units of arrays that fit each other, which are this piece's alone; the state before was
                // written by this piece, or by all before this step.
                unsafe {
                    let before = match rows.start < going_on {
                        true => to_output.get().add((last + rows.start) * hidden).cast_const(),
                        false => layer.first_hidden.as_ptr().add(row),
                    };
                    for gate in 0..gates {
                        let to = tile.add(gate * ROWS * CHUNK);
                        panels.multiply(gate, units.clone(), (before, hidden), rows.len(), false, (to, CHUNK));
                    }
                    cell_kernel(cells::Forward {
                        rows: rows.len(),
                        columns: units.len(),
                        width: hidden,
                        tile,
                        bias: layer.bias.map_or(std::ptr::null(), |b| b.as_ptr().add(units.start)),
                        gates: to_gates.get().add(at * gates + units.start),
                        before: before.add(units.start),
                        cell: to_cell.get().wrapping_add(row + units.start),
                        output: to_output.get().add(at + units.start),
                        kept: part_of(to_kept.map(|kept| kept.get()), at + units.start),
                    });
                }
            });
        });
    };
    // SAFETY: the transpose of the weights, which were checked.
    unsafe { Panels::with(weight, gates, hidden, hidden, run) };
    for (row, state) in results.hidden.chunks_exact_mut(hidden).enumerate() {
        if let Some(step) = steps.iter().rev().find(|step| row < step.rows) {
            let at = (step.start + row) * hidden;
            state.copy_from_slice(&results.output[at..at + hidden]);
        }
    }
}

/// Calls `f` with rows and units of at most a tile each; rows before and after `border` do not share one.
fn for_tiles(
    hidden: usize,
    rows: Range<usize>,
    border: usize,
    units: Range<usize>,
    mut f: impl FnMut(Range<usize>, Range<usize>),
) {
    for unit in units {
        let columns = unit * CHUNK..((unit + 1) * CHUNK).min(hidden);
        let mut start = rows.start;
        while start < rows.end {
            let end = if start < border { border.min(rows.end) } else { rows.end };
            let count = (end - start).div_ceil((end - start).div_ceil(ROWS));
            f(start..start + count, columns.clone());
            start += count;
        }
    }
}

/// The gradients of a layer by the input's shares of the gates and by the first state.
pub(crate) fn layer_backward<T: Float + Operand>(layer: &Layer<'_, T>, saved: &Saved<'_, T>, by: Gradients<'_, T>) {
    layer.check();
    let (hidden, gates, steps) = (layer.hidden, layer.cell.gates(), &layer.steps.all);
    let total = layer.steps.total;
    let kept = if gates == 1 { 0 } else { total * hidden };
    let shares = if layer.cell == Cell::Gru { total * gates * hidden } else { 0 };
    assert!(
        saved.gates.len() == kept * gates
            && saved.kept.len() == kept
            && saved.output.len() == total * hidden
            && by.output.is_none_or(|g| g.len() == total * hidden)
            && by.hidden.len() == layer.first_hidden.len()
            && by.cell.len() == layer.first_cell.len()
            && by.gates.len() == total * gates * hidden
            && by.shares.len() == shares,
        "the layer's gradients do not fit"
    );
    let cell_kernel = match layer.cell {
        Cell::Lstm => entry::<cells::LstmBackward<T>>(level()),
        Cell::Gru => entry::<cells::GruBackward<T>>(level()),
        Cell::Tanh => entry::<cells::PlainBackward<T, true>>(level()),
        Cell::Relu => entry::<cells::PlainBackward<T, false>>(level()),
    };
    let shared = |array: &mut [T]| Shared(array.as_mut_ptr());
    let (by_hidden, by_cell, by_gates) = (shared(by.hidden), shared(by.cell), shared(by.gates));
    let by_shares = if shares > 0 { shared(by.shares) } else { by_gates };
    let (first, history) = match layer.cell {
        Cell::Lstm => (layer.first_cell, saved.kept),
        _ => (layer.first_hidden, saved.output),
    };
    let weight = Matrix { start: layer.weight.as_ptr(), row_stride: hidden as isize, column_stride: 1, conj: false };
    let run = |panels: &Panels<T>| {
        // One more than there are: the last has nothing but the product.
        layer.walk(steps.len() + 1, &|done, rows, units| {
            let later = done.checked_sub(1).map(|done| steps[steps.len() - 1 - done]);
            if let Some(later) = later.filter(|later| rows.start < later.rows) {
                let rows = rows.start..rows.end.min(later.rows);
                let columns = units.start * CHUNK..(units.end * CHUNK).min(hidden);
                // SAFETY: as in `forward`: the gradients by all gates of these rows were written.
                unsafe {
                    let from = by_shares.get().add((later.start + rows.start) * gates * hidden).cast_const();
                    let to = by_hidden.get().add(rows.start * hidden + columns.start);
                    let add = layer.cell == Cell::Gru;
                    panels.multiply(0, columns, (from, gates * hidden), rows.len(), add, (to, hidden));
                }
            }
            if done == steps.len() {
                return;
            }
            let s = steps.len() - 1 - done;
            let step = steps[s];
            let (going_on, last) = layer.steps.before(s);
            for_tiles(hidden, rows.start..rows.end.min(step.rows), going_on, units, |rows, units| {
                let at = (step.start + rows.start) * hidden;
                let (state, wide) = (rows.start * hidden + units.start, at * gates + units.start);
                let before = match rows.start < going_on {
                    true => &history[(last + rows.start) * hidden + units.start..],
                    false => &first[state..],
                };
                // SAFETY: as in `forward`. Arrays that a kind of cell does not have are not looked at.
                unsafe {
                    cell_kernel(cells::Backward {
                        rows: rows.len(),
                        columns: units.len(),
                        width: hidden,
                        gates: saved.gates.as_ptr().wrapping_add(wide),
                        kept: saved.kept.as_ptr().wrapping_add(at + units.start),
                        output: saved.output.as_ptr().add(at + units.start),
                        before: before.as_ptr(),
                        by_output: by.output.map_or(std::ptr::null(), |g| g.as_ptr().add(at + units.start)),
                        by_hidden: by_hidden.get().add(state),
                        by_cell: by_cell.get().wrapping_add(state),
                        by_gates: by_gates.get().add(wide),
                        by_shares: by_shares.get().add(wide),
                    });
                }
            });
        });
    };
    // SAFETY: the weights, which were checked, as one matrix.
    unsafe { Panels::with(weight, 1, gates * hidden, hidden, run) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELLS: [Cell; 4] = [Cell::Lstm, Cell::Gru, Cell::Tanh, Cell::Relu];

    fn numbers(n: usize, by: f64) -> Vec<f64> {
        (0..n).map(|i| (i as f64 * by).sin()).collect()
    }

    /// A layer's numbers, over packed sequences.
    struct Example {
        cell: Cell,
        hidden: usize,
        sizes: Vec<usize>,
        backwards: bool,
        shares: Vec<f64>,
        weight: Vec<f64>,
        bias: Vec<f64>,
        state: [Vec<f64>; 2],
    }

    /// Hidden states of all times, and the last states.
    type Found = [Vec<f64>; 3];

    impl Example {
        fn new(cell: Cell, hidden: usize, sizes: &[usize], backwards: bool) -> Example {
            let (gates, batch) = (cell.gates(), sizes[0]);
            Example {
                cell,
                hidden,
                sizes: sizes.to_vec(),
                backwards,
                shares: numbers(sizes.iter().sum::<usize>() * gates * hidden, 0.7),
                weight: numbers(gates * hidden * hidden, 1.1).into_iter().map(|x| x / (hidden as f64).sqrt()).collect(),
                bias: if cell == Cell::Gru { numbers(gates * hidden, 0.3) } else { vec![] },
                state: [
                    numbers(batch * hidden, 0.9),
                    numbers(if cell == Cell::Lstm { batch * hidden } else { 0 }, 0.4),
                ],
            }
        }

        fn layer<'a>(&'a self, steps: &'a Steps) -> Layer<'a, f64> {
            let bias = (!self.bias.is_empty()).then_some(&self.bias[..]);
            let [first_hidden, first_cell] = [&self.state[0], &self.state[1]];
            Layer { cell: self.cell, hidden: self.hidden, steps, weight: &self.weight, bias, first_hidden, first_cell }
        }

        fn steps(&self) -> Steps {
            Steps::new(self.sizes.iter().copied(), self.backwards)
        }

        /// By the kernels; with what the gradient needs.
        fn run(&self) -> (Found, [Vec<f64>; 2]) {
            let steps = self.steps();
            let rows = steps.total() * self.hidden;
            let mut gates = self.shares.clone();
            let (mut output, mut kept) = (vec![9.0; rows], vec![9.0; if self.cell.gates() > 1 { rows } else { 0 }]);
            let [mut last, mut cell] = self.state.clone();
            let results = Results {
                gates: &mut gates,
                output: &mut output,
                hidden: &mut last,
                cell: &mut cell,
                kept: (!kept.is_empty()).then_some(&mut kept[..]),
            };
            layer_forward(&self.layer(&steps), results);
            gates.truncate(kept.len() * self.cell.gates());
            ([output, last, cell], [gates, kept])
        }

        /// One unit after the other.
        fn obvious(&self) -> Found {
            let (n, gates) = (self.hidden, self.cell.gates());
            let [mut last, mut cell] = self.state.clone();
            let mut output = vec![0.0; self.shares.len() / gates];
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            for step in self.steps().all {
                for row in 0..step.rows {
                    let before = last[row * n..(row + 1) * n].to_vec();
                    for unit in 0..n {
                        let place = row * n + unit;
                        let dot = |gate: usize| -> f64 {
                            let weights = &self.weight[(gate * n + unit) * n..][..n];
                            let bias = self.bias.get(gate * n + unit).copied().unwrap_or(0.0);
                            weights.iter().zip(&before).map(|(w, h)| w * h).sum::<f64>() + bias
                        };
                        let share = |gate: usize| self.shares[((step.start + row) * gates + gate) * n + unit];
                        let sum = |gate: usize| share(gate) + dot(gate);
                        last[place] = match self.cell {
                            Cell::Lstm => {
                                cell[place] = sigmoid(sum(1)) * cell[place] + sigmoid(sum(0)) * sum(2).tanh();
                                sigmoid(sum(3)) * cell[place].tanh()
                            }
                            Cell::Gru => {
                                let new = (share(2) + sigmoid(sum(0)) * dot(2)).tanh();
                                (before[unit] - new) * sigmoid(sum(1)) + new
                            }
                            Cell::Tanh => sum(0).tanh(),
                            Cell::Relu => sum(0).max(0.0),
                        };
                        output[(step.start + row) * n + unit] = last[place];
                    }
                }
            }
            [output, last, cell]
        }
    }

    fn examples() -> impl Iterator<Item = Example> {
        let shapes: [(usize, &[usize]); 3] = [(40, &[19, 19, 5, 1]), (3, &[2, 2]), (310, &[2, 1])];
        CELLS.into_iter().flat_map(move |cell| {
            shapes.into_iter().flat_map(move |(hidden, sizes)| {
                [false, true].map(|backwards| Example::new(cell, hidden, sizes, backwards))
            })
        })
    }

    #[test]
    fn layers_follow_their_formulas() {
        for example in examples() {
            for (got, want) in example.run().0.iter().zip(&example.obvious()) {
                let apart = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(apart < 1e-12, "{:?} of {}: {apart}", example.cell, example.hidden);
            }
        }
    }

    #[test]
    fn gradients_are_those_of_differences() {
        for mut example in examples() {
            let (found, [gates, kept]) = example.run();
            let by: Found = [numbers(found[0].len(), 2.1), numbers(found[1].len(), 0.8), numbers(found[2].len(), 1.7)];
            let loss =
                |found: &Found| -> f64 { found.iter().flatten().zip(by.iter().flatten()).map(|(y, g)| y * g).sum() };
            let [_, mut by_hidden, mut by_cell] = by.clone();
            let mut by_gates = vec![9.0; example.shares.len()];
            let mut by_shares = vec![9.0; if example.cell == Cell::Gru { by_gates.len() } else { 0 }];
            let gradients = Gradients {
                output: Some(&by[0]),
                hidden: &mut by_hidden,
                cell: &mut by_cell,
                gates: &mut by_gates,
                shares: &mut by_shares,
            };
            let saved = Saved { gates: &gates, kept: &kept, output: &found[0] };
            let steps = example.steps();
            layer_backward(&example.layer(&steps), &saved, gradients);
            let (mut worst, by, biases) = (0.0, 1e-6, example.bias.len());
            let mut check = |place: &dyn Fn(&mut Example) -> &mut f64, analytic: f64| {
                let mut moved = |by: f64| {
                    *place(&mut example) += by;
                    let loss = loss(&example.run().0);
                    *place(&mut example) -= by;
                    loss
                };
                worst = f64::max(worst, ((moved(by) - moved(-by)) / (2.0 * by) - analytic).abs());
            };
            for i in (0..by_gates.len()).step_by(by_gates.len() / 5 - 1) {
                check(&|e| &mut e.shares[i], by_gates[i]);
            }
            for i in (0..by_hidden.len()).step_by(by_hidden.len() / 3 - 1) {
                check(&|e| &mut e.state[0][i], by_hidden[i]);
            }
            for i in (0..by_cell.len()).step_by((by_cell.len() / 3).max(2) - 1) {
                check(&|e| &mut e.state[1][i], by_cell[i]);
            }
            if let Some(last) = biases.checked_sub(1) {
                // A bias takes part in the shares of all rows.
                let all: f64 = by_shares.iter().skip(last).step_by(biases).sum();
                check(&|e| &mut e.bias[last], all);
            }
            assert!(worst < 1e-5, "{:?} of {}: {worst}", example.cell, example.hidden);
        }
    }
}
