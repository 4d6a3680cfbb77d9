//! Recurrent networks: cells, whole layers over sequences, and packed sequences of different lengths.
//!
//! The gates follow Hochreiter & Schmidhuber, "Long Short-Term Memory", 1997 (with forget gates; projections of Sak et al.,
//! 2014) and Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014, in PyTorch's order.

use super::recurrent::Call;
use crate::{Body, Dims, Error, Op, Result, Scalar, Tensor, ensure, sample};
use flambeau_base::fast_paths::FastPath;

/// The parameters of one layer in one direction.
#[derive(Clone)]
struct Cell<'a> {
    weight_ih: &'a Tensor,
    weight_hh: &'a Tensor,
    bias_ih: Option<&'a Tensor>,
    bias_hh: Option<&'a Tensor>,
    /// Makes the output of an LSTM smaller than its cell.
    projection: Option<&'a Tensor>,
}

/// The state of a cell: what it gives out, and for an LSTM what it keeps.
#[derive(Clone)]
struct State {
    hidden: Tensor,
    cell: Option<Tensor>,
}

impl State {
    fn map(&self, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<State> {
        Ok(State { hidden: f(&self.hidden)?, cell: self.cell.as_ref().map(f).transpose()? })
    }

    /// Several states one after the other along a dim.
    fn join(states: &[State], join: fn(&[Tensor], i64) -> Result<Tensor>, dim: i64) -> Result<State> {
        let hidden: Vec<Tensor> = states.iter().map(|s| s.hidden.clone()).collect();
        let cells: Vec<Tensor> = states.iter().filter_map(|s| s.cell.clone()).collect();
        let cell = if cells.is_empty() { None } else { Some(join(&cells, dim)?) };
        Ok(State { hidden: join(&hidden, dim)?, cell })
    }
}

/// One step: the input's share of the gates, the cell and the state give the new state.
type Step = fn(&Tensor, &Cell<'_>, &State) -> Result<State>;

/// Both shares of the gates, where they are just added up.
fn gates(share: &Tensor, cell: &Cell<'_>, hidden: &Tensor) -> Result<Tensor> {
    match (cell.bias_hh, hidden.dim()) {
        (None, 2) => share.addmm(hidden, &cell.weight_hh.t()?),
        (bias, _) => hidden.linear(cell.weight_hh, bias)?.add(share),
    }
}

fn lstm_step(share: &Tensor, cell: &Cell<'_>, state: &State) -> Result<State> {
    let kept = state.cell.as_ref().ok_or_else(|| Error::runtime("lstm expects two hidden states"))?;
    let (mut hidden, kept) = gates(share, cell, &state.hidden)?.lstm_gates(kept)?;
    if let Some(w) = cell.projection {
        hidden = hidden.linear(w, None)?;
    }
    Ok(State { hidden, cell: Some(kept) })
}

fn gru_step(share: &Tensor, cell: &Cell<'_>, state: &State) -> Result<State> {
    let own = state.hidden.linear(cell.weight_hh, cell.bias_hh)?.chunk(3, 1)?;
    let given = share.chunk(3, 1)?;
    let ([r, z, n], [given_r, given_z, given_n]) = (&own[..], &given[..]) else {
        return Err(Error::runtime("gru: the weights do not make three gates"));
    };
    let reset = r.add(given_r)?.sigmoid()?;
    let update = z.add(given_z)?.sigmoid()?;
    let new = given_n.add(&n.mul(&reset)?)?.tanh()?;
    Ok(State { hidden: state.hidden.sub(&new)?.mul(&update)?.add(&new)?, cell: None })
}

fn tanh_step(share: &Tensor, cell: &Cell<'_>, state: &State) -> Result<State> {
    Ok(State { hidden: gates(share, cell, &state.hidden)?.tanh()?, cell: None })
}

fn relu_step(share: &Tensor, cell: &Cell<'_>, state: &State) -> Result<State> {
    Ok(State { hidden: gates(share, cell, &state.hidden)?.relu()?, cell: None })
}

/// A kind of cell.
#[derive(Clone, Copy)]
struct Kind {
    /// PyTorch's name.
    mode: &'static str,
    step: Step,
    /// Whether the state's share of the gates is just added to the input's, biases too.
    adds: bool,
}

const LSTM: Kind = Kind { mode: "LSTM", step: lstm_step, adds: true };
const GRU: Kind = Kind { mode: "GRU", step: gru_step, adds: false };
const TANH: Kind = Kind { mode: "RNN_TANH", step: tanh_step, adds: true };
const RELU: Kind = Kind { mode: "RNN_RELU", step: relu_step, adds: true };

/// What the operators of this file take beside the sequence.
struct Network<'a> {
    kind: Kind,
    cells: Vec<Cell<'a>>,
    /// One per layer and direction.
    states: Vec<State>,
    dropout: f64,
    train: bool,
    bidirectional: bool,
}

impl Kind {
    fn of(mode: &str) -> Result<Kind> {
        let found = [LSTM, GRU, TANH, RELU].into_iter().find(|kind| kind.mode == mode);
        found.ok_or_else(|| Error::runtime(format!("there is no recurrent cell called {mode}")))
    }

