//! Training steps, inference, text generation, and optimisers over large parameters.

use crate::inputs::{channels_last, integers, leaf, normal};
use crate::networks::{Cache, Gpt, GptOptions, Recurrent, filled, lenet, mlp, resnet18, to_channels_last};
use crate::{Group, ok};
use flambeau::DType::{BF16, F32};
use flambeau::{Result, Tensor, autograd};
use flambeau_nn::data::LoaderOptions;
use flambeau_nn::optim::{Algorithm, clip_grad_norm_};
use flambeau_nn::{
    Adam, AdamW, DataLoader, Forward, Module, Optimizer, SGD, TensorDataset, TransformerEncoderLayer,
    TransformerOptions, loss,
};

impl Group<'_> {
    /// Times a training step on fixed examples.
    fn train<M: Module, const N: usize>(
        &mut self,
        name: &str,
        net: impl Fn() -> Result<M>,
        examples: impl Fn() -> [Tensor; N],
        loss: impl Fn(&M, &[Tensor; N]) -> Result<Tensor>,
        algorithm: impl Algorithm,
    ) {
        let prepare = || {
            let net = ok(net().and_then(filled));
            let optimizer = ok(Optimizer::new(net.parameters(), algorithm.clone()));
            (net, optimizer, examples())
        };
        self.step(name, prepare, |(net, optimizer, examples)| {
            optimizer.zero_grad()?;
            let loss = loss(net, examples)?;
            loss.backward()?;
            optimizer.step()?;
            Ok(loss)
        });
    }

    /// Times a network without recording.
    fn infer(&mut self, name: &str, net: impl Fn() -> Result<(Box<dyn Forward>, Tensor)>) {
        self.case(
            name,
            || ok(net()),
            |(net, x)| {
                let _guard = autograd::no_grad();
                net.forward(x)
            },
        );
    }

    /// Times the writing of `count` tokens after `prompt` random ones.
    fn generate(&mut self, name: &str, net: impl Fn() -> Result<Gpt>, vocabulary: i64, prompt: i64, count: usize) {
        self.case(
            name,
            || (ok(net()), integers(0, vocabulary, &[1, prompt])),
            |(net, prompt)| {
                let _guard = autograd::no_grad();
                let mut caches: Vec<Cache> = vec![None; net.layers()];
                let mut tokens = vec![prompt.clone()];
                for i in 0..count {
                    let scores = net.next(&tokens[i], &mut caches)?.select(1, -1)?;
                    tokens.push(scores.argmax(Some(-1), true)?);
                }
                Tensor::cat(&tokens, 1)
            },
        );
    }
}

/// The loss of a classifier.
fn classes<M: Forward>(net: &M, [x, y]: &[Tensor; 2]) -> Result<Tensor> {
    loss::cross_entropy(&net.forward(x)?, y)
}

/// The loss of a language model.
fn tokens(net: &Gpt, [x, y]: &[Tensor; 2]) -> Result<Tensor> {
    loss::cross_entropy(&net.forward(x)?.flatten(0, 1)?, &y.view(&[-1])?)
}

/// Training steps.
pub fn training(g: &mut Group<'_>) {
    let adam = Adam { lr: 1e-3, ..Adam::default() };
    let sgd = SGD { lr: 1e-2, momentum: 0.9, ..SGD::default() };
    let pixels = || [normal(&[128, 784]), integers(0, 10, &[128])];
    g.train("mlp_train", mlp, pixels, classes, adam);
    g.train("mlp_train_sgd", mlp, pixels, classes, sgd);
    g.train("lenet_train", lenet, || [normal(&[64, 1, 28, 28]), integers(0, 10, &[64])], classes, adam);
    g.train("resnet18_train_64_b8", resnet18, || [normal(&[8, 3, 64, 64]), integers(0, 1000, &[8])], classes, adam);
    g.train("lstm_train", Recurrent::new, || [normal(&[16, 64, 128]), integers(0, 64, &[1024])], classes, adam);
    g.case(
        "lstm_plain_ops_fb",
        || [normal(&[32, 16, 64]), leaf(&[64, 256]), leaf(&[64, 256])],
        |[x, w, u]| plain_lstm(x, w, u),
    );
    for (name, fused_attention) in [("gpt_train", true), ("gpt_train_plain_attn", false)] {
        let options = GptOptions { fused_attention, ..GptOptions::SMALL };
        let text = || [integers(0, 65, &[8, 128]), integers(0, 65, &[8, 128])];
        g.train(name, || Gpt::new(options), text, tokens, adam);
    }
    let encoder =
        TransformerOptions { feedforward: 512, dropout: 0.0, batch_first: true, ..TransformerOptions::default() };
    g.train(
        "transformer_layer_train",
        || TransformerEncoderLayer::new(128, 4, encoder),
        || [normal(&[8, 128, 128])],
        |net, [x]| loss::mse_loss(&net.forward(x)?, x),
        adam,
    );
}

