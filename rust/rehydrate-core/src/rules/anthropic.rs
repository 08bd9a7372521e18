//! The rules of Anthropic's Messages API, for messages and for merged transcript lines alike.
//!
//! The API joins consecutive messages of one role into a turn, so calls and results are matched by turn. The results of
//! one turn must still be in one message. A text of only white space is refused only if its message holds nothing else;
//! an empty text is always refused.
use super::pairing::Pairing;
use super::{Name, Role, Violation, broken, by_index};

const MAX_CACHE_CONTROLS: usize = 4;

/// One message as the API gets it.
#[derive(Clone, Debug)]
pub struct Message {
    pub index: usize,
    pub role: Role,
    pub blocks: Vec<Block>,
    /// Whether its content is null.
    pub is_null: bool,
}

/// The fields of a block that the rules read.
#[derive(Clone, Debug)]
pub struct Block {
    /// The index of its entry: merged lines keep theirs.
    pub index: usize,
    pub kind: Kind,
    pub part: Part,
    /// The id of a call, or of the call that a result answers.
    pub id: Option<Name>,
    /// Whether its content is null, and not left out.
    pub has_null_content: bool,
    /// Whether it has a signature.
    pub is_signed: bool,
    /// The blocks inside a result.
    pub inner: Vec<Part>,
}

/// The fields that the rules read of every block, also of those inside a result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// None if it isn't a text block.
    pub text: Option<Text>,
    pub is_thought: bool,
    /// Whether it has citations. A document's `{"enabled": true}` is a setting.
    pub is_cited: bool,
    /// Whether it has a `cache_control`.
    pub is_marked: bool,
}

/// The text of a text block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// Empty, or not there.
    Empty,
    /// Nothing but white space.
    Blank,
    Said,
}

/// The types of blocks that the rules know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    ToolUse,
    ServerToolUse,
    McpToolUse,
    ToolResult,
    /// The result of a server's tool: a type that ends in `_tool_result`.
    ServerResult(Name),
    Thinking,
    Document,
    Compaction,
    Other,
}

impl Kind {
    /// The kind of this type.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        match name {
            b"tool_use" => Self::ToolUse,
            b"server_tool_use" => Self::ServerToolUse,
            b"mcp_tool_use" => Self::McpToolUse,
            b"tool_result" => Self::ToolResult,
            b"thinking" => Self::Thinking,
            b"document" => Self::Document,
            b"compaction" => Self::Compaction,
            _ if name.ends_with(b"_tool_result") => Self::ServerResult(name.into()),
            _ => Self::Other,
        }
    }

    /// The name of a call or a client's result, and whether it is a call.
    fn of_pair(&self) -> Option<(&'static str, bool)> {
        match self {
            Self::ToolUse => Some(("tool_use", true)),
            Self::ServerToolUse => Some(("server_tool_use", true)),
            Self::McpToolUse => Some(("mcp_tool_use", true)),
            Self::ToolResult => Some(("tool_result", false)),
            _ => None,
        }
    }
}

/// Every violation.
#[must_use]
pub fn violations(messages: &[Message]) -> Vec<Violation> {
    let mut found = system_rules(messages);
    let spoken: Vec<&Message> = messages.iter().filter(|message| message.role != Role::System).collect();
    if let Some(first) = spoken.first().filter(|first| first.role != Role::User && !is_summary(first)) {
        let who = first.role.name();
        found.push(broken!(
            first.index,
            "first_not_user",
            "the first message is the ",
            who,
            "'s, it must be the user's"
        ));
    }
    let mut cache_controls = 0;
    let can_begin = can_begin_an_answer(&spoken);
    for (position, message) in spoken.iter().enumerate() {
        message_rules(message, can_begin && position + 1 == spoken.len(), &mut found);
        for block in &message.blocks {
            shape_rules(block, &message.role, &mut found);
            for part in std::iter::once(&block.part).chain(&block.inner) {
                cache_controls += usize::from(part.is_marked);
                part_rules(block.index, *part, cache_controls, &mut found);
            }
        }
    }
    let mut pairing = Pairing::default();
    for turn in spoken.chunk_by(|one, other| one.role == other.role) {
        match turn[0].role {
            Role::User => pairing.user_turn(turn),
            Role::Assistant => pairing.assistant_turn(turn),
            _ => pairing.settle(),
        }
    }
    found.append(&mut pairing.found);
    by_index(found)
}

