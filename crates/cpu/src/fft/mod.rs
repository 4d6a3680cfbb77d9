//! Discrete Fourier transforms along one axis, by the crates `rustfft` and, of odd numbers of real numbers, `realfft`.
//!
//! Transforms of several axes are these one after another. A transform is planned once per length, direction and
//! precision; plans are shared between threads.

mod real;

use crate::buffer::Scratch;
use crate::copy::Shared;
use crate::math::Float;
use crate::prefetch::prefetch_run;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{Complex, DType};
use parking_lot::Mutex;
use real::Halved;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Elements below which work is not split.
const GRAIN: usize = 1 << 14;
/// Bytes of rows that are transformed by one call, and of the longest row that is asked for before its turn.
const ROW_BYTES: usize = 4 << 10;
const AHEAD_BYTES: usize = 64 << 10;
/// Bytes of lines that are gathered at a time, and how many rows of them are asked for before they are read.
const LINES_BYTES: usize = 256 << 10;
const ROWS_AHEAD: usize = 16;
/// Plans that are kept: beyond, all are forgotten.
const PLANS: usize = 256;

/// Plans by length (and direction).
struct Plans<T: Precision> {
    complex: HashMap<(usize, bool), Arc<dyn Fft<T>>>,
    halved: HashMap<(usize, bool), Arc<Halved<T>>>,
    forward: HashMap<usize, Arc<dyn RealToComplex<T>>>,
    inverse: HashMap<usize, Arc<dyn ComplexToReal<T>>>,
}

impl<T: Precision> Plans<T> {
    fn new() -> Mutex<Plans<T>> {
        Mutex::new(Plans {
            complex: HashMap::new(),
            halved: HashMap::new(),
            forward: HashMap::new(),
            inverse: HashMap::new(),
        })
    }
}

/// The plan of a key, made if it is not there.
fn planned<K: std::hash::Hash + Eq, P: ?Sized>(
    plans: &mut HashMap<K, Arc<P>>,
    key: K,
    make: impl FnOnce() -> Arc<P>,
) -> Arc<P> {
    if plans.len() >= PLANS && !plans.contains_key(&key) {
        plans.clear();
    }
    plans.entry(key).or_insert_with(make).clone()
}

/// The precisions.
trait Precision: FftNum + Default + Float {
    fn plans() -> &'static Mutex<Plans<Self>>;
    fn of(x: f64) -> Self;
}
impl Precision for f32 {
    fn plans() -> &'static Mutex<Plans<f32>> {
        static PLANS: LazyLock<Mutex<Plans<f32>>> = LazyLock::new(Plans::new);
        &PLANS
    }
    fn of(x: f64) -> f32 {
        x as f32
    }
}
impl Precision for f64 {
    fn plans() -> &'static Mutex<Plans<f64>> {
        static PLANS: LazyLock<Mutex<Plans<f64>>> = LazyLock::new(Plans::new);
        &PLANS
    }
    fn of(x: f64) -> f64 {
        x
    }
}

/// Lines of `length` elements per piece of parallel work.
fn grain(length: usize) -> usize {
    (GRAIN / length.max(1)).max(1)
}

/// Transforms along the middle axis of a dense array (`outer`, `n`, `inner`) of complex numbers, and scales. `forward` is the
/// direction of exp(-i).
///
/// # Safety
/// `source` and `target` hold the array, which nobody else writes, and are the same or apart; `dtype` is complex.
pub unsafe fn complex(source: *const u8, target: *mut u8, dtype: DType, axes: [usize; 3], forward: bool, scale: f64) {
    if axes.contains(&0) {
        return;
    }
    // SAFETY: the caller's.
    unsafe {
        match dtype {
            DType::Complex128 => complex_of::<f64>(source.cast(), target.cast(), axes, forward, scale),
            _ => complex_of::<f32>(source.cast(), target.cast(), axes, forward, scale),
        }
    }
}

