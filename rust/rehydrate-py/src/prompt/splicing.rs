//! Of all found sections, those that show something new and fit.
use std::cell::OnceCell;
use std::cmp::Ordering;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet, PyString, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::convert::bytes_of;
use crate::exit::Running;
use crate::interned::{interned, record};
use crate::layout::history::{History, Tokens, index_in};
use crate::reading::Conversation;

type Any<'py> = Bound<'py, PyAny>;

/// Characters. A shorter text may be in another word for word by chance.
pub const SHORTEST_QUOTE: usize = 40;
/// The cost of a day and of a time. Each is written only if it differs from the item before.
const DAY_TOKENS: Tokens = 9;
const TIME_TOKENS: Tokens = 4;
/// At most, the cost of the heading of a section with a short name in a result.
const HEADING_TOKENS: Tokens = 11 + DAY_TOKENS + TIME_TOKENS;
const SHORT_NAME: usize = 6;

record! {
    struct Section<'py> {
        id: Bound<'py, PyString>,
        content: Any<'py>,
        provenance: Provenance<'py>,
        tokens: Option<Tokens>,
        priority: Any<'py>,
        relevance: Any<'py>,
        handle: Option<Bound<'py, PyString>>,
    }
}

record! {
    struct Provenance<'py> {
        items: Vec<Any<'py>>,
        origin: Bound<'py, PyString>,
        time: Any<'py>,
    }
}

impl<'py> Section<'py> {
    /// Its text, if it is long enough to be in another by more than chance.
    fn quote(&self) -> PyResult<Option<Bound<'py, PyString>>> {
        if !self.content.is_instance_of::<PyString>() {
            return Ok(None);
        }
        let quote = self.content.call_method0(interned!(self.content.py(), "strip"))?.cast_into::<PyString>()?;
        Ok(if quote.len()? >= SHORTEST_QUOTE { Some(quote) } else { None })
    }

    /// Its cost in a result, with its heading.
    fn late_tokens(&self) -> PyResult<Tokens> {
        let id = &self.id;
        let parts = id.call_method1(interned!(id.py(), "partition"), (":",))?;
        let own = parts.get_item(2)?.len()?;
        let name = if own > 0 { own } else { id.len()? };
        let handle = self.handle.as_ref().map_or(Ok(0), |handle| handle.len())?;
        Ok(self.tokens.unwrap_or_default() + heading(name + self.provenance.origin.len()? + handle))
    }

    /// The year, month and day, and the hour and minute.
    fn moment(&self) -> PyResult<Option<([i64; 3], [i64; 2])>> {
        let time = &self.provenance.time;
        if time.is_none() {
            return Ok(None);
        }
        let part = |name: &str| -> PyResult<i64> { time.getattr(name)?.extract() };
        Ok(Some(([part("year")?, part("month")?, part("day")?], [part("hour")?, part("minute")?])))
    }

    /// Its cost after another one, whose day and time are not repeated.
    fn tokens_after(&self, before: Option<&Self>) -> PyResult<Tokens> {
        let tokens = self.late_tokens()?;
        let Some((day, time)) = self.moment()? else { return Ok(tokens - DAY_TOKENS - TIME_TOKENS) };
        Ok(match before.map_or(Ok(None), Self::moment)? {
            Some((last, at)) if last == day => tokens - DAY_TOKENS - if at == time { TIME_TOKENS } else { 0 },
            _ => tokens,
        })
    }
}

/// At most, the cost of a heading whose names have this many characters. Two of a handle are a token.
fn heading(letters: usize) -> Tokens {
    HEADING_TOKENS + (letters.saturating_sub(SHORT_NAME) / 2) as Tokens
}

/// At most, the cost of a section's heading in a result that contains these names.
#[pyfunction]
#[pyo3(signature = (*names))]
pub fn heading_tokens(names: Vec<Bound<'_, PyString>>) -> PyResult<Tokens> {
    let lengths = names.iter().map(|name| name.len());
    Ok(heading(lengths.sum::<PyResult<usize>>()?))
}

/// The cost of a section in a result, with its heading.
#[pyfunction]
pub fn late_tokens(section: &Any<'_>) -> PyResult<Tokens> {
    let _running = Running::begin();
    section.extract::<Section<'_>>()?.late_tokens()
}

