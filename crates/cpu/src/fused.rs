//! Update rules of optimisers: parameters with their gradients and states, each read and written once.
//!
//! A rule is written as loops over a block of elements that lies in the first cache, the commonest ones also as one loop over
//! tensors where they stand. It does the operations of the
//! operators that it stands for, in their order and with their roundings, so that its single and double precision
//! results are theirs, bit for bit. Halves are computed in `f32` and rounded at the end.

use crate::buffer::aligned;
use crate::copy::{CastStrip, cast_strip};
use crate::math::{Float, Isa, Kernel, Number, entry, level};
use flambeau_base::DType;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;

/// Numbers that a rule is given with each parameter.
pub const NUMBERS: usize = 10;

/// Blocks of a parameter's elements: itself, its gradient, and up to three of state.
pub const TENSORS: usize = 5;

/// Elements of a block: five of them in double precision fill a quarter of a first-level cache of 48 KiB.
const BLOCK: usize = 256;

/// Which rule, with the meaning of its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// State: the momentum buffer or nothing. Numbers: penalty, momentum, the gradient's share in the buffer, whether
    /// Nesterov's, whether the buffer is new, minus the rate.
    Sgd,
    /// State: averages of the gradient and of its square, the largest square or nothing. Numbers: what is left of the
    /// parameter (decoupled decay), penalty, the gradient's weight, what is left of the square, the new square's weight,
    /// the divisor of the root, `eps`, minus the rate.
    Adam,
    /// State: the sum of squares. Numbers: penalty, `eps`, minus the rate.
    Adagrad,
    /// State: the average of squares, then the average gradient if centred, then the momentum buffer. Numbers: penalty,
    /// what is left of the square, the new square's weight, whether centred, `eps`, momentum, minus the rate.
    RmsProp,
    /// State: the averages of squares of gradients and of changes. Numbers: penalty, what is left of the squares, the new
    /// square's weight, `eps`, minus the rate.
    Adadelta,
    /// State: the average gradient and the largest. Numbers: penalty, the gradient's weight, what is left of the largest,
    /// `eps`, minus the rate.
    Adamax,
    /// State: averages of the gradient and of its square. Numbers: as Adam's up to `eps`, with the square's divisor in
    /// place of the root's, then minus the rates of the gradient and of its average.
    NAdam,
    /// State: averages of the gradient and of its square. Numbers: as Adam's up to the new square's weight, then the
    /// divisor of the average, the rate, `eps`, the numerator of the adaptive part, and its factor (zero: there is none).
    RAdam,
    /// State: the last gradient and the step sizes. Numbers: the factors of steps that shrink and grow, the bounds.
    Rprop,
    /// State: the average of the parameter. Numbers: penalty, what is left of the parameter, minus the rate, the
    /// parameter's weight in the average.
    Asgd,
}

/// What is done to a gradient before a rule sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preparation {
    /// It is divided by this, also where it stands.
    pub divisor: Option<f64>,
    /// Its sign is changed.
    pub negate: bool,
}

/// One parameter: `len` elements of each tensor, in the same order and without gaps.
#[derive(Clone, Copy)]
pub struct Item {
    /// The parameter, its gradient and its states; null where there is none.
    pub data: [*mut u8; TENSORS],
    /// Their dtype, which is floating.
    pub dtype: DType,
    /// How many elements.
    pub len: usize,
    /// What the rule is given.
    pub numbers: [f64; NUMBERS],
}

// SAFETY: the pointers are only followed under the contract of `update`.
unsafe impl Sync for Item {}

