//! The tokens of a medium in any provider's block.
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use rehydrate_core::media::{Bytes, Detail, Size, UNSIZED_TOKENS, Vision, gemini_tokens};

use super::fields::{Fields, text_of};
use crate::interned::Interned;

/// The fields of the bytes, or of an object around them, in the order in which they are looked for.
static PLACES: [Interned; 15] = [
    Interned::new("source"),
    Interned::new("image_url"),
    Interned::new("data"),
    Interned::new("image"),
    Interned::new("inlineData"),
    Interned::new("inline_data"),
    Interned::new("bytes"),
    Interned::new("base64"),
    Interned::new("file_data"),
    Interned::new("file"),
    Interned::new("document"),
    Interned::new("document_url"),
    Interned::new("blob"),
    Interned::new("b64_json"),
    Interned::new("url"),
];
/// Fields of the detail, or of an object with it.
static DETAILS: [Interned; 5] = [
    Interned::new("detail"),
    Interned::new("mediaResolution"),
    Interned::new("media_resolution"),
    Interned::new("level"),
    Interned::new("image_url"),
];
/// Fields of the type of a medium of Gemini's, or of an object with it.
static MEDIA_TYPES: [Interned; 6] = [
    Interned::new("mimeType"),
    Interned::new("mime_type"),
    Interned::new("inlineData"),
    Interned::new("inline_data"),
    Interned::new("fileData"),
    Interned::new("file_data"),
];
/// Objects around the bytes: a block, its source.
const DEEPEST: usize = 3;
/// Characters. A longer text under one of these fields is the medium itself.
const LONGEST_WORD: usize = 64;

/// The tokens of a block, or of its bytes: by its size where that is in the bytes, else a constant.
pub fn media_tokens(medium: &Bound<'_, PyAny>, vision: Vision) -> PyResult<u32> {
    let size = size_of(medium, DEEPEST)?;
    if size.is_none() && vision != Vision::Gemini {
        return Ok(UNSIZED_TOKENS);
    }
    let detail = word_under(&DETAILS, medium, 1)?.map_or(Detail::Unsaid, |name| Detail::named(&text_of(&name)));
    match size {
        Some(size) => Ok(size.tokens(vision, detail)),
        // Every picture costs the same, wherever it is.
        None => match word_under(&MEDIA_TYPES, medium, 1)? {
            Some(kind) if text_of(&kind).starts_with("image/") => Ok(gemini_tokens(detail)),
            _ => Ok(UNSIZED_TOKENS),
        },
    }
}

fn size_of(value: &Bound<'_, PyAny>, levels: usize) -> PyResult<Option<Size>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Bytes::of_text(&text_of(text)).and_then(Bytes::size));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Bytes::Raw(bytes.as_bytes()).size());
    }
    if value.is_instance_of::<PyByteArray>() || value.is_instance_of::<PyMemoryView>() {
        // A released view has none.
        let bytes = value.py().get_type::<PyBytes>().call1((value,));
        return bytes.map_or(Ok(None), |bytes| size_of(&bytes, 0));
    }
    let Some(fields) = Fields::of(value).filter(|_| levels > 0) else { return Ok(None) };
    for key in &PLACES {
        if let Some(inner) = fields.get(key.get(value.py()))?
            && let Some(size) = size_of(&inner, levels - 1)?
        {
            return Ok(Some(size));
        }
    }
    Ok(None)
}

/// The first word under one of these keys, or in an object under one.
fn word_under<'py>(
    keys: &[Interned],
    value: &Bound<'py, PyAny>,
    levels: usize,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let Some(fields) = Fields::of(value) else { return Ok(None) };
    for key in keys {
        let Some(inner) = fields.get(key.get(value.py()))? else { continue };
        let found = match inner.cast_into::<PyString>() {
            Ok(text) => Some(text).filter(|text| text.len().is_ok_and(|length| length <= LONGEST_WORD)),
            Err(other) if levels > 0 => word_under(keys, &other.into_inner(), levels - 1)?,
            Err(_) => None,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
