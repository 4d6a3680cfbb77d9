//! Optimisers, schedules and clipping against numbers recorded from PyTorch 2.13.

use flambeau::Tensor;
use flambeau_nn::optim::{Algorithm, ConstantLR, CosineAnnealingLR, CyclicLR, OneCycleLR, clip_grad_norm_};
use flambeau_nn::*;

fn leaf(numbers: &[f32]) -> Result<Tensor> {
    Tensor::from_slice(numbers)?.requires_grad_(true)
}

fn close(name: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    let fits = got.iter().zip(expected).all(|(a, b)| (a - b).abs() <= tolerance * (1.0 + b.abs()));
    assert!(fits, "{name}: {got:?}, not {expected:?}");
}

fn steps<A: Algorithm>(optimizer: &mut Optimizer<A>, count: usize) -> Result<Vec<f64>> {
    let p = optimizer.groups[0].parameters[0].clone();
    let factors = Tensor::from_slice(&[1.0f32, 2.0, 0.5])?;
    for _ in 0..count {
        optimizer.zero_grad()?;
        p.mul(&p)?.mul(&factors)?.sum()?.backward()?;
        optimizer.step()?;
    }
    p.to_vec()
}

/// Three steps of `algorithm`; then the same with a state saved and loaded after the second.
fn check<A: Algorithm>(name: &str, algorithm: A, expected: &[f64]) -> Result<()> {
    let start = [1.0, -2.0, 3.0];
    let mut optimizer = Optimizer::new(vec![leaf(&start)?], algorithm.clone())?;
    close(name, &steps(&mut optimizer, 3)?, expected, 2e-6);

    let mut first = Optimizer::new(vec![leaf(&start)?], algorithm.clone())?;
    let between: Vec<f32> = steps(&mut first, 2)?.iter().map(|&x| x as f32).collect();
    let mut second = Optimizer::new(vec![leaf(&between)?], algorithm.clone())?;
    second.groups[0].options.set_option("lr", 123.0);
    second.load_state_dict(&first.state_dict()?)?;
    close(name, &steps(&mut second, 1)?, expected, 2e-6);

    let mut other = Optimizer::new(vec![leaf(&[1.0])?], algorithm)?;
    let mut bad = first.state_dict()?;
    bad.insert("state.0.nonsense".to_owned(), Tensor::from_slice(&[1.0f32])?);
    assert!(other.load_state_dict(&bad).is_err());
    Ok(())
}

#[test]
fn update_rules() -> Result<()> {
    let sgd = SGD { lr: 0.1, momentum: 0.9, ..SGD::default() };
    let nesterov = SGD { weight_decay: 0.01, nesterov: true, ..sgd };
    check("sgd", nesterov, &[-0.1116511, 0.8670105, 0.965579])?;
    check("sgd with dampening", SGD { dampening: 0.5, ..sgd }, &[0.252, 0.672, 1.81575])?;
    let adam = Adam { lr: 0.1, weight_decay: 0.01, amsgrad: true, ..Adam::default() };
    check("adam", adam, &[0.7015862, -1.700623, 2.700382])?;
    check("adamw", AdamW { lr: 0.1, ..AdamW::default() }, &[0.6989112, -1.694945, 2.691704])?;
    let rms = RMSprop { lr: 0.1, ..RMSprop::default() };
    check("rmsprop", rms, &[3.033074e-12, -0.3096873, 1.068995])?;
    check("rmsprop, centred", RMSprop { momentum: 0.5, centered: true, ..rms }, &[-0.2981907, 0.4544752, 0.1440855])
}

#[test]
fn bad_options_and_parameters() -> Result<()> {
    let p = leaf(&[1.0])?;
    assert!(Optimizer::new(vec![], SGD::default()).is_err());
    assert!(Optimizer::new(vec![p.clone()], SGD { lr: -1.0, ..SGD::default() }).is_err());
    assert!(Optimizer::new(vec![p.clone()], Adam { beta1: 1.0, ..Adam::default() }).is_err());
    assert!(Optimizer::new(vec![p.clone(), p.clone()], SGD::default()).is_err());
    assert!(Optimizer::new(vec![p.mul(2.0)?], SGD::default()).is_err());
    let mut optimizer = Optimizer::new(vec![p.clone()], SGD::default())?;
    assert!(optimizer.add_group(vec![p], SGD::default()).is_err());
    optimizer.add_group(vec![leaf(&[2.0])?], SGD { lr: 0.5, ..SGD::default() })?;
    assert_eq!(optimizer.learning_rates(), [1e-3, 0.5]);
    Ok(())
}

