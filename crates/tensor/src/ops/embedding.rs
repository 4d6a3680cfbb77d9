//! Rows of a table by index, and their gradient.

use crate::autograd::{Forward, Geometry};
use crate::dims::Dims;
use crate::{Body, DType, Error, Op, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;

fn check_indices(op: &str, indices: &Tensor) -> Result<()> {
    ensure!(
        matches!(indices.dtype(), DType::I64 | DType::I32),
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {} instead \
         (while checking arguments for {op})",
        match indices.dtype() {
            DType::Bool => "CPUBoolType".to_string(),
            other => format!("torch.{}Tensor", other.scalar_type_name()),
        }
    );
    Ok(())
}

fn embedding_any(
    weight: &Tensor,
    indices: &Tensor,
    _padding: Option<i64>,
    _by_frequency: Option<bool>,
    _sparse: Option<bool>,
) -> Result<Tensor> {
    ensure!(weight.dim() == 2, "'weight' must be 2-D");
    check_indices("embedding", indices)?;
    if indices.dim() == 1 {
        return weight.index_select(0, indices);
    }
    let mut sizes = Dims::from_slice(indices.sizes());
    sizes.push(weight.sizes()[1]);
    weight.index_select(0, &indices.reshape(&[-1])?)?.view(&sizes)
}

op! {
    /// The rows of `weight` that `indices`, of any shape, name. Row `padding_idx` gets no gradient; with
    /// `scale_grad_by_freq`, a row's gradient is divided by how often it is named.
    embedding: "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
        Out OUT: "embedding.out(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(embedding_any; weight, indices, padding_idx, scale_grad_by_freq, sparse));
    derivative: backward! {
        weight(g, weight: Geometry, indices: Tensor, padding_idx: i64, scale_grad_by_freq: bool, sparse: Option<bool>) =>
            match sparse {
                Some(true) => Tensor::embedding_sparse_backward(g, &indices, weight.sizes[0], padding_idx, scale_grad_by_freq)?,
                _ => Tensor::embedding_dense_backward(g, &indices, weight.sizes[0], padding_idx, scale_grad_by_freq)?,
            }
    };
    forward: Forward::Linear;
    samples: |m| vec![
        sample![m.any(&[4, 3]), m.indices(&[2, 3], 4), -1, false, false],
        sample![m.any(&[4, 3]), m.indices(&[5], 4), 1, false, false],
        sample![m.any(&[4, 3]), m.indices(&[], 4), -1, false, false],
        sample![m.any(&[4, 3]), m.indices(&[0], 4), -1, false, false],
    ];
    fn embedding(&self, indices: &Tensor) -> Tensor [self, indices, -1i64, false, false];
    fn embedding_with(&self, indices: &Tensor, padding_idx: i64, scale_grad_by_freq: bool) -> Tensor
        [self, indices, padding_idx, scale_grad_by_freq, false];
}

fn backward_plan(g: &Tensor, indices: &Tensor, rows: i64, _padding: i64, _by_frequency: bool) -> Result<TensorSpec> {
    check_indices("embedding_backward", indices)?;
    ensure!(rows >= 0, "embedding_dense_backward: num_weights must be non-negative, got {rows}");
    ensure!(
        g.dim() == indices.dim() + 1 && g.sizes()[..indices.dim()] == *indices.sizes(),
        "embedding_dense_backward: grad_output of shape {:?} does not fit indices of shape {:?}",
        g.sizes(),
        indices.sizes()
    );
    if !g.dtype().is_differentiable() {
        let name = g.dtype().scalar_type_name();
        return Err(Error::not_implemented(format!("\"embedding_backward\" not implemented for '{name}'")));
    }
    Ok(TensorSpec::like([rows, g.sizes()[indices.dim()]].as_slice(), g))
}

fn backward_run(
    g: &Tensor,
    indices: &Tensor,
    rows: i64,
    padding: i64,
    by_frequency: bool,
    outs: &[Tensor],
) -> Result<()> {
    let out = &outs[0];
    if out.numel() == 0 {
        return Ok(());
    }
    if !out.is_contiguous() {
        let through = Tensor::fresh(out.device(), out.dtype(), Dims::from_slice(out.sizes()))?;
        backward_run(g, indices, rows, padding, by_frequency, std::slice::from_ref(&through))?;
        out.copy_(&through)?;
        return Ok(());
    }
    let (g, indices) = (g.contiguous()?, indices.contiguous()?);
    let _locks = LockSet::new([(g.storage(), false), (indices.storage(), false), (out.storage(), true)])?;
    // SAFETY: the three are contiguous, of the sizes that the plan checked, locked, and apart.
    unsafe {
        flambeau_cpu::index::embedding_backward(
            out.data_ptr(),
            rows,
            out.sizes()[1] as usize,
            g.data_ptr(),
            (indices.data_ptr(), indices.dtype()),
            indices.numel() as usize,
            g.dtype(),
            (padding >= 0).then_some(padding),
            by_frequency,
        )
    }
    .map_err(|_| Error::index("index out of range in self"))
}

/// The gradient of the gradient: rows of `g` where they were added from, divided like them, zero for padding.
fn double_backward(g: &Tensor, indices: &Tensor, rows: i64, padding: i64, by_frequency: bool) -> Result<Tensor> {
    let mut picked = g.embedding(indices)?;
    if by_frequency {
        let ones = Tensor::ones(&[indices.numel()], (g.dtype(), g.device()))?;
        let flat = indices.reshape(&[-1])?;
        let counts = Tensor::zeros(&[rows], (g.dtype(), g.device()))?.index_add(0, &flat, &ones)?;
        picked = picked.div(&counts.index_select(0, &flat)?.view(indices.sizes())?.unsqueeze(-1)?)?;
    }
    if padding >= 0 {
        picked = picked.mul(&indices.ne(padding)?.unsqueeze(-1)?)?;
    }
    Ok(picked)
}

op! {
    /// The gradient of an embedding's table, given that of its result.
    embedding_dense_backward: "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
        Out OUT: "embedding_dense_backward.out(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured {
        plan: plan!(backward_plan; g, indices, rows, padding, by_frequency),
        run: run!(backward_run; g, indices, rows, padding, by_frequency),
    };
    derivative: backward! {
        grad_output(g, indices: Tensor, num_weights: i64, padding_idx: i64, scale_grad_by_freq: bool) =>
            double_backward(g, &indices, num_weights, padding_idx, scale_grad_by_freq)?
    };
    forward: Forward::Linear;
    samples: |m| match m.dtype.is_differentiable() {
        true => vec![
            sample![m.any(&[2, 3, 2]), m.indices(&[2, 3], 4), 4, -1, false],
            sample![m.any(&[5, 2]), m.indices(&[5], 3), 3, 1, true],
        ],
        false => vec![],
    };
    ulp: 16.0;
    fn embedding_dense_backward(grad_output: &Tensor, indices: &Tensor, rows: i64, padding_idx: i64, scale_grad_by_freq: bool) -> Tensor
        [grad_output, indices, rows, padding_idx, scale_grad_by_freq];
}

