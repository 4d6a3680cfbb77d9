//! NumPy's files: `.npy`, one array after a header that is a Python dictionary, and `.npz`, a zip archive of them.
//!
//! The format is described in NumPy's `numpy.lib.format`, versions 1 to 3. NumPy has no bfloat16: it is written as
//! two-byte void (`V2`), as the package `ml_dtypes` does, and read from it.

use super::{Array, ArrayRef, open, read_bytes, replace_file, size_in_bytes, swap_bytes};
use flambeau_base::{DType, Error, Result};
use std::collections::BTreeMap;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longer headers than any array of ours can have.
const MAX_HEADER: usize = 64 << 10;
/// A header is padded so that the elements begin at a multiple of this.
const ALIGN: usize = 64;

/// Reads the array in a `.npy` file.
///
/// # Errors
/// When the file cannot be read or does not hold an array of a known dtype.
pub fn load(path: impl AsRef<Path>) -> Result<Array> {
    let path = path.as_ref();
    let (file, length) = open(path)?;
    read(&mut BufReader::new(file), length).map_err(|e| e.context(path.display()))
}

/// Reads an array in the `.npy` format. `length` is how many bytes `reader` is known to have, or 0.
///
/// # Errors
/// When they are not an array of a known dtype.
pub fn read(reader: &mut dyn Read, length: u64) -> Result<Array> {
    let start: [u8; 8] = read_array(reader)?;
    if &start[..6] != MAGIC {
        return Err(Error::io("not a .npy file: it does not begin with \\x93NUMPY"));
    }
    let header_length = match start[6] {
        1 => u16::from_le_bytes(read_array(reader)?) as usize,
        2 | 3 => u32::from_le_bytes(read_array(reader)?) as usize,
        version => return Err(Error::io(format!("version {version} of the .npy format is unknown"))),
    };
    if header_length > MAX_HEADER {
        return Err(Error::io(format!("a .npy header of {header_length} bytes is too long")));
    }
    let header = Header::parse(&read_bytes(reader, header_length, length)?)?;
    let nbytes = size_in_bytes(header.dtype, &header.sizes)
        .ok_or_else(|| Error::io(format!("the sizes {:?} in a .npy header are impossible", header.sizes)))?;
    let mut data = read_bytes(reader, nbytes, length)?;
    if header.big_endian != cfg!(target_endian = "big") {
        swap_bytes(header.dtype, &mut data);
    }
    Ok(Array { dtype: header.dtype, sizes: header.sizes, fortran_order: header.fortran_order, data })
}

fn read_array<const N: usize>(reader: &mut dyn Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Writes an array in the `.npy` format (version 1).
///
/// # Errors
/// When the number of bytes does not fit the sizes, or `writer` fails.
pub fn write(writer: &mut dyn Write, array: ArrayRef<'_>) -> Result<()> {
    array.check()?;
    let order = match (array.dtype.size(), cfg!(target_endian = "big")) {
        (1, _) => '|',
        (_, false) => '<',
        (_, true) => '>',
    };
    let sizes: String = match array.sizes {
        [one] => format!("{one},"),
        sizes => sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
    };
    let fortran = if array.fortran_order { "True" } else { "False" };
    let code = code_of(array.dtype);
    let mut header = format!("{{'descr': '{order}{code}', 'fortran_order': {fortran}, 'shape': ({sizes}), }}");
    // The longest header, of 64 dims of 20 characters, fits version 1's 16-bit length.
    let before = MAGIC.len() + 4;
    let total = (before + header.len() + 1).next_multiple_of(ALIGN);
    header.extend(std::iter::repeat_n(' ', total - before - header.len() - 1));
    header.push('\n');
    writer.write_all(MAGIC)?;
    writer.write_all(&[1, 0])?;
    writer.write_all(&(header.len() as u16).to_le_bytes())?;
    writer.write_all(header.as_bytes())?;
    writer.write_all(array.data)?;
    Ok(())
}

/// Writes an array to a `.npy` file, which is then whole or as it was before.
///
/// # Errors
/// As [`write()`], and when the file system fails.
pub fn save(path: impl AsRef<Path>, array: ArrayRef<'_>) -> Result<()> {
    replace_file(path.as_ref(), |file| write(file, array))
}

/// Reads every array of a `.npz` file, by name (without `.npy`).
///
/// # Errors
/// When the file cannot be read, or is not an archive of such arrays.
pub fn load_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, Array>> {
    let path = path.as_ref();
    let (file, _) = open(path)?;
    read_npz(BufReader::new(file)).map_err(|e| e.context(path.display()))
}

/// Reads every array of an archive in memory, as [`load_npz`] does.
///
/// # Errors
/// As [`load_npz`].
pub fn parse_npz(bytes: &[u8]) -> Result<BTreeMap<String, Array>> {
    read_npz(Cursor::new(bytes))
}

fn zip_error(e: zip::result::ZipError) -> Error {
    Error::io(format!("not a readable .npz file: {e}"))
}

fn read_npz(mut reader: impl Read + Seek) -> Result<BTreeMap<String, Array>> {
    let length = reader.seek(SeekFrom::End(0))?;
    reader.rewind()?;
    let mut archive = ZipArchive::new(reader).map_err(zip_error)?;
    // Entries that share their bytes are how small archives unpack to huge ones.
    let mut left = length;
    let mut arrays = BTreeMap::new();
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(zip_error)?;
        let name = entry.name().map_err(zip_error)?.into_owned();
        left = left.checked_sub(entry.compressed_size()).ok_or_else(|| Error::io("entries of a .npz file overlap"))?;
        // A stored entry has its bytes in the file; of a compressed one only the claim is known.
        let stored = entry.compression() == CompressionMethod::Stored;
        let there = if stored { entry.size().min(length) } else { 0 };
        let claimed = entry.size();
        let mut bounded = (&mut entry).take(claimed);
        let array = read(&mut bounded, there).map_err(|e| e.context(&name))?;
        // The archive's checksum is compared at the end of the entry, so go there.
        let mut rest = [0];
        if bounded.read(&mut rest)? != 0 || entry.read(&mut rest)? != 0 {
            return Err(Error::io(format!("{name}: more bytes than its array has")));
        }
        arrays.insert(name.strip_suffix(".npy").unwrap_or(&name).to_owned(), array);
    }
    Ok(arrays)
}

