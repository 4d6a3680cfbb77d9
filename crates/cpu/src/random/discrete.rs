//! Integers, permutations, coin flips and categories.

use super::continuous::exponential;
use super::generator::{CHUNK, Generator};
use flambeau_base::{DType, Element, Error, Result};

/// Ranges from here on draw 64 bits per number instead of 32.
const WIDE_RANGE: u64 = 1 << 28;
/// Permutations from this length on draw 64 bits per element, and are built in another order.
const WIDE_PERMUTATION: usize = u32::MAX as usize / 20;

/// A divisor of 32-bit numbers, prepared (Lemire, Kaser & Kurz, "Faster remainder by direct computation", 2019).
#[derive(Clone, Copy)]
struct Divisor {
    inverse: u64,
    divisor: u32,
}

impl Divisor {
    fn new(divisor: u32) -> Divisor {
        Divisor { inverse: (u64::MAX / u64::from(divisor)).wrapping_add(1), divisor }
    }
    #[inline(always)]
    fn remainder(self, x: u32) -> u32 {
        let fraction = self.inverse.wrapping_mul(u64::from(x));
        ((u128::from(fraction) * u128::from(self.divisor)) >> 64) as u32
    }
}

/// Fills `out` with integers of `[from, from + range)`, any type but complex; a `range` of zero means all 2^64,
/// whatever `from` is.
///
/// A range below 2^28 takes 32 bits per number, a wider one 64.
pub fn random_from<T: Element>(generator: &mut Generator, out: &mut [T], from: i64, range: u64) {
    if range == 0 {
        fill_from_u64(generator, out, |x| x as i64);
    } else if range < WIDE_RANGE {
        let divisor = Divisor::new(range as u32);
        fill_from_u32(generator, out, |x| from.wrapping_add(i64::from(divisor.remainder(x))));
    } else {
        fill_from_u64(generator, out, |x| from.wrapping_add((x % range) as i64));
    }
}

/// Fills `out` with integers of the type's natural range, any type but complex: all non-negative integers, or for
/// floating-point types those up to the largest that has no gaps below it.
///
/// PyTorch has no such recipe for unsigned types of 16 bits and more; ours are the whole ranges.
pub fn random<T: Element>(generator: &mut Generator, out: &mut [T]) {
    match T::DTYPE {
        DType::Bool => fill_from_u32(generator, out, |x| i64::from(x & 1)),
        DType::U8 | DType::U16 | DType::U32 => fill_from_u32(generator, out, i64::from),
        DType::U64 => fill_from_u64(generator, out, |x| x as i64),
        DType::I8 => fill_from_u32(generator, out, |x| i64::from(x & 0x7f)),
        DType::I16 => fill_from_u32(generator, out, |x| i64::from(x & 0x7fff)),
        DType::I32 => fill_from_u32(generator, out, |x| i64::from(x & 0x7fff_ffff)),
        DType::I64 => fill_from_u64(generator, out, |x| (x & i64::MAX as u64) as i64),
        DType::F16 => fill_from_u32(generator, out, |x| i64::from(x % ((1 << 11) + 1))),
        DType::BF16 => fill_from_u32(generator, out, |x| i64::from(x % ((1 << 8) + 1))),
        DType::F32 | DType::Complex64 => fill_from_u32(generator, out, |x| i64::from(x % ((1 << 24) + 1))),
        DType::F64 | DType::Complex128 => fill_from_u64(generator, out, |x| (x % ((1 << 53) + 1)) as i64),
    }
}

#[inline(always)]
fn fill_from_u32<T: Element>(generator: &mut Generator, out: &mut [T], f: impl Fn(u32) -> i64) {
    let mut words = [0; CHUNK];
    for out in out.chunks_mut(CHUNK) {
        let words = &mut words[..out.len()];
        generator.fill_u32(words);
        for (o, &word) in out.iter_mut().zip(&*words) {
            *o = T::from_i64(f(word));
        }
    }
}

#[inline(always)]
fn fill_from_u64<T: Element>(generator: &mut Generator, out: &mut [T], f: impl Fn(u64) -> i64) {
    let mut words = [0; 2 * CHUNK];
    for out in out.chunks_mut(CHUNK) {
        let words = &mut words[..2 * out.len()];
        generator.fill_u32(words);
        for (o, pair) in out.iter_mut().zip(words.chunks_exact(2)) {
            *o = T::from_i64(f((u64::from(pair[0]) << 32) | u64::from(pair[1])));
        }
    }
}

/// Fills `out` with a permutation of `0..out.len()` (Fisher & Yates; the wide one built inside out).
pub fn permutation<T: Element>(generator: &mut Generator, out: &mut [T]) {
    let n = out.len();
    if n >= WIDE_PERMUTATION {
        for i in 0..n {
            let z = (generator.next_u64() % (i as u64 + 1)) as usize;
            out[i] = out[z];
            out[z] = T::from_i64(i as i64);
        }
        return;
    }
    for (i, o) in out.iter_mut().enumerate() {
        *o = T::from_i64(i as i64);
    }
    for i in 0..n.saturating_sub(1) {
        let z = generator.next_u32() as usize % (n - i);
        out.swap(i, i + z);
    }
}

