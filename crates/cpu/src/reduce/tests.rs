use super::fold::Value;
use super::*;
use crate::copy::cast_strip;
use flambeau_base::{Bool, Complex, bf16, dispatch, f16};

/// A dense array of one dtype.
struct Array {
    bytes: Vec<u64>,
    dtype: DType,
}

impl Array {
    fn new(dtype: DType, n: usize) -> Array {
        Array { bytes: vec![0; (n * dtype.size()).div_ceil(8) + 1], dtype }
    }
    fn of<T: Element>(values: &[T]) -> Array {
        let mut a = Array::new(T::DTYPE, values.len());
        // SAFETY: the array holds them.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), a.data(), size_of_val(values));
        }
        a
    }
    fn data(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().cast()
    }
    fn operand(&mut self) -> Operand {
        Operand { data: self.data(), dtype: self.dtype }
    }
    fn get(&self, i: usize) -> Complex<f64> {
        let mut z = Complex::<f64>::default();
        let size = self.dtype.size();
        // SAFETY: tests index within the array.
        unsafe {
            let from = self.bytes.as_ptr().cast::<u8>().add(i * size);
            cast_strip(self.dtype, DType::Complex128)(from, size as isize, (&raw mut z).cast(), 16, 1);
        }
        z
    }
    fn at<T: Element>(&self, i: usize) -> T {
        assert_eq!(self.dtype, T::DTYPE);
        // SAFETY: as `get`.
        unsafe { *self.bytes.as_ptr().cast::<T>().add(i) }
    }
}

/// Small pseudo-random integers, exact in every dtype.
fn small(dtype: DType, n: usize, seed: u64) -> Array {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s >> 33) as i64
    };
    dispatch!(dtype, T => {
        let v: Vec<T> = (0..n)
            .map(|_| {
                let (re, im) = (next() % 11, next() % 11);
                if dtype.is_complex() {
                    T::from_c128(Complex::new((re - 5) as f64, (im - 5) as f64))
                } else if dtype.is_signed() {
                    T::from_i64(re - 5)
                } else {
                    T::from_i64(re)
                }
            })
            .collect();
        Array::of(&v)
    })
}

/// One dimension of a case: size, input stride in elements, whether reduced.
type Dim = (usize, isize, bool);

/// Runs a reduction; the outputs are dense, in the order of the kept dimensions.
fn run(op: Reduction, dims: &[Dim], input: &mut Array, outs: &[DType]) -> Vec<Array> {
    let size = input.dtype.size() as isize;
    let outputs: usize = dims.iter().filter(|d| !d.2).map(|d| d.0).product();
    let mut arrays: Vec<Array> = outs.iter().map(|&d| Array::new(d, outputs)).collect();
    let mut kept = vec![];
    let mut stride = 1;
    for d in dims.iter().rev().filter(|d| !d.2) {
        let out = |k: usize| outs.get(k).map_or(0, |o| o.size() as isize * stride);
        kept.insert(0, KeptDim { size: d.0, stride: d.1 * size, out_strides: [out(0), out(1)] });
        stride *= d.0 as isize;
    }
    let reduced: Vec<ReducedDim> =
        dims.iter().filter(|d| d.2).map(|d| ReducedDim { size: d.0, stride: d.1 * size }).collect();
    let operands: Vec<Operand> = arrays.iter_mut().map(|a| a.operand()).collect();
    // SAFETY: the arrays hold what the dimensions say.
    unsafe { reduce(op, ReduceShape { kept: &kept, reduced: &reduced }, input.operand(), &operands) };
    arrays
}

/// For every output, the elements it is made of, in logical order.
fn elements(dims: &[Dim], input: &Array) -> Vec<Vec<Complex<f64>>> {
    let walk = |reduced: bool| {
        let mut offsets = vec![0isize];
        for d in dims.iter().filter(|d| d.2 == reduced) {
            offsets = offsets.iter().flat_map(|&o| (0..d.0 as isize).map(move |i| o + i * d.1)).collect();
        }
        offsets
    };
    let (kept, reduced) = (walk(false), walk(true));
    kept.iter().map(|&k| reduced.iter().map(|&r| input.get((k + r) as usize)).collect()).collect()
}

