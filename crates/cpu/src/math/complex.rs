//! Complex functions.
