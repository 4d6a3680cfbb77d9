//! `docs/operators.md` says what works. `FLAMBEAU_UPDATE=1` rewrites it.

/// Why an operator of signed integers does not take unsigned ones of 16 bits and more.
const SIGNED_ONLY: &[(&str, &str)] = &[
    ("repeat_interleave.Tensor", "its tensor holds how often, as int32 or int64; what is repeated is of any dtype"),
    ("tril_indices", "indices are int32 or int64"),
    ("triu_indices", "indices are int32 or int64"),
];

#[test]
fn the_table_of_operators_is_true() {
    let (text, behind) = flambeau_testing::conformance::table().unwrap();
    let known: Vec<&str> = SIGNED_ONLY.iter().map(|(op, _)| *op).collect();
    let behind: Vec<&String> = behind.iter().filter(|op| !known.contains(&op.as_str())).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operators.md");
    if std::env::var_os("FLAMBEAU_UPDATE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    let other: Vec<_> = text.lines().zip(there.lines()).filter(|(new, old)| new != old).take(5).collect();
    assert!(text == there, "docs/operators.md is not up to date: {other:#?}");
    assert!(behind.is_empty(), "these take int32 but not uint16, uint32 and uint64: {behind:?}");
}
