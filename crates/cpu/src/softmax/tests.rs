use super::*;
use crate::math::Level;
use flambeau_base::Element;
use flambeau_base::{DType, bf16, dispatch, f16};

const SHAPES: [SoftmaxShape; 28] = [
    SoftmaxShape { outer: 3, dim: 7, inner: 1 },
    SoftmaxShape { outer: 2, dim: 333, inner: 1 },
    SoftmaxShape { outer: 700, dim: 3, inner: 1 },
    SoftmaxShape { outer: 65, dim: 16, inner: 1 },
    SoftmaxShape { outer: 65, dim: 31, inner: 1 },
    SoftmaxShape { outer: 65, dim: 33, inner: 1 },
    SoftmaxShape { outer: 50, dim: 47, inner: 1 },
    SoftmaxShape { outer: 17, dim: 48, inner: 1 },
    SoftmaxShape { outer: 65, dim: 64, inner: 1 },
    SoftmaxShape { outer: 65, dim: 65, inner: 1 },
    SoftmaxShape { outer: 2, dim: 5, inner: 3 },
    SoftmaxShape { outer: 2, dim: 9, inner: 16 },
    SoftmaxShape { outer: 2, dim: 4, inner: 301 },
    SoftmaxShape { outer: 66, dim: 1, inner: 1 },
    SoftmaxShape { outer: 130, dim: 13, inner: 1 },
    SoftmaxShape { outer: 10, dim: 29, inner: 1 },
    SoftmaxShape { outer: 70, dim: 3, inner: 3 },
    SoftmaxShape { outer: 16, dim: 10, inner: 7 },
    SoftmaxShape { outer: 80, dim: 2, inner: 15 },
    SoftmaxShape { outer: 33, dim: 200, inner: 2 },
    SoftmaxShape { outer: 1, dim: 140_000, inner: 1 },
    SoftmaxShape { outer: 4, dim: 1, inner: 1 },
    SoftmaxShape { outer: 4, dim: 0, inner: 3 },
    SoftmaxShape { outer: 1, dim: 3000, inner: 40 },
    SoftmaxShape { outer: 2, dim: 1100, inner: 75 },
    // Past the caches (in tests, as small as this); lines that fall together in the caches' sets, many and few.
    SoftmaxShape { outer: 2, dim: 60, inner: 301 },
    SoftmaxShape { outer: 1, dim: 300, inner: 1024 },
    SoftmaxShape { outer: 1, dim: 40, inner: 8192 },
];

fn bytes<T>(v: &mut [T], dtype: DType) -> Operand {
    Operand { data: v.as_mut_ptr().cast(), dtype }
}

fn values<T: Element>(n: usize, scale: f64) -> Vec<T> {
    (0..n).map(|i| T::from_f64((((i * 7919) % 1009) as f64 / 504.5 - 1.0) * scale)).collect()
}

/// Rows of positions.
fn rows(s: SoftmaxShape) -> Vec<Vec<usize>> {
    let row = |o: usize, i: usize| (0..s.dim).map(|d| (o * s.dim + d) * s.inner + i).collect();
    (0..s.outer).flat_map(|o| (0..s.inner).map(move |i| row(o, i))).collect()
}

