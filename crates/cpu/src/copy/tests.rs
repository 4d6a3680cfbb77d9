use super::*;
use flambeau_base::dtype::cast;
use flambeau_base::{Element, bf16, dispatch};

/// Row-major strides in bytes.
fn contiguous(sizes: &[i64], size: usize) -> Vec<isize> {
    let mut strides = vec![0; sizes.len()];
    let mut step = size as isize;
    for d in (0..sizes.len()).rev() {
        strides[d] = step;
        step *= sizes[d].max(1) as isize;
    }
    strides
}

/// Element by element, in the obvious way.
unsafe fn naive<S: Element, D: Element>(
    sizes: &[i64],
    dst: (*mut u8, &[isize]),
    src: (*const u8, &[isize]),
    conj: bool,
) {
    let numel: i64 = sizes.iter().product();
    for flat in 0..numel {
        let (mut rest, mut d, mut s) = (flat, dst.0, src.0);
        for dim in (0..sizes.len()).rev() {
            let i = (rest % sizes[dim]) as isize;
            rest /= sizes[dim];
            d = d.wrapping_offset(i * dst.1[dim]);
            s = s.wrapping_offset(i * src.1[dim]);
        }
        // SAFETY: inside the test's buffers.
        unsafe {
            let mut value = cast::<S, D>(s.cast::<S>().read_unaligned());
            if conj && S::DTYPE.is_complex() && D::DTYPE.is_complex() {
                value = D::from_c128(value.to_c128().conj());
            }
            d.cast::<D>().write_unaligned(value);
        }
    }
}

fn check(
    sizes: &[i64],
    dst_order: &[usize],
    src_order: &[usize],
    broadcast: &[usize],
    from: DType,
    to: DType,
    conj: bool,
) {
    let permuted = |order: &[usize], size: usize, gap: i64, broadcast: &[usize]| {
        let ordered: Vec<i64> = order.iter().map(|&d| if broadcast.contains(&d) { 1 } else { sizes[d] }).collect();
        let mut padded = ordered.clone();
        if let Some(last) = padded.last_mut() {
            *last += gap;
        }
        let strides = contiguous(&padded, size);
        let mut out = vec![0; sizes.len()];
        for (i, &d) in order.iter().enumerate() {
            out[d] = if broadcast.contains(&d) { 0 } else { strides[i] };
        }
        (out, padded.iter().product::<i64>() as usize * size + 64)
    };
    for gap in [0, 3] {
        let (ds, dn) = permuted(dst_order, to.size(), gap, &[]);
        let (ss, sn) = permuted(src_order, from.size(), 0, broadcast);
        let mut src: Vec<u8> = Vec::with_capacity(sn + 16);
        let mut i = 0;
        while src.len() < sn {
            dispatch!(from, T => {
                let value = T::from_f64((i % 251) as f64 - if T::DTYPE.is_signed() { 100.0 } else { 0.0 });
                // SAFETY: any value is readable as its bytes.
                src.extend_from_slice(unsafe {
                    std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>())
                });
            });
            i += 1;
        }
        let mut got = vec![7u8; dn];
        let mut want = got.clone();
        // SAFETY: the buffers hold the sizes at these strides.
        unsafe {
            copy_strided_conj(sizes, (got.as_mut_ptr(), &ds, to), (src.as_ptr(), &ss, from), conj);
            dispatch!(from, S => dispatch!(to, D => {
                naive::<S, D>(sizes, (want.as_mut_ptr(), &ds), (src.as_ptr(), &ss), conj);
            }));
        }
        assert!(
            got == want,
            "{sizes:?} {dst_order:?} <- {src_order:?} broadcast {broadcast:?} {from} to {to} gap {gap}"
        );
    }
}

