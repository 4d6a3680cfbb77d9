//! Functions of three operands: choosing, clamping, interpolating.

use super::copy::{byte_strides, element_bytes};
use crate::dims::{self, Dims};
use crate::pointwise::{Params, compute_params, operand_order, scalar_params};
use crate::promotion::{Promotion, result_type};
use crate::value::Outputs;
use crate::{
    Body, Complex, DType, Error, IntoOperand, Op, Operand, OwnedOperand, Result, Scalar, Tensor, TensorSpec, Value,
    backward, ensure, sample,
};
use flambeau_base::storage::LockSet;
use flambeau_cpu::math::Number;
use smallvec::SmallVec;

// ---- where --------------------------------------------------------------------------------------

fn where_plan(condition: &Tensor, x: Operand<'_>, y: Operand<'_>) -> Result<TensorSpec> {
    ensure!(
        matches!(condition.dtype(), DType::Bool | DType::U8),
        "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
        condition.dtype().scalar_type_name()
    );
    let mut sizes = Dims::from_slice(condition.sizes());
    let mut tensors: SmallVec<[&Tensor; 3]> = SmallVec::from_iter([condition]);
    for o in [x, y] {
        if let Operand::Tensor(t) = o {
            sizes = dims::broadcast(&sizes, t.sizes())?;
            tensors.push(t);
        }
    }
    let device = tensors.iter().rev().find(|t| t.dim() > 0).map_or(condition.device(), |t| t.device());
    let spec = TensorSpec::new(sizes, result_type(&[x, y]), device);
    if tensors.iter().all(|t| t.is_contiguous()) {
        return Ok(spec);
    }
    let strides: SmallVec<[Dims; 3]> =
        tensors.iter().map(|t| dims::broadcast_strides(t.sizes(), t.strides(), &spec.sizes)).collect::<Result<_>>()?;
    let lists: SmallVec<[&[i64]; 3]> = strides.iter().map(|s| &s[..]).collect();
    let strides = dims::strides_in_order(&spec.sizes, &operand_order(&spec.sizes, &lists));
    Ok(spec.strided(strides))
}

/// Writes `x` where the condition holds and `y` elsewhere, both cast to the output's dtype and broadcast.
pub(super) fn choose(condition: &Tensor, x: Operand<'_>, y: Operand<'_>, out: &Tensor) -> Result<()> {
    /// An operand in the output's dtype.
    enum Source {
        Tensor(Tensor, SmallVec<[isize; 5]>),
        Number([u8; 16], SmallVec<[isize; 5]>),
    }
    let dtype = out.dtype();
    let strides = |t: &Tensor| -> Result<SmallVec<[isize; 5]>> {
        Ok(byte_strides(&dims::broadcast_strides(t.sizes(), t.strides(), out.sizes())?, t.dtype()))
    };
    let source = |o: Operand<'_>| -> Result<Source> {
        Ok(match o {
            Operand::Tensor(t) => {
                check_cpu(t, out)?;
                let t = t.to_dtype(dtype)?;
                let strides = strides(&t)?;
                Source::Tensor(t, strides)
            }
            Operand::Scalar(s) => {
                // Halves of numbers beyond their range are infinite.
                s.fit(if dtype == dtype.compute() { dtype } else { DType::F64 })?;
                Source::Number(element_bytes(s, dtype), SmallVec::from_elem(0, out.dim()))
            }
        })
    };
    check_cpu(condition, out)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (x, y) = (source(x)?, source(y)?);
    let tensors = [&x, &y].into_iter().filter_map(|s| match s {
        Source::Tensor(t, _) => Some((t.storage(), false)),
        Source::Number(..) => None,
    });
    let _locks = LockSet::new(tensors.chain([(out.storage(), true), (condition.storage(), false)]))?;
    fn raw(s: &Source) -> (*const u8, &[isize]) {
        match s {
            Source::Tensor(t, strides) => (t.data_ptr().cast_const(), strides),
            Source::Number(bytes, strides) => (bytes.as_ptr(), strides),
        }
    }
    let out_strides = byte_strides(out.strides(), dtype);
    // SAFETY: the geometry fits the storages, which are locked; the output is apart from the inputs.
    unsafe {
        flambeau_cpu::index::select(
            out.sizes(),
            (out.data_ptr(), &out_strides),
            (condition.data_ptr().cast_const(), &strides(condition)?),
            raw(&x),
            raw(&y),
            dtype.size(),
        );
    }
    Ok(())
}

