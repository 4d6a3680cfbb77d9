//! Geometry: sizes and strides, contiguity, broadcasting, and which views are possible.

use crate::{Error, MemoryFormat, Result, ensure};
use smallvec::SmallVec;

/// Sizes or strides, inline up to five dimensions.
pub type Dims = SmallVec<[i64; 5]>;

/// Whether both are the same. (`==` calls a function that compares memory, which for a few numbers takes longer.)
#[inline(always)]
pub(crate) fn same(a: &Dims, b: &Dims) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y)
}

/// A copy of sizes or strides. (`clone` goes element by element.)
#[inline(always)]
pub(crate) fn copy(dims: &Dims) -> Dims {
    match dims.spilled() {
        true => Dims::from_slice(dims),
        // SAFETY: while it is not spilled it owns nothing: its bytes are a number of plain integers and their count.
        false => unsafe { std::ptr::read(dims) },
    }
}

/// Cached answers to "is it dense in this order?", one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contiguity(u8);

impl Contiguity {
    /// Row-major.
    pub const CONTIGUOUS: Contiguity = Contiguity(1);
    /// N, H, W, C order.
    pub const CHANNELS_LAST: Contiguity = Contiguity(2);
    /// N, D, H, W, C order.
    pub const CHANNELS_LAST_3D: Contiguity = Contiguity(4);
    /// Dense in some order, without overlaps.
    pub const DENSE: Contiguity = Contiguity(8);

    /// Works out all the answers.
    pub fn of(sizes: &[i64], strides: &[i64]) -> Contiguity {
        let mut flags = 0;
        if is_contiguous(sizes, strides) {
            flags |= Self::CONTIGUOUS.0 | Self::DENSE.0;
        }
        match sizes.len() {
            4 if in_order(sizes, strides, &[1, 3, 2, 0]) => flags |= Self::CHANNELS_LAST.0 | Self::DENSE.0,
            5 if in_order(sizes, strides, &[1, 4, 3, 2, 0]) => flags |= Self::CHANNELS_LAST_3D.0 | Self::DENSE.0,
            _ => {}
        }
        if flags & Self::DENSE.0 == 0 && is_dense(sizes, strides) {
            flags |= Self::DENSE.0;
        }
        Contiguity(flags)
    }

    /// Row-major and nothing else known: right for a fresh tensor of up to three dimensions.
    pub(crate) const FRESH: Contiguity = Contiguity(1 | 8);

    /// Whether all bits of `other` are set.
    #[inline(always)]
    pub const fn has(self, other: Contiguity) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Whether walking `order` (innermost dim first), ignoring dims of size 1, each stride is the product of the sizes
/// before it. Empty tensors are in every order.
fn in_order(sizes: &[i64], strides: &[i64], order: &[usize]) -> bool {
    let mut expected = 1;
    for &d in order {
        if sizes[d] == 0 {
            return true;
        }
        if sizes[d] != 1 {
            if strides[d] != expected {
                return false;
            }
            // (It may overflow where a dim of size 0 follows.)
            expected = i64::wrapping_mul(expected, sizes[d]);
        }
    }
    true
}

/// Whether the geometry is row-major.
pub fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.contains(&0) {
        return true;
    }
    let mut expected = 1;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        if size != 1 {
            if stride != expected {
                return false;
            }
            expected *= size;
        }
    }
    true
}

/// Whether the dims lie in the order C, ..., H, N by their strides, as [`Tensor::suggested_memory_format`] asks. Dims of
/// size 1 count too: what could be row-major is taken for it, by PyTorch's rule.
///
/// [`Tensor::suggested_memory_format`]: crate::Tensor::suggested_memory_format
pub fn is_like_channels_last(sizes: &[i64], strides: &[i64]) -> bool {
    if strides[1] == 0 {
        return false;
    }
    let mut least = 0;
    for d in std::iter::once(1).chain((2..sizes.len()).rev()).chain([0]) {
        if sizes[d] == 0 || strides[d] < least || (d == 0 && least == strides[1]) {
            return false;
        }
        least = strides[d].saturating_mul(sizes[d]);
    }
    true
}

