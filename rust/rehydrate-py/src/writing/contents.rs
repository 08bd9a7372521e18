//! Contents of any format as neutral parts, with notes on omitted or changed content.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PySet, PyString};

use super::left_out;
use super::neutral::{Answer, Call, Level, Media, Message, Part, Sources, after, joined};
use crate::interned::interned;
use crate::reading::{
    Fields, input_text, is_blank, is_list, json_object, known_role, readable_texts, string_of, text_of, wrong_content,
};

const TEXTS: &[&str] = &["text", "input_text", "output_text", "text-plain", "summary_text"];
const THINKING: &[&str] = &["thinking", "redacted_thinking", "reasoning", "reasoning_content"];
pub const NO_THINKING: &str = "thinking is not sent, it is for the model that thought it:";

/// Reads contents, and notes losses.
pub struct Reader<'py> {
    pub py: Python<'py>,
    /// Content that was left out or changed, and a set of the indices of its entries.
    lost: Bound<'py, PyDict>,
}

impl<'py> Reader<'py> {
    pub fn new(py: Python<'py>) -> Self {
        Self { py, lost: PyDict::new(py) }
    }

    pub fn lose(&self, what: &Bound<'py, PyString>, index: usize) -> PyResult<()> {
        let what = text_of(what); // a type may hold half a surrogate
        match self.lost.get_item(&*what)? {
            Some(known) => known.cast_into::<PySet>()?.add(index),
            None => self.lost.set_item(&*what, PySet::new(self.py, [index])?),
        }
    }

    /// The words for a medium that the provider does not take, with a note.
    pub fn left_out(&self, media: &Media<'py>, index: usize) -> PyResult<Bound<'py, PyString>> {
        let note = match Media::type_in(&text_of(&media.url)) {
            Some(of) => format!("{of} is not sent:"),
            None if media.is_image => "the address of an image is sent as text:".into(),
            None => "the address of a file is sent as text:".into(),
        };
        self.lose(&PyString::new(self.py, &note), index)?;
        left_out(media)
    }

    /// Content that was left out or changed, and the indices of its entries.
    pub fn lost(self) -> PyResult<Vec<(String, Vec<usize>)>> {
        let of = |(what, places): (Bound<'py, PyAny>, Bound<'py, PyAny>)| {
            Ok((what.extract()?, places.try_iter()?.map(|place| place?.extract()).collect::<PyResult<_>>()?))
        };
        self.lost.iter().map(of).collect()
    }

    /// A message of a role and a content.
    pub fn message(
        &self,
        entry: Fields<'_, 'py>,
        role: &Bound<'py, PyString>,
        sources: Sources,
    ) -> PyResult<Message<'py>> {
        let content = entry.get(interned!(self.py, "content"))?;
        let mut message = Message::new(known_role(role), Vec::new(), sources);
        if let Some(Ok(text)) = content.as_ref().map(|content| content.cast_exact::<PyString>())
            && entry.len()? == 2
            && !is_blank(&text_of(text))
            && let Some(own) = entry.get(interned!(self.py, "role"))?
            && own.eq(role)?
        {
            message.parts.push(Part::Text(text.clone()));
            message.entry = Some(entry.as_any().clone());
        } else {
            message.parts = self.parts(content.as_ref(), message.first())?;
        }
        Ok(message)
    }

