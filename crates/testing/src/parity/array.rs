//! Tensor contents in double precision, to be compared; and the fixed values that cotangents and tangents take.

use flambeau_base::{DType, bf16, f16};
use num_complex::Complex;

/// Elements widened to a type that holds each of them exactly.
#[derive(Clone, Debug)]
pub enum Numbers {
    /// Booleans and integers.
    Exact(Vec<i128>),
    /// Real numbers.
    Real(Vec<f64>),
    /// Complex numbers.
    Complex(Vec<Complex<f64>>),
}

/// A row-major array of numbers.
#[derive(Clone, Debug)]
pub struct Array {
    /// Its sizes.
    pub sizes: Vec<i64>,
    /// Its elements.
    pub numbers: Numbers,
}

macro_rules! widen {
    ($bytes:expr, $t:ty, $f:expr) => {
        $bytes
            .chunks_exact(size_of::<$t>())
            .map(|c| $f(<$t>::from_le_bytes(c.try_into().unwrap_or_default())))
            .collect()
    };
}

impl Numbers {
    /// Widens little-endian elements.
    pub fn read(dtype: DType, bytes: &[u8]) -> Numbers {
        use Numbers::{Exact, Real};
        match dtype {
            DType::Bool => Exact(bytes.iter().map(|b| (*b != 0) as i128).collect()),
            DType::U8 => Exact(widen!(bytes, u8, i128::from)),
            DType::U16 => Exact(widen!(bytes, u16, i128::from)),
            DType::U32 => Exact(widen!(bytes, u32, i128::from)),
            DType::U64 => Exact(widen!(bytes, u64, i128::from)),
            DType::I8 => Exact(widen!(bytes, i8, i128::from)),
            DType::I16 => Exact(widen!(bytes, i16, i128::from)),
            DType::I32 => Exact(widen!(bytes, i32, i128::from)),
            DType::I64 => Exact(widen!(bytes, i64, i128::from)),
            DType::F16 => Real(widen!(bytes, f16, f16::to_f64)),
            DType::BF16 => Real(widen!(bytes, bf16, bf16::to_f64)),
            DType::F32 => Real(widen!(bytes, f32, f64::from)),
            DType::F64 => Real(widen!(bytes, f64, |x| x)),
            DType::Complex64 | DType::Complex128 => match Numbers::read(dtype.to_real(), bytes) {
                Real(x) => Numbers::Complex(x.chunks_exact(2).map(|c| Complex::new(c[0], c[1])).collect()),
                other => other,
            },
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Exact(v) => v.len(),
            Numbers::Real(v) => v.len(),
            Numbers::Complex(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements at `positions`.
    #[must_use]
    pub fn pick(&self, positions: impl Iterator<Item = usize>) -> Numbers {
        match self {
            Numbers::Exact(v) => Numbers::Exact(positions.map(|i| v[i]).collect()),
            Numbers::Real(v) => Numbers::Real(positions.map(|i| v[i]).collect()),
            Numbers::Complex(v) => Numbers::Complex(positions.map(|i| v[i]).collect()),
        }
    }

    /// Real numbers; integers are converted, of complex ones the magnitude is taken.
    pub fn magnitudes(&self) -> Vec<f64> {
        match self {
            Numbers::Exact(v) => v.iter().map(|x| (*x as f64).abs()).collect(),
            Numbers::Real(v) => v.iter().map(|x| x.abs()).collect(),
            Numbers::Complex(v) => v.iter().map(|x| x.norm()).collect(),
        }
    }

    /// Real numbers; `None` if they are complex.
    pub fn reals(&self) -> Option<Vec<f64>> {
        match self {
            Numbers::Exact(v) => Some(v.iter().map(|x| *x as f64).collect()),
            Numbers::Real(v) => Some(v.clone()),
            Numbers::Complex(_) => None,
        }
    }

    /// Positions in ascending order of value, NaN last; equal values keep their order.
    pub fn ascending(&self, positions: &mut [usize]) {
        let real = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        match self {
            Numbers::Exact(v) => positions.sort_by_key(|i| v[*i]),
            Numbers::Real(v) => positions.sort_by(|i, j| real(v[*i], v[*j])),
            Numbers::Complex(v) => {
                positions.sort_by(|i, j| real(v[*i].re, v[*j].re).then(real(v[*i].im, v[*j].im)));
            }
        }
    }

    /// Element `i` as text.
    pub fn show(&self, i: usize) -> String {
        match self {
            Numbers::Exact(v) => v[i].to_string(),
            Numbers::Real(v) => format!("{:?}", v[i]),
            Numbers::Complex(v) => format!("{:?}{:+?}j", v[i].re, v[i].im),
        }
    }
}

/// The index of element `i` of a row-major array.
pub(super) fn index_of(sizes: &[i64], mut i: usize) -> Vec<i64> {
    let mut index = vec![0; sizes.len()];
    for (d, n) in sizes.iter().enumerate().rev() {
        index[d] = (i % *n as usize) as i64;
        i /= *n as usize;
    }
    index
}

impl Array {
    /// Reads row-major little-endian elements.
    pub fn read(dtype: DType, sizes: &[i64], bytes: &[u8]) -> Array {
        Array { sizes: sizes.to_vec(), numbers: Numbers::read(dtype, bytes) }
    }

    /// For every line along `dim`: the positions of its elements.
    pub(super) fn lines(&self, dim: usize) -> Vec<Vec<usize>> {
        let length = self.sizes[dim] as usize;
        let inner: usize = self.sizes[dim + 1..].iter().map(|n| *n as usize).product();
        let outer: usize = self.sizes[..dim].iter().map(|n| *n as usize).product();
        let mut lines = Vec::with_capacity(outer * inner);
        for o in 0..outer {
            for i in 0..inner {
                lines.push((0..length).map(|k| (o * length + k) * inner + i).collect());
            }
        }
        lines
    }
}

/// Fixed values in [-1, 1) for cotangents and tangents, the same on every machine: little-endian elements of `dtype`.
///
/// SplitMix64 (Steele, Lea, Flood 2014) of the position, 24 bits of it, so that `f32` and `f64` hold them exactly.
pub fn pseudo(numel: usize, dtype: DType, seed: u64) -> Vec<u8> {
    let value = |n: usize, seed: u64| {
        let mut z = (n as u64).wrapping_add(seed.wrapping_mul(1_000_003).wrapping_add(1));
        z = z.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 40) as f64 / (1 << 23) as f64 - 1.0
    };
    let parts: Vec<f64> = match dtype.is_complex() {
        true => (0..numel).flat_map(|n| [value(n, 2 * seed + 1001), value(n, 2 * seed + 1002)]).collect(),
        false => (0..numel).map(|n| value(n, seed)).collect(),
    };
    parts
        .into_iter()
        .flat_map(|x| match dtype.to_real() {
            DType::F64 => x.to_le_bytes().to_vec(),
            DType::F32 => (x as f32).to_le_bytes().to_vec(),
            DType::F16 => f16::from_f64(x).to_le_bytes().to_vec(),
            DType::BF16 => bf16::from_f64(x).to_le_bytes().to_vec(),
            // Nothing but floats has a gradient.
            other => vec![0; other.size()],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudo_values_are_those_of_the_recorder() {
        // pseudo((3,), "float64", 10) and pseudo((2,), "complex128", 30) of the program that recorded the cases.
        let Numbers::Real(x) = Numbers::read(DType::F64, &pseudo(3, DType::F64, 10)) else { panic!() };
        assert_eq!(x, PSEUDO_10);
        let Numbers::Complex(x) = Numbers::read(DType::Complex128, &pseudo(2, DType::Complex128, 30)) else { panic!() };
        assert_eq!([x[0].re, x[0].im, x[1].re, x[1].im], PSEUDO_30);
    }

    const PSEUDO_10: [f64; 3] = [-0.27955329418182373, -0.24864983558654785, 0.5993802547454834];
    const PSEUDO_30: [f64; 4] = [-0.9622201919555664, -0.4685475826263428, 0.9423526525497437, -0.9687871932983398];

    #[test]
    fn lines_and_order() {
        let a = Array { sizes: vec![2, 3], numbers: Numbers::Real(vec![3.0, f64::NAN, 1.0, 0.0, 0.0, -1.0]) };
        let mut lines = a.lines(1);
        assert_eq!(lines, [[0, 1, 2], [3, 4, 5]]);
        a.numbers.ascending(&mut lines[0]);
        a.numbers.ascending(&mut lines[1]);
        assert_eq!(lines, [[2, 0, 1], [5, 3, 4]]);
        assert_eq!(a.lines(0)[2], [2, 5]);
        assert_eq!(index_of(&[2, 3], 5), [1, 2]);
    }
}