/// The plain definition in `f64`.
fn expected(op: Reduction, x: &[Complex<f64>], complex: bool) -> (Complex<f64>, f64) {
    let n = x.len() as f64;
    let sum: Complex<f64> = x.iter().sum();
    let mean = sum / n;
    let variance = |c: f64| x.iter().map(|v| (v - mean).norm_sqr()).sum::<f64>() / (n - c).max(0.0);
    let first = |best: fn(f64, f64) -> bool| {
        let mut at = 0;
        for i in 1..x.len() {
            if !x[at].re.is_nan() && (x[i].re.is_nan() || best(x[i].re, x[at].re)) {
                at = i;
            }
        }
        (Complex::from(x[at].re), at as f64)
    };
    let max = || first(|a, b| a > b);
    let min = || first(|a, b| a < b);
    let is_true = |v: &&Complex<f64>| v.re != 0.0 || v.im != 0.0;
    let real = |v: f64| (Complex::from(v), 0.0);
    let norms = || x.iter().map(|v| v.norm());
    match op {
        Reduction::Sum => (sum, 0.0),
        Reduction::Mean => (mean, 0.0),
        Reduction::NanSum => (x.iter().filter(|v| !v.re.is_nan() && !v.im.is_nan()).sum(), 0.0),
        Reduction::Product => (x.iter().product(), 0.0),
        Reduction::Max | Reduction::MaxWithIndex => max(),
        Reduction::Min | Reduction::MinWithIndex => min(),
        Reduction::ArgMax => real(max().1),
        Reduction::ArgMin => real(min().1),
        Reduction::Any => real(x.iter().any(|v| is_true(&v)) as u8 as f64),
        Reduction::All => real(x.iter().all(|v| is_true(&v)) as u8 as f64),
        Reduction::CountNonzero => real(x.iter().filter(is_true).count() as f64),
        Reduction::Variance { correction } => (variance(correction).into(), 0.0),
        Reduction::StandardDeviation { correction } => (variance(correction).sqrt().into(), 0.0),
        Reduction::Norm(0.0) => real(x.iter().filter(is_true).count() as f64),
        Reduction::Norm(p) if p == f64::INFINITY => real(norms().fold(0.0, f64::max)),
        Reduction::Norm(p) if p == f64::NEG_INFINITY => real(norms().fold(f64::INFINITY, f64::min)),
        Reduction::Norm(p) => real(norms().map(|v| v.powf(p)).sum::<f64>().powf(1.0 / p)),
        Reduction::LogSumExp if complex => (x.iter().map(|v| v.exp()).sum::<Complex<f64>>().ln(), 0.0),
        Reduction::LogSumExp => real(x.iter().map(|v| v.re.exp()).sum::<f64>().ln()),
    }
}

fn close(a: Complex<f64>, b: Complex<f64>, tolerance: f64) -> bool {
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * b.abs().max(1.0);
    same(a.re, b.re) && same(a.im, b.im)
}

fn check(op: Reduction, dims: &[Dim], input: &mut Array, outs: &[DType], tolerance: f64) {
    let complex = input.dtype.is_complex();
    let got = run(op, dims, input, outs);
    for (i, x) in elements(dims, input).iter().enumerate() {
        let want = expected(op, x, complex);
        let value = got[0].get(i);
        assert!(
            close(value, want.0, tolerance),
            "{op:?} {dims:?} {:?} output {i}: {value} for {}",
            input.dtype,
            want.0
        );
        if op.needs_index() && got.len() == 2 {
            assert_eq!(got[1].get(i).re, want.1, "{op:?} {dims:?} {:?} index of output {i}", input.dtype);
        }
    }
}

const VARIANCE: Reduction = Reduction::Variance { correction: 1.0 };

const OPERATIONS: [Reduction; 22] = [
    Reduction::Sum,
    Reduction::Mean,
    Reduction::NanSum,
    Reduction::Product,
    Reduction::Max,
    Reduction::Min,
    Reduction::MaxWithIndex,
    Reduction::MinWithIndex,
    Reduction::ArgMax,
    Reduction::ArgMin,
    Reduction::Any,
    Reduction::All,
    Reduction::CountNonzero,
    VARIANCE,
    Reduction::StandardDeviation { correction: 0.0 },
    Reduction::Norm(0.0),
    Reduction::Norm(1.0),
    Reduction::Norm(2.0),
    Reduction::Norm(3.0),
    Reduction::Norm(f64::INFINITY),
    Reduction::Norm(f64::NEG_INFINITY),
    Reduction::LogSumExp,
];

/// The dtypes PyTorch gives the outputs, and whether it has the operation for the dtype (unsigned ones are ours).
fn output_dtypes(op: Reduction, d: DType) -> Option<Vec<DType>> {
    let float = if d.category() < DType::F16.category() { DType::F32 } else { d };
    Some(match op {
        Reduction::Sum | Reduction::Product if d.is_integral(true) => vec![DType::I64],
        Reduction::Sum | Reduction::Product => vec![d],
        Reduction::NanSum if d.is_complex() => return None,
        Reduction::NanSum => vec![float],
        Reduction::Mean | Reduction::LogSumExp => vec![float],
        Reduction::Max | Reduction::Min if !d.is_complex() => vec![d],
        Reduction::MaxWithIndex | Reduction::MinWithIndex if !d.is_complex() => vec![d, DType::I64],
        Reduction::ArgMax | Reduction::ArgMin if !d.is_complex() => vec![DType::I64],
        Reduction::Any | Reduction::All => vec![DType::Bool],
        Reduction::CountNonzero => vec![DType::I64],
        Reduction::Variance { .. } | Reduction::StandardDeviation { .. } | Reduction::Norm(_) => vec![float.to_real()],
        _ => return None,
    })
}

/// Inner, outer, middle, both ends, narrow, strided, transposed, expanded, size one, one element, short runs, windows.
fn layouts() -> Vec<Vec<Dim>> {
    vec![
        vec![(3, 50, false), (50, 1, true)],
        vec![(9, 7, false), (7, 1, true)],
        vec![(13, 70, true), (70, 1, false)],
        vec![(4, 60, false), (5, 12, true), (12, 1, false)],
        vec![(3, 100, true), (5, 20, false), (20, 1, true)],
        vec![(41, 3, true), (3, 1, false)],
        vec![(11, 9, true), (3, 2, false)],
        vec![(6, 80, false), (40, 2, true)],
        vec![(33, 1, true), (5, 33, false)],
        vec![(33, 1, false), (5, 33, true)],
        vec![(4, 0, false), (7, 2, true), (3, 0, true)],
        vec![(1, 99, true), (8, 1, false), (1, 5, false)],
        vec![(1, 1, true)],
        vec![(2, 1, true), (36, 2, true), (3, 72, false)],
        vec![(30, 30, true), (7, 1, true)],
        vec![(7, 1, true), (30, 30, true)],
        vec![(3, 300, true), (40, 7, true), (5, 1, true)],
        vec![(5, 100, true), (30, 2, true), (4, 1, true)],
    ]
}

