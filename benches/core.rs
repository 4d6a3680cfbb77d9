//! The costs that everything else stands on: a call, a view, a recorded call, a node of backward, and the bandwidth or
//! arithmetic of the big kernels. `cargo bench -p flambeau`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flambeau::{DType, Tensor};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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

/// Bytes that have to be read and written, against those of `copy_` in the same run. 40 MB an array is more than a
/// last-level cache of 32 MiB keeps of three of them, but not of one: a sum that follows itself is partly served from
/// cache, so compare runs, not machines. The row kernels' 16 MB fit, and so does a copy of them: that is their yardstick.
fn bandwidth(c: &mut Criterion) {
    const N: i64 = 10_000_000;
    let mut g = c.benchmark_group("10M f32");
    g.sample_size(20);
    let random = |sizes: &[i64]| ok(ok(Tensor::rand(sizes, DType::F32)).sub(0.5));
    let (a, b) = (random(&[N]), random(&[N]));
    let (matrix, mask) = (ok(a.view(&[2500, 4000])), ok(a.gt(0.0)));
    let bytes = |n: u64| Throughput::Bytes(n * N as u64);
    g.throughput(bytes(8));
    g.bench_function("copy_", |t| t.iter(|| ok(a.copy_(&b))));
    g.bench_function("exp", |t| t.iter(|| ok(a.exp())));
    g.bench_function("relu_", |t| t.iter(|| ok(a.relu_())));
    g.throughput(bytes(12));
    g.bench_function("add", |t| t.iter(|| ok(a.add(&b))));
    g.bench_function("add_", |t| t.iter(|| ok(a.add_(&b))));
    g.throughput(bytes(9));
    g.bench_function("gt", |t| t.iter(|| ok(a.gt(&b))));
    g.throughput(bytes(13));
    g.bench_function("where", |t| t.iter(|| ok(mask.where_(&a, &b))));
    g.throughput(bytes(4));
    g.bench_function("sum", |t| t.iter(|| ok(a.sum())));
    g.bench_function("max", |t| t.iter(|| ok(a.max())));
    g.bench_function("argmax", |t| t.iter(|| ok(a.argmax(None, false))));
    g.bench_function("var", |t| t.iter(|| ok(a.var(&[], 1.0, false))));
    for dim in [0, 1] {
        g.bench_function(format!("sum over dim {dim}"), |t| t.iter(|| ok(matrix.sum_dim(&[dim], false))));
        g.bench_function(format!("amax over dim {dim}"), |t| t.iter(|| ok(matrix.amax(&[dim], false))));
        g.bench_function(format!("argmax over dim {dim}"), |t| t.iter(|| ok(matrix.argmax(Some(dim), false))));
        g.bench_function(format!("var over dim {dim}"), |t| t.iter(|| ok(matrix.var(&[dim], 1.0, false))));
    }
    g.finish();

    let mut g = c.benchmark_group("rows");
    g.sample_size(20);
    let x = random(&[4096, 1000]);
    g.throughput(Throughput::Bytes(8 * 4096 * 1000));
    let y = random(&[4096, 1000]);
    g.bench_function("copy_ 4096x1000", |t| t.iter(|| ok(y.copy_(&x))));
    for dim in [0, 1] {
        g.bench_function(format!("softmax 4096x1000, dim {dim}"), |t| t.iter(|| ok(x.softmax(dim, None))));
        g.bench_function(format!("log_softmax 4096x1000, dim {dim}"), |t| t.iter(|| ok(x.log_softmax(dim, None))));
    }
    let x = random(&[4096, 768]);
    g.throughput(Throughput::Bytes(8 * 4096 * 768));
    g.bench_function("layer_norm 4096x768", |t| t.iter(|| ok(x.layer_norm(&[768], None, None, 1e-5))));
    let x = random(&[16, 64, 56, 56]);
    g.throughput(Throughput::Bytes(8 * 16 * 64 * 56 * 56));
    g.bench_function("group_norm 16x64x56x56", |t| t.iter(|| ok(x.group_norm(32, None, None, 1e-5))));
    g.bench_function("batch_norm 16x64x56x56", |t| {
        t.iter(|| ok(x.batch_norm(None, None, None, None, true, 0.1, 1e-5)))
    });
    g.finish();

    let mut g = c.benchmark_group("windows and indices");
    g.sample_size(20);
    let x = random(&[8, 64, 112, 112]);
    g.bench_function("max_pool2d 3x3/2", |t| t.iter(|| ok(x.max_pool2d(&[3, 3], &[2, 2], &[1, 1], &[1, 1], false))));
    for (rows, width, count) in [(30_000, 768, 4096), (30_000, 64, 8192), (50_000, 8, 65_536)] {
        let table = random(&[rows, width]);
        let at = ok(ok(ok(Tensor::rand(&[count], DType::F32)).mul(rows)).to_dtype(DType::I64));
        g.bench_function(format!("embedding {rows}x{width}"), |t| t.iter(|| ok(table.embedding(&at))));
        let source = random(&[count, width]);
        g.bench_function(format!("index_add_ {rows}x{width}"), |t| t.iter(|| ok(table.index_add_(0, &at, &source))));
    }
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
        (1, 128, 128, 28, 3, 1, 1),
        (8, 128, 128, 28, 3, 1, 1),
        (8, 256, 256, 14, 3, 1, 1),
        (8, 512, 512, 7, 3, 1, 1),
        (8, 32, 64, 28, 5, 1, 2),
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

/// What threads cost: to hand out work and wait for it, and to share the cores with others. Beside busy neighbours an
/// operator must not wait for a worker that is not running: the caller does the work itself.
fn threads(c: &mut Criterion) {
    let mut g = c.benchmark_group("threads");
    for pieces in [2, 8] {
        g.bench_function(format!("fork and join of {pieces} empty pieces"), |t| {
            t.iter(|| flambeau::parallel::parallel_for(pieces, 1, &|range| _ = black_box(range)))
        });
    }
    let (a, b) = (ok(Tensor::rand(&[100_000], DType::F32)), ok(Tensor::rand(&[100_000], DType::F32)));
    g.bench_function("add of 100k", |t| t.iter(|| black_box(ok(a.add(&b)))));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        g.bench_function("add of 100k beside two busy loops", |t| t.iter(|| black_box(ok(a.add(&b)))));
        done.store(true, Relaxed);
    });
    g.finish();
}

criterion_group!(benches, dispatch, bandwidth, arithmetic, threads);
criterion_main!(benches);
