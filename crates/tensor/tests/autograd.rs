//! The machinery of reverse mode, apart from particular operators' formulas.

use flambeau::autograd::{self, Edge, Function, FunctionContext, apply, no_grad};
use flambeau::{DType, MemoryFormat, Result, Tensor, index};
use std::sync::{Arc, Mutex};

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_slice(values).unwrap().requires_grad_(true).unwrap()
}

fn grad(t: &Tensor) -> Vec<f64> {
    t.grad().unwrap().to_vec().unwrap()
}

fn message(result: Result<impl Sized>) -> String {
    result.err().expect("an error").message().to_string()
}

#[test]
fn gradients_accumulate_over_uses_and_calls() -> Result<()> {
    let x = leaf(&[2.0, 3.0]);
    let y = x.mul(&x)?.add(&x)?;
    y.sum()?.backward()?;
    assert_eq!(grad(&x), [5.0, 7.0]);
    x.mul(10.0)?.sum()?.backward()?;
    assert_eq!(grad(&x), [15.0, 17.0]);
    // What was handed out before is a tensor of its own only if nobody added to it: PyTorch adds in place, too.
    x.set_grad(None)?;
    assert!(x.grad().is_none());
    Ok(())
}

#[test]
fn a_graph_runs_once_unless_it_is_retained() -> Result<()> {
    let x = leaf(&[2.0]);
    let y = x.exp()?.sum()?;
    y.backward_with(&Tensor::ones(&[], DType::F64)?, true, false)?;
    y.backward()?;
    assert!((grad(&x)[0] - 2.0 * 2f64.exp()).abs() < 1e-12);
    assert!(message(y.backward()).starts_with("Trying to backward through the graph a second time"));
    Ok(())
}

#[test]
fn derivatives_of_any_order() -> Result<()> {
    let x = leaf(&[1.5]);
    let mut d = x.pow(5.0)?;
    for (order, factor) in [5.0, 20.0, 60.0, 120.0, 120.0].into_iter().enumerate() {
        d = autograd::grad(&[d.sum()?], std::slice::from_ref(&x), &[None], true, true, false)?.remove(0).unwrap();
        let expected = factor * 1.5f64.powi(4 - order as i32);
        assert!((d.item()?.to_f64() - expected).abs() < 1e-9 * expected, "order {}", order + 1);
    }
    Ok(())
}

#[test]
fn grad_leaves_the_leaves_alone_and_says_what_is_unused() -> Result<()> {
    let (x, unused) = (leaf(&[3.0]), leaf(&[1.0]));
    let middle = x.mul(2.0)?;
    let y = middle.mul(&middle)?.sum()?;
    let inputs = [x.clone(), middle.clone(), unused.clone()];
    let found = autograd::grad(std::slice::from_ref(&y), &inputs, &[None], true, false, true)?;
    let values: Vec<Option<f64>> = found.iter().map(|g| g.as_ref().map(|g| g.to_vec::<f64>().unwrap()[0])).collect();
    assert_eq!(values, [Some(24.0), Some(12.0), None]);
    assert!(x.grad().is_none());
    let refused = autograd::grad(std::slice::from_ref(&y), &inputs, &[None], true, false, false);
    assert!(message(refused).starts_with("The differentiated Tensor at index 2 appears to not have been used"));
    autograd::backward(&[y], &[None], false, false, Some(std::slice::from_ref(&middle)))?;
    assert!(x.grad().is_none());
    assert_eq!(middle.grad().unwrap().to_vec::<f64>()?, [12.0]);
    Ok(())
}