#[test]
fn all_operations_dtypes_and_layouts() {
    for dtype in DType::ALL {
        let mut input = small(dtype, 1000, 7 + dtype as u64);
        for op in OPERATIONS {
            let Some(outs) = output_dtypes(op, dtype) else { continue };
            let tolerance = match outs[0] {
                DType::F16 => 2e-3,
                DType::BF16 => 1e-2,
                DType::F32 | DType::Complex64 => 3e-6,
                _ => 1e-12,
            };
            for dims in layouts() {
                if op == Reduction::Product {
                    // Products of these would overflow.
                    let mut ones = dispatch!(dtype, T => {
                        Array::of(&(0..1000).map(|i| T::from_i64(1 + (i % 97 == 0) as i64)).collect::<Vec<_>>())
                    });
                    check(op, &dims, &mut ones, &outs, tolerance);
                } else {
                    check(op, &dims, &mut input, &outs, tolerance);
                }
            }
        }
    }
}

#[test]
fn long_reductions_are_split_and_merged() {
    let n = 300_000;
    let mut x = small(DType::F32, n, 3);
    let mut z = small(DType::Complex64, n / 2, 4);
    let shapes: [&[Dim]; 9] = [
        &[(n, 1, true)],
        &[(n / 5, 5, true), (4, 1, true)],
        &[(4, 1, true), (n / 5, 5, true)],
        &[(n / 100, 100, true), (90, 1, true)],
        &[(10, n as isize / 10, true), (n / 10 - 50, 1, true), (3, 1, true)],
        &[(n / 100, 100, true), (100, 1, false)],
        &[(n / 2, 2, true)],
        &[(2, 1, false), (n / 2, 2, true)],
        &[(n / 2000, 2000, true), (2000, 1, false)],
    ];
    for dims in shapes {
        for op in [Reduction::Sum, VARIANCE, Reduction::MinWithIndex, Reduction::LogSumExp, Reduction::Norm(2.0)] {
            check(op, dims, &mut x, &output_dtypes(op, DType::F32).unwrap(), 1e-6);
        }
    }
    check(Reduction::Sum, &[(n / 2, 1, true)], &mut z, &[DType::Complex64], 1e-6);
    check(VARIANCE, &[(n / 2, 1, true)], &mut z, &[DType::F32, DType::Complex64], 1e-6);
    // The only largest element, wherever it is.
    for at in [0, 1, 65_535, 65_536, 200_003, n - 1] {
        let mut v = vec![-1.0f32; n];
        v[at] = 2.0;
        let got = run(Reduction::ArgMax, &[(n, 1, true)], &mut Array::of(&v), &[DType::I64]);
        assert_eq!(got[0].at::<i64>(0), at as i64);
    }
}

#[test]
fn few_long_rows_are_folded_at_once() {
    let cols = 1100;
    for rows in [1, 2, 3, 4, 7, 10, 32, 33] {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::I64] {
            for op in [
                Reduction::Sum,
                Reduction::Mean,
                Reduction::NanSum,
                Reduction::Max,
                Reduction::Min,
                Reduction::Norm(1.0),
            ] {
                let Some(outs) = output_dtypes(op, dtype) else { continue };
                let dims = [(rows, cols as isize, true), (cols, 1, false)];
                check(op, &dims, &mut small(dtype, rows * cols, rows as u64), &outs, 1e-2);
            }
        }
    }
    // What the quick ways do not serve, in the first and the last columns.
    let mut values = vec![1f32; 10 * cols];
    (values[3], values[cols + 3]) = (f32::MAX, f32::MAX);
    values[2 * cols + 3] = -f32::MAX;
    values[9 * cols + cols - 1] = f32::NAN;
    values[5 * cols + 700] = f32::NEG_INFINITY;
    let mut input = Array::of(&values);
    let dims = [(10, cols as isize, true), (cols, 1, false)];
    let sums = run(Reduction::Sum, &dims, &mut input, &[DType::F32]).remove(0);
    assert_eq!((sums.at::<f32>(0), sums.at::<f32>(3), sums.at::<f32>(700)), (10.0, f32::MAX, f32::NEG_INFINITY));
    assert!(sums.at::<f32>(cols - 1).is_nan() && sums.at::<f32>(cols - 2) == 10.0);
    let most = run(Reduction::Max, &dims, &mut input, &[DType::F32]).remove(0);
    assert_eq!((most.at::<f32>(0), most.at::<f32>(3), most.at::<f32>(700)), (1.0, f32::MAX, 1.0));
    assert!(most.at::<f32>(cols - 1).is_nan() && most.at::<f32>(cols - 2) == 1.0);
}

