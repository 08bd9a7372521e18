//! The plain scan: which texts contain the query letter for letter, case aside. For queries without a word to look up, of
//! one or two characters or of signs alone.
use memchr::memmem::Finder;

use super::namespace::ResolvedFilter;
use super::problem::Attempt;
use super::read::ReadTransaction;
use crate::interrupt::poll;

/// A find that stands by itself, not inside a word.
const WHOLE: f32 = 1.0;
const PART: f32 = 0.5;

/// Whether words say too little of `query`: then it is scanned for.
pub(super) fn is_for(query: &str) -> bool {
    let query = query.trim();
    query.chars().take(3).count() <= 2 || !query.chars().any(char::is_alphanumeric) || has_signs_in_short_words(query)
}

/// One word like "c#" or "c++": an index of words sees its letter only.
fn has_signs_in_short_words(query: &str) -> bool {
    let letters = query.chars().filter(|letter| letter.is_alphanumeric()).count();
    letters <= 2 && !query.contains(char::is_whitespace)
}

/// The best `limit` items that contain the query: those where it is by itself first, then the newest.
pub(super) fn scan(
    reading: &ReadTransaction<'_>,
    query: &str,
    filter: &ResolvedFilter,
    limit: usize,
) -> Attempt<Vec<(i64, f32)>> {
    let wanted = query.trim().to_lowercase();
    if wanted.is_empty() || limit == 0 {
        return Ok(Vec::new());
    }
    let finder = Finder::new(&wanted);
    let condition = filter.condition(reading.namespace.id, reading.now_ms);
    let query =
        format!("SELECT items.id, text FROM items JOIN bodies USING (id) WHERE {condition} ORDER BY items.id DESC");
    let mut statement = reading.transaction.prepare(&query)?;
    let mut rows = statement.query([])?;
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        poll()?;
        let text = String::from_utf8_lossy(row.get_ref(1)?.as_blob().unwrap_or_default()).to_lowercase();
        match best_match(&text, &wanted, &finder) {
            Some(WHOLE) => whole.push((row.get(0)?, WHOLE)),
            Some(score) if parts.len() < limit => parts.push((row.get(0)?, score)),
            _ => {}
        }
        if whole.len() == limit {
            break;
        }
    }
    whole.extend(parts);
    whole.truncate(limit);
    Ok(whole)
}

fn best_match(text: &str, wanted: &str, finder: &Finder<'_>) -> Option<f32> {
    let mut found = None;
    for at in finder.find_iter(text.as_bytes()) {
        let (before, after) = (text[..at].chars().next_back(), text[at + wanted.len()..].chars().next());
        let goes_on = |inner: Option<char>, outer: Option<char>| {
            inner.is_some_and(char::is_alphanumeric) && outer.is_some_and(char::is_alphanumeric)
        };
        if !goes_on(wanted.chars().next(), before) && !goes_on(wanted.chars().next_back(), after) {
            return Some(WHOLE);
        }
        found = Some(PART);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_queries_and_signs_are_scanned_for() {
        for query in ["", "x", "go", "記憶", "c#", "c++", "->", "!=", " a ", "::"] {
            assert!(is_for(query), "{query}");
        }
        for query in ["cat", "a cat", "foo->bar", "a + b", "e2e4"] {
            assert!(!is_for(query), "{query}");
        }
    }

    #[test]
    fn a_match_by_itself_is_better_than_one_inside_a_word() {
        let score = |text: &str, wanted: &str| best_match(text, wanted, &Finder::new(wanted));
        assert_eq!(score("let us go home", "go"), Some(WHOLE));
        assert_eq!(score("a good one", "go"), Some(PART));
        assert_eq!(score("good to go", "go"), Some(WHOLE));
        assert_eq!(score("a->b", "->"), Some(WHOLE));
        assert_eq!(score("nothing", "go"), None);
    }
}
