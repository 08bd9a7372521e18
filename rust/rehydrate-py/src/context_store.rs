//! The context store of a thread, for Python: messages and operations in, operations, items and markdown out.
mod answers;
mod subjects;
mod values;

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use rehydrate_core::context_store::{self as core, About, Operation, Said, SaidPiece, Span, byte_of, commands_of};
use rehydrate_core::conversation::{PieceKind, Role};
use rehydrate_core::tokens::Counter;
use rustc_hash::{FxHashMap, FxHashSet};

use self::answers::proposals_in;
use self::subjects::Tools;
use self::values::{Make, operation, span};
use crate::convert::{bytes_of, string_of};
use crate::errors::detached;
use crate::outline::NameIndex;
use crate::reading::{Id, kind_of, role_named};
use crate::tokens::named;

/// The encoding in which a store's budget is counted.
const COUNTER: &str = "o200k_base";

/// What a thread must not lose.
///
/// Its lock is only taken without the interpreter: who waits for it holds up nobody.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct ContextStore(Mutex<core::ContextStore>);

impl ContextStore {
    /// A call that is interrupted leaves whole operations.
    fn core(&self) -> MutexGuard<'_, core::ContextStore> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The operations from this number on.
    fn log(&self, py: Python<'_>, start: usize) -> PyResult<Vec<Operation>> {
        detached(py, || Ok(self.core().items().log().get(start..).unwrap_or_default().to_vec()))
    }
}