/// Applies a rule to every parameter of a list, in one parallel region.
///
/// # Safety
/// The items' memory must be valid for reads and writes (the gradient's for reads, if it is not divided). With `apart`,
/// nothing that is written may overlap anything else; otherwise the items are done one after the other.
pub unsafe fn update(rule: Rule, prepare: Preparation, items: &[Item], apart: bool) {
    let update: unsafe fn(Preparation, &[Item], bool) = match rule {
        Rule::Sgd => update_by::<Sgd>,
        Rule::Adam => update_by::<Adam>,
        Rule::Adagrad => update_by::<Adagrad>,
        Rule::RmsProp => update_by::<RmsProp>,
        Rule::Adadelta => update_by::<Adadelta>,
        Rule::Adamax => update_by::<Adamax>,
        Rule::NAdam => update_by::<NAdam>,
        Rule::RAdam => update_by::<RAdam>,
        Rule::Rprop => update_by::<Rprop>,
        Rule::Asgd => update_by::<Asgd>,
    };
    // SAFETY: the caller's contract.
    unsafe { update(prepare, items, apart) }
}

/// # Safety
/// As [`update`].
unsafe fn update_by<R: Step>(prepare: Preparation, items: &[Item], apart: bool) {
    let (single, double) = (entry::<Update<R, f32>>(level()), entry::<Update<R, f64>>(level()));
    // Where each item's blocks begin.
    let mut starts = Vec::with_capacity(items.len() + 1);
    let mut blocks = 0;
    for item in items {
        starts.push(blocks);
        blocks += item.len.div_ceil(BLOCK);
    }
    starts.push(blocks);
    let run = |range: std::ops::Range<usize>| {
        let mut i = starts.partition_point(|&s| s <= range.start) - 1;
        let mut at = range.start;
        while at < range.end {
            let end = starts[i + 1].min(range.end);
            if at < end {
                let item = &items[i];
                let part = (at - starts[i]) * BLOCK..((end - starts[i]) * BLOCK).min(item.len);
                let run = if item.dtype == DType::F64 { double } else { single };
                // SAFETY: the caller's contract; the parts are apart, and within the item.
                unsafe { run((item, prepare, part.start, part.end)) };
                at = end;
            }
            i += 1;
        }
    };
    match apart {
        true => parallel_for(blocks, GRAIN / BLOCK, &run),
        false if blocks > 0 => run(0..blocks),
        false => {}
    }
}

/// A block of one tensor.
type Block<T> = [T; BLOCK];

/// A rule: updates the first `n` elements of blocks of the parameter, its gradient and its states, `count` blocks in all.
trait Step: 'static {
    fn step<I: Isa, T: Float>(n: usize, c: &[T; NUMBERS], count: usize, blocks: [&mut Block<T>; TENSORS]);
    /// Updates any number of elements at once, of the parameter by its gradient and states, if the rule has a way that leaves
    /// the gradient alone with these numbers. Gives whether it did; the bits are those of [`Step::step`].
    #[inline(always)]
    fn whole<I: Isa, T: Float>(_: &[T; NUMBERS], _: usize, _: &mut [T], _: &[T], _: [&mut [T]; TENSORS - 2]) -> bool {
        false
    }
}

struct Update<R, T>(PhantomData<(R, T)>);

