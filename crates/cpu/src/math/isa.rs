//! Instruction sets chosen at run time.
//!
//! A kernel is an `#[inline(always)]` generic over [`Isa`], named by a type that implements [`Kernel`]. [`entry`] gives
//! the function compiled for a [`Level`]; inlined into a `#[target_feature]` function, its plain loops vectorise to the
//! level's full width, so no kernel needs intrinsics:
//!
//! ```
//! use flambeau_cpu::math::{Float, Isa, Kernel, entry, level};
//! struct Exp;
//! impl Kernel for Exp {
//!     type Args = (*mut f32, *const f32, usize);
//!     type Output = ();
//!     #[inline(always)]
//!     unsafe fn run<I: Isa>((out, x, n): Self::Args) {
//!         for i in 0..n {
//!             // SAFETY: the caller passes `n` readable and `n` writable elements.
//!             unsafe { *out.add(i) = Float::exp::<I>(*x.add(i)) }
//!         }
//!     }
//! }
//! let (x, mut y) = ([0.0f32; 8], [0.0f32; 8]);
//! // SAFETY: both arrays hold 8 elements, and the machine has what `level()` names.
//! unsafe { entry::<Exp>(level())((y.as_mut_ptr(), x.as_ptr(), 8)) };
//! assert_eq!(y, [1.0; 8]);
//! ```
//!
//! [`with_isa!`](crate::with_isa) does the same for an expression.
//!
//! The level is a type, and not a `cfg`, because one binary must run everywhere; it is a parameter of the mathematical
//! functions because `a * b + c` must be fused exactly where the hardware fuses (a software `fma` is 50 times slower).

use flambeau_base::{DType, Element};
use std::sync::atomic::{AtomicU8, Ordering};

/// One instruction set, as a type.
pub trait Isa: Copy + Default + Send + Sync + 'static {
    /// The level.
    const LEVEL: Level;
    /// Whether fused multiply-add is one instruction.
    const FMA: bool;
    /// Whether rounding to an integral value is one instruction.
    const ROUND: bool;
    /// Bytes in a vector register.
    const VECTOR_BYTES: usize;
    /// Whether a kernel that exists a thousand times should rather be small than fast: hardly any machine stops at this
    /// set.
    const COMPACT: bool = false;
}

/// What every machine of the architecture has: SSE2 on x86-64, NEON on aarch64.
#[derive(Clone, Copy, Default, Debug)]
pub struct Baseline;

/// AVX2 with FMA and F16C (and the bit-counting instructions that came with them).
#[derive(Clone, Copy, Default, Debug)]
pub struct Avx2;

/// AVX-512 F, BW, DQ and VL on top of [`Avx2`].
#[derive(Clone, Copy, Default, Debug)]
pub struct Avx512;

impl Isa for Baseline {
    const LEVEL: Level = Level::Baseline;
    const FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
    const ROUND: bool = cfg!(any(target_arch = "aarch64", target_feature = "sse4.1"));
    const VECTOR_BYTES: usize = 16;
    const COMPACT: bool = cfg!(target_arch = "x86_64");
}

impl Isa for Avx2 {
    const LEVEL: Level = Level::Avx2;
    const FMA: bool = true;
    const ROUND: bool = true;
    const VECTOR_BYTES: usize = 32;
}

impl Isa for Avx512 {
    const LEVEL: Level = Level::Avx512;
    const FMA: bool = true;
    const ROUND: bool = true;
    const VECTOR_BYTES: usize = 64;
}

/// An instruction set, as a value. Levels are ordered: each includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Level {
    /// See [`Baseline`].
    Baseline = 0,
    /// See [`Avx2`].
    Avx2 = 1,
    /// See [`Avx512`].
    Avx512 = 2,
}

impl Level {
    /// Every level.
    pub const ALL: [Level; 3] = [Level::Baseline, Level::Avx2, Level::Avx512];

