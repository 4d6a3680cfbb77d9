//! Every element type, layout and way through the kernels, against the loop that defines the product.

use super::kernel::{HalfKernels, Sums, bf16_kernels, f16_kernels, widening_bf16_kernels};
use super::multiply::Product;
use super::operand::{Byte, Operand, Summand};
use super::{Matrix, MatrixMut, Sizes, batched_gemm, gemm_at_offsets, gemm_typed};
use crate::math::{Level, level};
use flambeau_base::dtype::{bf16, f16};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::{Complex, DType, Element, Scalar};

/// A small pseudorandom value, exact in every type.
fn value<T: Element>(seed: usize) -> T {
    let x = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let part = |bits: u64| (bits % 7) as f64 - 3.0;
    T::from_c128(Complex::new(part(x >> 40), part(x >> 20)))
}

/// The strides of a row-major, column-major, padded or reversed matrix, the offset of its first element, its length.
fn layout(kind: usize, rows: usize, columns: usize) -> (isize, isize, usize, usize) {
    let (r, c) = (rows.max(1), columns.max(1));
    match kind {
        0 => (c as isize, 1, 0, r * c),
        1 => (1, r as isize, 0, r * c),
        2 => (2 * (c as isize + 3), 2, 0, 2 * r * (c + 3)),
        _ => (-(c as isize), 1, (r - 1) * c, r * c),
    }
}

fn check<T: Operand>(
    level: Level,
    sizes: Sizes,
    kinds: (usize, usize, usize),
    alpha: f64,
    beta: f64,
    conj: (bool, bool),
) {
    let Sizes { m, n, k } = sizes;
    let (a_row, a_column, a_start, a_len) = layout(kinds.0, m, k);
    let (b_row, b_column, b_start, b_len) = layout(kinds.1, k, n);
    let (c_row, c_column, c_start, c_len) = layout(kinds.2, m, n);
    let a: Vec<T> = (0..a_len).map(value).collect();
    let b: Vec<T> = (0..b_len).map(|i| value(i + 77)).collect();
    let old: Vec<T> = (0..c_len).map(|i| if beta == 0.0 { T::from_f64(f64::NAN) } else { value(i + 991) }).collect();
    let mut c = old.clone();
    let factor = |x: f64| {
        T::factor(if T::DTYPE.is_floating_point() || T::DTYPE.is_complex() {
            Scalar::Float(x)
        } else {
            Scalar::Int(x as i64)
        })
    };
    let product = Product::<T> {
        m,
        n,
        k,
        alpha: factor(alpha),
        a: a.as_ptr().wrapping_add(a_start),
        a_row,
        a_column,
        conj_a: conj.0,
        b: b.as_ptr().wrapping_add(b_start),
        b_row,
        b_column,
        conj_b: conj.1,
        beta: (beta != 0.0).then_some(factor(beta)),
        c: c.as_mut_ptr().wrapping_add(c_start),
        c_row,
        c_column,
    };
    // SAFETY: the vectors have the layouts' lengths; the instruction set is the machine's.
    unsafe { product.run(level) };
    let mut expected = old.clone();
    for i in 0..m {
        for j in 0..n {
            let at = |start: usize, r: isize, c: isize, i: usize, j: usize| {
                (start as isize + i as isize * r + j as isize * c) as usize
            };
            let mut sum = Complex::new(0.0, 0.0);
            let mut whole = 0i64;
            for l in 0..k {
                let x = a[at(a_start, a_row, a_column, i, l)].to_c128();
                let y = b[at(b_start, b_row, b_column, l, j)].to_c128();
                let (p, q) = (at(a_start, a_row, a_column, i, l), at(b_start, b_row, b_column, l, j));
                whole = whole.wrapping_add(a[p].to_i64().wrapping_mul(b[q].to_i64()));
                sum += if conj.0 { x.conj() } else { x } * if conj.1 { y.conj() } else { y };
            }
            let index = at(c_start, c_row, c_column, i, j);
            let before = if beta == 0.0 { Complex::new(0.0, 0.0) } else { old[index].to_c128() };
            let sum = sum * alpha + before * beta;
            let whole = whole.wrapping_mul(alpha as i64).wrapping_add((beta as i64).wrapping_mul(old[index].to_i64()));
            expected[index] = if T::DTYPE.is_integral(false) { T::from_i64(whole) } else { T::from_c128(sum) };
        }
    }
    for (i, (x, y)) in c.iter().zip(&expected).enumerate() {
        let same = x == y || (x.to_f64().is_nan() && y.to_f64().is_nan());
        assert!(same, "{} {level:?} {sizes:?} {kinds:?} {alpha} {beta} {conj:?}: [{i}] {x:?} is not {y:?}", T::DTYPE);
    }
}

