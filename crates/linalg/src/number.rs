//! What the algorithms of this crate need of a number.

use num_complex::Complex;
use num_traits::{Float, FromPrimitive, NumAssign, ToPrimitive};
use std::ops::Neg;

/// A real or complex number.
pub trait Number: Copy + NumAssign + Neg<Output = Self> + faer::traits::ComplexField + 'static {
    /// The real numbers of its precision.
    type Part: Float + NumAssign + FromPrimitive + ToPrimitive + faer::traits::RealField + Number<Part = Self::Part>;

    /// A real number as one of these.
    fn from_real(x: Self::Part) -> Self;
    /// From the parts; a real number has no use for the second.
    fn from_parts(re: f64, im: f64) -> Self;
    /// The real part.
    fn re(self) -> Self::Part;
    /// The imaginary part.
    fn im(self) -> Self::Part;
    /// The complex conjugate.
    fn conjugate(self) -> Self;

    /// The absolute value.
    fn size(self) -> Self::Part {
        self.re().hypot(self.im())
    }
    /// The sum of the parts' absolute values, by which LAPACK chooses pivots.
    fn rough_size(self) -> Self::Part {
        Float::abs(self.re()) + Float::abs(self.im())
    }
    /// Whether no part is infinite or NaN.
    fn is_regular(self) -> bool {
        Float::is_finite(self.re()) && Float::is_finite(self.im())
    }
    /// The square of the absolute value.
    fn size_squared(self) -> Self::Part {
        self.re() * self.re() + self.im() * self.im()
    }
    /// Times a real number.
    fn scaled(self, x: Self::Part) -> Self {
        self * Self::from_real(x)
    }
}

macro_rules! real {
    ($($t:ty)*) => { $(
        impl Number for $t {
            type Part = $t;
            fn from_real(x: $t) -> Self {
                x
            }
            fn from_parts(re: f64, _im: f64) -> Self {
                re as $t
            }
            fn re(self) -> $t {
                self
            }
            fn im(self) -> $t {
                0.0
            }
            fn conjugate(self) -> Self {
                self
            }
            fn size(self) -> $t {
                Float::abs(self)
            }
        }
        impl Number for Complex<$t> {
            type Part = $t;
            fn from_real(x: $t) -> Self {
                Complex::new(x, 0.0)
            }
            fn from_parts(re: f64, im: f64) -> Self {
                Complex::new(re as $t, im as $t)
            }
            fn re(self) -> $t {
                self.re
            }
            fn im(self) -> $t {
                self.im
            }
            fn conjugate(self) -> Self {
                self.conj()
            }
            fn scaled(self, x: $t) -> Self {
                self * x
            }
        }
    )* };
}
real! { f32 f64 }

/// The same number in another precision.
pub(crate) fn convert<S: Number, D: Number>(x: S) -> D {
    let part = |x: S::Part| x.to_f64().unwrap_or(f64::NAN);
    D::from_parts(part(x.re()), part(x.im()))
}
