//! One number of any category, as an operator argument.

use crate::dtype::{Category, DType, Element};
use crate::{Result, ensure};
use num_complex::Complex;
use std::fmt;

/// A number that is not a tensor: it takes part in type promotion with its category only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// A real number.
    Float(f64),
    /// A complex number.
    Complex(Complex<f64>),
}

impl Scalar {
    /// Its category in type promotion.
    pub fn category(self) -> Category {
        match self {
            Scalar::Bool(_) => Category::Bool,
            Scalar::Int(_) | Scalar::UInt(_) => Category::Integer,
            Scalar::Float(_) => Category::Float,
            Scalar::Complex(_) => Category::Complex,
        }
    }
    /// As `f64`; a complex number gives its real part.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::UInt(u) => u as f64,
            Scalar::Float(f) => f,
            Scalar::Complex(c) => c.re,
        }
    }
    /// As `i64`, truncated and wrapped.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::UInt(u) => u as i64,
            Scalar::Float(f) => f as i64,
            Scalar::Complex(c) => c.re as i64,
        }
    }
    /// As a complex number.
    pub fn to_complex(self) -> Complex<f64> {
        match self {
            Scalar::Complex(c) => c,
            s => Complex::new(s.to_f64(), 0.0),
        }
    }
    /// Whether it is not zero.
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::UInt(u) => u != 0,
            Scalar::Float(f) => f != 0.0,
            Scalar::Complex(c) => c.re != 0.0 || c.im != 0.0,
        }
    }
    /// The number itself, if elements of `dtype` can stand for it: it is in their range (infinities and NaN only where the
    /// dtype has them), or negative and of at most the magnitude of the largest unsigned one, when it wraps.
    ///
    /// # Errors
    /// When they cannot.
    #[inline]
    pub fn fit(self, dtype: DType) -> Result<Scalar> {
        match self {
            Scalar::Bool(_) | Scalar::Int(0..=127) => Ok(self),
            _ => {
                ensure!(self.fits(dtype), "value cannot be converted to type {} without overflow", dtype.c_name());
                Ok(self)
            }
        }
    }
    /// The number as a half holds it; other dtypes leave it alone.
    #[inline]
    #[must_use]
    pub fn rounded(self, dtype: DType) -> Scalar {
        match dtype {
            DType::F16 => Scalar::Float(half::f16::from_scalar(self).to_f64()),
            DType::BF16 => Scalar::Float(half::bf16::from_scalar(self).to_f64()),
            _ => self,
        }
    }
    fn fits(self, dtype: DType) -> bool {
        let (least, most) = match dtype {
            DType::Bool => return true,
            DType::F16 => (-65504.0, 65504.0),
            DType::BF16 => (-half::bf16::MAX.to_f64(), half::bf16::MAX.to_f64()),
            DType::F32 | DType::Complex64 => (-f64::from(f32::MAX), f64::from(f32::MAX)),
            DType::F64 | DType::Complex128 => (f64::MIN, f64::MAX),
            _ => {
                let bits = 8 * dtype.size() as u32 - u32::from(dtype.is_signed());
                let most = (1i128 << bits) - 1;
                let least = if dtype.is_signed() { -most - 1 } else { 0 };
                match self {
                    Scalar::Int(i) if least == 0 => return i128::from(i).abs() <= most,
                    Scalar::Int(i) => return (least..=most).contains(&i128::from(i)),
                    Scalar::UInt(u) => return i128::from(u) <= most,
                    _ => (least as f64, most as f64),
                }
            }
        };
        let special = !dtype.is_integral(true);
        let inside = |x: f64| (x >= least && x <= most) || (special && !x.is_finite());
        match self {
            Scalar::Complex(c) => inside(c.re) && if dtype.is_complex() { inside(c.im) } else { c.im == 0.0 },
            s => inside(s.to_f64()),
        }
    }
    /// Whether it is complex.
    pub fn is_complex(self) -> bool {
        matches!(self, Scalar::Complex(_))
    }
    /// The complex conjugate; real numbers give themselves.
    #[must_use]
    pub fn conj(self) -> Scalar {
        match self {
            Scalar::Complex(c) => Scalar::Complex(c.conj()),
            s => s,
        }
    }
    /// `self * other` in the wider category (integers wrap).
    #[must_use]
    pub fn times(self, other: Scalar) -> Scalar {
        match self.category().max(other.category()) {
            Category::Bool | Category::Integer => Scalar::Int(self.to_i64().wrapping_mul(other.to_i64())),
            Category::Float => Scalar::Float(self.to_f64() * other.to_f64()),
            Category::Complex => Scalar::Complex(self.to_complex() * other.to_complex()),
        }
    }
    /// The negative.
    #[must_use]
    pub fn negated(self) -> Scalar {
        self.times(Scalar::Int(-1))
    }
}

impl fmt::Display for Scalar {
    /// As PyTorch prints a default value in a schema: `1`, `0.5`, `True`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(true) => f.write_str("True"),
            Scalar::Bool(false) => f.write_str("False"),
            Scalar::Int(i) => write!(f, "{i}"),
            Scalar::UInt(u) => write!(f, "{u}"),
            Scalar::Float(x) => write!(f, "{x:?}"),
            Scalar::Complex(c) => write!(f, "({:?}{:+?}j)", c.re, c.im),
        }
    }
}

macro_rules! from_number {
    ($($t:ty => |$x:ident| $e:expr;)*) => { $(
        impl From<$t> for Scalar {
            #[inline(always)]
            fn from($x: $t) -> Scalar { $e }
        }
    )* };
}
from_number! {
    bool => |x| Scalar::Bool(x);
    u8 => |x| Scalar::Int(x as i64);
    u16 => |x| Scalar::Int(x as i64);
    u32 => |x| Scalar::Int(x as i64);
    u64 => |x| if x > i64::MAX as u64 { Scalar::UInt(x) } else { Scalar::Int(x as i64) };
    usize => |x| Scalar::from(x as u64);
    i8 => |x| Scalar::Int(x as i64);
    i16 => |x| Scalar::Int(x as i64);
    i32 => |x| Scalar::Int(x as i64);
    i64 => |x| Scalar::Int(x);
    f32 => |x| Scalar::Float(x as f64);
    f64 => |x| Scalar::Float(x);
    half::f16 => |x| Scalar::Float(x.to_f64());
    half::bf16 => |x| Scalar::Float(x.to_f64());
    Complex<f32> => |x| Scalar::Complex(Complex::new(x.re as f64, x.im as f64));
    Complex<f64> => |x| Scalar::Complex(x);
}