    /// The level called `name` (`baseline`, `avx2`, `avx512`).
    pub fn by_name(name: &str) -> Option<Level> {
        match name {
            "baseline" => Some(Level::Baseline),
            "avx2" => Some(Level::Avx2),
            "avx512" => Some(Level::Avx512),
            _ => None,
        }
    }

    /// Whether [fast paths](Kernel::FAST_PATH) are compiled for it: not where code should rather be
    /// [small](Isa::COMPACT).
    pub const fn has_fast_paths(self) -> bool {
        !(Baseline::COMPACT && matches!(self, Level::Baseline))
    }

    /// The levels that kernels may be run at here: up to [`level`].
    pub fn available() -> impl Iterator<Item = Level> {
        Level::ALL.into_iter().filter(|&l| l <= level())
    }
}

/// The highest level this machine has, capped by the environment variable `FLAMBEAU_ISA` (`baseline`, `avx2` or
/// `avx512`) as it was at the first call.
#[inline]
pub fn level() -> Level {
    const UNKNOWN: u8 = u8::MAX;
    static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);
    // Relaxed: the byte is the whole message, and detecting twice gives the same answer.
    match LEVEL.load(Ordering::Relaxed) {
        0 => Level::Baseline,
        1 => Level::Avx2,
        2 => Level::Avx512,
        _ => {
            let found = detect();
            LEVEL.store(found as u8, Ordering::Relaxed);
            found
        }
    }
}

#[cold]
fn detect() -> Level {
    #[cfg(target_arch = "x86_64")]
    crate::processor::know();
    let given = std::env::var("FLAMBEAU_ISA").unwrap_or_default();
    let cap = Level::by_name(&given);
    if cap.is_none() && !given.is_empty() {
        eprintln!("FLAMBEAU_ISA={given}: there are baseline, avx2 and avx512; the machine's own is taken");
    }
    hardware().min(cap.unwrap_or(Level::Avx512))
}

#[cfg(target_arch = "x86_64")]
fn hardware() -> Level {
    let has_avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt");
    if !has_avx2 {
        Level::Baseline
    } else if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
    {
        Level::Avx512
    } else {
        Level::Avx2
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn hardware() -> Level {
    Level::Baseline
}

/// A computation that is compiled once per level.
pub trait Kernel {
    /// What it is given.
    type Args;
    /// What it gives back.
    type Output;
    /// The highest level that it is compiled for; above, it runs as there. Code that wider vectors hardly make faster is
    /// not worth its size.
    const HIGHEST: Level = Level::Avx512;
    /// Whether there is a slower way to the same: it is compiled only for levels that [have](Level::has_fast_paths) such.
    const FAST_PATH: bool = false;
    /// The computation. Mark it, and all it calls, `#[inline(always)]`: what is not inlined is compiled for
    /// [`Baseline`], whatever `I` says.
    ///
    /// # Safety
    /// The machine must have `I`; further conditions are the kernel's.
    unsafe fn run<I: Isa>(args: Self::Args) -> Self::Output;
}

/// The kernel compiled for `level`.
///
/// Calling it is safe only where the machine has `level` (at most [`level()`]) and the kernel's own conditions hold.
///
/// # Panics
/// For a fast path where the level has none.
#[inline]
pub fn entry<K: Kernel>(level: Level) -> unsafe fn(K::Args) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        // Constants are asked first, so that what they rule out is not compiled.
        if const { K::HIGHEST as u8 == Level::Avx512 as u8 } && level == Level::Avx512 {
            return run_avx512::<K>;
        }
        if const { K::HIGHEST as u8 >= Level::Avx2 as u8 } && level >= Level::Avx2 {
            return run_avx2::<K>;
        }
    }
    if const { K::FAST_PATH && !Level::Baseline.has_fast_paths() } {
        unreachable!("a fast path at {level:?}");
    }
    run_baseline::<K>
}

