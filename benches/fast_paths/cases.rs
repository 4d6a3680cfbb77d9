//! The typical case of every fast path: what the bench times and `crates/tensor/tests/fast_paths.rs` compares.

use flambeau::DType::{self, BF16, F16, F32, F64, I64, U8};
use flambeau::fast_paths::FastPath;
use flambeau::{Error, MemoryFormat, Outputs, OwnedValue, Result, Tensor, Value, allocator, registry};

/// What is timed and compared; its inputs are its own.
pub type Step = Box<dyn FnMut() -> Result<Vec<Tensor>>>;

/// A case.
pub struct Case {
    /// What it computes.
    pub what: &'static str,
    /// How far the two ways' results may be apart, as a part of the largest one.
    pub apart: f64,
    /// Makes the inputs.
    pub step: fn() -> Step,
}

/// Both ways give the same bits.
const SAME: f64 = 0.0;
/// Sums of `float32` and `float64` in another order.
const SINGLE: f64 = 1e-5;
const DOUBLE: f64 = 1e-11;
/// `bfloat16` rounded from sums in another order.
const HALF: f64 = 1.0 / 128.0;

/// Unwraps what a case cannot go on without.
fn ok<T>(r: Result<T>) -> T {
    r.unwrap_or_else(|e| panic!("{e}"))
}

/// `f` on inputs that are made once.
fn step<I: 'static, R: Into<Outputs>>(inputs: I, f: impl Fn(&I) -> Result<R> + 'static) -> Step {
    Box::new(move || f(&inputs)?.into().list())
}

