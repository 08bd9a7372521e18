//! Contents of messages in the commonest shapes, read without the interpreter; anything else is left to Python's reader.
//!
//! `rehydrate.formats.anthropic.read_content` is the slow twin, and the law that both read alike is in
//! `tests/formats/test_fast_reading.py`.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString, PyTuple, PyType};

/// Inputs of tools nested deeper than this are left to Python.
const MAX_DEPTH: usize = 16;

/// Reads the content of one message in Anthropic's blocks.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct BlockReader {
    piece: Py<PyType>,
    /// `tuple.__new__`: a named tuple without the detour over its own constructor, which is written in Python.
    new_tuple: Py<PyAny>,
    text: Py<PyAny>,
    tool_input: Py<PyAny>,
    tool_result: Py<PyAny>,
    thinking: Py<PyAny>,
}

/// The pieces of one content read so far.
struct Body<'py> {
    pieces: Vec<Bound<'py, PyAny>>,
    calls: Vec<Bound<'py, PyString>>,
    answers: Vec<Bound<'py, PyString>>,
}

#[pymethods]
impl BlockReader {
    /// A reader that makes pieces of this class, with the kinds of text, tool input, tool result and thinking.
    #[new]
    fn new(piece: &Bound<'_, PyType>, kinds: (Py<PyAny>, Py<PyAny>, Py<PyAny>, Py<PyAny>)) -> PyResult<Self> {
        let new_tuple = piece.py().get_type::<PyTuple>().getattr("__new__")?.unbind();
        let (text, tool_input, tool_result, thinking) = kinds;
        Ok(Self { piece: piece.clone().unbind(), new_tuple, text, tool_input, tool_result, thinking })
    }

    /// Pieces, images, calls, answers, and whether it is results alone; None where a block is of no common shape.
    fn read<'py>(&self, content: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let py = content.py();
        let Ok(blocks) = content.cast_exact::<PyList>() else { return Ok(None) };
        let mut body = Body { pieces: Vec::new(), calls: Vec::new(), answers: Vec::new() };
        let mut results = 0;
        for block in blocks {
            let Ok(block) = block.cast_into_exact::<PyDict>() else { return Ok(None) };
            let Some(kind) = text_of(&block, intern(py, Key::Type))? else { return Ok(None) };
            let is_read = match kind.to_str().unwrap_or_default() {
                "text" => self.read_text(&block, intern(py, Key::Text), &self.text, &mut body)?,
                "thinking" => self.read_text(&block, intern(py, Key::Thinking), &self.thinking, &mut body)?,
                "tool_use" => self.read_call(&block, &mut body)?,
                "tool_result" => {
                    results += 1;
                    self.read_result(&block, &mut body)?
                }
                _ => false,
            };
            if !is_read {
                return Ok(None);
            }
        }
        let only_results = results > 0 && results == blocks.len();
        let Body { pieces, calls, answers } = body;
        let (pieces, calls, answers) =
            (PyTuple::new(py, pieces)?, PyTuple::new(py, calls)?, PyTuple::new(py, answers)?);
        (pieces, 0, calls, answers, only_results).into_pyobject(py).map(Some)
    }
}

