//! The context store of a thread, for Python: messages and operations in, operations, items and markdown out.
mod activity;
mod answers;
mod messages;
mod subjects;
mod values;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use rehydrate_core::context_store::{self as core, Heading, MAX_PROPOSALS, MAX_TRANSCRIPT};
use rehydrate_core::error::{Error, StoreProblem};
use rehydrate_core::fork::Guarded;
use rehydrate_core::tokens::Counter;
use rustc_hash::{FxHashMap, FxHashSet};

pub use self::activity::Activity;
use self::answers::proposals_in;
use self::messages::{Message, lines_of};
use self::subjects::Tools;
use self::values::operation;
pub use self::values::{Applied, Item, Operation, Span};
use crate::checks::{SHOWN, check_choice, check_list, count_of, refuse_copy, refused, shown, whole};
use crate::convert::{bytes_of, first_characters, indices_in, string_of};
use crate::errors::detached;
use crate::exit::Running;
use crate::reading::{Conversation, Source};
use crate::tokens::named;

/// The encoding in which a store's budget is counted.
const COUNTER: &str = "o200k_base";
/// A smaller store would be mostly its headings.
const MIN_TOKENS: i64 = 100;
/// The share of the budget for directives, work and open points. Names take the rest.
const ITEMS_SHARE: f64 = 0.8;
/// Characters of a model's answer. Further ones are not read.
const MAX_ANSWER: usize = 60_000;

/// Everything that a thread must not lose, as an append-only log of operations over verbatim spans.
///
/// After every turn `update` reads the turn's messages: the user's directives, decisions, changed files, open errors,
/// and the present task. `render` writes it as markdown within a budget. Each line ends with the handle of its message.
///
/// >>> from rehydrate import formats
/// >>> store = ContextStore()
/// >>> said = [{"role": "user", "content": "Fix the login. From now on, always use tabs."}]
/// >>> operations = store.update(formats.parse(said, "anthropic").messages)
/// >>> print(store.render(200))
/// ## Task State
/// - Fix the login. From now on, always use tabs. (#0)
/// ## User Preferences
/// - From now on, always use tabs. (#0)
///
/// Any number of threads may use it.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct ContextStore(Guarded<State>);

/// A summary, the addition to it, and the names in it that its sources do not have.
type Verified<'py> = (Bound<'py, PyString>, Bound<'py, PyString>, Vec<Bound<'py, PyString>>);

#[derive(Default)]
struct State {
    core: core::ContextStore,
    /// The number of entries that were read.
    seen: i64,
}

impl State {
    /// The operations from this number on.
    fn log(&self, start: usize) -> Vec<core::Operation> {
        self.core.items().log().get(start..).unwrap_or_default().to_vec()
    }

    /// Make a change, and return the operations that it added.
    fn change<T>(&mut self, change: impl FnOnce(&mut core::ContextStore) -> T) -> (Vec<core::Operation>, T) {
        let before = self.core.items().log().len();
        let made = change(&mut self.core);
        (self.log(before), made)
    }
}

impl ContextStore {
    fn of(state: State) -> Self {
        Self(Guarded::new(state, |(problem, remedy)| Error::Store {
            kind: StoreProblem::Other,
            path: "a ContextStore".into(),
            problem: problem.into(),
            remedy: remedy.into(),
        }))
    }

    /// Work on it, without the interpreter, so that waiting for it blocks no other thread. An interrupted call leaves
    /// whole operations.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> T + Send) -> PyResult<T> {
        detached(py, || self.0.with(work))
    }

    fn markdown<'py>(
        &self,
        py: Python<'py>,
        budget: i64,
        activity: Option<&mut Activity>,
    ) -> PyResult<Bound<'py, PyString>> {
        if budget < MIN_TOKENS {
            return Ok(PyString::new(py, ""));
        }
        let counter = counter(py)?;
        let Some(activity) = activity else {
            let markdown = self.with(py, |state| state.core.render(budget, &[], counter))?;
            return string_of(py, &markdown.text());
        };
        let room = (budget as f64 * ITEMS_SHARE) as i64;
        let (markdown, left) = self.with(py, |state| {
            let markdown = state.core.render(room, &activity.commands.ran(&activity.visible), counter);
            let left = markdown.room_for_names(budget);
            (markdown, left)
        })?;
        let text = Source::of(string_of(py, &markdown.text())?)?;
        string_of(py, &markdown.with_names(&activity.names(py, text.as_str(), left, counter)?))
    }
}

