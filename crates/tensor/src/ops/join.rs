//! Putting tensors together, repeating, flipping, shifting and padding them.

use super::copy::byte_strides;
use super::padding;
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims, wrap_dim, wrap_dims};
use crate::{
    Body, DType, Error, MemoryFormat, Op, OutRule, Result, Scalar, Tensor, TensorSpec, backward, ensure, sample,
};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::storage::LockSet;
use flambeau_cpu::copy::Part;

// ---- cat ----------------------------------------------------------------------------------------

/// A 1-d tensor of no elements joins anything and adds nothing: a habit of the older PyTorch that is still kept.
fn skipped(t: &Tensor) -> bool {
    t.dim() == 1 && t.sizes()[0] == 0
}

/// Whether joined tensors can be written to one of dtype `out`.
pub(super) fn cat_writes(parts: DType, out: DType) -> Result<()> {
    match parts.can_cast(out) {
        true => Ok(()),
        false => Err(Error::type_(format!(
            "torch.cat(): input types can't be cast to the desired output type {}",
            out.scalar_type_name()
        ))),
    }
}

fn cat_plan(tensors: &[Tensor], dim: i64) -> Result<TensorSpec> {
    if tensors.is_empty() {
        return Err(Error::value("torch.cat(): expected a non-empty list of Tensors"));
    }
    for (i, t) in tensors.iter().enumerate() {
        ensure!(t.dim() > 0, "zero-dimensional tensor (at position {i}) cannot be concatenated");
    }
    let dtype = crate::promotion::result_type_of(&tensors.iter().collect::<Vec<_>>());
    let Some(model) = tensors.iter().find(|t| !skipped(t)) else {
        wrap_dim(dim, 1)?;
        return Ok(TensorSpec::like(Dims::from_slice(&[0]), &tensors[0]).dtype(dtype));
    };
    let d = wrap_dim(dim, model.dim())?;
    let mut sizes = Dims::from_slice(model.sizes());
    sizes[d] = 0;
    for (i, t) in tensors.iter().enumerate().filter(|(_, t)| !skipped(t)) {
        ensure!(
            t.dim() == model.dim(),
            "Tensors must have same number of dimensions: got {} and {}",
            model.dim(),
            t.dim()
        );
        for k in 0..t.dim() {
            ensure!(
                k == d || t.sizes()[k] == model.sizes()[k],
                "Sizes of tensors must match except in dimension {d}. Expected size {} but got size {} for tensor number {i} \
                 in the list.",
                model.sizes()[k],
                t.sizes()[k]
            );
        }
        crate::dispatch::check_same_device(model, t.device())?;
        let (total, overflow) = sizes[d].overflowing_add(t.sizes()[d]);
        sizes[d] = total;
        if overflow {
            // It is negative now, which is what is said of it.
            dims::checked_numel(&sizes)?;
        }
    }
    // The inputs' common memory format, if they have one.
    let format = model.suggested_memory_format();
    let common = tensors.iter().filter(|t| !skipped(t)).all(|t| t.suggested_memory_format() == format);
    let spec = TensorSpec::like(sizes, model).dtype(dtype);
    match common && format != MemoryFormat::Contiguous {
        true => {
            let strides = dims::strides_for(&spec.sizes, format)?;
            Ok(spec.strided(strides))
        }
        false => Ok(spec),
    }
}

/// Results of fewer bytes are one row if they are joined along the outermost dim.
const SMALL: usize = 1 << 14;

/// The inputs as parts of rows, for tensors of the result's dtype whose parts are contiguous and equally far apart, where
/// that is the order in which the result lies in memory. Tensor by tensor, every row would be fetched anew.
fn parts_of_rows(inputs: &[&Tensor], d: usize, out: &Tensor) -> Option<Vec<Part>> {
    let large = || out.numel() as usize * out.element_size() > SMALL;
    if (d == 0 && large()) || !out.is_contiguous() || !FastPath::CopyJoin.is_on() {
        return None;
    }
    inputs.iter().map(|t| if t.dtype() == out.dtype() { part_of_rows(t, d) } else { None }).collect()
}

