//! Rearrangements that are made of other operators, and other names of some.

use super::copies::diagonal_copy;
use super::view;
use crate::dims::wrap_dim;
use crate::autograd::Forward;
use crate::{Body, DType, Error, MemoryFormat, Op, Result, Tensor, backward, ensure, sample};

alias! {
    moveaxis: "moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)" => view::movedim::OP;
    moveaxis_int: "moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)" => view::movedim_int::OP;
    swapaxes: "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)" => view::transpose::OP;
    swapdims: "swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)" => view::transpose::OP;
}

// ---- repeating ------------------------------------------------------------------------------------

fn repeat_indices_any(repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    ensure!(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
    ensure!(matches!(repeats.dtype(), DType::I32 | DType::I64), "repeats has to be Long or Int tensor");
    if let (true, Some(total)) = (repeats.device().is_meta(), output_size) {
        return Tensor::empty(&[total], (repeats.dtype(), repeats.device()));
    }
    let counts = repeats.to_dtype(DType::I64)?.to_vec::<i64>()?;
    ensure!(counts.iter().all(|n| *n >= 0), "repeats can not be negative");
    let total = counts.iter().try_fold(0i64, |sum, n| sum.checked_add(*n));
    let total = total.ok_or_else(|| Error::runtime("repeat_interleave: the result is too large"))?;
    ensure!(output_size.is_none_or(|n| n == total), "allocated size does not match required size");
    let mut indices = Vec::new();
    indices.try_reserve_exact(total as usize).map_err(|_| Error::runtime("repeat_interleave: the result is too large"))?;
    for (i, &n) in counts.iter().enumerate() {
        indices.extend(std::iter::repeat_n(i as i64, n as usize));
    }
    Tensor::from_slice(&indices)?.to_dtype(repeats.dtype())
}

fn repeat_interleave_any(x: &Tensor, repeats: &Tensor, dim: Option<i64>, output_size: Option<i64>) -> Result<Tensor> {
    let (x, dim) = match dim {
        Some(d) => (x.clone(), d),
        None => (x.reshape(&[-1])?, 0),
    };
    let size = x.size(dim)?;
    let repeats = match (repeats.dim(), repeats.numel()) {
        (0, _) | (1, 1) => repeats.reshape(&[1])?.expand(&[size])?,
        _ => {
            ensure!(
                repeats.dim() == 1 && repeats.numel() == size,
                "repeats must have the same size as input along dim, but got repeats.size(0) = {} and input.size({dim}) = {size}",
                repeats.numel()
            );
            repeats.clone()
        }
    };
    x.index_select(dim, &repeat_indices_any(&repeats, output_size)?)
}

fn repeat_interleave_int_any(x: &Tensor, repeats: i64, dim: Option<i64>, output_size: Option<i64>) -> Result<Tensor> {
    ensure!(repeats >= 0, "Repeats must be non-negative");
    let (x, dim) = match dim {
        Some(d) => (x.clone(), d),
        None => (x.reshape(&[-1])?, 0),
    };
    let d = wrap_dim(dim, x.dim())?;
    ensure!(x.dim() > 0, "repeat_interleave: the tensor has no dims");
    let total = x.sizes()[d].checked_mul(repeats);
    ensure!(total.is_some() && output_size.is_none_or(|n| Some(n) == total), "allocated size does not match required size");
    let mut sizes = x.sizes().to_vec();
    sizes.insert(d + 1, repeats);
    x.unsqueeze(d as i64 + 1)?.expand(&sizes)?.contiguous()?.flatten(d as i64, d as i64 + 1)
}

op! {
    /// The index of each element, as often as the element says.
    repeat_indices: "repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor";
    Body::Composite(kernel!(repeat_indices_any; repeats, output_size));
    samples: |m| match (m.dtype, Tensor::from_slice(&[2i64, 0, 1])) {
        (DType::I64, Ok(repeats)) => vec![sample![repeats, ()]],
        _ => vec![],
    };
}
op! {
    /// Each part along a dim as often as `repeats` says for it; without a dim, each element.
    repeat_interleave: "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor";
    Body::Composite(kernel!(repeat_interleave_any; x, repeats, dim, output_size));
    samples: |m| match Tensor::from_slice(&[2i64, 0, 1]) {
        Ok(repeats) => vec![sample![m.any(&[2, 3]), repeats, 1, ()]],
        Err(_) => vec![],
    };
    fn repeat_interleave(&self, repeats: &Tensor, dim: Option<i64>) -> Tensor [self, repeats, dim, Option::<i64>::None];
}
op! {
    /// Each part along a dim equally often; without a dim, each element.
    repeat_interleave_int: "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor";
    Body::Composite(kernel!(repeat_interleave_int_any; x, repeats, dim, output_size));
    samples: |m| vec![sample![m.any(&[2, 3]), 2, 0, ()], sample![m.any(&[2, 2]), 3, (), ()]];
}

// ---- joining --------------------------------------------------------------------------------------

/// Tensors of fewer dims gain some in front (and behind, for three) so that they can be joined.
fn at_least(t: &Tensor, n: usize) -> Result<Tensor> {
    match (n, t.dim()) {
        (_, d) if d >= n => Ok(t.clone()),
        (1, _) => t.reshape(&[1]),
        (2, 0) => t.reshape(&[1, 1]),
        (2, _) => t.unsqueeze(0),
        (_, 0) => t.reshape(&[1, 1, 1]),
        (_, 1) => t.unsqueeze(0)?.unsqueeze(2),
        _ => t.unsqueeze(2),
    }
}

fn join(tensors: &[Tensor], name: &str, least: usize, dim: impl Fn(&Tensor) -> i64) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), "{name} expects a non-empty TensorList");
    let tensors = tensors.iter().map(|t| at_least(t, least)).collect::<Result<Vec<_>>>()?;
    Tensor::cat(&tensors, dim(&tensors[0]))
}
fn hstack_any(tensors: &[Tensor]) -> Result<Tensor> {
    join(tensors, "hstack", 1, |t| if t.dim() == 1 { 0 } else { 1 })
}
fn vstack_any(tensors: &[Tensor]) -> Result<Tensor> {
    join(tensors, "vstack", 2, |_| 0)
}
fn dstack_any(tensors: &[Tensor]) -> Result<Tensor> {
    join(tensors, "dstack", 3, |_| 2)
}
fn column_stack_any(tensors: &[Tensor]) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), "column_stack expects a non-empty TensorList");
    let columns = tensors.iter().map(|t| if t.dim() < 2 { t.reshape(&[t.numel(), 1]) } else { Ok(t.clone()) });
    hstack_any(&columns.collect::<Result<Vec<_>>>()?)
}

