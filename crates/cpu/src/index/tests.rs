use super::*;
use flambeau_base::{Bool, Complex, Element, bf16, f16};

fn bytes<T>(x: &[T]) -> *const u8 {
    x.as_ptr().cast()
}
fn bytes_mut<T>(x: &mut [T]) -> *mut u8 {
    x.as_mut_ptr().cast()
}
/// Reproducible numbers below `limit`.
fn numbers(n: usize, limit: i64, seed: u64) -> Vec<i64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as i64) % limit
        })
        .collect()
}
/// (outer, position along dim, inner) loops over a 3-d shape.
fn positions(sizes: &[i64]) -> Vec<[usize; 3]> {
    let mut out = Vec::new();
    for a in 0..sizes[0] as usize {
        for b in 0..sizes[1] as usize {
            for c in 0..sizes[2] as usize {
                out.push([a, b, c]);
            }
        }
    }
    out
}
fn flat(sizes: &[i64], at: [usize; 3]) -> usize {
    (at[0] * sizes[1] as usize + at[1]) * sizes[2] as usize + at[2]
}

fn gather_and_scatter<T: Element>(value: impl Fn(i64) -> T, sum: impl Fn(T, T) -> T) {
    let size = size_of::<T>();
    for (sizes, dim, limit) in [
        ([3i64, 40, 5], 1, 7i64),
        ([300, 2, 17], 0, 9),
        ([20, 3, 1100], 2, 50),
        ([1, 1, 5000], 2, 13),
        ([1, 700, 7], 2, 7),
        ([90, 2, 3], 2, 5),
        ([40, 3, 4], 1, 6),
        ([4, 0, 3], 1, 2),
    ] {
        let mut src_sizes = sizes;
        src_sizes[dim] = limit;
        let n = sizes.iter().product::<i64>() as usize;
        let m = src_sizes.iter().product::<i64>() as usize;
        let mut index = numbers(n, limit, 7);
        for i in index.iter_mut().step_by(3) {
            *i -= limit;
        }
        let src: Vec<T> = (0..m as i64).map(|i| value(i % 100)).collect();
        let mut out = vec![T::default(); n];
        let (strides, src_strides) = (contiguous_strides(&sizes, size), contiguous_strides(&src_sizes, size));
        let index_strides = contiguous_strides(&sizes, 8);
        let wrapped = |p: usize| (index[p] + if index[p] < 0 { limit } else { 0 }) as usize;
        let there = |at: [usize; 3]| {
            let mut to = at;
            to[dim] = wrapped(flat(&sizes, at));
            flat(&src_sizes, to)
        };
        // SAFETY: buffers of these shapes.
        unsafe {
            gather(
                &sizes,
                dim,
                (bytes_mut(&mut out), &strides),
                (bytes(&src), &src_strides),
                limit,
                (bytes(&index), &index_strides, DType::I64),
                size,
                true,
            )
            .unwrap();
        }
        for at in positions(&sizes) {
            assert_eq!(out[flat(&sizes, at)], src[there(at)], "gather {sizes:?} {at:?}");
        }
        let values: Vec<T> = (0..n as i64).map(|i| value(i % 90)).collect();
        let (mut put, mut added) = (src.clone(), src.clone());
        let (mut want_put, mut want_added) = (src.clone(), src.clone());
        // SAFETY: buffers of these shapes.
        unsafe {
            let index = (bytes(&index), &index_strides[..], DType::I64);
            let source = (bytes(&values), &strides[..]);
            scatter(&sizes, dim, (bytes_mut(&mut put), &src_strides), limit, source, index, T::DTYPE, None, true)
                .unwrap();
            let dst = (bytes_mut(&mut added), &src_strides[..]);
            scatter(&sizes, dim, dst, limit, source, index, T::DTYPE, Some((ReduceOp::Sum, true)), true).unwrap();
        }
        for at in positions(&sizes) {
            let (i, j) = (flat(&sizes, at), there(at));
            want_put[j] = values[i];
            want_added[j] = sum(want_added[j], values[i]);
        }
        assert!(put == want_put, "scatter {sizes:?}");
        assert!(added == want_added, "scatter_add {sizes:?}");
    }
}

