//! Writing Converse's messages: from neutral ones, and from its own as they are sent.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use rehydrate_core::conversation::Role;
use rehydrate_core::rules::bedrock::is_tool_name;

use super::contents::Reader;
use super::neutral::{Level, Media, Message, Part, Sent, dict};
use crate::interned::{Interned, interned};
use crate::reading::{BEDROCK_KEYS, Fields, is_list, text_of};

/// An empty result: Converse refuses an empty text, and an error without a content.
pub const EMPTY: &str = "(empty)";
const IMAGES: &[&str] = &["png", "jpeg", "gif", "webp"];
const DOCUMENTS: [(&str, &str); 9] = [
    ("application/pdf", "pdf"),
    ("text/csv", "csv"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("text/html", "html"),
    ("text/plain", "txt"),
    ("text/markdown", "md"),
];
const LONGEST_ID: usize = 64;

/// The media type of a format of documents.
pub fn media_type(format: &str) -> Option<&'static str> {
    DOCUMENTS.iter().find(|(_, of)| *of == format).map(|(media_type, _)| *media_type)
}

/// The format of documents of a media type.
pub fn format_of(media_type: &str) -> Option<&'static str> {
    DOCUMENTS.iter().find(|(of, _)| *of == media_type).map(|(_, format)| *format)
}

/// A content as blocks: a string is one text.
pub fn blocks_of<'py>(py: Python<'py>, content: Option<&Bound<'py, PyAny>>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let text = |text: &Bound<'py, PyAny>| PyResult::Ok(dict!(py, "text": text).into_any());
    match content {
        Some(content) if content.is_instance_of::<PyString>() => {
            if content.is_truthy()? {
                Ok(vec![text(content)?])
            } else {
                Ok(Vec::new())
            }
        }
        Some(content) if is_list(content) => content
            .try_iter()?
            .map(|block| {
                let block = block?;
                if block.is_instance_of::<PyString>() { text(&block) } else { Ok(block) }
            })
            .collect(),
        _ => Ok(Vec::new()),
    }
}

/// The key for the kind of a block. None if Converse doesn't have the kind.
pub fn key_of_block(block: Fields<'_, '_>) -> PyResult<Option<&'static Interned>> {
    if !block.kind()?.name().is_empty() {
        return Ok(None);
    }
    for (key, _) in &BEDROCK_KEYS {
        if block.get(key.get(block.as_any().py()))?.is_some() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// A message with role and content only, as a list. The API refuses everything else. Media that were in JSON, in
/// base64, are bytes again: botocore would encode the base64.
pub fn own<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = entry.py();
    let of = Fields::needed(entry, 0, String::new)?;
    let content = of.get(interned!(py, "content"))?;
    let sent = changed_blocks(py, content.as_ref())?;
    if of.len()? == 2 && sent.is_none() {
        return Ok(entry.clone());
    }
    let content = sent.map(Bound::into_any).or(content);
    Ok(dict!(py, "role": of.get(interned!(py, "role"))?, "content": content).into_any())
}

/// The blocks of a content as they are sent. None if they are the same.
fn changed_blocks<'py>(py: Python<'py>, content: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Bound<'py, PyList>>> {
    let _level = Level::down(py, 0)?;
    let mut is_same = !content.is_some_and(|content| content.is_instance_of::<PyString>());
    let mut sent = Vec::new();
    for block in blocks_of(py, content)? {
        let changed = with_bytes(&block)?;
        is_same &= changed.is_none();
        sent.push(changed.unwrap_or(block));
    }
    if is_same && let Some(content) = content.filter(|content| is_list(content)) {
        for (block, own) in sent.iter().zip(content.try_iter()?) {
            is_same &= block.is(&own?);
        }
    }
    if is_same { Ok(None) } else { PyList::new(py, sent).map(Some) }
}

