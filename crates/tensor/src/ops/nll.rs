//! The negative log-likelihood of classes, by one kernel. `reduction` is 0 for none, 1 for the mean, 2 for the sum.

use super::loss::{check_constant, class_dim};
use crate::autograd::Forward;
use crate::dims::Dims;
use crate::{Body, DType, Element, Error, Op, OwnedValue, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::parallel::parallel_for;
use flambeau_base::storage::LockSet;
use parking_lot::Mutex;
use std::ops::Range;

/// Targets of one piece of work.
const PIECE: usize = 4096;

fn check(x: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    if x.dim() == 0 {
        return Err(Error::value("Expected 1 or more dimensions (got 0)"));
    }
    let (sizes, batch) = (target.sizes(), |t: &Tensor| t.sizes().first().copied().unwrap_or(0));
    match x.dim() {
        1 | 2 => ensure!(target.dim() <= 1, "0D or 1D target tensor expected, multi-target not supported"),
        4 => ensure!(
            target.dim() == 3,
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
            target.dim()
        ),
        _ => {}
    }
    if x.dim() > 1 && batch(x) != batch(target) {
        return Err(Error::value(format!(
            "Expected input batch_size ({}) to match target batch_size ({}).",
            batch(x),
            batch(target)
        )));
    }
    ensure!(
        matches!(target.dtype(), DType::I64 | DType::U8),
        "expected target dtype to be Long or Byte, but got {}",
        target.dtype().scalar_type_name()
    );
    let mut expected = Dims::from_slice(x.sizes());
    let classes = expected.remove(class_dim(x) as usize);
    if sizes != &expected[..] {
        return Err(match x.dim() {
            1 => Error::value(format!("For 1D input, 1D target must have size 1, but got target size: {}", batch(target))),
            4 => Error::runtime(format!("size mismatch (got input: {:?} , target: {sizes:?}", x.sizes())),
            _ => Error::runtime(format!("Expected target size {:?}, got {sizes:?}", &expected[..])),
        });
    }
    if let Some(w) = weight {
        ensure!(
            w.dim() == 1 && w.numel() == classes,
            "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {:?}",
            w.sizes()
        );
    }
    Ok(())
}

fn plan(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64, _ignore_index: i64) -> Result<Vec<TensorSpec>> {
    check(x, target, weight)?;
    if !x.dtype().is_floating_point() {
        return Err(super::reduce::not_for("nll_loss_out_frame", x.dtype()));
    }
    let sizes: &[i64] = if reduction == 0 { target.sizes() } else { &[] };
    Ok(vec![TensorSpec::like(sizes, x), TensorSpec::like(&[][..], x)])
}

/// Where the targets' elements lie: (outer, classes, inner), and the strides of these.
struct Places {
    classes: i64,
    inner: usize,
    strides: [isize; 3],
}

impl Places {
    /// Of a tensor whose dims after the classes are like one.
    fn of(x: &Tensor) -> Places {
        let d = class_dim(x) as usize;
        let inner = x.sizes()[d + 1..].iter().product::<i64>() as usize;
        let stride = |i: usize| x.strides().get(i).map_or(0, |s| *s as isize);
        let innermost = if inner > 1 { stride(x.dim() - 1) } else { 0 };
        Places { classes: x.sizes()[d], inner, strides: [if d == 0 { 0 } else { stride(0) }, stride(d), innermost] }
    }

    /// The element of a class for target number `i`.
    #[inline(always)]
    fn at(&self, i: usize, class: i64) -> isize {
        let [outer, along, inner] = self.strides;
        (i / self.inner) as isize * outer + class as isize * along + (i % self.inner) as isize * inner
    }
}

/// The tensor itself if its dims after the classes are like one, else a copy.
fn regular(x: &Tensor) -> Result<Tensor> {
    let from = class_dim(x) as usize + 1;
    let mut next = None;
    for (size, stride) in x.sizes()[from..].iter().zip(&x.strides()[from..]).rev().filter(|(n, _)| **n != 1) {
        if next.is_some_and(|n| n != *stride) {
            return x.contiguous();
        }
        next = Some(size * stride);
    }
    // The innermost stride is read off the last dim.
    if x.sizes().last() == Some(&1) && x.dim() > from { x.contiguous() } else { Ok(x.clone()) }
}

/// The targets as `i64`, and the weights in the input's dtype, row-major.
fn operands(x: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<(Tensor, Option<Tensor>)> {
    let row_major = |t: &Tensor, dtype: DType| match t.dtype() == dtype && t.is_contiguous() {
        true => Ok(t.clone()),
        false => t.to_dtype(dtype)?.contiguous(),
    };
    let weight = weight.map(|w| row_major(w, x.dtype())).transpose()?;
    Ok((row_major(target, DType::I64)?, weight))
}

/// The sums of losses and weights of a piece of the targets.
type Part = Result<(f64, f64)>;

/// Sums side by side: an addition need not wait for the one before it.
const LANES: usize = 8;

/// Log-probabilities, whose elements are at `places`, their target classes, and the weights of the classes.
struct Losses<'a, T> {
    log_p: *const T,
    places: &'a Places,
    classes: &'a [i64],
    weights: Option<&'a [T]>,
    ignore_index: i64,
}

// SAFETY: what they point to is only read.
unsafe impl<T: Sync> Sync for Losses<'_, T> {}

impl<T: Element> Losses<'_, T> {
    /// The sums over a range of the targets; if there is an output, each loss goes to its place there.
    ///
    /// # Safety
    /// The log-probabilities must be valid for every target and class, the output for every target.
    unsafe fn part(&self, range: Range<usize>, out: Option<*mut T>) -> Part {
        let [outer, along, inner] = self.places.strides;
        // The place of the range's first target, from which the others follow.
        let mut column = range.start % self.places.inner;
        let mut at = self.places.at(range.start, 0);
        let (mut losses, mut weights) = ([0.0; LANES], [0.0; LANES]);
        for i in range {
            let class = self.classes[i];
            let (mut loss, mut weight) = (0.0, 0.0);
            if class != self.ignore_index {
                if class < 0 || class >= self.places.classes {
                    return Err(out_of_bounds(class));
                }
                weight = self.weights.map_or(1.0, |w| w[class as usize].to_f64());
                // SAFETY: an element of the input.
                let log_p = unsafe { self.log_p.offset(at + class as isize * along).read() };
                loss = -weight * log_p.to_f64();
            }
            losses[i % LANES] += loss;
            weights[i % LANES] += weight;
            if let Some(out) = out {
                // SAFETY: an element of the output.
                unsafe { out.add(i).write(T::from_f64(loss)) };
            }
            column += 1;
            at += inner;
            if column == self.places.inner {
                column = 0;
                at += outer - inner * self.places.inner as isize;
            }
        }
        Ok((losses.iter().sum(), weights.iter().sum()))
    }
}

