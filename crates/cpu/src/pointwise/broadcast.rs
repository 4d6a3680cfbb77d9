//! Operands of another dtype that are broadcast: they are converted once, and not again for every row.

use super::{MAX_OPERANDS, Operand};
use crate::buffer::Buffer;
use crate::copy::copy_strided;
use flambeau_base::DType;
use smallvec::SmallVec;

/// How often an element is used, at least, for a copy to pay.
const LEAST_USES: usize = 8;

/// Elements of the result, at least.
const LEAST: usize = 2048;

/// A converted operand.
pub(super) struct Converted {
    /// Its elements, in the order that they had, without gaps.
    elements: Buffer<u128>,
    strides: SmallVec<[isize; 8]>,
    dtype: DType,
}

impl Converted {
    /// The operand converted to `dtype`, if it has another and few elements, or nothing. Halves are not: strips have loops that
    /// convert them in registers.
    ///
    /// # Safety
    /// The operand is valid over its strides.
    pub(super) unsafe fn of(operand: &Operand<'_>, dtype: DType, sizes: &[i64]) -> Option<Converted> {
        if operand.dtype == dtype || matches!(operand.dtype, DType::BF16 | DType::F16) {
            return None;
        }
        let all = sizes.iter().try_fold(1, |all: usize, &n| all.checked_mul(n as usize)).filter(|&all| all >= LEAST)?;
        let own: SmallVec<[i64; 8]> =
            sizes.iter().zip(operand.strides).map(|(&n, &s)| if s == 0 { 1 } else { n }).collect();
        let count: usize = own.iter().map(|&n| n as usize).product();
        if count == 0 || count.checked_mul(LEAST_USES)? > all {
            return None;
        }
        let mut order: SmallVec<[usize; 8]> = (0..own.len()).collect();
        order.sort_by_key(|&d| operand.strides[d].unsigned_abs());
        let mut strides: SmallVec<[isize; 8]> = SmallVec::from_elem(0, own.len());
        let mut next = dtype.size() as isize;
        for d in order.into_iter().filter(|&d| own[d] > 1) {
            strides[d] = next;
            next *= own[d] as isize;
        }
        let mut elements = Buffer::<u128>::default();
        let to = elements.try_room((count * dtype.size()).div_ceil(size_of::<u128>()))?.cast();
        // SAFETY: the caller's operand; the room holds its elements without gaps.
        unsafe { copy_strided(&own, (to, &strides, dtype), (operand.data, operand.strides, operand.dtype)) };
        Some(Converted { elements, strides, dtype })
    }

    fn operand(&mut self) -> Operand<'_> {
        // (Room it has already.)
        Operand { data: self.elements.room(0).cast(), strides: &self.strides, dtype: self.dtype }
    }
}

/// The operands with those in the place of what they were converted from.
pub(super) fn replaced<'a>(
    operands: &[Operand<'a>],
    converted: &'a mut [Option<Converted>; MAX_OPERANDS],
) -> SmallVec<[Operand<'a>; MAX_OPERANDS]> {
    operands.iter().zip(converted).map(|(o, converted)| converted.as_mut().map_or(*o, Converted::operand)).collect()
}
