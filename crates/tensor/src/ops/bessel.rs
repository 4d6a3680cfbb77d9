//! Bessel functions, modified ones, and Airy's.

use crate::pointwise::scalar_params;
use crate::promotion::Promotion;
use crate::samples::{Maker, Sample};
use crate::{Op, Tensor, sample};
use flambeau_cpu::math::special::{bessel, i0, i1};

fn positive(m: &mut Maker) -> Vec<Sample> {
    if m.dtype.is_complex() { vec![] } else { vec![sample![m.uniform(&[2, 3], 1.0, 12.0)]] }
}

/// Functions of a real tensor that PyTorch does not differentiate, computed in doubles.
macro_rules! bessels {
    ($($(#[doc = $doc:expr])* fn $name:ident, $out:ident, $arg:literal, $cpu_name:literal = $function:path;)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor ", $arg, ") -> Tensor"),
                Out OUT: concat!(stringify!($name), ".out(Tensor ", $arg, ", *, Tensor(a!) out) -> Tensor(a!)");
            pointwise!(1, Promotion::Float, scalar_params, $cpu_name; floats |x| T::from_f64($function(x.to_f64())););
            samples: positive;
            ulp: 4.0;
            fn $name(&self) -> Tensor [self];
            out fn $out(&self) [self] in OUT;
        }
    )* };
}

bessels! {
    /// Airy's function Ai.
    fn special_airy_ai, special_airy_ai_out, "x", "airy_ai_cpu" = bessel::airy_ai;
    /// The Bessel function of the first kind of order 0.
    fn special_bessel_j0, special_bessel_j0_out, "self", "bessel_j0_cpu" = bessel::j0;
    /// The Bessel function of the first kind of order 1.
    fn special_bessel_j1, special_bessel_j1_out, "self", "bessel_j1_cpu" = bessel::j1;
    /// The Bessel function of the second kind of order 0.
    fn special_bessel_y0, special_bessel_y0_out, "self", "bessel_y0_cpu" = bessel::y0;
    /// The Bessel function of the second kind of order 1.
    fn special_bessel_y1, special_bessel_y1_out, "self", "bessel_y1_cpu" = bessel::y1;
    /// The modified Bessel function of the first kind of order 0.
    fn special_modified_bessel_i0, special_modified_bessel_i0_out, "self", "modified_bessel_i0_cpu" = i0;
    /// The modified Bessel function of the first kind of order 1.
    fn special_modified_bessel_i1, special_modified_bessel_i1_out, "self", "modified_bessel_i1_cpu" = i1;
    /// The modified Bessel function of the second kind of order 0.
    fn special_modified_bessel_k0, special_modified_bessel_k0_out, "self", "modified_bessel_k0_cpu" = bessel::k0;
    /// The modified Bessel function of the second kind of order 1.
    fn special_modified_bessel_k1, special_modified_bessel_k1_out, "self", "modified_bessel_k1_cpu" = bessel::k1;
    /// `exp(x)` times the modified Bessel function of the second kind of order 0.
    fn special_scaled_modified_bessel_k0, special_scaled_modified_bessel_k0_out, "x", "scaled_modified_bessel_k0_cpu" = bessel::scaled_k0;
    /// `exp(x)` times the modified Bessel function of the second kind of order 1.
    fn special_scaled_modified_bessel_k1, special_scaled_modified_bessel_k1_out, "x", "scaled_modified_bessel_k1_cpu" = bessel::scaled_k1;
    /// The spherical Bessel function of the first kind of order 0: `sin(x) / x`, 1 at 0.
    fn special_spherical_bessel_j0, special_spherical_bessel_j0_out, "x", "spherical_bessel_j0_cpu" = bessel::spherical_j0;
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