#[pymethods]
impl ContextStore {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// How many operations there are.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || Ok(self.core().items().log().len()))
    }

    /// The operations from this number on.
    fn operations<'py>(&self, py: Python<'py>, start: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let log = self.log(py, start)?;
        let make = Make::new(py)?;
        log.iter().map(|operation| make.operation(operation)).collect()
    }

    /// The same as they are written.
    fn written<'py>(&self, py: Python<'py>, start: usize) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.log(py, start)?.iter().map(|operation| values::written(py, operation)).collect()
    }

    /// Forget all but the first operations, so many.
    fn back_to(&self, py: Python<'_>, operations: usize) -> PyResult<()> {
        detached(py, || {
            self.core().back_to(operations);
            Ok(())
        })
    }

    /// Let nothing hold that these entries gave rise to.
    fn leave_out(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        let entries = numbers(entries)?;
        detached(py, || {
            self.core().leave_out(entries);
            Ok(())
        })
    }

    /// The store as it was before an entry was read.
    fn before(&self, py: Python<'_>, entry: i64) -> PyResult<Self> {
        detached(py, || Ok(Self(Mutex::new(self.core().before(entry)))))
    }

    /// Apply operations that were written before; their items' texts are in these messages.
    fn replay(&self, py: Python<'_>, written: &Bound<'_, PyAny>, messages: &Bound<'_, PyAny>) -> PyResult<()> {
        let messages = Message::all(messages, None)?;
        let by_entry: FxHashMap<i64, &Message> = messages.iter().map(|message| (message.entry, message)).collect();
        let text_of = |span: &Span| by_entry.get(&span.entry).and_then(|message| message.text_at(span));
        let read = |one: PyResult<Bound<'_, PyAny>>| operation(&one?, |span| text_of(span).unwrap_or_default().into());
        let operations = written.try_iter()?.map(read).collect::<PyResult<Vec<_>>>()?;
        detached(py, || {
            self.core().replay(operations);
            Ok(())
        })
    }

    /// Read new messages, in order; `tools` are those that are known.
    fn read(&self, py: Python<'_>, messages: &Bound<'_, PyAny>, tools: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut messages = Message::all(messages, Some(tools))?;
        detached(py, || {
            self.core().read(messages.iter_mut().map(Message::said).collect());
            Ok(())
        })
    }

    /// Note the calls in messages that were read before.
    fn note_calls(&self, py: Python<'_>, messages: &Bound<'_, PyAny>, tools: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut messages = Message::all(messages, Some(tools))?;
        detached(py, || {
            self.core().note_calls(messages.iter_mut().map(Message::said).collect());
            Ok(())
        })
    }

    /// Apply what holds of at most so many of the proposals in an answer; why the others are refused, and how many lines are
    /// no proposals.
    ///
    /// `shown` are the spans, by id, of the items that the model was asked about; `messages` are the new ones.
    fn propose(
        &self,
        py: Python<'_>,
        answer: &Bound<'_, PyString>,
        shown: &Bound<'_, PyDict>,
        messages: &Bound<'_, PyAny>,
        most: usize,
    ) -> PyResult<(Vec<String>, usize)> {
        let (proposals, unreadable) = proposals_in(answer)?;
        let shown = shown.iter().map(|(id, place)| Ok((id.extract()?, span(&place)?)));
        let shown = shown.collect::<PyResult<FxHashMap<_, _>>>()?;
        let mut messages = Message::all(messages, None)?;
        let refused = detached(py, || {
            let messages = messages.iter_mut().map(Message::said).collect();
            Ok(self.core().propose(&proposals, shown, messages, most))
        })?;
        Ok((refused.into_iter().map(|why| why.words(most)).collect(), unreadable))
    }

    /// Lines of what must not be lost and is not in a text, as many as fit into so many tokens; the others become one line of
    /// handles.
    fn missing<'py>(&self, text: &Bound<'py, PyString>, room: i64) -> PyResult<Vec<Bound<'py, PyString>>> {
        let py = text.py();
        let (text, counter) = (bytes_of(text)?, counter(py)?);
        let text: &[u8] = &text;
        let lines = detached(py, || Ok(self.core().missing(text, room, counter)))?;
        lines.iter().map(|line| string_of(py, line)).collect()
    }

    /// All items, or those of a heading that hold.
    fn items<'py>(&self, py: Python<'py>, heading: Option<&str>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let heading = heading.map(values::heading).transpose()?;
        let items = detached(py, || {
            let core = self.core();
            let items = core.items();
            Ok(match heading {
                None => items.all().to_vec(),
                Some(heading) => items.live(heading).cloned().collect(),
            })
        })?;
        let make = Make::new(py)?;
        items.iter().map(|item| make.item(item)).collect()
    }

    /// The store as markdown: `room` is for what it has itself; with an index, names take what `budget` leaves.
    ///
    /// It has what the commands in `messages` came to, but for those whose result is in a `visible` entry.
    #[expect(clippy::too_many_arguments, reason = "what is told of a thread")]
    fn render<'py>(
        &self,
        py: Python<'py>,
        budget: i64,
        room: i64,
        messages: &Bound<'py, PyAny>,
        visible: &Bound<'py, PyAny>,
        tools: &Bound<'py, PyDict>,
        names: Option<PyRefMut<'py, NameIndex>>,
    ) -> PyResult<Bound<'py, PyString>> {
        let mut messages = Message::all(messages, Some(tools))?;
        let visible = numbers(visible)?;
        let counter = counter(py)?;
        let markdown = detached(py, || {
            let messages: Vec<Said<'_>> = messages.iter_mut().map(Message::said).collect();
            let commands = commands_of(&messages, &visible);
            Ok(self.core().render(room, &commands, counter))
        })?;
        let text = string_of(py, &markdown.text())?;
        let Some(mut names) = names else { return Ok(text) };
        let left = detached(py, || Ok(markdown.room_for_names(budget)))?;
        names.add_visible(text)?;
        string_of(py, &markdown.with_names(&names.written(py, left, counter)?))
    }
}

/// The names, paths and numbers in a summary that its source does not have, each once.
#[pyfunction]
pub fn invented<'py>(
    summary: &Bound<'py, PyString>,
    source: &Bound<'py, PyString>,
) -> PyResult<Vec<Bound<'py, PyString>>> {
    let py = summary.py();
    let (summary, source) = (bytes_of(summary)?, bytes_of(source)?);
    let (summary, source): (&[u8], &[u8]) = (&summary, &source);
    detached(py, || Ok(core::invented(summary, source)))?.iter().map(|name| string_of(py, name)).collect()
}

