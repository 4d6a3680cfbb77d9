//! The recorded cases in `data/parity` can be read, and are those that `parity_ops.txt` lists.

use flambeau_testing::parity::{Expectation, Section, Store};
use std::collections::{BTreeSet, HashMap};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_list_and_the_folder_agree() {
    let list = std::fs::read_to_string(format!("{ROOT}/parity_ops.txt")).unwrap();
    let listed: BTreeSet<String> = list.lines().filter(|l| !l.starts_with('#')).map(str::to_string).collect();
    let files = std::fs::read_dir(format!("{ROOT}/data/parity")).unwrap();
    let present: BTreeSet<String> =
        files.filter_map(|f| Some(f.unwrap().file_name().to_str()?.strip_suffix(".zip")?.to_string())).collect();
    assert_eq!(listed, present);
}

#[test]
fn every_case_is_readable() {
    let mut counts: HashMap<Section, usize> = HashMap::new();
    for file in std::fs::read_dir(format!("{ROOT}/data/parity")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|e| e != "zip") {
            continue;
        }
        let store = Store::open(&path).unwrap();
        assert_eq!(path.file_stem().unwrap().to_str(), Some(store.name.as_str()));
        for (i, e) in store.entries.iter().enumerate() {
            let e = e.as_ref().unwrap_or_else(|| panic!("{}: tensor {i}", store.name));
            if e.undefined {
                continue;
            }
            store.array(e).unwrap_or_else(|why| panic!("{}: tensor {i}: {why}", store.name));
        }
        assert!(store.samples.iter().all(Option::is_some), "{}", store.name);
        for case in &store.cases {
            *counts.entry(case.section).or_default() += 1;
            if let Expectation::Unreadable(why) = &case.expect {
                panic!("{}: {why}", case.id);
            }
            assert!(case.wrapped.is_none(), "{}", case.id);
        }
    }
    assert!(
        counts[&Section::Forward] > 8000 && counts[&Section::Grad] > 1000 && counts[&Section::Rng] > 200,
        "{counts:?}"
    );
}
