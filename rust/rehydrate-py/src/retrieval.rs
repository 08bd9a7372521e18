//! The tools by which a model asks for omitted content, for Python: the arguments of their calls, and the items in an
//! answer.
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyMapping, PyString};
use rehydrate_core::context_store::{NOT_INSTRUCTIONS, mark_of};
use rehydrate_core::excerpts::grouped;

use crate::checks::{SHOWN, listed_words, refused, shown, type_name};
use crate::convert::{bytes_of, string_of};
use crate::exit::Running;
use crate::fences::fence_attribute;
use crate::interned::{interned, record};
use crate::reading::is_space;
use crate::times::parse_time_range;

type Any<'py> = Bound<'py, PyAny>;

/// The first and the last of some lines, counted from 1. Without a last one, all that follow.
type Lines = (i64, Option<i64>);

/// A query is a question, not a document.
const MAX_QUERY: usize = 2_000;
/// No text has this many characters.
const MOST: i64 = 1_000_000_000_000_000;
/// Nor this many lines.
const MOST_DIGITS: usize = 15;
/// The beginning of the handles of sections that an answer had no room for.
pub const REMAINDER_PREFIX: &str = "rest_";
/// Sections that are trusted as much aren't data of others.
const FULL_TRUST: f64 = 1.0;

/// The query, the scope and the time range of a call of request_context; ``known`` are the names of its arguments.
///
/// Raises InvalidArgumentError that says what to send.
#[pyfunction]
pub fn request_arguments<'py>(
    arguments: &Any<'py>,
    known: &Any<'py>,
    scopes: &Any<'py>,
    now: &Any<'py>,
    timezone: &Any<'py>,
) -> PyResult<(Any<'py>, Option<Any<'py>>, Option<Any<'py>>)> {
    let _running = Running::begin();
    let py = arguments.py();
    let given = given_in(arguments, known)?;
    let query = given.get_item("query")?.unwrap_or_else(|| PyString::new(py, "").into_any());
    let Ok(text) = query.cast::<PyString>() else {
        let kind = type_name(&query);
        return Err(refused(py, format!("query is of type {kind}; send a sentence as a string")));
    };
    let text = text.call_method0("strip")?;
    if !text.is_truthy()? {
        return Err(refused(py, "query is empty; say in a few words what is missing"));
    }
    if query.len()? > MAX_QUERY {
        let (length, most) = (grouped(query.len()? as u64), grouped(MAX_QUERY as u64));
        let message = format!("query has {length} characters, the limit is {most}; say in a sentence what is missing");
        return Err(refused(py, message));
    }
    let scope = given.get_item("scope")?;
    if let Some(scope) = &scope {
        let words = scopes.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        if !words.iter().any(|word| word.eq(scope).unwrap_or_default()) {
            let (scope, words) = (shown(scope, SHOWN), listed_words(&words));
            return Err(refused(
                py,
                format!("scope is {scope}; send one of {words}, or leave it out to look everywhere"),
            ));
        }
    }
    let when = given.get_item("time_range")?;
    let span = when.map(|when| parse_time_range(&when, now, timezone)).transpose()?;
    Ok((text, scope, span))
}

/// The request of a call of fetch_whole: a text from a character on, some of its lines, or the parts that a query finds.
#[pyclass(frozen, get_all, module = "rehydrate._native")]
pub struct FetchArguments {
    /// The handle of the text, or of the rest of the found text.
    handle: Py<PyAny>,
    offset: i64,
    lines: Option<Lines>,
    query: Py<PyAny>,
}