impl<R: Step, T: Float> Kernel for Update<R, T> {
    /// A parameter, and the elements of it from one to before another.
    type Args = (*const Item, Preparation, usize, usize);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((item, prepare, start, end): Self::Args) {
        // SAFETY: the caller's item.
        let item = unsafe { &*item };
        let count = item.data.iter().position(|d| d.is_null()).unwrap_or(TENSORS);
        let numbers = item.numbers.map(T::from_f64);
        let (size, direct) = (item.dtype.size(), item.dtype == T::DTYPE);
        let (load, store) = (cast_strip(item.dtype, T::DTYPE), cast_strip(T::DTYPE, item.dtype));
        let mut scratch = aligned([[T::ZERO; BLOCK]; TENSORS]);
        // Whole blocks of the computation's dtype are updated where they stand; the gradient is never written by a rule.
        let aligned = item.data[..count].iter().all(|d| d.cast::<T>().is_aligned());
        let in_place = direct && aligned && is_apart(&item.data[..count], item.len * size);
        let plain = prepare.divisor.is_none() && !prepare.negate;
        if const { !I::COMPACT } && in_place && plain && FastPath::OptimizerWhole.is_on() {
            let data = item.data.map(|d| d.cast::<T>().wrapping_add(start));
            let len = |k: usize| if k < count { end - start } else { 0 };
            // SAFETY: these elements of the tensors, aligned, apart from one another, and nobody writes to the gradient. (An
            // empty slice of what is missing begins at an aligned address that is not null.)
            let (p, g, states) = unsafe {
                let written = |k: usize| match len(k) {
                    0 => &mut [],
                    n => std::slice::from_raw_parts_mut(data[k], n),
                };
                let g: &[T] = if len(1) == 0 { &[] } else { std::slice::from_raw_parts(data[1], len(1)) };
                (written(0), g, [written(2), written(3), written(4)])
            };
            if R::whole::<I, T>(&numbers, count, p, g, states) {
                return;
            }
        }
        let mut at = start;
        while at < end {
            let n = (end - at).min(BLOCK);
            let whole = in_place && n == BLOCK;
            for (k, (block, data)) in scratch.iter_mut().zip(item.data).enumerate().take(count) {
                if !whole || k == 1 {
                    let to = block.as_mut_ptr().cast();
                    // SAFETY: `n` elements of the tensor, which the block has room for.
                    unsafe { copy(data.add(at * size), size, to, size_of::<T>(), n, direct, load) };
                }
            }
            let gradient = &mut scratch[1];
            if let Some(divisor) = prepare.divisor {
                let divisor = T::from_f64(divisor);
                for g in &mut gradient[..n] {
                    *g /= divisor;
                }
                let from = gradient.as_mut_ptr().cast();
                // SAFETY: as above, to be written.
                unsafe { copy(from, size_of::<T>(), item.data[1].add(at * size), size, n, direct, store) };
            }
            if prepare.negate {
                for g in &mut gradient[..n] {
                    *g = -*g;
                }
            }
            let mut blocks = scratch.each_mut();
            if whole {
                for (k, (block, data)) in blocks.iter_mut().zip(item.data).enumerate().take(count) {
                    if k != 1 {
                        // SAFETY: a whole block of the tensor, aligned, and apart from the item's other tensors.
                        *block = unsafe { &mut *data.add(at * size).cast::<Block<T>>() };
                    }
                }
            }
            R::step::<I, T>(n, &numbers, count, blocks);
            for (k, (block, data)) in scratch.iter_mut().zip(item.data).enumerate().take(count) {
                if k != 1 && !whole {
                    let from = block.as_mut_ptr().cast();
                    // SAFETY: as above, to be written.
                    unsafe { copy(from, size_of::<T>(), data.add(at * size), size, n, direct, store) };
                }
            }
            at += n;
        }
    }
}

/// Whether blocks of so many bytes have no memory in common.
fn is_apart(data: &[*mut u8], bytes: usize) -> bool {
    let touches = |a: &*mut u8, b: &*mut u8| (*a as usize).abs_diff(*b as usize) < bytes;
    data.iter().enumerate().all(|(i, a)| !data[..i].iter().any(|b| touches(a, b)))
}

/// Moves `n` elements, of these sizes, or converts them by `strip`.
///
/// # Safety
/// They must be valid for reads and for writes.
#[inline(always)]
unsafe fn copy(from: *mut u8, size: usize, to: *mut u8, to_size: usize, n: usize, direct: bool, strip: CastStrip) {
    // SAFETY: the caller's contract.
    unsafe {
        match direct {
            true => std::ptr::copy_nonoverlapping(from, to, n * size),
            false => strip(from, size as isize, to, to_size as isize, n),
        }
    }
}

/// `x + value * a * b`, as `addcmul`.
#[inline(always)]
fn addcmul<T: Float>(x: T, a: T, b: T, value: T) -> T {
    x + value * a * b
}

/// `x + value * a / b`, as `addcdiv`.
#[inline(always)]
fn addcdiv<T: Float>(x: T, a: T, b: T, value: T) -> T {
    x + value * a / b
}