/// A tensor as a part of every row: the dims from `d` on are the part, those before it the rows.
fn part_of_rows(t: &Tensor, d: usize) -> Option<Part> {
    let (sizes, strides) = (t.sizes(), t.strides());
    let mut numel = 1;
    for k in (d..t.dim()).rev() {
        if sizes[k] != 1 && strides[k] != numel {
            return None;
        }
        numel *= sizes[k];
    }
    let mut rows: Option<(i64, i64)> = None;
    for k in (0..d).rev().filter(|&k| sizes[k] != 1) {
        rows = match rows {
            None => Some((sizes[k], strides[k])),
            Some((n, step)) if strides[k] == n.checked_mul(step)? => Some((n * sizes[k], step)),
            Some(_) => return None,
        };
    }
    let size = t.element_size();
    let step = rows.map_or(numel, |(_, step)| step) as isize * size as isize;
    Some(Part { data: t.data_ptr().cast_const(), bytes: numel as usize * size, step })
}

fn cat_run(tensors: &[Tensor], dim: i64, outs: &[Tensor]) -> Result<()> {
    let out = &outs[0];
    let d = wrap_dim(dim, out.dim())?;
    let inputs: Vec<&Tensor> = tensors.iter().filter(|t| !skipped(t) && t.numel() > 0).collect();
    let _locks = LockSet::new(inputs.iter().map(|t| (t.storage(), false)).chain([(out.storage(), true)]))?;
    if let Some(parts) = parts_of_rows(&inputs, d, out) {
        let rows = out.sizes()[..d].iter().product::<i64>() as usize;
        // SAFETY: each input is as many parts as the result, which they tile, has rows; all are locked and apart.
        unsafe { flambeau_cpu::copy::join_rows(out.data_ptr(), &parts, rows) };
        return Ok(());
    }
    let strides = byte_strides(out.strides(), out.dtype());
    let mut at = out.data_ptr();
    for t in inputs {
        // SAFETY: the parts tile the output along `d`; sizes were checked by the plan; the storages are locked.
        unsafe {
            flambeau_cpu::copy::copy_strided(
                t.sizes(),
                (at, &strides, out.dtype()),
                (t.data_ptr(), &byte_strides(t.strides(), t.dtype()), t.dtype()),
            );
        }
        at = at.wrapping_offset(t.sizes()[d] as isize * strides[d]);
    }
    Ok(())
}

op! {
    /// Tensors joined along an existing dim; their other sizes must agree. Dtypes are promoted.
    cat: "cat(Tensor[] tensors, int dim=0) -> Tensor",
        Out OUT: "cat.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(cat_plan; tensors, dim), run: run!(cat_run; tensors, dim) };
    derivative: backward! {
        tensors([c], tensors: Vec<Geometry>, dim: i64) => {
            let g = c.gradient()?;
            let mut start = 0;
            let mut out = Vec::with_capacity(tensors.len());
            for (i, t) in tensors.iter().enumerate() {
                if t.dim() == 1 && t.sizes[0] == 0 {
                    out.push(if c.needs_element("tensors", i) { Some(t.zeros()?) } else { None });
                    continue;
                }
                let n = t.sizes[wrap_dim(dim, t.dim())?];
                out.push(if c.needs_element("tensors", i) { Some(g.narrow(dim, start, n)?) } else { None });
                start += n;
            }
            out
        }
    };
    forward: Forward::Linear;
    samples: |m| vec![
        sample![vec![m.any(&[2, 3]), m.any(&[1, 3]), m.any(&[0, 3])], 0],
        sample![vec![m.any(&[2, 3]), m.any(&[2, 1])], -1],
        sample![vec![m.any(&[0]), m.any(&[2, 1])], 1],
    ];
    out_rule: OutRule::dtype(cat_writes).apart(&[0]);
    fn cat(tensors: &[Tensor], dim: i64) -> Tensor [tensors, dim];
}

alias! {
    concat: "concat(Tensor[] tensors, int dim=0) -> Tensor" => cat::OP;
    concat_out: "concat.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor(a!)" => cat::OUT;
    concatenate: "concatenate(Tensor[] tensors, int dim=0) -> Tensor" => cat::OP;
    concatenate_out: "concatenate.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor(a!)" => cat::OUT;
}

fn stack_any(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), "stack expects a non-empty TensorList");
    let d = wrap_dim(dim, tensors[0].dim() + 1)? as i64;
    for (i, t) in tensors.iter().enumerate() {
        ensure!(
            t.sizes() == tensors[0].sizes(),
            "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at entry {i}",
            tensors[0].sizes(),
            t.sizes()
        );
    }
    if (d as usize) < tensors[0].dim() {
        // Along an existing dim, which is then split: the parts' order of dims stays.
        let mut sizes = Dims::from_slice(tensors[0].sizes());
        sizes.insert(d as usize, tensors.len() as i64);
        return Tensor::cat(tensors, d)?.view(&sizes);
    }
    let parts = tensors.iter().map(|t| t.unsqueeze(d)).collect::<Result<Vec<_>>>()?;
    Tensor::cat(&parts, d)
}

