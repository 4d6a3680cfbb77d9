//! Operators on lists of tensors: `_foreach_add` is `add` on each.
//!
//! One table derives them all: from the operator come computation, derivatives and samples. Nothing is written per entry.

use super::{activation, binary, copy, elementary, extreme, matmul, power, reduce, ternary, unary};
use crate::samples::{Maker, Sample};
use crate::schema::{Base, Param};
use crate::value::check_sorts;
use crate::{
    Body, DType, Device, MemoryFormat, Op, Outputs, OwnedValue, Result, Scalar, Tensor, Value, ensure, sample,
};
use smallvec::SmallVec;

/// Whether a parameter is a list of tensors.
fn is_list(param: &Param) -> bool {
    param.ty.base == Base::Tensor && param.ty.list.is_some()
}

/// Element `i` of a list; anything else is the same for all.
fn element(argument: Value<'_>, i: usize) -> Value<'_> {
    match argument {
        Value::Tensors(list) => Value::Tensor(&list[i]),
        Value::Scalars(list) => Value::Scalar(list[i]),
        other => other,
    }
}

/// Calls `target` on the elements of the lists among the arguments, one after the other; the rest is passed on.
fn each(target: &'static Op, args: &[Value<'_>]) -> Result<Vec<Tensor>> {
    let lists = args.iter().filter_map(|a| if let Value::Tensors(list) = a { Some(list.len()) } else { None });
    let lengths: SmallVec<[usize; 4]> = lists.collect();
    let n = lengths.first().copied().unwrap_or(0);
    ensure!(n > 0, "Tensor list must have at least one tensor.");
    for other in &lengths {
        ensure!(*other == n, "Tensor lists must have the same number of tensors, got {n} and {other}");
    }
    for a in args {
        if let Value::Scalars(list) = a {
            ensure!(list.len() == n, "Tensor list must have same number of elements as scalar list.");
        }
    }
    let mut results = Vec::with_capacity(if target.mutates() { 0 } else { n });
    for i in 0..n {
        let own: SmallVec<[Value<'_>; 5]> = args.iter().map(|a| element(*a, i)).collect();
        let result = target.call(&own)?;
        if !target.mutates() {
            results.push(result.one()?);
        }
    }
    Ok(results)
}

/// The same for an operator whose second operand is one tensor for all.
fn each_by_tensor(target: &'static Op, args: &[Value<'_>]) -> Result<Vec<Tensor>> {
    if let Some(Value::Tensor(t)) = args.get(1) {
        ensure!(
            t.dim() == 0 && t.numel() == 1,
            "scalar tensor expected to be 0 dim but it has {} dimensions and {} elements.",
            t.dim(),
            t.numel()
        );
    }
    each(target, args)
}

/// The same with the factors in a tensor.
fn each_by_packed(target: &'static Op, args: &[Value<'_>]) -> Result<Vec<Tensor>> {
    let &[x @ Value::Tensors(list), a, b, Value::Tensor(packed)] = args else { return each(target, args) };
    ensure!(packed.device().is_cpu(), "Expected scalars to be on CPU, got {} instead.", packed.device());
    ensure!(packed.is_contiguous(), "Expected scalars to be contiguous.");
    ensure!(packed.dim() == 1, "Expected packed scalar Tensor to be of dimension 1. Got {} instead.", packed.dim());
    let (have, want) = (packed.numel(), list.len());
    ensure!(
        have == want as i64,
        "Expected length of scalars to match input of length {want} but got {have} instead."
    );
    let scalars = (0..have).map(|i| packed.select(0, i)?.item()).collect::<Result<Vec<_>>>()?;
    each(target, &[x, a, b, Value::Scalars(&scalars)])
}

fn norm_any(list: &[Tensor], order: Scalar, dtype: Option<DType>) -> Result<Vec<Tensor>> {
    let args = [Value::Tensors(list), order.into(), Value::None, false.into(), dtype.into()];
    each(&reduce::linalg_vector_norm::OP, &args)
}

