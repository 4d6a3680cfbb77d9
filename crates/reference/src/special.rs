//! The table of special functions: names and what computes them. The results are doubles to the last place or two.

use crate::pointwise::Real;
use crate::polynomial::Kind;
use crate::{bessel, gamma, normal, polynomial};

pub(crate) const REAL: &[Real] = &[
    // One operand, and the order of a derivative.
    ("digamma", 1, |a| gamma::digamma(a[0])),
    ("_polygamma", 1, |a| gamma::polygamma(a[1], a[0])),
    ("erfinv", 1, |a| normal::erfinv(a[0])),
    ("special_erfcx", 1, |a| normal::erfcx(a[0])),
    ("special_log_ndtr", 1, |a| normal::log_ndtr(a[0])),
    ("special_ndtri", 1, |a| normal::ndtri(a[0])),
    ("i0", 1, |a| bessel::i(0, a[0], false)),
    ("special_i0e", 1, |a| bessel::i(0, a[0], true)),
    ("special_i1", 1, |a| bessel::i(1, a[0], false)),
    ("special_i1e", 1, |a| bessel::i(1, a[0], true)),
    ("special_airy_ai", 1, |a| bessel::airy_ai(a[0])),
    ("special_bessel_j0", 1, |a| bessel::j(0, a[0])),
    ("special_bessel_j1", 1, |a| bessel::j(1, a[0])),
    ("special_bessel_y0", 1, |a| bessel::y(0, a[0])),
    ("special_bessel_y1", 1, |a| bessel::y(1, a[0])),
    ("special_modified_bessel_i0", 1, |a| bessel::i(0, a[0], false)),
    ("special_modified_bessel_i1", 1, |a| bessel::i(1, a[0], false)),
    ("special_modified_bessel_k0", 1, |a| bessel::k(0, a[0], false)),
    ("special_modified_bessel_k1", 1, |a| bessel::k(1, a[0], false)),
    ("special_scaled_modified_bessel_k0", 1, |a| bessel::k(0, a[0], true)),
    ("special_scaled_modified_bessel_k1", 1, |a| bessel::k(1, a[0], true)),
    ("special_spherical_bessel_j0", 1, |a| bessel::spherical_j0(a[0])),
    // Two operands.
    ("igamma", 2, |a| gamma::igamma(a[0], a[1])),
    ("igammac", 2, |a| gamma::igammac(a[0], a[1])),
    ("special_zeta", 2, |a| gamma::zeta(a[0], a[1])),
    ("_standard_gamma_grad", 2, |a| gamma::gamma_slope(a[0], a[1])),
    ("special_chebyshev_polynomial_t", 2, |a| polynomial::chebyshev(Kind::First, false, a[0], a[1])),
    ("special_chebyshev_polynomial_u", 2, |a| polynomial::chebyshev(Kind::Second, false, a[0], a[1])),
    ("special_chebyshev_polynomial_v", 2, |a| polynomial::chebyshev(Kind::Third, false, a[0], a[1])),
    ("special_chebyshev_polynomial_w", 2, |a| polynomial::chebyshev(Kind::Fourth, false, a[0], a[1])),
    ("special_shifted_chebyshev_polynomial_t", 2, |a| polynomial::chebyshev(Kind::First, true, a[0], a[1])),
    ("special_shifted_chebyshev_polynomial_u", 2, |a| polynomial::chebyshev(Kind::Second, true, a[0], a[1])),
    ("special_shifted_chebyshev_polynomial_v", 2, |a| polynomial::chebyshev(Kind::Third, true, a[0], a[1])),
    ("special_shifted_chebyshev_polynomial_w", 2, |a| polynomial::chebyshev(Kind::Fourth, true, a[0], a[1])),
    ("special_hermite_polynomial_h", 2, |a| polynomial::hermite_h(a[0], a[1])),
    ("special_hermite_polynomial_he", 2, |a| polynomial::hermite_he(a[0], a[1])),
    ("special_laguerre_polynomial_l", 2, |a| polynomial::laguerre(a[0], a[1])),
    ("special_legendre_polynomial_p", 2, |a| polynomial::legendre(a[0], a[1])),
    // Three operands.
    ("_dirichlet_grad", 3, |a| gamma::beta_slope(a[0], a[1], a[2])),
];