/// Operators of a list of tensors.
macro_rules! joins {
    ($($(#[doc = $doc:expr])* $name:ident: $kernel:ident;)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor[] tensors) -> Tensor"),
                Out OUT: concat!(stringify!($name), ".out(Tensor[] tensors, *, Tensor(a!) out) -> Tensor(a!)");
            Body::Composite(kernel!($kernel; tensors));
            samples: |m| vec![sample![vec![m.any(&[2, 3]), m.any(&[2, 3])]], sample![vec![m.any(&[2]), m.any(&[2])]]];
            out_rule: crate::OutRule::dtype(crate::ops::join::cat_writes);
        }
    )* };
}
joins! {
    /// Tensors side by side: along the second dim, or the only one.
    hstack: hstack_any;
    /// Tensors below each other, as rows.
    vstack: vstack_any;
    /// Tensors below each other, as rows.
    row_stack: vstack_any;
    /// Tensors behind each other, along the third dim.
    dstack: dstack_any;
    /// Vectors as columns of a matrix, beside matrices.
    column_stack: column_stack_any;
}

// ---- turning ----------------------------------------------------------------------------------------

fn flipud_any(x: &Tensor) -> Result<Tensor> {
    ensure!(x.dim() >= 1, "Input must be >= 1-d.");
    x.flip(&[0])
}
fn fliplr_any(x: &Tensor) -> Result<Tensor> {
    ensure!(x.dim() >= 2, "Input must be >= 2-d.");
    x.flip(&[1])
}
op! {
    /// Upside down.
    flipud: "flipud(Tensor self) -> Tensor";
    Body::Composite(kernel!(flipud_any; x));
    samples: |m| vec![sample![m.any(&[2, 3])]];
}
op! {
    /// Left to right.
    fliplr: "fliplr(Tensor self) -> Tensor";
    Body::Composite(kernel!(fliplr_any; x));
    samples: |m| vec![sample![m.any(&[2, 3])]];
}