unsafe fn complex_of<T: Precision>(
    source: *const Complex<T>,
    target: *mut Complex<T>,
    [outer, n, inner]: [usize; 3],
    forward: bool,
    scale: f64,
) {
    let direction = if forward { FftDirection::Forward } else { FftDirection::Inverse };
    let plan = planned(&mut T::plans().lock().complex, (n, forward), || FftPlanner::new().plan_fft(n, direction));
    let (source, target) = (Shared(source.cast_mut()), Shared(target));
    let factor = T::of(scale);
    let scaled = |x: Complex<T>| if scale == 1.0 { x } else { x * factor };
    if inner == 1 {
        let in_place = source.get() == target.get();
        let bytes = n * size_of::<Complex<T>>();
        parallel_for(outer, grain(n), &|rows| {
            // Rows at a time, which stay in the first-level cache: the next ones arrive while these are transformed.
            let most = (ROW_BYTES / bytes).max(1);
            let mut scratch = vec![Complex::default(); plan.get_inplace_scratch_len()];
            for first in rows.clone().step_by(most) {
                let len = most.min(rows.end - first) * n;
                let (from, to) = (source.get().wrapping_add(first * n), target.get().wrapping_add(first * n));
                if bytes <= AHEAD_BYTES {
                    prefetch_run(from.wrapping_add(len).cast(), len * size_of::<Complex<T>>());
                }
                // SAFETY: these rows are this piece's alone.
                let to = unsafe { std::slice::from_raw_parts_mut(to, len) };
                if !in_place {
                    // SAFETY: the caller's; the arrays are apart.
                    to.copy_from_slice(unsafe { std::slice::from_raw_parts(from.cast_const(), len) });
                }
                plan.process_with_scratch(to, &mut scratch);
                if scale != 1.0 {
                    to.iter_mut().for_each(|x| *x = scaled(*x));
                }
            }
        });
        return;
    }
    let lines = Lines::of::<T>(n);
    let blocks = inner.div_ceil(lines.most);
    parallel_for(outer * blocks, grain(n * lines.most), &|units| {
        let copies = Scratch::<Complex<T>>::new(lines.stride * lines.most);
        let mut scratch = vec![Complex::default(); plan.get_inplace_scratch_len()];
        for unit in units {
            let (o, first) = (unit / blocks, unit % blocks * lines.most);
            let count = lines.most.min(inner - first);
            let start = o * n * inner + first;
            let copy = |c: usize, k: usize| copies.get().wrapping_add(c * lines.stride + k);
            // SAFETY: these columns are this unit's alone, and inside the arrays; so many copies are written before they are
            // read.
            unsafe {
                let (from, to) = (source.get().add(start), target.get().add(start));
                for k in 0..n {
                    let row = from.add(k * inner);
                    prefetch_run(row.wrapping_add(ROWS_AHEAD * inner).cast(), count * size_of::<Complex<T>>());
                    for c in 0..count {
                        *copy(c, k) = *row.add(c);
                    }
                }
                // Those that lie side by side are transformed by one call.
                let (calls, len) = if lines.stride == n { (1, count * n) } else { (count, n) };
                for c in 0..calls {
                    plan.process_with_scratch(std::slice::from_raw_parts_mut(copy(c, 0), len), &mut scratch);
                }
                for k in 0..n {
                    for c in 0..count {
                        *to.add(k * inner + c) = scaled(*copy(c, k));
                    }
                }
            }
        }
    });
}

/// How lines that do not lie in order are gathered.
struct Lines {
    /// So many at a time.
    most: usize,
    /// From the beginning of a copy to the next.
    stride: usize,
}

impl Lines {
    /// Of `n` numbers: several cache lines of every row are read together, which the processor asks for together, and copies
    /// fit the second-level cache. Those whose length is a power of two would share their places in the first.
    fn of<T>(n: usize) -> Lines {
        let size = size_of::<Complex<T>>();
        let stride = if n.is_multiple_of(64) { n + 64 / size } else { n };
        Lines { most: (LINES_BYTES / (n * size)).clamp(64 / size, 256 / size), stride }
    }
}

/// Transforms rows of `n` real numbers to rows of `n / 2 + 1` complex ones, or of `n` if `full`, and scales.
///
/// # Safety
/// Both arrays are dense with `rows` rows, apart, and nobody else uses the target; `dtype`, the source's, is `f32` or
/// `f64`.
pub unsafe fn real_to_complex(
    source: *const u8,
    target: *mut u8,
    dtype: DType,
    rows: usize,
    n: usize,
    full: bool,
    scale: f64,
) {
    if rows == 0 || n == 0 {
        return;
    }
    // SAFETY: the caller's.
    unsafe {
        match dtype {
            DType::F64 => real_to_complex_of::<f64>(source.cast(), target.cast(), rows, n, full, scale),
            _ => real_to_complex_of::<f32>(source.cast(), target.cast(), rows, n, full, scale),
        }
    }
}

