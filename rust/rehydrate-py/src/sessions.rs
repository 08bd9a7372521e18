//! Transcripts of Claude Code and Codex, line by line: their words, as texts for a search and as entries to read.
mod clock;
mod compacted;
mod entries;
mod file;
mod listing;
mod outline;
mod part;
mod record;
mod said;
mod settings;
mod tail;

pub use compacted::{put_back, used_names};
pub use entries::said_entries;
pub use file::TranscriptReader;
pub use listing::{SessionFile, transcripts};
pub use outline::SessionOutline;
pub use record::{SessionPart, SessionRecord, read_session};
pub use said::{said_in, words_of_user};
pub use settings::{settings_with_hooks, settings_without_hooks};
pub use tail::{known_ancestor, last_summary, last_turns};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rehydrate_core::sessions;

use crate::errors::detached;
use crate::exit::Running;
use crate::interned::Interned;
use crate::reading::{Fields, text_of};
use crate::unicode::as_unicode;

/// The beginning of a text without secrets, as UTF-8 can hold it.
#[pyfunction]
pub fn clean_text(text: &Bound<'_, PyString>, max_chars: usize) -> PyResult<String> {
    let _running = Running::begin();
    let whole = utf8(text)?;
    detached(text.py(), || Ok(sessions::clean(&whole, max_chars)))
}

/// A string as UTF-8, with one other character in place of each half of a surrogate pair.
fn utf8(text: &Bound<'_, PyString>) -> PyResult<String> {
    match text.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => as_unicode(text)?.extract(),
    }
}

/// The text under a key of a block, an item or a line.
fn id_of(of: &Bound<'_, PyAny>, key: &str) -> PyResult<Option<String>> {
    let id = Fields::needed(of, 0, String::new)?.text(&PyString::new(of.py(), key))?;
    Ok(id.map(|id| text_of(&id).into_owned()))
}

/// A copy of a mapping with these keys alone, null too.
fn copied<'py>(from: Fields<'_, 'py>, keys: &'static [Interned]) -> PyResult<Bound<'py, PyDict>> {
    let py = from.as_any().py();
    let made = PyDict::new(py);
    for key in keys {
        let key = key.get(py);
        if from.has(key)? {
            made.set_item(key, from.as_any().get_item(key)?)?;
        }
    }
    Ok(made)
}
