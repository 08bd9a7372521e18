//! What users lay down in plain prose, for Python.
use pyo3::prelude::*;
use rehydrate_core::analysis::directives::{DirectiveSpan, directive_spans};

use crate::convert::Text;
use crate::errors::detached;

/// Where it begins and ends, in characters, its strength, whether it is plain, and the words of its subject.
type Found = (usize, usize, u32, bool, Vec<u32>);

/// The directives of a text.
#[pyfunction]
pub fn directives(py: Python<'_>, text: Text) -> PyResult<Vec<Found>> {
    detached(py, || {
        let text = text.as_str();
        let (mut bytes, mut chars) = (0, 0);
        let mut found = Vec::new();
        for DirectiveSpan { range, strength, is_plain, subject } in directive_spans(text) {
            let start = chars + text[bytes..range.start].chars().count();
            (bytes, chars) = (range.end, start + text[range].chars().count());
            found.push((start, chars, strength, is_plain, subject));
        }
        Ok(found)
    })
}