#[test]
fn hooks_see_and_replace_gradients_until_they_are_removed() -> Result<()> {
    let x = leaf(&[1.0]);
    let seen: Arc<Mutex<Vec<(&str, f64)>>> = Arc::default();
    let note = |name: &'static str, factor: Option<f64>| {
        let seen = seen.clone();
        move |g: &Tensor| {
            seen.lock().unwrap().push((name, g.to_vec::<f64>()?[0]));
            factor.map(|f| g.mul(f)).transpose()
        }
    };
    let on_leaf = x.register_hook(note("leaf", Some(10.0)))?;
    let y = x.mul(2.0)?;
    y.register_hook(note("result", Some(3.0)))?;
    y.retain_grad()?;
    y.mul(5.0)?.sum()?.backward_with(&Tensor::ones(&[], DType::F64)?, true, false)?;
    assert_eq!(*seen.lock().unwrap(), [("result", 5.0), ("leaf", 30.0)]);
    assert_eq!((grad(&x), grad(&y)), (vec![300.0], vec![15.0]));
    on_leaf.remove();
    x.set_grad(None)?;
    x.mul(2.0)?.sum()?.backward()?;
    assert_eq!(grad(&x), [2.0]);
    assert!(message(x.detach()?.register_hook(|_| Ok(None))).contains("doesn't require gradient"));
    Ok(())
}

#[test]
fn hooks_of_nodes_run_before_and_after_them() -> Result<()> {
    let x = leaf(&[1.0]);
    let y = x.mul(2.0)?;
    let node = y.grad_fn().unwrap();
    node.register_prehook(|g| Ok(Some(vec![g[0].as_ref().map(|g| g.mul(10.0)).transpose()?])));
    node.register_hook(|results, given| {
        assert_eq!(given[0].as_ref().unwrap().to_vec::<f64>()?, [10.0]);
        Ok(Some(results.iter().map(|r| r.as_ref().map(|r| r.add(1.0)).transpose()).collect::<Result<_>>()?))
    });
    y.sum()?.backward()?;
    assert_eq!(grad(&x), [21.0]);
    // A leaf's own node, which exists once somebody asks for it.
    let accumulate = node.next_functions()[0].as_ref().unwrap().node();
    assert_eq!((accumulate.name().as_str(), accumulate.variable().unwrap().is_same(&x)), ("AccumulateGrad", true));
    let ran: Arc<Mutex<usize>> = Arc::default();
    let count = ran.clone();
    accumulate.register_hook(move |_, given| {
        *count.lock().unwrap() += given.len();
        Ok(None)
    });
    x.mul(1.0)?.sum()?.backward()?;
    assert_eq!((*ran.lock().unwrap(), grad(&x)), (1, vec![22.0]));
    Ok(())
}

#[test]
fn names_and_edges_are_those_that_programs_print() -> Result<()> {
    let x = leaf(&[1.0, 2.0]);
    let name = |t: Tensor| t.grad_fn().unwrap().name();
    let y = x.view(&[2, 1])?;
    assert_eq!(name(x.add(&x)?), "AddBackward0");
    assert_eq!(name(x.sum()?), "SumBackward0");
    assert_eq!(name(x.sum_dim(&[0], false)?), "SumBackward1");
    assert_eq!(name(x.pow(2.0)?), "PowBackward0");
    assert_eq!(name(x.pow(&x)?), "PowBackward1");
    assert_eq!(name(x.log1p()?), "Log1PBackward0");
    assert_eq!(name(y.clone()), "ViewBackward0");
    assert_eq!(name(x.mul(1.0)?.mul_(2.0)?), "MulBackward0");
    let edges = |t: Tensor| t.grad_fn().unwrap().next_functions();
    assert!(matches!(edges(x.mul(2.0)?)[..], [Some(_), None]));
    // What no formula gives a gradient of has no edge; what was not given has one to nowhere.
    assert!(matches!(edges(x.masked_fill(&x.gt(0.0)?, 1.0)?)[..], [Some(_)]));
    assert!(matches!(edges(x.layer_norm(&[2], None, None, 1e-5)?)[..], [Some(_), None, None]));
    assert!(matches!(edges(Tensor::cat(&[x.clone(), x.clone()], 0)?)[..], [Some(_), Some(_)]));
    let z = x.mul(1.0)?;
    z.set_at(&index![0], 5.0)?;
    assert_eq!(name(z), "CopySlices");
    let node = y.mul(&y)?.grad_fn().unwrap();
    let next = node.next_functions();
    assert_eq!(next.len(), 2);
    assert!(matches!(&next[1], Some(Edge::Node { node, input: 0 }) if node.name() == "ViewBackward0"));
    Ok(())
}