#[test]
fn gathers_and_scatters() {
    gather_and_scatter(|i| i as f32, |a, b| a + b);
    gather_and_scatter(|i| i as u8, |a, b| a.wrapping_add(b));
    gather_and_scatter(|i| bf16::from_f32(i as f32), |a, b| bf16::from_f32(a.to_f32() + b.to_f32()));
    let rounded = |a: f16, b: f16| f16::from_f32(a.to_f32() + b.to_f32());
    gather_and_scatter(|i| f16::from_f32(i as f32), rounded);
    gather_and_scatter(|i| Complex::new(i as f64, 1.0), |a, b| a + b);
    gather_and_scatter(|i| i, |a, b| a + b);
}

#[test]
fn rows() {
    // Rows of every width: widened elements, copied rows, and rows long enough to split.
    for width in [1usize, 2, 3, 4, 16, 100, 40_000] {
        let (table_rows, count) = (7usize, 33usize);
        let table: Vec<f32> = (0..table_rows * width).map(|i| i as f32).collect();
        let index: Vec<i32> = numbers(count, 7, 3).iter().map(|&i| i as i32).collect();
        let mut out = vec![0f32; count * width];
        let strides = [4 * width as isize, 4];
        let sizes = [count as i64, width as i64];
        let operand = (bytes(&index), 4, DType::I32);
        // SAFETY: buffers of these shapes.
        unsafe {
            index_select(&sizes, 0, (bytes_mut(&mut out), &strides), (bytes(&table), &strides), 7, operand, 4, false)
                .unwrap();
        }
        for k in 0..count {
            assert_eq!(out[k * width..][..width], table[index[k] as usize * width..][..width], "{width}");
        }
        let (mut copied, mut added, mut grad) = (table.clone(), table.clone(), table.clone());
        // SAFETY: buffers of these shapes.
        unsafe {
            let src = (bytes(&out), &strides[..]);
            index_copy(&sizes, 0, (bytes_mut(&mut copied), &strides), 7, src, operand, DType::F32, false, false)
                .unwrap();
            index_copy(&sizes, 0, (bytes_mut(&mut added), &strides), 7, src, operand, DType::F32, true, false).unwrap();
            let index = (operand.0, DType::I32);
            embedding_backward(bytes_mut(&mut grad), 7, width, src.0, index, count, DType::F32, Some(2), true).unwrap();
        }
        assert_eq!(copied, table);
        for row in 0..table_rows {
            let times = index.iter().filter(|&&i| i as usize == row).count() as f32;
            for j in 0..width {
                let x = table[row * width + j];
                let close = |got: f32, want: f32| (got - want).abs() <= 1e-4 * want.abs();
                assert!(close(added[row * width + j], x * (1.0 + times)), "index_add {width} {row}");
                let want = if row == 2 || times == 0.0 { 0.0 } else { x };
                assert!(close(grad[row * width + j], want), "embedding {width} {row}");
            }
        }
        let mut filled = table.clone();
        let mut value = [0u8; 16];
        value[..4].copy_from_slice(&9.5f32.to_ne_bytes());
        // SAFETY: buffers of these shapes.
        unsafe {
            let everywhere = (value.as_ptr(), &[0, 0][..]);
            let dst = (bytes_mut(&mut filled), &strides[..]);
            index_copy(&sizes, 0, dst, 7, everywhere, operand, DType::F32, false, false).unwrap();
        }
        for row in 0..table_rows {
            let hit = index.contains(&(row as i32));
            let want = |j: usize| if hit { 9.5 } else { table[row * width + j] };
            assert!((0..width).all(|j| filled[row * width + j] == want(j)));
        }
    }
}