#[pymethods]
impl ContextStore {
    #[new]
    fn new() -> Self {
        Self::of(State::default())
    }

    /// The least that `render` takes.
    #[classattr]
    const MIN_TOKENS: i64 = MIN_TOKENS;

    /// Raise InvalidArgumentError: it belongs to its context, and has locks.
    fn __reduce__(&self, py: Python<'_>) -> PyResult<()> {
        refuse_copy(py, "a ContextStore", "pass its written_since(0), and replay that into another one")
    }

    /// How many entries were read.
    #[getter]
    fn seen(&self, py: Python<'_>) -> PyResult<i64> {
        self.with(py, |state| state.seen)
    }

    /// All operations, in order.
    #[getter]
    fn operations(&self, py: Python<'_>) -> PyResult<Vec<Operation>> {
        let _running = Running::begin();
        Ok(as_operations(self.with(py, |state| state.log(0))?))
    }

    /// Return the operations from this number on.
    fn operations_since(&self, py: Python<'_>, number: &Bound<'_, PyAny>) -> PyResult<Vec<Operation>> {
        let _running = Running::begin();
        let number = count_of("number", number)?;
        Ok(as_operations(self.with(py, |state| state.log(number))?))
    }

    /// Return the same as JSON values. They hold an item's span, and not its text.
    fn written_since<'py>(&self, number: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let _running = Running::begin();
        let (py, number) = (number.py(), count_of("number", number)?);
        let log = self.with(py, |state| state.log(number))?;
        log.iter().map(|operation| values::written(py, operation)).collect()
    }

    /// Read the messages of new entries, in order, and return what changed.
    ///
    /// ``seen`` is the number of entries then. None: they end with the last message.
    #[pyo3(signature = (messages, seen = None))]
    fn update(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        seen: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Operation>> {
        let _running = Running::begin();
        let seen = seen.map(|seen| count_of("seen", seen)).transpose()?.map(|seen| seen as i64);
        let mut messages = Message::all(messages, Some(&Tools::new(py)?))?;
        let seen = seen.unwrap_or_else(|| messages.last().map_or(0, |message| message.entry + 1));
        let added = self.with(py, |state| {
            let (added, ()) = state.change(|core| core.read(messages.iter_mut().map(Message::said).collect()));
            state.seen = state.seen.max(seen);
            added
        })?;
        Ok(as_operations(added))
    }

    /// Apply the valid proposals of a model's answer; return the outcome.
    ///
    /// ``items`` and ``messages`` are those of the `proposal_prompt` that it answers.
    fn apply(
        &self,
        py: Python<'_>,
        answer: &Bound<'_, PyString>,
        items: Vec<Bound<'_, Item>>,
        messages: &Bound<'_, PyAny>,
    ) -> PyResult<Applied> {
        let _running = Running::begin();
        let answer = string_of(py, first_characters(&bytes_of(answer)?, MAX_ANSWER))?;
        let (proposals, unreadable) = proposals_in(&answer)?;
        let shown = items.iter().map(|item| (item.get().0.id, item.get().0.span.clone())).collect();
        let mut messages = Message::all(messages, None)?;
        let (added, refused) = self.with(py, |state| {
            let messages = messages.iter_mut().map(Message::said).collect();
            state.change(|core| core.propose(&proposals, shown, messages, MAX_PROPOSALS))
        })?;
        let mut counts: Vec<(String, usize)> = Vec::new();
        for why in refused.into_iter().map(|why| why.words(MAX_PROPOSALS)) {
            match counts.iter_mut().find(|(known, _)| *known == why) {
                Some((_, count)) => *count += 1,
                None => counts.push((why, 1)),
            }
        }
        let refused = PyDict::new(py);
        for (why, count) in counts {
            refused.set_item(why, count)?;
        }
        let operations = as_operations(added).into_iter().map(|operation| Py::new(py, operation));
        Ok(Applied { operations: operations.collect::<PyResult<_>>()?, refused: refused.unbind(), unreadable })
    }

    /// Apply operations that were written before, of ``seen`` entries.
    ///
    /// ``messages`` are of these entries. Of the calls in ``recent`` ones some may not be answered
    /// yet.
    #[pyo3(signature = (written, messages, seen, recent = None))]
    fn replay(
        &self,
        py: Python<'_>,
        written: &Bound<'_, PyAny>,
        messages: &Bound<'_, PyAny>,
        seen: &Bound<'_, PyAny>,
        recent: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _running = Running::begin();
        let seen = whole("seen", seen)?;
        let messages = Message::all(messages, None)?;
        let by_entry: FxHashMap<i64, &Message> = messages.iter().map(|message| (message.entry, message)).collect();
        let text_of = |span: &core::Span| by_entry.get(&span.entry).and_then(|message| message.text_at(span));
        let read = |one: PyResult<Bound<'_, PyAny>>| operation(&one?, |span| text_of(span).unwrap_or_default().into());
        let operations = written.try_iter()?.map(read).collect::<PyResult<Vec<_>>>()?;
        let tools = Tools::new(py)?;
        let mut recent = recent.map_or_else(|| Ok(Vec::new()), |recent| Message::all(recent, Some(&tools)))?;
        self.with(py, |state| {
            state.core.replay(operations);
            state.core.note_calls(recent.iter_mut().map(Message::said).collect());
            state.seen = seen;
        })
    }

    /// Return a mark of the present end: the number of operations, and of entries read.
    fn mark(&self, py: Python<'_>) -> PyResult<(usize, i64)> {
        let _running = Running::begin();
        self.with(py, |state| (state.core.items().log().len(), state.seen))
    }

    /// Forget everything that was read since the mark.
    fn back_to(&self, py: Python<'_>, mark: &Bound<'_, PyAny>) -> PyResult<()> {
        let _running = Running::begin();
        let odd = |_| refused(py, format!("mark is {}; pass what mark() returned", shown(mark, SHOWN)));
        let mark: (usize, i64) = mark.extract().map_err(odd)?;
        self.with(py, |state| {
            if mark != (state.core.items().log().len(), state.seen) {
                state.core.back_to(mark.0);
                state.seen = mark.1;
            }
        })
    }

    /// Take back everything that these entries gave rise to: the user took them back.
    ///
    /// The operations stay in the log. Items that one of these had ended are valid again.
    fn leave_out(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        let _running = Running::begin();
        check_list("entries", entries, "pass the indices of entries")?;
        let entries =
            entries.try_iter()?.map(|entry| whole("an entry", &entry?)).collect::<PyResult<FxHashSet<_>>>()?;
        self.with(py, |state| state.core.leave_out(entries))
    }

    /// Return the store as it was before the entry with this index was read, without entries that were left out since.
    fn as_of(&self, entry: &Bound<'_, PyAny>) -> PyResult<Self> {
        let _running = Running::begin();
        let (py, entry) = (entry.py(), whole("entry", entry)?);
        let (operations, left_out) = self.with(py, |state| state.core.before(entry))?;
        // For a long log this takes a while, so no thread waits for it.
        let core = detached(py, || Ok(core::ContextStore::of(operations, left_out)))?;
        Ok(Self::of(State { core, seen: entry }))
    }

    /// Return all items, or those of a heading that hold.
    #[pyo3(signature = (heading = None))]
    fn items(&self, py: Python<'_>, heading: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Item>> {
        let _running = Running::begin();
        let Some(heading) = heading else {
            let all = self.with(py, |state| state.core.items().all().to_vec())?;
            return Ok(all.into_iter().map(Item).collect());
        };
        check_choice("heading", heading, PyTuple::new(py, Heading::ALL.map(Heading::name))?.as_any())?;
        let heading = values::named(&Heading::ALL, Heading::name, heading)?;
        let live = self.with(py, |state| state.core.items().live(heading).cloned().collect::<Vec<_>>())?;
        Ok(live.into_iter().map(Item).collect())
    }

    /// Return the store as markdown in at most ``budget_tokens``; "" below a hundred.
    ///
    /// With the ``conversation``, it has the commands that were run and their outcomes. Names that were used in it,
    /// some with their lines, fill the remaining room, except names in the messages at the ``visible`` indices.
    #[pyo3(signature = (budget_tokens, *, conversation = None, visible = None))]
    fn render<'py>(
        &self,
        budget_tokens: &Bound<'py, PyAny>,
        conversation: Option<&Bound<'py, Conversation>>,
        visible: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyString>> {
        let _running = Running::begin();
        let (py, budget_tokens) = (budget_tokens.py(), whole("budget_tokens", budget_tokens)?);
        let Some(conversation) = conversation else { return self.markdown(py, budget_tokens, None) };
        let mut activity = Activity::default();
        let odd = |_| refused(py, "visible has a value that isn't an index of a message; pass whole numbers from 0 up");
        let visible = visible.map_or_else(|| Ok(FxHashSet::default()), |visible| indices_in(visible).map_err(odd))?;
        activity.add(py, conversation.get(), &visible)?;
        self.markdown(py, budget_tokens, Some(&mut activity))
    }

    /// Return what `render` does, by what happened in the conversation.
    fn render_with<'py>(
        &self,
        py: Python<'py>,
        mut activity: PyRefMut<'py, Activity>,
        budget_tokens: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyString>> {
        let _running = Running::begin();
        let budget_tokens = whole("budget_tokens", budget_tokens)?;
        self.markdown(py, budget_tokens, Some(&mut *activity))
    }

    /// Return a summary in which the names are marked that its sources do not have, with the items that must not be
    /// lost; the addition alone; and the marked names.
    ///
    /// ``sources`` are the texts that it summarises. They are only read if a name is not found. The store's items that
    /// it lacks are appended in at most ``max_tokens``, the strongest first; the rest becomes one line with handles.
    fn verified<'py>(
        &self,
        py: Python<'py>,
        summary: &Bound<'py, PyString>,
        sources: &Bound<'py, PyAny>,
        max_tokens: &Bound<'py, PyAny>,
    ) -> PyResult<Verified<'py>> {
        let _running = Running::begin();
        let max_tokens = whole("max_tokens", max_tokens)?;
        let (summary, counter) = (bytes_of(summary)?, counter(py)?);
        let summary: &[u8] = &summary;
        let mut invented = detached(py, || Ok(core::names_in(summary)))?;
        for source in sources.try_iter()? {
            if invented.is_empty() {
                break;
            }
            let source = source?.cast_into::<PyString>()?;
            let source = bytes_of(&source)?;
            invented.retain(|name| memchr::memmem::find(&source, name).is_none());
        }
        let added = self.with(py, |state| state.core.addition(summary, &invented, max_tokens, counter))?;
        let mut whole = summary[core::stripped(summary)].to_vec();
        if !added.is_empty() {
            whole.push(b'\n');
            whole.extend_from_slice(&added);
        }
        let invented = invented.iter().map(|name| string_of(py, name)).collect::<PyResult<_>>()?;
        Ok((string_of(py, &whole)?, string_of(py, &added)?, invented))
    }
}