#[test]
fn writes_through_views_rewrite_history() -> Result<()> {
    let (x, y) = (leaf(&[1.0, 2.0, 3.0, 4.0]), leaf(&[10.0, 20.0]));
    let base = x.mul(1.0)?;
    let (view, other) = (base.slice(0, Some(1), Some(3), 1)?, base.select(0, 2)?);
    view.mul_(&y)?;
    // The base and a view made before both know.
    base.mul(&Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0])?)?.sum()?.add(&other)?.backward()?;
    assert_eq!(grad(&x), [1.0, 20.0, 80.0, 4.0]);
    assert_eq!(grad(&y), [4.0, 12.0]);
    // A write to the base is seen through its views, whose history follows.
    let (x, z) = (leaf(&[1.0, 2.0]), leaf(&[5.0]));
    let base = x.mul(2.0)?;
    let view = base.select(0, 0)?;
    base.copy_(&z.expand(&[2])?)?;
    view.mul(7.0)?.backward()?;
    assert_eq!((grad(&z), x.grad().map(|g| g.to_vec::<f64>().unwrap())), (vec![7.0], Some(vec![0.0, 0.0])));
    Ok(())
}

#[test]
fn a_view_of_a_plain_tensor_gains_history_with_its_base() -> Result<()> {
    let x = leaf(&[3.0]);
    let base = Tensor::zeros(&[2], DType::F64)?;
    let view = base.select(0, 1)?;
    assert!(!view.requires_grad());
    base.copy_(&x.expand(&[2])?)?;
    assert!(view.requires_grad());
    view.mul(&view)?.backward()?;
    assert_eq!(grad(&x), [6.0]);
    Ok(())
}

#[test]
fn in_place_writes_that_would_lose_gradients_are_refused() -> Result<()> {
    let x = leaf(&[1.0, 2.0]);
    assert_eq!(message(x.add_(1.0)), "a leaf Variable that requires grad is being used in an in-place operation.");
    assert!(message(x.select(0, 0)?.add_(1.0)).starts_with("a view of a leaf Variable that requires grad"));
    let y = x.mul(1.0)?;
    assert!(
        message(y.unbind(0)?[0].add_(1.0)).starts_with("Output 0 of Unbind is a view and is being modified inplace.")
    );
    let view = {
        let _mode = no_grad();
        y.view(&[2, 1])?
    };
    assert!(message(view.add_(1.0)).starts_with("A view was created in no_grad mode and is being modified inplace"));
    // Without recording, leaves may be written: that is what optimisers do.
    let _mode = no_grad();
    x.add_(1.0)?;
    assert_eq!(x.to_vec::<f64>()?, [2.0, 3.0]);
    Ok(())
}

#[test]
fn a_saved_tensor_that_was_written_is_named() -> Result<()> {
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul(1.0)?;
    let z = y.mul(&y)?;
    y.add_(1.0)?;
    assert_eq!(
        message(z.sum()?.backward()),
        "one of the variables needed for gradient computation has been modified by an inplace operation: \
         [torch.DoubleTensor [2]], which is output 0 of Add, is at version 1; expected version 0 instead. Hint: enable \
         anomaly detection to find the operation that failed to compute its gradient, with \
         torch.autograd.set_detect_anomaly(True, check_nan=False)."
    );
    // Through a view as well; a result that a formula reads; and not for what no formula reads.
    let y = x.mul(1.0)?;
    let z = y.mul(&y)?;
    y.select(0, 0)?.zero_()?;
    assert!(message(z.sum()?.backward()).contains("output 0 of torch::autograd::CopySlices, is at version 1"));
    let y = x.exp()?;
    y.mul_(2.0)?;
    assert!(message(y.sum()?.backward()).contains("has been modified by an inplace operation"));
    let y = x.mul(1.0)?;
    let z = y.add(&y)?;
    y.zero_()?;
    z.sum()?.backward()?;
    assert_eq!(grad(&x), [2.0, 2.0]);
    Ok(())
}

