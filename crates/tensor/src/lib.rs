//! Flambeau.
