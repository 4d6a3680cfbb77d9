use super::*;
use flambeau_base::{Element, bf16, dispatch, f16};
use std::cmp::Ordering;

/// Values with ties, NaN, infinities and both zeros, where the dtype has them.
fn data<T: Element>(n: usize, spread: f64, seed: u64) -> Vec<T> {
    let mut state = seed | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
            match state >> 57 {
                0 => T::from_f64(f64::NAN),
                1 => T::from_f64(f64::INFINITY),
                2 => T::from_f64(-0.0),
                3 => T::from_f64(0.0),
                4 if spread > 1e6 => T::from_i64(state as i64),
                _ => T::from_f64((unit - if T::DTYPE.is_signed() { 0.5 } else { 0.0 }) * spread),
            }
        })
        .collect()
}

fn order<T: Element>(a: T, b: T) -> Ordering {
    if T::DTYPE.is_floating_point() {
        let (a, b) = (a.to_f64(), b.to_f64());
        a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    } else if T::DTYPE == DType::U64 {
        (a.to_i64() as u64).cmp(&(b.to_i64() as u64))
    } else {
        a.to_i64().cmp(&b.to_i64())
    }
}

fn same<T: Element>(a: &[T], b: &[T]) -> bool {
    // SAFETY: elements are readable as bytes; both zeros and NaN must be the very same.
    let bytes = |x: &[T]| unsafe { std::slice::from_raw_parts(x.as_ptr().cast::<u8>(), size_of_val(x)).to_vec() };
    bytes(a) == bytes(b)
}

fn check_sort<T: Element>(n: usize, spread: f64) {
    let src = data::<T>(n, spread, n as u64 + 3);
    for descending in [false, true] {
        let mut want: Vec<usize> = (0..n).collect();
        want.sort_by(|&a, &b| if descending { order(src[b], src[a]) } else { order(src[a], src[b]) });
        let (mut values, mut indices) = (vec![T::default(); n], vec![-1i64; n]);
        let size = size_of::<T>() as isize;
        // SAFETY: buffers of this size.
        unsafe {
            let dst = Some((values.as_mut_ptr().cast(), &[size][..]));
            let at = Some((indices.as_mut_ptr().cast(), &[8isize][..]));
            sort(&[n as i64], 0, dst, at, (src.as_ptr().cast(), &[size]), T::DTYPE, descending);
        }
        let sorted: Vec<T> = want.iter().map(|&i| src[i]).collect();
        assert!(indices.iter().zip(&want).all(|(&i, &j)| i == j as i64), "{} {n} {spread}", T::DTYPE);
        // `Bool` may hold any byte; sorted ones are 0 and 1, like these.
        assert!(same(&values, &sorted), "{} {n} {spread}", T::DTYPE);
        for k in [1, n / 50, n / 2, n] {
            let k = k.min(n);
            let (mut values, mut indices) = (vec![T::default(); k], vec![-1i64; k]);
            // SAFETY: buffers of this size.
            unsafe {
                let dst = (values.as_mut_ptr().cast(), &[size][..]);
                let at = (indices.as_mut_ptr().cast(), &[8isize][..]);
                topk(&[n as i64], 0, k, descending, dst, at, (src.as_ptr().cast(), &[size]), T::DTYPE);
            }
            assert!(same(&values, &sorted[..k]), "topk {} {n} {k}", T::DTYPE);
            assert!(indices.iter().zip(&want).all(|(&i, &j)| i == j as i64), "topk {} {n} {k}", T::DTYPE);
        }
        if n > 0 && !descending {
            let (mut value, mut index) = ([T::default()], [-1i64]);
            // SAFETY: buffers of this size.
            unsafe {
                let dst = (value.as_mut_ptr().cast(), &[0isize][..]);
                let at = (index.as_mut_ptr().cast(), &[0isize][..]);
                let src = (src.as_ptr().cast(), &[size][..]);
                select_rank(Rank::Kth(n / 3), &[n as i64], 0, dst, at, src, T::DTYPE);
            }
            assert_eq!(index[0], want[n / 3] as i64);
        }
    }
}

#[test]
fn every_dtype() {
    for dtype in DType::ALL {
        dispatch!(dtype, T in [bool, ints, floats] => {
            for n in [0, 1, 2, 100, 600, 5000] {
                check_sort::<T>(n, 50.0);
            }
            check_sort::<T>(3000, 1e30);
        }; else ());
    }
    check_sort::<f32>(300_000, 1.0);
    check_sort::<f32>(70_000, 1e30);
    check_sort::<f64>(100_000, 1.0);
    check_sort::<i64>(100_000, 1e9);
    check_sort::<i64>(100_000, 1e30);
    check_sort::<u8>(100_000, 100.0);
    check_sort::<f16>(70_000, 10.0);
    check_sort::<bf16>(70_000, 1e6);
}

#[test]
fn along_a_dimension() {
    let (a, n, c) = (3usize, 57usize, 5usize);
    let src = data::<f32>(a * n * c, 20.0, 1);
    let (mut values, mut indices) = (vec![0f32; src.len()], vec![0i64; src.len()]);
    let sizes = [a as i64, n as i64, c as i64];
    let strides = |size: usize| [n * c * size, c * size, size].map(|s| s as isize);
    // SAFETY: buffers of this shape.
    unsafe {
        let (four, eight) = (strides(4), strides(8));
        let dst = Some((values.as_mut_ptr().cast(), &four[..]));
        let at = Some((indices.as_mut_ptr().cast(), &eight[..]));
        sort(&sizes, 1, dst, at, (src.as_ptr().cast(), &four), DType::F32, true);
    }
    for i in 0..a {
        for j in 0..c {
            for k in 0..n {
                let at = |k: usize| (i * n + k) * c + j;
                let from = at(indices[at(k)] as usize);
                assert!(same(&values[at(k)..][..1], &src[from..][..1]));
                if k > 0 {
                    let turn = order(values[at(k)], values[at(k - 1)]);
                    assert!(turn == Ordering::Less || (turn == Ordering::Equal && indices[at(k)] > indices[at(k - 1)]));
                }
            }
        }
    }
}