#[test]
fn whole_rows_and_short_runs() {
    let shapes: [&[Dim]; 6] = [
        &[(37, 1500, true), (1500, 1, false)],
        &[(600, 70, true), (70, 1, false)],
        &[(300, 40, true), (40, 1, false)],
        &[(2, 5300, false), (50, 106, true), (100, 1, false)],
        &[(90, 100, false), (100, 1, true)],
        &[(5, 5000, false), (5000, 1, true)],
    ];
    for dtype in [DType::F32, DType::F64, DType::I64, DType::BF16] {
        let mut input = small(dtype, 60_000, 11);
        for dims in shapes {
            for op in [VARIANCE, Reduction::MinWithIndex, Reduction::MaxWithIndex, Reduction::LogSumExp] {
                let Some(outs) = output_dtypes(op, dtype) else { continue };
                check(op, dims, &mut input, &outs, if dtype == DType::BF16 { 1e-2 } else { 1e-6 });
            }
        }
    }
    // The last piece of one row, which is not finite.
    for (dtype, rows, cols) in [(DType::F32, 513, 1024), (DType::BF16, 17, 256), (DType::F32, 1, 64)] {
        let mut values = vec![1.0f32; rows * cols];
        (values[(rows - 1) * cols], values[(rows - 1) * cols + 1]) = (f32::INFINITY, f32::NAN);
        let mut input = match dtype {
            DType::F32 => Array::of(&values),
            _ => Array::of(&values.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>()),
        };
        let dims = [(rows, cols as isize, true), (cols, 1, false)];
        check(Reduction::Variance { correction: 0.0 }, &dims, &mut input, &[dtype], 1e-6);
    }
    // Maxima that grow with every row.
    let rising: Vec<f32> = (0..60_000).map(|i| (i / 2) as f32 / 30_000.0).collect();
    check(Reduction::LogSumExp, &[(30_000, 2, true), (2, 1, false)], &mut Array::of(&rising), &[DType::F32], 1e-7);
    // What does not go with the rest: columns (or runs) with NaN, infinities, nothing else, and a first element far out.
    let (rows, cols) = (60, 1500);
    let mut values: Vec<f32> = (0..rows * cols).map(|i| ((i * 7919) % 1013) as f32 / 100.0).collect();
    for (r, special) in [(0, 1e4), (7, f32::NAN), (13, f32::INFINITY), (59, f32::NEG_INFINITY)] {
        for c in 0..5 {
            values[r * cols + 100 * c + 10 * (r % 4)] = special;
        }
    }
    for r in 0..rows {
        (values[r * cols + 3], values[r * cols + 777], values[r * cols + 1499]) =
            (f32::NEG_INFINITY, f32::INFINITY, f32::NAN);
    }
    let doubles: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
    let extremes = [Reduction::MinWithIndex, Reduction::MaxWithIndex, Reduction::Max, Reduction::Min];
    for (mut input, dtype) in [(Array::of(&values), DType::F32), (Array::of(&doubles), DType::F64)] {
        for (kept, stride, reduced, along) in [(cols, 1, rows, cols as isize), (cols, rows as isize, rows, 1)] {
            let dims = [(kept, stride, false), (reduced, along, true)];
            for op in [VARIANCE, Reduction::LogSumExp, Reduction::Sum, Reduction::NanSum].into_iter().chain(extremes) {
                check(op, &dims, &mut input, &output_dtypes(op, dtype).unwrap(), 3e-6);
            }
        }
    }
}

#[test]
fn indices_follow_the_logical_order() {
    // Both reduced dimensions, in memory order and transposed.
    let v: Vec<f32> = (0..12).map(|i| ((i * 5) % 12) as f32).collect();
    let mut x = Array::of(&v);
    check(Reduction::MaxWithIndex, &[(3, 4, true), (4, 1, true)], &mut x, &[DType::F32, DType::I64], 0.0);
    check(Reduction::MaxWithIndex, &[(4, 1, true), (3, 4, true)], &mut x, &[DType::F32, DType::I64], 0.0);
    check(
        Reduction::MinWithIndex,
        &[(2, 1, true), (2, 6, false), (3, 2, true)],
        &mut x,
        &[DType::F32, DType::I64],
        0.0,
    );
}

#[test]
fn special_values() {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let one = |op, v: &[f64], out| run(op, &[(v.len(), 1, true)], &mut Array::of(v), &[out])[0].get(0).re;
    let value = |op, v: &[f64]| one(op, v, DType::F64);
    // NaN wins, the first one.
    assert!(value(Reduction::Max, &[1.0, NAN, 3.0]).is_nan());
    assert!(value(Reduction::Min, &[1.0, NAN, 3.0]).is_nan());
    assert_eq!(one(Reduction::ArgMax, &[1.0, NAN, 3.0, NAN], DType::I64), 1.0);
    assert_eq!(one(Reduction::ArgMin, &[NAN, NAN, -INF], DType::I64), 0.0);
    // First of equals; zeros of both signs are equal.
    assert_eq!(one(Reduction::ArgMax, &[1.0, 3.0, 3.0], DType::I64), 1.0);
    assert_eq!(one(Reduction::ArgMax, &[-0.0, 0.0], DType::I64), 0.0);
    assert_eq!(one(Reduction::ArgMax, &[-INF, -INF], DType::I64), 0.0);
    assert_eq!(value(Reduction::LogSumExp, &[-INF, -INF]), -INF);
    assert_eq!(value(Reduction::LogSumExp, &[INF, 1.0, INF]), INF);
    assert!(value(Reduction::LogSumExp, &[INF, -INF, NAN]).is_nan());
    assert_eq!(value(Reduction::LogSumExp, &[1e4, 1e4]), 1e4 + 2f64.ln());
    assert_eq!(value(Reduction::NanSum, &[1.0, NAN, 2.0]), 3.0);
    assert!(value(Reduction::Sum, &[INF, -INF]).is_nan());
    assert_eq!(one(Reduction::Any, &[NAN], DType::Bool), 1.0);
    assert_eq!(one(Reduction::CountNonzero, &[NAN, 0.0, -0.0], DType::I64), 1.0);
    assert!(value(Reduction::Norm(INF), &[1.0, NAN]).is_nan());
    assert!(value(Reduction::Norm(-INF), &[1.0, NAN]).is_nan());
    assert_eq!(value(Reduction::Norm(-1.0), &[0.0, 2.0]), 0.0);
    // Degrees of freedom.
    assert!(value(VARIANCE, &[1.0]).is_nan());
    assert_eq!(value(Reduction::Variance { correction: 5.0 }, &[1.0, 2.0, 4.0]), INF);
    assert!(value(VARIANCE, &[1.0, INF]).is_nan());
    // A large mean does not swamp a small variance, nor do many elements lose the sum.
    let shifted: Vec<f32> = (0..100_000).map(|i| 1e6 + (i % 2) as f32).collect();
    let got = run(VARIANCE, &[(100_000, 1, true)], &mut Array::of(&shifted), &[DType::F64, DType::F64]);
    assert!((got[0].at::<f64>(0) - 0.25 * 100_000.0 / 99_999.0).abs() < 1e-9);
    assert!((got[1].at::<f64>(0) - 1_000_000.5).abs() < 1e-9);
    let tenths = vec![0.1f32; 1 << 20];
    let got = run(Reduction::Sum, &[(1 << 20, 1, true)], &mut Array::of(&tenths), &[DType::F32]);
    assert_eq!(got[0].at::<f32>(0), (0.1f32 as f64 * (1 << 20) as f64) as f32);
}

