//! The one error type of the core.