/// Whether it is the API's own summary of everything before: a compaction block, first.
fn is_summary(message: &Message) -> bool {
    message.role == Role::Assistant && message.blocks.first().is_some_and(|block| block.kind == Kind::Compaction)
}

/// Whether the last message may be empty: a prefill for the assistant to continue.
///
/// Not after a tool call in the same turn: its results follow, so it is no longer the last.
fn can_begin_an_answer(spoken: &[&Message]) -> bool {
    let last_turn = spoken.iter().rev().take_while(|message| message.role == Role::Assistant);
    let mut blocks = last_turn.flat_map(|message| &message.blocks);
    spoken.last().is_some_and(|last| last.role == Role::Assistant) && blocks.all(|block| block.kind != Kind::ToolUse)
}

fn message_rules(message: &Message, is_prefill: bool, found: &mut Vec<Violation>) {
    if let Role::Other(role) = &message.role {
        let end = "' is unknown, it must be 'user' or 'assistant'";
        found.push(broken!(message.index, "unknown_role", "role '", role, end));
    }
    if message.blocks.is_empty() {
        if message.is_null || !is_prefill {
            found.push(broken!(message.index, "empty_content", "the content is empty"));
        }
    } else if message.blocks.iter().all(|block| block.part.text == Some(Text::Blank)) {
        found.push(broken!(message.index, "empty_text", "the content is nothing but whitespace"));
    }
}

fn part_rules(index: usize, part: Part, cache_controls: usize, found: &mut Vec<Violation>) {
    let is_empty = part.text == Some(Text::Empty);
    if is_empty {
        found.push(broken!(index, "empty_text", "a text block is empty"));
    }
    if !part.is_marked {
        return;
    }
    if cache_controls > MAX_CACHE_CONTROLS {
        let what = format!("cache_control number {cache_controls}, at most {MAX_CACHE_CONTROLS} are allowed");
        found.push(broken!(index, "too_many_cache_control", &what));
    }
    if is_empty {
        found.push(broken!(index, "cache_control_on_empty_text", "cache_control is on an empty text block"));
    }
    if part.is_thought {
        found.push(broken!(index, "cache_control_on_thinking", "cache_control is on a thinking block"));
    }
}

fn shape_rules(block: &Block, role: &Role, found: &mut Vec<Violation>) {
    let index = block.index;
    if block.kind == Kind::Thinking && !block.is_signed {
        found.push(broken!(index, "thinking_without_signature", "a thinking block has no signature"));
    }
    if block.kind == Kind::ToolResult && block.has_null_content {
        let what = "the content of a tool_result is null; leave it out, or make it a string";
        found.push(broken!(index, "null_result_content", what));
    } else if block.kind == Kind::Document && *role == Role::Assistant {
        // From the user only (2026-10-21).
        let what = "a document block is in a message of the assistant's: send it in the user's";
        found.push(broken!(index, "misplaced_block", what));
    }
    if let Some((kind, is_call)) = block.kind.of_pair() {
        let (writer, key) = if is_call { (Role::Assistant, "id") } else { (Role::User, "tool_use_id") };
        if *role != writer {
            let of = " block is in a message of the ";
            found.push(broken!(index, "misplaced_block", "a ", kind, of, role.name(), "'s"));
        }
        if block.id.is_none() {
            found.push(broken!(index, "missing_id", "a ", kind, " block has no ", key));
        }
    }
    if *role == Role::User && (block.part.is_cited || block.inner.iter().any(|part| part.is_cited)) {
        let what = "a text of the user's has citations, which only the assistant's may have";
        found.push(broken!(index, "citations_of_user", what));
    }
}

