//! The access rules of the proxy, for Python.
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rehydrate_core::door;

type Header<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

fn bytes<'a>(headers: &'a [Header<'_>]) -> Vec<door::Header<'a>> {
    headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

/// The status and the reason for a request that does not go on. None if it does.
#[pyfunction]
pub fn refused_request(client: Option<&str>, path: &[u8], headers: Vec<Header<'_>>) -> Option<(u16, &'static str)> {
    door::refusal(client, path, &bytes(&headers))
}

/// Whether a request is from this machine, and not from a page of another site.
#[pyfunction]
pub fn is_own_request(client: Option<&str>, headers: Vec<Header<'_>>) -> bool {
    client.is_some_and(door::is_near) && door::is_our_name(&bytes(&headers))
}

/// The headers that go on, in lower case: without those of one hop, of the proxy, and `dropped`.
#[pyfunction]
pub fn end_to_end<'py>(
    py: Python<'py>,
    headers: Vec<Header<'py>>,
    dropped: Vec<Bound<'py, PyBytes>>,
) -> Vec<Header<'py>> {
    let dropped: Vec<&[u8]> = dropped.iter().map(|name| name.as_bytes()).collect();
    let kept = door::end_to_end(&bytes(&headers), &dropped);
    kept.iter().map(|(name, value)| (PyBytes::new(py, name), PyBytes::new(py, value))).collect()
}