/// Whether the elements fill a block without gaps or overlaps, in any order of dims.
pub fn is_dense(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.contains(&0) {
        return true;
    }
    // Each dim's stride must be the product of the sizes inside it: find them from the innermost outwards. A dim whose
    // turn has passed cannot come again, since the product only grows.
    let mut left = sizes.iter().filter(|s| **s != 1).count();
    let mut expected = 1;
    while left > 0 {
        let Some(d) = (0..sizes.len()).find(|&d| sizes[d] != 1 && strides[d] == expected) else { return false };
        expected *= sizes[d];
        left -= 1;
    }
    true
}

/// Whether two index tuples may reach one element (the test is conservative: it may say yes where it is no).
pub fn may_overlap(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.contains(&0) {
        return false;
    }
    let mut dims: SmallVec<[usize; 5]> = (0..sizes.len()).filter(|&d| sizes[d] != 1).collect();
    dims.sort_by_key(|&d| strides[d]);
    let mut reach = 0;
    for d in dims {
        if strides[d] <= reach {
            return true;
        }
        reach = i64::saturating_add(reach, strides[d].saturating_mul(sizes[d] - 1));
    }
    false
}

/// Row-major strides. A dim of size 0 counts as 1, as in PyTorch.
#[inline]
pub fn contiguous_strides(sizes: &[i64]) -> Dims {
    let mut strides = match sizes.len() {
        n @ 0..=5 => Dims::from_buf_and_len([1; 5], n),
        n => Dims::from_elem(1, n),
    };
    let mut step = 1i64;
    for (stride, size) in strides.iter_mut().zip(sizes).rev() {
        *stride = step;
        step = step.saturating_mul((*size).max(1));
    }
    strides
}

/// An offset so many strides further. (Where no element is, strides may be of any length, and one beyond all memory is as
/// far as the last: no offset becomes negative.)
#[inline(always)]
pub(crate) fn advanced(offset: i64, count: i64, stride: i64) -> i64 {
    offset.saturating_add(count.saturating_mul(stride))
}

/// Strides of a fresh tensor in `format`; `Preserve` counts as row-major.
///
/// # Errors
/// When the number of dimensions does not fit the format.
pub fn strides_for(sizes: &[i64], format: MemoryFormat) -> Result<Dims> {
    let order: &[usize] = match format {
        MemoryFormat::Contiguous | MemoryFormat::Preserve => return Ok(contiguous_strides(sizes)),
        MemoryFormat::ChannelsLast if sizes.len() == 4 => &[1, 3, 2, 0],
        MemoryFormat::ChannelsLast3d if sizes.len() == 5 => &[1, 4, 3, 2, 0],
        MemoryFormat::ChannelsLast => return Err(Error::runtime("required rank 4 tensor to use channels_last format")),
        MemoryFormat::ChannelsLast3d => {
            return Err(Error::runtime("required rank 5 tensor to use channels_last_3d format"));
        }
    };
    Ok(strides_in_order(sizes, order))
}

/// Dense strides with the dims lying in `order`, innermost first.
pub fn strides_in_order(sizes: &[i64], order: &[usize]) -> Dims {
    let mut strides = Dims::from_elem(1, sizes.len());
    let mut step = 1;
    for &d in order {
        strides[d] = step;
        step = i64::wrapping_mul(step, sizes[d].max(1));
    }
    strides
}

/// Strides that keep the order of `strides` without gaps: those a result takes from a dense or permuted input.
pub fn preserved_strides(sizes: &[i64], strides: &[i64]) -> Dims {
    if is_dense(sizes, strides) && !sizes.contains(&0) {
        return Dims::from_slice(strides);
    }
    strides_in_order(sizes, &stride_order(sizes, strides))
}

