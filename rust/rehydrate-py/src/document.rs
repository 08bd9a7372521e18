//! A conversation in a text, read so that the kept part is written byte for byte.
//!
//! Numbers, escapes, indentation and everything around the messages (a request's `system` and `tools`) are never
//! rewritten. Values and the words of errors are those of Python's `json`.
use std::collections::HashMap;

use memchr::{memchr, memchr_iter};
use pyo3::exceptions::{PyIndexError, PyRecursionError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rehydrate_core::json_spans::{each_part, end_of_value, skip_blank};

use crate::checks::refused;
use crate::exit::Running;
use crate::json_rows::as_json;
use crate::reading::{is_space, text_of};

type Any<'py> = Bound<'py, PyAny>;

const EXPECTED: &str = "a JSON array of messages, JSON Lines, or a Claude Code transcript";
/// The keys under which an object has its messages, best first: a request, a Responses request, a response, a
/// trajectory of SWE-agent.
const LISTS: [&str; 4] = ["messages", "input", "output", "history"];
const LISTED_KEYS: usize = 6;
const QUOTED_CHARS: usize = 30;
/// A zero byte in the first of these is of a binary file.
const TESTED_BYTES: usize = 65_536;

/// The text of a file. Raises InvalidArgumentError for bytes that aren't text.
#[pyfunction]
pub fn file_text<'py>(data: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    let _running = Running::begin();
    let (py, name, data) = (data.py(), text_of(name), data.extract::<&[u8]>()?);
    if data.starts_with(b"\xff\xfe") || data.starts_with(b"\xfe\xff") {
        let remedy = "convert it, for example with iconv -f UTF-16 -t UTF-8";
        return Err(refused(py, format!("{name} is UTF-16, expected UTF-8; {remedy}")));
    }
    if data.starts_with(b"\x1f\x8b") {
        let remedy = "unpack it: gunzip -c FILE | rehydrate compact -";
        return Err(refused(py, format!("{name} is compressed; {remedy}")));
    }
    if data.iter().take(TESTED_BYTES).any(|byte| *byte == 0) {
        return Err(refused(py, format!("{name} is a binary file; expected {EXPECTED}")));
    }
    let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    match std::str::from_utf8(data) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(error) => {
            let (whole, rest) = data.split_at(error.valid_up_to());
            let (line, byte) = (1 + line_breaks(whole), rest[0]);
            let remedy = "convert the file, for example with iconv -f LATIN1 -t UTF-8";
            Err(refused(py, format!("line {line} of {name} is not UTF-8 (byte 0x{byte:02x}); {remedy}")))
        }
    }
}

fn line_breaks(text: &[u8]) -> usize {
    memchr_iter(b'\n', text).count()
}

/// The place of an entry: the white space before it, its value, and its end.
struct Span {
    lead: usize,
    start: usize,
    end: usize,
}

/// The entries of a file and the text that they were read from.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Document {
    #[pyo3(get)]
    name: Py<PyString>,
    text: PyBackedStr,
    #[pyo3(get)]
    entries: Py<PyList>,
    spans: Vec<Span>,
    /// The inside of the brackets of an array; None for lines.
    frame: Option<(usize, usize)>,
    /// The other keys of the object around the messages.
    #[pyo3(get)]
    around: Py<PyTuple>,
}

#[pymethods]
impl Document {
    /// Read the conversation in a text; raises InvalidArgumentError.
    #[new]
    fn read(name: Bound<'_, PyString>, text: Bound<'_, PyString>) -> PyResult<Self> {
        let _running = Running::begin();
        let loads = name.py().import("json")?.getattr("loads")?;
        let (said_name, of) = (text_of(&name).into_owned(), text.clone());
        Reader { name, said_name, text: text.try_into()?, of, loads }.read()
    }

    /// Whether each entry has lines of its own.
    #[getter]
    fn is_lines(&self) -> bool {
        self.frame.is_none()
    }

    /// The text of each entry.
    fn texts(&self) -> Vec<&str> {
        self.spans
            .iter()
            .map(|span| self.text[span.start..span.end].trim_end_matches([' ', '\t', '\r', '\n']))
            .collect()
    }

    /// The line on which an entry begins, from 1.
    fn line_of(&self, index: usize) -> PyResult<usize> {
        Ok(1 + line_breaks(&self.text.as_bytes()[..self.span(index)?.start]))
    }

