//! A right operand that many products share, laid out once.

use super::Matrix;
use super::kernel::{Block, KernelLane, Kernels};
use super::multiply::Shared;
use super::operand::Operand;
use super::pack::with_buffer;
use crate::math::level;
use flambeau_base::parallel::parallel_for;
use std::ops::Range;

/// Elements worth a piece of laying out.
const PIECE: usize = 1 << 15;

/// Several matrices of `k` by `n` of a plain type, cut into panels of neighbouring columns that a kernel reads in order. A
/// row of a product has the same bits whatever other rows it is computed with.
pub struct Panels<T: Operand> {
    start: Shared<T::Lane>,
    k: usize,
    n: usize,
    kernels: &'static Kernels<T::Lane>,
}

impl<T: Operand> Panels<T> {
    /// Calls `f` with `count` matrices of `k` by `n` that stand side by side in `b`.
    ///
    /// # Safety
    /// `b` must be valid for `k` rows and `count * n` columns.
    pub unsafe fn with<R>(b: Matrix<T>, count: usize, k: usize, n: usize, f: impl FnOnce(&Panels<T>) -> R) -> R {
        let kernels = T::Lane::kernels(level());
        assert!(T::PLAIN, "panels are of plain numbers");
        let width = kernels.width();
        let panels = n.div_ceil(width);
        with_buffer(count * panels * k * width, |start: *mut T::Lane| {
            let (from, to) = (Shared(b.start.cast_mut()), Shared(start));
            parallel_for(count * panels, PIECE.div_ceil((k * width).max(1)), &|range| {
                for index in range {
                    let first = index % panels * width;
                    let columns = width.min(n - first);
                    // SAFETY: the panel is inside the matrix and the buffer, and this piece's alone.
                    unsafe {
                        let from = from.get().offset((index / panels * n + first) as isize * b.column_stride);
                        let to = to.get().add(index * k * width);
                        T::pack(from, b.column_stride, b.row_stride, columns, width, k, to, b.conj);
                    }
                }
            });
            f(&Panels { start: to, k, n, kernels })
        })
    }

    /// `c = a @ b`, or `c += a @ b`, for some columns of a matrix: `rows` rows of A and of C, with these distances between
    /// rows, C's first column being the first of `columns`, which must be a multiple of 32.
    ///
    /// # Safety
    /// A must be valid for `k` columns and C for the columns asked for, which the matrix must have; C must be apart from A.
    pub unsafe fn multiply(
        &self,
        matrix: usize,
        columns: Range<usize>,
        (a, a_row): (*const T, usize),
        rows: usize,
        add: bool,
        (c, c_row): (*mut T, usize),
    ) {
        let (width, lanes, most) = (self.kernels.width(), self.kernels.lanes, self.kernels.direct.len());
        debug_assert!(columns.start.is_multiple_of(width) && columns.end <= self.n);
        let (first, panels) = (columns.start / width, self.n.div_ceil(width));
        let parts = rows.div_ceil(most);
        for panel in first..columns.end.div_ceil(width) {
            let count = width.min(columns.end - panel * width);
            let vectors = count.div_ceil(lanes);
            for part in 0..parts {
                let (start, end) = (part * rows / parts, (part + 1) * rows / parts);
                let kernel = self.kernels.direct[end - start - 1][vectors - 1];
                // SAFETY: rows and columns of the caller's matrices; the panel is inside the buffer.
                unsafe {
                    kernel(&Block {
                        k: self.k,
                        a: a.add(start * a_row).cast(),
                        a_row: a_row as isize,
                        a_step: 1,
                        b: self.start.get().add((matrix * panels + panel) * self.k * width),
                        b_step: width as isize,
                        c: c.add(start * c_row + (panel - first) * width).cast(),
                        c_row: c_row as isize,
                        rows: end - start,
                        columns: count,
                        alpha: T::factor_lane(T::ONE),
                        beta: add.then(|| T::factor_lane(T::ONE)),
                    });
                }
            }
        }
    }
}
