//! Items to add and to return, and their handles.
use crate::embed::{is_present, verify_dim};
use crate::error::{Error, Result};

/// Texts beyond this are refused: SQLite itself ends a little above.
const MAX_TEXT_BYTES: usize = 256 << 20;
/// Names of namespaces, sources, kinds, relations and such.
pub const MAX_NAME_BYTES: usize = 4096;
const PREFIX: &str = "mem_";
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The number of attempts if texts meet in one key. With 128 bits one meeting is unlikely unless somebody looks for it.
const KEY_ATTEMPTS: u64 = 16;
/// Letters of five bits that hold 128 bits.
const HANDLE_LETTERS: usize = 26;
/// Letters of an invalid handle that an error shows: it may be a secret, and errors are logged.
const SHOWN_LETTERS: usize = 12;

/// The tier of an item, from every prompt to an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Tier {
    /// In every prompt.
    Hot = 0,
    /// Loaded when asked for.
    #[default]
    Warm = 1,
    /// Found by search only.
    Cold = 2,
}

impl TryFrom<u8> for Tier {
    type Error = Error;

    fn try_from(number: u8) -> Result<Self> {
        match number {
            0 => Ok(Self::Hot),
            1 => Ok(Self::Warm),
            2 => Ok(Self::Cold),
            _ => Err(Error::Argument(format!("tier is {number}; choose 0 (hot), 1 (warm) or 2 (cold)"))),
        }
    }
}

/// An item to add. Its text is bytes, nearly always UTF-8, which come back unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct NewItem {
    pub text: Vec<u8>,
    pub kind: String,
    pub tier: Tier,
    pub source: String,
    pub thread: String,
    pub tool: String,
    pub principal: String,
    /// 0 to 1.
    pub trust: f64,
    pub parents: Vec<String>,
    pub time_ms: i64,
    /// 0 to 1.
    pub confidence: f64,
    pub expires_ms: Option<i64>,
    pub meta_json: Option<String>,
    pub redactions_json: Option<String>,
    /// A vector of the model that the call names; zeros mean "no vector".
    pub vector: Option<Vec<f32>>,
    /// Relations and handles: "supersedes", "contradicts" or any word, and an item that is there or is added with it.
    pub links: Vec<(String, String)>,
}

impl NewItem {
    /// A warm item with only a text.
    #[must_use]
    pub fn new(text: impl Into<Vec<u8>>, time_ms: i64) -> Self {
        Self {
            text: text.into(),
            kind: String::new(),
            tier: Tier::Warm,
            source: String::new(),
            thread: String::new(),
            tool: String::new(),
            principal: String::new(),
            trust: 1.0,
            parents: Vec::new(),
            time_ms,
            confidence: 1.0,
            expires_ms: None,
            meta_json: None,
            redactions_json: None,
            vector: None,
            links: Vec::new(),
        }
    }

    /// # Errors
    /// A text or a name beyond its limit, a share out of range, a vector that cannot be kept.
    pub fn verify(&self) -> Result<()> {
        if self.text.is_empty() {
            return Err(Error::Argument("the text is empty; an item holds at least one character".into()));
        }
        if self.text.len() > MAX_TEXT_BYTES {
            let len = self.text.len();
            return Err(Error::Argument(format!("the text has {len} bytes, the limit is {MAX_TEXT_BYTES}; divide it")));
        }
        for (what, name) in [
            ("kind", &self.kind),
            ("source", &self.source),
            ("thread", &self.thread),
            ("tool", &self.tool),
            ("principal", &self.principal),
        ] {
            verify_name(what, name, MAX_NAME_BYTES)?;
        }
        self.links.iter().try_for_each(|(relation, _)| verify_relation(relation))?;
        for (what, share) in [("trust", self.trust), ("confidence", self.confidence)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(Error::Argument(format!("{what} is {share}; give a number from 0 to 1")));
            }
        }
        verify_dim(self.vector.as_ref().map_or(0, Vec::len))?;
        if self.vector.iter().flatten().any(|x| !x.is_finite()) {
            return Err(Error::Argument("a vector holds NaN or infinity; give zeros for no vector".into()));
        }
        Ok(())
    }

    /// Bytes that limits count: text, vector and notes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let notes =
            self.meta_json.as_ref().map_or(0, String::len) + self.redactions_json.as_ref().map_or(0, String::len);
        let vector = self.vector.as_deref().filter(|vector| is_present(vector));
        self.text.len() + vector.map_or(0, size_of_val) + notes
    }
}

/// An item as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// `mem_` and 26 characters.
    pub handle: String,
    pub namespace: String,
    pub text: Vec<u8>,
    pub kind: String,
    pub tier: Tier,
    pub source: String,
    pub thread: String,
    pub tool: String,
    pub principal: String,
    pub trust: f64,
    pub parents: Vec<String>,
    pub time_ms: i64,
    /// The time at which it was stored.
    pub created_ms: i64,
    pub confidence: f64,
    pub expires_ms: Option<i64>,
    pub meta_json: Option<String>,
    pub redactions_json: Option<String>,
    pub links: Vec<Link>,
    /// The number of times that a search showed it.
    pub uses: u64,
}

/// A relation of an item to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// "supersedes", "contradicts" or a word of the caller.
    pub relation: String,
    /// The other item.
    pub handle: String,
    /// Whether the link goes from the item that has it to the other one.
    pub is_outgoing: bool,
}

/// The outcome of adding one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    pub handle: String,
    /// Whether it was not there before.
    pub is_new: bool,
}

