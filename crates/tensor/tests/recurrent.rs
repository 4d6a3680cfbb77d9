//! Recurrent layers as one operator: the same numbers and derivatives, of both orders, as cells called time by time.

use flambeau::autograd::{self, CheckOptions};
use flambeau::samples::Maker;
use flambeau::{DType, Op, Outputs, OwnedValue, Result, Tensor, Value, registry};

/// A layer operator, its cell, its gates and its states.
const KINDS: [(&str, &str, i64, usize); 4] = [
    ("lstm", "lstm_cell", 4, 2),
    ("gru", "gru_cell", 3, 1),
    ("rnn_tanh", "rnn_tanh_cell", 1, 1),
    ("rnn_relu", "rnn_relu_cell", 1, 1),
];

fn operator(name: &str) -> &'static Op {
    registry::find(name).unwrap_or_else(|| panic!("no operator {name}"))
}

fn call(op: &'static Op, args: &[OwnedValue]) -> Result<Vec<Tensor>> {
    let args: Vec<Value<'_>> = args.iter().map(OwnedValue::borrow).collect();
    op.call(&args).and_then(Outputs::list)
}

fn states(all: &[Tensor]) -> OwnedValue {
    match all {
        [one] => OwnedValue::Tensor(one.clone()),
        all => OwnedValue::Tensors(all.to_vec()),
    }
}

/// Input, states and parameters of one layer in both directions.
fn inputs(gates: i64, states: usize, input: &[i64], batch: i64, hidden: i64) -> Vec<Tensor> {
    let mut m = Maker::new(DType::F64);
    let features = input[input.len() - 1];
    let mut sizes = vec![input.to_vec()];
    sizes.extend(vec![vec![2, batch, hidden]; states]);
    let wide = gates * hidden;
    let parameters = [vec![wide, features], vec![wide, hidden], vec![wide], vec![wide]];
    sizes.extend(parameters.iter().chain(&parameters).cloned());
    sizes.iter().map(|s| m.uniform(s, -1.0, 1.0).requires_grad_(true).unwrap()).collect()
}

/// The network's results over rows of times.
fn by_layer((op, _, _, kinds): (&str, &str, i64, usize), xs: &[Tensor], sizes: Option<&[i64]>) -> Result<Vec<Tensor>> {
    let mut args = vec![OwnedValue::Tensor(xs[0].clone())];
    let op = match sizes {
        Some(sizes) => {
            args.push(OwnedValue::Tensor(Tensor::from_slice(sizes)?));
            operator(&format!("{op}.data"))
        }
        None => operator(&format!("{op}.input")),
    };
    args.extend([states(&xs[1..=kinds]), OwnedValue::Tensors(xs[kinds + 1..].to_vec()), OwnedValue::Bool(true)]);
    args.extend([OwnedValue::Int(1), OwnedValue::Float(0.0), OwnedValue::Bool(true), OwnedValue::Bool(true)]);
    if sizes.is_none() {
        args.push(OwnedValue::Bool(false));
    }
    call(op, &args)
}

/// The same by cells, every sequence for itself: sequence `i` is as long as there are sizes above `i`.
fn by_cells((_, cell, _, kinds): (&str, &str, i64, usize), xs: &[Tensor], sizes: &[i64]) -> Result<Vec<Tensor>> {
    let starts: Vec<i64> = sizes.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect();
    let data = xs[0].reshape(&[-1, xs[0].size(-1)?])?;
    let mut output = vec![Vec::new(); data.size(0)? as usize];
    let mut last = vec![Vec::new(); kinds];
    for direction in 0..2 {
        let weights = &xs[kinds + 1..][4 * direction..][..4];
        let mut ends = vec![Vec::new(); kinds];
        for row in 0..sizes[0] {
            let mut state: Vec<Tensor> = xs[1..=kinds]
                .iter()
                .map(|s| s.select(0, direction as i64)?.narrow(0, row, 1))
                .collect::<Result<_>>()?;
            let length = sizes.iter().filter(|n| **n > row).count();
            for step in 0..length {
                let time = if direction == 1 { length - 1 - step } else { step };
                let at = starts[time] + row;
                let mut args = vec![OwnedValue::Tensor(data.narrow(0, at, 1)?), states(&state)];
                args.extend(weights.iter().map(|w| OwnedValue::Tensor(w.clone())));
                state = call(operator(cell), &args)?;
                output[at as usize].push(state[0].clone());
            }
            ends.iter_mut().zip(state).for_each(|(ends, state)| ends.push(state));
        }
        for (last, ends) in last.iter_mut().zip(ends) {
            last.push(Tensor::cat(&ends, 0)?);
        }
    }
    let rows = output.iter().map(|both| Tensor::cat(both, 1)).collect::<Result<Vec<_>>>()?;
    let mut found = vec![Tensor::cat(&rows, 0)?];
    for states in last {
        found.push(Tensor::stack(&states, 0)?);
    }
    Ok(found)
}