fn out_of_bounds(class: i64) -> Error {
    Error::index(format!("Target {class} is out of bounds."))
}

fn run(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    outs: &[Tensor],
) -> Result<()> {
    let x = &regular(x)?;
    let (target, weight) = operands(x, target, weight)?;
    let (n, layout) = (target.numel() as usize, Places::of(x));
    let losses = if reduction == 0 { Tensor::fresh(x.device(), x.dtype(), Dims::from_slice(target.sizes()))? } else { outs[0].clone() };
    crate::dispatch_dtype!(x.dtype(), T in [floats] => {
        let read = [Some(x), Some(&target), weight.as_ref()].into_iter().flatten().map(|t| (t.storage(), false));
        let written = [&losses, &outs[0], &outs[1]].map(|t| (t.storage(), true));
        let _locks = LockSet::new(read.chain(written))?;
        let to = losses.data_ptr().cast::<T>() as usize;
        // SAFETY: contiguous, of these lengths, and locked.
        let classes = unsafe { std::slice::from_raw_parts(target.data_ptr().cast::<i64>(), n) };
        let weights = weight.as_ref().map(|w| {
            // SAFETY: as above.
            unsafe { std::slice::from_raw_parts(w.data_ptr().cast::<T>(), layout.classes as usize) }
        });
        let given = Losses { log_p: x.data_ptr().cast::<T>(), places: &layout, classes, weights, ignore_index };
        let (loss, total) = pieces(n, &|range| {
            // SAFETY: an element for every target and class, and the results' if they are asked for.
            unsafe { given.part(range, (reduction == 0).then_some(to as *mut T)) }
        })?;
        let number = |to: usize, x: f64| {
            // SAFETY: the one element of an output, which is of the input's dtype and locked.
            unsafe { outs[to].data_ptr().cast::<T>().write(T::from_f64(x)) };
        };
        match reduction {
            0 => number(1, 0.0),
            _ => {
                number(0, if reduction == 1 { loss / total } else { loss });
                number(1, total);
            }
        }
    }; else ());
    if reduction == 0 { outs[0].copy_(&losses).map(drop) } else { Ok(()) }
}

