//! The commands that were run, and the outcome of each one's last run.
use rustc_hash::{FxHashMap, FxHashSet};

use super::raw::{self, Raw};
use super::reading::{RAN, Said};
use crate::caps::code_points::lines;
use crate::caps::{decoded, encoded};
use crate::conversation::PieceKind;
use crate::interrupt::checkpoint;
use crate::notes::{exit_code, first_error};
use crate::redact::{kinds, secrets};

/// Shown characters of a command, and of its outcome.
const MAX_COMMAND: i64 = 80;

/// The last run of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its first line.
    pub text: Vec<u8>,
    /// The first line of its error, the number that it exited with, or ok.
    pub outcome: Vec<u8>,
    /// The entry of its result.
    pub answered: i64,
}

/// The commands that were run in a thread, as it grows.
#[derive(Debug, Default)]
pub struct Commands {
    /// By the id of a call that is not answered; empty if it isn't a command.
    calls: FxHashMap<Raw, Raw>,
    ran: FxHashMap<Raw, (usize, Command)>,
    results: usize,
}

impl Commands {
    /// Read messages, in order.
    pub fn read(&mut self, messages: &[Said<'_>]) {
        for message in messages {
            checkpoint();
            let mut asked = message.calls.iter();
            for piece in message.pieces.iter().filter(|piece| piece.kind == PieceKind::ToolInput) {
                let command = piece.about.iter().find(|about| *about.used == *RAN);
                let command = command.map_or(Raw::default(), |command| command.text.clone());
                self.calls.insert(asked.next().copied().unwrap_or_default().into(), command);
            }
            for (answer, result) in results_of(message) {
                let Some(command) = self.calls.remove(answer).filter(|command| !command.is_empty()) else { continue };
                let (text, outcome) = (first_line(&redacted(&command)), redacted(&outcome(&result)));
                self.results += 1;
                self.ran.insert(command, (self.results, Command { text, outcome, answered: message.entry }));
            }
        }
    }

    /// The commands in the order of their last results, without secrets; those whose result is in a `visible` entry are left
    /// out.
    #[must_use]
    pub fn ran(&self, visible: &FxHashSet<i64>) -> Vec<&Command> {
        let ran = self.ran.values().filter(|(_, command)| !visible.contains(&command.answered));
        let mut ran: Vec<_> = ran.collect();
        ran.sort_unstable_by_key(|(number, _)| *number);
        ran.into_iter().map(|(_, command)| command).collect()
    }
}

/// The results in a message, by the calls that they answer. Empty if an empty id leaves open which result belongs to
/// which call.
fn results_of<'a>(message: &Said<'a>) -> Vec<(&'a [u8], Vec<u8>)> {
    let texts: Vec<&[u8]> =
        message.pieces.iter().filter(|piece| piece.kind == PieceKind::ToolResult).map(|piece| piece.text).collect();
    match &message.answers[..] {
        [answer] => vec![(answer, texts.join(&b'\n'))],
        answers if answers.len() == texts.len() => {
            answers.iter().copied().zip(texts.into_iter().map(<[u8]>::to_vec)).collect()
        }
        _ => Vec::new(),
    }
}

fn outcome(result: &[u8]) -> Vec<u8> {
    let text = raw::plain(result);
    let code = exit_code(&text);
    if code != Some(0)
        && let Some(error) = first_error(&text)
    {
        let mut line = raw::flat(&result[error]);
        line.truncate(raw::byte_of(&line, MAX_COMMAND as usize));
        return line;
    }
    code.filter(|&code| code > 0).map_or_else(|| b"ok".to_vec(), |code| format!("exit {code}").into_bytes())
}

fn first_line(command: &[u8]) -> Vec<u8> {
    let points = decoded(command);
    let mut lines = lines(&points);
    let Some(first) = lines.next() else { return Vec::new() };
    let line = &points[first.clone()];
    let end = line.iter().rposition(|&point| !matches!(point, 0x0A..=0x0D | 0x1C..=0x1E | 0x85 | 0x2028 | 0x2029));
    let mut line = encoded(&line[..end.map_or(0, |last| last + 1)]);
    if lines.next().is_some() || raw::chars(&line) > MAX_COMMAND {
        line.truncate(raw::byte_of(&line, MAX_COMMAND as usize - 1));
        line.extend_from_slice("…".as_bytes());
    }
    line
}

/// The text with labels in place of its secrets.
fn redacted(text: &[u8]) -> Vec<u8> {
    let found = secrets(&raw::plain(text), &[]);
    if found.is_empty() {
        return text.to_vec();
    }
    let names: Vec<&str> = kinds().collect();
    let (mut out, mut read) = (Vec::new(), 0);
    for secret in found {
        let start = raw::byte_of(text, secret.start);
        out.extend_from_slice(&text[read..start]);
        out.extend_from_slice(format!("[redacted:{}]", names[secret.kind]).as_bytes());
        read = raw::byte_of(text, secret.end);
    }
    out.extend_from_slice(&text[read..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_line_without_secrets() {
        assert_eq!(first_line("a\r\nb".as_bytes()), "a…".as_bytes());
        assert_eq!(first_line(b"a\n"), b"a");
        assert_eq!(raw::chars(&first_line(&[b'x'; 81])), MAX_COMMAND);
        let deploy = redacted(b"\xED\xA0\xBD deploy --token ghp_0123456789abcdefghijABCDEFGHIJ012345 now");
        assert_eq!(deploy, b"\xED\xA0\xBD deploy --token [redacted:github_token] now");
    }

    #[test]
    fn an_outcome_is_an_error_a_number_or_ok() {
        for (result, expected) in [
            ("x\nValueError:  no port", "ValueError: no port"),
            ("Process exited with code 2\nbad", "exit 2"),
            ("exit code: 0\nValueError: of a test", "ok"),
            ("", "ok"),
        ] {
            assert_eq!(outcome(result.as_bytes()), expected.as_bytes());
        }
    }
}