    /// One layer in one direction over packed sequences, of which each time has so many rows.
    fn layer(self, x: &Tensor, sizes: &[i64], cell: &Cell<'_>, first: &State, backwards: bool) -> Result<(Tensor, State)> {
        let call = Call {
            data: x,
            hx: &first.hidden,
            cx: first.cell.as_ref(),
            w_ih: cell.weight_ih,
            w_hh: cell.weight_hh,
            b_ih: cell.bias_ih,
            b_hh: cell.bias_hh,
            sizes,
            mode: self.mode,
            reverse: backwards,
        };
        if cell.projection.is_none() && FastPath::RecurrentLayer.is_on() && call.has_kernel() {
            let (output, hidden, cell) = call.run()?;
            return Ok((output, State { hidden, cell }));
        }
        self.steps(x, sizes, cell, first, backwards)
    }

    /// The same, time by time.
    fn steps(self, x: &Tensor, sizes: &[i64], cell: &Cell<'_>, first: &State, backwards: bool) -> Result<(Tensor, State)> {
        // The input's share of the gates for all times at once is one large product.
        let (shares, cell) = match (cell.bias_ih, cell.bias_hh) {
            (Some(ih), Some(hh)) if self.adds => {
                (x.linear(cell.weight_ih, Some(&ih.add(hh)?))?, Cell { bias_hh: None, ..cell.clone() })
            }
            (bias, _) => (x.linear(cell.weight_ih, bias)?, cell.clone()),
        };
        let shares = shares.split_with_sizes(sizes, 0)?;
        match backwards {
            false => self.forwards(&shares, sizes, &cell, first),
            true => self.backwards(&shares, sizes, &cell, first),
        }
    }

    fn forwards(self, shares: &[Tensor], sizes: &[i64], cell: &Cell<'_>, first: &State) -> Result<(Tensor, State)> {
        let mut active = sizes[0];
        let mut state = first.map(|t| t.narrow(0, 0, active))?;
        let mut outputs = Vec::with_capacity(shares.len());
        // The states of sequences that ended, the shortest first.
        let mut ended = Vec::new();
        for (share, &n) in shares.iter().zip(sizes) {
            if n < active {
                ended.push(state.map(|t| t.narrow(0, n, active - n))?);
                state = state.map(|t| t.narrow(0, 0, n))?;
                active = n;
            }
            state = (self.step)(share, cell, &state)?;
            outputs.push(state.hidden.clone());
        }
        ended.push(state);
        ended.reverse();
        Ok((Tensor::cat(&outputs, 0)?, State::join(&ended, Tensor::cat, 0)?))
    }

