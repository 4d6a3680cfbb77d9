//! Recurrent networks.

use super::empty_parameter;
use crate::Module;
use crate::init;
use crate::operator;
use crate::walk::{Leaf, LeafMut, Parameter, Path, Training, Walk};
use flambeau::{Error, Result, Tensor, Value, ensure};

/// The shape of a recurrent network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RnnOptions {
    /// How many networks stand one on the other.
    pub num_layers: i64,
    /// Whether there are biases.
    pub bias: bool,
    /// Whether the input is (batch, sequence, features), not (sequence, batch, features).
    pub batch_first: bool,
    /// The probability with which elements between layers are zeroed in training.
    pub dropout: f64,
    /// Whether every layer reads the sequence backwards too.
    pub bidirectional: bool,
    /// The features that the output of an LSTM is projected to; none where 0.
    pub proj_size: i64,
}

impl Default for RnnOptions {
    fn default() -> Self {
        RnnOptions { num_layers: 1, bias: true, batch_first: false, dropout: 0.0, bidirectional: false, proj_size: 0 }
    }
}

/// Sequences of different lengths one on the other: the first elements of all, then the second of those that have one,
/// and so on. For sequences in order of their lengths, the longest first.
#[derive(Clone, Debug)]
pub struct PackedSequence {
    /// The elements, (sum of the lengths, features...).
    pub data: Tensor,
    /// How many sequences have a first element, a second one, ...
    pub batch_sizes: Tensor,
}

impl PackedSequence {
    /// Packs padded sequences (sequence, batch, features...), or (batch, sequence, features...) if `batch_first`.
    ///
    /// # Errors
    /// When there are not as many lengths, or they are not in falling order or not positive.
    pub fn pack(padded: &Tensor, lengths: &[i64], batch_first: bool) -> Result<PackedSequence> {
        let lengths = Tensor::from_slice(lengths)?;
        let arguments = [padded.into(), Value::Tensor(&lengths), batch_first.into()];
        let [data, batch_sizes] = operator("_pack_padded_sequence")?.call(&arguments)?.array()?;
        Ok(PackedSequence { data, batch_sizes })
    }

    /// The padded sequences, with zeros after their ends, and their lengths.
    ///
    /// # Errors
    /// When this was not made by [`PackedSequence::pack`] or a network.
    pub fn pad(&self, batch_first: bool) -> Result<(Tensor, Tensor)> {
        let arguments = [
            Value::Tensor(&self.data),
            Value::Tensor(&self.batch_sizes),
            batch_first.into(),
            Value::Scalar(0.0.into()),
            (-1i64).into(),
        ];
        let [padded, lengths] = operator("_pad_packed_sequence")?.call(&arguments)?.array()?;
        Ok((padded, lengths))
    }
}

/// Sequences of different lengths side by side: (sequence, batch, features...), or (batch, sequence, features...) if
/// `batch_first`, with `value` after their ends.
///
/// # Errors
/// When there is none, or their other sizes differ.
pub fn pad_sequence(sequences: &[Tensor], batch_first: bool, value: f64) -> Result<Tensor> {
    let side = Value::Str("right");
    operator("pad_sequence")?.call(&[sequences.into(), batch_first.into(), value.into(), side])?.one()
}

/// The names of a layer's parameters, in the order in which operators take them.
const NAMES: [&str; 5] = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"];

/// What all networks share: the parameters of layers and directions, and the way to the operators.
struct Recurrent {
    /// Those of every layer in every direction; biases and projections may be missing.
    cells: Vec<[Option<Parameter>; 5]>,
    inputs: i64,
    hidden: i64,
    options: RnnOptions,
    training: Training,
}

