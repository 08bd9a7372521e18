//! Texts that must go, wherever they are in a thread's records.
//!
//! The operations of the context store hold no texts, only spans of entries, which move with the text before them, and
//! keys, which are texts in small letters.
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::spans::{Spans, decoded, encoded};
use super::texts::{Texts, Within};
use super::{Kind, Record, Row, Unreadable};
use crate::caps;
use crate::context_store::{Raw, digest, key_of};

/// The records after a redaction.
#[derive(Debug, Default, PartialEq)]
pub struct Redacted {
    /// The bodies that changed, by the numbers of their records.
    pub bodies: Vec<(usize, String)>,
    /// The texts of entries that count and changed: their times, their old and their new form.
    pub texts: Vec<(f64, Raw, Raw)>,
}

/// The records of a thread without these texts. `texts_of` gives the texts of an entry as JSON.
///
/// # Errors
/// A record without the fields of its kind, and what `texts_of` says.
pub fn redacted<E: From<Unreadable>>(
    rows: &[Row<'_>],
    texts: &[Raw],
    mut texts_of: impl FnMut(&str) -> Result<Vec<Raw>, E>,
) -> Result<Redacted, E> {
    let texts = Texts(texts);
    let mut after: Vec<Option<String>> = Vec::with_capacity(rows.len());
    let mut entries: Vec<usize> = Vec::new();
    let mut known: FxHashMap<usize, [Vec<Raw>; 2]> = FxHashMap::default();
    for (number, row) in rows.iter().enumerate() {
        let record = Record::read(*row)?;
        let mut body = None;
        match record.kind {
            Kind::Entry => entries.push(number),
            Kind::Undo => entries.retain(|&entry| (entry as u64) < record.count("to")),
            Kind::Operations => {
                let mut operations = Vec::new();
                for operation in Spans(record.field("operations")).list().unwrap_or_default() {
                    let operation = Operation::read(operation)?;
                    let Some(&at) = operation.entry.and_then(|entry| entries.get(entry)) else {
                        operations.push(operation.body.to_owned());
                        continue;
                    };
                    let [was, now] = match known.entry(at) {
                        Entry::Occupied(both) => both.into_mut(),
                        Entry::Vacant(place) => {
                            let now = after[at].as_deref().unwrap_or(rows[at].body);
                            place.insert([texts_of(entry_of(rows[at].body)?)?, texts_of(entry_of(now)?)?])
                        }
                    };
                    operations.push(operation.moved(was, now, &texts));
                }
                let written = format!("[{}]", operations.join(", "));
                body = Some(record.with("operations", &written)).filter(|body| body != record.body);
            }
            _ => {}
        }
        body = texts.json(body.as_deref().unwrap_or(row.body), Within::Record, 0).or(body);
        after.push(body);
    }
    let mut found = Redacted::default();
    if after.iter().all(Option::is_none) {
        return Ok(found);
    }
    for (_, record) in super::counting_of(rows)? {
        if record.kind == Kind::Entry {
            for was in texts_of(record.field("entry"))? {
                let now = texts.without(&was);
                if now != was {
                    found.texts.push((record.time, was, now));
                }
            }
        }
    }
    let changed = after.into_iter().enumerate().filter_map(|(number, body)| Some((number, body?)));
    found.bodies = changed.collect();
    Ok(found)
}

fn entry_of(body: &str) -> Result<&str, Unreadable> {
    Ok(Record::read(Row { kind: Kind::Entry as i64, time: 0.0, body })?.field("entry"))
}

/// An operation of the context store, as it is written.
struct Operation<'a> {
    body: &'a str,
    /// The index of the entry with its item's text. None if it adds no item.
    entry: Option<usize>,
}

impl<'a> Operation<'a> {
    fn read(body: &'a str) -> Result<Self, Unreadable> {
        let Some(span) = member(body, "span") else { return Ok(Self { body, entry: None }) };
        let span = Spans(span).list().filter(|span| span.len() == 5);
        match span.and_then(|span| span[0].parse().ok()) {
            Some(entry) if member(body, "key").is_some() => Ok(Self { body, entry: Some(entry) }),
            _ => {
                let problem = "says what no thread does (a span that is none)".to_owned();
                Err(super::unreadable(problem, "operations", false))
            }
        }
    }