    /// The text with only these entries in it, in this order, and new ones in place of those in `changed`; with all of
    /// them, the same text.
    #[pyo3(signature = (indices, changed=HashMap::new()))]
    fn keep(&self, indices: Vec<usize>, changed: HashMap<usize, Any<'_>>) -> PyResult<String> {
        let _running = Running::begin();
        let text: &str = &self.text;
        if indices.len() == self.spans.len() && changed.is_empty() {
            return Ok(text.to_owned());
        }
        let mut kept = String::new();
        for (number, &index) in indices.iter().enumerate() {
            let span = self.span(index)?;
            let (lead, was) = (&text[span.lead..span.start], &text[span.start..span.end]);
            match self.frame {
                Some(_) if number == 0 => kept.push_str(&text[..self.spans[0].start]), // where the first entry was
                Some(_) => kept.extend([",", lead]),
                None => kept.push_str(lead),
            }
            match changed.get(&index) {
                Some(entry) => {
                    kept.push_str(&as_json(entry)?.extract::<String>()?);
                    kept.push_str(if was.ends_with('\n') { "\n" } else { "" });
                }
                None => kept.push_str(was),
            }
        }
        match (self.frame, self.spans.last()) {
            (Some((opened, closed)), _) if indices.is_empty() => {
                kept = format!("{}{}", &text[..opened], &text[closed..])
            }
            (Some(_), Some(last)) => kept.push_str(&text[last.end..]), // the bracket closes as it did
            _ => {}
        }
        Ok(kept)
    }
}

impl Document {
    fn span(&self, index: usize) -> PyResult<&Span> {
        self.spans.get(index).ok_or_else(|| PyIndexError::new_err(format!("there is no entry {index}")))
    }
}

struct Reader<'py> {
    name: Bound<'py, PyString>,
    said_name: String,
    text: PyBackedStr,
    of: Bound<'py, PyString>,
    loads: Any<'py>,
}

impl<'py> Reader<'py> {
    fn read(self) -> PyResult<Document> {
        let start = skip_blank(self.text.as_bytes(), 0);
        let read = match self.text.as_bytes().get(start) {
            None => Err(self.refused(format!("is empty; expected {EXPECTED}"))),
            Some(b'[') => self
                .loads
                .call1((&self.of,))
                .and_then(|entries| self.array(start, entries.cast_into()?, PyTuple::empty(self.py()))),
            Some(b'{') => self.object_or_lines(start),
            Some(_) => self.no_json(start),
        };
        read.map_err(|error| self.said_of(error))
    }

