//! Bessel functions, modified ones, and Airy's.

use crate::pointwise::scalar_params;
use crate::promotion::Promotion;
use crate::samples::{Maker, Sample};
use crate::{Op, Tensor, sample};
use flambeau_cpu::math::special::bessel;

fn positive(m: &mut Maker) -> Vec<Sample> {
    if m.dtype.is_complex() { vec![] } else { vec![sample![m.uniform(&[2, 3], 1.0, 12.0)]] }
}

/// Functions of a real tensor that PyTorch does not differentiate, computed in doubles, or by a form for common numbers.
macro_rules! bessels {
    ($($(#[doc = $doc:expr])* fn $name:ident, $out:ident, $arg:literal, $cpu_name:literal = { $($strips:tt)* };)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor ", $arg, ") -> Tensor"),
                Out OUT: concat!(stringify!($name), ".out(Tensor ", $arg, ", *, Tensor(a!) out) -> Tensor(a!)");
            pointwise!(1, Promotion::Float, scalar_params, $cpu_name; floats rare $($strips)*;);
            samples: positive;
            ulp: 4.0;
            fn $name(&self) -> Tensor [self];
            out fn $out(&self) [self] in OUT;
        }
    )* };
}

bessels! {
    /// Airy's function Ai.
    fn special_airy_ai, special_airy_ai_out, "x", "airy_ai_cpu" = { |x| T::from_f64(bessel::airy_ai(x.to_f64())) };
    /// The Bessel function of the first kind of order 0.
    fn special_bessel_j0, special_bessel_j0_out, "self", "bessel_j0_cpu" =
        { |x| => x.bessel_j0_common::<I>(), if x.is_common_bessel(), else T::from_f64(bessel::j0(x.to_f64())) };
    /// The Bessel function of the first kind of order 1.
    fn special_bessel_j1, special_bessel_j1_out, "self", "bessel_j1_cpu" =
        { |x| => x.bessel_j1_common::<I>(), if x.is_common_bessel(), else T::from_f64(bessel::j1(x.to_f64())) };
    /// The Bessel function of the second kind of order 0.
    fn special_bessel_y0, special_bessel_y0_out, "self", "bessel_y0_cpu" =
        { |x| => x.bessel_y0_common::<I>(), if (x > T::ZERO) & x.is_common_bessel(), else T::from_f64(bessel::y0(x.to_f64())) };
    /// The Bessel function of the second kind of order 1.
    fn special_bessel_y1, special_bessel_y1_out, "self", "bessel_y1_cpu" =
        { |x| => x.bessel_y1_common::<I>(), if (x > T::ZERO) & x.is_common_bessel(), else T::from_f64(bessel::y1(x.to_f64())) };
    /// The modified Bessel function of the first kind of order 0.
    fn special_modified_bessel_i0, special_modified_bessel_i0_out, "self", "modified_bessel_i0_cpu" = { |x| x.i0::<I>() };
    /// The modified Bessel function of the first kind of order 1.
    fn special_modified_bessel_i1, special_modified_bessel_i1_out, "self", "modified_bessel_i1_cpu" = { |x| x.i1::<I>() };
    /// The modified Bessel function of the second kind of order 0.
    fn special_modified_bessel_k0, special_modified_bessel_k0_out, "self", "modified_bessel_k0_cpu" =
        { |x| => x.bessel_k_common::<I>(false, false), if x.is_common_modified(), else T::from_f64(bessel::k0(x.to_f64())) };
    /// The modified Bessel function of the second kind of order 1.
    fn special_modified_bessel_k1, special_modified_bessel_k1_out, "self", "modified_bessel_k1_cpu" =
        { |x| => x.bessel_k_common::<I>(true, false), if x.is_common_modified(), else T::from_f64(bessel::k1(x.to_f64())) };
    /// `exp(x)` times the modified Bessel function of the second kind of order 0.
    fn special_scaled_modified_bessel_k0, special_scaled_modified_bessel_k0_out, "x", "scaled_modified_bessel_k0_cpu" =
        { |x| => x.bessel_k_common::<I>(false, true), if x.is_common_modified(), else T::from_f64(bessel::scaled_k0(x.to_f64())) };
    /// `exp(x)` times the modified Bessel function of the second kind of order 1.
    fn special_scaled_modified_bessel_k1, special_scaled_modified_bessel_k1_out, "x", "scaled_modified_bessel_k1_cpu" =
        { |x| => x.bessel_k_common::<I>(true, true), if x.is_common_modified(), else T::from_f64(bessel::scaled_k1(x.to_f64())) };
    /// The spherical Bessel function of the first kind of order 0: `sin(x) / x`, 1 at 0.
    fn special_spherical_bessel_j0, special_spherical_bessel_j0_out, "x", "spherical_bessel_j0_cpu" = { |x| T::from_f64(bessel::spherical_j0(x.to_f64())) };
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    special_airy_ai::ALL,
    special_bessel_j0::ALL,
    special_bessel_j1::ALL,
    special_bessel_y0::ALL,
    special_bessel_y1::ALL,
    special_modified_bessel_i0::ALL,
    special_modified_bessel_i1::ALL,
    special_modified_bessel_k0::ALL,
    special_modified_bessel_k1::ALL,
    special_scaled_modified_bessel_k0::ALL,
    special_scaled_modified_bessel_k1::ALL,
    special_spherical_bessel_j0::ALL,
];
