//! The names in what is left out of a conversation, for Python.
use pyo3::prelude::*;
use rehydrate_core::conversation::PieceKind;
use rehydrate_core::conversation::outline;
use rehydrate_core::error::{Error, Result};

use crate::convert::Text;
use crate::errors::detached;

/// A name, the last text that has it, the last tool input that has it, and whether people speak of it.
type Found = (String, usize, Option<usize>, bool);

/// The best `limit` of the names that no shown text has.
#[pyfunction]
pub fn names(
    py: Python<'_>,
    texts: Vec<Text>,
    kinds: Vec<u8>,
    units: Vec<usize>,
    shown: Vec<bool>,
    limit: usize,
) -> PyResult<Vec<Found>> {
    detached(py, || {
        let columns = [texts.len(), kinds.len(), units.len(), shown.len()];
        if columns.iter().any(|&n| n != columns[0]) || !units.is_sorted() {
            return Err(Error::Argument(format!("columns of different lengths, or out of order: {columns:?}")));
        }
        let texts = texts.iter().zip(&kinds).zip(units.iter().zip(&shown));
        let texts = texts
            .map(|((text, &kind), (&unit, &shown))| {
                Ok(outline::Text { text: text.as_str(), kind: PieceKind::try_from(kind)?, unit, shown })
            })
            .collect::<Result<Vec<_>>>()?;
        let found = outline::names(&texts, limit);
        Ok(found.into_iter().map(|name| (name.name, name.last, name.acted, name.spoken)).collect())
    })
}