/// The section with these items of its own in its provenance.
#[pyfunction]
pub fn with_items<'py>(section: &Any<'py>, items: Vec<Any<'py>>) -> PyResult<Any<'py>> {
    let _running = Running::begin();
    let py = section.py();
    let provenance = section.getattr(interned!(py, "provenance"))?;
    if provenance.getattr(interned!(py, "items"))?.len()? == items.len() {
        return Ok(section.clone());
    }
    let provenance = replaced(&provenance, &[("items", PyTuple::new(py, items)?.into_any())])?;
    replaced(section, &[("provenance", provenance)])
}

/// `dataclasses.replace`.
fn replaced<'py>(record: &Any<'py>, values: &[(&str, Any<'py>)]) -> PyResult<Any<'py>> {
    let (py, changes) = (record.py(), PyDict::new(record.py()));
    for (name, value) in values {
        changes.set_item(name, value)?;
    }
    py.import("dataclasses")?.call_method("replace", (record,), Some(&changes))
}

/// The sections that are new and fit, and those that are new and do not, each in its order.
type Chosen<'py> = (Vec<Any<'py>>, Vec<Any<'py>>);

/// Choose whole sections by priority, relevance and order, as many as fit the budget.
///
/// `visible` are the items that the model sees, `texts` those of the sections that it sees, and `messages` those of the
/// messages.
#[pyfunction]
pub fn spliced<'py>(
    found: Vec<Any<'py>>,
    visible: &Any<'py>,
    texts: Vec<Bound<'py, PyString>>,
    messages: Vec<Bound<'py, PyString>>,
    budget_tokens: Tokens,
) -> PyResult<Chosen<'py>> {
    let _running = Running::begin();
    let py = visible.py();
    let (seen, sections) = (PySet::empty(py)?, PySet::new(py, &texts)?);
    for item in visible.try_iter()? {
        seen.add(item?)?;
    }
    let mut shown = messages.iter().chain(&texts).map(bytes_of).collect::<PyResult<Vec<_>>>()?;
    let mut new: Vec<(Any<'py>, Section<'py>)> = Vec::new();
    for whole in found {
        let section: Section<'py> = whole.extract()?;
        let (items, text) = (&section.provenance.items, section.content.str()?);
        let mut fresh = Vec::new();
        for item in items {
            if !seen.contains(item)? {
                fresh.push(item.clone());
            }
        }
        let is_known_by_text = items.is_empty() || section.handle.is_some();
        if (!items.is_empty() && fresh.is_empty()) || (is_known_by_text && sections.contains(&text)?) {
            continue;
        }
        if let Some(quote) = section.quote()? {
            let quote = bytes_of(&quote)?;
            let quote = memchr::memmem::Finder::new(&quote);
            if shown.iter().any(|text| quote.find(text).is_some()) {
                continue;
            }
        }
        fresh.iter().try_for_each(|item| seen.add(item))?;
        let whole = with_items(&whole, fresh)?;
        // A section that cannot fit must not make a part of it count as visible.
        if section.late_tokens()? <= budget_tokens {
            shown.push(bytes_of(&text)?.into_owned().into());
        }
        new.push((whole, section));
    }
    let mut ranked: Vec<(i64, f64, usize)> = Vec::new();
    for (place, (_, section)) in new.iter().enumerate() {
        ranked.push((section.priority.extract()?, section.relevance.extract()?, place));
    }
    ranked.sort_by(|one, other| {
        other.0.cmp(&one.0).then(other.1.partial_cmp(&one.1).unwrap_or(Ordering::Equal)).then(one.2.cmp(&other.2))
    });
    let (mut left, mut kept): (Tokens, Vec<usize>) = (budget_tokens, Vec::new()); // ascending
    for (.., place) in ranked {
        let at = kept.partition_point(|&other| other < place);
        let before = at.checked_sub(1).map(|last| &new[kept[last]].1);
        let section = &new[place].1;
        let mut tokens = section.tokens_after(before)?;
        if let Some(&next) = kept.get(at) {
            // The next one's day and time may now be needed, or not any more.
            let after = &new[next].1;
            tokens += after.tokens_after(Some(section))? - after.tokens_after(before)?;
        }
        if tokens <= left {
            kept.insert(at, place);
            left -= tokens;
        }
    }
    let is_kept: FxHashSet<usize> = kept.into_iter().collect();
    let (mut fits, mut rest) = (Vec::new(), Vec::new());
    for (place, (section, _)) in new.into_iter().enumerate() {
        if is_kept.contains(&place) { fits.push(section) } else { rest.push(section) }
    }
    Ok((fits, rest))
}