fn assert_same(got: &[Tensor], want: &[Tensor], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
        assert_eq!(a.len(), b.len(), "{what} {i}");
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < 1e-11, "{what} {i}: {apart}");
    }
}

#[test]
fn a_layer_is_its_cells() {
    for kind in KINDS {
        // A sequence, packed sequences, and more rows and units than a tile has.
        for (sizes, packed, hidden) in [(&[3, 3, 3][..], false, 2), (&[4, 2, 1], true, 3), (&[18, 18], false, 35)] {
            let rows: i64 = sizes.iter().sum();
            let shape = if packed { vec![rows, 3] } else { vec![sizes.len() as i64, sizes[0], 3] };
            let xs = inputs(kind.2, kind.3, &shape, sizes[0], hidden);
            let results = [by_layer(kind, &xs, packed.then_some(sizes)).unwrap(), by_cells(kind, &xs, sizes).unwrap()];
            assert_same(&results[0], &results[1], kind.0);
            let gradients = results.each_ref().map(|ys| {
                let loss = ys.iter().map(|y| y.mul(y).and_then(|y| y.sum()).unwrap()).reduce(|a, b| a.add(&b).unwrap());
                let found = autograd::grad(&[loss.unwrap()], &xs, &[None], false, false, false).unwrap();
                found.into_iter().map(Option::unwrap).collect::<Vec<_>>()
            });
            assert_same(&gradients[0], &gradients[1], kind.0);
            // Without recording nothing is kept.
            let _mode = autograd::no_grad();
            assert_same(&by_layer(kind, &xs, packed.then_some(sizes)).unwrap(), &results[1], kind.0);
        }
    }
}

#[test]
fn second_derivatives_of_layers() {
    for kind in KINDS {
        let xs = inputs(kind.2, kind.3, &[3, 2], 2, 2);
        let function = |xs: &[Tensor]| by_layer(kind, xs, Some(&[2, 1]));
        autograd::gradcheck(&function, &xs, CheckOptions { forward: true, ..CheckOptions::default() }).unwrap();
        autograd::gradgradcheck(&function, &xs, CheckOptions::default()).unwrap();
    }
}

#[test]
fn an_output_may_be_written_to() {
    for kind in KINDS {
        let mut parameters = inputs(kind.2, kind.3, &[2, 2, 2], 2, 2);
        parameters.truncate(1 + kind.3 + 4);
        let first: Vec<Tensor> = parameters[1..=kind.3].iter().map(|s| s.narrow(0, 0, 1).unwrap()).collect();
        let args = [
            OwnedValue::Tensor(parameters[0].clone()),
            states(&first),
            OwnedValue::Tensors(parameters[kind.3 + 1..].to_vec()),
            OwnedValue::Bool(true),
            OwnedValue::Int(1),
            OwnedValue::Float(0.0),
            OwnedValue::Bool(true),
            OwnedValue::Bool(false),
            OwnedValue::Bool(true),
        ];
        let y = call(operator(&format!("{}.input", kind.0)), &args).unwrap().swap_remove(0);
        y.mul_(2.0).unwrap().sum().unwrap().backward().unwrap();
        assert!(parameters.iter().all(|p| p.grad().is_some()));
    }
}
