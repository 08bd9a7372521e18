//! The texts of a message compared with what others made of them.
use pyo3::prelude::*;
use rehydrate_core::excerpts::compared;

use crate::convert::Places;
use crate::errors::detached;
use crate::exit::Running;

/// The kind of a piece, and its text.
type Piece = (u8, Places);
/// A part of a text, its present form, and whether it is kept.
type Run = (String, String, bool);

/// The runs of each text, compared with the text after that is the same one, or else of its kind.
#[pyfunction]
pub fn compared_texts(py: Python<'_>, before: Vec<Piece>, after: Vec<Piece>) -> PyResult<Vec<Vec<Run>>> {
    let _running = Running::begin();
    detached(py, || {
        let (mut left, mut found) = (&after[..], Vec::new());
        for (index, (kind, text)) in before.iter().enumerate() {
            let later = &before[index + 1..];
            let is_same = |(_, other): &Piece| other.as_str() == text.as_str();
            let is_near = |(other_kind, other): &Piece| {
                other_kind == kind && !later.iter().any(|(_, later)| later.as_str() == other.as_str())
            };
            let at = left.iter().position(is_same).or_else(|| left.iter().position(is_near));
            found.push(match at {
                Some(at) => {
                    let runs = compared(text.as_str(), left[at].1.as_str());
                    left = &left[at + 1..];
                    runs.into_iter().map(|run| (run.before.to_owned(), run.after, run.is_kept)).collect()
                }
                None => vec![(text.as_str().to_owned(), String::new(), false)],
            });
        }
        Ok(found)
    })
}
