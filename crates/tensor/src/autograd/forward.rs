//! Forward mode: tensors carry a tangent beside their value, and every operator carries it on.

use super::saved::Geometry;
use super::{AutogradMeta, Derivative, Forward, enable_grad, no_grad};
use crate::keys::{Key, KeyGuard, KeySet};
use crate::op::{Body, Form, Op};
use crate::value::{Outputs, OwnedValue, Value};
use crate::{Error, Result, Tensor, ensure};
use std::cell::RefCell;
use std::sync::Weak;

/// The tangents of an operator's results.
pub(crate) type Tangents = Vec<Option<Tensor>>;

impl Tensor {
    /// The forward-mode tangent, if there is one.
    pub fn tangent(&self) -> Option<Tensor> {
        if !super::Tensor::key_set(self).has(Key::FORWARD) {
            return None;
        }
        self.0.autograd.get()?.state.lock().tangent.clone()
    }

    pub(crate) fn set_tangent(&self, tangent: Option<Tensor>) {
        self.set_key(Key::FORWARD, tangent.is_some());
        let _old = std::mem::replace(&mut self.meta().state.lock().tangent, tangent);
        LEVEL.with_borrow_mut(|level| {
            if let Some(level) = level {
                level.push(self.0.autograd.weak());
            }
        });
    }
}

thread_local! {
    /// The tensors that were given tangents since this thread entered a level.
    static LEVEL: RefCell<Option<Vec<Weak<AutogradMeta>>>> = const { RefCell::new(None) };
}

/// From now on this thread notes which tensors carry tangents, until [`exit_dual_level`].
///
/// # Errors
/// When it does already: there is one level.
pub fn enter_dual_level() -> Result<()> {
    LEVEL.with_borrow_mut(|level| {
        ensure!(level.is_none(), "Nested forward mode AD is not supported at the moment");
        *level = Some(Vec::new());
        Ok(())
    })
}

/// Takes the tangents away from all tensors that got one since [`enter_dual_level`].
///
/// # Errors
/// When no level was entered.
pub fn exit_dual_level() -> Result<()> {
    let Some(level) = LEVEL.take() else {
        return Err(Error::runtime(
            "Exiting a forward AD level that is not the last that was created is not support. Ensure they are released in \
             the reverse order they were created.",
        ));
    };
    for meta in level.iter().filter_map(Weak::upgrade) {
        let _old = meta.state.lock().tangent.take();
    }
    Ok(())
}

/// A view of `primal` that carries `tangent`.
///
/// # Errors
/// When their shapes or dtypes differ.
pub fn make_dual(primal: &Tensor, tangent: &Tensor) -> Result<Tensor> {
    ensure!(
        primal.tangent().is_none(),
        "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
    );
    ensure!(
        primal.sizes() == tangent.sizes(),
        "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not \
         supported. Tensor is of size {:?} while the given forward gradient is of size {:?}.",
        primal.sizes(),
        tangent.sizes()
    );
    ensure!(
        primal.dtype().is_complex() == tangent.dtype().is_complex(),
        "Expected primal and tangent to be both real or both complex, but got {} and {}",
        primal.dtype(),
        tangent.dtype()
    );
    let dual = primal.view_as(primal)?;
    dual.set_tangent(Some(tangent.clone()));
    Ok(dual)
}

/// The value without its tangent, and the tangent.
///
/// # Errors
/// None at present.
pub fn unpack_dual(dual: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
    let _below = KeyGuard::exclude(KeySet::of(Key::FORWARD));
    Ok((dual.view_as(dual)?, dual.tangent()))
}

/// The value of `f` at `inputs` and its derivative along `tangents`.
///
/// # Errors
/// Whatever `f` gives, and when a tangent does not fit its input.
pub fn jvp(
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    tangents: &[Tensor],
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    ensure!(inputs.len() == tangents.len(), "jvp: {} inputs but {} tangents", inputs.len(), tangents.len());
    let duals = inputs.iter().zip(tangents).map(|(x, t)| make_dual(x, t)).collect::<Result<Vec<_>>>()?;
    let mut values = Vec::new();
    let mut derivatives = Vec::new();
    for y in f(&duals)? {
        let (value, tangent) = unpack_dual(&y)?;
        derivatives.push(match tangent {
            Some(t) => t,
            None => value.zeros_like()?,
        });
        values.push(value);
    }
    Ok((values, derivatives))
}

