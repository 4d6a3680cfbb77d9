//! The copying forms of the views: `t_copy` is `t` and a row-major copy of what it gives.
//!
//! One table derives them all: from the view come kernel, derivatives and samples. Nothing is written per operator.

use super::{parts, view};
use crate::{Body, DType, Error, MemoryFormat, Op, Outputs, Result, Tensor, Value, ensure};

/// What a view gives, with memory of its own.
fn copied(view: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let copy = |t: Tensor| t.clone_in(MemoryFormat::Contiguous);
    match view.call(args)? {
        Outputs::One(t) => copy(t).map(Outputs::One),
        views => Ok(views.list()?.into_iter().map(copy).collect::<Result<Vec<_>>>()?.into()),
    }
}

fn narrow_copy_any(x: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    let n = x.dim() as i64;
    ensure!(n > 0, "narrow() cannot be applied to a 0-dim tensor.");
    ensure!(dim < n, "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.");
    let size = x.size(dim)?;
    if length < 0 && (-size..=size).contains(&start) {
        let start = if start < 0 { start + size } else { start };
        return Err(Error::runtime(format!("start ({start}) + length ({length}) exceeds dimension size ({size}).")));
    }
    x.narrow(dim, start, length)?.clone_in(MemoryFormat::Contiguous)
}

fn narrow_copy_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "Expected self.dtype() == output.dtype() to be true, but got false.  (Could this error message be improved?  If \
         so, please report an enhancement request to PyTorch.)"
    );
    Ok(())
}

op! {
    /// What `narrow` gives, copied; it has refusals of its own.
    narrow_copy: "narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
        Out OUT: "narrow_copy.out(Tensor self, int dim, SymInt start, SymInt length, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(narrow_copy_any; x, dim, start, length));
    samples: |m| crate::samples::of(&view::narrow::OP, m);
    out_rule: crate::OutRule::dtype(narrow_copy_writes);
}

/// One operator per line: its schemas, the view it copies, and a rule for `out=` if it is not the result's dtype.
macro_rules! copies {
    ($($name:ident $schema:literal $(, $out:literal)? => $view:expr $(, $rule:expr)?;)*) => {
        $(
            op! {
                #[doc = concat!("What `", stringify!($view), "` gives, copied.")]
                $name: $schema $(, Out OUT: $out)?;
                Body::Composite(|_op, _keys, args| copied(&$view, args));
                samples: |m| crate::samples::of(&$view, m);
                out_rule: [$($rule,)? crate::OutRule::EXACT][0];
            }
        )*
        /// All entries of this file.
        pub static OPS: &[&[&Op]] = &[narrow_copy::ALL, $($name::ALL),*];
    };
}
copies! {
    alias_copy "alias_copy(Tensor self) -> Tensor", "alias_copy.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)" => view::alias::OP;
    as_strided_copy "as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
        "as_strided_copy.out(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None, *, Tensor(a!) out) -> Tensor(a!)" => view::as_strided::OP;
    diagonal_copy "diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
        "diagonal_copy.out(Tensor self, int offset=0, int dim1=0, int dim2=1, *, Tensor(a!) out) -> Tensor(a!)" => parts::diagonal::OP;
    expand_copy "expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
        "expand_copy.out(Tensor self, SymInt[] size, *, bool implicit=False, Tensor(a!) out) -> Tensor(a!)" => view::expand::OP;
    lift_fresh_copy "lift_fresh_copy(Tensor self) -> Tensor", "lift_fresh_copy.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)" => view::alias::OP;
    permute_copy "permute_copy(Tensor self, int[] dims) -> Tensor",
        "permute_copy.out(Tensor self, int[] dims, *, Tensor(a!) out) -> Tensor(a!)" => view::permute::OP;
    reshape_copy "_reshape_copy(Tensor self, SymInt[] size) -> Tensor" => view::reshape::OP;
    select_copy "select_copy.int(Tensor self, int dim, SymInt index) -> Tensor",
        "select_copy.int_out(Tensor self, int dim, SymInt index, *, Tensor(a!) out) -> Tensor(a!)" => view::select::OP;
    slice_copy "slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
        "slice_copy.Tensor_out(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1, *, Tensor(a!) out) -> Tensor(a!)" => view::slice::OP;
    split_copy "split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
        "split_copy.Tensor_out(Tensor self, SymInt split_size, int dim=0, *, Tensor(a!)[] out) -> ()" => parts::split::OP, crate::OutRule::CASTABLE;
    split_with_sizes_copy "split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        "split_with_sizes_copy.out(Tensor self, SymInt[] split_sizes, int dim=0, *, Tensor(a!)[] out) -> ()" => parts::split_with_sizes::OP;
    squeeze_copy "squeeze_copy(Tensor self) -> Tensor", "squeeze_copy.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)" => view::squeeze::OP;
    squeeze_copy_dim "squeeze_copy.dim(Tensor self, int dim) -> Tensor",
        "squeeze_copy.dim_out(Tensor self, int dim, *, Tensor(a!) out) -> Tensor(a!)" => view::squeeze_dim::OP;
    squeeze_copy_dims "squeeze_copy.dims(Tensor self, int[] dim) -> Tensor",
        "squeeze_copy.dims_out(Tensor self, int[] dim, *, Tensor(a!) out) -> Tensor(a!)" => view::squeeze_dims::OP;
    t_copy "t_copy(Tensor self) -> Tensor", "t_copy.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)" => view::t::OP;
    transpose_copy "transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor",
        "transpose_copy.int_out(Tensor self, int dim0, int dim1, *, Tensor(a!) out) -> Tensor(a!)" => view::transpose::OP;
    unbind_copy "unbind_copy.int(Tensor self, int dim=0) -> Tensor[]",
        "unbind_copy.int_out(Tensor self, int dim=0, *, Tensor(a!)[] out) -> ()" => parts::unbind::OP;
    unfold_copy "unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
        "unfold_copy.out(Tensor self, int dimension, int size, int step, *, Tensor(a!) out) -> Tensor(a!)" => parts::unfold::OP;
    unsqueeze_copy "unsqueeze_copy(Tensor self, int dim) -> Tensor",
        "unsqueeze_copy.out(Tensor self, int dim, *, Tensor(a!) out) -> Tensor(a!)" => view::unsqueeze::OP;
    view_as_complex_copy "view_as_complex_copy(Tensor self) -> Tensor",
        "view_as_complex_copy.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)" => view::view_as_complex::OP;
    view_as_real_copy "view_as_real_copy(Tensor self) -> Tensor",
        "view_as_real_copy.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)" => view::view_as_real::OP;
    view_copy "view_copy(Tensor self, SymInt[] size) -> Tensor",
        "view_copy.out(Tensor self, SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)" => view::reshape::OP;
    view_copy_dtype "view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor",
        "view_copy.dtype_out(Tensor self, ScalarType dtype, *, Tensor(a!) out) -> Tensor(a!)" => view::view_dtype::OP;
}
