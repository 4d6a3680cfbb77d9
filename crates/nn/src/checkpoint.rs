//! Checkpoints: a state dict and some text in a file. They are written as safetensors, whole or not at all; PyTorch's
//! files are read too.

use crate::state::StateDict;
use flambeau::io::ArrayRef;
use flambeau::io::{pytorch, safetensors};
use flambeau::{DType, Error, Result, Tensor};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What a checkpoint holds.
#[derive(Clone, Default, Debug)]
pub struct Checkpoint {
    /// The tensors. States of several things stand in sections: `state.insert_section("model", &net.state_dict()?)`.
    pub state: StateDict,
    /// Text that goes with them: the epoch, how the model is built.
    pub metadata: BTreeMap<String, String>,
}

impl Checkpoint {
    /// An empty one.
    #[must_use]
    pub fn new() -> Checkpoint {
        Checkpoint::default()
    }

    /// Writes it to a file, which then holds all of it or what it held before.
    ///
    /// # Errors
    /// When a tensor has no data or a dtype that the format lacks (complex128), or the file system fails.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let data: Vec<(&str, DType, &[i64], Vec<u8>)> = (self.state.iter())
            .map(|(name, t)| Ok((name.as_str(), t.dtype(), t.sizes(), t.to_bytes().map_err(|e| e.context(name))?)))
            .collect::<Result<_>>()?;
        let arrays = data.iter().map(|(name, dtype, sizes, data)| {
            (*name, ArrayRef { dtype: *dtype, sizes, fortran_order: false, data: data.as_slice() })
        });
        safetensors::save(path, arrays, &self.metadata)
    }

    /// Reads a file: safetensors, or what PyTorch saves (`.pt`, `.pth`, `.bin`), by what it begins with. Of the latter,
    /// tensors are the state, with dots between the keys of dictionaries in dictionaries, and numbers and texts the
    /// metadata; nothing in it is run.
    ///
    /// # Errors
    /// When it cannot be read or is not a whole and valid file.
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let path = path.as_ref();
        if begins_with_archive(path)? {
            let pytorch::Contents { tensors, values } = pytorch::load(path)?;
            return Ok(Checkpoint { state: tensors.into_iter().collect(), metadata: values });
        }
        let contents = safetensors::load(path)?;
        let state = (contents.arrays.into_iter())
            .map(|(name, array)| {
                let tensor =
                    Tensor::from_bytes(&array.data, array.dtype, &array.sizes).map_err(|e| e.context(&name))?;
                Ok((name, tensor))
            })
            .collect::<Result<StateDict>>()?;
        Ok(Checkpoint { state, metadata: contents.metadata })
    }
}

fn begins_with_archive(path: &Path) -> Result<bool> {
    let named = |e: std::io::Error| Error::io(format!("{}: {e}", path.display()));
    let mut start = Vec::new();
    File::open(path).map_err(named)?.take(pytorch::MAGIC.len() as u64).read_to_end(&mut start).map_err(named)?;
    Ok(start == pytorch::MAGIC)
}
