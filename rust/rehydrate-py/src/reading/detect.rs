//! The format of a list, by content that only one format can hold.
//!
//! The first entry that only one format can hold decides, else the first hint. In the order of detection: a gateway's
//! message with both `tool_calls` and thinking blocks is paired by its `tool_calls`, so chat comes before Anthropic.
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::bedrock::{Is, KEYS};
use super::fields::{Fields, is_list, listed, text_of};
use super::langchain::is_langchain_message;
use super::pairs::is_thought;
use super::{ai_sdk, codex, first_telling, gemini, responses};
use crate::exit::Running;
use crate::interned::{Interned, interned};

/// The strength of an entry's evidence for the format of its list.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Evidence {
    None,
    Hint,
    Proof,
}

fn proof_if(is_so: bool) -> Evidence {
    if is_so { Evidence::Proof } else { Evidence::None }
}

/// A mapping, with the parts of its content that are mappings.
struct Entry<'a, 'py> {
    fields: Fields<'a, 'py>,
    has_role: bool,
    content: Option<Bound<'py, PyAny>>,
    parts: Vec<Bound<'py, PyAny>>,
}

/// All formats, in the order of detection.
pub const NAMES: [&str; 11] = [
    "claude_code",
    "codex",
    "openai_responses",
    "openai_chat",
    "anthropic",
    "bedrock",
    "gemini",
    "ai_sdk",
    "ai_sdk_ui",
    "langchain",
    "plain",
];
/// Those that entries show, but for LangChain's messages.
const FORMATS: &[&str] = NAMES.split_at(9).0;
static TRANSCRIPT_KEYS: [Interned; 5] = [
    Interned::new("uuid"),
    Interned::new("sessionId"),
    Interned::new("session_id"),
    Interned::new("messageId"),
    Interned::new("leafUuid"),
];
static CHAT_KEYS: [Interned; 6] = [
    Interned::new("tool_calls"),
    Interned::new("tool_call_id"),
    Interned::new("tool_call_ids"),
    Interned::new("function_call"),
    Interned::new("audio"),
    Interned::new("refusal"),
];

/// The name of the format of these entries, and whether an entry proves it. "plain" if none shows another one.
#[pyfunction]
pub fn format_of(entries: &Bound<'_, PyAny>) -> PyResult<(&'static str, bool)> {
    let _running = Running::begin();
    let mut hinted = None;
    let length = entries.len()?;
    let mut position = first_telling(entries, 0)?;
    while position < length {
        let Ok(raw) = entries.get_item(position) else { break }; // it became shorter meanwhile
        match Entry::of(&raw)? {
            None if is_langchain_message(&raw)? => return Ok(("langchain", true)),
            None => {}
            Some(entry) => {
                for &name in FORMATS {
                    match entry.evidence(name)? {
                        Evidence::Proof => return Ok((name, true)),
                        Evidence::Hint => hinted = hinted.or(Some(name)),
                        Evidence::None => {}
                    }
                }
            }
        }
        position = first_telling(entries, position + 1)?;
    }
    Ok((hinted.unwrap_or("plain"), false))
}

/// The only other format that an entry of a list in this one can be of. None if it may be of this one.
pub fn other_format(raw: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<&'static str>> {
    let Some(entry) = Entry::of(raw)? else {
        return Ok(if name != "langchain" && is_langchain_message(raw)? { Some("langchain") } else { None });
    };
    let is_own = entry.evidence(name)? == Evidence::Proof;
    for other in FORMATS.iter().copied().filter(|other| *other != name) {
        if entry.evidence(other)? != Evidence::Proof {
            continue;
        }
        if (name, other) == ("openai_chat", "anthropic") && entry.has_only_thinking()? {
            continue; // as some gateways write it
        }
        // Otherwise Anthropic would be sent `tool_calls` next to its own blocks, and chat a Responses message.
        let are_apart = matches!((name, other), ("anthropic", "openai_chat") | ("openai_chat", "openai_responses"));
        if !is_own || are_apart {
            return Ok(Some(other));
        }
    }
    entry.other_by_details(name)
}