fn powsum_any(list: &[Tensor], order: Scalar, dtype: Option<DType>) -> Result<Vec<Tensor>> {
    each(&unary::abs::OP, &[Value::Tensors(list)])?
        .iter()
        .map(|t| dtype.map_or_else(|| Ok(t.clone()), |d| t.to_dtype(d))?.pow(order)?.sum())
        .collect()
}

fn max_any(list: &[Tensor]) -> Result<Vec<Tensor>> {
    ensure!(
        list.iter().all(|t| t.numel() > 0),
        "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."
    );
    each(&extreme::max::OP, &[Value::Tensors(list)])
}

fn mm_any(list: &[Tensor], others: &[Tensor]) -> Result<Vec<Tensor>> {
    ensure!(list.len() == others.len(), "_foreach_mm: self and mat2 must have the same number of tensors");
    each(&matmul::mm::OP, &[Value::Tensors(list), Value::Tensors(others)])
}

fn pow_of_number(base: Scalar, exponents: &[Tensor]) -> Result<Vec<Tensor>> {
    ensure!(!exponents.is_empty(), "Tensor list must have at least one tensor.");
    exponents.iter().map(|e| power::pow::SCALAR.call(&[base.into(), e.into()])?.one()).collect()
}

/// The operator's own samples, with a list of two where `of` takes one, and of one tensor for all its first element.
fn listed(op: &'static Op, of: &'static Op, m: &mut Maker) -> Vec<Sample> {
    let dtype = m.dtype;
    let fit = |(a, param): (OwnedValue, &Param)| {
        Some(match a {
            OwnedValue::Tensor(t) if is_list(param) => OwnedValue::Tensors(vec![t.clone(), t]),
            OwnedValue::Tensor(t) if param.ty.base == Base::Tensor => {
                OwnedValue::Tensor(t.reshape(&[-1]).and_then(|t| t.select(0, 0)?.clone_in(MemoryFormat::Contiguous)).ok()?)
            }
            OwnedValue::Tensor(_) => return None,
            OwnedValue::Scalar(s) if is_list(param) => {
                let t = Tensor::full(&[], s, (dtype, Device::CPU)).ok()?;
                OwnedValue::Tensors(vec![t.clone(), t])
            }
            OwnedValue::Scalar(_) if param.ty.base == Base::Tensor => return None,
            OwnedValue::Scalar(s) if param.ty.list.is_some() => OwnedValue::Scalars(vec![s, s]),
            other => other,
        })
    };
    let params = &op.schema().params;
    let complete = |s: &Sample| s.args.len() <= params.len() && params[s.args.len()..].iter().all(|p| p.default.is_some());
    let samples = crate::samples::of(of, m).into_iter().filter(complete);
    samples
        .filter_map(|s| s.args.into_iter().zip(params).map(fit).collect::<Option<Vec<_>>>().map(Sample::new))
        .collect()
}

/// One operator per line: its schema, how it goes over its lists, and the operator that it calls on their elements.
macro_rules! foreach {
    ($($name:ident $schema:literal => $how:ident $target:expr;)*) => {
        $(
            op! {
                #[doc = concat!("Calls `", stringify!($target), "` on each element of the lists.")]
                $name: $schema;
                Body::Composite(|op, _keys, args| {
                    check_sorts(op, args)?;
                    $how(&$target, args).map(results)
                });
                samples: |m| listed(&OP, &$target, m);
                ulp: $target.accuracy();
            }
        )*
        /// All entries of this file.
        pub static OPS: &[&[&Op]] =
            &[
                addcdiv_tensor::ALL,
                addcdiv_in_place_tensor::ALL,
                addcmul_tensor::ALL,
                addcmul_in_place_tensor::ALL,
                max::ALL,
                mm::ALL,
                norm::ALL,
                pow_scalar_and_tensor::ALL,
                powsum::ALL,
                $($name::ALL),*
            ];
    };
}