unsafe fn real_to_complex_of<T: Precision>(
    source: *const T,
    target: *mut Complex<T>,
    count: usize,
    n: usize,
    full: bool,
    scale: f64,
) {
    let half = n / 2 + 1;
    let width = if full { n } else { half };
    let (source, target) = (Shared(source.cast_mut()), Shared(target));
    let factor = T::of(scale);
    // Rows of both.
    let rows = |start: usize, rows: usize| {
        // SAFETY: the caller's; rows of the target are one piece's alone.
        unsafe {
            let from = std::slice::from_raw_parts(source.get().add(start * n), rows * n);
            (from, std::slice::from_raw_parts_mut(target.get().add(start * width), rows * width))
        }
    };
    // What follows from the first half by symmetry.
    let mirror = |to: &mut [Complex<T>]| {
        let (first, rest) = to.split_at_mut(half);
        rest.iter_mut().zip(first[1..].iter().rev().skip(half - 1 - (n - half))).for_each(|(x, y)| *x = y.conj());
    };
    if n.is_multiple_of(2) && FastPath::FftHalved.is_on() {
        let make = || Arc::new(Halved::new(n, FftDirection::Forward));
        let plan = planned(&mut T::plans().lock().halved, (n, true), make);
        parallel_for(count, grain(n), &|range| {
            let mut scratch = plan.scratch();
            for start in range.clone().step_by(plan.rows()) {
                let (from, to) = rows(start, plan.rows().min(range.end - start));
                plan.forward(from, (&mut *to, width), factor, &mut scratch);
                to.chunks_exact_mut(width).for_each(mirror);
            }
        });
        return;
    }
    let plan = planned(&mut T::plans().lock().forward, n, || RealFftPlanner::new().plan_fft_forward(n));
    parallel_for(count, grain(n), &|range| {
        let mut input = vec![T::default(); n];
        let mut scratch = vec![Complex::default(); plan.get_scratch_len()];
        for row in range {
            let (from, to) = rows(row, 1);
            input.copy_from_slice(from);
            let lengths = plan.process_with_scratch(&mut input, &mut to[..half], &mut scratch);
            debug_assert!(lengths.is_ok(), "buffers have the plan's lengths");
            if scale != 1.0 {
                to[..half].iter_mut().for_each(|x| *x = *x * factor);
            }
            mirror(to);
        }
    });
}

/// Transforms rows of `n / 2 + 1` complex numbers, the first half of a Hermitian sequence, to rows of `n` real ones
/// in the direction of exp(i), and scales. What would have to be real counts as real.
///
/// # Safety
/// As [`real_to_complex`]; `dtype` is the target's.
pub unsafe fn complex_to_real(source: *const u8, target: *mut u8, dtype: DType, rows: usize, n: usize, scale: f64) {
    if rows == 0 || n == 0 {
        return;
    }
    // SAFETY: the caller's.
    unsafe {
        match dtype {
            DType::F64 => complex_to_real_of::<f64>(source.cast(), target.cast(), rows, n, scale),
            _ => complex_to_real_of::<f32>(source.cast(), target.cast(), rows, n, scale),
        }
    }
}