#[test]
fn medians() {
    let nan = f32::NAN;
    let run = |rank, src: &[f32]| {
        let (mut value, mut index) = ([0f32], [-1i64]);
        // SAFETY: buffers of this size.
        unsafe {
            let dst = (value.as_mut_ptr().cast(), &[0isize][..]);
            let at = (index.as_mut_ptr().cast(), &[0isize][..]);
            select_rank(rank, &[src.len() as i64], 0, dst, at, (src.as_ptr().cast(), &[4]), DType::F32);
        }
        (format!("{:?}", value[0]), index[0])
    };
    assert_eq!(run(Rank::Median, &[3.0, 1.0, 2.0, 4.0]), ("2.0".into(), 2));
    assert_eq!(run(Rank::Median, &[1.0, nan, 2.0, nan]), ("NaN".into(), 1));
    assert_eq!(run(Rank::NanMedian, &[5.0, nan, 2.0, nan]), ("2.0".into(), 2));
    assert_eq!(run(Rank::NanMedian, &[nan, nan]), ("NaN".into(), 0));
    assert_eq!(run(Rank::Kth(1), &[1.0, nan, 2.0]), ("2.0".into(), 2));
}

#[test]
fn searches() {
    let nan = f32::NAN;
    let run = |boundaries: &[f32], sorter: Option<&[i64]>, values: &[f32], right| {
        let mut out = vec![-1i64; values.len()];
        // SAFETY: buffers of this size.
        unsafe {
            searchsorted(
                boundaries.as_ptr().cast(),
                1,
                boundaries.len(),
                sorter.map(|s| s.as_ptr()),
                values.as_ptr().cast(),
                1,
                values.len(),
                DType::F32,
                (out.as_mut_ptr().cast(), DType::I64),
                right,
            );
        }
        out
    };
    assert_eq!(run(&[1.0, 2.0, 3.0], None, &[nan, 2.0, 0.0], false), [3, 1, 0]);
    assert_eq!(run(&[1.0, 2.0, nan], None, &[nan, 2.0, 0.0], true), [3, 3, 0]);
    assert_eq!(run(&[3.0, 1.0, 2.0], Some(&[1, 2, 0]), &[2.5, 9.0], false), [2, 3]);
    assert_eq!(run(&[], None, &[2.5], false), [0]);
}

#[test]
fn counts() {
    assert_eq!((bins(&[1, 1, 3], 0), bins(&[], 2), bins(&[1, -4], 2)), (Ok(4), Ok(2), Err((1, -4))));
    let (mut counts, mut sums) = ([0; 4], [0.0f32; 2]);
    bincount(&[1, 1, 3], &mut counts);
    assert_eq!(counts, [0, 2, 0, 1]);
    bincount_weighted(&[1, 1, 0], &[0.5, 1.0, 2.0], &mut sums);
    assert_eq!(sums, [2.0, 1.5]);
    let edges = [0.0f32, 1.0, 2.0, 4.0];
    let values = [0.0, 0.5, 1.0, 2.0, 4.0, 4.1, -1.0, f32::NAN];
    assert_eq!(histogram(&values, None, &edges, false, true), [2.0, 1.0, 2.0]);
    assert_eq!(histogram(&values, None, &[0.0, 2.0, 4.0], true, true), [3.0, 2.0]);
    assert_eq!(histogram(&[0.5f64], Some(&[3.0]), &[0.0, 2.0, 4.0], true, false), [3.0, 0.0]);
}

#[test]
fn distinct() {
    let nan = f32::NAN;
    let src = [nan, 1.0, nan, 0.0, -0.0];
    // SAFETY: the arrays' own sizes.
    unsafe {
        let (mut sorted, mut starts, mut inverse) = ([9.0f32; 5], [9i64; 5], [9i64; 5]);
        let (from, to) = (src.as_ptr().cast(), sorted.as_mut_ptr().cast());
        assert_eq!(unique(from, 5, DType::F32, to, &mut starts, Some(&mut inverse)), 4);
        assert_eq!((&sorted[..3], sorted[3].is_nan()), (&[0.0, -0.0, 1.0][..], true));
        assert_eq!((&starts[..4], inverse), (&[0, 2, 3, 4][..], [2, 1, 3, 0, 0]));
        starts.fill(9);
        assert_eq!(unique(from, 5, DType::F32, to, &mut starts, None), 4);
        assert_eq!(starts[..4], [0, 2, 3, 4]);
        let got = unique_consecutive([1i16, 1, 2, 1].as_ptr().cast(), 4, 1, DType::I16);
        assert_eq!((got.positions, got.counts), (vec![0, 2, 3], vec![2, 1, 1]));
        let got = unique_rows([2i16, 1, 1, 5, 2, 1].as_ptr().cast(), 3, 2, DType::I16);
        assert_eq!((got.positions, got.inverse, got.counts), (vec![1, 0], vec![1, 0, 1], vec![1, 2]));
        assert_eq!(unique(from, 0, DType::F32, to, &mut [], Some(&mut [])), 0);
    }
}
