//! Generated conversations that resemble real ones: a coding session of any size, and a chat of short messages.
//!
//! A coding session's sizes are like those of real ones: most tool results are a few hundred bytes, one in eight is
//! thousands. Its texts are this crate's own sources, as a tool that reads files prints them.
#![allow(dead_code, reason = "each bench uses a part of it")]

use rehydrate_core::conversation::Needs;
use rehydrate_core::conversation::{Conversation, Message, Piece, PieceKind, Role, Unit};
use rehydrate_core::embed::builtin::StaticModel;
use rehydrate_core::scoring::Weights;
use rehydrate_core::selection::{PackMode, Request, SignalMode};

/// The query of the benches.
pub const QUERY: &str = "how does the packing choose between the gain of a unit and its gain per token?";
/// A session of the size that targets.md names.
pub const UNITS: usize = 305;
/// Bytes of text in it.
pub const BYTES: usize = 500_000;

const SOURCES: [(&str, &str); 6] = [
    ("src/packing/pack.rs", include_str!("../../src/packing/pack.rs")),
    ("src/scoring/coverage.rs", include_str!("../../src/scoring/coverage.rs")),
    ("src/analysis/features.rs", include_str!("../../src/analysis/features.rs")),
    ("src/embed/builtin.rs", include_str!("../../src/embed/builtin.rs")),
    ("src/tokens/split.rs", include_str!("../../src/tokens/split.rs")),
    ("src/analysis/words.rs", include_str!("../../src/analysis/words.rs")),
];

/// User turns: every so many units.
const USER_TURN_EVERY: usize = 25;

/// A conversation that owns its texts.
#[derive(Default)]
pub struct Session {
    pieces: Vec<(String, PieceKind)>,
    messages: Vec<Message>,
    units: Vec<Unit>,
}

impl Session {
    /// The session that every figure for "one compaction" is measured on.
    pub fn typical() -> Self {
        Self::coding(UNITS, BYTES)
    }

    /// About `bytes` of a coding agent's work in `units` units: a user's request now and then, else a word of what is
    /// about to be done, a tool call and its result.
    pub fn coding(units: usize, bytes: usize) -> Self {
        let mut session = Self::default();
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        let mut lines = Lines::default();
        for unit in 0..units {
            if unit % USER_TURN_EVERY == 0 {
                let request =
                    format!("Request {unit}: the gain in {} is off by {}, please fix.", lines.path(), dice.below(900));
                session.say(Role::User, [(request, PieceKind::Text)], true);
                continue;
            }
            let mean = bytes / units * USER_TURN_EVERY / (USER_TURN_EVERY - 1);
            let room = if dice.below(8) == 0 { mean * 5 } else { mean * (20 + dice.below(40)) / 100 };
            let note = format!("Let me look at {} around step {unit} and check.", lines.path());
            let edit = lines.next(room / 5);
            let input = format!(
                "Edit {{\"file_path\":\"/work/{}\",\"new_string\":\"{}\"}}",
                lines.path(),
                edit.replace('"', "\\\"").replace('\n', "\\n")
            );
            session.say(Role::Assistant, [(note, PieceKind::Text), (input, PieceKind::ToolInput)], false);
            let result = lines.next(room.saturating_sub(edit.len()));
            session.answer(result);
        }
        session.units.last_mut().expect("at least one unit").pinned = true;
        session
    }

    /// A chat of `messages` short messages, each its own unit.
    pub fn chat(messages: usize) -> Self {
        const TOPICS: [&str; 8] =
            ["the garden", "our trip", "a new recipe", "that book", "the old car", "my sister", "work", "the weather"];
        let mut session = Self::default();
        let mut dice = Dice(0xD1B5_4A32_D192_ED03);
        for number in 0..messages {
            let role = if number % 2 == 0 { Role::User } else { Role::Assistant };
            let (topic, other) = (TOPICS[dice.below(8)], TOPICS[dice.below(8)]);
            let text = format!("I thought about {topic} again, {other} too; note {number} of day {}.", dice.below(365));
            session.say(role, [(text, PieceKind::Text)], number % 2 == 0);
        }
        session
    }

