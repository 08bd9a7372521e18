//! The log of a thread: the fields of each kind of record, the records that count, and the resulting state.
//!
//! Bodies are JSON. They are cut and put together letter for letter; a reader of the whole parses them.
mod folding;
mod redacting;
mod spans;
mod texts;

pub use self::redacting::{Redacted, redacted};
use self::spans::{Member, Spans};
pub use self::texts::REDACTED;

/// The version of the records. This one and older ones are read.
pub const VERSION: u64 = 1;

/// One step of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub kind: i64,
    /// Seconds since 1970.
    pub time: f64,
    pub body: &'a str,
}

/// Why a log cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its subject: a record, or the version.
    pub place: &'static str,
    pub problem: String,
    /// The field of the record.
    pub field: &'static str,
    /// Whether a later version may have written it.
    pub is_newer: bool,
}

type Result<T> = std::result::Result<T, Unreadable>;

/// The kinds of records; a number here is the number in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Header = 0,
    Entry = 1,
    State = 2,
    Waiting = 3,
    Original = 4,
    Remainder = 5,
    Undo = 6,
    Operations = 7,
    Summary = 8,
}

/// The least that the value of a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Any,
    Count,
    Text,
    List,
    Object,
}

use Form::{Any, Count, List, Object, Text};

/// The fields of a kind, at least.
type Fields = &'static [(&'static str, Form)];

const KINDS: [(Kind, &str, Fields); 9] = [
    (Kind::Header, "header", &[("format", Text)]),
    (Kind::Entry, "entry", &[("entry", Any), ("tokens", Count)]),
    (
        Kind::State,
        "state",
        &[
            ("seen", Count),
            ("job_tokens", Count),
            ("prompts", Count),
            ("compactions", Count),
            ("sent", Any),
            ("request", Object),
            ("meta", Object),
            ("history", Object),
            ("sections", List),
            ("tools", List),
            ("late_bound", List),
        ],
    ),
    (Kind::Waiting, "waiting", &[("waiting", Object)]),
    (Kind::Original, "original", &[("handle", Text), ("text", Text)]),
    (Kind::Remainder, "remainder", &[("handle", Text), ("sections", List)]),
    (Kind::Undo, "undo", &[("to", Count)]),
    (Kind::Operations, "operations", &[("operations", List), ("seen", Count)]),
    (
        Kind::Summary,
        "summary",
        &[("until", Count), ("compactions", Count), ("tokens", Count), ("text", Text), ("degraded", Text)],
    ),
];
/// None of our counts is larger, and sums of them are exact in every kind of number.
const MOST: u64 = 1 << 53;

/// A record that has the fields of its kind.
struct Record<'a> {
    kind: Kind,
    time: f64,
    body: &'a str,
    members: Vec<Member<'a>>,
}

impl<'a> Record<'a> {
    fn read(row: Row<'a>) -> Result<Self> {
        let known = usize::try_from(row.kind).ok().and_then(|kind| KINDS.get(kind));
        let Some(&(kind, name, fields)) = known else {
            return Err(unreadable(format!("is of kind {}", row.kind), "", true));
        };
        let Some(members) = Spans(row.body).object() else {
            return Err(unreadable(format!("is of kind {name} but isn't a JSON object"), "", false));
        };
        let record = Self { kind, time: row.time, body: row.body, members };
        for &(field, form) in fields {
            let why = match record.value(field) {
                None => "has no",
                Some(value) if !form.fits(value) => "has no right",
                Some(_) => continue,
            };
            return Err(unreadable(format!("is of kind {name} and {why} {field:?}").replace('"', "'"), field, false));
        }
        Ok(record)
    }

    /// The value of a field; the last one if it is there more than once.
    fn value(&self, name: &str) -> Option<&'a str> {
        self.members.iter().rev().find(|member| member.key == name).map(|member| member.value)
    }

    /// The value of a field that its kind has.
    fn field(&self, name: &str) -> &'a str {
        self.value(name).unwrap_or_default()
    }

    /// The body with another value of a field.
    fn with(&self, name: &str, value: &str) -> String {
        let start = self.field(name).as_ptr().addr() - self.body.as_ptr().addr();
        [&self.body[..start], value, &self.body[start + self.field(name).len()..]].concat()
    }

    fn count(&self, name: &str) -> u64 {
        self.field(name).parse().unwrap_or_default()
    }
}

impl Form {
    fn fits(self, value: &str) -> bool {
        match self {
            Any => true,
            Count => value.parse::<u64>().is_ok_and(|count| count < MOST) && !value.starts_with('+'),
            Text => value.starts_with('"'),
            List => value.starts_with('['),
            Object => value.starts_with('{'),
        }
    }
}

