//! The body of a request of any provider: its messages, its system text, its tools, and the cache marks in it.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::subject::classes;
use crate::exit::Running;
use crate::interned::{Interned, interned};
use crate::reading::{ByList, Fields, is_list, listed, mark_in_options, string_of, text_of};

type Any<'py> = Bound<'py, PyAny>;

/// The fields that may hold the messages; the first of them does.
static LISTS: [Interned; 5] = [
    Interned::new("messages"),
    Interned::new("input"),
    Interned::new("contents"),
    Interned::new("output"),
    Interned::new("history"),
];
static CACHE_MARKS: [Interned; 2] = [Interned::new("cache_control"), Interned::new("cachePoint")];
/// A mark is on an entry, on one of its blocks, or on a block of a tool's result.
const DEEPEST_MARK: usize = 3;
/// Lists in lists; Python refuses a thousand.
const DEEPEST_LIST: usize = 64;

/// Whether it is the content of one request, and no message.
#[pyfunction]
pub fn is_request(entry: &Any<'_>) -> PyResult<bool> {
    let _running = Running::begin();
    let py = entry.py();
    if let Some(body) = Fields::of(entry) {
        if body.has(interned!(py, "role"))? || body.has(interned!(py, "type"))? {
            return Ok(false);
        }
        let messages = messages_in(body)?;
        return Ok(messages.is_some_and(|messages| is_list(&messages) || messages.is_instance_of::<PyString>()));
    }
    let (compiled, ir) = classes(py)?;
    Ok(entry.is_instance_of::<PyList>() || entry.is_instance(&compiled)? || entry.is_instance(&ir)?)
}

/// The last of a list of requests; None for anything else.
pub fn last_request<'py>(target: &Any<'py>) -> PyResult<Option<Any<'py>>> {
    let mut requests = listed(Some(target))?;
    for request in &requests {
        if !is_request(request)? {
            return Ok(None);
        }
    }
    Ok(requests.pop())
}

/// The messages of a body, of whatever type. None without a field for them.
pub fn messages_in<'py>(body: Fields<'_, 'py>) -> PyResult<Option<Any<'py>>> {
    let of = body.as_any();
    for key in &LISTS {
        if body.has(key.get(of.py()))? {
            return of.get_item(key.get(of.py())).map(Some);
        }
    }
    Ok(None)
}

/// The name of the model in a body.
pub fn model_in(body: Fields<'_, '_>) -> PyResult<String> {
    let py = body.as_any().py();
    for key in [interned!(py, "model"), interned!(py, "modelId")] {
        if body.is_set(key)?
            && let Some(model) = body.get(key)?
        {
            return Ok(text_of(&string_of(&model)?).into_owned());
        }
    }
    Ok(String::new())
}

pub fn is_set(value: Option<&Any<'_>>) -> PyResult<bool> {
    value.map_or(Ok(false), |value| value.is_truthy())
}

/// The system text or blocks of a body, as they are in it.
pub fn system_in<'py>(body: Fields<'_, 'py>) -> PyResult<Option<Any<'py>>> {
    let py = body.as_any().py();
    for key in [interned!(py, "system"), interned!(py, "instructions")] {
        if body.is_set(key)? {
            return body.get(key);
        }
    }
    let gemini = body.get(interned!(py, "systemInstruction"))?;
    gemini.as_ref().and_then(Fields::of).map_or(Ok(None), |of| of.get(interned!(py, "parts")))
}

/// The tools of a body, each function of Gemini's by itself.
pub fn tools_in<'py>(body: Fields<'_, 'py>) -> PyResult<Any<'py>> {
    let py = body.as_any().py();
    let named = interned!(py, "tools");
    let mut tools = body.get(named)?;
    if !body.is_set(named)? {
        let config = body.get(interned!(py, "toolConfig"))?;
        tools = config.as_ref().and_then(Fields::of).map_or(Ok(None), |of| of.get(named))?;
        tools = tools.map(|tools| with_marks(&tools)).transpose()?.filter(|tools| tools.is_truthy().unwrap_or(true));
    }
    let Some(tools) = tools else { return Ok(PyList::empty(py).into_any()) };
    let found = PyList::empty(py);
    if let Some(by_name) = Fields::of(&tools) {
        // The AI SDK's.
        for (name, tool) in by_name.items()? {
            let Some(fields) = Fields::of(&tool) else {
                found.append(tool)?;
                continue;
            };
            let named = PyDict::new(py);
            named.set_item(interned!(py, "name"), name)?;
            named.update(fields.as_any().cast()?)?;
            found.append(named)?;
        }
        return Ok(found.into_any());
    }
    if !is_list(&tools) {
        return Ok(tools);
    }
    for tool in listed(Some(&tools))? {
        let key = interned!(py, "functionDeclarations");
        let functions = Fields::of(&tool).map_or(Ok(None), |of| of.get(key))?;
        match functions.filter(|functions| functions.is_truthy().unwrap_or(true)) {
            Some(functions) if is_list(&functions) => {
                listed(Some(&functions))?.into_iter().try_for_each(|function| found.append(function))?;
            }
            Some(function) => found.append(function)?,
            None => found.append(tool)?,
        }
    }
    Ok(found.into_any())
}

