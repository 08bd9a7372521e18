//! The lines of a context store, each after whose words it is.
use crate::context_store::nonce;

/// The heading of the user's directives.
const USERS: &str = "User Preferences";
const MARK_DIGITS: usize = 6;
/// For the last line, which says how many there are more.
const MORE_CHARS: usize = 30;

/// The lines that fit into this many characters, in their order, and the digits in their marks.
///
/// Nothing else has these digits, which are made from the whole store. So neither a heading in a text nor a line that
/// imitates these passes for the user's words.
#[must_use]
pub fn marked_lines(store: &str, max_chars: usize) -> (Vec<String>, String) {
    let mut digits = nonce(b"context store", store.as_bytes());
    digits.truncate(MARK_DIGITS);
    let (mut kept, mut omitted, mut heading) = (Vec::new(), 0, "");
    let mut left = max_chars.saturating_sub(MORE_CHARS);
    for line in store.split('\n').filter(|_| !store.is_empty()) {
        let line = if let Some(found) = line.strip_prefix("## ") {
            heading = found;
            line.to_owned()
        } else {
            let whose = if heading == USERS { "user" } else { "noted" };
            format!("{whose}-{digits} {line}")
        };
        let needed = line.chars().count() + 1;
        if needed <= left {
            left -= needed;
            kept.push(line);
        } else {
            omitted += 1;
        }
    }
    if kept.is_empty() || (kept.len() == 1 && omitted == 0) {
        return (Vec::new(), digits);
    }
    if omitted > 0 {
        kept.push(format!("[{omitted} lines more]"));
    }
    (kept, digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "## Task State\n- Fix it.\n## User Preferences\n- Use tabs.";

    #[test]
    fn each_line_says_whose_words_it_is() {
        let (lines, digits) = marked_lines(STORE, 500);
        let users = format!("user-{digits} - Use tabs.");
        assert_eq!(lines, ["## Task State", &format!("noted-{digits} - Fix it."), "## User Preferences", &users]);
        assert_eq!(digits.len(), 6);
        assert!(marked_lines("", 500).0.is_empty());
        assert!(marked_lines("## Task State", 500).0.is_empty());
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let (lines, _) = marked_lines(STORE, 30 + 14 + 20);
        assert_eq!(lines, ["## Task State", "## User Preferences", "[2 lines more]"]);
        assert!(marked_lines(STORE, 30).0.is_empty());
        assert!(marked_lines(STORE, 0).0.is_empty());
    }
}
