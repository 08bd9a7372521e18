//! Names of an outline with their lines, if such a line costs little: it shows what the name was used for.
//!
//! Texts are as in `context_store/raw.rs`: UTF-8, in which half of a surrogate pair is written like any other code point.
use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::lines::{Listed, write_lines};
use crate::analysis::python_re::{is_space, is_word};
use crate::caps::{decoded, lossy};

/// Characters of a line, at most, by those of its names in a list.
const MAX_PRICE: f64 = 1.5;
const MAX_LINE: f64 = 300.0;

/// As many of the names as fit into this many tokens, in order.
#[must_use]
pub fn fitting<'n, 'a>(
    names: &'n [Listed<&'a str>],
    tokens: i64,
    count: impl Fn(&str) -> u32,
) -> &'n [Listed<&'a str>] {
    let unquoted = vec![None; names.len()];
    &names[..most(names.len(), tokens, count, |most| written(&names[..most], &unquoted))]
}

/// As many of the names as fit into this many tokens, in order: by their use, and then those that have a line, by its
/// place. `texts` are the texts of each reference.
#[must_use]
pub fn write_quoted(
    names: &[Listed<&str>],
    texts: &FxHashMap<&str, Vec<u8>>,
    tokens: i64,
    count: impl Fn(&str) -> u32,
) -> Vec<u8> {
    let lines = cheap_lines(names, texts);
    let most = most(names.len(), tokens, count, |most| written(&names[..most], &lines));
    written(&names[..most], &lines)
}

/// The largest number of names whose outline fits.
fn most(names: usize, tokens: i64, count: impl Fn(&str) -> u32, write: impl Fn(usize) -> Vec<u8>) -> usize {
    let (mut low, mut high) = (0, names);
    while low < high {
        let middle = usize::midpoint(low, high);
        let written = write(middle + 1);
        let shown = std::str::from_utf8(&written).map_or_else(|_| Cow::Owned(lossy(&decoded(&written))), Cow::from);
        if tokens < i64::from(count(&shown)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// The last line of each name in the text of its reference, if it costs little.
fn cheap_lines(names: &[Listed<&str>], texts: &FxHashMap<&str, Vec<u8>>) -> Vec<Option<Vec<u8>>> {
    let folded: FxHashMap<&str, Vec<u8>> = texts.iter().map(|(reference, text)| (*reference, folded(text))).collect();
    let mut shared: FxHashMap<(&str, &[u8]), Vec<usize>> = FxHashMap::default();
    for (number, each) in names.iter().enumerate() {
        let text = folded.get(each.reference).map_or(&b""[..], |text| text);
        if let Some(at) = memchr::memmem::rfind(text, each.name.as_bytes()) {
            let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1);
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |length| at + length);
            shared.entry((each.reference, &text[start..end])).or_default().push(number);
        }
    }
    let mut found = vec![None; names.len()];
    for ((_, line), of_line) in shared {
        let listed: usize = of_line.iter().map(|&number| names[number].name.chars().count() + 2).sum();
        let is_cheap = decoded(line).len() as f64 <= (MAX_PRICE * listed as f64 - 3.0).min(MAX_LINE);
        if is_cheap && (of_line.len() > 1 || says_more(line, names[of_line[0]].name)) {
            for number in of_line {
                found[number] = Some(line.to_vec());
            }
        }
    }
    found
}

/// The text with its words one blank apart, and a line break on either side.
fn folded(text: &[u8]) -> Vec<u8> {
    let mut out = vec![b'\n'];
    let points = decoded(text);
    for line in crate::caps::code_points::lines(&points) {
        for (number, word) in points[line].split(|&point| is_space(point)).filter(|word| !word.is_empty()).enumerate() {
            if number > 0 {
                out.push(b' ');
            }
            out.extend(crate::caps::encoded(word));
        }
        out.push(b'\n');
    }
    out
}

/// Whether a line has a letter or a number in addition to the name.
fn says_more(line: &[u8], name: &str) -> bool {
    let mut rest = Vec::new();
    let mut start = 0;
    for at in memchr::memmem::find_iter(line, name) {
        rest.extend_from_slice(&line[start..at]);
        start = at + name.len();
    }
    rest.extend_from_slice(&line[start..]);
    decoded(&rest).into_iter().any(|point| is_word(point) && point != u32::from('_'))
}

fn written(names: &[Listed<&str>], lines: &[Option<Vec<u8>>]) -> Vec<u8> {
    let listed: Vec<Listed<&str>> =
        names.iter().zip(lines).filter(|(_, line)| line.is_none()).map(|(name, _)| name.clone()).collect();
    let mut parts: Vec<Vec<u8>> = Vec::new();
    if !listed.is_empty() {
        parts.extend(write_lines(&listed, "").split('\n').skip(1).map(|line| line.as_bytes().to_vec()));
    }
    let mut quoted: Vec<(&str, Vec<&[u8]>)> = Vec::new();
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    for (name, line) in names.iter().zip(lines) {
        let Some(line) = line else { continue };
        let place = *places.entry(name.reference).or_insert_with(|| {
            quoted.push((name.reference, Vec::new()));
            quoted.len() - 1
        });
        if !quoted[place].1.contains(&&**line) {
            quoted[place].1.push(line);
        }
    }
    for (reference, lines) in quoted {
        parts.push(format!("{reference}:").into_bytes());
        parts.extend(lines.into_iter().map(|line| [b"> ", line].concat()));
    }
    parts.join(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_line_where_that_costs_little() {
        let name = |name| Listed { name, heading: "in tool results", reference: "#1" };
        let names = [name("dark_red"), name("#cc0000"), name("the_old_door")];
        let text = "A long day with much wind, and at its end somebody opened the_old_door.\n  \"dark_red\":  \"#cc0000\",\r\n";
        let texts = FxHashMap::from_iter([("#1", text.as_bytes().to_vec())]);
        let count = |text: &str| text.len() as u32;
        let written = |tokens| {
            let names = fitting(&names, tokens, count);
            String::from_utf8_lossy(&write_quoted(names, &texts, tokens, count)).into_owned()
        };
        assert_eq!(written(500), "in tool results: #1 the_old_door\n#1:\n> \"dark_red\": \"#cc0000\",");
        assert_eq!(written(30), "in tool results: #1 dark_red");
        assert_eq!(written(0), "");
        assert!(!says_more(b"a_b: a_b!", "a_b") && says_more(b"a_b x", "a_b"));
    }
}