/// The system text of a body, its blocks with a blank line between them, and its tools.
#[pyfunction]
pub fn system_and_tools<'py>(body: &Any<'py>) -> PyResult<(Any<'py>, Any<'py>)> {
    let _running = Running::begin();
    let (py, body) = (body.py(), Fields::needed(body, 0, || "body".into())?);
    let texts = system_texts(system_in(body)?.as_ref())?.into_iter().map(|of| of.text);
    let texts = PyTuple::new(py, texts.collect::<Vec<_>>())?;
    Ok((PyString::new(py, "\n\n").call_method1("join", (texts,))?, tools_in(body)?))
}

/// The system text, or the text of one of its blocks.
pub struct SystemText<'py> {
    pub place: String,
    pub text: Bound<'py, PyString>,
    pub block: Option<Any<'py>>,
}

/// The texts of a system text or of its blocks.
pub fn system_texts<'py>(system: Option<&Any<'py>>) -> PyResult<Vec<SystemText<'py>>> {
    let Some(system) = system else { return Ok(Vec::new()) };
    let has_blocks = is_list(system);
    let blocks = if has_blocks { listed(Some(system))? } else { vec![system.clone()] };
    let (is_one, mut texts) = (blocks.len() == 1, Vec::new());
    for (number, block) in blocks.into_iter().enumerate() {
        let text = match Fields::of(&block) {
            Some(fields) => fields.text(interned!(block.py(), "text"))?,
            None => block.cast::<PyString>().ok().cloned(),
        };
        if let Some(text) = text.filter(|text| !text.is_empty().unwrap_or(true)) {
            let place = if is_one { "system".into() } else { format!("system[{number}]") };
            texts.push(SystemText { place, text, block: has_blocks.then_some(block) });
        }
    }
    Ok(texts)
}

/// Whether an entry is the system's.
pub fn is_system(entry: &Any<'_>) -> PyResult<bool> {
    let py = entry.py();
    let Some(fields) = Fields::of(entry) else {
        return entry.getattr_opt(interned!(py, "type"))?.map_or(Ok(false), |kind| kind.eq("system"));
    };
    let role = fields.get(interned!(py, "role"))?.map(|role| string_of(&role)).transpose()?;
    Ok(role.is_some_and(|role| matches!(text_of(&role).as_ref(), "system" | "developer")))
}

/// Converse's tools or blocks, with each cache point as a mark on the block before it.
pub fn with_marks<'py>(blocks: &Any<'py>) -> PyResult<Any<'py>> {
    if !is_list(blocks) {
        return Ok(blocks.clone());
    }
    let py = blocks.py();
    let mut made: Vec<Any<'py>> = Vec::new();
    for block in listed(Some(blocks))? {
        let point = Fields::of(&block).map_or(Ok(None), |of| of.get(interned!(py, "cachePoint")))?;
        let Some(point) = point else {
            made.push(block);
            continue;
        };
        if let Some(last) = made.last_mut()
            && let Some(fields) = Fields::of(last)
        {
            *last = fields.with(interned!(py, "cache_control"), point)?;
        }
    }
    Ok(PyList::new(py, made)?.into_any())
}

/// The number of cache marks on a tool, a block or an entry, and on its blocks.
pub fn marks(value: &Any<'_>) -> PyResult<usize> {
    marks_within(&mut ByList::default(), value, 0)
}

fn marks_within<'py>(known: &mut ByList<'py, usize>, value: &Any<'py>, depth: usize) -> PyResult<usize> {
    let py = value.py();
    let Some(fields) = Fields::of(value) else {
        if let Some(sum) = known.get(value, depth) {
            return Ok(sum);
        }
        let mut sum: usize = 0;
        if depth < DEEPEST_LIST && is_list(value) {
            for block in listed(Some(value))? {
                sum = sum.saturating_add(marks_within(known, &block, depth + 1)?);
            }
            known.keep(value, depth, sum);
        }
        return Ok(sum);
    };
    let mut own = false;
    for mark in &CACHE_MARKS {
        own |= fields.get(mark.get(py))?.is_some();
    }
    own |= mark_in_options(fields)?.is_some();
    let content = interned!(py, "content");
    let key = if fields.has(content)? { content } else { interned!(py, "message") };
    let inside = if depth < DEEPEST_MARK { fields.get(key)? } else { None };
    Ok(inside.map_or(Ok(0), |inside| marks_within(known, &inside, depth + 1))?.saturating_add(usize::from(own)))
}