op! {
    /// Tensors of equal sizes joined along a new dim.
    stack: "stack(Tensor[] tensors, int dim=0) -> Tensor",
        Out OUT: "stack.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(stack_any; tensors, dim));
    derivative: backward! {
        tensors([c], tensors: Vec<Geometry>, dim: i64) => {
            let g = c.gradient()?;
            let part = |(i, t): (usize, &Geometry)| match c.needs_element("tensors", i) {
                true => g.select(dim, i as i64)?.to_dtype(t.dtype).map(Some),
                false => Ok(None),
            };
            tensors.iter().enumerate().map(part).collect::<Result<Vec<_>>>()?
        }
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![vec![m.any(&[2, 3]), m.any(&[2, 3])], 1], sample![vec![m.any(&[])], 0]];
    out_rule: OutRule::dtype(cat_writes).apart(&[0]);
    fn stack(tensors: &[Tensor], dim: i64) -> Tensor [tensors, dim];
}

/// A matrix, or a row or a number as one.
fn as_block(t: &Tensor) -> Result<Tensor> {
    match t.dim() {
        0 => t.reshape(&[1, 1]),
        1 => t.unsqueeze(0),
        _ => Ok(t.clone()),
    }
}

fn block_diag_any(tensors: &[Tensor]) -> Result<Tensor> {
    for (i, t) in tensors.iter().enumerate() {
        ensure!(
            t.dim() <= 2,
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {} dimensions",
            t.dim()
        );
    }
    let blocks = tensors.iter().map(as_block).collect::<Result<Vec<_>>>()?;
    let Some(first) = blocks.first() else { return Tensor::zeros(&[1, 0], crate::default_dtype()) };
    let dtype = blocks.iter().fold(first.dtype(), |dtype, b| dtype.promote(b.dtype()));
    let (height, width) = blocks.iter().fold((0, 0), |(h, w), b| (h + b.sizes()[0], w + b.sizes()[1]));
    let out = Tensor::fresh(first.device(), dtype, Dims::from_slice(&[height, width]))?;
    // Every element is written once: what lies to both sides of a block with the block.
    let (mut top, mut left) = (0, 0);
    for block in &blocks {
        let (h, w) = (block.sizes()[0], block.sizes()[1]);
        let rows = out.narrow(0, top, h)?;
        for (start, length) in [(0, left), (left + w, width - left - w)] {
            if length > 0 {
                rows.narrow(1, start, length)?.zero_()?;
            }
        }
        rows.narrow(1, left, w)?.copy_(block)?;
        (top, left) = (top + h, left + w);
    }
    Ok(out)
}

op! {
    /// A matrix with the given ones (or rows, or numbers) along its diagonal, zero elsewhere.
    block_diag: "block_diag(Tensor[] tensors) -> Tensor",
        Out OUT: "block_diag.out(Tensor[] tensors, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(block_diag_any; tensors));
    derivative: backward! {
        tensors([c], tensors: Vec<Geometry>) => {
            let g = c.gradient()?;
            let (mut top, mut left) = (0, 0);
            let mut out = Vec::with_capacity(tensors.len());
            for (i, t) in tensors.iter().enumerate() {
                let (h, w) = match t.sizes[..] {
                    [h, w] => (h, w),
                    [w] => (1, w),
                    _ => (1, 1),
                };
                out.push(match c.needs_element("tensors", i) {
                    true => {
                        let part = g.narrow(0, top, h)?.narrow(1, left, w)?;
                        Some(if t.dim() == 2 { part } else { part.reshape(&t.sizes)? })
                    }
                    false => None,
                });
                (top, left) = (top + h, left + w);
            }
            out
        }
    };
    forward: Forward::Linear;
    samples: |m| vec![
        sample![vec![m.any(&[2, 3]), m.any(&[3, 1])]],
        sample![vec![m.any(&[2]), m.any(&[]), m.any(&[2, 0]), m.any(&[1, 2])]],
    ];
    fn block_diag(tensors: &[Tensor]) -> Tensor [tensors];
}