fn close(a: f64, b: f64, floor: f64, tolerance: f64) {
    assert!((a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= tolerance * b.abs().max(floor), "{a} for {b}");
}

fn check<S: Element, D: Element>(tolerance: f64) {
    for shape in SHAPES {
        let n = shape.outer * shape.dim * shape.inner;
        let mut x = values::<S>(n, 8.0);
        for log in [false, true] {
            let (mut out, mut grad_input) = (vec![D::default(); n], vec![D::default(); n]);
            let mut grad = values::<D>(n, 0.7);
            let (x, y) = (bytes(&mut x, S::DTYPE), bytes(&mut out, D::DTYPE));
            // SAFETY: all hold `n` elements.
            unsafe {
                softmax(log, shape, x, y);
                softmax_backward(log, shape, bytes(&mut grad, D::DTYPE), y, bytes(&mut grad_input, D::DTYPE));
            }
            let x: Vec<f64> = values::<S>(n, 8.0).iter().map(|v| v.to_f64()).collect();
            for row in rows(shape) {
                let max = row.iter().fold(f64::NEG_INFINITY, |m, &i| m.max(x[i]));
                let sum: f64 = row.iter().map(|&i| (x[i] - max).exp()).sum();
                let weight = |i: usize| if log { grad[i].to_f64() } else { grad[i].to_f64() * out[i].to_f64() };
                let total: f64 = row.iter().map(|&i| weight(i)).sum();
                for i in row {
                    let (y, g) = (out[i].to_f64(), grad[i].to_f64());
                    let log_y = x[i] - max - sum.ln();
                    // Logarithms near zero are differences of larger ones.
                    close(y, if log { log_y } else { log_y.exp() }, if log { 1.0 } else { 1e-2 }, tolerance);
                    let want = if log { g - y.exp() * total } else { (g - total) * y };
                    // Differences of gradients below one.
                    close(grad_input[i].to_f64(), want, 0.5, tolerance);
                }
            }
        }
    }
}

#[test]
fn every_dtype_and_shape() {
    check::<f32, f32>(3e-6);
    check::<f64, f64>(1e-13);
    check::<f16, f16>(1e-2);
    check::<bf16, bf16>(2e-2);
    check::<f16, f32>(3e-6);
    check::<i32, f32>(3e-6);
    check::<f32, f64>(1e-13);
}

#[test]
fn special_values() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    let run = |log, v: &[f32], inner: usize| {
        let mut x: Vec<f32> = v.iter().flat_map(|&e| std::iter::repeat_n(e, inner)).collect();
        let mut out = vec![0.0f32; x.len()];
        let shape = SoftmaxShape { outer: 1, dim: v.len(), inner };
        // SAFETY: both hold all elements.
        unsafe { softmax(log, shape, bytes(&mut x, DType::F32), bytes(&mut out, DType::F32)) };
        out.into_iter().step_by(inner).collect::<Vec<_>>()
    };
    for inner in [1, 3, 20] {
        for log in [false, true] {
            for v in [[-INF, -INF, -INF], [INF, 1.0, 2.0], [NAN, 1.0, 2.0], [1.0, -INF, NAN]] {
                assert!(run(log, &v, inner).iter().all(|x| x.is_nan()), "{v:?}");
            }
        }
        assert_eq!(run(false, &[-INF, 3.0, 3.0], inner), [0.0, 0.5, 0.5]);
        assert_eq!(run(true, &[-INF, 3.0], inner), [-INF, 0.0]);
    }
    // Rows of other lengths.
    for extra in [20, 40, 100] {
        let with = |v: [f32; 3]| v.into_iter().chain(std::iter::repeat_n(-INF, extra)).collect::<Vec<_>>();
        for log in [false, true] {
            for v in [[-INF, -INF, -INF], [INF, 1.0, 2.0], [NAN, 1.0, 2.0], [1.0, -INF, NAN]] {
                assert!(run(log, &with(v), 1).iter().all(|x| x.is_nan()), "{v:?} and {extra} more");
            }
        }
        assert_eq!(run(false, &with([-INF, 3.0, 3.0]), 1)[..4], [0.0, 0.5, 0.5, 0.0]);
    }
    // Pieces of a long row: one of negative infinities only, one NaN elsewhere.
    let mut long = vec![-INF; 150_000];
    long[149_999] = 1.0;
    assert_eq!(run(false, &long, 1)[149_998..], [0.0, 1.0]);
    long[3] = NAN;
    assert!(run(true, &long, 1)[149_999].is_nan());
}

#[test]
fn in_place() {
    for dtype in [DType::F32, DType::F16] {
        dispatch!(dtype, T in [floats] => {
            let (mut x, mut out) = (values::<T>(600, 3.0), vec![T::default(); 600]);
            for inner in [1, 5, 20, 100] {
                let shape = SoftmaxShape { outer: 2, dim: 300 / inner, inner };
                // SAFETY: both hold 600 elements.
                unsafe {
                    softmax(false, shape, bytes(&mut x, dtype), bytes(&mut out, dtype));
                    softmax(false, shape, bytes(&mut x, dtype), bytes(&mut x, dtype));
                }
                assert!(x == out);
            }
        }; else unreachable!());
    }
}

