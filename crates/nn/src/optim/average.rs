//! Averages of a model's parameters over the steps of its training, which often do better than the last ones.

use super::copied;
use crate::module::Module;
use crate::state::StateDict;
use crate::walk::{Leaf, Path};
use flambeau::autograd::no_grad;
use flambeau::{Error, Result, Tensor, ensure};

/// How parameters are averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Averaging {
    /// All alike (Izmailov et al. 2018).
    Equal,
    /// With weights that decay: this much of the average is kept at every update.
    Exponential(f64),
}

/// The averages of a module's parameters, beside the newest of its buffers.
///
/// ```
/// use flambeau_nn::optim::{AveragedModel, Averaging};
/// use flambeau_nn::{Linear, Module, Result};
/// # fn main() -> Result<()> {
/// let (net, copy) = (Linear::new(2, 2)?, Linear::new(2, 2)?);
/// let mut average = AveragedModel::new(&net, Averaging::Exponential(0.999))?;
/// average.update(&net)?; // after every step of the optimiser
/// copy.load_state_dict(average.state_dict(), true)?;
/// # Ok(())
/// # }
/// ```
pub struct AveragedModel {
    state: StateDict,
    averaging: Averaging,
    updates: u64,
}

impl AveragedModel {
    /// Averages that begin with what `module` has; its first update replaces it.
    ///
    /// # Errors
    /// When a decay is not between 0 and 1, or memory runs out.
    pub fn new(module: &impl Module, averaging: Averaging) -> Result<AveragedModel> {
        if let Averaging::Exponential(decay) = averaging
            && !(0.0..=1.0).contains(&decay)
        {
            return Err(Error::value(format!(
                "Invalid decay value {decay} provided. Please provide a value in [0,1] range."
            )));
        }
        let _guard = no_grad();
        let state = module.state_dict()?;
        let copies = state.iter().map(|(name, t)| Ok((name.clone(), copied(t)?)));
        Ok(AveragedModel { state: copies.collect::<Result<_>>()?, averaging, updates: 0 })
    }

    /// Takes the module's present parameters into the averages, and its buffers as they are.
    ///
    /// # Errors
    /// When the module is not of the same names and sizes.
    pub fn update(&mut self, module: &impl Module) -> Result<()> {
        let _guard = no_grad();
        let weight = match self.averaging {
            _ if self.updates == 0 => 1.0,
            Averaging::Equal => 1.0 / (self.updates as f64 + 1.0),
            Averaging::Exponential(decay) => 1.0 - decay,
        };
        let mut outcome = Ok(());
        module.walk(&mut Path::default(), &mut |name, leaf| {
            let (new, weight): (&Tensor, f64) = match leaf {
                Leaf::Parameter(p) => (p, weight),
                Leaf::Buffer(b) if b.is_persistent() => (b, 1.0),
                _ => return,
            };
            if outcome.is_ok() {
                outcome = self.mix(name, new, weight);
            }
        });
        outcome?;
        self.updates += 1;
        Ok(())
    }

    fn mix(&self, name: &str, new: &Tensor, weight: f64) -> Result<()> {
        let own = self.state.get(name).ok_or_else(|| Error::value(format!("there is no average of '{name}'")))?;
        ensure!(own.sizes() == new.sizes(), "'{name}' has sizes {:?}, its average {:?}", new.sizes(), own.sizes());
        let new = new.detach()?;
        if weight == 1.0 {
            own.copy_(&new)?;
        } else {
            own.lerp_(&new.to_options(Some(own.dtype()), Some(own.device()))?, weight)?;
        }
        Ok(())
    }

    /// The averages, by the module's names: for another module's `load_state_dict`, or a checkpoint.
    #[must_use]
    pub fn state_dict(&self) -> &StateDict {
        &self.state
    }

    /// How many updates there were.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Goes on from the averages and the number of updates of an earlier run.
    ///
    /// # Errors
    /// When names or sizes differ; nothing has changed then.
    pub fn load_state_dict(&mut self, state: &StateDict, updates: u64) -> Result<()> {
        let same = self.state.len() == state.len()
            && self.state.iter().all(|(name, own)| state.get(name).is_some_and(|t| t.sizes() == own.sizes()));
        ensure!(same, "loaded state dict is not of averages of this module");
        let _guard = no_grad();
        for (name, own) in self.state.iter() {
            own.copy_(&state[name])?;
        }
        self.updates = updates;
        Ok(())
    }
}