#[test]
fn inference_tensors_stay_out_of_graphs() -> Result<()> {
    let x = leaf(&[1.0]);
    let (made, view) = {
        let _mode = autograd::inference_mode();
        assert!(!x.mul(2.0)?.requires_grad());
        (Tensor::ones(&[1], DType::F64)?, x.mul(1.0)?.detach()?)
    };
    assert!(made.is_inference() && made.view(&[1, 1])?.is_inference() && !made.mul(2.0)?.is_inference());
    assert!(view.is_inference());
    assert!(message(made.mul(&x)).starts_with("Inference tensors cannot be saved for backward."));
    assert!(made.add(&x)?.requires_grad());
    assert!(message(made.add_(1.0)).starts_with("Inplace update to inference tensor outside InferenceMode"));
    assert!(message(made.set_requires_grad(true)).starts_with("Setting requires_grad=True on inference tensor"));
    let plain = Tensor::ones(&[1], DType::F64)?;
    let view = {
        let _mode = autograd::inference_mode();
        plain.view(&[1, 1])?
    };
    assert!(!view.is_inference());
    view.add_(1.0)?;
    let _mode = autograd::inference_mode();
    made.add_(1.0)?;
    Ok(())
}

/// Swaps its two inputs' roles: `(a b, a)`; `a`'s own history must not be used.
struct Twist;
impl Function for Twist {
    fn forward(&self, context: &mut FunctionContext, x: &[Tensor]) -> Result<Vec<Tensor>> {
        context.save_for_backward(x);
        let constant = x[0].round()?;
        context.mark_non_differentiable(&constant);
        Ok(vec![x[0].mul(&x[1])?, constant])
    }
    fn backward(&self, context: &FunctionContext, g: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = context.saved_tensors()?;
        let g = g[0].as_ref().unwrap();
        assert_eq!((context.needs_input_grad(0), context.needs_input_grad(1)), (true, false));
        Ok(vec![Some(g.mul(&saved[1])?), None])
    }
}

#[test]
fn custom_functions_are_differentiable_twice_and_check_what_they_saved() -> Result<()> {
    let (a, b) = (leaf(&[3.0]), Tensor::from_slice(&[4.0])?);
    let out = apply(Twist, &[a.mul(1.0)?, b.clone()])?;
    assert_eq!((out[0].requires_grad(), out[1].requires_grad()), (true, false));
    assert_eq!(out[0].grad_fn().unwrap().name(), "TwistBackward");
    let square = out[0].mul(&out[0])?.sum()?;
    let first = autograd::grad(&[square], std::slice::from_ref(&a), &[None], true, true, false)?.remove(0).unwrap();
    let second =
        autograd::grad(&[first.sum()?], std::slice::from_ref(&a), &[None], true, false, false)?.remove(0).unwrap();
    assert_eq!((first.to_vec::<f64>()?, second.to_vec::<f64>()?), (vec![96.0], vec![32.0]));
    b.add_(1.0)?;
    assert!(message(out[0].sum()?.backward()).contains("has been modified by an inplace operation"));
    Ok(())
}

