//! The context store of a thread, for Python: messages and operations in, operations, items and markdown out.
mod told;
mod values;

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use rehydrate_core::context_store::{self as core, About, Items, OperationKind, Proposal, Said, SaidPiece};
use rehydrate_core::conversation::{PieceKind, Role};
use rehydrate_core::tokens::Counter;
use rustc_hash::{FxHashMap, FxHashSet};

pub use self::told::Told;
use self::values::{Make, operation, raw, span, whole};
use crate::convert::{bytes_of, string_of};
use crate::errors::detached;
use crate::reading::{Id, Source, kind_of, role_named};
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
}

#[pymethods]
impl ContextStore {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// The operations from a number to another, or to the last.
    fn operations<'py>(&self, py: Python<'py>, start: usize, end: Option<usize>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let log = detached(py, || {
            let core = self.core();
            let log = core.items().log();
            let end = end.map_or(log.len(), |end| end.min(log.len()));
            Ok(log.get(start..end).unwrap_or_default().to_vec())
        })?;
        let make = Make::new(py)?;
        log.iter().map(|operation| make.operation(operation)).collect()
    }

    /// How many operations there are.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || Ok(self.core().items().log().len()))
    }

    /// Begin again with the first operations, so many; those of the entries `left_out` change nothing. Calls that wait for
    /// their results stay.
    fn begin_again(&self, py: Python<'_>, operations: usize, left_out: &Bound<'_, PyAny>) -> PyResult<()> {
        let left_out = entries(left_out)?;
        detached(py, || {
            let mut core = self.core();
            let log = core.items().log();
            let items = Items::new(log[..operations.min(log.len())].to_vec(), &left_out);
            core.begin_again(items);
            Ok(())
        })
    }

    /// A store with those of the first operations, so many, that are of earlier entries than this one.
    fn as_of(&self, py: Python<'_>, entry: i64, operations: usize, left_out: &Bound<'_, PyAny>) -> PyResult<Self> {
        let left_out = entries(left_out)?;
        detached(py, || {
            let log = self.core().items().log().iter().take(operations).cloned().collect::<Vec<_>>();
            let mut then = core::ContextStore::default();
            then.begin_again(Items::new(log.into_iter().filter(|one| one.entry < entry).collect(), &left_out));
            Ok(Self(Mutex::new(then)))
        })
    }

    /// Apply operations that were written before.
    fn replay(&self, py: Python<'_>, operations: Vec<Bound<'_, PyTuple>>) -> PyResult<()> {
        let operations = operations.iter().map(operation).collect::<PyResult<Vec<_>>>()?;
        detached(py, || {
            self.core().replay(operations);
            Ok(())
        })
    }

    /// Read new messages, in order; `subjects` says what a call's input is about.
    fn read(&self, py: Python<'_>, messages: &Bound<'_, PyAny>, subjects: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut messages = Message::all(messages, Some(subjects))?;
        detached(py, || {
            self.core().read(messages.iter_mut().map(Message::said).collect());
            Ok(())
        })
    }

    /// Note the calls in messages that were read before.
    fn note_calls(&self, py: Python<'_>, messages: &Bound<'_, PyAny>, subjects: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut messages = Message::all(messages, Some(subjects))?;
        detached(py, || {
            self.core().note_calls(messages.iter_mut().map(Message::said).collect());
            Ok(())
        })
    }

    /// Apply what holds of at most so many proposals; the names of why the others are refused.
    ///
    /// `shown` are the spans, by id, of the items that the model was asked about; `messages` are the new ones.
    fn propose(
        &self,
        py: Python<'_>,
        proposals: &Bound<'_, PyAny>,
        shown: &Bound<'_, PyDict>,
        messages: &Bound<'_, PyAny>,
        most: usize,
    ) -> PyResult<Vec<&'static str>> {
        let proposals =
            proposals.try_iter()?.map(|one| proposal(one?.cast::<PyTuple>()?)).collect::<PyResult<Vec<_>>>()?;
        let shown = shown.iter().map(|(id, place)| Ok((id.extract()?, span(&place)?)));
        let shown = shown.collect::<PyResult<FxHashMap<_, _>>>()?;
        let mut messages = Message::all(messages, None)?;
        detached(py, || {
            let messages = messages.iter_mut().map(Message::said).collect();
            let refused = self.core().propose(&proposals, shown, messages, most);
            Ok(refused.into_iter().map(core::Refusal::name).collect())
        })
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

    /// The store as markdown: `room` is for what it has itself and for what commands came to; names take what `budget` leaves.
    fn render<'py>(
        &self,
        py: Python<'py>,
        budget: i64,
        room: i64,
        told: Option<PyRefMut<'py, Told>>,
    ) -> PyResult<Bound<'py, PyString>> {
        let counter = counter(py)?;
        let Some(mut told) = told else {
            let markdown = detached(py, || Ok(self.core().render(room, &[], counter)))?;
            return string_of(py, &markdown.text());
        };
        let told = &mut *told;
        let (markdown, left) = detached(py, || {
            let markdown = self.core().render(room, &told.commands.ran(&told.visible), counter);
            let left = markdown.room_for_names(budget);
            Ok((markdown, left))
        })?;
        let text = Source::of(string_of(py, &markdown.text())?)?;
        string_of(py, &markdown.with_names(&told.names(py, text.as_str(), left, counter)?))
    }
}