fn check_cpu(t: &Tensor, out: &Tensor) -> Result<()> {
    crate::dispatch::check_same_device(out, t.device())?;
    Ok(())
}

fn where_run(condition: &Tensor, x: Operand<'_>, y: Operand<'_>, outs: &[Tensor]) -> Result<()> {
    choose(condition, x, y, &outs[0])
}

fn where_writes(result: DType, out: DType) -> Result<()> {
    ensure!(result == out, "Expected out type to be {} but got {}", result.scalar_type_name(), out.scalar_type_name());
    Ok(())
}

op! {
    /// Called on a condition (boolean or bytes): the element of the first operand where it holds, of the second
    /// elsewhere. All three are broadcast, and the operands promoted to their common dtype.
    where_: "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
        Out OUT: "where.self_out(Tensor condition, Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR_SELF: "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
        Overload SCALAR_OTHER: "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
        Overload SCALAR: "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor";
    Body::Structured { plan: plan!(where_plan; condition, x, y), run: run!(where_run; condition, x, y) };
    derivative: backward! {
        self_(g, condition: Tensor) => condition.where_(g, 0)?,
        other(g, condition: Tensor) => condition.where_(0, g)?,
    };
    samples: |m| vec![
        sample![m.mask(&[2, 3]), m.any(&[2, 3]), m.any(&[2, 3])],
        sample![m.mask(&[3]), m.any(&[2, 1]), m.any(&[])],
        sample![m.mask(&[0, 3]), m.any(&[3]), m.any(&[1, 3])],
    ];
    out_rule: crate::OutRule::dtype(where_writes);
    fn where_(&self, x: impl IntoOperand, y: impl IntoOperand) -> Tensor [self, x.operand(), y.operand()];
    out fn where_out(&self, x: impl IntoOperand, y: impl IntoOperand) [self, x.operand(), y.operand()] in OUT;
}

// ---- clamp --------------------------------------------------------------------------------------

fn clamp_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = result_type(operands);
    if dtype.is_complex() {
        return Err(Error::not_implemented("clamp is not supported for complex types"));
    }
    fit_numbers(operands, dtype)?;
    Ok(dtype)
}

/// Checks that the operands that are numbers have a place in a dtype.
pub(super) fn fit_numbers(operands: &[Operand<'_>], dtype: DType) -> Result<()> {
    for o in operands {
        if let Operand::Scalar(s) = o {
            s.fit(dtype)?;
        }
    }
    Ok(())
}

op! {
    /// The element, or `min` where it is less. NaN if either is.
    clamp_min: "clamp_min(Tensor self, Scalar min) -> Tensor",
        InPlace INPLACE: "clamp_min_(Tensor(a!) self, Scalar min) -> Tensor(a!)",
        Out OUT: "clamp_min.out(Tensor self, Scalar min, *, Tensor(a!) out) -> Tensor(a!)",
        Overload TENSOR: "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor",
        InPlace TENSOR_INPLACE: "clamp_min_.Tensor(Tensor(a!) self, Tensor min) -> Tensor(a!)",
        Out TENSOR_OUT: "clamp_min.Tensor_out(Tensor self, Tensor min, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(clamp_dtype), scalar_params, "clamp_min_scalar_cpu";
        ints |x, y| x.maximum(y);
        floats |x, y| x.maximum::<I>(y);
        bools |x, y| x.add(y);
    );
    derivative: backward! {
        self_(g, self_: Tensor, min: OwnedOperand) => self_.ge(&min)?.where_(g, 0)?,
        min(g, self_: Tensor, min: Tensor) => self_.lt(&min)?.where_(g, 0)?,
    };
    samples: |m| match m.dtype.is_complex() {
        true => vec![],
        false => vec![sample![m.any(&[2, 3]), Scalar::Int(1)], sample![m.any(&[0, 3]), Scalar::Int(1)]],
    };
    fn clamp_min(&self, min: impl IntoOperand) -> Tensor [self, min.operand()];
    fn clamp_min_(&self, min: impl IntoOperand) -> Tensor [self, min.operand()] in INPLACE;
    out fn clamp_min_out(&self, min: impl IntoOperand) [self, min.operand()] in OUT;
}