#[test]
fn anomaly_mode_names_the_function_and_the_place() -> Result<()> {
    // The mode is a process-wide switch: nothing else in this file minds that it is on for a moment.
    autograd::set_anomaly_enabled(true);
    let x = leaf(&[0.0]);
    let result = x.mul(0.0)?.sqrt()?.mul(0.0)?.sum()?.backward();
    autograd::set_anomaly_enabled(false);
    let text = message(result);
    assert!(text.starts_with("Function 'SqrtBackward0' returned nan values in its 0th output."), "{text}");
    assert!(text.contains("Tensor>::sqrt"), "the trace leads to the call: {text}");
    Ok(())
}

#[test]
fn a_chain_of_a_million_nodes_neither_overflows_nor_stalls() -> Result<()> {
    let x = leaf(&[1.0]);
    for keep in [true, false] {
        let mut y = x.clone();
        for _ in 0..1_000_000 {
            y = y.mul(1.0)?;
        }
        if keep {
            y.sum()?.backward()?;
            assert_eq!(grad(&x), [1.0]);
        }
        // Dropping an unused graph must not recurse either.
    }
    Ok(())
}

/// Keeps its input where only it knows.
struct Keeper;
impl Function for Keeper {
    fn forward(&self, context: &mut FunctionContext, x: &[Tensor]) -> Result<Vec<Tensor>> {
        context.data = Some(Box::new(x[0].clone()));
        Ok(vec![x[0].add(1)?])
    }
    fn backward(&self, _: &FunctionContext, g: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(g.to_vec())
    }
}

#[test]
fn a_chain_through_what_functions_and_hooks_keep_is_dropped_without_recursion() -> Result<()> {
    for hooks in [false, true] {
        let x = leaf(&[1.0]);
        let mut y = x.mul(1.0)?;
        for _ in 0..200_000 {
            let next = if hooks { y.add(1)? } else { apply(Keeper, std::slice::from_ref(&y))?.remove(0) };
            if hooks {
                let before = y.clone();
                let _hook = next.register_hook(move |g| Ok(before.requires_grad().then(|| g.clone())))?;
            }
            y = next;
        }
        y.sum()?.backward()?;
        assert_eq!(grad(&x), [1.0]);
    }
    Ok(())
}

#[test]
fn what_hooks_return_must_look_like_what_they_were_given() -> Result<()> {
    let x = leaf(&[1.0, 2.0]);
    let hook = x.register_hook(|_| Tensor::ones(&[3], DType::F64).map(Some))?;
    let text = message(x.mul(&x)?.sum()?.backward());
    assert_eq!(text, "a hook has changed the size of a gradient from [2] to [3]");
    hook.remove();
    let _hook = x.register_hook(|_| Tensor::ones(&[2], DType::F32).map(Some))?;
    let text = message(x.mul(&x)?.sum()?.backward());
    assert!(
        text.starts_with("a hook has changed the type of a gradient from float64 on cpu to float32 on cpu"),
        "{text}"
    );
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul(&x)?;
    y.grad_fn().unwrap().register_hook(|_, _| Ok(Some(vec![])));
    let text = message(y.sum()?.backward());
    assert!(text.ends_with("has returned an incorrect number of values (got 0, but expected 2)"), "{text}");
    let y = x.mul(&x)?;
    y.grad_fn().unwrap().register_prehook(|g| Ok(Some([g, g].concat())));
    let text = message(y.sum()?.backward());
    assert!(text.ends_with("has returned an incorrect number of values (got 2, but expected 1)"), "{text}");
    assert!(x.grad().is_none());
    Ok(())
}

#[test]
fn threads_share_leaves_and_graphs() -> Result<()> {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let shared = x.mul(2.0)?;
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                for _ in 0..50 {
                    // Each thread has a mode of its own.
                    let _off = no_grad();
                    assert!(!shared.mul(1.0).unwrap().requires_grad());
                    let _on = autograd::enable_grad();
                    let y = shared.mul(1.0).unwrap().sum().unwrap();
                    autograd::grad(&[y], std::slice::from_ref(&x), &[None], true, false, false).unwrap();
                }
            });
        }
    });
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| x.mul(1.0).unwrap().sum().unwrap().backward().unwrap());
        }
    });
    assert_eq!(grad(&x), [4.0; 3]);
    Ok(())
}

