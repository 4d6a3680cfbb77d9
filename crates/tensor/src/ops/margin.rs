//! Losses of margins, similarities and counts. `reduction` is 0 for none, 1 for the mean, 2 for the sum.

use super::loss::{check_constant, reduce};
use crate::{Body, DType, Op, Result, Scalar, Tensor, ensure, sample};

// ---- pairs and triples ----------------------------------------------------------------------------

fn cosine_similarity_any(x1: &Tensor, x2: &Tensor, dim: i64, eps: f64) -> Result<Tensor> {
    let common = x1.dtype().promote(x2.dtype());
    ensure!(
        common.is_floating_point(),
        "expected common dtype to be floating point, yet common dtype is {}",
        common.scalar_type_name()
    );
    let sizes = crate::dims::broadcast(x1.sizes(), x2.sizes())?;
    // Each is divided by its own norm first: their products would overflow earlier.
    let unit = |x: &Tensor| -> Result<Tensor> {
        let x = x.to_dtype(common)?.expand(&sizes)?;
        let norm = x.vector_norm(2.0, &[dim], true)?.clone_in(crate::MemoryFormat::Preserve)?;
        {
            // The floor is not differentiated.
            let _mode = crate::autograd::no_grad();
            norm.clamp_min_(eps)?;
        }
        x.div(&norm)
    };
    unit(x1)?.mul(&unit(x2)?)?.sum_dim(&[dim], false)
}

op! {
    /// The cosine of the angle between vectors along a dim; norms are at least `eps`.
    cosine_similarity: "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor";
    Body::Composite(kernel!(cosine_similarity_any; x1, x2, dim, eps));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1, 1e-8], sample![m.any(&[2, 3, 4]), m.any(&[3, 1]), -2, 1e-8]],
        false => vec![],
    };
    ulp: 32.0;
    fn cosine_similarity(x1: &Tensor, x2: &Tensor, dim: i64, eps: f64) -> Tensor [x1, x2, dim, eps];
}

fn cosine_embedding_any(x1: &Tensor, x2: &Tensor, target: &Tensor, margin: f64, reduction: i64) -> Result<Tensor> {
    let n = target.dim();
    ensure!(n <= 1, "0D or 1D target tensor expected, multi-target not supported");
    ensure!(
        x1.dim() == n + 1 && x2.dim() == n + 1,
        "{n}D target tensor expects {}D input tensors, but found inputs with sizes {:?} and {:?}.",
        n + 1,
        x1.sizes(),
        x2.sizes()
    );
    let over = [n as i64];
    let square = |x: &Tensor| x.mul(x)?.sum_dim(&over, false)?.add(1e-12);
    let lengths = square(x1)?.mul(&square(x2)?)?.sqrt()?;
    let cosine = x1.mul(x2)?.sum_dim(&over, false)?.div(&lengths)?;
    let zeros = cosine.zeros_like()?;
    let alike = Tensor::where_(&target.eq(1)?, &cosine.rsub(1)?, &zeros)?;
    let apart = Tensor::where_(&target.eq(-1)?, &cosine.sub(margin)?.clamp_min(0)?, &zeros)?;
    reduce(alike.add(&apart)?, reduction)
}

op! {
    /// One minus the cosine for pairs with target 1; the cosine above `margin` for those with target -1.
    cosine_embedding_loss: "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor";
    Body::Composite(kernel!(cosine_embedding_any; x1, x2, target, margin, reduction));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[4, 3]), m.any(&[4, 3]), m.indices(&[4], 2).mul(2).and_then(|t| t.sub(1)).unwrap_or_else(|_| m.indices(&[4], 2)), 0.2, 1]],
        false => vec![],
    };
    ulp: 32.0;
    fn cosine_embedding_loss(input1: &Tensor, input2: &Tensor, target: &Tensor, margin: f64, reduction: i64) -> Tensor
        [input1, input2, target, margin, reduction];
}

