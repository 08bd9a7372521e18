//! Tools, their calls and the results of these, in the form of any provider.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::bedrock::fit_name;
use super::neutral::dict;
use crate::checks::check_choice;
use crate::checks::{refused, type_name};
use crate::exit::Running;
use crate::interned::{Interned, interned};
use crate::reading::{Fields, is_blank, is_list, text_of};

static SCHEMAS: [Interned; 3] =
    [Interned::new("parametersJsonSchema"), Interned::new("parameters_json_schema"), Interned::new("parameters")];
/// Keys that only Gemini's declaration of a function has.
static GEMINI_KEYS: [Interned; 2] = [Interned::new("behavior"), Interned::new("responseJsonSchema")];
/// The tools that Gemini runs itself.
const GEMINI_HOSTED: [&str; 12] = [
    "googleSearch",
    "google_search",
    "codeExecution",
    "code_execution",
    "urlContext",
    "url_context",
    "googleMaps",
    "google_maps",
    "fileSearch",
    "file_search",
    "computerUse",
    "computer_use",
];

type Any<'py> = Bound<'py, PyAny>;
/// Its name, its description, its schema (none for a tool that the provider runs itself), the definition, the provider.
type Tool<'py> = (Any<'py>, Any<'py>, Any<'py>, Any<'py>, &'static str);

/// A definition of a tool in any provider's form. Raises InvalidArgumentError for anything else.
#[pyfunction]
pub fn read_tool<'py>(tool: &Any<'py>) -> PyResult<Tool<'py>> {
    let _running = Running::begin();
    let py = tool.py();
    let Some(fields) = Fields::of(tool) else {
        let message = format!("a tool is of type {}; pass its definition as a dict", type_name(tool));
        return Err(refused(py, message));
    };
    if let Some(found) = found_in(fields, tool)? {
        return Ok(found);
    }
    let keys = fields.keys()?.iter().map(|key| key.str()).collect::<PyResult<Vec<_>>>()?;
    let keys = PyList::new(py, keys)?;
    keys.sort()?;
    let message = format!(
        "a tool has the keys {}; pass one of Anthropic's (name, input_schema), OpenAI's (type, function), Bedrock's \
         (toolSpec), Gemini's (name, parametersJsonSchema) or MCP's (name, inputSchema), each function by itself",
        text_of(&keys.repr()?)
    );
    Err(refused(py, message))
}