#[test]
fn modes_nest_and_come_back() -> Result<()> {
    let x = leaf(&[1.0]);
    assert!(x.mul(1.0)?.requires_grad());
    {
        let _off = no_grad();
        assert!(!x.mul(1.0)?.requires_grad());
        {
            let _on = autograd::enable_grad();
            assert!(x.mul(1.0)?.requires_grad());
        }
        assert!(!autograd::is_grad_enabled());
    }
    assert!(autograd::is_grad_enabled() && x.mul(1.0)?.requires_grad());
    Ok(())
}

#[test]
fn gradients_take_their_tensors_shape_and_dtype() -> Result<()> {
    let x = Tensor::ones(&[3, 1], DType::F32)?.requires_grad_(true)?;
    let y = Tensor::ones(&[4], DType::F64)?.requires_grad_(true)?;
    x.mul(&y)?.sum()?.backward()?;
    let (gx, gy) = (x.grad().unwrap(), y.grad().unwrap());
    assert_eq!((gx.sizes(), gx.dtype(), gx.to_vec::<f32>()?), (&[3i64, 1][..], DType::F32, vec![4.0; 3]));
    assert_eq!((gy.sizes(), gy.dtype(), gy.to_vec::<f64>()?), (&[4i64][..], DType::F64, vec![3.0; 4]));
    // The gradient is nobody else's memory.
    let g = Tensor::ones(&[2], DType::F64)?;
    let z = leaf(&[1.0, 2.0]);
    z.mul(1.0)?.backward_with(&g, false, false)?;
    z.grad().unwrap().clone_in(MemoryFormat::Preserve)?.add_(5.0)?;
    let kept = z.grad().unwrap();
    z.mul(1.0)?.backward_with(&g, false, false)?;
    assert_eq!((kept.to_vec::<f64>()?, g.to_vec::<f64>()?), (vec![2.0; 2], vec![1.0; 2]));
    assert!(
        message(z.set_grad(Some(Tensor::ones(&[3], DType::F64)?)))
            .starts_with("attempting to assign a gradient of size")
    );
    Ok(())
}

struct AsList;
struct List(Vec<f64>);

impl autograd::SavedTensorHooks for AsList {
    fn pack(&self, tensor: &Tensor) -> Result<Box<dyn autograd::PackedTensor>> {
        Ok(Box::new(List(tensor.to_vec()?)))
    }
}
impl autograd::PackedTensor for List {
    fn unpack(&self) -> Result<Tensor> {
        Tensor::from_slice(&self.0)
    }
}

#[test]
fn saved_tensors_pass_through_hooks_and_keep_their_place_in_the_graph() -> Result<()> {
    let x = leaf(&[2.0, 3.0]);
    autograd::push_saved_tensor_hooks(Arc::new(AsList))?;
    // An argument that is a leaf, one that is not, and a result.
    let y = x.mul(&x)?.mul(&x)?.exp();
    assert!(message(autograd::disable_saved_tensor_hooks(Some("not here".into()))) == "not here");
    autograd::pop_saved_tensor_hooks();
    let y = y?.log()?;
    let first = autograd::grad(&[y.sum()?], std::slice::from_ref(&x), &[None], true, true, false)?.remove(0).unwrap();
    let second = autograd::grad(&[first.sum()?], std::slice::from_ref(&x), &[None], true, false, false)?;
    let near =
        |t: &Tensor, want: [f64; 2]| t.to_vec::<f64>().unwrap().iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-9);
    assert!(near(&first, [12.0, 27.0]) && near(second[0].as_ref().unwrap(), [12.0, 18.0]));
    autograd::disable_saved_tensor_hooks(Some("not here".into()))?;
    assert_eq!(message(autograd::push_saved_tensor_hooks(Arc::new(AsList))), "not here");
    autograd::disable_saved_tensor_hooks(None)
}