/// An LSTM written out in plain operators: what a user's own recurrent cell costs.
fn plain_lstm(x: &Tensor, w: &Tensor, u: &Tensor) -> Result<()> {
    let mut h = Tensor::zeros(&[16, 64], F32)?;
    let mut c = h.clone();
    for step in 0..x.size(0)? {
        let from_state = h.matmul(u)?.mul(0.1)?;
        let gates = x.select(0, step)?.matmul(w)?.mul(0.1)?.add(&from_state)?.chunk(4, 1)?;
        c = gates[1].sigmoid()?.mul(&c)?.add(&gates[0].sigmoid()?.mul(&gates[3].tanh()?)?)?;
        h = gates[2].sigmoid()?.mul(&c.tanh()?)?;
    }
    h.sum()?.backward()?;
    w.set_grad(None)?;
    u.set_grad(None)
}

/// What is not a training step.
pub fn inference_and_optimisers(g: &mut Group<'_>) {
    g.case(
        "lstm_forward",
        || (ok(Recurrent::new().and_then(filled)), normal(&[16, 64, 128])),
        |(net, x)| net.forward(x)?.detach(),
    );
    let small = || Gpt::new(GptOptions::SMALL).and_then(filled);
    g.case("gpt_forward_b8", || (ok(small()), integers(0, 65, &[8, 128])), |(net, x)| net.forward(x)?.detach());
    g.generate("gpt_generate_kv_64tok", small, 65, 16, 64);
    for (name, dtype) in [("gpt2small_decode_4tok", F32), ("gpt2small_decode_4tok_bf16", BF16)] {
        let net = || {
            let mut net = Gpt::new(GptOptions::GPT2).and_then(filled)?;
            net.to(Some(dtype), None)?;
            Ok(net)
        };
        g.generate(name, net, 50257, 8, 4);
    }
    for (name, dense_channels) in [("resnet18_infer_224_b1", false), ("resnet18_infer_224_b1_channels_last", true)] {
        g.infer(name, || {
            let mut net = filled(resnet18()?)?;
            net.eval();
            let images = [1, 3, 224, 224];
            if !dense_channels {
                return Ok((Box::new(net), normal(&images)));
            }
            to_channels_last(&mut net)?;
            Ok((Box::new(net), channels_last(&images)))
        });
    }
    for batch in [1, 128] {
        g.infer(&format!("mlp_infer_b{batch}"), || {
            let net = filled(mlp()?)?;
            net.eval();
            Ok((Box::new(net), normal(&[batch, 784])))
        });
    }
    optimizer(g, "adam_step_5M_params", Adam { lr: 1e-4, ..Adam::default() });
    optimizer(g, "adamw_step_5M_params", AdamW { lr: 1e-4, ..AdamW::default() });
    optimizer(g, "sgd_momentum_step_5M_params", SGD { lr: 1e-4, momentum: 0.9, ..SGD::default() });
    g.case(
        "clip_grad_norm_3M",
        || (0..8).map(|_| with_gradient(&[512, 784])).collect::<Vec<_>>(),
        |parameters| clip_grad_norm_(parameters, 1.0, 2.0)?.item(),
    );
    g.case(
        "dataloader_4096_b64",
        || {
            let data = ok(TensorDataset::new(vec![normal(&[4096, 32]), integers(0, 10, &[4096])]));
            let options = LoaderOptions { batch_size: 64, shuffle: true, ..LoaderOptions::default() };
            ok(DataLoader::new(data, options))
        },
        |loader| loader.iter()?.map(|batch| batch?[0].size(0)).sum::<Result<i64>>(),
    );
}

fn with_gradient(sizes: &[i64]) -> Tensor {
    let parameter = leaf(sizes);
    ok(parameter.set_grad(Some(normal(sizes))));
    parameter
}

/// One step over 32 parameters that have gradients.
fn optimizer(g: &mut Group<'_>, name: &str, algorithm: impl Algorithm) {
    let sizes: [&[i64]; 4] = [&[512, 784], &[512], &[512, 512], &[512]];
    let prepare = || {
        let parameters = (0..8).flat_map(|_| sizes.map(with_gradient)).collect();
        ok(Optimizer::new(parameters, algorithm.clone()))
    };
    g.step(name, prepare, Optimizer::step);
}