/// The dims from innermost to outermost by stride; ties keep row-major order, as PyTorch's iterator breaks them.
pub fn stride_order(sizes: &[i64], strides: &[i64]) -> SmallVec<[usize; 5]> {
    let mut order: SmallVec<[usize; 5]> = (0..sizes.len()).rev().collect();
    for i in 1..order.len() {
        let mut j = i;
        while j > 0 {
            let (a, b) = (order[j - 1], order[j]);
            let swap = strides[a] != 0
                && strides[b] != 0
                && (strides[a] > strides[b] || (strides[a] == strides[b] && sizes[a] > sizes[b]));
            if !swap {
                break;
            }
            order.swap(j - 1, j);
            j -= 1;
        }
    }
    order
}

/// The product of the sizes.
///
/// # Errors
/// When a size is negative or the product does not fit `i64`.
#[inline]
pub fn checked_numel(sizes: &[i64]) -> Result<i64> {
    let mut n = 1i64;
    let mut overflow = false;
    for &s in sizes {
        if s < 0 {
            return Err(negative_size(s, sizes));
        }
        let (product, over) = n.overflowing_mul(s);
        n = product;
        overflow |= over;
    }
    match overflow || n == 0 {
        true => uncommon_numel(sizes, overflow),
        false => Ok(n),
    }
}

/// Of sizes whose product overflowed, or is 0: then their row-major strides have to fit all the same.
#[cold]
fn uncommon_numel(sizes: &[i64], overflow: bool) -> Result<i64> {
    if overflow {
        return Err(Error::runtime(format!("Storage size calculation overflowed with sizes={sizes:?}")));
    }
    match sizes.iter().skip(1).try_fold(1i64, |n, s| n.checked_mul((*s).max(1))) {
        Some(_) => Ok(0),
        None => Err(Error::runtime("Stride calculation overflowed")),
    }
}

#[cold]
fn negative_size(size: i64, sizes: &[i64]) -> Error {
    Error::runtime(format!("Trying to create tensor with negative dimension {size}: {sizes:?}"))
}

/// The product of sizes already known to be good. (Where one is 0, the others may be any.)
#[inline(always)]
pub fn numel(sizes: &[i64]) -> i64 {
    sizes.iter().fold(1, |n, s| n.wrapping_mul(*s))
}

/// That a view may have these sizes, which are not negative: their number of elements can be counted.
///
/// # Errors
/// When it does not fit `i64`.
#[inline]
pub(crate) fn check_countable(sizes: &[i64]) -> Result<()> {
    match sizes.iter().try_fold(1i64, |n, s| n.checked_mul(*s)) {
        Some(_) => Ok(()),
        None => Err(uncountable()),
    }
}

#[cold]
fn uncountable() -> Error {
    Error::runtime("numel: integer multiplication overflow")
}

/// How many elements of storage the geometry reaches past its offset.
///
/// # Errors
/// When that does not fit `i64`.
pub fn storage_extent(sizes: &[i64], strides: &[i64]) -> Result<i64> {
    let mut extent = 1i64;
    for (&size, &stride) in sizes.iter().zip(strides) {
        if size == 0 {
            return Ok(0);
        }
        extent = (size - 1).checked_mul(stride).and_then(|x| extent.checked_add(x)).ok_or_else(|| {
            Error::runtime(format!("Storage size calculation overflowed with sizes={sizes:?} and strides={strides:?}"))
        })?;
    }
    Ok(extent)
}

/// Whether two sets of strides find the same elements of a tensor of these sizes: that of a dim of one element means nothing.
pub fn same_strides(sizes: &[i64], a: &[i64], b: &[i64]) -> bool {
    sizes.iter().zip(a).zip(b).all(|((n, a), b)| *n < 2 || a == b)
}