/// Tall columns, in several pieces and tiles, against rows of the same.
#[test]
fn tall_columns_are_as_rows() {
    for (dim, inner) in [(2100, 33), (520, 4300)] {
        let mut x = values::<f64>(dim * inner, 20.0);
        for d in 0..dim {
            let line = &mut x[d * inner..];
            line[1] = f64::NEG_INFINITY;
            line[2] = if d + 1 < dim { f64::NEG_INFINITY } else { 1.0 };
            line[3] = d as f64 / 10.0;
            if d == 70 {
                (line[4], line[5], line[6]) = (f64::NAN, f64::INFINITY, 1e300);
            }
        }
        let turned = |from: &[f64], rows: usize, cols: usize| {
            (0..rows * cols).map(|i| from[i % rows * cols + i / rows]).collect::<Vec<f64>>()
        };
        let mut rows = turned(&x, dim, inner);
        for log in [false, true] {
            let (mut out, mut row_out) = (vec![0.0f64; x.len()], vec![0.0f64; x.len()]);
            let tall = SoftmaxShape { outer: 1, dim, inner };
            assert!(tall::is_tall::<f64>(&tall));
            // SAFETY: all hold that many elements.
            unsafe {
                softmax(log, tall, bytes(&mut x, DType::F64), bytes(&mut out, DType::F64));
                let shape = SoftmaxShape { outer: inner, dim, inner: 1 };
                softmax(log, shape, bytes(&mut rows, DType::F64), bytes(&mut row_out, DType::F64));
            }
            for (a, b) in out.iter().zip(turned(&row_out, inner, dim)) {
                close(*a, b, 1e-300, 1e-13);
            }
        }
    }
}

#[test]
fn pieces_of_tall_columns_are_even_and_none_is_empty() {
    for inner in [16, 17, 33, 63, 64, 1000, 5000] {
        for dim in [1, 1024, 1025, 1500, 4096, 130_000, 1_156_500] {
            let (piece, pieces) = tall::pieces(dim, inner);
            assert!((pieces - 1) * piece < dim && dim <= pieces * piece, "{dim} lines of {inner}");
            assert!(pieces * piece - dim < pieces * LINES, "{dim} lines of {inner}");
        }
    }
    assert_eq!(tall::pieces(1500, 2000), (768, 2));
}

fn streamed<T: Float, F: RowFunction>() {
    const ROOM: usize = 2100;
    let bits = |out: &[T]| out.iter().map(|x| x.to_f64().to_bits()).collect::<Vec<_>>();
    let (mut a, b) = (values::<T>(ROOM, 3.0), values::<T>(ROOM, 0.5));
    a[40] = T::NEG_INFINITY;
    a[90] = T::from_f64(-200.0);
    for level in Level::available() {
        let row = entry::<Row<T, F>>(level);
        for n in [1, 7, 15, 16, 17, 63, 64, 65, 100, 129, 1000, 2048] {
            for shift in [0, 1, 8, 15, 16, 33] {
                let room = Scratch::<T>::new(ROOM);
                let [plain, past] = [None, Some(room.get())].map(|room| {
                    let out = Scratch::<T>::new(ROOM);
                    // SAFETY: room for all of it, and as many elements of each.
                    unsafe {
                        let all = std::slice::from_raw_parts_mut(out.get(), ROOM);
                        all.fill(T::ONE);
                        row((a.as_ptr(), b.as_ptr(), out.get().add(shift), n, room));
                        stream::finish();
                        bits(all)
                    }
                });
                assert_eq!(past, plain, "{} elements {shift} on at {level:?}", n);
            }
        }
    }
}

#[test]
fn results_past_the_caches_have_the_same_bits() {
    fn all<T: Float>() {
        streamed::<T, Softmax>();
        streamed::<T, LogSoftmax>();
        streamed::<T, SoftmaxBackward>();
        streamed::<T, LogSoftmaxBackward>();
    }
    all::<f32>();
    all::<f64>();
}