impl BlockReader {
    fn read_text<'py>(
        &self,
        block: &Bound<'py, PyDict>,
        key: &Bound<'py, PyString>,
        kind: &Py<PyAny>,
        body: &mut Body<'py>,
    ) -> PyResult<bool> {
        let Some(text) = text_of(block, key)? else { return Ok(false) };
        self.push(text, kind, body)
    }

    fn read_call<'py>(&self, block: &Bound<'py, PyDict>, body: &mut Body<'py>) -> PyResult<bool> {
        let py = block.py();
        let (Some(id), Some(name), Some(input)) = (
            text_of(block, intern(py, Key::Id))?,
            text_of(block, intern(py, Key::Name))?,
            block.get_item(intern(py, Key::Input))?,
        ) else {
            return Ok(false);
        };
        let Ok(name) = name.to_str() else { return Ok(false) };
        let mut text = format!("{name} ");
        // A string as input is JSON already and stays as it is: Python's reader knows.
        if !input.is_exact_instance_of::<PyDict>() || write_json(&mut text, &input, MAX_DEPTH)?.is_none() {
            return Ok(false);
        }
        body.calls.push(id);
        self.push(PyString::new(py, &text), &self.tool_input, body)
    }

    fn read_result<'py>(&self, block: &Bound<'py, PyDict>, body: &mut Body<'py>) -> PyResult<bool> {
        let py = block.py();
        let (Some(answer), Some(content)) =
            (text_of(block, intern(py, Key::ToolUseId))?, text_of(block, intern(py, Key::Content))?)
        else {
            return Ok(false);
        };
        body.answers.push(answer);
        self.push(content, &self.tool_result, body)
    }

    /// An empty text is no piece.
    fn push<'py>(&self, text: Bound<'py, PyString>, kind: &Py<PyAny>, body: &mut Body<'py>) -> PyResult<bool> {
        if !text.is_empty()? {
            let py = text.py();
            body.pieces.push(self.new_tuple.bind(py).call1((&self.piece, (text, kind)))?);
        }
        Ok(true)
    }
}

#[derive(Clone, Copy)]
enum Key {
    Type,
    Text,
    Thinking,
    Id,
    Name,
    Input,
    ToolUseId,
    Content,
}

fn intern(py: Python<'_>, key: Key) -> &Bound<'_, PyString> {
    match key {
        Key::Type => pyo3::intern!(py, "type"),
        Key::Text => pyo3::intern!(py, "text"),
        Key::Thinking => pyo3::intern!(py, "thinking"),
        Key::Id => pyo3::intern!(py, "id"),
        Key::Name => pyo3::intern!(py, "name"),
        Key::Input => pyo3::intern!(py, "input"),
        Key::ToolUseId => pyo3::intern!(py, "tool_use_id"),
        Key::Content => pyo3::intern!(py, "content"),
    }
}

/// The string under `key`, if it is exactly one.
fn text_of<'py>(block: &Bound<'py, PyDict>, key: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyString>>> {
    Ok(block.get_item(key)?.and_then(|value| value.cast_into_exact::<PyString>().ok()))
}

/// Append `value` as compact JSON, letter for letter as Python's `json` writes it; None, with `out` half written, where
/// it is more than strings, small whole numbers, booleans, nulls, lists and dicts.
fn write_json(out: &mut String, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Option<()>> {
    if depth == 0 {
        return Ok(None);
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        return Ok(write_string(out, text));
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        out.push('{');
        for (index, (key, value)) in dict.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            let Some(()) = key.cast_exact::<PyString>().ok().and_then(|key| write_string(out, key)) else {
                return Ok(None);
            };
            out.push(':');
            if write_json(out, &value, depth - 1)?.is_none() {
                return Ok(None);
            }
        }
        out.push('}');
        return Ok(Some(()));
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        out.push('[');
        for (index, value) in list.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            if write_json(out, &value, depth - 1)?.is_none() {
                return Ok(None);
            }
        }
        out.push(']');
        return Ok(Some(()));
    }
    if value.is_none() {
        out.push_str("null");
    } else if let Ok(truth) = value.cast_exact::<PyBool>() {
        out.push_str(if truth.is_true() { "true" } else { "false" });
    } else if let Ok(Ok(number)) = value.cast_exact::<PyInt>().map(|number| number.extract::<i64>()) {
        out.push_str(&number.to_string());
    } else {
        return Ok(None);
    }
    Ok(Some(()))
}

/// None where the string holds lone surrogates.
fn write_string(out: &mut String, text: &Bound<'_, PyString>) -> Option<()> {
    let text = text.to_str().ok()?;
    out.push('"');
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate().filter(|&(_, byte)| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.push_str(&text[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x0C => out.push_str("\\f"),
            0x08 => out.push_str("\\b"),
            _ => out.push_str(&format!("\\u{byte:04x}")),
        }
    }
    out.push_str(&text[copied..]);
    out.push('"');
    Some(())
}