/// Read the arguments of a call of fetch_whole; ``known`` are the names of its arguments.
///
/// Raises InvalidArgumentError that says what to send.
#[pyfunction]
pub fn fetch_arguments<'py>(arguments: &Any<'py>, known: &Any<'py>) -> PyResult<FetchArguments> {
    let _running = Running::begin();
    let py = arguments.py();
    let given = given_in(arguments, known)?;
    let handle = given.get_item("handle")?;
    let stripped = match handle.as_ref().map(|handle| handle.cast::<PyString>()) {
        Some(Ok(handle)) => Some(handle.call_method0("strip")?),
        _ => None,
    };
    let Some(stripped) = stripped.filter(|handle| handle.is_truthy().unwrap_or_default()) else {
        let handle = handle.map_or_else(|| "None".into(), |handle| shown(&handle, SHOWN));
        let message =
            format!("handle is {handle}; send one from the conversation, such as orig_..., mem_... or rest_...");
        return Err(refused(py, message));
    };
    let offset = given.get_item("offset")?;
    let number = match &offset {
        None => Some(0),
        Some(offset) => match offset.cast::<PyFloat>() {
            // JSON has one kind of number.
            Ok(number) => Some(number.value()).filter(|number| number.fract() == 0.0).map(|number| number as i64),
            Err(_) if offset.is_exact_instance_of::<PyInt>() => offset.extract().ok(),
            Err(_) => None,
        },
    };
    let Some(number) = number.filter(|number| (0..MOST).contains(number)) else {
        let offset = offset.map_or_else(String::new, |offset| shown(&offset, SHOWN));
        return Err(refused(py, format!("offset is {offset}; send a whole number from 0 up")));
    };
    let mut ways = Vec::new();
    for name in ["offset", "lines", "query"] {
        if given.get_item(name)?.map_or(Ok(false), |value| value.is_truthy())? {
            ways.push(name);
        }
    }
    if ways.len() > 1 {
        return Err(refused(py, format!("{} were sent; send one of them", ways.join(" and "))));
    }
    if let Some(way) = ways.first()
        && bytes_of(stripped.cast()?)?.starts_with(REMAINDER_PREFIX.as_bytes())
    {
        return Err(refused(py, format!("{stripped} takes no {way}; send the handle alone")));
    }
    let query = given.get_item("query")?.unwrap_or_else(|| PyString::new(py, "").into_any());
    if !query.is_instance_of::<PyString>() || query.len()? > MAX_QUERY {
        let (query, most) = (shown(&query, SHOWN), grouped(MAX_QUERY as u64));
        return Err(refused(py, format!("query is {query}; send a few words, at most {most} characters")));
    }
    Ok(FetchArguments {
        handle: stripped.unbind(),
        offset: number,
        lines: given.get_item("lines")?.map(|lines| line_range(&lines)).transpose()?,
        query: query.call_method0("strip")?.unbind(),
    })
}

/// The arguments that are neither None nor "".
fn given_in<'py>(arguments: &Any<'py>, known: &Any<'py>) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(arguments.py());
    let mut unknown = Vec::new();
    for pair in arguments.cast::<PyMapping>()?.items()? {
        let (name, value): (Any<'py>, Any<'py>) = pair.extract()?;
        if value.is_none() || value.cast::<PyString>().is_ok_and(|text| text == "") {
            continue;
        }
        if !known.contains(&name)? {
            unknown.push(name.str()?);
        }
        given.set_item(name, value)?;
    }
    unknown.sort_by(|one, other| one.compare(other).unwrap_or(std::cmp::Ordering::Equal));
    let Some(name) = unknown.first() else { return Ok(given) };
    let names = known.try_iter()?.map(|name| Ok(name?.to_string())).collect::<PyResult<Vec<_>>>()?.join(", ");
    Err(refused(known.py(), format!("there is no argument {}; send {names}", shown(name, SHOWN))))
}

/// A range of lines, counted from 1. Without an end it means all that follow.
fn line_range(given: &Any<'_>) -> PyResult<Lines> {
    let text = match given.cast_exact::<PyString>() {
        Ok(text) => text.to_string_lossy().replace(',', ""),
        Err(_) if given.is_exact_instance_of::<PyInt>() => shown(given, SHOWN),
        Err(_) => String::new(),
    };
    let Some((first, last)) = lines_in(given.py(), text.trim_matches(is_space)) else {
        let range = shown(given, SHOWN);
        let message = format!("lines is {range}; send a range such as \"3400-3500\", or one number");
        return Err(refused(given.py(), message));
    };
    if first < 1 || last.is_some_and(|last| last < first) {
        return Err(refused(
            given.py(),
            format!(
                "lines is {}; lines are counted from 1, and a range ends where it begins or after, as in \"3400-3500\"",
                shown(given, SHOWN)
            ),
        ));
    }
    Ok((first, last))
}

