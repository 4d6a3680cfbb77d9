//! The loader: an order of the examples, cut into batches, made ahead by worker threads and given out in order.

use super::{Collate, Dataset};
use crate::operator;
use flambeau::{DType, Error, Generator, Result, Tensor, Value};
use parking_lot::{Condvar, Mutex};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

type BatchOf<D> = <<D as Dataset>::Item as Collate>::Batch;

/// How a [`DataLoader`] makes batches.
#[derive(Clone, Debug)]
pub struct LoaderOptions {
    /// Examples in a batch.
    pub batch_size: usize,
    /// Whether every pass has an order of its own.
    pub shuffle: bool,
    /// Whether to leave out a last batch that is not full.
    pub drop_last: bool,
    /// Threads that make batches; with 0, batches are made when they are asked for.
    pub workers: usize,
    /// Batches that are made ahead, per worker.
    pub prefetch: usize,
    /// Where orders come from; the default generator if `None`.
    pub generator: Option<Generator>,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        LoaderOptions { batch_size: 1, shuffle: false, drop_last: false, workers: 0, prefetch: 2, generator: None }
    }
}

/// Gives out a data set in batches. Every [`DataLoader::iter`] is one pass; with the same seed it has the order that
/// PyTorch's loader has.
pub struct DataLoader<D: Dataset> {
    dataset: Arc<D>,
    options: LoaderOptions,
}

impl<D: Dataset + 'static> DataLoader<D> {
    /// A loader of `dataset`.
    ///
    /// # Errors
    /// When the batch size is 0, or nothing may be made ahead.
    pub fn new(dataset: D, options: LoaderOptions) -> Result<DataLoader<D>> {
        if options.batch_size == 0 {
            return Err(Error::value("batch_size should be a positive integer value, but got batch_size=0"));
        }
        if options.workers > 0 && options.prefetch == 0 {
            return Err(Error::value("prefetch option should be positive when there are workers"));
        }
        Ok(DataLoader { dataset: Arc::new(dataset), options })
    }

    /// The data set.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// How many batches a pass has.
    pub fn len(&self) -> usize {
        let (n, batch) = (self.dataset.len(), self.options.batch_size);
        if self.options.drop_last { n / batch } else { n.div_ceil(batch) }
    }

    /// Whether a pass has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins a pass.
    ///
    /// # Errors
    /// When the order cannot be made, or a thread not be started.
    pub fn iter(&self) -> Result<Batches<D>> {
        let order = self.order()?;
        let batches: Vec<Vec<usize>> =
            order.chunks(self.options.batch_size).take(self.len()).map(<[usize]>::to_vec).collect();
        let workers = self.options.workers.min(batches.len());
        let shared = Arc::new(Shared {
            dataset: self.dataset.clone(),
            batches,
            ahead: workers.saturating_mul(self.options.prefetch),
            state: Mutex::new(State { next: 0, given: 0, ready: BTreeMap::new(), stop: false }),
            changed: Condvar::new(),
        });
        // Built first, so that a thread that cannot be started stops the others.
        let mut iterator = Batches { shared, workers: Vec::new() };
        for number in 0..workers {
            let shared = iterator.shared.clone();
            let thread = std::thread::Builder::new().name(format!("loader-{number}"));
            iterator.workers.push(thread.spawn(move || shared.work())?);
        }
        Ok(iterator)
    }

    fn order(&self) -> Result<Vec<usize>> {
        let n = self.dataset.len();
        // PyTorch draws a seed for its worker processes first, in every pass; keeping its order means drawing it too.
        let generator = self.options.generator.clone().unwrap_or_else(Generator::default_generator);
        draw_seed(&generator)?;
        if !self.options.shuffle {
            return Ok((0..n).collect());
        }
        let generator = match &self.options.generator {
            Some(generator) => generator.clone(),
            None => Generator::new(draw_seed(&generator)? as u64),
        };
        let order = permutation(n as i64, &generator)?;
        Ok(order.to_vec::<i64>()?.into_iter().map(|i| i as usize).collect())
    }
}

fn draw_seed(generator: &Generator) -> Result<i64> {
    let seed = Tensor::empty(&[], DType::I64)?;
    operator("random_")?.call(&[(&seed).into(), generator.into()])?;
    Ok(seed.item()?.to_i64())
}

fn permutation(n: i64, generator: &Generator) -> Result<Tensor> {
    let open = Value::None;
    operator("randperm.generator")?.call(&[n.into(), generator.into(), open, open, open, open])?.one()
}

struct State<B> {
    /// The first batch that no worker has taken.
    next: usize,
    /// How many batches were given out.
    given: usize,
    ready: BTreeMap<usize, Result<B>>,
    stop: bool,
}

struct Shared<D: Dataset> {
    dataset: Arc<D>,
    batches: Vec<Vec<usize>>,
    ahead: usize,
    state: Mutex<State<BatchOf<D>>>,
    changed: Condvar,
}

impl<D: Dataset> Shared<D> {
    /// Makes batches until there are no more or nobody wants them.
    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            while !state.stop && state.next < self.batches.len() && state.next >= state.given.saturating_add(self.ahead)
            {
                self.changed.wait(&mut state);
            }
            if state.stop || state.next >= self.batches.len() {
                return;
            }
            let number = state.next;
            state.next += 1;
            drop(state);
            let batch = self.make(number);
            self.state.lock().ready.insert(number, batch);
            self.changed.notify_all();
        }
    }

    /// A batch; a data set that panics makes an error, as it must not take the program along or leave it waiting.
    fn make(&self, number: usize) -> Result<BatchOf<D>> {
        let _guard = flambeau::autograd::no_grad();
        catch_unwind(AssertUnwindSafe(|| self.dataset.get_batch(&self.batches[number]))).unwrap_or_else(|panic| {
            Err(Error::runtime(format!("DataLoader: the data set panicked: {}", panic_text(&*panic))))
        })
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("with a value that is no text")
}

/// One pass over the data. A batch that could not be made is an error in its place; the pass may go on after it.
pub struct Batches<D: Dataset> {
    shared: Arc<Shared<D>>,
    workers: Vec<JoinHandle<()>>,
}

impl<D: Dataset> Iterator for Batches<D> {
    type Item = Result<BatchOf<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut state = self.shared.state.lock();
        let number = state.given;
        if number >= self.shared.batches.len() {
            return None;
        }
        if self.workers.is_empty() {
            state.given += 1;
            drop(state);
            return Some(self.shared.make(number));
        }
        loop {
            if let Some(batch) = state.ready.remove(&number) {
                state.given += 1;
                drop(state);
                self.shared.changed.notify_all();
                return Some(batch);
            }
            self.shared.changed.wait(&mut state);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.shared.batches.len() - self.shared.state.lock().given;
        (left, Some(left))
    }
}
impl<D: Dataset> ExactSizeIterator for Batches<D> {}

impl<D: Dataset> Drop for Batches<D> {
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // It cannot have panicked: what may is caught.
            let _ = worker.join();
        }
    }
}
