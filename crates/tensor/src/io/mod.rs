//! Arrays in files: NumPy's `.npy` and `.npz`, safetensors, and what PyTorch saves.
//!
//! What is read here is a plain [`Array`], bytes with a dtype and sizes, in the host's byte order. Files may come from
//! anybody: whatever they claim, reading gives an error or an array, and never takes more memory than the bytes that
//! are there (or that they decompress to). Files are written whole or not at all: see [`atomic_write`].

pub mod npy;
mod pickle;
pub mod pytorch;
pub mod safetensors;

use flambeau_base::{DType, Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An array read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub sizes: Vec<i64>,
    /// Whether the first dimension is densest in `data`, not the last.
    pub fortran_order: bool,
    /// The elements, in the host's byte order.
    pub data: Vec<u8>,
}

/// An array to be written.
#[derive(Clone, Copy, Debug)]
pub struct ArrayRef<'a> {
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub sizes: &'a [i64],
    /// Whether the first dimension is densest in `data`, not the last.
    pub fortran_order: bool,
    /// The elements, in the host's byte order.
    pub data: &'a [u8],
}

impl Array {
    /// A view of it.
    pub fn as_ref(&self) -> ArrayRef<'_> {
        ArrayRef { dtype: self.dtype, sizes: &self.sizes, fortran_order: self.fortran_order, data: &self.data }
    }

    /// The same array with its last dimension densest.
    #[must_use]
    pub fn into_row_major(self) -> Array {
        if !self.fortran_order {
            return self;
        }
        let mut data = Vec::with_capacity(self.data.len());
        let mut index = vec![0usize; self.sizes.len()];
        let strides: Vec<usize> = (self.sizes.iter())
            .scan(self.dtype.size(), |next, &size| Some(std::mem::replace(next, *next * size as usize)))
            .collect();
        let mut offset = 0;
        while data.len() < self.data.len() {
            data.extend_from_slice(&self.data[offset..offset + self.dtype.size()]);
            for dim in (0..index.len()).rev() {
                index[dim] += 1;
                offset += strides[dim];
                if index[dim] < self.sizes[dim] as usize {
                    break;
                }
                offset -= index[dim] * strides[dim];
                index[dim] = 0;
            }
        }
        Array { fortran_order: false, data, ..self }
    }
}

impl ArrayRef<'_> {
    fn check(&self) -> Result<()> {
        match size_in_bytes(self.dtype, self.sizes) {
            Some(n) if n == self.data.len() => Ok(()),
            _ => Err(Error::value(format!(
                "an array of {} with sizes {:?} cannot have {} bytes",
                self.dtype,
                self.sizes,
                self.data.len()
            ))),
        }
    }
}

/// As many dimensions as NumPy and PyTorch allow.
const MAX_DIMS: usize = 64;

/// The bytes of an array; `None` when a size is negative or the sizes, zeros apart, overflow.
fn size_in_bytes(dtype: DType, sizes: &[i64]) -> Option<usize> {
    let mut bytes = dtype.size() as i64;
    for &size in sizes {
        if size < 0 {
            return None;
        }
        bytes = bytes.checked_mul(size.max(1))?;
    }
    if sizes.len() > MAX_DIMS {
        return None;
    }
    if sizes.contains(&0) { Some(0) } else { usize::try_from(bytes).ok() }
}

/// Reverses the bytes of each number, where file and host differ. A complex number is two.
fn swap_bytes(dtype: DType, data: &mut [u8]) {
    let unit = dtype.to_real().size();
    if unit > 1 {
        data.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    }
}

/// Exactly `length` bytes of `reader`, of which `there` are known to exist: beyond that memory grows only with what
/// really arrives.
fn read_bytes(reader: &mut dyn Read, length: usize, there: u64) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    let ahead = u64::min(length as u64, there.max(64 << 10)) as usize;
    data.try_reserve_exact(ahead).map_err(|_| flambeau_base::allocator::out_of_memory(ahead))?;
    let got = reader.take(length as u64).read_to_end(&mut data)?;
    if got != length {
        return Err(Error::io(format!("unexpected end of file: {length} bytes wanted, {got} there")));
    }
    Ok(data)
}