/// The place of a section of a prompt, and whether it may go. Most of it is computed in Python.
struct Standing {
    anchor: Option<i128>,
    min_tokens: Tokens,
    is_static: bool,
    is_system: bool,
    must_stay_whole: bool,
}

impl Standing {
    fn of(section: &Any<'_>) -> PyResult<Self> {
        let py = section.py();
        Ok(Self {
            anchor: section.getattr(interned!(py, "anchor"))?.extract()?,
            min_tokens: section.getattr(interned!(py, "min_tokens"))?.extract()?,
            is_static: section.getattr(interned!(py, "is_static"))?.extract()?,
            is_system: section.getattr(interned!(py, "is_system"))?.extract()?,
            must_stay_whole: section.getattr(interned!(py, "must_stay_whole"))?.extract()?,
        })
    }
}

/// The kept sections, the records of the removed ones, and the ids of the changed ones.
type Deduplicated<'py> = (Vec<Any<'py>>, Vec<Any<'py>>, Vec<Any<'py>>);

/// Leave out the sections of a prompt that show nothing new, as `deduplicate` in `rehydrate.prompt.splicing` describes.
///
/// `positions` has the history's entries by their own ids, `last` the sections that the last prompt kept, by their ids.
#[pyfunction]
pub fn deduplicated<'py>(
    ir: &Any<'py>,
    positions: &Bound<'py, PyDict>,
    last: &Bound<'py, PyDict>,
) -> PyResult<Deduplicated<'py>> {
    let _running = Running::begin();
    let py = ir.py();
    let mut sections: Vec<(usize, Any<'py>, Section<'py>, Standing)> = Vec::new();
    for (place, section) in ir.getattr(interned!(py, "sections"))?.try_iter()?.enumerate() {
        let section = section?;
        let (read, standing) = (section.extract()?, Standing::of(&section)?);
        sections.push((place, section, read, standing));
    }
    // The order in which the model reads them: the system, other static sections, dynamic ones by their anchor.
    sections.sort_by_key(|(.., standing)| match standing.anchor {
        _ if standing.is_static => (u8::from(!standing.is_system), 0),
        anchor => (2, anchor.unwrap_or(i128::MAX)),
    });
    let mut shown = Shown::of(ir, positions.clone())?;
    let mut dropped = Vec::new();
    let mut changed = Vec::new();
    for (place, mut whole, section, standing) in sections {
        let items = &section.provenance.items;
        let mut fresh = Vec::new();
        let (all, visible) = (PySet::empty(py)?, PySet::empty(py)?);
        for item in items {
            all.add(item)?;
            if shown.by_item.contains(item)? || shown.is_entry_before(item, &standing)? {
                visible.add(item)?;
            } else {
                fresh.push(item.clone());
            }
        }
        let namesake = shown.by_id.get_item(&section.id)?.map(|place| place.extract::<usize>()).transpose()?;
        let repeats =
            |place| -> PyResult<bool> { shown.kept(place).getattr(interned!(py, "content"))?.eq(&section.content) };
        let says_nothing_new =
            (!items.is_empty() && visible.len() == all.len()) || namesake.map_or(Ok(false), repeats)?;
        // A section with an anchor was in the last prompt, after the same entries.
        let is_checked = says_nothing_new
            || (standing.anchor.is_some() && last.get_item(&section.id)?.is_some_and(|last| last.is(&whole)));
        let quoted_in = if is_checked { None } else { shown.quoted_in(&section, &standing)? };
        let must_stay = standing.must_stay_whole || (standing.min_tokens > 0 && namesake.is_none());
        if (says_nothing_new || quoted_in.is_some()) && !must_stay {
            let earlier = match namesake {
                None => shown.first_with(items)?,
                known => known,
            };
            let place = match earlier {
                Some(earlier) => shown.raise(earlier, &section)?,
                None => quoted_in.unwrap_or_else(|| PyString::new(py, "history").into_any()),
            };
            let reason = super::say(py, "visible in {}", (place,))?;
            let record = py.import("rehydrate.prompt.section")?.getattr("DroppedSection")?;
            dropped.push(record.call_method1("of", (&whole, reason, "deduplicate"))?);
            changed.push(section.id.into_any());
            continue;
        }
        if fresh.len() < items.len() {
            whole = with_items(&whole, fresh.clone())?;
            changed.push(section.id.clone().into_any());
        }
        let free = shown.ids.call_method1("take", (&section.id,))?;
        if !free.eq(&section.id)? {
            whole = replaced(&whole, &[("id", free.clone())])?;
            changed.push(free.clone());
        }
        shown.add(place, whole, &free, &fresh)?;
    }
    shown.sections.sort_by_key(|(place, _)| *place);
    Ok((shown.sections.into_iter().map(|(_, section)| section).collect(), dropped, changed))
}