/// Whether a file has its media type next to its data, as in the AI SDK.
fn is_ai_sdks_file(part: Fields<'_, '_>) -> PyResult<bool> {
    let py = part.as_any().py();
    Ok(part.has(interned!(py, "mediaType"))? && part.has(interned!(py, "data"))?)
}

impl<'a, 'py> Entry<'a, 'py> {
    fn of(raw: &'a Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let Some(fields) = Fields::of(raw) else { return Ok(None) };
        let content = fields.get(interned!(raw.py(), "content"))?;
        let parts = listed(content.as_ref())?.into_iter().filter(|part| Fields::of(part).is_some()).collect();
        Ok(Some(Self { fields, has_role: fields.has(interned!(raw.py(), "role"))?, content, parts }))
    }

    fn py(&self) -> Python<'py> {
        self.fields.as_any().py()
    }

    fn role(&self) -> PyResult<Option<Bound<'py, PyString>>> {
        self.fields.text(interned!(self.py(), "role"))
    }

    fn has_list(&self) -> bool {
        self.content.as_ref().is_some_and(is_list)
    }

    /// Whether `is_so` holds for a part, given its type.
    fn any_part(&self, is_so: impl Fn(Fields<'_, 'py>, &str) -> PyResult<bool>) -> PyResult<bool> {
        for part in &self.parts {
            if let Some(part) = Fields::of(part)
                && is_so(part, &part.kind()?.name())?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn evidence(&self, format: &str) -> PyResult<Evidence> {
        match format {
            "claude_code" if !self.has_role => self.claude_code(),
            "codex" if !self.has_role => self.codex(),
            "openai_responses" => self.responses(),
            "openai_chat" if self.has_role => self.chat(),
            "anthropic" if self.has_role => self.anthropic(),
            "bedrock" if self.has_role => self.bedrock(),
            "gemini" => self.gemini(),
            "ai_sdk" if self.has_role => self.ai_sdk(),
            "ai_sdk_ui" if self.has_role => self.ai_sdk_ui(),
            _ => Ok(Evidence::None),
        }
    }

    /// Proof: a `type` instead of a role, around a message or next to a transcript's ids.
    fn claude_code(&self) -> PyResult<Evidence> {
        let Some(kind) = self.fields.kind()?.0 else { return Ok(Evidence::None) };
        if matches!(text_of(&kind).as_ref(), "user" | "assistant") {
            let message = self.fields.get(interned!(self.py(), "message"))?;
            if message.as_ref().and_then(Fields::of).is_some() {
                return Ok(Evidence::Proof);
            }
        }
        Ok(proof_if(self.has_any(&TRANSCRIPT_KEYS)?))
    }

    fn has_any(&self, keys: &[Interned]) -> PyResult<bool> {
        for key in keys {
            if self.fields.has(key.get(self.py()))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Proof: a line with a payload, or one that only the oldest rollouts have.
    fn codex(&self) -> PyResult<Evidence> {
        let py = self.py();
        if codex::LINES.contains(&self.fields.kind()?.name().as_ref()) {
            let payload = self.fields.get(interned!(py, "payload"))?;
            if payload.as_ref().and_then(Fields::of).is_some() {
                return Ok(Evidence::Proof);
            }
        }
        let has = |key| self.fields.has(key);
        let is_old = !has(interned!(py, "type"))?
            && (has(interned!(py, "record_type"))?
                || (has(interned!(py, "instructions"))? && has(interned!(py, "timestamp"))?));
        Ok(proof_if(is_old))
    }

    /// Proof: an item without a role, or a part, that only this format has. Hint: a `message` with a string; with blocks it
    /// may be the dump of another provider's.
    fn responses(&self) -> PyResult<Evidence> {
        let kind = self.fields.kind()?;
        let kind = kind.name();
        if !self.has_role {
            let has_call_id = !kind.is_empty() && self.fields.has(interned!(self.py(), "call_id"))?;
            return Ok(proof_if(has_call_id || responses::is_type(&kind)));
        }
        if self.has_list() {
            // Chat has refusals among its parts too, but no `type` next to the role.
            let is_native = self.any_part(|_, part| {
                let is_native =
                    matches!(part, "input_text" | "output_text" | "input_image" | "input_file" | "computer_screenshot");
                Ok(is_native || (part == "refusal" && kind == "message"))
            })?;
            return Ok(proof_if(is_native));
        }
        Ok(if kind == "message" { Evidence::Hint } else { Evidence::None })
    }

    /// Proof: tool calls, a tool message's id, speech, a refusal, a media part. Hint: the developer's role, a thought in parts,
    /// as Mistral has it.
    fn chat(&self) -> PyResult<Evidence> {
        let refusal = interned!(self.py(), "refusal");
        for key in &CHAT_KEYS {
            if self.fields.is_set(key.get(self.py()))? {
                return Ok(Evidence::Proof);
            }
        }
        let has_part = self.any_part(|part, kind| {
            let is_native = matches!(kind, "image_url" | "input_audio" | "video_url" | "document_url");
            let is_file = kind == "file" && !is_ai_sdks_file(part)?;
            Ok(is_native || is_file || part.has(refusal)?)
        })?;
        if has_part {
            return Ok(Evidence::Proof);
        }
        let is_mistrals = self.any_part(|part, kind| {
            let thought = part.get(interned!(self.py(), "thinking"))?;
            Ok(kind == "thinking" && thought.is_some_and(|thought| is_list(&thought)))
        })?;
        let is_chats = self.role()?.is_some_and(|role| matches!(text_of(&role).as_ref(), "developer" | "function"));
        Ok(if is_chats || is_mistrals || self.fields.has(refusal)? { Evidence::Hint } else { Evidence::None })
    }

    /// Proof: a block that only this format has. Hint: a thought or a cache mark, which gateways write into messages of chat
    /// too.
    fn anthropic(&self) -> PyResult<Evidence> {
        let (source, mark) = (interned!(self.py(), "source"), interned!(self.py(), "cache_control"));
        let is_native = |part: Fields<'_, 'py>, kind: &str| {
            Ok(match kind {
                "tool_use" | "server_tool_use" | "mcp_tool_use" | "tool_result" | "mcp_tool_result" => true,
                "web_search_tool_result" | "web_fetch_tool_result" | "document" | "search_result" => true,
                "compaction" | "container_upload" => true,
                "image" => part.has(source)?,
                _ => false,
            })
        };
        if self.any_part(is_native)? {
            return Ok(Evidence::Proof);
        }
        let is_hint = self.any_part(|part, kind| Ok(is_thought(kind) || part.has(mark)?))?;
        Ok(if is_hint { Evidence::Hint } else { Evidence::None })
    }

    /// Proof: a block with one of Converse's keys, or a medium with a source. Hint: a text without a type.
    fn bedrock(&self) -> PyResult<Evidence> {
        let py = self.py();
        let (point, source) = (interned!(py, "cachePoint"), interned!(py, "source"));
        let is_native = |part: Fields<'_, 'py>, kind: &str| {
            if !kind.is_empty() {
                return Ok(false);
            }
            for (key, is) in &KEYS {
                let found = match is {
                    Is::Text | Is::Json => false,
                    Is::Document | Is::Medium => match part.get(key.get(py))? {
                        Some(medium) => Fields::of(&medium).map_or(Ok(false), |medium| medium.has(source))?,
                        None => false,
                    },
                    _ => part.has(key.get(py))?,
                };
                if found {
                    return Ok(true);
                }
            }
            part.has(point)
        };
        if self.any_part(is_native)? {
            return Ok(Evidence::Proof);
        }
        let text = interned!(py, "text");
        let is_hint = self.any_part(|part, kind| Ok(kind.is_empty() && part.text(text)?.is_some()))?;
        Ok(if is_hint { Evidence::Hint } else { Evidence::None })
    }

    /// Proof: parts, and not a content, of which one has a key of Gemini's or isn't a mapping. Hint: no part at all.
    fn gemini(&self) -> PyResult<Evidence> {
        let py = self.py();
        let Some(parts) = self.fields.get(interned!(py, "parts"))? else { return Ok(Evidence::None) };
        if self.fields.is_set(interned!(py, "content"))? || self.fields.is_set(interned!(py, "type"))? {
            return Ok(Evidence::None);
        }
        if !is_list(&parts) {
            // One part as google-genai's UserContent takes it: its reader reads it, or names it in an error.
            return Ok(proof_if(parts.is_instance_of::<PyString>() || Fields::of(&parts).is_some()));
        }
        let mut found = if parts.is_empty()? { Evidence::Hint } else { Evidence::None };
        for part in listed(Some(&parts))? {
            let is_own = match Fields::of(&part) {
                Some(part) if part.kind()?.0.is_some() => return Ok(Evidence::None), // the AI SDK's
                Some(part) => gemini::data_of(part)?.is_some(),
                None => true, // a string, an object of google-genai's, or what its reader names in an error
            };
            if is_own {
                found = Evidence::Proof;
            }
        }
        Ok(found)
    }

    /// Proof: a call or a result with the AI SDK's id, an approval, its media, or options for a provider.
    fn ai_sdk(&self) -> PyResult<Evidence> {
        let py = self.py();
        let (id, image, options) =
            (interned!(py, "toolCallId"), interned!(py, "image"), interned!(py, "providerOptions"));
        let is_own = self.any_part(|part, kind| {
            Ok(match kind {
                "tool-call" | "tool-result" => part.has(id)?,
                "tool-approval-request" | "tool-approval-response" => part.has(interned!(py, "approvalId"))?,
                "redacted-reasoning" => part.has(interned!(py, "data"))?,
                "image" => part.get(image)?.is_some(),
                "file" => is_ai_sdks_file(part)?,
                "text" | "reasoning" | "reasoning-file" | "custom" => part.has(options)?,
                _ => false,
            })
        })?;
        Ok(proof_if(is_own || self.fields.has(options)?))
    }

    /// Proof: parts, and not a content, each of a type, and one of a type that UI messages have.
    fn ai_sdk_ui(&self) -> PyResult<Evidence> {
        let py = self.py();
        let parts = self.fields.get(interned!(py, "parts"))?;
        if self.fields.is_set(interned!(py, "content"))? {
            return Ok(Evidence::None);
        }
        let mut found = Evidence::None;
        for part in listed(parts.as_ref())? {
            let Some(part) = Fields::of(&part) else { return Ok(Evidence::None) };
            let kind = part.kind()?;
            if kind.name().is_empty() {
                return Ok(Evidence::None);
            }
            let is_own = match ai_sdk::part_is(&kind.name(), true) {
                ai_sdk::Is::Other => false,
                ai_sdk::Is::Tool => part.has(interned!(py, "toolCallId"))?,
                ai_sdk::Is::Text | ai_sdk::Is::Thought => part.text(interned!(py, "text"))?.is_some(),
                _ => true,
            };
            if is_own {
                found = Evidence::Proof;
            }
        }
        Ok(found)
    }

    /// The format of an entry whose fields aren't proof for a list, but break a request.
    fn other_by_details(&self, name: &str) -> PyResult<Option<&'static str>> {
        match name {
            "openai_chat" if self.fields.kind()?.name() == "message" => return Ok(Some("openai_responses")),
            "anthropic" | "openai_responses" => {}
            _ => return Ok(None),
        }
        let is_chats = self.role()?.is_some_and(|role| matches!(text_of(&role).as_ref(), "tool" | "function"));
        let has_text = name == "openai_responses" && self.any_part(|_, kind| Ok(kind == "text"))?;
        Ok((is_chats || has_text).then_some("openai_chat"))
    }

    /// Whether thinking is its only block of another provider.
    fn has_only_thinking(&self) -> PyResult<bool> {
        Ok(!self.any_part(|_, kind| Ok(kind != "text" && !is_thought(kind)))?)
    }
}
