//! Scaled dot-product attention, `softmax(scale * q @ k.T + mask) @ v`, without ever holding the whole matrix of scores.
//!
//! Blocks of rows meet blocks of keys in a tile that stays in the cache; each row keeps its running maximum and sum and
//! corrects its output when the maximum grows ("FlashAttention-2", Dao 2023). Memory beyond the results grows with the
//! sequence length only. The matrix products are [`crate::gemm`]'s; halves are widened tile by tile, or multiplied as they
//! are where the processor adds their products to `f32`: scores and sums are `f32`.
//!
//! A row with no key to attend to gives zeros, with a log-sum-exp of zero, as PyTorch's does.

mod backward;
mod rows;

#[cfg(test)]
mod tests;

use backward::attention_backward;

use crate::gemm::{Entry, Matrix, MatrixMut, Operand, Sizes, Summand, gemm_typed, with_buffer};
use crate::math::{Float, Number, level};
use flambeau_base::dtype::{bf16, f16};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{Bool, Element};
use rows::{MaskRows, SoftmaxRows, softmax_rows};

/// An element type that attention is defined for. Its kernels are compiled here: see `compiled.rs`.
pub trait AttentionElement: Operand<Lane = Self::Sum, Factor = Self::Sum> {
    /// The type of scores, sums and log-sum-exps.
    type Sum: Float + Operand<Lane = Self::Sum, Factor = Self::Sum>;
    /// The elements, as factors of products whose results are sums; a type of another size where there are no such.
    type Summand: Entry<Out = Self::Sum, Lane = Self::Sum, Factor = Self::Sum>;
    /// Attention: writes `out` (batch, heads, queries, value size) and, for the backward pass, each query's log-sum-exp,
    /// contiguous (batch, heads, queries).
    ///
    /// # Safety
    /// All operands must be valid for the sizes and strides, and `heads` must be a multiple of `key_heads`; `out` must not
    /// overlap itself or an operand.
    unsafe fn forward(attention: &Attention<Self>, out: Result4<Self>, logsumexp: *mut Self::Sum);
    /// Writes the gradients of q, k and v, of their operands' sizes, from the gradient of the output (`d_out`), the output
    /// and the log-sum-exps that [`AttentionElement::forward`] wrote.
    ///
    /// # Safety
    /// As for [`AttentionElement::forward`]; the results must overlap nothing.
    unsafe fn backward(
        attention: &Attention<Self>,
        out: Operand4<Self>,
        logsumexp: *const Self::Sum,
        d_out: Operand4<Self>,
        results: [Result4<Self>; 3],
    );
}

macro_rules! attention_elements {
    ($($t:ty: $sum:ty, $summand:ty;)*) => { $(
        impl AttentionElement for $t {
            type Sum = $sum;
            type Summand = $summand;
            unsafe fn forward(attention: &Attention<$t>, out: Result4<$t>, logsumexp: *mut $sum) {
                // SAFETY: the caller's.
                unsafe { attention_forward(attention, out, logsumexp) }
            }
            unsafe fn backward(
                attention: &Attention<$t>,
                out: Operand4<$t>,
                logsumexp: *const $sum,
                d_out: Operand4<$t>,
                [d_q, d_k, d_v]: [Result4<$t>; 3],
            ) {
                // SAFETY: the caller's.
                unsafe { attention_backward(attention, out, logsumexp, d_out, d_q, d_k, d_v) }
            }
        }
    )* };
}
attention_elements! { f32: f32, f32; f64: f64, f64; f16: f32, f32; bf16: f32, Summand; }

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSizes {
    /// Independent problems.
    pub batch: usize,
    /// Heads of the queries: a multiple of `key_heads`.
    pub heads: usize,
    /// Heads of the keys and values; each serves `heads / key_heads` neighbouring heads of the queries.
    pub key_heads: usize,
    /// Rows of the queries.
    pub queries: usize,
    /// Rows of the keys and values.
    pub keys: usize,
    /// Columns of the queries and keys.
    pub size: usize,
    /// Columns of the values.
    pub value_size: usize,
}

/// A four-dimensional operand: where it starts and its strides in elements (batch, head, row, column).
#[derive(Debug)]
pub struct Operand4<T> {
    /// The first element.
    pub start: *const T,
    /// The strides; zero repeats.
    pub strides: [isize; 4],
}