    /// It with the new span of its text, and with its key.
    fn moved(&self, was: &[Raw], now: &[Raw], texts: &Texts<'_>) -> String {
        let key = member(self.body, "key").map(decoded).unwrap_or_default();
        let span = member(self.body, "span").and_then(|span| Spans(span).list()).unwrap_or_default();
        let place = |number: usize| span.get(number).and_then(|place| place.parse::<usize>().ok()).unwrap_or_default();
        let both = was.get(place(1)).zip(now.get(place(1)));
        let Some((old, new)) = both.filter(|_| was != now) else { return self.with(&texts.key(&key), None) };
        let (before, said, rest) = parted(old, place(2), place(3));
        let points = caps::decoded(new);
        let (start, end) = if texts.plain(old) == *new {
            let before = shared(caps::decoded(&texts.plain(&before)).iter(), points.iter());
            let rest = shared(caps::decoded(&texts.plain(&rest)).iter().rev(), points.iter().rev());
            (before, points.len() - rest)
        } else {
            // Within JSON a text is written in other characters.
            let said = texts.plain(&said);
            let start = memchr::memmem::find(new, &said).map_or(0, |at| caps::decoded(&new[..at]).len());
            (start, start + caps::decoded(&said).len())
        };
        let text = caps::encoded(points.get(start..end.min(points.len())).unwrap_or_default());
        let key = match &key {
            key if *key == said => text.clone(),
            key if **key == *key_of(&said) => key_of(&text).into(),
            _ => key,
        };
        let place = format!("[{}, {}, {start}, {end}, \"{}\"]", span[0], span[1], digest(&text));
        self.with(&texts.key(&key), Some(&place))
    }

    fn with(&self, key: &[u8], span: Option<&str>) -> String {
        let members = Spans(self.body).object().unwrap_or_default();
        let key = encoded(key);
        let members = members.iter().map(|member| {
            let value = match member.key {
                "key" => &key,
                "span" => span.unwrap_or(member.value),
                _ => member.value,
            };
            format!("\"{}\": {value}", member.key)
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
    }
}

fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    Spans(object).object()?.iter().rev().find(|member| member.key == name).map(|member| member.value)
}

/// The text before a part, the part, and the text after it, by characters.
fn parted(text: &[u8], start: usize, end: usize) -> (Raw, Vec<u8>, Raw) {
    let points = caps::decoded(text);
    let (start, end) = (start.min(points.len()), end.min(points.len()));
    let of = |part: Option<&[u32]>| caps::encoded(part.unwrap_or_default());
    (of(points.get(..start)).into(), of(points.get(start..end)), of(points.get(end..)).into())
}

/// The number of first items that both have.
fn shared<'a>(one: impl Iterator<Item = &'a u32>, other: impl Iterator<Item = &'a u32>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts_of(entry: &str) -> Result<Vec<Raw>, Unreadable> {
        Ok(vec![decoded(entry).into()])
    }

    fn without(rows: &[(i64, &str)], text: &str) -> Redacted {
        let header = Row { kind: 0, time: 0.0, body: r#"{"version": 1, "format": "plain"}"# };
        let rows = rows.iter().map(|&(kind, body)| Row { kind, time: 1.5, body });
        redacted(&[header].into_iter().chain(rows).collect::<Vec<_>>(), &[text.as_bytes().into()], texts_of).unwrap()
    }

    #[test]
    fn texts_go_from_values_and_are_found_where_json_escapes_them() {
        let found = without(
            &[(1, r#"{"entry": "a \"key\" \u00e9", "tokens": 1}"#), (3, r#"{"waiting": {"k\"e": [1]}}"#)],
            "\"",
        );
        assert_eq!(found.bodies[0], (1, r#"{"entry": "a [redacted]key[redacted] é", "tokens": 1}"#.into()));
        assert_eq!(found.bodies.len(), 1);
        assert_eq!(
            found.texts,
            [(1.5, "a \"key\" é".as_bytes().into(), "a [redacted]key[redacted] é".as_bytes().into())]
        );
        assert_eq!(without(&[(1, r#"{"entry": "a", "tokens": 1}"#)], "x"), Redacted::default());
    }

    #[test]
    fn spans_move_with_what_goes_before_them() {
        let entry = (1, r#"{"entry": "the hunter2 key. Use tabs.", "tokens": 1}"#);
        let operation = r#"{"op": "add", "item": 1, "entry": 0, "key": "use tabs.", "span": [0, 0, 17, 26, "d"]}"#;
        let operations = format!(r#"{{"operations": [{operation}], "seen": 1}}"#);
        let found = without(&[entry, (7, &operations)], "hunter2");
        let digest = digest(b"Use tabs.");
        let expected = operation.replace(r#"17, 26, "d""#, &format!(r#"20, 29, "{digest}""#));
        assert_eq!(found.bodies[1], (2, format!(r#"{{"operations": [{expected}], "seen": 1}}"#)));
        assert!(without(&[entry, (6, r#"{"to": 1}"#), (7, &operations)], "hunter2").bodies.len() == 1);
    }
}
