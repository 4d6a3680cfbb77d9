//! Every operator that has samples keeps every promise that can be checked without knowing what it computes.
//!
//! `FLAMBEAU_OP='softmax' cargo test --release -p flambeau-testing --test derived -- --nocapture` walks the cases
//! `operator/dtype/sample/check` that match.

use flambeau::{Result, Tensor};
use flambeau_testing::conformance::{Chart, Options, run};
use regex_lite::Regex;

/// Cases that cannot hold, by a pattern of their names, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("^(_standard_gamma|_sample_dirichlet|binomial)/float64/0/gradcheck$", DRAWN),
    ("^_?[cp]dist(_forward)?/float64/./gradcheck$", "forward mode is made of a derivative that is not there"),
    ("^_linalg_svd/(float32|complex64)/2/gradient$", "it is zero but for rounding errors"),
    ("^abs(olute)?/complex(64|128)/./in-place$", "the result is real"),
    ("^addbmm/.*/1/in-place( gradient)?$", "its tensor grows, as PyTorch's does"),
    ("^bernoulli/.*/wrong out dtype$", "zeros and ones are drawn in any real dtype"),
    ("^(fill|full|ones|zeros)[^/]*/.*/overlapping$", "filling gives the same however often, and PyTorch does it"),
    ("^resize_as_/.*/wrong device$", "it reads the other tensor's sizes only"),
    ("^(_chunk_cat|gradient|narrow_copy|rot90|take_along_dim)[^/]*/.*/wrong dim$", "PyTorch's words for it are others"),
    ("^tile/.*/wrong dim$", "its dims are counts"),
    ("^embedding/float64/1/gradcheck$", "the row of padding_idx is kept as it is: it gets no gradient"),
    ("^float_power.Tensor_Tensor/(b?float16|float32|complex64)/0/in-place$", "it takes double precision only"),
    (
        "^grid_sampler_3d/float16/5/precision$",
        "a place between two elements, rounded to the dtype, is nearest to another",
    ),
    ("^linalg_ldl_factor/.*/(gradient|gradcheck)$", "the factors have no derivative"),
    ("^linalg_lstsq/.*/3/expanded$", "how many residuals there are hangs on the rank, which Meta does not see"),
    ("^logit/b?float16/./precision$", STEPS),
    ("^native_(batch|group|layer)_norm_backward/float64/0/gradcheck$", SAVED),
    ("^normal.(Tensor_Tensor|Tensor_float|float_Tensor)/float64/0/gradcheck$", DRAWN),
    ("^sinc/complex64/./precision$", STEPS),
    ("^tensor_split.tensor_indices_or_sections/.*/precision$", "the indices have to be on the CPU"),
    ("^_fused_rms_norm_backward/float64/0/grad(grad)?check$", SAVED),
    ("^_recurrent_layer_backward/float64/0/gradcheck$", SAVED),
    ("^_scaled_dot_product_flash_attention_for_cpu_backward/float64/0/gradcheck$", SAVED),
];
const SAVED: &str = "what the forward pass saved is taken as a function of the inputs, which differences do not see";
const STEPS: &str = "computed in steps that each round to the dtype: the error of the first is magnified";
const DRAWN: &str = "random numbers have no derivative, whatever their distribution's parameters";

/// Means, deviations and logarithms of sums that PyTorch, too, gives out for the backward pass alone: it ignores their
/// gradients. (Of a recurrent layer the last states have gradients too: `tensor/tests/recurrent.rs` checks those.)
const FIRST_RESULT_ONLY: &[&str] = &[
    "_fused_rms_norm",
    "_linalg_det",
    "_linalg_solve_ex",
    "_recurrent_layer",
    "_scaled_dot_product_flash_attention_for_cpu",
    "native_group_norm",
    "nll_loss2d_forward",
    "nll_loss_forward",
];

