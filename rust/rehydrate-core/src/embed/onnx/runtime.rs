//! ONNX Runtime in this process: its library, its one environment, the machine's instructions it computes with.
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
/// [`Error::ModelFile`] if it isn't such a library, or too old. One that is damaged in the middle can crash the
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
    // Warnings are about graphs, not about things that the user could change. Errors come back as errors.
    environment.set_log_level(LogLevel::Fatal);
    ENVIRONMENT.get_or_init(|| environment);
    Ok(())
}

/// The environment of the library that was opened.
pub fn environment() -> Result<&'static Environment> {
    ENVIRONMENT.get().ok_or_else(|| Error::Model("open ONNX Runtime's library before a model".into()))
}

/// The widest instructions of this machine that change what an int8 model computes: part of a space's name.
#[must_use]
pub fn isa() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512vnni") {
            "avx512vnni"
        } else if std::is_x86_feature_detected!("avxvnni") {
            "avxvnni"
        } else if std::is_x86_feature_detected!("avx512bw") {
            "avx512"
        } else if std::is_x86_feature_detected!("avx2") {
            "avx2"
        } else {
            "x86-64"
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        if std::arch::is_aarch64_feature_detected!("i8mm") {
            "i8mm"
        } else if std::arch::is_aarch64_feature_detected!("dotprod") {
            "dotprod"
        } else {
            "neon"
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        std::env::consts::ARCH
    }
}