fn found_in<'py>(fields: Fields<'_, 'py>, tool: &Any<'py>) -> PyResult<Option<Tool<'py>>> {
    let py = tool.py();
    let parameters = interned!(py, "parameters");
    let function = fields.get(interned!(py, "function"))?;
    if let Some(function) = function.as_ref().and_then(Fields::of) {
        return defined(function, function.get(parameters)?, tool, "openai_chat").map(Some);
    }
    let kind = fields.get(interned!(py, "type"))?;
    if fields.kind()?.name() == "function" {
        return defined(fields, fields.get(parameters)?, tool, "openai_responses").map(Some);
    }
    let spec = fields.get(interned!(py, "toolSpec"))?;
    let schema = interned!(py, "inputSchema");
    if let Some(spec) = spec.as_ref().and_then(Fields::of) {
        let schema = spec.get(schema)?;
        let schema = schema.as_ref().and_then(Fields::of).map(|of| of.get(interned!(py, "json"))).transpose()?;
        return defined(spec, schema.flatten(), tool, "bedrock").map(Some);
    }
    let name = interned!(py, "name");
    if fields.has(schema)? && fields.has(name)? {
        return defined(fields, fields.get(schema)?, tool, "ai_sdk").map(Some); // or of MCP
    }
    let schema = interned!(py, "input_schema");
    if fields.has(schema)? {
        return defined(fields, fields.get(schema)?, tool, "anthropic").map(Some);
    }
    // A tool that its provider runs itself.
    let hosted = |name: Any<'py>, provider: &'static str| -> PyResult<Option<Tool<'py>>> {
        let (empty, schema) = (PyString::new(py, "").into_any(), PyDict::new(py).into_any());
        Ok(Some((name.str()?.into_any(), empty, schema, tool.clone(), provider)))
    };
    if let Some(kind) = kind.and_then(|kind| kind.cast_into::<PyString>().ok()) {
        let of = text_of(&kind);
        let custom = fields.get(interned!(py, "custom"))?;
        let custom = custom.as_ref().and_then(Fields::of);
        // Of servers there may be several.
        let (named, provider) = match of.as_ref() {
            "mcp_toolset" => (fields.get(interned!(py, "mcp_server_name"))?, "anthropic"),
            "mcp" => (fields.get(interned!(py, "server_label"))?, "openai_responses"),
            "custom" if custom.is_some() => (custom.map_or(Ok(None), |custom| custom.get(name))?, "openai_chat"),
            "custom" | "namespace" => (fields.get(name)?, "openai_responses"),
            _ if fields.has(name)? => (fields.get(name)?, "anthropic"),
            _ => (None, "openai_responses"),
        };
        return hosted(named.unwrap_or_else(|| kind.clone().into_any()), provider);
    }
    if fields.has(name)? {
        for key in SCHEMAS.iter().chain(&GEMINI_KEYS) {
            if fields.has(key.get(py))? {
                let schemas = SCHEMAS.iter().map(|key| fields.get(key.get(py)));
                let schema = schemas.collect::<PyResult<Vec<_>>>()?.into_iter().flatten().next();
                return defined(fields, schema, tool, "gemini").map(Some);
            }
        }
    }
    let items = fields.items()?;
    let [(key, inner)] = items.as_slice() else { return Ok(None) };
    let Ok(key) = key.cast::<PyString>() else { return Ok(None) };
    match text_of(key).as_ref() {
        "functionDeclarations" | "function_declarations" if is_list(inner) && inner.len()? == 1 => {
            read_tool(&inner.get_item(0)?).map(Some)
        }
        name if GEMINI_HOSTED.contains(&name) && Fields::of(inner).is_some() => {
            hosted(key.clone().into_any(), "gemini")
        }
        _ => Ok(None),
    }
}

/// A tool whose name and description are in this object.
fn defined<'py>(
    named: Fields<'_, 'py>,
    schema: Option<Any<'py>>,
    raw: &Any<'py>,
    provider: &'static str,
) -> PyResult<Tool<'py>> {
    let py = raw.py();
    let name = named.get(interned!(py, "name"))?;
    let Some(name) = name.clone().filter(|name| name.is_instance_of::<PyString>() && name.is_truthy().unwrap_or(false))
    else {
        let shown = name.unwrap_or_else(|| py.None().into_bound(py)).repr()?;
        let message = format!("a tool's name is {}; pass a string", text_of(&shown));
        return Err(refused(py, message));
    };
    let is_set = |value: &Any<'py>| value.is_truthy().unwrap_or(true);
    let description = named.get(interned!(py, "description"))?.filter(is_set);
    let description = description.map_or_else(|| Ok(PyString::new(py, "")), |text| text.str())?;
    let schema = match schema.filter(is_set) {
        Some(schema) => schema,
        None => dict!(py, "type": "object").into_any(),
    };
    Ok((name, description.into_any(), schema, raw.clone(), provider))
}

/// The format of a tool's call, its id, the tool's name, and the arguments as they are.
type Call<'py> = (&'static str, Bound<'py, PyString>, Any<'py>, Option<Any<'py>>);

