//! Inputs whose memory runs along another dim than the output's, as a transposed matrix's does: block by block, they are
//! turned into buffers that run as the output. Read where they lie, every element would take a cache line of its own.

use super::MAX_OPERANDS;
use crate::buffer::Buffer;
use crate::copy::{Matrix, Shared, transpose};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::iter::{GRAIN, Iter, Rows};
use flambeau_base::parallel::parallel_for;
use smallvec::SmallVec;

/// Elements of a block along the output's innermost dim, or more where there are few along the one that is turned; and the
/// most along that.
const COLUMNS: usize = 256;
const ROWS: usize = 256;
/// Bytes of a block: it stays in a second-level cache beside those that it is combined with.
const BLOCK_BYTES: usize = 1 << 17;
/// Along dims of fewer elements there is little to gain.
const FEW: usize = 16;
/// Bytes of a cache line.
const LINE: usize = 64;

/// A walk with inputs to turn.
pub(super) struct Turned<'a> {
    iter: &'a Iter,
    /// The dim that they run along.
    fast: usize,
    /// The bytes of an element, for those that are turned.
    elements: SmallVec<[Option<usize>; MAX_OPERANDS]>,
}

impl Turned<'_> {
    /// Nothing where all operands, with elements of so many bytes, are best read where they lie.
    pub(super) fn of<'a>(iter: &'a Iter, bytes: &[usize]) -> Option<Turned<'a>> {
        let dims = iter.shape().len();
        let long = |d: usize| iter.shape()[d] >= FEW;
        let one_to_one = || (0..dims).all(|d| iter.strides(d)[0] != 0);
        if dims < 2 || !long(0) || !one_to_one() || !FastPath::PointwiseTurned.is_on() {
            return None;
        }
        let runs_along = |k: usize, d: usize| {
            let far = iter.strides(0)[k].unsigned_abs() >= LINE;
            k > 0 && far && iter.strides(d)[k] == bytes[k] as isize
        };
        let fast = (1..dims).find(|&d| long(d) && (1..bytes.len()).any(|k| runs_along(k, d)))?;
        let elements = (0..bytes.len()).map(|k| runs_along(k, fast).then_some(bytes[k])).collect();
        Some(Turned { iter, fast, elements })
    }

    /// [`Iter::for_each_rows`], with rows of the buffers in place of those that are turned.
    pub(super) fn for_each_rows(&self, rows: &Rows) {
        let (iter, fast) = (self.iter, self.fast);
        let (width, height) = (iter.shape()[0], iter.shape()[fast]);
        let widest = self.elements.iter().flatten().copied().max().unwrap_or(1);
        // (In whole cache lines.)
        let columns = (BLOCK_BYTES / (height * widest) / COLUMNS * COLUMNS).max(COLUMNS).min(width);
        let block_rows = (BLOCK_BYTES / (columns * widest)).clamp(FEW, ROWS);
        let (across, down) = (width.div_ceil(columns), height.div_ceil(block_rows));
        // A line more than the columns take: rows a power of two apart share few cache sets.
        let pitch = |element: usize| (columns * element + LINE) as isize;
        let room = block_rows * pitch(widest) as usize;
        let outer = self.outer();
        parallel_for(outer.numel() * across * down, (GRAIN / (columns * block_rows)).max(1), &|pieces| {
            let mut buffer = Buffer::<u8>::default();
            let buffers = Shared(buffer.room(self.elements.iter().flatten().count() * room));
            for piece in pieces {
                let (matrix, block) = (piece / (across * down), piece % (across * down));
                let (column, row) = (block % across * columns, block / across * block_rows);
                let size = [columns.min(width - column), block_rows.min(height - row)];
                outer.range(matrix, matrix + 1, &|start, _, _| {
                    let (mut data, mut next) = (SmallVec::<[*mut u8; MAX_OPERANDS]>::new(), buffers.get());
                    let mut strides =
                        [iter.strides(0), iter.strides(fast)].map(SmallVec::<[isize; MAX_OPERANDS]>::from_slice);
                    for (k, element) in self.elements.iter().enumerate() {
                        let (inner, outer) = (strides[0][k], strides[1][k]);
                        let at = start[k].wrapping_offset(column as isize * inner + row as isize * outer);
                        let Some(element) = *element else {
                            data.push(at);
                            continue;
                        };
                        let unit = element as isize;
                        let turn = Matrix {
                            dst: next,
                            src: at,
                            size: (size[0], size[1]),
                            dst_stride: (unit, pitch(element)),
                            src_stride: (inner, outer),
                        };
                        // SAFETY: a block of the caller's operand, and room for it.
                        unsafe { transpose(element, turn) };
                        data.push(next);
                        (strides[0][k], strides[1][k]) = (unit, pitch(element));
                        next = next.wrapping_add(room);
                    }
                    rows(&data, [&strides[0], &strides[1]], size);
                });
            }
        });
    }

    /// A walk over the other dims.
    fn outer(&self) -> Iter {
        let iter = self.iter;
        let dims = || (1..iter.shape().len()).rev().filter(|&d| d != self.fast);
        let sizes: SmallVec<[i64; 5]> = dims().map(|d| iter.shape()[d] as i64).collect();
        let strides: Vec<SmallVec<[isize; 5]>> =
            (0..self.elements.len()).map(|k| dims().map(|d| iter.strides(d)[k]).collect()).collect();
        let operands: SmallVec<[(*mut u8, &[isize]); MAX_OPERANDS]> =
            iter.data().iter().zip(&strides).map(|(p, s)| (*p, &s[..])).collect();
        Iter::new(&sizes, &operands)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_PARAMS, Map, Operand, run, strip};
    use crate::math::{Isa, level};
    use flambeau_base::{DType, Scalar};

    struct Difference;
    impl Map<f32, 2> for Difference {
        type Out = f32;
        fn map<I: Isa>([x, y]: [f32; 2], _: &[f32; MAX_PARAMS]) -> f32 {
            x - 3.0 * y
        }
    }

    /// `x - 3 y` of three dims, of which the operands run along different ones.
    #[test]
    fn turned_inputs_are_read_in_order() {
        for sizes in [[1, 300, 70], [3, 17, 530], [40, 5, 16], [2, 16, 16], [1, 65, 1100]] {
            let [a, b, c] = sizes;
            let n = a * b * c;
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let y: Vec<f64> = (0..n).map(|i| (i * 7 % 1000) as f64).collect();
            let orders = [[b * c, c, 1], [b * c, 1, b], [1, a * c, a], [1, a, a * b]];
            for (of_x, of_y) in (0..16).map(|k| (orders[k / 4], orders[k % 4])) {
                let bytes = |strides: [usize; 3], size: usize| strides.map(|s| (s * size) as isize);
                let (to, first, second) = (bytes(orders[0], 4), bytes(of_x, 4), bytes(of_y, 8));
                let mut out = vec![0f32; n];
                let operand = |data: *const u8, strides, dtype| Operand { data: data.cast_mut(), strides, dtype };
                let operands = [
                    operand(out.as_mut_ptr().cast(), &to[..], DType::F32),
                    operand(x.as_ptr().cast(), &first[..], DType::F32),
                    operand(y.as_ptr().cast(), &second[..], DType::F64),
                ];
                let params = [Scalar::Int(0); MAX_PARAMS];
                // SAFETY: the operands are of these sizes at their strides, and apart.
                unsafe {
                    run(strip::<Difference, f32, 2>(level()), DType::F32, params, &sizes.map(|s| s as i64), &operands);
                }
                for (at, out) in out.iter().enumerate() {
                    let index = [at / (b * c), at / c % b, at % c];
                    let place = |strides: [usize; 3]| index.iter().zip(strides).map(|(i, s)| i * s).sum::<usize>();
                    assert_eq!(*out, x[place(of_x)] - 3.0 * y[place(of_y)] as f32, "{sizes:?} {of_x:?} {of_y:?} {at}");
                }
            }
        }
    }

    /// `x - 3 y` of strided rows, also in place and backwards: what lies between the elements stays.
    #[test]
    fn strided_rows_are_laid_out() {
        for n in [1usize, 16, 63, 64, 65, 200, 512, 1100] {
            for (step, out_step) in [(2isize, 1), (2, 2), (3, 1), (3, 2), (-1, 1), (-2, 3), (1, 2), (4, 1)] {
                let room = 4 * n + 1;
                let mut x: Vec<f32> = (0..room).map(|i| i as f32).collect();
                let y: Vec<f32> = (0..room).map(|i| (i * 7 % 100) as f32).collect();
                let mut out = vec![-1f32; room];
                let start = if step < 0 { 2 * n } else { 0 };
                let place = |i: usize| (start as isize + i as isize * step) as usize;
                let want: Vec<f32> = (0..n).map(|i| x[place(i)] - 3.0 * y[place(i)]).collect();
                let (ins, outs) = ([4 * step], [4 * out_step]);
                let operand =
                    |data: *const f32, strides| Operand { data: data.cast_mut().cast(), strides, dtype: DType::F32 };
                let params = [Scalar::Int(0); MAX_PARAMS];
                // SAFETY: the operands have `n` elements at their strides; the output is apart, or an input.
                unsafe {
                    let sub = strip::<Difference, f32, 2>(level());
                    let (first, second) =
                        (operand(&raw const x[start], &ins[..]), operand(&raw const y[start], &ins[..]));
                    let to = operand(out.as_mut_ptr(), &outs[..]);
                    run(sub, DType::F32, params, &[n as i64], &[to, first, second]);
                    let first = operand(&raw mut x[start], &ins[..]);
                    run(sub, DType::F32, params, &[n as i64], &[first, first, second]);
                }
                let mut written = vec![-1f32; room];
                let mut changed: Vec<f32> = (0..room).map(|i| i as f32).collect();
                for (i, &want) in want.iter().enumerate() {
                    (written[i * out_step as usize], changed[place(i)]) = (want, want);
                }
                assert_eq!(out, written, "{n} {step} {out_step}");
                assert_eq!(x, changed, "{n} {step} in place");
            }
        }
    }
}