/// The same without samples: factors in a tensor have to be contiguous and on the CPU, and get no gradient.
macro_rules! packed {
    ($($name:ident $schema:literal => $target:expr;)*) => { $(
        op! {
            #[doc = concat!("Calls `", stringify!($target), "` on each element of the lists, with factors from a tensor.")]
            $name: $schema;
            Body::Composite(|op, _keys, args| {
                check_sorts(op, args)?;
                each_by_packed(&$target, args).map(results)
            });
        }
    )* };
}

/// A list of results, or nothing where the elements themselves were written.
fn results(list: Vec<Tensor>) -> Outputs {
    if list.is_empty() { Outputs::None } else { list.into() }
}

op! {
    /// The largest element of each tensor of a list.
    max: "_foreach_max(Tensor[] self) -> Tensor[]";
    Body::Composite(kernel!(max_any; list));
    samples: |m| listed(&OP, &extreme::max::OP, m);
}

op! {
    /// The products of matrices of two lists.
    mm: "_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]";
    Body::Composite(kernel!(mm_any; list, others));
    samples: |m| listed(&OP, &matmul::mm::OP, m);
}

op! {
    /// The norm of all elements of each tensor of a list.
    norm: "_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]";
    Body::Composite(kernel!(norm_any; list, order, dtype));
    samples: |m| match m.dtype.is_differentiable() {
        true => [1.0, 2.0].map(|p| sample![vec![m.any(&[2, 3]), m.any(&[4])], Scalar::Float(p)]).into(),
        false => vec![],
    };
}

op! {
    /// A number to the power of each tensor of a list.
    pow_scalar_and_tensor: "_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]";
    Body::Composite(kernel!(pow_of_number; base, exponents));
    samples: |m| vec![sample![Scalar::Float(1.5), vec![m.uniform(&[2, 3], 0.0, 2.0), m.uniform(&[3], 0.0, 2.0)]]];
}

op! {
    /// The sum of powers of magnitudes of all elements of each tensor of a list.
    powsum: "_foreach_powsum.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]";
    Body::Composite(kernel!(powsum_any; list, order, dtype));
    samples: |m| listed(&OP, &unary::abs::OP, m);
}

packed! {
    addcdiv_tensor "_foreach_addcdiv.Tensor(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> Tensor[]" => ternary::addcdiv::OP;
    addcdiv_in_place_tensor "_foreach_addcdiv_.Tensor(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> ()" => ternary::addcdiv::INPLACE;
    addcmul_tensor "_foreach_addcmul.Tensor(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> Tensor[]" => ternary::addcmul::OP;
    addcmul_in_place_tensor "_foreach_addcmul_.Tensor(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> ()" => ternary::addcmul::INPLACE;
}