op! {
    /// The element, or `max` where it is greater. NaN if either is.
    clamp_max: "clamp_max(Tensor self, Scalar max) -> Tensor",
        InPlace INPLACE: "clamp_max_(Tensor(a!) self, Scalar max) -> Tensor(a!)",
        Out OUT: "clamp_max.out(Tensor self, Scalar max, *, Tensor(a!) out) -> Tensor(a!)",
        Overload TENSOR: "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
        InPlace TENSOR_INPLACE: "clamp_max_.Tensor(Tensor(a!) self, Tensor max) -> Tensor(a!)",
        Out TENSOR_OUT: "clamp_max.Tensor_out(Tensor self, Tensor max, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Custom(clamp_dtype), scalar_params, "clamp_max_scalar_cpu";
        ints |x, y| x.minimum(y);
        floats |x, y| x.minimum::<I>(y);
        bools |x, y| x.mul(y);
    );
    derivative: backward! {
        self_(g, self_: Tensor, max: OwnedOperand) => self_.le(&max)?.where_(g, 0)?,
        max(g, self_: Tensor, max: Tensor) => self_.gt(&max)?.where_(g, 0)?,
    };
    samples: |m| match m.dtype.is_complex() {
        true => vec![],
        false => vec![sample![m.any(&[2, 3]), Scalar::Int(1)], sample![m.any(&[0, 3]), Scalar::Int(1)]],
    };
    fn clamp_max(&self, max: impl IntoOperand) -> Tensor [self, max.operand()];
    fn clamp_max_(&self, max: impl IntoOperand) -> Tensor [self, max.operand()] in INPLACE;
    out fn clamp_max_out(&self, max: impl IntoOperand) [self, max.operand()] in OUT;
}

op! {
    /// `min(max(self, min), max)`: clamping with both bounds.
    clamp_between: "clamp_between(Tensor self, Tensor min, Tensor max) -> Tensor",
        InPlace INPLACE: "clamp_between_(Tensor(a!) self, Tensor min, Tensor max) -> Tensor(a!)",
        Out OUT: "clamp_between.out(Tensor self, Tensor min, Tensor max, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(3, Promotion::Custom(clamp_dtype), scalar_params, "clamp_cpu";
        ints |x, a, b| x.maximum(a).minimum(b);
        floats light |x, a, b| x.between::<I>(a, b);
    );
    derivative: backward! {
        self_(g, self_: Tensor, min: OwnedOperand, max: OwnedOperand) => {
            self_.ge(&min)?.logical_and(&self_.le(&max)?)?.where_(g, 0)?
        },
        min(g, self_: Tensor, min: Tensor, max: OwnedOperand) => {
            min.lt(&max)?.logical_and(&self_.lt(&min)?)?.where_(g, 0)?
        },
        max(g, self_: Tensor, min: OwnedOperand, max: Tensor) => {
            self_.gt(&max)?.logical_or(&max.lt(&min)?)?.where_(g, 0)?
        },
    };
    samples: |m| match m.dtype.is_complex() || m.dtype == DType::Bool {
        true => vec![],
        false => vec![
            sample![m.any(&[2, 3]), m.uniform(&[2, 3], 0.0, 1.0), m.uniform(&[3], 1.0, 2.0)],
            sample![m.any(&[2, 3]), Scalar::Int(1), Scalar::Int(2)],
        ],
    };
}

