//! What users lay down in plain prose, for Python.
use pyo3::prelude::*;
use rehydrate_core::analysis::directives::directive_spans;

use crate::convert::Text;
use crate::errors::detached;

/// Where each directive of a text stands, in characters, and the words of its subject.
#[pyfunction]
pub fn directives(py: Python<'_>, text: Text) -> PyResult<Vec<(usize, usize, Vec<u32>)>> {
    detached(py, || {
        let text = text.as_str();
        let (mut bytes, mut chars) = (0, 0);
        let mut found = Vec::new();
        for (range, subject) in directive_spans(text) {
            chars += text[bytes..range.start].chars().count();
            let length = text[range.clone()].chars().count();
            found.push((chars, chars + length, subject));
            (bytes, chars) = (range.end, chars + length);
        }
        Ok(found)
    })
}