#[test]
fn a_nan_anywhere_is_found() {
    // Columns and rows of lengths about those that loops are made of.
    for (rows, cols) in [(1, 64), (7, 65), (8, 64), (9, 127), (17, 190), (20, 40)] {
        for at in [0, 1, cols - 1, cols, rows * cols / 2, rows * cols - 1].into_iter().filter(|&i| i < rows * cols) {
            let mut values: Vec<f32> = (0..rows * cols).map(|i| (i * 7919 % 1009) as f32).collect();
            values[at] = f32::NAN;
            let mut input = Array::of(&values);
            for (down, across) in [(true, false), (false, true), (true, true)] {
                let dims = [(rows, cols as isize, down), (cols, 1, across)];
                for op in [Reduction::Max, Reduction::Min] {
                    check(op, &dims, &mut input, &[DType::F32], 0.0);
                }
                check(Reduction::MaxWithIndex, &dims, &mut input, &[DType::F32, DType::I64], 0.0);
            }
        }
    }
}

#[test]
fn equal_rows_have_equal_results() {
    // Rows that are folded as they lie, of lengths about those that loops are made of, end to end and apart, with results
    // that are not exact.
    const ROWS: usize = 70;
    for n in [24, 40, 49, 63, 64, 65, 100, 128, 200] {
        for gap in [0, 3].into_iter().filter(|&gap| gap == 0 || n >= 64) {
            let value = |i: usize| if i < n { 1.0 / (i + 3) as f64 } else { f64::NAN };
            let mut input = Array::of(&(0..ROWS * (n + gap)).map(|i| value(i % (n + gap))).collect::<Vec<f64>>());
            let dims = [(ROWS, (n + gap) as isize, false), (n, 1, true)];
            for op in [Reduction::Sum, Reduction::Product, Reduction::Norm(2.0), Reduction::LogSumExp, VARIANCE] {
                check(op, &dims, &mut input, &[DType::F64], 1e-12);
                let got = run(op, &dims, &mut input, &[DType::F64]);
                let bits = |i| got[0].at::<f64>(i).to_bits();
                assert!((0..ROWS).all(|i| bits(i) == bits(0)), "{op:?} of rows of {n}");
            }
        }
    }
}

#[test]
fn sums_of_runs_do_not_depend_on_their_number() {
    // Four at a time or on their own; among them one of `f32` that overflows where four terms are added first, and some that
    // are infinite or NaN.
    fn check<T: Value<Sum = f64>>() {
        const ROWS: usize = 11;
        for (n, gap) in
            [(1, 0), (24, 0), (25, 3), (31, 0), (48, 5), (63, 0), (64, 0), (65, 1), (100, 0), (128, 0), (500, 2)]
        {
            let step = n + gap;
            let mut values: Vec<f64> = (0..ROWS * step).map(|i| (i * 7919 % 1013) as f64 * 0.0137 - 6.0).collect();
            for (place, value) in [(0, 2e38), (16, 2e38), (1, -2e38)].into_iter().filter(|p| p.0 < n) {
                values[2 * step + place] = value;
            }
            (values[6 * step + n - 1], values[9 * step]) = (f64::INFINITY, f64::NAN);
            for row in 0..ROWS {
                values[row * step + n..(row + 1) * step].fill(f64::NAN);
            }
            let mut values: Vec<T> = values.into_iter().map(T::from_f64).collect();
            let block = |values: &mut [T], cols| {
                let (data, col_stride) = (values.as_mut_ptr().cast(), if cols == 1 { 0 } else { step as isize });
                Block { data, rows: n, row_stride: 1, cols, col_stride, index: 0, index_step: 0, far: false }
            };
            for level in crate::math::Level::available() {
                let fold = crate::math::entry::<simple::FoldBlock<fold::Sum<T>>>(level);
                let mut sums = [1.0; ROWS];
                // SAFETY: runs of the values, and their states; the level is available.
                unsafe { fold((fold::Sum::NEW, block(&mut values, ROWS), sums.as_mut_ptr())) };
                for (row, &sum) in sums.iter().enumerate() {
                    let mut alone = 1.0;
                    // SAFETY: as above.
                    unsafe { fold((fold::Sum::NEW, block(&mut values[row * step..], 1), &mut alone)) };
                    let same = sum.to_bits() == alone.to_bits() || (sum.is_nan() && alone.is_nan());
                    assert!(same, "{:?} {level:?} {n} {row}: {sum} {alone}", T::DTYPE);
                    assert_eq!(sum.is_finite(), row != 6 && row != 9, "{:?} {level:?} {n} {row}", T::DTYPE);
                }
            }
        }
    }
    check::<f32>();
    check::<f64>();
}