impl Recurrent {
    fn new(name: &str, inputs: i64, hidden: i64, gates: i64, options: RnnOptions) -> Result<Recurrent> {
        if hidden < 1 || options.num_layers < 1 {
            return Err(Error::value(format!(
                "{name}: hidden_size and num_layers must be greater than zero, got {hidden} and {}",
                options.num_layers
            )));
        }
        if !(0.0..=1.0).contains(&options.dropout) {
            return Err(Error::value(format!(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed, \
                 got {}",
                options.dropout
            )));
        }
        let projected = options.proj_size;
        if projected != 0 && name != "LSTM" {
            return Err(Error::value("proj_size argument is only supported for LSTM, not RNN or GRU"));
        }
        if projected < 0 || projected >= hidden {
            return Err(Error::value("proj_size has to be a positive integer, smaller than hidden_size"));
        }
        let output = if projected > 0 { projected } else { hidden };
        let bound = 1.0 / (hidden as f64).sqrt();
        let draw = |there: bool, sizes: &[i64]| -> Result<Option<Parameter>> {
            if !there {
                return Ok(None);
            }
            let parameter = empty_parameter(sizes)?;
            init::uniform_(&parameter, -bound, bound)?;
            Ok(Some(parameter))
        };
        let directions = 1 + i64::from(options.bidirectional);
        // What is too wide to count is too large for memory.
        let wide = hidden.saturating_mul(gates);
        let mut cells = Vec::new();
        for layer in 0..options.num_layers {
            let inputs = if layer == 0 { inputs } else { output.saturating_mul(directions) };
            for _ in 0..directions {
                cells.push([
                    draw(true, &[wide, inputs])?,
                    draw(true, &[wide, output])?,
                    draw(options.bias, &[wide])?,
                    draw(options.bias, &[wide])?,
                    draw(projected > 0, &[projected, hidden])?,
                ]);
            }
        }
        Ok(Recurrent { cells, inputs, hidden, options, training: Training::default() })
    }

    /// The features of the states: the hidden one, which is the output, and the cell's.
    fn widths(&self) -> [i64; 2] {
        let projected = self.options.proj_size;
        [if projected > 0 { projected } else { self.hidden }, self.hidden]
    }

    /// The states to begin with for a batch of this size: those given, or zeros.
    fn states<const S: usize>(&self, given: Option<[&Tensor; S]>, batch: i64, like: &Tensor) -> Result<Vec<Tensor>> {
        let layers = self.cells.len() as i64;
        (0..S)
            .map(|s| {
                let sizes = [layers, batch, self.widths()[s]];
                let Some(given) = given else { return Tensor::zeros(&sizes, (like.dtype(), like.device())) };
                ensure!(given[s].sizes() == sizes, "Expected hidden size {sizes:?}, got {:?}", given[s].sizes());
                Ok(given[s].clone())
            })
            .collect()
    }