#[test]
fn advanced() {
    // x[i, :, j] for x of (5, 3, 6), i of (4, 1), j of (2,): broadcast to (4, 2), then the rest (3).
    let x: Vec<f32> = (0..90).map(|i| i as f32).collect();
    let (i, j) = ([0i64, -1, 2, 2], [5i64, 1]);
    let sizes = [4i64, 2, 3];
    let mut out = vec![0f32; 24];
    let strides = contiguous_strides(&sizes, 4);
    let operands = [
        IndexOperand { data: bytes(&i), strides: &[8, 0, 0], dtype: DType::I64, size: 5, step: 72 },
        IndexOperand { data: bytes(&j), strides: &[0, 8, 0], dtype: DType::I64, size: 6, step: 4 },
    ];
    let rest = [0isize, 0, 24];
    // SAFETY: buffers of these shapes.
    unsafe { index(&sizes, (bytes_mut(&mut out), &strides), (bytes(&x), &rest), &operands, 4, true).unwrap() };
    let mut put = x.clone();
    let mut sum = x.clone();
    let (mut want_put, mut want_sum) = (x.clone(), x.clone());
    // SAFETY: buffers of these shapes.
    unsafe {
        index_put(&sizes, (bytes_mut(&mut put), &rest), (bytes(&out), &strides), &operands, DType::F32, false, true)
            .unwrap();
        let dst = (bytes_mut(&mut sum), &rest[..]);
        index_put(&sizes, dst, (bytes(&out), &strides), &operands, DType::F32, true, true).unwrap();
    }
    for at in positions(&sizes) {
        let from = ((i[at[0]] + 5) % 5 * 18) as usize + at[2] * 6 + j[at[1]] as usize;
        let value = out[flat(&sizes, at)];
        assert_eq!(value, x[from]);
        want_put[from] = value;
        want_sum[from] += value;
    }
    assert_eq!(put, want_put);
    assert_eq!(sum, want_sum);
    // Flat positions of a transposed tensor.
    let at = [1i64, -1, 17];
    let mut taken = [0f32; 3];
    // SAFETY: buffers of these shapes.
    unsafe {
        let src = (bytes(&x), &[4isize, 72][..], DType::F32);
        let index = (bytes(&at), &[8isize][..], DType::I64);
        take_flat(&[3], (bytes_mut(&mut taken), &[4]), &[18, 5], src, index, true).unwrap();
        // Position p of the transpose is row p / 5, column p % 5: element (p % 5) * 18 + p / 5.
        assert_eq!(taken, [18.0, 89.0, 39.0]);
        let mut y = x.clone();
        let dst = (bytes_mut(&mut y), &[4isize, 72][..], DType::F32);
        put_flat(&[3], &[18, 5], dst, (bytes(&[1f32, 2.0, 3.0]), &[4]), index, false, true).unwrap();
        assert_eq!((y[18], y[89], y[39]), (1.0, 2.0, 3.0));
        put_flat(&[3], &[18, 5], dst, (bytes(&[1f32, 2.0, 3.0]), &[4]), index, true, true).unwrap();
        assert_eq!((y[18], y[89], y[39]), (2.0, 4.0, 6.0));
    }
}