fn hinge_embedding_any(x: &Tensor, target: &Tensor, margin: f64, reduction: i64) -> Result<Tensor> {
    let zeros = x.zeros_like()?;
    // (Integers stay what they are.)
    let below = Tensor::where_(&target.ne(1)?, &x.rsub(margin)?.to_dtype(x.dtype())?.clamp_min(0)?, &zeros)?;
    let itself = Tensor::where_(&target.ne(-1)?, x, &zeros)?;
    reduce(below.add(&itself)?, reduction)
}

op! {
    /// The input where the target is 1; how far it is below `margin` where the target is -1.
    hinge_embedding_loss: "hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor";
    Body::Composite(kernel!(hinge_embedding_any; x, target, margin, reduction));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[2, 3]), m.indices(&[2, 3], 2), 1.0, 1]],
        false => vec![],
    };
    ulp: 8.0;
    fn hinge_embedding_loss(&self, target: &Tensor, margin: f64, reduction: i64) -> Tensor [self, target, margin, reduction];
}

fn margin_ranking_any(x1: &Tensor, x2: &Tensor, target: &Tensor, margin: f64, reduction: i64) -> Result<Tensor> {
    reduce(target.neg()?.mul(&x1.sub(x2)?)?.add(margin)?.clamp_min(0)?, reduction)
}

op! {
    /// How far the first input fails to be above the second by `margin` (target 1), or below (target -1).
    margin_ranking_loss: "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor";
    Body::Composite(kernel!(margin_ranking_any; x1, x2, target, margin, reduction));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[4]), m.any(&[4]), m.any(&[4]), 0.5, 1]],
        false => vec![],
    };
    ulp: 8.0;
    fn margin_ranking_loss(input1: &Tensor, input2: &Tensor, target: &Tensor, margin: f64, reduction: i64) -> Tensor
        [input1, input2, target, margin, reduction];
}

fn triplet_margin_any(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    margin: f64,
    p: f64,
    eps: f64,
    swap: bool,
    reduction: i64,
) -> Result<Tensor> {
    let [a, b, c] = [anchor, positive, negative].map(Tensor::dim);
    ensure!(
        a == b && b == c,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {a}D, \
         positive {b}D, and negative {c}D inputs"
    );
    ensure!(margin > 0.0, "margin must be greater than 0, got {margin}");
    let distance = |x: &Tensor, y: &Tensor| super::arrange::pairwise_distance_any(x, y, p, eps, false);
    let near = distance(anchor, positive)?;
    let mut far = distance(anchor, negative)?;
    if swap {
        far = distance(positive, negative)?.minimum(&far)?;
    }
    reduce(near.add(margin)?.sub(&far)?.clamp_min(0)?, reduction)
}

op! {
    /// How far the positive's distance from the anchor fails to be below the negative's by `margin`.
    triplet_margin_loss: "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor";
    Body::Composite(kernel!(triplet_margin_any; anchor, positive, negative, margin, p, eps, swap, reduction));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[4, 3]), m.any(&[4, 3]), m.any(&[4, 3]), 1.0, 2.0, 1e-6, true, 1]],
        false => vec![],
    };
    ulp: 32.0;
}

// ---- counts and signs -----------------------------------------------------------------------------

fn poisson_nll_any(x: &Tensor, target: &Tensor, log_input: bool, full: bool, eps: f64, reduction: i64) -> Result<Tensor> {
    let mut loss = match log_input {
        true => x.exp()?.sub(&target.mul(x)?)?,
        false => x.sub(&target.mul(&x.add(eps)?.log()?)?)?,
    };
    if full {
        // Stirling's formula for the logarithm of the factorial.
        let stirling = target.mul(&target.log()?)?.sub(target)?;
        let stirling = stirling.add(&target.mul(2.0 * std::f64::consts::PI)?.log()?.mul(0.5)?)?;
        loss = loss.add(&stirling.masked_fill(&target.le(1)?, 0)?)?;
    }
    reduce(loss, reduction)
}

op! {
    /// The negative log-likelihood of counts with Poisson rates, or their logarithms; `full` adds Stirling's
    /// approximation of the factorial.
    poisson_nll_loss: "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor";
    Body::Composite(kernel!(poisson_nll_any; x, target, log_input, full, eps, reduction));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[2, 3]), m.uniform(&[2, 3], 0.5, 4.0), true, true, 1e-8, 1], sample![m.uniform(&[4], 0.5, 2.0), m.uniform(&[4], 0.5, 4.0), false, false, 1e-8, 0]],
        false => vec![],
    };
    ulp: 32.0;
    fn poisson_nll_loss(&self, target: &Tensor, log_input: bool, full: bool, eps: f64, reduction: i64) -> Tensor
        [self, target, log_input, full, eps, reduction];
}

