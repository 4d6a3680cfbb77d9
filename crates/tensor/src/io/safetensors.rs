//! The safetensors format: a JSON header (name to dtype, sizes and place), then the elements, little endian.
//!
//! The header is parsed by the crate `safetensors` and checked here, since its own check adds file offsets without
//! looking for overflow. Files are written here: with the header in a fixed order, so that the same tensors give the
//! same file, and without a second copy of the elements.

use super::{Array, ArrayRef, atomic_write, open, read_bytes, size_in_bytes, swap_bytes};
use flambeau_base::{DType, Error, Result};
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::path::Path;

/// The longest header that the format allows.
const MAX_HEADER: u64 = 100_000_000;
/// The header's key for text that is no tensor.
const METADATA: &str = "__metadata__";

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// The arrays by name, all row-major.
    pub arrays: BTreeMap<String, Array>,
    /// The text that goes with them.
    pub metadata: BTreeMap<String, String>,
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, or is not a valid file of dtypes that tensors can have.
pub fn load(path: impl AsRef<Path>) -> Result<Contents> {
    let path = path.as_ref();
    let (file, length) = open(path)?;
    read(&mut BufReader::with_capacity(1 << 20, file), length).map_err(|e| e.context(path.display()))
}

/// Reads a file that is in memory.
///
/// # Errors
/// As [`load`].
pub fn parse(bytes: &[u8]) -> Result<Contents> {
    read(&mut &bytes[..], bytes.len() as u64)
}

fn read(reader: &mut dyn Read, length: u64) -> Result<Contents> {
    let invalid = |what: String| Error::io(format!("not a valid safetensors file: {what}"));
    let mut word = [0; 8];
    reader.read_exact(&mut word).map_err(|_| invalid("too short for a header".to_owned()))?;
    let header_length = u64::from_le_bytes(word);
    let body = match length.checked_sub(8).and_then(|n| n.checked_sub(header_length)) {
        Some(body) if header_length <= MAX_HEADER => body,
        _ => return Err(invalid(format!("its header cannot have {header_length} bytes"))),
    };
    let header = read_bytes(reader, header_length as usize, length)?;
    let header: Metadata = serde_json::from_slice(&header).map_err(|e| invalid(e.to_string()))?;
    let mut infos: Vec<_> = header.tensors().into_iter().collect();
    // An empty tensor stands where the next one begins.
    infos.sort_by_key(|(_, info)| info.data_offsets);
    let mut contents = Contents::default();
    let mut end = 0;
    let mut plan = Vec::with_capacity(infos.len());
    for (name, info) in infos {
        let dtype = from_file(info.dtype)
            .ok_or_else(|| Error::io(format!("'{name}' has the dtype {:?}, which no tensor can have", info.dtype)))?;
        let sizes: Option<Vec<i64>> = info.shape.iter().map(|&s| i64::try_from(s).ok()).collect();
        let nbytes = sizes.as_ref().and_then(|sizes| size_in_bytes(dtype, sizes));
        let (Some(sizes), Some(nbytes)) = (sizes, nbytes) else {
            return Err(invalid(format!("'{name}' has the impossible sizes {:?}", info.shape)));
        };
        // Without gaps or overlaps, as the format demands.
        if info.data_offsets.0 != end || info.data_offsets.1.checked_sub(end) != Some(nbytes) {
            return Err(invalid(format!("'{name}' does not fill its place")));
        }
        end = info.data_offsets.1;
        plan.push((name, dtype, sizes, nbytes));
    }
    if end as u64 != body {
        return Err(invalid(format!("it has {body} bytes of elements, its header says {end}")));
    }
    for (name, dtype, sizes, nbytes) in plan {
        let mut data = read_bytes(reader, nbytes, body)?;
        if cfg!(target_endian = "big") {
            swap_bytes(dtype, &mut data);
        }
        contents.arrays.insert(name, Array { dtype, sizes, fortran_order: false, data });
    }
    contents.metadata.extend(header.metadata().clone().unwrap_or_default());
    Ok(contents)
}

