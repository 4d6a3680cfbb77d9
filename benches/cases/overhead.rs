//! Operators on a few elements: what a call, a view, a node of the graph and a tiny training step cost.

use crate::inputs::{integers, leaf, mask, normal, normals};
use crate::{Group, ok};
use flambeau::DType::{F32, F64, I64};
use flambeau::{MemoryFormat, Result, Tensor, autograd, index};
use flambeau_nn::{Adam, Forward, Linear, Module, Optimizer, ReLU, SGD, Sequential, Tanh, loss};

/// `count` tensors of the same sizes.
fn same<const N: usize>(sizes: &[i64]) -> [Tensor; N] {
    std::array::from_fn(|_| normal(sizes))
}

/// `overhead`: as Python's users call them.
pub fn overhead(g: &mut Group<'_>) {
    elements(g);
    views(g);
    making(g);
    rows(g);
    modules(g);
    g.step("backward_chain_10", || leaf(&[1]), |x| chain(x, 10));
    backward_mixed(g, "backward_mixed_4x4");
    optimizers(g);
    train_step(g, "train_step_tiny_mlp");
}

fn elements(g: &mut Group<'_>) {
    for n in [1, 100] {
        g.case(format!("add_{n}"), || same(&[n]), |[x, y]| x.add(y));
    }
    g.case("add_scalar_1", || normal(&[1]), |x| x.add(1.0));
    g.case("radd_scalar_1", || normal(&[1]), |x| x.mul(2i64));
    g.step("add_out_1", || same(&[1]), |[x, y, out]| x.add_out(&*y, out));
    g.case("add_inplace_1", || (normal(&[1]), ok(Tensor::zeros(&[1], F32))), |(x, y)| x.add_(y));
    g.case("add_bcast_10x10", || (normal(&[10, 1]), normal(&[1, 10])), |(x, y)| x.add(y));
    g.case("exp_100", || normal(&[100]), Tensor::exp);
    g.case("gt_1", || same(&[1]), |[x, y]| x.gt(y));
    g.case("bool_1", || normal(&[1]), |x| Ok(x.item()?.to_bool()));
    g.case("item_1", || normal(&[1]), Tensor::item);
    g.case("shape_attr", || normal(&[10, 10]), |x| Ok(x.sizes().as_ptr()));
    g.case("dtype_attr", || normal(&[10, 10]), |x| Ok(x.dtype()));
    g.case("size_0", || normal(&[10, 10]), |x| x.size(0));
    g.case("where_100", || (mask(&[100]), same::<2>(&[100])), |(k, [x, y])| k.where_(x, y));
    g.case("add_1_grad", || [leaf(&[1]), leaf(&[1])], |[x, y]| x.add(y));
    g.case("mul_add_grad", || [leaf(&[1]), leaf(&[1])], |[x, y]| x.mul(y)?.add(x));
    g.case("no_grad_ctx", || (), |()| Ok(autograd::no_grad()));
    g.case("repr_10", || normal(&[10]), |x| Ok(x.to_string()));
}

fn views(g: &mut Group<'_>) {
    let matrix = || normal(&[10, 10]);
    g.case("view", matrix, |x| x.view(&[20, 5]));
    g.case("reshape", matrix, |x| x.reshape(&[-1]));
    g.case("transpose", matrix, |x| x.transpose(0, 1));
    g.case("t", matrix, Tensor::t);
    g.case("permute", || normal(&[5, 4, 5]), |x| x.permute(&[2, 0, 1]));
    g.case("unsqueeze", matrix, |x| x.unsqueeze(0));
    g.case("expand", || normal(&[10, 1]), |x| x.expand(&[10, 10]));
    g.case("slice", matrix, |x| x.at(&index![2..5]));
    g.case("slice_2d", matrix, |x| x.at(&index![1..5, (..; 2)]));
    g.case("index_int", matrix, |x| x.at(&index![3]));
    g.case("index_ellipsis_none", matrix, |x| x.at(&index![dots, new]));
    g.case("index_tensor", || (matrix(), integers(0, 10, &[5])), |(x, i)| x.at(&index![i]));
    g.case("index_mask", || (matrix(), mask(&[10, 10])), |(x, k)| x.at(&index![k]));
    g.case("setitem_int", matrix, |x| x.set_at(&index![3], 1.0));
    g.case("setitem_slice", || (matrix(), normal(&[3, 10])), |(x, y)| x.set_at(&index![2..5], y));
    g.case("detach", || normal(&[100]), Tensor::detach);
}

