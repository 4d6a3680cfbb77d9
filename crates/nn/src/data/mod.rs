//! Data sets, and a loader that makes batches of them on threads of its own.

mod loader;

pub use loader::{Batches, DataLoader, LoaderOptions};

use flambeau::{Error, Result, Tensor, ensure};

/// Examples by number. Either `get` is enough, or `get_batch` makes a batch at once.
pub trait Dataset: Send + Sync {
    /// An example.
    type Item: Collate;
    /// How many examples there are.
    fn len(&self) -> usize;
    /// One example; `index` is below `len`.
    ///
    /// # Errors
    /// When it cannot be had.
    fn get(&self, index: usize) -> Result<Self::Item>;
    /// Several examples as one batch.
    ///
    /// # Errors
    /// When one of them cannot be had, or they do not fit together.
    fn get_batch(&self, indices: &[usize]) -> Result<<Self::Item as Collate>::Batch> {
        Collate::collate(indices.iter().map(|&i| self.get(i)).collect::<Result<_>>()?)
    }
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Examples that can be put together: tensors of the same sizes are stacked, numbers become a tensor, and tuples and
/// vectors are taken apart. For something else, implement it for a type of your own.
pub trait Collate: Sized {
    /// What they become.
    type Batch: Send;
    /// Puts them together.
    ///
    /// # Errors
    /// When they do not fit.
    fn collate(items: Vec<Self>) -> Result<Self::Batch>;
}

impl Collate for Tensor {
    type Batch = Tensor;
    fn collate(items: Vec<Tensor>) -> Result<Tensor> {
        Tensor::stack(&items, 0)
    }
}
macro_rules! collate_numbers {
    ($($t:ty)*) => { $(
        impl Collate for $t {
            type Batch = Tensor;
            fn collate(items: Vec<$t>) -> Result<Tensor> {
                Tensor::from_slice(&items)
            }
        }
    )* };
}
collate_numbers! { u8 i32 i64 f32 f64 }
impl Collate for String {
    type Batch = Vec<String>;
    fn collate(items: Vec<String>) -> Result<Vec<String>> {
        Ok(items)
    }
}
impl<A: Collate, B: Collate> Collate for (A, B) {
    type Batch = (A::Batch, B::Batch);
    fn collate(items: Vec<(A, B)>) -> Result<Self::Batch> {
        let (a, b) = items.into_iter().unzip();
        Ok((A::collate(a)?, B::collate(b)?))
    }
}
impl<A: Collate, B: Collate, C: Collate> Collate for (A, B, C) {
    type Batch = (A::Batch, B::Batch, C::Batch);
    fn collate(items: Vec<(A, B, C)>) -> Result<Self::Batch> {
        let (ab, c): (Vec<(A, B)>, Vec<C>) = items.into_iter().map(|(a, b, c)| ((a, b), c)).unzip();
        let (a, b) = Collate::collate(ab)?;
        Ok((a, b, C::collate(c)?))
    }
}
impl<A: Collate> Collate for Vec<A> {
    type Batch = Vec<A::Batch>;
    fn collate(items: Vec<Vec<A>>) -> Result<Self::Batch> {
        let width = items.first().map_or(0, Vec::len);
        ensure!(items.iter().all(|i| i.len() == width), "each element in list of batch should be of equal size");
        let mut columns: Vec<Vec<A>> = (0..width).map(|_| Vec::with_capacity(items.len())).collect();
        for item in items {
            columns.iter_mut().zip(item).for_each(|(column, one)| column.push(one));
        }
        columns.into_iter().map(A::collate).collect()
    }
}

/// Tensors of the same first size; an example is the same row of each.
pub struct TensorDataset {
    tensors: Vec<Tensor>,
    len: usize,
}

impl TensorDataset {
    /// A data set of these tensors.
    ///
    /// # Errors
    /// When there is none, or their first sizes differ.
    pub fn new(tensors: Vec<Tensor>) -> Result<TensorDataset> {
        let len = tensors.first().and_then(|t| t.sizes().first().copied());
        let Some(len) = len.filter(|n| tensors.iter().all(|t| t.sizes().first() == Some(n))) else {
            return Err(Error::value("Size mismatch between tensors"));
        };
        Ok(TensorDataset { tensors, len: len as usize })
    }
}

impl Dataset for TensorDataset {
    type Item = Vec<Tensor>;
    fn len(&self) -> usize {
        self.len
    }
    fn get(&self, index: usize) -> Result<Vec<Tensor>> {
        self.tensors.iter().map(|t| t.select(0, index as i64)).collect()
    }
    fn get_batch(&self, indices: &[usize]) -> Result<Vec<Tensor>> {
        let indices: Vec<i64> = indices.iter().map(|&i| i as i64).collect();
        let indices = Tensor::from_slice(&indices)?;
        self.tensors.iter().map(|t| t.index_select(0, &indices)).collect()
    }
}
