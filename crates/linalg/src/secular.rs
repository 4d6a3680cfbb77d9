//! The roots of `1 / rho + sum z_i^2 / (d_i - x)`, which are the eigenvalues of a diagonal matrix and a square of a vector (R.-C. Li,
//! "Solving secular equations stably and efficiently", 1993), and the eigenvectors.

use flambeau_base::parallel::parallel_for;
use pulp::{Arch, NullaryFnOnce};
use std::sync::Mutex;

/// Lanes of partial sums.
const LANES: usize = 8;
/// Roots in one piece of parallel work.
const ROOTS: usize = 32;
/// Steps to a root; four are common. From [`HALVING`] on each halves what is left, so that these suffice.
const STEPS: usize = 200;
const HALVING: usize = 40;

/// The function: poles in ascending order, all apart, the roots of their weights, and `rho`, which is positive.
pub struct Poles {
    pub d: Vec<f64>,
    pub z: Vec<f64>,
    pub rho: f64,
}

/// The roots, ascending, and the eigenvectors in columns whose rows are in the given `order`; `gaps` is room for as many
/// numbers.
pub fn solve(poles: &Poles, order: &[usize], roots: &mut [f64], vectors: &mut [f64], gaps: &mut [f64]) {
    let k = roots.len();
    if k == 0 {
        return;
    }
    let parts: Vec<_> = roots.chunks_mut(ROOTS).zip(gaps.chunks_mut(k * ROOTS)).map(Mutex::new).collect();
    parallel_for(parts.len(), 1, &|range| {
        for part in range {
            let (roots, gaps) = &mut *parts[part].lock().unwrap_or_else(|e| e.into_inner());
            Arch::new().dispatch(Roots { poles, first: part * ROOTS, roots, gaps });
        }
    });
    drop(parts);
    let mut z = vec![1.0; k];
    Arch::new().dispatch(Weights { poles, gaps, z: &mut z });
    for (z, given) in z.iter_mut().zip(&poles.z) {
        *z = z.abs().sqrt().copysign(*given);
    }
    let parts: Vec<_> = vectors.chunks_mut(k * ROOTS).zip(gaps.chunks_mut(k * ROOTS)).map(Mutex::new).collect();
    parallel_for(parts.len(), 1, &|range| {
        for part in range {
            let (vectors, gaps) = &mut *parts[part].lock().unwrap_or_else(|e| e.into_inner());
            Arch::new().dispatch(Vectors { z: &z, order, gaps, vectors });
        }
    });
}

/// Roots from `first` on, and for each the poles' distances from it.
struct Roots<'a> {
    poles: &'a Poles,
    first: usize,
    roots: &'a mut [f64],
    gaps: &'a mut [f64],
}

impl NullaryFnOnce for Roots<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let k = self.poles.d.len();
        for (i, (root, gaps)) in self.roots.iter_mut().zip(self.gaps.chunks_exact_mut(k)).enumerate() {
            let (shift, offset) = find(self.poles, self.first + i, gaps);
            gaps.iter_mut().for_each(|x| *x -= offset);
            *root = shift + offset;
        }
    }
}

/// The sum of `z^2 / x` for `x = gap - offset`, and of `z^2 / x^2`.
#[inline(always)]
fn sums(gaps: &[f64], z: &[f64], offset: f64) -> (f64, f64) {
    let (mut value, mut slope) = ([0.0; LANES], [0.0; LANES]);
    let ((gaps, more_gaps), (z, more_z)) = (gaps.as_chunks::<LANES>(), z.as_chunks::<LANES>());
    for (gaps, z) in gaps.iter().zip(z) {
        for lane in 0..LANES {
            let quotient = z[lane] / (gaps[lane] - offset);
            value[lane] += z[lane] * quotient;
            slope[lane] += quotient * quotient;
        }
    }
    for (lane, (gap, z)) in more_gaps.iter().zip(more_z).enumerate() {
        let quotient = z / (gap - offset);
        value[lane] += z * quotient;
        slope[lane] += quotient * quotient;
    }
    let add = |x: [f64; LANES]| ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
    (add(value), add(slope))
}