#[test]
fn schedules() -> Result<()> {
    let new = || Optimizer::new(vec![leaf(&[0.0])?], SGD { lr: 0.1, momentum: 0.9, ..SGD::default() });
    let mut optimizer = new()?;
    let mut schedule = Scheduler::new(&mut optimizer, CosineAnnealingLR { t_max: 4, eta_min: 0.01 })?;
    let mut rates = Vec::new();
    for _ in 0..11 {
        rates.extend(optimizer.learning_rates());
        schedule.step(&mut optimizer)?;
    }
    let down = [0.1, 0.08681980515339464, 0.055, 0.023180194846605363];
    let expected: Vec<f64> =
        down.into_iter().chain([0.01]).chain(down.into_iter().rev()).chain(down[1..3].to_vec()).collect();
    close("cosine", &rates, &expected, 1e-14);

    let mut optimizer = new()?;
    let mut schedule = Scheduler::new(&mut optimizer, OneCycleLR::new(1.0, 8))?;
    let (mut rates, mut momenta) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        rates.extend(optimizer.learning_rates());
        momenta.push(optimizer.groups[0].options.momentum);
        schedule.step(&mut optimizer)?;
    }
    close(
        "one cycle",
        &rates,
        &[
            0.04,
            0.819275104892192,
            0.9719417773875232,
            0.811745653949763,
            0.5559840141227016,
            0.28306099820869923,
            0.0766415938342564,
            4e-06,
        ],
        1e-14,
    );
    close(
        "its momentum",
        &momenta,
        &[
            0.95,
            0.8688255099070633,
            0.8528058334845816,
            0.8688255099070633,
            0.8944017761948346,
            0.9216941869558779,
            0.9423362099614142,
            0.95,
        ],
        1e-14,
    );
    assert!(schedule.step(&mut optimizer).is_err());
    Ok(())
}

#[test]
fn clipping() -> Result<()> {
    let (a, b) = (leaf(&[0.0, 0.0])?, leaf(&[0.0])?);
    a.set_grad(Some(Tensor::from_slice(&[3.0f32, 4.0])?))?;
    b.set_grad(Some(Tensor::from_slice(&[12.0f32])?))?;
    let norm = clip_grad_norm_(&[a.clone(), b.clone()], 1.0, 2.0)?;
    assert_eq!(norm.item()?.to_f64(), 13.0);
    close("clipped", &a.grad().unwrap().to_vec()?, &[0.2307692, 0.3076923], 1e-6);
    close("clipped", &b.grad().unwrap().to_vec()?, &[0.9230769], 1e-6);
    Ok(())
}

#[test]
fn counts_in_states_are_counts() -> Result<()> {
    for bad in [f64::INFINITY, f64::NAN, -1.0, 0.5, 1e300] {
        let mut optimizer = Optimizer::new(vec![leaf(&[1.0, -2.0, 3.0])?], Adam { lr: 0.1, ..Adam::default() })?;
        steps(&mut optimizer, 1)?;
        let mut state = optimizer.state_dict()?;
        state.insert("state.0.step".to_owned(), Tensor::scalar(bad)?);
        assert!(optimizer.load_state_dict(&state).is_err(), "{bad}");
        let mut schedule = Scheduler::new(&mut optimizer, ConstantLR::default())?;
        let mut state = schedule.state_dict()?;
        state.insert("epoch".to_owned(), Tensor::scalar(bad)?);
        assert!(schedule.load_state_dict(&state).is_err(), "{bad}");
        let cycle = CyclicLR { step_size_up: u64::MAX, cycle_momentum: false, ..CyclicLR::new(0.1, 1.0) };
        Scheduler::new(&mut optimizer, cycle)?.step(&mut optimizer)?;
        steps(&mut optimizer, 1)?;
    }
    Ok(())
}

/// A parameter that takes another's place in a group, and perhaps in memory, has a state of its own.
#[test]
fn replaced_parameters_begin_anew() -> Result<()> {
    let adam = Adam { lr: 0.1, ..Adam::default() };
    let start = [1.0, -2.0, 3.0];
    let fresh = steps(&mut Optimizer::new(vec![leaf(&start)?], adam)?, 1)?;
    let mut optimizer = Optimizer::new(vec![leaf(&start)?], adam)?;
    for _ in 0..20 {
        steps(&mut optimizer, 3)?;
        optimizer.groups[0].parameters.clear();
        optimizer.groups[0].parameters.push(leaf(&start)?);
        close("replaced", &steps(&mut optimizer, 1)?, &fresh, 0.0);
    }
    Ok(())
}
