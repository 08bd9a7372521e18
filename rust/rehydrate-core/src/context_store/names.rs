//! Names, paths and numbers in a summary.
use once_cell::race::OnceBox;
use regex::Regex;

use super::raw::{Raw, plain};
use crate::analysis::python_re::is_word;

/// A form of a name; it does not begin after one of these.
struct Form {
    never_after: &'static str,
    text: Regex,
}

fn forms() -> &'static [Form; 3] {
    static FORMS: OnceBox<[Form; 3]> = OnceBox::new();
    FORMS.get_or_init(|| {
        let form = |never_after, source: &str| Form {
            never_after,
            text: Regex::new(&format!(r"\A(?:{source})")).expect("it is written correctly"),
        };
        Box::new([
            form(".~@-", r"[\w.~@-]*(?:/[\w.@-]+)+/?"),                    // paths
            form("-", r"[A-Za-z_][\w-]*(?:\.\w+)+"),                       // files, dotted names
            form("", r"[A-Za-z]+_\w+|[a-z]+[A-Z]\w+|\d[\d.,:]*\d|\d{2,}"), // identifiers, numbers
        ])
    })
}

/// The names in a summary, each once.
#[must_use]
pub fn names_in(summary: &[u8]) -> Vec<Raw> {
    let read = plain(summary);
    let mut found: Vec<Raw> = Vec::new();
    let (mut last, mut end) = (None, 0);
    for (at, char) in read.char_indices() {
        let before = last.replace(char);
        if at < end || before.is_some_and(|before| before == '/' || is_word(before.into())) {
            continue;
        }
        let can_begin = |form: &&Form| before.is_none_or(|before| !form.never_after.contains(before));
        let name = forms().iter().filter(can_begin).find_map(|form| form.text.find(&read[at..]));
        let Some(name) = name else { continue };
        end = at + name.end();
        let name = &summary[at..at + name.as_str().trim_end_matches(['.', ',', ':']).len()];
        if !name.is_empty() && !found.iter().any(|known| **known == *name) {
            found.push(name.into());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_paths_and_numbers_are_found() {
        let summary =
            "It is in src/a.py, not b-c.d.e or ~/x; do_it(), runIt, 8443. Or /etc/ and 3 of 1.5: see v2 -x.y.";
        let found = names_in(summary.as_bytes());
        let found: Vec<_> = found.iter().map(|name| String::from_utf8_lossy(name)).collect();
        assert_eq!(found, ["src/a.py", "b-c.d.e", "~/x", "do_it", "runIt", "8443", "/etc/", "1.5"]);
    }
}