fn check_type<T: Operand>() {
    let shapes = [
        (1, 1, 1),
        (2, 2, 2),
        (3, 5, 7),
        (8, 8, 8),
        (1, 40, 33),
        (40, 1, 33),
        (1, 70, 300),
        (13, 17, 19),
        (4, 66, 64),
        (16, 16, 16),
        (25, 33, 130),
        (7, 130, 300),
        (33, 65, 129),
        (65, 31, 520),
        (5, 3, 0),
        (64, 64, 64),
    ];
    for level in Level::available() {
        for (which, &(m, n, k)) in shapes.iter().enumerate() {
            for kinds in 0..64 {
                // All layouts for small shapes, a sample for the rest.
                if m * n * k > 5000 && (kinds + which) % 5 != 0 {
                    continue;
                }
                let (alpha, beta) = [(1.0, 0.0), (2.0, 1.0), (-1.0, 3.0)][(kinds + which) % 3];
                let conj = if T::PARTS == 2 { (kinds % 3 == 0, kinds % 2 == 0) } else { (false, false) };
                check::<T>(level, Sizes { m, n, k }, (kinds % 4, kinds / 4 % 4, kinds / 16), alpha, beta, conj);
            }
        }
    }
}

#[test]
fn real() {
    check_type::<f32>();
    check_type::<f64>();
}

#[test]
fn half() {
    check_type::<f16>();
    check_type::<bf16>();
}

#[test]
fn complex() {
    check_type::<Complex<f32>>();
    check_type::<Complex<f64>>();
}

#[test]
fn integer() {
    check_type::<i8>();
    check_type::<i16>();
    check_type::<i32>();
    check_type::<i64>();
}

/// Bytes with and without signs, of every layout, at every instruction set.
fn check_bytes(level: Level, sizes: Sizes, kinds: (usize, usize, usize), unsigned: [bool; 2]) {
    let Sizes { m, n, k } = sizes;
    let (a_row, a_column, a_start, a_len) = layout(kinds.0, m, k);
    let (b_row, b_column, b_start, b_len) = layout(kinds.1, k, n);
    let (c_row, c_column, c_start, c_len) = layout(kinds.2, m, n);
    // The extremes are among them.
    let bytes = |seed: usize, len: usize| -> Vec<u8> {
        let byte = |i: usize| ((seed + i) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        (0..len).map(|i| if i % 5 == 0 { 0x80 } else { byte(i) as u8 }).collect()
    };
    // Bytes begin anywhere.
    let (a_start, b_start) = (a_start + 1, b_start + 3);
    let (a, b) = (bytes(0, a_len + 1), bytes(77, b_len + 3));
    let mut c = vec![-1i32; c_len];
    let at = |start: usize, i: usize, row: isize, j: usize, column: isize| {
        (start as isize + i as isize * row + j as isize * column) as usize
    };
    // SAFETY: the vectors have the layouts' lengths; the instruction set is the machine's.
    unsafe {
        Product::<Byte> {
            m,
            n,
            k,
            alpha: 1,
            a: a.as_ptr().add(a_start).cast(),
            a_row,
            a_column,
            conj_a: unsigned[0],
            b: b.as_ptr().add(b_start).cast(),
            b_row,
            b_column,
            conj_b: unsigned[1],
            beta: None,
            c: c.as_mut_ptr().add(c_start),
            c_row,
            c_column,
        }
        .run(level);
    }
    let number = |byte: u8, unsigned: bool| if unsigned { byte as i32 } else { byte as i8 as i32 };
    for i in 0..m {
        for j in 0..n {
            let product = |l: usize| {
                number(a[at(a_start, i, a_row, l, a_column)], unsigned[0])
                    * number(b[at(b_start, l, b_row, j, b_column)], unsigned[1])
            };
            let expected: i32 = (0..k).map(product).sum();
            let got = c[at(c_start, i, c_row, j, c_column)];
            assert_eq!(got, expected, "{level:?} {sizes:?} {kinds:?} {unsigned:?}: [{i}, {j}]");
        }
    }
}

fn check_all_bytes() {
    for level in Level::available() {
        for (which, (m, n, k)) in
            [(1, 1, 1), (3, 5, 7), (1, 40, 133), (40, 1, 133), (13, 35, 131), (33, 65, 1100), (64, 64, 64), (50, 7, 0)]
                .into_iter()
                .enumerate()
        {
            for kinds in 0..64 {
                if m * n * k > 5000 && (kinds + which) % 5 != 0 {
                    continue;
                }
                let unsigned = [kinds % 3 == 1, kinds % 5 == 2];
                check_bytes(level, Sizes { m, n, k }, (kinds % 4, kinds / 4 % 4, kinds / 16), unsigned);
            }
        }
    }
    check_bytes(level(), Sizes { m: 700, n: 300, k: 1500 }, (0, 0, 0), [false, false]);
}

#[test]
fn bytes() {
    check_all_bytes();
}

/// The kernels for tiles, which hardly any machine that tests has.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn tiles() {
    let emulated = super::tiles::emulator::with_tiles(FastPath::GemmGroups, || {
        check_all_bytes();
        for (m, k) in [(16, 32), (40, 64), (64, 1088), (33, 96), (64, 100), (5, 64)] {
            check_sums(Sizes { m, n: 70, k });
        }
        check_type::<bf16>();
        for kinds in [(0, 0, 0), (0, 1, 0), (1, 0, 1)] {
            check::<bf16>(level(), Sizes { m: 100, n: 70, k: 1300 }, kinds, 1.0, 1.0, (false, false));
        }
    });
    let has_tiles = std::arch::x86_64::__cpuid_count(7, 0).edx >> 24 & 1 == 1;
    assert!(has_tiles || emulated > 10_000, "{emulated} instructions emulated");
}

