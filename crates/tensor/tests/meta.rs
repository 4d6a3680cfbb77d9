//! The list of operators is well formed. `FLAMBEAU_UPDATE=1` rewrites the lists of `data/` that it is compared with.

use flambeau::autograd::Derivative;
use flambeau::schema::{Base, Schema};
use flambeau::{Body, DType, Op, Value, registry};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn built_in() -> Vec<&'static Op> {
    registry::all().into_iter().filter(|o| !o.schema_text.contains("::")).collect()
}

/// `SymInt` is PyTorch's word for an `int` that may not be known yet; its printed schemas have numbers for names.
fn plain(schema: &str) -> String {
    let schema = schema.replace("SymInt", "int").replace("SymBool", "bool");
    schema.replace("memory_format=contiguous_format", "memory_format=0")
}

/// Fails with the list of what is wrong.
fn none(what: &str, wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

/// Compares with a list of `data/`, or rewrites it.
fn same_as_file(name: &str, found: BTreeSet<String>, why: &str) {
    let path = format!("{ROOT}/tests/data/{name}");
    if std::env::var_os("FLAMBEAU_UPDATE").is_some() {
        let lines: String = found.iter().map(|line| format!("{line}\n")).collect();
        return std::fs::write(path, lines).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let known: BTreeSet<String> = text.lines().map(str::to_string).collect();
    let (new, gone): (Vec<_>, Vec<_>) = (found.difference(&known).collect(), known.difference(&found).collect());
    assert!(new.is_empty() && gone.is_empty(), "{why}\n{path}\n  not in it: {new:?}\n  no longer so: {gone:?}");
}

#[test]
fn schemas_are_those_of_pytorch() {
    let text = std::fs::read_to_string(format!("{ROOT}/tests/data/aten_schemas.txt")).unwrap();
    let theirs: BTreeMap<&str, &str> = text.lines().map(|l| (&l[..l.find('(').unwrap()], l)).collect();
    let (mut wrong, mut own) = (Vec::new(), BTreeSet::new());
    for op in built_in() {
        if let Err(e) = Schema::parse(op.schema_text) {
            wrong.push(e.to_string());
            continue;
        }
        match theirs.get(op.full_name()) {
            Some(line) if plain(line) == plain(op.schema_text) => {}
            Some(line) => wrong.push(format!("{}\n  PyTorch: {line}", op.schema_text)),
            None => {
                own.insert(op.schema_text.to_string());
            }
        }
    }
    none("schemas that differ from PyTorch's", wrong);
    same_as_file("own_operators.txt", own, "operators that PyTorch does not have: as few as possible");
}

#[test]
fn every_operator_is_documented() {
    let mut wrong = Vec::new();
    for op in built_in() {
        // A form written out by itself is documented with the operator it is a form of.
        let plain = registry::overloads("aten", op.name().trim_end_matches('_'));
        let doc = [op.functional().doc, plain.first().map_or("", |o| o.functional().doc)].join("").trim().to_string();
        let begins_well = doc.starts_with(|c: char| c.is_uppercase() || "`[-".contains(c) || c.is_numeric());
        let ends_well = doc.ends_with('.') || doc.ends_with("```") || doc.ends_with(".)") || doc.ends_with('|');
        if !begins_well || !ends_well {
            wrong.push(format!("{}: {doc:?} at {:?}", op.full_name(), op.location));
        }
    }
    none("documentation that is missing or is not made of sentences", wrong);
}

/// The files of `ops/`.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(ROOT).join("src/ops")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push((
                    path.file_stem().unwrap().to_string_lossy().into(),
                    std::fs::read_to_string(&path).unwrap(),
                ));
            }
        }
    }
    found
}

/// What a source file declares: full names of schemas written out, and names of `fn name, name_, name_out(`.
fn declared(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in text.lines().map(str::trim).filter(|l| !l.starts_with("//")) {
        for (i, part) in line.split('"').enumerate() {
            let Some(open) = part.find('(') else { continue };
            let name = &part[..open];
            let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b));
            if i % 2 == 1 && is_name && part.contains(") -> ") && Schema::parse(part).is_ok() {
                names.push(name.to_string());
            }
        }
        if let Some(rest) = line.strip_prefix("fn ")
            && let Some((head, _)) = rest.split_once('(')
            && let [name, in_place, out] = head.split(", ").collect::<Vec<_>>()[..]
            && in_place == format!("{name}_")
            && out == format!("{name}_out")
        {
            names.push(name.to_string());
        }
    }
    names
}

#[test]
fn every_entry_is_listed_once_and_in_order() {
    let names: BTreeSet<&str> = built_in().iter().map(|o| o.name()).collect();
    let full: BTreeSet<&str> = built_in().iter().map(|o| o.full_name()).collect();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        for name in declared(&text) {
            if !full.contains(name.as_str()) && !names.contains(name.as_str()) {
                wrong.push(format!("{file}.rs declares {name}, which its OPS leaves out"));
            }
            if let Some(other) = seen.insert(name.clone(), file.clone()) {
                wrong.push(format!("{name} is declared in {other}.rs and {file}.rs"));
            }
        }
        let Some(list) = text.split("pub static OPS: &[&[&Op]] = &[").nth(1).and_then(|t| t.split("];").next()) else {
            continue;
        };
        if list.contains('$') {
            continue; // A table declares its entries and lists them itself.
        }
        let listed: Vec<&str> = list.split([',', '\n']).map(str::trim).filter(|l| !l.is_empty()).collect();
        if !listed.is_sorted() {
            wrong.push(format!("OPS of {file}.rs is not in alphabetical order"));
        }
        let once: BTreeSet<&&str> = listed.iter().collect();
        if once.len() != listed.len() {
            wrong.push(format!("OPS of {file}.rs names an entry twice"));
        }
        for module in text.lines().filter_map(|l| l.strip_prefix("    ")?.split_once(": \"")).map(|(m, _)| m) {
            let is_entry = !module.is_empty() && module.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            if is_entry
                && text.contains(&format!("    {module}: \"{module}"))
                && !listed.iter().any(|l| l.starts_with(&format!("{module}::")))
            {
                wrong.push(format!("OPS of {file}.rs leaves out {module}"));
            }
        }
    }
    none("entries", wrong);
}

