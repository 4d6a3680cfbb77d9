//! Advanced indexing: reading and writing at positions that tensors of indices or masks name.

use super::copy::byte_strides;
use super::index::zeros_to_read;
use crate::autograd::Geometry;
use crate::dims::{self, Dims};
use crate::{Body, DType, Error, MemoryFormat, Op, Result, Tensor, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::index::{BadIndex, IndexOperand, Mask};
use smallvec::SmallVec;

/// The coordinates of a mask's true elements, one index vector per dim.
pub(crate) fn mask_to_indices(mask: &Tensor) -> Result<Vec<Tensor>> {
    if mask.device().is_meta() {
        return Err(Error::not_implemented(
            "a mask on the meta device selects an unknown number of elements; index with integer tensors instead",
        ));
    }
    let mask = if mask.dim() == 0 { mask.unsqueeze(0)? } else { mask.clone() };
    let dims = mask.dim();
    super::masked::check_room(mask.sizes())?;
    let mask = mask.to_device(crate::Device::CPU)?;
    let lock = LockSet::new([(mask.storage(), false)])?;
    let strides = byte_strides(mask.strides(), mask.dtype());
    // SAFETY: the geometry fits the storage, which stays locked while the mask is used.
    let counted = unsafe { Mask::new(mask.sizes(), (mask.data_ptr(), &strides, mask.dtype())) };
    let out = Tensor::fresh(crate::Device::CPU, DType::I64, Dims::from_slice(&[dims as i64, counted.count() as i64]))?;
    // SAFETY: the fresh tensor holds one coordinate per dim and true element.
    unsafe { counted.nonzero(out.data_ptr() as *mut i64) };
    drop(lock);
    (0..dims as i64).map(|d| out.select(0, d)).collect()
}

/// A call's geometry: which dims of the tensor are indexed, by what, and the shape that results.
struct Plan {
    /// The index tensors, broadcast together, one per indexed dim.
    indices: Vec<Tensor>,
    /// The dims they index.
    dims: SmallVec<[usize; 5]>,
    /// The result's sizes.
    sizes: Dims,
    /// Where the indices' own dims stand in the result, and how many they are.
    at: usize,
    index_dims: usize,
    /// The other dims in order.
    kept: SmallVec<[usize; 5]>,
}

fn plan(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Plan> {
    let mut list: Vec<Tensor> = Vec::new();
    let mut dims_of: SmallVec<[usize; 5]> = SmallVec::new();
    let mut d = 0;
    for index in indices {
        let Some(index) = index else {
            d += 1;
            continue;
        };
        match index.dtype() {
            DType::Bool | DType::U8 => {
                for k in 0..index.dim() {
                    if x.sizes().get(d + k) != Some(&index.sizes()[k]) {
                        return Err(Error::index(format!(
                            "The shape of the mask {:?} at index {k} does not match the shape of the indexed tensor {:?} at \
                             index {}",
                            index.sizes(),
                            x.sizes(),
                            d + k
                        )));
                    }
                }
                if index.dim() == 0 {
                    return Err(Error::index("a 0-dimensional mask has no dimension to select from; add one with unsqueeze(0)"));
                }
                for i in mask_to_indices(index)? {
                    list.push(i);
                    dims_of.push(d);
                    d += 1;
                }
            }
            DType::I64 | DType::I32 => {
                list.push(index.clone());
                dims_of.push(d);
                d += 1;
            }
            other => {
                return Err(Error::index(format!(
                    "tensors used as indices must be long, int, byte or bool tensors, not {other}"
                )));
            }
        }
    }
    if d > x.dim() {
        return Err(Error::index(format!("too many indices for tensor of dimension {} (got {d})", x.dim())));
    }
    let mut shape = Dims::new();
    for (k, i) in list.iter().enumerate() {
        shape = if k == 0 { Dims::from_slice(i.sizes()) } else {
            dims::broadcast(&shape, i.sizes()).map_err(|_| {
                let all: Vec<String> = list.iter().map(|i| format!("{:?}", i.sizes())).collect();
                Error::index(format!("shape mismatch: indexing tensors could not be broadcast together with shapes {}", all.join(", ")))
            })?
        };
    }
    let indices = list.iter().map(|i| i.to_device(x.device())?.expand(&shape)).collect::<Result<Vec<_>>>()?;
    let kept: SmallVec<[usize; 5]> = (0..x.dim()).filter(|d| !dims_of.contains(d)).collect();
    // Neighbouring indices leave their result where they stood; otherwise it comes first.
    let adjacent = dims_of.windows(2).all(|w| w[1] == w[0] + 1);
    let at = if adjacent && !dims_of.is_empty() { dims_of[0] } else { 0 };
    let mut sizes: Dims = kept[..at].iter().map(|&d| x.sizes()[d]).collect();
    sizes.extend_from_slice(&shape);
    sizes.extend(kept[at..].iter().map(|&d| x.sizes()[d]));
    // Reading from nothing works only for nothing.
    for &d in &dims_of {
        if x.sizes()[d] == 0 && shape.iter().product::<i64>() != 0 {
            return Err(Error::index("index is out of bounds for dimension with size 0"));
        }
    }
    Ok(Plan { indices, dims: dims_of, sizes, at, index_dims: shape.len(), kept })
}

impl Plan {
    /// A tensor's byte strides over the result's dims: its own where a dim is kept, zero over the indices' dims.
    fn strides(&self, x: &Tensor) -> SmallVec<[isize; 5]> {
        let own = byte_strides(x.strides(), x.dtype());
        let mut out: SmallVec<[isize; 5]> = self.kept[..self.at].iter().map(|&d| own[d]).collect();
        out.extend(std::iter::repeat_n(0, self.index_dims));
        out.extend(self.kept[self.at..].iter().map(|&d| own[d]));
        out
    }

    /// The index operands' byte strides over the result's dims.
    fn index_strides(&self) -> Vec<SmallVec<[isize; 5]>> {
        self.indices
            .iter()
            .map(|i| {
                let mut out: SmallVec<[isize; 5]> = SmallVec::from_elem(0, self.at);
                out.extend(byte_strides(i.strides(), i.dtype()));
                out.resize(self.sizes.len(), 0);
                out
            })
            .collect()
    }

    /// A fresh result's strides: dense, in the order of dims that the indexed tensor and then the indices have.
    fn result_strides(&self, x: &Tensor) -> Dims {
        if x.is_contiguous() && self.indices.iter().all(Tensor::is_contiguous) {
            return dims::contiguous_strides(&self.sizes);
        }
        let operands: Vec<Dims> = std::iter::once(self.strides(x))
            .chain(self.index_strides())
            .map(|strides| strides.iter().map(|s| *s as i64).collect())
            .collect();
        let lists: Vec<&[i64]> = operands.iter().map(|s| &s[..]).collect();
        dims::strides_in_order(&self.sizes, &crate::pointwise::operand_order(&self.sizes, &lists))
    }

    fn operands<'a>(&self, x: &Tensor, strides: &'a [SmallVec<[isize; 5]>]) -> Vec<IndexOperand<'a>> {
        let own = byte_strides(x.strides(), x.dtype());
        self.indices
            .iter()
            .zip(strides)
            .zip(&self.dims)
            .map(|((i, strides), &d)| IndexOperand {
                data: i.data_ptr(),
                strides,
                dtype: i.dtype(),
                size: x.sizes()[d],
                step: own[d],
            })
            .collect()
    }

    fn out_of_bounds(&self, e: BadIndex) -> Error {
        Error::index(format!(
            "index {} is out of bounds for dimension {} with size {}",
            e.value,
            self.dims.get(e.operand).copied().unwrap_or(0),
            e.size
        ))
    }
}

