//! The gradients of attention: the weights are computed again tile by tile from the log-sum-exps, so nothing as large
//! as the matrix of scores is kept.

use super::rows::{GradientRows, WeightRows, gradient_rows, weight_rows};
use super::{
    Attention, AttentionElement, AttentionSizes, KEYS, Operand4, Parts, Result4, read, row_major, tile, transposed,
};
use crate::gemm::{MatrixMut, Sizes, gemm_typed, with_buffer};
use crate::math::{Number, level};
use flambeau_base::Element;
use flambeau_base::parallel::parallel_for;

/// Rows in a tile.
const ROWS: usize = 128;
/// Pieces wanted: with fewer heads than this, the keys are cut too.
const PIECES: usize = 8;

/// See [`AttentionElement::backward`].
///
/// # Safety
/// As there.
pub(super) unsafe fn attention_backward<T: AttentionElement>(
    attention: &Attention<T>,
    out: Operand4<T>,
    logsumexp: *const T::Sum,
    d_out: Operand4<T>,
    d_q: Result4<T>,
    d_k: Result4<T>,
    d_v: Result4<T>,
) {
    let Attention { sizes, q, k, v, mask, causal, scale } = *attention;
    let AttentionSizes { batch, heads, key_heads, queries, keys, size, value_size } = sizes;
    if batch * heads == 0 {
        return;
    }
    let zero = <T::Sum as Number>::ZERO;
    let one = <T::Sum as Number>::ONE;
    let scale = T::Sum::from_f64(scale);
    let group = heads / key_heads;
    let key_blocks = keys.div_ceil(KEYS);
    let row_blocks = queries.div_ceil(ROWS);
    let per_head = [(heads * queries) as isize, queries as isize, 1, 1];
    let logsumexp = Operand4 { start: logsumexp, strides: per_head };

    // delta = (d_out * out).sum(-1)
    let mut delta = vec![zero; batch * heads * queries];
    let delta_out = Result4 { start: delta.as_mut_ptr(), strides: per_head };
    parallel_for(batch * heads * queries, 4096usize.div_ceil(value_size.max(1)), &|range| {
        with_buffer(2 * value_size, |buffer: *mut T::Sum| {
            for index in range.clone() {
                let (b, h, i) = (index / queries / heads, index / queries % heads, index % queries);
                // SAFETY: row `i` of both operands; the buffer holds two rows.
                unsafe {
                    let second = buffer.add(value_size);
                    T::widen(out.at(b, h, i), out.strides[3], value_size, buffer);
                    T::widen(d_out.at(b, h, i), d_out.strides[3], value_size, second);
                    let mut dot = zero;
                    for j in 0..value_size {
                        dot += *buffer.add(j) * *second.add(j);
                    }
                    *delta_out.at(b, h, i) = dot;
                }
            }
        })
    });
    let delta = Operand4 { start: delta.as_ptr(), strides: per_head };

    // The keys of one head in one piece, or in a few whose parts of d_q are added in order.
    let cuts = (PIECES / (batch * key_heads)).clamp(1, 4).min(key_blocks.max(1));
    let in_place = T::PLAIN && cuts == 1 && keys > 0;
    let cut_len = if in_place { 0 } else { batch * heads * queries * size };
    let mut partial = vec![zero; cuts * cut_len];
    let partial_q = Result4 {
        start: partial.as_mut_ptr(),
        strides: [(heads * queries * size) as isize, (queries * size) as isize, size as isize, 1],
    };
    let widened = if T::PLAIN { 0 } else { 1 };
    let lens = [
        ROWS * KEYS,
        ROWS * KEYS,
        KEYS * size,
        KEYS * value_size,
        widened * ROWS * size,
        widened * KEYS * size,
        widened * KEYS * value_size,
        widened * ROWS * value_size,
    ];
    let (weigh, differentiate) = (weight_rows::<T>(level()), gradient_rows::<T::Sum>(level()));
    let mask = &mask;
    let piece = |index: usize| {
        let (b, kh, cut) = (index / cuts / key_heads, index / cuts % key_heads, index % cuts);
        let blocks = cut * key_blocks / cuts..(cut + 1) * key_blocks / cuts;
        with_buffer(Parts::<T::Sum>::room(&lens), |buffer: *mut T::Sum| {
            // SAFETY: the parts have room for full tiles; every index below is inside its operand.
            unsafe {
                let mut parts = Parts(buffer);
                let [weights, gradients, sum_k, sum_v, wide_q, wide_k, wide_v, wide_d] =
                    lens.map(|len| parts.take(len));
                for key_block in blocks.clone() {
                    let j = key_block * KEYS;
                    let columns = KEYS.min(keys - j);
                    let k_tile = tile(k.at(b, kh, j), &k.strides, columns, size, wide_k);
                    let v_tile = tile(v.at(b, kh, j), &v.strides, columns, value_size, wide_v);
                    for i in 0..columns * size {
                        *sum_k.add(i) = zero;
                    }
                    for i in 0..columns * value_size {
                        *sum_v.add(i) = zero;
                    }
                    for (h, row_block) in
                        (kh * group..(kh + 1) * group).flat_map(|h| (0..row_blocks).map(move |r| (h, r)))
                    {
                        let first = row_block * ROWS;
                        let rows = ROWS.min(queries - first);
                        let d_q_tile = if in_place {
                            MatrixMut {
                                start: d_q.at(b, h, first).cast(),
                                row_stride: d_q.strides[2],
                                column_stride: d_q.strides[3],
                            }
                        } else {
                            row_major(partial_q.at(b, h, first).add(cut * cut_len), size)
                        };
                        if causal && first + rows <= j {
                            continue;
                        }
                        let q_tile = tile(q.at(b, h, first), &q.strides, rows, size, wide_q);
                        let d_tile = tile(d_out.at(b, h, first), &d_out.strides, rows, value_size, wide_d);
                        let weight_tile = row_major(weights, columns);
                        let gradient_tile = row_major(gradients, columns);

                        let by_keys = Sizes { m: rows, n: columns, k: size };
                        gemm_typed(by_keys, scale, q_tile, transposed(k_tile), zero, weight_tile);
                        weigh(WeightRows {
                            scores: weights,
                            rows,
                            columns,
                            first_length: if causal { first as isize + 1 - j as isize } else { isize::MAX / 2 },
                            mask: mask.rows(b, h, first, j),
                            logsumexp: logsumexp.at(b, h, first),
                        });
                        let weight_tile = read(weight_tile);
                        let to_values = Sizes { m: columns, n: value_size, k: rows };
                        gemm_typed(to_values, one, transposed(weight_tile), d_tile, one, row_major(sum_v, value_size));

                        let by_keys = Sizes { m: rows, n: columns, k: value_size };
                        gemm_typed(by_keys, one, d_tile, transposed(v_tile), zero, gradient_tile);
                        differentiate(GradientRows { weights, gradients, rows, columns, delta: delta.at(b, h, first) });
                        let gradient_tile = read(gradient_tile);
                        // The first tile of a row's keys sets d_q, the others add to it.
                        let old = if key_block == blocks.start { zero } else { one };
                        let to_queries = Sizes { m: rows, n: size, k: columns };
                        gemm_typed(to_queries, scale, gradient_tile, k_tile, old, d_q_tile);
                        let to_keys = Sizes { m: columns, n: size, k: rows };
                        gemm_typed(to_keys, scale, transposed(gradient_tile), q_tile, one, row_major(sum_k, size));
                    }
                    let (to_k, to_v) = (d_k.at(b, kh, j), d_v.at(b, kh, j));
                    T::finish(sum_k, size, columns, size, one, None, to_k, d_k.strides[2], d_k.strides[3]);
                    T::finish(sum_v, value_size, columns, value_size, one, None, to_v, d_v.strides[2], d_v.strides[3]);
                }
            }
        });
    };
    parallel_for(batch * key_heads * cuts, 1, &|range| range.for_each(&piece));

    if in_place {
        return;
    }
    parallel_for(batch * heads * queries, 4096usize.div_ceil(size.max(1)), &|range| {
        for index in range {
            let (b, h, i) = (index / queries / heads, index / queries % heads, index % queries);
            // SAFETY: row `i` of d_q and of every part.
            unsafe {
                let row = partial_q.at(b, h, i);
                for cut in 1..cuts {
                    let from = row.add(cut * cut_len);
                    for j in 0..size {
                        *row.add(j) += *from.add(j);
                    }
                }
                T::finish(row, size, 1, size, one, None, d_q.at(b, h, i), 0, d_q.strides[3]);
            }
        }
    });
}
