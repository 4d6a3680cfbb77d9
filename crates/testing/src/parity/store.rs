//! One data file: a zip with `cases.json` and, per dtype, the elements of all tensors with their bytes in planes.

use super::array::{Array, Numbers};
use super::value::{Recorded, Value};
use flambeau_base::{DType, Error, Result};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// One tensor of a file's table: an input or an expected result.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its dtype.
    pub dtype: DType,
    /// Its sizes.
    pub sizes: Vec<i64>,
    /// Its strides, if it is not contiguous.
    pub strides: Option<Vec<i64>>,
    /// Where in the stored elements it begins.
    pub offset: i64,
    /// The first stored element in the file's elements of this dtype.
    pub start: usize,
    /// How many elements are stored: as many as its strides reach, or its number of elements if `logical`.
    pub count: usize,
    /// The elements are stored in row-major order whatever the strides say (of results only the strides are told).
    pub logical: bool,
    /// Whether gradients flow to it.
    pub requires_grad: bool,
    /// Whether it is a lazily conjugated view of what is stored.
    pub conj: bool,
    /// Whether its contents are undefined, and not stored.
    pub undefined: bool,
}

impl Entry {
    /// How many elements it has.
    pub fn numel(&self) -> usize {
        self.sizes.iter().map(|n| *n as usize).product()
    }
}

/// The arguments of a call.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What [`super::tolerance`] starts from; `None` for mixed dtypes.
    pub dtype: Option<DType>,
    /// The generator is seeded with it before the call.
    pub seed: Option<i64>,
    /// The first argument and the other positional ones.
    pub args: Vec<Value<Recorded>>,
    /// Arguments by name.
    pub kwargs: Vec<(String, Value<Recorded>)>,
}

/// What a case checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// Structure, dtype, sizes and values of the results.
    Forward,
    /// Strides of the results, and that views share their input's memory.
    Strides,
    /// Reverse-mode gradients.
    Grad,
    /// Forward-mode derivatives.
    Jvp,
    /// Gradients of gradients.
    GradGrad,
    /// In-place spellings.
    InPlace,
    /// `out=`.
    Out,
    /// Calls that must fail.
    Error,
    /// Random numbers under a seed.
    Rng,
}

impl Section {
    /// Every section, in order.
    pub const ALL: [Section; 9] = [
        Section::Forward,
        Section::Strides,
        Section::Grad,
        Section::Jvp,
        Section::GradGrad,
        Section::InPlace,
        Section::Out,
        Section::Error,
        Section::Rng,
    ];

    /// The name in the files.
    pub const fn name(self) -> &'static str {
        match self {
            Section::Forward => "forward",
            Section::Strides => "strides",
            Section::Grad => "grad",
            Section::Jvp => "jvp",
            Section::GradGrad => "gradgrad",
            Section::InPlace => "inplace",
            Section::Out => "out",
            Section::Error => "error",
            Section::Rng => "rng",
        }
    }

    /// The section called `name`.
    pub fn by_name(name: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// What the `out=` tensor looks like before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutMode {
    /// Of the right sizes.
    Exact,
    /// Empty: it must be resized.
    Resize,
    /// Of the right sizes and transposed strides, which must stay.
    Strided,
}

/// A step of a program: what is called, with what.
#[derive(Clone, Debug)]
pub struct Step {
    /// The call.
    pub call: String,
    /// Its positional arguments.
    pub args: Vec<Value<Recorded>>,
    /// Its arguments by name.
    pub kwargs: Vec<(String, Value<Recorded>)>,
}

/// What a large random result must look like.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// The step whose result is looked at.
    pub step: usize,
    /// How many values there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub std: f64,
    /// Their kurtosis, if the deviation is to be checked.
    pub kurtosis: Option<f64>,
    /// The least value allowed.
    pub min: Option<f64>,
    /// The greatest value allowed.
    pub max: Option<f64>,
}