// ---- flip and roll ------------------------------------------------------------------------------

fn flip_plan(x: &Tensor, over: &[i64]) -> Result<TensorSpec> {
    if !over.is_empty() {
        wrap_dims(over, x.dim())?;
    }
    let strides = dims::preserved_strides(x.sizes(), x.strides());
    Ok(TensorSpec::like(Dims::from_slice(x.sizes()), x).strided(strides))
}

fn flip_run(x: &Tensor, over: &[i64], outs: &[Tensor]) -> Result<()> {
    let out = &outs[0];
    if x.numel() == 0 {
        return Ok(());
    }
    let flipped = if over.is_empty() { Default::default() } else { wrap_dims(over, x.dim())? };
    let mut strides = byte_strides(x.strides(), x.dtype());
    let mut at = x.data_ptr();
    let _locks = LockSet::new([(x.storage(), false), (out.storage(), true)])?;
    // Reading backwards: from the last element, with the stride negated.
    for d in flipped {
        at = at.wrapping_offset((x.sizes()[d] - 1) as isize * strides[d]);
        strides[d] = -strides[d];
    }
    // SAFETY: every element read is one of `x`; the storages are locked and apart.
    unsafe {
        flambeau_cpu::copy::copy_strided(
            x.sizes(),
            (out.data_ptr(), &byte_strides(out.strides(), out.dtype()), out.dtype()),
            (at, &strides, x.dtype()),
        );
    }
    Ok(())
}

op! {
    /// A copy with the given dims reversed.
    flip: "flip(Tensor self, int[] dims) -> Tensor", Out OUT: "flip.out(Tensor self, int[] dims, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(flip_plan; x, over), run: run!(flip_run; x, over) };
    derivative: backward! { self_(g, dims: Dims) => g.flip(&dims)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3]), vec![0i64]], sample![m.any(&[2, 3, 4]), vec![-1i64, 1]]];
    fn flip(&self, dims: &[i64]) -> Tensor [self, dims];
}

fn roll_any(x: &Tensor, shifts: &[i64], over: &[i64]) -> Result<Tensor> {
    if over.is_empty() && shifts.len() == 1 {
        return x.reshape(&[-1])?.roll(shifts, &[0])?.view(x.sizes());
    }
    ensure!(!shifts.is_empty(), "`shifts` required");
    ensure!(
        shifts.len() == over.len(),
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        over.len()
    );
    let mut out = x.clone();
    for (&shift, &dim) in shifts.iter().zip(over) {
        let n = x.size(dim)?;
        // (In memory it lies as what is concatenated does, and contiguous if nothing is.)
        out = match shift.checked_rem_euclid(n) {
            None | Some(0) => out.contiguous()?,
            Some(k) => Tensor::cat(&[out.narrow(dim, n - k, k)?, out.narrow(dim, 0, n - k)?], dim)?,
        };
    }
    // Never the tensor itself.
    if out.is_set_to(x) { x.clone_in(MemoryFormat::Contiguous) } else { Ok(out) }
}

op! {
    /// A copy with elements moved around along the given dims (through the flattened tensor without any).
    roll: "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
        Out OUT: "roll.out(Tensor self, SymInt[1] shifts, int[1] dims=[], *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(roll_any; x, shifts, over));
    derivative: backward! {
        self_(g, shifts: Dims, dims: Dims) => g.roll(&shifts.iter().map(|s| s.wrapping_neg()).collect::<Dims>(), &dims)?
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 4]), vec![1i64], vec![0i64]], sample![m.any(&[3, 4]), vec![5i64], Vec::<i64>::new()], sample![m.any(&[3, 4]), vec![-1i64, 2], vec![0i64, -1]]];
    fn roll(&self, shifts: &[i64], dims: &[i64]) -> Tensor [self, shifts, dims];
}

// ---- repeat -------------------------------------------------------------------------------------