fn unreadable(problem: String, field: &'static str, is_newer: bool) -> Unreadable {
    Unreadable { place: "record", problem, field, is_newer }
}

/// The records, all of them checked, and the numbers of those that count: an undo takes back all from one number on.
fn counting_of<'a>(rows: &[Row<'a>]) -> Result<Vec<(usize, Record<'a>)>> {
    let mut counting: Vec<(usize, Record<'a>)> = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let record = Record::read(*row)?;
        if record.kind == Kind::Undo {
            let to = record.count("to");
            while counting.last().is_some_and(|&(number, _)| number as u64 >= to) {
                counting.pop();
            }
        } else {
            counting.push((number, record));
        }
    }
    Ok(counting)
}

/// The numbers of the records that count, in order. With `entries`, those of a thread that ends after this many
/// entries.
///
/// The next prompt then extends the last prompt that was made from no more entries than these.
///
/// # Errors
/// A record without the fields of its kind.
pub fn counting(rows: &[Row<'_>], entries: Option<u64>) -> Result<Vec<usize>> {
    let most = entries.unwrap_or(u64::MAX);
    let mut there = 0;
    let mut kept = Vec::new();
    for (number, record) in counting_of(rows)? {
        let stays = match record.kind {
            Kind::Entry => {
                there += 1;
                there <= most
            }
            // They hold for the end of a thread only.
            Kind::Waiting | Kind::Summary => entries.is_none(),
            Kind::State | Kind::Operations => record.count("seen") <= most,
            _ => true,
        };
        if stays {
            kept.push(number);
        }
    }
    Ok(kept)
}

/// The name of the format of an export, in its first line.
const EXPORT: &str = "rehydrate thread";

/// The lines of an export: the thread's name, and each record that counts, letter for letter.
///
/// # Errors
/// A record without the fields of its kind.
pub fn exported(rows: &[Row<'_>], namespace: &str, thread: &str) -> Result<Vec<String>> {
    let [namespace, thread] = [namespace, thread].map(|name| spans::encoded(name.as_bytes()));
    let mut lines = vec![format!(
        r#"{{"format": "{EXPORT}", "version": {VERSION}, "namespace": {namespace}, "thread": {thread}}}"#
    )];
    for (_, record) in counting_of(rows)? {
        let (_, name, _) = KINDS[record.kind as usize];
        let fields = record.body.trim_start().trim_start_matches('{');
        lines.push(format!(r#"{{"kind": "{name}", "time": {:?}, {fields}"#, record.time));
    }
    Ok(lines)
}

/// The state that the counting records make, as JSON: the format, entries with time and tokens, the last state and that
/// of the last sent prompt, whole, and everything else that was written.
///
/// # Errors
/// A record without the fields of its kind, or a log of a later version.
pub fn folded(rows: &[Row<'_>]) -> Result<String> {
    let counting = counting_of(rows)?;
    let first = counting.first().map(|(_, record)| record).filter(|record| record.kind == Kind::Header);
    let version = first.and_then(|record| record.value("version")).unwrap_or("None");
    match first {
        Some(header) if version.parse::<u64>().is_ok_and(|version| (1..=VERSION).contains(&version)) => {
            folding::fold(header.field("format"), &counting)
        }
        _ => Err(Unreadable {
            place: "version",
            problem: format!("is {version}, and this package reads up to {VERSION}"),
            field: "version",
            is_newer: true,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Row<'_> = Row { kind: 0, time: 0.0, body: r#"{"version":1,"format":"plain"}"# };

    fn row(kind: i64, body: &str) -> Row<'_> {
        Row { kind, time: 1.0, body }
    }

    const ONE: &str = r#"{"entry":{"a":"]}\""},"tokens":1}"#;
    const STATE: &str = r#"{"seen":1,"turn":null,"job_tokens":0,"prompts":1,"compactions":0,"sent":{"digest":"d"},
        "request":{"query":"q"},"meta":{"trust":1,"dropped":[0,[]]},"history":{"same":0,"rest":[[0,1]]},
        "sections":[0,[{"id":"s"}]],"tools":[0,[]],"late_bound":[0,[]]}"#;
    const NEXT: &str = r#"{"seen":2,"turn":0,"job_tokens":0,"prompts":1,"compactions":0,"sent":"before",
        "request":{},"meta":{"dropped":[0,[{"id":"x"}]]},"history":{"same":1,"rest":[[1,2,"shown"]]},
        "sections":[1,[{"id":"t"}]],"tools":[0,[]],"late_bound":[9,[]]}"#;

    #[test]
    fn an_undo_takes_back_all_from_a_number_on() {
        let rows = [HEADER, row(1, ONE), row(1, ONE), row(6, r#"{"to":2}"#), row(1, ONE), row(6, r#"{"to":4}"#)];
        assert_eq!(counting(&rows, None).unwrap(), [0, 1]);
        assert_eq!(counting(&rows[..5], None).unwrap(), [0, 1, 4]);
    }

    #[test]
    fn the_first_entries_have_what_was_made_from_no_more() {
        let waiting = row(3, r#"{"waiting":{}}"#);
        let rows = [HEADER, row(1, ONE), row(2, STATE), waiting, row(1, ONE), row(2, NEXT)];
        assert_eq!(counting(&rows, Some(1)).unwrap(), [0, 1, 2]);
        assert_eq!(counting(&rows, Some(2)).unwrap(), [0, 1, 2, 4, 5]);
        assert_eq!(counting(&rows, None).unwrap(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_state_names_what_is_new_besides_the_one_before() {
        let operations = [row(7, r#"{"operations":[1, 2],"seen":1}"#), row(7, r#"{"operations":[ ],"seen":2}"#)];
        let kept = [row(4, r#"{"handle":"o","text":"t"}"#), row(5, r#"{"handle":"r","sections":[]}"#)];
        let rows = [HEADER, row(1, ONE), row(2, STATE), row(1, ONE), row(2, NEXT)];
        let read: serde_json::Value =
            serde_json::from_str(&folded(&[&rows[..], &operations, &kept].concat()).unwrap()).unwrap();
        assert_eq!(read["format"], "plain");
        assert_eq!(read["entries"][1], serde_json::json!([{"a": "]}\""}, 1.0, 1]));
        let state = &read["state"];
        assert_eq!(state["history"], serde_json::json!([[0, 1], [1, 2, "shown"]]));
        assert_eq!(state["sections"], serde_json::json!([{"id": "s"}, {"id": "t"}]));
        assert_eq!(state["request"], serde_json::json!({"query": "q"}));
        assert_eq!(state["meta"], serde_json::json!({"dropped": [{"id": "x"}]}));
        assert_eq!((&state["sent"], &state["turn"]), (&"before".into(), &0.into()));
        assert_eq!(read["sent"]["sent"], serde_json::json!({"digest": "d"}));
        assert_eq!(read["sent"]["meta"], serde_json::json!({"trust": 1, "dropped": []}));
        assert_eq!((&read["operations"], &read["seen"]), (&serde_json::json!([1, 2]), &2.into()));
        assert_eq!(read["originals"], serde_json::json!({"o": "t"}));
        assert_eq!((&read["remainders"], &read["summary"]), (&serde_json::json!({"r": []}), &serde_json::Value::Null));
    }

    #[test]
    fn an_export_has_the_records_that_count() {
        let rows = [HEADER, row(1, ONE), row(1, ONE), row(6, r#"{"to":2}"#)];
        let lines = exported(&rows, "a\"b", "é").unwrap();
        assert_eq!(lines[0], r#"{"format": "rehydrate thread", "version": 1, "namespace": "a\"b", "thread": "é"}"#);
        assert_eq!(lines[1], r#"{"kind": "header", "time": 0.0, "version":1,"format":"plain"}"#);
        assert_eq!(lines[2..], [r#"{"kind": "entry", "time": 1.0, "entry":{"a":"]}\""},"tokens":1}"#]);
    }

    #[test]
    fn what_no_thread_says_is_refused() {
        for (rows, said) in [
            (vec![], "None"),
            (vec![row(1, ONE)], "None"),
            (vec![row(0, r#"{"version":2,"format":"plain"}"#)], "is 2, and"),
            (vec![HEADER, row(9, "{}")], "is of kind 9"),
            (vec![HEADER, row(-1, "{}")], "is of kind -1"),
            (vec![HEADER, row(1, "[1]")], "isn't a JSON object"),
            (vec![HEADER, row(1, r#"{"entry":1,"tokens":1} x"#)], "isn't a JSON object"),
            (vec![HEADER, row(1, r#"{"entry":1}"#)], "kind entry and has no 'tokens'"),
            (vec![HEADER, row(1, r#"{"entry":1,"tokens":-1}"#)], "has no right 'tokens'"),
            (vec![HEADER, row(1, r#"{"entry":1,"tokens":9007199254740992}"#)], "has no right 'tokens'"),
            (vec![HEADER, row(2, r#"{"seen":1}"#)], "has no 'job_tokens'"),
            (vec![HEADER, row(5, r#"{"handle":"x","sections":{}}"#)], "has no right 'sections'"),
        ] {
            let error = folded(&rows).unwrap_err();
            assert!(error.problem.contains(said), "{error:?}");
        }
    }
}
