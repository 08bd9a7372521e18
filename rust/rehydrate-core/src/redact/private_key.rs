//! Private keys in lines of base64: whole, or as far as they go.
use rustc_hash::FxHashSet;

use super::reading::{Match, Pattern, escaped, line_number, literal, one, repeats, some};

/// Fewest characters of a line.
const LINE: usize = 16;

fn is_material(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '+' | '/' | '=')
}

/// The gap between two lines of a key: quotes, line numbers, marks of a diff.
fn gap(text: &str, at: usize) -> Option<usize> {
    let mark = |char| super::reading::is_space(char) || "\"',+>|".contains(char);
    one(text, at, mark).or_else(|| escaped(text, at, &["n", "r"])).or_else(|| line_number(text, at))
}

/// A header before the lines: `Proc-Type: 4,ENCRYPTED`.
fn header(text: &str, at: usize) -> Option<usize> {
    let name = some(text, at, 1..=20, |char| char.is_ascii_alphanumeric() || char == '-')?;
    let value = some(text, literal(text, name, ": ")?, 0..=80, |char| !matches!(char, '\n' | '\\'))?;
    literal(text, value, "\n").or_else(|| escaped(text, value, &["n"]))
}

fn line(text: &str, at: usize) -> Option<usize> {
    some(text, at, LINE..=usize::MAX, is_material)
}

/// A gap and a line after it.
fn next_line(text: &str, at: usize) -> Option<usize> {
    let gaps = repeats(at, usize::MAX - 1, |at| gap(text, at));
    gaps.into_iter().filter(|&end| end > at).find_map(|at| line(text, at))
}

/// The end of the last of the lines that follow.
fn last_line(text: &str, at: usize) -> usize {
    super::reading::repeated(at, usize::MAX - 1, |at| next_line(text, at))
}

/// The end of the lines of a key that is cut off, after gaps and headers. Each place is tried once in a text.
fn cut_off(text: &str, at: usize, tried: &mut FxHashSet<usize>) -> Option<usize> {
    let mut open = vec![(at, 0)];
    while let Some((at, way)) = open.pop() {
        if way == 0 && !tried.insert(at) {
            continue;
        }
        let next = match way {
            0 => gap(text, at),
            1 => header(text, at),
            _ => match line(text, at) {
                Some(end) => return Some(last_line(text, end)),
                None => continue,
            },
        };
        open.push((at, way + 1));
        open.extend(next.map(|next| (next, 0)));
    }
    None
}

/// The key whose first line begins at `at`. `tried` is kept for the next one of the same text.
pub(super) fn private_key(text: &str, at: usize, tried: &mut FxHashSet<usize>) -> Option<Match> {
    static BEGIN: Pattern = Pattern::new("-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----");
    static END: Pattern = Pattern::new("-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----");
    static PUTTY: Pattern = Pattern::new(r"(?i:private-lines): \d{1,4}");
    if let Some(end) = PUTTY.end(text, at) {
        return Some(Match::of(at..last_line(text, next_line(text, end)?)));
    }
    let begun = BEGIN.end(text, at)?;
    let whole =
        memchr::memmem::find(&text.as_bytes()[begun..], b"-----").and_then(|dashes| END.end(text, begun + dashes));
    whole.or_else(|| cut_off(text, begun, tried)).map(|end| Match::of(at..end))
}

/// Whether there is a line of base64 after the first line.
pub(super) fn has_material(found: &str) -> bool {
    let lines = if found.starts_with("-----") { found.split_once("KEY").map_or("", |(_, lines)| lines) } else { found };
    lines.split(|char| !is_material(char)).any(|run| run.len() >= LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";

    fn end_of(text: &str) -> Option<usize> {
        private_key(text, 0, &mut FxHashSet::default()).map(|found| found.end)
    }

    #[test]
    fn a_key_ends_with_its_last_line() {
        let line = "aB3/".repeat(16);
        for between in
            ["\n", "\\n", "\\\\n", "\n+", "\r\n     2→", "\n  2\\u2192", "\", \"", "\nProc-Type: 4,ENCRYPTED\n\n"]
        {
            let cut = format!("{BEGIN}{between}{line}{between}{line}");
            let cut = if between.contains(':') { format!("{BEGIN}{between}{line}") } else { cut };
            assert_eq!(end_of(&format!("{cut}\n... and so on.")), Some(cut.len()), "{between:?}");
            let whole = format!("{cut}\n-----END PRIVATE KEY-----");
            assert_eq!(end_of(&format!("{whole}\n{line}")), Some(whole.len()), "{between:?}");
        }
        assert_eq!(end_of("Private-Lines: 2\nshort"), None);
        assert_eq!(end_of(&format!("{BEGIN} and words.")), None);
    }

    #[test]
    fn lines_that_are_numbers_and_headers_alike_are_tried_once() {
        // Each line may be read in two ways. A search that forgets its attempts would double its work with each.
        let many = format!("{BEGIN}{}", "\n1: ".repeat(100_000));
        assert_eq!(end_of(&many), None);
        assert_eq!(end_of(&format!("{many}\n{}!", "a".repeat(20))), Some(many.len() + 21));
    }
}
