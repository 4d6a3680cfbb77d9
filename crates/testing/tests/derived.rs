//! Every operator that has samples keeps every promise that can be checked without knowing what it computes.
//!
//! `FLAMBEAU_OP='softmax' cargo test --release -p flambeau-testing --test derived -- --nocapture` walks the cases
//! `operator/dtype/sample/check` that match.

use flambeau_testing::conformance::{Options, run};
use regex::Regex;

/// Cases that cannot hold, by a pattern of their names, with the reason. PyTorch does the same.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("^abs(olute)?/complex(64|128)/./in-place$", "the result is real"),
    ("^embedding/float64/1/gradcheck$", "the row of padding_idx is kept as it is: it gets no gradient"),
    ("^float_power.Tensor_Tensor/(b?float16|float32|complex64)/0/in-place$", "it takes double precision only"),
    ("^logit/b?float16/./precision$", STEPS),
    ("^native_(batch|group|layer)_norm_backward/float64/0/gradcheck$", SAVED),
    ("^normal.(Tensor_Tensor|Tensor_float|float_Tensor)/float64/0/gradcheck$", DRAWN),
    ("^sinc/complex64/./precision$", STEPS),
    ("^_scaled_dot_product_flash_attention_for_cpu_backward/float64/0/gradcheck$", SAVED),
];
const SAVED: &str = "what the forward pass saved is taken as a function of the inputs, which differences do not see";
const STEPS: &str = "computed in steps that each round to the dtype: the error of the first is magnified";
const DRAWN: &str = "random numbers have no derivative, whatever their distribution's parameters";

/// Means, deviations and logarithms of sums that PyTorch, too, gives out for the backward pass alone: it ignores their
/// gradients.
const FIRST_RESULT_ONLY: &[&str] =
    &["_scaled_dot_product_flash_attention_for_cpu", "native_batch_norm", "native_group_norm", "native_layer_norm"];

#[test]
fn every_operator_keeps_its_promises() {
    let reference = Some(flambeau_reference::device().unwrap());
    let mut report =
        run(&Options { reference, first_result_only: FIRST_RESULT_ONLY, ..Options::from_environment().unwrap() });
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
