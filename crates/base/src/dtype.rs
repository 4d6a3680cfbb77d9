//! Element types: the fifteen dtypes, their properties, PyTorch's promotion lattice, and element conversion.

use crate::Scalar;
use crate::halves::{bf16_from_f32, bf16_to_f32, f16_from_f32, f16_to_f32};
use num_complex::Complex;
use std::fmt;

pub use half::{bf16, f16};

/// A boolean element: one byte, zero is false and everything else is true.
///
/// Not Rust's `bool`, because a view of a byte tensor as booleans may hold any byte.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// The Rust value.
    #[inline(always)]
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    #[inline(always)]
    fn from(b: bool) -> Bool {
        Bool(b as u8)
    }
}

impl PartialEq for Bool {
    #[inline(always)]
    fn eq(&self, other: &Bool) -> bool {
        self.get() == other.get()
    }
}

impl PartialOrd for Bool {
    #[inline(always)]
    fn partial_cmp(&self, other: &Bool) -> Option<std::cmp::Ordering> {
        self.get().partial_cmp(&other.get())
    }
}

impl fmt::Debug for Bool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum DType {
    Bool = 0,
    U8 = 1,
    U16 = 2,
    U32 = 3,
    U64 = 4,
    I8 = 5,
    I16 = 6,
    I32 = 7,
    I64 = 8,
    F16 = 9,
    BF16 = 10,
    F32 = 11,
    F64 = 12,
    Complex64 = 13,
    Complex128 = 14,
}

/// The coarse class of a dtype, in promotion order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// `bool`.
    Bool,
    /// Every integer dtype.
    Integer,
    /// Every real floating-point dtype.
    Float,
    /// Both complex dtypes.
    Complex,
}