/// [`fold::fold_run`] compiled per level.
struct Alone<F>(std::marker::PhantomData<F>);

impl<F: fold::Fold<Param = ()>> crate::math::Kernel for Alone<F> {
    /// The fold, and a run and its length.
    type Args = (F, *const F::In, usize);
    type Output = F::State;
    const HIGHEST: crate::math::Level = F::HIGHEST;
    #[inline(always)]
    unsafe fn run<I: crate::math::Isa>((f, x, n): Self::Args) -> F::State {
        // SAFETY: the caller's run.
        unsafe { fold::fold_run::<I, F>(f, x, n, 0, ()) }
    }
}

#[test]
fn many_runs_are_as_one() {
    fn check<F: fold::Fold<Param = ()>>(f: F) {
        const ROWS: usize = 11;
        let is_float = F::In::DTYPE.is_floating_point();
        for (n, gap) in [(1, 3), (24, 0), (25, 3), (33, 0), (63, 0), (64, 0), (65, 1), (130, 2), (8230, 0)] {
            let step = n + gap;
            let mut values: Vec<F::In> =
                (0..ROWS * step).map(|i| F::In::from_f64(((i * 7919 % 1013) as f64 - 506.0) * 0.01)).collect();
            if !is_float {
                // (Odd, so that no product is zero.)
                values = (0..ROWS * step).map(|i| F::In::from_i64(2 * (i * 7919 % 1013) as i64 - 1013)).collect();
            }
            if is_float {
                values[3 * step + n / 2] = F::In::from_f64(f64::NAN);
                values[6 * step + n - 1] = F::In::from_f64(f64::INFINITY);
                // What squares of `f32` are zero of, all of a run's elements and some.
                values[8 * step..][..n].fill(F::In::from_f64(1e-30));
                values[9 * step..][..n / 2].fill(F::In::from_f64(-1e-30));
            }
            let block = |values: &mut [F::In], cols| {
                let (data, col_stride) = (values.as_mut_ptr().cast(), if cols == 1 { 0 } else { step as isize });
                Block { data, rows: n, row_stride: 1, cols, col_stride, index: 0, index_step: 0, far: false }
            };
            assert_eq!(size_of::<F::State>(), size_of::<u64>());
            let fold = crate::math::entry::<simple::FoldBlock<F>>(crate::math::level());
            let fold_one = crate::math::entry::<Alone<F>>(crate::math::level());
            let mut states = [F::IDENTITY; ROWS];
            // SAFETY: runs of the values, and their states; the level is available.
            unsafe { fold((f, block(&mut values, ROWS), states.as_mut_ptr())) };
            for (row, state) in states.iter().enumerate() {
                // SAFETY: as above; a state is eight bytes.
                let bits = unsafe {
                    let alone = f.merge(F::IDENTITY, fold_one((f, values[row * step..].as_ptr(), n)));
                    [(&raw const *state).cast::<u64>().read(), (&raw const alone).cast::<u64>().read()]
                };
                let nan = is_float && bits.iter().all(|&bits| f64::from_bits(bits).is_nan());
                assert!(nan || bits[0] == bits[1], "{:?} {n} {row}: {bits:x?}", F::In::DTYPE);
            }
        }
    }
    check(fold::Sum::<f32>::NEW);
    check(fold::Sum::<f64>::NEW);
    check(fold::Sum::<i64>::NEW);
    check(halves::SumBf16);
    check(halves::SumF16);
    check(fold::Product::<f32>::NEW);
    check(fold::Product::<f64>::NEW);
    check(fold::Product::<i64>::NEW);
    check(fold::NanSum::<f32>::NEW);
    check(fold::NanSum::<f64>::NEW);
    check(fold::SumSquares::<f32>::NEW);
    check(fold::SumSquares::<f64>::NEW);
}

#[test]
fn norms_of_what_has_no_squares() {
    // Squares that are zero or infinite as `f32`: a run, many short and long ones, and columns; and a norm of more digits.
    for (rows, n) in [(1, 3), (1, 100), (9, 30), (9, 100), (9, 5000), (1, 200_000)] {
        for scale in [0.0, 1e-36, 2e-30, 3e-14, 1e-5, 2e19, 3e30] {
            let values: Vec<f32> = (0..rows * n).map(|i| (1 + i * 7919 % 1013) as f32 * 1e-3 * scale).collect();
            let mut input = Array::of(&values);
            for (down, dtype, tolerance) in
                [(false, DType::F32, 1e-6), (false, DType::F64, 1e-11), (true, DType::F32, 1e-6)]
            {
                let dims = [(rows, n as isize, down), (n, 1, !down)];
                let got = run(Reduction::Norm(2.0), &dims, &mut input, &[dtype]);
                for (i, x) in elements(&dims, &input).iter().enumerate() {
                    let (norm, want) = (got[0].get(i).re, x.iter().map(|x| x.re * x.re).sum::<f64>().sqrt());
                    assert!((norm - want).abs() <= tolerance * want, "{dims:?} {dtype:?} {scale}: {norm} for {want}");
                }
            }
        }
    }
}

