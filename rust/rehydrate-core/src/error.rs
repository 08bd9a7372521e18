//! The one error type of the core: the value, the limit, and the remedy.

/// Everything that can go wrong in the core.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A model file or vocabulary that cannot be used.
    #[error("model: {0}")]
    Model(String),
    /// A file of a transformer, or the library that runs it, that cannot be used: which, why, and the remedy.
    #[error("{path}: {problem}; {remedy}")]
    ModelFile { path: String, problem: String, remedy: String },
    /// Arguments that contradict each other or lie outside their range.
    #[error("{0}")]
    Argument(String),
    /// A memory's file that cannot be used as asked: which, why, and the remedy.
    #[error("{path}: {problem}; {remedy}")]
    Store { kind: StoreProblem, path: String, problem: String, remedy: String },
    /// The caller's interrupt check asked to stop (Ctrl-C); nothing was changed.
    #[error("interrupted")]
    Interrupted,
}

/// The kind of trouble that a memory's file is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreProblem {
    /// Others kept it locked for longer than a call may wait.
    Busy,
    /// No room left on the disk.
    Full,
    /// A write to something read-only.
    ReadOnly,
    /// A call after it was closed.
    Closed,
    /// The file is damaged.
    Corrupt,
    /// The file is something else.
    NotAStore,
    /// Written by a later version of this crate.
    Newer,
    /// A purge that could not remove every file.
    Remains,
    /// Another writer wrote to something that this caller believed to be its own.
    Conflict,
    /// Anything else that files and operating systems do.
    Other,
}

/// The core's result.
pub type Result<T> = std::result::Result<T, Error>;