    fn backwards(self, shares: &[Tensor], sizes: &[i64], cell: &Cell<'_>, first: &State) -> Result<(Tensor, State)> {
        let mut active = sizes[sizes.len() - 1];
        let mut state = first.map(|t| t.narrow(0, 0, active))?;
        let mut outputs = Vec::with_capacity(shares.len());
        for (share, &n) in shares.iter().zip(sizes).rev() {
            if n > active {
                // Shorter sequences begin here.
                let begun = first.map(|t| t.narrow(0, active, n - active))?;
                state = State::join(&[state, begun], Tensor::cat, 0)?;
                active = n;
            }
            state = (self.step)(share, cell, &state)?;
            outputs.push(state.hidden.clone());
        }
        outputs.reverse();
        Ok((Tensor::cat(&outputs, 0)?, state))
    }
}

/// What a layer's operator computes, by operators that are recorded one by one: the output, and the last hidden state and
/// cell.
pub(super) fn written_out(call: Call<'_>) -> Result<(Tensor, Tensor, Option<Tensor>)> {
    let Call { w_ih: weight_ih, w_hh: weight_hh, b_ih: bias_ih, b_hh: bias_hh, .. } = call;
    let cell = Cell { weight_ih, weight_hh, bias_ih, bias_hh, projection: None };
    let first = State { hidden: call.hx.clone(), cell: call.cx.cloned() };
    let (output, last) = Kind::of(call.mode)?.steps(call.data, call.sizes, &cell, &first, call.reverse)?;
    Ok((output, last.hidden, last.cell))
}

impl<'a> Network<'a> {
    #[allow(clippy::too_many_arguments)]
    fn new(
        kind: Kind,
        hx: &[Tensor],
        params: &'a [Tensor],
        has_biases: bool,
        num_layers: i64,
        dropout: f64,
        train: bool,
        bidirectional: bool,
    ) -> Result<Network<'a>> {
        let projected = hx.len() == 2 && hx[0].size(2)? != hx[1].size(2)?;
        let per_cell = 2 + 2 * usize::from(has_biases) + usize::from(projected);
        let count = (num_layers.max(0) as usize).saturating_mul(1 + usize::from(bidirectional));
        let expected = count.saturating_mul(per_cell);
        ensure!(
            params.len() == expected,
            "Got an incorrect number of RNN parameters: expected {expected}, got {}",
            params.len()
        );
        let cells = params.chunks(per_cell).map(|p| Cell {
            weight_ih: &p[0],
            weight_hh: &p[1],
            bias_ih: has_biases.then(|| &p[2]),
            bias_hh: has_biases.then(|| &p[3]),
            projection: if projected { p.last() } else { None },
        });
        let hidden = hx.first().ok_or_else(|| Error::runtime("a recurrent network needs a hidden state"))?;
        ensure!(hidden.size(0)? == count as i64, "Expected more hidden states in stacked_rnn");
        let states = (0..count as i64).map(|i| {
            let part = |t: &Tensor| t.select(0, i);
            Ok(State { hidden: part(hidden)?, cell: hx.get(1).map(part).transpose()? })
        });
        let states = states.collect::<Result<_>>()?;
        Ok(Network { kind, cells: cells.collect(), states, dropout, train, bidirectional })
    }

    /// Runs all layers over the rows of all times.
    fn run(&self, data: Tensor, sizes: &[i64]) -> Result<(Tensor, State)> {
        let directions = 1 + usize::from(self.bidirectional);
        let mut x = data;
        let mut last = Vec::with_capacity(self.cells.len());
        let layers = self.cells.len() / directions;
        for (number, cells) in self.cells.chunks(directions).enumerate() {
            let mut outputs = Vec::with_capacity(directions);
            for (direction, cell) in cells.iter().enumerate() {
                let first = &self.states[number * directions + direction];
                let (y, state) = self.kind.layer(&x, sizes, cell, first, direction == 1)?;
                outputs.push(y);
                last.push(state);
            }
            x = if directions == 1 { outputs.swap_remove(0) } else { Tensor::cat(&outputs, -1)? };
            if self.dropout != 0.0 && self.train && number + 1 < layers {
                x = x.dropout(self.dropout, true)?;
            }
        }
        // The last layer may have kept its output for the gradient, and the caller may write to it.
        let x = if directions == 1 && x.requires_grad() { x.clone_in(crate::MemoryFormat::Contiguous)? } else { x };
        Ok((x, State::join(&last, Tensor::stack, 0)?))
    }

