//! Forward and backward: of single operators, and of graphs that are long, wide or differentiated twice.

use crate::inputs::{integers, leaf, mask, normal};
use crate::overhead::chain;
use crate::{Group, ok};
use flambeau::DType::F32;
use flambeau::{Result, Tensor, autograd, index};
use flambeau_nn::loss;

const MILLION: [i64; 1] = [1024 * 1024];

impl Group<'_> {
    /// Times `f` and the backward pass from a gradient of ones to those inputs that are leaves.
    fn both_ways<const N: usize>(
        &mut self,
        name: &str,
        inputs: impl Fn() -> [Tensor; N],
        f: impl Fn(&[Tensor; N]) -> Result<Tensor>,
    ) {
        let prepare = || {
            let xs = inputs();
            let gradient = ok(f(&xs).and_then(|y| y.detach()?.ones_like()));
            (xs, gradient)
        };
        self.case(name, prepare, |(xs, gradient)| {
            f(xs)?.backward_with(gradient, false, false)?;
            xs.iter().filter(|x| x.requires_grad()).try_for_each(|x| x.set_grad(None))
        });
    }
}

/// All cases.
pub fn cases(g: &mut Group<'_>) {
    pointwise(g);
    rows(g);
    products(g);
    images(g);
    indexing(g);
    graphs(g);
}

fn pointwise(g: &mut Group<'_>) {
    let (one, two) = (|| [leaf(&MILLION)], || [leaf(&MILLION), leaf(&MILLION)]);
    g.both_ways("fb_add_bcast_4096x1024", || [leaf(&[4096, 1024]), leaf(&[1024])], |[x, y]| x.add(y));
    g.both_ways("fb_mul_1M", two, |[x, y]| x.mul(y));
    g.both_ways("fb_exp_1M", one, |[x]| x.exp());
    g.both_ways("fb_tanh_1M", one, |[x]| x.tanh());
    g.both_ways("fb_gelu_1M", one, |[x]| x.gelu("none"));
    g.both_ways("fb_sum_1M", one, |[x]| x.sum());
    g.both_ways("fb_where_1M", || [mask(&MILLION), leaf(&MILLION), leaf(&MILLION)], |[k, x, y]| k.where_(x, y));
}

fn rows(g: &mut Group<'_>) {
    let matrix = || [leaf(&[1024, 1024])];
    g.both_ways("fb_mean_dim_1kx1k", matrix, |[x]| x.mean_dim(&[1], false));
    g.both_ways("fb_max_dim_1kx1k", matrix, |[x]| Ok(x.max_dim(1, false)?.0));
    g.both_ways("fb_cumsum_1kx1k", matrix, |[x]| x.cumsum(1));
    g.both_ways("fb_softmax_4096x1000", || [leaf(&[4096, 1000])], |[x]| x.softmax(-1, None));
    g.both_ways("fb_log_softmax_64x32000", || [leaf(&[64, 32000])], |[x]| x.log_softmax(-1, None));
    g.both_ways(
        "fb_layer_norm_4096x768",
        || [leaf(&[4096, 768]), leaf(&[768]), leaf(&[768])],
        |[x, w, c]| x.layer_norm(&[768], Some(w), Some(c), 1e-5),
    );
    g.both_ways(
        "fb_cross_entropy_4096x1000",
        || [leaf(&[4096, 1000]), integers(0, 1000, &[4096])],
        |[x, y]| loss::cross_entropy(x, y),
    );
}

fn products(g: &mut Group<'_>) {
    g.both_ways("fb_matmul_512", || [leaf(&[512, 512]), leaf(&[512, 512])], |[x, y]| x.matmul(y));
    g.both_ways(
        "fb_linear_1024x768x3072",
        || [leaf(&[1024, 768]), leaf(&[3072, 768]), leaf(&[3072])],
        |[x, w, c]| x.linear(w, Some(c)),
    );
    g.both_ways("fb_bmm_32x128x64x128", || [leaf(&[32, 128, 64]), leaf(&[32, 64, 128])], |[x, y]| x.bmm(y));
    g.both_ways(
        "fb_sdpa_8x4x128x32",
        || [(); 3].map(|()| leaf(&[8, 4, 128, 32])),
        |[q, k, v]| q.scaled_dot_product_attention(k, v, None, 0.0, true, None, false),
    );
    g.both_ways(
        "fb_cholesky_128",
        || [leaf(&[128, 128]), ok(Tensor::eye(128, 128, F32).and_then(|e| e.mul(128.0)))],
        |[x, e]| x.matmul(&x.t()?)?.add(e)?.cholesky(false),
    );
}