/// The share `weight` of the way from `x` to `end`, as `lerp`.
#[inline(always)]
fn lerp<I: Isa, T: Float>(x: T, end: T, weight: T) -> T {
    let near = Float::abs::<I>(weight) < T::HALF;
    let (from, by) = (if near { x } else { end }, if near { weight } else { weight - T::ONE });
    from + by * (end - x)
}

/// Decay at once and penalty, where there are any.
#[inline(always)]
fn decay<T: Float>(n: usize, left: T, penalty: T, p: &mut Block<T>, g: &mut Block<T>) {
    if left != T::ONE {
        for p in &mut p[..n] {
            *p *= left;
        }
    }
    if penalty != T::ZERO {
        for (g, p) in g[..n].iter_mut().zip(&p[..n]) {
            *g += *p * penalty;
        }
    }
}

/// The running averages of a gradient and of its square.
#[inline(always)]
fn average<I: Isa, T: Float>(
    n: usize,
    [weight, left, new]: [T; 3],
    g: &Block<T>,
    mean: &mut Block<T>,
    square: &mut Block<T>,
) {
    for i in 0..n {
        mean[i] = lerp::<I, T>(mean[i], g[i], weight);
        square[i] = addcmul(square[i] * left, g[i], g[i], new);
    }
}

struct Sgd;
impl Step for Sgd {
    #[inline(always)]
    fn step<I: Isa, T: Float>(n: usize, c: &[T; NUMBERS], count: usize, [p, g, buffer, ..]: [&mut Block<T>; TENSORS]) {
        let n = n.min(BLOCK);
        let [penalty, momentum, share, nesterov, new, rate, ..] = *c;
        decay(n, T::ONE, penalty, p, g);
        if count > 2 {
            match new != T::ZERO {
                true => buffer[..n].copy_from_slice(&g[..n]),
                false => {
                    for i in 0..n {
                        buffer[i] = buffer[i] * momentum + g[i] * share;
                    }
                }
            }
            match nesterov != T::ZERO {
                true => {
                    for i in 0..n {
                        g[i] += buffer[i] * momentum;
                    }
                }
                false => g[..n].copy_from_slice(&buffer[..n]),
            }
        }
        for i in 0..n {
            p[i] += g[i] * rate;
        }
    }
    #[inline(always)]
    fn whole<I: Isa, T: Float>(
        c: &[T; NUMBERS],
        count: usize,
        p: &mut [T],
        g: &[T],
        [buffer, ..]: [&mut [T]; TENSORS - 2],
    ) -> bool {
        let [penalty, momentum, share, nesterov, new, rate, ..] = *c;
        let n = p.len();
        let g = &g[..n];
        if penalty != T::ZERO || nesterov != T::ZERO || new != T::ZERO {
            return false;
        }
        if count > 2 {
            let buffer = &mut buffer[..n];
            for i in 0..n {
                buffer[i] = buffer[i] * momentum + g[i] * share;
                p[i] += buffer[i] * rate;
            }
        } else {
            for i in 0..n {
                p[i] += g[i] * rate;
            }
        }
        true
    }
}

struct Adam;
impl Step for Adam {
    #[inline(always)]
    fn step<I: Isa, T: Float>(
        n: usize,
        c: &[T; NUMBERS],
        count: usize,
        [p, g, mean, square, top]: [&mut Block<T>; TENSORS],
    ) {
        let n = n.min(BLOCK);
        let [left, penalty, ..] = *c;
        decay(n, left, penalty, p, g);
        let mut c = *c;
        (c[0], c[1]) = (T::ONE, T::ZERO);
        let states = [&mut mean[..n], &mut square[..n], &mut top[..n]];
        let done = Self::whole::<I, T>(&c, count, &mut p[..n], &g[..n], states);
        debug_assert!(done, "Adam has two states at least");
    }
    #[inline(always)]
    fn whole<I: Isa, T: Float>(
        c: &[T; NUMBERS],
        count: usize,
        p: &mut [T],
        g: &[T],
        states: [&mut [T]; TENSORS - 2],
    ) -> bool {
        let [_, penalty, _, _, _, divisor, ..] = *c;
        if penalty != T::ZERO || count < 4 {
            return false;
        }
        let near = divisor.to_f64().abs() > 1e-6 && divisor.to_f64().abs() < 1e6;
        match (count > 4, I::FMA && near) {
            (false, false) => adam::<I, T, false, false>(c, p, g, states),
            (false, true) => adam::<I, T, false, true>(c, p, g, states),
            (true, false) => adam::<I, T, true, false>(c, p, g, states),
            (true, true) => adam::<I, T, true, true>(c, p, g, states),
        }
        true
    }
}