/// The sums over all targets: those of the pieces, which `part` computes, in order.
fn pieces(n: usize, part: &(dyn Fn(Range<usize>) -> Part + Sync)) -> Part {
    if n == 0 {
        return Ok((0.0, 0.0));
    }
    if n <= PIECE {
        return part(0..n);
    }
    let parts: Mutex<Vec<(usize, Part)>> = Mutex::new(Vec::new());
    parallel_for(n.div_ceil(PIECE), 1, &|pieces| {
        for piece in pieces {
            let sum = part(piece * PIECE..n.min((piece + 1) * PIECE));
            parts.lock().push((piece, sum));
        }
    });
    let mut parts = parts.into_inner();
    parts.sort_by_key(|(piece, _)| *piece);
    parts.into_iter().try_fold((0.0, 0.0), |sums, (_, part)| part.map(|(loss, weight)| (sums.0 + loss, sums.1 + weight)))
}

fn backward_plan(
    g: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    _ignore_index: i64,
    total_weight: &Tensor,
) -> Result<TensorSpec> {
    check(x, target, weight)?;
    ensure!(
        total_weight.numel() == 1,
        "expected total_weight to be a  single element tensor, got: {:?} ({} elements)",
        total_weight.sizes(),
        total_weight.numel()
    );
    let (given, wanted) = (g.sizes(), target.sizes());
    match (reduction, wanted.len()) {
        (0, 1) => ensure!(
            given == wanted,
            "Expected a tensor of dimension 1 and tensor.size[0] == {} but got: dimension {} and tensor.size[0] = {}",
            wanted[0],
            given.len(),
            given.first().unwrap_or(&1)
        ),
        (0, n) => ensure!(
            given == wanted,
            "grad_output must have same dimension as target ({n}) but got dimension: {given:?}"
        ),
        _ => ensure!(g.numel() == 1, "Expected a single element grad_output tensor, but got: {given:?}"),
    }
    ensure!(
        g.dtype() == x.dtype(),
        "expected scalar type {} but found {}",
        x.dtype().scalar_type_name(),
        g.dtype().scalar_type_name()
    );
    Ok(TensorSpec::like(x.sizes(), x))
}

