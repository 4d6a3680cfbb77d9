//! Padding with what the tensor itself holds: mirrored, its border repeated, or as if it went round.
//!
//! `padding` holds pairs (before, after), those of the last dim first; negative ones cut.

use crate::access::{elements, elements_mut};
use crate::autograd::Forward;
use crate::dims::{self, Dims};
use crate::samples::{Maker, Sample};
use crate::{Body, Complex, DType, Error, MemoryFormat, Op, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::padding::Axis;
use std::ops::Range;

/// Which place a place around the tensor is a copy of.
trait Mode {
    /// The start of the operators' names.
    const NAME: &'static str;
    /// Of place `i`, which may lie outside of `size`; `kept` is what cutting leaves.
    fn place(i: i64, size: i64, kept: &Range<i64>) -> i64;
}

/// Mirrored at the border, which is not repeated.
struct Reflect;
impl Mode for Reflect {
    const NAME: &'static str = "reflection_pad";
    fn place(i: i64, size: i64, _kept: &Range<i64>) -> i64 {
        match i {
            i if i < 0 => -i,
            i if i >= size => 2 * (size - 1) - i,
            i => i,
        }
    }
}

/// The border repeated.
struct Replicate;
impl Mode for Replicate {
    const NAME: &'static str = "replication_pad";
    fn place(i: i64, size: i64, _kept: &Range<i64>) -> i64 {
        i.clamp(0, size - 1)
    }
}

/// As if the tensor went round. Only what is left after cutting does.
struct Circular;
impl Mode for Circular {
    const NAME: &'static str = "_pad_circular";
    fn place(i: i64, _size: i64, kept: &Range<i64>) -> i64 {
        kept.start + (i - kept.start).rem_euclid((kept.end - kept.start).max(1))
    }
}

/// The result's sizes.
fn padded(x: &Tensor, padding: &[i64]) -> Result<Dims> {
    let mut sizes = Dims::from_slice(x.sizes());
    for (pair, size) in padding.chunks_exact(2).zip(sizes.iter_mut().rev()) {
        let new = pair[0].checked_add(pair[1]).and_then(|p| p.checked_add(*size));
        *size = new.ok_or_else(|| Error::runtime(format!("padding ({}, {}) is too large", pair[0], pair[1])))?;
    }
    Ok(sizes)
}

/// The result's sizes, for so many padded dims, which must fit the mode.
fn bordered<M: Mode>(x: &Tensor, padding: &[i64], n: usize) -> Result<Dims> {
    ensure!(padding.len() == 2 * n, "padding size is expected to be {}, but got: {}", 2 * n, padding.len());
    let sizes = x.sizes();
    ensure!(
        (x.dim() == n + 1 || x.dim() == n + 2) && sizes[x.dim() - n - 1..].iter().all(|s| *s != 0),
        "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but \
         got: {sizes:?}",
        n + 1,
        n + 2
    );
    if x.dtype() == DType::Bool {
        return Err(super::reduce::not_for(&format!("{}{n}d", M::NAME), x.dtype()));
    }
    if M::NAME == Reflect::NAME {
        for (i, pair) in padding.chunks_exact(2).enumerate() {
            let d = x.dim() - 1 - i;
            ensure!(
                pair[0] < sizes[d] && pair[1] < sizes[d],
                "Argument #{}: Padding size should be less than the corresponding input dimension, but got: padding ({}, {}) \
                 at dimension {d} of input {sizes:?}",
                4 + 2 * i,
                pair[0],
                pair[1]
            );
        }
    }
    let out = padded(x, padding)?;
    let (before, after) = (&sizes[x.dim() - n..], &out[x.dim() - n..]);
    if !after.iter().any(|s| *s >= 1) {
        // "D: 3 H: 3, W: 3", but for the last comma where the result's are told.
        let list = |sizes: &[i64], comma: &str| -> String {
            let names = ["D", "H", "W"][3 - n..].iter().zip(sizes).enumerate();
            let comma = |i| if i == 0 { "" } else if i + 1 == n { comma } else { " " };
            names.map(|(i, (name, size))| format!("{}{name}: {size}", comma(i))).collect()
        };
        return Err(Error::runtime(format!(
            "input ({}) is too small. Calculated output {}",
            list(before, ", "),
            list(after, " ")
        )));
    }
    if let Some(size) = after.iter().find(|s| **s < 0) {
        return Err(Error::runtime(format!("Trying to create tensor with negative dimension {size}: {:?}", &out[..])));
    }
    Ok(out)
}

fn bordered_plan<M: Mode, const N: usize>(x: &Tensor, padding: &[i64]) -> Result<TensorSpec> {
    let sizes = bordered::<M>(x, padding, N)?;
    let strides = dims::strides_for(&sizes, x.suggested_memory_format())?;
    Ok(TensorSpec::like(sizes, x).strided(strides))
}

fn bordered_backward_plan<M: Mode, const N: usize>(g: &Tensor, x: &Tensor, padding: &[i64]) -> Result<TensorSpec> {
    let sizes = bordered::<M>(x, padding, N)?;
    check_gradient(g, &sizes, N)?;
    let strides = dims::strides_for(x.sizes(), x.suggested_memory_format())?;
    Ok(TensorSpec::new(x.sizes(), g.dtype(), g.device()).strided(strides))
}

/// That a gradient has the result's sizes.
fn check_gradient(g: &Tensor, sizes: &[i64], n: usize) -> Result<()> {
    let names = ["width", "height", "depth"];
    for (i, name) in names.iter().enumerate().take(n) {
        let (expected, got) = (sizes[sizes.len() - 1 - i], g.sizes().iter().rev().nth(i).copied().unwrap_or(1));
        ensure!(expected == got, "grad_output {name} unexpected. Expected: {expected}, Got: {got}");
    }
    ensure!(g.sizes() == sizes, "grad_output has sizes {:?}, expected {sizes:?}", g.sizes());
    Ok(())
}

fn circular_sizes(x: &Tensor, padding: &[i64]) -> Result<Dims> {
    let n = padding.len() / 2;
    ensure!(
        padding.len().is_multiple_of(2) && (1..=3).contains(&n) && (x.dim() == n + 1 || x.dim() == n + 2),
        "Invalid padding size, expected {} but got {}",
        2 * x.dim().saturating_sub(2),
        padding.len()
    );
    for (pair, size) in padding.chunks_exact(2).zip(x.sizes().iter().rev()) {
        let kept = *size + pair[0].min(0) + pair[1].min(0);
        ensure!(pair[0] <= kept && pair[1] <= kept, "Padding value causes wrapping around more than once.");
    }
    let sizes = padded(x, padding)?;
    ensure!(sizes.iter().all(|s| *s >= 0), "Negative padding value is resulting in an empty dimension");
    Ok(sizes)
}

fn circular_plan(x: &Tensor, padding: &[i64]) -> Result<TensorSpec> {
    // PyTorch writes it into a row-major result.
    Ok(TensorSpec::like(circular_sizes(x, padding)?, x))
}

fn circular_backward_plan(g: &Tensor, x: &Tensor, padding: &[i64]) -> Result<TensorSpec> {
    check_gradient(g, &circular_sizes(x, padding)?, padding.len() / 2)?;
    Ok(TensorSpec::new(x.sizes(), g.dtype(), g.device()))
}

/// The padded dims, first to last, and what lies around and within them in the order of memory `format`.
fn geometry<M: Mode>(sizes: &[i64], padding: &[i64], format: MemoryFormat) -> (Vec<Axis>, usize, usize) {
    let first = sizes.len() - padding.len() / 2;
    let axis = |(&size, pair): (&i64, &[i64])| {
        let kept = (-pair[0]).max(0)..size + pair[1].min(0);
        let place = |i| M::place(i, size, &kept) as usize;
        // What is kept is read where it is.
        let (before, after) = (-pair[0]..kept.start, kept.end.max(kept.start)..size + pair[1]);
        let from = before.map(place).chain(kept.start as usize..kept.end.max(0) as usize).chain(after.map(place)).collect();
        Axis { size: size as usize, from }
    };
    let axes = sizes[first..].iter().zip(padding.chunks_exact(2).rev()).map(axis).collect();
    let outer = |dims: &[i64]| dims.iter().product::<i64>() as usize;
    match format {
        MemoryFormat::Contiguous | MemoryFormat::Preserve => (axes, outer(&sizes[..first]), 1),
        MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d => (axes, sizes[0] as usize, sizes[1] as usize),
    }
}

/// The order of memory to work in: the tensor's where that keeps the padded dims together.
fn working_format(x: &Tensor, padding: &[i64]) -> MemoryFormat {
    if x.dim() == padding.len() / 2 + 2 { x.suggested_memory_format() } else { MemoryFormat::Contiguous }
}

/// A tensor of an output's sizes, dense in `format`: the output itself, if it is.
fn target(out: &Tensor, dtype: DType, format: MemoryFormat) -> Result<Tensor> {
    let strides = dims::strides_for(out.sizes(), format)?;
    match out.dtype() == dtype && out.strides() == &strides[..] {
        true => Ok(out.clone()),
        false => TensorSpec::new(out.sizes(), dtype, out.device()).strided(strides).allocate(),
    }
}

fn run<M: Mode>(x: &Tensor, padding: &[i64], outs: &[Tensor]) -> Result<()> {
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let format = working_format(x, padding);
    let (axes, outer, block) = geometry::<M>(x.sizes(), padding, format);
    let (x, out) = (x.contiguous_in(format)?, target(&outs[0], x.dtype(), format)?);
    read_places(&axes, outer, block, &x, &out)?;
    if out.is_same(&outs[0]) { Ok(()) } else { outs[0].copy_(&out).map(drop) }
}

/// Writes what the places along the axes, between `outer` dims and a `block` of elements, read in `x`. Both tensors are dense
/// in one order, and of one dtype.
pub(super) fn read_places(axes: &[Axis], outer: usize, block: usize, x: &Tensor, out: &Tensor) -> Result<()> {
    let _locks = LockSet::new([(x.storage(), false), (out.storage(), true)])?;
    macro_rules! moves {
        ($t:ty) => {
            // SAFETY: both are locked, dense in one order, and have elements of this size, which any bits are.
            unsafe { flambeau_cpu::padding::pad::<$t>(axes, outer, block, elements(x), elements_mut(out)) }
        };
    }
    match x.dtype().size() {
        1 => moves!(u8),
        2 => moves!(u16),
        4 => moves!(u32),
        8 => moves!(u64),
        _ => moves!(Complex<f64>),
    }
    Ok(())
}

fn backward_run<M: Mode>(g: &Tensor, x: &Tensor, padding: &[i64], outs: &[Tensor]) -> Result<()> {
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let (format, dtype) = (working_format(x, padding), g.dtype().compute());
    let (axes, outer, block) = geometry::<M>(x.sizes(), padding, format);
    let (g, out) = (g.to_dtype(dtype)?.contiguous_in(format)?, target(&outs[0], dtype, format)?);
    if g.numel() == 0 {
        out.zero_()?;
    } else {
        let _locks = LockSet::new([(g.storage(), false), (out.storage(), true)])?;
        crate::dispatch_dtype!(dtype, T in [reals, complexes] => {
            // SAFETY: both are locked, of this type, and dense in one order.
            unsafe { flambeau_cpu::padding::pad_backward::<T>(&axes, outer, block, elements(&g), elements_mut(&out)) };
        }; else return Err(super::reduce::not_for(M::NAME, dtype)));
    }
    if out.is_same(&outs[0]) { Ok(()) } else { outs[0].copy_(&out).map(drop) }
}

/// Tensors of `n` padded dims with paddings, one of which cuts.
fn examples(m: &mut Maker, n: usize) -> Vec<(Tensor, Vec<i64>)> {
    if m.dtype == DType::Bool {
        return vec![];
    }
    let pairs = [[1i64, 2], [2, 0], [0, 1]];
    let mut cutting = pairs[..n].concat();
    cutting[2 * n - 1] = -1;
    vec![
        (m.any(&[&[1i64, 2][..], &[3, 4, 3][3 - n..]].concat()), pairs[..n].concat()),
        (m.any(&[&[2i64][..], &[3, 3, 4][3 - n..]].concat()), cutting),
    ]
}

fn samples(m: &mut Maker, n: usize) -> Vec<Sample> {
    examples(m, n).into_iter().map(|(x, padding)| sample![x, padding]).collect()
}

fn backward_samples(m: &mut Maker, n: usize) -> Vec<Sample> {
    if !m.dtype.is_floating_point() && !m.dtype.is_complex() {
        return vec![];
    }
    let parts = examples(m, n);
    let whole = |(x, padding): (Tensor, Vec<i64>)| {
        let mut sizes = Dims::from_slice(x.sizes());
        sizes.iter_mut().rev().zip(padding.chunks_exact(2)).for_each(|(size, pair)| *size += pair[0] + pair[1]);
        sample![m.any(&sizes), x, padding]
    };
    parts.into_iter().map(whole).collect()
}

/// A padding and its gradient, which are each other's.
macro_rules! paddings {
    ($($(#[doc = $doc:expr])* $name:ident, $backward:ident($padding:ident): $mode:ty, $n:literal, $plan:path, $backward_plan:path;
        $schema:literal $(, Out OUT: $out:literal)?; $backward_schema:literal $(, Out OUT: $grad_input:literal)?;)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: $schema $(, Out OUT: $out)?;
            Body::Structured { plan: plan!($plan; x, padding), run: run!(run::<$mode>; x, padding) };
            derivative: backward! {
                self_(g, self_: Tensor, $padding: Dims) => $backward::OP.call(&[g.into(), (&self_).into(), (&$padding).into()])?.one()?,
            };
            forward: Forward::Linear;
            samples: |m| samples(m, $n);
        }
        op! {
            #[doc = "The gradient of the padding: what every element was copied to, added up."]
            $backward: $backward_schema $(, Out OUT: $grad_input)?;
            Body::Structured { plan: plan!($backward_plan; g, x, padding), run: run!(backward_run::<$mode>; g, x, padding) };
            derivative: backward! {
                grad_output(g, $padding: Dims) => $name::OP.call(&[g.into(), (&$padding).into()])?.one()?,
                self_(g) => g.zeros_like()?,
            };
            forward: Forward::FromBackward;
            samples: |m| backward_samples(m, $n);
            ulp: 4.0;
        }
    )*
        /// All entries of this file.
        pub static OPS: &[&[&Op]] = &[$($name::ALL, $backward::ALL),*];
    };
}
paddings! {
    /// Mirrors the last dim at its ends.
    reflection_pad1d, reflection_pad1d_backward(padding): Reflect, 1, bordered_plan::<Reflect, 1>, bordered_backward_plan::<Reflect, 1>;
    "reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
    Out OUT: "reflection_pad1d.out(Tensor self, SymInt[2] padding, *, Tensor(a!) out) -> Tensor(a!)";
    "reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor",
    Out OUT: "reflection_pad1d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[2] padding, *, Tensor(a!) grad_input) -> Tensor(a!)";
    /// Mirrors the last two dims at their ends.
    reflection_pad2d, reflection_pad2d_backward(padding): Reflect, 2, bordered_plan::<Reflect, 2>, bordered_backward_plan::<Reflect, 2>;
    "reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
    Out OUT: "reflection_pad2d.out(Tensor self, SymInt[4] padding, *, Tensor(a!) out) -> Tensor(a!)";
    "reflection_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor",
    Out OUT: "reflection_pad2d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[4] padding, *, Tensor(a!) grad_input) -> Tensor(a!)";
    /// Mirrors the last three dims at their ends.
    reflection_pad3d, reflection_pad3d_backward(padding): Reflect, 3, bordered_plan::<Reflect, 3>, bordered_backward_plan::<Reflect, 3>;
    "reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
    Out OUT: "reflection_pad3d.out(Tensor self, SymInt[6] padding, *, Tensor(a!) out) -> Tensor(a!)";
    "reflection_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor",
    Out OUT: "reflection_pad3d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[6] padding, *, Tensor(a!) grad_input) -> Tensor(a!)";
    /// Repeats the ends of the last dim.
    replication_pad1d, replication_pad1d_backward(padding): Replicate, 1, bordered_plan::<Replicate, 1>, bordered_backward_plan::<Replicate, 1>;
    "replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
    Out OUT: "replication_pad1d.out(Tensor self, SymInt[2] padding, *, Tensor(a!) out) -> Tensor(a!)";
    "replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor",
    Out OUT: "replication_pad1d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[2] padding, *, Tensor(a!) grad_input) -> Tensor(a!)";
    /// Repeats the ends of the last two dims.
    replication_pad2d, replication_pad2d_backward(padding): Replicate, 2, bordered_plan::<Replicate, 2>, bordered_backward_plan::<Replicate, 2>;
    "replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
    Out OUT: "replication_pad2d.out(Tensor self, SymInt[4] padding, *, Tensor(a!) out) -> Tensor(a!)";
    "replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor",
    Out OUT: "replication_pad2d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[4] padding, *, Tensor(a!) grad_input) -> Tensor(a!)";
    /// Repeats the ends of the last three dims.
    replication_pad3d, replication_pad3d_backward(padding): Replicate, 3, bordered_plan::<Replicate, 3>, bordered_backward_plan::<Replicate, 3>;
    "replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
    Out OUT: "replication_pad3d.out(Tensor self, SymInt[6] padding, *, Tensor(a!) out) -> Tensor(a!)";
    "replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor",
    Out OUT: "replication_pad3d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[6] padding, *, Tensor(a!) grad_input) -> Tensor(a!)";
    /// Pads the last dims, up to three, as if they went round.
    _pad_circular, _pad_circular_backward(pad): Circular, 2, circular_plan, circular_backward_plan;
    "_pad_circular(Tensor self, SymInt[] pad) -> Tensor";
    "_pad_circular_backward(Tensor grad_output, Tensor self, SymInt[] pad) -> Tensor";
}