use DType::{BF16, Complex64, Complex128, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

impl DType {
    /// Every dtype, in numeric order.
    pub const ALL: [DType; 15] =
        [DType::Bool, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, Complex64, Complex128];

    /// Bytes per element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | U8 | I8 => 1,
            U16 | I16 | F16 | BF16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 | Complex64 => 8,
            Complex128 => 16,
        }
    }

    /// PyTorch's name (`float32`).
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            U8 => "uint8",
            U16 => "uint16",
            U32 => "uint32",
            U64 => "uint64",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            F16 => "float16",
            BF16 => "bfloat16",
            F32 => "float32",
            F64 => "float64",
            Complex64 => "complex64",
            Complex128 => "complex128",
        }
    }

    /// The name PyTorch's C++ messages use (`Float`, `Long`).
    pub const fn scalar_type_name(self) -> &'static str {
        match self {
            DType::Bool => "Bool",
            U8 => "Byte",
            U16 => "UInt16",
            U32 => "UInt32",
            U64 => "UInt64",
            I8 => "Char",
            I16 => "Short",
            I32 => "Int",
            I64 => "Long",
            F16 => "Half",
            BF16 => "BFloat16",
            F32 => "Float",
            F64 => "Double",
            Complex64 => "ComplexFloat",
            Complex128 => "ComplexDouble",
        }
    }

    /// The C++ type of elements, as some of PyTorch's messages have it.
    pub const fn cpp_name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            U8 => "unsigned char",
            U16 => "short unsigned int",
            U32 => "unsigned int",
            U64 => "long unsigned int",
            I8 => "signed char",
            I16 => "short int",
            I32 => "int",
            I64 => "long int",
            F16 => "c10::Half",
            BF16 => "c10::BFloat16",
            F32 => "float",
            F64 => "double",
            Complex64 => "c10::complex<float>",
            Complex128 => "c10::complex<double>",
        }
    }

    /// The C type of elements, as PyTorch's messages about numbers have it.
    pub const fn c_name(self) -> &'static str {
        match self {
            U8 => "uint8_t",
            U16 => "uint16_t",
            U32 => "uint32_t",
            U64 => "uint64_t",
            I8 => "int8_t",
            I16 => "int16_t",
            I64 => "int64_t",
            d => d.cpp_name(),
        }
    }

    /// The dtype called `name` (`float32`, also `torch.float32`, `float`, `long`, `half`, ...).
    pub fn by_name(name: &str) -> Option<DType> {
        let name = name.strip_prefix("torch.").unwrap_or(name);
        Some(match name {
            "float" => F32,
            "double" => F64,
            "half" => F16,
            "long" => I64,
            "int" => I32,
            "short" => I16,
            "cfloat" => Complex64,
            "cdouble" => Complex128,
            _ => return DType::ALL.into_iter().find(|d| d.name() == name),
        })
    }

    /// The coarse class.
    #[inline]
    pub const fn category(self) -> Category {
        match self {
            DType::Bool => Category::Bool,
            U8 | U16 | U32 | U64 | I8 | I16 | I32 | I64 => Category::Integer,
            F16 | BF16 | F32 | F64 => Category::Float,
            Complex64 | Complex128 => Category::Complex,
        }
    }

    /// Whether it is a real floating-point dtype.
    #[inline]
    pub const fn is_floating_point(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64)
    }

    /// Whether it is complex.
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self, Complex64 | Complex128)
    }

    /// Whether it is an integer dtype; `bool` counts only if `include_bool`.
    #[inline]
    pub const fn is_integral(self, include_bool: bool) -> bool {
        matches!(self, U8 | U16 | U32 | U64 | I8 | I16 | I32 | I64) || (include_bool && matches!(self, DType::Bool))
    }

    /// Whether it has a sign.
    pub const fn is_signed(self) -> bool {
        !matches!(self, DType::Bool | U8 | U16 | U32 | U64)
    }

    /// Whether a tensor of it can require a gradient: floating-point or complex.
    #[inline]
    pub const fn is_differentiable(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64 | Complex64 | Complex128)
    }

    /// The integer dtype of the same size with signs; other dtypes stay.
    pub const fn to_signed(self) -> DType {
        match self {
            DType::U8 => DType::I8,
            DType::U16 => DType::I16,
            DType::U32 => DType::I32,
            DType::U64 => DType::I64,
            other => other,
        }
    }

    /// The real dtype of a complex one's parts; real dtypes give themselves.
    #[inline]
    pub const fn to_real(self) -> DType {
        match self {
            Complex64 => F32,
            Complex128 => F64,
            d => d,
        }
    }

    /// The complex dtype that a real one's values fit; integers take complex64 (`f16` too: there is no complex32).
    #[inline]
    pub const fn to_complex(self) -> DType {
        match self {
            F64 | Complex128 => Complex128,
            _ => Complex64,
        }
    }

    /// The dtype arithmetic is done in: halves compute in `f32`, all others in themselves.
    #[inline]
    pub const fn compute(self) -> DType {
        match self {
            F16 | BF16 => F32,
            d => d,
        }
    }

    /// The smallest dtype that both promote to, by PyTorch's lattice.
    ///
    /// PyTorch refuses some pairs with u16, u32 and u64; here they promote as in the array API standard: two unsigned
    /// to the wider one, unsigned with signed to the next wider signed one (u64 with signed: `f32`, as NumPy's rule
    /// with Flambeau's default float).
    pub const fn promote(self, other: DType) -> DType {
        let (a, b) = if (self as u8) <= (other as u8) { (self, other) } else { (other, self) };
        if a as u8 == b as u8 {
            return a;
        }
        match (a, b) {
            (DType::Bool, b) => b,
            // unsigned with unsigned: the wider
            (U8 | U16 | U32, U16 | U32 | U64) => b,
            // unsigned with signed: a signed type that holds both
            (U8, I8) => I16,
            (U8, _) => b,
            (U16, I8 | I16) => I32,
            (U16, _) => b,
            (U32, I8 | I16 | I32) => I64,
            (U32, _) => b,
            (U64, I8 | I16 | I32 | I64) => F32,
            (U64, _) => b,
            (I8 | I16 | I32 | I64, _) => b,
            (F16, BF16) => F32,
            (F16 | BF16 | F32, F32 | F64 | Complex64 | Complex128) => b,
            (F64, Complex64) => Complex128,
            (_, b) => b,
        }
    }

    /// Whether a result computed in `self` may be written to an output of dtype `to` (PyTorch's `can_cast`): complex
    /// never to real, float never to integer, and nothing but `bool` to `bool`.
    pub fn can_cast(self, to: DType) -> bool {
        self.category() <= to.category() || self.category() == to.category()
    }

    /// The scalar's own dtype category as a dtype, given the default float dtype.
    pub fn of_scalar(s: &Scalar, default_float: DType) -> DType {
        match s {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => I64,
            Scalar::UInt(_) => U64,
            Scalar::Float(_) => default_float,
            Scalar::Complex(_) => default_float.to_complex(),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that a tensor can hold.
///
/// The conversions follow PyTorch on x86: a float outside an integer's range gives what `cvttss2si` gives and is then
/// wrapped, complex to real drops the imaginary part, and everything but zero is true.
///
/// # Safety
/// `DTYPE.size()` must be the type's size, and every bit pattern must be a valid value.
pub unsafe trait Element: Copy + Send + Sync + PartialEq + Default + fmt::Debug + 'static {
    /// The dtype of this type.
    const DTYPE: DType;
    /// The type arithmetic is done in (`f32` for the halves, itself for the others).
    type Compute: Element;
    /// As `f64` (complex: the real part).
    fn to_f64(self) -> f64;
    /// As `f32`, rounded once.
    fn to_f32(self) -> f32;
    /// As `i64`, wrapping.
    fn to_i64(self) -> i64;
    /// As a complex number.
    fn to_c128(self) -> Complex<f64>;
    /// Whether it is not zero (NaN is true).
    fn to_bool(self) -> bool;
    /// From `f64`.
    fn from_f64(x: f64) -> Self;
    /// From `f32`.
    fn from_f32(x: f32) -> Self;
    /// From `i64`, wrapping.
    fn from_i64(x: i64) -> Self;
    /// From a complex number.
    fn from_c128(x: Complex<f64>) -> Self;
    /// From a boolean: one or zero.
    #[inline(always)]
    fn from_bool(x: bool) -> Self {
        Self::from_i64(x as i64)
    }
    /// From a scalar of any category.
    #[inline]
    fn from_scalar(s: Scalar) -> Self {
        match s {
            Scalar::Bool(b) => Self::from_bool(b),
            Scalar::Int(i) => Self::from_i64(i),
            Scalar::UInt(u) => cast::<u64, Self>(u),
            Scalar::Float(f) => Self::from_f64(f),
            Scalar::Complex(c) => Self::from_c128(c),
        }
    }
    /// As a scalar of this dtype's category.
    fn to_scalar(self) -> Scalar;
}

/// Converts one element to another type (PyTorch's `to`).
#[inline(always)]
pub fn cast<S: Element, D: Element>(s: S) -> D {
    if matches!(D::DTYPE, DType::Bool) {
        return D::from_bool(s.to_bool());
    }
    match (S::DTYPE.category(), D::DTYPE.category()) {
        (Category::Complex, Category::Complex) => D::from_c128(s.to_c128()),
        (Category::Bool, _) => D::from_bool(s.to_bool()),
        // u64 to float must not go through i64.
        (Category::Integer, Category::Integer) => D::from_i64(s.to_i64()),
        (_, _) if matches!(D::DTYPE, F16 | BF16 | F32) && !matches!(S::DTYPE, F64 | Complex128) => {
            D::from_f32(s.to_f32())
        }
        _ => D::from_f64(s.to_f64()),
    }
}

/// `x` truncated as the x86 instruction does it: out of range and NaN give `i64::MIN`.
#[inline(always)]
fn truncate_i64(x: f64) -> i64 {
    match (-9223372036854775808.0..9223372036854775808.0).contains(&x) {
        // SAFETY: in range, and not NaN. (`as` would check again.)
        true => unsafe { x.to_int_unchecked() },
        false => i64::MIN,
    }
}

/// `x` truncated to 32 bits as the x86 instruction does it: out of range and NaN give `i32::MIN`.
#[inline(always)]
fn truncate_i32(x: f64) -> i32 {
    match x > -2147483649.0 && x < 2147483648.0 {
        // SAFETY: as above.
        true => unsafe { x.to_int_unchecked() },
        false => i32::MIN,
    }
}

macro_rules! integer_element {
    ($($t:ty, $dtype:ident, |$x:ident| $from:expr;)*) => { $(
        // SAFETY: an integer of the dtype's size; every bit pattern is valid.
        unsafe impl Element for $t {
            const DTYPE: DType = $dtype;
            type Compute = $t;
            #[inline(always)] fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)] fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)] fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)] fn to_c128(self) -> Complex<f64> { Complex::new(self as f64, 0.0) }
            #[inline(always)] fn to_bool(self) -> bool { self != 0 }
            #[inline(always)] fn from_f64($x: f64) -> Self { $from }
            #[inline(always)] fn from_f32(x: f32) -> Self { Self::from_f64(x as f64) }
            #[inline(always)] fn from_i64(x: i64) -> Self { x as $t }
            #[inline(always)] fn from_c128(x: Complex<f64>) -> Self { Self::from_f64(x.re) }
            #[inline(always)] fn to_scalar(self) -> Scalar { Scalar::from(self) }
        }
    )* };
}
integer_element! {
    u8, U8, |x| truncate_i32(x) as u8;
    u16, U16, |x| truncate_i32(x) as u16;
    u32, U32, |x| truncate_i64(x) as u32;
    u64, U64, |x| if x >= 9223372036854775808.0 { x as u64 } else { truncate_i64(x) as u64 };
    i8, I8, |x| truncate_i32(x) as i8;
    i16, I16, |x| truncate_i32(x) as i16;
    i32, I32, |x| truncate_i32(x);
    i64, I64, |x| truncate_i64(x);
}

// SAFETY: one byte; every bit pattern is valid (see the type).
unsafe impl Element for self::Bool {
    const DTYPE: DType = DType::Bool;
    type Compute = self::Bool;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.get() as u8 as f64
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.get() as u8 as f32
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.get() as i64
    }
    #[inline(always)]
    fn to_c128(self) -> Complex<f64> {
        Complex::new(self.to_f64(), 0.0)
    }
    #[inline(always)]
    fn to_bool(self) -> bool {
        self.get()
    }
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        (x != 0.0).into()
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        (x != 0.0).into()
    }
    #[inline(always)]
    fn from_i64(x: i64) -> Self {
        (x != 0).into()
    }
    #[inline(always)]
    fn from_c128(x: Complex<f64>) -> Self {
        x.to_bool().into()
    }
    #[inline(always)]
    fn to_scalar(self) -> Scalar {
        Scalar::Bool(self.get())
    }
}

