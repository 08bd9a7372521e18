//! The first difference between a prompt and the one that was sent before it.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rustc_hash::FxHashSet;

use super::Layout;
use super::history::{History, index_in};
use crate::exit::Running;
use crate::interned::interned;

/// The row of the first entry after a change. None if there is none.
///
/// With the prompt that was sent, a change is the first segment that differs from it. Without it, a change is the first entry
/// that prune left out.
pub fn first_change<'py>(
    layout: &Layout,
    ir: &Bound<'py, PyAny>,
    sent: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<usize>> {
    let py = ir.py();
    let history = History::of(ir.getattr(interned!(py, "history"))?)?;
    let Some(sent) = sent else {
        return match first_pruned(ir)? {
            Some(index) => history.row_from(index as i64 + 1),
            None => Ok(None),
        };
    };
    let segments = layout.segments.bind(py);
    let was: Bound<'py, PyTuple> = sent.getattr(interned!(py, "segments"))?.cast_into()?;
    let is_same = sent.getattr(interned!(py, "provider"))?.eq(&layout.provider)?;
    let same = shared(&was, 0, segments, 0)?;
    if same == was.len() && is_same {
        return Ok(None);
    }
    if is_same
        && layout.provider == "anthropic"
        && let Some(summary) = new_summary(ir, sent)?
        && only_swaps(layout, &summary, sent, &was, same)?
    {
        let metadata = summary.getattr(interned!(py, "metadata"))?;
        let limit: i64 = metadata.call_method1("get", ("thinking_valid_until", 0))?.extract()?;
        return history.row_from(limit);
    }
    let mut after = FxHashSet::default();
    for segment in segments.iter().skip(same) {
        after.extend(index_in(&id_of(&segment)?));
    }
    for row in 0..history.entries.len() {
        if after.contains(&history.entry_index(row)?) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// The first difference of two prompts, of which these segments are left, and the number of tokens of the second that
/// are in the first too.
#[pyfunction]
pub fn prompt_break<'py>(
    py: Python<'py>,
    was: Vec<Bound<'py, PyAny>>,
    now: Vec<Bound<'py, PyAny>>,
) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
    let _running = Running::begin();
    let what = first_difference(&was, &now)?;
    let mut tokens = 0_i64.into_pyobject(py)?.into_any();
    let counts = PyDict::new(py);
    let count_of =
        |digest: &Bound<'py, PyAny>| counts.get_item(digest)?.map_or(Ok(0), |count| count.extract::<usize>());
    for segment in &was {
        let digest = digest_of(segment)?;
        counts.set_item(&digest, count_of(&digest)? + 1)?;
    }
    for segment in &now {
        let digest = digest_of(segment)?;
        if let Some(fewer) = count_of(&digest)?.checked_sub(1) {
            counts.set_item(digest, fewer)?; // what both have, each as often as both have it
            tokens = tokens.add(segment.getattr(interned!(py, "tokens"))?)?;
        }
    }
    Ok((what, tokens))
}

fn first_difference<'py>(was: &[Bound<'py, PyAny>], now: &[Bound<'py, PyAny>]) -> PyResult<&'static str> {
    let Some(first) = was.first() else { return Ok("inserted") };
    let Some(other) = now.first() else { return Ok("removed") };
    let has = |segments: &[Bound<'py, PyAny>], name: &str, of: &Bound<'py, PyAny>| {
        let wanted = of.getattr(name)?;
        for segment in segments {
            if segment.getattr(name)?.eq(&wanted)? {
                return Ok(true);
            }
        }
        PyResult::Ok(false)
    };
    let (mut stays, mut was_there) = (has(now, "digest", first)?, has(was, "digest", other)?);
    if !stays && !was_there {
        if first.getattr("id")?.eq(other.getattr("id")?)? {
            return Ok("changed");
        }
        // Names outlive contents: another digest may still be the same section.
        (stays, was_there) = (has(now, "id", first)?, has(was, "id", other)?);
        if stays == was_there {
            return Ok("replaced");
        }
    }
    Ok(match (stays, was_there) {
        (true, true) => "reordered",
        (true, false) => "inserted",
        _ => "removed",
    })
}

/// The lowest index of an entry that prune left out.
fn first_pruned(ir: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let mut first = None;
    for each in ir.getattr("meta")?.getattr("dropped")?.try_iter()? {
        let each = each?;
        if each.getattr("by")?.eq("prune")? {
            let index = index_in(each.getattr("section")?.cast()?);
            first = first.into_iter().chain(index).min();
        }
    }
    Ok(first)
}

/// Anthropic's own summary, if it was not in the prompt that was sent.
fn new_summary<'py>(ir: &Bound<'py, PyAny>, sent: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let sections = interned!(ir.py(), "sections");
    for section in ir.getattr(sections)?.try_iter()? {
        let section = section?;
        if !section.getattr(interned!(ir.py(), "native_to"))?.eq("anthropic")? {
            continue;
        }
        for before in sent.getattr("ir")?.getattr(sections)?.try_iter()? {
            if before?.is(&section) {
                return Ok(None);
            }
        }
        return Ok(Some(section));
    }
    Ok(None)
}

/// Whether everything after the summary followed, in the sent prompt, right after the messages that it summarises.
///
/// Then the API accepts the thinking after them
/// (<https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks>).
fn only_swaps<'py>(
    layout: &Layout,
    summary: &Bound<'py, PyAny>,
    sent: &Bound<'py, PyAny>,
    was: &Bound<'py, PyTuple>,
    same: usize,
) -> PyResult<bool> {
    let (py, head) = (summary.py(), layout.system);
    let (segments, values) = (layout.segments.bind(py), layout.values.bind(py));
    let start = head + summary.getattr("content")?.len()?;
    if same != head || start >= segments.len() {
        return Ok(false);
    }
    let first = id_of(&segments.get_item(start)?)?;
    let mut position = head;
    for (at, segment) in was.iter().enumerate() {
        if id_of(&segment)?.as_any().eq(&first)? {
            position = at;
            break;
        }
    }
    if position <= head || shared(was, position, segments, start)? != was.len() - position {
        return Ok(false);
    }
    let role = interned!(py, "role");
    let before = sent.getattr("messages")?.get_item(position - head - 1)?;
    before.get_item(role)?.ne(values.get_item(start)?.get_item(role)?)
}

/// The number of segments from these places on that are the same in both, by their digests.
fn shared<'py>(
    one: &Bound<'py, PyTuple>,
    from_one: usize,
    other: &Bound<'py, PyList>,
    from_other: usize,
) -> PyResult<usize> {
    let mut same = 0;
    for (one, other) in one.iter().skip(from_one).zip(other.iter().skip(from_other)) {
        // Nearly all segments of the next prompt are the same objects.
        if !one.is(&other) && digest_of(&one)?.ne(digest_of(&other)?)? {
            break;
        }
        same += 1;
    }
    Ok(same)
}

fn digest_of<'py>(segment: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    segment.getattr(interned!(segment.py(), "digest"))
}

fn id_of<'py>(segment: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    Ok(segment.getattr(interned!(segment.py(), "id"))?.cast_into()?)
}