/// Writes a file, which is then whole or as it was before.
///
/// # Errors
/// When an array is not row-major, has a dtype that the format lacks (complex128), too many dimensions or a wrong
/// number of bytes; when a name comes twice or is `__metadata__`; and when the file system fails.
pub fn save<'a>(
    path: impl AsRef<Path>,
    arrays: impl IntoIterator<Item = (&'a str, ArrayRef<'a>)>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let prepared = prepare(arrays, metadata)?;
    atomic_write(path.as_ref(), |file| write_prepared(file, &prepared))
}

/// Writes what [`save`] writes.
///
/// # Errors
/// As [`save`].
pub fn write<'a>(
    writer: &mut dyn Write,
    arrays: impl IntoIterator<Item = (&'a str, ArrayRef<'a>)>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    write_prepared(writer, &prepare(arrays, metadata)?)
}

struct Prepared<'a> {
    header: String,
    arrays: Vec<ArrayRef<'a>>,
}

fn prepare<'a>(
    arrays: impl IntoIterator<Item = (&'a str, ArrayRef<'a>)>,
    metadata: &BTreeMap<String, String>,
) -> Result<Prepared<'a>> {
    let mut named: Vec<_> = arrays.into_iter().collect();
    // Wide elements first, so that all are aligned; then by name.
    named.sort_by(|(a, x), (b, y)| y.dtype.to_real().size().cmp(&x.dtype.to_real().size()).then(a.cmp(b)));
    let mut header = serde_json::Map::new();
    if !metadata.is_empty() {
        header.insert(METADATA.to_owned(), json!(metadata));
    }
    let mut end = 0;
    for (name, array) in &named {
        array.check().map_err(|e| e.context(name))?;
        let dtype = to_file(array.dtype)
            .ok_or_else(|| Error::value(format!("'{name}' is {}, which the safetensors format lacks", array.dtype)))?;
        if array.fortran_order && array.sizes.iter().filter(|&&s| s != 1).count() > 1 {
            return Err(Error::value(format!("'{name}' is not row-major")));
        }
        let entry = json!({
            "dtype": dtype.to_string(), "shape": array.sizes, "data_offsets": [end, end + array.data.len()],
        });
        if *name == METADATA || header.insert((*name).to_owned(), entry).is_some() {
            return Err(Error::value(format!("the name '{name}' is taken")));
        }
        end += array.data.len();
    }
    let mut header = Value::Object(header).to_string();
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    if header.len() as u64 > MAX_HEADER {
        return Err(Error::value(format!("a safetensors header of {} bytes is too long", header.len())));
    }
    Ok(Prepared { header, arrays: named.into_iter().map(|(_, array)| array).collect() })
}

fn write_prepared(writer: &mut dyn Write, prepared: &Prepared<'_>) -> Result<()> {
    writer.write_all(&(prepared.header.len() as u64).to_le_bytes())?;
    writer.write_all(prepared.header.as_bytes())?;
    for array in &prepared.arrays {
        if cfg!(target_endian = "big") {
            let mut data = array.data.to_vec();
            swap_bytes(array.dtype, &mut data);
            writer.write_all(&data)?;
        } else {
            writer.write_all(array.data)?;
        }
    }
    Ok(())
}

const DTYPES: [(DType, Dtype); 14] = [
    (DType::Bool, Dtype::BOOL),
    (DType::U8, Dtype::U8),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::Complex64, Dtype::C64),
];

fn from_file(dtype: Dtype) -> Option<DType> {
    DTYPES.into_iter().find(|&(_, theirs)| theirs == dtype).map(|(ours, _)| ours)
}

