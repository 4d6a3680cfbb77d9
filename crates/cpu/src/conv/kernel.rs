//! The micro-kernel behind every convolution: a register tile of `rows x (vectors * lanes)` sums of products.
//!
//! `C[i][j] (+)= sum over k of A[row(i) + a(k)] * B[b(k) + j]`. B is a packed panel, of which the table of terms names
//! the rows that count; A is read in place, one number at a time (where a row starts need not itself be in A, if what is
//! read of it is). What plays A and B differs by driver: pixels times
//! packed weights (`pixels`), weights times packed pixels (`planes`), pixels times packed output gradients
//! (`weight_gradient`).

use super::simd::Simd;
use crate::prefetch::prefetch_near;

/// What a tile starts from.
#[derive(Clone, Copy)]
pub(crate) enum Start<E> {
    /// Zero.
    Zero,
    /// What C holds.
    Accumulate,
    /// One number per row.
    RowBias(*const E),
    /// One number per column.
    ColumnBias(*const E),
}

/// The largest number of rows of any instruction set.
pub(crate) const MOST_ROWS: usize = 8;

/// One term of the sums: where its factors lie, from the start of a row of A and from the start of B.
#[derive(Clone, Copy)]
pub(crate) struct Term {
    /// In A.
    pub a: u32,
    /// In B.
    pub b: u32,
}

/// The arguments of a micro-kernel.
pub(crate) struct Call<E> {
    /// Length of the sums.
    pub depth: usize,
    /// A.
    pub a: *const E,
    /// Where each row of A starts.
    pub a_rows: [usize; MOST_ROWS],
    /// The `depth` terms.
    pub terms: *const Term,
    /// Rows of `vectors * LANES` numbers.
    pub b: *const E,
    /// C.
    pub c: *mut E,
    /// Where each row of C starts.
    pub c_rows: [usize; MOST_ROWS],
    /// Columns of C to write: more than `(vectors - 1) * LANES`, at most `vectors * LANES`.
    pub columns: usize,
    /// What the sums start from.
    pub start: Start<E>,
}

/// A micro-kernel for a fixed number of rows and vectors.
pub(crate) type Tile<E> = unsafe fn(&Call<E>);

/// The micro-kernel.
///
/// # Safety
/// The tables and pointers of `call` cover what the module says is read and written.
#[inline(always)]
pub(crate) unsafe fn tile<S: Simd, const R: usize, const V: usize>(call: &Call<S::Element>) {
    // SAFETY: the caller's.
    unsafe {
        let zero = S::splat(Default::default());
        let mut sums = [[zero; V]; R];
        let rows: [*const S::Element; R] = std::array::from_fn(|i| call.a.wrapping_add(call.a_rows[i]));
        // What the sums are added to or stored over arrives while they are computed.
        for i in 0..R {
            for v in 0..V {
                prefetch_near(call.c.wrapping_add(call.c_rows[i] + v * S::LANES).cast());
            }
        }
        for k in 0..call.depth {
            let term = *call.terms.add(k);
            let b = call.b.add(term.b as usize);
            let right: [S::Vector; V] = std::array::from_fn(|v| S::load(b.add(v * S::LANES)));
            for (&row, sums) in rows.iter().zip(&mut sums) {
                S::add_products((row, term.a as usize), &right, sums);
            }
        }
        let last = call.columns - (V - 1) * S::LANES;
        for (i, sums) in sums.into_iter().enumerate() {
            let row = call.c.add(call.c_rows[i]);
            for (v, sum) in sums.into_iter().enumerate() {
                let width = if v + 1 == V { last } else { S::LANES };
                let place = row.add(v * S::LANES);
                let sum = match call.start {
                    Start::Zero => sum,
                    Start::Accumulate => S::plus(sum, S::load_first(place, width)),
                    Start::RowBias(bias) => S::plus(sum, S::splat(*bias.add(i))),
                    Start::ColumnBias(bias) => S::plus(sum, S::load_first(bias.add(v * S::LANES), width)),
                };
                S::store_first(place, sum, width);
            }
        }
    }
}

/// Bytes of a block of a panel: three quarters of a 48 KiB first-level cache, most of one of 32.
const PANEL_BYTES: usize = 36 << 10;
/// Terms of a block at most, unless its panel has fewer bytes than the other.
const BLOCK_TERMS: usize = 288;
const LEAST_BYTES: usize = 27 << 10;

/// Terms of a panel of so many columns that are multiplied at a time: they stay in a first-level cache.
pub(crate) fn block_terms<E>(columns: usize) -> usize {
    let bytes = columns * size_of::<E>();
    (PANEL_BYTES / bytes).min(BLOCK_TERMS.max(LEAST_BYTES / bytes))
}

/// The rows of the tiles in [`Simd::TILES`], of which an instruction set has the first ones.
pub(crate) const TILE_ROWS: [usize; 5] = [1, 2, 3, 4, MOST_ROWS];

/// The rows of the largest tile of so many vectors, where it has `rows` of two or three. Four sums of one vector would wait
/// for one another: processors begin twice as many multiply-adds until the first is done.
#[inline(always)]
pub(crate) fn most_rows(rows: usize, vectors: usize) -> usize {
    if vectors == 1 { MOST_ROWS } else { rows }
}

/// In the place of a micro-kernel that [`most_rows`] rules out.
///
/// # Safety
/// None is needed.
pub(crate) unsafe fn no_tile<E>(_: &Call<E>) {
    unreachable!("no tile has so many rows and vectors");
}

/// The number of rows of the next tile when `left` remain, of at most `most` (four or [`MOST_ROWS`]), and its index in
/// [`Simd::TILES`].
#[inline(always)]
pub(crate) fn rows_of(left: usize, most: usize) -> (usize, usize) {
    let rows = if left < most { left.min(4) } else { most };
    (rows, rows.min(TILE_ROWS.len()) - 1)
}