/// Clamps with the bounds that are given: `ops` are for the lower one, the upper one, and both.
fn clamp_by(args: &[Value<'_>], ops: [&'static Op; 3]) -> Result<Outputs> {
    let at = |i: usize| args.get(i).copied().unwrap_or(Value::None);
    let (x, min, max) = (at(0), at(1), at(2));
    let mut call: SmallVec<[Value<'_>; 4]> = SmallVec::from_iter([x]);
    let op = match (min, max) {
        (Value::None, Value::None) => {
            return Err(Error::runtime("torch.clamp: At least one of 'min' or 'max' must not be None"));
        }
        (_, Value::None) => ops[0],
        (Value::None, _) => ops[1],
        _ => ops[2],
    };
    call.extend([min, max].into_iter().filter(|v| !matches!(v, Value::None)));
    call.extend(args.iter().skip(3).copied());
    op.call(&call)
}

fn clamp_new(args: &[Value<'_>]) -> Result<Outputs> {
    clamp_by(args, [&clamp_min::OP, &clamp_max::OP, &clamp_between::OP])
}
fn clamp_inplace(args: &[Value<'_>]) -> Result<Outputs> {
    clamp_by(args, [&clamp_min::INPLACE, &clamp_max::INPLACE, &clamp_between::INPLACE])
}
fn clamp_into(args: &[Value<'_>]) -> Result<Outputs> {
    clamp_by(args, [&clamp_min::OUT, &clamp_max::OUT, &clamp_between::OUT])
}

op! {
    /// The element, but not less than `min` nor greater than `max` (which wins). NaN if any of them is.
    clamp: "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor";
    Body::Composite(|_op, _keys, args| clamp_new(args));
    samples: |m| match m.dtype.is_complex() || m.dtype == DType::Bool {
        true => vec![],
        false => vec![
            sample![m.any(&[2, 3]), Scalar::Int(1), ()],
            sample![m.any(&[2, 3]), (), Scalar::Int(1)],
            sample![m.any(&[2, 3]), Scalar::Int(1), Scalar::Int(2)],
        ],
    };
    fn clamp(&self, min: impl IntoOperand, max: impl IntoOperand) -> Tensor [self, min.operand(), max.operand()];
}

op! {
    /// Clamps this tensor in place.
    clamp_: "clamp_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> Tensor(a!)";
    Body::Composite(|_op, _keys, args| clamp_inplace(args));
    fn clamp_(&self, min: impl IntoOperand, max: impl IntoOperand) -> Tensor [self, min.operand(), max.operand()];
}
op! {
    /// Clamps into `out`.
    clamp_out: "clamp.out(Tensor self, Scalar? min=None, Scalar? max=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(|_op, _keys, args| clamp_into(args));
}
op! {
    /// Clamps with tensors as bounds.
    clamp_tensor: "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor";
    Body::Composite(|_op, _keys, args| clamp_new(args));
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![m.any(&[2, 3]), m.uniform(&[3], -1.0, 0.0), m.uniform(&[2, 1], 0.5, 2.0)], sample![m.any(&[2, 3]), (), m.any(&[])]] };
}
op! {
    /// Clamps in place with tensors as bounds.
    clamp_tensor_: "clamp_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) -> Tensor(a!)";
    Body::Composite(|_op, _keys, args| clamp_inplace(args));
}
op! {
    /// Clamps into `out` with tensors as bounds.
    clamp_tensor_out: "clamp.Tensor_out(Tensor self, Tensor? min=None, Tensor? max=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(|_op, _keys, args| clamp_into(args));
}
alias! {
    clip: "clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor" => clamp::OP;
    clip_: "clip_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> Tensor(a!)" => clamp_::OP;
    clip_out: "clip.out(Tensor self, Scalar? min=None, Scalar? max=None, *, Tensor(a!) out) -> Tensor(a!)" => clamp_out::OP;
    clip_tensor: "clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor" => clamp_tensor::OP;
    clip_tensor_: "clip_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) -> Tensor(a!)" => clamp_tensor_::OP;
    clip_tensor_out: "clip.Tensor_out(Tensor self, Tensor? min=None, Tensor? max=None, *, Tensor(a!) out) -> Tensor(a!)" => clamp_tensor_out::OP;
}

// ---- lerp, addcmul, addcdiv ---------------------------------------------------------------------

fn lerp_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let [Operand::Tensor(x), Operand::Tensor(end), weight] = operands else {
        return Err(Error::type_("lerp(): self and end must be Tensors"));
    };
    ensure!(x.dtype() == end.dtype(), "expected dtype {} for `end` but got dtype {}", x.dtype().cpp_name(), end.dtype().cpp_name());
    match weight {
        Operand::Tensor(w) => ensure!(
            w.dtype() == x.dtype() || (w.dim() == 0 && (x.dtype().is_complex() || !w.dtype().is_complex())),
            "expected dtype {} for `weight` but got dtype {}",
            x.dtype().cpp_name(),
            w.dtype().cpp_name()
        ),
        Operand::Scalar(w) => drop(w.fit(x.dtype().compute())?),
    }
    Ok(x.dtype())
}

/// A weight per element goes through an iterator that casts nothing.
fn lerp_writes(write: &crate::out::Write<'_, '_>) -> Result<()> {
    match write.inputs.get(2) {
        Some(Value::Tensor(weight)) if weight.dim() > 0 => crate::out::uncast(write.result, write.out),
        _ => crate::out::castable(write.result, write.out),
    }
}

op! {
    /// `self + weight * (end - self)`, exact at both ends.
    lerp: "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
        InPlace INPLACE: "lerp_.Tensor(Tensor(a!) self, Tensor end, Tensor weight) -> Tensor(a!)",
        Out OUT: "lerp.Tensor_out(Tensor self, Tensor end, Tensor weight, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SCALAR: "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
        InPlace SCALAR_INPLACE: "lerp_.Scalar(Tensor(a!) self, Tensor end, Scalar weight) -> Tensor(a!)",
        Out SCALAR_OUT: "lerp.Scalar_out(Tensor self, Tensor end, Scalar weight, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(3, Promotion::KeepNumbers(&Promotion::Custom(lerp_dtype)), scalar_params, "lerp_kernel_scalar";
        floats light |x, end, w| {
            let near = w.abs::<I>() < T::from_f64(0.5);
            let (from, by) = (if near { x } else { end }, if near { w } else { w - T::ONE });
            from + by * (end - x)
        };
        complexes |x, end, w| {
            let near = w.re * w.re + w.im * w.im < R::from_f64(0.25);
            let (from, by) = if near { (x, w) } else { (end, w.sub(<Complex<R> as Number>::ONE)) };
            from.add(by.mul(end.sub(x)))
        };
    );
    derivative: backward! {
        self_(g, weight: OwnedOperand) => match weight.conj()? {
            OwnedOperand::Tensor(w) => g.mul(&w.rsub(1)?)?,
            OwnedOperand::Scalar(w) => g.sub(&g.mul(w)?)?,
        },
        end(g, weight: OwnedOperand) => g.mul(&weight.conj()?)?,
        weight(g, self_: Tensor, end: Tensor) => g.mul(&end.sub(&self_)?.conj()?)?,
    };
    samples: |m| match m.dtype.is_differentiable() {
        false => vec![],
        true => vec![
            sample![m.any(&[2, 3]), m.any(&[2, 3]), m.uniform(&[2, 3], 0.0, 0.4)],
            sample![m.any(&[2, 3]), m.any(&[3]), Scalar::Float(0.75)],
        ],
    };
    out_rule: crate::OutRule::call(lerp_writes);
    fn lerp(&self, end: &Tensor, weight: impl IntoOperand) -> Tensor [self, end, weight.operand()];
    fn lerp_(&self, end: &Tensor, weight: impl IntoOperand) -> Tensor [self, end, weight.operand()] in INPLACE;
}