/// Root `j` as the pole that it is nearest to and its offset from it; the poles less that one in `gaps`.
#[inline(always)]
fn find(poles: &Poles, j: usize, gaps: &mut [f64]) -> (f64, f64) {
    let Poles { d, z, rho } = poles;
    let (k, constant) = (d.len(), 1.0 / rho);
    let is_last = j + 1 == k;
    if k == 1 {
        gaps[0] = 0.0;
        return (d[0], rho * z[0] * z[0]);
    }
    let distances = |gaps: &mut [f64], shift: f64| gaps.iter_mut().zip(d).for_each(|(gap, x)| *gap = x - shift);
    // The two poles that the function is interpolated by.
    let (left, right) = if is_last { (j - 1, j) } else { (j, j + 1) };
    let (a2, b2, width) = (z[left] * z[left], z[right] * z[right], d[right] - d[left]);
    let mut shift = if is_last { d[j] } else { d[left] };
    distances(gaps, shift);
    // The sign in the middle says which half the root is in.
    let reach = if is_last { rho * z.iter().map(|z| z * z).sum::<f64>() } else { width };
    let middle = 0.5 * reach;
    let (below, above) = (sums(&gaps[..=j], &z[..=j], middle).0, sums(&gaps[j + 1..], &z[j + 1..], middle).0);
    let value = constant + below + above;
    let rest = value - a2 / (gaps[left] - middle) - b2 / (gaps[right] - middle);
    let (mut low, mut high) = if value >= 0.0 { (0.0, middle) } else { (middle, reach) };
    let mut x = if is_last {
        let a = rest * width - a2 - b2;
        let root = (a * a + 4.0 * rest * b2 * width).max(0.0).sqrt();
        if a >= 0.0 { 2.0 * b2 * width / (a + root) } else { (root - a) / (2.0 * rest) }
    } else if value >= 0.0 {
        let (a, b) = (rest * width + a2 + b2, a2 * width);
        let root = (a * a - 4.0 * b * rest).max(0.0).sqrt();
        if a > 0.0 { 2.0 * b / (a + root) } else { (a - root) / (2.0 * rest) }
    } else {
        shift = d[right];
        distances(gaps, shift);
        (low, high) = (middle - width, 0.0);
        let (a, b) = (rest * width - a2 - b2, b2 * width);
        let root = (a * a + 4.0 * b * rest).max(0.0).sqrt();
        if a < 0.0 { 2.0 * b / (a - root) } else { -(a + root) / (2.0 * rest) }
    };
    let nearest_left = shift == d[left];
    for step in 0..STEPS {
        // Also where `x` is not a number.
        if !(x > low && x < high) {
            x = 0.5 * (low + high);
            if x <= low || x >= high {
                return (shift, if low == 0.0 { high } else { low });
            }
        }
        let ((below, below_slope), (above, above_slope)) =
            (sums(&gaps[..=j], &z[..=j], x), sums(&gaps[j + 1..], &z[j + 1..], x));
        let (value, slope) = (constant + below + above, below_slope + above_slope);
        let noise = constant + above - below + x.abs() * slope;
        if value.abs() <= 4.0 * f64::EPSILON * noise {
            return (shift, x);
        }
        (low, high) = if value < 0.0 { (x, high) } else { (low, x) };
        let (to_left, to_right) = (gaps[left] - x, gaps[right] - x);
        let c = if is_last {
            value - to_left * (slope - b2 / (to_right * to_right)) - to_right * (b2 / (to_right * to_right))
        } else if nearest_left {
            value - to_right * slope + width * (a2 / (to_left * to_left))
        } else {
            value - to_left * slope - width * (b2 / (to_right * to_right))
        };
        let (a, b) = ((to_left + to_right) * value - to_left * to_right * slope, to_left * to_right * value);
        let root = (a * a - 4.0 * b * c).abs().sqrt();
        let by = match (is_last, a > 0.0) {
            (true, false) => 2.0 * b / (a - root),
            (true, true) => (a + root) / (2.0 * c),
            (false, true) => 2.0 * b / (a + root),
            (false, false) => (a - root) / (2.0 * c),
        };
        let by = if by * value < 0.0 { by } else { -value / slope };
        let before = x;
        // Now and then the middle, lest a bracket shrink from one side for ever.
        x = if step % 8 == 7 || step >= HALVING { f64::NAN } else { x + by };
        if x == before {
            break;
        }
    }
    (shift, if x.is_nan() { 0.5 * (low + high) } else { x })
}

/// The squares of the weights whose roots are exactly those found, so that the vectors are orthogonal.
struct Weights<'a> {
    poles: &'a Poles,
    gaps: &'a [f64],
    z: &'a mut [f64],
}

impl NullaryFnOnce for Weights<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let d = &self.poles.d[..];
        let k = d.len();
        for (j, gaps) in self.gaps.chunks_exact(k).enumerate() {
            let own = self.z[j] * gaps[j];
            for ((z, gap), x) in self.z.iter_mut().zip(gaps).zip(d) {
                *z *= gap / (x - d[j]);
            }
            self.z[j] = own;
        }
    }
}

/// Vectors of length 1, for as many roots as there are distances for.
struct Vectors<'a> {
    z: &'a [f64],
    order: &'a [usize],
    gaps: &'a mut [f64],
    vectors: &'a mut [f64],
}

impl NullaryFnOnce for Vectors<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let k = self.z.len();
        for (gaps, vector) in self.gaps.chunks_exact_mut(k).zip(self.vectors.chunks_exact_mut(k)) {
            gaps.iter_mut().zip(self.z).for_each(|(gap, z)| *gap = z / *gap);
            let mut squares = [0.0; LANES];
            let (chunks, rest) = gaps.as_chunks::<LANES>();
            for x in chunks {
                squares.iter_mut().zip(x).for_each(|(s, x)| *s += x * x);
            }
            squares.iter_mut().zip(rest).for_each(|(s, x)| *s += x * x);
            let factor = 1.0 / squares.iter().sum::<f64>().sqrt();
            vector.iter_mut().zip(self.order).for_each(|(x, &i)| *x = gaps[i] * factor);
        }
    }
}
