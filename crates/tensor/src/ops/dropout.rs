//! Dropout.

use crate::dims::Dims;
use crate::{Body, DType, MemoryFormat, Op, Result, Tensor, ensure, sample};

// ---- dropout ------------------------------------------------------------------------------------

fn check_dropout(p: f64) -> Result<()> {
    ensure!((0.0..=1.0).contains(&p), "dropout probability has to be between 0 and 1, but got {p}");
    Ok(())
}

/// What dropout multiplies with: ones of probability `1 - p` (each divided by that, if `scaled`) and zeros, in the shape
/// of the whole input or of its features.
fn noise(x: &Tensor, p: f64, features: bool, scaled: bool) -> Result<Tensor> {
    let out = match features {
        false => x.detach()?.empty_like()?,
        true => {
            ensure!(x.dim() >= 2, "Feature dropout requires at least 2 dimensions in the input");
            let mut sizes = Dims::from_elem(1, x.dim());
            sizes[..2].copy_from_slice(&x.sizes()[..2]);
            Tensor::empty(&sizes, (x.dtype(), x.device()))?
        }
    };
    let out = out.bernoulli_p_(1.0 - p)?;
    if scaled { out.div_(1.0 - p) } else { Ok(out) }
}

/// The factor and the summand of dropout, if it does anything.
fn dropout_terms(
    x: &Tensor,
    p: f64,
    train: bool,
    features: bool,
    alpha: bool,
) -> Result<Option<(Tensor, Option<Tensor>)>> {
    // -(scale * alpha) of SELU: Klambauer et al., "Self-Normalizing Neural Networks", 2017.
    const ALPHA: f64 = 1.758_099_340_847_376_6;
    check_dropout(p)?;
    if p == 0.0 || !train || x.numel() == 0 {
        return Ok(None);
    }
    if p == 1.0 {
        return Ok(Some((Tensor::zeros(&[], (x.dtype(), x.device()))?, None)));
    }
    let noise = noise(x, p, features, !alpha)?;
    if !alpha {
        return Ok(Some((noise, None)));
    }
    let a = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
    let b = noise.add(-1i64)?.mul_(ALPHA * a)?.add_(ALPHA * a * p)?;
    Ok(Some((noise.mul_(a)?, Some(b))))
}

fn drop_from(x: &Tensor, p: f64, train: bool, features: bool, alpha: bool) -> Result<Tensor> {
    match dropout_terms(x, p, train, features, alpha)? {
        None => Ok(x.clone()),
        Some((factor, None)) => x.mul(&factor),
        Some((factor, Some(summand))) => x.mul(&factor)?.add(&summand),
    }
}
fn drop_in_place(x: &Tensor, p: f64, train: bool, features: bool, alpha: bool) -> Result<Tensor> {
    match dropout_terms(x, p, train, features, alpha)? {
        None => Ok(x.clone()),
        Some((factor, None)) => x.mul_(&factor),
        Some((factor, Some(summand))) => x.mul_(&factor)?.add_(&summand),
    }
}

/// Dropout of one sort, functional and in place.
macro_rules! dropouts {
    ($( $(#[doc = $doc:expr])* $name:ident $schema:literal, $inplace:ident $inplace_schema:literal, $features:literal, $alpha:literal; )*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: $schema;
            Body::Composite(|op, _, args| {
                let (x, p, train) = (crate::value::take(op, args, 0)?, crate::value::take(op, args, 1)?, crate::value::take(op, args, 2)?);
                drop_from(x, p, train, $features, $alpha).map(crate::Outputs::from)
            });
            samples: |m| match m.dtype.is_floating_point() {
                true => vec![sample![m.any(&[3, 4]), 0.4, true], sample![m.any(&[3, 4]), 0.4, false], sample![m.any(&[3, 4]), 1.0, true]],
                false => vec![],
            };
            fn $name(&self, p: f64, train: bool) -> Tensor [self, p, train];
        }
        op! {
            $(#[doc = $doc])*
            $inplace: $inplace_schema;
            Body::Composite(|op, _, args| {
                let (x, p, train) = (crate::value::take(op, args, 0)?, crate::value::take(op, args, 1)?, crate::value::take(op, args, 2)?);
                drop_in_place(x, p, train, $features, $alpha).map(crate::Outputs::from)
            });
            fn $inplace(&self, p: f64, train: bool) -> Tensor [self, p, train];
        }
    )* };
}
dropouts! {
    /// In training, zeros in place of elements chosen with probability `p`; the others are divided by `1 - p`.
    dropout "dropout(Tensor input, float p, bool train) -> Tensor",
        dropout_ "dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", false, false;
    /// Dropout of whole features (dim 1).
    feature_dropout "feature_dropout(Tensor input, float p, bool train) -> Tensor",
        feature_dropout_ "feature_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", true, false;
    /// Dropout that keeps mean and variance of self-normalising networks.
    alpha_dropout "alpha_dropout(Tensor input, float p, bool train) -> Tensor",
        alpha_dropout_ "alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", false, true;
    /// Dropout of whole features (dim 1) that keeps mean and variance of self-normalising networks.
    feature_alpha_dropout "feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor",
        feature_alpha_dropout_ "feature_alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", true, true;
}

fn native_dropout_any(x: &Tensor, p: f64, train: Option<bool>) -> Result<(Tensor, Tensor)> {
    check_dropout(p)?;
    let mask = Tensor::empty(x.sizes(), (DType::Bool, x.device()))?;
    if !train.unwrap_or(true) {
        return Ok((x.clone_in(MemoryFormat::Preserve)?, mask.fill_(1i64)?));
    }
    let kept = 1.0 - p;
    let mask = mask.bernoulli_p_(kept)?;
    let scale = if kept == 0.0 { 0.0 } else { 1.0 / kept };
    Ok((x.mul(&mask)?.mul(scale)?, mask))
}

op! {
    /// Dropout, and the mask of what was kept.
    native_dropout: "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)";
    Body::Composite(kernel!(native_dropout_any; x, p, train));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[3, 4]), 0.5, true], sample![m.any(&[3, 4]), 0.5, false]] } else { vec![] };
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    alpha_dropout::ALL,
    alpha_dropout_::ALL,
    dropout::ALL,
    dropout_::ALL,
    feature_alpha_dropout::ALL,
    feature_alpha_dropout_::ALL,
    feature_dropout::ALL,
    feature_dropout_::ALL,
    native_dropout::ALL,
];