    fn py(&self) -> Python<'py> {
        self.name.py()
    }

    fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The error of the whole file.
    fn refused(&self, problem: impl AsRef<str>) -> PyErr {
        refused(self.py(), format!("{} {}", self.said_name, problem.as_ref()))
    }

    /// The error of a line.
    fn line_refused(&self, line: usize, problem: impl AsRef<str>) -> PyErr {
        refused(self.py(), format!("line {line} of {} {}", self.said_name, problem.as_ref()))
    }

    fn no_json(&self, start: usize) -> PyResult<Document> {
        let quoted: String = self.text[start..].chars().take(QUOTED_CHARS).collect();
        let first = PyString::new(self.py(), &quoted).call_method0("splitlines")?.get_item(0)?.repr()?;
        Err(self.refused(format!("is not JSON: it begins with {}; expected {EXPECTED}", text_of(&first))))
    }

    /// An error of `json` as one of the file.
    fn said_of(&self, error: PyErr) -> PyErr {
        let py = self.py();
        if error.is_instance_of::<PyRecursionError>(py) {
            return self.refused(format!("is nested too deeply; expected {EXPECTED}"));
        }
        let is_of = |module: &str, class: &str| {
            py.import(module).and_then(|module| module.getattr(class)).is_ok_and(|class| error.is_instance(py, &class))
        };
        if is_of("json", "JSONDecodeError") {
            let line = error.value(py).getattr("lineno").and_then(|line| line.extract());
            return line.map_or_else(|error| error, |line| self.not_json(&error, line));
        }
        if error.is_instance_of::<PyValueError>(py) && !is_of("rehydrate.errors", "InvalidArgumentError") {
            return self.refused("holds a number of thousands of digits; shorten it"); // more than Python reads
        }
        error
    }

    fn not_json(&self, error: &PyErr, line: usize) -> PyErr {
        let of = |name: &str| error.value(self.py()).getattr(name)?.str()?.extract::<String>();
        let (problem, column) = match (of("msg"), of("colno")) {
            (Ok(problem), Ok(column)) => (problem, column),
            (Err(error), _) | (_, Err(error)) => return error,
        };
        let problem = problem.strip_suffix(" at").unwrap_or(&problem);
        let is_last = line > line_breaks(self.text.trim_end_matches(is_space).as_bytes());
        let remedy = if is_last {
            "it is the last line: the file may have been cut off there"
        } else {
            "correct the line or delete it"
        };
        self.line_refused(line, format!("is not JSON: {problem} at column {column}; {remedy}"))
    }

    fn object_or_lines(self: &Reader<'py>, start: usize) -> PyResult<Document> {
        let decoder = self.py().import("json")?.call_method0("JSONDecoder")?;
        // Only white space is before it, which is a byte a character.
        let value = decoder.call_method1("raw_decode", (&self.of, start))?.get_item(0)?;
        let end = end_of_value(self.bytes(), start).unwrap_or(self.text.len());
        let rest = skip_blank(self.bytes(), end);
        if rest == self.text.len() {
            return self.object(start, &value.cast_into()?);
        }
        if memchr(b'\n', &self.bytes()[start..end]).is_none() {
            return self.lines(false);
        }
        let line = 1 + line_breaks(&self.bytes()[..rest]);
        let remedy = "put each on a line of its own (jq -c .) or all in one array (jq -s .)";
        Err(self.line_refused(line, format!("begins a second JSON value; {remedy}")))
    }

    fn array(&self, opening: usize, entries: Bound<'py, PyList>, around: Bound<'py, PyTuple>) -> PyResult<Document> {
        let (mut spans, mut lead) = (Vec::new(), opening + 1);
        let end = each_part(self.bytes(), opening, b']', |start| {
            let Some(end) = end_of_value(self.bytes(), start) else { return Ok(None) };
            spans.push(Span { lead, start, end });
            lead = skip_blank(self.bytes(), end) + 1;
            PyResult::Ok(Some(end))
        })?;
        let end = end.ok_or_else(|| PyValueError::new_err("the array has no end"))?;
        Ok(self.document(entries, spans, Some((opening + 1, end - 1)), around))
    }

    /// An object around the messages, or the only line of a file of lines.
    fn object(&self, start: usize, value: &Bound<'py, PyDict>) -> PyResult<Document> {
        let is_entry = value.contains("role")? || value.contains("type")?;
        for key in LISTS {
            // An entry may have an output of its own. None has messages.
            if is_entry && key != "messages" {
                continue;
            }
            let Some(list) = value.get_item(key)?.and_then(|list| list.cast_into::<PyList>().ok()) else { continue };
            let mut around = value.keys().iter().collect::<Vec<_>>();
            around.retain(|other| !other.eq(key).unwrap_or(false));
            return self.array(self.member(start, key)?, list, PyTuple::new(self.py(), around)?);
        }
        if is_entry {
            return self.lines(true);
        }
        let keys = value.keys().iter().take(LISTED_KEYS).map(|key| Ok(text_of(&key.str()?).into_owned()));
        let keys = keys.collect::<PyResult<Vec<_>>>()?.join(", ");
        let held = if keys.is_empty() { "nothing" } else { &keys };
        Err(self.refused(format!(
            "is an object without a 'messages', 'input', 'output' or 'history' list (it holds {held}); pass one with it, or \
             the list itself"
        )))
    }

    /// The beginning of the value of a member of the object.
    fn member(&self, opening: usize, key: &str) -> PyResult<usize> {
        let mut found = None;
        each_part(self.bytes(), opening, b'}', |at| {
            let Some(end) = end_of_value(self.bytes(), at) else { return Ok(None) };
            let start = skip_blank(self.bytes(), skip_blank(self.bytes(), end) + 1);
            if self.loads.call1((&self.text[at..end],))?.eq(key)? {
                found = Some(start); // the last of several counts
            }
            PyResult::Ok(end_of_value(self.bytes(), start))
        })?;
        found.ok_or_else(|| PyValueError::new_err(format!("there is no {key}")))
    }

    /// One entry a line, or one on all the lines.
    fn lines(&self, is_one: bool) -> PyResult<Document> {
        let (entries, mut spans) = (PyList::empty(self.py()), Vec::new());
        let (mut lead, mut number) = (0, 0);
        while lead < self.text.len() {
            number += 1;
            let line_end = if is_one { None } else { memchr(b'\n', &self.bytes()[lead..]) };
            let end = line_end.map_or(self.text.len(), |end| lead + end + 1);
            let start = skip_blank(&self.bytes()[..end], lead);
            if start < end {
                let entry = self.loads.call1((&self.text[lead..end],)).map_err(|error| {
                    if error.value(self.py()).hasattr("colno").unwrap_or(false) {
                        return self.not_json(&error, number);
                    }
                    error
                })?;
                if is_conversation(&entry)? {
                    let remedy = format!("compact one at a time: sed -n {number}p FILE | rehydrate compact -");
                    return Err(self.line_refused(number, format!("holds a whole conversation; {remedy}")));
                }
                entries.append(entry)?;
                spans.push(Span { lead, start, end });
            }
            lead = end;
        }
        Ok(self.document(entries, spans, None, PyTuple::empty(self.py())))
    }

    fn document(
        &self,
        entries: Bound<'py, PyList>,
        spans: Vec<Span>,
        frame: Option<(usize, usize)>,
        around: Bound<'py, PyTuple>,
    ) -> Document {
        let (name, text) = (self.name.clone().unbind(), self.text.clone_ref(self.py()));
        Document { name, text, entries: entries.unbind(), spans, frame, around: around.unbind() }
    }
}

fn is_conversation(entry: &Any<'_>) -> PyResult<bool> {
    let Ok(entry) = entry.cast::<PyDict>() else { return Ok(false) };
    if entry.contains("role")? || entry.contains("type")? {
        return Ok(false);
    }
    for key in LISTS {
        if entry.get_item(key)?.is_some_and(|value| key == "messages" || value.is_instance_of::<PyList>()) {
            return Ok(true);
        }
    }
    Ok(false)
}