fn backward_run(
    g: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
    outs: &[Tensor],
) -> Result<()> {
    let (target, weight) = operands(x, target, weight)?;
    let n = target.numel() as usize;
    let g = match reduction {
        0 => g.contiguous()?,
        1 => g.div(total_weight)?.to_dtype(x.dtype())?,
        _ => g.clone(),
    };
    {
        let _lock = LockSet::new([(target.storage(), false)])?;
        // SAFETY: contiguous, of this length, and locked.
        let classes = unsafe { std::slice::from_raw_parts(target.data_ptr().cast::<i64>(), n) };
        let count = x.sizes()[class_dim(x) as usize];
        if let Some(class) = classes.iter().find(|c| **c != ignore_index && !(0..count).contains(*c)) {
            return Err(out_of_bounds(*class));
        }
    }
    let direct = outs[0].is_contiguous();
    let out = if direct { outs[0].zero_()? } else { Tensor::zeros(x.sizes(), (x.dtype(), x.device()))? };
    let layout = Places::of(&out);
    crate::dispatch_dtype!(x.dtype(), T in [floats] => {
        let read = [Some(&g), Some(&target), weight.as_ref()].into_iter().flatten().map(|t| (t.storage(), false));
        let _locks = LockSet::of_many(read.chain([(out.storage(), true)]).collect())?;
        let (from, to) = (g.data_ptr().cast::<T>() as usize, out.data_ptr().cast::<T>() as usize);
        // SAFETY: contiguous, of these lengths, and locked.
        let classes = unsafe { std::slice::from_raw_parts(target.data_ptr().cast::<i64>(), n) };
        let weights = weight.as_ref().map(|w| {
            // SAFETY: as above.
            unsafe { std::slice::from_raw_parts(w.data_ptr().cast::<T>(), layout.classes as usize) }
        });
        // Another thread may have written to the targets since they were looked at.
        let fits = |class: i64| class != ignore_index && (0..layout.classes).contains(&class);
        parallel_for(n, PIECE, &|range| {
            for i in range.filter(|i| fits(classes[*i])) {
                let class = classes[i];
                let weight = weights.map_or(1.0, |w| w[class as usize].to_f64());
                // SAFETY: one gradient for all, or one each; elements of the result that no other target has.
                unsafe {
                    let g = (from as *const T).add(if reduction == 0 { i } else { 0 }).read().to_f64();
                    (to as *mut T).offset(layout.at(i, class)).write(T::from_f64(-weight * g));
                }
            }
        });
    }; else ());
    if direct { Ok(()) } else { outs[0].copy_(&out).map(drop) }
}

/// Log-probabilities of four classes for three targets, by the sizes of further dims. (Weights have no derivative.)
fn examples(m: &mut crate::samples::Maker, inner: &[i64]) -> Vec<(Tensor, Tensor, OwnedValue, i64, i64)> {
    if !m.dtype.is_floating_point() {
        return vec![];
    }
    let mut one = |weighted: bool, reduction, ignored| {
        let (x, target) = (m.any(&[&[3i64, 4][..], inner].concat()), m.indices(&[&[3i64][..], inner].concat(), 4));
        (x, target, if weighted { OwnedValue::Tensor(m.uniform_of(DType::I64, &[4], 1.0, 4.0)) } else { OwnedValue::None }, reduction, ignored)
    };
    vec![one(false, 1, -100), one(true, 1, 2), one(true, 0, 1), one(false, 2, 0)]
}

