//! Dispatch keys: which layers a call passes through, as a bit set; the highest bit runs first.
//!
//! | bits | what |
//! | --- | --- |
//! | 0 to 15 | backends, one per device kind in registration order (0 is `cpu`, 1 is `meta`) |
//! | 16, 17 | layouts that are not strided: [`Key::SPARSE`], [`Key::SPARSE_CSR`]; their tensors have no backend's bit, so that no kernel of strided memory sees one |
//! | 18 | [`Key::PYTHON`]: hands the calls that backends would get to Python's dispatch modes |
//! | 19 | [`Key::AUTOGRAD`]: records reverse-mode history |
//! | 20 | [`Key::FORWARD`]: carries forward-mode tangents (same kernel as autograd, not switched off by `no_grad`) |
//! | 21 | [`Key::AUTOCAST`] |
//! | 22 | [`Key::VMAP`] |
//! | 23 | [`Key::TRACE`]: writes down every call; see [`crate::dispatch::trace`] and [`crate::profiler`] |
//! | 24, 25 | [`Key::USER_0`], [`Key::USER_1`]: free for other crates |

use std::cell::Cell;
use std::fmt;

/// How many keys exist; also the length of each operator's kernel table.
pub const KEY_COUNT: usize = 26;
const BACKENDS: u64 = 0xffff;

/// One dispatch key: the number of its bit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(crate) u8);

impl Key {
    /// The CPU backend.
    pub const CPU: Key = Key(0);
    /// The backend of shapes without data.
    pub const META: Key = Key(1);
    /// Coordinate lists, on any device.
    pub const SPARSE: Key = Key(16);
    /// Compressed rows, on any device.
    pub const SPARSE_CSR: Key = Key(17);
    /// Hands to Python what would reach a backend.
    pub const PYTHON: Key = Key(18);
    /// Records reverse-mode history.
    pub const AUTOGRAD: Key = Key(19);
    /// Carries forward-mode tangents.
    pub const FORWARD: Key = Key(20);
    /// Picks dtypes for mixed-precision regions.
    pub const AUTOCAST: Key = Key(21);
    /// Maps over a hidden batch dimension.
    pub const VMAP: Key = Key(22);
    /// Writes down every call.
    pub const TRACE: Key = Key(23);
    /// Free for other crates.
    pub const USER_0: Key = Key(24);
    /// Free for other crates.
    pub const USER_1: Key = Key(25);

    /// The key of a device kind's backend.
    #[inline(always)]
    pub const fn backend(kind: crate::DeviceKind) -> Key {
        Key(kind.number())
    }

    /// Whether it is a backend.
    pub const fn is_backend(self) -> bool {
        self.0 < 16
    }

    /// Whether it is a layout other than strided.
    pub const fn is_layout(self) -> bool {
        self.0 == Key::SPARSE.0 || self.0 == Key::SPARSE_CSR.0
    }