/// The loop of [`Adam`], with the largest square or without. (One, so that the averages are computed while the divider is
/// busy.) `NEAR` is whether the divisor is neither tiny nor huge.
#[inline(always)]
fn adam<I: Isa, T: Float, const LARGEST: bool, const NEAR: bool>(
    &[left, _, weight, kept, new, divisor, eps, rate, ..]: &[T; NUMBERS],
    p: &mut [T],
    g: &[T],
    [mean, square, top]: [&mut [T]; TENSORS - 2],
) {
    let n = p.len();
    let (g, mean, square) = (&g[..n], &mut mean[..n], &mut square[..n]);
    let top = if LARGEST { &mut top[..n] } else { top };
    let reciprocal = T::ONE / divisor;
    for i in 0..n {
        mean[i] = lerp::<I, T>(mean[i], g[i], weight);
        square[i] = addcmul(square[i] * kept, g[i], g[i], new);
        if LARGEST {
            top[i] = Float::maximum::<I>(top[i], square[i]);
        }
        let root = Float::sqrt::<I>(if LARGEST { top[i] } else { square[i] });
        let share = if NEAR { quotient::<I, T>(root, divisor, reciprocal) } else { root / divisor };
        p[i] = addcdiv(p[i] * left, mean[i], share + eps, rate);
    }
}

/// `x / divisor`, rounded once, where nothing on the way is subnormal: for a root and a divisor that is neither tiny nor
/// huge. (Division with one multiplication and two fused ones: Brisebarre, Muller and Raina, "Accelerating correctly rounded
/// floating-point division when the divisor is known in advance", 2004.)
#[inline(always)]
fn quotient<I: Isa, T: Float>(x: T, divisor: T, reciprocal: T) -> T {
    let near = x * reciprocal;
    let left = Number::mul_add::<I>(-near, divisor, x);
    let exact = Number::mul_add::<I>(left, reciprocal, near);
    if near.is_finite() { exact } else { near }
}

struct Adagrad;
impl Step for Adagrad {
    #[inline(always)]
    fn step<I: Isa, T: Float>(n: usize, c: &[T; NUMBERS], _: usize, [p, g, sum, ..]: [&mut Block<T>; TENSORS]) {
        let n = n.min(BLOCK);
        let [penalty, eps, rate, ..] = *c;
        decay(n, T::ONE, penalty, p, g);
        for i in 0..n {
            sum[i] += g[i] * g[i];
            p[i] = addcdiv(p[i], g[i], Float::sqrt::<I>(sum[i]) + eps, rate);
        }
    }
}

struct RmsProp;
impl Step for RmsProp {
    #[inline(always)]
    fn step<I: Isa, T: Float>(n: usize, c: &[T; NUMBERS], _: usize, [p, g, square, a, b]: [&mut Block<T>; TENSORS]) {
        let n = n.min(BLOCK);
        let [penalty, left, new, centred, eps, momentum, rate, ..] = *c;
        decay(n, T::ONE, penalty, p, g);
        for i in 0..n {
            square[i] = addcmul(square[i] * left, g[i], g[i], new);
        }
        let mut root = aligned([T::ZERO; BLOCK]);
        let buffer = match centred != T::ZERO {
            true => {
                for i in 0..n {
                    a[i] = lerp::<I, T>(a[i], g[i], new);
                    root[i] = Float::sqrt::<I>(addcmul(square[i], a[i], a[i], -T::ONE)) + eps;
                }
                b
            }
            false => {
                for i in 0..n {
                    root[i] = Float::sqrt::<I>(square[i]) + eps;
                }
                a
            }
        };
        if momentum > T::ZERO {
            for i in 0..n {
                buffer[i] = addcdiv(buffer[i] * momentum, g[i], root[i], T::ONE);
                p[i] += buffer[i] * rate;
            }
        } else {
            for i in 0..n {
                p[i] = addcdiv(p[i], g[i], root[i], rate);
            }
        }
    }
}