/// What is expected of a case.
#[derive(Clone, Debug)]
pub enum Expectation {
    /// These results of the call.
    Outputs(Value<Recorded>),
    /// These results, written into `out=`.
    Out(OutMode, Value<Recorded>),
    /// These results, written into the first argument.
    InPlace {
        /// Whether the first argument itself is returned.
        returns_self: bool,
        /// The results.
        outputs: Value<Recorded>,
    },
    /// Reverse-mode gradients.
    Gradients {
        /// Which outputs get a cotangent.
        outputs: Vec<usize>,
        /// Entries that gradients are taken of.
        inputs: Vec<usize>,
        /// Their gradients; after them, of second order, those of the cotangents.
        expected: Vec<Option<usize>>,
        /// Which first-order gradients are differentiated again (second order only).
        keep: Vec<usize>,
        /// The call writes to a copy of the first argument.
        in_place: bool,
    },
    /// Forward-mode derivatives.
    Tangents {
        /// Entries that have a tangent.
        inputs: Vec<usize>,
        /// The tangents of the outputs.
        expected: Vec<Option<usize>>,
    },
    /// An error.
    Error {
        /// Python's exception types, any of them.
        types: Vec<String>,
        /// A regular expression that is found in the message.
        regex: String,
    },
    /// Several calls.
    Program {
        /// The calls.
        steps: Vec<Step>,
        /// The results of some of them.
        checks: Vec<(usize, Value<Recorded>)>,
        /// What others must look like.
        statistics: Vec<Statistics>,
    },
    /// Something this reader has no form for: what.
    Unreadable(String),
}

/// How results are compared when an implementation has a choice.
#[derive(Clone, Debug)]
pub enum Compare {
    /// Element by element.
    Elements,
    /// Values must agree; indices must point at equal values of the input.
    Ties {
        /// The entry the indices point into.
        input: usize,
        /// Along this dimension.
        dim: i64,
        /// Which output holds the indices.
        indices: usize,
        /// The order along the dimension is free.
        unsorted: bool,
    },
    /// The order of unique values is free.
    Unique {
        /// Whether inverse indices are returned.
        inverse: bool,
        /// Whether counts are returned.
        counts: bool,
    },
    /// A comparison that needs linear algebra: its name.
    Decomposition(String),
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, unique over all files.
    pub id: String,
    /// What it checks.
    pub section: Section,
    /// Its dtype; `None` for mixed ones.
    pub dtype: Option<DType>,
    /// The arguments; `None` for programs.
    pub sample: Option<usize>,
    /// The spelling, if not the file's own.
    pub via: Option<String>,
    /// What is expected.
    pub expect: Expectation,
    /// How results are compared.
    pub compare: Compare,
    /// Relative and absolute tolerance that the operator's own database entry asks for.
    pub tolerance: Option<(f64, f64)>,
    /// Absolute tolerance to add, per output.
    pub extra: Vec<f64>,
    /// Tolerance of derivatives, if wider than the default.
    pub gradient_tolerance: Option<f64>,
    /// The contents are not defined: dtype and sizes only.
    pub meta_only: bool,
    /// Inputs that the call changes: entry, entry with what it must be.
    pub mutated: Vec<(usize, usize)>,
    /// Outputs that are views: output, input entry, distance of their first elements in bytes.
    pub alias: Vec<(usize, usize, i64)>,
    /// Entry with the positions of the first output that count.
    pub mask: Option<usize>,
    /// Something is done to the results or arguments that this reader has no form for.
    pub wrapped: Option<String>,
}

/// One data file.
#[derive(Debug)]
pub struct Store {
    /// The operator's name with its variant.
    pub name: String,
    /// How it is called.
    pub call: String,
    /// Inputs and expected results; `None` for sparse tensors and dtypes that do not exist here.
    pub entries: Vec<Option<Entry>>,
    /// Arguments; `None` if they hold something this reader has no form for.
    pub samples: Vec<Option<Sample>>,
    /// The cases.
    pub cases: Vec<Case>,
    elements: HashMap<DType, Vec<u8>>,
}