/// The kernels of plain and of spatial classes, which differ by name alone.
macro_rules! kernels {
    ($($forward:ident $schema:literal $out:literal, $backward:ident $backward_schema:literal $grad_input:literal, $inner:expr;)*) => { $(
        op! {
            /// The negative log-probabilities of target classes, weighted and reduced, and the sum of the weights.
            $forward: $schema, Out OUT: $out;
            Body::Structured { plan: plan!(plan; x, target, weight, reduction, ignored), run: run!(run; x, target, weight, reduction, ignored) };
            derivative: backward! {
                self_(g, self_: Tensor, target: Tensor, weight: Option<Tensor>, reduction: i64, ignore_index: i64, result1: Tensor) =>
                    $backward::OP.call(&[g.into(), (&self_).into(), (&target).into(), weight.as_ref().into(), reduction.into(), ignore_index.into(), (&result1).into()])?.one()?,
            };
            samples: |m| examples(m, $inner).into_iter().map(|(x, t, w, r, i)| sample![x, t, w, r, i]).collect();
            ulp: 8.0;
        }
        op! {
            /// The gradient of the negative log-likelihood: where the targets are.
            $backward: $backward_schema, Out OUT: $grad_input;
            Body::Structured {
                plan: plan!(backward_plan; g, x, target, weight, reduction, ignored, total),
                run: run!(backward_run; g, x, target, weight, reduction, ignored, total),
            };
            derivative: backward! {
                grad_output(g, target: Tensor, weight: Option<Tensor>, reduction: i64, ignore_index: i64, total_weight: Tensor) => {
                    // As the loss itself, but with the total that was given.
                    let how = if reduction == 1 { 2 } else { reduction };
                    let sum = $forward::OP.call(&[g.into(), (&target).into(), weight.as_ref().into(), how.into(), ignore_index.into()])?;
                    let sum = sum.list()?.swap_remove(0);
                    if reduction == 1 { sum.div(&total_weight)? } else { sum }
                },
                self_(g) => g.zeros_like()?,
            };
            forward: Forward::FromBackward;
            samples: |m| {
                let parts = examples(m, $inner);
                let whole = |(x, t, w, r, i): (Tensor, Tensor, OwnedValue, i64, i64)| {
                    let g = if r == 0 { m.any(t.sizes()) } else { m.any(&[]) };
                    sample![g, x, t, w, r, i, m.uniform_of(DType::I64, &[], 1.0, 4.0)]
                };
                parts.into_iter().map(whole).collect()
            };
        }
    )* };
}
kernels! {
    nll_loss_forward
        "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)"
        "nll_loss_forward.output(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, *, Tensor(a!) output, Tensor(b!) total_weight) -> (Tensor(a!), Tensor(b!))",
    nll_loss_backward
        "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor"
        "nll_loss_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight, *, Tensor(a!) grad_input) -> Tensor(a!)",
        &[];
    nll_loss2d_forward
        "nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)"
        "nll_loss2d_forward.output(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, *, Tensor(a!) output, Tensor(b!) total_weight) -> (Tensor(a!), Tensor(b!))",
    nll_loss2d_backward
        "nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor"
        "nll_loss2d_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight, *, Tensor(a!) grad_input) -> Tensor(a!)",
        &[2, 3];
}

fn nll_any(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: i64, ignore_index: i64) -> Result<Tensor> {
    let forward = if x.dim() < 3 { &nll_loss_forward::OP } else { &nll_loss2d_forward::OP };
    if weight.is_some() {
        check_constant(forward.name(), "weight", weight)?;
    }
    // The class of one sample may be a vector of one.
    let target = if x.dim() == 1 && target.sizes() == [1] { &target.select(0, 0)? } else { target };
    forward.call(&[x.into(), target.into(), weight.into(), reduction.into(), ignore_index.into()])?.list().map(|mut l| l.swap_remove(0))
}

macro_rules! forms {
    ($($name:ident $schema:literal, $sizes:expr;)*) => { $(
        op! {
            /// The negative of the log-probability of each target class: input (N, C, ...), target (N, ...). Targets equal
            /// to `ignore_index` count nothing; the mean is weighted.
            $name: $schema;
            Body::Composite(kernel!(nll_any; x, target, weight, reduction, ignore_index));
            samples: |m| examples(m, $sizes).into_iter().map(|(x, t, w, r, i)| sample![x, t, w, r, i]).collect();
            ulp: 8.0;
        }
    )* };
}
forms! {
    nll_loss "nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor", &[];
    nll_loss2d "nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor", &[2, 3];
    nll_loss_nd "nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor", &[2];
}

impl Tensor {
    /// The negative of the log-probability of each target class: this is (N, C, ...), the target (N, ...).
    ///
    /// # Errors
    /// When shapes do not fit or a target is out of range.
    pub fn nll_loss(&self, target: &Tensor, weight: Option<&Tensor>, reduction: i64, ignore_index: i64) -> Result<Tensor> {
        nll_any(self, target, weight, reduction, ignore_index)
    }
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    nll_loss2d::ALL,
    nll_loss2d_backward::ALL,
    nll_loss2d_forward::ALL,
    nll_loss::ALL,
    nll_loss_backward::ALL,
    nll_loss_forward::ALL,
    nll_loss_nd::ALL,
];