/// The block with bytes for base64. None if it has none.
fn with_bytes<'py>(raw: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = raw.py();
    let Some(block) = Fields::of(raw) else { return Ok(None) };
    let Some(key) = key_of_block(block)? else { return Ok(None) };
    let Some(value) = block.get(key.get(py))? else { return Ok(None) };
    let Some(of) = Fields::of(&value) else { return Ok(None) };
    let (field, new) = match key.text() {
        "toolResult" => match changed_blocks(py, of.get(interned!(py, "content"))?.as_ref())? {
            Some(content) => (interned!(py, "content"), content.into_any()),
            None => return Ok(None),
        },
        "guardContent" => match of.get(interned!(py, "image"))?.as_ref().and_then(Fields::of) {
            Some(image) => match source_of_bytes(image)? {
                Some(source) => (interned!(py, "image"), with(image, interned!(py, "source"), &source)?),
                None => return Ok(None),
            },
            None => return Ok(None),
        },
        "reasoningContent" => match of.text(interned!(py, "redactedContent"))? {
            Some(data) => match decoded(&data)? {
                Some(bytes) => (interned!(py, "redactedContent"), bytes.into_any()),
                None => return Ok(None),
            },
            None => return Ok(None),
        },
        "image" | "video" | "audio" | "document" => match source_of_bytes(of)? {
            Some(source) => (interned!(py, "source"), source),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let made = PyDict::new(py);
    made.set_item(key.get(py), with(of, field, &new)?)?;
    Ok(Some(made.into_any()))
}

/// The source of a medium with bytes for base64. None if it has none.
fn source_of_bytes<'py>(medium: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = medium.as_any().py();
    let source = medium.get(interned!(py, "source"))?;
    let Some(source) = source.as_ref().and_then(Fields::of) else { return Ok(None) };
    let Some(data) = source.text(interned!(py, "bytes"))? else { return Ok(None) };
    let Some(bytes) = decoded(&data)? else { return Ok(None) };
    with(source, interned!(py, "bytes"), bytes.as_any()).map(Some)
}

/// A copy with another value under a key.
fn with<'py>(
    of: Fields<'_, 'py>,
    key: &Bound<'py, PyString>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = PyDict::new(key.py());
    copy.update(of.as_any().cast()?)?;
    copy.set_item(key, value)?;
    Ok(copy.into_any())
}

/// The bytes of a text in base64; None if it isn't one.
pub fn decoded<'py>(data: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = data.py();
    match py.import("base64")?.call_method1("b64decode", (data,)) {
        Ok(bytes) => Ok(Some(bytes.cast_into()?)),
        Err(error) if error.is_instance_of::<PyValueError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The blocks of a system message for the `system` field: all but those that add or remove a tool, which only a message
/// may do.
pub fn system_blocks<'py>(message: Fields<'_, 'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = message.as_any().py();
    let mut blocks = blocks_of(py, message.get(interned!(py, "content"))?.as_ref())?;
    let mut kept = Vec::with_capacity(blocks.len());
    for block in &blocks {
        kept.push(!block.contains(interned!(py, "toolAddition"))? && !block.contains(interned!(py, "toolRemoval"))?);
    }
    let mut kept = kept.into_iter();
    blocks.retain(|_| kept.next().unwrap_or(true));
    Ok(blocks)
}

/// A user's message of one text.
pub fn user<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    let py = text.py();
    Ok(dict!(py, "role": "user", "content": PyList::new(py, [dict!(py, "text": text)])?))
}

