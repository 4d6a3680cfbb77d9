//! What an operator's `out=` form may write to: dtypes, sizes, and memory that is shared with its arguments.

use crate::op::Op;
use crate::value::Value;
use crate::{DType, Result};

/// A result of a call, and the `out=` tensor that it is to be written to.
pub struct Write<'a, 'v> {
    /// The operator, in its functional form.
    pub op: &'static Op,
    /// Its arguments.
    pub inputs: &'a [Value<'v>],
    /// Which of its results.
    pub output: usize,
    /// The result's dtype.
    pub result: DType,
    /// The tensor's dtype.
    pub out: DType,
}

impl Write<'_, '_> {
    /// The dtype of a tensor among the arguments.
    pub fn input_dtype(&self, at: usize) -> Option<DType> {
        match self.inputs.get(at) {
            Some(Value::Tensor(x)) => Some(x.dtype()),
            _ => None,
        }
    }

    /// That the result can be cast, in the words of linear algebra: `function` names the operator, `outputs` its results.
    ///
    /// # Errors
    /// When it cannot.
    pub fn safely_castable(&self, function: &str, outputs: &[&str]) -> Result<()> {
        let output = outputs.get(self.output).copied().unwrap_or("result");
        crate::ensure!(
            self.result.can_cast(self.out),
            "{function}: Expected {output} to be safely castable from {} dtype, but got {output} with dtype {}",
            self.result.scalar_type_name(),
            self.out.scalar_type_name()
        );
        Ok(())
    }
}

/// How an operator decides whether an `out=` tensor's dtype will do.
#[derive(Clone, Copy)]
pub enum OutDType {
    /// The result's.
    Exact,
    /// By the result's dtype, the first, and the tensor's.
    Of(fn(DType, DType) -> Result<()>),
    /// By the call.
    Call(fn(&Write<'_, '_>) -> Result<()>),
}

/// Which `out=` tensors become row-major when they are resized.
#[derive(Clone, Copy)]
pub enum RowMajor {
    /// None: they take the result's order.
    None,
    /// Those that had elements, or another dtype.
    Unfit,
    /// All.
    All,
    /// All, if the call is so.
    If(fn(&Write<'_, '_>) -> bool),
}

/// Which tensors an operator's `out=` form writes to.
#[derive(Clone, Copy)]
pub struct OutRule {
    /// Whether a result of one dtype may be written to a tensor of another.
    pub dtype: OutDType,
    /// The argument, by position, that names the dtype to compute in: where a call leaves it out, it is the tensor's.
    pub computes_in: Option<usize>,
    /// Arguments, by position, that the tensor must share no memory with.
    pub apart: &'static [usize],
    /// How many of the tensors must share none.
    pub apart_results: usize,
    /// Which tensors that are resized become row-major, whatever the order of the result is.
    pub row_major: RowMajor,
    /// Whether the in-place form resizes its tensor too.
    pub resizes_self: bool,
    /// Whether the kernel may find that it cannot go on when it has written some results: they are computed apart then.
    pub fallible: bool,
}

impl OutRule {
    /// Of any dtype that the result can be cast to.
    pub const CASTABLE: OutRule = OutRule::dtype(castable);
    /// Of the result's dtype.
    pub const EXACT: OutRule = OutRule::new(OutDType::Exact);
    /// Of the result's dtype, as PyTorch's iterators that cast nothing say it.
    pub const UNCAST: OutRule = OutRule::dtype(uncast);

    /// By a rule for the dtypes of its own.
    pub const fn dtype(dtype: fn(DType, DType) -> Result<()>) -> OutRule {
        OutRule::new(OutDType::Of(dtype))
    }

    /// By a rule that looks at the call.
    pub const fn call(rule: fn(&Write<'_, '_>) -> Result<()>) -> OutRule {
        OutRule::new(OutDType::Call(rule))
    }

    const fn new(dtype: OutDType) -> OutRule {
        OutRule {
            dtype,
            computes_in: None,
            apart: &[],
            apart_results: usize::MAX,
            row_major: RowMajor::None,
            resizes_self: false,
            fallible: false,
        }
    }

    /// Whether it is that of the result's dtype.
    pub(crate) const fn is_exact(&self) -> bool {
        matches!(self.dtype, OutDType::Exact)
    }

    /// That `write` is allowed.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self, write: &Write<'_, '_>) -> Result<()> {
        match self.dtype {
            OutDType::Exact => exact(write.result, write.out),
            OutDType::Of(rule) => rule(write.result, write.out),
            OutDType::Call(rule) => rule(write),
        }
    }

    /// The same, computing in the tensor's dtype unless the argument at this position names another.
    #[must_use]
    pub const fn computing_in(mut self, argument: usize) -> OutRule {
        self.computes_in = Some(argument);
        self
    }

    /// The same, and row-major where the tensor is resized.
    #[must_use]
    pub const fn row_major(mut self) -> OutRule {
        self.row_major = RowMajor::All;
        self
    }

    /// The same, and row-major where the tensor is resized by a call that is so.
    #[must_use]
    pub const fn row_major_if(mut self, condition: fn(&Write<'_, '_>) -> bool) -> OutRule {
        self.row_major = RowMajor::If(condition);
        self
    }

    /// The same, and row-major where a tensor with elements or of another dtype is resized; another empty one takes the
    /// result's order.
    #[must_use]
    pub const fn row_major_if_unfit(mut self) -> OutRule {
        self.row_major = RowMajor::Unfit;
        self
    }

    /// The same, of a kernel that may fail when it has written some results.
    #[must_use]
    pub const fn fallible(mut self) -> OutRule {
        self.fallible = true;
        self
    }

    /// The same, also for the in-place form's own tensor: it takes the result's sizes.
    #[must_use]
    pub const fn resizing_self(mut self) -> OutRule {
        self.resizes_self = true;
        self
    }

    /// The same, and sharing no memory with the arguments at these positions.
    #[must_use]
    pub const fn apart(mut self, arguments: &'static [usize]) -> OutRule {
        self.apart = arguments;
        self
    }

    /// The same, the first result alone sharing no memory with the arguments at these positions.
    #[must_use]
    pub const fn first_apart(mut self, arguments: &'static [usize]) -> OutRule {
        (self.apart, self.apart_results) = (arguments, 1);
        self
    }
}

pub(crate) fn castable(result: DType, out: DType) -> Result<()> {
    crate::ensure!(
        result.can_cast(out),
        "result type {} can't be cast to the desired output type {}",
        result.scalar_type_name(),
        out.scalar_type_name()
    );
    Ok(())
}

pub(crate) fn exact(result: DType, out: DType) -> Result<()> {
    crate::ensure!(
        result == out,
        "Expected out tensor to have dtype {}, but got {} instead",
        result.cpp_name(),
        out.cpp_name()
    );
    Ok(())
}

pub(crate) fn uncast(result: DType, out: DType) -> Result<()> {
    crate::ensure!(result == out, "Found dtype {} but expected {}", out.scalar_type_name(), result.scalar_type_name());
    Ok(())
}
