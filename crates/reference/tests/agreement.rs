//! The CPU and the reference device agree where no operator's sample goes: on odd options, on sizes that the CPU has
//! other kernels for, on numbers that are not finite, and on what they refuse.

use flambeau::samples::{Maker, Sample};
use flambeau::{Complex64, DType, Device, Error, Outputs, OwnedValue, Result, Scalar, Tensor, registry, sample};

/// The arguments on a device; tensors are copied, for some are written.
fn on(device: Device, args: &[OwnedValue]) -> Result<Vec<OwnedValue>> {
    let copy = |t: &Tensor| match device {
        Device::CPU => t.clone_in(flambeau::MemoryFormat::Preserve),
        device => t.to_device(device),
    };
    let moved = |a: &OwnedValue| {
        Ok(match a {
            OwnedValue::Tensor(t) => OwnedValue::Tensor(copy(t)?),
            OwnedValue::Tensors(ts) => OwnedValue::Tensors(ts.iter().map(copy).collect::<Result<_>>()?),
            other => other.clone(),
        })
    };
    args.iter().map(moved).collect()
}

/// What an operator gives, or has written if it gives nothing.
fn call(name: &str, args: &[OwnedValue]) -> Result<Vec<Option<Tensor>>> {
    let op = registry::find(name).ok_or_else(|| Error::runtime(format!("there is no {name}")))?;
    let borrowed: Vec<_> = args.iter().map(OwnedValue::borrow).collect();
    Ok(match op.call(&borrowed)? {
        Outputs::One(t) => vec![Some(t)],
        Outputs::Many(all) => all,
        _ => {
            let tensors = args.iter().flat_map(|a| match a {
                OwnedValue::Tensor(t) => vec![Some(t.clone())],
                OwnedValue::Tensors(ts) => ts.iter().cloned().map(Some).collect(),
                _ => vec![],
            });
            tensors.collect()
        }
    })
}

/// Where two results differ: elements by more than some rounding of the largest.
fn difference(got: &Tensor, want: &Tensor) -> Result<Option<String>> {
    let (a, b) = (got.to_device(Device::CPU)?, want);
    if a.sizes() != b.sizes() || a.dtype() != b.dtype() || a.strides() != b.strides() {
        let of = |t: &Tensor| format!("{} {:?} {:?}", t.dtype(), t.sizes(), t.strides());
        return Ok(Some(format!("{} where the CPU has {}", of(&a), of(b))));
    }
    let (a, b) = (a.to_vec::<Complex64>()?, b.to_vec::<Complex64>()?);
    let parts = |z: &Complex64| [z.re, z.im];
    let largest = b.iter().flat_map(parts).filter(|x| x.is_finite()).fold(1e-300, |m: f64, x| m.max(x.abs()));
    let close = |(x, y): (f64, f64)| x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= 2e-13 * largest;
    let same = |(a, b): (&Complex64, &Complex64)| parts(a).into_iter().zip(parts(b)).all(close);
    Ok(a.iter()
        .zip(&b)
        .position(|pair| !same(pair))
        .map(|i| format!("element {i} is {} where the CPU has {}", a[i], b[i])))
}

