//! BM25 over the messages of one conversation.

/// The distinct words of a text and how often each occurs, by ascending hash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// Hash of the lower-cased word, count.
    pub words: Box<[(u32, u32)]>,
    /// Number of words in all.
    pub length: u32,
}

/// The words of `text`.
#[must_use]
pub fn terms(text: &str) -> Terms {
    let mut hashes: Vec<u32> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(|w| xxhash_rust::xxh3::xxh3_64(w.to_lowercase().as_bytes()) as u32)
        .collect();
    hashes.sort_unstable();
    let length = hashes.len() as u32;
    Terms { words: hashes.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect(), length }
}