/// `dim` as an index below `ndim`, counting from the end when negative. A 0-d tensor counts as having one dim.
///
/// # Errors
/// [`crate::ErrorKind::Index`] when out of range.
#[inline]
pub fn wrap_dim(dim: i64, ndim: usize) -> Result<usize> {
    let n = (ndim as i64).max(1);
    if dim >= -n && dim < n {
        return Ok(if dim < 0 { dim + n } else { dim } as usize);
    }
    Err(dim_out_of_range(dim, n))
}

#[cold]
fn dim_out_of_range(dim: i64, n: i64) -> Error {
    Error::index(format!("Dimension out of range (expected to be in range of [{}, {}], but got {dim})", -n, n - 1))
}

/// The dims of a reduction as sorted, wrapped indices; an empty list means all.
///
/// # Errors
/// When one is out of range or named twice.
pub fn wrap_dims(dims: &[i64], ndim: usize) -> Result<SmallVec<[usize; 5]>> {
    if dims.is_empty() {
        return Ok((0..ndim).collect());
    }
    ensure!(ndim <= 64, "only tensors with up to 64 dims are supported");
    let mut out = SmallVec::new();
    for &d in dims {
        let d = wrap_dim(d, ndim)?;
        if out.contains(&d) {
            return Err(Error::runtime(format!("dim {d} appears multiple times in the list of dims")));
        }
        out.push(d);
    }
    out.retain(|d| *d < ndim);
    out.sort_unstable();
    Ok(out)
}

/// The shape two shapes broadcast to.
///
/// # Errors
/// When they do not, or its elements cannot be counted.
pub fn broadcast(a: &[i64], b: &[i64]) -> Result<Dims> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut out = Dims::from_slice(long);
    let skip = long.len() - short.len();
    // The last dim that does not fit is the one named.
    for (i, &s) in short.iter().enumerate().rev() {
        let l = out[skip + i];
        if l == 1 {
            out[skip + i] = s;
        } else if s != 1 && s != l {
            return Err(Error::runtime(format!(
                "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}",
                if a.len() >= b.len() { l } else { s },
                if a.len() >= b.len() { s } else { l },
                skip + i
            )));
        }
    }
    checked_numel(&out)?;
    Ok(out)
}

/// As [`broadcast_strides`], for shapes known to fit, with the strides of unexpanded dims of size 1 kept: these count
/// when the order of dims is looked for.
pub(crate) fn ordering_strides(sizes: &[i64], strides: &[i64], to: &[i64]) -> Dims {
    let skip = to.len() - sizes.len();
    let kept = |d: usize| if sizes[d] == 1 && to[skip + d] != 1 { 0 } else { strides[d] };
    std::iter::repeat_n(0, skip).chain((0..sizes.len()).map(kept)).collect()
}

/// The strides with which a tensor of `sizes` and `strides` is read as one of shape `to`.
///
/// # Errors
/// When it does not broadcast to it.
pub fn broadcast_strides(sizes: &[i64], strides: &[i64], to: &[i64]) -> Result<Dims> {
    let mut out = Dims::from_elem(0, to.len());
    if sizes.len() > to.len() {
        return Err(Error::runtime(format!(
            "expand: the requested shape has too few dimensions: {sizes:?} cannot be expanded to {to:?}"
        )));
    }
    let skip = to.len() - sizes.len();
    for d in (0..sizes.len()).rev() {
        if sizes[d] == to[skip + d] {
            out[skip + d] = if sizes[d] == 1 { 0 } else { strides[d] };
        } else if sizes[d] != 1 {
            return Err(Error::runtime(format!(
                "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {}.  \
                 Target sizes: {to:?}.  Tensor sizes: {sizes:?}",
                to[skip + d],
                sizes[d],
                skip + d
            )));
        }
    }
    Ok(out)
}

/// Whether a tensor of `sizes` broadcasts to `to`.
pub fn is_expandable_to(sizes: &[i64], to: &[i64]) -> bool {
    sizes.len() <= to.len() && sizes.iter().rev().zip(to.iter().rev()).all(|(&s, &t)| s == t || s == 1)
}