/// A call of a tool, as a provider's dict or an object of its SDK. None for anything else.
#[pyfunction]
pub fn read_call<'py>(call: &Any<'py>) -> PyResult<Option<Call<'py>>> {
    let _running = Running::begin();
    let py = call.py();
    let mut call = call.clone();
    if Fields::of(&call).is_none() {
        let dump = call.getattr_opt(interned!(py, "model_dump"))?.filter(Any::is_callable);
        let Some(dump) = dump else { return Ok(None) };
        call = dump.call0()?;
    }
    let Some(fields) = Fields::of(&call) else { return Ok(None) };
    let set = |key| fields.get(key).map(|value| value.filter(|value| value.is_truthy().unwrap_or(false)));
    let made = match set(interned!(py, "functionCall"))? {
        Some(made) => Some(made),
        None => fields.get(interned!(py, "function_call"))?,
    };
    if let Some(made) = made.as_ref().and_then(Fields::of) {
        let empty = || PyString::new(py, "");
        // It may have no id: then its result is found by the tool's name.
        let id = match made.get(interned!(py, "id"))?.filter(|id| id.is_truthy().unwrap_or(false)) {
            Some(id) => id.cast_into().ok(),
            None => Some(empty()),
        };
        let name = made.get(interned!(py, "name"))?.filter(|name| name.is_truthy().unwrap_or(false));
        let args = made.get(interned!(py, "args"))?;
        return Ok(id.zip(name).map(|(id, name)| ("gemini", id, name, args)));
    }
    let (function, used) = (fields.get(interned!(py, "function"))?, fields.get(interned!(py, "toolUse"))?);
    let function = function.as_ref().and_then(Fields::of);
    let used = match used.as_ref() {
        None if !fields.has(interned!(py, "toolUse"))? => Some(fields),
        used => used.and_then(Fields::of),
    };
    let used = used.map(|used| PyResult::Ok((used, used.has(interned!(py, "toolUseId"))?))).transpose()?;
    let (named, input, arguments) = (interned!(py, "name"), interned!(py, "input"), interned!(py, "arguments"));
    let (of, id) = (fields, interned!(py, "id"));
    let (format, id, (of_name, name), (of_input, input)) = if let Some(function) = function {
        ("openai_chat", of.get(id)?, (function, named), (function, arguments))
    } else if let Some((used, true)) = used {
        ("bedrock", used.get(interned!(py, "toolUseId"))?, (used, named), (used, input))
    } else if of.has(interned!(py, "toolCallId"))? {
        let input = if of.has(input)? { input } else { interned!(py, "args") }; // version 4's
        ("ai_sdk", of.get(interned!(py, "toolCallId"))?, (of, interned!(py, "toolName")), (of, input))
    } else if of.has(interned!(py, "call_id"))? {
        ("openai_responses", of.get(interned!(py, "call_id"))?, (of, named), (of, arguments))
    } else if of.has(interned!(py, "args"))? {
        ("langchain", of.get(id)?, (of, named), (of, interned!(py, "args")))
    } else {
        ("anthropic", of.get(id)?, (of, named), (of, input))
    };
    let id = id.and_then(|id| id.cast_into::<PyString>().ok()).filter(|id| !id.is_empty().unwrap_or(true));
    let name = match of_name.get(name)? {
        None if !of_name.has(name)? => Some(PyString::new(py, "").into_any()),
        name => name.filter(|name| name.is_instance_of::<PyString>()),
    };
    let input = of_input.get(input)?;
    Ok(id.zip(name).map(|(id, name)| (format, id, name, input)))
}

/// The result of a call in its provider's form. OpenAI has no mark for errors.
#[pyfunction]
pub fn call_result<'py>(
    format: &str,
    id: &Bound<'py, PyString>,
    name: &Any<'py>,
    content: &Bound<'py, PyString>,
    is_error: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let _running = Running::begin();
    let py = id.py();
    Ok(match format {
        "openai_chat" => dict!(py, "role": "tool", "tool_call_id": id, "content": content),
        "openai_responses" => dict!(py, "type": "function_call_output", "call_id": id, "output": content),
        "bedrock" => {
            // Converse refuses an empty text.
            let empty = interned!(py, "(empty)");
            let block = dict!(py, "text": if is_blank(&text_of(content)) { empty } else { content });
            let answer = dict!(py, "toolUseId": id, "content": PyList::new(py, [block])?);
            if is_error {
                answer.set_item("status", "error")?;
            }
            dict!(py, "toolResult": answer)
        }
        "gemini" => {
            let of = if is_error { dict!(py, "error": content) } else { dict!(py, "output": content) };
            let response = if id.is_empty()? { dict!(py) } else { dict!(py, "id": id) };
            response.set_item("name", name)?;
            response.set_item("response", of)?;
            dict!(py, "functionResponse": response)
        }
        "ai_sdk" => {
            let output = dict!(py, "type": if is_error { "error-text" } else { "text" }, "value": content);
            dict!(py, "type": "tool-result", "toolCallId": id, "toolName": name, "output": output)
        }
        _ => {
            let result = dict!(py, "type": "tool_result", "tool_use_id": id, "content": content);
            if is_error {
                result.set_item("is_error", true)?;
            }
            result
        }
    })
}

