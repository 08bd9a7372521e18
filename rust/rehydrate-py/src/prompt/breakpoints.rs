//! The cache breakpoints of a prompt's prefix.
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};
use rehydrate_core::model_names::{CachePoints, cache_points_of};
use rehydrate_core::prompt_cache::MAX_MARKS;

use crate::exit::Running;
use crate::interned::{interned, record};
use crate::layout::history::{History, Tokens, index_in};
use crate::reading::{Conversation, is_list};
use crate::writing::marked;

/// At most four ends of static parts, in the order of the prompt, each after enough tokens to be cached.
///
/// They are, by importance: the last history entry that the next prompt has too; the end of the system prompt, or of the tools;
/// the entry where the last prompt ended, because a cache looks back over 20 blocks only, and one turn may have more; the end of
/// the other static sections. `own` are the marks in the caller's entries and tools.
/// A model of Bedrock's gets them where it takes them.
#[pyfunction]
pub fn placed_breakpoints<'py>(
    ir: &Bound<'py, PyAny>,
    rows: &Bound<'py, Conversation>,
    provider: &str,
    model: &str,
    minimum_prefix: Tokens,
    own: Vec<Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyString>>> {
    let _running = Running::begin();
    let py = ir.py();
    let points = if provider == "bedrock" { cache_points_of(model) } else { CachePoints::Anywhere };
    if points == CachePoints::Nowhere {
        return Ok(Vec::new());
    }
    let is_anywhere = points == CachePoints::Anywhere;
    let history = History::of(ir.getattr(interned!(py, "history"))?)?;
    let sections: Vec<Section<'py>> = ir.getattr(interned!(py, "sections"))?.extract()?;
    let tools: Vec<Bound<'py, PyAny>> = ir.getattr(interned!(py, "tools"))?.extract()?;
    let leading = if history.tokens.is_empty() { 0 } else { rows.get().leading_system() };

    let tokens = |section: &&Section<'py>| section.tokens.unwrap_or_default();
    let (statics, inserted): (Vec<_>, Vec<_>) = sections.iter().partition(|section| section.is_static);
    let (system, others): (Vec<_>, Vec<_>) = statics.into_iter().partition(|section| section.is_system);
    let mut of_tools: Tokens = 0;
    for tool in &tools {
        of_tools += tool.getattr(interned!(py, "tokens"))?.extract::<Option<Tokens>>()?.unwrap_or_default();
    }
    let of_system = of_tools + history.tokens_of(0..leading)? + system.iter().map(tokens).sum::<Tokens>();
    let of_statics = of_system + others.iter().map(tokens).sum::<Tokens>();
    // The prefix that ends with this entry, or with the last before it that can have a mark.
    let up_to = |row: Option<usize>| -> PyResult<Option<Prefix<'py>>> {
        let Some(row) = row else { return Ok(None) };
        for row in (leading..=row).rev() {
            let entry = history.entries.get_item(row)?;
            let is_fit = rows.get().__contains__(row) && (is_anywhere || !rows.get().uses_tools(row));
            if is_fit && can_be_marked(&entry, &history.format, provider)? {
                let index = history.entry_index(row)? as i64;
                let before = inserted.iter().filter(|section| section.anchor.is_some_and(|anchor| anchor <= index));
                let tokens = of_statics + history.tokens_of(leading..row + 1)? + before.map(tokens).sum::<Tokens>();
                return Ok(Some((tokens, history.entry_id(row)?.cast_into()?)));
            }
        }
        Ok(None)
    };
    let end_of_system = match system.last() {
        _ if leading > 0 => Some(history.entry_id(leading - 1)?.cast_into()?),
        Some(section) => Some(section.id.clone()),
        None => (is_anywhere && !tools.is_empty()).then(|| interned!(py, "tools").clone()),
    };
    // A dynamic section without an anchor is before the last user turn, so all after it moves.
    let (end, earlier) = rows.get().shared_ends(inserted.iter().any(|section| section.anchor.is_none()));
    let wanted = [
        up_to(end)?,
        end_of_system.map(|id| (of_system, id)),
        up_to(earlier)?,
        others.last().map(|section| (of_statics, section.id.clone())),
    ];

    let mut ends: Vec<Bound<'py, PyString>> = Vec::new();
    for (tokens, id) in wanted.into_iter().flatten() {
        if tokens >= minimum_prefix && !ends.iter().any(|known| known.as_any().eq(&id).unwrap_or(false)) {
            ends.push(id);
        }
    }
    ends.truncate(if has_long_lived(&own)? { 0 } else { MAX_MARKS.saturating_sub(own.len()) });
    let place = |id: &Bound<'py, PyString>| {
        let before = std::iter::once(interned!(py, "tools")).chain(system.iter().chain(&others).map(|each| &each.id));
        let place = before.clone().position(|each| each.as_any().eq(id).unwrap_or(false));
        place.unwrap_or_else(|| before.count() + index_in(id).unwrap_or_default())
    };
    ends.sort_by_key(place);
    Ok(ends)
}

/// The tokens of a prefix, and the id of its last part.
type Prefix<'py> = (Tokens, Bound<'py, PyString>);

record! {
    struct Section<'py> {
        id: Bound<'py, PyString>,
        tokens: Option<Tokens>,
        anchor: Option<i64>,
        is_static: bool,
        is_system: bool,
    }
}

/// Whether a mark of the caller has a long time to live. Such marks must come first: a caller who sets one sets them
/// all.
fn has_long_lived(own: &[Bound<'_, PyAny>]) -> PyResult<bool> {
    for mark in own {
        let Ok(mark) = mark.cast::<PyMapping>() else { continue };
        let lifetime = mark.call_method1("get", ("ttl",))?;
        if !lifetime.is_none() && !lifetime.eq("5m")? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an entry has a block that can hold a mark.
fn can_be_marked(entry: &Bound<'_, PyAny>, format: &str, provider: &str) -> PyResult<bool> {
    let field = |name: &str| entry.call_method1("get", (name,));
    if format == "claude_code" {
        let kind = field("type")?;
        let message = if kind.eq("user")? || kind.eq("assistant")? { field("message")? } else { return Ok(false) };
        return Ok(message.cast::<PyMapping>().is_ok() && can_be_marked(&message, "anthropic", provider)?);
    }
    if !matches!(format, "anthropic" | "bedrock") {
        return Ok(format != provider || marked(format, entry)?.is_some());
    }
    let is_fit = format != "bedrock" || is_list(&field("content")?);
    Ok(is_fit && marked(format, entry)?.is_some())
}
