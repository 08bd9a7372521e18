//! Sessions of coding agents as texts for a search: without a harness's text in them, without secrets, in chunks.
mod marked;

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::analysis::python_re::is_space;
use crate::conversation::outline::clean::labelled;
use crate::interrupt::checkpoint;
use crate::redact::secrets;

pub use marked::marked_lines;

/// Characters of one text in which secrets are looked for. It is cut again far before that, so that no half of a secret
/// stays at the end.
pub const READ_CHARS: usize = 20_000;
/// A chunk ends when it has this many, or if the user speaks again.
const CHUNK_CHARS: usize = 1_500;
/// Characters of one text. A user's pasted text is longer, and says less.
const PIECE_CHARS: usize = 1_000;
const CALL_CHARS: usize = 200;

/// Elements that agents write into the user's messages, next to the user's own words.
const HARNESS: &[&[u8]] =
    &[b"system-reminder", b"environment_context", b"user_instructions", b"turn_aborted", b"skill"];
/// The same, each before a word of its own.
const HARNESS_BEGINNINGS: &[&[u8]] = &[b"command-", b"local-command-", b"bash-"];
const CODEX_NOTES: &[&str] = &["# AGENTS.md instructions", "<INSTRUCTIONS>"];

/// Whether agents write elements of this name into the user's messages.
#[must_use]
pub fn is_harness(name: &[u8]) -> bool {
    let is_word = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_lowercase);
    HARNESS.contains(&name) || HARNESS_BEGINNINGS.iter().any(|begin| name.strip_prefix(*begin).is_some_and(is_word))
}

/// The user's own words in a text.
#[must_use]
pub fn own_words(text: &str) -> String {
    let own = without_elements(text.as_bytes(), is_harness);
    let own = String::from_utf8_lossy(&own);
    let own = stripped(&own);
    if CODEX_NOTES.iter().any(|begin| own.starts_with(begin)) { String::new() } else { own.to_owned() }
}

/// A text without white space at its ends, as Python has it.
#[must_use]
pub fn stripped(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// A text with one blank between its words.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split(is_blank).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn is_blank(c: char) -> bool {
    is_space(u32::from(c))
}

struct Tag<'a> {
    start: usize,
    end: usize,
    name: &'a [u8],
    is_closing: bool,
}

/// The text (UTF-8, or similar) without the elements of these names, up to the first end of each. A tag that nothing
/// closes stays. One pass for any text.
pub fn without_elements(text: &[u8], is_named: impl Fn(&[u8]) -> bool) -> Cow<'_, [u8]> {
    let tag = |start: usize| {
        let is_closing = text.get(start + 1) == Some(&b'/');
        let rest = &text[start + 1 + usize::from(is_closing)..];
        let length = rest.iter().position(|&byte| !(byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_')))?;
        let (name, end) = (&rest[..length], text.len() - rest.len() + length + 1);
        (rest[length] == b'>' && is_named(name)).then_some(Tag { start, end, name, is_closing })
    };
    let tags: Vec<Tag<'_>> = memchr::memchr_iter(b'<', text).filter_map(tag).collect();
    let mut closings: FxHashMap<&[u8], usize> = FxHashMap::default();
    let mut elements: Vec<(usize, usize)> = Vec::new();
    for tag in tags.iter().rev() {
        if tag.is_closing {
            closings.insert(tag.name, tag.end);
        } else if let Some(&end) = closings.get(tag.name) {
            elements.push((tag.start, end));
        }
    }
    if elements.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut kept, mut at) = (Vec::with_capacity(text.len()), 0);
    for (start, end) in elements.into_iter().rev() {
        if start >= at {
            kept.extend_from_slice(&text[at..start]);
            at = end;
        }
    }
    kept.extend_from_slice(&text[at..]);
    Cow::Owned(kept)
}

/// The first `chars` characters of a text.
#[must_use]
pub fn beginning(text: &str, chars: usize) -> &str {
    if text.len() <= chars {
        return text;
    }
    &text[..text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)]
}

/// The beginning of a text without secrets.
#[must_use]
pub fn clean(text: &str, max_chars: usize) -> String {
    let text = beginning(text, READ_CHARS);
    let whole = labelled(text, &secrets(text, &[]));
    let begin = beginning(&whole, max_chars);
    if begin.len() == whole.len() { whole } else { format!("{}...", begin.trim_end_matches(is_blank)) }
}

