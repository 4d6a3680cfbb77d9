//! The Mersenne Twister MT19937 (Matsumoto & Nishimura, 1998), a block of 624 words at a time.
//!
//! A block is regenerated and tempered in vector loops; drawing a word is then one load.

/// Words in a block.
pub(super) const BLOCK: usize = 624;
/// Distance of the second term of the recurrence.
const SHIFT: usize = 397;

/// Compiles a loop body for SSE2, AVX2 and AVX-512 and picks at run time. The arithmetic is the same in each, so are
/// the bits: Rust never contracts a product and a sum.
macro_rules! widened {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $t:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        $vis fn $name($($arg: $t),*) {
            #[inline(always)]
            fn body($($arg: $t),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
                fn avx512($($arg: $t),*) { body($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $t),*) { body($($arg),*) }
                match $crate::math::level() {
                    // SAFETY: the machine has its level.
                    $crate::math::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::math::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::math::Level::Baseline => {}
                }
            }
            body($($arg),*)
        }
    };
}
pub(super) use widened;

/// The MT19937 engine, seeded and read as PyTorch does.
#[derive(Clone, PartialEq, Eq)]
pub struct Mt19937 {
    /// The untempered block.
    state: [u32; BLOCK],
    /// The block's outputs.
    tempered: [u32; BLOCK],
    /// Draws left before the next block, plus one.
    left: usize,
    /// Index of the next word.
    next: usize,
}

impl Mt19937 {
    /// The engine seeded with the low 32 bits of `seed` (Knuth's multiplier, as in the authors' `init_genrand`).
    pub fn new(seed: u64) -> Mt19937 {
        let mut state = [0; BLOCK];
        state[0] = seed as u32;
        for i in 1..BLOCK {
            let previous: u32 = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(i as u32);
        }
        Mt19937 { state, tempered: [0; BLOCK], left: 1, next: 0 }
    }

    /// An engine in the middle of its stream: the untempered block and PyTorch's two counters. `None` if PyTorch
    /// would not accept the counters.
    pub fn from_parts(state: [u32; BLOCK], left: usize, next: usize) -> Option<Mt19937> {
        if !(1..=BLOCK).contains(&left) || next > BLOCK {
            return None;
        }
        let mut tempered = [0; BLOCK];
        temper(&state, &mut tempered);
        Some(Mt19937 { state, tempered, left, next })
    }

    /// The untempered block and PyTorch's counters `left` and `next`.
    pub fn parts(&self) -> (&[u32; BLOCK], usize, usize) {
        (&self.state, self.left, self.next)
    }

    /// The rest of the current block, or a fresh one; never empty.
    #[inline]
    fn ready(&mut self) -> &[u32] {
        if self.left <= 1 || self.next >= BLOCK {
            twist(&mut self.state);
            temper(&self.state, &mut self.tempered);
            // One more than PyTorch's 624: it counts the draw that made the block.
            self.left = BLOCK + 1;
            self.next = 0;
        }
        let end = BLOCK.min(self.next + self.left - 1);
        &self.tempered[self.next..end]
    }

    #[inline]
    fn advance(&mut self, n: usize) {
        self.next += n;
        self.left -= n;
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let word = self.ready()[0];
        self.advance(1);
        word
    }

    /// The next 64 bits: the first word is the high half.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let high = self.next_u32();
        (u64::from(high) << 32) | u64::from(self.next_u32())
    }

    /// Fills `out` with the next words.
    pub fn fill(&mut self, mut out: &mut [u32]) {
        while !out.is_empty() {
            let ready = self.ready();
            let n = ready.len().min(out.len());
            let (head, tail) = out.split_at_mut(n);
            head.copy_from_slice(&ready[..n]);
            self.advance(n);
            out = tail;
        }
    }
}

/// One step of the recurrence: the top bit of `a`, the rest of `b`, times the twist matrix, plus `c`.
#[inline(always)]
fn mix(a: u32, b: u32, c: u32) -> u32 {
    let y = (a & 0x8000_0000) | (b & 0x7fff_ffff);
    c ^ (y >> 1) ^ ((b & 1).wrapping_neg() & 0x9908_b0df)
}

widened! {
    fn twist(s: &mut [u32; BLOCK]) {
        for i in 0..BLOCK - SHIFT {
            s[i] = mix(s[i], s[i + 1], s[i + SHIFT]);
        }
        for i in BLOCK - SHIFT..BLOCK - 1 {
            s[i] = mix(s[i], s[i + 1], s[i + SHIFT - BLOCK]);
        }
        s[BLOCK - 1] = mix(s[BLOCK - 1], s[0], s[SHIFT - 1]);
    }
}

widened! {
    fn temper(state: &[u32; BLOCK], out: &mut [u32; BLOCK]) {
        for (o, &word) in out.iter_mut().zip(state) {
            let mut y = word;
            y ^= y >> 11;
            y ^= (y << 7) & 0x9d2c_5680;
            y ^= (y << 15) & 0xefc6_0000;
            *o = y ^ (y >> 18);
        }
    }
}
