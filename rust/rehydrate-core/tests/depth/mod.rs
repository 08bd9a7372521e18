//! The effort of tests that have a choice: a sample by hand, everything in CI.

/// Says whether everything is tried: `HYPOTHESIS_PROFILE=deep`, as for the tests in Python.
pub fn deep() -> bool {
    std::env::var("HYPOTHESIS_PROFILE").is_ok_and(|profile| profile == "deep")
}