#[test]
fn retained_gradients_follow_writes_and_leaves_tell_when_theirs_has_grown() -> Result<()> {
    let x = leaf(&[1.0, 2.0]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mine = seen.clone();
    x.register_post_accumulate_grad_hook(move |leaf| {
        mine.lock().unwrap().push(grad(leaf));
        Ok(())
    })?;
    let y = x.mul(2.0)?;
    y.retain_grad()?;
    y.mul_(3.0)?;
    y.sum()?.backward()?;
    assert_eq!(grad(&y), [1.0, 1.0]);
    assert_eq!(*seen.lock().unwrap(), [vec![6.0, 6.0]]);
    assert!(message(y.register_post_accumulate_grad_hook(|_| Ok(()))).contains("non-leaf"));
    Ok(())
}

#[test]
fn a_level_of_forward_mode_takes_its_tangents_along() -> Result<()> {
    let x = Tensor::from_slice(&[3.0])?;
    autograd::enter_dual_level()?;
    assert!(autograd::enter_dual_level().is_err());
    let dual = autograd::make_dual(&x, &Tensor::from_slice(&[1.0])?)?;
    let y = dual.mul(&dual)?;
    assert_eq!(y.tangent().unwrap().to_vec::<f64>()?, [6.0]);
    autograd::exit_dual_level()?;
    assert!(y.tangent().is_none() && dual.mul(&dual)?.tangent().is_none());
    Ok(())
}

#[test]
fn hooks_can_ask_what_the_run_executes() -> Result<()> {
    let x = leaf(&[1.0]);
    let (y, other) = (x.exp()?, x.sin()?);
    let (inside, outside) = (y.grad_fn().unwrap(), other.grad_fn().unwrap());
    let z = y.mul(2.0)?;
    let answers = Arc::new(Mutex::new(Vec::new()));
    let mine = answers.clone();
    z.register_hook(move |_| {
        let mut answers = mine.lock().unwrap();
        answers.extend([autograd::will_execute(&inside), autograd::will_execute(&outside)]);
        answers.push(autograd::current_run().map(|_| true));
        Ok(None)
    })?;
    z.sum()?.backward()?;
    assert_eq!(*answers.lock().unwrap(), [Some(true), Some(false), Some(true)]);
    assert!(autograd::current_run().is_none());
    Ok(())
}

#[test]
fn leaves_share_no_gradient_with_one_another_or_the_caller() -> Result<()> {
    let (x, y, z) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]), leaf(&[5.0, 6.0]));
    let rows = |t: &Tensor| t.reshape(&[2, 1]);
    // One gradient goes through views to several leaves, and to one as it is.
    let sum = rows(&x)?.add(&rows(&y)?)?.add(&rows(&z.reshape(&[1, 2])?)?)?;
    let up = Tensor::ones(&[2, 1], DType::F64)?;
    for own in [true, false] {
        for t in [&x, &y, &z] {
            t.set_grad(None)?;
        }
        match own {
            true => sum.mul(&up)?.sum()?.backward_with(&Tensor::ones(&[], DType::F64)?, true, false)?,
            false => sum.backward_with(&up, true, false)?,
        }
        let seen = [x.grad().unwrap(), y.grad().unwrap(), z.grad().unwrap(), up.clone()];
        for (i, g) in seen[..3].iter().enumerate() {
            assert!(!g.is_view());
            g.mul_(3.0 + i as f64)?;
        }
        assert_eq!((grad(&x), grad(&y), grad(&z)), (vec![3.0; 2], vec![4.0; 2], vec![5.0; 2]));
        assert_eq!(up.to_vec::<f64>()?, [1.0; 2]);
    }
    Ok(())
}