#[test]
fn layouts() {
    use DType::{BF16, Complex64, Complex128, F16, F32, F64, I64, U8};
    for dtype in [U8, F16, F32, F64, Complex128] {
        check(&[0, 5], &[0, 1], &[0, 1], &[], dtype, dtype, false);
        check(&[], &[], &[], &[], dtype, dtype, false);
        check(&[70001], &[0], &[0], &[], dtype, dtype, false);
        check(&[300, 217], &[0, 1], &[1, 0], &[], dtype, dtype, false);
        check(&[17, 1001], &[0, 1], &[1, 0], &[], dtype, dtype, false);
        check(&[1001, 3], &[0, 1], &[1, 0], &[], dtype, dtype, false);
        check(&[3, 1001], &[0, 1], &[1, 0], &[], dtype, dtype, false);
        check(&[2, 5, 31, 33], &[0, 1, 2, 3], &[0, 2, 3, 1], &[], dtype, dtype, false);
        check(&[2, 64, 31, 33], &[0, 2, 3, 1], &[0, 1, 2, 3], &[], dtype, dtype, false);
        check(&[3, 40, 50], &[2, 0, 1], &[1, 2, 0], &[], dtype, dtype, false);
        check(&[40, 50], &[0, 1], &[0, 1], &[1], dtype, dtype, false);
        check(&[40, 50], &[0, 1], &[1, 0], &[0], dtype, dtype, false);
        check(&[9, 40, 50], &[0, 1, 2], &[0, 2, 1], &[0], dtype, dtype, false);
        check(&[500, 4], &[0, 1], &[0, 1], &[], dtype, dtype, false);
        // Small matrices beside a longer dimension.
        let in_order = [0, 1, 2, 3, 4, 5];
        check(&[2, 28, 2, 29, 2, 8], &in_order, &[0, 1, 3, 5, 2, 4], &[], dtype, dtype, false);
        check(&[2, 17, 40, 3, 2, 2], &in_order, &[0, 1, 4, 2, 5, 3], &[], dtype, dtype, false);
        check(&[3, 2, 40, 2, 3, 2], &in_order, &[0, 2, 1, 3, 4, 5], &[3], dtype, dtype, false);
    }
    for (from, to) in [(F32, BF16), (F16, F32), (U8, F64), (I64, DType::Bool), (F64, Complex64), (Complex128, U8)] {
        check(&[300, 217], &[0, 1], &[1, 0], &[], from, to, false);
        check(&[30, 21, 7], &[0, 1, 2], &[0, 1, 2], &[], from, to, false);
        check(&[40, 50], &[0, 1], &[0, 1], &[1], from, to, false);
    }
    for (from, to) in [(Complex64, Complex64), (Complex64, Complex128), (Complex128, F32)] {
        check(&[30, 21], &[0, 1], &[1, 0], &[], from, to, true);
        check(&[30, 21], &[0, 1], &[0, 1], &[], from, to, true);
    }
}

#[test]
fn fills() {
    for (size, value) in [(1usize, [9u8; 16]), (4, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])] {
        let mut data = vec![0u8; 1000 * size];
        // SAFETY: every other element of the buffer.
        unsafe {
            fill_strided(&[10, 50], (data.as_mut_ptr(), &[(100 * size) as isize, 2 * size as isize]), size, &value)
        };
        for (i, element) in data.chunks(size).enumerate() {
            assert_eq!(element == &value[..size], i % 2 == 0, "{i}");
        }
    }
    let one = bf16::from_f32(1.5).to_bits().to_ne_bytes();
    let mut value = [0u8; 16];
    value[..2].copy_from_slice(&one);
    let mut data = vec![bf16::ZERO; 100_000];
    // SAFETY: the whole buffer.
    unsafe { fill_strided(&[100_000], (data.as_mut_ptr().cast(), &[2]), 2, &value) };
    assert!(data.iter().all(|x| x.to_f32() == 1.5));
}

