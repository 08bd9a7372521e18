//! The rules of Amazon Bedrock's Converse: Anthropic's for calls, results, texts and marks, which Converse shares (most of
//! its models are Claudes), and those of Converse alone.
//!
//! The blocks are those of botocore's service model (1.44.8, 2026-11).
use rustc_hash::FxHashSet;

use super::{Name, Role, Violation, anthropic, broken, by_index};

const MOST_DOCUMENTS: usize = 5;
const LONGEST_ID: usize = 64;
const LONGEST_TOOL_NAME: usize = 64;
const LONGEST_NAME: usize = 200;
/// Anthropic's words, and Converse's for the same.
const OWN_WORDS: [(&str, &str); 4] = [
    ("tool_use", "toolUse"),
    ("tool_result", "toolResult"),
    ("cache_control", "cachePoint"),
    ("thinking block", "reasoningContent block"),
];

/// The fields of a message that the rules read.
#[derive(Clone, Debug)]
pub struct Message {
    /// The message as one of Anthropic's.
    pub of: anthropic::Message,
    /// Whether its content is a string.
    pub is_text: bool,
    /// Whether a block of its content is a string.
    pub has_text_block: bool,
    pub blocks: Vec<Block>,
}

/// The fields of a block that only Converse's rules read.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its keys, as Python shows a list of them, if they are not one that Converse has.
    pub unknown_keys: Option<Name>,
    pub is: Is,
}

/// The kind of a block.
#[derive(Clone, Debug, Default)]
pub enum Is {
    Text,
    /// An image, a video or a sound, by its key.
    Medium(&'static str),
    /// A call or a result, by its key: its id, the name of a call's tool, and the id as text if it is an error without a
    /// content.
    Pair {
        key: &'static str,
        id: Option<Name>,
        tool: Option<Name>,
        empty_error: Option<Name>,
    },
    /// A document, and its name.
    Document(Option<Name>),
    #[default]
    Other,
}

/// Every violation.
#[must_use]
pub fn violations(messages: &[Message]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut documents = Documents::default();
    let mut before = None;
    for message in messages {
        let (index, role) = (message.of.index, &message.of.role);
        if message.is_text {
            found.push(broken!(index, "text_content", "content is a string, it must be a list of blocks"));
        } else if message.has_text_block {
            let what = "a block of the content is a string, it must have the key text";
            found.push(broken!(index, "text_content", what));
        }
        for block in &message.blocks {
            block_rules(index, block, role, &mut found);
        }
        documents.rules(index, &message.blocks, &mut found);
        if message.blocks.is_empty() && *role == Role::Assistant {
            found.push(broken!(index, "empty_content", "the content is empty"));
        }
        // "A conversation must alternate between user and assistant roles" is the API's error
        // (https://github.com/agentgateway/agentgateway/pull/1358, 2026-03).
        if before == Some(role) && matches!(role, Role::User | Role::Assistant) {
            let end = "'s in a row; join them";
            found.push(broken!(index, "roles_not_alternating", "two messages of the ", role.name(), end));
        }
        if *role != Role::System {
            before = Some(role);
        }
    }
    let shared: Vec<_> = messages.iter().map(|message| message.of.clone()).collect();
    found.extend(anthropic::violations(&shared).into_iter().map(in_own_words));
    // An empty content of the assistant is found by both.
    let mut seen = FxHashSet::default();
    found.retain(|each| seen.insert(each.clone()));
    by_index(found)
}

fn in_own_words(violation: Violation) -> Violation {
    let message = OWN_WORDS.iter().fold(violation.message, |message, (word, own)| replaced(&message, word, own));
    Violation { message, ..violation }
}

fn replaced(text: &[u8], word: &str, by: &str) -> Name {
    let mut made = Vec::with_capacity(text.len());
    let mut start = 0;
    for at in memchr::memmem::find_iter(text, word) {
        made.extend_from_slice(&text[start..at]);
        made.extend_from_slice(by.as_bytes());
        start = at + word.len();
    }
    made.extend_from_slice(&text[start..]);
    made
}

fn block_rules(index: usize, block: &Block, role: &Role, found: &mut Vec<Violation>) {
    if let Some(keys) = &block.unknown_keys {
        // botocore refuses a union with no member, or several, before anything is sent.
        let end = ", it must have one of Converse's";
        found.push(broken!(index, "unknown_block", "a block has the keys ", keys, end));
    }
    match &block.is {
        Is::Medium(key) if *role == Role::Assistant => {
            // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html (2026-11)
            let end = " is in a message of the assistant's: send it in the user's";
            found.push(broken!(index, "misplaced_block", "a block of the kind ", key, end));
        }
        Is::Pair { key, id, tool, empty_error } => {
            if id.as_ref().is_some_and(|id| !is_id(id)) {
                let end = " must be 1 to 64 letters, digits or any of _.:-";
                found.push(broken!(index, "invalid_id", "the id of a ", key, end));
            }
            if tool.as_ref().is_some_and(|name| !is_tool_name(name)) {
                let end = " must be 1 to 64 letters, digits, _ or -";
                found.push(broken!(index, "invalid_tool_name", "the name in a ", key, end));
            }
            if let Some(call) = empty_error {
                // https://github.com/aws-samples/sample-multi-agent-orchestration-chat-on-agentcore/issues/15
                let end = "' is an error without a content";
                found.push(broken!(index, "empty_error_result", "the result of '", call, end));
            }
        }
        _ => {}
    }
}

fn is_id(id: &[u8]) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && id.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(byte))
}

