//! Fences: tags around untrusted content, which the content cannot fake.
//!
//! The tag's name ends in a nonce made from the content itself, so the same content has the same fence in every prompt.
//! An author cannot write the nonce into the content: one that occurs in it is replaced by another.
use memchr::memmem;
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::context_store::{NOT_INSTRUCTIONS, nonce};

use crate::convert::{Places, bytes_of};
use crate::exit::Running;

const LONGEST_ATTRIBUTE: usize = 200;

/// The opening and the closing tag, from the values of a section that decide them.
#[pyfunction]
pub fn fence_tags<'py>(
    id: &Bound<'py, PyString>,
    source: &Bound<'py, PyString>,
    origin: &Bound<'py, PyString>,
    title: &Bound<'py, PyString>,
    handle: Option<&Bound<'py, PyString>>,
    is_data: bool,
    content: &Bound<'py, PyString>,
) -> PyResult<(String, String)> {
    let _running = Running::begin();
    let (id_bytes, note) = (bytes_of(id)?, PyString::new(id.py(), NOT_INSTRUCTIONS));
    let is_in_id = |text: &Bound<'py, PyString>| PyResult::Ok(memmem::find(&id_bytes, &bytes_of(text)?).is_some());
    let mut attributes = vec![("id", id)];
    if !id_bytes.starts_with(&bytes_of(source)?) {
        attributes.push(("source", source));
    }
    attributes.push(("title", title));
    if !is_in_id(origin)? {
        attributes.push(("origin", origin));
    }
    attributes.extend(handle.map(|handle| ("whole", handle)));
    if is_data {
        attributes.push(("note", &note));
    }
    let mut shown = String::new();
    for (name, value) in attributes {
        if name == "id" || name == "source" || !value.is_empty()? {
            shown += &format!(" {name}=\"{}\"", fence_attribute(value.py(), value.extract()?)?);
        }
    }
    let mut hashed = bytes_of(content)?.into_owned();
    hashed.extend_from_slice(shown.as_bytes());
    let tag = format!("context-{}", nonce(&id_bytes, &hashed));
    Ok((format!("<{tag}{shown}>"), format!("</{tag}>")))
}

/// Data in a fence of its own: a section whose id is its source too.
pub fn fenced_section(id: &str, content: &Bound<'_, PyString>) -> PyResult<String> {
    let py = content.py();
    let (id, empty) = (PyString::new(py, id), PyString::new(py, ""));
    let (opening, closing) = fence_tags(&id, &id, &empty, &empty, None, true, content)?;
    Ok(format!("{opening}\n{content}\n{closing}"))
}

/// A value on one line, without characters that could end it or the tag, or look like one.
pub fn fence_attribute(py: Python<'_>, value: Places) -> PyResult<String> {
    let mut line = String::new();
    for character in value.as_str().chars().take(LONGEST_ATTRIBUTE) {
        match character {
            '&' => line.push_str("&amp;"),
            '<' => line.push_str("&lt;"),
            '>' => line.push_str("&gt;"),
            '"' => line.push_str("&quot;"),
            ' '..='~' => line.push(character),
            _ if character.is_ascii() || !is_printable(py, character)? => line.push(' '),
            _ => line.push(character),
        }
    }
    Ok(line)
}

/// Whether Python considers a character printable: a line break hides the text after it.
fn is_printable(py: Python<'_>, character: char) -> PyResult<bool> {
    let text = PyString::new(py, character.encode_utf8(&mut [0; 4]));
    text.call_method0("isprintable")?.is_truthy()
}