unsafe fn complex_to_real_of<T: Precision>(
    source: *const Complex<T>,
    target: *mut T,
    count: usize,
    n: usize,
    scale: f64,
) {
    let half = n / 2 + 1;
    let (source, target) = (Shared(source.cast_mut()), Shared(target));
    let factor = T::of(scale);
    // Rows of both.
    let rows = |start: usize, rows: usize| {
        // SAFETY: the caller's; rows of the target are one piece's alone.
        unsafe {
            let from = std::slice::from_raw_parts(source.get().add(start * half), rows * half);
            (from, std::slice::from_raw_parts_mut(target.get().add(start * n), rows * n))
        }
    };
    if n.is_multiple_of(2) && FastPath::FftHalved.is_on() {
        let make = || Arc::new(Halved::new(n, FftDirection::Inverse));
        let plan = planned(&mut T::plans().lock().halved, (n, false), make);
        parallel_for(count, grain(n), &|range| {
            let mut scratch = plan.scratch();
            for start in range.clone().step_by(plan.rows()) {
                let (from, to) = rows(start, plan.rows().min(range.end - start));
                plan.inverse(from, to, factor, &mut scratch);
            }
        });
        return;
    }
    let plan = planned(&mut T::plans().lock().inverse, n, || RealFftPlanner::new().plan_fft_inverse(n));
    parallel_for(count, grain(n), &|range| {
        let mut input = vec![Complex::default(); half];
        let mut scratch = vec![Complex::default(); plan.get_scratch_len()];
        for row in range {
            let (from, to) = rows(row, 1);
            input.copy_from_slice(from);
            input[0].im = T::zero();
            let lengths = plan.process_with_scratch(&mut input, to, &mut scratch);
            debug_assert!(lengths.is_ok(), "buffers have the plan's lengths");
            if scale != 1.0 {
                to.iter_mut().for_each(|x| *x *= factor);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition.
    fn slow(x: &[Complex<f64>], sign: f64) -> Vec<Complex<f64>> {
        let n = x.len();
        let turn = |k: usize| Complex::from_polar(1.0, sign * 2.0 * std::f64::consts::PI * (k % n) as f64 / n as f64);
        (0..n).map(|k| x.iter().enumerate().map(|(j, v)| v * turn(j * k)).sum()).collect()
    }

    fn close(a: &[Complex<f64>], b: &[Complex<f64>]) {
        assert_eq!(a.len(), b.len());
        for (x, y) in a.iter().zip(b) {
            assert!((x - y).norm() < 1e-10, "{x} {y}");
        }
    }

    fn signal(n: usize) -> Vec<Complex<f64>> {
        (0..n).map(|i| Complex::new((i * i % 7) as f64 - 3.0, (i * 5 % 11) as f64)).collect()
    }

    #[test]
    fn lines_of_any_axis() {
        for n in [1, 2, 3, 8, 11, 12, 101, 128] {
            for (inner, in_place) in [1, 3, 8, 11, 40].into_iter().flat_map(|inner| [(inner, false), (inner, true)]) {
                let x = signal(2 * n * inner);
                let mut y = if in_place { x.clone() } else { vec![Complex::default(); x.len()] };
                let to: *mut u8 = y.as_mut_ptr().cast();
                let from = if in_place { to.cast_const() } else { x.as_ptr().cast() };
                // SAFETY: the arrays are that large.
                unsafe { complex(from, to, DType::Complex128, [2, n, inner], true, 0.5) };
                for (o, c) in (0..2).flat_map(|o| (0..inner).map(move |c| (o, c))) {
                    let line = |v: &[Complex<f64>]| (0..n).map(|k| v[(o * n + k) * inner + c]).collect::<Vec<_>>();
                    let expected: Vec<_> = slow(&line(&x), -1.0).iter().map(|v| v * 0.5).collect();
                    close(&line(&y), &expected);
                }
            }
        }
    }

    #[test]
    fn real_rows_there_and_back() {
        // More than are transformed at a time.
        const ROWS: usize = 11;
        for n in [1usize, 2, 3, 8, 11, 12, 100, 101] {
            let x: Vec<f64> = signal(ROWS * n).iter().map(|c| c.re).collect();
            let half = n / 2 + 1;
            let mut y = vec![Complex::default(); ROWS * half];
            let mut full = vec![Complex::default(); ROWS * n];
            let mut back = vec![0.0; ROWS * n];
            // SAFETY: the arrays are that large.
            unsafe {
                real_to_complex(x.as_ptr().cast(), y.as_mut_ptr().cast(), DType::F64, ROWS, n, false, 1.0);
                real_to_complex(x.as_ptr().cast(), full.as_mut_ptr().cast(), DType::F64, ROWS, n, true, 1.0);
                complex_to_real(y.as_ptr().cast(), back.as_mut_ptr().cast(), DType::F64, ROWS, n, 1.0 / n as f64);
            }
            for row in 0..ROWS {
                let line: Vec<_> = x[row * n..][..n].iter().map(|v| Complex::new(*v, 0.0)).collect();
                let expected = slow(&line, -1.0);
                close(&y[row * half..][..half], &expected[..half]);
                close(&full[row * n..][..n], &expected);
            }
            assert!(x.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-12), "{n}");
        }
    }
}
