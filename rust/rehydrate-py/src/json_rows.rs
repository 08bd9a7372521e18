//! Conversations in tables, as JSON: the messages of a cell, and a line of JSON Lines. The kept part is never
//! rewritten.
//!
//! Values and the texts of errors are those of Python's `json`.
use pyo3::exceptions::{PyRecursionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use rehydrate_core::caps::{Member, json_members, lossy};

use crate::caps::CodePoints;
use crate::checks::{refused, type_name};
use crate::convert::bytes_of;
use crate::division::sliced;
use crate::errors::detached;
use crate::exit::Running;
use crate::unicode::as_unicode;

/// The text of a cell; raises InvalidArgumentError if there is none, or it isn't UTF-8.
#[pyfunction]
pub fn cell_text<'py>(cell: &Bound<'py, PyAny>, column: &str) -> PyResult<Bound<'py, PyString>> {
    let _running = Running::begin();
    let py = cell.py();
    if let Ok(text) = cell.cast::<PyString>() {
        return Ok(text.clone());
    }
    let Ok(bytes) = cell.cast::<PyBytes>() else {
        return Err(refused(py, format!("{column} is null; pass a text")));
    };
    let text = decoded(py, column, bytes.as_bytes())?;
    Ok(PyString::new(py, text))
}

fn decoded<'a>(py: Python<'_>, subject: &str, bytes: &'a [u8]) -> PyResult<&'a str> {
    std::str::from_utf8(bytes)
        .map_err(|error| refused(py, format!("{subject} isn't UTF-8 from byte {} on; pass UTF-8", error.valid_up_to())))
}

/// The content that a text should have.
struct Wanted {
    subject: &'static str,
    kind: &'static str,
    opening: u8,
    remedy: &'static str,
}

const LIST: Wanted =
    Wanted { subject: "messages", kind: "a JSON list", opening: b'[', remedy: "pass the JSON of a list of messages" };
const LINE: Wanted = Wanted {
    subject: "the line",
    kind: "a JSON object",
    opening: b'{',
    remedy: "pass an object with id and messages on each line",
};

impl Wanted {
    /// The value, and where its parts are.
    fn read<'py>(&self, text: &Bound<'py, PyString>) -> PyResult<(Bound<'py, PyAny>, Vec<Member>)> {
        let py = text.py();
        let Self { subject, kind, remedy, .. } = self;
        let opening = {
            let bytes = bytes_of(text)?;
            let at = bytes.iter().position(|byte| !b" \t\r\n".contains(byte)).unwrap_or(bytes.len());
            if bytes.get(at) != Some(&self.opening) {
                let (expected, opening) = (char::from(self.opening), at);
                let why = format!("Expecting '{expected}' at character {opening}; {remedy}");
                return Err(refused(py, format!("{subject} isn't {kind}: {why}")));
            }
            at
        };
        let value = py.import("json")?.call_method1("loads", (text,)).map_err(|error| self.refusal(py, error))?;
        let points: CodePoints = text.extract()?;
        match detached(py, || Ok(json_members(&points.0, opening)))? {
            Ok(members) => Ok((value, members)),
            Err(_) => Err(self.refusal(py, PyRecursionError::new_err(()))),
        }
    }

    /// The error for an exception of Python's reader.
    fn refusal(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let Self { subject, kind, remedy, .. } = self;
        let raised = error.value(py);
        if let (Ok(why), Ok(at)) = (raised.getattr("msg"), raised.getattr("pos")) {
            return refused(py, format!("{subject} isn't {kind}: {why} at character {at}; {remedy}"));
        }
        if error.is_instance_of::<PyRecursionError>(py) {
            return refused(py, format!("{subject} is nested too deeply; {remedy}"));
        }
        if error.is_instance_of::<PyValueError>(py) {
            return refused(py, format!("{subject} holds a number of thousands of digits; shorten it"));
        }
        error
    }
}

/// The messages of a JSON list, and the place of each.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct JsonMessages {
    text: Py<PyString>,
    #[pyo3(get)]
    messages: Py<PyList>,
    places: Vec<(usize, usize)>,
}

#[pymethods]
impl JsonMessages {
    #[new]
    fn new(text: &Bound<'_, PyString>) -> PyResult<Self> {
        let _running = Running::begin();
        let (messages, members) = LIST.read(text)?;
        let places = members.iter().map(|member| (member.start, member.end)).collect();
        Ok(Self { text: text.clone().unbind(), messages: messages.cast_into::<PyList>()?.unbind(), places })
    }

    /// Kept messages as JSON. Those that did not change are as they are in the text. `indices` are parallel to them.
    fn written<'py>(
        &self,
        py: Python<'py>,
        kept: Vec<Bound<'py, PyAny>>,
        indices: Vec<isize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _running = Running::begin();
        let (text, messages) = (self.text.bind(py), self.messages.bind(py));
        let part = |(message, index): (Bound<'py, PyAny>, isize)| {
            let index = usize::try_from(index).ok().filter(|index| *index < messages.len());
            match index {
                Some(index) if messages.get_item(index)?.is(&message) => {
                    let (start, end) = self.places[index];
                    sliced(text, start, end).map(Bound::into_any)
                }
                _ => as_json(&message),
            }
        };
        let parts = kept.into_iter().zip(indices).map(part).collect::<PyResult<Vec<_>>>()?;
        let joined = PyString::new(py, ",").call_method1("join", (parts,))?;
        PyString::new(py, "[{}]").call_method1("format", (joined,))
    }
}

/// A value as JSON that UTF-8 can hold.
pub fn as_json<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    value.py().import("rehydrate._text")?.call_method1("as_json", (value,))
}

/// The id of a row, the JSON of its messages, and its query.
type Row<'py> = (Option<Bound<'py, PyAny>>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Read a line of a table in JSON Lines; raises InvalidArgumentError for one that is not a row.
#[pyfunction]
pub fn json_row<'py>(py: Python<'py>, line: &[u8]) -> PyResult<Row<'py>> {
    let _running = Running::begin();
    let text = PyString::new(py, decoded(py, "the line", line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line))?);
    let (values, members) = LINE.read(&text)?;
    let values: Bound<'py, PyDict> = values.cast_into()?;
    let Some(messages) = values.get_item("messages")? else {
        let names = values.keys().iter().take(8).map(|name| Ok(name.str()?.to_string_lossy().into_owned()));
        let names = names.collect::<PyResult<Vec<_>>>()?.join(", ");
        let names = if names.is_empty() { "nothing" } else { &names };
        return Err(refused(py, format!("the line has no messages (it has {names}); {}", LINE.remedy)));
    };
    let id = match values.get_item("id")?.filter(|id| !id.is_none()) {
        Some(id) => {
            let id = if id.is_instance_of::<PyString>() { id } else { as_json(&id)? };
            Some(as_unicode(id.cast()?)?)
        }
        None => None,
    };
    let query = values.get_item("query")?.unwrap_or_else(|| py.None().into_bound(py));
    if !query.is_none() && !query.is_instance_of::<PyString>() {
        return Err(refused(py, format!("query is of type {}; pass a text", type_name(&query))));
    }
    if messages.is_instance_of::<PyString>() {
        return Ok((id, messages, query));
    }
    let place = members.iter().rfind(|member| lossy(&member.key) == "messages");
    let (start, end) = place.map_or((0, 0), |member| (member.start, member.end));
    Ok((id, sliced(&text, start, end)?.into_any(), query))
}
