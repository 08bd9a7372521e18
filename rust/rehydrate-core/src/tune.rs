//! Temporary: constants read from the environment while they are chosen.
pub fn tune(name: &str, usual: f64) -> f64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}
