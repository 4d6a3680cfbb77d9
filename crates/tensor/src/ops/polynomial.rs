//! Orthogonal polynomials.

use crate::pointwise::scalar_params;
use crate::promotion::Promotion;
use crate::samples::{Maker, Sample};
use crate::{IntoOperand, Op, Tensor, sample};
use flambeau_cpu::math::special::polynomial::{self, Kind, chebyshev, chebyshev_low, is_low, shifted};

fn samples(m: &mut Maker) -> Vec<Sample> {
    if m.dtype.is_complex() {
        return vec![];
    }
    vec![sample![m.uniform(&[2, 3], 0.0, 1.5), m.uniform(&[3], 0.0, 12.0)]]
}

/// Polynomials in `x` of order `n`, which PyTorch does not differentiate.
macro_rules! polynomials {
    ($($(#[doc = $doc:expr])* fn $name:ident, $out:ident, $cpu_name:literal = |$x:ident, $n:ident| { $($form:tt)* };)*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor x, Tensor n) -> Tensor"),
                Out OUT: concat!(stringify!($name), ".out(Tensor x, Tensor n, *, Tensor(a!) out) -> Tensor(a!)"),
                Overload N_SCALAR: concat!(stringify!($name), ".n_scalar(Tensor x, Scalar n) -> Tensor"),
                Out N_SCALAR_OUT: concat!(stringify!($name), ".n_scalar_out(Tensor x, Scalar n, *, Tensor(a!) out) -> Tensor(a!)"),
                Overload X_SCALAR: concat!(stringify!($name), ".x_scalar(Scalar x, Tensor n) -> Tensor"),
                Out X_SCALAR_OUT: concat!(stringify!($name), ".x_scalar_out(Scalar x, Tensor n, *, Tensor(a!) out) -> Tensor(a!)");
            pointwise!(2, Promotion::Float, scalar_params, $cpu_name; floats costly rare |$x, $n| $($form)*;);
            samples: samples;
            // Beside a zero of the polynomial the recurrence has few digits.
            ulp: 1024.0;
            fn $name(&self, n: impl IntoOperand) -> Tensor [self, n.operand()];
            out fn $out(&self, n: impl IntoOperand) [self, n.operand()] in OUT;
        }
    )* };
}

polynomials! {
    /// Chebyshev's polynomial of the first kind.
    fn special_chebyshev_polynomial_t, special_chebyshev_polynomial_t_out, "chebyshev_polynomial_t_cpu" =
        |x, n| { => chebyshev_low::<I, T>(Kind::T, x, n), if is_low(n), else chebyshev(Kind::T, x, n) };
    /// Chebyshev's polynomial of the second kind.
    fn special_chebyshev_polynomial_u, special_chebyshev_polynomial_u_out, "chebyshev_polynomial_u_cpu" =
        |x, n| { => chebyshev_low::<I, T>(Kind::U, x, n), if is_low(n), else chebyshev(Kind::U, x, n) };
    /// Chebyshev's polynomial of the third kind.
    fn special_chebyshev_polynomial_v, special_chebyshev_polynomial_v_out, "chebyshev_polynomial_v_cpu" =
        |x, n| { => chebyshev_low::<I, T>(Kind::V, x, n), if is_low(n), else chebyshev(Kind::V, x, n) };
    /// Chebyshev's polynomial of the fourth kind.
    fn special_chebyshev_polynomial_w, special_chebyshev_polynomial_w_out, "chebyshev_polynomial_w_cpu" =
        |x, n| { => chebyshev_low::<I, T>(Kind::W, x, n), if is_low(n), else chebyshev(Kind::W, x, n) };
    /// Hermite's polynomial, as physicists define it.
    fn special_hermite_polynomial_h, special_hermite_polynomial_h_out, "hermite_polynomial_h_cpu" =
        |x, n| { => polynomial::hermite_h_low::<I, T>(x, n), if is_low(n), else polynomial::hermite_h(x, n) };
    /// Hermite's polynomial, as probabilists define it.
    fn special_hermite_polynomial_he, special_hermite_polynomial_he_out, "hermite_polynomial_he_cpu" =
        |x, n| { => polynomial::hermite_he_low::<I, T>(x, n), if is_low(n), else polynomial::hermite_he(x, n) };
    /// Laguerre's polynomial.
    fn special_laguerre_polynomial_l, special_laguerre_polynomial_l_out, "laguerre_polynomial_l_cpu" =
        |x, n| { => polynomial::laguerre_low::<I, T>(x, n), if is_low(n), else polynomial::laguerre(x, n) };
    /// Legendre's polynomial.
    fn special_legendre_polynomial_p, special_legendre_polynomial_p_out, "legendre_polynomial_p_cpu" =
        |x, n| { => polynomial::legendre_low::<I, T>(x, n), if is_low(n), else polynomial::legendre(x, n) };
    /// Chebyshev's polynomial of the first kind of `2 x - 1`.
    fn special_shifted_chebyshev_polynomial_t, special_shifted_chebyshev_polynomial_t_out, "shifted_chebyshev_polynomial_t_cpu" =
        |x, n| { => chebyshev_low::<I, T>(Kind::T, shifted(x), n), if is_low(n), else chebyshev(Kind::T, shifted(x), n) };
    /// Chebyshev's polynomial of the second kind of `2 x - 1`.
    fn special_shifted_chebyshev_polynomial_u, special_shifted_chebyshev_polynomial_u_out, "shifted_chebyshev_polynomial_u_cpu" =
        |x, n| { => chebyshev_low::<I, T>(Kind::U, shifted(x), n), if is_low(n), else chebyshev(Kind::U, shifted(x), n) };
    /// Chebyshev's polynomial of the third kind of `2 x - 1`.
    fn special_shifted_chebyshev_polynomial_v, special_shifted_chebyshev_polynomial_v_out, "shifted_chebyshev_polynomial_v_cpu" =
        |x, n| { => chebyshev_low::<I, T>(Kind::V, shifted(x), n), if is_low(n), else chebyshev(Kind::V, shifted(x), n) };
    /// Chebyshev's polynomial of the fourth kind of `2 x - 1`.
    fn special_shifted_chebyshev_polynomial_w, special_shifted_chebyshev_polynomial_w_out, "shifted_chebyshev_polynomial_w_cpu" =
        |x, n| { => chebyshev_low::<I, T>(Kind::W, shifted(x), n), if is_low(n), else chebyshev(Kind::W, shifted(x), n) };
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    special_chebyshev_polynomial_t::ALL,
    special_chebyshev_polynomial_u::ALL,
    special_chebyshev_polynomial_v::ALL,
    special_chebyshev_polynomial_w::ALL,
    special_hermite_polynomial_h::ALL,
    special_hermite_polynomial_he::ALL,
    special_laguerre_polynomial_l::ALL,
    special_legendre_polynomial_p::ALL,
    special_shifted_chebyshev_polynomial_t::ALL,
    special_shifted_chebyshev_polynomial_u::ALL,
    special_shifted_chebyshev_polynomial_v::ALL,
    special_shifted_chebyshev_polynomial_w::ALL,
];