/// Fills `out` with ones of probability `p` and zeros, any type: a double is drawn for each. The mask of dropout.
///
/// PyTorch does the same except on Intel processors, where a vendor library draws these numbers from a stream of its
/// own.
pub fn bernoulli<T: Element>(generator: &mut Generator, out: &mut [T], p: f64) {
    let (zero, one) = (T::from_bool(false), T::from_bool(true));
    let mut buffer = [0.0; CHUNK];
    for out in out.chunks_mut(CHUNK) {
        let x = &mut buffer[..out.len()];
        generator.fill_f64(x);
        for (o, &x) in out.iter_mut().zip(&*x) {
            *o = if x < p { one } else { zero };
        }
    }
}

/// Fills `out` with ones of the probabilities `p`, element by element, and zeros. Probabilities in double precision
/// are compared with doubles, all others with floats.
///
/// `out` and `p` must be of the same length.
pub fn bernoulli_each<T: Element, P: Element>(generator: &mut Generator, out: &mut [T], p: &[P]) {
    debug_assert_eq!(out.len(), p.len());
    if matches!(P::DTYPE, DType::F64) {
        let mut buffer = [0.0; CHUNK];
        for (out, p) in out.chunks_mut(CHUNK).zip(p.chunks(CHUNK)) {
            let x = &mut buffer[..out.len()];
            generator.fill_f64(x);
            for ((o, &x), p) in out.iter_mut().zip(&*x).zip(p) {
                *o = T::from_bool(x < p.to_f64());
            }
        }
        return;
    }
    let mut buffer = [0.0; CHUNK];
    for (out, p) in out.chunks_mut(CHUNK).zip(p.chunks(CHUNK)) {
        let x = &mut buffer[..out.len()];
        generator.fill_f32(x);
        for ((o, &x), p) in out.iter_mut().zip(&*x).zip(p) {
            *o = T::from_bool(x < p.to_f32());
        }
    }
}

/// Draws categories with replacement: for each row of `weights` (`categories` long, not negative, a floating-point
/// type) as many indices as `out` has per row. Each takes one double and a binary search in the cumulative weights,
/// which are summed in the type itself (halves in `f32`).
pub fn multinomial_with_replacement<T: Element>(
    generator: &mut Generator,
    out: &mut [i64],
    weights: &[T],
    categories: usize,
) -> Result<()> {
    if categories == 0 || weights.is_empty() {
        return Ok(());
    }
    let rows = weights.len() / categories;
    let samples = out.len() / rows;
    let mut cumulative = vec![0.0f64; categories];
    for (row, out) in weights.chunks_exact(categories).zip(out.chunks_exact_mut(samples.max(1))) {
        // Rounded to single precision after every step where that is the type of the sum.
        let round = |x: f64| if matches!(T::DTYPE, DType::F64) { x } else { f64::from(x as f32) };
        let mut sum = 0.0;
        for (c, weight) in cumulative.iter_mut().zip(row) {
            let weight = weight.to_f64();
            if weight < 0.0 {
                return Err(Error::runtime("invalid multinomial distribution (encountering probability entry < 0)"));
            }
            if !weight.is_finite() {
                return Err(Error::runtime(
                    "invalid multinomial distribution (encountering probability entry = infinity or NaN)",
                ));
            }
            sum = round(sum + weight);
            *c = sum;
        }
        if sum <= 0.0 {
            return Err(Error::runtime("invalid multinomial distribution (sum of probabilities <= 0)"));
        }
        for c in &mut cumulative {
            *c = round(*c / sum);
        }
        cumulative[categories - 1] = 1.0;
        for o in out {
            let u = generator.next_f64();
            *o = cumulative.partition_point(|&c| c < u) as i64;
        }
    }
    Ok(())
}

/// Draws different categories: for each row of `weights` as many indices as `out` has per row, by the order of
/// weight over an exponential number. PyTorch does this also for a single draw with replacement.
///
/// The weights must be finite and not negative, which the caller has checked. Equal quotients come out in index order.
pub fn multinomial_without_replacement<T: Element>(
    generator: &mut Generator,
    out: &mut [i64],
    weights: &[T],
    categories: usize,
) {
    if categories == 0 || weights.is_empty() {
        return;
    }
    let samples = out.len() / (weights.len() / categories);
    let mut divisors = vec![T::default(); weights.len()];
    exponential(generator, &mut divisors, 1.0);
    let mut order: Vec<(f64, usize)> = Vec::with_capacity(categories);
    for (i, out) in out.chunks_exact_mut(samples.max(1)).enumerate() {
        let row = i * categories..(i + 1) * categories;
        let quotients = weights[row.clone()].iter().zip(&divisors[row]).map(|(w, d)| match T::DTYPE {
            DType::F64 => w.to_f64() / d.to_f64(),
            _ => T::from_f32(w.to_f32() / d.to_f32()).to_f64(),
        });
        order.clear();
        // NaN (zero over zero) ranks first, as in `topk` and `argmax`.
        order.extend(quotients.map(|q| if q.is_nan() { f64::INFINITY } else { q }).zip(0..));
        let first = |a: &(f64, usize), b: &(f64, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if out.len() < categories && !out.is_empty() {
            order.select_nth_unstable_by(out.len() - 1, first);
            order.truncate(out.len());
        }
        order.sort_unstable_by(first);
        for (o, &(_, index)) in out.iter_mut().zip(&order) {
            *o = index as i64;
        }
    }
}