/// Columns past the caches and not, in place, and apart, wherever they begin; and nothing else is written.
#[test]
fn columns_are_the_same_wherever_their_terms_wait() {
    fn check<T: Float, F: RowFunction>() {
        let bits = |out: &[T]| out.iter().map(|x| x.to_f64().to_bits()).collect::<Vec<_>>();
        for level in Level::available() {
            let columns = entry::<Columns<T, F>>(level);
            for (dim, cols) in [(1, 16), (9, 256), (48, 5), (48, 100), (50, 64), (60, 255)] {
                for (stride, shift) in [(cols, 0), (cols + 1, 3), (cols + 37, 8), (1 << 15, 15)] {
                    let n = dim * stride + 100;
                    let mut x = values::<T>(n, 20.0);
                    (x[2], x[stride + 3]) = (T::NEG_INFINITY, T::from_f64(500.0));
                    let room = Scratch::<T>::new(columns::room(dim, cols, false).max(columns::room(dim, cols, true)));
                    let lines = |first: *mut T| Lines { first, stride };
                    let results = |past: bool, in_place: bool| {
                        let out = Scratch::<T>::new(n);
                        // SAFETY: as many elements of each, and room.
                        unsafe {
                            let all = std::slice::from_raw_parts_mut(out.get(), n);
                            all.fill(T::ONE);
                            let to = lines(out.get().add(shift));
                            let mut from = lines(x.as_ptr().cast_mut());
                            if in_place {
                                for d in 0..dim {
                                    let at = d * stride;
                                    all[shift + at..][..cols].copy_from_slice(&x[at..at + cols]);
                                }
                                from = to;
                            }
                            columns(([from, from], to, (dim, cols), room.get(), past));
                            stream::finish();
                            bits(all)
                        }
                    };
                    let plain = results(false, false);
                    let written = |i: usize| i >= shift && (i - shift) / stride < dim && (i - shift) % stride < cols;
                    assert!((0..n).all(|i| written(i) || plain[i] == T::ONE.to_f64().to_bits()));
                    for (past, in_place) in [(true, false), (false, true)] {
                        let same = results(past, in_place) == plain;
                        assert!(
                            same,
                            "{dim} lines of {cols}, {stride} apart, past {past}, in place {in_place}, {level:?}"
                        );
                    }
                }
            }
        }
    }
    check::<f32, Softmax>();
    check::<f32, LogSoftmax>();
    check::<f64, Softmax>();
    check::<f64, LogSoftmax>();
}

/// Rows beside each other against one by one, past the caches and not, wherever they begin; and nothing else is written.
#[test]
#[cfg(target_arch = "x86_64")]
fn overlapped_rows_are_as_one_by_one() {
    use crate::narrow::Narrow;
    if level() < Level::Avx512 {
        return;
    }
    fn check<E: Narrow, F: RowFunction>(floor: f64, tolerance: f64) {
        const ROOM: usize = 9000;
        let alone = entry::<Row<f32, F>>(level());
        for n in [16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200, 1000, 2048] {
            if n < E::OF_LINE {
                continue;
            }
            for (count, shift) in [(1, 0), (2, 1), (3, 8), (4, 0), (4, 15), (4, 33)] {
                let mut x = values::<E>(ROOM, 20.0);
                if count > 2 {
                    (x[n], x[2 * n - 1]) = (E::from_f32(f32::NEG_INFINITY), E::from_f32(-1e4));
                    x[3 * n] = E::from_f32(500.0);
                    x[2 * n + n / 2] = E::from_f32(if shift == 8 { -f32::NAN } else { f32::NAN });
                }
                let wide: Vec<f32> = x.iter().map(|x| x.to_f32()).collect();
                let mut expected = vec![1.0f32; ROOM];
                let [mut plain, mut in_place] = [vec![E::from_f32(1.0); ROOM], vec![E::from_f32(1.0); ROOM]];
                in_place[shift..shift + count * n].copy_from_slice(&x[..count * n]);
                let past = Scratch::<E>::new(ROOM);
                let room = Scratch::<f32>::new(2 * overlapped::room(n));
                // SAFETY: all hold as many rows, and the machine has AVX-512.
                unsafe {
                    for row in 0..count {
                        let x = wide.as_ptr().add(row * n);
                        alone((x, x, expected.as_mut_ptr().add(shift + row * n), n, None));
                    }
                    let from = x.as_ptr();
                    overlapped::rows::<E, F, false>((from, plain.as_mut_ptr().add(shift)), (count, n), room.get());
                    let to = in_place.as_mut_ptr().add(shift);
                    overlapped::rows::<E, F, false>((to.cast_const(), to), (count, n), room.get());
                    let past = std::slice::from_raw_parts_mut(past.get(), ROOM);
                    past.fill(E::from_f32(1.0));
                    overlapped::rows::<E, F, true>((from, past.as_mut_ptr().add(shift)), (count, n), room.get());
                    stream::finish();
                    for (i, (plain, &expected)) in plain.iter().zip(&expected).enumerate() {
                        close(plain.to_f64(), expected.into(), floor, tolerance);
                        for other in [in_place[i], past[i]].map(E::to_f64) {
                            let same = other == plain.to_f64() || other.is_nan() && plain.to_f64().is_nan();
                            assert!(same, "{i} of {count} x {n} from {shift}: {other} for {plain:?}");
                        }
                    }
                }
            }
        }
    }
    check::<f32, Softmax>(1e-30, 1e-6);
    check::<f32, LogSoftmax>(1.0, 1e-6);
    check::<f16, Softmax>(1e-4, 5.5e-4);
    check::<f16, LogSoftmax>(1.0, 5.5e-4);
    check::<bf16, Softmax>(1e-36, 4.1e-3);
    check::<bf16, LogSoftmax>(1.0, 4.1e-3);
    // (The rounded logarithm may be a neighbour.)
    check::<f16, LogSoftmaxOf<f16>>(1.0, 8e-3);
    check::<bf16, LogSoftmaxOf<bf16>>(1.0, 6e-2);
}

