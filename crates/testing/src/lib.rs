//! What checks Flambeau, public so that a new device or front end runs the same suite.

pub mod conformance;
pub mod parity;