#[test]
fn variance_keeps_its_digits() {
    // The first element, from which distances are taken, far from the others; a mean far from zero; infinities.
    let spread = |i: usize| (i * 7919 % 1009) as f64 / 1009.0;
    for (first, offset) in [(1e9, 0.0), (-1e6, 1e6), (0.5, 1e8), (1e15, 1e15)] {
        let mut values: Vec<f64> = (0..5000).map(|i| offset + spread(i)).collect();
        values[0] = first;
        let mean = values.iter().map(|x| x - offset).sum::<f64>() / 5000.0;
        let want = values.iter().map(|x| (x - offset - mean).powi(2)).sum::<f64>() / 4999.0;
        let got = run(VARIANCE, &[(5000, 1, true)], &mut Array::of(&values), &[DType::F64, DType::F64]);
        assert!(
            (got[0].at::<f64>(0) / want - 1.0).abs() < 1e-9,
            "{first} {offset}: {} for {want}",
            got[0].at::<f64>(0)
        );
        assert!((got[1].at::<f64>(0) - offset - mean).abs() <= 1e-15 * (offset + mean).abs());
    }
    let got = run(VARIANCE, &[(100, 1, true)], &mut Array::of(&[f32::INFINITY; 100]), &[DType::F32, DType::F32]);
    assert!(got[0].at::<f32>(0).is_nan() && got[1].at::<f32>(0) == f32::INFINITY);
}

#[test]
fn variance_of_many_narrow_elements() {
    // Near the first elements and far from them, rising, of two values, alike, and with squares that `f32` does not hold.
    let spread = |i: usize| (i * 7919 % 10007) as f32 / 10007.0;
    let kinds: [(&str, &dyn Fn(usize) -> f32); 9] = [
        ("spread", &|i| spread(i) - 0.3),
        ("far from zero", &|i| 1000.0 + spread(i)),
        ("rising", &|i| i as f32 * 0.37),
        ("a first few far out", &|i| if i < 7000 { 3e5 + spread(i) } else { spread(i) }),
        ("two values", &|i| if spread(i) < 0.4 { 0.1 } else { 0.7 }),
        ("alike", &|_| 0.1),
        ("small", &|i| spread(i) * 1e-17),
        ("large", &|i| spread(i) * 3e17 * if i % 1000 == 0 { 1e2 } else { 1.0 }),
        ("one not finite", &|i| if i == 1500 * 300 - 2 { f32::NAN } else { spread(i) }),
    ];
    for (name, kind) in kinds {
        let mut input = Array::of(&(0..1500 * 300).map(kind).collect::<Vec<f32>>());
        for (rows, cols) in
            [(1500, 300), (255, 100), (256, 64), (129, 129), (1000, 333), (300, 1500), (3, 150_000), (50, 8193)]
        {
            for down in [false, true] {
                let dims = [(rows, cols as isize, down), (cols, 1, !down)];
                let got = run(VARIANCE, &dims, &mut input, &[DType::F32, DType::F32]);
                for (i, x) in elements(&dims, &input).iter().enumerate() {
                    let mean = x.iter().map(|x| x.re).sum::<f64>() / x.len() as f64;
                    let want = x.iter().map(|x| (x.re - mean).powi(2)).sum::<f64>() / (x.len() as f64 - 1.0);
                    let close = |a: f64, b: f64| (a - b).abs() <= 3e-7 * b.abs() || a.is_nan() && b.is_nan();
                    let (a, b) = (got[0].get(i).re, got[1].get(i).re);
                    assert!(close(a, want) && close(b, mean), "{name} {dims:?} {i}: {a} for {want}, {b} for {mean}");
                }
            }
        }
    }
}

#[test]
fn extremes_of_long_columns_and_runs() {
    // Falling and rising, so that the best is first, or every element better; ties; and a last one, or NaN, that is best.
    let (rows, cols) = (1303, 83);
    let spread = |i: usize| (i * 7919 % 1009) as f32;
    for kind in 0..5 {
        let values = (0..rows * cols).map(|i| match kind {
            0 => -(i as f32),
            1 => i as f32,
            2 => spread(i / cols) - spread(i % cols),
            3 if i / cols == rows - 1 && i % 3 == 0 => 2000.0,
            4 if (i / cols == 600 || i / cols == 1200) && i % 5 == 0 => f32::NAN,
            _ => spread(i),
        });
        let mut input = Array::of(&values.collect::<Vec<f32>>());
        let mut wide = Array::of(&(0..rows * cols).map(|i| input.get(i).re).collect::<Vec<f64>>());
        for (input, dtype) in [(&mut input, DType::F32), (&mut wide, DType::F64)] {
            for op in [Reduction::MaxWithIndex, Reduction::MinWithIndex] {
                for dims in [
                    [(rows, cols as isize, true), (cols, 1, false)],
                    [(rows / 7, 7 * cols as isize, false), (7 * cols, 1, true)],
                    [(3, 20_000, false), (16_383, 1, true)],
                    [(3, 20_000, false), (16_385, 1, true)],
                ] {
                    check(op, &dims, input, &[dtype, DType::I64], 0.0);
                }
            }
        }
    }
}