/// Gradients of rows of all lengths that are overlapped and some that are not, wherever they begin, in place, in caches and past
/// them, against those of `f64`. Nothing else is written.
#[test]
fn gradients_of_rows_beside_each_other() {
    fn check<E: Element>(tolerance: f64) {
        let seven = E::from_f64(7.0);
        for n in [64, 65, 100, 129, 300, 1000, 4096, 5000] {
            for (outer, shift) in [(1, 0), (2, 1), (3, 8), (4, 33), (70, 15)] {
                if outer * n > 60_000 {
                    continue;
                }
                let end = shift + outer * n;
                for log in [false, true] {
                    let grad = values::<E>(end + 40, 1.0);
                    let mut y = values::<E>(end + 40, if log { 4.0 } else { 0.5 });
                    if log {
                        y.iter_mut().for_each(|y| *y = E::from_f64(y.to_f64() - 4.0));
                    }
                    y[shift + n / 2] = E::from_f64(if log { f64::NEG_INFINITY } else { 0.0 });
                    if outer > 3 {
                        y[end - 3] = E::from_f64(f64::NAN);
                    }
                    let shape = SoftmaxShape { outer, dim: n, inner: 1 };
                    let wide = |v: &[E]| v[shift..].iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
                    let (mut g, mut v, mut want) = (wide(&grad), wide(&y), vec![0.0; end + 40 - shift]);
                    let double = |v: &mut Vec<f64>| bytes(v, DType::F64);
                    // SAFETY: all hold the rows.
                    unsafe { softmax_backward(log, shape, double(&mut g), double(&mut v), double(&mut want)) };
                    for place in 0..3 {
                        let (mut grad, mut y, mut out) = (grad.clone(), y.clone(), vec![seven; end + 40]);
                        let [g, v, o] = [&mut grad, &mut y, &mut out].map(|v| bytes(&mut v[shift..], E::DTYPE));
                        // SAFETY: all hold the rows; the output may be an input.
                        unsafe { softmax_backward(log, shape, g, v, [o, g, v][place]) };
                        let got = [&out, &grad, &y][place].clone();
                        for (got, want) in got[shift..end].iter().zip(&want) {
                            close(got.to_f64(), *want, 1.0, tolerance);
                        }
                        if place == 0 {
                            let others = (0..shift).chain(end..end + 40);
                            assert!(others.into_iter().all(|i| out[i] == seven), "{outer} of {n} from {shift}");
                        }
                    }
                }
            }
        }
    }
    check::<f32>(5e-6);
    check::<f16>(5.5e-4);
    check::<bf16>(4.1e-3);
}
