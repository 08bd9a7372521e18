"""Log: writes a thread's changes to its store, and takes back what nobody received.

It also keeps, by handle: EntryOriginals, full texts of entries that are shown in part, and
RemainderStore, sections that an answer had no room for.

The record of a state names only changes since the one before, so a turn's record does not grow
with the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rehydrate import _native
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import REMAINDER_PREFIX, handle_of_text
from rehydrate.context.records import Kind, Record, Row, header
from rehydrate.errors import StoreClosedError, StoreConflictError, UnknownHandleError
from rehydrate.prompt.originals import About
from rehydrate.prompt.section import Section
from rehydrate.prompt.serialize import plain

if TYPE_CHECKING:
    from rehydrate.context.history import Entries, PromptState, Waiting
    from rehydrate.memory.store import ThreadStore


class Snapshot(NamedTuple):
    """A thread at one time."""

    entries: int
    """The number of its entries."""
    state: PromptState
    waiting: Waiting
    store: tuple[int, int]
    """The mark of its context store: how many operations there were, and entries it had read."""


class Logged(Protocol):
    """The parts of a `Thread` that are written."""

    entries: Entries
    state: PromptState
    waiting: Waiting
    store: _native.ContextStore
    remainders: RemainderStore

    def snapshot(self) -> Snapshot:
        """Return the thread as it is now."""


LogMark = tuple[int, Snapshot]
"""The end of a log at one time: its number of records, and what of the thread was in them."""


class Log:
    """The log of one stored thread. Hold the thread's lock to use it.

    `save` writes all that is new in one transaction, so that a kill at any point leaves the thread
    as it was before a call or after it. If another process wrote to the thread meanwhile, it
    raises StoreConflictError and writes nothing.
    """

    def __init__(
        self,
        store: ThreadStore,
        namespace: str,
        name: str,
        thread: Logged,
        records: int,
        *,
        originals: EntryOriginals | None,
        saves_entries: bool,
        clock: Callable[[], float],
    ) -> None:
        """Go on from what the store has of the thread, in this many records.

        With ``saves_entries`` each `Context.add` is on disk when it returns, otherwise each turn.
        """
        self.namespace = namespace
        self.name = name
        self.saves_entries = saves_entries
        self.store = store
        self._mark: LogMark = records, thread.snapshot()
        self._saved_remainders = set(thread.remainders)
        self._originals = originals
        self._clock = clock
        found = store.thread(namespace, name) if records else None
        self._created = None if found is None else found[1]
        """The time at which the thread was begun, to recognise another one of the same name."""
        self._rows: list[Row] = []
        """The last records that were to be written."""
        self.is_closed = False
        thread.entries.is_stored = True
        self._doubt: LogMark | None = None
        """The state of the thread after a call that failed or was interrupted: the store may have
        more."""

    @property
    def records(self) -> int:
        """The number of written records."""
        return self.mark[0]

    @property
    def mark(self) -> LogMark:
        """The end of the written records."""
        return self._mark if self._doubt is None else self._doubt

    def save(self, thread: Logged) -> None:
        """Write what is new since the last call: all of it, or nothing.

        Raises StoreError, and UnreadableIRError for an entry that JSON cannot hold.
        """
        self._check_open()
        self._settle_doubt()
        (_, saved), now = self._mark, self._clock()
        entries, state, waiting, store = thread.entries, thread.state, thread.waiting, thread.store
        begun = [] if self.records else [header(entries.format)]
        records = [*begun, *entries.records_from(saved.entries)]
        originals = {} if self._originals is None else self._originals.unsaved(saved.entries)
        for handle, text in originals.items():
            records.append(Record(Kind.ORIGINAL, now, {"handle": handle, "text": text}))
        remainders = dict(thread.remainders)
        for handle, sections in remainders.items():
            if handle not in self._saved_remainders:
                content = {"handle": handle, "sections": plain(sections, handle)}
                records.append(Record(Kind.REMAINDER, now, content))
        if state is not saved.state:
            content = _native.state_content(state, saved.state, entries)
            records.append(Record(Kind.STATE, now, content))
        if waiting != saved.waiting:
            content = {"waiting": plain(waiting, "waiting")}
            records.append(Record(Kind.WAITING, now, content))
        if operations := store.written_since(saved.store[0]):
            content = {"operations": operations, "seen": store.seen}
            records.append(Record(Kind.OPERATIONS, now, content))
        if len(records) == len(begun):
            return
        self._mark = self._append([record.row for record in records]), thread.snapshot()
        if self._originals is not None:
            self._originals.note_saved(originals)
        self._saved_remainders = set(remainders)

    def close(self) -> None:
        """Write nothing more: whatever comes is refused, so that another `Context` may go on."""
        self.is_closed = True

    def save_summary(self, content: dict[str, Any]) -> None:
        """Write a summary that is ready to be swapped in."""
        self._check_open()
        self._settle_doubt()
        summary = Record(Kind.SUMMARY, self._clock(), content)
        self._mark = self._append([summary.row]), self._mark[1]

    def undo(self, mark: LogMark) -> None:
        """Take back all that was written since the mark."""
        self.doubt(mark)
        self._settle_doubt()

    def doubt(self, mark: LogMark) -> None:
        """Note that the thread is as it was at the mark, whatever was written since."""
        if self._doubt is None:
            self._doubt = mark

    def _check_open(self) -> None:
        if self.is_closed:
            raise StoreClosedError(
                self.store.path,
                f"the Context of thread {self.name!r} was closed",
                "open it again with Context(threads=..., thread=...)",
            )

    def _settle_doubt(self) -> None:
        """Take back what was written since the mark in doubt, if it was.

        The texts that are kept by handle are written again: they are in memory still, and a prompt
        to come may name them.
        """
        mark, known = self._doubt, self._mark[0]
        if mark is None:
            return
        records, was = mark
        found = self.store.thread(self.namespace, self.name)
        is_other = found is None or self._created not in {None, found[1]}
        has = 0 if found is None or is_other else found[3]
        if has > records:
            since = self.store.records(self.namespace, self.name, start=records)
            if has == known or [*since[known - records :]] == self._rows:
                self._mark = has, was
                undo = Record(Kind.UNDO, self._clock(), {"to": max(records, 1)})
                texts = [row for row in since if row[0] in (Kind.ORIGINAL, Kind.REMAINDER)]
                mark = self._append([undo.row, *texts]), was
        # If others wrote, the next record is refused.
        self._mark, self._doubt = mark, None

    def _append(self, rows: list[Row]) -> int:
        """Write the records, and return how many the thread has then."""
        self._rows = rows
        number = self._mark[0]
        _, created, _, there, _ = self.store.append_records(self.namespace, self.name, number, rows)
        if self._created not in {None, created}:
            undo = Record(Kind.UNDO, self._clock(), {"to": max(number, 1)})
            self.store.append_records(self.namespace, self.name, there, [undo.row])
            raise StoreConflictError(
                self.store.path,
                f"thread {self.name!r} was purged, and begun again by others",
                "open it again with Context(threads=..., thread=...)",
            )
        self._created = created
        return there


MAX_REMAINDERS = 16
"""The oldest go first. Their sections can be found again by asking again."""


class RemainderStore(dict[str, tuple[Section, ...]]):
    """Sections by handle, the oldest first."""

    def put(self, sections: Sequence[Section]) -> str:
        """Keep sections in their order and return their handle; the same ones have the same.

        >>> RemainderStore().put([])
        'rest_7d64c5272e'
        """
        named = "\0".join(f"{section.id}\0{section.content}" for section in sections)
        hashed = blake2b(named.encode("utf-8", "surrogatepass"), digest_size=5)
        handle = REMAINDER_PREFIX + hashed.hexdigest()
        self.pop(handle, None)  # to the end; a call at the same time misses it at worst
        self.take({handle: tuple(sections)})
        return handle

    def take(self, others: Mapping[str, tuple[Section, ...]]) -> None:
        """Keep others too; the oldest go."""
        self.update(others)
        for handle in list(self)[:-MAX_REMAINDERS]:
            self.pop(handle, None)


_LEAST_CHARACTERS = 64
"""No shorter text is shown in part."""


class EntryOriginals:
    """The originals of one stored thread, for any number of threads of the process.

    Most texts that are shortened are texts of the thread's own entries. They are not stored again:
    they are found by their hashes, which are made when somebody asks for one. Any other text is
    `unsaved` until the thread's log has it.
    """

    def __init__(self, entries: Entries, stored: Mapping[str, str]) -> None:
        """Take the entries, and the texts that the log has, by handle."""
        self._entries = entries
        self._stored = dict(stored)
        self._unsaved: dict[str, str] = {}
        self._hashed: list[Any] = []
        """The entries whose texts have a place."""
        self._places: dict[str, tuple[int, int]] = {}
        """By the handle of an entry's text: the entry's index and the number among its texts."""
        self._lock = ForkSafeLock()

    def put(self, text: str, /, *, about: About = About()) -> str:  # noqa: ARG002, B008
        """Keep the text and return its handle; the same text has the same handle."""
        handle = handle_of_text(text)
        with self._lock:
            if handle not in self._stored:
                self._unsaved[handle] = text
        return handle

    def get(self, handle: str, /) -> str:
        """Return the text, byte for byte; raises UnknownHandleError for a handle not given out."""
        with self._lock:
            text = self._stored.get(handle) or self._unsaved.get(handle)
            if text is None:
                self._hash_new_entries()
                if (place := self._places.get(handle)) is None:
                    raise UnknownHandleError(handle, "originals")
                index, number = place
                text = next(islice(self._texts_of(index), number, None))
        return text

    def unsaved(self, received: int) -> dict[str, str]:
        """Return the texts that a log must have for their handles to work after a restart.

        Texts of the first ``received`` entries need no copy: these are never undone.
        """
        with self._lock:
            if self._unsaved:
                self._hash_new_entries()
            found = self._places.keys() & self._unsaved.keys()
            for handle in found:
                if self._places[handle][0] < received:
                    del self._unsaved[handle]
            return {each: text for each, text in self._unsaved.items() if each not in found}

    def note_saved(self, saved: Mapping[str, str]) -> None:
        """Note that the log has these texts."""
        with self._lock:
            self._stored |= saved
            for handle in saved:
                self._unsaved.pop(handle, None)

    def _hash_new_entries(self) -> None:
        entries = self._entries.all()
        same = self._entries.shared_with(self._hashed, 0, is_)
        if same < len(self._hashed):  # a prompt that nobody received was undone
            self._places = {each: at for each, at in self._places.items() if at[0] < same}
        for index in range(same, len(entries)):
            for number, text in enumerate(self._texts_of(index)):
                self._places.setdefault(handle_of_text(text), (index, number))
        self._hashed = entries

    def _texts_of(self, index: int) -> Iterator[str]:
        for message in self._entries.at_indices([index]).messages:
            for piece in message.pieces:
                if len(piece.text) >= _LEAST_CHARACTERS:
                    yield piece.text
