//! The one error type of the core: what was given, what the limit is, what to do.

/// Everything that can go wrong in the core.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A model file or vocabulary that cannot be used.
    #[error("model: {0}")]
    Model(String),
    /// A file of a transformer, or the library that runs it, that cannot be used: which, why, and what to do.
    #[error("{path}: {problem}; {remedy}")]
    ModelFile { path: String, problem: String, remedy: String },
    /// Arguments that contradict each other or lie outside their range.
    #[error("{0}")]
    Argument(String),
    /// The caller's interrupt check asked to stop (Ctrl-C); nothing was changed.
    #[error("interrupted")]
    Interrupted,
}

/// The core's result.
pub type Result<T> = std::result::Result<T, Error>;