    /// Over a sequence (time, batch, features): packed sequences of one length.
    fn over_sequence(&self, input: &Tensor, batch_first: bool) -> Result<(Tensor, State)> {
        let x = if batch_first { input.transpose(0, 1)? } else { input.clone() };
        let (time, batch, features) = (x.size(0)?, x.size(1)?, x.size(2)?);
        ensure!(time > 0, "Expected sequence length to be larger than 0 in RNN");
        for state in &self.states {
            let given = state.hidden.size(0)?;
            ensure!(given == batch, "Expected hidden states of a batch of {batch}, got {given}");
        }
        let sizes = vec![batch; time as usize];
        let (y, state) = self.run(x.reshape(&[time * batch, features])?, &sizes)?;
        let y = y.view(&[time, batch, y.size(1)?])?;
        Ok((if batch_first { y.transpose(0, 1)? } else { y }, state))
    }

    /// Over packed sequences: at each time only those that are so long.
    fn over_packed(&self, data: &Tensor, batch_sizes: &Tensor) -> Result<(Tensor, State)> {
        let sizes = batch_sizes.to_vec::<i64>()?;
        ensure!(!sizes.is_empty(), "Expected at least one batch size of a packed sequence");
        ensure!(
            sizes.iter().all(|n| *n > 0) && sizes.windows(2).all(|w| w[0] >= w[1]),
            "batch sizes of a packed sequence must be positive and not increase, got {sizes:?}"
        );
        ensure!(
            data.size(0)? == sizes.iter().sum::<i64>(),
            "a packed sequence has {} rows, but its batch sizes add up to {}",
            data.size(0)?,
            sizes.iter().sum::<i64>()
        );
        self.run(data.clone(), &sizes)
    }
}

fn lstm_results((y, state): (Tensor, State)) -> Vec<Tensor> {
    [Some(y), Some(state.hidden), state.cell].into_iter().flatten().collect()
}