/// Writes an archive of named arrays to a `.npz` file, deflated if `compressed`; the file is then whole or as it was
/// before.
///
/// # Errors
/// As [`write()`], when a name comes twice, and when the file system fails.
pub fn save_npz<'a>(
    path: impl AsRef<Path>,
    arrays: impl IntoIterator<Item = (&'a str, ArrayRef<'a>)>,
    compressed: bool,
) -> Result<()> {
    replace_file(path.as_ref(), |file| write_npz(file, arrays, compressed))
}

/// Writes an archive as [`save_npz`] does.
///
/// # Errors
/// As [`save_npz`].
pub fn write_npz<'a>(
    writer: impl Write + Seek,
    arrays: impl IntoIterator<Item = (&'a str, ArrayRef<'a>)>,
    compressed: bool,
) -> Result<()> {
    let mut archive = ZipWriter::new(writer);
    let method = if compressed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
    for (name, array) in arrays {
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .with_alignment(ALIGN as u16)
            // Sizes of 4 GiB and more take longer fields; the margin covers the header and incompressible data.
            .large_file(array.data.len() > (u32::MAX - (1 << 24)) as usize);
        archive.start_file(format!("{name}.npy"), options).map_err(|e| Error::io(e.to_string()))?;
        write(&mut archive, array)?;
    }
    archive.finish().map_err(|e| Error::io(e.to_string()))?.flush()?;
    Ok(())
}

/// NumPy's code of a dtype, without the byte order.
fn code_of(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "b1",
        DType::U8 => "u1",
        DType::U16 => "u2",
        DType::U32 => "u4",
        DType::U64 => "u8",
        DType::I8 => "i1",
        DType::I16 => "i2",
        DType::I32 => "i4",
        DType::I64 => "i8",
        DType::F16 => "f2",
        DType::BF16 => "V2",
        DType::F32 => "f4",
        DType::F64 => "f8",
        DType::Complex64 => "c8",
        DType::Complex128 => "c16",
    }
}

#[derive(Debug)]
struct Header {
    dtype: DType,
    big_endian: bool,
    fortran_order: bool,
    sizes: Vec<i64>,
}

