//! Example arguments for the derived tests: made from a fixed stream, so that a failure can be repeated.

use crate::schema::{Base, Param};
use crate::value::OwnedValue;
use crate::{DType, Element, Op, Scalar, Tensor};

/// Makes examples for a dtype.
pub type SamplesFn = fn(&mut Maker) -> Vec<Sample>;

/// One call's arguments, in the order of the schema.
#[derive(Clone)]
pub struct Sample {
    /// The arguments.
    pub args: Vec<OwnedValue>,
}

impl Sample {
    /// From the arguments.
    pub fn new(args: impl Into<Vec<OwnedValue>>) -> Sample {
        Sample { args: args.into() }
    }
}

macro_rules! owned_from {
    ($($t:ty => |$x:ident| $e:expr;)*) => { $(
        impl From<$t> for OwnedValue {
            fn from($x: $t) -> OwnedValue { $e }
        }
    )* };
}
owned_from! {
    Tensor => |x| OwnedValue::Tensor(x);
    Vec<Tensor> => |x| OwnedValue::Tensors(x);
    Vec<Option<Tensor>> => |x| OwnedValue::OptionalTensors(x);
    Scalar => |x| OwnedValue::Scalar(x);
    i64 => |x| OwnedValue::Int(x);
    i32 => |x| OwnedValue::Int(x.into());
    f64 => |x| OwnedValue::Float(x);
    bool => |x| OwnedValue::Bool(x);
    Vec<i64> => |x| OwnedValue::Ints(x);
    &[i64] => |x| OwnedValue::Ints(x.to_vec());
    DType => |x| OwnedValue::DType(x);
    &str => |x| OwnedValue::Str(x.to_string());
    () => |_x| OwnedValue::None;
}

/// The samples of the operator that `op` is a form of, with the first element of a tensor where `op` takes a number: for
/// its other names.
pub fn of(op: &'static Op, m: &mut Maker) -> Vec<Sample> {
    let fit = |(a, param): (OwnedValue, &Param)| match a {
        OwnedValue::Tensor(t) if param.ty.base == Base::Scalar => {
            t.reshape(&[-1]).and_then(|t| t.select(0, 0)).and_then(|t| t.item()).ok().map(OwnedValue::Scalar)
        }
        a => Some(a),
    };
    let samples = op.functional().samples.map_or_else(Vec::new, |make| make(m));
    samples
        .into_iter()
        .filter_map(|s| {
            s.args.into_iter().zip(&op.schema().params).map(fit).collect::<Option<Vec<_>>>().map(Sample::new)
        })
        .collect()
}

/// Writes one [`Sample`]: `sample![x, 2, true, ()]`, `()` standing for `None`.
#[macro_export]
macro_rules! sample {
    ($($x:expr),* $(,)?) => { $crate::samples::Sample::new(vec![$($crate::OwnedValue::from($x)),*]) };
}

/// An operator with its samples, which are compiled where the feature `samples` is on.
#[cfg(feature = "samples")]
#[macro_export]
#[doc(hidden)]
macro_rules! with_samples {
    ($op:expr $(, $samples:expr)?) => { $op$(.samples($samples))? };
}
/// An operator without its samples, which are not compiled where the feature `samples` is off.
#[cfg(not(feature = "samples"))]
#[macro_export]
#[doc(hidden)]
macro_rules! with_samples {
    ($op:expr $(, $samples:expr)?) => {
        $op
    };
}

/// Makes tensors of one dtype with reproducible contents.
pub struct Maker {
    /// The dtype the examples are for.
    pub dtype: DType,
    state: u64,
}

impl Maker {
    /// For examples of `dtype`.
    pub fn new(dtype: DType) -> Maker {
        Maker { dtype, state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// The double precision of the dtype's kind.
    pub fn wide(&self) -> DType {
        if self.dtype.is_complex() { DType::Complex128 } else { DType::F64 }
    }

    /// The next number in [0, 1) (xorshift64*; Vigna, "An experimental exploration of Marsaglia's xorshift generators").
    pub fn unit(&mut self) -> f64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A tensor of the maker's dtype, uniform in `[low, high)`; integers are rounded down, and both parts of complex
    /// numbers are drawn.
    pub fn uniform(&mut self, sizes: &[i64], low: f64, high: f64) -> Tensor {
        self.uniform_of(self.dtype, sizes, low, high)
    }

    /// Like [`Maker::uniform`] for another dtype.
    ///
    /// # Panics
    /// Never for sizes a test would use: only if memory runs out.
    pub fn uniform_of(&mut self, dtype: DType, sizes: &[i64], low: f64, high: f64) -> Tensor {
        let n: i64 = sizes.iter().product();
        let mut draw = || low + (high - low) * self.unit();
        let t = crate::dispatch_dtype!(dtype, T => {
            let data: Vec<T> = (0..n)
                .map(|_| {
                    let (re, im) = (draw(), if T::DTYPE.is_complex() { draw() } else { 0.0 });
                    match T::DTYPE.is_complex() {
                        true => T::from_c128(crate::Complex::new(re, im)),
                        false if T::DTYPE == DType::Bool => T::from_bool(re > (low + high) / 2.0),
                        false if T::DTYPE.is_integral(false) => T::from_i64(re.floor() as i64),
                        false => T::from_f64(re),
                    }
                })
                .collect();
            Tensor::from_slice(&data)
        });
        match t.and_then(|t| t.reshape(sizes)) {
            Ok(t) => t,
            Err(e) => unreachable!("{e}"),
        }
    }

    /// Numbers of moderate size for any dtype: -3 to 3, or 0 to 6 where there is no sign.
    pub fn any(&mut self, sizes: &[i64]) -> Tensor {
        match self.dtype.is_signed() {
            true => self.uniform(sizes, -3.0, 3.0),
            false => self.uniform(sizes, 0.0, 6.0),
        }
    }

    /// 64-bit indices in `0..bound`.
    pub fn indices(&mut self, sizes: &[i64], bound: i64) -> Tensor {
        self.uniform_of(DType::I64, sizes, 0.0, bound as f64)
    }

    /// Booleans.
    pub fn mask(&mut self, sizes: &[i64]) -> Tensor {
        self.uniform_of(DType::Bool, sizes, 0.0, 1.0)
    }
}