/// `sizes` with one -1 replaced by what makes the product `numel`.
///
/// # Errors
/// When that is impossible.
pub fn infer_size(sizes: &[i64], numel: i64) -> Result<Dims> {
    let mut out = Dims::from_slice(sizes);
    let mut known = 1i64;
    let mut hole = None;
    for (i, &s) in sizes.iter().enumerate() {
        match s {
            -1 if hole.is_some() => return Err(Error::runtime("only one dimension can be inferred")),
            -1 => hole = Some(i),
            s if s < 0 => {
                return Err(Error::runtime(format!("invalid shape dimension {s} at index {i} of shape {sizes:?}")));
            }
            s => known = known.saturating_mul(s),
        }
    }
    let bad = || Error::runtime(format!("shape '{sizes:?}' is invalid for input of size {numel}"));
    match hole {
        Some(_) if known == 0 && numel != 0 => Err(bad()),
        Some(_) if known == 0 => Err(Error::runtime(format!(
            "cannot reshape tensor of 0 elements into shape {sizes:?} because the unspecified dimension size -1 can be \
             any value and is ambiguous"
        ))),
        Some(i) if numel % known == 0 => {
            out[i] = numel / known;
            Ok(out)
        }
        None if known == numel => Ok(out),
        _ => Err(bad()),
    }
}

/// The strides with which the same memory can be seen in shape `new`, if there are such.
///
/// Dims of the old shape are grouped into runs that lie end to end; each run must be filled exactly by new dims.
pub fn view_strides(sizes: &[i64], strides: &[i64], new: &[i64]) -> Option<Dims> {
    if sizes.contains(&0) {
        return Some(if sizes == new { Dims::from_slice(strides) } else { contiguous_strides(new) });
    }
    let mut out = Dims::from_elem(1, new.len());
    let Some(mut base) = strides.last().copied() else { return Some(out) };
    let mut view_dim = new.len() as isize - 1;
    let (mut run, mut view_run) = (1i64, 1i64);
    for d in (0..sizes.len()).rev() {
        run *= sizes[d];
        let run_ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != run * base);
        if run_ends {
            while view_dim >= 0 && (view_run < run || new[view_dim as usize] == 1) {
                out[view_dim as usize] = view_run * base;
                view_run *= new[view_dim as usize];
                view_dim -= 1;
            }
            if view_run != run {
                return None;
            }
            if d > 0 {
                base = strides[d - 1];
                (run, view_run) = (1, 1);
            }
        }
    }
    (view_dim == -1).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguity_ignores_size_one_and_checks_products() {
        assert!(is_contiguous(&[2, 1, 3], &[3, 77, 1]));
        assert!(!is_contiguous(&[2, 2], &[3, 1]));
        assert!(is_contiguous(&[0, 5], &[9, 9]));
        assert!(Contiguity::of(&[2, 3, 4, 5], &[60, 1, 15, 3]).has(Contiguity::CHANNELS_LAST));
        assert!(!Contiguity::of(&[2, 3, 4, 5], &[60, 20, 5, 1]).has(Contiguity::CHANNELS_LAST));
    }

    #[test]
    fn views_of_transposed_memory() {
        assert_eq!(view_strides(&[4, 6], &[6, 1], &[2, 2, 6]).unwrap().as_slice(), [12, 6, 1]);
        assert!(view_strides(&[6, 4], &[1, 6], &[24]).is_none());
        assert_eq!(view_strides(&[6, 4], &[1, 6], &[2, 3, 4]).unwrap().as_slice(), [3, 1, 6]);
    }

    #[test]
    fn broadcasting_and_inference() {
        assert_eq!(broadcast(&[3, 1], &[2]).unwrap().as_slice(), [3, 2]);
        assert!(broadcast(&[3], &[2]).is_err());
        assert_eq!(infer_size(&[2, -1], 6).unwrap().as_slice(), [2, 3]);
        assert!(infer_size(&[4, -1], 6).is_err());
    }
}