impl Header {
    /// Parses the Python dictionary: strings, booleans and tuples of integers are all it may hold.
    fn parse(bytes: &[u8]) -> Result<Header> {
        let wrong = || Error::io("a .npy header that is not understood");
        let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
        let mut rest = Rest(text.trim());
        let (mut descr, mut fortran_order, mut sizes) = (None, None, None);
        rest.eat("{").ok_or_else(wrong)?;
        while rest.eat("}").is_none() {
            let key = rest.string().ok_or_else(wrong)?;
            rest.eat(":").ok_or_else(wrong)?;
            match key {
                "descr" => {
                    descr = Some(rest.string().ok_or_else(|| {
                        Error::io("a .npy file of structured or unknown elements, which no tensor can hold")
                    })?)
                }
                "fortran_order" => fortran_order = Some(rest.boolean().ok_or_else(wrong)?),
                "shape" => sizes = Some(rest.tuple().ok_or_else(wrong)?),
                _ => return Err(wrong()),
            }
            if rest.eat(",").is_none() {
                rest.eat("}").ok_or_else(wrong)?;
                break;
            }
        }
        let (Some(descr), Some(fortran_order), Some(sizes)) = (descr, fortran_order, sizes) else {
            return Err(wrong());
        };
        if !rest.0.trim().is_empty() {
            return Err(wrong());
        }
        let code = descr.trim_start_matches(['<', '>', '=', '|']);
        let dtype = match code {
            "?" => Some(DType::Bool),
            _ => DType::ALL.into_iter().find(|&d| code_of(d) == code),
        };
        let dtype = dtype.filter(|_| descr.len() - code.len() <= 1);
        let dtype =
            dtype.ok_or_else(|| Error::io(format!("a .npy file of elements '{descr}', which no tensor can hold")))?;
        let big_endian = match descr.as_bytes()[0] {
            b'>' => true,
            b'<' => false,
            _ => cfg!(target_endian = "big"),
        };
        Ok(Header { dtype, big_endian, fortran_order, sizes })
    }
}