/// Opens a file for reading, and tells its length.
fn open(path: &Path) -> Result<(File, u64)> {
    let named = |e: std::io::Error| Error::io(format!("{}: {e}", path.display()));
    let file = File::open(path).map_err(named)?;
    let length = file.metadata().map_err(named)?.len();
    Ok((file, length))
}

/// Writes a file so that `path` holds either what it held before or all that `write` wrote, whatever goes wrong
/// meanwhile: into a new file in the same directory, which is flushed to the disk and then renamed.
///
/// # Errors
/// When `write` fails or the file system does.
pub fn atomic_write(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    replace_file(path, |file| write(file))
}

fn replace_file(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let named = |e: std::io::Error| Error::io(format!("{}: {e}", path.display()));
    let finish = |file: File| -> Result<File> {
        let mut buffer = BufWriter::with_capacity(1 << 20, file);
        write(&mut buffer)?;
        buffer.into_inner().map_err(|e| named(e.into_error()))
    };
    // What a link names is replaced, not the link; a device or a pipe cannot be.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = fs::metadata(&target).ok();
    if old.as_ref().is_some_and(|m| !m.is_file()) {
        return finish(OpenOptions::new().write(true).open(&target).map_err(named)?).map(drop);
    }
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().ok_or_else(|| Error::io(format!("{}: not a file name", path.display())))?;
    let mut temporary_name = std::ffi::OsString::from(".");
    // Names may be 255 bytes long, and ours is longer.
    temporary_name.push(name.to_string_lossy().chars().take(32).collect::<String>());
    temporary_name.push(format!(".{}.{}.tmp", std::process::id(), COUNTER.fetch_add(1, Relaxed)));
    let temporary = Temporary(target.with_file_name(temporary_name));
    let file = OpenOptions::new().write(true).read(true).create_new(true).open(&temporary.0).map_err(named)?;
    let file = finish(file)?;
    if let Some(old) = old {
        file.set_permissions(old.permissions()).map_err(named)?;
    }
    file.sync_all().map_err(named)?;
    drop(file);
    fs::rename(&temporary.0, &target).map_err(named)?;
    std::mem::forget(temporary);
    // The rename itself: not every file system can, and the file is whole either way.
    #[cfg(unix)]
    if let Some(directory) = target.parent() {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let _ = File::open(directory).and_then(|d| d.sync_all());
    }
    Ok(())
}

/// A file that is removed unless it has become the real one.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_changes_nothing() {
        let directory = std::env::temp_dir().join(format!("flambeau-io-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("x");
        atomic_write(&path, |w| Ok(w.write_all(b"one")?)).unwrap();
        let failed = atomic_write(&path, |w| {
            w.write_all(b"two")?;
            Err(Error::io("no"))
        });
        assert!(failed.is_err());
        let panicked = std::panic::catch_unwind(|| atomic_write(&path, |_| panic!("no")));
        assert!(panicked.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        atomic_write(&path, |w| Ok(w.write_all(b"three")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert!(atomic_write(&directory.join("no/such"), |_| Ok(())).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn fortran_order_is_undone() {
        let array = Array { dtype: DType::U8, sizes: vec![2, 3], fortran_order: true, data: vec![1, 4, 2, 5, 3, 6] };
        assert_eq!(array.into_row_major().data, [1, 2, 3, 4, 5, 6]);
        let none = Array { dtype: DType::F32, sizes: vec![2, 0], fortran_order: true, data: vec![] };
        assert!(none.into_row_major().data.is_empty());
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert_eq!(size_in_bytes(DType::F32, &[2, 3]), Some(24));
        assert_eq!(size_in_bytes(DType::F32, &[]), Some(4));
        assert_eq!(size_in_bytes(DType::F32, &[0, 5]), Some(0));
        assert_eq!(size_in_bytes(DType::F32, &[-1]), None);
        assert_eq!(size_in_bytes(DType::F32, &[0, 1 << 62]), None);
        assert_eq!(size_in_bytes(DType::U8, &[1; 65]), None);
    }
}