#[allow(clippy::too_many_arguments)]
fn lstm_input_any(
    input: &Tensor,
    hx: &[Tensor],
    params: &[Tensor],
    has_biases: bool,
    num_layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Result<Vec<Tensor>> {
    ensure!(hx.len() == 2, "lstm expects two hidden states");
    let network = Network::new(LSTM, hx, params, has_biases, num_layers, dropout, train, bidirectional)?;
    network.over_sequence(input, batch_first).map(lstm_results)
}

#[allow(clippy::too_many_arguments)]
fn lstm_data_any(
    data: &Tensor,
    batch_sizes: &Tensor,
    hx: &[Tensor],
    params: &[Tensor],
    has_biases: bool,
    num_layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
) -> Result<Vec<Tensor>> {
    ensure!(hx.len() == 2, "lstm expects two hidden states");
    let network = Network::new(LSTM, hx, params, has_biases, num_layers, dropout, train, bidirectional)?;
    network.over_packed(data, batch_sizes).map(lstm_results)
}

/// The two layer operators of a network with one state.
macro_rules! one_state {
    ($($kind:ident, $input:ident, $data:ident;)*) => { $(
        #[allow(clippy::too_many_arguments)]
        fn $input(
            input: &Tensor,
            hx: &Tensor,
            params: &[Tensor],
            has_biases: bool,
            num_layers: i64,
            dropout: f64,
            train: bool,
            bidirectional: bool,
            batch_first: bool,
        ) -> Result<Vec<Tensor>> {
            let hx = std::slice::from_ref(hx);
            let network = Network::new($kind, hx, params, has_biases, num_layers, dropout, train, bidirectional)?;
            network.over_sequence(input, batch_first).map(lstm_results)
        }
        #[allow(clippy::too_many_arguments)]
        fn $data(
            data: &Tensor,
            batch_sizes: &Tensor,
            hx: &Tensor,
            params: &[Tensor],
            has_biases: bool,
            num_layers: i64,
            dropout: f64,
            train: bool,
            bidirectional: bool,
        ) -> Result<Vec<Tensor>> {
            let hx = std::slice::from_ref(hx);
            let network = Network::new($kind, hx, params, has_biases, num_layers, dropout, train, bidirectional)?;
            network.over_packed(data, batch_sizes).map(lstm_results)
        }
    )* };
}
one_state! {
    GRU, gru_input_any, gru_data_any;
    TANH, rnn_tanh_input_any, rnn_tanh_data_any;
    RELU, rnn_relu_input_any, rnn_relu_data_any;
}

/// Parameters of one bidirectional layer with biases: three features in, a state of two.
fn parameters(m: &mut crate::samples::Maker, gates: i64) -> Vec<Tensor> {
    let sizes = [vec![2 * gates, 3], vec![2 * gates, 2], vec![2 * gates], vec![2 * gates]];
    sizes.iter().chain(&sizes).map(|s| m.uniform(s, -0.5, 0.5)).collect()
}

/// The layer operators of one kind of cell. (Their samples are of real numbers: gates saturate.)
macro_rules! layers {
    ($($(#[doc = $doc:expr])* $name:ident, $data_name:ident: $gates:literal, $states:tt;
        $input:literal => $input_kernel:ident; $data:literal => $data_kernel:ident;)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: $input;
            Body::Composite(kernel!($input_kernel; input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first));
            samples: |m| match m.dtype.is_floating_point() {
                true => {
                    let hx: Vec<Tensor> = (0..$states).map(|_| m.uniform(&[2, 2, 2], -1.0, 1.0)).collect();
                    let hx = layers!(@state $states, hx);
                    vec![sample![m.uniform(&[2, 2, 3], -1.0, 1.0), hx, parameters(m, $gates), true, 1, 0.0, false, true, false]]
                }
                false => vec![],
            };
        }
        op! {
            $(#[doc = $doc])*
            #[doc = "Over packed sequences."]
            $data_name: $data;
            Body::Composite(kernel!($data_kernel; data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional));
            samples: |m| match (m.dtype.is_floating_point(), Tensor::from_slice(&[2i64, 1])) {
                (true, Ok(batch_sizes)) => {
                    let hx: Vec<Tensor> = (0..$states).map(|_| m.uniform(&[2, 2, 2], -1.0, 1.0)).collect();
                    let hx = layers!(@state $states, hx);
                    vec![sample![m.uniform(&[3, 3], -1.0, 1.0), batch_sizes, hx, parameters(m, $gates), true, 1, 0.0, false, true]]
                }
                _ => vec![],
            };
        }
    )* };
    (@state 1, $hx:ident) => { $hx[0].clone() };
    (@state 2, $hx:ident) => { $hx };
}
layers! {
    /// A long short-term memory network: the output, and the last states of all layers and directions.
    lstm, lstm_data: 4, 2;
    "lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)" => lstm_input_any;
    "lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)" => lstm_data_any;
    /// A network of gated recurrent units: the output, and the last states of all layers and directions.
    gru, gru_data: 3, 1;
    "gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)" => gru_input_any;
    "gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)" => gru_data_any;
    /// A plain recurrent network with tanh: the output, and the last states of all layers and directions.
    rnn_tanh, rnn_tanh_data: 1, 1;
    "rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)" => rnn_tanh_input_any;
    "rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)" => rnn_tanh_data_any;
    /// A plain recurrent network with relu: the output, and the last states of all layers and directions.
    rnn_relu, rnn_relu_data: 1, 1;
    "rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)" => rnn_relu_input_any;
    "rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)" => rnn_relu_data_any;
}

/// One step of a cell.
fn single(
    step: Step,
    input: &Tensor,
    state: State,
    weights: [&Tensor; 2],
    biases: [Option<&Tensor>; 2],
) -> Result<State> {
    let [weight_ih, weight_hh] = weights;
    let [bias_ih, bias_hh] = biases;
    ensure!(
        input.size(-1)? == weight_ih.size(1)?,
        "input has inconsistent input_size: got {} expected {}",
        input.size(-1)?,
        weight_ih.size(1)?
    );
    for (k, hidden) in std::iter::once(&state.hidden).chain(&state.cell).enumerate() {
        ensure!(
            input.dim() == hidden.dim() && (input.dim() < 2 || input.size(0)? == hidden.size(0)?),
            "Input batch size {} doesn't match hidden{k} batch size {}",
            input.size(0)?,
            hidden.size(0)?
        );
        ensure!(
            hidden.size(-1)? == weight_hh.size(1)?,
            "hidden{k} has inconsistent hidden_size: got {}, expected {}",
            hidden.size(-1)?,
            weight_hh.size(1)?
        );
    }
    let cell = Cell { weight_ih, weight_hh, bias_ih, bias_hh, projection: None };
    step(&input.linear(weight_ih, bias_ih)?, &cell, &state)
}

fn lstm_cell_any(
    input: &Tensor,
    hx: &[Tensor],
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: Option<&Tensor>,
    b_hh: Option<&Tensor>,
) -> Result<Vec<Tensor>> {
    let [hidden, cell] = hx else { return Err(Error::runtime("lstm_cell expects two hidden states")) };
    let state = State { hidden: hidden.clone(), cell: Some(cell.clone()) };
    let state = single(lstm_step, input, state, [w_ih, w_hh], [b_ih, b_hh])?;
    Ok([Some(state.hidden), state.cell].into_iter().flatten().collect())
}

op! {
    /// One step of a long short-term memory cell: the new hidden state and the new cell state.
    lstm_cell: "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)";
    Body::Composite(kernel!(lstm_cell_any; input, hx, w_ih, w_hh, b_ih, b_hh));
    samples: |m| match m.dtype.is_floating_point() {
        true => {
            let hx: Vec<Tensor> = (0..2).map(|_| m.uniform(&[2, 2], -1.0, 1.0)).collect();
            let [w_ih, w_hh] = [[8, 3], [8, 2]].map(|s| m.uniform(&s, -0.5, 0.5));
            vec![sample![m.uniform(&[2, 3], -1.0, 1.0), hx, w_ih, w_hh, m.uniform(&[8], -0.5, 0.5), m.uniform(&[8], -0.5, 0.5)]]
        }
        false => vec![],
    };
}

/// The cells with one state.
macro_rules! cells {
    ($($(#[doc = $doc:expr])* $name:ident $schema:literal: $step:ident, $gates:literal;)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: $schema;
            Body::Composite(|op, _, args| {
                use crate::value::take;
                let state = State { hidden: take::<&Tensor>(op, args, 1)?.clone(), cell: None };
                let weights = [take(op, args, 2)?, take(op, args, 3)?];
                let biases = [take(op, args, 4)?, take(op, args, 5)?];
                single($step, take(op, args, 0)?, state, weights, biases).map(|s| crate::Outputs::One(s.hidden))
            });
            samples: |m| match m.dtype.is_floating_point() {
                true => {
                    let [w_ih, w_hh] = [[2 * $gates, 3], [2 * $gates, 2]].map(|s| m.uniform(&s, -0.5, 0.5));
                    let (x, hx) = (m.uniform(&[2, 3], -1.0, 1.0), m.uniform(&[2, 2], -1.0, 1.0));
                    vec![sample![x, hx, w_ih, w_hh, m.uniform(&[2 * $gates], -0.5, 0.5), m.uniform(&[2 * $gates], -0.5, 0.5)]]
                }
                false => vec![],
            };
        }
    )* };
}
cells! {
    /// One step of a gated recurrent unit.
    gru_cell "gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor": gru_step, 3;
    /// One step of a plain cell with tanh.
    rnn_tanh_cell "rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor": tanh_step, 1;
    /// One step of a plain cell with relu.
    rnn_relu_cell "rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor": relu_step, 1;
}

// ---- packed sequences --------------------------------------------------------------------------------

/// Runs of equal numbers: where each begins, how long it is, the number.
fn runs(sizes: &[i64]) -> Vec<(i64, i64, i64)> {
    let mut runs: Vec<(i64, i64, i64)> = Vec::new();
    for (t, &n) in sizes.iter().enumerate() {
        match runs.last_mut() {
            Some((_, length, same)) if *same == n => *length += 1,
            _ => runs.push((t as i64, 1, n)),
        }
    }
    runs
}

fn pack_any(input: &Tensor, lengths: &Tensor, batch_first: bool) -> Result<Vec<Tensor>> {
    let x = if batch_first { input.transpose(0, 1)? } else { input.clone() };
    ensure!(
        lengths.dim() == 1 && lengths.dtype() == crate::DType::I64,
        "'lengths' argument should be a 1D CPU int64 tensor, but got {}D {} {} tensor",
        lengths.dim(),
        lengths.device().kind.name(),
        lengths.dtype().scalar_type_name()
    );
    let (time, batch) = (x.size(0)?, x.size(1)?);
    ensure!(input.numel() > 0, "Cannot pack empty tensors.");
    let lengths = lengths.to_vec::<i64>()?;
    ensure!(
        lengths.len() as i64 == batch,
        "Expected `len(lengths)` to be equal to batch_size, but got {} (batch_size={batch})",
        lengths.len()
    );
    ensure!(
        lengths.iter().all(|n| *n > 0),
        "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
    );
    ensure!(
        lengths.windows(2).all(|w| w[0] >= w[1]),
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass \
         `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not \
         need ONNX exportability."
    );
    let longest = lengths.first().copied().unwrap_or(0);
    ensure!(longest <= time, "Expected lengths of at most {time}, the sequence length of the input, but got {longest}");
    let sizes: Vec<i64> = (0..longest).map(|t| lengths.iter().filter(|n| **n > t).count() as i64).collect();
    let mut parts = Vec::new();
    for (t, length, n) in runs(&sizes) {
        let mut rows = Dims::from_elem(length * n, 1);
        rows.extend_from_slice(&x.sizes()[2..]);
        parts.push(x.narrow(0, t, length)?.narrow(1, 0, n)?.reshape(&rows)?);
    }
    Ok(vec![Tensor::cat(&parts, 0)?, Tensor::from_slice(&sizes)?])
}

op! {
    /// Sequences of different lengths, the longest first, without their padding: the rows of each time one after the
    /// other, and how many there are at each time.
    pack_padded_sequence: "_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)";
    Body::Composite(kernel!(pack_any; input, lengths, batch_first));
    samples: |m| match Tensor::from_slice(&[3i64, 1]) {
        Ok(lengths) => vec![sample![m.any(&[3, 2, 2]), lengths, false]],
        Err(_) => vec![],
    };
}

fn pad_packed_any(
    data: &Tensor,
    batch_sizes: &Tensor,
    batch_first: bool,
    padding_value: Scalar,
    total_length: i64,
) -> Result<Vec<Tensor>> {
    let sizes = batch_sizes.to_vec::<i64>()?;
    let longest = sizes.len() as i64;
    ensure!(
        total_length <= 0 || total_length >= longest,
        "Expected total_length to be at least the length of the longest sequence in input, but got total_length={total_length} \
         and max sequence length being {longest}"
    );
    let batch = sizes.first().copied().ok_or_else(|| Error::runtime("a packed sequence has no batch sizes"))?;
    ensure!(
        sizes.windows(2).all(|w| w[0] >= w[1]) && data.dim() > 0 && data.size(0)? == sizes.iter().sum::<i64>(),
        "the batch sizes {sizes:?} do not fit a packed sequence of sizes {:?}",
        data.sizes()
    );
    let block = |time: i64, rows: i64| -> Dims {
        let mut s = Dims::from_slice(&[time, rows]);
        s.extend_from_slice(&data.sizes()[1..]);
        s
    };
    let padding = |time: i64, rows: i64| Tensor::full(&block(time, rows), padding_value, (data.dtype(), data.device()));
    let mut parts = Vec::new();
    let mut start = 0;
    for (_, length, n) in runs(&sizes) {
        let rows = data.narrow(0, start, length * n)?.reshape(&block(length, n))?;
        start += length * n;
        parts.push(if n < batch { Tensor::cat(&[rows, padding(length, batch - n)?], 1)? } else { rows });
    }
    if total_length > longest {
        parts.push(padding(total_length - longest, batch)?);
    }
    let padded = Tensor::cat(&parts, 0)?;
    let lengths: Vec<i64> = (0..batch).map(|i| sizes.iter().filter(|n| **n > i).count() as i64).collect();
    Ok(vec![if batch_first { padded.transpose(0, 1)? } else { padded }, Tensor::from_slice(&lengths)?])
}

op! {
    /// Packed sequences with their padding again, and their lengths.
    pad_packed_sequence: "_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length) -> (Tensor, Tensor)";
    Body::Composite(kernel!(pad_packed_any; data, batch_sizes, batch_first, padding_value, total_length));
    samples: |m| match Tensor::from_slice(&[2i64, 2, 1]) {
        Ok(sizes) => vec![sample![m.any(&[5, 2]), sizes, true, Scalar::Int(0), 4]],
        Err(_) => vec![],
    };
}

fn pad_sequence_any(sequences: &[Tensor], batch_first: bool, padding_value: f64, padding_side: &str) -> Result<Tensor> {
    ensure!(!sequences.is_empty(), "received an empty list of sequences");
    ensure!(
        matches!(padding_side, "left" | "right"),
        "Expected padding_side to be one of left or right, but got {padding_side}."
    );
    let mut longest = 0;
    for s in sequences {
        longest = longest.max(s.size(0)?);
    }
    let padded = sequences.iter().map(|s| {
        let by = longest - s.size(0)?;
        let mut pad = vec![0i64; 2 * s.dim()];
        let at = pad.len() - if padding_side == "left" { 2 } else { 1 };
        pad[at] = by;
        if by == 0 { Ok(s.clone()) } else { s.constant_pad_nd(&pad, padding_value) }
    });
    Tensor::stack(&padded.collect::<Result<Vec<_>>>()?, if batch_first { 0 } else { 1 })
}

op! {
    /// Sequences of different lengths as one tensor, the shorter ones filled up.
    pad_sequence: "pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str padding_side=\"right\") -> Tensor";
    Body::Composite(kernel!(pad_sequence_any; sequences, batch_first, padding_value, padding_side));
    samples: |m| vec![sample![vec![m.any(&[3, 2]), m.any(&[1, 2])], true, 0.0, "right"]];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    gru::ALL,
    gru_cell::ALL,
    gru_data::ALL,
    lstm::ALL,
    lstm_cell::ALL,
    lstm_data::ALL,
    pack_padded_sequence::ALL,
    pad_packed_sequence::ALL,
    pad_sequence::ALL,
    rnn_relu::ALL,
    rnn_relu_cell::ALL,
    rnn_relu_data::ALL,
    rnn_tanh::ALL,
    rnn_tanh_cell::ALL,
    rnn_tanh_data::ALL,
];