struct Adadelta;
impl Step for Adadelta {
    #[inline(always)]
    fn step<I: Isa, T: Float>(
        n: usize,
        c: &[T; NUMBERS],
        _: usize,
        [p, g, square, changes, _]: [&mut Block<T>; TENSORS],
    ) {
        let n = n.min(BLOCK);
        let [penalty, left, new, eps, rate, ..] = *c;
        decay(n, T::ONE, penalty, p, g);
        for i in 0..n {
            square[i] = addcmul(square[i] * left, g[i], g[i], new);
            let change = Float::sqrt::<I>(changes[i] + eps) / Float::sqrt::<I>(square[i] + eps) * g[i];
            changes[i] = addcmul(changes[i] * left, change, change, new);
            p[i] += change * rate;
        }
    }
}

struct Adamax;
impl Step for Adamax {
    #[inline(always)]
    fn step<I: Isa, T: Float>(n: usize, c: &[T; NUMBERS], _: usize, [p, g, mean, top, _]: [&mut Block<T>; TENSORS]) {
        let n = n.min(BLOCK);
        let [penalty, weight, left, eps, rate, ..] = *c;
        decay(n, T::ONE, penalty, p, g);
        for i in 0..n {
            mean[i] = lerp::<I, T>(mean[i], g[i], weight);
            top[i] = Float::maximum::<I>(top[i] * left, Float::abs::<I>(g[i]) + eps);
            p[i] = addcdiv(p[i], mean[i], top[i], rate);
        }
    }
}

struct NAdam;
impl Step for NAdam {
    #[inline(always)]
    fn step<I: Isa, T: Float>(n: usize, c: &[T; NUMBERS], _: usize, [p, g, mean, square, _]: [&mut Block<T>; TENSORS]) {
        let n = n.min(BLOCK);
        let [left, penalty, weight, kept, new, divisor, eps, now, following, ..] = *c;
        decay(n, left, penalty, p, g);
        average::<I, T>(n, [weight, kept, new], g, mean, square);
        for i in 0..n {
            let scale = Float::sqrt::<I>(square[i] / divisor) + eps;
            p[i] = addcdiv(addcdiv(p[i], g[i], scale, now), mean[i], scale, following);
        }
    }
}

struct RAdam;
impl Step for RAdam {
    #[inline(always)]
    fn step<I: Isa, T: Float>(n: usize, c: &[T; NUMBERS], _: usize, [p, g, mean, square, _]: [&mut Block<T>; TENSORS]) {
        let n = n.min(BLOCK);
        let [left, penalty, weight, kept, new, divisor, rate, eps, numerator, factor] = *c;
        decay(n, left, penalty, p, g);
        average::<I, T>(n, [weight, kept, new], g, mean, square);
        if factor != T::ZERO {
            for i in 0..n {
                // A number over a tensor is the reciprocal times the number.
                let adaptive = T::ONE / (Float::sqrt::<I>(square[i]) + eps) * numerator;
                p[i] -= mean[i] / divisor * rate * adaptive * factor;
            }
        } else {
            for i in 0..n {
                p[i] -= mean[i] / divisor * rate;
            }
        }
    }
}

struct Rprop;
impl Step for Rprop {
    #[inline(always)]
    fn step<I: Isa, T: Float>(n: usize, c: &[T; NUMBERS], _: usize, [p, g, last, size, _]: [&mut Block<T>; TENSORS]) {
        let n = n.min(BLOCK);
        let [shrink, grow, smallest, largest, ..] = *c;
        for i in 0..n {
            let agreement = g[i] * last[i];
            let turned = agreement < T::ZERO;
            let grown = if agreement > T::ZERO { grow } else { T::ONE };
            let next = size[i] * if turned { shrink } else { grown };
            size[i] = Float::minimum::<I>(Float::maximum::<I>(next, smallest), largest);
            last[i] = if turned { T::ZERO } else { g[i] };
            p[i] -= Float::sign::<I>(last[i]) * size[i];
        }
    }
}