foreach! {
    abs "_foreach_abs(Tensor[] self) -> Tensor[]" => each unary::abs::OP;
    abs_in_place "_foreach_abs_(Tensor(a!)[] self) -> ()" => each unary::abs::INPLACE;
    acos "_foreach_acos(Tensor[] self) -> Tensor[]" => each elementary::acos::OP;
    acos_in_place "_foreach_acos_(Tensor(a!)[] self) -> ()" => each elementary::acos::INPLACE;
    add_list "_foreach_add.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]" => each binary::add::OP;
    add_scalar "_foreach_add.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]" => each binary::add::SCALAR;
    add_scalars "_foreach_add.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]" => each binary::add::SCALAR;
    add_tensor "_foreach_add.Tensor(Tensor[] self, Tensor other, *, Scalar alpha=1) -> Tensor[]" => each_by_tensor binary::add::OP;
    add_in_place_list "_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()" => each binary::add::INPLACE;
    add_in_place_scalar "_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()" => each binary::add::SCALAR_INPLACE;
    add_in_place_scalars "_foreach_add_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()" => each binary::add::SCALAR_INPLACE;
    add_in_place_tensor "_foreach_add_.Tensor(Tensor(a!)[] self, Tensor other, *, Scalar alpha=1) -> ()" => each_by_tensor binary::add::INPLACE;
    addcdiv_scalar "_foreach_addcdiv.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> Tensor[]" => each ternary::addcdiv::OP;
    addcdiv_scalars "_foreach_addcdiv.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> Tensor[]" => each ternary::addcdiv::OP;
    addcdiv_in_place_scalar "_foreach_addcdiv_.Scalar(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> ()" => each ternary::addcdiv::INPLACE;
    addcdiv_in_place_scalars "_foreach_addcdiv_.ScalarList(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> ()" => each ternary::addcdiv::INPLACE;
    addcmul_scalar "_foreach_addcmul.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> Tensor[]" => each ternary::addcmul::OP;
    addcmul_scalars "_foreach_addcmul.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> Tensor[]" => each ternary::addcmul::OP;
    addcmul_in_place_scalar "_foreach_addcmul_.Scalar(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> ()" => each ternary::addcmul::INPLACE;
    addcmul_in_place_scalars "_foreach_addcmul_.ScalarList(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> ()" => each ternary::addcmul::INPLACE;
    asin "_foreach_asin(Tensor[] self) -> Tensor[]" => each elementary::asin::OP;
    asin_in_place "_foreach_asin_(Tensor(a!)[] self) -> ()" => each elementary::asin::INPLACE;
    atan "_foreach_atan(Tensor[] self) -> Tensor[]" => each elementary::atan::OP;
    atan_in_place "_foreach_atan_(Tensor(a!)[] self) -> ()" => each elementary::atan::INPLACE;
    ceil "_foreach_ceil(Tensor[] self) -> Tensor[]" => each unary::ceil::OP;
    ceil_in_place "_foreach_ceil_(Tensor(a!)[] self) -> ()" => each unary::ceil::INPLACE;
    clamp_max_list "_foreach_clamp_max.List(Tensor[] self, Tensor[] other) -> Tensor[]" => each ternary::clamp_max::TENSOR;
    clamp_max_scalar "_foreach_clamp_max.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]" => each ternary::clamp_max::OP;
    clamp_max_scalars "_foreach_clamp_max.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]" => each ternary::clamp_max::OP;
    clamp_max_in_place_list "_foreach_clamp_max_.List(Tensor(a!)[] self, Tensor[] other) -> ()" => each ternary::clamp_max::TENSOR_INPLACE;
    clamp_max_in_place_scalar "_foreach_clamp_max_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()" => each ternary::clamp_max::INPLACE;
    clamp_max_in_place_scalars "_foreach_clamp_max_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()" => each ternary::clamp_max::INPLACE;
    clamp_min_list "_foreach_clamp_min.List(Tensor[] self, Tensor[] other) -> Tensor[]" => each ternary::clamp_min::TENSOR;
    clamp_min_scalar "_foreach_clamp_min.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]" => each ternary::clamp_min::OP;
    clamp_min_scalars "_foreach_clamp_min.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]" => each ternary::clamp_min::OP;
    clamp_min_in_place_list "_foreach_clamp_min_.List(Tensor(a!)[] self, Tensor[] other) -> ()" => each ternary::clamp_min::TENSOR_INPLACE;
    clamp_min_in_place_scalar "_foreach_clamp_min_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()" => each ternary::clamp_min::INPLACE;
    clamp_min_in_place_scalars "_foreach_clamp_min_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()" => each ternary::clamp_min::INPLACE;
    clone "_foreach_clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]" => each copy::clone::OP;
    copy_in_place "_foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()" => each copy::copy_::OP;
    cos "_foreach_cos(Tensor[] self) -> Tensor[]" => each elementary::cos::OP;
    cos_in_place "_foreach_cos_(Tensor(a!)[] self) -> ()" => each elementary::cos::INPLACE;
    cosh "_foreach_cosh(Tensor[] self) -> Tensor[]" => each elementary::cosh::OP;
    cosh_in_place "_foreach_cosh_(Tensor(a!)[] self) -> ()" => each elementary::cosh::INPLACE;
    div_list "_foreach_div.List(Tensor[] self, Tensor[] other) -> Tensor[]" => each binary::div::OP;
    div_scalar "_foreach_div.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]" => each binary::div::SCALAR;
    div_scalars "_foreach_div.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]" => each binary::div::SCALAR;
    div_tensor "_foreach_div.Tensor(Tensor[] self, Tensor other) -> Tensor[]" => each_by_tensor binary::div::OP;
    div_in_place_list "_foreach_div_.List(Tensor(a!)[] self, Tensor[] other) -> ()" => each binary::div::INPLACE;
    div_in_place_scalar "_foreach_div_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()" => each binary::div::SCALAR_INPLACE;
    div_in_place_scalars "_foreach_div_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()" => each binary::div::SCALAR_INPLACE;
    div_in_place_tensor "_foreach_div_.Tensor(Tensor(a!)[] self, Tensor other) -> ()" => each_by_tensor binary::div::INPLACE;
    erf "_foreach_erf(Tensor[] self) -> Tensor[]" => each unary::erf::OP;
    erf_in_place "_foreach_erf_(Tensor(a!)[] self) -> ()" => each unary::erf::INPLACE;
    erfc "_foreach_erfc(Tensor[] self) -> Tensor[]" => each unary::erfc::OP;
    erfc_in_place "_foreach_erfc_(Tensor(a!)[] self) -> ()" => each unary::erfc::INPLACE;
    exp "_foreach_exp(Tensor[] self) -> Tensor[]" => each elementary::exp::OP;
    exp_in_place "_foreach_exp_(Tensor(a!)[] self) -> ()" => each elementary::exp::INPLACE;
    expm1 "_foreach_expm1(Tensor[] self) -> Tensor[]" => each elementary::expm1::OP;
    expm1_in_place "_foreach_expm1_(Tensor(a!)[] self) -> ()" => each elementary::expm1::INPLACE;
    floor "_foreach_floor(Tensor[] self) -> Tensor[]" => each unary::floor::OP;
    floor_in_place "_foreach_floor_(Tensor(a!)[] self) -> ()" => each unary::floor::INPLACE;
    frac "_foreach_frac(Tensor[] self) -> Tensor[]" => each unary::frac::OP;
    frac_in_place "_foreach_frac_(Tensor(a!)[] self) -> ()" => each unary::frac::INPLACE;
    lerp_list "_foreach_lerp.List(Tensor[] self, Tensor[] tensors1, Tensor[] weights) -> Tensor[]" => each ternary::lerp::OP;
    lerp_scalar "_foreach_lerp.Scalar(Tensor[] self, Tensor[] tensors1, Scalar weight) -> Tensor[]" => each ternary::lerp::SCALAR;
    lerp_scalars "_foreach_lerp.ScalarList(Tensor[] self, Tensor[] tensors1, Scalar[] weight) -> Tensor[]" => each ternary::lerp::SCALAR;
    lerp_in_place_list "_foreach_lerp_.List(Tensor(a!)[] self, Tensor[] tensors1, Tensor[] weights) -> ()" => each ternary::lerp::INPLACE;
    lerp_in_place_scalar "_foreach_lerp_.Scalar(Tensor(a!)[] self, Tensor[] tensors1, Scalar weight) -> ()" => each ternary::lerp::SCALAR_INPLACE;
    lerp_in_place_scalars "_foreach_lerp_.ScalarList(Tensor(a!)[] self, Tensor[] tensors1, Scalar[] weight) -> ()" => each ternary::lerp::SCALAR_INPLACE;
    lgamma "_foreach_lgamma(Tensor[] self) -> Tensor[]" => each unary::lgamma::OP;
    lgamma_in_place "_foreach_lgamma_(Tensor(a!)[] self) -> ()" => each unary::lgamma::INPLACE;
    log "_foreach_log(Tensor[] self) -> Tensor[]" => each elementary::log::OP;
    log10 "_foreach_log10(Tensor[] self) -> Tensor[]" => each elementary::log10::OP;
    log10_in_place "_foreach_log10_(Tensor(a!)[] self) -> ()" => each elementary::log10::INPLACE;
    log1p "_foreach_log1p(Tensor[] self) -> Tensor[]" => each elementary::log1p::OP;
    log1p_in_place "_foreach_log1p_(Tensor(a!)[] self) -> ()" => each elementary::log1p::INPLACE;
    log2 "_foreach_log2(Tensor[] self) -> Tensor[]" => each elementary::log2::OP;
    log2_in_place "_foreach_log2_(Tensor(a!)[] self) -> ()" => each elementary::log2::INPLACE;
    log_in_place "_foreach_log_(Tensor(a!)[] self) -> ()" => each elementary::log::INPLACE;
    maximum_list "_foreach_maximum.List(Tensor[] self, Tensor[] other) -> Tensor[]" => each binary::maximum::OP;
    maximum_scalar "_foreach_maximum.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]" => each ternary::clamp_min::OP;
    maximum_scalars "_foreach_maximum.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]" => each ternary::clamp_min::OP;
    maximum_in_place_list "_foreach_maximum_.List(Tensor(a!)[] self, Tensor[] other) -> ()" => each ternary::clamp_min::TENSOR_INPLACE;
    maximum_in_place_scalar "_foreach_maximum_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()" => each ternary::clamp_min::INPLACE;
    maximum_in_place_scalars "_foreach_maximum_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()" => each ternary::clamp_min::INPLACE;
    minimum_list "_foreach_minimum.List(Tensor[] self, Tensor[] other) -> Tensor[]" => each binary::minimum::OP;
    minimum_scalar "_foreach_minimum.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]" => each ternary::clamp_max::OP;
    minimum_scalars "_foreach_minimum.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]" => each ternary::clamp_max::OP;
    minimum_in_place_list "_foreach_minimum_.List(Tensor(a!)[] self, Tensor[] other) -> ()" => each ternary::clamp_max::TENSOR_INPLACE;
    minimum_in_place_scalar "_foreach_minimum_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()" => each ternary::clamp_max::INPLACE;
    minimum_in_place_scalars "_foreach_minimum_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()" => each ternary::clamp_max::INPLACE;
    mul_list "_foreach_mul.List(Tensor[] self, Tensor[] other) -> Tensor[]" => each binary::mul::OP;
    mul_scalar "_foreach_mul.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]" => each binary::mul::SCALAR;
    mul_scalars "_foreach_mul.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]" => each binary::mul::SCALAR;
    mul_tensor "_foreach_mul.Tensor(Tensor[] self, Tensor other) -> Tensor[]" => each_by_tensor binary::mul::OP;
    mul_in_place_list "_foreach_mul_.List(Tensor(a!)[] self, Tensor[] other) -> ()" => each binary::mul::INPLACE;
    mul_in_place_scalar "_foreach_mul_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()" => each binary::mul::SCALAR_INPLACE;
    mul_in_place_scalars "_foreach_mul_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()" => each binary::mul::SCALAR_INPLACE;
    mul_in_place_tensor "_foreach_mul_.Tensor(Tensor(a!)[] self, Tensor other) -> ()" => each_by_tensor binary::mul::INPLACE;
    neg "_foreach_neg(Tensor[] self) -> Tensor[]" => each binary::neg::OP;
    neg_in_place "_foreach_neg_(Tensor(a!)[] self) -> ()" => each binary::neg::INPLACE;
    pow_list "_foreach_pow.List(Tensor[] self, Tensor[] exponent) -> Tensor[]" => each power::pow::OP;
    pow_scalar "_foreach_pow.Scalar(Tensor[] self, Scalar exponent) -> Tensor[]" => each power::pow_scalar::OP;
    pow_scalars "_foreach_pow.ScalarList(Tensor[] self, Scalar[] exponent) -> Tensor[]" => each power::pow_scalar::OP;
    pow_in_place_list "_foreach_pow_.List(Tensor(a!)[] self, Tensor[] exponent) -> ()" => each power::pow::INPLACE;
    pow_in_place_scalar "_foreach_pow_.Scalar(Tensor(a!)[] self, Scalar exponent) -> ()" => each power::pow_scalar::INPLACE;
    pow_in_place_scalars "_foreach_pow_.ScalarList(Tensor(a!)[] self, Scalar[] exponent) -> ()" => each power::pow_scalar::INPLACE;
    reciprocal "_foreach_reciprocal(Tensor[] self) -> Tensor[]" => each elementary::reciprocal::OP;
    reciprocal_in_place "_foreach_reciprocal_(Tensor(a!)[] self) -> ()" => each elementary::reciprocal::INPLACE;
    round "_foreach_round(Tensor[] self) -> Tensor[]" => each unary::round::OP;
    round_in_place "_foreach_round_(Tensor(a!)[] self) -> ()" => each unary::round::INPLACE;
    rsqrt "_foreach_rsqrt(Tensor[] self) -> Tensor[]" => each elementary::rsqrt::OP;
    rsqrt_in_place "_foreach_rsqrt_(Tensor(a!)[] self) -> ()" => each elementary::rsqrt::INPLACE;
    sigmoid "_foreach_sigmoid(Tensor[] self) -> Tensor[]" => each activation::sigmoid::OP;
    sigmoid_in_place "_foreach_sigmoid_(Tensor(a!)[] self) -> ()" => each activation::sigmoid::INPLACE;
    sign "_foreach_sign(Tensor[] self) -> Tensor[]" => each unary::sign::OP;
    sign_in_place "_foreach_sign_(Tensor(a!)[] self) -> ()" => each unary::sign::INPLACE;
    sin "_foreach_sin(Tensor[] self) -> Tensor[]" => each elementary::sin::OP;
    sin_in_place "_foreach_sin_(Tensor(a!)[] self) -> ()" => each elementary::sin::INPLACE;
    sinh "_foreach_sinh(Tensor[] self) -> Tensor[]" => each elementary::sinh::OP;
    sinh_in_place "_foreach_sinh_(Tensor(a!)[] self) -> ()" => each elementary::sinh::INPLACE;
    sqrt "_foreach_sqrt(Tensor[] self) -> Tensor[]" => each elementary::sqrt::OP;
    sqrt_in_place "_foreach_sqrt_(Tensor(a!)[] self) -> ()" => each elementary::sqrt::INPLACE;
    sub_list "_foreach_sub.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]" => each binary::sub::OP;
    sub_scalar "_foreach_sub.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]" => each binary::sub::SCALAR;
    sub_scalars "_foreach_sub.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]" => each binary::sub::SCALAR;
    sub_in_place_list "_foreach_sub_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()" => each binary::sub::INPLACE;
    sub_in_place_scalar "_foreach_sub_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()" => each binary::sub::SCALAR_INPLACE;
    sub_in_place_scalars "_foreach_sub_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()" => each binary::sub::SCALAR_INPLACE;
    tan "_foreach_tan(Tensor[] self) -> Tensor[]" => each elementary::tan::OP;
    tan_in_place "_foreach_tan_(Tensor(a!)[] self) -> ()" => each elementary::tan::INPLACE;
    tanh "_foreach_tanh(Tensor[] self) -> Tensor[]" => each activation::tanh::OP;
    tanh_in_place "_foreach_tanh_(Tensor(a!)[] self) -> ()" => each activation::tanh::INPLACE;
    trunc "_foreach_trunc(Tensor[] self) -> Tensor[]" => each unary::trunc::OP;
    trunc_in_place "_foreach_trunc_(Tensor(a!)[] self) -> ()" => each unary::trunc::INPLACE;
    zero_in_place "_foreach_zero_(Tensor(a!)[] self) -> ()" => each copy::zero_::OP;
}
