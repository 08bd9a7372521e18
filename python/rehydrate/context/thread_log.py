"""ThreadLog: writes what changed in a thread to its store, and takes back what nobody received."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate.context.thread_records import Kind, Record, state_record
from rehydrate.errors import StoreClosedError
from rehydrate.prompt.serialize import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rehydrate.context.context_store.store import ContextStore
    from rehydrate.context.history import Entries
    from rehydrate.context.prompt_state import PromptState
    from rehydrate.context.thread_originals import Remainders, ThreadOriginals
    from rehydrate.memory.store import ThreadStore
    from rehydrate.prompt.section import Section


class LogMark(NamedTuple):
    """The end of a log at one time, and what it told then."""

    records: int
    entries: int
    state: PromptState
    waiting: Mapping[str, tuple[Section, ...]]
    operations: int
    """Of the context store."""


class ThreadLog:
    """The log of one stored thread. Hold the thread's lock to use it.

    `save` writes all that is new in one transaction, so that a kill at any point leaves the thread
    as it was before a call or after it. Where another process wrote to the thread meanwhile, it
    raises StoreConflictError and writes nothing.
    """

    def __init__(
        self,
        store: ThreadStore,
        namespace: str,
        name: str,
        *,
        mark: LogMark,
        originals: ThreadOriginals | None,
        remainders: Remainders,
        saves_entries: bool,
        clock: Callable[[], float],
        header: Record | None,
    ) -> None:
        """Go on from what the store has; a new thread begins with its ``header``.

        With ``saves_entries`` each `Context.add` is on disk when it returns, otherwise each turn.
        """
        self.namespace = namespace
        self.name = name
        self.saves_entries = saves_entries
        self.store = store
        self._mark = mark
        self._originals = originals
        self._remainders = remainders
        self._clock = clock
        self._header = header
        self._rows: list[tuple[int, float, str]] = []
        """The last records that were to be written."""
        self.is_closed = False
        self._doubt: LogMark | None = None
        """Where the thread is, after a call that failed or was interrupted: the store may have
        more."""

    @property
    def mark(self) -> LogMark:
        """The end of what is written."""
        return self._mark if self._doubt is None else self._doubt

    def save(
        self,
        entries: Entries,
        state: PromptState,
        waiting: Mapping[str, tuple[Section, ...]],
        store: ContextStore,
    ) -> None:
        """Write what is new since the last call: all of it, or nothing.

        Raises StoreError, and UnreadableIRError for an entry that JSON cannot hold.
        """
        self._check_open()
        self._settle_doubt()
        mark, now = self._mark, self._clock()
        records = [] if self._header is None else [self._header]
        for index in range(mark.entries, len(entries)):
            entry = plain(entries.at(index), f"history[{index}]")
            content = {"entry": entry, "tokens": entries.tokens_at(index)}
            records.append(Record(Kind.ENTRY, entries.seconds_at(index), content))
        originals = {} if self._originals is None else self._originals.unsaved()
        for handle, text in originals.items():
            records.append(Record(Kind.ORIGINAL, now, {"handle": handle, "text": text}))
        remainders = self._remainders.unsaved()
        for handle, sections in remainders.items():
            content = {"handle": handle, "sections": plain(sections, handle)}
            records.append(Record(Kind.REMAINDER, now, content))
        if state is not mark.state:
            records.append(state_record(state, mark.state, entries, now))
        if waiting != mark.waiting:
            content = {"waiting": plain(waiting, "waiting")}
            records.append(Record(Kind.WAITING, now, content))
        operations = [one.to_dict() for one in store.operations[mark.operations :]]
        if operations:
            content = {"operations": operations, "seen": store.seen}
            records.append(Record(Kind.OPERATIONS, now, content))
        if len(records) == (self._header is not None):
            return
        written = self._append(records)
        self._mark = LogMark(written, len(entries), state, dict(waiting), len(store.operations))
        if self._originals is not None:
            self._originals.note_saved(originals)
        self._remainders.note_saved(remainders)

    def close(self) -> None:
        """Write nothing more: whatever comes is refused, so that another `Context` may go on."""
        self.is_closed = True

    def save_summary(self, content: dict[str, Any]) -> None:
        """Write a summary that is ready to be swapped in."""
        self._check_open()
        self._settle_doubt()
        written = self._append([Record(Kind.SUMMARY, self._clock(), content)])
        self._mark = self._mark._replace(records=written)

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
        """Take back what was written since the mark in doubt, if it was."""
        mark, known = self._doubt, self._mark.records
        if mark is None:
            return
        found = self.store.thread(self.namespace, self.name)
        has = 0 if found is None else found[3]
        if has > mark.records:
            since = self.store.records(self.namespace, self.name, start=mark.records)
            if has == known or since == self._rows:
                self._header = None
                self._mark = mark._replace(records=has)
                undo = Record(Kind.UNDO, self._clock(), {"to": max(mark.records, 1)})
                mark = mark._replace(records=self._append([undo]))
        # Where others wrote, the next record is refused.
        self._mark, self._doubt = mark, None

    def _append(self, records: list[Record]) -> int:
        """Write the records, and return how many the thread has then."""
        self._rows = [(int(record.kind), record.time, record.body()) for record in records]
        number = self._mark.records
        self.store.append_records(self.namespace, self.name, number, self._rows)
        self._header = None
        return number + len(records)
