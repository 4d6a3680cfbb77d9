//! Recurrent networks.

use super::empty_parameter;
use crate::Module;
use crate::init;
use crate::walk::{Leaf, LeafMut, Parameter, Path, Training, Walk};
use flambeau::{Error, Result, Tensor, ensure};

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
}

impl Default for RnnOptions {
    fn default() -> Self {
        RnnOptions { num_layers: 1, bias: true, batch_first: false, dropout: 0.0, bidirectional: false }
    }
}

/// The parameters of one layer in one direction.
struct Cell {
    weight_ih: Parameter,
    weight_hh: Parameter,
    bias_ih: Option<Parameter>,
    bias_hh: Option<Parameter>,
}

/// What LSTM and GRU share: the parameters and the way through layers, directions and time.
struct Recurrent {
    cells: Vec<Cell>,
    hidden: i64,
    options: RnnOptions,
    training: Training,
}

/// One step: the input's share of the gates, the cell and the state give the new state, whose first tensor is the
/// output.
type Step<const S: usize> = fn(&Tensor, &Cell, &[Tensor; S]) -> Result<[Tensor; S]>;

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
        let bound = 1.0 / (hidden as f64).sqrt();
        let draw = |sizes: &[i64]| -> Result<Parameter> {
            let parameter = empty_parameter(sizes)?;
            init::uniform_(&parameter, -bound, bound)?;
            Ok(parameter)
        };
        let bias = || if options.bias { draw(&[gates * hidden]).map(Some) } else { Ok(None) };
        let directions = 1 + i64::from(options.bidirectional);
        let mut cells = Vec::new();
        for layer in 0..options.num_layers {
            let inputs = if layer == 0 { inputs } else { hidden * directions };
            for _ in 0..directions {
                cells.push(Cell {
                    weight_ih: draw(&[gates * hidden, inputs])?,
                    weight_hh: draw(&[gates * hidden, hidden])?,
                    bias_ih: bias()?,
                    bias_hh: bias()?,
                });
            }
        }
        Ok(Recurrent { cells, hidden, options, training: Training::default() })
    }

    /// The output, and the last states of all cells stacked.
    fn run<const S: usize>(
        &self,
        name: &str,
        input: &Tensor,
        state: Option<[&Tensor; S]>,
        step: Step<S>,
    ) -> Result<(Tensor, [Tensor; S])> {
        let options = &self.options;
        ensure!(matches!(input.dim(), 2 | 3), "{name}: Expected input to be 2D or 3D, got {}D instead", input.dim());
        let batched = input.dim() == 3;
        let mut x = match (batched, options.batch_first) {
            (false, _) => input.unsqueeze(1)?,
            (true, true) => input.transpose(0, 1)?,
            (true, false) => input.clone(),
        };
        let (length, batch, features) = (x.sizes()[0], x.sizes()[1], x.sizes()[2]);
        let wanted = self.cells[0].weight_ih.sizes()[1];
        ensure!(features == wanted, "input.size(-1) must be equal to input_size. Expected {wanted}, got {features}");
        ensure!(length > 0, "{name}: Expected sequence length to be larger than 0 in RNN");
        let state: Option<[Tensor; S]> = match state {
            None => None,
            Some(given) => {
                let mut sizes = vec![self.cells.len() as i64, batch, self.hidden];
                if !batched {
                    sizes.remove(1);
                }
                for t in given {
                    ensure!(t.sizes() == sizes, "Expected hidden size {sizes:?}, got {:?}", t.sizes());
                }
                let mut out = given.map(Tensor::clone);
                if !batched {
                    for t in &mut out {
                        *t = t.unsqueeze(1)?;
                    }
                }
                Some(out)
            }
        };
        let directions = 1 + usize::from(options.bidirectional);
        let mut last: [Vec<Tensor>; S] = std::array::from_fn(|_| Vec::new());
        for (layer, cells) in self.cells.chunks(directions).enumerate() {
            let mut outputs = Vec::with_capacity(directions);
            for (direction, cell) in cells.iter().enumerate() {
                let mut current = Vec::with_capacity(S);
                for s in 0..S {
                    current.push(match &state {
                        Some(state) => state[s].select(0, (layer * directions + direction) as i64)?,
                        None => Tensor::zeros(&[batch, self.hidden], (x.dtype(), x.device()))?,
                    });
                }
                let Ok(mut current) = <[Tensor; S]>::try_from(current) else { unreachable!("there are S of them") };
                // The input's share for all times at once is one large product.
                let gates = x.linear(&cell.weight_ih, cell.bias_ih.as_deref())?.unbind(0)?;
                let mut steps = Vec::with_capacity(gates.len());
                let times: Box<dyn Iterator<Item = &Tensor>> =
                    if direction == 0 { Box::new(gates.iter()) } else { Box::new(gates.iter().rev()) };
                for share in times {
                    current = step(share, cell, &current)?;
                    steps.push(current[0].clone());
                }
                if direction == 1 {
                    steps.reverse();
                }
                outputs.push(Tensor::stack(&steps, 0)?);
                last.iter_mut().zip(current).for_each(|(all, one)| all.push(one));
            }
            x = if directions == 1 { outputs.swap_remove(0) } else { Tensor::cat(&outputs, 2)? };
            if options.dropout > 0.0 && self.training.get() && layer + 1 < options.num_layers as usize {
                x = x.dropout(options.dropout, true)?;
            }
        }
        let output = match (batched, options.batch_first) {
            (false, _) => x.squeeze_dim(1)?,
            (true, true) => x.transpose(0, 1)?,
            (true, false) => x,
        };
        let mut states = Vec::with_capacity(S);
        for all in &last {
            let stacked = Tensor::stack(all, 0)?;
            states.push(if batched { stacked } else { stacked.squeeze_dim(1)? });
        }
        let Ok(states) = <[Tensor; S]>::try_from(states) else { unreachable!("there are S of them") };
        Ok((output, states))
    }
}

