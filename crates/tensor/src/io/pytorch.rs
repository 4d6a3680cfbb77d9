//! PyTorch's files (`.pt`, `.pth`, `.bin`): a zip archive of a pickle, which says what there is, and of the storages'
//! bytes, as `torch.save` writes them since version 1.6.
//!
//! Nothing in a file is ever run. Of the objects that a pickle can describe, tensors are made, containers are walked, and
//! of all others only the class's name is kept.

use super::pickle::{Id, Node, Pickle};
use super::{open, swap_bytes};
use crate::{DType, Error, Result, Storage, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use zip::{CompressionMethod, ZipArchive};

/// What every zip archive begins with.
pub const MAGIC: &[u8; 4] = b"PK\x03\x04";
/// The longest pickle that is read: a state of a million tensors is shorter.
const MAX_PICKLE: u64 = 256 << 20;
/// How deep containers may stand in each other.
const MAX_DEPTH: usize = 64;
/// How many values, and how many bytes of names, a file may have: shared containers can make few bytes many.
const MAX_VALUES: usize = 1 << 22;
const MAX_NAMES: usize = 256 << 20;

/// The contents of a file. What stands in dictionaries and lists in each other has its keys joined by dots:
/// `model.layers.0.weight`.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The tensors; those that shared memory when they were saved share it.
    pub tensors: BTreeMap<String, Tensor>,
    /// Numbers and texts as text; of other objects the class's name in angle brackets.
    pub values: BTreeMap<String, String>,
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, is not such an archive, or holds anything but a dictionary or list of such.
pub fn load(path: impl AsRef<Path>) -> Result<Contents> {
    let path = path.as_ref();
    let (file, _) = open(path)?;
    read(BufReader::with_capacity(1 << 20, file)).map_err(|e| e.context(path.display()))
}

/// Reads a file that is in memory.
///
/// # Errors
/// As [`load`].
pub fn parse(bytes: &[u8]) -> Result<Contents> {
    read(Cursor::new(bytes))
}

fn read(reader: impl Read + Seek) -> Result<Contents> {
    let mut archive = Archive::open(reader)?;
    let data = archive.record("data.pkl", MAX_PICKLE)?;
    let pickle = Pickle::parse(&data)?;
    if !matches!(pickle.node(pickle.root), Node::Dict(_) | Node::Sequence(_) | Node::Call { .. }) {
        return Err(Error::io("the file holds no dictionary of tensors"));
    }
    let mut walk =
        Walk { pickle: &pickle, archive, storages: HashMap::new(), contents: Contents::default(), values: 0, names: 0 };
    walk.visit(String::new(), pickle.root, 0)?;
    if let Some(class) = walk.contents.values.get("") {
        return Err(Error::io(format!("the file holds a {class}, not a state dict")));
    }
    Ok(walk.contents)
}

/// The archive, whose records all stand in one folder.
struct Archive<R> {
    zip: ZipArchive<R>,
    folder: String,
    /// Whether numbers in it have another byte order than here.
    swapped: bool,
    /// How many more bytes its records can have unless they overlap.
    left: u64,
}

impl<R: Read + Seek> Archive<R> {
    fn open(mut reader: R) -> Result<Archive<R>> {
        let length = reader.seek(SeekFrom::End(0))?;
        reader.rewind()?;
        let mut start = [0; MAGIC.len()];
        if reader.read_exact(&mut start).is_err() || &start != MAGIC {
            return Err(Error::io("not a zip archive, which PyTorch's files are since its version 1.6"));
        }
        reader.rewind()?;
        let zip = ZipArchive::new(reader).map_err(zip_error)?;
        let folder = (zip.file_names().filter_map(Result::ok))
            .find_map(|name| Some(name.strip_suffix("data.pkl")?.to_owned()))
            .filter(|folder| folder.is_empty() || folder.ends_with('/'))
            .ok_or_else(|| Error::io("not a PyTorch file: its archive has no data.pkl"))?;
        let mut archive = Archive { zip, folder, swapped: false, left: length };
        if archive.has("constants.pkl") {
            return Err(Error::io("the file is a TorchScript program, not a state dict"));
        }
        if archive.has("byteorder") {
            let big = match &*archive.record("byteorder", 16)? {
                b"big" => true,
                b"little" => false,
                _ => return Err(Error::io("the byte order in the file is unknown")),
            };
            archive.swapped = big != cfg!(target_endian = "big");
        }
        Ok(archive)
    }

    fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(&format!("{}{name}", self.folder)).is_some()
    }

    /// A record's bytes.
    fn record(&mut self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let full = format!("{}{name}", self.folder);
        let mut entry = self.zip.by_name(&full).map_err(|e| zip_error(e).context(&full))?;
        let invalid = |what: &str| Error::io(format!("{full}: {what}"));
        // PyTorch never compresses, and a compressed record could be of any length.
        if entry.compression() != CompressionMethod::Stored {
            return Err(invalid("the record is compressed"));
        }
        let length = entry.size();
        if length > limit {
            return Err(invalid("the record is too long"));
        }
        self.left = self.left.checked_sub(length).ok_or_else(|| invalid("records overlap"))?;
        let data = super::read_bytes(&mut entry, length as usize, length)?;
        // The checksum is compared at the end.
        match entry.read(&mut [0])? {
            0 => Ok(data),
            _ => Err(invalid("the record has more bytes than it says")),
        }
    }
}

