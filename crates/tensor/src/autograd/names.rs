//! What nodes are called. A program sees these names in printed tensors and in error messages.

use crate::op::Op;

/// PyTorch numbers the overloads of a name that have formulas of their own; these are the ones that are not number 0.
/// (A number in arithmetic is a tensor to its programs: the overloads for numbers of `add` and its like have the numbers
/// of those for tensors.)
const NUMBERS: &[(&str, u8)] = &[
    ("clamp", 1),
    ("clamp_max.Tensor", 1),
    ("clamp_min.Tensor", 1),
    ("copysign.Scalar", 1),
    ("div.Scalar_mode", 2),
    ("div.Tensor_mode", 2),
    ("fill.Tensor", 1),
    ("fmod.Tensor", 1),
    ("index_fill.int_Tensor", 1),
    ("lerp.Tensor", 1),
    ("masked_fill.Tensor", 1),
    ("max", 1),
    ("mean.dim", 1),
    ("median.dim", 1),
    ("min", 1),
    ("nanmedian.dim", 1),
    ("norm.ScalarOpt_dim", 3),
    ("norm.ScalarOpt_dim_dtype", 2),
    ("norm.ScalarOpt_dtype", 1),
    ("normal.Tensor_Tensor", 3),
    ("normal.Tensor_float", 1),
    ("normal.float_Tensor", 2),
    ("pow.Scalar", 2),
    ("pow.Tensor_Tensor", 1),
    ("prod.dim_int", 1),
    ("remainder.Tensor", 1),
    ("round.decimals", 1),
    ("rsub.Scalar", 1),
    ("scatter.value", 1),
    ("sort.stable", 1),
    ("special_xlog1py.other_scalar", 1),
    ("special_xlog1py.self_scalar", 2),
    ("special_zeta.other_scalar", 2),
    ("special_zeta.self_scalar", 1),
    ("squeeze.dim", 1),
    ("squeeze.dims", 2),
    ("sum.dim_IntList", 1),
    ("xlogy.Scalar_Other", 2),
    ("xlogy.Scalar_Self", 1),
];

/// The name of the node of a call (`AddBackward0`): the operator's in capitals after every break, without the suffixes
/// of its other forms.
pub(super) fn node_name(op: &Op) -> String {
    let (name, overload) = op.full_name().split_once('.').unwrap_or((op.full_name(), ""));
    // What PyTorch has no operator of its own for takes the name of the one that a program calls.
    match name.trim_end_matches('_') {
        "copy" => return "CopyBackwards".into(),
        "clamp_between" => return "ClampBackward1".into(),
        "div_trunc" | "div_floor" => return "DivBackward2".into(),
        _ => {}
    }
    let name = name.strip_suffix('_').unwrap_or(name);
    let full = if overload.is_empty() { name.to_string() } else { format!("{name}.{overload}") };
    let number = match (name, overload) {
        ("fill", "Scalar") if op.mutates() => 2,
        ("fill", "Tensor") if op.mutates() => 3,
        _ => NUMBERS.iter().find(|(n, _)| *n == full).map_or(0, |(_, number)| *number),
    };
    let mut out = String::with_capacity(name.len() + 10);
    let mut after_letter = false;
    for c in name.strip_suffix("_forward").unwrap_or(name).chars() {
        if c != '_' {
            out.push(if after_letter { c } else { c.to_ascii_uppercase() });
        }
        after_letter = c.is_ascii_alphabetic();
    }
    out + "Backward" + &number.to_string()
}