    /// Calls an operator with what comes before the states, the states, and all options but `batch_first`.
    fn call<const S: usize>(
        &self,
        name: &str,
        first: &[Value<'_>],
        states: &[Tensor],
        last: &[Value<'_>],
    ) -> Result<(Tensor, [Tensor; S])> {
        let options = &self.options;
        let parameters: Vec<Tensor> = self.cells.iter().flatten().flatten().map(|p| Tensor::clone(p)).collect();
        let states = if S == 1 { Value::Tensor(&states[0]) } else { Value::Tensors(states) };
        let mut arguments = first.to_vec();
        arguments.extend([
            states,
            Value::Tensors(&parameters),
            options.bias.into(),
            options.num_layers.into(),
            options.dropout.into(),
            self.training.get().into(),
            options.bidirectional.into(),
        ]);
        arguments.extend_from_slice(last);
        let mut results = operator(name)?.call(&arguments)?.list()?;
        ensure!(results.len() == S + 1, "{name} gave {} tensors", results.len());
        let states = std::array::from_fn(|s| results[s + 1].clone());
        Ok((results.swap_remove(0), states))
    }

    fn check_features(&self, features: i64) -> Result<()> {
        let wanted = self.inputs;
        ensure!(features == wanted, "input.size(-1) must be equal to input_size. Expected {wanted}, got {features}");
        Ok(())
    }

    /// The output, and the last states of all layers and directions.
    fn run<const S: usize>(
        &self,
        name: &str,
        input: &Tensor,
        states: Option<[&Tensor; S]>,
    ) -> Result<(Tensor, [Tensor; S])> {
        ensure!(matches!(input.dim(), 2 | 3), "{name}: Expected input to be 2D or 3D, got {}D instead", input.dim());
        if input.dim() == 2 {
            let batch = i64::from(!self.options.batch_first);
            let states = states.map(|states| states.map(|t| t.unsqueeze(1)));
            let states: Option<Vec<Tensor>> = states.map(|all| all.into_iter().collect::<Result<_>>()).transpose()?;
            let states = states.as_ref().map(|all| std::array::from_fn(|s| &all[s]));
            let (output, states) = self.run(name, &input.unsqueeze(batch)?, states)?;
            let mut unbatched = states;
            for state in &mut unbatched {
                *state = state.squeeze_dim(1)?;
            }
            return Ok((output.squeeze_dim(batch)?, unbatched));
        }
        let batch_first = self.options.batch_first;
        let (batch, length) = if batch_first { (0, 1) } else { (1, 0) };
        self.check_features(input.sizes()[2])?;
        ensure!(input.sizes()[length] > 0, "{name}: Expected sequence length to be larger than 0 in RNN");
        let states = self.states(states, input.sizes()[batch], input)?;
        self.call(&format!("{name}.input"), &[input.into()], &states, &[batch_first.into()])
    }

    /// The same over packed sequences.
    fn run_packed<const S: usize>(
        &self,
        name: &str,
        input: &PackedSequence,
        states: Option<[&Tensor; S]>,
    ) -> Result<(PackedSequence, [Tensor; S])> {
        let PackedSequence { data, batch_sizes } = input;
        ensure!(data.dim() == 2, "{name}: Expected packed data to be 2D, got {}D instead", data.dim());
        self.check_features(data.sizes()[1])?;
        let batch = batch_sizes.select(0, 0)?.item()?.to_i64();
        let states = self.states(states, batch, data)?;
        let (data, states) = self.call(&format!("{name}.data"), &[data.into(), batch_sizes.into()], &states, &[])?;
        Ok((PackedSequence { data, batch_sizes: batch_sizes.clone() }, states))
    }
}

impl Walk for Recurrent {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        let directions = 1 + usize::from(self.options.bidirectional);
        for (number, cell) in self.cells.iter().enumerate() {
            let reverse = if number % directions == 1 { "_reverse" } else { "" };
            for (name, parameter) in NAMES.iter().zip(cell) {
                path.enter(&format!("{name}_l{}{reverse}", number / directions), |path| parameter.walk(path, visit));
            }
        }
        self.training.walk(path, visit);
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        self.cells.iter_mut().flatten().try_for_each(|parameter| parameter.walk_mut(visit))
    }
}

macro_rules! recurrent_module {
    ($($(#[doc = $doc:expr])* $name:ident, $gates:literal;)*) => { $(
        $(#[doc = $doc])*
        ///
        /// Reads (sequence, batch, features), or without the batch, from states (layers times directions, batch, hidden)
        /// or from zeros. Gives the last layer's output at every time, and the last states. The parameters have
        /// PyTorch's names: `weight_ih_l0`, ...
        pub struct $name(Recurrent);

        impl $name {
            /// From `inputs` features to a state of `hidden`.
            ///
            /// # Errors
            /// When a number is not positive, or the dropout not a probability.
            pub fn new(inputs: i64, hidden: i64, options: RnnOptions) -> Result<$name> {
                Ok($name(Recurrent::new(stringify!($name), inputs, hidden, $gates, options)?))
            }
        }
        impl Walk for $name {
            fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
                self.0.walk(path, visit);
            }
            fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
                self.0.walk_mut(visit)
            }
        }
        impl Module for $name {}
    )* };
}
recurrent_module! {
    /// Long short-term memory, in layers and directions.
    LSTM, 4;
    /// Gated recurrent units, in layers and directions.
    GRU, 3;
    /// Plain recurrent units with tanh, in layers and directions.
    RNN, 1;
}

impl LSTM {
    /// From the states `h` and `c`.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(&self, input: &Tensor, state: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, (Tensor, Tensor))> {
        let (output, [h, c]) = self.0.run("lstm", input, state.map(|(h, c)| [h, c]))?;
        Ok((output, (h, c)))
    }

    /// The same over packed sequences.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward_packed(
        &self,
        input: &PackedSequence,
        state: Option<(&Tensor, &Tensor)>,
    ) -> Result<(PackedSequence, (Tensor, Tensor))> {
        let (output, [h, c]) = self.0.run_packed("lstm", input, state.map(|(h, c)| [h, c]))?;
        Ok((output, (h, c)))
    }
}

macro_rules! one_state {
    ($($name:ident $operator:literal)*) => { $(
        impl $name {
            /// From the state `h`.
            ///
            /// # Errors
            /// When the sizes do not fit.
            pub fn forward(&self, input: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
                let (output, [h]) = self.0.run($operator, input, state.map(|h| [h]))?;
                Ok((output, h))
            }

            /// The same over packed sequences.
            ///
            /// # Errors
            /// When the sizes do not fit.
            pub fn forward_packed(
                &self,
                input: &PackedSequence,
                state: Option<&Tensor>,
            ) -> Result<(PackedSequence, Tensor)> {
                let (output, [h]) = self.0.run_packed($operator, input, state.map(|h| [h]))?;
                Ok((output, h))
            }
        }
    )* };
}
one_state! { GRU "gru" RNN "rnn_tanh" }