fn as_operations(log: Vec<core::Operation>) -> Vec<Operation> {
    log.into_iter().map(Operation).collect()
}

/// Return a prompt that asks a model for changes to a store: ``items`` are the valid ones, and ``messages`` are new,
/// each with the index of its entry.
#[pyfunction]
pub fn proposal_prompt<'py>(
    items: Vec<Bound<'py, Item>>,
    messages: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyString>> {
    let _running = Running::begin();
    let items: Vec<&core::Item> = items.iter().map(|item| &*item.get().0).collect();
    string_of(messages.py(), &core::proposal_prompt(&items, &lines_of(messages, true)?))
}

/// Return a prompt that asks a model for a summary of messages, in addition to a `store` as markdown and the summary of
/// earlier messages.
#[pyfunction]
pub fn summary_prompt<'py>(
    messages: &Bound<'py, PyAny>,
    store: &Bound<'py, PyString>,
    previous: &Bound<'py, PyString>,
    max_tokens: i64,
) -> PyResult<Bound<'py, PyString>> {
    let _running = Running::begin();
    let mut lines = lines_of(messages, false)?;
    if !previous.is_empty()? {
        lines.insert(0, [b"summary of what came before: ", &*bytes_of(previous)?].concat());
    }
    string_of(messages.py(), &core::summary_prompt(&bytes_of(store)?, &lines, max_tokens))
}

/// The texts of messages as a model reads them: each with its speaker, and if `numbered`, after the number of its
/// entry.
#[pyfunction]
pub fn transcript_lines<'py>(messages: &Bound<'py, PyAny>, numbered: bool) -> PyResult<Vec<Bound<'py, PyString>>> {
    let _running = Running::begin();
    lines_of(messages, numbered)?.iter().map(|line| string_of(messages.py(), line)).collect()
}

/// Lines in a fence that says that they are data. If there are very many, the middle is left out.
#[pyfunction]
pub fn fenced<'py>(py: Python<'py>, name: &str, lines: Vec<Bound<'py, PyString>>) -> PyResult<Bound<'py, PyString>> {
    let _running = Running::begin();
    let lines = lines.iter().map(|line| Ok(bytes_of(line)?.into_owned())).collect::<PyResult<Vec<_>>>()?;
    string_of(py, &core::fenced(name, &lines, MAX_TRANSCRIPT))
}

fn counter(py: Python<'_>) -> PyResult<Counter> {
    detached(py, || named(COUNTER))
}