/// Sums of halves are those that their conversions to `f32` and back give, one after another, in every layout that has a way of
/// its own: NaN, infinities, the sign of zero, and what rounds or overflows.
#[test]
fn sums_of_halves() {
    fn check<T: Element>(bits: impl Fn(u16) -> T, of: impl Fn(T) -> u16) {
        let special =
            [0x7c01u16, 0xfc00, 0x7c00, 0x8000, 0, 0x7e05, 0x7bff, 0x7f80, 0xff80, 0x7f81, 1, 0x8001, 0x0400, 0x3555];
        for (rows, n) in [(40usize, 7usize), (40, 1), (9, 33), (40, 4), (6, 16)] {
            let bits_at = |i: usize, seed: i64| {
                let random = numbers(1, 1 << 16, i as i64 as u64 * 3 + seed as u64)[0] as u16;
                if i.is_multiple_of(3) { special[(i / 3 + seed as usize) % special.len()] } else { random }
            };
            let old: Vec<T> = (0..rows * n).map(|i| bits(bits_at(i, 1))).collect();
            let new: Vec<T> = (0..rows * n).map(|i| bits(bits_at(i, 2))).collect();
            for dim in 0..2 {
                let sizes = [rows as i64, n as i64];
                let limit = sizes[dim];
                let strides = contiguous_strides(&sizes, size_of::<T>());
                let index = numbers(rows * n, limit, 5);
                let line = &index[..limit as usize];
                for whole in [false, true] {
                    let (mut got, mut want) = (old.clone(), old.clone());
                    let (dst, src) = ((bytes_mut(&mut got), &strides[..]), (bytes(&new), &strides[..]));
                    // SAFETY: buffers of these shapes.
                    unsafe {
                        if whole {
                            let line = (bytes(line), 8, DType::I64);
                            index_copy(&sizes, dim, dst, limit, src, line, T::DTYPE, true, false).unwrap();
                        } else {
                            let index_strides = contiguous_strides(&sizes, 8);
                            let all = (bytes(&index), &index_strides[..], DType::I64);
                            let sum = Some((ReduceOp::Sum, true));
                            scatter(&sizes, dim, dst, limit, src, all, T::DTYPE, sum, false).unwrap();
                        }
                    }
                    for i in 0..rows {
                        for j in 0..n {
                            let to = if whole { line[[i, j][dim]] } else { index[i * n + j] } as usize;
                            let to = if dim == 0 { to * n + j } else { i * n + to };
                            want[to] = T::from_f32(want[to].to_f32() + new[i * n + j].to_f32());
                        }
                    }
                    for (i, (&got, &want)) in got.iter().zip(&want).enumerate() {
                        let both_nan = got.to_f32().is_nan() && want.to_f32().is_nan();
                        assert!(of(got) == of(want) || both_nan, "{} {rows} x {n} dim {dim}, {i}", T::DTYPE);
                    }
                }
            }
        }
    }
    check(f16::from_bits, f16::to_bits);
    check(bf16::from_bits, bf16::to_bits);
}

#[test]
fn reductions() {
    let run = |op, include_self, mut dst: Vec<f32>| {
        let (index, src) = ([0i64, 0, 1, 1], [4f32, -2.0, f32::NAN, 1.0]);
        // SAFETY: buffers of these shapes.
        unsafe {
            let index = (bytes(&index), &[8isize][..], DType::I64);
            let dst = (bytes_mut(&mut dst), &[4isize][..]);
            scatter(&[4], 0, dst, 3, (bytes(&src), &[4]), index, DType::F32, Some((op, include_self)), false).unwrap();
        }
        dst
    };
    let show = |x: Vec<f32>| format!("{x:?}");
    assert_eq!(show(run(ReduceOp::Sum, true, vec![1.0, 2.0, 3.0])), "[3.0, NaN, 3.0]");
    assert_eq!(show(run(ReduceOp::Prod, false, vec![9.0, 2.0, 3.0])), "[-8.0, NaN, 3.0]");
    assert_eq!(show(run(ReduceOp::Amax, true, vec![9.0, 2.0, 3.0])), "[9.0, NaN, 3.0]");
    assert_eq!(show(run(ReduceOp::Amin, false, vec![-9.0, 2.0, 3.0])), "[-2.0, NaN, 3.0]");
    assert_eq!(show(run(ReduceOp::Mean, true, vec![7.0, 2.0, 3.0])), "[3.0, NaN, 3.0]");
    assert_eq!(show(run(ReduceOp::Mean, false, vec![7.0, 2.0, 3.0])), "[1.0, NaN, 3.0]");
    // Integers round down, as PyTorch: (5 + 1 + 2 - 20) / 4 = -3.
    let mut x = [5i64, 7];
    // SAFETY: buffers of these shapes.
    unsafe {
        let index = (bytes(&[0i64; 3]), &[8isize][..], DType::I64);
        let src = (bytes(&[1i64, 2, -20]), &[8isize][..]);
        let dst = (bytes_mut(&mut x), &[8isize][..]);
        scatter(&[3], 0, dst, 2, src, index, DType::I64, Some((ReduceOp::Mean, true)), false).unwrap();
    }
    assert_eq!(x, [-3, 7]);
}

