//! Rows of elements of any float dtype, seen as rows of the type arithmetic is done in.

use crate::copy::{CastStrip, Shared, cast_strip};
use crate::math::{Float, Number, select};
use crate::reduce::Operand;
use flambeau_base::DType;

/// The dtype to compute in, for data of these dtypes: `f64` if any is, else `f32`.
pub(crate) fn compute_dtype(dtypes: &[DType]) -> DType {
    if dtypes.contains(&DType::F64) { DType::F64 } else { DType::F32 }
}

/// Contiguous memory, read or written as `T` wherever it lies and whatever its dtype is.
#[derive(Clone, Copy)]
pub(crate) struct Rows<T> {
    data: Shared<T>,
    size: usize,
    direct: bool,
    load: CastStrip,
    store: CastStrip,
}

impl<T: Float> Rows<T> {
    pub(crate) fn new(operand: Operand) -> Rows<T> {
        Rows {
            data: Shared(operand.data.cast()),
            size: operand.dtype.size(),
            direct: operand.dtype == T::DTYPE && operand.data.cast::<T>().is_aligned(),
            load: cast_strip(operand.dtype, T::DTYPE),
            store: cast_strip(T::DTYPE, operand.dtype),
        }
    }

    /// Whether reads and writes need no conversion.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    fn address(&self, at: usize) -> *mut u8 {
        self.data.get().cast::<u8>().wrapping_add(at * self.size)
    }

    /// The `n` elements from `at` on: in place, or converted into `scratch`.
    ///
    /// # Safety
    /// They must be valid for reads; `scratch` for `n` elements.
    pub(crate) unsafe fn read(&self, at: usize, n: usize, scratch: *mut T) -> *const T {
        if self.direct {
            return self.address(at).cast();
        }
        // SAFETY: the caller's contract.
        unsafe { (self.load)(self.address(at), self.size as isize, scratch.cast(), size_of::<T>() as isize, n) };
        scratch
    }

    /// Where to compute the `n` elements from `at` on: in place or `scratch`. [`Rows::written`] follows.
    pub(crate) fn target(&self, at: usize, scratch: *mut T) -> *mut T {
        if self.direct { self.address(at).cast() } else { scratch }
    }

    /// Stores what was computed at [`Rows::target`].
    ///
    /// # Safety
    /// The elements must be valid for writes; `scratch` for `n` elements.
    pub(crate) unsafe fn written(&self, at: usize, n: usize, scratch: *const T) {
        if !self.direct {
            // SAFETY: the caller's contract.
            unsafe { (self.store)(scratch.cast(), size_of::<T>() as isize, self.address(at), self.size as isize, n) };
        }
    }

    /// Reads elements `stride` apart into `scratch`.
    ///
    /// # Safety
    /// They must be valid for reads; `scratch` for `n` elements.
    pub(crate) unsafe fn read_strided(&self, at: usize, stride: usize, n: usize, scratch: *mut T) {
        let stride = (stride * self.size) as isize;
        // SAFETY: the caller's contract.
        unsafe { (self.load)(self.address(at), stride, scratch.cast(), size_of::<T>() as isize, n) }
    }

    /// Writes elements `stride` apart from `scratch`.
    ///
    /// # Safety
    /// They must be valid for writes; `scratch` for `n` elements.
    pub(crate) unsafe fn write_strided(&self, at: usize, stride: usize, n: usize, scratch: *const T) {
        let stride = (stride * self.size) as isize;
        // SAFETY: the caller's contract.
        unsafe { (self.store)(scratch.cast(), size_of::<T>() as isize, self.address(at), stride, n) }
    }
}

/// All of an operand's `n` elements as values, or `n` copies of `default` where there is none.
///
/// # Safety
/// The operand must be valid for reads of `n` elements.
pub(crate) unsafe fn values<T: Float>(operand: Option<Operand>, n: usize, default: T) -> Vec<T> {
    let mut values = vec![default; n];
    if let Some(operand) = operand {
        let (strip, size) = (cast_strip(operand.dtype, T::DTYPE), operand.dtype.size() as isize);
        // SAFETY: the caller's contract.
        unsafe { strip(operand.data, size, values.as_mut_ptr().cast(), size_of::<T>() as isize, n) };
    }
    values
}

/// Writes values to an operand from element `at` on.
///
/// # Safety
/// The operand must be valid for writes of that many elements.
pub(crate) unsafe fn store<T: Float>(operand: Operand, at: usize, values: &[T]) {
    let (strip, size) = (cast_strip(T::DTYPE, operand.dtype), operand.dtype.size());
    // SAFETY: the caller's contract.
    unsafe {
        let to = operand.data.wrapping_add(at * size);
        strip(values.as_ptr().cast(), size_of::<T>() as isize, to, size as isize, values.len());
    }
}

