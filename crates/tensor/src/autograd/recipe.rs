//! An operator's formulas with every name replaced by a number: worked out at its first recorded call, so that the
//! calls after it compare no strings.

use super::node::EdgeStarts;
use super::saved::SaveKind;
use super::{Derivative, Formula};
use crate::op::Op;
use crate::schema::Base;
use crate::{Error, Result};
use smallvec::SmallVec;

/// What recording a call and running its backward need to know about an operator.
pub(crate) struct Recipe {
    /// One entry per formula.
    pub steps: Vec<Step>,
    /// What some formula reads; a node's saved values stand in this order.
    pub slots: Vec<Source>,
    /// The slot of each name that a formula reads.
    names: Vec<(&'static str, u8)>,
    /// The first result is a list of tensors: saving "it" saves them all.
    pub list_result: bool,
    /// The arguments that are tensors to PyTorch's programs also when they are numbers or left out, one bit each.
    pub numbers: u64,
    /// The arguments that edges lead to, in order: those that some formula gives the gradient of, and what in-place forms
    /// write. One of the `numbers` has one edge, to nowhere if it is no tensor in a call; of others, a list has one for each
    /// of its tensors, and a number none.
    pub inputs: SmallVec<[usize; 4]>,
    /// See [`EdgeStarts`]; `None` if there are such others, so that calls differ.
    pub edge_starts: Option<EdgeStarts>,
}

/// One formula.
pub(crate) struct Step {
    pub formula: &'static Formula,
    /// The positions of the arguments whose gradients it gives, in its order.
    pub inputs: SmallVec<[usize; 2]>,
    /// The same, one bit each.
    pub wants: u64,
    /// The slots it reads, and how much of each.
    pub saves: SmallVec<[(u8, SaveKind); 4]>,
}

/// Where a saved value comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// This argument.
    Argument(usize),
    /// This result.
    Result(usize),
}

/// A formula's name without the underscore that keeps it from being a Rust keyword.
pub(crate) fn plain(name: &str) -> &str {
    name.strip_suffix('_').unwrap_or(name)
}

impl Recipe {
    /// Resolves the formulas of a functional operator.
    ///
    /// # Errors
    /// When a formula names something that the schema lacks.
    pub fn of(op: &'static Op) -> Result<Recipe> {
        let formulas = match op.derivative {
            Derivative::Formulas(formulas) => formulas,
            Derivative::NonDifferentiable | Derivative::NotImplemented(_) => &[],
        };
        let list_result = op.schema().returns.first().is_some_and(|r| r.ty.list.is_some());
        let arithmetic =
            matches!(op.full_name(), "add.Scalar" | "sub.Scalar" | "mul.Scalar" | "div.Scalar" | "div.Scalar_mode");
        let mut numbers = 0;
        for (i, p) in op.schema().params.iter().enumerate() {
            let tensor = p.ty.base == Base::Tensor && p.ty.list.is_none();
            numbers |= u64::from(tensor || (arithmetic && p.name == "other")) << i;
        }
        let (inputs, edge_starts) = (SmallVec::new(), None);
        let mut recipe = Recipe {
            steps: Vec::new(),
            slots: Vec::new(),
            names: Vec::new(),
            list_result,
            numbers,
            inputs,
            edge_starts,
        };
        for formula in formulas {
            let mut step = Step { formula, inputs: SmallVec::new(), wants: 0, saves: SmallVec::new() };
            for &name in formula.inputs {
                match source(op, name) {
                    Some(Source::Argument(i)) => {
                        step.inputs.push(i);
                        step.wants |= 1 << i;
                    }
                    _ => return Err(unknown(op, name)),
                }
            }
            for &(name, kind) in formula.saves {
                let source = source(op, name).ok_or_else(|| unknown(op, name))?;
                let slot = match recipe.slots.iter().position(|s| *s == source) {
                    Some(slot) => slot,
                    None => {
                        recipe.slots.push(source);
                        recipe.slots.len() - 1
                    }
                } as u8;
                if !recipe.names.iter().any(|(n, _)| *n == name) {
                    recipe.names.push((name, slot));
                }
                step.saves.push((slot, kind));
            }
            recipe.steps.push(step);
        }
        recipe.find_inputs(op, arithmetic);
        Ok(recipe)
    }

    /// Finds the arguments that edges lead to. Where nothing is known of gradients, that is every tensor.
    fn find_inputs(&mut self, op: &'static Op, arithmetic: bool) {
        let params = &op.schema().params;
        // (Every operator with a derived in-place form calls what that writes `self`.)
        let written = |i: usize, name: &str| i == 0 && (name == "self" || op.mutates());
        let mut starts = EdgeStarts::new();
        for (i, p) in params.iter().enumerate() {
            starts.push(self.inputs.len() as u32);
            let given = self.steps.iter().any(|step| step.inputs.contains(&i));
            // (Overloads take tensors where the schema has numbers.)
            let known = match p.ty.base {
                Base::Tensor => self.steps.is_empty() || written(i, &p.name),
                Base::Scalar => self.steps.is_empty() || (arithmetic && p.name == "other"),
                _ => false,
            };
            if given || known {
                self.inputs.push(i);
            }
        }
        starts.push(self.inputs.len() as u32);
        let fixed = self.inputs.iter().all(|i| self.numbers >> i & 1 == 1);
        self.edge_starts = fixed.then_some(starts);
    }

    /// The slot of a name as a formula writes it.
    #[inline]
    pub fn slot(&self, name: &str) -> Option<usize> {
        self.names.iter().find(|(n, _)| *n == name).map(|(_, slot)| usize::from(*slot))
    }
}

impl Recipe {
    /// The names of the slots as the schema has them.
    pub fn names(&self) -> Vec<String> {
        self.names.iter().map(|(n, _)| plain(n).to_string()).collect()
    }

    /// The slot of a name as the schema has it.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().find(|(n, _)| plain(n) == name).map(|(_, slot)| usize::from(*slot))
    }
}

#[cold]
fn unknown(op: &Op, name: &str) -> Error {
    Error::runtime(format!("{}: a derivative formula names '{name}', which the schema lacks", op.full_name()))
}

/// The argument or result that a formula calls `name`: a parameter's name, `result` and a number, or a return's name.
fn source(op: &'static Op, name: &str) -> Option<Source> {
    let name = plain(name);
    let schema = op.schema();
    if let Some(i) = schema.position(name) {
        return Some(Source::Argument(i));
    }
    if let Some(number) = name.strip_prefix("result") {
        return Some(Source::Result(if number.is_empty() { 0 } else { number.parse().ok()? }));
    }
    schema.returns.iter().position(|r| r.name.as_deref() == Some(name)).map(Source::Result)
}