/// The formats of calls, and of definitions of tools.
const CALL_FORMATS: [&str; 7] =
    ["anthropic", "openai_chat", "openai_responses", "bedrock", "gemini", "ai_sdk", "langchain"];

/// A tool as a request lists it. It is never strict, which would restrict the schema.
#[pyfunction]
pub fn tool_definition<'py>(
    format: &Any<'py>,
    name: &Any<'py>,
    description: &Any<'py>,
    schema: &Any<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let _running = Running::begin();
    let py = format.py();
    check_choice("provider", format, PyTuple::new(py, CALL_FORMATS)?.as_any())?;
    let about = dict!(py, "name": name);
    if description.is_truthy()? {
        about.set_item("description", description)?;
    }
    let schema = py.get_type::<PyDict>().call1((schema,))?;
    let with_schema = |key: &str, value: &Any<'py>| about.set_item(key, value);
    match text_of(format.cast()?).as_ref() {
        "anthropic" => with_schema("input_schema", &schema)?,
        "gemini" => with_schema("parametersJsonSchema", &schema)?,
        "ai_sdk" => with_schema("inputSchema", &schema)?,
        "openai_chat" | "langchain" => {
            with_schema("parameters", &schema)?;
            return Ok(dict!(py, "type": "function", "function": about));
        }
        "bedrock" => {
            about.set_item("name", fit_name(name)?)?;
            with_schema("inputSchema", dict!(py, "json": schema).as_any())?;
            return Ok(dict!(py, "toolSpec": about));
        }
        _ => {
            let made = dict!(py, "type": "function");
            made.update(about.as_mapping())?;
            made.set_item("parameters", schema)?;
            made.set_item("strict", false)?;
            return Ok(made);
        }
    }
    Ok(about)
}

/// The results of one reply's calls as history entries: Anthropic, Bedrock and Gemini want all of them in one user
/// message, the AI SDK in a tool message. For others each is an entry.
#[pyfunction]
pub fn result_entries<'py>(results: &Any<'py>) -> PyResult<Bound<'py, PyList>> {
    let _running = Running::begin();
    let py = results.py();
    let (blocks, rest) = (PyList::empty(py), PyList::empty(py));
    let (mut key, mut role) = (interned!(py, "content"), interned!(py, "user"));
    for result in results.try_iter()? {
        let result = result?;
        let mut is_block = false;
        if let Some(fields) = Fields::of(&result) {
            let kind = fields.kind()?;
            let (is_sdks, is_geminis) = (kind.name() == "tool-result", fields.has(interned!(py, "functionResponse"))?);
            let is_bedrocks = fields.has(interned!(py, "toolResult"))?;
            is_block = is_sdks || is_geminis || is_bedrocks || kind.name() == "tool_result";
            key = if is_geminis { interned!(py, "parts") } else { key };
            role = if is_sdks { interned!(py, "tool") } else { role };
        }
        (if is_block { &blocks } else { &rest }).append(result)?;
    }
    if blocks.is_empty() {
        return Ok(rest);
    }
    let message = dict!(py, "role": role);
    message.set_item(key, blocks)?;
    rest.insert(0, message)?;
    Ok(rest)
}