/// The texts of messages as a model reads them: each with who said it, and `numbered` with the number of its entry before.
#[pyfunction]
pub fn transcript_lines<'py>(messages: &Bound<'py, PyAny>, numbered: bool) -> PyResult<Vec<Bound<'py, PyString>>> {
    let mut lines = Vec::new();
    for message in messages.try_iter()? {
        let message = message?;
        let number = if numbered { format!("#{} ", message.get_item(0)?) } else { String::new() };
        for piece in message.get_item(2)?.try_iter()? {
            let (text, kind): (Bound<'py, PyString>, Bound<'py, PyAny>) = piece?.extract()?;
            let text = bytes_of(&text)?;
            let (who, said) = match kind_of(kind.extract()?)? {
                PieceKind::Text => (message.get_item(1)?.cast_into::<PyString>()?, core::quoted(&text)),
                PieceKind::ToolInput => (PyString::new(messages.py(), "call"), core::quoted(&core::shortened(&text))),
                PieceKind::ToolResult => {
                    (PyString::new(messages.py(), "result"), core::quoted(&core::shortened(&text)))
                }
                PieceKind::Thinking => continue,
            };
            let line = [number.as_bytes(), &bytes_of(&who)?, b": ", &said].concat();
            lines.push(string_of(messages.py(), &line)?);
        }
    }
    Ok(lines)
}

fn counter(py: Python<'_>) -> PyResult<Counter> {
    detached(py, || named(COUNTER))
}

fn numbers(entries: &Bound<'_, PyAny>) -> PyResult<FxHashSet<i64>> {
    entries.try_iter()?.map(|entry| entry?.extract()).collect()
}

/// A `Message`, as it is read.
struct Message {
    entry: i64,
    role: Role,
    pieces: Vec<(Id, PieceKind, Vec<About>)>,
    calls: Vec<Id>,
    answers: Vec<Id>,
    is_user_turn: bool,
}

impl Message {
    /// With `tools`, what their calls are about is read too.
    fn all<'py>(messages: &Bound<'py, PyAny>, tools: Option<&Bound<'py, PyDict>>) -> PyResult<Vec<Self>> {
        let tools = tools.map(Tools::new);
        messages.try_iter()?.map(|message| Self::of(message?.cast::<PyTuple>()?, tools.as_ref())).collect()
    }

    fn of<'py>(message: &Bound<'py, PyTuple>, tools: Option<&Tools<'py>>) -> PyResult<Self> {
        let mut pieces = Vec::new();
        for piece in message.get_item(2)?.cast::<PyTuple>()? {
            let piece = piece.cast::<PyTuple>()?;
            let text = piece.get_item(0)?.cast_into::<PyString>()?;
            let kind = kind_of(piece.get_item(1)?.extract()?)?;
            let about = match tools.filter(|_| kind == PieceKind::ToolInput) {
                Some(tools) => tools.subjects(&text)?,
                None => Vec::new(),
            };
            pieces.push((Id::of(text)?, kind, about));
        }
        let ids = |field| -> PyResult<Vec<Id>> {
            let ids = message.get_item(field)?;
            ids.cast::<PyTuple>()?.iter().map(|id| Id::of(id.cast_into::<PyString>()?)).collect()
        };
        let role = message.get_item(1)?;
        Ok(Self {
            entry: message.get_item(0)?.extract()?,
            role: role.cast::<PyString>()?.to_str().map_or(Role::Other, role_named),
            pieces,
            calls: ids(4)?,
            answers: ids(5)?,
            is_user_turn: message.get_item(6)?.is_truthy()?,
        })
    }

    /// The text of a span; None where the message has another text there.
    fn text_at(&self, span: &Span) -> Option<&[u8]> {
        let (text, ..) = self.pieces.get(usize::try_from(span.piece).ok()?)?;
        let text = text.as_bytes();
        let [start, end] =
            [span.start, span.end].map(|place| byte_of(text, usize::try_from(place).unwrap_or_default()));
        let text = text.get(start..end)?;
        (core::digest(text) == span.digest).then_some(text)
    }

    /// It for the core, which takes what its calls are about.
    fn said(&mut self) -> Said<'_> {
        let Self { entry, role, pieces, calls, answers, is_user_turn } = self;
        let pieces = pieces.iter_mut().map(|(text, kind, about)| SaidPiece {
            text: text.as_bytes(),
            kind: *kind,
            about: std::mem::take(about),
        });
        Said {
            entry: *entry,
            role: *role,
            pieces: pieces.collect(),
            calls: calls.iter().map(Id::as_bytes).collect(),
            answers: answers.iter().map(Id::as_bytes).collect(),
            is_user_turn: *is_user_turn,
        }
    }
}