fn index_meta(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let p = plan(x, indices)?;
    let strides = p.result_strides(x);
    Tensor::fresh_strided(crate::Device::META, x.dtype(), p.sizes, strides)
}

fn index_cpu(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let p = plan(x, indices)?;
    let out = Tensor::fresh_strided(x.device(), x.dtype(), p.sizes.clone(), p.result_strides(x))?;
    if out.numel() == 0 {
        return Ok(out);
    }
    if p.indices.is_empty() {
        return out.copy_(x);
    }
    let strides = p.index_strides();
    let _locks = LockSet::new(p.indices.iter().map(|i| (i.storage(), false)).chain([(x.storage(), false)]))?;
    // SAFETY: the plan's geometry follows the operands', indices are checked by the kernel, the storages are locked and
    // the output is fresh.
    unsafe {
        flambeau_cpu::index::index(
            &p.sizes,
            (out.data_ptr(), &byte_strides(out.strides(), out.dtype())),
            (x.data_ptr(), &p.strides(x)),
            &p.operands(x, &strides),
            x.element_size(),
            true,
        )
    }
    .map_err(|e| p.out_of_bounds(e))?;
    Ok(out)
}

op! {
    /// The elements at positions named by tensors of indices or masks, one per dim or absent, by NumPy's rules: indices
    /// broadcast together; neighbouring ones leave their dims in place, others put them first.
    index: "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
        Out OUT: "index.Tensor_out(Tensor self, Tensor?[] indices, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Kernels { cpu: kernel!(index_cpu; x, indices), meta: kernel!(index_meta; x, indices) };
    derivative: backward! {
        self_(g, self_: Geometry, indices: Vec<Option<Tensor>>) =>
            zeros_to_read(&self_.sizes, g)?.index_put(&indices, g, true)?
    };
    samples: |m| vec![
        sample![m.any(&[3, 4]), vec![Some(m.indices(&[2, 2], 3))]],
        sample![m.any(&[3, 4, 2]), vec![None, Some(m.indices(&[5], 4)), Some(m.indices(&[1], 2))]],
        sample![m.any(&[3, 4, 2]), vec![Some(m.indices(&[2, 1], 3)), None, Some(m.indices(&[3], 2))]],
        sample![m.any(&[3, 4]), vec![Some(m.mask(&[3, 4]))]],
    ];
    fn index(&self, indices: &[Option<Tensor>]) -> Tensor [self, indices];
}

