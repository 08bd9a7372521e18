//! ONNX Runtime's library and its one environment in this process.
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use ort::environment::Environment;
use ort::logging::LogLevel;

use crate::error::{Error, Result};

/// Never dropped: ONNX Runtime outlives every session, also at exit.
static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

/// Load the library at an absolute path. The first one that loads serves the whole process.
///
/// # Errors
/// [`Error::ModelFile`] where it is no such library, or too old. One that is damaged in the middle can crash the
/// process in the system's loader: check it before.
pub fn open_library(library: &Path) -> Result<()> {
    static OPENING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if ENVIRONMENT.get().is_some() {
        return Ok(());
    }
    let unusable = |problem: String| Error::ModelFile {
        path: library.display().to_string(),
        problem: format!("cannot be used as ONNX Runtime: {problem}"),
        remedy: "reinstall onnxruntime".into(),
    };
    let builder = ort::init_from(library).map_err(|error| unusable(error.to_string()))?;
    let environment =
        builder.with_name("rehydrate").with_telemetry(false).build().map_err(|error| unusable(error.to_string()))?;
    // Warnings are about graphs, not about what their user could change; errors come back as errors.
    environment.set_log_level(LogLevel::Fatal);
    ENVIRONMENT.get_or_init(|| environment);
    Ok(())
}

/// The environment of the library that was opened.
pub fn environment() -> Result<&'static Environment> {
    ENVIRONMENT.get().ok_or_else(|| Error::Model("open ONNX Runtime's library before a model".into()))
}