/// Whether Converse accepts the name of a tool: "Member must satisfy regular expression pattern: `[a-zA-Z0-9_-]+`".
///
/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html> (2026-11)
#[must_use]
pub fn is_tool_name(name: &[u8]) -> bool {
    let is_fit = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    (1..=LONGEST_TOOL_NAME).contains(&name.len()) && name.iter().all(is_fit)
}

/// Letters, digits, white space, - () []; no two white spaces in a row, up to the first line break and after it.
fn is_document_name(name: &[u8]) -> bool {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let is_fit = |byte: &u8| byte.is_ascii_alphanumeric() || is_space(*byte) || b"()[]-".contains(byte);
    let first_line = name.iter().position(|byte| *byte == b'\n').map_or(name.len(), |end| (end + 2).min(name.len()));
    (1..=LONGEST_NAME).contains(&name.len())
        && name.iter().all(is_fit)
        && !name[..first_line].windows(2).any(|pair| is_space(pair[0]) && is_space(pair[1]))
}

/// The documents of the messages so far.
///
/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html> and `API_runtime_Message.html`
/// (2026-11); names and number: <https://github.com/aws-samples/generative-ai-use-cases/issues/1685> (2026-08).
#[derive(Default)]
struct Documents<'a> {
    names: FxHashSet<&'a [u8]>,
    count: usize,
}

impl<'a> Documents<'a> {
    fn rules(&mut self, index: usize, blocks: &'a [Block], found: &mut Vec<Violation>) {
        let documents =
            blocks.iter().filter_map(|block| if let Is::Document(name) = &block.is { Some(name) } else { None });
        let mut documents = documents.peekable();
        if documents.peek().is_some() && !blocks.iter().any(|block| matches!(block.is, Is::Text)) {
            found.push(broken!(index, "document_without_text", "a message with a document has no text next to it"));
        }
        for name in documents {
            let Some(name) = name.as_ref().filter(|name| is_document_name(name)) else {
                let what = "the name of a document must be letters, digits, single blanks, - () []";
                found.push(broken!(index, "document_name", what));
                continue;
            };
            if !self.names.insert(name) {
                let what = "a second document of the name '";
                found.push(broken!(index, "duplicate_document_name", what, name, "'"));
            }
            self.count += 1;
            if self.count > MOST_DOCUMENTS {
                let what = format!("document number {}, at most {MOST_DOCUMENTS} are allowed", self.count);
                found.push(broken!(index, "too_many_documents", &what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_single_blanks() {
        let names: [(&[u8], bool); 7] = [
            (b"Tide table (2) [a]-1", true),
            (b"", false),
            (b"a  b", false),
            (b"a\n b", false),
            (b"a\nb  c", true),
            (b"a_b", false),
            (&[b'a'; 201], false),
        ];
        for (name, is_fit) in names {
            assert_eq!(is_document_name(name), is_fit, "{}", String::from_utf8_lossy(name));
        }
    }

    #[test]
    fn words_are_converses() {
        assert_eq!(replaced(b"a tool_use of tool_use", "tool_use", "toolUse"), b"a toolUse of toolUse");
    }
}
