//! What losses of an input and a target are before they are reduced, and their slopes: one pass each. Halves are worked
//! out in single precision and rounded once.

use crate::pointwise::compute_params;
use crate::promotion::Promotion;
use crate::samples::Maker;
use crate::{Op, Result, Tensor, backward, sample};

/// Inputs and targets in [0, 1] on both sides of each other, closer and further apart than 0.3.
fn pairs(m: &mut Maker) -> Vec<(Tensor, Tensor)> {
    match m.dtype.is_floating_point() {
        true => [[0.1, 0.2, 0.3, 0.4], [0.7, 0.9, 0.1, 0.3]]
            .map(|[a, b, c, d]| (m.uniform(&[2, 3], a, b), m.uniform(&[3], c, d)))
            .into(),
        false => vec![],
    }
}

/// A loss's elements, and its slope by the input, times a gradient and a factor. `numbers` is the schema's text of further
/// parameters, with the names and samples of them.
macro_rules! elements {
    ($(
        $(#[doc = $doc:expr])*
        fn $name:ident, $slope:ident [$numbers:literal $(, $number:ident = $example:literal)?] $cpu_name:literal;
        value: |$x:ident, $t:ident; $p:ident| $value:expr;
        slope: |$g:ident| $tilt:expr;
        bend: |$input:ident, $target:ident| $bend:expr, $across:expr;
    )*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor self, Tensor target", $numbers, ") -> Tensor");
            pointwise!(2, Promotion::Common, compute_params, $cpu_name; floats costly |$x, $t; $p| $value;);
            samples: |m| pairs(m).into_iter().map(|(x, t)| sample![x, t $(, $example)?]).collect();
            ulp: 16.0;
        }
        op! {
            #[doc = concat!("The slope of `", stringify!($name), "`, times a gradient and a factor.")]
            $slope: concat!(stringify!($slope), "(Tensor self, Tensor target, Tensor grad_output", $numbers, ", float factor) -> Tensor");
            pointwise!(3, Promotion::Common, compute_params, $cpu_name; floats costly |$x, $t, $g; $p| $tilt;);
            derivative: backward! {
                grad_output(g, self_: Tensor, target: Tensor $(, $number: f64)?, factor: f64) => {
                    $slope::OP.call(&[(&self_).into(), (&target).into(), g.into(), $($number.into(),)? factor.into()])?.one()?
                },
                self_(g, self_: Tensor, target: Tensor, grad_output: Tensor $(, $number: f64)?, factor: f64) => {
                    #[allow(unused_variables)]
                    let ($input, $target): (&Tensor, &Tensor) = (&self_, &target);
                    let bend: Tensor = $bend;
                    bend.mul(&g.mul(&grad_output)?)?.mul(factor)?
                },
                target(g, self_: Tensor, target: Tensor, grad_output: Tensor $(, $number: f64)?, factor: f64) => {
                    #[allow(unused_variables)]
                    let ($input, $target): (&Tensor, &Tensor) = (&self_, &target);
                    let bend: Tensor = $across;
                    bend.mul(&g.mul(&grad_output)?)?.mul(-factor)?
                },
            };
            samples: |m| pairs(m).into_iter().map(|(x, t)| sample![x, t, m.any(&[2, 3]) $(, $example)?, 0.5]).collect();
            ulp: 16.0;
        }
    )* };
}

/// One where the two are less than `limit` apart.
fn near(x: &Tensor, target: &Tensor, limit: f64) -> Result<Tensor> {
    x.sub(target)?.abs()?.lt(limit)?.to_dtype(x.dtype())
}

elements! {
    /// The squared difference.
    fn _mse_loss, _mse_loss_slope [""] "mse_cpu";
    value: |x, t; p| (x - t) * (x - t);
    slope: |g| (p[0] + p[0]) * (x - t) * g;
    bend: |x, _t| x.full_like(2.0)?, x.full_like(2.0)?;

    /// Half the square over `beta` where the difference is below it, linear beyond.
    fn _smooth_l1_loss, _smooth_l1_loss_slope [", float beta", beta = 0.3] "smooth_l1_cpu";
    value: |x, t; p| {
        let d = (x - t).abs::<I>();
        if d < p[0] { T::from_f64(0.5) * d * d / p[0] } else { d - T::from_f64(0.5) * p[0] }
    };
    slope: |g| {
        let d = x - t;
        let line = if d < T::ZERO { -(p[1] * g) } else { p[1] * g };
        if d.abs::<I>() < p[0] { p[1] * d * g / p[0] } else { line }
    };
    bend: |x, t| near(x, t, beta)?.div(beta)?, near(x, t, beta)?.div(beta)?;

    /// Half the square where the difference is at most `delta`, linear beyond.
    fn _huber_loss, _huber_loss_slope [", float delta", delta = 0.3] "huber_cpu";
    value: |x, t; p| {
        let d = (x - t).abs::<I>();
        if d <= p[0] { T::from_f64(0.5) * d * d } else { p[0] * (d - T::from_f64(0.5) * p[0]) }
    };
    slope: |g| {
        let d = x - t;
        let line = if d < T::ZERO { -(p[1] * g * p[0]) } else { p[1] * g * p[0] };
        if d.abs::<I>() < p[0] { p[1] * d * g } else { line }
    };
    bend: |x, t| near(x, t, delta)?, near(x, t, delta)?;

    /// Cross entropy of probabilities; logarithms are held above -100, so that a certain mistake has a finite loss.
    fn _binary_cross_entropy, _binary_cross_entropy_slope [""] "binary_cross_entropy";
    value: |x, t; p| {
        let least = T::from_f64(-100.0);
        let (log, log1m) = (x.log::<I>(), (-x).log1p::<I>());
        let (log, log1m) = (if log < least { least } else { log }, if log1m < least { least } else { log1m });
        (t - T::ONE) * log1m - t * log
    };
    slope: |g| {
        let (least, product) = (T::from_f64(1e-12), (T::ONE - x) * x);
        p[0] * g * (x - t) / (if product < least { least } else { product })
    };
    bend: |x, t| {
        let product = x.rsub(1.0)?.mul(x)?.clamp_min(1e-12)?;
        x.sub(&t.mul(2.0)?)?.mul(x)?.add(t)?.div(&product)?.div(&product)?
    }, x.rsub(1.0)?.mul(x)?.clamp_min(1e-12)?.reciprocal()?;

    /// Cross entropy of logits.
    fn _binary_cross_entropy_with_logits, _binary_cross_entropy_with_logits_slope [""] "log_sigmoid_cpu";
    value: |x, t; p| {
        let negative = if x < T::ZERO { x } else { T::ZERO };
        (T::ONE - t) * x - (negative - (-x.abs::<I>()).exp::<I>().log1p::<I>())
    };
    slope: |g| p[0] * g * (x.sigmoid::<I>() - t);
    bend: |x, _t| {
        let s = x.sigmoid()?;
        s.rsub(1.0)?.mul(&s)?
    }, x.ones_like()?;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    _binary_cross_entropy::ALL,
    _binary_cross_entropy_slope::ALL,
    _binary_cross_entropy_with_logits::ALL,
    _binary_cross_entropy_with_logits_slope::ALL,
    _huber_loss::ALL,
    _huber_loss_slope::ALL,
    _mse_loss::ALL,
    _mse_loss_slope::ALL,
    _smooth_l1_loss::ALL,
    _smooth_l1_loss_slope::ALL,
];