/// The tangents of a call's results, computed before the call, which may write to its arguments.
pub(super) fn tangents(op: &'static Op, args: &[Value<'_>]) -> Result<Option<Tangents>> {
    if matches!(op.body, Body::Variant(Form::Out, _)) {
        return Err(Error::runtime(format!("{}(): out= is not supported in forward mode", op.name())));
    }
    let base = op.functional();
    if matches!(base.derivative, Derivative::NonDifferentiable) {
        return Ok(None);
    }
    // A tensor whose tangent went with its level still has the key.
    let carries = |a: &Value<'_>| match a {
        Value::Tensor(t) => t.tangent().is_some(),
        Value::Tensors(ts) => ts.iter().any(|t| t.tangent().is_some()),
        Value::OptionalTensors(ts) => ts.iter().flatten().any(|t| t.tangent().is_some()),
        _ => false,
    };
    if !args.iter().any(carries) {
        return Ok(None);
    }
    let args: Vec<OwnedValue> = args.iter().map(Value::to_owned).collect();
    // The tangents' own computation carries no tangents (PyTorch has one level too), but it may have history.
    let _below = KeyGuard::exclude(KeySet::of(Key::FORWARD));
    match base.forward {
        Forward::Linear => linear(base, &args, &|_| true).map(Some),
        Forward::Multilinear => multilinear(base, &args).map(Some),
        Forward::FromBackward => from_backward(base, &args).map(Some),
    }
}

/// All tensors among the arguments, in order, lists spread out.
fn tensors_of(args: &[OwnedValue]) -> Vec<Tensor> {
    let mut out = Vec::new();
    for a in args {
        match a {
            OwnedValue::Tensor(t) => out.push(t.clone()),
            OwnedValue::Tensors(ts) => out.extend(ts.iter().cloned()),
            OwnedValue::OptionalTensors(ts) => out.extend(ts.iter().flatten().cloned()),
            _ => {}
        }
    }
    out
}

/// The same arguments with each tensor replaced by what `f` gives for its number.
fn replace(args: &[OwnedValue], f: &mut dyn FnMut(usize, &Tensor) -> Result<Tensor>) -> Result<Vec<OwnedValue>> {
    let mut k = 0;
    let mut next = |t: &Tensor| {
        k += 1;
        f(k - 1, t)
    };
    args.iter()
        .map(|a| {
            Ok(match a {
                OwnedValue::Tensor(t) => OwnedValue::Tensor(next(t)?),
                OwnedValue::Tensors(ts) => OwnedValue::Tensors(ts.iter().map(&mut next).collect::<Result<_>>()?),
                OwnedValue::OptionalTensors(ts) => OwnedValue::OptionalTensors(
                    ts.iter().map(|t| t.as_ref().map(&mut next).transpose()).collect::<Result<_>>()?,
                ),
                other => other.clone(),
            })
        })
        .collect()
}

fn call(op: &'static Op, args: &[OwnedValue]) -> Result<Outputs> {
    let values: Vec<Value<'_>> = args.iter().map(OwnedValue::borrow).collect();
    op.call(&values)
}

fn linear(op: &'static Op, args: &[OwnedValue], differentiable: &dyn Fn(usize) -> bool) -> Result<Tangents> {
    let args = replace(args, &mut |k, t| match t.dtype().is_differentiable() && differentiable(k) {
        false => Ok(t.clone()),
        true => match t.tangent() {
            Some(tangent) => Ok(tangent),
            None => t.zeros_like(),
        },
    })?;
    let out = call(op, &args)?;
    Ok((0..out.len()).map(|i| out.get(i).filter(|t| t.dtype().is_differentiable()).cloned()).collect())
}

fn multilinear(op: &'static Op, args: &[OwnedValue]) -> Result<Tangents> {
    let mut sum: Option<Tensor> = None;
    for (k, t) in tensors_of(args).iter().enumerate() {
        let Some(tangent) = t.tangent() else { continue };
        let args = replace(args, &mut |i, t| Ok(if i == k { tangent.clone() } else { t.clone() }))?;
        let term = call(op, &args)?.one()?;
        sum = Some(match sum {
            Some(s) => s.add(&term)?,
            None => term,
        });
    }
    Ok(vec![sum])
}