impl Store {
    /// Reads a file.
    ///
    /// # Errors
    /// When it is not a zip, or not of the recorder's format.
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        Store::read(std::fs::read(path)?).map_err(|e| e.context(path.display()))
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// When they are not a zip, or not of the recorder's format.
    pub fn read(bytes: Vec<u8>) -> Result<Store> {
        let broken = |e: zip::result::ZipError| Error::io(e.to_string());
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).map_err(broken)?;
        let mut elements = HashMap::new();
        let mut json = Json::Null;
        for i in 0..archive.len() {
            let mut file = archive.by_index(i).map_err(broken)?;
            let name = file.name().map_err(broken)?.into_owned();
            let mut raw = Vec::new();
            file.read_to_end(&mut raw)?;
            if name == "cases.json" {
                json = serde_json::from_slice(&raw).map_err(|e| Error::io(format!("cases.json: {e}")))?;
            } else if let Some(dtype) = name.strip_suffix(".bin").and_then(DType::by_name) {
                elements.insert(dtype, interleave(&raw, dtype.size())?);
            }
        }
        let list = |key: &str| json[key].as_array().ok_or_else(|| Error::io(format!("cases.json has no '{key}'")));
        let entries: Vec<Option<Entry>> = list("tensors")?.iter().map(read_entry).collect();
        for e in entries.iter().flatten() {
            let stored = elements.get(&e.dtype).map_or(0, Vec::len) / e.dtype.size();
            if e.start.checked_add(e.count).is_none_or(|end| e.count > 0 && end > stored) {
                return Err(Error::io(format!("a tensor of {} lies outside its {stored} elements", e.dtype)));
            }
        }
        let samples = list("samples")?.iter().map(read_sample).collect();
        let wrap = json["wrap"].as_str();
        let cases = list("cases")?.iter().map(|c| read_case(c, wrap)).collect::<Result<_>>()?;
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_string();
        Ok(Store { name: text("full"), call: text("call"), entries, samples, cases, elements })
    }

    /// Entry `i`, if this reader has a form for it.
    pub fn entry(&self, i: usize) -> Option<&Entry> {
        self.entries.get(i)?.as_ref()
    }

    /// The stored elements of an entry, little-endian.
    pub fn bytes(&self, e: &Entry) -> &[u8] {
        let size = e.dtype.size();
        match self.elements.get(&e.dtype) {
            Some(all) if e.count > 0 => &all[e.start * size..(e.start + e.count) * size],
            _ => &[],
        }
    }

    /// The contents of an entry in row-major order.
    ///
    /// # Errors
    /// When its contents are undefined, or its strides reach outside its elements.
    pub fn array(&self, e: &Entry) -> Result<Array> {
        let stored = Numbers::read(e.dtype, self.bytes(e));
        let mut numbers = match &e.strides {
            Some(strides) if !e.logical => {
                let mut positions = Vec::with_capacity(e.numel());
                for i in 0..e.numel() {
                    let index = super::array::index_of(&e.sizes, i);
                    let at = e.offset + index.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>();
                    positions.push(at as usize);
                }
                if positions.iter().any(|p| *p >= stored.len()) {
                    return Err(Error::io("a tensor's strides reach outside its elements"));
                }
                stored.pick(positions.into_iter())
            }
            _ if stored.len() != e.numel() => return Err(Error::io("a tensor has another number of elements")),
            _ => stored,
        };
        if let (true, Numbers::Complex(v)) = (e.conj, &mut numbers) {
            v.iter_mut().for_each(|x| *x = x.conj());
        }
        Ok(Array { sizes: e.sizes.clone(), numbers })
    }
}

/// Puts bytes that were regrouped into planes (all lowest bytes first) back together.
fn interleave(raw: &[u8], size: usize) -> Result<Vec<u8>> {
    if !raw.len().is_multiple_of(size) {
        return Err(Error::io(format!("{} bytes are no whole number of elements of {size}", raw.len())));
    }
    let count = raw.len() / size;
    let mut out = vec![0; raw.len()];
    for (plane, bytes) in raw.chunks_exact(count.max(1)).enumerate() {
        for (i, b) in bytes.iter().enumerate() {
            out[i * size + plane] = *b;
        }
    }
    Ok(out)
}

fn integers(j: &Json) -> Option<Vec<i64>> {
    j.as_array()?.iter().map(Json::as_i64).collect()
}

fn indices(j: &Json) -> Vec<usize> {
    integers(j).unwrap_or_default().into_iter().map(|i| i as usize).collect()
}

fn number(j: &Json) -> Option<f64> {
    j.as_f64()
}