/// The numbers of a range such as 3400-3500, or of one line.
fn lines_in(py: Python<'_>, text: &str) -> Option<Lines> {
    let number = |digits: &str| {
        let is_one = digits.chars().count() <= MOST_DIGITS && digits.chars().all(char::is_numeric);
        let number = is_one.then(|| py.get_type::<PyInt>().call1((digits,)).ok())??; // of any script
        number.extract::<i64>().ok()
    };
    let end = text.find(|char: char| !char.is_numeric());
    let first = number(&text[..end.unwrap_or(text.len())])?;
    let Some(end) = end else { return Some((first, Some(first))) };
    let rest = text[end..].trim_start_matches(is_space);
    let last = ["-", "\u{2013}", "..", ":", "to"].iter().find_map(|dash| rest.strip_prefix(dash))?;
    let last = last.trim_start_matches(is_space);
    if last.is_empty() { Some((first, None)) } else { Some((first, Some(number(last)?))) }
}

record! {
    struct Section<'py> {
        id: Bound<'py, PyString>,
        content: Any<'py>,
        provenance: Provenance<'py>,
        trust: f64,
        handle: Option<Bound<'py, PyString>>,
    }
}

record! {
    struct Provenance<'py> {
        source: Bound<'py, PyString>,
        origin: Bound<'py, PyString>,
        time: Option<Any<'py>>,
    }
}

/// The items of an answer in their fence, each under its mark. Times are in the timezone.
///
/// The first line of each begins with a mark that is made from the contents and occurs in none of them. So no content
/// can pass for an item of its own, and an item costs a few tokens, while a fence for each would cost forty.
#[pyfunction]
pub fn fenced_items<'py>(sections: Vec<Any<'py>>, timezone: &Any<'py>) -> PyResult<Bound<'py, PyString>> {
    let _running = Running::begin();
    let py = timezone.py();
    let sections: Vec<Section<'py>> = sections.iter().map(|section| section.extract()).collect::<PyResult<_>>()?;
    let texts = sections.iter().map(|section| Ok(bytes_of(&section.content.str()?)?.into_owned()));
    let texts = texts.collect::<PyResult<Vec<_>>>()?;
    let mark = mark_of(&texts);
    let is_data = sections.iter().any(|section| section.trust < FULL_TRUST);
    let note = if is_data { format!(" note=\"{NOT_INSTRUCTIONS}\"") } else { String::new() };
    let mut made = format!("<context-{mark}{note}>\n").into_bytes();
    let mut shown = (String::new(), String::new());
    for (section, text) in sections.iter().zip(&texts) {
        made.extend(format!("{mark} {}\n", heading(section, timezone, &mut shown)?).as_bytes());
        made.extend(text);
        if !text.ends_with(b"\n") {
            made.push(b'\n');
        }
    }
    made.extend(format!("</context-{mark}>").as_bytes());
    string_of(py, &made)
}

/// An item's name and time. It only has the parts that differ from the day and the time that were shown last.
fn heading<'py>(section: &Section<'py>, timezone: &Any<'py>, shown: &mut (String, String)) -> PyResult<String> {
    let (py, provenance) = (timezone.py(), &section.provenance);
    let word = |text: &Bound<'py, PyString>| fence_attribute(py, text.extract()?);
    let parts = section.id.call_method1(interned!(py, "partition"), (":",))?;
    let name = parts.get_item(2)?.cast_into::<PyString>()?;
    let mut words = Vec::new();
    if provenance.source == "conversation" {
        words.extend(["message".into(), word(&name)?]);
    } else {
        words.push(word(if name.is_empty()? { &section.id } else { &name })?);
    }
    if !provenance.origin.is_empty()? && !name.contains(&provenance.origin)? {
        words.push(word(&provenance.origin)?);
    }
    if let Some(handle) = &section.handle
        && !handle.is_empty()?
    {
        words.push(format!("whole=\"{}\"", word(handle)?));
    }
    if let Some(time) = &provenance.time {
        // The timezone may have no date for it.
        let local = time
            .call_method1("astimezone", (timezone,))
            .or_else(|error| if error.is_instance_of::<PyOverflowError>(py) { Ok(time.clone()) } else { Err(error) })?;
        let part = |format: &str| local.call_method1("strftime", (format,))?.extract::<String>();
        let (day, time) = (part("%a %Y-%m-%d")?, part("%H:%M")?);
        if day != shown.0 {
            words.extend([day.clone(), time.clone()]);
        } else if time != shown.1 {
            words.push(time.clone());
        }
        *shown = (day, time);
    }
    Ok(words.join(" "))
}