fn ravel_any(x: &Tensor) -> Result<Tensor> {
    x.contiguous()?.view(&[-1])
}
op! {
    /// All elements in a row.
    ravel: "ravel(Tensor(a) self) -> Tensor(a)";
    Body::Composite(kernel!(ravel_any; x));
    samples: |m| vec![sample![m.any(&[2, 3])]];
}

// ---- diagonals --------------------------------------------------------------------------------------

fn diag_embed_any(x: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let (first, second) = (wrap_dim(dim1, x.dim() + 1)?, wrap_dim(dim2, x.dim() + 1)?);
    ensure!(first != second, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    let n = offset.checked_abs().and_then(|o| o.checked_add(x.sizes()[x.dim() - 1]));
    let n = n.ok_or_else(|| Error::runtime(format!("diag_embed(): an offset of {offset} is too large")))?;
    let mut sizes = x.sizes()[..x.dim() - 1].to_vec();
    sizes.insert(first.min(second), n);
    sizes.insert(first.max(second), n);
    let out = Tensor::zeros(&sizes, (x.dtype(), x.device()))?;
    out.diagonal(offset, first as i64, second as i64)?.copy_(x)?;
    Ok(out)
}
op! {
    /// The elements along the last dim as diagonals of matrices, zero elsewhere.
    diag_embed: "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor";
    Body::Explicit(kernel!(diag_embed_any; x, offset, dim1, dim2));
    derivative: backward! { self_(g, offset: i64, dim1: i64, dim2: i64) => g.diagonal(offset, dim1, dim2)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 3]), 0, -2, -1], sample![m.any(&[3]), -1, 0, 1]];
    fn diag_embed(&self) -> Tensor [self, 0, -2, -1];
}

fn diag_any(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    match x.dim() {
        1 => diag_embed::OP.call(&[x.into(), diagonal.into(), 0.into(), 1.into()])?.one(),
        2 => diagonal_copy::OP.call(&[x.into(), diagonal.into(), 0.into(), 1.into()])?.one(),
        d => Err(Error::runtime(format!("diag(): Supports 1D or 2D tensors. Got {d}D"))),
    }
}
fn diag_writes(write: &crate::Write<'_, '_>) -> Result<()> {
    let vector = matches!(write.inputs, [crate::Value::Tensor(x), ..] if x.dim() == 1);
    ensure!(
        !vector || write.result.can_cast(write.out),
        "diag: result type {} can't be cast to the desired out= type {}",
        write.result.scalar_type_name(),
        write.out.scalar_type_name()
    );
    crate::out::exact(write.result, write.out)
}

op! {
    /// The matrix with a vector as its diagonal, or the diagonal of a matrix.
    diag: "diag(Tensor self, int diagonal=0) -> Tensor",
        Out OUT: "diag.out(Tensor self, int diagonal=0, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(diag_any; x, diagonal));
    samples: |m| vec![sample![m.any(&[3]), 1], sample![m.any(&[3, 2]), 0]];
    out_rule: crate::OutRule::call(diag_writes);
}