fn repeat_any(x: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    ensure!(
        repeats.len() >= x.dim(),
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
    );
    let lead = repeats.len() - x.dim();
    let (mut split, mut spread, mut merged) = (Dims::new(), Dims::new(), Dims::new());
    if let Some(d) = repeats.iter().position(|r| *r < 0) {
        let size = |d: usize| repeats[d].saturating_mul(if d < lead { 1 } else { x.sizes()[d - lead] });
        let sizes: Dims = (0..repeats.len()).map(size).collect();
        return Err(Error::runtime(format!("Trying to create tensor with negative dimension {}: {sizes:?}", sizes[d])));
    }
    for (d, &r) in repeats.iter().enumerate() {
        let size = if d < lead { 1 } else { x.sizes()[d - lead] };
        split.extend([1, size]);
        spread.extend([r, size]);
        merged.push(size.checked_mul(r).ok_or_else(|| Error::runtime("repeat: the size overflows"))?);
    }
    // Each dim as (copies, elements): expanded, then merged by one copy.
    x.reshape(&split)?.expand(&spread)?.clone_in(MemoryFormat::Contiguous)?.view(&merged)
}

op! {
    /// The tensor laid side by side: `repeats[d]` times along each dim.
    repeat: "repeat(Tensor self, SymInt[] repeats) -> Tensor",
        Out OUT: "repeat.out(Tensor self, SymInt[] repeats, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(repeat_any; x, repeats));
    derivative: backward! {
        self_(g, self_: Geometry, repeats: Dims) => {
            // Each dim as (copies, elements), of which the copies are added up.
            let lead = repeats.len() - self_.dim();
            let sizes = |d: usize| if d < lead { 1 } else { self_.sizes[d - lead] };
            let split: Dims = repeats.iter().enumerate().flat_map(|(d, &r)| [r, sizes(d)]).collect();
            let copies: Vec<i64> = (0..repeats.len() as i64).map(|d| 2 * d).collect();
            let g = if copies.is_empty() { g.clone() } else { g.reshape(&split)?.sum_dim(&copies, false)? };
            g.reshape(&self_.sizes)?
        }
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3]), vec![2i64, 1]], sample![m.any(&[3]), vec![2i64, 2]], sample![m.any(&[2]), vec![0i64]]];
    fn repeat(&self, repeats: &[i64]) -> Tensor [self, repeats];
}

fn tile_any(x: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    let mut full = Dims::from_elem(1, x.dim().saturating_sub(repeats.len()));
    full.extend_from_slice(repeats);
    x.repeat(&full)
}

op! {
    /// Like `repeat`, missing leading counts being one.
    tile: "tile(Tensor self, SymInt[] dims) -> Tensor";
    Body::Composite(kernel!(tile_any; x, repeats));
    samples: |m| vec![sample![m.any(&[2, 3]), vec![2i64]]];
    fn tile(&self, dims: &[i64]) -> Tensor [self, dims];
}

// ---- padding ------------------------------------------------------------------------------------

/// The output sizes of a padding: pairs (before, after), the last dim first; negative ones cut.
fn padded_sizes(x: &Tensor, pad: &[i64]) -> Result<Dims> {
    ensure!(pad.len().is_multiple_of(2), "Padding length must be divisible by 2");
    ensure!(
        pad.len() / 2 <= x.dim(),
        "Padding length should be less than or equal to two times the input dimension but got padding length {} and input of \
         dimension {}",
        pad.len(),
        x.dim()
    );
    let mut sizes = Dims::from_slice(x.sizes());
    for (i, pair) in pad.chunks(2).enumerate() {
        let d = x.dim() - 1 - i;
        let new = pair[0].checked_add(pair[1]).and_then(|p| p.checked_add(sizes[d]));
        ensure!(new.is_some_and(|n| n >= 0), "narrow(): length must be non-negative.");
        sizes[d] = new.unwrap_or(0);
    }
    Ok(sizes)
}

fn constant_pad_plan(x: &Tensor, pad: &[i64], _value: Scalar) -> Result<TensorSpec> {
    let sizes = padded_sizes(x, pad)?;
    let format = x.suggested_memory_format();
    let strides = dims::strides_for(&sizes, format)?;
    Ok(TensorSpec::like(sizes, x).strided(strides))
}

fn constant_pad_run(x: &Tensor, pad: &[i64], value: Scalar, outs: &[Tensor]) -> Result<()> {
    let out = &outs[0];
    if pad.iter().any(|p| *p > 0) {
        out.fill_(value)?;
    }
    let (mut from, mut to) = (x.clone(), out.clone());
    for (i, pair) in pad.chunks(2).enumerate() {
        let d = (x.dim() - 1 - i) as i64;
        let cut = |t: &Tensor, a: i64, b: i64| {
            let n = t.size(d)?;
            t.slice(d, Some(a.clamp(0, n)), Some((n - b).clamp(a.clamp(0, n), n)), 1)
        };
        from = cut(&from, (-pair[0]).max(0), (-pair[1]).max(0))?;
        to = cut(&to, pair[0].max(0), pair[1].max(0))?;
    }
    to.copy_(&from)?;
    Ok(())
}

