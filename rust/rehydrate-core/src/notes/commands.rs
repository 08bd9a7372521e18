//! The subjects of a shell command or a patch: the command itself, and the files that it shows and writes.
use std::ops::Range;

use crate::caps::code_points::{is, is_in, is_space, is_word, lossy, run, starts_with, trim, trim_end};

/// The use of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Created,
    Edited,
    Deleted,
    Read,
    Ran,
    LookedUp,
}

impl Use {
    /// Its name in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Edited => "edited",
            Self::Deleted => "deleted",
            Self::Read => "read",
            Self::Ran => "ran",
            Self::LookedUp => "looked up",
        }
    }
}

/// A command or a path, in code points, and its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub used: Use,
    pub text: Vec<u32>,
}

/// Programs that look something up. If a command runs no other, an error in its output is another's.
const LOOKING: &str = "[|awk|basename|cat|cd|cut|date|diff|dirname|du|echo|env|file|find|git blame|git branch|git diff\
    |git grep|git log|git show|git status|grep|head|jq|less|ls|nl|printf|pwd|rg|sed|sleep|sort|stat|tail|test|tr|tree\
    |true|uniq|wc|which|xargs";
/// Those that show the file that they name last.
const SHOWING: [&str; 6] = ["cat", "head", "less", "nl", "sed", "tail"];

/// The subjects of a command: the command itself, without programs that only cut its output, and the files that it
/// shows and writes. Quoted parts of a path are `_`.
#[must_use]
pub fn command_subjects(command: &[u32]) -> Vec<Subject> {
    let plain = unquoted(command);
    let used = if looks_up(&plain) { Use::LookedUp } else { Use::Ran };
    let mut found = vec![Subject { used, text: shown(command, &plain).to_vec() }];
    let here = plain.windows(2).position(|pair| starts_with(pair, "<<")).unwrap_or(plain.len());
    for part in parts(&plain[..here]) {
        let mut others = Vec::new();
        let mut at = 0;
        while let Some(&point) = part.get(at) {
            if let Some((used, path)) = written(part, at) {
                at = path.end;
                found.extend(file(used, &part[path]));
            } else {
                others.push(point);
                at += 1;
            }
        }
        if let [program, arguments @ .., last] = &*words(&others).collect::<Vec<_>>()
            && SHOWING.contains(&&*lossy(program))
        {
            let mut arguments = arguments.iter().chain([last]);
            let is_edited = lossy(program) == "sed" && arguments.any(|word| starts_with(word, "-i"));
            found.extend(file(if is_edited { Use::Edited } else { Use::Read }, last));
        }
    }
    found
}

/// The files that a patch changes, as `apply_patch` reads it.
#[must_use]
pub fn patch_subjects(patch: &[u32]) -> Vec<Subject> {
    const HEADINGS: [(&str, Use); 3] =
        [("*** Add File: ", Use::Created), ("*** Update File: ", Use::Edited), ("*** Delete File: ", Use::Deleted)];
    let file_of = |line: &[u32]| {
        let (heading, used) = HEADINGS.into_iter().find(|(heading, _)| starts_with(line, heading))?;
        let path = &line[heading.len()..];
        (!path.is_empty()).then(|| Subject { used, text: trim(path).to_vec() })
    };
    patch.split(|&point| is(point, b'\n')).filter_map(file_of).collect()
}

/// The command without the programs at its end that only cut what it prints.
fn shown<'a>(command: &'a [u32], plain: &[u32]) -> &'a [u32] {
    let bar = |end: usize| plain[..end].iter().rposition(|&point| is(point, b'|'));
    let mut end = plain.len();
    while let Some(at) = bar(end) {
        if bar(at).map_or(0, |before| before + 1) == at || !looks_up(&plain[at + 1..end]) {
            break;
        }
        end = at;
    }
    let shown = trim(&command[..end]);
    let to_output = shown.len().saturating_sub(4);
    if starts_with(&shown[to_output..], "2>&1") { trim_end(&shown[..to_output]) } else { shown }
}

/// The command with `_` for each character that is quoted.
fn unquoted(command: &[u32]) -> Vec<u32> {
    let mut plain = command.to_vec();
    let last_quote = command.iter().rposition(|&point| is(point, b'"')).unwrap_or_default();
    let mut at = 0;
    while at < command.len() {
        let end = match char::from_u32(command[at]) {
            Some('\\') => (at + 1 < command.len()).then_some(at + 2),
            Some('\'') => command[at + 1..].iter().position(|&point| is(point, b'\'')).map(|length| at + length + 2),
            Some('"') if at < last_quote => double_quoted(command, at),
            _ => None,
        };
        if let Some(end) = end {
            plain[at..end].fill(u32::from('_'));
        }
        at = end.unwrap_or(at + 1);
    }
    plain
}

/// The end of the string that begins with a double quote.
fn double_quoted(command: &[u32], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match char::from_u32(*command.get(at)?) {
            Some('"') => return Some(at + 1),
            Some('\\') => at += 2,
            _ => at += 1,
        }
    }
}