/// The derivative along the tangents, from the gradient alone: `J' v` is linear in `v`, so differentiating `<t, J' v>`
/// with respect to `v` gives `J t`. (Townsend, "A new trick for calculating Jacobian vector products".)
fn from_backward(op: &'static Op, args: &[OwnedValue]) -> Result<Tangents> {
    let outer_grad = super::is_grad_enabled();
    let _mode = enable_grad();
    let mut inputs = Vec::new();
    let mut directions = Vec::new();
    let keep_history = outer_grad && tensors_of(args).iter().any(Tensor::requires_grad);
    let mut fresh = replace(args, &mut |_, t| {
        let Some(tangent) = t.tangent() else {
            return if keep_history { Ok(t.clone()) } else { t.detach_all() };
        };
        let x = match keep_history && t.requires_grad() {
            true => t.view_as(t)?,
            false => t.detach_all()?.requires_grad_(true)?,
        };
        inputs.push(x.clone());
        directions.push(tangent);
        Ok(x)
    })?;
    // What is written must not be a leaf, nor the caller's memory a second time.
    for (i, a) in fresh.iter_mut().enumerate() {
        if let (OwnedValue::Tensor(t), 1) = (a, op.mutated() >> i & 1) {
            *t = t.clone_in(crate::MemoryFormat::Preserve)?;
        }
    }
    let out = call(op, &fresh)?;
    let mut tangents = vec![None; out.len()];
    for (i, tangent) in tangents.iter_mut().enumerate() {
        let Some(y) = out.get(i).filter(|y| y.requires_grad()) else { continue };
        let v = y.detach_all()?.zeros_like()?.requires_grad_(true)?;
        let gradients = super::grad(std::slice::from_ref(y), &inputs, &[Some(v.clone())], true, true, true)?;
        let (mut ys, mut ts) = (Vec::new(), Vec::new());
        for (g, t) in gradients.into_iter().zip(&directions) {
            if let Some(g) = g.filter(Tensor::requires_grad) {
                ys.push(g);
                ts.push(Some(t.clone()));
            }
        }
        *tangent = Some(match ys.is_empty() {
            true => y.detach_all()?.zeros_like()?,
            false => match super::grad(&ys, std::slice::from_ref(&v), &ts, true, keep_history, true)?.pop().flatten() {
                Some(t) => t,
                None => y.detach_all()?.zeros_like()?,
            },
        });
    }
    Ok(tangents)
}

impl Tensor {
    /// The same data without history and without a tangent.
    pub(crate) fn detach_all(&self) -> Result<Tensor> {
        Ok(self.shallow_detached(true))
    }
}

/// Hangs the tangents on a call's results.
pub(super) fn attach(op: &'static Op, args: &[Value<'_>], outputs: &Outputs, tangents: Tangents) -> Result<()> {
    let _below = KeyGuard::exclude(KeySet::of(Key::FORWARD));
    if op.mutates() {
        let (Some(Value::Tensor(t)), Some(Some(new))) = (args.first(), tangents.first()) else { return Ok(()) };
        let new = if new.dtype() == t.dtype() { new.clone() } else { new.to_dtype(t.dtype())? };
        return write_tangent(t, &new);
    }
    for (i, tangent) in tangents.into_iter().enumerate().take(op.differentiable_results) {
        if let (Some(y), Some(tangent)) = (outputs.get(i), tangent)
            && y.dtype().is_differentiable()
        {
            y.set_tangent(Some(tangent));
        }
    }
    Ok(())
}

/// The tangent of a tensor that was written in place; a view's is a part of its base's.
fn write_tangent(t: &Tensor, new: &Tensor) -> Result<()> {
    if let Some(old) = t.tangent()
        && old.sizes() == new.sizes()
        && !crate::dims::may_overlap(old.sizes(), old.strides())
    {
        old.copy_(new)?;
        return Ok(());
    }
    let Some(base) = t.base() else {
        t.set_tangent(Some(new.expand_as(t)?.clone_in(crate::MemoryFormat::Preserve)?));
        return Ok(());
    };
    if base.tangent().is_none() {
        let g = Geometry::of(base);
        base.set_tangent(Some(Tensor::empty_strided(&g.sizes, &g.strides, (g.dtype, g.device))?.zero_()?));
    }
    let Some(whole) = base.tangent() else { return Ok(()) };
    let part = whole.as_strided(
        t.sizes(),
        t.strides(),
        Some((t.storage_offset() - base.storage_offset()).saturating_add(whole.storage_offset())),
    )?;
    let _mode = no_grad();
    part.copy_(new)?;
    t.set_tangent(Some(part));
    Ok(())
}