op! {
    /// A copy with `value` put around: `pad` holds pairs (before, after), those of the last dim first; negative ones cut.
    constant_pad_nd: "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
        Out OUT: "constant_pad_nd.out(Tensor self, SymInt[] pad, Scalar value=0, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(constant_pad_plan; x, pad, value), run: run!(constant_pad_run; x, pad, value) };
    derivative: backward! {
        self_(g, pad: Dims) => g.constant_pad_nd(&pad.iter().map(|p| -p).collect::<Dims>(), 0)?
    };
    samples: |m| vec![sample![m.any(&[2, 3]), vec![1i64, 2], Scalar::Int(1)], sample![m.any(&[3, 4]), vec![-1i64, 1, 0, -1], Scalar::Int(0)]];
    fn constant_pad_nd(&self, pad: &[i64], value: impl Into<Scalar>) -> Tensor [self, pad, value.into()];
}

fn pad_any(x: &Tensor, pad: &[i64], mode: &str, value: Option<f64>) -> Result<Tensor> {
    if mode == "constant" {
        return constant_pad_nd::OP.call(&[x.into(), pad.into(), Scalar::Float(value.unwrap_or(0.0)).into()])?.one();
    }
    if !matches!(mode, "reflect" | "replicate" | "circular") {
        return Err(crate::Error::not_implemented(format!("Unrecognised padding mode {mode}")));
    }
    ensure!(
        value.is_none_or(|v| v == 0.0),
        "Padding mode \"{mode}\" doesn't take in value argument"
    );
    let n = pad.len() / 2;
    ensure!(pad.len().is_multiple_of(2), "Padding length must be divisible by 2");
    ensure!(
        n <= x.dim(),
        "Padding length should be less than or equal to two times the input dimension but got padding length {} and input of \
         dimension {}",
        pad.len(),
        x.dim()
    );
    if !((x.dim() == n + 1 || x.dim() == n + 2) && (1..=3).contains(&n)) {
        return Err(crate::Error::not_implemented(format!(
            "Padding size {} is not supported for {}D input tensor.\nSupported combinations for non-constant padding:\n  - 2D or \
             3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n  \
             - 4D or 5D input: padding size = 6 (pads last 3 dimensions)",
            pad.len(),
            x.dim()
        )));
    }
    let op = match (mode, n) {
        ("reflect", 1) => &padding::reflection_pad1d::OP,
        ("reflect", 2) => &padding::reflection_pad2d::OP,
        ("reflect", _) => &padding::reflection_pad3d::OP,
        ("replicate", 1) => &padding::replication_pad1d::OP,
        ("replicate", 2) => &padding::replication_pad2d::OP,
        ("replicate", _) => &padding::replication_pad3d::OP,
        _ => &padding::_pad_circular::OP,
    };
    op.call(&[x.into(), pad.into()])?.one()
}

op! {
    /// A copy with something put around, by `mode`: `constant` (`value`), `reflect`, `replicate` or `circular`. `pad` holds
    /// pairs (before, after), those of the last dim first.
    pad: "pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor";
    Body::Composite(kernel!(pad_any; x, pad, mode, value));
    samples: |m| {
        let mut samples = vec![
            sample![m.any(&[2, 3]), vec![1i64, 2], "constant", ()],
            sample![m.any(&[1, 2, 3]), vec![2i64, 1], "circular", ()],
        ];
        if m.dtype != DType::Bool {
            samples.push(sample![m.any(&[1, 2, 4]), vec![2i64, 1], "reflect", ()]);
            samples.push(sample![m.any(&[1, 2, 3, 3]), vec![2i64, 1, 1, 0], "replicate", ()]);
        }
        samples
    };
    fn pad(&self, pad: &[i64], mode: &str, value: Option<f64>) -> Tensor [self, pad, mode, value];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    block_diag::ALL,
    cat::ALL,
    concat::ALL,
    concat_out::ALL,
    concatenate::ALL,
    concatenate_out::ALL,
    constant_pad_nd::ALL,
    flip::ALL,
    pad::ALL,
    repeat::ALL,
    roll::ALL,
    stack::ALL,
    tile::ALL,
];

