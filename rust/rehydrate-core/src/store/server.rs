//! Parts that a store on a server shares with the one in a file: the words of long texts, names as numbers, its URLs.
use once_cell::race::OnceBox;
use regex::Regex;
use rustc_hash::FxHashSet;

use crate::analysis::python_re::words;

/// Longer texts are indexed by their words, each once: a `tsvector` of PostgreSQL has at most 1 MB.
const WHOLE_CHARS: usize = 50_000;
const WORDS_BYTES: usize = 250_000;
/// Longer words are left out.
const WORD_CHARS: usize = 1_000;

/// The words of a text for full-text search; None: the text itself.
#[must_use]
pub fn indexed_words(text: &str) -> Option<String> {
    text.chars().nth(WHOLE_CHARS)?;
    let lowered = text.to_lowercase();
    let (mut seen, mut size, mut kept) = (FxHashSet::default(), 0, Vec::new());
    for word in words(&lowered) {
        if !seen.insert(word) {
            continue;
        }
        size += word.len() + 1;
        if size > WORDS_BYTES {
            break;
        }
        if word.chars().count() < WORD_CHARS {
            kept.push(word);
        }
    }
    Some(kept.join(" "))
}

/// The number of a name in an index, which has no room for names.
#[must_use]
pub fn name_number(name: &str) -> u32 {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes()) as u32
}

struct Url<'a> {
    scheme: &'a str,
    user: &'a str,
    /// Hosts with their ports, and the database.
    place: &'a str,
}

fn parts(url: &str) -> Option<Url<'_>> {
    static URL: OnceBox<Regex> = OnceBox::new();
    let form = URL.get_or_init(|| {
        let source =
            r"(?s)\A(?<scheme>postgres(?:ql)?://)(?:(?<user>[^:/?#@]*)(?::[^/?#@]*)?@)?(?<place>[^@?#]*)(?:\?.*)?\z";
        Box::new(Regex::new(source).expect("it is written correctly"))
    });
    let found = form.captures(url)?;
    let part = |name| found.name(name).map_or("", |part| part.as_str());
    let url = Url { scheme: part("scheme"), user: part("user"), place: part("place") };
    has_ports(url.place).then_some(url)
}

/// Whether the text in place of a port is one: it may be half of a password.
fn has_ports(place: &str) -> bool {
    let mut rest = place.split('/').next().unwrap_or_default();
    let mut hosts = String::new();
    // Addresses in brackets hold colons of their own.
    while let Some((before, inside)) = rest.split_once('[') {
        let Some((_, after)) = inside.split_once(']') else { return false };
        hosts.push_str(before);
        rest = after;
    }
    hosts.push_str(rest);
    let ports = hosts.split(',').filter_map(|host| host.split_once(':'));
    ports.map(|(_, port)| port).all(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether it is a PostgreSQL URL that is read here in the same way as by PostgreSQL's own library.
#[must_use]
pub fn is_server_url(url: &str) -> bool {
    parts(url).is_some()
}

/// A URL without its password and its options.
#[must_use]
pub fn shown_url(url: &str) -> String {
    match parts(url) {
        Some(Url { scheme, user: "", place }) => format!("{scheme}{place}"),
        Some(Url { scheme, user, place }) => format!("{scheme}{user}@{place}"),
        None if url.starts_with("postgres") => format!("{}://***", url.split("://").next().unwrap_or_default()),
        None => "***".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_indexed_by_its_words() {
        assert_eq!(indexed_words(&"Port ".repeat(10_000)), None);
        assert_eq!(indexed_words(&"Port_8 été! ".repeat(5_000)).as_deref(), Some("port_8 été"));
        let long = format!("{} end", "x".repeat(WHOLE_CHARS));
        assert_eq!(indexed_words(&long).as_deref(), Some("end"));
        let many: String = (0..100_000).map(|number| format!("w{number} ")).collect();
        assert!(indexed_words(&many).is_some_and(|words| words.len() <= WORDS_BYTES));
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, expected) in [
            ("postgresql://app:secret@db:5432/memories?sslmode=require", "postgresql://app@db:5432/memories"),
            ("postgres://db,[::1]:5432/memories", "postgres://db,[::1]:5432/memories"),
            ("postgresql://@db/memories", "postgresql://db/memories"),
            ("postgresql://app:not/escaped@db/memories", "postgresql://***"),
            ("postgresql://app:12a4/x", "postgresql://***"),
            ("postgresql://db:/x", "postgresql://***"),
            ("postgresql://[::1/x", "postgresql://***"),
            ("mysql://app:secret@db", "***"),
        ] {
            assert_eq!(shown_url(url), expected, "{url}");
            assert_eq!(is_server_url(url), !expected.ends_with("***"), "{url}");
        }
    }
}
