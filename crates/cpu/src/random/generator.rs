//! The generator: an engine, its seed, and the normal sample left over from the last pair.

use super::engine::{BLOCK, Mt19937, widened};
use flambeau_base::{Error, Result};

/// The seed of a generator that was given none (PyTorch's `default_rng_seed_val`).
pub const DEFAULT_SEED: u64 = 67_280_421_310_721;
/// Bytes of a saved state.
pub const STATE_SIZE: usize = 5056;

/// Offsets in a saved state, PyTorch's `CPUGeneratorImplState`: seed, `left`, `seeded`, `next`, 624 words of 64 bits,
/// three doubles of which the second is the normal sample left over, whether it is valid, and the same for a float.
const LEFT: usize = 8;
const SEEDED: usize = 12;
const NEXT: usize = 16;
const WORDS: usize = 24;
const DOUBLE_SAMPLE: usize = 5024;
const DOUBLE_VALID: usize = 5040;
const FLOAT_SAMPLE: usize = 5048;
const FLOAT_VALID: usize = 5052;

/// Elements converted at a time, so that the words stay in the first-level cache.
pub(super) const CHUNK: usize = 512;

/// PyTorch's CPU generator: the same seed gives the same numbers.
///
/// ```
/// use flambeau_cpu::random::{Generator, uniform};
/// let mut generator = Generator::new(42);
/// let mut out = [0.0f32; 3];
/// uniform(&mut generator, &mut out, 0.0, 1.0);
/// assert_eq!(out, [0.88226926, 0.91500396, 0.38286376]);
/// ```
#[derive(Clone, PartialEq)]
pub struct Generator {
    engine: Mt19937,
    seed: u64,
    /// The second of a pair of normal samples, not yet handed out.
    spare: Option<f64>,
    /// The same in single precision: only carried through saved states, as in PyTorch.
    spare_f32: Option<f32>,
}

impl Default for Generator {
    fn default() -> Generator {
        Generator::new(DEFAULT_SEED)
    }
}

impl Generator {
    /// A generator seeded with `seed`.
    pub fn new(seed: u64) -> Generator {
        Generator { engine: Mt19937::new(seed), seed, spare: None, spare_f32: None }
    }

    /// Starts over from `seed`. A negative seed is passed wrapped, as PyTorch does.
    pub fn manual_seed(&mut self, seed: u64) {
        *self = Generator::new(seed);
    }

    /// The seed this generator was started from.
    pub fn initial_seed(&self) -> u64 {
        self.seed
    }

    /// Starts over from entropy of the operating system and returns the seed (53 bits, so that a double holds it).
    pub fn seed(&mut self) -> u64 {
        let seed = entropy() & ((1 << 53) - 1);
        self.manual_seed(seed);
        seed
    }

