//! The `rehydrate._native` module.
