//! `docs/examples.md` has an example of every operator, and each of them prints what it says. `FLAMBEAU_UPDATE=1`
//! rewrites it.

use flambeau_testing::conformance::examples;
use regex_lite::Regex;

/// Operators without an example, by a pattern of their names, with the reason.
const WITHOUT: &[(&str, &str)] = &[
    (
        "^_(foreach_(copy|zero)|fused_(adagrad|adamw?|sgd)|optimizer_update)_$",
        "they give nothing that could be printed",
    ),
    ("^_(batch_norm_with_update|native_batch_norm_legit)_functional$", "five or six results"),
    ("^_recurrent_layer(_backward)?$", "some results are not there"),
    ("^_adaptive_avg_pool2d_backward$", "as below"),
    (
        "^(_?adaptive_(avg|max)_pool3d(_backward)?|avg_pool3d_backward|(fractional_)?max_pool3d(_with_indices)?(_backward)?\
         |grid_sampler_3d_backward|_?upsample_(nearest(_exact)?|trilinear)3d(\\.vec)?)$",
        "what has three dims is too long to read",
    ),
    ("^random.from$", "Python keeps this word for itself"),
    ("^stft.center$", "some of its results are what others were rounded by"),
];

#[test]
fn examples_print_what_they_say() {
    let found = examples();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples.md");
    if std::env::var_os("FLAMBEAU_UPDATE").is_some() {
        std::fs::write(path, &found.page).unwrap();
    }
    let known: Vec<Regex> = WITHOUT.iter().map(|(pattern, _)| Regex::new(pattern).unwrap()).collect();
    let without: Vec<_> = found.without.iter().filter(|op| !known.iter().any(|k| k.is_match(op))).collect();
    let unused: Vec<_> = known.iter().filter(|k| !found.without.iter().any(|op| k.is_match(op))).collect();
    let wrong: Vec<String> = found.wrong.iter().map(|(op, what)| format!("{op}: {what}")).collect();
    assert!(wrong.is_empty(), "{} examples do not hold:\n{}", wrong.len(), wrong.join("\n"));
    assert!(without.is_empty(), "{} operators have samples and no example: {without:?}", without.len());
    assert!(unused.is_empty(), "these have examples now: {unused:?}");
    let there = std::fs::read_to_string(path).unwrap_or_default();
    let other: Vec<_> = found.page.lines().zip(there.lines()).filter(|(new, old)| new != old).take(5).collect();
    assert!(found.page == there, "docs/examples.md is not up to date: {other:#?}");
}
