//! Arguments as data: copying them, mapping their tensors, and calling an operator with them.

use flambeau::schema::{Base, Type};
use flambeau::value::Outputs;
use flambeau::{Generator, MemoryFormat, Op, OwnedValue, Result, Scalar, Tensor, manual_seed};

/// The arguments with those left out at the end put in: defaults of the schema where there are any.
pub(crate) fn complete(op: &Op, mut args: Vec<OwnedValue>) -> Vec<OwnedValue> {
    let left_out = op.schema().params.iter().skip(args.len());
    args.extend(left_out.map(|p| p.default_value().unwrap_or(OwnedValue::None)));
    args
}

/// The arguments with `f` of every tensor in place of it.
pub(crate) fn map(args: &[OwnedValue], f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Vec<OwnedValue>> {
    args.iter()
        .map(|a| {
            Ok(match a {
                OwnedValue::Tensor(t) => OwnedValue::Tensor(f(t)?),
                OwnedValue::Tensors(ts) => OwnedValue::Tensors(ts.iter().map(&mut *f).collect::<Result<_>>()?),
                OwnedValue::OptionalTensors(ts) => OwnedValue::OptionalTensors(
                    ts.iter().map(|t| t.as_ref().map(&mut *f).transpose()).collect::<Result<_>>()?,
                ),
                other => other.clone(),
            })
        })
        .collect()
}

/// Every tensor of the arguments, in order.
pub(crate) fn tensors(args: &[OwnedValue]) -> Vec<Tensor> {
    let mut found = Vec::new();
    for a in args {
        match a {
            OwnedValue::Tensor(t) => found.push(t.clone()),
            OwnedValue::Tensors(ts) => found.extend(ts.iter().cloned()),
            OwnedValue::OptionalTensors(ts) => found.extend(ts.iter().flatten().cloned()),
            _ => {}
        }
    }
    found
}

/// The arguments with other tensors, in order.
pub(crate) fn with_tensors(args: &[OwnedValue], tensors: &[Tensor]) -> Result<Vec<OwnedValue>> {
    let mut next = tensors.iter();
    map(args, &mut |old| Ok(next.next().unwrap_or(old).clone()))
}

/// The arguments with copies of what `op` writes to.
pub(crate) fn with_copies(
    op: &'static Op,
    args: &[OwnedValue],
    copy: &dyn Fn(&Tensor) -> Result<Tensor>,
) -> Result<Vec<OwnedValue>> {
    let written = op.mutated();
    let one = |(i, a): (usize, &OwnedValue)| match written >> i & 1 == 1 {
        true => Ok(map(std::slice::from_ref(a), &mut |t| copy(t))?.swap_remove(0)),
        false => Ok(a.clone()),
    };
    args.iter().enumerate().map(one).collect()
}

/// Calls `op`: with copies of what it writes to, and the random stream at its start.
pub(crate) fn call(op: &'static Op, args: &[OwnedValue]) -> Result<Vec<Option<Tensor>>> {
    let mut args = with_copies(op, args, &|t| t.clone_in(MemoryFormat::Preserve))?;
    for (a, param) in args.iter_mut().zip(&op.schema().params) {
        if param.ty.base == Base::Generator {
            *a = OwnedValue::Generator(Generator::new(SEED));
        }
    }
    call_as_is(op, &args)
}

/// Of each tensor among the arguments, whether the operator refuses to be asked for its gradient: there is none.
///
/// # Errors
/// When a tensor cannot be copied.
pub(crate) fn constants(op: &'static Op, args: &[OwnedValue]) -> Result<Vec<bool>> {
    let inputs = tensors(args);
    let refused = |asked: &dyn Fn(usize) -> bool| -> Result<bool> {
        let leaf = |(i, t): (usize, &Tensor)| match asked(i) && t.dtype().is_differentiable() {
            true => t.detach()?.clone_in(MemoryFormat::Preserve)?.requires_grad_(true),
            false => Ok(t.clone()),
        };
        let leaves = inputs.iter().enumerate().map(leaf).collect::<Result<Vec<_>>>()?;
        let error = call(op, &with_tensors(args, &leaves)?).err();
        Ok(error.is_some_and(|e| e.message().contains("is not differentiable with respect to argument")))
    };
    match refused(&|_| true)? {
        true => (0..inputs.len()).map(|i| refused(&|asked| asked == i)).collect(),
        false => Ok(vec![false; inputs.len()]),
    }
}

/// Whether the last call drew random numbers, or its operator takes a generator to draw them from.
pub(crate) fn drew_numbers(op: &Op) -> bool {
    let fresh = Generator::new(SEED);
    let takes = op.schema().params.iter().any(|p| p.ty.base == Base::Generator);
    takes || Generator::default_generator().get_state() != fresh.get_state()
}

/// Where random streams begin.
const SEED: u64 = 1;

/// Calls `op` with these very arguments. Where it gives nothing, its results are what it wrote.
pub(crate) fn call_as_is(op: &'static Op, args: &[OwnedValue]) -> Result<Vec<Option<Tensor>>> {
    manual_seed(SEED);
    let borrowed: Vec<_> = args.iter().map(OwnedValue::borrow).collect();
    Ok(match op.call(&borrowed)? {
        Outputs::None => {
            let written = op.functional().mutated();
            let of = |(i, a): (usize, &OwnedValue)| (written >> i & 1 == 1).then(|| a.clone());
            tensors(&args.iter().enumerate().filter_map(of).collect::<Vec<_>>()).into_iter().map(Some).collect()
        }
        Outputs::One(t) => vec![Some(t)],
        Outputs::Many(ts) => ts,
        Outputs::Scalar(s) => vec![Some(match s {
            Scalar::Bool(b) => Tensor::scalar(flambeau::Bool::from(b))?,
            Scalar::Int(i) => Tensor::scalar(i)?,
            Scalar::UInt(i) => Tensor::scalar(i)?,
            Scalar::Float(x) => Tensor::scalar(x)?,
            Scalar::Complex(z) => Tensor::scalar(z)?,
        })],
    })
}

/// Whether a value fits a parameter's type.
pub(crate) fn fits(value: &OwnedValue, ty: &Type) -> bool {
    match value {
        OwnedValue::Tensor(_) => ty.base == Base::Tensor && ty.list.is_none(),
        OwnedValue::Scalar(_) => ty.base == Base::Scalar || ty.base == Base::Tensor && ty.list.is_none(),
        OwnedValue::None => ty.optional || ty.base == Base::Generator,
        _ => true,
    }
}

/// The arguments of a form of an operator, by name, then by place; `None` where they do not fit it. Arguments to be
/// written by an `out=` form are left out.
pub(crate) fn for_form(op: &'static Op, args: &[OwnedValue], form: &'static Op) -> Option<Vec<OwnedValue>> {
    let (from, to) = (op.schema(), form.schema());
    let outs = match to.params.len() > from.params.len() || super::form_of(form) == Some(flambeau::Form::Out) {
        true => (form.mutated().count_ones() - op.mutated().count_ones()) as usize,
        false => 0,
    };
    let mut values = Vec::new();
    for (i, param) in to.params[..to.params.len() - outs].iter().enumerate() {
        let value = args.get(from.position(&param.name).unwrap_or(i))?;
        if !fits(value, &param.ty) {
            return None;
        }
        values.push(value.clone());
    }
    Some(values)
}