fn to_file(dtype: DType) -> Option<Dtype> {
    DTYPES.into_iter().find(|&(ours, _)| ours == dtype).map(|(_, theirs)| theirs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(contents: &Contents) -> Vec<u8> {
        let mut out = Vec::new();
        let arrays = contents.arrays.iter().map(|(n, a)| (n.as_str(), a.as_ref()));
        write(&mut out, arrays, &contents.metadata).unwrap();
        out
    }

    fn with_header(header: &str, body: usize) -> Vec<u8> {
        let mut out = (header.len() as u64).to_le_bytes().to_vec();
        out.extend(header.as_bytes());
        out.resize(out.len() + body, 7);
        out
    }

    fn any_array() -> impl Strategy<Value = Array> {
        (0..14usize, prop::collection::vec(0i64..5, 0..4)).prop_flat_map(|(d, sizes)| {
            let dtype = DTYPES[d].0;
            let n = size_in_bytes(dtype, &sizes).unwrap();
            let data = prop::collection::vec(any::<u8>(), n);
            data.prop_map(move |data| Array { dtype, sizes: sizes.clone(), fortran_order: false, data })
        })
    }

    fn any_contents() -> impl Strategy<Value = Contents> {
        let arrays = prop::collection::btree_map("\\PC{0,6}", any_array(), 0..4);
        let metadata = prop::collection::btree_map("\\PC{0,6}", "\\PC{0,6}", 0..3);
        (arrays, metadata).prop_map(|(arrays, metadata)| Contents { arrays, metadata })
    }

    #[test]
    fn refuses_bad_headers() {
        let entry = |sizes: &str, offsets: &str| {
            format!("{{\"a\":{{\"dtype\":\"U8\",\"shape\":{sizes},\"data_offsets\":{offsets}}}}}")
        };
        assert!(parse(&with_header(&entry("[4]", "[0,4]"), 4)).is_ok());
        for (sizes, offsets, body) in [
            ("[4]", "[0,4]", 5),
            ("[4]", "[0,4]", 3),
            ("[4]", "[1,5]", 5),
            ("[5]", "[0,4]", 4),
            ("[4]", "[4,0]", 4),
            ("[18446744073709551615]", "[0,18446744073709551615]", 4),
            ("[9223372036854775807]", "[0,9223372036854775807]", 4),
            ("[4294967296,4294967296,4294967296]", "[0,0]", 0),
            ("[-4]", "[0,4]", 4),
            ("[4,-1]", "[0,4]", 4),
        ] {
            assert!(parse(&with_header(&entry(sizes, offsets), body)).is_err(), "{sizes} {offsets} {body}");
        }
        // An end so large that adding the header's length wraps to the true length.
        let header = entry("[18446744073709551000]", "[0,18446744073709551000]");
        assert!(parse(&with_header(&header, 16)).is_err());
        for length in [5u64, 1 << 40, u64::MAX] {
            assert!(parse(&length.to_le_bytes()).is_err());
        }
        let deep = "[".repeat(100_000);
        assert!(parse(&with_header(&deep, 0)).is_err());
    }

    #[test]
    fn refuses_what_the_format_cannot_hold() {
        let data = [0; 32];
        let array = |dtype, sizes, fortran_order| ArrayRef { dtype, sizes, fortran_order, data: &data };
        let mut out = Vec::new();
        let mut fails = |arrays: Vec<(&'static str, ArrayRef<'_>)>| write(&mut out, arrays, &BTreeMap::new()).is_err();
        let good = array(DType::F32, &[2, 4], false);
        assert!(!fails(vec![("a", good)]));
        assert!(fails(vec![("a", good), ("a", good)]));
        assert!(fails(vec![(METADATA, good)]));
        assert!(fails(vec![("a", array(DType::Complex128, &[2], false))]));
        assert!(fails(vec![("a", array(DType::F32, &[2, 4], true))]));
        assert!(fails(vec![("a", array(DType::F32, &[3], false))]));
    }

    /// Bytes to overwrite, and a length to cut to.
    fn damage() -> impl Strategy<Value = (Vec<(prop::sample::Index, u8)>, prop::sample::Index)> {
        (prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..6), any::<prop::sample::Index>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn contents_come_back(contents in any_contents()) {
            let bytes = bytes_of(&contents);
            prop_assert!(safetensors::SafeTensors::deserialize(&bytes).is_ok());
            prop_assert_eq!(parse(&bytes).unwrap(), contents);
        }

        #[test]
        fn damaged_files_are_no_danger(contents in any_contents(), (flips, cut) in damage()) {
            let whole = bytes_of(&contents);
            prop_assert!(parse(&whole[..cut.index(whole.len())]).is_err());
            let mut bytes = whole.clone();
            flips.iter().for_each(|(at, value)| bytes[at.index(whole.len())] = *value);
            let _ = parse(&bytes);
        }

        #[test]
        fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..300), header in "\\PC{0,80}") {
            let _ = (parse(&noise), parse(&with_header(&header, noise.len())));
        }
    }
}