fn truthy(j: &Json) -> bool {
    j.as_bool().unwrap_or_else(|| j.as_i64().unwrap_or(0) != 0)
}

fn read_entry(j: &Json) -> Option<Entry> {
    if !j["layout"].is_null() || !j["neg"].is_null() {
        return None;
    }
    let place = integers(&j["b"])?;
    let [start, count] = place[..] else { return None };
    let sizes = integers(&j["s"])?;
    if start < 0 || count < 0 || sizes.iter().any(|n| *n < 0) {
        return None;
    }
    Some(Entry {
        dtype: DType::by_name(j["d"].as_str()?)?,
        sizes,
        strides: integers(&j["st"]),
        offset: j["o"].as_i64().unwrap_or(0),
        start: start as usize,
        count: count as usize,
        logical: truthy(&j["log"]),
        requires_grad: truthy(&j["g"]),
        conj: truthy(&j["conj"]),
        undefined: truthy(&j["meta"]),
    })
}

fn read_list(j: &Json) -> Result<Vec<Value<Recorded>>> {
    j.as_array().map_or(Ok(vec![]), |v| v.iter().map(Value::read).collect())
}

fn read_pairs(j: &Json) -> Result<Vec<(String, Value<Recorded>)>> {
    j.as_array().map_or(Ok(vec![]), |v| {
        v.iter().map(|p| Ok((p[0].as_str().unwrap_or_default().to_string(), Value::read(&p[1])?))).collect()
    })
}

fn read_sample(j: &Json) -> Option<Sample> {
    let mut args = match j.get("input") {
        Some(input) => vec![Value::read(input).ok()?],
        None => vec![],
    };
    args.extend(read_list(&j["args"]).ok()?);
    Some(Sample {
        dtype: j["dtype"].as_str().and_then(DType::by_name),
        seed: j["seed"].as_i64(),
        args,
        kwargs: read_pairs(&j["kwargs"]).ok()?,
    })
}

fn read_case(j: &Json, wrap: Option<&str>) -> Result<Case> {
    let section = j["section"].as_str().and_then(Section::by_name).ok_or_else(|| Error::io("a case of no section"))?;
    let expect = read_expectation(j, section).unwrap_or_else(|e| Expectation::Unreadable(e.message().to_string()));
    let c = &j["cmp"];
    let compare = match c["mode"].as_str() {
        None => Compare::Elements,
        Some("ties") => Compare::Ties {
            input: c["in"].as_u64().unwrap_or(0) as usize,
            dim: c["dim"].as_i64().unwrap_or(0),
            indices: c["idx"].as_u64().unwrap_or(0) as usize,
            unsorted: truthy(&c["unsorted"]),
        },
        Some("unique") => Compare::Unique { inverse: truthy(&c["inv"]), counts: truthy(&c["cnt"]) },
        Some(other) => Compare::Decomposition(other.to_string()),
    };
    let pairs =
        |key: &str| -> Vec<Vec<i64>> { j[key].as_array().map_or(vec![], |v| v.iter().filter_map(integers).collect()) };
    let derivative = matches!(section, Section::Grad | Section::GradGrad | Section::Jvp) || j["kind"] == "grad";
    let wrapped = j["post"].as_str().or(if derivative { wrap } else { None });
    Ok(Case {
        id: j["id"].as_str().unwrap_or_default().to_string(),
        section,
        dtype: j["dtype"].as_str().and_then(DType::by_name),
        sample: j["sample"].as_u64().map(|i| i as usize),
        via: j["via"].as_str().map(str::to_string),
        expect,
        compare,
        tolerance: j["tol"].as_array().and_then(|t| Some((number(t.first()?)?, number(t.get(1)?)?))),
        extra: j["extra"].as_array().map_or(vec![], |v| v.iter().map(|x| number(x).unwrap_or(0.0)).collect()),
        gradient_tolerance: number(&j["gtol"]),
        meta_only: j["check"] == "meta",
        mutated: pairs("mutated")
            .into_iter()
            .filter(|p| p.len() == 2)
            .map(|p| (p[0] as usize, p[1] as usize))
            .collect(),
        alias: pairs("alias")
            .into_iter()
            .filter(|p| p.len() == 3)
            .map(|p| (p[0] as usize, p[1] as usize, p[2]))
            .collect(),
        mask: j["omask"].as_u64().map(|i| i as usize),
        wrapped: wrapped.map(str::to_string),
    })
}

