//! Integers as bits, and common divisors.

use crate::pointwise::scalar_params;
use crate::promotion::Promotion;
use crate::samples::{Maker, Sample};
use crate::{DType, IntoOperand, Op, Tensor, sample};

fn int_samples(m: &mut Maker, high: f64) -> Vec<Sample> {
    match m.dtype.is_integral(false) {
        false => vec![],
        true => vec![
            sample![m.any(&[2, 3]), m.uniform(&[2, 3], 0.0, high)],
            sample![m.any(&[2, 3]), m.uniform(&[3], 0.0, high)],
            sample![m.any(&[0, 3]), m.uniform(&[], 0.0, high)],
        ],
    }
}
fn bit_samples(m: &mut Maker) -> Vec<Sample> {
    match m.dtype {
        DType::Bool => vec![sample![m.any(&[2, 3]), m.any(&[2, 3])]],
        _ => int_samples(m, 8.0),
    }
}

op! {
    /// The bits set in both (for booleans: and).
    bitwise_and: "bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "bitwise_and_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "bitwise_and.Tensor_out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor",
        InPlace SCALAR_INPLACE: "bitwise_and_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        Out SCALAR_OUT: "bitwise_and.Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR_TENSOR: "bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
        Out SCALAR_TENSOR_OUT: "bitwise_and.Scalar_Tensor_out(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, scalar_params, "bitwise_and_cpu";
        ints wrapping |x, y| x.bit_and(y);
        bools |x, y| x.mul(y);
    );
    samples: bit_samples;
    fn bitwise_and(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn bitwise_and_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn bitwise_and_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// The bits set in either (for booleans: or).
    bitwise_or: "bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "bitwise_or_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "bitwise_or.Tensor_out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor",
        InPlace SCALAR_INPLACE: "bitwise_or_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        Out SCALAR_OUT: "bitwise_or.Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR_TENSOR: "bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
        Out SCALAR_TENSOR_OUT: "bitwise_or.Scalar_Tensor_out(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, scalar_params, "bitwise_or_cpu";
        ints wrapping |x, y| x.bit_or(y);
        bools |x, y| x.add(y);
    );
    samples: bit_samples;
    fn bitwise_or(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn bitwise_or_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn bitwise_or_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// The bits set in just one of the two (for booleans: exclusive or).
    bitwise_xor: "bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "bitwise_xor_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "bitwise_xor.Tensor_out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor",
        InPlace SCALAR_INPLACE: "bitwise_xor_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        Out SCALAR_OUT: "bitwise_xor.Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR_TENSOR: "bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
        Out SCALAR_TENSOR_OUT: "bitwise_xor.Scalar_Tensor_out(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, scalar_params, "bitwise_xor_cpu";
        ints wrapping |x, y| x.bit_xor(y);
        bools |x, y| x.sub(y);
    );
    samples: bit_samples;
    fn bitwise_xor(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn bitwise_xor_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn bitwise_xor_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// `self * 2^other`, wrapping; 0 where `other` is not in `0..bits`.
    bitwise_left_shift: "bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "bitwise_left_shift_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "bitwise_left_shift.Tensor_out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
        InPlace SCALAR_INPLACE: "bitwise_left_shift_.Tensor_Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        Out SCALAR_OUT: "bitwise_left_shift.Tensor_Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR_TENSOR: "bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
        Out SCALAR_TENSOR_OUT: "bitwise_left_shift.Scalar_Tensor_out(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, scalar_params, "lshift_cpu";
        ints |x, y| x.shift_left(y);
    );
    samples: |m| int_samples(m, 4.0);
    fn bitwise_left_shift(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn bitwise_left_shift_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn bitwise_left_shift_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// `self / 2^other` rounded down; 0 (or -1 for negative elements) where `other` is not in `0..bits`.
    bitwise_right_shift: "bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "bitwise_right_shift_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "bitwise_right_shift.Tensor_out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
        InPlace SCALAR_INPLACE: "bitwise_right_shift_.Tensor_Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        Out SCALAR_OUT: "bitwise_right_shift.Tensor_Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR_TENSOR: "bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
        Out SCALAR_TENSOR_OUT: "bitwise_right_shift.Scalar_Tensor_out(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, scalar_params, "rshift_cpu";
        ints |x, y| x.shift_right(y);
    );
    samples: |m| int_samples(m, 4.0);
    fn bitwise_right_shift(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn bitwise_right_shift_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn bitwise_right_shift_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// The greatest common divisor, not negative.
    gcd: "gcd(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "gcd_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "gcd.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, scalar_params, "gcd_cpu"; ints |x, y| x.gcd(y););
    samples: |m| int_samples(m, 8.0);
    fn gcd(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn gcd_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn gcd_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

op! {
    /// The least common multiple, not negative unless it wraps.
    lcm: "lcm(Tensor self, Tensor other) -> Tensor",
        InPlace INPLACE: "lcm_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        Out OUT: "lcm.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Common, scalar_params, "lcm_cpu"; ints |x, y| x.lcm(y););
    samples: |m| int_samples(m, 8.0);
    fn lcm(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    fn lcm_(&self, other: impl IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
    out fn lcm_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

alias! {
    dunder_and: "__and__.Tensor(Tensor self, Tensor other) -> Tensor" => bitwise_and::OP;
    dunder_iand: "__iand__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)" => bitwise_and::INPLACE;
    dunder_and_scalar: "__and__.Scalar(Tensor self, Scalar other) -> Tensor" => bitwise_and::SCALAR;
    dunder_iand_scalar: "__iand__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)" => bitwise_and::SCALAR_INPLACE;
    dunder_or: "__or__.Tensor(Tensor self, Tensor other) -> Tensor" => bitwise_or::OP;
    dunder_ior: "__ior__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)" => bitwise_or::INPLACE;
    dunder_or_scalar: "__or__.Scalar(Tensor self, Scalar other) -> Tensor" => bitwise_or::SCALAR;
    dunder_ior_scalar: "__ior__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)" => bitwise_or::SCALAR_INPLACE;
    dunder_xor: "__xor__.Tensor(Tensor self, Tensor other) -> Tensor" => bitwise_xor::OP;
    dunder_ixor: "__ixor__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)" => bitwise_xor::INPLACE;
    dunder_xor_scalar: "__xor__.Scalar(Tensor self, Scalar other) -> Tensor" => bitwise_xor::SCALAR;
    dunder_ixor_scalar: "__ixor__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)" => bitwise_xor::SCALAR_INPLACE;
    dunder_lshift: "__lshift__.Tensor(Tensor self, Tensor other) -> Tensor" => bitwise_left_shift::OP;
    dunder_ilshift: "__ilshift__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)" => bitwise_left_shift::INPLACE;
    dunder_lshift_scalar: "__lshift__.Scalar(Tensor self, Scalar other) -> Tensor" => bitwise_left_shift::SCALAR;
    dunder_ilshift_scalar: "__ilshift__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)" => bitwise_left_shift::SCALAR_INPLACE;
    dunder_rshift: "__rshift__.Tensor(Tensor self, Tensor other) -> Tensor" => bitwise_right_shift::OP;
    dunder_irshift: "__irshift__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)" => bitwise_right_shift::INPLACE;
    dunder_rshift_scalar: "__rshift__.Scalar(Tensor self, Scalar other) -> Tensor" => bitwise_right_shift::SCALAR;
    dunder_irshift_scalar: "__irshift__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)" => bitwise_right_shift::SCALAR_INPLACE;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    bitwise_and::ALL,
    bitwise_left_shift::ALL,
    bitwise_or::ALL,
    bitwise_right_shift::ALL,
    bitwise_xor::ALL,
    dunder_and::ALL,
    dunder_and_scalar::ALL,
    dunder_iand::ALL,
    dunder_iand_scalar::ALL,
    dunder_ilshift::ALL,
    dunder_ilshift_scalar::ALL,
    dunder_ior::ALL,
    dunder_ior_scalar::ALL,
    dunder_irshift::ALL,
    dunder_irshift_scalar::ALL,
    dunder_ixor::ALL,
    dunder_ixor_scalar::ALL,
    dunder_lshift::ALL,
    dunder_lshift_scalar::ALL,
    dunder_or::ALL,
    dunder_or_scalar::ALL,
    dunder_rshift::ALL,
    dunder_rshift_scalar::ALL,
    dunder_xor::ALL,
    dunder_xor_scalar::ALL,
    gcd::ALL,
    lcm::ALL,
];
