use super::*;
use flambeau_base::dtype::cast;
use flambeau_base::{bf16, f16};

scanned! { f16 => f64, to_f64, from_f64; bf16 => f64, to_f64, from_f64; }

fn data<T: Element>(n: usize) -> Vec<T> {
    (0..n).map(|i| T::from_f64(((i * 7919) % 13) as f64 - if T::DTYPE.is_signed() { 6.0 } else { 0.0 })).collect()
}

/// Scans (outer, n, inner), in the contiguous layout and along a transposed one, against a plain loop.
fn check<S: Element, T: Scanned>(op: ScanOp, shape: [usize; 3], tolerance: f64)
where
    Sum: Operator<T::Accumulator>,
    Prod: Operator<T::Accumulator>,
{
    let [outer, n, inner] = shape;
    let src = data::<S>(outer * n * inner);
    let sizes = [outer as i64, n as i64, inner as i64];
    let strides = |size: usize, swap: bool| {
        let s = size as isize;
        let (n, inner) = (n as isize, inner as isize);
        if swap { [n * inner * s, s, n * s] } else { [n * inner * s, inner * s, s] }
    };
    for (from, to) in [(false, false), (true, false), (false, true)] {
        let (ss, ds) = (strides(size_of::<S>(), from), strides(size_of::<T>(), to));
        let mut out = vec![T::default(); src.len()];
        // SAFETY: buffers of this shape.
        unsafe {
            let dst = (out.as_mut_ptr().cast(), &ds[..], T::DTYPE);
            scan(op, &sizes, 1, dst, (src.as_ptr().cast(), &ss[..], S::DTYPE));
        }
        for a in 0..outer {
            for c in 0..inner {
                let at = |b: usize, swap: bool| a * n * inner + if swap { c * n + b } else { b * inner + c };
                let mut carry = if op == ScanOp::Sum { Sum::NEUTRAL } else { Prod::NEUTRAL };
                for b in 0..n {
                    let x = cast::<S, T>(src[at(b, from)]).widen();
                    carry = if op == ScanOp::Sum { Sum::combine(carry, x) } else { Prod::combine(carry, x) };
                    let (got, want) = (out[at(b, to)].to_c128(), T::narrow(carry).to_c128());
                    assert!(
                        (got - want).norm() <= tolerance * (1.0 + want.norm()),
                        "{shape:?} {a} {b} {c}: {got} {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn sums_and_products() {
    for shape in [
        [1, 1, 1],
        [3, 0, 2],
        [2, 700, 1],
        [3, 37, 5],
        [2, 9, 300],
        [1, 300_007, 1],
        [70, 1, 3],
        [71, 33, 1],
        [6, 700, 1],
        [2, 40, 6],
        [2, 9, 1100],
        [1, 30, 2500],
    ] {
        check::<f32, f32>(ScanOp::Sum, shape, 1e-6);
        check::<i8, i64>(ScanOp::Sum, shape, 0.0);
        check::<bf16, bf16>(ScanOp::Sum, shape, 1e-2);
        check::<i64, f16>(ScanOp::Sum, shape, 1e-3);
        check::<f64, f64>(ScanOp::Sum, shape, 1e-12);
        check::<u8, f64>(ScanOp::Sum, shape, 1e-12);
        check::<Complex<f32>, Complex<f32>>(ScanOp::Sum, shape, 1e-6);
        check::<i32, i64>(ScanOp::Prod, shape, 0.0);
    }
    check::<f32, f32>(ScanOp::Prod, [2, 30, 7], 1e-6);
    check::<f64, f64>(ScanOp::Prod, [2, 7, 1], 1e-12);
    check::<Bool, i64>(ScanOp::Sum, [1, 300_007, 1], 0.0);
}

/// Halves in rows and short lines, where they lie.
#[test]
fn in_place() {
    for (sizes, dim) in [([300i64, 33], 0), ([300, 33], 1), ([40, 200], 0), ([40, 200], 1)] {
        let x: Vec<bf16> = data(sizes.iter().product::<i64>() as usize);
        let (mut apart, mut same) = (x.clone(), x.clone());
        let strides = [2 * sizes[1] as isize, 2];
        // SAFETY: arrays of these sizes; the second is scanned in place.
        unsafe {
            let to = (apart.as_mut_ptr().cast(), &strides[..], DType::BF16);
            scan(ScanOp::Sum, &sizes, dim, to, (x.as_ptr().cast(), &strides, DType::BF16));
            let to: (*mut u8, _, _) = (same.as_mut_ptr().cast(), &strides[..], DType::BF16);
            scan(ScanOp::Sum, &sizes, dim, to, (to.0.cast_const(), &strides, DType::BF16));
        }
        assert!(apart != x && apart == same, "{sizes:?} along {dim}");
    }
}

#[test]
fn log_sums() {
    let src = [f64::NEG_INFINITY, f64::NEG_INFINITY, 1.0, 2.0, 800.0, f64::INFINITY, f64::INFINITY, f64::NAN, 1.0];
    let mut out = [0f32; 9];
    // SAFETY: two arrays of nine.
    unsafe {
        let src = (src.as_ptr().cast(), &[8isize][..], DType::F64);
        scan(ScanOp::LogSumExp, &[9], 0, (out.as_mut_ptr().cast(), &[4], DType::F32), src);
    }
    assert_eq!(out[0], f32::NEG_INFINITY);
    assert_eq!(out[1], f32::NEG_INFINITY);
    assert_eq!(out[2], 1.0);
    assert!((out[3] - (1f32.exp() + 2f32.exp()).ln()).abs() < 1e-6);
    assert_eq!(out[4], 800.0);
    assert_eq!(out[6], f32::INFINITY);
    assert!(out[7].is_nan() && out[8].is_nan());
    let z = [Complex::new(1.0, 2.0), Complex::new(0.5, -1.0)];
    let mut w = [Complex::new(0.0f64, 0.0); 2];
    // SAFETY: two arrays of two.
    unsafe {
        let src = (z.as_ptr().cast(), &[16isize][..], DType::Complex128);
        scan(ScanOp::LogSumExp, &[2], 0, (w.as_mut_ptr().cast(), &[16], DType::Complex128), src);
    }
    assert!((w[1] - (z[0].exp() + z[1].exp()).ln()).norm() < 1e-12);
}

/// Lines short and long, end to end and side by side, against the definition, with numbers that have ways of their own.
#[test]
fn log_sums_of_lines() {
    fn check<T: Scanned<Accumulator = f64>>(tolerance: f64) {
        let special = [f64::NEG_INFINITY, f64::NEG_INFINITY, 800.0, -900.0, f64::INFINITY, f64::NAN];
        for (rows, n) in [(70usize, 1usize), (70, 3), (65, 7), (3, 10), (130, 24), (5, 25), (4, 64), (9, 100), (2, 200)]
        {
            let x: Vec<T> = (0..rows * n)
                .map(|i| match i % 17 == 0 && i / n % 3 == 0 {
                    true => special[i / 17 % special.len()],
                    false => ((i * 7919) % 1013) as f64 * 0.01 - 5.0,
                })
                .map(T::from_f64)
                .collect();
            for dim in 0..2 {
                let mut out = vec![T::default(); rows * n];
                let strides = [(size_of::<T>() * n) as isize, size_of::<T>() as isize];
                // SAFETY: arrays of these sizes.
                unsafe {
                    let src = (x.as_ptr().cast(), &strides[..], T::DTYPE);
                    let dst = (out.as_mut_ptr().cast(), &strides[..], T::DTYPE);
                    scan(ScanOp::LogSumExp, &[rows as i64, n as i64], dim, dst, src);
                }
                let mut carries = vec![f64::NEG_INFINITY; rows * n];
                for i in 0..rows * n {
                    let carry = &mut carries[if dim == 0 { i % n } else { i / n }];
                    *carry = LogSumExp::combine(*carry, x[i].widen());
                    let (got, want) = (out[i].to_f64(), *carry);
                    let same = got == want || (got.is_nan() && want.is_nan());
                    let near = (got - want).abs() <= tolerance * (1.0 + want.abs());
                    assert!(same || near, "{} {rows} x {n} along {dim}, {i}: {got} {want}", T::DTYPE);
                }
            }
        }
    }
    check::<f32>(1e-6);
    check::<f64>(1e-13);
}

/// Columns that are few: all rows are one call.
#[test]
fn few_columns() {
    for shape in [[1, 400, 4], [3, 40, 7], [2, 50, 16], [1, 60, 33], [1, 30, 64], [1, 30, 65]] {
        check::<f32, f32>(ScanOp::Sum, shape, 1e-6);
        check::<f64, f64>(ScanOp::Sum, shape, 1e-12);
        check::<i32, i32>(ScanOp::Sum, shape, 0.0);
        check::<i64, i64>(ScanOp::Prod, shape, 0.0);
        check::<Complex<f64>, Complex<f64>>(ScanOp::Sum, shape, 1e-12);
    }
}

#[test]
fn extremes() {
    let nan = f32::NAN;
    let src = [1.0, 2.0, 2.0, nan, 3.0, nan];
    for lines in [1usize, 5] {
        let n = src.len();
        // `lines` interleaved copies.
        let all: Vec<f32> = src.iter().flat_map(|&x| vec![x; lines]).collect();
        let (mut values, mut indices) = (vec![0f32; n * lines], vec![-1i64; n * lines]);
        // SAFETY: buffers of this shape.
        unsafe {
            let s = [4 * lines as isize, 4];
            let values = (values.as_mut_ptr().cast(), &s[..]);
            let indices = (indices.as_mut_ptr().cast(), &[8 * lines as isize, 8][..]);
            let src = (all.as_ptr().cast(), &s[..]);
            cumulative_extreme(true, &[n as i64, lines as i64], 0, values, indices, src, DType::F32);
        }
        for j in 0..lines {
            let line: Vec<i64> = (0..n).map(|i| indices[i * lines + j]).collect();
            assert_eq!(line, [0, 1, 2, 3, 3, 5]);
            let line: Vec<f32> = (0..n).map(|i| values[i * lines + j]).collect();
            assert_eq!(line[..3], [1.0, 2.0, 2.0]);
            assert!(line[3..].iter().all(|x| x.is_nan()));
        }
    }
    let halves = [1.0, 3.0, -2.0, 3.0, 7.0].map(bf16::from_f64);
    let (mut values, mut indices) = ([bf16::ZERO; 5], [0i64; 5]);
    // SAFETY: buffers of this shape.
    unsafe {
        let values = (values.as_mut_ptr().cast(), &[2isize][..]);
        let indices = (indices.as_mut_ptr().cast(), &[8isize][..]);
        cumulative_extreme(true, &[5], 0, values, indices, (halves.as_ptr().cast(), &[2]), DType::BF16);
    }
    assert_eq!((values.map(|x| x.to_f32()), indices), ([1.0, 3.0, 3.0, 3.0, 7.0], [0, 1, 1, 3, 4]));
    let (mut values, mut indices) = ([0u8; 4], [0i64; 4]);
    // SAFETY: buffers of this shape.
    unsafe {
        let values = (values.as_mut_ptr(), &[1isize][..]);
        let indices = (indices.as_mut_ptr().cast(), &[8isize][..]);
        cumulative_extreme(false, &[4], 0, values, indices, ([2u8, 1, 1, 0].as_ptr(), &[1]), DType::U8);
    }
    assert_eq!((values, indices), ([2, 1, 1, 0], [0, 1, 2, 3]));
}

/// Pieces of neighbouring lines depend on the number of threads, down to single ones; results do not.
#[test]
fn threads_do_not_change_bits() {
    let (outer, n, inner) = (2usize, 4096usize, 50usize);
    let x: Vec<f32> = (0..outer * n * inner)
        .map(|i| (((i * 7919) % 10_007) as f32 - 5000.0) * if i % 977 == 0 { 1e12 } else { 0.1 })
        .collect();
    let before = flambeau_base::parallel::num_threads();
    for op in [ScanOp::Sum, ScanOp::LogSumExp] {
        let results = [1, 2, 3, 5].map(|threads| {
            flambeau_base::parallel::set_num_threads(threads);
            let mut out = vec![0f32; x.len()];
            let strides = [4 * (n * inner) as isize, 4 * inner as isize, 4];
            // SAFETY: arrays of these sizes.
            unsafe {
                let to = (out.as_mut_ptr().cast(), &strides[..], DType::F32);
                let sizes = [outer, n, inner].map(|s| s as i64);
                scan(op, &sizes, 1, to, (x.as_ptr().cast(), &strides, DType::F32));
            }
            out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        });
        assert!(results.iter().all(|r| *r == results[0]), "{op:?}");
    }
    flambeau_base::parallel::set_num_threads(before);
}
