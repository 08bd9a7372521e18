//! Folding the records that count into one state.
use super::spans::{Member, Spans};
use super::{Kind, Record, Result, unreadable};

/// Fields of a state that only grow: the number of items from the state before, and the others.
const LISTS: [&str; 3] = ["sections", "tools", "late_bound"];

/// All of a thread, as it is written out.
#[derive(Default)]
struct Thread<'a> {
    entries: String,
    state: State<'a>,
    /// The state of the last prompt that was sent.
    sent: Option<State<'a>>,
    waiting: Option<&'a str>,
    originals: String,
    remainders: String,
    operations: String,
    seen: Option<&'a str>,
    summary: Option<&'a str>,
}

/// The last state, whole. None before the first.
#[derive(Default, Clone)]
struct State<'a> {
    others: Vec<Member<'a>>,
    request: Vec<Member<'a>>,
    meta: Vec<Member<'a>>,
    dropped: Vec<&'a str>,
    history: Vec<&'a str>,
    lists: [Vec<&'a str>; 3],
    /// Whether a prompt was sent since the one before.
    is_sent: bool,
}

pub(super) fn fold(format: &str, counting: &[(usize, Record<'_>)]) -> Result<String> {
    let mut thread = Thread::default();
    let mut has_state = false;
    for (_, record) in counting {
        has_state |= record.kind == Kind::State;
        thread.take(record)?;
    }
    let state = if has_state { thread.state.json() } else { "null".into() };
    let sent = if thread.state.is_sent {
        "true".into()
    } else {
        thread.sent.map_or_else(|| "null".into(), |sent| sent.json())
    };
    Ok(format!(
        r#"{{"format":{format},"entries":[{}],"state":{state},"sent":{sent},"waiting":{},"originals":{{{}}},"remainders":{{{}}},"operations":[{}],"seen":{},"summary":{}}}"#,
        thread.entries,
        thread.waiting.unwrap_or("{}"),
        thread.originals,
        thread.remainders,
        thread.operations,
        thread.seen.unwrap_or("0"),
        thread.summary.unwrap_or("null"),
    ))
}

impl<'a> Thread<'a> {
    fn take(&mut self, record: &Record<'a>) -> Result<()> {
        match record.kind {
            Kind::Header | Kind::Undo => {}
            Kind::Entry => {
                let row = format!("[{},{:?},{}]", record.field("entry"), record.time, record.field("tokens"));
                add(&mut self.entries, &row);
            }
            Kind::State => {
                if self.state.is_sent && !record.field("sent").starts_with('{') {
                    self.sent = Some(self.state.clone());
                }
                self.state.take(record)?;
            }
            Kind::Waiting => self.waiting = Some(record.field("waiting")),
            Kind::Original => add_pair(&mut self.originals, record.field("handle"), record.field("text")),
            Kind::Remainder => add_pair(&mut self.remainders, record.field("handle"), record.field("sections")),
            Kind::Operations => {
                for operation in items(record.field("operations"), "operations")? {
                    add(&mut self.operations, operation);
                }
                self.seen = Some(record.field("seen"));
            }
            Kind::Summary => self.summary = Some(record.body),
        }
        Ok(())
    }
}

impl<'a> State<'a> {
    /// Go on to the state in a record, which only names the changes.
    fn take(&mut self, record: &Record<'a>) -> Result<()> {
        self.is_sent = record.field("sent").starts_with('{');
        let is_own = |key| ["request", "meta", "history"].contains(&key) || LISTS.contains(&key);
        self.others = record.members.iter().filter(|member| !is_own(member.key)).copied().collect();
        for (list, name) in self.lists.iter_mut().zip(LISTS) {
            go_on(list, record.field(name), name)?;
        }
        for member in members(record.field("request"), "request")? {
            self.request.retain(|before| before.key != member.key);
            self.request.push(member);
        }
        self.meta = members(record.field("meta"), "meta")?;
        let dropped = self.meta.iter().rposition(|member| member.key == "dropped").ok_or_else(|| wrong("meta"))?;
        go_on(&mut self.dropped, self.meta.remove(dropped).value, "meta")?;
        let history = members(record.field("history"), "history")?;
        let of = |name: &str| history.iter().rev().find(|member| member.key == name).map(|member| member.value);
        let (Some(same), Some(rest)) = (of("same"), of("rest")) else { return Err(wrong("history")) };
        grow(&mut self.history, same, rest, "history")
    }

    fn json(&self) -> String {
        let mut out = written(&self.others);
        for (list, name) in self.lists.iter().zip(LISTS) {
            add_pair(&mut out, &format!("\"{name}\""), &format!("[{}]", list.join(",")));
        }
        let mut meta = written(&self.meta);
        add_pair(&mut meta, "\"dropped\"", &format!("[{}]", self.dropped.join(",")));
        let (request, history) = (written(&self.request), self.history.join(","));
        format!(r#"{{{out},"request":{{{request}}},"meta":{{{meta}}},"history":[{history}]}}"#)
    }
}

/// Go on to a list that a record writes as the number of old items, and the new ones.
fn go_on<'a>(list: &mut Vec<&'a str>, written: &'a str, name: &'static str) -> Result<()> {
    match items(written, name)?[..] {
        [same, rest] => grow(list, same, rest, name),
        _ => Err(wrong(name)),
    }
}

fn grow<'a>(list: &mut Vec<&'a str>, same: &str, rest: &'a str, name: &'static str) -> Result<()> {
    list.truncate(same.parse().map_err(|_| wrong(name))?);
    list.extend(items(rest, name)?);
    Ok(())
}

fn items<'a>(list: &'a str, name: &'static str) -> Result<Vec<&'a str>> {
    Spans(list).list().ok_or_else(|| wrong(name))
}

fn members<'a>(object: &'a str, name: &'static str) -> Result<Vec<Member<'a>>> {
    Spans(object).object().ok_or_else(|| wrong(name))
}

fn wrong(name: &'static str) -> super::Unreadable {
    unreadable(format!("has a {name:?} that none of ours has").replace('"', "'"), name, false)
}

fn written(members: &[Member<'_>]) -> String {
    let mut out = String::new();
    for member in members {
        add_pair(&mut out, &format!("\"{}\"", member.key), member.value);
    }
    out
}

fn add(out: &mut String, item: &str) {
    if !out.is_empty() {
        out.push(',');
    }
    out.push_str(item);
}

fn add_pair(out: &mut String, key: &str, value: &str) {
    add(out, key);
    out.push(':');
    out.push_str(value);
}