    /// The parts of a content.
    pub fn parts(&self, content: Option<&Bound<'py, PyAny>>, index: usize) -> PyResult<Vec<Part<'py>>> {
        let _level = Level::down(self.py, index)?;
        let mut found = Vec::new();
        for part in parts_of(content, index, "content")? {
            if part.is_instance_of::<PyString>() {
                found.extend(text_in(Some(part)));
            } else if let Some(part) = Fields::of(&part) {
                self.add_part(part, index, &mut found)?;
            }
        }
        Ok(found)
    }

    fn add_part(&self, part: Fields<'_, 'py>, index: usize, found: &mut Vec<Part<'py>>) -> PyResult<()> {
        let py = self.py;
        let kind = part.kind()?;
        let name = kind.name();
        if TEXTS.contains(&name.as_ref()) {
            found.extend(text_in(part.get(interned!(py, "text"))?));
        } else if name == "refusal" {
            found.extend(text_in(part.get(interned!(py, "refusal"))?));
        } else if THINKING.contains(&name.as_ref()) {
            self.lose(&PyString::new(py, NO_THINKING), index)?;
        } else if name == "tool_use" {
            let name = interned!(py, "name");
            let name = if part.has(name)? { shown(py, part.get(name)?)? } else { PyString::new(py, "") };
            let input = part.get(interned!(py, "input"))?.unwrap_or_else(|| py.None().into_bound(py));
            found.push(Part::Call(Call { id: part.text(interned!(py, "id"))?, name: name.into_any(), input }));
        } else if name == "tool_result" {
            let id = part.text(interned!(py, "tool_use_id"))?;
            found.push(Part::Result(self.result(id, part.get(interned!(py, "content"))?, part, index)?));
        } else if name == "image_generation_call"
            && let Some(data) = part.text(interned!(py, "result"))?.filter(|data| !data.is_empty().unwrap_or(true))
        {
            found.push(Part::Media(picture(data)?));
            found.extend(text_in(part.get(interned!(py, "revised_prompt"))?));
        } else if let Some(media) = media_in(part, &name)? {
            found.push(Part::Media(media));
        } else {
            self.add_other(part, kind.0.as_ref(), index, found)?;
        }
        Ok(())
    }

    /// Add a text document, or a provider's own part, as text if it has any.
    fn add_other(
        &self,
        part: Fields<'_, 'py>,
        kind: Option<&Bound<'py, PyString>>,
        index: usize,
        found: &mut Vec<Part<'py>>,
    ) -> PyResult<()> {
        let py = self.py;
        let name = kind.map(|kind| text_of(kind));
        if name.as_deref() == Some("document")
            && let Some(source) = part.get(interned!(py, "source"))?
            && let Some(source) = Fields::of(&source)
        {
            for key in [interned!(py, "title"), interned!(py, "context")] {
                found.extend(text_in(part.get(key)?));
            }
            let is_text = source.kind()?.name() == "text";
            match source.get(if is_text { interned!(py, "data") } else { interned!(py, "content") })? {
                Some(inner) => found.extend(self.parts(Some(&inner), index)?),
                // Only its provider can read it: it is named by an id, or is in S3.
                None => self.lose(&PyString::new(py, "document is not sent:"), index)?,
            }
            return Ok(());
        }
        let mut texts = Vec::new();
        if !matches!(name.as_deref(), Some("tool_addition" | "tool_removal")) {
            for text in readable_texts(part.as_any())? {
                if !kind.map_or(Ok(false), |kind| kind.as_any().eq(&text))? {
                    texts.push(text);
                }
            }
        }
        if kind.is_none() {
            texts.extend(outcome_of(part)?);
        }
        let unknown = PyString::new(py, "an unknown part");
        let what = kind.filter(|kind| !kind.is_empty().unwrap_or(true)).unwrap_or(&unknown);
        let how = if texts.is_empty() { " is not sent:" } else { " is sent as text:" };
        let empty = PyString::new(py, "");
        self.lose(&joined(&empty, vec![what.clone(), PyString::new(py, how)])?, index)?;
        found.extend(texts.into_iter().filter_map(|text| text_in(Some(text.into_any()))));
        Ok(())
    }

    /// A tool's result.
    pub fn result(
        &self,
        id: Option<Bound<'py, PyString>>,
        content: Option<Bound<'py, PyAny>>,
        about: Fields<'_, 'py>,
        index: usize,
    ) -> PyResult<Answer<'py>> {
        let content = match content {
            Some(content) if Fields::of(&content).is_some() => Some(PyList::new(self.py, [content])?.into_any()),
            content => content,
        };
        let mut parts = Vec::new();
        for part in self.parts(content.as_ref(), index)? {
            match part {
                Part::Result(inner) => parts.extend(inner.parts),
                Part::Call(call) => {
                    let text = input_text(self.py, Some(&call.name), Some(&call.input))?;
                    parts.extend(text_in(Some(text.to_py(self.py).into_any())));
                }
                said => parts.push(said),
            }
        }
        // LangChain's word, and that of a patch that was not applied.
        let status = about.text(interned!(self.py, "status"))?;
        let failed = status.filter(|status| matches!(text_of(status).as_ref(), "error" | "failed"));
        let is_error = failed.is_some() || about.is_set(interned!(self.py, "is_error"))?;
        if parts.is_empty() {
            parts.extend(failed.map(Part::Text));
        }
        Ok(Answer { id, parts, is_error })
    }
}

/// A content as a list of parts: a string is one part.
pub fn parts_of<'py>(
    content: Option<&Bound<'py, PyAny>>,
    index: usize,
    part: &str,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match content {
        None => Ok(Vec::new()),
        Some(content) if content.is_instance_of::<PyString>() => Ok(vec![content.clone()]),
        Some(content) if is_list(content) => content.try_iter()?.collect(),
        Some(content) => Err(wrong_content(content, index, part)),
    }
}

/// A text as a part. None if it is empty, since no provider accepts an empty one.
pub fn text_in(value: Option<Bound<'_, PyAny>>) -> Option<Part<'_>> {
    let text = value?.cast_into::<PyString>().ok()?;
    (!is_blank(&text_of(&text))).then_some(Part::Text(text))
}

/// `str(value)`.
pub fn shown<'py>(py: Python<'py>, value: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyString>> {
    string_of(&value.unwrap_or_else(|| py.None().into_bound(py)))
}

/// The arguments of a call as an object, {} for None or a blank text. Other values are unchanged, and so is a text with a
/// number that JSON doesn't have.
pub fn arguments_of<'py>(py: Python<'py>, value: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let Some(value) = value else { return Ok(PyDict::new(py).into_any()) };
    let text = value.cast::<PyString>().ok();
    if text.is_some_and(|text| is_blank(&text_of(text))) {
        return Ok(PyDict::new(py).into_any());
    }
    let read = json_object(&value)?.filter(|read| text.is_none() || is_finite(read));
    Ok(read.map_or_else(|| value.clone(), Bound::into_any))
}