/// The system messages that the API refuses: one that does not follow the user's message or a server tool's result, one
/// that neither ends the list nor precedes the assistant's, and one without content.
///
/// Those at the beginning are not judged: they are moved into the `system` field.
fn system_rules(messages: &[Message]) -> Vec<Violation> {
    let mut found = Vec::new();
    let first = messages.iter().position(|message| message.role != Role::System).unwrap_or(messages.len());
    for position in first + 1..messages.len() {
        let (before, message, after) = (&messages[position - 1], &messages[position], messages.get(position + 1));
        if message.role != Role::System {
            continue;
        }
        if message.blocks.is_empty() {
            found.push(broken!(message.index, "empty_content", "the content is empty"));
        }
        let may_follow = match before.role {
            Role::User => true,
            Role::Assistant => {
                let last = before.blocks.last();
                last.is_some_and(|block| matches!(block.kind, Kind::ServerResult(_)))
            }
            _ => false,
        };
        let what = if !may_follow {
            "a system message must follow the user's message, or a server tool's result"
        } else if after.is_some_and(|after| after.role != Role::Assistant) {
            "a system message must precede the assistant's message, or end the list"
        } else {
            continue;
        };
        found.push(broken!(message.index, "misplaced_system", what));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: &str, id: &str) -> Block {
        let part = Part { text: (kind == "text").then_some(Text::Said), ..Part::default() };
        let id = (!id.is_empty()).then(|| id.into());
        let kind = Kind::of(kind.as_bytes());
        Block { index: 0, kind, part, id, has_null_content: false, is_signed: true, inner: Vec::new() }
    }

    /// A role, and the kind and id of each block.
    type Said<'a> = (&'a str, &'a [(&'a str, &'a str)]);

    fn rules(said: &[Said<'_>]) -> Vec<(usize, &'static str)> {
        let message = |(index, (role, blocks)): (usize, &Said<'_>)| Message {
            index,
            role: Role::of(role.as_bytes().to_vec()),
            blocks: blocks.iter().map(|(kind, id)| Block { index, ..block(kind, id) }).collect(),
            is_null: false,
        };
        let messages: Vec<Message> = said.iter().enumerate().map(message).collect();
        violations(&messages).into_iter().map(|each| (each.index, each.rule)).collect()
    }

    #[test]
    fn calls_and_results_are_paired_turn_by_turn() {
        let (said, call, result) = (("text", ""), ("tool_use", "a"), ("tool_result", "a"));
        assert_eq!(rules(&[("user", &[said]), ("assistant", &[call]), ("user", &[result])]), []);
        assert_eq!(rules(&[("user", &[said]), ("assistant", &[call])]), []);
        let late = [("user", &[said][..]), ("assistant", &[call]), ("user", &[said]), ("user", &[result])];
        assert_eq!(rules(&late), [(3, "results_not_first")]);
        let never = [("user", &[said][..]), ("assistant", &[call]), ("user", &[said]), ("assistant", &[said])];
        assert_eq!(rules(&never), [(1, "unanswered_tool_call")]);
        let twice = [("user", &[said][..]), ("assistant", &[call]), ("user", &[result, result])];
        assert_eq!(rules(&twice), [(2, "duplicate_result")]);
        assert_eq!(rules(&[("user", &[result])]), [(0, "tool_result_without_call")]);
        let server = [("user", &[said][..]), ("assistant", &[("web_search_tool_result", "s")])];
        assert_eq!(rules(&server), [(1, "server_result_without_call")]);
    }

    #[test]
    fn a_system_message_is_between_the_user_and_the_assistant() {
        let said: &[(&str, &str)] = &[("text", "")];
        assert_eq!(rules(&[("user", said), ("system", said), ("assistant", said)]), []);
        assert_eq!(rules(&[("user", said), ("system", said), ("user", said)]), [(1, "misplaced_system")]);
        let after = [("user", said), ("assistant", said), ("system", said)];
        assert_eq!(rules(&after), [(2, "misplaced_system")]);
    }
}
