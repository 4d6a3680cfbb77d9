//! The costs that everything else stands on: a call, a view, a recorded call, a node of backward, and the bandwidth or
//! arithmetic of the big kernels. `cargo bench -p flambeau`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flambeau::{DType, Tensor};
use std::hint::black_box;

/// Unwraps what a bench cannot go on without.
fn ok<T>(r: flambeau::Result<T>) -> T {
    r.unwrap_or_else(|e| panic!("{e}"))
}

fn dispatch(c: &mut Criterion) {
    let mut g = c.benchmark_group("dispatch");
    let (a, b) = (ok(Tensor::from_slice(&[1.0f32])), ok(Tensor::from_slice(&[2.0f32])));
    g.bench_function("add, one element", |t| t.iter(|| black_box(ok(a.add(&b)))));
    g.bench_function("add_, one element", |t| t.iter(|| black_box(ok(a.add_(&b)))));
    let w = ok(ok(Tensor::from_slice(&[1.0f32])).requires_grad_(true));
    g.bench_function("add with grad recorded", |t| t.iter(|| black_box(ok(w.add(&b)))));
    let m = ok(Tensor::zeros(&[4, 4], DType::F32));
    g.bench_function("select", |t| t.iter(|| black_box(ok(m.select(0, 1)))));
    g.bench_function("transpose", |t| t.iter(|| black_box(ok(m.transpose(0, 1)))));
    g.bench_function("chain of 1000, forward and backward", |t| {
        t.iter(|| {
            let mut y = w.clone();
            for _ in 0..1000 {
                y = ok(y.mul(1.0));
            }
            ok(ok(y.sum()).backward());
        })
    });
    g.finish();
}

fn bandwidth(c: &mut Criterion) {
    const N: i64 = 10_000_000;
    let mut g = c.benchmark_group("10M f32");
    g.sample_size(20);
    let (a, b) = (ok(Tensor::ones(&[N], DType::F32)), ok(Tensor::ones(&[N], DType::F32)));
    g.throughput(Throughput::Bytes(8 * N as u64));
    g.bench_function("copy_", |t| t.iter(|| ok(a.copy_(&b))));
    g.bench_function("exp_", |t| t.iter(|| ok(a.exp())));
    g.bench_function("relu_", |t| t.iter(|| ok(a.relu_())));
    g.throughput(Throughput::Bytes(12 * N as u64));
    g.bench_function("add", |t| t.iter(|| ok(a.add(&b))));
    g.throughput(Throughput::Bytes(4 * N as u64));
    g.bench_function("sum", |t| t.iter(|| ok(a.sum())));
    g.bench_function("max", |t| t.iter(|| ok(a.max())));
    let x = ok(Tensor::ones(&[4096, 1000], DType::F32));
    g.throughput(Throughput::Bytes(8 * 4096 * 1000));
    g.bench_function("softmax 4096x1000", |t| t.iter(|| ok(x.softmax(-1, None))));
    let x = ok(Tensor::ones(&[4096, 768], DType::F32));
    g.throughput(Throughput::Bytes(8 * 4096 * 768));
    g.bench_function("layer_norm 4096x768", |t| t.iter(|| ok(x.layer_norm(&[768], None, None, 1e-5))));
    g.finish();
}

fn arithmetic(c: &mut Criterion) {
    let mut g = c.benchmark_group("arithmetic");
    g.sample_size(20);
    for n in [64i64, 256, 1024] {
        let a = ok(Tensor::ones(&[n, n], DType::F32));
        g.throughput(Throughput::Elements(2 * (n * n * n) as u64));
        g.bench_function(format!("mm {n}"), |t| t.iter(|| ok(a.mm(&a))));
    }
    for (n, ci, co, s, k, stride, pad) in [
        (8, 64, 64, 56, 3, 1, 1),
        (8, 3, 64, 224, 7, 2, 3),
        (8, 64, 256, 56, 1, 1, 0),
        (8, 256, 256, 14, 3, 1, 1),
        (32, 1, 32, 28, 3, 1, 1),
    ] {
        let x = ok(Tensor::ones(&[n, ci, s, s], DType::F32));
        let w = ok(Tensor::ones(&[co, ci, k, k], DType::F32));
        let out = (s + 2 * pad - k) / stride + 1;
        g.throughput(Throughput::Elements((2 * n * co * out * out * ci * k * k) as u64));
        g.bench_function(format!("conv2d {n}x{ci}x{s}x{s} -> {co}, {k}x{k}/{stride}"), |t| {
            t.iter(|| ok(x.conv2d(&w, None, &[stride, stride], &[pad, pad], &[1, 1], 1)))
        });
    }
    g.finish();
}

criterion_group!(benches, dispatch, bandwidth, arithmetic);
criterion_main!(benches);