/// Whether every number that was read from JSON is one of JSON's: Python reads `NaN` and `1e999` too.
fn is_finite(read: &Bound<'_, PyDict>) -> bool {
    let mut left = vec![read.clone().into_any()];
    while let Some(value) = left.pop() {
        if value.cast::<PyFloat>().is_ok_and(|number| !number.value().is_finite()) {
            return false;
        }
        if let Ok(dict) = value.cast::<PyDict>() {
            left.extend(dict.values());
        } else if let Ok(list) = value.cast::<PyList>() {
            left.extend(list);
        }
    }
    true
}

/// How a command of OpenAI's shell ended, if it failed.
fn outcome_of<'py>(part: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = part.as_any().py();
    let outcome = part.get(interned!(py, "outcome"))?;
    let Some(outcome) = outcome.as_ref().and_then(Fields::of) else { return Ok(None) };
    if outcome.kind()?.name() == "timeout" {
        return Ok(Some(PyString::new(py, "timeout")));
    }
    let code = outcome.get(interned!(py, "exit_code"))?.filter(|code| code.is_truthy().unwrap_or(true));
    code.map(|code| after("exit code ", &string_of(&code)?)).transpose()
}

/// A picture in base64, whose beginning shows the type.
pub fn picture(data: Bound<'_, PyString>) -> PyResult<Media<'_>> {
    let py = data.py();
    let kind = match text_of(&data).get(..4) {
        Some("/9j/") => "jpeg",
        Some("R0lG") => "gif",
        Some("UklG") => "webp",
        _ => "png",
    };
    let url = after(&format!("data:image/{kind};base64,"), &data)?;
    Ok(Media { is_image: true, url, name: PyString::new(py, "") })
}

/// The first of two fields that Python takes for true; else the second.
fn either<'py>(of: Fields<'_, 'py>, keys: [&Bound<'py, PyString>; 2]) -> PyResult<Option<Bound<'py, PyAny>>> {
    of.get(if of.is_set(keys[0])? { keys[0] } else { keys[1] })
}

/// An image or a file.
fn media_in<'py>(part: Fields<'_, 'py>, kind: &str) -> PyResult<Option<Media<'py>>> {
    let py = part.as_any().py();
    let (source, image) = (part.get(interned!(py, "source"))?, part.get(interned!(py, "image_url"))?);
    let source = source.as_ref().and_then(Fields::of);
    let (mut url, mut named) = (None, either(part, [interned!(py, "filename"), interned!(py, "title")])?);
    if matches!(kind, "image" | "document")
        && let Some(source) = source
    {
        url = source.get(interned!(py, "url"))?;
        let data = source.text(interned!(py, "data"))?;
        if let Some(data) = data.filter(|_| source.kind().is_ok_and(|kind| kind.name() == "base64")) {
            let of = interned!(py, "media_type");
            let of = if source.has(of)? { shown(py, source.get(of)?)? } else { PyString::new(py, "image/png") };
            let url_of = vec![PyString::new(py, "data:"), of, PyString::new(py, ";base64,"), data];
            url = Some(joined(&PyString::new(py, ""), url_of)?.into_any());
        }
    } else if kind == "document_url" {
        // Mistral's.
        url = part.get(interned!(py, "document_url"))?;
        named = part.get(interned!(py, "document_name"))?;
    } else if kind == "input_audio" {
        let audio = part.get(interned!(py, "input_audio"))?;
        let audio = audio.as_ref().and_then(Fields::of).unwrap_or(part);
        if let Some(data) = audio.text(interned!(py, "data"))? {
            let format = audio.text(interned!(py, "format"))?.unwrap_or_else(|| PyString::new(py, "wav"));
            url = Some(after(&format!("data:audio/{};base64,", text_of(&format)), &data)?.into_any());
        }
    } else if let Some(image) = image {
        url = match Fields::of(&image) {
            Some(of) => of.get(interned!(py, "url"))?,
            None => Some(image),
        };
    } else if matches!(kind, "file" | "input_file") {
        let file = part.get(interned!(py, "file"))?;
        let file = file.as_ref().and_then(Fields::of).unwrap_or(part);
        url = either(file, [interned!(py, "file_data"), interned!(py, "file_url")])?;
        named = either(file, [interned!(py, "filename"), interned!(py, "title")])?;
    }
    let Some(Ok(url)) = url.map(|url| url.cast_into::<PyString>()) else { return Ok(None) };
    let name = named.and_then(|name| name.cast_into::<PyString>().ok()).unwrap_or_else(|| PyString::new(py, ""));
    let is_image = kind.contains("image") || kind == "computer_screenshot" || text_of(&url).starts_with("data:image/");
    Ok(Some(Media { is_image, url, name }))
}