/// Sums of products of `bf16`, in place of what is there and added to it; A begins with a cache line.
fn check_sums(sizes: Sizes) {
    let Sizes { m, n, k } = sizes;
    let a: Vec<bf16> = (0..m * k + 32).map(value).collect();
    let start = a.as_ptr().align_offset(64);
    let b: Vec<bf16> = (0..k * n).map(|i| value(i + 77)).collect();
    let matrix = |start: *const bf16, row: usize| Matrix {
        start: start.cast::<Summand>(),
        row_stride: row as isize,
        column_stride: 1,
        conj: false,
    };
    for (beta, old) in [(0.0, f32::NAN), (1.0, 2.0)] {
        let mut c = vec![old; m * n];
        let result = MatrixMut { start: c.as_mut_ptr(), row_stride: n as isize, column_stride: 1 };
        // SAFETY: row-major matrices of these sizes.
        unsafe { gemm_typed(sizes, 1.0, matrix(a[start..].as_ptr(), k), matrix(b.as_ptr(), n), beta, result) };
        for i in 0..m {
            for j in 0..n {
                let product = |l: usize| a[start + i * k + l].to_f32() * b[l * n + j].to_f32();
                let sum = (0..k).map(product).sum::<f32>() + if beta == 0.0 { 0.0 } else { old };
                assert_eq!(c[i * n + j], sum, "{sizes:?}, {beta}: [{i}, {j}]");
            }
        }
    }
}

#[test]
fn sums_of_halves() {
    check_sums(Sizes { m: 9, n: 40, k: 70 });
    // Whole vectors, which pairs of `bf16` would round at once.
    check_sums(Sizes { m: 24, n: 64, k: 70 });
    check_sums(Sizes { m: 1, n: 40, k: 70 });
}