/// Factorizations of Hermitian matrices read one triangle; vectors have a free sign or phase, and eigenvalues of
/// general matrices a free order; and LU factors beside a determinant are for its backward.
const CHARTS: &[Chart] = &[
    Chart { ops: &["cholesky", "linalg_cholesky", "linalg_cholesky_ex"], inputs: hermitian, outputs: all, fixed: all },
    Chart { ops: &["linalg_eigvalsh"], inputs: hermitian, outputs: all, fixed: all },
    Chart { ops: &["_linalg_eigh", "linalg_eigh"], inputs: hermitian, outputs: sizes, fixed: sizes },
    Chart { ops: &["_linalg_svd", "linalg_svd", "svd"], inputs: all, outputs: sizes, fixed: sizes },
    Chart { ops: &["linalg_eig"], inputs: all, outputs: sizes, fixed: in_order },
    Chart { ops: &["_linalg_eigvals", "linalg_eigvals"], inputs: all, outputs: all, fixed: in_order },
    Chart { ops: &["cholesky_inverse", "cholesky_solve"], inputs: triangular, outputs: all, fixed: all },
    Chart { ops: &["_linalg_slogdet", "linalg_lstsq"], inputs: all, outputs: first_two, fixed: all },
    // The reference takes the first of equal elements, PyTorch those that its steps lead to.
    Chart { ops: &["kthvalue", "topk"], inputs: all, outputs: all, fixed: first },
];

fn all(xs: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(xs.to_vec())
}
fn first(xs: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(xs[..1].to_vec())
}
fn hermitian(xs: &[Tensor]) -> Result<Vec<Tensor>> {
    xs.iter().map(|x| x.add(&x.mh()?)?.mul(0.5)).collect()
}
/// The last matrix without the triangle that holds nothing but what differences put there.
fn triangular(xs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut xs = xs.to_vec();
    if let Some(x) = xs.last_mut() {
        let weight = |t: Tensor| t.detach()?.abs()?.sum()?.item().map(|s| s.to_f64());
        *x = if weight(x.tril(-1)?)? > weight(x.triu(1)?)? { x.tril(0)? } else { x.triu(0)? };
    }
    Ok(xs)
}
fn first_two(xs: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(xs.iter().take(2).cloned().collect())
}
/// Values as they are, and squares of the sizes of vectors' elements.
fn sizes(xs: &[Tensor]) -> Result<Vec<Tensor>> {
    let size = |x: &Tensor| match x.dtype().is_complex() {
        true => x.mul(&x.conj()?)?.real(),
        false => x.mul(x),
    };
    let most = xs.iter().map(Tensor::dim).max().unwrap_or(0);
    xs.iter().map(|x| if x.dim() == most { size(x) } else { Ok(x.clone()) }).collect()
}
/// Eigenvalues by how far they are in some direction, and the sizes of their vectors.
fn in_order(xs: &[Tensor]) -> Result<Vec<Tensor>> {
    let values = &xs[0];
    // No two eigenvalues of a sample are level in it.
    let far = values.real()?.mul(0.8)?.add(&values.imag()?.mul(0.6)?)?;
    let order = far.sort(-1, false)?.1;
    let mut found = vec![values.gather(-1, &order)?];
    for vectors in &sizes(xs)?[1..] {
        found.push(vectors.gather(-1, &order.unsqueeze(-2)?.expand(vectors.sizes())?)?);
    }
    Ok(found)
}

#[test]
fn every_operator_keeps_its_promises() {
    let reference = Some(flambeau_reference::device().unwrap());
    let mut report = run(&Options {
        reference,
        first_result_only: FIRST_RESULT_ONLY,
        charts: CHARTS,
        ..Options::from_environment().unwrap()
    });
    assert!(report.operators > 0);
    let mut unused: Vec<(Regex, &str)> = EXCEPTIONS.iter().map(|(p, why)| (Regex::new(p).unwrap(), *why)).collect();
    let known: Vec<Regex> = unused.iter().map(|(pattern, _)| pattern.clone()).collect();
    report.failures.retain(|f| {
        let name = f.name();
        unused.retain(|(pattern, _)| !pattern.is_match(&name));
        !known.iter().any(|pattern| pattern.is_match(&name))
    });
    println!("{report}");
    assert!(report.failures.is_empty(), "{} promises broken:\n{report}", report.failures.len());
    if std::env::var("FLAMBEAU_OP").is_err() {
        assert!(unused.is_empty(), "these hold now, take them out of the exceptions: {unused:?}");
    }
}