/// A four-dimensional result, as [`Operand4`].
#[derive(Debug)]
pub struct Result4<T> {
    /// The first element.
    pub start: *mut T,
    /// The strides.
    pub strides: [isize; 4],
}

macro_rules! pointers {
    ($($name:ident)*) => { $(
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        // SAFETY: pieces of the work read the operands and write disjoint parts of the results.
        unsafe impl<T> Sync for $name<T> {}
        // SAFETY: as above.
        unsafe impl<T> Send for $name<T> {}
    )* };
}
pointers! { Operand4 Result4 }

impl<T> Operand4<T> {
    /// The element at an index.
    ///
    /// # Safety
    /// The index must be inside the operand.
    unsafe fn at(&self, b: usize, h: usize, i: usize) -> *const T {
        // SAFETY: forwarded contract.
        unsafe { self.start.offset(offset(&self.strides, b, h, i)) }
    }
}

impl<T> Result4<T> {
    /// The element at an index.
    ///
    /// # Safety
    /// The index must be inside the result.
    unsafe fn at(&self, b: usize, h: usize, i: usize) -> *mut T {
        // SAFETY: forwarded contract.
        unsafe { self.start.offset(offset(&self.strides, b, h, i)) }
    }
}

fn offset(s: &[isize; 4], b: usize, h: usize, i: usize) -> isize {
    b as isize * s[0] + h as isize * s[1] + i as isize * s[2]
}

/// Which keys a query attends to, broadcast with strides of zero to (batch, heads, queries, keys).
#[derive(Debug)]
pub enum Mask<T: AttentionElement> {
    /// Every key.
    None,
    /// Those where it is true.
    Boolean(Operand4<Bool>),
    /// What is added to the scaled scores, in the operands' type.
    Additive(Operand4<T>),
    /// What is added to the scaled scores, in the type of the scores.
    AdditiveWide(Operand4<T::Sum>),
}

impl<T: AttentionElement> Clone for Mask<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: AttentionElement> Copy for Mask<T> {}

impl<T: AttentionElement> Mask<T> {
    /// The part from query `i` and key `j` on.
    unsafe fn rows(&self, b: usize, h: usize, i: usize, j: usize) -> MaskRows<T> {
        // SAFETY: the caller's indices are inside the mask.
        unsafe {
            match self {
                Mask::None => MaskRows::None,
                Mask::Boolean(m) => {
                    MaskRows::Boolean(m.at(b, h, i).offset(j as isize * m.strides[3]), m.strides[2], m.strides[3])
                }
                Mask::Additive(m) => {
                    MaskRows::Additive(m.at(b, h, i).offset(j as isize * m.strides[3]), m.strides[2], m.strides[3])
                }
                Mask::AdditiveWide(m) => {
                    MaskRows::AdditiveWide(m.at(b, h, i).offset(j as isize * m.strides[3]), m.strides[2], m.strides[3])
                }
            }
        }
    }
}

/// What attention computes with, forwards and backwards.
#[derive(Debug)]
pub struct Attention<T: AttentionElement> {
    /// The sizes.
    pub sizes: AttentionSizes,
    /// (batch, heads, queries, size).
    pub q: Operand4<T>,
    /// (batch, key heads, keys, size).
    pub k: Operand4<T>,
    /// (batch, key heads, keys, value size).
    pub v: Operand4<T>,
    /// The mask.
    pub mask: Mask<T>,
    /// Whether query `i` attends to keys up to `i` only, besides what the mask says.
    pub causal: bool,
    /// The factor of the scores.
    pub scale: f64,
}

impl<T: AttentionElement> Clone for Attention<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: AttentionElement> Copy for Attention<T> {}

/// Keys in a tile: its scores and the keys and values behind them fit a second-level cache.
const KEYS: usize = 256;
/// The most rows in a tile.
const ROWS: usize = 128;
/// As many, where products of narrow numbers take less time than it takes to pack them.
const NARROW_ROWS: usize = 256;
/// Fewer rows than these are multiplied as sums are.
const FEWEST_NARROW_ROWS: usize = 8;
/// Pieces wanted before rows are put into one tile.
const PIECES: usize = 16;