fn read_expectation(j: &Json, section: Section) -> Result<Expectation> {
    let gradients = || -> Vec<Option<usize>> {
        let all = j["grads"].as_array().map_or(&[][..], |v| v);
        all.iter().map(|g| g["v"].as_u64().map(|i| i as usize)).collect()
    };
    if let Some(steps) = j["steps"].as_array() {
        let step = |s: &Json| -> Result<Step> {
            let call = s[0].as_str().unwrap_or_default().to_string();
            Ok(Step { call, args: read_list(&s[1])?, kwargs: read_pairs(&s[2])? })
        };
        let checks = j["checks"].as_array().map_or(&[][..], |v| v);
        let statistics = j["stats"].as_array().map_or(&[][..], |v| v);
        return Ok(Expectation::Program {
            steps: steps.iter().map(step).collect::<Result<_>>()?,
            checks: checks
                .iter()
                .map(|c| Ok((c[0].as_u64().unwrap_or(0) as usize, Value::read(&c[1])?)))
                .collect::<Result<_>>()?,
            statistics: statistics
                .iter()
                .map(read_statistics)
                .collect::<Option<_>>()
                .ok_or_else(|| Error::io("statistics without count, mean or deviation"))?,
        });
    }
    Ok(match section {
        Section::Grad | Section::GradGrad => gradients_of(j, gradients()),
        _ if j["kind"] == "grad" => gradients_of(j, gradients()),
        Section::Jvp => Expectation::Tangents { inputs: indices(&j["gin"]), expected: gradients() },
        Section::Error => Expectation::Error {
            types: j["types"]
                .as_array()
                .map_or(vec![], |v| v.iter().filter_map(|t| t.as_str().map(str::to_string)).collect()),
            regex: j["regex"].as_str().unwrap_or_default().to_string(),
        },
        Section::InPlace => Expectation::InPlace { returns_self: truthy(&j["self"]), outputs: Value::read(&j["exp"])? },
        Section::Out => {
            let mode = match j["mode"].as_str() {
                Some("resize") => OutMode::Resize,
                Some("strided") => OutMode::Strided,
                _ => OutMode::Exact,
            };
            Expectation::Out(mode, Value::read(&j["exp"])?)
        }
        Section::Forward | Section::Strides | Section::Rng => Expectation::Outputs(Value::read(&j["exp"])?),
    })
}

fn gradients_of(j: &Json, expected: Vec<Option<usize>>) -> Expectation {
    Expectation::Gradients {
        outputs: indices(&j["gout"]),
        inputs: indices(&j["gin"]),
        expected,
        keep: indices(&j["keep"]),
        in_place: truthy(&j["inplace"]),
    }
}

fn read_statistics(j: &Json) -> Option<Statistics> {
    let s = &j[1];
    Some(Statistics {
        step: j[0].as_u64()? as usize,
        count: s["n"].as_u64()? as usize,
        mean: number(&s["mean"])?,
        std: number(&s["std"])?,
        kurtosis: number(&s["kurt"]).filter(|k| *k != 0.0),
        min: number(&s["min"]),
        max: number(&s["max"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_are_put_back_together() {
        assert_eq!(interleave(&[1, 2, 3, 10, 20, 30], 2).unwrap(), [1, 10, 2, 20, 3, 30]);
        assert!(interleave(&[], 8).unwrap().is_empty());
        assert!(interleave(&[1, 2, 3], 2).is_err());
    }

    #[test]
    fn damaged_files_are_errors() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/parity/add.zip");
        let bytes = std::fs::read(path).unwrap();
        assert!(Store::read(bytes.clone()).is_ok());
        assert!(Store::read(bytes[..bytes.len() / 2].to_vec()).is_err());
        assert!(Store::read(vec![]).is_err());
        let mut flipped = bytes.clone();
        for byte in flipped.iter_mut().skip(40).step_by(7).take(60) {
            *byte ^= 0x55;
        }
        assert!(Store::read(flipped).is_err());
    }
}