#[test]
fn formulas_name_what_the_schema_has() {
    let mut wrong = Vec::new();
    for op in built_in() {
        let Derivative::Formulas(formulas) = op.derivative else { continue };
        let schema = op.schema();
        let mut seen = BTreeSet::new();
        for formula in formulas {
            for input in formula.inputs {
                let name = input.strip_suffix('_').unwrap_or(input);
                match schema.position(name) {
                    // An overload may have a tensor where this one has a number.
                    Some(i) if matches!(schema.params[i].ty.base, Base::Tensor | Base::Scalar) => {}
                    _ => wrong.push(format!("{}: there is no argument '{name}' to derive by", op.full_name())),
                }
                if !seen.insert(name) {
                    wrong.push(format!("{}: two formulas for '{name}'", op.full_name()));
                }
            }
            for (saved, _) in formula.saves {
                let name = saved.strip_suffix('_').unwrap_or(saved);
                let number = name.strip_prefix("result").map(|n| n.parse::<usize>().unwrap_or(0));
                let is_result = number.is_some_and(|n| n < schema.returns.len() || schema.returns[0].ty.list.is_some())
                    || schema.returns.iter().any(|r| r.name.as_deref() == Some(name));
                if schema.position(name).is_none() && !is_result {
                    wrong.push(format!("{}: there is no argument or result '{name}' to keep", op.full_name()));
                }
            }
        }
    }
    none("derivatives", wrong);
}

/// An operator with floating-point arguments and results either has a derivative, or is made of operators that have
/// one, or stands in a list that somebody has read.
#[test]
fn no_gradient_is_lost_silently() {
    let mut found = BTreeSet::new();
    for op in built_in() {
        let functional = std::ptr::eq(op.functional(), op);
        let schema = op.schema();
        let from_tensors = schema.params.iter().any(|p| p.ty.base == Base::Tensor);
        let to_tensors = schema.returns.iter().any(|r| r.ty.base == Base::Tensor);
        let silent = matches!(op.derivative, Derivative::NonDifferentiable);
        if functional && silent && from_tensors && to_tensors && !op.is_composite() {
            found.insert(op.full_name().to_string());
        }
    }
    let why = "operators that autograd does not follow: comparisons, whole numbers, indices, fresh tensors. An entry with \
               a smooth result does not belong here: write its derivative";
    same_as_file("not_differentiable.txt", found, why);
}

/// What a new device has to implement.
#[test]
fn the_primitives_are_known() {
    let primitive = |op: &&Op| match op.body {
        Body::Pointwise(_) | Body::Structured { .. } | Body::Kernels { .. } => true,
        Body::InPlace(_, base) => matches!(base.body, Body::Composite(_) | Body::Explicit(_)),
        _ => false,
    };
    let found = built_in().iter().filter(|o| primitive(o)).map(|o| o.full_name().to_string()).collect();
    same_as_file("primitives.txt", found, "the operators that a device must implement; prefer a composite");
}

/// No operator takes more arguments than its schema has parameters.
#[test]
fn surplus_arguments_are_refused() {
    let mut wrong = Vec::new();
    for op in built_in() {
        let n = op.schema().params.len();
        let said = op.call(&vec![Value::None; n + 1]).err().map_or(String::new(), |e| e.message().to_string());
        if said != format!("{}() takes {n} arguments but {} were given", op.name(), n + 1) {
            wrong.push(format!("{}: {said}", op.full_name()));
        }
    }
    none("surplus arguments", wrong);
}

/// Samples exist where they are declared, and say the same every time.
#[test]
fn samples_can_be_repeated() {
    let mut wrong = Vec::new();
    for op in built_in() {
        let (Some(make), None) = (op.samples, registry::form_of(op)) else { continue };
        let count = |dtype| make(&mut flambeau::samples::Maker::new(dtype)).len();
        if DType::ALL.into_iter().all(|d| count(d) == 0) {
            wrong.push(format!("{} has no sample for any dtype", op.full_name()));
        }
        for sample in make(&mut flambeau::samples::Maker::new(DType::F32)) {
            if sample.args.len() > op.schema().params.len() {
                wrong.push(format!("{} has a sample with more arguments than its schema", op.full_name()));
            }
        }
    }
    none("samples", wrong);
}

/// Every operator on tensors has samples, or stands in a list that can only shrink.
#[test]
fn operators_without_samples_are_known() {
    let mut found = BTreeSet::new();
    for op in built_in() {
        if op.samples.is_none() && registry::form_of(op).is_none() {
            found.insert(op.full_name().to_string());
        }
    }
    same_as_file("without_samples.txt", found, "operators that the derived tests cannot reach: give them samples");
}