macro_rules! float_element {
    ($($t:ty, $dtype:ident, $compute:ty, |$a:ident| $to32:expr, |$b:ident| $to64:expr,
       |$c:ident| $from32:expr, |$d:ident| $from64:expr;)*) => { $(
        // SAFETY: a float of the dtype's size; every bit pattern is valid.
        unsafe impl Element for $t {
            const DTYPE: DType = $dtype;
            type Compute = $compute;
            #[inline(always)] fn to_f32(self) -> f32 { let $a = self; $to32 }
            #[inline(always)] fn to_f64(self) -> f64 { let $b = self; $to64 }
            #[inline(always)] fn to_i64(self) -> i64 { truncate_i64(self.to_f64()) }
            #[inline(always)] fn to_c128(self) -> Complex<f64> { Complex::new(self.to_f64(), 0.0) }
            #[inline(always)] fn to_bool(self) -> bool { self.to_f64() != 0.0 }
            #[inline(always)] fn from_f32($c: f32) -> Self { $from32 }
            #[inline(always)] fn from_f64($d: f64) -> Self { $from64 }
            #[inline(always)] fn from_i64(x: i64) -> Self { Self::from_f64(x as f64) }
            #[inline(always)] fn from_c128(x: Complex<f64>) -> Self { Self::from_f64(x.re) }
            #[inline(always)] fn to_scalar(self) -> Scalar { Scalar::Float(self.to_f64()) }
        }
    )* };
}
// A double narrows to a half through f32, rounding twice, as PyTorch's constructors do.
float_element! {
    f16, F16, f32, |x| f16_to_f32(x), |x| f16_to_f32(x) as f64, |x| f16_from_f32(x), |x| f16_from_f32(x as f32);
    bf16, BF16, f32, |x| bf16_to_f32(x), |x| bf16_to_f32(x) as f64, |x| bf16_from_f32(x), |x| bf16_from_f32(x as f32);
    f32, F32, f32, |x| x, |x| x as f64, |x| x, |x| x as f32;
    f64, F64, f64, |x| x as f32, |x| x, |x| x as f64, |x| x;
}

