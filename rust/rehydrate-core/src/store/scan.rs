//! The plain scan: the texts that contain the query letter for letter, in any case. For queries without a word to look
//! up, of one or two characters or of punctuation only.
use memchr::memmem::Finder;

use super::namespace::ResolvedFilter;
use super::problem::Attempt;
use super::read::ReadTransaction;
use crate::interrupt::poll;

/// A find that is a word by itself, not part of one.
const WHOLE: f32 = 1.0;
const PART: f32 = 0.5;

/// Whether words say too little of `query`: then it is scanned for.
#[must_use]
pub fn is_scan(query: &str) -> bool {
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
    let Some(mut scan) = Scan::of(query, limit) else { return Ok(Vec::new()) };
    let condition = filter.condition(reading.namespace.id, reading.now_ms);
    let query =
        format!("SELECT items.id, text FROM items JOIN bodies USING (id) WHERE {condition} ORDER BY items.id DESC");
    let mut statement = reading.transaction.prepare(&query)?;
    let mut rows = statement.query([])?;
    while !scan.is_full() {
        let Some(row) = rows.next()? else { break };
        poll()?;
        scan.read(row.get(0)?, &String::from_utf8_lossy(row.get_ref(1)?.as_blob().unwrap_or_default()));
    }
    Ok(scan.best())
}

/// A scan of texts, the newest first.
pub struct Scan {
    wanted: String,
    finder: Finder<'static>,
    limit: usize,
    whole: Vec<(i64, f32)>,
    parts: Vec<(i64, f32)>,
}

impl Scan {
    /// A scan for a query; None if there is nothing to look for.
    #[must_use]
    pub fn of(query: &str, limit: usize) -> Option<Self> {
        let wanted = query.trim().to_lowercase();
        let finder = Finder::new(&wanted).into_owned();
        (!wanted.is_empty() && limit > 0).then_some(Self {
            wanted,
            finder,
            limit,
            whole: Vec::new(),
            parts: Vec::new(),
        })
    }

    /// Read one text.
    pub fn read(&mut self, id: i64, text: &str) {
        match best_match(&text.to_lowercase(), &self.wanted, &self.finder) {
            Some(WHOLE) => self.whole.push((id, WHOLE)),
            Some(score) if self.parts.len() < self.limit => self.parts.push((id, score)),
            _ => {}
        }
    }

    /// Whether no further text can be among the best.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.whole.len() == self.limit
    }

    /// The best items with their scores.
    #[must_use]
    pub fn best(mut self) -> Vec<(i64, f32)> {
        self.whole.append(&mut self.parts);
        self.whole.truncate(self.limit);
        self.whole
    }
}

fn best_match(text: &str, wanted: &str, finder: &Finder<'_>) -> Option<f32> {
    let (mut found, mut start) = (None, 0);
    // Two matches may share characters, as in a-a-a.
    while let Some(at) = finder.find(&text.as_bytes()[start..]).map(|at| start + at) {
        let (before, after) = (text[..at].chars().next_back(), text[at + wanted.len()..].chars().next());
        let goes_on = |inner: Option<char>, outer: Option<char>| {
            inner.is_some_and(char::is_alphanumeric) && outer.is_some_and(char::is_alphanumeric)
        };
        if !goes_on(wanted.chars().next(), before) && !goes_on(wanted.chars().next_back(), after) {
            return Some(WHOLE);
        }
        (found, start) = (Some(PART), at + 1);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_queries_and_signs_are_scanned_for() {
        for query in ["", "x", "go", "記憶", "c#", "c++", "->", "!=", " a ", "::"] {
            assert!(is_scan(query), "{query}");
        }
        for query in ["cat", "a cat", "foo->bar", "a + b", "e2e4"] {
            assert!(!is_scan(query), "{query}");
        }
    }

    #[test]
    fn a_match_by_itself_is_better_than_one_inside_a_word() {
        let score = |text: &str, wanted: &str| best_match(text, wanted, &Finder::new(wanted));
        assert_eq!(score("let us go home", "go"), Some(WHOLE));
        assert_eq!(score("a good one", "go"), Some(PART));
        assert_eq!(score("good to go", "go"), Some(WHOLE));
        assert_eq!(score("a->b", "->"), Some(WHOLE));
        assert_eq!(score("ba-a-a", "a-a"), Some(WHOLE));
        assert_eq!(score("bé-é-éb", "é-é"), Some(PART));
        assert_eq!(score("nothing", "go"), None);
    }
}