fn one_hot_any(x: &Tensor, classes: Option<i64>) -> Result<Tensor> {
    let classes = classes.unwrap_or(-1);
    ensure!(x.dtype() == DType::I64, "one_hot is only applicable to index tensor of type LongTensor.");
    let mut sizes = Dims::from_slice(x.sizes());
    if x.numel() == 0 || x.device().is_meta() && classes != -1 {
        ensure!(classes > 0, "Can not infer total number of classes from empty tensor.");
        sizes.push(classes);
        return Tensor::empty(&sizes, (DType::I64, x.device()));
    }
    ensure!(x.ge(0i64)?.all()?.item()?.to_bool(), "Class values must be non-negative.");
    let needed = x.max()?.item()?.to_i64() + 1;
    ensure!(classes == -1 || classes >= needed, "Class values must be smaller than num_classes.");
    let classes = if classes == -1 { needed } else { classes };
    sizes.push(classes);
    Tensor::zeros(&sizes, (DType::I64, x.device()))?.scatter_value_(-1, &x.unsqueeze(-1)?, 1i64)
}

op! {
    /// A one at each index's class along a new last dim, zeros elsewhere. Without `num_classes` (-1), as many as are
    /// needed.
    one_hot: "one_hot(Tensor self, int num_classes=-1) -> Tensor";
    Body::Composite(kernel!(one_hot_any; x, classes));
    samples: |m| if m.dtype == crate::DType::I64 { vec![sample![m.indices(&[2, 3], 4), 4]] } else { vec![] };
    fn one_hot(&self, num_classes: i64) -> Tensor [self, num_classes];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[embedding::ALL, embedding_dense_backward::ALL, one_hot::ALL];