macro_rules! complex_element {
    ($($t:ty, $dtype:ident;)*) => { $(
        // SAFETY: two floats, `repr(C)`; every bit pattern is valid.
        unsafe impl Element for Complex<$t> {
            const DTYPE: DType = $dtype;
            type Compute = Complex<$t>;
            #[inline(always)] fn to_f32(self) -> f32 { self.re as f32 }
            #[inline(always)] fn to_f64(self) -> f64 { self.re as f64 }
            #[inline(always)] fn to_i64(self) -> i64 { truncate_i64(self.re as f64) }
            #[inline(always)] fn to_c128(self) -> Complex<f64> { Complex::new(self.re as f64, self.im as f64) }
            #[inline(always)] fn to_bool(self) -> bool { self.re != 0.0 || self.im != 0.0 }
            #[inline(always)] fn from_f32(x: f32) -> Self { Complex::new(x as $t, 0.0) }
            #[inline(always)] fn from_f64(x: f64) -> Self { Complex::new(x as $t, 0.0) }
            #[inline(always)] fn from_i64(x: i64) -> Self { Complex::new(x as $t, 0.0) }
            #[inline(always)] fn from_c128(x: Complex<f64>) -> Self { Complex::new(x.re as $t, x.im as $t) }
            #[inline(always)] fn to_scalar(self) -> Scalar { Scalar::Complex(self.to_c128()) }
        }
    )* };
}
complex_element! { f32, Complex64; f64, Complex128; }