struct Asgd;
impl Step for Asgd {
    #[inline(always)]
    fn step<I: Isa, T: Float>(n: usize, c: &[T; NUMBERS], _: usize, [p, g, mean, ..]: [&mut Block<T>; TENSORS]) {
        let n = n.min(BLOCK);
        let [penalty, left, rate, weight, ..] = *c;
        decay(n, T::ONE, penalty, p, g);
        for i in 0..n {
            p[i] = p[i] * left + g[i] * rate;
        }
        if weight != T::ONE {
            for i in 0..n {
                mean[i] += (p[i] - mean[i]) * weight;
            }
        } else {
            mean[..n].copy_from_slice(&p[..n]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Descends from every element of the parameters, `len` of each, by the gradient one.
    fn descend(len: usize, count: usize, apart: bool) -> Vec<f32> {
        let mut p: Vec<f32> = (0..len * count).map(|i| i as f32).collect();
        let mut g = vec![2.0f32; len];
        let mut numbers = [0.0; NUMBERS];
        numbers[5] = -0.5;
        let data = |i: usize, p: &mut Vec<f32>, g: &mut Vec<f32>| {
            let p = p.as_mut_ptr().wrapping_add(i * len).cast();
            [p, g.as_mut_ptr().cast(), std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut()]
        };
        let items: Vec<Item> =
            (0..count).map(|i| Item { data: data(i, &mut p, &mut g), dtype: DType::F32, len, numbers }).collect();
        // SAFETY: the vectors hold `len` elements per item, and the items' parts of them are apart.
        unsafe { update(Rule::Sgd, Preparation::default(), &items, apart) };
        p
    }

    #[test]
    fn every_element_of_every_item_is_updated_once() {
        for (len, count) in [(0, 3), (1, 5), (100, 7), (BLOCK, 4), (BLOCK + 1, 3), (100_000, 3)] {
            for apart in [true, false] {
                let want: Vec<f32> = (0..len * count).map(|i| i as f32 - 1.0).collect();
                assert_eq!(descend(len, count, apart), want, "{len} {count} {apart}");
            }
        }
    }

    #[test]
    fn gradients_are_divided_where_they_stand() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let elements = |x: f64| -> Vec<u8> {
                let (mut out, from) = (vec![0u8; 3 * dtype.size()], [x; 3]);
                let strip = cast_strip(DType::F64, dtype);
                // SAFETY: three elements of each.
                unsafe { strip(from.as_ptr().cast(), 8, out.as_mut_ptr(), dtype.size() as isize, 3) };
                out
            };
            let (mut p, mut g) = (elements(1.0), elements(4.0));
            let mut numbers = [0.0; NUMBERS];
            numbers[5] = -0.5;
            let mut data = [std::ptr::null_mut(); TENSORS];
            (data[0], data[1]) = (p.as_mut_ptr(), g.as_mut_ptr());
            let item = Item { data, dtype, len: 3, numbers };
            // SAFETY: both hold three elements of the dtype.
            unsafe { update(Rule::Sgd, Preparation { divisor: Some(2.0), negate: true }, &[item], true) };
            assert_eq!((p, g), (elements(2.0), elements(2.0)), "{dtype}");
        }
    }

    #[test]
    fn quotients_of_roots_are_rounded_once() {
        // Divisors as they come (the roots of `1 - 0.999^t`) and others; roots of all sizes. Fused by software, if need be.
        #[derive(Clone, Copy, Default)]
        struct Fused;
        impl Isa for Fused {
            const LEVEL: crate::math::Level = crate::math::Level::Baseline;
            const FMA: bool = true;
            const ROUND: bool = true;
            const VECTOR_BYTES: usize = 16;
        }
        let steps = (1..60).map(|t| (1.0 - 0.999f64.powi(t)).sqrt());
        for divisor in steps.chain([1.0, 2e-6, 1.0 - 1e-7, 1.9999999, 0.99e6, 1.0 / 3.0, 0.1]) {
            let (d, e) = (divisor as f32, divisor);
            let (by_d, by_e) = (1.0 / d, 1.0 / e);
            for i in 0..20_000u32 {
                // From the root of the smallest number to that of the largest.
                let x = f32::from_bits(0x1a40_0000 + (i.wrapping_mul(0x9e37_79b9) >> 2) % 0x4500_0000);
                let y = f64::from(x) * (1.0 + f64::from(i) * 1.1e-16);
                assert_eq!(quotient::<Fused, f32>(x, d, by_d).to_bits(), (x / d).to_bits(), "{x} / {d}");
                assert_eq!(quotient::<Fused, f64>(y, e, by_e).to_bits(), (y / e).to_bits(), "{y} / {e}");
            }
            for x in [0.0, f32::INFINITY, 3.7e-23, 1.8e19] {
                assert_eq!(quotient::<Fused, f32>(x, d, by_d).to_bits(), (x / d).to_bits(), "{x} / {d}");
            }
            assert!(quotient::<Fused, f32>(f32::NAN, d, by_d).is_nan());
        }
    }

    #[test]
    fn whole_tensors_and_blocks_agree() {
        // A parameter that is not aligned goes through blocks.
        fn run<R: Step>(numbers: [f64; NUMBERS], states: usize, at: usize) -> Vec<u8> {
            let mut tensors: [Vec<u8>; TENSORS] = std::array::from_fn(|k| {
                let values = (0..777).map(|i| (i * (k + 3) % 101) as f32 / 77.0);
                std::iter::repeat_n(0, at).chain(values.flat_map(f32::to_ne_bytes)).collect()
            });
            let data = std::array::from_fn(|k| match k < 2 + states {
                true => tensors[k].as_mut_ptr().wrapping_add(at),
                false => std::ptr::null_mut(),
            });
            let item = Item { data, dtype: DType::F32, len: 777, numbers };
            // SAFETY: vectors of 777 elements from `at` on.
            unsafe { entry::<Update<R, f32>>(level())((&item, Preparation::default(), 0, 777)) };
            tensors.iter().flat_map(|bytes| bytes[at..].to_vec()).collect()
        }
        let sgd = [0.0, 0.9, 0.7, 0.0, 0.0, -0.1, 0.0, 0.0, 0.0, 0.0];
        let adam = [0.99, 0.0, 0.1, 0.999, 0.001, 0.0316, 1e-8, -0.1, 0.0, 0.0];
        for states in [0, 1] {
            assert_eq!(run::<Sgd>(sgd, states, 0), run::<Sgd>(sgd, states, 1), "{states}");
        }
        for states in [2, 3] {
            assert_eq!(run::<Adam>(adam, states, 0), run::<Adam>(adam, states, 1), "{states}");
        }
    }

    #[test]
    fn levels_agree() {
        // Every rule rounds after each operation, so no level may give other bits.
        let mut numbers = [0.9; NUMBERS];
        numbers[7] = -0.1;
        let run = |level| {
            let mut tensors: [Vec<f32>; TENSORS] =
                std::array::from_fn(|k| (0..777).map(|i| ((i * (k + 3)) % 101) as f32 / 77.0).collect());
            let data = std::array::from_fn(|k| tensors[k].as_mut_ptr().cast());
            let item = Item { data, dtype: DType::F32, len: 777, numbers };
            // SAFETY: five vectors of 777 elements; the level is available.
            unsafe { entry::<Update<Adam, f32>>(level)((&item, Preparation::default(), 0, 777)) };
            tensors
        };
        let want = run(crate::math::Level::Baseline);
        for level in crate::math::Level::available() {
            assert!(run(level) == want, "{level:?}");
        }
    }
}