/// The factor `value`: one when absent.
fn factor(args: &[Value<'_>], dtype: DType) -> Result<Params> {
    let mut params = compute_params(args, dtype)?;
    if matches!(args.first(), None | Some(Value::None)) {
        params[0] = Scalar::Int(1);
    }
    Ok(params)
}

fn factor_conj(value: Option<Scalar>) -> Scalar {
    value.unwrap_or(Scalar::Int(1)).conj()
}

op! {
    /// `self + value * tensor1 * tensor2`.
    addcmul: "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
        InPlace INPLACE: "addcmul_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!)",
        Out OUT: "addcmul.out(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(3, Promotion::Common, factor, "addcmul_cpu_out"; numbers light tensors |x, a, b; p| x.add(p[0].mul(a).mul(b)););
    derivative: backward! {
        self_(g) => g.clone(),
        tensor1(g, tensor2: Tensor, value: Option<Scalar>) => g.mul(&tensor2.conj()?)?.mul(factor_conj(value))?,
        tensor2(g, tensor1: Tensor, value: Option<Scalar>) => g.mul(&tensor1.conj()?)?.mul(factor_conj(value))?,
    };
    samples: |m| match m.dtype {
        DType::Bool => vec![],
        _ => vec![
            sample![m.any(&[2, 3]), m.any(&[2, 3]), m.any(&[2, 3])],
            sample![m.any(&[2, 3]), m.any(&[3]), m.any(&[2, 1]), Scalar::Int(2)],
        ],
    };
    fn addcmul(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Tensor [self, tensor1, tensor2, value.into()];
    fn addcmul_(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Tensor [self, tensor1, tensor2, value.into()] in INPLACE;
}

fn addcdiv_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let whole = |o: &Operand<'_>| matches!(o, Operand::Tensor(t) if t.dtype().is_integral(true));
    ensure!(
        !operands.iter().skip(1).all(whole),
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true \
         division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * \
         torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) \
         for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / \
         tensor2), for all dtypes."
    );
    Ok(result_type(operands))
}

