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

/// Elements as integers of the same order, equal ones with the same, each with its index.
fn ranked<T: Element>(src: &[T], largest: bool) -> Vec<u128> {
    let mut places: Vec<usize> = (0..src.len()).collect();
    places.sort_by(|&a, &b| if largest { order(src[b], src[a]) } else { order(src[a], src[b]) });
    let (mut packed, mut rank) = (vec![0; src.len()], 0);
    for (i, &place) in places.iter().enumerate() {
        rank += u64::from(i > 0 && order(src[places[i - 1]], src[place]) != Ordering::Equal);
        packed[place] = u128::pack(rank, place);
    }
    packed
}

/// What `topk` takes, by the steps of `ties.rs` alone.
fn top_indices<T: Element>(src: &[T], k: usize, largest: bool, sorted: bool) -> Vec<usize> {
    let mut row = ranked(src, largest);
    ties::top(&mut row, k, sorted);
    row[..k].iter().map(|x| x.index()).collect()
}

/// What `kthvalue` takes, likewise.
fn kth_index<T: Element>(src: &[T], k: usize) -> usize {
    ties::kth(&mut ranked(src, false), k).index()
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
        for (k, in_order) in [1, n / 50, n / 2, n].into_iter().flat_map(|k| [(k, true), (k, false)]) {
            let k = k.min(n);
            let want = if k > 0 { top_indices(&src, k, descending, in_order) } else { vec![] };
            let chosen: Vec<T> = want.iter().map(|&i| src[i]).collect();
            let (mut values, mut indices) = (vec![T::default(); k], vec![-1i64; k]);
            // SAFETY: buffers of this size.
            unsafe {
                let dst = (values.as_mut_ptr().cast(), &[size][..]);
                let at = (indices.as_mut_ptr().cast(), &[8isize][..]);
                topk(&[n as i64], 0, k, (descending, in_order), dst, at, (src.as_ptr().cast(), &[size]), T::DTYPE);
            }
            assert!(same(&values, &chosen), "topk {} {n} {k}", T::DTYPE);
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
            assert_eq!(index[0], kth_index(&src, n / 3) as i64);
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
    // More values than are searched for together, and boundaries of every length up to some.
    let values: Vec<f32> = (0..101).map(|i| (i * 37 % 101) as f32 / 2.0).collect();
    for length in 1..40 {
        let boundaries: Vec<f32> = (0..length).map(|i| i as f32).collect();
        for right in [false, true] {
            let want = |v: f32| boundaries.partition_point(|&b| if right { b <= v } else { b < v }) as i64;
            assert!(run(&boundaries, None, &values, right).iter().zip(&values).all(|(&at, &v)| at == want(v)));
        }
    }
}

#[test]
fn counts() {
    fn needed<T: Element>(values: &[T], least: usize) -> Option<usize> {
        // SAFETY: the slice's own size.
        unsafe { bins(values.as_ptr().cast(), values.len(), T::DTYPE, least) }
    }
    fn count<T: Element>(values: &[T], counts: &mut [i64]) {
        // SAFETY: the slice's own size.
        unsafe { bincount(values.as_ptr().cast(), values.len(), T::DTYPE, counts) }
    }
    let none: [i64; 0] = [];
    assert_eq!((needed(&[1i64, 1, 3], 0), needed(&none, 2), needed(&[1i64, -4], 2)), (Some(4), Some(2), None));
    assert_eq!((needed(&[1i8, -1], 0), needed(&[200u8, 1], 9), needed(&[1u64 << 63], 0)), (None, Some(201), None));
    assert_eq!(needed(&[7i32], 0), Some(8));
    let (mut counts, mut sums) = ([0; 4], [0.0f32; 2]);
    count(&[1i64, 1, 3], &mut counts);
    assert_eq!(counts, [0, 2, 0, 1]);
    // In pieces, in four tables each, in one, and where each piece has too many counts for one of its own.
    for buckets in [100usize, 1500, 5000] {
        let values: Vec<i32> = (0..200_003usize).map(|i| (i * i % buckets) as i32).collect();
        let (mut want, mut got) = (vec![1i64; buckets], vec![1i64; buckets]);
        values.iter().for_each(|&v| want[v as usize] += 1);
        count(&values, &mut got);
        assert!(want == got, "{buckets}");
    }
    let (bytes, mut got) = (data::<u8>(100_001, 200.0, 7), [0i64; 256]);
    count(&bytes, &mut got);
    assert!((0..256).all(|v| got[v] == bytes.iter().filter(|&&b| b as usize == v).count() as i64));
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

#[test]
fn distinct_integers() {
    /// Against the standard library; counted where the range is narrow, sorted where it is not.
    fn check<T: Element>(src: &[T]) {
        let n = src.len();
        let mut want: Vec<T> = src.to_vec();
        want.sort_by(|&a, &b| order(a, b));
        let begins: Vec<usize> = (0..n).filter(|&i| i == 0 || want[i] != want[i - 1]).collect();
        let (mut sorted, mut starts, mut inverse) = (vec![T::default(); n], vec![-1i64; n], vec![-1i64; n]);
        for with_inverse in [false, true] {
            sorted.fill(T::default());
            let places = with_inverse.then_some(&mut inverse[..]);
            // SAFETY: the vectors' own sizes.
            let found =
                unsafe { unique(src.as_ptr().cast(), n, T::DTYPE, sorted.as_mut_ptr().cast(), &mut starts, places) };
            assert!(begins.iter().map(|&i| i as i64).eq(starts[..found].iter().copied()), "{} {n}", T::DTYPE);
            assert!(begins.iter().all(|&i| same(&sorted[i..=i], &want[i..=i])), "{} {n}", T::DTYPE);
        }
        assert!(src.iter().zip(&inverse).all(|(&x, &rank)| x == want[begins[rank as usize]]), "{} {n}", T::DTYPE);
    }
    for dtype in DType::ALL {
        dispatch!(dtype, T in [bool, ints] => for n in [1, 7, 300, 5000, 150_000] {
            check(&data::<T>(n, 100.0, 5));
            check(&data::<T>(n, 1e30, 6));
        }; else ());
    }
    check(&[i64::MIN, i64::MAX, 0, i64::MIN]);
    check(&[u64::MAX, u64::MAX - 1, u64::MAX]);
    // Any byte but zero is true.
    let (mut sorted, mut starts, mut inverse) = ([9u8; 4], [9i64; 4], [9i64; 4]);
    // SAFETY: the arrays' own sizes.
    let found = unsafe {
        let (from, to) = ([2u8, 0, 1, 255].as_ptr(), sorted.as_mut_ptr());
        unique(from, 4, DType::Bool, to, &mut starts, Some(&mut inverse))
    };
    assert_eq!((found, &sorted[..2], &starts[..2], inverse), (2, &[0, 1][..], &[0, 1][..], [1, 0, 1, 1]));
}

/// What sorting, the `k` greatest and least, and order statistics give for lines along each of two dimensions, against
/// the standard library; many short lines take the way of `network.rs`.
#[test]
fn many_lines() {
    fn check<T: Element>(lines: usize, n: usize, spread: f64, across: bool) {
        let src = data::<T>(lines * n, spread, (lines * 31 + n) as u64);
        let (sizes, dim) = if across { ([n, lines], 0) } else { ([lines, n], 1) };
        let at = |line: usize, e: usize| if across { e * lines + line } else { line * n + e };
        let strides = |size: usize, length: usize| {
            (if across { [lines * size, size] } else { [length * size, size] }).map(|s| s as isize)
        };
        let (shape, size) = (sizes.map(|s| s as i64), size_of::<T>());
        let source = strides(size, n);
        for descending in [false, true] {
            let orders: Vec<Vec<usize>> = (0..lines)
                .map(|line| {
                    let x = |e: usize| src[at(line, e)];
                    let mut want: Vec<usize> = (0..n).collect();
                    want.sort_by(|&a, &b| if descending { order(x(b), x(a)) } else { order(x(a), x(b)) });
                    want
                })
                .collect();
            let line = |line: usize| -> Vec<T> { (0..n).map(|e| src[at(line, e)]).collect() };
            let verify = |length: usize, pick: &dyn Fn(usize, usize) -> usize, values: &[T], indices: &[i64], name| {
                for line in 0..lines {
                    for e in 0..length {
                        let place = if across { e * lines + line } else { line * length + e };
                        let from = pick(line, e);
                        assert!(indices[place] == from as i64, "{name} {} {lines} {n} {across}", T::DTYPE);
                        assert!(same(&values[place..=place], &src[at(line, from)..][..1]), "{name} {}", T::DTYPE);
                    }
                }
            };
            for k in [n, n.div_ceil(3)] {
                let (mut values, mut indices) = (vec![T::default(); lines * k], vec![-1i64; lines * k]);
                let (to, places) = (strides(size, k), strides(8, k));
                // SAFETY: buffers of these shapes.
                unsafe {
                    let dst = (values.as_mut_ptr().cast(), &to[..]);
                    let put = (indices.as_mut_ptr().cast(), &places[..]);
                    let from = (src.as_ptr().cast(), &source[..]);
                    match k == n {
                        true => sort(&shape, dim, Some(dst), Some(put), from, T::DTYPE, descending),
                        false => topk(&shape, dim, k, (descending, true), dst, put, from, T::DTYPE),
                    }
                }
                if k == n {
                    verify(k, &|line, e| orders[line][e], &values, &indices, "order");
                } else {
                    let top: Vec<Vec<usize>> = (0..lines).map(|l| top_indices(&line(l), k, descending, true)).collect();
                    verify(k, &|line, e| top[line][e], &values, &indices, "topk");
                }
            }
            if descending {
                continue;
            }
            let nans = |line: usize| (0..n).filter(|&e| src[at(line, e)] != src[at(line, e)]).count();
            let (to, places) = (strides(size, 1), strides(8, 1));
            for rank in [Rank::Kth(n / 2), Rank::Median, Rank::NanMedian] {
                let (mut values, mut indices) = (vec![T::default(); lines], vec![-1i64; lines]);
                // SAFETY: buffers of these shapes.
                unsafe {
                    let dst = (values.as_mut_ptr().cast(), &to[..]);
                    let put = (indices.as_mut_ptr().cast(), &places[..]);
                    select_rank(rank, &shape, dim, dst, put, (src.as_ptr().cast(), &source[..]), T::DTYPE);
                }
                for l in 0..lines {
                    let nans = nans(l);
                    let want = match rank {
                        Rank::Kth(k) => kth_index(&line(l), k),
                        Rank::Median if nans > 0 => orders[l][n - nans],
                        _ if nans == n => orders[l][0],
                        _ => orders[l][(n - nans - 1) / 2],
                    };
                    assert!(indices[l] == want as i64, "{rank:?} {} {lines} {n} {across}", T::DTYPE);
                    assert!(same(&values[l..=l], &src[at(l, want)..][..1]), "{rank:?} {}", T::DTYPE);
                }
            }
        }
    }
    for dtype in DType::ALL {
        dispatch!(dtype, T in [bool, ints, floats] => for across in [false, true] {
            for (lines, n) in [(2, 5), (3, 1), (9, 2), (300, 3), (300, 8), (70, 33), (70, 64), (20, 100), (11, 256), (5, 700)] {
                check::<T>(lines, n, 50.0, across);
                check::<T>(lines, n, 1e30, across);
            }
        }; else ());
    }
}

/// Keys of 64 bits that agree in all but the bits that make way for the index.
#[test]
fn close_keys() {
    let (lines, n) = (20usize, 30usize);
    let src: Vec<i64> = data::<i64>(lines * n, 30.0, 9)
        .iter()
        .enumerate()
        .map(|(i, &x)| if i % 7 == 0 { i64::MIN + x.abs() } else { i64::MAX - 100 + x })
        .collect();
    let (mut values, mut indices) = (vec![0i64; lines * n], vec![0i64; lines * n]);
    let strides = [n as isize * 8, 8];
    // SAFETY: buffers of this shape.
    unsafe {
        let dst = Some((values.as_mut_ptr().cast(), &strides[..]));
        let at = Some((indices.as_mut_ptr().cast(), &strides[..]));
        sort(&[lines as i64, n as i64], 1, dst, at, (src.as_ptr().cast(), &strides), DType::I64, false);
    }
    for line in 0..lines {
        let src = &src[line * n..][..n];
        let mut want: Vec<usize> = (0..n).collect();
        want.sort_by_key(|&i| src[i]);
        assert!(want.iter().map(|&i| src[i]).eq(values[line * n..][..n].iter().copied()));
        assert!(want.iter().map(|&i| i as i64).eq(indices[line * n..][..n].iter().copied()));
    }
}