/// Rows of A that are read where they are, an odd number of elements apart and between others that are not to be read, give
/// the bits of packed ones: with results that are rounded at once or not, among them subnormal ones and none.
#[test]
fn halves_in_place() {
    for (m, n, k) in [(37, 32, 64), (12, 64, 2), (25, 50, 130), (70, 200, 34), (13, 33, 7), (300, 40, 1200)] {
        let row = k + 1 + k % 2;
        let mut a = vec![bf16::NAN; 1 + m * row];
        for (i, step) in (0..m).flat_map(|i| (0..k).map(move |step| (i, step))) {
            let scale = if i % 3 == 0 { 64.0 * f32::MIN_POSITIVE } else { 1.0 };
            a[1 + i * row + step] = bf16::from_f32(value::<f32>(i * k + step) * scale * (i % 5 != 0) as u8 as f32);
        }
        let b: Vec<bf16> = (0..k * n).map(|i| bf16::from_f32(value::<f32>(i + 77) / 8.0)).collect();
        for (alpha, beta) in [(1.0, 0.0), (1.0 / 1024.0, 0.0), (1.0, 1.0)] {
            let results = [true, false].map(|in_place| {
                let mut c = vec![bf16::from_f32(if beta == 0.0 { f32::NAN } else { 3.0 }); m * n];
                let was_on = FastPath::GemmUnpacked.is_on();
                FastPath::GemmUnpacked.set(in_place);
                // SAFETY: matrices of these sizes and strides.
                unsafe {
                    gemm_typed(
                        Sizes { m, n, k },
                        alpha,
                        Matrix { start: a[1..].as_ptr(), row_stride: row as isize, column_stride: 1, conj: false },
                        Matrix { start: b.as_ptr(), row_stride: n as isize, column_stride: 1, conj: false },
                        beta,
                        MatrixMut { start: c.as_mut_ptr(), row_stride: n as isize, column_stride: 1 },
                    );
                }
                FastPath::GemmUnpacked.set(was_on);
                c.into_iter().map(bf16::to_bits).collect::<Vec<_>>()
            });
            assert_eq!(results[0], results[1], "{m} {n} {k}, {alpha} {beta}");
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let product = |l: usize| a[1 + i * row + l].to_f32() * b[l * n + j].to_f32();
                let sum = alpha * (0..k).map(product).sum::<f32>() + beta * 3.0;
                let result = bf16::from_bits(results[0][i * n + j]).to_f32();
                let near = sum.abs() / 256.0 + f32::from_bits(0x8000);
                assert!((result - sum).abs() <= near, "{m} {n} {k}, {alpha} {beta}: [{i}, {j}] {result} is not {sum}");
            }
        }
    }
}

/// Sizes that are cut in every way: several slabs, several parts, wide sums in parts, long dot products, streams.
#[test]
fn large() {
    for (m, n, k) in [
        (700, 300, 600),
        (150, 1100, 20),
        (2100, 40, 300),
        (20, 1100, 300),
        (1, 2000, 700),
        (2, 3, 70000),
        (2, 2100, 520),
        (3, 1100, 300),
        (6, 2100, 70),
        (1, 3, 300000),
    ] {
        for kinds in [(0, 0, 0), (0, 1, 0), (1, 0, 1)] {
            check::<f32>(level(), Sizes { m, n, k }, kinds, 1.0, 1.0, (false, false));
        }
        if k < 1000 {
            check::<i8>(level(), Sizes { m, n, k }, (0, 1, 0), 1.0, 1.0, (false, false));
            check::<bf16>(level(), Sizes { m, n, k }, (0, 1, 0), 1.0, 0.0, (false, false));
            check::<bf16>(level(), Sizes { m, n, k }, (0, 0, 0), 1.0, 0.0, (false, false));
            check::<Complex<f32>>(level(), Sizes { m, n, k }, (1, 1, 0), 1.0, 0.0, (true, false));
        }
    }
}

/// Non-finite values reach the results they belong to and no others.
#[test]
fn not_a_number() {
    let (m, n, k) = (9, 37, 20);
    let mut a = vec![1f32; m * k];
    a[3 * k + 5] = f32::NAN;
    let b = vec![1f32; k * n];
    let mut c = vec![f32::NAN; m * n];
    let sizes = Sizes { m, n, k };
    // SAFETY: row-major matrices of these sizes.
    unsafe {
        gemm_typed(
            sizes,
            1.0,
            Matrix { start: a.as_ptr(), row_stride: k as isize, column_stride: 1, conj: false },
            Matrix { start: b.as_ptr(), row_stride: n as isize, column_stride: 1, conj: false },
            0.0,
            MatrixMut { start: c.as_mut_ptr(), row_stride: n as isize, column_stride: 1 },
        );
    }
    for i in 0..m {
        assert!(c[i * n..(i + 1) * n].iter().all(|x| if i == 3 { x.is_nan() } else { *x == k as f32 }));
    }
}

