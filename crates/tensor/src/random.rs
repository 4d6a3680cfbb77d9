//! Random number generators as handles: shared, lockable, and one per process by default.

use crate::Result;
use parking_lot::Mutex;
use std::sync::{Arc, LazyLock};

/// A random number generator with PyTorch's CPU streams: same seed, same numbers.
#[derive(Clone)]
pub struct Generator(Arc<Mutex<flambeau_cpu::random::Generator>>);

static DEFAULT: LazyLock<Generator> = LazyLock::new(|| Generator::new(flambeau_cpu::random::DEFAULT_SEED));

impl Generator {
    /// A generator with the given seed.
    pub fn new(seed: u64) -> Generator {
        Generator(Arc::new(Mutex::new(flambeau_cpu::random::Generator::new(seed))))
    }
    /// The generator that operators use when none is given.
    pub fn default_generator() -> Generator {
        DEFAULT.clone()
    }
    /// Starts the stream of `seed`.
    pub fn manual_seed(&self, seed: u64) {
        self.0.lock().manual_seed(seed);
    }
    /// The seed the stream was started with.
    pub fn initial_seed(&self) -> u64 {
        self.0.lock().initial_seed()
    }
    /// Starts a stream nobody can foretell, and gives its seed.
    pub fn seed(&self) -> u64 {
        self.0.lock().seed()
    }
    /// The state as bytes, in PyTorch's format.
    pub fn get_state(&self) -> Vec<u8> {
        self.0.lock().get_state()
    }
    /// Restores a state.
    ///
    /// # Errors
    /// When the bytes are not a state; the generator is then unchanged.
    pub fn set_state(&self, state: &[u8]) -> Result<()> {
        self.0.lock().set_state(state)
    }
    /// A generator of its own that continues this one's stream from where it is.
    #[must_use]
    pub fn fork(&self) -> Generator {
        Generator(Arc::new(Mutex::new(self.0.lock().clone())))
    }
    /// Runs `f` with the locked engine.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut flambeau_cpu::random::Generator) -> R) -> R {
        f(&mut self.0.lock())
    }
    /// The given generator, or the default one.
    pub(crate) fn or_default(generator: Option<&Generator>) -> Generator {
        generator.cloned().unwrap_or_else(Generator::default_generator)
    }
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Generator(seed {})", self.initial_seed())
    }
}

/// Seeds the default generator.
pub fn manual_seed(seed: u64) {
    Generator::default_generator().manual_seed(seed);
}