/// One step of a network: the parameters, from (batch, features) or (features) to the next state.
macro_rules! cells {
    ($($(#[doc = $doc:expr])* $name:ident, $gates:literal;)*) => { $(
        $(#[doc = $doc])*
        #[derive(Module)]
        pub struct $name {
            /// The weight of the input, (gates times hidden, inputs).
            pub weight_ih: Parameter,
            /// The weight of the state, (gates times hidden, hidden).
            pub weight_hh: Parameter,
            /// The bias that goes with the input's.
            pub bias_ih: Option<Parameter>,
            /// The bias that goes with the state's.
            pub bias_hh: Option<Parameter>,
            hidden: i64,
        }

        impl $name {
            /// From `inputs` features to a state of `hidden`.
            ///
            /// # Errors
            /// When a number is negative or memory runs out.
            pub fn new(inputs: i64, hidden: i64) -> Result<$name> {
                let bound = if hidden > 0 { 1.0 / (hidden as f64).sqrt() } else { 0.0 };
                let draw = |sizes: &[i64]| -> Result<Parameter> {
                    let parameter = empty_parameter(sizes)?;
                    init::uniform_(&parameter, -bound, bound)?;
                    Ok(parameter)
                };
                // What is too wide to count is too large for memory.
                let wide = i64::saturating_mul(hidden, $gates);
                Ok($name {
                    weight_ih: draw(&[wide, inputs])?,
                    weight_hh: draw(&[wide, hidden])?,
                    bias_ih: Some(draw(&[wide])?),
                    bias_hh: Some(draw(&[wide])?),
                    hidden,
                })
            }

            /// The state, or zeros for every example of the input.
            fn state(&self, input: &Tensor, given: Option<&Tensor>) -> Result<Tensor> {
                let mut sizes = input.sizes().to_vec();
                ensure!(matches!(sizes.len(), 1 | 2), "{}: Expected input to be 1D or 2D, got {}D instead", stringify!($name), sizes.len());
                if let Some(last) = sizes.last_mut() {
                    *last = self.hidden;
                }
                given.cloned().map_or_else(|| Tensor::zeros(&sizes, (input.dtype(), input.device())), Ok)
            }

            /// Calls the operator of a step.
            fn call(&self, name: &str, input: &Tensor, state: Value<'_>) -> Result<Vec<Tensor>> {
                let (weight_ih, weight_hh) = (Value::Tensor(&self.weight_ih), Value::Tensor(&self.weight_hh));
                let (bias_ih, bias_hh) = (self.bias_ih.as_deref().into(), self.bias_hh.as_deref().into());
                operator(name)?.call(&[input.into(), state, weight_ih, weight_hh, bias_ih, bias_hh])?.list()
            }
        }
    )* };
}
cells! {
    /// One step of [`LSTM`].
    LSTMCell, 4;
    /// One step of [`GRU`].
    GRUCell, 3;
    /// One step of [`RNN`].
    RNNCell, 1;
}

impl LSTMCell {
    /// The next states `h` and `c`, from those given or from zeros.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(&self, input: &Tensor, state: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, Tensor)> {
        let states = [self.state(input, state.map(|(h, _)| h))?, self.state(input, state.map(|(_, c)| c))?];
        let results = self.call("lstm_cell", input, Value::Tensors(&states))?;
        let [h, c] = &results[..] else { return Err(Error::runtime("lstm_cell gave no two states")) };
        Ok((h.clone(), c.clone()))
    }
}

macro_rules! one_state_cell {
    ($($name:ident $operator:literal)*) => { $(
        impl $name {
            /// The next state, from the one given or from zeros.
            ///
            /// # Errors
            /// When the sizes do not fit.
            pub fn forward(&self, input: &Tensor, state: Option<&Tensor>) -> Result<Tensor> {
                let state = self.state(input, state)?;
                let results = self.call($operator, input, Value::Tensor(&state))?;
                results.into_iter().next().ok_or_else(|| Error::runtime("a cell gave no state"))
            }
        }
    )* };
}
one_state_cell! { GRUCell "gru_cell" RNNCell "rnn_tanh_cell" }