/// The speakers of a session: the tools' results are not kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    User,
    Assistant,
    /// The assistant, who calls a tool.
    Call,
}

impl Speaker {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Call => "call",
        }
    }
}

/// Collects the texts of a session into chunks of a few exchanges each, without secrets.
#[derive(Default)]
pub struct Chunks {
    ended: Vec<Chunk>,
    lines: Vec<String>,
    chars: usize,
    first: usize,
}

/// A text, and the number of the line of the session that it begins with.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunk {
    pub text: String,
    pub line: usize,
}

impl Chunks {
    /// Add the words in a line of the session.
    pub fn add(&mut self, line: usize, speaker: Speaker, text: &str) {
        checkpoint();
        if speaker == Speaker::User {
            self.end();
        }
        if self.lines.is_empty() {
            self.first = line;
        }
        let text = clean(text, if speaker == Speaker::Call { CALL_CHARS } else { PIECE_CHARS });
        self.chars += text.chars().count();
        self.lines.push(format!("{}: {text}", speaker.name()));
        if self.chars >= CHUNK_CHARS {
            self.end();
        }
    }

    /// The chunks so far.
    pub fn take(&mut self) -> Vec<Chunk> {
        self.end();
        std::mem::take(&mut self.ended)
    }

    fn end(&mut self) {
        if !self.lines.is_empty() {
            self.ended.push(Chunk { text: self.lines.join("\n"), line: self.first });
        }
        self.lines.clear();
        self.chars = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str) -> String {
        let is_named = |name: &[u8]| matches!(name, b"note" | b"b");
        String::from_utf8(without_elements(text.as_bytes(), is_named).into_owned()).unwrap()
    }

    #[test]
    fn elements_go_with_what_is_in_them_and_open_tags_stay() {
        assert_eq!(without("Go <note>x <b>y</note> on, <b>."), "Go  on, <b>.");
        assert_eq!(without("<note>a</note><note>b</note>c</note>"), "c</note>");
        assert_eq!(without("<note><note>a</note>b</note>"), "b</note>");
        assert_eq!(without("<<note>x</note></note><nota>"), "<</note><nota>");
        assert_eq!(without(""), "");
        assert_eq!(without("<"), "<");
        assert_eq!(without("</"), "</");
    }

    #[test]
    fn only_the_users_own_words_are_left() {
        assert_eq!(own_words(" Go.<bash-input>ls</bash-input>\u{1c}\n"), "Go.");
        assert_eq!(
            own_words("<bash->ls</bash-> <command-A>x</command-A>"),
            "<bash->ls</bash-> <command-A>x</command-A>"
        );
        assert_eq!(own_words("<skill>x</skill># AGENTS.md instructions for me"), "");
    }

    #[test]
    fn what_is_kept_of_a_text_is_cut_and_has_no_secret() {
        assert_eq!(clean("password=hunter2-hunter2 is it", 40), "password=[redacted:password] is it");
        assert_eq!(clean("Gr\u{fc}\u{df}e von hier", 6), "Gr\u{fc}\u{df}e...");
        assert_eq!(clean(&"a".repeat(READ_CHARS + 1), READ_CHARS), "a".repeat(READ_CHARS));
    }

    #[test]
    fn a_chunk_ends_where_the_user_speaks_and_where_it_is_long() {
        let mut chunks = Chunks::default();
        chunks.add(0, Speaker::User, "Go.");
        chunks.add(2, Speaker::Assistant, "Gone.");
        chunks.add(3, Speaker::User, "And?");
        let texts = ["user: Go.\nassistant: Gone.", "user: And?"];
        let found: Vec<(String, usize)> = chunks.take().into_iter().map(|it| (it.text, it.line)).collect();
        assert_eq!(found, [(texts[0].to_owned(), 0), (texts[1].to_owned(), 3)]);
        chunks.add(4, Speaker::Assistant, &"a ".repeat(500));
        chunks.add(5, Speaker::Assistant, &"b ".repeat(500));
        chunks.add(6, Speaker::Call, "shell ls");
        let lines: Vec<usize> = chunks.take().into_iter().map(|it| it.line).collect();
        assert_eq!(lines, [4, 6]);
    }
}