/// The entries in what Python gives.
fn entries(given: &Bound<'_, PyAny>) -> PyResult<FxHashSet<i64>> {
    given.try_iter()?.map(|entry| entry?.extract()).collect()
}

/// Of lines, each with its entry, those that fit into so many tokens; the others become one line of handles.
#[pyfunction]
pub fn lines_within<'py>(
    py: Python<'py>,
    room: i64,
    lines: Vec<(i64, Bound<'py, PyString>)>,
) -> PyResult<Vec<Bound<'py, PyString>>> {
    let lines = lines.iter().map(|(entry, line)| Ok((*entry, bytes_of(line)?.into()))).collect::<PyResult<Vec<_>>>()?;
    let counter = counter(py)?;
    let shown = detached(py, || Ok(core::within(room, &lines, counter)))?;
    shown.iter().map(|line| string_of(py, line)).collect()
}

/// 64 bits of a text, hexadecimal.
#[pyfunction]
pub fn digest(text: &Bound<'_, PyString>) -> PyResult<String> {
    Ok(core::digest(&bytes_of(text)?))
}

/// What two sayings of one thing share.
#[pyfunction]
pub fn key_of<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    string_of(text.py(), &core::key_of(&bytes_of(text)?))
}

fn counter(py: Python<'_>) -> PyResult<Counter> {
    detached(py, || named(COUNTER))
}

fn proposal(proposal: &Bound<'_, PyTuple>) -> PyResult<Proposal> {
    Ok(Proposal {
        kind: values::named(&OperationKind::ALL, OperationKind::name, &proposal.get_item(0)?)?,
        item: whole(&proposal.get_item(1)?)?,
        entry: whole(&proposal.get_item(2)?)?,
        heading: raw(&proposal.get_item(3)?)?,
        quote: raw(&proposal.get_item(4)?)?,
    })
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
    fn all(messages: &Bound<'_, PyAny>, subjects: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Self>> {
        messages.try_iter()?.map(|message| Self::of(message?.cast::<PyTuple>()?, subjects)).collect()
    }

    fn of(message: &Bound<'_, PyTuple>, subjects: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut pieces = Vec::new();
        for piece in message.get_item(2)?.cast::<PyTuple>()? {
            let piece = piece.cast::<PyTuple>()?;
            let (text, kind) = (piece.get_item(0)?, kind_of(piece.get_item(1)?.extract()?)?);
            let about = match subjects.filter(|_| kind == PieceKind::ToolInput) {
                Some(subjects) => subjects.call1((&text,))?.try_iter()?.map(|one| about(&one?)).collect(),
                None => Ok(Vec::new()),
            };
            pieces.push((Id::of(text.cast_into::<PyString>()?)?, kind, about?));
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

fn about(subject: &Bound<'_, PyAny>) -> PyResult<About> {
    let subject = subject.cast::<PyTuple>()?;
    Ok(About { used: raw(&subject.get_item(0)?)?, text: raw(&subject.get_item(1)?)? })
}