/// Whether elements are multiplied as they are, several at a time, and only sums are wide. Weights are rounded to elements
/// then, as PyTorch's are.
fn stays_narrow<T: AttentionElement>(queries: usize) -> bool {
    !T::PLAIN
        && size_of::<T::Summand>() == size_of::<T>()
        && queries >= FEWEST_NARROW_ROWS
        && FastPath::GemmGroups.is_on()
        && T::Summand::group_kernels(level(), [false; 2]).is_some()
}

/// Rows in a tile, by size only: many where there is enough to do otherwise. In front of a diagonal a tile's last row decides
/// how many scores all of them compute: in four tiles about an eighth of all are in vain, in one half.
fn tile_rows(problems: usize, queries: usize, causal: bool, most: usize) -> usize {
    let mut rows = if causal { (queries / 4).next_power_of_two().clamp(32, most) } else { most };
    while rows > 32 && problems * queries.div_ceil(rows) < PIECES {
        rows /= 2;
    }
    rows.min(queries.max(1))
}

/// A tile of an operand as it is.
fn narrow_tile<T: AttentionElement>(start: *const T, strides: &[isize; 4]) -> Matrix<T::Summand> {
    Matrix { start: start.cast(), row_stride: strides[2], column_stride: strides[3], conj: false }
}

/// A tile of an operand as a matrix of sums: in place if it is one, else copied to `buffer`.
///
/// # Safety
/// `start` must be valid for the tile, `buffer` for `rows * columns` values unless `T` is its own sum.
unsafe fn tile<T: AttentionElement>(
    start: *const T,
    strides: &[isize; 4],
    rows: usize,
    columns: usize,
    buffer: *mut T::Sum,
) -> Matrix<T::Sum> {
    if T::PLAIN {
        return Matrix { start: start.cast(), row_stride: strides[2], column_stride: strides[3], conj: false };
    }
    for i in 0..rows {
        // SAFETY: row `i` of the tile and of the buffer.
        unsafe { T::widen(start.offset(i as isize * strides[2]), strides[3], columns, buffer.add(i * columns)) }
    }
    Matrix { start: buffer, row_stride: columns as isize, column_stride: 1, conj: false }
}

fn transposed<S>(m: Matrix<S>) -> Matrix<S> {
    Matrix { row_stride: m.column_stride, column_stride: m.row_stride, ..m }
}

fn row_major<S>(start: *mut S, columns: usize) -> MatrixMut<S> {
    MatrixMut { start, row_stride: columns as isize, column_stride: 1 }
}

fn read<S>(m: MatrixMut<S>) -> Matrix<S> {
    Matrix { start: m.start, row_stride: m.row_stride, column_stride: m.column_stride, conj: false }
}

/// Cuts a buffer into parts.
struct Parts<S>(*mut S);
impl<S> Parts<S> {
    /// The next `len` values, starting on a cache line.
    unsafe fn take(&mut self, len: usize) -> *mut S {
        let start = self.0;
        // SAFETY: the caller sized the buffer with `Parts::room`.
        self.0 = unsafe { start.add(Self::room(&[len])) };
        start
    }
    /// What parts of these lengths take.
    fn room(lens: &[usize]) -> usize {
        lens.iter().map(|len| len.next_multiple_of(64)).sum()
    }
}

