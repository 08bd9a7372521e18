//! A prompt's table as plain text.
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::reports::aligned;

use super::say;
use crate::exit::Running;
use crate::interned::record;
use crate::layout::history::Tokens;

const ID_WIDTH: usize = 44;
const SOURCE_WIDTH: usize = 12;
const BAR_WIDTH: Tokens = 40;

/// A `PromptExplanation` as text: the budget, the rows, the sources and the passes.
#[pyfunction]
pub fn explanation_text(table: &Bound<'_, PyAny>) -> PyResult<String> {
    let _running = Running::begin();
    let py = table.py();
    let mut parts = vec![budget_lines(table)?, row_lines(&table.getattr("rows")?)?];
    let mut sources = Vec::new();
    for each in table.getattr("sources")?.try_iter()? {
        let each: Source<'_> = each?.extract()?;
        let counts = [text(&each.status), grouped(py, &each.sections)?, grouped(py, &each.tokens)?];
        sources.push(named_cells(&each.name, counts, &each.elapsed_ms, &each.detail)?);
    }
    if !sources.is_empty() {
        parts.push(aligned(&["source", "state", ">sections", ">tokens", ">ms", ""], &sources));
    }
    let mut passes = Vec::new();
    for each in table.getattr("trace")?.try_iter()? {
        let each: Pass<'_> = each?.extract()?;
        let changed = each.changed.len()?;
        let counts = [grouped(py, &each.before_tokens)?, grouped(py, &each.after_tokens)?, grouped(py, changed)?];
        let notes = PyString::new(py, "; ").call_method1("join", (each.notes,))?.cast_into()?;
        passes.push(named_cells(&each.name, counts, &each.elapsed_ms, &notes)?);
    }
    if !passes.is_empty() {
        parts.push(aligned(&["pass", ">before", ">after", ">changed", ">ms", ""], &passes));
    }
    let mut degraded = Vec::new();
    for problem in table.getattr("degraded")?.try_iter()? {
        degraded.push(format!("done without: {}", one_line(problem?.cast()?)?));
    }
    if !degraded.is_empty() {
        parts.push(degraded);
    }
    Ok(parts.iter().map(|lines| lines.join("\n")).collect::<Vec<_>>().join("\n\n"))
}

record! {
    struct Source<'py> {
        name: Bound<'py, PyString>,
        status: Bound<'py, PyString>,
        sections: Bound<'py, PyAny>,
        tokens: Bound<'py, PyAny>,
        elapsed_ms: Bound<'py, PyAny>,
        detail: Bound<'py, PyString>,
    }
}

record! {
    struct Pass<'py> {
        name: Bound<'py, PyString>,
        before_tokens: Bound<'py, PyAny>,
        after_tokens: Bound<'py, PyAny>,
        changed: Bound<'py, PyAny>,
        notes: Bound<'py, PyAny>,
        elapsed_ms: Bound<'py, PyAny>,
    }
}

record! {
    struct Row<'py> {
        kind: Bound<'py, PyString>,
        id: Bound<'py, PyString>,
        source: Bound<'py, PyString>,
        tokens: Bound<'py, PyAny>,
        reason: Bound<'py, PyString>,
        priority: Bound<'py, PyString>,
        mode: Bound<'py, PyString>,
        stability: Bound<'py, PyString>,
        position: Bound<'py, PyString>,
        trust: Bound<'py, PyAny>,
        breakpoint: bool,
        is_kept: bool,
    }
}

