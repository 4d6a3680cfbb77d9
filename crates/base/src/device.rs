//! Devices. Kinds are numbered at run time: `cpu` and `meta` are the first two, others register by name.

use crate::{Allocator, Error, Result};
use parking_lot::RwLock;
use std::fmt;

/// A kind of device (`cpu`, `meta`, `cuda`, or one that another crate registered), as a small number.
///
/// The number is also the bit of the kind's backend in a dispatch key set, so at most [`DeviceKind::MAX`] exist.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKind(u8);

struct KindRecord {
    name: &'static str,
    allocator: &'static dyn Allocator,
}

static KINDS: RwLock<Vec<KindRecord>> = RwLock::new(Vec::new());

impl DeviceKind {
    /// Host memory.
    pub const CPU: DeviceKind = DeviceKind(0);
    /// Shapes without data.
    pub const META: DeviceKind = DeviceKind(1);
    /// How many kinds can exist in one process.
    pub const MAX: usize = 16;

    /// Registers a device kind under `name` with the allocator of its memory. The name and the number stay for the
    /// life of the process.
    ///
    /// # Errors
    /// When the name is taken or [`DeviceKind::MAX`] kinds exist.
    pub fn register(name: &str, allocator: impl Allocator + 'static) -> Result<DeviceKind> {
        let mut kinds = KINDS.write();
        if name == "cpu" || name == "meta" || kinds.iter().any(|k| k.name == name) {
            return Err(Error::runtime(format!("device kind '{name}' is registered already")));
        }
        let number = kinds.len() + 2;
        if number >= Self::MAX {
            return Err(Error::runtime(format!("no room for device kind '{name}': {} exist", Self::MAX)));
        }
        kinds.push(KindRecord {
            name: Box::leak(name.to_owned().into_boxed_str()),
            allocator: Box::leak(Box::new(allocator)),
        });
        Ok(DeviceKind(number as u8))
    }

    /// The kind's number, which is also its backend bit.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The kind with backend bit `number`, if it is registered.
    pub fn from_number(number: u8) -> Option<DeviceKind> {
        (usize::from(number) < 2 + KINDS.read().len()).then_some(DeviceKind(number))
    }

    /// The name (`cpu`).
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "cpu",
            1 => "meta",
            n => KINDS.read()[usize::from(n) - 2].name,
        }
    }

    /// The allocator of this kind's memory.
    #[inline]
    pub fn allocator(self) -> &'static dyn Allocator {
        match self.0 {
            0 => &crate::allocator::CPU,
            1 => &crate::allocator::META,
            n => KINDS.read()[usize::from(n) - 2].allocator,
        }
    }

    /// The kind called `name`, if there is one.
    pub fn by_name(name: &str) -> Option<DeviceKind> {
        match name {
            "cpu" => Some(Self::CPU),
            "meta" => Some(Self::META),
            _ => KINDS.read().iter().position(|k| k.name == name).map(|i| DeviceKind(i as u8 + 2)),
        }
    }

    /// Every kind there is, in number order.
    pub fn all() -> Vec<DeviceKind> {
        (0..2 + KINDS.read().len() as u8).map(DeviceKind).collect()
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a tensor's data lives: a kind and, for kinds of which a machine has several, an index.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// The kind.
    pub kind: DeviceKind,
    /// Which one; `None` is the current one of its kind.
    pub index: Option<u8>,
}

impl Device {
    /// Host memory.
    pub const CPU: Device = Device { kind: DeviceKind::CPU, index: None };
    /// Shapes without data.
    pub const META: Device = Device { kind: DeviceKind::META, index: None };

    /// The device `kind`, index left open.
    pub const fn new(kind: DeviceKind) -> Device {
        Device { kind, index: None }
    }

    /// Whether it holds no data.
    pub fn is_meta(self) -> bool {
        self.kind == DeviceKind::META
    }

    /// Whether it is host memory that a CPU kernel can address.
    pub fn is_cpu(self) -> bool {
        self.kind == DeviceKind::CPU
    }
}

impl Default for Device {
    fn default() -> Device {
        Device::CPU
    }
}

impl From<DeviceKind> for Device {
    fn from(kind: DeviceKind) -> Device {
        Device::new(kind)
    }
}

impl std::str::FromStr for Device {
    type Err = Error;

    /// Parses `kind` or `kind:index`.
    fn from_str(text: &str) -> Result<Device> {
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => match index.parse::<u8>() {
                Ok(i) if index.len() == 1 || !index.starts_with('0') => (name, Some(i)),
                _ => return Err(Error::runtime(format!("Invalid device string: '{text}'"))),
            },
            None => (text, None),
        };
        let kind = DeviceKind::by_name(name).ok_or_else(|| {
            let known: Vec<&str> = DeviceKind::all().iter().map(|k| k.name()).collect();
            Error::runtime(format!(
                "Expected one of {} device type at start of device string: {text}",
                known.join(", ")
            ))
        })?;
        Ok(Device { kind, index })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(i) => write!(f, "{}:{i}", self.kind),
            None => write!(f, "{}", self.kind),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
