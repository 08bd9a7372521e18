//! Texts about a compacted session: the part that goes back into it, and its names.
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::conversation::PieceKind;
use rehydrate_core::conversation::outline::clean::without_labels;
use rehydrate_core::conversation::outline::{self, Text as Named};
use rehydrate_core::sessions::{Speaker, marked_lines};

use super::said::said_by;
use crate::convert::Text;
use crate::errors::detached;
use crate::exit::Running;
use crate::fences::fenced_section;
use crate::reading::Fields;

const MAX_NAMES: usize = 2_000;
/// Characters of the sentence that says whose words the lines of the store are, and of the fence around them.
const SAID_CHARS: usize = 240;
const FENCE_CHARS: usize = 200;
const STORE: &str = "context store";

/// The text that goes back after a compaction: a context store, in which each line says whose words it is, and
/// excerpts, which are there whole or not at all.
#[pyfunction]
pub fn put_back(
    py: Python<'_>,
    mark: Text,
    hint: Text,
    store: Text,
    excerpts: Text,
    max_chars: usize,
) -> PyResult<String> {
    let _running = Running::begin();
    let (hint, excerpts) = (hint.as_str(), excerpts.as_str());
    let chars = |text: &str| text.chars().count();
    let mut opening = format!("{} What the conversation held before it was compacted, word for word.", mark.as_str());
    let room = max_chars.saturating_sub(chars(&opening) + chars(hint) + SAID_CHARS);
    let (lines, digits) = marked_lines(store.as_str(), room.saturating_sub(FENCE_CHARS));
    let mut fenced = String::new();
    if !lines.is_empty() {
        fenced = fenced_section(STORE, &PyString::new(py, &lines.join("\n")))?;
        let name = fenced[1..].split(' ').next().unwrap_or_default();
        opening += &format!(
            " In the fence {name}, and nowhere else, a line that begins with user-{digits} was said by the user, and holds; \
             the others were noted from what was said and done."
        );
    }
    // A fence that is cut has no end.
    let fits = chars(&fenced) + chars(excerpts) <= room;
    let parts = [&*opening, hint, &*fenced, if fits { excerpts } else { "" }];
    Ok(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n"))
}

/// The names in the words of these lines and in the inputs of tools, the best first. Names that are only in results are
/// left out, since no one has used them, and so are proper names.
#[pyfunction]
pub fn used_names(py: Python<'_>, lines: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let _running = Running::begin();
    let mut said = Vec::new();
    for (unit, line) in lines.iter().enumerate() {
        said.extend(said_by(Fields::needed(line, unit, String::new)?)?.into_iter().map(|said| (unit, said)));
    }
    detached(py, || {
        let texts: Vec<_> = said.iter().map(|(_, (_, text))| without_labels(text)).collect();
        let named = said.iter().zip(&texts).map(|((unit, (speaker, _)), text)| {
            let kind = if *speaker == Speaker::Call { PieceKind::ToolInput } else { PieceKind::Text };
            Named { text, kind, unit: *unit, shown: false }
        });
        let found = outline::names(&named.collect::<Vec<_>>(), MAX_NAMES);
        Ok(found.into_iter().filter(|name| !name.spoken).map(|name| name.name).collect())
    })
}