fn soft_margin_any(x: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    check_constant("soft_margin_loss", "target", Some(target))?;
    reduce(x.mul(&target.neg()?)?.exp()?.log1p()?, reduction)
}

op! {
    /// `log(1 + exp(-target * self))`.
    soft_margin_loss: "soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
        Out OUT: "soft_margin_loss.out(Tensor self, Tensor target, int reduction=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(soft_margin_any; x, target, reduction));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), 1], sample![m.any(&[2, 3]), m.any(&[3]), 0]],
        false => vec![],
    };
    ulp: 16.0;
    fn soft_margin_loss(&self, target: &Tensor, reduction: i64) -> Tensor [self, target, reduction];
}

// ---- classes --------------------------------------------------------------------------------------

/// The input as rows of class scores.
fn class_rows(x: &Tensor) -> Result<Tensor> {
    let fits = match x.sizes() {
        [] => true,
        [n] | [_, n] => *n != 0,
        _ => false,
    };
    ensure!(fits, "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {:?}", x.sizes());
    let classes = x.sizes().last().copied().unwrap_or(1);
    x.reshape(&[if x.dim() == 2 { x.sizes()[0] } else { 1 }, classes])
}

fn check_long(target: &Tensor) -> Result<()> {
    ensure!(
        target.dtype() == DType::I64,
        "expected scalar type Long but found {}",
        target.dtype().scalar_type_name()
    );
    Ok(())
}

/// Whether every index is in `low..classes`; nothing is known on Meta.
fn in_range(target: &Tensor, low: i64, classes: i64) -> Result<bool> {
    if target.device().is_meta() || target.numel() == 0 {
        return Ok(true);
    }
    let target = target.detach()?;
    Ok(target.min()?.item()?.to_i64() >= low && target.max()?.item()?.to_i64() < classes)
}

fn multi_margin_any(
    x: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    check_constant("multi_margin_loss", "weight", weight)?;
    let rows = class_rows(x)?;
    let (n, classes) = (rows.sizes()[0], rows.sizes()[1]);
    let p = p.to_f64();
    ensure!(p == 1.0 || p == 2.0, "only p == 1 and p == 2 supported");
    ensure!(
        target.dim() <= 1 && target.numel() == n,
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected \
         target size [{n}], but got {:?}. Input has shape {:?}.",
        target.sizes(),
        x.sizes()
    );
    if let Some(w) = weight {
        ensure!(
            w.dim() <= 1 && w.numel() == classes,
            "inconsistent weight size, expected {classes} but got {:?}",
            w.sizes()
        );
    }
    check_long(target)?;
    ensure!(in_range(target, 0, classes)?, "target out of range");
    let index = target.reshape(&[n, 1])?;
    let over = rows.sub(&rows.gather(1, &index)?)?.add(margin)?.relu()?;
    let mut loss = if p == 1.0 { over } else { over.mul(&over)? };
    if let Some(w) = weight {
        loss = loss.mul(&w.reshape(&[-1])?.index_select(0, &index.reshape(&[-1])?)?.unsqueeze(1)?)?;
    }
    let loss = loss.scatter_value(1, &index, 0)?.sum_dim(&[1], false)?.div(classes)?;
    match reduction {
        0 if target.dim() == 0 => loss.reshape(&[]),
        r => reduce(loss, r),
    }
}

op! {
    /// How far each other class's score comes within `margin` of the target's, to the power `p`, over the number of
    /// classes.
    multi_margin_loss: "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor",
        Out OUT: "multi_margin_loss.out(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(multi_margin_any; x, target, p, margin, weight, reduction));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![
            sample![m.any(&[3, 4]), m.indices(&[3], 4), Scalar::Int(2), Scalar::Int(1), m.uniform(&[4], 0.5, 2.0), 1],
            sample![m.any(&[3, 4]), m.indices(&[3], 4), Scalar::Int(1), Scalar::Int(1), (), 0],
        ],
        false => vec![],
    };
    ulp: 32.0;
}