/// Runs an expression with a type parameter bound to the Rust type of a dtype: the second dispatch, done once and late.
///
/// `dispatch!(dtype, T => expr)` covers every dtype; `dispatch!(dtype, T in [ints, floats] => expr; else other)` only
/// the named groups (`bool`, `ints`, `signed` (of these), `halves`, `reals` (f32 and f64), `floats` (halves and reals),
/// `complexes`).
#[macro_export]
macro_rules! dispatch {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch!($dtype, $T in [bool, ints, floats, complexes] => $body; else unreachable!())
    };
    ($dtype:expr, $T:ident in [$($group:ident),*] => $body:expr; else $other:expr) => {
        'dispatch: {
            $( $crate::dispatch!(@$group 'dispatch, $dtype, $T, $body); )*
            #[allow(unreachable_code)]
            { $other }
        }
    };
    (@bool $l:lifetime, $d:expr, $T:ident, $b:expr) => {
        $crate::dispatch!(@arms $l, $d, $T, $b, [Bool $crate::Bool])
    };
    (@ints $l:lifetime, $d:expr, $T:ident, $b:expr) => {
        $crate::dispatch!(@arms $l, $d, $T, $b, [U8 u8] [U16 u16] [U32 u32] [U64 u64] [I8 i8] [I16 i16] [I32 i32] [I64 i64])
    };
    (@signed $l:lifetime, $d:expr, $T:ident, $b:expr) => {
        $crate::dispatch!(@arms $l, $d, $T, $b, [I8 i8] [I16 i16] [I32 i32] [I64 i64])
    };
    (@halves $l:lifetime, $d:expr, $T:ident, $b:expr) => {
        $crate::dispatch!(@arms $l, $d, $T, $b, [F16 $crate::f16] [BF16 $crate::bf16])
    };
    (@reals $l:lifetime, $d:expr, $T:ident, $b:expr) => {
        $crate::dispatch!(@arms $l, $d, $T, $b, [F32 f32] [F64 f64])
    };
    (@floats $l:lifetime, $d:expr, $T:ident, $b:expr) => {
        $crate::dispatch!(@arms $l, $d, $T, $b, [F16 $crate::f16] [BF16 $crate::bf16] [F32 f32] [F64 f64])
    };
    (@complexes $l:lifetime, $d:expr, $T:ident, $b:expr) => {
        $crate::dispatch!(@arms $l, $d, $T, $b, [Complex64 $crate::Complex<f32>] [Complex128 $crate::Complex<f64>])
    };
    (@arms $l:lifetime, $d:expr, $T:ident, $b:expr, $([$variant:ident $t:ty])*) => {
        match $d {
            $( $crate::DType::$variant => { #[allow(dead_code)] type $T = $t; break $l $b; } )*
            #[allow(unreachable_patterns)]
            _ => {}
        }
    };
}
