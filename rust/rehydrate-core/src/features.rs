//! The names a text mentions: paths, identifiers, ids, numbers, words.

/// The distinct names of a text and how often each occurs, by ascending hash.
pub type Mentions = Box<[(u32, u32)]>;

/// The names that `text` mentions.
#[must_use]
pub fn mentions(text: &str) -> Mentions {
    let mut hashes: Vec<u32> = text
        .split(|c: char| !(c.is_alphanumeric() || "_./@:~+-".contains(c)))
        .map(|run| run.trim_matches(|c| ".:-/@+~".contains(c)))
        .filter(|run| run.len() >= 4)
        .map(hash)
        .collect();
    hashes.sort_unstable();
    hashes.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect()
}

fn hash(name: &str) -> u32 {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes()) as u32
}