fn budget_lines(table: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let py = table.py();
    let number = |name: &str| -> PyResult<Tokens> { table.getattr(name)?.extract() };
    let budget = table.getattr("budget")?;
    let (soft, hard): (Tokens, Tokens) =
        (budget.getattr("soft_tokens")?.extract()?, budget.getattr("hard_tokens")?.extract()?);
    let (tokens, before) = (number("tokens")?, number("before_tokens")?);
    let share = tokens as f64 / soft as f64;
    let filled = (BAR_WIDTH * tokens) as f64 / soft as f64;
    let filled = filled.round_ties_even().clamp(0.0, BAR_WIDTH as f64);
    let bar = "#".repeat(filled as usize) + &".".repeat((BAR_WIDTH as f64 - filled) as usize);
    let line = "[{}] {:,} of {:,} tokens ({:.0%}), hard limit {:,}; {}";
    let values = (bar, tokens, soft, share, hard, table.getattr("counter")?);
    let mut lines = vec![text(&say(py, line, values)?)];
    let mut shares = Vec::new();
    for share in table.getattr("by_source")?.call_method0("items")?.try_iter()? {
        let (name, tokens): (Bound<'_, PyString>, Tokens) = share?.extract()?;
        if tokens != 0 {
            shares.push(format!("{} {}", one_line(&name)?, grouped(py, tokens)?));
        }
    }
    if !shares.is_empty() {
        lines.push(format!("by source: {}", shares.join(", ")));
    }
    if before != 0 && before != tokens {
        lines.push(format!("sources brought {} tokens", grouped(py, before)?));
    }
    Ok(lines)
}

fn row_lines(rows: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let py = rows.py();
    let names = [">#", "id", "source", ">tokens", "priority", "mode", "stable", ">trust", "place", "fate", "reason"];
    let mut cells = Vec::new();
    for (number, row) in rows.try_iter()?.enumerate() {
        let row: Row<'_> = row?.extract()?;
        let has_trust = matches!(row.kind.to_str()?, "tool" | "section" | "late_bound");
        let mark = if row.breakpoint { " BREAKPOINT" } else { "" };
        let reason = one_line(&row.reason)? + mark;
        cells.push(vec![
            if row.is_kept { number.to_string() } else { String::new() },
            clipped(&row.id, ID_WIDTH)?,
            clipped(&row.source, SOURCE_WIDTH)?,
            grouped(py, &row.tokens)?,
            text(&row.priority),
            text(&row.mode),
            text(&row.stability),
            if has_trust { text(&say(py, "{:g}", (row.trust,))?) } else { String::new() },
            text(&row.position),
            if row.is_kept { "kept".to_owned() } else { text(&row.kind) },
            reason.trim().to_owned(),
        ]);
    }
    Ok(aligned(&names, &cells))
}

/// The cells of a source or a pass: its name, its count, its time, and a note.
fn named_cells(
    name: &Bound<'_, PyString>,
    counts: [String; 3],
    elapsed_ms: &Bound<'_, PyAny>,
    words: &Bound<'_, PyString>,
) -> PyResult<Vec<String>> {
    let mut cells = vec![clipped(name, ID_WIDTH)?];
    cells.extend(counts);
    cells.extend([text(&say(name.py(), "{:.1f}", (elapsed_ms,))?), one_line(words)?]);
    Ok(cells)
}

fn grouped<'py>(py: Python<'py>, number: impl IntoPyObject<'py>) -> PyResult<String> {
    Ok(text(&say(py, "{:,}", (number,))?))
}

fn text(of: &Bound<'_, PyString>) -> String {
    of.to_string_lossy().into_owned()
}

fn clipped(of: &Bound<'_, PyString>, width: usize) -> PyResult<String> {
    let line = one_line(of)?;
    if line.chars().count() <= width {
        return Ok(line);
    }
    Ok(line.chars().take(width - 1).chain(['…']).collect())
}

/// A text without line breaks and other characters that would move the text next to it.
fn one_line(of: &Bound<'_, PyString>) -> PyResult<String> {
    if of.call_method0("isprintable")?.is_truthy()? {
        return Ok(text(of));
    }
    let mut line = String::new();
    for character in of.try_iter()? {
        let character = character?;
        let is_printable = character.call_method0("isprintable")?.is_truthy()?;
        line.push_str(if is_printable { character.extract()? } else { " " });
    }
    Ok(line)
}