fn zip_error(e: zip::result::ZipError) -> Error {
    Error::io(format!("not a readable PyTorch file: {e}"))
}

struct Walk<'p, 'a, R> {
    pickle: &'p Pickle<'a>,
    archive: Archive<R>,
    /// Storages by name, each with the dtype that it was first read for.
    storages: HashMap<&'a str, (DType, Storage)>,
    contents: Contents,
    values: usize,
    names: usize,
}

impl<R: Read + Seek> Walk<'_, '_, R> {
    fn visit(&mut self, name: String, id: Id, depth: usize) -> Result<()> {
        self.values += 1;
        self.names += name.len();
        if depth > MAX_DEPTH || self.values > MAX_VALUES || self.names > MAX_NAMES {
            return Err(Error::io("the file's containers are too deep or have too many values"));
        }
        let pickle = self.pickle;
        match pickle.node(id) {
            Node::Dict(items) => self.visit_items(&name, items, depth),
            Node::Sequence(items) => (items.iter().enumerate())
                .try_for_each(|(i, &item)| self.visit(join(&name, &i.to_string()), item, depth + 1)),
            Node::Call { function, arguments, items } => match (pickle.node(*function), pickle.sequence(*arguments)) {
                (&Node::Global("collections", "OrderedDict" | "defaultdict" | "Counter"), _) => {
                    self.visit_items(&name, items, depth)
                }
                (&Node::Global("torch", "Size"), Some(&[sizes])) => self.visit(name, sizes, depth + 1),
                (&Node::Global("torch", "device"), Some(&[device, ..])) => self.visit(name, device, depth + 1),
                (&Node::Global("torch._utils", function), Some(arguments)) if function.starts_with("_rebuild_") => {
                    match self.rebuild(function, arguments).map_err(|e| e.context(&name))? {
                        Some(tensor) => self.insert_tensor(name, tensor),
                        None => self.insert_value(name, format!("<torch._utils.{function}>")),
                    }
                }
                (&Node::Global(module, class), _) => self.insert_value(name, format!("<{module}.{class}>")),
                _ => self.insert_value(name, "<object>".to_owned()),
            },
            Node::None => Ok(()),
            Node::Bool(b) => self.insert_value(name, b.to_string()),
            Node::Int(n) => self.insert_value(name, n.to_string()),
            Node::Float(x) => self.insert_value(name, x.to_string()),
            Node::Text(text) => {
                self.names += text.len();
                self.insert_value(name, (*text).to_owned())
            }
            Node::Global(module, class) => self.insert_value(name, format!("{module}.{class}")),
            Node::LargeInt => self.insert_value(name, "<int>".to_owned()),
            Node::Bytes => self.insert_value(name, "<bytes>".to_owned()),
            Node::Persistent(_) => self.insert_value(name, "<storage>".to_owned()),
        }
    }

    fn visit_items(&mut self, name: &str, items: &[(Id, Id)], depth: usize) -> Result<()> {
        for &(key, value) in items {
            let key = match self.pickle.node(key) {
                Node::Text(text) => join(name, text),
                Node::Int(n) => join(name, &n.to_string()),
                Node::Bool(b) => join(name, &b.to_string()),
                // Other keys name nothing that could be asked for.
                _ => continue,
            };
            self.visit(key, value, depth + 1)?;
        }
        Ok(())
    }