fn making(g: &mut Group<'_>) {
    g.case("empty_1", || (), |()| Tensor::empty(&[1], ()));
    g.case("empty_100", || (), |()| Tensor::empty(&[10, 10], ()));
    g.case("zeros_100", || (), |()| Tensor::zeros(&[10, 10], ()));
    g.case("empty_like", || normal(&[10]), Tensor::empty_like);
    g.case("arange_10", || (), |()| Tensor::arange(10, I64));
    g.case("tensor_scalar", || (), |()| Tensor::scalar(1.0f32));
    g.case("tensor_list", || (), |()| Tensor::from_slice(&[1.0f32, 2.0, 3.0]));
    g.case("clone_100", || normal(&[100]), |x| x.clone_in(MemoryFormat::Preserve));
    g.case("cast_f64_100", || normal(&[100]), |x| x.to_dtype(F64));
    g.case("cast_noop", || normal(&[100]), |x| x.to_dtype(F32));
}

fn rows(g: &mut Group<'_>) {
    g.case("sum_100", || normal(&[100]), Tensor::sum);
    g.case("mean_dim_10x10", || normal(&[10, 10]), |x| x.mean_dim(&[1], true));
    g.case("max_dim_10x10", || normal(&[10, 10]), |x| x.max_dim(1, false));
    g.case("cat_2", || normals(2, &[10]), |xs| Tensor::cat(xs, 0));
    g.case("stack_2", || normals(2, &[10]), |xs| Tensor::stack(xs, 0));
    g.case("matmul_8", || same(&[8, 8]), |[x, y]| x.matmul(y));
    g.case("einsum_8", || normals(2, &[8, 8]), |xs| Tensor::einsum("ij,jk->ik", xs));
    g.case("softmax_10", || normal(&[10]), |x| x.softmax(-1, None));
    g.case("layer_norm_8", || normal(&[4, 8]), |x| x.layer_norm(&[8], None, None, 1e-5));
    g.case("f_linear_8", linear_inputs, |[x, w, c]| x.linear(w, Some(c)));
    g.case("cross_entropy_4x8", || (normal(&[4, 8]), integers(0, 8, &[4])), |(x, y)| loss::cross_entropy(x, y));
}

fn linear_inputs() -> [Tensor; 3] {
    [normal(&[1, 8]), normal(&[8, 8]), normal(&[8])]
}

fn modules(g: &mut Group<'_>) {
    let linear = || ok(Linear::without_bias(8, 8));
    let many = || (0..20).fold(Sequential::new(), |net, _| net.then(ok(Linear::new(4, 4))));
    g.case("linear_8_module", || (linear(), normal(&[1, 8])), |(net, x)| net.forward(x));
    g.case(
        "linear_8_module_nograd",
        || (linear(), normal(&[1, 8])),
        |(net, x)| {
            let _guard = autograd::no_grad();
            net.forward(x)
        },
    );
    g.case(
        "sequential_4_module",
        || (Sequential::new().then(linear()).then(ReLU).then(linear()).then(ReLU), normal(&[1, 8])),
        |(net, x)| net.forward(x),
    );
    g.case("module_construct_linear", || (), |()| Linear::new(8, 8));
    g.case("parameters_20_layers", many, |net| Ok(net.parameters().len()));
    g.case("state_dict_20_layers", many, |net| Ok(net.state_dict()?.len()));
}

/// `length` nodes in a row, there and back.
pub fn chain(x: &Tensor, length: usize) -> Result<Option<Tensor>> {
    let mut y = x.clone();
    for _ in 0..length {
        y = y.mul(1.01)?;
    }
    y.backward()?;
    let gradient = x.grad();
    x.set_grad(None)?;
    Ok(gradient)
}