#[test]
fn bad_indices() {
    let index = [0i64, 3, -1, 9];
    let src = [1f32, 2.0, 3.0];
    let mut out = [0f32; 4];
    let mut run = |index: &[i64], wrap| {
        // SAFETY: buffers of these shapes.
        unsafe {
            let index = (bytes(index), &[8isize][..], DType::I64);
            gather(&[4], 0, (bytes_mut(&mut out), &[4]), (bytes(&src), &[4]), 3, index, 4, wrap)
        }
    };
    assert_eq!(run(&index, true), Err(BadIndex { operand: 0, position: 1, value: 3, size: 3 }));
    assert_eq!(run(&[0, -1, 2, 9], false), Err(BadIndex { operand: 0, position: 1, value: -1, size: 3 }));
    assert_eq!(run(&[0, -3, 2, -1], true), Ok(()));
    assert_eq!(out, [1.0, 1.0, 3.0, 3.0]);
}

#[test]
fn masks() {
    for sizes in
        [vec![], vec![0i64, 3], vec![100_003], vec![31, 70, 5], vec![3, 200, 150], vec![2, 1, 2, 1, 2, 1, 2, 1, 2, 3]]
    {
        let n = sizes.iter().product::<i64>() as usize;
        for density in [1i64, 2, 10, 1000] {
            let truth: Vec<Bool> = numbers(n, density, 5).iter().map(|&x| Bool::from(x == 0)).collect();
            let data: Vec<i16> = (0..n).map(|i| i as i16).collect();
            let strides = contiguous_strides(&sizes, 2);
            // SAFETY: buffers of these shapes.
            unsafe {
                let mask_strides = contiguous_strides(&sizes, 1);
                let mask = Mask::new(&sizes, (bytes(&truth), &mask_strides, DType::Bool));
                let hits: Vec<usize> = (0..n).filter(|&i| truth[i].get()).collect();
                assert_eq!(mask.count(), hits.len());
                let mut out = vec![0i16; hits.len()];
                mask.select((bytes(&data), &strides), bytes_mut(&mut out), DType::I16);
                assert!(out.iter().zip(&hits).all(|(&x, &i)| x == i as i16));
                let mut coordinates = vec![-1i64; hits.len() * sizes.len()];
                mask.nonzero(coordinates.as_mut_ptr());
                for (k, &i) in hits.iter().enumerate() {
                    let mut rest = i as i64;
                    for d in (0..sizes.len()).rev() {
                        assert_eq!(coordinates[d * hits.len() + k], rest % sizes[d]);
                        rest /= sizes[d];
                    }
                }
                let mut back = vec![-1i16; n];
                mask.scatter((bytes_mut(&mut back), &strides), bytes(&out), DType::I16);
                let mut filled = data.clone();
                let value = [1u8; 16];
                let dst = (bytes_mut(&mut filled), &strides[..]);
                masked_fill(&sizes, dst, (bytes(&truth), &mask_strides), 2, &value);
                for i in 0..n {
                    assert_eq!(back[i], if truth[i].get() { i as i16 } else { -1 });
                    assert_eq!(filled[i], if truth[i].get() { 0x0101 } else { i as i16 });
                }
            }
        }
    }
    // Transposed values under a transposed mask of another dtype.
    let values: Vec<f64> = (0..12).map(|i| (i % 3) as f64).collect();
    // SAFETY: buffers of these shapes.
    unsafe {
        let transposed = [8isize, 24];
        let mask = Mask::new(&[3, 4], (bytes(&values), &transposed, DType::F64));
        assert_eq!(mask.count(), 8);
        let mut out = [0f64; 8];
        mask.select((bytes(&values), &transposed), bytes_mut(&mut out), DType::F64);
        assert_eq!(out, [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
        let mut y = values.clone();
        mask.scatter((bytes_mut(&mut y), &transposed), bytes(&[7f64; 8]), DType::F64);
        assert!(y.iter().enumerate().all(|(i, &v)| v == if i % 3 == 0 { 0.0 } else { 7.0 }));
    }
}

/// Rows a power of two apart go through memory of their own: the parts of a destination that is larger than the index are
/// left alone, and the others come out as if they had not.
#[test]
fn scatters_to_rows_that_fall_together() {
    let (outer, rows, width, values, columns) = (2usize, 300usize, 1024usize, 310usize, 70usize);
    let index: Vec<i64> = (0..outer * values * columns).map(|i| (i * 7919 % 1009 % rows) as i64).collect();
    let src: Vec<i32> = (0..index.len() as i32).map(|i| i % 1000 - 400).collect();
    let strides =
        |rows: usize, width: usize, size: usize| [rows * width * size, width * size, size].map(|s| s as isize);
    let before: Vec<i32> = (0..(outer * rows * width) as i32).collect();
    for reduce in [None, Some((ReduceOp::Sum, true)), Some((ReduceOp::Mean, true)), Some((ReduceOp::Mean, false))] {
        let mut got = before.clone();
        let (mut want, mut counts) = (before.clone(), vec![0i32; before.len()]);
        for (i, (&row, &value)) in index.iter().zip(&src).enumerate() {
            let at = (i / (values * columns) * rows + row as usize) * width + i % columns;
            want[at] = match reduce {
                None => value,
                Some((_, false)) if counts[at] == 0 => value,
                Some(_) => want[at] + value,
            };
            counts[at] += 1;
        }
        if let Some((ReduceOp::Mean, include_self)) = reduce {
            for (x, &count) in want.iter_mut().zip(&counts).filter(|(_, count)| **count > 0) {
                *x = x.div_euclid(count + include_self as i32);
            }
        }
        let (to, from, of_index) = (strides(rows, width, 4), strides(values, columns, 4), strides(values, columns, 8));
        let sizes = [outer as i64, values as i64, columns as i64];
        let indices = (bytes(&index), &of_index[..], DType::I64);
        // SAFETY: the arrays' own sizes and strides.
        unsafe {
            let dst = (bytes_mut(&mut got), &to[..]);
            scatter(&sizes, 1, dst, rows as i64, (bytes(&src), &from[..]), indices, DType::I32, reduce, false).unwrap();
        }
        assert_eq!(got, want, "{reduce:?}");
    }
}

/// Sums to rows, to columns, with one index for all rows and with their own: pieces depend on the number of threads. So they do
/// for few columns, side by side or apart.
#[test]
fn sums_on_any_number_of_threads() {
    const N: usize = 700;
    let index = numbers(N * N, N as i64, 5);
    let src: Vec<f32> = numbers(N * N, 1000, 6).iter().map(|&x| x as f32 * 0.1).collect();
    let before = flambeau_base::parallel::num_threads();
    for (columns, apart) in [(N, 1), (150, 1), (150, 3)] {
        let dst_strides = [4 * (N * apart) as isize, 4 * apart as isize];
        let src_strides = [4 * columns as isize, 4];
        for dim in [0, 1] {
            for index_strides in [[8 * N as isize, 8], [8, 0], [0, 8]] {
                let results = [1, 2, 7].map(|threads| {
                    flambeau_base::parallel::set_num_threads(threads);
                    let mut out = vec![0f32; N * N * apart];
                    // SAFETY: the arrays hold the sizes at these strides, and indices are in range.
                    unsafe {
                        scatter(
                            &[N as i64, columns as i64],
                            dim,
                            (bytes_mut(&mut out), &dst_strides),
                            N as i64,
                            (bytes(&src), &src_strides),
                            (bytes(&index), &index_strides, DType::I64),
                            DType::F32,
                            Some((ReduceOp::Sum, true)),
                            false,
                        )
                        .unwrap();
                    }
                    out
                });
                assert!(results[1] == results[0] && results[2] == results[0], "{columns} {dim} {index_strides:?}");
                let mut wanted = vec![0f32; N * N * apart];
                for i in 0..N {
                    for j in 0..columns {
                        let at = i as isize * index_strides[0] + j as isize * index_strides[1];
                        let at = index[at as usize / 8] as usize;
                        let (row, column) = if dim == 0 { (at, j) } else { (i, at) };
                        wanted[(row * N + column) * apart] += src[i * columns + j];
                    }
                }
                assert!(results[0] == wanted, "{columns} {dim} {index_strides:?}");
            }
        }
    }
    flambeau_base::parallel::set_num_threads(before);
}
