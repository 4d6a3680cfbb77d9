//! States: tensors by name.

use flambeau::Tensor;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// Tensors by dotted name: the state of a module or an optimiser.
#[derive(Clone, Default, Debug)]
pub struct StateDict(BTreeMap<String, Tensor>);

impl StateDict {
    /// An empty one.
    #[must_use]
    pub fn new() -> StateDict {
        StateDict::default()
    }

    /// Adds all of `other` under `prefix.`.
    pub fn insert_section(&mut self, prefix: &str, other: &StateDict) {
        self.extend(other.iter().map(|(name, tensor)| (format!("{prefix}.{name}"), tensor.clone())));
    }

    /// What stands under `prefix.`, without it.
    #[must_use]
    pub fn section(&self, prefix: &str) -> StateDict {
        let inside = |name: &str| Some(name.strip_prefix(prefix)?.strip_prefix('.')?.to_owned());
        self.iter().filter_map(|(name, tensor)| Some((inside(name)?, tensor.clone()))).collect()
    }
}

impl Deref for StateDict {
    type Target = BTreeMap<String, Tensor>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
impl DerefMut for StateDict {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
impl FromIterator<(String, Tensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(items: I) -> StateDict {
        StateDict(items.into_iter().collect())
    }
}

/// What a loading that is not strict left out.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// The module's names that the state lacks.
    pub missing_keys: Vec<String>,
    /// The state's names that the module lacks.
    pub unexpected_keys: Vec<String>,
}

/// What keeps a state from being loaded, in PyTorch's words.
pub(crate) fn describe_mismatch(report: &LoadReport, pairs: &[(&str, &Tensor, &Tensor)], strict: bool) -> Vec<String> {
    let quoted = |names: &[String]| names.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ");
    let mut problems = Vec::new();
    if strict && !report.missing_keys.is_empty() {
        problems.push(format!("Missing key(s) in state_dict: {}. ", quoted(&report.missing_keys)));
    }
    if strict && !report.unexpected_keys.is_empty() {
        problems.push(format!("Unexpected key(s) in state_dict: {}. ", quoted(&report.unexpected_keys)));
    }
    for (name, own, given) in pairs {
        if own.sizes() != given.sizes() {
            problems.push(format!(
                "size mismatch for {name}: copying a param with shape torch.Size({:?}) from checkpoint, the shape in \
                 current model is torch.Size({:?}).",
                given.sizes(),
                own.sizes()
            ));
        }
    }
    problems
}