/// Messages of Converse's. A system entry among them becomes a user message that says it is one, and so do media of the
/// assistant's, which the API only accepts from the user (2026-11).
pub fn write<'py>(reader: &Reader<'py>, messages: &[Message<'py>]) -> PyResult<Vec<Sent<'py>>> {
    let py = reader.py;
    let mut sent = Vec::new();
    for each in messages {
        if each.role == Role::System {
            sent.extend(each.as_users(py, user)?);
            continue;
        }
        let (is_assistant, at) = (each.role == Role::Assistant, each.first());
        let mut blocks = Vec::new();
        for (number, part) in each.parts.iter().enumerate() {
            blocks.push(written(reader, part, at, &format!("({at}) [{number}]"))?);
        }
        let is = |block: &Bound<'py, PyDict>, key| block.contains(key);
        let (image, document) = (interned!(py, "image"), interned!(py, "document"));
        let mut has_documents = false;
        let (mut media, mut others) = (Vec::new(), Vec::new());
        for block in &blocks {
            has_documents |= is(block, document)?;
            let of = if is(block, document)? || is(block, image)? { &mut media } else { &mut others };
            of.push(block.clone());
        }
        if is_assistant && !media.is_empty() {
            media.insert(0, dict!(py, "text": "[assistant]"));
            sent.extend(super::blocks_of_role(py, false, media, each)?);
            blocks = others;
        } else if has_documents {
            let mut has_text = false;
            for block in &blocks {
                has_text |= is(block, interned!(py, "text"))?;
            }
            if !has_text {
                blocks.push(dict!(py, "text": "(A document.)"));
            }
        }
        sent.extend(super::blocks_of_role(py, is_assistant, blocks, each)?);
    }
    Ok(sent)
}

/// A part as a block; no two documents have one suffix.
fn written<'py>(reader: &Reader<'py>, part: &Part<'py>, at: usize, suffix: &str) -> PyResult<Bound<'py, PyDict>> {
    let py = reader.py;
    match part {
        Part::Text(text) => Ok(dict!(py, "text": text)),
        Part::Media(media) => medium(reader, media, at, suffix),
        Part::Call(call) => {
            let id = fit_id(py, call.id.as_ref())?;
            let used = dict!(py, "toolUseId": id, "name": fit_name(&call.name)?, "input": super::object(&call.input)?);
            Ok(dict!(py, "toolUse": used))
        }
        Part::Result(answer) => {
            let content = PyList::empty(py);
            for (number, part) in answer.parts.iter().enumerate() {
                content.append(written(reader, part, at, &format!("{suffix} [{number}]"))?)?;
            }
            if content.is_empty() {
                content.append(dict!(py, "text": EMPTY))?;
            }
            let result = dict!(py, "toolUseId": fit_id(py, answer.id.as_ref())?, "content": content);
            if answer.is_error {
                result.set_item(interned!(py, "status"), interned!(py, "error"))?;
            }
            Ok(dict!(py, "toolResult": result))
        }
    }
}

/// An id of at most 64 characters, the same for the same id.
fn fit_id<'py>(py: Python<'py>, id: Option<&Bound<'py, PyString>>) -> PyResult<Bound<'py, PyString>> {
    let Some(id) = id else { return Ok(PyString::new(py, "")) };
    if id.len()? <= LONGEST_ID {
        return Ok(id.clone());
    }
    let text = text_of(id);
    let beginning: String = text.chars().take(31).collect();
    Ok(PyString::new(py, &format!("{beginning}-{}", digest(py, &text, 16)?)))
}

/// The name of a tool in Converse's characters, the same for the same name, and another for another.
pub fn fit_name<'py>(name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let Ok(known) = name.cast::<PyString>() else { return Ok(name.clone()) };
    let text = text_of(known);
    if is_tool_name(text.as_bytes()) {
        return Ok(name.clone());
    }
    let fit = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' });
    let beginning: String = fit.take(55).collect();
    let py = name.py();
    Ok(PyString::new(py, &format!("{beginning}-{}", digest(py, &text, 4)?)).into_any())
}

/// A digest of a text, of this many bytes, in hexadecimal.
fn digest(py: Python<'_>, text: &str, bytes: usize) -> PyResult<String> {
    let options = PyDict::new(py);
    options.set_item("digest_size", bytes)?;
    let digest = py.import("hashlib")?.call_method("blake2b", (PyBytes::new(py, text.as_bytes()),), Some(&options))?;
    digest.call_method0("hexdigest")?.extract()
}

/// An image or a document, or a text if Converse does not accept the type, or it is an address.
fn medium<'py>(reader: &Reader<'py>, media: &Media<'py>, at: usize, suffix: &str) -> PyResult<Bound<'py, PyDict>> {
    let py = reader.py;
    let url = text_of(&media.url);
    let (media_type, data) = Media::base64_in(&url).unwrap_or_default();
    let content = if data.is_empty() { None } else { decoded(&PyString::new(py, data))? };
    if let Some(content) = content.filter(|content| !content.as_bytes().is_empty()) {
        let kind = media_type.strip_prefix("image/").unwrap_or(&media_type);
        if media.is_image && IMAGES.contains(&kind) {
            let image = dict!(py, "format": kind, "source": dict!(py, "bytes": content));
            return Ok(dict!(py, "image": image));
        }
        if let Some(format) = format_of(&media_type) {
            let name = format!("{} {suffix}", document_name(&text_of(&media.name)));
            let document = dict!(py, "format": format, "name": name, "source": dict!(py, "bytes": content));
            return Ok(dict!(py, "document": document));
        }
    }
    Ok(dict!(py, "text": reader.left_out(media, at)?))
}

/// A name of the characters that Converse takes, at most 100 of them.
fn document_name(name: &str) -> String {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "()[]-".contains(c);
    let known: String = name.chars().map(|c| if is_known(c) { c } else { ' ' }).collect();
    let words: Vec<&str> = known.split_whitespace().collect();
    let name: String = words.join(" ").chars().take(100).collect();
    if name.is_empty() { "document".into() } else { name }
}