/// The items that a call is about. The default is all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    pub tiers: Option<Vec<Tier>>,
    pub kinds: Option<Vec<String>>,
    pub sources: Option<Vec<String>>,
    pub threads: Option<Vec<String>>,
    /// From this time on.
    pub after_ms: Option<i64>,
    /// Before this time.
    pub before_ms: Option<i64>,
    pub min_trust: f64,
}

/// # Errors
/// A name too long, or with a NUL, which cannot be distinguished everywhere.
pub fn verify_name(what: &str, name: &str, max_bytes: usize) -> Result<()> {
    if name.len() > max_bytes {
        let len = name.len();
        return Err(Error::Argument(format!("{what} has {len} bytes, the limit is {max_bytes}; shorten it")));
    }
    if name.contains('\0') {
        return Err(Error::Argument(format!("{what} is {name:?}; leave out the NUL character")));
    }
    Ok(())
}

/// # Errors
/// An empty word: a link would say nothing.
pub(super) fn verify_relation(relation: &str) -> Result<()> {
    if relation.is_empty() {
        return Err(Error::Argument("relation is empty; say how the items are related".into()));
    }
    verify_name("relation", relation, MAX_NAME_BYTES)
}

/// # Errors
/// An empty name, for a namespace is never a default.
pub(super) fn verify_namespace(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::Argument("namespace is empty; name the one whose memories are meant".into()));
    }
    verify_name("namespace", name, MAX_NAME_BYTES)
}

/// 128 bits that name an item within its namespace.
pub(super) type Key = [u8; 16];

/// The key of a text from a source. If two texts met in one key, `attempt` leads to the next.
pub(super) fn key_of(namespace: &str, source: &str, text: &[u8], attempt: u64) -> Key {
    let mut hasher = xxhash_rust::xxh3::Xxh3::with_seed(attempt);
    for part in [namespace.as_bytes(), source.as_bytes(), text] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.digest128().to_be_bytes()
}

/// Whether `key` is that of this text.
pub(super) fn is_key_of(key: Key, namespace: &str, source: &str, text: &[u8]) -> bool {
    (0..KEY_ATTEMPTS).any(|attempt| key_of(namespace, source, text, attempt) == key)
}

/// The handle that people and programs see.
pub(super) fn handle_of(key: Key) -> String {
    let number = u128::from_be_bytes(key);
    let letter = |at: usize| char::from(LETTERS[(number >> (5 * (HANDLE_LETTERS - 1 - at)) & 31) as usize]);
    PREFIX.chars().chain((0..HANDLE_LETTERS).map(letter)).collect()
}

/// The key in a handle.
pub(super) fn key_in(handle: &str) -> Result<Key> {
    let number = handle.strip_prefix(PREFIX).filter(|letters| letters.len() == HANDLE_LETTERS).and_then(|letters| {
        letters.bytes().try_fold(0_u128, |number, letter| {
            let value = LETTERS.iter().position(|&other| other == letter)?;
            (number >> 123 == 0).then_some(number << 5 | value as u128)
        })
    });
    number.map(u128::to_be_bytes).ok_or_else(|| {
        let shown: String = handle.chars().take(SHOWN_LETTERS).collect();
        let cut = if shown.len() < handle.len() { "..." } else { "" };
        Error::Argument(format!(
            "{shown:?}{cut} isn't a handle; handles are mem_ and 26 characters, as add returns them"
        ))
    })
}

/// Strings in one value: each after its length.
pub(super) fn join(strings: &[String]) -> Vec<u8> {
    let mut joined = Vec::new();
    for string in strings {
        joined.extend_from_slice(&(string.len() as u64).to_le_bytes());
        joined.extend_from_slice(string.as_bytes());
    }
    joined
}

/// The handle of a text from a source, the same in every store of items.
#[must_use]
pub fn handle_for(namespace: &str, source: &str, text: &[u8]) -> String {
    handle_of(key_of(namespace, source, text, 0))
}

/// The strings that [`join`] joined, without damaged ones.
pub(super) fn split(mut joined: &[u8]) -> Vec<String> {
    let mut strings = Vec::new();
    while let Some((length, rest)) = joined.split_first_chunk::<8>() {
        let Some((string, rest)) =
            usize::try_from(u64::from_le_bytes(*length)).ok().and_then(|length| rest.split_at_checked(length))
        else {
            break;
        };
        strings.push(String::from_utf8_lossy(string).into_owned());
        joined = rest;
    }
    strings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_holds_its_key() {
        for key in [[0; 16], [255; 16], key_of("tenant", "notes.md", b"text", 0)] {
            let handle = handle_of(key);
            assert_eq!(handle.len(), 30);
            assert_eq!(key_in(&handle), Ok(key));
        }
        for wrong in [
            "",
            "mem_",
            "mem_zzzzzzzzzzzzzzzzzzzzzzzzzz",
            "mem_0123456789abcdefghjkmnpqr!",
            "MEM_00000000000000000000000000",
        ] {
            assert!(key_in(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_differ_where_anything_differs() {
        let all = [
            key_of("a", "b", b"c", 0),
            key_of("ab", "", b"c", 0),
            key_of("a", "bc", b"", 0),
            key_of("a", "b", b"d", 0),
            key_of("a", "b", b"c", 1),
        ];
        assert!((1..all.len()).all(|i| !all[..i].contains(&all[i])));
    }

    #[test]
    fn joined_strings_come_apart_again() {
        for strings in [vec![], vec![String::new()], vec!["a".into(), String::new(), "ü\n".into()]] {
            assert_eq!(split(&join(&strings)), strings);
        }
        assert_eq!(split(b"garbage"), Vec::<String>::new());
        assert_eq!(split(&[255; 20]), Vec::<String>::new());
    }
}