/// What is left of a header.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn eat(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (string, rest) = text[1..].split_once(quote)?;
        self.0 = rest;
        (!string.contains('\\')).then_some(string)
    }

    fn boolean(&mut self) -> Option<bool> {
        self.eat("True").map(|()| true).or_else(|| self.eat("False").map(|()| false))
    }

    fn tuple(&mut self) -> Option<Vec<i64>> {
        let mut numbers = Vec::new();
        self.eat("(")?;
        while self.eat(")").is_none() {
            let text = self.0.trim_start();
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            numbers.push(text[..end].parse().ok()?);
            // Python 2 wrote long integers with an L.
            self.0 = text[end..].strip_prefix('L').unwrap_or(&text[end..]);
            if self.eat(",").is_none() {
                self.eat(")")?;
                break;
            }
        }
        Some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Result<Array> {
        read(&mut &bytes[..], bytes.len() as u64)
    }

    fn bytes_of(array: &Array) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, array.as_ref()).unwrap();
        out
    }

    fn npz_of(arrays: &BTreeMap<String, Array>, compressed: bool) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        write_npz(&mut out, arrays.iter().map(|(n, a)| (n.as_str(), a.as_ref())), compressed).unwrap();
        out.into_inner()
    }

    fn with_header(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut out = b"\x93NUMPY".to_vec();
        out.extend([version, 0]);
        match version {
            1 => out.extend((header.len() as u16).to_le_bytes()),
            _ => out.extend((header.len() as u32).to_le_bytes()),
        }
        out.extend(header.as_bytes());
        out.extend(data);
        out
    }

    fn any_array() -> impl Strategy<Value = Array> {
        (0..15usize, prop::collection::vec(0i64..5, 0..4), any::<bool>()).prop_flat_map(|(d, sizes, fortran_order)| {
            let dtype = DType::ALL[d];
            let n = size_in_bytes(dtype, &sizes).unwrap();
            prop::collection::vec(any::<u8>(), n).prop_map(move |data| Array {
                dtype,
                sizes: sizes.clone(),
                fortran_order,
                data,
            })
        })
    }

    #[test]
    fn reads_what_numpy_writes() {
        // np.save of np.array([[1, -2]], dtype='>i2', order='F') by NumPy 2, and the other versions by hand.
        let header = "{'descr': '>i2', 'fortran_order': False, 'shape': (1, 2), }";
        for version in [1, 2, 3] {
            let array = parse(&with_header(version, header, &[0, 1, 0xFF, 0xFE])).unwrap();
            let expected: Vec<u8> = [1i16, -2].iter().flat_map(|v| v.to_ne_bytes()).collect();
            assert_eq!((array.dtype, array.sizes, array.data), (DType::I16, vec![1, 2], expected));
        }
        let odd = "{\"shape\":(),'fortran_order' : True,'descr':'|b1'}\n";
        let array = parse(&with_header(1, odd, &[1])).unwrap();
        assert_eq!((array.dtype, array.sizes.len(), array.fortran_order), (DType::Bool, 0, true));
        let complex = "{'descr': '>c8', 'fortran_order': False, 'shape': (1L,), }";
        let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|v| v.to_be_bytes()).collect();
        let native: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(parse(&with_header(1, complex, &bytes)).unwrap().data, native);
    }

    #[test]
    fn refuses_lies_without_allocating() {
        let shapes = [
            "(9223372036854775807,)",
            "(4611686018427387904, 4)",
            "(-1,)",
            "(1000000000000,)",
            "(0, 4611686018427387904)",
        ];
        for shape in shapes {
            let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
            assert!(parse(&with_header(1, &header, &[0; 16])).is_err(), "{shape}");
            // Nor when the length is not known.
            assert!(read(&mut &with_header(1, &header, &[0; 16])[..], 0).is_err(), "{shape}");
        }
        for descr in ["'|O'", "'<U4'", "[('a', '<f4')]", "'<f3'", "''", "'<>f4'", "'V4'"] {
            let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
            assert!(parse(&with_header(1, &header, &[0; 16])).is_err(), "{descr}");
        }
        let mut long = b"\x93NUMPY\x02\x00".to_vec();
        long.extend(u32::MAX.to_le_bytes());
        assert!(parse(&long).is_err());
    }

    #[test]
    fn refuses_an_archive_that_lies_about_a_size() {
        let zeros = Array { dtype: DType::U8, sizes: vec![1 << 20], fortran_order: false, data: vec![0; 1 << 20] };
        let mut bytes = npz_of(&BTreeMap::from([("z".to_owned(), zeros)]), true);
        assert!(bytes.len() < 4096);
        let real = ((1u32 << 20) + 128).to_le_bytes();
        let positions: Vec<usize> = (0..bytes.len() - 4).filter(|&i| bytes[i..i + 4] == real).collect();
        assert_eq!(positions.len(), 2, "in the entry and in the directory");
        for lie in [100u32, u32::MAX - 1] {
            for &at in &positions {
                bytes[at..at + 4].copy_from_slice(&lie.to_le_bytes());
            }
            // A claim that is too small cuts the entry off; one that is too large is not believed.
            let outcome = parse_npz(&bytes);
            assert!(outcome.is_err() || lie > 1 << 20);
        }
    }

    /// Bytes to overwrite, and a length to cut to.
    fn damage() -> impl Strategy<Value = (Vec<(prop::sample::Index, u8)>, prop::sample::Index)> {
        (prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..6), any::<prop::sample::Index>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn arrays_come_back(array in any_array()) {
            let bytes = bytes_of(&array);
            prop_assert_eq!((bytes.len() - array.data.len()) % 64, 0);
            prop_assert_eq!(parse(&bytes).unwrap(), array);
        }

        #[test]
        fn archives_come_back(arrays in prop::collection::btree_map("[a-z/.é]{1,8}", any_array(), 0..4), deflate: bool) {
            let arrays: BTreeMap<String, Array> = arrays.into_iter().filter(|(n, _)| !n.ends_with(".npy")).collect();
            prop_assert_eq!(parse_npz(&npz_of(&arrays, deflate)).unwrap(), arrays);
        }

        #[test]
        fn damaged_files_are_no_danger(array in any_array(), (flips, cut) in damage()) {
            let whole = bytes_of(&array);
            prop_assert!(array.data.is_empty() || parse(&whole[..cut.index(whole.len())]).is_err());
            let mut bytes = whole.clone();
            flips.iter().for_each(|(at, value)| bytes[at.index(whole.len())] = *value);
            let _ = parse(&bytes);
        }

        #[test]
        fn damaged_archives_are_no_danger(array in any_array(), deflate: bool, (flips, cut) in damage()) {
            let arrays = BTreeMap::from([("a".to_owned(), array.clone()), ("b".to_owned(), array)]);
            let whole = npz_of(&arrays, deflate);
            prop_assert!(parse_npz(&whole[..cut.index(whole.len())]).is_err());
            let mut bytes = whole.clone();
            flips.iter().for_each(|(at, value)| bytes[at.index(whole.len())] = *value);
            let _ = parse_npz(&bytes);
        }

        #[test]
        fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..300), header in "\\PC{0,80}") {
            prop_assert!(parse(&noise).is_err() && parse_npz(&noise).is_err());
            let _ = parse(&with_header(1, &header, &noise));
        }
    }
}