#[test]
fn dtypes_wrap_and_convert() {
    let all = |op, mut x: Array, n, out| run(op, &[(n, 1, true)], &mut x, &[out]).remove(0);
    assert_eq!(all(Reduction::Sum, Array::of(&[200u8, 100]), 2, DType::U8).at::<u8>(0), 44);
    assert_eq!(all(Reduction::Sum, Array::of(&[i64::MAX, 1]), 2, DType::I64).at::<i64>(0), i64::MIN);
    assert_eq!(all(Reduction::Sum, Array::of(&[u64::MAX, 0]), 2, DType::U64).at::<u64>(0), u64::MAX);
    assert_eq!(all(Reduction::Max, Array::of(&[1u64, u64::MAX, 2]), 3, DType::U64).at::<u64>(0), u64::MAX);
    assert_eq!(all(Reduction::ArgMin, Array::of(&[u64::MAX, 1, 2]), 3, DType::I64).at::<i64>(0), 1);
    assert_eq!(all(Reduction::Max, Array::of(&[i8::MIN, -5]), 2, DType::I8).at::<i8>(0), -5);
    assert_eq!(all(Reduction::Min, Array::of(&[i16::MAX, 300]), 2, DType::I16).at::<i16>(0), 300);
    let bytes: Vec<i8> = (0..5000).map(|i| (i % 200 - 100) as i8).collect();
    assert_eq!(all(Reduction::Min, Array::of(&bytes), 5000, DType::I64).at::<i64>(0), -100);
    assert!(all(Reduction::Sum, Array::of(&[Bool(1), Bool(1)]), 2, DType::Bool).at::<Bool>(0).get());
    assert_eq!(all(Reduction::Sum, Array::of(&[Bool(1), Bool(7)]), 2, DType::I64).at::<i64>(0), 2);
    assert!(!all(Reduction::Product, Array::of(&[Bool(1), Bool(0)]), 2, DType::Bool).at::<Bool>(0).get());
    assert_eq!(all(Reduction::Sum, Array::of(&[1.5f32, 2.75]), 2, DType::I32).at::<i32>(0), 3);
    assert_eq!(all(Reduction::Sum, Array::of(&[1i32 << 30, 3]), 2, DType::F32).at::<f32>(0), 1073741824.0);
    // More than a half can hold on the way.
    let halves = [f16::from_f32(60000.0), f16::from_f32(60000.0), f16::from_f32(-60000.0)];
    assert_eq!(all(Reduction::Sum, Array::of(&halves), 3, DType::F16).at::<f16>(0).to_f32(), 60000.0);
    let ones = vec![bf16::ONE; 1000];
    assert_eq!(all(Reduction::Sum, Array::of(&ones), 1000, DType::F32).at::<f32>(0), 1000.0);
    let z = [Complex::new(1.0f32, 2.0), Complex::new(3.0, -1.0), Complex::new(2.0, 0.0)];
    assert!((all(VARIANCE, Array::of(&z), 3, DType::F32).at::<f32>(0) - 10.0 / 3.0).abs() < 1e-6);
    assert_eq!(all(Reduction::Sum, Array::of(&z), 3, DType::F64).at::<f64>(0), 6.0);
}

#[test]
fn nothing_to_reduce() {
    let empty = |op, out| run(op, &[(3, 0, false), (0, 1, true)], &mut Array::new(DType::F32, 0), &[out])[0].get(2).re;
    assert_eq!(empty(Reduction::Sum, DType::F32), 0.0);
    assert_eq!(empty(Reduction::Product, DType::F32), 1.0);
    assert!(empty(Reduction::Mean, DType::F32).is_nan());
    assert!(empty(VARIANCE, DType::F32).is_nan());
    assert_eq!(empty(Reduction::Any, DType::Bool), 0.0);
    assert_eq!(empty(Reduction::All, DType::Bool), 1.0);
    assert_eq!(empty(Reduction::LogSumExp, DType::F32), f64::NEG_INFINITY);
    assert_eq!(empty(Reduction::Norm(2.0), DType::F32), 0.0);
    // No outputs.
    run(Reduction::Sum, &[(0, 5, false), (5, 1, true)], &mut Array::new(DType::F32, 0), &[DType::F32]);
}

#[test]
fn unaligned_input() {
    let mut x = Array::new(DType::U8, 64);
    // SAFETY: 1 + 10 * 4 bytes fit.
    let sum = unsafe {
        let data = x.data().add(1);
        for i in 0..10 {
            data.add(4 * i).cast::<f32>().write_unaligned(i as f32);
        }
        let mut sum = 0.0f32;
        let out = Operand { data: (&raw mut sum).cast(), dtype: DType::F32 };
        let shape = ReduceShape { kept: &[], reduced: &[ReducedDim { size: 10, stride: 4 }] };
        reduce(Reduction::Sum, shape, Operand { data, dtype: DType::F32 }, &[out]);
        sum
    };
    assert_eq!(sum, 45.0);
}

#[test]
fn threads_do_not_change_bits() {
    let n = 500_000;
    let v: Vec<f64> = (0..n).map(|i| ((i * 7919) % 10007) as f64 * 0.1).collect();
    let mut x = Array::of(&v);
    let before = flambeau_base::parallel::num_threads();
    for dims in [vec![(n, 1, true)], vec![(n / 500, 500, true), (500, 1, false)]] {
        for op in [Reduction::Sum, VARIANCE, Reduction::LogSumExp, Reduction::MaxWithIndex] {
            let outs = output_dtypes(op, DType::F64).unwrap();
            let results = [1, 2, 5].map(|t| {
                flambeau_base::parallel::set_num_threads(t);
                let outputs = run(op, &dims, &mut x, &outs);
                outputs.iter().map(|output| output.get(0).re.to_bits()).collect::<Vec<u64>>()
            });
            assert!(results.iter().all(|r| *r == results[0]), "{op:?}");
        }
    }
    flambeau_base::parallel::set_num_threads(before);
}