/// The commands of a command: the parts between `|`, `||`, `&&`, `;` and the ends of lines.
fn parts(command: &[u32]) -> impl Iterator<Item = &[u32]> {
    let mut rest = Some(command);
    std::iter::from_fn(move || {
        let here = rest?;
        let is_end = |at: usize| is_in(here[at], "|;\n") || starts_with(&here[at..], "&&");
        let end = (0..here.len()).find(|&at| is_end(at));
        rest = end.map(|at| &here[at + if is(here[at], b'&') { 2 } else { 1 }..]);
        Some(&here[..end.unwrap_or(here.len())])
    })
}

fn words(command: &[u32]) -> impl Iterator<Item = &[u32]> {
    command.split(|&point| is_space(point)).filter(|word| !word.is_empty())
}

/// Whether all programs that a command runs only look something up. For git, the subcommand decides.
fn looks_up(command: &[u32]) -> bool {
    parts(command).all(|part| {
        let words: Vec<&[u32]> = words(part).collect();
        let last = words.len().saturating_sub(1);
        let assigned = words[..last].iter().take_while(|word| is_assigned(word)).count();
        match words[assigned..] {
            [] => true,
            [program, task, ..] if lossy(program) == "git" => is_looking(&format!("git {}", lossy(task))),
            [program, ..] => is_looking(&lossy(program)),
        }
    })
}

fn is_looking(program: &str) -> bool {
    LOOKING.split('|').any(|looking| looking == program)
}

/// Whether it sets a variable, as in `PORT=8443`.
fn is_assigned(word: &[u32]) -> bool {
    let name = run(word, is_word);
    name > 0 && word.get(name).is_some_and(|&point| is(point, b'='))
}

/// A file for a command's output, if one begins at `at`, and whether it is overwritten or appended to.
fn written(part: &[u32], at: usize) -> Option<(Use, Range<usize>)> {
    if at > 0 && is_in(part[at - 1], "=<-") {
        return None;
    }
    let is_sign = |at: usize| part.get(at).is_some_and(|&point| is(point, b'>'));
    let sign = at + usize::from(is_in(part[at], "0123456789&"));
    let path_after = |at: usize| {
        let start = at + run(&part[at..], is_space);
        let length = run(&part[start..], |point| !is_space(point));
        (length > 0).then_some(start..start + length)
    };
    if !is_sign(sign) {
        return None;
    }
    let appended = if is_sign(sign + 1) { path_after(sign + 2).map(|path| (Use::Edited, path)) } else { None };
    appended.or_else(|| path_after(sign + 1).map(|path| (Use::Created, path)))
}

/// The file of a path, if that is one.
fn file(used: Use, path: &[u32]) -> Option<Subject> {
    let is_elsewhere = ["/dev/", "-", "_"].iter().any(|start| starts_with(path, start));
    let has = |chars: &str| path.iter().any(|&point| is_in(point, chars));
    let is_path = !is_elsewhere && has("./") && !has("*?$<>&(){}");
    is_path.then(|| Subject { used, text: path.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::code_points::code_points;

    #[test]
    fn a_command_is_about_itself_and_its_files() {
        for (command, expected) in [
            ("cat src/rows.py | head -5", "looked up cat src/rows.py; read src/rows.py"),
            ("make test 2>&1 | tail -3 | cut -c1", "ran make test"),
            ("PORT=1 git log a.py > log.txt", "looked up PORT=1 git log a.py > log.txt; created log.txt"),
            ("git push 2>>/dev/null", "ran git push 2>>/dev/null"),
            (
                "sed -i s/a/b/ x.py && echo 'a > b.c' >> notes.md",
                "looked up sed -i s/a/b/ x.py && echo 'a > b.c' >> notes.md; edited x.py; edited notes.md",
            ),
            ("cat <<E > a.md\nx > y.z\nE", "ran cat <<E > a.md\nx > y.z\nE"),
            ("cat foo\"b r\".txt", "looked up cat foo\"b r\".txt; read foo_____.txt"),
            ("a || cat b.c", "ran a || cat b.c; read b.c"),
            ("ls >", "looked up ls >"),
            ("", "looked up "),
        ] {
            let found = command_subjects(&code_points(command));
            let found: Vec<String> =
                found.iter().map(|one| format!("{} {}", one.used.name(), lossy(&one.text))).collect();
            assert_eq!(found.join("; "), expected, "{command:?}");
        }
    }

    #[test]
    fn a_patch_is_about_the_files_that_it_changes() {
        let patch =
            "*** Begin Patch\n*** Add File: a.py \n+x\n *** Add File: no\n*** Delete File: b c\n*** Update File: d";
        let found = patch_subjects(&code_points(patch));
        let found: Vec<_> = found.iter().map(|one| (one.used, lossy(&one.text))).collect();
        let expected = [(Use::Created, "a.py"), (Use::Deleted, "b c"), (Use::Edited, "d")];
        assert_eq!(found, expected.map(|(used, path)| (used, path.to_owned())));
        assert!(patch_subjects(&code_points("*** Add File: \n***Add File: x")).is_empty());
    }
}
