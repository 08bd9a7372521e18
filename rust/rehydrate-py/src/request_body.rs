//! A request's JSON object, read so that the unchanged part is sent as its client wrote it.
use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use rehydrate_core::json_spans::{each_part, end_of_value, skip_blank};

use crate::exchanges::RequestItem;
use crate::exit::Running;

/// Its messages are sent on as texts, each the client's own or one of ours.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct RequestBody {
    text: String,
    /// The field of the messages.
    key: String,
    /// The place of each value.
    spans: HashMap<String, (usize, usize)>,
    /// The values, without the messages.
    #[pyo3(get)]
    fields: Py<PyDict>,
    /// The messages, which are not read. None if they aren't a list.
    #[pyo3(get)]
    items: Py<PyList>,
}

#[pymethods]
impl RequestBody {
    /// Read a request whose messages are under this key. Raises ValueError for any other text.
    #[new]
    fn read(py: Python<'_>, raw: &[u8], key: String) -> PyResult<Self> {
        let _running = Running::begin();
        let Ok(text) = std::str::from_utf8(raw) else {
            return Err(PyValueError::new_err("it isn't UTF-8"));
        };
        let loads = py.import("json")?.getattr("loads")?;
        let (fields, items, mut spans) = (PyDict::new(py), PyList::empty(py), HashMap::new());
        let value_at = |at: usize| {
            let Some(end) = end_of_value(raw, at) else { return Ok(None) };
            PyResult::Ok(Some((loads.call1((&text[at..end],))?, end)))
        };
        let item_at = |at: usize| {
            let Some(end) = end_of_value(raw, at) else { return Ok(None) };
            items.append(RequestItem::new(PyString::new(py, &text[at..end])))?;
            PyResult::Ok(Some(end))
        };
        let read_member = |at: usize| {
            let Some((name, end)) = value_at(at)? else { return Ok(None) };
            let colon = skip_blank(raw, end);
            if raw.get(colon) != Some(&b':') {
                return Ok(None);
            }
            let start = skip_blank(raw, colon + 1);
            let Ok(name) = name.cast::<PyString>() else { return Ok(None) };
            let name_text = name.to_string_lossy().into_owned();
            let end = if name_text == key && raw.get(start) == Some(&b'[') {
                each_part(raw, start, b']', &item_at)?
            } else {
                let read = value_at(start)?;
                read.map(|(value, end)| fields.set_item(name, value).map(|()| end)).transpose()?
            };
            let Some(end) = end else { return Ok(None) };
            let is_new = spans.insert(name_text, (start, end)).is_none();
            PyResult::Ok(is_new.then_some(end))
        };
        let opening = skip_blank(raw, 0);
        let end = if raw.get(opening) == Some(&b'{') { each_part(raw, opening, b'}', read_member)? } else { None };
        if end.is_none_or(|end| skip_blank(raw, end) < raw.len()) {
            return Err(PyValueError::new_err("it isn't a JSON object, or there is more after it"));
        }
        Ok(Self { text: text.to_owned(), key, spans, fields: fields.unbind(), items: items.unbind() })
    }

    /// A value as the client wrote it; "" if there is none.
    fn written(&self, name: &str) -> &str {
        self.spans.get(name).map_or("", |&(start, end)| &self.text[start..end])
    }

    /// The body with other messages, also with these tools, and everything else as the client wrote it.
    #[pyo3(signature = (texts, tools=Vec::new()))]
    fn with_items<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        tools: Vec<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let _running = Running::begin();
        let Some(&(start, end)) = self.spans.get(&self.key) else {
            return Err(PyValueError::new_err(format!("there is no {}", self.key)));
        };
        let mut changes = vec![(start, end, format!("[{}]", texts.join(",")))];
        if !tools.is_empty() {
            let tools = tools.join(",");
            let given = self.fields.bind(py).get_item("tools")?;
            let given = given.filter(|given| !given.is_none());
            changes.push(match (self.spans.get("tools"), given.as_ref().map(|given| given.cast::<PyList>())) {
                (Some(&(_, end)), Some(Ok(some))) if !some.is_empty() => (end - 1, end - 1, format!(",{tools}")),
                (Some(_), Some(Err(_))) => return Err(PyValueError::new_err("its tools aren't a list")),
                (Some(&(start, end)), _) => (start, end, format!("[{tools}]")),
                (None, _) => {
                    let inside = skip_blank(self.text.as_bytes(), 0) + 1;
                    (inside, inside, format!("\"tools\":[{tools}],"))
                }
            });
        }
        changes.sort_by_key(|&(start, ..)| start);
        let (mut body, mut copied) = (String::with_capacity(self.text.len()), 0);
        for (start, end, changed) in changes {
            body.push_str(&self.text[copied..start]);
            body.push_str(&changed);
            copied = end;
        }
        body.push_str(&self.text[copied..]);
        Ok(PyBytes::new(py, body.as_bytes()))
    }
}