fn backward_mixed(g: &mut Group<'_>, name: &str) {
    g.case(
        name,
        || [leaf(&[4, 4]), leaf(&[4, 4])],
        |[x, w]| {
            let y = x.matmul(w)?.relu()?.add(x)?;
            y.mul(w)?.sub(x)?.tanh()?.sum()?.backward()?;
            x.set_grad(None)?;
            w.set_grad(None)
        },
    );
}

fn optimizers(g: &mut Group<'_>) {
    let inputs = || ((0..10).map(|_| leaf(&[4, 4])).collect::<Vec<_>>(), normals(10, &[4, 4]));
    macro_rules! step {
        ($name:literal, $options:expr) => {
            g.step(
                $name,
                || {
                    let (parameters, gradients) = inputs();
                    (ok(Optimizer::new(parameters.clone(), $options)), parameters, gradients)
                },
                |(optimizer, parameters, gradients)| {
                    for (p, gradient) in parameters.iter().zip(gradients) {
                        p.set_grad(Some(gradient.clone()))?;
                    }
                    optimizer.step()?;
                    optimizer.zero_grad()
                },
            )
        };
    }
    step!("sgd_step_10_tiny", SGD { lr: 1e-4, ..SGD::default() });
    step!("adam_step_10_tiny", Adam { lr: 1e-4, ..Adam::default() });
}

fn train_step(g: &mut Group<'_>, name: &str) {
    g.step(
        name,
        || {
            let (first, second) = (ok(Linear::without_bias(4, 8)), ok(Linear::without_bias(8, 1)));
            let net = Sequential::new().then(first).then(Tanh).then(second);
            let optimizer = ok(Optimizer::new(net.parameters(), SGD { lr: 1e-3, ..SGD::default() }));
            (net, optimizer, normal(&[4, 4]), normal(&[4, 1]))
        },
        |(net, optimizer, x, y)| {
            optimizer.zero_grad()?;
            let loss = loss::mse_loss(&net.forward(x)?, y)?;
            loss.backward()?;
            optimizer.step()?;
            Ok(loss)
        },
    );
}

/// `native`: the cases that are measured against the libraries of other compiled languages.
pub fn native(g: &mut Group<'_>) {
    for n in [1, 100] {
        g.case(format!("native_add_{n}"), || same(&[n]), |[x, y]| x.add(y));
    }
    g.case("native_add_1_grad", || [leaf(&[1]), leaf(&[1])], |[x, y]| x.add(y));
    g.case(
        "native_add_1_inference",
        || {
            let guard = autograd::inference_mode();
            (same::<2>(&[1]), guard)
        },
        |([x, y], _)| x.add(y),
    );
    g.case("native_add_inplace_1", || (normal(&[1]), ok(Tensor::zeros(&[1], F32))), |(x, y)| x.add_(y));
    g.case("native_mul_scalar_1", || normal(&[1]), |x| x.mul(1.01));
    g.case("native_clone_handle", || normal(&[1]), |x| Ok(x.clone()));
    g.case("native_view", || normal(&[10, 10]), |x| x.view(&[20, 5]));
    g.case("native_transpose", || normal(&[10, 10]), |x| x.transpose(0, 1));
    g.case("native_slice", || normal(&[10, 10]), |x| x.slice(0, Some(2), Some(5), 1));
    g.case("native_empty_1", || (), |()| Tensor::empty(&[1], F32));
    g.case("native_matmul_8", || same(&[8, 8]), |[x, y]| x.matmul(y));
    g.case("native_linear_8", linear_inputs, |[x, w, c]| x.linear(w, Some(c)));
    g.case("native_softmax_10", || normal(&[10]), |x| x.softmax(-1, None));
    g.case("native_sum_100", || normal(&[100]), Tensor::sum);
    g.case("native_backward_chain_10", || leaf(&[1]), |x| chain(x, 10));
    g.case("native_chain_1000", || leaf(&[1]), |x| chain(x, 1000));
    backward_mixed(g, "native_backward_mixed_4x4");
    train_step(g, "native_train_step_tiny_mlp");
}