    /// A dictionary may set an item twice; the last counts.
    fn insert_tensor(&mut self, name: String, tensor: Tensor) -> Result<()> {
        self.contents.values.remove(&name);
        self.contents.tensors.insert(name, tensor);
        Ok(())
    }

    fn insert_value(&mut self, name: String, value: String) -> Result<()> {
        self.contents.tensors.remove(&name);
        self.contents.values.insert(name, value);
        Ok(())
    }

    /// The tensor that one of PyTorch's functions would make; `None` for those that make something else.
    fn rebuild(&mut self, function: &str, arguments: &[Id]) -> Result<Option<Tensor>> {
        let pickle = self.pickle;
        match (function, arguments) {
            ("_rebuild_tensor", &[storage, offset, sizes, strides]) => {
                self.tensor(storage, offset, sizes, strides, None).map(Some)
            }
            ("_rebuild_tensor_v2", &[storage, offset, sizes, strides, _, _, ref metadata @ ..]) => {
                let tensor = self.tensor(storage, offset, sizes, strides, None)?;
                metadata.first().map_or(Ok(tensor.clone()), |&m| self.apply_bits(&tensor, m)).map(Some)
            }
            ("_rebuild_tensor_v3", &[storage, offset, sizes, strides, _, _, dtype, ..]) => {
                let dtype = match pickle.node(dtype) {
                    Node::Global("torch", name) => DType::by_name(name),
                    _ => None,
                };
                let dtype = dtype.ok_or_else(|| Error::io("the tensor's dtype is unknown"))?;
                self.tensor(storage, offset, sizes, strides, Some(dtype)).map(Some)
            }
            ("_rebuild_parameter" | "_rebuild_parameter_with_state", &[data, ..]) => match pickle.node(data) {
                Node::Call { function, arguments, .. } => match (pickle.node(*function), pickle.sequence(*arguments)) {
                    (&Node::Global("torch._utils", inner), Some(arguments)) if inner.starts_with("_rebuild_tensor") => {
                        self.rebuild(inner, arguments)
                    }
                    _ => Ok(None),
                },
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// A tensor as its conjugate or negative, if the flags that were saved with it say so.
    fn apply_bits(&self, tensor: &Tensor, metadata: Id) -> Result<Tensor> {
        let Node::Dict(items) = self.pickle.node(metadata) else { return Ok(tensor.clone()) };
        let mut tensor = tensor.clone();
        for &(key, on) in items {
            match (self.pickle.text(key), self.pickle.node(on)) {
                (Some("conj"), Node::Bool(true)) => tensor = tensor.conj_physical()?,
                (Some("neg"), Node::Bool(true)) => tensor = tensor.neg()?,
                _ => {}
            }
        }
        Ok(tensor)
    }

    fn tensor(&mut self, storage: Id, offset: Id, sizes: Id, strides: Id, dtype: Option<DType>) -> Result<Tensor> {
        let invalid = || Error::io("a tensor's description is damaged");
        let pickle = self.pickle;
        let numbers = |id: Id| -> Option<Vec<i64>> { pickle.sequence(id)?.iter().map(|&n| pickle.int(n)).collect() };
        let (sizes, strides) = (numbers(sizes).ok_or_else(invalid)?, numbers(strides).ok_or_else(invalid)?);
        let offset = pickle.int(offset).ok_or_else(invalid)?;
        // ("storage", class, name, device, elements)
        let Node::Persistent(description) = *pickle.node(storage) else { return Err(invalid()) };
        let Some(&[kind, class, key, _, count, ..]) = pickle.sequence(description) else { return Err(invalid()) };
        let (Some("storage"), &Node::Global(_, class), Some(key), Some(count)) =
            (pickle.text(kind), pickle.node(class), pickle.text(key), pickle.int(count))
        else {
            return Err(invalid());
        };
        let (unit, dtype) = match (storage_dtype(class), dtype) {
            (Some(unit), dtype) => (unit, dtype.unwrap_or(unit)),
            (None, Some(dtype)) if class == "UntypedStorage" => (DType::U8, dtype),
            _ => return Err(Error::io(format!("tensors over a {class} are unknown"))),
        };
        if sizes.len() > super::MAX_DIMS {
            return Err(invalid());
        }
        let storage = match self.storages.get(key) {
            Some((first, _)) if self.archive.swapped && *first != dtype => {
                return Err(Error::io("a storage is shared by dtypes, and in another byte order"));
            }
            Some((_, storage)) => storage.clone(),
            None => {
                let wanted = u64::try_from(count).ok().and_then(|n| n.checked_mul(unit.size() as u64));
                let mut data = self.archive.record(&format!("data/{key}"), u64::MAX)?;
                if wanted != Some(data.len() as u64) {
                    return Err(Error::io(format!("data/{key} has {} bytes, not {count} elements", data.len())));
                }
                if self.archive.swapped {
                    swap_bytes(dtype, &mut data);
                }
                let whole = Tensor::from_bytes(&data, DType::U8, &[data.len() as i64])?;
                self.storages.insert(key, (dtype, whole.storage().clone()));
                whole.storage().clone()
            }
        };
        Tensor::from_storage(storage, dtype, &sizes, &strides, offset).map_err(|e| Error::io(e.message()))
    }
}

fn join(name: &str, key: &str) -> String {
    if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") }
}

/// The elements of a storage of the class of this name.
fn storage_dtype(class: &str) -> Option<DType> {
    Some(match class {
        "BoolStorage" => DType::Bool,
        "ByteStorage" => DType::U8,
        "CharStorage" => DType::I8,
        "ShortStorage" => DType::I16,
        "IntStorage" => DType::I32,
        "LongStorage" => DType::I64,
        "HalfStorage" => DType::F16,
        "BFloat16Storage" => DType::BF16,
        "FloatStorage" => DType::F32,
        "DoubleStorage" => DType::F64,
        "ComplexFloatStorage" => DType::Complex64,
        "ComplexDoubleStorage" => DType::Complex128,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    const FILE: &[u8] = include_bytes!("../../tests/data/pytorch.pt");

    /// An archive of these records, deflated if `compressed`.
    fn archive(records: &[(&str, &[u8])], compressed: bool) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let method = if compressed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        for (name, data) in records {
            zip.start_file(format!("x/{name}"), SimpleFileOptions::default().compression_method(method)).unwrap();
            zip.write_all(data).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    /// A pickle of {"t": a tensor of these numbers over storage "0"}.
    fn tensor_pickle(class: &str, count: u8, offset: u8, sizes: &[u8], strides: &[u8]) -> Vec<u8> {
        let list =
            |numbers: &[u8]| [b"(".to_vec(), numbers.iter().flat_map(|&n| [b'K', n]).collect(), b"t".to_vec()].concat();
        [
            &b"\x80\x02}X\x01\x00\x00\x00tctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n"[..],
            class.as_bytes(),
            b"\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK",
            &[count],
            b"tQK",
            &[offset],
            &list(sizes),
            &list(strides),
            b"\x89}tRs.",
        ]
        .concat()
    }

    fn numbers(tensor: &Tensor) -> Vec<f64> {
        tensor.to_vec().unwrap()
    }

    #[test]
    fn what_pytorch_wrote_is_read() {
        let Contents { tensors, values } = parse(FILE).unwrap();
        let weight = &tensors["model.weight"];
        assert_eq!((weight.sizes(), weight.strides(), weight.storage_offset()), (&[3, 2][..], &[1, 3][..], 2));
        assert_eq!(numbers(weight), [2.0, 5.0, 3.0, 6.0, 4.0, 7.0]);
        assert!(weight.shares_storage_with(&tensors["model.bias"]));
        assert_eq!(numbers(&tensors["model.tied"]), [8.0, 9.0]);
        assert_eq!((tensors["parameter"].sizes(), numbers(&tensors["parameter"])), (&[][..], vec![1.5]));
        assert_eq!(numbers(&tensors["conjugate"].view_as_real().unwrap()), [1.0, -2.0]);
        assert_eq!(numbers(&tensors["negative"]), [-2.0]);
        for dtype in DType::ALL {
            let tensor = &tensors[&format!("dtypes.{}", dtype.name())];
            assert_eq!(tensor.dtype(), dtype);
            let expected = if dtype == DType::Bool { [0.0, 1.0, 1.0] } else { [0.0, 1.0, 3.0] };
            let real =
                if dtype.is_complex() { tensor.view_as_real().unwrap().select(1, 0).unwrap() } else { tensor.clone() };
            assert_eq!(numbers(&real), expected, "{dtype}");
        }
        assert_eq!(tensors["empty"].sizes(), [0, 4]);
        assert_eq!(numbers(&tensors["list.0"]), [7.0]);
        let values: Vec<_> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = [
            "5=five",
            "arguments=<argparse.Namespace>",
            "device=cpu",
            "dtype=torch.float32",
            "epoch=3",
            "large=<int>",
            "list.2.0=2.5",
            "list.2.1=x",
            "on=true",
            "size.0=4",
            "size.1=5",
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn byte_order_is_undone() {
        let pickle = tensor_pickle("ShortStorage", 2, 0, &[2], &[1]);
        let file =
            |order: &[u8]| archive(&[("byteorder", order), ("data.pkl", &pickle), ("data/0", &[1, 0, 0, 2])], false);
        assert_eq!(numbers(&parse(&file(b"little")).unwrap().tensors["t"]), [1.0, 512.0]);
        assert_eq!(numbers(&parse(&file(b"big")).unwrap().tensors["t"]), [256.0, 2.0]);
        assert!(parse(&file(b"other")).is_err());
    }

    #[test]
    fn hostile_files_are_refused() {
        let with = |pickle: &[u8], data: &[u8]| parse(&archive(&[("data.pkl", pickle), ("data/0", data)], false));
        let good = tensor_pickle("FloatStorage", 2, 0, &[2], &[1]);
        assert!(with(&good, &[0; 8]).is_ok());
        // Data that are too short, too long or missing; compressed ones; a program.
        assert!(with(&good, &[0; 4]).is_err() && with(&good, &[0; 12]).is_err());
        assert!(parse(&archive(&[("data.pkl", &good)], false)).is_err());
        assert!(parse(&archive(&[("data.pkl", &good), ("data/0", &[0; 8])], true)).is_err());
        assert!(parse(&archive(&[("data.pkl", &good), ("data/0", &[0; 8]), ("constants.pkl", b"N.")], false)).is_err());
        // Tensors that reach past their storage, or are of no known class.
        for (class, count, offset, sizes, strides) in [
            ("FloatStorage", 2, 1, &[2u8][..], &[1u8][..]),
            ("FloatStorage", 2, 0, &[2], &[2]),
            ("FloatStorage", 2, 0, &[2], &[]),
            ("FloatStorage", 2, 0, &[255; 20], &[0; 20]),
            ("FloatStorage", 2, 0, &[1; 65], &[0; 65]),
            ("UntypedStorage", 8, 0, &[2], &[1]),
            ("QInt8Storage", 8, 0, &[2], &[1]),
        ] {
            assert!(with(&tensor_pickle(class, count, offset, sizes, strides), &[0; 8]).is_err(), "{class} {sizes:?}");
        }
        // What is no dictionary of tensors.
        for pickle in [&b"N."[..], b"cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", b"X\x01\x00\x00\x00x."] {
            assert!(with(pickle, &[]).is_err(), "{pickle:?}");
        }
        // A list in itself, and lists of lists that would be walked 2^60 times.
        assert!(with(b"]q\x00h\x00a.", &[]).is_err());
        let laughs = [b"]".to_vec(), b"q\x00](h\x00h\x00e".repeat(60), b".".to_vec()].concat();
        assert!(with(&laughs, &[]).is_err());
        assert!(parse(b"").is_err() && parse(b"PK\x03\x04").is_err() && parse(b"\x80\x02}.").is_err());
    }

    #[test]
    fn a_call_in_a_dictionary_is_only_named() {
        let pickle = b"}X\x01\x00\x00\x00acos\nsystem\nX\x02\x00\x00\x00ls\x85Rs.";
        let contents = parse(&archive(&[("data.pkl", pickle)], false)).unwrap();
        assert_eq!(contents.values["a"], "<os.system>");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn damaged_files_are_no_danger(
            flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let _ = parse(&FILE[..cut.index(FILE.len())]);
            let mut bytes = FILE.to_vec();
            flips.iter().for_each(|(at, value)| bytes[at.index(FILE.len())] = *value);
            let _ = parse(&bytes);
        }

        #[test]
        fn damaged_pickles_are_no_danger(flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..6)) {
            let mut pickle = tensor_pickle("FloatStorage", 2, 0, &[2], &[1]);
            let length = pickle.len();
            flips.iter().for_each(|(at, value)| pickle[at.index(length)] = *value);
            let _ = parse(&archive(&[("data.pkl", &pickle), ("data/0", &[0; 8])], false));
        }
    }
}