impl Walk for Recurrent {
    fn walk(&self, path: &mut Path, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
        let directions = 1 + usize::from(self.options.bidirectional);
        for (number, cell) in self.cells.iter().enumerate() {
            let reverse = if number % directions == 1 { "_reverse" } else { "" };
            let suffix = format!("_l{}{reverse}", number / directions);
            path.enter(&format!("weight_ih{suffix}"), |path| cell.weight_ih.walk(path, visit));
            path.enter(&format!("weight_hh{suffix}"), |path| cell.weight_hh.walk(path, visit));
            path.enter(&format!("bias_ih{suffix}"), |path| cell.bias_ih.walk(path, visit));
            path.enter(&format!("bias_hh{suffix}"), |path| cell.bias_hh.walk(path, visit));
        }
        self.training.walk(path, visit);
    }
    fn walk_mut(&mut self, visit: &mut dyn FnMut(LeafMut<'_>) -> Result<()>) -> Result<()> {
        for cell in &mut self.cells {
            cell.weight_ih.walk_mut(visit)?;
            cell.weight_hh.walk_mut(visit)?;
            cell.bias_ih.walk_mut(visit)?;
            cell.bias_hh.walk_mut(visit)?;
        }
        Ok(())
    }
}

macro_rules! recurrent_module {
    ($name:ident, $gates:literal) => {
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
    };
}

/// Long short-term memory, in layers and directions, with PyTorch's parameter names (`weight_ih_l0`, ...).
pub struct LSTM(Recurrent);
recurrent_module!(LSTM, 4);

impl LSTM {
    /// Reads (sequence, batch, features), or without the batch, from the states `h` and `c` (layers times directions,
    /// batch, hidden) or from zeros. Gives the last layer's output at every time, and the last states.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(&self, input: &Tensor, state: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, (Tensor, Tensor))> {
        let (output, [h, c]) = self.0.run("LSTM", input, state.map(|(h, c)| [h, c]), lstm_step)?;
        Ok((output, (h, c)))
    }
}

fn lstm_step(share: &Tensor, cell: &Cell, [h, c]: &[Tensor; 2]) -> Result<[Tensor; 2]> {
    let gates = share.add(&h.linear(&cell.weight_hh, cell.bias_hh.as_deref())?)?.chunk(4, 1)?;
    let (input, forget, new, output) =
        (gates[0].sigmoid()?, gates[1].sigmoid()?, gates[2].tanh()?, gates[3].sigmoid()?);
    let c = forget.mul(c)?.add(&input.mul(&new)?)?;
    Ok([output.mul(&c.tanh()?)?, c])
}

/// Gated recurrent units, in layers and directions, with PyTorch's parameter names (`weight_ih_l0`, ...).
pub struct GRU(Recurrent);
recurrent_module!(GRU, 3);

impl GRU {
    /// Reads (sequence, batch, features), or without the batch, from the state `h` (layers times directions, batch,
    /// hidden) or from zeros. Gives the last layer's output at every time, and the last state.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(&self, input: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let (output, [h]) = self.0.run("GRU", input, state.map(|h| [h]), gru_step)?;
        Ok((output, h))
    }
}

fn gru_step(share: &Tensor, cell: &Cell, [h]: &[Tensor; 1]) -> Result<[Tensor; 1]> {
    let own = h.linear(&cell.weight_hh, cell.bias_hh.as_deref())?.chunk(3, 1)?;
    let share = share.chunk(3, 1)?;
    let reset = share[0].add(&own[0])?.sigmoid()?;
    let update = share[1].add(&own[1])?.sigmoid()?;
    let new = share[2].add(&reset.mul(&own[2])?)?.tanh()?;
    Ok([h.sub(&new)?.mul(&update)?.add(&new)?])
}