fn images(g: &mut Group<'_>) {
    g.both_ways(
        "fb_conv2d_4x64x56",
        || [leaf(&[4, 64, 56, 56]), leaf(&[64, 64, 3, 3]), leaf(&[64])],
        |[x, w, c]| x.conv2d(w, Some(c), &[1; 2], &[1; 2], &[1; 2], 1),
    );
    g.both_ways(
        "fb_conv2d_stem_4x3x224",
        || [leaf(&[4, 3, 224, 224]), leaf(&[64, 3, 7, 7])],
        |[x, w]| x.conv2d(w, None, &[2; 2], &[3; 2], &[1; 2], 1),
    );
    g.both_ways(
        "fb_depthwise_4x128x56",
        || [leaf(&[4, 128, 56, 56]), leaf(&[128, 1, 3, 3])],
        |[x, w]| x.conv2d(w, None, &[1; 2], &[1; 2], &[1; 2], 128),
    );
    g.both_ways(
        "fb_conv1d_16x64x1024",
        || [leaf(&[16, 64, 1024]), leaf(&[64, 64, 5])],
        |[x, w]| x.conv1d(w, None, &[1], &[2], &[1], 1),
    );
    let large = || [leaf(&[8, 64, 112, 112])];
    g.both_ways("fb_max_pool2d_8x64x112", large, |[x]| x.max_pool2d(&[3; 2], &[2; 2], &[1; 2], &[1; 2], false));
    g.both_ways("fb_avg_pool2d_8x64x112", large, |[x]| x.avg_pool2d(&[2; 2], &[2; 2], &[0; 2], false, true, None));
    g.both_ways(
        "fb_batch_norm_8x64x56",
        || [leaf(&[8, 64, 56, 56]), leaf(&[64]), leaf(&[64])],
        |[x, w, c]| x.batch_norm(Some(w), Some(c), None, None, true, 0.1, 1e-5),
    );
}

fn indexing(g: &mut Group<'_>) {
    g.both_ways(
        "fb_embedding_1024x256",
        || [leaf(&[10_000, 256]), integers(0, 10_000, &[8, 128])],
        |[w, i]| w.embedding(i),
    );
    g.both_ways("fb_index_rows", || [leaf(&[10_000, 64]), integers(0, 10_000, &[5_000])], |[x, i]| x.at(&index![i]));
    g.both_ways("fb_gather_1kx1k", || [leaf(&[1024, 1024]), integers(0, 1024, &[1024, 1024])], |[x, i]| x.gather(1, i));
    g.both_ways("fb_cat_8x128k", || [(); 8].map(|()| leaf(&[131_072])), |xs| Tensor::cat(xs, 0));
    g.both_ways("fb_slice_copy", || [leaf(&[1024, 1024])], |[x]| x.at(&index![.., 100..900])?.contiguous());
}

fn graphs(g: &mut Group<'_>) {
    g.case("chain_1000", || leaf(&[1]), |x| chain(x, 1000));
    g.case(
        "wide_500_leaves",
        || ((0..500).map(|_| leaf(&[4])).collect::<Vec<_>>(), normal(&[4])),
        |(xs, w)| {
            let mut y = xs[0].mul(w)?;
            for x in &xs[1..] {
                y = y.add(&x.mul(w)?)?;
            }
            y.sum()?.backward()?;
            xs.iter().try_for_each(|x| x.set_grad(None))
        },
    );
    g.case(
        "fan_out_200_uses",
        || leaf(&[1000]),
        |x| {
            let uses = (0..200).map(|i| x.mul(f64::from(i))).collect::<Result<Vec<_>>>()?;
            Tensor::stack(&uses, 0)?.sum()?.backward()?;
            x.set_grad(None)
        },
    );
    g.case(
        "double_backward_64",
        || [leaf(&[64, 64]), leaf(&[64, 64])],
        |[x, w]| {
            let y = x.matmul(w)?.tanh()?.pow(2i64)?.sum()?;
            let first = autograd::grad(&[y], std::slice::from_ref(x), &[], false, true, false)?;
            let squares = first.iter().flatten().map(|g| g.pow(2i64)?.sum()).collect::<Result<Vec<_>>>()?;
            autograd::grad(&squares, std::slice::from_ref(w), &[], false, false, false)
        },
    );
    g.case(
        "grad_accumulate_4",
        || (normal(&[4, 64, 512]), leaf(&[512, 512])),
        |(x, w)| {
            w.set_grad(None)?;
            (0..4).try_for_each(|i| x.select(0, i)?.matmul(w)?.sum()?.backward())
        },
    );
}