/// An operator without a method. What it gives is its results, or its first list, if it writes to that.
fn call(name: &'static str, args: Vec<OwnedValue>) -> Step {
    step(args, move |args| {
        let op = registry::find(name).ok_or_else(|| Error::not_implemented(name))?;
        let results = op.call(&args.iter().map(OwnedValue::borrow).collect::<Vec<Value<'_>>>())?;
        Ok(match (&args[0], results.is_empty()) {
            (OwnedValue::Tensors(written), true) => Outputs::from(written.clone()),
            _ => results,
        })
    })
}

fn normal(sizes: &[i64]) -> Tensor {
    ok(Tensor::randn(sizes, F32))
}

fn normal_of(sizes: &[i64], dtype: DType) -> Tensor {
    ok(normal(sizes).to_dtype(dtype))
}

fn uniform(sizes: &[i64]) -> Tensor {
    ok(Tensor::rand(sizes, F32))
}

fn integers(below: i64, sizes: &[i64], dtype: DType) -> Tensor {
    ok(Tensor::randint(0, below, sizes, I64).and_then(|x| x.to_dtype(dtype)))
}

/// A million.
const MILLION: i64 = 1 << 20;

/// A convolution of square images, `[batch, channels, size]`, with kernels `[channels, size, stride, padding, groups]`.
fn conv([batch, from, size]: [i64; 3], kernel: [i64; 5], dtype: DType, format: MemoryFormat) -> Step {
    let [to, side, stride, padding, groups] = kernel;
    let images = normal_of(&[batch, from, size, size], dtype);
    let weight = normal_of(&[to, from / groups, side, side], dtype);
    let inputs = [images, weight].map(|t| ok(t.contiguous_in(format)));
    step(inputs, move |[x, w]| x.conv2d(w, None, &[stride; 2], &[padding; 2], &[1; 2], groups))
}

/// The case of a path.
pub fn case(path: FastPath) -> Case {
    use MemoryFormat::{ChannelsLast, Contiguous};
    let of = |what, apart, step| Case { what, apart, step };
    match path {
        FastPath::GemmInPlace => of("512 of 16 x 16 by 16 x 16", SINGLE, || {
            step([normal(&[512, 16, 16]), normal(&[512, 16, 16])], |[a, b]| a.bmm(b))
        }),
        FastPath::GemmUnpacked => {
            of("2048 x 512 by 512 x 64", SINGLE, || step([normal(&[2048, 512]), normal(&[512, 64])], |[a, b]| a.mm(b)))
        }
        FastPath::GemmRows => {
            of("1024 x 1024 by a vector", SINGLE, || step((normal(&[1024, 1024]), normal(&[1024])), |(a, v)| a.mv(v)))
        }
        FastPath::GemmTall => of("256 of 8 x 256 by one 256 x 256", SINGLE, || {
            let one = normal(&[256, 256]);
            step([normal(&[256, 8, 256]), ok(one.expand(&[256, 256, 256]))], |[a, b]| a.bmm(b))
        }),
        FastPath::GemmGroups => of("bfloat16, 512 x 512 by 512 x 512", HALF, || {
            step([normal_of(&[512, 512], BF16), normal_of(&[512, 512], BF16)], |[a, b]| a.mm(b))
        }),

        FastPath::ConvWinograd => of("1 image of 64 x 56 x 56 by 64 of 3 x 3", SINGLE, || {
            conv([1, 64, 56], [64, 3, 1, 1, 1], F32, Contiguous)
        }),
        FastPath::ConvDepthwise => of("2 images of 128 x 56 x 56, 3 x 3 each", SINGLE, || {
            conv([2, 128, 56], [128, 3, 1, 1, 128], F32, Contiguous)
        }),
        FastPath::ConvPixels => of("4 images of 256 x 14 x 14 by 512 of 3 x 3, stride 2", SINGLE, || {
            conv([4, 256, 14], [512, 3, 2, 1, 1], F32, Contiguous)
        }),
        FastPath::ConvProducts => of("1 image of 512 x 7 x 7 by 2048 of 1 x 1", SINGLE, || {
            conv([1, 512, 7], [2048, 1, 1, 0, 1], F32, Contiguous)
        }),
        FastPath::ConvInPlace => of("1 image of 256 x 56 x 56 by 64 of 1 x 1, channels last", SINGLE, || {
            conv([1, 256, 56], [64, 1, 1, 0, 1], F32, ChannelsLast)
        }),
        FastPath::ConvUnpacked => {
            of("4 images of 32 x 64 x 64 by 3 of 3 x 3", SINGLE, || conv([4, 32, 64], [3, 3, 1, 1, 1], F32, Contiguous))
        }
        FastPath::ConvPairs => of("bfloat16, 1 image of 128 x 56 x 56 by 128 of 3 x 3, stride 2", HALF, || {
            conv([1, 128, 56], [128, 3, 2, 1, 1], BF16, Contiguous)
        }),
        FastPath::ConvWeightLast => of("1 image of 512 x 7 x 7 by 512 of 3 x 3, channels last", SINGLE, || {
            conv([1, 512, 7], [512, 3, 1, 1, 1], F32, ChannelsLast)
        }),

        FastPath::PointwiseSmall => {
            of("add of 4 elements", SAME, || step([normal(&[4]), normal(&[4])], |[a, b]| a.add(b)))
        }
        FastPath::PointwiseFewRows => of("column of 10 and row of 10, add", SAME, || {
            step([normal(&[10, 1]), normal(&[1, 10])], |[a, b]| a.add(b))
        }),
        FastPath::PointwisePairs => of("bfloat16, add of 1M", SAME, || {
            step([normal_of(&[MILLION], BF16), normal_of(&[MILLION], BF16)], |[a, b]| a.add(b))
        }),
        FastPath::PointwiseFloat16 => of("float16, add of 1M", SAME, || {
            step([normal_of(&[MILLION], F16), normal_of(&[MILLION], F16)], |[a, b]| a.add(b))
        }),
        FastPath::PointwiseSign => of("bfloat16, neg of 1M", SAME, || step(normal_of(&[MILLION], BF16), Tensor::neg)),
        FastPath::PointwiseExpand => of("32768 rows of 20, less a number each", SAME, || {
            step([normal(&[32768, 20]), normal(&[32768, 1])], |[a, b]| a.sub(b))
        }),
        FastPath::PointwiseBroadcast => of("1024 rows of 768 times a bool each", SAME, || {
            step([normal(&[1024, 768]), ok(normal(&[1024, 1]).gt(0.0))], |[a, b]| a.mul(b))
        }),
        FastPath::PointwiseTurned => {
            of("1024 x 1024 and its transpose, add", SAME, || step(normal(&[1024, 1024]), |a| a.add(&a.t()?)))
        }
        FastPath::PointwiseStrided => of("exp of every second of 2M", SAME, || {
            step(ok(normal(&[2 * MILLION]).slice(0, None, None, 2)), Tensor::exp)
        }),

        FastPath::CopyStream => {
            of("add of 10M", SAME, || step([normal(&[10 * MILLION]), normal(&[10 * MILLION])], |[a, b]| a.add(b)))
        }
        FastPath::CopyWide => of("512 x 512 rows of 4, dims exchanged", SAME, || {
            step(ok(normal(&[512, 512, 4]).transpose(0, 1)), Tensor::contiguous)
        }),
        FastPath::CopyBlocks => {
            of("2048 x 2048, transposed", SAME, || step(ok(normal(&[2048, 2048]).t()), Tensor::contiguous))
        }
        FastPath::CopyRows => {
            of("16384 rows of 37 of 64", SAME, || step(ok(normal(&[16384, 64]).narrow(1, 3, 37)), Tensor::contiguous))
        }
        FastPath::CopyJoin => of("2 of 16 x 16 along dim 1", SAME, || {
            step([normal(&[16, 16]), normal(&[16, 16])], |both| Tensor::cat(both, 1))
        }),
        FastPath::CopyInterleave => of("2 of 1M, stacked innermost", SAME, || {
            step([normal(&[MILLION]), normal(&[MILLION])], |all| Tensor::stack(all, -1))
        }),

        FastPath::ReduceFewRows => {
            of("sum of 8 rows of 100000", SINGLE, || step(normal(&[8, 100_000]), |x| x.sum_dim(&[0], false)))
        }
        FastPath::ReduceShort => {
            of("sums of 32768 rows of 32", SINGLE, || step(normal(&[32768, 32]), |x| x.sum_dim(&[1], false)))
        }
        FastPath::ReduceStreams => of("sum of 10M", SAME, || step(normal(&[10 * MILLION]), Tensor::sum)),
        FastPath::ReduceNarrow => of("uint8, largest of 1M", SAME, || step(integers(255, &[MILLION], U8), Tensor::max)),
        FastPath::ReducePairs => of("bfloat16, sum of 1M", HALF, || step(normal_of(&[MILLION], BF16), Tensor::sum)),

        FastPath::NormOverlapped => of("layer norm of 1024 rows of 300", SINGLE, || {
            step(normal(&[1024, 300]), |x| x.layer_norm(&[300], None, None, 1e-5))
        }),
        FastPath::SoftmaxShort => of("32768 rows of 16", SINGLE, || step(normal(&[32768, 16]), |x| x.softmax(1, None))),
        FastPath::SoftmaxOverlapped => {
            of("1024 rows of 512", SINGLE, || step(normal(&[1024, 512]), |x| x.softmax(1, None)))
        }
        FastPath::SoftmaxColumns => {
            of("1024 columns of 1024", SINGLE, || step(normal(&[1024, 1024]), |x| x.softmax(0, None)))
        }
        FastPath::SoftmaxTall => {
            of("1000 columns of 4096", SINGLE, || step(normal(&[4096, 1000]), |x| x.softmax(0, None)))
        }
        FastPath::ScanLines => of("sums along 16384 lines of 32", SAME, || step(normal(&[16384, 32]), |x| x.cumsum(1))),
        FastPath::ScanSideBySide => {
            of("sums along 1024 columns of 1024", SAME, || step(normal(&[1024, 1024]), |x| x.cumsum(0)))
        }

        FastPath::SortNetwork => of("8192 lines of 32", SAME, || step(normal(&[8192, 32]), |x| x.sort(1, false))),
        FastPath::SortSplit => of("256 lines of 4096 integers below 1M", SAME, || {
            step(integers(MILLION, &[256, 4096], I64), |x| x.sort(1, false))
        }),
        FastPath::SortCounting => {
            of("1M integers below 10000", SAME, || step(integers(10_000, &[MILLION], I64), |x| x.unique(false, false)))
        }
        FastPath::SearchInOrder => of("1M among 8 boundaries", SAME, || {
            step((uniform(&[MILLION]), ok(uniform(&[8]).sort(0, false)).0), |(x, sorted)| x.bucketize(sorted, false))
        }),

        FastPath::IndexRows => of("16384 rows of 32 of 30000", SAME, || {
            step((normal(&[30_000, 32]), integers(30_000, &[16384], I64)), |(x, i)| x.index_select(0, i))
        }),
        FastPath::IndexThreads => of("10000 rows of 64, 20000 added", SAME, || {
            let args = (normal(&[10_000, 64]), integers(10_000, &[20_000], I64), normal(&[20_000, 64]));
            step(args, |(x, i, y)| x.index_add(0, i, y))
        }),
        FastPath::FftHalved => of("1024 real rows of 256", SINGLE, || {
            step(normal(&[1024, 256]), |x| x.fft_rfft(None, -1, None)?.view_as_real())
        }),
        FastPath::SamplePixels => of("2 images of 32 x 64 x 64 at 64 x 64 places", SINGLE, || {
            let places = ok(uniform(&[2, 64, 64, 2]).mul(2.0).and_then(|x| x.sub(1.0)));
            let mut args = [normal(&[2, 32, 64, 64]), places].map(OwnedValue::Tensor).to_vec();
            args.extend([OwnedValue::Int(0), OwnedValue::Int(0), OwnedValue::Bool(false)]);
            call("grid_sampler_2d", args)
        }),

        FastPath::AttentionFlash => of("8 heads of 512 x 64", SINGLE, || {
            let heads = || normal(&[1, 8, 512, 64]);
            step([heads(), heads(), heads()], |[q, k, v]| {
                q.scaled_dot_product_attention(k, v, None, 0.0, false, None, false)
            })
        }),
        FastPath::OptimizerWhole => of("Adam, 1M parameters", SAME, || adam(1, MILLION)),
        FastPath::RecurrentLayer => of("LSTM, 8 of 32 times, 64 wide", SINGLE, || {
            let scaled = |sizes: &[i64]| ok(normal(sizes).mul(0.125));
            let states = OwnedValue::Tensors(vec![normal(&[1, 8, 64]), normal(&[1, 8, 64])]);
            let weights = vec![scaled(&[256, 64]), scaled(&[256, 64]), scaled(&[256]), scaled(&[256])];
            let mut args = vec![OwnedValue::Tensor(normal(&[32, 8, 64])), states, OwnedValue::Tensors(weights)];
            args.extend([OwnedValue::Bool(true), OwnedValue::Int(1), OwnedValue::Float(0.0)]);
            args.extend([false; 3].map(OwnedValue::Bool));
            call("lstm.input", args)
        }),

        FastPath::LinalgSmall => of("LU of 1000 of 12 x 12", DOUBLE, || step(matrices(12), |x| x.lu_factor(true))),
        FastPath::LinalgPlain => of("LU of 1000 of 6 x 6", DOUBLE, || step(matrices(6), |x| x.lu_factor(true))),
        FastPath::LinalgSvd => {
            of("singular values of 128 x 128", SINGLE, || step(normal(&[128, 128]), Tensor::svdvals))
        }

        FastPath::MemoryCache => of("exp of 1M, 64 times", SAME, || {
            // (A block that was kept before serves the first.)
            step(normal(&[MILLION]), |x| (1..64).try_for_each(|_| x.exp().map(drop)).and_then(|()| x.exp()))
        }),
        FastPath::MemoryHugePages => of("16M new ones, written for the first time", SAME, || {
            step((), |()| {
                allocator::empty_cache();
                Tensor::full(&[16 * MILLION], 1.0, F32)
            })
        }),
        FastPath::MemoryStagger => of("Adam, 1.3M parameters", SAME, || adam(1, 1_300_000)),
    }
}

/// A batch of square matrices, of `float64`.
fn matrices(n: i64) -> Tensor {
    normal_of(&[1000, n, n], F64)
}

/// A step of Adam on `count` tensors.
fn adam(count: i64, numel: i64) -> Step {
    let list = |f: fn(&[i64]) -> Tensor| OwnedValue::Tensors((0..count).map(|_| f(&[numel])).collect());
    let steps = OwnedValue::Tensors((0..count).map(|_| ok(Tensor::scalar(3f32))).collect());
    let mut args = vec![list(normal), list(normal), list(normal), list(uniform), OwnedValue::Tensors(vec![]), steps];
    args.extend([1e-3, 0.9, 0.999, 0.0, 1e-8].map(OwnedValue::Float));
    args.extend([OwnedValue::Bool(false), OwnedValue::Bool(false), OwnedValue::None, OwnedValue::None]);
    call("_fused_adam_", args)
}