op! {
    /// `self + value * tensor1 / tensor2`.
    addcdiv: "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
        InPlace INPLACE: "addcdiv_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!)",
        Out OUT: "addcdiv.out(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(3, Promotion::Custom(addcdiv_dtype), factor, "addcdiv_cpu_out";
        floats light tensors |x, a, b; p| x + p[0] * a / b;
        complexes |x, a, b; p| x.add(p[0].mul(a).div(b));
    );
    derivative: backward! {
        self_(g) => g.clone(),
        tensor1(g, tensor2: Tensor, value: Option<Scalar>) => g.mul(factor_conj(value))?.div(&tensor2.conj()?)?,
        tensor2(g, tensor1: Tensor, tensor2: Tensor, value: Option<Scalar>) => {
            g.mul(factor_conj(value))?.neg()?.mul(&tensor1.div(&tensor2.mul(&tensor2)?)?.conj()?)?
        },
    };
    samples: |m| match m.dtype.is_differentiable() {
        false => vec![],
        true => vec![
            sample![m.any(&[2, 3]), m.any(&[2, 3]), m.uniform(&[2, 3], 1.0, 3.0)],
            sample![m.any(&[2, 3]), m.any(&[3]), m.uniform(&[2, 1], 1.0, 3.0), Scalar::Int(2)],
        ],
    };
    fn addcdiv(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Tensor [self, tensor1, tensor2, value.into()];
    fn addcdiv_(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Tensor [self, tensor1, tensor2, value.into()] in INPLACE;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    addcdiv::ALL,
    addcmul::ALL,
    clamp::ALL,
    clamp_::ALL,
    clamp_between::ALL,
    clamp_max::ALL,
    clamp_min::ALL,
    clamp_out::ALL,
    clamp_tensor::ALL,
    clamp_tensor_::ALL,
    clamp_tensor_out::ALL,
    clip::ALL,
    clip_::ALL,
    clip_out::ALL,
    clip_tensor::ALL,
    clip_tensor_::ALL,
    clip_tensor_out::ALL,
    lerp::ALL,
    where_::ALL,
];
