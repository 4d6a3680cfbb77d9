//! The one error type. Kinds map to PyTorch's Python exception types.

use std::fmt;

/// `Result` with Flambeau's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of mistake an [`Error`] reports; the Python front end maps each to an exception type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A wrong shape, dtype, device or value (`RuntimeError`).
    Runtime,
    /// An index or dimension out of range (`IndexError`).
    Index,
    /// An argument of the wrong type (`TypeError`).
    Type,
    /// An argument of the right type with an impossible value (`ValueError`).
    Value,
    /// No kernel, derivative or feature for what was asked (`NotImplementedError`).
    NotImplemented,
    /// An allocation that the machine cannot give (`RuntimeError`, in PyTorch's wording).
    OutOfMemory,
    /// A file that cannot be read, written or understood (`RuntimeError` or `OSError`).
    Io,
    /// A decomposition or a solution that does not exist (`torch.linalg.LinAlgError`).
    LinAlg,
}

/// An error with its kind and a message: in PyTorch's words where it has some for the mistake (which often name neither the
/// operator nor the argument), else in words that name what was wrong and the values.
///
/// One pointer wide, so that `Result<Tensor>` stays two words.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<(ErrorKind, String)>);

impl Error {
    /// An error of `kind` saying `message`.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new((kind, message.into())))
    }
    /// An [`ErrorKind::Runtime`] error.
    #[cold]
    pub fn runtime(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Runtime, message)
    }
    /// An [`ErrorKind::Index`] error.
    #[cold]
    pub fn index(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Index, message)
    }
    /// An [`ErrorKind::Type`] error.
    #[cold]
    pub fn type_(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Type, message)
    }
    /// An [`ErrorKind::Value`] error.
    #[cold]
    pub fn value(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Value, message)
    }
    /// An [`ErrorKind::NotImplemented`] error.
    #[cold]
    pub fn not_implemented(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NotImplemented, message)
    }
    /// An [`ErrorKind::Io`] error.
    #[cold]
    pub fn io(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Io, message)
    }
    /// What sort of mistake this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.0
    }
    /// The message alone.
    pub fn message(&self) -> &str {
        &self.0.1
    }
    /// The same error, its message prefixed with `context` and a colon.
    #[must_use]
    pub fn context(self, context: impl fmt::Display) -> Error {
        Error::new(self.0.0, format!("{context}: {}", self.0.1))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.1)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.0, self.0.1)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        Error::io(e.to_string())
    }
}

/// Returns early with an [`ErrorKind::Runtime`] error unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($cond:expr, $($message:tt)+) => {
        if !$cond {
            return Err($crate::Error::runtime(format!($($message)+)));
        }
    };
}

/// Returns early with an [`ErrorKind::Runtime`] error.
#[macro_export]
macro_rules! bail {
    ($($message:tt)+) => {
        return Err($crate::Error::runtime(format!($($message)+)))
    };
}