// ---- images -----------------------------------------------------------------------------------------

/// An image of `sizes` that is made of another's elements, in that one's memory format: of `parts`, whose dimensions after
/// the batch make the channels and, in the order named, space.
fn rearranged(x: &Tensor, parts: &Tensor, channels: &[i64], space: &[i64], sizes: &[i64]) -> Result<Tensor> {
    let batch = 0..(parts.dim() - channels.len() - space.len()) as i64;
    let laid_out = |inner: [&[i64]; 2], sizes: &[i64]| {
        let order: Vec<i64> = batch.clone().chain(inner.concat()).collect();
        parts.permute(&order)?.clone_in(MemoryFormat::Contiguous)?.view(sizes)
    };
    match (x.suggested_memory_format(), sizes) {
        (MemoryFormat::ChannelsLast, &[n, c, h, w]) => {
            laid_out([space, channels], &[n, h, w, c])?.permute(&[0, 3, 1, 2])
        }
        _ => laid_out([channels, space], sizes),
    }
}

fn pixel_shuffle_any(x: &Tensor, factor: i64) -> Result<Tensor> {
    ensure!(x.dim() >= 3, "pixel_shuffle expects input to have at least 3 dimensions, but got input with {} dimension(s)", x.dim());
    ensure!(factor > 0, "pixel_shuffle expects a positive upscale_factor, but got {factor}");
    let at = x.dim() - 3;
    let (batch, s) = (&x.sizes()[..at], &x.sizes()[at..]);
    ensure!(
        factor.checked_mul(factor).is_some_and(|f| s[0] % f == 0),
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but \
         input.size(-3)={} is not divisible by {}",
        s[0],
        factor.saturating_mul(factor)
    );
    let c = s[0] / (factor * factor);
    let parts = x.reshape(&[batch, &[c, factor, factor, s[1], s[2]]].concat())?;
    let d = at as i64;
    let sizes = [batch, &[c, s[1] * factor, s[2] * factor]].concat();
    rearranged(x, &parts, &[d], &[d + 3, d + 1, d + 4, d + 2], &sizes)
}
op! {
    /// Channels spread over the image: (..., c r r, h, w) to (..., c, h r, w r).
    pixel_shuffle: "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor";
    Body::Explicit(kernel!(pixel_shuffle_any; x, factor));
    derivative: backward! { self_(g, upscale_factor: i64) => pixel_unshuffle_any(g, upscale_factor)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 4, 2, 3]), 2]];
}

fn pixel_unshuffle_any(x: &Tensor, factor: i64) -> Result<Tensor> {
    ensure!(x.dim() >= 3, "pixel_unshuffle expects input to have at least 3 dimensions, but got input with {} dimension(s)", x.dim());
    ensure!(factor > 0, "pixel_unshuffle expects a positive downscale_factor, but got {factor}");
    let at = x.dim() - 3;
    let (batch, s) = (&x.sizes()[..at], &x.sizes()[at..]);
    for (what, n) in [("height", s[1]), ("width", s[2])] {
        ensure!(
            n % factor == 0,
            "pixel_unshuffle expects {what} to be divisible by downscale_factor, but input.size(-{})={n} is not divisible by \
             {factor}",
            if what == "height" { 2 } else { 1 }
        );
    }
    let (h, w) = (s[1] / factor, s[2] / factor);
    let parts = x.reshape(&[batch, &[s[0], h, factor, w, factor]].concat())?;
    let d = at as i64;
    let sizes = [batch, &[s[0] * factor * factor, h, w]].concat();
    rearranged(x, &parts, &[d, d + 2, d + 4], &[d + 1, d + 3], &sizes)
}
op! {
    /// The image gathered into channels: (..., c, h r, w r) to (..., c r r, h, w).
    pixel_unshuffle: "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor";
    Body::Explicit(kernel!(pixel_unshuffle_any; x, factor));
    derivative: backward! { self_(g, downscale_factor: i64) => pixel_shuffle_any(g, downscale_factor)? };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[2, 1, 4, 6]), 2]];
}