/// What is compared of the results: all of them, or the values of a decomposition.
type View = fn(Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>>;

/// Walks calls of an operator; errors have to be the same as well.
fn check(name: &str, samples: Vec<Sample>, view: View) -> Result<Vec<String>> {
    let device = flambeau_reference::device()?;
    let (mut found, mut computed, count) = (vec![], 0, samples.len());
    for (k, s) in samples.into_iter().enumerate() {
        let here = on(Device::CPU, &s.args).and_then(|args| call(name, &args)).and_then(view);
        let there = on(device, &s.args).and_then(|args| call(name, &args)).and_then(view);
        match (here, there) {
            (Err(a), Err(b)) if a.message() == b.message() => {}
            (Err(a), Err(b)) => {
                found.push(format!("{name} {k}: raises {:?} where the CPU does {:?}", b.message(), a.message()))
            }
            (Ok(_), Err(e)) => found.push(format!("{name} {k}: raises {:?}", e.message())),
            (Err(e), Ok(_)) => found.push(format!("{name} {k}: does not raise {:?}", e.message())),
            (Ok(want), Ok(got)) => {
                computed += 1;
                for (i, pair) in got.iter().zip(&want).enumerate() {
                    let what = match pair {
                        (Some(got), Some(want)) => difference(got, want)?,
                        (None, None) => None,
                        _ => Some("is there or absent where the other is not".into()),
                    };
                    found.extend(what.map(|what| format!("{name} {k}, result {i}: {what}")));
                }
            }
        }
    }
    // A single call may be of what is refused.
    if computed == 0 && count > 1 {
        found.push(format!("{name}: nothing was computed"));
    }
    Ok(found)
}

fn all(results: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> {
    Ok(results)
}

/// Of eigenvalues, which have no order, sums of powers, away from zero.
fn power_sums(results: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> {
    let values = results.into_iter().next().flatten().ok_or_else(|| Error::runtime("no eigenvalues"))?;
    let values = values.add(10)?;
    let square = values.mul(&values)?;
    [values.sum()?, square.sum()?, square.mul(&values)?.sum()?]
        .into_iter()
        .map(|t| t.to_device(Device::CPU).map(Some))
        .collect()
}

/// The singular values.
fn second(results: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> {
    Ok(results.into_iter().skip(1).take(1).collect())
}

/// The eigenvalues.
fn first(results: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> {
    Ok(results.into_iter().take(1).collect())
}

fn assert_agree(found: Vec<Vec<String>>) {
    let found = found.concat();
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

fn floats(values: &[f64], sizes: &[i64]) -> Result<Tensor> {
    Tensor::from_slice_of(values, sizes)
}

fn ints(values: &[i64]) -> Result<Tensor> {
    Tensor::from_slice(values)
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

#[test]
fn written_by_index() -> Result<()> {
    let m = &mut Maker::new(DType::F64);
    let mut reductions = vec![];
    for how in ["sum", "prod", "mean", "amax", "amin", "other"] {
        for own in [true, false] {
            let source = floats(&[1.0, NAN, -2.0, 3.0, -7.0, INF], &[2, 3])?;
            let index = Tensor::from_slice_of(&[0i64, 1, 0, 1, 1, 0], &[2, 3])?;
            reductions.push(sample![m.any(&[2, 3]), 0, index.clone(), source, how, own]);
            let whole = |low: f64| m_ints(low).reshape(&[2, 3]);
            reductions.push(sample![whole(-7.0)?, 1, index, whole(3.0)?, how, own]);
            reductions.push(sample![floats(&[2.0], &[])?, 0, Tensor::scalar(0i64)?, floats(&[5.0], &[])?, how, own]);
        }
    }
    let mut slices = vec![];
    for how in ["prod", "mean", "amax", "amin", "sum"] {
        for own in [true, false] {
            slices.push(sample![m.any(&[4, 3]), -1, ints(&[2, 0])?, m.any(&[4, 2]), how, own]);
            slices.push(sample![m.any(&[4, 3]), 0, ints(&[2, 9])?, m.any(&[2, 3]), how, own]);
        }
    }
    let fills = vec![
        sample![m.any(&[4, 3]), -1, ints(&[-1, 0])?, Scalar::Float(2.5)],
        sample![m.any(&[]), 0, ints(&[0])?, Scalar::Int(3)],
        sample![m_ints(0.0), 0, ints(&[1, 1])?, Scalar::Int(3)],
        sample![m.any(&[4, 3]), 1, ints(&[3])?, Scalar::Int(3)],
        sample![m.any(&[4, 3]), 1, ints(&[2])?, Scalar::Complex(Complex64::new(1.0, 2.0))],
    ];
    let by_tensor = vec![
        sample![m.any(&[4, 3]), 0, ints(&[-1, 0])?, floats(&[2.5], &[])?],
        sample![m.any(&[4, 3]), 0, ints(&[-1, 0])?, floats(&[2.5], &[1])?],
    ];
    let puts = vec![
        sample![m.any(&[4, 3]), ints(&[-1, 0, 0, 11])?, m.any(&[4]), true],
        sample![m.any(&[4, 3]).t()?, ints(&[-1, 0, 0, 5])?, m.any(&[2, 2]), false],
        sample![m.any(&[4, 3]), ints(&[12])?, m.any(&[1]), false],
        sample![m.any(&[4, 3]), ints(&[1, 2])?, m.any(&[1]), false],
        sample![m.any(&[0]), ints(&[0])?, m.any(&[1]), false],
    ];
    let takes = vec![
        sample![m.any(&[4, 3]).t()?, ints(&[-12, 5, 5])?],
        sample![m.any(&[4, 3]), ints(&[-13])?],
        sample![m.any(&[0]), ints(&[0])?],
    ];
    assert_agree(vec![
        check("scatter_reduce_.two", reductions, all)?,
        check("index_reduce_", slices, all)?,
        check("index_fill_.int_Scalar", fills, all)?,
        check("index_fill_.int_Tensor", by_tensor, all)?,
        check("put_", puts, all)?,
        check("take", takes, all)?,
    ]);
    Ok(())
}

#[test]
fn optimised() -> Result<()> {
    let m = &mut Maker::new(DType::F64);
    let mut list = |low: f64| {
        let sizes: [&[i64]; 3] = [&[3, 2], &[], &[0, 4]];
        OwnedValue::Tensors(sizes.map(|s| m.uniform(s, low, 2.0)).to_vec())
    };
    let number = |x: f64| OwnedValue::Tensor(Tensor::full(&[], x, DType::F32).unwrap());
    let numbers = |values: &[f64]| values.iter().map(|x| OwnedValue::Float(*x)).collect::<Vec<_>>();
    let steps = OwnedValue::Tensors([1.0f32, 2.0, 9.0].map(|s| Tensor::scalar(s).unwrap()).to_vec());
    let none = || OwnedValue::Tensors(vec![]);
    let (mut sgd, mut adam, mut adagrad) = (vec![], vec![], vec![]);
    for k in 0..8 {
        let flags = [k & 1 == 1, k & 2 == 2, k & 4 == 4].map(OwnedValue::Bool);
        let scaling = [number(4.0), number(if k == 7 { 1.0 } else { 0.0 })];
        let lists = vec![list(-2.0), list(-2.0), list(-2.0)];
        sgd.push(Sample::new([lists, numbers(&[0.1, 0.9, 0.05, 0.2]), flags.to_vec(), scaling.to_vec()].concat()));
        let lists = vec![list(-2.0), list(-2.0), list(-2.0), list(0.0)];
        let top = if k & 1 == 1 { list(0.0) } else { none() };
        let rest = numbers(&[0.05, 0.9, 0.99, 0.1, 1e-3]);
        adam.push(Sample::new([lists, vec![top, steps.clone()], rest, flags[..2].to_vec(), scaling.to_vec()].concat()));
        let lists = vec![list(-2.0), list(-2.0), list(0.0), steps.clone()];
        let rest = numbers(&[0.05, 0.1, 0.2, 1e-3]);
        adagrad.push(Sample::new([lists, rest, flags[..1].to_vec(), scaling.to_vec()].concat()));
    }
    let short = vec![list(-2.0), none(), list(-2.0)];
    let rest =
        [OwnedValue::Bool(false), OwnedValue::Bool(false), OwnedValue::Bool(false), OwnedValue::None, OwnedValue::None];
    sgd.push(Sample::new([short, numbers(&[0.1, 0.9, 0.05, 0.2]), rest.to_vec()].concat()));
    let mut others = vec![];
    for (name, states, each) in [("sgd", 0, 6), ("rmsprop", 1, 7), ("rmsprop", 2, 7), ("other", 0, 1), ("asgd", 1, 4)] {
        let lists = (0..states).flat_map(|_| match list(0.0) {
            OwnedValue::Tensors(list) => list,
            _ => vec![],
        });
        let lists = OwnedValue::Tensors(lists.collect());
        // Neither centred nor with momentum, then centred; the average is the parameter itself.
        let value = |i: usize| if name == "rmsprop" && (i == 5 || i == 3 && states == 1) { 0.0 } else { 1.0 };
        let values = OwnedValue::Floats((0..each).map(value).collect());
        others.push(Sample::new(vec![list(-2.0), list(-2.0), lists, name.into(), values, OwnedValue::Bool(true)]));
    }
    assert_agree(vec![
        check("_fused_sgd_", sgd, all)?,
        check("_fused_adam_", adam.clone(), all)?,
        check("_fused_adamw_", adam, all)?,
        check("_fused_adagrad_", adagrad, all)?,
        check("_optimizer_update_", others, all)?,
    ]);
    Ok(())
}

/// Six integers from a number on.
fn m_ints(from: f64) -> Tensor {
    let values: Vec<i64> = (0..6).map(|i| (from as i64) + i * i % 5).collect();
    Tensor::from_slice(&values).unwrap()
}

#[test]
fn counted() -> Result<()> {
    let m = &mut Maker::new(DType::F64);
    let values = floats(&[3.0, NAN, 1.0, NAN, 1.0, 3.0, NAN, 7.0, 3.0, 2.0], &[2, 5])?;
    let modes = vec![
        sample![values.clone(), 1, true],
        sample![values.clone(), 0, false],
        sample![floats(&[NAN, NAN], &[2])?, 0, false],
        sample![floats(&[0.0, -0.0, 1.0], &[3])?, 0, false],
        sample![m_ints(-2.0), 0, false],
        sample![m.mask(&[3, 4]), 0, false],
        sample![m.any(&[3, 0]), 1, false],
    ];
    let hashes = vec![
        sample![values.clone(), Vec::<i64>::new(), false, 0],
        sample![m_ints(-2.0), vec![0i64], true, 0],
        sample![m.mask(&[3, 4]), vec![-1i64], true, 0],
        sample![values.clone(), Vec::<i64>::new(), false, 1],
    ];
    let (low, high) = (|x: f64| Scalar::Float(x), |x: f64| Scalar::Float(x));
    let edges = floats(&[-1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0, -2.0], &[8])?;
    let histograms = vec![
        sample![edges.clone(), 8, low(-1.0), high(1.0)],
        sample![edges.clone(), 3, low(0.0), high(0.0)],
        sample![edges.clone(), 3, low(2.0), high(1.0)],
        sample![edges.clone(), 3, low(0.0), high(INF)],
        sample![edges.clone(), 0, low(0.0), high(1.0)],
        sample![values.clone(), 3, low(0.0), high(4.0)],
        sample![values, 3, low(0.0), high(0.0)],
        sample![floats(&[5.0, 5.0], &[2])?, 4, low(0.0), high(0.0)],
        sample![m.any(&[0]), 4, low(0.0), high(0.0)],
    ];
    assert_agree(vec![
        check("mode", modes, all)?,
        check("hash_tensor", hashes, all)?,
        check("histc", histograms, all)?,
    ]);
    Ok(())
}

#[test]
fn distances_and_transforms() -> Result<()> {
    let (m, z) = (&mut Maker::new(DType::F64), &mut Maker::new(DType::Complex128));
    let (mut forward, mut backward, mut own, mut own_backward) = (vec![], vec![], vec![], vec![]);
    for p in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF, -1.0] {
        let (x, y) = (m.uniform(&[2, 1, 4, 5], -2.0, 2.0).round()?, m.uniform(&[3, 6, 5], -2.0, 2.0).round()?);
        forward.push(sample![x.clone(), y.clone(), p, ()]);
        forward.push(sample![m.any(&[3, 70]), m.any(&[2, 70]), p, 2]);
        forward.push(sample![m.any(&[3, 0]), m.any(&[2, 0]), p, 2]);
        let found = m.uniform(&[2, 3, 4, 6], 0.0, 3.0).round()?;
        backward.push(sample![m.any(&[2, 3, 4, 6]), x.clone(), y, p, found]);
        let x = x.reshape(&[8, 5])?;
        own.push(sample![x.clone(), p]);
        own.push(sample![m.any(&[1, 5]), p]);
        own_backward.push(sample![m.any(&[28]), x, p, m.uniform(&[28], 0.0, 3.0).round()?]);
    }
    let (mut complex, mut real, mut back) = (vec![], vec![], vec![]);
    for n in [1i64, 2, 3, 7, 8, 12, 17, 64] {
        for norm in 0..3i64 {
            complex.push(sample![z.any(&[2, n, 3]), vec![1i64], norm, norm == 1]);
            complex.push(sample![z.any(&[n, 2, 3]), vec![-1i64, 0], norm, true]);
            real.push(sample![m.any(&[2, n, 3]), vec![0i64, 1], norm, norm != 1]);
            back.push(sample![z.any(&[3, n / 2 + 1, 2]), vec![0i64, 1], norm, n]);
        }
    }
    back.push(sample![z.any(&[3, 4]), vec![1i64], 0, 9]);
    complex.push(sample![z.any(&[3, 4]), vec![1i64, 1], 0, true]);
    assert_agree(vec![
        check("_cdist_forward", forward, all)?,
        check("_cdist_backward", backward, all)?,
        check("_pdist_forward", own, all)?,
        check("_pdist_backward", own_backward, all)?,
        check("_fft_c2c", complex, all)?,
        check("_fft_r2c", real, all)?,
        check("_fft_c2r", back, all)?,
    ]);
    Ok(())
}

#[test]
fn sampled() -> Result<()> {
    let m = &mut Maker::new(DType::F64);
    let (mut planes, mut volumes, mut plane_gradients, mut volume_gradients) = (vec![], vec![], vec![], vec![]);
    for k in 0..18i64 {
        let (how, padding, corners) = (k / 2 % 3, k / 6, k % 2 == 0);
        for sizes in [[2i64, 3, 5, 4], [1, 2, 1, 6], [2, 5, 9, 9]] {
            let mut grid = m.uniform(&[sizes[0], 3, 7, 2], -3.0, 3.0);
            if sizes[2] == 9 {
                let odd = floats(&[NAN, INF, -INF, 1e300, 1.0, -1.0], &[1, 1, 3, 2])?;
                grid = Tensor::cat(&[grid, odd.expand(&[2, 3, 3, 2])?], 2)?;
            }
            let (x, rows) = (m.any(&sizes), grid.sizes()[2]);
            planes.push(sample![x.clone(), grid.clone(), how, padding, corners]);
            let g = m.any(&[sizes[0], sizes[1], 3, rows]);
            let mask = OwnedValue::Bools(vec![k % 5 != 0, k % 7 != 0]);
            // Of places that are not finite PyTorch leaves the slopes open.
            if sizes[2] != 9 {
                plane_gradients.push(sample![g, x, grid, how, padding, corners, mask]);
            }
        }
        let (x, grid) = (m.any(&[2, 3, 3, 4, 2]), m.uniform(&[2, 2, 3, 2, 3], -2.0, 2.0));
        volumes.push(sample![x.clone(), grid.clone(), how, padding, corners]);
        if how != 2 {
            let mask = OwnedValue::Bools(vec![true, true]);
            volume_gradients.push(sample![m.any(&[2, 3, 2, 3, 2]), x, grid, how, padding, corners, mask]);
        }
    }
    planes.push(sample![m.any(&[1, 1, 2, 2]), m.any(&[1, 2, 2, 2]), 3, 0, true]);
    let mut windows = vec![];
    for (kernel, output) in [([2i64, 3], [3i64, 1]), ([1, 1], [5, 6]), ([5, 6], [1, 1]), ([3, 3], [9, 9])] {
        let x = Tensor::cat(&[m.any(&[2, 3, 4, 6]), floats(&[NAN], &[1])?.expand(&[2, 3, 1, 6])?], 2)?;
        windows.push(sample![x, kernel.to_vec(), output.to_vec(), m.uniform(&[2, 3, 2], 0.0, 1.0)]);
    }
    let volume_windows =
        vec![sample![m.any(&[3, 5, 6, 4]), vec![2i64, 3, 1], vec![3i64, 2, 4], m.uniform(&[1, 3, 3], 0.0, 1.0)]];
    assert_agree(vec![
        check("grid_sampler_2d", planes, all)?,
        check("grid_sampler_3d", volumes, all)?,
        check("grid_sampler_2d_backward", plane_gradients, all)?,
        check("grid_sampler_3d_backward", volume_gradients, all)?,
        check("fractional_max_pool2d", windows, all)?,
        check("fractional_max_pool3d", volume_windows, all)?,
    ]);
    Ok(())
}

#[test]
fn factorized() -> Result<()> {
    let mut found = vec![];
    for dtype in [DType::F64, DType::Complex128] {
        let m = &mut Maker::new(dtype);
        let of = |t: Tensor| t.to_dtype(dtype);
        let zeros = |sizes: &[i64]| Tensor::zeros(sizes, dtype);
        let (mut definite, mut symmetric, mut square, mut any) = (vec![], vec![], vec![], vec![]);
        for n in [1i64, 2, 3, 5, 9, 20, 40] {
            let x = m.any(&[2, n, n]);
            definite.push(x.matmul(&x.mh()?)?.add(&of(Tensor::eye(n, n, DType::F64)?)?)?);
            let sum = x.add(&x.mh()?)?;
            symmetric.push(sum.sub(&sum.tril(0)?.triu(0)?)?);
            symmetric.push(sum);
            square.push(x);
        }
        for (rows, columns) in [(1i64, 4i64), (4, 1), (7, 3), (3, 7), (30, 12), (12, 30), (25, 25)] {
            any.push(m.any(&[2, rows, columns]));
        }
        let broken = definite[3].sub(&of(Tensor::eye(5, 5, DType::F64)?.mul(8.0)?)?)?;
        let mut samples = vec![sample![broken.clone(), false, true], sample![zeros(&[0, 2])?, false, false]];
        samples.extend(definite.iter().flat_map(|x| [false, true].map(|upper| sample![x.clone(), upper, false])));
        found.push(check("linalg_cholesky_ex", samples, all)?);
        found.push(check("linalg_cholesky_ex", vec![sample![broken, false, false]], |r| {
            Ok(r.into_iter().skip(1).collect())
        })?);
        let mut samples = vec![];
        for x in symmetric.iter().chain(&definite) {
            samples.extend([false, true].map(|hermitian| sample![x.clone(), hermitian, false]));
        }
        samples.push(sample![zeros(&[3, 3])?, false, false]);
        samples.push(sample![zeros(&[2, 3, 3])?, true, true]);
        found.push(check("linalg_ldl_factor_ex", samples, all)?);
        let mut samples = vec![];
        for (x, hermitian) in symmetric.iter().flat_map(|x| [(x, false), (x, true)]).filter(|(x, _)| x.sizes()[1] > 1) {
            let (ld, pivots, info) = x.ldl_factor_ex(hermitian, false)?;
            // Larger ones are not conditioned well enough to compare the solutions.
            if x.sizes()[1] < 6 && info.to_vec::<i64>()?.iter().all(|i| *i == 0) {
                samples.push(sample![ld, pivots, m.any(&[2, x.sizes()[1], 3]), hermitian]);
            }
        }
        found.push(check("linalg_ldl_solve", samples, all)?);
        let mut samples: Vec<Sample> = any.iter().chain(&square).map(|x| sample![x.clone(), true, false]).collect();
        samples.push(sample![zeros(&[2, 3, 3])?, true, false]);
        samples.push(sample![zeros(&[2, 3, 3])?, true, true]);
        samples.push(sample![m.any(&[3, 3]), false, false]);
        let turned = m.any(&[2, 4, 3]).mt()?;
        samples.push(sample![turned, true, false]);
        found.push(check("linalg_lu_factor_ex", samples, all)?);
        let (mut unpacked, mut solved) = (vec![], vec![]);
        for x in &any {
            let (lu, pivots, _) = x.lu_factor_ex(true, false)?;
            let flags = [(true, true), (true, false), (false, true), (false, false)];
            unpacked.extend(flags.map(|(data, p)| sample![lu.clone(), pivots.clone(), data, p]));
            unpacked.push(sample![lu.clone(), pivots.mul(0)?.to_dtype(DType::I32)?, true, true]);
        }
        for x in definite.iter().take(5) {
            let n = x.sizes()[1];
            let (lu, pivots, _) = x.lu_factor_ex(true, false)?;
            for (left, adjoint) in [(true, true), (true, false), (false, true), (false, false)] {
                let b = m.any(&if left { [3, 1, n, 2] } else { [3, 1, 2, n] });
                solved.push(sample![lu.clone(), pivots.clone(), b, left, adjoint]);
            }
            solved.push(sample![lu, pivots.mul(0)?.to_dtype(DType::I32)?, m.any(&[n, 1]), true, false]);
        }
        found.push(check("lu_unpack", unpacked, all)?);
        found.push(check("linalg_lu_solve", solved, all)?);
        let mut samples = vec![];
        for (upper, left, unit) in (0..8).map(|k| (k & 1 == 1, k & 2 == 2, k & 4 == 4)) {
            let a = m.uniform(&[2, 6, 6], 0.0, 0.2).add(&of(Tensor::eye(6, 6, DType::F64)?)?)?;
            samples.push(sample![a, m.any(&[3, 1, 6, 6]), upper, left, unit]);
        }
        samples.push(sample![m.any(&[6, 5]), m.any(&[6, 6]), true, true, false]);
        found.push(check("linalg_solve_triangular", samples, all)?);
        found.push(check("geqrf", any.iter().chain(&square).map(|x| sample![x.clone()]).collect(), all)?);
        let modes = ["reduced", "complete", "r", "other"];
        let samples = any.iter().flat_map(|x| modes.map(|mode| sample![x.clone(), mode])).collect();
        found.push(check("linalg_qr", samples, all)?);
        let (mut products, mut applied) = (vec![], vec![]);
        for x in any.iter().filter(|x| x.sizes()[1] >= x.sizes()[2]) {
            let (a, tau) = x.geqrf()?;
            let (rows, k) = (x.sizes()[1], tau.sizes()[1]);
            products.push(sample![a.clone(), tau.narrow(-1, 0, k.min(2))?]);
            products.push(sample![a.clone(), tau.clone()]);
            for (left, adjoint) in [(true, true), (true, false), (false, true), (false, false)] {
                let c = m.any(&if left { [2, rows, 3] } else { [2, 3, rows] });
                applied.push(sample![a.clone(), tau.clone(), c, left, adjoint]);
            }
        }
        found.push(check("linalg_householder_product", products, all)?);
        found.push(check("ormqr", applied, all)?);
        let mut samples: Vec<Sample> = vec![];
        for x in symmetric.iter().chain(&definite) {
            samples.extend(["L", "u", "x"].map(|half| sample![x.clone(), half, half == "L"]));
        }
        samples.push(sample![of(floats(&[NAN; 8], &[2, 2, 2])?)?, "L", true]);
        found.push(check("_linalg_eigh", samples, first)?);
        let mut samples: Vec<Sample> = any.iter().chain(&square).map(|x| sample![x.clone(), true, true, ()]).collect();
        samples.push(sample![zeros(&[4, 3])?, true, true, ()]);
        samples.push(sample![of(floats(&[NAN; 4], &[2, 2])?)?, true, false, ()]);
        found.push(check("_linalg_svd", samples, second)?);
        let samples = || square.iter().take(5).chain(&symmetric).map(|x| sample![x.clone()]).collect::<Vec<_>>();
        found.push(check("linalg_eig", samples(), power_sums)?);
        found.push(check("_linalg_eigvals", samples(), power_sums)?);
        found.push(check("_linalg_eigvals", vec![sample![of(floats(&[INF; 4], &[2, 2])?)?]], power_sums)?);
        let crosses = vec![sample![m.any(&[3, 2, 1]), m.any(&[3, 1, 4]), 0], sample![m.any(&[2]), m.any(&[2]), 0]];
        found.push(check("linalg_cross", crosses, all)?);
    }
    assert_agree(found);
    Ok(())
}

#[test]
fn layers() -> Result<()> {
    let m = &mut Maker::new(DType::F64);
    let (mut forward, mut backward) = (vec![], vec![]);
    for (k, (mode, gates)) in [("LSTM", 4), ("GRU", 3), ("RNN_TANH", 1), ("RNN_RELU", 1)].into_iter().enumerate() {
        for (reverse, biased) in [(false, true), (true, false), (true, true)] {
            for times in [vec![4i64, 3, 3, 1], vec![2, 2], vec![1]] {
                let (rows, batch, hidden) = (times.iter().sum::<i64>(), times[0], 21);
                let mut tensor = |sizes: &[i64]| OwnedValue::Tensor(m.uniform(sizes, -0.7, 0.7));
                let optional = |there: bool, t: OwnedValue| if there { t } else { OwnedValue::None };
                let layer = vec![
                    tensor(&[rows, 5]),
                    tensor(&[batch, hidden]),
                    optional(mode == "LSTM", tensor(&[batch, hidden])),
                    tensor(&[gates * hidden, 5]),
                    tensor(&[gates * hidden, hidden]),
                    optional(biased, tensor(&[gates * hidden])),
                    optional(biased, tensor(&[gates * hidden])),
                    times.into(),
                    mode.into(),
                    reverse.into(),
                ];
                forward.push(Sample::new([&layer[..], &[k % 2 == 0 || biased].map(OwnedValue::Bool)].concat()));
                let kept = call("_recurrent_layer", &[&layer[..], &[OwnedValue::Bool(true)]].concat())?;
                let saved = [0, 3, 4].map(|i| kept[i].clone().map_or(OwnedValue::None, OwnedValue::Tensor));
                let by = [
                    optional(biased, tensor(&[rows, hidden])),
                    tensor(&[batch, hidden]),
                    optional(mode == "LSTM" && reverse, tensor(&[batch, hidden])),
                ];
                let mask = OwnedValue::Bools((0..7).map(|i| biased || i % 3 != 1).collect());
                backward.push(Sample::new([&by[..], &layer, &saved, &[mask]].concat()));
            }
        }
    }
    let mut attention = vec![];
    for k in 0..4 {
        let (q, key, v) = (m.any(&[2, 4, 5, 6]), m.any(&[2, 2, 7, 6]), m.any(&[2, 2, 7, 3]));
        let mask = match k {
            0 => OwnedValue::None,
            1 => OwnedValue::Tensor(m.mask(&[5, 7])),
            _ => OwnedValue::Tensor(m.any(&[2, 1, 5, 7])),
        };
        let (causal, scale) = (k % 2 == 1, if k == 2 { 0.3.into() } else { OwnedValue::None });
        let inputs = [q, key, v].map(OwnedValue::Tensor);
        let rest = [OwnedValue::Float(0.0), OwnedValue::Bool(causal), mask, scale];
        let saved = call("_scaled_dot_product_flash_attention_for_cpu", &[&inputs[..], &rest].concat())?;
        let saved: Vec<OwnedValue> = saved.into_iter().flatten().map(OwnedValue::Tensor).collect();
        let g = OwnedValue::Tensor(m.any(&[2, 4, 5, 3]));
        attention.push(Sample::new([&[g][..], &inputs, &saved, &rest].concat()));
    }
    let mut norms = vec![];
    let mut norm_gradients = vec![];
    for (shape, weighted) in [(vec![33i64], true), (vec![4, 33], false), (vec![4, 33], true)] {
        let (x, w) = (m.any(&[3, 4, 33]), m.any(&shape));
        let weight = if weighted { OwnedValue::Tensor(w) } else { OwnedValue::None };
        norms.push(sample![x.clone(), shape.clone(), weight.clone(), ()]);
        norms.push(sample![m.any(&[0, 4, 33]), shape.clone(), weight.clone(), 1e-3]);
        let args = [x.clone().into(), shape.clone().into(), weight.clone(), OwnedValue::None];
        let rstd = call("_fused_rms_norm", &args)?[1].clone().map_or(OwnedValue::None, OwnedValue::Tensor);
        let mask = OwnedValue::Bools(vec![true, weighted]);
        norm_gradients.push(sample![m.any(&[3, 4, 33]), x, shape, rstd, weight, mask]);
    }
    assert_agree(vec![
        check("_recurrent_layer", forward, all)?,
        check("_recurrent_layer_backward", backward, all)?,
        check("_scaled_dot_product_flash_attention_for_cpu_backward", attention, all)?,
        check("_fused_rms_norm", norms, all)?,
        check("_fused_rms_norm_backward", norm_gradients, all)?,
    ]);
    Ok(())
}
