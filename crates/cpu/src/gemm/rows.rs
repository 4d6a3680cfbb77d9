//! Products of few rows, where memory is the limit: every element of B is read once, in order, and never copied.

use super::multiply::{Product, Shared};
use super::operand::Entry;
use super::pack::with_buffer;
use super::simd::Lane;
use crate::math::Level;
use flambeau_base::allocator::check_available;
use flambeau_base::parallel::parallel_for;

/// Elements of B a piece reads at least: 10 microseconds at memory speed.
pub(super) const PIECE: usize = 1 << 16;

/// The most rows that B is read once for where its rows are contiguous.
pub(super) const MOST: usize = 2;

/// Computes the product by rows if its layout suits; says whether it did.
///
/// # Safety
/// As for [`Product::run`]; alpha and beta must be what `T::finish` wants.
pub unsafe fn run<T: Entry>(p: &Product<T>, level: Level) -> bool {
    // SAFETY: forwarded contract.
    if p.m == 1 && p.n == 1 && unsafe { T::one_sum(p) } {
        return true;
    }
    // Rows that repeat one number may be longer than what memory holds.
    if !rows_in_place(p) && check_available((p.m * size_of::<T::Lane>()).saturating_mul(p.k)).is_err() {
        return false;
    }
    if T::PARTS != 1 {
        return false;
    }
    let (m, n, k) = (p.m, p.n, p.k);
    // Either way, x is wanted as contiguous lanes.
    if p.b_row == 1 || (m == 1 && k == 1) {
        let Some(dot) = T::dot(level) else { return false };
        with_rows(p, |x, x_row| {
            // Long dot products of few columns are cut too.
            let cuts = if n * k >= 4 * PIECE {
                ((n * k / PIECE).min(32) / n.div_ceil(4)).clamp(1, k.div_ceil(4096))
            } else {
                1
            };
            let blocks = n.div_ceil(4);
            let grain = PIECE.div_ceil(4 * k.div_ceil(cuts)).max(1);
            finish_cuts(p, cuts, |sums| {
                let piece = |range: std::ops::Range<usize>| {
                    for index in range {
                        let (cut, j) = (index / blocks, index % blocks * 4);
                        let (first, last) = (cut * k / cuts, (cut + 1) * k / cuts);
                        let columns = 4.min(n - j);
                        let mut i = 0;
                        while i < m {
                            let rows = match m - i {
                                4.. => 4,
                                2.. => 2,
                                _ => 1,
                            };
                            // SAFETY: rows i.. of x, columns j.. of B and of the sums are inside the product.
                            unsafe {
                                dot(
                                    x.get().offset(i as isize * x_row).add(first),
                                    x_row,
                                    rows,
                                    p.b.offset(j as isize * p.b_column).add(first),
                                    p.b_column,
                                    columns,
                                    last - first,
                                    sums.get().add((cut * m + i) * n + j),
                                    n as isize,
                                );
                            }
                            i += rows;
                        }
                    }
                };
                if grain >= blocks * cuts {
                    piece(0..blocks * cuts)
                } else {
                    parallel_for(blocks * cuts, grain, &piece)
                }
            });
        });
        return true;
    }
    if p.b_column != 1 || m > MOST {
        return false;
    }
    let Some(axpy) = T::axpy(level) else { return false };
    // Several rows of A each take a few rows of B while these are in the second-level cache.
    let steps_at_once = if m == 1 { k } else { 16 };
    with_rows(p, |x, x_row| {
        // Stretches of rows as long as what they are added to fits a first-level cache: hardware reads ahead in long ones.
        let chunk = if n * k >= 4 * PIECE {
            n.div_ceil(n.div_ceil(8192).max(n.div_ceil(2048).min(4))).next_multiple_of(64)
        } else {
            n
        };
        let chunks = n.div_ceil(chunk);
        let cuts = (n * k / PIECE / 4).min(16 / chunks.min(16)).clamp(1, k.div_ceil(256));
        finish_cuts(p, cuts, |sums| {
            let piece = |range: std::ops::Range<usize>| {
                for index in range {
                    let (cut, j) = (index / chunks, index % chunks * chunk);
                    let (first, last) = (cut * k / cuts, (cut + 1) * k / cuts);
                    let columns = chunk.min(n - j);
                    // SAFETY: steps first..last of x and B, columns j.. of B and of the sums are inside the product.
                    unsafe {
                        let y = |i: usize| sums.get().add((cut * m + i) * n + j);
                        for i in 0..m {
                            std::slice::from_raw_parts_mut(y(i), columns).fill(T::Lane::ZERO);
                        }
                        for step in (first..last).step_by(steps_at_once) {
                            let steps = steps_at_once.min(last - step);
                            let b = p.b.offset(step as isize * p.b_row).add(j);
                            for i in 0..m {
                                let x = x.get().offset(i as isize * x_row).add(step);
                                axpy(x, steps, b, p.b_row, columns, y(i));
                            }
                        }
                    }
                }
            };
            let pieces = chunks * cuts;
            if pieces == 1 { piece(0..1) } else { parallel_for(pieces, 1, &piece) }
        });
    });
    true
}

/// Whether [`with_rows`] reads A where it is.
fn rows_in_place<T: Entry>(p: &Product<T>) -> bool {
    T::PLAIN && (p.a_column == 1 || p.k == 1)
}

/// Calls `f` with A's rows as contiguous lanes, in place where they are that already, and the distance between rows.
fn with_rows<T: Entry>(p: &Product<T>, f: impl FnOnce(Shared<T::Lane>, isize)) {
    if rows_in_place(p) {
        return f(Shared(p.a.cast_mut().cast()), p.a_row);
    }
    with_buffer(p.m * p.k, |x: *mut T::Lane| {
        for i in 0..p.m {
            // SAFETY: row i of A and of the buffer.
            unsafe { T::widen(p.a.offset(i as isize * p.a_row), p.a_column, p.k, x.add(i * p.k)) }
        }
        f(Shared(x), p.k as isize)
    })
}

/// Calls `f` with room for `cuts` partial results of `m` by `n` elements, adds them in order and finishes into C.
pub(super) fn finish_cuts<T: Entry>(p: &Product<T>, cuts: usize, f: impl FnOnce(Shared<T::Lane>)) {
    let len = p.m * p.n * T::PARTS * T::PARTS;
    with_buffer(cuts * len, |sums: *mut T::Lane| {
        f(Shared(sums));
        // SAFETY: `f` has written every partial result.
        unsafe {
            for cut in 1..cuts {
                for i in 0..len {
                    *sums.add(i) = (*sums.add(i)).plus(*sums.add(cut * len + i));
                }
            }
            T::finish(sums, p.n * T::PARTS, p.m, p.n, p.alpha, p.beta, p.c, p.c_row, p.c_column);
        }
    })
}