/// See [`AttentionElement::forward`].
///
/// # Safety
/// As there.
unsafe fn attention_forward<T: AttentionElement>(attention: &Attention<T>, out: Result4<T>, logsumexp: *mut T::Sum) {
    let Attention { sizes, q, k, v, mask, causal, scale } = *attention;
    let AttentionSizes { batch, heads, key_heads, queries, keys, size, value_size } = sizes;
    if batch * heads * queries == 0 {
        return;
    }
    let narrow = stays_narrow::<T>(queries);
    let most_rows = tile_rows(batch * heads, queries, causal, if narrow { NARROW_ROWS } else { ROWS });
    let row_blocks = queries.div_ceil(most_rows);
    let logsumexp = Result4 { start: logsumexp, strides: [(heads * queries) as isize, queries as isize, 1, 1] };
    let widened = if T::PLAIN || narrow { 0 } else { 1 };
    let lens = [
        most_rows * KEYS,
        most_rows * value_size,
        most_rows,
        most_rows,
        widened * most_rows * size,
        widened * KEYS * size,
        widened * KEYS * value_size,
        // Of narrow weights, which take no more room than sums.
        if narrow { most_rows * KEYS } else { 0 },
    ];
    let zero = <T::Sum as Number>::ZERO;
    let one = <T::Sum as Number>::ONE;
    let soften = softmax_rows::<T>(level());
    let mask = &mask;
    let piece = |index: usize| {
        let (b, h) = (index / row_blocks / heads, index / row_blocks % heads);
        let block = index % row_blocks;
        let rows = block * queries / row_blocks..(block + 1) * queries / row_blocks;
        let kh = h / (heads / key_heads);
        let count = rows.len();
        with_buffer(Parts::<T::Sum>::room(&lens), |buffer: *mut T::Sum| {
            // SAFETY: the parts have room for a full tile; every index below is inside its operand.
            unsafe {
                let mut parts = Parts(buffer);
                let [scores, sums, maxima, totals, wide_q, wide_k, wide_v, weights] = lens.map(|len| parts.take(len));
                for i in 0..count * value_size {
                    *sums.add(i) = zero;
                }
                for i in 0..count {
                    *maxima.add(i) = T::Sum::NEG_INFINITY;
                    *totals.add(i) = zero;
                }
                let q_start = q.at(b, h, rows.start);
                let q_tile = if narrow { None } else { Some(tile(q_start, &q.strides, count, size, wide_q)) };
                let scale = T::Sum::from_f64(scale);
                let last = if causal { keys.min(rows.end) } else { keys };
                let mut j = 0;
                while j < last {
                    let columns = KEYS.min(last - j);
                    let (k_start, v_start) = (k.at(b, kh, j), v.at(b, kh, j));
                    let tile_sizes = Sizes { m: count, n: columns, k: size };
                    let score_tile = row_major(scores, columns);
                    if let Some(q_tile) = q_tile {
                        let k_tile = tile(k_start, &k.strides, columns, size, wide_k);
                        gemm_typed(tile_sizes, scale, q_tile, transposed(k_tile), zero, score_tile);
                    } else {
                        let (q_tile, k_tile) = (narrow_tile(q_start, &q.strides), narrow_tile(k_start, &k.strides));
                        gemm_typed::<T::Summand>(tile_sizes, one, q_tile, transposed(k_tile), zero, score_tile);
                    }
                    soften(SoftmaxRows {
                        scores,
                        // The factor of narrow products is one: tiles of sums then need no other pass.
                        scale: if narrow { scale } else { one },
                        rows: count,
                        columns,
                        // Query `i` attends to keys up to `i`: so many of this tile's.
                        first_length: if causal { rows.start as isize + 1 - j as isize } else { isize::MAX / 2 },
                        mask: mask.rows(b, h, rows.start, j),
                        maxima,
                        totals,
                        sums,
                        width: value_size,
                    });
                    let tile_sizes = Sizes { m: count, n: value_size, k: columns };
                    let sum_tile = row_major(sums, value_size);
                    if narrow {
                        let weights = weights.cast::<T>();
                        T::finish(scores, columns, count, columns, one, None, weights, columns as isize, 1);
                        let weights = read(row_major(weights.cast::<T::Summand>(), columns));
                        let v_tile = narrow_tile(v_start, &v.strides);
                        gemm_typed::<T::Summand>(tile_sizes, one, weights, v_tile, one, sum_tile);
                    } else {
                        let v_tile = tile(v_start, &v.strides, columns, value_size, wide_v);
                        gemm_typed(tile_sizes, one, read(score_tile), v_tile, one, sum_tile);
                    }
                    j += columns;
                }
                for i in 0..count {
                    let total = *totals.add(i);
                    let none = total == zero;
                    let inverse = if none { zero } else { one / total };
                    let to = out.at(b, h, rows.start + i);
                    T::finish(
                        sums.add(i * value_size),
                        value_size,
                        1,
                        value_size,
                        inverse,
                        None,
                        to,
                        0,
                        out.strides[3],
                    );
                    let log = total.log::<crate::math::Baseline>();
                    *logsumexp.at(b, h, rows.start + i) = if none { zero } else { *maxima.add(i) + log };
                }
            }
        });
    };
    parallel_for(batch * heads * row_blocks, 1, &|range| range.for_each(&piece));
}