#[test]
fn moves_past_the_caches() {
    let from: Vec<u8> = (0..6000).map(|i| (i * 7 + i / 256) as u8).collect();
    for n in [1, 255, 256, 300, 320, 511, 2100, 2303, 5000] {
        for (a, b) in [(0, 0), (1, 0), (0, 1), (63, 64), (130, 3)] {
            let mut to = vec![0u8; 6000];
            // SAFETY: `n` bytes of each, apart.
            unsafe { stream::move_past(from.as_ptr().add(a), to.as_mut_ptr().add(b), n) };
            stream::finish();
            assert!(to[b..b + n] == from[a..a + n], "{n} bytes from {a} to {b}");
            assert!(to[..b].iter().chain(&to[b + n..]).all(|&x| x == 0), "{n} bytes from {a} to {b}");
        }
    }
    let mut same = from.clone();
    // SAFETY: the same bytes.
    unsafe { stream::move_past(same.as_ptr(), same.as_mut_ptr(), 5000) };
    assert!(same == from);
}

#[test]
fn rows_join() {
    // Pairs and more of one number, parts of odd sizes, parts left to `memcpy`; blocks and what is left of them.
    let widths: [&[usize]; 13] = [
        &[4, 4],
        &[4, 4, 4],
        &[4, 4, 4, 4],
        &[8, 8],
        &[1, 1, 1],
        &[16, 16],
        &[12, 0, 5],
        &[3, 256, 255],
        &[257, 4],
        &[600, 1],
        &[1100, 20],
        &[7],
        &[],
    ];
    for widths in widths {
        for (rows, gap) in [(0, 0), (1, 0), (31, 0), (32, 0), (100, 0), (1, 3), (32, 5), (100, 1)] {
            let arrays: Vec<Vec<u8>> = widths
                .iter()
                .enumerate()
                .map(|(k, w)| (0..(w + gap) * rows).map(|i| (i * 7 + k * 31) as u8).collect())
                .collect();
            let part = |(a, &w): (&Vec<u8>, &usize)| Part { data: a.as_ptr(), bytes: w, step: (w + gap) as isize };
            let parts: Vec<Part> = arrays.iter().zip(widths).map(part).collect();
            let wanted: Vec<u8> = (0..rows)
                .flat_map(|r| arrays.iter().zip(widths).flat_map(move |(a, &w)| a[r * (w + gap)..][..w].to_vec()))
                .collect();
            let mut joined = vec![0; wanted.len()];
            // SAFETY: each array holds `rows` parts, and there is room for as many rows.
            unsafe { join_rows(joined.as_mut_ptr(), &parts, rows) };
            assert_eq!(joined, wanted, "{widths:?} x {rows}, {gap} apart");
        }
    }
}

/// Rows of every length about the sizes that are copied at once, apart and backwards.
#[test]
fn short_rows() {
    for size in [1usize, 2, 4, 8] {
        for n in (1..70).chain([127, 128, 129, 300]) {
            let (rows, gap) = (9, 3);
            let src: Vec<u8> = (0..rows * (n + gap) * size).map(|i| (i * 31 + i / 251) as u8).collect();
            let (step, element) = (((n + gap) * size) as isize, size as isize);
            for turned in [false, true] {
                let dtype = [DType::U8, DType::F16, DType::F32, DType::F64][size.ilog2() as usize];
                let mut got = vec![9u8; rows * (n + 1) * size];
                let mut want = got.clone();
                let first = if turned { (n - 1) * size } else { 0 };
                // SAFETY: the buffers hold rows of `n` elements at these strides.
                unsafe {
                    let to = (got.as_mut_ptr(), &[((n + 1) * size) as isize, element][..], dtype);
                    let from = [step, if turned { -element } else { element }];
                    copy_strided(&[rows as i64, n as i64], to, (src.as_ptr().add(first), &from, dtype));
                }
                for (r, want) in want.chunks_exact_mut((n + 1) * size).enumerate() {
                    for i in 0..n {
                        let j = if turned { n - 1 - i } else { i };
                        let from = &src[r * (n + gap) * size + j * size..][..size];
                        want[i * size..][..size].copy_from_slice(from);
                    }
                }
                assert!(got == want, "{n} elements of {size} bytes, turned {turned}");
            }
        }
    }
}