/// An operand that pieces of parallel work write disjoint parts of.
#[derive(Clone, Copy)]
pub(crate) struct SharedOperand(Shared<u8>, DType);

impl SharedOperand {
    pub(crate) fn new(operand: Operand) -> SharedOperand {
        SharedOperand(Shared(operand.data), operand.dtype)
    }
    pub(crate) fn get(self) -> Operand {
        Operand { data: self.0.get(), dtype: self.1 }
    }
}

/// Accumulators side by side: four AVX-512 vectors of `f32` hide the latency of an addition.
pub(crate) const LANES: usize = 64;

/// Elements summed in `T` before the sum goes on in `f64`.
pub(crate) const BLOCK: usize = 4096;

// Note [Lanes]: accumulators must stay in registers, which the compiler manages only for an array that is indexed by
// loops with constant bounds: what is left of a row goes through an array of its own, and both are joined in a third. The
// array starts from a constant, since 64 stores of one value are more uses of it than alias analysis looks at. And 64
// elements are too many for a loop to be unrolled before it is vectorised, which leaves vectors of two.

/// Joins accumulators, a power of two of them, in a tree.
#[inline(always)]
pub(crate) fn joined<T: Copy, const N: usize>(mut lanes: [T; N], join: impl Fn(T, T) -> T) -> T {
    let mut half = N;
    while half > 1 {
        half /= 2;
        for l in 0..half {
            lanes[l] = join(lanes[l], lanes[l + half]);
        }
    }
    lanes[0]
}

/// The sum of two sets of lanes.
#[inline(always)]
pub(crate) fn total<T: Float>(lanes: &[T; LANES], rest: &[T; LANES]) -> f64 {
    let mut all = [<T as Number>::ZERO; LANES];
    for l in 0..LANES {
        all[l] = lanes[l] + rest[l];
    }
    joined(all, |a, b| a + b).to_f64()
}

/// `K` sums of terms over `0..n` at once: in `T` over lanes within a block, in `f64` from there.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // `lanes[k][l]` runs along `l` for several `k`.
pub(crate) fn sums<T: Float, const K: usize>(n: usize, term: impl Fn(usize) -> [T; K]) -> [f64; K] {
    let mut sums = [0.0; K];
    let mut i = 0;
    while i < n {
        let end = n.min(i + BLOCK);
        let mut lanes = [[<T as Number>::ZERO; LANES]; K];
        while i + LANES <= end {
            for l in 0..LANES {
                let terms = term(i + l);
                for k in 0..K {
                    lanes[k][l] += terms[k];
                }
            }
            i += LANES;
        }
        let mut rest = [[<T as Number>::ZERO; LANES]; K];
        let (first, left) = (end - end.min(LANES), end - i);
        if left > 0 && end >= LANES {
            // A whole set of terms, of which those count that were not added yet.
            for l in 0..LANES {
                let terms = term(first + l);
                for k in 0..K {
                    rest[k][l] = select(l + left >= LANES, terms[k], <T as Number>::ZERO);
                }
            }
        } else {
            for l in 0..left {
                let terms = term(i + l);
                for k in 0..K {
                    rest[k][l] = terms[k];
                }
            }
        }
        i = end;
        for k in 0..K {
            sums[k] += total(&lanes[k], &rest[k]);
        }
    }
    sums
}

/// The largest of `n` elements, negative infinity for none. NaN is passed over.
///
/// # Safety
/// `x` must be valid for `n` elements.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
pub(crate) unsafe fn largest<T: Float>(x: *const T, n: usize) -> T {
    let larger = |a: T, b: T| select(b > a, b, a);
    // SAFETY: `i < n` wherever it is called.
    let at = |i: usize| unsafe { *x.add(i) };
    let mut lanes = const { [T::NEG_INFINITY; LANES] };
    let mut i = 0;
    while i + LANES <= n {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], at(i + l));
        }
        i += LANES;
    }
    let mut rest = const { [T::NEG_INFINITY; LANES] };
    if n >= LANES {
        // Some are looked at twice, which is cheaper than to look at a few one by one.
        for l in 0..LANES {
            rest[l] = at(n - LANES + l);
        }
    } else {
        for l in 0..n {
            rest[l] = at(l);
        }
    }
    let mut all = const { [T::NEG_INFINITY; LANES] };
    for l in 0..LANES {
        all[l] = larger(lanes[l], rest[l]);
    }
    joined(all, larger)
}

/// Calls `f` with the compute type that `dtype` names (`f64` or `f32`).
macro_rules! compute {
    ($dtype:expr, $T:ident => $body:expr) => {
        if $dtype == flambeau_base::DType::F64 {
            type $T = f64;
            $body
        } else {
            type $T = f32;
            $body
        }
    };
}
pub(crate) use compute;
