//! What users lay down in plain prose, for Python.
use pyo3::prelude::*;
use rehydrate_core::analysis::directives::{DirectiveSpan, directive_spans};

use crate::convert::{Text, in_chars};
use crate::errors::detached;

/// Where it begins and ends, in characters, its strength, whether it is plain, and the words of its subject.
type Found = (usize, usize, u32, bool, Vec<u32>);

/// The directives of a text.
#[pyfunction]
pub fn directives(py: Python<'_>, text: Text) -> PyResult<Vec<Found>> {
    detached(py, || {
        let found = directive_spans(text.as_str());
        let places = in_chars(text.as_str(), found.iter().map(|one| one.range.clone()));
        let found =
            found.into_iter().zip(places).map(|(DirectiveSpan { strength, is_plain, subject, .. }, (start, end))| {
                (start, end, strength, is_plain, subject)
            });
        Ok(found.collect())
    })
}