/// The highest level that loops over elements of a type, other than products of matrices, are compiled for: AVX-512 for
/// floats, complex numbers and `i64`. For other integers AVX2 was measured as fast (on Zen 4: comparisons 1.0, division
/// 1.05 of the time).
pub const fn highest<T: Element>() -> Level {
    match T::DTYPE {
        DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64 => Level::Avx2,
        DType::I8 | DType::I16 | DType::I32 => Level::Avx2,
        _ => Level::Avx512,
    }
}

/// Runs the kernel at this machine's [`level`].
///
/// # Safety
/// The kernel's own conditions.
#[inline]
pub unsafe fn run<K: Kernel>(args: K::Args) -> K::Output {
    // SAFETY: the machine has `level()`; the rest is the caller's promise.
    unsafe { entry::<K>(level())(args) }
}

/// (Not `K::run` itself, of which every unit of compilation that names it would have a copy.)
unsafe fn run_baseline<K: Kernel>(args: K::Args) -> K::Output {
    // SAFETY: this function's own promise.
    unsafe { K::run::<Baseline>(args) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn run_avx2<K: Kernel>(args: K::Args) -> K::Output {
    // SAFETY: this function's own promise.
    unsafe { K::run::<Avx2>(args) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn run_avx512<K: Kernel>(args: K::Args) -> K::Output {
    // SAFETY: this function's own promise.
    unsafe { K::run::<Avx512>(args) }
}

/// Calls `f`; for [`with_isa!`](crate::with_isa).
pub fn call_baseline<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Calls `f` inside a function compiled for [`Avx2`]; for [`with_isa!`](crate::with_isa).
///
/// # Safety
/// The machine must have [`Avx2`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub unsafe fn call_avx2<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Calls `f` inside a function compiled for [`Avx512`]; for [`with_isa!`](crate::with_isa).
///
/// # Safety
/// The machine must have [`Avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub unsafe fn call_avx512<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Runs an expression compiled for a level: `with_isa!(level(), I => { for x in xs { *x = Float::exp::<I>(*x) } })`.
///
/// Levels above [`math::level()`](crate::math::level) are lowered to it, so this is safe. The expression appears in a
/// closure (`return` and `?` leave only the expression) that the optimiser inlines into its single caller; prefer
/// [`math::Kernel`](crate::math::Kernel) where a table of function pointers is wanted.
#[macro_export]
macro_rules! with_isa {
    ($level:expr, $I:ident => $body:expr) => {
        match ::core::cmp::Ord::min($level, $crate::math::level()) {
            #[cfg(target_arch = "x86_64")]
            $crate::math::Level::Avx512 => {
                #[allow(dead_code)]
                type $I = $crate::math::Avx512;
                // SAFETY: the machine has the level: it is at most `level()`.
                unsafe { $crate::math::isa::call_avx512(|| $body) }
            }
            #[cfg(target_arch = "x86_64")]
            $crate::math::Level::Avx2 => {
                #[allow(dead_code)]
                type $I = $crate::math::Avx2;
                // SAFETY: the machine has the level: it is at most `level()`.
                unsafe { $crate::math::isa::call_avx2(|| $body) }
            }
            _ => {
                #[allow(dead_code)]
                type $I = $crate::math::Baseline;
                $crate::math::isa::call_baseline(|| $body)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_named() {
        assert!(Level::Baseline < Level::Avx2 && Level::Avx2 < Level::Avx512);
        assert_eq!(Level::by_name("avx2"), Some(Level::Avx2));
        assert_eq!(Level::by_name("sse9"), None);
        assert_eq!(Level::available().last(), Some(level()));
    }

    struct Which;
    impl Kernel for Which {
        type Args = ();
        type Output = Level;
        #[inline(always)]
        unsafe fn run<I: Isa>(_: ()) -> Level {
            I::LEVEL
        }
    }

    #[test]
    fn each_entry_is_its_level() {
        for l in Level::available() {
            // SAFETY: the level is available.
            assert_eq!(unsafe { entry::<Which>(l)(()) }, l);
            assert_eq!(with_isa!(l, I => <I as Isa>::LEVEL), l);
        }
    }
}