/// Whether one value is written wherever a mask says: it is converted, as that of `masked_fill`.
fn fills_mask(indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> bool {
    let mut given = indices.iter().flatten();
    let mask = given.next().is_some_and(|i| i.dtype() == DType::Bool) && given.next().is_none();
    mask && values.numel() == 1 && !accumulate
}

fn check_values(x: &Tensor, values: &Tensor, fills_mask: bool, p: &Plan) -> Result<()> {
    ensure!(
        values.dtype() == x.dtype() || fills_mask && (x.dtype().is_complex() || !values.dtype().is_complex()),
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
        x.dtype().scalar_type_name(),
        values.dtype().scalar_type_name()
    );
    ensure!(
        dims::is_expandable_to(values.sizes(), &p.sizes),
        "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {:?}",
        values.sizes(),
        &p.sizes[..]
    );
    Ok(())
}

fn index_put_inplace(x: &Tensor, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Result<Tensor> {
    let p = plan(x, indices)?;
    check_values(x, values, fills_mask(indices, values, accumulate), &p)?;
    ensure!(
        !dims::may_overlap(x.sizes(), x.strides()),
        "unsupported operation: more than one element of the written-to tensor refers to a single memory \
         location. Please clone() the tensor before performing the operation."
    );
    if p.sizes.contains(&0) {
        return Ok(x.clone());
    }
    let values = match values.shares_storage_with(x) {
        true => values.clone_in(MemoryFormat::Contiguous)?,
        false => values.clone(),
    };
    let values = values.to_options(Some(x.dtype()), Some(x.device()))?.expand(&p.sizes)?;
    let mut p = p;
    for i in &mut p.indices {
        if i.shares_storage_with(x) {
            *i = i.clone_in(MemoryFormat::Contiguous)?;
        }
    }
    let strides = p.index_strides();
    let value_strides = byte_strides(values.strides(), values.dtype());
    let storages = p.indices.iter().map(|i| (i.storage(), false)).chain([(values.storage(), false), (x.storage(), true)]);
    let _locks = LockSet::new(storages)?;
    let own = p.strides(x);
    let (to, from) = ((x.data_ptr(), &own[..]), (values.data_ptr() as *const u8, &value_strides[..]));
    let operands = p.operands(x, &strides);
    // SAFETY: as in `index_cpu`; the destination's elements are distinct and apart from the others.
    unsafe {
        flambeau_cpu::index::index_put(&p.sizes, to, from, &operands, x.dtype(), accumulate, true)
    }
    .map_err(|e| p.out_of_bounds(e))?;
    Ok(x.clone())
}

fn index_put_any(x: &Tensor, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Result<Tensor> {
    x.clone_in(MemoryFormat::Preserve)?.index_put_(indices, values, accumulate)
}

op! {
    /// A copy with `values` (broadcast) written to, or with `accumulate` added to, the positions that `indices` name.
    index_put: "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
        Out OUT: "index_put.out(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(index_put_any; x, indices, values, accumulate));
    derivative: backward! {
        self_(g, indices: Vec<Option<Tensor>>, values: Geometry, accumulate: bool) => match accumulate {
            true => g.clone(),
            false => g.index_put(&indices, &zeros_to_read(&values.sizes, g)?, false)?,
        },
        values(g, indices: Vec<Option<Tensor>>) => g.index(&indices)?,
    };
    samples: |m| vec![
        sample![m.any(&[3, 4]), vec![Some(m.indices(&[5], 3))], m.any(&[5, 4]), true],
        sample![m.any(&[3, 4]), vec![Some(m.mask(&[3, 4]))], m.any(&[1]), false],
        sample![m.any(&[3, 4]), vec![None, Some(m.indices(&[1], 4))], m.any(&[3, 1]), false],
    ];
    fn index_put(&self, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Tensor [self, indices, values, accumulate];
}
op! {
    /// Writes `values` (broadcast) to, or with `accumulate` adds them to, the positions that `indices` name.
    index_put_: "index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)";
    Body::InPlace(kernel!(index_put_inplace; x, indices, values, accumulate), &index_put::OP);
    fn index_put_(&self, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Tensor [self, indices, values, accumulate];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[index::ALL, index_put::ALL, index_put_::ALL];