    /// Add a message that nobody has seen yet, distinguished by `number`.
    pub fn push_turn(&mut self, number: u64) {
        let text = format!("And now turn {number}: run the tests of pack.rs again, please, and show what failed.");
        self.say(Role::User, [(text, PieceKind::Text)], true);
    }

    /// Take back the newest message, a unit by itself.
    pub fn pop_turn(&mut self) {
        let message = self.messages.pop().expect("a message to take back");
        self.pieces.truncate(message.pieces.start);
        self.units.pop();
    }

    /// The columns that the engine takes.
    pub fn conversation(&self) -> Conversation<'_> {
        Conversation {
            pieces: self.pieces.iter().map(|(text, kind)| Piece { text, kind: *kind }).collect(),
            messages: self.messages.clone(),
            units: self.units.clone(),
        }
    }

    /// Its texts.
    pub fn texts(&self) -> Vec<&str> {
        self.pieces.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// Bytes of its texts.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(text, _)| text.len() as u64).sum()
    }

    /// A message that opens a unit.
    fn say<const N: usize>(&mut self, role: Role, pieces: [(String, PieceKind); N], may_lead: bool) {
        self.units.push(Unit { pinned: false, may_lead });
        self.message(role, pieces);
    }

    /// The result of the tool call just made, in the same unit.
    fn answer(&mut self, result: String) {
        self.message(Role::Tool, [(result, PieceKind::ToolResult)]);
    }

    fn message<const N: usize>(&mut self, role: Role, pieces: [(String, PieceKind); N]) {
        let start = self.pieces.len();
        self.pieces.extend(pieces);
        let structural = match role {
            Role::User => 1.0,
            Role::Assistant => 0.8,
            _ => 0.5,
        };
        let unit = self.units.len() - 1;
        self.messages.push(Message { pieces: start..self.pieces.len(), media_tokens: 0, structural, role, unit });
    }
}

/// The needs of `scoring="balanced"` with a query; without one, names alone.
pub fn balanced_needs() -> Needs {
    Needs { model: Some(StaticModel::builtin()), bags: true, vectors: false, terms: true, mentions: true }
}

/// The request of `scoring="balanced"`.
pub fn balanced(query: Option<&str>, target_tokens: u64) -> Request<'_> {
    Request {
        query,
        query_weight: 1.0,
        asks: true,
        vectors: None,
        memory_coverage: None,
        weights: Weights::default(),
        signals: SignalMode::Calibrated,
        packing: PackMode::Coverage,
        reply: None,
        target_tokens,
    }
}

/// The request of `scoring="chitta"`.
pub fn chitta(query: Option<&str>, target_tokens: u64) -> Request<'_> {
    Request { signals: SignalMode::Raw, packing: PackMode::Greedy, ..balanced(query, target_tokens) }
}

/// The sources over and over, each line under a number that no other line has.
#[derive(Default)]
struct Lines {
    source: usize,
    line: usize,
    printed: usize,
}

impl Lines {
    fn path(&self) -> String {
        format!("round{}/{}", self.source / SOURCES.len(), SOURCES[self.source % SOURCES.len()].0)
    }

    /// The next lines, about `bytes` of them.
    fn next(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 200);
        while text.len() < bytes {
            let Some(line) = SOURCES[self.source % SOURCES.len()].1.lines().nth(self.line) else {
                (self.source, self.line) = (self.source + 1, 0);
                continue;
            };
            self.line += 1;
            self.printed += 1;
            text.push_str(&format!("{:>6}\t{line}\n", self.printed));
        }
        text
    }
}

/// Marsaglia's xorshift: the same numbers on every machine.
pub struct Dice(pub u64);

impl Dice {
    /// A number under `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}
