//! Modules: what has parameters and buffers, by name.

use crate::state::{LoadReport, StateDict, describe_mismatch};
use crate::walk::{Leaf, LeafMut, Path, Walk};
use flambeau::autograd::no_grad;
use flambeau::{DType, Device, Error, Result, Tensor};
use std::collections::{HashMap, HashSet};

/// A part of a model: parameters, buffers and other modules, by dotted names (`layers.0.weight`). Derive it:
/// `#[derive(Module)]`. What it computes is up to it; if that is one tensor from one tensor, it is [`Forward`] too.
pub trait Module: Walk {
    /// The parameters and their names, each once even where it stands in several places.
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        self.walk(&mut Path::default(), &mut |name, leaf| {
            if let Leaf::Parameter(p) = leaf
                && seen.insert(p.id())
            {
                found.push((name.to_owned(), Tensor::clone(p)));
            }
        });
        found
    }

    /// The parameters, each once: what an optimiser takes.
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, p)| p).collect()
    }

    /// The buffers and their names, each once.
    fn named_buffers(&self) -> Vec<(String, Tensor)> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        self.walk(&mut Path::default(), &mut |name, leaf| {
            if let Leaf::Buffer(b) = leaf
                && seen.insert(b.id())
            {
                found.push((name.to_owned(), Tensor::clone(b)));
            }
        });
        found
    }

    /// Puts this module and all in it into training mode, or out of it.
    fn train(&self, on: bool) {
        self.walk(&mut Path::default(), &mut |_, leaf| {
            if let Leaf::Training(flag) = leaf {
                flag.set(on);
            }
        });
    }

    /// Takes this module and all in it out of training mode.
    fn eval(&self) {
        self.train(false);
    }

    /// Drops the gradients of all parameters.
    ///
    /// # Errors
    /// None at present.
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|p| p.set_grad(None))
    }

    /// Lets gradients flow to all parameters, or to none.
    ///
    /// # Errors
    /// As [`Tensor::set_requires_grad`].
    fn set_requires_grad(&self, on: bool) -> Result<()> {
        self.parameters().iter().try_for_each(|p| p.set_requires_grad(on))
    }

    /// Replaces parameters and buffers by ones of another dtype (those with a floating-point or complex one) or on
    /// another device. Optimisers hold the old parameters: make them afterwards.
    ///
    /// # Errors
    /// When the dtype is not floating-point or complex, or a copy fails; the module is then as it was.
    fn to(&mut self, dtype: Option<DType>, device: Option<Device>) -> Result<()> {
        if let Some(dtype) = dtype
            && !dtype.is_differentiable()
        {
            return Err(Error::type_(format!(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )));
        }
        let _guard = no_grad();
        // All are made before the first is put in place; shared tensors stay shared.
        let mut converted: HashMap<usize, Tensor> = HashMap::new();
        let mut convert = |t: &Tensor| -> Result<()> {
            let dtype = dtype.filter(|_| t.dtype().is_differentiable());
            let new = t.detach()?.to_options(dtype, device)?;
            if new.dtype() != t.dtype() || new.device() != t.device() {
                new.set_requires_grad(t.requires_grad())?;
                if let Some(grad) = t.grad() {
                    new.set_grad(Some(grad.to_options(dtype, device)?))?;
                }
                converted.insert(t.id(), new);
            }
            Ok(())
        };
        self.walk_mut(&mut |leaf| match leaf {
            LeafMut::Parameter(t) | LeafMut::Buffer(t) => convert(t),
        })?;
        self.walk_mut(&mut |leaf| {
            let (LeafMut::Parameter(t) | LeafMut::Buffer(t)) = leaf;
            if let Some(new) = converted.get(&t.id()) {
                *t = new.clone();
            }
            Ok(())
        })
    }

    /// All parameters and persistent buffers by name, without history. They share memory with the module.
    ///
    /// # Errors
    /// None at present.
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        let mut error = None;
        self.walk(&mut Path::default(), &mut |name, leaf| {
            let tensor: &Tensor = match leaf {
                Leaf::Parameter(p) => p,
                Leaf::Buffer(b) if b.is_persistent() => b,
                _ => return,
            };
            match tensor.detach() {
                Ok(t) => drop(state.insert(name.to_owned(), t)),
                Err(e) => error = Some(e),
            }
        });
        error.map_or(Ok(state), Err)
    }

    /// Copies the tensors of `state` into the parameters and buffers of the same names. Unless `strict`, names that
    /// only one side has are left alone and reported.
    ///
    /// # Errors
    /// When a size differs, or (if `strict`) a name is on one side only; the message lists all of them, and nothing
    /// has been copied.
    fn load_state_dict(&self, state: &StateDict, strict: bool) -> Result<LoadReport> {
        let mut own: Vec<(String, Tensor)> = Vec::new();
        self.walk(&mut Path::default(), &mut |name, leaf| match leaf {
            Leaf::Parameter(p) => own.push((name.to_owned(), Tensor::clone(p))),
            Leaf::Buffer(b) if b.is_persistent() => own.push((name.to_owned(), Tensor::clone(b))),
            _ => {}
        });
        let names: HashSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
        let report = LoadReport {
            missing_keys: own.iter().filter(|(name, _)| !state.contains_key(name)).map(|(n, _)| n.clone()).collect(),
            unexpected_keys: state.keys().filter(|name| !names.contains(name.as_str())).cloned().collect(),
        };
        let pairs: Vec<(&str, &Tensor, &Tensor)> =
            own.iter().filter_map(|(name, t)| Some((name.as_str(), t, state.get(name)?))).collect();
        let problems = describe_mismatch(&report, &pairs, strict);
        if !problems.is_empty() {
            return Err(Error::runtime(format!(
                "Error(s) in loading state_dict for {}:\n\t{}",
                self.type_name(),
                problems.join("\n\t")
            )));
        }
        // Conversions may fail, so they come before the first write.
        let _guard = no_grad();
        let converted: Vec<Tensor> = (pairs.iter())
            .map(|(name, own, given)| {
                given.detach()?.to_options(Some(own.dtype()), Some(own.device())).map_err(|e| e.context(name))
            })
            .collect::<Result<_>>()?;
        for ((_, own, _), new) in pairs.iter().zip(&converted) {
            own.copy_(new)?;
        }
        Ok(report)
    }

    /// The type's name without its path.
    fn type_name(&self) -> &'static str {
        let full = std::any::type_name::<Self>();
        let end = full.find('<').unwrap_or(full.len());
        let start = full[..end].rfind("::").map_or(0, |i| i + 2);
        &full[start..end]
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn type_name(&self) -> &'static str {
        (**self).type_name()
    }
}
impl<M: Module> Module for Vec<M> {}
impl<M: Module> Module for Option<M> {}

/// A module that computes one tensor from one tensor.
pub trait Forward: Module {
    /// Computes it.
    ///
    /// # Errors
    /// Those of the operators it is made of.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;
}

impl<F: Forward + ?Sized> Forward for Box<F> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        (**self).forward(input)
    }
}
