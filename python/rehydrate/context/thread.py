"""Thread: one conversation's entries, what its last prompt left behind, and a way back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rehydrate._concurrency.hybrid_lock import HybridLock
from rehydrate.context.context_store.store import ContextStore, StoreMark
from rehydrate.context.history import Entries, PartlyShownTexts
from rehydrate.context.prompt_state import LateBinding, PromptState
from rehydrate.context.thread_originals import Remainders
from rehydrate.entry_id import EntryId
from rehydrate.prompt.splicing import visible_items

if TYPE_CHECKING:
    from typing import Any

    from rehydrate.context.thread_log import LogMark, ThreadLog
    from rehydrate.formats.calls import ToolCall
    from rehydrate.prompt.sources.conversation import PartlyShown


class Snapshot(NamedTuple):
    """A thread as it was before a prompt."""

    entries: int
    """How many there were."""
    state: PromptState
    late: LateBinding
    store: StoreMark
    log: LogMark | None


class PromptCall:
    """One call of `Context.prompt`: whether its caller still waits, and the thread before it.

    A cancelled coroutine leaves a worker thread behind, which makes its prompt to the end. The
    coroutine only marks the call as given up and waits for nothing. The next call on the context
    holds the lock and restores the snapshot, unless something came after the prompt.
    """

    __slots__ = ("before", "is_given_up")

    def __init__(self) -> None:
        """Its caller waits; it has not begun."""
        self.before: Snapshot | None = None
        self.is_given_up = False


class ToolHandler(Protocol):
    """Answers calls of tools that a context offers, as `ContextJIT` does."""

    def handles(self, call: ToolCall) -> bool:
        """Return whether the call is one of its own."""

    async def aanswer(self, call: ToolCall) -> Any:
        """Answer the call."""


class Thread:
    """The mutable state of one `Context`. Hold `lock` to change it.

    A prompt that fails, or that nobody waits for any more, leaves the thread as it was before. So
    does any change that its `log` cannot write, where it has one.
    """

    __slots__ = (
        "_last_call",
        "_partly_shown",
        "entries",
        "late",
        "lock",
        "log",
        "remainders",
        "state",
        "store",
        "tool_handler",
    )

    def __init__(self, format: str) -> None:  # noqa: A002  the field's word
        """Start empty; ``format`` is that of the entries."""
        self.lock = HybridLock()
        self.entries = Entries(format)
        self.late = LateBinding()
        self.state = PromptState()
        self.remainders = Remainders()
        self.store = ContextStore()
        self.tool_handler: ToolHandler | None = None
        self.log: ThreadLog | None = None
        self._partly_shown = PartlyShownTexts()
        self._last_call: PromptCall | None = None
        """The last change, where it was a call of `prompt`."""

    @contextmanager
    def attempt(self, call: PromptCall) -> Iterator[None]:
        """Make a prompt; whatever the block raises, the thread is as it was before."""
        with self.change(ends_turn=True) as before:
            call.before = before
            self._last_call = call
            yield

    @contextmanager
    def change(self, *, ends_turn: bool = False) -> Iterator[Snapshot]:
        """Change the thread; whatever the block or its log raises, it is as it was before.

        The log writes the change at once where it writes each of them, or the change ``ends_turn``.
        """
        self.settle()
        log = self.log
        mark = None if log is None else log.mark
        before = Snapshot(len(self.entries), self.state, self.late.copy(), self.store.mark(), mark)
        try:
            yield before
            if log is not None and (ends_turn or log.saves_entries):
                if ends_turn:
                    self.update_store()
                log.save(self.entries, self.state, self.late.waiting, self.store)
        except BaseException:
            self._last_call = None
            self._restore(before)
            if log is not None and mark is not None:
                log.doubt(mark)
            raise

    def undo_abandoned(self) -> None:
        """Restore what was before the last prompt, where nobody received that prompt."""
        before = self._before_abandoned()
        if before is not None:
            if self.log is not None and before.log is not None:
                self.log.undo(before.log)
            self._last_call = None
            self._restore(before)

    def settle(self) -> None:
        """Undo an abandoned prompt; any other stands from now on. Call it before a change."""
        self.undo_abandoned()
        self._last_call = None

    def update_store(self) -> None:
        """Have the context store read what was added since it last did."""
        self.store.leave_out(self.entries.taken_back)
        start, end = self.store.seen, len(self.entries)
        if start < end:
            self.store.update(self.entries.since(start).numbered_messages, end)

    def history(self) -> list[Any]:
        """Return all entries. It takes no lock, so it answers while a prompt is made."""
        before = self._before_abandoned()
        return self.entries.all(None if before is None else before.entries)

    def shown_indices(self) -> list[int]:
        """Return the indices of the entries the model sees, with those since its last prompt."""
        return [*self.state.shown.history.indices, *range(self.state.seen, len(self.entries))]

    def visible_items(self) -> frozenset[str]:
        """Return the ids of the items that the model sees whole, entries among them."""
        items = visible_items(self.state.shown, self.late.sections)
        return items.union(map(EntryId.of, self.shown_indices()))

    def partly_shown(self) -> tuple[PartlyShown, ...]:
        """Return the texts of entries of which the last prompt shows only a part."""
        if self.state.ir is None:
            return ()
        entries = self.entries
        return self._partly_shown.of(self.state.ir.history, entries.at, entries.time_at)

    def _before_abandoned(self) -> Snapshot | None:
        call = self._last_call
        return call.before if call is not None and call.is_given_up else None

    def _restore(self, before: Snapshot) -> None:
        self.entries.back_to(before.entries)
        self.state, self.late = before.state, before.late
        self.store.back_to(before.store)