    /// Its place in a kernel table.
    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its name in listings (`cpu`, `Autograd`).
    pub fn name(self) -> String {
        match self.0 {
            16 => "SparseCPU".into(),
            17 => "SparseCsrCPU".into(),
            18 => "Python".into(),
            19 => "Autograd".into(),
            20 => "Forward".into(),
            21 => "Autocast".into(),
            22 => "Vmap".into(),
            23 => "Trace".into(),
            24 => "User0".into(),
            25 => "User1".into(),
            n => crate::DeviceKind::from_number(n).map_or(format!("backend{n}"), |k| k.name().into()),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A set of dispatch keys.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct KeySet(pub(crate) u64);

impl KeySet {
    /// No key.
    pub const EMPTY: KeySet = KeySet(0);
    /// Every key.
    pub const ALL: KeySet = KeySet((1 << KEY_COUNT) - 1);

    /// The set of one key.
    #[inline(always)]
    pub const fn of(key: Key) -> KeySet {
        KeySet(1 << key.0)
    }
    /// Both sets' keys.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, other: KeySet) -> KeySet {
        KeySet(self.0 | other.0)
    }
    /// The keys that `other` lacks.
    #[inline(always)]
    #[must_use]
    pub const fn without(self, other: KeySet) -> KeySet {
        KeySet(self.0 & !other.0)
    }
    /// Whether `key` is in it.
    #[inline(always)]
    pub const fn has(self, key: Key) -> bool {
        self.0 >> key.0 & 1 == 1
    }
    /// The keys that run after `key`: what a layer passes to `redispatch`.
    #[inline(always)]
    #[must_use]
    pub const fn below(self, key: Key) -> KeySet {
        KeySet(self.0 & ((1 << key.0) - 1))
    }
    /// The backends alone.
    #[inline(always)]
    #[must_use]
    pub const fn backends(self) -> KeySet {
        KeySet(self.0 & BACKENDS)
    }
    /// The functionality keys alone.
    #[inline(always)]
    #[must_use]
    pub const fn functionality(self) -> KeySet {
        KeySet(self.0 & !BACKENDS)
    }
    /// The key that runs next.
    #[inline(always)]
    pub const fn highest(self) -> Option<Key> {
        if self.0 == 0 { None } else { Some(Key(63 - self.0.leading_zeros() as u8)) }
    }
    /// Whether there is none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Its keys, the one that runs first leading.
    pub fn iter(self) -> impl Iterator<Item = Key> {
        (0..64u8).rev().filter(move |b| self.0 >> b & 1 == 1).map(Key)
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Local {
    pub included: KeySet,
    pub excluded: KeySet,
}

thread_local! {
    static LOCAL: Cell<Local> = const { Cell::new(Local { included: KeySet::EMPTY, excluded: KeySet::EMPTY }) };
}

/// This thread's included and excluded keys.
#[inline(always)]
pub(crate) fn local() -> Local {
    LOCAL.get()
}

/// Puts a thread's keys back as they were when dropped.
#[must_use = "the keys change back when the guard is dropped"]
pub struct KeyGuard {
    before: Local,
    // The keys belong to this thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl KeyGuard {
    #[inline(always)]
    fn change(f: impl FnOnce(&mut Local)) -> KeyGuard {
        let before = LOCAL.get();
        let mut now = before;
        f(&mut now);
        LOCAL.set(now);
        KeyGuard { before, _not_send: std::marker::PhantomData }
    }

    /// Every call of this thread skips `keys` while the guard lives.
    #[inline(always)]
    pub fn exclude(keys: KeySet) -> KeyGuard {
        Self::change(|l| l.excluded = l.excluded.with(keys))
    }

    /// Every call of this thread passes through `keys` while the guard lives.
    #[inline(always)]
    pub fn include(keys: KeySet) -> KeyGuard {
        Self::change(|l| {
            l.included = l.included.with(keys);
            l.excluded = l.excluded.without(keys);
        })
    }

    /// Calls of this thread no longer skip `keys` while the guard lives.
    #[inline(always)]
    pub fn allow(keys: KeySet) -> KeyGuard {
        Self::change(|l| l.excluded = l.excluded.without(keys))
    }
}

/// Makes every call of this thread skip `keys`, or not, until told otherwise.
#[inline(always)]
pub(crate) fn set_excluded(keys: KeySet, excluded: bool) {
    let mut local = LOCAL.get();
    local.excluded = if excluded { local.excluded.with(keys) } else { local.excluded.without(keys) };
    LOCAL.set(local);
}

/// Makes every call of this thread pass through `keys`, or not, until told otherwise.
pub fn set_included(keys: KeySet, included: bool) {
    let mut local = LOCAL.get();
    local.included = if included { local.included.with(keys) } else { local.included.without(keys) };
    LOCAL.set(local);
}

impl Drop for KeyGuard {
    #[inline(always)]
    fn drop(&mut self) {
        LOCAL.set(self.before);
    }
}