// ---- products and distances ---------------------------------------------------------------------------

fn bilinear_any(input1: &Tensor, input2: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    ensure!(
        input1.dim() == input2.dim(),
        "bilinear(): input dimensions do not match: got {} and {}",
        input1.dim(),
        input2.dim()
    );
    ensure!(weight.dim() == 3 && input1.dim() > 0, "bilinear(): weight must have 3 dims and the inputs at least one");
    let last = input1.dim() - 1;
    for (i, (a, b)) in input1.sizes()[..last].iter().zip(input2.sizes()).enumerate() {
        ensure!(a == b, "bilinear(): input batch dimensions do not match at dim {i}: got {a} and {b}");
    }
    for (k, x) in [(1, input1), (2, input2)] {
        ensure!(
            x.sizes()[last] == weight.sizes()[k],
            "bilinear(): input{k} size does not match weight size: got {} but expected {}",
            x.sizes()[last],
            weight.sizes()[k]
        );
    }
    if let Some(b) = bias {
        ensure!(
            b.dim() == 1 && b.sizes()[0] == weight.sizes()[0],
            "bilinear(): bias size does not match weight size: got {:?} but expected {}",
            b.sizes(),
            weight.sizes()[0]
        );
    }
    let rows = |x: &Tensor| x.reshape(&[-1, x.sizes()[last]]);
    let y = Tensor::einsum("bn,anm,bm->ba", &[rows(input1)?, weight.clone(), rows(input2)?])?;
    let y = y.reshape(&[&input1.sizes()[..last], &weight.sizes()[..1]].concat())?;
    match bias {
        Some(b) => y.add(b),
        None => Ok(y),
    }
}
op! {
    /// `input1 weight input2 + bias`, for each output feature.
    bilinear: "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor";
    Body::Composite(kernel!(bilinear_any; input1, input2, weight, bias));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 2]), m.any(&[4, 3, 2]), m.any(&[4])]];
}

pub(super) fn pairwise_distance_any(x1: &Tensor, x2: &Tensor, p: f64, eps: f64, keepdim: bool) -> Result<Tensor> {
    let dims = x1.dim().max(x2.dim()) as i64;
    let difference = x1.sub(x2)?.add(eps)?;
    let norm = crate::registry::find("norm.ScalarOpt_dim")
        .ok_or_else(|| Error::runtime("the operator 'norm.ScalarOpt_dim' does not exist"))?;
    let dim = [dims - 1];
    let args = [crate::Value::from(&difference), crate::Scalar::from(p).into(), (&dim[..]).into(), keepdim.into()];
    norm.call(&args)?.one()
}
op! {
    /// The p-norm of the difference along the last dim.
    pairwise_distance: "pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, bool keepdim=False) -> Tensor";
    Body::Composite(kernel!(pairwise_distance_any; x1, x2, p, eps, keepdim));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.uniform(&[2, 3], 1.0, 2.0), m.uniform(&[2, 3], 3.0, 4.0), 2.0, 1e-6, false]],
        false => vec![],
    };
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    bilinear::ALL,
    column_stack::ALL,
    diag::ALL,
    diag_embed::ALL,
    dstack::ALL,
    fliplr::ALL,
    flipud::ALL,
    hstack::ALL,
    moveaxis::ALL,
    moveaxis_int::ALL,
    pairwise_distance::ALL,
    pixel_shuffle::ALL,
    pixel_unshuffle::ALL,
    ravel::ALL,
    repeat_indices::ALL,
    repeat_interleave::ALL,
    repeat_interleave_int::ALL,
    row_stack::ALL,
    swapaxes::ALL,
    swapdims::ALL,
    vstack::ALL,
];
