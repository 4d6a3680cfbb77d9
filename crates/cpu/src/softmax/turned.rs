//! Rows of few elements, with columns of rows made of them: what belongs to a row is then in one lane of a vector, and no
//! vector is summed across.

use super::columns::{self, Lines};
use super::{Columns, NARROW, RowFunction, SoftmaxShape, TASK, TILE};
use crate::buffer::Scratch;
use crate::copy::stream;
use crate::copy::transpose::turn;
use crate::math::{Float, entry, level};
use crate::norm::rows::{LANES, Rows};
use flambeau_base::parallel::parallel_for;

/// The longest rows that turning pays for, where elements of a row are neighbours.
const SHORT: usize = 48;
const SHORT_DOUBLES: usize = 56;

/// The most elements of a block of rows side by side.
const BLOCK: usize = 1024;

/// Blocks that are turned together.
const TOGETHER: usize = LANES;

/// Whether a shape is to be turned. (Rows of a function without a maximum are fast enough as they are.)
pub(super) fn is_short<T, F: RowFunction>(shape: &SoftmaxShape) -> bool {
    let SoftmaxShape { outer, dim, inner } = *shape;
    match inner {
        // (Few columns are computed together in sixteens, which is a waste for some.)
        1 if dim <= NARROW => F::MAX && outer >= dim,
        1 => F::MAX && outer >= TOGETHER && dim <= if size_of::<T>() == 8 { SHORT_DOUBLES } else { SHORT },
        2..NARROW => dim * inner <= BLOCK && outer * inner >= LANES,
        _ => false,
    }
}

/// A function of one input, or of two.
///
/// # Safety
/// The rows must be valid for all elements of the shape; the output may be an input, and nothing else may overlap.
pub(super) unsafe fn run<T: Float, F: RowFunction>(shape: SoftmaxShape, a: Rows<T>, b: Option<Rows<T>>, out: Rows<T>) {
    let SoftmaxShape { outer, dim, inner } = shape;
    let n = dim * inner;
    let columns = entry::<Columns<T, F>>(level());
    let direct = a.is_direct() && b.is_none_or(|b| b.is_direct()) && out.is_direct();
    // What no cache holds is read and written in order, by way of one, unless rows are hardly apart.
    let in_order = direct
        && n * size_of::<T>() > 64
        && stream::streams((if b.is_some() { 3 } else { 2 }) * outer * n * size_of::<T>());
    let read = if in_order { Rows::read_in_order } else { Rows::read };
    parallel_for(outer.div_ceil(TOGETHER), (TASK / (TOGETHER * n)).max(1), &|range| {
        let room = Scratch::<T>::new(if F::MAX { columns::room(dim, TILE, false) } else { 0 });
        let tiles = Scratch::<T>::new(TOGETHER * n * if b.is_some() { 3 } else { 1 });
        let scratch = Scratch::<T>::new(if direct && !in_order { 0 } else { TOGETHER * n });
        let first_tile = tiles.get();
        for first in range.map(|i| i * TOGETHER) {
            let count = TOGETHER.min(outer - first);
            // SAFETY: `count` blocks of `n` elements of the caller's; the scratch memory and each tile hold as many.
            unsafe {
                let turn_in = |rows: &Rows<T>, tile: *mut T| {
                    turn(read(rows, first * n, count * n, scratch.get()), n, tile, count, (count, n));
                    tile
                };
                turn_in(&a, first_tile);
                let second_tile = b.as_ref().map_or(first_tile, |b| turn_in(b, first_tile.add(TOGETHER * n)));
                let line = inner * count;
                let result = if b.is_some() { second_tile.add(TOGETHER * n) } else { first_tile };
                for start in (0..line).step_by(TILE) {
                    let lines = |tile: *mut T| Lines { first: tile.add(start), stride: line };
                    let inputs = [first_tile, second_tile].map(lines);
                    columns((inputs, lines(result), (dim, TILE.min(line - start)), room.get(), false));
                }
                let to = if in_order { scratch.get() } else { out.target(first * n, scratch.get()) };
                turn(result, count, to, n, (n, count));
                let write = if in_order { Rows::write_past } else { Rows::written };
                write(&out, first * n, count * n, to);
            }
        }
        if in_order {
            stream::finish();
        }
    });
}