/// The part of a prompt that the model reads before a section.
struct Shown<'py> {
    history: History<'py>,
    /// `History`
    of: Any<'py>,
    /// By the index of an entry in the caller's list its row, if it was asked for.
    rows: OnceCell<FxHashMap<usize, usize>>,
    /// By its own id, the position of an entry.
    positions: Bound<'py, PyDict>,
    /// The sections that are kept, each with its place in the prompt.
    sections: Vec<(usize, Any<'py>)>,
    /// By an item and by an id, the number of the section in `sections`.
    by_item: Bound<'py, PyDict>,
    by_id: Bound<'py, PyDict>,
    ids: Any<'py>,
}

impl<'py> Shown<'py> {
    fn of(ir: &Any<'py>, positions: Bound<'py, PyDict>) -> PyResult<Self> {
        let py = ir.py();
        let of = ir.getattr(interned!(py, "history"))?;
        let history = History::of(of.clone())?;
        Ok(Self {
            history,
            of,
            rows: OnceCell::new(),
            positions,
            sections: Vec::new(),
            by_item: PyDict::new(py),
            by_id: PyDict::new(py),
            ids: py.import("rehydrate.prompt.section")?.call_method0("free_ids")?,
        })
    }

    fn kept(&self, number: usize) -> &Any<'py> {
        &self.sections[number].1
    }

    fn add(&mut self, place: usize, section: Any<'py>, id: &Any<'py>, items: &[Any<'py>]) -> PyResult<()> {
        let number = self.sections.len();
        self.by_id.set_item(id, number)?;
        items.iter().try_for_each(|item| self.by_item.set_item(item, number))?;
        self.sections.push((place, section));
        Ok(())
    }

    /// The number of the section that shows the first of these items that any section shows.
    fn first_with(&self, items: &[Any<'py>]) -> PyResult<Option<usize>> {
        for item in items {
            if let Some(number) = self.by_item.get_item(item)? {
                return number.extract().map(Some);
            }
        }
        Ok(None)
    }

    /// Raise a kept section to the priority and the relevance of a removed one. Returns its id.
    fn raise(&mut self, number: usize, gone: &Section<'py>) -> PyResult<Any<'py>> {
        let kept = self.kept(number);
        let higher = |name: &str, other: &Any<'py>| {
            let own = kept.getattr(name)?;
            PyResult::Ok(if other.gt(&own)? { other.clone() } else { own })
        };
        let priority = higher("priority", &gone.priority)?;
        let relevance = higher("relevance", &gone.relevance)?;
        let raised = replaced(kept, &[("priority", priority), ("relevance", relevance)])?;
        let id = raised.getattr("id")?;
        self.sections[number].1 = raised;
        Ok(id)
    }

    /// Whether an entry before the section has this id.
    fn is_entry_before(&self, item: &Any<'py>, section: &Standing) -> PyResult<bool> {
        if let Some(position) = self.positions.get_item(item)? {
            return Ok(is_before(self.history.entry_index(position.extract()?)?, section));
        }
        let Some(index) = index_in(item.cast()?) else { return Ok(false) };
        Ok(self.has(index)? && is_before(index, section))
    }

    /// Whether the history has the entry with this index in the caller's list.
    fn has(&self, index: usize) -> PyResult<bool> {
        let rows = match self.rows.get() {
            Some(rows) => rows,
            None => {
                let rows = self.history.row_of_index()?;
                self.rows.get_or_init(|| rows)
            }
        };
        Ok(rows.contains_key(&index))
    }

    /// The id of an entry before the section that has all its text, word for word.
    fn quoted_in(&self, section: &Section<'py>, standing: &Standing) -> PyResult<Option<Any<'py>>> {
        let Some(quote) = section.quote()?.filter(|_| !standing.is_static) else { return Ok(None) };
        let rows = self.of.call_method1("rows_from", (0,))?;
        let Some(position) = rows.cast::<Conversation>()?.get().quoting(quote.cast()?)? else { return Ok(None) };
        let index = self.history.entry_index(position)?;
        if is_before(index, standing) { self.history.id_of(index).map(Some) } else { Ok(None) }
    }
}

fn is_before(index: usize, section: &Standing) -> bool {
    !section.is_static && section.anchor.is_none_or(|anchor| (index as i128) < anchor)
}