#[test]
fn batches() {
    let (batch, m, n, k) = (5, 3, 4, 6);
    let a: Vec<i32> = (0..batch * m * k).map(value).collect();
    let b: Vec<i32> = (0..batch * k * n).map(value).collect();
    let matrix =
        |p: *const i32, row: usize| Matrix { start: p.cast(), row_stride: row as isize, column_stride: 1, conj: false };
    let sizes = Sizes { m, n, k };
    for b_stride in [0, k * n] {
        let mut strided = vec![0i32; batch * m * n];
        let mut listed = strided.clone();
        let out =
            |c: &mut Vec<i32>| MatrixMut { start: c.as_mut_ptr().cast(), row_stride: n as isize, column_stride: 1 };
        let offsets: Vec<[isize; 3]> =
            (0..batch).map(|i| [(i * m * k) as isize, (i * b_stride) as isize, (i * m * n) as isize]).collect();
        let (one, zero) = (Scalar::Int(1), Scalar::Int(0));
        // SAFETY: the vectors hold the batch.
        unsafe {
            batched_gemm(
                DType::I32,
                batch,
                sizes,
                one,
                (matrix(a.as_ptr(), k), (m * k) as isize),
                (matrix(b.as_ptr(), n), b_stride as isize),
                zero,
                (out(&mut strided), (m * n) as isize),
            );
            let (a, b) = (matrix(a.as_ptr(), k), matrix(b.as_ptr(), n));
            gemm_at_offsets(DType::I32, &offsets, sizes, one, a, b, zero, out(&mut listed));
        }
        for i in 0..batch * m * n {
            let (z, r, c) = (i / (m * n), i / n % m, i % n);
            let expected: i32 = (0..k).map(|l| a[z * m * k + r * k + l] * b[z * b_stride + l * n + c]).sum();
            assert_eq!((strided[i], listed[i]), (expected, expected));
        }
    }
}

/// Finished sums are rounded as one element at a time is: ties, overflow, subnormal numbers and NaN too.
#[test]
fn rounding() {
    let mut sums: Vec<f32> = (0..4099u32).map(|i| f32::from_bits(i.wrapping_mul(0x0010_4bd1) ^ (i << 11))).collect();
    sums.extend([
        f32::NAN,
        f32::INFINITY,
        -f32::INFINITY,
        -0.0,
        1.0 + 1.0 / 256.0,
        1.0 + 3.0 / 256.0,
        65519.0,
        65520.0,
    ]);
    for level in Level::available() {
        fn narrowed<S: Element>(kernels: &HalfKernels<S>, sums: &[f32], beta: Option<f32>) -> Vec<S> {
            let mut out = vec![S::from_f64(1.0); sums.len()];
            let (columns, out_at) = (sums.len(), out.as_mut_ptr());
            let block =
                Sums { sums: sums.as_ptr(), sums_row: 0, rows: 1, columns, alpha: 1.0, beta, out: out_at, out_row: 0 };
            // SAFETY: one row of so many elements; the level is available.
            unsafe { (kernels.narrow)(&block) };
            out
        }
        let halves = narrowed(f16_kernels(level), &sums, None);
        for (kernels, added) in
            [(bf16_kernels(level), 0.0), (widening_bf16_kernels(level), 0.0), (bf16_kernels(level), 0.5)]
        {
            let brains = narrowed(kernels, &sums, (added != 0.0).then_some(added));
            for (&x, &got) in sums.iter().zip(&brains) {
                let expected = bf16::from_f32(if added == 0.0 { x } else { x + added });
                assert!(
                    got == expected || got.is_nan() && expected.is_nan(),
                    "{level:?} {x} + {added}: {got} {expected}"
                );
            }
        }
        for (i, &x) in sums.iter().enumerate() {
            let half = f16::from_f32(x);
            assert!(halves[i] == half || half.is_nan() && halves[i].is_nan(), "{level:?} {x}: {} {half}", halves[i]);
        }
    }
}

/// Lines in order and zeros up to the panel's width, whatever the widths, and nothing beyond the panel.
#[test]
fn panels_hold_their_lines() {
    fn check<T: Copy + PartialEq + std::fmt::Debug>(number: impl Fn(usize) -> T) {
        for width in 1..=20usize {
            for (padded, k) in
                [width, width.next_multiple_of(8)].into_iter().flat_map(|p| [1, 3, 8, 13, 16, 37].map(|k| (p, k)))
            {
                let lines: Vec<T> = (0..width * (k + 2)).map(|i| number(1 + i)).collect();
                let mut panel = vec![number(9999); k * padded + 16];
                // SAFETY: `width` lines of `k` values, `k + 2` apart, and room for the panel.
                unsafe { super::pack::pack(lines.as_ptr(), (k + 2) as isize, 1, width, padded, k, panel.as_mut_ptr()) };
                for (i, &got) in panel.iter().enumerate() {
                    let (step, w) = (i / padded, i % padded);
                    let want = match (step < k, w < width) {
                        (true, true) => lines[w * (k + 2) + step],
                        (true, false) => number(0),
                        (false, _) => number(9999),
                    };
                    assert_eq!(got, want, "element {i} of {width} lines of {k} values, {padded} wide");
                }
            }
        }
    }
    check(|i| i as f32);
    check(|i| i as f64);
    check(|i| i as u16);
}