    /// The state, byte for byte `torch.get_rng_state()`.
    pub fn get_state(&self) -> Vec<u8> {
        let (state, left, next) = self.engine.parts();
        let mut bytes = vec![0; STATE_SIZE];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.seed.to_le_bytes());
        put(LEFT, &(left as u32).to_le_bytes());
        put(SEEDED, &1u32.to_le_bytes());
        put(NEXT, &(next as u64).to_le_bytes());
        for (i, &word) in state.iter().enumerate() {
            put(WORDS + 8 * i, &u64::from(word).to_le_bytes());
        }
        if let Some(sample) = self.spare {
            put(DOUBLE_SAMPLE, &sample.to_le_bytes());
            put(DOUBLE_VALID, &[1]);
        }
        if let Some(sample) = self.spare_f32 {
            put(FLOAT_SAMPLE, &sample.to_le_bytes());
            put(FLOAT_VALID, &[1]);
        }
        bytes
    }

    /// Restores a state saved by [`Generator::get_state`] or by PyTorch.
    pub fn set_state(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() != STATE_SIZE {
            return Err(Error::runtime(format!(
                "Expected a CPUGeneratorImplState of size {STATE_SIZE} but found the input RNG state size to be {}",
                bytes.len()
            )));
        }
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let state: [u32; BLOCK] = std::array::from_fn(|i| u32_at(WORDS + 8 * i));
        let next = usize::try_from(u64_at(NEXT)).unwrap_or(usize::MAX);
        let engine = Mt19937::from_parts(state, u32_at(LEFT) as usize, next).filter(|_| u32_at(SEEDED) != 0);
        let Some(engine) = engine else {
            return Err(Error::runtime("Invalid mt19937 state"));
        };
        *self = Generator {
            engine,
            seed: u64_at(0),
            spare: (u32_at(DOUBLE_VALID) != 0).then(|| f64::from_bits(u64_at(DOUBLE_SAMPLE))),
            spare_f32: (bytes[FLOAT_VALID] != 0).then(|| f32::from_bits(u32_at(FLOAT_SAMPLE))),
        };
        Ok(())
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.engine.next_u32()
    }

    /// The next 64 bits: the first word is the high half.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.engine.next_u64()
    }

    /// Fills `out` with the next 32-bit words.
    pub fn fill_u32(&mut self, out: &mut [u32]) {
        self.engine.fill(out);
    }

    /// A double in `[0, 1)`: the low 53 of the next 64 bits.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() & ((1 << 53) - 1)) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A float in `[0, 1)`: the low 24 of the next 32 bits.
    #[inline]
    pub fn next_f32(&mut self) -> f32 {
        (self.next_u32() & 0xff_ffff) as f32 * (1.0 / (1u32 << 24) as f32)
    }

    /// [`Generator::next_f64`] for every element of `out`.
    pub fn fill_f64(&mut self, out: &mut [f64]) {
        let mut words = [0; 2 * CHUNK];
        for out in out.chunks_mut(CHUNK) {
            let words = &mut words[..2 * out.len()];
            self.engine.fill(words);
            doubles(words, out);
        }
    }

    /// [`Generator::next_f32`] for every element of `out`.
    pub fn fill_f32(&mut self, out: &mut [f32]) {
        let mut words = [0; CHUNK];
        for out in out.chunks_mut(CHUNK) {
            let words = &mut words[..out.len()];
            self.engine.fill(words);
            floats(words, out);
        }
    }

    /// A standard normal double. Samples come in pairs (Box & Muller, 1958); the second is kept for the next call.
    pub fn next_normal(&mut self) -> f64 {
        if let Some(sample) = self.spare.take() {
            return sample;
        }
        let theta = 2.0 * std::f64::consts::PI * self.next_f64();
        let radius = (-2.0 * (-self.next_f64()).ln_1p()).sqrt();
        self.spare = Some(radius * theta.sin());
        radius * theta.cos()
    }
}

widened! {
    fn doubles(words: &[u32], out: &mut [f64]) {
        // Two halves, each exact as a double, because few machines convert 64-bit integers in vectors.
        const HIGH: f64 = 1.0 / (1u64 << 21) as f64;
        const LOW: f64 = 1.0 / (1u64 << 53) as f64;
        for (o, pair) in out.iter_mut().zip(words.chunks_exact(2)) {
            *o = f64::from((pair[0] & 0x1f_ffff) as i32) * HIGH + f64::from(pair[1]) * LOW;
        }
    }
}

widened! {
    fn floats(words: &[u32], out: &mut [f32]) {
        for (o, &word) in out.iter_mut().zip(words) {
            *o = (word & 0xff_ffff) as i32 as f32 * (1.0 / (1u32 << 24) as f32);
        }
    }
}

/// 64 unpredictable bits.
fn entropy() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    use std::io::Read;
    let mut bytes = [0; 8];
    if std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).is_ok() {
        return u64::from_le_bytes(bytes);
    }
    // The standard library seeds its hash maps from the system on every platform.
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    if let Ok(time) = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
        hasher.write_u128(time.as_nanos());
    }
    hasher.finish()
}