fn multilabel_margin_forward_any(x: &Tensor, target: &Tensor, reduction: i64) -> Result<(Tensor, Tensor)> {
    let rows = class_rows(x)?;
    let (n, classes) = (rows.sizes()[0], rows.sizes()[1]);
    let fits = match x.dim() {
        2 => target.sizes() == x.sizes(),
        _ => target.dim() <= 1 && target.numel() == classes,
    };
    ensure!(fits, "inconsistent target size: {:?} for input of size: {:?}", target.sizes(), x.sizes());
    check_long(target)?;
    ensure!(in_range(target, -1, classes)?, "argument #2 'target' is out of range");
    // A row names its classes up to the first -1.
    let wide = target.reshape(&[n, classes])?;
    let named = wide.ge(0)?.to_dtype(DType::I64)?.cumprod(1)?;
    let index = wide.clamp_min(0)?;
    let is_target = Tensor::zeros(&[n, classes], (DType::I64, x.device()))?.scatter_add(1, &index, &named)?.gt(0)?;
    let most = match x.device().is_meta() || named.numel() == 0 {
        true => classes,
        false => named.sum_dim(&[1], false)?.max()?.item()?.to_i64(),
    };
    // `1 - x[named] + x[other]`, and minus infinity for what is not counted.
    let (index, unnamed) = (index.narrow(1, 0, most)?, named.narrow(1, 0, most)?.eq(0)?);
    let margins = rows.gather(1, &index)?.neg()?.add(1)?.masked_fill(&unnamed, f64::NEG_INFINITY)?;
    let others = rows.masked_fill(&is_target, f64::NEG_INFINITY)?;
    let over = margins.unsqueeze(2)?.add(&others.unsqueeze(1)?)?.relu()?;
    let loss = over.sum_dim(&[1, 2], false)?.div(classes)?;
    let loss = match reduction {
        0 if target.dim() <= 1 => loss.reshape(&[])?,
        r => reduce(loss, r)?,
    };
    Ok((loss, is_target.to_dtype(x.dtype())?.reshape(target.sizes())?))
}

op! {
    /// How far each class that a row does not name comes within 1 of each that it names, over the number of classes; and
    /// which classes are named. A row of `target` ends at its first -1.
    multilabel_margin_loss_forward: "multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)",
        Out OUT: "multilabel_margin_loss_forward.output(Tensor self, Tensor target, int reduction, *, Tensor(a!) output, Tensor(b!) is_target) -> (Tensor(a!), Tensor(b!))";
    Body::Composite(kernel!(multilabel_margin_forward_any; x, target, reduction));
    samples: |m| match (m.dtype.is_floating_point(), Tensor::from_slice_of(&[2i64, 0, -1, 1, 1, -1, 0, 2], &[2, 4])) {
        (true, Ok(target)) => vec![sample![m.any(&[2, 4]), target, 1]],
        _ => vec![],
    };
    ulp: 32.0;
}

fn multilabel_margin_any(x: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    multilabel_margin_forward_any(x, target, reduction).map(|(loss, _)| loss)
}

op! {
    /// How far each class that a row does not name comes within 1 of each that it names, over the number of classes. A
    /// row of `target` ends at its first -1.
    multilabel_margin_loss: "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
        Out OUT: "multilabel_margin_loss.out(Tensor self, Tensor target, int reduction=1, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(multilabel_margin_any; x, target, reduction));
    samples: |m| crate::samples::of(&multilabel_margin_loss_forward::OP, m);
    ulp: 32.0;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    cosine_embedding_loss::ALL,
    cosine_similarity::ALL,
    hinge_embedding_loss::ALL,
    margin_ranking_loss::ALL,
    multi_margin_loss::ALL,
    multilabel_margin_loss::ALL,
    multilabel_margin_loss_forward::ALL,
    poisson_nll_loss::ALL,
    soft_margin_loss::ALL,
    triplet_margin_loss::ALL,
];
